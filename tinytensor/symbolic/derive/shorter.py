"""Shorter forms of adjoints, as a textbook has them: σ(a) (1 - y) - y σ(-a) is σ(a) - y.

    laws       σ(-a) = 1 - σ(a), softplus(-a) = softplus(a) - a, |a| sign(a) = a, and
               max(a, b) θ(a - b) = a θ(a - b); quotients of exponentials are tanh
    rational   quotients are cancelled, products multiplied out where that is shorter
    shorten    the shortest of the forms to which these lead

These are proposals. adjoints.py proves each of them equal to the derivative of index_calculus/adjoints.py.
"""

from collections.abc import Iterator
from functools import lru_cache

from sympy import Add, Dummy, Expr, Indexed, Mul, Pow, S, cancel, exp, expand_mul, tanh

from tinytensor.symbolic.derive.factors import MEMORY, cost, factor, rebuild
from tinytensor.symbolic.index_calculus.formulas import Size
from tinytensor.symbolic.index_calculus.functions import TABLE, absolute, larger, relu, sign, theta
from tinytensor.symbolic.time_limit import step

LONG = 60  # the cost of an expression for which no shorter form is looked for
NAMES = 8  # of different names in a quotient that is cancelled
TERMS = 12  # of a polynomial that is factored


@lru_cache(MEMORY)
def shorten(expr: Expr) -> Expr:
    """The shortest form that the laws lead to, of the expression and of its parts; itself if there is none."""
    expr = rebuild(expr, shorten)
    if not expr.args or isinstance(expr, Indexed) or cost(expr) > LONG:
        return expr
    for _ in range(3):
        step()
        shortest = min(_forms(expr), key=_length, default=expr)
        if _length(shortest) >= _length(expr):
            break
        expr = shortest
    return expr


def forget() -> None:
    """Another derivation begins: no form is known."""
    shorten.cache_clear()


@lru_cache(MEMORY)
def _length(expr: Expr) -> tuple[int, int]:
    """How long an expression is: its names, numbers and sums; then the brackets with a number behind a minus sign."""
    brackets = expr.atoms(Add)
    ones = sum(t in (S.One, S.NegativeOne) for a in brackets for t in a.args)
    return cost(expr) + ones, sum(map(_has_number_behind, brackets))


def _has_number_behind(bracket: Add) -> bool:
    """Has it a number behind a minus sign, as p - 1 has? Not N - 1, which is as it should be."""
    terms = [t for t in bracket.args if not t.is_number]
    sizes = all(isinstance(s, Size) for t in terms for s in t.free_symbols)
    return not sizes and any(t.is_number and t.is_negative for t in bracket.args)


def _forms(expr: Expr) -> Iterator[Expr]:
    """Other forms of an expression."""
    for form in dict.fromkeys((expr, _by_laws(expr), _signs_turned(_by_laws(expr)))):
        if form != expr:
            yield factor(form)
        if isinstance(form, Add | Mul):
            yield factor(_by_laws(expand_mul(form)))
            yield from map(factor, map(_signs_in_order, _cancelled(form)))
    if isinstance(expr, Mul):
        yield from _quotients_of_exponentials(expr)


def _signs_in_order(expr: Expr) -> Expr:
    """(p - 1)² as (1 - p)², and (b - a)/(p - 1) as (a - b)/(1 - p)."""

    def turned(bracket: Add) -> Add:
        return Add(*[-t for t in bracket.args])

    def ordered(product: Expr) -> Expr:
        number, named = product.as_coeff_Mul()
        factors = [(f.as_base_exp() if isinstance(f, Pow) else (f, S.One)) for f in Mul.make_args(named)]
        negative = bool(number.is_negative)
        for n, (base, power) in enumerate(factors):
            if base.is_Add and power.is_Integer and _has_number_behind(base):
                factors[n] = (turned(base), power)
                negative ^= bool(power.is_odd)
        for n, (base, power) in enumerate(factors):
            loose = base.is_Add and power.is_odd and not any(t.is_number for t in base.args)
            if negative and loose and any(t.could_extract_minus_sign() for t in base.args):
                factors[n] = (turned(base), power)
                negative = False
        return (-1 if negative else 1) * abs(number) * Mul(*[base**power for base, power in factors])

    return expr.replace(lambda e: isinstance(e, Mul | Pow) and e.has(Add), ordered)


# ------------------------------------------------------------------------------------------------------------- laws


def _by_laws(expr: Expr) -> Expr:
    """Powers and products of steps, of absolute values and signs; the exponents of equal bases added."""
    if all(isinstance(e, Pow) and e.exp.is_number for e in expr.atoms(absolute, sign, theta, Pow)):
        return expr
    return expr.replace(lambda e: isinstance(e, Mul | Pow), _product_by_laws)


