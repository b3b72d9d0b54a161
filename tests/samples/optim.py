"""Schedules and optimizers as programs for `torch` and `tinytensor` alike; `oracle/generate_optim.py` stores PyTorch's.

Schedules that act together, or on rates that a hand sets in between, are what the closed formulas of each alone cannot
give, so the programs here are mostly of that kind.
"""

import math

import numpy as np

from tests.samples import nn
from tests.samples.nn import numbers

STEPS = 24

SCHEDULES = {
    "linear": lambda s, o: [s.LinearLR(o)],
    "linear down": lambda s, o: [s.LinearLR(o, 1.0, 0.0, 6)],
    "polynomial": lambda s, o: [s.PolynomialLR(o, 10, 2.0)],
    "polynomial, of no steps": lambda s, o: [s.PolynomialLR(o, 0)],
    "polynomial, of one step": lambda s, o: [s.PolynomialLR(o, 1)],
    "polynomial, of power 0": lambda s, o: [s.PolynomialLR(o, 3, 0.0)],
    "exponential of 0": lambda s, o: [s.ExponentialLR(o, 0.0)],
    "steps of 1, by 0": lambda s, o: [s.StepLR(o, 1, 0.0)],
    "no milestones": lambda s, o: [s.MultiStepLR(o, [])],
    "milestone at 0": lambda s, o: [s.MultiStepLR(o, [0, 0, 2], 0.5)],
    "cosine of one step": lambda s, o: [s.CosineAnnealingLR(o, 1)],
    "restarts of one step": lambda s, o: [s.CosineAnnealingWarmRestarts(o, 1)],
    "one cycle that only falls": lambda s, o: [s.OneCycleLR(o, 1.0, STEPS, pct_start=0.0)],
    "one cycle that only rises": lambda s, o: [s.OneCycleLR(o, 1.0, 30, pct_start=1.0)],
    "one alone": lambda s, o: [s.SequentialLR(o, [s.ConstantLR(o)], [])],
    "second at once": lambda s, o: [s.SequentialLR(o, [s.ConstantLR(o), s.ExponentialLR(o, 0.9)], [0])],
    "second left out": lambda s, o: [
        s.SequentialLR(o, [s.ConstantLR(o), s.ExponentialLR(o, 0.9), s.ExponentialLR(o, 0.5)], [2, 2])
    ],
    "multiplicative": lambda s, o: [s.MultiplicativeLR(o, lambda t: 0.9 + 0.01 * t)],
    "cosine, over its end": lambda s, o: [s.CosineAnnealingLR(o, 7, 0.02)],
    "warm restarts": lambda s, o: [s.CosineAnnealingWarmRestarts(o, 5)],
    "longer restarts": lambda s, o: [s.CosineAnnealingWarmRestarts(o, 3, 2, 0.01)],
    "one cycle": lambda s, o: [s.OneCycleLR(o, 1.0, STEPS)],
    "one cycle, linear": lambda s, o: [
        s.OneCycleLR(o, [1.0, 2.0], epochs=6, steps_per_epoch=5, anneal_strategy="linear")
    ],
    "one cycle of three phases": lambda s, o: [s.OneCycleLR(o, 0.5, 30, three_phase=True, pct_start=0.4)],
    "step and exponential": lambda s, o: [s.StepLR(o, 4, 0.5), s.ExponentialLR(o, 0.95)],
    "linear and cosine": lambda s, o: [s.LinearLR(o, 0.1, 1.0, 6), s.CosineAnnealingLR(o, 12, 0.01)],
    "constant and steps": lambda s, o: [s.ConstantLR(o, 0.1, 4), s.MultiStepLR(o, [3, 8, 8, 15], 0.3)],
    "lambda and exponential": lambda s, o: [s.LambdaLR(o, lambda t: 1 / (1 + t)), s.ExponentialLR(o, 0.9)],
    "exponential and cosine": lambda s, o: [s.ExponentialLR(o, 0.9), s.CosineAnnealingLR(o, 5)],
    "one after another": lambda s, o: [
        s.SequentialLR(o, [s.LinearLR(o, 0.1, 1.0, 5), s.CosineAnnealingLR(o, 12)], [5])
    ],
    "three in a row": lambda s, o: [
        s.SequentialLR(o, [s.ConstantLR(o, 0.5, 3), s.ExponentialLR(o, 0.9), s.StepLR(o, 2, 0.7)], milestones=[4, 11])
    ],
    "in a row, of functions": lambda s, o: [
        s.SequentialLR(o, [s.LambdaLR(o, lambda t: (t + 1) / 5), s.LambdaLR(o, lambda t: 0.8**t)], [5])
    ],
    "in a row, then restarts": lambda s, o: [
        s.SequentialLR(o, [s.LinearLR(o, 0.5, total_iters=4), s.CosineAnnealingWarmRestarts(o, 6)], [4])
    ],
    "chained": lambda s, o: [s.ChainedScheduler([s.ConstantLR(o, 0.1, 4), s.ExponentialLR(o, 0.9)], optimizer=o)],
}


