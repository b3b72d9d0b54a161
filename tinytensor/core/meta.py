"""Meta: what stands in the place of a tensor's array where only its shape is asked for."""

import numpy as np


class Meta:
    """A shape without data, in the place of an array; its sizes may be SymPy symbols.

    Modules are built of these to have their parameters counted. Nothing can be computed with them.
    """

    def __init__(self, shape: tuple, dtype: np.dtype):
        self.shape, self.dtype, self.ndim = tuple(shape), dtype, len(shape)

    @property
    def size(self):
        """The product of the sizes; `math.prod` would do, but for symbols that do not start from an int."""
        size = 1
        for n in self.shape:
            size = size * n
        return size
