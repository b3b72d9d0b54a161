"""Where rules change: places that are written twice, equal numbers, zeros, and the edges of clamps.

The proofs of `engine.py` rely on comparisons that come out as at a sample point at which no two numbers are equal. Here
two are equal. If a forward has an edge there, it has two one-sided derivatives along an entry: SymPy computes them from
the engine's own forward, beside the point. The rule must give the mixture of the two that the table KINKS lists, as the
share of the one from the right, for every gradient g that arrives. A share is a choice, PyTorch's; if both derivatives
are equal, the rule must give that one. (If the forward jumps, as floor does, the derivative from a side is that of the
values on that side.)

Writes through repeated indices need no choice: the last value stays, so it alone has a derivative.
"""

from collections.abc import Callable, Iterator
from fractions import Fraction

import numpy as np
import sympy

import tinytensor as tt
from derivations.claims import NUMBA, SYMPY, Evidence, Refuted, claim, holds
from derivations.proofs.engine import CALLS, accept
from tinytensor.core.kernel import OBJECT
from tinytensor.core.op import OPS
from tinytensor.core.tensor import Tensor
from tinytensor.symbolic import Symbolic, prove, symbols
from tinytensor.symbolic.exact.scalars import path
from tinytensor.symbolic.exact.tensors import exact

# --- Repeated places

INDEX = tt.tensor([1, 1, 2, 1])  # place 1 gets three of four values: the last of them is row 3
LAST = {1: 3, 2: 2}  # place: the row that remains there


def assigned(x: Tensor, v: Tensor) -> Tensor:
    y = x.clone()
    y[INDEX] = v
    return y


WRITES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "y[index] = v": assigned,
    "index_copy": lambda x, v: x.index_copy(0, INDEX, v),
    "index_put": lambda x, v: x.index_put((INDEX,), v),
    "scatter": lambda x, v: x.scatter(0, INDEX, v),
    "put": lambda x, v: x.put(INDEX, v),
}
SUMS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "index_add": lambda x, v: x.index_add(0, INDEX, v),
    "scatter_add": lambda x, v: x.scatter_add(0, INDEX, v),
    "index_put, accumulated": lambda x, v: x.index_put((INDEX,), v, accumulate=True),
}
COPIES: dict[str, tuple[Callable[[Tensor], Tensor], list[int]]] = {  # and the entry of x that each entry of y copies
    "repeat": (lambda x: x.repeat(2, 2), [0, 1, 0, 1, 0, 1, 0, 1]),
    "tile": (lambda x: x.tile(2), [0, 1, 0, 1]),
    "repeat_interleave": (lambda x: x.repeat_interleave(tt.tensor([2, 1])), [0, 0, 1]),
    "expand": (lambda x: x.expand(2, 2), [0, 1, 0, 1]),
    "x[[1, 1, 0]]": (lambda x: x[[1, 1, 0]], [1, 1, 0]),
}


def proved(name: str, fn: Callable, expected: list, *inputs: Tensor) -> str:
    """Check that the values are the expected ones, and the gradients their derivatives."""
    for value, right in zip(fn(*inputs).flatten()._data, expected, strict=True):
        holds(Symbolic.of(value).equals(right), f"{name} gives {right} and not {value}")
    fn.__name__ = name
    return f"{name}: {accept(prove(fn, *inputs, limit=None)).entries} entries"


def part(statement: str, size: str, assumptions: tuple = ()) -> Callable:
    """A claim of this file that is a proof at sizes."""
    trusted = (SYMPY, "the chain rule", NUMBA)
    return claim("kinks", statement, category="proof at sizes", size=size, assumptions=assumptions, trusted=trusted)


@part(
    "a write through repeated indices keeps the last value of a place, and its gradient goes to that value alone: "
    f"{', '.join(WRITES)}",
    "4 values into 4 places by the index [1, 1, 2, 1]",
)
def writes():
    x, v = symbols("x", 4), symbols("v", 4)
    expected = [v._data[LAST[i]] if i in LAST else x._data[i] for i in range(4)]
    return Evidence(text="\n".join(proved(name, fn, expected, x, v) for name, fn in WRITES.items()))


@part(
    f"a sum over repeated indices has each value once, and so has its gradient: {', '.join(SUMS)}",
    "4 values into 4 places by the index [1, 1, 2, 1]",
)
def sums():
    x, v = symbols("x", 4), symbols("v", 4)
    index = INDEX.tolist()
    expected = [sum((v._data[r] for r in range(4) if index[r] == i), start=x._data[i]) for i in range(4)]
    return Evidence(text="\n".join(proved(name, fn, expected, x, v) for name, fn in SUMS.items()))


