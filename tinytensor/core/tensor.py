"""Tensor: an array that remembers how it was computed.

A tensor has two sides. One is an array, which kernels read and write. The other is a place on the tape: a node, if it
was computed from tensors whose gradient is wanted. Both may be shared: several tensors may look at one memory (views,
and what detach() returns), and a change in place moves a tensor to another place on the tape.

This file says what a tensor is and how it stands towards the tape. It knows no operation: what a tensor can do, `x + y`
or `x.sum()`, the files in `ops/` declare, and attach. How its values get out is in `interchange.py`.
"""

import itertools
import weakref
from collections.abc import Callable, Sequence

import numpy as np

from tinytensor.core import provided
from tinytensor.core.dispatch import move, state
from tinytensor.core.dtype_objects import NAMED, DType
from tinytensor.core.interchange import HookHandle, Interchange, Left
from tinytensor.core.meta import Meta

_new_object = object.__new__


class Version:
    """How often the memory that a tensor and its views share was changed in place.

    The tape keeps values for backward without copying them. Whoever reads one later compares the count with the one of
    back then: a difference means that the old values are gone.
    """

    # Of most results these are never asked for, so they stand in the class until there is a change.
    clock, reshaped = itertools.count(), -1  # the time of nodes (op.py); when .data got another shape than they saw
    count = 0  # all changes: what was kept before one of them must not be read any more
    tracked = 0  # those of them that are on the tape: a view that was taken before one of them is stale