def resumed(o):
    """The optimizer, as if its groups had begun with other rates and were some steps on."""
    for group in o.param_groups:
        group["initial_lr"] = 1.5 * group["lr"]
    return o


SCHEDULES |= {
    f"{name}, from step {k + 1}": lambda s, o, make=make, k=k: [make(s, resumed(o), k)]
    for k in (0, 3)
    for name, make in {
        "lambda": lambda s, o, k: s.LambdaLR(o, lambda t: 0.9**t, last_epoch=k),
        "multiplicative": lambda s, o, k: s.MultiplicativeLR(o, lambda t: 0.9 + 0.01 * t, last_epoch=k),
        "constant": lambda s, o, k: s.ConstantLR(o, 0.5, 4, last_epoch=k),
        "linear": lambda s, o, k: s.LinearLR(o, 0.3, 1.0, 6, last_epoch=k),
        "polynomial": lambda s, o, k: s.PolynomialLR(o, 9, 2.0, last_epoch=k),
        "step": lambda s, o, k: s.StepLR(o, 4, 0.5, last_epoch=k),
        "milestones": lambda s, o, k: s.MultiStepLR(o, [1, 4, 6], 0.5, last_epoch=k),
        "exponential": lambda s, o, k: s.ExponentialLR(o, 0.9, last_epoch=k),
        "cosine": lambda s, o, k: s.CosineAnnealingLR(o, 4, 0.01, last_epoch=k),
        "restarts": lambda s, o, k: s.CosineAnnealingWarmRestarts(o, 6, 2, 0.01, last_epoch=k),
    }.items()
}

# of metrics that first fall, then stay, then rise
METRICS = [*(1.0 / (1 + t) for t in range(8)), *([0.125] * 8), *(0.1 * t for t in range(8))]
PLATEAUS = {
    "plateau": lambda s, o: s.ReduceLROnPlateau(o, patience=2),
    "plateau, rising": lambda s, o: s.ReduceLROnPlateau(o, mode="max", factor=0.5, patience=1, cooldown=2),
    "plateau, absolute": lambda s, o: s.ReduceLROnPlateau(
        o, "min", 0.3, 1, threshold=0.05, threshold_mode="abs", min_lr=[0.01, 0.1]
    ),
    "plateau, absolutely rising": lambda s, o: s.ReduceLROnPlateau(
        o, "max", 0.3, 0, threshold=0.05, threshold_mode="abs", eps=1e-3
    ),
}


def groups(lib):
    a, b = (numbers(lib, n, 2).requires_grad_() for n in "ab")
    return lib.optim.SGD([{"params": [a]}, {"params": [b], "lr": 0.4}], lr=0.1, momentum=0.9)


def rates(lib, key, by_hand=False):
    """The rates (and momenta) of two groups; by hand they are halved before the tenth step."""
    optimizer = groups(lib)
    if key in PLATEAUS:
        schedulers = [PLATEAUS[key](lib.optim.lr_scheduler, optimizer)]
    else:
        schedulers = SCHEDULES[key](lib.optim.lr_scheduler, optimizer)
    results = []
    for t in range(STEPS):
        results.append([float(g[name]) for g in optimizer.param_groups for name in ("lr", "momentum")])
        optimizer.step()
        if by_hand and t == 9:
            for group in optimizer.param_groups:
                group["lr"] *= 0.5
        for scheduler in schedulers:
            scheduler.step(*([METRICS[t]] if key in PLATEAUS else []))
    return {f"{key}{', by hand' if by_hand else ''}|rates": np.array(results)}


ALL_RATES = [(key, by_hand) for key in (*SCHEDULES, *PLATEAUS) for by_hand in (False, True)]

