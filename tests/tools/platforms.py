"""What some tests need of the system, beside what tinytensor needs."""

import signal

import pytest

POSIX = hasattr(signal, "setitimer")  # not on Windows: timers, terminals of programs, signals to other processes
posix = pytest.mark.skipif(not POSIX, reason="Windows has no such signals and terminals")
