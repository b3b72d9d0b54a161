"""`prove`: it proves right rules, refutes wrong ones by name, and leaves everything as it was."""

import pickle
import re
from fractions import Fraction

import numpy as np
import pytest
import sympy

import tinytensor as tt
import tinytensor.nn.functional as F
from tests.mutants.engine import HAND_WALKS
from tests.mutants.planting import planted_walk
from tests.symbolic.prove import functions
from tests.symbolic.prove.functions import function, softsign_kernel, wrong_softsign
from tinytensor.core.dispatch import state
from tinytensor.symbolic import Symbolic, Undecided, latex, path, prove, symbols
from tinytensor.symbolic.exact.tensors import _readable


@tt.op
class softsign:
    r"y = x / (1 + |x|)"

    kernel = softsign_kernel

    def grad_x(g, y, x):
        return g / (1 + x.abs()) ** 2


# ------------------------------------------------------------------------------------------------------- it proves


def test_custom_op_in_three_lines():
    proof = prove(softsign, (2, 3))
    print(proof)
    assert proof
    assert (proof.verdict, proof.size, proof.entries, proof.operations) == ("proved", "x (2, 3)", 6, ("softsign",))
    assert proof.assumptions == ("signs of x: [[+ - +], [+ - +]]", "no denominator is 0")
    assert repr(proof).startswith("proved: softsign at x (2, 3): 6 entries of gradients, at this shape, ")
    assert (
        "for all values where signs are as below, no two compared numbers are equal and no denominator is 0\n"
        in repr(proof)
    )


def network(E, W, b, tokens, targets):
    hidden = F.linear(F.embedding(tokens, E), W, b).relu()
    return F.cross_entropy(hidden @ E.T, targets)


def test_whole_network_is_proved():
    """Embedding with a repeated token, a layer with ReLU, tied output, padding: in one tape."""
    proof = prove(network, (3, 2), (2, 2), (2,), tt.tensor([1, 0, 1]), tt.tensor([0, -100, 2]))
    assert proof, proof
    assert proof.entries == 6 + 4 + 2
    assert proof.fused == ("linear", "cross_entropy_mean")
    signs = next(line for line in proof.assumptions if line.startswith("signs"))
    assert {"+", "-"} <= set(signs), "the witness must take both branches of relu"


@pytest.mark.slow
def test_proof_agrees_with_sympys_derivative():
    """The gradients, put together step by step, are SymPy's derivatives of a small loss as one expression."""
    leaves = [symbols(n, *s).requires_grad_() for n, s in (("E", (3, 2)), ("W", (2, 2)), ("b", (2,)))]
    loss = network(*leaves, tt.tensor([1, 0, 1]), tt.tensor([0, 1, 2]))
    loss.backward()
    for leaf in leaves:
        for got, x in zip(leaf.grad._data.flat, leaf._data.flat, strict=True):
            assert got.equals(Symbolic(sympy.diff(loss.item().expr, x.expr), got.witness))


def squares_inplace(x, y):
    z = x * 2
    z[0] = y[0] ** 2
    z[1:].mul_(y[1:])
    return (z * x).sum()


def double(*numbers):
    return tt.tensor(numbers, dtype=tt.float64, requires_grad=True)


