"""The sample table over exact numbers: every function of the package runs on them, forward and backward.

The floats of a sample are turned into the fractions that they are; values and gradients are then exact (functions such
as exp stay formulas), and their witnesses must be the results of the float64 run.
"""

import numpy as np
import pytest

import tinytensor as tt
from tests.samples.ops import SAMPLES, Call
from tests.tools.grouped import by, grouped
from tinytensor import autograd
from tinytensor.core.tensor import Tensor
from tinytensor.symbolic.exact.tensors import exact, witnesses

ROUNDED = ("Tensor.float", "Tensor.long", "Tensor.isinf")  # exact numbers are not rounded, and there is no infinity
NOT_EXACT = ("linalg.qr", "qr", "linalg.lstsq")  # by reflections and singular values, which have no exact reading
EACH, SIZE = 2, 24  # samples of one function, and numbers in a tensor: enough to go through every line


def is_suitable(sample) -> bool:
    if (
        sample.is_random
        or sample.paths[0] in (*ROUNDED, *NOT_EXACT)
        or sample.group in ("dtypes", "creation")
        or "dtype=float" in sample.id
    ):
        return False
    call = Call(tt, sample)
    finite = all(np.isfinite(x._data).all() for x in call.leaves)
    return bool(call.inputs) and finite and all(x.numel() <= SIZE for x in call.inputs)


def chosen() -> list:
    """The first few samples of each function."""
    counts: dict[str, int] = {}
    result = []
    for sample in SAMPLES:
        if counts.get(sample.paths[0], 0) < EACH and is_suitable(sample):
            counts[sample.paths[0]] = counts.get(sample.paths[0], 0) + 1
            result.append(sample)
    return result


def results(call, inputs, wrap):
    """Outputs, then gradients from fixed numbers at each output that has any."""
    outputs = [y for y in call(*inputs) if isinstance(y, Tensor)]
    results = list(outputs)
    for y in outputs:
        if y.requires_grad:
            g = wrap(np.random.default_rng(0).standard_normal(y.shape))
            results += autograd.grad(y, inputs, g, retain_graph=True, allow_unused=True)
    return [None if r is None else witnesses(r._data) for r in results]


@pytest.mark.one_in(5)
@grouped(by(lambda sample: sample.paths[0], chosen()))
def test_exact_and_float_results_agree(sample):
    call = Call(tt, sample)
    floats = results(call, call.inputs, Tensor.of)
    call.leaves = [exact(x).requires_grad_(x.requires_grad) if x.dtype.kind == "f" else x for x in call.leaves]
    fractions = [x for x, spec in zip(call.leaves, call.specs, strict=True) if spec.grad]
    if not all(f is None or np.isfinite(f).all() for f in floats):
        with pytest.raises((ArithmeticError, ValueError), match="no infinity"):
            results(call, fractions, lambda g: exact(Tensor.of(g)))
        return
    for f, e in zip(floats, results(call, fractions, lambda g: exact(Tensor.of(g))), strict=True):
        assert (f is None) == (e is None)
        if f is not None:
            np.testing.assert_allclose(e, f, rtol=1e-9, atol=1e-9)


def test_many_samples_are_chosen():
    assert len(chosen()) > 200
