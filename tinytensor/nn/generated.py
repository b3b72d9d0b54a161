"""Modules without parameters: activations and losses, each made from the function that declares its name."""

import inspect
from collections.abc import Callable

from tinytensor.core.op import Op
from tinytensor.core.registry import REGISTRY
from tinytensor.core.tensor import Tensor
from tinytensor.nn.module import Module
from tinytensor.ops.argument_errors import public
from tinytensor.ops.keywords import with_reduction


def settings_of(function: Callable) -> dict:
    """The arguments of the module: those of the function that have default values and may be given by position."""
    parameters = () if isinstance(function, Op) else inspect.signature(function).parameters.values()
    return {p.name: p.default for p in parameters if p.default is not p.empty and p.kind is not p.KEYWORD_ONLY}


def module_of(name: str, function: Callable) -> type[Module]:
    """A module for a function of tensors; the module's constructor takes the function's settings."""
    settings, apply = settings_of(function), function if isinstance(function, Op) else public(function, name)

    def __init__(self, *args, **kwargs) -> None:
        Module.__init__(self)
        kwargs = with_reduction(name, kwargs) if "reduction" in settings else kwargs
        unknown = set(kwargs) - set(settings)
        if unknown or len(args) > len(settings):
            raise TypeError(f"{name}: unknown arguments {sorted(unknown) or args}; expected {list(settings)}")
        for key, value in (settings | dict(zip(settings, args)) | kwargs).items():
            if isinstance(value, Tensor):
                self.register_buffer(key, value)  # the weights of a loss belong to its state
            else:
                setattr(self, key, value)

    def forward(self, *tensors, **named):
        """The function of the tensors, with the module's settings."""
        return apply(*tensors, **named, **{key: getattr(self, key) for key in settings})

    def extra_repr(self):
        """The settings."""
        shown = {k: getattr(self, k) for k in settings}
        return ", ".join(f"{k}={v!r}" for k, v in shown.items() if not isinstance(v, Tensor) and v is not False)

    body = {"__init__": __init__, "forward": forward, "extra_repr": extra_repr, "__doc__": function.__doc__}
    return type(name, (Module,), body | {"__module__": __name__})


MODULES = {
    appearance.removeprefix("nn."): module_of(appearance.removeprefix("nn."), function)
    for appearance, function in REGISTRY.items()
    if appearance.startswith("nn.")
}
globals().update(MODULES)  # pickle looks for a class in the module that its `__module__` names