FUNCTIONS = {
    "a value that is used three times": (lambda x: (x * x * x.exp()).sum(), [(2,)]),
    "broadcasting, both ways": (lambda x, y: (x + y) * y, [(2, 1), (3,)]),
    "a new dimension and a stretched one": (lambda x, y: (x * y.exp()).sum(), [(2, 1), (3, 2, 2)]),
    "views of views": (lambda x: x.T[1:].reshape(-1) * x.flatten()[:4], [(2, 3)]),
    "changes in place": (squares_inplace, [(3,), (3,)]),
    "an input that is not used": (lambda x, y: x.tanh(), [(2,), (2,)]),
    "an input that is the result": (lambda x: x, [(2,)]),
    "constants of several kinds": (lambda x: x * 0.5 + tt.tensor([1, 2]) - tt.tensor([0.25, 1.0]), [(2,)]),
    "floats made inside, in products": (
        lambda x: F.linear(x @ tt.ones(3, 2), tt.ones(2, 2)) + tt.ones(2, 2) @ tt.einsum("ij,jk", x, tt.ones(3, 2)),
        [(2, 3)],
    ),
    "floats made inside, in fused operations": (
        lambda x: F.layer_norm(x, (2,), tt.ones(2)).sum() + F.cross_entropy(x, tt.tensor([0, 1]), tt.ones(2) / 2),
        [(2, 2)],
    ),
    "smoothed targets": (lambda x: F.cross_entropy(x, tt.tensor([1, 0]), label_smoothing=0.1), [(2, 3)]),
    "a power with any exponent, at a positive base": (lambda x, y: x**y, [(2,), (2,)]),
    "a logarithm, at a positive point": (lambda x: x.log(), [(3,)]),
    "an arc cosine, between 0 and 1": (lambda x: (x * x.arccos()).log(), [(2, 2)]),
    "a mask and a constant": (lambda x, mask: tt.where(mask, x, 0).sum(), [(2,), tt.tensor([True, False])]),
    "results without a gradient beside one with": (lambda x: (x.argmax(), x.exp(), None), [(3,)]),
    "no dimensions": (lambda x: x.sin() * x, [()]),
    "a root of positive numbers": (lambda x: x.sqrt().log(), [symbols("x", 2, positive=True)]),
    "floats as exponents": (lambda x: x.abs() ** 1.7 + x.norm(p=2.3), [(2,)]),
    "a setting in Python's own arithmetic": (lambda x: functions.grown(x, 0.5), [(2,)]),
    "numbers that cancel in floats": (lambda x: x.sigmoid() * 1e13, [double(30.0, -30.0, 10.0)]),
    "numbers that cancel in floats, in the derivative alone": (functions.steep, [double(20.0, 15.0)]),
    "a power whose float overflows": (lambda x: x**200 * 1e-300, [double(100.0, 1.1)]),
}


@pytest.mark.parametrize("what", FUNCTIONS)
def test_prove_accepts_right_functions(what):
    fn, inputs = FUNCTIONS[what]
    proof = prove(fn, *inputs)
    assert proof, proof
    assert proof.entries > 0


def test_several_results_are_all_differentiated():
    assert prove(lambda x: (x.exp(), x * x, x), (2,))
    assert not prove(lambda x: (x.exp(), wrong_softsign(x)), (2,))
    assert not prove(lambda x: (wrong_softsign(x), x.exp()), (2,))


@pytest.mark.parametrize("size", ["small", "real"])
def test_module_gets_its_parameters_back(size):
    model = tt.nn.Sequential(tt.nn.Linear(2, 3), tt.nn.ReLU(), tt.nn.LayerNorm(3), tt.nn.Linear(3, 2))
    model[0].weight.requires_grad_(False)
    model[0].bias.grad = tt.ones(3)
    before = {name: (p._data, p.grad) for name, p in model.named_parameters()}
    proof = prove(model, (2, 2), size=size)
    assert proof, proof
    assert "0.bias (3,), 2.weight (3,)" in proof.size
    assert "0.weight" not in proof.size
    for name, p in model.named_parameters():
        assert p._data is before[name][0]
        assert p.grad is before[name][1]


class Running(tt.nn.Module):
    """Buffers: one is a factor, one is changed at each call."""

    def __init__(self):
        super().__init__()
        self.register_buffer("A", tt.tensor([[1.0, 0.5], [0.25, -1.0]]))
        self.register_buffer("mean", tt.zeros(2))
        self.weight = tt.nn.Parameter(tt.ones(2))

    def forward(self, x):
        self.mean.mul_(0.9).add_(x.mean(0), alpha=0.1)
        return (x @ self.A - self.mean) * self.weight


@pytest.mark.parametrize("size", ["small", "real"])
def test_buffers_are_constants_and_unchanged(size):
    for model in (Running(), tt.nn.BatchNorm1d(2)):
        before = {name: (b._data, b.tolist(), b.requires_grad) for name, b in model.named_buffers()}
        proof = prove(model, (3, 2), size=size)
        assert proof, proof
        for name, b in model.named_buffers():
            assert (b._data, b.tolist(), b.requires_grad) == before[name] or b._data is before[name][0]
            assert b.tolist() == before[name][1]
            assert not b.requires_grad


