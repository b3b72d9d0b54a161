"""Function: a custom operation in PyTorch's form, with forward and backward as static methods.

    class Square(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return 2 * x * g

    y = Square.apply(x)

`apply` runs forward without the tape, and records one node for the whole: when its gradient has arrived, `backward`
runs. It is ordinary code on tensors, so `create_graph` can differentiate it again. (`tinytensor.op`, this engine's own
form, refers to values by name, has kernels, and can be proved.)
"""

import functools
import inspect
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

from tinytensor.core import late_bound
from tinytensor.core.batched_data import BatchedData
from tinytensor.core.dispatch import state
from tinytensor.core.modes import is_grad_enabled, no_grad
from tinytensor.core.op import Node
from tinytensor.core.tensor import Tensor
from tinytensor.ops.shape import cat


class Context:
    """`ctx`, by which forward passes values to backward: any attribute, but tensors by save_for_backward()."""

    def __init__(self, needs: tuple[bool, ...]):
        self.needs_input_grad = needs
        self.materialize_grads = True
        self._saved: list[tuple[Any, Any, int]] = []  # a tensor or a result's number; its version, the count at saving
        self._to_save: tuple[Tensor | None, ...] = ()
        self._constant: set[int] = set()
        self._dirty: set[int] = set()
        self._result: Callable[[int], Tensor] | None = None  # while backward runs: a result, as a tensor on the tape

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Keep tensors for backward(), which raises if one of them is changed in place before it runs."""
        self._to_save = tensors

    def mark_non_differentiable(self, *results: Tensor) -> None:
        """Declare that these results are constants."""
        self._constant = set(map(id, results))

    def mark_dirty(self, *inputs: Tensor) -> None:
        """Declare that these inputs were changed in place; forward must return them as results."""
        self._dirty = set(map(id, inputs))

    def set_materialize_grads(self, value: bool) -> None:
        """Choose what backward gets for an unused result: zeros (the default) or None."""
        self.materialize_grads = value

    @property
    def saved_tensors(self) -> tuple[Tensor | None, ...]:
        if self._saved is None:
            raise RuntimeError(
                "saved_tensors: they were freed by an earlier backward(); call that one with retain_graph=True"
            )
        for value, version, count in self._saved:
            if version is not None and version.count != count:
                raise RuntimeError(
                    f"saved_tensors: a tensor of shape {getattr(value, 'shape', ())} was changed in place after it was "
                    "saved, and its gradient needs the old values; change a clone() instead"
                )
        return tuple([self._result(value) if isinstance(value, int) else value for value, _, _ in self._saved])


class FunctionOp:
    """A Function in the place of a node's operation, with the attributes that readers of the tape expect of one."""

    view = backward = definition = None
    is_part = False
    rules, saved, outputs = {}, (), 1
    _saved_values = SimpleNamespace(inputs=(), shapes=(), saved=(), output=False)

    def __init__(self, function: type["Function"], wanted: list[int], n: int):
        self.function, self.wanted, self.name = function, wanted, f"{function.__name__}Backward"
        names = list(inspect.signature(function.forward).parameters)[function.setup_context is None :]
        self.params = tuple((names + [f"argument{i}" for i in range(len(names), n)])[:n])

    def saved_values_for(self, needs: tuple[bool, ...]) -> SimpleNamespace:
        return self._saved_values

    def __call__(self, *args) -> Tensor:
        """The results that have gradients: the only one, or all of them in a row."""
        results = self.function.apply(*args)
        if not isinstance(results, tuple):
            return results
        return results[0] if len(results) == 1 else cat([results[i].reshape(-1) for i in self.wanted])


