"""Tensors of random numbers that are drawn from given probabilities, and in place."""

from tinytensor.core.dtypes import float64
from tinytensor.core.registry import register
from tinytensor.core.tensor import Tensor
from tinytensor.ops.arguments import expect_probabilities, only_floats
from tinytensor.ops.creation import rand
from tinytensor.ops.elementwise import log1p
from tinytensor.ops.generator import Generator
from tinytensor.ops.in_place import copy_


@register("bernoulli Tensor.bernoulli")
def bernoulli(p: Tensor, *, generator: Generator | None = None) -> Tensor:
    """P(y = 1) = p: 1 with probability p, else 0, elementwise."""
    only_floats("bernoulli", p)
    expect_probabilities("bernoulli", p)
    return (rand(p.shape, dtype=p.dtype, generator=generator) < p).to(p.dtype)


@register("Tensor.bernoulli_")
def bernoulli_(x: Tensor, p: Tensor | float = 0.5, *, generator: Generator | None = None) -> Tensor:
    """1 with probability p, else 0, for every element, in place."""
    if isinstance(p, Tensor):
        expect_probabilities("bernoulli_", p)
    elif not 0 <= p <= 1:
        raise RuntimeError(f"bernoulli_: the probability must be between 0 and 1, got {p}")
    return copy_(x, (rand(x.shape, dtype=float64, generator=generator) < p).to(x.dtype))


@register("Tensor.exponential_")
def exponential_(x: Tensor, lambd: float = 1.0, *, generator: Generator | None = None) -> Tensor:
    r"""Draw every element with the density \lambda e^{-\lambda x}, in place."""
    only_floats("exponential_", x)
    if not lambd > 0:
        raise RuntimeError(f"exponential_: expected lambd above 0, got {lambd}")
    return copy_(x, log1p(-rand(x.shape, dtype=x.dtype, generator=generator)) / -lambd)
