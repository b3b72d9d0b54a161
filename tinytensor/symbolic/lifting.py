"""The third reading of a kernel: its own Python source, run over exact scalars.

`lift(kernel)` takes the code object of the kernel as it is and gives it other globals: `np.exp` becomes the exact
exp, `prange` becomes `range`, helpers are lifted in their turn. Arrays are handed in as `Cells`, which offer what a
kernel may do with an array and nothing else: an element read before it was written, an index out of bounds
(or negative: compiled code would wrap it), or an array expression raises with the kernel's name.
"""

import builtins
import dis
import math
import types
from collections.abc import Callable
from functools import cache
from itertools import pairwise

import numba
import numpy as np

from tinytensor.kernels.kernel import Elementwise, Kernel
from tinytensor.symbolic.scalars import Exact, Symbolic

BUILTINS = ("range", "min", "max", "abs", "len", "type", "bool", "enumerate", "zip")
ALLOCATING = ("empty", "zeros", "ones", "full", "empty_like", "zeros_like", "ones_like", "full_like", "array", "copy")


class NotLiftable(TypeError):
    """A kernel whose source says what has no meaning over exact scalars."""


def _shim(method: str, otherwise: Callable) -> Callable:
    """A function of NumPy or math: the exact scalar's own method, Python's result for whole numbers."""
    return lambda x: getattr(x, method)() if isinstance(x, Exact) else otherwise(x)


_TRANSCENDENTAL = ("exp", "log", "sqrt", "tanh", "sin", "cos", "erf")
_MEANINGS = {name: _shim(name, lambda x, name=name: getattr(Symbolic(x), name)()) for name in _TRANSCENDENTAL}
_MEANINGS |= {name: _shim(name, lambda x: x) for name in ("floor", "ceil", "rint")}
_MEANINGS |= {
    "isnan": _shim("isnan", lambda x: False),
    "isfinite": _shim("isfinite", lambda x: True),
    "fabs": abs,
    "newaxis": None,
}


@cache
def lift(kernel: Kernel, **constants: int) -> Callable:
    """The kernel's own source as a function of exact scalars: `lift(kernel)(*args)` takes what the kernel takes.

    Arrays of dtype object hold exact scalars (and numbers, which count as exact); float arrays and float settings are
    read as the fractions that they are; arrays of integers and bools stay what they are. `constants` stand for whole
    numbers of the kernel's file (the width of a block, say), so that a tiny array takes the path of a large one.
    Raises NotLiftable, naming the kernel, where its source says something that has no exact meaning.
    """

    def meaning(code, name, value):
        return _exact_meaning(kernel.name, code, name, constants.get(name, value))

    source = rebind(kernel.py_func, meaning)
    is_formula = isinstance(kernel, Elementwise)
    names = kernel.names

    def lifted(*args):
        kind = _kind(args)
        if is_formula:
            *inputs, y = (
                Cells(_array(a, args[-1].shape), kind, kernel.name, n) for a, n in zip(args, names, strict=True)
            )
            for at in np.ndindex(y.shape):
                y[at] = source(*(x[at] for x in inputs))
        else:
            for share in kernel.shares(args):
                source(*(_argument(a, kind, kernel.name, n) for a, n in zip(args, names, strict=True)), *share)

    lifted.__name__, lifted.__doc__ = kernel.name, kernel.__doc__
    return lifted


def rebind(function: Callable, meaning: Callable) -> Callable:
    """The same code object with other globals: each name in it stands for `meaning(code, name, value)`.

    What `meaning` returns as a Python function (or a compiled one, with `py_func`) is bound anew in the same way.
    """
    bound: dict[types.CodeType, Callable] = {}

    def bind(function):
        function = getattr(function, "py_func", function)
        code = function.__code__
        if code not in bound:
            scope: dict[str, object] = {"__builtins__": {}}
            bound[code] = types.FunctionType(code, scope, code.co_name, function.__defaults__, function.__closure__)
            for name in _global_names(code):
                value = meaning(code, name, function.__globals__.get(name, getattr(builtins, name, None)))
                is_code = isinstance(value, types.FunctionType) or hasattr(value, "py_func")
                scope[name] = bind(value) if is_code else value
        return bound[code]

    return bind(function)


def _global_names(code: types.CodeType) -> list[str]:
    return list(dict.fromkeys(i.argval for i in dis.get_instructions(code) if i.opname == "LOAD_GLOBAL"))


def _exact_meaning(kernel: str, code: types.CodeType, name: str, value):
    """What a global name stands for in the exact reading of the function `code`, which `kernel` is made of."""
    where = f"kernel {kernel}" if code.co_name == kernel else f"kernel {kernel}, in {code.co_name}"
    _check_constants(code, where)
    if value is np or value is math:
        return _module(value, code, where)
    if value is numba.prange:
        return range
    if name in BUILTINS and value is getattr(builtins, name):
        return value
    if isinstance(value, int | types.FunctionType) or hasattr(value, "py_func"):
        return value
    if isinstance(value, float | np.floating):
        raise NotLiftable(f"{where}: the constant {name} = {value!r} is a float; make it a parameter of the kernel")
    came = "is not defined" if value is None else f"({value!r}) has no exact meaning"
    raise NotLiftable(f"{where}: the name {name} {came}; use arithmetic, loops and np.exp, np.log, np.sqrt ...")


