"""What the tests of kernels share: the same work on one thread and on two."""

from collections.abc import Callable

import pytest
from numba import config

from tinytensor.core.threads import get_num_threads, set_num_threads
from tinytensor.native.runtime import scheduler


@pytest.fixture
def one_and_two_threads(monkeypatch) -> Callable:
    """`one_and_two_threads(work, launches)`: what work() returns on one thread, and on two.

    At least so many launches must really have been dealt to both threads: of arrays too small to be cut into tasks it
    is no wonder that they give the same bits. So no launch stays on one thread because that takes less time.
    """
    if config.DISABLE_JIT or config.NUMBA_NUM_THREADS < 2:
        pytest.skip("needs two threads")
    monkeypatch.setattr(scheduler.ThreadTuner, "run", lambda self, alone, together: together())
    dealt, run_together, before = [], scheduler.run_together, get_num_threads()
    monkeypatch.setattr(scheduler, "run_together", lambda *args: dealt.append(args) or run_together(*args))

    def run(work: Callable, launches: int) -> tuple:
        dealt.clear()
        set_num_threads(1)
        one = work()
        assert dealt == []
        set_num_threads(2)
        two = work()
        assert len(dealt) >= launches, "launches were not cut into tasks: take larger arrays"
        return one, two

    yield run
    set_num_threads(before)
