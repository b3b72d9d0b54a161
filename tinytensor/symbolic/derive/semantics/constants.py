"""Constants of the engine whose sizes are symbols. call.args: the dimensions, and then numbers as values."""

from collections.abc import Callable

from sympy import Expr, Mul, S

from tinytensor.symbolic.derive.semantics.symbolic_call import SymbolicCall, semantics_of
from tinytensor.symbolic.derive.values import Dims, Value
from tinytensor.symbolic.index_calculus.formulas import delta
from tinytensor.symbolic.index_calculus.functions import upto


@semantics_of("full")
def _full(call: SymbolicCall) -> Value:
    dims, value = call.args
    return Value(dims, lambda *i: value.entry(), value.dtype)


@semantics_of("arange")
def _arange(call: SymbolicCall) -> Value:
    (dims,) = call.args
    return Value(dims, lambda i: i, "i") if len(dims[0]) == 1 else Value(dims, _count_along(dims, 0), "n")


@semantics_of("tri")
def _tri(call: SymbolicCall) -> Value:
    """1 where column <= row + offset, otherwise 0."""
    dims, offset = call.args
    row, column = _count_along(dims, 0), _count_along(dims, 1)
    return Value(dims, lambda *i: upto(column(*i) + 1, row(*i) + 1 + offset.entry()), "b")


@semantics_of("eye")
def _eye(call: SymbolicCall) -> Value:
    (dims,) = call.args
    r, row, column = len(dims[0]), _count_along(dims, 0), _count_along(dims, 1)
    if dims[0] == dims[1]:
        return Value(dims, lambda *i: Mul(*map(delta, i[:r], i[r:])))
    return Value(dims, lambda *i: upto(row(*i), column(*i)) * upto(column(*i), row(*i)))


@semantics_of("linspace")
def _linspace(call: SymbolicCall) -> Value:
    dims, start, end = call.args
    count, step = _count_along(dims, 0), (end.entry() - start.entry()) / (Mul(*dims[0]) - 1)
    return Value(dims, lambda *i: start.entry() + step * count(*i))


def _count_along(dims: Dims, k: int) -> Callable[..., Expr]:
    """The number of an entry along dimension k, from 0 on, through all of its factors."""
    first, dim = sum(len(d) for d in dims[:k]), dims[k]
    widths = [Mul(*dim[n + 1 :]) for n in range(len(dim))]
    return lambda *i: sum(((i[first + n] - 1) * width for n, width in enumerate(widths)), S.Zero)
