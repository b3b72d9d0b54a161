"""The command line: what it prints and leaves behind, and a sentence for whatever cannot be."""

import csv
import ctypes
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from contextlib import redirect_stdout, suppress
from dataclasses import replace
from io import StringIO
from pathlib import Path
from shlex import split
from types import SimpleNamespace

import pytest

from models.command import cli
from models.command.cli import main
from models.tasks.task import Attempts
from models.training import checkpoint
from models.training.trainer import Settings
from tests.tools.platforms import posix
from tinytensor.native.platform.distribution import install

ROOT = Path(__file__).parents[3]
TINY = split("--D 8 --H 2 --F 12 --L 2 --C 10 --batch-size 2 --log-every 5 --evaluate-every 10 --checkpoint-every 10")


@pytest.fixture(scope="module")
def verse(tmp_path_factory):
    path = tmp_path_factory.mktemp("text") / "verse.txt"
    path.write_text("The cat sat on the mat, and the dog lay by the door.\nIt cost 5 $ a day; $$ is no price.\n" * 20)
    return path


@pytest.fixture(scope="module")
def run(verse, tmp_path_factory):
    """A finished run, and what it printed."""
    out = tmp_path_factory.mktemp("runs") / "first"
    with redirect_stdout(StringIO()) as printed:
        code = main(
            [
                "train",
                "--text",
                str(verse),
                "--tokenizer",
                "bpe",
                "--V",
                "50",
                "--steps",
                "25",
                "--out",
                str(out),
                *TINY,
            ]
        )
    assert code == 0, printed.getvalue()
    return out, printed.getvalue()


def refused(capsys, *arguments):
    """The one sentence for arguments that cannot be."""
    code = main([str(a) for a in arguments])
    out, err = capsys.readouterr()
    assert code == 2
    assert err.startswith("models: ")
    assert err.endswith("\n")
    assert err.count("\n") == 1, err
    assert "Traceback" not in out + err
    return err.removeprefix("models: ")


# --- Train


