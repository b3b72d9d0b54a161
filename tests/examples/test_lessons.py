"""Each lesson runs as a script and as a notebook, draws what it says, and its exercise tells right from wrong."""

import ast
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import jupytext
import nbclient
import nbformat
import pytest

ROOT = Path(__file__).parents[2]
LESSONS = sorted((ROOT / "examples").glob("*.py"))
ANSWERS = Path(__file__).parent / "answers"
PICTURES = Path("runs/lessons")  # where every lesson puts its pictures, in the folder in which it is run

each_lesson = pytest.mark.parametrize("lesson", LESSONS, ids=lambda path: path.stem)

# What Python runs when it starts: the engine can be imported, and nothing else of what stands beside it. (A link to the
# engine in another folder would do, but for the cache of its kernels, which knows them by their path.)
INSTALLED = f"""
import sys
from importlib.util import spec_from_file_location

class Engine:
    def find_spec(name, path, target=None):
        if name == "tinytensor":
            return spec_from_file_location(name, {str(ROOT / "tinytensor" / "__init__.py")!r})

sys.meta_path.insert(0, Engine)
"""

# Runs a lesson as a script; then, in its names, the file with answers to its exercise. What its check says of each
# answer is printed at the end.
RUN = """
import runpy, sys
lesson = runpy.run_path(sys.argv[1], run_name="__main__")
answers = runpy.run_path(sys.argv[2], init_globals=lesson)
for name, answer in answers.items():
    is_new = answer is not lesson.get(name)  # a lesson may have names of its own that begin so
    if is_new and (name == "right" or name.startswith("wrong_")):
        print(f"@ {name}: {lesson['check'](answer)}")
"""


@pytest.fixture
def clone(tmp_path):
    """A fresh clone, of which nothing is on Python's path but the engine, which stands there as if it were installed.

    Lessons use `models` and `derivations`, which are not installed, and must find them by themselves.
    """
    shutil.copytree(ROOT / "examples", tmp_path / "clone" / "examples", ignore=shutil.ignore_patterns("__pycache__"))
    for folder in ("models", "derivations"):
        (tmp_path / "clone" / folder).symlink_to(ROOT / folder)
    (tmp_path / "installed").mkdir()
    (tmp_path / "installed" / "sitecustomize.py").write_text(INSTALLED)
    (tmp_path / "here").mkdir()
    return tmp_path


def in_a_process(*command: str, clone: Path) -> str:
    """What a Python process prints that runs beside the clone, where warnings are errors."""
    # One thread each: tests run side by side, and threads that wait for each other take longer than one alone.
    environment = os.environ | {"PYTHONPATH": str(clone / "installed"), "NUMBA_NUM_THREADS": "1"}
    done = subprocess.run(  # -P: what stands in the folder in which it runs cannot be imported
        [sys.executable, "-P", "-W", "error", *command],
        capture_output=True, text=True, cwd=clone / "here", env=environment,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def defects(text: str) -> list[str]:
    """What a lesson lacks, read from its text."""
    found = []
    if not 40 <= len(text.splitlines()) <= 120:
        found.append(f"{len(text.splitlines())} lines, not 40 to 120")
    if not re.match(r"# %% \[markdown\]\n# # \w", text):
        found.append("it does not begin with a title")
    if f'FIGURES = Path("{PICTURES}")' not in text:
        found.append("it does not say where its pictures are")
    if "\n# ## Exercise\n" not in text:
        found.append("no exercise")
    if not re.search(r"\b00[0-4]\b", text):
        found.append("no equation with its source: none of the documents 000 to 004 is named")
    functions = {node.name: node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)}
    if "check" not in functions:
        found.append("no check")
    if "answer" not in functions or not is_open(functions["answer"]):
        found.append("no answer that is left open")
    return found


def is_open(function: ast.FunctionDef) -> bool:
    """Is its body three dots (after the docstring, and perhaps after lines that are given)?"""
    last = function.body[-1]
    return isinstance(last, ast.Expr) and isinstance(last.value, ast.Constant) and last.value.value is ...


@each_lesson
def test_lesson_has_all_its_parts(lesson):
    assert defects(lesson.read_text()) == []


def test_missing_part_of_a_lesson_is_found():
    good = (ROOT / "examples" / "01_derivative.py").read_text()
    assert len(defects("x = 1\n")) == 7
    assert defects(good + "\n" * 120) == [f"{len(good.splitlines()) + 120} lines, not 40 to 120"]
    assert defects(good.replace("def answer(", "def solution(")) == ["no answer that is left open"]
    assert defects(re.sub(r'(def answer.*\n    """.*"""\n)    \.\.\.', r"\1    return 0.25", good)) == [
        "no answer that is left open"
    ]


@each_lesson
def test_lesson_runs_draws_and_checks_answers(lesson, clone):
    script = clone / "clone" / "examples" / lesson.name
    said = in_a_process("-c", RUN, str(script), str(ANSWERS / lesson.name), clone=clone)

    assert "\nexercise: not solved yet. Hint: " in said
    here = clone / "here"
    told = {here / path for path in re.findall(r"^picture: (.+)$", said, re.MULTILINE)}
    assert here / PICTURES / f"{lesson.stem}.png" in told
    assert {path for path in here.rglob("*") if path.is_file()} == told, "what it says and what it writes differ"
    for path in told:
        assert path.parent == here / PICTURES
        assert path.read_bytes().startswith((b"\x89PNG", b"<!doctype html", b"<!DOCTYPE html")), path

    found = dict(re.findall(r"^@ (\w+): (.+)$", said, re.MULTILINE))
    assert found.pop("right") == "right"
    assert found, "no wrong answer is tried"
    for name, sentence in found.items():
        assert re.fullmatch(r"wrong: .{20,}", sentence), f"{name}: {sentence}"


def test_lessons_run_as_notebooks_and_show_their_pictures(clone):
    """One after the other in one kernel, which forgets all names between them: to start one for each takes longest."""
    lessons = {path.stem: jupytext.read(path) for path in LESSONS[:12]}
    joined = nbformat.v4.new_notebook(metadata=lessons["01_derivative"].metadata)
    for notebook in lessons.values():
        joined.cells += [*notebook.cells, nbformat.v4.new_code_cell("%reset -f")]
    where = {"metadata": {"path": str(clone / "clone" / "examples")}}  # Jupyter runs a notebook in its own folder
    client = nbclient.NotebookClient(joined, timeout=120, resources=where)
    client.execute(env=os.environ | {"PYTHONPATH": str(clone / "installed"), "NUMBA_NUM_THREADS": "1"})
    for name, notebook in lessons.items():
        outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
        shown = sum("image/png" in output.get("data", {}) for output in outputs)
        text = "".join(output.get("text", "") for output in outputs)  # of which a line may come in two outputs
        told = re.findall(r"^picture: .+\.png$", text, re.MULTILINE)
        assert shown == len(told) >= 1, f"{name}: a picture that is not its cell's last line is written, but not shown"
        assert "exercise: not solved yet" in text, name


def test_failing_lesson_is_reported(clone):
    with pytest.raises(AssertionError, match="RuntimeError: no such luck"):
        in_a_process("-c", "raise RuntimeError('no such luck')", clone=clone)


def test_uninstalled_package_is_not_found(clone):
    """Else a lesson that cannot find `models` would not be noticed."""
    with pytest.raises(AssertionError, match="No module named 'models'"):
        in_a_process("-c", "import tinytensor.nn, models", clone=clone)