class FunctionNode(Node):
    """The node of a Function on the tape. Several results are joined in it, as one row of numbers."""

    __slots__ = ("array", "arrived", "ctx", "function", "layout")

    def __init__(
        self, function: type["Function"], ctx: Context, args: tuple, y: Tensor, layout: list | None, wanted: list[int]
    ):
        super().__init__(FunctionOp(function, wanted, len(args)), args, y, ())
        self.function, self.ctx, self.array = function, ctx, y._data
        self.layout = layout  # of each of several results: its shape, its size, and its start (None for a constant)
        self.arrived: set[int] = set()  # the starts of the results whose gradients have arrived

    def free(self) -> None:
        """Drop the tensors that the user has saved; a Function that saved none can be walked again, like any node."""
        self.walked, self.array = True, None
        if self.ctx._saved:
            self.saved, self.edges, self.ctx._saved = None, (), None

    def result(self, i: int) -> Tensor:
        """A saved result, as a new tensor that depends on the arguments. (The returned tensor refers to this node.)"""
        y = Tensor.of(self.array)
        y.node, y._requires_grad = self, True
        return y if self.layout is None else self._part(y, *self.layout[i])

    def _part(self, row: Tensor, shape: tuple[int, ...], size: int, begin: int | None) -> Tensor | None:
        return None if begin is None else row[begin : begin + size].reshape(shape)

    def gradients(self, g: Tensor) -> list[Tensor | None]:
        """The gradients of the arguments, from the user's backward."""
        ctx, name = self.ctx, self.function.__name__
        gradients = [g]
        if self.layout is not None:
            used = [ctx.materialize_grads or begin in self.arrived for _, _, begin in self.layout]
            gradients = [self._part(g, *part) if u else None for part, u in zip(self.layout, used, strict=True)]
        ctx._result = self.result
        try:
            gradients = self.function.backward(ctx, *gradients)
        finally:
            ctx._result = None
        gradients = gradients if isinstance(gradients, tuple | list) else (gradients,)
        n = len(self.edges)
        if len(gradients) < n or any(more is not None for more in gradients[n:]):
            raise RuntimeError(f"{name}.backward returned {len(gradients)} gradients for {n} arguments of forward")
        return [
            None if edge is None else self._checked(r, edge, i)
            for i, (r, edge) in enumerate(zip(gradients, self.edges))
        ]

    def _checked(self, r, edge: Node | Tensor, i: int) -> Tensor | None:
        if r is None:
            return None
        name = f"{self.function.__name__}.backward"
        if not isinstance(r, Tensor):
            raise TypeError(f"{name}: expected a tensor or None for argument {i}, got {type(r).__name__}")
        front = len(r.shape) - len(edge.shape)
        if front < 0 or any(n not in (1, m) for n, m in zip(edge.shape, r.shape[front:])):
            raise RuntimeError(f"{name}: a gradient of shape {r.shape} for argument {i}, which has shape {edge.shape}")
        return r.clone() if isinstance(edge, Tensor) else r  # a leaf keeps it, and the user may have saved the same one


class Function:
    """An operation with `forward(ctx, *args)` and `backward(ctx, *gradients)`; call `apply(*args)`."""

    @staticmethod
    def forward(ctx: Context, *args):
        """Compute the results from the arguments; store on `ctx` the values that backward reads."""
        raise NotImplementedError("a Function needs a static method forward(ctx, ...)")

    @staticmethod
    def backward(ctx: Context, *gradients):
        """Compute the gradients of forward's arguments, each a tensor or None, from those of its results."""
        raise NotImplementedError("a Function needs a static method backward(ctx, ...)")

    setup_context: Callable | None = (
        None  # PyTorch's newer form: forward(*args), then setup_context(ctx, inputs, output)
    )

    def __init__(self):
        raise RuntimeError(f"{type(self).__name__} has no instances: call {type(self).__name__}.apply(...)")

    @classmethod
    def apply(cls, *args):
        """Run forward, and record it on the tape as one operation."""
        if state.reading is not None:
            state.reading.refuse("a Function has a gradient of its own: check() it by itself")
        if any(isinstance(a, Tensor) and isinstance(a._data, BatchedData) for a in args):  # inside vmap
            return late_bound.for_each_example(cls.apply, args, {}, cls.__name__)
        needs = tuple([isinstance(a, Tensor) and a._requires_grad for a in args])
        ctx = Context(needs)
        with no_grad():
            if cls.setup_context is None:
                results = cls.forward(ctx, *args)
            else:
                results = cls.forward(*args)
                cls.setup_context(ctx, args, results)
        alone = not isinstance(results, tuple)
        outputs = (results,) if alone else results
        if ctx._dirty - {id(y) for y in outputs}:
            raise RuntimeError(f"{cls.__name__}: forward must return each tensor that it has marked dirty")
        returned = tuple(_on_tape(cls, ctx, args, outputs)) if any(needs) and is_grad_enabled() else outputs
        return returned[0] if alone else returned


