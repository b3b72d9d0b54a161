"""Write the stored files of PyTorch beside this one; run where PyTorch is: python tests/io/generate_pytorch.py."""

from collections import Counter
from pathlib import Path

import torch

HERE = Path(__file__).parent


def values() -> dict:
    """Every kind of value that such a file may hold; test_pytorch_files.py says what each is."""
    base = torch.arange(12.0).reshape(3, 4)
    floats = torch.tensor([1.0, -0.5, 65504.0, 3.0e-5])
    return {
        "base": base,
        "transposed": base.t(),
        "row": base[1, 1:],
        "again": base,
        "expanded": torch.ones(1).expand(5),
        "empty": torch.zeros(0, 3),
        "one": torch.tensor(2.5),
        "parameter": torch.nn.Parameter(torch.ones(2)),
        "leaf": torch.ones(2, requires_grad=True),
        "double": torch.tensor([1 / 3], dtype=torch.float64),
        "long": torch.tensor(2**40),
        "bool": floats > 0,
        "int": torch.tensor([-7], dtype=torch.int32),
        "byte": torch.tensor([255], dtype=torch.uint8),
        "plain": [1, -(2**70), 2.5, None, True, "é\U0001f600", (1, (2,), ()), {3: {}, (1, "x"): []}, 300, 70_000],
        "dtype": torch.float32,
        "device": torch.device("cpu"),
        "size": torch.Size([2, 3]),
        "counter": Counter({3: 2}),
    }


def narrow() -> dict:
    """Tensors of the dtypes that `widen` reads."""
    return {
        "half": torch.tensor([1.0, -0.5, 65504.0]).half(),
        "bfloat16": torch.tensor([1.0, -0.5, 3.0e38]).bfloat16(),
        "char": torch.tensor([-128, 127], dtype=torch.int8),
        "short": torch.tensor([-300, 300], dtype=torch.int16),
    }


def training() -> dict:
    """A model and its optimizer after one step, and the weights after another one."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Tanh(), torch.nn.Linear(3, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.MultiStepLR(optimizer, [2, 5])

    def step():
        optimizer.zero_grad()
        (model(torch.tensor([[1.0, 2.0], [-1.0, 0.5]])) ** 2).sum().backward()
        optimizer.step()
        scheduler.step()

    step()
    parts = {"model": model, "optimizer": optimizer, "scheduler": scheduler}
    held: dict = {name: dict(part.state_dict()) for name, part in parts.items() if part is not model}
    held["model"] = type(model.state_dict())((k, v.clone()) for k, v in model.state_dict().items())
    held["optimizer"]["state"] = {
        i: {k: v.clone() for k, v in s.items()} for i, s in held["optimizer"]["state"].items()
    }
    held["optimizer"]["param_groups"] = [dict(group) for group in held["optimizer"]["param_groups"]]
    step()
    return held | {"after": [p.tolist() for p in model.parameters()]}


if __name__ == "__main__":
    torch.save(values(), HERE / "values.pt")
    torch.save(values(), HERE / "values4.pt", pickle_protocol=4)
    torch.save(narrow(), HERE / "narrow.pt")
    torch.save(training(), HERE / "training.pt")
    torch.save({"x": torch.ones(2)}, HERE / "legacy.pt", _use_new_zipfile_serialization=False)
    torch.save(torch.nn.Linear(1, 1), HERE / "module.pt")
