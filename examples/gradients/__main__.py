"""`python -m examples.gradients [NAME]`: print the derivation of one function of the table, or of all."""

import argparse
import sys
from collections.abc import Sequence

from examples.gradients.functions import TABLE, is_late
from tinytensor.cli.output import run_command
from tinytensor.symbolic import TooLong


def main(arguments: Sequence[str] | None = None) -> int:
    """Derive and print; 0 if all is proved that is derived within its limit, 1 if something is not."""
    parser = argparse.ArgumentParser(
        prog="python -m examples.gradients",
        description="Derive the gradient of a function from a paper for any size, and prove it.",
    )
    parser.add_argument("name", nargs="?", choices=TABLE, metavar="NAME", help=f"one of {', '.join(TABLE)}")
    name = parser.parse_args(arguments).name
    proved = True
    for entry in [TABLE[name]] if name else TABLE.values():
        print(f"{entry.title}. {entry.about}\n{entry.source}\n")
        try:
            derivation = entry.derived()
        except TooLong as error:
            print(f"NOT proved: {error}\n")
            continue
        print(f"{derivation}\n")
        proved = proved and (derivation.proved or is_late(derivation))
    return 0 if proved else 1


if __name__ == "__main__":
    sys.exit(run_command(main))
