"""The ten steps of `examples.build`: right answers open the next step, and each wrong one gets its sentence."""

import ast
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import nbformat
import numpy as np
import pytest

from examples.build import __main__ as command
from examples.build import folders, judge, milestones, notebooks, steps
from examples.build.checks import CHECKS
from tests.examples.build.others import OTHERS
from tests.examples.build.plants import PLANTS

ROOT = Path(__file__).parents[2]
README = (ROOT / "examples" / "README.md").read_text()
HOLES = {
    f"{file.removesuffix('.py')}.{name}" for step in steps.STEPS for file in step.files for name in steps.holes_of(file)
}


def texts_of_solutions(last=10):
    """file -> solution, of the first steps."""
    return {file: steps.solution_text(file) for step in steps.STEPS[:last] for file in step.files}


def engine_with(folder, changes=()):
    """An engine with the solutions, in which some texts are changed: (file, old, new)."""
    texts = texts_of_solutions() | {"__init__.py": steps.package_text()}
    for file, old, new in changes:
        assert old in texts[file], f"{old} does not stand in the solution {file}"
        texts[file] = texts[file].replace(old, new)
    folder.mkdir(exist_ok=True)
    for file, text in texts.items():
        (folder / file).write_text(text)
    return judge.Engine(folder)


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


@pytest.fixture
def run(monkeypatch, capsys):
    """The command, in this process; it returns the exit code and what was printed."""

    def here(folder, task, number, choice, limit):
        engine = judge.Engine(folder)
        if task == "check":
            return judge.judge(engine, number, choice)
        if number == 10:  # it writes a few characters only
            sample = engine.transformer.sample
            engine.transformer.sample = lambda model, t, count, random: sample(model, t, min(count, 9), random)

        try:
            milestones.run(engine, number, choice)
        except judge.Wrong as wrong:
            return str(wrong)
        return ""

    check, right = judge.check, set()

    def once(engine, name, seed):
        """What was right is not checked again as long as the files of its step and of earlier ones are the same."""
        number = next(step.number for step in steps.STEPS if f"{name.split('.')[0]}.py" in step.files)
        files = tuple((engine.folder / file).read_text() for file in folders.files_of(number))
        if (name, files) not in right:
            check(engine, name, seed)
            right.add((name, files))

    monkeypatch.setattr(judge, "in_a_process", here)
    monkeypatch.setattr(judge, "check", once)

    def run(*arguments):
        code = command.main([str(a) for a in arguments])
        captured = capsys.readouterr()
        return code, captured.out + captured.err

    return run


# The checks


@pytest.mark.one_in(6)
@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: f"{plant[0]}-{plant[1]}-{plant[4]}"[:60])
def test_common_mistake_is_named(plant, tmp_path):
    file, function, old, new, said = plant
    engine = engine_with(tmp_path, [(file, old, new)])
    with pytest.raises(judge.Wrong) as caught:
        judge.check(engine, f"{file.removesuffix('.py')}.{function}", seed=1)
    assert said in str(caught.value)
    assert "the check of" not in str(caught.value), "a mistake that the check did not foresee"


def test_each_function_has_a_check_and_a_wrong_answer():
    assert set(CHECKS) == HOLES
    assert {f"{file.removesuffix('.py')}.{name}" for file, name, *_ in PLANTS} == HOLES


@pytest.mark.parametrize("seed", [0, 1, None], ids=["0", "1", "new"])
def test_solutions_are_right(seed, tmp_path):
    seed = int(np.random.SeedSequence().entropy % 10**6) if seed is None else seed
    results = judge.judge(engine_with(tmp_path), 10, seed)
    assert [(r["step"], r["wrong"], r["open"]) for r in results] == [(n, "", []) for n in range(1, 11)], f"seed {seed}"


