"""The semantics of sums, means, extremes, products and running sums, and of products of matrices."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import chain
from operator import mul

from sympy import Expr, Indexed, Mul, S, exp, log, sqrt

from tinytensor.symbolic.derive.semantics.symbolic_call import (
    WHOLE,
    SymbolicCall,
    by_dimension,
    elementwise,
    semantics_of,
    transposed,
)
from tinytensor.symbolic.derive.values import Dims, ExtremeMask, Group, Value, value_of_name
from tinytensor.symbolic.index_calculus.adjoints import Definition, d
from tinytensor.symbolic.index_calculus.formulas import Array, Index, normal, total
from tinytensor.symbolic.index_calculus.functions import relu, same, upto
from tinytensor.symbolic.index_calculus.quotients import off_ties
from tinytensor.symbolic.index_calculus.signs import Signs


def _reduction(x: Value, dims, keepdim) -> tuple[Dims, Callable[..., list], list[Index]]:
    """The dimensions that stay; the indices of x from those of the result; the indices that are summed."""
    dims = {int(n) for n in dims}
    summed = {n: [Index(i.name, i.size) for i in Value((x.dims[n],), None).indices()] for n in sorted(dims)}
    new = tuple(() if n in dims else dim for n, dim in enumerate(x.dims) if n not in dims or keepdim)
    kept = [dim for n, dim in enumerate(x.dims) if n not in dims]

    def source(*indices):
        groups = iter(by_dimension(indices, kept))
        return [i for n in range(len(x.dims)) for i in (summed[n] if n in dims else next(groups))]

    return new, source, [*chain(*summed.values())]


def _sum(x: Value, dims, keepdim, mean: bool = False) -> Value:
    new, source, over = _reduction(x, dims, keepdim)
    count = Mul(*[i.size for i in over]) if mean else S.One
    return Value(new, lambda *indices: total(x.entry(*source(*indices)), *over) / count)


def ask_for_open_rows(call: SymbolicCall, is_open: Expr, row: Sequence[Index], outer: Sequence[Index]) -> None:
    """The condition that each row has a number above -inf, unless its first, last or diagonal one always is."""
    numbers = [S.One, row[0].size, *(i for i in outer if i.size == row[0].size)] if len(row) == 1 else [S.One]
    entries = (S(is_open).xreplace(dict.fromkeys(row, number)) for number in numbers)
    if not any(normal(entry.replace(same, lambda x: off_ties(x, Signs()))) == 1 for entry in entries):
        call.conditions["row"] = None


@semantics_of("reduce_sum", "reduce_mean")
def reduce_sum(call: SymbolicCall) -> Value:
    x, *settings = call.args
    mean = call.op == "reduce_mean"
    value = _sum(x, *settings, mean)
    return call.name(value, "μ" if mean else "s", "anywhere") if value.sizes else value


@semantics_of("centred")
def centred(call: SymbolicCall) -> Value:
    x, dims = call.args
    mean = _sum(x, dims, True, True)
    if mean.sizes:
        mean = call.lines.name(mean, "μ", where=call.where, inline="anywhere")
    return elementwise(call, lambda x, mean: x - mean, x, mean)


@semantics_of("reduce_norm")
def reduce_norm(call: SymbolicCall) -> Value:
    x, dims, keepdim, n = call.args
    squares = elementwise(call, lambda x: x**2, x)
    square = call.name(_sum(squares, dims, keepdim), "s", "anywhere")
    if not call.lines.signs.positive(square.entry(*square.indices())):
        call.conditions["root"] = None
    count = n.entry() if isinstance(n, Value) else n
    return call.name(elementwise(call, lambda s: sqrt(s / count), square), "r")


@semantics_of("reduce_amax", "reduce_amin", "reduce_max", "reduce_min")
def reduce_extreme(call: SymbolicCall) -> Value:
    x, dims, keepdim, *_ = call.args
    if x.finite is not None or not dims:
        raise call.refuse("the largest of values that are -inf in places")
    source = call.as_name(x, "u")
    indices = source.indices()
    new, inner, over = _reduction(source, dims, keepdim)
    which = "largest" if "max" in call.op else "smallest"
    shares = "first" if call.op in ("reduce_max", "reduce_min") or x.dtype in WHOLE else "shared"
    chosen = Array(call.lines.unused(shares.removesuffix("d")), tuple(i.size for i in indices))
    name = source.entry(*indices)
    if not isinstance(name, Indexed):
        raise call.refuse("the largest number of a constant")
    flat = [k for k, dim in enumerate(source.dims) for _ in dim]
    axes = tuple(n for n, k in enumerate(flat) if k in {int(m) for m in dims})
    call.lines.constants[chosen] = ExtremeMask(f"{which}_{shares}", name, tuple(indices), axes)
    return call.name(Value(new, lambda *i: total(chosen[tuple(inner(*i))] * source.entry(*inner(*i)), *over)), "m")


@semantics_of("reduce_prod")
def reduce_prod(call: SymbolicCall) -> Value:
    """Π x = exp(Σ log x), whose derivative is the product divided by each factor."""
    x, *settings = call.args
    if not call.lines.signs.positive(x.entry(*x.indices())):
        call.conditions["factor"] = None
    logarithms = elementwise(call, log, x)
    return call.name(elementwise(call, exp, _sum(logarithms, *settings)), "P")


@semantics_of("cumsum")
def cumsum(call: SymbolicCall) -> Value:
    x, axis, reverse = call.args
    axis = int(axis)
    if len(x.dims[axis]) != 1:
        raise call.refuse("a running sum along a dimension that is a product")
    before = sum(map(len, x.dims[:axis]))

    def entry(*indices):
        p, end = Index("p", x.dims[axis][0]), indices[before]
        mask = upto(end, p) if reverse else upto(p, end)
        return total(mask * x.entry(*indices[:before], p, *indices[before + 1 :]), p)

    return call.name(Value(x.dims, entry), "u")


@semantics_of("reduce_logsumexp")
def logsumexp(call: SymbolicCall) -> Value:
    x, dims, keepdim = call.args
    source, finite = call.as_name(x, "u"), x.finite or (lambda *indices: S.One)
    new, inner, over = _reduction(source, dims, keepdim)
    value = Value(new, lambda *i: log(total(exp(source.entry(*inner(*i))) * finite(*inner(*i)), *over)))
    array, left, indices = call.lines.left(call.wanted or "L", value)
    before, is_open = source.entry(*inner(*indices)), finite(*inner(*indices))
    form = d(left) * exp(before - left) * is_open
    if x.finite is not None:
        ask_for_open_rows(call, is_open, over, indices)
    call.lines.groups.append(Group([Definition(left, value.entry(*indices))], [Definition(before, form)], call.where))
    return value_of_name(array, value)


def product_of(call: SymbolicCall, a: Value, b: Value) -> Value:
    """Products of matrices, Σ_k a_..ik b_..kj; a vector `a` is one row."""
    a = replace(a, dims=(*a.dims, ()))
    b = replace(b, dims=(*b.dims[:-2], (), *b.dims[-2:]))
    products = elementwise(call, mul, a, b)
    return _sum(products, [len(products.dims) - 2], False)


@semantics_of("matmul")
def matmul(call: SymbolicCall) -> Value:
    return call.name(product_of(call, *[call.operand(v, "u") for v in call.args]), "A", "term")


@semantics_of("linear", "linear_relu")
def linear(call: SymbolicCall) -> Value:
    x, weight, bias = call.args
    x = call.operand(x, "u")
    value = Value((*x.dims[:-1], weight.dims[0]), product_of(call, x, transposed(weight)).entry)
    if isinstance(bias, Value):
        value = elementwise(call, lambda a, b: a + b, value, bias)
    if call.op == "linear":
        return call.name(value, "A", "term")
    before = call.lines.name(value, "A", where=call.where)
    return elementwise(call, relu, before)
