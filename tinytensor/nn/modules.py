"""Modules: functions with parameters, under PyTorch's names."""

import math
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from tinytensor import ops
from tinytensor.creation import empty, ones, tensor, zeros
from tinytensor.door import state
from tinytensor.nn import functional as F
from tinytensor.nn import init
from tinytensor.tensor import HookHandle, Tensor, bool_, no_grad


class Parameter(Tensor):
    """A tensor that a Module finds and an optimizer trains."""

    __slots__ = ()

    def __new__(cls, data: Tensor | None = None, requires_grad: bool = True):
        return super().__new__(cls)

    def __init__(self, data: Tensor | None = None, requires_grad: bool = True):
        data = empty(0) if data is None else data
        super().__init__(data._data, requires_grad)

    def __repr__(self):
        return f"Parameter containing:\n{super().__repr__()}"


class Buffer(Tensor):
    """A tensor that belongs to a Module's state but is not trained."""

    __slots__ = ("persistent",)

    def __init__(self, data: Tensor, *, persistent: bool = True):
        super().__init__(data._data)
        self.persistent = persistent

    def __deepcopy__(self, memo):
        result = super().__deepcopy__(memo)
        result.persistent = self.persistent
        return result


class LoadedKeys(NamedTuple):
    """The names that load_state_dict() did not find, and those for which it found no place."""

    missing_keys: list[str]
    unexpected_keys: list[str]


