"""Optimizers, schedules and clipping: PyTorch's trajectories, states that go on bit for bit, and refusals."""

import copy
import json
import math
import re
from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open

import tinytensor as tt
from tests.samples import nn as samples
from tests.samples import optim as more
from tests.tools.packages import missing
from tinytensor import nn, optim
from tinytensor.optim import lr_scheduler

ORACLE = Path(__file__).parents[1] / "samples" / "oracle"


@pytest.fixture(scope="module")
def stored():
    results = {}
    for path in (ORACLE / "nn" / "values.safetensors", ORACLE / "programs" / "optim.safetensors"):
        with safe_open(path, "np") as file:
            results |= {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
    return results


def compare(result, stored, rtol, atol):
    assert result
    for name, array in result.items():
        assert array.dtype == stored[name].dtype and array.shape == stored[name].shape, name
        np.testing.assert_allclose(array, stored[name], rtol=rtol, atol=atol, err_msg=name)


# --- Trajectories


@pytest.mark.parametrize("key", samples.OPTIMIZERS)
def test_ten_steps(key, stored):
    compare(samples.trajectory(tt, key), stored, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("key", samples.OPTIMIZERS)
def test_ten_steps_in_float32(key, stored):
    """Values stay below 4 here, and a step adds a few roundings of half a unit (2^-24): ten steps, growing threefold.

    Adam divides by the root of v: where a gradient is close to 0 its relative error is larger, and goes into the step.
    """
    compare(samples.trajectory(tt, key, "float32"), stored, rtol=0, atol=4 * 10 * 3 * 4 * 2.0**-24)


@pytest.mark.parametrize("key", more.QUASI_NEWTON)
@pytest.mark.parametrize("reload", [False, True])
def test_quasi_newton(key, reload, stored):
    def reload_state(optimizer):
        if reload:
            optimizer.load_state_dict(optimizer.state_dict())
        return optimizer

    compare(more.quasi_newton(tt, key, reload_state), stored, rtol=1e-7, atol=1e-12)


@pytest.mark.parametrize(("before", "after"), more.RECAST_DTYPES)
@pytest.mark.parametrize("key", more.RECAST)
def test_state_has_the_dtype_of_the_parameters(key, before, after, stored):
    """Values stay below 2, and each of six steps adds a few roundings of half a unit (2^-24) of float32."""
    compare(more.recast(tt, key, before, after), stored, rtol=0, atol=6 * 4 * 2.0**-24)


@pytest.mark.parametrize(("before", "after"), more.RECAST_DTYPES)
def test_lists_of_a_state_have_the_dtype_of_the_parameters(before, after):
    def made(dtype):
        p = tt.tensor([1.0, 0.3], dtype=getattr(tt, dtype)).requires_grad_()
        optimizer = optim.LBFGS([p], lr=0.1, max_iter=4)
        return p, optimizer, lambda: (optimizer.zero_grad(), loss := (p**4).sum(), loss.backward())[1]

    p, optimizer, closure = made(before)
    optimizer.step(closure)
    q, other, closure = made(after)
    other.load_state_dict(optimizer.state_dict())
    saved, loaded = optimizer.state[p], other.state[q]
    assert list(loaded) == list(saved) and len(loaded["old_stps"]) == 3
    assert loaded["n_iter"] == saved["n_iter"] == 4
    pairs = [(saved["d"], loaded["d"]), *zip(saved["old_dirs"], loaded["old_dirs"], strict=True)]
    assert all(new.dtype == q.dtype and new.tolist() == old.to(q.dtype).tolist() for old, new in pairs)
    other.step(closure)


def test_wrong_rate_of_quasi_newton_is_noticed(stored, monkeypatch):
    other = {"lbfgs": lambda o, p: o.LBFGS(p, lr=0.500001)}
    monkeypatch.setattr(more, "QUASI_NEWTON", other)
    result = more.quasi_newton(tt, "lbfgs")["lbfgs|losses"]
    assert not np.allclose(result, stored["lbfgs|losses"][: len(result)], rtol=1e-7)


@pytest.mark.one_in(8)
@pytest.mark.parametrize(("loss", "key"), more.LINE_SEARCHES)
def test_line_search(loss, key, stored):
    """The loss is computed at PyTorch's points, and as often."""
    compare(more.line_search(tt, loss, key), stored, rtol=1e-7, atol=1e-7)


def test_line_search_with_a_reloaded_state(stored):
    def reload_state(optimizer):
        optimizer.load_state_dict(optimizer.state_dict())
        return optimizer

    compare(more.line_search(tt, "valley", "one iteration", reload_state), stored, rtol=1e-7, atol=1e-7)


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("constant", "value"), [("C1", 0.1), ("C2", 0.8), ("NEAREST", 0.02), ("FARTHEST", 9.0), ("MARGIN", 0.2)]
)
def test_another_rule_of_the_line_search_is_noticed(constant, value, stored, monkeypatch):
    monkeypatch.setattr(optim.line_search, constant, value)
    others = 0
    for loss in ("waves", "Beale", "no bottom", "steep", "kinks", "far", "Himmelblau", "valley"):
        try:
            compare(more.line_search(tt, loss, "too far"), stored, rtol=1e-7, atol=1e-7)
        except AssertionError:
            others += 1
    assert others


ENDS = {  # a loss that is not finite on one side: where it begins, and where it is least
    "logarithm": (lambda x: x - x.log(), 0.1, 1.0),  # NaN below 0
    "root": (lambda x: x - 2 * x.sqrt(), 4.0, 1.0),  # NaN below 0
    "pole": (lambda x: x + 1 / x + tt.where(x > 0, 0.0, math.inf), 0.3, 1.0),  # infinite below 0
    "overflow": (lambda x: (x * x).exp() - 2 * x * math.exp(1.0), 3.0, 1.0),
}


@pytest.mark.parametrize("options", [{}, {"lr": 10.0}, {"max_iter": 1, "max_eval": 9}, {"max_eval": 6}], ids=str)
@pytest.mark.parametrize("key", ENDS)
def test_line_search_stays_where_the_loss_is_finite(key, options):
    """PyTorch's parameters go to where it is NaN, or its list of points has no such index."""
    loss, begin, least = ENDS[key]
    x = tt.tensor([begin], dtype=tt.float64).requires_grad_()
    optimizer = optim.LBFGS([x], line_search_fn="strong_wolfe", **options)

    def closure():
        optimizer.zero_grad()
        y = loss(x).sum()
        y.backward()
        return y

    for _ in range(20):
        optimizer.step(closure)
        assert math.isfinite(loss(x).item())
    assert x.item() == pytest.approx(least, abs=1e-3)


@pytest.mark.parametrize("line_search_fn", [None, "strong_wolfe"])
def test_lbfgs_stays_where_the_loss_is_nan_at_its_start(line_search_fn):
    x = tt.tensor([-1.0, 2.0]).requires_grad_()
    optimizer = optim.LBFGS([x], 0.4, line_search_fn=line_search_fn)
    factor = math.nan

    def closure():
        optimizer.zero_grad()
        y = ((x - 1) ** 2).sum() * factor
        y.backward()
        return y

    assert math.isnan(optimizer.step(closure).item()) and x.tolist() == [-1.0, 2.0]
    factor = 1.0
    optimizer.step(closure)
    assert x.tolist() == pytest.approx([1.0, 1.0], abs=1e-3)


def test_line_search_that_stops_moves_nothing():
    x = tt.tensor([-1.2, 1.0]).requires_grad_()
    optimizer = optim.LBFGS([x], line_search_fn="strong_wolfe")
    calls = []

    def closure():
        optimizer.zero_grad()
        y = more.LOSSES["valley"][0](tt, x)
        y.backward()
        calls.append(x.tolist())
        if len(calls) == 3:
            raise KeyboardInterrupt
        return y

    with pytest.raises(KeyboardInterrupt):
        optimizer.step(closure)
    assert calls[2] != calls[0] == x.tolist()


def test_lbfgs_refuses_wrong_arguments():
    p = tt.zeros(2).requires_grad_()
    with pytest.raises(ValueError, match="LBFGS: line_search_fn must be None or 'strong_wolfe', got 'armijo'"):
        tt.optim.LBFGS([p], line_search_fn="armijo")
    with pytest.raises(ValueError, match="must be in one group, these are in 2"):
        tt.optim.LBFGS([{"params": [p]}, {"params": [tt.zeros(1).requires_grad_()]}])
    with pytest.raises(TypeError, match=r"LBFGS\.step: expected a closure, which zeroes"):
        tt.optim.LBFGS([p]).step()


def test_custom_optimizer_keeps_its_own_state():
    class Own(tt.optim.Optimizer):
        def __init__(self, params):
            super().__init__(params, {"lr": 0.5})

        @tt.no_grad()
        def step(self):
            for p in self.param_groups[0]["params"]:
                state = self.state[p]
                if not state:
                    state["seen"] = [p.grad.clone(), "a word"]
                p.sub_(self.param_groups[0]["lr"] * state["seen"][0])

    p = tt.ones(2).requires_grad_()
    (p * p).sum().backward()
    own = Own([p])
    own.step()
    other = Own([p])
    other.load_state_dict(own.state_dict())
    kept = other.state[p]["seen"]
    assert kept[1] == "a word" and kept[0].tolist() == [2.0, 2.0] and kept[0] is not own.state[p]["seen"][0]
    with pytest.raises(ValueError, match="has 'seen', which is not kept here"):
        tt.optim.SGD([p], lr=1.0).load_state_dict(own.state_dict())


def test_a_wrong_trajectory_is_noticed(stored, monkeypatch):
    monkeypatch.setitem(samples.OPTIMIZERS, "adamw", lambda o, p: o.AdamW(p, betas=(0.9, 0.99900001)))
    with pytest.raises(AssertionError, match="adamw"):
        compare(samples.trajectory(tt, "adamw"), stored, rtol=1e-12, atol=1e-13)
    monkeypatch.setitem(samples.OPTIMIZERS, "sgd", lambda o, p: o.SGD(p, lr=0.1001))
    with pytest.raises(AssertionError, match="sgd"):
        compare(samples.trajectory(tt, "sgd", "float32"), stored, rtol=0, atol=4 * 10 * 3 * 4 * 2.0**-24)


@pytest.mark.parametrize("key", more.OPTIMIZERS)
@pytest.mark.parametrize("wrap", [lambda step: step, tt.compile], ids=["eager", "compiled"])
def test_twelve_steps(key, wrap, stored):
    compare(more.trajectory(tt, key, wrap), stored, rtol=1e-12, atol=1e-13)


def test_wrong_amsgrad_is_noticed(stored, monkeypatch):
    monkeypatch.setitem(more.OPTIMIZERS, "adam, amsgrad", lambda o, p: o.Adam(p, lr=0.1, weight_decay=0.1))
    with pytest.raises(AssertionError, match="amsgrad"):
        compare(more.trajectory(tt, "adam, amsgrad"), stored, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("make", [optim.RMSprop, optim.Adagrad, optim.Adadelta, optim.Adamax])
def test_custom_rate_in_composed_optimizers(make):
    whole = one_step(1.0, make)
    assert whole.any() and np.allclose(one_step(0.25, make), 0.25 * whole.numpy(), rtol=1e-15)
    heads = tt.tensor([[1.0], [0.5], [0.0], [2.0]])
    assert np.allclose(one_step(heads, make), (heads * whole).numpy(), rtol=1e-15)


@pytest.mark.parametrize("key", samples.CLIPS)
def test_clipping_matches_pytorch(key, stored):
    rtol = 4 * 2.0**-24 if "float32" in key else 1e-12  # the part in float32 is rounded a few times
    compare(samples.clipped(tt, key), stored, rtol=rtol, atol=1e-15)


def test_clipping_with_a_wrong_norm_is_noticed(stored, monkeypatch):
    monkeypatch.setitem(samples.CLIPS, "2-norm", lambda u, p: u.clip_grad_norm_(p, 0.5, norm_type=2.0000001))
    with pytest.raises(AssertionError, match="2-norm"):
        compare(samples.clipped(tt, "2-norm"), stored, rtol=1e-12, atol=1e-15)


def test_clipping_of_nonfinite_gradients():
    p = tt.ones(2).requires_grad_()
    p.grad = tt.tensor([math.nan, 1.0])
    with pytest.raises(RuntimeError, match="the total norm of the gradients is nan"):
        nn.utils.clip_grad_norm_([p], 1.0, error_if_nonfinite=True)
    assert p.grad.tolist()[1] == 1.0
    assert nn.utils.clip_grad_norm_([tt.ones(2)], 1.0).item() == 0  # no gradient at all


# --- Rates of one's own


def one_step(multiplier, make=optim.SGD):
    """How far the four rows (or one number) of a parameter move, with a gradient of ones."""
    p = tt.zeros(4, 3, dtype=tt.float64).requires_grad_()
    optimizer = make([{"params": [p], "lr_multiplier": multiplier}], lr=0.5)
    p.grad = tt.ones(4, 3, dtype=tt.float64)
    optimizer.step()
    return -p.detach()


@pytest.mark.parametrize("make", [optim.SGD, optim.Adam, lambda p, lr: optim.AdamW(p, lr=lr, weight_decay=0.0)])
def test_lr_multiplier(make):
    whole = one_step(1.0, make)
    assert whole.any()
    assert np.allclose(one_step(0.25, make), 0.25 * whole.numpy(), rtol=1e-15)
    assert np.allclose(one_step(tt.tensor(0.25), make), 0.25 * whole.numpy(), rtol=1e-15)
    heads = tt.tensor([[1.0], [0.5], [0.0], [2.0]])
    assert np.allclose(one_step(heads, make), (heads * whole).numpy(), rtol=1e-15)
    assert not np.allclose(one_step(heads, make), whole.numpy())


def test_lr_multiplier_of_wrong_shape_is_refused():
    with pytest.raises(ValueError, match=r"lr_multiplier of shape \(5,\) does not fit a parameter of shape \(4, 3\)"):
        one_step(tt.ones(5))


def test_lr_multiplier_can_be_changed_between_steps():
    p = tt.zeros(2).requires_grad_()
    optimizer = optim.SGD([p], lr=1.0)
    for multiplier, expected in ((1.0, -1.0), (0.5, -1.5), (tt.tensor([2.0]), -3.5)):
        optimizer.param_groups[0]["lr_multiplier"] = multiplier
        p.grad = tt.ones(2)
        optimizer.step()
        assert p.tolist() == [expected] * 2


# --- How a parameter lies


def lying(how: str, values: tt.Tensor) -> tt.Tensor:
    """A parameter (4, 3, 2) with these values, which lies so in memory."""
    memory = {
        "as its shape says": lambda: tt.empty(4, 3, 2),
        "its second dimension first": lambda: tt.empty_permuted((4, 3, 2), (1, 0, 2)),
        "the other way round": lambda: tt.empty_permuted((4, 3, 2), (2, 1, 0)),
        "with gaps": lambda: tt.empty(4, 7, 5)[:, ::3, 1:3],
        "with gaps, its second dimension first": lambda: tt.empty(3, 8, 2).transpose(0, 1)[::2],
    }
    return nn.Parameter(memory[how]().copy_(values))


LYING = ("its second dimension first", "the other way round", "with gaps", "with gaps, its second dimension first")
LIES_STEPS = {key: samples.OPTIMIZERS[key] for key in ("sgd, nesterov", "adam, decay", "adamw, decay")}


def steps_of(how, key, multiplier=1.0, after=lambda p, optimizer: None):
    generator, p = tt.Generator().manual_seed(0), lying(how, tt.arange(24.0).view(4, 3, 2))
    optimizer = LIES_STEPS[key](optim, [{"params": [p], "lr_multiplier": multiplier}])
    for _ in range(3):
        p.grad = None
        (p * tt.randn(4, 3, 2, generator=generator)).sum().backward()
        (p * p).sum().backward()  # added to what is there
        nn.utils.clip_grad_norm_(p, 5.0)
        optimizer.step()
        after(p, optimizer)
    return p.tolist(), {name: x.tolist() for name, x in optimizer.state[p].items() if isinstance(x, tt.Tensor)}


@pytest.mark.parametrize("key", LIES_STEPS)
@pytest.mark.parametrize("how", LYING)
def test_memory_layout_of_a_parameter_changes_nothing(how, key):
    expected = steps_of("as its shape says", key)
    assert steps_of(how, key) == expected
    rates = tt.arange(12.0).view(4, 3, 1) / 7
    assert steps_of(how, key, rates) == steps_of("as its shape says", key, rates) != expected


@pytest.mark.parametrize("key", LIES_STEPS)
@pytest.mark.parametrize("how", LYING)
def test_parameter_may_change_its_layout_after_a_step(how, key):
    def turned(p, optimizer):
        p.data = lying(how if p.is_contiguous() else "as its shape says", p.detach()).data

    def loaded(p, optimizer):
        turned(p, optimizer)
        optimizer.load_state_dict(optimizer.state_dict())

    expected = steps_of("as its shape says", key)
    assert steps_of("as its shape says", key, after=turned) == expected
    assert steps_of(how, key, after=loaded) == expected


def test_gradient_has_the_layout_of_its_parameter():
    """Then a step needs no copies."""
    p = lying("its second dimension first", tt.ones(4, 3, 2))
    linear = p.transpose(0, 1).flatten(1)
    (tt.ones(5, 3) @ linear).sum().backward()
    assert p.grad.stride() == p.stride() == (2, 8, 1)
    optimizer = optim.AdamW([p])
    with tt.profile() as seen:
        optimizer.step()
    assert "copy" not in seen.rows
    assert optimizer.state[p]["exp_avg"].stride() == p.stride()


# --- Groups


def test_groups_have_options_of_their_own():
    a, b, c = (tt.zeros(1).requires_grad_() for _ in range(3))
    optimizer = optim.SGD([{"params": a, "lr": 1.0, "name": "first"}, {"params": [b]}], lr=0.5, momentum=0.5)
    optimizer.add_param_group({"params": (x for x in [c]), "lr": 0.25, "fused": True})
    assert [g["lr"] for g in optimizer.param_groups] == [1.0, 0.5, 0.25]
    assert all(g["momentum"] == 0.5 for g in optimizer.param_groups)
    for p in (a, b, c):
        p.grad = tt.ones(1)
    optimizer.step()
    assert [p.item() for p in (a, b, c)] == [-1.0, -0.5, -0.25]
    optimizer.zero_grad(set_to_none=False)
    assert a.grad.item() == 0
    optimizer.zero_grad()
    assert a.grad is None
    optimizer.step()  # no gradients: nothing moves, momentum or not
    assert a.item() == -1.0


def test_groups_keep_unknown_settings():
    """An optimizer around another one hands it groups that hold settings of its own, and finds them there again."""
    p = tt.ones(1).requires_grad_()
    optimizer = optim.SGD([{"params": [p], "rho": 0.05, "step_counter": 0}], lr=1.0)
    optimizer.param_groups[0]["step_counter"] += 1
    (p * 2).sum().backward()
    optimizer.step()
    assert p.item() == -1
    saved = optimizer.state_dict()
    reload_state = optim.SGD([p])
    reload_state.load_state_dict(saved)
    assert reload_state.param_groups[0]["step_counter"] == 1 and reload_state.param_groups[0]["rho"] == 0.05


def test_named_parameters_and_closure():
    m = nn.Linear(2, 1)
    optimizer = optim.SGD(m.named_parameters(), lr=0.1)

    def closure():
        optimizer.zero_grad()
        loss = m(tt.ones(1, 2)).sum()
        loss.backward()
        return loss

    with tt.no_grad():
        first = optimizer.step(closure).item()
    assert closure().item() == pytest.approx(first - 0.3, abs=1e-6)


@pytest.mark.parametrize(
    ("make", "error", "sentence"),
    [
        (lambda p: optim.SGD([], lr=0.1), ValueError, "SGD: the list of parameters is empty"),
        (lambda p: optim.SGD([p, p], lr=0.1), ValueError, "twice in one"),
        (lambda p: optim.SGD([{"params": [p]}, {"params": [p]}]), ValueError, "in two groups"),
        (lambda p: optim.SGD([p * 2]), ValueError, "was computed from others"),
        (lambda p: optim.SGD([1.0]), TypeError, "expected tensors to train, got float"),
        (lambda p: optim.SGD([p], lr=-1), ValueError, "lr must be 0 or more, got -1"),
        (lambda p: optim.SGD([p], lr=math.nan), ValueError, "lr must be 0 or more, got nan"),
        (lambda p: optim.SGD([p], momentum=-0.1), ValueError, "momentum must be 0 or more"),
        (lambda p: optim.SGD([p], nesterov=True), ValueError, "nesterov needs a momentum"),
        (lambda p: optim.SGD([p], learning_rate=1), TypeError, "unknown option 'learning_rate'"),
        (lambda p: optim.SGD([{"params": [p], "lt": 1}]), UserWarning, "'lt' in a parameter group .*; is 'lr' meant?"),
        (lambda p: optim.Adam([p], betas=(1.0, 0.9)), ValueError, "betas must be two numbers from 0 to below 1"),
        (lambda p: optim.AdamW([p], betas=(0.9,)), ValueError, "betas must be two numbers from 0 to below 1"),
        (lambda p: optim.Adamax([p], betas=(0.9, 1)), ValueError, "betas must be two numbers from 0 to below 1"),
        (
            lambda p: optim.Adam([{"params": [p], "betas": (0.9, -1)}]),
            ValueError,
            "betas must be two numbers from 0 to below 1",
        ),
        (lambda p: optim.SGD([{"params": [p], "nesterov": True}]), ValueError, "nesterov needs a momentum"),
        (lambda p: optim.Adam([p], eps=-1), ValueError, "eps must be 0 or more"),
        (lambda p: optim.AdamW([p], weight_decay=-1), ValueError, "AdamW: weight_decay must be 0 or more"),
        (
            lambda p: optim.SGD([{"foo": 1}]),
            ValueError,
            r'SGD: a parameter group needs "params", this one has \[.foo.\]',
        ),
        (lambda p: optim.AdamW([p], differentiable=True), ValueError, "differentiable=True is not offered"),
        (lambda p: optim.SGD([{"params": [p], "differentiable": True}]), ValueError, "differentiable=True is not"),
        (lambda p: lr_scheduler.LambdaLR(optim.SGD([p]), [abs, abs]), ValueError, "2 functions for 1 parameter groups"),
        (lambda p: lr_scheduler.StepLR(p, 2), TypeError, "StepLR: expected an optimizer, got Tensor"),
        (lambda p: lr_scheduler.LRScheduler(optim.SGD([p])), NotImplementedError, r"a schedule needs get_lr\(\)"),
        (lambda p: lr_scheduler.ConstantLR(optim.SGD([p]), 2.0), ValueError, "factor must be from 0 to 1, got 2.0"),
        (lambda p: lr_scheduler.LinearLR(optim.SGD([p]), 0.0), ValueError, "start_factor must be above 0"),
        (lambda p: lr_scheduler.OneCycleLR(optim.SGD([p]), 1.0), ValueError, "give total_steps, or epochs and"),
        (lambda p: lr_scheduler.OneCycleLR(optim.SGD([p]), 1.0, 9, pct_start=2), ValueError, "pct_start from 0 to 1"),
        (lambda p: lr_scheduler.OneCycleLR(optim.Adagrad([p]), 1.0, 9), ValueError, "Adagrad has no momentum"),
        (lambda p: lr_scheduler.ReduceLROnPlateau(optim.SGD([p]), "low"), ValueError, "'min' or 'max'"),
        (lambda p: lr_scheduler.CosineAnnealingWarmRestarts(optim.SGD([p]), 0), ValueError, "T_0 and T_mult are steps"),
        (lambda p: lr_scheduler.SequentialLR(optim.SGD([p]), [], []), ValueError, "the list of schedules is empty"),
        (lambda p: lr_scheduler.StepLR(optim.SGD([p]), 0), ValueError, "StepLR: step_size must be above 0, got 0"),
        (lambda p: lr_scheduler.StepLR(optim.SGD([p]), -2), ValueError, "StepLR: step_size must be above 0, got -2"),
        (lambda p: lr_scheduler.CosineAnnealingLR(optim.SGD([p]), 0), ValueError, "T_max must be above 0, got 0"),
        (lambda p: lr_scheduler.CosineAnnealingLR(optim.SGD([p]), math.nan), ValueError, "T_max must be above 0"),
        (lambda p: lr_scheduler.PolynomialLR(optim.SGD([p]), -1), ValueError, "total_iters must be 0 or more, got -1"),
        (lambda p: lr_scheduler.PolynomialLR(optim.SGD([p]), 3, -1.0), ValueError, "power must be 0 or more, got -1"),
        (
            lambda p: lr_scheduler.LinearLR(optim.SGD([p]), total_iters=-1),
            ValueError,
            "LinearLR: total_iters must be 0",
        ),
        (lambda p: lr_scheduler.ConstantLR(optim.SGD([p]), 1, -1), ValueError, "ConstantLR: total_iters must be 0 or"),
        (lambda p: lr_scheduler.ReduceLROnPlateau(optim.SGD([p]), "min", math.nan), ValueError, "a factor below 1"),
        (
            lambda p: lr_scheduler.ReduceLROnPlateau(p),
            TypeError,
            "ReduceLROnPlateau: expected an optimizer, got Tensor",
        ),
        (lambda p: lr_scheduler.LambdaLR(p, abs), TypeError, "LambdaLR: expected an optimizer, got Tensor"),
        (lambda p: lr_scheduler.OneCycleLR(p, 1.0, 9), TypeError, "OneCycleLR: expected an optimizer, got Tensor"),
        (
            lambda p: lr_scheduler.OneCycleLR(optim.SGD([p]), 1.0, 9, div_factor=0),
            ValueError,
            "div_factor must be above 0, got 0",
        ),
        (
            lambda p: lr_scheduler.OneCycleLR(optim.SGD([p]), 1.0, 9, final_div_factor=0),
            ValueError,
            "final_div_factor must be above 0, got 0",
        ),
        (
            lambda p: lr_scheduler.SequentialLR(
                o := optim.SGD([p]), [lr_scheduler.StepLR(o, 2) for _ in range(3)], [3, 1]
            ),
            ValueError,
            r"milestones must be in ascending order, got \[3, 1\]",
        ),
        (
            lambda p: lr_scheduler.ChainedScheduler([lr_scheduler.StepLR(optim.SGD([p]), 2) for _ in "ab"]),
            ValueError,
            "all schedules must be of this optimizer",
        ),
    ],
)
def test_wrong_options_raise(make, error, sentence):
    with pytest.raises(error, match=sentence):
        make(tt.ones(1).requires_grad_())


OPTIMIZERS = [
    optim.SGD,
    optim.Adam,
    optim.AdamW,
    optim.RMSprop,
    optim.Adagrad,
    optim.Adadelta,
    optim.Adamax,
    optim.LBFGS,
]
WHOLE = "; expected a list of parameters or of groups"
NO_LISTS = {  # what stands in place of a list of parameters, and the sentence
    "a parameter": (lambda m: m.weight, f"params is a tensor of shape (3, 2) (float32){WHOLE}: write [parameter]"),
    "one of one number": (lambda m: m.scale, f"params is a tensor of shape () (float32){WHOLE}: write [parameter]"),
    "a computed tensor": (lambda m: m.weight * 2, f"a tensor of shape (3, 2) (float32){WHOLE}: write [parameter]"),
    "a module": (lambda m: m, f"params is a Linear{WHOLE}: write model.parameters()"),
    "the method": (lambda m: m.parameters, f"params is a method{WHOLE}: call it"),
    "the state": (lambda m: m.state_dict(), f"{WHOLE}: its values(), unless it is a state_dict"),
    "a group": (lambda m: {"params": [m.weight]}, f"{WHOLE}: write [group]"),
    "a string": (lambda m: "weight", f"params is 'weight'{WHOLE}"),
    "a number": (lambda m: 5, f"params is 5{WHOLE}"),
    "None": (lambda m: None, f"params is None{WHOLE}"),
    "lists": (lambda m: [[m.weight]], "expected tensors to train, got list"),
    "a parameter and a group": (
        lambda m: [m.weight, {"params": [m.bias]}],
        "expected tensors to train, got dict; give parameters or groups, not both",
    ),
    "a group and a parameter": (
        lambda m: [{"params": [m.bias]}, m.weight],
        'a parameter group is a tensor of shape (3, 2) (float32); expected a dict: {"params": [...], "lr": ...}',
    ),
    "a group of a module": (
        lambda m: [{"params": m}],
        '"params" of a group is a Linear; expected a list of parameters: write model.parameters()',
    ),
    "a group of a set": (
        lambda m: [{"params": {m.weight, m.bias}}],
        '"params" of a group is a set; expected a list of parameters: the order of a set can be another one',
    ),
    "a group of None": (lambda m: [{"params": None}], '"params" of a group is None; expected a list of parameters'),
    "a group of names": (lambda m: [{"params": "weight"}], "of a group is 'weight'; expected a list of parameters"),
}


@pytest.mark.parametrize("name", NO_LISTS)
@pytest.mark.parametrize("cls", OPTIMIZERS, ids=lambda cls: cls.__name__)
def test_what_is_no_list_of_parameters_is_described(cls, name):
    model = nn.Linear(2, 3)
    model.scale = nn.Parameter(tt.tensor(1.0))
    make, sentence = NO_LISTS[name]
    with pytest.raises(TypeError, match=f"^{cls.__name__}: .*{re.escape(sentence)}"):
        cls(make(model))


@pytest.mark.parametrize("group", [[], tt.ones(2), None, "params"])
def test_what_is_no_group_is_described(group):
    optimizer = optim.SGD([tt.ones(1).requires_grad_()])
    with pytest.raises(TypeError, match=r"SGD: a parameter group is .+; expected a dict: \{\"params\": "):
        optimizer.add_param_group(group)
    assert len(optimizer.param_groups) == 1


def test_lists_of_parameters_have_many_forms():
    m = nn.Linear(2, 3)
    both = [m.weight, m.bias]
    for params in (
        both,
        tuple(both),
        iter(both),
        m.parameters(),
        m.named_parameters(),
        dict(m.named_parameters()).values(),
    ):
        assert optim.SGD(params).param_groups[0]["params"] == both
    groups = optim.SGD([{"params": m.weight}, {"params": iter([m.bias])}]).param_groups
    assert [len(group["params"]) for group in groups] == [1, 1]


def test_options_without_effect_are_accepted():
    p = tt.ones(1).requires_grad_()
    optim.AdamW([p], fused=True, foreach=False, capturable=False, differentiable=False)
    optim.AdamW([{"params": [p], "fused": True, "amsgrad": False}], amsgrad=False)


def test_a_gradient_of_another_dtype_is_refused():
    p = tt.ones(2).requires_grad_()
    p.grad = tt.ones(2, dtype=tt.float64)
    with pytest.raises(RuntimeError, match="a gradient of float64 for a parameter of float32"):
        optim.SGD([p]).step()


# --- States

STATEFUL = {
    "sgd": lambda p: optim.SGD([{"params": p[:1]}, {"params": p[1:], "lr": 0.3}], lr=0.1, momentum=0.9, dampening=0.2),
    "adam": lambda p: optim.Adam(p, lr=0.1),
    "adamw": lambda p: optim.AdamW([{"params": p, "lr_multiplier": 0.5}], lr=0.1, weight_decay=0.3),
    "amsgrad": lambda p: optim.Adam(p, lr=0.1, amsgrad=True),
    "rmsprop": lambda p: optim.RMSprop(p, lr=0.1, momentum=0.9, centered=True),
    "adagrad": lambda p: optim.Adagrad(p, lr=0.1, lr_decay=0.1),
    "rmsprop alone": lambda p: optim.RMSprop(p, lr=0.1),
}


def walk(ps, optimizer, steps, scheduler=None):
    for _ in range(steps):
        optimizer.zero_grad()
        samples.objective(tt, *ps).backward()
        optimizer.step()
        if scheduler is not None:
            scheduler.step()
    return [p.tolist() for p in ps]


def start():
    return [samples.numbers(tt, n, *s, dtype=tt.float32).requires_grad_() for n, s in (("a", (3, 4)), ("b", (5,)))]


@pytest.mark.parametrize("key", STATEFUL)
def test_saved_state_resumes_bit_for_bit(key):
    ps = start()
    optimizer = STATEFUL[key](ps)
    scheduler = lr_scheduler.StepLR(optimizer, 2, 0.5)
    walk(ps, optimizer, 5, scheduler)
    twins = [p.detach().clone().requires_grad_() for p in ps]
    other = STATEFUL[key](twins)
    schedule = lr_scheduler.StepLR(other, 2, 0.5)
    state = optimizer.state_dict()
    json.dumps(state["param_groups"])
    schedule_state = json.loads(json.dumps(scheduler.state_dict()))
    other.load_state_dict(state)
    schedule.load_state_dict(schedule_state)
    expected = walk(ps, optimizer, 5, scheduler)  # would change what was loaded if memory were shared
    assert walk(twins, other, 5, schedule) == expected
    without = [p.detach().clone().requires_grad_() for p in ps]
    fresh = [p.detach().clone().requires_grad_() for p in ps]
    assert walk(without, optimizer, 0) == walk(fresh, STATEFUL[key](fresh), 0)
    assert walk(ps, optimizer, 1) != walk(fresh, STATEFUL[key](fresh), 1)  # and the state matters


def test_a_state_of_another_shape_is_refused():
    a, b = start()
    state = optim.Adam([a, b]).state_dict()
    with pytest.raises(ValueError, match=r"groups of \[2\] parameters in the state, of \[1\] here"):
        optim.Adam([a]).load_state_dict(state)


WRONG_STATES = {
    "too small": (lambda s: s["state"][0].update(exp_avg=tt.zeros(1)), r"its exp_avg must be, too; got \(1,\)"),
    "no tensor": (lambda s: s["state"][0].update(exp_avg_sq=0.5), "got 0.5"),
    "a part": (lambda s: s["state"][0].pop("exp_avg"), "only a part of"),
    "of no parameter": (lambda s: s["state"].update({7: {}}), "parameter 7, of which there are 2"),
    "of another optimizer": (
        lambda s: s["state"][1].update(momentum_buffer=tt.zeros(5)),
        "'momentum_buffer', which is",
    ),
    "steps": (lambda s: s["state"][0].update(step=-1), "step must be 0 or more"),
    "a rate": (lambda s: s["param_groups"][0].update(lr=float("nan")), "lr must be 0 or more"),
}


@pytest.mark.parametrize("wrong", WRONG_STATES)
def test_wrong_state_is_refused_as_a_whole(wrong):
    change, message = WRONG_STATES[wrong]
    ps = start()
    optimizer = optim.AdamW(ps)
    walk(ps, optimizer, 2)
    before = optimizer.state_dict()
    state = optimizer.state_dict()
    change(state)
    with pytest.raises(ValueError, match=message):
        optimizer.load_state_dict(state)
    after = optimizer.state_dict()
    assert after["param_groups"] == before["param_groups"]
    assert all(after["state"][i][k] is v for i, entry in before["state"].items() for k, v in entry.items())


# --- Schedules


@pytest.mark.parametrize("key", samples.SCHEDULES)
def test_rates_match_pytorch(key, stored):
    compare(samples.rates(tt, key), stored, rtol=1e-13, atol=1e-16)


@pytest.mark.parametrize(("key", "by_hand"), more.ALL_RATES)
def test_combined_schedules(key, by_hand, stored):
    compare(more.rates(tt, key, by_hand), stored, rtol=1e-12, atol=1e-15)


def test_schedule_ignoring_the_current_rate_is_noticed(stored, monkeypatch):
    monkeypatch.setattr(lr_scheduler.Shape, "get_lr", lr_scheduler.Shape._lr_at)
    compare(more.rates(tt, "linear"), stored, rtol=1e-12, atol=1e-15)  # alone it is right
    for key, by_hand in (("step and exponential", False), ("linear", True)):
        with pytest.raises(AssertionError, match="rates"):
            compare(more.rates(tt, key, by_hand), stored, rtol=1e-12, atol=1e-15)


def in_a_step(key, wrap):
    """The rates that the steps themselves had, with the schedules' steps inside."""
    optimizer = more.groups(tt)
    schedulers = more.SCHEDULES[key](lr_scheduler, optimizer)
    ps = [p for g in optimizer.param_groups for p in g["params"]]

    def step(x):
        optimizer.zero_grad()
        (x * (ps[0].sum() + ps[1].sum())).backward()
        optimizer.step()
        for scheduler in schedulers:
            scheduler.step()

    step = wrap(step)
    for _ in range(10):
        step(tt.ones((), dtype=tt.float64))
    return [p.tolist() for p in ps], [(g["lr"], g["momentum"]) for g in optimizer.param_groups]


@pytest.mark.one_in(4)
@pytest.mark.parametrize("key", more.SCHEDULES)
def test_schedules_in_a_recording(key):
    assert in_a_step(key, tt.compile) == in_a_step(key, lambda step: step)


@pytest.mark.parametrize("key", ["one after another", "chained", "one cycle"])
def test_unreached_scheduler_step_is_undone(key):
    optimizer = more.groups(tt)
    (scheduler,) = more.SCHEDULES[key](lr_scheduler, optimizer)
    x = tt.ones(3)
    step = tt.compile(lambda i: (x[i].sum(), scheduler.step())[0])
    step(tt.tensor([1]))
    step(tt.tensor([2]))
    before = json.dumps([scheduler.state_dict(), [(g["lr"], g["momentum"]) for g in optimizer.param_groups]])
    with pytest.raises(IndexError):
        step(tt.tensor([7]))
    assert json.dumps([scheduler.state_dict(), [(g["lr"], g["momentum"]) for g in optimizer.param_groups]]) == before


@pytest.mark.parametrize("key", [*more.SCHEDULES, *more.PLATEAUS])
def test_saved_schedule_resumes(key):
    def made():
        optimizer = more.groups(tt)
        results = (more.PLATEAUS | more.SCHEDULES)[key](lr_scheduler, optimizer)
        return optimizer, results if isinstance(results, list) else [results]

    def go(optimizer, schedulers, times):
        results = []
        for t in times:
            for s in schedulers:
                s.step(*([more.METRICS[t]] if key in more.PLATEAUS else []))
            results.append([g["lr"] for g in optimizer.param_groups])
        return results

    optimizer, schedulers = made()
    go(optimizer, schedulers, range(9))
    kept = json.loads(json.dumps([s.state_dict() for s in schedulers]))
    other, twins = made()
    other.load_state_dict(optimizer.state_dict())
    for twin, one in zip(twins, kept, strict=True):
        twin.load_state_dict(one)
    assert go(other, twins, range(9, 20)) == go(optimizer, schedulers, range(9, 20))


def test_a_state_of_another_schedule_is_refused():
    optimizer = more.groups(tt)
    one, other = lr_scheduler.StepLR(optimizer, 2), lr_scheduler.CosineAnnealingLR(optimizer, 2)
    with pytest.raises(ValueError, match=r"StepLR.load_state_dict: the state is not of such a schedule: \['T_max'"):
        one.load_state_dict(other.state_dict())


def test_custom_schedule():
    class Halves(lr_scheduler.LRScheduler):
        def get_lr(self):
            return [base / (1 + self.last_epoch) for base in self.base_lrs]

    assert rates(Halves, steps=3) == [2.0, 1.0, 2 / 3]
    assert lr_scheduler._LRScheduler is lr_scheduler.LRScheduler


def test_reduce_on_plateau_is_refused_in_recordings():
    scheduler = lr_scheduler.ReduceLROnPlateau(more.groups(tt))
    with pytest.raises(RuntimeError, match="call it outside the compiled step"):
        tt.compile(lambda x: (x * 2, scheduler.step(0.5)))(tt.ones(1))


def test_schedule_one_step_late_is_noticed(stored, monkeypatch):
    monkeypatch.setitem(samples.SCHEDULES, "exponential", lambda s, o: s.LambdaLR(o, lambda t: 0.9 ** (t - 1)))
    with pytest.raises(AssertionError, match="exponential"):
        compare(samples.rates(tt, "exponential"), stored, rtol=1e-13, atol=1e-16)


def rates(make, steps=30, lr=2.0):
    optimizer = optim.SGD([tt.zeros(1).requires_grad_()], lr=lr)
    scheduler = make(optimizer)
    results = []
    for _ in range(steps):
        results.append(optimizer.param_groups[0]["lr"])
        scheduler.step()
    return results


def test_noam_follows_its_formula():
    actual = rates(lambda o: lr_scheduler.NoamLR(o, d_model=16, warmup=10))
    assert actual == pytest.approx([2 * 16**-0.5 * min(t**-0.5, t * 10**-1.5) for t in range(1, 31)], rel=1e-14)
    assert max(actual) == actual[9]


def test_warmup_cosine():
    result = rates(lambda o: lr_scheduler.WarmupCosineLR(o, warmup=5, total=25, floor=0.1))
    assert result[:5] == pytest.approx([0.4, 0.8, 1.2, 1.6, 2.0])
    cosine = [0.2 + 1.8 * (1 + math.cos(math.pi * k / 20)) / 2 for k in range(21)]
    assert result[5:26] == pytest.approx(cosine, rel=1e-14)
    assert result[25:] == pytest.approx([0.2] * 5)
    assert rates(lambda o: lr_scheduler.WarmupCosineLR(o, warmup=0, total=0), steps=2) == pytest.approx([2.0, 0.2])


def test_cosine_annealing_from_zero():
    actual = rates(lambda o: lr_scheduler.CosineAnnealingLR(o, T_max=4, eta_min=0.5), steps=5, lr=0.0)
    assert actual == pytest.approx([0.5 - 0.5 * (1 + math.cos(math.pi * t / 4)) / 2 for t in range(5)])


def test_schedules_resume_from_last_epoch():
    everything = rates(lambda o: lr_scheduler.StepLR(o, 3))

    def go_on(optimizer):
        with pytest.raises(KeyError, match="initial_lr"):
            lr_scheduler.StepLR(optimizer, 3, last_epoch=6)
        optimizer.param_groups[0].update(initial_lr=2.0, lr=everything[6])
        return lr_scheduler.StepLR(optimizer, 3, last_epoch=6)

    assert rates(go_on, steps=5) == pytest.approx(everything[7:12], rel=1e-15)


IN_A_ROW = {
    "two": lambda s, o, k, m: s.SequentialLR(o, [s.LinearLR(o, 0.1, 1.0, 3), s.CosineAnnealingLR(o, 4)], [3], k),
    "made from steps": lambda s, o, k, m: s.SequentialLR(
        o, [s.ConstantLR(o, 0.5, 3, last_epoch=m), s.ExponentialLR(o, 0.9, last_epoch=m)], [4], k
    ),
    "three": lambda s, o, k, m: s.SequentialLR(
        o, [s.ConstantLR(o, 0.5, 3), s.LambdaLR(o, lambda t: 0.8**t), s.StepLR(o, 2, 0.7)], [2, 5], k
    ),
    "at once": lambda s, o, k, m: s.SequentialLR(o, [s.ConstantLR(o), s.ExponentialLR(o, 0.9)], [0], k),
    "together": lambda s, o, k, m: s.SequentialLR(
        o, [s.ChainedScheduler([s.ConstantLR(o, 0.1, 2), s.ExponentialLR(o, 0.9)]), s.MultiStepLR(o, [1, 3])], [4], k
    ),
    "in rows": lambda s, o, k, m: s.SequentialLR(
        o, [s.SequentialLR(o, [s.ConstantLR(o), s.StepLR(o, 2)], [2], m), s.PolynomialLR(o, 4)], [4], k
    ),
    "one cycle": lambda s, o, k, m: s.SequentialLR(o, [s.OneCycleLR(o, 1.0, 9), s.ExponentialLR(o, 0.9)], [3], k),
}


@pytest.mark.parametrize("done", range(8))
@pytest.mark.parametrize("key", IN_A_ROW)
def test_schedules_in_a_row_go_on_from_last_epoch(key, done):
    """SequentialLR(last_epoch=4) gives the rates that a state after 4 steps gives, now and at all later steps."""

    def made(k, state=None):
        optimizer = more.groups(tt)
        if state is not None:
            optimizer.load_state_dict(state)
        return optimizer, IN_A_ROW[key](lr_scheduler, optimizer, k, k)

    def went(optimizer, scheduler):
        rates = []
        for _ in range(8 - done):
            rates.append([(g["lr"], g["momentum"]) for g in optimizer.param_groups])
            assert scheduler.get_last_lr() == [g["lr"] for g in optimizer.param_groups]
            scheduler.step()
        return rates

    first, scheduler = made(-1)
    for _ in range(done):
        scheduler.step()
    state, kept = first.state_dict(), scheduler.state_dict()
    loaded, restored = made(-1)
    loaded.load_state_dict(state)
    restored.load_state_dict(kept)
    other, resumed = made(done, state)
    assert resumed.last_epoch == restored.last_epoch == done
    assert went(other, resumed) == went(loaded, restored) == went(first, scheduler)


LATER_GROUP = {  # the rates of a group that is added, with the rate 0.5, after two steps
    "constant": (lambda s, o: s.ConstantLR(o), [0.5, 0.5, 1.5, 1.5]),
    "linear": (lambda s, o: s.LinearLR(o), [11 / 18, 13 / 18, 15 / 18, 15 / 18]),
    "polynomial": (lambda s, o: s.PolynomialLR(o), [1 / 3, 1 / 6, 0.0, 0.0]),
    "steps": (lambda s, o: s.StepLR(o, 2), [0.5, 0.05, 0.05, 0.005]),
    "milestones": (lambda s, o: s.MultiStepLR(o, [2, 4]), [0.5, 0.05, 0.05, 0.05]),
    "exponential": (lambda s, o: s.ExponentialLR(o, 0.9), [0.45, 0.405, 0.3645, 0.32805]),
    "chained": (lambda s, o: s.ChainedScheduler([s.StepLR(o, 2), s.ExponentialLR(o, 0.9)]), [0.45, 0.0405]),
    "plateau": (lambda s, o: s.ReduceLROnPlateau(o, patience=0), [0.05, 0.005, 0.0005]),
    "plateau, rates": (lambda s, o: s.ReduceLROnPlateau(o, min_lr=[0.1, 0.1]), "ReduceLROnPlateau"),
    "lambda": (lambda s, o: s.LambdaLR(o, lambda t: 0.9**t), "LambdaLR"),
    "multiplicative": (lambda s, o: s.MultiplicativeLR(o, lambda t: 0.9), "MultiplicativeLR"),
    "cosine": (lambda s, o: s.CosineAnnealingLR(o, 5), "CosineAnnealingLR"),
    "restarts": (lambda s, o: s.CosineAnnealingWarmRestarts(o, 5), "CosineAnnealingWarmRestarts"),
    "one cycle": (lambda s, o: s.OneCycleLR(o, 1.0, 20), "OneCycleLR"),
    "in a row": (lambda s, o: s.SequentialLR(o, [s.StepLR(o, 2), s.LambdaLR(o, lambda t: 0.9)], [2]), "LambdaLR"),
    "noam": (lambda s, o: s.NoamLR(o, 4, 2), "NoamLR"),
}


@pytest.mark.parametrize("key", LATER_GROUP)
def test_group_that_is_added_to_a_schedule(key):
    """Its rate follows as PyTorch's does; a schedule that needs a value for each group says what to do."""
    make, expected = LATER_GROUP[key]
    optimizer = more.groups(tt)
    scheduler = make(lr_scheduler, optimizer)
    metrics = [0.0] if key.startswith("plateau") else []
    for _ in range(2 - len(metrics)):
        scheduler.step(*metrics)
    optimizer.add_param_group({"params": [tt.zeros(1, requires_grad=True)], "lr": 0.5})
    if isinstance(expected, list):
        for rate in expected:
            scheduler.step(*metrics)
            assert optimizer.param_groups[2]["lr"] == scheduler.get_last_lr()[2] == pytest.approx(rate, rel=1e-12)
        return
    before = json.dumps([scheduler.state_dict(), [(g["lr"], g["momentum"]) for g in optimizer.param_groups]])
    with pytest.raises(RuntimeError, match=rf"{expected}: the optimizer has 3 parameter groups, .* made for 2; add"):
        scheduler.step(*metrics)
    after = json.dumps([scheduler.state_dict(), [(g["lr"], g["momentum"]) for g in optimizer.param_groups]])
    assert after == before


def test_schedule_made_anew_for_an_added_group():
    """The way that the sentence names."""
    optimizer = more.groups(tt)
    scheduler = lr_scheduler.LambdaLR(optimizer, lambda t: 0.9**t)
    scheduler.step()
    optimizer.add_param_group({"params": [tt.zeros(1, requires_grad=True)], "lr": 0.5, "initial_lr": 0.5})
    other = lr_scheduler.LambdaLR(optimizer, lambda t: 0.9**t, last_epoch=scheduler.last_epoch)
    assert other.get_last_lr() == pytest.approx([0.081, 0.324, 0.405], rel=1e-12)


# --- Hooks


def hooked(lib):
    """What hooks of an optimizer see and change, in the order in which they are called."""
    p = lib.ones(2, requires_grad=True)
    optimizer = lib.optim.SGD([p], lr=1.0)
    log, handles = [], []

    def closure():
        optimizer.zero_grad()
        (p * p).sum().backward()
        return log.append("closure")

    def seen(name, replace=lambda *args: None):
        def hook(*args):
            assert args[0] is optimizer
            log.append([name, *(str(type(a).__name__) for a in args[1:]), p.tolist()])
            return replace(*args)

        return hook

    def doubled(optimizer, state):
        return {**state, "param_groups": [{**group, "lr": 2 * group["lr"]} for group in state["param_groups"]]}

    for register, hook, more_options in (
        (optimizer.register_step_pre_hook, seen("pre"), {}),
        (optimizer.register_step_pre_hook, seen("pre, closure", lambda o, args, kw: ((*args, closure), kw)), {}),
        (optimizer.register_step_post_hook, seen("post"), {}),
        (optimizer.register_state_dict_pre_hook, seen("state pre"), {}),
        (optimizer.register_state_dict_pre_hook, seen("state pre, first"), {"prepend": True}),
        (optimizer.register_state_dict_post_hook, seen("state post", doubled), {}),
        (optimizer.register_state_dict_post_hook, seen("state post, first", doubled), {"prepend": True}),
        (optimizer.register_load_state_dict_pre_hook, seen("load pre", doubled), {}),
        (optimizer.register_load_state_dict_pre_hook, seen("load pre, first"), {"prepend": True}),
        (optimizer.register_load_state_dict_post_hook, seen("load post"), {}),
        (optimizer.register_load_state_dict_post_hook, seen("load post, first"), {"prepend": True}),
    ):
        handles.append(register(hook, **more_options))
    optimizer.step()
    state = optimizer.state_dict()
    log.append(state["param_groups"][0]["lr"])
    optimizer.load_state_dict(state)
    log.append([state["param_groups"][0]["lr"], optimizer.param_groups[0]["lr"]])
    for handle in handles[1:]:
        handle.remove()
    optimizer.step(closure)
    optimizer.load_state_dict(optimizer.state_dict())
    return [*log, p.tolist(), optimizer.param_groups[0]["lr"]]


HOOKED = [  # PyTorch's log
    *(["pre", "tuple", "dict", [1.0, 1.0]], ["pre, closure", "tuple", "dict", [1.0, 1.0]], "closure"),
    ["post", "tuple", "dict", [-1.0, -1.0]],
    *(["state pre, first", [-1.0, -1.0]], ["state pre", [-1.0, -1.0]]),
    *(["state post, first", "dict", [-1.0, -1.0]], ["state post", "dict", [-1.0, -1.0]], 4.0),
    *(["load pre, first", "dict", [-1.0, -1.0]], ["load pre", "dict", [-1.0, -1.0]]),
    *(["load post, first", [-1.0, -1.0]], ["load post", [-1.0, -1.0]], [4.0, 8.0]),
    *(["pre", "tuple", "dict", [-1.0, -1.0]], "closure", [15.0, 15.0], 8.0),
]


def test_hooks_of_an_optimizer():
    assert hooked(tt) == HOOKED


def test_hooks_of_an_optimizer_are_pytorchs():
    assert hooked(pytest.importorskip("torch", reason=missing("torch"))) == HOOKED


def test_step_hook_that_returns_something_else_is_refused():
    p = tt.ones(1).requires_grad_()
    optimizer = optim.Adam([p])
    optimizer.register_step_pre_hook(lambda optimizer, args, kwargs: 5)
    with pytest.raises(RuntimeError, match=r"Adam: a step pre-hook returned 5; expected None or \(args, kwargs\)"):
        optimizer.step()


@pytest.mark.parametrize("when", ["pre", "post"])
def test_step_hook_is_a_condition_of_a_recording(when):
    """A hook that changes tensors does so in replays; one that comes or goes makes another recording."""
    p, count = tt.ones(1).requires_grad_(), tt.zeros(1)
    optimizer = optim.SGD([p], lr=0.5)

    def step(x):
        optimizer.zero_grad()
        (p * x).sum().backward()
        optimizer.step()

    compiled = tt.compile(step)
    for _ in range(2):
        compiled(tt.ones(1))
    handle = getattr(optimizer, f"register_step_{when}_hook")(lambda optimizer, args, kwargs: (count.add_(1), None)[1])
    for _ in range(3):
        compiled(tt.ones(1))
    assert count.item() == 3
    handle.remove()
    compiled(tt.ones(1))
    assert count.item() == 3 and p.item() == -2.0


def test_copy_of_an_optimizer_with_hooks():
    p, log = tt.ones(1).requires_grad_(), []
    optimizer = optim.SGD([p])
    optimizer.register_step_post_hook(lambda optimizer, args, kwargs: log.append(optimizer))
    other = copy.deepcopy(optimizer)
    other.step()
    assert log == [other]
