"""Equation (17): the claims hold, and the same checks refute every mistake that is planted."""

import itertools
import re

import pytest
from sympy import sqrt

from derivations import eq17
from derivations.claims import CLAIMS, Refuted, load
from derivations.eq17 import (
    ZK,
    ZQ,
    ZV,
    A,
    C,
    Closed,
    D,
    E,
    F,
    G,
    K,
    M,
    N,
    O,
    P,
    Q,
    R,
    S,
    T,
    V,
    W,
    X,
    Y,
    Z,
    Zhat,
    Zp,
    b,
    c,
    check,
    derivation,
    derive,
    e,
    f,
    h,
    i,
    j,
    k,
    l,
    logits,
    m,
    nK,
    q,
    t,
    t_,
    u,
    w,
    y,
    σ,
)
from derivations.index import Array, adjoint, d, delta, name, step, text, total


@pytest.mark.parametrize(
    "claim", [claim for claim in CLAIMS if claim.part == "eq17"], ids=lambda claim: claim.run.__name__
)
def test_claim(claim):
    claim.run()


def test_every_gradient_of_17_and_p_has_a_closed_form():
    closed = eq17.head_closed() | eq17.block_closed() | eq17.embedding_closed()
    assert {logits, O, G, c, F, b, W, V, Q, K, E, P} <= {left.base.of for left in closed}


@pytest.mark.parametrize("residual", ["literal", "once"])
def test_every_adjoint_is_in_a_proof(residual):
    found = derivation(residual)
    parts = [
        (found.embedding, eq17.embedding_closed(residual)),
        (found.block, eq17.block_closed(residual)),
        (found.head, eq17.head_closed()),
    ]
    for program, closed in parts:
        proved = {name(left) for left in closed} | {x for one in closed.values() for x in one.through}
        assert {x for x in program.definitions if isinstance(x, Array) and x.of} <= proved


def test_every_equation_is_there_once_it_is_used():
    lines = [line for p in (eq17.embedding(), eq17.block(), eq17.head()) for line in p.definitions.values()]
    numbers = {int(x) for line in lines for x in re.findall(r"\((\d+)\)", line.source)}
    assert numbers == {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 14, 16}  # (13) and (15) are (12) in other words
    assert all(line.source for line in lines)


def test_any_number_of_layers_in_another_reading():
    programs = eq17.embedding("once"), eq17.block("once"), eq17.head()
    eq17.induction(derivation("once"), eq17.stack(*programs))


def test_every_erratum_is_one_of_those_that_are_proved():
    load(["errata"])
    places = {claim.source for claim in CLAIMS if claim.part == "errata"}
    lines = [line for p in (eq17.embedding(), eq17.block(), eq17.head()) for line in p.definitions.values()]
    assert {line.erratum.split(": ")[0] for line in lines if line.erratum} <= places


def test_a_reading_that_does_not_exist():
    with pytest.raises(ValueError, match="residual = 'twice': choose one of literal, once, pre-norm"):
        eq17.block("twice")


# ---- wrong closed forms ---------------------------------------------------------------------------------------------

HEAD = {
    "sign": (d(logits)[i, u], w[i] / N * (delta(u, y[i]) - q[i, u])),
    "no 1/N": (d(logits)[i, u], w[i] * (q[i, u] - delta(u, y[i]))),
    "padding counted": (d(logits)[i, u], (q[i, u] - delta(u, y[i])) / N),
    "divided by all positions": (d(logits)[i, u], w[i] / C * (q[i, u] - delta(u, y[i]))),
    "no one-hot": (d(logits)[i, u], w[i] / N * q[i, u]),
}
BLOCK = {
    "softmax without its row sum": (d(S)[h, i, m], σ[h, i, m] * d(σ)[h, i, m]),
    "softmax summed over the wrong index": (
        d(S)[h, i, m],
        σ[h, i, m] * (d(σ)[h, i, m] - total(σ[h, i, m] * d(σ)[h, i, m], i)),
    ),
    "no 1/sqrt(K)": (d(ZQ)[h, i, k], total(ZK[h, m, k] * d(S)[h, i, m], m)),
    "scores transposed": (d(ZQ)[h, i, k], total(ZK[h, m, k] * d(S)[h, m, i], m) / sqrt(nK)),
    "Q for K": (d(ZK)[h, m, k], total(ZK[h, i, k] * d(S)[h, i, m], i) / sqrt(nK)),
    "weights transposed": (d(ZV)[h, m, k], total(σ[h, m, i] * d(Y)[h, i, k], i)),
    "residual forgotten": (d(Z)[i, j], total(Q[h, j, k] * d(ZQ)[h, i, k], h, k)),
    "mask of max forgotten": (d(f)[i, l], total(G[l, j] * d(Zp)[i, j], j)),
    "max by its value": (d(f)[i, l], R[i, l] * total(G[l, j] * d(Zp)[i, j], j)),
    "mean for sum": (d(c)[j], total(d(Zp)[i, j], i) / C),
    "all heads in one": (d(Q)[h, j, k], total(Z[i, j] * d(ZQ)[h, i, k], h, i)),
}


@pytest.mark.parametrize(("program", "mistake"), [("head", x) for x in HEAD] + [("block", x) for x in BLOCK])
def test_a_wrong_closed_form_is_refuted(program, mistake):
    left, wrong = (HEAD if program == "head" else BLOCK)[mistake]
    closed = eq17.head_closed() if program == "head" else eq17.block_closed()
    through = next(one.through for right, one in closed.items() if name(right) == name(left))
    with pytest.raises(Refuted, match=re.escape(text(left)) + ": derived .* against "):
        check(getattr(derivation(), program), {left: Closed(wrong, through)})


