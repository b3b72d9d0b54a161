"""The semantics of operations that read entries, or add to them, at the positions in a tensor of integers."""

from itertools import chain

from tinytensor.symbolic.derive.semantics.symbolic_call import (
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


@semantics_of("scatter_rows")
def scatter_rows(call: SymbolicCall) -> Value:
    """y_r.. = Σ_j δ(r, index_j) x_j..: what arrives at the rows that were taken."""
    x, index, shape = call.args
    x, index, whole = as_number(x), as_index(index), dims_of(shape)
    if index.dtype != "i" or len(whole[0]) != 1:
        raise call.refuse("the rows are chosen by a tensor that is no argument; give it as an Index")

    def entry(row, *inner):
        over = index.indices([row, *inner])
        return total(delta(row, index.entry(*over)) * x.entry(*over, *inner), *over)

    return call.name(Value(whole, entry), "u", "term")


@semantics_of("gather_backward")
def gather_backward(call: SymbolicCall) -> Value:
    x, index, shape, axis = call.args
    x, index = as_number(x), as_index(index)
    axis, whole = int(axis), dims_of(shape)
    if index.dtype != "i" or len(whole[axis]) != 1 or whole[:axis] != x.dims[:axis]:
        raise call.refuse("expected an Index argument, and a dimension that is no product")
    before = sum(map(len, whole[:axis]))

    def entry(*indices):
        over = Value((index.dims[axis],), None).indices(indices)
        inner = (*indices[:before], *over, *indices[before + 1 :])
        return total(delta(indices[before], index.entry(*inner)) * x.entry(*inner), *over)

    return call.name(Value(whole, entry), "u", "term")