def test_run_writes_all_its_files(run):
    out, _ = run
    names = {path.name for path in out.iterdir()} - {cli.LOCK}
    written = {"config.toml", "log.csv", "loss.png", "attention.png", "sample.txt", "page.html"}
    assert names == written | {"checkpoints", "snapshots"}
    for picture in ("loss.png", "attention.png"):
        assert (out / picture).read_bytes().startswith(b"\x89PNG")
    with (out / "log.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [int(row["step"]) for row in rows] == [5, 10, 15, 20, 25]
    assert len((out / "sample.txt").read_text()) > 100
    assert checkpoint.load(out).step == 25


def test_run_prints_held_out_loss_beside_n_gram_models(run):
    _, printed = run
    lines = printed[printed.index("held-out loss in nats per token") :].splitlines()
    table = {
        line.split("  ")[1].strip(): line.split()[-2 if "(" in line else -1] for line in lines if line.startswith("  ")
    }
    names = ["uniform", "unigram", "bigram", "interpolated bigram", "interpolated trigram", "this model"]
    assert list(table)[:6] == names
    losses = [float(table[name]) for name in names]
    assert losses[0] == pytest.approx(3.912, abs=1e-3)  # ln 50
    assert losses[1] > losses[2] > losses[4]
    last = checkpoint.load(run[0]).state["log"][-1]["heldout_loss"]
    assert losses[5] == pytest.approx(last, abs=6e-4)
    assert "V = 50" in printed
    assert f"python -m models sample {run[0]}" in printed
    assert f"open {run[0] / 'page.html'} in a browser" in printed.splitlines()[-1]


def screen(typed: str) -> list[str]:
    """The lines that a terminal shows: after a carriage return the next characters cover those of the line."""
    lines = []
    for line in typed.split("\n"):
        shown = ""
        for part in line.split("\r"):
            shown = part + shown[len(part) :]
        lines.append(shown.rstrip())
    return lines


def torn(lines: list[str]) -> list[str]:
    """Lines with a piece of a progress bar that are not a bar from beginning to end, and bars before the last one."""
    bars = [line for line in lines if re.search(r"\d%\||step/s", line)]
    return [line for line in bars[:-1] if line] + [x for x in bars if not re.match(r" *\d+%\|.*\d/\d+ .*\]$", x)]


def test_torn_bar_is_found():
    bar = " 10%|#  | 2/20 [00:01<00:09,  2.0step/s]"
    assert torn(screen(f"{bar}\r{' ' * len(bar)}\rstep 2: The\n{bar}")) == []
    assert torn(screen(f"{bar}step 2: The\n{bar}")) != []
    assert torn(screen(f"{bar}\nstep 2: The\n{bar}")) != []
    assert torn(screen(f"{bar}\rstep 2: The\n{bar}")) != []


@posix
def test_log_shows_early_samples_and_keeps_the_bar_whole(verse, tmp_path):
    import pty

    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "models", "train", "--text", verse, "--tokenizer", "char", "--steps", 100, *TINY]
    command += ["--evaluate-every", 50, "--out", tmp_path / "run"]
    process = subprocess.Popen([*map(str, command)], cwd=ROOT, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    typed = b""
    with suppress(OSError):  # at the end of a terminal
        while part := os.read(ours, 1000):
            typed += part
    os.close(ours)
    assert process.wait() == 0
    lines = screen(typed.decode().replace("\r\n", "\n"))
    assert torn(lines) == []
    results = [i for i, line in enumerate(lines) if re.match(r"step +[\d,]+: (?!loss)", line)]
    assert [lines[i].split(":")[0].split()[1] for i in results] == ["0", "100"]
    assert all(line.startswith("step") or len(line) <= 79 for i in results for line in lines[i : i + 2])
    first, last = (lines[i].partition(": ")[2] for i in results)
    assert first[:3] == last[:3] == "The" and first != last
    assert lines.index("a sample:") > results[1]


def test_resumed_run_shows_no_earlier_sample(run, tmp_path, capsys, monkeypatch):
    shutil.copytree(run[0], tmp_path / "again")
    monkeypatch.setattr(cli, "SAMPLED", (0, 25, 27))
    assert main(["train", "--resume", str(tmp_path / "again"), "--steps", "30"]) == 0
    assert re.findall(r"^step +(\d+): (?!loss)", capsys.readouterr().out, re.MULTILINE) == ["27"]


def test_text_stands_beside_its_label():
    assert cli._beside("step 0: ", "The cat") == "step 0: The cat"
    long = cli._beside("step 0: ", "The cat sat.\n" + "The dog lay by the door. " * 9)
    first, second = long.split("\n")
    assert (first, second[:16]) == ("step 0: The cat sat.", "        The dog ")
    assert second.endswith("…") and len(second) <= 80
    assert cli._beside("step 0: ", "") == "step 0: "


def test_size_options_and_vocabulary_reach_the_model(capsys, verse, tmp_path):
    code = main(
        ["train", "--config", "micro", "--text", str(verse), "--steps", "2", "--out", str(tmp_path / "run"), "--eager"]
    )
    assert code == 0
    config = checkpoint.load(tmp_path / "run").state["task"]["config"]
    letters = len(set(verse.read_text()))
    assert (config["D"], config["L"], config["C"]) == (16, 1, 16)
    assert config["V"] == letters + 1  # and the unknown
    capsys.readouterr()
    assert main(["info", str(tmp_path / "run")]) == 0
    out = capsys.readouterr().out
    assert "after step 2 of 2, held-out loss" in out
    assert "match: True" in out


def test_switches_reach_model_and_settings(verse, tmp_path):
    arguments = split(
        """--tokenizer word --steps 2 --residual pre-norm --norm affine --activation gelu --dropout 0.25 --no-causal
        --no-positions --no-bias --attention-bias --tied --final-norm --lr 0.01 --weight-decay 0.5 --clip 0 --warmup 1
        --floor 0.5 --seed 9 --optimizer sgd --schedule linear --layer-lr 1,0.5 --head-lr 2,1"""
    )
    assert main(["train", "--text", str(verse), "--out", str(tmp_path / "run"), *TINY, *arguments]) == 0
    state = checkpoint.load(tmp_path / "run").state
    config, settings = state["task"]["config"], state["settings"]
    assert state["task"]["tokenizer"]["kind"] == "word"
    expected = {"residual": "pre-norm", "norm": "affine", "activation": "gelu", "dropout": 0.25, "causal": False}
    expected |= {"positions": False, "bias": False, "attention_bias": True, "tied": True, "final_norm": True}
    assert {k: config[k] for k in expected} == expected
    expected = {"lr": 0.01, "weight_decay": 0.5, "clip": 0.0, "warmup": 1, "floor": 0.5, "seed": 9, "optimizer": "sgd"}
    expected |= {"schedule": "linear", "layer_lr": [1.0, 0.5], "head_lr": [2.0, 1.0], "steps": 2, "batch_size": 2}
    assert {k: settings[k] for k in expected} == expected


def test_plain_sgd_run_has_no_decay(verse, tmp_path):
    assert (
        main(
            [
                "train",
                "--text",
                str(verse),
                "--tokenizer",
                "char",
                "--steps",
                "1",
                "--optimizer",
                "sgd",
                "--out",
                str(tmp_path / "r"),
                *TINY,
            ]
        )
        == 0
    )
    assert checkpoint.load(tmp_path / "r").state["settings"]["weight_decay"] == 0


def test_runs_without_a_name_get_one_each(monkeypatch, verse, tmp_path, capsys):
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        assert main(["train", "--text", str(verse), "--tokenizer", "char", "--steps", "1", *TINY]) == 0
    assert sorted(p.name for p in (tmp_path / "runs").iterdir()) == ["toth-tiny", "toth-tiny-2"]
    capsys.readouterr()
    assert main(["sample", "--tokens", "5"]) == 0  # the newest run


def test_the_same_command_gives_the_same_weights(verse, tmp_path):
    results = []
    for name in "ab":
        out = tmp_path / name
        assert (
            main(["train", "--text", str(verse), "--tokenizer", "char", "--steps", "6", "--out", str(out), *TINY]) == 0
        )
        results.append({n: w.numpy().tobytes() for n, w in checkpoint.load(out).weights.items()})
    assert results[0] == results[1]


def test_resumed_run_needs_the_same_text(capsys, tmp_path):
    file = tmp_path / "mine.txt"
    file.write_text("one two three four five six seven\n" * 20)
    assert (
        main(["train", "--text", str(file), "--tokenizer", "char", "--steps", "4", "--out", str(tmp_path / "r"), *TINY])
        == 0
    )
    capsys.readouterr()
    file.write_text("one two three four five six eight\n" * 20)
    assert "trained on another text" in refused(capsys, "train", "--resume", tmp_path / "r")
    file.unlink()
    assert "there is no such file" in refused(capsys, "train", "--resume", tmp_path / "r")


# --- Refusals


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--stepz", "5"], "unrecognized arguments: --stepz"),
        (["--step", "5"], "unrecognized arguments: --step"),  # no guessing
        (["--steps", "many"], "argument --steps: invalid int value: 'many'"),
        (["--steps", "0"], "steps = 0: a whole number of 1 or more is needed"),
        (["--task", "copy"], "argument --task: invalid choice: 'copy'"),
        (["--config", "toth-huge"], "argument --config: invalid choice: 'toth-huge'"),
        (["--D", "31"], "D = 31 is not divisible by H = 2"),
        (["--L", "0"], "L = 0: a whole number of 1 or more, at most 1,000, is needed"),
        (["--C", "5000"], "the text is too short"),
        (["--dropout", "1.5"], "dropout = 1.5"),
        (["--lr", "-1"], "lr = -1.0: 0 or more is needed"),
        (["--threads", "0"], "--threads 0: 1 or more is needed"),
        (["--tokenizer", "char", "--V", "5000"], "--V 5000: this text has only"),
        (
            ["--tokenizer", "bpe", "--V", "5000"],
            "BPETokenizer: the vocabulary is to have 5000 tokens, but this text yields only",
        ),
        (["--V", "1"], "CharTokenizer: a vocabulary of 1 has no room for text"),
        (["--layer-lr", "1,2,3"], "3 learning rates for 2 layers"),
        (["--head-lr", "1;2"], "argument --head-lr: '1;2' is not a list of numbers"),
        (["--head-lr", "1,nan"], "head_lr: nan among its values"),
        (["--layer-lr=-1,2"], "layer_lr: -1.0 among its values"),
        (["--D", "10000000000000"], "training D = 10,000,000,000,000, H = 2"),
        (["--C", "10000000000000"], "training D = 8"),
        (["--L", "10000000000000"], "L = 10000000000000: a whole number of 1 or more, at most 1,000, is needed"),
        (["--batch-size", "1000000000000"], "training D = 8"),
        (["--text", "/nowhere/at/all.txt"], "/nowhere/at/all.txt: there is no such file"),
        (["--text", "/dev/zero"], "/dev/zero is a device: name a file or a pipe"),
        (["--text", "a\0b"], "argument --text: 'a\\x00b' is no path that can be used"),
        (["--text", "x" * 5000], "argument --text: 'xxx"),
        (["--seed", "-1"], "seed = -1: a whole number of 0 or more is needed"),
    ],
)
def test_wrong_option_prints_one_sentence(capsys, verse, tmp_path, arguments, sentence):
    usual = ["--text", verse, "--tokenizer", "char", "--out", tmp_path / "run"]
    result = refused(capsys, "train", *TINY, *usual, *arguments)
    assert result.startswith(sentence), result
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "is empty"),
        (b"x", "holds one character"),
        (b" \n \n", "holds white space only"),
        (b"caf\xe9 au lait", "is not UTF-8"),
        (b"a few words", "the text is too short"),
    ],
)
def test_unusable_files_are_refused(capsys, tmp_path, content, sentence):
    file = tmp_path / "mine.txt"
    file.write_bytes(content)
    assert sentence in refused(capsys, "train", *TINY, "--tokenizer", "char", "--text", file, "--out", tmp_path / "run")


