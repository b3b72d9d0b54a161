"""Invertible functions of random numbers, for TransformedDistribution."""

import math
from collections.abc import Sequence

import numpy as np

from tinytensor.core.tensor import Tensor
from tinytensor.distributions import constraints
from tinytensor.distributions.distribution import broadcast_all, sum_rightmost
from tinytensor.nn.functional import softplus
from tinytensor.ops.elementwise import log1p


class Transform:
    """A function with an inverse; a subclass defines `_call`, `_inverse` and `log_abs_det_jacobian`.

    With `cache_size` 1, the inverse of the last result is the last argument itself, without a loss of digits.
    """

    domain: constraints.Constraint = constraints.real
    codomain: constraints.Constraint = constraints.real

    def __init__(self, cache_size: int = 0):
        if cache_size not in (0, 1):
            raise ValueError(f"{type(self).__name__}: cache_size must be 0 or 1, got {cache_size}")
        self._cache_size = cache_size
        self._cached: tuple[Tensor | None, Tensor | None] = None, None

    def __call__(self, x: Tensor) -> Tensor:
        before, y = self._cached
        if x is before:
            return y
        y = self._call(x)
        if self._cache_size:
            self._cached = x, y
        return y

    def _call(self, x: Tensor) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__} needs a method _call(x)")

    def _inverse(self, y: Tensor) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__} needs a method _inverse(y)")

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """ln |dy / dx|."""
        raise NotImplementedError(f"{type(self).__name__} needs a method log_abs_det_jacobian(x, y)")

    @property
    def inv(self) -> "Transform":
        """The inverse function."""
        return _Inverse(self)

    def forward_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of the results of values of a shape."""
        return shape

    def __eq__(self, other) -> bool:
        return type(self) is type(other) and self._settings() == other._settings()

    __hash__ = object.__hash__

    def _settings(self) -> list:
        """The numbers of the function, as Python's."""
        own = {name: value for name, value in vars(self).items() if not name.startswith("_cache")}
        return [(name, value.tolist() if isinstance(value, Tensor) else value) for name, value in own.items()]


class _Inverse(Transform):
    def __init__(self, of: Transform):
        super().__init__()
        self.inv_of = of
        self.domain, self.codomain = of.codomain, of.domain

    @property
    def inv(self) -> Transform:
        return self.inv_of

    def __call__(self, y: Tensor) -> Tensor:
        x, last = self.inv_of._cached
        return x if y is last else self.inv_of._inverse(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -self.inv_of.log_abs_det_jacobian(y, x)

    def forward_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return self.inv_of.forward_shape(shape)


class ComposeTransform(Transform):
    """One transform after the other, the first one first."""

    def __init__(self, parts: Sequence[Transform], cache_size: int = 0):
        super().__init__(cache_size)
        self.parts = list(parts)
        dims = [part.domain.event_dim for part in parts] + [part.codomain.event_dim for part in parts]
        if parts:
            widest = max(dims)
            self.domain, self.codomain = (
                constraints.independent(c, widest - c.event_dim) if widest > c.event_dim else c
                for c in (parts[0].domain, parts[-1].codomain)
            )

    def _call(self, x: Tensor) -> Tensor:
        for part in self.parts:
            x = part(x)
        return x

    def _inverse(self, y: Tensor) -> Tensor:
        for part in reversed(self.parts):
            y = part.inv(y)
        return y

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        total = 0
        for part in self.parts:
            y = part(x)
            widest = self.domain.event_dim - part.domain.event_dim
            total, x = total + sum_rightmost(part.log_abs_det_jacobian(x, y), widest), y
        return total

    def forward_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        for part in self.parts:
            shape = part.forward_shape(shape)
        return shape


class ExpTransform(Transform):
    """y = e^x."""

    codomain = constraints.positive

    def _call(self, x: Tensor) -> Tensor:
        return x.exp()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return x


class SigmoidTransform(Transform):
    """y = 1 / (1 + e^{-x})."""

    codomain = constraints.unit_interval

    def _inside(self, y: Tensor) -> Tensor:
        limits = np.finfo(y.dtype)
        return y.clamp(float(limits.tiny), 1 - float(limits.eps))

    def _call(self, x: Tensor) -> Tensor:
        return self._inside(x.sigmoid())

    def _inverse(self, y: Tensor) -> Tensor:
        y = self._inside(y)
        return y.log() - log1p(-y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -softplus(-x) - softplus(x)


class TanhTransform(Transform):
    r"""y = \tanh x."""

    codomain = constraints.interval(-1, 1)

    def _call(self, x: Tensor) -> Tensor:
        return x.tanh()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.atanh()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return 2 * (math.log(2) - x - softplus(-2 * x))


class AffineTransform(Transform):
    """y = loc + scale x; with `event_dim` 1 a value is a vector, whose elements have determinants that multiply."""

    def __init__(self, loc: Tensor | float, scale: Tensor | float, event_dim: int = 0, cache_size: int = 0):
        super().__init__(cache_size)
        self.loc, self.scale, self.event_dim = loc, scale, event_dim
        if event_dim:
            self.domain = self.codomain = constraints.independent(constraints.real, event_dim)

    def _call(self, x: Tensor) -> Tensor:
        return self.loc + self.scale * x

    def _inverse(self, y: Tensor) -> Tensor:
        return (y - self.loc) / self.scale

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        scale, _ = broadcast_all(self.scale, x)
        return sum_rightmost(scale.abs().log(), self.event_dim)

    def forward_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return np.broadcast_shapes(shape, *(getattr(t, "shape", ()) for t in (self.loc, self.scale)))

    def _settings(self) -> list:
        return [t.tolist() if isinstance(t, Tensor) else t for t in (self.loc, self.scale, self.event_dim)]
