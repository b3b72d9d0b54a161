"""Each lesson runs as a script and as a notebook and draws what it says; each exercise tells right from wrong."""

import ast
import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import jupytext
import nbclient
import nbformat
import pytest

from examples.site.building import mathml
from tests.tools.forks import forks
from tests.tools.sampling_rate import THOROUGH

ROOT = Path(__file__).parents[2]
LESSONS = sorted((ROOT / "examples").glob("*.py"))
EXERCISES = ROOT / "examples" / "exercises"  # files named as the lessons
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
sys.path[:] = [place for place in sys.path if place != {str(ROOT)!r}]  # that of an editable installation
"""

# Runs files with exercises, and in the names of each the file with answers to it. What the checks say of each answer,
# with random numbers of each seed, is printed as JSON; and what a file says while its exercises are not solved.
CHECK = """
import contextlib, io, json, os, random, runpy, sys
import tinytensor as tt

said = {}
for file, answers, seeds in json.loads(sys.argv[1]):
    sys.path.append(os.path.dirname(file))  # as Python does for a script
    open_exercises = []
    for seed in range(seeds):
        random.seed(seed)
        tt.manual_seed(seed)
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            sheet = runpy.run_path(file, run_name="__main__")
        open_exercises.append(printed.getvalue())
    said[file] = {"open": open_exercises}
    for name, answer in runpy.run_path(answers, init_globals=sheet).items():
        kind, _, rest = name.partition("_")
        if kind in ("right", "wrong") and answer is not sheet.get(name):
            number = rest.partition("_")[0]
            said[file][name] = []
            for seed in range(seeds):
                random.seed(seed)
                tt.manual_seed(seed)
                said[file][name].append(sheet["check_" + number](answer))
print(json.dumps(said))
"""
SEEDS = 12 if THOROUGH else 1  # of the random numbers with which each check tries each answer
# In the short suite, lessons that train do as few steps as where kernels run as Python: one asks this.
FEW_STEPS = 'os.environ.get("NUMBA_DISABLE_JIT")'


@pytest.fixture(scope="module")
def clone(tmp_path_factory):
    """A fresh clone, of which nothing is on Python's path but the engine, which stands there as if it were installed.

    Lessons use `models` and `derivations`, which are not installed, and must find them by themselves.
    """
    folder = tmp_path_factory.mktemp("course")
    shutil.copytree(ROOT / "examples", folder / "clone" / "examples", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("models", "derivations"):
        (folder / "clone" / name).symlink_to(ROOT / name)
    (folder / "installed").mkdir()
    (folder / "installed" / "sitecustomize.py").write_text(INSTALLED)
    return folder


@pytest.fixture(scope="module")
def started(clone):
    """The process that forks for each program which runs beside the clone, where warnings are errors."""
    # One thread each: tests run side by side, and threads that wait for each other take longer than one alone.
    environment = {"PYTHONPATH": str(clone / "installed"), "NUMBA_NUM_THREADS": "1"}
    # -P: what stands in the folder in which it runs cannot be imported
    with forks("tinytensor", "matplotlib.pyplot", "sympy", options=("-P", "-W", "error"), **environment) as process:
        yield process


@pytest.fixture
def in_a_process(started, tmp_path):
    """`in_a_process(file, ...)` or `in_a_process(code=...)`: what a program prints that runs in the test's folder."""

    def run(*arguments: str, code: str | None = None) -> str:
        done = started.run(*arguments, code=code, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def defects(text: str, name: str) -> list[str]:
    """What a lesson lacks, read from its text."""
    results = []
    if not 40 <= len(text.splitlines()) <= 120:
        results.append(f"{len(text.splitlines())} lines, not 40 to 120")
    if not re.match(r"# %% \[markdown\]\n# # \w", text):
        results.append("it does not begin with a title")
    if f'FIGURES = Path("{PICTURES}")' not in text:
        results.append("it does not say where its pictures are")
    if len(re.findall(r"plots\.(show|Picture)\(", text)) != len(re.findall(r"\balt=", text)):
        results.append("a picture without alternative text")
    if f"`exercises/{name}.py`" not in text.partition("\n# ## Exercises\n")[2]:
        results.append("its end does not name its exercises")
    if not re.search(r"\b00[0-4]\b", text):
        results.append("no equation with its source: none of the documents 000 to 004 is named")
    return results


def formulas(text: str) -> list[str]:
    """The formulas in the Markdown cells of a file."""
    cells = re.findall(r"^# %% \[markdown\]\n((?:#.*\n?)+)", text, re.MULTILINE)
    said = re.sub(r"`[^`]*`", "", re.sub(r"^# ?", "", "\n".join(cells), flags=re.MULTILINE))
    return [block or inline for block, inline in re.findall(r"\$\$(.+?)\$\$|\$([^$\n]+)\$", said, re.DOTALL)]


KINDS = {"Predict", "Find the bug", "Derive", "Extend"}


def defects_of_exercises(text: str) -> list[str]:
    """What a file with exercises lacks, read from its text."""
    results = []
    if not re.match(r"# %% \[markdown\]\n# # Exercises: \w", text):
        results.append("it does not begin with a title")
    titles = re.findall(r"^# ## (\d) (★{1,3}) ([\w ]+): \w", text, re.MULTILINE)
    if [number for number, _, _ in titles] != ["1", "2", "3", "4"]:
        results.append("not four exercises with a number, stars, a kind and a title")
    if {category for _, _, category in titles} != KINDS:
        results.append(f"not one exercise of each kind: {sorted(KINDS)}")
    if [len(stars) for _, stars, _ in titles] != sorted(len(stars) for _, stars, _ in titles):
        results.append("an easier exercise behind a harder one")
    functions = {node.name: node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)}
    for number, _, category in titles:
        if f'\nprint("exercise {number}:", check_{number}(answer_{number}))\n' not in text:
            results.append(f"exercise {number} does not print what its check says")
        elif category != "Find the bug" and not is_open(functions[f"answer_{number}"]):
            results.append(f"answer_{number} is not left open")
    return results


