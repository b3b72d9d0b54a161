"""Write oracle/points/<dtype>.safetensors: PyTorch's answers where rules change (`special_points.py`).

python -m tests.samples.oracle.generate_points     # needs torch
"""

import warnings
from pathlib import Path

import torch

from tests.samples.oracle import tables
from tests.samples.special_points import CASES, evaluate

HERE = Path(__file__).parent

if __name__ == "__main__":
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    for real in ("float64", "float32"):
        arrays = {
            f"{case}|{what}": array
            for case in CASES
            for what, array in evaluate(torch, torch.nn.functional, case, real).items()
        }
        tables.keep(HERE / "points" / f"{real}.safetensors", arrays)
        print(f"PyTorch {torch.__version__}: {len(CASES)} cases in {real}")
