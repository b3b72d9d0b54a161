"""Ask PyTorch what every expression of dtype_samples.py gives with every dtype; store it as tests/oracle/dtypes.json.

python tests/oracle/generate_dtypes.py     # needs torch
"""

import json
import sys
from pathlib import Path

import torch

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from dtype_samples import WALK, answer  # noqa: E402

if __name__ == "__main__":
    torch.manual_seed(0)
    told = {" | ".join(walk): answer(torch, *walk) for walk in WALK}
    lines = ",\n".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in told.items())
    (HERE / "dtypes.json").write_text(f"{{\n{lines}\n}}\n")
    refused = sum(value == "refused" for value in told.values())
    print(f"PyTorch {torch.__version__}: {len(told)} answers, {refused} of them refusals")
