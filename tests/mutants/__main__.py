"""Plant mistakes in the engine and in the derivations, and see whether their proofs notice every one.

    python -m tests.mutants            by hand, and a sample of those made mechanically: half a minute
    python -m tests.mutants --all      every mistake that can be made mechanically: some minutes
    python -m tests.mutants --kernels  every line of the kernels, on two processes (--share 3/8: a part of it)
    python -m tests.mutants --modules  every line of tinytensor/nn, by the tests that come there (--share, too)
    python -m tests.mutants --engine   and of the engine's core
    python -m tests.mutants --recordings  and of recordings of steps

Exits with 1 if a mistake survives, and names it.
"""

import argparse
import sys
from functools import partial

from tests import conftest  # noqa: F401 (before the engine is imported: new memory holds NaN, as in all tests)
from tests.tools.sharding import share

from . import engine, formulas, loops, modules, options


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.mutants", description="Plant mistakes and see whether the proofs notice them."
    )
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--all", action="store_true", help="every mistake that can be made, not one in a few")
    which.add_argument("--kernels", action="store_true", help="nothing but kernels, line by line")
    for option, part in modules.PARTS.items():
        which.add_argument(f"--{option}", action="store_true", help=f"nothing but {part.name}, line by line")
    parser.add_argument("--share", type=share, metavar="K/N", help="the K-th of N shares of what goes line by line")
    asked = parser.parse_args()
    if asked.share and not any(vars(asked)[option] for option in ("kernels", *modules.PARTS)):
        parser.error(f"--share needs one of --kernels, --{', --'.join(modules.PARTS)}")
    one_in = 1 if asked.all else 5
    part = "every change" if one_in == 1 else f"one in {one_in} of the changes"
    survivors = 0
    piece, of = asked.share or (0, 1)
    line_by_line = f"share {piece + 1} of {of} of the changes to lines of "
    tries = [
        ("rules, kernels and the walk over the tape, by hand", engine.by_hand),
        (f"{part} that can be made mechanically in rules and definitions of ops/", lambda: engine.rules(one_in)),
        (
            f"{part} to values in the kernels of fused operations and of gradients, but for attention's",
            lambda: engine.kernels(one_in),
        ),
        ("modules, where two options meet, by hand", options.by_hand),
        ("equations and closed forms of document 003, by hand", formulas.by_hand),
        (f"{part} to equations, derived lines and closed forms", lambda: formulas.mechanically(one_in)),
    ]
    if asked.kernels:
        tries = [(line_by_line + "kernels", lambda: loops.mechanically(piece, of, processes=2))]
    for option, part in modules.PARTS.items():
        if vars(asked)[option]:
            tries = [(line_by_line + part.name, partial(modules.mechanically, option, piece, of))]
    for title, make in tries:
        tally = make()
        survivors += len(tally.survivors)
        print(f"{title}: {tally.report()}\n", flush=True)
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
