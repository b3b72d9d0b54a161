"""The kernels' own source at sizes beyond their blocks: forward computes the definition, backward its adjoint.

A kernel goes over its arrays in blocks: registers, tiles, panels, squares, parts, tasks. `tests/symbolic` proves each
kernel for all values at small sizes, with small blocks. Here blocks have their shipped size, and arrays are larger than
a block, with a rest. Arrays hold residues modulo a random prime (`symbolic/exact/finite_field.py`): the formulas are
too large to be written down, but residues show whether two of them are equal, up to a computed probability. With y the
definition's result, J its derivative and v a random direction, in all inputs at once,

    kernel(x) = y,    and of a backward kernel that gives d from g    <d, v> = <g, J v>.

The residues carry v as their tangents, by the rules of differentiation alone. As in all lifted kernels, a read before a
write, an index out of bounds, or a conflict between two tasks would raise an error.
"""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from derivations.claims import NUMBA, Evidence, Refuted, claim, holds
from derivations.exact.reference import definition, largest, matvec
from derivations.exact.residues import CHANCE, HASHED, Equations, tangents
from tinytensor.core.kernel import KERNELS, MOST_TASKS
from tinytensor.native.kernels.attention import (
    COLUMNS,
    attention_backward_scratch,
    attention_of_one_scratch,
    attention_scratch,
)
from tinytensor.native.kernels.matmul import A_ROWS, AT_ONCE, GROUP, KC, MC, MIN_ROWS, MR, matmul_plan, packed_a_shape
from tinytensor.native.kernels.matmul import NC as COLUMNS_OF_A_BLOCK
from tinytensor.native.kernels.sums import BLOCK, TERMS
from tinytensor.native.runtime.kernel import Elementwise
from tinytensor.native.simd.isa import BYTES
from tinytensor.native.simd.score_tile import LANES, WIDTH
from tinytensor.symbolic import lift
from tinytensor.symbolic.exact.finite_field import Field, Residue
from tinytensor.symbolic.exact.scalars import ROUNDED, reading

TASKS = 3  # a launch that would be a single task is cut into these
REGISTER = BYTES // np.dtype(object).itemsize  # exact scalars in a register: as many as doubles
NONE = np.empty(0, object)
NO_MASK = np.empty((0, 0, 0, 0), bool)
IGNORED = -100

NOT_OVER_RESIDUES = {
    "next_draw": "whole numbers only, which tests/symbolic compares",
    "reduce_any": "truth values only",
    "reduce_all": "truth values only",
    "argsort": "its results are whole numbers, which comparisons decide",
    "check_weights": "its results are whole numbers, which comparisons decide",
    "sample_rows": "its results are whole numbers, which comparisons decide",
}


