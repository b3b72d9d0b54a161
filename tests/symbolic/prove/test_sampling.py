"""`prove(..., size="real")`: it proves right rules, refutes wrong ones by name, and reports its own figures."""

import math

import numpy as np
import pytest

import tinytensor as tt
from derivations.proofs.engine import Loss
from models.decoder import Config, Decoder
from tests.mutants import engine
from tests.mutants.planting import kernel_with, planted_kernel, planted_rule, planted_walk, rule_with
from tests.mutants.tally import notices
from tests.symbolic.prove import functions
from tests.symbolic.prove.functions import function, square
from tinytensor import nn
from tinytensor.core.op import OPS
from tinytensor.symbolic import prove
from tinytensor.symbolic.prove import sampling

TINY = Config(D=4, H=2, F=6, L=2, V=7, C=5)
TOKENS, TARGETS = tt.tensor([[1, 4, 1, 2, 0], [3, 3, 5, 6, 2]]), tt.tensor([[4, 1, 2, -100, -100], [3, 5, 6, 2, 1]])


def model(**switches):
    return prove(Loss(Decoder(TINY.replace(**switches))), TOKENS, TARGETS, size="real", seed=3)


def test_all_parameters_of_a_model_at_once():
    proof = model()
    assert proof.verdict == "proved"
    assert proof.entries == sum(p.numel() for p in Decoder(TINY).parameters())
    assert proof.comparisons > 100
    assert proof.formula > 50  # a formula that size could not be written down
    assert proof.formula < proof.prime.bit_length() - 100
    assert proof.error < -100
    assert str(proof.prime) in repr(proof)
    assert f"below 2^{math.ceil(proof.error)}" in repr(proof)


def test_formula_too_large_for_a_small_prime_gets_a_larger_one():
    def deep(x, wrong=False):
        h = x
        for _ in range(400):
            h = h * h * 0.5 + x * 0.1
        return (functions.square(lambda g, x: 3 * g * x) if wrong else tt.square)(h)

    proof = prove(deep, (2,), size="real")
    assert proof and proof.formula > 800 and proof.error < sampling.BOUND
    assert proof.prime.bit_length() > 900
    assert prove(lambda x: deep(x, wrong=True), (2,), size="real").verdict == "refuted"

    def deeper(x):
        for _ in range(1100):
            x = x * x
        return x

    proof = prove(deeper, (2,), size="real")
    assert proof.verdict == "undecided" and "too large for one random point" in repr(proof)


def test_draws_repeat_with_their_seed():
    one, two, other = (prove(tt.tanh, (3,), size="real", seed=s) for s in (1, 1, 2))
    assert one.prime == two.prime != other.prime
    assert prove(tt.tanh, (3,), size="real").prime != prove(tt.tanh, (3,), size="real").prime


@pytest.mark.parametrize(
    ("fn", "inputs"),
    [
        (tt.matmul, [(20, 19), (19, 17)]),
        (lambda x: x.softmax(-1), [(3, 70)]),
        (lambda x: (x.exp(), (x * x).sum()), [(5,)]),
        (lambda x: nn.functional.logsigmoid(x).sum() + nn.functional.silu(x).mean(), [(9,)]),
        (lambda x: (x - x.mean()).pow(2).mean().sqrt() + x.std() + x.norm(), [(9,)]),
        (lambda x: (x.abs() ** 1.5).sum() + (x.abs() ** -0.75).sum(), [(4,)]),
        (lambda x, y: (x.abs() ** y).sum() + (x.exp() ** (y * 2 - 3)).mean(), [(3,), (3,)]),
        (lambda x, y: x**y, [(3,), (3,)]),  # at a point where x is positive
        (lambda x: tt.arccos(x) + x.log(), [(3,)]),  # and between 0 and 1
        (lambda x: x.logsumexp(0) + x.sin().cos().sum() + x.relu().prod(), [(4,)]),
        (lambda x: (x + tt.full((3, 3), -math.inf).triu(1)).softmax(-1) @ x, [(3, 3)]),
        (lambda x: x.masked_fill(tt.ones(3, 3).triu(1) > 0, -math.inf).softmax(-1) @ x, [(3, 3)]),
        (lambda x, w: nn.functional.layer_norm(x, (40,), w), [(35, 40), (40,)]),
        (lambda x: nn.functional.scaled_dot_product_attention(x, x, x, is_causal=True), [(1, 2, 19, 3)]),
        (lambda x, mask: (x + mask).softmax(-1), [(2, 2), tt.tensor([[0.0, -math.inf], [0.0, 0.0]])]),
        (square(lambda g, x: 2 * x * (g if g.max() < 20 else g * 1)), [(3,)]),  # gradients that are compared
        (lambda x: x.relu(), [(0,)]),
        (lambda x: x * tt.func.grad(lambda y: (y**3).sum())(x), [(2,)]),
    ],
)
def test_right_functions_are_proved(fn, inputs):
    proof = prove(fn, *inputs, size="real", seed=0)
    assert proof, proof
    assert proof.entries == sum(math.prod(shape) for shape in inputs if isinstance(shape, tuple))


