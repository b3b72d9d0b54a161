"""Formulas in matrix notation, where every sum is a matrix product: `Matrices(names).form(left, right)`.

Arrays with two indices are matrices, those with one are columns. Σ_n X_nd G_nk is Xᵀ G; a product of entries is X ⊙ Y;
r_n X_nd is diag(r) X; Σ_d X_nd is X 𝟏, where 𝟏 is a column of ones; m_n as an entry of a matrix is m 𝟏ᵀ. A number is
added to each entry of a matrix, as in 1 - h ⊙ h; functions are applied to each entry; x^∘3 is a power of each entry.
Each form is made as text, as LaTeX and as NumPy code. A line without such a form gives None.
"""

from dataclasses import dataclass, replace

from sympy import Add, Expr, Function, Indexed, KroneckerDelta, Mul, Pow, S, Sum, exp

from tinytensor.symbolic.index_calculus.formulas import Array, Index, free
from tinytensor.symbolic.index_calculus.functions import HEADS, detach, fill, larger
from tinytensor.symbolic.index_calculus.linear_algebra import SymmetricArray, with_names
from tinytensor.symbolic.index_calculus.notation import name_tex, tex, text
from tinytensor.symbolic.index_calculus.numpy_printer import NumPyPrinter, shares_of
from tinytensor.symbolic.index_calculus.order import Name, decimal, factors_of, terms_of

SUM, ENTRIES, PRODUCT, ATOM = 1, 2, 3, 4  # how tightly +, ⊙ and a product of matrices bind


class NoMatrixForm(Exception):
    """A formula that is no matrix expression."""


@dataclass(frozen=True)
class Matrix:
    """A matrix expression, three times; its rows and columns are indices, or None where there is just one."""

    text: str
    tex: str
    code: str
    rows: Index | None = None
    columns: Index | None = None
    level: int = ATOM
    symmetric: bool = False

    @property
    def axes(self) -> set[Index]:
        return {i for i in (self.rows, self.columns) if i is not None}


