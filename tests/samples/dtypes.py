"""Every operation with every dtype, for `torch` and `tinytensor` alike: what dtype comes out, or is it refused?

An expression speaks of `x` and `y`, tensors (2, 3) of the dtypes that are walked, of `lib` and `F`, and of `index`,
`classes`, `signs` and `mask`, whose dtypes stay. `oracle/generate_dtypes.py` stores what PyTorch answers, values too,
so that a result that was truncated on its way does not pass for one of the right dtype.
"""

import math
import operator
import warnings

import numpy as np

DTYPES = ("bool", "uint8", "int32", "int64", "float32", "float64")
NUMBERS = ("True", "2", "0.5")  # Python's own

X, Y = [[3, 0, 1], [1, 2, 1]], [[2, 1, 1], [1, 3, 2]]

# Where tinytensor answers and PyTorch refuses, and why; nothing is cut down on the way.
WIDER = {
    "the indices and values of 0 and 1 are as good as those of any numbers": (
        *("x.argmax(dim=1)", "x.argmin(dim=1)", "x.argmax()", "x.argmin()", "x.topk(2)"),
        *(
            "lib.clamp_min(x, True)",
            "+x",
            "F.pad(x, (1, 1), 'replicate')",
            "x[:, :2].trace()",
            "lib.searchsorted(x[0].sort()[0], x)",
        ),
        *("lib.isin(x, x[0])", "lib.isin(x, index[0])"),
    ),
    "class indices may have 32 bits": (
        *("F.cross_entropy(lib.ones(2, 3), x[:, 1])", "F.nll_loss(lib.ones(2, 3), x[:, 1])"),
    ),
    "tensors of several dtypes meet in the wider one, as in arithmetic": (
        *("F.binary_cross_entropy(x.clamp(max=1), lib.ones(2, 3))", "F.binary_cross_entropy(lib.ones(2, 3), x)"),
        *("F.hinge_embedding_loss(x[0], signs)", "lib.isclose(x, y)", "x.allclose(y)", "x.addcdiv(y, y)"),
        *("x.lerp(y, 0.5)", "F.l1_loss(x, y)"),
    ),
    "alpha may scale truth values, which are then numbers": ("x.sub(y, alpha=2)",),
}
# Where both answer, and PyTorch in a dtype that is narrower than what came in.
NOT_NARROWER = {
    "the bounds -1.0 and 1.0 are floats; PyTorch cuts them down to integers": ("F.hardtanh(x)",),
    "PyTorch's dtype is the input's in one of these losses, and the target's in the other": (
        *("F.huber_loss(x, y)", "F.binary_cross_entropy_with_logits(x, y)"),
    ),
}

_UNARY = (
    "abs ceil clone cos erf exp expm1 floor isfinite isinf isnan log log1p logical_not neg reciprocal relu round rsqrt "
    "sigmoid sign sin sqrt square tanh bitwise_not t nonzero"
)
_FUNCTIONS = (
    "acos acosh asin asinh atan atanh cosh deg2rad exp2 frac logit rad2deg sinc sinh tan trunc erfinv lgamma digamma"
)
_REDUCTIONS = "all amax amin any argmax argmin argsort cumsum logsumexp max mean min norm prod sort std sum var"
_ACTIVATIONS = (
    "celu elu gelu glu hardsigmoid hardswish hardtanh leaky_relu log_softmax logsigmoid mish normalize relu relu6 selu "
    "sigmoid silu softmax softmin softplus softsign tanh"
)
_WHOLE = "all allclose_x any argmax argmin max mean min norm prod std sum var amax amin"
_LOSSES = "binary_cross_entropy_with_logits huber_loss kl_div l1_loss mse_loss smooth_l1_loss soft_margin_loss"
_LOSSES += " poisson_nll_loss multilabel_soft_margin_loss"

