"""PyTorch's older constructors and tensor types, dtypes that can only be named, and devices."""

import copy
import pickle
import warnings

import numpy as np
import pytest

import tinytensor as tt
from tests.tools.packages import missing
from tinytensor import nn

F32, F64, I32, I64, B = tt.float32, tt.float64, tt.int32, tt.int64, tt.bool

# --- Tensor(...), FloatTensor(...)

# what PyTorch 2.13 makes of these
MADE = {
    "sizes": (lambda t: t.Tensor(2, 3) * 0, [[0.0] * 3] * 2, F32),
    "a size": (lambda t: t.Tensor(2) * 0, [0.0, 0.0], F32),
    "a size of NumPy": (lambda t: t.Tensor(np.int64(2)) * 0, [0.0, 0.0], F32),
    "nothing": (lambda t: t.Tensor(), [], F32),
    "a list": (lambda t: t.Tensor([1, 2]), [1.0, 2.0], F32),
    "a tuple": (lambda t: t.Tensor((2, 3)), [2.0, 3.0], F32),
    "a range": (lambda t: t.Tensor(range(3)), [0.0, 1.0, 2.0], F32),
    "whole numbers of NumPy": (lambda t: t.Tensor(np.array([1, 2])), [1.0, 2.0], F32),
    "numbers of NumPy": (lambda t: t.Tensor(np.array([0.5])), [0.5], F32),
    "truth values of NumPy": (lambda t: t.Tensor(np.array([True])), [1.0], F32),
    "a tensor": (lambda t: t.Tensor(t.tensor([1, 2])), [1, 2], I64),
    "a list with tensors": (lambda t: t.Tensor([t.ones(1), 2]), [1.0, 2.0], F32),
    "FloatTensor": (lambda t: t.FloatTensor([[1, 2]]), [[1.0, 2.0]], F32),
    "FloatTensor of sizes": (lambda t: t.FloatTensor(1, 2) * 0, [[0.0, 0.0]], F32),
    "DoubleTensor": (lambda t: t.DoubleTensor([0.1]), [0.1], F64),
    "LongTensor": (lambda t: t.LongTensor([1.5, 2]), [1, 2], I64),
    "LongTensor of an array": (lambda t: t.LongTensor(np.array([3], np.int32)), [3], I64),
    "IntTensor": (lambda t: t.IntTensor([1, 2]), [1, 2], I32),
    "BoolTensor": (lambda t: t.BoolTensor([1, 0, 2]), [True, False, True], B),
    "type by a tensor type": (lambda t: t.ones(2).type(t.LongTensor), [1, 1], I64),
    "type by a name": (lambda t: t.ones(2).type("torch.IntTensor"), [1, 1], I32),
    "type by a dtype": (lambda t: t.ones(2).type(t.double), [1.0, 1.0], F64),
    "tensor of a tensor of one": (lambda t: t.tensor([t.tensor([1.0])]), [1.0], F32),
    "tensor of tensors and numbers": (lambda t: t.tensor([[t.tensor(1), 2.5]]), [[1.0, 2.5]], F32),
    "tensor of a float64 one": (lambda t: t.tensor([t.tensor(1.0, dtype=t.float64), 2]), [1.0, 2.0], F64),
    "tensor of a NumPy number": (lambda t: t.tensor([np.float64(0.1)]), [0.1], F64),
    "tensor of arrays": (lambda t: t.tensor([np.ones(2)]), [[1.0, 1.0]], F64),
}


@pytest.mark.parametrize("name", MADE)
def test_constructors_give_values_and_dtypes(name):
    make, values, dtype = MADE[name]
    x = make(tt)
    assert x.tolist() == values and x.dtype == dtype and not x.requires_grad


@pytest.mark.parametrize("name", MADE)
def test_constructors_match_installed_pytorch(name):
    torch = pytest.importorskip("torch", reason=missing("torch"))
    warnings.simplefilter("ignore")  # a list of arrays is slow there
    make, values, dtype = MADE[name]
    x = make(torch)
    assert torch.nan_to_num(x).tolist() == values and str(x.dtype) == f"torch.{dtype}"


def test_the_default_dtype_and_memory():
    tt.set_default_dtype(tt.float64)
    try:
        assert tt.Tensor([1]).dtype == F64 and tt.FloatTensor([1]).dtype == F32
    finally:
        tt.set_default_dtype(tt.float32)
    array = np.ones(2, np.float32)
    tt.Tensor(array).zero_()
    assert array.all()  # values are copied
    x = tt.ones(2)
    tt.Tensor(x).zero_()
    assert not x.any()  # a tensor is looked at


def test_subclass_of_tensor():
    class Mine(tt.Tensor):
        pass

    x = Mine([1, 2])
    assert type(x) is Mine and (x + 1).tolist() == [2.0, 3.0]


