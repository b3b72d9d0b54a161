"""tinytensor.version: the version of the PyTorch whose behaviour tinytensor follows, and what compares as it."""

import re
from collections.abc import Callable, Sequence
from operator import eq, ge, gt, le, lt, ne

PYTORCH = "2.13.0"
cuda = hip = None  # the versions of what PyTorch was built with


def _release(version: str | Sequence) -> tuple[int, ...]:
    """The numbers of a release: (2, 13) for "2.13.0+cpu" and for (2, 13, 0)."""
    text = version if isinstance(version, str) else ".".join(map(str, version))
    numbers = [int(n) for n in re.match(r"[\d.]*", text)[0].split(".") if n]
    while numbers and not numbers[-1]:  # 2.13.0 is 2.13
        numbers.pop()
    return tuple(numbers)


def _comparison(compare: Callable) -> Callable:
    def method(self, other):
        if not isinstance(other, str | Sequence):
            return NotImplemented
        if not isinstance(other, Version) and other == self.ours and compare in (eq, ne):
            return compare is eq
        return compare(_release(PYTORCH), _release(PYTORCH if isinstance(other, Version) else other))

    return method


class Version(str):
    """tinytensor's version as text, which compares, splits and parses as the PyTorch whose behaviour is followed.

    A program that imports tinytensor under PyTorch's name asks `torch.__version__ >= "1.1"`, or `(1, 1)`, or parses the
    version, to learn what the library does. `print`, `str` and f-strings give tinytensor's own version, which `==`
    accepts too.
    """

    ours: str

    def __new__(cls, ours: str):
        self = super().__new__(cls, PYTORCH)
        self.ours = ours
        return self

    def __reduce__(self):
        return Version, (self.ours,)

    def __str__(self) -> str:
        return self.ours

    def __repr__(self) -> str:
        return repr(self.ours)

    def __format__(self, spec: str) -> str:
        return format(self.ours, spec)

    __hash__ = str.__hash__
    __eq__, __ne__ = _comparison(eq), _comparison(ne)
    __lt__, __le__, __gt__, __ge__ = _comparison(lt), _comparison(le), _comparison(gt), _comparison(ge)
