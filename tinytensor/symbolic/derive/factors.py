"""Adjoints in the factors in which a person writes them: nothing is multiplied out.

    adjoint_in_factors  reverse mode through the formula of each line, a product for each place of the name
    factored            common factors of a sum in front:             2 q d - 2 μ d = 2 (q - μ) d
    fold                products that have a name become that name:   (x - μ) r = z, where z = (x - μ) r
    cost                how long an expression is

These are proposals. adjoints.py proves each of them equal to the derivative of index_calculus/adjoints.py.
"""

import itertools
from collections.abc import Callable, Iterable
from functools import cache, lru_cache

from sympy import Add, Expr, Function, Indexed, KroneckerDelta, Mul, Pow, S, Sum, Symbol, exp, log

from tinytensor.symbolic.index_calculus.adjoints import Definition, Name, d, name_of, names_in
from tinytensor.symbolic.index_calculus.formulas import Index, close, contract, free, fresh, index_order
from tinytensor.symbolic.index_calculus.interruption import step
from tinytensor.symbolic.index_calculus.linear_algebra import OfMatrix

MEMORY = 10_000  # expressions whose shorter forms and costs are known

# ------------------------------------------------------------------------------------------------ reverse mode


def adjoint_in_factors(entry: Expr, lines: Iterable[Definition], loss: Symbol | None = None) -> Expr:
    """The adjoint of an entry: for each place of its name in the lines, a product under its sums."""
    new = {i: i.fresh() for i in free(entry)}
    by, terms = entry.xreplace(new), []
    for line in lines:
        if name_of(entry) not in names_in(line.right):
            continue
        own = {i: i.fresh() for i in sorted(free(line.left), key=index_order)}
        left, right = line.left.xreplace(own), fresh(line.right).xreplace(own)
        arriving = S.One if line.left == loss else d(left)
        for product, bound, at in occurrences(right, arriving, list(own.values()), name_of(entry), left, right):
            terms.append(_at_entry(product, bound, at, getattr(by, "indices", ())))
    return Add(*terms).xreplace({fresh_one: i for i, fresh_one in new.items()})


def occurrences(expr: Expr, arriving: Expr, bound: list[Index], name: Name, left: Expr, whole: Expr):
    """(product, its bound indices, the indices of the entry) for each place of the name in a formula."""
    if name not in names_in(expr):
        return
    if isinstance(expr, Indexed | Symbol):
        yield arriving, bound, getattr(expr, "indices", ())
        return
    if isinstance(expr, OfMatrix):
        at = tuple(Index(letter, n) for letter, n in zip("ab", name.sizes, strict=True))
        slope = expr.slope(name[at]).xreplace({expr: left} if expr == whole else {})
        for term in Add.make_args(slope):
            yield Mul(arriving, fresh(term)), [*bound, *at], at
        return
    if isinstance(expr, Add):
        parts = [(term, arriving, bound) for term in expr.args]
    elif isinstance(expr, Sum):
        expr = fresh(expr)  # the same sum may stand in `arriving`, as in the derivative of its square
        parts = [(expr.function, arriving, bound + [limit[0] for limit in expr.limits])]
    elif isinstance(expr, Mul):
        parts = []
        for k, factor in enumerate(expr.args):
            inner, slope = _of_power(factor)
            if slope is not None and expr == whole:  # c = s / r: its derivative by r is -c / r
                parts.append((inner, Mul(arriving, left, slope), bound))
            else:
                parts.append((factor, Mul(arriving, *expr.args[:k], *expr.args[k + 1 :]), bound))
    elif isinstance(expr, Pow) and not expr.exp.is_number:
        base, power = expr.args
        value = left if expr == whole else expr
        parts = [(base, Mul(arriving, power, value, 1 / base), bound), (power, Mul(arriving, value, log(base)), bound)]
    elif isinstance(expr, Pow):
        base, power = expr.args
        parts = [(base, Mul(arriving, power, _one_less(expr, left if expr == whole else None)), bound)]
    else:
        value = {expr: left} if expr == whole else {}
        parts = [(a, Mul(arriving, expr.fdiff(k).xreplace(value)), bound) for k, a in enumerate(expr.args, 1)]
    for inner, product, indices in parts:
        yield from occurrences(inner, product, indices, name, left, whole)


def _of_power(factor: Expr) -> tuple[Expr, Expr | None]:
    """The base b and e/b for b^e, the exponent and 1 for an exponential; None where the derivative is simpler."""
    if isinstance(factor, exp):
        return factor.args[0], S.One
    if isinstance(factor, Pow) and factor.exp.is_number and not (factor.exp.is_Integer and factor.exp > 0):
        return factor.base, factor.exp / factor.base
    return factor, None


