"""The cache of kernels saves time and nothing else: whatever befalls it, a run computes, and says so in one line."""

import ast
import os
import subprocess
import sys
from itertools import product
from pathlib import Path

import pytest
from numba import config

from tests.tools.platforms import posix
from tests.tools.sampling_rate import some
from tinytensor.native.runtime import cache

pytestmark = pytest.mark.skipif(config.DISABLE_JIT, reason="nothing is compiled")

PROGRAM = """
import tinytensor as tt
from tinytensor.native.runtime.cache import progress
assert tt.tensor([0.0, 0.0]).exp().tolist() == [1.0, 1.0]
print(progress.count)
"""
NO_FILES_OVER_A_KILOBYTE = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
COMPILING = "tinytensor: compiling the kernels that this program needs (about 0.3 s each, {}) ..."
COMPILED_AGAIN = "tinytensor: kernels are compiled again, because the cache fails"


def run(folder: Path | str, before: str = "", **environment: str) -> tuple[int, list[str]]:
    """How many kernels a process compiled, and what it said."""
    environment = os.environ | {"NUMBA_CACHE_DIR": str(folder), "NUMBA_NUM_THREADS": "1"} | environment
    command = [sys.executable, "-W", "error", "-c", before + PROGRAM]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300)
    assert done.returncode == 0, done.stderr
    return int(done.stdout), done.stderr.splitlines()


def flip(content: bytes) -> bytes:
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


DAMAGE = {
    "empty": lambda content: b"",
    "truncated": lambda content: content[: len(content) // 2],
    "another": lambda content: b"not a build\n",
    "one bit": flip,
}


@pytest.fixture(scope="module")
def filled(tmp_path_factory) -> Path:
    """A folder that holds what a run leaves."""
    folder = tmp_path_factory.mktemp("cache")
    compiled, said = run(folder)
    assert compiled > 0 and said == [COMPILING.format(f"kept in {folder}/tinytensor")]
    assert run(folder) == (0, [])
    return folder


@pytest.mark.parametrize(("suffix", "damage"), list(some(product(["nbi", "nbc"], DAMAGE), one_in=3)))
def test_a_damaged_file_is_replaced(filled, suffix, damage):
    files = list(filled.rglob(f"*.{suffix}"))
    assert files
    for file in files:
        file.write_bytes(DAMAGE[damage](file.read_bytes()))
    _, said = run(filled)
    assert [line.startswith(COMPILED_AGAIN) and line.endswith("is damaged") for line in said] == [True]
    assert run(filled) == (0, [])


ATTEND = """
import sys
import numba.core.compiler, tinytensor as tt
def refuse(*args, **kwargs):
    raise AssertionError("Numba compiles")
if sys.argv[1] == "warm":
    numba.core.compiler.CompilerBase.__init__ = refuse
x = tt.randn(2, 3, 32, 8, requires_grad=True)
tt.nn.functional.scaled_dot_product_attention(x, x, x, is_causal=True).sum().backward()
assert x.grad is not None
print(*[name for name in sys.argv[2:] if name in sys.modules])
"""


def test_warm_start_compiles_nothing(tmp_path):
    """Neither a kernel, nor a helper that Python calls, nor what Numba compiles with."""

    def run(folder: str, *args: str) -> subprocess.CompletedProcess:
        environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / folder)}
        command = [sys.executable, "-W", "error", "-c", ATTEND, *args]
        return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300)

    compiler = ["numba.np.linalg", "numba.typed.typeddict"]
    assert run("cache", "cold", *compiler).stdout.split() == compiler
    warm = run("cache", "warm", "numpy", "sympy", "scipy.linalg", *compiler)
    assert warm.returncode == 0, warm.stderr
    assert warm.stdout.split() == ["numpy"]
    assert "Numba compiles" in run("empty", "warm").stderr


def parsed(text: str) -> set[str]:
    """What `cache.imported` should find, by Python's own parser."""
    names, rooms = set(), tuple(f"tinytensor.native.{r}" for r in ("kernels", "platform", "runtime", "simd"))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom):
            assert not node.level, "a relative import, which the cache does not know"
            if (node.module or "").startswith(rooms):
                names |= {*node.module.split(".")[3:], *(alias.name for alias in node.names)}
        elif isinstance(node, ast.Import):
            assert not any(alias.name.startswith(rooms) for alias in node.names), "import of a module"
    return names


