"""Long series of cases: a part of them in the test command, all of them where THOROUGH is set, as in .ci/run."""

import os
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TypeVar

THOROUGH = bool(os.environ.get("THOROUGH"))
Case = TypeVar("Case")


def some(cases: Iterable[Case], one_in: int) -> Iterator[Case]:
    """The first of every `one_in` cases; all of them where THOROUGH is set."""
    return islice(cases, 0, None, 1 if THOROUGH else one_in)
