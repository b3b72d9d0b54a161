"""The short suite on the reference backend: `python -m tests.tools.reference`, with Numba or in an environment without.

It needs NumPy, SymPy, safetensors and pytest. It runs the samples of all operations (values, gradients, errors), their
special points, the tape, modules, optimizers, and the README's first program.
"""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
TESTS = "test_samples.py autograd nn optim ops/test_special_points.py platform/test_backend.py"
LEFT_OUT = {  # tests of what only the native backend has
    "nn/test_pairwise.py": "it plants mistakes in native kernels",
    "nn/test_symbols.py": "symbols are proved on native kernels",
    "autograd/test_autograd.py::test_a_loop_over_parts_makes_zeros_once": "it counts launches of a native kernel",
    "autograd/test_derivatives_of_functions.py::test_compiled_grad_replays": "no step is recorded",
    "optim/test_optim.py::test_reduce_on_plateau_is_refused_in_recordings": "no step is recorded",
}


def command() -> list[str]:
    """The command that runs the tests."""
    files = [f"tests/{test}" for test in TESTS.split()]
    left_out = [f"--{'deselect' if '::' in test else 'ignore'}=tests/{test}" for test in LEFT_OUT]
    return [sys.executable, "-m", "pytest", *files, *left_out, *sys.argv[1:]]


if __name__ == "__main__":
    environment = os.environ | {"TINYTENSOR_BACKEND": "reference"}
    sys.exit(subprocess.run(command(), cwd=ROOT, env=environment).returncode)
