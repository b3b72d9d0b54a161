"""The page of questions: what its rows name exists, most are answered, and the site's search finds the lessons."""

from pathlib import Path

import jupytext
import pytest

from examples.site import building, questions
from examples.site.pages import Site
from examples.site.running import Cell, Lesson
from tests.tools.browser import chromium

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / questions.PAGE).read_text()
QUESTIONS = questions.rows(TEXT)
ANSWERED = 45  # at least so many have the answer "yes"
FIRST = 3  # among so many results stands a lesson that answers the question
SEARCH = """
    const [queries, withIndex] = arguments;
    const entries = Search._index.indexentries;
    if (!withIndex) Search._index.indexentries = {};
    const results = query => Search._performSearch(...Search._parseQuery(query)).reverse();
    const pages = queries.map(query => results(query).map(page => page[0]));
    Search._index.indexentries = entries;
    return pages;
"""


def test_each_row_names_what_exists():
    assert questions.faults(QUESTIONS) == []
    assert (
        len({each.text for each in QUESTIONS})
        == len(QUESTIONS)
        == TEXT.count("\n| ") - TEXT.count("| question |")
        == 50
    )
    assert sum(each.answered == "yes" for each in QUESTIONS) >= ANSWERED


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("3: Why zero_grad, and why not twice? | 3.1", "3: Why zero? | 3.1", "no section (3, 'Why zero?')"),
        ("| 7 | | yes |", "| 99 | | yes |", "no section (99, '')"),
        ("3.1, 4.2", "3.5, 4.2", "no exercise 3.5"),
        ("3.1, 4.2", "3.1, build 11", "no exercise build 11"),
        (
            "| 9: The mask; 20: The faults | | yes |",
            "| | | yes |",
            "yes: Why does a row that is masked altogether give NaN?",
        ),
    ],
)
def test_wrong_row_is_found(old, new, fault):
    assert old in TEXT
    assert questions.faults(questions.rows(TEXT.replace(old, new, 1))) == [fault]


def test_rows_become_links_to_what_the_site_has():
    documents = {"examples/03_chain_rule.py", "examples/exercises/03_chain_rule.py", "examples/README.md"}
    row = next(line for line in TEXT.splitlines() if line.startswith("| Why set gradients"))
    *_, section, exercises, answered, _ = questions.with_links(row, documents).split(" |")
    assert section == " [3: Why zero_grad, and why not twice?](03_chain_rule.py#why-zero_grad-and-why-not-twice)"
    assert exercises == " [3.1](exercises/03_chain_rule.py#1--predict-backward-in-a-loop), 4.2"
    assert answered == " yes"


@pytest.fixture(scope="module")
def searched(tmp_path_factory) -> Path:
    """The page for a search in the course, whose lessons were not run: it has no outputs and no API."""
    folder = tmp_path_factory.mktemp("searched")
    (folder / "extra").mkdir()

    def read(script: Path) -> Lesson:
        cells = [Cell(each.cell_type, each.source) for each in jupytext.read(script).cells]
        return Lesson(script.stem, cells, folder, 0.0)

    scripts = sorted((ROOT / "examples").glob("[0-9]*.py"))
    sheets = [script.parent / "exercises" / script.name for script in scripts]
    site = Site(folder / "sources", folder / "extra", [*map(read, scripts)], [*map(read, sheets)])
    site.front_page()
    for lesson in site.lessons:
        site.lesson_page(lesson, {})
        site.solution_page(lesson)
    for lesson in site.exercises:
        site.exercise_page(lesson)
    for source in site.documents:
        if source.endswith(".md") and source != "README.md":
            site.text_page(source)
    site.contents([])
    site.write()
    building.build(site.folder, site.extra, folder / "work")
    return folder / "work" / "html" / "search.html"


def missed(results: dict[str, list[str]]) -> list[str]:
    """The searches that show no lesson with an answer among the first results."""
    result = []
    for each in QUESTIONS:
        lessons = {f"lessons/{questions.file_of(lesson).stem}" for lesson, _ in each.sections}
        result += [
            query for query in (each.text, *each.words) if lessons and lessons.isdisjoint(results[query][:FIRST])
        ]
    return result


# myst-parser uses names that Sphinx will give up
@pytest.mark.filterwarnings("ignore:.*is deprecated. Check CHANGES for Sphinx")
def test_search_finds_the_lesson_by_the_words_of_learners(searched):
    queries = [query for each in QUESTIONS for query in (each.text, *each.words)]
    with chromium() as driver:
        driver.get(f"{searched.as_uri()}?q=gradient")
        with_index, without = (dict(zip(queries, driver.execute_script(SEARCH, queries, on))) for on in (True, False))
    assert missed(with_index) == []
    assert {"greedy", "post-norm", "AdamW"} <= set(missed(without))  # what the page's words add


def test_field_of_the_page_leaves_the_rows_with_its_words(searched):
    with chromium() as driver:
        driver.get((searched.parent / "course" / "questions.html").as_uri())
        shown = lambda: [row.text for row in driver.find_elements("css selector", "tbody tr") if row.is_displayed()]  # noqa: E731
        assert len(shown()) == len(QUESTIONS)
        field = driver.find_element("css selector", "input.filter")
        field.send_keys("NaN row")
        assert len(shown()) == 1 and "masked altogether" in shown()[0]
        field.clear()
        field.send_keys("nosuchword")
        assert shown() == []
