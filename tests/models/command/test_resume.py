"""Runs that begin with another run's weights, stop early, or are evaluated on another text."""

import contextlib
import io
from shlex import split

import numpy as np
import pytest

import tinytensor
from models.command import cli
from models.command.cli import main
from models.data.tokenizers import tokenizer_from_dict
from models.inference.generate import until
from models.training import checkpoint

TINY = split("--D 8 --H 2 --F 12 --L 1 --C 10 --batch-size 2 --eager")


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    """Two texts; the second has letters that the first lacks."""
    folder = tmp_path_factory.mktemp("text")
    (folder / "cats.txt").write_text("The cat sat on the mat, and the dog lay by the door.\n" * 20)
    (folder / "zebras.txt").write_text("The zebra sat on the door; the mat lay by the cat.\n" * 20)
    (folder / "greek.txt").write_text("μῆνιν ἄειδε θεὰ Πηληϊάδεω Ἀχιλῆος\n" * 20)
    return folder


@pytest.fixture(scope="module")
def run(texts, tmp_path_factory):
    """A run on the first text, by characters."""
    out = tmp_path_factory.mktemp("runs") / "cats"
    command = ["train", "--text", str(texts / "cats.txt"), "--tokenizer", "char", "--steps", "3", "--out", str(out)]
    with contextlib.redirect_stdout(io.StringIO()):
        assert main([*command, *TINY]) == 0
    return out


def weights(folder):
    return {name: w.numpy().tobytes() for name, w in checkpoint.load(folder).weights.items()}


# --- --init-from


@pytest.mark.slow
def test_new_run_begins_with_the_weights_of_another(run, texts, tmp_path, capsys):
    out, arguments = tmp_path / "zebras", ["--text", str(texts / "zebras.txt"), "--init-from", str(run), "--eager"]
    command = ["train", *arguments, "--lr", "0", "--steps", "2", "--weight-decay", "0", "--dropout", "0.1"]
    assert main([*command, "--out", str(out)]) == 0
    message = "characters of these data that the vocabulary of the earlier run lacks: 'z', ';' (40 of 1,020 places)"
    assert capsys.readouterr().err == f"models: {message}; each becomes the unknown token\n"
    assert weights(out) == weights(run)  # with a rate of 0 nothing is learned
    before, after = (checkpoint.load(folder).state["task"] for folder in (run, out))
    assert before["tokenizer"] == after["tokenizer"] and before["file"] != after["file"]
    assert after["config"] == before["config"] | {"dropout": 0.1}
    second = tmp_path / "again"
    assert main(["train", "--config", str(out / "config.toml"), "--eager", "--out", str(second)]) == 0
    assert weights(second) == weights(out)
    assert tokenizer_from_dict(after["tokenizer"]).knows("cat")


@pytest.mark.slow
def test_resumed_run_with_other_weights_at_its_beginning(run, texts, tmp_path):
    arguments = [
        "train",
        "--text",
        str(texts / "zebras.txt"),
        "--init-from",
        str(run),
        "--eager",
        "--schedule",
        "constant",
    ]
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    assert main([*arguments, "--steps", "4", "--out", str(whole)]) == 0
    assert main([*arguments, "--steps", "2", "--out", str(parts)]) == 0
    assert main(["train", "--resume", str(parts), "--steps", "4"]) == 0
    assert weights(whole) == weights(parts) != weights(run)


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--D", "16"], "decides the sizes, the layout and the vocabulary: leave out --D"),
        (["--tokenizer", "bpe"], "leave out --tokenizer"),
        (["--config", "nano"], "leave out --config"),
        (["--task", "translate"], "was trained with --task text: give --task text"),
        (["--text", "greek.txt"], "there is too little to learn from: train a new model"),
        (["--init-from", "nowhere"], "nowhere holds no checkpoint"),
    ],
)
def test_options_that_do_not_fit_the_earlier_run(run, texts, tmp_path, capsys, monkeypatch, arguments, sentence):
    monkeypatch.chdir(texts)
    assert main(["train", "--init-from", str(run), *arguments, "--out", str(tmp_path / "new")]) == 2
    error = capsys.readouterr().err
    assert sentence in error and error.count("\n") == 1 and "does not hold what" not in error, error
    assert not (tmp_path / "new").exists()


