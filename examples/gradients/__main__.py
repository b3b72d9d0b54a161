"""`python -m examples.gradients [NAME]`: print the derivation of one function of the table, or of all."""

import argparse
import sys
from collections.abc import Sequence

from examples.gradients.functions import TABLE
from tinytensor.cli.output import run_command


def main(arguments: Sequence[str] | None = None) -> int:
    """Derive and print; 0 if everything is proved, 1 if not."""
    parser = argparse.ArgumentParser(
        prog="python -m examples.gradients",
        description="Derive the gradient of a function from a paper for any size, and prove it.",
    )
    parser.add_argument("name", nargs="?", choices=TABLE, metavar="NAME", help=f"one of {', '.join(TABLE)}")
    name = parser.parse_args(arguments).name
    proved = True
    for entry in [TABLE[name]] if name else TABLE.values():
        derivation = entry.derived()
        print(f"{entry.title}. {entry.about}\n{entry.source}\n\n{derivation}\n")
        proved = proved and derivation.proved
    return 0 if proved else 1


if __name__ == "__main__":
    sys.exit(run_command(main))
