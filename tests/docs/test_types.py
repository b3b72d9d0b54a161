"""mypy --strict and pyright on a user's program: no error in it, and one at each line of another that has mistakes."""

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tools.packages import missing

HERE, ROOT = Path(__file__).parent, Path(__file__).parents[2]
PROGRAM, WRONG = HERE / "typed_program.py", HERE / "wrong_types.py"
MISTAKES = {i for i, line in enumerate(WRONG.read_text().splitlines(), 1) if "# wrong: " in line}


def run(checker: str, *arguments: str, **environment: str) -> str:
    """What a type checker prints; the test is skipped where it is not installed."""
    if importlib.util.find_spec(checker) is None:
        pytest.skip(missing(checker))
    command = [sys.executable, "-m", checker, *arguments]
    result = subprocess.run(command, env=os.environ | environment, capture_output=True, text=True, timeout=300)
    assert result.returncode in (0, 1), result.stdout + result.stderr
    return result.stdout


def errors_of(result: list[tuple[str, int, str]]) -> dict[str, set[int]]:
    """The lines with errors, by file; an error in a file of the package, in a stub say, is one of ours."""
    by_file: dict[str, set[int]] = {}
    for path, line, _ in result:
        by_file.setdefault(path, set()).add(line)
    return by_file


def test_program_runs():
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    said = subprocess.run([sys.executable, PROGRAM], env=environment, capture_output=True, text=True, timeout=300)
    assert said.returncode == 0, said.stderr


@pytest.mark.slow
def test_mypy_accepts_the_program_and_finds_mistakes(tmp_path):
    """Errors in the engine's own source are silenced, as those of an installed package are."""
    options = ["--strict", "--follow-imports=silent", "--no-error-summary", f"--cache-dir={tmp_path}"]
    said = run("mypy", *options, str(PROGRAM), str(WRONG), MYPYPATH=str(ROOT))
    matches = re.findall(r"^(.+?):(\d+): error: (.*)$", said, re.MULTILINE)
    assert errors_of([(Path(p).name, int(line), e) for p, line, e in matches]) == {WRONG.name: MISTAKES}, said


@pytest.mark.slow
def test_pyright_accepts_the_program_and_finds_mistakes(tmp_path):
    (tmp_path / "pyrightconfig.json").write_text(json.dumps({"extraPaths": [str(ROOT)]}))
    for path in (PROGRAM, WRONG):
        shutil.copy(path, tmp_path)  # pyright reads the files beside its settings
    said = run("pyright", "-p", str(tmp_path), "--pythonpath", sys.executable, "--outputjson")
    results = [d for d in json.loads(said)["generalDiagnostics"] if d["severity"] == "error"]
    positions = [(Path(d["file"]).name, d["range"]["start"]["line"] + 1, d["message"]) for d in results]
    assert errors_of(positions) == {WRONG.name: MISTAKES}, positions
