"""Pairs of sentences: files as they come, a split by sentence, and batches that hold every pair once."""

import json
import re
import unicodedata

import numpy as np
import pytest

from models.data import pairs
from models.data.pairs import Pair, PairBatches, evaluation_batches, read_pairs, split_pairs, width_for
from models.data.text import SHOWN, TextError
from models.data.tokenizers import BPETokenizer, WordTokenizer
from models.transformer import BEGIN, PAD, SPECIAL, STOP

# --- Files


@pytest.fixture
def read(tmp_path):
    """read(content, ...): the pairs as tuples, and the notes."""

    def make(content, *arguments, **how):
        path, notes = tmp_path / "pairs.tsv", []
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        result = read_pairs(path, *arguments, note=notes.append, **how)
        return [(p.source, p.target) for p in result], notes, result

    return make


TWO = [("je suis", "i am"), ("tu es", "you are")]


@pytest.mark.parametrize(
    "content",
    [
        "je suis\ti am\ntu es\tyou are\n",
        "je suis\ti am\ntu es\tyou are",  # the last line without its end
        "je suis\ti am\tCC-BY 2.0\ntu es\tyou are\tCC-BY 2.0\t7\n",  # columns that are not looked at
        "\ufeffje suis\ti am\ntu es\tyou are\n",
        "  je   suis \t i am\ntu es\tyou\u00a0are \n",  # one space between words
    ],
)
def test_two_columns(read, content):
    actual, notes, _ = read(content)
    assert actual == TWO
    assert notes == []


def test_columns_are_chosen_by_number(read):
    content = "i am\tje suis\tx\nyou are\ttu es\ty\n"
    assert read(content, (2, 1))[0] == TWO
    assert read(content, (3, 1))[0] == [("x", "i am"), ("y", "you are")]
    actual, notes, _ = read("1\tje suis\t2\ti am\n3\ttu es\t4\tyou are\n", (1, 2))  # as told, whatever it looks like
    assert actual == [("1", "je suis"), ("3", "tu es")] and notes == []


def test_tatoeba_export_with_numbers(read):
    content = "77\tje suis\t12\ti am\n78\ttu es\t13\tyou are\n"
    actual, notes, _ = read(content)
    assert actual == TWO
    assert len(notes) == 1 and "columns 2 and 4" in notes[0]
    actual, notes, _ = read(content + "79\til est\n80\telle est\t14\tshe is\n")
    assert actual == [*TWO, ("elle est", "she is")]  # a bad line does not make sentences of the numbers
    assert "line 3: 2 columns" in notes[1]
    some = "5\tcinq\t6\tsix\nje suis\ti am\ntu es\tyou are\n"
    assert read(some)[0] == [("5", "cinq"), *TWO]  # numbers may be sentences


BAD = "je suis\ti am\n\nno tab here\n\ti am\nje suis\t \ntu es\tyou are\n"


def test_unusable_lines_are_named_by_number(read):
    actual, notes, whole = read(BAD)
    assert actual == TWO
    assert [note.rpartition("pairs.tsv, ")[2] for note in notes] == [
        "line 2: it is empty; skipped",
        "line 3: 1 columns (separated by tabs), but column 2 is needed; skipped",
        "line 4: a sentence is empty; skipped",
        "line 5: a sentence is empty; skipped",
    ]
    assert [pair.line for pair in whole] == [1, 6]


def test_long_lists_of_line_numbers_are_complete(read):
    content = "je suis\ti am\n" + "x\n" * 30 + "tu es\tyou are\n"
    _, notes, _ = read(content)
    assert len(notes) == SHOWN + 1
    assert notes[-1].endswith(f"{30 - SHOWN} more lines skipped: " + ", ".join(map(str, range(SHOWN + 2, 32))))


def test_strict_refuses_the_first_bad_line(read):
    with pytest.raises(TextError, match=r"pairs\.tsv, line 2: it is empty \(4 such lines\)"):
        read(BAD, strict=True)
    assert read("je suis\ti am\ntu es\tyou are\n", strict=True)[0] == TWO


def test_missing_column_is_refused(read):
    with pytest.raises(TextError, match="0 usable pairs; at least 2 are needed"):
        read("je suis\ti am\ntu es\tyou are\n", (1, 5))


