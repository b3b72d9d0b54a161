"""Module: a function with parameters, which it lists in the order in which they were set."""

import re
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, ParamSpec, Protocol, Self, TypeVar

from tinytensor.core import late_bound
from tinytensor.core.hooks import RemovableHandle
from tinytensor.core.kernel import is_ours
from tinytensor.core.modes import no_grad
from tinytensor.core.recorder import guard
from tinytensor.core.tensor import Tensor
from tinytensor.nn.hooks import WithKwargs, arguments_after, backward_hooks, register
from tinytensor.ops.argument_errors import construction, refusal, shown
from tinytensor.ops.creation import empty, tensor


def _array_of(data: Tensor, what: str) -> Any:
    try:
        return data._data
    except AttributeError:
        raise TypeError(f"{what}: data is {shown(data)}; expected a tensor: tinytensor.tensor(...) makes one") from None


class Parameter(Tensor):
    """A tensor that a Module lists among its parameters and an optimizer trains."""

    __slots__ = ()

    def __new__(cls, data: Tensor | None = None, requires_grad: bool = True):
        return super().__new__(cls)

    def __init__(self, data: Tensor | None = None, requires_grad: bool = True):
        data = empty(0) if data is None else data
        Tensor.of(_array_of(data, "Parameter"), requires_grad, self)
        if requires_grad is not True or self.dtype.kind not in "fO":
            self.requires_grad_(requires_grad)

    def __repr__(self):
        return f"Parameter containing:\n{super().__repr__()}"


class Buffer(Tensor):
    """A tensor that belongs to a Module's state but is not trained."""

    __slots__ = ("persistent",)

    def __init__(self, data: Tensor, *, persistent: bool = True):
        Tensor.of(_array_of(data, "Buffer"), tensor=self)
        self.persistent = persistent

    def __deepcopy__(self, memo):
        result = super().__deepcopy__(memo)
        result.persistent = self.persistent
        return result


MOST_LAYERS = 100_000  # of one network: a loop over more would fill the memory with small objects for minutes


def check_layers(what: str, number: int) -> None:
    """Raise ValueError for a number of layers that is too large, before the first of them is made."""
    if number > MOST_LAYERS:
        raise ValueError(f"{what}: num_layers is {number}; expected {MOST_LAYERS:,} or less")


_TAKES = (  # the values that may be assigned to the name of a parameter, a buffer or a module
    "a parameter: assign a Parameter, or change it in place under no_grad()",
    "a buffer: assign a Tensor or None",
    "a module: assign a Module or None",
)


def _refusal(value: Any) -> str:
    """The type of a value that came in the place of a module or a parameter, with advice."""
    theirs = any(str(base.__module__).startswith("torch.nn.") for base in type(value).__mro__)
    advice = ", a module of PyTorch; import it from tinytensor, layers of einops from tinytensor.utils.einops"
    return type(value).__name__ + advice * theirs


class LoadedKeys(NamedTuple):
    """The module's names that load_state_dict() did not find, and the loaded names that the module lacks."""

    missing_keys: list[str]
    unexpected_keys: list[str]


P = ParamSpec("P")
R_co = TypeVar("R_co", covariant=True)


class Forwards(Protocol[P, R_co]):
    """A module, as type checkers see it: a call takes what its forward() takes, and gives what that gives."""

    def forward(self, *args: P.args, **kwargs: P.kwargs) -> R_co: ...


# What DistributedDataParallel and PyTorch's compile add to the names of the module that they wrap.
WRAPPERS = re.compile(r"(?<![^.])(?:module|_orig_mod)\.")


def _wrapped(own: Iterable[str], state: Iterable[str]) -> str:
    """What to do where the names in a module and in a state differ only in names of wrappers; "" if they do not."""
    if sorted(WRAPPERS.sub("", name) for name in state) == sorted(own):
        added = sorted({part for name in state for part in WRAPPERS.findall(name)})
        taken_off = "".join(f".replace({part!r}, '')" for part in added)
        return (
            f"the names in the state have {' and '.join(added)} in them, as DistributedDataParallel (module.) and "
            f"compile (_orig_mod.) write them; load {{name{taken_off}: w for name, w in state.items()}}"
        )
    if sorted(WRAPPERS.sub("", name) for name in own) == sorted(state):
        return (
            "the names in the state lack the module. of DistributedDataParallel; load it into the .module of this one"
        )
    return ""


