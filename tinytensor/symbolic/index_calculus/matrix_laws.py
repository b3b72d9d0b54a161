"""The laws of matrices in the normal form: A A⁻¹ = I, L Lᵀ = S, triangles, symmetric entries, products of definitions.

    normal_of_matrices   the normal form that uses them
    shortened            the same without multiplying out, for print
    in_products          the name of a line for a product that defines it
    phi_of               Φ of Cholesky's rule in a sum

Each law is compared with plain loops in tests/symbolic/derive/test_matrices.py.
"""

from collections.abc import Iterable
from functools import lru_cache, partial
from typing import NamedTuple

from sympy import Add, Expr, Indexed, KroneckerDelta, Mul, Pow, S, Sum

from tinytensor.symbolic.index_calculus.formulas import (
    Array,
    Index,
    Size,
    bound_index,
    close,
    contract,
    delta,
    fits,
    free,
    fresh,
    index_order,
    normal,
    numbered,
    opened,
    spread,
    total,
)
from tinytensor.symbolic.index_calculus.functions import upto
from tinytensor.symbolic.index_calculus.linear_algebra import (
    Cholesky,
    Inverse,
    Matrix,
    MatrixEntry,
    OfMatrix,
    entry,
    has_matrices,
    inverse_of,
    is_lower,
    is_symmetric,
    parts_of_entry,
    size_of,
)


class Gram(NamedTuple):
    """The definition of an entry with a product, C_ab = number Σ_n left_an right_nb + remainder."""

    entry: Expr
    number: Expr
    left: Expr
    right: Expr
    over: Index
    remainder: Expr


@lru_cache(1000)
def gram_of(left: Expr, formula: Expr) -> Gram | None:
    """The definition of an entry as a product of two entries; of a square matrix with a remainder; None for another."""
    indices, parts = getattr(left, "indices", ()), spread(formula)
    if len(parts) > 1 and (len(indices) != 2 or left.base.sizes[0] != left.base.sizes[1]):
        return None
    for product, bound in parts:
        number, moving = product.as_independent(*indices, *bound, as_Add=False)
        pair = Mul.make_args(moving)
        entries = len(pair) == 2 and all(isinstance(f, Indexed | MatrixEntry) for f in pair)
        if len(bound) == 1 and entries and _of_sizes(number) and moving.has(*bound) and free(moving) >= {*indices}:
            remainder = S.Zero if len(parts) == 1 else normal(formula - total(product, *bound))
            return Gram(left, number, *pair, *bound, remainder)
    return None


def grams(lines: Iterable) -> tuple[Gram, ...]:
    """The definitions of lines that have a product of two entries as a term."""
    return tuple(gram for line in lines if (gram := gram_of(line.left, line.right)) is not None)


def _of_sizes(number: Expr) -> bool:
    """Is it made of numbers and sizes, so that it may be divided by?"""
    return all(isinstance(s, Size) for s in number.free_symbols)


def normal_of_matrices(expr, symmetry: bool = True, products: tuple[Gram, ...] = ()) -> Expr:
    """The normal form that uses the laws of matrices, too; without `symmetry` the identities alone.

    The identities hold wherever the inverses are, so an expression may be replaced before it is differentiated.
    products: definitions such as C = Xᵀ X + λ I, by which Xᵀ X C⁻¹ is I - λ C⁻¹.
    """
    expr = S(expr)
    if not has_matrices(expr):
        return normal(expr)
    for _ in range(20):
        waiting, terms = spread(expr, partial(normal_of_matrices, symmetry=symmetry)), []
        while waiting:
            for part in _by_laws(*waiting.pop(), symmetry):
                if (new := _of_products(*part, products)) is None:
                    terms.append(_close(*part, symmetry))
                else:
                    waiting += new
        form = Add(*terms)
        if form == expr:
            break
        expr = form
    return expr