FORMS = {
    "from tinytensor.native.kernels import copy": {"copy"},
    "from tinytensor.native.kernels import copy, norm as n": {"copy", "norm"},
    "from tinytensor.native.kernels.norm import rms_norm": {"norm", "rms_norm"},
    "from tinytensor.native.kernels import copy, \\\n    norm": {"copy", "norm"},
    "from tinytensor.native.kernels \\\n    import copy": {"copy"},
    "from \\\n    tinytensor.native.kernels import copy, \\\r\n norm": {"copy", "norm"},
    "from tinytensor.native.kernels import(copy,norm)": {"copy", "norm"},
    "from tinytensor.native.kernels import (\n    copy,\n    norm,\n)": {"copy", "norm"},
    "from tinytensor.native.kernels import (\n    copy,  # :-)\n    norm,  # and (more)\n)": {"copy", "norm"},
    "from tinytensor.native.kernels.scan import (  # )\n    # )\n    cumsum\n)": {"scan", "cumsum"},
    "import os; from tinytensor.native.kernels import copy; from tinytensor.native.simd.math import x": {
        *("copy", "math", "x")
    },
    "if True: from tinytensor.native.kernels import copy  # as ever": {"copy"},
    "x = '#'; from tinytensor.native.kernels import copy": {"copy"},
    "def f():\n    from tinytensor.native.kernels.norm import *": {"norm", "*"},
    "from tinytensor.native.kernels_of_mine import copy": set(),
    "from tinytensor.native.runtime.scheduler import run": {"scheduler", "run"},
    "from tinytensor.core.dispatch import launch": set(),
}


@pytest.mark.parametrize("text", FORMS)
def test_every_form_of_import_is_found(text):
    expected = FORMS[text] - {"*"}
    names = cache.imported(text)
    assert expected <= names
    assert bool(names) == bool(expected)
    if "_of_mine" not in text:
        assert parsed(text) - {"*"} == expected


def test_imports_are_found_as_python_finds_them():
    files = sorted(file for room in cache.ROOMS for file in room.glob("*.py"))
    assert len(files) > 15
    modules = {file.stem for file in files}
    for file in files:
        text = file.read_text(encoding="utf-8")
        assert parsed(text) <= cache.imported(text), file
        assert modules & parsed(text) == modules & cache.imported(text), file
    assert cache.imported("import os\nfrom tinytensor.core.dispatch import launch") == set()


def test_kernels_run_on_a_full_disk(tmp_path):
    pytest.importorskip("resource")
    compiled, said = run(tmp_path, NO_FILES_OVER_A_KILOBYTE)
    assert compiled > 0
    assert [line for line in said if line.startswith(COMPILED_AGAIN)] == [
        f"{COMPILED_AGAIN}: [Errno 27] File too large"
    ]
    compiled, said = run(tmp_path)  # and what was begun then does no harm
    assert compiled > 0 and not any(line.startswith(COMPILED_AGAIN) for line in said)
    assert run(tmp_path) == (0, [])


@posix  # Windows asks other variables, and has another error
@pytest.mark.parametrize("variable", ["NUMBA_CACHE_DIR", "HOME"])
def test_kernels_run_without_a_writable_folder(tmp_path, variable):
    (tmp_path / "file").touch()  # root may write to any folder, but not into a file
    compiled, said = run("", **{variable: str(tmp_path / "file")}, XDG_CACHE_HOME="")
    assert compiled > 0
    assert said[0].startswith(f"{COMPILED_AGAIN}: [Errno 20] Not a directory")
    assert said[1:] == [COMPILING.format("not kept")]


@pytest.mark.parametrize("temporary", [True, False])
def test_cache_folder_without_a_home(tmp_path, temporary, monkeypatch, capsys):
    def no_home():
        raise RuntimeError("Could not determine home directory.")

    def no_folder(prefix):
        if not temporary:
            raise FileNotFoundError("No usable temporary directory found")
        return str(tmp_path)

    for name in ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(cache.Path, "home", no_home)
    monkeypatch.setattr(cache.tempfile, "mkdtemp", no_folder)
    monkeypatch.setattr(cache.atexit, "register", lambda *args, **options: None)
    monkeypatch.setattr(cache, "progress", cache._Progress())
    assert cache.root.__wrapped__() == (tmp_path if temporary else Path(os.devnull) / "tinytensor")
    assert capsys.readouterr().err == f"{COMPILED_AGAIN}: Could not determine home directory.\n"


def test_kernels_run_without_a_cache_folder():
    no_folder = "import tempfile\ndef refuse(**_): raise FileNotFoundError\ntempfile.mkdtemp = refuse\n"
    compiled, said = run("", no_folder, HOME=os.devnull, XDG_CACHE_HOME="")
    assert compiled > 0 and said[0].startswith(COMPILED_AGAIN)
