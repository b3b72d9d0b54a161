"""Modules that hold others: in a row, in a list, under names."""

from collections import OrderedDict
from collections.abc import Iterable, Mapping

from tinytensor.nn.module import Module, Parameter


class Sequential(Module):
    """One module after the other."""

    def __init__(self, *modules: Module | OrderedDict):
        super().__init__()
        if len(modules) == 1 and isinstance(modules[0], Mapping):
            named = modules[0].items()
        else:
            named = ((str(i), m) for i, m in enumerate(modules))
        for name, module in named:
            self.add_module(name, module)

    def forward(self, x):
        for module in self:
            x = module(x)
        return x

    def append(self, module: Module) -> "Sequential":
        self.add_module(str(len(self)), module)
        return self

    def __iter__(self):
        return iter(self._modules.values())

    def __len__(self):
        return len(self._modules)

    def __getitem__(self, index):
        if isinstance(index, slice):
            return type(self)(*list(self)[index])
        return list(self)[index]


class ModuleList(Module):
    """A list whose modules are found."""

    def __init__(self, modules: Iterable[Module] = ()):
        super().__init__()
        self.extend(modules)

    def append(self, module: Module) -> "ModuleList":
        self.add_module(str(len(self)), module)
        return self

    def extend(self, modules: Iterable[Module]) -> "ModuleList":
        for module in modules:
            self.append(module)
        return self

    def __iter__(self):
        return iter(self._modules.values())

    def __len__(self):
        return len(self._modules)

    def __getitem__(self, index):
        return ModuleList(list(self)[index]) if isinstance(index, slice) else list(self)[index]

    def __setitem__(self, index: int, module: Module):
        self.add_module(str(range(len(self))[index]), module)

    def insert(self, index: int, module: Module) -> None:
        """Put a module in before the one at `index`; those behind it are renumbered."""
        modules = list(self)
        modules.insert(index, module)
        self.extend([module])
        for i, m in enumerate(modules):
            self[i] = m


class ModuleDict(Module):
    """A dictionary whose modules are found."""

    def __init__(self, modules: Mapping[str, Module] | None = None):
        super().__init__()
        self.update(modules or {})

    def update(self, modules: Mapping[str, Module]) -> None:
        for name, module in modules.items():
            self.add_module(name, module)

    def __getitem__(self, name: str) -> Module:
        return self._modules[name]

    def __setitem__(self, name: str, module: Module):
        self.add_module(name, module)

    def __delitem__(self, name: str):
        del self._modules[name]

    def __contains__(self, name: str):
        return name in self._modules

    def __iter__(self):
        return iter(self._modules)

    def __len__(self):
        return len(self._modules)

    def keys(self):
        return self._modules.keys()

    def values(self):
        return self._modules.values()

    def items(self):
        return self._modules.items()


class ParameterList(Module):
    """A list of parameters that are found."""

    def __init__(self, values: Iterable[Parameter] = ()):
        super().__init__()
        for value in values:
            self.append(value)

    def append(self, value: Parameter) -> "ParameterList":
        self.register_parameter(str(len(self)), value)
        return self

    def __iter__(self):
        return iter(self._parameters.values())

    def __len__(self):
        return len(self._parameters)

    def __getitem__(self, index):
        return list(self)[index]


class ParameterDict(Module):
    """A dictionary of parameters that are found."""

    def __init__(self, parameters: Mapping[str, Parameter] | None = None):
        super().__init__()
        for name, value in (parameters or {}).items():
            self[name] = value

    def __getitem__(self, name: str) -> Parameter:
        return self._parameters[name]

    def __setitem__(self, name: str, value: Parameter):
        self.register_parameter(name, value)

    def __contains__(self, name: str):
        return name in self._parameters

    def __iter__(self):
        return iter(self._parameters)

    def __len__(self):
        return len(self._parameters)

    def keys(self):
        return self._parameters.keys()

    def values(self):
        return self._parameters.values()

    def items(self):
        return self._parameters.items()
