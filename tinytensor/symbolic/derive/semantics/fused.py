"""The meanings of fused operations: softmax, cross-entropy, norms, attention, with closed forms of their gradients."""

import sympy
from sympy import KroneckerDelta, Mul, Rational, S, exp, log

from tinytensor.symbolic.derive.semantics.shapes import permuted
from tinytensor.symbolic.derive.semantics.step import (
    Step,
    as_index,
    broadcast,
    common_dimension,
    elementwise,
    meaning,
    widened,
)
from tinytensor.symbolic.derive.semantics.sums import product
from tinytensor.symbolic.derive.values import Closed, Group, Value, named
from tinytensor.symbolic.index_calculus.adjoints import Definition, d
from tinytensor.symbolic.index_calculus.formulas import Array, Index, delta, total, upto


def softmax_lines(step: Step, x: Value, letter: str = "σ") -> Value:
    """σ = e^x / Σ e^x along the last dimension, with the closed form of its gradient."""
    source, own, indices = step.as_name(x, "S")
    last = indices[len(indices) - len(x.dims[-1]) :]
    finite = x.finite(*indices) if x.finite is not None else S.One
    e = finite * exp(own)
    array, left, at = step.lines.left(letter, source)
    change = dict(zip(indices, at, strict=True))
    own, e, last = own.xreplace(change), e.xreplace(change), [change[i] for i in last]
    form = left * (d(left) - total(left * d(left), *last))
    step.lines.groups.append(Group([Definition(left, e / total(e, *last))], [Closed(own, form)], step.where))
    return named(array, source if source.finite is None else Value(source.dims, source.entry))


@meaning("softmax")
def softmax(step: Step) -> Value:
    return softmax_lines(step, step.args[0], step.wanted or "σ")


@meaning("log_softmax")
def log_softmax(step: Step) -> Value:
    source, own, indices = step.as_name(step.finite(step.args[0]), "S")
    last = indices[len(indices) - len(source.dims[-1]) :]
    array, left, at = step.lines.left(step.wanted or "y", source)
    change = dict(zip(indices, at, strict=True))
    own, last = own.xreplace(change), [change[i] for i in last]
    right = own - log(total(exp(own), *last))
    form = d(left) - exp(left) * total(d(left), *last)
    step.lines.groups.append(Group([Definition(left, right)], [Closed(own, form)], step.where))
    return named(array, source)


@meaning("cross_entropy_rows", "cross_entropy_mean")
def cross_entropy(step: Step) -> Value:
    x, target, ignored, smoothing = step.args
    target = as_index(target)
    if target.kind != "i":
        raise step.refuse("the targets are no argument; give them as an Index")
    s, ignored = smoothing.entry(), ignored.entry()
    source, own, indices = step.as_name(step.finite(x), "S")
    rows = indices[: len(indices) - len(x.dims[-1])]
    (m,) = indices[len(rows) :]
    q, left_q, at = step.lines.left("q", source)
    change = dict(zip(indices, at, strict=True))
    own, rows, m = own.xreplace(change), [change[i] for i in rows], change[m]
    t = target.entry(*rows)
    line = Definition(left_q, exp(own) / total(exp(own), m))
    K = m.size
    counted = S.One if ignored.is_negative else 1 - KroneckerDelta(t, ignored + 1)  # an index counts from 1
    wrong = counted * ((1 - s) * log(q[(*rows, t)]) + s / K * total(log(left_q), m))
    p = (1 - s) * delta(m, t) + s / K
    if step.op == "cross_entropy_rows":
        value = Value(x.dims[:1], lambda *i: -wrong.xreplace(dict(zip(rows, i, strict=True))))
        array, left, at = step.lines.left(step.wanted or "ℓ", value)
        back = dict(zip(at, rows, strict=True))
        left = left.xreplace(back)
        closed = Closed(own, d(left) * counted * (left_q - p))
    else:
        n = total(counted, *rows) if counted != 1 else Mul(*[i.size for i in rows])
        if counted != 1:
            step.conditions["denominator"] = None  # where every target is ignored
        value = Value((), lambda: -total(wrong, *rows) / n)
        array, left, at = step.lines.left(step.wanted or "ℓ", value)
        closed = Closed(own, d(left) * counted * (left_q - p) / n)
        wrong = total(wrong, *rows) / n
    step.lines.groups.append(Group([line, Definition(left, -wrong)], [closed], step.where))
    return named(array, value)


