"""The theorems hold; and each checker refutes a statement that is nearly true."""

import numpy as np
import pytest
from sympy import Symbol, exp

from derivations import equations
from derivations.adjoints import Program
from derivations.claims import Refuted, claims_of, holds, result_of
from derivations.proofs import theorems
from derivations.proofs.theorems import fragment, identity, k2, permuted
from tinytensor.symbolic.index_calculus.adjoints import d
from tinytensor.symbolic.index_calculus.formulas import Array, Size, delta, total

from derivations.equations import ZK, ZQ, C, D, F, G, H, K, M, NORM, Q, R, S, T, X, Z, Zp, b, e, f, h, i, j, k, l, m  # isort: skip
from derivations.equations import mu, nF, nK, r, s, t, v, σ  # isort: skip


@pytest.mark.one_in(3)
@pytest.mark.parametrize("claim", claims_of(["theorems"]), ids=lambda claim: claim.run.__name__)
def test_claim_holds(claim):
    result = result_of(claim)
    assert result.error is None, result.why


def test_proofs_are_called_proofs_and_runs_are_called_checks():
    result = claims_of(["theorems"])
    assert len(result) > 20
    for c in result:
        assert (c.category == "check") == c.statement.startswith("engine:") == ("float64" in c.size), c.statement


# --- Statements that are nearly true: algebra


@pytest.mark.parametrize("condition", [None, False, 1, 0, "yes", Symbol("x") > 0, np.False_])
def test_holds_refuses_anything_but_true(condition):
    with pytest.raises(Refuted, match="it is not so that something"):
        holds(condition, "something")


def test_row_sums_are_1_only_after_the_division():
    block = equations.block()
    for name in (e, S):
        with pytest.raises(Refuted):
            identity(block, Array("one", (H, C))[h, i], total(name[h, i, m], m), 1, [e, σ, T])


def test_softmax_changes_with_a_factor_per_entry():
    factor, row = Array("factor", (H, C)), Array("row", (H, C))
    block = equations.block().copy(factor)
    block.let(row[h, i], total(factor[h, m] * e[h, i, m], m))
    with pytest.raises(Refuted):
        identity(block, Array("B", (H, C, C))[h, i, m], factor[h, m] * e[h, i, m] / row[h, i], σ[h, i, m], [row, σ, T])


@pytest.mark.parametrize(
    "wrong",
    [
        delta(h, theorems.h2) * delta(i, theorems.i2) * σ[h, i, m] * delta(m, theorems.p),  # without the row's sum
        σ[h, i, m] * (delta(m, theorems.p) - σ[h, i, theorems.p]),  # of all rows
        delta(h, theorems.h2) * delta(i, theorems.i2) * σ[h, i, m] * (σ[h, i, theorems.p] - delta(m, theorems.p)),
        delta(h, theorems.h2) * delta(i, theorems.i2) * (delta(m, theorems.p) - σ[h, i, theorems.p]),
    ],
)
def test_another_slope_of_the_softmax_is_refuted(wrong):
    with pytest.raises(Refuted, match="the slope of the softmax"):
        theorems.softmax_slope(wrong)


def test_differences_of_weights_are_not_those_of_scores():
    gap, block = Array("gap", (H, C, C, C))[h, i, m, theorems.p], equations.block()
    for wrong in ((S[h, i, m] - S[h, i, theorems.p]) / T[h, i], (e[h, i, theorems.p] - e[h, i, m]) / T[h, i]):
        with pytest.raises(Refuted, match=" against "):
            identity(block, gap, σ[h, i, m] - σ[h, i, theorems.p], wrong, [σ])


def test_literal_residual_stream_is_no_sum():
    with pytest.raises(Refuted, match=" against "):
        theorems.streamed(equations.block("literal"))


@pytest.mark.parametrize("name", [equations.Zhat, Zp])
def test_stream_written_twice_is_refuted(name):
    with pytest.raises(Refuted, match=" against "):
        theorems.streamed(equations.block("pre-norm").replaced(name, lambda right: right + equations.A[i, j]))


