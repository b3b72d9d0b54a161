"""The functions in formulas: one table, a row each. All that is known of a function stands in its row.

A derivative is written once, for each kind of term that has +, -, *, / and **: formulas of SymPy, the opaque functions
of a fixed shape, residues modulo a prime, terms of Coq. `of` has the functions of that kind of term: of.exp(x).

The tests compare each column with another one, with SymPy, or with the engine's kernels on a grid.
"""

import math
import re
import statistics
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from fractions import Fraction

import mpmath
import sympy
from mpmath import iv
from sympy import Function, KroneckerDelta, S

ABOVE = ("logarithm", "root", "arc", "unit", "gamma")  # a term is above 0; the other conditions are that it is not 0
ROOT_OF_PI = sympy.sqrt(sympy.pi)


@dataclass(frozen=True, kw_only=True)
class Row:
    """A function.

    head: its class in formulas, or what makes it there. value: in plain numbers. slope: the derivative, or one by each
    argument, from `of`, the value y and the arguments; None where it is 0. form: the same in other functions.
    needs: conditions for a value and a derivative, keys of conditions.VALUES, each with the term that must be above 0
    (a key in ABOVE) or other than 0, from `of` and the arguments. sign: 1 if it is above 0 where they hold, 0 if it is
    0 or more. parity: -1 for f(-x) = -f(x), 1 for f(-x) = f(x). mirrored: f(x) from f(-x) and x, where there is no
    parity. elementary: NumPy and kernels have it by this name. numpy, text, tex: with {} for the arguments. helper:
    what defines it in code where NumPy lacks it. coq: its name in Coq, if the library has its derivative. interval: its
    values in an interval of mpmath's, unless it is monotone. letter: of a line that has its values; the derivative is
    then written in them. arguments: their number.
    """

    name: str
    head: Callable
    value: Callable
    slope: Callable | tuple[Callable, ...] | None = None
    form: Callable | None = None
    needs: dict[str, Callable] = field(default_factory=dict)
    sign: int | None = None
    parity: int = 0
    mirrored: Callable | None = None
    elementary: bool = False
    numpy: str = ""
    helper: str = ""
    text: str = ""
    tex: str = ""
    coq: str = ""
    interval: Callable | None = None
    letter: str = ""
    arguments: int = 1

    @property
    def is_rational(self) -> bool:
        """Has it fractions for values, at fractions?"""
        return not isinstance(self.value(*[Fraction(1, 3)] * self.arguments), float)

    def derivative(self, of: "Functions", y, arguments: tuple, n: int = 0):
        """The derivative of the value y by argument n."""
        slope = self.slope[n] if isinstance(self.slope, tuple) else self.slope
        return 0 if slope is None else slope(of, y, *arguments)


class Functions:
    """The functions of one kind of term, as attributes; `apply` gets a name and the arguments. root_of_pi: √π."""

    def __init__(self, apply: Callable, pi=sympy.pi, root_of_pi=ROOT_OF_PI):
        self.apply, self.pi, self.root_of_pi = apply, pi, root_of_pi

    def __getattr__(self, name: str) -> Callable:
        return lambda *arguments: self.apply(name, *arguments)


class Table(dict):
    """The rows by name. Those of the derivatives of ψ, polygamma1, polygamma2 ..., are entered when they are used."""

    def __missing__(self, name: str) -> Row:
        n = int(name.removeprefix("polygamma")) if re.fullmatch(r"polygamma[1-9]\d*", name) else 0
        if not n:
            raise KeyError(name)
        enter(
            name, value=lambda x: float(mpmath.polygamma(n, float(x))) if x > 0 else math.nan, needs={"gamma": _itself},
            slope=lambda of, y, x: of.apply(f"polygamma{n + 1}", x), numpy=f"polygamma({n}, {{}})", helper=POLYGAMMA,
            text=f"ψ^({n})", tex=rf"\psi^{{({n})}}",
        )  # fmt: skip
        return self[name]


POLYGAMMA = '''def polygamma(n, x):
    """The derivative number n > 0 of ψ, for x > 0: terms up to x + 20 + n, then Euler and Maclaurin's series."""
    x, b = np.where(x > 0, x, np.nan), (1 / 12, -1 / 720, 1 / 30240, -1 / 1209600, 1 / 47900160)
    z = x + 20 + n
    series = sum(b[k] * math.prod(range(n + 1, n + 2 * k + 2)) / z ** (2 * k + 1) for k in range(5))
    total = sum((x + k) ** (-n - 1.0) for k in range(20 + n)) + (z / n + 0.5 + series) / z ** (n + 1)
    return (-1) ** (n + 1) * math.factorial(n) * total'''