@part(
    "index_fill through a repeated index counts it once: the gradient of the value is the sum over the places filled",
    "2 rows of 4, by the index [1, 1, 3]",
)
def index_fill():
    x, v = symbols("x", 2, 4), symbols("v")

    def fill(x, v):
        return x.index_fill(1, tt.tensor([1, 1, 3]), v)

    expected = [v._data[()] if column in (1, 3) else x._data[row, column] for row in range(2) for column in range(4)]
    return Evidence(text=proved("index_fill", fill, expected, x, v))


@part(f"copies add up: {', '.join(COPIES)}: an entry's gradient is the sum over its copies", "2 entries, 3 to 8 copies")
def copies():
    x = symbols("x", 2)
    return Evidence(text="\n".join(proved(n, fn, [x._data[i] for i in at], x) for n, (fn, at) in COPIES.items()))


# --- One-sided slopes

HALF, THIRD = Fraction(1, 2), Fraction(1, 3)
TIE = [[2, 1, 2], [3, 3, 3]]
FIRST = [[1, 0, 0], [1, 0, 0]]
PIVOTS = [[1.0, 1.0], [1.0, -1.0]]  # two candidates for the pivot
LEFT, RIGHT = 0, 1
WHOLE = [[[[1.0], [1.0]]]]
# operation: calls at an edge, and by input the share of the derivative from the right, for all entries or for each. If
# both derivatives are equal, and for an input that is not named, the rule gives that derivative.
KINKS: dict[str, list[tuple[tuple, dict]]] = {
    **{name: [(([0.0, 1.0], [0.0, 2.0]), {"a": HALF, "b": HALF})] for name in ("maximum", "minimum")},
    "clamp_min": [(([0.0, 1.0], [0.0, 2.0]), {"a": RIGHT, "b": LEFT})],
    "clamp_max": [(([0.0, 1.0], [0.0, 2.0]), {"a": LEFT, "b": RIGHT})],
    "clamped": [(([0.0, 0.5, 1.0],), {"x": [RIGHT, LEFT, LEFT]})],
    **{name: [(([0.0, 0.5, 1.0],), {"x": [LEFT, LEFT, RIGHT]})] for name in ("hardtanh", "huber_slope")},
    "absolute": [(([0.0, 1.0],), {"x": HALF})],
    "sign": [(([0.0, 1.0],), {})],
    "floor": [(([0.0, 1.0],), {})],
    "ceil": [(([0.0, 1.0],), {})],
    "round": [(([0.5, 1.5],), {})],
    "relu": [(([0.0, 1.0],), {"x": LEFT})],
    "relu_backward": [(([1.0, 2.0], [0.0, 3.0]), {})],
    "sloped": [(([1.0, 2.0], [0.0, 3.0], Fraction(1, 3)), {})],
    "logsigmoid": [(([0.0, 1.0],), {})],
    "logit": [(([Fraction(1, 4), Fraction(3, 4)],), {})],
    "softsign": [(([0.0, 1.0],), {})],
    "sinh": [(([0.0, 1.0],), {})],
    "cosh": [(([0.0, 1.0],), {})],
    "softplus": [(([1.0, 2.0], 1, 1), {"x": LEFT})],
    "elu": [(([0.0, 1.0],), {}), (([0.0, 1.0], 2, 3, 1), {"x": LEFT})],
    "clipped_log": [(([1.0, 2.0], 0), {"x": RIGHT})],
    "lerp": [(([1.0, 2.0], [3.0, 4.0], [0.5, -0.5]), {})],
    "xlogy": [(([0.0, 1.0], [3.0, 1.0]), {})],
    "logaddexp": [(([1.0, 2.0], [1.0, 3.0]), {})],
    "hypot": [(([0.0, 1.0, 0.0], [0.0, 1.0, 2.0]), {"a": HALF, "b": HALF})],
    "remainder": [(([6.0, -6.0], [3.0, 3.0]), {"b": [LEFT, RIGHT]})],
    "power": [(([0.0, 0.0, 2.0], [1.0, 2.0, 0.0]), {}), *((([0.0, 1.0], n), {}) for n in (2, 1, 0))],
    "reduce_prod": [(([[0.0, 2.0, 3.0], [0.0, 0.0, 1.0]], (1,), False), {})],
    "reduce_logsumexp": [((TIE, (1,), False), {})],
    "reduce_max": [((TIE, (1,), False), {"x": FIRST})],
    "reduce_min": [((TIE, (1,), False), {"x": [[1, 0, 1], [0, 1, 1]]})],
    "reduce_amax": [((TIE, (1,), False, False), {"x": [[HALF] * 3, [THIRD] * 3]})],
    "reduce_amin": [((TIE, (1,), False, False), {"x": [[HALF] * 3, [1 - THIRD] * 3]})],
    "softmax": [((TIE,), {})],
    "log_softmax": [((TIE,), {})],
    **{f"cross_entropy_{n}": [((TIE, tt.tensor([0, 2]), -100, 0), {})] for n in ("rows", "mean")},
    "attention": [((WHOLE, WHOLE, WHOLE, None, 1, False), {})],
    "solve": [((PIVOTS, [[2.0], [3.0]]), {})],
    **{name: [((PIVOTS,), {})] for name in ("det", "cofactors", "slogdet")},
    "pinv": [(([[1.0], [-1.0]], 0.0, 0.0), {}), (([[1.0, -1.0]], 0.0, 0.0), {})],
    # before the ReLU there are 0 and 2
    "linear_relu": [(([[1.0, 1.0]], [[1.0, -1.0], [1.0, 1.0]], None), {"x": [[LEFT, RIGHT]], "weight": LEFT})],
    "scatter_extreme": [
        (
            ([1.0, 2.0, 3.0], tt.tensor([1, 1, 2]), [2.0, 2.0, 1.0], own, largest),
            dict.fromkeys(("x", "value"), share if largest else 1 - share),
        )
        for own, share in ((True, THIRD), (False, HALF))
        for largest in (True, False)
    ],
}


