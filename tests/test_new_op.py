"""What a new operation costs: to a copy of the project, softplus is added just as .github/CONTRIBUTING.md says.

Its form, its line in the sample table, and the command that writes anew what follows from the two; then every test that
looks at all operations must know it: against PyTorch, by finite differences, compiled, over symbols, in the stubs.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FORM, LINE = re.findall(r"```python\n(.*?)```", (ROOT / ".github" / "CONTRIBUTING.md").read_text(), re.DOTALL)
COPIED = ("tinytensor", "derivations", "models", "tests", "pyproject.toml")
TABLE = "UNARY = {  # name: spellings, range\n"


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    folder = tmp_path_factory.mktemp("copy")
    for name in COPIED:
        there = ROOT / name
        if there.is_dir():
            shutil.copytree(there, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(there, folder)
    with (folder / "tinytensor" / "ops" / "elementwise.py").open("a") as file:
        file.write(f"\n\n{FORM}")
    samples = folder / "tests" / "samples.py"
    text = samples.read_text()
    assert TABLE in text
    samples.write_text(text.replace(TABLE, TABLE + LINE))
    return folder


def run(folder: Path, *command: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, *command],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(folder)} | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-5000:]
    return done.stdout


def test_a_formula_is_a_form_a_line_and_a_command(copy):
    pytest.importorskip("torch", reason="PyTorch's results are needed for the new samples")
    run(copy, "tests/regenerate.py")
    proofs = ("tests/symbolic/test_ops.py", "tests/symbolic/test_compiled.py", "tests/symbolic/test_exact_samples.py")
    told = run(copy, "-m", "pytest", "-vv", *proofs, "-k", "softplus")
    assert "test_gradients_are_the_derivatives[softplus-0] PASSED" in told
    assert "test_compiled_and_source_agree[softplus-float32] PASSED" in told
    assert "test_exact_numbers_give_what_floats_give[nn.functional.softplus(" in told
    told = run(copy, "-m", "pytest", "-vv", "tests/test_samples.py", "-k", "softplus", NUMBA_DISABLE_JIT="1")
    for what in ("test_value", "test_gradient", "test_float32", "test_finite_differences", "test_second_derivative"):
        assert f"{what}[nn.functional.softplus(T(3, 5, low=-4.0, high=4.0))] PASSED" in told
    complete = "stored_tables or every_op_has or differentiated_twice or every_kernel or stub_is or numpy_counterpart"
    whole = ("tests/test_samples.py", "tests/symbolic", "tests/test_stubs.py", "tests/kernels/test_elementwise.py")
    run(copy, "-m", "pytest", *whole, "-k", complete, NUMBA_DISABLE_JIT="1")
    assert "def softplus(x: Tensor" in (copy / "tinytensor" / "nn" / "functional.pyi").read_text()
