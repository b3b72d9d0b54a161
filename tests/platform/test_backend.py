"""The choice of the backend, and what a process without Numba does."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.test_readme import FIRST
from tests.tools.reference import LEFT_OUT
from tinytensor.core.backend_choice import choose

ROOT = Path(__file__).parents[2]
WITHOUT_NUMBA = """
import importlib.util, sys

class Hide:
    def find_spec(self, name, path, target=None):
        if name in ("numba", "llvmlite"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Hide())
plain = importlib.util.find_spec
importlib.util.find_spec = lambda name, package=None: None if name == "numba" else plain(name, package)
"""


def run(code: str, *options: str, **environment: str) -> subprocess.CompletedProcess:
    environment = {"PYTHONPATH": str(ROOT), "TINYTENSOR_UNTRIED": "off"} | environment
    kept = {name: value for name, value in os.environ.items() if name != "TINYTENSOR_BACKEND"}
    command = [sys.executable, *options, "-c", WITHOUT_NUMBA + code]
    return subprocess.run(command, env=kept | environment, capture_output=True, text=True, timeout=300)


@pytest.mark.parametrize(
    ("asked", "has_numba"), [("", True), ("native", True), ("reference", True), ("reference", False)]
)
def test_a_choice_that_is_meant_has_no_warning(asked, has_numba):
    assert choose(asked, has_numba) == (asked or "native")


def test_other_choices():
    with pytest.raises(ValueError, match="TINYTENSOR_BACKEND=cuda: expected native or reference"):
        choose("cuda", True)
    with pytest.raises(ImportError, match="TINYTENSOR_BACKEND=native: Numba is not installed"):
        choose("native", False)
    with pytest.warns(UserWarning, match="Numba is not installed"):
        assert choose("", False) == "reference"


def test_without_numba_the_first_program_of_the_readme_runs():
    done = run(FIRST)
    assert done.returncode == 0, done.stderr
    weights = [float(w) for w in done.stdout.strip("[]\n").split(",")]
    assert weights == pytest.approx([1.0, -2.0, 0.5], abs=1e-2)
    assert done.stderr.count("Numba is not installed") == 1


def test_warning_is_an_error_for_those_who_ask_for_that_unless_the_choice_is_meant():
    assert "UserWarning: Numba is not installed" in run("import tinytensor", "-W", "error").stderr
    meant = run("import tinytensor; tinytensor.ones(2) + 1", "-W", "error", TINYTENSOR_BACKEND="reference")
    assert (meant.returncode, meant.stderr) == (0, "")


ON_REFERENCE = """
import pytest
import tinytensor as tt

calls = []

@tt.compile
def step(x):
    calls.append(x)
    return (x * x).sum()

@tt.kernel("x[N], y[N]", tasks=lambda x, y: 2)
def doubled(x, y, task, tasks):
    first, last = tt.task_range(x.size, task, tasks)
    for i in range(first, last):
        y[i] = x[i] + x[i]

x = tt.arange(3.0)
assert step(x).item() == step(x).item() == 5 and len(calls) == 2
y = tt.zeros(3)
tt.launch(doubled, x.numpy(), y.numpy())
assert y.tolist() == [0, 2, 4]
with pytest.raises(ValueError, match="expected x"):
    tt.launch(doubled, x.numpy(), tt.zeros(4).numpy())
with tt.profile() as profile:
    x.softmax(0)
assert "softmax" in str(profile)
tt.set_num_threads(8)
assert tt.get_num_threads() == 1
with pytest.raises(ImportError, match="install Numba"):
    import tinytensor.symbolic
"""


def test_tests_that_the_reference_backend_leaves_out_exist():
    for test in LEFT_OUT:
        file, _, name = test.partition("::")
        assert f"def {name}" in (ROOT / "tests" / file).read_text()


def test_compile_kernels_profile_and_threads_on_the_reference_backend():
    done = run(ON_REFERENCE, TINYTENSOR_BACKEND="reference")
    assert done.returncode == 0, done.stderr
