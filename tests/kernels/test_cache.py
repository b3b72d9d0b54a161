"""The cache of kernels saves time and nothing else: whatever befalls it, a run computes, and says so in one line."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from numba import config

from tinytensor.kernels import cache

pytestmark = pytest.mark.skipif(config.DISABLE_JIT, reason="nothing is compiled")

PROGRAM = """
import tinytensor as tt
from tinytensor.kernels.cache import progress
assert tt.tensor([0.0, 0.0]).exp().tolist() == [1.0, 1.0]
print(progress.count)
"""
NO_FILES_OVER_A_KILOBYTE = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
ANEW = "tinytensor: kernels are compiled anew, for the cache fails"


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
    assert compiled > 0 and said == ["tinytensor: compiling kernels for this machine (once; cached for later runs) ..."]
    assert run(folder) == (0, [])
    return folder


@pytest.mark.parametrize("kind", ["nbi", "nbc"])
@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_file_is_replaced(filled, kind, damage):
    files = list(filled.rglob(f"*.{kind}"))
    assert files
    for file in files:
        file.write_bytes(DAMAGE[damage](file.read_bytes()))
    _, said = run(filled)
    assert [line.startswith(ANEW) and line.endswith("is damaged") for line in said] == [True]
    assert run(filled) == (0, [])


def test_on_a_full_disk_it_computes(tmp_path):
    pytest.importorskip("resource")
    compiled, said = run(tmp_path, NO_FILES_OVER_A_KILOBYTE)
    assert compiled > 0
    assert [line for line in said if line.startswith(ANEW)] == [f"{ANEW}: [Errno 27] File too large"]
    compiled, said = run(tmp_path)  # and what was begun then does no harm
    assert compiled > 0 and not any(line.startswith(ANEW) for line in said)
    assert run(tmp_path) == (0, [])


@pytest.mark.parametrize("variable", ["NUMBA_CACHE_DIR", "HOME"])
def test_where_nothing_can_be_written_it_computes(tmp_path, variable):
    (tmp_path / "file").touch()  # root may write to any folder, but not into a file
    compiled, said = run("", **{variable: str(tmp_path / "file")}, XDG_CACHE_HOME="")
    assert compiled > 0
    assert said[0].startswith(f"{ANEW}: [Errno 20] Not a directory")
    assert said[1:] == ["tinytensor: compiling kernels for this process ..."]


@pytest.mark.parametrize("temporary", [True, False])
def test_without_a_home_there_is_a_folder(tmp_path, temporary, monkeypatch, capsys):
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
    assert cache._root.__wrapped__() == (tmp_path if temporary else Path(os.devnull) / "tinytensor")
    assert capsys.readouterr().err == f"{ANEW}: Could not determine home directory.\n"


def test_with_no_folder_at_all_it_computes():
    no_folder = "import tempfile\ndef refuse(**_): raise FileNotFoundError\ntempfile.mkdtemp = refuse\n"
    compiled, said = run("", no_folder, HOME=os.devnull, XDG_CACHE_HOME="")
    assert compiled > 0 and said[0].startswith(ANEW)
