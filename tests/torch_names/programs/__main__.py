"""Runs these programs in PyTorch and writes what comes out: python -m tests.torch_names.programs (needs torch)."""

import importlib
import json
from pathlib import Path

HERE = Path(__file__).parent
NAMES = sorted(path.stem for path in HERE.glob("*.py") if path.stem != "__main__")

if __name__ == "__main__":
    results = {name: importlib.import_module(f"tests.torch_names.programs.{name}").run() for name in NAMES}
    lines = [f"{json.dumps(name)}: {json.dumps(result)}" for name, result in results.items()]
    (HERE / "results.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")