def test_line_ends_of_other_systems(read):
    for end in ("\r\n", "\r"):
        actual, notes, whole = read(f"je suis\ti am{end}tu es\tyou are{end}")
        assert actual == TWO
        assert [pair.line for pair in whole] == [1, 2]
        assert len(notes) == 1 and "CRLF" in notes[0]


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "is empty"),
        (b"\n\n\n", "holds white space only"),
        ("je suis étudiant\ti am a student\n".encode("latin-1") * 2, "is not UTF-8: the byte 0xe9 at offset 8"),
        ("je suis\ti am\n", "1 usable pairs; at least 2 are needed, one to train on and one held out"),
        ("je suis\ti am\n" * 5, "1 usable pairs"),
    ],
)
def test_unusable_files_are_refused(read, content, sentence):
    with pytest.raises(TextError, match=re.escape(sentence)):
        read(content)


def written(tmp_path, name, content, *arguments):
    """The pairs of a file with this name, and the notes."""
    notes = []
    (tmp_path / name).write_text(content)
    result = read_pairs(tmp_path / name, *arguments, note=notes.append)
    return [(p.source, p.target) for p in result], notes


def test_pairs_in_a_csv_file(tmp_path):
    assert written(tmp_path, "a.csv", "je suis,i am\ntu es,you are\n")[0] == TWO
    assert written(tmp_path, "b.csv", "id,target,source\n1,i am,je suis\n2,you are,tu es\n")[0] == TWO
    assert written(tmp_path, "c.csv", "fr,en\nje suis,i am\ntu es,you are\n", ("fr", "en"))[0] == TWO
    assert written(tmp_path, "c.tsv", "fr\ten\nje suis\ti am\ntu es\tyou are\n", ("fr", "en"))[0] == TWO
    quoted = 'source,target\n"oui, je suis","yes, ""I"" am\n\nhere"\ntu es,you are\n'
    actual, notes = written(tmp_path, "d.csv", quoted)
    assert actual == [("oui, je suis", 'yes, "I" am here'), TWO[1]] and notes == []
    actual, notes = written(tmp_path, "e.csv", "je suis,i am\nalone\ntu es,you are\n")
    assert actual == TWO and "line 2: 1 columns (separated by commas), but column 2 is needed" in notes[0]
    with pytest.raises(TextError, match=r"f\.csv, line \d+: unexpected end of data"):
        written(tmp_path, "f.csv", 'je suis,i am\n"tu es,you are\n')
    with pytest.raises(TextError, match="the first line names the columns fr, en; not there: de"):
        written(tmp_path, "g.csv", "fr,en\nje suis,i am\n", ("fr", "de"))


def test_pairs_in_a_jsonl_file(tmp_path):
    good = '{"target": "i am", "source": "je suis", "id": 7}\n{"source": "tu es", "target": "you are"}\n'
    assert written(tmp_path, "a.jsonl", good) == (TWO, [])
    named = good.replace("source", "fr").replace("target", "en")
    assert written(tmp_path, "b.jsonl", named, ("en", "fr"))[0] == [pair[::-1] for pair in TWO]
    bad = '{"source": "x"\n[1, 2]\n{"source": "x", "target": 5}\n\n'
    actual, notes = written(tmp_path, "c.jsonl", bad + good)
    assert actual == TWO
    reasons = ["it is no JSON", *["an object with texts under source and target is needed"] * 2, "it is empty"]
    assert all(f"line {i}: {reason}" in note for i, (reason, note) in enumerate(zip(reasons, notes, strict=True), 1))
    with pytest.raises(TextError, match=r"--columns 1,2: columns of a \.jsonl file have names"):
        written(tmp_path, "d.jsonl", good, (1, 2))


def test_missing_file_is_refused(tmp_path):
    with pytest.raises(TextError, match="there is no such file"):
        read_pairs(tmp_path / "nowhere.tsv")


def test_repeated_pair_counts_once(read):
    content = "je suis\ti am\ntu es\tyou are\nje  suis\ti am\nje suis\tit is me that i am\n"
    actual, notes, whole = read(content)
    assert actual == [*TWO, ("je suis", "it is me that i am")]  # another translation is another pair
    assert [pair.line for pair in whole] == [1, 2, 4]
    assert len(notes) == 1 and "1 lines repeat a pair" in notes[0]


