"""The page of questions, `examples/questions.md`: its rows, and what they give to the site.

In the file a row names lessons, sections and exercises by numbers and titles. On the site these are links, the sections
stand in the index of the search under the question and its other words, and each lesson lists its questions.
"""

import re
from collections.abc import Container
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from examples.build.steps import STEPS
from examples.site.running import ROOT

PAGE = "examples/questions.md"
ANSWERED = ("yes", "in short", "not yet")
ROW = re.compile(r"^\| (.*?) \| (.*?) \| (.*?) ?\| (.*?) ?\| (.*?) \|$", re.MULTILINE)
FIELD = '<input class="filter" type="search" placeholder="words" aria-label="Show the questions with these words">'
BUILD = "README.md#build-your-own"


@dataclass
class Question:
    """A row: a question, other words for it, the sections and exercises that answer it, and how well they do."""

    text: str
    words: list[str]
    sections: list[tuple[int, str]]  # a lesson, and the title of a section, "" for the whole lesson
    exercises: list[str]  # "3.1", "build 3"
    answered: str


def slug(heading: str) -> str:
    """A heading as links name it, as on GitHub."""
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


def split(text: str, by: str) -> list[str]:
    return [each.strip() for each in text.split(by) if each.strip()]


def rows(text: str) -> list[Question]:
    """The questions of the page."""
    result = []
    for question, words, sections, exercises, answered in ROW.findall(text):
        if answered not in ANSWERED:
            continue  # the head of a table
        parts = [each.partition(": ") for each in split(sections, ";")]
        named = [(int(lesson), title) for lesson, _, title in parts]
        result.append(Question(question, split(words, ","), named, split(exercises, ","), answered))
    return result


def headings(file: Path) -> dict[str, str]:
    """The sections of a lesson or of a file of exercises: title without marks -> anchor."""
    titles = re.findall(r"^# ## (.+)$", file.read_text(encoding="utf-8"), re.MULTILINE)
    return {title.replace("`", ""): slug(title) for title in titles}


@cache
def file_of(lesson: int) -> Path | None:
    """The script of a lesson."""
    return next(iter(sorted((ROOT / "examples").glob(f"{lesson:02}_*.py"))), None)


def section_link(lesson: int, title: str) -> str | None:
    """Where a section stands, from `examples/`; None if there is none."""
    file = file_of(lesson)
    if file is None or (title and title not in headings(file)):
        return None
    return file.name + (f"#{headings(file)[title]}" if title else "")


def exercise_link(name: str) -> str | None:
    """Where an exercise stands, from `examples/`: "3.1", or "build 3" for a step; None if there is none."""
    if step := re.fullmatch(r"build (\d+)", name):
        return BUILD if 1 <= int(step[1]) <= len(STEPS) else None
    lesson, _, number = name.partition(".")
    file = file_of(int(lesson))
    anchors = headings(file.parent / "exercises" / file.name) if file else {}
    anchor = next((anchor for title, anchor in anchors.items() if title.startswith(f"{number} ")), None)
    return anchor and f"exercises/{file.name}#{anchor}"


def faults(questions: list[Question]) -> list[str]:
    """What a page of questions names that does not exist, and rows that say more than they name."""
    result = []
    for each in questions:
        result += [f"no section {section}" for section in each.sections if section_link(*section) is None]
        result += [f"no exercise {name}" for name in each.exercises if exercise_link(name) is None]
        if (each.answered == "not yet") == bool(each.sections or each.exercises):
            result.append(f"{each.answered}: {each.text}")
    return result


def with_links(text: str, documents: Container[str]) -> str:
    """The page with links in place of the names of sections and exercises that stand in these files of the project.

    Above the tables stands a field, which hides the rows without its words (`site.js`).
    """

    def link(name: str, to: str | None) -> str:
        return f"[{name}]({to})" if to and f"examples/{to.partition('#')[0]}" in documents else name

    def linked(row: re.Match) -> str:
        question, words, sections, _, answered = row.groups()
        if answered not in ANSWERED:
            return row[0]
        (read,) = rows(row[0])
        named = zip(split(sections, ";"), (section_link(*section) for section in read.sections))
        answers = "<br>".join(link(*each) for each in named)
        tried = ", ".join(link(name, exercise_link(name)) for name in read.exercises)
        return f"| {question} | {words} | {answers} | {tried} | {answered} |"

    return ROW.sub(linked, text).replace("\n## ", f"\n```{{raw}} html\n<p>{FIELD}</p>\n```\n\n## ", 1)


def entries(questions: list[Question]) -> str:
    """Entries of the search's index, which lead to where they stand."""
    terms = [term for each in questions for term in (each.text, *each.words)]
    return "\n\n".join(f"```{{index}} ! single: {term}\n```" for term in terms)


def with_entries(text: str, lesson: int, questions: list[Question]) -> str:
    """A text of a lesson, with entries of the search's index below the headings of sections that answer questions."""

    def marked(heading: re.Match) -> str:
        title = heading[2].replace("`", "") if heading[1] == "##" else ""
        here = [each for each in questions if (lesson, title) in each.sections]
        return f"{heading[0]}\n\n{entries(here)}" if here else heading[0]

    return re.sub(r"^(##?) (.+)$", marked, text, flags=re.MULTILINE)


def listed(lesson: int, questions: list[Question]) -> str:
    """The questions that a lesson answers, as the end of its page."""
    asked = "\n".join(f"- {each.text}" for each in questions if lesson in dict(each.sections))
    return (
        asked
        and f"\n## Questions\n\n[Questions of learners](../course/questions.md) that have an answer here:\n\n{asked}\n"
    )
