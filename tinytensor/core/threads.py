"""The number of threads that kernels use."""

from tinytensor.core import backend


def set_num_threads(n: int) -> None:
    """Let kernels use up to `n` threads; the bits of results do not depend on it."""
    if not isinstance(n, int) or isinstance(n, bool):
        raise TypeError(f"set_num_threads: expected a whole number, got {n!r}")
    if n < 1:
        raise ValueError(f"set_num_threads({n}): expected 1 or more")
    backend.current.set_num_threads(n)


def threads_wanted() -> int:
    """The number that set_num_threads() asked for; 0 if it was not called, and the backend has several threads."""
    return backend.current.threads_wanted


def get_num_threads() -> int:
    """The number of threads that a kernel may use."""
    return backend.current.get_num_threads()
