"""Mistakes planted in the engine: in gradient rules, in kernels, in the walk over the tape. `prove` must notice each.

Some are chosen by hand, since they are the ones that people make. Others are made mechanically, by changing one place
in the source of a gradient rule or of a kernel. Each goes through the very checker that passes the original: the proofs
of derivations/proofs/engine.py, over the calls of its table.

Not every change is a mistake. What a checker passes is left out only for one of these reasons, found by running it:

    never reached     an error in that place is not noticed either: no call of the table comes there
    same numbers      at random points, in floats, it gives the numbers that the original gives at these sizes, where
                      values are equal or 0 as well: another way to write the same. (Norms sum over blocks of 32 rows;
                      that there may be several shows at larger sizes only, and tests/symbolic has them.)
    at ties only      it gives other numbers only where compared values are equal or 0: there is no derivative there to
                      compare with; what the engine gives there is PyTorch's choice, and tests/samples/oracle has it
"""

import ast
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from itertools import islice

import numpy as np

import tinytensor as tt
from derivations.proofs.engine import CALLS, prove_op
from tests.ops.larger_samples import LARGER, mistakes
from tinytensor import linear, stack
from tinytensor.core.kernel import KERNELS, OBJECT
from tinytensor.core.op import OPS, Op
from tinytensor.core.tensor import Tensor
from tinytensor.symbolic import Proof, Symbolic, prove

from .planting import (
    code_mistakes,
    declaration,
    interpreted,
    kernel_source,
    kernel_with,
    planted_kernel,
    planted_rule,
    planted_walk,
    rule_with,
    rules_of,
    unreached,
    with_node,
)
from .tally import Check, Tally, notices

Plant = Callable[[], AbstractContextManager]

# --- Mistakes in the engine


def passes(op: str) -> bool:
    """The checker of an operation: all calls of the table are proved."""
    return all(prove_op(op, args) for args in CALLS[op])


def passes_in_the_middle(op: str) -> bool:
    """The same with other operations before and after it, where other gradients arrive: all of them 1, in fact."""

    def proof(args: tuple) -> Proof:
        negated = [isinstance(a, Tensor) and a.dtype is OBJECT for a in args]
        return prove_op(op, args, partial(between_others, negated))

    return all(map(proof, CALLS[op]))


def between_others(negated: list[bool], op: Op, *arguments) -> Tensor:
    y = op(*(-a.neg() if n else a for n, a in zip(negated, arguments, strict=True)))
    return first_result(y).sum()


def first_result(y) -> Tensor:
    return y[0] if isinstance(y, tuple) else y


def shared(x):
    """A value that is used twice, one multiplied twice, a bias for all rows, a new dimension and a stretched one."""
    y = x.exp()
    products = linear(y, x) * linear(y, y + 1)
    return (y * (y + y[0])).sum() + (y[:, :1] * stack([x, y, x * y])).sum() + products.sum()


HAND_RULES = {  # what is wrong: (operation, function, right, wrong)
    "sign: the subtrahend's gradient": ("sub", "grad_b", "-g", "g"),
    "the factors' gradients swapped": ("mul", "grad_a", "(g, b):\n    return g * b", "(g, a):\n    return g * a"),
    "missing factor: the root's 2": ("sqrt", "grad_x", "2 * y", "y"),
    "x for y: the derivative of exp": ("exp", "grad_x", "(g, y):\n    return g * y", "(g, x):\n    return g * x"),
    "the smaller one gets the maximum's gradient": ("maximum", "grad_a", "lt(a, b)", "gt(a, b)"),
    "transpose forgotten in a product": ("matmul", "grad_b", "transpose(a, -1, -2)", "a"),
    "factors in the wrong order": ("matmul", "grad_a", "matmul_op(g, transpose(b, -1, -2))", "matmul_op(b, g)"),
    "mean for sum": ("reduce_sum", "grad_x", "spread_op(g, x_shape, dims)", "spread_op(g / 2, x_shape, dims)"),
    "heads swapped: the permutation for its inverse": ("permute", "grad_x", "np.argsort(dims)", "dims"),
    "pieces of a concatenation swapped": ("cat", "grad_xs", "split(g, sizes, dim)", "split(g, sizes, dim)[::-1]"),
    "a running sum that is not run back": ("cumsum", "grad_x", "not reverse", "reverse"),
    "ReLU's mask forgotten": ("linear_relu", "backward", "apply_formula(relu_backward.kernel, g, y)", "g"),
    "bias not summed over the rows": ("linear", "backward", "reduce_array(kernels.reduce_sum, g, (0,), False)", "g[0]"),
    "a missing gradient": ("layer_norm", "backward", "sums[0] if needs[1] else None", "None"),
    "the scale of attention forgotten": ("attention", "backward", "setting(scale, q.dtype)", "setting(1, q.dtype)"),
    "the causal mask forgotten": ("attention", "backward", "int(is_causal)", "0"),
    "keys for queries": ("attention", "backward", "return (dq, dk, dv", "return (dk, dq, dv"),
    "smoothing forgotten": (
        "cross_entropy_rows",
        "backward",
        "setting(label_smoothing, x.dtype)",
        "setting(0, x.dtype)",
    ),
}

