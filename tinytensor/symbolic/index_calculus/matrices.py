"""Formulas in matrix notation, where every sum is a matrix product: `Matrices(names).form(left, right)`.

Arrays with two indices are matrices, those with one are columns. Σ_n X_nd G_nk is Xᵀ G; a product of entries is X ⊙ Y;
r_n X_nd is diag(r) X; Σ_d X_nd is X 𝟏, where 𝟏 is a column of ones; m_n as an entry of a matrix is m 𝟏ᵀ. A number is
added to each entry of a matrix, as in 1 - h ⊙ h; functions are applied to each entry; x^∘3 is a power of each entry.
Each form is made as text, as LaTeX and as NumPy code. A line without such a form gives None.
"""

from dataclasses import dataclass, replace
from functools import reduce
from typing import NamedTuple

from sympy import Add, Expr, Indexed, KroneckerDelta, Mul, Pow, S, Sum, exp

from tinytensor.symbolic.index_calculus.formulas import Array, Index, free
from tinytensor.symbolic.index_calculus.functions import HEADS, fill
from tinytensor.symbolic.index_calculus.linear_algebra import SymmetricArray, with_names
from tinytensor.symbolic.index_calculus.notation import array_tex, name_tex, tex, text
from tinytensor.symbolic.index_calculus.numpy_printer import NumPyPrinter, shares_of
from tinytensor.symbolic.index_calculus.order import Name, factors_of, fraction, signed, terms_of

SUM, ENTRIES, PRODUCT, ATOM = 1, 2, 3, 4  # how tightly +, ⊙ and a product of matrices bind


class NoMatrixForm(Exception):
    """A formula that is no matrix expression."""


@dataclass(frozen=True)
class Matrix:
    """A matrix expression, three times; its rows and columns are indices, or None where there is just one.

    transposed: the matrix that this one is the transpose of, if it was made so.
    """

    text: str
    tex: str
    code: str
    rows: Index | None = None
    columns: Index | None = None
    level: int = ATOM
    symmetric: bool = False
    transposed: "Matrix | None" = None

    @property
    def axes(self) -> set[Index]:
        return {i for i in (self.rows, self.columns) if i is not None}


class Operation(NamedTuple):
    """An operation on matrices, with {} for each operand, and how tightly it binds.

    operands: how tightly each of them must bind to stand without brackets.
    """

    text: str
    tex: str
    code: str
    level: int = ATOM
    operands: tuple[int, ...] = (SUM,)

    def __call__(self, *operands: Matrix, axes: tuple[Index | None, Index | None] | None = None) -> Matrix:
        """The result; its rows and columns are those of the last operand that has some, if they are not given."""
        bare = [m.level >= level for m, level in zip(operands, self.operands, strict=True)]
        texts = [m.text if b else f"({m.text})" for m, b in zip(operands, bare, strict=True)]
        typeset = [m.tex if b else rf"\left({m.tex}\right)" for m, b in zip(operands, bare, strict=True)]
        code = fill(self.code, [f"({m.code})" for m in operands])
        axes = axes or next(((m.rows, m.columns) for m in reversed(operands) if m.axes), (None, None))
        return Matrix(fill(self.text, texts), fill(self.tex, typeset), code, *axes, self.level)