def _matrix(texts: tuple[str, str, str], parts: list[Matrix], at: int, level: int, rows, columns) -> Matrix:
    """An expression of parts, each in brackets if it binds less tightly than `at`."""
    shown = [p.text if p.level >= at else f"({p.text})" for p in parts]
    typeset = [p.tex if p.level >= at else rf"\left({p.tex}\right)" for p in parts]
    code = [f"({p.code})" for p in parts]
    text_, tex_, code_ = (fill(t, w) for t, w in zip(texts, (shown, typeset, code), strict=True))
    return Matrix(text_, tex_, code_, rows, columns, level)


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
        return Matrix(shown, tex(expr, self.names), self.writer.number(expr).text, level=level)

    def entry(self, expr: Indexed) -> Matrix:
        axes = expr.indices
        sizes = expr.base.sizes
        plain = all(isinstance(i, Index) and i.size == n for i, n in zip(axes, sizes, strict=True))
        if len(axes) > 2 or len(set(axes)) < len(axes) or not plain or expr.base.values is not None:
            raise NoMatrixForm
        name = self.shown.get(expr.base)
        base = expr.base.of or expr.base
        plain_text = name or (f"∂𝓛/∂{base.text}" if expr.base.of is not None else base.text)
        shown = base.tex if base.text.endswith(("⁻¹", ")")) else name_tex(base.text)
        if name:
            shown = rf"G_{{{name_tex(name[2:])}}}" if name.startswith("G_") else name
        elif expr.base.of is not None:
            shown = rf"\frac{{\partial\mathcal{{L}}}}{{\partial {shown}}}"
        code = self.writer.name(expr.base)
        code = f"{code}[:, None]" if len(axes) == 1 else code
        return Matrix(plain_text, shown, code, *axes, symmetric=isinstance(expr.base, SymmetricArray))

    def add(self, expr: Add, rows, columns) -> Matrix:
        terms = terms_of(expr, self.names)
        parts = []
        for term in terms:
            negative = term.could_extract_minus_sign() and not term.is_Add
            parts.append((negative, self.of(-term if negative else term, rows, columns)))
        axes = set().union(*(m.axes for _, m in parts))
        rows, columns = self.target(axes, rows, columns)
        result: Matrix | None = None
        for negative, one in parts:
            one = self.broadcast_to(one, rows, columns) if one.axes else one
            if result is None:
                result = self.negate(one) if negative else one
                continue
            sign = "-" if negative else "+"
            right = one if one.level > SUM or not negative else self.bracket(one)
            both = result if result.axes else one
            result = _matrix((f"{{}} {sign} {{}}",) * 3, [result, right], SUM, SUM, both.rows, both.columns)
        return result

    def bracket(self, m: Matrix) -> Matrix:
        return _matrix(("({})", r"\left({}\right)", "{}"), [m], SUM, ATOM, m.rows, m.columns)

    def negate(self, m: Matrix) -> Matrix:
        return _matrix(("-{}",) * 3, [m], ENTRIES, SUM, m.rows, m.columns)

    def power(self, expr: Pow, rows, columns) -> Matrix:
        base, power = expr.args
        if not power.is_number:
            raise NoMatrixForm
        if power.is_negative:
            below = self.of(1 / expr, rows, columns)
            return _matrix(("1 ⊘ {}", r"1 \oslash {}", "1 / {}"), [below], PRODUCT, ENTRIES, below.rows, below.columns)
        inside = self.of(base, rows, columns)
        if power == S.Half:
            root = _matrix(("√{}", "{}", "np.sqrt({})"), [inside], ATOM, ATOM, inside.rows, inside.columns)
            return replace(root, tex=rf"\sqrt{{{inside.tex}}}")
        if not inside.axes:
            return _matrix(
                (f"{{}}^{power}", f"{{{{}}}}^{{{power}}}", f"{{}}**({power})"), [inside], ATOM, ATOM, None, None
            )
        texts = (f"{{}}^∘{power}", rf"{{{{}}}}^{{\circ {power}}}", f"{{}}**({power})")
        return _matrix(texts, [inside], ATOM, ATOM, inside.rows, inside.columns)

    def delta(self, expr: KroneckerDelta) -> Matrix:
        """The identity, or the matrix whose row n is 1 at t_n."""
        for one, other in (expr.args, expr.args[::-1]):
            if not (isinstance(one, Indexed) and isinstance(other, Index) and one.base.values == other.size):
                continue
            row = one.indices[0]
            if len(one.indices) == 1 and isinstance(row, Index) and row is not other:
                code = f"np.eye({self.writer.number(other.size).text})[{self.writer.name(one.base)}]"
                shown = rf"\operatorname{{onehot}}\left({name_tex(one.base.text)}\right)"
                return Matrix(f"onehot({one.base.text})", shown, code, row, other)
        raise NoMatrixForm

    def function(self, expr: Expr, rows, columns) -> Matrix:
        if not isinstance(expr, Function) or isinstance(expr, detach | larger) or len(expr.args) != 1:
            raise NoMatrixForm
        inside = self.of(expr.args[0], rows, columns)
        row = HEADS.get(expr.func)
        if row is None or not row.numpy:
            raise NoMatrixForm
        return _matrix((row.text, row.tex, row.numpy), [inside], SUM, ATOM, inside.rows, inside.columns)

    def softmax(self, expr: Expr, rows, columns) -> Matrix | None:
        """softmax(S), of each row, for exp(S_ij) / Σ_j exp(S_ij)."""
        for part, over in shares_of(expr):
            if over == [columns] and isinstance(part, exp):
                inside = self.broadcast_to(self.of(part.args[0], rows, columns), rows, columns)
                texts = ("softmax({})", r"\operatorname{softmax}\left({}\right)", "softmax({})")
                return _matrix(texts, [inside], SUM, ATOM, rows, columns)
        return None

    # ------------------------------------------------------------------------------------------------ products

    def product(self, inside: Expr, over: list[Index], rows, columns) -> Matrix:
        """A product of entries, summed over some indices, one after the other."""
        if inside.is_Add:
            number, above, below = S.One, [inside], []
        else:
            number, above, below = factors_of(inside, self.names)
        negative, number = number < 0, abs(number)
        if (whole := self.trace(above, over)) is not None and not [f for f in below if free(f)]:
            result = self.scale_by(whole, number / Mul(*below))
            return self.negate(result) if negative else result
        parts = [self.of(f, rows, columns) for f in above]
        divisors = [self.of(f, rows, columns) for f in below if free(f)]
        if any(m.axes & set(over) for m in divisors):
            raise NoMatrixForm
        for k in over:
            mine = [p for p in parts if k in p.axes]
            if not mine:
                raise NoMatrixForm
            at = min(parts.index(p) for p in mine)
            over_k = self.sum_over(mine, k, rows, columns)
            parts = [p for p in parts if k not in p.axes]
            parts.insert(at, over_k)
        result = self.multiply_entries(parts, rows, columns, divisors)
        scale = number / Mul(*[f for f in below if not free(f)])
        result = self.scale_by(result, scale)
        return self.negate(result) if negative else result

    def trace(self, factors: list[Expr], over: list[Index]) -> Matrix | None:
        """tr(A) for Σ_k A_kk, tr(A B) for Σ_ij A_ij B_ji, with numbers in front."""
        own = [f for f in factors if any(f.has(k) for k in over)]
        rest = [self.of(f) for f in factors if f not in own]
        if not own or len(own) > 2 or any(m.axes for m in rest):
            return None
        if any(not isinstance(f, Indexed) or len(f.indices) != 2 for f in own):
            return None
        if len(own) == 1:
            i, j = own[0].indices
            if i != j or over != [i]:
                return None
            inside = self.entry(own[0].base[i, Index("other", i.size)])
        else:
            a, b = (self.entry(f) for f in own)
            if len(over) != 2 or a.axes != set(over) or b.axes != a.axes:
                return None
            inside = self.times(self.orient(a, b.columns, b.rows), b, a.rows, a.rows)
        texts = ("tr({})", r"\operatorname{tr}\left({}\right)", "np.trace({})")
        result = _matrix(texts, [inside], SUM, ATOM, None, None)
        return self.multiple(self.multiply_numbers(rest), result) if rest else result

    def scale_by(self, m: Matrix, scale: Expr) -> Matrix:
        number, above, below = factors_of(scale)
        top, bottom = (number, 1) if decimal(number) else (number.p, number.q)
        over, under = Mul(top, *above), Mul(bottom, *below)
        if over != 1:
            m = self.multiple(self.number(over), m)
        if under != 1:
            n = self.number(under)
            n = n if n.level == ATOM else self.bracket(n)
            t = _matrix(("{}/{}",) * 3, [m, n], PRODUCT, PRODUCT, m.rows, m.columns)
            fraction = rf"\frac{{1}}{{{self.number(under).tex}}} {self._tight(m)}"
            return Matrix(t.text, fraction, t.code, m.rows, m.columns, PRODUCT)
        return m

    def _tight(self, m: Matrix) -> str:
        return m.tex if m.level >= PRODUCT else rf"\left({m.tex}\right)"

    def sum_over(self, parts: list[Matrix], k: Index, rows, columns) -> Matrix:
        """The sum over k of a product of matrices and columns."""
        groups: dict[Index | None, list[Matrix]] = {}
        for p in parts:
            groups.setdefault(next(iter(p.axes - {k}), None), []).append(p)
        column = groups.pop(None, [])
        if len(groups) > 2:
            raise NoMatrixForm
        sides = [(i, self.orient(self.hadamard(ps), i, k)) for i, ps in groups.items()]
        v = self.hadamard([self.orient(p, k, None) for p in column]) if column else None
        ones = self.ones(k)
        if not sides:
            if len(column) == 2:
                return self.times(self.transpose(column[0]), column[1], None, None)
            return self.times(self.transpose(ones), v, None, None)
        if len(sides) == 1:
            ((i, left),) = sides
            return self.times(left, v or ones, i, None)
        (i, left), (j, right) = sides
        if (rows is j or columns is i) and rows is not i:
            i, left, j, right = j, right, i, left
        if v is not None:
            left = self.times(left, self.diagonal(v), i, k)
        return self.times(left, self.transpose(right), i, j)

    def multiply_entries(self, parts: list[Matrix], rows, columns, divisors: list[Matrix]) -> Matrix:
        """The product of entries, and their quotient by some."""
        numbers = [p for p in parts if not p.axes]
        parts = [p for p in parts if p.axes]
        axes = set().union(*(p.axes for p in (*parts, *divisors)))
        rows, columns = self.target(axes, rows, columns)
        if not axes:
            return self.multiply_numbers(numbers)
        full = [self.orient(p, rows, columns) for p in parts if p.axes == axes]
        left, right = ([p for p in parts if columns is not None and p.axes == {i}] for i in (rows, columns))
        if full:
            m = self.hadamard(full)
            m = self.times(self.diagonal(self.column(left, rows)), m, rows, columns) if left else m
            m = self.times(m, self.diagonal(self.column(right, columns)), rows, columns) if right else m
        elif left or right:
            m = self.times(self.column(left, rows), self.transpose(self.column(right, columns)), rows, columns)
        else:
            m = self.broadcast_to(self.number(S.One), rows, columns)
        for divisor in divisors:
            if divisor.axes == axes:
                texts = ("{} ⊘ {}", r"{} \oslash {}", "{} / {}")
                m = _matrix(texts, [m, self.orient(divisor, rows, columns)], PRODUCT, ENTRIES, rows, columns)
                continue
            texts = ("diag({})⁻¹", r"\operatorname{diag}\left({}\right)^{-1}", "np.diag(1 / {}[:, 0])")
            d = _matrix(texts, [divisor], SUM, ATOM, divisor.rows, divisor.rows)
            m = self.times(d, m, rows, columns) if divisor.axes == {rows} else self.times(m, d, rows, columns)
        if numbers:
            m = self.multiple(self.multiply_numbers(numbers), m)
        return m

    def column(self, parts: list[Matrix], i: Index) -> Matrix:
        """The product of columns; one of ones if there is none."""
        return self.hadamard([self.orient(p, i, None) for p in parts]) if parts else self.ones(i)

    def ones(self, i: Index) -> Matrix:
        """A column of ones."""
        return Matrix("𝟏", "𝟏", f"np.ones(({self.writer.number(i.size).text}, 1))", i)

    def multiple(self, number: Matrix, m: Matrix) -> Matrix:
        number = self.bracket(number) if "ᵀ" in number.text and number.level < ATOM else number
        return _matrix(("{} {}", "{} {}", "{} * {}"), [number, m], PRODUCT, PRODUCT, m.rows, m.columns)

    def multiply_numbers(self, numbers: list[Matrix]) -> Matrix:
        result = numbers[0] if numbers else self.number(S.One)
        for p in numbers[1:]:
            result = _matrix(("{} {}", "{} {}", "{} * {}"), [result, p], PRODUCT, PRODUCT, None, None)
        return result

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
        result = parts[0]
        for p in parts[1:]:
            p = self.orient(p, result.rows, result.columns)
            texts = ("{} ⊙ {}", r"{} \odot {}", "{} * {}")
            result = _matrix(texts, [result, p], ENTRIES, ENTRIES, result.rows, result.columns)
        return result

    def times(self, a: Matrix, b: Matrix, rows, columns) -> Matrix:
        return _matrix(("{} {}", "{} {}", "{} @ {}"), [a, b], PRODUCT, PRODUCT, rows, columns)

    def diagonal(self, m: Matrix) -> Matrix:
        texts = ("diag({})", r"\operatorname{diag}\left({}\right)", "np.diag({}[:, 0])")
        return _matrix(texts, [m], SUM, ATOM, m.rows, m.rows)

    def transpose(self, m: Matrix) -> Matrix:
        if m.symmetric:
            return replace(m, rows=m.columns, columns=m.rows)
        texts = ("{}ᵀ", r"{{}}^{\top}", "{}.T")
        if m.text.endswith("⁻¹") and m.level == ATOM:
            return Matrix(m.text[:-1] + "ᵀ", m.tex.replace("^{-1}", r"^{-\top}"), f"{m.code}.T", m.columns, m.rows)
        if m.text.endswith("⁻ᵀ") and m.level == ATOM:
            code = m.code.removesuffix(".T")
            return Matrix(m.text[:-1] + "¹", m.tex.replace(r"^{-\top}", "^{-1}"), code, m.columns, m.rows)
        if m.level == ATOM and m.text.startswith("∂"):
            texts = ("({})ᵀ", r"{\left({}\right)}^{\top}", "{}.T")
        if m.text.endswith("ᵀ") and m.level == ATOM:
            code = m.code.removesuffix(".T")
            return Matrix(m.text[:-1], m.tex.removesuffix(r"^{\top}")[1:-1], code, m.columns, m.rows)
        return _matrix(texts, [m], ATOM, ATOM, m.columns, m.rows)

    def orient(self, m: Matrix, rows, columns) -> Matrix:
        """The matrix with these rows and columns."""
        return m if (m.rows, m.columns) == (rows, columns) else self.transpose(m)

    def broadcast_to(self, m: Matrix, rows, columns) -> Matrix:
        """With these rows and columns; a column m at a matrix's place is m 1ᵀ."""
        axes = {rows, columns} - {None}
        if m.axes == axes:
            return self.orient(m, rows, columns)
        ones = self.ones
        if not m.axes:
            if len(axes) == 1:
                return self.times(m, ones(rows), rows, None) if m.text != "1" else ones(rows)
            one = self.times(ones(rows), self.transpose(ones(columns)), rows, columns)
            return (
                one
                if m.text == "1"
                else _matrix(("{} {}", "{} {}", "{} * {}"), [m, one], PRODUCT, PRODUCT, rows, columns)
            )
        if m.axes == {rows}:
            return self.times(self.orient(m, rows, None), self.transpose(ones(columns)), rows, columns)
        if m.axes == {columns}:
            return self.times(ones(rows), self.transpose(self.orient(m, columns, None)), rows, columns)
        raise NoMatrixForm
