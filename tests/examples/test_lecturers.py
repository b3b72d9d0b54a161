"""The page for lecturers: each lesson has a week, each exercise one sheet, and the version is the project's."""

import re
import tomllib
from pathlib import Path

from examples.mark.__main__ import SHEETS, exercises

ROOT = Path(__file__).parents[2]
COURSE = (ROOT / "examples" / "README.md").read_text()
PAGE = (ROOT / "examples" / "lecturers.md").read_text()
LESSONS = sorted(int(path.name[:2]) for path in (ROOT / "examples").glob("[0-9]*.py"))


def weeks(text: str) -> list[int]:
    """The lessons of the plan of twelve weeks, in its order."""
    plan = text.partition("## Twelve weeks")[2].partition("\n## ")[0]
    return [int(n) for cell in re.findall(r"^\| \d+ \| ([\d, ]+) \|", plan, re.MULTILINE) for n in cell.split(",")]


def on_sheets(text: str) -> list[tuple[int, int]]:
    """The exercises of the problem sheets as (lesson, number): "3.1 to 3.3, 3.4" are four."""
    sheets = text.partition("## Problem sheets")[2].partition("\n## ")[0]
    results = []
    for row in re.findall(r"^\| \d+ (\|.*\|)$", sheets, re.MULTILINE):
        for lesson, first, last in re.findall(r"(\d+)\.(\d)(?: to \d+\.(\d))?", row):
            results += [(int(lesson), number) for number in range(int(first), int(last or first) + 1)]
    return results


def ways(course: str, plans: str) -> list[list[int]]:
    """The lessons of each way through the course, and of both plans of weeks, in their order."""
    sentences = course.partition("**Three ways through.** ")[2].partition("\n\n")[0]
    results = [[int(n) for n in re.findall(r"\d+", way)] for way in re.split(r"(?<=\.)\s+(?=An? )", sentences)]
    short = plans.partition("## Six weeks")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| \d+ \| ([^|]+) \| ([^|]+) \|$", short, re.MULTILINE)
    read = [f"{lessons} {others if 'as reading' in others else ''}" for lessons, others in rows]
    return [*results, weeks(plans), [int(n) for n in re.findall(r"\d+", " ".join(read))]]


def broken(course: str, plans: str) -> list[str]:
    """Where a way takes a lesson before one that the course's table wants to be read before it."""
    rows = re.findall(r"^\| `(\d\d)_\w+\.py`[^|]*\| \d+ \| ([^|]*) \|", course, re.MULTILINE)
    before = {int(lesson): set(map(int, re.findall(r"\d+", needs))) for lesson, needs in rows}
    return [
        f"way {number}: {missing} for {lesson}"
        for number, way in enumerate(ways(course, plans), 1)
        for i, lesson in enumerate(way)
        if (missing := sorted(before[lesson] - set(way[:i])))
    ]


def test_each_way_through_takes_what_a_lesson_needs_before_it():
    sizes = [len(way) for way in ways(COURSE, PAGE)]
    assert sizes[3] == len(LESSONS) and all(n >= least for n, least in zip(sizes, [14, 18, 11, 23, 18], strict=True))
    assert broken(COURSE, PAGE) == []
    assert all(8 in way for way in ways(COURSE, PAGE)[:3])
    assert broken(COURSE.replace("9, 10, 11, 12, 13", "9, 10, 11, 13"), PAGE) == ["way 2: [12] for 13"]
    assert broken(COURSE, PAGE.replace("11 and 12 as", "12 as")) == ["way 5: [11] for 13"]


def test_each_lesson_has_one_week():
    assert sorted(weeks(PAGE)) == LESSONS


def test_each_exercise_stands_on_one_sheet():
    result = on_sheets(PAGE)
    assert sorted(result) == [(lesson, number) for lesson in LESSONS for number in (1, 2, 3, 4)]
    for sheet in SHEETS.glob("[0-9]*.py"):
        assert {(int(e.lesson[:2]), e.number) for e in exercises(sheet)} <= set(result)


def test_missing_lesson_or_exercise_is_found():
    assert 13 not in weeks(PAGE.replace("| 9 | 13, ", "| 9 | "))
    assert (5, 4) not in on_sheets(PAGE.replace("5.1 to 5.4", "5.1 to 5.3"))
    assert (
        on_sheets(PAGE).count((4, 4)) == 1 and on_sheets(PAGE.replace("| 9.1 to", "| 4.4, 9.1 to")).count((4, 4)) == 2
    )


def test_cited_version_is_the_projects():
    (cited,) = re.findall(r"version = \{(.+)\}", PAGE)
    assert cited == tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert f'"tinytensor {cited}, lesson 3' in PAGE
