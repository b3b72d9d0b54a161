"""Layers whose weights are computed from others: symmetric, positive, normed, orthogonal, with a bounded norm."""

import copy

import torch
import torch.nn.utils.parametrize as P
from torch import nn
from torch.nn.utils import parametrizations
from torch.nn.utils.parametrizations import orthogonal, spectral_norm


class Symmetric(nn.Module):
    def forward(self, x):
        return x.triu() + x.triu(1).t()


class Positive(nn.Module):
    def forward(self, x):
        return x.exp()

    def right_inverse(self, y):
        return y.log()


class Product(nn.Module):
    """A matrix of low rank from its two factors."""

    def forward(self, a, b):
        return a @ b

    def right_inverse(self, w):
        return w[:, :1].clone(), torch.ones_like(w[:1])


def filled(module):
    with torch.no_grad():
        for p in module.parameters():
            p.copy_(torch.cos(torch.arange(p.numel(), dtype=p.dtype) ** 2 * 1.7).reshape(p.shape))
    return module


def trained(module, width, steps=3):
    """The losses, the weight's value and the state after some steps."""
    x = torch.sin(torch.arange(2 * width, dtype=torch.float64)).reshape(2, width)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.05)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = module(x).pow(2).sum()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    state = {name: value.tolist() for name, value in module.state_dict().items()}
    return [losses, module.weight.tolist(), state]


def run():
    results = {}

    layer = filled(nn.Linear(3, 3).double())
    before = layer.weight
    P.register_parametrization(layer, "weight", Symmetric())
    results["symmetric"] = trained(layer, 3)
    results["names"] = [type(layer).__name__, P.is_parametrized(layer), P.is_parametrized(layer, "bias")]
    results["names"] += [P.type_before_parametrizations(layer).__name__, [n for n, _ in layer.named_parameters()]]
    results["same parameter"] = layer.parametrizations.weight.original is before
    P.register_parametrization(layer, "weight", Positive())
    results["two"] = [layer.weight.tolist(), len(layer.parametrizations.weight)]
    with P.cached():
        results["cached"] = [layer.weight is layer.weight, layer.weight is layer.weight]
    results["copied"] = copy.deepcopy(layer).weight.tolist()
    P.remove_parametrizations(layer, "weight")
    results["removed"] = [type(layer).__name__, layer.weight.tolist(), isinstance(layer.weight, nn.Parameter)]
    results["removed"] += [layer.weight is before, list(layer.state_dict())]
    P.register_parametrization(layer, "weight", Symmetric())
    P.remove_parametrizations(layer, "weight", leave_parametrized=False)
    results["removed, the original"] = layer.weight.tolist()

    layer = nn.Linear(2, 2).double()
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([[1.0, 2.0], [0.5, 3.0]]))
        layer.bias.fill_(0.25)
    P.register_parametrization(layer, "weight", Positive())
    P.register_parametrization(layer, "bias", Positive())
    results["positive"] = [layer.parametrizations.weight.original.tolist(), trained(layer, 2)]
    layer.weight = torch.tensor([[0.5, 1.0], [1.0, 2.0]], dtype=torch.float64)
    results["assigned"] = [layer.weight.tolist(), layer.parametrizations.weight.original.tolist()]

    layer = filled(nn.Linear(3, 2).double())
    P.register_parametrization(layer, "weight", Product())
    results["product"] = trained(layer, 3)
    P.remove_parametrizations(layer, "weight")
    results["product removed"] = [layer.weight.tolist(), layer.weight.requires_grad]

    for name, options in (("rows", {}), ("columns", {"dim": 1}), ("whole", {"dim": None})):
        layer = parametrizations.weight_norm(filled(nn.Linear(3, 2).double()), **options)
        results[f"normed, {name}"] = trained(layer, 3)

    for shape in ((3, 3), (4, 2), (2, 3), (1, 1)):
        for orthogonal_map in ("matrix_exp", "cayley", "householder"):
            layer = orthogonal(filled(nn.Linear(*shape[::-1]).double()), orthogonal_map=orthogonal_map)
            if shape[0] != shape[1]:  # the base is completed by random columns
                layer.parametrizations.weight[0].base = torch.eye(max(shape), dtype=torch.float64)
            with torch.no_grad():
                original = layer.parametrizations.weight.original
                original.add_(torch.sin(torch.arange(original.numel(), dtype=torch.float64)).reshape(shape) * 0.4)
                original.diagonal().fill_(-1)
            results[f"orthogonal {shape} {orthogonal_map}"] = trained(layer, shape[1])
    layer = orthogonal(filled(nn.Linear(2, 2).double()), orthogonal_map="cayley", use_trivialization=False)
    results["orthogonal without base"] = trained(layer, 2)

    for options in ({}, {"dim": 1}):
        layer = spectral_norm(filled(nn.Linear(3, 2).double()), n_power_iterations=200, **options)
        losses, weight, state = trained(layer, 3)
        u, v = (state.pop(f"parametrizations.weight.0.{name}") for name in ("_u", "_v"))
        results[f"spectral {options}"] = [losses, weight, state, len(u), len(v)]
        evaluated = [
            layer.eval().weight.tolist() == layer.weight.tolist(),
            torch.linalg.matrix_norm(layer.weight.detach(), 2),
        ]
        results[f"spectral {options}, evaluated"] = [evaluated[0], round(evaluated[1].item(), 9)]
    vector = spectral_norm(filled(nn.LayerNorm(3).double()))
    results["spectral of a vector"] = vector.weight.tolist()

    refused = []
    for wrong in (
        lambda: P.register_parametrization(nn.Linear(2, 2), "wieght", Symmetric()),
        lambda: P.register_parametrization(nn.Linear(2, 2), "bias", nn.Unflatten(0, (1, 2))),
        lambda: P.register_parametrization(nn.Linear(2, 3), "weight", nn.Flatten(0)),
        lambda: P.remove_parametrizations(nn.Linear(2, 2), "weight"),
        lambda: setattr(P.register_parametrization(nn.Linear(2, 2), "weight", Symmetric()), "weight", torch.eye(2)),
        lambda: orthogonal(nn.Linear(2, 2), "bias"),
        lambda: orthogonal(nn.Linear(2, 2), orthogonal_map="qr"),
        lambda: spectral_norm(nn.Linear(2, 2), n_power_iterations=0),
    ):
        try:
            wrong()
            refused.append(None)
        except (ValueError, RuntimeError) as error:
            refused.append(type(error).__name__)
    return results | {"refused": refused}
