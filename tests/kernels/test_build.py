"""The run that compiles computes what every later run computes, which reads the same machine code from the cache."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest
from numba import config

import tinytensor

PACKAGE = Path(tinytensor.__file__).parent

# sums of every kind: along rows, over rows, in tiles, of probabilities; eager and replayed
PROGRAM = """
import hashlib, sys
import tinytensor as tt
from tinytensor.kernels.cache import progress
from tinytensor.nn import functional as F

tt.manual_seed(0)
x, w, t = tt.randn(47, 24), tt.randn(31, 24, requires_grad=True), tt.randint(0, 31, (47,))

def step(x):
    w.grad = None
    y = F.linear(F.layer_norm(x, (24,)), w)
    a = F.scaled_dot_product_attention(y[None], y[None], y[None], is_causal=True)[0]
    loss = F.cross_entropy(a + F.gelu(y).softmax(-1), t)
    loss.backward()
    return loss, a.detach(), w.grad.clone()

compiled = tt.compile(step)
digest = hashlib.sha256()
for run in (step, compiled, compiled, compiled):
    for result in run(x):
        digest.update(result.detach().numpy().tobytes())
print(progress.count, digest.hexdigest())
"""


@pytest.mark.skipif(config.DISABLE_JIT, reason="nothing is compiled")
def test_who_compiled_a_kernel_does_not_show(tmp_path):
    def run() -> tuple[int, str]:
        environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path), "NUMBA_NUM_THREADS": "2"}
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", PROGRAM], capture_output=True, text=True, env=environment, timeout=600
        )
        assert done.returncode == 0, done.stderr
        count, bits = done.stdout.split()
        return int(count), bits

    (compiled, first), (again, second) = run(), run()
    assert compiled > 10 and again == 0
    assert first == second


def parallel_functions(text: str) -> list[str]:
    """The functions in a file that use prange."""
    functions = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef)]
    return [f.name for f in functions if any(isinstance(n, ast.Name) and n.id == "prange" for n in ast.walk(f))]


def test_no_kernel_knows_of_threads():
    files = sorted(PACKAGE.rglob("*.py"))
    found = {(file.name, name) for file in files for name in parallel_functions(file.read_text())}
    assert found == {("driver.py", "_run_together")}
    assert parallel_functions("def f(x):\n    for i in prange(3):\n        x[i] = 0") == ["f"]
