"""Another process that compiles: what a kernel computes does not depend on who ran it first.

Numba puts the loop of a `prange` into a function of its own, optimises that, and optimises it again as a part of the
whole kernel. A process that has compiled a kernel runs the first of the two, one that finds it in the cache the second;
both may add up the terms of a sum in different orders (seen in softmax, cross_entropy and layer_norm_backward), and
the first may be slower. So kernels are compiled by a process that runs none of them, and read from the cache.
"""

import atexit
import contextlib
import os
import pickle
import subprocess
import sys

_SERVE = "from tinytensor.kernels import build, kernel; build.serve(kernel.KERNELS)"


def serve(kernels: dict) -> None:
    """In the other process: compile what is asked for, until nobody asks."""
    answers, sys.stdout = sys.stdout.buffer, sys.stderr  # nothing else may be written between the answers
    while True:
        try:
            name, signature = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        kernels[name].dispatcher.compile(signature)
        pickle.dump(name, answers)
        answers.flush()


class Builder:
    """The other process as seen from here; it is started when the first kernel has to be compiled."""

    def __init__(self):
        self.process: subprocess.Popen | None = None
        self.gave_up = False

    def build(self, name: str, signature: tuple) -> bool:
        """Have a kernel compiled into the cache; False if that cannot be done here."""
        if self.gave_up:
            return False
        try:
            if self.process is None:
                self.process = self._start()
                atexit.register(self.close)
            pickle.dump((name, signature), self.process.stdin)
            self.process.stdin.flush()
            return pickle.load(self.process.stdout) == name
        except (OSError, EOFError, pickle.PickleError):  # no processes here, or it ended: then compile in this one
            self.gave_up = True
            return False

    def close(self) -> None:
        """Let the other process end."""
        if self.process is not None:
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
            env=os.environ | {"PYTHONPATH": path},
            start_new_session=True,  # Ctrl-C is for the program; this process ends when its input does
        )
