"""`tinytensor cache`: the kept builds of kernels."""

import argparse
import sys

from tinytensor.cli.environment import cache_size, clear_cache
from tinytensor.interop.io.files import reason_of
from tinytensor.native.runtime.cache import root


def main(arguments: list[str], program: str) -> int:
    """Print where the builds are and their size, or delete them."""
    parser = argparse.ArgumentParser(program, description="The builds of kernels that are kept between runs.")
    parser.add_argument("--clear", action="store_true", help="delete them; they are made anew where they are needed")
    if parser.parse_args(arguments).clear:
        try:
            print(f"{root()}: {clear_cache() / 1e6:.1f} MB deleted")
        except PermissionError as error:
            print(f"tinytensor: cache: {error.filename} cannot be deleted: {reason_of(error)}", file=sys.stderr)
            return 1
    else:
        print(f"{root()}: {cache_size() / 1e6:.1f} MB")
    return 0
