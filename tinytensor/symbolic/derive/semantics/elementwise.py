"""The semantics of elementwise operations."""

from collections.abc import Callable
from dataclasses import replace

import sympy
from sympy import Expr, Indexed, KroneckerDelta, Pow, Rational, S, exp, log

from tinytensor.symbolic.derive.factors import canonical
from tinytensor.symbolic.derive.semantics.symbolic_call import (
    OP_SEMANTICS,
    WHOLE,
    SymbolicCall,
    as_number,
    broadcast,
    elementwise,
    semantics_of,
)
from tinytensor.symbolic.derive.values import Value
from tinytensor.symbolic.index_calculus.adjoints import name_of
from tinytensor.symbolic.index_calculus.formulas import delta, fresh
from tinytensor.symbolic.index_calculus.functions import (
    HEADS,
    TABLE,
    Phi,
    PiecewiseConstant,
    absolute,
    arctan2,
    detach,
    floored,
    larger,
    relu,
    same,
    sigmoid,
    sign,
    softplus,
    theta,
    upto,
)


def power(base: Expr, exponent: Expr) -> Expr:
    """A power, with |x| as ours where SymPy writes √x² so."""
    return Pow(base, exponent).replace(sympy.Abs, absolute)


FORMULAS: dict[str, Callable[..., Expr]] = {
    "mul": lambda a, b: a * b,
    "true_divide": lambda a, b: a / b,
    "power": power,
    "square": lambda x: x**2,
    "cube": lambda x: x**3,
    "neg": lambda x: -x,
    "reciprocal": lambda x: 1 / x,
    "relu": relu,
    "absolute": absolute,
    "log": lambda x: S.Zero if isinstance(x, sign) else log(x),  # of a sign that is above 0, as in logdet
    "clipped_log": lambda x, low: log(x),  # which a loss bounds below, as it does its derivative
    "log2": lambda x: log(x) / log(2),
    "log10": lambda x: log(x) / log(10),
    "log1p": lambda x: log(1 + x),
    "logit": lambda x: log(x) - log(1 - x),
    "softsign": lambda x: x / (1 + absolute(x)),
    "sinh": lambda x: (exp(x) - exp(-x)) / 2,
    "cosh": lambda x: (exp(x) + exp(-x)) / 2,
    "sign": lambda x: x if isinstance(x, sign) else sign(x),
    "logsigmoid": lambda x: -softplus(-x),
    "clamp_max": lambda a, b: -larger(-a, -b),
    **dict.fromkeys(("clamped", "hardtanh", "huber_slope"), lambda x, low, high: -larger(-larger(x, low), -high)),
    "maximum": larger,
    "minimum": lambda a, b: -larger(-a, -b),
    "elu": lambda x, alpha, scale, rate: scale * (relu(x) + (1 - theta(x)) * alpha * (exp(rate * x) - 1)),
    "lerp": lambda a, b, w: a + w * (b - a),
    "polygamma": lambda x, n: TABLE[f"polygamma{n}"].head(x),
    "hypot": lambda a, b: sympy.sqrt(a**2 + b**2),
    "logaddexp": lambda a, b: log(exp(a) + exp(b)),
    "xlogy": lambda a, b: a * log(b),
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
}


def _let_go(z: Expr) -> Expr:
    """z where only its sign is used, which is constant with or without detach()."""
    return z.xreplace({h: h.args[0] for h in z.atoms(detach)})


