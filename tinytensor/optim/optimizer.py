"""Optimizers: one kernel call for each parameter; each step (in a replay too) reads the present hyper-parameters."""

import copy
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from typing import Any

import numpy as np

from tinytensor.core.backend import kernels
from tinytensor.core.dispatch import contiguous, host, launch, move, outside_recording
from tinytensor.core.hooks import RemovableHandle
from tinytensor.core.kernel import is_ours
from tinytensor.core.memory_order import memory_order, ordered
from tinytensor.core.modes import enable_grad, no_grad
from tinytensor.core.recorder import guard
from tinytensor.core.tensor import Tensor
from tinytensor.ops.argument_errors import construction, shown

# accepted because they cannot change a result: they choose between PyTorch's implementations
_HARMLESS = {"foreach", "fused", "capturable", "differentiable"}
# What is meant by values that are no list of parameters.
_MEANT = [
    (lambda params: isinstance(params, Tensor), ": write [parameter]"),
    (lambda params: isinstance(params, dict) and "params" in params, ": write [group]"),
    (lambda params: isinstance(params, dict), ": its values(), unless it is a state_dict, which holds no parameters"),
    (lambda params: isinstance(params, set), ": the order of a set can be another one when a state is loaded"),
    (lambda params: hasattr(params, "parameters"), ": write model.parameters()"),
    (callable, ": call it"),
]
_EVENTS = [f"{when} {what}" for when in ("before", "after") for what in ("step", "state_dict", "load_state_dict")]
SIMILAR = 0.5  # of 1: the similarity to a known name from which an unknown name counts as a typing error


class _Required:
    """The default of a setting that each group must have; `required` is the only one."""

    def __repr__(self) -> str:
        return "<required parameter>"


required = _Required()