def test_constructors_in_a_recording():
    step = tt.compile(lambda x: x + tt.Tensor([1, 2]) + tt.FloatTensor(2))
    for value in (1.0, 2.0):
        assert step(tt.full((2,), value)).tolist() == [value + 1, value + 2]


def test_tensor_types():
    assert isinstance(tt.ones(2), tt.FloatTensor) and not isinstance(tt.ones(2), tt.LongTensor)
    assert not isinstance(np.ones(2, np.float32), tt.FloatTensor)
    assert tt.ones(2).type() == "torch.FloatTensor" and tt.LongTensor.dtype == I64
    assert tt.zeros(2, dtype=tt.DoubleTensor).dtype == F64


@pytest.mark.parametrize(
    ("make", "error", "sentence"),
    [
        (lambda: tt.Tensor(2.5), TypeError, r"Tensor\(2.5\): expected sizes, a list.*a number is tensor\(2.5\)"),
        (lambda: tt.Tensor(True), TypeError, r"a number is tensor\(True\)"),
        (lambda: tt.Tensor([1], requires_grad=True), TypeError, r"no option requires_grad; tensor\(values"),
        (lambda: tt.FloatTensor("a"), TypeError, "FloatTensor"),
        (lambda: tt.Tensor(-1), RuntimeError, "sizes must be whole numbers of 0 or more"),
        (lambda: tt.LongTensor(tt.ones(2)), TypeError, r"this tensor is float32, expected int64; convert it with .to"),
        (lambda: tt.tensor([tt.ones(2), tt.ones(2)]), ValueError, r"a tensor of shape \(2,\).*stack\(list\)"),
        (lambda: tt.ones(2).type("torch.cuda.FloatTensor"), TypeError, "tensors are float32.*not torch.cuda.Float"),
    ],
)
def test_wrong_arguments_raise(make, error, sentence):
    with pytest.raises(error, match=sentence):
        make()


def test_tensors_in_format_strings():
    x = tt.tensor(2.0, requires_grad=True)
    assert f"{tt.tensor(18)} {tt.tensor(1.5):.2f} {tt.tensor(True)} {x} {x * 2} {tt.tensor([1])}" == (
        "18 1.50 True 2.0 4.0 tensor([1])"
    )
    assert str(tt.tensor(18)) == "tensor(18)"
    with pytest.raises(TypeError, match=r"format: '.2f' is for one number, and this tensor has shape \(2,\)"):
        format(tt.ones(2), ".2f")


# --- Dtypes

USES = {
    "zeros": lambda d: tt.zeros(2, dtype=d),
    "to": lambda d: tt.ones(2).to(d),
    "to by name": lambda d: tt.ones(2).to(dtype=d),
    "type": lambda d: tt.ones(2).type(d),
    "tensor": lambda d: tt.tensor([1], dtype=d),
    "module": lambda d: nn.Linear(2, 2, dtype=d),
    "module to": lambda d: nn.Linear(2, 2).to(d),
    "finfo": lambda d: tt.finfo(d),
    "set_default_dtype": lambda d: tt.set_default_dtype(d),
}


@pytest.mark.parametrize("name", ["float16", "bfloat16", "half", "int16", "int8", "complex64"])
@pytest.mark.parametrize("use", USES)
def test_unsupported_dtypes_can_be_named(name, use):
    dtype = getattr(tt, name)
    assert repr(dtype) == name and dtype != tt.float32 and tt.ones(1).dtype != dtype
    with pytest.raises(TypeError, match=rf"float(32|64).*{name}"):
        USES[use](dtype)


@pytest.fixture
def printing():
    yield tt.set_printoptions
    tt.set_printoptions(profile="default")


def test_how_tensors_are_printed(printing):
    x, many = tt.tensor([1.23456789, 12345.678]), tt.arange(2000)
    usual = repr(x)
    assert len(repr(many)) < 100
    printing(precision=2)
    assert repr(x) == "tensor([1.23e+00, 1.23e+04])"
    printing(sci_mode=False)
    assert repr(x) == "tensor([    1.23, 12345.68])"
    printing(precision=1, sci_mode=True)
    assert repr(x) == "tensor([1.2e+00, 1.2e+04])"
    printing(profile="full", linewidth=10_000)
    assert repr(many).count(",") == 1999
    printing(threshold=10, edgeitems=1)
    assert repr(many) == "tensor([   0,  ..., 1999])"
    printing(profile="default")
    assert repr(x) == usual
    for wrong in ({"precision": -1}, {"precision": 2.5}, {"linewidth": 0}, {"profile": "long"}, {"edgeitems": "3"}):
        with pytest.raises(ValueError, match=f"set_printoptions: {next(iter(wrong))} must be"):
            printing(**wrong)
    assert repr(x) == usual