ONE = [
    *(f"lib.{name}(x)" for name in _UNARY.split()),
    *(
        f"x.{name}_()"
        for name in _UNARY.split()
        if name not in ("clone", "erf", "t", "nonzero", "bitwise_not")
        and not name.startswith("is")
        and name != "logical_not"
    ),
    *(f"lib.{name}(x)" for name in [*_FUNCTIONS.split(), "positive", "isposinf", "isneginf", "signbit", "argwhere"]),
    *(f"x.{name}_()" for name in _FUNCTIONS.split()),
    *("lib.polygamma(2, x)", "x.polygamma_(2)"),
    *(f"x.{name}(1)" for name in ("nansum", "nanmean", "count_nonzero", "median", "logcumsumexp", "diff")),
    *(
        "lib.var_mean(x)",
        "lib.std_mean(x)",
        "x.aminmax()",
        "x.median()",
        "x.quantile(0.5)",
        "x.kthvalue(3)",
        "x[:, :2].matrix_power(2)",
    ),
    *("x.bernoulli_() * 0", "x.exponential_() * 0", "(x > 1).to(x.dtype).bernoulli()", "x.round(decimals=1)"),
    *("F.pad(x, (1, 1))", "F.pad(x, (1, 1), value=0.5)", "F.pad(x, (1, 1), 'replicate')", "F.group_norm(x, 3)"),
    *("F.threshold(x, 1, 2)", "F.threshold(x, 1, 0.5)", "F.hardshrink(x)", "F.softshrink(x)"),
    *(f"x.{name}(dim=1)" for name in _REDUCTIONS.split()),
    *(f"x.{name}()" for name in _WHOLE.split() if name != "allclose_x"),
    *(f"F.{name}(x{', dim=0' if name.startswith(('softm', 'log_s', 'glu')) else ''})" for name in _ACTIVATIONS.split()),
    *(f"x.sum(1, dtype=lib.{d})" for d in DTYPES),
    *(f"x.cumsum(1, dtype=lib.{d})" for d in DTYPES),
    *(f"x.prod(dtype=lib.{d})" for d in ("int64", "float32")),
    *(f"lib.softmax(x, 0, dtype=lib.{d})" for d in ("float32", "float64")),
    *(f"x.to(lib.{d})" for d in DTYPES),
    *(f"x.norm(p={p})" for p in ("1", "3", "0", "float('inf')", "float('-inf')", "'fro'")),
    *(
        "x.norm(2, 1)",
        "x.std(0, unbiased=False)",
        "x.var()",
        "x.float()",
        "x.double()",
        "x.byte()",
        "x.int()",
        "x.long()",
        "x.bool()",
    ),
    *("lib.positive(x)", "x.positive()"),
    *("x.mean(0, dtype=lib.float64)", "-x", "~x", "+x", "abs(x)", "x.type_as(index)", "x.cpu()", "x.type(lib.float32)"),
    *("F.gelu(x, approximate='tanh')", "F.layer_norm(x, (3,))", "F.rms_norm(x, (3,))", "F.dropout(x, 0.0)"),
    *("F.layer_norm(x, (3,), lib.ones(3), lib.zeros(3))", "F.prelu(x, lib.tensor([0.25]))", "F.one_hot(x.long())"),
    *("F.cross_entropy(x, classes)", "F.cross_entropy(x, x)", "F.nll_loss(x, classes)", "F.normalize(x, dim=0)"),
    *("F.cross_entropy(lib.ones(2, 3), x[:, 1])", "F.nll_loss(lib.ones(2, 3), x[:, 1])", "F.embedding(classes, x)"),
    *("F.embedding(x.abs() if x.dtype != lib.bool else x, lib.ones(4, 2))", "F.linear(x, lib.ones(4, 3))"),
    *("F.scaled_dot_product_attention(x, x, x)", "F.binary_cross_entropy(x.clamp(max=1), lib.ones(2, 3))"),
    *("F.binary_cross_entropy(lib.ones(2, 3), x)", "F.cosine_similarity(x, x)", "F.pairwise_distance(x, x + 1)"),
    *("F.gaussian_nll_loss(x, x, lib.ones(2, 3))", "F.gaussian_nll_loss(lib.ones(2, 3), x, x + 2)", "lib.pdist(x)"),
    *("F.poisson_nll_loss(x, x, False, True)", "F.multi_margin_loss(x, classes)"),
    *("F.margin_ranking_loss(x[0], x[1], signs)", "F.hinge_embedding_loss(x[0], signs)"),
    *("F.cosine_embedding_loss(x, x, classes)", "F.triplet_margin_loss(x, x, x)", "lib.where(mask, x, 1)"),
    *("lib.where(mask, x, 0.5)", "lib.where(x, 1, 2)", "x.masked_fill(mask, 2)", "x.masked_fill(mask, 0.5)"),
    *("x.masked_fill(mask, True)", "x.masked_fill_(mask, 0.5)", "x.masked_select(mask)", "x.gather(1, index)"),
    *("lib.ones(2, 3).gather(1, x)", "x.index_select(0, classes)", "lib.ones(4, 2)[x[0]]", "x[index[0]]", "x[:, None]"),
    *("x.fill_(2)", "x.fill_(0.5)", "x.zero_()", "x.copy_(lib.ones(3))", "x.new_zeros(2)", "x.new_ones(2)"),
    *("x.new_full((2,), 3)", "x.new_tensor([1, 2])", "x.new_empty(2).zero_()", "lib.zeros_like(x)", "lib.ones_like(x)"),
    *("lib.full_like(x, 2)", "x.clamp(1)", "x.clamp(0.5)", "x.clamp(max=1)", "x.clamp(0.5, 1)", "x.clamp_(1)"),
    *("x.clamp_(0.5)", "lib.clamp_min(x, 1)", "lib.clamp_max(x, 0.5)", "x.clamp_min_(1)", "x.clamp_max_(0.5)"),
    *("x.reshape(3, 2)", "x.view(6)", "x.view_as(index.T)", "x.transpose(0, 1)", "x.permute(1, 0)", "x.T", "x.mT"),
    *("x.flatten()", "x.unflatten(1, (3, 1))", "x.squeeze()", "x.unsqueeze(0)", "x.expand(2, 2, 3)", "x.flip(0)"),
    *("x.expand_as(lib.ones(2, 2, 3))", "x.broadcast_to((2, 2, 3))", "lib.broadcast_tensors(x, lib.ones(3))"),
    *("x.repeat(2, 1)", "x.repeat_interleave(2)", "x.roll(1)", "x.narrow(1, 0, 2)", "x.chunk(2)", "x.split(1)"),
    *(
        "x.unbind()",
        "x.movedim(0, 1)",
        "x.diagonal()",
        "x.tril()",
        "x.triu()",
        "x.tril_()",
        "x.triu_()",
        "x.contiguous()",
    ),
    *("lib.hstack([x, x])", "lib.vstack([x, index])", "lib.row_stack([x, x])", "lib.dstack([x, x])", "x.ravel()"),
    *("lib.column_stack([x, x])", "lib.block_diag(x, index)", "lib.block_diag(x, x)", "x.tile(2)", "x.fliplr()"),
    *("lib.concat([x, x])", "lib.concatenate([x, index])", "x.swapaxes(0, 1)", "x.swapdims(0, 1)", "x.moveaxis(0, 1)"),
    *("x.flipud()", "x.rot90()", "x.select(0, 1)", "x.tensor_split(2)", "x.hsplit(3)", "x.vsplit(2)", "x[0].diag()"),
    *("lib.atleast_1d(x)", "lib.atleast_2d(x)", "lib.atleast_3d(x)", "lib.meshgrid(x[0], x[1], indexing='ij')"),
    *("lib.cartesian_prod(x[0], x[1])", "x.diag()", "x.diag_embed()", "x[:, :2].trace()", "x.cumprod(1)"),
    *("lib.tril_indices(2, 3)", "lib.triu_indices(2, 3)", "x.cumprod_(1)", "lib.log2(x)", "lib.log10(x)"),
    *(f"x.cumprod(1, dtype=lib.{d})" for d in ("int64", "float32")),
    *("x.log2_()", "x.log10_()", "x.scatter(1, index, x)", "x.scatter_(1, index, 1)", "x.scatter(1, index, 0.5)"),
    *("lib.ones(2, 3).scatter(1, index, x)", "x.scatter_add(1, index, x)", "x.index_add(0, classes, x)"),
    *("x.index_add(0, classes, x, alpha=2)", "x.index_copy(0, classes, x)"),
    *("x.index_fill(0, classes, 2)", "x.index_fill(0, classes, 0.5)", "x.index_put((classes,), x[0])"),
    *("x.index_put((classes,), x[0], accumulate=True)", "x.masked_scatter(mask, x)", "x.take(index)"),
    *("x.take_along_dim(index, 1)", "x[0].bincount()", "index[0].bincount(x[0])", "x.unique()"),
    *("x.unique_consecutive()", "lib.searchsorted(x[0].sort()[0], x)", "lib.bucketize(index, x[0].sort()[0])"),
    *("lib.isin(x, x[0])", "lib.isin(x, index[0])", "x.nan_to_num()", "x.clip(1)", "x.clip_(max=0.5)"),
    *("lib.clip(x, 0.5, 2)", "x.absolute()", "x.negative()", "x.subtract(2)", "x.multiply(0.5)", "x.divide(2)"),
    *("x.greater(1)", "x.greater_equal(1)", "x.less(1)", "x.less_equal(1)", "x.not_equal(1)"),
    *(
        "x.topk(2)",
        "x.is_floating_point()",
        "x.numel()",
        "x.new(2).zero_()",
        "lib.multinomial(x + 1, 3).sum() * 0",
        "x.equal(x)",
    ),
    *("x.uniform_() * 0", "x.normal_() * 0", "x.addcmul_(index, index)", "x.addcdiv_(x + 1, x + 2)", "x.lerp(x, 0.5)"),
    *(
        "x.lerp_(x, 0.5)",
        "x.index_copy_(0, classes, x.clone())",
        "x.relu_()",
        "lib.einsum('ij->j', x)",
        "lib.cat([x, index])",
        "lib.stack([x, mask])",
    ),
]

