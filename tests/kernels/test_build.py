"""Kernels are compiled by another process: the run that compiles computes what every later run computes."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numba.core import types

from tinytensor.kernels import kernel as module
from tinytensor.kernels.build import Builder, _told, _type
from tinytensor.kernels.softmax import softmax

ROOT = Path(__file__).parents[2]

# softmax of 47 rows: with Numba's own way of compiling, an eighth of the results of a first run had other last bits
PROGRAM = """
import sys, numpy as np
from tinytensor.kernels import kernel, softmax
if "here" in sys.argv:
    kernel._builder.gave_up = True
x = np.random.default_rng(0).normal(size=(47, 131)).astype(np.float32)
y = np.empty_like(x)
softmax.softmax(x, y)
print(len(kernel.KERNELS["softmax"].dispatcher.stats.cache_hits), y.tobytes().hex())
"""


def run(folder, *arguments):
    environment = os.environ | {"NUMBA_CACHE_DIR": str(folder), "NUMBA_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", PROGRAM, *arguments],
        capture_output=True, text=True, cwd=ROOT, env=environment,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    hits, bits = done.stdout.split()
    return int(hits), bits


@pytest.mark.skipif(module.config.DISABLE_JIT, reason="nothing is compiled")
def test_the_run_that_compiles_computes_the_same_bits_as_the_next(tmp_path):
    first, second = run(tmp_path), run(tmp_path)
    assert first == second
    assert first[0] == 1  # what ran was read from the cache, in the first run too


@pytest.mark.skipif(module.config.DISABLE_JIT, reason="nothing is compiled")
def test_without_the_other_process_a_kernel_is_compiled_here(tmp_path):
    hits, bits = run(tmp_path, "here")
    assert hits == 0
    y = np.frombuffer(bytes.fromhex(bits), np.float32).reshape(47, 131)
    np.testing.assert_allclose(y.sum(-1), 1, rtol=1e-6)


def test_signatures_survive_the_way_to_the_other_process():
    arrays = [types.Array(t, n, layout) for t in (types.float32, types.boolean) for n in (1, 4) for layout in "CA"]
    for t in (*arrays, types.int64, types.float32, types.float64, types.boolean):
        assert _type(json.loads(json.dumps(_told(t)))) == t


@pytest.mark.skipif(module.config.DISABLE_JIT, reason="nothing is compiled")
def test_what_cannot_be_compiled_does_not_end_it():
    builder = Builder()
    assert builder.build("softmax", (types.int64, types.int64)) is False
    assert builder.build("softmax", (types.Array(types.float64, 2, "C"),) * 2) is True
    builder.close()


def test_a_process_that_ends_is_no_harm(monkeypatch):
    def start():
        return subprocess.Popen([sys.executable, "-c", ""], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    builder = Builder()
    monkeypatch.setattr(builder, "_start", start)
    assert builder.build("softmax", ()) is False
    assert builder.gave_up
    builder.close()
    x = np.ones((2, 3), np.float32)
    softmax(x, x.copy())