class Optimizer:
    """The base of all optimizers: parameter groups, state, and the step over every parameter with a gradient.

    A group is a dictionary with "params" and any of the hyper-parameters. `lr_multiplier` in a group scales its
    learning rate, for all of a parameter or by a tensor that broadcasts to it (one factor for each head, say: the
    remark after eq. 18 of document 003).
    """

    slots: tuple[str, ...] = ()  # the tensors kept for each parameter, by PyTorch's names
    extra: tuple[str, ...] = ()  # further tensors, which some settings need and the kernel does not take
    followed = frozenset({"state"})  # attributes that a replay changes as a step does: no condition of a replay

    def __init_subclass__(cls, **options):
        super().__init_subclass__(**options)
        construction(cls)

    def __init__(self, params: Iterable, defaults: dict[str, Any], options: dict[str, Any] | None = None):
        for name in options or {}:
            if name not in _HARMLESS:
                raise TypeError(f"{type(self).__name__}: unknown option {name!r}; expected {sorted(defaults)}")
        self._refuse(options or {})
        self.defaults = defaults | {"lr_multiplier": 1.0}
        self.param_groups: list[dict[str, Any]] = []
        self._hooks: dict[str, list[Callable]] = {event: [] for event in _EVENTS}
        self.state: defaultdict[Tensor, dict[str, Any]] = defaultdict(dict)
        groups = self._listed(params, "params", "a list of parameters or of groups", (Tensor, dict, str))
        if not groups:
            raise ValueError(f"{type(self).__name__}: the list of parameters is empty")
        if isinstance(groups[0], tuple):  # named_parameters()
            groups = [p for _, p in groups]
        for group in groups if isinstance(groups[0], dict) else [{"params": groups}]:
            self.add_param_group(group)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Train more parameters, with the hyper-parameters of the group, or the defaults."""
        if not isinstance(param_group, dict):
            raise TypeError(
                f"{type(self).__name__}: a parameter group is {shown(param_group)}; expected a dict: "
                '{"params": [...], "lr": ...}'
            )
        group = dict(param_group)
        if "params" not in group:
            raise ValueError(f'{type(self).__name__}: a parameter group needs "params", this one has {sorted(group)}')
        params = group["params"]
        params = (
            [params]
            if isinstance(params, Tensor)
            else self._listed(params, '"params" of a group', "a list of parameters", (dict, set, str))
        )
        params = [p[1] if isinstance(p, tuple) else p for p in params]
        for key in group.keys() - self.defaults.keys():  # a program may keep entries of its own in a group
            if key != "params" and (meant := get_close_matches(key, self.defaults, 1, SIMILAR)):
                warnings.warn(
                    f"{type(self).__name__}: {key!r} in a parameter group changes nothing; is {meant[0]!r} meant?",
                    stacklevel=2,
                )
        self._refuse(group)
        taken = {id(p) for g in self.param_groups for p in g["params"]}
        for p in params:
            if not isinstance(p, Tensor):
                raise TypeError(
                    f"{type(self).__name__}: expected tensors to train, got {type(p).__name__}"
                    + ("; give parameters or groups, not both" if isinstance(p, dict) else "")
                )
            if not p.is_leaf:
                raise ValueError(f"{type(self).__name__}: a parameter of shape {p.shape} was computed from others")
            if id(p) in taken:
                raise ValueError(
                    f"{type(self).__name__}: a parameter of shape {p.shape} is in two groups, or twice in one"
                )
            taken.add(id(p))
        group = self.defaults | group | {"params": params}
        if missing := [key for key, value in group.items() if value is required]:
            raise ValueError(f"{type(self).__name__}: a parameter group needs a value of {', '.join(missing)}")
        self._check(group)
        self.param_groups.append(group)

    def _listed(self, params: Iterable, name: str, expected: str, wrong: tuple) -> list:
        """The parameters as a list; TypeError if they are not iterable, or of one of the types that are wrong here."""
        if hasattr(params, "__iter__") and not isinstance(params, wrong):
            return list(params)
        advice = next((advice for test, advice in _MEANT if test(params)), "")
        raise TypeError(f"{type(self).__name__}: {name} is {shown(params)}; expected {expected}{advice}")

    def _refuse(self, options: dict[str, Any]) -> None:
        if options.get("differentiable"):
            raise ValueError(f"{type(self).__name__}: differentiable=True is not offered: steps are not on the tape")

    def _check(self, group: dict[str, Any]) -> None:
        if not (self.slots or is_ours(type(self))):  # a custom optimizer decides itself what its settings mean
            return
        for name in ("lr", "eps", "weight_decay", "momentum"):
            if name in group and not group[name] >= 0:
                raise ValueError(f"{type(self).__name__}: {name} must be 0 or more, got {group[name]}")
        betas = group.get("betas", (0, 0))
        if len(betas) != 2 or not all(0 <= b < 1 for b in betas):
            raise ValueError(f"{type(self).__name__}: betas must be two numbers from 0 to below 1, got {betas}")

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Set all gradients to None (or to 0)."""
        for group in self.param_groups:
            for p in group["params"]:
                if set_to_none:
                    p.grad = None
                elif p.grad is not None:
                    p.grad.zero_()

    def step(self, closure: Callable | None = None):
        """Change every parameter that has a gradient; a closure is called first, to compute the loss anew."""
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        with no_grad():
            for group in self.param_groups:
                params = [p for p in group["params"] if p.grad is not None]
                with outside_recording():
                    for p in params:
                        self._prepare(group, p)
                table = np.zeros((len(params), 8))  # the kernels read a parameter's hyper-parameters from its row
                host(self._refresh, [], group, [self.state[p] for p in params], table, undo=self._uncount)
                for p, row in zip(params, table, strict=True):
                    self._update(p, group, row)
        guard(self._makeup)
        return loss

    # --- Hooks

    def _register(self, event: str, hook: Callable, prepend: bool = False) -> RemovableHandle:
        hooks = self._hooks[event]
        hooks.insert(0 if prepend else len(hooks), hook)
        return RemovableHandle(hooks, hook)

    def register_step_pre_hook(self, hook: Callable) -> RemovableHandle:
        """Call `hook(optimizer, args, kwargs)` before each step; a pair that it returns replaces args and kwargs.

        As in PyTorch, args[0] is the optimizer. Returns a handle that removes the hook.
        """
        vars(self)["step"] = self._step_with_hooks  # so that a step without hooks takes no time for them
        return self._register("before step", hook)

    def register_step_post_hook(self, hook: Callable) -> RemovableHandle:
        """Call `hook(optimizer, args, kwargs)` after each step; returns a handle that removes the hook."""
        vars(self)["step"] = self._step_with_hooks
        return self._register("after step", hook)

    def _step_with_hooks(self, *args, **kwargs):
        args = (self, *args)
        for hook in tuple(self._hooks["before step"]):
            replaced = hook(self, args, kwargs)
            if replaced is not None:
                if not isinstance(replaced, tuple) or len(replaced) != 2:
                    raise RuntimeError(
                        f"{type(self).__name__}: a step pre-hook returned {shown(replaced)}; expected None or "
                        "(args, kwargs), where args[0] is the optimizer"
                    )
                args, kwargs = replaced
        result = type(self).step(*args, **kwargs)
        for hook in tuple(self._hooks["after step"]):
            hook(self, args, kwargs)
        return result

    def register_state_dict_pre_hook(self, hook: Callable, prepend: bool = False) -> RemovableHandle:
        """Call `hook(optimizer)` before state_dict(), before the other hooks with `prepend`; returns a handle."""
        return self._register("before state_dict", hook, prepend)

    def register_state_dict_post_hook(self, hook: Callable, prepend: bool = False) -> RemovableHandle:
        """Call `hook(optimizer, state_dict)` after state_dict(); a state that it returns replaces that. A handle."""
        return self._register("after state_dict", hook, prepend)

    def register_load_state_dict_pre_hook(self, hook: Callable, prepend: bool = False) -> RemovableHandle:
        """Call `hook(optimizer, state_dict)` before load_state_dict(); a state that it returns is loaded. A handle."""
        return self._register("before load_state_dict", hook, prepend)

    def register_load_state_dict_post_hook(self, hook: Callable, prepend: bool = False) -> RemovableHandle:
        """Call `hook(optimizer)` after load_state_dict(); returns a handle that removes the hook."""
        return self._register("after load_state_dict", hook, prepend)

    # --- The parts of a step

    def _makeup(self) -> tuple:
        """The values that decide which launches a step makes, and on which memory; numbers in tables do not."""
        parts: list[Any] = [*self._hooks["before step"], *self._hooks["after step"]]
        for group in self.param_groups:
            parts += [group["lr_multiplier"], *[self._needs(slot, group) for slot in self.slots]]
            parts += group["params"]
            parts += map(self.state.get, group["params"])
        return tuple(parts)

    def _prepare(self, group: dict[str, Any], p: Tensor) -> None:
        """Make the state that a step of p needs and that does not exist yet."""
        entry = self.state.setdefault(p, {"step": 0})
        for slot in self.slots:
            if slot not in entry and self._needs(slot, group):
                entry[slot] = Tensor.of(np.zeros_like(p._data))  # with the memory layout of p
                entry["since"] = entry["step"] + 1  # the first step that has the slots
        multiplier = group["lr_multiplier"]
        if entry.get("multiplier") is not multiplier:
            entry["multiplier"], entry["scale"] = multiplier, self._scale(multiplier, p)

    def _scale(self, multiplier, p: Tensor) -> np.ndarray:
        """The factors of the learning rate: an array of p's shape, of one factor, or an empty one for the factor 1."""
        if isinstance(multiplier, Tensor) and multiplier.numel() > 1:
            try:
                return np.array(np.broadcast_to(multiplier.detach()._data, p.shape), p.dtype)
            except ValueError:
                raise ValueError(
                    f"{type(self).__name__}: lr_multiplier of shape {multiplier.shape} does not fit a parameter "
                    f"of shape {p.shape}"
                ) from None
        value = float(multiplier.item() if isinstance(multiplier, Tensor) else multiplier)
        return np.full(0 if value == 1 else 1, value, p.dtype)

    def _needs(self, slot: str, group: dict[str, Any]) -> bool:
        return True

    def _refresh(self, before: list, group: dict[str, Any], entries: list[dict[str, Any]], table: np.ndarray) -> None:
        """Write the present hyper-parameters to the table that the kernels read, and count the step.

        The counts before it are noted in `before`, and an interrupt (Ctrl-C) finds all of them changed or none.
        """
        before[:] = [entry["step"] for entry in entries]
        if len(set(before)) == 1 == len({entry.get("since") for entry in entries}):  # mostly
            steps = [before[0] + 1] * len(before)
            table[:] = self._hyper(group, entries[0] | {"step": steps[0]})
        else:
            steps = [step + 1 for step in before]
            for row, entry, step in zip(table, entries, steps, strict=True):
                row[:] = self._hyper(group, entry | {"step": step})
        try:
            for entry, step in zip(entries, steps, strict=True):
                entry["step"] = step
        except BaseException:
            self._uncount(before, group, entries, table)
            raise

    def _uncount(self, before: list, group: dict[str, Any], entries: list[dict[str, Any]], table: np.ndarray) -> None:
        """Undo the count of a step that was not made."""
        for entry, step in zip(entries, before):  # which is empty if nothing was changed
            entry["step"] = step

    def _hyper(self, group: dict[str, Any], entry: dict[str, Any]) -> tuple:
        raise NotImplementedError

    def _update(self, p: Tensor, group: dict[str, Any], hyper: np.ndarray) -> None:
        """Change p by one step of the kernel, which goes through p in memory order; a p with gaps is copied."""
        entry, order = self.state[p], memory_order(p._data)

        def lying(a: np.ndarray) -> np.ndarray:
            return ordered(a, order) if a.shape == p.shape else a  # any other array is empty or has one number

        slots = [entry[s]._data if self._needs(s, group) else np.empty(0, p.dtype) for s in self.slots]
        changed = [lying(a) for a in (p._data, *slots)]
        whole = [contiguous(a) for a in (*changed, lying(self._gradient(p)._data), lying(entry["scale"]))]
        first, *slots, g, scale = [a.reshape(-1) for a in whole]
        launch(self.kernel, first, g, *slots, scale, hyper)
        for a, copied in zip(changed, whole):
            if copied is not a:
                move(copied, a)
        p._version.count += 1

    def _gradient(self, p: Tensor) -> Tensor:
        g = p.grad
        if g.dtype != p.dtype:
            raise RuntimeError(f"{type(self).__name__}: a gradient of {g.dtype} for a parameter of {p.dtype}")
        return g

    def _as_tensors(self, p: Tensor, hyper: np.ndarray) -> list[Tensor]:
        """Hyper-parameters for steps that are written in operations: 0-d tensors, of which the first is p's rate."""
        lr, *others = [Tensor.of(hyper[i : i + 1].reshape(())) for i in range(hyper.size)]
        scale = self.state[p]["scale"]
        if scale.size:
            lr = lr * Tensor.of(scale.reshape(p.shape if scale.size > 1 else ()))
        return [lr, *others]

    def state_dict(self) -> dict[str, Any]:
        """State and hyper-parameters, with parameters as numbers; tensors share memory."""
        for hook in tuple(self._hooks["before state_dict"]):
            hook(self)
        numbers = {}
        for group in self.param_groups:
            for p in group["params"]:
                numbers[id(p)] = len(numbers)
        kept = {
            numbers[id(p)]: {k: v for k, v in entry.items() if k not in ("multiplier", "scale")}
            for p, entry in self.state.items()
        }
        groups = [
            {k: copy.copy(v) for k, v in g.items() if k != "params"} | {"params": [numbers[id(p)] for p in g["params"]]}
            for g in self.param_groups
        ]
        result = {"state": dict(sorted(kept.items())), "param_groups": groups}
        for hook in tuple(self._hooks["after state_dict"]):
            replaced = hook(self, result)
            result = result if replaced is None else replaced
        return result

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore a state that `state_dict()` returned, with its tensors in the dtypes of the parameters.

        If it does not fit the parameters, raise and change nothing.
        """
        state_dict = dict(state_dict)
        for hook in tuple(self._hooks["before load_state_dict"]):
            replaced = hook(self, state_dict)
            state_dict = state_dict if replaced is None else replaced
        what, groups = f"{type(self).__name__}.load_state_dict", state_dict["param_groups"]
        if [len(g["params"]) for g in groups] != [len(g["params"]) for g in self.param_groups]:
            raise ValueError(
                f"{what}: groups of {[len(g['params']) for g in groups]} parameters in "
                f"the state, of {[len(g['params']) for g in self.param_groups]} here"
            )
        hypers = [{k: v for k, v in saved.items() if k != "params"} for saved in groups]
        params = []  # with the settings that they will get
        for group, saved in zip(self.param_groups, hypers, strict=True):
            self._check(group | saved)
            params += [(p, group | saved) for p in group["params"]]
        state = {}
        for number, entry in state_dict["state"].items():
            if not 0 <= int(number) < len(params):
                raise ValueError(f"{what}: the state of parameter {number}, of which there are {len(params)}")
            p, group = params[int(number)]
            state[p] = self._fitting(f"{what}: parameter {number}", entry, p, group)
        for group, saved in zip(self.param_groups, hypers, strict=True):
            group.update(saved)
        self.state.clear()
        self.state.update(state)
        for hook in tuple(self._hooks["after load_state_dict"]):
            hook(self)

    def _fitting(self, what: str, entry: dict[str, Any], p: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        """A copy of a parameter's state, checked against p: kernels will read both side by side."""
        if not self.slots:  # a custom optimizer decides itself what state it keeps, and reads it itself
            return _cast(dict(entry), p)
        kept: dict[str, Any] = {"step": 0}
        for name, value in entry.items():
            if name in self.slots + self.extra:
                if not isinstance(value, Tensor) or value.shape != p.shape:
                    came = value.shape if isinstance(value, Tensor) else repr(value)
                    raise ValueError(f"{what} is of shape {p.shape}, so its {name} must be, too; got {came}")
                kept[name] = Tensor.of(np.zeros_like(p._data))  # with the memory layout of p, not that of the state
                kept[name]._data[...] = _cast(value, p)._data
            elif name in ("step", "since"):  # PyTorch keeps the number of steps in a tensor
                kept[name] = int(value)
                if kept[name] < 0:
                    raise ValueError(f"{what}: {name} must be 0 or more, got {kept[name]}")
            else:
                raise ValueError(f"{what} has {name!r}, which is not kept here; expected {('step', *self.slots)}")
        needed = {slot for slot in self.slots if self._needs(slot, group)}
        if 0 < len(kept.keys() & needed) < len(needed):
            raise ValueError(f"{what} has only a part of {sorted(needed)}: {sorted(kept.keys() & needed)}")
        return kept