_SQUARE = "lib.eye(2).to(x.dtype)"
_OF_A_MATRIX = """det inverse logdet pinverse slogdet cholesky cholesky_inverse linalg.cholesky linalg.det linalg.inv
linalg.pinv linalg.slogdet linalg.eigvalsh linalg.svdvals linalg.matrix_rank linalg.matrix_norm linalg.vector_norm"""
ONE += [
    *("x.cummax(1)", "x.cummin(1)", "x.histc(3)", "lib.histogram(x, 3)", "x.renorm(2, 0, 1.0)", "x.renorm_(2, 0, 1.0)"),
    *("x.put(index, x)", "x.put_(index, x.clone())", "x.scatter_reduce_(1, index, x.clone(), 'prod')"),
    *(f"x.scatter_reduce(1, index, x, '{how}')" for how in ("sum", "prod", "mean", "amax", "amin")),
    *(f"lib.{name}({_SQUARE})" for name in _OF_A_MATRIX.split()),
    *(f"lib.{name}({_SQUARE}, {_SQUARE})" for name in ("cholesky_solve", "linalg.solve", "linalg.lstsq")),
    *(f"lib.svd({_SQUARE})[1]", f"lib.linalg.eigh({_SQUARE})[0]", f"lib.linalg.svd({_SQUARE})[1]"),
    *(f"lib.qr({_SQUARE})[1].abs()", f"lib.linalg.qr({_SQUARE})[1].abs()"),
    f"lib.linalg.solve_triangular({_SQUARE}, {_SQUARE}, upper=True)",
    *(f"lib.chain_matmul({_SQUARE}, {_SQUARE})", f"lib.linalg.multi_dot([{_SQUARE}, {_SQUARE}])"),
    *("lib.cross(x, x, dim=1)", "lib.linalg.cross(x, x)", "lib.linalg.vecdot(x, x)"),
]

