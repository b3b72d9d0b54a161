"""The semantics of fused operations: softmax, cross-entropy, norms, attention, with closed forms of their gradients."""

from itertools import chain

import sympy
from sympy import KroneckerDelta, Mul, Rational, S, exp, log

from tinytensor.symbolic.derive.semantics.sums import ask_for_open_rows, matmul, product_of
from tinytensor.symbolic.derive.semantics.symbolic_call import (
    SymbolicCall,
    as_index,
    broadcast,
    by_dimension,
    elementwise,
    factors_text,
    semantics_of,
    transposed,
)
from tinytensor.symbolic.derive.values import Group, Value, value_of_name
from tinytensor.symbolic.index_calculus.adjoints import Definition, d
from tinytensor.symbolic.index_calculus.formulas import Array, delta, total
from tinytensor.symbolic.index_calculus.functions import upto


def softmax_lines(call: SymbolicCall, x: Value, letter: str = "σ") -> Value:
    """σ = e^x / Σ e^x along the last dimension, with the closed form of its gradient."""
    source = call.as_name(x, "S")
    array, left, indices = call.lines.left(letter, source)
    last = by_dimension(indices, x.dims)[-1]
    finite = x.finite(*indices) if x.finite is not None else S.One
    before, e = source.entry(*indices), finite * exp(source.entry(*indices))
    form = left * (d(left) - total(left * d(left), *last))
    call.lines.groups.append(Group([Definition(left, e / total(e, *last))], [Definition(before, form)], call.where))
    return value_of_name(array, Value(source.dims, source.entry))


@semantics_of("softmax")
def softmax(call: SymbolicCall) -> Value:
    (x, *_) = call.args
    if x.finite is not None:
        *outer, last = by_dimension(x.indices(), x.dims)
        ask_for_open_rows(call, x.finite(*chain(*outer), *last), last, [*chain(*outer)])
    return softmax_lines(call, x, call.wanted or "σ")


@semantics_of("log_softmax")
def log_softmax(call: SymbolicCall) -> Value:
    source = call.as_name(call.args[0], "S")
    array, left, indices = call.lines.left(call.wanted or "y", source)
    before, last = source.entry(*indices), by_dimension(indices, source.dims)[-1]
    right = before - log(total(exp(before), *last))
    form = d(left) - exp(left) * total(d(left), *last)
    call.lines.groups.append(Group([Definition(left, right)], [Definition(before, form)], call.where))
    return value_of_name(array, source)


@semantics_of("cross_entropy_rows", "cross_entropy_mean")
def cross_entropy(call: SymbolicCall) -> Value:
    x, target, ignored, smoothing = call.args
    target = as_index(target)
    if target.dtype != "i":
        raise call.refuse("the targets are no argument; give them as an Index")
    if len(x.dims[-1]) != 1:
        raise call.refuse(f"classes of a dimension of size {factors_text(x.dims[-1])}, which is a product")
    s, ignored = smoothing.entry(), ignored.entry()
    source = call.as_name(x, "S")
    q, left_q, (*rows, m) = call.lines.left("q", source)
    before, t = source.entry(*rows, m), target.entry(*rows)
    line = Definition(left_q, exp(before) / total(exp(before), m))
    K = m.size
    counted = S.One if ignored.is_negative else 1 - KroneckerDelta(t, ignored + 1)  # an index counts from 1
    wrong = counted * ((1 - s) * log(q[(*rows, t)]) + s / K * total(log(left_q), m))
    p = (1 - s) * delta(m, t) + s / K
    if call.op == "cross_entropy_rows":
        count, value = S.One, Value(x.dims[:1], lambda *i: -wrong.xreplace(dict(zip(rows, i, strict=True))))
    else:
        if counted != 1:
            call.conditions["denominator"] = None  # where every target is ignored
        count = total(counted, *rows) if counted != 1 else Mul(*[i.size for i in rows])
        wrong = total(wrong, *rows) / count
        value = Value((), lambda: -wrong)
    array, left, indices = call.lines.left(call.wanted or "ℓ", value)
    left = left.xreplace(dict(zip(indices, rows, strict=False)))
    closed = Definition(before, d(left) * counted * (left_q - p) / count)
    call.lines.groups.append(Group([line, Definition(left, -wrong)], [closed], call.where))
    return value_of_name(array, value)


@semantics_of("layer_norm", "rms_norm")
def norm(call: SymbolicCall) -> Value:
    centred = call.op == "layer_norm"
    x, weight, bias, eps = call.args if centred else (*call.args[:2], None, call.args[2])
    eps = eps.entry()
    if not S(eps).is_positive:
        call.conditions["denominator"] = None
    source = call.as_name(x, "x")
    z, left_z, indices = call.lines.left("z", source)
    *batch, last = by_dimension(indices, source.dims)
    before, outer = source.entry(*indices), [*chain(*batch)]
    D = Mul(*[i.size for i in last])

    def row(letter):
        name = call.lines.unused(letter)
        return Array(name, tuple(i.size for i in outer))[tuple(outer)] if outer else sympy.Symbol(name, real=True)

    lines, v = [], before
    if centred:
        mu = row("μ")
        lines.append(Definition(mu, total(before, *last) / D))
        v = before - mu
    r = row("r")
    lines.append(Definition(r, (total(v**2, *last) / D + eps) ** Rational(-1, 2)))
    lines.append(Definition(left_z, v * r))
    dz = d(left_z)
    form = dz - left_z * total(left_z * dz, *last) / D
    form = r * (form - total(dz, *last) / D if centred else form)
    call.lines.groups.append(Group(lines, [Definition(before, form)], call.where))
    y = value_of_name(z, source)
    if isinstance(weight, Value):
        y = elementwise(call, lambda a, b: a * b, y, weight)
    if isinstance(bias, Value):
        y = elementwise(call, lambda a, b: a + b, y, bias)
    return y


@semantics_of("attention")
def attention(call: SymbolicCall) -> Value:
    q, k, v, mask, scale, is_causal = call.args
    scores = elementwise(call, lambda p, s: s * p, product_of(call, q, transposed(k)), scale)
    scores = call.lines.name(scores, "S", where=call.where)
    rows, columns = scores.dims[-2:]
    finite = None
    if isinstance(mask, Value):
        if mask.dtype != "b":
            raise call.refuse("the mask is no truth value")
        _, (_, finite) = broadcast(call, scores, mask)
        call.conditions["row"] = None
    if is_causal:
        if len(columns) != 1 or len(rows) != 1:
            raise call.refuse("a causal mask along a dimension that is a product")
        allowed = finite or (lambda *indices: S.One)
        finite = lambda *indices: allowed(*indices) * upto(indices[-1], indices[-2])  # noqa: E731
    weights = softmax_lines(call, Value(scores.dims, scores.entry, "f", finite))
    return matmul(SymbolicCall("matmul", [weights, v], call.lines, call.wanted or "Y", call.where))
