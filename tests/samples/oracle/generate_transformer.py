"""Run the cases of samples/transformer.py in PyTorch; store what comes out in oracle/nn/transformer.safetensors.

    python -m tests.samples.oracle.generate_transformer            # write the table anew (needs torch)
    python -m tests.samples.oracle.generate_transformer --check    # does the stored table equal a fresh run?

`<case>|logits`, `<case>|loss` and `<case>|<parameter>.grad`, float64.
"""

import argparse
import sys
import warnings
from pathlib import Path

import torch

from tests.samples import transformer as samples
from tests.samples.oracle import tables

HERE = Path(__file__).parent
TABLE = HERE / "nn" / "transformer.safetensors"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare the stored table with a fresh run")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    arrays = {}
    for case, (changes, lengths) in samples.CASES.items():
        arrays |= {f"{case}|{name}": a for name, a in samples.in_pytorch(torch, changes, lengths).items()}
    take = tables.differences if arguments.check else tables.keep
    differ = take(TABLE, arrays, {"pytorch": torch.__version__})
    messages = [f"{name}: {how}" for name, how in differ.items() if arguments.check]
    print(*messages, sep="\n")
    size = TABLE.stat().st_size
    print(f"PyTorch {torch.__version__}: {len(samples.CASES)} cases, {len(arrays)} arrays, {size / 1e3:.0f} kB")
    return bool(messages)


if __name__ == "__main__":
    sys.exit(main())
