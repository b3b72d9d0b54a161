"""Whoever checks must be checked: mistakes are planted, and the proofs that pass the original must notice every one.

Some are chosen by hand, since they are the ones that people make. Others are made mechanically, by changing one place
in the source of a gradient rule, in a kernel, or in a formula (derivations/planting.py). Each goes through the very
checker that passes the original: `prove` for the engine; `eq17.check` for the derivation, and for its equations
`program.difference` too, which runs them. A mistake that is not noticed
makes the claim fail and is named.

Not every change is a mistake. What a checker passes is left out only for one of these reasons, found by running it:

    never reached     an error in that place is not noticed either: no call of the table comes there
    same numbers      at random points, in floats, it gives the numbers that the original gives at these sizes, where
                      values are equal or 0 as well: another way to write the same. (Norms sum over blocks of 32 rows;
                      that there may be several shows at larger sizes only, and tests/symbolic has them.)
    at ties only      it gives other numbers only where compared values are equal or 0: there is no derivative there to
                      compare with; what the engine gives there is PyTorch's choice, and tests/oracle has it
"""

import ast
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
from sympy import Expr, Integer, KroneckerDelta, Rational, Symbol, sqrt

import tinytensor as tt
from derivations import eq17
from derivations.claims import INDEX, SYMPY, Evidence, Refuted, claim
from derivations.engine import CALLS, prove_op
from derivations.index import Array, Program, d, delta, free, name, names, normal, text, total, uses
from derivations.planting import (
    code_mistakes,
    declaration,
    formula_mistakes,
    interpreted,
    kernel_source,
    kernel_with,
    module_of,
    planted_kernel,
    planted_rule,
    planted_walk,
    rule_with,
    rules_of,
    unreached,
    with_function,
)
from derivations.program import difference, random_sizes, source
from tinytensor.symbolic import Symbolic, prove
from tinytensor.tensor import OBJECT, OPS, Tensor

FAST = 3  # of the mistakes made mechanically one in so many is tried (1: all of them, a few minutes)

Check = Callable[[], bool]  # does the checker pass?
Plant = Callable[[], AbstractContextManager]


def notices(check: Check) -> str:
    """How a checker notices a mistake that is planted now; "" if it does not. An exception is a way to notice."""
    try:
        return "" if check() else "refuted"
    except Exception as error:
        return type(error).__name__


@dataclass
class Tally:
    """What became of the mistakes."""

    noticed: list[tuple[str, str]] = field(default_factory=list)  # (what was planted, how it was noticed)
    left_out: list[tuple[str, str]] = field(default_factory=list)  # (what, why)
    survivors: list[str] = field(default_factory=list)

    def enter(self, what: str, how: str, reason: Callable[[], str] = lambda: "") -> None:
        """One more: `how` it was noticed; if "", it is left out for a reason, if there is one, or has survived."""
        if how:
            self.noticed.append((what, how))
        elif why := reason():
            self.left_out.append((what, why))
        else:
            self.survivors.append(what)

    def evidence(self, least: int, show: bool = False) -> Evidence:
        """The text of a report; Refuted if there are survivors, or fewer mistakes than there should be."""
        if self.survivors:
            raise Refuted("not noticed: " + "; ".join(self.survivors), rule=self.survivors[0].partition(":")[0])
        if len(self.noticed) < least:
            raise Refuted(f"only {len(self.noticed)} mistakes were tried, of {least} that there should be")
        refuted = sum(how in ("refuted", "Refuted") for _, how in self.noticed)
        raised = len(self.noticed) - refuted
        lines = [f"{len(self.noticed)} mistakes, all noticed: {refuted} refuted, {raised} by an error that they cause"]
        lines += [f"    {what}: {how}" for what, how in self.noticed if show]
        for reason, count in Counter(why for _, why in self.left_out).items():
            lines.append(f"{count} changes left out ({reason}):")
            lines += [f"    {what}" for what, why in self.left_out if why == reason]
        return Evidence(text="\n".join(lines))


# ------------------------------------------------------------------------------------------ mistakes in the engine


