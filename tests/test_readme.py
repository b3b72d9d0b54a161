"""What the READMEs say: programs run, links lead somewhere, counts are true, the test command is the whole check's."""

import ast
import io
import re
import subprocess
import sys
import tokenize
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
FOLDERS = (".", "models", "derivations", "examples", "tests/benchmarks")
TEXTS = {folder: (ROOT / folder / "README.md").read_text() for folder in FOLDERS}
TEXTS["models"] += (ROOT / "models" / "parallel.md").read_text()
PROGRAMS = [program for text in TEXTS.values() for program in re.findall(r"```python\n(.*?)```", text, re.DOTALL)]
FIRST = next(program for program in PROGRAMS if "w.flatten()" in program)


def run(*arguments: str, code: str | None = None) -> str:
    done = subprocess.run([sys.executable, *arguments], input=code, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("number", range(len(PROGRAMS)))
def test_programs_run(number):
    run("-W", "error", "-", code=PROGRAMS[number])


def test_the_first_program_finds_the_weights():
    weights = [float(w) for w in run("-", code=FIRST).strip("[]\n").split(",")]
    assert weights == pytest.approx([1.0, -2.0, 0.5], abs=1e-2)


def test_the_pytorch_program_differs_in_its_import_only():
    (other,) = re.findall(r"```py\n(.*?)```", README, re.DOTALL)
    assert other.replace("import torch as tt", "import tinytensor as tt") == FIRST


def dead_links(folder: str, text: str) -> list[str]:
    """The links and pictures of a text in this folder that lead to no file of the project."""
    links = re.findall(r"\]\(([^)\s]+)\)", text) + re.findall(r'<img src="([^"]+)"', text)
    return [link for link in links if not re.match(r"https?:", link) and not (ROOT / folder / link).exists()]


def test_dead_links_are_found():
    assert dead_links("models", "[a](README.md), [b](../README.md), ![c](nowhere.png)") == ["nowhere.png"]
    assert dead_links(".", '<img src="README.md"> <img src="gone.png">') == ["gone.png"]


@pytest.mark.parametrize("folder", FOLDERS)
def test_links_lead_somewhere(folder):
    assert dead_links(folder, TEXTS[folder]) == []


def lines(path: Path) -> int:
    files = sorted(path.rglob("*.py")) if path.is_dir() else [path]
    return sum(len(file.read_text().splitlines()) for file in files)


def rows_of(table: str) -> list[tuple[list[str], int]]:
    """(files and folders, how many lines they are said to have) of each row; all lie in the folder of the first."""
    rows = []
    for names, count in re.findall(r"^\| (`[^|]+`) \| ([\d,]+) \|", table, re.MULTILINE):
        first, *others = re.findall(r"`([\w./]+)`", names)
        folder, _, _ = first.partition("/")
        rows.append(([first, *(f"{folder}/{name}" for name in others)], int(count.replace(",", ""))))
    return rows


def covered(file: str, rows: list[tuple[list[str], int]]) -> int:
    """How many names of the rows are this file's, or that of a folder in which it lies."""
    names = [name for names, _ in rows for name in names]
    return sum(file.startswith(name) if name.endswith("/") else file == name for name in names)


ROWS = rows_of(README[README.index("## Where things are") : README.index("### An evening's reading")])


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0][0])
def test_line_counts_are_true(row):
    names, count = row
    there = sum(lines(ROOT / name) for name in names)
    assert count == pytest.approx(there, rel=0.03), f"{names}: {there} lines"


def test_every_file_of_the_package_stands_in_one_row():
    files = [str(path.relative_to(ROOT)) for path in (ROOT / "tinytensor").rglob("*.py")]
    assert {file: covered(file, ROWS) for file in sorted(files) if covered(file, ROWS) != 1} == {}


def test_rows_are_read_with_all_of_their_names():
    rows = rows_of("| file | lines |\n|---|---|\n| `a/b.py`, `c/`, `d.py` | 1,230 | e `f.py` |\n| `a/c/` | 5 | g |\n")
    assert rows == [(["a/b.py", "a/c/", "a/d.py"], 1230), (["a/c/"], 5)]
    assert [covered(file, rows) for file in ("a/b.py", "a/c/e.py", "a/f.py", "a/d.pyi")] == [1, 2, 0, 0]


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


def test_the_evening_is_short_and_says_why():
    (said,) = re.findall(r"<!-- evening -->\n((?:\d\. .*\n)+)", README)
    names = re.findall(r"^\d\. `tinytensor/([\w/]+)\.py`", said, re.MULTILINE)
    assert names == ["door", "recording", "dtypes", "modes", "tensors", "form", "autograd/tape", "kernels/kernel"]
    texts = [(ROOT / "tinytensor" / f"{name}.py").read_text() for name in names]
    total = sum(len(text.splitlines()) for text in texts)
    assert total <= 1500
    for name, text in zip(names, texts, strict=True):
        assert 0.35 <= prose(text) / len(text.splitlines()) <= 0.5, name


@pytest.mark.parametrize("part", ["eq17", "program"])
def test_derivations_print_what_is_shown(part):
    excerpt = rf"<!-- from: python -m derivations {part} -->\n```\n(.*?)```"
    (shown,) = re.findall(excerpt, TEXTS["derivations"], re.DOTALL)
    printed = run("-m", "derivations", part).splitlines()
    assert len(shown.splitlines()) >= 3
    for line in shown.splitlines():
        assert line in printed


def test_latex_writes_what_is_shown():
    program = next(program for program in PROGRAMS if "print(latex(" in program)
    assert f"$${run('-', code=program).strip()}$$\n" in TEXTS["derivations"]


def test_the_table_of_what_is_proved_is_that_of_the_claims():
    (shown,) = re.findall(r"<!-- from: python -m derivations --table -->\n((?:\|.*\n)+)", README)
    assert shown == run("-m", "derivations", "--table")


def test_the_two_commands_stand_where_the_check_looks_for_them():
    for mark, ending in (("main", "python -m models train"), ("test", "python -m pytest -n 2 --dist worksteal")):
        found = re.search(rf"<!-- {mark} command -->\n```\n(.*)\n```", README)
        assert found and found.group(1).endswith(ending)
    script = (ROOT / ".ci" / "run").read_text()
    extract = next(line for line in script.splitlines() if line.startswith("command=$("))
    shown = subprocess.run(["bash", "-c", f'{extract}\necho "$command"'], capture_output=True, text=True, cwd=ROOT)
    assert shown.stdout.strip() == re.search(r"<!-- test command -->\n```\n(.*)\n```", README).group(1)
