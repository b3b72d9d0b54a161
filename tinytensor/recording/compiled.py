"""compile: record a training step once, replay it without making a tensor or a buffer.

The first call runs the function as it is while a recording notes every launch (recording.py). A later call under the
same conditions copies its arguments into the recorded buffers, runs the recording's native program, and hands out
copies of the results. Where a condition has changed the function is recorded anew.
"""

import copy
import functools
import gc
import threading
import types
import warnings
from collections.abc import Callable
from functools import partial

import numpy as np

from tinytensor.autograd.derivatives import accumulate
from tinytensor.core.dispatch import state
from tinytensor.core.dtypes import get_default_dtype
from tinytensor.core.interchange import Left
from tinytensor.core.tensor import Tensor
from tinytensor.native.driver import Program
from tinytensor.native.entries import OBJECT
from tinytensor.native.kernel import Kernel
from tinytensor.nn.module import Module
from tinytensor.recording.external import Seen, are_as_they_were
from tinytensor.recording.guards import PLAIN, Surroundings, ask
from tinytensor.recording.pool import lease_of
from tinytensor.recording.recording import Recording

LIMIT = 64  # recordings kept for one function; more means that something varies at each call
TRIES = 3  # runs that change their own conditions before the function is no longer recorded under these arguments
MODES = (None, "default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")


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

    A function, a method, or a Module; or nothing, as in `@compile()`. A compiled Module is a Module of the same class,
    which shares parameters, attributes and mode with the first one, and whose state_dict() has the same names (PyTorch
    puts `_orig_mod.` before them; who strips that finds nothing to strip).

    The function takes and returns tensors (and tuples, lists and dicts of them). Conditions are other arguments, shapes
    and dtypes, train() and eval(), no_grad(), gradients that are there or not, and what the function's own code and the
    user's code that it calls can read: closures, globals, attributes, entries of lists and dictionaries. Under new
    conditions it is recorded anew. A NumPy array from outside is read anew at each replay by `tensor(array)`.

    Where a replay could not follow, the function runs as it is, and one warning says why; with `fullgraph` it raises.
    That is so for .item(), printing and control flow by a tensor's value; a result whose graph is still alive (whose
    backward() comes outside) or that is no tensor; a tensor of the step kept in a list or an attribute; random numbers
    of Python and NumPy; values taken from an iterator; and what the step itself changes of what it reads, a counter
    say. An argument that shares memory with another tensor of the step, when one is changed in place, raises.

    What can't be seen, and stays as it was at the recording: the clock, files and the environment; values inside a
    NumPy array that become Python numbers (`float(array[0])`), and entries of a container that has more than 1,000;
    attributes that are named only at run time (`getattr(x, "a" + "b")`), or not at all (`vars(x).values()`); what is
    behind a `ContextVar` or a weak reference, and the properties of a metaclass; a function's `__defaults__`,
    `__kwdefaults__` and `__code__`, when others are assigned; and what the code of other libraries reads.
    What the function does in Python beyond tensors (printing a line, say) happens only while recording.

    `dynamic`, `backend`, `mode` and `options` choose between compilers that PyTorch has several of; `disable` gives the
    function back as it is.
    """
    if mode not in MODES:
        raise ValueError(f"compile: unknown mode {mode!r}; expected one of {', '.join(map(repr, MODES))}")
    if model is None:
        return partial(compile, fullgraph=fullgraph, mode=mode, disable=disable)
    if not callable(model):
        raise TypeError(f"compile: expected a function or a Module, got {type(model).__name__}")
    if disable:
        return model
    if isinstance(model, Module):
        return _compiled_module(model, fullgraph)
    told = [name for name in functools.WRAPPER_ASSIGNMENTS if ask(model, name) is not None]
    return functools.update_wrapper(Compiled(model, fullgraph), model, told, updated=())


def _compiled_module(module: Module, fullgraph: bool) -> Module:
    """A module with the very attributes of another one, which runs from recordings when it is called."""
    call = Compiled(module, fullgraph)

    def __call__(self, *args, **kwargs):
        return call(*args, **kwargs)

    def __deepcopy__(self, memo):
        return _compiled_module(copy.deepcopy(module, memo), fullgraph)

    body = {
        "__call__": __call__,
        "__deepcopy__": __deepcopy__,
        "_orig_mod": module,
        "__module__": type(module).__module__,
    }
    kind = type(type(module).__name__, (type(module),), body)
    twin = kind.__new__(kind)
    twin.__dict__ = module.__dict__  # one set of attributes for both: what is set on either, the other has
    return twin


class Compiled:
    """A function with what was recorded of it, under each set of conditions that it met."""

    def __init__(self, function: Callable, fullgraph: bool = False):
        self.function, self.fullgraph = function, fullgraph
        self.name = ask(function, "__name__", type(function).__name__)
        self.recordings: dict[tuple, list[Recorded]] = {}
        self.tries: dict[tuple, int] = {}  # runs that were not kept; from TRIES on there will be no more
        self.warned = False
        self.one_at_a_time = threading.RLock()  # its buffers serve one call at a time

    def __get__(self, instance, owner=None):
        return self if instance is None else types.MethodType(self, instance)

    def __call__(self, *args, **kwargs):
        if state.recording is not None or state.anomaly:  # within another recording it is a part of that one
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
        with self.one_at_a_time:
            # The key has what can be hashed: a dictionary finds it. The rest of the conditions has to be asked of each
            # recording with this key, and there is mostly one.
            for recorded in self.recordings.setdefault(key, []):
                if recorded.fits(tensors):
                    return recorded.replay(tensors)
            if sum(map(len, self.recordings.values())) < LIMIT:
                return self._record(key, tensors, args, kwargs)
        self._eager_because(
            f"it was recorded {LIMIT} times, each time under other conditions; pass what varies as a tensor, or call "
            "the function without compile"
        )
        return self.function(*args, **kwargs)

    def repeat(self, times: int) -> None:
        """Call the function `times` times, without arguments and without asking for what it returns.

        Each call finds what the one before has left in tensors from outside, by copy_() say; the conditions are looked
        at before the first replay only. Without a host call in it the whole is one run of native code.
        """
        with self.one_at_a_time:
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
        # Where it may look has to be noted before it runs: afterwards nobody could tell what it has changed itself.
        recorded = Recorded(Run(self.fullgraph, Surroundings(self.function, args, _objects((args, kwargs)))))
        result = recorded.record(self.function, args, kwargs, tensors)
        if recorded.recording.problem is not None:
            self.tries[key] = TRIES
            self._eager_because(recorded.recording.problem)
        elif recorded.own_change is not None:  # only a first call perhaps, which prepares what later ones use
            self.tries[key] = self.tries.get(key, 0) + 1
            if self.tries[key] == TRIES:
                self._eager_because(
                    f"the step itself changes what it reads ({recorded.own_change}), which a replay would not do; "
                    "keep it in a tensor, or change it outside"
                )
        else:
            self.recordings[key].append(recorded)
        return result

    def _eager_because(self, why: str, kind: type[Exception] = RuntimeError) -> None:
        """Say once why the function runs as it is; raise if it was to be recorded whole."""
        why = why.removeprefix("compile: ")
        if self.fullgraph:
            raise kind(f"compile: {self.name} can't be recorded whole: {why}")
        if not self.warned:
            self.warned = True
            warnings.warn(f"compile: {self.name} runs without a recording: {why}", stacklevel=4)


class Run(Recording):
    """The recording of a run of which something may turn out that no replay could follow."""

    def __init__(self, whole: bool, surroundings: Surroundings):
        super().__init__()
        self.whole, self.surroundings = whole, surroundings
        self.problem: str | None = None

    def refuse(self, why: str) -> None:
        """Note why no replay could follow. The run is an ordinary one, and goes on, unless the user wants it whole."""
        if self.whole:
            raise RuntimeError(why)
        self.problem = self.problem or why

    def arrays(self) -> list[np.ndarray]:
        """Every array that a launch or a host call looks at: `compile` asks which of them the outside shares."""
        found = []
        for what, how in self.noted:
            args = how.args if isinstance(what, Kernel) else (how,) if what is None else how
            for group in args:
                found += [a for a in (group if isinstance(group, list) else [group]) if isinstance(a, np.ndarray)]
        return found


class Recorded:
    """A function recorded under one set of conditions: its recording, and how values enter and leave it."""

    def __init__(self, recording: Run):
        self.recording = recording
        self.own_change: str | None = None  # what the function changed of its own conditions
        self.inputs: list[np.ndarray | None] = []  # a buffer for each argument that is copied in
        self.outside: dict[int, Tensor] = {}  # what the caller sees in the place of a tensor of the recording
        self.made_anew: set[int] = set()  # results of which the caller gets a copy, by id

    # ------------------------------------------------------------------------------------------------------- recording

    def record(self, function: Callable, args, kwargs, tensors: list[Tensor]):
        """Run the function while its launches are noted, on stand-ins for its arguments."""
        stand_ins = {}
        for t in tensors:
            if t._requires_grad:  # a parameter: used where it is, since its gradient belongs there
                self.inputs.append(None)
            else:  # a program has addresses in it, and the next call comes with another tensor at another address
                buffer = self.recording.pool.buffer(t.shape, t.dtype)
                buffer[...] = t._data
                self.inputs.append(buffer)
                stand_ins[id(t)] = Tensor.of(buffer)
        self.arguments = [stand_ins.get(id(t), t) for t in tensors]
        state.recording = self.recording
        result = None
        try:
            result = function(*_replaced(args, stand_ins), **_replaced(kwargs, stand_ins))
        finally:  # what it did before an exception stays done: gradients and arguments are as without compile
            state.recording = None
            self.recording.close()
            self.result = result
            self._settle()
            self._hand_back(tensors)
        self._check_surroundings()
        copies = self._copied_out(result, tensors)
        self.made_anew = {id(t) for t in _tensors(result) if self._is_made_anew(t)}
        self._check_arguments(tensors)
        self._check_nothing_stays()
        self.outside.clear()
        if self.recording.problem is None and self.own_change is None:
            return copies
        # No replay will write over what the run made, so its results go out as they are, with their graphs.
        return _replaced(result, {id(mine): t for mine, t in zip(self.arguments, tensors, strict=True)})

    def _settle(self) -> None:
        """Work out what the run changed: a replay will change the same."""
        self.seen: list[Seen] = list(self.recording.seen.values())
        # A replay writes to memory directly, and no tensor notices; so it counts up the versions by which backward()
        # finds out that a value which it needs has been overwritten.
        self.changed = [s.tensor for s in self.seen if s.tensor._version.count != s.version]
        self.changed_inputs = [
            buffer is not None and t._version.count > 0 for t, buffer in zip(self.arguments, self.inputs, strict=True)
        ]
        # gradients that were there before: (the tensor, its stand-in, is it read or written, was it written)
        used = [*self.recording.arrays(), *(t._data for t in _tensors(self.result))]
        self.entering = [
            (s.tensor, s.stand_in, any(np.may_share_memory(s.stand_in._data, a) for a in used))
            for s in self.seen
            if s.stand_in is not None
        ]
        # gradients that are there now: (the tensor, what the run left there, the same as seen by a later replay)
        self.leaving = []
        for s in self.seen:
            left = s.tensor.held_grad()
            # What the run made lies in its own memory, and the next replay writes over it: `Left` copies it when it is
            # asked for, mostly never. A gradient that was there before and only changed stays the tensor that it is.
            new = left is not None and self.recording.pool.owns(left._data)
            if new and left.node is not None and not left.node.walked:
                new = False
                self.recording.refuse("a gradient that the step leaves has a graph, but a replay makes none")
            elif new:
                left.node, left._requires_grad = None, False
            self.leaving.append((s.tensor, left, Left(left._data) if new else None))
        self._set_gradients([s.grad for s in self.seen if s.stand_in is not None])

    def _check_surroundings(self) -> None:
        """Refuse what the run read where a replay would not look again."""
        around = self.recording.surroundings
        if around.iterators:
            self.recording.refuse(f"the step may take values from an iterator ({around.iterators[0]})")
        if around.drew():
            self.recording.refuse(
                "the step drew random numbers from Python's or NumPy's generators, and a replay would repeat them; use "
                "tinytensor's (randn, randint), or draw outside"
            )
        # Had the step set what it reads, a replay (which runs no Python) would leave it as it is, and go on with it.
        self.own_change = around.changed()
        self.recording.guards = [  # modules that are looked at already need no second look
            guard
            for guard in self.recording.guards
            if not (isinstance(guard[0].__self__, Module) and id(guard[0].__self__) in around.visited)
        ]

    def _check_arguments(self, tensors: list[Tensor]) -> None:
        """An argument is a copy: refuse what could be seen only in the original."""
        # Memory that an argument shares with another tensor is two pieces of memory in a replay: who writes to the one
        # no longer writes to the other. That matters only where somebody writes.
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
                    stand_in.register_hook(partial(accumulate(create_graph=False), t, is_new=False))
            others = outside + [(o._data, c) for o, _, _, c in inside[:number]]
            if any((changed or c) and np.may_share_memory(t._data, other) for other, c in others):
                raise RuntimeError(
                    "compile: an argument shares memory with another tensor that the step uses, and one of them is "
                    "changed in place; pass one of them, or a clone()"
                )

    def _check_nothing_stays(self) -> None:
        """Refuse a tensor that outlives the step other than as a result: a replay would not make it anew."""
        # Each buffer that is still lent out has somebody who holds it. Known are results, arguments and gradients; the
        # others somebody has put away, where they would change with each replay, behind their owner's back.
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

    # --------------------------------------------------------------------------------------------------------- replays

    def fits(self, tensors: list[Tensor]) -> bool:
        """May a call with these arguments be a replay: do all conditions hold that held when it was recorded?"""
        for now, then, buffer in zip(tensors, self.arguments, self.inputs):
            if buffer is None and now is not then:  # another parameter of the same shape has another address
                return False
        return are_as_they_were(self.seen) and self.recording.holds() and self.recording.surroundings.hold()

    def replay(self, tensors: list[Tensor]):
        """Run the recording on new values of the arguments."""
        # Gradients that come in are handed over first: what they were must be known before anything writes.
        entered = [self._entered(*entry) for entry in self.entering]
        self.recording.pool.spoil()
        for buffer, t in zip(self.inputs, tensors):
            if buffer is not None:
                np.copyto(buffer, t._data)
        try:
            self.recording.replay()
        finally:  # an index out of range stops a replay half-way, a schedule that has no further step at the end
            for tensor in self.changed:
                tensor._version.count += 1
            self._hand_back(tensors)
            if self.recording.reached == len(self.recording.noted):
                self._set_gradients(entered)
            else:
                self._forget_gradients()
        copies = self._copied_out(self.result, tensors)
        self.outside.clear()
        return copies

    def repeat(self, times: int) -> None:
        """Run a recording that has no arguments so many times."""
        parts = self.recording.parts
        program = parts[0][1] if len(parts) == 1 and not self.recording.early else None
        if isinstance(program, Program) and state.profile is None and not self.entering:
            program.times = times
            try:
                self.replay([])
            finally:
                program.times = 1
        else:
            for _ in range(times):
                self.replay([])

    def _entered(self, tensor: Tensor, stand_in: Tensor, used: bool) -> Tensor | None:
        """The gradient with which a tensor comes into a replay, handed to its stand-in if anything looks at that."""
        if not used:
            return tensor._grad  # one that the step lets go of: whatever a replay left there need not be made a tensor
        grad = tensor.held_grad()
        np.copyto(stand_in._data, grad._data)
        return grad

    def _set_gradients(self, entered: list) -> None:
        """Set the gradients that the run leaves: those that came in, changed perhaps, or what it made."""
        if self.entering:
            for (_, stand_in, used), grad in zip(self.entering, entered, strict=True):
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
        """After half a replay: a gradient that only its memory held is gone."""
        for tensor, _, later in self.leaving:
            if tensor._grad is later:
                tensor._grad = None

    def _hand_back(self, tensors: list[Tensor]) -> None:
        """What the step did in place to its arguments, the caller sees."""
        for changed, buffer, t in zip(self.changed_inputs, self.inputs, tensors):
            if changed:
                np.copyto(t._data, buffer)
                t._version.count += 1

    def _is_made_anew(self, result: Tensor) -> bool:
        """Does each replay compute this result in its own memory, so that the caller gets a copy and nothing else?"""
        others = [*self.arguments, *(left for _, left, _ in self.leaving)]
        return (
            all(result is not other for other in others)
            and id(result) not in self.outside
            and (result.node is None or result.node.walked)
            and self.recording.pool.owns(result._data)
        )

    def _copied_out(self, value, tensors: list[Tensor]):
        if isinstance(value, Tensor):
            if id(value) in self.made_anew:  # known from the recording on
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
            return Tensor.of(value._data.copy())  # the caller may keep it, and the next replay writes over the buffer
        if isinstance(value, tuple | list):
            return _like(value, [self._copied_out(v, tensors) for v in value])
        if isinstance(value, dict):
            return {k: self._copied_out(v, tensors) for k, v in value.items()}
        if value is None:
            return None
        self.recording.refuse(
            f"compile: the step returned {value!r} ({type(value).__name__}), which a replay could not compute anew; "
            "return tensors"
        )
        return value


def _key(args: tuple, kwargs: dict, tensors: list[Tensor]) -> tuple:
    """What a dictionary can compare of the conditions; collects the tensors."""
    return _structure(args, tensors), _structure(kwargs, tensors) if kwargs else None, state.grad, get_default_dtype()


def _structure(value, tensors: list[Tensor]):
    """What the arguments are but for the values of tensors, as something that can be compared; collects the tensors."""
    if isinstance(value, Tensor):
        for number, t in enumerate(tensors):
            if t is value:  # f(x, x) is not f(x, y): in place, one of the two would not see what is done to the other
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
    return type(value), repr(value) if isinstance(value, float) else value  # 0.0 == -0.0, but is another argument


def _tensors(value) -> list[Tensor]:
    """All tensors in nested tuples, lists and dicts."""
    if isinstance(value, tuple | list):
        return [t for v in value for t in _tensors(v)]
    if isinstance(value, dict):
        return _tensors(list(value.values()))
    return [value] if isinstance(value, Tensor) else []


def _objects(value) -> list:
    """The arguments of which more can be read than their value: functions, modules, `self`."""
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