def passes(op: str) -> bool:
    """The checker of an operation: all calls of the table are proved."""
    return all(prove_op(op, args) for args in CALLS[op])


def shared(x):
    """A value that is used twice, and a bias for all rows."""
    y = x.exp()
    return (y * (y + y[0])).sum()


HAND_RULES = {  # what is wrong: (operation, function, right, wrong)
    "sign: the subtrahend's gradient": ("sub", "grad_b", "-g", "g"),
    "the factors' gradients swapped": ("mul", "grad_a", "g * b", "g * a"),
    "missing factor: the root's 2": ("sqrt", "grad_x", "2 * y", "y"),
    "x for y: the derivative of tanh": ("tanh", "grad_x", "y * y", "x * x"),
    "the smaller one gets the maximum's gradient": ("maximum", "grad_a", "lt(a, b)", "gt(a, b)"),
    "transpose forgotten in a product": ("matmul", "grad_b", "transpose(a, -1, -2)", "a"),
    "factors in the wrong order": ("matmul", "grad_a", "matmul_(g, transpose(b, -1, -2))", "matmul_(b, g)"),
    "mean for sum": (
        "reduce_sum",
        "grad_x",
        "_spread(g, x.shape, dims, keepdim)",
        "_spread(g / 2, x.shape, dims, keepdim)",
    ),
    "heads swapped: the permutation for its inverse": ("permute", "grad_x", "np.argsort(dims)", "dims"),
    "pieces of a concatenation swapped": ("cat", "grads", "*split(g, sizes, dim)", "*split(g, sizes, dim)[::-1]"),
    "a running sum that is not run back": ("cumsum", "grad_x", "not reverse", "reverse"),
    "ReLU's mask forgotten": ("linear", "backward", "if relu:", "if False:"),
    "bias not summed over the rows": (
        "linear",
        "backward",
        "_reduce(kernels.reduce.reduce_sum, g, (0,), False)",
        "g[0]",
    ),
    "a missing gradient": ("layer_norm", "backward", "dweight if needs[1] else None", "None"),
    "the scale of attention forgotten": ("attention", "backward", "_number(scale, q.dtype)", "_number(1, q.dtype)"),
    "the causal mask forgotten": ("attention", "backward", "int(is_causal)", "0"),
    "keys for queries": ("attention", "backward", "return (dq, dk, dv", "return (dk, dq, dv"),
    "smoothing forgotten": (
        "cross_entropy_rows",
        "backward",
        "_number(label_smoothing, x.dtype)",
        "_number(0, x.dtype)",
    ),
}

HAND_KERNELS = {  # what is wrong: (file, kernel, operation, right, wrong)
    "softmax without the row's sum": ("softmax", "softmax_backward", "softmax", "b[j] * (a[j] - dot)", "b[j] * a[j]"),
    "log-softmax without the row's sum": (
        "softmax",
        "log_softmax_backward",
        "log_softmax",
        "exp(b[j]) * total",
        "exp(b[j])",
    ),
    "norm without the mean of the gradient": ("norm", "layer_norm_backward", "layer_norm", "h - sum_h - n", "h - n"),
    "norm without the term along x": (
        "norm",
        "layer_norm_backward",
        "layer_norm",
        "h - sum_h - n * sum_hn",
        "h - sum_h",
    ),
    "eps dropped": ("norm", "layer_norm", "layer_norm", "np.sqrt(total / count + eps)", "np.sqrt(total / count)"),
    "sum for mean in the variance": ("norm", "rms_norm", "rms_norm", "total / count + eps", "total + eps"),
    "scatter assigns instead of adding": ("index", "scatter_add", "take", "target[d] += row[d]", "target[d] = row[d]"),
    "gather assigns instead of adding": (
        "index",
        "gather_backward",
        "gather",
        "index[o, j, i], i] += g",
        "index[o, j, i], i] = g",
    ),
    "padding ignored": (
        "loss",
        "cross_entropy_backward",
        "cross_entropy_rows",
        "if t == ignore_index:",
        "if t == ignore_index + 1:",
    ),
    "target off by one": (
        "loss",
        "cross_entropy_backward",
        "cross_entropy_rows",
        "d[t] -= scale",
        "d[(t + 1) % size] -= scale",
    ),
    "the one-hot part overwrites": (
        "loss",
        "cross_entropy_backward",
        "cross_entropy_rows",
        "d[t] -= scale",
        "d[t] = -scale",
    ),
    "ReLU's mask turned round": (
        "elementwise",
        "relu_backward",
        "linear",
        "if y <= type(y)(0) else g",
        "if y > type(y)(0) else g",
    ),
    "attention: dq without the scale": ("attention", "attention_backward", "attention", "= scale * acc", "= acc"),
    "attention: without the row's sum": (
        "attention",
        "attention_backward",
        "attention",
        "delta += g[i + r, j]",
        "delta += zero * g[i + r, j]",
    ),
    "attention: causal where it is not": (
        "attention",
        "attention_backward",
        "attention",
        "if is_causal else M",
        "if not is_causal else M",
    ),
}

