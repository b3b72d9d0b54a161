"""The semantics of operations that move entries: views, slices, concatenation, diagonals."""

from collections.abc import Callable
from functools import partial
from itertools import chain

import sympy
from sympy import Expr, Integer, KroneckerDelta, Mul, S

from tinytensor.symbolic.derive.arguments import size
from tinytensor.symbolic.derive.semantics.symbolic_call import (
    SymbolicCall,
    by_dimension,
    factors_text,
    semantics_of,
    unbroadcast,
)
from tinytensor.symbolic.derive.values import Value, dims_of
from tinytensor.symbolic.index_calculus.formulas import Index, Size, total
from tinytensor.symbolic.reading.errors import Split


@semantics_of("reshape_view")
def reshape(call: SymbolicCall) -> Value:
    x, shape = call.args
    left, dims = list(x.sizes), []
    for n in shape:
        dim, rest = [], S(n)
        while rest != 1:
            if not left:
                raise call.refuse(f"the shape {shape} does not follow from {x.shape}")
            part = left.pop(0)
            ratio = rest / part
            if part == rest or ratio.is_integer or (ratio.is_Mul and not any(_below(f) for f in ratio.args)):
                dim.append(part)
                rest = ratio
            elif isinstance(part, Size | Integer) and _divides(rest, part):
                if isinstance(part, Integer):
                    raise call.refuse(f"the size {part} would have to be taken apart; write it as a product of names")
                raise Split(part, (rest, size(f"{part}{rest}") if rest.is_Integer else size(f"{part}_{rest}")))
            elif isinstance(part, Size) and (below := part / rest).is_Integer:  # windows: N as N/2 by 2
                raise Split(part, (size(f"{part}{below}"), below))
            else:
                raise call.refuse(f"the shape {x.shape} can't be read as {shape} for sizes that are symbols")
        dims.append(tuple(dim))
    if left:
        raise call.refuse(f"the shape {shape} does not follow from {x.shape}")
    return x.like(x.entry, tuple(dims), x.finite)


def _below(factor: Expr) -> bool:
    return (factor.is_Rational and factor.q != 1) or (factor.is_Pow and factor.exp.is_negative)


def _divides(part: Expr, whole: Expr) -> bool:
    return part.is_Integer or isinstance(part, Size)


@semantics_of("permute")
def permute(call: SymbolicCall) -> Value:
    x, order = call.args
    order = [int(n) for n in order]
    dims = tuple(x.dims[n] for n in order)
    back = [order.index(n) for n in range(len(order))]

    def moved(entry):
        def at(*indices):
            groups = by_dimension(indices, dims)
            return entry(*chain.from_iterable(groups[n] for n in back))

        return at

    return x.like(moved(x.entry), dims, x.finite and moved(x.finite))


@semantics_of("expand", "spread")
def expand(call: SymbolicCall) -> Value:
    x, shape, *dims = call.args
    if dims:  # spread: the result of a reduction in the shape before
        gone = {int(n) for n in dims[0]}
        own = iter(d for d in x.dims if d) if len(x.dims) == len(shape) else iter(x.dims)
        x = x.like(x.entry, tuple(() if n in gone else next(own) for n in range(len(shape))), x.finite)
    whole = dims_of(shape)
    rank = len(whole) - len(x.dims)
    at = ((),) * rank + x.dims
    result = tuple(own or new for own, new in zip(at, whole, strict=True))
    return x.like(
        partial(unbroadcast, x.entry, at, result), result, x.finite and partial(unbroadcast, x.finite, at, result)
    )


@semantics_of("slice")
def slice_dimensions(call: SymbolicCall) -> Value:
    x, key = call.args
    left, dims, rules = iter(x.dims), [], []  # rules: from the indices of the result to those of x
    for k in [*key, *[slice(None)] * (len(x.dims) - sum(k is not None for k in key))]:
        new, rule = ((), list) if k is None else _slice_dimension(call, next(left), k)
        dims += [] if new is None else [new]
        rules.append((new or (), rule))

    def moved(entry):
        def inner(*indices):
            groups = by_dimension(indices, [new for new, _ in rules])
            return entry(*chain.from_iterable(rule(*group) for (_, rule), group in zip(rules, groups, strict=True)))

        return inner

    return x.like(moved(x.entry), tuple(dims), x.finite and moved(x.finite))