@pytest.mark.parametrize("wrong", [lambda u, y: delta(u, y[1]), lambda u, y: 1 / equations.nV, lambda u, y: 1])
def test_wrong_cross_entropy_is_refuted(wrong):
    with pytest.raises(Refuted):
        theorems.cross_entropy(wrong(equations.u, equations.y) + 0 * equations.u)


@pytest.mark.parametrize(
    ("name", "mixing"),
    [
        (f, lambda right: right + total(equations.Zbar[m, j], m, j)),
        (equations.R, lambda right: total(f[m, l], m)),
        (Zp, lambda right: right + equations.Zhat[1, j]),
    ],
)
def test_feed_forward_mixing_positions_is_refuted(name, mixing):
    names = (*equations.NORM_HAT, equations.Zbar, f, equations.R, Zp)
    block = equations.block().replaced(name, mixing)
    arguments = [equations.Zhat[i, j], F[j, l], b[l], G[l, j], equations.c[j]]
    with pytest.raises(Refuted, match="stands elsewhere"):
        theorems.by_itself(block.excerpt(names, arguments, [equations.ε]))


def test_attention_does_not_act_position_by_position():
    for names in ((S,), (equations.Y,)):
        block = equations.block()
        with pytest.raises(Refuted, match=r"has 2 positions|stands elsewhere"):
            theorems.by_itself(block.excerpt(names, [ZQ[h, i, k], ZK[h, i, k], σ[h, i, m], equations.ZV[h, i, k]]))


@pytest.mark.parametrize(
    "wrong", [lambda d_k, q, k: d_k, lambda d_k, q, k: d_k * (1 + q**2), lambda d_k, q, k: 1 + q**2 + k**2]
)
def test_a_wrong_variance_is_refuted(wrong):
    d_k, (q, k, *_) = Size("d_k", "a b"), theorems.MOMENTS
    variance = theorems.variance_of_dot_product(d_k).xreplace(dict.fromkeys(theorems.MOMENTS[2:], 1))
    with pytest.raises(Refuted, match="the rest of the difference"):
        theorems.zero(variance - wrong(d_k, q, k), "Var(q . k)")


def test_the_variance_after_a_norm_is_not_1():
    with pytest.raises(Refuted):
        identity(equations.block(), Array("B", (C,))[i], total(Z[i, j] ** 2, j) / D, 1, [Z, *NORM])


# --- Statements that are nearly true: programs


def unmasked(residual="literal"):
    return equations.block(residual).replaced(e, lambda _: exp(S[h, i, m]))


def test_without_the_mask_a_block_is_not_causal():
    with pytest.raises(Refuted, match="later ones as well"):
        theorems.causal(unmasked(), M)


def test_transposed_mask_is_not_causal():
    turned = equations.block().replaced(e, lambda _: M[m, i] * exp(S[h, i, m]))
    with pytest.raises(Refuted, match="later ones as well"):
        theorems.causal(turned, M)


def test_mask_added_to_the_weights_is_not_causal():
    added = equations.block().replaced(e, lambda _: M[i, m] * exp(S[h, i, m]) + exp(S[h, i, m]))
    with pytest.raises(Refuted, match="later ones as well"):
        theorems.causal(added, M)


def test_unweighted_sum_of_values_is_not_causal():
    mean = equations.block().replaced(equations.Y, lambda _: total(equations.ZV[h, m, k], m))
    with pytest.raises(Refuted, match="later ones as well"):
        theorems.causal(mean, M)


def test_sum_inside_a_function_is_noticed():
    inside = equations.block().replaced(S, lambda _: exp(total(ZK[h, m, k], m, k)) + ZQ[h, i, k] * 0)
    with pytest.raises(Refuted, match="later ones as well"):
        theorems.causal(inside, M)


ORDER = Array("π", (C,), values=C)


def test_masked_block_is_not_equivariant():
    with pytest.raises(Refuted, match="moved it is"):
        permuted(equations.block(), ORDER, {X})


def test_block_with_positions_is_not_equivariant():
    with pytest.raises(Refuted, match="moved it is"):
        permuted(equations.embedding(), ORDER, {t})


def test_sum_with_fixed_weights_is_not_equivariant():
    w, y = Array("w", (C,)), Array("y", (C, D))
    program = Program([X[i, j]], [w])
    program.let(y[i, j], total(w[m] * X[m, j], m))
    with pytest.raises(Refuted, match="moved it is"):
        permuted(program, ORDER, {X})


