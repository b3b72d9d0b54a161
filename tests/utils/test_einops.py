"""einops' functions on tensors: the values that they give on NumPy arrays, gradients as finite differences say."""

import copy
import pickle
import subprocess
import sys

import einops
import numpy as np
import pytest

import tinytensor as tt
from tinytensor import nn
from tinytensor.utils import einops as layers

x = np.random.default_rng(0).standard_normal((2, 3, 4))

CALLS = {
    "rearrange": lambda x: einops.rearrange(x, "b h w -> w (b h)"),
    "heads": lambda x: einops.rearrange(x, "b n (h d) -> b h n d", h=2),
    "rearrange of a list": lambda x: einops.rearrange([x, 2 * x], "n b h w -> b (n h) w"),
    **{
        f"reduce by {how}": lambda x, how=how: einops.reduce(x, "b h w -> h", how)
        for how in ("sum", "mean", "min", "max", "prod")
    },
    "pooling": lambda x: einops.reduce(x, "b h (w two) -> b h w", "max", two=2),
    "mean that stays": lambda x: x - einops.reduce(x, "b h w -> b 1 w", "mean"),
    "reduce to a number": lambda x: einops.reduce(x, "b h w ->", "sum"),
    "repeat": lambda x: einops.repeat(x, "b h w -> b two h (w three) one", two=2, three=3, one=1),
    "new dimensions in another order": lambda x: einops.repeat(x, "b h w -> five b h w two", two=2, five=5),
    "einsum": lambda x: einops.einsum(x, x, "b q d, b k d -> b q k"),
    "pack": lambda x: einops.pack([x, x[:, 0]], "b * w")[0],
    "unpack": lambda x: einops.unpack(x, [[1], [2]], "b * w")[1],
}


@pytest.mark.parametrize("what", CALLS)
def test_values_and_gradients(what):
    call = CALLS[what]
    result = call(tt.tensor(x))
    np.testing.assert_allclose(result.numpy(), call(x), rtol=1e-12)
    assert isinstance(result, tt.Tensor) and result.shape == call(x).shape
    assert tt.gradcheck(call, (tt.tensor(x, requires_grad=True),))


def test_booleans_and_integers():
    for how in ("any", "all"):
        pattern = "b (one h) w -> b w", how
        expected = einops.reduce(x > 0, *pattern, one=1)
        assert einops.reduce(tt.tensor(x > 0), *pattern, one=1).tolist() == expected.tolist()
    with pytest.raises(NotImplementedError, match="mean"):
        einops.reduce(tt.ones(2, 3).long(), "a b -> a", "mean")
    assert einops.parse_shape(tt.tensor(x), "b _ w") == {"b": 2, "w": 4}
    assert np.array_equal(einops.asnumpy(tt.tensor(x, requires_grad=True)), x)


def test_lost_gradient_is_noticed():
    with pytest.raises(RuntimeError, match="gradcheck"):
        tt.gradcheck(
            lambda x: einops.reduce(x, "b h w -> h", "sum") + einops.reduce(x.detach(), "b h w -> h", "sum"),
            (tt.tensor(x, requires_grad=True),),
        )


def test_a_step_is_compiled():
    def step(x):
        return einops.reduce(einops.rearrange(x, "b h w -> b (w h)"), "b n -> b", "mean")

    compiled = tt.compile(step)
    for shift in range(3):
        assert compiled(tt.tensor(x + shift)).tolist() == step(tt.tensor(x + shift)).tolist()


LAYERS = {
    "rearrange": lambda: layers.Rearrange("b h (w two) -> b two (h w)", two=2),
    "reduce": lambda: layers.Reduce("b h (w two) -> b w", "mean", two=2),
    "largest": lambda: layers.Reduce("b ... -> b", "max"),
    "linear": lambda: layers.EinMix("b h w -> b h v", "w v", "v", w=4, v=5),
    "without bias": lambda: layers.EinMix("b h w -> h w b", "b h", b=2, h=3),
    "heads": lambda: layers.EinMix("b h (k w) -> b (k v) h", "k w v", "k v", k=2, w=2, v=3),
}


