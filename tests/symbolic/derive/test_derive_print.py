"""Formulas of derivations in print: as text, as LaTeX, in matrix notation."""

import pytest
from sympy import Integer, Rational, Symbol, exp, log, pi, sqrt

from tests.symbolic.derive.derived_functions import derived
from tinytensor.symbolic import derive
from tinytensor.symbolic.index_calculus.adjoints import d
from tinytensor.symbolic.index_calculus.formulas import Array, Index, Size, delta, total
from tinytensor.symbolic.index_calculus.functions import larger, relu, same, sigmoid, theta, upto
from tinytensor.symbolic.index_calculus.matrices import Matrices
from tinytensor.symbolic.index_calculus.notation import equation, equation_tex, name_tex, tex, text
from tinytensor.utils.display.latex import mathml

N, D = Size("Ω", "n i"), Size("Ψ", "d j")  # no other test has these
n, i, j = Index("n", N), Index("i", N), Index("j", D)
X, s, A, t = Array("X", (N, D)), Array("s", (N,)), Array("A2", (N, N)), Array("t", (N,), values=D)
a = Symbol("a", real=True)

PRINTED = {  # formula: as text, as LaTeX
    sqrt(s[n] / (D - 1)): ("√(s_n/(Ψ - 1))", r"\sqrt{\frac{s_{n}}{\Psi - 1}}"),
    (s[n] * X[n, j]) ** Rational(1, 4): ("(s_n X_nj)^(1/4)", r"\left(s_{n} X_{nj}\right)^{\frac{1}{4}}"),
    sigmoid(s[n]) ** 2: ("σ(s_n)²", r"\sigma\left(s_{n}\right)^{2}"),
    (1 - s[n]) ** 2: ("(1 - s_n)²", r"\left(1 - s_{n}\right)^{2}"),
    1 / (s[n] + Rational("1e-5")): ("1/(s_n + 1e-5)", r"\frac{1}{s_{n} + 10^{-5}}"),
    Rational("0.07") * s[n]: ("0.07 s_n", "0.07 s_{n}"),
    Rational("2.5e-7") * s[n]: ("2.5e-7 s_n", r"2.5 \cdot 10^{-7} s_{n}"),
    Rational(1.4142135623730951) * a: ("1.4142135623730951 a", "1.4142135623730951 a"),
    s[n] * 100 / 7: ("s_n/0.07", r"\frac{s_{n}}{0.07}"),
    s[n] / 3: ("s_n/3", r"\frac{s_{n}}{3}"),
    exp(X[n, j] - s[n]): ("exp(X_nj - s_n)", r"\exp\left(X_{nj} - s_{n}\right)"),
    log(1 + exp(-s[n])): ("log(1 + exp(-s_n))", r"\log\left(1 + \exp\left(-s_{n}\right)\right)"),
    sqrt(pi) * s[n]: ("√π s_n", r"\sqrt{\pi} s_{n}"),
    upto(i, n): ("[i ≤ n]", r"\left[i \le n\right]"),
    theta(s[n] - 1): ("[s_n > 1]", r"\left[s_{n} > 1\right]"),
    1 - theta(s[n]): ("[s_n ≤ 0]", r"\left[s_{n} \le 0\right]"),
    same(s[n] - a): ("[s_n = a]", r"\left[s_{n} = a\right]"),
    relu(s[n]): ("max(0, s_n)", r"\max\left(0, s_{n}\right)"),
    -larger(-s[n], -2): ("min(s_n, 2)", r"\min\left(s_{n}, 2\right)"),
    2 * larger(s[n], 1) / N: ("2 max(s_n, 1)/Ω", r"\frac{2 \max\left(s_{n}, 1\right)}{\Omega}"),
    delta(j, t[n]): ("δ(j, t_n)", r"\delta_{j\,t_{n}}"),
    delta(Index("i", Integer(3)), 2): ("δ(i, 2)", r"\delta_{i, 2}"),
    X[n, t[n]]: ("X[n, t_n]", "X_{n,t_{n}}"),
    A[n, 1]: ("A2[n, 1]", r"A^{(2)}_{n,1}"),
    A[n, i] ** 2: ("A2_ni²", r"\left(A^{(2)}_{ni}\right)^{2}"),
    X[n, j] - delta(j, t[n]): ("X_nj - δ(j, t_n)", r"X_{nj} - \delta_{j\,t_{n}}"),
    total(-s[n], n): ("Σ_n (-s_n)", r"\sum_{n} \left(-s_{n}\right)"),
    d(X)[n, j] * s[n] / N: ("s_n/Ω ∂𝓛/∂X_nj", r"\frac{s_{n}}{\Omega} \frac{\partial\mathcal{L}}{\partial X_{nj}}"),
}


