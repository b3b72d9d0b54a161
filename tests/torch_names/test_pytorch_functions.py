"""Functions written for PyTorch take our tensors unchanged: with PyTorch where it is installed, and with a stand-in.

The stand-in has PyTorch's protocols (pytorch_stand_in.py), so that these tests run everywhere; the same programs then
run with PyTorch itself.
"""

import subprocess
import sys
import warnings

import numpy as np
import pytest
from torch_names import pytorch_stand_in

import tinytensor as tt
from tests.tools.packages import missing
from tinytensor.autograd import gradcheck
from tinytensor.interop.torch_names.pytorch_functions import pytorch_follows_us
from tinytensor.symbolic import prove
from tinytensor.symbolic.prove import questions
from tinytensor.symbolic.reading.sizes import is_users


@pytest.fixture(params=["stand-in", "PyTorch"])
def torch(request, monkeypatch):
    if request.param == "PyTorch":
        return pytest.importorskip("torch", reason=missing("torch"))
    monkeypatch.setitem(sys.modules, "torch", pytorch_stand_in.torch)
    file = pytorch_stand_in.__file__  # that of PyTorch lies in site-packages
    monkeypatch.setattr(questions, "is_users", lambda code, held: code.co_filename != file and is_users(code, held))
    return pytorch_stand_in.torch


def leaf(*values):
    return tt.tensor(values, dtype=tt.float64, requires_grad=True)


# --- Functions

CALLS = {
    "a function": (lambda torch, x: torch.exp(x), lambda x: x.exp()),
    "a setting by position": (lambda torch, x: torch.softmax(x, -1), lambda x: x.softmax(-1)),
    "a keyword": (lambda torch, x: torch.sum(x, dim=0, keepdim=True), lambda x: x.sum(0, keepdim=True)),
    "input=": (lambda torch, x: torch.sigmoid(input=x), lambda x: x.sigmoid()),
    "a list": (lambda torch, x: torch.stack([x, x * 2]), lambda x: tt.stack([x, x * 2])),
    "nn.functional": (lambda torch, x: torch.nn.functional.silu(x), lambda x: tt.nn.functional.silu(x)),
    "options of a function in Python": (
        lambda torch, x: torch.nn.functional.layer_norm(x, (3,)),
        lambda x: tt.nn.functional.layer_norm(x, (3,)),
    ),
    "special": (lambda torch, x: torch.special.expit(x), lambda x: x.sigmoid()),
    "linalg": (lambda torch, x: torch.linalg.vector_norm(x), lambda x: tt.linalg.vector_norm(x)),
    "a constant on the right": (lambda torch, x: x * torch.tensor([1.0, 2.0, 3.0]), lambda x: x * tt.tensor([1, 2, 3])),
    "a constant on the left": (lambda torch, x: torch.tensor([1.0, 2.0, 3.0]) * x, lambda x: x * tt.tensor([1, 2, 3])),
    "a constant of a method": (lambda torch, x: x.mul(torch.tensor(2.0)), lambda x: x * 2),
    "a mask": (
        lambda torch, x: x.masked_fill(torch.tensor([True, False, True]), 0.0),
        lambda x: x * tt.tensor([0, 1, 0]),
    ),
    "where": (
        lambda torch, x: torch.where(torch.tensor([True, False, True]), x, torch.tensor([5.0, 6.0, 7.0])),
        lambda x: x * tt.tensor([1, 0, 1]) + tt.tensor([0, 6.0, 0]),
    ),
    "an index": (lambda torch, x: x[torch.tensor([0, 0, 2])], lambda x: x[[0, 0, 2]]),
    "a dtype": (lambda torch, x: x.to(torch.float64), lambda x: x),
    "a device": (lambda torch, x: x.to(torch.device("cpu")), lambda x: x),
    "a comparison": (lambda torch, x: x * (x > torch.tensor(0.0)), lambda x: x.relu()),
}


