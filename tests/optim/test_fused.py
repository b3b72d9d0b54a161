"""The native backend's fused steps make the steps of the update rules, to rounding: each option, each layout."""

import numpy as np
import pytest

import tinytensor as tt
from tests.optim.test_options_matter import OPTIMIZERS
from tinytensor import optim
from tinytensor.optim import optimizer as optimizers

FUSED = (optim.SGD, optim.Adam, optim.AdamW)
ROUNDING = 50  # units in the last place of 1, after five steps
OPTIONS = [
    (category, {option: value} | beside)
    for category in FUSED
    for option, (value, beside) in OPTIMIZERS[category].items()
    if option != "amsgrad"  # a step with it is never fused
]
OPTIONS += [(category, {"lr_multiplier": factor}) for category in FUSED for factor in (0.3, [0.1, 0.5, 2.0])]
OPTIONS += [(optim.SGD, {"momentum": 0.8, "dampening": 0.1, "weight_decay": 0.1, "maximize": True})]


def parameters(dtype) -> list[tt.Tensor]:
    """A matrix, one with permuted strides, one with gaps, a number, and one without elements."""
    rng = np.random.default_rng(0)
    shapes = (4, 3), (3, 4), (4, 6), (), (0, 3)
    arrays = [np.array(rng.normal(size=shape), dtype) for shape in shapes]
    arrays[1], arrays[2] = arrays[1].T, arrays[2][:, ::2]
    return [tt.Tensor.of(array, requires_grad=True) for array in arrays]


def after_steps(category, options: dict, dtype, steps: int = 5) -> list[np.ndarray]:
    """The parameters, and what is kept for them, after steps along gradients that change their signs."""
    factor = options.get("lr_multiplier", 1.0)
    params = parameters(dtype)
    group = {"params": params, "lr_multiplier": tt.tensor(factor) if isinstance(factor, list) else factor}
    if isinstance(factor, list):
        group["params"] = params = [p for p in params if p.shape and p.shape[-1] == len(factor)]
    made = category([group], **{name: value for name, value in options.items() if name != "lr_multiplier"})
    for t in range(steps):
        for p in params:
            p.grad = (p.detach() * (t + 1) + 0.3).cos()
        made.step()
    kept = [value for p in params for value in made.state[p].values() if isinstance(value, tt.Tensor)]
    return [x.detach().numpy() for x in (*params, *kept)]


def differences(category, options: dict, dtype, monkeypatch) -> list[int]:
    fused = after_steps(category, options, dtype)
    monkeypatch.setattr(category, "fused", None)
    rule = after_steps(category, options, dtype)
    bound = ROUNDING * np.finfo(dtype).eps
    return [i for i, (a, b) in enumerate(zip(fused, rule, strict=True)) if not np.allclose(a, b, bound, bound)]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("category", "options"), OPTIONS)
def test_fused_step_is_the_rule(category, options, dtype, monkeypatch):
    assert differences(category, options, dtype, monkeypatch) == []


@pytest.mark.skipif(optim.Adam.fused is None, reason="the reference backend has no fused steps")
def test_wrong_fused_step_is_noticed(monkeypatch):
    launch = optimizers.launch_fused
    monkeypatch.setattr(optimizers, "launch_fused", lambda *args: launch(*args[:-1], args[-1] * 1.0001))
    assert differences(optim.AdamW, {}, np.float64, monkeypatch) != []


@pytest.mark.parametrize("name", ["adam", "adamw", "sgd"])
def test_rule_is_replayed(name, monkeypatch):
    """A recorded step by the rule has the bits of an eager one, with a momentum that begins and a rate that changes."""
    category = {"adam": optim.Adam, "adamw": optim.AdamW, "sgd": optim.SGD}[name]
    options = {"lr": 0.1, "weight_decay": 0.1} | ({"momentum": 0.9, "dampening": 0.5} if name == "sgd" else {})
    monkeypatch.setattr(category, "fused", None)
    results = []
    for wrap in (lambda step: step, tt.compile):
        w = tt.tensor([2.0, -1.0, 0.5], requires_grad=True)
        made = category([w], **options)

        def step(w=w, made=made):
            made.zero_grad()
            (w * w).sin().sum().backward()
            made.step()

        step = wrap(step)
        for t in range(6):
            made.param_groups[0]["lr"] = 0.1 / (t + 1)
            step()
        results.append(w.tolist())
    assert results[0] == results[1]
