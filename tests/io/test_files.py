"""What cannot be written is named: what it is, where, why, and what is there still."""

import errno
import os

import pytest

from tinytensor.interop.io.files import NotWritten, reason_of, writing
from tinytensor.interop.io.serialization import write_atomically


def test_sentence_names_what_where_why_and_what_is_there(tmp_path):
    with pytest.raises(NotWritten) as error, writing("the log", "runs/log.csv", lambda: "the log of before is there"):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert str(error.value) == "the log cannot be written to runs/log.csv: the disk is full; the log of before is there"
    assert error.value.__cause__.errno == errno.ENOSPC


REASONS = {
    errno.ENOSPC: "the disk is full",
    errno.EROFS: "the disk can only be read",
    errno.EACCES: "you may not write there",
    errno.ENOENT: "there is no such folder",
    errno.EISDIR: "a folder has this name",
    errno.ENAMETOOLONG: os.strerror(errno.ENAMETOOLONG),
}


@pytest.mark.parametrize("number", REASONS)
def test_reasons(number):
    assert reason_of(OSError(number, os.strerror(number))) == REASONS[number]


def test_reason_without_a_number():
    assert reason_of(OSError("the tape is torn")) == "the tape is torn"
    assert reason_of(OSError()) == "OSError"


SAYS = r"x.txt: \S*file is a file, where a folder is needed$"


def test_file_in_the_place_of_a_folder_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file" / "deep" / "x.txt", tmp_path / "file" / "x.txt"):
        with pytest.raises(NotWritten, match=SAYS), writing("the page", path):
            path.parent.mkdir(parents=True, exist_ok=True)
        with pytest.raises(NotWritten, match=SAYS), writing("the page", path):
            write_atomically(path, b"")


def test_other_errors_and_broken_pipes_pass():
    for error_type in (BrokenPipeError, ValueError, KeyboardInterrupt):
        with pytest.raises(error_type), writing("the page", "x"):
            raise error_type


def test_inner_sentence_is_kept():
    inner, outer = writing("the file", "a"), writing("the run", "b")
    with pytest.raises(NotWritten, match=r"^the file cannot be written to a:"), outer, inner:
        raise OSError(errno.EIO, "")
