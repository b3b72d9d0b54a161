"""`tinytensor derive`, `prove` and `explain`: what a file defines, read over symbols, or described in words.

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
from tinytensor.io.files import writing
from tinytensor.nn import Module, functional
from tinytensor.ops.creation import ones_like, randn
from tinytensor.ops.generator import manual_seed
from tinytensor.platform.distribution import programs

ARGUMENTS = "X=N,D (a tensor of these sizes), t=N:K or t=N<K (integers below K), m=, (a tensor of no dimension), "
ARGUMENTS += "or another Python value, as in eps=0.1"
WHERE = "a condition on the sizes, such as 'N > 3' or 'N %% 2 == 0': one case of a function that asks about its sizes"
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
    """Print the verdict; 0 if proved, at the shapes and under the conditions that its line states, 1 if not."""
    function, _ = found(options.place)
    inputs = [value(text) for text in options.inputs]
    proof = importlib.import_module("tinytensor.symbolic").prove(function, *inputs, size=options.size)
    print(proof)
    return 0 if proof else 1


def argument(text: str) -> tuple[str, Any]:
    """An argument of `derive` as it was typed: X=N,D is a tensor of these sizes, t=N:K holds integers below K."""
    name, equals, given = text.partition("=")
    if not name.isidentifier() or not equals:
        raise Refused(f"the argument {text!r} is not understood; an argument is {ARGUMENTS}")
    if ":" in given or "<" in given:
        shape, _, below = given.replace("<", ":").rpartition(":")
        return name, importlib.import_module("tinytensor.symbolic").Index(_sizes(shape), below)
    try:
        literal = ast.literal_eval(given)
    except (ValueError, SyntaxError):
        return name, _sizes(given)
    return name, literal if not isinstance(literal, tuple) else _sizes(given)


def _sizes(text: str) -> tuple[str | int, ...]:
    parts = [part.strip() for part in text.split(",")]
    return tuple(int(part) if part.isdigit() else part for part in parts if part)


def derive(options: argparse.Namespace) -> int:
    """Print the gradients for any size; 0 if they are proved, 1 if not."""
    function, _ = found(options.place)
    symbolic = importlib.import_module("tinytensor.symbolic")
    arguments = dict(argument(text) for text in (*options.inputs, *options.args.split()))
    derivation = symbolic.derive(function, options.where, **arguments)
    print(derivation.latex() if options.latex else derivation)
    return 0 if derivation.proved else 1


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
        with writing("the page", options.page):
            page = viz.walkthrough(thing, options.page, names, gradient=gradient)
        print(f"written to {page}: open it in a browser")
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
    """Run the reading that the last word of `program` names; 2 if the arguments cannot be used."""
    name = program.rpartition(" ")[2]
    parser = argparse.ArgumentParser(program)
    parser.add_argument("place", metavar="FILE.py:NAME", help="a function, operation or module; or one of tinytensor")
    word, about = ("ARGUMENT", ARGUMENTS) if name == "derive" else ("INPUT", INPUTS)
    parser.add_argument("inputs", metavar=word, nargs="*", help=about)
    if name == "prove":
        parser.description = "Prove that the gradients of a function are its derivatives, over symbols, by SymPy."
        parser.epilog = (
            "The exit code is 0 if they are proved: at these shapes alone, and under the conditions in the line that "
            "says proved (signs, denominators, inputs as passed in); 1 if not, 2 if the arguments cannot be used."
        )
        parser.add_argument("--size", choices=["small", "real"], default="small", help="real: at one random point")
    elif name == "derive":
        parser.description = "Derive the gradients of a function for sizes that are symbols, and prove them."
        parser.add_argument("--args", metavar="TEXT", default="", help="the same arguments, as one text: 'X=N,D t=N<K'")
        parser.add_argument("--where", metavar="CONDITION", action="append", default=[], help=WHERE)
        parser.add_argument("--latex", action="store_true", help="print LaTeX")
    else:
        parser.description = "Describe the backward pass of a tensor, or of a function at random numbers."
        parser.add_argument("--page", metavar="FILE.html", type=Path, help="write a page that steps through it")
        parser.add_argument("--seed", metavar="N", type=int, default=0, help="seed of the random numbers (default: 0)")
    options = parser.parse_args(arguments)
    try:
        return {"derive": derive, "prove": prove, "explain": explain}[name](options)
    except (ValueError, TypeError, RuntimeError, ModuleNotFoundError) as error:
        print(f"tinytensor: {name}: {error}", file=sys.stderr)
        return 2
