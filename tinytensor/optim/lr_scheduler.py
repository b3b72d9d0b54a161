"""Learning-rate schedules: `scheduler.step()` after each optimizer step sets the rate for the next one.

Most schedules do not set an absolute rate, but multiply the present one. So several schedules on one optimizer act
together, and they go on from a rate that was set by hand in between. Schedules that set the rate from the step alone
(LambdaLR, OneCycleLR) say so.
"""

import math
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tinytensor.core.dispatch import host
from tinytensor.core.recorder import is_recording
from tinytensor.ops.argument_errors import construction
from tinytensor.optim.optimizer import Optimizer


class LRScheduler:
    """The base of all schedules; a custom schedule has a `get_lr()`, the rates of the groups at `last_epoch`.

    `last_epoch` counts the steps from 0. A value other than -1 continues from that step; the groups need "initial_lr".
    """

    followed = frozenset({"last_epoch", "_step_count", "_last_lr"})  # as in Optimizer

    def __init_subclass__(cls, **options):
        super().__init_subclass__(**options)
        construction(cls)

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1):
        self.optimizer = _optimizer(type(self).__name__, optimizer)
        for group in optimizer.param_groups:
            if last_epoch == -1:
                group.setdefault("initial_lr", group["lr"])
            elif "initial_lr" not in group:
                raise KeyError(
                    f"{type(self).__name__}: to go on from last_epoch={last_epoch}, the optimizer's groups need their "
                    '"initial_lr"; load the state of the optimizer first'
                )
        self.base_lrs = [group["initial_lr"] for group in optimizer.param_groups]
        self.last_epoch = last_epoch
        self._step_count = 0
        self._begin()

    def _begin(self) -> None:
        """Set the rates of the first step."""
        self._go([], None)

    @property
    def is_being_made(self) -> bool:
        """Is the schedule setting the rates of its first step, when it is made?"""
        return self._step_count == 1

    def _take_back(self, wholly: bool) -> None:
        """Undo the first step of this schedule, or all steps: another one is first (SequentialLR)."""
        self.last_epoch = -1 if wholly else self.last_epoch - 1

    def get_lr(self) -> list[float]:
        """The rates of the groups at the step `last_epoch`, computed from their present rates."""
        raise NotImplementedError(f"{type(self).__name__}: a schedule needs get_lr(), which returns a rate a group")

    def _lr_at(self) -> list[float]:
        """The rates at `last_epoch`, independent of the present ones, for step(epoch)."""
        return self.get_lr()

    def step(self, epoch: int | None = None) -> None:
        """Set the rates of the next step, or of step `epoch` (in a replay too)."""
        host(self._go, [], epoch, undo=self._go_back)

    def _go(self, before: list, epoch: int | None) -> None:
        """Make a step, or change nothing if it raises; `before` receives copies of the state before it."""
        before[:] = [(kept, dict(kept)) for kept in self._everything()]
        try:
            self._advance(epoch)
        except BaseException:
            self._go_back(before, epoch)
            raise

    def _go_back(self, before: list, epoch: int | None) -> None:
        """Undo a step that a replay made, but should not have reached."""
        for kept, old in before:
            kept.clear()
            kept.update(old)

    def _everything(self) -> Iterable[dict]:
        """All dictionaries that a step changes."""
        return [vars(self), *self.optimizer.param_groups]

    def _advance(self, epoch: int | None) -> None:
        self._step_count += 1
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        self._set(self.get_lr() if epoch is None else self._lr_at())

    def _set(self, rates: list[float]) -> None:
        self._check_groups(rates)
        for group, rate in zip(self.optimizer.param_groups, rates, strict=True):
            group["lr"] = rate
        self._last_lr = self._rates()

    def _check_groups(self, values: list) -> None:
        """Raise if these are not values for each group: groups were added after the schedule was made."""
        if len(values) != len(self.optimizer.param_groups):
            raise RuntimeError(
                f"{type(self).__name__}: the optimizer has {len(self.optimizer.param_groups)} parameter groups, the "
                f"schedule was made for {len(values)}; add the groups before it is made, or make it anew (last_epoch= "
                'goes on from a step, and each group needs its "initial_lr")'
            )

    def _rates(self) -> list[float]:
        return [group["lr"] for group in self.optimizer.param_groups]

    def get_last_lr(self) -> list[float]:
        """The rates that the last step set, one for each group."""
        return self._last_lr

    def state_dict(self) -> dict[str, Any]:
        """All numbers of the schedule, without its functions and the optimizer."""
        return {k: v for k, v in vars(self).items() if k not in ("optimizer", "_schedulers") and not _is_code(v)}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore a state that `state_dict()` returned; the rates themselves are in the optimizer's state."""
        unknown = sorted(map(str, set(state_dict) - set(self.state_dict())))
        if unknown or not isinstance(state_dict.get("last_epoch", 0), int | float):
            raise ValueError(f"{type(self).__name__}.load_state_dict: the state is not of such a schedule: {unknown}")
        vars(self).update(state_dict)


