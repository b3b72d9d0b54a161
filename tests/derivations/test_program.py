"""The derived program: its lines equal plain loops, its results the engine's; planted mistakes make them differ."""

import ast

import numpy as np
import pytest
from sympy import Rational, exp, sqrt

from derivations import equations
from derivations.adjoints import Program
from derivations.claims import Refuted, claims_of
from derivations.equations import E, K, M, Q, S, Y, e, h, i, j, k, logits, m
from derivations.proofs import program
from derivations.proofs.eq17 import Derivation, derivation, derive
from models.decoder import Decoder
from tinytensor.symbolic.index_calculus.adjoints import d
from tinytensor.symbolic.index_calculus.formulas import Array, Index, Size, delta, total
from tinytensor.symbolic.index_calculus.functions import relu

SIZES = {"C": 6, "D": 6, "F": 9, "V": 11, "H": 2, "L": 2}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("claim", claims_of(["program"]), ids=lambda claim: claim.run.__name__)
def test_claim_runs(claim):
    claim.run()


def test_the_program_is_a_module_that_python_reads():
    tree = ast.parse(program.source())
    names = [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]
    parts = [f"{part}{way}" for part in ("embedding", "block", "head") for way in ("", "_backward")]
    assert names == ["theta", *parts, "gradients"]
    assert max(map(len, program.source().splitlines())) <= 130


# ---- one line at a time, against plain loops ------------------------------------------------------------------------

n, width = Size("n", "i j"), Size("m", "k l")
a_, b_, c_ = Index("i", n), Index("j", n), Index("k", width)
x, X, B = Array("x", (n,)), Array("X", (n, width)), Array("B", (n, n))
table, out, wide = Array("t", (n,), values=width), Array("out", (n, n)), Array("wide", (n, width))

LINES = {
    "a sum": (out[a_, b_], total(X[a_, c_] * X[b_, c_], c_) / sqrt(width), "X @ X.T / np.sqrt(size.m)"),
    "a transposition": (out[a_, b_], B[b_, a_], "= B.T"),
    "broadcast in front": (out[a_, b_], B[a_, b_] - x[b_], "B - x"),
    "broadcast behind": (out[a_, b_], B[a_, b_] - x[a_], "B - x[:, None]"),
    "a diagonal": (out[a_, b_], B[a_, b_] * B[b_, b_], "B * B[np.arange(size.n), np.arange(size.n)]"),
    "rows by a table": (out[a_, b_], B[a_, b_] + X[a_, table[a_]], "B + X[np.arange(size.n), t][:, None]"),
    "columns by a table": (out[a_, b_], X[a_, table[b_]] * x[a_], "x[:, None] * X[:, t]"),
    "a one-hot table": (wide[a_, c_], X[a_, c_] - delta(c_, table[a_]) / n, "X - np.eye(size.m)[t] / size.n"),
    "a count": (out[a_, b_], total(B[a_, b_], c_), "size.m * B"),
    "functions": (wide[a_, c_], relu(X[a_, c_]) * exp(X[a_, c_] - x[a_]), "np.exp(X - x[:, None])"),
    "roots and powers": (
        wide[a_, c_],
        (X[a_, c_] ** 2 + 2) ** Rational(-3, 2) + (x[a_] ** 2 + 1) ** Rational(1, 2) / (X[a_, c_] ** 2 + 2),
        "1 / (2 + X**2)**(3 / 2)",
    ),
    "a minus in front": (wide[a_, c_], -2 * X[a_, c_] / width, "-2 * X / size.m"),
    "the same along an axis": (wide[a_, c_], x[a_] / n, "np.full((size.n, size.m), (x / size.n)[:, None])"),
    "nothing at all": (wide[a_, c_], 0 * x[a_], "np.full((size.n, size.m), 0.0)"),
    "a product of sums": (out[a_, b_], B[a_, b_] * total(x[a_], a_) ** 2, "B * x.sum()**2"),
}