def test_file_with_crlf_trains_with_a_note(capsys, tmp_path):
    file = tmp_path / "mine.txt"
    file.write_bytes(b"one two three four five six seven\r\n" * 20)
    arguments = ["--tokenizer", "char", "--text", str(file), "--steps", "1", "--out", str(tmp_path / "run")]
    assert main(["train", *TINY, *arguments]) == 0
    assert "CRLF" in capsys.readouterr().err


def test_folder_of_another_run_is_refused(capsys, run, verse):
    out, _ = run
    before = {path: path.stat().st_mtime_ns for path in out.rglob("*")}
    actual = refused(capsys, "train", "--text", verse, "--out", out)
    assert actual == f"{out} holds a run already: use --resume {out} to go on with it, or another --out\n"
    assert {path: path.stat().st_mtime_ns for path in out.rglob("*")} == before


def test_folder_with_other_files_is_refused(capsys, verse, tmp_path):
    (tmp_path / "thesis.tex").write_text("...")
    assert "is not empty; name a new folder" in refused(capsys, "train", "--text", verse, "--out", tmp_path)
    assert "is a file" in refused(capsys, "train", "--text", verse, "--out", tmp_path / "thesis.tex")


def test_folder_of_a_run_without_checkpoint_is_reused(verse, tmp_path):
    (tmp_path / "run" / "checkpoints" / ".unfinished-step-00000000").mkdir(parents=True)
    (tmp_path / "run" / cli.LOCK).touch()
    arguments = ["--text", str(verse), "--tokenizer", "char", "--steps", "1", "--out", str(tmp_path / "run")]
    assert main(["train", *TINY, *arguments]) == 0