class Module:
    """A function with parameters, buffers and submodules, found in the order in which they are set."""

    training: bool

    def __init__(self):
        set_ = object.__setattr__
        set_(self, "_parameters", {})
        set_(self, "_buffers", {})
        set_(self, "_transient", set())
        set_(self, "_modules", {})
        set_(self, "_hooks", [])
        set_(self, "training", True)

    # ------------------------------------------------------------------------------ attributes find their place

    def __setattr__(self, name: str, value: Any):
        places = self.__dict__.get("_parameters"), self.__dict__.get("_buffers"), self.__dict__.get("_modules")
        if places[0] is None and isinstance(value, Tensor | Module):
            raise AttributeError(f"{type(self).__name__}.{name}: call super().__init__() before setting parameters")
        if places[0] is None:
            return object.__setattr__(self, name, value)
        parameters, buffers, modules = places
        kind = (
            parameters
            if isinstance(value, Parameter)
            else modules
            if isinstance(value, Module)
            else buffers
            if isinstance(value, Buffer) or (isinstance(value, Tensor) and name in buffers)
            else None
        )
        if kind is None:
            for place in places:
                if name in place:
                    if value is None:
                        place[name] = None
                        return None
                    if place is parameters and isinstance(value, Tensor):
                        raise TypeError(
                            f"{name} is a parameter: assign a Parameter, or change it in place under no_grad()"
                        )
                    del place[name]
            return object.__setattr__(self, name, value)
        for place in places:
            if place is not kind:
                place.pop(name, None)
        self.__dict__.pop(name, None)
        kind[name] = value
        if isinstance(value, Buffer) and not value.persistent:
            self._transient.add(name)
        return None

    def __getattr__(self, name: str):
        for place in ("_parameters", "_buffers", "_modules"):
            found = self.__dict__.get(place, {})
            if name in found:
                return found[name]
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")

    def __delattr__(self, name: str):
        for place in (self._parameters, self._buffers, self._modules):
            if name in place:
                del place[name]
                return
        object.__delattr__(self, name)

    def __dir__(self):
        return [*super().__dir__(), *self._parameters, *self._buffers, *self._modules]

    def _check_name(self, name: str, place: str, value: Any, expected: type) -> None:
        """Refuse what could be set, but not found again."""
        what = f"{type(self).__name__}: {name!r}"
        if place not in self.__dict__:
            raise AttributeError(f"{what}: call super().__init__() before registering anything")
        if not name or "." in name:
            raise KeyError(f"{what} can't be a name in a module: it must not be empty, and dots part modules")
        if name not in self.__dict__[place] and hasattr(self, name):
            raise KeyError(f"{what} is an attribute already; choose another name")
        if value is not None and not isinstance(value, expected):
            raise TypeError(f"{what}: expected a {expected.__name__} or None, got {type(value).__name__}")

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

    def register_forward_hook(self, hook: Callable) -> HookHandle:
        """Call `hook(module, args, output)` after forward; what it returns (if anything) replaces the output.

        Returns a handle that removes the hook.
        """
        self._hooks.append(hook)
        return HookHandle(self._hooks, hook)

    # ---------------------------------------------------------------------------------------- calling

    def forward(self, *args, **kwargs):
        raise NotImplementedError(f"{type(self).__name__} needs a method forward()")

    def __call__(self, *args, **kwargs):
        if state.recording is not None:
            state.recording.guard(self._makeup)
        result = self.forward(*args, **kwargs)
        for hook in list(self._hooks):
            replaced = hook(self, args, result)
            result = result if replaced is None else replaced
        return result

    def _makeup(self) -> tuple:
        """What decides which launches a call makes, tensors' values aside."""
        places = self._parameters, self._buffers, self._modules
        return self.training, *(value for place in places for value in place.values()), *self._hooks

    # ------------------------------------------------------------------------------ walking the tree

    def named_modules(self, memo: set | None = None, prefix: str = "") -> Iterator[tuple[str, "Module"]]:
        """This module and all below it, each once, with their dotted names."""
        memo = set() if memo is None else memo
        if id(self) in memo:
            return
        memo.add(id(self))
        yield prefix, self
        for name, module in self._modules.items():
            if module is not None:
                yield from module.named_modules(memo, f"{prefix}.{name}" if prefix else name)

    def modules(self) -> Iterator["Module"]:
        return (m for _, m in self.named_modules())

    def named_children(self) -> Iterator[tuple[str, "Module"]]:
        return ((n, m) for n, m in self._modules.items() if m is not None)

    def children(self) -> Iterator["Module"]:
        return (m for _, m in self.named_children())

    def _named(self, place: str, recurse: bool, prefix: str, remove_duplicate: bool):
        seen = set()
        for module_name, module in self.named_modules(prefix=prefix) if recurse else [(prefix, self)]:
            for name, value in module.__dict__[place].items():
                if value is None or (remove_duplicate and id(value) in seen):
                    continue
                seen.add(id(value))
                yield (f"{module_name}.{name}" if module_name else name), value

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """All parameters with their dotted names; one that is shared appears once."""
        return self._named("_parameters", recurse, prefix, remove_duplicate)

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        return (p for _, p in self.named_parameters(recurse=recurse))

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        return self._named("_buffers", recurse, prefix, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        return (b for _, b in self.named_buffers(recurse=recurse))

    def get_submodule(self, target: str) -> "Module":
        module = self
        for name in target.split(".") if target else ():
            module = getattr(module, name)
        return module

    def num_parameters(self):
        """How many numbers are trained (a SymPy expression where sizes are symbols)."""
        return sum(p.numel() for p in self.parameters())

    # ------------------------------------------------------------------------------------------- state

    def train(self, mode: bool = True) -> "Module":
        """Switch to training (dropout acts); returns the module."""
        for module in self.modules():
            module.training = mode
        return self

    def eval(self) -> "Module":
        """Switch to evaluation (dropout passes its input through); returns the module."""
        return self.train(False)

    def apply(self, fn: Callable[["Module"], Any]) -> "Module":
        """Call fn on every module below this one, then on this one; returns the module."""
        for child in self.children():
            child.apply(fn)
        fn(self)
        return self

    def requires_grad_(self, requires_grad: bool = True) -> "Module":
        for p in self.parameters():
            p.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients of all parameters (or set them to 0)."""
        for p in self.parameters():
            if set_to_none:
                p.grad = None
            elif p.grad is not None:
                p.grad.zero_()

    def _convert(self, change: Callable[[Tensor], Tensor]) -> "Module":
        for module in self.modules():
            for place in (module._parameters, module._buffers):
                for value in place.values():
                    if value is not None:
                        value.data = change(value.data)
                        if value._grad is not None:
                            value._grad = change(value._grad)
        return self

    def to(self, *args, **kwargs) -> "Module":
        """Convert floating-point parameters and buffers to a dtype (a device other than the CPU raises)."""
        return self._convert(lambda t: t.to(*args, **kwargs) if t.is_floating_point() else t)

    def float(self) -> "Module":
        return self._convert(lambda t: t.float() if t.is_floating_point() else t)

    def double(self) -> "Module":
        return self._convert(lambda t: t.double() if t.is_floating_point() else t)

    def cpu(self) -> "Module":
        return self

    def state_dict(self, prefix: str = "") -> "OrderedDict[str, Tensor]":
        """Parameters and persistent buffers under their dotted names, sharing memory."""
        state_ = OrderedDict()
        for name, module in self._named_modules_with_duplicates(prefix):
            for place in (module._parameters, module._buffers):
                for key, value in place.items():
                    if value is not None and key not in module._transient:
                        state_[f"{name}.{key}" if name else key] = value.detach()
        return state_

    def _named_modules_with_duplicates(self, prefix: str):
        yield prefix.rstrip("."), self
        for name, module in self._modules.items():
            if module is not None:
                yield from module._named_modules_with_duplicates(f"{prefix.rstrip('.')}.{name}" if prefix else name)

    def load_state_dict(self, state_dict: Mapping[str, Tensor], strict: bool = True) -> LoadedKeys:
        """Copy values in by name; returns (missing_keys, unexpected_keys), which raise if `strict`."""
        if self._on_meta():
            raise RuntimeError(
                f"load_state_dict of {type(self).__name__}: it has shapes only, and no memory to copy values into; "
                "build the module without device='meta'"
            )
        own = self.state_dict()
        missing, unexpected = [k for k in own if k not in state_dict], [k for k in state_dict if k not in own]
        wrong = [
            f"{k}: {tuple(v.shape)} in the state, {own[k].shape} in the module"
            for k, v in state_dict.items()
            if k in own and tuple(v.shape) != own[k].shape
        ]
        problems = [f"shapes differ ({'; '.join(wrong)})"] if wrong else []
        if strict:
            problems += [f"missing: {', '.join(missing)}"] if missing else []
            problems += [f"unexpected: {', '.join(unexpected)}"] if unexpected else []
        if problems:
            raise RuntimeError(f"load_state_dict of {type(self).__name__}: {'; '.join(problems)}")
        with no_grad():
            for key, value in state_dict.items():
                if key in own:
                    own[key].copy_(value if isinstance(value, Tensor) else tensor(value))
        return LoadedKeys(missing, unexpected)

    def _on_meta(self) -> bool:
        return any(t.device == "meta" for t in (*self.parameters(), *self.buffers()))

    # ------------------------------------------------------------------------------------------- printing

    def extra_repr(self) -> str:
        return ""

    def __repr__(self):
        lines = [f"({name}): {module!r}".replace("\n", "\n  ") for name, module in self._modules.items()]
        extra = self.extra_repr()
        if not lines:
            return f"{type(self).__name__}({extra})"
        return f"{type(self).__name__}({extra}\n  " + "\n  ".join(lines) + "\n)"


# ----------------------------------------------------------------------------------------------- containers


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


# --------------------------------------------------------------------------------------------------- layers


class Linear(Module):
    """y = x w^T + b, with w (out, in); both uniform on +-1/sqrt(in) at first."""

    def __init__(self, in_features: int, out_features: int, bias: bool = True, device=None, dtype=None):
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        self.weight = Parameter(empty(out_features, in_features, device=device, dtype=dtype))
        self.register_parameter("bias", None)
        if bias:
            self.bias = Parameter(empty(out_features, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        if self.weight.device == "meta":
            return
        bound = 1 / math.sqrt(self.in_features) if self.in_features else 0
        init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input: Tensor) -> Tensor:
        return ops.linear(input, self.weight, self.bias)

    def extra_repr(self):
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"


class Embedding(Module):
    """y = the rows of the weight (num_embeddings, embedding_dim) that the indices name; normal at first."""

    def __init__(
        self, num_embeddings: int, embedding_dim: int, padding_idx: int | None = None, device=None, dtype=None
    ):
        super().__init__()
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        if padding_idx is not None and not -num_embeddings <= padding_idx < num_embeddings:
            raise ValueError(f"Embedding: padding_idx {padding_idx} is outside {num_embeddings} embeddings")
        self.padding_idx = None if padding_idx is None else padding_idx % num_embeddings
        self.weight = Parameter(empty(num_embeddings, embedding_dim, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        init.normal_(self.weight)
        if self.padding_idx is not None and self.weight.device != "meta":
            with no_grad():
                self.weight[self.padding_idx] = 0

    @classmethod
    def from_pretrained(cls, embeddings: Tensor, freeze: bool = True, padding_idx: int | None = None) -> "Embedding":
        """An embedding with given rows, not trained unless `freeze` is False."""
        module = cls(*embeddings.shape, padding_idx=padding_idx, dtype=embeddings.dtype)
        module.weight = Parameter(embeddings, requires_grad=not freeze)
        return module

    def forward(self, input: Tensor) -> Tensor:
        return F.embedding(input, self.weight, self.padding_idx)

    def extra_repr(self):
        padding = "" if self.padding_idx is None else f", padding_idx={self.padding_idx}"
        return f"{self.num_embeddings}, {self.embedding_dim}{padding}"


class LayerNorm(Module):
    r"""y = \gamma (x - \mu) / \sqrt{\sigma^2 + \epsilon} + \delta; without affine there are no \gamma, \delta (003)."""

    def __init__(
        self,
        normalized_shape,
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device=None,
        dtype=None,
    ):
        super().__init__()
        self.normalized_shape = (
            tuple(normalized_shape) if isinstance(normalized_shape, tuple | list) else (normalized_shape,)
        )
        self.eps, self.elementwise_affine = eps, elementwise_affine
        self.register_parameter("weight", None)
        self.register_parameter("bias", None)
        if elementwise_affine:
            self.weight = Parameter(ones(*self.normalized_shape, device=device, dtype=dtype))
            if bias:
                self.bias = Parameter(zeros(*self.normalized_shape, device=device, dtype=dtype))

    def reset_parameters(self) -> None:
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def forward(self, input: Tensor) -> Tensor:
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self):
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"


class RMSNorm(Module):
    r"""y = \gamma x / \sqrt{\overline{x^2} + \epsilon}."""

    def __init__(
        self, normalized_shape, eps: float | None = None, elementwise_affine: bool = True, device=None, dtype=None
    ):
        super().__init__()
        self.normalized_shape = (
            tuple(normalized_shape) if isinstance(normalized_shape, tuple | list) else (normalized_shape,)
        )
        self.eps, self.elementwise_affine = eps, elementwise_affine
        self.register_parameter("weight", None)
        if elementwise_affine:
            self.weight = Parameter(ones(*self.normalized_shape, device=device, dtype=dtype))

    def reset_parameters(self) -> None:
        if self.weight is not None:
            init.ones_(self.weight)

    def forward(self, input: Tensor) -> Tensor:
        return F.rms_norm(input, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self):
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"


class Dropout(Module):
    """While training, 0 with probability p, and the rest scaled by 1 / (1 - p)."""

    def __init__(self, p: float = 0.5, inplace: bool = False):
        super().__init__()
        if not 0 <= p <= 1:
            raise ValueError(f"Dropout: the probability must be between 0 and 1, got {p}")
        self.p, self.inplace = p, inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout(input, self.p, self.training, self.inplace)

    def extra_repr(self):
        return f"p={self.p}, inplace={self.inplace}"


class Identity(Module):
    """y = x."""

    def __init__(self, *args, **kwargs):
        super().__init__()

    def forward(self, input: Tensor) -> Tensor:
        return input


class Flatten(Module):
    """The dimensions from start to end made one."""

    def __init__(self, start_dim: int = 1, end_dim: int = -1):
        super().__init__()
        self.start_dim, self.end_dim = start_dim, end_dim

    def forward(self, input: Tensor) -> Tensor:
        return ops.flatten(input, self.start_dim, self.end_dim)


class MultiheadAttention(Module):
    """H heads of scaled dot-product attention, joined and projected (001; PyTorch's parameters and shapes).

    query (B, C, E), key (B, M, kdim), value (B, M, vdim) if `batch_first`, else with positions first; without a batch
    (C, E) and so on. Masks: `key_padding_mask` (B, M) and bool `attn_mask` (C, M) or (B H, C, M), True where NOT to
    attend (PyTorch's sense here), or float ones to be added to the scores. Returns (y, weights); the weights are None
    unless `need_weights`, and averaged over the heads if `average_attn_weights`.
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device=None,
        dtype=None,
    ):
        super().__init__()
        if embed_dim % num_heads:
            raise ValueError(f"MultiheadAttention: embed_dim {embed_dim} is not a multiple of num_heads {num_heads}")
        if add_bias_kv or add_zero_attn:
            raise NotImplementedError("MultiheadAttention: add_bias_kv and add_zero_attn are not offered")
        self.embed_dim, self.num_heads, self.head_dim = embed_dim, num_heads, embed_dim // num_heads
        self.kdim = embed_dim if kdim is None else kdim
        self.vdim = embed_dim if vdim is None else vdim
        self.dropout, self.batch_first = dropout, batch_first
        self.together = self.kdim == self.vdim == embed_dim
        where = {"device": device, "dtype": dtype}
        for name in ("in_proj_weight", "q_proj_weight", "k_proj_weight", "v_proj_weight", "in_proj_bias"):
            self.register_parameter(name, None)
        if self.together:
            self.in_proj_weight = Parameter(empty(3 * embed_dim, embed_dim, **where))
        else:
            self.q_proj_weight = Parameter(empty(embed_dim, embed_dim, **where))
            self.k_proj_weight = Parameter(empty(embed_dim, self.kdim, **where))
            self.v_proj_weight = Parameter(empty(embed_dim, self.vdim, **where))
        if bias:
            self.in_proj_bias = Parameter(zeros(3 * embed_dim, **where))
        self.out_proj = Linear(embed_dim, embed_dim, bias=bias, **where)
        if bias:
            init.zeros_(self.out_proj.bias)
        for weight in (self.in_proj_weight, self.q_proj_weight, self.k_proj_weight, self.v_proj_weight):
            if weight is not None:
                init.xavier_uniform_(weight)

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        batched = query.ndim == 3
        if query.ndim not in (2, 3) or key.ndim != query.ndim or value.ndim != query.ndim:
            raise RuntimeError(
                f"MultiheadAttention: query {query.shape}, key {key.shape}, value {value.shape}: expected all of them "
                "with a batch (3 dimensions) or all without (2)"
            )
        if not batched:
            query, key, value = (ops.unsqueeze(x, 0) for x in (query, key, value))
        elif not self.batch_first:
            query, key, value = (ops.transpose(x, 0, 1) for x in (query, key, value))
        E, H = self.embed_dim, self.num_heads
        biases = (None,) * 3 if self.in_proj_bias is None else ops.chunk(self.in_proj_bias, 3)
        if self.together:
            weights = ops.chunk(self.in_proj_weight, 3)
        else:
            weights = self.q_proj_weight, self.k_proj_weight, self.v_proj_weight
        q, k, v = (ops.linear(x, w, b) for x, w, b in zip((query, key, value), weights, biases, strict=True))
        q, k, v = (ops.transpose(ops.unflatten(x, -1, (H, E // H)), 1, 2) for x in (q, k, v))  # (B, H, C, K)
        mask = self._mask(attn_mask, key_padding_mask, is_causal and attn_mask is None, q, k, batched)
        p = self.dropout if self.training else 0.0
        if need_weights:
            A = F.dropout(F.attention_weights(q, k, mask), p)
            y = ops.matmul(A, v)
        else:
            A, y = None, F.scaled_dot_product_attention(q, k, v, mask, p)
        y = self.out_proj(ops.flatten(ops.transpose(y, 1, 2), 2))
        if A is not None and average_attn_weights:
            A = ops.mean(A, 1)
        if not batched:
            return ops.squeeze(y, 0), None if A is None else ops.squeeze(A, 0)
        return y if self.batch_first else ops.transpose(y, 0, 1), A

    def _mask(self, attn_mask, key_padding_mask, is_causal, q, k, batched) -> Tensor | None:
        """All masks as one: bool with True for "may attend", or one to be added if any of them is."""
        B, H, C, M = *q.shape[:3], k.shape[2]
        masks = []
        if is_causal:
            masks.append(ops.triu(ones(C, M), 1) != 0)
        if attn_mask is not None:
            if attn_mask.shape not in ((C, M), (B * H, C, M)):
                raise RuntimeError(
                    f"MultiheadAttention: attn_mask of shape {attn_mask.shape}, expected {(C, M)} or {(B * H, C, M)}"
                )
            masks.append(ops.reshape(attn_mask, (B, H, C, M)) if attn_mask.ndim == 3 else attn_mask)
        if key_padding_mask is not None:
            expected = (B, M) if batched else (M,)
            if key_padding_mask.shape != expected:
                raise RuntimeError(
                    f"MultiheadAttention: key_padding_mask of shape {key_padding_mask.shape}, expected {expected}"
                )
            masks.append(ops.reshape(key_padding_mask, (B, 1, 1, M)))
        if not masks:
            return None
        if all(m.dtype == bool_ for m in masks):
            forbidden = masks[0]
            for m in masks[1:]:
                forbidden = ops.logical_or(forbidden, m)
            return ops.logical_not(forbidden)
        added = [ops.where(m, -math.inf, zeros((), dtype=q.dtype)) if m.dtype == bool_ else m for m in masks]
        total = added[0]
        for m in added[1:]:
            total = total + m
        return total

    def extra_repr(self):
        return f"embed_dim={self.embed_dim}, num_heads={self.num_heads}"


# ------------------------------------------------------------------------------------ activations and losses


def _module_of(name: str, function: Callable, doc: str, **settings) -> type[Module]:
    """A module without parameters for a function of one or two tensors; its settings are the module's arguments."""

    def __init__(self, *args, **kwargs):
        Module.__init__(self)
        unknown = set(kwargs) - set(settings)
        if unknown or len(args) > len(settings):
            raise TypeError(f"{name}: unknown arguments {sorted(unknown) or args}; expected {list(settings)}")
        given = dict(zip(settings, args, strict=False)) | kwargs
        self._settings = settings | given
        for key, value in self._settings.items():
            if isinstance(value, Tensor):
                self.register_buffer(key, value)  # the weights of a loss belong to its state
            else:
                setattr(self, key, value)

    def forward(self, *tensors):
        return function(*tensors, **{key: getattr(self, key) for key in settings})

    def extra_repr(self):
        shown = {k: getattr(self, k) for k in settings}
        return ", ".join(f"{k}={v!r}" for k, v in shown.items() if not isinstance(v, Tensor) and v is not False)

    body = {"__init__": __init__, "forward": forward, "extra_repr": extra_repr, "__doc__": doc}
    return type(name, (Module,), body | {"__module__": __name__})


ReLU = _module_of("ReLU", F.relu, "y = max(0, x).", inplace=False)
GELU = _module_of("GELU", ops.gelu, "y = x Phi(x).", approximate="none")
SiLU = _module_of("SiLU", F.silu, "y = x sigma(x).", inplace=False)
Tanh = _module_of("Tanh", ops.tanh, "y = tanh x.")
Sigmoid = _module_of("Sigmoid", ops.sigmoid, "y = 1 / (1 + e^-x).")
Softmax = _module_of("Softmax", ops.softmax, "y_i = e^x_i / sum_j e^x_j along `dim`.", dim=None)
LogSoftmax = _module_of("LogSoftmax", ops.log_softmax, "y = log of Softmax.", dim=None)
CrossEntropyLoss = _module_of(
    "CrossEntropyLoss",
    F.cross_entropy,
    "See functional.cross_entropy.",
    weight=None,
    ignore_index=-100,
    reduction="mean",
    label_smoothing=0.0,
)
NLLLoss = _module_of(
    "NLLLoss", F.nll_loss, "See functional.nll_loss.", weight=None, ignore_index=-100, reduction="mean"
)
MSELoss = _module_of("MSELoss", F.mse_loss, "See functional.mse_loss.", reduction="mean")
BCEWithLogitsLoss = _module_of(
    "BCEWithLogitsLoss",
    F.binary_cross_entropy_with_logits,
    "See functional.binary_cross_entropy_with_logits.",
    weight=None,
    reduction="mean",
    pos_weight=None,
)
