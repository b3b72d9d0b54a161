"""No derivation of these tests is ended by a limit in seconds: a slow machine decides what a fast one decides."""

from collections.abc import Iterator

import pytest

from tinytensor.symbolic import time_limit


@pytest.fixture(scope="module", autouse=True)
def endless_time() -> Iterator[None]:
    """The clock of the limits stands still; a test of limits sets one of its own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time_limit.TimeLimit, "clock", lambda self: 0)
        yield
