"""Tokenizers: what is encoded comes back, the unknown is explicit, the vocabulary is exactly as large as asked."""

import builtins
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.data.tokenizers import (
    UNKNOWN,
    BPETokenizer,
    CharTokenizer,
    TextError,
    WordTokenizer,
    tokenizer_from_dict,
)
from tinytensor.native.platform.distribution import install

TEXT = (
    'The cat sat on the mat.\n\n   def f(x):\n      return f(x)  + "x"   \n\n\n'
    "\tä—ß … “naïve” 世界 🙂\u2028\u00a0 -- the end_of it\n"
    "neighbours counted beforehand, international considerations notwithstanding, outperform\n"
    "A rose is a rose is a rose; the sea is the sea.  \r\n the last line has no end"
)
ROOT = Path(__file__).parents[3]
SPECIAL = ("<pad>", "<bos>", "<eos>")
KINDS = [CharTokenizer, WordTokenizer, BPETokenizer]


def trained(cls, special=()):
    # half of the 120 are for the alphabet, and TEXT has fewer characters: none is unknown
    return cls.train([TEXT] * 3, 120, special=special)


@pytest.mark.parametrize("cls", KINDS)
@pytest.mark.parametrize("special", [(), SPECIAL])
def test_decode_undoes_encode(cls, special):
    tokenizer = trained(cls, special)
    ids = tokenizer.encode(TEXT)
    assert tokenizer.decode(ids) == TEXT
    assert tokenizer.unknown_count(ids) == 0
    assert all(len(special) < i < tokenizer.vocab_size for i in ids)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from(sorted(set(TEXT))), max_size=60).map("".join))
def test_text_of_known_characters_survives(text):
    for tokenizer in (CHARACTERS, PAIRS):
        assert tokenizer.decode(tokenizer.encode(text)) == text


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=60))
def test_text_survives_except_unknown_characters(text):
    known = set(TEXT)
    expected = "".join(c if c in known else UNKNOWN for c in text)
    for tokenizer in (CHARACTERS, PAIRS):
        ids = tokenizer.encode(text)
        assert tokenizer.decode(ids) == expected
        assert tokenizer.unknown_count(ids) == expected.count(UNKNOWN)


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=60))
def test_word_pieces_and_bpe_pieces_lose_nothing(text):
    assert "".join(WordTokenizer.split(text)) == text
    assert WordTokenizer.train([text, text]).decode(WordTokenizer.train([text]).encode(text)) == text


CHARACTERS, PAIRS = CharTokenizer.train([TEXT]), trained(BPETokenizer)


def test_words_by_hand():
    assert WordTokenizer.split("The cat  sat.\n") == ["The", " cat", " ", " sat", ".", "\n"]
    tokenizer = WordTokenizer.train(["a b b a a", " c"], vocab_size=4)
    assert tokenizer.tokens == [UNKNOWN, " a", " b", " c"]  # twice each and once; "a" comes after " c" in the alphabet
    assert tokenizer.encode("a b c d") == [0, 2, 3, 0]
    assert tokenizer.decode([0, 2, 3, 0]) == UNKNOWN + " b c" + UNKNOWN


def test_characters_by_hand():
    tokenizer = CharTokenizer.train(["hello"], vocab_size=4, special=["<pad>"])
    assert tokenizer.tokens == ["<pad>", UNKNOWN, "l", "e"]  # two l, then e before h and o
    assert tokenizer.special == {"<pad>": 0} and tokenizer.unknown == 1
    ids = tokenizer.encode("hello")
    assert ids == [1, 3, 2, 2, 1]
    assert tokenizer.unknown_count(ids) == 2
    assert CharTokenizer.train(["hello"], vocab_size=100).vocab_size == 5  # no more than there are


def test_bpe_by_hand():
    # a and b are neighbours four times, every other pair at most twice
    tokenizer = BPETokenizer.train(["abc ab abc ab"], vocab_size=6, limit_alphabet=4)
    assert tokenizer.tokens[0] == UNKNOWN and sorted(tokenizer.tokens[1:5]) == [" ", "a", "b", "c"]
    assert tokenizer.tokens[5] == "ab" and tokenizer.merges == [("a", "b")]
    assert [tokenizer.tokens[i] for i in tokenizer.encode("abbax")] == ["ab", "b", "a", UNKNOWN]


@pytest.mark.parametrize("special", [(), SPECIAL])
@pytest.mark.parametrize("vocab_size", [80, 97, 120])
def test_bpe_vocabulary_is_exactly_as_asked(vocab_size, special):
    tokenizer = BPETokenizer.train([TEXT] * 3, vocab_size, special=special)
    assert tokenizer.vocab_size == len(set(tokenizer.tokens)) == vocab_size
    assert tokenizer.tokens[: len(special)] == list(special)


def test_bpe_names_the_size_that_a_short_text_allows():
    with pytest.raises(
        TextError, match=r"have 300 tokens, but this text yields only \d+ \(8 characters, \d merges\)"
    ) as e:
        BPETokenizer.train(["hello world"], 300)
    advised = int(re.search(r"at most (\d+)", str(e.value)).group(1))
    assert BPETokenizer.train(["hello world"], advised).vocab_size == advised
    with pytest.raises(TextError, match=f"at most {advised}$"):
        BPETokenizer.train(["hello world"], advised + 1)