def _check_constants(code: types.CodeType, where: str) -> None:
    for constant in code.co_consts:
        if isinstance(constant, float):
            raise NotLiftable(f"{where}: the literal {constant!r} is a float; make it a parameter of the kernel")
        if isinstance(constant, types.CodeType):
            raise NotLiftable(f"{where}: functions and comprehensions inside it allocate; write the loop out")


def _module(module, code: types.CodeType, where: str) -> types.SimpleNamespace:
    """NumPy or math with the exact meaning of what the code uses of it."""
    used = {
        after.argval
        for this, after in pairwise(dis.get_instructions(code))
        if this.opname == "LOAD_GLOBAL" and after.opname in ("LOAD_ATTR", "LOAD_METHOD")
        if this.argval in _names_of(module)
    }
    name = module.__name__
    for attribute in used:
        if attribute in ALLOCATING:
            raise NotLiftable(f"{where}: {name}.{attribute} allocates; take the array as a parameter")
        if attribute not in _MEANINGS:
            raise NotLiftable(f"{where}: {name}.{attribute} has no exact meaning; write it as arithmetic and loops")
    return types.SimpleNamespace(**{attribute: _MEANINGS[attribute] for attribute in used})


def _names_of(module) -> tuple[str, ...]:
    return ("np", "numpy") if module is np else ("math",)


# ---------------------------------------------------------------------------------- what a kernel is given


def _kind(args) -> type[Exact]:
    """The kind of exact scalar that the arguments hold; Symbolic where all are plain numbers."""
    for a in args:
        if isinstance(a, Exact):
            return a.__class__
        if isinstance(a, np.ndarray) and a.dtype == object:
            for element in a.flat:
                if isinstance(element, Exact):
                    return element.__class__
    return Symbolic


def _argument(value, kind: type[Exact], kernel: str, name: str):
    """An argument as a loop sees it: switches and whole numbers stay what they are."""
    if isinstance(value, np.ndarray):
        return Cells(value, kind, kernel, name)
    return kind(value) if isinstance(value, float | np.floating) else value


def _array(value, shape: tuple) -> np.ndarray:
    """An argument of a formula in the shape of the result: every number in it is exact, but for truth values."""
    if not isinstance(value, np.ndarray):
        element, value = value, np.empty((), bool if isinstance(value, bool | np.bool_) else object)
        value[()] = element
    return np.broadcast_to(value, shape) if value.shape != shape else value


class Cells:
    """An array as a lifted kernel sees it: shape, slices, and elements that are exact scalars."""

    __slots__ = ("array", "kernel", "kind", "name")

    def __init__(self, array: np.ndarray, kind: type[Exact], kernel: str, name: str):
        self.array, self.kind, self.kernel, self.name = array, kind, kernel, name

    shape = property(lambda self: self.array.shape)
    size = property(lambda self: self.array.size)
    ndim = property(lambda self: self.array.ndim)
    strides = property(lambda self: self.array.strides)
    itemsize = property(lambda self: self.array.itemsize)
    T = property(lambda self: self._part(self.array.T))

    @property
    def dtype(self) -> types.SimpleNamespace:
        """`x.dtype.type(0)` is a zero of the kind that x holds."""
        return types.SimpleNamespace(type={"i": int, "b": bool}.get(self.array.dtype.kind, self.kind))

    def __len__(self):
        return len(self.array)

    def reshape(self, *shape):
        return self._part(np.reshape(self.array, shape[0] if len(shape) == 1 else shape, copy=False))

    def _part(self, array: np.ndarray) -> "Cells":
        return Cells(array, self.kind, self.kernel, self.name)

    def _checked(self, key) -> tuple:
        key = key if isinstance(key, tuple) else (key,)
        sizes = iter(self.array.shape)
        for k in key:
            if k is None:
                continue
            n = next(sizes, None)
            if n is None or (not isinstance(k, slice) and not (isinstance(k, int) and 0 <= k < n)):
                raise IndexError(
                    f"kernel {self.kernel}: {self.name}{list(key)} is outside the shape {self.array.shape} (a negative "
                    "index, too: compiled code would wrap it)"
                )
        return key

    def __getitem__(self, key):
        key = self._checked(key)
        value = self.array[key]
        if isinstance(value, np.ndarray):
            return self._part(value)
        if value is None:
            raise RuntimeError(
                f"kernel {self.kernel}: {self.name}{list(key)} was read before anything was written there"
            )
        whole = {"i": int, "b": bool}.get(self.array.dtype.kind)
        return self.kind.of(value) if whole is None else whole(value)

    def __setitem__(self, key, value):
        key = self._checked(key)
        if len(key) != self.array.ndim or any(not isinstance(k, int) for k in key) or isinstance(value, Cells):
            self._expression()
        self.array[key] = self.kind.of(value) if self.array.dtype == object else value

    def _expression(self, *_):
        raise TypeError(f"kernel {self.kernel}: an expression over the array {self.name} allocates; write the loop out")

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = __neg__ = _expression
    __iadd__ = __isub__ = __imul__ = __pow__ = __matmul__ = __rmatmul__ = __lt__ = __le__ = __gt__ = __ge__ = (
        _expression
    )
    __eq__ = __ne__ = __bool__ = __array__ = _expression
    __hash__ = None
