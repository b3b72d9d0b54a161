"""The standard streams of a command, which must not end it: `run_command` is how every command is started.

A stream may lack a character, be a terminal that obeys control codes, be closed, or be read no longer, as that of
`tinytensor ... | head`.
"""

import io
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TextIO

from tinytensor.cpython.systems import utf8_pipes

ENDED = 128 + 13  # the exit code that a shell gives for a program that SIGPIPE ended, which Windows does not know
ENDS = {"stdin": "r", "stdout": "w", "stderr": "w"}

# Each control code as a picture of it: ESC as ␛. A tab and a line end stay, and those of the range C1 have no pictures.
PICTURES = {i: 0x2400 + i for i in range(32) if chr(i) not in "\t\n"} | {0x7F: 0x2421}
PICTURES |= dict.fromkeys(range(0x80, 0xA0), 0xFFFD)


def without_control_codes(text: str) -> str:
    """The text with pictures in place of the control codes that a terminal would obey."""
    return text.translate(PICTURES)


class Terminal:
    """A terminal to write to, which gets no control code of a text.

    With `returns` it gets carriage returns, with which a progress bar begins its line anew.
    """

    def __init__(self, stream: TextIO, returns: bool = False):
        self._stream = stream
        self._pictures = {code: picture for code, picture in PICTURES.items() if not (returns and code == ord("\r"))}

    def write(self, text: str) -> int:
        """Write the text with pictures in place of control codes; return its length."""
        self._stream.write(text.translate(self._pictures))
        return len(text)

    def writelines(self, lines) -> None:
        """Write several texts."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str):
        return getattr(self._stream, name)


def run_command(run: Callable[[], int]) -> int:
    """Return `run()`, the exit code of a command; ENDED, without a message, once the reader of its output has ended.

    Meanwhile the standard streams take any text: see `any_text_shown`.
    """
    with any_text_shown():
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


@contextmanager
def any_text_shown() -> Iterator[None]:
    """In the block, the standard streams take any text.

    Pipes and files are UTF-8. A stream that lacks a character shows its number, ∂ as \\u2202. Terminals get no control
    codes. A stream that is closed is read as empty, and what is written to it is dropped.
    """
    before = {name: getattr(sys, name) for name in ENDS}
    with ExitStack() as stack:
        try:
            for name, mode in ENDS.items():  # in the order of their numbers: a file that is opened takes the least one
                if before[name] is None or getattr(before[name], "closed", False):
                    nothing = stack.enter_context(open(os.devnull, mode, encoding="utf-8"))
                    setattr(sys, name, nothing)
            utf8_pipes()
            for name in ("stdout", "stderr"):
                stream = getattr(sys, name)
                if isinstance(stream, io.TextIOWrapper) and stream.errors in ("strict", "surrogateescape"):
                    stream.reconfigure(errors="backslashreplace")
                if stream.isatty() and not isinstance(stream, Terminal):
                    _leave_out_colours(stack)
                    setattr(sys, name, Terminal(stream, returns=name == "stderr"))
            yield
        finally:
            for name, stream in before.items():
                setattr(sys, name, stream)


def _leave_out_colours(stack: ExitStack) -> None:
    """Let Python write no colours, which are control codes: from 3.13 on in tracebacks, from 3.14 on in help."""
    if "NO_COLOR" not in os.environ:
        os.environ["NO_COLOR"] = "1"
        stack.callback(os.environ.pop, "NO_COLOR", None)


def _write_the_rest() -> None:
    """Write the rest of the output now: when Python does so at its end, it prints an error if the pipe is closed."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError:  # the disk is full, say: Python itself reports that at its end
        pass