OPTIMIZERS = {
    "adam, amsgrad": lambda o, p: o.Adam(p, lr=0.1, amsgrad=True, weight_decay=0.1),
    "adamw, amsgrad": lambda o, p: o.AdamW(p, lr=0.1, betas=(0.8, 0.9), amsgrad=True, maximize=True),
    "rmsprop": lambda o, p: o.RMSprop(p),
    "rmsprop, all": lambda o, p: o.RMSprop(p, 0.02, 0.9, 1e-6, weight_decay=0.1, momentum=0.8, centered=True),
    "adagrad": lambda o, p: o.Adagrad(p, lr=0.1),
    "adagrad, all": lambda o, p: o.Adagrad(
        p, 0.1, lr_decay=0.1, weight_decay=0.1, initial_accumulator_value=0.2, eps=1e-6, maximize=True
    ),
    "adadelta": lambda o, p: o.Adadelta(p, weight_decay=0.1),
    "adamax": lambda o, p: o.Adamax(p, lr=0.05, weight_decay=0.1),
}


def trajectory(lib, key, wrap=lambda step: step):
    """Two parameters over twelve steps; the gradient changes sign on the way, so that amsgrad has something to keep."""
    ps = [numbers(lib, n, *s).requires_grad_() for n, s in (("w", (3, 4)), ("v", (5,)))]
    at = numbers(lib, "turn", 3, 4)
    optimizer = OPTIMIZERS[key](lib.optim, ps)

    def step(scale):
        optimizer.zero_grad()
        loss = (scale * ((ps[0] - at) ** 2).sum() + (ps[1] * scale).sin().sum()) / 2
        loss.backward()
        optimizer.step()
        return loss.detach()

    step = wrap(step)
    losses = [float(step(lib.tensor(3.0 * math.cos(t) + 1.0, dtype=lib.float64))) for t in range(12)]
    results = {f"{key}|p{i}": np.array(p.detach().numpy()) for i, p in enumerate(ps)}
    return results | {f"{key}|losses": np.array(losses)}


QUASI_NEWTON = {
    "lbfgs": lambda o, p: o.LBFGS(p, lr=0.5),
    "lbfgs, short memory": lambda o, p: o.LBFGS(p, lr=0.3, max_iter=5, history_size=2),
    "lbfgs, few evaluations": lambda o, p: o.LBFGS(p, 0.5, 9, 4, tolerance_grad=1e-3, tolerance_change=1e-4),
}


def quasi_newton(lib, key, second=lambda optimizer: optimizer):
    """Three steps in a curved valley; `second` gets the optimizer before each step."""
    x = lib.tensor([-1.2, 1.0], dtype=lib.float64).requires_grad_()
    rest = [numbers(lib, "rest", 2, 3).requires_grad_(), lib.tensor([3.0], dtype=lib.float64).requires_grad_()]
    optimizer, losses = QUASI_NEWTON[key](lib.optim, [x, *rest]), []

    def closure():
        optimizer.zero_grad()
        loss = (1 - x[0]) ** 2 + 10 * (x[1] - x[0] ** 2) ** 2 + (rest[0] ** 4).sum()  # rest[1] has no gradient
        loss.backward()
        losses.append(loss.item())
        return loss

    returned = []
    for _ in range(3):
        optimizer = second(optimizer)
        returned.append(optimizer.step(closure).item())
    results = {"losses": losses, "returned": returned, "x": x.tolist(), "rest": rest[0].tolist()}
    return {f"{key}|{what}": np.array(values) for what, values in results.items()}


RECAST = nn.OPTIMIZERS | OPTIMIZERS
RECAST_DTYPES = [("float32", "float64"), ("float64", "float32")]


def recast(lib, key, before, after):
    """Three steps in one dtype; three more in another one, with the state of the first."""
    ps, state = [], None
    for name in (before, after):
        dtype = getattr(lib, name)
        with lib.no_grad():
            ps = [p.to(dtype) for p in ps or [numbers(lib, n, *s) for n, s in (("w", (3, 4)), ("v", (5,)))]]
        ps = [p.requires_grad_() for p in ps]
        optimizer = RECAST[key](lib.optim, ps)
        if state is not None:
            optimizer.load_state_dict(state)
            entries = [(k, x) for entry in optimizer.state.values() for k, x in entry.items() if k != "step"]
            assert all(x.dtype == dtype for _, x in entries if isinstance(x, lib.Tensor)), entries

        for _ in range(3):
            optimizer.zero_grad()
            ((ps[0] ** 2).sum() + (ps[1] ** 4).sum()).backward()
            optimizer.step()
        state = optimizer.state_dict()
    return {f"{key}, {before} to {after}|p{i}": np.array(p.detach().numpy()) for i, p in enumerate(ps)}