def test_bpe_alphabet_is_limited_to_the_frequent_characters():
    rare = "".join(chr(0x4E00 + i) for i in range(500))
    tokenizer = BPETokenizer.train(["the tea that they ate " * 9 + rare], 14, limit_alphabet=6)
    ids = tokenizer.encode("the yeti" + rare)
    assert tokenizer.decode(ids) == "the yet" + UNKNOWN * 501
    assert tokenizer.unknown_count(ids) == 501
    half = BPETokenizer.train(["the tea that they ate " * 9 + rare], 20)  # by default: ten of twenty
    assert sum(len(token) == 1 for token in half.tokens) == 1 + 10


def test_bpe_uses_all_characters_when_merges_run_out():
    # no two letters are neighbours: half of ten tokens for characters would leave the other half empty
    assert sorted(BPETokenizer.train(["\n".join("abcdefgh")], 10).tokens) == ["\n", *"abcdefgh", UNKNOWN]


def test_bpe_pieces_are_limited_in_length():
    # merged two by two, the eight tokens made of a's would reach 256 letters, were a piece not cut at 100
    assert max(len(token) for token in BPETokenizer.train(["a" * 10_000], 10).tokens) == 100


def test_bpe_is_the_same_in_another_process():
    # among equally rare characters the library chooses by the order of a hash table, which differs from run to run
    program = (
        "from models.data.tokenizers import BPETokenizer; import json, sys\n"
        "text = 'to be or not to be ' + ''.join(chr(0x4E00 + i) for i in range(200))\n"
        "print(json.dumps(BPETokenizer.train([text], 40).to_dict()))"
    )
    run = [sys.executable, "-c", program]
    outputs = {subprocess.run(run, check=True, capture_output=True, text=True, cwd=ROOT).stdout for _ in range(3)}
    assert len(outputs) == 1


@pytest.mark.parametrize("cls", KINDS)
@pytest.mark.parametrize("special", [(), SPECIAL])
def test_a_tokenizer_survives_json(cls, special):
    tokenizer = trained(cls, special)
    second = tokenizer_from_dict(json.loads(json.dumps(tokenizer.to_dict())))
    assert type(second) is cls
    assert second.tokens == tokenizer.tokens and second.special == tokenizer.special
    assert second.encode(TEXT + "Ω") == tokenizer.encode(TEXT + "Ω")
    assert second.to_dict() == tokenizer.to_dict()


@pytest.mark.parametrize("cls", KINDS)
def test_no_text_encodes_to_a_special_token(cls):
    tokenizer = cls.train([TEXT + "<pad><bos><eos>"] * 3, 120, special=SPECIAL)
    ids = tokenizer.encode("<pad> <bos> <eos>" + UNKNOWN)
    assert min(ids) == tokenizer.unknown == 3
    assert tokenizer.decode([0, *ids, 1, 2]) == tokenizer.decode(ids)


@pytest.mark.parametrize("cls", [CharTokenizer, BPETokenizer])
def test_a_replacement_character_in_the_text_is_the_unknown(cls):
    tokenizer = cls.train(["ab" + UNKNOWN * 3], 3 + (cls is BPETokenizer))
    assert tokenizer.tokens.count(UNKNOWN) == 1
    assert tokenizer.encode(UNKNOWN) == [tokenizer.unknown]


def test_half_a_surrogate_pair_is_an_unknown_character():
    assert PAIRS.decode(PAIRS.encode("a\ud800t")) == "a" + UNKNOWN + "t"
    tokenizer = BPETokenizer.train(["ab ab ab \udfff"], 5)
    assert tokenizer.decode(tokenizer.encode("ab\udfff")) == "ab" + UNKNOWN


@pytest.mark.parametrize("cls", KINDS)
def test_decode_refuses_ids_outside_the_vocabulary(cls):
    tokenizer = trained(cls)
    for bad in (tokenizer.vocab_size, -1):
        with pytest.raises(ValueError, match=f"id {bad} is outside the vocabulary of {tokenizer.vocab_size} tokens"):
            tokenizer.decode([1, bad])


@pytest.mark.parametrize("cls", KINDS)
def test_a_vocabulary_without_room_for_text_is_refused(cls):
    with pytest.raises(ValueError, match=r"vocabulary of 4 has no room for text .* use at least 5"):
        cls.train([TEXT], 4, special=SPECIAL)


def test_a_token_listed_twice_is_refused():
    with pytest.raises(ValueError, match="listed twice"):
        CharTokenizer(["a", "b", "a"])
    with pytest.raises(ValueError, match="listed twice"):
        CharTokenizer(["a"], ["<pad>", "<pad>"])


@pytest.mark.parametrize("pieces", ["abc", [1, "a"], {"a": 1}, None, [None]])
def test_pieces_that_are_no_list_of_strings_are_refused(pieces):
    with pytest.raises(ValueError, match="CharTokenizer: pieces must be a list of strings"):
        tokenizer_from_dict({"kind": "char", "pieces": pieces, "special": []})
    with pytest.raises(ValueError, match="WordTokenizer: special must be a list of strings"):
        tokenizer_from_dict({"kind": "word", "pieces": ["a"], "special": pieces})


def test_an_unknown_kind_is_refused():
    with pytest.raises(ValueError, match="kind 'sentencepiece' is not one of char, word, bpe"):
        tokenizer_from_dict({"kind": "sentencepiece"})


def test_bpe_without_the_library_says_what_to_install(monkeypatch):
    real = builtins.__import__

    def without(name, *args, **kwargs):
        if name == "tokenizers":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ImportError, match=re.escape(install("train"))):
        BPETokenizer.train([TEXT], 100)
    assert CharTokenizer.train([TEXT]).vocab_size > 1  # the others do without


def test_importing_the_module_does_not_load_the_library():
    program = "import sys, models.data.tokenizers; sys.exit('tokenizers' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False, cwd=ROOT).returncode == 0