@pytest.mark.parametrize("what", LAYERS)
def test_layers_stand_in_a_sequential(what):
    """A layer gives what the function gives, with gradients, and stays itself in a recording, a copy and a pickle."""
    layer = LAYERS[what]()
    model = nn.Sequential(nn.Identity(), layer).double()
    actual = model(tt.tensor(x))
    np.testing.assert_allclose(actual.detach().numpy(), expected_of(layer), rtol=1e-12)
    assert tt.gradcheck(model, (tt.tensor(x, requires_grad=True),)) and isinstance(model[1], nn.Module)
    compiled = tt.compile(lambda x: model(x).detach())
    others = model, copy.deepcopy(model), pickle.loads(pickle.dumps(model)), compiled, compiled
    assert {str(other(tt.tensor(x)).tolist()) for other in others} == {str(actual.tolist())}
    assert repr(copy.deepcopy(layer)) == repr(layer) and repr(layer).startswith(f"{type(layer).__name__}('b ")


def expected_of(layer) -> np.ndarray:
    """The same by einops' functions on arrays."""
    if isinstance(layer, layers.Rearrange):
        return einops.rearrange(x, layer.pattern, **layer.axes_lengths)
    if isinstance(layer, layers.Reduce):
        return einops.reduce(x, layer.pattern, layer.reduction, **layer.axes_lengths)
    weight = layer.weight.detach().numpy()
    if "k" in layer.axes_lengths:
        y = np.einsum("bhkw,kwv->bkvh", x.reshape(2, 3, 2, 2), weight.reshape(2, 2, 3))
        return (y + layer.bias.detach().numpy().reshape(1, 2, 3, 1)).reshape(2, 6, 3)
    if layer.bias is None:
        return np.einsum("bhw,bh->hwb", x, weight)
    return x @ weight + layer.bias.detach().numpy()


def test_parameters_of_layers_are_drawn_and_trained():
    layer = layers.EinMix("b c -> b d", "c d", "d", c=300, d=40)
    assert [(name, p.numel()) for name, p in layer.named_parameters()] == [("weight", 12_000), ("bias", 40)]
    values = layer.weight.detach().numpy()
    assert np.unique(values).size > 11_000 and 0.09 < abs(values).max() <= (3 / 300) ** 0.5
    layer(tt.ones(2, 300)).sum().backward()
    assert layer.weight.grad.tolist() == [[2.0] * 40] * 300 and layer.bias.grad.tolist() == [[2.0] * 40]
    with pytest.raises(einops.EinopsError, match="Error while preparing Rearrange"):
        layers.Rearrange("b c -> b d")


def test_a_layer_of_pytorch_is_refused():
    """What stands in einops.layers.torch is a module of PyTorch, which no module of ours can find parameters in."""
    theirs = type("Rearrange", (type("Module", (), {"__module__": "torch.nn.modules.module"}),), {})
    with pytest.raises(TypeError, match=r"got Rearrange, a module of PyTorch; .* from tinytensor\.utils\.einops"):
        nn.Sequential(theirs())
    with pytest.raises(TypeError, match=r"got int$"):
        nn.Sequential(3)


def run(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stderr.strip()


@pytest.mark.one_in(3)
@pytest.mark.parametrize("first", ["tinytensor, einops", "einops, tinytensor", "tinytensor, einops.layers"])
def test_einops_takes_tensors_without_a_further_import(first):
    assert run(f"import {first}, tinytensor as tt\neinops.rearrange(tt.ones(2, 3), 'a b -> b a')") == ""


@pytest.mark.slow
def test_einops_is_not_imported_by_tinytensor():
    assert run("import sys, tinytensor\nassert 'einops' not in sys.modules") == ""
    assert "No module named 'einops'" in run("import sys, tinytensor\nsys.path.clear()\nimport einops")


def test_missing_library_is_named():
    said = run("import sys\nsys.modules['einops'] = None\nimport tinytensor.utils.einops").splitlines()[-1]
    assert said == "ImportError: tinytensor.utils.einops needs the einops library: pip install einops"
