"""Sentences about files: why one cannot be written, and what one that cannot be read seems to be."""

import errno
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path

REASONS = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "your part of the disk is full",
    errno.EROFS: "the disk can only be read",
    errno.EACCES: "you may not write there",
    errno.EPERM: "you may not write there",
    errno.EFBIG: "the file would be larger than is allowed",
    errno.EIO: "the disk, or the terminal, fails",
    errno.ENOENT: "there is no such folder",
    errno.EISDIR: "a folder has this name",
}

LFS = b"version https://git-lfs.github.com/spec/"
BEGINNINGS = {  # how files begin, and what they then are
    LFS: "a Git LFS pointer, which stands for the file itself: fetch that with `git lfs pull`",
    b"\x89PNG": "a PNG picture",
    b"\xff\xd8\xff": "a JPEG picture",
    b"GIF8": "a GIF picture",
    b"%PDF-": "a PDF document",
    b"PK\x03\x04": "a ZIP archive, as .docx, .odt and .epub are, too",
    b"\xd0\xcf\x11\xe0": "an Office document (.doc, .xls)",
    b"\x1f\x8b": "a file that gzip has compressed",
    b"BZh": "an archive of bzip2",
    b"\xfd7zXZ": "an archive of xz",
    b"\x28\xb5\x2f\xfd": "an archive of zstd",
    b"7z\xbc\xaf": "an archive of 7-Zip",
    b"Rar!": "a RAR archive",
    b"SQLite format 3": "a database of SQLite",
    b"PAR1": "a Parquet table",
    b"\x93NUMPY": "an array of NumPy",
    b"\x7fELF": "a program",
}
TAR = slice(257, 262)  # where a tar archive says what it is
PAGES = (b"<!doctype html", b"<html")


def format_of(data: bytes) -> str | None:
    """What the bytes of a file seem to be; None if that is not known."""
    formats = [format_name for beginning, format_name in BEGINNINGS.items() if data.startswith(beginning)]
    if data[:1000].lstrip(b"\xef\xbb\xbf \t\r\n").lower().startswith(PAGES):
        formats = ["an HTML page, which servers send in place of a file: download the file again"]
    return formats[0] if formats else "a tar archive" if data[TAR] == b"ustar" else None


def described(data: bytes, otherwise: object) -> str:
    """What the bytes of a file seem to be, in a sentence about a file that cannot be read; else another reason."""
    if not data:
        return "it is empty"
    format_name = format_of(data)
    return f"it seems to be {format_name}" if format_name else str(otherwise)


class NotWritten(OSError):
    """Something cannot be written; the message says what, where, why, and what is there still."""


def reason_of(error: OSError, path: str | PathLike | None = None) -> str:
    """Why `path` cannot be written; for errors about folders, the file that is in a folder's place is named."""
    if path is not None and error.errno in (errno.ENOTDIR, errno.EEXIST):
        for above in (Path(path), *Path(path).parents):
            if above.is_file():
                return f"{above} is a file, where a folder is needed"
    return REASONS.get(error.errno) or error.strerror or str(error) or type(error).__name__


@contextmanager
def writing(what: str, path: str | PathLike, still: Callable[[], str] | None = None) -> Iterator[None]:
    """Turn an OSError of the block into NotWritten: `what` was to be written to `path`; `still()` says what is there.

    A pipe that nothing reads any more (BrokenPipeError) is another matter, and left.
    """
    try:
        yield
    except (NotWritten, BrokenPipeError):
        raise
    except OSError as error:
        end = "" if still is None else f"; {still()}"
        raise NotWritten(f"{what} cannot be written to {path}: {reason_of(error, path)}{end}") from error
