"""Where rules change: every operation at 0, -0, 1, -1, infinities, NaN, equal arguments, ties, one element, nothing.

An entry is an expression of x (and y), of `lib` (tinytensor or PyTorch) and of its F. Values, their gradients and the
gradients of these are compared; `tests/samples/oracle/generate_points.py` stores PyTorch's.
"""

from itertools import product
from math import inf, nan

import numpy as np

POINTS = (0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 3.0, inf, -inf, nan)
PAIRS = tuple(zip(*product((0.0, -0.0, 1.0, -1.0, 2.0, -0.5, inf, -inf, nan), repeat=2), strict=True))
ROWS = {
    "ties": [[2.0, 2.0, 1.0], [1.0, 1.0, 1.0], [0.0, -0.0, 0.0]],
    "zeros": [[0.0, 0.0, 0.0], [0.0, 1.0, 0.0], [-0.0, 0.0, -1.0]],
    "one element": [[3.0], [0.0], [-1.0]],
    "infinities": [[inf, 1.0, 0.0], [-inf, -inf, 1.0], [inf, inf, 1.0]],
    "NaN": [[nan, 1.0, 2.0], [nan, nan, nan], [1.0, 2.0, nan]],
    "nothing": [[], [], []],
}

FUNCTIONS = """abs neg sign square sqrt rsqrt reciprocal exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan
sinh cosh tanh asinh acosh atanh erf sigmoid floor ceil round trunc frac relu deg2rad rad2deg logit nan_to_num sinc
erfinv lgamma digamma"""
ACTIVATIONS = """relu relu6 silu mish softsign softplus logsigmoid hardtanh hardswish hardshrink softshrink elu selu
celu leaky_relu gelu hardsigmoid"""
OF_TWO = """add sub mul div maximum minimum atan2 hypot logaddexp xlogy fmod remainder copysign pow clamp_min
clamp_max heaviside float_power floor_divide eq isclose"""
LOSSES = "l1_loss mse_loss huber_loss smooth_l1_loss binary_cross_entropy_with_logits hinge_embedding_loss"
OF_ROWS = """sum prod mean amax amin logsumexp softmax log_softmax cumsum cumprod logcumsumexp nansum nanmean argmax
argmin argsort"""

