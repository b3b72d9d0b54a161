"""The steps as notebooks, with the metadata by which nbgrader grades them.

A notebook of a step has its words, the cells that write its files (the student's code goes there), and for each
function a cell that checks it, for one point. Nothing here imports nbgrader or Jupyter: a notebook is a file of JSON.
"""

import ast
import json
import secrets
from pathlib import Path

from examples.build import folders, judge, steps
from examples.build.folders import Refused
from examples.build.steps import ENGINE, STEPS, Step
from examples.mark.child import ROOT

ENGINE_FOLDER = "my_engine"


def cell(kind: str, name: str, text: str, *, solution: bool = False, points: int | None = None) -> dict:
    """A cell with nbgrader's metadata: one with points is graded, and only a solution may be changed."""
    grader = {"schema_version": 3, "grade_id": name, "solution": solution, "grade": points is not None, "task": False}
    grader |= {"locked": not solution} | ({} if points is None else {"points": points})
    made: dict = {"cell_type": kind, "id": name, "metadata": {"nbgrader": grader}}
    made["source"] = text.rstrip().splitlines(keepends=True)
    return made | ({"execution_count": None, "outputs": []} if kind == "code" else {})


def notebook(step: Step, with_solutions: bool) -> dict:
    """The notebook of one step, in nbformat 4.5."""
    from examples.build.checks import functions_of  # which loads tinytensor

    name = f"step_{step.number:02}"
    cells = []
    for file in step.files:
        source = (ENGINE / file).read_text(encoding="utf-8")
        tree = ast.parse(source)
        words = ast.get_docstring(tree, clean=False) or ""
        code = "\n".join(source.splitlines()[tree.body[0].end_lineno :]).lstrip("\n")
        stem = file.removesuffix(".py")
        title, text = words.split(". ", 1)
        cells.append(cell("markdown", f"{name}_{stem}_words", f"# {title}\n\n{text}"))
        if file == step.files[0]:
            begin = f'from examples.build.notebooks import begin, check\n\nbegin("{ENGINE_FOLDER}", {step.number})'
            cells.append(cell("code", f"{name}_begin", begin))
        body = steps.with_regions(code) if with_solutions else steps.with_holes(code)
        text = f"%%writefile {ENGINE_FOLDER}/{file}\n{body}"
        cells.append(cell("code", f"{name}_{stem}", text, solution=True))
        for function in functions_of(file):
            plain = function.replace(".", "_").strip("_")
            test = f'check("{ENGINE_FOLDER}", "{stem}.{function}")'
            cells.append(cell("code", f"{name}_{stem}_{plain}", test, points=1))
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}


def write(folder: Path, last: int | None) -> int:
    """Write the notebooks of all steps with holes, or up to `last` with the solutions between nbgrader's marks."""
    if last is not None and not 1 <= last <= len(STEPS):
        raise Refused(f"--solution takes a step from 1 to {len(STEPS)}, not {last}.")
    if folder.is_file():
        raise Refused(f"{folder} is a file. Give the name of a folder.")
    if folders.is_ours(folder):
        raise Refused(f"{folder} holds an engine. Give another folder for the notebooks.")
    texts = {
        f"step_{step.number:02}_{step.files[-1].removesuffix('.py')}.ipynb": json.dumps(
            notebook(step, last is not None), indent=1, ensure_ascii=False
        )
        + "\n"
        for step in STEPS[:last]
    }
    folders.write(folder, texts)
    print(f"{len(texts)} notebooks are in {folder}{'' if last is None else ', with the solutions, for nbgrader'}.")
    print(f"They use this project. So start Jupyter with its path: PYTHONPATH={ROOT} jupyter notebook {folder}")
    return 0


def begin(folder: str, number: int) -> None:
    """Write what a step needs: the files of earlier steps that are not there, with their solutions."""
    place = Path(folder)
    folders.ours(place, must_exist=False)
    solved = [file for step in STEPS[: number - 1] for file in step.files]
    texts = {"__init__.py": steps.package_text()} | {file: steps.solution_text(file) for file in solved}
    early = [file for step in STEPS[:number] for file in step.early]
    texts |= {file: steps.hole_text(file) for file in early if file not in solved}
    missing = [name for name in texts if not (place / name).exists()]
    folders.write(place, {name: texts[name] for name in missing})
    if number > 1 and missing:
        print(f"taken from the solutions of earlier steps: {', '.join(missing)}")


def check(folder: str, function: str, seed: int | None = None) -> None:
    """Check one function, such as "order.backward"; an AssertionError says what is wrong."""
    seed = secrets.randbelow(10**6) if seed is None else seed
    module, name = function.split(".", 1)
    place = Path(folder)
    missing, said = judge.openings(place, f"{module}.py")
    if name in missing:
        raise AssertionError(f"not solved yet: {name} in {module}.py")
    if not said:
        try:
            judge.check(judge.Engine(place), function, seed)
        except judge.Wrong as wrong:
            said = f"{wrong}\n(Repeat this with seed={seed}.)"
    if said:
        raise AssertionError(f"wrong: {said}") from None
    print(f"right: {name}")
