"""Private parts of NumPy, Numba and llvmlite: the list is complete, all are there, and other versions are named."""

import ast
import importlib
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import tinytensor as tt
from tinytensor.native.platform.tested_versions import ATTRIBUTES, IMPORTED, PUBLIC, TESTED, untested

ROOT = Path(__file__).parents[2]
SOURCES = [path for room in ("simd", "runtime") for path in (ROOT / "tinytensor" / "native" / room).glob("*.py")]
THEIRS = ("numpy", "numba", "llvmlite")


def imported(text: str) -> set[tuple[str, str]]:
    """(module, name) for every import from NumPy, Numba and llvmlite in a source."""
    nodes = [n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Import | ast.ImportFrom)]
    pairs = {
        (node.module, alias.name) if isinstance(node, ast.ImportFrom) else (alias.name, "")
        for node in nodes
        for alias in node.names
    }
    return {(module, name) for module, name in pairs if (module or "").partition(".")[0] in THEIRS}


def test_list_of_private_imports_is_complete():
    sources = (ROOT / "tinytensor").rglob("*.py")
    results = {pair for path in sources for pair in imported(path.read_text()) if pair[0] not in PUBLIC}
    assert results == {(module, name) for module, names in IMPORTED.items() for name in names.split()}


def private(sources: list[str]) -> tuple[set[str], set[str]]:
    """The names with a leading underscore that sources use as attributes, and those that they define themselves."""
    nodes = [node for text in sources for node in ast.walk(ast.parse(text))]
    used = {n.attr for n in nodes if isinstance(n, ast.Attribute)}
    defined = {n.name for n in nodes if isinstance(n, ast.FunctionDef | ast.ClassDef)}
    defined |= {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    hidden = lambda names: {name for name in names if name.startswith("_") and not name.startswith("__")}  # noqa: E731
    return hidden(used), hidden(defined)


def test_list_of_private_attributes_is_complete():
    used, defined = private([path.read_text() for path in SOURCES])
    listed = {name for names in ATTRIBUTES.values() for name in names.split()}
    assert used - defined <= listed, "private attributes that tested_versions.py does not list"
    assert listed <= used | defined, "listed, but no longer used"


def test_private_parts_are_there():
    for module, names in IMPORTED.items():
        for name in names.split():
            assert hasattr(importlib.import_module(module), name), (module, name)
    (tt.ones(3) @ tt.ones(3)).item()  # compiles with them, or has loaded what was compiled
    for position, names in ATTRIBUTES.items():
        module, _, category = position.rpartition(".")
        try:
            holder = importlib.import_module(position)
        except ModuleNotFoundError:
            holder = getattr(importlib.import_module(module), category)
        source = Path(sys.modules[module].__file__).read_text() if module in sys.modules else ""
        for name in names.split():
            assert hasattr(holder, name) or f"self.{name} = " in source or f"self.{name}: " in source, (position, name)


def test_untried_versions_are_named():
    assert untested("3.11", "2.1", "0.70.1") == [f"Numba 0.70.1 (tried: {TESTED['Numba'][0]} to {TESTED['Numba'][1]})"]
    assert [message.split()[0] for message in untested("3.10", "1.26.4", "0.59.0rc1")] == ["Python", "NumPy", "Numba"]
    assert untested(*(first for first, _ in TESTED.values())) == []
    assert untested(*(last for _, last in TESTED.values())) == []


def test_lowest_versions_are_those_of_pyproject():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lowest = dict(need.split(">=") for need in project["dependencies"])
    assert (lowest["numpy"], lowest["numba"]) == (TESTED["NumPy"][0], TESTED["Numba"][0])
    assert project["requires-python"] == f">={TESTED['Python'][0]}"


LATER = """
import numba
numba.__version__ = "9.0.1"
import tinytensor
print(tinytensor.ones(2).tolist())
"""


def later(folder: Path, value: str = "") -> subprocess.CompletedProcess:
    environment = os.environ | {"PYTHONPATH": str(ROOT), "NUMBA_CACHE_DIR": str(folder), "NUMBA_DISABLE_JIT": "1"}
    environment["TINYTENSOR_UNTRIED"] = value
    return subprocess.run([sys.executable, "-c", LATER], env=environment, capture_output=True, text=True)


def test_later_numba_warns_once_on_a_machine(tmp_path):
    first, second = later(tmp_path), later(tmp_path)
    assert first.stderr.count("UserWarning: tinytensor was not tried with ") == 1
    assert "Numba 9.0.1 (tried:" in first.stderr
    assert second.stderr == "" and first.stdout == second.stdout == "[1.0, 1.0]\n"


def test_warning_can_be_left_out(tmp_path):
    assert later(tmp_path, "off").stderr == ""


@pytest.mark.parametrize("text", ["from numba.core.caching import FunctionCache", "import numba.core.types"])
def test_private_import_is_found(text):
    assert imported(text) and imported(text).isdisjoint(imported("from numba import njit"))
    assert private(["class A(B):\n    def _f(self): self._x.y"]) == ({"_x"}, {"_f"})
