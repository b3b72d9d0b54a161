"""`tinytensor derive`: the gradients of a function, its Hessian or its Jacobian, for sizes that are symbols."""

import argparse
import ast
import sys
from typing import Any

from tinytensor.cli.arguments import InvalidArgument, command, load_function, run
from tinytensor.interop.io.files import writing
from tinytensor.symbolic import Derivation, Index, derive, gauss_newton, hvp, jvp
from tinytensor.symbolic.time_limit import SECONDS

ARGUMENTS = "X=N,D (a tensor of these sizes), t=N:K or t=N<K (integers below K), m=, (a tensor of no dimension), "
ARGUMENTS += "or another Python value, as in eps=0.1"
WHERE = (
    "a condition on the sizes, such as 'N > 3' or 'N %% 2 == 0': one case of a function that asks about its sizes; or "
    "what is known of a matrix, 'symmetric(S)' or 'positive_definite(S)'"
)

WRT = "of --order 2, --jacobian, --jvp, --hvp and --gauss-newton: an argument that is meant; once for each, or all"


def parse_argument(text: str) -> tuple[str, Any]:
    """An argument of `derive` as it was typed: X=N,D is a tensor of these sizes, t=N:K holds integers below K."""
    name, equals, description = text.partition("=")
    if not name.isidentifier() or not equals:
        raise InvalidArgument(f"the argument {text!r} is not understood; an argument is {ARGUMENTS}")
    if ":" in description or "<" in description:
        shape, _, below = description.replace("<", ":").rpartition(":")
        return name, Index(_sizes(shape), below)
    try:
        literal = ast.literal_eval(description)
    except (ValueError, SyntaxError):
        return name, _sizes(description)
    return name, literal if not isinstance(literal, tuple) else _sizes(description)


def parse_arguments(options: argparse.Namespace) -> dict[str, Any]:
    """The arguments of a command line; one that is given twice is refused."""
    arguments: dict[str, Any] = {}
    for text in (*options.inputs, *options.args.split()):
        name, value = parse_argument(text)
        if name in arguments:
            raise InvalidArgument(f"the argument {name} is given twice: give it once")
        arguments[name] = value
    return arguments


def _sizes(text: str) -> tuple[str | int, ...]:
    parts = [part.strip() for part in text.split(",")]
    return tuple(int(part) if part.isdigit() else part for part in parts if part)


def add_limits(parser: argparse.ArgumentParser) -> None:
    """The options of the time limit and the progress bar."""
    about = "seconds of computing after which the work ends, with what is known by then; none: no limit (default 20)"
    parser.add_argument("--limit", metavar="SECONDS", type=_limit, default=SECONDS, help=about)
    about = "show how much is done (by default on a terminal, after two seconds)"
    parser.add_argument("--progress", action=argparse.BooleanOptionalAction, default=None, help=about)


def _limit(text: str) -> float | None:
    try:
        return None if text.lower() == "none" else float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds, and not none") from None


def _derive(options: argparse.Namespace) -> int:
    """Print the derivatives for any size; 0 if they are proved, 1 if not."""
    function, _ = load_function(options.function)
    arguments = parse_arguments(options)
    common = {"where": options.where, "limit": options.limit, "progress": options.progress, "wrt": options.wrt}
    if options.gauss_newton:
        derivation = gauss_newton(function, options.gauss_newton, **common, **arguments)
    elif options.jvp or options.hvp:
        derivation = (jvp if options.jvp else hvp)(function, **common, **arguments)
    else:
        derivation = derive(function, order=options.order, jacobian=options.jacobian, **common, **arguments)
    print(derivation.latex() if options.latex else derivation)
    if options.certificate and not isinstance(derivation, Derivation):
        raise ValueError(
            "derive: --certificate is for gradients; leave out --order, --jacobian, --jvp, --hvp and the like"
        )
    if options.certificate and derivation.proved:
        with writing("the certificate", options.certificate):
            derivation.certificate(options.certificate)
        print(f"written: {options.certificate}, for tinytensor certify", file=sys.stderr)
    return 0 if derivation.proved else 1


def main(arguments: list[str], program: str) -> int:
    """Print the derivatives; 2 if the arguments cannot be used."""
    about = "Derive the gradients of a function for sizes that are symbols, and prove them."
    parser = command(program, "ARGUMENT", ARGUMENTS, about)
    parser.add_argument("--args", metavar="TEXT", default="", help="the same arguments, as one text: 'X=N,D t=N<K'")
    parser.add_argument("--where", metavar="CONDITION", action="append", default=[], help=WHERE)
    add_limits(parser)
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--order", type=int, choices=(1, 2), default=1, help="2: the Hessian of a number, in blocks")
    what.add_argument("--jacobian", action="store_true", help="the Jacobian of a result that is no number")
    what.add_argument("--jvp", action="store_true", help="the derivative in a direction of the arguments")
    what.add_argument("--hvp", action="store_true", help="the Hessian times a direction")
    what.add_argument("--gauss-newton", metavar="LINE", help="the Gauss-Newton matrix of this line times a direction")
    parser.add_argument("--wrt", metavar="ARGUMENT", action="append", default=[], help=WRT)
    parser.add_argument("--latex", action="store_true", help="print LaTeX")
    parser.add_argument("--certificate", metavar="FILE.v", help="write theorems for Coq; see `tinytensor certify`")
    return run(program, _derive, parser.parse_args(arguments))
