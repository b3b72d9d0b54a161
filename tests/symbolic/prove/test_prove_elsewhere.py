"""A rule that is right at the sample point and wrong elsewhere is not proved; what a proof rests on is in its verdict.

Each function of WRONG was once called proved. Each safeguard is also taken away here: then one of them is proved again.
"""

import re

import numpy as np
import pytest

import tinytensor as tt
import tinytensor.nn.functional as F
from tests.symbolic.prove.functions import function, square
from tinytensor import nn
from tinytensor.symbolic import assert_gradient, numbers, prove, symbols
from tinytensor.symbolic.exact import scalars
from tinytensor.symbolic.prove import passes, probing, prover

not_a_number = tt.isnan


def right_if(condition):
    """x^2 with its slope where the condition holds, else with a wrong one."""
    return square(lambda g, x: tt.where(condition(x), 2 * g * x, g + 7))


class OfBoth(tt.autograd.Function):
    """A product whose rule is right only if both inputs need it."""

    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return a * b

    @staticmethod
    def backward(ctx, g):
        a, b = ctx.saved_tensors
        return (g * b, g * a) if all(ctx.needs_input_grad) else (5 * g, 5 * g)


def data_changed(x):
    y = x * 1
    y.data.mul_(3)
    return y * y


def detached_view_changed(x):
    y = x * 1
    y.detach()[0] = y.detach()[1] * 3
    return y * y


def right_for_few_calls(x, calls=[]):  # noqa: B006  (the list is its state)
    calls.append(1)
    return x * x if len(calls) < 12 else x.detach() * x