@pytest.mark.parametrize("formula", PRINTED, ids=lambda formula: PRINTED[formula][0])
def test_formula_prints_as_a_person_writes(formula):
    assert (text(formula), tex(formula)) == PRINTED[formula]
    mathml(tex(formula))


def test_factors_stand_in_the_order_of_names():
    product = total(X[n, j] * s[n], n)
    assert text(product, (s, X)) == "Σ_n s_n X_nj"
    assert text(product, (X, s)) == "Σ_n X_nj s_n"
    left, V = Array("Y", (N, D)), Array("V", (N, D))
    assert equation(left[n, j], total(V[i, j] * A[n, i], i), (V, A)) == "Y_nj = Σ_i A2_ni V_ij"
    assert equation_tex(left[n, j], V[n, j]) == "Y_{nj} = V_{nj}"


def test_adjoint_of_a_scalar_is_a_derivative():
    assert text(d(a) * s[n], (a,)) == "s_n ∂𝓛/∂a"
    assert tex(d(a), (a,)) == r"\frac{\partial\mathcal{L}}{\partial a}"


def test_matrix_forms_are_those_of_the_whole_line():
    part, table = Index("p", N - 1), Array("t2", (N,), values=D)
    assert Matrices().form(s[n], total(X[n, j] ** Rational(3, 2), j)).text == "X^∘(3/2) 𝟏"
    assert Matrices().form(X[n, j], -delta(j, table[n])).text == "-onehot(t2)"
    assert Matrices().form(Array("Y", (N - 1, D))[part, j], -delta(j, table[part])) is None  # t2 has one entry more


def test_spelled_greek_letters_are_typeset_as_letters():
    def centred(x, gamma, mute, lambda_):
        mu = x.mean(-1, keepdim=True)
        return gamma * lambda_ * (x - mu) + mute

    derivation = derive(centred, x=("N", "D"), gamma=("D",), mute=("D",), lambda_=("D",))
    mean, result = derivation.lines
    assert mean.latex() == r"\mu_{n} = \frac{1}{D} \sum_{d} x_{nd}"
    assert result.latex() == r"Y_{nd} = \gamma_{d} \lambda_{d} \left(x_{nd} - \mu_{n}\right) + \mathrm{mute}_{d}"
    assert str(mean) == "mu_n = 1/D Σ_d x_nd"  # text has the names of the code
    gradients = "".join(line.latex() for line in derivation.matrix())
    assert r"\mu" in gradients and "mathrm{mu}" not in gradients
    assert name_tex("phi2") == r"\varphi^{(2)}" and name_tex("Lambda") == r"\Lambda"


def test_a_name_with_an_underscore_is_typeset_whole():
    block = derive(lambda my_w: my_w.exp().sum(), order=2, my_w=("D",)).matrix()[-1]
    assert r"{\partial \mathrm{my\_w}\,\partial \mathrm{my\_w}^{\top}}" in block.latex()


def test_notebook_shows_formulas_in_both_notations():
    shown = derived("cross entropy")._repr_html_()
    assert shown.count("<math") == 6 + 5  # of the lines, and of those that have a matrix form
    assert "proved for any size" in shown
    assert "<summary>assumptions</summary>" in shown