def changed(x, one, two):
    y = x * 1
    y += one
    y[0] = two
    return y


CALLS["a change in place"] = (
    lambda torch, x: changed(x, torch.tensor([1.0, 2.0, 3.0]), torch.tensor(5.0)),
    lambda x: changed(x, tt.tensor([1.0, 2.0, 3.0]), tt.tensor(5.0)),
)


@pytest.mark.parametrize("name", CALLS)
def test_a_call_reaches_our_function(torch, name):
    theirs, ours = CALLS[name]
    x, y = leaf(0.5, -1.0, 2.0), leaf(0.5, -1.0, 2.0)
    result, expected = theirs(torch, x), ours(y)
    assert type(result) is tt.Tensor and result.dtype == expected.dtype and result.tolist() == expected.tolist()
    (result * result).sum().backward()
    (expected * expected).sum().backward()
    assert x.grad.tolist() == y.grad.tolist()


REFUSED = {
    "a missing function": (lambda torch, x: torch.i0(x), NotImplementedError, "i0: PyTorch has it, tinytensor"),
    "advice": (
        lambda torch, x: torch.nn.functional.conv2d(x, x),
        NotImplementedError,
        "conv2d: PyTorch has it, .*the only convolution is Conv1d",
    ),
    "a gradient of PyTorch's": (
        lambda torch, x: x * torch.nn.Parameter(torch.tensor([1.0, 2.0])),
        TypeError,
        r"a PyTorch tensor of shape \(2,\) that requires grad meets .*give it to the function as an argument",
    ),
    "a change in place": (lambda torch, x: torch.tensor([1.0, 2.0]).add_(x), TypeError, r"y.add_\(x\): y is PyTorch's"),
    "an assignment": (
        lambda torch, x: torch.tensor([1.0, 2.0]).__setitem__(0, x[0]),
        TypeError,
        r"y\[\.\.\.\] = x: y is PyTorch's tensor.*make y from x \(torch.zeros_like\(x\)",
    ),
    "a dtype that is not here": (lambda torch, x: x.to(torch.bfloat16), TypeError, "float32, float64, .*bfloat16"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_missing_is_named(torch, name):
    call, error, sentence = REFUSED[name]
    with pytest.raises(error, match=sentence):
        call(torch, leaf(0.5, -1.0))


def test_a_constant_is_copied(torch):
    """A change of PyTorch's tensor after the call must not change what the tape has kept."""
    x, c = leaf(1.0, 2.0), torch.tensor(np.array([3.0, 4.0]))
    y = (x * c).sum()
    c.numpy()[:] = 0.0
    y.backward()
    assert x.grad.tolist() == [3.0, 4.0]


def test_an_error_without_pytorch_stays_as_it_was(torch):
    with pytest.raises(TypeError, match=r"mul: expected tensors or numbers, got str"):
        leaf(1.0).mul("a")
    with pytest.raises(RuntimeError, match="softmax"):
        tt.ones(2, dtype=tt.int64).softmax(0)


def test_import_and_proof_load_neither_pytorch_nor_this():
    program = "import sys; from tinytensor.symbolic import prove; print(bool(prove(abs, (2,))), *sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    proved, *modules = done.stdout.split()
    assert proved == "True" and "numpy" in modules and "torch" not in modules
    assert not [name for name in modules if name.startswith("tinytensor.interop.torch_names.") and "_functions" in name]


# --- Functions of autograd: a right backward, and a wrong one


def function(torch, forward, backward):
    """A torch.autograd.Function that saves its arguments, and its result last."""

    class Made(torch.autograd.Function):
        @staticmethod
        def forward(ctx, *inputs):
            y = forward(torch, *inputs)
            ctx.save_for_backward(*inputs, y)
            return y

        @staticmethod
        def backward(ctx, g):
            return backward(torch, g, *ctx.saved_tensors)

    return Made.apply


def normalized(x):
    centred = x - x.mean(-1, keepdim=True)
    return centred / ((centred * centred).mean(-1, keepdim=True) + 1e-5).sqrt()


def scale(x):
    centred = x - x.mean(-1, keepdim=True)
    return 1 / ((centred * centred).mean(-1, keepdim=True) + 1e-5).sqrt()


# name: forward, the right backward, a wrong one, the shapes of the arguments
TWINS = {
    "square: the factor": (
        lambda torch, x: x * x,
        lambda torch, g, x, y: 2 * g * x,
        lambda torch, g, x, y: g * x,
        [(3,)],
    ),
    "cosine: the sign": (
        lambda torch, x: torch.cos(x),
        lambda torch, g, x, y: -g * torch.sin(x),
        lambda torch, g, x, y: g * torch.sin(x),
        [(3,)],
    ),
    "exp: the input for the result": (
        lambda torch, x: torch.exp(x),
        lambda torch, g, x, y: g * y,
        lambda torch, g, x, y: g * x,
        [(2, 2)],
    ),
    "sigmoid: s for s (1 - s)": (
        lambda torch, x: torch.sigmoid(x),
        lambda torch, g, x, y: g * y * (1 - y),
        lambda torch, g, x, y: g * y,
        [(3,)],
    ),
    "swish: a forgotten path": (
        lambda torch, x: x * torch.sigmoid(x),
        lambda torch, g, x, y: g * (torch.sigmoid(x) + y * (1 - torch.sigmoid(x))),
        lambda torch, g, x, y: g * torch.sigmoid(x),
        [(3,)],
    ),
    "softmax: without the sum": (
        lambda torch, x: torch.softmax(x, -1),
        lambda torch, g, x, y: y * (g - (g * y).sum(-1, keepdim=True)),
        lambda torch, g, x, y: y * (1 - y) * g,
        [(2, 3)],
    ),
    "log-softmax: the mean for the sum": (
        lambda torch, x: torch.log_softmax(x, -1),
        lambda torch, g, x, y: g - torch.exp(y) * g.sum(-1, keepdim=True),
        lambda torch, g, x, y: g - torch.exp(y) * g.mean(-1, keepdim=True),
        [(2, 2)],
    ),
    "layer norm: without the mean of g": (
        lambda torch, x: normalized(x),
        lambda torch, g, x, z: scale(x) * (g - g.mean(-1, keepdim=True) - z * (g * z).mean(-1, keepdim=True)),
        lambda torch, g, x, z: scale(x) * (g - z * (g * z).mean(-1, keepdim=True)),
        [(1, 3)],
    ),
    "matmul: a transpose": (
        lambda torch, x, w: torch.matmul(x, w),
        lambda torch, g, x, w, y: (g @ w.T, x.T @ g),
        lambda torch, g, x, w, y: (g @ w, x.T @ g),
        [(2, 2), (2, 2)],
    ),
    "product: the gradients swapped": (
        lambda torch, a, b: a * b * b,
        lambda torch, g, a, b, y: (g * b * b, 2 * g * a * b),
        lambda torch, g, a, b, y: (2 * g * a * b, g * b * b),
        [(2,), (2,)],
    ),
    "mean squared error: N for 1": (
        lambda torch, a, b: ((a - b) ** 2).mean(),
        lambda torch, g, a, b, y: (2 * g * (a - b) / a.numel(), 2 * g * (b - a) / a.numel()),
        lambda torch, g, a, b, y: (2 * g * (a - b), 2 * g * (b - a)),
        [(2, 2), (2, 2)],
    ),
    "sum of rows: g is ignored": (
        lambda torch, x: x.sum(-1),
        lambda torch, g, x, y: g.unsqueeze(-1) + torch.zeros_like(x),
        lambda torch, g, x, y: torch.ones_like(x),
        [(2, 2)],
    ),
}


@pytest.mark.parametrize("name", TWINS)
def test_a_right_backward_is_proved_a_wrong_one_refuted(torch, name):
    forward, right, wrong, shapes = TWINS[name]
    result = prove(function(torch, forward, right), *shapes)
    assert result, result
    assert result.operations == ("MadeBackward",) or "MadeBackward" in result.operations
    result = prove(function(torch, forward, wrong), *shapes)
    assert result.verdict == "refuted" and "the rule of MadeBackward for its input" in repr(result)


@pytest.mark.parametrize("name", ["softmax: without the sum", "matmul: a transpose"])
def test_the_same_at_real_size(torch, name):
    forward, right, wrong, shapes = TWINS[name]
    assert prove(function(torch, forward, right), *shapes, size="real")
    assert prove(function(torch, forward, wrong), *shapes, size="real").verdict == "refuted"


WRONG_FUNCTIONS = {
    "softmax": (lambda torch, x: torch.softmax(x, -1), lambda torch, x: torch.softmax(x.detach(), -1) * x, (2, 2)),
    "a mean of logs": (
        lambda torch, x: torch.log(torch.exp(x) + 1).mean(),
        lambda torch, x: torch.log(torch.exp(x).detach() + torch.exp(x)).mean(),
        (3,),
    ),
}


@pytest.mark.parametrize("name", WRONG_FUNCTIONS)
def test_a_function_that_leaves_the_tape_is_not_proved(torch, name):
    right, wrong, shape = WRONG_FUNCTIONS[name]
    assert prove(lambda x: right(torch, x), shape)
    result = prove(lambda x: wrong(torch, x), shape)
    assert not result and "is not on the tape" in repr(result)


def test_setup_context_and_a_setting(torch):
    class Scaled(torch.autograd.Function):
        @staticmethod
        def forward(x, k):
            return x * x * k, x > 0

        @staticmethod
        def setup_context(ctx, inputs, output):
            x, ctx.k = inputs
            ctx.save_for_backward(x)
            ctx.mark_non_differentiable(output[1])

        @staticmethod
        def backward(ctx, g, _):
            (x,) = ctx.saved_tensors
            assert ctx.needs_input_grad == (True, False)
            return 2 * g * x * ctx.k, None

    assert prove(lambda x: Scaled.apply(x, 3.0)[0], (2,))


def test_a_kept_apply_is_proved_and_left_as_it_was(torch):
    square = function(torch, lambda torch, x: x * x, lambda torch, g, x, y: g * x)
    base, before = torch.autograd.function._SingleLevelFunction, torch._C._set_grad_enabled
    assert prove(square, (2,)).verdict == "refuted"
    assert "apply" not in vars(base) and torch._C._set_grad_enabled is before
    with pytest.raises(RuntimeError, match="sum"), pytorch_follows_us():
        raise RuntimeError("sum")
    assert "apply" not in vars(base) and torch._C._set_grad_enabled is before


def test_backward_of_a_function_on_floats(torch):
    cube = function(torch, lambda torch, x: x**3, lambda torch, g, x, y: g * 3 * x * x)
    tripled = function(torch, lambda torch, x: x**3, lambda torch, g, x, y: g * 9 * x * x)
    with pytorch_follows_us():
        x = leaf(1.0, 2.0)
        cube(x).sum().backward()
    assert x.grad.tolist() == [3.0, 12.0] and gradcheck(cube, (x,))
    with pytest.raises(RuntimeError, match="is 9 on the tape, but 3 by finite differences"):
        gradcheck(tripled, (x,))


def test_no_grad_of_pytorch_stops_our_tape(torch):
    def shifted(x):
        with torch.no_grad():
            shift = x * x
        return x - shift

    result = prove(shifted, (2,))
    assert not result and result.against[0].startswith("b of sub ") and prove(shifted, (2,), constant=["b of sub"])
    with pytorch_follows_us():
        with torch.no_grad():
            with torch.no_grad():
                assert not tt.is_grad_enabled()
            assert not tt.is_grad_enabled()
        assert tt.is_grad_enabled()
        with tt.no_grad():
            with torch.no_grad():
                pass
            assert not tt.is_grad_enabled()


def test_random_numbers_of_pytorch_are_repeated(torch):
    result = prove(lambda x: x * torch.rand(3), (3,))
    assert result and result.assumptions == ("the random numbers of PyTorch are those of this run",)


def test_a_module_of_pytorch(torch):
    class Scaled(torch.nn.Module):
        def __init__(self, power):
            super().__init__()
            self._parameters["w"] = torch.nn.Parameter(torch.tensor(np.array([0.5, -1.5])))
            self._buffers["k"] = torch.tensor(np.array([2.0, 3.0]))
            self.square = function(torch, lambda torch, x: x * x, lambda torch, g, x, y: power * g * x)

        def forward(self, x):
            return self.square(torch.exp(x) * self.w) * self.k

    module = Scaled(2)
    w = module.w
    result = prove(module, (2,))
    assert result and result.size == "x (2,), w (2,)" and module.w is w
    assert result.where == ("k is as passed in", "Scaled is in training mode")
    result = prove(Scaled(1), (2,))
    assert result.verdict == "refuted" and "the rule of MadeBackward for its input" in repr(result)


# --- PyTorch itself alone


def test_values_and_gradients_are_those_of_pytorch():
    """The same calls with PyTorch's tensors: values, shapes, dtypes and gradients are equal."""
    torch = pytest.importorskip("torch", reason=missing("torch"))
    from torch_names.pytorch_calls import CALLS as MANY

    warnings.simplefilter("ignore")
    numbers = np.random.default_rng(0).normal(size=(2, 3))
    for text in MANY:
        x, y = tt.tensor(numbers, requires_grad=True), torch.tensor(numbers, requires_grad=True)
        program = eval(f"lambda torch, F, x, t, m, i: {text}")
        t, m = torch.tensor(numbers[::-1] + 0.1), torch.tensor([[True, False, True], [False, True, True]])
        i = torch.tensor([[0, 1], [2, 0]])
        result, expected = (program(torch, torch.nn.functional, z, t, m, i) for z in (x, y))
        result, expected = (r if isinstance(r, tuple | list) else (r,) for r in (result, expected))
        for a, b in zip(result, expected, strict=True):
            assert type(a) is tt.Tensor, text
            assert a.shape == tuple(b.shape) and str(a.dtype).endswith(str(b.dtype).partition(".")[2]), text
            np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-6, err_msg=text)
        if expected[0].requires_grad:
            expected[0].sum().backward()
            result[0].sum().backward()
            np.testing.assert_allclose(x.grad.numpy(), y.grad.numpy(), rtol=1e-6, atol=1e-12, err_msg=text)


def test_a_function_in_python_runs_from_its_own_source():
    torch = pytest.importorskip("torch", reason=missing("torch"))
    assert not hasattr(tt.nn.functional, "multi_head_attention_forward")
    attention = torch.nn.MultiheadAttention(2, 1, batch_first=True)
    result = prove(attention, *[(1, 2, 2)] * 3)
    assert result and "softmax" in result.operations
    with pytest.raises(NotImplementedError, match="batch_norm: PyTorch has it"):  # it calls a missing one
        prove(torch.nn.BatchNorm1d(2), (2, 2))


def test_line_of_an_error_is_the_users():
    """A function of PyTorch in Python stands between this line and ours."""
    torch = pytest.importorskip("torch", reason=missing("torch"))
    with pytest.raises(NotImplementedError) as raised:
        prove(lambda x: torch.nn.functional.fractional_max_pool2d(x, 2, output_size=1), (2, 2))
    assert raised.value.__notes__[0].startswith("prove: in test_pytorch_functions.py, line ")
