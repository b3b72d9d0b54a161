"""What a function asks of exact scalars that it could not ask of floats, or that floats would answer otherwise.

A proof follows the code on exact scalars. It is right for floats if the code only computes with them and compares
them, since comparisons are conditions of the proof. Their text, hash, bytes, pickle and type, the dtype of a tensor
that holds them, an error that only they raise, and state that changes from call to call are no conditions. So the
function's own code is looked at: the names that it has before it runs first, as for `derive` (reading/language.py), and
each call that it makes while it runs. Such a question is noted with its line, and then nothing is proved. The state
that counts is that after a first call, on floats, since modules fill a cache then.
"""

import dis
import inspect
import itertools
import sys
import types
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from pathlib import Path

import numpy as np

from tinytensor.core.kernel import OBJECT, Kernel
from tinytensor.core.op import Op
from tinytensor.core.tensor import Tensor
from tinytensor.symbolic.exact.lifting import NO_BUILTINS
from tinytensor.symbolic.exact.scalars import Exact
from tinytensor.symbolic.prove.advice import PACKAGE, arguments_of, describe_line, line
from tinytensor.symbolic.reading.language import (
    DUNDERS,
    REFLECTION,
    asks_by_name,
    catches,
    changed_names,
    instructions_of,
    is_first_call,
    is_listed,
    is_of_library,
    loads,
    snapshot,
    unknown_in,
    watching,
)
from tinytensor.symbolic.reading.sizes import is_users
from tinytensor.symbolic.time_limit import replaced

LEAVING = "item tolist numpy to_numpy storage untyped_storage data_ptr save"  # values that leave as objects
LEAVING += " __array__ __dlpack__ __getstate__ __reduce_ex__ __contains__ __float__ __int__ __index__ __hash__"
TEXT = "__repr__ __str__ __format__ _repr_html_"
TYPE = "dtype type is_floating_point element_size itemsize nbytes result_type __instancecheck__"
ASKED = {*LEAVING.split(), *TEXT.split(), *TYPE.split()}
PRIVATE = {"_data", "_values", "f_back", "tb_frame", "gi_frame", "cr_frame", "ag_frame"}  # by which a proof would show
OF_EXACT = "shape ndim size T reshape sum mean prod max min any all transpose ravel flatten squeeze copy fill dot "
OF_EXACT += "cumsum where empty zeros ones full empty_like zeros_like ones_like full_like arange eye tril triu pi e "
OF_EXACT += "inf newaxis matmul einsum outer stack concatenate broadcast_to swapaxes expand_dims"
HIDING = {  # what NumPy may answer otherwise for exact numbers than for floats
    name
    for name in {*dir(np), *dir(np.ndarray)} - {*OF_EXACT.split()}
    if not isinstance(getattr(np, name, None), np.ufunc)
}
HIDDEN = [getattr(np, name) for name in HIDING if hasattr(np, name)]
HIDDEN += [type, isinstance, memoryview, bytes, float, int, bool, complex, format, str, repr]
OF_CLASS = {"__name__", "__module__", "__qualname__", "__doc__", "__firstlineno__", "__static_attributes__"}
NAN = {"isnan", "isinf", "isfinite", "isreal", "isposinf", "isneginf"}
COMPUTED = Tensor | Exact | np.ndarray | int | float | str | None  # which a code may get anew in each call
FINITE = "every number that the code asks for NaN and infinity is finite"
METHODS = "core/tensor_values.py core/dtype_objects.py ops/argument_errors.py ops/methods.py ops/constructors.py "
METHODS += "symbolic/exact/scalars.py"
BETWEEN = {str(PACKAGE / file) for file in METHODS.split()}  # where questions pass