def _cast(value, p: Tensor, name: str = ""):
    """A copy of a value of the state of p: tensors, except for the number of steps, have the dtype of p."""
    if isinstance(value, Tensor):
        return value.detach().to(p.dtype if p.is_floating_point() and name != "step" else value.dtype, copy=True)
    if isinstance(value, dict):
        return {key: _cast(v, p, key) for key, v in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_cast(v, p) for v in value)
    return copy.deepcopy(value)


class SGD(Optimizer):
    r"""x \to x - \rho \, \partial L / \partial x (003, eq. 18), with momentum and weight decay if asked for."""

    kernel = kernels.sgd
    slots = ("momentum_buffer",)

    def __init__(
        self,
        params: Iterable,
        lr: float = 1e-3,
        momentum: float = 0.0,
        dampening: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        **options,
    ):
        defaults = {"lr": lr, "momentum": momentum, "dampening": dampening, "weight_decay": weight_decay}
        super().__init__(params, defaults | {"nesterov": nesterov, "maximize": maximize}, options)

    def _check(self, group):
        super()._check(group)
        if group["nesterov"] and (group["momentum"] <= 0 or group["dampening"] != 0):
            raise ValueError("SGD: nesterov needs a momentum and no dampening")

    def _needs(self, slot, group):
        return group["momentum"] != 0

    def _hyper(self, group, entry):
        first = entry["step"] == entry.get("since")
        return (
            *(group["lr"], group["momentum"], group["dampening"], group["weight_decay"]),
            *(group["nesterov"], group["maximize"], first, 0),
        )


