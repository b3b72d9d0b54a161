"""What each operation computes, entry by entry: the meaning of a recorded call, for sizes that stay symbols.

`MEANINGS[name](trace, call)` gives the value of the call's result. Formulas of a few terms stay formulas; a result that
is used in several places, or that a person would name, becomes a line of the program. Fused operations come with the
closed form of their gradient, which is proved each time it is used (deriving.py).

That the engine's kernels compute these formulas is not proved here: the program is compared with the run.
"""

from collections.abc import Callable
from functools import partial

import sympy
from sympy import Add, Expr, Indexed, Integer, KroneckerDelta, Mul, Pow, Rational, S, Sum, exp, log

from tinytensor.symbolic.any_size.arguments import size
from tinytensor.symbolic.any_size.recording import NotDerivable
from tinytensor.symbolic.any_size.values import Chosen, Closed, Dims, Group, Lines, Split, Value, dims_of, named, plain
from tinytensor.symbolic.calculus.adjoints import Definition, d, name_of
from tinytensor.symbolic.calculus.formulas import (
    Array,
    Index,
    Phi,
    Size,
    absolute,
    delta,
    floored,
    held,
    larger,
    relu,
    same,
    sigmoid,
    sign,
    softplus,
    theta,
    total,
    upto,
)

MEANINGS: dict[str, Callable] = {}


def meaning(*names: str) -> Callable:
    """The decorated function is the meaning of these operations."""

    def enter(function):
        MEANINGS.update(dict.fromkeys(names, function))
        return function

    return enter


class Step:
    """A recorded call, its tensors as values and its numbers as formulas of the sizes."""

    def __init__(self, op: str, args: list, lines: Lines, wanted: str, where: str):
        self.op, self.args, self.lines, self.wanted, self.where = op, args, lines, wanted, where

    def refuse(self, why: str) -> NotDerivable:
        return NotDerivable(f"derive: {self.op}{self.where}: {why}")

    def name(self, value: Value, otherwise: str, inline: str = "") -> Value:
        """Make the value a line, under the user's name for it if there is one."""
        by_user = bool(self.wanted)
        return self.lines.name(
            value, self.wanted or otherwise, where=self.where, by_user=by_user, inline="" if by_user else inline
        )

    def operand(self, value: Value, letter: str) -> Value:
        """The value, as a line of its own if its formula is one that a person would name."""
        expr = value.entry(*value.indices())
        long = expr.has(Sum, Add) or len(expr.atoms(Indexed)) > 1
        if value.finite is None and value.sizes and long and not isinstance(expr, Indexed):
            return self.lines.name(value, letter, where=self.where)
        return value

    def finite(self, value: Value) -> Value:
        if value.finite is not None:
            raise self.refuse("an input is -inf in places, and only softmax, exp and the like take that; mask later")
        return value

    def as_name(self, value: Value, otherwise: str) -> tuple[Value, Expr, list[Index]]:
        """The value as a name's entry, with its indices; it becomes a line if it is a formula."""
        bare = Value(value.dims, value.entry)
        if plain(bare) is None:
            value = _with_finite(self.lines.name(bare, otherwise, where=self.where), value.finite)
        indices = value.indices()
        return value, value.entry(*indices), indices


def _with_finite(value: Value, finite) -> Value:
    return Value(value.dims, value.entry, value.kind, finite)


# ------------------------------------------------------------------------------------------------ element by element


def number(expr: Expr) -> Value:
    return Value((), lambda: expr)


def broadcast(step: Step, *values: Value) -> tuple[Dims, list[Callable]]:
    """The dimensions of the values together, and for each value its entry with the indices of all."""
    rank = max(len(v.dims) for v in values)
    padded = [((),) * (rank - len(v.dims)) + v.dims for v in values]
    dims = tuple(_together(step, column) for column in zip(*padded, strict=True))
    return dims, [partial(_seen, v.entry, at, dims) for v, at in zip(values, padded, strict=True)]


def _seen(entry: Callable, at: Dims, dims: Dims, *indices) -> Expr:
    kept, n = [], 0
    for own, whole in zip(at, dims, strict=True):
        kept += indices[n : n + len(whole)] if own else ()
        n += len(whole)
    return entry(*kept)


def _together(step: Step, column) -> tuple[Expr, ...]:
    found = list(dict.fromkeys(dim for dim in column if dim))
    if len(found) <= 1:
        return found[0] if found else ()
    one, other = sorted(found, key=len)[0], sorted(found, key=len)[-1]
    if len(one) == 1 and isinstance(one[0], Size) and len(other) > 1:
        raise Split(one[0], other)
    raise step.refuse(f"dimensions of sizes {_product(one)} and {_product(other)} meet, factored in different ways")


def _product(dim) -> str:
    return "*".join(map(str, dim))


def elementwise(step: Step, formula: Callable[..., Expr], *values: Value, kind: str = "f") -> Value:
    dims, entries = broadcast(step, *values)
    return Value(dims, lambda *at: formula(*[entry(*at) for entry in entries]), kind)


