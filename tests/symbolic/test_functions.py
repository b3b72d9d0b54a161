"""The table of functions: each column beside another one, beside SymPy, and beside the engine on a grid."""

import ast
import importlib
import inspect
import itertools
import math
import pkgutil
import re
import statistics
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import sympy
from mpmath import iv

import tinytensor as tt
from tinytensor import ops
from tinytensor.core.op import Op
from tinytensor.core.tensor import Tensor
from tinytensor.nn import functional as F
from tinytensor.symbolic import Symbolic, Undecided, derive
from tinytensor.symbolic.certificates.terms import IN_COQ, Term, number, text
from tinytensor.symbolic.derive.domains import edges_of
from tinytensor.symbolic.derive.semantics import elementwise
from tinytensor.symbolic.exact.finite_field import Field
from tinytensor.symbolic.exact.scalars import ROUNDED, opaque, reading
from tinytensor.symbolic.index_calculus import functions, notation
from tinytensor.symbolic.index_calculus.formulas import Array, Index, Size, derivative, normal
from tinytensor.symbolic.index_calculus.functions import ABOVE, HEADS, IN_FORMULAS, TABLE, Functions, Row, enter
from tinytensor.symbolic.index_calculus.numpy_printer import NumPyPrinter
from tinytensor.symbolic.index_calculus.quotients import in_steps
from tinytensor.symbolic.index_calculus.vanishing import vanishes, vanishes_at_size

GRID = (-40.0, -3.0, -1.0, -0.75, 0.0, 0.25, 1.0, 2.5, 3.0, 40.0)
LIBRARY = (
    (Path(tt.__file__).parents[1] / "derivations/coq/Tinytensor.v").read_text("utf-8").replace("- (x ^ 2)", "- x ^ 2")
)
ENGINE = {
    "density": lambda x: (-x * x / 2).exp() / math.sqrt(2 * math.pi),
    "Phi": lambda x: (1 + (x / math.sqrt(2)).erf()) / 2,
    "softplus": lambda x: F.softplus(x, threshold=50),
    "arctan2": tt.atan2,
    "theta": lambda x: x > 0,
    "same": lambda x: x == 0,
    "floored": tt.floor,
    **{f"polygamma{n}": lambda x, n=n: tt.polygamma(n, tt.where(x > 0, x, math.nan)) for n in (1, 4)},
    "relu": F.relu,
    "larger": tt.maximum,
    "smaller": tt.minimum,
    "detach": lambda x: x.detach(),
    "upto": lambda a, b: a <= b,
}
SHOWN = r"""
exp exp \exp | log log \log | sqrt sqrt \sqrt | tanh tanh \tanh | sin sin \sin | cos cos \cos | asin arcsin \arcsin
| acos arccos \arccos | atan arctan \arctan | asinh arsinh \operatorname{arsinh} | erf erf \operatorname{erf}
| erfinv erfinv \operatorname{erf}^{-1} | lgamma logΓ \log\Gamma | digamma ψ \psi | polygamma1 ψ^(1) \psi^{(1)}
| polygamma4 ψ^(4) \psi^{(4)} | density density \operatorname{density} | Phi Φ \Phi | sigmoid σ \sigma
| softplus softplus \operatorname{softplus} | arctan2 arctan2 \operatorname{arctan2} | theta [{}>0] \left[{}>0\right]
| same [{}=0] \left[{}=0\right] | sign sign \operatorname{sign} | floored ⌊{}⌋ \left\lfloor{}\right\rfloor
| relu max(0,{}) \max\left(0,{}\right) | absolute |{}| \left|{}\right| | larger max \max | smaller min \min
| detach detach \operatorname{detach} | sinc sinc \operatorname{sinc} | upto [{}≤{}] \left[{}\le{}\right]
"""


def number_at(row: Row, arguments: tuple) -> float:
    """The value of a row; NaN where there is none."""
    try:
        return float(row.value(*arguments))
    except (ValueError, ZeroDivisionError):
        return math.nan


def close(a: float, b: float, by: float = 1e-12) -> bool:
    return abs(a - b) <= by * max(1, abs(a), abs(b)) or not (math.isfinite(a) or math.isfinite(b))