def test_other_right_answers_are_right(tmp_path):
    engine_with(tmp_path)
    for file, others in OTHERS.items():
        lines = steps.solution_text(file).splitlines()
        positions = steps.functions(steps.solution_text(file))
        for name in sorted(others, key=lambda name: -positions[name].lineno):  # from the end on: lines before it stay
            function = positions[name]
            first = function.body[ast.get_docstring(function) is not None].lineno
            indent = " " * (function.col_offset + 4)
            lines[first - 1 : function.end_lineno] = [indent + line for line in others[name].strip().splitlines()]
        (tmp_path / file).write_text("\n".join(lines) + "\n")
    results = judge.judge(judge.Engine(tmp_path), 10, 3)
    assert [(r["step"], r["wrong"], r["open"]) for r in results] == [(n, "", []) for n in range(1, 11)]


def test_seed_repeats_the_same_cases(tmp_path):
    engine = engine_with(tmp_path, [("slopes.py", "(b, a)", "(a, b)")])

    def said(seed):
        with pytest.raises(judge.Wrong) as caught:
            judge.check(engine, "slopes.mul", seed)
        return str(caught.value)

    assert said(7) == said(7) != said(8)


# The holes


def test_holes_hold_nothing_of_the_solution():
    for file in texts_of_solutions():
        cut, solved = steps.functions(steps.hole_text(file)), steps.functions(steps.solution_text(file))
        assert cut.keys() == solved.keys()
        for name, hole in steps.holes_of(file).items():
            *arguments, left = hole.splitlines()
            assert left == ("return g" if name == "unbroadcast" else "..."), name
            assert steps.body(solved[name]).splitlines()[: len(arguments)] == arguments
            assert steps.body(solved[name]) != hole
            assert ast.get_docstring(cut[name]) == ast.get_docstring(solved[name])
            assert ast.unparse(cut[name].args) == ast.unparse(solved[name].args)


def test_hole_ends_with_its_block():
    text = 'def f():\n    """F."""\n\n    # hole\n    x = 1\n\n    return x\n\n\ny = 2\n'
    assert steps.with_holes(text) == 'def f():\n    """F."""\n    ...\n\n\ny = 2\n'
    assert steps.without_marks(text) == text.replace("    # hole\n", "")
    assert "    ### BEGIN SOLUTION\n    x = 1\n\n    return x\n    ### END SOLUTION\n\n\ny" in steps.with_regions(text)


def test_lines_of_code_are_counted():
    assert steps.code_lines('"""Words,\nmore."""\n\nx = (1,\n     2)  # two lines\n# none\ndef f():\n    ...\n') == 3
    for file, text in texts_of_solutions().items():
        assert steps.own_lines(steps.hole_text(file), file) == 0
        assert steps.own_lines(text, file) >= len(steps.holes_of(file))


# The command, from an empty folder to the trained model


@pytest.mark.slow
def test_student_walks_all_ten_steps(run, tmp_path):
    folder = tmp_path / "my_engine"
    assert run(folder)[0] == 0
    total = sum(steps.own_lines(text, file) for file, text in texts_of_solutions().items())
    lines = 0
    for step in steps.STEPS:
        code, said = run(folder, "--check")
        assert code == 1
        assert f"step {step.number}, {step.title}:\n  not solved yet: " in said
        wrong = next(plant for plant in PLANTS if plant[0] == step.files[-1])
        for file in step.files:
            assert (folder / file).read_text() == steps.hole_text(file)
            (folder / file).write_text(steps.solution_text(file))
        (folder / wrong[0]).write_text(steps.solution_text(wrong[0]).replace(wrong[2], wrong[3]))
        code, said = run(folder, "--check", "--seed", 5)
        assert code == 1
        assert f"  wrong: {wrong[1]} in {wrong[0]}\n" in said
        assert wrong[4] in " ".join(said.split())
        assert "Repeat these cases with --seed 5." in said
        assert command.present(folder) == step.number, "a wrong answer opened the next step"
        (folder / wrong[0]).write_text(steps.solution_text(wrong[0]))
        mine = contents(folder)
        code, said = run(folder, "--check", "--steps", 2)
        assert code == 0, said
        assert f"step {step.number}, {step.title}: right" in said
        assert ("\nMilestone: " in said) == (step.number in (3, 6, 8))
        assert mine.items() <= contents(folder).items(), "a file of the student's has changed"
        lines += sum(steps.own_lines(steps.solution_text(file), file) for file in step.files)
        bar = "█" * 2 * step.number
        assert re.search(rf"step {min(step.number + 1, 10)} of 10 {bar}░*? {lines} of ~{total} lines of your own", said)
    assert lines == total
    assert re.search(r"All [\d,]+ gradients .* agree with tinytensor's; they differ by \de-1[4-9] at most", said)
    code, said = run(folder, "--milestone", 10, "--steps", 3)
    assert code == 0
    assert re.search(r"loss \d\.\d\d -> \d\.\d\d nats a character", said)