TABLE: dict[str, Row] = Table()
HEADS: dict[Callable, Row] = {}
IN_FORMULAS = Functions(lambda name, *arguments: TABLE[name].head(*arguments))


class Head(Function):
    """The base of our own functions in formulas."""

    def fdiff(self, argindex=1):
        return S(HEADS[self.func].derivative(IN_FORMULAS, self, self.args, argindex - 1))


class PiecewiseConstant(Head):
    """A function that changes in steps only."""


class Indicator(Head):
    """A function whose values are 0 and 1, so that each positive power of it is the function itself."""

    def _eval_power(self, exponent):
        return self if exponent.is_positive else None


class Step(PiecewiseConstant, Indicator):
    """1 where a number meets a condition, otherwise 0; of a mask times a number and one more, the same mask or none."""

    @classmethod
    def eval(cls, x):
        number, multiple = S(x).as_coeff_Add()
        factor, mask = multiple.as_coeff_Mul()
        if isinstance(mask, Indicator | KroneckerDelta) and number.is_Rational and factor.is_Rational:
            low, high = (TABLE[cls.__name__].value(Fraction(n.p, n.q)) for n in (number, number + factor))
            return low + (high - low) * mask
        return None


class Comparison(Indicator):
    """1 where a whole number is at most another one, otherwise 0; known where the sign of their distance is known."""

    @classmethod
    def eval(cls, index, limit):
        holds = (S(limit) - S(index)).is_nonnegative
        return None if holds is None else S(int(holds))


def enter(name: str, head=Head, also: tuple = (), arguments: int = 1, **columns):
    """Enter a row, and return the function; of a base class, a new class is made. also: SymPy's names for the same."""
    if isinstance(head, type) and issubclass(head, Head):
        head = type(name, (head,), {"nargs": arguments, "__module__": __name__})
    elementary = columns.get("elementary")
    shown = {"text": name, "tex": rf"\{name}" if elementary else rf"\operatorname{{{name}}}"}
    shown |= {"letter": name if elementary else ""} | columns
    shown["numpy"] = columns.get("numpy", f"np.{name}" if elementary else name if "helper" in columns else "")
    for column, (left, right) in {"text": "()", "tex": (r"\left(", r"\right)"), "numpy": "()"}.items():
        if shown[column] and "{}" not in shown[column]:
            shown[column] += left + ", ".join(["{}"] * arguments) + right
    TABLE[name] = row = Row(name=name, head=head, arguments=arguments, **shown)
    HEADS.update(dict.fromkeys((head, *also), row))
    return head


def elementary(name: str, slope: Callable, **columns):
    """Enter a function that SymPy and Python's `math` have by this name."""
    return enter(name, getattr(sympy, name), value=getattr(math, name), slope=slope, elementary=True, **columns)


def fill(pattern: str, parts: Iterable[str]) -> str:
    """A text of a row with these in the place of each {}."""
    before, *behind = pattern.split("{}")
    return before + "".join(p + text for p, text in zip(parts, behind, strict=True))


def with_need(key: str) -> tuple[Callable, ...]:
    """The functions with a condition of this key."""
    return tuple(row.head for row in TABLE.values() if key in row.needs)


def _itself(of, x):
    return x


def _inside(of, x):
    return 1 - x**2


# fmt: off
# ---- elementary functions, which SymPy has ---------------------------------------------------------------------------

