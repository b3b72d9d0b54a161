"""Plant mistakes in the engine and in the derivations, and see whether their proofs notice every one.

    python -m tests.mutants            by hand, and a sample of those made mechanically: half a minute
    python -m tests.mutants --all      every mistake that can be made mechanically: some minutes

Exits with 1 if a mistake survives, and names it.
"""

import argparse
import sys

from . import engine, formulas, options


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.mutants", description="Plant mistakes and see whether the proofs notice them."
    )
    parser.add_argument("--all", action="store_true", help="every mistake that can be made, not one in a few")
    one_in = 1 if parser.parse_args().all else 5
    share = "every change" if one_in == 1 else f"one in {one_in} of the changes"
    survivors = 0
    for title, make in (
        ("rules, kernels and the walk over the tape, by hand", engine.by_hand),
        (f"{share} that can be made mechanically in rules and definitions of ops/", lambda: engine.rules(one_in)),
        (
            f"{share} to values in the kernels of fused operations and of gradients, but for attention's",
            lambda: engine.kernels(one_in),
        ),
        ("modules, where two options meet, by hand", options.by_hand),
        ("equations and closed forms of document 003, by hand", formulas.by_hand),
        (f"{share} to equations, derived lines and closed forms", lambda: formulas.mechanically(one_in)),
    ):
        tally = make()
        survivors += len(tally.survivors)
        print(f"{title}: {tally.report()}\n", flush=True)
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