def test_decomposed_letters_are_composed(read):
    apart = unicodedata.normalize("NFD", "étudiant")
    assert len(apart) == 9
    actual, notes, _ = read(f"{apart}\tstudent\nétudiant\tstudent\nélève\tpupil\n")
    assert actual == [("étudiant", "student"), ("élève", "pupil")]
    assert "1 lines repeat" in notes[0]


# --- Split


def many(n=2000):
    return [Pair(f"source {i // 2}", f"target {i}", line=i + 1) for i in range(n)]  # two translations each


def test_translations_of_a_sentence_stay_on_one_side():
    train, rest = split_pairs(many())
    assert sorted([*train, *rest], key=lambda p: p.line) == many()
    assert not {p.source for p in train} & {p.source for p in rest}
    assert 0.07 < len(rest) / 2000 < 0.13


def test_side_depends_on_the_sentence_alone():
    train, rest = split_pairs(many())
    second, other = split_pairs(many()[::-1][:700])
    assert set(second) <= set(train) and set(other) <= set(rest)


def test_few_pairs_are_split_too():
    for first in range(12):  # whatever their hashes
        few = [Pair(f"s {first}", "a"), Pair(f"s {first + 1}", "b"), Pair(f"s {first}", "c")]
        train, rest = split_pairs(few)
        assert train and rest
        assert not {p.source for p in train} & {p.source for p in rest}
    with pytest.raises(TextError, match="all pairs have one source sentence, 'one'"):
        split_pairs([Pair("one", "a"), Pair("one", "b")])


# --- Tokens

SENTENCES = [
    Pair("je suis étudiant", "i am a student"),
    Pair("étudiant, je le suis !", "a student is what i am !"),
    Pair("suis-je une étudiante ?", "am i a student ?"),
]


@pytest.mark.parametrize("category", [WordTokenizer, BPETokenizer])
def test_one_vocabulary_for_both_languages(category):
    tokenizer = pairs.train_tokenizer(category, SENTENCES, 80 if category is BPETokenizer else None)
    assert tokenizer.special == {name: i for i, name in enumerate(SPECIAL)}
    assert (PAD, BEGIN, STOP) == (0, 1, 2)
    for sentence in (s for pair in SENTENCES for s in (pair.source, pair.target)):
        tokens = pairs.encode(tokenizer, sentence)
        assert pairs.decode(tokenizer, tokens) == sentence
        assert min(tokens) > tokenizer.unknown  # no text gives a special token, and nothing here is unknown
        assert pairs.encode(tokenizer, f"  {sentence.replace(' ', '   ')} ") == tokens
        assert pairs.decode(tokenizer, [BEGIN, *tokens, STOP, PAD]) == sentence
        assert len(pairs.labels(tokenizer, tokens)) == len(tokens)
    assert pairs.labels(tokenizer, [STOP, tokenizer.unknown]) == ["<stop>", "\ufffd"]


def test_word_has_one_token_at_any_place():
    tokenizer = pairs.train_tokenizer(WordTokenizer, SENTENCES, None)
    assert pairs.encode(tokenizer, "étudiant je suis")[0] == pairs.encode(tokenizer, "je suis étudiant")[2]


def test_byte_pairs_merge_inside_words_only():
    texts = [Pair(*["le chat le chat le chat !"] * 2)] * 20
    tokenizer = pairs.train_tokenizer(BPETokenizer, texts, 60)  # merges run out before that: that is no error here
    assert tokenizer.vocab_size < 60
    assert [tokenizer.tokens[i] for i in pairs.encode(tokenizer, "le chat !")] == [" le", " chat", " !"]


def test_unknown_words_are_found():
    words = pairs.train_tokenizer(WordTokenizer, SENTENCES, None)
    assert pairs.unknown_words(words, "je suis étudiant") == []
    assert pairs.unknown_words(words, "le chat suis étudiant") == ["chat"]
    assert pairs.unknown_words(words, "je mange une pomme...") == ["mange", "pomme", "..."]
    pieces = pairs.train_tokenizer(BPETokenizer, SENTENCES, 80)
    assert pairs.unknown_words(pieces, "tudiante") == []  # of letters that it knows
    assert pairs.unknown_words(pieces, "je suis 日本 student") == ["日本"]


