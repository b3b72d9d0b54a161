"""What all distributions share: their shapes, the checks of parameters and values, and parameters of one shape."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tinytensor.core.batched_data import BatchedData
from tinytensor.core.dispatch import state
from tinytensor.core.dtypes import get_default_dtype
from tinytensor.core.modes import no_grad
from tinytensor.core.recorder import is_recording
from tinytensor.core.tensor import Tensor
from tinytensor.ops.argument_errors import construction
from tinytensor.ops.creation import full, randn


def normal(
    mean: Tensor | float, std: Tensor | float = 1.0, size: Sequence[int] | None = None, *, generator=None
) -> Tensor:
    """Numbers from the normal distribution: one for each element of mean and std, or `size` of them."""
    mean, std = broadcast_all(mean, std)
    expect("normal", "std of 0 or more", std, lambda std: std >= 0)
    shape = mean.shape if size is None else tuple(size)
    return mean + std * randn(shape, dtype=mean.dtype, generator=generator)


def broadcast_all(*values: Tensor | float) -> list[Tensor]:
    """Parameters as tensors of one shape; numbers take the dtype of the tensors among them."""
    dtype = next((v.dtype for v in values if isinstance(v, Tensor) and v.is_floating_point()), get_default_dtype())
    tensors = [v.to(dtype) if isinstance(v, Tensor) else full((), v, dtype=dtype) for v in values]
    try:
        shape = np.broadcast_shapes(*(t.shape for t in tensors))
    except ValueError:
        raise ValueError(f"parameters of shapes {[t.shape for t in tensors]} do not broadcast to one shape") from None
    return [t.expand(shape) for t in tensors]


def expect(name: str, what: str, values: Tensor, holds: Callable[[Any], Any]) -> None:
    """Raise ValueError unless the condition holds everywhere (no check where values can't be read: in a recording).

    The condition takes the array, which is faster than operations, or the tensor if reads are observed.
    """
    if is_recording() or values.is_meta or values._data.__class__ is BatchedData:
        return
    if not holds(values._data if state.on_read is None else values.detach()).all():
        raise ValueError(f"{name}: expected {what}, got {values.detach().tolist()}")


def are_numbers(x):
    return x == x


class Distribution:
    """The base of all distributions; `validate_args=False` leaves out the checks of parameters and values."""

    has_rsample = False

    def __init_subclass__(cls, **options):
        super().__init_subclass__(**options)
        construction(cls)

    def __init__(
        self, batch_shape: Sequence[int] = (), event_shape: Sequence[int] = (), validate_args: bool | None = None
    ):
        self.batch_shape, self.event_shape = tuple(batch_shape), tuple(event_shape)
        self._validate = validate_args is not False

    def _expect(self, what: str, values: Tensor, holds: Callable[[Any], Any]) -> None:
        if self._validate:
            expect(type(self).__name__, what, values, holds)

    def _shape(self, sample_shape: Sequence[int]) -> tuple[int, ...]:
        return (*sample_shape, *self.batch_shape, *self.event_shape)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Random values, of shape sample_shape + batch_shape + event_shape, outside the tape."""
        with no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Random values as functions of the parameters, through which gradients flow."""
        raise NotImplementedError(f"{type(self).__name__}: no gradient flows through such a choice; use sample()")

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the probability (or its density) at a value."""
        raise NotImplementedError(f"{type(self).__name__} has no log_prob")

    def entropy(self) -> Tensor:
        """E[-log p]."""
        raise NotImplementedError(f"{type(self).__name__} has no entropy")

    @property
    def mean(self) -> Tensor:
        """E[x]."""
        raise NotImplementedError(f"{type(self).__name__} has no mean")

    @property
    def variance(self) -> Tensor:
        """E[(x - E[x])^2]."""
        raise NotImplementedError(f"{type(self).__name__} has no variance")

    @property
    def stddev(self) -> Tensor:
        """The root of the variance."""
        return self.variance.sqrt()


def sum_rightmost(x: Tensor, dims: int) -> Tensor:
    """The sum over the last `dims` dimensions."""
    return x.sum(tuple(range(-dims, 0))) if dims else x
