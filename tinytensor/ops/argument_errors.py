"""Turns unexpected exceptions into errors that name the operation and the argument.

Operations check for the mistakes they know, and raise their own errors. Other calls fail somewhere inside, in Python's
or NumPy's words: "'list' object has no attribute 'ndim'" names neither the operation nor the argument. So each public
function is wrapped by `public`. The wrapper checks nothing while calls succeed; after a failure it compares the
arguments with the parameters' annotations, and names the one that does not fit.
"""

import dis
import functools
import inspect
import types
import typing
from collections.abc import Callable, Iterable, Sequence
from sys import stdlib_module_names
from typing import Any

import numpy as np

from tinytensor.core import late_bound
from tinytensor.core.kernel import is_ours
from tinytensor.core.op import OPS
from tinytensor.core.registry import REGISTRY
from tinytensor.core.tensor import Tensor
from tinytensor.ops.keywords import in_older_order, renamed

_WORDS = {
    Tensor: "a tensor",
    bool: "True or False",
    int: "a whole number",
    float: "a number",
    str: "a string",
    dict: "a dict",
    type(None): "None",
    np.ndarray: "a NumPy array",
    Callable: "a function",
    Iterable: "a list or another iterable",
}
_NUMBERS = {bool: bool | np.bool_, int: int | np.integer, float: int | float | np.number}  # what may stand for one
_INSIDE = stdlib_module_names | {"tinytensor", "numpy", "numba", "llvmlite", "sympy"}


def public(function: Callable, name: str = "", always: bool = False) -> Callable:
    """The function as it is public under a name.

    It accepts PyTorch's names of its arguments too, and tensors of PyTorch as constants, and names the argument in
    place of an unexpected exception. With `always`, it also does so for the errors of other functions, if an argument
    of this one was wrong.
    """
    name = name or function.__name__

    @functools.wraps(function, updated=())
    def wrapper(*args, **kwargs):
        try:
            return function(*args, **kwargs)
        except Exception as error:
            if isinstance(error, late_bound.NeedsValues):  # inside vmap: for each example it has values
                return late_bound.for_each_example(wrapper, args, kwargs, name)
            converted = _own_names(function, name, args, kwargs) if isinstance(error, TypeError) else None
            converted = converted or late_bound.convert_foreign_tensors(args, kwargs)
            if converted is None:
                # a base class's constructor, whose error begins with the class of the object, raised what it meant
                others = always and str(error).partition(": ")[0] not in (name, *(type(a).__name__ for a in args[:1]))
                wrong = refusal(function, name, args, kwargs, error) if others or _is_unforeseen(error) else None
                if wrong is None:
                    _prefix_error(function, name, error)
                    raise
                raise wrong from None
        return wrapper(*converted[0], **converted[1])

    return wrapper


def public_as(path: str, function: Callable, name: str = "") -> Callable:
    """The function as it is public at a place, "tinytensor.nn.functional.gelu" say; errors say `told`, or "gelu"."""
    return named(path, public(function, name or path.rpartition(".")[2]))


def named(path: str, function: Callable) -> Callable:
    """The function, with the names of the place where it is public: pickle writes them, and looks there for it."""
    function.__module__, _, function.__name__ = path.rpartition(".")
    function.__qualname__ = function.__name__
    if function.__module__ == "Tensor":
        function.__module__, function.__qualname__ = Tensor.__module__, path
    return function


@functools.cache
def _names(function: Callable | None = None) -> frozenset[str]:
    """The public names of a function of the engine; without a function, those of all operations."""
    appearances = [appearance for appearance, declared in REGISTRY.items() if function is None or declared is function]
    appearances += OPS if function is None else ()
    return frozenset({appearance.rpartition(".")[2].rstrip("_") for appearance in appearances})


def _prefix_error(function: Callable, name: str, error: Exception) -> None:
    """Make an error begin with the function that was called, not with an operation inside it.

    A caller of leaky_relu knows no operation "sloped". Exceptions of a user's own code stay as they are.
    """
    prefix, colon, rest = str(error).partition(": ")
    name = name.rstrip("_")
    if f"Tensor.__{name}__" in REGISTRY:  # an operator, which has no name in the caller's code
        return
    if colon and prefix in _names() - _names(function) - {name} and not _is_unforeseen(error):
        error.args = (f"{name}: {rest}", *error.args[1:])


def construction(cls: type) -> None:
    """Make the constructor of one of our classes name wrong arguments as functions do, under the name of the class.

    A layer is made of other layers, whose errors would name arguments that the caller does not know. Base classes call
    this for classes derived from them; a user's class stays as it was written.
    """
    if is_ours(cls) and not cls.__name__.startswith("_"):
        cls.__init__ = public(inspect.unwrap(cls.__init__), cls.__name__, always=True)


def _is_unforeseen(error: Exception) -> bool:
    """Was it raised inside the engine or its libraries, but not by a raise statement of the engine?

    Exceptions of a user's hook or function stay as they are.
    """
    trace, package = error.__traceback__, ""
    while trace.tb_next is not None:
        trace = trace.tb_next
        package = trace.tb_frame.f_globals.get("__name__", "tinytensor").partition(".")[0]  # a lifted kernel has none
        if package not in _INSIDE:
            return False
    return not (package == "tinytensor" and _stopped_at_raise(trace))


def refusal(function: Callable, name: str, args: tuple, kwargs: dict, error: Exception) -> Exception | None:
    """The error that names the wrong argument of a call that failed; None if all fit."""
    reason = _reason(function, args, kwargs, error)
    error_type = next((known for known in (MemoryError, OverflowError) if isinstance(error, known)), TypeError)
    return None if reason is None else error_type(f"{name}: {reason}")