HAND_WALKS = {  # what is wrong: (right, wrong)
    "overwritten where gradients meet": ("pending[target] = pending[target] + g", "pending[target] = g"),
    "broadcasting not summed": ("g.sum([*range(new), *stretched])", "g.amax([*range(new), *stretched])"),
    "nodes in the wrong order": ("heappush(heap, (-target.time, target))", "heappush(heap, (target.time, target))"),
    "a gradient sent twice": ("send(edge, r if", "send(edge, r); send(edge, r if"),
}


@claim(
    "mutants",
    "mistakes chosen by hand in gradient rules, kernels and the walk over the tape are noticed by the engine's proofs",
    kind="check",
    size="the calls of the engine's table",
    trusted=(SYMPY,),
)
def engine_by_hand():
    tally = Tally()
    tries: list[tuple[str, AbstractContextManager, Check]] = []
    for what, (op, *change) in HAND_RULES.items():
        tries.append((f"{op}: {what}", planted_rule(*rule_with(op, *change)), lambda op=op: passes(op)))
    for what, (file, kernel, op, *change) in HAND_KERNELS.items():
        plant = planted_kernel(file, kernel_with(file, *change), kernel)
        tries.append((f"{kernel}: {what}", plant, lambda op=op: passes(op)))
    for what, change in HAND_WALKS.items():
        tries.append((f"tape: {what}", planted_walk(*change), lambda: bool(prove(shared, (2, 2)))))
    if not prove(shared, (2, 2)):
        raise Refuted("the checker of the walk refuses the original")
    for what, plant, check in tries:
        with plant:
            tally.enter(what, notices(check))
    return tally.evidence(25, show=True)


# ------------------------------------------------------------------------------------- mistakes made mechanically


def numbers(op: str, ties: bool) -> list:
    """What an operation gives in floats: values, gradients, and both through the definition; at ties, if so asked."""
    rng, found = np.random.default_rng(0), []
    for args in CALLS[op] * (1 if ties else 2):
        given = [_floats(a, rng, ties) for a in args]
        leaves = [a for a in given if isinstance(a, Tensor) and a.requires_grad]
        for road in (False, True):
            try:
                y = OPS[op](*given)
                y = y[0] if isinstance(y, tuple) else y
                g = tt.tensor(rng.standard_normal(y.shape), dtype=tt.float64)
                found.append(y._data.copy())
                y.backward(g, create_graph=road)
                found += [leaf.grad._data.copy() for leaf in leaves if leaf.grad is not None]
                if OPS[op].definition is not None:
                    found.append(OPS[op].definition(*given)._data.copy())
            except Exception as error:
                found.append(type(error))
            for leaf in leaves:
                leaf.grad = None
    return found


def _floats(a, rng, ties: bool):
    """An argument of the table with floats for its symbols, positive where these are."""
    if isinstance(a, Symbolic):
        return a.witness
    if a is OBJECT:
        return tt.float64
    if not isinstance(a, Tensor) or a.dtype is not OBJECT:
        return float(a) if hasattr(a, "numerator") and not isinstance(a, int) else a
    values = rng.standard_normal(a.shape)
    if ties:
        values = rng.permutation(np.resize([0.0, 1.0, 1.0, -1.0], a.numel())).reshape(a.shape)
    positive = all(s.witness > 0 for s in a._data.flat) and a.numel() > 1
    return tt.tensor(abs(values) + (0 if ties else 0.1) if positive else values, dtype=tt.float64, requires_grad=True)


