"""Each option changes what it is for: with the option left at its default, the same case must give something else.

A table has a value for each option; a new option without one fails. So an optimizer that forgets its `eps` is noticed.
"""

import inspect
import math

import numpy as np
import pytest

import tinytensor as tt
from tinytensor import optim
from tinytensor.optim import lr_scheduler
from tinytensor.utils import data

MOMENTUM = {"momentum": 0.9}
OPTIMIZERS = {  # optimizer: {option: (a value, what must be set beside it)}
    optim.SGD: {
        "lr": (0.3, {}),
        "momentum": (0.9, {}),
        "dampening": (0.5, MOMENTUM),
        "weight_decay": (0.1, {}),
        "nesterov": (True, MOMENTUM),
        "maximize": (True, {}),
    },
    optim.Adam: {
        "lr": (0.3, {}),
        "betas": ((0.5, 0.9), {}),
        "eps": (0.5, {}),
        "weight_decay": (0.1, {}),
        "amsgrad": (True, {"betas": (0.9, 0.1), "lr": 0.5}),
        "maximize": (True, {}),
    },
    optim.RMSprop: {
        "lr": (0.3, {}),
        "alpha": (0.5, {}),
        "eps": (0.5, {}),
        "weight_decay": (0.1, {}),
        "momentum": (0.9, {}),
        "centered": (True, {}),
        "maximize": (True, {}),
    },
    optim.Adagrad: {
        "lr": (0.3, {}),
        "lr_decay": (0.1, {}),
        "weight_decay": (0.1, {}),
        "eps": (0.5, {}),
        "initial_accumulator_value": (0.5, {}),
        "maximize": (True, {}),
    },
    optim.Adadelta: {
        "lr": (0.3, {}),
        "rho": (0.5, {}),
        "eps": (0.5, {}),
        "weight_decay": (0.1, {}),
        "maximize": (True, {}),
    },
    optim.Adamax: {
        "lr": (0.3, {}),
        "betas": ((0.5, 0.9), {}),
        "eps": (0.5, {}),
        "weight_decay": (0.1, {}),
        "maximize": (True, {}),
    },
    optim.LBFGS: {
        "lr": (0.3, {}),
        "max_iter": (2, {}),
        "max_eval": (2, {}),
        "tolerance_grad": (1.0, {}),
        "tolerance_change": (0.5, {}),
        "history_size": (1, {}),
        "line_search_fn": ("strong_wolfe", {"lr": 3.0}),
    },
}
OPTIMIZERS[optim.AdamW] = OPTIMIZERS[optim.Adam]
SCHEDULES = {  # schedule: (what it needs, {option: (a value, what must be set beside it)})
    lr_scheduler.LambdaLR: ({"lr_lambda": lambda t: 0.9**t}, {}),
    lr_scheduler.MultiplicativeLR: ({"lr_lambda": lambda t: 0.9 + 0.01 * t}, {}),
    lr_scheduler.ConstantLR: ({}, {"factor": (0.7, {}), "total_iters": (3, {})}),
    lr_scheduler.LinearLR: ({}, {"start_factor": (0.7, {}), "end_factor": (0.5, {}), "total_iters": (3, {})}),
    lr_scheduler.PolynomialLR: ({}, {"total_iters": (9, {}), "power": (2.0, {})}),
    lr_scheduler.StepLR: ({"step_size": 2}, {"gamma": (0.7, {})}),
    lr_scheduler.MultiStepLR: ({"milestones": [2, 4]}, {"gamma": (0.7, {})}),
    lr_scheduler.ExponentialLR: ({"gamma": 0.9}, {}),
    lr_scheduler.CosineAnnealingLR: ({"T_max": 5}, {"eta_min": (0.05, {})}),
    lr_scheduler.CosineAnnealingWarmRestarts: ({"T_0": 3}, {"T_mult": (2, {}), "eta_min": (0.05, {})}),
    lr_scheduler.WarmupCosineLR: ({"warmup": 2, "total": 8}, {"floor": (0.5, {})}),
    lr_scheduler.NoamLR: ({"d_model": 16, "warmup": 3}, {}),
    lr_scheduler.OneCycleLR: (
        {"max_lr": 1.0, "total_steps": 20},
        {
            "pct_start": (0.6, {}),
            "anneal_strategy": ("linear", {}),
            "cycle_momentum": (False, {}),
            "base_momentum": (0.5, {}),
            "max_momentum": (0.99, {}),
            "div_factor": (5.0, {}),
            "final_div_factor": (10.0, {}),
            "three_phase": (True, {}),
        },
    ),
    lr_scheduler.ReduceLROnPlateau: (
        {},
        {
            "mode": ("max", {"patience": 0}),
            "factor": (0.5, {"patience": 0}),
            "patience": (1, {}),
            "threshold": (0.5, {"patience": 0}),
            "threshold_mode": ("abs", {"patience": 0, "threshold": 0.6}),
            "cooldown": (3, {"patience": 0}),
            "min_lr": (0.05, {"patience": 0}),
            "eps": (1.0, {"patience": 0}),
        },
    ),
}
OTHERWISE_SAID = {"epochs", "steps_per_epoch"}  # another way to say total_steps
METRICS = [2.0, 0.9, 0.85, 0.8, 1.2, 1.3, 0.3, 0.9, 1.0, 1.1, 1.2]