def _steps(length: Expr, width: Expr) -> Expr | None:
    """The number of steps of a width within a length such as 2 M + 1, whose sizes are all multiples of the width."""
    number, rest = length.expand().as_coeff_Add()
    if not rest.atoms(Size) or any(t.as_coeff_Mul()[0] % width != 0 for t in sympy.Add.make_args(rest)):
        return None
    return rest / width + sympy.ceiling(number / width)


def _slice_dimension(call: SymbolicCall, dim: tuple[Expr, ...], key) -> tuple[tuple[Expr, ...] | None, Callable]:
    """The factors that a slice or a number leaves of a dimension (None: no dimension), and the indices in it."""
    whole = Mul(*dim)
    if not isinstance(key, slice):
        position = S(key) + (whole if S(key).is_negative else 0)
        if len(dim) == 1:
            return None, lambda: [position + 1]
        if not dim or position == 0:
            return None, lambda: [S.One] * len(dim)
        raise call.refuse(f"element {key} of a dimension of size {whole} that is a product; give it a dimension")
    start, stop, width = (
        S(default if v is None else v)
        for v, default in zip((key.start, key.stop, key.step), (0, whole, 1), strict=True)
    )
    start, stop = (v + whole if v.is_negative else v for v in (start, stop))
    stop = whole if (stop - whole).is_nonnegative else stop
    if width != 1:
        return _every(call, dim, start, stop, width)
    if start == 0 and stop == whole:
        return dim, lambda *at: list(at)
    return _part(call, dim, start, stop)


def _every(call: SymbolicCall, dim: tuple[Expr, ...], start: Expr, stop: Expr, width: Expr):
    """`_slice_dimension` for every `width`-th element."""
    whole, alone = Mul(*dim), len(dim) == 1
    if len(dim) == 2 and dim[1] == width and stop == whole and (start < width) == True:  # noqa: E712
        return (dim[0],), lambda at: [at, start + 1]
    if alone and width.is_Integer and width > 1 and (count := _steps(stop - start, width)) is not None:
        return dims_of([count])[0], lambda at=S.One: [start + 1 + width * (at - 1)]
    if alone and isinstance(dim[0], Size) and width.is_Integer:
        raise Split(dim[0], (size(f"{dim[0]}{width}"), width))
    hint = f'; write the size as "{dim[1]}*{dim[0]}"' if len(dim) == 2 and dim[0] == width else ""
    if not hint and width.is_Integer and (stop != whole or alone):
        hint = f'; write the size as "{width}*M + 1", whose steps can be counted for any M'
    raise call.refuse(f"a slice with the step {width} of a dimension of size {factors_text(dim)}{hint}")


def _part(call: SymbolicCall, dim: tuple[Expr, ...], start: Expr, stop: Expr):
    """`_slice_dimension` for the elements from `start` to before `stop`."""
    length = stop - start
    if len(dim) == 1:
        for number in (length, start):
            coefficient = number.args[0] if number.is_Mul else S.One
            if isinstance(dim[0], Size) and coefficient.is_Rational and coefficient.q > 1:
                raise Split(dim[0], (coefficient.q, size(f"{dim[0]}{coefficient.q}")))
        return dims_of([length])[0], lambda at=S.One: [start + at]
    tail = Mul(*dim[1:])
    first, count = sympy.cancel(start / tail), sympy.cancel(length / tail)
    if not (first.is_Integer and count.is_Integer):
        raise call.refuse(f"the slice from {start} to {stop} of a dimension of size {Mul(*dim)} that is a product")
    if count == 1:
        return dim[1:], lambda *at: [first + 1, *at]
    return (count, *dim[1:]), lambda at, *more: [at + first, *more]


