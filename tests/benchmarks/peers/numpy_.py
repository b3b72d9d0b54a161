"""NumPy, whose matrix products are OpenBLAS's. OPENBLAS_NUM_THREADS sets its threads before the process starts."""

import numpy as np

CACHE = 2**18  # bytes: half of a small second-level cache


class NumPy:
    def __init__(self, threads: int):
        self.threads = threads

    def products(self, form: str, a: np.ndarray, b: np.ndarray, n: int):
        """n products by matmul's own loop over stacks: Python's part is paid seldom, and results stay in cache."""
        left, right = (a.T if form == "Aᵀ·B" else a), (b.T if form == "A·Bᵀ" else b)
        rows, columns = left.shape[0], right.shape[1]
        together = max(1, min(n, CACHE // (rows * columns * a.itemsize)))
        out = np.empty((together, rows, columns), a.dtype)
        left, right = (np.broadcast_to(x, (together, *x.shape)) for x in (left, right))

        def run():
            for first in range(0, n, together):
                count = min(together, n - first)
                np.matmul(left[:count], right[:count], out=out[:count])
            return out

        return run

    def eager_products(self, form: str, a: np.ndarray, b: np.ndarray, n: int):
        """n products, each by a call of its own; `run` returns the last one."""
        left, right = (a.T if form == "Aᵀ·B" else a), (b.T if form == "A·Bᵀ" else b)

        def run():
            for _ in range(n):
                product = left @ right
            return product

        return run
