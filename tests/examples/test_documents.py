"""Words that a learner meets have a row in the table, and stand in the lesson that their row names first."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "examples" / "documents.md").read_text().partition("## The words")[2]
NEEDED = {"AdamW", "decoder", "encoder", "epoch", "head", "Hessian", "learning rate", "loss", "mask", "nat", "padding"}
NEEDED |= {"parameter", "batch size"}


def rows(page: str) -> list[tuple[list[str], list[str]]]:
    """The words of each row, and the numbers of the lessons and exercises that it names."""
    results = re.findall(r"^\| (\*\*.+?) \| .+ \| (.+?) \|$", page, re.MULTILINE)
    return [(re.findall(r"\*\*(.+?)\*\*", words), re.findall(r"\d+(?:\.\d)?", where)) for words, where in results]


def absent(page: str) -> list[tuple[str, str]]:
    """Needed words that do not stand in the lesson, or the file of exercises, which their row names first."""
    results = []
    for words, (number, *_) in [row for row in rows(page) if NEEDED.intersection(row[0])]:
        folder = ROOT / "examples" / ("exercises" if "." in number else "")
        (file,) = folder.glob(f"{int(number.partition('.')[0]):02}_*.py")
        text = re.sub(r"\n# ?|\s+", " ", file.read_text()).lower()
        results += [(word, number) for word in NEEDED.intersection(words) if word.lower() not in text]
    return results


def test_words_have_rows_and_stand_where_these_say():
    assert {word for words, _ in rows(PAGE) for word in words} >= NEEDED
    assert absent(PAGE) == []
    assert absent(PAGE.replace("| lesson 16 |", "| lesson 9 |")) == [("Hessian", "9")]
