"""Products of matrices and vectors, composed of matmul: addmm and its kin, tensordot, kron."""

import builtins
import math
from collections.abc import Sequence

from tinytensor.core.dtypes import result_type
from tinytensor.core.promotion import broadcast_shape
from tinytensor.core.registry import register
from tinytensor.core.tensor import Tensor
from tinytensor.ops.arguments import dimension, promote_floats_to_exact, scaled, to_0d_array, whole_number
from tinytensor.ops.products import bmm, matmul, outer
from tinytensor.ops.reduce import sum
from tinytensor.ops.shape import permute, reshape


def _sum_of(what: str, x: Tensor, product: Tensor, beta: float, alpha: float) -> Tensor:
    """beta x + alpha product; if beta is 0, x does not count, even if it is NaN.

    With whole numbers PyTorch cuts beta and alpha to whole numbers: 2.5 is 2.
    """
    dtype = product.dtype
    if dtype.kind in "iu":
        beta, alpha = (to_0d_array(what, factor, dtype).item() for factor in (beta, alpha))
    x, product = promote_floats_to_exact(x, product)
    if x.dtype != product.dtype:
        raise RuntimeError(f"{what}: {x.dtype} + {dtype}: the dtypes must be equal; use .to(dtype)")
    if broadcast_shape(what, x.shape, product.shape) != product.shape:
        raise RuntimeError(f"{what}: shape {x.shape} does not fit a product of shape {product.shape}")
    product = product if alpha == 1 else scaled(what, product, alpha, dtype)
    if beta == 0:
        return product
    return (x if beta == 1 else scaled(what, x, beta, dtype)) + product


@register("addmm Tensor.addmm Tensor.addmm_")
def addmm(x: Tensor, mat1: Tensor, mat2: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """y = beta x + alpha mat1 mat2."""
    if mat1.ndim != 2 or mat2.ndim != 2:
        raise RuntimeError(f"addmm: expected two matrices, got {mat1.shape} and {mat2.shape}")
    return _sum_of("addmm", x, matmul(mat1, mat2), beta, alpha)


@register("addmv Tensor.addmv Tensor.addmv_")
def addmv(x: Tensor, mat: Tensor, vec: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """y = beta x + alpha mat vec."""
    if mat.ndim != 2 or vec.ndim != 1:
        raise RuntimeError(f"addmv: expected a matrix and a vector, got {mat.shape} and {vec.shape}")
    return _sum_of("addmv", x, matmul(mat, vec), beta, alpha)


@register("baddbmm Tensor.baddbmm Tensor.baddbmm_")
def baddbmm(x: Tensor, batch1: Tensor, batch2: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """y = beta x + alpha batch1 batch2, for each pair of matrices."""
    if batch1.ndim != 3 or batch2.ndim != 3:
        raise RuntimeError(f"baddbmm: expected two batches of matrices, got {batch1.shape} and {batch2.shape}")
    return _sum_of("baddbmm", x, matmul(batch1, batch2), beta, alpha)


@register("addr Tensor.addr Tensor.addr_")
def addr(x: Tensor, vec1: Tensor, vec2: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """y_{ij} = beta x_{ij} + alpha a_i b_j."""
    product = outer(vec1, vec2)
    dtype = result_type(x, product)  # the only one of these sums for which PyTorch mixes dtypes and cuts no factor
    if dtype.kind in "iu" and not (isinstance(alpha, int) and isinstance(beta, int)):
        raise RuntimeError(f"addr: whole numbers can't be scaled by {beta!r} and {alpha!r}; use .float() first")
    return _sum_of("addr", x.to(dtype), product.to(dtype), beta, alpha)


@register("addbmm Tensor.addbmm Tensor.addbmm_")
def addbmm(x: Tensor, batch1: Tensor, batch2: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """y = beta x + alpha times the sum over the batch of a b."""
    return _sum_of("addbmm", x, sum(bmm(batch1, batch2), 0).to(batch1.dtype), beta, alpha)


@register("tensordot")
def tensordot(a: Tensor, b: Tensor, dims: int | Sequence | Tensor = 2) -> Tensor:
    """y = the sum over dims[0] of a and dims[1] of b; a number n means the last n of a and the first n of b."""
    if isinstance(dims, Sequence | Tensor):
        if len(dims) != 2:
            raise RuntimeError(f"tensordot: dims names the dimensions of a and those of b, two lists; got {dims}")
        first, second = (list(d) if isinstance(d, Sequence) else [d] for d in dims)
        if (first and not a.ndim) or (second and not b.ndim):
            raise RuntimeError(f"tensordot: shapes {a.shape} and {b.shape} do not have the dimensions {dims}")
        first, second = [dimension(a, d, "tensordot") for d in first], [dimension(b, d, "tensordot") for d in second]
    else:
        n = whole_number(dims, "tensordot: dims")
        if not 0 <= n <= builtins.min(a.ndim, b.ndim):
            raise RuntimeError(f"tensordot: {n} dimensions can't be summed of shapes {a.shape} and {b.shape}")
        first, second = list(range(a.ndim - n, a.ndim)), list(range(n))
    if [a.shape[d] for d in first] != [b.shape[d] for d in second]:
        raise RuntimeError(f"tensordot: the sizes at {first} of {a.shape} and {second} of {b.shape} must be equal")
    rows, columns = ([d for d in range(x.ndim) if d not in gone] for x, gone in ((a, first), (b, second)))
    n = math.prod([a.shape[d] for d in first])
    left = reshape(permute(a, rows + first), math.prod([a.shape[d] for d in rows]), n)
    right = reshape(permute(b, second + columns), n, math.prod([b.shape[d] for d in columns]))
    return reshape(matmul(left, right), [a.shape[d] for d in rows] + [b.shape[d] for d in columns])


@register("vdot Tensor.vdot")
def vdot(a: Tensor, b: Tensor) -> Tensor:
    """y = sum_i a_i b_i of two vectors."""
    return a.dot(b)


@register("inner Tensor.inner")
def inner(a: Tensor, b: Tensor) -> Tensor:
    """y = the sum over the last dimensions of a and b."""
    return tensordot(a, b, ([-1], [-1])) if a.ndim and b.ndim else a * b


@register("kron Tensor.kron")
def kron(a: Tensor, b: Tensor) -> Tensor:
    """y_{ip,jq} = a_{ij} b_{pq}, Kronecker's product: each element of a times all of b, in its place."""
    n = builtins.max(a.ndim, b.ndim)
    one, other = ((1,) * (n - x.ndim) + x.shape for x in (a, b))
    left = reshape(a, [k for m in one for k in (m, 1)])
    right = reshape(b, [k for m in other for k in (1, m)])
    return reshape(left * right, [k * m for k, m in zip(one, other, strict=True)])