# Where the result is a plain number whatever the input is, nothing should pass; so in the middle of a function the
# gradient that belongs there has no part in the derivative, and a rule that hands it on is noticed only if it is tried.
HAND_MIDDLES = {  # what is wrong: (operation, function, right, wrong)
    "ReLU that is off passes on what arrives": ("relu", "grad_x", "relu_backward(g, y)", "g"),
    "ReLU's mask forgotten for matrices": (
        "linear_relu",
        "backward",
        "apply_formula(relu_backward.kernel, g, y)",
        "(g if x.ndim == 2 else apply_formula(relu_backward.kernel, g, y))",
    ),
    "straight through a rounding": ("floor", "grad_x", "zero_gradient(g)", "g"),
    "straight through a sign": ("sign", "grad_x", "zero_gradient(g)", "g"),
    "straight through a bound": ("clamp_min", "grad_a", "where(ge(a, b), g, 0)", "g"),
    "what was dropped has a gradient": ("dropped", "grad_x", "dropped(g, at, threshold, scale)", "g * scale"),
    "what was not chosen has a gradient": ("where", "grad_a", "where(condition, g, 0)", "g"),
    "what was overwritten has a gradient": (
        "put",
        "grad_x",
        "put(g, positions, zeros(value_shape, dtype=g.dtype))",
        "g",
    ),
    "right only for a gradient of ones": ("exp", "grad_x", "g * y", "g * g * y"),
    "right only where all rows have one gradient": (
        "softmax",
        "backward",
        "softmax_backward, g,",
        "softmax_backward, g[::-1],",
    ),
}

CHECKED_BY = {  # kernel: an operation that launches it and has a definition, or this as its gradient
    "attention": "attention",
    "relu_backward": "linear_relu",
    "silu_backward": "silu_backward",
    "sigmoid_backward": "sigmoid_backward",
    "square_backward": "square_backward",
    "gelu_erf_backward": "gelu_erf_backward",
    "gelu_tanh_backward": "gelu_tanh_backward",
    "scatter_add": "take",
    "gather_backward": "gather",
    "softmax": "softmax",
    "softmax_backward": "softmax",
    "log_softmax": "log_softmax",
    "log_softmax_backward": "log_softmax",
    "layer_norm": "layer_norm",
    "layer_norm_backward": "layer_norm",
    "rms_norm": "rms_norm",
    "rms_norm_backward": "rms_norm",
    "cross_entropy": "cross_entropy_rows",
    "cross_entropy_backward": "cross_entropy_rows",
    "attention_backward": "attention",
}

