"""Run the programs of samples/optim.py in PyTorch; store what comes out in oracle/programs.

python -m tests.samples.oracle.generate_optim     # needs torch
"""

import warnings
from pathlib import Path

import numpy as np
import torch

from tests.samples import optim as samples
from tests.samples.oracle import tables

HERE = Path(__file__).parent


def loosely(name: str, dtype: np.dtype) -> float:
    """A quasi-Newton method divides by differences of gradients that become small: last bits grow to 1e-11 in it."""
    return 1e-9 if name.startswith("lbfgs") else tables.tolerance(name, dtype)


def main() -> None:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    arrays = {}
    for key, by_hand in samples.ALL_RATES:
        arrays |= samples.rates(torch, key, by_hand)
    for key in samples.OPTIMIZERS:
        arrays |= samples.trajectory(torch, key)
    for key in samples.QUASI_NEWTON:
        arrays |= samples.quasi_newton(torch, key)
    for loss_name, key in samples.LINE_SEARCHES:
        arrays |= samples.line_search(torch, loss_name, key)
    for key in samples.RECAST:
        for before, after in samples.RECAST_DTYPES:
            arrays |= samples.recast(torch, key, before, after)
    tables.keep(HERE / "programs" / "optim.safetensors", arrays, tolerance=loosely)
    print(f"PyTorch {torch.__version__}: {len(arrays)} arrays")


if __name__ == "__main__":
    main()
