"""The commands of the guide run to the letter: those on gradients, on the installation, and on certificates."""

import re
import shlex
import sys
from pathlib import Path

import pytest

from tinytensor.cli import main as command
from tinytensor.symbolic.certificates.certify import absent

GUIDE = Path(__file__).parents[2] / "examples" / "guide"
MY_FILE = """
def loss(X, W):
    return (X @ W).square().mean()

def layer(X, W):
    return X @ W

def log_sum_exp(x):
    return x.exp().sum().log()
"""
# python -m examples.site runs the same for its pages; the other one is tried where it deletes nothing of this machine.
ELSEWHERE = ("tinytensor report", "tinytensor cache --clear")


def commands(page: str, *headings: str) -> list[str]:
    """The commands of a page; those below these headings, if there are any."""
    first, *rest = re.split(r"^## (.*)\n", (GUIDE / page).read_text(encoding="utf-8"), flags=re.MULTILINE)
    sections = dict(zip(rest[::2], rest[1::2]))
    text = "".join(sections[heading] for heading in headings) if headings else first
    return [line.partition("  #")[0].strip() for line in re.findall(r"^tinytensor .*$", text, re.MULTILINE)]


COMMANDS = commands("commands.md", "Gradients", "The installation") + commands("certificates.md")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The folder of a user, in which the commands run in turn: one certifies what another writes."""
    path = tmp_path_factory.mktemp("user")
    (path / "my_file.py").write_text(MY_FILE)
    return path


@pytest.mark.slow
@pytest.mark.parametrize("line", [line for line in COMMANDS if line not in ELSEWHERE])
def test_command_of_the_guide_runs(line, folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", [*sys.path])
    code = 2 if line.startswith("tinytensor certify") and absent() else 0
    assert command.main(shlex.split(line)[1:]) == code
    said = "".join(capsys.readouterr())
    assert said and ("packages coq and libcoq-coquelicot" in said) is bool(code), said


def test_commands_are_found():
    assert len(COMMANDS) == 15 and {*ELSEWHERE} <= {*COMMANDS}