HAND_KERNELS = {  # what is wrong: (kernel, right, wrong)
    "softmax without the row's sum": (
        "softmax_backward",
        "sub(load_first(count, g, r, j), dot)",
        "load_first(count, g, r, j)",
    ),
    "log-softmax without the row's sum": (
        "log_softmax_backward",
        "mul(exp(load_first(count, y, r, j)), sum_g)",
        "exp(load_first(count, y, r, j))",
    ),
    "norm without the mean of the gradient": (
        "layer_norm_backward",
        "fma(c, tilt, fma(scale, h, level))",
        "fma(c, tilt, mul(scale, h))",
    ),
    "norm without the term along x": (
        "layer_norm_backward",
        "fma(c, tilt, fma(scale, h, level))",
        "fma(scale, h, level)",
    ),
    "eps dropped": ("layer_norm", "- error_r * error_r + eps)", "- error_r * error_r)"),
    "sum for mean in the variance": ("rms_norm", "sum_lanes(add(s, t)) / count + eps", "sum_lanes(add(s, t)) + eps"),
    "scatter assigns instead of adding": ("scatter_add", "target[d] += row[d]", "target[d] = row[d]"),
    "gather assigns instead of adding": ("gather_backward", "dx[o, k, i] += g", "dx[o, k, i] = g"),
    "padding ignored": ("cross_entropy_backward", "if t != ignore_index and 0 <= t < size:", "if True:"),
    "target off by one": ("cross_entropy_backward", "dx[r, t] -=", "dx[r, (t + 1) % size] -="),
    "the one-hot part overwrites": ("cross_entropy_backward", "dx[r, t] -= g[r]", "dx[r, t] = -g[r]"),
    "ReLU's mask turned round": ("relu_backward", "if z <= type(z)(0) else h", "if z > type(z)(0) else h"),
    "attention: dq without the scale": ("attention_backward", "j * WIDTH), splat(scale))", "j * WIDTH), splat(one))"),
    "attention: without the row's sum": (
        "attention_backward",
        "mul_tiles(p, sub_elements(d, deltas, i))",
        "mul_tiles(p, d)",
    ),
    "attention: every head has the first one's mask": ("attention", "mask[b, h,", "mask[b, 0,"),
    "attention: every head has the first one's mask, backward": ("attention_backward", "mask[b, h,", "mask[b, 0,"),
    "attention: the mask of the first head is kept for all": ("attention_backward", "mask.strides[1] != 0", "False"),
    "attention: causal where it is not": ("attention_backward", "if is_causal else M", "if not is_causal else M"),
}

HAND_WALKS = {  # what is wrong: (right, wrong)
    "overwritten where gradients meet": (
        "self.sums[target] = g if before is None else before + g, True",
        "self.sums[target] = g, True",
    ),
    "a rule's sum is added to itself": (
        "before, self.sums[target] = self.sums[target][0], (None, True)",
        "before = self.sums[target][0]",
    ),
    "broadcasting not summed": ("else r.sum(dims)", "else r.amax(dims)"),
    "summed along others than those that were stretched": ("[d + new for d, n", "[d for d, n"),
    "nodes in the wrong order": ("heappush(self.heap, (-target.generation,", "heappush(self.heap, (target.generation,"),
    "a gradient sent twice": (
        "self.accumulate(edge, fitted,",
        "self.accumulate(edge, fitted, False); self.accumulate(edge, fitted,",
    ),
}


# Mistakes that begin beyond a size, where no proof comes: (operation, kernel or function, right, wrong, its number in
# the table of larger calls).
HAND_LARGER = {
    "the last of more than 64 rows is not written": (
        "scatter_rows",
        "scatter_add",
        "for v in range(start, stop):\n        target",
        "for v in range(start, min(stop, dx.shape[0] - (dx.shape[0] > 64))):\n        target",
        0,
    ),
    "seven blocks of rows are added up, not all": (
        "layer_norm",
        "layer_norm_backward",
        "begin, end = task_range(rows, block, blocks)",
        "begin, end = task_range(rows, min(block, 6), blocks)",
        6,
    ),
    "the gradient stops at class 512": (
        "cross_entropy_rows",
        "cross_entropy_backward",
        "loss_slope(width, x, r, v, scale, shift, level, dx)",
        "loss_slope(width, x, r, v, scale, shift if v < 512 else level, level, dx)",
        2,
    ),
    "the mask is shifted beyond key 40": (
        "attention",
        "attention",
        "min(m + n, M - 1)",
        "min(m + n + m // 40, M - 1)",
        2,
    ),
    "the mask of the gradient is shifted beyond key 40": (
        "attention",
        "attention_backward",
        "min(m + n, M - 1)",
        "min(m + n + m // 40, M - 1)",
        2,
    ),
    "a running sum from the end begins anew beyond 1,024": (
        "cumsum",
        "cumsum",
        "if k > 0 else (nothing, nothing)",
        "if k > 0 and not (reverse and k == 1024) else (nothing, nothing)",
        3,
    ),
    "the second derivative in more than 8 columns": (
        "layer_norm",
        "definition",
        "centred * centred, -1, keepdim=True)",
        "centred * (centred if x.shape[-1] <= 8 else centred.detach()), -1, keepdim=True)",
        3,
    ),
    "the second derivative without gamma where there is no delta": (
        "layer_norm",
        "definition",
        "y if weight is None else",
        "y if bias is None else",
        1,
    ),
}


