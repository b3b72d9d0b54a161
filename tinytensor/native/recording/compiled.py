"""compile: record a training step once, replay it without making a tensor or a buffer.

The first call runs the function as it is while a recording notes every launch (recording.py). A later call under the
same conditions copies its arguments into the recorded buffers, runs the recording's native program, and hands out
copies of the results. If a condition has changed, the function is recorded anew.
"""

import copy
import functools
import gc
import sys
import types
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar, overload

import numpy as np

from tinytensor.autograd.accumulate_grad import accumulate_grad
from tinytensor.core import backend
from tinytensor.core.dispatch import state
from tinytensor.core.dtypes import get_default_dtype
from tinytensor.core.kernel import OBJECT, Kernel
from tinytensor.core.tensor import BorrowedGrad, Tensor
from tinytensor.native.platform.locks import ThreadLock
from tinytensor.native.recording.external import TensorSnapshot, are_unchanged
from tinytensor.native.recording.guards import PLAIN, Guards, ask
from tinytensor.native.recording.pool import lease_of
from tinytensor.native.recording.recording import Recording
from tinytensor.nn.module import Module

LIMIT = 64  # recordings kept for one function; more means that something varies at each call
MEMORY = 256 * 2**20  # bytes that the recordings of one function may keep; beyond, those that were used last stay
ALWAYS = 4  # recordings that stay however large they are: those of training, of a last batch, and of evaluation
TRIES = 3  # runs that change their own conditions before the function is no longer recorded under these arguments
MODES = (None, "default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")


F = TypeVar("F", bound=Callable[..., Any])


@overload
def compile(
    model: F,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: str | Callable[..., Any] = "inductor",
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    disable: bool = False,
) -> F: ...
@overload
def compile(
    model: None = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: str | Callable[..., Any] = "inductor",
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    disable: bool = False,
) -> Callable[[F], F]: ...
def compile(
    model: Callable | None = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: str | Callable = "inductor",
    mode: str | None = None,
    options: dict | None = None,
    disable: bool = False,
) -> Callable:
    """Make `model(*args)`, a training step say, run from a recording after its first call.

    `model` is a function, a method or a Module; it is left out in `@compile()`. A compiled Module is a Module of the
    same class that shares parameters, attributes and mode with the original. Its state_dict() has the original's names
    (PyTorch puts `_orig_mod.` before them; code that strips this prefix still works).

    The function takes and returns tensors (and tuples, lists and dicts of them). The conditions of a replay are the
    other arguments, shapes and dtypes, train() and eval(), no_grad(), which gradients exist, and every value that the
    function's own code and the user's code that it calls can read: closures, globals, attributes, entries of lists and
    dictionaries. Under new conditions it is recorded anew. `tensor(array)` reads a NumPy array anew at each replay.

    Where a replay could not follow, the function runs eagerly, and one warning says why; with `fullgraph` it raises.
    This holds for .item(), printing and control flow by a tensor's value; a result whose graph is still alive (whose
    backward() comes outside) or that is no tensor; a tensor of the step kept in a list or an attribute; random numbers
    of Python and NumPy; values taken from an iterator; and values that the step both reads and changes, such as a
    counter. An argument that shares memory with another tensor of the step raises if one of them is changed in place.

    A replay does not see changes of these, and uses the values of the recording: the clock, files and the environment;
    values in a NumPy array that become Python numbers (`float(array[0])`), and entries of a container that has more
    than 1,000; attributes that are named only at run time (`getattr(x, "a" + "b")`) or not at all
    (`vars(x).values()`); values behind a `ContextVar` or a weak reference, and the properties of a metaclass; a
    function's `__defaults__`, `__kwdefaults__` and `__code__`; and the values that the code of other libraries reads.
    Effects of the function in Python beyond tensors (a printed line, say) happen only while recording.

    A recording keeps the memory of its run. If those of one function have more than 256 MiB together, the ones that
    were used longest ago are dropped, except for the last four; `options={"recording_memory": bytes}` sets another
    bound. After 64 recordings, new conditions run eagerly.

    `dynamic`, `backend`, `mode` and other `options` select among PyTorch's compilers and have no effect here; `disable`
    returns the function as it is.
    """
    if mode not in MODES:
        raise ValueError(f"compile: unknown mode {mode!r}; expected one of {', '.join(map(repr, MODES))}")
    if model is None:
        return partial(compile, fullgraph=fullgraph, mode=mode, options=options, disable=disable)
    if not callable(model):
        raise TypeError(f"compile: expected a function or a Module, got {type(model).__name__}")
    memory = (options or {}).get("recording_memory", MEMORY)
    if not isinstance(memory, int) or memory < 0:
        raise ValueError(f"compile: options has recording_memory {memory!r}; expected a number of bytes, 0 or more")
    if disable:
        return model
    if isinstance(model, Module):
        return _compiled_module(model, fullgraph, memory)
    assigned = [name for name in functools.WRAPPER_ASSIGNMENTS if ask(model, name) is not None]
    return functools.update_wrapper(CompiledFunction(model, fullgraph, memory), model, assigned, updated=())


