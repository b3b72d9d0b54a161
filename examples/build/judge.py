"""Runs the checks of some steps on a student's folder, and says of each function what is right and what is wrong.

`in_a_process` does this in a process of its own. Python's `faulthandler` ends this process if a call of the student's
code takes too long, and writes to a file in which line it was: so an endless loop ends with a sentence.
"""

import contextlib
import faulthandler
import importlib.util
import itertools
import json
import linecache
import sys
import tempfile
import traceback
import types
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from examples.build import steps
from examples.exercises.judge import Wrong, describe, running
from examples.mark.child import run_python

numbers = itertools.count()


@contextlib.contextmanager
def unstored() -> Iterator[None]:
    """Import without __pycache__: a file that changes twice in a second would be taken from there."""
    before, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        yield
    finally:
        sys.dont_write_bytecode = before


class Engine:
    """The student's package: `engine.tape.Tensor`. `running` guards each call of the student's code."""

    def __init__(self, folder: Path, limit: float = 0.0, trace: Path | None = None):
        self.folder, self.limit, self.trace, self.busy = folder.resolve(), limit, trace, False
        self.name = f"engine_{next(numbers)}"  # a new name each time: Python keeps modules that it has loaded
        package = types.ModuleType(self.name)
        package.__path__ = [str(self.folder)]
        sys.modules[self.name] = package

    def __getattr__(self, module: str) -> types.ModuleType:
        """The module of this name, loaded at its first use."""
        with self.running(f"importing {module}.py"), unstored():
            return importlib.import_module(f"{self.name}.{module}")

    @contextlib.contextmanager
    def running(self, what: str) -> Iterator[None]:
        """Run the student's code: an exception becomes a sentence with their line, and so does an endless loop.

        The time is that of the outermost call, if one runs within another.
        """
        timed = self.limit > 0 and not self.busy
        if timed:
            self.busy = True
            self.trace.write_text(what + "\n", encoding="utf-8")
            file = self.trace.open("a", encoding="utf-8")
            faulthandler.dump_traceback_later(self.limit, exit=True, file=file)
        try:
            with running(what, self.owns):
                yield
        finally:
            if timed:
                faulthandler.cancel_dump_traceback_later()
                file.close()
                self.busy = False

    def owns(self, frame: traceback.FrameSummary) -> bool:
        return Path(frame.filename).parent == self.folder

    def call(self, function: Callable, *arguments: Any, what: str = "") -> Any:
        with self.running(what or getattr(function, "__name__", str(function))):
            return function(*arguments)


def in_a_process(folder: Path, task: str, number: int, choice: int, limit: float) -> Any:
    """What a new process says: the results of `judge` for task "check", a sentence or "" for task "milestone".

    number: the step; choice: the seed of the checks, or the steps of training of the milestone. A process that ends
    early (an endless loop, a crash) gives a sentence in both cases.
    """
    with tempfile.TemporaryDirectory() as place:
        trace, result = Path(place) / "trace", Path(place) / "result"
        arguments = [str(folder), task, str(number), str(choice), str(limit), str(trace), str(result)]
        code = run_python(["-m", "examples.build.worker", *arguments])
        if result.exists():
            return json.loads(result.read_text(encoding="utf-8"))
        told = trace.read_text(encoding="utf-8") if trace.exists() else ""
        if "Timeout" in told:
            return describe_endless(told, folder, limit)
        return f"{told.strip() or 'The check'} ended the whole program with the code {code}."


def describe_endless(trace: str, folder: Path, limit: float) -> str:
    """What `faulthandler` wrote when the time was over, as a sentence."""
    what, *lines = trace.splitlines()
    place = ""
    for line in lines:  # the innermost frame comes first
        parts = line.split('"')
        if len(parts) == 3 and Path(parts[1]).parent == folder.resolve():
            number = int(parts[2].split("line ")[1].split()[0])
            place = (
                f" It was in {Path(parts[1]).name}, line {number}:\n    {linecache.getline(parts[1], number).strip()}\n"
            )
            break
    return (
        f"{what} did not end within {limit:g} seconds.{place or ' '}"
        "Is there a loop that never ends, or one that does the same work again and again?"
    )


def openings(folder: Path, file: str) -> tuple[list[str], str]:
    """The functions of a file that are still open, and a sentence if the file cannot be checked."""
    path = folder / file
    if not path.exists():
        return [], f"{file} is missing. Run the command without --check: it writes the file anew, with its holes."
    try:
        found = steps.functions(path.read_text(encoding="utf-8"))
    except SyntaxError as error:
        line = (error.text or "").strip()
        return [], f"Python cannot read {file}, line {error.lineno}: {error.msg}\n    {line}"
    except (UnicodeDecodeError, ValueError) as error:
        return [], f"{file} is no text in UTF-8: {error}"
    holes = steps.holes_of(file)
    for name in holes:
        if name not in found:
            return [], f"{file} has no function `{name}` any more. It must keep its name: later steps call it."
    return [name for name in holes if steps.is_open(found[name], holes[name])], ""


def check(engine: Engine, name: str, seed: int) -> None:
    """Check one function, such as "order.backward"; raise `Wrong` if it is wrong."""
    from examples.build.checks import CHECKS

    random = np.random.default_rng([seed, zlib.crc32(name.encode())])
    try:
        CHECKS[name](engine, random)
    except Wrong:
        raise
    except Exception as error:  # the check met something that it did not foresee
        raise Wrong(describe(error, engine.owns, f"the check of {name}")) from error


def judge(engine: Engine, last: int, seed: int) -> list[dict]:
    """Check the steps 1 to `last`, function by function; stop at the first that is open or wrong.

    Each entry says of a step: its number, the functions that are right, those that are open, and the sentence for the
    function that is wrong, "" if none is.
    """
    from examples.build.checks import functions_of

    results = []
    for step in steps.STEPS[:last]:
        result = {"step": step.number, "right": [], "open": [], "wrong": "", "function": ""}
        results.append(result)
        for file in step.files + step.early:
            missing, result["wrong"] = openings(engine.folder, file)
            if file in step.files:
                result["open"] += missing
            if result["wrong"]:
                return results
        for file in step.files:
            module = file.removesuffix(".py")
            for name in functions_of(file):
                if name in result["open"]:
                    return results
                try:
                    check(engine, f"{module}.{name}", seed)
                except Wrong as wrong:
                    result["wrong"], result["function"] = str(wrong), f"{name} in {file}"
                    return results
                result["right"].append(name)
    return results
