"""Write tests/oracle/points/<dtype>.safetensors: PyTorch's answers where rules change (`tests/special_points.py`).

python tests/oracle/generate_points.py     # needs torch
"""

import sys
import warnings
from pathlib import Path

import torch

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent), str(HERE)]

import tables  # noqa: E402
from special_points import CASES, evaluate  # noqa: E402

if __name__ == "__main__":
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    for real in ("float64", "float32"):
        found = {
            f"{case}|{what}": array
            for case in CASES
            for what, array in evaluate(torch, torch.nn.functional, case, real).items()
        }
        tables.keep(HERE / "points" / f"{real}.safetensors", found)
        print(f"PyTorch {torch.__version__}: {len(CASES)} cases in {real}")