def test_steps_are_listed_with_their_lines(run):
    code, said = run("--list")
    assert code == 0
    assert [int(n) for n in re.findall(r"^ ?(\d+)  ", said, re.MULTILINE)] == list(range(1, 11))
    each = [int(n) for n in re.findall(r" (\d+) lines  lesson", said)]
    assert f"together some {sum(each)} lines" in said


def test_readme_shows_a_real_check(run, tmp_path):
    (shown,) = re.findall(r"<!-- from: a check of step 2 -->\n```\n(.*?)```", README, re.DOTALL)
    folder = tmp_path / "my_engine"
    run(folder)
    (folder / "slopes.py").write_text(steps.solution_text("slopes.py"))
    run(folder, "--check")
    solved = steps.solution_text("tape.py")
    (folder / "tape.py").write_text(solved.replace("self.grad = self.grad + unbroadcast", "self.grad = unbroadcast"))
    assert run(folder, "--check", "--seed", 1) == (1, shown)


# Nothing of the student's is overwritten


def test_no_command_changes_the_students_files(run, tmp_path):
    folder = tmp_path / "my_engine"
    run(folder)
    (folder / "slopes.py").write_text("mine = 1\n")
    (folder / "notes.txt").write_text("notes")
    before = contents(folder)
    for arguments in ([], ["--check"], ["--solution", 3], ["--solution", 3], ["--notebook"], ["--milestone", 3]):
        run(folder, *arguments)
        assert contents(folder) == before, arguments
    solved = tmp_path / "my_engine_solution_03"
    assert (solved / "order.py").read_text() == steps.solution_text("order.py")
    assert (solved / "shapes.py").read_text() == steps.hole_text("shapes.py")
    (solved / "order.py").write_text("changed = 1\n")
    assert "order.py is there already and differs from what would be written. Yours stays." in run(
        folder, "--solution", 3
    )[1]  # fmt: skip
    assert (solved / "order.py").read_text() == "changed = 1\n"


def test_file_of_a_later_step_stays_when_its_step_opens(run, tmp_path):
    folder = tmp_path / "my_engine"
    run(folder)
    (folder / "shapes.py").write_text("mine = 1\n")  # step 2 would write it
    (folder / "slopes.py").write_text(steps.solution_text("slopes.py"))
    assert run(folder, "--check")[0] == 0
    assert (folder / "shapes.py").read_text() == "mine = 1\n"
    assert (folder / "tape.py").exists()


# What goes wrong gets a sentence


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("def mul(a, b)\n    return a * b\n", "Python cannot read slopes.py, line 1: expected ':'"),
        ("def mul(a, b):\n    return (a * b\n", "Python cannot read slopes.py, line 2: '(' was never closed"),
        ("import numpy as np\n", "slopes.py has no function `mul` any more"),
        (None, "slopes.py is missing. Run the command without --check"),
        (("return a * b, (b, a)", "return a * c, (b, a)"), ":\n        return a * c, (b, a)\n    NameError"),
        (("return a * b, (b, a)", "raise SystemExit(3)"), "SystemExit: 3"),
        (("import numpy as np", "import numpi as np"), "importing slopes.py stops with an error in slopes.py, line 1"),
        (("return a * b, (b, a)", "return 'ab', (b, a)"), "should be a number or an array of numbers, and is str"),
        (("return a * b, (b, a)", "return None, (b, a)"), "is None. Does a `return` miss?"),
        (("np.tanh(a)", "..."), "wrong: tanh in slopes.py"),
        (("    y = np.tanh(a)\n    return y, (1 - y * y,)", "    ..."), "not solved yet: tanh\n"),
    ],
)  # fmt: skip
def test_broken_file_gets_a_sentence(run, tmp_path, text, said):
    folder = tmp_path / "my_engine"
    run(folder)
    if text is None:
        (folder / "slopes.py").unlink()
    else:
        solved = steps.solution_text("slopes.py")
        (folder / "slopes.py").write_text(text if isinstance(text, str) else solved.replace(*text))
    code, message = run(folder, "--check")
    assert code == 1
    assert said in message
    assert "Traceback" not in message
    assert not (folder / "tape.py").exists()


