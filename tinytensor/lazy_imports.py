"""Rooms that are loaded at their first use, so that the import of tinytensor does not pay for them.

SymPy takes a second to import, and training never needs it; pictures and completed docstrings are rarely asked for.
The support of einops needs einops itself, and is loaded when the program has imported that.
"""

import contextlib
import importlib.abc
import importlib.util
import sys
from contextlib import nullcontext
from importlib import import_module

from tinytensor.core import late_bound


def lift(kernel):
    return import_module("tinytensor.symbolic.exact.lifting").lift(kernel)


def carry_over(x, y):
    return import_module("tinytensor.symbolic.exact.path_conditions").carry_over(x, y)


def html(tensor):
    return import_module("tinytensor.viz.notebook").html(tensor)


def documentation(function, docstring):
    return import_module("tinytensor.docs.documentation").complete(function, docstring)


def pytorch_call(function, args, kwargs):
    return import_module("tinytensor.torch_names.pytorch_functions").call(function, args, kwargs)


def numpy_ufunc(ufunc, method, inputs, keywords):
    return import_module("tinytensor.torch_names.numpy_functions").ufunc_call(ufunc, method, inputs, keywords)


def numpy_function(function, args, kwargs):
    return import_module("tinytensor.torch_names.numpy_functions").call(function, args, kwargs)


def pytorch_follows_us():
    if "torch" not in sys.modules:
        return nullcontext()
    return import_module("tinytensor.torch_names.pytorch_functions").pytorch_follows_us()


def with_our_parameters(fn):
    if "torch" not in sys.modules:
        return fn
    return import_module("tinytensor.torch_names.pytorch_functions").with_our_parameters(fn)


def convert_foreign_tensors(args, kwargs):
    if "torch" not in sys.modules:  # most often: no program of PyTorch is here
        return None
    return import_module("tinytensor.torch_names.pytorch_functions").convert_foreign_tensors(args, kwargs)


late_bound.lift, late_bound.carry_over = lift, carry_over
late_bound.html, late_bound.documentation = html, documentation
late_bound.pytorch_call, late_bound.pytorch_follows_us = pytorch_call, pytorch_follows_us
late_bound.convert_foreign_tensors = convert_foreign_tensors
late_bound.with_our_parameters = with_our_parameters
late_bound.numpy_ufunc, late_bound.numpy_function = numpy_ufunc, numpy_function


def _support_einops() -> None:
    with contextlib.suppress(ImportError):  # of another version of einops: an import of utils/einops.py shows the error
        import_module("tinytensor.utils.einops")


class _AfterEinops(importlib.abc.MetaPathFinder):
    """Imports utils/einops.py as soon as the program has imported einops, which then knows tensors.

    einops finds backends among the subclasses of its own AbstractBackend and has no registration hook, so ours must be
    defined after einops is imported.
    """

    def find_spec(self, fullname: str, path, target=None):
        if fullname != "einops":
            return None
        sys.meta_path.remove(self)  # the finders after this one look for einops
        try:
            spec = importlib.util.find_spec(fullname)
        except ValueError:  # another thread is importing it
            spec = None
        if spec is None or spec.loader is None:
            sys.meta_path.insert(0, self)
            return None
        execute = spec.loader.exec_module

        def exec_module(module) -> None:
            execute(module)
            _support_einops()

        spec.loader.exec_module = exec_module
        return spec


if sys.modules.get("einops") is not None:
    _support_einops()
else:
    sys.meta_path.insert(0, _AfterEinops())