class Trial:
    """The kernels of one claim over one field: their arguments, and the equations that their results must satisfy."""

    def __init__(self, scalars: Field):
        self.field, self.equations = scalars, Equations(scalars)
        self.floats = np.random.default_rng(0)  # the results of comparisons are no secret
        self.ran: dict[str, list[str]] = {}  # kernels, with the sizes of their first argument
        self.blocks: list[str] = []

    def draw(self, *shape: int, positive: bool = False) -> np.ndarray:
        """An array of variables; without a shape, one variable."""
        values = np.empty(shape, object)
        for at in np.ndindex(shape):
            w = self.floats.normal()
            values[at] = self.field.draw(abs(w) + 0.1 if positive else w)
        return values if shape else values[()]

    def setting(self) -> Residue:
        """A positive variable that is held constant."""
        x = self.draw(positive=True)
        x.tangent = 0
        return x

    def beyond(self, what: str, size: int, block: int) -> None:
        """Note that a size is beyond a block of the kernel, with a rest."""
        holds(size > block and size % block != 0, f"{size} is beyond {what} of {block}, and no multiple of it")
        self.blocks.append(f"{size} > {block}: {what}")

    def run(self, name: str, *args) -> dict:
        """Launch a kernel with arguments by name; each place of an output must be written."""
        kernel = KERNELS[name]
        tasks = None
        if not isinstance(kernel, Elementwise) and kernel.divisible and "scratch" not in kernel.names:
            tasks = max(TASKS, kernel.tasks(*args))
        lift(kernel, tasks)(*args)
        self.ran.setdefault(name, []).append(" x ".join(map(str, np.shape(args[0]))) or "one")
        return dict(zip(kernel.names, args, strict=True))

    def forward(self, name: str, definition: Callable[..., dict], *args) -> dict:
        """Run a kernel and compare all of its outputs with the definition's; returns the latter."""
        expected = definition(*(a.copy() if isinstance(a, np.ndarray) else a for a in args))
        outputs = self.run(name, *args)
        for what, values in expected.items():
            values = np.asarray(values)
            holds(values.shape == outputs[what].shape, f"{name}: {what} has the shape {values.shape}")
            for at in np.ndindex(values.shape):
                self.equal(f"{name}: {what}{list(at)}", outputs[what][at], values[at])
        return expected

    def equal(self, what: str, got, expected) -> None:
        if got is None:
            raise Refuted(f"{what} was not written", rule=what)
        if isinstance(expected, Residue | int) and isinstance(got, Residue):
            self.equations.equal(what, got, Residue.of(expected))
        elif got != expected:  # numbers
            raise Refuted(f"{what} is {got}, not {expected}", rule=what)

    def adjoint(self, name: str, results: Sequence[tuple], gradients: Sequence[tuple]) -> None:
        """<d, v> = <g, J v>: results are pairs of g and the definition's y, gradients pairs of d and its input."""
        along, size = 0, 0.0
        for g, y in results:
            for a, b in zip(g.flat, y.flat, strict=True):
                along, size = along + a.value * b.tangent, size + a.size + b.slope_size
        for d, x in gradients:
            holds(d.shape == x.shape and all(e is not None for e in d.flat), f"{name} writes all of a gradient")
        self.equations.adjoint(name, (along, size), [(d, tangents(x)) for d, x in gradients])


def blank(*shape: int, dtype=object) -> np.ndarray:
    """An output before the launch: empty, or a number that is no result."""
    return np.empty(shape, object) if dtype is object else np.full(shape, -7, dtype)


def fine() -> np.ndarray:
    return np.zeros(2, np.int64)


def declare(names: Sequence[str], what: str, size: str) -> Callable:
    """Declare the decorated function of a Trial as the evidence for these kernels."""

    def declared(function: Callable[[Trial], None]) -> Callable[[Trial], None]:
        @claim(
            "kernels",
            f"{', '.join(names)}: {what}",
            category="sampled",
            size=size,
            assumptions=("comparisons come out as those of the floats beside the residues", HASHED),
            trusted=(CHANCE, NUMBA),
        )
        def evidence():
            with Field() as scalars:
                trial = Trial(scalars)
                function(trial)
                holds(set(trial.ran) == set(names), f"all of {names} were run, and no others")
                sizes_run = [f"{name}: {', '.join(dict.fromkeys(sizes))}" for name, sizes in trial.ran.items()]
                return Evidence(
                    text="\n".join([*sizes_run, *dict.fromkeys(trial.blocks), *trial.equations.figures("kernel")])
                )

        RUN.update(dict.fromkeys(names))
        return function

    return declared


RUN: dict[str, None] = {}  # the kernels that the claims below run
VALUES = "the source computes the definition"
BOTH = f"{VALUES}, and backward computes the adjoint of the definition's derivative"

# --- Softmax and losses

R, N = 37, 83  # rows, numbers of a row


@declare(
    ("softmax", "softmax_backward", "log_softmax", "log_softmax_backward"),
    BOTH,
    f"{R} rows of {N}: beyond two registers, with a rest, in {TASKS} tasks",
)
def softmaxes(trial: Trial) -> None:
    trial.beyond("two registers, which are taken together", N, 2 * REGISTER)
    for name in ("softmax", "log_softmax"):
        x, g, y, dx = trial.draw(R, N), trial.draw(R, N), blank(R, N), blank(R, N)
        expected = trial.forward(name, definition(name, largest), x, y)
        trial.run(f"{name}_backward", g, y, dx)
        trial.adjoint(f"{name}_backward", [(g, expected["y"])], [(dx, x)])


CLASSES, ROWS = 531, 1100