def test_unknown_identities_are_undecided():
    """The rule relies on sin^2 + cos^2 = 1, which residues do not know."""

    @tt.op
    class cosine:
        r"y = \cos^2 x, with the derivative of -\sin^2 x"

        def kernel(x):
            return np.cos(x) * np.cos(x)

        def definition(x):
            return 1 - tt.sin(x) * tt.sin(x)

        def grad_x(g, y, x):
            return -2 * g * tt.sin(x) * (y / tt.cos(x)) * (tt.sin(x) ** 2 + tt.cos(x) ** 2)

    proof = prove(cosine, (3,), size="real")
    assert proof.verdict == "undecided"
    assert "the gradients are right as floats" in repr(proof)
    assert "a proof at a small size, with its own shapes, shows the formula" in repr(proof)


def staircase(x):
    return x * x + (x * 1e8).round() / 1e8  # its quotients are 1, its slope is 0


TWO_ROUNDINGS = function(lambda x: x * 0.3, lambda g, x: g * (3 * 0.1))


@pytest.mark.parametrize("fn", [staircase, TWO_ROUNDINGS])
def test_right_gradients_that_numbers_cannot_tell_are_undecided(fn):
    assert prove(fn, (3,), size="real").verdict == "undecided"


def test_a_gradient_inside_that_is_held_constant_is_named():
    proof = prove(lambda x: x * tt.autograd.grad((x**3).sum(), x)[0], (2,), size="real")
    assert proof.verdict == "undecided" and "a value that is held constant has a derivative" in proof.against


def test_invalid_arguments_are_refused():
    with pytest.raises(ValueError, match='choose "small"'):
        prove(tt.tanh, (2,), size="large")


# ----------------------------------------------------------------------------------------- mistakes that it notices

RULES = {
    "divided by all, not by those that count": (
        "cross_entropy_mean",
        "backward",
        "apply_formula(true_divide.kernel, g, count)",
        "apply_formula(true_divide.kernel, g, count * 0 + target.size)",
    )
} | engine.HAND_RULES
WRONG_RULES = [
    "divided by all, not by those that count",
    "bias not summed over the rows",
    "keys for queries",
]
WRONG_KERNELS = [
    "norm without the mean of the gradient",
    "padding ignored",
    "the one-hot part overwrites",
    "attention: dq without the scale",
]


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", WRONG_RULES)
def test_a_wrong_rule_is_refuted(name):
    with planted_rule(*rule_with(*RULES[name])):
        assert model(attention_bias=True).verdict == "refuted"


@pytest.mark.one_in(9)
@pytest.mark.parametrize("name", WRONG_KERNELS)
def test_a_wrong_kernel_is_refuted(name):
    kernel, right, wrong = engine.HAND_KERNELS[name]
    with planted_kernel(kernel, kernel_with(kernel, right, wrong)):
        how = notices(model)
    assert how == ("IndexError" if name == "padding ignored" else "refuted")  # a padded place has no place to write to


@pytest.mark.parametrize("size", ["small", "real"])
@pytest.mark.parametrize("name", engine.HAND_WALKS)
def test_a_wrong_walk_is_refuted(name, size):
    with planted_walk(*engine.HAND_WALKS[name]):
        assert notices(lambda: prove(engine.shared, (2, 2), size=size))


def test_one_wrong_entry_of_many_is_refuted(monkeypatch):
    def rule(g, y):
        d = g * y
        array = d._data.copy()
        array[17, 23] = array[17, 23] + 1
        return tt.Tensor.of(array)

    monkeypatch.setattr(OPS["exp"], "rules", {0: rule})
    monkeypatch.setattr(OPS["exp"], "_saved_values", {})
    assert prove(tt.exp, (30, 40), size="real").verdict == "refuted"


def test_unwritten_memory_is_named():
    kernel, right, wrong = "softmax", "store(e, y, r, j)", "pass"
    with planted_kernel(kernel, kernel_with(kernel, right, wrong)), pytest.raises(RuntimeError, match="softmax: y"):
        prove(lambda x: x.softmax(-1), (2, 43), size="real")  # four registers, one, and a rest, whatever their width