@pytest.mark.parametrize("case", LINES)
@pytest.mark.parametrize("seed", [0, 1])
def test_line_equals_plain_loops(case, seed):
    left, right, expected = LINES[case]
    one = Program([x[a_], X[a_, c_], B[a_, b_]], [table])
    one.let(left, right)
    line = program.line(one[left.base])
    assert expected in line
    at = one.point(seed)
    space = {"size": type("size", (), {"n": at[n], "m": at[width]}), "t": at[table].astype(int) - 1}
    space |= {str(array.label): at[array].astype(float) for array in (x, X, B)}
    exec(program.HEADER + line, space)
    expected_values = one.run(at)[left.base].astype(float)
    np.testing.assert_allclose(np.broadcast_to(space[str(left.base.label)], expected_values.shape), expected_values)


# ---- mistakes -------------------------------------------------------------------------------------------------------


def test_program_and_engine_agree():
    assert program.difference(SIZES) < 1e-13


@pytest.mark.parametrize("residual", ["once", "pre-norm"])
def test_another_reading_of_the_residual_differs(residual):
    other = program.source(derivation(residual))
    with pytest.raises(Refuted, match="differ by"):
        program.difference(SIZES, text=other)


FORWARD = {
    "no mask": (e, lambda right: right.subs(M[i, m], 1)),
    "mask transposed": (e, lambda right: right.subs(M[i, m], M[m, i])),
    "Q and K exchanged, as (3) is printed": (S, lambda right: right.xreplace({i: m, m: i})),
    "no 1/sqrt(K)": (S, lambda right: right * sqrt(equations.nK)),
    "attention to oneself": (Y, lambda right: equations.ZV[h, i, k] + 0 * right),
}


@pytest.mark.slow
@pytest.mark.parametrize("mistake", FORWARD)
def test_wrong_equation_is_noticed(mistake):
    array, change = FORWARD[mistake]
    wrong = derive(block=lambda residual: equations.block(residual).replaced(array, change))
    with pytest.raises(Refuted, match="differ by"):
        program.difference(SIZES, text=program.source(wrong))


def test_constant_in_the_logits_is_noticed(monkeypatch):
    """Neither the loss nor a gradient changes."""
    right = Decoder.logits
    monkeypatch.setattr(Decoder, "logits", lambda self, Z: right(self, Z) + 1)
    with pytest.raises(Refuted, match="logits: the derived program and the engine differ by"):
        program.difference(SIZES)


BACKWARD = {
    "one-hot forgotten": ("head", d(logits), lambda right: right - equations.w[i] / equations.N),
    "only half of what repeated tokens collect": ("embedding", d(E), lambda right: right / 2),
    "Q gets the gradient of K": ("block", d(Q), lambda right: right.xreplace({d(equations.ZQ): d(equations.ZK)})),
    "a sign": ("block", d(K), lambda right: -right),
    "a part in a million": ("block", d(equations.b), lambda right: right * (1 + Rational(1, 10**6))),
    "the residual forgotten": ("block", d(equations.Z), lambda right: right - d(equations.Zhat)[i, j]),
}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("mistake", BACKWARD)
def test_wrong_gradient_is_noticed(mistake):
    part, array, change = BACKWARD[mistake]
    right = derivation()
    programs = {name: getattr(right, name) for name in ("embedding", "block", "head")}
    programs[part] = programs[part].replaced(array, change)
    with pytest.raises(Refuted, match="differ by"):
        program.difference(SIZES, text=program.source(Derivation(**programs)))


def test_missing_gradient_is_noticed():
    less = program.source().replace("dict(E=dE, P=dP)", "dict(E=dE)")
    with pytest.raises(Refuted, match=r"give different names: \['P'\]"):
        program.difference(SIZES, text=less)


def test_all_zero_gradients_are_refused():
    with pytest.raises(Refuted, match=r"largest entry 0\.0"):
        program.difference({"C": 2, "D": 2, "F": 1, "V": 3, "H": 1, "L": 1})
