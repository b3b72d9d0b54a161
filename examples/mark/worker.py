"""The process in which one file of a student runs: `python worker.py ASKED`, started by `python -m examples.mark`.

ASKED is JSON: the file, the course's file with these exercises, a file for the results, the numbers of exercises, how
many random cases each check draws, and whether the file is the key. The results are lines [number, sentence]. Two more
lines say how far it came: ["ready", ""] before the student's file runs, and ["loaded", ""] after it.
"""

import ast
import json
import random
import runpy
import sys
import traceback
from pathlib import Path

import tinytensor as tt

LONGEST = 400  # characters of a sentence


def source(file: Path) -> str:
    """The Python text of a file; of a notebook, that of its code cells, without Jupyter's own commands."""
    text = file.read_text(encoding="utf-8")
    if file.suffix != ".ipynb":
        return text
    cells = ["".join(cell["source"]) for cell in json.loads(text)["cells"] if cell["cell_type"] == "code"]
    return "\n".join(line for cell in cells for line in cell.splitlines() if not line.startswith(("%", "!")))


def names_in(file: Path) -> dict:
    """The names that a student's file defines.

    Its `print` calls, which run the checks, are left out: an exercise that never ends must not stop the others.
    """
    tree = ast.parse(source(file), str(file))
    tree.body = [line for line in tree.body if not _prints(line)]
    names = {"__name__": "handed_in", "__file__": str(file)}
    exec(compile(tree, str(file), "exec"), names)
    return names


def _prints(line: ast.stmt) -> bool:
    call = line.value if isinstance(line, ast.Expr) else None
    return isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "print"


def error_of(problem: BaseException, file: Path) -> str:
    """One sentence: the error, and the last line of the student's file that led to it."""
    lines = [frame.lineno for frame in traceback.extract_tb(problem.__traceback__) if frame.filename == str(file)]
    message = " ".join(str(problem).split())
    if isinstance(problem, SyntaxError) and problem.lineno:
        lines, message = [problem.lineno], problem.msg
    return f"error: {type(problem).__name__}: {message}" + (f" (line {lines[-1]})" if lines else "")


def verdict(check, answer, seeds: int) -> str:
    """What a check says of an answer: "right" if it says so of all random cases, else the first other sentence."""
    for seed in range(seeds):
        random.seed(seed)
        tt.manual_seed(seed)
        if (sentence := check(answer)) != "right":
            return sentence
    return "right"


def main() -> None:
    name, sheet, results, numbers, seeds, is_key = json.loads(sys.argv[1])
    file = Path(name)
    random.seed(0)
    sys.path.append(str(Path(sheet).parent))  # where the judge of the exercises stands
    checks = runpy.run_path(sheet)

    def tell(number: int | str, sentence: str) -> None:
        with open(results, "a", encoding="utf-8") as lines:
            lines.write(json.dumps([number, sentence[:LONGEST]]) + "\n")

    tell("ready", "")
    try:
        names = runpy.run_path(name, init_globals=checks) if is_key else names_in(file)
        problem = None
    except BaseException as found:
        names, problem = {}, error_of(found, file)
    tell("loaded", "")
    for number in numbers:
        answer = names.get(f"right_{number}" if is_key else f"answer_{number}")
        if problem or not callable(answer):
            tell(number, problem or f"error: the file has no function answer_{number}")
        else:
            tell(number, verdict(checks[f"check_{number}"], answer, seeds))


if __name__ == "__main__":
    main()