def options_of(made, beside: set[str]) -> set[str]:
    parameters = inspect.signature(made).parameters.values()
    return {p.name for p in parameters if p.default is not p.empty} - beside


def trajectory(category, **options) -> list:
    """Four steps down a curved valley, with gradients that change their sign."""
    w = tt.tensor([2.0, -1.0, 0.5], dtype=tt.float64, requires_grad=True)
    optimizer, seen = category([w], **options), []

    def closure():
        optimizer.zero_grad()
        loss = ((w - tt.tensor([1.0, 2.0, 0.0], dtype=tt.float64)) ** 4).sum() + (w * 3).sin().sum()
        loss.backward()
        return loss

    for _ in range(4):
        if category is not optim.LBFGS:
            closure()
        optimizer.step(*([closure] if category is optim.LBFGS else []))
        seen.append(w.tolist())
    return seen


CASES = [(cls, option) for cls, table in OPTIMIZERS.items() for option in table]


@pytest.mark.one_in(5)
@pytest.mark.parametrize(("category", "option"), CASES, ids=lambda case: getattr(case, "__name__", case))
def test_every_optimizer_option_matters(category, option):
    value, beside = OPTIMIZERS[category][option]
    assert trajectory(category, **beside, **{option: value}) != trajectory(category, **beside)


def test_every_option_of_an_optimizer_is_in_the_table():
    categories = {k for k in vars(optim).values() if inspect.isclass(k) and issubclass(k, optim.Optimizer)}
    assert categories - {optim.Optimizer} == set(OPTIMIZERS)
    for cls, table in OPTIMIZERS.items():
        assert options_of(cls, set()) == set(table), cls.__name__


def rates(category, **options) -> list:
    w = tt.zeros(1, requires_grad=True)
    optimizer = optim.SGD([w], lr=0.1, momentum=0.9)
    optimizer.param_groups[0]["initial_lr"] = 0.04
    schedule, seen = category(optimizer, **options), []
    for metric in METRICS:
        seen.append([optimizer.param_groups[0][name] for name in ("lr", "momentum")])
        optimizer.step()
        schedule.step(*([metric] if category is lr_scheduler.ReduceLROnPlateau else []))
    return seen


SCHEDULED = [(cls, option) for cls, (_, table) in SCHEDULES.items() for option in table]
SCHEDULED += [(cls, "last_epoch") for cls in SCHEDULES if cls is not lr_scheduler.ReduceLROnPlateau]


@pytest.mark.parametrize(("category", "option"), SCHEDULED, ids=lambda case: getattr(case, "__name__", case))
def test_every_schedule_option_matters(category, option):
    needed, table = SCHEDULES[category]
    value, beside = table.get(option, (3, {}))
    beside = needed | beside
    assert rates(category, **beside, **{option: value}) != rates(category, **beside)


@pytest.mark.parametrize("category", SCHEDULES, ids=lambda category: category.__name__)
def test_every_required_schedule_argument_matters(category):
    needed, _ = SCHEDULES[category]
    for name, value in needed.items():
        other = (lambda t: 0.5) if callable(value) else [1, 3] if isinstance(value, list) else value * 1.5
        other = int(other) if isinstance(value, int) else other
        assert rates(category, **needed) != rates(category, **needed | {name: other}), name


def test_every_option_of_a_schedule_is_in_the_table():
    several = {lr_scheduler.SequentialLR, lr_scheduler.ChainedScheduler}
    base = {lr_scheduler.LRScheduler, lr_scheduler.Shape, lr_scheduler._Several}
    categories = {
        k for k in vars(lr_scheduler).values() if inspect.isclass(k) and issubclass(k, lr_scheduler.LRScheduler)
    }
    assert categories - base - several == set(SCHEDULES)
    for cls, (needed, table) in SCHEDULES.items():
        assert options_of(cls, {"last_epoch", *needed, *OTHERWISE_SAID}) == set(table), cls.__name__


def test_lr_decay_never_stops():
    """The rate of Adagrad at step t is lr / (1 + (t - 1) lr_decay), also after many steps."""
    w = tt.zeros(1, dtype=tt.float64, requires_grad=True)
    optimizer, before, total = optim.Adagrad([w], lr=1.0, lr_decay=0.1, eps=0.0), 0.0, 0.0
    for t in range(60):
        w.grad = tt.ones(1, dtype=tt.float64)
        optimizer.step()
        total += 1
        assert before - w.item() == pytest.approx(1 / (1 + 0.1 * t) / math.sqrt(total), rel=1e-9)
        before = w.item()