def same(a: list, b: list) -> bool:
    if len(a) != len(b):
        return False
    pairs = zip(a, b, strict=True)
    return all(p is q if isinstance(p, type) or isinstance(q, type) else _equal(p, q) for p, q in pairs)


def _equal(p: np.ndarray, q: np.ndarray) -> bool:
    return p.shape == q.shape and np.allclose(p, q, rtol=1e-10, atol=1e-10, equal_nan=True)


def why_not(op: str, plant: Plant, plant_error: Plant) -> str:
    """The reason to leave out a change that is not noticed; "" if there is none.

    plant, plant_error: what puts the change in its place, and what puts an error there.
    """
    with plant_error():
        if not notices(lambda: passes(op)):
            return "never reached"
    with interpreted():
        before = {ties: numbers(op, ties) for ties in (False, True)}
        with plant():
            after = {ties: numbers(op, ties) for ties in (False, True)}
    if not same(before[False], after[False]):
        return ""
    return "same numbers" if same(before[True], after[True]) else "at ties only"


def attempt(tally: Tally, what: str, op: str, plant: Plant, error: Plant) -> None:
    """Plant one change, ask the checker, and enter what came of it."""
    with plant():
        how = notices(partial(passes, op))
    tally.enter(what, how, partial(why_not, op, plant, error))


def rules_mechanically(step: Callable[[str], int]) -> Tally:
    """Change every place of every rule, one at a time; of a file of ops/ one change in step(file) is tried."""
    tally, number = Tally(), Counter()
    for name_, op in ((name_, OPS[name_]) for name_ in CALLS):
        file = module_of(op).__name__.rpartition(".")[2]
        for function in rules_of(declaration(op)):
            label = f"{name_}.{function.name}"
            with planted_rule(op, function):  # the control: planted unchanged, it passes
                if not passes(name_):
                    raise Refuted(f"{label}: the copy without a mistake is refused", rule=name_)
            if any(isinstance(node, ast.While) for node in ast.walk(function)):
                tally.left_out.append((label, "a loop that might never end"))
                continue
            for what, place, changed in code_mistakes(function):
                number[file] += 1
                if number[file] % step(file) == 0:
                    error = partial(planted_rule, op, unreached(function, place))
                    attempt(tally, f"{label}: {what}", name_, partial(planted_rule, op, changed), error)
    return tally


@claim(
    "mutants",
    "every gradient rule and definition of ops/, changed in one place: each change that makes a difference is noticed",
    kind="check",
    size=f"the calls of the engine's table; one change in {FAST}, of ops/fused.py one in {4 * FAST}",
    assumptions=("what is left out is left out for a reason that is named and was found by running it",),
    trusted=(SYMPY,),
)
def rules():
    return rules_mechanically(lambda file: FAST * 4 if file == "fused" else FAST).evidence(150)


KERNELS_OF = {  # kernel: (its file, an operation that launches it and has a definition or this as its gradient)
    "relu_backward": ("elementwise", "linear"),
    "silu_backward": ("elementwise", "silu"),
    "gelu_backward": ("elementwise", "gelu_erf"),
    "gelu_tanh_backward": ("elementwise", "gelu_tanh"),
    "scatter_add": ("index", "take"),
    "gather_backward": ("index", "gather"),
    "softmax": ("softmax", "softmax"),
    "softmax_backward": ("softmax", "softmax"),
    "log_softmax": ("softmax", "log_softmax"),
    "log_softmax_backward": ("softmax", "log_softmax"),
    "layer_norm": ("norm", "layer_norm"),
    "layer_norm_backward": ("norm", "layer_norm"),
    "rms_norm": ("norm", "rms_norm"),
    "rms_norm_backward": ("norm", "rms_norm"),
    "cross_entropy": ("loss", "cross_entropy_rows"),
    "cross_entropy_backward": ("loss", "cross_entropy_rows"),
}


