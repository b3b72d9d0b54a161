"""Files that cannot be written: a sentence that names them, in place of the system's words."""

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
