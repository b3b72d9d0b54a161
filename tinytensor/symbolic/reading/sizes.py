"""Sizes that have no number: SymInt, a polynomial of named sizes >= 1, and SymFloat, a real formula of them.

Neither is a subclass of int or float. Each way to a number is a method of these classes, which returns a formula, or
decides a question for all sizes, or records its answer as a condition, or refuses. The reading keeps a refusal, so
code that catches the exception changes nothing.
"""

import abc
import collections
import math
import operator
import sys
import types
from collections.abc import Callable, Collection
from math import inf, prod
from numbers import Number
from typing import NoReturn

import numpy as np
from sympy import Add, Dummy, Expr, Integer, Pow, Rational, S, exp, factor, floor

from tinytensor.symbolic.derive.arguments import multiples
from tinytensor.symbolic.index_calculus.formulas import Size
from tinytensor.symbolic.prove import advice
from tinytensor.symbolic.reading.errors import Refused, Restart, Split
from tinytensor.symbolic.reading.rounding import as_written
from tinytensor.symbolic.reading.solver import Polynomial, facts_of_products, infeasible

HINTS = 1000003, 1000033, 1000037, 1000039, 1000081, 1000099, 1000117, 1000121  # where open questions are answered:
HINTS = tuple(map(Integer, HINTS))  # large, since nothing runs so often; N > 150 is then true, and a condition
MEMORY = 2**44  # no tensor has more elements
EXACT = 2**50  # so large are whole numbers whose quotients are compared with whole numbers
MANY = 6  # conditions of one line: it is a loop whose steps depend on a size


def is_users_file(file: str) -> bool:
    """Is it a file of the user's, and of no package that is installed?"""
    return advice.is_own(file) and "site-packages" not in file


def is_users(code: types.CodeType, module: dict) -> bool:
    """Is this the user's own code? module: its globals.

    A text may be compiled with the name of any file, but only a library's module has the globals of its code.
    """
    if is_users_file(code.co_filename):
        return True
    name = module.get("__name__")
    home = sys.modules.get("_collections_abc" if name == "collections.abc" else name)
    return getattr(home, "__dict__", None) is not module


# a module may set its __name__, so frames are told apart by the files of their code
LIBRARY = abc.ABCMeta.__instancecheck__.__code__.co_filename, collections.__file__


def asked_by_user(through: Collection[str] = LIBRARY) -> bool:
    """Does the user's code call the function that calls this one, or a function of these files around that?"""
    frame = sys._getframe(2)
    while frame.f_code.co_filename in through and not is_users(frame.f_code, frame.f_globals):
        frame = frame.f_back
    return is_users(frame.f_code, frame.f_globals)


def where() -> str:
    """The line of the user's own code that is running, in words."""
    return advice.line(sys._getframe(1))


class StepNumber(Dummy):
    """The number of a step of a loop, from 0 on."""

    def _sympystr(self, printer) -> str:
        return self.name


