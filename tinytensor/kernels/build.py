"""Another process that compiles: what a kernel computes does not depend on who ran it first.

Numba puts the loop of a `prange` into a function of its own, optimises that, and optimises it again as a part of the
whole kernel. A process that has compiled a kernel runs the first of the two, one that finds it in the cache the second;
both may add up the terms of a sum in different orders (seen in softmax, cross_entropy and layer_norm_backward), and
the first may be slower. So kernels are compiled by a process that runs none of them, and read from the cache.
"""

import atexit
import contextlib
import json
import os
import subprocess
import sys

from numba.core import types

_SERVE = "from tinytensor.kernels import build, kernel; build.serve(kernel.KERNELS)"


def serve(kernels: dict) -> None:
    """In the other process: compile what is asked for, a line each, until nobody asks."""
    answers, sys.stdout = sys.stdout, sys.stderr  # nothing else may be written between the answers
    for line in sys.stdin:
        name, signature = json.loads(line)
        try:
            kernels[name].dispatcher.compile(tuple(_type(told) for told in signature))
        except Exception:  # whatever it is: the process that asks will meet it too, and show it
            name = ""
        print(name, file=answers, flush=True)


def _told(t: types.Type) -> list:
    """A type of an argument, in JSON: of a number its name; of an array that of its elements, dimensions, layout."""
    return [t.dtype.name, t.ndim, t.layout] if isinstance(t, types.Array) else [t.name]


def _type(told: list) -> types.Type:
    """The inverse of `_told`."""
    number = types.boolean if told[0] == "bool" else getattr(types, told[0])
    return types.Array(number, *told[1:]) if len(told) > 1 else number


class Builder:
    """The other process as seen from here; it is started when the first kernel has to be compiled."""

    def __init__(self):
        self.process: subprocess.Popen | None = None
        self.owner = 0  # the process that started it
        self.gave_up = False

    def build(self, name: str, signature: tuple) -> bool:
        """Have a kernel compiled into the cache; False if that cannot be done here."""
        if self.gave_up:
            return False
        try:
            if self.process is None or self.owner != os.getpid():  # a fork has an own one
                self.process, self.owner = self._start(), os.getpid()
                atexit.register(self.close)
            print(json.dumps([name, [_told(t) for t in signature]]), file=self.process.stdin, flush=True)
            answer = self.process.stdout.readline()
        except OSError:  # no processes here, or it ended: then compile in this one
            answer = ""
        self.gave_up = not answer
        return answer == f"{name}\n"

    def close(self) -> None:
        """Let the other process end."""
        if self.process is not None and self.owner == os.getpid():
            with contextlib.suppress(OSError):
                self.process.stdin.close()
            self.process.wait()
            self.process.stdout.close()
            self.process = None

    @staticmethod
    def _start() -> subprocess.Popen:
        path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
        return subprocess.Popen(
            [sys.executable, "-c", _SERVE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=os.environ | {"PYTHONPATH": path},
            start_new_session=True,  # Ctrl-C is for the program; this process ends when its input does
        )
