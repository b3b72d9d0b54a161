"""The standard streams of a command, which must not end it: `run_command` is how every command is started.

A stream may lack a character, be a terminal that obeys control codes, be closed, or be read no longer, as that of
`tinytensor ... | head`.
"""

import io
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import TextIO

from tinytensor.interop.io.files import NotWritten, reason_of
from tinytensor.native.platform.operating_system import utf8_pipes

ENDED = 128 + 13  # the exit code that a shell gives for a program that SIGPIPE ended, which Windows does not know
MODES = {"stdin": "r", "stdout": "w", "stderr": "w"}
NAMES = {"stdout": "the standard output", "stderr": "the standard error"}

# Each control code as a picture of it: ESC as ␛. A tab and a line end stay, and those of the range C1 have no pictures.
PICTURES = {i: 0x2400 + i for i in range(32) if chr(i) not in "\t\n"} | {0x7F: 0x2421}
PICTURES |= dict.fromkeys(range(0x80, 0xA0), 0xFFFD)


class Output:
    """A standard stream to write to: an error names it, and a terminal gets no control code of a text.

    With `returns` it gets carriage returns, with which a progress bar begins its line anew.
    """

    def __init__(self, stream: TextIO, name: str, returns: bool = False):
        self._stream, self._name = stream, name
        self._pictures = {}
        if stream.isatty():
            self._pictures = {code: picture for code, picture in PICTURES.items() if not (returns and code == 13)}

    def write(self, text: str) -> int:
        """Write the text, to a terminal with pictures in place of control codes; return its length."""
        with self._naming():
            self._stream.write(text.translate(self._pictures) if self._pictures else text)
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write several texts."""
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        """Write what waits in the buffer."""
        with self._naming():
            self._stream.flush()

    @contextmanager
    def _naming(self) -> Iterator[None]:
        try:
            yield
        except BrokenPipeError:
            raise
        except OSError as error:
            raise NotWritten(f"{self._name} cannot be written: {reason_of(error)}") from error

    def __getattr__(self, name: str):
        return getattr(self._stream, name)


def run_command(run: Callable[[], int]) -> int:
    """Return `run()`, the exit code of a command; ENDED, without a message, once the reader of its output has ended.

    Meanwhile the standard streams take any text: see `any_text_shown`. If something cannot be written, a sentence says
    so, and the exit code is 1.
    """
    code = 0
    with any_text_shown():
        try:
            try:
                code = run()
            finally:
                sys.stdout.flush()  # when Python does so at its end, it prints an error of its own
        except BrokenPipeError:
            code = ENDED
        except NotWritten as error:
            if code == 0:  # else the command has reported it
                with suppress(OSError):
                    print(error, file=sys.stderr)
            code = 1
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except OSError:  # Python writes the rest once more when it ends: to a file that takes it
                with open(os.devnull, "wb") as nothing:
                    os.dup2(nothing.fileno(), stream.fileno())
                code = code or 1
    return code


@contextmanager
def any_text_shown() -> Iterator[None]:
    """In the block, the standard streams take any text.

    Pipes and files are UTF-8. A stream that lacks a character shows its number, ∂ as \\u2202. Terminals get no control
    codes. A stream that is closed is read as empty, and what is written to it is dropped.
    """
    before = {name: getattr(sys, name) for name in MODES}
    with ExitStack() as stack:
        try:
            for name, mode in MODES.items():  # in the order of their numbers: a file that is opened takes the least one
                if before[name] is None or getattr(before[name], "closed", False):
                    nothing = stack.enter_context(open(os.devnull, mode, encoding="utf-8"))
                    setattr(sys, name, nothing)
            utf8_pipes()
            for name, words in NAMES.items():
                stream = getattr(sys, name)
                if isinstance(stream, io.TextIOWrapper) and stream.errors in ("strict", "surrogateescape"):
                    stream.reconfigure(errors="backslashreplace")
                if stream.isatty():
                    _leave_out_colours(stack)
                if not isinstance(stream, Output):
                    setattr(sys, name, Output(stream, words, returns=name == "stderr"))
            yield
        finally:
            for name, stream in before.items():
                setattr(sys, name, stream)


def _leave_out_colours(stack: ExitStack) -> None:
    """Let Python write no colours, which are control codes: from 3.13 on in tracebacks, from 3.14 on in help."""
    if "NO_COLOR" not in os.environ:
        os.environ["NO_COLOR"] = "1"
        stack.callback(os.environ.pop, "NO_COLOR", None)
