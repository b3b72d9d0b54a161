import gc
import time

import pytest

from tests.tools.platforms import posix
from tests.tools.timeout import limited

pytestmark = posix


class TooLong(BaseException):
    pass


def busy(seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass


def test_error_is_raised_when_the_seconds_are_over():
    with pytest.raises(TooLong), limited(0.02, TooLong):
        busy(20)


def test_what_ends_in_time_is_left_alone():
    with limited(0.05, TooLong):
        busy(0.001)
    busy(0.1)


def test_error_that_a_finalizer_drops_is_raised_after_it():
    class Slow:
        def __del__(self):
            busy(0.2)

    def finalize_and_wait():
        slow = Slow()
        del slow
        busy(20)

    with pytest.raises(TooLong), limited(0.05, TooLong):
        finalize_and_wait()


@pytest.mark.slow
def test_error_that_a_callback_of_the_garbage_collector_drops_is_raised_after_it():
    def slow(phase, info):
        busy(0.2)

    def collect_and_wait():
        gc.collect()
        busy(20)

    gc.callbacks.append(slow)
    try:
        with pytest.raises(TooLong), limited(0.05, TooLong):
            collect_and_wait()
    finally:
        gc.callbacks.remove(slow)