def _on_tape(function: type[Function], ctx: Context, args: tuple, results: tuple) -> list:
    """The results of forward, with one node behind all that have a gradient."""
    wanted = [
        i
        for i, y in enumerate(results)
        if isinstance(y, Tensor) and id(y) not in ctx._constant and y.dtype.kind in "fO"
    ]
    returned, row = list(results), None
    if wanted and len(results) == 1:
        row = results[0]
        if id(row) not in ctx._dirty:  # a new tensor: forward may have returned an argument, which stays as it is
            row = Tensor.of(row._data)
            row._version = results[0]._version
            seen = [a for a in args if isinstance(a, Tensor) and np.may_share_memory(a._data, row._data)]
            if seen:  # a view of an argument: a change of the argument must be noticed (views.py)
                row._base, row._tape_count = (
                    seen[0] if seen[0]._base is None else seen[0]._base,
                    row._version.tape_count,
                )
        elif row.node is None and row.requires_grad:
            raise RuntimeError(f"{function.__name__}: a leaf that requires grad was changed in place; change a clone()")
        row.node, row._requires_grad = FunctionNode(function, ctx, args, row, None, wanted), True
        returned = [row]
    elif wanted:
        layout, begin = [], 0
        for i, y in enumerate(results):
            size = y.numel() if i in wanted else 0
            layout.append((getattr(y, "shape", ()), size, begin if size else None))
            begin += size
        with no_grad():
            row = cat([results[i].reshape(-1) for i in wanted])
        row.node, row._requires_grad = FunctionNode(function, ctx, args, row, layout, wanted), True
        arrived = row.node.arrived
        for i in wanted:
            returned[i] = row.node.result(i) if layout[i][2] is not None else results[i]
            if layout[i][2] is not None:
                returned[i]._version = row._version
                returned[i].register_hook(lambda g, begin=layout[i][2]: arrived.add(begin))
    for t in ctx._to_save:
        number = next((i for i in wanted if results[i] is t and not any(t is a for a in args)), None)
        version = None if t is None else t._version if number is None else row._version
        ctx._saved.append((t if number is None else number, version, None if version is None else version.count))
    ctx._to_save = ()
    return returned


def once_differentiable(backward: Callable) -> Callable:
    """Mark a backward that leaves the tape (through NumPy, say): differentiating its result raises."""

    @functools.wraps(backward)
    def wrapped(ctx: Context, *gradients):
        with no_grad():
            results = backward(ctx, *gradients)
        if not is_grad_enabled():
            return results
        sources = [g for g in (*gradients, *ctx.saved_tensors) if isinstance(g, Tensor)]
        return tuple(
            Refused.apply(r, *sources) if isinstance(r, Tensor) else r
            for r in (results if isinstance(results, tuple) else (results,))
        )

    return wrapped


class Refused(Function):
    """The identity, whose backward raises: it marks results that can't be differentiated."""

    @staticmethod
    def forward(ctx, x, *sources):
        return x

    @staticmethod
    def backward(ctx, g):
        raise RuntimeError("backward: a Function marked with @once_differentiable was to be differentiated twice")


class _IsTensor(type):
    def __instancecheck__(cls, value) -> bool:
        return isinstance(value, Tensor)


class Variable(metaclass=_IsTensor):
    """PyTorch's old name for a tensor with a gradient: Variable(x) is a tensor on x's memory."""

    def __new__(cls, data: Tensor, requires_grad: bool = False) -> Tensor:
        return data.detach().requires_grad_() if requires_grad else data.detach()


__all__ = ["Function", "Variable", "once_differentiable"]
