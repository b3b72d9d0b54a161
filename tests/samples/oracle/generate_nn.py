"""Run the programs of samples/nn.py and interop/torch_names/gpt.py in PyTorch; store the results in oracle/nn/.

    python -m tests.samples.oracle.generate_nn     # needs torch

values.safetensors: outputs, gradients, trajectories, rates (float64; float32 trajectories beside), and in its metadata
the names and shapes of modules and the results of the training loop. gpt.safetensors: the loop's first weights, written
by PyTorch's own safetensors functions.
"""

import json
import warnings
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file as save_by_torch

from tests.samples import nn as samples
from tests.samples.oracle import tables
from tests.torch_names import gpt

HERE = Path(__file__).parent / "nn"


def training() -> tuple[dict, dict]:
    """Losses and norms of the training loop in float32 and float64, and facts: what the trained models write."""
    torch.manual_seed(1)
    first = gpt.GPT().state_dict()
    tied = {name: t.clone() for name, t in first.items() if name != "transformer.wte.weight"}
    save_by_torch(tied, HERE / "gpt.safetensors", {"written": "by PyTorch"})
    arrays, facts = {}, {}
    for dtype in (torch.float32, torch.float64):
        torch.set_default_dtype(dtype)
        model = gpt.GPT()
        model.load_state_dict({name: t.to(dtype) for name, t in first.items()})
        name = str(dtype).removeprefix("torch.")
        arrays[f"training|{name}"] = np.array(gpt.train(model), name)
        start = torch.tensor([[1, 2, 3], [4, 5, 6]])
        facts[f"{name} text"] = model.eval().generate(start, 12, top_k=1).tolist()
    torch.set_default_dtype(torch.float32)
    return arrays, facts | {"parameters": gpt.GPT().get_num_params()}


def main() -> None:
    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    torch.set_num_threads(1)
    arrays = {}
    for key in samples.LAYERS:
        arrays |= samples.layer(torch, key)
    for key in samples.OPTIMIZERS:
        arrays |= samples.trajectory(torch, key) | samples.trajectory(torch, key, "float32")
    for key in samples.SCHEDULES:
        arrays |= samples.rates(torch, key)
    for key in samples.CLIPS:
        arrays |= samples.clipped(torch, key)
    trained, written = training()
    facts = {"modules": {key: samples.names(torch, key) for key in samples.MODULES}, "training": written}
    tables.keep(HERE / "values.safetensors", arrays | trained, {"facts": json.dumps(facts)})
    size = sum(path.stat().st_size for path in HERE.glob("*.safetensors"))
    print(f"PyTorch {torch.__version__}: {len(arrays)} arrays, {size / 1e3:.0f} kB")


if __name__ == "__main__":
    main()
