"""tinytensor.jit: TorchScript's marks, which change nothing here: the functions run as Python.

`script`, and the marks of methods, return what they were given. What would give another result than PyTorch's is
missing, and says so: `trace`, `save` and `load` (`tinytensor.compile` records a step; `save` keeps a state_dict).
"""

from collections.abc import Callable
from typing import Any, Final

from tinytensor.nn import Module as ScriptModule

__all__ = ["Final", "ScriptModule", "annotate", "export", "ignore", "is_scripting", "is_tracing", "script"]
__all__ += ["script_if_tracing", "script_method", "unused"]


def script(obj: Any, optimize=None, _frames_up: int = 0, _rcb=None, example_inputs=None) -> Any:
    """The function, class or module itself."""
    return obj


def script_method(fn: Callable) -> Callable:
    """The function itself; `export`, `unused` and `script_if_tracing` give it, too."""
    return fn


export = unused = script_if_tracing = script_method


def annotate(the_type: Any, the_value: Any) -> Any:
    """The value itself."""
    return the_value


def ignore(drop: Any = False, **kwargs) -> Callable:
    """The function itself, as `@ignore` and as `@ignore(drop=True)`."""
    return drop if callable(drop) else script_method


def is_scripting() -> bool:
    """False."""
    return False


is_tracing = is_scripting
