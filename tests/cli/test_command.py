"""The command `tinytensor`: its subcommands, what it says of its machine, and how it refuses."""

import argparse
import errno
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import tinytensor as tt
from models.command import cli, subcommands
from models.options import called
from tests.tools.coq import needed
from tinytensor.cli import cache as kept
from tinytensor.cli import environment
from tinytensor.cli import main as command
from tinytensor.cli.arguments import InvalidArgument, parse_value
from tinytensor.cli.derive import parse_argument
from tinytensor.native.runtime import cache

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def restored(monkeypatch):
    """The command changes where Python looks for modules, and how the models name themselves."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "argv", ["tinytensor"])
    before = vars(called).copy()
    yield
    vars(called).update(before)


def said(capsys, *arguments: str, code: int = 0) -> str:
    """What the command writes, but for the message that kernels are compiled, which comes once on a machine."""
    assert command.main([*map(str, arguments)]) == code
    return re.sub("^tinytensor: compiling the kernels .*\n", "", "".join(capsys.readouterr()), flags=re.MULTILINE)


def test_help_lists_each_subcommand(capsys):
    listed = re.findall(r"^  (\w+) ", said(capsys, "--help"), re.MULTILINE)
    assert listed == [*command.added(), *command.OWN]
    (models,) = (a for a in cli.parser()._actions if isinstance(a, argparse._SubParsersAction))
    assert sorted(models.choices) == sorted(subcommands.SUBCOMMANDS)


def test_version_is_printed(capsys):
    assert said(capsys, "--version") == f"{tt.__version__}\n"


@pytest.mark.parametrize(
    "name", ["train", "prove", "explain", "derive", "check", "certify", "report", "course", "cache"]
)
def test_subcommand_has_help(capsys, name):
    with pytest.raises(SystemExit) as end:
        command.main([name, "--help"])
    assert end.value.code == 0
    assert capsys.readouterr().out.startswith(f"usage: {'python -m derivations' if name == 'report' else 'tinytensor'}")


def test_unknown_subcommand_is_refused(capsys):
    assert said(capsys, "trian", code=2) == "tinytensor: there is no subcommand 'trian': did you mean train?\n"
    message = "tinytensor: there is no subcommand 'xyz'; tinytensor --help lists them\n"
    assert said(capsys, "xyz", code=2) == message
    assert said(capsys, code=2) == "tinytensor: name a subcommand; tinytensor --help lists them\n"


def test_models_name_the_command_that_was_called(capsys):
    message = "tinytensor: unrecognized arguments: --bogus (see tinytensor train --help)\n"
    assert said(capsys, "train", "--bogus", code=2) == message
    for name in cli.parser().commands:
        assert cli.main([name, "--bogus"]) == 2
        assert capsys.readouterr().err.endswith(f" (see python -m models {name} --help)\n")
    assert cli.main(["--bogus", "train", "--other"]) == 2
    assert capsys.readouterr().err == "models: unrecognized arguments: --other (see python -m models train --help)\n"


def test_command_starts_from_the_clone():
    done = subprocess.run(
        [sys.executable, "-m", "tinytensor", "info", "toth-tiny"], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0 and "match: True" in done.stdout, done.stderr


LOADED = """
import atexit, sys
atexit.register(lambda: print("loaded:", *sorted({"numpy", "numba", "tinytensor.core"} & {*sys.modules})))
"""


@pytest.mark.parametrize("how", ["python -m", "script"])
def test_help_and_refusals_load_no_engine(tmp_path, how):
    """They take a tenth of a second, no longer than Python itself; what needs the engine loads it (the control)."""
    (tmp_path / "sitecustomize.py").write_text(LOADED)
    (tmp_path / "tinytensor").write_text("from tinytensor.cli.main import main\nraise SystemExit(main())\n")
    command = ["-m", "tinytensor"] if how == "python -m" else [tmp_path / "tinytensor"]
    environment = os.environ | {"PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"}
    name = "tinytensor" if how == "script" else "python -m tinytensor"
    for word, code, first, loaded in (
        ("--help", 0, f"usage: {name} SUBCOMMAND", ""),
        ("--version", 0, str(tt.__version__), ""),
        ("trian", 2, "tinytensor: there is no subcommand 'trian': did you mean train?", ""),
        ("cache", 0, "", " numba numpy tinytensor.core"),
    ):
        done = subprocess.run([sys.executable, *command, word], env=environment, capture_output=True, text=True)
        assert done.returncode == code, done.stderr
        assert (done.stderr if code else done.stdout).startswith(first)
        assert f"loaded:{loaded}" in done.stdout.splitlines()


def test_environment_names_versions_and_cache(capsys, monkeypatch):
    monkeypatch.setenv("NUMBA_TESTED", "yes")
    rows = dict(line.split(maxsplit=1) for line in said(capsys, "info", "--environment").splitlines())
    assert rows["tinytensor-autograd"] == f"{tt.__version__}, in the clone {ROOT}"
    assert rows["threads"] == str(tt.get_num_threads())
    assert rows["cache"].startswith(f"{cache.root()}, ")
    assert "NUMBA_TESTED=yes" in rows["variables"]
    assert {"python", "numpy", "numba", "llvmlite", "sympy", "processor", "registers"} <= set(rows)


def test_info_needs_a_name(capsys):
    assert "needs a configuration or the folder of a run" in said(capsys, "info", code=2)


def test_cache_is_measured_and_cleared(capsys, monkeypatch, tmp_path):
    for module in (cache, environment, kept):
        monkeypatch.setattr(module, "root", lambda: tmp_path)
    (tmp_path / "builds").mkdir()
    (tmp_path / "builds" / "one").write_bytes(bytes(2_000_000))
    (tmp_path / "two").write_bytes(bytes(1_000_000))
    assert said(capsys, "cache") == f"{tmp_path}: 3.0 MB\n"
    assert said(capsys, "cache", "--clear") == f"{tmp_path}: 3.0 MB deleted\n"
    assert list(tmp_path.iterdir()) == []
    assert said(capsys, "cache") == f"{tmp_path}: 0.0 MB\n"


# --- Prove and explain


@pytest.fixture
def mine(tmp_path) -> Path:
    """A user's file, beside a module that it imports, of a name that the project has too."""
    (tmp_path / "models.py").write_text("FACTOR = 2.0\n")
    (tmp_path / "mine.py").write_text(
        "import tinytensor as tt\nfrom models import FACTOR\n"
        "def f(x, times): return FACTOR * times * x.square().sum()\n"
        "def pair(x): return x, x\n"
        "number = 3\n"
    )
    return tmp_path / "mine.py"


