"""Text: clear answers for files that cannot be used, an honest split, batches that resume where they stopped."""

import json
import re

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from models.data.text import (
    IGNORE_INDEX,
    Batches,
    TextError,
    check_context,
    default_corpus,
    evaluation_batches,
    prepare,
    prose,
    read_text,
    split,
    without_copies,
)
from models.data.tokenizers import BPETokenizer, CharTokenizer

# --- Files


def file(tmp_path, data: bytes):
    path = tmp_path / "toth.txt"
    path.write_bytes(data)
    return path


def test_utf8_file_is_read_unchanged(tmp_path):
    notes = []
    assert read_text(file(tmp_path, "naïve\n\tends here".encode()), notes.append) == "naïve\n\tends here"
    assert notes == []


@pytest.mark.parametrize("data", [b"one\r\ntwo\r\n\r\n", b"one\rtwo\r\r", b"one\r\ntwo\n\r"])
def test_other_line_ends_become_newlines_with_one_note(tmp_path, data):
    notes = []
    assert read_text(file(tmp_path, data), notes.append) == "one\ntwo\n\n"
    assert len(notes) == 1 and "CRLF or CR" in notes[0]


def test_a_byte_order_mark_is_dropped(tmp_path):
    assert read_text(file(tmp_path, b"\xef\xbb\xbftext")) == "text"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "toth.txt is empty: there is nothing to learn from"),
        (b"\xef\xbb\xbf", "toth.txt is empty: there"),
        (b" \n\t\r\n", "toth.txt holds white space only"),
        (b"x", "toth.txt holds one character, 'x': there is nothing after it to predict"),
        (b"\xef\xbb\xbfx", "holds one character, 'x'"),
        (
            b"caf\xe9 au lait",
            "is not UTF-8: the byte 0xe9 at offset 3 .* iconv -f ISO-8859-1 -t UTF-8 .*toth.txt > utf8",
        ),
        (b"\xef\xbb\xbfcaf\xe9", "the byte 0xe9 at offset 6"),
        ("text".encode("utf-16"), "it seems to be UTF-16. .* iconv -f UTF-16 -t"),
        (b"cut short \xe2\x82", "the byte 0xe2 at offset 10"),
    ],
)
def test_unusable_files_are_refused(tmp_path, data, message):
    with pytest.raises(TextError, match=message):
        read_text(file(tmp_path, data), lambda note: None)


def test_missing_file_and_folder(tmp_path):
    with pytest.raises(TextError, match=r"nowhere\.txt: there is no such file"):
        read_text(tmp_path / "nowhere.txt")
    with pytest.raises(TextError, match="is a folder: name one text file"):
        read_text(tmp_path)
    with pytest.raises(TextError, match="cannot be read: Not a directory"):
        read_text(file(tmp_path, b"text") / "below")


# --- Corpus and split


def paragraphs(texts):
    return {" ".join(p.split()) for text in texts for p in re.split(r"\n\s*\n|\n(?=[A-Z(])", text) if len(p) >= 200}


def test_the_default_corpus_is_large_and_without_copies():
    documents = default_corpus()
    assert len(documents) > 40 and sum(map(len, documents)) > 200_000
    assert documents == default_corpus()
    train, heldout = split(documents)
    assert len(paragraphs(heldout)) > 40
    assert len(paragraphs(train) & paragraphs(heldout)) <= 0.02 * len(paragraphs(heldout))


def test_corpus_with_copies_leaks():
    """Negative control of the test above, and the reason for leaving copies out."""
    from pydoc_data.topics import topics

    train, heldout = split([topics[name] for name in sorted(topics)])
    assert len(paragraphs(train) & paragraphs(heldout)) > 0.1 * len(paragraphs(heldout))


SPHINX = """
Assignment statements
*********************

Assignment statements are used to (re)bind names to values:

   assignment_stmt ::= (target_list "=")+ (starred_expression
              | yield_expression)
   target_list     ::= target ("," target)* [","]

In **other** versions *grammar* has no “::=”:

   target_list: target ("," target)* [","]
   target:      identifier
                | "[" [target_list] "]"

* If the target is a "list", it is said
  so.  [1]
* Else: nothing — the object’s "__set__()" is called.

object.__set__(self, instance)

   Called to set the attribute.

+-----------+-----------------------+
| Operation | What it means.        |
|===========|=======================|
| "x == y"  | They are equal.       |
+-----------+-----------------------+

>>> print("One might take this for a sentence.")
One might take this for a sentence.

class
   The definition of a term stands below it, as here.

   class Cls:
       x = 3             # Class variables are those of a class.

[1] A footnote is prose, too: "*args" and "**kwargs" keep theirs.
"""


def test_prose_drops_grammar_tables_and_programs():
    assert prose(SPHINX).splitlines() == [
        "Assignment statements are used to (re)bind names to values:",
        'In other versions grammar has no "::=":',
        "If the target is a list, it is said so.",
        "Else: nothing - the object's __set__() is called.",
        "Called to set the attribute.",
        "The definition of a term stands below it, as here.",
        "A footnote is prose, too: *args and **kwargs keep theirs.",
    ]
    assert prose("") == prose("stmt ::= A | B\n") == ""


