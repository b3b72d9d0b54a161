"""Options in a TOML file: read, checked, replaced by the command line, and written by each run."""

import tomllib
from shlex import split

import pytest

from models.command.cli import main
from models.decoder import CONFIGS, Config
from models.training import checkpoint

TINY = split("--D 8 --H 2 --F 12 --L 1 --C 10 --batch-size 2 --steps 4 --eager")


@pytest.fixture(scope="module")
def verse(tmp_path_factory):
    path = tmp_path_factory.mktemp("text") / "verse.txt"
    path.write_text("The cat sat on the mat, and the dog lay by the door.\n" * 20)
    return path


def weights(folder):
    return {name: w.numpy().tobytes() for name, w in checkpoint.load(folder).weights.items()}


@pytest.mark.slow
def test_written_file_repeats_the_run(verse, tmp_path):
    options = split("--tokenizer bpe --lr 0.0123456789 --no-causal --layer-lr 0.5 --warmup 1 --seed 7 --tied")
    first, second = tmp_path / "first", tmp_path / "second"
    assert main(["train", "--text", str(verse), *TINY, *options, "--out", str(first)]) == 0
    assert main(["train", "--config", str(first / "config.toml"), "--out", str(second)]) == 0
    assert weights(first) == weights(second)
    lines = [(folder / "config.toml").read_text() for folder in (first, second)]
    assert lines[0] == lines[1]
    result = tomllib.loads(lines[0])
    expected = {"config": "toth-tiny", "causal": False, "tied": True, "layer-lr": [0.5], "lr": 0.0123456789, "D": 8}
    assert {name: result[name] for name in expected} == expected
    assert not {"out", "eager", "V", "head-lr"} & set(result)  # V: the text decides it, as in the first run


@pytest.mark.slow
@pytest.mark.parametrize("task", ["translate", "recommend"])
def test_written_file_repeats_other_tasks(task, tmp_path):
    pairs, sequences = tmp_path / "pairs.tsv", tmp_path / "items.csv"
    pairs.write_text("".join(f"a {word}\tx\tun {word}\n" for word in ("cat", "dog", "cow", "hen", "fox", "bat")))
    sequences.write_text("user,item,time\n" + "".join(f"u{i % 3},i{i % 5},{i}\n" for i in range(30)))
    arguments = {
        "translate": f"--pairs {pairs} --columns 1,3 --tokenizer word --d-model 8 --h 2 --d-k 4 --d-v 4 --d-ff 8 --N 1",
        "recommend": f"--sequences {sequences} --D 8 --H 2 --F 8 --L 1 --C 6",
    }
    options = split(arguments[task]) + split("--steps 2 --batch-size 2 --eager")
    first, second = tmp_path / "first", tmp_path / "second"
    assert main(["train", "--task", task, *options, "--out", str(first)]) == 0
    assert main(["train", "--config", str(first / "config.toml"), "--out", str(second)]) == 0
    assert weights(first) == weights(second)


@pytest.mark.slow
def test_command_line_replaces_entries_of_the_file(verse, tmp_path):
    file, out = tmp_path / "mine.toml", tmp_path / "run"
    file.write_text(f'config = "micro"\ntext = "{verse}"\nbatch_size = 3\nsteps = 9\nD = 12\neager = true\n')
    assert main(["train", "--steps", "2", f"--config={file}", "--D", "8", "--out", str(out)]) == 0
    state = checkpoint.load(out).state
    assert (state["settings"]["steps"], state["settings"]["batch_size"]) == (2, 3)
    assert (state["task"]["config"]["D"], state["task"]["config"]["C"]) == (8, 16)  # C: of micro
    assert main(["train", "--resume", str(out), "--config", str(out / "config.toml")]) == 0  # nothing is changed


@pytest.mark.slow
def test_named_configuration_replaces_the_sizes_of_the_file(verse, tmp_path):
    first, second, third = (tmp_path / name for name in ("first", "second", "third"))
    assert main(["train", "--text", str(verse), *TINY, "--no-causal", "--lr", "0.5", "--out", str(first)]) == 0
    replaced = ["--config", str(first / "config.toml"), "--config", "micro", "--L", "2", "--steps", "1"]
    assert main(["train", *replaced, "--eager", "--out", str(second)]) == 0
    state = checkpoint.load(second).state
    config = Config(**state["task"]["config"])
    assert config == CONFIGS["micro"].replace(L=2, V=config.V)
    assert (state["settings"]["lr"], state["settings"]["steps"]) == (0.5, 1)  # no part of a configuration
    result = tomllib.loads((second / "config.toml").read_text())
    assert {name: result[name] for name in ("config", "D", "L", "causal", "norm")} == {
        "config": "micro",
        "D": 16,
        "L": 2,
        "causal": True,
        "norm": "rms",
    }
    assert main(["train", "--config", str(second / "config.toml"), "--out", str(third)]) == 0
    assert weights(second) == weights(third)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("steps =", "is not a TOML file: "),
        ("[model]\nD = 8", "[model] begins a section; write its entries without one"),
        ("stepz = 5", "there is no option 'stepz' here; did you mean steps?"),
        ("batchsize = 5", "there is no option 'batchsize' here; did you mean batch-size?"),
        ("qqqqqq = 5", "there is no option 'qqqqqq' here; `train --help` lists the options"),
        ('steps = "many"', "argument --steps: invalid int value: 'many'"),
        ("steps = 1.5", "argument --steps: invalid int value: '1.5'"),
        ("causal = 1", "causal = 1: true or false is needed"),
        ('config = "huge"', "argument --config: invalid choice: 'huge'"),
        ('config = "other.toml"', "config = 'other.toml': a file cannot name another one"),
        ('task = "copy"', "argument --task: invalid choice: 'copy'"),
        ('text = "--"', "text = '--': -- is no value"),
        ("n-max = 5", "there is no option 'n-max' here"),  # of another task
    ],
)
def test_unusable_file_is_refused(capsys, tmp_path, content, sentence):
    file = tmp_path / "mine.toml"
    file.write_text(content + "\n")
    assert main(["train", "--config", str(file), "--out", str(tmp_path / "run")]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"models: {file}") and sentence in error and error.count("\n") == 1, error
    assert not (tmp_path / "run").exists()


def test_missing_file_and_second_file_are_refused(capsys, tmp_path):
    assert main(["train", "--config", str(tmp_path / "no.toml")]) == 2
    assert "no.toml: there is no such file" in capsys.readouterr().err
    assert main(["train", "--config", "a.toml", "--config=b.toml"]) == 2
    assert "--config b.toml: a.toml is given already" in capsys.readouterr().err