def kernels_mechanically(step: int) -> Tally:
    """Change every place that computes a value, one at a time, in kernels; one change in `step` is tried."""
    tally, number = Tally(), 0
    for kernel, (file, op) in KERNELS_OF.items():
        tree, functions = kernel_source(file)
        with planted_kernel(file, tree, kernel):  # the control
            if not passes(op):
                raise Refuted(f"{kernel}: the copy without a mistake is refused", rule=kernel)
        for what, place, changed in code_mistakes(functions[kernel], values_only=True):
            number += 1
            if number % step == 0:
                trees = (with_function(tree, f) for f in (changed, unreached(functions[kernel], place)))
                attempt(tally, f"{kernel}: {what}", op, *(partial(planted_kernel, file, t, kernel) for t in trees))
    return tally


@claim(
    "mutants",
    "the kernels of fused operations and of gradients, changed in one place: each change that makes a difference is "
    "noticed",
    kind="check",
    size=f"the calls of the engine's table; one change in {2 * FAST}; indices and bounds are left to tests/symbolic",
    assumptions=("what is left out is left out for a reason that is named and was found by running it",),
    trusted=(SYMPY,),
)
def kernels():
    return kernels_mechanically(2 * FAST).evidence(60)


# ----------------------------------------------------------------------------------------- mistakes in formulas


@dataclass(frozen=True)
class Part:
    """One of the three programs of eq. (17), with its adjoints, and the closed forms that they are proved equal to."""

    forward: Program
    derived: Program
    closed: dict[Expr, eq17.Closed]
    output: Array | Symbol
    place: str  # in eq17.Derivation

    def check(self, derived: Program, closed: dict[Expr, eq17.Closed], changed: set) -> bool:
        """eq17.check of what can be different now: closed forms of these names, or that go through them."""
        eq17.check(derived, {e: c for e, c in closed.items() if name(e) in changed or changed & {*c.through}})
        return True

    def with_closed(self, entry: Expr, form: Expr) -> bool:
        """The check with another closed form."""
        return self.check(
            self.derived, self.closed | {entry: eq17.Closed(form, self.closed[entry].through)}, {name(entry)}
        )

    def with_line(self, array: Array | Symbol, right: Expr) -> bool:
        """The check with another line among the adjoints."""
        return self.check(self.derived.replaced(array, lambda _: right), self.closed, {array})

    def with_equation(self, array: Array | Symbol, right: Expr) -> bool:
        """The check with another equation. What shows in no gradient shows when it is run beside the engine."""
        derived, changed = self.derived_from(array, right)
        self.check(derived, self.closed, changed)
        difference(random_sizes(0), program=source(replace(eq17.derivation(), **{self.place: derived})))
        return True

    def derived_from(self, array: Array | Symbol, right: Expr) -> tuple[Program, set]:
        """The program with another equation, the adjoints of all names in it derived anew; and what has changed."""
        forward = self.forward.replaced(array, lambda _: right)
        derived, changed = self.derived.replaced(array, lambda _: right), {array}
        for x, line in self.adjoints_of(forward, names(right) | names(self.forward[array].right)).items():
            if normal(line - derived[x].right) != 0:
                derived = derived.replaced(x, lambda _, line=line: line)
                changed.add(x)
        return derived, changed

    def same_numbers(self, array: Array | Symbol | None, right: Expr) -> str:
        """The reason to leave out another equation: by plain loops, at random numbers, the same comes out."""
        if array is None:
            return ""
        at = self.derived.point(0)
        before, after = self.derived.run(at), self.derived_from(array, right)[0].run(at)
        seen = [self.output, *(d(x) for x in self.forward.parameters)]
        same = all(np.allclose(np.asarray(before[x], float), np.asarray(after[x], float), rtol=1e-9) for x in seen)
        return "same numbers" if same else ""

    def adjoints_of(self, forward: Program, arrays: set) -> dict[Array | Symbol, Expr]:
        """The adjoints of these names, as eq17 derives them, from other equations."""
        entries = [*forward.parameters.values(), *(line.left for line in forward.definitions.values())]
        found = {}
        for entry in entries:
            if name(entry) in arrays and name(entry) != self.output:
                new = {index: index.fresh() for index in free(entry)}
                line = uses(forward.definitions.values(), entry.xreplace(new))
                if isinstance(self.output, Symbol):
                    line = line.xreplace({d(self.output): Integer(1)})
                found[d(name(entry))] = line.xreplace({v: k for k, v in new.items()})
        return found


