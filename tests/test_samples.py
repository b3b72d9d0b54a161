"""Every sample against PyTorch's stored results and against finite differences; every error input for its sentence.

SAMPLES_LIBRARY=torch runs the same tests on PyTorch itself (sentences and completeness aside): a test of the tests.
"""

import importlib
import json
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open

from tests.samples.ops import (
    ERRORS,
    ORACLE,
    SAMPLES,
    TOLERANCE,
    Call,
    difference,
    dtype_name,
    gradient_difference,
    is_in_place,
    is_tensor,
    message_matches,
    to_array,
)
from tests.tools.grouped import by, grouped
from tests.tools.sampling_rate import some

LIBRARY = os.environ.get("SAMPLES_LIBRARY", "tinytensor")
lib = importlib.import_module(LIBRARY)
ours = pytest.mark.skipif(LIBRARY != "tinytensor", reason="PyTorch has sentences of its own, and no table of ops")


@cache
def table(group: str) -> tuple[dict, dict]:
    """PyTorch's arrays by name, and facts (dtypes, requires_grad) by sample id."""
    with safe_open(Path(__file__).parent / "samples" / "oracle" / f"{group}.safetensors", "numpy") as file:
        return {name: file.get_tensor(name) for name in file.keys()}, json.loads(file.metadata()["samples"])  # noqa: SIM118


def stored(sample) -> tuple[list, list, dict]:
    """PyTorch's outputs, gradients (None where there is none) and facts."""
    arrays, facts = table(sample.group)
    facts = facts[sample.id]
    outputs = [arrays[f"{sample.id}|{i}"] for i in range(len(facts[ORACLE]))]
    gradients = [arrays.get(f"{sample.id}|g{i}") for i in range(len(Call(lib, sample).inputs))]
    return outputs, gradients, facts


def has_gradient(sample) -> bool:
    return any(table(sample.group)[1][sample.id]["requires_grad"]) and not sample.is_random


def can_be_checked(sample) -> bool:
    """Finite differences need numbers to vary, and float64 all the way."""
    facts = table(sample.group)[1][sample.id]
    call = Call(lib, sample)
    dtypes = {d for d, g in zip(facts[ORACLE], facts["requires_grad"], strict=True) if g} | {
        dtype_name(x) for x in call.inputs
    }
    full = bool(call.inputs) and all(x.numel() for x in call.inputs)
    return has_gradient(sample) and sample.differences and full and dtypes == {"float64"}


def pytorch_cannot(sample) -> bool:
    """Second derivatives that PyTorch 2.13 lacks (fused attention ...) or gets wrong (layer_norm with a bias alone)."""
    lacking = sample.group == "attention" or sample.paths[0].endswith(("multi_margin_loss", "pdist"))
    return lacking or "bias=" in sample.id or "I(0" in sample.id


def tolerance(facts: dict, real: str) -> float:
    """A result of dtype float32 is compared as such in the float64 run too."""
    return TOLERANCE["float32" if real == "float32" or "float32" in facts[ORACLE] else "float64"]


def check_values(sample, outputs, expected, facts, real):
    assert [dtype_name(y) for y in outputs] == facts[real]
    for y, e in zip(outputs, expected, strict=True):
        y = to_array(y)
        message = difference(np.zeros_like(y) if sample.is_random else y, e, tolerance(facts, real))
        assert not message, message


def numbers(sample) -> int:
    return sum(x.numel() for x in Call(lib, sample).inputs)


def short(samples: list) -> list:
    """The samples of at most 16 numbers, and the shortest of each callable: the cost grows with the square."""
    shortest = {}
    for s in samples:
        shortest[s.paths[0]] = min(numbers(s), shortest.get(s.paths[0], 1000))
    return [s for s in samples if numbers(s) <= max(16, shortest[s.paths[0]])]


DIFFERENTIABLE = [s for s in SAMPLES if has_gradient(s)]
CHECKED = [s for s in DIFFERENTIABLE if can_be_checked(s)]
TWICE = short([s for s in CHECKED if s.second])


def of_each_operation(samples: list, one_in: int = 1) -> Callable:
    """Make a test of a check of one sample: a test for each callable, of all its samples or of the first in so many."""
    return grouped({path: [*some(mine, one_in)] for path, mine in by(lambda s: s.paths[0], samples).items()})


@of_each_operation(SAMPLES)
def test_value(sample):
    """Value, dtype, shape and requires_grad are PyTorch's, under every spelling."""
    expected, _, facts = stored(sample)
    for path in sample.paths:
        outputs = Call(lib, sample)(path=path)
        check_values(sample, outputs, expected, facts, ORACLE)
        assert [is_tensor(lib, y) and y.requires_grad for y in outputs] == facts["requires_grad"], path


