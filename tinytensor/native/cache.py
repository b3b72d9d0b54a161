"""Where compiled kernels are kept between runs, and the line that says that compiling takes a while.

Numba keeps a build beside a note of the source file that it came from. It does not see that a helper in another file
has changed, and would then load the old machine code. So each build is kept in a folder that is named after the text of
every file that the kernel's own file reaches by its imports from `tinytensor.kernels`, `tinytensor.native` and
`tinytensor.cpython`.

What is kept saves time and is needed for nothing else. So a file that is damaged, a disk that is full, or a folder that
may not be written to costs one line and the time to compile; a damaged file is replaced.
"""

import atexit
import hashlib
import os
import pickle
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

from numba.core import config
from numba.core.caching import FunctionCache, IndexDataCacheFile, NullCache
from numba.core.runtime import rtsys
from numba.core.serialize import dumps

from tinytensor.native.simd import SIMD

ROOMS = [Path(__file__).parents[1] / room for room in ("cpython", "kernels", "native")]  # where a kernel's imports lie
# A statement ends with its line, which a backslash continues, or else with its parenthesis; a comment in there may hold
# another one.
_IMPORT = re.compile(
    r"\bfrom[\s\\]+tinytensor\.(?:cpython|kernels|native)\b\.?([\w.]*)[\s\\]+import[\s\\]*(\((?:#.*|[^)#])*\)|(?:\\\r?\n|.)*)"
)


def imported(text: str) -> set[str]:
    """The names that a file imports from these rooms and their modules, and those of the modules.

    Some may be too many (words of a comment), which costs a compilation too many; none may be missing. To parse the
    files for it would take longer than all the rest that importing this package does.
    """
    return {name for statement in _IMPORT.findall(text) for part in statement for name in re.findall(r"\w+", part)}


@cache
def _reached(file: Path) -> frozenset[Path]:
    """The files of these rooms that a file imports, those that these import, and so on; and the file itself."""
    files = {room / f"{name}.py" for name in imported(_read(file).decode()) for room in ROOMS} - {file}
    return frozenset({file}).union(*(_reached(f) for f in files if f.is_file()))


@cache
def _read(file: Path) -> bytes:
    """The text of a source file; most are reached from many others."""
    return file.read_bytes()


@cache
def _root() -> Path:
    """The folder that holds the folders of all builds; for this process alone where nothing can be kept."""
    try:
        root = os.environ.get("NUMBA_CACHE_DIR") or os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        folder = Path(root) / "tinytensor"
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except (OSError, RuntimeError) as error:  # a read-only home, or none
        progress.not_kept(error)
    try:
        folder = Path(tempfile.mkdtemp(prefix="tinytensor-"))
    except OSError:
        return Path(os.devnull) / "tinytensor"  # where nothing is found, and nothing can be written
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


@cache
def folder(file: str) -> Path:
    """The folder for what is compiled from `file`; Numba itself tells apart builds for different processors there."""
    digest = hashlib.sha256(SIMD.encode())
    for source in sorted(_reached(Path(file)) | {Path(__file__)}):
        digest.update(_read(source))
    return _root() / digest.hexdigest()[:16]


def can_keep(function: Callable) -> bool:
    """Does the function stand in a file? Numba keeps no build of what was typed at a prompt."""
    return Path(function.__code__.co_filename).is_file()


def is_kept(function: Callable, name: str) -> bool:
    """Is there a build with this name, made from the file in which the function stands?

    Numba writes what it knows of a build first (nbi), then the build (nbc): a disk may have had room for the one only.
    """
    if not can_keep(function):
        return False
    place = folder(function.__code__.co_filename)
    return all(any(place.rglob(f"*.{name}-*.{kind}")) for kind in ("nbi", "nbc"))


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


# ------------------------------------------------------------------------------------------- what lies in the folder


class _Files(IndexDataCacheFile):
    """The files of one function's builds, each behind its own SHA-256: damaged machine code would crash."""

    def _write(self, path: str, content) -> None:
        data = dumps(content)
        with self._open_for_write(path) as file:
            file.write(hashlib.sha256(data).digest() + data)

    def _read(self, path: str):
        content = Path(path).read_bytes()
        digest, data = content[:32], content[32:]
        if hashlib.sha256(data).digest() != digest:
            raise ValueError(f"{path} is damaged")
        return pickle.loads(data)

    def _load_index(self) -> dict:
        if not os.path.exists(self._index_path):
            return {}
        version, stamp, builds = self._read(self._index_path)
        return builds if (version, stamp) == (self._version, self._source_stamp) else {}

    def _save_index(self, builds: dict) -> None:
        self._write(self._index_path, (self._version, self._source_stamp, builds))

    def _load_data(self, name: str):
        return self._read(self._data_path(name))

    def _save_data(self, name: str, data) -> None:
        self._write(self._data_path(name), data)


class _Builds(FunctionCache):
    """Numba's cache of one function, in which whatever goes wrong is said, and then it is as if nothing were kept."""

    def __init__(self, function: Callable, name: str):
        super().__init__(function)
        locator, file = self._impl.locator, Path(function.__code__.co_filename)
        base = self._impl.get_filename_base(f"{file.stem}.{name}", getattr(sys, "abiflags", ""))
        self._cache_file = _Files(locator.get_cache_path(), base, locator.get_source_stamp())

    def load_overload(self, sig, target_context):
        # Numba would first load all that it compiles with (and SciPy, if it is installed), twice what loading a build
        # takes. Machine code needs of all that only what lets it allocate; should there be no build, Numba sees to the
        # rest when it begins to compile.
        try:
            rtsys.initialize(target_context)
            return self._load_overload(sig, target_context)
        except Exception as error:  # what unpickling raises is anything
            progress.not_kept(error)
            with suppress(OSError):
                os.unlink(self._cache_file._index_path)  # so that the build to come is not looked for here
            return None

    def save_overload(self, sig, data) -> None:
        try:
            super().save_overload(sig, data)
        except Exception as error:
            progress.not_kept(error)


def builds_of(function: Callable, name: str) -> NullCache | FunctionCache:
    """Where Numba finds and leaves the builds of a function (within `kept`), in files of this name.

    The name tells one build from another: two processes that compile at the same time, and each for other types, would
    write into one another's files.
    """
    if not can_keep(function):
        return NullCache()
    try:
        return _Builds(function, name)
    except (OSError, RuntimeError) as error:  # Numba has found no folder that it may write to
        progress.not_kept(error)
        return NullCache()


# ------------------------------------------------------------------------------------------------- what is said


class _Progress:
    """Says that kernels are being compiled, so that nobody wonders what takes so long."""

    def __init__(self):
        self.count = 0
        self.complained = False

    def compiling(self, name: str) -> None:
        """One more kernel is about to be compiled, for it was not in the cache."""
        self.count += 1
        if self.count == 1:
            how = "for this process" if self.complained else "for this machine (once; cached for later runs)"
            text = f"tinytensor: compiling kernels {how} ..."
            print(text, file=sys.stderr, flush=True)
        if sys.stderr.isatty():
            print(f"\rtinytensor: {self.count} kernels compiled, now {name:40}", end="", file=sys.stderr, flush=True)

    def not_kept(self, error: Exception) -> None:
        """Builds can't be read or written; this is said once."""
        if not self.complained:
            self.complained = True
            text = " ".join(str(error).split())
            print(f"tinytensor: kernels are compiled anew, for the cache fails: {text}", file=sys.stderr, flush=True)


progress = _Progress()
