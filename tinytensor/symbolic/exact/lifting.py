"""The third reading of a kernel: its own Python source, run over exact scalars.

`lift(kernel)` takes the code object of the kernel as it is and gives it other globals: `np.exp` becomes the exact
exp; helpers and register functions are lifted, too. Arrays are passed as `Cells`, which offer only the operations that
a kernel may use on an array. An element read before it was written, an index out of bounds (or negative: compiled code
would wrap it), or an array expression raises an error that names the kernel.

The tasks of a launch run one after the other here, in parallel elsewhere. The results are the same only if no task
touches an element that another task writes; the cells check that, too.
"""

import builtins
import dis
import itertools
import sys
import types
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path

import numpy as np

from tinytensor.core.kernel import OBJECT, Kernel
from tinytensor.native.platform.distribution import PACKAGE
from tinytensor.native.runtime.kernel import Elementwise
from tinytensor.native.simd import math as simd_math
from tinytensor.symbolic.exact.scalars import COMPOSED, Exact, get_scalar_type
from tinytensor.symbolic.index_calculus.functions import TABLE

BUILTINS = ("range", "min", "max", "abs", "len", "type", "bool", "enumerate", "zip", "slice", "tuple")
ALLOCATING = ("empty", "zeros", "ones", "full", "empty_like", "zeros_like", "ones_like", "full_like", "array", "copy")
NO_BUILTINS: dict[str, object] = {}  # of lifted code, by which it is known
SEVERAL = 1 << 30  # marks an element that several tasks have read
_ELEMENT_TYPES = {"i": int, "u": int, "b": bool}  # the types of elements that are no exact scalars, by NumPy's letters


class NotLiftable(TypeError):
    """A kernel whose source has no meaning over exact scalars."""


def _function(name: str, x):
    """A function of NumPy or math: the exact scalar's own method."""
    return getattr(x if isinstance(x, Exact) else get_scalar_type().of(x), name)()


def _polygamma(n, x):
    return get_scalar_type().of(x)._apply(f"polygamma{n}")


METHODS = (*COMPOSED, "floor", "ceil", "rint", "isnan", "isfinite")
_MEANINGS = {name: partial(_function, name) for name in METHODS} | {"fabs": abs}
for _row in TABLE.values():
    if _row.elementary:  # np.arcsin and math.asin
        names = {_row.name, _row.numpy.removeprefix("np.").removesuffix("({})")}
        _MEANINGS |= dict.fromkeys(names, partial(_function, _row.name))
_MEANINGS["polygamma"] = partial(_polygamma)  # a plain function would be lifted itself
SPECIAL = (simd_math.lgamma, simd_math.digamma, simd_math.polygamma, simd_math.erfinv)  # their code approximates


def untraced(function: Callable, *args):
    """`function(*args)` of the engine's own, which asks nothing that `prove` has to see (prove/questions.py)."""
    trace = sys.gettrace()
    sys.settrace(None)
    try:
        return function(*args)
    finally:
        sys.settrace(trace)


@cache
def lift(kernel: Kernel, tasks: int | None = None, **constants: int) -> Callable:
    """The kernel's own source as a function of exact scalars: `lift(kernel)(*args)` takes the kernel's arguments.

    Arrays of dtype object hold exact scalars (and numbers, which count as exact); float arrays and float settings are
    read as the fractions that they are; arrays of integers and bools stay what they are. The launch is cut into
    `tasks` tasks, or into as many as the kernel itself says. `constants` replace whole numbers of the kernel's file
    (the width of a block, say), so that a tiny array takes the path of a large one. Raises NotLiftable, naming the
    kernel, where its source has no exact meaning.
    """
    used, ours = set(), Path(kernel.py_func.__code__.co_filename).is_relative_to(PACKAGE)

    def meaning(code, name, value):
        used.add(name)
        return _exact_meaning(_where(kernel, code), name, constants.get(name, value))

    source = rebind(kernel.py_func, meaning, check=partial(_check_code, kernel))
    if not constants.keys() <= used:
        raise TypeError(f"kernel {kernel.name}: {sorted(constants.keys() - used)} are not among its constants")

    def lifted(*args):
        whole = get_scalar_type().launches.get(kernel.name)
        if whole is not None:
            whole(*args)
            return
        untraced(go, args) if ours else go(args)

    def go(args):
        if isinstance(kernel, Elementwise):
            run, *inputs, y = _Run(kernel.name, 1), *args
            *names, name = kernel.names
            rows = [Cells(_array(a, y.shape).reshape(-1), run, n) for a, n in zip(inputs, names, strict=True)]
            operands = list(zip(*rows)) if rows else [()] * y.size  # read before anything is written: y may be a row
            y = Cells(y, run, name)
            for index, row in zip(np.ndindex(y.shape), operands, strict=True):
                y[index] = source(*row)
            return
        of_kernel = tasks is None or not kernel.takes_tasks
        shares = kernel.shares(args) if of_kernel else [(task, tasks) for task in range(tasks)]
        run = _Run(kernel.name, len(shares))
        args = [_argument(a, run, name) for a, name in zip(args, kernel.names, strict=True)]
        for share in shares:
            run.task += 1
            source(*args, *share)

    lifted.__name__, lifted.__doc__ = kernel.name, kernel.__doc__
    return lifted