@pytest.mark.parametrize("size", ["small", "real"])
def test_random_draws_are_named_and_repeated(size):
    def noisy(x):
        return (F.dropout(x, 0.5) * tt.randn(4), x + tt.rand_like(x))

    tt.manual_seed(3)
    expected = tt.rand(2).tolist()
    tt.manual_seed(3)
    proof = prove(noisy, (4,), size=size)
    assert proof, proof
    lines = [line for line in proof.assumptions if line.startswith("the random numbers of ")]
    assert [line.split()[4] for line in lines] == ["dropout", "randn", "rand"]
    assert all("(test_prove.py, line " in line and "return (F.dropout(x, 0.5) * tt.randn(4)" in line for line in lines)
    assert tt.rand(2).tolist() == expected  # the generator stands where it stood
    assert not any("random numbers" in line for line in prove(tt.exp, (2,), size=size).assumptions)


@pytest.mark.parametrize("size", ["small", "real"])
def test_symbolic_constants_are_named(size):
    assert "0.7071067811865476 is read as sqrt(2)/2, which it rounds" in prove(F.gelu, (2,), size=size).assumptions
    assert prove(lambda x: F.gelu(x, approximate="tanh") + x.erf(), (2,), size=size)
    assert prove(lambda x: x * 0.7071067811865476, (2,), size=size)  # nothing else leans on it