@pytest.fixture
def without_models(monkeypatch):
    """As in the command, the project's package is not imported yet."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "models"]:
        monkeypatch.delitem(sys.modules, name)


def test_own_function_is_proved_and_explained(capsys, mine, without_models):
    assert said(capsys, "prove", f"{mine}:f", "2,", "3").startswith("proved: f at x (2,)")
    text = said(capsys, "explain", f"{mine}:f", "2,", "3", "--seed", "1")
    assert "backward() of" in text and "x (2,)" in text
    assert text == said(capsys, "explain", f"{mine}:f", "2,", "3", "--seed", "1")
    assert text != said(capsys, "explain", f"{mine}:f", "2,", "3", "--seed", "2")


def test_arguments_of_derive_are_sizes_or_values():
    typed = ("X=N,D", "x=N", "x=3,", "n=3", "eps=0.1", "how='mean'", "X=2*K, 3", "out=None", "m=,")
    assert [parse_argument(text) for text in typed] == [
        *(("X", ("N", "D")), ("x", ("N",)), ("x", (3,)), ("n", 3)),
        *(("eps", 0.1), ("how", "mean"), ("X", ("2*K", 3)), ("out", None), ("m", ())),
    ]
    for text in ("t=B,T:V", "t=B,T<V"):
        name, index = parse_argument(text)
        assert (name, index.shape, index.below) == ("t", ("B", "T"), "V")
    with pytest.raises(InvalidArgument, match="the argument 'N,D' is not understood"):
        parse_argument("N,D")


def test_own_function_is_derived(capsys, mine, without_models):
    text = said(capsys, "derive", f"{mine}:f", "x=N", "times=3")
    assert "x" in text and "12" in text  # 2 * 3 * x^2 has the derivative 12 x
    assert said(capsys, "derive", f"{mine}:f", "x=N", "times=3", "--latex") != text
    assert "is not understood" in said(capsys, "derive", f"{mine}:f", "N", code=2)


@pytest.fixture
def certificate(capsys, tmp_path, without_models):
    """A certificate that the command has written."""
    (tmp_path / "own.py").write_text("def f(x, w):\n    return ((x @ w) ** 2).mean()\n")
    file = tmp_path / "f.v"
    printed = said(capsys, "derive", f"{tmp_path / 'own.py'}:f", "x=N,D", "w=D", "--certificate", file)
    assert f"written: {file}" in printed
    return file


def test_certificate_is_written(certificate, capsys, monkeypatch):
    assert "Theorem gradient_of_w" in certificate.read_text()
    assert "there is no file" in said(capsys, "certify", certificate.with_name("none.v"), code=2)
    certificate.write_text(certificate.read_text() + "Axiom one : 0 = 1.\n")
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert said(capsys, "certify", certificate, code=2).endswith("packages coq and libcoq-coquelicot\n")


def test_certificate_is_checked(certificate, capsys):
    needed()
    assert "accepted by Coq's kernel: 2 theorems" in said(capsys, "certify", certificate)
    right = certificate.read_text()
    certificate.write_text(right.replace("(Σ n < N, x n d * dA n)", "(Σ n < N, dA n)"))
    assert "NOT accepted: coqc: File" in said(capsys, "certify", certificate, code=1)
    certificate.write_text(right + "Axiom one : 0 = 1.\n")
    assert "NOT accepted: 'Axiom one" in said(capsys, "certify", certificate, code=1)


def test_page_is_written(capsys, mine, without_models):
    page = mine.with_name("page.html")
    assert said(capsys, "explain", f"{mine}:f", "2,", "3", "--page", page).startswith(f"written to {page}")
    assert "<html" in page.read_text()


def test_operation_of_tinytensor_is_proved(capsys):
    assert said(capsys, "prove", "square", "3,").startswith("proved: square")
    assert said(capsys, "prove", "add", "2,", "2,").startswith("proved: add at")
    assert said(capsys, "prove", "mse_loss", "2,", "2,").startswith("proved: mse_loss")


def test_unusable_places_are_refused(capsys, mine, without_models):
    for position, why in {
        "nothing": "'nothing' is no function of tinytensor",
        f"{mine}:nothing": "defines no 'nothing'",
        f"{mine}x:f": "there is no file",
        f"{mine}:number": "is neither a tensor nor a function",
    }.items():
        assert why in said(capsys, "explain", position, code=2)
    assert "returned tuple; one tensor is needed" in said(capsys, "explain", f"{mine}:pair", "2,", code=2)
    mine.with_name("text").write_text("no program")
    assert "is not a Python file" in said(capsys, "explain", f"{mine.with_name('text')}:f", code=2)


def test_inputs_are_python_values():
    assert [parse_value(x) for x in ("2,3", "3,", "()", "-1", "0.5", "None", "'mean'")] == [
        *((2, 3), (3,), (), -1, 0.5, None, "mean")
    ]
    with pytest.raises(InvalidArgument, match="the input '2x3' is not understood"):
        parse_value("2x3")


def test_course_proposes_a_folder_that_a_shell_takes(tmp_path, capsys):
    folder = tmp_path / "my 'course'"
    (line,) = (line for line in said(capsys, "course", folder).splitlines() if line.startswith("    cd "))
    assert shlex.split(line) == ["cd", str(folder)]


def test_course_that_cannot_be_written_is_named(tmp_path, capsys, monkeypatch):
    def full(source, to):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    (tmp_path / "file").write_text("")
    result = said(capsys, "course", tmp_path / "file" / "course", code=1)
    assert result.endswith(f"/file/course: {tmp_path / 'file'} is a file, where a folder is needed\n")
    monkeypatch.setattr(shutil, "copy2", full)
    result = said(capsys, "course", tmp_path / "course", code=1)
    sentence = (
        r"tinytensor: course: a file of the course cannot be written to \S+: the disk is full; the folder is .*\n"
    )
    assert re.fullmatch(sentence, result)


def test_cache_that_cannot_be_cleared_is_named(monkeypatch, capsys):
    def refuse():
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), "/builds/one")

    monkeypatch.setattr(kept, "clear_cache", refuse)
    assert said(capsys, "cache", "--clear", code=1) == (
        "tinytensor: cache: /builds/one cannot be deleted: you may not write there\n"
    )


def test_page_that_cannot_be_written_is_named(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    page = tmp_path / "file" / "page.html"
    reason = f"{tmp_path / 'file'} is a file, where a folder is needed"
    assert said(capsys, "explain", "square", "2,", "--page", page, code=1) == (
        f"the page cannot be written to {page}: {reason}\n"
    )


# --- The reader of the output has ended


@pytest.fixture
def unread():
    """The end of a pipe that nothing reads any more, as that of `tinytensor ... | true`."""
    read, write = os.pipe()
    os.close(read)
    with open(write, "w") as file:
        yield file
        os.dup2(os.open(os.devnull, os.O_WRONLY), write)  # else a rest in the buffer could not be written at the end


@pytest.mark.parametrize("name", [*command.added(), *command.OWN])
def test_no_reader_ends_a_subcommand_quietly(name, unread, monkeypatch, capsys, tmp_path):
    words = {
        "info": "info toth-tiny",
        "report": "report --list",
        "cache": "cache",
        "completion": "completion bash",
        "prove": "prove square 2,",
        "explain": "explain square 2,",
        "derive": "derive square x=N",
        "course": f"course {tmp_path / 'course'}",
        "check": "check square x=N --gradient x=2*x*g",
    }
    monkeypatch.setattr(sys, "stdout", unread)
    if name in words:
        assert command.main(words[name].split()) == 141
    else:
        assert command.main([name, "--help"]) == 141
    assert capsys.readouterr().err == ""


def test_no_reader_ends_training_quietly(unread, monkeypatch, capsys, tmp_path):
    (tmp_path / "verse.txt").write_text("The cat sat on the mat, and the dog lay by the door.\n" * 20)
    words = f"train --text {tmp_path / 'verse.txt'} --out {tmp_path / 'run'} --config nano --steps 1 --eager".split()
    monkeypatch.setattr(sys, "stdout", unread)
    assert command.main(words) == 141
    assert capsys.readouterr().err == ""


def test_no_reader_leaves_nothing_for_the_end_of_python(unread):
    words = [sys.executable, "-m", "tinytensor", "explain", "square", "3,"]
    done = subprocess.run(words, cwd=ROOT, stdout=unread, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr) == (141, "")
