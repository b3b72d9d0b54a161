"""Meta: a shape and a dtype in the place of a tensor's array, for tensors without values."""

import numpy as np


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