def test_circular_symlink_is_refused(capsys, tmp_path):
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    for option in ("--text", "--out", "--resume"):
        assert refused(capsys, "train", option, tmp_path / "a").startswith(f"argument {option}: ")


@pytest.mark.parametrize(
    "arguments",
    [
        ["--D", "16"],
        ["--out", "elsewhere"],
        ["--no-causal"],
        ["--lr", "1"],
        ["--config", "nano"],
        ["--config", "toth-tiny"],  # of other sizes than the run's
        ["--tokenizer", "char"],
        ["--text", "another.txt"],
        ["--head-lr", "1,2"],
    ],
)
def test_resumed_run_refuses_other_settings(capsys, run, arguments):
    result = refused(capsys, "train", "--resume", run[0], *arguments)
    assert result.startswith("--resume goes on with a run as it was begun: ")


def test_resumed_run_accepts_its_own_settings(run, verse, tmp_path, capsys):
    second = shutil.copytree(run[0], tmp_path / "again")
    same = ["--text", str(verse), "--tokenizer", "bpe", "--V", "50", "--steps", "25", "--out", str(second), *TINY]
    assert main(["train", "--resume", str(second), *same, "--config", "toth-tiny", "--task", "text"]) == 0
    assert "going on after step 25 of 25\n" in capsys.readouterr().out
    ours, theirs = (checkpoint.load(folder).weights for folder in (second, run[0]))
    assert {name: w.tolist() for name, w in ours.items()} == {name: w.tolist() for name, w in theirs.items()}