def test_missing_file_is_written_again(run, tmp_path):
    folder = tmp_path / "my_engine"
    engine_with(folder)
    (folder / "order.py").unlink()
    assert "order.py is missing" in run(folder, "--check")[1]
    assert "order.py was missing. It is there again, with its holes." in run(folder)[1]
    assert (folder / "order.py").read_text() == steps.hole_text("order.py")


def test_proposed_commands_are_quoted(run, tmp_path):
    folder = tmp_path / "it's mine"
    (command,) = re.findall(r"Then: python -m examples.build (.*)", run(folder)[1])
    assert shlex.split(command) == [str(folder), "--check"]
    assert folders.proposed(Path("-x")) == "python -m examples.build ./-x"


def test_folder_that_cannot_be_written_is_named(run, tmp_path):
    (tmp_path / "file").write_text("")
    code, message = run(tmp_path / "file" / "mine")
    assert code == 1
    assert "/file/mine cannot be read or written: Not a directory. What is there stays." in message


def test_foreign_folder_is_refused(run, tmp_path):
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "slopes.py").write_text("mine = 1\n")
    (tmp_path / "file").write_text("x")
    for name, said in (("notes", "a folder that this command did not write"), ("file", "is a file")):
        for arguments in ([], ["--check"], ["--milestone", 3]):
            code, message = run(tmp_path / name, *arguments)
            assert (code, said in message) == (1, True)
    assert contents(tmp_path / "notes") == {"slopes.py": b"mine = 1\n"}
    code, message = run(tmp_path / "nothing", "--check")
    assert (code, "There is no folder" in message) == (1, True)
    assert not (tmp_path / "nothing").exists()
    run(tmp_path / "mine")
    assert "takes a step from 1 to 10, not 11" in run(tmp_path / "mine", "--solution", 11)[1]
    assert "Step 4 has no milestone; the steps 3, 6, 8, 10 have one." in run(tmp_path / "mine", "--milestone", 4)[1]
    assert "needs step 6" in run(tmp_path / "mine", "--milestone", 6)[1]


