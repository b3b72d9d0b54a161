"""Optimizer, the base of all: groups of parameters, the step over them, hooks, and the state that is saved."""

import copy
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from types import SimpleNamespace
from typing import Any

import numpy as np

from tinytensor.core.hooks import RemovableHandle
from tinytensor.core.kernel import Kernel, is_ours
from tinytensor.core.modes import enable_grad, no_grad
from tinytensor.core.recorder import guard
from tinytensor.core.tensor import Tensor
from tinytensor.ops.argument_errors import construction, shown
from tinytensor.optim.fused import launch_fused
from tinytensor.optim.replay import Replayable

# accepted because they cannot change a result: they choose between PyTorch's implementations
_HARMLESS = {"foreach", "fused", "capturable", "differentiable"}
# Hints for arguments that are not a list of parameters.
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


class Optimizer(Replayable):
    """The base of all optimizers: parameter groups, state, and the step over every parameter with a gradient.

    A group is a dictionary with "params" and any of the hyper-parameters. `lr_multiplier` in a group scales its
    learning rate, for all of a parameter or by a tensor that broadcasts to it (one factor for each head, say: the
    remark after eq. 18 of document 003).
    """

    slots: tuple[str, ...] = ()  # the tensors kept for each parameter, by PyTorch's names
    extra: tuple[str, ...] = ()  # further tensors, which some settings need and the fused kernel does not take
    decoupled = False  # does the rule itself apply weight decay, and not by way of the gradient?
    fused: Kernel | None = None  # the native backend's kernel for a whole step (fused.py)

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
                change = self._by_kernel if self._is_fused(group) else self._by_rule
                for p, numbers in zip(params, self._numbers_of_step(group, params), strict=True):
                    change(p, group, numbers)
        guard(self._decisions)
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

    def _update(self, p: Tensor, g: Tensor, h: SimpleNamespace, *slots: Tensor | None) -> None:
        """The update rule, in tensors: change p along its gradient g, and the slots (None where there is none).

        g is to be descended, and has weight decay in it unless that is decoupled. h has the hyper-parameters and the
        step t: a bool as it is, a number as a 0-d tensor (replay.py says why).
        """
        raise NotImplementedError

    def _needs(self, slot: str, group: dict[str, Any]) -> bool:
        """Does a step with these settings read the slot?"""
        return True

    def _slots(self, names: tuple[str, ...], p: Tensor, group: dict[str, Any]) -> list[Tensor | None]:
        return [self.state[p][slot] if self._needs(slot, group) else None for slot in names]

    def _prepare(self, group: dict[str, Any], p: Tensor) -> None:
        """Make the state that a step of p needs and that does not exist yet."""
        entry = self.state.setdefault(p, {"step": 0})
        for slot in self.slots + self.extra:
            if slot not in entry and self._needs(slot, group):
                entry[slot] = Tensor.of(np.zeros_like(p._data))  # with the memory layout of p
                if slot in self.slots:
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

    def _is_fused(self, group: dict[str, Any]) -> bool:
        """Does a kernel make the whole step with these settings?"""
        return self.fused is not None and not any(self._needs(s, group) for s in self.extra)

    def _by_kernel(self, p: Tensor, group: dict[str, Any], numbers: np.ndarray) -> None:
        g, scale = self._gradient(p), self.state[p]["scale"]
        launch_fused(self.fused, p, g, self._slots(self.slots, p, group), scale, numbers)

    def _by_rule(self, p: Tensor, group: dict[str, Any], numbers: np.ndarray) -> None:
        g, h, scale = self._gradient(p), self._hyper_parameters(group, numbers), self.state[p]["scale"]
        if scale.size:
            h.lr = h.lr * Tensor.of(scale.reshape(p.shape if scale.size > 1 else ()))
        g = -g if group["maximize"] else g
        if group["weight_decay"] != 0 and not self.decoupled:  # with an infinite p a product with 0 would be NaN
            g = g + p * h.weight_decay
        self._update(p, g, h, *self._slots(self.slots + self.extra, p, group))

    def _gradient(self, p: Tensor) -> Tensor:
        g = p.grad
        if g.dtype != p.dtype:
            raise RuntimeError(f"{type(self).__name__}: a gradient of {g.dtype} for a parameter of {p.dtype}")
        return g

    # --- The state

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


__all__ = ["Optimizer"]
