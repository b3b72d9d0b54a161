"""The cache of compiled kernels between runs, and the message that kernels are being compiled.

Numba keeps a build beside a note of the source file that it came from. It does not see that a helper in another file
has changed, and would then load the old machine code. So each build is kept in a folder that is named after the text of
every file that the kernel's own file reaches by its imports from `kernels`, `runtime`, `simd` and `platform`, rooms of
`tinytensor.native`.

The cache only saves time. So a damaged file, a full disk, or a folder without write permission costs one line and the
time to compile; a damaged file is replaced.
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

from tinytensor.native.platform.tested_versions import cache_folder
from tinytensor.native.simd.isa import SIMD

LONGEST = 80  # letters of the name of a build in the names of its files
ROOMS = [
    Path(__file__).parents[1] / room for room in ("kernels", "platform", "runtime", "simd")
]  # of a kernel's imports
_CORE = {
    Path(__file__).parents[2] / "core" / f"{name}.py" for name in ("kernel", "poison")
}  # task_range is compiled, and the width of a cache line
_COMPILED = Path(__file__).parents[1] / "simd" / "compiled_math.py"  # compiled instead of the functions of math.py
# A statement ends with its line, which a backslash continues, or with its parenthesis; a comment inside may hold
# another parenthesis.
_IMPORT = re.compile(
    r"\bfrom[\s\\]+tinytensor\.native\.(?:kernels|platform|runtime|simd)\b\.?([\w.]*)[\s\\]+import[\s\\]*(\((?:#.*|[^)#])*\)|(?:\\\r?\n|.)*)"
)


def imported(text: str) -> set[str]:
    """The names that a file imports from these rooms and their modules, and those of the modules.

    An extra name (a word of a comment) costs an extra compilation; a missing name is not allowed. To parse the files
    would take longer than the rest of this package's import.
    """
    return {name for statement in _IMPORT.findall(text) for part in statement for name in re.findall(r"\w+", part)}


@cache
def _reached(file: Path) -> frozenset[Path]:
    """The files of these rooms that a file imports, those that these import, and so on; and the file itself."""
    files = {room / f"{name}.py" for name in imported(_read(file).decode()) for room in ROOMS} - {file}
    return frozenset({file}).union(*(_reached(f) for f in files if f.is_file()))


@cache
def _read(file: Path) -> bytes:
    """The text of a source file; it is cached, since most are reached from many others."""
    return file.read_bytes()


@cache
def root() -> Path:
    """The folder that holds the folders of all builds; a temporary one if none can be written to."""
    try:
        folder = cache_folder()
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except (OSError, RuntimeError) as error:  # a read-only home, or none
        progress.not_kept(error)
    try:
        folder = Path(tempfile.mkdtemp(prefix="tinytensor-"))
    except OSError:
        return Path(os.devnull) / "tinytensor"  # a path that can be neither read nor written
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


@cache
def folder(file: str) -> Path:
    """The folder for builds from `file`; in it Numba itself tells builds for different processors apart."""
    digest = hashlib.sha256(SIMD.encode())
    sources = _reached(Path(file)) | {Path(__file__), *_CORE}
    for source in sorted(sources | {_COMPILED} if _COMPILED.with_name("math.py") in sources else sources):
        digest.update(_read(source))
    return root() / digest.hexdigest()[:16]


def can_keep(function: Callable) -> bool:
    """Is the function in a file? Numba keeps no build of a function that was typed at a prompt."""
    return Path(function.__code__.co_filename).is_file()


def short(name: str) -> str:
    """The name of a build as a part of the names of its files; a long one ends in a digest.

    Windows allows paths of 260 letters. The folders and the rest of the file's name take some 150 of them.
    """
    if len(name) <= LONGEST:
        return name
    return f"{name[: LONGEST - 17]}_{hashlib.sha256(name.encode()).hexdigest()[:16]}"


def is_kept(function: Callable, name: str) -> bool:
    """Is there a build with this name, made from the file in which the function stands?

    Numba first writes the index of a build (nbi), then the build (nbc): a full disk may hold the index only.
    """
    if not can_keep(function):
        return False
    builds = folder(function.__code__.co_filename)
    return all(any(builds.rglob(f"*.{short(name)}-*.{suffix}")) for suffix in ("nbi", "nbc"))


@contextmanager
def kept(function: Callable) -> Iterator[None]:
    """Let Numba use our folder for this function while it is decorated, then restore the user's setting."""
    before = config.CACHE_DIR
    if can_keep(function):
        config.CACHE_DIR = str(folder(function.__code__.co_filename))
    try:
        yield
    finally:
        config.CACHE_DIR = before


# ------------------------------------------------------------------------------------------- files in the folder


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
    """Numba's cache of one function; after any error in it, which is reported, the function is compiled again."""

    def __init__(self, function: Callable, name: str):
        super().__init__(function)
        locator, file = self._impl.locator, Path(function.__code__.co_filename)
        base = self._impl.get_filename_base(f"{file.stem}.{short(name)}", getattr(sys, "abiflags", ""))
        self._cache_file = _Files(locator.get_cache_path(), base, locator.get_source_stamp())

    def load_overload(self, sig, target_context):
        # Numba would first load its whole compiler (and SciPy, if it is installed), which takes twice as long as to
        # load a build. Machine code needs only the runtime for allocations; if there is no build, Numba loads the rest
        # when it begins to compile.
        try:
            rtsys.initialize(target_context)
            return self._load_overload(sig, target_context)
        except Exception as error:  # unpickling may raise any error
            progress.not_kept(error)
            with suppress(OSError):
                os.unlink(self._cache_file._index_path)  # so that the new build is not looked up in it
            return None

    def save_overload(self, sig, data) -> None:
        try:
            super().save_overload(sig, data)
        except Exception as error:
            progress.not_kept(error)


def builds_of(function: Callable, name: str) -> NullCache | FunctionCache:
    """The cache in which Numba finds and leaves the builds of a function (within `kept`), in files of this name.

    The name distinguishes builds: two processes that compile at the same time for different types would otherwise write
    into each other's files.
    """
    if not can_keep(function):
        return NullCache()
    try:
        return _Builds(function, name)
    except (OSError, RuntimeError) as error:  # Numba has found no folder that it may write to
        progress.not_kept(error)
        return NullCache()


# ------------------------------------------------------------------------------------------------- messages


class _Progress:
    """Reports that kernels are being compiled, since this takes a while."""

    def __init__(self):
        self.count = 0
        self.complained = False

    def compiling(self, name: str) -> None:
        """Report that this kernel, which is not in the cache, is about to be compiled."""
        self.count += 1
        if self.count == 1:
            kept = "not kept" if self.complained else f"kept in {root()}"
            text = f"tinytensor: compiling the kernels that this program needs (about 0.3 s each, {kept}) ..."
            print(text, file=sys.stderr, flush=True)
        if sys.stderr.isatty():
            print(f"\rtinytensor: {self.count} kernels compiled, now {name:40}", end="", file=sys.stderr, flush=True)

    def not_kept(self, error: Exception) -> None:
        """Report, once, that builds cannot be read or written."""
        if not self.complained:
            self.complained = True
            text = " ".join(str(error).split())
            print(
                f"tinytensor: kernels are compiled again, because the cache fails: {text}", file=sys.stderr, flush=True
            )


progress = _Progress()