def parts() -> list[Part]:
    found = eq17.derivation()
    return [
        Part(eq17.embedding(), found.embedding, eq17.embedding_closed(), eq17.X, "embedding"),
        Part(eq17.block(), found.block, eq17.block_closed(), eq17.Zp, "block"),
        Part(eq17.head(), found.head, eq17.head_closed(), eq17.loss, "head"),
    ]


def formulas_by_hand() -> Iterator[tuple[str, Check]]:
    """Mistakes in the equations of document 003 and in what is derived from them, each with its check."""
    embedding, block, head = parts()
    S, Zhat, Zp, Z, X, R, f = eq17.S, eq17.Zhat, eq17.Zp, eq17.Z, eq17.X, eq17.R, eq17.f
    ZQ, ZK, ZV, Y, σ, q, w, N, t, y = (getattr(eq17, n) for n in ("ZQ", "ZK", "ZV", "Y", "σ", "q", "w", "N", "t", "y"))
    E, G, W, Q, V, logits = eq17.E, eq17.G, eq17.W, eq17.Q, eq17.V, eq17.logits
    i, m, j, h, k, l, u, t_ = (getattr(eq17, n) for n in ("i", "m", "j", "h", "k", "l", "u", "t_"))
    one_hot = delta(u, y[i])
    r, s = eq17.norm_names(hat=True)[3], eq17.norm_names(hat=True)[2]
    dz, z = d(eq17.Zbar), eq17.Zbar
    mean, along = total(dz[i, j], j) / eq17.D, z[i, j] * total(z[i, j] * dz[i, j], j) / eq17.D

    def closed(part, entry, form):
        return lambda: part.with_closed(entry, form)

    yield (
        "(16) divided by C, not by the counted positions",
        closed(head, d(logits)[i, u], w[i] / eq17.C * (q[i, u] - one_hot)),
    )
    yield "padding ignored", closed(head, d(logits)[i, u], (q[i, u] - one_hot) / N)
    yield (
        "target off by one",
        closed(head, d(logits)[i, u], w[i] / N * (q[i, u] - KroneckerDelta(u, y[i] + 1))),
    )
    yield "the one-hot part forgotten", closed(head, d(logits)[i, u], w[i] / N * q[i, u])
    yield "the sign of the loss", closed(head, d(logits)[i, u], w[i] / N * (one_hot - q[i, u]))
    yield "softmax without the row's sum", closed(block, d(S)[h, i, m], σ[h, i, m] * d(σ)[h, i, m])
    yield (
        "softmax with the mean for the sum",
        closed(block, d(S)[h, i, m], σ[h, i, m] * (d(σ)[h, i, m] - total(σ[h, i, m] * d(σ)[h, i, m], m) / eq17.C)),
    )
    yield "attention transposed", closed(block, d(ZV)[h, m, k], total(σ[h, m, i] * d(Y)[h, i, k], i))
    yield "the scores transposed", closed(block, d(ZK)[h, m, k], total(ZQ[h, i, k] * d(S)[h, m, i], i) / sqrt(eq17.nK))
    yield "the scale of the scores forgotten", closed(block, d(ZQ)[h, i, k], total(ZK[h, m, k] * d(S)[h, i, m], m))
    yield "Q and K for each other", closed(block, d(Q)[h, j, k], total(Z[i, j] * d(ZK)[h, i, k], i))
    yield "the gradient of V from Y", closed(block, d(V)[h, j, k], total(Z[i, j] * d(Y)[h, i, k], i))
    yield (
        "W without Y: heads side by side forgotten",
        closed(block, d(W)[h, k, j], total(ZV[h, i, k] * d(Zhat)[i, j], i)),
    )
    yield "norm without the mean of the gradient", closed(block, d(Zhat)[i, j], d(Zp)[i, j] + r[i] * (dz[i, j] - along))
    yield "norm without the term along z", closed(block, d(Zhat)[i, j], d(Zp)[i, j] + r[i] * (dz[i, j] - mean))
    yield "the residual forgotten", closed(block, d(Zhat)[i, j], r[i] * (dz[i, j] - mean - along))
    yield "ReLU's mask forgotten", closed(block, d(f)[i, l], total(G[l, j] * d(Zp)[i, j], j))
    yield "what went into the ReLU for what came out", closed(block, d(G)[l, j], total(f[i, l] * d(Zp)[i, j], i))
    yield "one branch of three", closed(block, d(Z)[i, j], d(Zhat)[i, j] + total(Q[h, j, k] * d(ZQ)[h, i, k], h, k))
    yield (
        "the mean for the sum over the places of a token",
        closed(embedding, d(E)[t_, j], total(delta(t_, t[i]) * d(X)[i, j], i) / eq17.C),
    )
    yield "(3) without 1/sqrt(K)", lambda: block.with_equation(S, total(ZQ[h, i, k] * ZK[h, m, k], k))
    yield (
        "(3) as printed: i is multiplied by K, m by Q",
        lambda: block.with_equation(S, total(ZK[h, i, k] * ZQ[h, m, k], k) / sqrt(eq17.nK)),
    )
    yield "eps dropped", lambda: block.with_equation(r, s[i] ** Rational(-1, 2))
    yield "the sum for the mean in the variance", lambda: block.with_equation(s, block.forward[s].right * eq17.D)
    yield "(6) by the column's sum", lambda: block.with_equation(σ, eq17.e[h, i, m] / eq17.T[h, m])
    yield "(9) without Z", lambda: block.with_equation(Zhat, eq17.A[i, j])
    yield "(10) without the ReLU", lambda: block.with_equation(R, f[i, l])
    yield "(12) without the logarithm", lambda: head.with_equation(eq17.loss_i, -q[i, y[i]])