AT_POINTS = [
    *(f"lib.{name}(x)" for name in FUNCTIONS.split()),
    *("lib.polygamma(1, x)", "lib.polygamma(2, x)"),
    *(f"F.{name}(x)" for name in ACTIVATIONS.split()),
    *("F.gelu(x, approximate='tanh')", "F.threshold(x, 0.0, -7.0)", "F.elu(x, 0.5)", "F.celu(x, 0.5)"),
    *(f"x ** {n}" for n in (0, 1, 2, 3, -1, -2, 0.5, -0.5, 1.5)),
    *("2 ** x", "0 ** x", "x.clamp(-1, 1)", "x.clamp(min=0)", "x.clamp(max=0)", "x * x", "x / x", "x - x"),
    # Edges that lie elsewhere, moved to these points.
    *(
        "F.relu6(3 * x)",
        "F.hardsigmoid(3 * x)",
        "F.hardswish(3 * x)",
        "F.hardtanh(x, -2.0, 0.5)",
        "F.hardshrink(x, 1.0)",
    ),
    *("F.hardshrink(x, 0.0)", "F.softshrink(x, 1.0)", "F.softshrink(x, 0.0)", "F.threshold(x, 1.0, 1.0)"),
    *("F.softplus(x, 1.0, 2.0)", "F.softplus(x, 2.0, 1.0)", "F.leaky_relu(x, 0.0)", "F.leaky_relu(x, -0.5)"),
    *("x.clamp(-0.5, 2)", "x.clamp(1, -1)", "x.clamp(0.5, 0.5)", "x.clamp(min=1)", "x.clamp(max=-1)"),
    *("F.relu(x) ** 2", "F.relu(x) ** 0.5", "F.relu(x) * x", "x.abs() ** 2", "x.abs() ** 3", "x.abs() ** 0.5"),
    *("x.sign() * x", "lib.maximum(x, -x)", "lib.minimum(x, lib.ones_like(x))", "F.logsigmoid(-x)"),
    *("lib.maximum(x, x)", "lib.fmod(x, 1.0)", "lib.remainder(x, 1.0)", "lib.where(x > 0, x, x * x)"),
]
AT_PAIRS = [
    *(f"lib.{name}(x, y)" for name in OF_TWO.split()),
    *(f"F.{name}(x, y, reduction='none')" for name in LOSSES.split()),
    *(
        "lib.lerp(x, y, 0.25)",
        "lib.lerp(x, y, 0.5)",
        "lib.lerp(x, y, lib.full_like(x, 0.75))",
        "lib.where(x > y, x, y)",
        "x.masked_fill(x == y, 7.0)",
        "x.clamp(y, y)",
    ),
    *(f"F.huber_loss(x, y, reduction='none', delta={d})" for d in (0.5, 2.0)),
    *(f"F.smooth_l1_loss(x, y, reduction='none', beta={d})" for d in (0.0, 0.5, 2.0)),
    *("lib.max(x, y)", "lib.min(x, y)", "x.clamp(min=y)", "x.clamp(max=y)"),
    "F.margin_ranking_loss(x, y, -lib.ones_like(x), margin=1.0, reduction='none')",
    "F.hinge_embedding_loss(x, lib.where(y > 0, 1.0, -1.0).to(x.dtype), margin=2.0, reduction='none')",
    *("F.prelu(x, y[:1])", "lib.addcdiv(x, x, y)", "lib.addcmul(x, x, y)", "F.kl_div(x, y.detach(), reduction='none')"),
    "F.soft_margin_loss(x, y.detach(), reduction='none')",
    "F.margin_ranking_loss(x, y, lib.ones_like(x), reduction='none')",
    *(f"F.poisson_nll_loss(x, y.detach(), {log}, True, reduction='none')" for log in (True, False)),
    "F.gaussian_nll_loss(x, y, lib.ones_like(x), reduction='none')",
    "F.multilabel_soft_margin_loss(x[:, None], y[:, None].detach(), reduction='none')",
    "F.binary_cross_entropy(x.nan_to_num().clamp(0, 1), y.detach().nan_to_num().clamp(0, 1), reduction='none')",
]
AT_ROWS = [
    *(f"lib.{name}(x, -1)" for name in OF_ROWS.split()),
    *(f"lib.{name}(x, -1)[0]" for name in ("max", "min", "median", "sort")),
    *("x.max()", "x.min()", "x.prod()", "x.topk(1, -1)[0]", "x.kthvalue(1, -1)[0]", "x.aminmax(dim=-1)[0]"),
    *(f"x.{name}(-1, correction={n})" for name in ("var", "std") for n in (0, 1)),
    *("F.layer_norm(x, x.shape[-1:])", "F.rms_norm(x, x.shape[-1:], eps=1e-5)", "F.normalize(x, dim=-1)"),
    *(f"x.norm({p}, -1)" for p in (0, 0.5, 1.5, 2, 3, inf, -inf, -0.5, -1, -2)),
    *(f"lib.linalg.vector_norm(x, {p})" for p in (1, 0.5, -1)),
    *(f"F.normalize(x, p={p}, dim=-1)" for p in (1, 3, inf, 0.5, -1)),
    *(f"F.pairwise_distance(x, x.flip(0), {p}, 0.0)" for p in (1, 3, inf, 0.5, -1)),
    *(f"lib.renorm(x, {p}, 0, 1.5)" for p in (0.5, 1, 2)),
    "F.triplet_margin_loss(x, x.flip(0), x.roll(1, 0), p=1, reduction='none')",
    *("x.norm()", "F.cosine_similarity(x, x, -1)", "F.pairwise_distance(x, x)", "lib.dist(x, x)", "x.diff(dim=-1)"),
    *("F.cross_entropy(x, x.argmax(-1), reduction='none')", "x.quantile(0.5, -1)"),
    *("F.softmin(x, -1)", "F.glu(lib.cat([x, x], -1), -1)", "F.group_norm(x, 1)", "x @ x.t()", "lib.outer(x[0], x[1])"),
    *("F.cosine_similarity(x, x.flip(0), -1)", "F.pairwise_distance(x, x.flip(0))", "lib.dist(x, x.flip(0))"),
    *("F.nll_loss(x, x.argmax(-1))", "F.cross_entropy(x, x.argmax(-1))", "lib.var_mean(x, -1)[0]"),
    *("F.triplet_margin_loss(x, x, x.flip(0), reduction='none')", "F.linear(x, x)", "F.linear(x, x).relu()"),
    "F.cosine_embedding_loss(x, x.flip(0), lib.ones_like(x[:, 0]), reduction='none')",
    *(
        f"x.scatter_reduce(-1, lib.zeros_like(x).long(), x.flip(0), '{how}')"
        for how in ("amax", "amin", "prod", "mean")
    ),
    *("lib.cummax(x, -1)[0]", "lib.cummin(x, -1)[0]"),
    *(f"lib.cdist(x, x.flip(0), {p})" for p in (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, inf)),
    *(f"lib.pdist(x, {p})" for p in (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, inf)),
    *(f"F.multi_margin_loss(x, x.argmax(-1), {p}, reduction='none')" for p in (1, 2)),
]
CASES = {f"{e} at nothing": (e, []) for e in AT_POINTS} | {f"{e} at nothing": (e, [], []) for e in AT_PAIRS}
CASES |= {f"{e} at points": (e, POINTS) for e in AT_POINTS}
CASES |= {f"{e} at pairs": (e, *PAIRS) for e in AT_PAIRS}
CASES |= {f"{e} at {name}": (e, rows) for e in AT_ROWS for name, rows in ROWS.items()}


