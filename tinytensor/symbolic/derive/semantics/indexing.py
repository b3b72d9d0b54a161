"""The meanings of operations that take entries, or add to them, at places that a tensor of integers names."""

from tinytensor.symbolic.derive.semantics.step import Places, Step, as_index, as_number, factors_text, meaning
from tinytensor.symbolic.derive.values import Value, dims_of
from tinytensor.symbolic.index_calculus.formulas import delta, total


@meaning("take")
def taken(step: Step) -> Value:
    x, index = step.args[0], as_index(step.args[1])
    if index.kind != "i":
        raise step.refuse("the rows are chosen by a tensor that is no argument; give it as an Index")
    first, n = x.dims[0], len(index.sizes)
    if len(first) != 1 and not isinstance(index, Places):
        raise step.refuse(f"rows of a dimension of size {factors_text(first)}, which is a product")

    def entry(*at):
        rows = index.places(*at[:n]) if isinstance(index, Places) else [index.entry(*at[:n])]
        return x.entry(*rows, *at[n:])

    return step.finite(x).like(entry, (*index.dims, *x.dims[1:]))


@meaning("gather")
def gathered(step: Step) -> Value:
    x, index, place = step.args
    index, place = as_index(index), int(place)
    if index.kind != "i" or len(x.dims[place]) != 1:
        raise step.refuse("expected an Index argument, and a dimension that is no product")

    def entry(*at):
        number, found, n = index.entry(*at), [], 0
        for k, dim in enumerate(index.dims):
            found += [number] if k == place else at[n : n + len(dim)]
            n += len(dim)
        return x.entry(*found)

    return step.finite(x).like(entry, index.dims)


@meaning("scatter_rows")
def scattered(step: Step) -> Value:
    """y_r.. = Σ_j δ(r, index_j) x_j..: what arrives at the rows that were taken."""
    x, index, shape = step.args
    x, index, whole = as_number(x), as_index(index), dims_of(shape)
    if index.kind != "i" or isinstance(index, Places) or len(whole[0]) != 1:
        raise step.refuse("the rows are chosen by a tensor that is no argument; give it as an Index")

    def entry(row, *at):
        own = Value(index.dims, None).indices([row, *at])
        return total(delta(row, index.entry(*own)) * x.entry(*own, *at), *own)

    return step.name(Value(whole, entry), "u", "term")


@meaning("gather_backward")
def ungathered(step: Step) -> Value:
    x, index, shape, place = step.args
    x, index = as_number(x), as_index(index)
    place, whole = int(place), dims_of(shape)
    if index.kind != "i" or len(whole[place]) != 1 or whole[:place] != x.dims[:place]:
        raise step.refuse("expected an Index argument, and a dimension that is no product")
    before = sum(len(dim) for dim in whole[:place])

    def entry(*at):
        own = Value((index.dims[place],), None).indices(at)
        found = (*at[:before], *own, *at[before + 1 :])
        return total(delta(at[before], index.entry(*found)) * x.entry(*found), *own)

    return step.name(Value(whole, entry), "u", "term")