def one_sided(name: str, args: list, index: int, at: tuple, side: int, g: np.ndarray) -> sympy.Expr:
    """The derivative of sum g y along one entry from one side, from the engine's own forward beside the point."""
    h = symbols("h", witness=Fraction(1, 1000)).item()
    moved = args[index]._data.copy()
    moved[at] = moved[at] + h * side
    with path() as conditions:
        y = OPS[name](*args[:index], Tensor.of(moved), *args[index + 1 :])
    y = (y[0] if isinstance(y, tuple) else y)._data
    for condition in conditions:  # the path is the same for every h from there down to 0
        gap = condition.difference.formula()
        start, slope = gap.subs(h.expr, 0), gap.diff(h.expr).subs(h.expr, 0)
        holds(bool(start > 0) or bool(start == 0 and slope > 0), f"{name}: {condition} for all small h")
    total = sum((Symbolic.of(a) * b for a, b in zip(g.flat, y.flat, strict=True)), start=Symbolic(0)).formula()
    return side * total.diff(h.expr).subs(h.expr, 0)


def rule(name: str, args: list) -> tuple[list, np.ndarray]:
    """The rules' gradients at the point itself, for symbols g that arrive."""
    leaves = [Tensor.of(a._data.copy(), requires_grad=True) if is_variable(a) else a for a in args]
    y = OPS[name](*leaves)
    y = y[0] if isinstance(y, tuple) else y
    g = symbols("g", *y.shape)
    y.backward(g)
    return leaves, g._data


def is_variable(a) -> bool:
    return isinstance(a, Tensor) and a.dtype is OBJECT


def at_the_edge(name: str, args: tuple, shares: dict) -> Iterator[str]:
    """Compare entry by entry; returns a line for each input."""
    args = [exact(tt.tensor(a, dtype=tt.float64)) if isinstance(a, list) else a for a in args]
    leaves, g = rule(name, args)
    for index, leaf in enumerate(leaves):
        if not is_variable(leaf):
            continue
        what, edges = OPS[name].params[index], 0
        share = np.broadcast_to(np.array(shares.get(what), object), leaf.shape)
        for at in np.ndindex(leaf.shape):
            left, right = (one_sided(name, args, index, at, side, g) for side in (-1, 1))
            gradient = (Symbolic(0) if leaf.grad is None else Symbolic.of(leaf.grad._data[at])).formula()
            edge, w = sympy.simplify(right - left) != 0, share[at]
            slopes = f"{name}, {what} at {list(at)}: {left} from the left, {right} from the right"
            if edge and w is None:
                raise Refuted(f"{slopes}: KINKS does not list this edge", rule=name)
            if sympy.simplify(gradient - (w * right + (1 - w) * left if edge else right)) != 0:
                raise Refuted(f"{slopes}, and the rule gives {gradient}", rule=f"{name}, input {what}")
            edges += bool(edge)
        yield f"{name}, {what}: {leaf.numel()} entries, {edges} of them at an edge"


@part(
    "at equal numbers, zeros and edges of clamps each rule gives the derivative if there is one, and else the share "
    "of its one-sided derivatives that PyTorch takes",
    "the points of the table KINKS: one to nine entries, one moved at a time",
    ("beside the point the forward keeps one path, down to it: its comparisons are positive at all small distances",),
)
def kinks():
    return Evidence(text="\n".join(line for name in KINKS for call in KINKS[name] for line in at_the_edge(name, *call)))


def compares(name: str) -> bool:
    """Does the forward of an operation compare?"""
    with path() as conditions:
        for args in CALLS[name]:
            OPS[name](*args)
    return bool(conditions)


@claim(
    "kinks",
    "every operation whose forward compares has a point in the table at which it compares equal numbers",
    category="check",
    size="all operations that have a derivative",
    trusted=(),
)
def complete():
    missing = [name for name in CALLS if name not in KINKS and compares(name)]
    if missing:
        raise Refuted(f"KINKS has no point for {', '.join(missing)}")
    return Evidence(text=", ".join(KINKS))