def in_floats(formula, at: tuple) -> float:
    """A function that takes formulas, at numbers."""
    symbols = sympy.symbols(f"a:{len(at)}", real=True)
    terms = dict(zip(symbols, map(sympy.Rational, at), strict=True))
    result = formula(*symbols).xreplace(terms).replace(
        lambda e: e.func in HEADS and not e.has(sympy.Symbol),
        lambda e: sympy.Float(number_at(HEADS[e.func], [float(a) for a in e.args])) if e.args[0].is_real else sympy.nan,
    )  # fmt: skip
    return float(result) if result.is_real else math.nan


def met(row: Row, at: tuple) -> bool:
    """Are all conditions of a row met?"""
    of = Functions(lambda name, *arguments: TABLE[name].value(*arguments))
    terms = ((key, term(of, *at)) for key, term in row.needs.items())
    return all(t > 0 if key in ABOVE else t != 0 for key, t in terms)


def is_smooth(row: Row, at: tuple, n: int) -> bool:
    """Has it a derivative by argument n there, as quotients at both sides say?"""
    h, middle = 1e-7, number_at(row, at)
    sides = [(number_at(row, (*at[:n], at[n] + s * h, *at[n + 1 :])) - middle) / (s * h) for s in (1, -1)]
    return all(map(math.isfinite, sides)) and max(map(abs, sides)) < 1e3 * max(1, abs(middle)) and close(*sides, 1e-4)


def shown(row: Row) -> bool:
    """Has it the texts of SHOWN?"""
    rows = (entry.split() for entry in re.split(r"\s\|\s", SHOWN.strip()))
    wanted, wanted_tex = next((entry[1], entry[2]) for entry in rows if entry[0] == row.name)
    blanks = ",".join(["{}"] * row.arguments)
    wanted += "" if "{}" in wanted else f"({blanks})"
    wanted_tex += "" if "{}" in wanted_tex else rf"\left({blanks}\right)"
    return (row.text.replace(" ", ""), row.tex.replace(" ", "")) == (wanted, wanted_tex)


def coq_lemma(row: Row) -> str:
    """The lemma that the library must have for this row."""
    x = Term("number", text="x")
    conditions = {"logarithm": "0 < x -> ", "root": "0 < x -> ", "arc": "-1 < x < 1 -> ", "tie": "x <> 0 -> "}
    conditions["denominator"] = conditions["tie"]
    needed = "".join(conditions[key] for key in row.needs)
    slope = row.derivative(IN_COQ, Term(row.coq, (x,)), (x,))
    slope = text(slope if isinstance(slope, Term) else number(str(slope)), str)
    slope = slope if slope == "0" else f"({slope})"
    return f"Lemma {row.coq}_derive : forall x, {needed}is_derive {row.coq} x {slope}."


def slope_is_right(row: Row, at: tuple, n: int) -> bool:
    h = 1e-5
    sides = [number_at(row, (*at[:n], at[n] + s * h, *at[n + 1 :])) for s in (1, -1)]
    wanted = (sides[0] - sides[1]) / (2 * h)
    return close(in_floats(lambda *a: sympy.S(row.derivative(IN_FORMULAS, row.head(*a), a, n)), at), wanted, 1e-5)


def faults(row: Row) -> set[str]:
    """The columns of a row in which an entry is wrong."""
    result = set()
    engine = ENGINE.get(row.name) or getattr(tt, row.name)
    namespace = {"np": np, "math": math, "statistics": statistics}
    exec(row.helper, namespace)
    points = list(itertools.product(GRID, repeat=row.arguments))
    for at in points:
        value, by = number_at(row, at), 1e-7 if row.name in ("erf", "Phi") else 1e-12
        if not close(value, engine(*(tt.tensor(a, dtype=tt.float64) for a in at)).item(), by):
            result.add("value")
        if row.numpy and not close(value, float(eval(row.numpy.format(*map(repr, at)), namespace)), 1e-10):
            result.add("numpy")
        has_form = row.form is not None and ("denominator" not in row.needs or met(row, at))
        if has_form and not close(value, in_floats(row.form, at), 1e-9):
            result.add("form")
        if row.interval is not None and met(TABLE[row.name], at):
            around = row.interval(*(iv.mpf([a - 1e-9 * abs(a), a + 0.125]) for a in at))
            if not around.a - 1e-12 <= value <= around.b + 1e-12:
                result.add("interval")
        if row.sign is not None and met(row, at) and (value < 0 or (value == 0 and row.sign == 1 and at[0] > -40)):
            result.add("sign")
        if row.parity and not close(value, row.parity * number_at(row, tuple(-a for a in at))):
            result.add("parity")
        if row.mirrored is not None and not close(value, row.mirrored(number_at(row, (-at[0],)), at[0])):
            result.add("mirrored")
        for n in range(len(at) if row.name not in ("detach", "upto", "smaller") else 0):
            if met(row, at) and not is_smooth(row, at, n):
                result.add("needs")
            elif met(row, at) and not slope_is_right(row, at, n):
                result.add("slope")
    broken = [at for at in points if not met(row, at)]
    if row.needs.keys() - {"denominator"} and all(is_smooth(row, at, n) for at in broken for n in range(len(at))):
        result.add("needs")
    if row.elementary and sympy.simplify(row.head(X).diff(X) - row.derivative(IN_FORMULAS, row.head(X), (X,))) != 0:
        result.add("slope")
    if row.coq not in ("", "larger", "density") and coq_lemma(row) not in LIBRARY:
        result.add("coq")
    return result | (set() if shown(row) else {"text"})