def is_open(function: ast.FunctionDef) -> bool:
    """Is its body three dots (after the docstring, and perhaps after lines that are given)?"""
    last = function.body[-1]
    return isinstance(last, ast.Expr) and isinstance(last.value, ast.Constant) and last.value.value is ...


@each_lesson
def test_lesson_has_all_its_parts(lesson):
    assert defects(lesson.read_text(), lesson.stem) == []
    assert defects_of_exercises((EXERCISES / lesson.name).read_text()) == []


@each_lesson
def test_each_formula_can_be_typeset(lesson):
    result = formulas(lesson.read_text()) + formulas((EXERCISES / lesson.name).read_text())
    assert all("<math" in mathml(formula) for formula in result)
    assert result or lesson.stem != "06_softmax"  # which has some


def test_formula_that_cannot_be_typeset_is_found():
    (formula,) = formulas("# %% [markdown]\n# so $\\nosuch x$ holds\n")
    with pytest.raises(ValueError, match="nosuch is not known"):
        mathml(formula)


def test_missing_part_of_a_lesson_is_found():
    name = "03_chain_rule"
    good = (ROOT / "examples" / f"{name}.py").read_text()
    assert len(defects("x = 1\n", name)) == 5
    assert defects(good + "\n" * 120, name) == [f"{len(good.splitlines()) + 120} lines, not 40 to 120"]
    assert defects(good.replace("alt=", "title="), name) == ["a picture without alternative text"]
    assert defects(good, "04_gradient_descent") == ["its end does not name its exercises"]


def test_missing_part_of_an_exercise_is_found():
    good = (EXERCISES / "03_chain_rule.py").read_text()
    missing = defects_of_exercises
    assert missing(good.replace("2 ★★", "2")) == [
        "not four exercises with a number, stars, a kind and a title",
        f"not one exercise of each kind: {sorted(KINDS)}",
    ]
    assert missing(good.replace("2 ★★", "2 ★★★")) == ["an easier exercise behind a harder one"]
    assert missing(good.replace("check_4(answer_4)", "4")) == ["exercise 4 does not print what its check says"]
    assert missing(re.sub(r'(def answer_1.*\n    """.*"""\n)    \.\.\.', r"\1    return 0.25", good)) == [
        "answer_1 is not left open"
    ]


@pytest.mark.one_in(2)
@each_lesson
def test_lesson_runs_and_draws_what_it_says(lesson, clone, in_a_process, tmp_path):
    script, here = clone / "clone" / "examples" / lesson.name, tmp_path
    if not THOROUGH:
        script.write_text(script.read_text().replace(FEW_STEPS, "True"))
    said = in_a_process(str(script))
    message = {here / path for path in re.findall(r"^picture: (.+)$", said, re.MULTILINE)}
    assert any(path.name.startswith(lesson.stem) and path.suffix == ".png" for path in message)
    assert {path for path in here.rglob("*") if path.is_file()} == message, "what it says and what it writes differ"
    for path in message:
        assert path.parent == here / PICTURES
        assert path.read_bytes().startswith((b"\x89PNG", b"<!doctype html", b"<!DOCTYPE html")), path