class Tensor(Interchange):
    """A NumPy array with a gradient. Names, defaults and meaning are PyTorch's.

    The dtype is float32 (by default), float64, uint8, int32, int64, bool, or object (exact scalars, which proofs ask
    for). A tensor that the user made is a leaf: `node` is None, and backward() leaves its gradient in `.grad`. One that
    was computed from tensors that require grad has a node: its place on the tape.
    """

    # Slots: a tensor is made for each result, so it has to be small. The dictionary is made when it is first asked for.
    __slots__ = (
        "__dict__",  # what programs write on a tensor for themselves: t.label = "query"
        "__weakref__",
        "_base",  # of a view: the tensor whose memory it looks at
        "_data",  # the array, or a Meta
        "_grad",  # a tensor, None, or what a replay has left (see held_grad)
        "_hooks",  # of a leaf; a computed tensor's hooks are at its node
        "_requires_grad",  # behind the property requires_grad (interchange.py), which looks at what is assigned
        "_tracked",  # of a view: how many changes on the tape its base had seen when it took its place there, -1 if
        # it was changed itself since
        "_version",  # shared by all tensors on one memory
        "node",
    )

    _awaited_by: Sequence[Callable] = ()  # hooks of a leaf whose gradient is awaited (awaited.py); most have none

    @staticmethod
    def of(data: np.ndarray | Meta, requires_grad: bool = False, tensor: "Tensor | None" = None) -> "Tensor":
        """A tensor (this one, if it is given) on this array, taken as it is; Tensor(data) copies (constructors.py)."""
        tensor = _new_object(Tensor) if tensor is None else tensor
        tensor._data, tensor._requires_grad = data, requires_grad
        tensor._grad = tensor._hooks = tensor._base = tensor.node = None
        tensor._version = Version()
        return tensor

    def _seen_as(self, data: np.ndarray) -> "Tensor":
        """A view: a tensor on an array that looks at this one's memory; they share the count of its changes."""
        view = _new_object(Tensor)
        view._data, view._requires_grad = data, False
        view._grad = view._hooks = view.node = None
        view._base = self if self._base is None else self._base
        view._version, view._tracked = self._version, self._version.tracked
        return view

    # ------------------------------------------------------------------------------------------------------ what it is

    # Properties, not copies of the array's own: a change in place may put another array behind the tensor (`x.data =
    # y`), and what was copied at first would then tell of the old one.

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes, one for each dimension."""
        return self._data.shape

    @property
    def dtype(self) -> DType:
        """The kind of its numbers; the object of NumPy's for exact scalars."""
        dtype = self._data.dtype
        return NAMED.get(dtype, dtype)

    @property
    def ndim(self) -> int:
        """How many dimensions it has."""
        return self._data.ndim

    @property
    def is_meta(self) -> bool:
        """Is this a shape without values?"""
        return self._data.__class__ is Meta

    @property
    def is_leaf(self) -> bool:
        """Made by the user, not computed from tensors that require grad.

        backward() keeps gradients at leaves only: those in between would fill the memory (retain_grad() keeps one).
        """
        provided.follow_base(self)  # where a view stands now that its base has moved
        return self.node is None

    @property
    def grad(self) -> "Tensor | None":
        """The gradient that `backward()` has accumulated here.

        Two calls add up, as a sum of losses has the sum of gradients; `optimizer.zero_grad()` sets None in between.
        """
        notice_gradient(self, replaced=False)
        return self.held_grad()

    @grad.setter
    def grad(self, value: "Tensor | None"):
        if value is not None and value.shape != self.shape:
            raise ValueError(f"grad: a gradient of shape {value.shape} does not fit a tensor of shape {self.shape}")
        notice_gradient(self, replaced=True)
        self._grad = value

    def held_grad(self) -> "Tensor | None":
        """The gradient, as a tensor; where a replay has left it in its own memory, it is copied from there now."""
        if self._grad.__class__ is Left:
            self._grad = Tensor.of(self._grad._data.copy())
        return self._grad

    @property
    def data(self) -> "Tensor":
        """The same memory, without the tape and without a version check; assigning replaces the values.

        A change through `.data` is not noticed by whoever kept the old values for backward: that is what distinguishes
        it from detach(), and why detach() should be preferred.
        """
        notice(self)
        return Tensor.of(self._data)

    @data.setter
    def data(self, value: "Tensor"):
        if state.recording is not None and not state.recording.pool.owns(self._data) and value.shape == self.shape:
            notice(self)
            notice(value)
            # A replay will look for this tensor's values where they lie now, so they must stay there.
            move(value._data, self._data)
        else:
            self._version.reshaped = self._version.reshaped if value.shape == self.shape else next(Version.clock)
            self._data = value._data
        self._version.count += 1

    __hash__ = object.__hash__  # a == b is a tensor, so a tensor in a dictionary is known by its identity

    # ---------------------------------------------------------------------------------- the tape's view of it

    def detach(self) -> "Tensor":
        """The same values, sharing memory, outside the tape: a constant, as far as gradients are concerned."""
        notice(self)
        view = Tensor.of(self._data)
        view._version = self._version  # a change through this one must be seen by whoever kept the values
        return view

    def requires_grad_(self, requires_grad: bool = True) -> "Tensor":
        """Ask for (or stop asking for) the gradient of this tensor; returns it.

        Whole numbers have no gradient, for there is no small change of them. A computed tensor cannot stop asking: what
        it was computed from asks, and its place on the tape is between that and the result.
        """
        if requires_grad and self.dtype.kind not in "fO":
            raise RuntimeError(f"requires_grad_: only floating-point tensors have gradients, this one is {self.dtype}")
        if not requires_grad and self.node is not None:
            raise RuntimeError("requires_grad_(False): this tensor was computed from others; use detach()")
        self._requires_grad = requires_grad
        return self

    def register_hook(self, hook: Callable) -> HookHandle:
        """Call `hook(grad)` when this tensor's gradient is known; what it returns (if anything) replaces it.

        "Known" is when all that flows into it has arrived, so that a hook sees each gradient once and complete. A
        computed tensor's hooks are kept at its node: the tensor itself may be gone by then. Returns a handle that
        removes the hook.
        """
        provided.follow_base(self)  # as above
        if not self._requires_grad:
            raise RuntimeError("register_hook: this tensor does not require grad")
        holder = self if self.node is None else self.node
        holder._hooks = holder._hooks or []
        holder._hooks.append(hook)
        return HookHandle(holder._hooks, hook)

    def retain_grad(self) -> None:
        """Keep the gradient of this computed tensor in `.grad` too."""
        provided.follow_base(self)  # as above
        if self.node is not None:
            # A weak reference: the tensor holds the node, and if the node held the tensor, neither would ever go.
            self.node.retained = weakref.ref(self)

    def __deepcopy__(self, memo):
        if self.node is not None:
            raise RuntimeError("deepcopy: only tensors made by the user can be copied; .detach() this one first")
        # Without the subclass's __init__, which may want arguments that nobody has here.
        result = self.__class__.__new__(self.__class__)
        Tensor.of(self._data if self.is_meta else self._data.copy(), self.requires_grad, result)
        if self._grad is not None:
            result._grad = Tensor.of(self.held_grad()._data.copy())
        return result


def notice(tensor: Tensor) -> None:
    """Tell the recording, if there is one, that this tensor is about to be used.

    What a step finds at a tensor from outside, a gradient say, is a condition under which its recording may be
    replayed; so it is looked at before the step can change it.
    """
    if state.recording is not None:
        state.recording.notice(tensor)


def notice_gradient(tensor: Tensor, replaced: bool) -> None:
    """The same for a tensor whose gradient is about to be looked at, or replaced by another one or none."""
    if state.recording is not None:
        state.recording.notice_gradient(tensor, replaced)
