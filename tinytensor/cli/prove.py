"""`tinytensor prove`: are the gradients of a function its derivatives, at these shapes?"""

import argparse

from tinytensor.cli.arguments import INPUTS, command, load_function, parse_value, run
from tinytensor.symbolic import prove


def _prove(options: argparse.Namespace) -> int:
    """Print the verdict; 0 if proved, at the shapes and under the conditions that its line states, 1 if not."""
    function, _ = load_function(options.function)
    inputs = [parse_value(text) for text in options.inputs]
    proof = prove(function, *inputs, size=options.size)
    print(proof)
    return 0 if proof else 1


def main(arguments: list[str], program: str) -> int:
    """Print the verdict; 2 if the arguments cannot be used."""
    about = "Prove that the gradients of a function are its derivatives, over symbols, by SymPy."
    parser = command(program, "INPUT", INPUTS, about)
    parser.epilog = (
        "The exit code is 0 if they are proved: at these shapes alone, and under the conditions in the line that "
        "says proved (signs, denominators, inputs as passed in); 1 if not, 2 if the arguments cannot be used."
    )
    parser.add_argument("--size", choices=["small", "real"], default="small", help="real: at one random point")
    return run(program, _prove, parser.parse_args(arguments))