@pytest.mark.slow
def test_endless_loop_is_ended_with_its_line(tmp_path):
    """In processes of their own, as a student runs it."""
    folder = tmp_path / "my_engine"
    command.main([str(folder)])
    (folder / "slopes.py").write_text(
        steps.solution_text("slopes.py").replace("    return a * b, (b, a)", "    while True:\n        a = b")
    )
    arguments = [sys.executable, "-m", "examples.build", str(folder), "--check", "--limit", "0.5"]
    done = subprocess.run(arguments, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 1
    assert "did not end within 0.5 seconds." in done.stdout
    assert re.search(r"It was in slopes.py, line \d+:\n        (while True:|a = b)\n", done.stdout)
    assert done.stderr == ""
    (folder / "slopes.py").write_text(steps.solution_text("slopes.py").replace("(b, a)", "(a, b)"))
    (result,) = judge.in_a_process(folder, "check", 1, 0, 10.0)
    assert re.fullmatch(
        r"mul\(.*\): the slope with respect to a is .*\. The two slopes are swapped: .*", result["wrong"]
    )
    (folder / "slopes.py").write_text(
        steps.solution_text("slopes.py").replace("    return a * b, (b, a)", "    __import__('os')._exit(7)")
    )
    said = judge.in_a_process(folder, "check", 1, 0, 10.0)
    assert re.fullmatch(r"mul\(.*\) ended the whole program with the code 7\.", said)


def test_time_is_that_of_the_outermost_call(tmp_path, monkeypatch):
    """Else a call within another one would switch off the limit of time."""
    calls = []
    monkeypatch.setattr(judge.faulthandler, "dump_traceback_later", lambda *a, **k: calls.append("starts"))
    monkeypatch.setattr(judge.faulthandler, "cancel_dump_traceback_later", lambda: calls.append("ends"))
    engine = judge.Engine(tmp_path, 5.0, tmp_path / "trace")
    with engine.running("outer"):
        with engine.running("inner"):
            assert calls == ["starts"]
        assert calls == ["starts"]
        assert (tmp_path / "trace").read_text() == "outer\n"
    assert calls == ["starts", "ends"]


# Notebooks


def test_notebooks_carry_what_nbgrader_reads(run, tmp_path):
    assert run(tmp_path / "plain", "--notebook")[0] == 0
    assert run(tmp_path / "graded", "--notebook", "--solution", 10)[0] == 0
    names, graded = [], set()
    for number in range(1, 11):
        (path,) = (tmp_path / "graded").glob(f"step_{number:02}_*.ipynb")
        notebook = nbformat.read(path, as_version=4)
        nbformat.validate(notebook)
        for cell in notebook.cells:
            meta = cell.metadata.nbgrader
            wanted = {"schema_version", "grade_id", "solution", "grade", "task", "locked"}
            assert set(meta) == wanted | ({"points"} if meta.grade else set())
            assert meta.schema_version == 3
            assert meta.locked == (not meta.solution)
            assert not (meta.solution and meta.grade)
            names.append(meta.grade_id)
            if meta.grade:
                assert meta.points == 1
                graded.add(re.search(r'"(\w+\.[\w.]+)"\)', cell.source)[1])
            if meta.solution:
                assert cell.source.count("### BEGIN SOLUTION") == cell.source.count("### END SOLUTION") > 0
                assert cell.source.startswith("%%writefile my_engine/")
        plain = json.loads((tmp_path / "plain" / path.name).read_text())
        assert "SOLUTION" not in json.dumps(plain)
        for file in steps.STEPS[number - 1].files:
            code = steps.hole_text(file).split('"""\n', 2)[-1].strip()
            assert any(code in "".join(cell["source"]) for cell in plain["cells"])
    assert len(names) == len(set(names))
    assert graded == HOLES


def test_notebook_cells_check_a_function(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    notebooks.begin("my_engine", 3)
    assert "taken from the solutions of earlier steps: " in capsys.readouterr().out
    assert {path.name for path in Path("my_engine").iterdir()} == {"__init__.py", "slopes.py", "tape.py", "shapes.py"}
    solved = steps.solution_text("order.py")
    Path("my_engine/order.py").write_text(solved)
    notebooks.check("my_engine", "order.backward")
    assert capsys.readouterr().out == "right: backward\n"
    Path("my_engine/order.py").write_text(solved.replace("tensor.grad = 0.0", "pass"))
    with pytest.raises(AssertionError, match=r"wrong: after zero_grad .*\n\(Repeat this with seed=\d+.\)"):
        notebooks.check("my_engine", "order.zero_grad")
    Path("my_engine/order.py").write_text(solved.replace("tensor.send()", "raise NotImplementedError()"))
    with pytest.raises(AssertionError, match="NotImplementedError"):
        notebooks.check("my_engine", "order.backward")
    Path("my_engine/order.py").write_text(steps.hole_text("order.py").replace("...", "raise NotImplementedError()"))
    with pytest.raises(AssertionError, match=r"not solved yet: backward in order\.py"):
        notebooks.check("my_engine", "order.backward")
    notebooks.begin("my_engine", 2)  # nothing is missing, and nothing is written
    assert "order" not in capsys.readouterr().out


def test_only_the_process_that_checks_loads_the_engine(tmp_path):
    """Each of the two would load it for as long as all checks of a step take."""

    def loaded(*arguments: str) -> str:
        command = [sys.executable, "-X", "importtime", *arguments]
        return subprocess.run(command, capture_output=True, text=True, cwd=ROOT).stderr

    engine_with(tmp_path / "mine")
    (tmp_path / "mine" / "tape.py").unlink()
    asked = loaded("-m", "examples.build", str(tmp_path / "mine"), "--check")
    assert "tinytensor.cli.output" in asked and "numba" not in asked
    assert "numba" in loaded("-c", "import tinytensor.cli.output")
