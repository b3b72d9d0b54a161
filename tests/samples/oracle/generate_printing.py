"""Print the values of samples/printing.py in PyTorch; store the texts in tests/samples/oracle/printing.json.

python -m tests.samples.oracle.generate_printing     # needs torch
"""

import json
from pathlib import Path

import torch

from tests.samples import printing as samples

HERE = Path(__file__).parent


def main() -> None:
    texts = {
        option: {value: samples.shown(torch, option, value).splitlines() for value in samples.VALUES}
        for option in samples.OPTIONS
    }
    (HERE / "printing.json").write_text(json.dumps(texts, indent=0) + "\n")
    print(f"PyTorch {torch.__version__}: {sum(map(len, texts.values()))} texts")


if __name__ == "__main__":
    main()
