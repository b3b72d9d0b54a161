"""The bytes of a file as text: UTF-8, compressed by gzip or not. A sentence says what anything else seems to be.

A text has no byte 0, but most other files do. UTF-16 and UTF-32 do, too, for Latin letters.
"""

import codecs
import gzip
import os
import shlex
import stat
import zlib
from pathlib import Path

from models.data.tokenizers import TextError
from tinytensor.interop.io.files import LFS, format_of

GZIP = b"\x1f\x8b"
MARKS = {b"\xff\xfe\0\0": "UTF-32", b"\0\0\xfe\xff": "UTF-32", b"\xff\xfe": "UTF-16", b"\xfe\xff": "UTF-16"}
FIRST_CHINESE = "\u2e80"
LOOKED_AT = 4096  # bytes by which UTF-16 and UTF-32 are recognised


def is_pipe(path: str | os.PathLike) -> bool:
    """Is this a pipe, which can be read once? So are /dev/stdin after | and <(...) of a shell."""
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


def ending(path: str | os.PathLike) -> str:
    """The ending of a file's name, without .gz: ".jsonl" of a.jsonl.gz."""
    return Path(Path(path).name.removesuffix(".gz")).suffix


def contents(path: str | os.PathLike) -> bytes:
    """The bytes of a file or a pipe; TextError if they cannot be read."""
    path = Path(path)
    try:
        if path.is_dir():  # to read it raises another error on Windows than elsewhere
            raise TextError(f"{path} is a folder: name one text file")
        if path.exists() and not path.is_file() and not is_pipe(path):
            raise TextError(f"{path} is a device: name a file or a pipe")
        return path.read_bytes()
    except FileNotFoundError:
        raise TextError(f"{path}: there is no such file") from None
    except OSError as error:
        raise TextError(f"{path} cannot be read: {error.strerror}") from None


def unpacked(path: str | os.PathLike, data: bytes) -> bytes:
    """The contents of a file, which gzip may have compressed; TextError if they are damaged."""
    if not data.startswith(GZIP):
        return data
    try:
        return gzip.decompress(data)
    except (OSError, EOFError, zlib.error) as error:
        raise TextError(f"{path} begins as a file of gzip does, but cannot be unpacked: {error}") from None


def text_of(path: str | os.PathLike) -> str:
    """A file or a pipe as text, without a byte order mark; TextError if it is not UTF-8, or holds a byte 0."""
    packed = contents(path)
    data = unpacked(path, packed)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        text, at = None, error.start
    if text is not None and "\0" not in text:
        if data.startswith(LFS):  # no text of its own
            raise TextError(f"{path} seems to be {format_of(data)}")
        return text.removeprefix("\ufeff")
    if format_name := format_of(data):
        raise TextError(f"{path} is no text but {format_name}: name a file with its text")
    encoding = encoding_of(data)
    if text is not None and encoding is None:
        count, at = data.count(0), data.index(0)
        where = f"{count:,} bytes 0, the first at offset {at}" if count > 1 else f"the byte 0 at offset {at}"
        raise TextError(f"{path} holds {where}: no text has it; take it out, or name a file with text")
    fault = f"it seems to be {encoding}" if encoding else f"the byte 0x{data[at]:02x} at offset {at} does not fit"
    convert = shlex.join(["iconv", "-f", encoding or "ISO-8859-1", "-t", "UTF-8"])
    file = shlex.quote(str(path))
    command = f"{convert} {file}" if data is packed else f"gzip -dc {file} | {convert}"
    raise TextError(f"{path} is not UTF-8: {fault}. Save the file as UTF-8, for example: {command} > utf8.txt")


def encoding_of(data: bytes) -> str | None:
    """UTF-16 or UTF-32, with the order of its bytes if no mark gives it; None for anything else."""
    for mark, encoding in MARKS.items():
        if data.startswith(mark):
            return encoding
    sample = data[:LOOKED_AT]
    big = sample[::2].count(0) > sample[1::2].count(0)  # the greater half of each number comes first
    for encoding, size in ((f"UTF-32{'BE' if big else 'LE'}", 4), (f"UTF-16{'BE' if big else 'LE'}", 2)):
        if 0 in sample and len(data) % size == 0 and _is_text(sample, encoding):
            return encoding
    return None


def _is_text(sample: bytes, encoding: str) -> bool:
    """Does the beginning of a file make sense in an encoding?

    Pairs of Latin letters in UTF-8 are Chinese characters in UTF-16, so most characters have to be of other scripts.
    """
    try:
        text = codecs.getincrementaldecoder(encoding)().decode(sample)  # the last character may be cut
    except UnicodeDecodeError:
        return False
    sensible = all(c.isprintable() or c.isspace() for c in text)
    return sensible and 2 * sum(c < FIRST_CHINESE for c in text) > len(text)
