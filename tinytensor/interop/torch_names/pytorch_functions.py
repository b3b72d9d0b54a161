"""Functions written for PyTorch take our tensors: each call of PyTorch's reaches the function of that name here.

    def attention(q, k):
        return torch.softmax(q @ k.T / 2, -1)

    prove(attention, (2, 2), (3, 2))        # or attention(x, y).sum().backward(), with tensors of ours

Before PyTorch computes, it looks for an argument with `__torch_function__`, and lets this method compute instead. Ours
is `call`. It knows the place of the function from its names: torch.exp is tinytensor.exp, torch.nn.functional.gelu is
tinytensor.nn.functional.gelu, and so on for Tensor, special, linalg and autograd. PyTorch's tensors among the arguments
become constants of ours (`translated`), its dtypes and devices those of the same name. A function that is missing here,
but that PyTorch has in Python, runs from PyTorch's own source (`_in_python`).

Two things pass by `__torch_function__`: `Function.apply` of torch.autograd, and torch.no_grad(). `pytorch_follows_us`
makes them take part; `prove` runs inside it. Nothing here imports PyTorch: if the program has not, there is nothing to
translate.
"""

import functools
import importlib
import inspect
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FunctionType, ModuleType
from typing import Any

from tinytensor.autograd.function import Function
from tinytensor.core.dispatch import state
from tinytensor.core.tensor import Tensor
from tinytensor.interop.torch_names import missing_names
from tinytensor.interop.torch_names.typeinfo import Unstored
from tinytensor.native.platform.locks import ThreadLock
from tinytensor.ops.creation import tensor

PLACES = ("", "nn.functional", "linalg", "autograd")  # modules of ours in which functions are looked up
OTHER_NAMES = {"log_sigmoid": "logsigmoid", "expit": "sigmoid"}


def pytorch() -> ModuleType | None:
    """PyTorch, if the program has imported it."""
    module = sys.modules.get("torch")
    return module if hasattr(module, "Tensor") else None  # else it is being imported just now


# --- A call


def call(function: Callable, args: tuple, kwargs: dict) -> Any:
    """What `function` of PyTorch gives for tensors of ours: the result of our function of this name.

    NotImplementedError if there is none. TypeError for a PyTorch tensor that requires grad, and for one that would be
    changed in place: neither can go on our tape.
    """
    path, name = _place(function)
    ours = _find(path, name)
    if ours is None:
        theirs = _in_python(function)
        if theirs is None:
            raise NotImplementedError(_missing(path, name))
        return theirs(*args, **(kwargs or {}))
    changes = name == "__setitem__" or (name.endswith("_") and not name.endswith("__"))
    if changes and args and not isinstance(args[0], Tensor):
        what = "y[...] = x" if name == "__setitem__" else f"y.{name}(x)"
        raise TypeError(
            f"{what}: y is PyTorch's tensor, and x is tinytensor's, which y can't hold; make y from x "
            "(torch.zeros_like(x), x.new_zeros(...)), or write the step without a change in place (torch.stack, y + x)"
        )
    return ours(*translated(args), **translated(_without_defaults(function, kwargs)))


def _in_python(function: Callable) -> Callable | None:
    """PyTorch's own source of a function, which calls others of its functions; None if it is in C++.

    Such a function first asks whether it should hand itself over to a tensor's class; here the answer is no.
    """
    asks = [name for name in getattr(function, "__code__", _place.__code__).co_names if name.startswith("has_torch_f")]
    if not asks:
        return None
    names = function.__globals__ | dict.fromkeys(asks, lambda *tensors: False)
    theirs = FunctionType(function.__code__, names, function.__name__, function.__defaults__, function.__closure__)
    theirs.__kwdefaults__ = function.__kwdefaults__
    return theirs


def _place(function: Callable) -> tuple[str, str]:
    """The module or class in which PyTorch shows a function, and its name there: ("linalg", "norm")."""
    name, module = function.__name__, getattr(function, "__module__", None) or ""
    owner = getattr(function, "__qualname__", name).rpartition(".")[0]
    if hasattr(function, "__objclass__") or owner in ("Tensor", "TensorBase"):
        return "Tensor", name
    for path in ("special", "linalg", "fft"):  # linalg_norm is the name in C++ of torch.linalg.norm
        if name.startswith(f"{path}_"):
            return path, name.removeprefix(f"{path}_")
    path = "nn.functional" if module == "torch._C._nn" else module.removeprefix("torch").strip(".")
    return (path if path in PLACES else ""), name