class Module:
    """A function with parameters, buffers and submodules, which it lists in the order in which they were set."""

    training: bool

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        construction(cls)

    def __init__(self) -> None:
        set_attribute = object.__setattr__
        set_attribute(self, "_parameters", {})
        set_attribute(self, "_buffers", {})
        set_attribute(self, "_transient", set())
        set_attribute(self, "_modules", {})
        set_attribute(self, "_hooks", [])
        set_attribute(self, "_pre_hooks", [])
        set_attribute(self, "_backward_hooks", [])
        set_attribute(self, "_backward_pre_hooks", [])
        set_attribute(self, "training", True)

    # --- Attributes

    def __setattr__(self, name: str, value: Any) -> None:
        registries = self.__dict__.get("_parameters"), self.__dict__.get("_buffers"), self.__dict__.get("_modules")
        if registries[0] is None and isinstance(value, Tensor | Module):
            raise AttributeError(f"{type(self).__name__}.{name}: call super().__init__() before setting parameters")
        if registries[0] is None:
            return object.__setattr__(self, name, value)
        parameters, buffers, modules = registries
        registry = (
            parameters
            if isinstance(value, Parameter)
            else modules
            if isinstance(value, Module)
            else buffers
            if isinstance(value, Buffer) or (isinstance(value, Tensor) and name in buffers)
            else None
        )
        if registry is None:
            for other, expected in zip(registries, _TAKES, strict=True):
                if name in other:
                    if value is not None:
                        raise TypeError(f"{name} is {expected}, got {type(value).__name__}")
                    other[name] = None
                    return None
            return object.__setattr__(self, name, value)
        for other in registries:
            if other is not registry:
                other.pop(name, None)
        self.__dict__.pop(name, None)
        registry[name] = value
        if isinstance(value, Buffer | Parameter | Module):  # a tensor that replaces a buffer is as persistent as that
            (self._transient.discard if getattr(value, "persistent", True) else self._transient.add)(name)
        return None

    def __getattr__(self, name: str) -> Any:
        for registry in ("_parameters", "_buffers", "_modules"):
            entries = self.__dict__.get(registry, {})
            if name in entries:
                return entries[name]
        raise late_bound.missing_name("nn.Module", name, self, f"{type(self).__name__} has no attribute {name!r}")

    def __delattr__(self, name: str) -> None:
        for registry in (self._parameters, self._buffers, self._modules):
            if name in registry:
                del registry[name]
                self._transient.discard(name)
                return
        object.__delattr__(self, name)

    def __dir__(self):
        return [*super().__dir__(), *self._parameters, *self._buffers, *self._modules]

    def _check_name(self, name: str, registry: str, value: Any, expected: type) -> None:
        """Raise for a name or a value that can't be registered."""
        what = f"{type(self).__name__}: {name!r}"
        if not isinstance(name, str):
            raise TypeError(f"{what} can't be a name in a module: expected a string")
        if registry not in self.__dict__:
            raise AttributeError(f"{what}: call super().__init__() before registering anything")
        if not name or "." in name:
            raise KeyError(f"{what} can't be a name in a module: it must not be empty, and dots separate modules")
        if name not in self.__dict__[registry] and hasattr(self, name):
            raise KeyError(f"{what} is an attribute already; choose another name")
        if value is not None and not isinstance(value, expected):
            raise TypeError(f"{what}: expected a {expected.__name__} or None, got {_refusal(value)}")

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Like setting an attribute; None keeps the name for a parameter that is left out."""
        self._check_name(name, "_parameters", param, Parameter)
        self._parameters[name] = param

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Keep a tensor in the module's state; `persistent=False` leaves it out of state_dict()."""
        self._check_name(name, "_buffers", tensor, Tensor)
        self._buffers[name] = tensor
        (self._transient.discard if persistent else self._transient.add)(name)

    def register_module(self, name: str, module: "Module | None") -> None:
        """Like setting an attribute, for names that are computed."""
        self._check_name(name, "_modules", module, Module)
        self._modules[name] = module

    add_module = register_module

    def register_forward_pre_hook(
        self, hook: Callable, *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """Call `hook(module, args)` before forward; a result other than None replaces the positional arguments.

        With `with_kwargs` it is `hook(module, args, kwargs)`, whose result is None or a tuple (args, kwargs). The hook
        comes after the others, or before them with `prepend`. Returns a handle that removes it.
        """
        return register(self._pre_hooks, WithKwargs(hook) if with_kwargs else hook, prepend)

    def register_forward_hook(
        self, hook: Callable, *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """Call `hook(module, args, output)` after forward; a result other than None replaces the output.

        With `with_kwargs` it is `hook(module, args, kwargs, output)`. The hook comes after the others, or before them
        with `prepend`. Returns a handle that removes it.
        """
        return register(self._hooks, WithKwargs(hook) if with_kwargs else hook, prepend)

    def register_full_backward_pre_hook(self, hook: Callable, prepend: bool = False) -> RemovableHandle:
        """Call `hook(module, grad_output)` when the gradients of the results are known, before the module's backward.

        grad_output is a tuple; a result other than None replaces it. The hook comes after the others, or before them
        with `prepend`. Returns a handle that removes it.
        """
        return register(self._backward_pre_hooks, hook, prepend)

    def register_full_backward_hook(self, hook: Callable, prepend: bool = False) -> RemovableHandle:
        """Call `hook(module, grad_input, grad_output)` when the gradients of the inputs are known.

        Both are tuples; a result other than None replaces grad_input. The hook comes after the others, or before them
        with `prepend`. Returns a handle that removes it.
        """
        return register(self._backward_hooks, hook, prepend)

    # --- Calling

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Compute the module's result; a subclass defines it, otherwise NotImplementedError."""
        raise NotImplementedError(f"{type(self).__name__} needs a method forward()")

    def __call__(self: Forwards[P, R_co], *args: P.args, **kwargs: P.kwargs) -> R_co:
        guard(self._makeup)
        for hook in tuple(self._pre_hooks):
            args, kwargs = arguments_after(self, hook, args, kwargs)
        leave = None
        if self._backward_hooks or self._backward_pre_hooks:
            args, leave = backward_hooks(self, args)
        try:
            result = self.forward(*args, **kwargs)
        except Exception as error:
            name = type(self).__name__
            if is_ours(type(self)) and not str(error).startswith(f"{name}: "):
                wrong = refusal(self.forward, name, args, kwargs, error)
                if wrong is not None:
                    raise wrong from None
            raise
        for hook in list(self._hooks):
            replaced = (
                hook.hook(self, args, kwargs, result) if isinstance(hook, WithKwargs) else hook(self, args, result)
            )
            result = result if replaced is None else replaced
        return result if leave is None else leave(result)

    def _makeup(self) -> tuple:
        """The attributes that decide which launches a call makes, apart from the values of tensors."""
        registries = self._parameters, self._buffers, self._modules
        return (
            self.training,
            *(value for registry in registries for value in registry.values()),
            *self._pre_hooks,
            *self._hooks,
            *self._backward_hooks,
            *self._backward_pre_hooks,
        )

    # --- Walking the tree

    def named_modules(
        self, memo: set | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, "Module"]]:
        """This module and all below it with their dotted names, each once (or under each of its names)."""
        memo = set() if memo is None else memo
        if id(self) in memo:
            return
        if remove_duplicate:
            memo.add(id(self))
        yield prefix, self
        for name, module in self._modules.items():
            if module is not None:
                yield from module.named_modules(memo, f"{prefix}.{name}" if prefix else name, remove_duplicate)

    def modules(self) -> Iterator["Module"]:
        """This module and all below it, each once."""
        return (m for _, m in self.named_modules())

    def named_children(self) -> Iterator[tuple[str, "Module"]]:
        """The modules directly below this one, with the names of their attributes; each once, under its first name."""
        firsts = {id(m): (n, m) for n, m in reversed(self._modules.items()) if m is not None}
        return ((n, m) for n, m in self._modules.items() if m is not None and firsts[id(m)][0] == n)

    def children(self) -> Iterator["Module"]:
        """The modules directly below this one."""
        return (m for _, m in self.named_children())

    def _named(self, registry: str, recurse: bool, prefix: str, remove_duplicate: bool):
        seen = set()
        modules = self.named_modules(None, prefix, remove_duplicate) if recurse else [(prefix, self)]
        for module_name, module in modules:
            for name, value in module.__dict__[registry].items():
                if value is None or (remove_duplicate and id(value) in seen):
                    continue
                seen.add(id(value))
                yield (f"{module_name}.{name}" if module_name else name), value

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """All parameters with their dotted names, each once (or under each of its names if not `remove_duplicate`)."""
        return self._named("_parameters", recurse, prefix, remove_duplicate)

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """All parameters, each once; with recurse=False this module's own."""
        return (p for _, p in self.named_parameters(recurse=recurse))

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """All buffers with their dotted names, each once (or under each of its names if not `remove_duplicate`)."""
        return self._named("_buffers", recurse, prefix, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """All buffers, each once; with recurse=False this module's own."""
        return (b for _, b in self.named_buffers(recurse=recurse))

    def get_submodule(self, target: str) -> "Module":
        """The module at a dotted path, "blocks.0.norm" say; AttributeError if there is none."""
        module = self
        for name in target.split(".") if target else ():
            module = getattr(module, name)
        return module

    def num_parameters(self) -> Any:
        """The number of trained numbers (a SymPy expression if sizes are symbols)."""
        return sum(p.numel() for p in self.parameters())

    # --- State

    def train(self, mode: bool = True) -> Self:
        """Switch to training (dropout acts); returns the module."""
        if mode is not True and mode is not False:
            raise ValueError(f"train: expected True or False, got {mode!r}")
        for module in self.modules():
            module.training = mode
        return self

    def eval(self) -> Self:
        """Switch to evaluation (dropout passes its input through); returns the module."""
        return self.train(False)

    def apply(self, fn: Callable[["Module"], Any]) -> Self:
        """Call fn on every module below this one, then on this one; returns the module."""
        for child in self.children():
            child.apply(fn)
        fn(self)
        return self

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Set whether the parameters require grad; returns the module."""
        for p in self.parameters():
            p.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Set the gradients of all parameters to None (or to 0)."""
        for p in self.parameters():
            if set_to_none:
                p.grad = None
            elif p.grad is not None:
                p.grad.zero_()

    def _convert(self, change: Callable[[Tensor], Tensor]) -> Self:
        for module in self.modules():
            for p in module._parameters.values():
                if p is not None:
                    p.data = change(p.data)
                    if p.grad is not None:
                        p._grad = change(p.grad)
            for name, buffer in module._buffers.items():
                if buffer is not None:  # a new one: the tensor may be the user's, or another module's
                    module._buffers[name] = change(buffer)
        return self

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """Convert floating-point parameters and buffers to a dtype (any device other than the CPU raises)."""
        dtype = empty(0).to(*args, **kwargs).dtype
        if dtype.kind not in "fO":
            raise TypeError(f"to: {dtype} would cut a module's numbers; expected a floating-point dtype")
        return self._convert(lambda t: t.to(*args, **kwargs) if t.is_floating_point() else t)

    def float(self) -> Self:
        """Convert all parameters and buffers of floating point to float32; returns the module."""
        return self._convert(lambda t: t.float() if t.is_floating_point() else t)

    def double(self) -> Self:
        """Convert all parameters and buffers of floating point to float64; returns the module."""
        return self._convert(lambda t: t.double() if t.is_floating_point() else t)

    def cpu(self) -> Self:
        """The module itself, which is on the CPU already."""
        return self

    def get_extra_state(self) -> Any:
        """The state that a custom module has beside tensors; `state_dict` stores it as "..._extra_state"."""
        raise RuntimeError(f"{type(self).__name__}.get_extra_state: a module that sets extra state must also give it")

    def set_extra_state(self, state: Any) -> None:
        """Restore the state that `get_extra_state` returned."""
        raise RuntimeError(f"{type(self).__name__}.set_extra_state: a module that gives extra state must also take it")

    def _with_extra_state(self, prefix: str = "") -> "Iterator[tuple[str, Module]]":
        """The modules with extra state, each with the key of that in `state_dict`."""
        for name, module in self.named_modules(None, prefix.rstrip("."), False):
            if type(module).get_extra_state is not Module.get_extra_state:
                yield (f"{name}." if name else "") + "_extra_state", module

    def state_dict(self, prefix: str = "") -> "OrderedDict[str, Tensor]":
        """Parameters and persistent buffers under their dotted names, sharing memory, and extra state."""
        entries = OrderedDict()
        for name, module in self.named_modules(None, prefix.rstrip("."), False):
            for registry in (module._parameters, module._buffers):
                for key, value in registry.items():
                    if value is not None and key not in module._transient:
                        entries[f"{name}.{key}" if name else key] = value.detach()
        return entries | {key: module.get_extra_state() for key, module in self._with_extra_state(prefix)}

    def load_state_dict(self, state_dict: Mapping[str, Tensor], strict: bool = True) -> LoadedKeys:
        """Copy values in by name; returns (missing_keys, unexpected_keys), which raise if `strict`."""
        if self._on_meta():
            raise RuntimeError(
                f"load_state_dict of {type(self).__name__}: it has shapes only, and no memory to copy values into; "
                "build the module without device='meta'"
            )
        what = f"load_state_dict of {type(self).__name__}"
        if not isinstance(state_dict, Mapping) or not all(isinstance(name, str) for name in state_dict):
            raise TypeError(
                f"{what}: expected a dict of names and tensors, got {shown(state_dict)}; tinytensor.load(path) reads "
                "one from a file"
            )
        own, extra = self.state_dict(), dict(self._with_extra_state())
        missing, unexpected = [k for k in own if k not in state_dict], [k for k in state_dict if k not in own]
        tensors = {k: v for k, v in state_dict.items() if k in own and k not in extra}
        others = [f"{k} is {shown(v)}" for k, v in tensors.items() if not hasattr(v, "shape")]
        wrong = [
            f"{k}: {tuple(v.shape)} in the state, {own[k].shape} in the module"
            for k, v in tensors.items()
            if hasattr(v, "shape") and tuple(v.shape) != own[k].shape
        ]
        problems = [f"expected tensors ({'; '.join(others)})"] if others else []
        problems += [f"shapes differ ({'; '.join(wrong)})"] if wrong else []
        if strict and missing and (advice := _wrapped(own, state_dict)):
            problems.append(advice)
        elif strict:
            problems += [f"missing: {', '.join(missing)}"] if missing else []
            problems += [f"unexpected: {', '.join(unexpected)}"] if unexpected else []
        if problems:
            raise RuntimeError(f"{what}: {'; '.join(problems)}")
        tensors = {k: v if isinstance(v, Tensor) else tensor(v) for k, v in tensors.items()}
        with no_grad():
            for key, value in tensors.items():
                own[key].copy_(value)
        for key, value in state_dict.items():
            if key in extra:
                extra[key].set_extra_state(value)
        return LoadedKeys(missing, unexpected)

    def _on_meta(self) -> bool:
        return any(t.device == "meta" for t in (*self.parameters(), *self.buffers()))

    # --- Printing

    def extra_repr(self) -> str:
        """The settings between the parentheses of the module's repr."""
        return ""

    def __repr__(self):
        lines = [f"({name}): {module!r}".replace("\n", "\n  ") for name, module in self._modules.items()]
        extra = self.extra_repr()
        if not lines:
            return f"{type(self).__name__}({extra})"
        return f"{type(self).__name__}({extra}\n  " + "\n  ".join(lines) + "\n)"
