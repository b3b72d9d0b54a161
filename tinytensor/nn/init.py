"""Initial values of parameters, in place, off the tape."""

import math
from statistics import NormalDist

import numpy as np

from tinytensor.core.dispatch import host
from tinytensor.core.modes import no_grad
from tinytensor.core.tensor import Tensor
from tinytensor.ops.argument_errors import public_as
from tinytensor.ops.creation import randn
from tinytensor.ops.generator import Generator, drawn_from
from tinytensor.ops.matrices import qr


def _constant(tensor: Tensor, value: float) -> Tensor:
    with no_grad():
        return tensor if tensor.device == "meta" else tensor.fill_(value)


def zeros_(tensor: Tensor) -> Tensor:
    """All 0."""
    return _constant(tensor, 0.0)


def ones_(tensor: Tensor) -> Tensor:
    """All 1."""
    return _constant(tensor, 1.0)


def constant_(tensor: Tensor, val: float) -> Tensor:
    """All the same value."""
    return _constant(tensor, val)


def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Generator | None = None) -> Tensor:
    """From the normal distribution."""
    with no_grad():
        return tensor if tensor.device == "meta" else tensor.normal_(mean, std, generator=generator)


def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Generator | None = None) -> Tensor:
    """From the uniform distribution on [a, b)."""
    with no_grad():
        return tensor if tensor.device == "meta" else tensor.uniform_(a, b, generator=generator)


def trunc_normal_(
    tensor: Tensor,
    mean: float = 0.0,
    std: float = 1.0,
    a: float = -2.0,
    b: float = 2.0,
    generator: Generator | None = None,
) -> Tensor:
    """From the normal distribution between a and b; with std 0, the number between them that is next to the mean."""
    if not (a <= b and 0 <= std < math.inf and math.isfinite(mean)):
        raise ValueError(
            f"trunc_normal_: a {a}, b {b}, mean {mean}, std {std}: expected a <= b, a finite mean, and a finite std of "
            "0 or more"
        )
    if tensor.device == "meta":
        return tensor
    nearest = min(max(mean, a), b)
    if a == b or abs(nearest - mean) >= 1e8 * std:  # beyond 1e8 deviations no float64 beside it is likely
        return constant_(tensor, nearest)
    normal_(tensor, mean, std, generator)
    with no_grad():
        values = tensor.detach().clone()
        host(_draw_outside_again, values._data, drawn_from("trunc_normal_", generator), mean, std, a, b)
        return tensor.copy_(values)


SMALLEST = -37.0  # where the distribution function of the standard normal is still a normal float64


def _draw_outside_again(x: np.ndarray, generator: Generator, mean: float, std: float, a: float, b: float) -> None:
    """Replace what lies outside [a, b] by numbers of the distribution inside, once, however little of it is there."""
    wide = x.astype(float)  # a bound may be too large for float32
    outside = ~((wide >= a) & (wide <= b))
    u = generator.numpy.random(int(outside.sum()))
    low, high = (a - mean) / std, (b - mean) / std
    sign = 1 if low + high <= 0 else -1  # the half where the distribution function is small, and so has all digits
    z = sign * _truncated(u, *sorted((sign * low, sign * high)))
    x[outside] = (mean + std * z).clip(a, b)


def _truncated(u: np.ndarray, low: float, high: float) -> np.ndarray:
    r"""z with \Phi(z) = \Phi(low) + u (\Phi(high) - \Phi(low)), where low <= -high."""
    if high > SMALLEST:
        begin, end = (math.erfc(-bound / math.sqrt(2)) / 2 for bound in (low, high))
        p = (begin + u * (end - begin)).clip(2.0**-1022, 1 - 2.0**-53)  # of (0, 1), where the inverse is finite
        return np.array([*map(NormalDist().inv_cdf, p.tolist())])
    # so far out \Phi(z) is e^{-z^2/2} / -z, within a share 1 / z^2 that hardly changes: solved by iteration
    share = math.exp((high - low) * (high + low) / 2) * high / low  # \Phi(low) / \Phi(high)
    z, part = high, 1 - u * (1 - share)
    for _ in range(4):
        z = -((high**2 - 2 * np.log(part * z / high)) ** 0.5)
    return z