class Reading:
    """What one reading knows of its sizes, the conditions that it met, and why it was refused, if it was.

    conditions: (">=" or "==" or "!=", p, line) for p >= 0 and so on; known: those of the caller. Each p is an expanded
    formula of sizes, of numbers of steps and of quotients, floor(p/q). values: keys of conditions.VALUES that the
    reading rests on. terms: in the order in which they were made. result: a term, or an array that no argument
    reaches. arguments: the terms of the tensors among them.
    """

    off_tape = False  # is it the forward of a Function, which never runs on the tape, that is read?

    def __init__(self):
        self.hints: dict[Expr, int] = {}
        self.quotients: dict[Expr, None] = {}
        self.solved: dict[Expr, Expr] = {}  # N // 2 is (N - 1)/2 where N % 2 == 1
        self.products: list[Expr] = []  # numbers of elements of tensors: they fit into memory
        self.steps: dict[Expr, Expr] = {}  # of all loops, 0 <= t < count
        self.loops = 0  # how many have begun
        self.open_loops: list = []
        self.learnt: dict = {}  # of loops, also the shapes of states that begin as numbers: see restart
        self.comprehensions: list = []  # of lists whose items are not used yet
        self.conditions: list[tuple[str, Expr, str]] = []
        self.known: list[tuple[str, Expr, str]] = []
        self.values: dict[str, None] = {}
        self.refusals: list[str] = []
        self.outside: dict[tuple, tuple] = {}  # by name and id: objects from outside of the function, what they held
        self.written: list[tuple] = []  # tensors with numbers that were changed in place, with what they had
        self.doubts: list[str] = []  # why it would be refused, unless it ends by an error
        self.terms: list = []
        self.result, self.arguments = None, {}
        self.over = False
        self.forced: list[bool] = []  # the first answers of open questions, where the function fails otherwise
        self.answers: list[bool] = []
        self._decided: dict = {}
        self._numbers: dict[Expr, int] = {}  # of the variables of the solver
        self._rows: dict[Expr, Polynomial] = {}

    def number(self, formula: Expr) -> "SymInt | int":
        """A formula of sizes, such as 2*M + 1, as a size."""
        formula = S(formula).expand()
        self.quotients |= dict.fromkeys(formula.atoms(floor))
        for size in sorted(formula.atoms(Size) - self.hints.keys(), key=str):
            self.hints[size] = HINTS[len(self.hints) % len(HINTS)]
            self.products.append(size)
        self.check_open(formula)
        return int(formula) if formula.is_Integer else SymInt(formula, self)  # without sizes it is an int

    def refuse(self, what: str, advice: str = "") -> NoReturn:
        self.refusals.append(f"{what}{where()}{advice}")
        raise Refused(self.refusals[-1])

    def atoms(self, p: Expr) -> set[Expr]:
        """The sizes, the numbers of steps and the quotients in a formula, and in the number of a loop's steps."""
        atoms = p.atoms(Size, StepNumber, floor)
        return atoms.union(*(self.atoms(self.steps[t]) for t in atoms & self.steps.keys()))

    def check_open(self, p: Expr) -> None:
        if self.atoms(p) & self.steps.keys() - {loop.t for loop in self.open_loops}:
            self.refuse("the step of a loop is used after the loop")

    def _row(self, p: Expr) -> Polynomial:
        """A formula as the solver takes it, its sizes, steps and quotients by their numbers."""
        if p not in self._rows:
            row = self._rows[p] = {}
            for term, c in p.expand().as_coefficients_dict().items():
                powers = {a: k for a, k in term.as_powers_dict().items() if a != 1}
                if not c.is_Integer or not all(k.is_Integer and k > 0 for k in powers.values()):
                    raise ValueError(f"{p}: expected a polynomial of sizes, with whole numbers in front of them")
                factors = [self._numbers.setdefault(a, len(self._numbers)) for a, k in powers.items() for _ in range(k)]
                row[tuple(sorted(factors))] = int(c)
        return self._rows[p]

    def _impossible(self, *inequalities: Expr) -> bool:
        """Do no sizes meet these p >= 0 and all that is known?"""
        facts, cases, met = [*inequalities], [[]], [*self.known, *self.conditions]
        for a in sorted(set().union(*map(self.atoms, (*inequalities, *[p for _, p, _ in met]))), key=str):
            if a in self.steps:
                facts += [a, self.steps[a] - 1 - a]
            elif isinstance(a, floor):  # q a <= p <= q a + q - 1
                p, q = fraction(a)
                facts += [p - q * a, q - 1 - p + q * a] + [a] * bool(a.is_nonnegative)
        for operation, p, _ in met:
            if operation == "!=" and len(cases) < 8:
                cases = [[*case, self._row(side - 1)] for case in cases for side in (p, -p)]
            elif operation != "!=":
                facts += [p, -p] if operation == "==" else [p]
        rows = [*map(self._row, facts)]
        products = {m for p in rows for m in p}
        rows += [self._row(MEMORY - p) for p in self.products if products & self._row(p).keys()]
        rows += facts_of_products(rows, {self._numbers[n] for n in self.hints if n in self._numbers})
        return all(infeasible([*rows, *case]) for case in cases)

    def decide(self, operation: str, p: Expr, *more: Expr) -> bool | None:
        """Does it hold at all sizes, or at none, that meet the conditions so far and these p >= 0?"""
        below = self._impossible(-p - 1, *more)
        if operation == ">=":
            return True if below else False if self._impossible(p, *more) else None
        if self._impossible(p, -p, *more):
            return False
        return True if below and self._impossible(p - 1, *more) else None

    def ask(self, operation: str, p: Expr, wanted: bool | None = None) -> bool:
        """Is p >= 0 (or p == 0)? Decided for all sizes under the conditions so far, or recorded as a new one.

        wanted: the answer of an open question without which the function fails, as that two sizes are equal.
        """
        holds = {">=": lambda n: bool(n >= 0), "==": lambda n: n == 0}[operation]
        if p.is_number:
            return holds(p)
        self.check_open(p)
        key = operation, p, len(self.conditions)
        if key not in self._decided:
            self._decided[key] = self.decide(operation, p)
        if self._decided[key] is not None:
            return self._decided[key]
        if not p.free_symbols <= self.hints.keys():
            self._refuse_step(operation, p)
        line = where()
        if sum(asked == line for *_, asked in self.conditions) >= MANY:
            self.refuse("the number of steps depends on sizes in a loop that is no `for t in range(N)`")
        answer = holds(p.xreplace(self.hints)) if wanted is None else wanted
        answer = self.forced[len(self.answers)] if len(self.answers) < len(self.forced) else answer
        self.answers.append(answer)
        if operation == ">=":
            self.conditions.append((">=", p if answer else -p - 1, line))
            return answer
        self.conditions.append(("==" if answer else "!=", p, line))
        if answer:
            self.solve(p)
        return answer

    def _refuse_step(self, operation: str, p: Expr) -> NoReturn:
        """Refuse a question that has not one answer for all steps of a loop; the first step may be another one."""
        loop = self.open_loops[-1] if self.open_loops else None
        if loop is not None and not loop.peeled and self.decide(operation, p, loop.later_steps()) is not None:
            self.restart(loop.step, "first step", True)
        self.refuse(
            f"the code asks about the step of a loop over a size: {condition_text(operation, p)}",
            "; take that step out of the loop, write the branch as a mask for all steps at once, or prove() it at "
            "one size",
        )

    def divided(self, p: Expr, q: Expr) -> "SymInt | int":
        """p // q: what divides exactly, plus a quotient a with q a <= p < q (a + 1)."""
        if not self.ask(">=", q - 1):
            self.refuse("a division by a size that may be 0 or below")
        return self.number(floor((p / q).expand()))

    def solve(self, p: Expr) -> None:
        """Where N == 2 (N // 2) + 1, the formula of N // 2 is (N - 1)/2."""
        for a, over, under, remainder in remainders(p):
            self.solved[a] = (over - remainder) / under

    def take_multiples(self, *formulas: Expr) -> None:
        """Where sizes that do not fit have N // 2 or N/2 in them, N is 2 N2 from the beginning."""
        for f in formulas:
            parts = [a.args[0] for a in sorted(f.atoms(floor), key=str)]
            parts += [t * c for t, c in f.as_coefficients_dict().items() if not c.is_Integer]
            for over, under in (part.as_numer_denom() for part in parts):
                size = -over if over.could_extract_minus_sign() else over
                if size in self.hints and under.is_number:
                    raise Split(size, *multiples(size, under))

    def restart(self, step: str, what: str, value) -> None:
        """Begin the reading anew, which then knows of a loop: its "first step" is another one, its indices "fall"."""
        if self.learnt.get((step, what)) != value:
            self.learnt[step, what] = value
            raise Restart

    def check_rising(self, index) -> None:
        """Read a loop from its end if the index of an entry falls from step to step."""
        loop = self.open_loops[-1] if self.open_loops and type(index) is SymInt else None
        if loop is not None and index.expr.coeff(loop.t).is_negative:
            self.restart(loop.step, "fall", True)

    def note_text(self) -> None:
        """A size was made a text: by the user's own code, which is refused, or by the engine for an error."""
        if self.over:
            return
        caller = sys._getframe(2)
        if is_users(caller.f_code, caller.f_globals):
            self.refuse("a size has no text")
        self.doubts.append(f"an error or a warning that names a size was not raised{where()}")


