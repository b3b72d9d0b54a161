"""READMEs and guide: programs run and print what is shown, links lead somewhere, figures are true, commands exist."""

import ast
import math
import os
import re
import shlex
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path

import pytest

from tests.tools import bare
from tests.tools.forks import forks
from tests.tools.packages import missing
from tests.tools.reading import closure, files_of, imported, lines_of, reading

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
FOLDERS = (".", ".github", "models", "derivations", "examples", "examples/guide", "tests/benchmarks")
PAGES = {
    path.relative_to(ROOT).as_posix(): path.read_text() for f in FOLDERS for path in sorted((ROOT / f).glob("*.md"))
}
GUIDE = {path.stem: path.read_text() for path in sorted((ROOT / "examples" / "guide").glob("*.md"))}
# Those of CONTRIBUTING run in test_add_an_operation.py.
RUN_HERE = [text for page, text in PAGES.items() if not page.startswith(".github")]
PROGRAMS = [program for text in RUN_HERE for program in re.findall(r"```python\n(.*?)```", text, re.DOTALL)]
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


def test_first_program_runs_on_pytorch_with_its_import_changed():
    pytest.importorskip("torch", reason=missing("torch"))
    program = FIRST.replace("import tinytensor as tt\n", "import torch as tt\n")
    assert program != FIRST
    weights = [float(w) for w in run("-", code=program).strip("[]\n").split(",")]
    assert weights == pytest.approx([1.0, -2.0, 0.5], abs=1e-2)


def test_functions_written_for_pytorch_are_proved_as_shown():
    pytest.importorskip("torch", reason=missing("torch"))
    (program,) = re.findall(r"```py\n(.*?)```", GUIDE["pytorch"], re.DOTALL)
    shown = re.findall(r"# (proved|refuted|also)", program)
    verdicts = re.findall(r"^(proved|refuted):", run("-", code=program), re.MULTILINE)
    assert shown == ["proved", "refuted", "also"] and verdicts == ["proved", "refuted", "proved"]


def shown_with_outputs(text: str) -> list[tuple[str, str]]:
    """The programs of a text whose output it shows, after a sentence that ends with "prints"; each with its output."""
    return re.findall(r"```python\n((?:(?!```).)*)```\n\n(?:(?!```)[^#])*?prints:?\n\n```\n(.*?)```", text, re.DOTALL)


@pytest.mark.parametrize(
    ("page", "calls"),
    [
        ("README.md", ["prove(", "derive("]),
        ("examples/guide/derive.md", ["check(", "check(", "derive(", "check("]),
        ("examples/guide/proofs.md", ["prove("]),
    ],
)
def test_programs_print_what_is_shown(page, calls, printed):
    shown = shown_with_outputs(PAGES[page])
    assert len(shown) == len(calls)
    for call, (program, output) in zip(calls, shown):
        assert f"print({call}" in program
        assert printed(program) == output


def test_all_outputs_are_compared():
    pages = [page for page, text in PAGES.items() if shown_with_outputs(text)]
    assert pages == ["README.md", "examples/guide/derive.md", "examples/guide/proofs.md"]


def test_operation_of_the_readme_is_proved(printed):
    program = next(program for program in PROGRAMS if "tt.gradcheck(" in program)
    assert program.endswith(").verdict)  # proved\n")
    assert printed(program) == "proved\n"


def test_wrong_rule_is_reported_as_shown(tmp_path):
    (program,) = re.findall(r"<!-- file: test_softsign.py -->\n```py\n(.*?)```", GUIDE["operations"], re.DOTALL)
    (shown,) = re.findall(r"<!-- from: pytest test_softsign.py -->\n```\n(.*?)```", GUIDE["operations"], re.DOTALL)
    (tmp_path / "test_softsign.py").write_text(program)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "--rootdir",
        tmp_path,
        "test_softsign.py",
    ]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    reported = [line.removeprefix("E").strip() for line in done.stdout.splitlines() if line.startswith("E ")]
    assert reported == [line.strip() for line in shown.splitlines()]


def test_outputs_are_found():
    assert shown_with_outputs("```python\na\n```\n\nIt prints\n\n```\nb\n```\n") == [("a\n", "b\n")]
    assert shown_with_outputs("```python\na\n```\n\nAnd so on.\n\n```\nb\n```\n") == []
    assert shown_with_outputs("```python\na\n```\n\n## Next\n\nIt prints\n\n```\nb\n```\n") == []


