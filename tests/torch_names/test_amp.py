"""amp.GradScaler on a CPU: the numbers are those of PyTorch 2.13, whose GradScaler("cpu") ran the same lines."""

import copy
import importlib
import math
import pickle

import pytest

import tinytensor as tt
from tinytensor.amp import GradScaler


def iteration(scaler, optimizer, w, gradient) -> float:
    """One iteration, in which w gets this gradient; returns the scaled loss."""
    optimizer.zero_grad()
    loss = scaler.scale((w * tt.tensor(gradient)).sum())
    loss.backward()
    assert scaler.step(optimizer) is None
    scaler.update()
    return loss.item()


def parts(values=(1.0, 2.0), **options):
    w = tt.nn.Parameter(tt.tensor(list(values)))
    return w, tt.optim.SGD([w], lr=0.1), GradScaler("cpu", **options)


# the gradient; then the scaled loss, the parameter, the scale and the steps since it changed, as PyTorch has them
STEPS = [
    ([1.0, 2.0], 40.0, [0.9, 1.8], 8.0, 1),
    ([math.inf, 1.0], math.inf, [0.9, 1.8], 4.0, 0),
    ([1.0, 1.0], 10.8, [0.8, 1.7], 4.0, 1),
    ([1.0, 1.0], 10.0, [0.7, 1.6], 8.0, 0),
    ([1.0, math.nan], math.nan, [0.7, 1.6], 4.0, 0),
    ([1.0, 1.0], 9.2, [0.6, 1.5], 4.0, 1),
]


def test_steps_with_infinite_gradients_are_left_out():
    w, optimizer, scaler = parts(init_scale=8.0, growth_interval=2)
    for gradient, loss, values, scale, steps in STEPS:
        assert iteration(scaler, optimizer, w, gradient) == pytest.approx(loss, rel=1e-6, nan_ok=True)
        assert w.tolist() == pytest.approx(values, rel=1e-6)
        state = {"scale": scale, "growth_factor": 2.0, "backoff_factor": 0.5, "growth_interval": 2}
        assert scaler.state_dict() == state | {"_growth_tracker": steps} and scaler.get_scale() == scale


def test_steps_are_those_without_a_scaler():
    """With a power of 2, to the last bit, and with momentum, whose state a step that is left out does not change."""
    ends = []
    for scaler in (GradScaler("cpu"), GradScaler("cpu", enabled=False)):
        w = tt.nn.Parameter(tt.tensor([0.3, -1.7]))
        optimizer = tt.optim.AdamW([w], lr=0.01)
        for step in range(6):
            if step == 3 and scaler.is_enabled():
                iteration(scaler, optimizer, w, [math.inf, 0.0])
            iteration(scaler, optimizer, w, [0.1 * step, -0.7])
        ends.append((w.tolist(), optimizer.state[w]["step"], optimizer.state[w]["exp_avg"].tolist()))
    assert ends[0] == ends[1]


def test_defaults_and_setters():
    scaler = GradScaler("cpu")
    state = {"scale": 65536.0, "growth_factor": 2.0, "backoff_factor": 0.5, "growth_interval": 2000}
    assert scaler.is_enabled() and scaler.state_dict() == state | {"_growth_tracker": 0}
    scaler.set_growth_factor(3.0)
    scaler.set_backoff_factor(0.25)
    scaler.set_growth_interval(5)
    assert (scaler.get_growth_factor(), scaler.get_backoff_factor(), scaler.get_growth_interval()) == (3.0, 0.25, 5)


OFF = [
    lambda: GradScaler(),
    lambda: GradScaler("cuda"),
    lambda: GradScaler("cuda:1", enabled=True),
    lambda: GradScaler("cpu", enabled=False),
    lambda: GradScaler(init_scale=1024.0),
    lambda: GradScaler(growth_interval=1),
    lambda: tt.GradScaler(enabled=True),
    lambda: importlib.import_module("tinytensor.cuda.amp").GradScaler(),
    lambda: importlib.import_module("tinytensor.cuda.amp").GradScaler(1024.0, 2.0, 0.5, 100, True),
]


@pytest.mark.parametrize("make", OFF)
def test_a_scaler_of_another_device_passes_through(make):
    scaler = make()
    assert not scaler.is_enabled() and scaler.get_scale() == 1.0 and scaler.state_dict() == {}
    scaler.load_state_dict({})
    scaler.update()
    w, optimizer, _ = parts()
    loss = (w * w).sum()
    assert scaler.scale(loss) is loss
    loss.backward()
    scaler.unscale_(optimizer)
    assert scaler.step(optimizer, lambda: 5) == 5 and w.tolist() == pytest.approx([0.8, 1.6])
    assert not pickle.loads(pickle.dumps(scaler)).is_enabled()


def test_gradients_are_clipped_between_unscale_and_step():
    w, optimizer, scaler = parts((1.0, 1.0), init_scale=4.0)
    scaler.scale((w * w).sum()).backward()
    assert w.grad.tolist() == [8.0, 8.0]
    scaler.unscale_(optimizer)
    assert w.grad.tolist() == [2.0, 2.0]
    assert tt.nn.utils.clip_grad_norm_([w], 1.0).item() == pytest.approx(2.8284271)
    scaler.step(optimizer)
    scaler.update()
    assert w.tolist() == pytest.approx([0.9292893, 0.9292893], rel=1e-6) and scaler.get_scale() == 4.0


