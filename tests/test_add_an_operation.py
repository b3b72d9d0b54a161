"""An operation costs one place: its declaration, its line among the samples, and one command.

A script adds `tanhshrink` to a copy of the repository, and all that goes by the tables must then hold for it: values
and gradients beside PyTorch's, the stubs, the proof that its rule is the derivative of its formula.
"""

import filecmp
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

# the form and the sample that .github/CONTRIBUTING.md shows
FORM, SAMPLE = re.findall(r"```python\n(.*?)```", (ROOT / ".github" / "CONTRIBUTING.md").read_text(), re.DOTALL)
NEIGHBOUR = 'S(F + "embedding", I(3, high=6), T(6, 4))\n'

APPEARS = """
import tinytensor as tt
import tinytensor.nn.functional as F

x = tt.tensor([-100.0, 0.0, 100.0], requires_grad=True)
expected = [-99.0, 0.0, 99.0]
for y in (tt.tanhshrink(x), x.tanhshrink(), F.tanhshrink(x), tt.nn.Tanhshrink()(x), x.clone().tanhshrink_()):
    assert y.tolist() == expected, y
y.sum().backward()
assert x.grad.tolist() == [1.0, 0.0, 1.0]
"""

OPS = "tests/symbolic/prove/test_ops.py"
BY_THE_TABLES = (
    "tests/docs/test_stubs.py",
    "tests/test_samples.py::test_stored_tables_match_the_samples",
    "tests/kernels/test_definitions.py::test_every_kernel_has_a_proof",
    "tests/derivations/test_engine_proofs.py::test_claims_hold[no operation]",
)


def run(copy: Path, *command: str) -> str:
    """What Python prints in the copy."""
    environment = os.environ | {"PYTHONPATH": str(copy)}
    done = subprocess.run(
        [sys.executable, *command], cwd=copy, env=environment, capture_output=True, text=True, timeout=900
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


def insert(file: Path, before: str, new: str, after: str = "") -> None:
    text = file.read_text()
    assert text.count(before) == 1, f"{before!r} stands in another place now: insert it elsewhere"
    file.write_text(text.replace(before, before + new + after))


def changed_files(one: Path, other: Path) -> set[str]:
    """The files that differ, or that only one of the two has."""
    results, todo = set(), [filecmp.dircmp(one, other, ignore=["__pycache__"])]
    while todo:
        both = todo.pop()
        indices = both.diff_files + both.left_only + both.right_only
        results |= {str((Path(both.left) / name).relative_to(one)) for name in indices}
        todo += both.subdirs.values()
    return results


@pytest.fixture(scope="module")
def copies(tmp_path_factory):
    """The repository as it is, and with the two edits."""
    folder = tmp_path_factory.mktemp("one_place")
    leave = shutil.ignore_patterns("__pycache__", ".*", "runs")
    before, after = (shutil.copytree(ROOT, folder / name, ignore=leave) for name in ("before", "after"))
    with (after / "tinytensor" / "ops" / "elementwise.py").open("a") as file:
        file.write(f"\n\n{FORM}")
    insert(after / "tests" / "samples" / "ops.py", NEIGHBOUR, SAMPLE)
    return before, after


@pytest.mark.slow
def test_operation_needs_form_sample_and_one_command(copies):
    before, after = copies
    assert changed_files(before, after) == {"tinytensor/ops/elementwise.py", "tests/samples/ops.py"}
    has_torch = importlib.util.find_spec("torch") is not None
    run(
        after, *(["-m", "tests.tools.regenerate"] if has_torch else ["-m", "tinytensor.utils.docs.stubs"])
    )  # the one command
    stubs = ("core/tensor.pyi", "__init__.pyi", "nn/__init__.pyi", "nn/functional.pyi")
    generated = {f"tinytensor/{name}" for name in stubs}
    tables = {name for name in changed_files(before, after) if name.startswith("tests/samples/oracle/")}
    assert changed_files(before, after) - tables == generated | {
        "tinytensor/ops/elementwise.py",
        "tests/samples/ops.py",
    }
    assert bool(tables) == has_torch

    run(after, "-c", APPEARS)
    for name in generated:
        assert "anhshrink" in (after / name).read_text()
    options = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "--basetemp", str(after.parent / "inner"))
    run(after, *options, *(test for test in BY_THE_TABLES if has_torch or "test_samples" not in test))
    where = [OPS, *(["tests/test_samples.py"] if has_torch else [])]
    output = run(after, *options, "-rA", "-k", "tanhshrink", *where)
    assert output.count(f"PASSED {OPS}::test_gradients_are_the_derivatives[tanhshrink") == 1
    if has_torch:
        for test in ("value", "gradient", "float32", "finite_differences", "second_derivative"):
            assert f"test_{test}[nn.functional.tanhshrink" in output


@pytest.mark.slow
def test_wrong_rule_in_the_copy_is_noticed(copies):
    """The control: with the gradient of another function the same command and tests do not pass."""
    _, after = copies
    file = after / "tinytensor" / "ops" / "elementwise.py"
    right = file.read_text()
    assert "g * tanh(x) ** 2\n" in right
    file.write_text(right.replace("        return g * tanh(x) ** 2\n", "        return g * tanh(x)\n"))
    try:
        with pytest.raises(AssertionError, match="the rule of tanhshrink for its input x"):
            run(after, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", "tanhshrink", OPS)
    finally:
        file.write_text(right)
