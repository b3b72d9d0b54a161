"""The rules of vmap: how an operation computes all examples at once.

    rule(op, size, args, which)

The arguments are those of the operation, in which the tensors of the places `which` hold all `size` examples along a
further dimension in front. The rule returns the tensor of all results. A rule that does not hold for these arguments
returns NotImplemented, and batches.py takes one of its slower ways.

There are a few kinds of operations. A formula broadcasts, so its arguments need only as many dimensions as the largest
has, with the examples in front. An operation along dimensions has them one place further. An operation on rows or on
matrices leaves the dimensions before these alone. Everything else is a short rule of its own.
"""

import math
from collections.abc import Callable

from tinytensor.autograd.func.batches import FORMULA, RULES, batched, level_of, repeated
from tinytensor.core.op import OPS, Op
from tinytensor.core.promotion import result_type
from tinytensor.core.tensor import Tensor
from tinytensor.ops.creation import arange
from tinytensor.ops.index import gather
from tinytensor.ops.products import matmul
from tinytensor.ops.reduce import sum
from tinytensor.ops.shape import expand, movedim, permute, reshape


def rule_of(*names: str) -> Callable:
    """Declare the rule of these operations."""

    def declare(rule: Callable) -> Callable:
        RULES.update({name: rule for name in names if OPS[name]})
        return rule

    return declare


def aligned(args: list, which: list[bool]) -> list:
    """The tensors with as many dimensions between the examples and their own as make all of them broadcast."""
    ndim = max(a.ndim - here for a, here in zip(args, which, strict=True) if isinstance(a, Tensor))
    return [
        reshape(a, (a.shape[0], *(1,) * (ndim + 1 - a.ndim), *a.shape[1:])) if here and a.ndim <= ndim else a
        for a, here in zip(args, which, strict=True)
    ]


def in_full(size: int, args: list, which: list[bool]) -> list:
    """The tensors, each with all examples: those that have none are repeated."""
    return [repeated(a, size) if isinstance(a, Tensor) and not here else a for a, here in zip(args, which, strict=True)]


def formula(op: Op, size: int, args: list, which: list[bool]):
    """y = f(a, b): the examples broadcast, and the dtype is that of one example.

    A number as a tensor, () here, does not decide the dtype beside a vector; as a batch (B) it would.
    """
    tensors = [a for a in args if isinstance(a, Tensor)]
    if len({a.dtype for a in tensors}) > 1 and op.name != "where":  # whose condition stays bool
        with level_of(size) as level:
            dtype = result_type(*[batched(a, level) if here else a for a, here in zip(args, which, strict=True)])
        args = [a.to(dtype) if isinstance(a, Tensor) else a for a in args]
    return op(*aligned(args, which))


RULES[FORMULA] = formula
RULES |= {name: formula for name, op in OPS.items() if op.kernel is not None}


@rule_of("clone", "cast", "softmax", "log_softmax", "det", "cofactors", "cholesky", "slogdet", "pinv")
def as_it_is(op, size, args, which):
    """Operations on numbers, rows or matrices, whatever dimensions are in front of these."""
    return op(*args)


@rule_of("permute")
def permuted(op, size, args, which):
    x, dims = args
    return op(x, (0, *(d + 1 for d in dims)))


@rule_of("reshape_view")
def reshaped(op, size, args, which):
    x, shape = args
    return reshape(x, (size, *shape))


@rule_of("expand")
def expanded(op, size, args, which):
    x, shape = args
    ones = (1,) * (len(shape) + 1 - x.ndim)
    return expand(reshape(x, (size, *ones, *x.shape[1:])), (size, *shape))


@rule_of("slice")
def sliced(op, size, args, which):
    x, key = args
    return op(x, (slice(None), *key))


@rule_of("flip", "cumsum")
def along_dimensions(op, size, args, which):
    x, dims, *rest = args
    return op(x, dims + 1 if isinstance(dims, int) else tuple([d + 1 for d in dims]), *rest)


rule_of("centred", *(name for name in OPS if name.startswith("reduce_")))(along_dimensions)


@rule_of("spread")
def spread(op, size, args, which):
    x, shape, dims = args
    return op(x, (size, *shape), tuple([d + 1 for d in dims]))


@rule_of("unslice")
def unsliced(op, size, args, which):
    x, shape, key = args
    return op(x, (size, *shape), (slice(None), *key))


