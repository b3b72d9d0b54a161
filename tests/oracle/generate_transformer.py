"""Run the cases of transformer_samples.py in PyTorch; store what comes out in tests/oracle/nn/transformer.safetensors.

    python tests/oracle/generate_transformer.py            # write the table anew (needs torch)
    python tests/oracle/generate_transformer.py --check    # does the stored table equal a fresh run?

`<case>|logits`, `<case>|loss` and `<case>|<parameter>.grad`, float64.
"""

import argparse
import sys
import warnings
from pathlib import Path

import numpy as np
import torch
from safetensors.numpy import load_file, save_file

HERE = Path(__file__).parent
TABLE = HERE / "nn" / "transformer.safetensors"
sys.path.insert(0, str(HERE.parent))

import transformer_samples as samples  # noqa: E402


def compare(fresh: dict) -> list[str]:
    """Where the stored table differs from `fresh` by more than another processor's last bits."""
    stored = load_file(TABLE)
    told = [f"{name}: only {'stored' if name in stored else 'fresh'}" for name in sorted(stored.keys() ^ fresh.keys())]
    for name in sorted(stored.keys() & fresh.keys()):
        a, b = stored[name], fresh[name]
        if a.shape != b.shape or a.dtype != b.dtype or not np.allclose(a, b, rtol=1e-11, atol=1e-12):
            told.append(f"{name}: stored {a.dtype} {a.shape}, fresh {b.dtype} {b.shape}, or their values differ")
    return told


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare the stored table with a fresh run")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    arrays = {}
    for case, (changes, lengths) in samples.CASES.items():
        arrays |= {f"{case}|{name}": a for name, a in samples.in_pytorch(torch, changes, lengths).items()}
    told = compare(arrays) if arguments.check else []
    if not arguments.check:
        save_file(arrays, TABLE, {"pytorch": torch.__version__})
    print(*told, sep="\n")
    size = TABLE.stat().st_size
    print(f"PyTorch {torch.__version__}: {len(samples.CASES)} cases, {len(arrays)} arrays, {size / 1e3:.0f} kB")
    return bool(told)


if __name__ == "__main__":
    sys.exit(main())