def _find(path: str, name: str) -> Callable | None:
    """Our function for PyTorch's, at its own place or elsewhere."""
    for where in dict.fromkeys((path if path in ("Tensor", *PLACES) else "", *PLACES)):
        holder = Tensor if where == "Tensor" else importlib.import_module(f"tinytensor.{where}".rstrip("."))
        member = getattr(holder, OTHER_NAMES.get(name, name), None)
        if callable(member) and not isinstance(member, Unstored):
            return member
    return None


def _missing(path: str, name: str) -> str:
    message = missing_names.sentence(path, name) if path in ("Tensor", *missing_names.PLACES) else None
    full = f"{path}.{name}" if path else name
    return message or f"{full}: PyTorch has it, tinytensor does not; write it with the operations that are here"


def _without_defaults(function: Callable, kwargs: dict | None) -> dict:
    """The keywords that the caller has given: functions in Python hand on all of theirs, with some of their own.

    Layouts in memory are left out: all tensors are strided here.
    """
    try:
        usual = {name: p.default for name, p in inspect.signature(function).parameters.items()}
    except (TypeError, ValueError):  # a function in C++ hands on what it got
        usual = {}
    passed = {name: value for name, value in (kwargs or {}).items() if not name.startswith("_")}
    passed = {name: value for name, value in passed.items() if type(value).__name__ not in ("memory_format", "layout")}
    return {name: value for name, value in passed.items() if not (name in usual and value is usual[name])}


# --- Values


def translated(value: Any) -> Any:
    """A value of PyTorch as ours, also inside lists, tuples, dictionaries and slices; the same object if none is."""
    torch = pytorch()
    if torch is None or value is None or isinstance(value, Tensor | str | int | float):
        return value
    if isinstance(value, torch.Tensor):
        return _constant(value)
    if isinstance(value, torch.dtype):
        return getattr(sys.modules["tinytensor"], str(value).rpartition(".")[2], value)
    if isinstance(value, torch.device):
        return value.type
    if isinstance(value, slice):
        ends = (value.start, value.stop, value.step)
        return slice(*translated(ends)) if translated(ends) is not ends else value
    if isinstance(value, dict):
        entries = {key: translated(v) for key, v in value.items()}
        return entries if any(entries[key] is not v for key, v in value.items()) else value
    if isinstance(value, list | tuple):
        entries = [translated(v) for v in value]
        if all(a is b for a, b in zip(entries, value, strict=True)):
            return value
        return entries if isinstance(value, list) else tuple(entries)
    return value


def convert_foreign_tensors(args: tuple, kwargs: dict) -> tuple[tuple, dict] | None:
    """The arguments of a call of ours that has failed, translated; None if PyTorch has no part in them."""
    if pytorch() is None:
        return None
    converted = translated(args), translated(kwargs)
    return None if converted[0] is args and converted[1] is kwargs else converted


def _constant(x: Any) -> Tensor:
    """A copy of PyTorch's tensor: a change of the original must not change what our tape has kept."""
    if x.requires_grad:
        raise TypeError(
            f"a PyTorch tensor of shape {tuple(x.shape)} that requires grad meets tinytensor's tensors, and its "
            "gradient would be lost: give it to the function as an argument (tinytensor.tensor(x.detach().numpy(), "
            "requires_grad=True)), or detach() it if it is a constant"
        )
    try:
        return tensor(x.detach().cpu().numpy())
    except TypeError:
        raise TypeError(
            f"a PyTorch tensor of {x.dtype} meets tinytensor's tensors, which are float32, float64, uint8, int32, "
            "int64 or bool: convert it, x.float() or x.long()"
        ) from None


# --- What passes by __torch_function__


class _Following(threading.local):
    """Our switch of the tape in this thread, as it was before torch.no_grad() turned it off."""

    def __init__(self):
        self.before: list[bool] = []


_following = _Following()
_held, _inside = ThreadLock(), []  # how many `with` blocks are open, in all threads