@rule_of("diagonal")
def diagonal(op, size, args, which):
    x, offset, dim1, dim2 = args
    n = x.ndim - 1
    return op(x, offset, dim1 % n + 1, dim2 % n + 1)


@rule_of("undiagonal")
def undiagonal(op, size, args, which):
    x, shape, offset, dim1, dim2 = args
    n = len(shape)
    return op(x, (size, *shape), offset, dim1 % n + 1, dim2 % n + 1)


@rule_of("cat", "stack")
def joined(op, size, args, which):
    dim, *xs = args
    xs = in_full(size, xs, which[1:])
    if op.name == "cat" and len({x.shape for x in xs}) > 1:  # PyTorch's old form of nothing, of shape (0,)
        xs = [x for x in xs if x.shape[1:] != (0,)]
    return op(dim + 1 if dim >= 0 else dim, *xs)


@rule_of("gather")
def gathered(op, size, args, which):
    x, index, dim = in_full(size, args, which)
    return op(x, index, dim + 1)


@rule_of("gather_backward")
def gather_backward(op, size, args, which):
    x, index, shape, dim = in_full(size, args, which)
    return op(x, index, (size, *shape), dim + 1)


@rule_of("solve")
def solved(op, size, args, which):
    return op(*in_full(size, args, which))


def numbered(index: Tensor, n: int) -> Tensor:
    """The numbers of rows, where each example has n of them in one table for all."""
    return index + reshape(arange(index.shape[0]) * n, (-1, *(1,) * (index.ndim - 1)))


@rule_of("scatter_rows")
def scattered(op, size, args, which):
    x, index, shape = in_full(size, args, which)
    return reshape(op(x, numbered(index, shape[0]), (size * shape[0], *shape[1:])), (size, *shape))


@rule_of("put")
def written(op, size, args, which):
    x, positions, value = in_full(size, args, which)
    return op(x, numbered(positions, math.prod(x.shape[1:])), value)


@rule_of("take")
def taken(op, size, args, which):
    """Rows of one table at the indices of each example, or of a table for each example."""
    x, index = args
    if not which[0]:
        return op(x, index)
    if not which[1]:  # the examples become a part of each row
        return movedim(op(movedim(x, 0, 1), index), index.ndim, 0)
    rows = reshape(x, (size, x.shape[1], math.prod(x.shape[2:])))
    at = reshape(index, (size, index.numel() // max(size, 1), 1))
    chosen = gather(rows, 1, expand(at, (*at.shape[:2], rows.shape[2])))
    return reshape(chosen, (*index.shape, *x.shape[2:]))


@rule_of("matmul")
def multiplied(op, size, args, which):
    a, b = args
    if not which[0] and a.ndim == 2 and b.shape[-1] == 1:  # a vector of each example: they are the rows of one product
        return reshape(matmul(reshape(b, b.shape[:-1]), permute(a, (1, 0))), (*b.shape[:-2], a.shape[0], 1))
    return matmul(*aligned(args, which))


@rule_of("linear", "linear_relu", "layer_norm", "rms_norm")
def by_common_weights(op, size, args, which):
    """Rows under one weight; a weight for each example is the definition's part."""
    return NotImplemented if any(which[1:]) else op(*args)


@rule_of("attention")
def attended(op, size, args, which):
    """Examples count as further sequences (B, H, C, K), if one mask is for all of these."""
    *qkv, mask, scale, is_causal = args
    if mask is not None and (which[3] or mask.shape[0] > 1):
        return NotImplemented
    qkv = [reshape(x, (-1, *x.shape[2:])) if x.numel() else x for x in in_full(size, qkv, which[:3])]
    y = op(*qkv, mask, scale, is_causal) if all(x.ndim == 4 for x in qkv) else NotImplemented
    return y if y is NotImplemented else reshape(y, (size, y.shape[0] // size, *y.shape[1:]))


@rule_of("cross_entropy_rows")
def entropy_of_rows(op, size, args, which):
    x, target, *settings = in_full(size, args, which)
    rows = op(reshape(x, (math.prod(x.shape[:2]), x.shape[2])), reshape(target, (target.numel(),)), *settings)
    return reshape(rows, x.shape[:2])


@rule_of("cross_entropy_mean")
def entropy(op, size, args, which):
    x, target, ignore_index, label_smoothing = in_full(size, args, which)
    losses = entropy_of_rows(OPS["cross_entropy_rows"], size, [x, target, ignore_index, label_smoothing], [True] * 4)
    return sum(losses, 1) / sum((target != ignore_index).to(x.dtype), 1)
