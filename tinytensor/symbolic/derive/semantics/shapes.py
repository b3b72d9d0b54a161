"""The semantics of operations that move entries: views, slices, concatenation, diagonals."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import chain

import sympy
from sympy import Expr, Integer, KroneckerDelta, Mul, S

from tinytensor.symbolic.derive.arguments import size
from tinytensor.symbolic.derive.semantics.symbolic_call import (
    SymbolicCall,
    by_dimension,
    factors_text,
    kept_indices,
    moved,
    permuted,
    semantics_of,
)
from tinytensor.symbolic.derive.values import Value, dims_of
from tinytensor.symbolic.index_calculus.formulas import Index, Size, total
from tinytensor.symbolic.reading.errors import Split


@semantics_of("reshape_view")
def reshape(call: SymbolicCall) -> Value:
    x, shape = call.args
    left, dims = list(x.sizes), []
    for n in shape:
        dim, missing = [], S(n)
        while missing != 1:
            if not left:
                raise call.refuse(f"the shape {shape} does not follow from {x.shape}")
            part = left.pop(0)
            ratio = missing / part
            if part == missing or ratio.is_integer or (ratio.is_Mul and not any(map(_is_divisor, ratio.args))):
                dim.append(part)
                missing = ratio
            elif isinstance(part, Size | Integer) and isinstance(missing, Size | Integer):
                if isinstance(part, Integer):
                    raise call.refuse(f"the size {part} would have to be taken apart; write it as a product of names")
                raise Split(part, (missing, size(f"{part}{'' if missing.is_Integer else '_'}{missing}")))
            elif isinstance(part, Size) and (below := part / missing).is_Integer:  # windows: N as N/2 by 2
                raise Split(part, (size(f"{part}{below}"), below))
            else:
                raise call.refuse(f"the shape {x.shape} can't be read as {shape} for sizes that are symbols")
        dims.append(tuple(dim))
    if left:
        raise call.refuse(f"the shape {shape} does not follow from {x.shape}")
    return replace(x, dims=tuple(dims))


def _is_divisor(factor: Expr) -> bool:
    return (factor.is_Rational and factor.q != 1) or (factor.is_Pow and factor.exp.is_negative)


@semantics_of("permute")
def permute(call: SymbolicCall) -> Value:
    x, order = call.args
    return permuted(x, [int(n) for n in order])


@semantics_of("expand", "spread")
def expand(call: SymbolicCall) -> Value:
    x, shape, *reduced = call.args
    if reduced:  # spread: the result of a reduction in the shape before
        gone = {int(n) for n in reduced[0]}
        kept = iter(d for d in x.dims if d) if len(x.dims) == len(shape) else iter(x.dims)
        x = replace(x, dims=tuple(() if n in gone else next(kept) for n in range(len(shape))))
    whole = dims_of(shape)
    padded = ((),) * (len(whole) - len(x.dims)) + x.dims
    dims = tuple(known or new for known, new in zip(padded, whole, strict=True))
    return moved(x, dims, partial(kept_indices, padded, dims))


@semantics_of("slice")
def slice_dimensions(call: SymbolicCall) -> Value:
    x, key = call.args
    left, parts = iter(x.dims), []  # each with its factors, None for no dimension, and the indices of x in it
    for k in [*key, *[slice(None)] * (len(x.dims) - sum(k is not None for k in key))]:
        parts.append(((), list) if k is None else _slice_dimension(call, next(left), k))

    def source(*indices):
        groups = by_dimension(indices, [dim or () for dim, _ in parts])
        return chain.from_iterable(rule(*group) for (_, rule), group in zip(parts, groups, strict=True))

    return moved(x, tuple(dim for dim, _ in parts if dim is not None), source)


def _steps(length: Expr, width: Expr) -> Expr | None:
    """The number of steps of a width within a length such as 2 M + 1, whose sizes are all multiples of the width."""
    number, sizes = length.expand().as_coeff_Add()
    if not sizes.atoms(Size) or any(t.as_coeff_Mul()[0] % width != 0 for t in sympy.Add.make_args(sizes)):
        return None
    return sizes / width + sympy.ceiling(number / width)


def _slice_dimension(call: SymbolicCall, dim: tuple[Expr, ...], key) -> tuple[tuple[Expr, ...] | None, Callable]:
    """The factors that a slice or a number leaves of a dimension (None: no dimension), and the indices in it."""
    whole = Mul(*dim)
    if not isinstance(key, slice):
        if len(dim) == 1:
            return None, lambda: [S(key) + 1]
        if not dim or key == 0:
            return None, lambda: [S.One] * len(dim)
        raise call.refuse(f"element {key} of a dimension of size {whole} that is a product; give it a dimension")
    start, stop, width = (
        S(default if v is None else v)
        for v, default in zip((key.start, key.stop, key.step), (0, whole, 1), strict=True)
    )
    if width != 1:
        return _every(call, dim, start, stop, width)
    if start == 0 and stop == whole:
        return dim, lambda *i: i
    return _part(call, dim, start, stop)


def _every(call: SymbolicCall, dim: tuple[Expr, ...], start: Expr, stop: Expr, width: Expr):
    """`_slice_dimension` for every `width`-th element."""
    whole, alone = Mul(*dim), len(dim) == 1
    if len(dim) == 2 and dim[1] == width and stop == whole and (start < width) == True:  # noqa: E712
        return (dim[0],), lambda i: [i, start + 1]
    if alone and width.is_Integer and width > 1 and (count := _steps(stop - start, width)) is not None:
        return dims_of([count])[0], lambda i=S.One: [start + 1 + width * (i - 1)]
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
        return dims_of([length])[0], lambda i=S.One: [start + i]
    tail = Mul(*dim[1:])
    first, count = sympy.cancel(start / tail), sympy.cancel(length / tail)
    if not (first.is_Integer and count.is_Integer):
        raise call.refuse(f"the slice from {start} to {stop} of a dimension of size {Mul(*dim)} that is a product")
    if count == 1:
        return dim[1:], lambda *i: [first + 1, *i]
    return (count, *dim[1:]), lambda i, *inner: [i + first, *inner]


@semantics_of("cat", "stack")
def concatenate(call: SymbolicCall) -> Value:
    axis, *xs = call.args
    rank = len(xs[0].dims) + (call.op == "stack")
    axis = int(axis) % rank
    if call.op == "stack":
        xs = [replace(x, dims=(*x.dims[:axis], (), *x.dims[axis:])) for x in xs]
    xs = [x for x in xs if S.Zero not in x.sizes] or xs[:1]  # pieces with nothing in them are left out
    if len(xs) == 1:
        return xs[0]
    heads, tail = _heads_and_tail([x.dims[axis] for x in xs])
    dims = (*xs[0].dims[:axis], (sum((Mul(*head) for head in heads), S.Zero), *tail), *xs[0].dims[axis + 1 :])
    before = sum(map(len, dims[:axis]))

    def pieces(*indices):
        (*outer, which), inner, result, start = indices[: before + 1], indices[before + 1 :], S.Zero, S.Zero
        for x, head in zip(xs, heads, strict=True):
            if len(head) > 1:
                raise call.refuse("a piece has a dimension that is a product")
            p = [Index("p", n) for n in head]
            result += total(KroneckerDelta(which, start + sum(p or [1])) * x.entry(*outer, *p, *inner), *p)
            start += Mul(*head)
        return result

    return Value(dims, pieces) if tail or not any(heads) else call.name(Value(dims, pieces), "u")


def _heads_and_tail(dims: list[tuple[Expr, ...]]) -> tuple[list[tuple[Expr, ...]], tuple[Expr, ...]]:
    """The factors that all dimensions end with, and those before: pieces of D and 2 D are one and two of size D."""
    tail = min(dims, key=len)
    tail = tail if all(dim[len(dim) - len(tail) :] == tail for dim in dims) else ()
    return [dim[: len(dim) - len(tail)] for dim in dims], tail


@semantics_of("diagonal")
def diagonal(call: SymbolicCall) -> Value:
    x, offset, *axes = call.args
    rows, columns = map(int, axes)
    if offset != 0 or x.dims[rows] != x.dims[columns]:
        raise call.refuse(f"a diagonal with offset {offset} of shape {x.shape}; expected the main one of a square")
    kept = [n for n in range(len(x.dims)) if n not in (rows, columns)]
    dims = tuple(x.dims[n] for n in (*kept, rows))

    def source(*indices):
        groups = dict(zip((*kept, rows), by_dimension(indices, dims), strict=True))
        groups[columns] = groups[rows]
        return chain.from_iterable(groups[n] for n in range(len(x.dims)))

    return moved(x, dims, source)