def verdicts(in_a_process: Callable, *files: tuple[Path, Path], seeds: int) -> dict[str, dict[str, list[str]]]:
    """For each file with exercises: what it prints unsolved, and what its checks say of each answer, for each seed."""
    asked = json.dumps([[str(file), str(answers), seeds] for file, answers in files])
    said = json.loads(in_a_process("-c", asked, code=CHECK).splitlines()[-1])
    return {Path(file).stem: answers for file, answers in said.items()}


def misjudged(said: dict[str, list[str]]) -> list[str]:
    """Answers that a check takes for what they are not, and exercises that have no right or no wrong answer."""
    results = []
    for printed in said["open"]:
        for number, sentence in re.findall(r"^exercise (\d): (.*)$", printed, re.MULTILINE):
            if not re.match(r"not solved yet\. Hint: .{20,}|wrong: .{20,}", sentence):
                results.append(f"exercise {number}, not solved: {sentence}")
    for name, sentences in said.items():
        form = {"right": "right", "wrong": "wrong: .{20,}"}.get(name.partition("_")[0])
        results += [f"{name}: {sentence}" for sentence in sentences if form and not re.fullmatch(form, sentence)]
    for number in "1234":
        for category in ("right", "wrong"):
            if not any(re.match(f"{category}_{number}(_|$)", name) for name in said):
                results.append(f"no {category} answer to exercise {number}")
    return results


def test_checks_tell_right_answers_from_wrong_ones(clone, in_a_process):
    files = [(clone / "clone" / "examples" / "exercises" / path.name, ANSWERS / path.name) for path in LESSONS]
    result = verdicts(in_a_process, *files, seeds=SEEDS)
    assert {name: wrong for name, said in result.items() if (wrong := misjudged(said))} == {}


def test_misjudged_answer_is_found(in_a_process, tmp_path):
    (tmp_path / "answers.py").write_text(
        "right_1 = wrong_1_as_the_right_one = lambda x, times: 2 * x * times\n"
        "right_2 = lambda edges, last: dict.fromkeys(edges, 1)\n"
    )
    files = EXERCISES / "03_chain_rule.py", tmp_path / "answers.py"
    said = verdicts(in_a_process, files, seeds=1)["03_chain_rule"]
    first, second, *missing = misjudged(said)
    assert first == "wrong_1_as_the_right_one: right"
    assert second.startswith("right_2: wrong: ")
    categories = [f"no {category} answer to exercise" for category in ("right", "wrong")]
    assert missing == [
        f"{categories[1]} 2",
        f"{categories[0]} 3",
        f"{categories[1]} 3",
        f"{categories[0]} 4",
        f"{categories[1]} 4",
    ]
    solved = said | {"open": ["exercise 1: right\n"]}
    assert misjudged(solved)[0] == "exercise 1, not solved: right"


@pytest.mark.slow
def test_lessons_run_as_notebooks_and_show_their_pictures(clone):
    """One after the other in one kernel, which forgets all names between them: to start one for each takes longest."""
    lessons = {path.stem: jupytext.read(path) for path in LESSONS}
    joined = nbformat.v4.new_notebook(metadata=lessons[LESSONS[0].stem].metadata)
    for notebook in lessons.values():
        joined.cells += [*notebook.cells, nbformat.v4.new_code_cell("%reset -f")]
    where = {"metadata": {"path": str(clone / "clone" / "examples")}}  # Jupyter runs a notebook in its own folder
    client = nbclient.NotebookClient(joined, timeout=None, resources=where)
    client.execute(env=os.environ | {"PYTHONPATH": str(clone / "installed"), "NUMBA_NUM_THREADS": "1"})
    for name, notebook in lessons.items():
        outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
        shown = sum("image/png" in output.get("data", {}) for output in outputs)
        text = "".join(output.get("text", "") for output in outputs)  # of which a line may come in two outputs
        message = re.findall(r"^picture: .+\.png$", text, re.MULTILINE)
        assert shown == len(message) >= 1, (
            f"{name}: a picture that is not its cell's last line is written, but not shown"
        )


def test_failing_lesson_is_reported(in_a_process):
    with pytest.raises(AssertionError, match="RuntimeError: no such luck"):
        in_a_process(code="raise RuntimeError('no such luck')")
    with pytest.raises(AssertionError, match="UserWarning: a warning"):
        in_a_process(code="import warnings; warnings.warn('a warning')")


def test_uninstalled_package_is_not_found(in_a_process):
    """Else a lesson that cannot find `models` would not be noticed."""
    with pytest.raises(AssertionError, match="No module named 'models'"):
        in_a_process(code="import tinytensor.nn, models")