@pytest.mark.slow
def test_other_tasks_begin_with_a_run_too(tmp_path, capsys):
    pairs, sequences = tmp_path / "pairs.tsv", tmp_path / "items.csv"
    pairs.write_text("".join(f"a {word}\tun {word}\n" for word in ("cat", "dog", "cow", "hen", "fox", "bat")))
    sequences.write_text("user,item,time\n" + "".join(f"u{i % 3},item-{i % 5},{i}\n" for i in range(30)))
    options = {
        "translate": f"--pairs {pairs} --tokenizer word --d-model 8 --h 2 --d-k 4 --d-v 4 --d-ff 8 --N 1",
        "recommend": f"--sequences {sequences} --D 8 --H 2 --F 8 --L 1 --C 6",
    }
    for task, data in options.items():
        first, second = tmp_path / task, tmp_path / f"{task}-2"
        usual = ["train", "--task", task, "--steps", "1", "--batch-size", "2", "--eager"]
        assert main([*usual, *split(data), "--out", str(first)]) == 0
        capsys.readouterr()
        assert main(["evaluate", str(first)]) == 0
        unit = {"translate": "token", "recommend": "item"}[task]
        assert f" nats per {unit}\n" in capsys.readouterr().out
        pairs.write_text("a wug\tun wug\n" + pairs.read_text())
        sequences.write_text(sequences.read_text() + f"u1,new-for-{task},99\n")
        assert main([*usual, *split(data)[:2], "--init-from", str(first), "--lr", "0", "--out", str(second)]) == 0
        lacking = {"translate": "words of these data", "recommend": "items of these data"}[task]
        error = capsys.readouterr().err
        assert lacking in error and {"translate": "' wug'", "recommend": "'new-for-recommend'"}[task] in error, error


# --- --patience, --best


@pytest.mark.slow
def test_patience_ends_the_run_and_the_best_checkpoint_stays(texts, tmp_path, capsys):
    out = tmp_path / "run"
    learning = split("--lr 5 --schedule constant --warmup 0 --steps 60 --evaluate-every 2 --patience 3 --seed 1")
    arguments = ["--text", str(texts / "cats.txt"), "--tokenizer", "char", *learning, "--checkpoint-every", "100"]
    assert main(["train", *arguments, *TINY, "--out", str(out)]) == 0
    printed = capsys.readouterr().out
    state = checkpoint.load(out).state
    looks = {row["step"]: row["heldout_loss"] for row in state["log"] if "heldout_loss" in row}
    best, last = min(looks, key=looks.get), max(looks)
    assert last == best + 3 * 2 < 60  # three looks, two steps apart
    assert f"ended after step {last}: 3 looks at the held-out data brought no better loss" in printed
    assert {best, last} <= set(checkpoint.steps(out))
    kept = weights(out)
    assert main(["train", "--resume", str(out)]) == 0  # it has ended already
    assert weights(out) == kept
    texts_of = []
    for more in ([], ["--best"]):
        capsys.readouterr()
        assert main(["sample", str(out), "--tokens", "60", *more]) == 0
        texts_of.append(capsys.readouterr().out)
    assert texts_of[0] != texts_of[1]
    assert main(["train", "--resume", str(out), "--patience", "0", "--steps", str(last + 2)]) == 0
    assert checkpoint.load(out).step == last + 2


def test_best_without_a_look_is_refused(run, tmp_path, capsys):
    assert main(["train", "--patience", "-1"]) == 2
    assert "patience = -1: a whole number of 0 or more is needed" in capsys.readouterr().err
    saved = checkpoint.load(run)
    saved.state["log"] = [{"step": 2, "loss": 3.0, "heldout_loss": 2.5}]
    checkpoint.save(tmp_path / "lost", saved)
    assert main(["sample", str(tmp_path / "lost"), "--best"]) == 2
    assert "does not hold the checkpoint of step 2" in capsys.readouterr().err
    saved.state["log"] = []
    checkpoint.save(tmp_path / "young", saved)
    assert main(["sample", str(tmp_path / "young"), "--best"]) == 2
    assert "has not looked at its held-out data yet" in capsys.readouterr().err


# --- Evaluate


def test_evaluation_repeats_the_held_out_loss_of_the_log(run, capsys):
    last = checkpoint.load(run).state["log"][-1]["heldout_loss"]
    assert main(["evaluate", str(run)]) == 0
    printed = capsys.readouterr().out
    assert f"loss        {last:.4f} nats per token" in printed
    assert f"held-out data: 105 targets, {run} after step 3" in printed


def test_evaluation_of_a_text_counts_all_of_it(run, texts, tmp_path, capsys):
    assert main(["evaluate", str(run), "--text", str(texts / "cats.txt")]) == 0
    letters = len((texts / "cats.txt").read_text())
    assert f"cats.txt: {letters - 1:,} targets" in capsys.readouterr().out
    assert main(["evaluate", str(run), "--text", str(texts / "zebras.txt"), "--best"]) == 0
    assert "40 of 1,020 tokens" in capsys.readouterr().err
    short = tmp_path / "short.txt"
    short.write_text("cat")  # shorter than the context of 10
    assert main(["evaluate", str(run), "--text", str(short)]) == 0
    printed = capsys.readouterr().out
    model, tokenizer, _ = cli._loaded(run, "text")
    tokens = tokenizer.encode("cat")
    with tinytensor.no_grad():
        logits = model(tinytensor.tensor([tokens]))[0][0].numpy().astype(float)
    shares = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    loss = -(shares[0, tokens[1]] + shares[1, tokens[2]]) / 2
    assert float(printed.split("loss")[1].split()[0]) == pytest.approx(loss, abs=6e-5)
    bits = float(printed.split("bits")[0].split()[-1])
    assert bits == pytest.approx(2 * loss / np.log(2) / 3, abs=6e-5)