@declare(
    ("cross_entropy", "cross_entropy_backward", "mean_of_counted"),
    BOTH,
    f"7 rows of {CLASSES} classes, with smoothing and without; a mean of {ROWS}; ignored targets",
)
def losses(trial: Trial) -> None:
    trial.beyond("a register", CLASSES, REGISTER)
    trial.beyond("numbers whose sum is a block's", ROWS, BLOCK)
    target = trial.floats.integers(0, CLASSES, 7)
    target[:3] = CLASSES - 1, IGNORED, 0
    for smoothing in (Residue(0), trial.setting()):
        x, g, outputs = trial.draw(7, CLASSES), trial.draw(7), (blank(7), blank(7))
        settings = target, IGNORED, smoothing
        expected = trial.forward("cross_entropy", definition("cross_entropy", largest), x, *settings, *outputs, fine())
        dx = blank(7, CLASSES)
        trial.run("cross_entropy_backward", g, x, target, outputs[1], IGNORED, smoothing, dx)
        trial.adjoint("cross_entropy_backward", [(g, expected["losses"])], [(dx, x)])
    many = trial.floats.integers(0, 5, ROWS)
    many[::7] = IGNORED
    trial.forward("mean_of_counted", definition("mean_of_counted"), trial.draw(ROWS), many, IGNORED, blank(1), blank(1))


# --- Norms

D, NORMED = 37, 203
LONG = TERMS + 37


@declare(
    ("layer_norm", "layer_norm_backward", "rms_norm", "rms_norm_backward"),
    BOTH,
    f"{NORMED} rows of {D}, in {MOST_TASKS} blocks of rows, with weight and bias, and without; a layer norm of {LONG}",
)
def norms(trial: Trial) -> None:
    trial.beyond("two registers, which are taken together", D, 2 * REGISTER)
    trial.beyond("blocks of rows, which have several each", NORMED, MOST_TASKS)
    for weight, bias in ((trial.draw(D), trial.draw(D)), (NONE, NONE)):
        eps = trial.setting()
        x, g = trial.draw(NORMED, D), trial.draw(NORMED, D)
        for name, sums in (("layer_norm", (weight, bias)), ("rms_norm", (weight,))):
            y, dx, saved = blank(NORMED, D), blank(NORMED, D), [blank(NORMED) for _ in sums]  # mean and rstd, or rstd
            expected = trial.forward(name, definition(name), x, *sums, eps, y, *saved)
            parts = blank(len(sums), MOST_TASKS, weight.size)
            trial.run(f"{name}_backward", g, x, weight, *saved, dx, parts)
            of_sums = [(parts[i].sum(0), p) for i, p in enumerate(sums) if p.size]
            trial.adjoint(f"{name}_backward", [(g, expected["y"])], [(dx, x), *of_sums])
    trial.beyond("the terms that are added one after another", LONG, TERMS)
    x, saved = trial.draw(1, LONG), [blank(1), blank(1)]
    trial.forward("layer_norm", definition("layer_norm"), x, NONE, NONE, trial.setting(), blank(1, LONG), *saved)


# --- Reductions and scans


def rows_of(x: np.ndarray) -> np.ndarray:
    """The array (outer, n, inner) as one row for each result."""
    return np.moveaxis(x, 1, 2).reshape(-1, x.shape[1])


def of_rows(x: np.ndarray, values: np.ndarray) -> np.ndarray:
    return values.reshape(x.shape[0], x.shape[2])


def extreme(x, y, index, sign: int):
    at = np.array([[sign * e.witness for e in row] for row in rows_of(x)]).argmax(1)
    extremes = np.take_along_axis(rows_of(x), at[:, None], 1)
    return {"y": of_rows(x, extremes), "index": of_rows(x, at)}


