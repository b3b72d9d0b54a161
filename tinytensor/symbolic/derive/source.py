"""A derivation as a program in NumPy: one function, which computes the value and all gradients; and its run.

`source` is a Python module as a string, made to be read: the names of the formulas, a line each, with its shape behind
it. Sizes are read from the shapes of the arguments. `evaluate` runs exactly this text.
"""

import itertools
import keyword
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property

import numpy as np
from sympy import Expr, Mul, S, Symbol

from tinytensor.core.tensor import Tensor
from tinytensor.symbolic.derive.adjoints import DerivedLines
from tinytensor.symbolic.derive.arguments import Argument
from tinytensor.symbolic.derive.code_lines import ArrayAtStep, CodeLine, CodeLoop, SymbolAtStep
from tinytensor.symbolic.derive.samples import Sample
from tinytensor.symbolic.derive.trace import format_sizes
from tinytensor.symbolic.derive.values import Dims, ExtremeMask
from tinytensor.symbolic.index_calculus.adjoints import Definition, Name, d, name_of, names_in
from tinytensor.symbolic.index_calculus.formulas import Array, Index, Size, sizes_of
from tinytensor.symbolic.index_calculus.linear_algebra import MatrixEntry, OfMatrix
from tinytensor.symbolic.index_calculus.numpy_printer import HELPERS, NumPyPrinter, helpers, label, wrap_terms
from tinytensor.symbolic.reading.errors import NotDerivable

MODULES = "math", "statistics"  # of Python's, in the definitions of functions that NumPy lacks
RESERVED = {"np", *MODULES, "upstream", "value", "value_and_gradients", *HELPERS}


def check_names(arguments: Iterable[str]) -> None:
    """Can the arguments have these names in the program?"""
    if taken := sorted(name for name in arguments if name in RESERVED or keyword.iskeyword(name)):
        raise ValueError(f"derive: an argument is called {taken[0]}, which is a word of programs; give it another name")


