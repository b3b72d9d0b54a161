"""Run the programs of test_distributions.py in PyTorch; store what comes out in oracle/programs.

python tests/oracle/generate_distributions.py     # needs torch
"""

import sys
from pathlib import Path

import torch

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent), str(HERE.parents[1])]

import tables  # noqa: E402
import test_distributions as programs  # noqa: E402

if __name__ == "__main__":
    torch.distributions.Distribution.set_default_validate_args(False)  # it refuses values outside the support
    arrays = {f"{n}|{key}": a for n in programs.PROGRAMS for key, a in programs.facts(torch, n).items()}
    tables.keep(HERE / "programs" / "distributions.safetensors", arrays)
    print(f"PyTorch {torch.__version__}: {len(arrays)} arrays")
