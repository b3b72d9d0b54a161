"""Locks between threads that hold in a child process, too.

A child of `os.fork()` has one thread: the one that forked. A lock that another thread held at that moment stays locked
in the child for ever. So the child gets a new lock in the place of each one; the thread that forked may be inside the
old one, and leaves it as it entered. Where a new lock is not enough, because the child would also meet what the other
thread had half done, the fork waits: see `waits_for`.
"""

import os
import threading
import weakref
from typing import Protocol

_LOCKS: "weakref.WeakSet[ThreadLock]" = weakref.WeakSet()


class ThreadLock:
    """A lock between threads: `with thread_lock.lock:`. With `reentrant` its holder may enter it twice."""

    __slots__ = ("__weakref__", "lock", "reentrant")

    def __init__(self, reentrant: bool = False):
        self.reentrant = reentrant
        self.renew()
        _LOCKS.add(self)

    def renew(self) -> None:
        """Make a new lock, which nobody holds."""
        self.lock = threading.RLock() if self.reentrant else threading.Lock()


def renew_all() -> None:
    """Make new locks in a child process."""
    for each in _LOCKS:
        each.renew()


class Reentrant(Protocol):
    """A lock that its holder may acquire again."""

    def acquire(self) -> object: ...
    def release(self) -> None: ...


def waits_for(lock: Reentrant) -> None:
    """Let each fork wait until no other thread holds the lock; parent and child then find it free."""
    if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
        os.register_at_fork(before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=renew_all)