def _fans(tensor: Tensor) -> tuple[int, int]:
    if tensor.ndim < 2:
        raise ValueError(f"init: fan-in and fan-out need at least 2 dimensions, got shape {tensor.shape}")
    receptive = math.prod(tensor.shape[2:])
    return tensor.shape[1] * receptive, tensor.shape[0] * receptive


def xavier_uniform_(tensor: Tensor, gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    r"""Uniform on \pm gain \sqrt{6 / (fan_{in} + fan_{out})}; Glorot and Bengio (2010)."""
    if tensor.device == "meta" or not tensor.numel():
        return tensor
    bound = gain * math.sqrt(6 / sum(_fans(tensor)))
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    r"""Normal with \sigma = gain \sqrt{2 / (fan_{in} + fan_{out})}."""
    if tensor.device == "meta" or not tensor.numel():
        return tensor
    return normal_(tensor, 0.0, gain * math.sqrt(2 / sum(_fans(tensor))), generator)


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """The factor that makes up for the shrinking of the standard deviation by a nonlinearity."""
    gains = {"linear": 1.0, "sigmoid": 1.0, "tanh": 5 / 3, "relu": math.sqrt(2), "selu": 3 / 4}
    gains |= {f"conv{transposed}{n}d": 1.0 for transposed in ("", "_transpose") for n in (1, 2, 3)}
    if nonlinearity == "leaky_relu":
        slope = 0.01 if param is None else param
        if isinstance(slope, bool) or not isinstance(slope, int | float):
            raise ValueError(f"calculate_gain: expected a number for the slope of leaky_relu, got {slope!r}")
        return math.sqrt(2 / (1 + slope**2))
    if nonlinearity not in gains:
        raise ValueError(f"calculate_gain: expected one of {sorted([*gains, 'leaky_relu'])}, got {nonlinearity!r}")
    return gains[nonlinearity]


def _kaiming_std(tensor, a, mode, nonlinearity):
    fan_in, fan_out = _fans(tensor)
    if mode not in ("fan_in", "fan_out"):
        raise ValueError(f"kaiming: mode must be 'fan_in' or 'fan_out', got {mode!r}")
    return calculate_gain(nonlinearity, a) / math.sqrt(fan_in if mode == "fan_in" else fan_out)


def kaiming_uniform_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> Tensor:
    r"""Uniform on \pm gain \sqrt{3 / fan}; He and others (2015)."""
    if tensor.device == "meta" or not tensor.numel():
        return tensor
    bound = math.sqrt(3) * _kaiming_std(tensor, a, mode, nonlinearity)
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> Tensor:
    r"""Normal with \sigma = gain / \sqrt{fan}."""
    if tensor.device == "meta" or not tensor.numel():
        return tensor
    return normal_(tensor, 0.0, _kaiming_std(tensor, a, mode, nonlinearity), generator)


def orthogonal_(tensor: Tensor, gain: float = 1, generator: Generator | None = None) -> Tensor:
    r"""X = gain Q with Q^T Q = I, or Q Q^T = I where X has fewer rows than columns; Saxe and others (2014).

    The dimensions after the first count as one. Q is uniform among such matrices: the factor Q of a QR decomposition of
    normal numbers, with the signs that make the diagonal of R positive.
    """
    if tensor.ndim < 2:
        raise ValueError(f"orthogonal_: expected 2 dimensions or more, got shape {tensor.shape}")
    if tensor.device == "meta" or not tensor.numel():
        return tensor
    rows, wide = tensor.shape[0], tensor.shape[0] < tensor.numel() // tensor.shape[0]
    with no_grad():
        x = randn(rows, tensor.numel() // rows, dtype=tensor.dtype, generator=generator)
        q, r = qr(x.t() if wide else x)
        q = q * r.diagonal().sign() * gain
        return tensor.copy_((q.t() if wide else q).reshape(tensor.shape))


for _name, _function in list(globals().items()):
    if getattr(_function, "__module__", "") == __name__ and not _name.startswith("_"):
        globals()[_name] = public_as(f"{__name__}.{_name}", _function)
