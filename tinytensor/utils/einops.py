"""`import tinytensor.utils.einops`, and einops' functions (rearrange, reduce, repeat, einsum, pack ...) take tensors.

einops asks the subclasses of its AbstractBackend in turn which of them knows the array that came; this file has the
subclass that knows tensors, written with operations that have gradients. einops is loaded here and nowhere else. Its
layers are modules of PyTorch; here a module calls the function in its forward.
"""

from collections.abc import Sequence

import numpy as np

from tinytensor.core.tensor import Tensor
from tinytensor.ops.creation import arange, from_numpy
from tinytensor.ops.products import einsum
from tinytensor.ops.shape import cat, stack

try:
    from einops._backends import AbstractBackend
except ImportError:
    raise ImportError("tinytensor.utils.einops needs the einops library: pip install einops") from None


class Backend(AbstractBackend):
    """What einops does with tensors, each thing by one operation (prod, which takes one dimension, by several)."""

    framework_name = "tinytensor"  # einops looks whether a module of this name is loaded

    def is_appropriate_type(self, tensor) -> bool:
        return isinstance(tensor, Tensor)

    def from_numpy(self, x: np.ndarray) -> Tensor:
        return from_numpy(x)

    def to_numpy(self, x: Tensor) -> np.ndarray:
        return x.detach().numpy()

    def arange(self, start: int, stop: int) -> Tensor:
        return arange(start, stop)

    def transpose(self, x: Tensor, axes: Sequence[int]) -> Tensor:
        return x.permute(axes)

    def reduce(self, x: Tensor, operation: str, axes: Sequence[int]) -> Tensor:
        if operation == "prod":
            for dim in sorted(axes, reverse=True):  # the last first, so that the others keep their numbers
                x = x.prod(dim)
            return x
        return getattr(x, {"min": "amin", "max": "amax"}.get(operation, operation))(axes)

    def stack_on_zeroth_dimension(self, tensors: list[Tensor]) -> Tensor:
        return stack(tensors)

    def concat(self, tensors: list[Tensor], axis: int) -> Tensor:
        return cat(tensors, axis)

    def add_axis(self, x: Tensor, new_position: int) -> Tensor:
        return x.unsqueeze(new_position)

    def add_axes(self, x: Tensor, n_axes: int, pos2len: dict[int, int]) -> Tensor:
        for position in sorted(pos2len):  # the first first: each is then where it will be in the end
            x = x.unsqueeze(position)
        return x.expand([pos2len.get(dim, -1) for dim in range(n_axes)])

    def tile(self, x: Tensor, repeats: Sequence[int]) -> Tensor:
        return x.repeat(*repeats)

    def is_float_type(self, x: Tensor) -> bool:
        return x.is_floating_point()

    def einsum(self, pattern: str, *x: Tensor) -> Tensor:
        return einsum(pattern, *x)
