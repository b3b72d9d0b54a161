"""A module as a function of its parameters and buffers."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from tinytensor.core.tensor import Tensor
from tinytensor.nn.module import Module
from tinytensor.ops.shape import stack

State = Mapping[str, Tensor]


def functional_call(
    module: Module,
    parameter_and_buffer_dicts: State | tuple[State, ...] | list[State],
    args: Any = None,
    kwargs: dict | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """module(*args, **kwargs), with these tensors in the place of its parameters and buffers.

        parameters = dict(model.named_parameters())
        grad(lambda p: F.mse_loss(functional_call(model, p, (x,)), y))(parameters)

    The names are those of state_dict(); parameters that are not named stay. A tensor that the module has under several
    names is replaced under each (`tie_weights`). Changes that the call makes to buffers reach the given tensors, and
    the module is as before afterwards. Names that the module does not have are passed over, as in PyTorch; with
    `strict` they raise RuntimeError, and so do names that are missing. `args` that are no tuple are one argument.
    """
    parts, state = parameter_and_buffer_dicts, {}
    for part in [parts] if isinstance(parts, Mapping) else parts:
        twice = state.keys() & part.keys()
        if twice:
            raise ValueError(f"functional_call: {', '.join(sorted(twice))}: more than one of the dicts has this name")
        state |= part
    args = () if args is None else args if isinstance(args, tuple) else (args,)
    with _replaced(module, state, tie_weights, strict):
        return module(*args, **(kwargs or {}))


def _registries(module: Module) -> dict[str, tuple[dict, str]]:
    """Where each parameter and buffer is kept: a dict and the name in it, by the dotted name."""
    return {
        f"{prefix}.{name}" if prefix else name: (registry, name)
        for prefix, part in module.named_modules(remove_duplicate=False)
        for registry in (part._parameters, part._buffers)
        for name, value in registry.items()
        if value is not None
    }


@contextmanager
def _replaced(module: Module, state: dict[str, Tensor], tie_weights: bool, strict: bool) -> Iterator[None]:
    """A context in which the module has these tensors."""
    registries = _registries(module)
    unknown = [name for name in state if name not in registries]
    missing = [name for name in registries if name not in state]
    if strict and (unknown or missing):
        problems = [
            f"{what}: {', '.join(names)}" for what, names in (("unknown", unknown), ("missing", missing)) if names
        ]
        raise RuntimeError(f"functional_call of {type(module).__name__}: {'; '.join(problems)}")
    values = {name: value for name, value in state.items() if name in registries}
    if tie_weights:
        by_tensor = {
            id(registry[name]): values[dotted] for dotted, (registry, name) in registries.items() if dotted in state
        }
        for dotted, (registry, name) in registries.items():
            if id(registry[name]) in by_tensor:
                values.setdefault(dotted, by_tensor[id(registry[name])])
    before = [(*registries[dotted], registries[dotted][0][registries[dotted][1]]) for dotted in values]
    try:
        for dotted, value in values.items():
            registry, name = registries[dotted]
            registry[name] = value
        yield
    finally:
        for registry, name, value in before:
            registry[name] = value


def stack_module_state(models: Sequence[Module]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """(parameters, buffers) of modules of one kind, each stacked along a new first dimension: an ensemble for vmap.

        parameters, buffers = stack_module_state(models)
        vmap(lambda p, b: functional_call(models[0], (p, b), (x,)))(parameters, buffers)

    The stacked parameters are new leaves, which require grad if those of the models do.
    """
    if not models:
        raise RuntimeError("stack_module_state: expected one module or more, got none")
    if len({type(m) for m in models}) > 1 or len({m.training for m in models}) > 1:
        raise RuntimeError(
            "stack_module_state: the modules must be of one class, and all in one mode, train() or eval()"
        )

    def stacked(named: list[dict[str, Tensor]]) -> dict[str, Tensor]:
        states = {}
        for name, first in named[0].items():
            states[name] = stack([tensors[name].detach() for tensors in named])
            if first.requires_grad:
                states[name].requires_grad_()
        return states

    return stacked([dict(m.named_parameters()) for m in models]), stacked([dict(m.named_buffers()) for m in models])
