r"""Formulas as a person writes them; written out again, their sums give the original formula."""

import numpy as np
import pytest
import sympy

import tinytensor as tt
import tinytensor.nn.functional as F
from tinytensor.symbolic import latex, path, symbols
from tinytensor.symbolic.exact.formula_printer import Entry, entries, fold_sums, name_frequent_parts, remove_shift
from tinytensor.symbolic.exact.tensors import _readable


def test_a_linear_layer():
    y = F.linear(symbols("x", 2, 3), symbols("w", 4, 3), symbols("b", 4))
    assert latex(y) == r"\left[ b_{j} + \sum_{k=0}^{2} w_{j k} x_{i k} \right]_{i = 0 \ldots 1,\ j = 0 \ldots 3}"
    assert latex(y[0, 1]) == r"b_{1} + \sum_{k=0}^{2} w_{1 k} x_{0 k}"


def test_softmax_without_its_shift():
    rows = r"\left[ \frac{e^{x_{i j}}}{\sum_{k=0}^{3} e^{x_{i k}}} \right]_{i = 0 \ldots 1,\ j = 0 \ldots 3}"
    assert latex(symbols("x", 2, 4).softmax(-1)) == rows


def test_cross_entropy():
    loss = F.cross_entropy(symbols("x", 3, 4), tt.tensor([1, 0, 3]))
    sum_of_logs = r"\frac{\sum_{j=0}^{2} \log{\left(\sum_{k=0}^{3} e^{x_{j k}} \right)}}{3}"
    assert (
        latex(loss) == rf"- \frac{{x_{{0 1}}}}{{3}} - \frac{{x_{{1 0}}}}{{3}} - \frac{{x_{{2 3}}}}{{3}} + {sum_of_logs}"
    )


def test_attention():
    q, k, v = (symbols(n, 3, 2) for n in "qkv")
    assert latex(F.scaled_dot_product_attention(q, k, v)) == (
        r"\left[ \frac{\sum_{k=0}^{2} a_{k i} v_{k j}}{\sum_{k=0}^{2} a_{k i}} \right]"
        r"_{i = 0 \ldots 2,\ j = 0 \ldots 1},"
        r"\quad a_{k j} = e^{\frac{\sqrt{2} k_{k 0} q_{j 0}}{2} + \frac{\sqrt{2} k_{k 1} q_{j 1}}{2}}"
    )


def test_layer_norm():
    y = F.layer_norm(symbols("x", 5), (5,), symbols("g", 5), symbols("d", 5))
    assert latex(y) == (
        r"\left[ \frac{a_{i} g_{i}}{\sqrt{0.00001 + \frac{\sum_{j=0}^{4} a_{j}^{2}}{5}}} + d_{i} \right]"
        r"_{i = 0 \ldots 4},"
        r"\quad a_{j} = x_{j} - \frac{\sum_{k=0}^{4} x_{k}}{5}"
    )


def test_two_layers_and_a_loss():
    hidden = F.tanh(F.linear(symbols("x", 2, 3), symbols("W", 4, 3), symbols("b", 4)))
    loss = F.mse_loss(F.linear(hidden, symbols("U", 1, 4), symbols("c", 1)), symbols("y", 2, 1))
    assert latex(loss) == (
        r"\frac{\sum_{i=0}^{1} \left(c_{0} - y_{i 0} + \sum_{j=0}^{3} U_{0 j} "
        r"\tanh{\left(b_{j} + \sum_{k=0}^{2} W_{j k} x_{i k} \right)}\right)^{2}}{2}"
    )


@pytest.mark.slow
def test_two_layers_with_relu_and_their_signs():
    with path() as conditions:
        hidden = F.relu(F.linear(symbols("x", 2, 3), symbols("W", 4, 3), symbols("b", 4)))
        loss = F.cross_entropy(F.linear(hidden, symbols("U", 3, 4), symbols("c", 3)), tt.tensor([0, 2]))
    parts = latex(loss, conditions).split(r",\quad ")
    (before,) = (p.split(" = ")[0].partition("_")[0] for p in parts if "W_{j k} x_{i k}" in p)
    signs = [p for p in parts if p.startswith(f"{before}_") and p.endswith(" 0")]
    assert len(signs) == 8  # of each unit at each of both rows
    assert {p[-3] for p in signs} == {"<", ">"}