TRUTHS_ALONE = {"logical_not", "bitwise_and", "bitwise_or", "bitwise_xor"}
COMPARISONS = {  # of numbers, and of whole numbers, which may well be equal
    "gt": (lambda a, b: theta(a - b), lambda a, b: upto(b + 1, a)),
    "lt": (lambda a, b: theta(b - a), lambda a, b: upto(a + 1, b)),
    "ge": (lambda a, b: 1 - theta(b - a), lambda a, b: upto(b, a)),
    "le": (lambda a, b: 1 - theta(a - b), lambda a, b: upto(a, b)),
}
KEEP_WHOLE = {"square", "cube", "neg", "floor", "ceil", "floor_divide", "remainder", "maximum", "minimum"}
KEEP_WHOLE |= {"absolute", "sign", "relu", "clamp_max", "clamped", "hardtanh"}
NAMED = {name: row.letter for name, row in TABLE.items() if row.letter}
NAMED |= {"expm1": "e", "rsqrt": "r", "atan2": HEADS[arctan2].letter}
OPERATIONS = tuple(FORMULAS)  # those that are their formula and nothing else
FORMULAS |= {name: TABLE[name].head for name in NAMED if name in TABLE}
FORMULAS |= {"expm1": lambda x: exp(x) - 1, "sqrt": lambda x: power(x, S.Half), "rsqrt": lambda x: power(x, -S.Half)}
ROOTS = {"sqrt", "rsqrt"}
SMALL = 1e-5  # a bound of clamp() that only keeps a norm from being 0
ROUNDED = 20  # softplus(x) and x differ by 2e-9 there
FIRST = {"silu": sigmoid, "gelu_erf": Phi}  # x f(x), with f(x) a line


def softplus_below(x: Expr, beta: Expr, threshold: Expr) -> Expr:
    """log(1 + exp(β x))/β, and x where β x lies above the threshold."""
    above = theta(beta * x - threshold)
    return above * x + (1 - above) * softplus(beta * x) / beta


FORMULAS |= {name: number for name, (number, _) in COMPARISONS.items()}
FORMULAS |= {"eq": lambda a, b: same(a - b), "ne": lambda a, b: 1 - same(a - b)}
FORMULAS |= {"softplus": softplus_below, "clamp_min": larger, "atan2": arctan2}


def _formula(call: SymbolicCall) -> Value:
    values = [*call.args]
    if call.op in TRUTHS_ALONE and any(v.dtype != "b" for v in values):
        raise call.refuse("bits of whole numbers have no index formula; it is known for truth values alone")
    if call.op == "power" and S(values[0].entry(*values[0].indices())).is_zero:
        raise call.refuse("a power of 0 is 0 or 1, as its exponent is: write it with where()")
    if call.op in {"relu", "logsigmoid", "absolute", "elu"}:
        values[0] = call.operand(values[0], "a")
    whole = call.op in KEEP_WHOLE and all(v.dtype in WHOLE or v.entry(*v.indices()).is_integer for v in values)
    dtype = "b" if call.op in TRUTHS_ALONE else "n" if whole else "f"
    return elementwise(call, FORMULAS[call.op], *values, dtype=dtype)


OP_SEMANTICS |= dict.fromkeys(OPERATIONS, _formula)


@semantics_of("add", "sub")
def add(call: SymbolicCall) -> Value:
    a, b = call.args
    plus = 1 if call.op == "add" else -1
    dims, (x, y) = broadcast(call, a, b)
    finite, dtype = None, "n" if a.dtype in WHOLE and b.dtype in WHOLE else "f"
    if b.finite is not None and plus < 0:
        raise call.refuse("what is subtracted is -inf in places: mask after the subtraction")
    if a.finite is not None or b.finite is not None:
        masks = (Value(v.dims, v.finite or (lambda *i: S.One)) for v in (a, b))
        finite = elementwise(call, lambda p, q: p * q, *masks).entry
    return Value(dims, lambda *i: x(*i) + plus * y(*i), dtype, finite)


@semantics_of("mul", "true_divide")
def scale(call: SymbolicCall) -> Value:
    a, b = call.args
    if b.finite is not None or (a.finite is not None and (b.dims or not call.lines.signs.positive(b.entry()))):
        raise call.refuse("an input is -inf in places; only a number that is known to be positive may stand beside it")
    return replace(elementwise(call, FORMULAS[call.op], a, b), finite=a.finite)