FORMULAS: dict[str, Callable[..., Expr]] = {
    "mul": lambda a, b: a * b,
    "true_divide": lambda a, b: a / b,
    "power": lambda a, b: a**b,
    "square": lambda x: x**2,
    "cube": lambda x: x**3,
    "neg": lambda x: -x,
    "reciprocal": lambda x: 1 / x,
    "log": log,
    "log2": lambda x: log(x) / log(2),
    "log10": lambda x: log(x) / log(10),
    "log1p": lambda x: log(1 + x),
    "clipped_log": lambda x, low: log(x),
    "relu": relu,
    "absolute": absolute,
    "sign": sign,
    "logsigmoid": lambda x: -softplus(-x),
    "softplus": lambda x, beta, threshold: softplus(beta * x) / beta,
    "clamp_max": lambda a, b: -larger(-a, -b),
    "clamped": lambda x, low, high: -larger(-larger(x, low), -high),
    "maximum": larger,
    "minimum": lambda a, b: -larger(-a, -b),
    "elu": lambda x, alpha, scale, rate: scale * (relu(x) + (1 - theta(x)) * alpha * (exp(rate * x) - 1)),
    "lerp": lambda a, b, w: a + w * (b - a),
    "hypot": lambda a, b: sympy.sqrt(a**2 + b**2),
    "logaddexp": lambda a, b: log(exp(a) + exp(b)),
    "xlogy": lambda a, b: a * log(b),
    "gt": lambda a, b: theta(a - b),
    "lt": lambda a, b: theta(b - a),
    "ge": lambda a, b: 1 - theta(b - a),
    "le": lambda a, b: 1 - theta(a - b),
    "ne": lambda a, b: 1 - same(a - b),
    "logical_not": lambda a: 1 - a,
    "bitwise_and": lambda a, b: a * b,
    "bitwise_or": lambda a, b: a + b - a * b,
    "bitwise_xor": lambda a, b: a + b - 2 * a * b,
    "square_backward": lambda h, x: 2 * h * x,
    "sigmoid_backward": lambda h, z: h * z * (1 - z),
    "relu_backward": lambda h, z: h * theta(z),
    "silu_backward": lambda h, x: h * sigmoid(x) * (1 + x * (1 - sigmoid(x))),
}
FORMULAS |= {
    "floor": floored,
    "ceil": lambda x: -floored(-x),
    "floor_divide": lambda a, b: floored(a / b),
    "remainder": lambda a, b: a - b * floored(a / b),
    "sloped": lambda h, z, slope: h * (slope + (1 - slope) * theta(_let_go(z))),
    "gelu_erf_backward": lambda h, x, *_: h * (Phi(x) + x * Phi(x).fdiff()),
    "gelu_tanh_backward": lambda h, x, half, slope, cubic, three: h * half * _gelu_slope(x, slope, cubic, three),
}
REFUSED = {  # operations that no index formula follows here, and what to do instead
    "flip": "an index that runs backward is not part of the index calculus; reverse the argument outside",
    "dropped": "random numbers are no function of the arguments; give the mask as an argument, or call eval()",
    "put": "values are written into some places of a tensor; build the tensor with tt.where(), tt.cat() or a mask",
    "scatter_extreme": "the largest of the values that meet in one place has no index formula; prove() it at one size",
    "round": "rounding to the even neighbour has no index formula; use floor(x + 1/2)",
    "solve": "the calculus has no inverse of a matrix; give the inverse as an argument",
    "det": "the calculus has no determinant; use a Cholesky factor as the argument: 2 Σ log L_ii",
    "slogdet": "the calculus has no determinant; use a Cholesky factor as the argument: 2 Σ log L_ii",
    "cholesky": "the calculus has no factors of a matrix; give the factor as an argument",
    "pinv": "the calculus has no inverse of a matrix; give the inverse as an argument",
}


def _let_go(z: Expr) -> Expr:
    """z where only its sign is used, which is constant with or without detach()."""
    return z.xreplace({h: h.args[0] for h in z.atoms(held)})


def _gelu_slope(x: Expr, slope: Expr, cubic: Expr, three: Expr) -> Expr:
    t = sympy.tanh(slope * (x + cubic * x**3))
    return 1 + t + x * (1 - t**2) * slope * (1 + three * x**2)


TRUTHS = {"gt", "lt", "ge", "le", "ne", "logical_not", "bitwise_and", "bitwise_or", "bitwise_xor"}
NAMED: dict[str, tuple[Callable[..., Expr], str]] = {  # their results are lines: the derivative is written in them
    "exp": (exp, "e"),
    "expm1": (lambda x: exp(x) - 1, "e"),
    "tanh": (sympy.tanh, "h"),
    "sigmoid": (sigmoid, "s"),
    "sqrt": (sympy.sqrt, "r"),
    "root": (sympy.sqrt, "r"),
    "rsqrt": (lambda x: Pow(x, Rational(-1, 2)), "r"),
    **{n: (getattr(sympy, n), n) for n in ("sin", "cos", "asin", "acos", "atan", "asinh", "erf")},
}
SMALL = Rational(1, 10**5)  # a bound that only keeps a norm from being 0
ROOTS = {"sqrt", "root", "rsqrt"}
FIRST = {"silu": (sigmoid, "s"), "gelu_erf": (Phi, "p")}  # x f(x), with f(x) a line


