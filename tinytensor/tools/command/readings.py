"""`tinytensor prove` and `tinytensor explain`: what a file defines, proved over symbols, or described in words.

The file runs once, as an import runs it. A NAME without a file is looked up in tinytensor and in its nn.functional.
"""

import argparse
import ast
import importlib
import importlib.util
import inspect
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tinytensor.core.tensor import Tensor
from tinytensor.cpython.distribution import programs
from tinytensor.nn import Module, functional
from tinytensor.ops.creation import ones_like, randn
from tinytensor.ops.generator import manual_seed

INPUTS = "a shape (2,3 or, with one dimension, 3,), or another Python value: a number, None, True, a quoted word"


class Refused(ValueError):
    """The arguments cannot be used; the message says why."""


def found(place: str) -> tuple[Any, dict[str, Any]]:
    """What FILE.py:NAME names, and all names of the file; Refused if the file or the name is not there."""
    file, _, name = place.rpartition(":")
    if not file:
        for module in (importlib.import_module("tinytensor"), functional):
            if name in vars(module):
                return vars(module)[name], {}
        raise Refused(f"{name!r} is no function of tinytensor; a function of your own is named as my_file.py:{name}")
    path = Path(file)
    if not path.is_file():
        raise Refused(f"there is no file {path}")
    sys.path.insert(0, str(path.resolve().parent))  # as when Python runs the file
    sys.path.append(str(programs()))  # a lesson uses the models; a user's own package of that name comes first
    spec = importlib.util.spec_from_file_location(f"file_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise Refused(f"{path} is not a Python file: its name has to end in .py")
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    if name not in vars(module):
        raise Refused(f"{path} defines no {name!r}")
    return vars(module)[name], vars(module)


def value(text: str) -> Any:
    """An input as it was typed: 2,3 is the tuple (2, 3), a shape."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        raise Refused(f"the input {text!r} is not understood; an input is {INPUTS}") from None


def prove(options: argparse.Namespace) -> int:
    """Print the verdict; 0 if proved, 1 if not."""
    function, _ = found(options.place)
    inputs = [value(text) for text in options.inputs]
    proof = importlib.import_module("tinytensor.symbolic").prove(function, *inputs, size=options.size)
    print(proof)
    return 0 if proof else 1


def explain(options: argparse.Namespace) -> int:
    """Print the backward pass in words, or write it as a page; for inputs that are shapes, numbers are drawn."""
    thing, names = found(options.place)
    if not isinstance(thing, Tensor):
        if not callable(thing):
            raise Refused(f"{options.place} is neither a tensor nor a function")
        manual_seed(options.seed)
        inputs = [value(text) for text in options.inputs]
        inputs = [randn(*x, requires_grad=True) if isinstance(x, tuple) else x for x in inputs]
        names = _names(thing, inputs)
        thing = thing(*inputs)
        if not isinstance(thing, Tensor):
            raise Refused(f"{options.place} returned {type(thing).__name__}; one tensor is needed")
    gradient = None if thing.numel() == 1 else ones_like(thing)  # that of the sum of its entries
    viz = importlib.import_module("tinytensor.viz")
    if options.page is None:
        print(viz.explain(thing, names, gradient))
    else:
        print(f"written to {viz.walkthrough(thing, options.page, names, gradient=gradient)}: open it in a browser")
    return 0


def _names(function: Any, inputs: Sequence[Any]) -> Any:
    """The function's own names for its inputs; those of a module's parameters."""
    if isinstance(function, Module):
        return function
    try:
        parameters = list(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        parameters = [f"input {i}" for i in range(1, len(inputs) + 1)]
    return {name: x for name, x in zip(parameters, inputs) if isinstance(x, Tensor)}


def main(arguments: list[str], program: str) -> int:
    """Run `prove` or `explain`, as the last word of `program` says; 2 if the arguments cannot be used."""
    name = program.rpartition(" ")[2]
    parser = argparse.ArgumentParser(program)
    parser.add_argument("place", metavar="FILE.py:NAME", help="a function, operation or module; or one of tinytensor")
    parser.add_argument("inputs", metavar="INPUT", nargs="*", help=INPUTS)
    if name == "prove":
        parser.description = "Prove that the gradients of a function are its derivatives, over symbols, by SymPy."
        parser.add_argument("--size", choices=["small", "real"], default="small", help="real: at one random point")
    else:
        parser.description = "Describe the backward pass of a tensor, or of a function at random numbers."
        parser.add_argument("--page", metavar="FILE.html", type=Path, help="write a page that steps through it")
        parser.add_argument("--seed", metavar="N", type=int, default=0, help="seed of the random numbers (default: 0)")
    options = parser.parse_args(arguments)
    try:
        return prove(options) if name == "prove" else explain(options)
    except (ValueError, TypeError, RuntimeError, ModuleNotFoundError) as error:
        print(f"tinytensor: {name}: {error}", file=sys.stderr)
        return 2