class Source:
    """The text of a derivation's program, and the parts from which it is made."""

    def __init__(
        self,
        name: str,
        derived: DerivedLines,
        results: Mapping[object, tuple[Name, Dims]],
        directions: Mapping[str, Name],
        more: Sequence[Definition],
    ):
        """results: besides the value, by their keys, the name of a line and its dimensions each.

        directions: names of arrays in the shape of an argument, which are arguments, too. more: lines besides those of
        the derivation.
        """
        self.results, self.directions, self.more = results, directions, more
        self.name, self.derived, self.trace = name, derived, derived.trace
        self.arguments: dict[str, Argument] = self.trace.tensors
        self.output = name_of(derived.output)
        self.matrices: dict[Expr, Name] = {}  # the names of inverses and the like
        self.loops = [CodeLoop(r.step, r.count, r.down, r.sequences) for r in derived.recurrences]
        self.loops += [CodeLoop(r.step, r.count, not r.down, r.adjoints) for r in reversed(derived.recurrences)]
        self.forward, self.backward = self._needed_lines()
        self.lines = [*self.forward, *self.backward]
        tables = (c for c, x in self.trace.lines.constants.items() if not isinstance(x, ExtremeMask))
        self.recorded = [c for c in tables if any(c in names_in(x.right) for x in self.lines)]
        self.names: dict = {label(self.trace.arrays[n]): n for n in self.arguments}
        arguments, names = [*self.trace.arrays.values(), *self.recorded], [x.name for x in self.lines]
        sizes = set().union(*(sizes_of(a) for a in (*arguments, *names) if isinstance(a, Array)))
        sizes = sorted(sizes.union(*(x.right.atoms(Size) for x in self.lines)), key=str)
        for name in (*arguments, *sizes, *self.directions.values(), *names):
            self.identifier(name)
        order = [*self.trace.arrays.values(), *[x.name for x in self.derived.forward]]
        self.printer = NumPyPrinter(self.identifier, self.identifier, order)
        self.sizes, self.free = self._solve_sizes(sizes)

    @property
    def takes_upstream(self) -> bool:
        """Is the gradient of the value an argument?"""
        return isinstance(self.output, Array) and not self.more

    def _with_matrices(self, lines: list[CodeLine]) -> list[CodeLine]:
        """The lines, each after those of the matrices in it that have none yet."""
        result: list[CodeLine] = []
        for line in lines:
            entries = sorted(line.right.atoms(OfMatrix), key=str)
            names = ((e, self._matrix(e.matrix if isinstance(e, MatrixEntry) else e, result)) for e in entries)
            right = line.right.xreplace({e: x[e.args[1:]] if isinstance(e, MatrixEntry) else x for e, x in names})
            result.append(line._replace(right=right))
        return result

    def _marks(self) -> Iterator[CodeLine]:
        """The lines of the constants that mark the largest entries of an array, or the like."""
        for array, mask in self.trace.lines.constants.items():
            if isinstance(mask, ExtremeMask):
                axis = mask.axes[0] if len(mask.axes) == 1 else mask.axes
                which, ties = mask.function.split("_")
                code = f"largest_{ties}({'-' * (which == 'smallest')}{{}}, {axis})"
                yield CodeLine(array[mask.indices], mask.of, mask.indices, code)

    def _matrix(self, e: Expr, lines: list[CodeLine]) -> Name:
        """The name of an inverse, a Cholesky factor or a determinant, whose line is appended if it is new."""
        if isinstance(e, Array):
            return e
        if e not in self.matrices:
            inner = self._matrix(e.args[0], lines)
            name = self.trace.lines.unused(e.in_code[0].format(label(inner)))
            entry = inner[tuple(Index(letter, n) for letter, n in zip("ij", inner.sizes, strict=True))]
            name = Symbol(name, real=True) if isinstance(e, OfMatrix) else Array(name, inner.sizes)
            left = name if isinstance(e, OfMatrix) else name[entry.indices]
            lines.append(CodeLine(left, entry, entry.indices, e.in_code[1]))
            self.matrices[e] = name
        return self.matrices[e]

    def identifier(self, name: Name | Size) -> str:
        """The name in code: that of the formula, or another one if Python would take the two for one."""
        if isinstance(name, ArrayAtStep | SymbolAtStep):
            return label(name)
        is_size = isinstance(name, Size)
        key = ("size", name.name) if is_size else label(name)
        if key not in self.names:
            wanted = unicodedata.normalize("NFKC", name.name if is_size else label(name))
            wanted = wanted if wanted.isidentifier() else "u"
            bad = {*self.names.values(), *keyword.kwlist, *(RESERVED - {"value"})}
            tries = [wanted, f"n_{wanted}" if is_size else f"{wanted}_", *(f"{wanted}_{k}" for k in range(99))]
            self.names[key] = next(n for n in tries if n not in bad)
        return self.names[key]

    def _needed_lines(self) -> tuple[list[CodeLine], list[CodeLine]]:
        """The lines that lead to the value or to a derivative: those before the first adjoint, and the others."""
        forward, adjoints = list(self.derived.forward), self.derived.adjoints
        for r in self.derived.recurrences:
            forward += r.lines_of_states()
            adjoints = r.lines_of_adjoints(adjoints)
        every = (*forward, *adjoints.values(), *self.more)
        lines = [*self._marks(), *(CodeLine(x.left, x.right, getattr(x.left, "indices", ())) for x in every)]
        for r in self.derived.recurrences:
            lines = [x._replace(right=r.in_code(x.right)) for x in lines]
        needed: set[Name] = set()
        waiting = [self.output, *(name for name, _ in self.results.values())]
        while waiting:
            if (name := waiting.pop()) not in needed:
                needed.add(name)
                waiting += [n for x in lines if x.name == name for n in names_in(x.right)]
        lines = [x for x in lines if x.name in needed]
        names = {x.name for x in adjoints.values()}
        n = next((k for k, x in enumerate(lines) if x.name in names), len(lines))
        return self._with_matrices(lines[:n]), self._with_matrices(lines[n:])

    # ------------------------------------------------------------------------------------------------ sizes

    def _solve_sizes(self, sizes: list[Size]) -> tuple[list[tuple[Size, str, int, Expr, Expr]], list[Size]]:
        """Where each size is read, (size, argument, dimension, divisor, what to subtract first); and the other sizes.

        A dimension of a size is divisor * size + what is subtracted.
        """
        solved: list[tuple[Size, str, int, Expr, Expr]] = []
        known: set[Size] = set()
        progress = True
        while progress:
            progress = False
            for name, a in self.arguments.items():
                for k, dim in enumerate(a.dims):
                    unknown = [f for f in dim if f.atoms(Size) - known]
                    sizes_in = unknown[0].atoms(Size) - known if len(unknown) == 1 else ()
                    if len(sizes_in) != 1:
                        continue
                    (size,) = sizes_in
                    by = Mul(*dim).expand().coeff(size)
                    less = (Mul(*dim) - by * size).expand()
                    if by != 0 and not less.has(size) and (less == 0 or by.is_Integer):
                        solved.append((size, name, k, by, less))
                        known.add(size)
                        progress = True
        return solved, [s for s in sizes if s not in known]

    def _size_lines(self) -> list[str]:
        lines = []
        for name, group in itertools.groupby(self.sizes, lambda row: row[1]):  # a size may need one of another argument
            rows = list(group)
            if len(rows) == len(self.arguments[name].dims) and all(row[3:] == (1, 0) for row in rows):
                names = ", ".join(self.identifier(row[0]) for row in rows)
                lines.append(f"{names}{',' * (len(rows) == 1)} = {name}.shape")
                continue
            for size, _, k, by, less in rows:
                over = f" // {self.printer.piece(by).at(3)}" if by != 1 else ""
                whole = f"{name}.shape[{k}]"
                whole = f"({whole} - {self.printer.piece(less).at(2)})" if less != 0 else whole
                lines.append(f"{self.identifier(size)} = {whole}{over}")
        return lines

    def _shape(self, sizes: Iterable[Expr]) -> str:
        return ", ".join(self.printer.piece(S(n)).text for n in sizes)

    # ------------------------------------------------------------------------------------------------ the text

    def text(self) -> str:
        """The module."""
        body = "\n".join(f"    {code}".rstrip() for code in self._body())
        parameters = [*self.arguments, *map(self.identifier, [*self.directions.values(), *self.recorded])]
        parameters += ["upstream=None"] if self.takes_upstream else []
        parameters += ["*", *map(self.identifier, self.free)] if self.free else []
        about = "The value, and the derivatives by name"
        about += "; upstream: the gradient of the value, ones unless given" if self.takes_upstream else ""
        function = f'def value_and_gradients({", ".join(parameters)}):\n    """{about}."""\n{body}\n'
        used = helpers(function)
        imports = ["import numpy as np"] if "np." in "".join([function, *used]) else []
        modules = [f"import {m}" for m in MODULES if any(f"{m}." in code for code in used)]
        imports = [*modules, "", *imports] if modules else imports
        head = f'"""The value and the derivatives of {self.name}, derived for any size."""\n'
        if imports:
            head += "\n" + "\n".join(imports) + "\n"
        return head + "".join(f"\n\n{code}\n" for code in used) + "\n\n" + function

    @cached_property
    def function(self) -> Callable:
        """The function that the module defines."""
        space: dict = {}
        exec(compile(self.text(), f"<the derived program of {self.name}>", "exec"), space)
        return space["value_and_gradients"]

    def _body(self) -> list[str]:
        lines = [*self._argument_lines(), "", *self._code(self.forward)]
        if self.backward:
            lines += ["", *self._upstream(), *self._code(self.backward)]
        return [*lines, "", *self._results()]

    def _argument_lines(self) -> list[str]:
        """The sizes, and the arrays whose dimensions are products in the shapes of the formulas."""
        lines = self._size_lines()
        for name, a in self.arguments.items():
            if any(len(dim) != 1 for dim in a.dims):
                lines.append(f"{name} = {name}.reshape({self._shape(a.sizes) or '()'})")
        directions = [x for n, x in self.directions.items() if any(len(m) != 1 for m in self.arguments[n].dims)]
        for array in (*directions, *self.recorded):
            if isinstance(array, Array):
                lines.append(f"{self.identifier(array)} = {self.identifier(array)}.reshape({self._shape(array.sizes)})")
        return lines

    def _code(self, lines: list[CodeLine]) -> list[str]:
        """The code of lines, each after those that it uses; a loop comes when all is known that it does not compute."""
        code, waiting = [], list(lines)
        of_loops = {array for loop in self.loops for array in loop.arrays}
        while waiting:
            names = {x.name for x in waiting}
            line = next((x for x in waiting if x.name not in of_loops and not names_in(x.right) & names), None)
            loop = next((loop for loop in self.loops if names & {*loop.arrays}), None)
            if line is not None:
                code += self._whole_line(line)
                waiting.remove(line)
            elif loop is not None:
                firsts, steps = loop.parts(waiting)
                code += loop.code(firsts, steps, self.printer)
                waiting = [x for x in waiting if x not in (*firsts, *steps)]
            else:
                raise NotDerivable("derive: the adjoints of the loops depend on one another in a circle")
        return code

    def _whole_line(self, line: CodeLine) -> list[str]:
        """The code of a line, with its shape."""
        shape = f"  # ({self._shape(line.name.sizes)})" if isinstance(line.name, Array) else ""
        right = line.code.format(self.printer.whole(line.right, line.axes))
        *before, last = wrap_terms(f"{self.identifier(line.name)} = {right}", 110)
        return [*before, last + shape]

    def _upstream(self) -> list[str]:
        used = any(d(self.output) in names_in(x.right) for x in self.derived.adjoints.values())
        if not isinstance(self.output, Array) or not used:
            return []
        shape = f"({self._shape(self.output.sizes)}{',' * (len(self.output.sizes) == 1)})"
        gradient = "upstream"
        if any(len(dim) != 1 for dim in self.trace.result.dims):
            gradient = f"upstream.reshape{shape}"
        name = self.identifier(d(self.output))
        return [f"{name} = np.ones({shape}) if upstream is None else {gradient}  # {shape.replace(',)', ')')}"]

    def _results(self) -> list[str]:
        results = [("value", self._original_shape(self.identifier(self.output), self.trace.result.dims))]
        for key, (name, dims) in self.results.items():
            results.append((key, self._original_shape(self.identifier(name), dims)))
        pairs = [(repr(key).replace("'", '"'), code) for key, code in results]
        inside = ", ".join(f"{key}: {code}" for key, code in pairs)
        if len(inside) < 100:
            return [f"return {{{inside}}}"]
        return ["return {", *(f"    {key}: {code}," for key, code in pairs), "}"]

    def _original_shape(self, code: str, dims) -> str:
        """An array in the shape that the user knows."""
        if all(len(dim) == 1 for dim in dims):
            return code
        shape = self._shape(Mul(*dim) for dim in dims)
        return f"np.reshape({code}, ({shape}{',' * (len(dims) == 1)}))"


