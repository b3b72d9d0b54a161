"""The run that compiles computes what every later run computes, which reads the same machine code from the cache."""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numba import config
from numba.core import errors
from numba.core.caching import NullCache

import tinytensor
from tinytensor.core.kernel import EXACT_ORDER, FAST
from tinytensor.native.kernels import KERNELS
from tinytensor.native.runtime import entry_points
from tinytensor.native.runtime.compiler import colourless
from tinytensor.native.runtime.kernel import kernel
from tinytensor.native.simd.compiled_math import _FLAGS

PACKAGE = Path(tinytensor.__file__).parent

# sums of every kind: along rows, over rows, in tiles, of probabilities; eager and replayed
PROGRAM = """
import hashlib, sys
import tinytensor as tt
from tinytensor.native.runtime.cache import progress
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
def test_cached_kernels_give_the_same_bits(tmp_path):
    def run() -> tuple[int, str]:
        environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path), "NUMBA_NUM_THREADS": "2"}
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", PROGRAM], capture_output=True, text=True, env=environment, timeout=600
        )
        assert done.returncode == 0, done.stderr
        count, bits = done.stdout.split()
        return int(count), bits

    (compiled, first), (recompiled, second) = run(), run()
    assert compiled > 10 and recompiled == 0
    assert first == second


FLAGS = "fast nnan ninf nsz arcp contract afn reassoc"


@pytest.fixture
def flags_of(monkeypatch):
    """The liberties that the compiler was given, read back from the code that it was given for a kernel, made anew."""
    monkeypatch.setattr(entry_points, "builds_of", lambda *entry: NullCache())  # of what was kept no code can be read

    def flags_of(made, *args) -> set[str]:
        monkeypatch.setattr(made, "entries", {})
        monkeypatch.setattr(made, "builds", [])
        made(*args)
        flags = rf"((?: (?:{FLAGS.replace(' ', '|')}))+) "
        text = made.builds[0].inspect_llvm()
        return set(" ".join(re.findall(rf"\b(?:f(?:add|sub|mul|div|neg|cmp)|call){flags}", text)).split())

    return flags_of


@pytest.mark.skipif(config.DISABLE_JIT, reason="nothing is compiled")
def test_compiler_gets_only_the_allowed_fastmath_flags(flags_of):
    """No NaN or infinity is assumed away (nnan, ninf), no division or function is approximated (arcp, afn).

    Sums are put in another order (reassoc) only in kernels that allow it.
    """
    assert {"contract", "reassoc", "nsz"} == FAST
    assert {"contract", "nsz"} == EXACT_ORDER == _FLAGS["fastmath"]
    assert {kernel.fastmath for kernel in KERNELS.values()} == {FAST, EXACT_ORDER}
    assert KERNELS["matmul"].fastmath == KERNELS["attention"].fastmath == EXACT_ORDER
    x = np.ones((2, 3), np.float32)
    assert flags_of(KERNELS["softmax"], x, x.copy()) == FAST
    assert flags_of(KERNELS["log_softmax"], x, x.copy()) == EXACT_ORDER
    assert flags_of(KERNELS["true_divide"], x, x, x.copy()) <= EXACT_ORDER


@pytest.mark.skipif(config.DISABLE_JIT, reason="nothing is compiled")
def test_additional_fastmath_flag_is_noticed(flags_of):
    @kernel(fastmath=frozenset({"arcp", "afn", "nnan"}))
    def divides(x, y):
        for i in range(x.size):
            y[i] = np.exp(x[i]) / x[0]

    assert {"arcp", "afn", "nnan"} <= flags_of(divides, np.ones(3), np.empty(3))


def parallel_functions(text: str) -> list[str]:
    """The functions in a file that use prange."""
    functions = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef)]
    return [f.name for f in functions if any(isinstance(n, ast.Name) and n.id == "prange" for n in ast.walk(f))]


def test_no_kernel_knows_of_threads():
    files = sorted(PACKAGE.rglob("*.py"))
    defined = {(file.name, name) for file in files for name in parallel_functions(file.read_text())}
    assert defined == {("scheduler.py", "_run_together")}
    assert parallel_functions("def f(x):\n    for i in prange(3):\n        x[i] = 0") == ["f"]


@pytest.mark.skipif(config.DISABLE_JIT, reason="nothing is compiled")
def test_error_in_a_loop_names_the_loop():
    program = """
import numpy as np
from tinytensor import device_function, kernel

@device_function
def twice(a):
    return a + a

@kernel("x[N], y[N]")
def doubles(x, y):
    for i in range(x.size):
        if x[i] < 0:
            raise ValueError("negative")
        y[i] = twice(x[i])

y = np.zeros(2)
doubles(np.array([1.0, -2.0]), y)
print(y, twice("a"))  # a device function that Python calls is what stands there
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=600)
    assert done.stdout == "[2. 0.] aa\n", done.stderr
    assert "Exception ignored in: 'doubles'" in done.stderr
    assert "ValueError: negative" in done.stderr


def backwards(x, y):
    room = np.empty(x.size, x.dtype)
    for i in range(x.size):
        room[i] = x[x.size - 1 - i]
    y[:] = room[:]


def test_custom_kernel_may_allocate():
    x = np.arange(5, dtype=np.float32)
    y = np.zeros_like(x)
    for _ in range(3):
        kernel("x[N], y[N]")(backwards)(x, y)
    np.testing.assert_array_equal(y, x[::-1])


@pytest.mark.skipif(config.DISABLE_JIT, reason="nothing is compiled")
def test_engine_kernel_may_not_allocate(monkeypatch):
    """They count no references to memory, so Numba has none to give."""
    monkeypatch.setattr(backwards, "__module__", "tinytensor.native.kernels.mine")
    monkeypatch.setattr(entry_points, "builds_of", lambda *_: NullCache())
    entry = entry_points.loop_entry_point("backwards", backwards, (np.ones(3), np.ones(3)), (False, False), False)
    with pytest.raises(errors.TypingError, match="array"):
        entry_points.build("backwards", FAST, entry)


def test_colours_of_numba_are_restored():
    colours = errors.termcolor()
    with colourless():
        with colourless():  # as where a helper is built for a kernel
            assert errors.termcolor().errmsg("plain") == "plain"
        assert errors.termcolor() is not colours
    assert errors.termcolor() is colours
