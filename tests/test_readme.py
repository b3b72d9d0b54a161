"""What the READMEs say: programs run, links lead somewhere, counts are true, the test command is the whole check's."""

import ast
import io
import re
import subprocess
import sys
import tokenize
from functools import cache
from pathlib import Path

import pytest
from forks import forks

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
FOLDERS = (".", "models", "derivations", "examples", "tests/benchmarks")
TEXTS = {folder: (ROOT / folder / "README.md").read_text() for folder in FOLDERS}
TEXTS["models"] += (ROOT / "models" / "parallel.md").read_text()
for page in ("documents", "lecturers", "to_pytorch"):
    TEXTS["examples"] += (ROOT / "examples" / f"{page}.md").read_text()
PROGRAMS = [program for text in TEXTS.values() for program in re.findall(r"```python\n(.*?)```", text, re.DOTALL)]
FIRST = next(program for program in PROGRAMS if "w.flatten()" in program)


def run(*arguments: str, code: str | None = None) -> str:
    done = subprocess.run([sys.executable, *arguments], input=code, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def printed():
    """`printed(program)`: what a program prints where warnings are errors; each is run once for all tests."""
    with forks("tinytensor", "tinytensor.symbolic", PYTHONPATH=str(ROOT)) as process:

        @cache
        def run_once(program: str) -> str:
            done = process.run(code=program, cwd=ROOT)
            assert done.returncode == 0, done.stderr
            return done.stdout

        yield run_once


@pytest.mark.parametrize("number", range(len(PROGRAMS)))
def test_readme_programs_run(number, printed):
    printed(PROGRAMS[number])


def test_the_first_program_finds_the_weights(printed):
    weights = [float(w) for w in printed(FIRST).strip("[]\n").split(",")]
    assert weights == pytest.approx([1.0, -2.0, 0.5], abs=1e-2)


def test_pytorch_program_differs_only_in_its_import():
    other, _ = re.findall(r"```py\n(.*?)```", README, re.DOTALL)
    assert other.replace("import torch as tt", "import tinytensor as tt") == FIRST


def test_functions_written_for_pytorch_are_proved_as_shown():
    pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'tinytensor[bench]'")
    _, program = re.findall(r"```py\n(.*?)```", README, re.DOTALL)
    shown = re.findall(r"# (proved|refuted|also)", program)
    verdicts = re.findall(r"^(proved|refuted):", run("-", code=program), re.MULTILINE)
    assert shown == ["proved", "refuted", "also"] and verdicts == ["proved", "refuted", "proved"]


def shown_with_outputs(text: str) -> list[tuple[str, str]]:
    """The programs of a text whose output it shows, after a sentence that ends with "prints"; each with its output."""
    return re.findall(r"```python\n((?:(?!```).)*)```\n\n(?:(?!```)[^#])*?prints:?\n\n```\n(.*?)```", text, re.DOTALL)


def test_programs_print_what_is_shown(printed):
    shown = shown_with_outputs(README)
    assert ["print(x.grad)" in program for program, _ in shown] == [True, False, False]
    for program, output in shown:
        assert printed(program) == output


def test_outputs_are_found():
    assert shown_with_outputs("```python\na\n```\n\nIt prints\n\n```\nb\n```\n") == [("a\n", "b\n")]
    assert shown_with_outputs("```python\na\n```\n\nAnd so on.\n\n```\nb\n```\n") == []
    assert shown_with_outputs("```python\na\n```\n\n## Next\n\nIt prints\n\n```\nb\n```\n") == []


def headings(text: str) -> set[str]:
    """The headings of a text, as GitHub writes them in links."""
    found = re.findall(r"^#+ (.*)$", re.sub(r"```.*?```", "", text, flags=re.DOTALL), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in found}


def dead_links(folder: str, text: str) -> list[str]:
    """The links and pictures of a text in this folder that lead to no file of the project, or to no heading."""
    links = re.findall(r"\]\(([^)\s]+)\)", text) + re.findall(r'<img src="([^"]+)"', text)
    inside = {f"#{heading}" for heading in headings(text)}
    links = [link for link in links if not re.match(r"https?:", link) and link not in inside]
    return [link for link in links if not (ROOT / folder / link).exists()]


def test_dead_links_are_found():
    assert dead_links("models", "[a](README.md), [b](../README.md), ![c](nowhere.png)") == ["nowhere.png"]
    assert dead_links(".", '<img src="README.md"> <img src="gone.png">') == ["gone.png"]
    assert dead_links(".", "## Proofs, and more\n[a](#proofs-and-more), [b](#proofs)") == ["#proofs"]


@pytest.mark.parametrize("folder", FOLDERS)
def test_links_resolve(folder):
    assert dead_links(folder, TEXTS[folder]) == []


def rooms_of(table: str) -> list[str]:
    """The folders and files that the rows of a table name in their first column."""
    rows = re.findall(r"^\| (`[^|]+`) \|", table, re.MULTILINE)
    return [name for row in rows for name in re.findall(r"`([^`]+)`", row)]


def test_engine_table_lists_each_room_once():
    found = rooms_of(README[README.index("## Where things are") : README.index("### An evening's reading")])
    package = ROOT / "tinytensor"
    rooms = {f"tinytensor/{p.parent.name}/" for p in package.glob("*/__init__.py")}
    assert sorted(found) == sorted(rooms | {f"tinytensor/{p.name}" for p in package.glob("[a-z]*.py")})


@pytest.mark.parametrize("folder", ["models", "derivations"])
def test_other_table_lists_each_room_once(folder):
    """And there are about a dozen entries: the rooms, the files beside them, two to start it, the texts."""
    there = ROOT / folder
    table = TEXTS[folder][TEXTS[folder].index("## Where things are") :]
    rooms = {f"{p.parent.name}/" for p in there.glob("*/__init__.py")}
    assert sorted(rooms_of(table)) == sorted(rooms | {p.name for p in there.glob("[a-z]*.py")})
    assert len([p for p in there.iterdir() if p.name != "__pycache__"]) <= 14


def test_rooms_are_read_from_the_first_column():
    assert rooms_of("| room | what |\n|---|---|\n| `a/`, `b.py` | c `d/` |\n") == ["a/", "b.py"]


def test_engine_folder_has_at_most_21_entries():
    """At most twenty entries, stubs aside."""
    entries = [p.name for p in (ROOT / "tinytensor").iterdir() if p.suffix != ".pyi" and p.name != "__pycache__"]
    assert len(entries) <= 21


def prose(text: str) -> int:
    """How many lines of a file are docstrings or have a comment."""
    found = {t.start[0] for t in tokenize.generate_tokens(io.StringIO(text).readline) if t.type == tokenize.COMMENT}
    for node in ast.walk(ast.parse(text)):
        documented = isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        if documented and ast.get_docstring(node) is not None:
            found |= set(range(node.body[0].lineno, node.body[0].end_lineno + 1))
    return len(found)


def test_prose_is_counted():
    assert prose('"""Two\nlines."""\nx = "# no comment"\n# a comment\ny = 1  # another\n"""no docstring"""\n') == 4


def test_evening_reading_is_short_and_half_prose():
    (said,) = re.findall(r"<!-- evening -->\n((?:\d\. .*\n)+)", README)
    names = re.findall(r"^\d\. `tinytensor/([\w/]+)\.py`", said, re.MULTILINE)
    core = ["core/tensor", "core/op", "core/tape", "core/dispatch", "core/dtypes", "core/modes"]
    assert names == [*core, "runtime/kernel", "recording/recording"]
    texts = [(ROOT / "tinytensor" / f"{name}.py").read_text() for name in names]
    total = sum(len(text.splitlines()) for text in texts)
    assert total <= 1500
    for name, text in zip(names, texts, strict=True):
        assert 0.35 <= prose(text) / len(text.splitlines()) <= 0.5, name


@pytest.mark.parametrize("part", ["program", "eq17"])
def test_derivations_print_the_shown_output(part):
    excerpt = rf"<!-- from: python -m derivations {part} -->\n```\n(.*?)```"
    (shown,) = re.findall(excerpt, TEXTS["derivations"], re.DOTALL)
    report = run("-m", "derivations", part).splitlines()
    assert len(shown.splitlines()) >= 3
    for line in shown.splitlines():
        assert line in report


def test_latex_writes_the_shown_formula(printed):
    program = next(program for program in PROGRAMS if "print(latex(" in program)
    assert f"$${printed(program).strip()}$$\n" in TEXTS["derivations"]


def test_table_of_proofs_matches_the_claims():
    (shown,) = re.findall(r"<!-- from: python -m derivations --table -->\n((?:\|.*\n)+)", README)
    assert shown == run("-m", "derivations", "--table")


def test_two_commands_stand_where_ci_reads_them():
    for mark, ending in (("main", "python -m models train"), ("test", "python -m pytest -n 2 --dist worksteal")):
        found = re.search(rf"<!-- {mark} command -->\n```\n(.*)\n```", README)
        assert found and found.group(1).endswith(ending)
    script = (ROOT / ".ci" / "run").read_text()
    extract = next(line for line in script.splitlines() if line.startswith("command=$("))
    shown = subprocess.run(["bash", "-c", f'{extract}\necho "$command"'], capture_output=True, text=True, cwd=ROOT)
    assert shown.stdout.strip() == re.search(r"<!-- test command -->\n```\n(.*)\n```", README).group(1)
