"""Mistakes planted in document 003's equations, in what is derived from them, and in the closed forms of eq. (17).

`prove_forms` must refute each, which passes the original; a mistake in an equation may also show when the program runs
beside the engine. Some are chosen by hand, since they are the ones that people make; others are made mechanically, by
changing one place of a formula. A changed equation that is not noticed is left out if by plain loops, at random
numbers, the same comes out.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations, islice

import numpy as np
from sympy import Add, Expr, Function, Indexed, KroneckerDelta, Mul, Pow, Rational, S, Sum, sqrt

from derivations import equations
from derivations.adjoints import Program
from derivations.equations import Closed
from derivations.proofs import eq17, program
from tinytensor.symbolic.index_calculus.adjoints import Name, adjoint_of, d, name_of, names_in
from tinytensor.symbolic.index_calculus.formulas import Size, delta, normal, top, total
from tinytensor.symbolic.index_calculus.functions import theta
from tinytensor.symbolic.index_calculus.notation import text

from .tally import Tally, notices

from derivations.equations import A, C, D, E, F, G, K, N, NORM_HAT, Q, R, S as scores, T, V, W, X, Y, Z  # isort: skip
from derivations.equations import ZK, ZQ, ZV, Zbar, Zhat, Zp, b, c, e, f, h, i, j, k, l, logits, loss, loss_i  # isort: skip
from derivations.equations import m, nK, q, t, t_, u, w, y, σ  # isort: skip

# ---- how they are made ----------------------------------------------------------------------------------------------


def mistakes(expr: Expr) -> Iterator[tuple[str, Expr]]:
    """(what was changed, the expression with that one change), for every place and change that makes a difference.

    A sign, a term or factor dropped, a power, the mean for a sum, two indices swapped, a delta left out, a function
    left out. Changes that leave the normal form as it was are none.
    """
    seen = {normal(expr)}
    for what, changed in _changes(expr):
        form = normal(changed)
        if form not in seen:
            seen.add(form)
            yield what, changed


def _changes(expr: Expr) -> Iterator[tuple[str, Expr]]:
    if isinstance(expr, Add):
        for term in expr.args:
            yield f"the sign of {term}", expr - 2 * term
            yield f"without {term}", expr - term
    elif isinstance(expr, Mul):
        yield "the sign", -expr
        for factor in expr.args:
            if factor is not S.NegativeOne:
                yield f"without the factor {factor}", Mul(*(f for f in expr.args if f is not factor))
    elif isinstance(expr, Pow) and expr.exp.is_Rational:
        yield f"the power {expr.exp + 1} for {expr.exp}", expr.base ** (expr.exp + 1)
        yield f"the power {-expr.exp} for {expr.exp}", expr.base ** (-expr.exp)
    elif isinstance(expr, Sum):
        count = Mul(*(limit[2] for limit in expr.limits))
        yield "the mean for the sum", expr / count
        for what, changed in _changes(expr.function):
            yield what, Sum(changed, *expr.limits)
        return
    elif isinstance(expr, KroneckerDelta):
        yield f"1 for {expr}", S.One
    elif isinstance(expr, Indexed):
        for one, other in combinations(range(len(expr.indices)), 2):
            if top(expr.indices[one]) == top(expr.indices[other]):
                swapped = list(expr.indices)
                swapped[one], swapped[other] = swapped[other], swapped[one]
                yield f"{expr} with its indices swapped", expr.base[tuple(swapped)]
        return
    elif isinstance(expr, Function):
        yield f"1 for {expr}", S.One
        yield f"without {expr.func.__name__}", expr.args[0]
    if isinstance(expr, Size | KroneckerDelta):
        return
    for index, inner in enumerate(expr.args):
        if not isinstance(inner, Rational):
            for what, changed in _changes(inner):
                yield what, expr.func(*expr.args[:index], changed, *expr.args[index + 1 :])


# ---- the checker that they go through -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Stage:
    """One of the three programs of eq. (17), with its adjoints, and the closed forms that they are proved equal to."""

    name: str  # in eq17.Derivation
    forward: Program
    derived: Program
    closed: dict[Expr, Closed]
    output: Name

    def passes(self, derived: Program, closed: dict[Expr, Closed], changed: set[Name]) -> bool:
        """eq17.prove_forms of what can be different now: closed forms of these names, or that go through them."""
        eq17.prove_forms(
            derived, {left: one for left, one in closed.items() if name_of(left) in changed or changed & {*one.through}}
        )
        return True

    def passes_closed(self, entry: Expr, form: Expr) -> bool:
        """The same with another closed form."""
        closed = self.closed | {entry: replace(self.closed[entry], form=form)}
        return self.passes(self.derived, closed, {name_of(entry)})

    def passes_line(self, name: Name, right: Expr) -> bool:
        """The same with another line among the adjoints."""
        return self.passes(self.derived.replaced(name, lambda _: right), self.closed, {name})

    def passes_equation(self, name: Name, right: Expr) -> bool:
        """The same with another equation. What shows in no gradient shows when it is run beside the engine."""
        derived, changed = self.derived_from(name, right)
        self.passes(derived, self.closed, changed)
        result = replace(eq17.derivation(), **{self.name: derived})
        program.difference(program.random_sizes(0), text=program.source(result))
        return True

    def derived_from(self, name: Name, right: Expr) -> tuple[Program, set[Name]]:
        """The program with another equation, the adjoints of all names in it derived anew; and what has changed."""
        forward = self.forward.replaced(name, lambda _: right)
        derived, changed = self.derived.replaced(name, lambda _: right), {name}
        affected = (names_in(right) | names_in(self.forward[name].right)) - {self.output}
        for entry in (entry for entry in forward.entries if name_of(entry) in affected):
            adjoint, line = d(name_of(entry)), adjoint_of(entry, forward.lines, self.output)
            if normal(line - derived[adjoint].right) != 0:
                derived = derived.replaced(adjoint, lambda _, line=line: line)
                changed.add(adjoint)
        return derived, changed

    def same_numbers(self, name: Name, right: Expr) -> str:
        """The reason to leave out another equation: by plain loops, at random numbers, the same comes out."""
        at = self.derived.point(0)
        before, after = self.derived.run(at), self.derived_from(name, right)[0].run(at)
        seen = [self.output, *(d(x) for x in self.forward.parameters)]
        alike = all(np.allclose(np.asarray(before[x], float), np.asarray(after[x], float), rtol=1e-9) for x in seen)
        return "same numbers" if alike else ""


def stages() -> list[Stage]:
    """The three, without a mistake."""
    result = eq17.derivation()
    return [
        Stage("embedding", equations.embedding(), result.embedding, equations.embedding_closed(), X),
        Stage("block", equations.block(), result.block, equations.block_closed(), Zp),
        Stage("head", equations.head(), result.head, equations.head_closed(), loss),
    ]


# ---- chosen by hand -------------------------------------------------------------------------------------------------

one_hot = delta(u, y[i])
*_, s, r = NORM_HAT
dz = d(Zbar)
mean, along = total(dz[i, j], j) / D, Zbar[i, j] * total(Zbar[i, j] * dz[i, j], j) / D

WRONG_FORMS = {  # what is wrong: (the entry of (17), a wrong closed form)
    "(16) divided by C, not by the counted positions": (d(logits)[i, u], w[i] / C * (q[i, u] - one_hot)),
    "no 1/N": (d(logits)[i, u], w[i] * (q[i, u] - one_hot)),
    "padding counted": (d(logits)[i, u], (q[i, u] - one_hot) / N),
    "target off by one": (d(logits)[i, u], w[i] / N * (q[i, u] - KroneckerDelta(u, y[i] + 1))),
    "the one-hot part forgotten": (d(logits)[i, u], w[i] / N * q[i, u]),
    "the sign of the loss": (d(logits)[i, u], w[i] / N * (one_hot - q[i, u])),
    "softmax without the row's sum": (d(scores)[h, i, m], σ[h, i, m] * d(σ)[h, i, m]),
    "softmax with the mean for the sum": (
        d(scores)[h, i, m],
        σ[h, i, m] * (d(σ)[h, i, m] - total(σ[h, i, m] * d(σ)[h, i, m], m) / C),
    ),
    "softmax summed over the wrong index": (
        d(scores)[h, i, m],
        σ[h, i, m] * (d(σ)[h, i, m] - total(σ[h, i, m] * d(σ)[h, i, m], i)),
    ),
    "attention transposed": (d(ZV)[h, m, k], total(σ[h, m, i] * d(Y)[h, i, k], i)),
    "the scores of the queries transposed": (d(ZQ)[h, i, k], total(ZK[h, m, k] * d(scores)[h, m, i], m) / sqrt(nK)),
    "the scores of the keys transposed": (d(ZK)[h, m, k], total(ZQ[h, i, k] * d(scores)[h, m, i], i) / sqrt(nK)),
    "the scale of the scores forgotten": (d(ZQ)[h, i, k], total(ZK[h, m, k] * d(scores)[h, i, m], m)),
    "keys for queries in the scores": (d(ZK)[h, m, k], total(ZK[h, i, k] * d(scores)[h, i, m], i) / sqrt(nK)),
    "Q and K for each other": (d(Q)[h, j, k], total(Z[i, j] * d(ZK)[h, i, k], i)),
    "all heads in one": (d(Q)[h, j, k], total(Z[i, j] * d(ZQ)[h, i, k], h, i)),
    "the gradient of V from Y": (d(V)[h, j, k], total(Z[i, j] * d(Y)[h, i, k], i)),
    "W without Y: heads side by side forgotten": (d(W)[h, k, j], total(ZV[h, i, k] * d(Zhat)[i, j], i)),
    "norm without the mean of the gradient": (d(Zhat)[i, j], d(Zp)[i, j] + r[i] * (dz[i, j] - along)),
    "norm without the term along z": (d(Zhat)[i, j], d(Zp)[i, j] + r[i] * (dz[i, j] - mean)),
    "norm with the mean along the other axis": (
        d(Zhat)[i, j],
        d(Zp)[i, j] + r[i] * (dz[i, j] - total(dz[i, j], i) / C - along),
    ),
    "norm without 1/sqrt(s + eps)": (d(Zhat)[i, j], d(Zp)[i, j] + dz[i, j] - mean - along),
    "the residual forgotten after (9)": (d(Zhat)[i, j], r[i] * (dz[i, j] - mean - along)),
    "the residual forgotten at Z": (d(Z)[i, j], equations.block_closed()[d(Z)[i, j]].form - d(Zhat)[i, j]),
    "one branch of three": (d(Z)[i, j], d(Zhat)[i, j] + total(Q[h, j, k] * d(ZQ)[h, i, k], h, k)),
    "ReLU's mask forgotten": (d(f)[i, l], total(G[l, j] * d(Zp)[i, j], j)),
    "ReLU by its value": (d(f)[i, l], R[i, l] * total(G[l, j] * d(Zp)[i, j], j)),
    "what went into the ReLU for what came out": (d(G)[l, j], total(f[i, l] * d(Zp)[i, j], i)),
    "the mean for the sum over positions": (d(c)[j], total(d(Zp)[i, j], i) / C),
    "the mean for the sum over the places of a token": (d(E)[t_, j], total(delta(t_, t[i]) * d(X)[i, j], i) / C),
    "a token collects from the first position alone": (d(E)[t_, j], delta(t_, t[1]) * d(X)[1, j]),
}

WRONG_EQUATIONS = {  # what is wrong: (the name that an equation defines, a wrong right-hand side)
    "(2) keys for queries": (ZQ, total(Z[i, j] * K[h, j, k], j)),
    "(3) without 1/sqrt(K)": (scores, total(ZQ[h, i, k] * ZK[h, m, k], k)),
    "(3) as printed: i is multiplied by K, m by Q": (scores, total(ZK[h, i, k] * ZQ[h, m, k], k) / sqrt(nK)),
    "(6) by the column's sum": (σ, e[h, i, m] / T[h, m]),
    "(6) values without weights": (Y, total(ZV[h, m, k], m)),
    "(8) positions mixed": (A, total(Y[h, m, k] * W[h, k, j], h, k, m)),
    "(9) without Z": (Zhat, A[i, j]),
    "(9) with Z twice": (Zhat, A[i, j] + 2 * Z[i, j]),
    "eps dropped": (r, s[i] ** Rational(-1, 2)),
    "the sum for the mean in the variance": (s, equations.block()[s].right * D),
    "(10) without a bias": (f, total(Zbar[i, j] * F[j, l], j)),
    "(10) reads Ẑ": (f, total(Zhat[i, j] * F[j, l], j) + b[l]),
    "(10) without the ReLU": (R, f[i, l]),
    "(11) with a constant": (logits, equations.head()[logits].right + 1),
    "(10) a step for the ReLU": (R, theta(f[i, l])),
    "(12) without the logarithm": (loss_i, -q[i, y[i]]),
    "(16) over all positions": (loss, total(w[i] * loss_i[i], i) / C),
}


def by_hand() -> Tally:
    """The mistakes chosen by hand: each is entered in the stage that has the entry, or the name."""
    tally = Tally()
    for stage in stages():
        for what, (entry, form) in WRONG_FORMS.items():
            if entry in stage.closed:
                tally.enter(what, notices(partial(stage.passes_closed, entry, form)))
        for what, (name, right) in WRONG_EQUATIONS.items():
            if name in stage.forward.definitions:
                tally.enter(what, notices(partial(stage.passes_equation, name, right)))
    assert len(tally.noticed) + len(tally.survivors) == len(WRONG_FORMS) + len(WRONG_EQUATIONS), "one has no place"
    return tally


# ---- made mechanically ----------------------------------------------------------------------------------------------


def mechanically(one_in: int) -> Tally:
    """Change every place of every closed form, derived line and equation, one at a time; one in so many is tried."""
    tally = Tally()

    def changes() -> Iterator[tuple]:
        for stage in stages():
            eq17.prove_forms(stage.derived, stage.closed)  # the control
            tries = [("closed form", left, one.form, stage.passes_closed, left) for left, one in stage.closed.items()]
            for line in stage.derived.lines:
                is_equation = line.name in stage.forward.definitions
                category, passes = (
                    ("equation", stage.passes_equation) if is_equation else ("derived line", stage.passes_line)
                )
                tries.append((category, line.left, line.right, passes, line.name))
            for category, left, right, passes, name in tries:
                reason = partial(stage.same_numbers, name) if category == "equation" else lambda changed: ""
                yield from (
                    (f"{category} of {text(left)}", *change, passes, name, reason) for change in mistakes(right)
                )

    for where, what, changed, passes, name, reason in islice(changes(), one_in - 1, None, one_in):
        tally.enter(f"{where}: {what}", notices(partial(passes, name, changed)), partial(reason, changed))
    return tally
