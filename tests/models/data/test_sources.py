"""The texts of users: files, folders, lines of JSON, files of tokens; bad ones get a sentence before a run begins."""

import json
import pickle
import re
from shlex import split

import numpy as np
import pytest

from models.command.cli import main
from models.data import sources, text
from models.data.sources import documents, tokens
from models.data.text import TextError
from models.training import checkpoint

LINES = "the cat sat on the mat\nand the dog lay by the door\n"
ITOS = dict(enumerate(sorted(set(LINES))))
STOI = {c: i for i, c in ITOS.items()}
TINY = split("--D 8 --H 2 --F 12 --L 1 --C 10 --batch-size 2 --log-every 5 --evaluate-every 5 --checkpoint-every 5")


@pytest.fixture
def binary(tmp_path):
    """nanoGPT's files of tokens, for characters."""
    folder = tmp_path / "shakespeare_char"
    folder.mkdir()
    whole = np.array([STOI[c] for c in LINES * 20], np.uint16)
    whole[:-200].tofile(folder / "train.bin")
    whole[-200:].tofile(folder / "val.bin")
    held = {"vocab_size": len(ITOS), "itos": ITOS, "stoi": STOI}
    (folder / "meta.pkl").write_bytes(pickle.dumps(held))
    return folder


def test_a_folder_of_texts(tmp_path):
    (tmp_path / "deep").mkdir()
    for name, content in (("b.txt", "second"), ("deep/c.md", "third"), ("a.txt", "first"), ("d.py", "no text")):
        (tmp_path / name).write_text(content)
    assert documents(tmp_path, None, print) == ["first", "second", "third"]
    (tmp_path / "a.txt").write_bytes(b"\xff")
    with pytest.raises(TextError, match=r"a.txt is not UTF-8"):
        documents(tmp_path, None, print)


def test_lines_of_json(tmp_path):
    path, notes = tmp_path / "x.jsonl", []
    lines = [{"text": "one\ntwo", "id": 1}, {"text": "three"}, {"id": 3}, ["text"], {"text": 5}]
    path.write_text("\n\n".join(map(json.dumps, lines)) + "\n{broken\n")
    assert documents(path, None, notes.append) == ["one\ntwo\nthree\n"]
    assert [note.partition("jsonl, ")[2] for note in notes] == [
        *(f"line {n}: there is no text under 'text'; skipped" for n in (5, 7, 9)),
        "line 10: this is no JSON; skipped",
    ]
    path.write_text('{"body": "here"}\n')
    assert documents(path, "body", print) == ["here\n"]
    with pytest.raises(TextError, match="holds no text under 'text': line 1: there is no text under 'text'; --field"):
        documents(path, None, print)
    path.write_text("[" * 100_000)
    with pytest.raises(TextError, match="line 1: this is no JSON"):
        documents(path, None, print)


def test_files_of_tokens_are_mapped(binary):
    corpus = tokens(binary)
    assert isinstance(corpus.train, np.memmap) and len(corpus.train) == 20 * len(LINES) - 200
    assert corpus.tokenizer.decode(corpus.train[:50]) == LINES[:50]
    batches = text.Batches(corpus.train, 10, 3, np.random.default_rng(0))
    assert np.shares_memory(batches.tokens, corpus.train)
    copied = text.Batches(np.array(corpus.train, np.int64), 10, 3, np.random.default_rng(0))
    for _ in range(40):
        for mapped, usual in zip(batches.next(), copied.next(), strict=True):
            assert mapped.dtype == np.int64 and type(mapped) is np.ndarray and np.array_equal(mapped, usual)
    pairs = (text.evaluation_batches(row, 10, 4, 5) for row in (corpus.heldout, np.array(corpus.heldout, np.int64)))
    assert all(np.array_equal(a, b) for one, two in zip(*pairs, strict=True) for a, b in zip(one, two, strict=True))


def test_fingerprint_sees_every_token(binary):
    before = sources.fingerprint(tokens(binary))
    assert before == sources.fingerprint(tokens(binary)) and before["tokens"] == 20 * len(LINES)
    for name in ("train.bin", "val.bin"):
        content = bytearray((binary / name).read_bytes())
        content[-2] ^= 1
        (binary / name).write_bytes(content)
        after = sources.fingerprint(tokens(binary))
        assert after != before
        before = after