# ---------------------------------------------------------------------------------------------------------- the run


def evaluate(source: Source, inputs: Mapping[str, object]) -> dict[str, np.ndarray]:
    """The value and the gradients at arrays, by the text of the program; see Result.evaluate.

    An error says what is wrong with an argument.
    """
    call = f"evaluate of {source.name}"
    free = {source.identifier(s): s for s in source.free}
    shapes = {n: a.shape for n, a in source.arguments.items()}
    shapes |= {source.identifier(x): shapes[n] for n, x in source.directions.items()}
    expected = f"expected {', '.join(shapes)} as arrays"
    expected += f", and the sizes {', '.join(free)}, which no shape gives" if free else ""
    if missing := [n for n in (*shapes, *free) if n not in inputs]:
        raise TypeError(f"{call}: {', '.join(missing)} missing; {expected}")
    if unknown := inputs.keys() - {*shapes, *free, *(["upstream"] if source.takes_upstream else [])}:
        raise TypeError(f"{call}: {min(unknown)} is none of its arguments; {expected}")
    if inputs.get("upstream") is not None:
        shapes["upstream"] = source.trace.result.shape
    below = {n: a.below for n, a in source.arguments.items() if a.below is not None}
    arrays = {n: _array(inputs[n], n in below, f"{call}: {n}") for n in shapes}
    for name, shape in shapes.items():
        if arrays[name].ndim != len(shape):
            raise ValueError(f"{call}: {name} has the shape {arrays[name].shape}; expected {_format_shape(shape)}")
    sizes = {s: int(inputs[n]) for n, s in free.items()}
    for size, name, k, by, less in source.sizes:
        sizes[size] = (arrays[name].shape[k] - int(less.xreplace(sizes))) // int(by.xreplace(sizes))
    for name, shape in shapes.items():
        _check_array(arrays[name], shape, below.get(name), sizes, f"{call}: {name}")
    results = source.function(**arrays, **tables(source), **{n: sizes[s] for n, s in free.items()})
    return {name: np.asarray(x, dtype=np.float64) for name, x in results.items()}