def test_the_target_ends_with_the_stop_token():
    tokenizer = pairs.train_tokenizer(WordTokenizer, SENTENCES, None)
    x, y = pairs.example(tokenizer, SENTENCES[0])
    assert (len(x), len(y)) == (3, 5)
    assert y[-1] == STOP and STOP not in x + y[:-1]


# --- Batches


def examples(n=157, seed=0):
    """Pairs of tokens; a pair's first token says which it is."""
    generator = np.random.default_rng(seed)
    lengths = generator.integers(1, 30, (n, 2))
    return [([3 + i] * a, [3 + i] * (b - 1) + [STOP]) for i, (a, b) in enumerate(lengths.tolist())]


def rows_of(x, y):
    """The pairs of a batch; all after a sentence's end is PAD, and empty rows come last and are empty on both sides."""
    results = []
    for a, b in zip(x.tolist(), y.tolist(), strict=True):
        n, m = (len(row) - row.count(PAD) for row in (a, b))
        assert a[n:] == [PAD] * (len(a) - n) and b[m:] == [PAD] * (len(b) - m)
        assert (n > 0) == (m > 0)
        results.append((a[:n], b[:m]))
    full = [row for row in results if row[0]]
    assert results[: len(full)] == full
    return full


def test_every_pair_once_in_an_epoch():
    arguments = examples()
    batches = PairBatches(arguments, 32, 16, np.random.default_rng(1))
    orders = []
    for epoch in range(3):
        seen = []
        while len(seen) < len(arguments):
            x, y = batches.next()
            assert batches.epoch == epoch
            assert x.shape == y.shape and x.shape[0] == 16 and x.shape[1] in pairs.WIDTHS
            assert x.dtype == y.dtype == np.int64
            seen += rows_of(x, y)
        assert sorted(seen) == sorted(arguments)
        orders.append(seen)
    assert orders[0] != orders[1] != orders[2]


def test_batches_have_few_widths():
    arguments = examples(1000)
    batches = PairBatches(arguments, 32, 16, np.random.default_rng(1))
    widths, spare, empty, count = set(), 0, 0, 0
    while count < len(arguments):
        x, y = batches.next()
        rows = rows_of(x, y)
        widths.add(x.shape[1])
        spare += sum(width_for(32, len(a), len(b)) < x.shape[1] for a, b in rows)
        empty += 16 - len(rows)
        count += len(rows)
    assert widths == {8, 12, 16, 24, 32}
    assert spare < 16 * len(widths)  # what is left over from a width goes into a wider batch
    assert empty == -len(arguments) % 16


def test_width_for_rounds_up_to_a_width():
    assert [width_for(64, n) for n in (1, 8, 9, 12, 25, 64)] == [8, 8, 12, 12, 32, 64]
    assert width_for(64, 3, 14) == 16
    assert width_for(10, 9) == 10  # no wider than the model takes
    assert width_for(1000, 700) == 700  # beyond the last of WIDTHS


@pytest.mark.parametrize("stop", [0, 3, 11, 40])
def test_batches_resume_where_they_stopped(stop):
    batches = PairBatches(examples(), 32, 16, np.random.default_rng(1))
    for _ in range(stop):
        batches.next()
    state = json.loads(json.dumps(batches.state_dict()))
    expected = [batches.next() for _ in range(25)]  # over the end of an epoch
    second = PairBatches(examples(), 32, 16, np.random.default_rng(77))
    second.load_state_dict(state)
    for (x, y), (a, b) in zip(expected, (second.next() for _ in range(25)), strict=True):
        np.testing.assert_array_equal(x, a)
        np.testing.assert_array_equal(y, b)
    assert second.state_dict() == batches.state_dict()


def test_fewer_pairs_than_a_batch_holds():
    batches = PairBatches(examples(3), 32, 16, np.random.default_rng(1))
    for _ in range(4):
        assert sorted(rows_of(*batches.next())) == sorted(examples(3))


def test_evaluation_looks_at_every_pair_once():
    seen, widths = [], []
    for x, y in evaluation_batches(examples(), 32, 16):
        assert x.shape == y.shape and len(x) == 16
        seen += rows_of(x, y)
        widths.append(x.shape[1])
    assert sorted(seen) == sorted(examples())
    assert widths == sorted(widths) and widths[0] < widths[-1]