def fraction(quotient: Expr) -> tuple[Expr, Expr]:
    """p and q of p // q."""
    return quotient.args[0].as_numer_denom()


def remainders(p: Expr) -> list[tuple[Expr, Expr, Expr, Expr]]:
    """a, over, under, remainder where p == 0 says that over % under == remainder, with a = over // under."""
    known = [(a, *fraction(a)) for a in sorted(p.atoms(floor), key=str)]
    rows = [(a, n, d, (n - d * a - s * p).expand()) for a, n, d in known if d.is_number for s in (1, -1)]
    return [row for row in rows if row[-1].is_number]


def sides(p: Expr) -> tuple[Expr, Expr]:
    """The terms with a positive number in front, and the others with the opposite sign."""
    left = Add(*[t for t in Add.make_args(p) if t.as_coeff_Mul()[0] > 0])
    return left, left - p


def condition_text(operation: str, p: Expr) -> str:
    return f" {operation} ".join(map(str, sides(p)))


def refusing(what: str, advice: str = "") -> Callable:
    """A method that refuses."""
    return lambda self, *args, **kwargs: self.reading.refuse(what, advice)


NO_NUMBER = "a size has no number here: compute with it as a formula, or use tinytensor's functions"
NO_FLOAT = "a size has no number here: write N**0.5 or math.sqrt(N), or a tensor function"