def shortened(expr: Expr) -> Expr:
    """The expression after the laws of matrices in each of its sums of products; nothing is multiplied out."""
    if not has_matrices(expr) or isinstance(expr, Indexed | OfMatrix | KroneckerDelta | upto):
        return expr
    if not isinstance(expr, Sum | Mul):
        return expr.func(*map(shortened, expr.args))
    product, bound = _flat(expr)
    terms = _by_laws(Mul(*map(shortened, Mul.make_args(product))), bound, True, orient=False)
    return Add(*[_close(p, b, False) for p, b in terms])


def _flat(expr: Expr) -> tuple[Expr, list[Index]]:
    """A product of sums, each of a product, as one product with all bound indices, which are new."""
    if isinstance(expr, Sum):
        inside, bound = opened(expr)
        product, inner = _flat(inside)
        return product, [*bound, *inner]
    if not isinstance(expr, Mul):
        return expr, []
    parts = [_flat(a) for a in expr.args]
    return Mul(*[p for p, _ in parts]), [i for _, b in parts for i in b]


Product = tuple[Expr, list[Index]]


def _by_laws(product: Expr, bound: list[Index], symmetry: bool, orient: bool = True) -> list[Product]:
    """A product after all laws that apply to it, as a sum of products."""
    product, bound = contract(product, bound)
    while (used := _of_two(product, bound, symmetry) or _of_triangles(product, bound)) is not None:
        product, bound = contract(*used)
    if orient and (parts := _of_comparisons(product, bound, symmetry)) is not None:
        return [term for part in parts for term in _by_laws(part, bound, symmetry)]
    return [(product, bound)]


def _of_two(product: Expr, bound: list[Index], symmetry: bool) -> Product | None:
    """Two matrices that are multiplied: A A⁻¹ = I, and the laws of a Cholesky factor."""
    factors = Mul.make_args(product)
    for k in bound:
        pair = [f for f in factors if f.has(k)]
        sides = [side for f in pair if (side := _side(f, k)) is not None]
        if not len(pair) == len(sides) == 2:
            continue
        for (x, is_row, row), (y, is_row_of_y, column) in (sides, sides[::-1]):
            new = _product_of(x, is_row, y, not is_row_of_y, row, column, symmetry)
            if new is not None:
                return Mul(new, *[f for f in factors if f not in pair]), [i for i in bound if i is not k]
    return None


def _side(factor: Expr, k: Index) -> tuple[Matrix, bool, Expr] | None:
    """The matrix of an entry over whose rows or columns k runs, whether these are the rows, and the second index."""
    matrix, *indices = parts_of_entry(factor)
    if len(indices) != 2 or k not in indices or all(i.has(k) for i in indices):
        return None
    n = indices.index(k)
    size = matrix.sizes[n] if isinstance(matrix, Array) else size_of(matrix)
    return (matrix, n == 0, indices[1 - n]) if size == k.size else None


def _product_of(x: Matrix, x_turned: bool, y: Matrix, y_turned: bool, r, c, symmetry: bool) -> Expr | None:
    """The entry r, c of X Y, each perhaps transposed, by a law."""
    for inverse, matrix in ((x, y), (y, x)):
        alike = x_turned == y_turned or (symmetry and is_symmetric(inverse))
        if alike and isinstance(inverse, Inverse) and inverse.args[0] == matrix:
            return delta(r, c)
    if not symmetry:
        return None
    if x == y and is_lower(x) and x_turned != y_turned:
        if isinstance(x, Cholesky) and y_turned:  # L Lᵀ
            return entry(x.args[0], r, c)
        if isinstance(x, Inverse) and x_turned:  # L⁻ᵀ L⁻¹
            return entry(inverse_of(x.args[0].args[0], symmetric=True), r, c)
        return None
    return _of_factor(x, x_turned, y, r, c) or _of_factor(y, not y_turned, x, c, r)


def _of_factor(x: Matrix, turned: bool, y: Matrix, row, column) -> Expr | None:
    """The entry of a Cholesky factor or its inverse times S or S⁻¹: Lᵀ S⁻¹ = L⁻¹, L⁻¹ S = Lᵀ."""
    if isinstance(x, Cholesky) and turned and y == inverse_of(x.args[0], symmetric=True):
        return entry(inverse_of(x), row, column)
    if isinstance(x, Inverse) and is_lower(x) and not turned and y == x.args[0].args[0]:
        return entry(x.args[0], column, row)
    return None


