"""Run the programs of optim_samples.py in PyTorch; store what comes out in oracle/programs.

python tests/oracle/generate_optim.py     # needs torch
"""

import sys
import warnings
from pathlib import Path

import torch
from safetensors.numpy import save_file

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

import optim_samples as samples  # noqa: E402


def main() -> None:
    warnings.simplefilter("ignore")
    arrays = {}
    for key, by_hand in samples.ALL_RATES:
        arrays |= samples.rates(torch, key, by_hand)
    for key in samples.OPTIMIZERS:
        arrays |= samples.trajectory(torch, key)
    for key in samples.QUASI_NEWTON:
        arrays |= samples.quasi_newton(torch, key)
    save_file(arrays, HERE / "programs" / "optim.safetensors")
    print(f"PyTorch {torch.__version__}: {len(arrays)} arrays")


if __name__ == "__main__":
    main()