PLUS = Operation("{} + {}", "{} + {}", "{} + {}", SUM, (SUM, SUM))
MINUS = Operation("{} - {}", "{} - {}", "{} - {}", SUM, (SUM, ENTRIES))
NEGATIVE = Operation("-{}", "-{}", "-{}", SUM, (ENTRIES,))
MULTIPLE = Operation("{} {}", "{} {}", "{} * {}", PRODUCT, (PRODUCT, PRODUCT))  # a number times a matrix
TIMES = MULTIPLE._replace(code="{} @ {}")
HADAMARD = Operation("{} ⊙ {}", r"{} \odot {}", "{} * {}", ENTRIES, (ENTRIES, ENTRIES))
QUOTIENT = Operation("{} ⊘ {}", r"{} \oslash {}", "{} / {}", ENTRIES, (PRODUCT, PRODUCT))
RECIPROCAL = Operation("1 ⊘ {}", r"1 \oslash {}", "1 / {}", ENTRIES, (PRODUCT,))
TRANSPOSE = Operation("{}ᵀ", r"{{}}^{\top}", "{}.T", ATOM, (ATOM,))
DERIVATIVE_TRANSPOSE = TRANSPOSE._replace(text="({})ᵀ", tex=r"{\left({}\right)}^{\top}")
DIAGONAL = Operation("diag({})", r"\operatorname{diag}\left({}\right)", "np.diag({}[:, 0])")
INVERSE_DIAGONAL = Operation("diag({})⁻¹", r"\operatorname{diag}\left({}\right)^{-1}", "np.diag(1 / {}[:, 0])")
BRACKETS = Operation("({})", r"\left({}\right)", "{}")
TRACE = Operation("tr({})", r"\operatorname{tr}\left({}\right)", "np.trace({})")
SOFTMAX = Operation("softmax({})", r"\operatorname{softmax}\left({}\right)", "softmax({})")


