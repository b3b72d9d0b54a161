"""Marks exercises that students handed in: runs the course's checks on their answers, and prints a table of points.

    python -m examples.mark FOLDER                     # FOLDER/ada/03_chain_rule.py, FOLDER/ben/03_chain_rule.py ...
    python -m examples.mark FOLDER --csv points.csv    # also a row for each exercise, with the sentence of its check
    python -m examples.mark --points                   # all exercises: stars, kind, title

A student has a folder, and hands in one file for each lesson: the file with its exercises (or the notebook made of it,
.ipynb), under its own name, with the answers written in. An exercise gives as many points as it has stars. The checks
are the course's own; those in the student's file are not looked at. All students meet the same random cases.

Each file runs in a process of its own, in an empty folder. If it fails or does not end, a sentence says so, and all
other files are marked; so are its own exercises behind the one that stopped it. But a process is no sandbox: it may do
what you may do. Mark the files of students whom you do not know in a container.

At first the key (tests/examples/answers) is marked in the same way. It must get all points, else something is wrong
with this machine, and it compiles the kernels that the checks need, so that no student's time is lost with it.
"""

import argparse
import csv
import json
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from examples.mark.child import ROOT, STARTING, run_python
from tinytensor.cli.output import run_command
from tinytensor.interop.io.files import writing

SHEETS = ROOT / "examples" / "exercises"
KEY = ROOT / "tests" / "examples" / "answers"
WORKER = Path(__file__).with_name("worker.py")
KEY_SECONDS = STARTING  # for a lesson's key, whose kernels may have to be compiled


@dataclass(frozen=True)
class Exercise:
    """An exercise of a lesson, as the heading in its file says: `# ## 2 ★★ Find the bug: each node once`."""

    lesson: str
    number: int
    points: int
    kind: str
    title: str


def exercises(sheet: Path) -> list[Exercise]:
    headings = re.findall(r"^# ## (\d) (★+) ([\w ]+): (.+)$", sheet.read_text(encoding="utf-8"), re.MULTILINE)
    return [Exercise(sheet.stem, int(number), len(stars), kind, title) for number, stars, kind, title in headings]


def run(file: Path, sheet: Path, numbers: list[int], seconds: float, seeds: int, key: bool = False) -> dict[int, str]:
    """What the course's checks say of the answers in a file, by the exercises' numbers: "right", or what is wrong."""
    said: dict[int, str] = {}
    with tempfile.TemporaryDirectory() as folder:
        results = Path(folder) / "results.jsonl"
        while left := [number for number in numbers if number not in said]:
            results.write_text("", encoding="utf-8")
            ended = _process(folder, file, sheet, results, left, seconds, seeds, key)
            lines = results.read_text(encoding="utf-8").splitlines(keepends=True)
            news = [json.loads(line) for line in lines if line.endswith("\n")]  # not a line that was cut off
            said |= {number: sentence for number, sentence in news if number in left}
            missing = [number for number in left if number not in said]
            if ["loaded", ""] not in news:  # the file itself does not end: it would not for any exercise
                said |= dict.fromkeys(missing, ended)
            elif missing:
                said[missing[0]] = ended  # and the exercises behind it get another process
    return said


def _process(folder: str, file: Path, sheet: Path, results: Path, numbers: list[int], seconds, seeds, key) -> str:
    """Run worker.py, and say how it ended."""
    asked = json.dumps([str(file.resolve()), str(sheet), str(results), numbers, seeds, key])
    nowhere = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
    # The time before the student's file begins is the machine's, not the student's.
    code = run_python([WORKER, asked], seconds, results, {"NUMBA_NUM_THREADS": "1"}, cwd=folder, **nowhere)
    if code is None:
        return f"error: no result within {seconds:g} seconds; does a loop never end?"
    return f"error: the process ended by itself, with the code {code}"


def handed_in(folder: Path) -> tuple[dict[tuple[str, str], Path], list[str]]:
    """The files by student and lesson, and a sentence for each file that cannot be marked."""
    found: dict[tuple[str, str], Path] = {}
    unknown = []
    for file in sorted(path for path in folder.glob("*/*") if path.suffix in (".py", ".ipynb")):
        place = file.parent.name, file.stem
        if not (SHEETS / f"{file.stem}.py").exists():
            unknown.append(f"{file}: not marked: no lesson is called {file.stem}")
        elif place in found:
            unknown.append(f"{file}: not marked: {found[place].name} was handed in, too")
        else:
            found[place] = file
    return found, unknown


