"""Products of matrices and vectors, and einsum."""

import builtins
import functools
import math
from collections.abc import Sequence
from string import ascii_letters, ascii_uppercase

import numpy as np

from tinytensor.core.dispatch import contiguous, state
from tinytensor.core.op import op
from tinytensor.core.promotion import broadcast_shape
from tinytensor.core.registry import register
from tinytensor.core.tensor import Tensor
from tinytensor.ops.arguments import list_of_tensors, promote_floats_to_exact, refuse_bools
from tinytensor.ops.arrays import matrix_product
from tinytensor.ops.reduce import sum
from tinytensor.ops.shape import (
    diagonal,
    expand,
    expand_op,
    flatten,
    make_contiguous,
    movedim,
    permute,
    reshape,
    squeeze,
    transpose,
    unsqueeze,
)


def _batched(x: np.ndarray, batch: tuple) -> np.ndarray:
    """x (..., M, K) as (n, M, K) with its batch dimensions broadcast to `batch`."""
    if x.ndim == 2 and not batch:
        return x[None]
    if x.shape[:-2] != batch:
        x = expand_op.view(x, batch + x.shape[-2:])
    try:
        return x.reshape(math.prod(batch), *x.shape[-2:], copy=False)
    except ValueError:
        return contiguous(x).reshape(math.prod(batch), *x.shape[-2:])


@op
class matmul_op:
    r"y_{ij} = \sum_k a_{ik} b_{kj}, for each matrix of the batch"

    def forward(a, b):
        if a.ndim == b.ndim == 2:
            return matrix_product(a[None], b[None])[0]
        batch = a.shape[:-2]
        if b.shape[:-2] != batch:
            batch = broadcast_shape("matmul", batch, b.shape[:-2])
        y = matrix_product(_batched(a, batch), _batched(b, batch))
        return y.reshape(*batch, a.shape[-2], b.shape[-1])

    def grad_a(g, b):
        return matmul_op(g, transpose(b, -1, -2))

    def grad_b(g, a):
        return matmul_op(transpose(a, -1, -2), g)


@register("matmul Tensor.matmul Tensor.__matmul__ Tensor.__rmatmul__")
def matmul(a: Tensor, b: Tensor) -> Tensor:
    r"""y_{ij} = \sum_k a_{ik} b_{kj}.

    Vectors are rows or columns as needed; further dimensions are a batch, and broadcast.
    """
    if not isinstance(b, Tensor) or not isinstance(a, Tensor):
        raise TypeError(f"matmul: expected two tensors, got {type(a).__name__} @ {type(b).__name__}; use * for numbers")
    x, z = a._data, b._data
    if x.ndim == z.ndim == 2 and x.shape[1] == z.shape[0] and x.dtype is z.dtype and x.dtype.kind != "b":  # most often
        return matmul_op.quick(a, b)
    if a.ndim == 0 or b.ndim == 0:
        raise RuntimeError(f"matmul: {a.shape} @ {b.shape}: expected at least 1 dimension each; use * for numbers")
    a, b = promote_floats_to_exact(a, b)
    if a.dtype != b.dtype:
        raise RuntimeError(f"matmul: {a.dtype} @ {b.dtype}: the dtypes must be equal; convert one with .to(dtype)")
    refuse_bools("matmul", a)
    inner = b.shape[-2] if b.ndim > 1 else b.shape[0]
    if a.shape[-1] != inner:
        raise RuntimeError(f"matmul: {a.shape} @ {b.shape}: the inner sizes {a.shape[-1]} and {inner} must be equal")
    left = unsqueeze(a, 0) if a.ndim == 1 else a
    right = unsqueeze(b, 1) if b.ndim == 1 else b
    if left.ndim > 2 and right.ndim == 2:  # one tall matrix instead of a batch: one product, and one for b's gradient
        y = reshape(matmul_op(flatten(left, 0, -2), right), (*left.shape[:-1], right.shape[-1]))
    else:
        try:
            if left.shape[:-2] != right.shape[:-2]:
                broadcast_shape("matmul", left.shape[:-2], right.shape[:-2])
        except RuntimeError:
            raise RuntimeError(f"matmul: {a.shape} @ {b.shape}: the batch sizes do not broadcast") from None
        y = matmul_op(left, right)
    if a.ndim == 1:
        y = squeeze(y, -2)
    return squeeze(y, -1) if b.ndim == 1 else y


def _square_product(a, b, ndim, what):
    if a.ndim != ndim or b.ndim != ndim:
        raise RuntimeError(f"{what}: expected {ndim}-d tensors, got {a.shape} and {b.shape}; use matmul()")
    return matmul(a, b)


