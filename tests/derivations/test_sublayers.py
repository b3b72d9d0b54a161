"""The gradients of cross-attention, Add & Norm and the ends hold; closed forms that are wrong are refuted."""

from dataclasses import replace

import pytest
from sympy import sqrt

from derivations.adjoints import with_adjoints
from derivations.claims import Refuted, claims_of, result_of
from derivations.proofs import sublayers
from derivations.proofs.eq17 import prove_forms
from tinytensor.symbolic.index_calculus.adjoints import d
from tinytensor.symbolic.index_calculus.formulas import delta, total

from derivations.equations import C, D, E, K, NORM, Q, X, Z, h, i, j, k, nV, q, t, t_, u, y  # isort: skip
from derivations.proofs.sublayers import A, N, S, U, UK, UV, V, W, a, c, logits, p, γ, σ  # isort: skip

END, START = sublayers.ends_closed()
PROGRAMS = {
    "cross-attention": (with_adjoints(sublayers.cross_attention(), A), sublayers.cross_closed()),
    "Add & Norm": (with_adjoints(sublayers.add_and_norm(), N), sublayers.norm_closed()),
    "ending": (with_adjoints(sublayers.ending(), sublayers.loss), END),
    "embedding": (with_adjoints(sublayers.embedding(), X), START),
}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("claim", claims_of(["sublayers"]), ids=lambda claim: claim.run.__name__)
def test_claim_holds(claim):
    result = result_of(claim)
    assert result.error is None, result.why


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_gradient_has_a_closed_form(name):
    program, closed = PROGRAMS[name]
    parameters = {array for array in program.parameters if array is not A or name == "Add & Norm"}
    assert parameters <= {left.base.of for left in closed}


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    ("name", "left"), [(name, left) for name, (_, closed) in PROGRAMS.items() for left in closed], ids=str
)
def test_wrong_sign_is_refuted(name, left):
    program, closed = PROGRAMS[name]
    with pytest.raises(Refuted):
        prove_forms(program, {left: replace(closed[left], form=-closed[left].form)})


g, r = γ[j] * d(N)[i, j], NORM[-1]
WRONG = {
    "the encoder's output by its values alone": (
        "cross-attention",
        d(U)[p, j],
        total(V[h, j, a] * d(UV)[h, p, a], h, a),
    ),
    "queries from the encoder": ("cross-attention", d(X)[i, j], total(K[h, j, k] * d(sublayers.XQ)[h, i, k], h, k)),
    "softmax without the row's sum": ("cross-attention", d(S)[h, i, p], σ[h, i, p] * d(σ)[h, i, p]),
    "weights read by columns": ("cross-attention", d(UK)[h, p, k], total(d(S)[h, i, p], i)),
    "gamma forgotten": (
        "Add & Norm",
        d(sublayers.R)[i, j],
        r[i] * (d(N)[i, j] - total(d(N)[i, j], j) / D - Z[i, j] * total(Z[i, j] * d(N)[i, j], j) / D),
    ),
    "gamma behind the means": (
        "Add & Norm",
        d(sublayers.R)[i, j],
        r[i] * γ[j] * (d(N)[i, j] - total(d(N)[i, j], j) / D - Z[i, j] * total(Z[i, j] * d(N)[i, j], j) / D),
    ),
    "gamma as one number": ("Add & Norm", d(γ)[j], total(Z[i, j] * d(N)[i, j], i, j)),
    "gamma by what is not normalised": ("Add & Norm", d(γ)[j], total(sublayers.R[i, j] * d(N)[i, j], i)),
    "the mean of 003 for the sum of 004": ("ending", d(logits)[i, u], (q[i, u] - delta(u, y[i])) / C),
    "smoothed targets": ("ending", d(logits)[i, u], q[i, u] - 1 / nV),
    "a bias by itself": ("ending", d(c)[u], total(d(logits)[i, u], i) / C),
    "sqrt(d_model) forgotten": (
        "embedding",
        d(E)[t_, j],
        total(delta(t_, t[i]) * sublayers.begins[i] * d(X)[i, j], i),
    ),
    "y_0 as a word": ("embedding", d(E)[t_, j], sqrt(D) * total(delta(t_, t[i]) * d(X)[i, j], i)),
}


@pytest.mark.parametrize("what", WRONG)
def test_wrong_forms_are_refuted(what):
    name, left, form = WRONG[what]
    program, closed = PROGRAMS[name]
    with pytest.raises(Refuted, match=" against "):  # a counterexample
        prove_forms(program, {left: replace(closed[left], form=form)})


def test_gradient_over_one_encoder_path_is_refuted():
    with pytest.raises(Refuted, match="with n stacks is"):
        sublayers.prove_stacks(total(K[h, j, k] * d(UK)[h, p, k], h, k))


@pytest.mark.parametrize("left", [d(Q)[h, j, k], d(W)[h, a, j], d(U)[p, j]], ids=str)
def test_engine_disagrees_with_a_wrong_form(left):
    closed = sublayers.cross_closed()
    wrong = closed | {left: replace(closed[left], form=closed[left].form * 2)}
    with pytest.raises(Refuted, match="the engine and the closed form differ"):
        sublayers.engine_differences(cross=lambda: wrong)