def test_finished_run_can_be_extended(run, tmp_path, capsys):
    second = shutil.copytree(run[0], tmp_path / "again")
    assert "has taken 25 steps already" in refused(capsys, "train", "--resume", second, "--steps", "24")
    assert main(["train", "--resume", str(second), "--steps", "35"]) == 0
    assert "the learning rate is from here on that of a run of 35 steps (cosine)" in capsys.readouterr().out
    with (second / "log.csv").open() as file:
        rates = {int(row["step"]): float(row["lr"]) for row in csv.DictReader(file)}
    settings = Settings(**checkpoint.load(second).state["settings"])
    assert (settings.steps, set(rates)) == (35, {5, 10, 15, 20, 25, 30, 35})
    assert rates[25] == pytest.approx(settings.lr * replace(settings, steps=25).rate(24), rel=1e-4)
    assert rates[30] == pytest.approx(settings.lr * settings.rate(29), rel=1e-4)


def test_resume_without_a_run_is_refused(capsys, tmp_path):
    assert "holds no checkpoint" in refused(capsys, "train", "--resume", tmp_path)
    assert "holds no checkpoint" in refused(capsys, "train", "--resume", tmp_path / "nowhere")


@pytest.mark.parametrize("package", ["tqdm", "matplotlib"])
def test_missing_train_extra_is_named(capsys, monkeypatch, package):
    real = cli.importlib.util.find_spec
    monkeypatch.setattr(cli.importlib.util, "find_spec", lambda name: None if name == package else real(name))
    assert refused(capsys, "train") == f"train needs {package}: {install('train')}\n"


def test_missing_tokenizers_library_is_named(capsys, monkeypatch, verse, tmp_path):
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    assert "tokenizers" in refused(capsys, "train", "--text", verse, "--V", "50", "--out", tmp_path / "r", *TINY)


def test_missing_or_unknown_command(capsys):
    assert "required" in refused(capsys)
    assert "invalid choice: 'learn'" in refused(capsys, "learn")


@pytest.mark.parametrize(
    "command", ["train --out=--", "train --threads=--", "sample --tokens=--", "translate --beam=--"]
)
def test_two_dashes_are_no_value_of_an_option(capsys, command):
    """argparse before Python 3.12 makes an empty list of them, whatever the option's type is."""
    assert refused(capsys, *split(command)).startswith(f"{split(command)[1]}: -- is no value")


def test_nonfinite_loss_ends_with_a_sentence(capsys, verse, tmp_path):
    out = tmp_path / "run"
    arguments = split("--tokenizer char --steps 40 --optimizer sgd --lr 1e30 --clip 0 --warmup 0 --schedule constant")
    assert main(["train", "--text", str(verse), "--out", str(out), *TINY, *arguments]) == 1
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "the first tensor that is not finite is" in error
    assert "step-00000000 is the last good checkpoint" in error


@pytest.mark.parametrize("command", [[], ["train"], ["sample"], ["info"]])
def test_help_is_printed(capsys, command):
    with pytest.raises(SystemExit) as exit:
        main([*command, "--help"])
    assert exit.value.code == 0
    assert "usage: python -m models" in capsys.readouterr().out


# --- Sample and info


def sampled(capsys, *arguments):
    assert main(["sample", *map(str, arguments)]) == 0
    return capsys.readouterr().out


def test_sample_repeats_with_its_seed(capsys, run):
    out, _ = run
    first = sampled(capsys, out, "--prompt", "The cat", "--tokens", "40", "--seed", "3")
    assert first.startswith("The cat")
    assert len(first) > 40
    assert sampled(capsys, out, "--prompt", "The cat", "--tokens", "40", "--seed", "3", "--no-cache") == first
    assert sampled(capsys, out, "--prompt", "The cat", "--tokens", "40", "--seed", "4") != first
    greedy = sampled(capsys, out, "--temperature", "0")
    assert greedy == sampled(capsys, out, "--top-k", "1", "--seed", "8")
    assert greedy == sampled(capsys, out, "--top-p", "1e-9", "--seed", "9", "--threads", "1")


def test_empty_or_unknown_prompt(capsys, run):
    out, _ = run
    assert len(sampled(capsys, out, "--prompt", "")) > 20
    assert main(["sample", str(out), "--prompt", "日本"]) == 0
    assert "2 tokens of the prompt are not in the vocabulary" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--temperature", "-1"], "temperature = -1.0"),
        (["--top-k", "0"], "top-k = 0"),
        (["--top-p", "2"], "top-p = 2.0"),
        (["--tokens", "0"], "--tokens 0: 1 to 1,000,000 is needed"),
        (["--tokens", "999999999999"], "--tokens 999999999999: 1 to 1,000,000 is needed"),
        (["--temperature", "1e-300"], "temperature = 1e-300"),
        (["--top-p", "1e-300"], "top-p = 1e-300"),
        (["--temperature", "nan"], "temperature = nan"),
        (["--threads", "0"], "--threads 0"),
    ],
)
def test_invalid_sample_options_are_refused(capsys, run, arguments, sentence):
    assert refused(capsys, "sample", run[0], *arguments).startswith(sentence)