def rebind(function: Callable, meaning: Callable, check: Callable = lambda function: None) -> Callable:
    """The same code object with other globals: each name in it stands for `meaning(code, name, value)`.

    A name from a module is given with the module's name: numpy.exp. A Python function that `meaning` returns (or a
    compiled one, with `py_func`) is rebound in the same way; `check` gets every function.
    """
    bound: dict[Callable, Callable] = {}  # functions of one code may have other globals, and other closures

    def resolve(code, name, value):
        value = meaning(code, name, value)
        return bind(value) if isinstance(value, types.FunctionType) or hasattr(value, "py_func") else value

    def bind(function):
        function = getattr(function, "py_func", function)
        code = function.__code__
        if function not in bound:
            check(function)
            scope: dict[str, object] = {"__builtins__": NO_BUILTINS, "__name__": function.__module__}
            bound[function] = types.FunctionType(code, scope, code.co_name, function.__defaults__, function.__closure__)
            for name, attributes in _global_names(code).items():
                value = function.__globals__.get(name, getattr(builtins, name, None))
                if isinstance(value, types.ModuleType):
                    parts = {a: resolve(code, f"{value.__name__}.{a}", getattr(value, a, None)) for a in attributes}
                    scope[name] = types.SimpleNamespace(**parts)
                else:
                    scope[name] = resolve(code, name, value)
        return bound[function]

    return bind(function)


def _where(kernel: Kernel, code: types.CodeType) -> str:
    return f"kernel {kernel.name}" + (f", in {code.co_name}" if code is not kernel.py_func.__code__ else "")


def _exact_meaning(where: str, name: str, value):
    """The meaning of a global name over exact scalars."""
    module, _, short = name.rpartition(".")
    if module in ("numpy", "math"):
        if short in ALLOCATING:
            raise NotLiftable(f"{where}: {name} allocates; take the array as a parameter")
        if short not in _MEANINGS:
            raise NotLiftable(f"{where}: {name} has no exact meaning; write it as arithmetic and loops")
        return _MEANINGS[short]
    if name in BUILTINS and value is getattr(builtins, name):
        return value
    if any(value is function for function in SPECIAL):
        return _MEANINGS[value.__name__]
    if isinstance(value, int | types.FunctionType) or hasattr(value, "py_func"):
        return value
    if isinstance(value, float | np.floating):
        raise NotLiftable(f"{where}: the constant {name} = {value!r} is a float; make it a parameter of the kernel")
    came = "is not defined" if value is None else f"({value!r}) has no exact meaning"
    raise NotLiftable(f"{where}: the name {name} {came}; use arithmetic, loops and np.exp, np.log, np.sqrt ...")


def _check_code(kernel: Kernel, function: Callable) -> None:
    code = function.__code__
    where = _where(kernel, code)
    for constant in code.co_consts:
        if isinstance(constant, float):
            raise NotLiftable(f"{where}: the literal {constant!r} is a float; make it a parameter of the kernel")


# --------------------------------------------------------------------------------- a kernel's arguments


class _Run:
    """One launch of a lifted kernel, shared by all its cells."""

    def __init__(self, kernel: str, tasks: int):
        self.kernel, self.tasks, self.scalar_type = kernel, tasks, get_scalar_type()
        self.task = 0  # the number of the running task, from 1
        self.marks: dict[tuple, np.ndarray] = {}  # by memory: one array may be two arguments


def _argument(value, run: _Run, name: str):
    """An argument as a loop sees it: switches and whole numbers stay what they are."""
    if isinstance(value, np.ndarray):
        memory = value.__array_interface__["data"][0], value.shape, value.strides
        marks = run.marks.setdefault(memory, np.zeros(value.shape, int)) if run.tasks > 1 else None
        return Cells(value, run, name, marks)
    value = value.item() if isinstance(value, np.generic) else value
    return run.scalar_type.of(value) if isinstance(value, float) else value


def _array(value, shape: tuple) -> np.ndarray:
    """An argument of a formula in the shape of the result: all its numbers are exact, except truth values."""
    if not isinstance(value, np.ndarray):
        value = np.asarray(value, bool if isinstance(value, bool | np.bool_) else object)
    return np.broadcast_to(value, shape)


