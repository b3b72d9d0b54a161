"""Tensor: an array that remembers how it was computed. Op: the one form in which every operation is declared.

This file knows no operation by name; the files in `ops/` declare them, and its table attaches them to Tensor.
"""

import dis
import functools
import inspect
import weakref
from collections.abc import Callable
from contextlib import ContextDecorator
from itertools import count, pairwise
from typing import Any

import numpy as np

from tinytensor.door import OBJECT, empty, launch, move, state

float32, float64 = np.dtype("float32"), np.dtype("float64")
int32, int64 = np.dtype("int32"), np.dtype("int64")
bool_ = np.dtype("bool")

DTYPES = {float32, float64, int32, int64, bool_, OBJECT}
_KINDS = {"b": "bool", "i": "integer", "f": "floating-point"}
_CATEGORY = {"b": 0, "i": 1, "f": 2, "O": 3}  # by NumPy's dtype.kind: a higher one wins
_default_dtype = float32


def get_default_dtype() -> np.dtype:
    """The dtype of tensors made from Python floats: float32 unless changed."""
    return _default_dtype


def set_default_dtype(dtype: np.dtype) -> None:
    """Make Python floats become `dtype` (float32 or float64)."""
    global _default_dtype
    if np.dtype(dtype) not in (float32, float64):
        raise TypeError(f"set_default_dtype: expected float32 or float64, got {dtype}")
    _default_dtype = np.dtype(dtype)


class Version:
    """How often the memory that a tensor and its views share was changed in place."""

    __slots__ = ("count", "tracked")

    def __init__(self):
        self.count = 0  # all changes
        self.tracked = 0  # those that are on the tape


class Meta:
    """A shape without data; its sizes may be SymPy symbols."""

    def __init__(self, shape: tuple, dtype: np.dtype):
        self.shape, self.dtype, self.ndim = tuple(shape), dtype, len(shape)

    @property
    def size(self):
        size = 1
        for n in self.shape:
            size = size * n
        return size


class HookHandle:
    """What a hook is removed by: `handle.remove()`, as PyTorch has it, or `handle()`; a second time nothing happens."""

    def __init__(self, hooks: list, hook: Callable):
        self.hooks, self.hook = hooks, [hook]

    def remove(self) -> None:
        while self.hook:
            self.hooks.remove(self.hook.pop())

    __call__ = remove


