"""What a recording holds: the launches of one run, as a program that native code runs again.

A training step makes the same launches each time, on other numbers. What it costs in Python (looking at arguments,
making tensors, walking the tape) decides only which launches are made, so once is enough. While a recording is open,
the door notes each launch here as it makes it: the address of the kernel's entry, the packed arguments, the number of
tasks. When it is closed, launches that follow one another become programs. `replay()` runs them in order.

Launches alone would not do. A replay must give what the function would give now, so a recording holds also

- `guards` and `seen`: what Python asked on the way (how does this module stand, has this parameter a gradient?). With
  other answers other launches would have been made, so then the function must be recorded anew;
- host calls: what Python itself did to arrays, the drawing of random numbers say, and must do again;
- checks: places where a value could turn out to be impossible (an index out of range), and the run must stop.

Shapes need no guard here: `tinytensor.compile` (compiled.py) makes another recording for other shapes of arguments.
Every buffer of the run belongs to the recording; `pool.py` says why one may serve several results.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from tinytensor.core.dispatch import outside_recording, state
from tinytensor.native.driver import STOPPED, Program
from tinytensor.native.kernel import Kernel
from tinytensor.recording.external import Seen, addresses
from tinytensor.recording.pool import Pool, owned


class Recording:
    """The launches and host calls of one run, and what must hold for them to be replayed."""

    def __init__(self):
        # What was done, in order: (kernel, launch), (host function, its arguments), or (None, flag) for a check. The
        # place of one among them tells what came before what, when a replay stops in between.
        self.noted: list[tuple[Kernel | Callable | None, Any]] = []
        self.early: list[tuple[int, Callable, tuple, Callable]] = []  # host calls that run before: place ... and undo
        self.checks: list[tuple[int, np.ndarray, Callable]] = []  # place, flag, and what is said when it is set
        # By id, since tensors have no order and `==` makes a tensor of two; Seen holds the tensor, so that no other
        # object can get its id.
        self.seen: dict[int, Seen] = {}
        self.guards: list[tuple[Callable, tuple, bytes]] = []  # a question, its answer, and where that lies
        self.pool = Pool()
        self.parts: list[tuple[int, Program | Callable, tuple]] = []  # the place after it, what to run, its arguments
        self.reached = 0  # the place up to which the last replay has run

    # ------------------------------------------------------------------------------------------------ while it is open

    def launch(self, kernel: Kernel, args: tuple) -> None:
        """Run a launch, and note it.

        It runs at once, since the function may look at its results; recording is an ordinary run that is watched. The
        arguments that are kept look at the memory itself, so that leases of buffers can end.
        """
        launch = kernel.prepare(tuple([owned(a) for a in args]))
        kernel.run(launch)
        self.noted.append((kernel, launch))

    def host(self, function: Callable, args: tuple, undo: Callable | None) -> None:
        """Make a host call, and note it.

        Each one between two launches ends a program, and the next must be started from Python. Those that can be undone
        need not stand between: they are made before the first launch.
        """
        # What the function launches is part of the call, and a replay repeats the call: noted as well, it would run
        # twice. At a replay nobody records either.
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
        """Replay only while `question()` answers with the very objects (a tuple of them) that it answers now.

        The very objects, not equal ones: a program has the addresses of those that were there, and two parameters that
        have equal values now are two all the same.
        """
        self.guards.append((question, answer := question(), addresses(answer)))

    def notice(self, tensor) -> None:
        """Remember a tensor that was not made here, as it is before its first use: its gradient may be a condition."""
        if id(tensor) not in self.seen and not self.pool.owns(tensor._data):
            self.seen[id(tensor)] = Seen(tensor)

    def notice_gradient(self, tensor, replaced: bool) -> None:
        """Remember a tensor whose gradient is now looked at, or replaced by another one or none.

        What happens first decides: a gradient that was replaced unseen had no part in what was computed.
        """
        self.notice(tensor)
        seen = self.seen.get(id(tensor))
        if seen is not None and seen.gradient_matters is None:
            seen.gradient_matters = not replaced
            if replaced:
                seen.stand_in = None

    # ------------------------------------------------------------------------------------------------ when it is closed

    def close(self) -> None:
        """Make programs of what was noted."""
        self.parts = _parts(self.noted)

    def holds(self) -> bool:
        """Do all questions have the answers that they had?"""
        return all(addresses(ask()) == there for ask, _, there in self.guards)

    def replay(self) -> None:
        """Run everything that was noted, again.

        What goes wrong must leave behind what an ordinary run would leave that goes wrong at the same place. If an
        early host call fails, what comes before its place is run all the same; and early host calls that this run would
        not have reached are undone, the last one first, since it may have built on others.
        """
        failure, made, noted, parts, self.reached = None, 0, self.noted, self.parts, 0
        for place, function, args, _ in self.early:
            made += 1
            try:
                function(*args)
            except BaseException as error:
                failure, noted = error, self.noted[:place]
                parts = _parts(noted)
                break
        try:
            for place, run, args in parts if state.profile is None else state.profile.parts(noted):
                if run(*args) is STOPPED:
                    self.reached, flag, tell = next(check for check in self.checks if check[1][0])
                    flag[0] = 0  # the next replay begins without a complaint
                    tell(flag)
                self.reached = place
        except BaseException:  # Ctrl-C between two parts is no different
            for place, _, args, undo in reversed(self.early[:made]):
                if place > self.reached:
                    undo(*args)
            raise
        if failure is not None:
            raise failure


def _parts(noted: list) -> list[tuple[int, Program | Callable, tuple]]:
    """Programs of what was noted, one of each stretch of launches without a host call in between."""
    parts: list[tuple[int, Program | Callable, tuple]] = []
    rows: list[tuple[int, int, int]] = []

    def end_program(place: int) -> None:
        if rows:
            parts.append((place, Program(rows), ()))
            rows.clear()

    for place, (what, how) in enumerate(noted):
        if isinstance(what, Kernel):
            rows.append((how.entry, how.block.ctypes.data, how.tasks))
        elif what is None:  # a launch of no tasks: the driver looks at the flag instead, and stops if it is set
            rows.append((0, how.ctypes.data, 0))
        else:
            end_program(place)
            parts.append((place + 1, what, how))
    end_program(len(noted))
    return parts
