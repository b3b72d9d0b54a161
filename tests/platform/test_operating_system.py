"""macOS and Windows, on any system: what a process does that lacks what Windows lacks, and what its code relies on."""

import ast
import ctypes
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import llvmlite.binding as llvm
import pytest

from tinytensor.native.platform import operating_system as systems
from tinytensor.native.platform import tested_versions as tried
from tinytensor.native.runtime import scheduler  # noqa: F401 (its import makes the pause known to LLVM)
from tinytensor.native.runtime.cache import LONGEST, short

ROOT = Path(__file__).parents[2]
PACKAGES = ("tinytensor", "models", "derivations", "examples")

# Takes from a process what Windows lacks, before tinytensor is imported. The lock of msvcrt is POSIX's here.
LIKE_WINDOWS = """
import os, signal, subprocess, sys, types
import fcntl as posix

def locking(handle, mode, count):
    assert (mode, count) == (2, 1)
    posix.lockf(handle, posix.LOCK_EX | posix.LOCK_NB, count)  # PermissionError or BlockingIOError

sys.modules["msvcrt"] = types.SimpleNamespace(locking=locking, LK_NBLCK=2)
sys.modules["fcntl"] = sys.modules["resource"] = None
for name in ("SIGALRM", "SIGKILL", "SIGSTOP", "SIGHUP", "setitimer", "getitimer", "ITIMER_REAL"):
    delattr(signal, name)
for name in ("fchmod", "sysconf", "killpg", "sched_getaffinity", "sched_yield", "register_at_fork"):
    delattr(os, name)
by_system = os.open

def open_file(path, *args, **options):
    if os.path.isdir(path):
        raise PermissionError(13, "a folder", str(path))
    return by_system(path, *args, **options)

os.open = open_file
"""
TRAIN = f"""
import numba, numpy  # they know themselves what their system is
{LIKE_WINDOWS}
import tinytensor.native.platform.operating_system as systems
assert systems.fcntl is systems.resource is None and not systems.HAS_TIMER
systems.WINDOWS = True
systems.memory = lambda: 8 << 30  # kernel32 is not here
from models.command import cli
sys.exit(cli.main(sys.argv[1:]))
"""


OPTIONS = "--steps 2 --batch-size 2 --tokenizer char --D 8 --H 2 --F 8 --L 1 --C 8 --threads 1"


def train(out: Path, program: str) -> subprocess.CompletedProcess:
    text = out.with_name("text.txt")
    text.write_text("the law of large numbers holds for the sum of what is drawn\n" * 9, encoding="utf-8")
    command = [sys.executable, "-c", program, "train", "--text", str(text), "--out", str(out), *OPTIONS.split()]
    return subprocess.run(command, cwd=ROOT, capture_output=True, encoding="utf-8", timeout=300)


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    """A run of two steps by a process without POSIX's modules and functions."""
    pytest.importorskip("fcntl")
    out = tmp_path_factory.mktemp("like_windows") / "run"
    done = train(out, TRAIN)
    assert done.returncode == 0, done.stderr
    return out


def test_models_train_without_posix(run):
    assert (run / "checkpoints" / "step-00000002" / "weights.safetensors").is_file()


def test_the_missing_functions_are_noticed(tmp_path):
    """The negative control: a process without them cannot flush a folder or read its limits as POSIX does."""
    pytest.importorskip("fcntl")
    for change, error in {
        "systems.WINDOWS = False": "a folder",
        "systems.HAS_TIMER = True": "SIGALRM",
    }.items():
        done = train(tmp_path / error, TRAIN.replace("systems.memory =", f"{change}\nsystems.memory ="))
        assert done.returncode and error in done.stderr, change


HOLD = """
import runpy, sys
systems = runpy.run_path("tinytensor/native/platform/operating_system.py")
file = open(sys.argv[1], "ab")  # the lock ends with it
print(systems["lock"](file), flush=True)
sys.stdin.readline()
"""


