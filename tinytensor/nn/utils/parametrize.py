"""Parametrizations: a tensor of a module is computed from others, which are trained in its place, as in PyTorch.

    class Symmetric(nn.Module):
        def forward(self, x):
            return x.triu() + x.triu(1).T

    register_parametrization(layer, "weight", Symmetric())

Then `layer.weight` is computed at each use from `layer.parametrizations.weight.original`, which is in the state under
this name. The class of the layer is one derived from its class, ParametrizedLinear, until the last one is removed.
"""

import functools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from tinytensor.core.modes import no_grad
from tinytensor.core.tensor import Tensor
from tinytensor.nn.containers import ModuleDict, ModuleList
from tinytensor.nn.module import Module, Parameter
from tinytensor.ops.argument_errors import public

_cache: dict[tuple[int, str], Tensor] | None = None  # inside cached(): the tensors that were computed


@contextmanager
def cached() -> Iterator[None]:
    """A context in which each parametrized tensor is computed once, at its first use."""
    global _cache
    outer, _cache = _cache, {} if _cache is None else _cache
    try:
        yield
    finally:
        _cache = outer


class ParametrizationList(ModuleList):
    """The modules through which a tensor is computed, and what it is computed from: `original`, or original0 and so on.

    There are several if the first module has a method `right_inverse` that gives several for the tensor's value.
    """

    def __init__(self, modules: Sequence[Module], original: Tensor, unsafe: bool = False):
        super().__init__(modules)
        self.unsafe, value = unsafe, original
        with no_grad():
            for module in reversed(modules):
                with suppress(NotImplementedError):  # then the tensor's value is what is trained
                    value = module.right_inverse(value) if hasattr(module, "right_inverse") else value
        self.is_tensor = isinstance(value, Tensor)
        if not self.is_tensor and not isinstance(value, Sequence):
            raise ValueError(
                f"{type(modules[0]).__name__}.right_inverse: expected a tensor or a list of them, "
                f"got {type(value).__name__}"
            )
        before = original.data
        if self.is_tensor:  # the parameter itself stays, which an optimizer may know
            original.data = value.detach()
        for name, part in zip(self._names(value), [original] if self.is_tensor else value):
            if isinstance(original, Parameter) and not isinstance(part, Parameter):
                part = Parameter(part.detach(), original.requires_grad)
            (self.register_parameter if isinstance(part, Parameter) else self.register_buffer)(name, part)
        try:
            if not unsafe:
                self.check(self(), before)
        except BaseException:
            original.data = before
            raise

    def _names(self, values: Tensor | Sequence[Tensor]) -> list[str]:
        return ["original"] if self.is_tensor else [f"original{i}" for i in range(len(values))]

    def check(self, value: Tensor, before: Tensor) -> None:
        """Raise unless a value is a tensor with the dtype and shape of the one before."""
        came = f"{value.dtype} {value.shape}" if isinstance(value, Tensor) else type(value).__name__
        if came != f"{before.dtype} {before.shape}":
            raise ValueError(
                f"register_parametrization: {type(self[-1]).__name__} must give a tensor of {before.dtype} and shape "
                f"{before.shape}, which the parametrized one has, got {came}; unsafe=True leaves this check out"
            )

    def originals(self) -> list[Tensor]:
        """What the tensor is computed from."""
        return [t for registry in (self._parameters, self._buffers) for t in registry.values()]

    def right_inverse(self, value: Tensor) -> None:
        """Give what the tensor is computed from the values with which the tensor has this value."""
        with no_grad():
            for module in reversed(self):
                if not hasattr(module, "right_inverse"):
                    raise RuntimeError(
                        f"{type(module).__name__} has no right_inverse, so no value can be assigned to the tensor that "
                        "it computes; assign to the original, or write the method"
                    )
                value = module.right_inverse(value)
            for original, part in zip(self.originals(), [value] if self.is_tensor else value, strict=True):
                original.data = part.detach()

    def forward(self) -> Tensor:
        first, *others = self
        value = first(*self.originals())
        for module in others:
            value = module(value)
        return value