def headings(text: str) -> set[str]:
    """The headings of a text, as GitHub writes them in links."""
    matches = re.findall(r"^#+ (.*)$", re.sub(r"```.*?```", "", text, flags=re.DOTALL), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in matches}


def dead_links(folder: str, text: str) -> list[str]:
    """The links and pictures of a text in this folder that lead to no file of the project, or to no heading."""
    links = re.findall(r"\]\(([^)\s]+)\)", re.sub(r"```.*?```", "", text, flags=re.DOTALL))
    links += re.findall(r'<img src="([^"]+)"', text)
    return [link for link in links if not re.match(r"https?:", link) and not _leads_somewhere(folder, text, link)]


def _leads_somewhere(folder: str, text: str, link: str) -> bool:
    path, _, heading = link.partition("#")
    file = ROOT / folder / path
    if not heading:
        return file.exists()
    return file.exists() and heading in headings(file.read_text() if path else text)


def test_dead_links_are_found():
    assert dead_links("models", "[a](README.md), [b](../README.md), ![c](nowhere.png)") == ["nowhere.png"]
    assert dead_links(".", '<img src="README.md"> <img src="gone.png">') == ["gone.png"]
    assert dead_links(".", "## Proofs, and more\n[a](#proofs-and-more), [b](#proofs)") == ["#proofs"]
    assert dead_links("models", "[a](../README.md#speed), [b](../README.md#sped)") == ["../README.md#sped"]


@pytest.mark.parametrize("page", PAGES)
def test_links_resolve(page):
    assert dead_links(str(Path(page).parent), PAGES[page]) == []


def test_readme_is_short():
    assert len(README.splitlines()) <= 200


def listed(text: str) -> list[str]:
    """The pages that the guide's table lists."""
    return re.findall(r"^\| \[[^\]]+\]\((\w+)\.md\) \|", text, re.MULTILINE)


def test_guide_lists_its_pages():
    assert sorted([*listed(GUIDE["README"]), "README"]) == sorted(GUIDE)
    assert listed("| page | what |\n|---|---|\n| [A page](one.md) | x |\n[B](two.md)\n") == ["one"]


def rooms_of(table: str) -> list[str]:
    """The folders and files that the rows of a table name in their first column."""
    rows = re.findall(r"^\| (`[^|]+`) \|", table, re.MULTILINE)
    return [name for row in rows for name in re.findall(r"`([^`]+)`", row)]


def test_rooms_are_read_from_the_first_column():
    assert rooms_of("| room | what |\n|---|---|\n| `a/`, `b.py` | c `d/` |\n") == ["a/", "b.py"]


def test_engine_table_lists_each_room_once():
    package = ROOT / "tinytensor"
    folders = [*package.glob("*/__init__.py"), *package.glob("native/*/__init__.py")]
    rooms = {f"{p.parent.relative_to(package).as_posix()}/" for p in folders}
    listed = rooms_of(GUIDE["engine"][GUIDE["engine"].index("## The rooms of the engine") :])
    assert sorted(listed) == sorted(rooms | {p.name for p in package.glob("[a-z]*.py")})


@pytest.mark.parametrize("folder", ["models", "derivations"])
def test_other_table_lists_each_room_once(folder):
    """And there are about a dozen entries: the rooms, the files beside them, two to start it, the texts."""
    there, text = ROOT / folder, PAGES[f"{folder}/README.md"]
    rooms = {f"{p.parent.name}/" for p in there.glob("*/__init__.py")}
    listed = rooms_of(text[text.index("## Where things are") :])
    assert sorted(listed) == sorted(rooms | {p.name for p in there.glob("[a-z]*.py")})
    assert len([p for p in there.iterdir() if p.name != "__pycache__"]) <= 14


def test_engine_folder_has_at_most_twenty_entries():
    """The rooms, the modules that PyTorch has at this level, and the files of the package itself."""
    entries = [p.name for p in (ROOT / "tinytensor").iterdir() if p.name != "__pycache__"]
    assert len(entries) <= 20


