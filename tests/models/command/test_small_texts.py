"""Texts of one's own that are small or strange: they train with what they yield, or a sentence says why not."""

import shlex

import pytest

from models.command.cli import main
from models.data.tokenizers import KINDS, CharTokenizer
from models.inference.generate import stream
from tinytensor import Generator

TEXTS = {
    "lines": "to be or not to be that is the question\n" * 12,
    "no line end": "a cat sat on a mat and " * 40,
    "no letter T": "sing a song of sixpence, a pocket full of rye. " * 20,
    "Chinese": "你好世界，今天天气很好。" * 60,
    "words between blanks": "  ab   cd  " * 60,
}
SHORT = {"one character": "a" * 30, "two characters": "ab", "nothing": "", "blanks": " " * 500}


def train(tmp_path, text, *options):
    (tmp_path / "mine.txt").write_text(text, encoding="utf-8")
    return main(
        ["train", "--text", str(tmp_path / "mine.txt"), "--steps", "2", "--C", "8", "--D", "8", "--F", "8", "--L", "1"]
        + ["--out", str(tmp_path / "run"), *options]
    )


@pytest.mark.slow
@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_small_text_gets_a_smaller_vocabulary(text, tmp_path, capsys):
    assert train(tmp_path, text) == 0
    said = capsys.readouterr()
    assert "instead of 300: this text yields no more" in said.err
    hint = next(line for line in said.out.splitlines() if line.startswith("more samples: python -m models sample"))
    command = shlex.split(hint)[5:]
    assert command[-1] in text, "the proposed prompt is not of this text"
    assert main([*command, "--tokens", "5"]) == 0  # as it is proposed
    assert "not in the vocabulary" not in capsys.readouterr().err
    assert main(["sample", str(tmp_path / "run"), "--tokens", "5"]) == 0  # and without a prompt
    assert "not in the vocabulary" not in capsys.readouterr().err


@pytest.mark.slow
def test_requested_vocabulary_is_kept_or_refused(tmp_path, capsys):
    assert train(tmp_path, TEXTS["lines"], "--V", "300") != 0
    assert "the vocabulary is to have 300 tokens, but this text yields only" in capsys.readouterr().err
    assert train(tmp_path, TEXTS["lines"], "--V", "30") == 0


@pytest.mark.parametrize("text", SHORT.values(), ids=SHORT)
def test_short_text_is_refused_in_a_sentence(text, tmp_path, capsys):
    assert train(tmp_path, text) != 0
    said = capsys.readouterr().err
    assert "too short" in said or "nothing to learn from" in said
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("category", KINDS)
def test_unreadable_text_is_refused_in_a_sentence(category, tmp_path, capsys):
    assert train(tmp_path, "\ufffd" * 300, "--tokenizer", category) != 0
    assert "nothing but U+FFFD" in capsys.readouterr().err


def test_opening_is_in_the_vocabulary():
    for category in (KINDS["char"], KINDS["word"]):
        assert category.train(["one two\n"]).opening == "\n"
        without = category.train(["one two"])
        assert without.unknown_count(without.encode(without.opening)) == 0 and without.opening
    assert CharTokenizer([]).opening == ""


def test_unknown_token_is_never_sampled():
    """A model that is not trained gives it as often as any other; a reader would take it for a broken character."""
    tokenizer = CharTokenizer(["a", "b"])
    made = [tokenizer.unknown, 1, tokenizer.unknown, 2]
    assert "".join(stream(lambda *arguments: iter(made), tokenizer, "a", 4, Generator())) == "ab"
