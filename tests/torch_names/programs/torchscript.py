"""A recurrent cell whose functions and methods are marked for TorchScript."""

import torch
from torch import nn


@torch.jit.script
def squash(x: torch.Tensor, slope: float) -> torch.Tensor:
    return torch.tanh(x * slope) / slope


class Cell(nn.Module):
    slope: torch.jit.Final[float]

    def __init__(self, width: int):
        super().__init__()
        self.slope = 0.5
        self.mix = nn.Linear(2 * width, width)

    @torch.jit.ignore
    def describe(self) -> str:
        return "a cell"

    @torch.jit.unused
    def refuse(self) -> int:
        raise ValueError

    @torch.jit.export
    def start(self, rows: int) -> torch.Tensor:
        return torch.zeros(rows, self.mix.out_features, dtype=self.mix.weight.dtype)

    def forward(self, x: torch.Tensor, h: torch.Tensor) -> torch.Tensor:
        return squash(self.mix(torch.cat([x, h], 1)), self.slope)


class Doubled(torch.jit.ScriptModule):
    @torch.jit.script_method
    def forward(self, x):
        return x * 2


@torch.jit.script_if_tracing
def doubled(x):
    return torch.jit.annotate(torch.Tensor, x * 2)


def run():
    cell = torch.jit.script(Cell(3).double())
    with torch.no_grad():
        for i, p in enumerate(cell.parameters()):
            p.copy_(torch.linspace(-1, 1 + i, p.numel(), dtype=torch.float64).reshape(p.shape))
    h = cell.start(2)
    for step in range(4):
        h = cell(torch.full((2, 3), 0.1 * step, dtype=torch.float64), h)
    Doubled()(doubled(h)).sum().backward()
    return {"h": h.tolist(), "gradient": cell.mix.weight.grad.tolist(), "scripting": torch.jit.is_scripting()}