def passes_larger(op: str, number: int, second: bool) -> bool:
    """The checker of larger calls: one of them, kernels run as plain Python. (Second derivatives take long so.)"""
    with interpreted():
        return not mistakes(op, LARGER[op][number], second)


def planted_larger(op: str, path: str, right: str, wrong: str) -> AbstractContextManager:
    """A mistake in a kernel, or in one of the operation's functions."""
    if path in KERNELS and path not in ("backward", "definition"):
        return planted_kernel(path, kernel_with(path, right, wrong))
    return planted_rule(*rule_with(op, path, right, wrong))


def by_hand(one_in: int = 1) -> Tally:
    """The mistakes chosen by hand; `one_in` thins them out."""
    tally = Tally()
    tries: list[tuple[str, AbstractContextManager, Check]] = []
    for what, (op, *change) in HAND_RULES.items():
        tries.append((f"{op}: {what}", planted_rule(*rule_with(op, *change)), partial(passes, op)))
    for what, (op, *change) in (HAND_RULES | HAND_MIDDLES).items():
        check = partial(passes_in_the_middle, op)
        tries.append((f"{op}, in the middle of a function: {what}", planted_rule(*rule_with(op, *change)), check))
    for what, (kernel, *change) in HAND_KERNELS.items():
        plant = planted_kernel(kernel, kernel_with(kernel, *change))
        tries.append((f"{kernel}: {what}", plant, partial(passes, CHECKED_BY[kernel])))
    for what, change in HAND_WALKS.items():
        tries.append((f"tape: {what}", planted_walk(*change), lambda: bool(prove(shared, (2, 2)))))
    for what, (op, *change, number) in HAND_LARGER.items():
        check = partial(passes_larger, op, number, change[0] == "definition")
        tries.append((f"{op}: {what}", planted_larger(op, *change), check))
        assert check(), f"{op}: the original is refused at larger sizes"
    assert prove(shared, (2, 2)), "the checker of the walk refuses the original"
    for op in sorted({op for op, *_ in (HAND_RULES | HAND_MIDDLES).values()}):
        assert passes_in_the_middle(op), f"{op} is refused in the middle of a function without a mistake"
    for what, plant, check in tries[::one_in]:
        with plant:
            tally.enter(what, notices(check))
    return tally


# --- Mistakes made mechanically


def float_results(op: str, ties: bool) -> list:
    """What an operation gives in floats: values, gradients, and both through the definition; at ties, if so asked."""
    rng, results = np.random.default_rng(0), []
    for args in CALLS[op] * (1 if ties else 2):
        arguments = [_floats(a, rng, ties) for a in args]
        leaves = [a for a in arguments if isinstance(a, Tensor) and a.requires_grad]
        for road in (False, True):
            try:
                y = first_result(OPS[op](*arguments))
                g = tt.tensor(rng.standard_normal(y.shape), dtype=tt.float64)
                results.append(y._data.copy())
                y.backward(g, create_graph=road)
                results += [leaf.grad._data.copy() for leaf in leaves if leaf.grad is not None]
                if OPS[op].definition is not None:
                    results.append(OPS[op].definition(*arguments)._data.copy())
            except Exception as error:
                results.append(type(error))
            for leaf in leaves:
                leaf.grad = None
    return results


