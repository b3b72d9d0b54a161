"""Files that are no UTF-8 text: unpacked where they can be, and else refused by what they seem to be."""

import bz2
import gzip
import io
import json
import lzma
import os
import shlex
import shutil
import subprocess
import tarfile
import threading
import zipfile
from contextlib import suppress

import numpy as np
import pytest

from models.data import pairs, sources, text
from models.data.decoding import encoding_of, format_of
from models.data.text import TextError, read_text
from models.data.tokenizers import KINDS, UNKNOWN
from models.tasks.recommend import RecommendTask
from tests.tools.platforms import posix

LATIN = "The cat sat on the mat,\nand the dög lay by the door.\n" * 40
GREEK, CHINESE = "μῆνιν ἄειδε θεὰ Πηληϊάδεω Ἀχιλῆος\n" * 40, "天地玄黃，宇宙洪荒。日月盈昃，辰宿列張。\n" * 40
EMOJI = "a 🚪 opens\n" * 40


def archive(category: str) -> bytes:
    held = io.BytesIO()
    if category == "zip":
        with zipfile.ZipFile(held, "w") as file:
            file.writestr("word/document.xml", LATIN)
    elif category == "tar":
        with tarfile.open(fileobj=held, mode="w") as file:
            file.addfile(tarfile.TarInfo("a.txt"))
    elif category == "npy":
        np.save(held, np.zeros(3))
    return held.getvalue()


PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\1"
FILES = {
    "is no text but a PNG picture": PNG,
    "is no text but a JPEG picture": b"\xff\xd8\xff\xe0\0\x10JFIF\0",
    "is no text but a PDF document": b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n1 0 obj",
    "is no text but a ZIP archive, as .docx": archive("zip"),
    "is no text but an archive of bzip2": bz2.compress(LATIN.encode()),
    "is no text but an archive of xz": lzma.compress(LATIN.encode()),
    "is no text but a tar archive": archive("tar"),
    "is no text but an array of NumPy": archive("npy"),
    "is no text but a PNG picture: ": gzip.compress(PNG),
    "is no text but a tar archive: ": gzip.compress(archive("tar")),
    "holds the byte 0 at offset 3: no text has it": b"The\0cat",
    "holds 2 bytes 0, the first at offset 4": b"The \0cat sat\0 on the mat",
    "begins as a file of gzip does, but cannot be unpacked": gzip.compress(LATIN.encode())[:-9],
    "begins as a file of gzip does, but cannot be unpacked: ": b"\x1f\x8b and more",
    "is not UTF-8: the byte 0xe9 at offset 3 does not fit. Save the file as UTF-8, for example: iconv -f ISO-8859-1": (
        b"caf\xe9"
    ),
    "is not UTF-8: it seems to be UTF-16. Save": LATIN.encode("utf-16"),
    "is not UTF-8: it seems to be UTF-32. Save": LATIN.encode("utf-32"),
}


@pytest.mark.parametrize("message", FILES)
def test_file_is_refused_by_what_it_seems_to_be(message, tmp_path):
    path = tmp_path / "a text.txt"
    path.write_bytes(FILES[message])
    with pytest.raises(TextError) as error:
        read_text(path, print)
    assert str(error.value).startswith(f"{path} {message}")
    assert error.value.__class__ is TextError  # in a folder, too, it is refused, not skipped


@pytest.mark.parametrize("written", [LATIN, GREEK, EMOJI, "ab"], ids=["latin", "greek", "emoji", "short"])
@pytest.mark.parametrize("encoding", ["UTF-16", "UTF-16LE", "UTF-16BE", "UTF-32", "UTF-32LE", "UTF-32BE"])
@pytest.mark.parametrize("packed", [False, True])
def test_command_that_is_proposed_converts_the_file(packed, encoding, written, tmp_path):
    path = tmp_path / "it's a text.txt"
    data = written.encode(encoding)
    path.write_bytes(gzip.compress(data) if packed else data)
    with pytest.raises(TextError) as error:
        read_text(path, print)
    command = str(error.value).partition("for example: ")[2].removesuffix(" > utf8.txt")
    assert f"-f {encoding} -t UTF-8" in command and shlex.quote(str(path)) in command
    if written is EMOJI and shutil.which("iconv"):  # once is enough: a process takes long
        assert subprocess.run(command, shell=True, capture_output=True).stdout.decode().removeprefix("\ufeff") == EMOJI


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1", "cp1252", "koi8-r", "gbk", "shift_jis"])
@pytest.mark.parametrize("written", [LATIN, GREEK, CHINESE, EMOJI])
def test_other_encodings_are_not_taken_for_utf_16(encoding, written):
    with suppress(UnicodeEncodeError):
        data = written.encode(encoding)
        assert encoding_of(data) is None and format_of(data) is None
        assert encoding_of(data[:50] + b"\0" + data[51:]) is None