def test_sample_without_a_run_is_refused(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert "there is no run of python -m models train in runs/" in refused(capsys, "sample")
    assert "holds no checkpoint" in refused(capsys, "sample", tmp_path)


def test_info_of_toth_tiny_is_eq_19_term_by_term(capsys):
    assert main(["info", "toth-tiny"]) == 0
    out = capsys.readouterr().out
    assert "D = 32, H = 4 (K = 8), F = 64, L = 2, V = 300, C = 96" in out
    for term in ("P            C D            ", "Q K V W      4 D^2 L"):
        assert term.split() == next(
            line.split()[: len(term.split())] for line in out.splitlines() if line.startswith(term[:8])
        )
    assert out.rstrip().endswith("38,848   38,848  match: True")


@pytest.mark.parametrize(("name", "count"), [("nano", "804,096"), ("gpt2", "124,439,808"), ("micro", "4,192")])
def test_info_of_other_layouts(capsys, name, count):
    assert main(["info", name]) == 0
    assert capsys.readouterr().out.rstrip().endswith(f"{count}  match: True")


def test_info_of_an_unknown_name_is_refused(capsys):
    assert refused(capsys, "info", "toth-huge").startswith("toth-huge is neither a configuration (toth-tiny, nano")


@posix
@pytest.mark.filterwarnings("ignore:Exception ignored")
@pytest.mark.parametrize("handler", [signal.default_int_handler, signal.SIG_IGN])
def test_ctrl_c_inside_a_callback_ends_the_run(handler, monkeypatch):
    """What is raised there is swallowed, and the run would go on."""
    swallowed = []
    monkeypatch.setattr(sys, "unraisablehook", swallowed.append)

    class Compiling:
        step, stop, settings, task = 1, False, SimpleNamespace(steps=2), SimpleNamespace(attempt=Attempts())

        def train(self, progress):
            ctypes.CFUNCTYPE(None)(lambda: signal.raise_signal(signal.SIGINT))()
            end = time.monotonic() + 300
            while time.monotonic() < end:
                pass
            return True

    before = signal.signal(signal.SIGINT, handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            cli._with_progress_bar(Compiling(), {})
        assert signal.getsignal(signal.SIGINT) is handler
    finally:
        signal.signal(signal.SIGINT, before)
    assert len(swallowed) == 1
    assert signal.getitimer(signal.ITIMER_REAL) == (0, 0) and signal.getsignal(signal.SIGALRM) is signal.SIG_DFL


# --- Show


def test_show_writes_a_page_of_a_run(run, tmp_path, capsys):
    out, _ = run
    page = tmp_path / "look.html"
    assert main(["show", str(out), "--out", str(page), "--text", "the cat"]) == 0
    assert capsys.readouterr().out == f"written to {page}: open it in a browser\n"
    text = page.read_text()
    assert '"text":"the cat"' in text
    models = json.loads(text[text.index('id="data"') :].split(">", 1)[1].split("</script>")[0])["models"]
    assert [model["step"] for model in models] == [0, 10, 20, 25]


def test_show_refuses_what_cannot_be_shown(run, tmp_path, capsys):
    out, _ = run
    assert "holds no checkpoint" in refused(capsys, "show", tmp_path)
    assert "is a folder; name a file" in refused(capsys, "show", out, "--out", tmp_path)
    assert "vocabulary does not have '€'" in refused(capsys, "show", out, "--text", "€")
    assert "the text is empty" in refused(capsys, "show", out, "--text", "")
    assert "a decoder has none" in refused(capsys, "show", out, "--target", "the cat")
    assert "tokens, but the context holds C = 10" in refused(capsys, "show", out, "--text", "the dog lay by " * 9)


def test_training_ends_without_a_page_of_a_large_model(run, tmp_path, capsys, monkeypatch):
    out, _ = run
    monkeypatch.setattr("models.show.page.LARGEST", 1000)
    before = (out / "page.html").read_bytes()
    cli._offer_page(out, SimpleNamespace(attempt=Attempts(), example=lambda: None))
    said = capsys.readouterr().out
    assert said.startswith("there is no page to look inside: show: a model of ") and said.count("\n") == 1
    assert (out / "page.html").read_bytes() == before