_PAIRWISE = (
    "add div eq floor_divide ge gt isclose le logical_and logical_or logical_xor lt maximum minimum mul ne pow "
    "remainder sub true_divide bitwise_and bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift"
)
_FUNCTIONS_OF_TWO = "atan2 cdist copysign dist float_power fmod heaviside hypot logaddexp xlogy"
TWO = [
    *(f"lib.{name}(x, y)" for name in _PAIRWISE.split()),
    *(f"x.{name}_(y)" for name in ["add", "sub", "mul", "div", "pow", "floor_divide", "remainder", "copy"]),
    *(f"lib.{name}(x, y)" for name in _FUNCTIONS_OF_TWO.split()),
    *("lib.vdot(x[0], y[0])", "lib.addr(x, y[:, 0], y[0])", "lib.addr(x, x[:, 0], x[0], beta=0.5)"),
    *("lib.addbmm(x[:, :2], x[None], y.T[None])", "x.fmod_(y)", "x.copysign_(y)"),
    *("x + y", "x - y", "x * y", "x / y", "x // y", "x % y", "x ** y", "x & y", "x | y", "x ^ y", "x == y", "x < y"),
    *("x << y", "x >> y"),
    *(
        "x @ y.T",
        "x.matmul(y.T)",
        "lib.mm(x, y.T)",
        "lib.bmm(x[None], y.T[None])",
        "x.mv(y[0])",
        "x[0].dot(y[0])",
        "x[0].outer(y[0])",
    ),
    *("lib.tensordot(x, y.T, 1)", "lib.inner(x, y)", "lib.kron(x, y)", "lib.addmm(x[:, :2], x, y.T)"),
    *("lib.addmm(y[:, :2], x, x.T)", "lib.addmv(x[:, 0], x, y[0])", "lib.baddbmm(x[None, :, :2], x[None], y.T[None])"),
    *("lib.einsum('ij,kj->ik', x, y)", "lib.cat([x, y])", "lib.stack([x, y])", "lib.where(mask, x, y)"),
    *("F.linear(x, y)", "F.linear(x, x, y[:, 0])", "x.addcmul(y, y)", "x.addcdiv(y, y)", "x.lerp(y, 0.5)"),
    *("x.lerp(y.to(x.dtype), 0.25)", "x.allclose(y)", "x.clamp(min=y)", "lib.max(x, y)", "x.where(mask, y)"),
    *("x.add(y, alpha=2)", "x.add(y, alpha=0.5)", "x.sub(y, alpha=2)", "x.masked_fill(mask, y[0, 0])"),
    *("lib.addmm(x[:, :2], x, y.T, alpha=2.5, beta=1.5)", "lib.addmv(x[:, 0], x, y[0], alpha=-2.5)"),
    *("lib.addbmm(x[:, :2], x[None], y.T[None], beta=0.5)", "lib.addcmul(x, y, y, value=2.5)"),
    *("lib.baddbmm(x[None, :, :2], x[None], y.T[None], alpha=2.5)", "lib.addr(x, y[:, 0], x[0], alpha=2.5)"),
    *("lib.div(x, y, rounding_mode='floor')", "lib.div(x, y, rounding_mode='trunc')", "x + y[0, 0]", "x * y[0, 0]"),
    *(
        "x[0, 0] + y",
        "x ** y[0, 0]",
        "x / y[0, 0]",
        "x.maximum(y[0, 0])",
        "x == y[0, 0]",
        "x // y[0, 0]",
        "lib.equal(x, y)",
    ),
    *(f"F.{name}(x, y)" for name in _LOSSES.split()),
    *("F.scaled_dot_product_attention(x, x, y)", "F.cosine_similarity(x, y)", "F.pairwise_distance(x, y)"),
    *("lib.result_type(x, y)", "x.__setitem__(0, y[0]) or x", "F.prelu(x, y[0, :1])"),
]