def test_two_optimizers_are_judged_apart_but_share_the_scale():
    a, b = tt.nn.Parameter(tt.ones(1)), tt.nn.Parameter(tt.ones(1))
    first, second, scaler = tt.optim.SGD([a], lr=0.1), tt.optim.SGD([b], lr=0.1), GradScaler("cpu", init_scale=4.0)
    scaler.scale((a * math.inf + b).sum()).backward()
    scaler.step(first)
    scaler.step(second)
    scaler.update()
    assert a.item() == 1.0 and b.item() == pytest.approx(0.9) and scaler.get_scale() == 2.0


def test_the_scale_stays_within_float32():
    w, optimizer, scaler = parts(init_scale=2.0**127, growth_interval=1)
    iteration(scaler, optimizer, w, [0.0, 0.0])
    assert scaler.get_scale() == 2.0**127  # twice that is infinite
    scaler = GradScaler("cpu", init_scale=1e-3)
    for _ in range(200):
        iteration(scaler, optimizer, w, [math.inf, 0.0])
    assert scaler.get_scale() == 0.0


def test_outputs_have_many_forms():
    scaler = GradScaler("cpu", init_scale=4.0)
    one, (two,) = scaler.scale([tt.ones(1), (tt.ones(2),)])
    assert one.tolist() == [4.0] and two.tolist() == [4.0, 4.0]
    assert [y.item() for y in scaler.scale(x for x in [tt.ones(1)])] == [4.0]
    assert scaler.scale(tt.ones(1, dtype=tt.float64)).dtype is tt.float64
    assert scaler.scale(tt.ones(1, dtype=tt.int64)).dtype is tt.float32


def test_a_new_scale_is_taken_as_it_is():
    for new in (16.0, 16, tt.tensor(16.0)):
        w, optimizer, scaler = parts()
        scaler.scale((w * w).sum()).backward()
        scaler.step(optimizer)
        scaler.update(new)
        assert scaler.get_scale() == 16.0


def test_state_is_restored():
    state = {"scale": 3.0, "growth_factor": 2.5, "backoff_factor": 0.1, "growth_interval": 7, "_growth_tracker": 5}
    scaler = GradScaler("cpu")
    scaler.load_state_dict(state)
    for twin in (scaler, pickle.loads(pickle.dumps(scaler)), copy.deepcopy(scaler)):
        assert twin.state_dict() == state and twin.scale(tt.ones(1)).tolist() == [3.0]


def scaled():
    w, optimizer, scaler = parts()
    scaler.scale((w * w).sum()).backward()
    return w, optimizer, scaler


def unscaled_twice():
    _, optimizer, scaler = scaled()
    scaler.unscale_(optimizer)
    scaler.unscale_(optimizer)


def unscaled_after_step():
    _, optimizer, scaler = scaled()
    scaler.step(optimizer)
    scaler.unscale_(optimizer)


def stepped_twice():
    _, optimizer, scaler = scaled()
    scaler.step(optimizer)
    scaler.step(optimizer)


def without_gradients():
    _, optimizer, scaler = scaled()
    optimizer.zero_grad()
    scaler.step(optimizer)


def pickled_in_between():
    _, optimizer, scaler = scaled()
    scaler.unscale_(optimizer)
    pickle.dumps(scaler)


REFUSED = {
    "unscaled twice": (unscaled_twice, RuntimeError, "unscale_: unscale_.. of this optimizer came before"),
    "unscaled after step": (unscaled_after_step, RuntimeError, "unscale_: step.. of this optimizer came before"),
    "stepped twice": (stepped_twice, RuntimeError, "step: step.. of this optimizer came before; call update"),
    "no gradients": (without_gradients, RuntimeError, "no parameter of this optimizer has a gradient"),
    "pickled in between": (pickled_in_between, RuntimeError, "it can be pickled after update"),
    "nothing scaled": (lambda: parts()[2].step(parts()[1]), RuntimeError, "nothing was scaled; call scale.loss."),
    "update first": (lambda: parts()[2].update(), RuntimeError, "update: nothing was scaled"),
    "update without step": (lambda: scaled()[2].update(), RuntimeError, "update: no step.. or unscale_.. since"),
    "closure": (lambda: scaled()[2].step(scaled()[1], closure=lambda: 1), RuntimeError, "a closure is not offered"),
    "a number": (lambda: parts()[2].scale(3.0), ValueError, "scale: expected a tensor or an iterable of ten.*got 3.0"),
    "growth": (lambda: parts(growth_factor=1.0), ValueError, "growth_factor is 1.0; expected more than 1"),
    "backoff": (lambda: parts(backoff_factor=1.0), ValueError, "backoff_factor is 1.0; expected less than 1"),
    "empty state": (lambda: parts()[2].load_state_dict({}), RuntimeError, "the state is empty"),
    "device": (lambda: GradScaler("gpu"), RuntimeError, "'gpu' is no device"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_wrong_use_of_the_scaler_raises(name):
    call, error, sentence = REFUSED[name]
    with pytest.raises(error, match=sentence):
        call()