# --- Gradients without end


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    "options", [{}, MOMENTUM, MOMENTUM | {"nesterov": True}, MOMENTUM | {"dampening": 0.3}], ids=str
)
def test_sgd_of_an_infinite_gradient(options, dtype):
    """The parameter goes to the infinity on the other side, and stays there, as PyTorch's does."""
    w = tt.zeros(2, dtype=getattr(tt, dtype), requires_grad=True)
    optimizer = optim.SGD([w], lr=0.1, **options)
    for gradient in ([math.inf, -math.inf], [0.0, 1.0], [1.0, 0.0]):
        w.grad = tt.tensor(gradient, dtype=getattr(tt, dtype))
        optimizer.step()
        assert w.tolist() == [-math.inf, math.inf]


@pytest.mark.parametrize("category", [optim.Adam, optim.AdamW])
def test_infinite_parameter_stays_infinite(category):
    w = tt.tensor([math.inf, -math.inf], requires_grad=True)
    optimizer = category([w], weight_decay=0.0)
    w.grad = tt.ones(2)
    optimizer.step()
    assert w.tolist() == [math.inf, -math.inf]


# --- Data

NUMBERS = list(range(10))


def seeded(seed: int = 7) -> tt.Generator:
    return tt.Generator().manual_seed(seed)


def batches(**options) -> list:
    tt.manual_seed(0)
    return [np.asarray(batch).tolist() for batch in data.DataLoader(NUMBERS, **options)]


LOADER = {
    "batch_size": (3, {}),
    "shuffle": (True, {}),
    "sampler": ([3, 1], {}),
    "batch_sampler": ([[1, 2], [0]], {}),
    "collate_fn": (sum, {}),
    "drop_last": (True, {"batch_size": 3}),
    "generator": (seeded, {"shuffle": True}),
}
NO_MATTER = {  # options that change no batch: there is one process, one device
    *("num_workers", "pin_memory", "timeout", "worker_init_fn", "multiprocessing_context", "prefetch_factor"),
    *("persistent_workers", "pin_memory_device", "in_order"),
}


@pytest.mark.parametrize("option", LOADER)
def test_every_loader_option_matters(option):
    value, beside = LOADER[option]
    value = value() if value is seeded else value
    assert batches(**beside, **{option: value}) != batches(**beside)


def test_every_option_of_the_loader_is_in_a_table():
    assert options_of(data.DataLoader, set()) == set(LOADER) | NO_MATTER


@pytest.mark.parametrize("size", range(1, 6))
@pytest.mark.parametrize("n", range(13))
@pytest.mark.parametrize("drop_last", [True, False])
def test_loader_length_matches_its_batches(n, size, drop_last):
    loader = data.DataLoader(list(range(n)), size, drop_last=drop_last)
    results = [np.asarray(batch).tolist() for batch in loader]
    assert len(loader) == len(results) == len(data.BatchSampler(range(n), size, drop_last))
    assert len(results) == (n // size if drop_last else math.ceil(n / size))
    assert [i for batch in results for i in batch] == list(range(n // size * size if drop_last else n))


SAMPLERS = {  # (sampler, option): (a value, what must be set beside it)
    (data.RandomSampler, "replacement"): (True, {"data_source": NUMBERS}),
    (data.RandomSampler, "num_samples"): (4, {"data_source": NUMBERS}),
    (data.RandomSampler, "generator"): (seeded, {"data_source": NUMBERS}),
    (data.SubsetRandomSampler, "generator"): (seeded, {"indices": NUMBERS}),
    (data.WeightedRandomSampler, "replacement"): (False, {"weights": [1.0, 3.0, 2.0], "num_samples": 3}),
    (data.WeightedRandomSampler, "generator"): (seeded, {"weights": [1.0, 3.0, 2.0], "num_samples": 9}),
}


@pytest.mark.parametrize(("category", "option"), SAMPLERS, ids=lambda case: getattr(case, "__name__", case))
def test_every_sampler_option_matters(category, option):
    value, beside = SAMPLERS[category, option]

    def drawn(**options) -> list:
        tt.manual_seed(0)
        return list(category(**beside, **options))

    assert drawn(**{option: value() if value is seeded else value}) != drawn()


def test_every_option_of_a_sampler_is_in_the_table():
    categories = {k for k in vars(data).values() if inspect.isclass(k) and issubclass(k, data.Sampler)}
    results = {(cls, option) for cls in categories for option in options_of(cls, {"data_source"})}
    assert results == set(SAMPLERS)


@pytest.mark.parametrize("n", [1, 7, 10, 11, 23])
@pytest.mark.parametrize("parts", [1, 3, 4, 6])
def test_random_split_shares_the_rest_in_turn(n, parts):
    """Each part has its fraction, rounded down, and the first parts one more each (PyTorch's rule)."""
    results = [len(part) for part in data.random_split(list(range(n)), [1 / parts] * parts, seeded())]
    least = math.floor(n * (1 / parts))
    left = n - least * parts
    assert results == [least + (i < left) for i in range(parts)]


def test_random_split_with_a_large_rest():
    result = data.random_split(list(range(19)), [0.05] * 20, seeded())
    assert [len(part) for part in result] == [1] * 19 + [0]
    assert sorted(i for part in result for i in part.indices) == list(range(19))
    assert [p.indices for p in result] != [
        p.indices for p in data.random_split(list(range(19)), [0.05] * 20, seeded(8))
    ]
