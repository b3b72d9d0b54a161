"""Walks through the course once, with the clock: runs each lesson, and the answers of the key to its exercises.

    python -m examples.timing             # all lessons, as a table of Markdown: some minutes
    python -m examples.timing 3 13        # these lessons
    python -m examples.timing --first     # as on a new machine: with an empty cache, so that kernels are compiled

A row has the minutes that a student needs, as in the table of the course, and what was measured: seconds by the
clock, and of the processor (all cores and processes together), for the lesson and for its exercises.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from examples.mark.__main__ import SHEETS, check_key, exercises
from examples.mark.child import ROOT
from tinytensor.cli.output import run_command

HEAD = """\
| lesson | minutes for a student | its run: seconds | of the processor | its exercises: seconds | of the processor |
|---|---|---|---|---|---|"""


def reading() -> dict[int, int]:
    """The minutes of the course's table, by lesson."""
    course = (ROOT / "examples" / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\d\d)_\w+\.py`[^|]*\| (\d+) \|", course, re.MULTILINE)
    return {int(lesson): int(minutes) for lesson, minutes in rows}


def measured(run: Callable[[], object]) -> tuple[float, float]:
    """Seconds by the clock, and of the processor in the processes that `run` started and waited for."""
    clock, before = time.perf_counter(), os.times()
    run()
    after = os.times()
    used = after.children_user - before.children_user + after.children_system - before.children_system
    return time.perf_counter() - clock, used


def lesson(script: Path) -> None:
    """Run a lesson as a script, in a folder of its own."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([sys.executable, script], cwd=folder, capture_output=True, encoding="utf-8")
    if done.returncode:
        sys.exit(f"{script.name} failed:\n{done.stderr[-2000:]}")


def walk(lessons: list[int]) -> None:
    """Run the lessons in their order, and print a row for each, and the sum."""
    print(HEAD, flush=True)
    rows = []
    for sheet in sorted(SHEETS.glob("[0-9]*.py")):
        number, numbers = int(sheet.stem[:2]), [exercise.number for exercise in exercises(sheet)]
        if number in lessons:
            run = measured(lambda sheet=sheet: lesson(ROOT / "examples" / sheet.name))
            key = measured(lambda sheet=sheet, numbers=numbers: check_key(sheet.stem, numbers, 1))
            rows.append((reading()[number], *run, *key))
            print(f"| {number} | {' | '.join(f'{value:.0f}' for value in rows[-1])} |", flush=True)
    print(f"| all | {' | '.join(f'{sum(column):.0f}' for column in zip(*rows, strict=True))} |")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m examples.timing", description=__doc__.partition("\n")[0])
    parser.add_argument("lessons", nargs="*", type=int, help="numbers of lessons (all)")
    parser.add_argument("--first", action="store_true", help="compile all kernels anew, in a cache of its own")
    options = parser.parse_args()
    if unknown := set(options.lessons) - set(reading()):
        parser.error(f"there is no lesson {unknown.pop()}; the lessons are {min(reading())} to {max(reading())}")
    with tempfile.TemporaryDirectory() as folder:
        if options.first:
            os.environ["NUMBA_CACHE_DIR"] = folder
        walk(options.lessons or list(reading()))
    return 0


if __name__ == "__main__":
    sys.exit(run_command(main))