def test_inexact_constant_stays_a_number(monkeypatch):
    rule = lambda g, x: g * (1.1283791670955128 * (-x * x).exp())  # noqa: E731  (one unit in the last place off)
    monkeypatch.setattr(tt.OPS["erf"], "rules", {0: rule})
    monkeypatch.setattr(tt.OPS["erf"], "_saved_values", {})
    assert prove(tt.erf, (2,)).verdict == "undecided"

    class Counting(tt.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("n", tt.zeros(()))

        def forward(self, x):
            self.n.add_(1)
            return x.erf() * self.n

    assert prove(Counting(), (2,)).verdict == "undecided"  # not refuted by a run with another n
    through = prove(lambda x: x.erf() + 3 * (x - x.detach()), (2,), constant=["b of sub"])
    assert through.verdict == "undecided"  # x - x.detach() is 0, and its gradient any number


def test_floats_that_require_grad_are_the_sample_point():
    x = tt.tensor([[0.5, -1.0], [-2.0, 3.0]], requires_grad=True)
    assert prove(tt.relu, x).assumptions == ("signs of x: [[+ -], [- +]]",)
    assert x.grad is None
    assert x.dtype == tt.float32


def test_positions_of_maxima_are_named():
    x = symbols("x", 2, 3, witness=[[1, 3, 2], [6, 4, 5]])
    assert prove(lambda x: x.max(-1), x).assumptions == (
        "x[0, 1] > x[0, 0], x[0, 1] > x[0, 2], x[1, 0] > x[1, 1], x[1, 0] > x[1, 2] (in reduce_max)",
    )


class Scaled(tt.nn.Module):
    """Its parameter has the name of its input, and its buffer requires a gradient."""

    name = 3

    def __init__(self):
        super().__init__()
        self.x = tt.nn.Parameter(tt.ones(2))
        self.register_buffer("b", tt.ones(2, requires_grad=True))

    def forward(self, x):
        return x * self.x * self.b


NAMES = {
    "a parameter with the name of an input": (Scaled(), [(2,)], "Scaled at input0 x (2,), x (2,), b (2,)"),
    "an input with a name that others get": (lambda input1, *rest: input1 * rest[0], [(2,), (2,)], ""),
    "an input with the name of an operation": (
        lambda mul, y: F.relu(mul).sum() + F.relu(mul.sum() * y),
        [(2,), (3,)],
        "signs of mul#1: [- - +]",
    ),
}


@pytest.mark.parametrize("what", NAMES)
def test_equal_names_are_told_apart(what):
    fn, inputs, words = NAMES[what]
    proof = prove(fn, *inputs)
    assert proof and words in repr(proof)


@pytest.mark.parametrize("size", ["small", "real"])
def test_constants_that_a_function_changes_are_restored(size):
    """What it changes beside its inputs is undecided, and no difference between exact numbers and floats."""
    held, count = tt.ones(2), tt.tensor(1)
    for fn, *constants in (
        (lambda x, c: x * c.add_(1), held),
        (lambda x, c: x * c.add_(1), count),
        (lambda x, c=held: x * c.add_(1),),
    ):
        proof = prove(fn, (2,), *constants, size=size)
        assert proof.verdict == "undecided" and "changed: another call would differ" in repr(proof)
        assert not constants or constants[0].flatten()[0] == 1


def test_parameters_that_a_module_changes_are_restored():
    layer = tt.nn.Linear(2, 1)
    before = layer.weight.tolist()

    def forward(x):
        layer.weight.data.mul_(2)
        return type(layer).forward(layer, x)

    layer.forward = forward
    assert not prove(layer, (2, 2))
    assert layer.weight.tolist() == before


# ------------------------------------------------------------------------------------------------------ it refutes


def test_counterexample_is_valid():
    """The shown numbers are those of the formulas, at the shown point."""
    proof = prove(lambda x: wrong_softsign(x * 2).sum(), (2, 3))
    assert not proof
    assert proof.verdict == "refuted"
    assert [(w.op, w.input) for w in proof.wrong] == [("wrong_softsign", "x")]
    text = repr(proof)
    assert text.startswith("refuted: <lambda> at x (2, 3)\n  the rule of wrong_softsign for its input x gives g_0_0/(")
    *_, numbers, point = proof.against
    row, column, tape, quotient = re.match(
        r".* x at \[(\d), (\d)\] is (.*) on the tape, .* give (.*)", numbers
    ).groups()
    x = 2 * eval(point.removeprefix("at x = "))[int(row)][int(column)]
    g = float(tape) * (1 + abs(x)) / 2
    assert float(quotient) == pytest.approx(2 * g / (1 + abs(x)) ** 2, rel=1e-3)


def shares_a_value(x):
    y = x.exp()
    return (y * (y + y.sin())).sum()


def test_overwriting_is_blamed_on_the_walk():
    assert prove(shares_a_value, (2,))
    with planted_walk(*HAND_WALKS["overwritten where gradients meet"]):
        proof = prove(shares_a_value, (2,))
    assert "every rule is right by itself: a hook, or the walk over the tape" in repr(proof)
    assert "changes the gradient of exp\n" in repr(proof) and not proof.wrong


KEPT = tt.tensor([1, 0])
passes_on = function(F.relu, lambda g, x: g)
step = function(lambda x: (x > 0) + x * 0, lambda g, x: g)
masked = function(lambda x: x * KEPT, lambda g, x: g)
MIDDLES = {
    "a ReLU that is off": lambda x: passes_on(x).sum(),
    "the same, of a value that came of another": lambda x: (passes_on(x * 2) * x).sum(),
    "numbers alone": lambda x: step(x).sum(),
    "a mask": lambda x: masked(x).sum(),
    "a mask, and an exp of what is left": lambda x: masked(x * x).exp().sum(),
}


@pytest.mark.parametrize("what", MIDDLES)
def test_a_wrong_rule_in_the_middle_of_a_function_is_noticed(what):
    """Each is right for the gradient that arrives here, or at the entries that depend on the input."""
    proof = prove(MIDDLES[what], (2,))
    assert proof.verdict == "refuted"
    assert [w.rule for w in proof.wrong] == ["MadeBackward, input inputs"]


def test_wrong_relu_in_a_model_is_noticed(monkeypatch):
    """It is in the middle of the loss, and wrong for matrices only."""
    right = tt.OPS["linear_relu"].backward

    def wrong(needs, accumulated, g, y, x, weight):
        if x.ndim == 2:
            return tt.OPS["linear"].backward(needs, accumulated, g, x, weight)
        return right(needs, accumulated, g, y, x, weight)

    monkeypatch.setattr(tt.OPS["linear_relu"], "backward", wrong)
    model = tt.nn.Sequential(tt.nn.Linear(2, 3), tt.nn.ReLU(), tt.nn.Linear(3, 1))
    assert prove(model, (2, 2, 2))

    def loss(x, W, b):
        return F.linear(x, W, b, relu=True).exp().sum()

    assert [w.rule for w in prove(loss, (2, 2), (3, 2), (3,)).wrong if not w.through_definition] == [
        f"linear_relu, input {name}" for name in ("x", "weight", "bias")
    ]


# ------------------------------------------------------------------------------------------------------------ hooks


def with_hook(hook):
    def fn(x):
        y = x * 2
        y.register_hook(hook)
        return y.sum()

    return fn


def with_hook_at_the_input(x):
    x.register_hook(lambda g: g * 3)
    return (x * 2).sum()


@pytest.mark.parametrize(("fn", "where"), [(with_hook(lambda g: g * 3), "mul"), (with_hook_at_the_input, "x")])
def test_hooks_of_the_function_are_proved(fn, where):
    proof = prove(fn, (2,))
    assert (proof.verdict, proof.wrong) == ("refuted", ())
    assert f": a hook, or the walk over the tape, changes the gradient of {where}\n" in repr(proof)
    assert "is 6 on the tape, but difference quotients of the forward give 2\n" in repr(proof)
    assert prove(fn, (2,), size="real").verdict == "refuted"
    x = tt.ones(2, requires_grad=True)
    fn(x).backward()
    assert x.grad.tolist() == [6, 6]


def test_hook_without_effect_is_called_and_proved():
    seen = []
    proof = prove(with_hook(lambda g: seen.append(g.shape)), (2,))
    assert proof.verdict == "undecided" and proof.against == ("fn changed: another call would differ",)
    assert set(seen) == {(2,)}  # over symbols, over exact numbers without formulas, and on floats
    assert prove(with_hook(lambda g: None), (2,))
    assert prove(with_hook(lambda g: g * 3 / 3), (2,))


def test_wrong_rule_is_not_blamed_on_a_hook():
    def fn(x):
        y = x.exp()
        y.register_hook(lambda g: g * 3)
        return wrong_softsign(y).sum()

    proof = prove(fn, (2,))
    assert [w.op for w in proof.wrong] == ["wrong_softsign"] and "hook" not in repr(proof).replace("y.register", "")


def test_inputs_get_their_hooks_back():
    model = tt.nn.Linear(2, 1)
    handle = model.weight.register_hook(lambda g: g * 3)
    assert "changes the gradient of weight\n" in repr(prove(model, (2, 2)))
    assert len(model.weight._hooks) == 1
    handle.remove()
    assert prove(model, (2, 2))


def test_input_named_g_is_not_the_gradient():
    confused = function(lambda a, b: a * b, lambda g, a, b: (g * b, g * g))  # right where a is the gradient
    assert prove(lambda g, b: confused(g, b), (2,), (2,)).verdict == "refuted"


# ------------------------------------------------------------------------------------------------------- it refuses


def test_inputs_without_information_are_refused():
    with pytest.raises(ValueError, match="the input x holds 2\\*y_0; inputs hold"):
        prove(lambda x: x, symbols("y", 2) * 2)
    with pytest.raises(ValueError, match="the input b holds y_0; inputs hold"):
        prove(tt.OPS["mul"], symbols("y", 2), symbols("y", 2))
    with pytest.raises(Undecided, match="choose other witnesses"):
        prove(tt.relu, symbols("x", 2, witness=0))
    for name in ("exp[]", "g'", "∂exp[]"):  # as a pass calls its own symbols
        with pytest.raises(ValueError, match="of a name of letters"):
            prove(lambda x: x.exp() * x, symbols(name, witness=1).requires_grad_())


def test_infinite_gradient_is_not_proved():
    """3 (-oo) is -oo, so a rule that is wrong by a factor could pass."""
    with pytest.raises(Undecided, match="no number"):
        prove(lambda x, m: (x * m.log()).sum(), (2,), tt.zeros(2))


def test_symbols_survive_pickle():
    x = pickle.loads(pickle.dumps(symbols("x", 2)))
    assert str((x + x * x).tolist()) == "[x_0**2 + x_0, x_1**2 + x_1]"
    y = symbols("y", 2)._data
    array, total = pickle.loads(pickle.dumps(y)), np.empty(2, object)
    tt.launch(tt.OPS["add"].kernel, array, array, total)  # as a kernel of the user's may be called
    assert str(total.tolist()) == "[2*y_0, 2*y_1]"
    assert prove(tt.exp, x)


def test_prove_leaves_the_engine_unchanged():
    def fails(x):
        assert state.on_node is not None
        raise RuntimeError("my own error")

    with pytest.raises(RuntimeError, match="my own error"):
        prove(fails, (2,))
    assert state.on_node is None
    assert prove(tt.exp, (2,))
    assert state.on_node is None


# ----------------------------------------------------------------------------------------------------------- latex


def test_latex():
    x = symbols("x", 2).requires_grad_()
    y = x.softmax(-1)
    first = r"\frac{e^{x_{0}}}{e^{x_{0}} + e^{x_{1}}}"
    assert latex(y[0]) == first
    assert latex(y) == rf"\begin{{bmatrix}} {first} & {first.replace('{e^{x_{0}}}{', '{e^{x_{1}}}{')} \end{{bmatrix}}"
    y[0].backward()
    product = r"\frac{e^{x_{0} + x_{1}}}{\left(e^{x_{0}} + e^{x_{1}}\right)^{2}}"
    assert latex(x.grad) == rf"\begin{{bmatrix}} {product} & - {product} \end{{bmatrix}}"
    assert latex(tt.tensor([[1, 2], [3, 4]])) == r"\begin{bmatrix} 1 & 2 \\ 3 & 4 \end{bmatrix}"
    assert latex(tt.tensor([[[1, 2]], [[3, 4]]])).count("bmatrix") == 4
    assert latex(tt.tensor(0.5)) == "0.5"
    assert latex(F.linear(symbols("x", 2), symbols("alpha_hat", 1, 2))) == (
        r"\begin{bmatrix} \alpha_{hat 0 0} x_{0} + \alpha_{hat 0 1} x_{1} \end{bmatrix}"
    )


def test_latex_writes_the_conditions_of_a_path():
    with path() as conditions:
        y = F.relu(symbols("x", 2, witness=[1, -2]))
    assert latex(y, conditions) == rf"{latex(y)},\quad x_{{0}} > 0,\quad x_{{1}} < 0"


@pytest.mark.parametrize(
    ("factor", "written"),
    [
        (0.1, "0.1 x"),
        (1 / Fraction(0.07), r"\frac{x}{0.07}"),
        (1 / Fraction(-0.3), r"- \frac{x}{0.3}"),
        (float(np.float32(0.1)), "0.10000000149011612 x"),
        (-0.1, "- 0.1 x"),
        (0.044715, "0.044715 x"),
        (1e-5, "0.00001 x"),
        (0.1 + 0.2, "0.30000000000000004 x"),  # which it is
        (2.5e-30, r"x {2.5 \cdot 10^{-30}}"),
        (0.5, r"\frac{x}{2}"),
        (0.375, r"\frac{3 x}{8}"),
        (Fraction(1, 3), r"\frac{x}{3}"),
        (3, "3 x"),
    ],
)
def test_latex_keeps_numbers_as_written(factor, written):
    assert latex(symbols("x") * factor) == written


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    "make",
    [
        lambda: F.cross_entropy(symbols("x", 2, 2), tt.tensor([1, 0])),
        lambda: F.layer_norm(symbols("x", 1, 3), (3,), symbols("g", 3)),
        lambda: F.scaled_dot_product_attention(*(symbols(n, 2, 1) for n in "qkv"), is_causal=True),
        lambda: F.linear(F.relu(F.linear(symbols("x", 2), symbols("W", 2, 2))), symbols("U", 2, 2)).softmax(-1),
    ],
)
def test_latex_writes_what_was_computed(make):
    """With numbers for its symbols, the formula that is written has the value of the one that was computed."""
    for value in make()._data.flat:
        written, formula, rng = _readable(value), value.formula(), np.random.default_rng(0)
        at = {s: sympy.Float(rng.uniform(0.5, 1.5), 40) for s in sorted(formula.free_symbols, key=str)}
        at |= {s: sympy.Float(s.name, 40) for s in written.free_symbols - at.keys()}  # 0.00001
        assert abs(written.xreplace(at).evalf(30) / formula.xreplace(at).evalf(30) - 1) < 1e-11