def _product_by_laws(product: Expr) -> Expr:
    powers = dict(product.as_powers_dict())
    for x in dict.fromkeys(b.args[0] for b in powers if isinstance(b, absolute | sign)):
        powers |= _powers_of_signs(x, powers)
    above = [b.args[0] for b in powers if isinstance(b, theta) and powers[b].is_positive]
    for base in [b for b in powers if isinstance(b, relu) and b.args[0] in above]:  # max(0, x) θ(x) = max(0, x)
        if powers[base].is_positive:
            powers[theta(base.args[0])] = S.Zero
    result = Mul(*[base**power for base, power in powers.items()])
    known = {}  # max(a, b) θ(a - b) = a θ(a - b)
    for m in result.atoms(larger) if above else ():
        a, b = m.args
        known |= {m: b} if b - a in above else {m: a} if a - b in above else {}
    return result.xreplace(known)


def _powers_of_signs(x: Expr, powers: dict[Expr, Expr]) -> dict[Expr, Expr]:
    """The powers of x, |x| and sign(x) by |x| = x sign(x) and sign(x)² x = x; none where they do not hold."""
    powers_of_x = size, signs, plain = [powers.get(b, S.Zero) for b in (absolute(x), sign(x), x)]
    if not all(power.is_Integer and power >= 0 for power in powers_of_x) or not size + plain:
        return {}
    odd = (size + signs) % 2
    return {absolute(x): odd, sign(x): S.Zero, x: size + plain - odd}


TURNED = {  # f(x) by f(-x) and x
    row.head: row.mirrored or (lambda turned, x, parity=row.parity: parity * turned)
    for row in TABLE.values()
    if (row.parity or row.mirrored) and isinstance(row.head, type)
}


def _signs_turned(expr: Expr) -> Expr:
    """σ(-a) as 1 - σ(a), and softplus(-a) as softplus(a) - a, where the expression has σ(a) or softplus(a), too."""
    known = expr.atoms(*TURNED)
    turned = {f: f.func(-f.args[0]) for f in known if f.args[0].could_extract_minus_sign()}
    return expr.xreplace({f: TURNED[f.func](g, f.args[0]) for f, g in turned.items() if g in known})


def _quotients_of_exponentials(product: Mul) -> Iterator[Expr]:
    """(p e^a + q e^b) / (e^a + e^b) as (p + q)/2 + (p - q)/2 tanh((a - b)/2)."""
    for power in product.args:
        below = _exponentials(power.base) if isinstance(power, Pow) and power.exp == -1 else None
        if below is None or len(below) != 2 or len(set(below.values())) != 1:
            continue
        (a, number), (b, _) = sorted(below.items(), key=lambda pair: pair[0].could_extract_minus_sign())
        for numerator in product.args:
            above = _exponentials(numerator)
            if above is not None and set(above) <= {a, b}:
                p, q = (above.get(k, S.Zero) / number for k in (a, b))
                front = Mul(*[f for f in product.args if f is not power and f is not numerator])
                yield front * ((p + q) / 2 + (p - q) / 2 * tanh(((a - b) / 2).expand()))


def _exponentials(expr: Expr) -> dict[Expr, Expr] | None:
    """A sum of exponentials with numbers in front as numbers by exponents; None if it is none."""
    result: dict[Expr, Expr] = {}
    for term in Add.make_args(expr):
        number, power = term.as_coeff_Mul()
        if not isinstance(power, exp):
            return None
        result[power.args[0]] = result.get(power.args[0], S.Zero) + number
    return result


# --------------------------------------------------------------------------------------------------------- rational


def _cancelled(expr: Expr) -> Iterator[Expr]:
    """The expression as a quotient of polynomials in its names, sums and functions without a common factor."""
    if not any(isinstance(p, Pow) and p.exp.is_number and p.exp.is_negative for p in expr.atoms(Pow)):
        return
    names: dict[Expr, Dummy] = {}

    def hidden(part: Expr) -> Expr:
        if part.is_Rational:
            return part
        if isinstance(part, Add | Mul):
            return part.func(*map(hidden, part.args))
        if isinstance(part, Pow) and part.exp.is_Integer:
            return hidden(part.base) ** part.exp
        return names.setdefault(part, Dummy())

    flat = hidden(expr)
    if len(names) > NAMES:
        return
    back = {new: old for old, new in names.items()}
    above, below = cancel(flat).as_numer_denom()
    yield (above / below).xreplace(back)
    if max(len(Add.make_args(part)) for part in (above, below)) <= TERMS:
        yield (above.factor() / below.factor()).xreplace(back)
