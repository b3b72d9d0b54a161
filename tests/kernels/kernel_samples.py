"""The table of kernel proofs: for each kernel, tiny inputs made of symbols, and the expected outputs.

A sample is a call (inputs, settings, blank outputs) and a function from the inputs to the expected outputs: the
definition (`tinytensor/core/reference.py`), and for a backward kernel SymPy's derivative of the forward formula.
`disagreements` runs the kernel's own source and names every entry that is not proved equal. The walk over all kernels,
the compiled builds and the planted mistakes use the same table.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from itertools import pairwise, permutations
from itertools import product as product_of
from unittest.mock import patch

import numpy as np
import sympy

from derivations.exact.reference import definition, matvec
from tinytensor.core.kernel import KERNELS, Kernel
from tinytensor.core.reference import drawn
from tinytensor.native.kernels.attention import attention_backward_scratch, attention_of_one_scratch, attention_scratch
from tinytensor.native.kernels.matmul import matmul_plan
from tinytensor.native.runtime.kernel import Elementwise
from tinytensor.symbolic import Symbolic, lift, symbols
from tinytensor.symbolic.exact.lifting import rebind
from tinytensor.symbolic.exact.scalars import CLOSE, ROUNDED, reading
from tinytensor.symbolic.exact.tensors import slopes_of, variables

SCRATCH = ("scratch", "packed_a", "lost")
# what exact scalars do not show: in these an exp is of a number <= 0 always, so that no float overflows
SHIFTED = {"softmax", "log_softmax", "reduce_logsumexp", "cross_entropy", "attention", "attention_of_one", "logsigmoid"}


@dataclass
class Sample:
    """One call of a kernel over symbols; `expected(*args)` gives the outputs by the names of their parameters."""

    args: tuple
    expected: Callable[..., dict]
    constants: dict = field(default_factory=dict)  # block sizes made small, so that a tiny array has several blocks
    fits_builds: bool = True  # has it room for the registers of the compiled build, too?
    built: tuple = ()  # the shape of the scratch that the compiled build needs, if it is another one

    @cached_property
    def answer(self) -> dict:
        """The expected output, which takes longer to find than the kernel's output."""
        return self.expected(*copies(self.args))


def copies(args: tuple) -> tuple:
    """Copies of the arguments, to be written to, in the same memory layout: columns together, one mask for all heads.

    An array that is given twice is copied once: a term that is the result, too.
    """
    made = {id(a): a.copy(order="K") for a in args if isinstance(a, np.ndarray) and a.flags.writeable}
    return tuple(made.get(id(a), a) for a in args)


def derivative(y: np.ndarray, g: np.ndarray, x: np.ndarray) -> np.ndarray:
    """d(sum of g y)/dx for each symbol of x, by the chain rule; 0 where x has a number."""
    slopes, result = slopes_of(y, g), np.full(np.shape(x), sympy.S.Zero, object)
    for index, value in variables(x).items():
        result[index] = slopes.get(value.expr, sympy.S.Zero)
    return result


def disagreements(kernel: Kernel, sample: Sample) -> list[str]:
    """Run the kernel's own source on a sample; return output entries not proved to be the expected ones.

    A launch is cut as the kernel says, mostly into one task for so few numbers; then, if the kernel's work may be cut,
    into three tasks. (Not with scratch, which has a part for each task: the sample gives it.)
    """
    return [line for tasks in tasks_tried(kernel, sample.args) for line in _disagreements(kernel, sample, tasks)]


def tasks_tried(kernel: Kernel, args: tuple) -> list[int]:
    """The numbers of tasks into which a launch is cut for a proof."""
    if isinstance(kernel, Elementwise):
        return [1]
    return [kernel.tasks(*args), *([3] if kernel.divisible and "scratch" not in kernel.names else [])]


def _disagreements(kernel: Kernel, sample: Sample, tasks: int) -> list[str]:
    expected, args = sample.answer, copies(sample.args)
    largest = [0.0]
    exp = Symbolic.exp
    with patch.object(Symbolic, "exp", lambda x: largest.append(x.witness) or exp(x)):
        lift(kernel, tasks, **sample.constants)(*args)
    outputs = dict(zip(kernel.names, args, strict=True))
    wrong = []
    for name, values in expected.items():
        values = np.asarray(values, object)
        assert values.shape == outputs[name].shape, (name, values.shape, outputs[name].shape)
        for at in np.ndindex(values.shape):
            got = outputs[name][at]
            if not same(got, values[at]):
                wrong.append(f"{kernel.name}: {name}{list(at)} is {got}, expected {values[at]}")
    for name, before, after in zip(kernel.names, sample.args, args, strict=True):
        if name not in expected and name not in SCRATCH and isinstance(before, np.ndarray) and changed(before, after):
            wrong.append(f"{kernel.name}: {name} was written to, and nothing is said about it")
    if kernel.name.removesuffix("_backward") in SHIFTED and max(largest) > CLOSE:
        wrong.append(f"{kernel.name}: exp of {max(largest)}, which grows with the input until it overflows")
    return wrong


def changed(before: np.ndarray, after: np.ndarray) -> bool:
    return any(a is not b if before.dtype == object else a != b for a, b in zip(before.flat, after.flat, strict=True))


def same(got, expected) -> bool:
    """Is an output proved equal to a formula (a scalar, or SymPy's expression in the same symbols)?"""
    if got is None:
        return False
    if not isinstance(got, Symbolic):
        return bool(got == expected)
    if isinstance(expected, sympy.Expr):
        expected = Symbolic(expected, got.witness)
    return got.equals(expected)


def interpreted(kernel: Kernel, args: tuple, constants: dict) -> None:
    """The kernel's source in plain Python on floats, its helpers too."""
    source = rebind(kernel.py_func, lambda code, name, value: constants.get(name, value))
    with np.errstate(all="ignore"):
        if isinstance(kernel, Elementwise):
            for at, values in zip(np.ndindex(args[-1].shape), np.broadcast(*args), strict=True):
                args[-1][at] = source(*values[:-1])
        else:
            for share in kernel.shares(args):
                source(*args, *share)


def float_disagreements(kernel: Kernel, sample: Sample) -> list[str]:
    """The same for a sample with NaN and infinity, which no proof covers: outputs that are not as expected."""
    args = copies(sample.args)
    with np.errstate(all="ignore"):
        expected = sample.answer
    interpreted(kernel, args, sample.constants)
    outputs = dict(zip(kernel.names, args, strict=True))
    difference = {
        name: f"{outputs[name].tolist()}, expected {np.asarray(value).tolist()}" for name, value in expected.items()
    }
    near = {name: np.allclose(outputs[name], value, 1e-12, 1e-12, equal_nan=True) for name, value in expected.items()}
    return [f"{kernel.name}: {name} is {difference[name]}" for name in expected if not near[name]]


# --------------------------------------------------------------------------------------------- building blocks


def sym(name: str, *shape, **options) -> np.ndarray:
    """An array of symbols; without a shape, one symbol."""
    values = symbols(name, *shape, **options)._data
    return values if shape else values[()]


def blank(*shape, dtype=object) -> np.ndarray:
    """An output or scratch array before the call: None everywhere, or numbers that are no index and no result."""
    return np.empty(shape, object) if dtype is object else np.full(shape, -7, np.int64).astype(dtype)


def index(*values) -> np.ndarray:
    return np.array(values, np.int64)


SAMPLES: dict[str, list[Sample]] = {}
SPECIAL: dict[str, list[Sample]] = {}  # on floats: NaN and infinity, which exact numbers do not have


def add(kernel: str, expected: Callable[..., dict], *calls: tuple, **options) -> None:
    SAMPLES.setdefault(kernel, []).extend(Sample(args, expected, **options) for args in calls)


# -------------------------------------------------------------------------------------------------- elementwise
# A formula is its own definition, and that the rules give its derivative is proved of the operation that it belongs to.
# The rest are formulas with another definition: NAME_backward is g times the derivative of NAME.

X, LESS, MORE = (sym(n, witness=Fraction(w)) for n, w in (("x", "3/4"), ("u", "-1/2"), ("v", "5/3")))
G = sym("g", witness=Fraction("-7/5"))


def constants_of(kernel: Kernel) -> list[Symbolic]:
    """The constants of a formula, as the exact numbers that they round."""
    with reading(ROUNDED):
        return [Symbolic(value) for value in kernel.py_func.__defaults__ or ()]


def value_of(kernel: Kernel, *inputs) -> Symbolic:
    """The result of a formula."""
    y = blank()
    lift(kernel)(*inputs, *constants_of(kernel), y)
    return y[()]


def back_of(kernel: Kernel, point: Symbolic) -> Callable[..., dict]:
    return lambda *_: {"y": G.expr * sympy.diff(value_of(kernel, point).expr, point.expr)}


for name, kernel in KERNELS.items():
    forward = KERNELS.get(name.removesuffix("_backward"))
    if isinstance(kernel, Elementwise) and name.endswith("_backward"):
        for point in (X, LESS, MORE):  # it is given x, or the z that came of it
            saved = value_of(forward, point) if kernel.names[1] == "z" else point
            add(name, back_of(forward, point), (G, saved, *constants_of(kernel), blank()))