def _one_less(expr: Pow, left: Expr | None) -> Expr:
    """b^(e - 1), as a power of `left` = b^e where that is simple: r^3 for the derivative of r = b^(-1/2)."""
    base, power = expr.args
    if left is None or (power.is_Integer and power > 0):
        return base ** (power - 1)
    return left ** ((power - 1) / power) if ((power - 1) / power).is_Integer else left / base


def _at_entry(product: Expr, bound: list[Index], at, by) -> Expr:
    """The product with the indices `by` of the entry in the place of its own indices `at`."""
    bound, change = list(bound), {}
    for own, wanted in zip(at, by, strict=True):
        own = S(own).xreplace(change)
        if isinstance(own, Index) and own in bound and own.size == getattr(wanted, "size", None):
            change = {k: v.xreplace({own: wanted}) for k, v in change.items()} | {own: wanted}
            bound.remove(own)
        elif own != wanted:
            product *= KroneckerDelta(wanted, own)
    return sum_product(product.xreplace(change), bound)


def sum_product(product: Expr, bound: list[Index]) -> Expr:
    """The sum of a product that is not multiplied out: deltas are used, and factors stand outside where they can."""
    return canonical(close(*contract(product, bound)))


def opened(sum_: Sum) -> tuple[Expr, list[Index]]:
    """The summand and its indices, which no sum inside can have; equal sums have the same ones."""
    taken, change = sum_.atoms(Index), {}
    for index in (limit[0] for limit in sum_.limits):
        numbers = (_own_index(index.name, index.size, n) for n in itertools.count())
        change[index] = next(i for i in numbers if i not in taken and i not in change.values())
    return sum_.function.xreplace(change), list(change.values())


@cache
def _own_index(name: str, size: Expr, number: int) -> Index:
    return Index(name, size)


@lru_cache(MEMORY)
def canonical(expr: Expr) -> Expr:
    """Equal sums with equal bound indices, factors without a bound index in front of the sum."""
    if not expr.has(Sum):
        return expr
    if isinstance(expr, Sum):
        inner, bound = opened(expr)
        return close(*contract(canonical(inner), bound))  # whose sums get numbers that the new index does not have
    return expr.func(*[canonical(a) for a in expr.args])


# ------------------------------------------------------------------------------------------------ shorter forms


def rebuild(expr: Expr, change: Callable[[Expr], Expr]) -> Expr:
    """The expression with `change` applied to its parts."""
    step()
    if not expr.args or isinstance(expr, Indexed | KroneckerDelta | OfMatrix):
        return expr
    if isinstance(expr, Sum):
        before, bound = opened(expr)
        inner = change(before)
        return expr if inner == before else canonical(Sum(inner, *[(i, 1, i.size) for i in bound]))
    return expr.func(*[change(a) for a in expr.args])


@lru_cache(MEMORY)
def factor(expr: Expr) -> Expr:
    """Common factors of sums in front."""
    expr = rebuild(expr, factor)
    if not isinstance(expr, Add):
        return expr
    terms = [term.as_coeff_Mul() for term in expr.args]
    powers = [powers_of(m) for _, m in terms]
    common: dict[Expr, Expr] = {}
    for base in sorted(powers[0], key=str):
        exponents = [p.get(base, S.Zero) for p in powers]
        if base.is_number or not all(e.is_number for e in exponents):
            continue
        if all(e > 0 for e in exponents) or all(e < 0 for e in exponents):
            common[base] = min(exponents) if exponents[0] > 0 else max(exponents)
    sizes = {abs(c) for c, _ in terms}
    number = sizes.pop() if len(sizes) == 1 else S.One
    if not common:
        return _by_deltas(expr)
    if all(c < 0 for c, _ in terms):
        number = -number
    rests = [[base ** (e - common.get(base, S.Zero)) for base, e in p.items()] for p in powers]
    inner = Add(*[Mul(c / number, *rest) for (c, _), rest in zip(terms, rests, strict=True)])
    front = [base**e for base, e in common.items()]
    return Mul(number, *front, factor(inner) if isinstance(inner, Add) and inner != expr else inner)


def powers_of(product: Expr) -> dict[Expr, Expr]:
    """The factors of a product by their exponents; an exponential is a factor, and no power of e."""
    powers: dict[Expr, Expr] = {}
    for part in Mul.make_args(product):
        base, power = (part, S.One) if isinstance(part, exp) else part.as_base_exp()
        powers[base] = powers.get(base, S.Zero) + power
    return powers