def table(students: list[str], lessons: list[str], points: dict[tuple[str, str], int], most: dict[str, int]) -> str:
    """Points by student and lesson; a dash where no file was handed in."""
    wide = max(map(len, ["student", *students]))
    rows = [["student".ljust(wide), *[lesson[:2] for lesson in lessons], "points"]]
    for student in students:
        each = [points.get((student, lesson)) for lesson in lessons]
        shown = ["-" if p is None else str(p) for p in each]
        rows.append([student.ljust(wide), *shown, str(sum(filter(None, each)))])
    rows.append(["of".ljust(wide), *[str(most[lesson]) for lesson in lessons], str(sum(most.values()))])
    return "\n".join("  ".join([first, *[f"{cell:>6}" for cell in others]]) for first, *others in rows)


def mark(folder: Path, seconds: float, seeds: int, to: Path | None) -> None:
    files, unknown = handed_in(folder)
    if not files:
        wanted = f"{folder}: no file to mark; expected files such as {folder}/STUDENT/03_chain_rule.py"
        sys.exit("\n".join([wanted, *unknown]))
    lessons = sorted({lesson for _, lesson in files})
    sheets = {lesson: exercises(SHEETS / f"{lesson}.py") for lesson in lessons}
    for lesson in lessons:
        print(f"the key of {lesson} ...", file=sys.stderr)
        check_key(lesson, [exercise.number for exercise in sheets[lesson]], seeds)

    rows, points = [], {}
    for (student, lesson), file in files.items():
        print(f"{student}, {lesson} ...", file=sys.stderr)
        said = run(file, SHEETS / f"{lesson}.py", [e.number for e in sheets[lesson]], seconds, seeds)
        got = {e.number: e.points * (said[e.number] == "right") for e in sheets[lesson]}
        points[student, lesson] = sum(got.values())
        rows += [(student, lesson, e.number, got[e.number], e.points, said[e.number]) for e in sheets[lesson]]

    most = {lesson: sum(e.points for e in sheets[lesson]) for lesson in lessons}
    print(table(sorted({student for student, _ in files}), lessons, points, most), "\n")
    for student, lesson, number, _, _, sentence in rows:
        if sentence != "right":
            print(f"{student}, {lesson[:2]}.{number}: {sentence}")
    for sentence in unknown:
        print(sentence)
    if to is not None:
        with writing("the points", to), to.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([("student", "lesson", "exercise", "points", "of", "sentence"), *rows])


def check_key(lesson: str, numbers: list[int], seeds: int) -> None:
    said = run(KEY / f"{lesson}.py", SHEETS / f"{lesson}.py", numbers, KEY_SECONDS, seeds, key=True)
    for number, sentence in said.items():
        if sentence != "right":
            sys.exit(f"the key itself is not right in {lesson}, exercise {number}; nothing was marked: {sentence}")


def show_points() -> None:
    for sheet in sorted(SHEETS.glob("[0-9]*.py")):
        found = exercises(sheet)
        print(f"{sheet.stem}: {sum(e.points for e in found)} points")
        for e in found:
            print(f"    {sheet.stem[:2]}.{e.number} {'★' * e.points:<4}{e.kind}: {e.title}")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m examples.mark", description=__doc__.partition("\n")[0])
    parser.add_argument("folder", nargs="?", type=Path, help="the folder that holds a folder for each student")
    parser.add_argument("--csv", type=Path, metavar="FILE", help="write a row for each exercise")
    parser.add_argument("--points", action="store_true", help="print all exercises with their stars, and do no more")
    parser.add_argument("--seconds", type=float, default=30, help="the most that a file may take (default: 30)")
    parser.add_argument("--seeds", type=int, default=5, help="random cases for each answer (default: 5)")
    chosen = parser.parse_args()
    if chosen.points:
        show_points()
    elif chosen.folder is None or not chosen.folder.is_dir():
        parser.error(f"{chosen.folder} is no folder" if chosen.folder else "name the folder with the students' folders")
    else:
        mark(chosen.folder, chosen.seconds, chosen.seeds, chosen.csv)
    return 0


if __name__ == "__main__":
    sys.exit(run_command(main))
