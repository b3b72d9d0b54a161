"""`tinytensor course FOLDER`: the lessons in a folder of one's own, with the models and derivations that they use.

The folder looks like a clone without the engine, which is installed: so a lesson runs there as it stands.
"""

import argparse
import shlex
import shutil
import sys
from pathlib import Path

from tinytensor.interop.io.files import NotWritten, writing
from tinytensor.native.platform.distribution import install, programs

LEFT_OUT = ("__pycache__", "site", "mark", "figures")  # the last three work on files that only a clone has


def write(folder: Path) -> None:
    """Copy the lessons and what they use into a new folder; FileExistsError if there is something in it."""
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise FileExistsError(f"{folder} exists already, and nothing was changed: name a new folder")
    for name in ("examples", "models", "derivations"):
        source = programs() / name

        def left_out(path: str, names: list[str], top: Path = source) -> list[str]:
            return [n for n in names if n == "__pycache__" or (n in LEFT_OUT and Path(path) == top)]

        with writing("the course", folder):
            try:
                shutil.copytree(source, folder / name, ignore=left_out, copy_function=_copy)
            except shutil.Error as error:
                raise NotWritten(error.args[0][0][2]) from None  # that of the first file; the others have its reason


def _copy(source: str, to: str) -> str:
    with writing("a file of the course", to, lambda: "the folder is not whole: remove it"):
        return shutil.copy2(source, to)


def main(arguments: list[str], program: str) -> int:
    """Write the course; 1 if the folder cannot be written."""
    parser = argparse.ArgumentParser(program, description="Write the lessons of the course into a new folder.")
    parser.add_argument("folder", nargs="?", type=Path, default=Path("course"), help="default: course")
    folder = parser.parse_args(arguments).folder
    try:
        write(folder)
    except OSError as error:
        print(f"tinytensor: course: {error}", file=sys.stderr)
        return 1
    print(f"The course is in {folder}; {folder / 'examples' / 'README.md'} describes it. Begin with")
    print(f"    cd {shlex.quote(str(folder))}")
    print("    python examples/00_nudge.py")
    print(f"Lessons draw pictures with matplotlib, which the extra viz brings: {install('viz')}")
    return 0
