"""What is known of the sign of a formula."""

from collections.abc import Iterable, Mapping
from functools import cached_property, lru_cache, partial

from sympy import Add, Expr, Function, Indexed, KroneckerDelta, Mul, Pow, S, Sum, Symbol, log

from tinytensor.symbolic.index_calculus.formulas import Array, Size, free, index_order, name_of, names_in, not_negative
from tinytensor.symbolic.index_calculus.functions import (
    ABOVE,
    HEADS,
    IN_FORMULAS,
    PiecewiseConstant,
    detach,
    larger,
    sign,
)

KINKS = ("tie", "step")  # conditions without which a function has a value, but no derivative


class Signs:
    """What is known of the sign of a formula, through the definitions of the names in it: lines, or by name."""

    def __init__(self, lines: Iterable | Mapping = ()):
        self.right = lines if isinstance(lines, Mapping) else {line.name: line.right for line in lines}

    def _definition(self, e: Expr) -> Expr | None:
        return self.right.get(name_of(e)) if isinstance(e, Indexed | Symbol) else None

    @cached_property
    def _logarithms(self) -> set[Expr]:
        """The arguments of logarithms in the definitions, which are above 0 where these have a value."""
        return {pattern(e.args[0]) for right in self.right.values() for e in right.atoms(log)}

    def positive(self, e: Expr) -> bool:
        """Is it known to be above 0 at all sizes and values?"""
        return self._above(e, True)

    def not_negative(self, e: Expr) -> bool:
        """Is it known to be 0 or more?"""
        return self._above(e, False)

    def _above(self, e: Expr, strictly: bool) -> bool:
        is_so = partial(self._above, strictly=strictly)
        if (right := self._definition(e)) is not None:
            return is_so(right)
        if e.is_positive or _sign(e) == 1:
            return True
        if not strictly and (e.is_nonnegative or _sign(e) == 0 or isinstance(e, KroneckerDelta)):
            return True
        if isinstance(e, Add):
            if e.atoms(Size) and not_negative(e - 1):
                return True
            return all(map(self.not_negative, e.args)) and (not strictly or any(map(self.positive, e.args)))
        if isinstance(e, Mul):
            return all(map(is_so, e.args))
        if isinstance(e, Pow):
            return is_so(e.base) or (_even(e.exp) and (not strictly or self.not_zero(e.base)))
        if isinstance(e, larger):
            return any(map(is_so, e.args))
        if strictly and isinstance(e, Sum) and not all(not_negative(size - 1) for _, _, size in e.limits):
            return False  # it may be empty
        return isinstance(e, Sum | detach | sign) and is_so(e.args[0])

    def not_zero(self, e: Expr) -> bool:
        """Is it known to differ from 0?"""
        if e.is_number:
            return bool(e.is_nonzero)
        if self.positive(e) or self.positive(-e):
            return True
        if (right := self._definition(e)) is not None:
            return self.not_zero(right)
        if isinstance(e, Mul):
            return all(map(self.not_zero, e.args))
        return isinstance(e, Pow) and self.not_zero(e.base)

    def meets(self, key: str, term: Expr) -> bool:
        """Is the number that decides about a condition known to be above 0, or other than 0?"""
        return (self.positive if key in ABOVE else self.not_zero)(term)

    def divides(self, *formulas: Expr) -> bool:
        """Has one of these a denominator that may be 0?"""
        powers = [p for formula in formulas for p in formula.atoms(Pow) if p.exp.is_negative is not False]
        return any(not self.not_zero(p.base) for p in powers)

    def needs(self, formula: Expr) -> set[str]:
        """The keys of conditions.VALUES under which each power in a formula is a finite number."""
        keys = set()
        for base, power in (p.args for p in formula.atoms(Pow) if not (p.exp.is_integer and p.exp.is_nonnegative)):
            while isinstance(right := self._definition(base), Pow):  # 1/r for r = √x
                base, power = right.base, right.exp * power
            if power.is_integer:
                above = "logarithm" if {pattern(base), pattern((-base).expand())} & self._logarithms else "denominator"
                keys |= set() if self.not_zero(base) else {above}
            elif not (self.not_negative if power.is_Rational and power > 0 else self.positive)(base):
                keys.add("root" if power.is_Rational else "logarithm")
        return keys


def of_numbers(term: Expr) -> bool:
    """Does it depend on numbers that are no whole ones?"""
    return any(n.values is None if isinstance(n, Array) else not n.is_integer for n in names_in(term))


def varies(number: Expr) -> bool:
    """Does it depend on numbers other than in steps? Else it may be 0 at all of them, as i - j and ⌊x⌋ may."""
    return of_numbers(number.xreplace(dict.fromkeys(number.atoms(PiecewiseConstant), S.One)))


def needs_of(e: Expr) -> dict[str, Expr]:
    """The conditions for a value and a derivative of a power or a function, beside those of its arguments.

    They are keys of VALUES, each with the number that decides; see functions.Row.needs.
    """
    if isinstance(e, Pow):
        if not e.exp.is_Rational:
            return {"logarithm": e.base}
        return {"root": e.base} if not e.exp.is_Integer else {"denominator": e.base} if e.exp < 0 else {}
    needs = HEADS[e.func].needs if e.func in HEADS else {}
    return {key: term(IN_FORMULAS, *e.args) for key, term in needs.items()}


@lru_cache(4096)
def requirements(formula: Expr) -> frozenset[tuple[str, Expr]]:
    """The conditions under which a formula has a value and a derivative."""
    return frozenset(need for e in formula.atoms(Pow, Function) for need in needs_of(e).items())


def pattern(formula: Expr) -> Expr:
    """The formula with the same marks for its indices, whatever they are called."""
    indices = sorted(free(formula), key=index_order)
    return formula.xreplace({i: Symbol(f"#{n} to {i.size}") for n, i in enumerate(indices)})


def _sign(e: Expr) -> int | None:
    """The sign of all values of a function; None if it is not one."""
    return HEADS[e.func].sign if e.func in HEADS else None


def _even(power: Expr) -> bool:
    return bool(power.is_Integer and power % 2 == 0)