exp = elementary("exp", lambda of, y, x: y, sign=1, coq="exp", interval=iv.exp, letter="e")
log = elementary("log", lambda of, y, x: 1 / x, needs={"logarithm": _itself}, coq="ln", interval=iv.log, letter="")
sqrt = elementary(
    "sqrt", lambda of, y, x: 1 / (2 * y), needs={"root": _itself}, sign=1, coq="sqrt", interval=iv.sqrt, letter="r",
)
tanh = elementary(
    "tanh", lambda of, y, x: 1 - y**2, form=lambda x: 1 - 2 / (1 + exp(2 * x)), parity=-1, coq="tanh", letter="h",
)
sin = elementary("sin", lambda of, y, x: of.cos(x), parity=-1, coq="sin", interval=iv.sin)
cos = elementary("cos", lambda of, y, x: -of.sin(x), parity=1, coq="cos", interval=iv.cos)
asin = elementary(
    "asin", lambda of, y, x: 1 / of.sqrt(1 - x**2), needs={"arc": _inside}, parity=-1,
    numpy="np.arcsin", text="arcsin", tex=r"\arcsin", coq="asin",
)
acos = elementary(
    "acos", lambda of, y, x: -(1 / of.sqrt(1 - x**2)), needs={"arc": _inside},
    numpy="np.arccos", text="arccos", tex=r"\arccos", coq="acos",
)
atan = elementary(
    "atan", lambda of, y, x: 1 / (x**2 + 1), parity=-1, numpy="np.arctan", text="arctan", tex=r"\arctan", coq="atan",
)
asinh = elementary(
    "asinh", lambda of, y, x: 1 / of.sqrt(x**2 + 1), parity=-1,
    numpy="np.arcsinh", text="arsinh", tex=r"\operatorname{arsinh}", coq="arcsinh",
)
erf = elementary(
    "erf", lambda of, y, x: 2 * of.exp(-(x**2)) / of.root_of_pi, parity=-1,
    numpy="erf", tex=r"\operatorname{erf}", coq="erf",
    helper='''def erf(x):
    """The error function."""
    return np.vectorize(math.erf, otypes=[float])(x)''',
)
erfinv = enter(
    "erfinv", value=lambda x: statistics.NormalDist().inv_cdf((1 + x) / 2) / math.sqrt(2), needs={"unit": _inside},
    slope=lambda of, y, x: of.exp(y**2) * of.root_of_pi / 2, parity=-1, elementary=True, numpy="erfinv", letter="z",
    tex=r"\operatorname{erf}^{-1}",
    helper='''def erfinv(x):
    """The inverse of the error function, between -1 and 1."""
    quantile = statistics.NormalDist().inv_cdf
    return np.vectorize(lambda x: quantile((1 + x) / 2) / math.sqrt(2) if abs(x) < 1 else np.nan, otypes=[float])(x)''',
)
lgamma = enter(
    "lgamma", value=math.lgamma, slope=lambda of, y, x: of.digamma(x), needs={"gamma": _itself},
    elementary=True, numpy="lgamma", letter="g", text="log Γ", tex=r"\log\Gamma",
    helper='''def lgamma(x):
    """The logarithm of the gamma function."""
    return np.vectorize(lambda x: math.lgamma(x) if x > 0 or x % 1 else np.inf, otypes=[float])(x)''',
)
digamma = enter(
    "digamma", value=lambda x: float(mpmath.digamma(float(x))), slope=lambda of, y, x: of.polygamma1(x),
    elementary=True, numpy="digamma", needs={"gamma": _itself}, letter="d", text="ψ", tex=r"\psi",
    helper='''def digamma(x):
    """The derivative of log Γ, for x > 0: by Stirling's series at x + 10."""
    x, b = np.asarray(x, float), (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760)
    z = x + 10
    series = sum(b[k] / z ** (2 * k + 2) for k in range(6))
    return np.log(z) - 0.5 / z - series - sum(1 / (x + k) for k in range(10))''',
)
# ---- our own ---------------------------------------------------------------------------------------------------------