_LRScheduler = LRScheduler  # PyTorch's older name, from which programs derive classes of their own


def _optimizer(name: str, optimizer: Optimizer) -> Optimizer:
    if not isinstance(optimizer, Optimizer):
        raise TypeError(f"{name}: expected an optimizer, got {type(optimizer).__name__}")
    return optimizer


def _is_code(value) -> bool:
    return callable(value) or (isinstance(value, list) and any(map(callable, value)))


class LambdaLR(LRScheduler):
    """lr = initial lr * lr_lambda(t) at the steps t = 0, 1, 2, ... (one function, or one a group)."""

    def __init__(self, optimizer: Optimizer, lr_lambda: Callable[[int], float] | list, last_epoch: int = -1):
        self.lr_lambdas = _for_each("LambdaLR", optimizer, lr_lambda, "functions")
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        return [base * of(self.last_epoch) for base, of in zip(self.base_lrs, self.lr_lambdas)]

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore a state that `state_dict()` returned, and set the rates, which follow from it."""
        super().load_state_dict(state_dict)
        self._set(self.get_lr())


def _for_each(name: str, optimizer: Optimizer, value, what: str) -> list:
    """A list of values, one for each group, from a list or from one value for all."""
    n = len(_optimizer(name, optimizer).param_groups)
    values = list(value) if isinstance(value, list | tuple) else [value] * n
    if len(values) != n:
        raise ValueError(f"{name}: {len(values)} {what} for {n} parameter groups")
    return values


def _check_above_0(name: str, **numbers: float) -> None:
    for argument, number in numbers.items():
        if not number > 0:
            raise ValueError(f"{name}: {argument} must be above 0, got {number}")


def _check_not_below_0(name: str, **numbers: float) -> None:
    for argument, number in numbers.items():
        if not number >= 0:
            raise ValueError(f"{name}: {argument} must be 0 or more, got {number}")


class MultiplicativeLR(LambdaLR):
    """lr is multiplied by lr_lambda(t) at the steps t = 1, 2, ..."""

    def get_lr(self) -> list[float]:
        if self.last_epoch == 0 or self.is_being_made:
            return self._rates()
        return [rate * of(self.last_epoch) for rate, of in zip(self._rates(), self.lr_lambdas)]

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        LRScheduler.load_state_dict(self, state_dict)


class Shape(LRScheduler):
    """A schedule by its shape: lr - floor is proportional to f(t), so step t multiplies it by f(t) / f(t - 1)."""

    eta_min = 0.0  # the floor
    keeps_rate = False  # does a schedule that is made with a last_epoch start from the groups' present rates?

    def factor(self, t: int) -> float:
        """f(t), the factor of the base rate at step t (0, 1, ...); each schedule defines it."""
        raise NotImplementedError

    def get_lr(self) -> list[float]:
        t, low = self.last_epoch, self.eta_min
        if self.keeps_rate and self.is_being_made and t > 0:
            return self._rates()
        new, old = self.factor(t), self.factor(t - 1) if t > 0 else 1.0
        if new == old:
            return self._rates()
        if old == 0:  # the rate rises again from the floor: there is no rate to multiply
            return [rate + (base - low) * new for rate, base in zip(self._rates(), self.base_lrs)]
        return [low + (rate - low) * (new / old) for rate in self._rates()]

    def _lr_at(self) -> list[float]:
        return [self.eta_min + (base - self.eta_min) * self.factor(self.last_epoch) for base in self.base_lrs]


class ConstantLR(Shape):
    """lr = initial lr * factor for the first total_iters steps, then the initial lr."""

    def __init__(self, optimizer: Optimizer, factor: float = 1 / 3, total_iters: int = 5, last_epoch: int = -1):
        if not 0 <= factor <= 1:
            raise ValueError(f"ConstantLR: factor must be from 0 to 1, got {factor}")
        _check_not_below_0("ConstantLR", total_iters=total_iters)
        self.start_factor, self.total_iters = factor, total_iters
        super().__init__(optimizer, last_epoch)

    def factor(self, t: int) -> float:
        """start_factor until total_iters, then 1."""
        return self.start_factor if t < self.total_iters else 1.0


class LinearLR(Shape):
    """lr = initial lr * (start_factor ... end_factor in a straight line over total_iters steps, then end_factor)."""

    keeps_rate = True

    def __init__(
        self,
        optimizer: Optimizer,
        start_factor: float = 1 / 3,
        end_factor: float = 1.0,
        total_iters: int = 5,
        last_epoch: int = -1,
    ):
        if not 0 < start_factor <= 1 or not 0 <= end_factor <= 1:
            raise ValueError(
                f"LinearLR: start_factor must be above 0, end_factor 0 or more, both at most 1; got {start_factor} "
                f"and {end_factor}"
            )
        _check_not_below_0("LinearLR", total_iters=total_iters)
        self.start_factor, self.end_factor, self.total_iters = start_factor, end_factor, total_iters
        super().__init__(optimizer, last_epoch)

    def factor(self, t: int) -> float:
        """From start_factor to end_factor in a straight line over total_iters steps."""
        done = min(t, self.total_iters) / self.total_iters if self.total_iters else 1.0
        return self.start_factor + (self.end_factor - self.start_factor) * done


class PolynomialLR(Shape):
    r"""lr = initial lr * (1 - t / total_iters)^{power}, then 0; with total_iters = 0 the rate stays."""

    keeps_rate = True

    def __init__(self, optimizer: Optimizer, total_iters: int = 5, power: float = 1.0, last_epoch: int = -1):
        _check_not_below_0("PolynomialLR", total_iters=total_iters, power=power)
        self.total_iters, self.power = total_iters, power
        super().__init__(optimizer, last_epoch)

    def factor(self, t: int) -> float:
        """(1 - t / total_iters)^power, and 0 from there on."""
        return (1 - min(t, self.total_iters) / self.total_iters) ** self.power if self.total_iters else 1.0


class StepLR(Shape):
    r"""lr = initial lr * \gamma^{\lfloor t / step\_size \rfloor}."""

    def __init__(self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1):
        _check_above_0("StepLR", step_size=step_size)
        self.step_size, self.gamma = step_size, gamma
        super().__init__(optimizer, last_epoch)

    def factor(self, t: int) -> float:
        """gamma to the number of completed periods of step_size steps."""
        return self.gamma ** (t // self.step_size)


class MultiStepLR(Shape):
    r"""lr = initial lr * \gamma^{number of milestones passed}."""

    def __init__(self, optimizer: Optimizer, milestones: Iterable[int], gamma: float = 0.1, last_epoch: int = -1):
        self.milestones, self.gamma = sorted(milestones), gamma
        super().__init__(optimizer, last_epoch)

    def factor(self, t: int) -> float:
        """gamma to the number of milestones passed."""
        return self.gamma ** bisect_right(self.milestones, t)


class ExponentialLR(Shape):
    r"""lr = initial lr * \gamma^t."""

    keeps_rate = True

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1):
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def factor(self, t: int) -> float:
        """gamma^t."""
        return self.gamma**t


class CosineAnnealingLR(Shape):
    r"""lr = eta_min + (initial lr - eta_min) (1 + \cos(\pi t / T_max)) / 2."""

    keeps_rate = True

    def __init__(self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1):
        _check_above_0("CosineAnnealingLR", T_max=T_max)
        self.T_max, self.eta_min = T_max, eta_min
        super().__init__(optimizer, last_epoch)

    def factor(self, t: int) -> float:
        """(1 + cos(pi t / T_max)) / 2: from 1 to 0 in half a wave of T_max steps."""
        return (1 + math.cos(math.pi * t / self.T_max)) / 2

    def get_lr(self) -> list[float]:
        self._check_groups(self.base_lrs)  # from eta_min the rate rises by the base rate
        return super().get_lr()


class CosineAnnealingWarmRestarts(LRScheduler):
    r"""CosineAnnealingLR that restarts after T_0 steps, then after T_mult times as many, and so on."""

    def __init__(self, optimizer: Optimizer, T_0: int, T_mult: int = 1, eta_min: float = 0.0, last_epoch: int = -1):
        if not (isinstance(T_0, int) and T_0 > 0 and isinstance(T_mult, int) and T_mult >= 1):
            raise ValueError(f"CosineAnnealingWarmRestarts: T_0 and T_mult are steps from 1 up, got {T_0} and {T_mult}")
        self.T_0, self.T_mult, self.eta_min = T_0, T_mult, eta_min
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        self.T_cur, self.T_i = self.last_epoch, self.T_0
        if self.T_mult == 1:
            self.T_cur %= self.T_0
        while self.T_cur >= self.T_i:
            self.T_cur, self.T_i = self.T_cur - self.T_i, self.T_i * self.T_mult
        shape = (1 + math.cos(math.pi * self.T_cur / self.T_i)) / 2
        return [self.eta_min + (base - self.eta_min) * shape for base in self.base_lrs]


class OneCycleLR(LRScheduler):
    """From max_lr / div_factor up to max_lr, then down to the first rate / final_div_factor at the last of total_steps.

    Momentum (the first beta of Adam) goes the other way, from max_momentum to base_momentum and back. With three_phase
    the rate first returns to its start and then falls. (Smith and Topin 2017.)
    """

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: float | list[float],
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: str = "cos",
        cycle_momentum: bool = True,
        base_momentum: float | list[float] = 0.85,
        max_momentum: float | list[float] = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
        last_epoch: int = -1,
    ):
        if total_steps is None and (epochs is None or steps_per_epoch is None):
            raise ValueError("OneCycleLR: give total_steps, or epochs and steps_per_epoch")
        self.total_steps = epochs * steps_per_epoch if total_steps is None else total_steps
        if not 0 <= pct_start <= 1 or anneal_strategy not in ("cos", "linear") or self.total_steps <= 0:
            raise ValueError(
                f"OneCycleLR: expected steps from 1 up, pct_start from 0 to 1 and 'cos' or 'linear', got "
                f"{self.total_steps}, {pct_start} and {anneal_strategy!r}"
            )
        _check_above_0("OneCycleLR", div_factor=div_factor, final_div_factor=final_div_factor)
        if cycle_momentum and not {"momentum", "betas"} & set(_optimizer("OneCycleLR", optimizer).defaults):
            raise ValueError(f"OneCycleLR: {type(optimizer).__name__} has no momentum: give cycle_momentum=False")
        self.anneal_strategy, self.cycle_momentum = anneal_strategy, cycle_momentum
        for group, rate in zip(optimizer.param_groups, _for_each("OneCycleLR", optimizer, max_lr, "rates")):
            if last_epoch == -1:
                group["initial_lr"] = rate / div_factor
        high, low = (_for_each("OneCycleLR", optimizer, m, "momenta") for m in (max_momentum, base_momentum))
        # corners of the cycle: the step, the factor of the first rate, and the momentum (0 the highest, 1 the lowest)
        passed = [(0.0, 1.0, 0), (pct_start * self.total_steps - 1, div_factor, 1)]
        if three_phase:
            passed.append((2 * pct_start * self.total_steps - 2, 1.0, 0))
        self.passed = [*passed, (self.total_steps - 1, 1 / final_div_factor, 0)]
        self.momenta = list(zip(high, low, strict=True))
        super().__init__(optimizer, last_epoch)

    def _between(self, start: float, end: float, done: float) -> float:
        if self.anneal_strategy == "cos":
            return end + (start - end) / 2 * (1 + math.cos(math.pi * done))
        return start + (end - start) * done

    def get_lr(self) -> list[float]:
        t = self.last_epoch
        if t > self.total_steps:
            raise ValueError(f"OneCycleLR: step {t} of a cycle of {self.total_steps} steps")
        i = next((i for i in range(1, len(self.passed)) if t <= self.passed[i][0]), len(self.passed) - 1)
        (begin, first, here), (end, last, there) = self.passed[i - 1 : i + 1]
        done = (t - begin) / (end - begin) if end != begin else 1.0
        if self.cycle_momentum:
            for group, pair in zip(self.optimizer.param_groups, self.momenta):
                momentum = self._between(pair[here], pair[there], done)
                if "betas" in group:
                    group["betas"] = (momentum, *group["betas"][1:])
                else:
                    group["momentum"] = momentum
        return [self._between(base * first, base * last, done) for base in self.base_lrs]


class _Several(LRScheduler):
    """A schedule that combines other schedules."""

    def __init__(self, name: str, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None):
        self._schedulers = list(schedulers)
        if not self._schedulers:
            raise ValueError(f"{name}: the list of schedules is empty")
        self.optimizer = self._schedulers[0].optimizer if optimizer is None else optimizer
        if any(s.optimizer is not self.optimizer or isinstance(s, ReduceLROnPlateau) for s in self._schedulers):
            raise ValueError(f"{name}: all schedules must be of this optimizer, and none a ReduceLROnPlateau")

    def _take_back(self, wholly: bool) -> None:
        self.last_epoch = 0
        for scheduler in self._schedulers:
            scheduler._take_back(wholly)

    def _everything(self) -> Iterable[dict]:
        return [vars(self), *(kept for s in self._schedulers for kept in s._everything())]

    def state_dict(self) -> dict[str, Any]:
        return super().state_dict() | {"_schedulers": [s.state_dict() for s in self._schedulers]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        states = state_dict.get("_schedulers", ())
        if len(states) != len(self._schedulers):
            raise ValueError(f"{type(self).__name__}: {len(states)} states for {len(self._schedulers)} schedules")
        super().load_state_dict({k: v for k, v in state_dict.items() if k != "_schedulers"})
        rates = self._rates()  # some schedules set rates when they are loaded, but only one of them is active
        for scheduler, one in zip(self._schedulers, states, strict=True):
            scheduler.load_state_dict(one)
        for group, rate in zip(self.optimizer.param_groups, rates, strict=True):
            group["lr"] = rate


class SequentialLR(_Several):
    """One schedule after another: the next one begins, at its step 0, at each milestone.

    With a `last_epoch` other than -1 it goes on from the rates of a schedule that has made `last_epoch` steps.
    """

    def __init__(
        self, optimizer: Optimizer, schedulers: Sequence[LRScheduler], milestones: list[int], last_epoch: int = -1
    ):
        super().__init__("SequentialLR", schedulers, optimizer)
        if len(self._schedulers) != len(milestones) + 1:
            raise ValueError(f"SequentialLR: {len(self._schedulers)} schedules need one milestone fewer")
        self._milestones = list(milestones)
        if self._milestones != sorted(self._milestones):
            raise ValueError(f"SequentialLR: milestones must be in ascending order, got {self._milestones}")
        # Each schedule has set the rates of its first step when it was made, one after the other: undo that.
        for group in optimizer.param_groups:
            group["lr"] = group["initial_lr"]
        self._take_back(wholly=last_epoch != -1)
        self._begin()
        for _ in range(last_epoch):
            self._advance(None)

    def _begin(self) -> None:
        self._schedulers[bisect_right(self._milestones, 0)]._begin()
        self._last_lr = self._rates()

    def _advance(self, epoch: int | None) -> None:
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        at = bisect_right(self._milestones, self.last_epoch)
        begun = self._milestones[at - 1] if at > 0 else 0
        within = self.last_epoch - begun
        self._schedulers[at]._advance(within if epoch is not None or (at > 0 and within == 0) else None)
        self._last_lr = self._rates()


class ChainedScheduler(_Several):
    """Several schedules that step together, each on the rates that the one before it has set."""

    def __init__(self, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None = None):
        super().__init__("ChainedScheduler", schedulers, optimizer)
        self._last_lr = self._rates()

    def _begin(self) -> None:
        for scheduler in self._schedulers:
            scheduler._begin()

    def _advance(self, epoch: int | None) -> None:
        for scheduler in self._schedulers:
            scheduler._advance(epoch)
        self._last_lr = self._rates()


class ReduceLROnPlateau(LRScheduler):
    """lr is multiplied by `factor` after more than `patience` calls in a row of `step(metric)` without improvement."""

    def __init__(
        self,
        optimizer: Optimizer,
        mode: str = "min",
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        threshold_mode: str = "rel",
        cooldown: int = 0,
        min_lr: float | list[float] = 0.0,
        eps: float = 1e-8,
    ):
        if not factor < 1 or mode not in ("min", "max") or threshold_mode not in ("rel", "abs"):
            raise ValueError(
                "ReduceLROnPlateau: expected a factor below 1, 'min' or 'max', and 'rel' or 'abs', got "
                f"{factor}, {mode!r} and {threshold_mode!r}"
            )
        self.mode, self.factor, self.patience, self.cooldown, self.eps = mode, factor, patience, cooldown, eps
        self.threshold, self.threshold_mode = threshold, threshold_mode
        self.default_min_lr = None if isinstance(min_lr, list | tuple) else min_lr  # of groups that are added later
        self.min_lrs = _for_each("ReduceLROnPlateau", optimizer, min_lr, "rates")
        self.best = math.inf if mode == "min" else -math.inf
        self.num_bad_epochs = self.cooldown_counter = self.last_epoch = 0
        self.optimizer = optimizer
        self._last_lr = self._rates()

    def _is_better(self, metric: float) -> bool:
        up = 1 if self.mode == "max" else -1
        relative = self.threshold_mode == "rel"
        bound = self.best * (1 + up * self.threshold) if relative else self.best + up * self.threshold
        return metric > bound if self.mode == "max" else metric < bound

    def step(self, metrics: float, epoch: int | None = None) -> None:
        """Take the metric of an epoch (a number, or a tensor of one); not inside a compiled step."""
        if is_recording():
            raise RuntimeError("ReduceLROnPlateau.step(): it reads a number, so call it outside the compiled step")
        rates, metric = self._rates(), float(metrics)
        if self.default_min_lr is not None and len(self.min_lrs) != len(rates):
            self.min_lrs = [self.default_min_lr] * len(rates)
        self._check_groups(self.min_lrs)
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        if self._is_better(metric):
            self.best, self.num_bad_epochs = metric, 0
        else:
            self.num_bad_epochs += 1
        if self.cooldown_counter > 0:
            self.cooldown_counter, self.num_bad_epochs = self.cooldown_counter - 1, 0
        if self.num_bad_epochs > self.patience:
            self.cooldown_counter, self.num_bad_epochs = self.cooldown, 0
            lower = [max(rate * self.factor, least) for rate, least in zip(rates, self.min_lrs, strict=True)]
            rates = [new if rate - new > self.eps else rate for rate, new in zip(rates, lower, strict=True)]
        self._set(rates)


class WarmupCosineLR(LambdaLR):
    """From 0 up in a straight line over `warmup` steps, then down a half cosine to `floor` * lr at step `total`."""

    def __init__(self, optimizer: Optimizer, warmup: int, total: int, floor: float = 0.1, last_epoch: int = -1):
        def factor(t: int) -> float:
            if t < warmup:
                return (t + 1) / warmup
            progress = min(1.0, (t - warmup) / max(1, total - warmup))
            return floor + (1 - floor) * (1 + math.cos(math.pi * progress)) / 2

        super().__init__(optimizer, factor, last_epoch)


class NoamLR(LambdaLR):
    r"""lr = initial lr * d_{model}^{-1/2} \min(t^{-1/2}, t\, warmup^{-3/2}), t = 1, 2, ... (Vaswani 2017)."""

    def __init__(self, optimizer: Optimizer, d_model: int, warmup: int, last_epoch: int = -1):
        if d_model < 1 or warmup < 1:
            raise ValueError(f"NoamLR: d_model {d_model} and warmup {warmup} must be at least 1")
        scale = d_model**-0.5
        super().__init__(optimizer, lambda t: scale * min((t + 1) ** -0.5, (t + 1) * warmup**-1.5), last_epoch)