@pytest.mark.parametrize("like", ["this system", "Windows"])
def test_a_second_process_is_refused(tmp_path, like):
    before = "" if like == "this system" else LIKE_WINDOWS
    command = [sys.executable, "-c", before + HOLD, str(tmp_path / ".lock")]
    options = {"cwd": ROOT, "encoding": "utf-8", "stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, **options) as first:
        assert first.stdout.readline() == "True\n"
        second = subprocess.run(command, cwd=ROOT, encoding="utf-8", input="\n", capture_output=True, timeout=300)
        assert (second.returncode, second.stdout) == (0, "False\n"), second.stderr
        first.communicate("\n", timeout=300)
    third = subprocess.run(command, cwd=ROOT, encoding="utf-8", input="\n", capture_output=True, timeout=300)
    assert third.stdout == "True\n"


def test_memory_is_that_of_this_machine():
    assert 1 << 28 < systems.memory() < 1 << 50


class Kernel32:
    """What operating_system.py calls in the libraries of Windows."""

    SwitchToThread = ctypes.CFUNCTYPE(ctypes.c_int)(lambda: 1)
    Check = ctypes.CFUNCTYPE(None)(lambda: None)

    def __class_getitem__(cls, name: str):
        return {"__chkstk": cls.Check}[name]

    @staticmethod
    def GlobalMemoryStatusEx(status) -> int:
        status = status._obj
        assert status.length == ctypes.sizeof(status) == 64  # Windows compares it
        status.total = 3 << 30
        return 1


def test_windows_is_asked_for_its_memory_and_its_pause(monkeypatch):
    monkeypatch.setattr(ctypes, "WinDLL", {"kernel32": Kernel32, "ntdll": Kernel32}.__getitem__, raising=False)
    monkeypatch.delattr(os, "sysconf", raising=False)
    monkeypatch.setattr(systems, "resource", None)
    assert systems.memory() == 3 << 30
    functions = {"tinytensor_pause": Kernel32.SwitchToThread, "__chkstk": Kernel32.Check}
    addresses = {name: ctypes.cast(function, ctypes.c_void_p).value for name, function in functions.items()}
    assert systems.called_by_compiled_code() == addresses


def test_what_compiled_code_calls_is_known_to_it():
    for name, address in systems.called_by_compiled_code().items():
        assert llvm.address_of_symbol(name) == address or name != "tinytensor_pause"
    assert ctypes.CFUNCTYPE(ctypes.c_int)(llvm.address_of_symbol("tinytensor_pause"))() in (0, 1)


PRINT = """import runpy; systems = runpy.run_path("tinytensor/native/platform/operating_system.py"); {}
print("\\u2202", ascii(input()))"""


@pytest.mark.parametrize("call", ['systems["utf8_pipes"]()', "None"])
def test_pipes_are_utf8(call):
    """Also where the system has another encoding, here ASCII; the second is the negative control."""
    environment = os.environ | {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    environment.pop("PYTHONIOENCODING", None)
    command = [sys.executable, "-c", PRINT.format(call)]
    done = subprocess.run(command, cwd=ROOT, env=environment, input="é".encode(), capture_output=True, timeout=300)
    if call == "None":
        assert b"UnicodeEncodeError" in done.stderr
    else:
        assert done.stdout.decode().split() == ["∂", r"'\xe9'"], done.stderr


def test_names_of_files_are_allowed_on_windows(monkeypatch):
    monkeypatch.setattr(tried, "UNTESTED", tried.untested("3.99", "9.9", "9.9"))
    assert not set(tried._note().name) & set('<>:"/\\|?*')
    assert short("add_float32") == "add_float32"
    one, other = (short(f"attention_{'float324_' * 20}{dtype}") for dtype in ("int64", "int32"))
    assert one != other and len(one) == len(other) == LONGEST


OTHERS = ("os", "webbrowser", "Image", "archive", "self.archive")  # what their `open` opens is no text


@cache
def trees(package: str) -> dict[Path, ast.Module]:
    """The sources of a package, parsed."""
    return {path: ast.parse(path.read_text(encoding="utf-8")) for path in (ROOT / package).rglob("*.py")}


def without_encoding(tree: ast.Module) -> list[str]:
    """The calls of a source that read or write text in the encoding of the system, whatever that is."""
    results = []
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        method = isinstance(node.func, ast.Attribute)
        name = node.func.attr if method else getattr(node.func, "id", "")
        keywords = {keyword.arg for keyword in node.keywords}
        if "encoding" in keywords:
            continue
        if method and name in ("read_text", "write_text"):
            results.append(ast.unparse(node))
        elif name == "open" and not (method and ast.unparse(node.func.value) in OTHERS):
            at = 0 if method else 1  # path.open("rb"), open(path, "rb")
            if len(node.args) <= at or "b" not in ast.unparse(node.args[at]):
                results.append(ast.unparse(node))
        elif any(keyword.arg == "text" and ast.unparse(keyword.value) == "True" for keyword in node.keywords):
            results.append(ast.unparse(node))  # of a process that is started
    return results


@pytest.mark.parametrize("package", PACKAGES)
def test_text_has_an_encoding(package):
    results = {str(path): calls for path, tree in trees(package).items() if (calls := without_encoding(tree))}
    assert trees(package) and not results, 'give encoding="utf-8": Windows has another one'


def test_missing_encodings_are_noticed():
    wrong = 'p.read_text()\np.write_text("é")\nopen(p)\np.open("w")\nrun(["git"], text=True)'
    right = 'open(p, "rb")\np.open("ab")\np.read_text(encoding="utf-8")\nos.open(p, 0)\nread_text(p, note)'
    assert without_encoding(ast.parse(wrong)) == [line.replace('"', "'") for line in wrong.splitlines()]
    assert without_encoding(ast.parse(right)) == []


def test_only_one_file_names_what_systems_differ_in():
    """fcntl, resource and the like are imported in operating_system.py alone."""
    named = {}
    for package in PACKAGES:
        for path, tree in trees(package).items():
            for node in ast.walk(tree):
                if isinstance(node, ast.Import | ast.ImportFrom):
                    names = [alias.name for alias in node.names] + [getattr(node, "module", None)]
                    for name in {"fcntl", "msvcrt", "resource", "termios", "pwd", "grp", "pty", "winreg"} & {*names}:
                        named.setdefault(path.relative_to(ROOT).as_posix(), set()).add(name)
    assert named == {"tinytensor/native/platform/operating_system.py": {"fcntl", "msvcrt", "resource"}}