sinc = enter(  # 1 at 0, where its slope is 0 and the formula of the slope has no value
    "sinc", value=lambda x: math.sin(math.pi * x) / (math.pi * x) if x else 1.0,
    slope=lambda of, y, x: (of.cos(of.pi * x) - y) / x, form=lambda x: sin(sympy.pi * x) / (sympy.pi * x),
    needs={"denominator": _itself}, parity=1, numpy="np.sinc", letter="s", coq="sinc",
    interval=lambda x: iv.sin(iv.pi * x) / (iv.pi * x),
)
density = enter(  # of the standard normal distribution; in formulas it is written out
    "density", lambda x: exp(-(x**2) / 2) / sympy.sqrt(2 * sympy.pi), slope=lambda of, y, x: -x * y,
    value=lambda x: math.exp(-(x**2) / 2) / math.sqrt(2 * math.pi), coq="density",
    interval=lambda x: iv.exp(-(x**2) / 2) / iv.sqrt(2 * iv.pi),
)
Phi = enter(  # the distribution function of the standard normal distribution
    "Phi", value=lambda x: math.erfc(-x / math.sqrt(2)) / 2, slope=lambda of, y, x: of.density(x),
    form=lambda x: (1 + erf(x / sympy.sqrt(2))) / 2, sign=1, mirrored=lambda y, x: 1 - y,
    text="Φ", tex=r"\Phi", coq="Phi", letter="p",
    helper='''def Phi(x):
    """The distribution function of the standard normal distribution."""
    return np.vectorize(math.erfc, otypes=[float])(-np.asarray(x) / np.sqrt(2)) / 2''',
)
sigmoid = enter(
    "sigmoid", value=lambda x: 1 / (1 + math.exp(-x)), slope=lambda of, y, x: y * (1 - y),
    form=lambda x: 1 / (1 + exp(-x)), sign=1, mirrored=lambda y, x: 1 - y,
    text="σ", tex=r"\sigma", coq="sigmoid", letter="s",
    helper='''def sigmoid(x):
    """1 / (1 + exp(-x)), without overflow."""
    return np.exp(-np.logaddexp(0, -x))''',
)
softplus = enter(
    "softplus", value=lambda x: math.log1p(math.exp(x)), slope=lambda of, y, x: of.sigmoid(x),
    form=lambda x: log(1 + exp(x)), sign=1, mirrored=lambda y, x: y + x, numpy="np.logaddexp(0, {})", coq="softplus",
)
arctan2 = enter(  # the angle of the point (x, y), as arctan2(y, x), from -π to π; it jumps where y is 0
    "arctan2", arguments=2, value=math.atan2, numpy="np.arctan2", letter="φ",
    slope=(lambda of, f, y, x: x / (x**2 + y**2), lambda of, f, y, x: -y / (x**2 + y**2)),
    needs={"denominator": lambda of, y, x: x**2 + y**2, "tie": lambda of, y, x: y},
)
theta = enter(  # 0 at 0
    "theta", Step, value=lambda x: int(x > 0), needs={"tie": _itself}, sign=0,
    text="[{} > 0]", tex=r"\left[{} > 0\right]", coq="theta",
    helper='''def theta(x):
    """1 where x > 0, else 0."""
    return 1.0 * (x > 0)''',
)
same = enter(
    "same", Step, value=lambda x: int(x == 0), needs={"tie": _itself}, sign=0, parity=1,
    text="[{} = 0]", tex=r"\left[{} = 0\right]", coq="same",
    interval=lambda x: iv.mpf([int(x == iv.mpf(0)), int(0 in x)]),
    helper='''def same(x):
    """1 where x = 0, else 0."""
    return 1.0 * (x == 0)''',
)
sign = enter(
    "sign", PiecewiseConstant, also=(sympy.sign,), value=lambda x: (x > 0) - (x < 0), needs={"tie": _itself}, parity=-1,
    form=lambda x: theta(x) - theta(-x), numpy="np.sign", coq="sign",
)
floored = enter(  # the largest whole number that is not above x
    "floored", PiecewiseConstant, also=(sympy.floor,), value=math.floor,
    needs={"step": lambda of, x: x - of.floored(x)}, numpy="np.floor", text="⌊{}⌋", tex=r"\left\lfloor {}\right\rfloor",
)
relu = enter(  # SymPy's Max has Heaviside as its derivative, which is 1/2 at 0
    "relu", value=lambda x: max(x, 0), slope=lambda of, y, x: of.theta(x), form=lambda x: x * theta(x),
    needs={"tie": _itself}, sign=0, numpy="np.maximum(0, {})", text="max(0, {})", tex=r"\max\left(0, {}\right)",
    coq="relu",
)
absolute = enter(
    "absolute", also=(sympy.Abs,), value=abs, slope=lambda of, y, x: of.sign(x), form=lambda x: x * (2 * theta(x) - 1),
    needs={"tie": _itself}, sign=0, parity=1, numpy="np.abs", text="|{}|", tex=r"\left|{}\right|", coq="Rabs",
    interval=abs,
)
larger = enter(
    "larger", arguments=2, value=max, form=lambda a, b: b + (a - b) * theta(a - b),
    needs={"tie": lambda of, a, b: a - b},
    slope=(lambda of, y, a, b: of.theta(a - b), lambda of, y, a, b: 1 - of.theta(a - b)),
    numpy="np.maximum", text="max", tex=r"\max", coq="larger", interval=lambda x, y: (x + y + abs(x - y)) / 2,
)
smaller = enter("smaller", arguments=2, value=min, form=lambda a, b: -larger(-a, -b), text="min", tex=r"\min")
detach = enter("detach", value=lambda x: x)  # x itself, held constant: its derivative is 0, as after detach()
upto = enter(  # upto(m, i) is a causal mask
    "upto", Comparison, arguments=2, value=lambda index, limit: int(index <= limit), sign=0,
    text="[{} ≤ {}]", tex=r"\left[{} \le {}\right]",
)
# fmt: on