class _Parametrized:
    """What the class of a module with parametrizations has in addition."""

    def __getattr__(self, name):
        parametrizations = self.__dict__.get("_modules", {}).get("parametrizations", ())  # of a copy, not filled yet
        if name not in parametrizations:
            return super().__getattr__(name)
        if _cache is None:
            return parametrizations[name]()
        key = id(self), name
        if key not in _cache:
            _cache[key] = parametrizations[name]()
        return _cache[key]

    def __setattr__(self, name, value):
        if name not in self.__dict__["_modules"].get("parametrizations", ()):
            return super().__setattr__(name, value)
        return self.parametrizations[name].right_inverse(value)

    def __reduce__(self):  # for copies and pickle, which look for a class by its name
        return _empty, (type_before_parametrizations(self),), self.__dict__


@functools.cache
def _class_with_parametrizations(cls: type[Module]) -> type[Module]:
    return type(f"Parametrized{cls.__name__}", (_Parametrized, cls), {"__module__": cls.__module__})


def _empty(cls: type[Module]) -> Module:
    made = _class_with_parametrizations(cls)
    return made.__new__(made)


@public
def register_parametrization(
    module: Module, tensor_name: str, parametrization: Module, *, unsafe: bool = False
) -> Module:
    """Compute a parameter or buffer of a module by the parametrization's forward, behind those that it has already.

    The first one's `right_inverse`, if there is one, gives what is trained, from the tensor's present value. The result
    must have the tensor's dtype and shape, unless `unsafe`. Returns the module.
    """
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        modules = module.parametrizations[tensor_name]
        before = getattr(module, tensor_name)
        modules.append(parametrization)
        try:
            if not (unsafe or modules.unsafe):
                modules.check(modules(), before)
        except BaseException:
            del modules[-1]
            raise
        modules.unsafe |= unsafe
        return module
    registry = next((r for r in (module._parameters, module._buffers) if r.get(tensor_name) is not None), None)
    if registry is None:
        raise ValueError(
            f"register_parametrization: {type(module).__name__} has no parameter or buffer {tensor_name!r}, but "
            f"{[*module._parameters, *module._buffers]}"
        )
    modules = ParametrizationList([parametrization], registry[tensor_name], unsafe)
    if not is_parametrized(module):
        module.parametrizations = ModuleDict()
        module.__class__ = _class_with_parametrizations(type(module))
    del registry[tensor_name]
    module.parametrizations[tensor_name] = modules
    return module


def is_parametrized(module: Module, tensor_name: str | None = None) -> bool:
    """Has the module a parametrization, or one of this tensor?"""
    parametrizations = module._modules.get("parametrizations") if isinstance(module, _Parametrized) else None
    return parametrizations is not None and (tensor_name is None or tensor_name in parametrizations)


def remove_parametrizations(module: Module, tensor_name: str, leave_parametrized: bool = True) -> Module:
    """Make the tensor a parameter (or buffer) again: with its present value, or else with the original's."""
    if not is_parametrized(module, tensor_name):
        raise ValueError(f"remove_parametrizations: {tensor_name!r} of {type(module).__name__} has no parametrization")
    modules = module.parametrizations[tensor_name]
    original, *others = modules.originals()
    if others and not leave_parametrized:
        raise ValueError(f"remove_parametrizations: {tensor_name!r} is computed from several tensors; leave its value")
    if leave_parametrized:
        value = getattr(module, tensor_name).detach()
        if modules.is_tensor:
            original.data = value
        else:
            original = Parameter(value, original.requires_grad) if isinstance(original, Parameter) else value
    del module.parametrizations[tensor_name]
    if not len(module.parametrizations):
        del module.parametrizations
        module.__class__ = type_before_parametrizations(module)
    (module.register_parameter if isinstance(original, Parameter) else module.register_buffer)(tensor_name, original)
    return module


def type_before_parametrizations(module: Module) -> type:
    """The class that the module had before its first parametrization."""
    return type(module).__bases__[1] if isinstance(module, _Parametrized) else type(module)