@pytest.mark.slow
def test_evaluation_of_a_changed_text_is_refused(texts, tmp_path, capsys):
    text, out = tmp_path / "mine.txt", tmp_path / "run"
    text.write_text((texts / "cats.txt").read_text())
    arguments = ["--text", str(text), "--tokenizer", "char", "--steps", "1", *TINY]
    assert main(["train", *arguments, "--out", str(out)]) == 0
    text.write_text((texts / "cats.txt").read_text().replace("dog", "god"))
    assert main(["evaluate", str(out)]) == 2
    assert capsys.readouterr().err == (
        f"models: {out}: its data have changed since its training: name a text with --text\n"
    )


def test_evaluation_that_cannot_be_is_refused(run, texts, tmp_path, capsys):
    for arguments, sentence in (
        ([tmp_path], "holds no checkpoint"),
        ([run, "--text", tmp_path / "no.txt"], "no.txt: there is no such file"),
        ([run, "--threads", "0"], "--threads 0: 1 or more is needed"),
    ):
        assert main(["evaluate", *map(str, arguments)]) == 2
        error = capsys.readouterr().err
        assert sentence in error and error.count("\n") == 1


# --- Sample


def sampled(capsys, *arguments):
    assert main(["sample", *map(str, arguments)]) == 0
    return capsys.readouterr().out


def test_several_samples_from_a_prompt_in_a_file(run, tmp_path, capsys):
    file = tmp_path / "prompt.txt"
    file.write_text("The dog")
    one = sampled(capsys, run, "--prompt", "The dog", "--tokens", "20")
    assert sampled(capsys, run, "--prompt-file", file, "--tokens", "20") == one
    three = sampled(capsys, run, "--prompt", "The dog", "--tokens", "20", "--num-samples", "3")
    parts = three.split(cli.SEPARATOR + "\n")
    assert parts[0] == one and len(set(parts)) == len(parts) == 3
    assert all(part.startswith("The dog") for part in parts)


def test_sample_ends_before_the_text_to_stop_at(run, capsys):
    whole = sampled(capsys, run, "--prompt", "The", "--tokens", "80", "--temperature", "1")[3:-1]
    stop = whole[30:33]
    actual = sampled(capsys, run, "--prompt", "The", "--tokens", "80", "--temperature", "1", "--stop", stop)
    assert actual == f"The{whole[: whole.index(stop)]}\n"
    both = ["--stop", stop, "--stop", whole[10:12]]
    actual = sampled(capsys, run, "--prompt", "The", "--tokens", "80", "--temperature", "1", *both)
    assert actual == f"The{whole[: min(whole.index(stop), whole.index(whole[10:12]))]}\n"


def test_pieces_up_to_a_stop_are_yielded_early():
    assert "".join(until(["ab", "c", "ab", "d"], ["abd"])) == "abc"
    assert "".join(until(["ab", "c"], ["x"])) == "".join(until(["ab", "c"], [])) == "abc"
    assert "".join(until(["ab"], ["abc"])) == "ab"  # the beginning of a stop at the end
    assert next(until(["ab", "never read"], [])) == "ab"
    held = until(["xa", "a", "b"], ["ab"])
    assert [next(held), next(held)] == ["x", "a"]


def test_sample_is_written_while_it_is_made(run, monkeypatch, capsys):
    written = []
    monkeypatch.setattr("builtins.print", lambda *pieces, **how: written.append((pieces, how.get("flush"))))
    assert main(["sample", str(run), "--prompt", "The", "--tokens", "30"]) == 0
    assert len(written) > 20 and all(flush for _, flush in written[:-1])


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--num-samples", "0"], "--num-samples 0: 1 to 10,000 is needed"),
        (["--stop", ""], "--stop '': an empty text stands everywhere"),
        (["--prompt", "a", "--prompt-file", "b"], "--prompt and --prompt-file both give the text"),
        (["--prompt-file", "/nowhere.txt"], "--prompt-file /nowhere.txt cannot be read: No such file or directory"),
        (["--prompt-file", "latin.txt"], "--prompt-file latin.txt is not UTF-8"),
    ],
)
def test_unusable_sample_options_are_refused(run, tmp_path, capsys, monkeypatch, arguments, sentence):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "latin.txt").write_bytes(b"caf\xe9")
    assert main(["sample", str(run), *arguments]) == 2
    out, error = capsys.readouterr()
    assert sentence in error and error.count("\n") == 1 and not out