@pytest.mark.parametrize(
    ("formula_text", "expected"),
    [
        ("x_0 + x_1 + x_2", "Sum"),
        ("x_0*w_0 + x_1*w_1 + x_2*w_2 + b", "Sum"),
        ("x_0*w_1 + x_1*w_2 + x_2*w_3", "Sum"),
        ("exp(x_0) + exp(x_1) + exp(x_2)", "Sum"),
        ("2*x_0/3 - x_1/3 - x_2/3", "Sum"),
        ("x_0_0 + x_0_1 + x_0_2 + x_1_0 + x_1_1 + x_1_2", "Sum"),
        ("x_0_0 + x_0_1 + x_0_2 + x_1_0 + x_1_1", "Sum"),  # a row and two more
        ("x_0 + x_1", ""),
        ("x_0 + x_2 + x_4", ""),
        ("x_0*w_0 + x_1*w_1 + x_2*w_0", ""),
        ("x_0 + 2*x_1 + 3*x_2", ""),
        ("x_0*x_1 + x_1*x_2 + x_0*x_2", ""),
        ("x_0**2 + x_1**2 + x_2**3", ""),
    ],
)
def test_repeated_patterns_are_folded_into_sums(formula_text, expected):
    expr = entries(sympy.sympify(formula_text))
    result = fold_sums(expr)
    assert bool(result.atoms(sympy.Sum)) == bool(expected)
    assert written_out(result) == expr


def written_out(expr):
    """The formula without sums: their terms, one by one."""
    if isinstance(expr, sympy.Sum):
        terms = [expr.function]
        for letter, first, last in expr.limits:
            terms = [put(term, str(letter), n) for term in terms for n in range(int(first), int(last) + 1)]
        return written_out(sympy.Add(*terms))
    return expr.func(*map(written_out, expr.args)) if expr.args and not isinstance(expr, Entry) else expr


def put(expr, letter, n):
    result = {e: Entry(e.base, [("", n + i[1]) if i[0] == letter else i for i in e.indices]) for e in expr.atoms(Entry)}
    return expr.xreplace(result)


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    "make",
    [
        lambda: F.cross_entropy(symbols("x", 3, 4), tt.tensor([1, 0, 3])),
        lambda: F.layer_norm(symbols("x", 1, 5), (5,), symbols("g", 5)),
        lambda: F.scaled_dot_product_attention(*(symbols(n, 2, 3) for n in "qkv"), is_causal=True),
        lambda: F.linear(F.relu(F.linear(symbols("x", 2, 3), symbols("W", 4, 3))), symbols("U", 3, 4)).softmax(-1),
    ],
)
def test_written_formula_has_the_value(make):
    """With numbers for its symbols it has the value that the formula has."""
    for value in make()._data.flat:
        result = written_out(_readable(value))
        formula = entries(value.formula())
        rng = np.random.default_rng(0)
        at = {s: sympy.Float(rng.uniform(0.5, 1.5), 40) for s in sorted(formula.free_symbols, key=str)}
        at |= {s: sympy.Float(s.name, 40) for s in result.free_symbols - at.keys()}  # 0.00001
        assert abs(result.xreplace(at).evalf(30) / formula.xreplace(at).evalf(30) - 1) < 1e-11


def test_names_stand_for_their_formulas():
    x, y = (entries(sympy.sympify(f"exp(x_{n}*w_{n} + b_{n}*c - d/5)")) for n in (1, 2))
    (one, two), ((name, formula),) = name_frequent_parts([x + 1, x * y])
    assert (str(one), str(two)) == ("a_{1} + 1", "a_{1}*a_{2}")
    assert put(formula, name.indices[0][0], 1) == x


def test_names_inside_sums_keep_the_index():
    """A name inside a sum has the sum's index."""
    x, y, z = (Entry(name, [("k", 0)]) for name in "xyz")
    body = sympy.exp(x * y + z**2 - x * z / 3)
    total = sympy.Sum(body, (sympy.Symbol("k"), 0, 3))
    (result,), ((name, _),) = name_frequent_parts(
        [total / (1 + sympy.Sum(body * Entry("v", x.indices), (sympy.Symbol("k"), 0, 3)))]
    )
    assert len(name.indices) == 1
    assert {str(e) for e in result.atoms(Entry)} == {"a_{k}", "v_{k}"}


def test_only_the_shift_is_removed():
    a, b, m = sympy.symbols("a b m")
    shifted = 1 + sympy.exp(a - m) + sympy.exp(b - m)
    assert remove_shift(sympy.log(shifted) + m) == sympy.log(sympy.exp(m) + sympy.exp(a) + sympy.exp(b))
    sigmoid = 1 / (1 + sympy.exp(-a))
    assert remove_shift(sigmoid) == sigmoid