@register("mm Tensor.mm")
def mm(a: Tensor, b: Tensor) -> Tensor:
    """y = a b of two matrices."""
    return _square_product(a, b, 2, "mm")


@register("bmm Tensor.bmm")
def bmm(a: Tensor, b: Tensor) -> Tensor:
    """y = a b of two batches of matrices."""
    return _square_product(a, b, 3, "bmm")


@register("mv Tensor.mv")
def mv(a: Tensor, b: Tensor) -> Tensor:
    """y = a b of a matrix and a vector."""
    return matmul(a, b)


@register("dot Tensor.dot")
def dot(a: Tensor, b: Tensor) -> Tensor:
    """y = sum_i a_i b_i of two vectors."""
    return _square_product(a, b, 1, "dot")


@register("outer Tensor.outer")
def outer(a: Tensor, b: Tensor) -> Tensor:
    """y_{ij} = a_i b_j."""
    if a.ndim != 1 or b.ndim != 1:
        raise RuntimeError(f"outer: expected two vectors, got shapes {a.shape} and {b.shape}")
    return unsqueeze(a, 1) * unsqueeze(b, 0)


@register("einsum")
def einsum(equation: str | Tensor, *operands: Tensor | Sequence) -> Tensor:
    """y = the sum over the letters that do not appear after the arrow, as in "bik,bkj->bij"; "..." is a batch.

    Pairs of operands are multiplied from left to right, each as one matrix product. Instead of a string, lists of
    numbers may name the dimensions: einsum(a, [0, 1], b, [1, 2], [0, 2]).
    """
    if isinstance(equation, Tensor):
        equation, operands = _einsum_equation(equation, *operands)
    operands = list_of_tensors(
        operands[0] if len(operands) == 1 and isinstance(operands[0], Sequence) else operands, "einsum"
    )
    terms, output = _einsum_letters(equation, tuple([x.ndim for x in operands]))
    sizes: dict[str, int] = {}
    for x, term in zip(operands, terms, strict=True):
        if len(term) != x.ndim:
            raise RuntimeError(
                f"einsum: {term!r} in {equation!r} names {len(term)} dimensions, but its operand has shape {x.shape}"
            )
        for letter, n in zip(term, x.shape, strict=True):
            if sizes.setdefault(letter, n) != n and 1 not in (n, sizes[letter]):
                raise RuntimeError(f"einsum: letter {letter!r} in {equation!r} has the sizes {sizes[letter]} and {n}")
    if len(operands) > 1:
        refuse_bools("einsum", operands[0])
        operands = promote_floats_to_exact(*operands)
        if len({x.dtype for x in operands}) > 1:
            came = ", ".join(f"{x.dtype}" for x in operands)
            raise RuntimeError(f"einsum: operands of {came}: the dtypes must be equal; use .to(dtype)")
    operands = [_einsum_diagonal(x, term) for x, term in zip(operands, terms, strict=True)]
    terms = tuple(["".join(dict.fromkeys(term)) for term in terms])
    plan = _einsum_plan if state.reading is None else _einsum_plan.__wrapped__  # a reading has sizes without numbers
    pairs, last = plan(terms, output, tuple([x.shape for x in operands]))
    result = operands[0]
    for x, (left, right, shape) in zip(operands[1:], pairs, strict=True):
        a, b = _einsum_arranged(result, *left), _einsum_arranged(x, *right)
        result = a * b if shape is None else reshape(matmul_op(a, b), shape)
    result = _einsum_arranged(result, *last)
    return result if len(operands) == 1 else make_contiguous(result)  # one operand gives a view where possible


def _einsum_equation(*operands) -> tuple[str, tuple]:
    """The equation and the tensors, from tensors and lists in turn; a last list is the output."""
    pairs = len(operands) // 2
    lists = [*operands[1::2], *operands[2 * pairs :]]
    if any(d is not ... and not (isinstance(d, int) and 0 <= d < 52) for dims in lists for d in dims):
        raise RuntimeError(f"einsum: dimensions are named by numbers from 0 to 51, or ..., not by {lists}")
    terms = ["".join("..." if d is ... else ascii_letters[d] for d in dims) for dims in lists]
    return ",".join(terms[:pairs]) + "".join(f"->{output}" for output in terms[pairs:]), operands[: 2 * pairs : 2]


