"""Every operation, declared once: equation, kernel, shape, gradient. Here the one table: what a Tensor can do.

The files, each building on those before: elementwise, shape, index, reduce, products, fused, order, in_place. PyTorch's
names are used throughout (sum, max, abs ...); Python's own come from `builtins`.
"""

from tinytensor import tensor as core
from tinytensor.creation import full, tensor
from tinytensor.ops.elementwise import (
    absolute,
    add,
    add_scaled,
    addcdiv,
    addcmul,
    bitwise_and,
    bitwise_not,
    bitwise_or,
    bitwise_xor,
    ceil,
    clamp,
    clamp_max,
    clamp_min,
    cos,
    div,
    eq,
    erf,
    exp,
    floor,
    floor_divide,
    ge,
    gelu,
    gt,
    is_floating_point,
    isfinite,
    isinf,
    isnan,
    le,
    lerp,
    log,
    logical_and,
    logical_not,
    logical_or,
    logical_xor,
    logsigmoid,
    lt,
    masked_fill,
    maximum,
    minimum,
    mul,
    ne,
    neg,
    numel,
    pow,
    reciprocal,
    relu,
    remainder,
    round_,
    rsqrt,
    sigmoid,
    sign,
    silu,
    sin,
    sqrt,
    square,
    sub,
    sub_scaled,
    tanh,
    true_divide,
    where,
)
from tinytensor.ops.fused import attention, cross_entropy_rows, layer_norm_, linear, log_softmax, rms_norm_, softmax
from tinytensor.ops.in_place import _in_place, _in_place_setitem, copy_, fill_, normal_, uniform_, zero_
from tinytensor.ops.index import check_range, embedding, gather, getitem, index_select, masked_select, nonzero
from tinytensor.ops.order import argsort, multinomial, sort, topk
from tinytensor.ops.products import bmm, dot, einsum, matmul, mm, mv, outer
from tinytensor.ops.reduce import (
    all,
    allclose,
    amax,
    amin,
    any,
    argmax,
    argmin,
    cumsum,
    equal,
    isclose,
    logsumexp,
    max,
    mean,
    min,
    norm,
    prod,
    std,
    sum,
    var,
)
from tinytensor.ops.shape import (
    _sizes,
    broadcast_tensors,
    broadcast_to,
    cat,
    chunk,
    clone,
    contiguous_,
    diagonal,
    expand,
    expand_as,
    flatten,
    flip,
    movedim,
    narrow,
    permute,
    repeat,
    repeat_interleave,
    reshape,
    roll,
    slice_,
    split,
    squeeze,
    stack,
    t,
    to,
    transpose,
    tril,
    triu,
    unbind,
    unflatten,
    unsqueeze,
    view,
    view_as,
)
from tinytensor.tensor import OPS, Op, Tensor, bool_, int32, int64


def _reflected(operation):
    return lambda x, other: operation(other, x)


METHODS = {
    f.__name__: f
    for f in (
        *(add_scaled, sub_scaled, mul, div, true_divide, floor_divide, remainder, pow, maximum, minimum, clamp),
        *(clamp_min, clamp_max, neg, sign, reciprocal, floor, ceil, exp, log, sqrt, rsqrt, sin, cos, tanh, erf),
        *(sigmoid, relu, square, addcmul, addcdiv, lerp, isnan, isinf, isfinite, eq, ne, lt, le, gt, ge),
        *(logical_and, logical_or, logical_xor, logical_not, bitwise_and, bitwise_or, bitwise_not, masked_fill),
        *(sum, prod, mean, var, std, amax, amin, max, min, argmax, argmin, logsumexp, any, all, norm, cumsum),
        *(softmax, log_softmax, matmul, mm, bmm, mv, dot, outer, to, clone, reshape, view, view_as, flatten, unflatten),
        *(permute, transpose, t, movedim, expand, expand_as, squeeze, unsqueeze, narrow, split, chunk, unbind, tril),
        *(triu, flip, roll, repeat, repeat_interleave, diagonal, gather, index_select, nonzero, masked_select),
        *(
            argsort,
            sort,
            topk,
            multinomial,
            copy_,
            fill_,
            zero_,
            uniform_,
            normal_,
            broadcast_to,
            equal,
            isclose,
            allclose,
        ),
        *(logsigmoid,),
    )
}


