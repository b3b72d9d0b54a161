"""`tinytensor explain`: the backward pass of a tensor or a function in words, or as a page."""

import argparse
import inspect
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tinytensor.cli.arguments import INPUTS, InvalidArgument, command, load_function, parse_value, run
from tinytensor.core.tensor import Tensor
from tinytensor.interop.io.files import writing
from tinytensor.nn import Module
from tinytensor.ops.creation import ones_like, randn
from tinytensor.ops.generator import manual_seed
from tinytensor.viz import explain, walkthrough


def _explain(options: argparse.Namespace) -> int:
    """Print the backward pass in words, or write it as a page; for inputs that are shapes, numbers are drawn."""
    result, names = load_function(options.function)
    if not isinstance(result, Tensor):
        if not callable(result):
            raise InvalidArgument(f"{options.function} is neither a tensor nor a function")
        manual_seed(options.seed)
        inputs = [parse_value(text) for text in options.inputs]
        inputs = [randn(*x, requires_grad=True) if isinstance(x, tuple) else x for x in inputs]
        names = _names(result, inputs)
        result = result(*inputs)
        if not isinstance(result, Tensor):
            raise InvalidArgument(f"{options.function} returned {type(result).__name__}; one tensor is needed")
    gradient = None if result.numel() == 1 else ones_like(result)  # that of the sum of its entries
    if options.page is None:
        print(explain(result, names, gradient))
    else:
        with writing("the page", options.page):
            page = walkthrough(result, options.page, names, gradient=gradient)
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
    """Print the backward pass, or write the page; 2 if the arguments cannot be used."""
    about = "Describe the backward pass of a tensor, or of a function at random numbers."
    parser = command(program, "INPUT", INPUTS, about)
    parser.add_argument("--page", metavar="FILE.html", type=Path, help="write a page that steps through it")
    parser.add_argument("--seed", metavar="N", type=int, default=0, help="seed of the random numbers (default: 0)")
    return run(program, _explain, parser.parse_args(arguments))
