"""What becomes of things that should do no harm: taken, refused with a sentence, or a finding.

A finding is what must not happen: a crash, a hang, a traceback where a sentence is due, a value that was changed by a
call that was refused, a value that is not PyTorch's.
"""

import ast
import os
import re
import traceback
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import cache
from itertools import islice
from pathlib import Path

from tests.tools import timeout as limits

ROOT = Path(__file__).parents[2]


@dataclass
class Tally:
    """Counts of what became of the cases of one part, and the findings by name."""

    counts: Counter = field(default_factory=Counter)
    findings: list[str] = field(default_factory=list)

    def enter(self, outcome: str) -> None:
        self.counts[outcome] += 1

    def find(self, what: str) -> None:
        self.counts["findings"] += 1
        self.findings.append(what)

    def add(self, other: dict) -> None:
        """Add what another process counted and found."""
        self.counts.update(other["counts"])
        self.findings += other["findings"]

    def report(self) -> str:
        tried = sum(self.counts.values())
        message = ", ".join(f"{count:,} {outcome}" for outcome, count in sorted(self.counts.items()))
        return "\n".join([f"{tried:,} cases: {message or 'none'}", *(f"FOUND: {what}" for what in self.findings)])


class TooLong(BaseException):
    """The time of a case is up."""


def limited(seconds: float) -> AbstractContextManager[None]:
    """Raise TooLong in what takes longer."""
    return limits.limited(seconds, TooLong)


@cache
def _raises(path: str) -> frozenset[int]:
    """The lines of a file on which a raise statement stands."""
    tree = ast.parse(Path(path).read_bytes())
    spans = [range(node.lineno, node.end_lineno + 1) for node in ast.walk(tree) if isinstance(node, ast.Raise)]
    return frozenset(line for span in spans for line in span)


def is_sentence(error: BaseException) -> bool:
    """Was it raised on purpose: by a raise statement of this project? What NumPy or Python says in passing was not.

    Python's own "f() missing 1 required positional argument" will do, where f has a name that a user knows.
    """
    message = str(error)
    if isinstance(error, TypeError) and "() " in message and "<" not in message.split("() ")[0]:
        name, output = message.split("() ", 1)
        if not re.search(r"(^|\.)_[^_]", name) and output.startswith(("missing ", "got ", "takes ")):
            return True
    last = traceback.extract_tb(error.__traceback__)[-1]
    inside = Path(last.filename).is_relative_to(ROOT / "tinytensor") or Path(last.filename).is_relative_to(
        ROOT / "models"
    )
    return bool(message.strip()) and inside and last.lineno in _raises(last.filename)


class Diary:
    """A file that names the case at hand: if the process dies, it says which case killed it.

    `share` (k, n) says which cases of a part are this process's: each nth one from the kth on, counted from 0.
    """

    def __init__(self, path: str | None, share: tuple[int, int] = (0, 1)):
        self.file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC) if path else None
        self.share = share
        self.number = 0

    def mine(self, cases: Iterable) -> Iterator:
        first, step = self.share
        return islice(cases, first, None, step)

    def enter(self, case: str) -> None:
        self.number += 1
        if self.file is not None:
            message = f"case {self.number:,}, {case}"
            os.pwrite(self.file, message.encode("utf-8", "replace")[:1000].ljust(1000), 0)
