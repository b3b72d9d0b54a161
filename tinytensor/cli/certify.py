"""`tinytensor certify`: a certificate that `derive` wrote, checked by Coq's kernel."""

import argparse
from pathlib import Path

from tinytensor.cli.arguments import InvalidArgument, run
from tinytensor.symbolic.certificates.certify import certify


def _certify(options: argparse.Namespace) -> int:
    """Print the theorems and what they rest on; 0 if Coq accepts all, 1 if something is refused."""
    file = Path(options.file)
    if not file.is_file():
        raise InvalidArgument(f"there is no file {file}")
    result = certify(file)
    print(result)
    return 0 if result else 1


def main(arguments: list[str], program: str) -> int:
    """Check a certificate; 2 if there is no such file, or no Coq."""
    about = "Let Coq's kernel check a certificate of gradients, and print its theorems and the axioms under them."
    parser = argparse.ArgumentParser(program, description=about)
    parser.add_argument("file", metavar="FILE.v", help="what `tinytensor derive ... --certificate FILE.v` wrote")
    return run(program, _certify, parser.parse_args(arguments))
