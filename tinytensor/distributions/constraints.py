"""Sets of values: what a transform takes and gives, and what a distribution's values and parameters are."""

from collections.abc import Callable

from tinytensor.core.tensor import Tensor


class Constraint:
    """A set of values; those of `event_dim` 1 are vectors, and so on."""

    check: Callable[[Tensor], Tensor]  # is each of the values in the set?

    def __init__(self, check: Callable[[Tensor], Tensor], event_dim: int = 0):
        self.check, self.event_dim = check, event_dim


def independent(base: Constraint, reinterpreted_batch_ndims: int) -> Constraint:
    """Tensors whose last dimensions hold values of the base."""

    def holds(value: Tensor) -> Tensor:
        return base.check(value).flatten(-reinterpreted_batch_ndims).all(-1)

    return Constraint(holds, base.event_dim + reinterpreted_batch_ndims)


def interval(lower_bound, upper_bound) -> Constraint:
    """Numbers between two bounds, or equal to one."""
    return Constraint(lambda x: (x >= lower_bound) & (x <= upper_bound))


def greater_than(lower_bound) -> Constraint:
    """Numbers above a bound."""
    return Constraint(lambda x: x > lower_bound)


def greater_than_eq(lower_bound) -> Constraint:
    """Numbers that are a bound or above it."""
    return Constraint(lambda x: x >= lower_bound)


def less_than(upper_bound) -> Constraint:
    """Numbers below a bound."""
    return Constraint(lambda x: x < upper_bound)


real = Constraint(lambda x: x == x)
real_vector = independent(real, 1)
positive, nonnegative, unit_interval = greater_than(0), greater_than_eq(0), interval(0, 1)
boolean = Constraint(lambda x: (x == 0) | (x == 1))
simplex = Constraint(lambda x: (x >= 0).all(-1) & ((x.sum(-1) - 1).abs() < 1e-6), 1)