def _floats(a, rng, ties: bool):
    """An argument of the table with floats for its symbols, positive where these are."""
    if isinstance(a, Symbolic):
        return a.witness
    if a is OBJECT:
        return tt.float64
    if not isinstance(a, Tensor) or a.dtype is not OBJECT:
        return float(a) if hasattr(a, "numerator") and not isinstance(a, int) else a
    values = rng.standard_normal(a.shape)
    if ties:
        values = rng.permutation(np.resize([0.0, 1.0, 1.0, -1.0], a.numel())).reshape(a.shape)
    positive = all(s.witness > 0 for s in a._data.flat) and a.numel() > 1
    return tt.tensor(abs(values) + (0 if ties else 0.1) if positive else values, dtype=tt.float64, requires_grad=True)


def alike(a: list, b: list) -> bool:
    if len(a) != len(b):
        return False
    pairs = zip(a, b, strict=True)
    return all(p is q if isinstance(p, type) or isinstance(q, type) else _equal(p, q) for p, q in pairs)


def _equal(p: np.ndarray, q: np.ndarray) -> bool:
    return p.shape == q.shape and np.allclose(p, q, rtol=1e-10, atol=1e-10, equal_nan=True)


def why_not(op: str, plant: Plant, plant_error: Plant) -> str:
    """The reason to leave out a change that is not noticed; "" if there is none.

    plant, plant_error: what puts the change in its place, and what puts an error there.
    """
    with plant_error():
        if not notices(lambda: passes(op)):
            return "never reached"
    with interpreted():
        before = {ties: float_results(op, ties) for ties in (False, True)}
        with plant():
            after = {ties: float_results(op, ties) for ties in (False, True)}
    if not alike(before[False], after[False]):
        return ""
    return "same numbers" if alike(before[True], after[True]) else "at ties only"


def attempt(tally: Tally, label: str, what: str, op: str, original: Plant, changed: Plant, error: Plant) -> None:
    """Plant one change in what `label` names, ask the checker, and enter what came of it.

    original, error: what puts a copy without a mistake in that place, the control, and what puts an error there.
    """
    if label not in tally.controls:
        tally.controls.add(label)
        with original():
            assert passes(op), f"{label}: the copy without a mistake is refused"
    with changed():
        how = notices(partial(passes, op))
    tally.enter(f"{label}: {what}", how, partial(why_not, op, changed, error))


def rules(one_in: int) -> Tally:
    """Change every place of every rule and definition, one at a time; of the changes one in so many is tried."""
    tally = Tally()

    def changes() -> Iterator[tuple]:
        for name in CALLS:
            for function in rules_of(declaration(OPS[name])):
                if any(isinstance(node, ast.While) for node in ast.walk(function)):
                    tally.left_out.append((f"{name}.{function.name}", "a loop that might never end"))
                else:
                    yield from ((name, function, *change) for change in code_mistakes(function))

    for name, function, what, position, changed in islice(changes(), one_in - 1, None, one_in):
        plants = (partial(planted_rule, OPS[name], f) for f in (function, changed, unreached(function, position)))
        attempt(tally, f"{name}.{function.name}", what, name, *plants)
    return tally


def kernels(one_in: int) -> Tally:
    """Change every place of a kernel that computes a value, one at a time; of the changes one in so many is tried.

    Indices and bounds are left to tests/symbolic, and attention, whose proofs take long, to the mistakes by hand.
    """
    tally = Tally()

    seen = set()  # helpers that several kernels call

    def changes() -> Iterator[tuple]:
        for kernel in [name for name, op in CHECKED_BY.items() if op != "attention"]:
            file, functions = kernel_source(kernel)
            for function in functions:
                if (position := (KERNELS[kernel].py_func.__module__, function.lineno)) not in seen:
                    seen.add(position)
                    result = code_mistakes(function, values_only=True)
                    yield from ((kernel, file, function, *change) for change in result)

    for kernel, file, function, what, position, changed in islice(changes(), one_in - 1, None, one_in):
        files = (with_node(file, function, f) for f in (function, changed, unreached(function, position)))
        label = kernel if function.name in (kernel, "kernel") else f"{kernel}, {function.name}"
        attempt(tally, label, what, CHECKED_BY[kernel], *(partial(planted_kernel, kernel, f) for f in files))
    return tally