X = sympy.Symbol("x", positive=True)


@pytest.mark.parametrize("name", [*TABLE, "polygamma1", "polygamma4"])
def test_each_row_is_right(name):
    with np.errstate(all="ignore"):
        assert faults(TABLE[name]) == set()


WRONG = {  # row, column, a wrong entry
    "another value": ("sigmoid", "value", lambda x: 1 / (1 + math.exp(x))),
    "a value that is wrong at a tie": ("theta", "value", lambda x: int(x >= 0)),
    "a value that is wrong far out": ("tanh", "value", lambda x: math.tanh(x) if abs(x) < 30 else 0.5),
    "the sign of a slope": ("cos", "slope", lambda of, y, x: of.sin(x)),
    "a slope without its factor": ("erf", "slope", lambda of, y, x: of.exp(-(x**2)) / of.root_of_pi),
    "slopes in the wrong order": ("arctan2", "slope", TABLE["arctan2"].slope[::-1]),
    "a slope of a step": ("sign", "slope", lambda of, y, x: 1),
    "a form": ("softplus", "form", lambda x: sympy.log(1 + sympy.exp(-x))),
    "a lost kink": ("relu", "needs", {}),
    "a lost jump": ("floored", "needs", {}),
    "a lost bound": ("log", "needs", {}),
    "a bound": ("asin", "needs", {"arc": lambda of, x: 2 - x**2}),
    "a kink elsewhere": ("absolute", "needs", {"tie": lambda of, x: x - 1}),
    "a kink that there is not": ("exp", "needs", {"tie": lambda of, x: x}),
    "a sign": ("sin", "sign", 0),
    "0 as above 0": ("relu", "sign", 1),
    "a parity": ("cos", "parity", -1),
    "a mirror image": ("Phi", "mirrored", lambda y, x: y),
    "code": ("atan", "numpy", "np.tan({})"),
    "a helper": ("same", "helper", "def same(x):\n    return 1.0 * (x > 0)"),
    "a text": ("acos", "text", "arcsin({})"),
    "TeX": ("sigmoid", "tex", r"\phi\left({}\right)"),
    "an interval": ("cos", "interval", iv.sin),
    "a name in Coq": ("log", "coq", "log"),
    "another function in Coq": ("sin", "coq", "cos"),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_entry_is_noticed(what):
    name, column, entry = WRONG[what]
    noticed = {"helper": "numpy", "tex": "text"}.get(column, column)
    with np.errstate(all="ignore"):
        assert noticed in faults(replace(TABLE[name], **{column: entry}))


def test_each_column_has_a_wrong_entry():
    columns = set(Row.__dataclass_fields__) - {"name", "head", "elementary", "letter", "arguments"}
    assert {column for _, column, _ in WRONG.values()} == columns


n = Size("n", "i j")
i, j = Index("i", n), Index("j", n)
x = Array("x", (n,))


@pytest.fixture
def sinh():
    slope = lambda of, y, x: of.sqrt(y**2 + 1)  # noqa: E731
    yield enter("sinh", value=math.sinh, slope=slope, parity=-1, elementary=True, coq="sinh")
    row = TABLE.pop("sinh")
    for head in [head for head, column in HEADS.items() if column is row]:
        del HEADS[head]
    opaque.cache_clear()


def test_one_row_gives_text_code_and_derivative(sinh):
    formula = sinh(x[i])
    assert notation.text(formula) == "sinh(x_i)" and notation.tex(formula) == r"\sinh\left(x_{i}\right)"
    assert NumPyPrinter(size=str).whole(formula, (i,)) == "np.sinh(x)"
    assert normal(derivative(formula, x[j]) - sympy.sqrt(1 + formula**2) * sympy.KroneckerDelta(i, j)) == 0
    slope = TABLE["sinh"].derivative(IN_COQ, Term("sinh", (number("x"),)), (number("x"),))
    assert text(slope, str) == "sqrt (sinh x ^ 2 + 1)"


def test_names_are_the_same_in_entries_and_matrices():
    wanted = r"\operatorname{erf}\left("
    assert notation.tex(sympy.erf(x[i])) == wanted + r"x_{i}\right)"
    (first, *_) = derive(lambda x: x.erf().sum(), x=("N",)).matrix()
    assert first.latex().endswith(wanted + r"x\right)")


def test_one_row_gives_zero_tests_and_exact_scalars(sinh):
    slope = sinh(x[i]).diff(x[i])
    assert vanishes([slope**2 - sinh(x[i]) ** 2 - 1]) is not None
    assert vanishes([slope**2 - sinh(x[i]) ** 2 + 1]) is None
    y, z = Symbolic(X, 0.5)._apply("sinh"), sympy.Symbol("z")
    assert y.witness == math.sinh(0.5)
    assert vanishes_at_size(opaque("sinh")(z).diff(z) ** 2 - 1 - opaque("sinh")(z) ** 2)
    with Field(seed=1) as field:
        variable = field.draw(0.5)
        left, right = variable._apply("sinh"), (-variable)._apply("sinh")
        assert left.equals(-right) and (left.tangent + right.tangent) % field.prime == 0


def test_one_row_gives_a_derivation(sinh, monkeypatch):
    monkeypatch.setitem(elementwise.FORMULAS, "sinh", sinh)
    derivation = derive(lambda x: x.sinh().sum(), x=("N",))
    assert derivation and "√(1 + sinh(x_n)²)" in str(derivation)


def members(node: ast.AST) -> list[ast.AST]:
    """What a table, a list or a union of classes has in it."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        return members(node.left) + members(node.right)
    return getattr(node, "keys", None) or getattr(node, "elts", None) or [node]


def tables(text: str) -> list[str]:
    """The tables with more than three functions of the table, by name, by class or by their name in Coq."""
    names = set(TABLE) | {row.coq for row in TABLE.values() if row.coq}
    parts = [[getattr(m, "id", getattr(m, "value", None)) for m in members(node)] for node in ast.walk(ast.parse(text))]
    known = [[name for name in part if isinstance(name, str) and name in names] for part in parts]
    return [" ".join(part) for part in known if len(part) > 3]


def test_no_other_table_is_keyed_by_functions():
    files = {path: path.read_text("utf-8") for path in Path(functions.__file__).parents[1].rglob("*.py")}
    lists = {path.name: names for path, text in files.items() if (names := tables(text))}
    # the operations with their formulas, and measured seconds of operations
    assert lists == {"elementwise.py": ["relu absolute log sign"]}
    for planted in ("{exp: 1, log: 2, sin: 3, cos: 4}", "('exp', 'ln', 'sin', 'cos')", "theta | relu | sign | same"):
        assert tables(f"X = {planted}")


SMALL_GRID = (-3.0, -0.75, 0.0, 1.0, 2.5, 40.0)


def operations() -> dict[str, Op]:
    """The elementwise operations of the engine."""
    modules = [importlib.import_module(m.name) for m in pkgutil.walk_packages(ops.__path__, "tinytensor.ops.")]
    every = [value for module in modules for value in vars(module).values() if isinstance(value, Op)]
    return {op.name: op for op in every if op.kernel is not None and op.name in elementwise.FORMULAS}


OPERATIONS = operations()


def differs(name: str) -> list[tuple]:
    """The points that meet its conditions, and where the formula of an operation has another value than its kernel."""
    op, truths = OPERATIONS[name], name in elementwise.TRUTHS_ALONE
    signature = inspect.signature(op.kernel.py_func).parameters.values()
    free = sum(p.default is p.empty for p in signature)
    grid = (0.0, 1.0) if truths else {1: GRID, 2: SMALL_GRID}.get(free, (-0.75, 0.0, 2.5))
    divisors = (1,) if name.startswith(("gelu", "polygamma")) else (1, 8)  # whose settings are constants
    settings = [[p.default / d for d in divisors] for p in signature if p.default is not p.empty]
    result = []
    for at in itertools.product(*[grid] * free, *settings):
        arrays = [np.array(a, bool if truths else float) for a in at[:free]]
        if edges_of(name, [*arrays, *at[free:]]) <= {"tie", "step", "equality"}:
            wanted = op(*map(tt.tensor, arrays), *at[free:]).item()
            formula = lambda *x: elementwise.FORMULAS[name](*x, *map(sympy.Rational, at[free:]))  # noqa: B023, E731
            if not close(in_floats(formula, at[:free]), float(wanted), 1e-7):
                result.append(at)
    return result


@pytest.mark.parametrize("name", OPERATIONS)
def test_each_operation_has_the_values_of_its_kernel(name):
    with np.errstate(all="ignore"):
        assert differs(name) == []


@pytest.mark.parametrize(
    ("x", "bias", "edges"),
    [
        ([[2.0, 2.5]], [0.5], {"tie"}),
        ([[2.0, 2.0]], None, {"tie"}),
        ([[0.0, 2.0]], [0.5], set()),
        ([[0.0, 0.0]], [0.5], set()),
        (np.zeros((0, 2)), [0.5], set()),
    ],
)
def test_tie_of_linear_relu_is_that_of_its_sum(x, bias, edges):
    assert edges_of("linear_relu", [np.array(x), np.array([[1.0, -1.0]]), bias and np.array(bias)]) == edges


WRONG_OPERATIONS = {
    "a tie": ("relu_backward", lambda h, z: h * (1 - functions.theta(-z))),
    "a setting that is not used": ("softplus", lambda x, beta, threshold: functions.softplus(beta * x) / beta),
    "a setting as the base of a logarithm": ("clipped_log", sympy.log),
    "a sign": ("logit", lambda x: sympy.log(1 - x) - sympy.log(x)),
    "the order of arguments": ("gt", lambda a, b: functions.theta(b - a)),
    "towards 0": ("floor_divide", lambda a, b: functions.sign(a / b) * functions.floored(functions.absolute(a / b))),
}


def with_steps(formula: sympy.Expr, at: dict) -> sympy.Expr:
    """The formula on the side of each step where the point lies."""
    formula = in_steps(formula).replace(functions.floored, lambda u: sympy.floor(u.xreplace(at)))
    formula = formula.replace(functions.theta, lambda u: sympy.S(int(float(u.xreplace(at)) > 0)))
    return formula.replace(functions.same, lambda u: sympy.S(int(float(u.xreplace(at)) == 0)))


def is_kernels(name: str, numbers: tuple) -> bool | None:
    """Is the formula that of the kernel's own source, run on symbols, on the path of these numbers? None: no value."""
    op = OPERATIONS[name]
    parameters = inspect.signature(op.kernel.py_func).parameters.values()
    settings = [p.default for p in parameters if p.default is not p.empty]
    free = zip((p.name for p in parameters if p.default is p.empty), numbers, strict=False)
    at = {sympy.Symbol(p, **{"positive" if w > 0 else "negative": True}): sympy.Rational(w) for p, w in free}
    try:
        with reading(ROUNDED):  # a constant such as 0.7071 is the root that it rounds
            result = op(*[Tensor.of(np.array(Symbolic(s, w), object)) for s, w in at.items()], *settings)
    except Undecided:
        return None
    formula = elementwise.FORMULAS[name](*at, *[ROUNDED.get(s, sympy.Rational(s)) for s in settings])
    return vanishes([Symbolic.of(result._data.item()).formula() - with_steps(sympy.S(formula), at)]) is not None


PATHS = ((0.3, 0.7, 0.4), (-0.6, 0.25, 0.6), (0.9, -0.4, 0.3), (-0.3, -0.7, 0.4))


@pytest.mark.parametrize("name", [name for name in OPERATIONS if name not in elementwise.TRUTHS_ALONE])
def test_each_formula_is_proved_to_be_that_of_its_kernel(name):
    results = [is_kernels(name, numbers) for numbers in PATHS]
    assert True in results and False not in results


@pytest.mark.parametrize("what", WRONG_OPERATIONS)
def test_a_wrong_formula_of_an_operation_is_noticed_and_not_proved(what, monkeypatch):
    name, formula = WRONG_OPERATIONS[what]
    monkeypatch.setitem(elementwise.FORMULAS, name, formula)
    with np.errstate(all="ignore"):
        assert differs(name)
    on_no_path = what in ("a tie", "a setting that is not used")
    assert on_no_path or False in [is_kernels(name, numbers) for numbers in PATHS]