class _Number:
    """The ways from a size to a number, a text or a key that no formula follows."""

    __slots__ = ("expr", "is_quotient", "reading")
    __index__ = __int__ = refusing(NO_NUMBER)
    __float__ = __complex__ = refusing(NO_FLOAT)
    __and__ = __or__ = __xor__ = __rand__ = __ror__ = __rxor__ = refusing("bits of a size have no formula")
    __invert__ = __lshift__ = __rshift__ = __rlshift__ = __rrshift__ = __and__
    __array__ = __array_function__ = __array_ufunc__ = __buffer__ = refusing(
        "NumPy can't compute with a size: use Python's numbers, or tinytensor's functions"
    )
    __reduce_ex__ = __getstate__ = __dir__ = refusing("a size can't be stored, rounded or changed")
    __round__ = __setattr__ = __reduce_ex__

    def __hash__(self):
        what = "a size can't be a key of a dict, a set or a cache: compare with =="
        if asked_by_user():
            self.reading.refuse(what)
        raise TypeError(what)  # a library goes on without its cache

    def __new__(cls, expr: Expr, reading: Reading, is_quotient: bool = False):  # its __init__() does nothing
        self = object.__new__(cls)
        for name, value in (("expr", expr), ("reading", reading), ("is_quotient", is_quotient)):
            object.__setattr__(self, name, value)
        return self

    def __getattr__(self, name: str):
        if hasattr(self.__class__, name):
            self.reading.refuse(f"the attribute .{name} of a size")
        raise AttributeError(name)  # as the number itself would: hasattr(N, "_data") is False for all sizes

    def __repr__(self, spec: str = ""):
        self.reading.note_text()
        return f"({self.expr})" if self.expr.is_Add else str(self.expr)

    def _arithmetic(name: str, compute: Callable, check: Callable | None = None) -> Callable:
        """An operator; of two whole numbers it gives a whole one, unless it is a division or a power."""

        def method(self, value):
            if type(value) not in NUMBERS:
                return _foreign(self, value)
            if check is not None:
                check(self, value)
            formula = compute(self.expr, formula_of(value))
            whole = type(self) is SymInt and type(value) in WHOLE
            if whole and name in ("add", "sub", "mul"):
                return self.reading.number(formula)
            return SymFloat(formula, self.reading, whole and name == "true_divide" and type(value) is int)

        return method

    __add__ = __radd__ = _arithmetic("add", operator.add)
    __mul__ = __rmul__ = _arithmetic("mul", operator.mul)
    __sub__, __rsub__ = _arithmetic("sub", operator.sub), _arithmetic("sub", lambda a, b: b - a)
    __truediv__ = _arithmetic("true_divide", operator.truediv, lambda a, b: check_domain(b, "denominator"))
    __rtruediv__ = _arithmetic("", lambda a, b: b / a, lambda a, b: check_domain(a, "denominator"))
    __pow__ = _arithmetic("pow", operator.pow, lambda a, b: check_power(a, b))
    __rpow__ = _arithmetic("pow", lambda a, b: b**a, lambda a, b: check_power(b, a))

    def _of_whole(compute: Callable) -> Callable:
        """An operator of two whole numbers."""

        def method(self, value):
            return compute(self, value) if {type(self), type(value)} <= {*WHOLE} else _foreign(self, value)

        return method

    __floordiv__ = _of_whole(lambda n, m: n.reading.divided(n.expr, formula_of(m)))
    __rfloordiv__ = _of_whole(lambda n, m: n.reading.divided(formula_of(m), n.expr))
    __mod__, __rmod__ = (_of_whole(lambda n, m: n - n // m * m), _of_whole(lambda n, m: m - m // n * n))
    __divmod__, __rdivmod__ = _of_whole(lambda n, m: (n // m, n % m)), _of_whole(lambda n, m: (m // n, m % n))

    def _compared(name: str, operation: str, sign: int, offset: int) -> Callable:
        """The comparison sign * (self - value) + offset >= 0 (or == 0) of whole numbers, or with NaN or an infinity."""

        def method(self, value):
            if type(value) not in NUMBERS:
                return _foreign(self, value) if isinstance(value, Number) else NotImplemented
            whole = type(self) is SymInt
            if type(value) is float and (value != value or (abs(value) == inf and (whole or is_small(self.expr)))):
                return getattr(0.0, name)(value)
            if not whole or type(value) is SymFloat:
                compared = f"a comparison of {self.expr} with {formula_of(value)}"
                self.reading.refuse(f"{compared}, which floats may round: compare whole numbers, by // and %")
            if type(value) is float and not value.is_integer():
                if operation == "==":
                    return False
                value = math.ceil(value) if name in ("__lt__", "__ge__") else math.floor(value)  # N < 2.5 is N < 3
            return self.reading.ask(operation, sign * (self.expr - formula_of(value)) + offset)

        return method

    __ge__, __gt__ = _compared("__ge__", ">=", 1, 0), _compared("__gt__", ">=", 1, -1)
    __le__, __lt__ = _compared("__le__", ">=", -1, 0), _compared("__lt__", ">=", -1, -1)
    __eq__ = _compared("__eq__", "==", 1, 0)  # of which Python makes !=

    def __pos__(self, *_):
        return self

    def __neg__(self):
        return self * -1

    def __abs__(self):
        return self if self >= 0 else -self

    def __bool__(self):
        return self != 0

    __str__ = __format__ = __repr__
    __copy__ = __deepcopy__ = __pos__


class SymInt(_Number):
    """A whole number that depends on sizes. It says that it is an int to isinstance(), and is none."""

    __slots__ = ()
    __trunc__ = __floor__ = __ceil__ = _Number.__pos__
    __class__ = property(lambda self: int)  # isinstance(n, int) is answered as for the number that it stands for

    def __pow__(self, n):
        return prod([self] * n) if type(n) is int and n >= 0 else super().__pow__(n)


def check_domain(n, what: str) -> None:
    """Let a number be no denominator 0, no root of a number below 0, and no logarithm of 0 or less.

    This is a condition on sizes, or one on values where its formula is no quotient of polynomials.
    """
    if not isinstance(n, _Number):
        if what == "denominator" and n == 0:
            raise ZeroDivisionError("division by zero")
        return
    whole = factor(n.expr)
    p, q = whole.as_numer_denom()
    holds = {"denominator": p.is_nonzero, "root": whole.is_nonnegative, "logarithm": whole.is_positive}[what]
    smooth = p.xreplace(dict.fromkeys(p.atoms(floor), S.One)).is_polynomial()
    if holds is None and q.is_positive and p.is_integer and smooth:
        p = p.expand()
        if what == "denominator":
            holds = not n.reading.ask("==", p, False)
        else:
            holds = n.reading.ask(">=", p - int(what == "logarithm"), True)
    if holds is None:
        n.reading.values[what] = None
    elif not holds:
        raise ZeroDivisionError("division by zero") if what == "denominator" else ValueError("math domain error")


def check_power(base, exponent) -> None:
    """A power of a number below 0 is real where the exponent is whole; one of 0, where it is not below 0."""
    if type(exponent) is SymInt and type(base) not in (float, SymFloat):
        exponent.reading.refuse("a power of whole numbers is an int or a float: write 2.0**N")
    if type(exponent) is SymFloat or (type(exponent) is not SymInt and exponent % 1):
        check_domain(base, "root")
    if not formula_of(exponent).is_nonnegative:
        check_domain(base, "denominator")
    if isinstance(exponent, _Number) and not (isinstance(base, int | float) and abs(base) == 1):
        exponent.reading.values["overflow"] = None


def _foreign(n: _Number, value):
    """What a size gives to an operator beside a value that it does not know: a tensor computes with the size."""
    if isinstance(value, Number) or type(value).__module__.partition(".")[0] in sys.stdlib_module_names:
        n.reading.refuse(f"a {type(value).__name__} with a size has no formula here")
    return NotImplemented


# ------------------------------------------------------------------------------------------------ numbers as formulas


def formula_of(n) -> Expr:
    """A number or a size as SymPy writes it."""
    return n.expr if type(n) in (SymInt, SymFloat) else as_written(n)


class SymFloat(_Number):
    """A real number that depends on sizes: 1/N, N**0.5, 2.0**(N - 200). It says that it is a float."""

    __slots__ = ()
    __class__ = property(lambda self: float)
    __floor__ = __ceil__ = refusing("rounding of a quotient: divide by //")


WHOLE = (SymInt, int, bool)
NUMBERS = (*WHOLE, SymFloat, float)


def never_negative(n) -> bool:
    """Is it 0 or more at all sizes?"""
    return n >= 0 if type(n) is int else n.reading.decide(">=", n.expr) is True


def is_small(formula: Expr) -> bool:
    """Is no power and no number in it large? It does not overflow, and a product does not become 0."""
    large = any(p.exp.free_symbols or abs(p.exp) > 4 for p in formula.atoms(Pow, exp))
    return not large and all(not q or 1 <= abs(q) * 10**12 <= 10**24 for q in formula.atoms(Rational))


def is_between_the_same(n) -> bool:
    """Does a number that is not whole lie between the same whole numbers as the floats of 64 and of 32 bits for it?

    A quotient by an int does where floats hold its numerator: it is rounded once.
    """
    if type(n) is SymFloat:
        over = n.reading.number(n.expr.as_numer_denom()[0]) if n.is_quotient else 2 * EXACT
        return never_negative(EXACT - over) and never_negative(EXACT + over)
    return type(n) is float and np.float32(n).is_integer() == n.is_integer()