def test_zeros_in_a_text_are_no_utf_16():
    assert encoding_of(b"The cat sat\0 on the mat.") is None and encoding_of(b"") is None
    assert encoding_of(bytes(range(256)) * 4) is None and encoding_of(bytes(100)) is None


def test_text_that_begins_as_another_file_is_a_text(tmp_path):
    for beginning in ("BZh", "GIF8", "%PDF-", "PAR1", "Rar!"):
        (tmp_path / "x.txt").write_text(f"{beginning} is how such files begin")
        assert read_text(tmp_path / "x.txt").startswith(beginning)


def test_file_of_gzip_is_read(tmp_path):
    packed = gzip.compress("\ufeffone\r\n".encode()) + gzip.compress(
        b"two\n"
    )  # files one after the other, as `cat` makes
    notes = []
    for name in ("x.txt.gz", "x.gz", "x"):
        (tmp_path / name).write_bytes(packed)
        assert read_text(tmp_path / name, notes.append) == "one\ntwo\n"
    assert notes[0].endswith("line ends CRLF or CR were read as LF")


def test_every_reader_takes_files_of_gzip(tmp_path):
    def packed(name, content):
        (tmp_path / name).write_bytes(gzip.compress(content.encode()))
        return tmp_path / name

    lines = packed("x.jsonl.gz", '{"text": "one"}\n{"text": "two"}\n')
    assert sources.documents(lines, None, print) == ["one\ntwo\n"]
    assert sources.documents(packed("a.txt.gz", "first"), None, print) == ["first"]
    assert sources.documents(tmp_path, None, print) == ["first"]
    results = [("a", "b"), ("c", "d")]
    for name, content in (
        ("p.csv.gz", "source,target\na,b\nc,d\n"),
        ("p.TSV.gz", "a\tb\nc\td\n"),
        ("p.jsonl.gz", '{"source": "a", "target": "b"}\n{"source": "c", "target": "d"}\n'),
    ):
        assert [(p.source, p.target) for p in pairs.read_pairs(packed(name, content))] == results
    table = packed("t.csv.gz", "user,item,time\n" + "".join(f"u,i{n},{n}\n" for n in range(5)))
    task = RecommendTask.begin(RecommendTask.CONFIGS["recommend"], {"sequences": table}, "recommend")
    assert len(task.rows) == 1


def test_empty_file_of_a_folder_is_skipped(tmp_path):
    notes = []
    for name, content in (("a.txt", ""), ("b.txt", "second"), ("c.txt", " \n"), ("d.txt", "x"), ("e.md", "fifth")):
        (tmp_path / name).write_text(content)
    assert sources.documents(tmp_path, None, notes.append) == ["second", "fifth"]
    assert [note.removeprefix(str(tmp_path)) for note in notes] == [
        "/a.txt is empty: there is nothing to learn from; skipped",
        "/c.txt holds white space only: there is nothing to learn from; skipped",
        "/d.txt holds one character, 'x': there is nothing after it to predict; skipped",
    ]
    for name in ("b.txt", "e.md"):
        (tmp_path / name).unlink()
    with pytest.raises(TextError, match="no file in this folder holds a text"):
        sources.documents(tmp_path, None, notes.append)


# --- Half a UTF-16 pair in JSON

HALVES = r'{"text": "a \ud800 b \uDFFF c \ud83d\ude00 \\ud800"}'
READ = f"a {UNKNOWN} b {UNKNOWN} c 😀 \\ud800\n"


@pytest.mark.parametrize("category", KINDS)
def test_half_a_pair_in_lines_of_json_is_the_unknown(category, tmp_path):
    (tmp_path / "x.jsonl").write_text(HALVES + "\n" + json.dumps({"text": LATIN}) + "\n")
    documents = sources.documents(tmp_path / "x.jsonl", None, print)
    assert documents == [READ + LATIN + "\n"]
    corpus = text.prepare(documents, KINDS[category], 40)
    assert UNKNOWN in corpus.tokenizer.decode(corpus.train[:20])
    assert json.loads(json.dumps(corpus.tokenizer.to_dict()).encode()) == corpus.tokenizer.to_dict()


def test_half_a_pair_in_pairs(tmp_path):
    (tmp_path / "x.jsonl").write_text('{"source": "\\ud800 a", "target": "b"}\n{"source": "c", "target": "\\uDC00"}\n')
    result = pairs.read_pairs(tmp_path / "x.jsonl")
    assert [(p.source, p.target) for p in result] == [(f"{UNKNOWN} a", "b"), ("c", UNKNOWN)]


# --- Pipes


@posix
def test_pipe_is_read(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for data, field, entry in ((LATIN.encode(), None, LATIN), (b'{"x": "one"}\n', "x", "one\n")):
        for content in (data, gzip.compress(data)):
            writer = threading.Thread(target=(tmp_path / "pipe").write_bytes, args=(content,))
            writer.start()
            assert sources.documents(tmp_path / "pipe", field, print) == [entry]
            writer.join()