def _compiled_module(module: Module, fullgraph: bool, memory: int) -> Module:
    """A module that shares the attributes of another one, and runs from recordings when it is called."""
    call = CompiledFunction(module, fullgraph, memory)

    def __call__(self, *args, **kwargs):
        return call(*args, **kwargs)

    def __deepcopy__(self, memo):
        return _compiled_module(copy.deepcopy(module, memo), fullgraph, memory)

    def __reduce__(self):
        return _compiled_module, (module, fullgraph, memory)

    body = {
        "__call__": __call__,
        "__deepcopy__": __deepcopy__,
        "__reduce__": __reduce__,
        "_orig_mod": module,
        "__module__": type(module).__module__,
    }
    cls = type(type(module).__name__, (type(module),), body)
    twin = cls.__new__(cls)
    twin.__dict__ = module.__dict__  # one dictionary for both: an attribute that is set on either appears on the other
    return twin


class CompiledFunction:
    """A function with its recordings, one for each set of conditions that it has met."""

    def __init__(self, function: Callable, fullgraph: bool = False, memory: int = MEMORY):
        self.function, self.fullgraph, self.memory = function, fullgraph, memory
        self.name = ask(function, "__name__", type(function).__name__)
        self.recordings: dict[tuple, list[CapturedStep]] = {}
        self.made = self.replays = 0  # recordings, those included that were dropped; and calls that were replays
        self.dropped: set[tuple] = set()  # the keys of recordings that were dropped
        self.tries: dict[tuple, int] = {}  # runs that were not kept; at TRIES the function is no longer recorded
        self.warned = False
        self.one_at_a_time = ThreadLock(reentrant=True)  # its buffers serve one call at a time

    def __get__(self, instance, owner=None):
        return self if instance is None else types.MethodType(self, instance)

    def __reduce__(self):
        """A function that `@compile` decorates is pickled by its name, any other with the function; no recordings."""
        held, name = sys.modules.get(ask(self.function, "__module__")), ask(self.function, "__qualname__", "")
        for part in name.split("."):
            held = getattr(held, part, None)
        options = {"recording_memory": self.memory}
        return name if held is self else (partial(compile, fullgraph=self.fullgraph, options=options), (self.function,))

    def __call__(self, *args, **kwargs):
        # Within another recording the call is a part of that one; and a debugger wants Python's code at each call.
        if state.recording is not None or state.anomaly or not backend.current.compiles:
            return self.function(*args, **kwargs)
        tensors: list[Tensor] = []
        try:
            key = _key(args, kwargs, tensors)
        except TypeError as error:
            self._eager_because(str(error), TypeError)
            return self.function(*args, **kwargs)
        if self.tries and self.tries.get(key, 0) >= TRIES:
            return self.function(*args, **kwargs)
        for t in tensors:
            if t.node is not None or t.is_meta or t.dtype is OBJECT:
                return self.function(*args, **kwargs)  # part of a larger graph, or without numbers: nothing to replay
        with self.one_at_a_time.lock:
            # The key holds the conditions that can be hashed, so a dictionary finds it. The other conditions are
            # checked for each recording with this key; mostly there is one.
            for recorded in self.recordings.setdefault(key, []):
                if recorded.fits(tensors):
                    recorded.used = self.replays = self.replays + 1
                    return recorded.replay(tensors)
            kept = sum(map(len, self.recordings.values()))
            # A recording that was dropped is made again, unless too few calls are replays for this to pay.
            can_rerecord = key in self.dropped and self.replays >= self.made - LIMIT
            if kept < LIMIT and (self.made < LIMIT or can_rerecord):
                return self._record(key, tensors, args, kwargs)
        dropped = self.made - kept
        bound = f" ({dropped} of them were dropped, beyond {self.memory:,} bytes: options={{'recording_memory': ...}})"
        self._eager_because(
            f"it was recorded {LIMIT} times, each time under other conditions{bound if dropped else ''}; pass varying "
            "values as tensors, or call the function without compile"
        )
        return self.function(*args, **kwargs)

    def repeat(self, times: int) -> None:
        """Call the function `times` times, without arguments, and drop its results.

        Each call reads the values that the call before it has written to tensors from outside, by copy_() say. The
        conditions are checked before the first replay only. A recording without host calls runs as one native call.
        """
        with self.one_at_a_time.lock:
            while times > 0:
                key = _key((), {}, [])
                fitting = [r for r in self.recordings.get(key, ()) if r.fits([])]
                if fitting and state.recording is None and not state.anomaly:
                    fitting[0].repeat(times)
                    return
                self()
                times -= 1

    def _record(self, key: tuple, tensors: list[Tensor], args: tuple, kwargs: dict):
        """The first call under new conditions: an ordinary run, which is kept if a replay could follow it."""
        # The values that it may read are noted before it runs: afterwards its own changes would be among them.
        recorded = CapturedStep(Run(self.fullgraph, Guards(self.function, args, _objects((args, kwargs)))))
        result = recorded.record(self.function, args, kwargs, tensors)
        if recorded.recording.problem is not None:
            self.tries[key] = TRIES
            self._eager_because(recorded.recording.problem)
        elif recorded.own_change is not None:  # perhaps only a first call, which sets up values for later calls
            self.tries[key] = self.tries.get(key, 0) + 1
            if self.tries[key] == TRIES:
                self._eager_because(
                    f"the step itself changes a value that it reads ({recorded.own_change}), and a replay would not; "
                    "keep it in a tensor, or change it outside"
                )
        else:
            self.recordings[key].append(recorded)
            self.made += 1
            recorded.used = self.replays
            self._drop_oldest(recorded)
        return result

    def _drop_oldest(self, newest: "CapturedStep") -> None:
        """Drop recordings, those that were used longest ago first, while they keep too much memory together."""
        kept = sorted((r for same in self.recordings.values() for r in same if r is not newest), key=lambda r: r.used)
        size = newest.size + sum([r.size for r in kept])
        for old in kept[: max(0, len(kept) + 1 - ALWAYS)]:
            if size <= self.memory:
                return
            size -= old.size
            key = next(key for key, same in self.recordings.items() if old in same)
            self.recordings[key].remove(old)
            self.dropped.add(key)

    def _eager_because(self, why: str, error_type: type[Exception] = RuntimeError) -> None:
        """Warn once why the function runs without a recording; with `fullgraph`, raise."""
        why = why.removeprefix("compile: ")
        if self.fullgraph:
            raise error_type(f"compile: {self.name} can't be recorded whole: {why}")
        if not self.warned:
            self.warned = True
            warnings.warn(f"compile: {self.name} runs without a recording: {why}", stacklevel=4)