def _formula(step: Step) -> Value:
    values = [step.finite(v) for v in step.args]
    if step.op in {"relu", "logsigmoid", "softplus", "absolute", "elu"}:
        values[0] = step.operand(values[0], "a")
    return elementwise(step, FORMULAS[step.op], *values, kind="b" if step.op in TRUTHS else "f")


MEANINGS |= dict.fromkeys(FORMULAS, _formula)


@meaning("add", "sub")
def added(step: Step) -> Value:
    a, b = step.args
    plus = 1 if step.op == "add" else -1
    dims, (x, y) = broadcast(step, a, b)
    if a.kind == b.kind == "i":  # of whole numbers, counted from 1
        return Value(dims, lambda *at: x(*at) + plus * y(*at) - plus, "i")
    finite = None
    if a.finite is not None or b.finite is not None:
        (p, q) = (Value(v.dims, v.finite or (lambda *at: S.One)) for v in (a, b))
        _, (p, q) = broadcast(step, p, q)
        finite = lambda *at: p(*at) * q(*at)  # noqa: E731
    return Value(dims, lambda *at: x(*at) + plus * y(*at), "f", finite)


@meaning("mul", "true_divide")
def scaled(step: Step) -> Value:
    a, b = step.args
    value = elementwise(step, FORMULAS[step.op], a, b)
    if b.finite is not None or (a.finite is not None and b.dims):
        raise step.refuse("an input is -inf in places; only a positive number may stand beside it")
    if a.finite is not None:
        return _with_finite(value, a.finite)
    return value


@meaning("clamp_min")
def at_least(step: Step) -> Value:
    x, low = (step.finite(v) for v in step.args)
    root, least = x.entry(*x.indices()), low.entry() if not low.dims else None
    if isinstance(least, Rational) and 0 < least <= SMALL:
        line = next((g.output for g in step.lines.groups if name_of(g.output.left) == name_of(root)), None)
        if line is not None and isinstance(line.right, Pow) and line.right.exp == S.Half:
            step.lines.notes[f"every norm {name_of(root)} is above {float(least):.0e}".replace("e-0", "e-")] = None
            return x
    return elementwise(step, larger, x, low)


@meaning(*NAMED)
def function(step: Step) -> Value:
    formula, letter = NAMED[step.op]
    (x,) = step.args
    if step.op == "exp" and x.finite is not None:
        return step.name(Value(x.dims, lambda *at: x.finite(*at) * exp(x.entry(*at))), letter)
    x = step.finite(x)
    if step.op not in ROOTS:
        x = step.operand(x, "a")
    return step.name(elementwise(step, formula, x), letter)


@meaning(*FIRST)
def gated(step: Step) -> Value:
    formula, letter = FIRST[step.op]
    x = step.operand(step.finite(step.args[0]), "a")
    gate = step.lines.name(elementwise(step, formula, x), letter, where=step.where)
    return elementwise(step, lambda a, b: a * b, x, gate)


@meaning("gelu_tanh")
def gelu_tanh(step: Step) -> Value:
    x, half, slope, cubic = step.args
    x = step.operand(step.finite(x), "a")
    h = elementwise(step, lambda x, s, c: sympy.tanh(s * (x + c * x**3)), x, slope, cubic)
    h = step.lines.name(h, "h", where=step.where)
    return elementwise(step, lambda x, h, half: half * x * (1 + h), x, h, half)


@meaning("eq")
def equal(step: Step) -> Value:
    a, b = step.args
    if a.kind == b.kind == "i":
        return elementwise(step, delta, a, b, kind="b")
    return elementwise(step, lambda a, b: same(a - b), step.finite(a), step.finite(b), kind="b")


@meaning("where")
def chosen(step: Step) -> Value:
    condition, a, b = step.args
    dims, (c, x, y) = broadcast(step, condition, a, b)
    low = [v.finite is not None or v.entry(*v.indices()) is S.NegativeInfinity for v in (a, b)]
    if not any(low):
        return Value(dims, lambda *at: c(*at) * x(*at) + (1 - c(*at)) * y(*at))
    if all(low):
        raise step.refuse("both values are -inf in places")
    if low[0]:
        if a.finite is not None:
            raise step.refuse("a value that is -inf in places is put in; mask once")
        return Value(dims, y, "f", lambda *at: 1 - c(*at))
    if b.finite is not None:
        raise step.refuse("a value that is -inf in places is put in; mask once")
    return Value(dims, x, "f", c)


@meaning("cast", "clone")
def copied(step: Step) -> Value:
    return step.args[0]


# ------------------------------------------------------------------------------------------------ shapes


@meaning("reshape_view")
def reshaped(step: Step) -> Value:
    x, shape = step.args
    left, dims = list(x.sizes), []
    for n in shape:
        dim, rest = [], S(n)
        while rest != 1:
            if not left:
                raise step.refuse(f"the shape {shape} does not follow from {x.shape}")
            part = left.pop(0)
            ratio = rest / part
            if part == rest or ratio.is_integer or (ratio.is_Mul and not any(_below(f) for f in ratio.args)):
                dim.append(part)
                rest = ratio
            elif isinstance(part, Size | Integer) and _divides(rest, part):
                if isinstance(part, Integer):
                    raise step.refuse(f"the size {part} would have to be taken apart; write it as a product of names")
                raise Split(part, (rest, size(f"{part}{rest}") if rest.is_Integer else size(f"{part}_{rest}")))
            else:
                raise step.refuse(f"the shape {x.shape} can't be read as {shape} for sizes that are symbols")
        dims.append(tuple(dim))
    if left:
        raise step.refuse(f"the shape {shape} does not follow from {x.shape}")
    return x.like(x.entry, tuple(dims), x.finite)