@declare(
    (
        *("reduce_sum", "partial_sum", "reduce_squares", "partial_squares", "reduce_prod", "reduce_logsumexp"),
        *("reduce_max", "reduce_min", "sumsq", "cumsum"),
    ),
    f"{VALUES}, and the reversed running sum is the adjoint of the other",
    f"{ROWS} numbers in a row, and 83 rows of 5: beyond each block of a sum, in {TASKS} tasks",
)
def reductions(trial: Trial) -> None:
    trial.beyond("numbers whose sum is a block's", ROWS, BLOCK)
    trial.beyond("a register", 83, REGISTER)
    trial.beyond("rows that are added together", 83, 8)
    for outer, n, inner in ((5, ROWS, 1), (5, 83, 5)):
        x, y = trial.draw(outer, n, inner), partial(blank, outer, inner)
        trial.forward("reduce_sum", definition("reduce_sum"), x, y())
        trial.forward("reduce_squares", definition("reduce_squares"), x, y())
        trial.forward("reduce_prod", definition("reduce_prod"), x, y())
        for name, factors in (("partial_sum", (x,)), ("partial_squares", (x, x))):
            sums = trial.run(name, x, blank(outer, 7, inner))["y"].sum(1)
            for at, expected in np.ndenumerate(np.prod(factors, 0).sum(1)):
                trial.equal(f"{name}: the sum of the parts {list(at)}", sums[at], expected)
        trial.forward("reduce_logsumexp", definition("reduce_logsumexp", largest), x, y())
        for name, sign in (("reduce_max", 1), ("reduce_min", -1)):
            trial.forward(name, partial(extreme, sign=sign), x, y(), y(dtype=np.int64))
        expected = trial.forward("cumsum", definition("cumsum"), x, 0, blank(*x.shape), y())
        g, dx = trial.draw(*x.shape), blank(*x.shape)
        trial.forward("cumsum", definition("cumsum"), g, 1, dx, y())
        trial.adjoint("cumsum", [(g, expected["y"])], [(dx, x)])
    squares = trial.draw(ROWS)
    parts = trial.run("sumsq", squares, blank(7))["parts"]
    trial.equal("sumsq: the sum of the parts", parts.sum(), (squares**2).sum())


# --- Products of a matrix and a vector


@declare(
    ("matvec",),
    VALUES,
    f"a matrix of 83 rows of {ROWS} numbers, and its transposed: beyond each block of a sum, in {TASKS} tasks",
)
def vectors(trial: Trial) -> None:
    trial.beyond("numbers whose sum is a block's", ROWS, BLOCK)
    trial.beyond("a register", 83, REGISTER)
    for a in (trial.draw(2, 83, ROWS), trial.draw(2, ROWS, 83).transpose(0, 2, 1)):
        trial.forward("matvec", matvec, a, trial.draw(2, ROWS), blank(2, 83))


# --- Rows by their number

V, TOKENS = 131, 203  # rows of the table, and the number of reads: some rows twice, some never


@declare(
    ("take", "scatter_add", "gather", "gather_backward", "write_rows"),
    BOTH,
    f"{TOKENS} of {V} rows of 19, repeated ones among them, in {TASKS} tasks",
)
def rows_by_number(trial: Trial) -> None:
    index = trial.floats.integers(0, V, TOKENS)
    index[:2] = V - 1
    trial.beyond("tasks, which have several rows each", V, TASKS)
    holds(len(set(index)) < min(V, TOKENS), "some tokens are repeated, and some rows are not read")
    x, g, dx = trial.draw(V, 19), trial.draw(TOKENS, 19), blank(V, 19)
    expected = trial.forward("take", definition("take"), x, index, blank(TOKENS, 19), fine())
    trial.forward("scatter_add", definition("scatter_add"), g, index, dx)
    trial.adjoint("scatter_add", [(g, expected["y"])], [(dx, x)])
    numbers = trial.floats.integers(0, V, (5, 83, 3))
    x, g, dx = trial.draw(5, V, 3), trial.draw(5, 83, 3), blank(5, V, 3)
    expected = trial.forward("gather", definition("gather"), x, numbers, blank(5, 83, 3), fine())
    trial.run("gather_backward", g, numbers, dx)
    trial.adjoint("gather_backward", [(g, expected["y"])], [(dx, x)])
    source, table = trial.draw(3, TOKENS, 5), trial.draw(3, V, 5)
    trial.forward("write_rows", definition("write_rows"), source, index, table, fine())


# --- Matrix products