@semantics_of("softplus")
def bounded_softplus(call: SymbolicCall) -> Value:
    """`softplus_below`; a threshold of 20 or more, above which the function is its argument, is a condition."""
    x, beta, threshold = call.args
    x = call.operand(x, "a")
    if threshold.dims or not (threshold.entry() - ROUNDED).is_nonnegative:
        return elementwise(call, softplus_below, x, beta, threshold)
    call.conditions["softplus"] = None
    return elementwise(call, lambda x, beta: softplus(beta * x) / beta, x, beta)


@semantics_of("clamp_min")
def at_least(call: SymbolicCall) -> Value:
    x, low = call.args
    root, least = x.entry(*x.indices()), low.entry() if not low.dims else None
    if isinstance(least, Rational) and 0 < least <= SMALL:
        line = next((g.output for g in call.lines.groups if name_of(g.output.left) == name_of(root)), None)
        if line is not None and isinstance(line.right, Pow) and line.right.exp == S.Half:
            call.conditions["norm"] = None
            return x
    return elementwise(call, larger, x, low)


@semantics_of(*NAMED)
def named_function(call: SymbolicCall) -> Value:
    formula, letter, x = FORMULAS[call.op], NAMED[call.op], call.args[0]
    if call.op == "exp" and x.finite is not None:
        return call.name(Value(x.dims, lambda *i: x.finite(*i) * exp(x.entry(*i))), letter)
    values = call.args
    if call.op == "atan2" and not call.lines.signs.not_zero(S(x.entry(*x.indices()))):
        call.conditions["tie"] = None  # also of constants: the angle of -0.0 is -π where that of 0.0 is π
    if call.op not in ROOTS:
        values = [call.operand(v, "a") for v in values]
    return call.name(elementwise(call, formula, *values), letter)


@semantics_of(*FIRST)
def gate(call: SymbolicCall) -> Value:
    x, function = call.operand(call.args[0], "a"), FIRST[call.op]
    gate = call.lines.name(elementwise(call, function, x), HEADS[function].letter, where=call.where)
    return elementwise(call, lambda a, b: a * b, x, gate)


@semantics_of("gelu_tanh")
def gelu_tanh(call: SymbolicCall) -> Value:
    x, half, slope, cubic = call.args
    x = call.operand(x, "a")
    h = elementwise(call, lambda x, s, c: sympy.tanh(s * (x + c * x**3)), x, slope, cubic)
    h = call.lines.name(h, "h", where=call.where)
    return elementwise(call, lambda x, h, half: half * x * (1 + h), x, h, half)


@semantics_of(*COMPARISONS)
def compare(call: SymbolicCall) -> Value:
    return elementwise(call, COMPARISONS[call.op][all(map(_whole, call.args))], *call.args, dtype="b")


def _whole(value: Value) -> bool:
    """Is every number whole, as its type says?"""
    return value.dtype in WHOLE or (not value.dims and bool(S(value.entry()).is_integer))


@semantics_of("eq", "ne")
def equal(call: SymbolicCall) -> Value:
    a, b = call.args
    if a.dtype == b.dtype == "i":
        formula = delta
    elif a.dtype == "i" and (number := _index(b)) is not None:
        never = number.is_number and number < 1
        formula, b = lambda i, _: S.Zero if never else KroneckerDelta(i, number), Value((), lambda: S.Zero)
    else:
        a, b = as_number(a), as_number(b)
        formula = KroneckerDelta if _whole(a) and _whole(b) else lambda x, y: same(x - y)
    if call.op == "ne":
        return elementwise(call, lambda x, y: 1 - formula(x, y), a, b, dtype="b")
    return elementwise(call, formula, a, b, dtype="b")


def _index(value: Value) -> Expr | None:
    """A whole number without dimensions as an index, which counts from 1; None if it is none."""
    if value.dims or value.dtype == "i":
        return None
    number = S(value.entry())
    return number + 1 if number.is_integer and not number.has(Indexed) else None


