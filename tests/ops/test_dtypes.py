"""The dtype that every operation gives for every dtype, and what it refuses, beside PyTorch's stored answers."""

import copy
import json
import math
import operator
import pickle
import re
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest

import tinytensor as tt
from tests.samples.dtypes import NOT_NARROWER, NUMBER, ONE, TWO, WALK, WIDER, answer, differs
from tests.tools.sampling_rate import some
from tinytensor import nn
from tinytensor.core import number_arrays
from tinytensor.core.registry import REGISTRY

STORED = json.loads((Path(__file__).parents[1] / "samples" / "oracle" / "dtypes.json").read_text())
BY_EXPRESSION = defaultdict(list)
for _walk in WALK:
    BY_EXPRESSION[_walk[0]].append(_walk)
REFUSED_BY_PYTORCH, DEPART = (
    {expression for expressions in table.values() for expression in expressions}
    for table in (WIDER, WIDER | NOT_NARROWER)
)

# what has no dtype to choose (a tensor's operators are walked as operators), or is a module of a function walked here
ELSEWHERE = re.compile(
    r"nn\..*|Tensor\.__\w+__"
    r"|Tensor\.(backward|register_hook|register_post_accumulate_grad_hook|retain_grad|is_cuda|is_nested|is_sparse|pin_memory)"
)


# A kernel is compiled for each dtype. In the short suite, most expressions do without those that few programs use.
RARE = {"uint8", "int32"}
ALL_DTYPES = set(some(BY_EXPRESSION, one_in=12))


def differences(expression: str) -> list[str]:
    """Where an expression's answers are not PyTorch's."""
    walks = BY_EXPRESSION[expression]
    if expression not in DEPART:  # where ours depart, all are needed: one of them does
        walks = some([walk for walk in walks if expression in ALL_DTYPES or RARE.isdisjoint(walk)], one_in=5)
    result = ((walk, differs(answer(tt, *walk), STORED[" | ".join(walk)])) for walk in walks)
    return [f"{expression} with {' '.join(dtypes)}: {what}" for (_, *dtypes), what in result if what]


@pytest.mark.parametrize("expression", BY_EXPRESSION)
def test_dtype_is_pytorchs_or_refused(expression):
    wrong = differences(expression)
    if expression in DEPART:  # listed with a reason; and it must still depart
        assert wrong
        assert not any("refused:" in line for line in wrong)
        assert expression not in REFUSED_BY_PYTORCH or all("PyTorch gives refused" in line for line in wrong), wrong
    else:
        assert not wrong, "\n".join(wrong)


def test_the_stored_answers_are_those_of_the_table():
    assert STORED.keys() == {" | ".join(walk) for walk in WALK}


def test_every_operation_is_in_the_table():
    """Every operation stands in an expression, under one of its names."""
    spoken = {word.rstrip("_") for word in re.findall(r"\w+", " ".join([*ONE, *TWO, *NUMBER]))}
    names = {index: index.rpartition(".")[2].rstrip("_") for index in REGISTRY if not ELSEWHERE.fullmatch(index)}
    walked = {REGISTRY[index] for index, name in names.items() if name in spoken}
    assert not {index for index in names if REGISTRY[index] not in walked}


def test_uint8_tensors_from_and_to_arrays(tmp_path):
    picture = np.array([[0, 128], [255, 3]], np.uint8)
    x = tt.from_numpy(picture)
    assert x.dtype == tt.uint8 and np.shares_memory(x.numpy(), picture)
    assert tt.tensor(picture).dtype == tt.ByteTensor(picture).dtype == tt.ones(2).byte().dtype == tt.uint8
    assert isinstance(x, tt.ByteTensor) and x.type() == "torch.ByteTensor" and x.type("torch.ByteTensor") is x
    assert (tt.iinfo(tt.uint8).min, tt.iinfo(tt.uint8).max, tt.iinfo(tt.uint8).bits) == (0, 255, 8)
    assert tt.promote_types(tt.uint8, tt.int32) == tt.int32 and tt.promote_types(tt.uint8, tt.bool) == tt.uint8
    tt.save({"x": x}, tmp_path / "x.pt")
    loaded = tt.load(tmp_path / "x.pt")["x"]
    assert loaded.dtype == tt.uint8 and loaded.tolist() == picture.tolist()
    assert tt.utils.data.default_collate([picture, picture]).dtype == tt.uint8
    with pytest.raises(RuntimeError, match="only floating-point tensors have gradients, this one is uint8"):
        x.requires_grad_()


def test_uint8_key_is_a_mask():
    x, mask = tt.arange(6.0).reshape(3, 2), tt.ByteTensor([0, 1, 7])
    assert x[mask].tolist() == x[mask.bool()].tolist() == [[2, 3], [4, 5]]
    assert x[tt.tensor(1, dtype=tt.uint8)].shape == (1, 3, 2)
    with pytest.raises(IndexError, match=r"the mask of shape \(2,\) does not match shape \(3, 2\)"):
        x[tt.ByteTensor([0, 2])]
    with pytest.raises(RuntimeError, match="masked_fill: the mask must be a bool tensor, got uint8"):
        x.masked_fill(mask[:, None], 0)
    with pytest.raises(RuntimeError, match="masked_select: the mask must be a bool tensor, got uint8"):
        x.masked_select(mask[:, None])