@functools.lru_cache(maxsize=1024)
def _einsum_letters(equation: str, ndims: tuple[int, ...]) -> tuple[list[str], str]:
    """The letters of each operand and of the output, where those of a batch stand for the dots."""
    left, arrow, right = equation.replace(" ", "").partition("->")
    strange = {c for c in (left + right).replace("...", "") if not c.isalpha() and c != ","}
    if strange:
        raise RuntimeError(f"einsum: {equation!r} may have letters, commas, '...' and '->', but not {sorted(strange)}")
    terms = left.split(",")
    if len(terms) != len(ndims):
        raise RuntimeError(f"einsum: {equation!r} names {len(terms)} operands, but {len(ndims)} came")
    spare = [c for c in reversed(ascii_uppercase) if c not in equation]
    dots = [n - len(term) + 3 if "..." in term else 0 for n, term in zip(ndims, terms, strict=True)]
    batch = "".join(spare[: builtins.max(*dots, 0)])
    terms = [term.replace("...", batch[len(batch) - n :] if n > 0 else "") for n, term in zip(dots, terms, strict=True)]
    joined = "".join(terms)
    if arrow:
        output = right.replace("...", batch)
    else:
        output = batch + "".join(sorted(c for c in set(joined) if joined.count(c) == 1 and c not in batch))
    if set(output) - set(joined) or len(set(output)) < len(output):
        raise RuntimeError(
            f"einsum: the output {output!r} of {equation!r} must use each letter once, and only known ones"
        )
    return terms, output


def _einsum_diagonal(x, term):
    """x reduced to its diagonal along dimensions of the same letter."""
    for letter in dict.fromkeys(term):
        while term.count(letter) > 1:
            a = term.index(letter)
            b = term.index(letter, a + 1)
            if x.shape[a] != x.shape[b]:
                raise RuntimeError(
                    f"einsum: letter {letter!r} has the sizes {x.shape[a]} and {x.shape[b]} in {x.shape}"
                )
            x = movedim(diagonal(x, 0, a, b), -1, a)
            term = term[:b] + term[b + 1 :]
    return x


def _einsum_arranged(x, gone, order, full, shape):
    """x, summed over dimensions, with the others in an order, repeated where they have size 1, and joined."""
    x = sum(x, gone) if gone else x
    x = permute(x, order) if order else x
    x = expand(x, full) if full else x
    return reshape(x, shape) if shape else x


@functools.lru_cache(maxsize=1024)  # to make a plan takes longer than a small product
def _einsum_plan(terms: tuple[str, ...], output: str, shapes: tuple[tuple[int, ...], ...]) -> tuple[list, tuple]:
    """What is done with each pair of operands (both sides, and the product's shape), and with the last result.

    A pair is one matrix product: batch letters, then rows of the left side, then columns of the right one; the rest is
    summed. Where nothing is summed it is a product of numbers (shape None), in the order of the letters after it.
    """

    def side(letters, sizes, order, full, shape):
        """The arguments of `_einsum_arranged`, each of them nothing where it would change nothing."""
        kept, here, full = [c for c in letters if c in order], [sizes[c] for c in order], [full[c] for c in order]
        return (
            [d for d, c in enumerate(letters) if c not in order],
            None if kept == order else [kept.index(c) for c in order],
            None if full == here else full,
            None if full == shape else shape,
        )

    pairs, have, sizes = [], list(terms[0]), dict(zip(terms[0], shapes[0], strict=True))
    for i, (term, shape) in enumerate(zip(terms[1:], shapes[1:], strict=True), 2):
        later, others = list(dict.fromkeys(output + "".join(terms[i:]))), dict(zip(term, shape, strict=True))
        left = [c for c in have if c in later or c in term]
        right = [c for c in term if c in later or c in have]
        shared = [c for c in left if c in right]
        inner = [c for c in shared if c not in later]
        both = sizes | others | {c: builtins.max(sizes[c], others[c]) for c in shared}
        if inner:
            batch = [c for c in shared if c in later]
            rows, columns = [c for c in left if c not in right], [c for c in right if c not in left]
            letters, front = batch + rows + columns, [both[c] for c in batch]
            m, k, n = (math.prod([both[c] for c in group]) for group in (rows, inner, columns))
            a = side(have, sizes, batch + rows + inner, both, [*front, m, k])
            b = side(term, others, batch + inner + columns, both, [*front, k, n])
            pairs.append((a, b, [both[c] for c in letters]))
        else:
            letters = [c for c in later if c in left or c in right]
            a, b = (
                side(x, n, [c for c in letters if c in mine], n, [n[c] if c in mine else 1 for c in letters])
                for x, n, mine in ((have, sizes, left), (term, others, right))
            )
            pairs.append((a, b, None))
        have, sizes = letters, both
    order = list(output)
    return pairs, side(have, sizes, order, sizes, [sizes[c] for c in order])
