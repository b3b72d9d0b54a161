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
from tinytensor.symbolic.index_calculus.formulas import Index, close, contract, free, fresh, index_order, opened
from tinytensor.symbolic.index_calculus.linear_algebra import OfMatrix
from tinytensor.symbolic.time_limit import step

MEMORY = 10_000  # expressions whose shorter forms and costs are known

# ------------------------------------------------------------------------------------------------ reverse mode


def adjoint_in_factors(entry: Expr, lines: Iterable[Definition], loss: Symbol | None = None) -> Expr:
    """The adjoint of an entry: for each occurrence of its name in the lines, a product under its sums."""
    new = {i: i.fresh() for i in free(entry)}
    indices = getattr(entry.xreplace(new), "indices", ())
    terms = []
    for line in lines:
        arriving = S.One if line.left == loss else d(line.left)
        bound = sorted(free(line.left), key=index_order)
        for product, over, arguments in occurrences(fresh(line.right), arriving, bound, name_of(entry), line.left):
            terms.append(_at_entry(product, over, arguments, indices))
    return Add(*terms).xreplace({fresh_index: i for i, fresh_index in new.items()})


def occurrences(expr: Expr, arriving: Expr, bound: list[Index], name: Name, value: Expr | None = None):
    """(product, its bound indices, the indices of the entry) for each occurrence of the name in a formula.

    The product is `arriving` times the derivative by the entry. value: a name for the whole formula, in which its
    derivative may be written: that of exp(x) is exp(x).
    """
    if name not in names_in(expr):
        return
    if isinstance(expr, Indexed | Symbol):
        yield arriving, bound, getattr(expr, "indices", ())
    elif isinstance(expr, OfMatrix):
        indices = tuple(Index(letter, n) for letter, n in zip("ab", name.sizes, strict=True))
        slope = expr.slope(name[indices]).xreplace({} if value is None else {expr: value})
        for term in Add.make_args(slope):
            yield Mul(arriving, fresh(term)), [*bound, *indices], indices
    else:
        for inner, product, over in _arguments(expr, arriving, bound, value):
            yield from occurrences(inner, product, over, name)


def _arguments(expr: Expr, arriving: Expr, bound: list[Index], value: Expr | None):
    """The arguments of a formula, each with what arrives there and the indices of the sums around it."""
    if isinstance(expr, Add):
        return [(term, arriving, bound) for term in expr.args]
    if isinstance(expr, Sum):
        expr = fresh(expr)  # the same sum may stand in `arriving`, as in the derivative of its square
        return [(expr.function, arriving, bound + [limit[0] for limit in expr.limits])]
    if isinstance(expr, Mul):
        parts = []
        for k, part in enumerate(expr.args):
            inner, slope = (part, None) if value is None else _of_power(part)
            if slope is not None:  # c = s / r: its derivative by r is -c / r
                parts.append((inner, Mul(arriving, value, slope), bound))
            else:
                parts.append((part, Mul(arriving, *expr.args[:k], *expr.args[k + 1 :]), bound))
        return parts
    known = expr if value is None else value
    if isinstance(expr, Pow):
        base, power = expr.args
        if power.is_number:
            return [(base, Mul(arriving, power, _one_less(expr, value)), bound)]
        by_base, by_power = Mul(arriving, power, known, 1 / base), Mul(arriving, known, log(base))
        return [(base, by_base, bound), (power, by_power, bound)]
    slopes = [expr.fdiff(k).xreplace({expr: known}) for k in range(1, len(expr.args) + 1)]
    return [(a, Mul(arriving, slope), bound) for a, slope in zip(expr.args, slopes, strict=True)]


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


def _at_entry(product: Expr, bound: list[Index], indices, wanted) -> Expr:
    """The product with the `wanted` indices in the place of its own `indices`."""
    bound, change = list(bound), {}
    for index, by in zip(indices, wanted, strict=True):
        index = S(index).xreplace(change)
        if isinstance(index, Index) and index in bound and index.size == getattr(by, "size", None):
            change = {k: v.xreplace({index: by}) for k, v in change.items()} | {index: by}
            bound.remove(index)
        elif index != by:
            product *= KroneckerDelta(by, index)
    return sum_product(product.xreplace(change), bound)