def _of_products(product: Expr, bound: list[Index], products: tuple[Gram, ...]) -> list[Product] | None:
    """Xᵀ X as C - λ I beside C⁻¹, for C = Xᵀ X + λ I: the law of C C⁻¹ does the rest."""
    inverses = {e.matrix.args[0] for e in product.atoms(MatrixEntry) if isinstance(e.matrix, Inverse)}
    for gram in [g for g in products if g.entry.base in inverses]:
        if (used := _named(product, bound, gram)) is not None:
            factors, change, kept = used
            less = spread(-factors * fresh(gram.remainder).xreplace(change))
            return [(factors * gram.entry.xreplace(change), kept), *((p, kept + more) for p, more in less)]
    return None


def _of_triangles(product: Expr, bound: list[Index]) -> Product | None:
    """The laws of a lower triangle: L_ij [j ≤ i] = L_ij, L_ij [i ≤ j] = L_ij δ(i,j), and L⁻¹_ii = 1/L_ii."""
    for f in Mul.make_args(product):
        base = f.base if isinstance(f, Pow) else f
        if not isinstance(base, MatrixEntry) or not is_lower(base.matrix):
            continue
        matrix, i, j = base.args
        if i == j and isinstance(matrix, Inverse):
            return product.xreplace({base: 1 / entry(matrix.args[0], i, i)}), bound
        if f is base:
            if product.has(upto(j, i)) and i != j:
                return product.xreplace({upto(j, i): S.One}), bound
            if product.has(upto(i, j)) and i != j:
                return product.xreplace({upto(i, j): delta(i, j)}), bound
    return None


def _of_comparisons(product: Expr, bound: list[Index], symmetry: bool) -> list[Expr] | None:
    """One direction for [p ≤ q]: it is 1 + δ(p,q) - [q ≤ p], and half of 1 + δ(p,q) where all else is symmetric."""
    for f in [f for f in Mul.make_args(product) if isinstance(f, upto) and all(isinstance(a, Index) for a in f.args)]:
        p, q = f.args
        beside = product / f
        if p.size != q.size:
            continue
        form, turned = (_close(beside * upto(*pair), bound, symmetry) for pair in ((p, q), (q, p)))
        if form == turned and p in bound and q in bound:
            return [beside / 2, beside * delta(p, q) / 2]
        if str(turned) < str(form):
            return [beside, beside * delta(p, q), -beside * upto(q, p)]
    return None


# ---- bound indices under numbers -------------------------------------------------------------------------------------


def _close(product: Expr, bound: list[Index], symmetry: bool) -> Expr:
    """The product under its sums with numbered indices, as `close`, with each symmetric entry's indices in order."""
    return close(product, bound, partial(_numbered, symmetry=symmetry))


def _numbered(product: Expr, bound: set[Index], symmetry: bool) -> Expr:
    """The sum under the numbers whose formula sorts first, among those that put indices of a like use together."""
    order = _in_order if symmetry else lambda form: form
    return numbered(product, bound, lambda i: _use(product, i, bound, symmetry), order)


def _use(product: Expr, index: Index, bound: set[Index], symmetry: bool) -> str:
    """How a bound index is used: the same for two that a change of names could exchange."""
    marks = {i: bound_index(i.size, "self" if i is index else "other") for i in bound}
    marked = [f.xreplace(marks) for f in Mul.make_args(product) if f.has(index)]
    return str(sorted(str(_in_order(f) if symmetry else f) for f in marked))


def _in_order(expr: Expr) -> Expr:
    """The expression with the indices of each entry of a symmetric matrix in a fixed order."""
    changes = {}
    for e in expr.atoms(Indexed, MatrixEntry):
        matrix, *indices = parts_of_entry(e)
        if is_symmetric(matrix) and _order(indices[1]) < _order(indices[0]):
            changes[e] = entry(matrix, *indices[::-1])
    return expr.xreplace(changes) if changes else expr


