"""The meanings of sums, means, extremes, products and running sums, and of products of matrices."""

from collections.abc import Callable
from functools import partial

from sympy import Mul, S, exp, log, sqrt

from tinytensor.symbolic.derive.conditions import Signs
from tinytensor.symbolic.derive.semantics.step import Step, common_dimension, elementwise, meaning, widened
from tinytensor.symbolic.derive.values import Chosen, Closed, Dims, Group, Value, named
from tinytensor.symbolic.index_calculus.adjoints import Definition, d
from tinytensor.symbolic.index_calculus.formulas import Array, Index, relu, total, upto


def _over(step: Step, x: Value, dims, keepdim) -> tuple[Dims, Callable[..., list], list[Index]]:
    """The dimensions that stay; the indices of x from those of the result; the indices that are summed."""
    dims = {int(n) for n in dims}
    inner = {n: [Index(i.name, i.size) for i in Value((dim,), None).indices()] for n, dim in enumerate(x.dims)}
    new = tuple(() if n in dims else dim for n, dim in enumerate(x.dims) if n not in dims or keepdim)

    def at(*indices):
        n, found = 0, []
        for k, dim in enumerate(x.dims):
            found += inner[k] if k in dims else indices[n : n + len(dim)]
            n += 0 if k in dims else len(dim)
        return found

    return new, at, [i for n in sorted(dims) for i in inner[n]]


@meaning("reduce_sum", "reduce_mean")
def summed(step: Step) -> Value:
    x, dims, keepdim = step.args
    new, at, over = _over(step, step.finite(x), dims, bool(keepdim))
    count = Mul(*[i.size for i in over]) if step.op == "reduce_mean" else S.One
    value = Value(new, lambda *indices: total(x.entry(*at(*indices)), *over) / count)
    return step.name(value, "μ" if step.op == "reduce_mean" else "s", "anywhere") if value.sizes else value


@meaning("reduce_norm")
def length(step: Step) -> Value:
    x, dims, keepdim, n = step.args
    squares = elementwise(step, lambda x: x**2, step.finite(x))
    new, at, over = _over(step, squares, dims, bool(keepdim))
    square = step.name(Value(new, lambda *indices: total(squares.entry(*at(*indices)), *over)), "s", "anywhere")
    if not Signs(step.lines.groups).positive(square.entry(*square.indices())):
        step.conditions["root"] = None
    count = n.entry() if isinstance(n, Value) else n
    return step.name(elementwise(step, lambda s: sqrt(s / count), square), "r")


@meaning("reduce_amax", "reduce_amin", "reduce_max", "reduce_min")
def extreme(step: Step) -> Value:
    x, dims, keepdim, *_ = step.args
    if x.finite is not None or not dims:
        raise step.refuse("the largest of values that are -inf in places")
    source, _, indices = step.as_name(x, "u")
    new, at, over = _over(step, source, dims, bool(keepdim))
    array = step.lines.unused("first" if step.op in ("reduce_max", "reduce_min") else "share")
    chosen = Array(array, tuple(i.size for i in indices))
    which = "largest" if "max" in step.op else "smallest"
    shares = "first" if step.op in ("reduce_max", "reduce_min") else "shared"
    name = source.entry(*indices)
    flat = [k for k, dim in enumerate(source.dims) for _ in dim]
    axes = tuple(n for n, k in enumerate(flat) if k in {int(m) for m in dims})
    step.lines.constants[chosen] = Chosen(f"{which}_{shares}", name, tuple(indices), axes)
    step.lines.notes[
        f"{array} is 1 at the {which} entry of {name.base.label}, shared among equal ones, 0 elsewhere"
    ] = None
    return step.name(Value(new, lambda *i: total(chosen[tuple(at(*i))] * source.entry(*at(*i)), *over)), "m")


@meaning("reduce_prod")
def multiplied(step: Step) -> Value:
    """Π x = exp(Σ log x), whose derivative is the product divided by each factor."""
    x, dims, keepdim = step.args
    new, at, over = _over(step, step.finite(x), dims, bool(keepdim))
    return step.name(Value(new, lambda *indices: exp(total(log(x.entry(*at(*indices))), *over))), "P")


@meaning("cumsum")
def cumulated(step: Step) -> Value:
    x, place, reverse = step.args
    place = int(place)
    if len(x.dims[place]) != 1:
        raise step.refuse("a running sum along a dimension that is a product")
    before = sum(len(dim) for dim in x.dims[:place])

    def entry(*at):
        p = Index("p", x.dims[place][0])
        mask = upto(at[before], p) if reverse else upto(p, at[before])
        return total(mask * x.entry(*at[:before], p, *at[before + 1 :]), p)

    return step.name(Value(step.finite(x).dims, entry), "u")


@meaning("reduce_logsumexp")
def logsumexp(step: Step) -> Value:
    x, dims, keepdim = step.args
    source, _, _ = step.as_name(x, "u")
    new, at, over = _over(step, source, dims, bool(keepdim))

    def formula(*i):
        inside = exp(source.entry(*at(*i)))
        return log(total(inside * (x.finite(*at(*i)) if x.finite is not None else 1), *over))

    value = Value(new, formula)
    array, left, indices = step.lines.left(step.wanted or "L", value)
    own = source.entry(*at(*indices))
    form = d(left if not indices else array[tuple(indices)]) * exp(own - left)
    form *= x.finite(*at(*indices)) if x.finite is not None else 1
    step.lines.groups.append(Group([Definition(left, formula(*indices))], [Closed(own, form)], step.where))
    return named(array, value)


@meaning("matmul")
def product(step: Step) -> Value:
    a, b = (step.operand(step.finite(v), "u") for v in step.args)
    inner = common_dimension(step, [a.dims[-1], b.dims[-2]])
    rank = max(len(a.dims), len(b.dims)) - 2
    left, right = ((((),) * (rank + 2 - len(v.dims))) + v.dims[:-2] for v in (a, b))
    batch = tuple(common_dimension(step, pair) for pair in zip(left, right, strict=True))
    rows, columns = a.dims[-2], b.dims[-1]
    n, r = sum(map(len, batch)), len(rows)

    def entry(*at):
        k = [Index(i.name, i.size) for i in Value((inner,), None).indices()]
        own = [*partial(widened, lambda *i: list(i), left, batch)(*at[:n])]
        other = [*partial(widened, lambda *i: list(i), right, batch)(*at[:n])]
        return total(a.entry(*own, *at[n : n + r], *k) * b.entry(*other, *k, *at[n + r :]), *k)

    return step.name(Value((*batch, rows, columns), entry), "A", "term")


@meaning("linear", "linear_relu")
def linear(step: Step) -> Value:
    x, weight, bias = step.args
    x = step.operand(step.finite(x), "u")
    inner = common_dimension(step, [x.dims[-1], weight.dims[1]])
    n = sum(map(len, x.dims[:-1]))

    def entry(*at):
        k = [Index(i.name, i.size) for i in Value((inner,), None).indices()]
        found = total(x.entry(*at[:n], *k) * weight.entry(*at[n:], *k), *k)
        return found + bias.entry(*at[n:]) if isinstance(bias, Value) else found

    value = Value((*x.dims[:-1], weight.dims[0]), entry)
    if step.op == "linear":
        return step.name(value, "A", "term")
    before = step.lines.name(value, "A", where=step.where)
    return elementwise(step, relu, before)
