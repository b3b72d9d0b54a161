"""Rooms that are loaded at their first use, so that the import of tinytensor does not pay for them.

SymPy takes a second to import, and training never needs it; pictures and completed docstrings are rarely asked for.
The support of einops needs einops itself, and is loaded when the program has imported that.
"""

import contextlib
import importlib.abc
import importlib.util
import sys
from collections.abc import Callable
from importlib import import_module

from tinytensor.core import late_bound


def _later(module: str, name: str) -> Callable:
    """A function of a module that is imported when the function is first called."""
    return lambda *args: getattr(import_module(f"tinytensor.{module}"), name)(*args)


def _if_pytorch(name: str) -> Callable:
    """A function for PyTorch's tensors; in a program without PyTorch, the one that late_bound.py has for it."""
    function, otherwise = _later("interop.torch_names.pytorch_functions", name), getattr(late_bound, name)
    return lambda *args: (function if "torch" in sys.modules else otherwise)(*args)


late_bound.lift = _later("symbolic.exact.lifting", "lift")
late_bound.html = _later("viz.notebook", "html")
late_bound.documentation = _later("utils.docs.documentation", "complete")
late_bound.numpy_ufunc = _later("interop.torch_names.numpy_functions", "ufunc_call")
late_bound.numpy_function = _later("interop.torch_names.numpy_functions", "call")
late_bound.pytorch_call = _later("interop.torch_names.pytorch_functions", "call")
for _name in ("convert_foreign_tensors", "pytorch_follows_us", "with_our_parameters"):
    setattr(late_bound, _name, _if_pytorch(_name))


def _support_einops() -> None:
    with contextlib.suppress(ImportError):  # of another version of einops: an import of utils/einops.py shows the error
        import_module("tinytensor.interop.einops")


class _AfterEinops(importlib.abc.MetaPathFinder):
    """Imports interop/einops.py as soon as the program has imported einops, which then knows tensors.

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