class Questions:
    """The questions of one function: `notes`, a sentence each, and `conditions`, which a verdict can state."""

    def __init__(self, outside: dict[str, object]):
        self.notes: dict[str, None] = {}
        self.conditions: dict[str, None] = {}
        self.seen: dict[int, tuple[types.CodeType, bool, bool, bool]] = {}
        self.of_arrays: set[int] = set()  # the ids of codes in `seen` that get exact scalars, or arrays of them
        self.read_with: dict[tuple, tuple] = {}  # by a code that was read, and the ids of the objects that it got
        self.handed: dict[tuple[types.FrameType, range], str] = {}  # dtypes that go to a call, by its instruction
        self.outside = {(name, id(x)): (x, _state(x)) for name, x in outside.items()}
        self.changed: dict[str, str] = {}  # the inputs that a run has changed, which were restored

    def after_first_call(self) -> None:
        """The state from here on is that of the proof: what a first call has filled is a condition."""
        for name in changed_names(self.outside, _state):
            self.conditions[f"{name} is as its first call leaves it"] = None
        self.outside = {key: (x, _state(x)) for key, (x, _) in self.outside.items()}

    def answers(self) -> list[str]:
        """Why nothing is proved: a sentence for each question, and for state that has changed."""
        return [*self.notes, *self.handed.values(), *self.changes()]

    def changes(self) -> list[str]:
        """A sentence for all state that has changed."""
        names = self.changed | changed_names(self.outside, _state)
        return [f"{name} {how}: another call would differ" for name, how in names.items()]

    def look(self, frame: types.FrameType, event: str, arg) -> None:
        """A function is called: is this a question, or the user's own code?"""
        code = frame.f_code
        _, users, asks, operates = self.seen.get(id(code)) or self.sort(frame)
        if users:
            if is_first_call(self.read_with, frame, lambda x: isinstance(x, COMPUTED)):
                self.read(frame)
            self.look_for_arrays(frame)
            return
        if operates and self.handed:
            caller = frame.f_back
            for key in [k for k in self.handed if k[0] is caller and caller.f_lasti in k[1]]:
                del self.handed[key]
        if asks and any(_is_exact(x._data if isinstance(x, Tensor) else x) for x in arguments_of(frame)):
            self.ask(code.co_name, frame.f_back)

    def sort(self, frame: types.FrameType) -> tuple[types.CodeType, bool, bool, bool]:
        """A function's code, when it is called first: is it the user's, may it be a question, is it an operation?"""
        code, file = frame.f_code, Path(frame.f_code.co_filename)
        users = self.is_users(frame)
        asks = code.co_name in ASKED and file.is_relative_to(PACKAGE)
        self.seen[id(code)] = code, users, asks, file.is_relative_to(PACKAGE / "ops")
        return self.seen[id(code)]

    def is_users(self, frame: types.FrameType) -> bool:
        """Is this the user's own code, and no text that a library has made and compiled?"""
        return is_users(frame.f_code, frame.f_globals) and not is_of_library(frame)

    def note(self, what: str, where: str) -> None:
        self.notes[f"the function {what}{where}; for floats this may be otherwise: leave it out"] = None

    def ask(self, name: str, caller: types.FrameType | None) -> None:
        """Note a question, if the user's own code asks it, and its answer does not go straight on."""
        while caller is not None and not self.is_users(caller):
            file = Path(caller.f_code.co_filename)
            if file.is_relative_to(PACKAGE) and str(file) not in BETWEEN:
                return
            name = caller.f_code.co_name if caller.f_code.co_name in ASKED else name
            caller = caller.f_back
        if caller is None or (name == "item" and _is_compared(caller)):
            return
        called = _next_call(_after(caller.f_code, caller.f_lasti)) if name == "dtype" else None
        what = f"asks for {name} of exact numbers"
        if called is None:
            self.note(what, line(caller))
        else:
            self.handed[caller, called] = f"the function {what}{line(caller)}; for floats this may be otherwise"

    def read(self, frame: types.FrameType) -> None:
        """Look at code of the user's before it runs with these objects first: its names, and what they are."""
        code, names = frame.f_code, {*frame.f_code.co_names}
        where = f" ({describe_line(code.co_filename, code.co_firstlineno, code.co_name)})"
        known = DUNDERS if code.co_flags & inspect.CO_OPTIMIZED else DUNDERS | OF_CLASS
        for name in names & (PRIVATE | REFLECTION) | {n for n in names - known if n.startswith("__")}:
            self.note(f"uses {name}", where)
        if NAN & names:
            self.conditions[FINITE] = None
        if catches(instructions_of(code)):
            self.note("catches errors, which floats need not raise", where)
        for i in instructions_of(code):
            if i.opname in ("STORE_GLOBAL", "DELETE_GLOBAL"):
                self.note(f"changes the global {i.argval}", where)
        self.read_objects(frame, code, where)

    def read_objects(self, frame: types.FrameType, code: types.CodeType, where: str) -> None:
        """Look at the objects that the names of a code stand for."""
        pytorch = _pytorch()
        for i, name, value in loads(code, frame.f_globals, frame.f_locals):
            first = (frame.f_locals if i.opname == "LOAD_DEREF" else frame.f_globals).get(i.argval)
            if id(first) in pytorch or name.startswith("@"):  # which pytest writes into an assert
                continue
            value = value.py_func if isinstance(value, Kernel) else value
            if (isinstance(value, Op) or is_listed(value)) and getattr(value, "__name__", "") in NAN:
                self.conditions[FINITE] = None
            is_looked_at = frame.f_builtins is NO_BUILTINS and i.opname == "LOAD_GLOBAL"  # by `lift`
            if value is type or asks_by_name(i, value) or is_looked_at:
                continue
            state = _state(value)
            if unknown_in(state):
                self.note(f"uses {name}", where)
            elif i.opname != "LOAD_DEREF":
                self.outside.setdefault((name, id(value)), (value, state))

    def look_for_arrays(self, frame: types.FrameType) -> None:
        """Look at code that gets exact scalars or arrays, or is called by such code, which may hand them on unseen."""
        code = frame.f_code
        if id(code) in self.of_arrays:
            return
        by_array_code = frame.f_back is not None and id(frame.f_back.f_code) in self.of_arrays
        if by_array_code or frame.f_builtins is NO_BUILTINS or any(map(_is_exact, arguments_of(frame))):
            self.of_arrays.add(id(code))
            self.read_array_code(frame, code)

    def read_array_code(self, frame: types.FrameType, code: types.CodeType) -> None:
        """Look at code that gets exact scalars or arrays of them, whose questions are no calls that are seen."""
        where = f" ({describe_line(code.co_filename, code.co_firstlineno, code.co_name)})"
        loaded = {i.offset: value for i, _, value in loads(code, frame.f_globals, frame.f_locals)}
        for before, i in itertools.pairwise([None, *instructions_of(code)]):
            if i.opname == "IS_OP" and before.opname != "LOAD_CONST":
                self.note("asks by `is` which number one is", where)
            named = i.opname in ("LOAD_ATTR", "LOAD_METHOD") and i.argval in HIDING
            named = named or any(loaded.get(i.offset) is function for function in HIDDEN)
            named &= frame.f_builtins is not NO_BUILTINS  # the names in a lifted kernel have meanings of their own
            if named and not (i.argval == "dtype" and _next_call(_after(code, i.offset))):
                self.note(f"asks for {i.argval} of exact numbers", where)
            if isinstance(i.argval, types.CodeType):
                self.read_array_code(frame, i.argval)


