"""What a kernel is: a plain Python loop, its Numba build, and its source for the symbolic reading.

Two forms exist. `@elementwise` takes a formula between scalars and makes a NumPy ufunc of it (Numba's
`vectorize`): broadcasting, strides, 0-d and empty arrays come from NumPy. `@kernel` takes a loop over
whole arrays: `name(*inputs, *settings, *outputs, *saved, *scratch)`; it allocates nothing.
`KERNELS` is the table of all of them; the tests walk it.
"""

import atexit
import hashlib
import os
import shutil
import sys
import tempfile
import threading
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path

import numba
import numpy as np
from numba import config
from numba.core import types
from numba.np.numpy_support import from_dtype

from tinytensor.kernels.build import Builder

# Never fastmath=True: it lets LLVM assume that there are no NaNs, and isnan(nan) becomes False.
# "reassoc" lets a sum along a row be vectorised. It stays off where the bits of one row of the
# result must not depend on how rows are blocked (matmul, linear).
FAST = frozenset({"contract", "reassoc", "nsz"})
EXACT_ORDER = frozenset({"contract", "nsz"})

KERNELS: dict[str, "Kernel"] = {}
_builder = Builder()

SMALL = 1024  # where no array has more elements, waking a second thread costs more than it saves


def _cache_dir() -> Path:
    """A folder named after the text of all kernels: Numba's own cache does not see a change in a helper."""
    digest = hashlib.sha256()
    for source in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(source.read_bytes())
    root = os.environ.get("NUMBA_CACHE_DIR") or os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(root) / "tinytensor" / digest.hexdigest()[:16]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except OSError:  # a read-only home: compile anew for this process
        folder = Path(tempfile.mkdtemp(prefix="tinytensor-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        return folder


CACHE_DIR = _cache_dir()
_cold = not any(CACHE_DIR.iterdir())  # nothing was ever compiled from these sources on this machine
_compiling = threading.RLock()


@contextmanager
def _numba_cache_here():
    """Numba reads its cache folder when a function is decorated; the user's own setting is put back."""
    before, config.CACHE_DIR = config.CACHE_DIR, str(CACHE_DIR)
    try:
        yield
    finally:
        config.CACHE_DIR = before


def _in_a_file(function: Callable) -> bool:
    """Can Numba keep the build? It needs a file to compare with: not so for what was typed at a prompt."""
    return Path(function.__code__.co_filename).is_file()


def _announce():
    """One line when the first run compiles, so that nobody wonders what takes so long."""
    global _cold
    if _cold:
        _cold = False
        print("tinytensor: compiling kernels for this machine (once; cached for later runs) ...", file=sys.stderr)


class Kernel:
    """A named kernel: call it with arrays; `py_func` is its Python source."""

    def __init__(self, py_func: Callable):
        self.py_func = py_func
        self.name = py_func.__name__
        self.__doc__ = py_func.__doc__
        if py_func.__module__.startswith("tinytensor."):  # a user's kernels are his own affair
            if self.name in KERNELS:
                raise ValueError(f"kernel {self.name}: the name is taken by {KERNELS[self.name].py_func.__module__}")
            KERNELS[self.name] = self

    def __repr__(self):
        return f"<kernel {self.name}>"


class Elementwise(Kernel):
    """y[...] = f(a[...], b[...], ...): `kernel(*inputs, *settings, y)`.

    One ufunc for each combination of dtypes: a single one that had a float64 loop would run float32 through it.
    """

    def __init__(self, py_func: Callable):
        super().__init__(py_func)
        self.ufuncs: dict[tuple, np.ufunc] = {}

    def __call__(self, *args):
        with np.errstate(all="ignore"):  # inf and NaN are results like others
            self.bind(args)(*args)

    def bind(self, args: tuple) -> Callable:
        """What runs for arguments of these dtypes, without asking again."""
        key = tuple([a.dtype for a in args])
        ufunc = self.ufuncs.get(key)
        if ufunc is None:
            ufunc = self.ufuncs[key] = self._build(key)
        return ufunc

    def _interpreted(self, *args):
        """Without Numba: on NumPy's scalars, since Python's own floats raise at a division by zero."""
        y = args[-1]
        for at, values in zip(np.ndindex(y.shape), np.broadcast(*args), strict=True):
            y[at] = self.py_func(*values[:-1])

    def _build(self, dtypes: tuple) -> Callable:
        if config.DISABLE_JIT:
            return self._interpreted
        *inputs, output = (from_dtype(d) for d in dtypes)
        with _compiling, _numba_cache_here():
            _announce()
            return numba.vectorize([output(*inputs)], cache=_in_a_file(self.py_func), fastmath=set(EXACT_ORDER))(
                self.py_func
            )


class Loop(Kernel):
    """A loop over whole arrays. Arrays are C-contiguous but for those named in `strided`."""

    def __init__(self, py_func: Callable, parallel: bool, fastmath: frozenset, strided: tuple[str, ...]):
        super().__init__(py_func)
        self.parallel = parallel
        names = py_func.__code__.co_varnames[: py_func.__code__.co_argcount]
        unknown = set(strided) - set(names)
        if unknown:
            raise ValueError(f"kernel {self.name}: strided names {unknown}, which are not parameters")
        self.strided = tuple(name in strided for name in names)
        with _numba_cache_here():
            self.dispatcher = numba.njit(
                cache=_in_a_file(py_func), error_model="numpy", nogil=True, parallel=parallel, fastmath=set(fastmath)
            )(py_func)
        self.built = config.DISABLE_JIT  # is there a build to try before one is made?

    def __call__(self, *args):
        if not self.built:
            self._compile(args)
        try:
            return self.bind(args)(*args)
        except TypeError:
            if config.DISABLE_JIT or not self._compile(args):
                raise
        return self.bind(args)(*args)

    def bind(self, args: tuple) -> Callable:
        """What runs for arguments of these sizes."""
        if config.DISABLE_JIT:
            return self._interpreted
        if not self.parallel:
            return self.dispatcher
        if max([a.size for a in args if a.__class__ is np.ndarray]) < SMALL:
            return self._on_one_thread
        return self._one_at_a_time if _threads_exclude_each_other() else self.dispatcher

    def _interpreted(self, *args):
        with np.errstate(all="ignore"):  # compiled code does not warn either
            self.py_func(*args)

    def _on_one_thread(self, *args):
        threads = numba.get_num_threads()
        numba.set_num_threads(1)
        try:
            self._one_at_a_time(*args) if _threads_exclude_each_other() else self.dispatcher(*args)
        finally:
            numba.set_num_threads(threads)

    def _one_at_a_time(self, *args):
        with _compiling:
            self.dispatcher(*args)

    def _compile(self, args) -> bool:
        """Build for the dtypes of `args`; False if that build exists, so that the error was another."""
        signature = tuple(
            types.Array(from_dtype(a.dtype), a.ndim, "A" if strided else "C")
            if isinstance(a, np.ndarray)
            else numba.typeof(a)
            for a, strided in zip(args, self.strided, strict=True)
        )
        with _compiling:
            if signature in self.dispatcher.overloads:
                return False
            _announce()
            self._build_elsewhere(signature)
            self.dispatcher.disable_compile(False)
            try:
                self.dispatcher.compile(signature)
            finally:  # Numba must not make builds of its own, one for each combination of strides
                self.dispatcher.disable_compile(bool(self.dispatcher.overloads))
            self.built = True
        return True

    def _build_elsewhere(self, signature: tuple) -> None:
        """Put the build into the cache if it is not there, by a process that will not run it (see build.py)."""
        if KERNELS.get(self.name) is not self or _builder.gave_up:
            return  # a user's kernel may stand where no other process can find it
        if self._cached(signature) is None and _builder.build(self.name, signature):
            _builder.gave_up = self._cached(signature) is None  # the two have no folder in common

    def _cached(self, signature: tuple):
        return self.dispatcher._cache.load_overload(signature, self.dispatcher.targetctx)


def _threads_exclude_each_other() -> bool:
    """Numba's workqueue aborts the process when two Python threads enter it at once; OpenMP and TBB do not."""
    try:
        return numba.threading_layer() == "workqueue"
    except ValueError:  # no parallel kernel has run yet: the layer is not chosen
        return True


def elementwise(py_func: Callable) -> Elementwise:
    """Declare a formula between scalars as a kernel."""
    return Elementwise(py_func)


def kernel(parallel: bool = False, fastmath: frozenset = FAST, strided: tuple[str, ...] = ()) -> Callable:
    """Declare a loop over whole arrays as a kernel.

    `parallel` makes `prange` run on threads; `strided` names the arrays that may have any strides
    (transposed, sliced, or broadcast with stride 0).
    """
    return lambda py_func: Loop(py_func, parallel, fastmath, strided)


def helper(py_func: Callable) -> Callable:
    """A small function that kernels of the same file call; compiled into them."""
    return numba.njit(error_model="numpy", fastmath=set(EXACT_ORDER), inline="never")(py_func)