@of_each_operation(DIFFERENTIABLE)
def test_gradient(sample):
    """The gradient of every input is PyTorch's, ties and NaN included."""
    _, expected, facts = stored(sample)
    call = Call(lib, sample)
    gradients = call.vjp(call())
    for x, g in zip(call.inputs, gradients, strict=True):
        assert g is None or (g.dtype == x.dtype and tuple(g.shape) == tuple(x.shape))
    message = gradient_difference(
        [None if g is None else to_array(g) for g in gradients], expected, tolerance(facts, ORACLE)
    )
    assert not message, message


@pytest.mark.one_in(5)
@of_each_operation(SAMPLES, one_in=2)
def test_float32(sample):
    """The same in float32: PyTorch's dtypes, and the float64 values as closely as float32 goes."""
    expected, gradients, facts = stored(sample)
    call = Call(lib, sample, "float32")
    outputs = call()
    check_values(sample, outputs, expected, facts, "float32")
    if has_gradient(sample):
        got = [None if g is None else to_array(g) for g in call.vjp(outputs)]
        message = gradient_difference(got, gradients, TOLERANCE["float32"])
        assert not message, message


def gaps(y) -> tuple:
    """The strides of the dimensions that have several elements: those of the others mean nothing."""
    return tuple(s for s, n in zip(y.stride(), y.shape, strict=True) if n > 1) if y.numel() > 1 else ()


@pytest.mark.one_in(2)
@of_each_operation(SAMPLES, one_in=2)
def test_memory(sample):
    """A result lies in the memory of an input where PyTorch's does, and `.view` takes it where PyTorch's takes it."""
    facts = table(sample.group)[1][sample.id]
    for path in sample.paths:
        if is_in_place(path) != is_in_place(sample.paths[0]):  # the result is the input, or not
            continue
        call = Call(lib, sample)
        outputs = call(path=path)
        assert call.shared(outputs) == facts["shares"], path
        for y, strides in zip(outputs, facts["strides"], strict=True):
            if is_tensor(lib, y) and not y.is_contiguous():
                expected = tuple(s for s, n in zip(strides, y.shape, strict=True) if n > 1) if y.numel() > 1 else ()
                assert gaps(y) == expected, path


@pytest.mark.one_in(4)
@of_each_operation(CHECKED, one_in=4)
def test_finite_differences(sample):
    call = Call(lib, sample)
    assert lib.autograd.gradcheck(call.differentiable, tuple(call.inputs))


@pytest.mark.one_in(6)
@of_each_operation(TWICE, one_in=4)
def test_second_derivative(sample):
    if LIBRARY == "torch" and pytorch_cannot(sample):
        return
    call = Call(lib, sample)
    assert lib.autograd.gradgradcheck(call.differentiable, tuple(call.inputs))


@ours
@of_each_operation(ERRORS)
def test_error(error):
    with pytest.raises(error.raises) as caught:
        Call(lib, error)()
    assert message_matches(error, caught.value), f"{caught.value!s}\ndoes not match {error.match}"


@pytest.mark.parametrize("name", ["max", "min", "sort", "topk"])
def test_results_have_names(name):
    x = lib.tensor([[3.0, 1.0, 2.0], [0.0, 5.0, 4.0]])
    result = x.topk(2, dim=1) if name == "topk" else getattr(x, name)(dim=1)
    values, indices = result
    assert result.values is values and result.indices is indices
    assert np.array_equal(to_array(x.gather(1, indices.reshape(2, -1))), to_array(values).reshape(2, -1))


# --- the tests tested ------------------------------------------------------------------------------------


@ours
def test_every_op_has_a_sample(monkeypatch):
    """No op of the engine, and no op that only gradients use, goes without a sample."""
    from tinytensor.core.op import OPS

    used, Op = set(), type(next(iter(OPS.values())))

    def noting(way):
        return lambda op, *args, **keywords: used.add(op.name) or way(op, *args, **keywords)

    for name in ("__call__", "run"):
        monkeypatch.setattr(Op, name, noting(getattr(Op, name)))
    with lib.profile():  # what is called nearly always takes a shorter way, but not where launches are timed
        for sample in SAMPLES:
            call = Call(lib, sample)
            outputs = call()
            if has_gradient(sample):
                call.vjp(outputs, create_graph=sample.second)
    # PyTorch's linear has no relu; test_linear_with_relu compares it with the two one after the other
    assert OPS.keys() - used == {"linear_relu"}


