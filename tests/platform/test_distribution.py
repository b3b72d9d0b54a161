"""One name under which the package is installed: in pyproject.toml, in metadata, in every piece of advice."""

import ast
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import tinytensor as tt
from tinytensor.native.platform import distribution
from tinytensor.native.platform.distribution import NAME, install, programs, version

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
ROOMS = ("tinytensor", "models", "derivations", "examples")


def test_name_and_extras_are_those_of_pyproject():
    assert PROJECT["name"] == NAME
    extras = PROJECT["optional-dependencies"]
    others = [need for needs in extras.values() for need in needs if need.startswith("tinytensor")]
    assert others
    for need in others:
        name, _, named = need.rstrip("]").partition("[")
        assert name == NAME and set(named.split(",")) <= set(extras), need


def test_version_is_that_of_pyproject():
    assert tt.__version__ == PROJECT["version"] == version()
    assert f"## {PROJECT['version']}" in (ROOT / "CHANGELOG.md").read_text()
    assert f"version: {PROJECT['version']}" in (ROOT / ".github" / "CITATION.cff").read_text()


def test_version_is_read_when_it_is_asked_for():
    code = "import tinytensor as tt; print('__version__' in vars(tt), bool(tt.__version__), '__version__' in vars(tt))"
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    assert subprocess.check_output([sys.executable, "-c", code], text=True, env=environment).split() == [
        *("False", "True", "True")
    ]
    with pytest.raises(AttributeError, match="no attribute '__versions__'"):
        tt.__versions__  # noqa: B018


def test_advice_fits_the_place(monkeypatch, tmp_path):
    monkeypatch.chdir(ROOT)
    assert install("viz") == "pip install -e '.[viz]'"
    monkeypatch.chdir(tmp_path)
    assert install("viz") == f"pip install -e '{ROOT}[viz]'"
    assert programs() == ROOT
    monkeypatch.setattr(distribution, "PACKAGE", tmp_path / "tinytensor")  # as in a wheel
    assert install("viz") == f"pip install '{NAME}[viz]'"
    assert programs() == tmp_path / "tinytensor" / "programs"


def advice(text: str) -> list[str]:
    """What a program's texts tell the user to install by pip, each up to the end of its line."""
    texts = [n.value for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Constant) and isinstance(n.value, str)]
    return [entry for each in texts for entry in re.findall(r"pip install (.*)", each)]


def test_extras_are_advised_by_the_one_function():
    sources = [path for room in ROOMS for path in (ROOT / room).rglob("*.py") if path.name != "distribution.py"]
    message = {path: [x for x in advice(path.read_text()) if "[" in x or "tinytensor" in x] for path in sources}
    assert {path: entry for path, entry in message.items() if entry} == {}


def test_advice_is_found():
    assert advice("'pip install tinytensor[viz]'\nf'{x}: pip install -e .[a]'\n'''by pip'''") == [
        *("tinytensor[viz]", "-e .[a]")
    ]