_OPERATORS = ("+", "-", "*", "/", "//", "%", "**", "==", "<", "&", "|", "<<", ">>")
NUMBER = [
    *(f"x {o} {n}" for o in _OPERATORS for n in NUMBERS),
    *(f"{n} {o} x" for o in _OPERATORS for n in NUMBERS),
    *(f"operator.{o}(x, {n})" for o in ("iadd", "isub", "imul", "itruediv", "ipow") for n in NUMBERS),
    *(f"lib.{f}(x, {n})" for f in ("eq", "pow", "remainder", "floor_divide", "div", "clamp_min") for n in NUMBERS),
    *(f"x ** {n}" for n in ("-1", "3", "1", "0", "2.0", "3.0", "-0.5", "-1.0", "1.0", "-2")),
    *(
        "lib.pow(2, x)",
        "lib.pow(0.5, x)",
        "x.add(2, alpha=2)",
        "x.add(2, alpha=0.5)",
        "x.lerp(x, 1)",
        "2 - x",
        "lib.where(mask, 1, x)",
        *("x - 5", "x + 250", "x * -100", "x + -1", "x * -1", "x // -2", "x % -2", "x == -1", "x > -1", "x ^ -1"),
        *("x.fill_(-1)", "x.masked_fill(mask, -1)", "x.clamp(min=-1)", "lib.where(mask, x, -1)", "(x * 200).sum()"),
        *("x + 300", "300 - x", "x * 300", "x & 300", "x | -300", "x ^ 300", "x + 2**40", "x * (2**40 + 3)"),
        *("lib.tensor([-1, 5], dtype=x.dtype)", "lib.tensor([300, 5], dtype=x.dtype)", "lib.tensor(-1, dtype=x.dtype)"),
        *(
            "lib.tensor([-1.5], dtype=x.dtype)",
            "lib.tensor([2.5], dtype=x.dtype)",
            "lib.tensor([2**40], dtype=x.dtype)",
        ),
        *("lib.tensor([math.nan], dtype=x.dtype)", "lib.tensor([2**63])", "lib.tensor([-(2**63)])"),
        *("x.fill_(-1.5)", "x.fill_(2.5)", "x.fill_(300)", "lib.full((2,), -1, dtype=x.dtype)"),
        *("x.__setitem__(0, -1) or x", "x.__setitem__(0, 300) or x", "x.__setitem__(0, 2.5) or x"),
        *("lib.tensor([300, -1]).to(x.dtype)", "lib.tensor([44.0, 2.5]).to(x.dtype)", "x.type()"),
        *("lib.ones(2, 3)[x]", "lib.ones(2, 3).masked_fill(x, 1)", "lib.ones(2, 3).masked_select(x)"),
        *("lib.full((2,), 3, dtype=x.dtype)", "lib.eye(2, dtype=x.dtype)"),
    ),
]

