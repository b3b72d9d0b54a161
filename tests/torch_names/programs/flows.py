"""Parts of flows: an orthogonal mixing matrix, and channels with zeros around them."""

import torch
from torch import nn


def identity_of(w):
    rows = w.reshape(w.shape[0], -1)
    product = rows @ rows.t() if rows.shape[0] < rows.shape[1] else rows.t() @ rows
    return (product * 1e9).round().div(1e9).abs().tolist()


def run():
    shapes = ((3, 3), (2, 5), (5, 2), (3, 2, 2), (1, 1), (1, 4))
    weights = [nn.init.orthogonal_(torch.empty(s, dtype=torch.float64), gain=2.0) for s in shapes]
    x = torch.arange(8, dtype=torch.float64).reshape(1, 2, 2, 2).requires_grad_()
    padded = [nn.ZeroPad2d(p)(x) for p in (1, (1, 0, 2, 0), (-1, 1, 0, 0), 0)]
    sum((p * torch.linspace(0, 1, p.numel(), dtype=torch.float64).reshape(p.shape)).sum() for p in padded).backward()
    return {
        "identities": [identity_of(w) for w in weights],
        "empty": tuple(nn.init.orthogonal_(torch.empty(0, 3)).shape),
        "padded": [p.tolist() for p in padded],
        "gradient": x.grad.tolist(),
        "batchless": nn.ZeroPad2d(1)(torch.ones(1, 1)).tolist(),
    }