def _rosenbrock(lib, x):
    return ((1 - x[:-1]) ** 2).sum() + 100 * ((x[1:] - x[:-1] ** 2) ** 2).sum()


def _network(lib, x):
    """The loss of a small network whose parameters lie in x."""
    hidden = (numbers(lib, "inputs", 7, 3) @ x[:12].reshape(3, 4) + x[12:16]).tanh()
    return ((hidden @ x[16:20] - numbers(lib, "targets", 7)) ** 2).mean()


LOSSES = {  # a loss, and where it begins
    "valley": (_rosenbrock, [-1.2, 1.0]),
    "longer valley": (_rosenbrock, [-1.2, 1.0, -0.5, 0.8, 2.0]),
    "network": (_network, np.random.RandomState(0).standard_normal(20).tolist()),
    "Beale": (
        lambda lib, x: sum((c - x[0] * (1 - x[1] ** k)) ** 2 for k, c in enumerate((1.5, 2.25, 2.625), 1)),
        [1.0, 1.0],
    ),
    "Himmelblau": (lambda lib, x: (x[0] ** 2 + x[1] - 11) ** 2 + (x[0] + x[1] ** 2 - 7) ** 2, [0.0, 0.0]),
    "Powell": (
        lambda lib, x: (
            (x[0] + 10 * x[1]) ** 2 + 5 * (x[2] - x[3]) ** 2 + (x[1] - 2 * x[2]) ** 4 + 10 * (x[0] - x[3]) ** 4
        ),
        [3.0, -1.0, 0.0, 1.0],
    ),
    "bowl": (lambda lib, x: (x * x * lib.arange(1, 4, dtype=lib.float64)).sum(), [1.0, -2.0, 3.0]),
    "waves": (lambda lib, x: (x.cos() + 0.05 * x * x).sum(), [3.0, 0.1, 7.0]),
    "steep": (lambda lib, x: (x.exp() - 3 * x).sum(), [5.0, -3.0]),
    "far": (lambda lib, x: (1 + x * x).sqrt().sum(), [50.0, -1.0]),
    "kinks": (lambda lib, x: x.abs().sum(), [1.0, -0.3]),
    "flat direction": (lambda lib, x: x[0] ** 4 + 0 * x[1], [1.0, 1.0]),
    "no bottom": (lambda lib, x: x.sum(), [0.0, 1.0]),
    "at the minimum": (lambda lib, x: (x**4).sum(), [0.0, 0.0]),
    "constant": (lambda lib, x: (0 * x).sum(), [1.0, 2.0]),
}
LINE_SEARCH = {
    "defaults": {},
    "half": {"lr": 0.5},
    "too far": {"lr": 10.0},
    "one iteration": {"max_iter": 1},
    "short memory": {"max_iter": 5, "history_size": 2},
    "few evaluations": {"max_eval": 4},
    "one evaluation": {"max_eval": 1},
    "fewer evaluations than iterations": {"max_iter": 3, "max_eval": 2},
}
LINE_SEARCHES = [
    (loss, key)
    for loss in LOSSES
    for key in LINE_SEARCH
    if key == "defaults" or loss in ("valley", "Himmelblau", "waves", "kinks", "no bottom", "at the minimum")
]
LINE_SEARCHES += [(loss, "too far") for loss in ("Beale", "steep", "far")]


def line_search(lib, loss_name, key, second=lambda optimizer: optimizer):
    """All points at which three steps of L-BFGS with a line search compute the loss, and where they end."""
    loss, begin = LOSSES[loss_name]
    x = lib.tensor(begin, dtype=lib.float64).requires_grad_()
    optimizer = lib.optim.LBFGS([x], line_search_fn="strong_wolfe", **LINE_SEARCH[key])
    points = []

    def closure():
        optimizer.zero_grad()
        y = loss(lib, x)
        y.backward()
        points.append(x.tolist())
        return y

    for _ in range(3):
        optimizer = second(optimizer)
        optimizer.step(closure)
    counts = [optimizer.state[x].get(name) for name in ("n_iter", "func_evals")]
    results = {"points": points, "end": x.tolist(), "counts": counts}
    return {f"lbfgs, {loss_name}, {key}|{what}": np.array(values) for what, values in results.items()}