def _below(factor: Expr) -> bool:
    return (factor.is_Rational and factor.q != 1) or (factor.is_Pow and factor.exp.is_negative)


def _divides(part: Expr, whole: Expr) -> bool:
    return part.is_Integer or isinstance(part, Size)


@meaning("permute")
def permuted(step: Step) -> Value:
    x, order = step.args
    order = [int(n) for n in order]
    dims = tuple(x.dims[n] for n in order)

    def moved(entry):
        def at(*indices):
            groups, n = {}, 0
            for place, dim in zip(order, dims, strict=True):
                groups[place] = indices[n : n + len(dim)]
                n += len(dim)
            return entry(*[i for place in range(len(order)) for i in groups[place]])

        return at

    return x.like(moved(x.entry), dims, x.finite and moved(x.finite))


@meaning("expand", "spread")
def expanded(step: Step) -> Value:
    x, shape, *dims = step.args
    if dims:  # spread: the result of a reduction in the shape before
        gone = {int(n) for n in dims[0]}
        own = iter(d for d in x.dims if d) if len(x.dims) == len(shape) else iter(x.dims)
        x = x.like(x.entry, tuple(() if n in gone else next(own) for n in range(len(shape))), x.finite)
    whole = dims_of(shape)
    rank = len(whole) - len(x.dims)
    at = ((),) * rank + x.dims
    result = tuple(own or new for own, new in zip(at, whole, strict=True))
    return x.like(partial(_seen, x.entry, at, result), result, x.finite and partial(_seen, x.finite, at, result))


@meaning("slice")
def sliced(step: Step) -> Value:
    x, key = step.args
    dims, rules, at = [], [], 0  # rules: from the indices of the result to those of x
    for k in [*key, *[slice(None)] * (len(x.dims) - sum(k is not None for k in key))]:
        if k is None:
            dims.append(())
            continue
        dim, at = x.dims[at], at + 1
        new, rule = _cut(step, dim, k)
        if new is not None:
            dims.append(new)
        rules.append((0 if new is None else len(new), rule))

    def moved(entry):
        def inner(*indices):
            n, found = 0, []
            for width, rule in rules:
                found += rule(*indices[n : n + width])
                n += width
            return entry(*found)

        return inner

    return x.like(moved(x.entry), tuple(dims), x.finite and moved(x.finite))


def _cut(step: Step, dim: tuple[Expr, ...], key) -> tuple[tuple[Expr, ...] | None, Callable]:
    """The factors that a slice or a number leaves of a dimension (None: no dimension), and the indices in it."""
    whole = Mul(*dim)
    if not isinstance(key, slice):
        place = S(key) + (whole if S(key).is_negative else 0)
        if len(dim) == 1:
            return None, lambda: [place + 1]
        if not dim or place == 0:
            return None, lambda: [S.One] * len(dim)
        raise step.refuse(f"element {key} of a dimension of size {whole} that is a product; give it a dimension")
    start, stop, width = (S(v) if v is not None else None for v in (key.start, key.stop, key.step))
    start, width = S.Zero if start is None else start, S.One if width is None else width
    stop = whole if stop is None else stop
    start, stop = (v + whole if v.is_negative else v for v in (start, stop))
    if (stop - whole).is_nonnegative:
        stop = whole
    if start == 0 and stop == whole and width == 1:
        return dim, lambda *at: list(at)
    if width != 1:
        if len(dim) == 2 and dim[1] == width and stop == whole and (start < width) == True:  # noqa: E712
            return (dim[0],), lambda at: [at, start + 1]
        if len(dim) == 1 and isinstance(dim[0], Size) and width.is_Integer:
            raise Split(dim[0], (size(f"{dim[0]}{width}"), width))
        hint = f'; write the size as "{dim[1]}*{dim[0]}"' if len(dim) == 2 and dim[0] == width else ""
        raise step.refuse(f"a slice with the step {width} of a dimension of size {_product(dim)}{hint}")
    length = stop - start
    if len(dim) == 1:
        if length.is_Mul and length.args[0].is_Rational and length.args[0].q > 1 and isinstance(dim[0], Size):
            raise Split(dim[0], (length.args[0].q, size(f"{dim[0]}{length.args[0].q}")))
        if start.is_Mul and start.args[0].is_Rational and start.args[0].q > 1 and isinstance(dim[0], Size):
            raise Split(dim[0], (start.args[0].q, size(f"{dim[0]}{start.args[0].q}")))
        return dims_of([length])[0], lambda at=None: [start + (S.One if at is None else at)]
    rest = Mul(*dim[1:])
    if (first := sympy.cancel(start / rest)).is_Integer and (count := sympy.cancel(length / rest)).is_Integer:
        if count == 1:
            return dim[1:], lambda *at: [first + 1, *at]
        return (count, *dim[1:]), lambda at, *more: [at + first, *more]
    raise step.refuse(f"the slice from {start} to {stop} of a dimension of size {whole} that is a product")


