"""A stand-in for PyTorch with its protocols, for tests that run without it: it computes nothing by itself.

As in PyTorch, a function looks for an argument with `__torch_function__` that is no tensor of its own, and hands itself
over with the arguments; a method of its tensors does so, too. A Function's `apply` leads to the `apply` of the base
class, in C++ there, which knows nothing of other tensors: it runs forward. torch.no_grad() sets one switch.
"""

import functools
import types

import numpy as np


def dispatched(name: str, module: str, owner: str = ""):
    """The function of this name: it asks the arguments for `__torch_function__`."""

    def function(*args, **kwargs):
        nested = [x for a in (*args, *kwargs.values()) for x in (a if isinstance(a, list | tuple) else (a,))]
        categories = [type(x) for x in nested if hasattr(x, "__torch_function__") and not isinstance(x, Tensor)]
        if not categories:
            raise NotImplementedError(f"{name}: the stand-in computes nothing")
        return categories[0].__torch_function__(function, tuple(categories), args, kwargs)

    function.__name__, function.__module__, function.__qualname__ = name, module, f"{owner}{name}"
    return function


class Tensor:
    """Numbers, and the operators, which ask the other operand first."""

    def __init__(self, values, requires_grad=False):
        self.array, self.requires_grad = np.asarray(getattr(values, "array", values)), requires_grad
        self.shape, self.dtype = self.array.shape, dtype(str(self.array.dtype))

    @classmethod
    def __torch_function__(cls, function, categories, args=(), kwargs=None):
        raise NotImplementedError

    def detach(self):
        return Tensor(self.array)

    def cpu(self):
        return self

    def numpy(self):
        return self.array


for _name in ("add", "sub", "mul", "matmul", "add_", "__setitem__"):
    _method = dispatched(_name, "", "Tensor.")
    setattr(Tensor, _name, _method)
    if _name.isalpha():
        setattr(Tensor, f"__{_name}__", _method)


class dtype:
    def __init__(self, name):
        self.name = name

    def __repr__(self):
        return f"torch.{self.name}"


class device:
    def __init__(self, name):
        self.type = name


class _FunctionBase:
    @classmethod
    def apply(cls, *args):
        return cls.forward(None, *args)  # a foreign tensor is no tensor for it


class _SingleLevelFunction(_FunctionBase):
    @staticmethod
    def setup_context(ctx, inputs, output):
        raise NotImplementedError

    @staticmethod
    def backward(ctx, *gradients):
        raise NotImplementedError

    @staticmethod
    def vjp(ctx, *gradients):
        raise NotImplementedError


class Function(_SingleLevelFunction):
    @classmethod
    def apply(cls, *args, **kwargs):
        return super().apply(*args, **kwargs)


class Module:
    """A module with one parameter and one buffer."""

    training = True

    def __init__(self):
        self._parameters, self._buffers = {}, {}

    def __getattr__(self, name):
        return {**self._parameters, **self._buffers}[name]

    def modules(self):
        return [self]

    def named_parameters(self):
        return self._parameters.items()

    def named_buffers(self):
        return self._buffers.items()

    def __call__(self, *args):
        return self.forward(*args)


class no_grad:
    def __enter__(self):
        self.before = torch.is_grad_enabled()
        torch._C._set_grad_enabled(False)

    def __exit__(self, *error):
        torch._C._set_grad_enabled(self.before)


class _Place(types.ModuleType):
    """A module of functions: each name is one."""

    @functools.cache  # noqa: B019 (the stand-in lives as long as the tests)
    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        prefix = {"torch.special": "special_", "torch.linalg": "linalg_"}.get(self.__name__, "")
        return dispatched(prefix + name, self.__name__)


def _layer_norm(input, normalized_shape, weight=None, bias=None, eps=1e-5):
    """A function in Python hands on all of its options, and some of its own."""
    options = {"weight": weight, "bias": bias, "eps": eps, "_stacklevel": 3}
    return type(input).__torch_function__(_layer_norm, (type(input),), (input, normalized_shape), options)


_layer_norm.__name__, _layer_norm.__module__ = "layer_norm", "torch.nn.functional"
_switches = {"grad": True, "draws": 0}


def _set_grad_enabled(mode):
    _switches["grad"] = mode


def rand(*sizes):
    _switches["draws"] += 1
    return Tensor(np.random.default_rng(_switches["draws"]).random(sizes))


torch = _Place("torch")
torch.nn, torch.special, torch.linalg = _Place("torch.nn"), _Place("torch.special"), _Place("torch.linalg")
torch.nn.functional, torch.nn.Module = _Place("torch.nn.functional"), Module
torch.nn.Parameter = functools.partial(Tensor, requires_grad=True)
torch.nn.functional.layer_norm = _layer_norm
torch.Tensor, torch.dtype, torch.device, torch.tensor = Tensor, dtype, device, Tensor
torch.float32, torch.float64, torch.bfloat16 = dtype("float32"), dtype("float64"), dtype("bfloat16")
torch.autograd = types.SimpleNamespace(
    Function=Function, function=types.SimpleNamespace(_SingleLevelFunction=_SingleLevelFunction)
)
torch._C = types.SimpleNamespace(_set_grad_enabled=_set_grad_enabled)
torch.is_grad_enabled, torch.no_grad, torch.rand = lambda: _switches["grad"], no_grad, rand
torch.get_rng_state = lambda: _switches["draws"]
torch.set_rng_state = lambda draws: _switches.update(draws=draws)
torch.equal = lambda a, b: a == b