def _by_deltas(expr: Add) -> Expr:
    """Terms with the same delta together: δ(1, j) (a + b) + δ(2, j) (c + d)."""
    groups: dict[Expr, list[Expr]] = {}
    for term in expr.args:
        deltas = Mul(*[f for f in Mul.make_args(term) if isinstance(f, KroneckerDelta)])
        groups.setdefault(deltas, []).append(term / deltas)
    if len(groups) < 2 or all(len(terms) == 1 for terms in groups.values()):
        return expr
    return Add(*[Mul(deltas, factor(Add(*terms))) if deltas != 1 else Add(*terms) for deltas, terms in groups.items()])


def fold(expr: Expr, lines: Iterable[Definition], result: Expr | None = None) -> Expr:
    """Products of factors that have a name become that name, and e Y becomes 1 - Y where Y = 1 / (1 + e).

    The result of the function stands for no product: its gradient is written in what it was made from.
    """
    for line in lines:
        right = line.right
        factors = [f for f in Mul.make_args(right) if not f.is_number]
        if isinstance(right, Pow) and right.exp == -1 and right.base.is_Add and len(right.base.args) == 2:
            expr = use(expr, line, _share)
        elif len(factors) >= 2 and not right.has(Sum) and (line.left != result or right.as_numer_denom()[1] != 1):
            expr = use(expr, line, by_name)
    return expr


def use(expr: Expr, line: Definition, rule: Callable) -> Expr:
    """The expression after a rule for products, which may take factors into a sum."""
    keys = [x for x in line.right.atoms(Indexed, Symbol) if _is_key(x, line)]
    if not keys or not names_in(expr) & {name_of(k) for k in keys}:
        return expr

    def walk(expr):
        expr = rebuild(expr, walk)
        if not isinstance(expr, Mul):
            return expr
        if (new := rule(expr, line, keys)) is not None:
            return walk(new)
        for part in expr.args:
            if isinstance(part, Sum):
                bound = {limit[0]: Index(limit[0].name, limit[0].size) for limit in part.limits}
                whole = Mul(part.function.xreplace(bound), *[a for a in expr.args if a != part])
                if (new := rule(whole, line, keys)) is not None:
                    return walk(sum_product(new, list(bound.values())))
        return expr

    return walk(expr)


def _is_key(x: Expr, line: Definition) -> bool:
    """Do the indices of this entry fix those of the line?"""
    if isinstance(x, Symbol):
        return not isinstance(line.left, Indexed) and not isinstance(x, Index)
    return set(getattr(line.left, "indices", ())) <= set(x.indices)


def _matches(product: Expr, line: Definition, keys):
    """The line at the indices of each entry in the product."""
    seen = set()
    for key in keys:
        for own in sorted(product.atoms(Indexed, Symbol), key=str):
            if name_of(own) == name_of(key):
                change = dict(zip(getattr(key, "indices", ()), getattr(own, "indices", ()), strict=True))
                left = line.left.xreplace(change)
                if left not in seen:
                    seen.add(left)
                    yield left, line.right.xreplace(change)


def by_name(product: Expr, line: Definition, keys) -> Expr | None:
    """The product with the name of a line in the place of the line's factors, if it has all of them."""
    powers = powers_of(product)
    for left, right in _matches(product, line, keys):
        number, rest = right.as_coeff_Mul()
        wanted = [(b, e) for b, e in powers_of(rest).items() if not b.is_number]
        if all(e.is_number and (powers.get(b, S.Zero) / e).is_positive and abs(powers[b]) >= abs(e) for b, e in wanted):
            return product / rest * left / number
    return None


def _share(product: Expr, line: Definition, keys) -> Expr | None:
    powers = product.as_powers_dict()
    for left, right in _matches(product, line, [*keys, line.left]):
        for one, other in (right.base.args, right.base.args[::-1]):
            needed = [b for b in [left, *other.as_powers_dict()] if not b.is_number]
            if names_in(other) and all(powers.get(b, S.Zero).is_positive for b in needed):
                return product / left / other * (1 - one * left)
    return None


@lru_cache(MEMORY)
def cost(expr: Expr) -> int:
    """How long an expression is: its entries, numbers and sums."""
    if not expr.args or isinstance(expr, Indexed | OfMatrix):
        return 0 if expr in (1, -1) else 1
    if isinstance(expr, Pow):
        return cost(expr.base) + (expr.exp != -1)
    if isinstance(expr, Sum):
        return 1 + cost(expr.function)
    return sum(map(cost, expr.args)) + isinstance(expr, Function)