@semantics_of("where")
def where(call: SymbolicCall) -> Value:
    condition, a, b = call.args
    if condition.dtype != "b":
        raise call.refuse("the condition is no truth value")
    if any(v.entry(*v.indices()) is S.Infinity for v in (a, b)):
        raise call.refuse("a value is +inf, which is no number: only -inf is a mask")
    masked = [v.finite is not None or v.entry(*v.indices()) is S.NegativeInfinity for v in (a, b)]
    if all(masked):
        raise call.refuse("both values are -inf in places")
    if a.finite is not None or b.finite is not None:
        raise call.refuse("a value that is -inf in places is put in; mask once")
    dims, (c, x, y) = broadcast(call, condition, a, b)
    x, y = _known_in_branch(c, x, S.One), _known_in_branch(c, y, S.Zero)
    where_x, where_y = (lambda *i: _whole_mask(c(*i))), (lambda *i: _whole_mask(1 - c(*i)))
    if any(masked):
        return Value(dims, y, "f", where_y) if masked[0] else Value(dims, x, "f", where_x)
    dtype = "b" if a.dtype == b.dtype == "b" else "n" if a.dtype in WHOLE and b.dtype in WHOLE else "f"
    return Value(dims, lambda *i: where_x(*i) * x(*i) + where_y(*i) * y(*i), dtype)


def _whole_mask(mask: Expr) -> Expr:
    """1 - [m ≤ i] of whole numbers as [i + 1 ≤ m]: SymPy would multiply -1e30 (1 - [...]) out, and floats lose x."""
    inverse = 1 - canonical(S(mask))
    if not isinstance(inverse, upto):
        return mask
    high, low = inverse.args
    both = max(0, min(low.as_coeff_Add()[0] + 1, high.as_coeff_Add()[0]))  # [i + 1 ≤ t + 1] is [i ≤ t]
    return upto(low + 1 - both, high - both)


def _known_in_branch(condition: Callable, entry: Callable, truth: Expr) -> Callable:
    """The entries of a branch of a `where`, the condition in them replaced by its truth value there."""

    def known(*indices):
        mask, expr = canonical(S(condition(*indices))), S(entry(*indices))
        for indicator, value in ((mask, truth), (1 - mask, 1 - truth)):
            if isinstance(indicator, PiecewiseConstant | upto | KroneckerDelta):
                return fresh(canonical(expr).xreplace({indicator: value}))
        return expr

    return known


@semantics_of("power_of_length")
def power_of_length(call: SymbolicCall) -> Value:
    """x^p for x >= 0 and p > 0, whose gradient at 0 is 0."""
    x, p = call.args
    if not (p.entry() - 1).is_positive:
        call.conditions["root"] = None
    return elementwise(call, lambda x, p: x**p, x, p)


OP_SEMANTICS |= {"clone": lambda call: call.args[0], "overwrite": lambda call: call.args[1]}


@semantics_of("cast")
def cast(call: SymbolicCall) -> Value:
    x, dtype = call.args[:2]
    target = {"b": "b", "i": "n", "u": "n", "f": "f"}[dtype.kind]
    if target == "f" or target == x.dtype or (target == "n" and x.dtype == "b"):
        return Value(x.dims, x.entry, target, x.finite)
    call.check_finite("")
    if target == "b":
        return elementwise(call, lambda x: 1 - same(x), x, dtype="b")
    return elementwise(call, lambda x: theta(x) * floored(x) - theta(-x) * floored(-x), x, dtype="n")  # towards 0


@semantics_of("isnan", "isfinite")
def is_finite(call: SymbolicCall) -> Value:
    (x,) = call.args
    if x.finite is None:
        call.conditions["finite"] = None
    finite = x.finite or (lambda *i: S.One)
    return Value(x.dims, finite if call.op == "isfinite" else lambda *i: S.Zero, "b")
