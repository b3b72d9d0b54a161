"""tinytensor.utils.benchmark: Timer, PyTorch's form of Python's timeit."""

import timeit
from collections.abc import Callable
from statistics import fmean, median
from typing import Any

from tinytensor.core.threads import get_num_threads, set_num_threads


class Measurement:
    """What a Timer has measured: seconds for a run, of each series of runs."""

    def __init__(self, number_per_run: int, raw_times: list[float], title: str):
        self.number_per_run, self.raw_times, self.title = number_per_run, raw_times, title

    @property
    def times(self) -> list[float]:
        """Seconds for a run, one number for each series."""
        return [seconds / self.number_per_run for seconds in self.raw_times]

    @property
    def mean(self) -> float:
        """The mean of `times`."""
        return fmean(self.times)

    @property
    def median(self) -> float:
        """The median of `times`."""
        return median(self.times)

    def __repr__(self) -> str:
        series = f"{len(self.raw_times)} series of {self.number_per_run} runs"
        return f"{self.title}: {self.median * 1e6:.2f} us (the median of {series})"


class Timer:
    """The time that a statement takes: `Timer("x @ y", globals={"x": x, "y": y}).blocked_autorange().median`.

    Runs before the measurement do not count: a first one compiles kernels. As in PyTorch, there is one thread unless
    `num_threads` says otherwise.
    """

    def __init__(
        self,
        stmt: str | Callable = "pass",
        setup: str | Callable = "pass",
        *,
        timer: Callable[[], float] = timeit.default_timer,
        globals: dict[str, Any] | None = None,
        label: str | None = None,
        sub_label: str | None = None,
        description: str | None = None,
        num_threads: int = 1,
    ):
        self._timeit = timeit.Timer(stmt, setup, timer, {} if globals is None else globals)
        self._title = ", ".join(filter(None, (label or str(stmt), sub_label, description)))
        self._num_threads = num_threads

    def _measured(self, number: int, repeat: int) -> Measurement:
        before = get_num_threads()
        set_num_threads(self._num_threads)
        try:
            self._timeit.timeit(max(number // 100, 2))
            return Measurement(number, self._timeit.repeat(repeat, number), self._title)
        finally:
            set_num_threads(before)

    def timeit(self, number: int = 1_000_000) -> Measurement:
        """One series of `number` runs."""
        return self._measured(number, 1)

    def repeat(self, repeat: int = -1, number: int = -1) -> list[float]:
        """Seconds for each of `repeat` series of `number` runs; 5 series of a million if they are left out."""
        return self._measured(number if number > 0 else 1_000_000, repeat if repeat > 0 else 5).raw_times

    def blocked_autorange(self, callback: Callable | None = None, min_run_time: float = 0.2) -> Measurement:
        """Series of which each takes a hundredth of `min_run_time` or more, for this time altogether."""
        number, seconds = 1, self._measured(1, 1).raw_times[0]
        while seconds < min_run_time / 100:
            number *= 10 if seconds * 10 < min_run_time / 100 else 2
            seconds = self._measured(number, 1).raw_times[0]
        measured = self._measured(number, max(int(min_run_time / seconds), 1))
        for taken in measured.raw_times if callback is not None else ():
            callback(number, taken)
        return measured
