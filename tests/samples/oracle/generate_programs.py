"""Run every generated program through PyTorch and store its checksums as oracle/programs/<kind>.safetensors."""

import warnings
from pathlib import Path

import numpy as np
import torch

from tests.samples.oracle import tables
from tests.samples.programs import KINDS, REFUSED, answer

HERE = Path(__file__).parent

if __name__ == "__main__":
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    for group, (_, count) in KINDS.items():
        answers = np.array([answer(torch, group, number) for number in range(count)], np.uint32)
        tables.keep(HERE / "programs" / f"{group}.safetensors", {"answers": answers})
        print(f"PyTorch {torch.__version__}: {count} of {group}, {(answers == REFUSED).all(1).sum()} refused")