METHODS |= {"add": add_scaled, "sub": sub_scaled, "abs": absolute, "round": round_, "contiguous": contiguous_}


METHODS |= {
    "new_zeros": lambda x, *size, dtype=None: full(_sizes(size), 0, dtype=dtype or x.dtype),
    "new_ones": lambda x, *size, dtype=None: full(_sizes(size), 1, dtype=dtype or x.dtype),
    "new_full": lambda x, size, fill_value, dtype=None: full(size, fill_value, dtype=dtype or x.dtype),
    "new_tensor": lambda x, data, dtype=None: tensor(data, dtype=dtype or x.dtype),
}


METHODS |= {"where": lambda x, condition, other: where(condition, x, other), "sign": sign}


del METHODS["add_scaled"], METHODS["sub_scaled"]


_SELF_CHANGING = (
    "add sub mul div floor_divide remainder pow clamp clamp_min clamp_max neg abs sign reciprocal floor ceil"
)


_SELF_CHANGING += (
    " round exp log sqrt rsqrt sin cos tanh sigmoid relu square addcmul addcdiv lerp masked_fill tril triu"
)


METHODS |= {f"{name}_": _in_place(METHODS[name]) for name in _SELF_CHANGING.split()}


METHODS |= {
    "__add__": add, "__radd__": _reflected(add), "__iadd__": METHODS["add_"],
    "__sub__": sub, "__rsub__": _reflected(sub), "__isub__": METHODS["sub_"],
    "__mul__": mul, "__rmul__": _reflected(mul), "__imul__": METHODS["mul_"],
    "__truediv__": true_divide, "__rtruediv__": _reflected(true_divide), "__itruediv__": METHODS["div_"],
    "__floordiv__": floor_divide, "__rfloordiv__": _reflected(floor_divide),
    "__mod__": remainder, "__rmod__": _reflected(remainder),
    "__pow__": pow, "__rpow__": _reflected(pow), "__ipow__": METHODS["pow_"],
    "__matmul__": matmul, "__neg__": neg, "__pos__": lambda x: x, "__abs__": absolute, "__invert__": bitwise_not,
    "__and__": bitwise_and, "__or__": bitwise_or, "__xor__": bitwise_xor,
    "__eq__": eq, "__ne__": ne, "__lt__": lt, "__le__": le, "__gt__": gt, "__ge__": ge,
    "__getitem__": getitem, "__setitem__": _in_place_setitem,
    "__iter__": lambda x: iter(unbind(x)),
    "float": lambda x: to(x, core.float32), "double": lambda x: to(x, core.float64), "long": lambda x: to(x, int64),
    "int": lambda x: to(x, int32), "bool": lambda x: to(x, bool_), "cpu": lambda x: x,
    "type": lambda x, dtype: to(x, dtype), "type_as": lambda x, other: to(x, other.dtype),
}  # fmt: skip


for _name, _method in METHODS.items():
    setattr(Tensor, _name, _method if not isinstance(_method, Op) else (lambda m: lambda *a, **k: m(*a, **k))(_method))


for _name, _property in {
    "T": lambda x: permute(x, *reversed(range(x.ndim))),
    "mT": lambda x: transpose(x, -1, -2),
}.items():
    setattr(Tensor, _name, property(_property))


# what stands in the package beside the methods: tinytensor.exp(x) is x.exp()
FUNCTIONS = {
    name: f
    for name, f in METHODS.items()
    if not name.endswith("_") and name not in ("float", "double", "long", "int", "bool", "type")
}


FUNCTIONS |= {
    f.__name__: f
    for f in (
        einsum,
        cat,
        stack,
        where,
        silu,
        gelu,
        broadcast_tensors,
        bitwise_xor,
        linear,
        embedding,
        numel,
        is_floating_point,
    )
}
