"""Write interop/torch_names/pytorch_names.txt: what PyTorch has under which name, so that a missing name can be told.

python -m tests.samples.oracle.generate_names     # needs torch
"""

import inspect
import warnings
from pathlib import Path

import torch
import torch.distributed
import torch.distributions
import torch.func

PLACES = {
    "": torch,
    "Tensor": torch.Tensor,
    "nn": torch.nn,
    "nn.Module": torch.nn.Module,
    "nn.functional": torch.nn.functional,
    "nn.init": torch.nn.init,
    "nn.utils": torch.nn.utils,
    "optim": torch.optim,
    "optim.lr_scheduler": torch.optim.lr_scheduler,
    "autograd": torch.autograd,
    "cuda": torch.cuda,
    "func": torch.func,
    "linalg": torch.linalg,
    "distributed": torch.distributed,
    "distributions": torch.distributions,
    "utils.data": torch.utils.data,
}


def is_pytorchs(value) -> bool:
    """Does it come from PyTorch, or has PyTorch only imported it?"""
    home = value.__name__ if inspect.ismodule(value) else getattr(value, "__module__", None) or type(value).__module__
    return home.partition(".")[0] == "torch" or (home == "builtins" and callable(value))


def main() -> None:
    warnings.simplefilter("ignore")
    lines = []
    for position, holder in PLACES.items():
        names = [n for n in dir(holder) if not n.startswith("_")]
        if inspect.ismodule(holder):
            names = [n for n in names if is_pytorchs(getattr(holder, n))]
        lines.append(f"{position}: {' '.join(names)}\n")
    path = Path(__file__).parents[3] / "tinytensor" / "interop" / "torch_names" / "pytorch_names.txt"
    path.write_text("".join(lines))
    print(f"PyTorch {torch.__version__}: {sum(len(line.split()) for line in lines)} names")


if __name__ == "__main__":
    main()