add("relu_backward", lambda *_: {"y": 0}, (G, Symbolic(0), blank()))  # the subgradient at 0 is 0
for point in (X, LESS, MORE):  # the formula is another one, in which no exp overflows
    add("logsigmoid", lambda x, _: {"y": -sympy.log(1 + sympy.exp(-x.expr))}, (point, blank()))

# --------------------------------------------------------------------------------------- reductions and scans

CUBE = sym("x", 2, 9, 2)  # (outer, n, inner): nine rows are a block of eight and a rest
ROWS = sym("x", 2, 5, 1)


add(
    "reduce_sum",
    definition("reduce_sum"),
    (CUBE, blank(2, 2)),
    (ROWS, blank(2, 1)),
    (sym("x", 2, 0, 2), np.full((2, 2), None)),
)
LONG = np.array([Symbolic(Fraction(1, 3 * j + 1)) for j in range(514)], object).reshape(1, 514, 1)
add("reduce_sum", lambda x, y: {"y": [[sum(Fraction(1, 3 * j + 1) for j in range(514))]]}, (LONG, blank(1, 1)))
add(
    "reduce_squares",
    lambda x, y: definition("reduce_sum")(x * x, y),
    (CUBE, blank(2, 2)),
    (ROWS, blank(2, 1)),
    (sym("x", 2, 0, 2), np.full((2, 2), None)),
)
add(
    "reduce_squares",
    lambda x, y: {"y": [[sum(Fraction(1, (3 * j + 1) ** 2) for j in range(514))]]},
    (LONG, blank(1, 1)),
)
add(
    "reduce_prod",
    lambda x, y: {"y": x.prod(1)},
    (sym("x", 2, 3, 2), blank(2, 2)),
    (sym("x", 1, 0, 2), blank(1, 2)),
    (ROWS, blank(2, 1)),
    (sym("x", 2, 1, 1), blank(2, 1)),
    (sym("x", 2, 0, 1), blank(2, 1)),
)
add(
    "reduce_logsumexp",
    lambda x, y: {"y": np.log(np.exp(x).sum(1))},
    (sym("x", 2, 3, 2), blank(2, 2)),
    (ROWS, blank(2, 1)),
)
for order in permutations((-1, 0, 1)):  # every path of a maximum of three
    for inner in (1, 2):
        x3 = sym("x", 1, 3, inner, witness=np.array(order).reshape(1, 3, 1) * np.array([[[1, -1][:inner]]]))

        def extreme(x, y, index, arg):
            at = arg([[[e.witness for e in row] for row in block] for block in x.tolist()], 1)
            return {"y": np.take_along_axis(x, at[:, None], 1)[:, 0], "index": at}

        call = (x3, blank(1, inner), blank(1, inner, dtype=np.int64))
        add("reduce_max", lambda *args: extreme(*args, np.argmax), call)
        add("reduce_min", lambda *args: extreme(*args, np.argmin), call)
for inner in (1, 2):  # of equal ones the first counts
    tied = np.repeat(np.array([LESS, X, X, LESS], object), inner).reshape(1, 4, inner)
    outputs = blank(1, inner), blank(1, inner, dtype=np.int64)
    add("reduce_max", lambda x, y, index: {"y": x[:, 1], "index": 0 * index + 1}, (tied, *outputs))
    add("reduce_min", lambda x, y, index: {"y": x[:, 0], "index": 0 * index}, (tied, *outputs))
TRUTH = np.array([[[0, 0], [0, 1], [0, 1]], [[1, 1], [1, 1], [0, 1]]], bool)
add("reduce_any", lambda x, y: {"y": x.any(1)}, (TRUTH, blank(2, 2, dtype=bool)))
add("reduce_all", lambda x, y: {"y": x.all(1)}, (TRUTH, blank(2, 2, dtype=bool)))
add(
    "cumsum",
    definition("cumsum"),
    *(
        (sym("x", *shape), reverse, blank(*shape), blank(shape[0], shape[2]))
        for shape in ((2, 3, 2), (2, 5, 1))
        for reverse in (0, 1)
    ),
)


def fractions(*shape) -> np.ndarray:
    """Different fractions, of which long sums stay short."""
    return np.array([Symbolic(Fraction(1, j % 7 + 2) + j) for j in range(math.prod(shape))], object).reshape(shape)


