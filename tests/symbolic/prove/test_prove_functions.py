"""`prove` takes autograd.Function in both modes, names values held constant, and tests each rule with any gradient."""

import pytest

import tinytensor as tt
import tinytensor.nn.functional as F
from tests.symbolic.prove.functions import function, square
from tinytensor.autograd import Function
from tinytensor.symbolic import prove

SIZES = pytest.mark.parametrize("size", ["small", "real"])


class Several(Function):
    """Two results with gradients and one without, of two tensors and a number; PyTorch's newer form."""

    @staticmethod
    def forward(x, y, k):
        return x * y * k, x + y, x > 0

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, y, ctx.k = inputs
        ctx.save_for_backward(x, y)
        ctx.mark_non_differentiable(output[2])

    @staticmethod
    def backward(ctx, g, h, _):
        x, y = ctx.saved_tensors
        return g * y * ctx.k + h, g * x * ctx.k + h, None


class Wanted(Function):
    """A product that computes only the gradients that are needed."""

    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x @ w

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        return (g @ w.t() if ctx.needs_input_grad[0] else None), (x.t() @ g if ctx.needs_input_grad[1] else None)


class Transposed(Wanted):
    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        return g @ w, x.t() @ g  # w is square here, so that the shapes fit


class Forgotten(Several):
    @staticmethod
    def backward(ctx, g, h, _):
        x, y = ctx.saved_tensors
        return g * y * ctx.k + h, g * x * ctx.k, None


class Module(tt.nn.Module):
    def __init__(self):
        super().__init__()
        self.w = tt.nn.Parameter(tt.tensor([0.5, -1.5]))

    def forward(self, x):
        return right_square(x * self.w).sum()


right_square = square(lambda g, x: 2 * g * x)
RIGHT = {
    "square": (right_square, (3,)),
    "inside another function": (lambda x: (right_square(x) * x.exp()).sum(), (2,)),
    "twice": (lambda x: right_square(right_square(x)), (2,)),
    "several results": (lambda x, y: Several.apply(x, y, 3.0)[:2], (2,), (2,)),
    "one of several": (lambda x, y: Several.apply(x, y, 3.0)[1].sum(), (2,), (2,)),
    "needs_input_grad": (Wanted.apply, (2, 3), (3, 2)),
    "a constant argument": (lambda x: Wanted.apply(x, tt.tensor([[2.0], [3.0]])), (2, 2)),
    "a module": (Module(), (2,)),
}
WRONG = {
    "a factor": (square(lambda g, x: g * x), (3,)),
    "a sign": (function(lambda x: x.cos(), lambda g, x: g * x.sin()), (3,)),
    "g is ignored": (lambda x: square(lambda g, x: 2 * x)(x).exp(), (3,)),
    "g is ignored, behind a sum": (lambda x: square(lambda g, x: 2 * x)(x).sum(), (3,)),
    "g squared, behind a sum": (lambda x: square(lambda g, x: 2 * g * g * x)(x).sum(), (3,)),
    "the mean of g": (lambda x: square(lambda g, x: 2 * g.mean() * x)(x).sum(), (3,)),
    "a forgotten path": (lambda x, y: Forgotten.apply(x, y, 3.0)[:2], (2,), (2,)),
    "a transpose": (Transposed.apply, (2, 2), (2, 2)),
    "no gradient": (square(lambda g, x: None), (2,)),
    "no gradient of one input": (function(lambda a, b: a * b, lambda g, a, b: (g * b, None)), (2,), (2,)),
    "g squared, at the result": (lambda x: square(lambda g, x: 2 * g * g * x)(x.sum()), (3,)),
    "the sum of rows": (function(lambda x: x.sum(-1), lambda g, x: g.mean() + x * 0), (2, 2)),
}


@SIZES
@pytest.mark.parametrize("name", RIGHT)
def test_a_right_function_is_proved(name, size):
    fn, *shapes = RIGHT[name]
    assert prove(fn, *shapes, size=size)


@SIZES
@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_function_is_refuted(name, size):
    fn, *shapes = WRONG[name]
    assert prove(fn, *shapes, size=size).verdict == "refuted"


def test_input_of_a_wrong_function_is_named():
    assert "the rule of ForgottenBackward for its input y gives" in repr(prove(*WRONG["a forgotten path"]))


CONSTANT = {
    "detach": (lambda x: (x * x.detach()).sum(), "b of mul"),
    "no_grad": (lambda x: (x * without_tape(x)).sum(), "b of mul"),
    ".data": (lambda x: (x.data * x).sum(), "a of mul"),
    "straight through": (lambda x: (x + (x.sign() * 2 - x).detach()).sum(), "b of add"),
}


def without_tape(x):
    with tt.no_grad():
        return x.exp()


@pytest.mark.parametrize("name", CONSTANT)
def test_detached_values_must_be_named_constant(name):
    fn, what = CONSTANT[name]
    proof = prove(fn, (3,))
    assert not proof and proof.against[0].startswith(what) and f'prove(..., constant=["{what}"])' in repr(proof)
    named = prove(fn, (3,), constant=[what])
    assert named and f"held constant, since it is not on the tape: {what}" in named.assumptions
    assert f"{what} is held constant" in named.where
    sampled = prove(fn, (3,), size="real")
    assert sampled.verdict == "undecided" and f"not on the tape, but dependent on the inputs: {what}" in repr(sampled)
    by_item = prove(lambda x: (x * x.sum().item()).sum(), (3,), size="real")
    assert by_item.verdict == "undecided" and "a value that is held constant has a derivative" in repr(by_item)


@pytest.mark.parametrize(
    "fn", [F.leaky_relu, lambda x: x.softmax(-1), lambda x: x.amax(-1), F.normalize, F.hardsigmoid]
)
def test_values_without_derivative_may_leave_the_tape(fn):
    """The sign of a leaky ReLU, the peak of a softmax: holding them constant changes no derivative."""
    assert prove(fn, (2, 3))
