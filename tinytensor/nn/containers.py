"""Modules that hold other modules or parameters: Sequential, lists and dictionaries."""

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import Any

from tinytensor.core.tensor import Tensor
from tinytensor.nn.module import Module, Parameter
from tinytensor.ops.argument_errors import shown


class _Container(Module):
    """A container of modules or parameters; `_place` is the dictionary of Module that holds them."""

    _place = "_modules"

    @property
    def _items(self) -> dict:
        return self.__dict__[self._place]

    def _register(self, name: str, item) -> None:
        if self._place == "_modules":
            self.register_module(name, item)
        else:
            self.register_parameter(name, _parameter(item))

    def __len__(self):
        return len(self._items)


class _List(_Container):
    """The list methods of Sequential, ModuleList and ParameterList."""

    def _replace(self, items: Iterable) -> None:
        """Take these items instead, numbered anew."""
        items = list(items)
        self._items.clear()
        self.extend(items)

    def _name(self, index: int) -> str:
        if not isinstance(index, int):
            raise TypeError(f"{type(self).__name__}: an index must be a whole number or a slice, got {index!r}")
        if not -len(self) <= index < len(self):
            raise IndexError(f"{type(self).__name__}: index {index} is out of range for {len(self)} items")
        return list(self._items)[index]

    def append(self, item):
        self._register(str(len(self)), item)
        return self

    def extend(self, items: Iterable):
        for item in items:
            self.append(item)
        return self

    def insert(self, index: int, item):
        """Insert an item before the one at `index`; the later items are renumbered."""
        items = list(self)
        items.insert(index, item)
        self._replace(items)
        return self

    def pop(self, index: int = -1):
        """Remove and return the item at `index`; the later items are renumbered."""
        item = self[index]
        del self[index]
        return item

    def __iter__(self):
        return iter(self._items.values())

    def __getitem__(self, index):
        if isinstance(index, slice):
            return type(self)(list(self)[index])
        return self._items[self._name(index)]

    def __setitem__(self, index: int, item):
        self._register(self._name(index), item)

    def __delitem__(self, index):
        if not isinstance(index, slice):
            self._name(index)
        items = list(self)
        del items[index]
        self._replace(items)

    def __add__(self, other: Iterable):
        return self[:].extend(other)

    def __iadd__(self, other: Iterable):
        return self.extend(other)


class Sequential(_List):
    """One module after the other."""

    def __init__(self, *modules: Module | Mapping):
        super().__init__()
        if len(modules) == 1 and isinstance(modules[0], Mapping):
            for name, module in modules[0].items():
                self.add_module(name, module)
        else:
            self.extend(modules)

    def forward(self, x: Any) -> Tensor:
        for module in self:
            x = module(x)
        return x

    def __getitem__(self, index):
        if isinstance(index, slice):  # the items keep their names
            return type(self)(OrderedDict(list(self._items.items())[index]))
        return super().__getitem__(index)

    def __delitem__(self, index):
        gone = list(self._items)[index] if isinstance(index, slice) else [self._name(index)]
        named = any(name != str(i) for i, name in enumerate(self._items))
        for name in gone:
            del self._items[name]
        if not named:
            self._replace(self)


class ModuleList(_List):
    """A list of modules, which belong to the module that holds the list."""

    def __init__(self, modules: Iterable[Module] = ()):
        super().__init__()
        self.extend(modules)


def _parameter(value):
    """A tensor as a parameter on the same memory; other values stay, and register_parameter() refuses them."""
    return Parameter(value) if isinstance(value, Tensor) and not isinstance(value, Parameter) else value


class ParameterList(_List):
    """A list of parameters, which belong to the module that holds the list; a tensor put in becomes a parameter."""

    _place = "_parameters"

    def __init__(self, values: Iterable[Parameter] = ()):
        super().__init__()
        self.extend(values)


class _Dict(_Container):
    """The dictionary methods of ModuleDict and ParameterDict."""

    def __init__(self, items: Mapping | Iterable[tuple[str, Any]] | None = None):
        super().__init__()
        if items is not None:
            self.update(items)

    def update(self, items: Mapping | Iterable[tuple[str, Any]]) -> None:
        """Take the items of a dictionary, or pairs (name, item)."""
        try:
            pairs = [(name, item) for name, item in (items.items() if isinstance(items, Mapping | _Dict) else items)]
        except (TypeError, ValueError) as error:
            raise type(error)(
                f"{type(self).__name__}: expected a dict or pairs (name, item), got {shown(items)}"
            ) from None
        for name, item in pairs:
            self[name] = item

    def __getitem__(self, name: str):
        return self._items[name]

    def __setitem__(self, name: str, item):
        self._register(name, item)

    def __delitem__(self, name: str):
        del self._items[name]

    def __contains__(self, name: str):
        return name in self._items

    def __iter__(self):
        return iter(self._items)

    def get(self, name: str, default=None):
        return self._items.get(name, default)

    def pop(self, name: str):
        return self._items.pop(name)

    def clear(self) -> None:
        self._items.clear()

    def keys(self):
        return self._items.keys()

    def values(self):
        return self._items.values()

    def items(self):
        return self._items.items()


class ModuleDict(_Dict):
    """A dictionary of modules, which belong to the module that holds the dictionary."""


class ParameterDict(_Dict):
    """A dictionary of parameters, which belong to the module that holds the dictionary."""

    _place = "_parameters"
