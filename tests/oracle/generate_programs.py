"""Run every generated program through PyTorch and store its checksums as tests/oracle/programs/<kind>.safetensors."""

import sys
import warnings
from pathlib import Path

import numpy as np
import torch

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

import tables  # noqa: E402
from programs import KINDS, REFUSED, answer  # noqa: E402

if __name__ == "__main__":
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    for kind, (_, count) in KINDS.items():
        answers = np.array([answer(torch, kind, number) for number in range(count)], np.uint32)
        tables.keep(HERE / "programs" / f"{kind}.safetensors", {"answers": answers})
        print(f"PyTorch {torch.__version__}: {count} programs with {kind}, {(answers == REFUSED).all(1).sum()} refused")