class CountsWalks(tt.autograd.Function):
    """x^2, whose rule is right in the first backward() over a tape."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        ctx.walks = []
        return x * x

    @staticmethod
    def backward(ctx, g):
        ctx.walks.append(1)
        return (1 + len(ctx.walks)) * g * ctx.saved_tensors[0]


def through_memory(x, a, b):
    a.copy_(x.detach())
    return x * b


def right_for_few_calls_with(x):
    x.calls = getattr(x, "calls", 0) + 1
    return x * x if x.calls < 1000 else x.detach() * x


wrong_square = square(lambda g, x: g)
ONES = tt.ones(3)
WRONG = {
    "in a tuple in the result": (lambda x: (x.exp(), (wrong_square(x),)), (3,)),
    "in a dict": (lambda x: {"first": x.exp(), "second": [wrong_square(x)]}, (3,)),
    "if the inputs are results": (square(lambda g, x: (2 if x.is_leaf else 3) * g * x), (3,)),
    "if the inputs have gradients": (square(lambda g, x: (2 if x.grad is None else 3) * g * x), (3,)),
    "in a second walk over the tape": (CountsWalks.apply, (3,)),
    "by a change of the gradient that arrives": (square(lambda g, x: g.mul_(2).mul_(x)), (3,)),
    "after some calls with one tensor": (right_for_few_calls_with, (3,)),
    "through the memory of a constant": (through_memory, (3,), ONES, ONES),
    "at zero": (right_if(lambda x: x != 0), (3,)),
    "at zero, by truth values": (right_if(lambda x: x.bool()), (3,)),
    "near zero": (right_if(lambda x: ~tt.isclose(x, x * 0)), (3,)),
    "at one number that it compares with": (right_if(lambda x: x != 3), (3,)),
    "beyond a number that it compares with": (right_if(lambda x: x < 3), (3,)),
    "beyond a large number": (right_if(lambda x: x < 100), (3,)),
    "behind a clamp": (square(lambda g, x: 2 * g * x.clamp(-5, 5)), (3,)),
    "where a remainder wraps": (square(lambda g, x: 2 * g * tt.fmod(x, 100.0)), (3,)),
    "where rounding starts": (square(lambda g, x: 2 * g * x + (x / 100).round()), (3,)),
    "where a floor is left": (square(lambda g, x: 2 * g * x + (x.abs() / 100).floor()), (3,)),
    "for other signs": (square(lambda g, x: 2 * g * x if x[0] > 0 else g), (3,)),
    "where all are negative": (square(lambda g, x: g if bool((x < 0).all()) else 2 * g * x), (3,)),
    "far from zero, by a square": (right_if(lambda x: x * x < 900), (3,)),
    "far from zero, by a sum": (right_if(lambda x: x.abs().sum() < 40), (3,)),
    "for another order": (square(lambda g, x: 2 * g * x if x.argmax() == 1 else g), (3,)),
    "for equal numbers of one input": (square(lambda g, x: 2 * g * x if len(tt.unique(x)) == 3 else g), (3,)),
    "for equal numbers of two inputs": (
        function(lambda a, b: a * b, lambda g, a, b: (tt.where(a == b, g, g * b), g * a)),
        (3,),
        (3,),
    ),
    "by a branch on a zero": (square(lambda g, x: 2 * g * x if bool((x != 0).all()) else g), (3,)),
    "by a count of zeros": (square(lambda g, x: 2 * g * x if x.nonzero().shape[0] == 3 else g), (3,)),
    "for large gradients that arrive": (square(lambda g, x: 2 * g.clamp(-50, 50) * x), (3,)),
    "in a branch of the forward": (lambda x: x * x if x[0].item() != 0 else (x * x).detach() + x, (3,)),
    "in a branch for large numbers": (lambda x: x * x if x[0].item() < 100 else (x * x).detach() + x, (3,)),
    "a difference of two kinks": (lambda x: F.relu(x) - F.relu(-x), (3,)),
    "in float32": (square(lambda g, x: 2 * g * (x + 2.0**20 - 2.0**20)), (3,)),
    "if one input alone requires grad": (OfBoth.apply, (3,), (3,)),
    "beside a value off the tape that no result depends on": (
        lambda a, b: tt.where(tt.tensor([True] * 3), OfBoth.apply(a, b), a.detach()),
        (3,),
        (3,),
    ),
    "if one tensor is given twice": (lambda a, b: a * b.detach() if a is b else a * b, (3,), (3,)),
    "inputs that are changed": (lambda x: (x.data.mul_(3), x * x)[1], (3,)),
    "a result that is changed": (lambda x: (y := x * x, y.data.mul_(3))[0], (3,)),
    "for a second derivative": (square(lambda g, x: (5 if tt.is_grad_enabled() else 2) * g * x), (3,)),
    "by little, for a second derivative": (square(lambda g, x: (2.00001 if tt.is_grad_enabled() else 2) * g * x), (3,)),
    "for inputs that are not contiguous": (square(lambda g, x: (2 if x.is_contiguous() else 5) * g * x), (2, 2)),
    "after some calls": (right_for_few_calls, (3,)),
    "data that is changed": (data_changed, (3,)),
    "a detached view that is changed": (detached_view_changed, (3,)),
    "a number by item() plus one": (lambda x: F.softplus(x, beta=abs(x[0].item()) + 1), (3,)),
    "a sum of numbers": (lambda x: x * sum(x.tolist()), (3,)),
}


@pytest.mark.one_in(4)
@pytest.mark.parametrize("what", WRONG)
def test_wrong_elsewhere_is_not_proved(what):
    fn, *inputs = WRONG[what]
    proof = prove(fn, *inputs)
    assert not proof and proof.verdict in ("refuted", "undecided"), proof
    if what != "after some calls":  # its state has changed
        with pytest.raises(AssertionError, match=r"the gradient is (wrong|not proved)"):
            assert_gradient(fn, *inputs)


AT_REAL_SIZE = [
    "at zero",
    "for other signs",
    "where all are negative",
    "by little, for a second derivative",
    "for equal numbers of two inputs",
    "in float32",
    "if one input alone requires grad",
    "beside a value off the tape that no result depends on",
    "if one tensor is given twice",
    "for a second derivative",
    "data that is changed",
    "a difference of two kinks",
    *[
        what
        for what in WRONG
        if what.startswith(("in a tuple", "in a dict", "if the inputs", "by a change", "through"))
    ],
]


@pytest.mark.parametrize("what", AT_REAL_SIZE)
def test_wrong_elsewhere_is_not_proved_at_real_size(what):
    fn, *inputs = WRONG[what]
    assert not prove(fn, *inputs, size="real")


def test_refutation_shows_the_numbers():
    proof = prove(WRONG["at one number that it compares with"][0], (3,))
    assert proof.verdict == "refuted" and re.search(r"at input0 = \[.*3\.[ ,\]]", proof.against[1])
    assert "on the tape, but difference quotients of the forward give" in proof.against[0]
    behind = prove(WRONG["behind a clamp"][0], (3,))
    assert behind.verdict == "refuted"
    assert "but the derivative is 2*g_" in repr(behind) and "the first sample point" in repr(behind)
    alone = prove(OfBoth.apply, (3,), (3,))
    assert "the gradient of a at [0] is 5 if a alone requires grad, and " in repr(alone)


# Without a derivative, or with slopes that quotients cannot show: these are right, and stay proved.
KINKS = {
    "the median of equal numbers": (lambda x: x.median(), (3,)),
    "sorted equal numbers": (lambda x: x.sort().values * tt.arange(3), (3,)),
    "the largest of equal numbers": (lambda x: x.amax(-1), (2, 3)),
    "a norm at zero": (lambda x: x.norm(), (3,)),
    "a direction at zero": (lambda x: F.normalize(x, dim=-1), (2, 3)),
    "a deviation of equal numbers": (lambda x: x.std(), (3,)),
    "the edge of softplus": (F.softplus, (3,)),
    "the edges of a clamp": (lambda x: x.clamp(-1, 1) * x, (3,)),
    "steps": (lambda x: x * x.round(), (3,)),
    "signs": (lambda x: x * x.sign(), (3,)),
    "a factor that vanishes": (lambda x: x.prod(), (3,)),
    "layer norm of equal numbers": (lambda x: F.layer_norm(x, (3,)), (2, 3)),
    "logarithms, at positive points": (lambda x: x.log() * x, (3,)),
    "a logarithm of what vanishes in floats": (lambda x: (1 - x.sigmoid()).log(), (3,)),
    "random numbers": (lambda x: F.dropout(x, 0.5) * x, (3,)),
}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("what", KINKS)
def test_right_functions_with_kinks_stay_proved(what):
    fn, *inputs = KINKS[what]
    assert prove(fn, *inputs)
    assert prove(fn, *inputs, size="real")


def test_a_function_is_called_a_few_times(capsys):
    def speaks(x):
        print("called")
        return x * x

    assert prove(speaks, (2,))
    assert capsys.readouterr().out.count("called") < 10


# ------------------------------------------------------------------------------------------------ the verdict's line


HALVES = tt.tensor([[1.0, 0.0], [1.0, 1.0]], dtype=tt.float64)


def branches_before_a_relu(x, y):
    small = bool(y[0] * 0.001 < 3)
    return F.linear(x, HALVES, relu=True) * (y[0] * y[0] if small else (y * y).detach()[0] + y[0])


VERDICTS = {
    "a comparison before a sum that is cut at 0": (
        branches_before_a_relu,
        [symbols("x", 2, witness=[-0.25, 0.5]), symbols("y", 2, witness=[-0.5, 0.25])],
        "signs and comparisons are as below",
    ),
    "NaN by another name": (square(lambda g, x: g * (3 if not_a_number(x).any() else 2) * x), [(3,)], "is finite"),
    "nothing": (lambda x: x * x, [(3,)], "at this shape, for all values"),
    "no entries": (lambda x: x * x, [(0,)], "there is no entry to compare"),
    "two shapes": (lambda x, y: x * y, [(3,), (3,)], "at these shapes, for all values"),
    "a denominator of the forward": (lambda x: 1 / x, [(3,)], "no denominator is 0"),
    "a denominator that the formula has lost": (lambda x: x * (x / x), [(3,)], "no denominator is 0"),
    "a numerator that is 0": (lambda x: x + 0 / x, [(3,)], "no denominator is 0"),
    "a denominator of the rule alone": (square(lambda g, x: 2 * g * x**2 / x), [(3,)], "no denominator is 0"),
    "a negative power of the rule alone": (square(lambda g, x: 2 * g * x**-1 * x**2), [(3,)], "no denominator is 0"),
    "a logarithm of the rule alone": (
        square(lambda g, x: 2 * g * x.log().exp()),
        [(3,)],
        "every argument of a logarithm is above 0",
    ),
    "an arc": (lambda x: (x / 10).arcsin(), [(3,)], "every argument of asin and acos lies between -1 and 1"),
    "an inverse of erf": (lambda x: (x / 10).erfinv(), [(3,)], "every argument of erfinv lies between -1 and 1"),
    "a gamma function": (tt.lgamma, [symbols("x", 2, positive=True)], "argument of the gamma function is above 0"),
    "signs": (F.relu, [(3,)], "signs are as below and no two compared numbers are equal"),
    "an order": (lambda x: x.max(), [(3,)], "comparisons are as below"),
    "comparisons": (lambda x: x.clamp(-1, 1), [(3,)], "comparisons are as below"),
    "whole numbers": (lambda w, t: w[t], [(4, 2), tt.tensor([0, 1, 2])], "t is as passed in"),
    "two constants": (lambda x, a, b: x * a + b, [(2,), tt.ones(2), tt.ones(2)], "a and b are as passed in"),
    "a setting": (lambda x, n: x**n, [(2,), 3], "n is 3"),
    "a draw": (lambda x: x * tt.randn(3), [(3,)], "random numbers are those of this run"),
    "a constant that is rounded": (lambda x: F.gelu(x), [(2,)], "rounded constants count as exact"),
    "a module in training": (nn.Linear(2, 2), [(2, 2)], "Linear is in training mode"),
    "a module in use": (nn.BatchNorm1d(2).eval(), [(2, 2)], "BatchNorm1d is in eval mode"),
    "a module's buffers": (nn.BatchNorm1d(2), [(3, 2)], "running_mean, running_var and num_batches_tracked are as"),
}


@pytest.mark.parametrize("what", VERDICTS)
def test_conditions_stand_in_the_line_that_says_proved(what):
    fn, inputs, words = VERDICTS[what]
    proof = prove(fn, *inputs)
    first = repr(proof).splitlines()[0]
    assert first.startswith("proved: ") and words in first, first
    assert words in proof._repr_html_().partition("<ul>")[0].replace("−", "-")


def test_verdict_names_code_not_run():
    scale = symbols("s", witness=2).item()
    line = repr(prove(lambda x: x * scale, (2,))).splitlines()[0]
    assert line.startswith("proved") and "not compared with a run on floats, which raised TypeError" in line


def test_positive_denominators_are_no_condition():
    assert prove(lambda x: 1 / (x.exp() + 2) + (1 + x * x).log(), (2,)).where == ()


def test_sampled_verdict_has_its_conditions():
    line = repr(prove(lambda x, t: F.relu(x)[t], (3, 2), tt.tensor([0, 1]), size="real")).splitlines()[0]
    assert line.endswith(" where comparisons come out as those of the floats and t is as passed in")


@pytest.mark.parametrize("what", ["a denominator that the formula has lost", "a logarithm of the rule alone", "an arc"])
def test_sampled_verdict_says_where_values_exist(what):
    fn, inputs, words = VERDICTS[what]
    assert words in repr(prove(fn, *inputs, size="real")).splitlines()[0]


# ------------------------------------------------------------------------- mistakes planted in the checker itself


def no_points(sample, edges):
    return iter(())


def no_equal_numbers(sample, edges, points=probing.points):
    for point, size in points(sample, edges):
        if all(np.unique(values).size == values.size for values in point.values()):
            yield point, size


def passed(*arguments, **named):
    return None


PLANTED = {  # safeguard: (owner, name, what is there instead, a function that is then proved)
    "no other points": (probing, "points", no_points, "at zero"),
    "no points beyond edges": (probing, "EDGES", 0, "beyond a large number"),
    "no equal numbers": (probing, "points", no_equal_numbers, "for equal numbers of one input"),
    "no other circumstances": (
        probing.Probe,
        "differs_in_variants",
        lambda *arguments: "",
        "if one input alone requires grad",
    ),
    "no tensor is given twice": (probing, "PAIRS", 0, "if one tensor is given twice"),
    "every difference is rounding": (numbers, "QUOTIENT", 1e9, "for other signs"),
    "float32 may be anything": (probing, "SAME_IN_FLOAT32", 1e9, "in float32"),
    "no value is known to change": (passes, "_same", lambda one, other: True, "data that is changed"),
    "all is linear nowhere": (probing.Probe, "is_linear", lambda *arguments: False, "a difference of two kinks"),
}


def test_function_that_is_another_one_for_one_tensor_twice_is_proved():
    def slopes(a, b):  # for one tensor twice, `grad` gives the sum of both for each
        return tt.autograd.grad((a * a * b).sum(), [a, b], create_graph=True)

    assert prove(slopes, (2,), (2,))


@pytest.mark.parametrize("planted", PLANTED)
def test_each_safeguard_is_needed(planted, monkeypatch):
    owner, name, instead, what = PLANTED[planted]
    monkeypatch.setattr(owner, name, instead)
    if what == "data that is changed":  # the quotients notice it, too
        assert "changes" not in repr(prove(*WRONG[what]))
        monkeypatch.setattr(probing, "points", no_points)
        monkeypatch.setattr(probing.Probe, "differs_from_quotients", passed)
    fn, *inputs = WRONG[what]
    assert prove(fn, *inputs), "the mistake is not noticed by this function"


def test_numbers_would_refute_what_the_linearity_test_saves(monkeypatch):
    monkeypatch.setattr(probing.Probe, "is_linear", lambda *arguments: True)
    assert not prove(*KINKS["the median of equal numbers"])


def test_a_domain_that_is_not_recorded_is_missed(monkeypatch):
    monkeypatch.setattr(scalars, "_needs", passed)
    assert prove(*[lambda x: x * (x / x), (3,)]).where == ()


def test_inputs_that_are_not_named_are_missed(monkeypatch):
    monkeypatch.setattr(prover, "_fixed_inputs", lambda fn, inputs: [])
    fn, inputs, words = VERDICTS["whole numbers"]
    assert words not in repr(prove(fn, *inputs))
