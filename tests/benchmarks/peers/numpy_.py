"""NumPy, whose matrix products are OpenBLAS's. OPENBLAS_NUM_THREADS sets its threads before the process starts."""

import numpy as np


class NumPy:
    def __init__(self, threads: int):
        self.threads = threads

    def products(self, form: str, a: np.ndarray, b: np.ndarray, n: int):
        """n products in one call: matmul's own loop over a stack, so that Python's part is paid once."""
        left, right = (a.T if form == "Aᵀ·B" else a), (b.T if form == "A·Bᵀ" else b)
        out = np.empty((n, left.shape[0], right.shape[1]), a.dtype)
        left, right = (np.broadcast_to(x, (n, *x.shape)) for x in (left, right))
        return lambda: np.matmul(left, right, out=out)
