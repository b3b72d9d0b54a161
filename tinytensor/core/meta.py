"""A shape and a dtype in the place of a tensor's array: Meta for tensors without values, BatchedData inside vmap."""

from types import SimpleNamespace
from typing import NoReturn

import numpy as np

from tinytensor.core import late_bound

ADVICE = "use where() instead of if, or a loop over the examples instead of vmap"


class Meta:
    """A shape without data, in the place of an array; its sizes may be SymPy symbols.

    Modules are built of these to count their parameters. Nothing can be computed with them.
    """

    def __init__(self, shape: tuple, dtype: np.dtype):
        self.shape, self.dtype, self.ndim = tuple(shape), dtype, len(shape)

    @property
    def size(self):
        """The product of the sizes (`math.prod` fails on symbols that cannot be multiplied by its int 1)."""
        size = 1
        for n in self.shape:
            size = size * n
        return size


class BatchedData(Meta):
    """The shape of one example, for a tensor that stands for each of a batch (autograd/func/batches.py)."""

    flags = SimpleNamespace(c_contiguous=True)  # a copy would change nothing that the function can see

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        raise late_bound.NeedsValues(f"inside vmap an operation needs the values ({name}) of each example; {ADVICE}")

    def __array__(self, *args, **kwargs) -> NoReturn:
        raise late_bound.NeedsValues(f"inside vmap a tensor has no array of its own; {ADVICE}")