@contextmanager
def pytorch_follows_us() -> Iterator[None]:
    """Inside, a Function of torch.autograd that gets our tensors runs on our tape, and torch.no_grad() stops it.

    `apply` of such a Function calls C++, which does not know our tensors: it would run forward alone, so that our tape
    had forward's own operations and never called the user's backward. A program keeps `square = Square.apply`, so
    replacing Function.apply is not enough; but that method looks up the next `apply` at each call, and that of its
    base class can be given. torch.no_grad() sets a switch of PyTorch's through one function. Both are put in place for
    the time of the block alone, since PyTorch's programs run unchanged otherwise.
    """
    torch = pytorch()
    if torch is None:
        yield
        return
    base = torch.autograd.function._SingleLevelFunction
    with _held.lock:
        _inside.append(torch._C._set_grad_enabled if not _inside else _inside[0])
        if len(_inside) == 1:
            base.apply = classmethod(functools.partial(_apply, base))
            torch._C._set_grad_enabled = functools.partial(_set_grad_enabled, torch, _inside[0])
    try:
        yield
    finally:
        with _held.lock:
            theirs = _inside.pop()
            if not _inside:
                del base.apply
                torch._C._set_grad_enabled = theirs


def _set_grad_enabled(torch: ModuleType, theirs: Callable, mode: bool) -> None:
    """Turn our tape off with PyTorch's, and later back to what it was: it may have been off before."""
    changes = torch.is_grad_enabled() != mode
    theirs(mode)
    if changes and not mode:
        _following.before.append(state.grad)
        state.grad = False
    elif changes and _following.before:
        state.grad = _following.before.pop()


def _apply(base: type, function: type, *args, **kwargs):
    """`apply` of a Function of torch.autograd: on our tape if it gets a tensor of ours."""
    if any(isinstance(x, Tensor) for x in (*args, *kwargs.values())):
        return _ours(base, function).apply(*translated(args), **translated(kwargs))
    return super(base, function).apply(*args, **kwargs)


def _ours(base: type, function: type) -> type[Function]:
    """A Function of torch.autograd as one of ours, with the same static methods."""

    def method(f: Callable) -> staticmethod:
        @functools.wraps(f)  # also for its line, and the names of its arguments
        def run(*args):
            return translated(f(*args))

        return staticmethod(run)

    members = {
        "forward": method(function.forward),
        "backward": method(function.vjp if function.backward is base.backward else function.backward),
    }
    if function.setup_context is not base.setup_context:
        members["setup_context"] = method(function.setup_context)
    return type(function.__name__, (Function,), members)


class ModuleOfPyTorch:
    """A module of PyTorch that computes with tensors of ours: its parameters and buffers are copies on our side.

    It has what `prove` asks of a Module. PyTorch's modules read their parameters from dictionaries, in which ours take
    the places while the module runs.
    """

    def __init__(self, module: Any):
        self.module, self.name, self.forward = module, type(module).__name__, module.forward
        self.training = module.training
        self._parameters = {name: tensor(p.detach().numpy()) for name, p in module.named_parameters()}
        self._buffers = {name: tensor(b.detach().numpy()) for name, b in module.named_buffers()}
        self._instead = {}  # by the address of a parameter of PyTorch's: ours
        for name, p in module.named_parameters():
            self._instead[id(p)] = self._parameters[name].requires_grad_(p.requires_grad)
        self._instead |= {id(b): self._buffers[name] for name, b in module.named_buffers()}

    def named_parameters(self) -> Iterator[tuple[str, Tensor]]:
        return iter(self._parameters.items())

    def named_buffers(self) -> Iterator[tuple[str, Tensor]]:
        return iter(self._buffers.items())

    def __call__(self, *args):
        held = [d for m in self.module.modules() for d in (m._parameters, m._buffers)]
        before = [dict(d) for d in held]
        try:
            for d in held:
                d.update({key: self._instead.get(id(x), x) for key, x in d.items()})
            return self.module(*args)
        finally:
            for d, values in zip(held, before, strict=True):
                d.update(values)


def with_our_parameters(fn: Callable) -> Callable:
    """The function; for a module of PyTorch, the same with parameters of ours."""
    torch = pytorch()
    return ModuleOfPyTorch(fn) if torch is not None and isinstance(fn, torch.nn.Module) else fn
