"""einops for tensors: with this file its functions (rearrange, reduce, repeat, pack ...) take tensors.

A program that imports einops and tinytensor needs no import of this file: lazy_imports.py sees to it.

einops asks each subclass of its AbstractBackend whether it handles the given array; this file has the subclass for
tensors, written with operations that have gradients. einops is loaded here and nowhere else.

einops has its layers once for each library. The layers of `einops.layers.torch` are modules of PyTorch; those of this
file are modules of tinytensor: `from tinytensor.utils.einops import Rearrange, Reduce, EinMix`.
"""

from collections.abc import Sequence

import numpy as np

from tinytensor.core.tensor import Tensor
from tinytensor.nn import init
from tinytensor.nn.module import Module, Parameter
from tinytensor.ops.creation import arange, empty, from_numpy
from tinytensor.ops.products import einsum
from tinytensor.ops.shape import cat, stack

try:
    from einops._backends import AbstractBackend
    from einops.layers import RearrangeMixin, ReduceMixin
    from einops.layers._einmix import _EinmixMixin
except ImportError:
    raise ImportError("tinytensor.utils.einops needs the einops library: pip install einops") from None


class Backend(AbstractBackend):
    """The operations of einops on tensors, each by one operation (prod, which takes one dimension, by several)."""

    framework_name = "tinytensor"  # einops checks whether a module of this name is loaded

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
            for dim in sorted(axes, reverse=True):  # the last one first, so that the others keep their numbers
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
        for position in sorted(pos2len):  # in ascending order, so that each is put at its final position
            x = x.unsqueeze(position)
        return x.expand([pos2len.get(dim, -1) for dim in range(n_axes)])

    def tile(self, x: Tensor, repeats: Sequence[int]) -> Tensor:
        return x.repeat(*repeats)

    def is_float_type(self, x: Tensor) -> bool:
        return x.is_floating_point()

    def einsum(self, pattern: str, *x: Tensor) -> Tensor:
        return einsum(pattern, *x)


class Rearrange(RearrangeMixin, Module):
    """y = einops.rearrange(x, pattern, **axes_lengths), as a layer."""

    def forward(self, input: Tensor) -> Tensor:
        return self._apply_recipe(input)


class Reduce(ReduceMixin, Module):
    """y = einops.reduce(x, pattern, reduction, **axes_lengths), as a layer."""

    def forward(self, input: Tensor) -> Tensor:
        return self._apply_recipe(input)


class EinMix(_EinmixMixin, Module):
    """y = einsum(x, w) + b for a pattern of einops, with a trained weight w and, if it has a shape, a bias b."""

    def _create_parameters(self, weight_shape, weight_bound: float, bias_shape, bias_bound: float) -> None:
        self.weight = Parameter(init.uniform_(empty(weight_shape), -weight_bound, weight_bound))
        self.register_parameter("bias", None)
        if bias_shape is not None:
            self.bias = Parameter(init.uniform_(empty(bias_shape), -bias_bound, bias_bound))

    def _create_rearrange_layers(self, pre_pattern, pre_lengths, post_pattern, post_lengths) -> None:
        self.pre_rearrange = None if pre_pattern is None else Rearrange(pre_pattern, **pre_lengths)
        self.post_rearrange = None if post_pattern is None else Rearrange(post_pattern, **post_lengths)

    def forward(self, input: Tensor) -> Tensor:
        x = input if self.pre_rearrange is None else self.pre_rearrange(input)
        y = einsum(self.einsum_pattern, x, self.weight)
        y = y if self.bias is None else y + self.bias
        return y if self.post_rearrange is None else self.post_rearrange(y)
