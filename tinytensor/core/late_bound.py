"""Functions that the core calls and higher rooms provide.

No file of the core imports a higher room. A higher room sets its function here when it is imported. The file
`lazy_imports.py` does so for rooms that are loaded at their first use. Without these functions the engine computes,
but it prints no tensors and proves nothing.
"""

from collections.abc import Callable, Collection
from contextlib import nullcontext

text: Callable  # text(tensor): the text that print() shows (printing.py)
html: Callable  # html(tensor): the table or picture that a notebook shows (viz/notebook.py)
documentation: Callable  # documentation(function, docstring): the completed docstring (utils/docs/documentation.py)
lift: Callable  # lift(kernel): the kernel's Python source, on exact scalars (symbolic/exact/lifting.py)
for_each_example: Callable  # (function, args, kwargs, name): a function, called for each example of a batch (func/)
change_batch: Callable  # change_batch(x, y): a change in place inside vmap (func/batches.py)


class NeedsValues(RuntimeError):
    """Inside vmap a function needs the values of each example; the public function that needs them then gets these."""


def on_shapes(op, args: tuple, into=None):
    """An operation with a tensor that has no array: a shape without values, or vmap's batch (func/batches.py)."""
    shape = next(a.shape for a in args if getattr(a, "is_meta", False))
    raise RuntimeError(f"{op.name}: a meta tensor has a shape {shape}, but no values")


def renamed(what: str, names: Collection[str], positional: Collection[str], keywords: dict) -> dict:
    """The keywords of a call under an operation's own names; PyTorch's are in ops/keywords.py."""
    return keywords


# Functions of other libraries that are called with tensors; for arguments of ours that are PyTorch's tensors.
pytorch_call: Callable  # pytorch_call(function, args, kwargs) (interop/torch_names/pytorch_functions.py)
numpy_ufunc: Callable  # numpy_ufunc(ufunc, method, inputs, keywords) (interop/torch_names/numpy_functions.py)
numpy_function: Callable  # numpy_function(function, args, kwargs) (interop/torch_names/numpy_functions.py)
pytorch_follows_us: Callable = nullcontext  # the context in which torch.autograd's Functions run on our tape


def with_our_parameters(fn: Callable) -> Callable:
    """A function; for a module of PyTorch, the same with parameters of ours (as above)."""
    return fn


def convert_foreign_tensors(args: tuple, kwargs: dict) -> tuple[tuple, dict] | None:
    """The arguments of a failed call with tensors of ours for PyTorch's (as above); None if there are none."""
    return None


def missing_name(owner: str, name: str, holder: object, otherwise: str) -> AttributeError:
    """The error for a missing name; interop/torch_names/missing_names.py has another for PyTorch's names."""
    return AttributeError(otherwise, name=name, obj=holder)


# Fast paths of small eager calls (native/fast/). Without them every function is called as it is declared.


def plain(op) -> Callable:
    """The call of an operation with an argument for each of its parameters."""
    return lambda *args, into=None: op.run(args, into)


shortcut = plain


def on_arrays(function: Callable) -> Callable:
    """A function on arrays and settings; the fast path shortens repeated calls with arrays of the same shapes."""
    return function


def on_tensors(rule: Callable) -> Callable:
    """The same for a rule on tensors whose results are not differentiated again."""
    return rule