def _order(index: Expr) -> tuple:
    return (str(index), *(index_order(index)[1:] if isinstance(index, Index) else (0,)))


def in_products(expr: Expr, lines: Iterable) -> Expr:
    """The expression with the name of a line for each product of two arrays that defines it: w for C⁻¹ b."""
    for line in lines:
        gram = gram_of(line.left, line.right) if expr.atoms(Array) >= line.right.atoms(Array) else None
        if gram is None or gram.remainder != 0:
            continue
        terms, changed = [], False
        for product, bound in spread(expr):
            while (used := _named(product, bound, gram)) is not None:
                factors, change, bound = used
                product, changed = factors * gram.entry.xreplace(change), True
            terms.append(_close(product, bound, False))
        expr = Add(*terms) if changed else expr
    return expr


def _named(product: Expr, bound: list[Index], gram: Gram) -> tuple[Expr, dict, list[Index]] | None:
    """Where a product has the two factors of a definition: all else, the indices of the definition, the bound ones."""
    factors = _factors(product)
    for k in [k for k in bound if k.size == gram.over.size]:
        over_k = [f for f in factors if f.has(k)]
        for pair in (over_k, over_k[::-1]) if len(over_k) == 2 else ():
            change: dict = {gram.over: k}
            same = _matches(pair[0], gram.left, change) and _matches(pair[1], gram.right, change)
            if same and not any(j.has(k) for i, j in change.items() if i is not gram.over):
                outside = Mul(*[f for f in factors if not f.has(k)])
                return outside / gram.number, change, [i for i in bound if i is not k]
    return None


def _factors(product: Expr) -> list[Expr]:
    """The factors of a product, a square as two of them."""
    result = []
    for f in Mul.make_args(product):
        split = isinstance(f, Pow) and f.exp.is_Integer and 0 < f.exp < 4 and isinstance(f.base, Indexed | MatrixEntry)
        result += [f.base] * int(f.exp) if split else [f]
    return result


def _matches(factor: Expr, pattern: Expr, change: dict) -> bool:
    """Is it the pattern with other indices? `change` says which, and gets those that are new."""
    (matrix, *indices), (wanted, *names) = parts_of_entry(factor), parts_of_entry(pattern)
    if matrix != wanted or matrix is None:
        return False
    for order in [indices, indices[::-1]] if is_symmetric(matrix) else [indices]:
        new = dict(zip(names, order, strict=True))
        if len(new) == len(names) and all(change.get(i, j) == j and _may_be(i, j) for i, j in new.items()):
            change |= new
            return True
    return False


def _may_be(name: Expr, index: Expr) -> bool | None:
    """May this index stand for an index of a definition? Only the same number stands for a number."""
    return fits(index, name.size) if isinstance(name, Index) else name.is_Integer and name == index


def phi_of(expr: Sum) -> tuple[tuple[Index, Index], Expr, Expr] | None:
    """For Σ L⁻¹_ka Φ_kj L⁻¹_jb and the like: the indices k, j, the entry Φ_kj, and the factors beside it."""
    factors = Mul.make_args(expr.function)
    sums = [f for f in factors if isinstance(f, Add)]
    triangles = [f for f in sums if f.has(upto) and not f.has(OfMatrix)]
    if len(triangles) != 1:
        return None
    bound = [limit[0] for limit in expr.limits]
    row, column = next(iter(triangles[0].atoms(upto))).args[::-1]
    over = [i for i in bound if i not in (row, column)]
    beside = [f for f in sums if f.has(row) and f.has(column) and f not in triangles]
    if len(beside) != 1 or len(over) + 2 != len(bound) or beside[0].has(*over):
        return None
    products = Mul(*[f for f in factors if f not in (*triangles, *beside)])
    outside, inside = products.as_independent(*bound, as_Add=False)
    letters = [*getattr(row.size, "letters", ()), *"ijk"]
    names = {row: Index(letters[0], row.size), column: Index(letters[1], row.size)}
    phi = (triangles[0] * total(inside, *over)).xreplace(names)
    return (names[row], names[column]), phi, Mul(*beside, outside).expand().xreplace(names)
