"""The standard streams of a command: any text is shown in some way, and no stream ends the command."""

import io
import os
import re
import sys
from contextlib import redirect_stdout
from importlib import import_module
from shlex import split

import pytest

from models.command import cli
from models.training import checkpoint
from tinytensor.cli import main as tinytensor_command
from tinytensor.cli.output import PICTURES, any_text_shown, run_command

TINY = split("--tokenizer char --steps 2 --D 8 --H 2 --F 12 --L 1 --C 10 --batch-size 2 --eager")
ESCAPES = "\x1b[31m\x1b]0;title\x07\x9b2J\b\x7f"
RAW = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")  # control codes other than a tab and a line end


class Stream(io.TextIOWrapper):
    """A stream with an encoding of its own, as a terminal if that is wanted."""

    def __init__(self, encoding="utf-8", errors="strict", terminal=False):
        super().__init__(io.BytesIO(), encoding=encoding, errors=errors, newline="\n")
        self.terminal = terminal

    def isatty(self):
        return self.terminal

    def shown(self) -> str:
        self.flush()
        return self.buffer.getvalue().decode(self.encoding)


@pytest.fixture
def streams(monkeypatch):
    """streams(encoding=..., ...): the standard output and the standard error of the rest of the test."""

    def make(**how):
        made = Stream(**how), Stream(**how)
        monkeypatch.setattr(sys, "stdout", made[0])
        monkeypatch.setattr(sys, "stderr", made[1])
        return made

    monkeypatch.setenv("PYTHONIOENCODING", "ascii")  # pipes keep their encoding
    monkeypatch.delenv("NO_COLOR", raising=False)
    return make


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("Þe cät sät on ∂, and \x1b[31mþe dög\x1b[0m läy by 🚪 \x9b2J.\n" * 40, encoding="utf-8")
    return path


def print_everything() -> int:
    for stream in (sys.stdout, sys.stderr):
        print("∂ é 🚪 \ud800 \udce9 a\tb", ESCAPES, file=stream)
        stream.writelines(["ℒ\n", "\x1b\n"])
    return 0


CASES = [(e, h) for e in ("ascii", "latin-1", "cp1252", "utf-8", "utf-16") for h in ("strict", "surrogateescape")]


@pytest.mark.parametrize("terminal", [False, True])
@pytest.mark.parametrize(("encoding", "errors"), CASES)
def test_every_character_is_shown_in_some_way(encoding, errors, terminal, streams):
    made = streams(encoding=encoding, errors=errors, terminal=terminal)
    with pytest.raises(UnicodeEncodeError):  # the negative control
        print_everything()
    made = streams(encoding=encoding, errors=errors, terminal=terminal)
    assert run_command(print_everything) == 0
    for stream in made:
        assert stream.shown().count("\n") == 3
        assert r"\ud800" in stream.shown()
        assert bool(RAW.search(stream.shown())) is not terminal


@pytest.mark.parametrize("errors", ["ignore", "xmlcharrefreplace", "namereplace", "replace", "backslashreplace"])
def test_another_handler_of_characters_is_left(errors, streams):
    out, _ = streams(encoding="ascii", errors=errors)
    with any_text_shown():
        assert sys.stdout.errors == errors
        print("∂")
    assert out.shown() == "∂\n".encode("ascii", errors).decode()


def test_control_codes_are_shown_as_pictures():
    assert "a\tb\nc\x1b[0m\x7f\x9b\r".translate(PICTURES) == "a\tb\nc␛[0m␡\ufffd␍"


def test_progress_bar_may_return_to_its_beginning(streams):
    out, err = streams(terminal=True)
    with any_text_shown():
        for stream in (sys.stdout, sys.stderr):
            stream.write("a\rb")
    assert (out.shown(), err.shown()) == ("a␍b", "a\rb")


