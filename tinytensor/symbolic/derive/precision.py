"""float64 for the numbers that a function makes, since its arguments are float64 while it is read and compared.

A function that multiplies its float32 argument by `ones(n, n)` would otherwise meet two dtypes. The default dtype is
that of the whole process: another thread that makes tensors meanwhile gets float64, too.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from tinytensor.core.dtypes import float64, get_default_dtype, set_default_dtype
from tinytensor.native.platform.locks import ThreadLock

_lock, _active, _before = ThreadLock(), [0], [float64]


@contextmanager
def double_precision() -> Iterator[None]:
    """Inside, the default dtype is float64; after the last one of several threads it is what it was."""
    with _lock.lock:
        _active[0] += 1
        if _active[0] == 1:
            _before[0] = get_default_dtype()
            set_default_dtype(float64)
    try:
        yield
    finally:
        with _lock.lock:
            _active[0] -= 1
            if not _active[0]:
                set_default_dtype(_before[0])
