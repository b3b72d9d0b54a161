"""Equation (17): the claims hold, and the same checks refute every mistake that is planted."""

import itertools
import re

import pytest

from derivations import equations
from derivations.adjoints import with_adjoints
from derivations.claims import Refuted, claims_of
from derivations.proofs import eq17
from derivations.proofs.eq17 import derivation, derive, prove_forms
from tinytensor.symbolic.index_calculus.adjoints import d, name_of
from tinytensor.symbolic.index_calculus.formulas import Array

from derivations.equations import RESIDUALS, E, F, G, K, M, N, O, P, Q, V, W, X, C, Zp, b, c, i, j, logits  # isort: skip


@pytest.mark.one_in(16)
@pytest.mark.parametrize("claim", claims_of(["eq17"]), ids=lambda claim: claim.run.__name__)
def test_claim_runs(claim):
    claim.run()


def test_every_gradient_of_17_and_p_has_a_closed_form():
    closed = equations.head_closed() | equations.block_closed() | equations.embedding_closed()
    assert {logits, O, G, c, F, b, W, V, Q, K, E, P} <= {left.base.of for left in closed}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("residual", ["literal", "once"])
def test_every_adjoint_is_in_a_proof(residual):
    result = derivation(residual)
    parts = [
        (result.embedding, equations.embedding_closed(residual)),
        (result.block, equations.block_closed(residual)),
        (result.head, equations.head_closed()),
    ]
    for program, closed in parts:
        proved = {name_of(left) for left in closed} | {x for one in closed.values() for x in one.through}
        assert {x for x in program.definitions if isinstance(x, Array) and x.of} <= proved


def test_every_equation_has_a_line():
    lines = [line for p in (equations.embedding(), equations.block(), equations.head()) for line in p.lines]
    numbers = {int(x) for line in lines for x in re.findall(r"\((\d+)\)", line.source)}
    assert numbers == {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 14, 16}  # (13) and (15) are (12) in other words
    assert all(line.source for line in lines)


def test_every_named_erratum_is_proved():
    positions = {claim.source for claim in claims_of(["errata"])}
    lines = [line for p in (equations.embedding(), equations.block(), equations.head()) for line in p.lines]
    assert {line.erratum.split(": ")[0] for line in lines if line.erratum} <= positions


def test_unknown_residual_reading_is_refused():
    with pytest.raises(ValueError, match="residual = 'twice': choose one of literal, once, pre-norm"):
        equations.block("twice")


# ---- wrong derivations (wrong closed forms and equations are in tests/mutants) --------------------------------------

PARTS = {"embedding": equations.embedding(), "block": equations.block(), "head": equations.head()}
ADJOINTS = [
    pytest.param(part, d(array), id=f"{part}-d{array.label}")
    for part, program in PARTS.items()
    for array in [*program.parameters, *program.definitions]
    if isinstance(array, Array) and (part, array) not in (("embedding", X), ("block", Zp))  # these come from outside
]


@pytest.mark.one_in(10)
@pytest.mark.parametrize(("part", "array"), ADJOINTS)
def test_wrong_sign_in_any_derived_line_is_refuted(part, array):
    closed = getattr(equations, f"{part}_closed")()
    about = {left: one for left, one in closed.items() if name_of(left) == array or array in one.through}
    with pytest.raises(Refuted):
        prove_forms(getattr(derivation(), part).replaced(array, lambda right: -right), about)


@pytest.mark.slow
@pytest.mark.parametrize("residual", RESIDUALS[1:])
def test_the_readings_of_the_residual_differ(residual):
    with pytest.raises((Refuted, KeyError)):
        prove_forms(with_adjoints(equations.block(residual), Zp), equations.block_closed())


@pytest.mark.slow
def test_the_loss_over_all_positions_is_refuted():
    wrong = derive(head=lambda: equations.head().replaced(equations.loss, lambda right: right * N / C)).head
    with pytest.raises(Refuted):
        prove_forms(wrong, equations.head_closed())


# ---- layers ---------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("residual", "other"), [("pre-norm", "once"), ("once", "pre-norm")])
def test_the_layers_of_another_reading_are_refuted(residual, other):
    programs = equations.embedding(residual), equations.block(residual), equations.head()
    mixed = eq17.Derivation(derivation(residual).embedding, derivation(other).block, derivation(residual).head)
    with pytest.raises(Refuted, match="in L layers is"):
        eq17.prove_layers(mixed, eq17.stack(*programs))


@pytest.mark.one_in(3)
@pytest.mark.parametrize("residual", RESIDUALS)
def test_a_wrong_step_is_refuted_in_every_reading(residual):
    result = derivation(residual)
    programs = equations.embedding(residual), equations.block(residual), equations.head()
    wrong = eq17.Derivation(result.embedding, result.block.replaced(d(X), lambda right: 2 * right), result.head)
    with pytest.raises(Refuted, match=r"∂𝓛/∂X_i.j in L layers is"):
        eq17.prove_layers(wrong, eq17.stack(*programs))


@pytest.mark.slow
def test_skipped_layer_is_refuted():
    lines = eq17.stack(equations.embedding(), equations.block(), equations.head())
    more = eq17.placed(Zp[i, j], {Zp: eq17.λ + 1})
    lines = [
        eq17.Definition(line.left, line.right + eq17.placed(X[i, j], {X: eq17.λ})) if line.left == more else line
        for line in lines
    ]
    with pytest.raises(Refuted, match="in L layers is"):
        eq17.prove_layers(derivation(), lines)


# ---- the chain rule itself, by numbers ------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("residual", RESIDUALS)
def test_adjoints_of_a_block_match_finite_differences(residual):
    program = equations.block(residual)
    at = program.point(seed=1)
    sent = at[X]  # some adjoint of Z'
    result = with_adjoints(program, Zp).run(at | {d(Zp): sent})

    def loss(here):
        return (program.run(here)[Zp] * sent).sum()

    for array in program.parameters:
        for where in itertools.islice(itertools.product(*[range(size) for size in at[array].shape]), 3):
            up, down = at[array].copy(), at[array].copy()
            up[where] += 1e-5
            down[where] -= 1e-5
            slope = (loss(at | {array: up}) - loss(at | {array: down})) / 2e-5
            assert result[d(array)][where] == pytest.approx(slope, rel=1e-6, abs=1e-8), array


def test_closed_forms_do_not_contain_the_mask():
    # nothing that was proved asks what M is: the closed forms do not contain it
    assert not any(one.form.has(M) for one in equations.block_closed().values())
