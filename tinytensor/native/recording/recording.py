"""A recording: the launches of one run, as a program that native code runs again.

A training step makes the same launches each time, on other numbers. Its Python code (checking arguments, making
tensors, walking the tape) decides only which launches are made, so it is enough to run it once. While a recording is
open, `launch` (dispatch.py) notes each launch here: the address of the kernel's entry, the packed arguments, the number
of tasks. When it is closed, consecutive launches become programs. `replay()` runs them in order.

Launches alone are not enough. A replay must give the result that the function would give now, so a recording also holds

- `guards` and `seen`: the questions that Python asked (is this module training, has this parameter a gradient?). Other
  answers would have led to other launches, so the function must then be recorded anew;
- host calls: work that Python itself did on arrays, drawing random numbers say, and must do again;
- checks: places where a value can turn out to be impossible (an index out of range), and the run must stop.

Shapes need no guard here: `tinytensor.compile` (compiled.py) makes another recording for other shapes of arguments.
Every buffer of the run belongs to the recording; `pool.py` says why one may serve several results.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from tinytensor.core import backend
from tinytensor.core.dispatch import outside_recording, state
from tinytensor.core.kernel import Kernel
from tinytensor.core.recorder import STOPPED
from tinytensor.core.recorder_base import Recorder
from tinytensor.native.platform.object_layout import addresses
from tinytensor.native.recording.external import TensorSnapshot
from tinytensor.native.recording.pool import Pool, owned


class Recording(Recorder):
    """The launches and host calls of one run, and what must hold for them to be replayed."""

    def __init__(self):
        # The steps of the run, in order: (kernel, launch), (host function, its arguments), or (None, flag) for a check.
        # A place is an index into this list: it says which steps were done when a replay stops in between.
        self.noted: list[tuple[Kernel | Callable | None, Any]] = []
        self.early: list[tuple[int, Callable, tuple, Callable]] = []  # host calls that run first: place ... and undo
        self.checks: list[tuple[int, np.ndarray, Callable]] = []  # place, flag, and the function that raises the error
        # By id, since tensors have no order and `==` makes a tensor of two; TensorSnapshot holds it, so that no other
        # object can get its id.
        self.seen: dict[int, TensorSnapshot] = {}
        self.guards: list[tuple[Callable, tuple, bytes]] = []  # a question, its answer, and the answer's addresses
        self.pool = Pool()
        self.parts: list[tuple[int, Callable, tuple]] = []  # the place after it, what to run, its arguments
        self.progress = np.full(1, -1, np.int64)  # the place that the last replay has reached

    # --- While it is open

    def launch(self, kernel: Kernel, args: tuple) -> None:
        """Run a launch, and note it.

        It runs at once, since the function may read its results: recording is an ordinary run that is watched. The
        arguments that are kept refer to the memory itself, so that leases of buffers can end.
        """
        launch = kernel.prepare(tuple([owned(a) for a in args]))
        kernel.run(launch)
        self.noted.append((kernel, launch))

    def host(self, function: Callable, args: tuple, undo: Callable | None) -> None:
        """Make a host call, and note it.

        A host call between two launches ends a program, and Python must start the next one. A call that can be undone
        avoids this: a replay makes it before the first launch.
        """
        # Launches of the function are not noted, since a replay repeats the call: noted as well, they would run twice.
        # A replay does not note them either.
        with outside_recording():
            function(*args)
        args = tuple([owned(a) for a in args])
        if undo is None:
            self.noted.append((function, args))
        else:
            self.early.append((len(self.noted), function, args, undo))

    def check(self, flag: np.ndarray, tell: Callable) -> None:
        """Note that a replay stops here if the flag is set."""
        self.checks.append((len(self.noted), flag, tell))
        self.noted.append((None, flag))

    def guard(self, question: Callable) -> None:
        """Replay only while `question()` returns the same objects (in a tuple) that it returns now.

        The same objects, not equal ones: a program contains the addresses of these objects, and two parameters with
        equal values are still two.
        """
        self.guards.append((question, answer := question(), addresses(answer)))

    def notice(self, tensor) -> None:
        """Note a tensor from outside as it is before its first use: its gradient may be a condition."""
        if id(tensor) not in self.seen and not self.pool.owns(tensor._data):
            self.seen[id(tensor)] = TensorSnapshot(tensor)

    def notice_gradient(self, tensor, replaced: bool) -> None:
        """Note that this tensor's `.grad` was read, or overwritten (`replaced`) by another one or by None.

        The first of the two decides: a gradient that was replaced before it was read did not affect the results.
        """
        self.notice(tensor)
        seen = self.seen.get(id(tensor))
        if seen is not None and seen.gradient_matters is None:
            seen.gradient_matters = not replaced
            if replaced:
                seen.stand_in = None

    # --- When it is closed

    def close(self) -> None:
        """Make programs of the noted launches."""
        self.parts = self._parts(self.noted)

    def holds(self) -> bool:
        """Do all questions have the same answers as at the recording?"""
        return all(addresses(ask()) == there for ask, _, there in self.guards)

    def replay(self) -> None:
        """Run all noted steps again.

        A replay that fails must leave the same state as an ordinary run that fails at the same place. If an early host
        call fails, the steps before its place still run. Early host calls that the ordinary run would not have reached
        are undone, the last one first, since it may depend on the others.

        An interrupt (Ctrl-C) comes between any two steps of Python. Then each native program has run or has not, which
        `progress` says, and the early host calls of one that has not are undone.
        """
        progress = self.progress
        progress[0] = -1
        for _, _, args, _ in self.early:
            args[0].clear()  # the state before the last replay
        try:
            failure, noted, parts = self._run_early()
            for position, run, args in parts if state.profile is None else state.profile.parts(noted):
                if not isinstance(run, backend.current.Program):  # a program says itself that it has run
                    progress[0] = position - 1
                if run(*args) is STOPPED:
                    progress[0], flag, tell = next(check for check in self.checks if check[1][0])
                    flag[0] = 0  # the next replay begins without an error
                    tell(flag)
            progress[0] = len(noted)
        except BaseException:
            for position, _, args, undo in reversed(self.early):
                if position > progress[0]:
                    undo(*args)
            raise
        if failure is not None:
            raise failure

    def _run_early(self) -> tuple[Exception | None, list, list]:
        """Make the early host calls; the error of one that failed, and the noted steps that can run, with their parts.

        It is a function of its own, since in `replay` an interrupt between two nested `try` would reach neither.
        """
        for position, function, args, undo in self.early:
            try:
                function(*args)
            except Exception as error:
                undo(*args)
                noted = self.noted[:position]
                return error, noted, self._parts(noted)
        return None, self.noted, self.parts

    def _parts(self, noted: list) -> list[tuple[int, Callable, tuple]]:
        """The noted steps as programs and host calls: each stretch of launches without a host call is one program."""
        parts: list[tuple[int, Callable, tuple]] = []
        rows: list[tuple[int, int, int]] = []

        def end_program(position: int) -> None:
            if rows:
                parts.append((position, backend.current.Program(rows, self.progress, position), ()))
                rows.clear()

        for position, (what, how) in enumerate(noted):
            if isinstance(what, Kernel):
                rows.append((how.entry, how.buffer.ctypes.data, how.tasks))
            elif what is None:  # an entry without tasks: the driver reads the flag instead, and stops if it is set
                rows.append((0, how.ctypes.data, 0))
            else:
                end_program(position)
                parts.append((position + 1, what, how))
        end_program(len(noted))
        return parts
