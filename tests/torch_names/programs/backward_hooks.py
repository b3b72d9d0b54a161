"""Gradients that a module's hook sees and changes."""

import torch
from torch import nn


def run():
    layer, seen = nn.Linear(2, 2).double(), []
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([[1.0, 2.0], [3.0, -1.0]]))
        layer.bias.zero_()

    def halve(module, grad_input, grad_output):
        seen.append([grad_input[0].tolist(), grad_output[0].tolist()])
        return (grad_input[0] / 2,)

    handle = layer.register_full_backward_hook(halve)
    x = torch.tensor([[0.5, -1.0], [0.0, 0.0]], dtype=torch.float64, requires_grad=True)
    layer(x).pow(2).sum().backward()
    handle.remove()
    layer(x).sum().backward()
    return {"seen": seen, "gradient": x.grad.tolist(), "weights": layer.weight.grad.tolist()}