def missing_definitions(text: str) -> list[str]:
    """The rows `file` | `definition` of a table whose file or definition the project does not have."""
    rows = re.findall(r"\| `([\w/]+\.py)` \| `([\w.]+)` \|$", text, re.MULTILINE)
    return [f"{file}: {name}" for file, name in rows if not _defines(ROOT / file, name.split("."))]


def _defines(file: Path, names: list[str]) -> bool:
    nodes = ast.parse(file.read_text()).body if file.exists() else []
    for name in names:
        matches = [n for n in nodes if isinstance(n, ast.ClassDef | ast.FunctionDef) and n.name == name]
        nodes = matches[0].body if matches else []
    return bool(nodes)


def test_missing_definitions_are_found():
    rows = ["`tests/conftest.py` | `nowhere`", "`gone.py` | `f`", "`tests/test_readme.py` | `missing_definitions`"]
    text = "".join(f"| what | {row} |\n" for row in rows)
    assert missing_definitions(text) == ["tests/conftest.py: nowhere", "gone.py: f"]


def test_things_are_where_the_guide_says():
    table = GUIDE["engine"].partition("## Where to find things")[2].partition("\n## ")[0]
    assert len(re.findall(r"^\| .*`\w.* \|$", table, re.MULTILINE)) == table.count("`") // 4 >= 8
    assert missing_definitions(table) == []


def test_imported_files_are_found():
    text = (
        "from tinytensor.core import op, switches\nimport tinytensor.core.tape\nfrom tinytensor.core.graph import x\n"
    )
    names = {"core/op", "core/switches", "core/tape", "core/graph", "utils/printing"}
    files = files_of(imported(text + "from tinytensor.utils import printing\nimport numpy\n"))
    assert files == {ROOT / "tinytensor" / f"{name}.py" for name in names}
    assert closure(files) > files


def test_evening_reading_has_as_many_lines_as_its_page_says():
    """The listed files, and all that they need: the page says their lines, rounded up to a hundred."""
    files = set(reading())
    all_files = closure(files)
    counts = re.search(r"The list has ([\d,]+) lines, or ([\d,]+) with all files", " ".join(GUIDE["engine"].split()))
    of_list, of_all = (int(count.replace(",", "")) for count in counts.groups())
    assert 100 * math.ceil(lines_of(files) / 100) == of_list
    assert 100 * math.ceil(lines_of(all_files) / 100) == of_all <= 2600
    assert len(files) == 8
    said = f"in an evening: {of_list:,} lines, or {of_all:,} with all that they import"
    assert f"[Eight files](examples/guide/engine.md) explain the rest {said}" in README
    packages = {name.partition(".")[0] for file in all_files for name in imported(file.read_text())}
    assert packages - sys.stdlib_module_names == {"numpy", "tinytensor"}


SESSION = r"<!-- session -->\n```\n(.*?)```"


def without_numbers(session: str, folder: Path) -> str:
    """A session of pdb without folders, numbers of lines, and the frames of pdb itself."""
    session = session.replace(f"{folder}/", "").replace(f"{ROOT}/", "")
    session = re.sub(r"\(Pdb\)   (?!small\.py).*?(?=  small\.py)", "(Pdb) ", session, flags=re.DOTALL)
    return re.sub(r"(\.py)(?:\(\d+\)|:\d+)", r"\1(…)", session)


def test_debugger_steps_through_the_engine_as_shown(tmp_path):
    (program,) = re.findall(r"<!-- file: small.py -->\n```python\n(.*?)```", GUIDE["engine"], re.DOTALL)
    (shown,) = re.findall(SESSION, GUIDE["engine"], re.DOTALL)
    (tmp_path / "small.py").write_text(program)
    commands = "".join(re.findall(r"^\(Pdb\) (.*\n)", shown, re.MULTILINE))
    done = subprocess.run(
        [sys.executable, "-m", "pdb", "small.py"],
        input=commands,
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT), "TINYTENSOR_BACKEND": "reference"},
    )
    assert done.returncode == 0, done.stderr
    printed = re.sub(r"^\(Pdb\) .*\n", "(Pdb) ", shown, flags=re.MULTILINE)  # pdb does not repeat what it is told
    assert without_numbers(done.stdout, tmp_path).rstrip() == printed.rstrip()