@meaning("layer_norm", "rms_norm")
def norm(step: Step) -> Value:
    centred = step.op == "layer_norm"
    x, weight, bias, eps = step.args if centred else (*step.args[:2], None, step.args[2])
    eps = eps.entry()
    source, own, indices = step.as_name(step.finite(x), "x")
    last = indices[len(indices) - len(x.dims[-1]) :]
    z, left_z, at = step.lines.left("z", source)
    change = dict(zip(indices, at, strict=True))
    own, last = own.xreplace(change), [change[i] for i in last]
    outer = at[: len(at) - len(last)]
    D = Mul(*[i.size for i in last])

    def row(letter):
        name = step.lines.unused(letter)
        if not outer:
            symbol = sympy.Symbol(name, real=True)
            return symbol, symbol
        array = Array(name, tuple(i.size for i in outer))
        return array, array[tuple(outer)]

    lines, v = [], own
    if centred:
        _, mu = row("μ")
        lines.append(Definition(mu, total(own, *last) / D))
        v = own - mu
    _, r = row("r")
    lines.append(Definition(r, (total(v**2, *last) / D + eps) ** Rational(-1, 2)))
    lines.append(Definition(left_z, v * r))
    dz = d(left_z)
    form = dz - left_z * total(left_z * dz, *last) / D
    form = r * (form - total(dz, *last) / D if centred else form)
    step.lines.groups.append(Group(lines, [Closed(own, form)], step.where))
    y = named(z, source)
    if isinstance(weight, Value):
        y = elementwise(step, lambda a, b: a * b, y, weight)
    if isinstance(bias, Value):
        y = elementwise(step, lambda a, b: a + b, y, bias)
    return y


@meaning("attention")
def attention(step: Step) -> Value:
    q, k, v, mask, scale, is_causal = step.args
    s = scale.entry()
    keys = permuted(Step("permute", [k, (0, 1, 3, 2)], step.lines, "", step.where))
    n = sum(map(len, q.dims[:2]))
    inner, columns = common_dimension(step, [q.dims[-1], k.dims[-1]]), k.dims[-2]
    batch = tuple(common_dimension(step, pair) for pair in zip(q.dims[:2], k.dims[:2], strict=True))

    def score(*at):
        j = [Index(i.name, i.size) for i in Value((inner,), None).indices()]
        own, other = (widened(lambda *i: list(i), x.dims[:2], batch, *at[:n]) for x in (q, keys))
        rows = at[n : n + len(q.dims[-2])]
        return s * total(q.entry(*own, *rows, *j) * keys.entry(*other, *j, *at[n + len(rows) :]), *j)

    scores = step.lines.name(Value((*batch, q.dims[-2], columns), score), "S", where=step.where)
    finite = None
    if isinstance(mask, Value):
        if mask.kind != "b":
            raise step.refuse("the mask is no truth value")
        _, (_, allowed) = broadcast(step, scores, mask)
        finite = allowed
    if is_causal:
        if len(columns) != 1 or len(q.dims[-2]) != 1:
            raise step.refuse("a causal mask along a dimension that is a product")
        before = finite or (lambda *at: S.One)
        finite = lambda *at: before(*at) * upto(at[-1], at[-2])  # noqa: E731
    if isinstance(mask, Value):
        step.conditions["row"] = None
    weights = softmax_lines(step, Value(scores.dims, scores.entry, "f", finite))
    product_step = Step("matmul", [weights, v], step.lines, step.wanted or "Y", step.where)
    return product(product_step)