class Matrices:
    """Forms of one derivation's lines; `shown` gives another name to some arrays: G for an adjoint."""

    def __init__(
        self, names: tuple[Name, ...] = (), shown: dict[Name, str] | None = None, writer: NumPyPrinter | None = None
    ):
        self.names, self.shown, self.writer = names, shown or {}, writer or NumPyPrinter()

    def form(self, left: Expr, right: Expr) -> Matrix | None:
        """The matrix form of a line's right-hand side; None if it has none."""
        axes = left.indices if isinstance(left, Indexed) else ()
        if len(axes) > 2:
            return None
        rows, columns = (*axes, None, None)[:2]
        right = with_names(right, name_tex)
        try:
            return self.broadcast_to(self.of(right, rows, columns), rows, columns)
        except NoMatrixForm:
            return None

    # ------------------------------------------------------------------------------------------------ expressions

    def of(self, expr: Expr, rows=None, columns=None) -> Matrix:
        if not free(expr) and not expr.atoms(Array):
            return self.number(expr)
        if isinstance(expr, Indexed):
            return self.entry(expr)
        if isinstance(expr, Add):
            return self.add(expr, rows, columns)
        if isinstance(expr, Mul):
            return self.softmax(expr, rows, columns) or self.product(expr, [], rows, columns)
        if isinstance(expr, Sum):
            return self.product(expr.function, [limit[0] for limit in expr.limits], rows, columns)
        if isinstance(expr, Pow):
            return self.power(expr, rows, columns)
        if isinstance(expr, KroneckerDelta):
            return self.delta(expr)
        return self.function(expr, rows, columns)

    def number(self, expr: Expr) -> Matrix:
        shown = text(expr, self.names)
        level = SUM if expr.is_Add or shown.startswith("-") else PRODUCT if " " in shown or "/" in shown else ATOM
        return Matrix(shown, tex(expr, self.names), self.writer.piece(expr).text, level=level)

    def entry(self, expr: Indexed) -> Matrix:
        axes = expr.indices
        if not _is_whole(expr) or len(axes) > 2 or len(set(axes)) < len(axes) or expr.base.values is not None:
            raise NoMatrixForm
        name = self.shown.get(expr.base)
        base = expr.base.of or expr.base
        plain_text = name or (f"∂𝓛/∂{base.text}" if expr.base.of is not None else base.text)
        shown = array_tex(base)
        if name:
            shown = rf"G_{{{name_tex(name[2:])}}}" if name.startswith("G_") else name
        elif expr.base.of is not None:
            shown = rf"\frac{{\partial\mathcal{{L}}}}{{\partial {shown}}}"
        code = self.writer.name(expr.base)
        code = f"{code}[:, None]" if len(axes) == 1 else code
        return Matrix(plain_text, shown, code, *axes, symmetric=isinstance(expr.base, SymmetricArray))

    def add(self, expr: Expr, rows, columns) -> Matrix:
        parts = [(negative, self.of(term, rows, columns)) for negative, term in signed(terms_of(expr, self.names))]
        axes = self.target(set().union(*(m.axes for _, m in parts)), rows, columns)
        parts = [(negative, self.broadcast_to(m, *axes) if m.axes else m) for negative, m in parts]
        (negative, result), *later = parts
        result = NEGATIVE(result) if negative else result
        for negative, term in later:
            result = (MINUS if negative else PLUS)(result, term)
        return result

    def power(self, expr: Pow, rows, columns) -> Matrix:
        base, power = expr.args
        if not power.is_number:
            raise NoMatrixForm
        if power.is_negative:
            return RECIPROCAL(self.of(1 / expr, rows, columns))
        inside = self.of(base, rows, columns)
        if power == S.Half:
            root = Operation("√{}", "{}", "np.sqrt({})", ATOM, (ATOM,))(inside)
            return replace(root, tex=rf"\sqrt{{{inside.tex}}}")
        circle, circle_tex = ("∘", r"\circ ") if inside.axes else ("", "")
        raised = power if power.is_Integer else f"({text(power)})"
        texts = f"{{}}^{circle}{raised}", f"{{{{}}}}^{{{circle_tex}{tex(power)}}}", f"{{}}**({power})"
        return Operation(*texts, ATOM, (ATOM,))(inside)

    def delta(self, expr: KroneckerDelta) -> Matrix:
        """The identity, or the matrix whose row n is 1 at t_n."""
        code = self.writer.delta(*expr.args)
        tables = [a for a in expr.args if isinstance(a, Indexed)]
        if not code.text.startswith("np.eye") or len(code.axes) != 2 or not all(map(_is_whole, tables)):
            raise NoMatrixForm
        if not tables:
            return Matrix("I", "I", code.text, *code.axes, symmetric=True)
        name = tables[0].base.text
        shown = rf"\operatorname{{onehot}}\left({name_tex(name)}\right)"
        return Matrix(f"onehot({name})", shown, code.text, *code.axes)

    def function(self, expr: Expr, rows, columns) -> Matrix:
        row = HEADS.get(expr.func)
        if row is None or not row.numpy or row.arguments != 1:
            raise NoMatrixForm
        return Operation(row.text, row.tex, row.numpy)(self.of(expr.args[0], rows, columns))

    def softmax(self, expr: Expr, rows, columns) -> Matrix | None:
        """softmax(S), of each row, for exp(S_ij) / Σ_j exp(S_ij)."""
        for part, over in shares_of(expr):
            if over == [columns] and isinstance(part, exp):
                return SOFTMAX(self.broadcast_to(self.of(part.args[0], rows, columns), rows, columns))
        return None

    # ------------------------------------------------------------------------------------------------ products

    def product(self, inside: Expr, over: list[Index], rows, columns) -> Matrix:
        """A product of entries, summed over some indices, one after the other."""
        if inside.is_Mul and rows and columns and rows.size == columns.size:
            diagonal = KroneckerDelta(rows, columns)
            if diagonal in inside.args:
                return self.diagonal(inside / diagonal, over, rows, columns)
            if not over and any(f.is_Add and f.has(diagonal) for f in inside.args):
                return self.of(inside.expand(deep=False), rows, columns)
        number, above, below = (S.One, [inside], []) if inside.is_Add else factors_of(inside, self.names)
        divisors = [f for f in below if free(f)]
        result = None if divisors else self.trace(above, over)
        if result is None:
            parts = self.sums([self.of(f, rows, columns) for f in above], over, rows, columns)
            quotients = [self.of(f, rows, columns) for f in divisors]
            if any(m.axes & set(over) for m in quotients):
                raise NoMatrixForm
            result = self.multiply_entries(parts, rows, columns, quotients)
        result = self.scale_by(result, abs(number) / Mul(*[f for f in below if f not in divisors]))
        return NEGATIVE(result) if number < 0 else result

    def diagonal(self, inside: Expr, over: list[Index], rows: Index, columns: Index) -> Matrix:
        """diag(v) for δ(i, j) v_i: `inside` is v."""
        entries = inside.xreplace({columns: rows})
        if not free(entries):
            identity = self.delta(KroneckerDelta(rows, columns))
            return self.scale_by(replace(identity, rows=rows, columns=columns), entries)
        vector = self.broadcast_to(self.product(entries, over, rows, None), rows, None)
        return DIAGONAL(vector, axes=(rows, columns))

    def trace(self, factors: list[Expr], over: list[Index]) -> Matrix | None:
        """tr(A) for Σ_k A_kk, tr(A B) for Σ_ij A_ij B_ji, with numbers in front."""
        entries = [f for f in factors if f.has(*over)]
        numbers = [self.of(f) for f in factors if f not in entries]
        if not 1 <= len(entries) <= 2 or any(m.axes for m in numbers):
            return None
        if any(not isinstance(f, Indexed) or len(f.indices) != 2 for f in entries):
            return None
        if len(entries) == 1:
            i, j = entries[0].indices
            if i != j or over != [i]:
                return None
            inside = self.entry(entries[0].base[i, Index("other", i.size)])
        else:
            a, b = map(self.entry, entries)
            if len(over) != 2 or a.axes != set(over) or b.axes != a.axes:
                return None
            inside = TIMES(self.orient(a, b.columns, b.rows), b)
        result = TRACE(inside, axes=(None, None))
        return self.multiple(self.multiply_numbers(numbers), result) if numbers else result

    def scale_by(self, m: Matrix, scale: Expr) -> Matrix:
        number, above, below = factors_of(scale)
        over, under = (Mul(*numbers, *parts) for numbers, parts in zip(fraction(number), (above, below), strict=True))
        if over != 1:
            m = self.multiple(self.of(over), m)
        if under != 1:
            n = self.number(under)
            text_ = f"{{}}/{n.text}" if n.level == ATOM else f"{{}}/({n.text})"
            m = Operation(text_, rf"\frac{{1}}{{{n.tex}}} {{}}", f"{{}}/({n.code})", PRODUCT, (PRODUCT,))(m)
        return m

    def sums(self, parts: list[Matrix], over: list[Index], rows, columns) -> list[Matrix]:
        """The factors of a product after its sums over indices, each in the place of the first factor that it has."""
        for k in over:
            inside = [p for p in parts if k in p.axes]
            if not inside:
                raise NoMatrixForm
            position = parts.index(inside[0])
            outside = [p for p in parts if k not in p.axes]
            parts = [*outside[:position], self.sum_over(inside, k, rows, columns), *outside[position:]]
        return parts

    def sum_over(self, parts: list[Matrix], k: Index, rows, columns) -> Matrix:
        """The sum over k of a product of matrices and columns."""
        groups: dict[Index | None, list[Matrix]] = {}
        for p in parts:
            groups.setdefault(next(iter(p.axes - {k}), None), []).append(p)
        column = groups.pop(None, [])
        if len(groups) > 2:
            raise NoMatrixForm
        sides = [(i, self.orient(self.hadamard(ps), i, k)) for i, ps in groups.items()]
        if not sides:
            left, right = column if len(column) == 2 else (self.ones(k), self.column(column, k))
            return TIMES(self.transpose(left), right, axes=(None, None))
        if len(sides) == 1:
            ((i, left),) = sides
            return TIMES(left, self.column(column, k), axes=(i, None))
        (i, left), (j, right) = sides
        if (rows is j or columns is i) and rows is not i:
            i, left, j, right = j, right, i, left
        left = TIMES(left, DIAGONAL(self.column(column, k)), axes=(i, k)) if column else left
        return TIMES(left, self.transpose(right), axes=(i, j))

    def multiply_entries(self, parts: list[Matrix], rows, columns, divisors: list[Matrix]) -> Matrix:
        """The product of entries, and their quotient by some."""
        numbers = [p for p in parts if not p.axes]
        parts = [p for p in parts if p.axes]
        axes = set().union(*(p.axes for p in (*parts, *divisors)))
        if not axes:
            return self.multiply_numbers(numbers)
        rows, columns = self.target(axes, rows, columns)
        m = self.multiply_matrices(parts, rows, columns)
        for divisor in divisors:
            if divisor.axes == axes:
                m = QUOTIENT(m, self.orient(divisor, rows, columns), axes=(rows, columns))
                continue
            inverse = INVERSE_DIAGONAL(divisor)
            m = TIMES(*([inverse, m] if divisor.axes == {rows} else [m, inverse]), axes=(rows, columns))
        return self.multiple(self.multiply_numbers(numbers), m) if numbers else m

    def multiply_matrices(self, parts: list[Matrix], rows, columns) -> Matrix:
        """The product entry by entry of matrices with these axes, columns of rows, and columns of columns."""
        full = [self.orient(p, rows, columns) for p in parts if p.axes == {rows, columns} - {None}]
        left, right = ([p for p in parts if columns is not None and p.axes == {i}] for i in (rows, columns))
        if not full and columns is None:
            return self.ones(rows)
        if not full:
            return TIMES(self.column(left, rows), self.transpose(self.column(right, columns)), axes=(rows, columns))
        m = self.hadamard(full)
        m = TIMES(DIAGONAL(self.column(left, rows)), m) if left else m
        return TIMES(m, DIAGONAL(self.column(right, columns)), axes=(rows, columns)) if right else m

    def column(self, parts: list[Matrix], i: Index) -> Matrix:
        """The product of columns; one of ones if there is none."""
        return self.hadamard([self.orient(p, i, None) for p in parts]) if parts else self.ones(i)

    def ones(self, i: Index) -> Matrix:
        """A column of ones."""
        return Matrix("𝟏", "𝟏", f"np.ones(({self.writer.piece(i.size).text}, 1))", i)

    def multiple(self, number: Matrix, m: Matrix) -> Matrix:
        return MULTIPLE(BRACKETS(number) if "ᵀ" in number.text and number.level < ATOM else number, m)

    def multiply_numbers(self, numbers: list[Matrix]) -> Matrix:
        return reduce(MULTIPLE, numbers) if numbers else self.number(S.One)

    def target(self, axes: set[Index], rows, columns) -> tuple[Index | None, Index | None]:
        """Rows and columns for these axes, those of the whole where possible."""
        if len(axes) > 2:
            raise NoMatrixForm
        wanted = [i for i in (rows, columns) if i in axes]
        ordered = [*wanted, *sorted(axes - set(wanted), key=str)]
        if len(ordered) == 2 and columns is ordered[0]:
            ordered = ordered[::-1]
        return (*ordered, None, None)[:2]

    def hadamard(self, parts: list[Matrix]) -> Matrix:
        """The product entry by entry, of matrices that are turned as the first one is."""
        return reduce(lambda m, p: HADAMARD(m, self.orient(p, m.rows, m.columns)), parts)

    def transpose(self, m: Matrix) -> Matrix:
        if m.symmetric:
            return replace(m, rows=m.columns, columns=m.rows)
        if m.transposed is not None:
            return m.transposed
        axes = m.columns, m.rows
        if m.text.endswith("⁻¹") and m.level == ATOM:
            tex_ = m.tex.replace("^{-1}", r"^{-\top}")
            return Matrix(m.text[:-1] + "ᵀ", tex_, f"{m.code}.T", *axes, transposed=m)
        operation = DERIVATIVE_TRANSPOSE if m.level == ATOM and m.text.startswith("∂") else TRANSPOSE
        return replace(operation(m, axes=axes), transposed=m if m.level == ATOM else BRACKETS(m))

    def orient(self, m: Matrix, rows, columns) -> Matrix:
        """The matrix with these rows and columns."""
        return m if (m.rows, m.columns) == (rows, columns) else self.transpose(m)

    def broadcast_to(self, m: Matrix, rows, columns) -> Matrix:
        """With these rows and columns; a column m at a matrix's place is m 1ᵀ."""
        if not m.axes <= {rows, columns}:
            raise NoMatrixForm
        if m.axes or rows is columns is None:
            return self.multiply_matrices([m], rows, columns)
        ones = self.multiply_matrices([], rows, columns)
        return ones if m.text == "1" else MULTIPLE(m, ones)


def _is_whole(entry: Indexed) -> bool:
    """Does each index run through the whole of its dimension?"""
    return all(isinstance(i, Index) and i.size == n for i, n in zip(entry.indices, entry.base.sizes, strict=True))