def evaluate(lib, F, case: str, real: str) -> dict[str, np.ndarray]:
    """The value, the gradients, and the gradients of their sum, of one case; the value is weighted by 1, 2, 3 ...

    Of nothing, an operation may be refused: that is the answer then.
    """
    expression, *values = CASES[case]
    dtype = getattr(lib, real)
    inputs = {n: lib.tensor(np.array(v, real), dtype=dtype, requires_grad=True) for n, v in zip("xy", values)}
    try:
        result = eval(expression, {"lib": lib, "F": F, "inf": inf} | inputs)
    except (RuntimeError, IndexError, ValueError):
        if not case.endswith("nothing"):
            raise
        return {"refused": np.array(True)}
    results = {"value": result}

    def derive(order: str, of: list, weights: list) -> list:
        second = order == "first"
        slopes = lib.autograd.grad(of, list(inputs.values()), weights, create_graph=second, allow_unused=True)
        results.update({f"{order} {n}": g for n, g in zip(inputs, slopes, strict=True) if g is not None})
        return [g for g in slopes if g is not None and g.requires_grad]

    try:
        if result.requires_grad:
            weights = lib.tensor(np.arange(1, result.numel() + 1).reshape(tuple(result.shape)), dtype=result.dtype)
            slopes = derive("first", [result], [weights])
            if slopes:
                derive(
                    "second", slopes, [lib.full_like(g, n) for n, g in enumerate(slopes, 1)]
                )  # unlike: they may cancel
    except RuntimeError as refusal:  # PyTorch has no derivative of some, or no second one
        if not any(words in str(refusal) for words in ("not implemented", "unsupported")):
            raise
    return {name: np.array(a.detach().clone().tolist(), str(a.dtype).rpartition(".")[2]) for name, a in results.items()}
