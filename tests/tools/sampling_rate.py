"""Long series of cases: a part of them in the short suite, all of them under `pytest --all`.

The option sets THOROUGH in the environment, for the processes that tests start as well.
"""

import os
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TypeVar

THOROUGH = bool(os.environ.get("THOROUGH"))
Case = TypeVar("Case")


def some(cases: Iterable[Case], one_in: int) -> Iterator[Case]:
    """The first of every `one_in` cases; all of them under --all."""
    return islice(cases, 0, None, 1 if THOROUGH else one_in)
