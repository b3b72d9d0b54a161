"""Right answers get their points, and a handed-in file that fails or never ends costs its own points only."""

import csv
import subprocess
import sys
from pathlib import Path

import jupytext
import pytest

from examples.mark import __main__ as marking
from tests.tools.sampling_rate import THOROUGH

ROOT = Path(__file__).parents[2]
LESSON = "03_chain_rule"
KEY = (ROOT / "tests" / "examples" / "answers" / f"{LESSON}.py").read_text()
SOLVED = KEY.replace("def right_", "def answer_").replace("right_", "answer_")

PARTLY = """
import os, time
import tinytensor as tt

def answer_1(x, times):
    return 1 / 0

def answer_2(edges, last):
    while True:
        time.sleep(0.01)

def answer_3(x, c):
    os._exit(3)

def answer_4(edges, last):
    missing = dict.fromkeys(edges, 0)
    for targets in edges.values():
        for target in targets:
            missing[target] += 1
    order, ready = [], [last]
    while ready:
        order.append(ready.pop())
        for target in edges[order[-1]]:
            missing[target] -= 1
            if missing[target] == 0:
                ready.append(target)
    return order

def check_4(answer):  # the student's own check, which is not looked at
    return "right"

print("exercise 2:", check_4(answer_2(None, None)))
"""


def handed_in(folder: Path, student: str, text: str, name: str = f"{LESSON}.py") -> Path:
    file = folder / student / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


@pytest.fixture(scope="module")
def marked(tmp_path_factory):
    """What the command prints of a folder, and the rows that it writes, by student and exercise."""
    folder = tmp_path_factory.mktemp("handed_in")
    notebook = jupytext.writes(jupytext.reads("# %%\n%time\n" + SOLVED, "py:percent"), "ipynb")
    handed_in(folder, "ada", notebook, f"{LESSON}.ipynb")
    handed_in(folder, "cem", "def answer_1(x, times):\n    return 2 x\n")
    handed_in(folder, "dora", "", "3_chain.py")
    handed_in(folder, "eva", "".join(f"def answer_{n}(*inputs):\n    return float('nan')\n" for n in "1234"))
    if THOROUGH:  # both have loops that never end, for which the command waits
        handed_in(folder, "ben", PARTLY)
        handed_in(folder, "dora", "import time\nwhile True:\n    time.sleep(0.01)\n")
    done = subprocess.run(
        [sys.executable, "-m", "examples.mark", folder, "--seconds=3", "--seeds=2", "--csv", folder / "points.csv"],
        capture_output=True, text=True, cwd=ROOT, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    with (folder / "points.csv").open(newline="") as file:
        rows = {(row["student"], int(row["exercise"])): row for row in csv.DictReader(file)}
    return done.stdout, rows


@pytest.mark.slow
def test_table_has_the_points_of_each_student(marked):
    printed, rows = marked
    lines = [line.split() for line in printed.splitlines()]
    assert lines[:3] == [["student", "03", "points"], ["ada", "8", "8"], ["ben", "3", "3"]]
    assert lines[3:7] == [["cem", "0", "0"], ["dora", "0", "0"], ["eva", "0", "0"], ["of", "8", "8"]]
    assert sum(int(row["points"]) for row in rows.values()) == 11 and len(rows) == 20


@pytest.mark.slow
def test_each_failure_costs_one_exercise(marked):
    said = {number: row["sentence"] for (student, number), row in marked[1].items() if student == "ben"}
    assert said == {
        1: "wrong: answer_1 stops with an error in 03_chain_rule.py, line 6: `return 1 / 0`: "
        "ZeroDivisionError: division by zero",
        2: "error: no result within 3 seconds; does a loop never end?",
        3: "error: the process ended by itself, with the code 3",
        4: "right",
    }


@pytest.mark.slow
def test_file_that_does_not_run_gets_a_sentence(marked):
    printed, rows = marked
    assert {rows["cem", n]["sentence"] for n in (1, 2, 3, 4)} == {"error: SyntaxError: invalid syntax (line 2)"}
    assert "3_chain.py: not marked: no lesson is called 3_chain" in printed


@pytest.mark.slow
def test_file_that_never_ends_gets_a_sentence(marked):
    said = {marked[1]["dora", n]["sentence"] for n in (1, 2, 3, 4)}
    assert said == {"error: no result within 3 seconds; does a loop never end?"}


def test_a_wrong_key_stops_the_marking(tmp_path, monkeypatch):
    handed_in(tmp_path, "key", KEY.replace("return 2 * x * times", "return 3 * x * times"))
    monkeypatch.setattr(marking, "KEY", tmp_path / "key")
    with pytest.raises(SystemExit, match=f"the key itself is not right in {LESSON}, exercise 1; nothing was marked"):
        marking.check_key(LESSON, [1], seeds=1)


def test_empty_folder_is_refused(tmp_path):
    with pytest.raises(SystemExit, match=r"no file to mark; expected files such as .*/STUDENT/03_chain_rule.py"):
        marking.mark(tmp_path, seconds=1, seeds=1, to=None)


def test_every_exercise_has_points(capsys):
    marking.show_points()
    printed = capsys.readouterr().out
    for sheet in marking.SHEETS.glob("[0-9]*.py"):
        result = marking.exercises(sheet)
        assert [e.number for e in result] == [1, 2, 3, 4] and all(1 <= e.points <= 3 for e in result)
        assert f"{sheet.stem}: {sum(e.points for e in result)} points" in printed
