"""What differs between operating systems: a lock, memory and caches, a pause, and files that reach the disk.

Python has `fcntl` and `resource` on Linux and macOS alone, and `msvcrt` on Windows alone. Elsewhere in tinytensor no
file imports one of them, or calls a function that a system lacks.
"""

import ctypes
import io
import os
import signal
import sys
from typing import IO

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None
    import msvcrt
try:
    import resource
except ImportError:  # Windows
    resource = None

WINDOWS = os.name == "nt"
HAS_TIMER = hasattr(signal, "setitimer")  # can a signal come after a time? Not on Windows


def lock(file: IO) -> bool:
    """Lock an open file for this process, without waiting; False if another process has locked it.

    The system releases the lock when the file is closed, or when the process ends, however it ends. Open the file with
    mode "a": Windows refuses to shorten a file that another process has locked.
    """
    try:
        if fcntl is None:
            file.seek(0)  # the lock is on the first byte, which need not exist
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):  # PermissionError is what Windows raises
        return False
    return True


class _MemoryStatus(ctypes.Structure):
    """MEMORYSTATUSEX of Windows: its own size, the load in per cent, then seven numbers of bytes."""

    _fields_ = [
        ("length", ctypes.c_uint32),
        ("load", ctypes.c_uint32),
        ("total", ctypes.c_uint64),
        ("others", ctypes.c_uint64 * 6),
    ]


def memory() -> int:
    """The bytes of memory that this process may have: the machine's, or fewer where a limit is set."""
    if hasattr(os, "sysconf"):
        installed = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    else:
        status = _MemoryStatus(length=ctypes.sizeof(_MemoryStatus))
        ctypes.WinDLL("kernel32").GlobalMemoryStatusEx(ctypes.byref(status))
        installed = status.total
    if resource is None:
        return installed
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    return installed if limit == resource.RLIM_INFINITY else min(installed, limit)


def second_cache() -> int:
    """The bytes of a processor's second cache; 512 KiB, as small ones have, where no file of Linux tells it."""
    try:
        with open("/sys/devices/system/cpu/cpu0/cache/index2/size", encoding="ascii") as file:
            return int(file.read().strip().removesuffix("K")) << 10
    except (OSError, ValueError):
        return 1 << 19


def called_by_compiled_code() -> dict[str, int]:
    """The system's functions that compiled code calls, by name, and their addresses.

    `tinytensor_pause`, without arguments, offers this processor to another thread. On Windows a function with more than
    a page of local variables first calls `__chkstk`, which makes room; a few kernels are such functions.
    """
    if hasattr(ctypes, "WinDLL"):
        kernel, below = ctypes.WinDLL("kernel32"), ctypes.WinDLL("ntdll")
        functions = {"tinytensor_pause": kernel.SwitchToThread, "__chkstk": below["__chkstk"]}
    else:
        functions = {"tinytensor_pause": ctypes.CDLL(None).sched_yield}
    return {name: ctypes.cast(function, ctypes.c_void_p).value for name, function in functions.items()}


def sync_directory(path: str | os.PathLike) -> None:
    """Flush a directory to the disk, so that renames in it survive a loss of power; Windows opens no directories."""
    if WINDOWS:
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def utf8_pipes() -> None:
    """Let this program write UTF-8 to pipes and files, and read it from them, as Python does everywhere from 3.15 on.

    Before, an older encoding of the system may be in use (on Windows cp1252), which has no ∂ and no Σ. A terminal keeps
    its encoding, and PYTHONIOENCODING names another one.
    """
    if "PYTHONIOENCODING" in os.environ:
        return
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.encoding.lower() != "utf-8" and not stream.isatty():
            stream.reconfigure(encoding="utf-8", errors=stream.errors)