@semantics_of("unslice")
def unslice(call: SymbolicCall) -> Value:
    """y = 0 everywhere, but y[key] = x: a delta for each index that the key moves."""
    x, shape, key = call.args
    x, whole = call.finite(x), Value(dims_of(shape), None)
    positions = Value(whole.dims, lambda *at: sympy.Tuple(*at))
    part = slice_dimensions(SymbolicCall("slice", [positions, key], call.lines, "", call.where))
    if part.sizes != x.sizes:
        raise call.refuse(f"the shape {x.shape} is not that of the places {part.shape}")

    def entry(*at):
        own = x.indices(at)
        deltas = [KroneckerDelta(i, j) for i, j in zip(at, part.entry(*own), strict=True)]
        return total(Mul(*deltas) * x.entry(*own), *own)

    return call.name(Value(whole.dims, entry), "u")


@semantics_of("undiagonal")
def undiagonal(call: SymbolicCall) -> Value:
    x, shape, offset, one, other = call.args
    one, other, whole = int(one), int(other), dims_of(shape)
    if offset != 0 or whole[one] != whole[other]:
        raise call.refuse(f"a diagonal with offset {offset}; expected the main one of a square")
    kept = [n for n in range(len(whole)) if n not in (one, other)]

    def entry(*at):
        groups = by_dimension(at, whole)
        deltas = [KroneckerDelta(i, j) for i, j in zip(groups[one], groups[other], strict=True)]
        return Mul(*deltas) * x.entry(*chain.from_iterable(groups[axis] for axis in [*kept, one]))

    return Value(whole, entry)


@semantics_of("cat", "stack")
def concatenate(call: SymbolicCall) -> Value:
    axis, *xs = call.args
    xs = [call.finite(x) for x in (xs[0] if len(xs) == 1 and isinstance(xs[0], tuple | list) else xs)]
    axis = int(axis)
    if call.op == "stack":
        axis += len(xs[0].dims) + 1 if axis < 0 else 0
        xs = [x.like(x.entry, (*x.dims[:axis], (), *x.dims[axis:])) for x in xs]
    axis += len(xs[0].dims) if axis < 0 else 0
    xs = [x for x in xs if S.Zero not in x.sizes] or xs[:1]  # pieces with nothing in them are left out
    if len(xs) == 1:
        return xs[0]
    before, dims = sum(len(dim) for dim in xs[0].dims[:axis]), [x.dims[axis] for x in xs]
    # pieces of D and 2 D are one and two of size D: the number of the piece, and the position in it
    tail = min(dims, key=len)
    tail = tail if all(dim[len(dim) - len(tail) :] == tail for dim in dims) else ()
    heads = [dim[: len(dim) - len(tail)] for dim in dims]
    new = (*xs[0].dims[:axis], (sum((Mul(*head) for head in heads), S.Zero), *tail), *xs[0].dims[axis + 1 :])

    def pieces(*at):
        (*outer, which), rest, result, start = at[: before + 1], at[before + 1 :], S.Zero, S.Zero
        for x, head in zip(xs, heads, strict=True):
            if len(head) > 1:
                raise call.refuse("a piece has a dimension that is a product")
            p = [Index("p", n) for n in head]
            result += total(KroneckerDelta(which, start + sum(p or [1])) * x.entry(*outer, *p, *rest), *p)
            start += Mul(*head)
        return result

    return Value(new, pieces) if tail or not any(heads) else call.name(Value(new, pieces), "u")


@semantics_of("diagonal")
def diagonal(call: SymbolicCall) -> Value:
    x, offset, one, other = call.args
    one, other = int(one), int(other)
    if offset != 0 or x.dims[one] != x.dims[other]:
        raise call.refuse(f"a diagonal with offset {offset} of shape {x.shape}; expected the main one of a square")
    kept = [n for n in range(len(x.dims)) if n not in (one, other)]
    dims = (*[x.dims[n] for n in kept], x.dims[one])

    def entry(*at):
        groups = dict(zip([*kept, one], by_dimension(at, dims), strict=True))
        groups[other] = groups[one]
        return x.entry(*chain.from_iterable(groups[axis] for axis in range(len(x.dims))))

    return x.like(entry, dims)