def _pytorch() -> dict[int, int]:
    """The modules of PyTorch, if it is loaded, by their ids: its functions take our tensors, and run on our tape."""
    return {id(m): 0 for name, m in sys.modules.items() if name.partition(".")[0] == "torch"}


def _state(value):
    """What an object holds beside PyTorch."""
    return snapshot(value, _pytorch())


def _is_exact(x) -> bool:
    """Is it an exact scalar, or an array of them?"""
    return isinstance(x, Exact) or (isinstance(x, np.ndarray) and x.dtype == OBJECT)


def _after(code: types.CodeType, offset: int) -> list[dis.Instruction]:
    """The instructions that follow one of a code."""
    return [i for i in instructions_of(code) if i.offset > offset]


def _is_compared(frame: types.FrameType) -> bool:
    """Is the value that a call returns compared with a number at once, or a truth value? Then it is a condition."""
    following, after, *_ = [*(i.opname for i in _after(frame.f_code, frame.f_lasti)), "", ""]
    loads_other = following.startswith(("LOAD_CONST", "LOAD_FAST", "LOAD_GLOBAL", "LOAD_DEREF"))
    return following.startswith(("POP_JUMP", "UNARY_NOT", "TO_BOOL", "COMPARE_OP")) or (
        loads_other and after == "COMPARE_OP"
    )


def _next_call(instructions: list[dis.Instruction]) -> range | None:
    """The instruction of the call that gets the value at once, None if something else does."""
    for i, following in itertools.pairwise(instructions):
        if i.opname.startswith("CALL"):
            return range(i.offset, following.offset)
        if not i.opname.startswith(("LOAD_CONST", "LOAD_SMALL_INT", "LOAD_FAST", "KW_NAMES", "PRECALL")):
            return None
    return None


_questions: ContextVar[Questions | None] = ContextVar("questions", default=None)


def questions_of(outside: dict[str, object]) -> AbstractContextManager[Questions]:
    """Inside, `watched` notes the questions of a function; outside: the objects whose state must stay as it is."""
    return replaced(_questions, Questions(outside))


def note_change(name: str) -> None:
    """A run has changed this input."""
    if (questions := _questions.get()) is not None:
        questions.changed[name] = "changed"


def watched() -> AbstractContextManager[None]:
    """Inside, the user's code runs on exact numbers: its questions are noted."""
    questions = _questions.get()
    return nullcontext() if questions is None else watching(questions.look, sys.settrace, sys.gettrace())