def sum_product(product: Expr, bound: list[Index]) -> Expr:
    """The sum of a product that is not multiplied out: deltas are used, and factors stand outside where they can."""
    return canonical(close(*contract(product, bound)))


def _opened(sum_: Sum) -> tuple[Expr, list[Index]]:
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
        inner, bound = _opened(expr)
        return close(*contract(canonical(inner), bound))  # whose sums get numbers that the new index does not have
    return expr.func(*[canonical(a) for a in expr.args])


# ------------------------------------------------------------------------------------------------ shorter forms


def rebuild(expr: Expr, change: Callable[[Expr], Expr]) -> Expr:
    """The expression with `change` applied to its parts."""
    step()
    if not expr.args or isinstance(expr, Indexed | KroneckerDelta | OfMatrix):
        return expr
    if isinstance(expr, Sum):
        before, bound = _opened(expr)
        inner = change(before)
        return expr if inner == before else canonical(Sum(inner, *[(i, 1, i.size) for i in bound]))
    return expr.func(*[change(a) for a in expr.args])


@lru_cache(MEMORY)
def factor(expr: Expr) -> Expr:
    """Common factors of sums in front."""
    expr = rebuild(expr, factor)
    if not isinstance(expr, Add):
        return expr
    numbers, products = zip(*(term.as_coeff_Mul() for term in expr.args), strict=True)
    powers = [powers_of(product) for product in products]
    common = _common_powers(powers)
    if not common:
        return _by_deltas(expr)
    number = abs(numbers[0]) if len(set(map(abs, numbers))) == 1 else S.One
    number = -number if all(n < 0 for n in numbers) else number
    terms = [[base ** (e - common.get(base, S.Zero)) for base, e in p.items()] for p in powers]
    inner = Add(*[Mul(n / number, *term) for n, term in zip(numbers, terms, strict=True)])
    front = [base**e for base, e in common.items()]
    return Mul(number, *front, factor(inner) if isinstance(inner, Add) and inner != expr else inner)


def _common_powers(powers: list[dict[Expr, Expr]]) -> dict[Expr, Expr]:
    """The bases that all products have, with the exponent that is nearest to 0; none if its sign differs."""
    common = {}
    for base in sorted(powers[0], key=str):
        exponents = [p.get(base, S.Zero) for p in powers]
        if base.is_number or not all(e.is_number for e in exponents):
            continue
        if all(e > 0 for e in exponents) or all(e < 0 for e in exponents):
            common[base] = min(exponents, key=abs)
    return common


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
                inside, bound = opened(part)
                if (new := rule(Mul(inside, *[a for a in expr.args if a != part]), line, keys)) is not None:
                    return walk(sum_product(new, bound))
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
        for entry in sorted(product.atoms(Indexed, Symbol), key=str):
            if name_of(entry) == name_of(key):
                change = dict(zip(getattr(key, "indices", ()), getattr(entry, "indices", ()), strict=True))
                left = line.left.xreplace(change)
                if left not in seen:
                    seen.add(left)
                    yield left, line.right.xreplace(change)


def by_name(product: Expr, line: Definition, keys) -> Expr | None:
    """The product with the name of a line in the place of the line's factors, if it has all of them."""
    powers = powers_of(product)
    for left, right in _matches(product, line, keys):
        number, named = right.as_coeff_Mul()
        wanted = [(b, e) for b, e in powers_of(named).items() if not b.is_number]
        if all(e.is_number and (powers.get(b, S.Zero) / e).is_positive and abs(powers[b]) >= abs(e) for b, e in wanted):
            return product / named * left / number
    return None


def _share(product: Expr, line: Definition, keys) -> Expr | None:
    """The product with 1 - a Y in the place of b Y, for Y = 1/(a + b)."""
    powers = product.as_powers_dict()
    for left, right in _matches(product, line, [*keys, line.left]):
        for first, second in (right.base.args, right.base.args[::-1]):
            needed = [b for b in [left, *second.as_powers_dict()] if not b.is_number]
            if names_in(second) and all(powers.get(b, S.Zero).is_positive for b in needed):
                return product / left / second * (1 - first * left)
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