class Tensor:
    """A NumPy array with a gradient.

    Names, defaults and meaning are PyTorch's. float32 (default), float64, int32, int64, bool, and object (exact
    scalars for proofs, only when asked for).
    """

    __slots__ = (
        "__weakref__",
        "_base",
        "_data",
        "_grad",
        "_hooks",
        "_meta",
        "_tracked",
        "_version",
        "node",
        "requires_grad",
    )
    __array_priority__ = 1000  # array * tensor asks the tensor, not NumPy

    def __init__(self, data: Any, requires_grad: bool = False):
        self._data = data if isinstance(data, np.ndarray | Meta) else np.array(data, _default_dtype)
        self._grad = None
        self._hooks = None
        self._meta = isinstance(data, Meta)
        self._base = None
        self._version = Version()
        self._tracked = 0
        self.node = None
        self.requires_grad = requires_grad

    # ------------------------------------------------------------------------------------- what it is

    @property
    def shape(self) -> tuple[int, ...]:
        return self._data.shape

    @property
    def dtype(self) -> np.dtype:
        return self._data.dtype

    @property
    def ndim(self) -> int:
        return self._data.ndim

    @property
    def device(self) -> str:
        return "meta" if self._meta else "cpu"

    @property
    def is_leaf(self) -> bool:
        """Made by the user, not computed from tensors that require grad."""
        return self.node is None

    @property
    def grad_fn(self) -> "Node | None":
        return self.node

    @property
    def grad(self) -> "Tensor | None":
        """The gradient that `backward()` has accumulated here."""
        _notice(self)
        return self._grad

    @grad.setter
    def grad(self, value: "Tensor | None"):
        _notice(self)
        if value is not None and value.shape != self.shape:
            raise ValueError(f"grad: a gradient of shape {value.shape} does not fit a tensor of shape {self.shape}")
        self._grad = value

    @property
    def data(self) -> "Tensor":
        """The same memory, without the tape and without a version check; assigning replaces the values."""
        _notice(self)
        view = Tensor(self._data)
        view._meta = self._meta
        return view

    @data.setter
    def data(self, value: "Tensor"):
        recording = state.recording
        if recording is not None and not recording.owns(self._data) and value.shape == self.shape:
            _notice(self)
            _notice(value)
            move(value._data, self._data)  # a replay finds the tensor at its place, so that place stays
        else:
            self._data, self._meta = value._data, value._meta
        self._version.count += 1

    def size(self, dim: int | None = None):
        """The shape, or one of its sizes."""
        return self.shape if dim is None else self.shape[dim]

    def dim(self) -> int:
        return self.ndim

    def numel(self) -> int:
        """The number of elements (a SymPy expression where the sizes are symbols)."""
        return self._data.size

    nelement = numel

    def is_floating_point(self) -> bool:
        return self.dtype.kind == "f"

    def is_contiguous(self) -> bool:
        return self._data.flags.c_contiguous

    def stride(self, dim: int | None = None):
        """Steps between neighbours, in elements."""
        strides = tuple(s // self.dtype.itemsize for s in self._data.strides)
        return strides if dim is None else strides[dim]

    def element_size(self) -> int:
        return self.dtype.itemsize

    def data_ptr(self) -> int:
        return self._data.ctypes.data

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len(): a 0-d tensor has no length")
        return self.shape[0]

    __hash__ = object.__hash__

    # --------------------------------------------------------------------------- out of the tape's world

    def _values(self, what: str) -> np.ndarray:
        """The array, for code that leaves the tape; refused where a replay could not follow."""
        if self._meta:
            raise RuntimeError(f"{what}: a meta tensor has a shape {self.shape}, but no values")
        recording = state.recording
        if recording is not None:
            raise RuntimeError(
                f"{what} inside a compiled step: a replay runs kernels only and would not see the value again; "
                "return the tensor from the step and look at it outside"
            )
        return self._data

    def detach(self) -> "Tensor":
        """The same values, sharing memory, outside the tape."""
        _notice(self)
        view = Tensor(self._data)
        view._meta = self._meta
        view._version = self._version
        return view

    def requires_grad_(self, requires_grad: bool = True) -> "Tensor":
        """Ask for (or stop asking for) the gradient of this tensor; returns it."""
        if requires_grad and self.dtype.kind not in "fO":
            raise RuntimeError(f"requires_grad_: only floating-point tensors have gradients, this one is {self.dtype}")
        if not requires_grad and self.node is not None:
            raise RuntimeError("requires_grad_(False): this tensor was computed from others; use detach()")
        self.requires_grad = requires_grad
        return self

    def item(self):
        """The value of a one-element tensor as a Python number."""
        values = self._values("item()")
        if values.size != 1:
            raise RuntimeError(f"item(): expected one element, but this tensor has shape {self.shape}")
        return values.item()

    def tolist(self):
        """The values as nested Python lists."""
        return self._values("tolist()").tolist()

    def numpy(self) -> np.ndarray:
        """The values as a NumPy array, sharing memory."""
        if self.requires_grad:
            raise RuntimeError(
                "numpy(): this tensor requires grad, and NumPy would lose the tape: use .detach().numpy()"
            )
        return self._values("numpy()")

    def __array__(self, dtype=None, copy=None) -> np.ndarray:
        if self.requires_grad:
            raise RuntimeError(
                "a NumPy function was called on a tensor that requires grad; call the tensor's own (tensor.exp(), "
                "tinytensor.exp(tensor)), or .detach() it first"
            )
        return np.array(self._values("a NumPy function"), dtype=dtype, copy=copy)

    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
        if method == "__call__" and isinstance(inputs[0], np.generic) and ufunc.__name__ in _REFLECTED and not kwargs:
            return getattr(self, _REFLECTED[ufunc.__name__])(inputs[0].item())  # np.sqrt(2.0) * x is a number times x
        return getattr(ufunc, method)(*_as_arrays(inputs, ufunc.__name__), **_as_arrays(kwargs, ufunc.__name__))

    def __array_function__(self, function, types, args, kwargs):
        return function(*_as_arrays(args, function.__name__), **_as_arrays(kwargs, function.__name__))

    def __dlpack__(self, **kwargs):
        return self.numpy().__dlpack__(**kwargs)

    def __dlpack_device__(self):
        return (1, 0)  # the CPU

    def __bool__(self) -> bool:
        values = self._values("bool()")
        if values.size != 1:
            raise RuntimeError(
                f"bool(): the truth of a tensor of shape {self.shape} is ambiguous; use .any() or .all()"
            )
        return bool(values.item())

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __index__(self) -> int:
        if self.dtype.kind not in "ib":
            raise TypeError(f"only integer tensors can be an index, this one is {self.dtype}")
        return int(self.item())

    def __contains__(self, value) -> bool:
        return bool((self._values("in") == (value.item() if isinstance(value, Tensor) else value)).any())

    def __format__(self, spec: str) -> str:
        return format(self.item(), spec) if self.ndim == 0 and spec else str(self)

    def __repr__(self) -> str:
        if self._meta:
            return f"tensor(..., device='meta', shape={self.shape}, dtype={self.dtype})"
        values = self._values("printing a tensor")
        body = np.array2string(values, separator=", ", prefix="tensor(", precision=4, threshold=1000)
        extra = "" if self.dtype in (_default_dtype, int64, bool_) else f", dtype={self.dtype}"
        extra += (
            f", grad_fn=<{self.node.op.name}>" if self.node else ", requires_grad=True" if self.requires_grad else ""
        )
        return f"tensor({body}{extra})"

    def __deepcopy__(self, memo):
        if self.node is not None:
            raise RuntimeError("deepcopy: only tensors made by the user can be copied; .detach() this one first")
        result = self.__class__.__new__(self.__class__)
        Tensor.__init__(result, self._data if self._meta else self._data.copy(), self.requires_grad)
        if self._grad is not None:
            result._grad = Tensor(self._grad._data.copy())
        memo[id(self)] = result
        return result

    # ---------------------------------------------------------------------------------- the tape's view

    def register_hook(self, hook: Callable) -> "HookHandle":
        """Call `hook(grad)` when this tensor's gradient is known; what it returns (if anything) replaces it.

        Returns a handle that removes the hook.
        """
        if not self.requires_grad:
            raise RuntimeError("register_hook: this tensor does not require grad")
        holder = self if self.node is None else self.node
        if holder._hooks is None:
            holder._hooks = []
        holder._hooks.append(hook)
        return HookHandle(holder._hooks, hook)

    def retain_grad(self) -> None:
        """Keep the gradient of this computed tensor in `.grad` too."""
        if self.node is not None:
            self.node.retained = weakref.ref(self)  # the tape must not hold the tensor that holds the tape

    def become(self, other: "Tensor") -> "Tensor":
        """Take over the values and the place on the tape of `other` (how every in-place operation ends)."""
        if other.shape != self.shape:
            raise RuntimeError(f"in place: a result of shape {other.shape} does not fit a tensor of shape {self.shape}")
        if _CATEGORY[other.dtype.kind] > _CATEGORY[self.dtype.kind]:
            raise RuntimeError(f"in place: a result of dtype {other.dtype} can't be stored in a tensor of {self.dtype}")
        check_in_place(self, other.requires_grad)
        _notice(self)
        if other._data is not self._data:
            move(other._data, self._data)
        self._version.count += 1
        if other.requires_grad:
            self._version.tracked += 1
            self._tracked = self._version.tracked
            if self._base is not None:
                _scatter_into_base(self, other)
            self._stand_at(other.node)
        return self

    def _stand_at(self, node: "Node") -> None:
        """Take another place on the tape; a gradient that is kept is from then on that of the new values."""
        before = self.node
        if before is not None and before.retained is not None and before.retained() is self:
            node.retained, before.retained = before.retained, None
        self.node, self.requires_grad = node, True


# what NumPy calls for `scalar * tensor`, and what the tensor has for it
_REFLECTED = {"add": "__radd__", "subtract": "__rsub__", "multiply": "__rmul__", "divide": "__rtruediv__"}
_REFLECTED |= {"floor_divide": "__rfloordiv__", "remainder": "__rmod__", "power": "__rpow__"}


def _as_arrays(value, name: str):
    """The arguments of a NumPy function with arrays for tensors."""
    if isinstance(value, Tensor):
        if value.requires_grad:
            raise TypeError(
                f"numpy.{name} was called on a tensor that requires grad, and NumPy would lose the tape; call "
                f"tinytensor.{name} (or a method of the tensor), or .detach() it first"
            )
        return value._values(f"numpy.{name}")
    if isinstance(value, tuple | list):
        return type(value)(_as_arrays(v, name) for v in value)
    if isinstance(value, dict):
        return {key: _as_arrays(v, name) for key, v in value.items()}
    return value


def check_in_place(tensor: Tensor, tracked: bool) -> None:
    """Refuse a change in place that would lose gradients or that the memory does not allow."""
    if not state.grad:
        return
    refuse_stale_view(tensor, "in place")
    base = tensor._base
    if base is not None and base.requires_grad and not tensor.requires_grad and not base.is_leaf:
        raise RuntimeError(
            "in place: this view was taken under no_grad(), and a change of it could not reach the gradient of its "
            "base; take the view anew"
        )
    for t in (tensor, base):
        if t is not None and t.requires_grad and t.is_leaf:
            raise RuntimeError(
                "in place: this is (a view of) a tensor that requires grad and was made by the user; its gradient "
                "would be lost. Change it under no_grad(), or work on a clone()"
            )
    if (
        tracked
        and tensor.numel()
        and any(n > 1 and step == 0 for n, step in zip(tensor.shape, tensor._data.strides, strict=True))
    ):
        raise RuntimeError("in place: several elements of this expanded tensor share memory; clone() it first")


def refuse_stale_view(tensor: Tensor, what: str) -> None:
    """A view keeps its place on the tape when its base, or another view, is changed there: it must not be used then."""
    if tensor._base is not None and tensor._tracked != tensor._version.tracked:
        raise RuntimeError(
            f"{what}: this view was made before its base was changed in place on the tape; its gradient would go to "
            "the old values; take the view anew"
        )


def _scatter_into_base(view: Tensor, value: Tensor) -> None:
    base = view._base
    if not base._data.flags.c_contiguous:
        raise RuntimeError("in place: a view of a strided tensor can't be changed on the tape; clone() the base first")
    size = base.dtype.itemsize
    offset = (view._data.__array_interface__["data"][0] - base._data.__array_interface__["data"][0]) // size
    numbers = np.arange(base.numel())
    seen = np.lib.stride_tricks.as_strided(numbers[offset:], view.shape, [s // size * 8 for s in view._data.strides])
    before = Tensor(base._data)  # the base as it was: its values are not needed, its place on the tape is
    before.node, before.requires_grad = base.node, base.requires_grad
    base._stand_at(Node(OPS["put"], (before, Tensor(seen.copy()), value), base._data, (), base._version))


def _notice(tensor: Tensor) -> None:
    """Tell the recording, if there is one, that this tensor was used (its gradient may be a condition)."""
    recording = state.recording
    if recording is not None and id(tensor) not in recording.seen and not recording.owns(tensor._data):
        recording.seen[id(tensor)] = Seen(tensor)


class Seen:
    """A tensor from outside a recording, as it was before its first use there.

    A gradient that it had is an input of the step: the recording works on a buffer of its own in its place.
    """

    def __init__(self, tensor: Tensor):
        self.tensor = tensor
        self.data = tensor._data
        self.version = tensor._version.count
        self.grad = tensor._grad
        self.condition = self.state()
        self.stand_in = None
        if self.grad is not None:
            self.stand_in = tensor._grad = Tensor(self.grad._data.copy())

    def state(self) -> tuple:
        """What decides which launches are made: the memory, and what backward() will find."""
        tensor = self.tensor
        hooks = () if tensor._hooks is None else tuple(tensor._hooks)
        grad = None if tensor._grad is None else tensor._grad._data.dtype.char  # dtype("float64") == None is True
        return tensor._data is self.data, tensor.requires_grad, grad, hooks


# ---------------------------------------------------------------------------------------- modes of this thread


class no_grad(ContextDecorator):
    """Compute without the tape (context, or decorator of a function or a generator; per thread)."""

    mode = False

    def __new__(cls, function: Callable | None = None):
        return super().__new__(cls) if function is None else cls()(function)  # @no_grad is @no_grad()

    def __init__(self):
        self.before = []  # a decorated function may call itself

    def __enter__(self):
        self.before.append(state.grad)
        state.grad = self.mode
        return self

    def __exit__(self, *exc):
        state.grad = self.before.pop()
        return False

    def _recreate_cm(self):
        return self.__class__()  # each call of a decorated function, in whatever thread, has its own

    def __call__(self, function: Callable) -> Callable:
        if not inspect.isgeneratorfunction(function):
            return super().__call__(function)

        @functools.wraps(function)
        def generator(*args, **kwargs):
            """The mode holds while the generator runs, not while it waits."""
            steps = function(*args, **kwargs)
            go_on = functools.partial(next, steps)
            while True:
                try:
                    with self._recreate_cm():
                        value = go_on()
                except StopIteration as stop:
                    return stop.value
                try:
                    go_on = functools.partial(steps.send, (yield value))
                except BaseException as error:  # thrown in by the caller; close() is one of them
                    go_on = functools.partial(steps.throw, error)

        return generator


class enable_grad(no_grad):
    """Compute with the tape, inside no_grad() too."""

    mode = True


class set_grad_enabled(no_grad):
    """Switch recording on the tape on or off (a function, a context or a decorator; per thread)."""

    def __new__(cls, mode: bool):
        return super().__new__(cls)

    def __init__(self, mode: bool):
        self.mode, self.outside = bool(mode), state.grad
        self.before = []
        state.grad = self.mode

    def __enter__(self):
        state.grad = self.outside
        return super().__enter__()

    def _recreate_cm(self):
        return self.__class__(self.mode)

    def __call__(self, function: Callable) -> Callable:
        state.grad = self.outside
        return super().__call__(function)


inference_mode = no_grad


def is_grad_enabled() -> bool:
    """Are operations put on the tape?"""
    return state.grad


# ------------------------------------------------------------------------------------------------------ dtypes


def category(value) -> int:
    """0 bool, 1 integer, 2 float, 3 exact scalar."""
    if isinstance(value, Tensor | np.generic):
        return _CATEGORY[value.dtype.kind]
    return 0 if isinstance(value, bool) else 1 if isinstance(value, int) else 2 if isinstance(value, float) else 3


def result_type(*values) -> np.dtype:
    """The dtype in which values meet, by PyTorch's rule.

    The highest category among all wins (bool < integer < float); within it a tensor with dimensions outranks a 0-d
    tensor, which outranks a Python number.
    """
    ranks: list[np.dtype | None] = [None, None, None]
    for value in values:
        if isinstance(value, Tensor):
            rank, dtype = (0 if value._data.ndim else 1), value._data.dtype
        else:
            rank, dtype = 2, (bool_, int64, _default_dtype, OBJECT)[category(value)]
        ranks[rank] = dtype if ranks[rank] is None else _promote(ranks[rank], dtype)
    result = None
    for dtype in ranks:
        if dtype is not None and (result is None or _CATEGORY[dtype.kind] > _CATEGORY[result.kind]):
            result = dtype
    return result


def _promote(a: np.dtype, b: np.dtype) -> np.dtype:
    if a.kind == b.kind:
        return np.promote_types(a, b)
    return a if _CATEGORY[a.kind] > _CATEGORY[b.kind] else b


# ----------------------------------------------------------------------------------------------------- the tape

_clock = count()


class Node:
    """One operation on the tape: what it was, what it came from, what its rule will read.

    `edges[i]` leads to where the gradient of argument i goes: another Node, or a leaf Tensor. Values are kept only
    where the rule's own code reads them.
    """

    __slots__ = ("__weakref__", "_hooks", "args", "dtype", "edges", "op", "out", "retained", "saved", "shape", "time")
    __slots__ += ("versions",)

    def __init__(self, op: "Op", args: tuple, out: np.ndarray, saved: tuple, version: Version):
        self.op = op
        self.time = next(_clock)
        self.shape, self.dtype = out.shape, out.dtype
        self._hooks = None
        self.retained = None  # the tensor that wants to keep its gradient, weakly
        self.saved = saved
        self.edges = tuple(
            None if not isinstance(a, Tensor) or not a.requires_grad else a if a.node is None else a.node for a in args
        )
        reads, reads_output = op.reads_for(tuple(edge is not None for edge in self.edges))
        self.out = out if reads_output else None
        kept, versions = [], [("the output", version, version.count, True)] if reads_output else []
        for position, arg in enumerate(args):
            if isinstance(arg, Tensor):
                read = position in reads
                if read or op.definition is not None:  # second derivatives come from the definition, which reads all
                    versions.append(("an input", arg._version, arg._version.count, read))
                else:
                    arg = Shape(arg._data)
            kept.append(arg)
        self.args, self.versions = tuple(kept), versions
        if state.watch is not None:
            state.watch(self, args, out)

    def free(self) -> None:
        """Let go of all values and of the nodes before; a second walk finds no args and says so."""
        self.args = self.saved = self.out = None
        self.edges = self.versions = ()

    def __repr__(self):
        return f"<{self.op.name} on the tape>"

    @property
    def name(self):
        return self.op.name


class Shape:
    """What a rule may ask of an argument without keeping its values alive."""

    __slots__ = ("dtype", "ndim", "shape")

    def __init__(self, array: np.ndarray):
        self.shape, self.dtype, self.ndim = array.shape, array.dtype, array.ndim


# --------------------------------------------------------------------------------------------------- operations


class Op:
    """An operation on tensors, declared once by `@op`.

    The class that `@op` decorates may have:

    - a docstring: the equation y = ...
    - `kernel`: an elementwise kernel; or `view(x, *settings)`, which returns a NumPy view; or
      `forward(*args)`, which gets arrays for tensors, calls `launch`, and returns y or `(y, *saved)`
      (with `outputs = n` the first n are results; only the first has a gradient)
    - `dtype`: of the result of an elementwise op: "same", "float" (integers become floats), or "bool"; `kinds`: the
      only kinds of numbers that it takes, as letters of NumPy's `dtype.kind`
    - `grad_NAME(g, y, *args, *saved)`: the gradient of the input NAME, written with tensors; or
      `grads(g, y, *args, *saved)`: all of them, as a tuple; or
      `backward(needs, g, y, *args, *saved)`: all of them, on arrays, through `launch`
    - `definition(*args)`: the same in simpler ops; an op with `backward` has its second derivatives from here.
    """

    def __init__(self, form: type):
        self.name = form.__name__.rstrip("_")
        self.__name__ = self.name
        self.equation = inspect.cleandoc(form.__doc__ or "")
        self.__doc__ = self.equation
        for attribute in ("kernel", "view", "forward", "grads", "backward", "definition"):
            setattr(self, attribute, getattr(form, attribute, None))
        self.dtype = getattr(form, "dtype", "same")
        self.kinds = getattr(form, "kinds", "")
        self.outputs = getattr(form, "outputs", 1)
        source = self.forward or self.view or self.kernel.py_func
        self.params = tuple(inspect.signature(source).parameters)
        self.rules = {
            i: getattr(form, f"grad_{name}") for i, name in enumerate(self.params) if hasattr(form, f"grad_{name}")
        }
        unknown = [n for n in vars(form) if n.startswith("grad_") and n[5:] not in self.params]
        if unknown:
            raise TypeError(f"op {self.name}: {unknown} name no input; the inputs are {self.params}")
        self.differentiable = bool(self.rules or self.grads or self.backward or self.definition)
        self._reads: dict[tuple[bool, ...], tuple[frozenset[int], bool]] = {}
        if self.forward is None:
            self.forward = self._forward_view if self.view else self._forward_elementwise

    def __repr__(self):
        return f"<op {self.name}({', '.join(self.params)}): {self.equation.splitlines()[0] if self.equation else ''}>"

    def reads_for(self, needs: tuple[bool, ...]) -> tuple[frozenset[int], bool]:
        """Which inputs the needed rules load, and whether they load y: no other value is kept for them."""
        if needs not in self._reads:
            n = len(self.params)
            if self.rules:
                rules = [(rule, 1) for i, rule in self.rules.items() if needs[i]]
            elif self.grads:
                rules = [(self.grads, 1)]
            else:
                rules = [(self.backward, 2)] if self.backward else []
            inputs = [_loaded(rule, y + 1, n) for rule, y in rules]
            if not self.rules and not self.grads and not self.backward:
                inputs = [frozenset(range(n))]  # differentiated through the definition
            output = any(_loaded(rule, y, 1) for rule, y in rules)
            self._reads[needs] = frozenset().union(*inputs), output
        return self._reads[needs]

    def __call__(self, *args, out: Tensor | None = None, **unknown):
        if unknown:
            raise TypeError(
                f"{self.name}: unknown keyword {next(iter(unknown))!r}; the inputs are {', '.join(self.params)}"
            )
        tensors = [a for a in args if isinstance(a, Tensor)]
        if state.recording is not None:
            for t in tensors:
                _notice(t)
        if any(t._meta for t in tensors) and not state.meta:
            return self._on_meta(args)
        if state.grad and self.differentiable:
            for t in tensors:
                refuse_stale_view(t, self.name)
        if self.kernel is not None and self.view is None:
            result = self._forward_elementwise(*args, out=out)
        else:
            result = self.forward(*(a._data if isinstance(a, Tensor) else a for a in args))
        results = result if isinstance(result, tuple) else (result,)
        if state.anomaly:
            self._look_for_anomalies(args, results)
        if out is not None and results[0] is out._data:
            y = out
            y._version.count += 1
        else:
            y = Tensor(results[0])
            y._meta = state.meta
        if self.view:
            x = tensors[0]
            y._base = x._base if x._base is not None else x
            y._version, y._tracked = x._version, x._version.tracked
        tracked = state.grad and self.differentiable and any(t.requires_grad for t in tensors)
        if tracked and results[0].dtype.kind in "fO":
            y.node = Node(self, args, results[0], results[1:], y._version)
            y.requires_grad = True
        if self.outputs == 1:
            return y
        more = [Tensor(r) for r in results[1 : self.outputs]]
        if y.node is not None:
            y.node.versions += [("a result", r._version, 0, True) for r in more]  # its rules read them
        return y, *more

    def _on_meta(self, args):
        """Shapes only: the same code, with arrays that have no memory behind them."""
        if any(isinstance(a, Tensor) and a.dtype is not OBJECT and not _concrete(a.shape) for a in args):
            raise RuntimeError(f"{self.name}: sizes that are symbols can be counted, but not computed with")
        state.meta = True
        try:
            ghosts = tuple(
                Tensor(empty(a.shape, a.dtype), a.requires_grad) if isinstance(a, Tensor) else a for a in args
            )
            result = self(*ghosts)
        finally:
            state.meta = False
        for r in result if isinstance(result, tuple) else (result,):
            r._data, r._meta = Meta(r._data.shape, r._data.dtype), True
        return result

    def _forward_view(self, *arrays):
        return self.view(*arrays)

    def _forward_elementwise(self, *args, out: Tensor | None = None):
        dtype = self._common_dtype(args)
        if self.dtype == "float" and dtype.kind in "bi":
            dtype = _default_dtype
        arrays = [self._operand(a, dtype) for a in args]
        try:
            shape = np.broadcast_shapes(*(a.shape for a in arrays if isinstance(a, np.ndarray)))
        except ValueError:
            shapes = " and ".join(str(a.shape) for a in arrays if isinstance(a, np.ndarray))
            raise RuntimeError(
                f"{self.name}: shapes {shapes} do not broadcast: from the right, sizes must be equal or 1"
            ) from None
        result = bool_ if self.dtype == "bool" else dtype
        if out is not None and out.shape == shape and out.dtype == result:
            y = out._data
        else:
            y = empty(shape, result)
        launch(self.kernel, *arrays, y)
        return y

    def _common_dtype(self, args: tuple) -> np.dtype:
        """The dtype in which the arguments meet; anything that is neither tensor nor number is refused."""
        if len(args) != len(self.params):
            raise TypeError(
                f"{self.name}: expected {len(self.params)} arguments ({', '.join(self.params)}), got {len(args)}"
            )
        dtype = result_type(*args)
        if (dtype is OBJECT or self.kinds) and not any(isinstance(a, Tensor) and a.dtype is OBJECT for a in args):
            for a in args:
                if not isinstance(a, Tensor | int | float | np.number | np.bool_):
                    hint = "; use tinytensor.from_numpy(array)" if isinstance(a, np.ndarray) else ""
                    raise TypeError(f"{self.name}: expected tensors or numbers, got {type(a).__name__}{hint}")
            if not any(isinstance(a, Tensor) for a in args):
                raise TypeError(f"{self.name}: expected at least one tensor, got {', '.join(map(repr, args))}")
        for a in args if self.kinds else ():
            if isinstance(a, Tensor) and a.dtype.kind not in self.kinds:
                allowed = " or ".join(_KINDS[k] for k in self.kinds if k != "O")
                raise RuntimeError(f"{self.name}: expected {allowed} tensors, got {a.dtype}")
        return dtype

    def _operand(self, value, dtype: np.dtype):
        """A value as the kernel takes it: an array of `dtype`, or a number of that type."""
        if isinstance(value, Tensor):
            if value._data.dtype is dtype:
                return value._data
            if dtype is OBJECT:
                return value._data.astype(object)
            cast = empty(value.shape, dtype)
            move(value._data, cast)
            return cast
        if dtype is OBJECT:
            return value
        return dtype.type(value)

    def _look_for_anomalies(self, args, results) -> None:
        if all(r.dtype.kind != "f" or np.isfinite(r).all() for r in results[:1]):
            return
        inputs = [a._data for a in args if isinstance(a, Tensor) and a.dtype.kind == "f"]
        if all(np.isfinite(a).all() for a in inputs):
            shapes = ", ".join(str(a.shape) for a in inputs)
            raise FloatingPointError(
                f"{self.name}: the first {'NaN' if np.isnan(results[0]).any() else 'inf'} arose here: the inputs "
                f"{shapes} are finite, the result {results[0].shape} is not"
            )


def _concrete(shape: tuple) -> bool:
    return all(isinstance(n, int | np.integer) for n in shape)


def _loaded(function: Callable, first: int, n: int) -> frozenset[int]:
    """Which of the n parameters after `first` the function's own code reads (0 is parameter `first`)."""
    function = inspect.unwrap(function)
    code = function.__code__
    instructions = list(dis.get_instructions(code))
    loaded = set(code.co_cellvars)
    for this, following in pairwise(instructions):
        if "LOAD" in this.opname:
            names = list(this.argval) if isinstance(this.argval, tuple) else [this.argval]
            if following.opname == "LOAD_ATTR" and following.argval in ("shape", "ndim", "dtype"):
                names.pop()  # asked for its shape only
            loaded.update(name for name in names if isinstance(name, str))
    parameters = code.co_varnames[first : code.co_argcount][:n]
    positions = frozenset(i for i, name in enumerate(parameters) if name in loaded)
    if code.co_flags & inspect.CO_VARARGS and code.co_varnames[code.co_argcount] in loaded:  # *xs: any number of inputs
        positions |= frozenset(range(len(parameters), 10_000))
    return positions


OPS: dict[str, Op] = {}


def op(form: type) -> Op:
    """Declare an operation; see `Op` for the form."""
    operation = Op(form)
    if form.__module__.startswith("tinytensor."):
        if operation.name in OPS:
            raise ValueError(f"op {operation.name} is declared twice")
        OPS[operation.name] = operation
    return operation
