"""Tensor: an array that remembers how it was computed.

A tensor has two sides. One is an array, which kernels read and write. The other is a place on the tape: a node, if the
tensor was computed from tensors whose gradient is wanted. Neither is fixed: several tensors may share one memory
(views, and the results of detach()), and a change in place moves a tensor to another place on the tape.

This file holds a tensor's state and its relation to the tape, but no operations: the files in `ops/` declare those,
`x + y` or `x.sum()`, and attach them here. Its dtype, device and strides in PyTorch's words, and the ways to get its
values out, are in `tensor_values.py`.
"""

import itertools
from collections.abc import Callable, Sequence

import numpy as np

from tinytensor.core.dispatch import move
from tinytensor.core.meta import Meta
from tinytensor.core.recorder import is_from_outside, notice, notice_gradient

_new_object = object.__new__
generations = itertools.count()  # the ages of nodes (graph.py)


class VersionCounter:
    """The version counter of a storage, the memory that a tensor and its views share: its changes in place.

    The tape keeps values for backward without copying them, and notes the count. Backward compares the count again
    before it reads a value: a difference means that the old values are gone.
    """

    # Class-level defaults, since most results are never changed; an instance sets its own at the first change.
    count = 0  # all changes: a value that was saved before a change must not be read after it
    tape_count = 0  # the changes that are on the tape: a view that was taken before one of them is stale
    reshaped = -1  # the generation of the last node before .data got another shape


class BorrowedGrad:
    """A gradient that a replay has left in the recording's own memory, until it is read.

    The next replay will write over that memory, and most gradients are never read from outside the step. So the first
    read of `tensor.grad` makes a copy, and replays make none.
    """

    __slots__ = ("_data",)  # as in a tensor

    def __init__(self, array: np.ndarray):
        self._data = array