def test_uint8_operations_compile():
    def step(x):
        return (x.float() / 255).sum() + (x + x).sum()

    compiled = tt.compile(step)
    for values in ([0, 5, 255], [1, 128, 200]):
        x = tt.ByteTensor(values)
        assert compiled(x).item() == step(x).item()


@pytest.mark.parametrize("number", [256, -256, 10**30])
def test_numbers_outside_uint8_are_refused(number):
    with pytest.raises(RuntimeError, match=r"fill_: -?[0-9]+ can't be stored as uint8"):
        tt.ByteTensor([1]).fill_(number)
    with pytest.raises(RuntimeError, match=r"tensor: -?[0-9]+ can't be stored as uint8"):
        tt.tensor([1, number], dtype=tt.uint8)
    for compare in (operator.eq, operator.lt, operator.floordiv, operator.mod):
        with pytest.raises(OverflowError, match=r": -?\d+ is too large for uint8"):  # PyTorch: 1 == 257
            compare(tt.ByteTensor([1]), number)
    with pytest.raises(OverflowError, match="add: 1000000000000000000000000000000 is too large for uint8"):
        tt.ByteTensor([1]) + 10**30


def test_integers_beyond_64_bits_are_refused():
    for data in (2**63, [2**63], [[10**30], [2]], [np.uint64(2**63)]):
        with pytest.raises(RuntimeError, match=r"tensor: \d+ can't be stored as int64"):
            tt.tensor(data)
    with pytest.raises(RuntimeError, match="fill_: nan can't be stored as int32"):
        tt.zeros(2, dtype=tt.int32).fill_(np.float64("nan"))


@pytest.mark.parametrize(
    ("actual", "noticed"),
    [
        ([["float32", [1.0, 2.5]]], False),
        ([["float32", [1.0, 2.0]]], True),  # cut down on the way
        ([["int64", [1, 2]]], True),
        ([["float64", [1.0, 2.5]]], True),
        ("refused: a sentence", True),
    ],
)
def test_a_wrong_answer_is_noticed(actual, noticed):
    assert bool(differs(actual, [["float32", [1.0, 2.5]]])) == noticed
    assert bool(differs(actual, "refused")) != (actual == "refused: a sentence")


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
def test_equal_numbers_of_other_types_stay_apart(dtype):
    """Numbers are remembered as arrays: 0.0, -0.0, 0 and False are equal, and so are 2 and 2.0."""
    x = tt.tensor([1.0, -2.0, 3.0]).to(getattr(tt, dtype))
    for _ in range(2):
        for number in (0, 0.0, -0.0, False, 2, 2.0, True, 1, float("inf")):
            y = x.float() * number if isinstance(number, float) and dtype == "int64" else x * number
            assert np.array_equal(np.signbit(y.numpy()), np.signbit(x.numpy() * np.array(number, y.numpy().dtype)))
        assert (x * 2).dtype == x.dtype
        assert (x * 2.0).dtype == (tt.float32 if dtype == "int64" else x.dtype)


def test_cache_of_numbers_is_bounded():
    x = tt.ones(2)
    for i in range(2 * number_arrays.REMEMBERED):
        assert (x + (i + 0.5)).tolist() == [i + 1.5] * 2
    assert len(number_arrays._numbers) <= number_arrays.REMEMBERED


# --- What a dtype says

# what PyTorch 2.13 says of its own: is_floating_point, is_signed, itemsize
SAYS = {
    tt.float32: (True, True, 4),
    tt.float64: (True, True, 8),
    tt.uint8: (False, False, 1),
    tt.int32: (False, True, 4),
    tt.int64: (False, True, 8),
    tt.bool: (False, False, 1),
}


@pytest.mark.parametrize("dtype", SAYS, ids=str)
def test_dtype_attributes_match_pytorch(dtype):
    assert (dtype.is_floating_point, dtype.is_signed, dtype.itemsize) == SAYS[dtype] and not dtype.is_complex
    assert repr(dtype) == str(dtype) == f"tinytensor.{dtype.name}" and f"{dtype}" == dtype.name
    x = tt.ones(2, dtype=dtype)
    assert x.dtype is dtype and isinstance(dtype, tt.dtype) and x.double().to(x.dtype).dtype is dtype
    assert pickle.loads(pickle.dumps(dtype)) is copy.deepcopy(dtype) is dtype
    with pytest.raises(AttributeError, match="is_quantized"):
        _ = dtype.is_quantized


