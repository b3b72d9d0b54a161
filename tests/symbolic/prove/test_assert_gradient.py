"""`assert_gradient`: a right gradient passes, and a failure shows the formula, the derivative and the lines."""

import re

import pytest

import tinytensor as tt
from tests.symbolic.prove.functions import wrong_softsign
from tinytensor.symbolic import assert_gradient


class WrongSquare(tt.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * x


def model(x, w):
    h = x @ w
    return wrong_softsign(h).sum()


def test_a_right_gradient_passes():
    proof = assert_gradient(tt.softmax, (2, 2), -1)
    assert proof.entries == 4
    assert assert_gradient(tt.softmax, (2, 2), -1, size="real").entries == 4
    assert assert_gradient(lambda x: x * x.detach(), (2,), constant=["b of mul"])


FAILURES = {
    "the rule of an operation": (
        lambda: assert_gradient(model, (2, 2), (2, 1)),
        r"""the gradient is wrong: model at x \(2, 2\), w \(2, 1\)
  the rule of wrong_softsign for its input x gives g_0_0/\(1 - x\[0, 0\]\) .* derivative is g_0_0/\(x\[0, 0\] - 1\)\*\*2
  +the rule: functions.py, line \d+: def grad_x\(g, x\):
  +called here: test_assert_gradient.py, line \d+: return wrong_softsign\(h\).sum\(\)
  the gradient of . at .* on the tape, but difference quotients of the forward give .*
  +at x = .*; w = .*""",
    ),
    "the backward of a Function": (
        lambda: assert_gradient(lambda x: WrongSquare.apply(x).sum(), (3,)),
        r"""the gradient is wrong: <lambda> at x \(3,\)
  the rule of WrongSquareBackward for its input x gives g_0\*x\[0\] .* derivative is 2\*g_0\*x\[0\]
  +the rule: test_assert_gradient.py, line \d+: def backward\(ctx, g\):
  +called here: test_assert_gradient.py, line \d+: .*WrongSquare.apply\(x\).sum\(\), \(3,\)\),
  the gradient of x at .*
  +at x = .*""",
    ),
    "another function on floats": (
        lambda: assert_gradient(lambda x: x * x if x.dtype == object else x * 3, (2,)),
        r"""the gradient is wrong: <lambda> at x \(2,\)
  result 0 at \[0\] is .* on floats, and .* on exact numbers: .*""",
    ),
    "at a random point": (
        lambda: assert_gradient(WrongSquare.apply, (3,), size="real"),
        r"""the gradient is wrong: WrongSquare at x \(3,\)
  a proof at a small size, with its own shapes, shows the formula that is wrong, if one is
  modulo p = .*""",
    ),
}


@pytest.mark.parametrize("name", FAILURES)
def test_a_failure_says_what_is_wrong_and_where(name):
    call, text = FAILURES[name]
    with pytest.raises(AssertionError) as raised:
        call()
    assert re.fullmatch(text, str(raised.value), re.DOTALL), str(raised.value)


def test_pytest_shows_the_line_of_the_test():
    with pytest.raises(AssertionError) as raised:
        assert_gradient(model, (1, 1), (1, 1))
    raised.traceback = raised.traceback.filter(raised)  # as a report does: without frames that hide themselves
    assert [entry.path.name for entry in raised.traceback] == ["test_assert_gradient.py"]


def test_wrong_inputs_raise_the_errors_of_prove():
    with pytest.raises(ValueError, match="prove: no input has a gradient"):
        assert_gradient(tt.softmax, tt.ones(2), -1)
