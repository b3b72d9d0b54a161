"""BatchedData: the shape of one example, in the place of an array, inside vmap."""

from types import SimpleNamespace
from typing import NoReturn

from tinytensor.core import late_bound
from tinytensor.core.meta import Meta

ADVICE = "use where() instead of if, or a loop over the examples instead of vmap"


class BatchedData(Meta):
    """The shape of one example, for a tensor that stands for each of a batch (autograd/func/batches.py)."""

    flags = SimpleNamespace(c_contiguous=True)  # a copy would change nothing that the function can see

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        raise late_bound.NeedsValues(f"inside vmap an operation needs the values ({name}) of each example; {ADVICE}")

    def __array__(self, *args, **kwargs) -> NoReturn:
        raise late_bound.NeedsValues(f"inside vmap a tensor has no array of its own; {ADVICE}")
