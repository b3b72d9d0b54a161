"""Ask PyTorch what every expression of samples/dtypes.py gives with every dtype; store it as oracle/dtypes.json.

python -m tests.samples.oracle.generate_dtypes     # needs torch
"""

import json
from pathlib import Path

import torch

from tests.samples.dtypes import WALK, answer

HERE = Path(__file__).parent

if __name__ == "__main__":
    torch.manual_seed(0)
    answers = {" | ".join(walk): answer(torch, *walk) for walk in WALK}
    lines = ",\n".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in answers.items())
    (HERE / "dtypes.json").write_text(f"{{\n{lines}\n}}\n")
    refused = sum(value == "refused" for value in answers.values())
    print(f"PyTorch {torch.__version__}: {len(answers)} answers, {refused} of them refusals")
