"""Run the programs of test_distributions.py in PyTorch; store what comes out in oracle/programs.

python -m tests.samples.oracle.generate_distributions     # needs torch
"""

from pathlib import Path

import torch

from tests import test_distributions as programs
from tests.samples.oracle import tables

HERE = Path(__file__).parent

if __name__ == "__main__":
    torch.distributions.Distribution.set_default_validate_args(False)  # it refuses values outside the support
    torch.set_default_dtype(torch.float64)  # in which Multinomial takes the factorial of its number
    arrays = {f"{n}|{key}": a for n in programs.PROGRAMS for key, a in programs.facts(torch, n).items()}
    tables.keep(HERE / "programs" / "distributions.safetensors", arrays)
    print(f"PyTorch {torch.__version__}: {len(arrays)} arrays")