@meaning("unslice")
def unsliced(step: Step) -> Value:
    """y = 0 everywhere, but y[key] = x: a delta for each index that the key moves."""
    x, shape, key = step.args
    whole = Value(dims_of(shape), None)
    places = Value(whole.dims, lambda *at: sympy.Tuple(*at))
    part = sliced(Step("slice", [places, key], step.lines, "", step.where))
    if part.sizes != x.sizes:
        raise step.refuse(f"the shape {x.shape} is not that of the places {part.shape}")

    def entry(*at):
        own = x.indices(at)
        deltas = [KroneckerDelta(i, j) for i, j in zip(at, part.entry(*own), strict=True)]
        return total(Mul(*deltas) * x.entry(*own), *own)

    return step.name(Value(whole.dims, entry), "u")


@meaning("undiagonal")
def on_diagonal(step: Step) -> Value:
    x, shape, offset, one, other = step.args
    one, other, whole = int(one), int(other), dims_of(shape)
    if offset != 0 or whole[one] != whole[other]:
        raise step.refuse(f"a diagonal with offset {offset}; expected the main one of a square")
    kept = [n for n in range(len(whole)) if n not in (one, other)]

    def entry(*at):
        groups, n = {}, 0
        for place, dim in enumerate(whole):
            groups[place] = at[n : n + len(dim)]
            n += len(dim)
        deltas = [KroneckerDelta(i, j) for i, j in zip(groups[one], groups[other], strict=True)]
        return Mul(*deltas) * x.entry(*[i for place in [*kept, one] for i in groups[place]])

    return Value(whole, entry)


@meaning("overwrite")
def overwritten(step: Step) -> Value:
    return step.args[1]


@meaning("isnan", "isfinite")
def finite_everywhere(step: Step) -> Value:
    step.lines.notes["every number is finite"] = None
    truth = S.One if step.op == "isfinite" else S.Zero
    return Value(step.args[0].dims, lambda *at: truth, "b")


@meaning("cat", "stack")
def joined(step: Step) -> Value:
    place, *xs = step.args
    xs = [step.finite(x) for x in (xs[0] if len(xs) == 1 and isinstance(xs[0], tuple | list) else xs)]
    place = int(place)
    if step.op == "stack":
        place += len(xs[0].dims) + 1 if place < 0 else 0
        xs = [x.like(x.entry, (*x.dims[:place], (), *x.dims[place:])) for x in xs]
    place += len(xs[0].dims) if place < 0 else 0
    xs = [x for x in xs if S.Zero not in x.sizes]  # pieces with nothing in them
    before, dims = sum(len(dim) for dim in xs[0].dims[:place]), [x.dims[place] for x in xs]
    if len(set(dims)) == 1:  # pieces of one size: the number of the piece, and the place in it
        new = (*xs[0].dims[:place], (Integer(len(xs)), *dims[0]), *xs[0].dims[place + 1 :])

        def entry(*at):
            which, rest = at[before], at[:before] + at[before + 1 :]
            return sum((KroneckerDelta(which, n) * x.entry(*rest) for n, x in enumerate(xs, 1)), S.Zero)

        return Value(new, entry)
    sizes = [Mul(*dim) for dim in dims]
    new = (*xs[0].dims[:place], (sum(sizes, S.Zero),), *xs[0].dims[place + 1 :])

    def pieces(*at):
        which, result, start = at[before], S.Zero, S.Zero
        for x, dim, n in zip(xs, dims, sizes, strict=True):
            if len(dim) > 1:
                raise step.refuse("a piece has a dimension that is a product")
            if dim:
                p = Index("p", n)
                piece = x.entry(*at[:before], p, *at[before + 1 :])
                result += total(KroneckerDelta(which, p + start) * piece, p)
            else:
                result += KroneckerDelta(which, start + 1) * x.entry(*at[:before], *at[before + 1 :])
            start += n
        return result

    return step.name(Value(new, pieces), "u")


@meaning("diagonal")
def diagonal(step: Step) -> Value:
    x, offset, one, other = step.args
    one, other = int(one), int(other)
    if offset != 0 or x.dims[one] != x.dims[other]:
        raise step.refuse(f"a diagonal with offset {offset} of shape {x.shape}; expected the main one of a square")
    kept = [n for n in range(len(x.dims)) if n not in (one, other)]
    dims = (*[x.dims[n] for n in kept], x.dims[one])

    def entry(*at):
        groups, n = {}, 0
        for place, dim in zip([*kept, one], dims, strict=True):
            groups[place] = at[n : n + len(dim)]
            n += len(dim)
        groups[other] = groups[one]
        return x.entry(*[i for place in range(len(x.dims)) for i in groups[place]])

    return x.like(entry, dims)


# ------------------------------------------------------------------------------------------------ by numbers


