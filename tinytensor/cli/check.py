"""`tinytensor check`: is a gradient by hand right, for any size? The arguments are those of `derive`."""

import argparse
import sys
import traceback
from typing import Any

from tinytensor.cli.arguments import ERRORS, InvalidArgument, load_function
from tinytensor.cli.derive import ARGUMENTS, WHERE, add_limits, parse_arguments
from tinytensor.symbolic import check

GRADIENT = "W=EXPRESSION, or W=NAME for a function of the file; g is the gradient of the result. Once for each argument"

HESSIAN = "a,b=EXPRESSION: the second derivatives by a and b, of the shape of a followed by that of b; a=... by a twice"
JACOBIAN = "x=EXPRESSION: the derivatives of a result that is no number, of its shape followed by that of x"


def blocks(words: list[str], names: dict[str, Any]) -> dict[Any, Any] | None:
    """The blocks of a Hessian by hand, by their two arguments, of which one may be left out; None if there is none."""
    by_hand: dict[Any, Any] = {}
    for word in words:
        pair, equals, hand = (part.strip() for part in word.partition("="))
        block = tuple(name.strip() for name in pair.split(","))
        if len(block) > 2 or not all(name.isidentifier() for name in block) or not equals or not hand:
            raise InvalidArgument(f"the block {word!r} is not understood; a block is 'w,b=X.T @ p'")
        key = block[0] if len(set(block)) == 1 else block
        if key in by_hand:
            raise InvalidArgument(f"there are two blocks of {pair}: give one")
        by_hand[key] = names[hand] if callable(names.get(hand)) else hand
    return by_hand or None


def gradients(words: list[str], names: dict[str, Any]) -> dict[str, Any] | None:
    """The gradients by hand: texts, or functions of the file; None if there is none."""
    by_hand: dict[str, Any] = {}
    for word in words:
        name, equals, hand = (part.strip() for part in word.partition("="))
        if not name.isidentifier() or not equals or not hand:
            raise InvalidArgument(f"the gradient {word!r} is not understood; a gradient is 'W=X.T @ g'")
        if name in by_hand:
            raise InvalidArgument(f"there are two gradients of {name}: give one")
        by_hand[name] = names[hand] if callable(names.get(hand)) else hand
    return by_hand or None


def main(arguments: list[str], program: str) -> int:
    """Print the verdict; 0 if all gradients are proved, 1 if not, 2 if the arguments cannot be used.

    A gradient that is proved for some sizes only is not proved, unless --where says so; its line names the conditions.
    """
    parser = argparse.ArgumentParser(program)
    parser.description = "Prove gradients that were derived by hand for any size, or say which term is wrong."
    parser.add_argument("function", metavar="FILE.py:NAME", help="a function of tensors, or an autograd.Function")
    parser.add_argument("inputs", metavar="ARGUMENT", nargs="*", help=ARGUMENTS)
    parser.add_argument("--args", metavar="TEXT", default="", help="the same arguments, as one text: 'X=N,D t=N<K'")
    parser.add_argument("--where", metavar="CONDITION", action="append", default=[], help=WHERE)
    parser.add_argument("--gradient", metavar="W=...", action="append", default=[], help=GRADIENT)
    add_limits(parser)
    parser.add_argument("--hessian", metavar="a,b=...", action="append", default=[], help=HESSIAN)
    parser.add_argument("--jacobian", metavar="x=...", action="append", default=[], help=JACOBIAN)
    options = parser.parse_args(arguments)
    try:
        function, names = load_function(options.function)
        inputs = parse_arguments(options)
        by_hand = {"hessian": blocks(options.hessian, names), "jacobian": gradients(options.jacobian, names)}
        by_hand |= {"where": options.where, "limit": options.limit, "progress": options.progress}
        result = check(function, gradients(options.gradient, names), **by_hand, **inputs)
    except SyntaxError as error:
        print("tinytensor: check: " + "".join(traceback.format_exception_only(error)).strip(), file=sys.stderr)
        return 2
    except (*ERRORS, NameError) as error:
        print(f"tinytensor: check: {error}", file=sys.stderr)
        return 2
    print(result)
    if not result and all(one.verdict == "proved" for one in result.verdicts.values()):
        print("tinytensor: check: proved for some sizes only; --where accepts that", file=sys.stderr)
    return 0 if result else 1