def test_limits_of_dtypes():
    limits = tt.finfo(tt.float32)
    assert limits.max == float(np.finfo(np.float32).max) == -limits.min and limits.eps == 2.0**-23
    assert limits.tiny == limits.smallest_normal == 2.0**-126 and limits.bits == 32 and limits.dtype == F32
    assert tt.finfo().eps == limits.eps and tt.finfo(tt.float64).eps == 2.0**-52
    assert (tt.iinfo(tt.int64).max, tt.iinfo(tt.int32).min, tt.iinfo(tt.int32).bits) == (2**63 - 1, -(2**31), 32)
    with pytest.raises(TypeError, match="finfo: expected a floating-point dtype, got int64; use iinfo"):
        tt.finfo(tt.int64)
    with pytest.raises(TypeError, match="iinfo: expected an integer dtype, got float32; use finfo"):
        tt.iinfo(tt.float32)
    assert isinstance(tt.ones(1).dtype, tt.dtype) and tt.float32.itemsize == 4
    assert tt.can_cast(tt.int64, tt.float32) and tt.can_cast(tt.float64, tt.float32)
    assert not tt.can_cast(tt.float32, tt.int64) and not tt.can_cast(tt.int32, tt.bool)
    assert tt.bfloat16.is_floating_point and not tt.int8.is_floating_point and tt.complex64.is_complex
    assert tt.promote_types(tt.int64, tt.float32) == F32 and tt.promote_types(tt.int32, tt.int64) == I64
    assert tt.is_tensor(tt.ones(1)) and not tt.is_tensor(1)


# --- Devices


@pytest.mark.parametrize(
    ("arguments", "type", "index", "text"),
    [
        (("cpu",), "cpu", None, "cpu"),
        (("cpu:0",), "cpu", None, "cpu"),
        (("cpu", 0), "cpu", None, "cpu"),
        (("cuda",), "cuda", None, "cuda"),
        (("cuda", 1), "cuda", 1, "cuda:1"),
        (("cuda:1",), "cuda", 1, "cuda:1"),
        ((0,), "cuda", 0, "cuda:0"),
        (("mps",), "mps", None, "mps"),
        ((tt.device("cuda", 1),), "cuda", 1, "cuda:1"),
    ],
)
def test_devices_are_parsed(arguments, type, index, text):
    device = tt.device(*arguments)
    assert (device.type, device.index, str(device)) == (type, index, text)
    assert eval(repr(device), {"device": tt.device}) == device == text
    assert pickle.loads(pickle.dumps(device)) == copy.deepcopy(device) == device


@pytest.mark.parametrize("name", ["foo", "cuda:", "cuda:x", "", "float16"])
def test_unknown_device_names_are_refused(name):
    with pytest.raises(RuntimeError, match=rf"device: '{name}' is no device; expected 'cpu'"):
        tt.device(name)


X = tt.ones(2, 3)
PLACES = {
    "tensor": lambda d: tt.tensor([1.0], device=d),
    "zeros": lambda d: tt.zeros(2, device=d),
    "arange": lambda d: tt.arange(2, device=d),
    "zeros_like": lambda d: tt.zeros_like(X, device=d),
    "new_zeros": lambda d: X.new_zeros(2, device=d),
    "new_ones": lambda d: X.new_ones((2,), device=d),
    "new_empty": lambda d: X.new_empty(2, device=d),
    "new_full": lambda d: X.new_full((2,), 1, device=d),
    "new_tensor": lambda d: X.new_tensor([1.0], device=d),
    "Tensor": lambda d: tt.Tensor([1.0], device=d),
    "FloatTensor": lambda d: tt.FloatTensor([1.0], device=d),
    "to": lambda d: X.to(d),
    "to, by name": lambda d: X.to(device=d, non_blocking=True),
    "to with a dtype": lambda d: X.to(d, tt.float32),
    "Module.to": lambda d: nn.Linear(2, 3).to(d).weight,
    "Linear": lambda d: nn.Linear(2, 3, device=d).weight,
}


@pytest.mark.parametrize("name", PLACES)
def test_every_device_argument_takes_only_the_cpu(name):
    for device in ("cpu", "cpu:0", tt.device("cpu"), tt.device("cpu", 0)):
        x = PLACES[name](device)
        assert x.device == "cpu" and x.device.type == "cpu" and not x.is_meta
    for device in ("cuda", "cuda:0", tt.device("cuda", 0), tt.device("mps"), 0):
        with pytest.raises((RuntimeError, TypeError), match=r"computes on the CPU only|tensors are float32"):
            PLACES[name](device)
    with pytest.raises(RuntimeError, match="'gpu' is no device"):
        PLACES[name]("gpu")


def test_the_meta_device():
    y = tt.ones(2, 3).to("meta")
    assert y.is_meta and y.shape == (2, 3) and y.device.type == "meta"
    with pytest.raises(RuntimeError, match="a meta tensor has a shape, but no values to copy"):
        y.to("cpu")
    with tt.device("cpu"):
        assert tt.ones(1).device == "cpu"
    with pytest.raises(RuntimeError, match="not available"), tt.device("cuda"):
        pass