def no_prose(text):
    """What sentences do not have: productions, frames, prompts, lines of signs, runs of blanks, headings."""
    return re.findall(r"::=|\+--|>>> |\*{3}|={3}|-{3}|~{3}|  |\n\n|^[^A-Z(]|[^.:)]$", text, re.MULTILINE)


def test_default_corpus_is_prose():
    from pydoc_data.topics import topics

    documents = default_corpus()
    assert [(d[:40], no_prose(d[:-1])) for d in documents if no_prose(d[:-1])] == []
    assert all(d.endswith("\n") for d in documents)
    assert len({c for d in documents for c in d}) < 120  # as V = 300 has room for them, and for merges
    assert sum(len(no_prose(topic)) for topic in topics.values()) > 1000


def test_without_copies_drops_repeated_texts():
    a, b, c = ("\n\n".join(f"{name} says that this is its paragraph number {i}." for i in range(6)) for name in "abc")
    second = a[: len(a) // 2].replace(" ", "\n  ")  # a section of a, indented
    half_new = b.partition("number 2")[0] + c
    assert without_copies([second, a, half_new, b + b, "short"]) == [a, half_new, b + b, "short"]
    assert without_copies([a, b, a]) == [a, b]
    assert without_copies([]) == []


@settings(max_examples=300, deadline=None)
@given(st.lists(st.text(alphabet="ab. \n", max_size=80), max_size=4), st.sampled_from([0.05, 0.1, 0.5]))
def test_split_loses_nothing_and_holds_out_the_end(documents, fraction):
    train, heldout = split(documents, fraction)
    assert [a + b for a, b in zip(train, heldout, strict=True)] == documents
    for document, end in zip(documents, heldout, strict=True):
        assert round(len(document) * fraction - 0.5) <= len(end) <= 2 * len(document) * fraction + 1


def test_split_cuts_at_lines_then_sentences_then_spaces():
    lines = "".join(f"line {i:02d} of it.\n" for i in range(40))
    sentences, words, letters = lines.replace("\n", " "), lines.replace(".\n", " "), "x" * 100
    (a, b, c, d), (e, f, g, h) = split([lines, sentences, words, letters])
    assert a.endswith(".\n") and e.startswith("line 36")
    assert b.endswith(". ") and f.startswith("line 36")
    assert c.endswith(" ") and 0.1 * len(words) <= len(g) < 0.1 * len(words) + 6
    assert (len(d), len(h)) == (90, 10)


@pytest.mark.parametrize("fraction", [0, 1, -0.1, 2])
def test_split_refuses_an_impossible_fraction(fraction):
    with pytest.raises(ValueError, match="fraction must lie between 0 and 1"):
        split(["text"], fraction)


def test_tokenizer_is_trained_on_the_training_part():
    documents = ["aaaa bbbb " * 20 + "zq" * 11]
    corpus = prepare(documents, CharTokenizer)
    assert "z" not in corpus.tokenizer.tokens and "a" in corpus.tokenizer.tokens
    assert corpus.tokenizer.unknown_count(corpus.heldout) == 22
    assert corpus.tokenizer.unknown_count(corpus.train) == 0
    assert corpus.train_characters + corpus.heldout_characters == len(documents[0])
    assert corpus.train.dtype == corpus.heldout.dtype == np.int64


@pytest.mark.slow
def test_default_corpus_at_300_tokens():
    corpus = prepare(default_corpus(), BPETokenizer, 300)
    assert corpus.tokenizer.vocab_size == 300
    assert 0.09 < corpus.heldout_characters / (corpus.train_characters + corpus.heldout_characters) < 0.12
    _, heldout = split(default_corpus())
    assert corpus.tokenizer.decode(corpus.heldout) == "".join(heldout)
    assert 1.4 < corpus.train_characters / len(corpus.train) < 2.5
    second = prepare(default_corpus(), corpus.tokenizer)
    np.testing.assert_array_equal(second.train, corpus.train)


def test_too_long_context_is_refused():
    check_context(range(97), range(97), 96)
    with pytest.raises(
        TextError, match=r"1000 training and 60 held-out tokens, .* 96 needs 97 of each: .* at most 59,"
    ):
        check_context(range(1000), range(60), 96)
    check_context(range(1000), range(60), 59)
    with pytest.raises(TextError, match="at most 9,"):
        check_context(range(10), range(60), 10)
    for heldout in (range(1), range(0)):
        with pytest.raises(TextError, match="of each: use a longer text"):
            check_context(range(12), heldout, 1)


# --- Batches


def batches(n=103, context=8, batch_size=3, seed=0):
    return Batches(np.arange(n) + 1000, context, batch_size, np.random.default_rng(seed))


def test_batch_has_windows_and_their_next_tokens():
    x, y = batches().next()
    assert x.shape == y.shape == (3, 8) and x.dtype == y.dtype == np.int64
    assert x.flags.c_contiguous and y.flags.c_contiguous
    np.testing.assert_array_equal(x - x[:, :1], np.broadcast_to(np.arange(8), (3, 8)))  # the row counts upwards
    np.testing.assert_array_equal(y, x + 1)


@pytest.mark.parametrize(("n", "context"), [(9, 8), (10, 8), (17, 8), (24, 8), (25, 8), (103, 8), (2, 1), (30, 29)])
def test_an_epoch_covers_the_row_once(n, context):
    b = batches(n, context, batch_size=1)
    for _ in range(5):
        epoch, starts = b.epoch, []
        while b.epoch == epoch and b.position < len(b._starts):
            starts.append(b.next()[0][0, 0] - 1000)
        starts = np.sort(starts)
        assert (np.diff(starts) == context).all()  # no target twice, none between left out
        assert starts[0] < context and 0 <= starts[-1] <= n - 1 - context < starts[-1] + context
        b._begin_epoch()


def test_epochs_cover_every_target_in_a_new_order():
    b, seen, orders = batches(60, 8, batch_size=4), set(), set()
    for _ in range(200):
        x, y = b.next()
        seen.update(y.ravel() - 1000)
        orders.add(tuple(x[:, 0]))
    assert seen == set(range(1, 60))
    assert len(orders) > 100


def test_large_batch_is_filled_from_the_next_epoch():
    b = batches(n=20, context=8, batch_size=7)
    assert b.next()[0].shape == (7, 8)
    assert b.epoch >= 2


def test_seed_decides_the_batches():
    a, b, c = batches(seed=1), batches(seed=1), batches(seed=2)
    rows = [np.concatenate([s.next()[0] for _ in range(10)]) for s in (a, b, c)]
    np.testing.assert_array_equal(rows[0], rows[1])
    assert (rows[0] != rows[2]).any()


@pytest.mark.parametrize("steps", [0, 1, 3, 4, 5, 17])  # an epoch has 12 windows: four batches
@pytest.mark.parametrize("batch_size", [3, 5])
def test_batches_resume_from_json(steps, batch_size):
    a = batches(batch_size=batch_size)
    for _ in range(steps):
        a.next()
    state = json.loads(json.dumps(a.state_dict()))
    b = batches(batch_size=batch_size, seed=99)
    b.next()
    b.load_state_dict(state)
    assert b.state_dict() == a.state_dict()
    for _ in range(20):
        for left, right in zip(a.next(), b.next(), strict=True):
            np.testing.assert_array_equal(left, right)


def test_saved_state_does_not_change():
    a = batches()
    a.next()
    state = a.state_dict()
    before = json.dumps(state)
    for _ in range(30):
        a.next()
    assert json.dumps(state) == before != json.dumps(a.state_dict())


def test_state_of_another_text_or_context_is_refused():
    state = batches().state_dict()
    with pytest.raises(ValueError, match="saved with tokens = 103, but here it is 104"):
        batches(n=104).load_state_dict(state)
    with pytest.raises(ValueError, match="saved with context = 8, but here it is 9"):
        batches(context=9).load_state_dict(state)


def test_batches_errors():
    with pytest.raises(TextError, match="8 tokens do not fill one window of context \\+ 1 = 9"):
        batches(n=8)
    with pytest.raises(ValueError, match="batch_size \\(0\\) must be at least 1"):
        batches(batch_size=0)
    with pytest.raises(TypeError, match=r"must be numpy.random.default_rng\(seed\)"):
        Batches(range(20), 8, 1, np.random.Generator(np.random.MT19937(0)))


# --- Evaluation


@settings(max_examples=300, deadline=None)
@given(st.integers(2, 90), st.integers(1, 12), st.integers(1, 5), st.integers(1, 12))
def test_evaluation_counts_every_target_once(n, context, batch_size, stride):
    assume(n >= context + 1 and stride <= context)
    targets, histories = [], {}
    for x, y in evaluation_batches(np.arange(n) + 1000, context, batch_size, stride):
        assert x.shape == y.shape == (batch_size, context) and x.dtype == y.dtype == np.int64
        counted = y != IGNORE_INDEX
        np.testing.assert_array_equal(y[counted], x[counted] + 1)
        targets.extend(y[counted] - 1000)
        histories.update({y[r, c] - 1000: c + 1 for r, c in np.argwhere(counted)})
    assert sorted(targets) == list(range(1, n))
    # after the first window, what went before the counted stride stays visible
    assert all(histories[t] > context - stride for t in range(context + 1, n))


def test_evaluation_without_a_stride_does_not_overlap():
    [(x, y)] = evaluation_batches(np.arange(20), 5, 10)
    assert (y != IGNORE_INDEX).sum(-1).tolist() == [5, 5, 5, 4, 0, 0, 0, 0, 0, 0]
    assert x[3].tolist() == [14, 15, 16, 17, 18] and y[3].tolist() == [IGNORE_INDEX, 16, 17, 18, 19]


def test_evaluation_errors():
    with pytest.raises(TextError, match="5 tokens do not fill one window of context \\+ 1 = 6"):
        next(evaluation_batches(range(5), 5, 1))
    for stride in (0, 6):
        with pytest.raises(ValueError, match=f"stride must be from 1 to context = 5, not {stride}"):
            next(evaluation_batches(range(9), 5, 1, stride))