class Adam(Optimizer):
    r"""x \to x - \rho \hat m / (\sqrt{\hat v} + \epsilon), m and v the gradient's moments; decay joins the gradient.

    From Kingma and Ba (2015).
    """

    kernel = kernels.adam
    slots = ("exp_avg", "exp_avg_sq")
    extra = ("max_exp_avg_sq",)
    decoupled = False

    def __init__(
        self,
        params: Iterable,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        **options,
    ):
        defaults = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "amsgrad": amsgrad}
        super().__init__(params, defaults | {"maximize": maximize}, options)

    def _hyper(self, group, entry):
        return (
            *(group["lr"], *group["betas"], group["eps"], group["weight_decay"]),
            *(self.decoupled, entry["step"], group["maximize"]),
        )

    def _makeup(self):
        return *super()._makeup(), *(bool(g["amsgrad"]) for g in self.param_groups)

    def _prepare(self, group, p):
        super()._prepare(group, p)
        (largest,) = self.extra
        if group["amsgrad"] and largest not in self.state[p]:
            self.state[p][largest] = Tensor.of(np.zeros(p.shape, p.dtype))

    def _update(self, p, group, hyper):
        if not group["amsgrad"]:
            return super()._update(p, group, hyper)
        # The largest v so far replaces v as the divisor (Reddi 2018). This is rare, so it is written in operations.
        lr, beta1, beta2, eps, decay, decoupled, t, maximize = self._as_tensors(p, hyper)
        m, v, largest = (self.state[p][name] for name in self.slots + self.extra)
        g = self._gradient(p) * (1 - 2 * maximize) + p * (decay * (1 - decoupled))
        p.mul_(1 - lr * decay * decoupled)
        m.add_((g - m) * (1 - beta1))
        v.mul_(beta2).add_(g * g * (1 - beta2))
        largest.copy_(largest.maximum(v))
        p.sub_(lr / (1 - beta1**t) * m / ((largest / (1 - beta2**t)).sqrt() + eps))


class AdamW(Adam):
    r"""Adam in which weight decay shrinks the parameter itself: x \to (1 - \rho \lambda) x first.

    From Loshchilov and Hutter (2019).
    """

    decoupled = True

    def __init__(
        self,
        params: Iterable,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        **options,
    ):
        super().__init__(params, lr, betas, eps, weight_decay, amsgrad, maximize=maximize, **options)


__all__ = ["SGD", "Adam", "AdamW", "Optimizer"]