@meaning("take")
def taken(step: Step) -> Value:
    x, index = step.args
    if index.kind != "i":
        raise step.refuse("the rows are chosen by a tensor that is no argument; give it as an Index")
    first, n = x.dims[0], len(index.sizes)
    if len(first) != 1 and not isinstance(index, Places):
        raise step.refuse(f"rows of a dimension of size {_product(first)}, which is a product")

    def entry(*at):
        rows = index.places(*at[:n]) if isinstance(index, Places) else [index.entry(*at[:n])]
        return x.entry(*rows, *at[n:])

    return step.finite(x).like(entry, (*index.dims, *x.dims[1:]))


class Places(Value):
    """Numbers into a dimension that is a product: `places` gives the index in each factor."""

    places: Callable


@meaning("gather")
def gathered(step: Step) -> Value:
    x, index, place = step.args
    place = int(place)
    if index.kind != "i" or len(x.dims[place]) != 1:
        raise step.refuse("expected an Index argument, and a dimension that is no product")

    def entry(*at):
        number, found, n = index.entry(*at), [], 0
        for k, dim in enumerate(index.dims):
            found += [number] if k == place else at[n : n + len(dim)]
            n += len(dim)
        return x.entry(*found)

    return step.finite(x).like(entry, index.dims)


@meaning("scatter_rows")
def scattered(step: Step) -> Value:
    """y_r.. = Σ_j δ(r, index_j) x_j..: what arrives at the rows that were taken."""
    x, index, shape = step.args
    whole = dims_of(shape)
    if index.kind != "i" or isinstance(index, Places) or len(whole[0]) != 1:
        raise step.refuse("the rows are chosen by a tensor that is no argument; give it as an Index")

    def entry(row, *at):
        own = Value(index.dims, None).indices([row, *at])
        return total(delta(row, index.entry(*own)) * x.entry(*own, *at), *own)

    return step.name(Value(whole, entry), "u", "term")


@meaning("gather_backward")
def ungathered(step: Step) -> Value:
    x, index, shape, place = step.args
    place, whole = int(place), dims_of(shape)
    if index.kind != "i" or len(whole[place]) != 1 or whole[:place] != x.dims[:place]:
        raise step.refuse("expected an Index argument, and a dimension that is no product")
    before = sum(len(dim) for dim in whole[:place])

    def entry(*at):
        own = Value((index.dims[place],), None).indices(at)
        found = (*at[:before], *own, *at[before + 1 :])
        return total(delta(at[before], index.entry(*found)) * x.entry(*found), *own)

    return step.name(Value(whole, entry), "u", "term")


# ------------------------------------------------------------------------------------------------ sums


def _over(step: Step, x: Value, dims, keepdim) -> tuple[Dims, Callable[..., list], list[Index]]:
    """The dimensions that stay; the indices of x from those of the result; the indices that are summed."""
    dims = {int(n) for n in dims}
    inner = {n: [Index(i.name, i.size) for i in Value((dim,), None).indices()] for n, dim in enumerate(x.dims)}
    new = tuple(() if n in dims else dim for n, dim in enumerate(x.dims) if n not in dims or keepdim)

    def at(*indices):
        n, found = 0, []
        for k, dim in enumerate(x.dims):
            found += inner[k] if k in dims else indices[n : n + len(dim)]
            n += 0 if k in dims else len(dim)
        return found

    return new, at, [i for n in sorted(dims) for i in inner[n]]


@meaning("reduce_sum", "reduce_mean")
def summed(step: Step) -> Value:
    x, dims, keepdim = step.args
    new, at, over = _over(step, step.finite(x), dims, bool(keepdim))
    count = Mul(*[i.size for i in over]) if step.op == "reduce_mean" else S.One
    value = Value(new, lambda *indices: total(x.entry(*at(*indices)), *over) / count)
    return step.name(value, "μ" if step.op == "reduce_mean" else "s", "anywhere") if value.sizes else value


@meaning("reduce_amax", "reduce_amin", "reduce_max", "reduce_min")
def extreme(step: Step) -> Value:
    x, dims, keepdim, *_ = step.args
    if x.finite is not None or not dims:
        raise step.refuse("the largest of values that are -inf in places")
    source, _, indices = step.as_name(x, "u")
    new, at, over = _over(step, source, dims, bool(keepdim))
    array = step.lines.unused("first" if step.op in ("reduce_max", "reduce_min") else "share")
    chosen = Array(array, tuple(i.size for i in indices))
    which = "largest" if "max" in step.op else "smallest"
    shares = "first" if step.op in ("reduce_max", "reduce_min") else "shared"
    name = source.entry(*indices)
    flat = [k for k, dim in enumerate(source.dims) for _ in dim]
    axes = tuple(n for n, k in enumerate(flat) if k in {int(m) for m in dims})
    step.lines.constants[chosen] = Chosen(f"{which}_{shares}", name, tuple(indices), axes)
    step.lines.notes[
        f"{array} is 1 at the {which} entry of {name.base.label}, shared among equal ones, 0 elsewhere"
    ] = None
    return step.name(Value(new, lambda *i: total(chosen[tuple(at(*i))] * source.entry(*at(*i)), *over)), "m")


@meaning("reduce_prod")
def multiplied(step: Step) -> Value:
    """Π x = exp(Σ log x), whose derivative is the product divided by each factor."""
    x, dims, keepdim = step.args
    new, at, over = _over(step, step.finite(x), dims, bool(keepdim))
    step.lines.notes["every factor of a product is above 0"] = None
    return step.name(Value(new, lambda *indices: exp(total(log(x.entry(*at(*indices))), *over))), "P")


