"""Print the values of printing_samples.py in PyTorch; store the texts in tests/oracle/printing.json.

python tests/oracle/generate_printing.py     # needs torch
"""

import json
import sys
from pathlib import Path

import torch

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

import printing_samples as samples  # noqa: E402


def main() -> None:
    texts = {
        option: {value: samples.shown(torch, option, value).splitlines() for value in samples.VALUES}
        for option in samples.OPTIONS
    }
    (HERE / "printing.json").write_text(json.dumps(texts, indent=0) + "\n")
    print(f"PyTorch {torch.__version__}: {sum(map(len, texts.values()))} texts")


if __name__ == "__main__":
    main()
