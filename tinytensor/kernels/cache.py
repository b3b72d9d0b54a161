"""Where compiled kernels are kept between runs, and the line that says that compiling takes a while.

Numba keeps a build beside a note of the source file that it came from. It does not see that a helper in another file
has changed, and would then load the old machine code. So each build is kept in a folder that is named after the text of
every file that the kernel's own file reaches by its imports from `tinytensor.kernels`.
"""

import ast
import atexit
import hashlib
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from numba.core import config

from tinytensor.kernels.simd import SIMD

HERE = Path(__file__).parent
PACKAGE = "tinytensor.kernels"


@cache
def _reached(file: Path) -> frozenset[Path]:
    """The files of this folder that a file imports, those that these import, and so on; and the file itself."""
    names = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(PACKAGE):
            names |= {node.module.removeprefix(PACKAGE).strip("."), *(alias.name for alias in node.names)}
    files = {HERE / f"{name}.py" for name in names if (HERE / f"{name}.py").is_file()} - {file}
    return frozenset({file}).union(*(_reached(f) for f in files))


@cache
def _root() -> Path:
    """The folder that holds the folders of all builds; for this process alone where nothing can be kept."""
    root = os.environ.get("NUMBA_CACHE_DIR") or os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(root) / "tinytensor"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except OSError:  # a read-only home
        folder = Path(tempfile.mkdtemp(prefix="tinytensor-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        return folder


@cache
def folder(file: str) -> Path:
    """The folder for what is compiled from `file`; Numba itself tells apart builds for different processors there."""
    digest = hashlib.sha256(SIMD.encode())
    for source in sorted(_reached(Path(file)) | {Path(__file__)}):
        digest.update(source.read_bytes())
    return _root() / digest.hexdigest()[:16]


def can_keep(function: Callable) -> bool:
    """Does the function stand in a file? Numba keeps no build of what was typed at a prompt."""
    return Path(function.__code__.co_filename).is_file()


def is_kept(function: Callable, name: str) -> bool:
    """Is there a build with this name, made from the file in which the function stands?"""
    return can_keep(function) and any(folder(function.__code__.co_filename).rglob(f"*.{name}-*.nbi"))


@contextmanager
def kept(function: Callable) -> Iterator[None]:
    """Let Numba find its folder for this function while it is decorated; the user's own setting is put back."""
    before = config.CACHE_DIR
    if can_keep(function):
        config.CACHE_DIR = str(folder(function.__code__.co_filename))
    try:
        yield
    finally:
        config.CACHE_DIR = before


class _Progress:
    """Says that kernels are being compiled, so that nobody wonders what takes so long."""

    def __init__(self):
        self.count = 0

    def compiling(self, name: str) -> None:
        """One more kernel is about to be compiled, for it was not in the cache."""
        self.count += 1
        if self.count == 1:
            text = "tinytensor: compiling kernels for this machine (once; cached for later runs) ..."
            print(text, file=sys.stderr, flush=True)
        if sys.stderr.isatty():
            print(f"\rtinytensor: {self.count} kernels compiled, now {name:40}", end="", file=sys.stderr, flush=True)


progress = _Progress()