def test_streams_are_as_before_after_a_command(streams):
    out, err = streams(terminal=True)

    def nested():
        assert os.environ["NO_COLOR"] == "1"
        return run_command(print_everything)

    assert run_command(nested) == 0
    assert (sys.stdout, sys.stderr) == (out, err)
    assert "NO_COLOR" not in os.environ


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="a device of Linux")
@pytest.mark.parametrize("words", ["info toth-tiny", "--help", "train --help", "cache", "completion zsh"])
def test_full_disk_is_named(words, monkeypatch, capsys):
    with open("/dev/full", "w", encoding="utf-8") as full:
        monkeypatch.setattr(sys, "stdout", full)
        assert tinytensor_command.main(words.split()) == 1
    said = capsys.readouterr().err
    assert re.fullmatch(r"(tinytensor: )?the standard output cannot be written: the disk is full\n", said), said


LOST = {
    "None": lambda: None,
    "closed": lambda: (stream := Stream(), stream.close())[0],
}


@pytest.mark.slow
@pytest.mark.parametrize("lost", LOST)
@pytest.mark.parametrize("names", [["stdout"], ["stderr"], ["stdin", "stdout", "stderr"]])
def test_training_goes_on_without_streams(names, lost, text, tmp_path, monkeypatch, capsys):
    for name in names:
        monkeypatch.setattr(sys, name, LOST[lost]())
    assert cli.main(["train", "--text", str(text), "--out", str(tmp_path / "run"), *TINY]) == 0
    assert checkpoint.load(tmp_path / "run", ()).step == 2
    assert (tmp_path / "run" / "page.html").exists()


def test_standard_input_that_is_closed_is_empty(monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", None)
    assert cli.main(["translate"]) == 2
    assert "the standard input is empty" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("how", [{"encoding": "ascii"}, {"terminal": True}, {"encoding": "ascii", "terminal": True}])
def test_training_shows_samples_on_any_stream(how, text, tmp_path, streams):
    run = str(tmp_path / "run")
    out, err = streams(**how)
    assert cli.main(["train", "--text", str(text), "--out", run, *TINY]) == 0
    assert cli.main(["sample", run, "--prompt", f"Þe {ESCAPES}", "--tokens", "100"]) == 0
    assert cli.main(["sample", run, "--top-k", f"{ESCAPES}∂"]) == 2
    assert checkpoint.load(tmp_path / "run", ()).step == 2
    assert "a sample:" in out.shown() and "invalid int value" in err.shown()
    for stream in (out, err):
        assert not how.get("terminal") or not RAW.search(stream.shown().replace("\r", ""))


@pytest.mark.parametrize("words", ["derive square x=N", "explain square 2,", "prove sqaure 2,", "check ∂\x1b x=N"])
def test_mathematics_is_shown_on_any_stream(words, streams, monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path])
    made = streams(encoding="ascii", terminal=True)
    assert tinytensor_command.main(words.split(" ")) in (0, 2)
    assert any(stream.shown() for stream in made)
    assert not any(RAW.search(stream.shown().replace("\r", "")) for stream in made)


COMMANDS = ["tinytensor.cli.main", "models.command.cli", "derivations.__main__"]
PROGRAMS = ["build", "figures", "gradients", "mark", "site", "timing"]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_started_in_one_way(name, monkeypatch):
    """Each reaches `run_command` before anything is printed."""

    def started(run):
        raise InterruptedError

    monkeypatch.setattr(import_module(name), "run_command", started)
    with pytest.raises(InterruptedError):
        import_module(name).main(["--help"])


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_program_of_the_course_is_started_in_one_way(name):
    source = import_module(f"examples.{name}.__main__").__loader__.get_source(f"examples.{name}.__main__")
    assert source.rstrip().endswith("    sys.exit(run_command(main))")


def test_no_other_program_is_left_out():
    folder = import_module("examples.build").__path__[0] + "/.."
    assert sorted(p for p in os.listdir(folder) if os.path.exists(f"{folder}/{p}/__main__.py")) == PROGRAMS


def test_output_may_be_redirected_within_a_command(streams):
    streams(encoding="ascii")
    into = io.StringIO()

    def run():
        with redirect_stdout(into):
            print("∂")
        return 0

    assert run_command(run) == 0
    assert into.getvalue() == "∂\n"