def test_stored_tables_match_the_samples():
    """No sample without a stored result, no stored result without a sample."""
    ids = [sample.id for sample in SAMPLES]
    assert len(ids) == len(set(ids))
    for group in {sample.group for sample in SAMPLES}:
        assert table(group)[1].keys() == {sample.id for sample in SAMPLES if sample.group == group}
    files = {path.stem for path in (Path(__file__).parent / "samples" / "oracle").glob("*.safetensors")}
    assert files == {sample.group for sample in SAMPLES}


def test_every_differentiable_call_is_differentiated_twice():
    """Kinks and long samples are left out; each callable keeps some that are checked to first and second order."""
    calls = {s.paths[0] for s in DIFFERENTIABLE}
    # three make leaves, and the last one's result is float32
    assert calls - {s.paths[0] for s in CHECKED} == {"tensor", "zeros", "ones", "Tensor.float"}
    once = {s.paths[0] for s in CHECKED} - {s.paths[0] for s in TWICE}
    assert once == {"Tensor.zero_", "Tensor.fill_"}  # whose gradient is the constant 0


def test_inputs_do_not_depend_on_the_order_of_the_table():
    first, second = (Call(lib, sample) for sample in (SAMPLES[0], SAMPLES[0]))
    Call(lib, SAMPLES[1])
    for a, b in zip(first.leaves, second.leaves, strict=True):
        assert np.array_equal(to_array(a), to_array(b))
    assert not np.array_equal(to_array(first.leaves[0]), to_array(first.leaves[1]))


@pytest.mark.parametrize("name", ["float64", "float32"])
def test_a_perturbed_value_is_noticed(name):
    expected = np.array([[1.0, -2.0, 0.0], [np.nan, np.inf, 1e-3]])
    assert not difference(expected.copy(), expected, TOLERANCE[name])
    for i, wrong in (
        ((0, 0), 1.0 + 10 * TOLERANCE[name]),
        ((0, 2), 1e-4),
        ((1, 0), 0.0),
        ((1, 1), -np.inf),
        ((1, 2), np.nan),
    ):
        got = expected.copy()
        got[i] = wrong
        assert difference(got, expected, TOLERANCE[name])
    assert difference(expected[:1], expected, TOLERANCE[name])  # would broadcast
    assert difference(expected.T, expected, TOLERANCE[name])
    assert difference(np.array([1, 2]), np.array([1, 3]), TOLERANCE[name])
    assert difference(np.array([True]), np.array([False]), TOLERANCE[name])


def test_a_tripled_gradient_is_noticed():
    """By the stored gradients, and by gradcheck (one library's accepted it)."""
    sample = next(s for s in CHECKED if s.paths[0] == "Tensor.tanh")
    call, (_, expected, _) = Call(lib, sample), stored(sample)
    (g,) = call.vjp(call())
    assert not gradient_difference([to_array(g)], expected, TOLERANCE[ORACLE])
    assert gradient_difference([to_array(3 * g)], expected, TOLERANCE["float32"])
    assert gradient_difference([None], expected, TOLERANCE["float32"])

    def tripled(x):  # the value of tanh(x), three times its derivative
        y = call.differentiable(x)[0]
        return 3 * y - 2 * y.detach()

    with pytest.raises(Exception, match=r"(?i)jacobian|gradient|differ"):
        lib.autograd.gradcheck(tripled, tuple(call.inputs))
    assert not lib.autograd.gradcheck(tripled, tuple(call.inputs), raise_exception=False)


def test_a_wrong_second_derivative_is_noticed():
    sample = next(s for s in CHECKED if s.paths[0] == "Tensor.tanh")
    call = Call(lib, sample)

    def wrong(x):  # right value and first derivative; the second derivative of the added term is 2, not 0
        y = call.differentiable(x)[0]
        d = x - x.detach()
        return y + d * d

    assert lib.autograd.gradcheck(wrong, tuple(call.inputs))
    assert not lib.autograd.gradgradcheck(wrong, tuple(call.inputs), raise_exception=False)


def test_error_messages_are_compared():
    error = next(e for e in ERRORS if e.paths == ["matmul"])
    assert message_matches(error, RuntimeError("matmul: (3, 4) @ (5, 6): the inner sizes 4 and 5 must be equal"))
    assert not message_matches(error, RuntimeError("matmul: shapes do not fit"))
    assert not message_matches(error, RuntimeError("matmul: (3, 4) @ (5, 7): the inner sizes 4 and 5 must be equal"))
