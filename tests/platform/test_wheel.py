"""The built wheel, unpacked outside the clone: what it holds, and its command; an editable installation's path."""

import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

from tests.tools.coq import needed
from tests.tools.packages import missing

ROOT = Path(__file__).parents[2]
PROGRAMS = ("models", "derivations", "examples")
MINE = """
import tinytensor as tt


def loss(x, w):
    return ((x @ w) ** 2).mean()


def constant(x):
    return x * x.detach()


y = loss(tt.ones(2, 3), tt.ones(3, 1, requires_grad=True))
"""


def built(how: str, folder: Path) -> Path:
    """A wheel, built by the backend that pip would call."""
    code = f"import hatchling.build, sys; print(hatchling.build.{how}(sys.argv[1]))"
    done = subprocess.run([sys.executable, "-c", code, str(folder)], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder / done.stdout.split()[-1]


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory) -> Path:
    """The wheel's files; beside them the folder in which commands run."""
    folder = tmp_path_factory.mktemp("wheel")
    with zipfile.ZipFile(built("build_wheel", folder)) as archive:
        archive.extractall(folder / "site")
    (folder / "elsewhere").mkdir()
    (folder / "elsewhere" / "mine.py").write_text(MINE)
    return folder / "site"


def run(unpacked: Path, *arguments: str) -> str:
    """What Python prints in the folder beside the wheel's files. Kernels run as Python: none is compiled for a test."""
    environment = os.environ | {"PYTHONPATH": str(unpacked), "NUMBA_DISABLE_JIT": "1"}
    done = subprocess.run(
        [sys.executable, "-W", "error", *arguments],
        env=environment,
        cwd=unpacked.parent / "elsewhere",
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_wheel_holds_tinytensor_alone(unpacked):
    assert sorted(p.name.partition("-")[0] for p in unpacked.iterdir()) == ["tinytensor", "tinytensor_autograd"]
    for name in ("tinytensor", *PROGRAMS):
        there = unpacked / "tinytensor" if name == "tinytensor" else unpacked / "tinytensor" / "programs" / name
        source = ROOT / name
        files = {p.relative_to(source) for p in source.rglob("*.*") if p.is_file() and "__pycache__" not in p.parts}
        assert {path for path in files if not (there / path).is_file()} == set()
    (wheel,) = unpacked.parent.glob("*.whl")
    assert not [name for name in zipfile.ZipFile(wheel).namelist() if name.endswith(".pyc")]


def test_wheel_finds_its_own_programs(unpacked):
    code = "import tinytensor as tt; from tinytensor.native.platform import distribution as d\n"
    code += "print(tt.__file__, d.programs(), d.clone(), d.install('viz'))"
    engine, programs, clone, advice = run(unpacked, "-c", code).strip().split(maxsplit=3)
    assert Path(engine).parent == unpacked / "tinytensor"
    assert Path(programs) == unpacked / "tinytensor" / "programs" and clone == "None"
    assert advice == "pip install 'tinytensor-autograd[viz]'"


CALLS = """
import sys
from tinytensor.cli.main import main

codes = [main(call.split()) for call in sys.argv[1:]]
print("codes:", *codes)
"""


def test_wheel_trains_and_goes_on_with_its_run(unpacked):
    (unpacked.parent / "elsewhere" / "text.txt").write_text(((ROOT / "README.md").read_text())[:1500])
    sizes = "--D 4 --H 2 --F 4 --L 1 --C 8 --batch-size 1 --eager --tokenizer char"
    train = f"train --text text.txt --steps 1 {sizes} --out run"
    printed = run(unpacked, "-c", CALLS, train, "info run", "sample run --tokens 3")
    assert "more samples: tinytensor sample run" in printed
    assert "after step 1 of 1" in printed and "match: True" in printed
    assert printed.endswith("codes: 0 0 0\n")


def test_wheel_reads_a_users_file(unpacked):
    calls = "prove mine.py:loss 2,3 3,1", "prove mine.py:constant 2,", "explain mine.py:y"
    printed = run(unpacked, "-c", CALLS, *calls)
    assert "proved: loss at x (2, 3), w (3, 1): 9 entries" in printed
    assert "undecided: constant at x (2,)" in printed
    assert "backward() of y = 9" in printed
    assert printed.endswith("codes: 0 1 0\n")


def test_wheel_has_the_library_of_its_certificates(unpacked):
    needed()
    printed = run(unpacked, "-c", CALLS, "derive mine.py:loss x=N,D w=D,K --certificate a.v", "certify a.v")
    assert "accepted by Coq's kernel: 2 theorems" in printed
    assert "codes: 0 0\n" in printed


def test_wheel_writes_the_course(unpacked):
    lessons = {p.name for p in (ROOT / "examples").glob("[0-9]*.py")}
    look = "sys.path[:0] = ['lessons']; import models, derivations.claims, examples.build.steps; print(models.__file__)"
    printed = run(unpacked, "-c", CALLS + look, "course lessons", "course lessons")
    folder = unpacked.parent / "elsewhere" / "lessons"
    assert {p.name for p in (folder / "examples").glob("[0-9]*.py")} == lessons
    assert f"\ncodes: 0 1\n{folder / 'models'}" in printed
    assert "lessons exists already, and nothing was changed" in printed


def test_editable_installation_is_a_path(tmp_path):
    """mypy reads .pth files, as Python does. It does not see an import hook, which other build backends install."""
    pytest.importorskip("mypy", reason=missing("mypy"))
    with zipfile.ZipFile(built("build_editable", tmp_path)) as archive:
        names = [name for name in archive.namelist() if ".dist-info/" not in name]
        assert [name for name in names if not name.endswith(".pth")] == []
        assert [archive.read(name).decode() for name in names] == [str(ROOT)]
        archive.extractall(tmp_path / "installed")
    venv.create(tmp_path / "venv", with_pip=False, symlinks=True)
    packages = next((tmp_path / "venv").glob("[lL]ib/**/site-packages"))
    (tmp_path / "program.py").write_text("import tinytensor\nreveal_type(tinytensor.__version__)\n")
    python = next((tmp_path / "venv").glob("[bS]*/python*"))

    def check() -> str:
        mypy = [sys.executable, "-m", "mypy", "--python-executable", str(python), "--cache-dir", os.devnull]
        return subprocess.run([*mypy, "program.py"], cwd=tmp_path, capture_output=True, text=True).stdout

    assert 'Cannot find implementation or library stub for module named "tinytensor"' in check()
    for file in (tmp_path / "installed").glob("*.pth"):
        file.rename(packages / file.name)
    assert 'Revealed type is "str"' in check()  # NumPy is not in this environment, which mypy says, too