# Rows, products of a sum, columns: each beyond its block once, with the others small, and all three together.
HIGH, DEEP, WIDE, ALL = (2, 203, 11, 21), (2, 11, 530, 19), (1, 67, 19, 275), (1, 195, 259, 35)
# Beyond a block of a that is copied, which has so many rows and columns; and a product whose copies the plan asks for.
BLOCK_OF_COPIES = A_ROWS + MR, (GROUP + 1) * 2 * REGISTER
LAST_ROWS = A_ROWS + 3  # of the last block: a block before it has whole tiles
COPIED = (1, BLOCK_OF_COPIES[0] + LAST_ROWS, KC + 3, BLOCK_OF_COPIES[1] + 5)
PLANNED = (1, 259, 67, 151)
LAYOUTS = {  # the memory layout of a matrix of so many rows and columns
    "as it is": lambda draw, n, rows, columns: draw(n, rows, columns),
    "transposed": lambda draw, n, rows, columns: draw(n, columns, rows).transpose(0, 2, 1),
    "strided": lambda draw, n, rows, columns: draw(n, 2 * rows, 2 * columns)[:, ::2, 1::2],
    "one for all": lambda draw, n, rows, columns: np.broadcast_to(draw(1, rows, columns), (n, rows, columns)),
}


def product(trial: Trial, sizes: tuple[int, ...], left: str, right: str, epilogue: str = "", block=None):
    """One product. epilogue: "bias", "term", "relu", or two of these; block: rows and columns of a block, if it is not
    the plan's: there, blocks of a are copied, panels are copied in groups, and unfinished sums stay in scratch."""
    n, M, K, N = sizes
    a, b = LAYOUTS[left](trial.draw, n, M, K), LAYOUTS[right](trial.draw, n, K, N)
    term = np.empty((n, 0, 0), object)
    if "term" in epilogue:
        term = trial.draw(n, M, N)
    elif "bias" in epilogue:
        term = np.broadcast_to(trial.draw(N), (n, M, N))
    rows, columns, (tasks, deep, width), (_, *copy) = matmul_plan(n, M, K, N, a.itemsize, a.strides[1:])
    if block:
        (rows, columns), panels = block, block[1] // width
        deep = min(GROUP, panels) * deep + panels * rows
        copy = packed_a_shape(K, rows, a.itemsize, a.strides[1] == a.itemsize)
    tasks = max(tasks, TASKS)
    copies = blank(tasks, *copy) if copy[0] else blank(0, 0, 0)
    holds((copies.size > 0) == (block is not None or sizes == PLANNED), "blocks of a are copied where that is claimed")
    call = a, b, term, int("relu" in epilogue), rows, columns, blank(n, M, N), blank(tasks, deep, width), copies
    trial.forward("matmul", definition("matmul"), *call)
    if sizes == ALL or copies.size:
        trial.beyond(
            "rows of a block" + (" that is copied" if copies.size else ", while sums have several panels"), M, rows
        )
        trial.beyond("columns of such a block", N, columns)


FORMS = (  # left factor, right factor, epilogue
    ("as it is", "as it is", ""),
    ("as it is", "transposed", "bias"),
    ("transposed", "as it is", "term"),
    ("transposed", "transposed", "term relu"),
    ("strided", "strided", "bias relu"),
    ("as it is", "one for all", "relu"),
)
COPIES = (("as it is", "transposed", "bias"), ("transposed", "as it is", "relu"), ("transposed", "strided", "term"))


@declare(
    ("matmul",),
    VALUES,
    f"(n, M, K, N) = {HIGH}, {DEEP}, {WIDE} in {len(FORMS)} forms each, and {ALL}; {PLANNED} with copied blocks of the "
    f"first factor, and {COPIED} in {len(COPIES)} forms, where copies do not pay yet; a row alone",
)
def products(trial: Trial) -> None:
    trial.beyond("rows of a tile", HIGH[1], MR)
    trial.beyond("rows of a block", HIGH[1], MC)
    trial.beyond("rows of a panel", DEEP[2], KC)
    trial.beyond("columns of a tile", HIGH[3], 2 * REGISTER)
    trial.beyond("columns of a block", WIDE[3], COLUMNS_OF_A_BLOCK)
    trial.beyond("rows that a panel should serve", WIDE[1], MIN_ROWS)
    for form in FORMS:
        for sizes in (HIGH, DEEP, WIDE):
            product(trial, sizes, *form)
    product(trial, (2, 1, 261, 139), "as it is", "as it is", "bias relu")  # eight registers at a time
    product(trial, ALL, "transposed", "transposed", "bias")
    trial.beyond("rows of copied tiles beside each other, in the last block", LAST_ROWS, A_ROWS)
    trial.beyond("products that are copied together", COPIED[2], AT_ONCE)
    trial.beyond("columns of a group of panels", COPIED[3], GROUP * 2 * REGISTER)
    for form in COPIES:
        product(trial, COPIED, *form, block=BLOCK_OF_COPIES)
    product(trial, PLANNED, "transposed", "as it is")


