"""tinytensor.linalg: the functions of matrices (ops/matrices.py) under PyTorch's names."""

from tinytensor.core.registry import REGISTRY
from tinytensor.ops.argument_errors import public_as
from tinytensor.ops.matrices import LinAlgError

__all__ = ["LinAlgError"]

for _path, _function in REGISTRY.items():
    if _path.startswith("linalg."):
        _name = _path.removeprefix("linalg.")
        globals()[_name] = public_as(f"tinytensor.{_path}", _function)
        __all__.append(_name)