def test_sum_weighted_by_position_is_not_equivariant():
    y = Array("y", (C, D))
    program = Program([X[i, j]])
    program.let(y[i, j], total(m * X[m, j], m))
    with pytest.raises(Refuted, match="moved it is"):
        permuted(program, ORDER, {X})


def test_unpermuted_input_is_refuted():
    y = Array("y", (C, D))
    program = Program([X[i, j]])
    program.let(y[i, j], X[i, j])
    with pytest.raises(Refuted):
        permuted(program, ORDER, set())  # y is the same in every order, not y in this order


# --- Statements that are nearly true: gradients


def nearly(lines, left, right, closed, through):
    with pytest.raises(Refuted, match=" against "):  # a counterexample
        identity(lines, left, right, closed, through)


def test_the_identity_of_queries_and_keys_needs_its_transpose():
    pair = Array("I", (H, nK, nK))[h, k, k2]
    names = [d(Q), d(K), d(ZQ), d(ZK), ZQ, ZK]
    nearly(
        fragment(equations.block(), ZQ, ZK, S),
        pair,
        total(Q[h, j, k] * d(Q)[h, j, k2], j),
        total(K[h, j, k] * d(K)[h, j, k2], j),
        names,
    )


def test_the_identity_of_a_unit_needs_its_bias():
    names = [d(F), d(b), d(G), d(f), d(R), R, f]
    lines = fragment(equations.block(), f, R, Zp)
    nearly(lines, Array("I", (nF,))[l], total(F[j, l] * d(F)[j, l], j), total(G[l, j] * d(G)[l, j], j), names)


def test_pre_norm_input_has_another_use():
    with pytest.raises(Refuted, match="should have no other use"):
        fragment(equations.block("pre-norm"), *NORM, Z)


def test_fragment_without_its_last_line_has_another_use():
    with pytest.raises(Refuted, match="should have no other use"):
        fragment(equations.block(), ZQ, ZK)


def test_with_eps_the_gradient_before_a_norm_is_not_orthogonal():
    lines = fragment(equations.block(), mu, v, s, r, Z)
    names = [d(X), d(mu), d(v), d(s), d(r), Z, mu, v, s]
    nearly(lines, Array("I", (C,))[i], total(v[i, j] * d(X)[i, j], j), 0, names)


def test_a_shift_of_positions_is_not_the_identity():
    assert theorems.pair(theorems.POSITION + theorems.SHIFT) != theorems.pair(theorems.POSITION)
    rotation = theorems.pair(theorems.POSITION + theorems.SHIFT) - theorems.pair(theorems.POSITION)
    assert not rotation.expand(trig=True).is_zero_matrix


# --- On the engine


@pytest.mark.parametrize(
    ("changes", "identity"),
    [({"activation": "gelu"}, "F, b, G of layer 1"), ({"residual": "pre-norm"}, "sum_j dP = 0")],
)
def test_model_without_the_symmetry_breaks_the_identity(changes, identity):
    config, x, dx = theorems.gradients(theorems.SIZES.replace(**changes))
    with pytest.raises(Refuted, match=identity):
        theorems.compare(theorems.identities(config, x, dx), 1.0)


@pytest.mark.parametrize(
    "name", ["O", "P", "E", *(f"blocks.{layer}.{weight}" for layer in (0, 1) for weight in "QKVWFbG")]
)
def test_one_wrong_gradient_is_noticed(name):
    config, x, dx = _gradients()
    wrong = dx | {name: dx[name] * (1 + np.linspace(0, 1e-3, dx[name].size).reshape(dx[name].shape))}
    with pytest.raises(Refuted, match="the two sides differ"):
        theorems.compare(theorems.identities(config, x, wrong), 1.0)


def test_nan_gradient_is_noticed():
    config, x, dx = _gradients()
    with pytest.raises(Refuted, match="nan"):
        theorems.compare(theorems.identities(config, x, dx | {"O": np.full_like(dx["O"], np.nan)}), 1.0)


_made = []


def _gradients():
    if not _made:
        _made.append(theorems.gradients())
    return _made[0]
