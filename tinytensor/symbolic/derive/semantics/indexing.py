"""The semantics of operations that read entries, or add to them, at the positions in a tensor of integers."""

from itertools import chain

from sympy import KroneckerDelta, Mul, Sum, Tuple

from tinytensor.symbolic.derive.semantics.symbolic_call import (
    INDEX_OPERATIONS,
    OP_SEMANTICS,
    SymbolicCall,
    as_index,
    as_number,
    broadcast,
    by_dimension,
    factors_text,
    moved,
    semantics_of,
)
from tinytensor.symbolic.derive.values import Value, dims_of
from tinytensor.symbolic.index_calculus.formulas import delta, total


@semantics_of("take", "entries")
def entries(call: SymbolicCall) -> Value:
    """x[..., s, t, ...]: the entries at which tensors of indices, side by side, point; `take`: rows, x[s]."""
    x, axis, *indices = call.args if call.op == "entries" else (call.args[0], 0, call.args[1])
    axis, indices = int(axis), [as_index(v) for v in indices]
    if any(v.dtype != "i" for v in indices):
        raise call.refuse("the entries are chosen by a tensor that is no argument; give it as an Index")
    taken = x.dims[axis : axis + len(indices)]
    if products := [dim for dim in taken if len(dim) != 1]:
        raise call.refuse(f"entries of a dimension of size {factors_text(products[0])}, which is a product")
    dims, positions = broadcast(call, *indices)
    before = sum(map(len, x.dims[:axis]))
    after = before + sum(map(len, dims))

    def source(*all_indices):
        chosen = all_indices[before:after]
        return *all_indices[:before], *[position(*chosen) for position in positions], *all_indices[after:]

    return moved(x, (*x.dims[:axis], *dims, *x.dims[axis + len(indices) :]), source)


@semantics_of("gather")
def gather(call: SymbolicCall) -> Value:
    x, index, axis = call.args
    index, axis = as_index(index), int(axis)
    if index.dtype != "i" or len(x.dims[axis]) != 1:
        raise call.refuse("expected an Index argument, and a dimension that is no product")

    def source(*indices):
        groups = by_dimension(indices, index.dims)
        groups[axis] = (index.entry(*indices),)
        return chain(*groups)

    return moved(x, index.dims, source)


SCATTERING = {"scatter_rows": "take", "gather_backward": "gather", "unslice": "slice", "undiagonal": "diagonal"}


@semantics_of(*SCATTERING)
def scatter(call: SymbolicCall) -> Value:
    """The entries of x go where those of the other operation come from, and are added up: Σ_j δ(i, source_j) x_j."""
    x = as_number(call.args[0])
    shape = next(a for a in call.args if isinstance(a, tuple))
    whole = Value(dims_of(shape), lambda *indices: Tuple(*indices))
    settings = [a for a in call.args[1:] if a is not shape]
    taken = SymbolicCall(SCATTERING[call.op], [whole, *settings], call.lines, "", call.where)
    sources = OP_SEMANTICS[taken.op](taken)
    if sources.sizes != x.sizes:
        raise call.refuse(f"the shape {x.shape} is not that of the places {sources.shape}")
    equal = delta if call.op in INDEX_OPERATIONS else KroneckerDelta  # delta() looks at the range of an index

    def entry(*indices):
        inner, same, deltas = [i.fresh() for i in x.indices()], {}, []
        for i, source, n in zip(indices, sources.entry(*inner), whole.sizes, strict=True):
            if source in inner and source.size == n and source not in same:
                same[source] = i
            else:
                deltas.append(equal(i, source))
        return total((Mul(*deltas) * x.entry(*inner)).xreplace(same), *[j for j in inner if j not in same])

    value = Value(whole.dims, entry)
    return call.name(value, "u", "term") if value.entry(*value.indices()).has(Sum) else value