@meaning("cumsum")
def cumulated(step: Step) -> Value:
    x, place, reverse = step.args
    place = int(place)
    if len(x.dims[place]) != 1:
        raise step.refuse("a running sum along a dimension that is a product")
    before = sum(len(dim) for dim in x.dims[:place])

    def entry(*at):
        p = Index("p", x.dims[place][0])
        mask = upto(at[before], p) if reverse else upto(p, at[before])
        return total(mask * x.entry(*at[:before], p, *at[before + 1 :]), p)

    return step.name(step.finite(x).like(entry), "u")


@meaning("reduce_logsumexp")
def logsumexp(step: Step) -> Value:
    x, dims, keepdim = step.args
    source, _, _ = step.as_name(x, "u")
    new, at, over = _over(step, source, dims, bool(keepdim))

    def formula(*i):
        inside = exp(source.entry(*at(*i)))
        return log(total(inside * (x.finite(*at(*i)) if x.finite is not None else 1), *over))

    value = Value(new, formula)
    array, left, indices = step.lines.left(step.wanted or "L", value)
    own = source.entry(*at(*indices))
    form = d(left if not indices else array[tuple(indices)]) * exp(own - left)
    form *= x.finite(*at(*indices)) if x.finite is not None else 1
    step.lines.groups.append(Group([Definition(left, formula(*indices))], [Closed(own, form)], step.where))
    return named(array, value)


@meaning("matmul")
def product(step: Step) -> Value:
    a, b = (step.operand(step.finite(v), "u") for v in step.args)
    inner = _together(step, [a.dims[-1], b.dims[-2]])
    rank = max(len(a.dims), len(b.dims)) - 2
    left, right = ((((),) * (rank + 2 - len(v.dims))) + v.dims[:-2] for v in (a, b))
    batch = tuple(_together(step, pair) for pair in zip(left, right, strict=True))
    rows, columns = a.dims[-2], b.dims[-1]
    n, r = sum(map(len, batch)), len(rows)

    def entry(*at):
        k = [Index(i.name, i.size) for i in Value((inner,), None).indices()]
        own = [*partial(_seen, lambda *i: list(i), left, batch)(*at[:n])]
        other = [*partial(_seen, lambda *i: list(i), right, batch)(*at[:n])]
        return total(a.entry(*own, *at[n : n + r], *k) * b.entry(*other, *k, *at[n + r :]), *k)

    return step.name(Value((*batch, rows, columns), entry), "A", "term")


@meaning("linear", "linear_relu")
def linear(step: Step) -> Value:
    x, weight, bias = step.args
    x = step.operand(step.finite(x), "u")
    inner = _together(step, [x.dims[-1], weight.dims[1]])
    n = sum(map(len, x.dims[:-1]))

    def entry(*at):
        k = [Index(i.name, i.size) for i in Value((inner,), None).indices()]
        found = total(x.entry(*at[:n], *k) * weight.entry(*at[n:], *k), *k)
        return found + bias.entry(*at[n:]) if isinstance(bias, Value) else found

    value = Value((*x.dims[:-1], weight.dims[0]), entry)
    if step.op == "linear":
        return step.name(value, "A", "term")
    before = step.lines.name(value, "A", where=step.where)
    return elementwise(step, relu, before)


# ------------------------------------------------------------------------------------------------ fused operations


def _row(x: Value) -> tuple[list[Index], list[Index], list[Index]]:
    """The indices of an entry, those of the last dimension, and others of the same ranges."""
    indices = x.indices()
    last = indices[len(indices) - len(x.dims[-1]) :]
    return indices, last, [i.fresh() for i in last]


def softmax_lines(step: Step, x: Value, letter: str = "σ") -> Value:
    """σ = e^x / Σ e^x along the last dimension, with the closed form of its gradient."""
    source, own, indices = step.as_name(x, "S")
    last = indices[len(indices) - len(x.dims[-1]) :]
    finite = x.finite(*indices) if x.finite is not None else S.One
    e = finite * exp(own)
    array, left, at = step.lines.left(letter, source)
    change = dict(zip(indices, at, strict=True))
    own, e, last = own.xreplace(change), e.xreplace(change), [change[i] for i in last]
    form = left * (d(left) - total(left * d(left), *last))
    step.lines.groups.append(Group([Definition(left, e / total(e, *last))], [Closed(own, form)], step.where))
    return named(array, source if source.finite is None else Value(source.dims, source.entry))


@meaning("softmax")
def softmax(step: Step) -> Value:
    return softmax_lines(step, step.args[0], step.wanted or "σ")


@meaning("log_softmax")
def log_softmax(step: Step) -> Value:
    source, own, indices = step.as_name(step.finite(step.args[0]), "S")
    last = indices[len(indices) - len(source.dims[-1]) :]
    array, left, at = step.lines.left(step.wanted or "y", source)
    change = dict(zip(indices, at, strict=True))
    own, last = own.xreplace(change), [change[i] for i in last]
    right = own - log(total(exp(own), *last))
    form = d(left) - exp(left) * total(d(left), *last)
    step.lines.groups.append(Group([Definition(left, right)], [Closed(own, form)], step.where))
    return named(array, source)