@pytest.mark.one_in(3)
@pytest.mark.parametrize("category", ["tokens", "folder", "jsonl"])
def test_a_run_learns_from_each_source_and_goes_on(category, binary, tmp_path, capsys):
    source, options = binary, []
    if category == "folder":
        source = tmp_path / "texts"
        source.mkdir()
        for name in "ab":
            (source / f"{name}.txt").write_text(LINES * 10)
        options = ["--tokenizer", "char"]
    if category == "jsonl":
        source = tmp_path / "x.jsonl"
        source.write_text("".join(json.dumps({"body": line}) + "\n" for line in LINES.splitlines() * 10))
        options = ["--tokenizer", "char", "--field", "body"]
    out = tmp_path / "run"
    assert main(["train", "--text", str(source), *options, "--steps", "5", "--out", str(out), *TINY]) == 0
    assert main(["train", "--resume", str(out), "--steps", "10"]) == 0
    said = capsys.readouterr().out
    assert "going on after step 5 of 10" in said and ("per character" in said) == (category != "tokens")
    assert checkpoint.load(out).step == 10
    assert main(["sample", str(out), "--prompt", "the", "--tokens", "5"]) == 0
    if category == "tokens":
        assert f"tokens: {binary}, GivenTokenizer" in said
        assert main(["train", "--resume", str(out), "--steps", "12", "--field", "x"]) == 2
        (binary / "train.bin").write_bytes((binary / "val.bin").read_bytes())
        assert main(["train", "--resume", str(out), "--steps", "12"]) == 2
        assert "was trained on another text" in capsys.readouterr().err


def _wider(folder, dtype):
    path = folder / "train.bin"
    np.fromfile(path, "<u2").astype(dtype).tofile(path)


def _saved(path):
    with path.open("wb") as file:
        np.save(file, np.ones(8, np.uint16))


REFUSED = {
    "no val.bin": (
        lambda f: (f / "val.bin").unlink(),
        [],
        "val.bin cannot be read: .*and val.bin are needed",
    ),
    "no train.bin": (lambda f: (f / "train.bin").unlink(), [], "train.bin cannot be read"),
    "half a token": (lambda f: (f / "val.bin").write_bytes(b"abc"), [], "val.bin has 3 bytes"),
    "empty": (lambda f: (f / "val.bin").write_bytes(b""), [], "val.bin has 0 bytes"),
    "a folder as file": (lambda f: [(f / "val.bin").unlink(), (f / "val.bin").mkdir()], [], "val.bin is no file"),
    "no vocabulary": (lambda f: (f / "meta.pkl").unlink(), [], "there is no vocabulary: .*beside train.bin"),
    "a token too large": (
        lambda f: np.full(50, 999, "<u2").tofile(f / "val.bin"),
        [],
        "val.bin holds the token 999, but the vocabulary has 17 tokens",
    ),
    "32 bits": (lambda f: _wider(f, "<i4"), [], "train.bin seems to hold numbers of 32 bits, whose upper parts are 0"),
    "64 bits": (lambda f: _wider(f, "<i8"), [], "train.bin seems to hold numbers of 64 bits, whose upper parts are 0"),
    "32 bits, large": (
        lambda f: np.array([300, 2**16 + 7, 2**17] * 50, "<u4").tofile(f / "train.bin"),
        [],
        r'32 bits, whose upper parts are at most 2; .*np.fromfile\("train.bin", "<i4"\).astype\("<u2"\)',
    ),
    "of NumPy": (lambda f: _saved(f / "val.bin"), [], "val.bin is an array of NumPy"),
    "too short": (lambda f: np.zeros(5, "<u2").tofile(f / "val.bin"), [], "the text is too short"),
    "a tokenizer": (lambda f: None, ["--tokenizer", "char"], "holds tokens already; leave --tokenizer out"),
    "a field": (lambda f: None, ["--field", "x"], "holds tokens already; leave --field out"),
    "another V": (lambda f: None, ["--V", "20"], "has 17 tokens; leave --V out"),
    "neither": (lambda f: [p.unlink() for p in f.iterdir()], [], r"is a folder without .txt, .md files"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_sources_get_a_sentence(case, binary, tmp_path, capsys):
    change, options, message = REFUSED[case]
    change(binary)
    code = main(["train", "--text", str(binary), *options, "--out", str(tmp_path / "run"), *TINY])
    said = capsys.readouterr()
    assert code == 2 and said.err.count("\n") == 1 and not (tmp_path / "run").exists()
    assert re.search(message, said.err), said.err


def test_a_field_needs_lines_of_json(tmp_path, capsys):
    (tmp_path / "a.txt").write_text(LINES)
    for argument in (["--text", str(tmp_path / "a.txt")], ["--text", str(tmp_path)], []):
        assert main(["train", *argument, "--field", "x", "--out", str(tmp_path / "run"), *TINY]) == 2
        assert "--field x: " in capsys.readouterr().err
