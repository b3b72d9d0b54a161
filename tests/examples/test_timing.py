"""The command that measures the course prints a row for each lesson, and the lecturers' page has such rows."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from examples.timing import __main__ as command

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "examples" / "lecturers.md").read_text()


def faults(page: str) -> list[str]:
    """Lessons without a row, and rows whose minutes are not those of the course's table."""
    table = page.partition(command.HEAD)[2].partition("\n\n")[0]
    rows = {int(lesson): int(minutes) for lesson, minutes in re.findall(r"^\| (\d+) \| (\d+) \|", table, re.MULTILINE)}
    return [f"lesson {n}: {rows.get(n)}, not {m}" for n, m in command.reading().items() if rows.get(n) != m]


def test_lecturers_page_has_a_row_for_each_lesson():
    assert len(command.reading()) == len([*(ROOT / "examples").glob("[0-9]*.py")])
    assert faults(PAGE) == []
    assert faults(re.sub(r"\n\| 3 \| 20 \|", "\n| 3 | 90 |", PAGE)) == ["lesson 3: 90, not 20"]


def test_a_lesson_is_measured_and_an_unknown_one_named():
    run = [sys.executable, "-m", "examples.timing"]
    said = subprocess.run([*run, "2"], capture_output=True, text=True, cwd=ROOT).stdout
    head, (row, total) = said.splitlines()[:2], said.splitlines()[2:]
    assert "\n".join(head) == command.HEAD and row.startswith("| 2 | 20 | ") and total.startswith("| all | 20 | ")
    assert all(1 <= int(cell) < 600 for cell in re.findall(r"\d+", row)[2:4])  # the lesson alone takes a second
    done = subprocess.run([*run, "77"], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 2 and "there is no lesson 77; the lessons are 0 to " in done.stderr


def test_failing_lesson_is_named(tmp_path):
    (tmp_path / "99_bad.py").write_text("1 / 0\n")
    with pytest.raises(SystemExit, match=r"99_bad.py failed:\n(.|\n)*ZeroDivisionError"):
        command.lesson(tmp_path / "99_bad.py")