@pytest.mark.parametrize("part", ["program", "eq17"])
def test_derivations_print_the_shown_output(part):
    excerpt = rf"<!-- from: python -m derivations {part} -->\n```\n(.*?)```"
    (shown,) = re.findall(excerpt, PAGES["derivations/README.md"], re.DOTALL)
    report = run("-m", "derivations", part).splitlines()
    assert len(shown.splitlines()) >= 3
    for line in shown.splitlines():
        assert line in report


def test_latex_writes_the_shown_formula(printed):
    program = next(program for program in PROGRAMS if "print(latex(" in program)
    assert f"$${printed(program).strip()}$$\n" in GUIDE["proofs"]


def test_table_of_proofs_matches_the_claims():
    text = PAGES["derivations/README.md"]
    (shown,) = re.findall(r"<!-- from: python -m derivations --table -->\n((?:\|.*\n)+)", text)
    assert shown == run("-m", "derivations", "--table")


def measured_speeds(tables: str) -> list[str]:
    """The cells of the README's two rows of speed, from the tables of the machine that it names."""
    (step,) = re.findall(r"^\| toth-tiny, batch 8, 2 threads \| [\d.]+ \(.*$", tables, re.MULTILINE)
    (small,) = re.findall(r"^\| small calls, 1 thread \|.*$", tables, re.MULTILINE)
    ours, _, theirs, *_ = (cell.split()[0] for cell in step.split("|")[2:8])
    ratio = re.search(r"\((.*)\)", step.split("|")[4])[1]
    backward = re.search(r"([\d.]+×)\*\* at backward", small)[1]
    return [f"| **{ratio}** PyTorch's | {theirs} ms / {ours} ms |", f"| **{backward}** PyTorch's | ratio only |"]


def test_speeds_are_those_of_the_measurements():
    text = PAGES["tests/benchmarks/README.md"]
    tables = text[text.index("## Zen 5") : text.index("With AVX2 vectors on the same machine")]
    assert [cell for cell in measured_speeds(tables) if README.count(cell) != 1] == []
    other = tables.replace("6.37×", "6.38×").replace("**0.42×** at", "**0.43×** at")
    assert len([cell for cell in measured_speeds(other) if README.count(cell) != 1]) == 2


def test_lines_of_an_own_engine():
    lines = re.search(r"some (\d+) lines of your own", README)[1]
    assert f"together some {lines} lines" in run("-m", "examples.build", "--list")


def test_version_is_that_of_the_package():
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    for text in (README, GUIDE["packaging"]):
        assert re.findall(r"[Vv]ersion (\d[\d.]*\d)", text) == [version]
    assert f"tinytensor_autograd-{version}-py3-none-any.whl" in GUIDE["packaging"]


def test_extras_are_those_of_the_package():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert sorted(rooms_of(GUIDE["packaging"])) == sorted(extras)


def unknown_options(line: str, usage: str) -> list[str]:
    """The options of a command line that the help of its subcommand does not have."""
    options = [word.partition("=")[0] for word in shlex.split(line, comments=True) if word.startswith("--")]
    return [option for option in options if not re.search(rf"{option}\b", usage)]


def test_unknown_options_are_found():
    assert unknown_options("tinytensor train --text FILE --liv  # --no", "--text PATH --live") == ["--liv"]


def test_commands_exist():
    """Each subcommand is on the page of commands, and has the options that are shown there."""
    lines = re.findall(r"^tinytensor .*$", GUIDE["commands"], re.MULTILINE)
    overview = run("-m", "tinytensor", "--help")
    names = re.findall(r"^  (\w+) ", overview, re.MULTILINE)
    assert len(names) >= 16
    assert {line.split()[1] for line in lines} == set(names)
    for name in dict.fromkeys(line.split()[1] for line in lines if " --" in line.partition("#")[0]):
        usage = run("-m", "tinytensor", name, "--help")
        for line in lines:
            if line.split()[1] == name:
                assert unknown_options(line, usage) == [], line


def test_two_commands_stand_where_ci_reads_them():
    for mark, ending in (("main", "python -m models train"), ("test", "python -m pytest -n 2 --dist worksteal")):
        assert README.count(f"<!-- {mark} command -->") == 1
        assert bare.command(mark).endswith(ending)
