"""Initial values of parameters, in place, off the tape."""

import math

from tinytensor.core.modes import no_grad
from tinytensor.core.tensor import Tensor
from tinytensor.ops.creation import rand, randn
from tinytensor.ops.generator import Generator


def _filled(tensor: Tensor, values: Tensor) -> Tensor:
    with no_grad():
        return tensor.copy_(values)


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
    if tensor.device == "meta":
        return tensor
    return _filled(tensor, randn(tensor.shape, dtype=tensor.dtype, generator=generator) * std + mean)


def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Generator | None = None) -> Tensor:
    """From the uniform distribution on [a, b)."""
    if tensor.device == "meta":
        return tensor
    return _filled(tensor, rand(tensor.shape, dtype=tensor.dtype, generator=generator) * (b - a) + a)


def trunc_normal_(
    tensor: Tensor,
    mean: float = 0.0,
    std: float = 1.0,
    a: float = -2.0,
    b: float = 2.0,
    generator: Generator | None = None,
) -> Tensor:
    """From the normal distribution between a and b: values outside are drawn again."""
    normal_(tensor, mean, std, generator)
    if tensor.device == "meta":
        return tensor
    with no_grad():
        while bool((outside := (tensor < a).logical_or(tensor > b)).any()):
            redrawn = randn(tensor.shape, dtype=tensor.dtype, generator=generator) * std + mean
            tensor.copy_(redrawn.where(outside, tensor))
    return tensor


def _fans(tensor: Tensor) -> tuple[int, int]:
    if tensor.ndim < 2:
        raise ValueError(f"init: fan-in and fan-out need at least 2 dimensions, got shape {tensor.shape}")
    receptive = math.prod(tensor.shape[2:])
    return tensor.shape[1] * receptive, tensor.shape[0] * receptive


def xavier_uniform_(tensor: Tensor, gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    r"""Uniform on \pm gain \sqrt{6 / (fan_{in} + fan_{out})}; Glorot and Bengio (2010)."""
    if tensor.device == "meta":
        return tensor
    bound = gain * math.sqrt(6 / sum(_fans(tensor)))
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    r"""Normal with \sigma = gain \sqrt{2 / (fan_{in} + fan_{out})}."""
    if tensor.device == "meta":
        return tensor
    return normal_(tensor, 0.0, gain * math.sqrt(2 / sum(_fans(tensor))), generator)


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """The factor that makes up for the shrinking of the standard deviation by a nonlinearity."""
    gains = {"linear": 1.0, "sigmoid": 1.0, "tanh": 5 / 3, "relu": math.sqrt(2), "selu": 3 / 4}
    if nonlinearity == "leaky_relu":
        return math.sqrt(2 / (1 + (0.01 if param is None else param) ** 2))
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
    if tensor.device == "meta":
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
    if tensor.device == "meta":
        return tensor
    return normal_(tensor, 0.0, _kaiming_std(tensor, a, mode, nonlinearity), generator)