def test_only_pytorchs_dtype_names_are_public():
    names = " ".join(sorted(name for name, value in vars(tt).items() if isinstance(value, tt.dtype)))
    assert names == "bool double float float32 float64 int int32 int64 long uint8"  # NumPy has bool_


@pytest.mark.parametrize("dtype", [*SAYS, tt.core.dtypes.OBJECT], ids=str)
def test_unpickled_tensors_have_numpys_dtype_object(dtype):
    """NumPy makes another object there, and `is` would not find it: formulas would take their slow way, or none."""
    x = tt.tensor([1, 0], dtype=dtype)
    array = pickle.loads(pickle.dumps(x._data))
    assert array.dtype is not x._data.dtype  # else nothing is tested
    for made in (pickle.loads(pickle.dumps(x)), copy.copy(x), tt.tensor(array, dtype=array.dtype), x.to(array.dtype)):
        assert made._data.dtype is x._data.dtype and made.tolist() == [1, 0]
        assert (made + made).tolist() == (x + x).tolist() and made.sum().item() == 1
    if dtype is not tt.core.dtypes.OBJECT:
        assert tt.tensor(array)._data.dtype is tt.from_numpy(array)._data.dtype is x._data.dtype
        assert np.shares_memory(tt.from_numpy(array)._data, array)
    assert pickle.loads(pickle.dumps(tt.empty(2, dtype=dtype, device="meta"))).dtype == x.dtype


def test_tensors_survive_pickle():
    w = nn.Parameter(tt.tensor([1.0, 2.0]))
    step = tt.compile(lambda x: (w * x).sum().backward())
    for _ in range(2):  # the second is a replay, which leaves the gradient in its own memory
        w.grad, w.called = None, "w"
        step(tt.tensor([3.0, 4.0]))
    copied = pickle.loads(pickle.dumps(w))
    assert isinstance(copied, nn.Parameter) and copied.requires_grad and copied.called == "w"
    for tensor in (copied, copied.grad):
        assert tensor._data.dtype is w._data.dtype
    assert copied.tolist() == [1.0, 2.0] and copied.grad.tolist() == w.grad.tolist() == [3.0, 4.0]


@pytest.mark.parametrize("dtype", SAYS, ids=str)
def test_a_dtype_is_numpys_to_numpy(dtype):
    own = np.zeros(3, dtype).dtype
    assert dtype == own and own == dtype and dtype == own.type and own.type == dtype and dtype == own.name
    others = [d for d in SAYS if d is not dtype]
    assert len(others) == 5 and all(d != own and own != d and d != dtype for d in others) and dtype != "float16"
    assert hash(dtype) == hash(own) and {own: 1}[dtype] and dtype in {own} and {own, dtype} == {own}
    assert np.dtype(dtype) is own and dtype.kind == np.dtype(own).kind
    assert (dtype.type, dtype.str) == (own.type, own.str)
    assert np.issubdtype(dtype, np.floating) == dtype.is_floating_point and np.promote_types(dtype, dtype) is own
    for made in (np.ones(3).astype(dtype), np.asarray([1, 0], dtype=dtype), np.frombuffer(bytes(8), dtype)):
        assert made.dtype is own and tt.from_numpy(made.copy()).dtype is dtype


def test_dtype_functions_return_our_dtypes():
    x = tt.ones(2)
    arguments = [tt.get_default_dtype(), tt.result_type(x, 2), tt.promote_types(tt.int64, x.dtype)]
    assert all(d is tt.float32 for d in arguments)
    tt.set_default_dtype(tt.float64)
    try:
        assert tt.get_default_dtype() is tt.ones(1).dtype is tt.float64
    finally:
        tt.set_default_dtype(tt.float32)


BIG = 2.0**128 - 2.0**103  # float32 rounds it to infinity, and the next smaller float64 to its largest number


def test_float_beyond_float32_overflows_or_is_refused():
    """As in PyTorch; NumPy's warning, which is an error here, is not to be seen."""
    x, below = tt.ones(2), math.nextafter(BIG, 0)
    for y, value in ((x * BIG, math.inf), (x - BIG, -math.inf), (BIG / x, math.inf), (x / 1e300, 0), (x % BIG, 1)):
        assert y.tolist() == [value] * 2
    assert (x < 1e300).all() and (x**1e300).tolist() == [1, 1] and x.fmod(1e300).tolist() == [1, 1]
    assert (x * below).tolist() == [2.0**128 - 2.0**104] * 2 == tt.full((2,), below).tolist()
    assert tt.tensor([BIG, -1e300]).tolist() == [math.inf, -math.inf] and (x.double() * BIG).tolist() == [BIG] * 2
    stores = (x.fill_, lambda n: tt.full((2,), n), lambda n: x.masked_fill(x > 0, n), lambda n: x.__setitem__(0, n))
    for store in stores:
        for value in (BIG, -1e300):
            with pytest.raises(RuntimeError, match="can't be stored as float32"):
                store(value)
        store(math.inf)
