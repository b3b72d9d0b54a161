"""Parametrized tensors: copies, states, refusals, orthogonality (tests/torch_names/programs has PyTorch's results)."""

import copy
import math
import pickle

import numpy as np
import pytest

import tinytensor as tt
from tinytensor import nn
from tinytensor.nn.utils import parametrize
from tinytensor.nn.utils.parametrizations import orthogonal, spectral_norm, weight_norm


class Scaled(nn.Module):
    """A parametrization with a parameter of its own."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(tt.tensor(2.0))

    def forward(self, x):
        return x * self.scale

    def right_inverse(self, y):
        return y / self.scale


def layer():
    return parametrize.register_parametrization(nn.Linear(3, 2), "weight", Scaled())


@pytest.mark.parametrize("copied", [copy.deepcopy, copy.copy, lambda m: pickle.loads(pickle.dumps(m))])
def test_copies(copied):
    original = nn.Sequential(layer())
    other = copied(original)
    assert type(other[0]).__name__ == "ParametrizedLinear" and tt.equal(other[0].weight, original[0].weight)
    assert list(other.state_dict()) == list(original.state_dict())
    assert list(other.state_dict())[-1] == "0.parametrizations.weight.0.scale"


def test_a_copy_and_its_original_are_independent():
    original = layer()
    other = copy.deepcopy(original)
    parametrize.remove_parametrizations(original, "weight")
    assert type(original) is nn.Linear and parametrize.is_parametrized(other, "weight")
    before = original.weight.tolist()
    other.weight = tt.zeros(2, 3)
    assert original.weight.tolist() == before and not other.weight.any()


def test_state_is_loaded_and_converted():
    first, second = layer(), layer()
    second.load_state_dict(first.state_dict())
    assert tt.equal(first.weight, second.weight)
    assert second.double().weight.dtype == tt.float64 and second.eval().parametrizations.weight[0].training is False
    y = tt.func.functional_call(first, {"parametrizations.weight.original": tt.ones(2, 3)}, (tt.ones(3),))
    assert tt.allclose(y, 6 + first.bias)


def test_a_compiled_step_follows_what_is_trained():
    module, x = layer(), tt.ones(1, 3)
    step = tt.compile(lambda x: module(x).sum().detach())
    for value in (1.0, 2.0):
        with tt.no_grad():
            module.parametrizations.weight.original.fill_(value)
        assert step(x).item() == pytest.approx(12 * value + module.bias.sum().item())


def test_cached_contexts_nest_and_end():
    module = layer()
    with parametrize.cached():
        first = module.weight
        with parametrize.cached():
            assert module.weight is first
        assert module.weight is first
    assert module.weight is not first


def test_buffers_are_parametrized():
    module = nn.BatchNorm1d(2)
    parametrize.register_parametrization(module, "running_mean", Scaled())
    assert module.running_mean.tolist() == [0, 0] and "running_mean" not in dict(module.named_buffers())
    parametrize.remove_parametrizations(module, "running_mean")
    assert "running_mean" in dict(module.named_buffers())


def test_what_is_refused_changes_nothing():
    class Cut(nn.Module):
        def forward(self, x):
            return x[:1]

    class Long(nn.Module):
        def forward(self, x):
            return x.flatten()

        def right_inverse(self, y):
            return y + 1

    class Split(nn.Module):
        def right_inverse(self, y):
            return 5

    module = nn.Linear(3, 2)
    before = module.weight.tolist()
    for wrong, sentence in (
        (
            Cut(),
            r"register_parametrization: Cut must give a tensor of float32 and shape \(2, 3\), .* got float32 \(1, 3\)",
        ),
        (Long(), r"Long must give .* got float32 \(6,\)"),
        (Split(), r"Split.right_inverse: expected a tensor or a list of them, got int"),
    ):
        with pytest.raises(ValueError, match=sentence):
            parametrize.register_parametrization(module, "weight", wrong)
        assert type(module) is nn.Linear and module.weight.tolist() == before
    with pytest.raises(ValueError, match=r"has no parameter or buffer 'wieght', but \['weight', 'bias'\]"):
        parametrize.register_parametrization(module, "wieght", Scaled())
    parametrize.register_parametrization(module, "weight", Scaled())
    with pytest.raises(ValueError, match="Cut must give"):
        parametrize.register_parametrization(module, "weight", Cut())
    assert len(module.parametrizations.weight) == 1 and np.allclose(module.weight.tolist(), before)
    parametrize.register_parametrization(module, "weight", Cut(), unsafe=True)
    assert module.weight.shape == (1, 3)
    with pytest.raises(RuntimeError, match="Cut has no right_inverse"):
        module.weight = tt.zeros(1, 3)
    with pytest.raises(ValueError, match="'bias' of ParametrizedLinear has no parametrization"):
        parametrize.remove_parametrizations(module, "bias")
    normed = weight_norm(nn.Linear(3, 2))
    with pytest.raises(ValueError, match="computed from several tensors"):
        parametrize.remove_parametrizations(normed, "weight", leave_parametrized=False)


@pytest.mark.parametrize("orthogonal_map", ["matrix_exp", "cayley", "householder"])
@pytest.mark.parametrize("shape", [(4, 4), (5, 2), (2, 5), (1, 1), (2, 3, 3)])
def test_orthogonal_stays_orthogonal(shape, orthogonal_map):
    tt.manual_seed(0)
    module = nn.Module()
    module.w = nn.Parameter(tt.randn(*shape, dtype=tt.float64))
    orthogonal(module, "w", orthogonal_map)
    with tt.no_grad():  # large steps, for which e^A is squared several times
        original = module.parametrizations.w.original
        original.add_(tt.randn(*shape, dtype=tt.float64) * 5)
        original.diagonal(0, -2, -1).fill_(-1)
    rows = module.w if shape[-2] <= shape[-1] else module.w.mT
    assert tt.allclose(rows @ rows.mT, tt.eye(rows.shape[-2], dtype=tt.float64), atol=1e-12)
    module.w.sum().backward()
    assert original.grad.isfinite().all() and (math.prod(shape) == 1 or original.grad.any())
    assigned = tt.linalg.qr(tt.randn(*shape, dtype=tt.float64).mT).Q.mT if shape[-2] <= shape[-1] else None
    if assigned is not None:
        module.w = assigned
        assert tt.allclose(module.w, assigned, atol=1e-12)
    with pytest.raises(ValueError, match=r"orthogonal: expected a matrix of shape"):
        module.w = tt.zeros(7, 7)


def test_spectral_norm_divides_by_the_largest_singular_value():
    tt.manual_seed(0)
    module = spectral_norm(nn.Linear(4, 3), n_power_iterations=300)
    assert module.weight.detach().svd().S[0].item() == pytest.approx(1, rel=1e-5)
    u = module.parametrizations.weight[0]._u.clone()
    for training in (False, True):
        with tt.no_grad():
            module.parametrizations.weight.original.copy_(tt.randn(3, 4))
        module.train(training)(tt.ones(4))
        assert tt.equal(u, module.parametrizations.weight[0]._u) is not training
