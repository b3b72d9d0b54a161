"""Each rule of the index calculus keeps the value: it is compared with plain loops over all entries.

This is a check at small sizes (1 to 3, all values of indices, exact fractions), not a proof for any size: of the rules
themselves, and of the normal form of random expressions. Trusted is `value`, the meaning of an expression (in
tinytensor/symbolic/index_calculus/formulas.py).
"""

import itertools
import random
from fractions import Fraction

from sympy import Expr, KroneckerDelta, S

from derivations.claims import Evidence, Refuted, claim
from tinytensor.symbolic.index_calculus.formulas import (
    Array,
    Index,
    Size,
    delta,
    everywhere,
    free,
    fresh,
    index_order,
    normal,
    random_entries,
    sizes_of,
    total,
    value,
)
from tinytensor.symbolic.index_calculus.functions import theta
from tinytensor.symbolic.index_calculus.notation import text

n, m = Size("n", "i j"), Size("m", "k l")
i, j, p, k = Index("i", n), Index("j", n), Index("p", n), Index("k", m)
a, b, X, Y = Array("a", (n,)), Array("b", (n,)), Array("X", (n, m)), Array("Y", (n + 1, m))
t = Array("t", (n,), values=m)  # a table of indices, such as tokens

RULES = [  # (rule, an expression, its rewritten form)
    ("a delta takes its sum away", total(delta(i, j) * a[i] * b[i], i), a[j] * b[j]),
    ("a delta with a table of indices takes its sum away", total(delta(k, t[i]) * X[i, k], k), X[i, t[i]]),
    ("two deltas take two sums away", total(delta(i, p) * delta(j, p) * a[i] * b[j], i, j), a[p] * b[p]),
    ("of two deltas that share a sum one stays", total(delta(i, j) * delta(i, p) * a[i], i), delta(j, p) * a[j]),
    ("a delta is its own square", total(delta(i, j) ** 2 * a[i], i), a[j]),
    ("a delta that stays fixes an index", delta(i, j) * a[i] * b[j], delta(i, j) * a[j] * b[i]),
    ("a delta that stays fixes an index to a table", delta(k, t[i]) * X[i, k], delta(k, t[i]) * X[i, t[i]]),
    ("a trace counts", total(delta(i, j), i, j), n),
    ("a sum over nothing counts", total(a[j], i, k), n * m * a[j]),
    ("a delta beyond the range is 0", KroneckerDelta(i, n + 1) * a[i], S.Zero),
    ("a delta within a larger range", total(delta(i, j) * Y[i + 1, k], i), Y[j + 1, k]),
    ("products of sums are multiplied out", total(a[i], i) * total(b[i], i), total(a[i] * b[j], i, j)),
    ("a square of a sum is two sums", total(a[i] * X[i, k], i) ** 2, total(a[i] * a[j] * X[i, k] * X[j, k], i, j)),
    ("sums in sums become one", total(a[i] * total(X[i, k], k), i), total(a[i] * X[i, k], k, i)),
    ("independent sums part", total(a[i] * b[j] * X[i, k], i, j, k), total(b[i], i) * total(a[i] * X[i, k], i, k)),
    ("a bound index may have any name", total(a[i] * b[j] * a[p], i, p), total(a[p] * b[j] * a[i], p, i)),
    ("inside a function too", theta(total(a[i] - b[i], i)) * a[j], theta(total(a[p], p) - total(b[i], i)) * a[j]),
    ("a power of a sum is one quantity", total(a[j] / total(a[i], i), j), total(a[i], i) * total(a[p], p) ** -1),
]


def same_values(one: Expr, other: Expr, seed: int = 0, largest: int = 3) -> None:
    """Compare two expressions by plain loops, in exact fractions: all sizes up to `largest`, all values of indices."""
    rng = random.Random(seed)
    arrays = sorted(one.atoms(Array) | other.atoms(Array), key=str)
    indices = sorted(free(one) | free(other), key=index_order)
    sizes = {s for e in (one, other, *[i.size for i in indices]) for s in e.atoms(Size)}
    sizes = sorted(sizes.union(*[sizes_of(array) for array in arrays]), key=str)
    for numbers in itertools.product(range(1, largest + 1), repeat=len(sizes)):
        at = dict(zip(sizes, numbers))
        for array in arrays:
            at[array] = random_entries(array, at, rng, lambda rng: Fraction(rng.randint(1, 9), rng.randint(1, 5)))
        for here in everywhere(indices, at):
            if (left := value(one, here)) != (right := value(other, here)):
                raise Refuted(f"{text(one)} is {left}, but {text(other)} is {right}, with {dict(zip(sizes, numbers))}")


def random_expression(rng: random.Random, indices: list[Index], depth: int = 3) -> Expr:
    """Some sum, product, square or sum over an index of entries and deltas in these indices, of two ranges."""
    if depth == 0 or rng.random() < 0.15:
        x, y, z = (rng.choice([index for index in indices if index.size == size]) for size in (n, n, m))
        return rng.choice([a[x], X[x, z], X[y, t[x]], delta(x, y), delta(z, t[x]), S(rng.randint(-3, 3))])
    operator = rng.choice(["+", "*", "*", "square", "sum", "sum"])
    if operator == "sum":
        bound = Index("b", rng.choice((n, m)))
        return total(random_expression(rng, [*indices, bound], depth - 1), bound)
    one, other = (random_expression(rng, indices, depth - 1) for _ in range(2))
    return one + other if operator == "+" else one * other if operator == "*" else one**2


@claim(
    "index",
    "each rewriting rule keeps the value, and the normal form applies it",
    category="check",
    size="all sizes 1 to 3, all values of indices, in exact fractions",
    trusted=("the plain loops of `value`",),
)
def each_rule():
    for rule, one, other in RULES:
        try:
            same_values(one, other)
        except Refuted as error:
            raise Refuted(f"{rule}: {error}") from None
        if normal(one - other) != 0:
            raise Refuted(f"{rule}: the normal form misses it: {text(normal(one - other))} is left")
    return Evidence(text="\n".join(f"{text(one)} = {text(other)}   ({rule})" for rule, one, other in RULES))


@claim(
    "index",
    "the normal form keeps the value, and is its own normal form",
    category="check",
    size="200 random expressions at all sizes 1 and 2, in exact fractions",
    trusted=("the plain loops of `value`",),
)
def normal_form():
    rng = random.Random(0)
    for seed in range(200):
        expr = random_expression(rng, [i, j, k])
        form = normal(expr)
        same_values(expr, form, seed, largest=2)
        if normal(form) != form or normal(fresh(expr)) != form:
            raise Refuted(f"{text(expr)}: the normal form {text(form)} depends on the names of its bound indices")