class Tensor:
    """A NumPy array with a gradient. Names, defaults and meaning are PyTorch's.

    The dtype is float32 (by default), float64, uint8, int32, int64, bool, or object (exact scalars, which proofs use).
    A tensor that the user made is a leaf: `node` is None, and backward() leaves its gradient in `.grad`. A tensor that
    was computed from tensors that require grad has a node: its place on the tape.
    """

    # Slots: a tensor is made for each result, so it has to be small. Python makes the dictionary at its first use.
    __slots__ = (
        "__dict__",  # attributes that programs add for themselves: t.label = "query"
        "__weakref__",
        "_base",  # of a view: the tensor whose memory it shares
        "_data",  # the array, or a Meta
        "_grad",  # a tensor, None, or a BorrowedGrad, which a replay leaves (see held_grad)
        "_hooks",  # of a leaf; a computed tensor's hooks are at its node
        "_requires_grad",  # behind the property requires_grad, which checks assigned values
        "_tape_count",  # of a view: `_version.tape_count` when it took its place on the tape; -1 once it was changed
        "_version",  # shared by all tensors on one memory
        "node",
    )

    _post_accumulate_grad_hooks: Sequence[Callable] = ()  # of a leaf (post_accumulate_hooks.py)

    @staticmethod
    def of(data: np.ndarray | Meta, requires_grad: bool = False, tensor: "Tensor | None" = None) -> "Tensor":
        """A tensor (`tensor`, if it is given) on this very array; Tensor(data) copies (constructors.py)."""
        tensor = _new_object(Tensor) if tensor is None else tensor
        tensor._data, tensor._requires_grad = data, requires_grad
        tensor._grad = tensor._hooks = tensor._base = tensor.node = None
        tensor._version = VersionCounter()
        return tensor

    def _make_view(self, data: np.ndarray) -> "Tensor":
        """A view: a tensor on an array that shares this tensor's memory, and with it the count of its changes."""
        view = _new_object(Tensor)
        view._data, view._requires_grad = data, False
        view._grad = view._hooks = view.node = None
        view._base = self if self._base is None else self._base
        view._version, view._tape_count = self._version, self._version.tape_count
        return view

    # ------------------------------------------------------------------------------------------------------ properties

    # Properties, since a change in place may put another array behind the tensor (`x.data = y`).

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes, one for each dimension."""
        return self._data.shape

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return self._data.ndim

    @property
    def requires_grad(self) -> bool:
        """Is the gradient of this tensor wanted? Assigning sets it, as requires_grad_() does."""
        return self._requires_grad or (self._is_stale_view and self._base._requires_grad)

    @requires_grad.setter
    def requires_grad(self, requires_grad: bool):
        self.requires_grad_(requires_grad)

    @property
    def grad_fn(self):
        """PyTorch's name for the node."""
        return self.node

    @property
    def is_meta(self) -> bool:
        """Is this a shape without values?"""
        return self._data.__class__ is Meta

    @property
    def is_leaf(self) -> bool:
        """Made by the user, not computed from tensors that require grad.

        backward() keeps the gradients of leaves only: all others would fill the memory (retain_grad() keeps one).
        """
        return self.node is None and not (self._is_stale_view and self._base._requires_grad)

    @property
    def _is_stale_view(self) -> bool:
        """Was the base of this view changed on the tape since the view got its node (views.py)?"""
        return self._base is not None and self._tape_count != self._version.tape_count

    @property
    def grad(self) -> "Tensor | None":
        """The gradient that `backward()` has accumulated here.

        Two calls add up, as a sum of losses has the sum of gradients; `optimizer.zero_grad()` sets None in between.
        """
        notice_gradient(self, replaced=False)
        return self.held_grad()

    @grad.setter
    def grad(self, value: "Tensor | None"):
        if value is not None and not isinstance(value, Tensor):
            raise TypeError(f"grad: expected a tensor or None, got {type(value).__name__}")
        if value is not None and value.shape != self.shape:
            raise ValueError(f"grad: a gradient of shape {value.shape} does not fit a tensor of shape {self.shape}")
        notice_gradient(self, replaced=True)
        self._grad = value

    def held_grad(self) -> "Tensor | None":
        """The gradient, as a tensor; if a replay has left it in the recording's memory, it is copied from there now."""
        if self._grad.__class__ is BorrowedGrad:
            self._grad = Tensor.of(self._grad._data.copy())
        return self._grad

    @property
    def data(self) -> "Tensor":
        """The same memory, without the tape and without a version check; assigning replaces the values.

        Backward does not notice that a change through `.data` has overwritten values that it needs. detach() differs
        in this, and should be preferred.
        """
        notice(self)
        return Tensor.of(self._data)

    @data.setter
    def data(self, value: "Tensor"):
        if not isinstance(value, Tensor):
            raise TypeError(f"data: expected a tensor, got {type(value).__name__}")
        if is_from_outside(self) and value.shape == self.shape:
            notice(self)
            notice(value)
            # A replay will read this tensor's values at their present address, so they must stay there.
            move(value._data, self._data)
        else:
            self._version.reshaped = self._version.reshaped if value.shape == self.shape else next(generations)
            self._data = value._data
        self._version.count += 1

    __hash__ = object.__hash__  # a == b is a tensor, so a tensor in a dictionary is known by its identity

    # ------------------------------------------------------------------------------------------------ the tape

    def detach(self) -> "Tensor":
        """The same values, sharing memory, outside the tape: a constant, as far as gradients are concerned."""
        notice(self)
        view = Tensor.of(self._data)
        view._version = self._version  # so that backward sees changes that are made through this view
        return view

    def detach_(self):
        """Take this tensor itself off the tape: from here on it is a constant."""
        if self._base is not None and self._base.requires_grad:
            raise RuntimeError("detach_: a view can't leave the tape on which its base is; use detach()")
        self.node, self._requires_grad = None, False
        return self

    def requires_grad_(self, requires_grad: bool = True) -> "Tensor":
        """Ask for (or stop asking for) the gradient of this tensor; returns it.

        Whole numbers have no gradient, since they have no small changes. A computed tensor cannot stop asking: the
        gradients of its arguments are wanted, and pass through its place on the tape.
        """
        if not isinstance(requires_grad, bool):
            raise TypeError(f"requires_grad_: expected True or False, got {requires_grad!r}")
        if requires_grad and self.dtype.kind not in "fO":
            raise RuntimeError(f"requires_grad_: only floating-point tensors have gradients, this one is {self.dtype}")
        if not requires_grad and self.node is not None:
            raise RuntimeError("requires_grad_(False): this tensor was computed from others; use detach()")
        self._requires_grad = requires_grad
        return self