def evaluate_at(source: Source, sample: Sample, **more: np.ndarray) -> dict[str, np.ndarray] | None:
    """The same at a point of the samples; None if the formulas have another shape there, or no number."""
    inputs = {n: sample.inputs[n].detach().numpy() for n in source.arguments}
    sizes = {source.identifier(s): sample.at[s] for s in source.free}
    try:
        with np.errstate(all="ignore"):
            return evaluate(source, inputs | more | sizes)
    except (ValueError, TypeError, IndexError, ZeroDivisionError):
        return None


def _check_array(array: np.ndarray, shape: tuple, below: Expr | None, sizes: dict[Size, int], what: str) -> None:
    """Has an array the shape that belongs to these sizes, and has one of indices entries within its range?"""
    expected = tuple(int(n.xreplace(sizes)) for n in shape)
    if array.shape != expected or min(sizes.values(), default=1) < 1:
        words = f"{_format_shape(shape)}, which is {expected} for {format_sizes(sizes)}"
        raise ValueError(f"{what} has the shape {array.shape}; expected {words}")
    if below is not None:
        wrong = array[(array < 0) | (array >= (most := int(below.xreplace(sizes))))]
        if wrong.size:
            raise IndexError(f"{what} has the entry {wrong.flat[0]}; expected 0 to {most - 1}")


def _format_shape(shape) -> str:
    return f"({', '.join(map(str, shape))}{',' * (len(shape) == 1)})"


def _array(value, of_indices: bool, what: str) -> np.ndarray:
    array = np.asarray(value.detach().numpy() if isinstance(value, Tensor) else value)
    if not of_indices:
        return array.astype(np.float64)
    if array.dtype.kind not in "iu":
        raise TypeError(f"{what} has the dtype {array.dtype}; expected whole numbers, for it is an Index")
    return array


def tables(source: Source) -> dict[str, np.ndarray]:
    """The arrays of numbers that the function has besides its arguments."""
    result = {}
    for array in source.recorded:
        table = np.asarray(source.trace.lines.constants[array], dtype=np.float64)
        result[source.identifier(array)] = table.reshape([int(n) for n in getattr(array, "sizes", ())])
    return result
