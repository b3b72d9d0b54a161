"""Folders, .jsonl files, files of tokens and imported models: repeated by config.toml, begun with, and evaluated."""

import json
import re
import tomllib
from shlex import split

import numpy as np
import pytest
from safetensors.numpy import save_file

import tinytensor as tt
from models.command import cli
from models.data.tokenizers import GivenTokenizer, LibraryTokenizer
from models.inference.generate import stream
from models.training import checkpoint
from tests.models.training.gpt2 import CONFIG, TEXT, gpt2_logits, random_weights, train_vocabulary

LINES = "the cat sat on the mat\nand the dog lay by the door\n"
TINY = split("--D 8 --H 2 --F 12 --L 1 --C 10 --batch-size 2 --eager")


def write_tokens(folder, characters, text=LINES):
    """nanoGPT's files of tokens with a vocabulary of these characters."""
    folder.mkdir()
    whole = np.array([characters.index(c) for c in text * 20], np.uint16)
    whole[:-200].tofile(folder / "train.bin")
    whole[-200:].tofile(folder / "val.bin")
    (folder / "meta.json").write_text(json.dumps({"itos": dict(enumerate(characters))}))
    return folder


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    """The same two lines as a folder, a .jsonl file, and files of tokens of two vocabularies."""
    made = tmp_path_factory.mktemp("sources")
    (made / "folder").mkdir()
    for name in "ab":
        (made / "folder" / f"{name}.txt").write_text(LINES * 10)
    (made / "x.jsonl").write_text("".join(json.dumps({"body": line}) + "\n" for line in LINES.splitlines() * 20))
    characters = "".join(sorted(set(LINES)))
    write_tokens(made / "tokens", characters)
    write_tokens(made / "more", characters, LINES[::-1])
    write_tokens(made / "other", characters[::-1])
    (made / "greek.txt").write_text("the cat; the μῆνις\n" * 20)
    return made


def text_of(sources, category):
    """The options that name a source."""
    return {
        "folder": ["--text", str(sources / "folder")],
        "jsonl": ["--text", str(sources / "x.jsonl"), "--field", "body"],
        "tokens": ["--text", str(sources / "tokens")],
    }[category]


def run(*arguments, capsys) -> tuple[int, str, str]:
    code = cli.main([str(argument) for argument in arguments])
    said = capsys.readouterr()
    return code, said.out, said.err


def weights(folder):
    return {name: w.numpy().tobytes() for name, w in checkpoint.load(folder).weights.items()}


@pytest.fixture(scope="module")
def runs(sources, tmp_path_factory):
    """A run of three steps on each source."""
    made = tmp_path_factory.mktemp("runs")
    for category in ("folder", "jsonl", "tokens"):
        arguments = [
            *text_of(sources, category),
            *([] if category == "tokens" else ["--tokenizer", "char"]),
            "--steps",
            "3",
            *TINY,
        ]
        assert cli.main(["train", *arguments, "--out", str(made / category)]) == 0
    return made


@pytest.mark.slow
@pytest.mark.parametrize("category", ["folder", "jsonl", "tokens"])
def test_written_file_repeats_a_run_of_each_source(category, runs, tmp_path, capsys):
    second, file = tmp_path / "again", runs / category / "config.toml"
    assert run("train", "--config", file, "--eager", "--out", second, capsys=capsys)[0] == 0
    assert weights(second) == weights(runs / category) and (second / "config.toml").read_text() == file.read_text()
    entries = tomllib.loads(file.read_text())
    assert entries.get("field") == ("body" if category == "jsonl" else None)
    assert entries.get("tokenizer") == (
        None if category == "tokens" else "char"
    )  # the vocabulary lies beside the tokens


@pytest.mark.slow
@pytest.mark.parametrize("category", ["folder", "jsonl", "tokens"])
def test_runs_of_each_source_are_evaluated_and_begun_with(category, runs, sources, tmp_path, capsys):
    last = checkpoint.load(runs / category).state["log"][-1]["heldout_loss"]
    code, said, _ = run("evaluate", runs / category, capsys=capsys)
    assert code == 0 and f"loss        {last:.4f} nats per token" in said
    assert ("bits per character" in said) == (category != "tokens")
    code, said, _ = run("evaluate", runs / category, *text_of(sources, "jsonl"), "--best", capsys=capsys)
    assert code == 0 and f"x.jsonl: {20 * len(LINES) - 1:,} targets" in said
    to_go_on = {"folder": "jsonl", "jsonl": "folder", "tokens": "folder"}[category]
    new = ["train", "--init-from", runs / category, *text_of(sources, to_go_on), "--lr", "0", "--steps", "1", "--eager"]
    assert run(*new, "--out", tmp_path / "new", capsys=capsys)[0] == 0
    assert weights(tmp_path / "new") == weights(runs / category)
    assert run("train", "--config", tmp_path / "new" / "config.toml", "--out", tmp_path / "2", capsys=capsys)[0] == 0
    assert weights(tmp_path / "2") == weights(runs / category)