class Cells:
    """An array as a lifted kernel sees it: shape, slices, and elements that are exact scalars.

    `marks` says for each element which task has touched it: t if task t has read it, -t if task t has written it,
    SEVERAL if several tasks have read it, 0 if none has. A launch of one task has no marks.
    """

    __slots__ = ("array", "marks", "name", "of", "run", "scalar_type")

    def __init__(self, array: np.ndarray, run: _Run, name: str, marks: np.ndarray | None = None):
        self.array, self.run, self.name, self.marks = array, run, name, marks
        self.scalar_type = _ELEMENT_TYPES.get(array.dtype.kind) or run.scalar_type  # of what elements are already
        self.of = getattr(self.scalar_type, "of", self.scalar_type)

    shape = property(lambda self: self.array.shape)
    size = property(lambda self: self.array.size)
    ndim = property(lambda self: self.array.ndim)
    strides = property(lambda self: self.array.strides)
    itemsize = property(lambda self: self.array.itemsize)
    T = property(lambda self: self._part(lambda a: a.T))

    @property
    def dtype(self) -> types.SimpleNamespace:
        """`x.dtype.type(0)` is a zero of the type that x holds."""
        return types.SimpleNamespace(type=self.scalar_type)

    def __len__(self):
        return len(self.array)

    def reshape(self, *shape):
        """The same elements in another shape (which must not take a copy)."""
        shape = shape[0] if len(shape) == 1 else shape
        return self._part(lambda a: np.reshape(a, shape, copy=False))

    def _part(self, view: Callable) -> "Cells":
        marks = None if self.marks is None else view(self.marks)
        return Cells(view(self.array), self.run, self.name, marks)

    def _element(self, key) -> str:
        return f"kernel {self.run.kernel}: {self.name}{list(key) if isinstance(key, tuple) else [key]}"

    def _check(self, key) -> None:
        sizes = iter(self.array.shape)
        for k in key if isinstance(key, tuple) else (key,):
            if k is None:
                continue
            n = next(sizes, -1)
            inside = min(k.start or 0, k.stop or 0) >= 0 if isinstance(k, slice) else 0 <= k < n  # slices are cut short
            if not inside:
                raise IndexError(
                    f"{self._element(key)} is outside the shape {self.array.shape} (a negative index, too: compiled "
                    "code would wrap it)"
                )

    def _touch(self, key, writes: bool) -> None:
        """Note that the running task reads or writes an element."""
        before, me = self.marks.item(key), self.run.task
        if before == -me or (before == me and not writes):
            return
        if before not in (0, me) and (writes or before < 0):
            raise RuntimeError(
                f"{self._element(key)} is touched by several of the {self.run.tasks} tasks and written by one of them: "
                "they run in any order, and at the same time"
            )
        self.marks[key] = -me if writes else me if before == 0 else SEVERAL

    def __getitem__(self, key):
        try:
            value = self.array[key]
        except IndexError:
            self._check(key)
            raise
        if value.__class__ is np.ndarray:
            self._check(key)
            return self._part(lambda a: a[key])
        if (key if key.__class__ is int else min(key)) < 0:
            self._check(key)
        if value is None:
            raise RuntimeError(f"{self._element(key)} was read before anything was written there")
        if self.marks is not None:
            self._touch(key, writes=False)
        return value if isinstance(value, self.scalar_type) else self.of(value)

    def __iter__(self):
        """The elements of one row."""
        if self.array.ndim != 1:
            self._expression()
        for index in range(len(self.array)):  # a loop may write what a later step of it reads
            yield self[index]

    def __setitem__(self, key, value):
        indices = (key,) if key.__class__ is int else key
        if indices.__class__ is not tuple or len(indices) != self.array.ndim or isinstance(value, Cells):
            self._expression()
        for k in indices:
            if k.__class__ is not int:
                self._expression()
            if k < 0:
                self._check(key)
        if self.array.dtype is OBJECT:
            value = (value if isinstance(value, self.scalar_type) else self.of(value)).stored()
        try:
            if self.marks is not None:
                self._touch(key, writes=True)
            self.array[key] = value
        except IndexError:
            self._check(key)
            raise

    def __getattr__(self, name: str):
        raise AttributeError(f"kernel {self.run.kernel}: {self.name}.{name} has no exact meaning; write it as a loop")

    def _expression(self, *_):
        raise TypeError(
            f"kernel {self.run.kernel}: an expression over the array {self.name} allocates; write the loop out"
        )

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = __neg__ = _expression
    __iadd__ = __isub__ = __imul__ = __pow__ = __matmul__ = __rmatmul__ = __lt__ = __le__ = __gt__ = __ge__ = (
        _expression
    )
    __eq__ = __ne__ = __bool__ = __array__ = _expression
    __hash__ = None


def _global_names(code: types.CodeType) -> dict[str, set[str]]:
    """The global names that the code uses, each with the attributes that it reads of it."""
    names: dict[str, set[str]] = {}
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):  # a comprehension, until Python 3.11
            names |= _global_names(inner)
    for this, after in itertools.pairwise(dis.get_instructions(code)):
        if this.opname == "LOAD_GLOBAL":
            attributes = names.setdefault(this.argval, set())
            if after.opname in ("LOAD_ATTR", "LOAD_METHOD"):
                attributes.add(after.argval)
    return names