def in_parts(x, y):
    """The sums of parts of x, which begin at each eighth row at most."""
    eighths, parts = -(-x.shape[1] // 8), y.shape[1]
    ends = [min(8 * (eighths * p // parts), x.shape[1]) for p in range(parts + 1)]
    return {"y": np.stack([x[:, begin:end].sum(1) + Symbolic(0) for begin, end in pairwise(ends)], 1)}


for shape, parts in (((2, 19, 2), 2), ((1, 35, 1), 3), ((2, 5, 1), 1), ((1, 5, 2), 2), ((0, 3, 2), 2), ((1, 0, 1), 1)):
    call = fractions(*shape), blank(shape[0], parts, shape[2])
    add("partial_sum", in_parts, call)
    add("partial_squares", lambda x, y: in_parts(x * x, y), call)
for shape in ((1, 75, 1), (2, 33, 1), (1, 19, 5), (1, 8, 2), (1, 2, 2), (1, 0, 2)):  # several blocks, and a rest
    for reverse in (0, 1):
        call = fractions(*shape), reverse, blank(*shape), blank(shape[0], shape[2])
        few = {"SHORT": 2, "FEW": 3, "BLOCK": 35, "BYTES": 16}
        add("cumsum", definition("cumsum"), call, constants=few, fits_builds=False)
for shape in ((1, 5, 2), (1, 3, 4)):
    call = sym("x", *shape), blank(1, shape[2])
    few = {"ROWS": 2, "BYTES": 16}
    add("reduce_logsumexp", lambda x, y: {"y": np.log(np.exp(x).sum(1))}, call, constants=few, fits_builds=False)

# ---------------------------------------------------------------------------------------- indexing, sorting

TOKENS = index(2, 0, 2, 1)  # one of them twice
BEYOND = (
    index(2, 4, 0, 1),
    index(2, -1, 0, 1),
)  # one number is none of the 4 rows': what it reads is 0, and it adds nothing
FINE = index(0, 0)


for tokens in (TOKENS, *BEYOND):
    add("take", definition("take"), (sym("x", 4, 2), tokens, blank(4, 2), FINE))
    add("scatter_add", definition("scatter_add"), (sym("g", 4, 2), tokens, blank(4, 2)))


for tokens in (TOKENS, *BEYOND):
    add("write_rows", definition("write_rows"), (sym("x", 2, 4, 2), tokens, sym("y", 2, 4, 2), FINE))
INDICES = index([[0, 2], [1, 2], [0, 0], [1, 2]]).reshape(1, 4, 2)


def gathered_back(g, index, dx):
    x = sym("x", *dx.shape)
    return {"dx": derivative(definition("gather")(x, index, None, None)["y"], g, x)}


for wrong in (2, 3, -1):
    indices = INDICES.copy()
    indices[0, 1, 1] = wrong
    add("gather", definition("gather"), (sym("x", 1, 3, 2), indices, blank(1, 4, 2), FINE))
    add("gather_backward", gathered_back, (sym("g", 1, 4, 2), indices, blank(1, 3, 2)))
SORTED = sym("x", 2, 5, witness=[[3, 1, 2, 5, 4], [1, 2, -3, 0, -1]])
SORTED[0, 3] = SORTED[0, 0]  # equal elements keep their order


def sorted_rows(x, descending, y, scratch):
    keys = np.array([[-e.witness if descending else e.witness for e in row] for row in x])
    return {"y": np.argsort(keys.reshape(x.shape), 1, kind="stable")}


for descending in (0, 1):
    call = (SORTED, descending, blank(2, 5, dtype=np.int64), blank(2, 5, dtype=np.int64))
    add("argsort", sorted_rows, call)
WEIGHTS = sym("p", 4, 3, witness=[[1, 2, 3], [1, 2, 3], [1, 2, 3], [1, 2, 3]])
WEIGHTS[3, 0] = Symbolic(0)
DRAWS = sym("u", 4, witness=[Fraction(1, 12), Fraction(5, 12), Fraction(11, 12), Fraction(1, 12)])
add("sample_rows", lambda p, u, y: {"y": [0, 1, 2, 1]}, (WEIGHTS, DRAWS, blank(4, dtype=np.int64)))

for needed, bad in ((2, FINE), (3, index(1, 2))):  # row 3 has two that are positive
    add("check_weights", lambda p, needed, _, bad=bad: {"bad": bad}, (WEIGHTS, needed, FINE))
NEGATIVE = WEIGHTS.copy()
NEGATIVE[1, 1] = -NEGATIVE[1, 1]
add("check_weights", lambda p, needed, bad: {"bad": index(1, -1)}, (NEGATIVE, 1, FINE))

# ------------------------------------------------------------------------------------------- softmax and loss


PAIRS = {"BYTES": 16}  # registers of two numbers, so that three of them are a register and a rest
ONES = {"BYTES": 8}  # registers of one, so that three are a pair of registers and a rest
for n in (1, 3):
    a, b = sym("x", 2, n), sym("g", 2, n)
    add("softmax", definition("softmax"), (a, blank(2, n)), constants=PAIRS)
    add("log_softmax", definition("log_softmax"), (a, blank(2, n)), constants=PAIRS)
    back = lambda g, y, dx, a=a: {"dx": derivative(y, g, a)}  # noqa: E731
    for constants in (PAIRS, ONES):
        add("softmax_backward", back, (b, definition("softmax")(a)["y"], blank(2, n)), constants=constants)
    add("log_softmax_backward", back, (b, definition("log_softmax")(a)["y"], blank(2, n)), constants=PAIRS)
for order in permutations((-1, 0, 1)):  # every path of the row's maximum
    call = (sym("x", 1, 3, witness=[order]), blank(1, 3))
    add("softmax", definition("softmax"), call, constants=PAIRS)
add("softmax", definition("softmax"), (sym("x", 1, 3), blank(1, 3)))  # a rest of the machine's own registers

TARGETS, IGNORED = index(2, -100, 0), -100
UNKNOWN = index(2, 3, 0), index(2, -1, 0)  # one target is none of the 3 classes: its row counts as ignored
SMOOTHING = sym("s", witness=Fraction(1, 10))


def cross_entropy_back(g, x, target, lse, ignore_index, smoothing, dx):
    return {"dx": derivative(definition("cross_entropy")(x, target, ignore_index, smoothing)["losses"], g, x)}


LOGITS = sym("x", 3, 3)
CASES = [(TARGETS, IGNORED, Symbolic(0)), *((t, IGNORED, SMOOTHING) for t in (TARGETS, *UNKNOWN))]
CASES += [(index(2, 1, 0), 1, SMOOTHING)]  # the ignored index may be a class, too
for settings in CASES:
    add("cross_entropy", definition("cross_entropy"), (LOGITS, *settings, blank(3), blank(3), FINE), constants=PAIRS)
    lse = definition("cross_entropy")(LOGITS, *settings)["lse"]
    call = (sym("g", 3), LOGITS, settings[0], lse, *settings[1:], blank(3, 3))
    add("cross_entropy_backward", cross_entropy_back, call, constants=PAIRS)


add("mean_of_counted", definition("mean_of_counted"), (sym("l", 3), TARGETS, IGNORED, blank(1), blank(1)))

# ------------------------------------------------------------------------------------------------------ norms

NONE = np.empty(0, object)
EPS = sym("e", witness=Fraction(1, 7))


def mean_and_rstd(x):
    """The values that layer_norm keeps for its backward pass."""
    y = definition("layer_norm")(x, NONE, NONE, EPS)
    return y["mean"], y["rstd"]


def parts(y, g, p, blocks):
    """The derivative by p (D,), for each block of rows."""
    ends = [len(y) * block // blocks for block in range(blocks + 1)]
    return [derivative(y[i:j], g[i:j], p) for i, j in pairwise(ends)]


def layer_norm_back(g, x, weight, mean, rstd, dx, partial):
    _, blocks, size = partial.shape
    y = definition("layer_norm")(x, weight, NONE, EPS)["y"]
    w, b = sym("u", size), sym("b", size)  # what the parts are derivatives by, whatever the weight is in dx
    h = definition("layer_norm")(x, w, b, EPS)["y"] if size else None
    sums = [parts(h, g, w, blocks), parts(h, g, b, blocks)][: len(partial)] if size else np.empty((2, blocks, 0))
    return {"dx": derivative(y, g, x), "partial": sums}


def rms_norm_back(g, x, weight, rstd, dx, partial):
    _, blocks, size = partial.shape
    y = definition("rms_norm")(x, weight, EPS)["y"]
    w = sym("u", size)
    sums = [parts(definition("rms_norm")(x, w, EPS)["y"], g, w, blocks)] if size else np.empty((1, blocks, 0))
    return {"dx": derivative(y, g, x), "partial": sums}


R, D = 3, 3  # with D = 2 and no eps, a normed row is (1, -1) whatever x is
N, NG = sym("x", R, D), sym("g", R, D)
for W, B in ((sym("w", D), sym("b", D)), (NONE, NONE)):
    for constants in (PAIRS, ONES):
        add(
            "layer_norm", definition("layer_norm"), (N, W, B, EPS, blank(R, D), blank(R), blank(R)), constants=constants
        )
        add("rms_norm", definition("rms_norm"), (N, W, EPS, blank(R, D), blank(R)), constants=constants)
    mean, rstd = mean_and_rstd(N)
    for dtypes, blocks, size in ((2, 1, D), (2, 2, D), (1, 2, D), (2, 2, 0)):
        outputs = blank(R, D), blank(dtypes, blocks, size)
        add("layer_norm_backward", layer_norm_back, (NG, N, W, mean, rstd, *outputs), constants=PAIRS)
    outputs = blank(R, D), blank(2, 1, D)
    add("layer_norm_backward", layer_norm_back, (NG, N, W, mean, rstd, *outputs), constants=ONES)
    rstd = definition("rms_norm")(N, NONE, EPS)["rstd"]
    for blocks, size in ((1, D), (2, D), (2, 0)):
        outputs = blank(R, D), blank(1, blocks, size)
        add("rms_norm_backward", rms_norm_back, (NG, N, W, rstd, *outputs), constants=PAIRS)

# --------------------------------------------------------------------------------------------- matrix products


def product(a, b, term=None, relu=0, block=None, deep=None, copied=False, **constants):
    """A sample: `block` cuts y into blocks of so many rows and columns, which four tasks share; their panels, and
    unfinished sums, have `deep` rows in all. If `copied`, there is room for blocks of a."""
    n, M, K, N = *a.shape, b.shape[2]
    rows, columns, scratch, _ = matmul_plan(n, M, K, N, 4)  # a panel for registers as wide as those of any sample
    rows, columns = block or (rows, columns)
    term = np.empty((n, 0, 0), object) if term is None else term
    tasks, copy = 4 if block else 1, blank(0, 0, 0)
    if copied:
        rows_of_panel = -(-min(K, constants["KC"]) // 2) * 2  # registers have two numbers
        tiles = -(-rows // constants["A_ROWS"]) * rows_of_panel, 4
        copy = blank(tasks, *(tiles if a.strides[1] == a.itemsize else (rows, rows_of_panel + 1)))
    call = a, b, term, relu, rows, columns, blank(n, M, N), blank(tasks, deep or scratch[1], scratch[2]), copy
    add("matmul", definition("matmul"), call, constants=constants, fits_builds=deep is None and not copied)


for n, M, K in ((1, 3, 0), (0, 2, 2), (2, 1, 5), (1, 5, 9), (2, 2, 16), (1, 3, 40), (1, 2, 19)):
    for a in (fractions(n, M, K), fractions(n, K, M).transpose(0, 2, 1)):
        call = a, fractions(n, K), blank(n, M)
        add("matvec", matvec, call, constants={"BLOCK": 16, "BYTES": 16}, fits_builds=False)
        add("matvec", matvec, call, fits_builds=n * K > 0)  # an empty array has no itemsize among its strides

# Registers of two numbers, tiles of two rows, panels of two rows of b: tiles and their edges, sums in several pieces.
SMALL = {"BYTES": 16, "MR": 2, "KC": 2}
# Two tiles beside each other in a copy, or one of three rows (a copy has four numbers in a row); two panels in a group.
COPIED = SMALL | {"A_ROWS": 4, "AT_ONCE": 2, "GROUP": 2}
THREES = COPIED | {"MR": 3, "A_ROWS": 3, "KC": 3}
A, B, BIAS = sym("a", 2, 5, 5), sym("b", 2, 5, 7), sym("c", 7)
for left in (A, sym("a", 2, 5, 5).transpose(0, 2, 1)):
    for right in (B, sym("b", 2, 7, 5).transpose(0, 2, 1), sym("b", 5, 7, 2).transpose(2, 0, 1)):
        product(left, right)
        product(left, right, block=(4, 4), **SMALL)
LONG = sym("a", 2, 7, 5)
for left in (LONG, sym("a", 2, 5, 7).transpose(0, 2, 1)):
    for right in (sym("b", 1, 5, 14), sym("b", 1, 14, 5).transpose(0, 2, 1)):
        product(left[:1], right, block=(6, 12), deep=4 + 3 * 6, copied=True, **COPIED)  # 4 rows of panels, and the sums
    product(left, sym("b", 5, 14, 2).transpose(2, 0, 1), block=(6, 12), deep=40, copied=True, **COPIED)
    for deep in (16, 3, 2):  # room for panels of a group, and for one alone; sums stay in y
        product(left, sym("b", 2, 5, 7), block=(4, 8), deep=deep, copied=True, **COPIED, MIN_ROWS=0, SPAN=0)
    product(left, sym("b", 2, 5, 7), block=(6, 8), deep=40, copied=True, **THREES)
    product(left, sym("b", 2, 5, 7), block=(6, 8), deep=40, copied=True, **THREES, NEAR=0)
for HIGH in (3, 4):  # of five rows two are left over, for which there is a tile; of seven three, which fill a whole one
    product(sym("a", 1, 2 * HIGH - 1, 3), B[:1, :3], **{**SMALL, "MR": HIGH, "MR_EDGE": 2})
product(A, B, block=(4, 4), **SMALL, MIN_ROWS=0, SPAN=0)  # b is packed though its rows lie in one piece
product(A, B, block=(4, 4), **SMALL, NEAR=0)  # the memory is asked for what comes next
for relu in (0, 1):
    product(A[:1], B[:1], np.broadcast_to(BIAS, (1, 5, 7)), relu)
    product(A, B, sym("c", 2, 5, 7), relu, block=(4, 4), **SMALL)
product(sym("a", 1, 1, 3), sym("b", 1, 3, 40))  # one row alone, and more columns than a tile has
product(sym("a", 1, 1, 3), sym("b", 1, 3, 5))  # and fewer
product(sym("a", 1, 1, 3), sym("b", 1, 3, 19), BYTES=16)  # one row alone, eight registers at a time
product(sym("a", 1, 2, 0), sym("b", 1, 0, 2))  # sums of nothing


# --------------------------------------------------------------------------------------------------- attention


def attention_back(g, q, k, v, mask, y, lse, scale, is_causal, *_):
    return {"dq": derivative(y, g, q), "dk": derivative(y, g, k), "dv": derivative(y, g, v)}


SCALE = sym("s", witness=Fraction(2, 3))
NO_MASK = np.empty((0, 0, 0, 0), bool)
MASK = np.array([[[[1, 0], [0, 0], [1, 1]]]], bool)  # the second query may see nothing
HOLES = np.array([[[[1, 0, 1], [0, 1, 1], [1, 1, 1]]]], bool)  # the first two do not see all keys up to their last


def scratch(shape: Callable, narrow: dict, tasks: int, *sizes) -> np.ndarray:
    """Scratch for so many tasks, of exactly the size that such squares need."""
    return blank(tasks, rebind(shape, lambda code, name, value: narrow.get(name, value))(*sizes)[1])


def add_attention(B, H, C, M, K, Kv, mask, is_causal, tasks=1, **narrow):
    """`narrow`: squares so small that three keys fill more than one, with few columns at a time."""
    narrow = {"WIDTH": 4, "LANES": 4} | narrow
    q, k, v, g = sym("q", B, H, C, K), sym("k", B, H, M, K), sym("v", B, H, M, Kv), sym("g", B, H, C, Kv)
    sizes = B, H, C, M, K, Kv
    outputs = blank(B, H, C, Kv), blank(B, H, C), scratch(attention_scratch, narrow, tasks, *sizes)
    call = (q, k, v, mask, SCALE, is_causal)
    add(
        "attention", definition("attention"), (*call, *outputs), constants=dict(narrow), built=attention_scratch(*sizes)
    )
    y, lse = definition("attention")(*call).values()
    room = scratch(attention_backward_scratch, narrow, tasks, *sizes)
    call = (g, q, k, v, mask, y, lse, SCALE, is_causal, blank(*q.shape), blank(*k.shape), blank(*v.shape), room)
    narrow.pop("COLUMNS", None)
    narrow |= {"HALF": narrow["LANES"] // 2, "NEAR": 0}  # the memory is asked for what comes next
    add("attention_backward", attention_back, call, constants=narrow, built=attention_backward_scratch(*sizes))


def never(zeros):
    """Replaces `finite`: exact numbers always are, so the path for others would not be proved."""
    return False


add_attention(1, 2, 2, 2, 1, 1, NO_MASK, 0)
add_attention(1, 1, 2, 2, 2, 3, NO_MASK, 1)
for K, Kv in ((1, 4), (2, 5), (3, 1), (5, 0)):  # less than half a register, half, more than one
    add_attention(1, 1, 3, 3, K, Kv, NO_MASK, 1, finite=never)
    add_attention(1, 1, 3, 2, K, Kv, MASK, 0, finite=never)
add_attention(1, 1, 3, 3, 2, 5, HOLES, 0, WIDTH=2, LANES=2, COLUMNS=2, finite=never)
add_attention(1, 1, 2, 2, 5, 1, NO_MASK, 0, WIDTH=2, LANES=4)  # more columns than lanes, and half a square beyond


def add_attention_of_one(B, H, M, K, Kv, mask, is_causal, tasks=1):
    narrow = {"WIDTH": 2, "LANES": 2}
    call = (sym("q", B, H, 1, K), sym("k", B, H, M, K), sym("v", B, H, M, Kv), mask, SCALE, is_causal)
    sizes = B, H, M, K, Kv
    outputs = blank(B, H, 1, Kv), blank(B, H, 1), scratch(attention_of_one_scratch, narrow, tasks, *sizes)
    add(
        "attention_of_one",
        definition("attention"),
        (*call, *outputs),
        constants=narrow,
        built=attention_of_one_scratch(*sizes),
    )


add_attention_of_one(2, 2, 5, 3, 3, NO_MASK, 0)
add_attention_of_one(1, 1, 3, 1, 1, NO_MASK, 1)
add_attention_of_one(1, 2, 3, 2, 1, np.array([[[[0, 1, 1]], [[1, 0, 1]]]], bool), 0)
add_attention_of_one(1, 1, 2, 1, 1, np.zeros((1, 1, 1, 2), bool), 0)

# --------------------------------------------------------------------------------------------------- optimizers

P, PG, MOMENT, SQUARE = sym("p", 3), sym("g", 3), sym("m", 3), sym("v", 3, positive=True)
LR, MU, DAMP, DECAY, B1, B2, EPSILON = (
    sym(n, witness=Fraction(w, 100)) for n, w in zip("lmdwxyz", (10, 90, 20, 5, 80, 95, 1), strict=True)
)


def hyper(*values) -> np.ndarray:
    return np.array([Symbolic(value) for value in values], object)


for maximize, scale in ((0, NONE), (1, sym("f", 1)), (0, sym("f", 3))):
    add("sgd", definition("sgd"), (P, PG, NONE, scale, hyper(LR, 0, 0, DECAY, 0, maximize, 0)))
    for nesterov, first in ((0, 0), (0, 1), (1, 0)):
        add("sgd", definition("sgd"), (P, PG, MOMENT, scale, hyper(LR, MU, DAMP, DECAY, nesterov, maximize, first)))


for decoupled, maximize, scale in ((0, 0, NONE), (1, 0, sym("f", 1)), (1, 1, sym("f", 3)), (0, 1, NONE)):
    call = (P, PG, MOMENT, SQUARE, scale, hyper(LR, B1, B2, EPSILON, DECAY, decoupled, 2, maximize))
    add("adam", definition("adam"), call)
add(
    "sumsq",
    lambda x, parts: {"parts": [x[0] ** 2, x[1] ** 2 + x[2] ** 2, x[3] ** 2 + x[4] ** 2]},
    (sym("x", 5), blank(3)),
)


# ------------------------------------------------------------------------------------------------------- chance

call = (index(7, 3, 2), blank(3, dtype=np.int64))
add("next_draw", lambda stream, at: {"stream": index(7, 4, 2), "at": index(7, 3, 2)}, call)


add("uniform", definition("uniform"), (index(7, 3, 2), 8, sym("s"), blank(5)))


for threshold in (0, 1 << 31, 1 << 32):  # none, some, all
    add("drop", definition("drop"), (sym("x", 5), index(7, 3, 2), threshold, sym("s"), blank(5)))

# ------------------------------------------------------------------------------------- nothing, one, and several
# Every loop of every kernel is left out, is run once, and is run several times: test_paths.py counts.

ZERO, ONE_ROW = Symbolic(0), (0, 1, 2)
for shape in (
    (0, 3, 2),
    (1, 0, 2),
    (1, 1, 1),
    (1, 2, 1),
    (1, 2, 2),
    (2, 19, 2),
    (1, 8, 2),
    (1, 16, 2),
    (1, 9, 0),
    (3, 0, 1),
    (1, 1, 0),
):
    outer, n, inner = shape
    x = sym("x", *shape)
    add("reduce_sum", lambda x, y: {"y": x.sum(1) + ZERO}, (x, blank(outer, inner)))
    add("reduce_squares", lambda x, y: {"y": (x * x).sum(1) + ZERO}, (x, blank(outer, inner)))
    add("reduce_prod", lambda x, y: {"y": x.prod(1) * Symbolic(1)}, (x, blank(outer, inner)))
    truth = np.arange(outer * n * inner).reshape(shape) % 3 == 1
    add("reduce_any", lambda x, y: {"y": x.any(1)}, (truth, blank(outer, inner, dtype=bool)))
    add("reduce_all", lambda x, y: {"y": x.all(1)}, (truth, blank(outer, inner, dtype=bool)))
    for reverse in (0, 1):
        add("cumsum", definition("cumsum"), (x, reverse, blank(*shape), blank(outer, inner)))
    sums = (np.exp(x).sum(1) + ZERO).reshape(outer, inner)
    logs = np.array([s.log() for s in sums.flat], object).reshape(sums.shape)
    call = (sym("x", *shape), blank(outer, inner))
    add("reduce_logsumexp", lambda x, y, logs=logs: {"y": logs}, call)
for shape in ((0, 0, 2), (1, 1, 1), (2, 1, 2), (2, 2, 0), (1, 2, 1), (1, 9, 1), (3, 2, 2)):
    outer, n, inner = shape
    rising = sym("x", *shape, witness=np.arange(outer * n * inner).reshape(shape))
    outputs = blank(outer, inner), blank(outer, inner, dtype=np.int64)
    add(
        "reduce_max",
        lambda x, y, index: {"y": x[:, -1:].sum(1), "index": 0 * index + x.shape[1] - 1},
        (rising, *outputs),
    )
    add("reduce_min", lambda x, y, index: {"y": x[:, :1].sum(1), "index": 0 * index}, (rising, *outputs))
for peak, inner in product_of(range(9), (1, 2)):  # wherever the largest, or the least, stands
    heights = np.where(np.arange(9) == peak, 100, np.arange(9) % 4 * 10 + np.arange(9)).reshape(1, 9, 1)
    x9 = sym("x", 1, 9, inner, witness=heights * np.ones((1, 1, inner), int))
    expected = {"y": x9[:, peak], "index": np.full((1, inner), peak)}
    outputs = blank(1, inner), blank(1, inner, dtype=np.int64)
    add("reduce_max", lambda *_, expected=expected: expected, (x9, *outputs))
    deep = sym("x", 1, 9, inner, witness=-heights * np.ones((1, 1, inner), int))
    add("reduce_min", lambda *_, expected={**expected, "y": deep[:, peak]}: expected, (deep, *outputs))
for R, D in ((0, 2), (1, 1), (5, 0), (7, 1)):
    rows = index(*(r % 5 for r in range(R)))  # the fifth is none of the table's
    add("take", definition("take"), (sym("x", 4, D), rows, blank(R, D), FINE))
    add("scatter_add", definition("scatter_add"), (sym("g", R, D), rows, blank(4, D)))
for O, R, D in ((0, 1, 1), (1, 0, 2), (1, 1, 1), (2, 1, 0)):
    add("write_rows", definition("write_rows"), (sym("x", O, R, D), index(*ONE_ROW[:R]), sym("y", O, 4, D), FINE))
for V in (0, 1, 2):  # of a table without rows nothing is read, and nothing is added to it
    add("scatter_add", definition("scatter_add"), (sym("g", 0, 2), index(), blank(V, 2)))
for O, N, J, I in ((0, 2, 1, 1), (2, 3, 0, 2), (1, 1, 1, 1), (3, 2, 2, 0), (3, 2, 2, 1)):
    indices = np.arange(O * J * I).reshape(O, J, I) % N
    add("gather", definition("gather"), (sym("x", O, N, I), indices, blank(O, J, I), FINE))
    add("gather_backward", gathered_back, (sym("g", O, J, I), indices, blank(O, N, I)))
add("gather_backward", gathered_back, (sym("g", 2, 0, 2), np.empty((2, 0, 2), np.int64), blank(2, 0, 2)))
for R, D in ((0, 2), (1, 1), (4, 0), (2, 2)):
    falling = sym("x", R, D, witness=-np.arange(R * D).reshape(R, D))
    add("argsort", sorted_rows, (falling, 0, blank(R, D, dtype=np.int64), blank(R, D, dtype=np.int64)))
    drawn_first = {"y": index(*[0 if D else -1] * R)}
    weights, low = sym("p", R, D, witness=np.ones((R, D), int)), sym("u", R, witness=np.full(R, Fraction(1, 100)))
    add("sample_rows", lambda p, u, y, e=drawn_first: e, (weights, low, blank(R, dtype=np.int64)))
    flawed = index(1, 0) if R and not D else FINE
    add("check_weights", lambda p, needed, _, bad=flawed: {"bad": bad}, (weights, 1, FINE))

for R, D in ((0, 3), (2, 0), (1, 2), (4, 5), (1, 8), (1, 19)):  # registers of two: none, one, several, many
    a, b = sym("x", R, D), sym("g", R, D)
    add("softmax", definition("softmax"), (a, blank(R, D)), constants=PAIRS)
    add("log_softmax", definition("log_softmax"), (a, blank(R, D)), constants=PAIRS)
    if R * D <= 8:  # two registers at a time, or one
        slopes = lambda g, y, dx, a=a: {"dx": derivative(y, g, a)}  # noqa: E731
        add("softmax_backward", slopes, (b, definition("softmax")(a)["y"], blank(R, D)), constants=PAIRS)
        add("log_softmax_backward", slopes, (b, definition("log_softmax")(a)["y"], blank(R, D)), constants=PAIRS)

wide = (11, (9,)), (19, (17,))  # four registers at a time, twice too
for V, targets in ((0, ()), (1, (0,)), (2, (1, 0)), (4, (3, 0)), (5, (1,)), *wide):  # registers of two again
    R, x, target = len(targets), sym("x", len(targets), V), index(*targets)
    for smoothing in (Symbolic(0), SMOOTHING):
        settings = target, IGNORED, smoothing
        add("cross_entropy", definition("cross_entropy"), (x, *settings, blank(R), blank(R), FINE), constants=PAIRS)
        if V != 5:
            lse = definition("cross_entropy")(x, *settings)["lse"]
            call = (sym("g", R), x, target, lse, IGNORED, smoothing, blank(R, V))
            add("cross_entropy_backward", cross_entropy_back, call, constants=PAIRS)
call = (index(IGNORED), IGNORED, Symbolic(0))  # no class at all: no target can be one
add("cross_entropy", definition("cross_entropy"), (sym("x", 1, 0), *call, blank(1), blank(1), FINE), constants=PAIRS)
call = (sym("g", 1), sym("x", 1, 0), call[0], blank(1), *call[1:], blank(1, 0))
add("cross_entropy_backward", lambda *args: {"dx": args[-1]}, call, constants=PAIRS)
lone = (sym("x", 1, 1), index(IGNORED), np.array([ZERO]), IGNORED, Symbolic(0), blank(1, 1))
add("cross_entropy_backward", lambda *_: {"dx": [[0]]}, (sym("g", 1), *lone), constants=PAIRS)
add("mean_of_counted", definition("mean_of_counted"), (sym("l", 1), index(0), IGNORED, blank(1), blank(1)))

for R, D in ((0, 3), (1, 1), (2, 2), (4, 2), (1, 4)):  # two registers of one at a time
    x, g, w, b = sym("x", R, D), sym("g", R, D), sym("w", D), sym("b", D)
    add("layer_norm", definition("layer_norm"), (x, w, b, EPS, blank(R, D), blank(R), blank(R)), constants=ONES)
    add("rms_norm", definition("rms_norm"), (x, w, EPS, blank(R, D), blank(R)), constants=ONES)
    blocks = 2 if R > 1 else 1
    mean, rstd = mean_and_rstd(x) if R else (blank(0), blank(0))
    outputs = blank(R, D), blank(2, blocks, D)
    add("layer_norm_backward", layer_norm_back, (g, x, w, mean, rstd, *outputs), constants=ONES)
    rstd = definition("rms_norm")(x, NONE, EPS)["rstd"] if R else blank(0)
    outputs = blank(R, D), blank(1, blocks, D)
    add("rms_norm_backward", rms_norm_back, (g, x, w, rstd, *outputs), constants=ONES)

add("sgd", definition("sgd"), (P, PG, NONE, NONE, hyper(LR, 0, 0, 0, 0, 0, 0)))
for n in (0, 1):
    p, g, m, v = sym("p", n), sym("g", n), sym("m", n), sym("v", n, positive=True)
    add("sgd", definition("sgd"), (p, g, m, NONE, hyper(LR, MU, DAMP, DECAY, 0, 0, 0)))
    add("adam", definition("adam"), (p, g, m, v, NONE, hyper(LR, B1, B2, EPSILON, DECAY, 1, 2, 0)))
    add("uniform", definition("uniform"), (index(7, 3, 2), 8, sym("s"), blank(n)))
    add("drop", definition("drop"), (sym("x", n), index(7, 3, 2), 1 << 31, sym("s"), blank(n)))
for n, count in ((0, 1), (1, 1), (1, 2)):
    squares = lambda x, parts: {"parts": [ZERO] * (parts.size - 1) + [(x**2).sum() + ZERO]}  # noqa: E731
    add("sumsq", squares, (sym("x", n), blank(count)))

for sizes in ((0, 1, 1, 1, 1, 1), (1, 1, 1, 1, 1, 1), (2, 1, 1, 2, 0, 1), (1, 1, 3, 1, 1, 0), (1, 2, 2, 5, 1, 4)):
    add_attention(*sizes, NO_MASK, 0, WIDTH=2, LANES=2, COLUMNS=2)
for C, M in ((0, 2), (2, 0)):
    add_attention(1, 1, C, M, 1, 1, NO_MASK, 0, WIDTH=2, LANES=2)
add_attention(1, 1, 2, 2, 1, 1, np.zeros((1, 1, 2, 2), bool), 0, WIDTH=2, LANES=2)
# two heads that see the same, and two that do not
for mask in (
    np.broadcast_to(HOLES, (1, 2, 3, 3)),
    np.stack([HOLES[0, 0], np.array([[1, 1, 0], [1, 0, 1], [0, 1, 1]], bool)])[None],
):
    add_attention(1, 2, 3, 3, 1, 1, mask, 0, WIDTH=2, LANES=2)
    add_attention_of_one(1, 2, 3, 1, 1, mask[:, :, :1], 0)
for B, H, M, K, Kv in ((0, 1, 1, 1, 1), (1, 1, 0, 1, 1), (1, 1, 1, 0, 2), (1, 1, 2, 1, 0), (3, 1, 5, 1, 1)):
    add_attention_of_one(B, H, M, K, Kv, NO_MASK, 0)
rms = sym("x", 2, 1)
call = (sym("g", 2, 1), rms, sym("w", 1), definition("rms_norm")(rms, NONE, EPS)["rstd"], blank(2, 1), blank(1, 1, 1))
add("rms_norm_backward", rms_norm_back, call, constants=PAIRS)  # a rest alone
product(sym("a", 0, 1, 1), sym("b", 0, 1, 1))
product(sym("a", 1, 2, 2), sym("b", 1, 2, 2), **(SMALL | {"KC": 1}))  # a product at a time
product(sym("a", 1, 1, 3), sym("b", 1, 3, 37), BYTES=16, KC=2)  # one row, whose sums are put away and taken again
# neighbours of two matrices lie together, which are no columns
product(sym("a", 5, 5, 2).transpose(2, 0, 1), sym("b", 2, 5, 7), block=(4, 4), **SMALL)
product(sym("a", 1, 2, 2), sym("b", 1, 3, 2).transpose(0, 2, 1), deep=2, **SMALL)  # a panel that is filled
for rows, columns in ((3, 7), (4, 3), (1, 37)):  # y += a b
    y = sym("c", 1, rows, columns)
    call = sym("a", 1, rows, 2), sym("b", 1, 2, columns), y, 0, 4, 40, y, blank(1, 8, 8), blank(0, 0, 0)
    summed = lambda *args: definition("matmul")(*args) | {"term": definition("matmul")(*args)["y"]}  # noqa: E731
    add("matmul", summed, call, constants=SMALL, fits_builds=False)
product(sym("a", 1, 1, 3), sym("b", 1, 5, 3).transpose(0, 2, 1))
product(sym("a", 1, 1, 2), sym("b", 1, 2, 33), BYTES=16)  # sixteen columns at a time, twice, and one more
product(sym("a", 1, 1, 1), sym("b", 1, 1, 16), BYTES=16)
product(sym("a", 1, 3, 4).transpose(0, 2, 1)[:, :, :0], sym("b", 1, 0, 4), block=(4, 4), **SMALL)  # nothing is copied
product(sym("a", 1, 4, 6), sym("b", 1, 6, 6).transpose(0, 2, 1), block=(4, 4), **(SMALL | {"KC": 5}))
add("take", definition("take"), (sym("x", 4, 1), index(4), blank(1, 1), FINE))
product(sym("a", 1, 2, 0), sym("b", 1, 3, 3).transpose(0, 2, 1)[:, :0], block=(4, 4), **SMALL)
add_attention(2, 1, 1, 2, 5, 5, NO_MASK, 0, WIDTH=2, LANES=2, COLUMNS=2)  # more columns than two squares have
for batch in (1, 2):  # one mask for all, then one for each batch, which is the same for both of its heads
    add_attention(batch, 2, 1, 3, 1, 1, np.broadcast_to(HOLES[:, :, :1], (batch, 2, 1, 3)), 0, WIDTH=2, LANES=2)
several = np.broadcast_to(np.array([[1, 1, 0], [0, 1, 1]], bool)[:, None, None], (2, 2, 1, 3))
add_attention(2, 2, 1, 3, 1, 1, several, 0, WIDTH=2, LANES=2)
add_attention(1, 1, 3, 3, 1, 3, HOLES, 0, WIDTH=2, LANES=2, COLUMNS=4)  # fewer columns than are taken together
for sizes, mask in (((1, 1, 3, 3, 1, 0), HOLES), ((1, 1, 2, 2, 1, 0), NO_MASK)):
    add_attention(*sizes, mask, 0, WIDTH=2, LANES=2)
# rows and columns of a block differ; the last tile is one register wide; one row with ReLU
LEFT = sym("a", 2, 5, 5)
product(LEFT, sym("b", 2, 5, 7), block=(2, 4), **SMALL)
product(LEFT, sym("b", 2, 5, 6), block=(4, 4), **SMALL)
RIGHT = sym("b", 2, 5, 7)
product(sym("a", 2, 5, 5).transpose(0, 2, 1), RIGHT, block=(3, 8), deep=20, copied=True, **(COPIED | {"A_ROWS": 2}))
product(sym("a", 2, 5, 5), RIGHT, block=(4, 4), deep=2, **SMALL, NEAR=0)  # the memory is asked for; sums stay in y
product(sym("a", 2, 5, 5), RIGHT, block=(4, 4), **COPIED)  # more rows than tiles beside each other, and no copy
THREE_PANELS = COPIED | {"KC": 5, "GROUP": 3, "MIN_ROWS": 0, "SPAN": 0}  # filled from rows of b, two at a time
for width in (9, 11):
    product(sym("a", 1, 3, 7), sym("b", 1, 7, width), block=(4, 12), deep=40, **THREE_PANELS)
product(sym("a", 2, 3, 3), sym("b", 3, 11, 2).transpose(2, 0, 1), block=(4, 12), deep=40, **THREE_PANELS)
FLIPPED = sym("b", 1, 2, 5).transpose(0, 2, 1)
product(sym("a", 1, 3, 5), FLIPPED, deep=40, **(SMALL | {"KC": 4}))  # two columns, and more products than that
product(sym("a", 1, 2, 3), sym("b", 1, 3, 14), block=(2, 16), deep=5, **COPIED)  # a group has room, and sums have none
product(sym("a", 1, 2, 3), sym("b", 1, 3, 3), block=(1, 4), deep=2, **SMALL)  # the sum of one row has none
for left in (sym("a", 1, 1, 5), sym("a", 1, 5, 1).transpose(0, 2, 1)):  # one row that is copied
    product(left, sym("b", 1, 5, 23), block=(1, 24), deep=20, copied=True, **COPIED)
for relu in (0, 1):
    product(sym("a", 1, 1, 2), sym("b", 1, 2, 33), sym("c", 1, 1, 33), relu, BYTES=16)
product(sym("a", 1, 1, 3), sym("b", 1, 40, 3).transpose(0, 2, 1), sym("c", 1, 1, 40))
# seven numbers in pairs of registers of two: one pair, and of the rest a register and a half
seven, slope = sym("x", 1, 7), sym("g", 1, 7)
add(
    "softmax_backward",
    lambda g, y, dx: {"dx": derivative(y, g, seven)},
    (slope, definition("softmax")(seven)["y"], blank(1, 7)),
    constants=PAIRS,
)
call = (seven, sym("w", 7), sym("b", 7), EPS, blank(1, 7), blank(1), blank(1))
add("layer_norm", definition("layer_norm"), call, constants=PAIRS)
add(
    "layer_norm", definition("layer_norm"), call, constants=ONES | {"TERMS": 2}, fits_builds=False
)  # sums of several parts
call = (slope, seven, sym("w", 7), *mean_and_rstd(seven), blank(1, 7), blank(2, 1, 7))
add("layer_norm_backward", layer_norm_back, call, constants=PAIRS)
for R, D in ((5, 2), (2, 4)):  # two pairs of rows and one more; a pair of rows of two pairs of registers
    x, g = sym("x", R, D), sym("g", R, D)
    call = (g, x, sym("w", D), *mean_and_rstd(x), blank(R, D), blank(2, 1, D))
    add("layer_norm_backward", layer_norm_back, call, constants=ONES)

several_blocks = ONES | {"TERMS": 4}
nine = sym("x", 1, 9)
add("softmax", definition("softmax"), (nine, blank(1, 9)), constants=several_blocks, fits_builds=False)
call = slope, definition("softmax")(seven)["y"], blank(1, 7)
add(
    "softmax_backward",
    lambda g, y, dx: {"dx": derivative(y, g, seven)},
    call,
    constants=several_blocks,
    fits_builds=False,
)

# ------------------------------------------------------------------------------------------ sizes that all differ
# Where two sizes are equal, an index may be exchanged with its neighbour, and a size with the other: nothing shows.

for shape in ((2, 3, 1), (3, 4, 2), (2, 0, 1)):
    outer, n, inner = shape
    mixed = np.random.default_rng(5).permutation(outer * n * inner).reshape(shape)
    x = sym("x", *shape, witness=mixed)
    for name, arg in (("reduce_max", np.argmax), ("reduce_min", np.argmin)):
        expected = {}  # there is no largest one of none, and nothing is written
        if n:
            at = arg(mixed, 1)
            expected = {"y": np.take_along_axis(x, at[:, None], 1)[:, 0], "index": at}
        add(name, lambda *_, expected=expected: expected, (x, blank(outer, inner), blank(outer, inner, dtype=np.int64)))
    truth = mixed % 3 > 0
    for name, every in (("reduce_any", np.any), ("reduce_all", np.all)):
        for before in (True, False):  # what stands there must not matter, and a truth can't be said to be unwritten
            add(name, lambda x, y, every=every: {"y": every(x, 1)}, (truth, np.full((outer, inner), before)))
    if n < 4:
        logs = np.array([s.log() for s in (np.exp(x).sum(1) + ZERO).flat], object).reshape(outer, inner)
        add("reduce_logsumexp", lambda *_, logs=logs: {"y": logs}, (x, blank(outer, inner)))

indices = np.array([[[0, 4], [3, 3], [2, 1]], [[1, 0], [4, 2], [5, 3]]])  # 5 is none
add("gather", definition("gather"), (sym("x", 2, 5, 2), indices, blank(2, 3, 2), FINE))
add("gather_backward", gathered_back, (sym("g", 2, 3, 2), indices, blank(2, 5, 2)))
for tokens in (index(4, 1, 4), index(4, 5, 0)):
    add("take", definition("take"), (sym("x", 5, 2), tokens, blank(3, 2), FINE))
    add("scatter_add", definition("scatter_add"), (sym("g", 3, 2), tokens, blank(5, 2)))
    add("write_rows", definition("write_rows"), (sym("x", 2, 3, 4), tokens, sym("y", 2, 5, 4), FINE))
for V, targets in ((2, (0, IGNORED, 1, 0)), (3, (1, IGNORED)), (4, (3, 7, IGNORED))):
    for smoothing in (Symbolic(0), SMOOTHING):
        R, settings = len(targets), (index(*targets), IGNORED, smoothing)
        x = sym("x", R, V)
        add("cross_entropy", definition("cross_entropy"), (x, *settings, blank(R), blank(R), FINE), constants=PAIRS)
        lse = definition("cross_entropy")(x, *settings)["lse"]
        call = (sym("g", R), x, settings[0], lse, *settings[1:], blank(R, V))
        add("cross_entropy_backward", cross_entropy_back, call, constants=PAIRS)
weights = sym("p", 3, 4, witness=[[3, 1, 2, 4], [1, 2, 3, 4], [2, 2, 2, 2]])
weights[0, 0] = weights[2, 3] = ZERO
draws = sym("u", 3, witness=[Fraction(1, 2), Fraction(1, 100), Fraction(99, 100)])
add("sample_rows", lambda p, u, y: {"y": [3, 0, 2]}, (weights, draws, blank(3, dtype=np.int64)))
halves = np.array([[Symbolic(1), Symbolic(1)]], object)  # a sum that equals the threshold is not above it
add("sample_rows", lambda p, u, y: {"y": [1]}, (halves, np.array([Symbolic(Fraction(1, 2))]), blank(1, dtype=np.int64)))
add("sample_rows", lambda p, u, y: {"y": [-1]}, (0 * halves, np.array([ZERO]), blank(1, dtype=np.int64)))
# whole squares of queries and keys, in which nothing is hidden, with more columns than lanes, or as many
for sizes in ((1, 1, 4, 2, 3, 1), (1, 1, 2, 4, 3, 2), (1, 2, 2, 2, 1, 3), (1, 1, 2, 2, 2, 2)):
    add_attention(*sizes, NO_MASK, 0, WIDTH=2, LANES=2, COLUMNS=2)
different = np.array([[[1, 1], [1, 0]], [[0, 1], [1, 1]], [[1, 0], [0, 1]], [[1, 1], [0, 0]]], bool)  # for each head
for tasks in (1, 3):  # a task begins within a sentence
    add_attention(2, 2, 2, 2, 1, 1, different.reshape(2, 2, 2, 2), 0, tasks, WIDTH=2, LANES=2)
    add_attention_of_one(2, 2, 2, 1, 1, different[:, :1].reshape(2, 2, 1, 2), 0, tasks)
for mask in (NO_MASK, np.broadcast_to(different[1], (1, 3, 2, 2))):  # one for all heads
    add_attention(1, 3, 2, 2, 1, 1, mask, 0, 2, WIDTH=2, LANES=2)
    add_attention_of_one(1, 3, 2, 1, 1, mask[:, :, :1], 0, 2)
# a mask of each head, and only of that: of all sentences and queries, then of one key, where neighbours are heads
for sizes, mask in (((2, 2, 2, 2, 1, 1), [[1, 0], [1, 1]]), ((1, 2, 1, 1, 1, 1), [[1], [0]])):
    of_heads = np.broadcast_to(np.array([mask], bool)[:, :, None], sizes[:4])
    add_attention(*sizes, of_heads, 0, WIDTH=2, LANES=2)
    add_attention_of_one(*sizes[:2], *sizes[3:], of_heads[:, :, :1], 0)
product(sym("a", 1, 1, 3), sym("b", 1, 3, 1), sym("c", 1, 1, 1), 1)
product(sym("a", 1, 1, 2), sym("b", 1, 20, 2).transpose(0, 2, 1), BYTES=16)  # eight registers, not in one piece
product(sym("a", 1, 1, 2), sym("b", 1, 2, 31), BYTES=16)  # and nearly eight
several = np.broadcast_to(np.array([[1, 1, 0], [0, 1, 1]], bool)[:, None, None], (2, 2, 1, 3))
add_attention_of_one(2, 2, 3, 1, 1, several, 0)  # one mask for the heads of a sentence, and another for the next
call = (sym("x", 2, 2), index(1, 0), 1, SMOOTHING)  # the ignored index is a class, and another row's
add("cross_entropy", definition("cross_entropy"), (*call, blank(2), blank(2), FINE), constants=PAIRS)
lse = definition("cross_entropy")(*call)["lse"]
add(
    "cross_entropy_backward", cross_entropy_back, (sym("g", 2), *call[:2], lse, *call[2:], blank(2, 2)), constants=PAIRS
)
p, g, m, v = sym("p", 2), sym("g", 2), sym("m", 2), sym("v", 2, positive=True)
add("sgd", definition("sgd"), (p, g, m, sym("f", 2), hyper(LR, MU, DAMP, DECAY, 0, 0, 0)))
add("adam", definition("adam"), (p, g, m, v, sym("f", 2), hyper(LR, B1, B2, EPSILON, DECAY, 1, 2, 0)))
ones = np.array([[Symbolic(1)] * 4], object)
call = (ones, np.array([Symbolic(Fraction(7, 16))]), blank(1, dtype=np.int64))
add("sample_rows", lambda p, u, y: {"y": [1]}, call)
add("reduce_sum", lambda x, y: {"y": x.sum(1)}, (sym("x", 1, 14, 2), blank(1, 2)))
third = int(drawn(index(7, 3, 2), 5)[2])
add(
    "drop", definition("drop"), (sym("x", 5), index(7, 3, 2), third, sym("s"), blank(5))
)  # the number itself is not below
x = sym("x", 2, 1, 2, witness=[[[3, 2]], [[-1, 4]]])
add("reduce_logsumexp", lambda x, y: {"y": x[:, 0]}, (x, blank(2, 2)))
add_attention_of_one(2, 1, 3, 2, 5, np.array([[[[0, 1, 0]]], [[[1, 0, 1]]]], bool), 0)

# ------------------------------------------------------------------------------------------------ NaN and infinity
# What a proof can't say, since exact numbers have neither: run in floats.

NAN, INF = np.nan, np.inf


def special(kernel: str, expected: Callable[..., dict], *args) -> None:
    SPECIAL.setdefault(kernel, []).append(Sample(args, expected))


def unwritten(*shape, dtype=np.float64) -> np.ndarray:
    return np.full(shape, NAN if dtype is np.float64 else -7, dtype)


ODD = [  # rows of numbers, some of which are none
    [NAN, 2, 1, 3],
    [1, NAN, 3, NAN],
    [2, 1, 3, NAN],
    [NAN, NAN, NAN, NAN],
    [-INF, INF, 1, 2],
    [INF, INF, -INF, 0],
    [-INF, -INF, -INF, -INF],
    [1, -INF, -INF, 2],
]


def first_of(x, arg):
    """As in NumPy, the first of several NaN counts as the largest and as the smallest number."""
    index = arg(x, axis=1)
    return {"y": np.take_along_axis(x, index[:, None], 1)[:, 0], "index": index}


def of_odd_row(x, name):
    """NaN everywhere unless all numbers are below inf and one is finite."""
    y = np.exp(x) / np.exp(x).sum() if -INF < x.max() < INF else np.full(x.shape, NAN)
    return y if name == "softmax" else np.log(y)


for row in ODD:
    one, two = np.array(row).reshape(1, 4, 1), np.stack([row, row[::-1]], 1)[None]
    for x in (one, two):
        outputs = unwritten(1, x.shape[2]), unwritten(1, x.shape[2], dtype=np.int64)
        special("reduce_max", lambda x, *_: first_of(x, np.argmax), x, *outputs)
        special("reduce_min", lambda x, *_: first_of(x, np.argmin), x, *outputs)
        output = unwritten(1, x.shape[2])
        special("reduce_logsumexp", lambda x, y: {"y": np.logaddexp.reduce(x, 1)}, x, output)
        special("reduce_sum", lambda x, y: {"y": x.sum(1)}, x, output)
        special("reduce_squares", lambda x, y: {"y": (x * x).sum(1)}, x, output)
        special("cumsum", lambda x, *_: {"y": x.cumsum(1)}, x, 0, unwritten(*x.shape), output)
    x = np.array([row])
    outputs = unwritten(1, 4, dtype=np.int64), unwritten(1, 4, dtype=np.int64)
    special("argsort", lambda x, *_: {"y": np.argsort(x, 1, kind="stable")}, x, 0, *outputs)
    special("argsort", lambda x, *_: {"y": 3 - np.argsort(x[:, ::-1], 1, kind="stable")[:, ::-1]}, x, 1, *outputs)
    special("check_weights", lambda *_: {"bad": [1, -1]}, x, 1, index(0, 0))
    for name in ("softmax", "log_softmax"):
        special(name, lambda x, y, name=name: {"y": of_odd_row(x, name)}, x, unwritten(1, 4))
special("check_weights", lambda *_: {"bad": [1, -1]}, np.array([[1, INF, 2, 0]]), 1, index(0, 0))
big = 2.0**53  # numbers lost beside it, block by block, come back
lost = np.zeros((1, 512 * 6, 1))
lost[0, ::512] = [[big], [1], [1], [1], [1], [-big]]
special("reduce_sum", lambda x, y: {"y": [[4.0]]}, lost, unwritten(1, 1))
special("reduce_squares", lambda x, y: {"y": [[2.0**55 + 8]]}, np.sqrt(np.abs(lost)) * 2, unwritten(1, 1))
tenths = np.array([[0.1, 0.1, 0.1, 0.0]])  # rounded, 0.9999... of the sum is the sum, and no part of it is above that
special("sample_rows", lambda *_: {"y": [2]}, tenths, np.array([1 - 2.0**-53]), unwritten(1, dtype=np.int64))
endless = np.array([[1.0, -INF, 2.0], [-INF, 0.5, -INF]])  # classes that can't be: 0 times infinity is none
known = np.log([np.exp(1) + np.exp(2), np.exp(0.5)])
call = endless, index(2, 1), IGNORED, 0.0, unwritten(2), unwritten(2), index(0, 0)
special("cross_entropy", lambda *_: {"losses": known - [2, 0.5], "lse": known}, *call)
heaps = np.full((1, 1100, 1), 1.0)
heaps[0, 3], heaps[0, 700] = INF, 1e30
special("reduce_sum", lambda x, y: {"y": [[INF]]}, heaps, unwritten(1, 1))
special("reduce_squares", lambda x, y: {"y": [[INF]]}, heaps, unwritten(1, 1))
call = np.array([[[NAN], [INF], [-INF]]]), np.ones((1, 1, 1)), np.empty((1, 0, 0)), 1, 6, 16
outputs = unwritten(1, 3, 1), unwritten(1, 16, 32), unwritten(0, 0, 0)
special("matmul", lambda *_: {"y": [[[NAN], [INF], [0.0]]]}, *call, *outputs)
special("relu_backward", lambda h, z, y: {"y": h}, np.array([3.0]), np.array([NAN]), unwritten(1))


def seen_alone(q, k, v, mask, scale, *_):
    """Attention of floats: hidden values have no effect, not even 0 times their value."""
    B, H, C, _ = q.shape
    y, lse = np.zeros((B, H, C, v.shape[-1])), np.full((B, H, C), -INF)
    for b, h, i in np.ndindex(B, H, C):
        if (keys := np.flatnonzero(mask[b, h, i])).size:
            scores = scale * (k[b, h, keys] @ q[b, h, i])
            weights = np.exp(scores - scores.max())
            y[b, h, i] = weights @ v[b, h, keys] / weights.sum()
            lse[b, h, i] = scores.max() + np.log(weights.sum())
    return {"y": y, "lse": lse}


def seen_alone_back(g, q, k, v, mask, y, lse, scale, *_):
    dq, dk, dv = np.zeros(q.shape), np.zeros(k.shape), np.zeros(v.shape)
    for b, h, i in np.ndindex(q.shape[:3]):
        keys = np.flatnonzero(mask[b, h, i])
        p = np.exp(scale * (k[b, h, keys] @ q[b, h, i]) - lse[b, h, i])
        slope = p * (v[b, h, keys] @ g[b, h, i] - g[b, h, i] @ y[b, h, i])
        dv[b, h, keys] += np.outer(p, g[b, h, i])
        dq[b, h, i] += scale * slope @ k[b, h, keys]
        dk[b, h, keys] += scale * np.outer(slope, q[b, h, i])
    return {"dq": dq, "dk": dk, "dv": dv}


# Keys that no query sees, at the end and between others, and queries that see no key, may be anything.
for keys, blind in (((1, 1, 0, 1, 0), ()), ((1, 1, 1, 0, 0), (0,)), ((0, 1, 1, 1, 1), (2,)), ((1, 0, 0, 0, 0), ())):
    rng = np.random.default_rng(len(SPECIAL["softmax"]))
    B, H, C, M, K, Kv = 2, 2, 3, 5, 3, 2
    q, k, v = (rng.standard_normal((B, H, n, w)) for n, w in ((C, K), (M, K), (M, Kv)))
    q, k = (q, k) if blind else (q + 30, k - 40)  # all scores are far below 0, and their exponentials 0
    mask = np.broadcast_to(np.array(keys, bool), (B, H, C, M)).copy()
    for anything in (NAN, INF, 1e4):
        q, k, v, mask = q.copy(), k.copy(), v.copy(), mask.copy()
        k[:, :, [m for m in range(M) if not keys[m]]] = anything
        v[:, :, [m for m in range(M) if not keys[m]]] = anything
        for i in blind:
            mask[:, :, i], q[:, :, i] = False, anything
        call = q, k, v, mask, 0.7, 0
        squares = {"WIDTH": 2, "LANES": 2}
        of_backward = squares | {"HALF": 1}
        outputs = unwritten(B, H, C, Kv), unwritten(B, H, C), unwritten(*attention_scratch(B, H, C, M, K, Kv))
        SPECIAL.setdefault("attention", []).append(Sample((*call, *outputs), seen_alone, squares))
        y, lse = seen_alone(*call).values()
        g = rng.standard_normal((B, H, C, Kv))
        for i in blind:
            g[:, :, i] = anything
        outputs = unwritten(*q.shape), unwritten(*k.shape), unwritten(*v.shape)
        outputs = (*outputs, unwritten(*attention_backward_scratch(B, H, C, M, K, Kv)))
        call = g, q, k, v, mask, y, lse, 0.7, 0
        SPECIAL.setdefault("attention_backward", []).append(Sample((*call, *outputs), seen_alone_back, of_backward))
        call = q[:, :, 1:2], k, v, mask[:, :, 1:2], 0.7, 0
        outputs = unwritten(B, H, 1, Kv), unwritten(B, H, 1), unwritten(*attention_of_one_scratch(B, H, M, K, Kv))
        SPECIAL.setdefault("attention_of_one", []).append(Sample((*call, *outputs), seen_alone, squares))

# So may a single number of theirs, whichever it is: each of them is found.
for (what, row), column in product_of((("g", 1), ("g", 3), ("q", 1), ("q", 3), ("k", 3), ("v", 3)), (0, -1)):
    B, H, C, M, K, Kv = 1, 1, 4, 5, 3, 7
    mask = np.ones((B, H, C, M), bool)
    mask[:, :, 1::2], mask[:, :, :, 3] = False, False  # every other query sees nothing, the fourth key is not seen
    spoilt = {
        name: rng.standard_normal((B, H, *size)) for name, size in zip("gqkv", ((C, Kv), (C, K), (M, K), (M, Kv)))
    }
    spoilt[what][:, :, row, column] = INF
    g, q, k, v = spoilt.values()
    outputs = unwritten(B, H, C, Kv), unwritten(B, H, C), unwritten(*attention_scratch(B, H, C, M, K, Kv))
    call = q, k, v, mask, 0.7, 0
    SPECIAL["attention"].append(Sample((*call, *outputs), seen_alone, squares))
    y, lse = seen_alone(*call).values()
    outputs = unwritten(*q.shape), unwritten(*k.shape), unwritten(*v.shape)
    outputs = (*outputs, unwritten(*attention_backward_scratch(B, H, C, M, K, Kv)))
    call = g, *call[:4], y, lse, *call[4:]
    SPECIAL["attention_backward"].append(Sample((*call, *outputs), seen_alone_back, of_backward))