class Run(Recording):
    """A recording that also notes why no replay could follow the run, if the run turns out so."""

    def __init__(self, whole: bool, function_guards: Guards):
        super().__init__()
        self.whole, self.function_guards = whole, function_guards
        self.problem: str | None = None

    def refuse(self, why: str) -> None:
        """Note why no replay could follow. The run goes on as an ordinary one; with `fullgraph` this raises."""
        if self.whole:
            raise RuntimeError(why)
        self.problem = self.problem or why

    def arrays(self) -> list[np.ndarray]:
        """Every array among the arguments of launches, host calls and checks."""
        arrays_used = []
        for what, how in self.noted:
            args = how.args if isinstance(what, Kernel) else (how,) if what is None else how
            for group in args:
                arrays_used += [a for a in (group if isinstance(group, list) else [group]) if isinstance(a, np.ndarray)]
        return arrays_used


class CapturedStep:
    """A function recorded under one set of conditions: its recording, and how values enter and leave it."""

    def __init__(self, recording: Run):
        self.recording = recording
        self.own_change: str | None = None  # the name of a condition that the function itself changed
        self.inputs: list[np.ndarray | None] = []  # a buffer for each argument that is copied in
        self.outside: dict[int, Tensor] = {}  # the caller's tensor for a tensor of the recording, by id of the latter
        self.recomputed: set[int] = set()  # ids of the results that are copied for the caller
        self.used = 0  # the number of the function's replay that this recording made last

    @property
    def size(self) -> int:
        """The bytes of memory that it keeps."""
        return sum([memory.nbytes for memory in self.recording.pool.all])

    # --- Recording

    def record(self, function: Callable, args, kwargs, tensors: list[Tensor]):
        """Run the function while its launches are noted, on stand-ins for its arguments."""
        stand_ins = {}
        for t in tensors:
            if t._requires_grad:  # a parameter is used in place, since its gradient belongs to it
                self.inputs.append(None)
            else:  # a program contains addresses, and the next call passes another tensor at another address
                buffer = self.recording.pool.buffer(t.shape, t.dtype)
                buffer[...] = t._data
                self.inputs.append(buffer)
                stand_ins[id(t)] = Tensor.of(buffer)
        self.arguments = [stand_ins.get(id(t), t) for t in tensors]
        state.recording = self.recording
        result = None
        try:
            result = function(*_replaced(args, stand_ins), **_replaced(kwargs, stand_ins))
        finally:  # changes before an exception stay: gradients and arguments are the same as without compile
            state.recording = None
            self.recording.close()
            self.result = result
            self._note_changes()
            self._copy_arguments_back(tensors)
        self._check_guards()
        copies = self._returned_value(result, tensors)
        self.recomputed = {id(t) for t in _tensors(result) if self._is_recomputed(t)}
        self._check_arguments(tensors)
        self._check_no_tensor_is_kept()
        self.outside.clear()
        if self.recording.problem is None and self.own_change is None:
            return copies
        # No replay will overwrite the memory of this run, so its results are returned as they are, with their graphs.
        return _replaced(result, {id(mine): t for mine, t in zip(self.arguments, tensors, strict=True)})

    def _note_changes(self) -> None:
        """List the tensors and gradients that the run changed: a replay changes the same ones."""
        self.seen: list[TensorSnapshot] = list(self.recording.seen.values())
        # A replay writes to memory directly, and no tensor notices. So it increments the versions itself, by which
        # backward() detects that a value it needs has been overwritten.
        self.changed = [s.tensor for s in self.seen if s.tensor._version.count != s.version]
        self.changed_inputs = [
            buffer is not None and t._version.count > 0 for t, buffer in zip(self.arguments, self.inputs, strict=True)
        ]
        # gradients that existed before: (the tensor, the stand-in of its gradient, is that one read or written)
        used = [*self.recording.arrays(), *(t._data for t in _tensors(self.result))]
        self.entering = [
            (s.tensor, s.stand_in, any(np.may_share_memory(s.stand_in._data, a) for a in used))
            for s in self.seen
            if s.stand_in is not None
        ]
        # gradients that exist now: (the tensor, the gradient that the run left, the one that a later replay leaves)
        self.leaving = []
        for s in self.seen:
            left = s.tensor.held_grad()
            # A gradient that the run made lies in the recording's memory, which the next replay overwrites. A
            # BorrowedGrad copies it when it is read, mostly never. A gradient that existed before and only changed
            # stays as it is.
            new = left is not None and self.recording.pool.owns(left._data)
            if new and left.node is not None and not left.node.walked:
                new = False
                self.recording.refuse("a gradient that the step leaves has a graph, but a replay makes none")
            elif new:
                left.node, left._requires_grad = None, False
            self.leaving.append((s.tensor, left, BorrowedGrad(left._data) if new else None))
        self._set_gradients([s.grad for s in self.seen if s.stand_in is not None])

    def _check_guards(self) -> None:
        """Refuse values that the run read and a replay could not check again."""
        function_guards = self.recording.function_guards
        if function_guards.iterators:
            self.recording.refuse(f"the step may take values from an iterator ({function_guards.iterators[0]})")
        if function_guards.uses_other_generators():
            self.recording.refuse(
                "the step drew random numbers from Python's or NumPy's generators, and a replay would repeat them; use "
                "tinytensor's (randn, randint), or draw outside"
            )
        # If the step sets a value that it reads, a replay (which runs no Python) would go on with the old value.
        self.own_change = function_guards.changed()
        self.recording.guards = [  # without the guards of modules that `function_guards` checks already
            guard
            for guard in self.recording.guards
            if not (isinstance(guard[0].__self__, Module) and id(guard[0].__self__) in function_guards.visited)
        ]

    def _check_arguments(self, tensors: list[Tensor]) -> None:
        """Refuse effects that would reach only the copy of an argument, and not the original."""
        # If an argument shares memory with another tensor, a replay has two pieces of memory for it: a write to the one
        # does not reach the other. That matters only if the step writes to one of them.
        changed = set(map(id, self.changed))
        passed = {id(t) for t, buffer in zip(tensors, self.inputs, strict=True) if buffer is None}
        outside = [(s.tensor._data, id(s.tensor) in changed) for s in self.seen if id(s.tensor) not in passed]
        inside = list(zip(tensors, self.arguments, self.inputs, self.changed_inputs, strict=True))
        for number, (t, stand_in, buffer, changed) in enumerate(inside):
            if buffer is None:
                continue
            if stand_in.requires_grad or stand_in._grad is not None:
                self.recording.refuse(
                    "compile: the step asked for the gradient of its argument, which is a copy here; write "
                    "x = x.detach().requires_grad_() and return x.grad"
                )
                t.requires_grad, t._grad, stand_in._grad = stand_in.requires_grad, stand_in._grad, None
                if stand_in.requires_grad:  # a graph that is still alive leads to the copy
                    stand_in.register_hook(partial(accumulate_grad(create_graph=False), t, owned=False))
            others = outside + [(o._data, c) for o, _, _, c in inside[:number]]
            if any((changed or c) and np.may_share_memory(t._data, other) for other, c in others):
                raise RuntimeError(
                    "compile: an argument shares memory with another tensor that the step uses, and one of them is "
                    "changed in place; pass one of them, or a clone()"
                )

    def _check_no_tensor_is_kept(self) -> None:
        """Refuse a tensor that outlives the step and is not a result: a replay would not make it anew."""
        # An array holds each buffer that is still leased. Results, arguments and gradients are known; any other array
        # was stored by the user's code, and each replay would silently change its values.
        left = [left for _, left, _ in self.leaving if left is not None]
        kept = {id(lease_of(t._data)) for t in [*_tensors(self.result), *self.arguments, *left]}
        for attempt in range(2):
            if all(id(lease) in kept for lease in self.recording.pool.leases):
                return
            if attempt == 0:
                gc.collect()  # hooks may refer to their tensors in a circle
        shapes = sorted(
            {lease.__array_interface__["shape"] for lease in self.recording.pool.leases if id(lease) not in kept}
        )
        self.recording.refuse(
            "compile: the step keeps tensors of its own beyond its end (in a list, an attribute, a graph), of shapes "
            f"{', '.join(map(str, shapes[:5]))}, but a replay would not make them anew; return them from the step, or "
            "write into a tensor from outside with copy_()"
        )

    # --- Replays

    def fits(self, tensors: list[Tensor]) -> bool:
        """Can a call with these arguments be a replay: do all conditions of the recording hold?"""
        for now, then, buffer in zip(tensors, self.arguments, self.inputs):
            if buffer is None and now is not then:  # another parameter of the same shape has another address
                return False
        return are_unchanged(self.seen) and self.recording.holds() and self.recording.function_guards.hold()

    def replay(self, tensors: list[Tensor]):
        """Run the recording on new values of the arguments."""
        # Gradients that come in are copied first, before any launch writes over them.
        incoming = [self._incoming_gradient(*entry) for entry in self.entering]
        self.recording.pool.poison()
        for buffer, t in zip(self.inputs, tensors):
            if buffer is not None:
                np.copyto(buffer, t._data)
        self.recording.progress[0] = -1
        try:
            self.recording.replay()
        finally:  # an index out of range stops a replay half-way; a schedule without a further step stops it at the end
            try:
                self._note_replay(tensors, incoming)
            except KeyboardInterrupt:
                self._note_replay(tensors, incoming)
                raise
        copies = self._returned_value(self.result, tensors)
        self.outside.clear()
        return copies

    def _note_replay(self, tensors: list[Tensor], incoming: list) -> None:
        """Give the caller's tensors what the native code has written; a second time changes nothing."""
        for tensor in self.changed:
            tensor._version.count += 1
        self._copy_arguments_back(tensors)
        if self.recording.progress[0] == len(self.recording.noted):
            self._set_gradients(incoming)
        else:
            self._forget_gradients()

    def repeat(self, times: int) -> None:
        """Run a recording that has no arguments `times` times."""
        parts = self.recording.parts
        program = parts[0][1] if len(parts) == 1 and not self.recording.early else None
        if isinstance(program, backend.current.Program) and state.profile is None and not self.entering:
            program.times = times
            try:
                self.replay([])
            finally:
                program.times = 1
        else:
            for _ in range(times):
                self.replay([])

    def _incoming_gradient(self, tensor: Tensor, stand_in: Tensor, used: bool) -> Tensor | None:
        """The gradient with which a tensor comes into a replay, copied to its stand-in if the recording uses that."""
        if not used:
            return tensor._grad  # the step drops it: if a replay left it there, it is not made into a tensor
        grad = tensor.held_grad()
        np.copyto(stand_in._data, grad._data)
        return grad

    def _set_gradients(self, incoming: list) -> None:
        """Set the gradients that the run leaves: those that came in, changed perhaps, or new ones."""
        if self.entering:
            for (_, stand_in, used), grad in zip(self.entering, incoming, strict=True):
                if used:
                    np.copyto(grad._data, stand_in._data)
                    grad._version.count += stand_in._version.count > 0
                self.outside[id(stand_in)] = grad
        for tensor, left, later in self.leaving:
            if later is not None:
                tensor._grad = later
            elif left is not None:
                tensor._grad = self.outside.get(id(left), left)
            else:
                tensor._grad = None

    def _forget_gradients(self) -> None:
        """After a replay that stopped half-way: drop the gradients in its memory, which is partly overwritten."""
        for tensor, _, later in self.leaving:
            if tensor._grad is later:
                tensor._grad = None

    def _copy_arguments_back(self, tensors: list[Tensor]) -> None:
        """Copy the changes that the step made to its arguments in place to the caller's tensors."""
        for changed, buffer, t in zip(self.changed_inputs, self.inputs, tensors):
            if changed:
                np.copyto(t._data, buffer)
                t._version.count += 1

    def _is_recomputed(self, result: Tensor) -> bool:
        """Does each replay compute this result in its own memory, so that the caller always gets a copy?"""
        others = [*self.arguments, *(left for _, left, _ in self.leaving)]
        return (
            all(result is not other for other in others)
            and id(result) not in self.outside
            and (result.node is None or result.node.walked)
            and self.recording.pool.owns(result._data)
        )

    def _returned_value(self, value, tensors: list[Tensor]):
        if isinstance(value, Tensor):
            if id(value) in self.recomputed:  # computed once, when the function was recorded
                return Tensor.of(value._data.copy())
            for mine, theirs in zip(self.arguments, tensors, strict=True):
                if value is mine:
                    return theirs
            for tensor, left, _ in self.leaving:
                if value is left:
                    return tensor.held_grad()
            if id(value) in self.outside:
                return self.outside[id(value)]
            if value.node is not None and not value.node.walked:
                self.recording.refuse(
                    "compile: the step returned a tensor whose graph is still alive, but a replay makes no graph; call "
                    "backward() inside the step, or return tensor.detach()"
                )
                return value
            if not self.recording.pool.owns(value._data):
                return value  # a tensor from outside, a parameter say
            return Tensor.of(value._data.copy())  # the caller may keep it, and the next replay overwrites the buffer
        if isinstance(value, tuple | list):
            return _like(value, [self._returned_value(v, tensors) for v in value])
        if isinstance(value, dict):
            return {k: self._returned_value(v, tensors) for k, v in value.items()}
        if value is None:
            return None
        self.recording.refuse(
            f"compile: the step returned {value!r} ({type(value).__name__}), which a replay could not compute anew; "
            "return tensors"
        )
        return value