@claim(
    "mutants",
    "mistakes chosen by hand in the equations, and in the gradients of eq. (17), are refuted by the index calculus",
    kind="check",
    size="any size",
    trusted=(SYMPY, INDEX),
)
def formulas_chosen():
    tally = Tally()
    for what, check in formulas_by_hand():
        tally.enter(what, notices(check))
    return tally.evidence(25, show=True)


def formulas_mechanically(step: int) -> Tally:
    """Change every place of every closed form, of every line of the adjoints, and of every equation, one at a time."""
    tally, number = Tally(), 0
    for part in parts():
        eq17.check(part.derived, part.closed)  # the control
        tries = [("closed form", e, c.form, partial(part.with_closed, e), None) for e, c in part.closed.items()]
        for line in part.derived.definitions.values():
            is_equation = line.name in part.forward.definitions
            kind, check = ("equation", part.with_equation) if is_equation else ("derived line", part.with_line)
            tries.append((kind, line.left, line.right, partial(check, line.name), line.name if is_equation else None))
        for kind, left, right, check, equation in tries:
            for what, changed in formula_mistakes(right):
                number += 1
                if number % step:
                    continue
                is_same = partial(part.same_numbers, equation, changed)
                tally.enter(f"{kind} of {text(left)}: {what}", notices(partial(check, changed)), is_same)
    return tally


@claim(
    "mutants",
    "closed forms, derived lines and equations of eq. (17), changed in one place: each change that makes a difference "
    "is refuted, or shows when the program runs beside the engine",
    kind="check",
    size=f"any size; one change in {FAST}",
    trusted=(SYMPY, INDEX),
)
def formulas():
    return formulas_mechanically(FAST).evidence(100)


if __name__ == "__main__":  # all mistakes that can be made mechanically: a few minutes
    print(rules_mechanically(lambda file: 1).evidence(1).text)
    print(kernels_mechanically(1).evidence(1).text)
    print(formulas_mechanically(1).evidence(1).text)