@pytest.mark.parametrize("part", ["no mean", "no projection", "mean of the wrong axis", "no r"])
def test_a_wrong_norm_is_refuted(part):
    right = eq17.norm_closed(Z, X)
    r = eq17.norm_names()[-1]
    dz = d(Z)
    wrong = {
        "no mean": right.form + r[i] * total(dz[i, j], j) / D,
        "no projection": right.form + r[i] * Z[i, j] * total(Z[i, j] * dz[i, j], j) / D,
        "mean of the wrong axis": right.form + r[i] * (total(dz[i, j], j) / D - total(dz[i, j], i) / C),
        "no r": right.form / r[i],
    }[part]
    with pytest.raises(Refuted, match="against"):
        check(derivation().block, {d(X)[i, j]: Closed(wrong, right.through)})


def test_repeated_tokens_accumulate():
    first = total(delta(t_, t[i]) * d(X)[i, j], i)
    check(derivation().embedding, {d(E)[t_, j]: Closed(first)})
    with pytest.raises(Refuted):  # only the first position writes its gradient
        check(derivation().embedding, {d(E)[t_, j]: Closed(delta(t_, t[1]) * d(X)[1, j])})


# ---- wrong derivations ----------------------------------------------------------------------------------------------


PARTS = {"embedding": eq17.embedding(), "block": eq17.block(), "head": eq17.head()}
ADJOINTS = [
    pytest.param(part, d(array), id=f"{part}-d{array.label}")
    for part, program in PARTS.items()
    for array in [*program.parameters, *program.definitions]
    if isinstance(array, Array) and (part, array) not in (("embedding", X), ("block", Zp))  # these come from outside
]


@pytest.mark.parametrize(("part", "array"), ADJOINTS)
def test_every_line_that_was_derived_matters(part, array):
    closed = getattr(eq17, f"{part}_closed")()
    about = {left: one for left, one in closed.items() if name(left) == array or array in one.through}
    with pytest.raises(Refuted):
        check(getattr(derivation(), part).replaced(array, lambda right: -right), about)


WRONG_LINES = {
    "scores without 1/sqrt(K)": (S, lambda right: right * sqrt(nK)),
    "softmax over the other index": (σ, lambda right: e[h, i, m] / T[h, m]),
    "keys for queries": (ZQ, lambda right: total(Z[i, j] * K[h, j, k], j)),
    "values without weights": (Y, lambda right: total(ZV[h, m, k], m)),
    "heads mixed": (A, lambda right: total(Y[h, m, k] * W[h, k, j], h, k, m)),
    "residual twice": (Zhat, lambda right: right + Z[i, j]),
    "no bias": (f, lambda right: right - b[l]),
    "step for max": (R, lambda right: step(f[i, l])),
    "feed-forward reads Ẑ": (f, lambda right: total(Zhat[i, j] * F[j, l], j) + b[l]),
}


@pytest.mark.parametrize("mistake", WRONG_LINES)
def test_a_wrong_line_of_the_block_is_refuted(mistake):
    array, change = WRONG_LINES[mistake]
    wrong = eq17.block().replaced(array, change)
    with pytest.raises(Refuted):
        check(adjoint(wrong, Zp), eq17.block_closed())


@pytest.mark.parametrize("residual", eq17.RESIDUALS[1:])
def test_the_readings_of_the_residual_differ(residual):
    with pytest.raises((Refuted, KeyError)):
        check(adjoint(eq17.block(residual), Zp), eq17.block_closed())


def test_the_loss_over_all_positions_is_refuted():
    wrong = derive(head=lambda: eq17.head().replaced(eq17.loss, lambda right: right * N / C)).head
    with pytest.raises(Refuted):
        check(wrong, eq17.head_closed())


# ---- layers ---------------------------------------------------------------------------------------------------------


def test_a_wrong_step_of_the_induction_is_refuted():
    found = derivation()
    programs = eq17.embedding(), eq17.block(), eq17.head()
    wrong = eq17.Derivation(found.embedding, found.block.replaced(d(X), lambda right: 2 * right), found.head)
    with pytest.raises(Refuted, match=r"∂𝓛/∂X_i.j in L layers is"):
        eq17.induction(wrong, eq17.stack(*programs))


def test_layers_that_skip_one_are_refuted():
    lines = eq17.stack(eq17.embedding(), eq17.block(), eq17.head())
    more = eq17.placed(eq17.Zp[i, j], {eq17.Zp: eq17.λ + 1})
    lines = [
        eq17.Definition(line.left, line.right + eq17.placed(X[i, j], {X: eq17.λ})) if line.left == more else line
        for line in lines
    ]
    with pytest.raises(Refuted, match="in L layers is"):
        eq17.induction(derivation(), lines)


# ---- the chain rule itself, by numbers ------------------------------------------------------------------------------


@pytest.mark.parametrize("residual", eq17.RESIDUALS)
def test_the_adjoints_of_a_block_are_slopes(residual):
    program = eq17.block(residual)
    at = program.point(seed=1)
    sent = at[X]  # some adjoint of Z'
    found = adjoint(program, Zp).run(at | {d(Zp): sent})

    def loss(here):
        return (program.run(here)[Zp] * sent).sum()

    for array in program.parameters:
        for where in itertools.islice(itertools.product(*[range(size) for size in at[array].shape]), 3):
            up, down = at[array].copy(), at[array].copy()
            up[where] += 1e-5
            down[where] -= 1e-5
            slope = (loss(at | {array: up}) - loss(at | {array: down})) / 2e-5
            assert found[d(array)][where] == pytest.approx(slope, rel=1e-6, abs=1e-8), array


def test_any_mask():
    # nothing that was proved asks what M is: the closed forms do not contain it
    assert not any(one.form.has(M) for one in eq17.block_closed().values())
