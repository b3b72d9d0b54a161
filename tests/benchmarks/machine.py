"""The machine: what it is, what other programs take of it, and how much memory this process has."""

import contextlib
import os
import platform
import time
from collections.abc import Callable
from pathlib import Path

STAT = Path("/proc/stat")


def name() -> str:
    """The processor's name, the number of processors, and the widest vectors."""
    with contextlib.suppress(OSError):
        facts = dict(
            (part.strip() for part in line.split(":", 1))
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if ":" in line
        )
        family = f" (family {facts['cpu family']}, model {facts['model']})" if "cpu family" in facts else ""
        flags = facts.get("flags", "").split()
        widest = next((w for w in ("avx512f", "avx2") if w in flags), "")
        return ", ".join(
            part
            for part in (
                f"{facts.get('model name', platform.machine())}{family}",
                f"{os.cpu_count()} processors",
                widest,
            )
            if part
        )
    return f"{platform.processor() or platform.machine()}, {os.cpu_count()} processors"


def used() -> float | None:
    """Seconds that all processors have been in use since the machine started, or were taken by its host."""
    if not STAT.exists():
        return None
    user, nice, system, _, _, irq, softirq, steal = map(int, STAT.read_text().split("\n", 1)[0].split()[1:9])
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


class Others:
    """How many processors other programs have used since this was made; None where the system does not tell."""

    def __init__(self):
        self.begin = self._now()

    @staticmethod
    def _now() -> tuple[float, float | None, float]:
        own = os.times()
        return time.monotonic(), used(), own.user + own.system + own.children_user + own.children_system

    def processors(self) -> float | None:
        (begin, all_before, own_before), (end, all_now, own_now) = self.begin, self._now()
        if all_before is None or all_now is None:
            return None
        return max(0.0, (all_now - all_before) - (own_now - own_before)) / max(end - begin, 1e-3)


def wait_until_calm(most: float, patience: float) -> float | None:
    """Return when others use less than `most` processors, or when patience ends: how many they use then."""
    end = time.monotonic() + patience
    while True:
        others = Others()
        time.sleep(0.2)
        result = others.processors()
        if result is None or result < most or time.monotonic() >= end:
            return result


def resident() -> int:
    """Bytes of this process that are in memory."""
    return _status("VmRSS")


def peak_memory(run: Callable[[], object]) -> int:
    """The most bytes that this process had in memory while `run` ran; on systems that do not tell: ever."""
    reset = Path("/proc/self/clear_refs")
    if not reset.exists():
        import resource  # Windows has none

        run()
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if platform.system() == "Darwin" else 1024)
    reset.write_text("5")  # the high-water mark goes down to what is there now
    run()
    return _status("VmHWM")


def _status(key: str) -> int:
    status = Path("/proc/self/status")
    if not status.exists():
        raise NotImplementedError("memory is read from /proc/self/status, which this system does not have")
    line = next(line for line in status.read_text().splitlines() if line.startswith(f"{key}:"))
    return int(line.split()[1]) * 1024