def _reason(function: Callable, args: tuple, kwargs: dict, error: Exception) -> str | None:
    """The reason why the arguments are wrong; None if they fit."""
    signature = inspect.signature(function)
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError as unbound:  # too many, too few, an unknown keyword
        own = [p for p in signature.parameters.values() if p.name != "self"]
        taken = [p.replace(annotation=inspect.Parameter.empty) for p in own]
        return f"{unbound}; expected {inspect.Signature(taken)}"
    passed = []
    for name, value in bound.arguments.items():
        several = signature.parameters[name].kind is inspect.Parameter.VAR_POSITIONAL
        passed += [(name, v, signature.parameters[name].annotation) for v in (value if several else (value,))]
    foreseen = not _is_unforeseen(error)
    for name, value, annotation in passed:
        if foreseen and hasattr(value, "free_symbols"):  # a SymPy size of "meta": its error has said so
            continue
        if not _fits(value, annotation):
            return f"{name} is {shown(value)}; expected {_words(annotation)}{_advice(value, annotation)}"
    for name, value, _ in passed:
        too_large = isinstance(error, OverflowError) or str(error).startswith("Maximum allowed")  # NumPy's, of a size
        if too_large and _is_huge(value):
            return f"{name} is {shown(value)}, which is too large"
    return f"there is not enough memory ({error})" if isinstance(error, MemoryError) else None


def _fits(value, annotation) -> bool:
    """Does a value fit the annotation of its parameter?"""
    origin, inner = typing.get_origin(annotation), typing.get_args(annotation)
    if annotation in (Any, inspect.Parameter.empty):
        return True
    if origin in (typing.Union, types.UnionType):
        return any(_fits(value, a) for a in inner)
    expected_type = origin or annotation
    if expected_type is None or not isinstance(expected_type, type):
        return value is expected_type or not isinstance(expected_type, type | None)
    if expected_type is Sequence and isinstance(value, str | bytes):
        return False
    if not isinstance(value, _NUMBERS.get(expected_type, expected_type)) or (
        isinstance(value, bool) and expected_type is int
    ):
        return False
    return not inner or expected_type is Callable or all(_fits(v, inner[0]) for v in value)


def _words(annotation) -> str:
    """An annotation in words."""
    origin, inner = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (typing.Union, types.UnionType):
        return " or ".join(dict.fromkeys(_words(a) for a in inner))
    if origin is Sequence or annotation is Sequence:
        return "a list or tuple" + (f" (each element {_words(inner[0])})" if inner else "")
    expected_type = origin or annotation
    if not isinstance(expected_type, type):
        return str(expected_type)
    return _WORDS.get(expected_type, f"{'an' if expected_type.__name__[0] in 'AEIO' else 'a'} {expected_type.__name__}")


def _advice(value, annotation) -> str:
    """How to make a tensor of the value, if a tensor was expected."""
    if "a tensor" not in _words(annotation).split(" or "):
        return ""
    if isinstance(value, np.ndarray):
        return ": tinytensor.from_numpy(array) makes one"
    return ": tinytensor.tensor(...) makes one" if isinstance(value, list | tuple | int | float) else ""


def _is_huge(value) -> bool:
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return any(map(_is_huge, value))
    return isinstance(value, int) and not -(2**63) <= value < 2**63


def shown(value) -> str:
    """A value as a message shows it: short, and with its type if the value does not show it."""
    if isinstance(value, Tensor | np.ndarray):
        noun = "tensor" if isinstance(value, Tensor) else "NumPy array"
        return f"a {noun} of shape {value.shape} ({value.dtype})"
    if value is None or isinstance(value, str | bytes | bool | int | float | complex | list | tuple | dict):
        text = " ".join(repr(value).split()) if isinstance(value, list | tuple | dict) else repr(value)
        return text if len(text) <= 60 else f"{text[:57]}..."
    return f"the class {value.__name__}" if isinstance(value, type) else f"a {type(value).__name__}"


def _stopped_at_raise(trace: types.TracebackType) -> bool:
    """Did the frame stop at a raise statement of its own, and not in a function that it called?

    The line is not enough: one line may call a function of NumPy's and raise. The instruction tells which of the two
    it was.
    """
    return trace.tb_frame.f_code.co_code[trace.tb_lasti] == dis.opmap["RAISE_VARARGS"]


def _own_names(function: Callable, what: str, args: tuple, keywords: dict) -> tuple[tuple, dict] | None:
    """The arguments of a failed call under the function's own names and in its order; None if that does not help.

    A function that takes any number of sizes or dimensions by position, flip(x, *dims), takes them as a keyword too.
    """
    parameters = inspect.signature(function).parameters
    if not keywords:
        return in_older_order(what, parameters, args)
    if keywords.keys() <= {n for n, p in parameters.items() if p.kind is not p.VAR_POSITIONAL}:
        return None
    several = next((name for name, p in parameters.items() if p.kind is p.VAR_POSITIONAL), None)
    first = [name for name in parameters if name != several][: len(args)]
    keywords = renamed(what, parameters, first, keywords)
    if several in keywords and len(args) == len(first):
        first = [keywords.pop(name) for name in list(parameters)[len(args) : list(parameters).index(several)]]
        args = (*args, *first, keywords.pop(several))
    return (args, keywords) if keywords.keys() <= parameters.keys() - {several} else None