def _key(args: tuple, kwargs: dict, tensors: list[Tensor]) -> tuple:
    """The conditions that can be hashed, as the key of a dictionary; collects the tensors."""
    return _structure(args, tensors), _structure(kwargs, tensors) if kwargs else None, state.grad, get_default_dtype()


def _structure(value, tensors: list[Tensor]):
    """The arguments without the values of their tensors, in a form that can be compared; collects the tensors."""
    if isinstance(value, Tensor):
        for number, t in enumerate(tensors):
            if t is value:  # f(x, x) is not f(x, y), where a change of one in place would not reach the other
                return "the same tensor as", number
        tensors.append(value)
        data = value._data
        return "tensor", data.shape, data.dtype, value._requires_grad
    if isinstance(value, (tuple, list)):  # quicker than with |
        return type(value), tuple([_structure(v, tensors) for v in value])
    if isinstance(value, dict):
        return "dict", tuple([(k, _structure(v, tensors)) for k, v in value.items()])
    if isinstance(value, np.ndarray):
        raise TypeError("compile: a NumPy array as argument would be frozen at its first value; pass tensor(array)")
    try:
        hash(value)
    except TypeError:
        raise TypeError(
            f"compile: an argument of type {type(value).__name__} can't be a condition; pass tensors"
        ) from None
    return type(value), repr(value) if isinstance(value, float) else value  # 0.0 == -0.0, but they are two arguments


def _tensors(value) -> list[Tensor]:
    """All tensors in nested tuples, lists and dicts."""
    if isinstance(value, tuple | list):
        return [t for v in value for t in _tensors(v)]
    if isinstance(value, dict):
        return _tensors(list(value.values()))
    return [value] if isinstance(value, Tensor) else []


def _objects(value) -> list:
    """The arguments that the function can read more from than one value: functions, modules, `self`."""
    if isinstance(value, tuple | list):
        return [o for v in value for o in _objects(v)]
    if isinstance(value, dict):
        return _objects(list(value.values()))
    return [] if isinstance(value, (Tensor, *PLAIN)) else [value]


def _replaced(value, stand_ins: dict):
    if isinstance(value, Tensor):
        return stand_ins.get(id(value), value)
    if isinstance(value, tuple | list):
        return _like(value, [_replaced(v, stand_ins) for v in value])
    if isinstance(value, dict):
        return {k: _replaced(v, stand_ins) for k, v in value.items()}
    return value


def _like(value: tuple | list, elements: list):
    """A tuple or list of the same kind (named tuples take their elements one by one)."""
    return value._make(elements) if hasattr(value, "_make") else type(value)(elements)