WALK = [(e, d, "") for e in dict.fromkeys([*ONE, *NUMBER]) for d in DTYPES] + [
    (e, d, other) for e in dict.fromkeys(TWO) for d in DTYPES for other in DTYPES
]


def answer(lib, expression: str, x: str, y: str) -> list | str:
    """The dtypes and values that come out, or "refused"."""
    make = lambda values, dtype: lib.tensor(values, dtype=getattr(lib, dtype))  # noqa: E731
    names = {
        "lib": lib,
        "F": lib.nn.functional,
        "operator": operator,
        "math": math,
        "x": make(X, x),
        "y": make(Y, y or "bool"),
    }
    names |= {"index": lib.tensor([[1, 0, 1], [0, 1, 0]]), "classes": lib.tensor([1, 0])}
    names |= {"signs": lib.tensor([1, -1, 1]), "mask": lib.tensor([[True, False, True], [False, True, True]])}
    if "cosine_embedding" in expression:
        names["classes"] = names["signs"][:2]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = eval(expression, names)
    except (RuntimeError, TypeError, ValueError, IndexError, NotImplementedError) as error:
        return "refused" if lib.__name__ == "torch" else f"refused: {error}"
    return [_told(part) for part in (result if isinstance(result, tuple | list) else [result])]


def _told(value) -> list:
    if not hasattr(value, "tolist"):
        return [type(value).__name__ if isinstance(value, bool | int | float) else str(value).rpartition(".")[2]]
    numbers = np.asarray(value.detach().numpy()).reshape(-1).tolist()
    return [str(value.dtype).rpartition(".")[2], [n if math.isfinite(n) else str(n) for n in numbers]]


def differs(result: list | str, stored: list | str) -> str:
    """What is wrong about an answer beside PyTorch's; "" if nothing is."""
    if isinstance(result, str) or isinstance(stored, str):
        same = isinstance(result, str) and isinstance(stored, str)
        return "" if same else f"{result}, where PyTorch gives {stored}"
    for ours, theirs in zip(result, stored, strict=True):
        close = len(ours) == 1 or np.allclose(
            np.array(ours[1], float), np.array(theirs[1], float), rtol=1e-5, atol=1e-6, equal_nan=True
        )
        if ours[0] != theirs[0] or not close:
            return f"{ours}, where PyTorch gives {theirs}"
    return ""
