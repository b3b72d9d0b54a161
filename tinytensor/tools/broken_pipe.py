"""The end of a command whose output is no longer read, as that of `tinytensor ... | head`."""

import os
import sys
from collections.abc import Callable

ENDED = 128 + 13  # the exit code that a shell gives for a program that SIGPIPE ended, which Windows does not know


def run_while_read(run: Callable[[], int]) -> int:
    """Return `run()`, the exit code of a command; ENDED, without a message, once the reader of its output has ended."""
    try:
        try:
            return run()
        finally:
            _write_the_rest()
    except BrokenPipeError:
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except BrokenPipeError:  # Python writes the rest once more when it ends: to a file that takes it
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        return ENDED


def _write_the_rest() -> None:
    """Write the rest of the output now: when Python does so at its end, it prints an error if the pipe is closed."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError:  # the disk is full, say: Python itself reports that at its end
        pass