@pytest.mark.slow
def test_run_of_tokens_goes_on_with_tokens_of_its_vocabulary(runs, sources, tmp_path, capsys):
    new = ["train", "--init-from", runs / "tokens", "--steps", "2", "--eager", "--out", tmp_path / "new"]
    code, said, _ = run(*new, "--text", sources / "more", capsys=capsys)
    assert code == 0 and f"tokens: {sources / 'more'}, GivenTokenizer" in said
    assert run("train", "--resume", tmp_path / "new", "--steps", "3", capsys=capsys)[0] == 0
    code, said, _ = run("evaluate", runs / "tokens", "--text", sources / "more", capsys=capsys)
    assert code == 0 and "more: 199 targets" in said


REFUSED = {
    "another vocabulary": ("tokens", ["--text", "other"], "belong to another vocabulary than the run's"),
    "a vocabulary of text": ("folder", ["--text", "tokens"], "belong to another vocabulary than the run's"),
    "a field of tokens": ("tokens", ["--text", "more", "--field", "x"], "holds tokens already; leave --field out"),
    "a field of nothing": ("tokens", ["--field", "x"], "--field x: name a .jsonl file with --text"),
    "characters": ("tokens", ["--text", "greek.txt"], "vocabulary .* lacks.*';'"),
}


@pytest.mark.one_in(12)
@pytest.mark.parametrize("case", REFUSED)
@pytest.mark.parametrize("command", ["train --steps 1 --out new --init-from", "evaluate"])
def test_sources_that_do_not_fit_the_run_are_refused(command, case, runs, sources, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(sources)
    category, arguments, message = REFUSED[case]
    code, _, error = run(*command.split(), runs / category, *arguments, capsys=capsys)
    assert code == 2 and error.count("\n") == 1 and re.search(message, error), error
    assert not (sources / "new").exists()


# --- Imported runs


@pytest.fixture(scope="module")
def imported(tmp_path_factory):
    """GPT-2 in Hugging Face's layout with random weights, imported."""
    made = tmp_path_factory.mktemp("imported")
    (made / "gpt2").mkdir()
    save_file(random_weights(), made / "gpt2" / "model.safetensors", {"format": "pt"})
    (made / "gpt2" / "config.json").write_text(json.dumps(CONFIG))
    train_vocabulary().save(str(made / "gpt2" / "tokenizer.json"))
    assert cli.main(["import", str(made / "gpt2"), "--out", str(made / "run")]) == 0
    return made / "run"


def test_imported_run_is_evaluated_on_a_text(imported, tmp_path, capsys):
    code, _, error = run("evaluate", imported, capsys=capsys)
    assert code == 2 and "was imported, and has no held-out data: name a text with --text" in error
    code, _, error = run("sample", imported, "--best", capsys=capsys)
    assert code == 2 and "has not looked at its held-out data yet" in error
    (tmp_path / "cat.txt").write_text("the cat sat.")
    code, said, _ = run("evaluate", imported, "--text", tmp_path / "cat.txt", capsys=capsys)
    tokens = train_vocabulary().encode("the cat sat.").ids
    logits = gpt2_logits(random_weights(), tokens)
    shares = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    expected = -np.mean([shares[i, token] for i, token in enumerate(tokens[1:])])
    assert code == 0 and float(said.split("loss")[1].split()[0]) == pytest.approx(expected, abs=2e-4)


@pytest.mark.slow
def test_imported_run_is_trained_on_another_text(imported, tmp_path, capsys):
    (tmp_path / "cats.txt").write_text(TEXT * 10)
    new = [
        "train",
        "--init-from",
        imported,
        "--text",
        tmp_path / "cats.txt",
        "--batch-size",
        "2",
        "--lr",
        "1e-3",
        "--eager",
    ]
    code, said, error = run(
        *new, "--steps", "20", "--warmup", "2", "--log-every", "5", "--out", tmp_path / "new", capsys=capsys
    )
    assert code == 0, error
    assert "there is no page to look inside" in said  # of GPT-2's GELU
    rows = checkpoint.load(tmp_path / "new").state["log"]
    assert rows[-1]["loss"] < rows[0]["loss"]
    assert run("sample", tmp_path / "new", "--stop", ".", "--tokens", "30", capsys=capsys)[0] == 0
    assert run("export", tmp_path / "new", tmp_path / "back", capsys=capsys)[0] == 0
    second = ["train", "--config", tmp_path / "new" / "config.toml", "--steps", "1", "--eager", "--out", tmp_path / "2"]
    assert run(*second, capsys=capsys)[0] == 0
    code, _, error = run(*new, "--D", "48", "--out", tmp_path / "wide", capsys=capsys)
    assert code == 2 and "leave out --D" in error


def test_pieces_of_a_stream_keep_the_spaces_between_words():
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    words = Tokenizer(models.WordLevel({"▁the": 0, "▁cat": 1, "s": 2, "é": 3}, unk_token="s"))
    words.pre_tokenizer, words.decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
    tokenizer, tokens = LibraryTokenizer(words.to_str()), [0, 1, 2, 0, 3, 1]
    result = list(stream(lambda *arguments: iter(tokens), tokenizer, "the", 6, tt.Generator()))
    assert "".join(result) == tokenizer.decode(tokens) == "the cats theé cat" and result[1] == " cat"
    assert not GivenTokenizer(["a", "b"]).knows("abc") and GivenTokenizer(["a", "b"]).knows("ba")
