"""Is a wrong gradient by hand ever called proved?

    python -m tests.fuzz.soundness                                        a sample: some minutes
    python -m tests.fuzz.soundness --functions 500 --gradients 40 --seed 0   20,000 pairs: about an hour

Random functions are derived for any size, and gradients by hand of each are checked: right ones in many words, and
wrong ones by planted mistakes. Numbers at sizes from 1 to 9 decide which are wrong. Exits with 1 if a wrong one is
called proved, a right one is refuted, an error ends a check, or less than four fifths of the right ones are proved.
"""

import argparse
import sys
from collections import Counter

from .pairs import Tally, fuzz

SHARE = 0.8  # of the right ones, which are proved


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.soundness", description=__doc__.splitlines()[0])
    parser.add_argument("--functions", type=int, default=25, help="how many random functions (default: 25)")
    parser.add_argument("--gradients", type=int, default=40, help="gradients by hand of each (default: 40)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--show", type=int, default=0, metavar="N", help="print so many of what is not proved")
    options = parser.parse_args()
    tally, shown, every = Tally(), Counter(), 0
    for every, tally in enumerate(fuzz(options.functions, options.gradients, options.seed), 1):
        mistakes = {"WRONG, AND PROVED": tally.unsound, "RIGHT, AND REFUTED": tally.refuted, "ERROR": tally.errors}
        for title, ones in mistakes.items():
            for one in ones[shown[title] :]:
                print(f"{title}:\n{one}\n", flush=True)
            shown[title] = len(ones)
        if every % 25 == 0:
            print(f"... {every} functions\n{tally.report()}\n", file=sys.stderr, flush=True)
    for title, texts in (("not derived", tally.refusals), ("undecided", tally.undecided)):
        for text in texts[: options.show]:
            print(f"{title}: {text}\n")
    print(f"{every} functions, seed {options.seed}:\n{tally.report()}")
    return 1 if tally.unsound or tally.refuted or tally.errors or tally.share_proved < SHARE else 0


if __name__ == "__main__":
    sys.exit(main())