# --- Attention

QUERIES, KEYS, WIDTHS = 35, 53, (19, 18)  # of a head: queries, keys, columns of q and k, and of v
KEYS_OF_ONE = 149
MASKS = {  # sentences, heads, and the keys that each query sees
    "all keys": (1, 2, lambda trial, B, H: NO_MASK),
    "causal": (2, 1, lambda trial, B, H: NO_MASK),
    "a mask with holes for each head": (2, 2, lambda trial, B, H: holes(trial, B, H)),
    "one mask for all heads, which ends before the last key": (1, 2, lambda trial, B, H: ending(B, H)),
}


def holes(trial: Trial, B: int, H: int) -> np.ndarray:
    """A mask of its own for each head; a query always sees the first key."""
    mask = trial.floats.random((B, H, QUERIES, KEYS)) < 0.6
    mask[..., 0] = True
    return mask


def ending(B: int, H: int) -> np.ndarray:
    return np.broadcast_to(np.arange(KEYS) < KEYS - 11, (B, H, QUERIES, KEYS))


def heads(trial: Trial, B: int, H: int, rows: int, width: int) -> np.ndarray:
    """(B, H, rows, width) as a model has it: the heads of a row side by side."""
    return trial.draw(B, rows, H, width).transpose(0, 2, 1, 3)


def attend(trial: Trial, what: str) -> None:
    """Attention and its gradients with one of the masks."""
    (B, H, mask), (K, Kv) = MASKS[what], WIDTHS
    scale, mask, is_causal = trial.setting(), mask(trial, B, H), int("causal" in what)
    sizes = B, H, QUERIES, KEYS, K, Kv
    q, k, v = (heads(trial, B, H, *size) for size in ((QUERIES, K), (KEYS, K), (KEYS, Kv)))
    y, lse = blank(B, QUERIES, H, Kv).transpose(0, 2, 1, 3), blank(B, H, QUERIES)
    of_heads, call = definition("attention", largest), (q, k, v, mask, scale, is_causal)
    expected = trial.forward("attention", of_heads, *call, y, lse, blank(TASKS, attention_scratch(*sizes)[1]))
    g, gradients = heads(trial, B, H, QUERIES, Kv), [np.full_like(x, None) for x in (q, k, v)]
    scratch = blank(TASKS, attention_backward_scratch(*sizes)[1])
    trial.run("attention_backward", g, q, k, v, mask, y, lse, scale, is_causal, *gradients, scratch)
    trial.adjoint("attention_backward", [(g, expected["y"])], list(zip(gradients, (q, k, v), strict=True)))


@declare(
    ("attention", "attention_backward", "attention_of_one"),
    BOTH,
    f"{QUERIES} queries, {KEYS} keys (a query alone: {KEYS_OF_ONE}), K = {WIDTHS[0]}, {WIDTHS[1]} for v, 2 heads, "
    f"{TASKS} tasks; {len(MASKS)} masks",
)
def attention(trial: Trial) -> None:
    trial.beyond("queries of a square", QUERIES, LANES)
    trial.beyond("keys of a square, forward", KEYS, WIDTH)
    trial.beyond("keys of a square, backward", KEYS, LANES)
    trial.beyond("keys of a square where a query is alone", KEYS_OF_ONE, WIDTH * LANES)
    for width in WIDTHS:
        trial.beyond("columns that are taken together", width, COLUMNS)
        trial.beyond("columns of a square", width, LANES)
    for what in MASKS:
        attend(trial, what)
    B, H, (K, Kv) = 2, 2, WIDTHS
    q, k, v = (heads(trial, B, H, *size) for size in ((1, K), (KEYS_OF_ONE, K), (KEYS_OF_ONE, Kv)))
    some = trial.floats.random((B, H, 1, KEYS_OF_ONE)) < 0.6
    scratch = attention_of_one_scratch(B, H, KEYS_OF_ONE, K, Kv)[1]
    for mask in (NO_MASK, some):
        outputs = blank(B, H, 1, Kv), blank(B, H, 1), blank(TASKS, scratch)
        of_one = definition("attention", largest)
        trial.forward("attention_of_one", of_one, q, k, v, mask, trial.setting(), 0, *outputs)


