"""The fast paths can be left out, by their switch or where kernels run as Python: the values stay."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

PROGRAM = """
import json
import tinytensor as tt
import tinytensor.nn.functional as F

tt.manual_seed(0)
found = []
model = tt.nn.Sequential(tt.nn.Linear(2, 4), tt.nn.GELU(), tt.nn.LayerNorm(4), tt.nn.Linear(4, 3))
optimizer = tt.optim.AdamW(model.parameters(), lr=0.1)
x, y = tt.randn(5, 2), tt.tensor([0, 1, 2, 1, 0])

def step():
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    return loss

found += [step().item() for _ in range(5)]
compiled = tt.compile(step)
found += [compiled().item() for _ in range(5)]
q = tt.randn(1, 2, 4, 8, requires_grad=True)
for _ in range(4):
    F.scaled_dot_product_attention(q, q, q, is_causal=True).square().sum().backward()
found += q.grad.flatten().tolist()
print(json.dumps([tt.fast.with_launch_cache.cache_info().currsize > 0, found]))  # how many functions have a fast path?
"""


def values(**environment: str) -> tuple[bool, np.ndarray]:
    """What the program finds, and were there fast paths?"""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", PROGRAM],
        env=os.environ | environment, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    made_short, answers = json.loads(done.stdout)
    return made_short, np.array(answers)


@pytest.fixture(scope="module")
def usual():
    return values()


@pytest.mark.slow
def test_without_fast_paths_all_bits_are_the_same(usual):
    made_short, answers = values(TINYTENSOR_FAST="off")
    assert usual[0] and not made_short
    assert answers.tolist() == usual[1].tolist()


@pytest.mark.slow
def test_kernels_run_as_python_for_a_debugger(usual):
    made_short, answers = values(NUMBA_DISABLE_JIT="1")
    assert not made_short
    np.testing.assert_allclose(answers, usual[1], rtol=2e-4, atol=1e-5)


def test_a_misspelt_switch_is_refused():
    with pytest.raises(AssertionError, match="TINYTENSOR_FAST=of: expected on or off"):
        values(TINYTENSOR_FAST="of")
