"""A program for PyTorch that fits waves: convolutions with normalised weights, L-BFGS, and an optimizer of its own.

`python -m tests.torch_names.waves` runs it in PyTorch and writes what comes out to waves.json.
"""

import json
from pathlib import Path

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils import parameters_to_vector, weight_norm
from torch.optim import LBFGS, Optimizer


class Causal(nn.Module):
    """Two convolutions that look back only, beside a straight way through."""

    def __init__(self, width, dilation):
        super().__init__()
        self.back = 2 * dilation
        self.conv = weight_norm(nn.Conv1d(width, width, 3, padding=self.back, dilation=dilation))
        self.out = weight_norm(nn.Linear(width, width), dim=None)

    def forward(self, x):
        h = torch.tanh(self.conv(x)[:, :, : -self.back])
        return x + self.out(h.transpose(1, 2)).transpose(1, 2)


class Waves(nn.Module):
    def __init__(self, width=6):
        super().__init__()
        self.first = nn.Conv1d(1, width, 1)
        self.layers = nn.Sequential(*[Causal(width, 2**i) for i in range(2)])
        self.last = nn.Linear(width, 2)
        self.seen = []
        self.last.register_forward_pre_hook(lambda module, args: self.seen.append(args[0].ndimension()))

    def forward(self, x):
        mixed = self.last(self.layers(self.first(x.unsqueeze(1))).transpose(1, 2))
        return (F.softmax(mixed.reshape(-1, 2)).reshape(mixed.shape) * mixed).sum(-1)


class SignDescent(Optimizer):
    """Each number moves by the same length, along the sign of a running mean of its gradient."""

    def __init__(self, params, lr=1e-3, beta=0.9):
        super().__init__(params, {"lr": lr, "beta": beta})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if len(state) == 0:
                    state["mean"] = torch.zeros_like(p)
                state["mean"].mul_(group["beta"]).add_(p.grad, alpha=1 - group["beta"])
                p.add_(torch.sign(state["mean"]), alpha=-group["lr"])


def filled(model):
    """With weights that no random numbers decide."""
    begin = 0
    with torch.no_grad():
        for p in model.parameters():
            numbers = torch.arange(begin, begin + p.numel(), dtype=p.dtype).reshape(p.shape)
            p.copy_(torch.sin(numbers * 12.9898) * 0.5)
            begin += p.numel()
    return model


def data(dtype):
    t = torch.arange(0, 24, dtype=dtype)
    waves = torch.stack([torch.sin(0.3 * t + k) * (1 + 0.1 * k) for k in range(5)])
    return waves[:, :-1], waves[:, 1:]


def fit(dtype):
    """The losses of both optimizers one after the other, and the length of the weights that they end at."""
    model, losses = filled(Waves().to(dtype)), []
    x, y = data(dtype)

    def closure():
        model.zero_grad()
        loss = F.mse_loss(model(x), y)
        loss.backward()
        losses.append(loss.item())
        return loss

    signs = SignDescent(model.parameters(), lr=5e-3)
    for step in range(6):
        closure()
        signs.step()
        if step == 2:
            kept, signs = signs.state_dict(), SignDescent(model.parameters())
            signs.load_state_dict(kept)
    newton = LBFGS(model.parameters(), lr=0.5, max_iter=4, history_size=5)
    for _ in range(3):
        newton.step(closure)
    assert set(model.seen) == {3}
    return losses, parameters_to_vector(model.parameters()).norm().item()


if __name__ == "__main__":
    fits = {str(dtype).removeprefix("torch."): fit(dtype) for dtype in (torch.float32, torch.float64)}
    Path(__file__).with_suffix(".json").write_text(json.dumps(fits, indent=1) + "\n")