# --- Optimizers and chance

ELEMENTS = 203


@declare(("sgd", "adam"), VALUES, f"{ELEMENTS} parameters, in {TASKS} tasks; every switch")
def updates(trial: Trial) -> None:
    trial.beyond("tasks, which have several parameters each", ELEMENTS, TASKS)
    lr, momentum, dampening, decay, eps = (trial.setting() for _ in range(5))
    betas = Residue(9) / 10, Residue(99) / 100
    for scale in (NONE, trial.draw(1), trial.draw(ELEMENTS)):
        for maximize in (0, 1):
            p, g, m = (trial.draw(ELEMENTS) for _ in range(3))
            v = trial.draw(ELEMENTS, positive=True)
            for nesterov, first in ((0, 0), (0, 1), (1, 0)):
                hyper = np.array([lr, momentum, dampening, decay, *map(Residue, (nesterov, maximize, first))], object)
                trial.forward("sgd", definition("sgd"), p.copy(), g, m.copy(), scale, hyper)
            trial.forward("sgd", definition("sgd"), p.copy(), g, NONE, scale, hyper)
            for decoupled in (0, 1):
                switches = map(Residue, (decoupled, 3, maximize))
                hyper = np.array([lr, *betas, eps, decay, *switches], object)
                trial.forward("adam", definition("adam"), p.copy(), g, m.copy(), v.copy(), scale, hyper)


@declare(("uniform", "drop"), VALUES, f"{ELEMENTS} numbers, in {TASKS} tasks, the third part of a whole")
def chance(trial: Trial) -> None:
    at = np.array([7, 3, 2])
    trial.forward("uniform", definition("uniform"), at, 8, trial.setting(), blank(ELEMENTS))
    trial.forward("drop", definition("drop"), trial.draw(ELEMENTS), at, 1 << 31, trial.setting(), blank(ELEMENTS))


# --- Formulas

SLOPES = [name for name, kernel in KERNELS.items() if isinstance(kernel, Elementwise) and name.endswith("_backward")]


@declare(
    [name for back in SLOPES for name in (back.removesuffix("_backward"), back)],
    "the backward formula is the adjoint of the forward formula's derivative",
    "12 numbers of both signs: formulas have no blocks",
)
def formulas(trial: Trial) -> None:
    for name in SLOPES:
        kernel, back = KERNELS[name.removesuffix("_backward")], KERNELS[name]
        with reading(ROUNDED):
            defaults, needed = (list(map(Residue, k.py_func.__defaults__ or ())) for k in (kernel, back))
        x, g = trial.draw(12), trial.draw(12)
        y = trial.run(kernel.name, x, *defaults, blank(12))["y"]
        dx = trial.run(name, g, y if back.names[1] == "z" else x, *needed, blank(12))["y"]
        trial.adjoint(name, [(g, y)], [(dx, x)])


# --- All of them


def left_out() -> set[str]:
    """The kernels without a claim and without a reason; other formulas are proved with their rules."""
    loops = {name for name, kernel in KERNELS.items() if not isinstance(kernel, Elementwise)}
    return loops - set(RUN) - set(NOT_OVER_RESIDUES)


@claim(
    "kernels",
    "every kernel that ships is run by one of these claims, or computes no residues",
    category="check",
    size="all kernels",
    trusted=(),
)
def complete():
    if left_out() or not (set(RUN) | set(NOT_OVER_RESIDUES)) <= set(KERNELS):
        raise Refuted(f"no claim runs {', '.join(sorted(left_out()))}, or one runs a kernel that is gone")
    return Evidence(text="\n".join(f"{name}: {reason}" for name, reason in NOT_OVER_RESIDUES.items()))
