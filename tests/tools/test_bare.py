"""Commands of a bare run find no optional program, no variable and no home of this machine."""

import os
import re
import subprocess
import tomllib
from pathlib import Path

import pytest

from tests.tools import bare
from tests.tools.packages import EXTRAS, missing
from tests.tools.platforms import posix

pytestmark = posix


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A machine on which coqc is installed, and a clone."""
    program = tmp_path / "installed" / "coqc"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=os.pathsep)
    clone = tmp_path / "clone"
    for name in ("it.py", ".git/config", ".venv/pyvenv.cfg", "runs/one"):
        (clone / name).parent.mkdir(parents=True, exist_ok=True)
        (clone / name).write_text("print('it runs')\n")
    return clone


def test_planted_call_of_an_optional_program_fails(machine):
    assert subprocess.run("coqc", shell=True).returncode == 0
    done = bare.run("coqc", machine, capture_output=True, text=True)
    assert done.returncode == 127 and "not found" in done.stderr


def test_only_the_clone_is_there(machine, monkeypatch):
    monkeypatch.setenv("NEEDS_COQ", "1")
    command = "python3 it.py && echo * .[a-z]* $LANG ${NEEDS_COQ-}"
    done = bare.run(command, machine, capture_output=True, text=True)
    assert done.stdout == "it runs\nit.py .[a-z]* C\n", done.stderr


def test_home_cannot_be_written(machine):
    done = bare.run("echo x > ~/x", machine, capture_output=True, text=True)
    assert done.returncode != 0 or (os.geteuid() == 0 and not bare.owner())  # root writes anywhere


def test_exit_code_and_what_is_kept_for_pip(machine, monkeypatch):
    monkeypatch.setenv("PIP_INDEX_URL", "https://a.example")
    done = bare.run('test "$PIP_INDEX_URL" = https://a.example; exit 3', machine)
    assert done.returncode == 3


OF_THE_SYSTEM = ("fcntl", "resource")  # modules of Python that Windows lacks


def silent(text: str) -> list[str]:
    """The packages for which a test is skipped without what to install."""
    skips = re.findall(r'importorskip\(\s*"(\w+)[\w.]*"(, reason=missing\()?', text)
    return [name for name, reason in skips if not reason and name not in OF_THE_SYSTEM]


def test_skipped_test_says_what_to_install():
    files = [path for path in bare.ROOT.glob("tests/**/test_*.py") if path.name != Path(__file__).name]
    assert [name for path in files for name in silent(path.read_text(encoding="utf-8"))] == []
    assert silent('importorskip("one")\nimportorskip("two", reason=missing("two"))') == ["one"]
    assert missing("flint") == "flint is not installed: pip install -e '.[proofs]'"
    extras = tomllib.loads((bare.ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"][
        "optional-dependencies"
    ]
    assert {*EXTRAS.values()} <= {*extras}