@meaning("cross_entropy_rows", "cross_entropy_mean")
def cross_entropy(step: Step) -> Value:
    x, target, _, smoothing = step.args
    if target.kind != "i":
        raise step.refuse("the targets are no argument; give them as an Index")
    s = smoothing.entry()
    source, own, indices = step.as_name(step.finite(x), "S")
    rows = indices[: len(indices) - len(x.dims[-1])]
    (m,) = indices[len(rows) :]
    q, left_q, at = step.lines.left("q", source)
    change = dict(zip(indices, at, strict=True))
    own, rows, m = own.xreplace(change), [change[i] for i in rows], change[m]
    t = target.entry(*rows)
    line = Definition(left_q, exp(own) / total(exp(own), m))
    K = m.size
    wrong = (1 - s) * log(q[(*rows, t)]) + s / K * total(log(left_q), m)
    p = (1 - s) * delta(m, t) + s / K
    if step.op == "cross_entropy_rows":
        value = Value(x.dims[:1], lambda *i: -wrong.xreplace(dict(zip(rows, i, strict=True))))
        array, left, at = step.lines.left(step.wanted or "ℓ", value)
        back = dict(zip(at, rows, strict=True))
        left = left.xreplace(back)
        closed = Closed(own, d(left) * (left_q - p))
    else:
        n = Mul(*[i.size for i in rows])
        value = Value((), lambda: -total(wrong, *rows) / n)
        array, left, at = step.lines.left(step.wanted or "ℓ", value)
        closed = Closed(own, d(left) * (left_q - p) / n)
        wrong = total(wrong, *rows) / n
    step.lines.groups.append(Group([line, Definition(left, -wrong)], [closed], step.where))
    step.lines.notes["every target is a class: none is ignored"] = None
    return named(array, value)


@meaning("layer_norm", "rms_norm")
def norm(step: Step) -> Value:
    centred = step.op == "layer_norm"
    x, weight, bias, eps = step.args if centred else (*step.args[:2], None, step.args[2])
    eps = eps.entry()
    source, own, indices = step.as_name(step.finite(x), "x")
    last = indices[len(indices) - len(x.dims[-1]) :]
    z, left_z, at = step.lines.left("z", source)
    change = dict(zip(indices, at, strict=True))
    own, last = own.xreplace(change), [change[i] for i in last]
    outer = at[: len(at) - len(last)]
    D = Mul(*[i.size for i in last])

    def row(letter):
        name = step.lines.unused(letter)
        if not outer:
            symbol = sympy.Symbol(name, real=True)
            return symbol, symbol
        array = Array(name, tuple(i.size for i in outer))
        return array, array[tuple(outer)]

    lines, v = [], own
    if centred:
        _, mu = row("μ")
        lines.append(Definition(mu, total(own, *last) / D))
        v = own - mu
    _, r = row("r")
    lines.append(Definition(r, (total(v**2, *last) / D + eps) ** Rational(-1, 2)))
    lines.append(Definition(left_z, v * r))
    dz = d(left_z)
    form = dz - left_z * total(left_z * dz, *last) / D
    form = r * (form - total(dz, *last) / D if centred else form)
    step.lines.groups.append(Group(lines, [Closed(own, form)], step.where))
    y = named(z, source)
    if isinstance(weight, Value):
        y = elementwise(step, lambda a, b: a * b, y, weight)
    if isinstance(bias, Value):
        y = elementwise(step, lambda a, b: a + b, y, bias)
    return y


@meaning("attention")
def attention(step: Step) -> Value:
    q, k, v, mask, scale, is_causal = step.args
    s = scale.entry()
    keys = permuted(Step("permute", [k, (0, 1, 3, 2)], step.lines, "", step.where))
    n = sum(map(len, q.dims[:2]))
    inner, columns = _together(step, [q.dims[-1], k.dims[-1]]), k.dims[-2]
    batch = tuple(_together(step, pair) for pair in zip(q.dims[:2], k.dims[:2], strict=True))

    def score(*at):
        j = [Index(i.name, i.size) for i in Value((inner,), None).indices()]
        own, other = (_seen(lambda *i: list(i), x.dims[:2], batch, *at[:n]) for x in (q, keys))
        rows = at[n : n + len(q.dims[-2])]
        return s * total(q.entry(*own, *rows, *j) * keys.entry(*other, *j, *at[n + len(rows) :]), *j)

    scores = step.lines.name(Value((*batch, q.dims[-2], columns), score), "S", where=step.where)
    finite = None
    if isinstance(mask, Value):
        _, (_, allowed) = broadcast(step, scores, mask)
        finite = allowed
    if is_causal:
        if len(columns) != 1 or len(q.dims[-2]) != 1:
            raise step.refuse("a causal mask along a dimension that is a product")
        before = finite or (lambda *at: S.One)
        finite = lambda *at: before(*at) * upto(at[-1], at[-2])  # noqa: E731
    if finite is not None:
        step.lines.notes["every row of attention may attend to at least one place"] = None
    weights = softmax_lines(step, Value(scores.dims, scores.entry, "f", finite))
    product_step = Step("matmul", [weights, v], step.lines, step.wanted or "Y", step.where)
    return product(product_step)
