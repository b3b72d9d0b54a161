"""What `derive`, `check`, `prove` and `explain` take: a function of a file, and inputs.

The file runs once, as an import runs it. A NAME without a file is looked up in tinytensor and in its nn.functional.
"""

import argparse
import ast
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tinytensor.native.platform.distribution import programs
from tinytensor.nn import functional

INPUTS = "a shape (2,3 or, with one dimension, 3,), or another Python value: a number, None, True, a quoted word"
ERRORS = (ValueError, TypeError, RuntimeError, ModuleNotFoundError)  # of a user's function and of what reads it


class InvalidArgument(ValueError):
    """The arguments cannot be used; the message says why."""


def load_function(reference: str) -> tuple[Any, dict[str, Any]]:
    """What FILE.py:NAME names, and all names of the file; InvalidArgument if the file or the name is not there."""
    file, _, name = reference.rpartition(":")
    if not file:
        for module in (sys.modules["tinytensor"], functional):
            if name in vars(module):
                return vars(module)[name], {}
        advice = f"a function of your own is named as my_file.py:{name}"
        raise InvalidArgument(f"{name!r} is no function of tinytensor; {advice}")
    path = Path(file)
    if not path.is_file():
        raise InvalidArgument(f"there is no file {path}")
    sys.path.insert(0, str(path.resolve().parent))  # as when Python runs the file
    sys.path.append(str(programs()))  # a lesson uses the models; a user's own package of that name comes first
    spec = importlib.util.spec_from_file_location(f"file_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise InvalidArgument(f"{path} is not a Python file: its name has to end in .py")
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    if name not in vars(module):
        raise InvalidArgument(f"{path} defines no {name!r}")
    return vars(module)[name], vars(module)


def parse_value(text: str) -> Any:
    """An input as it was typed: 2,3 is the tuple (2, 3), a shape."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        raise InvalidArgument(f"the input {text!r} is not understood; an input is {INPUTS}") from None


def command(program: str, metavar: str, about: str, description: str) -> argparse.ArgumentParser:
    """A parser of a function and its inputs."""
    parser = argparse.ArgumentParser(program, description=description)
    parser.add_argument(
        "function", metavar="FILE.py:NAME", help="a function, operation or module; or one of tinytensor"
    )
    parser.add_argument("inputs", metavar=metavar, nargs="*", help=about)
    return parser


def run(program: str, subcommand: Callable[[argparse.Namespace], int], options: argparse.Namespace) -> int:
    """The subcommand's exit code; 2 if the arguments cannot be used, which a line says."""
    try:
        return subcommand(options)
    except ERRORS as error:
        print(f"tinytensor: {program.rpartition(' ')[2]}: {error}", file=sys.stderr)
        return 2
