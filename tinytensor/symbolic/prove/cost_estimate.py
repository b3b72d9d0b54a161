"""Estimates how long a proof takes, before it starts.

Shapes do not tell how formulas grow. So the function runs once over scalars that keep no formula, but know which
variables are in them (`Count`). A proof looks several times at each pair of an entry of a result and a variable in it,
so its time is proportional to the number of pairs. At real size, where no formula is written down, the time is
proportional to the operations, which are counted while the function runs on floats.

Both are estimates, mostly good to a factor of two. The time for a pair depends on the operation, and was measured
(`MEASURED`, `GROWING`): in a layer norm the polynomials that are multiplied out grow with the fourth power of the row.
"""

import itertools
import math
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from fractions import Fraction

import numpy as np

from tinytensor.core.dispatch import state
from tinytensor.core.dtypes import get_default_dtype
from tinytensor.core.modes import enable_grad
from tinytensor.core.observers import observe
from tinytensor.core.op import Node
from tinytensor.core.tensor import Tensor
from tinytensor.ops.creation import ones_like
from tinytensor.profiler import FLOPS
from tinytensor.runtime.kernel import Kernel, Launch
from tinytensor.symbolic.exact.scalars import NUMBERS, Exact, binary, fraction, use_scalar_type
from tinytensor.symbolic.prove.advice import results_of
from tinytensor.symbolic.prove.passes import hooks_kept
from tinytensor.symbolic.prove.progress import Estimate

# Measured on one core: seconds and bytes for an operation, a pair, or an entry of a result.
SECONDS_A_PAIR, SECONDS_AN_OPERATION, BYTES_A_PAIR, BYTES_AN_ENTRY = 2.5e-4, 2e-5, 1000, 3000
FUSED = 10.0  # a pair of a fused operation counts for so many: it is larger, and compared with two formulas
MEASURED = {  # and a pair of one of these
    **dict.fromkeys(("silu", "sigmoid", "gelu_tanh"), 20.0),
    **dict.fromkeys(("gelu_erf", "softplus", "logsigmoid", "reduce_logsumexp"), 12.0),
    **dict.fromkeys(("tanh", "erf", "sin", "cos"), 3.0),
    "softmax": 7.0,
    "log_softmax": 6.0,
    "cross_entropy_mean": 30.0,
    "rms_norm": 5.0,
    "linear": 2.0,
    "linear_relu": 4.0,
}
GROWING: dict[str, Callable[[float, tuple[int, ...]], float]] = {  # by the variables of an entry and the result's shape
    "layer_norm": lambda variables, shape: 14 + 0.0014 * shape[-1] ** 4,
    # The gradient of a key has the variables of all queries, since it is a sum over them.
    "attention": lambda variables, shape: 30 + 0.08 * shape[-2] * variables + 1.5e-4 * (shape[-2] * variables) ** 2,
}
SECONDS_A_FLOP, BYTES_A_RESIDUE = 8e-7, 400
MOST = 3_000_000  # operations that are counted: a proof with more takes days


class _TooMany(Exception):
    """There are more operations than are counted."""


class _Tally(threading.local):
    def __init__(self):
        self.operations = 0


_tally = _Tally()


class Count(Exact):
    """A scalar without its formula: its witness, its number if it is one, and which variables are in it."""

    __slots__ = ("inputs", "known")

    def __init__(self, value, inputs: int | None = None):
        self.inputs = getattr(value, "inputs", 0) if inputs is None else inputs  # a bit for each variable
        self.known = None
        if isinstance(value, Exact):
            self.witness = value.witness
        elif isinstance(value, NUMBERS):
            self.witness = float(value)
        else:
            raise TypeError(f"{type(value).__name__} is no number")
        if not self.inputs and math.isfinite(self.witness):
            self.known = fraction(self.witness)

    def number(self) -> Fraction | None:
        return self.known

    @binary
    def __add__(self, other):
        return _counted(self.witness + other.witness, self.inputs | other.inputs)

    @binary
    def __mul__(self, other):
        return _counted(self.witness * other.witness, self.inputs | other.inputs)

    @binary
    def __truediv__(self, other):
        return _counted(self.witness / other.witness if other.witness else math.nan, self.inputs | other.inputs)

    def _power(self, n: int):
        return _counted(self.witness**n if self.witness or n >= 0 else math.nan, self.inputs)

    def _sign(self, other) -> int:
        gap = self.witness - other.witness
        return (gap > 0) - (gap < 0)

    def _apply(self, name: str):
        return _counted(-math.inf if name == "log" and self.witness == 0 else self._float(name), self.inputs)


Count.scalar_type = Count


def _counted(witness: float, inputs: int) -> Count:
    _tally.operations += 1
    if _tally.operations > MOST:
        raise _TooMany
    return Count(witness, inputs)


def estimate_cost(fn: Callable, args: list, leaves: Iterable[Tensor]) -> Estimate | None:
    """The cost of a proof for all values; None if the run fails, as the proof will for the same reason."""
    estimate, fresh, entries = Estimate(), itertools.count(), 0

    def variables_in(array: np.ndarray) -> np.ndarray:
        """The same scalars; each that depends on a variable becomes a variable of its own."""
        counts = np.empty(array.shape, object)
        for at in np.ndindex(array.shape):
            value = array[at]
            varies = value.inputs if isinstance(value, Count) else getattr(value, "expr", value) is not value
            counts[at] = Count(value, 1 << next(fresh) if varies else 0)
        return counts

    def note(node: Node, args: tuple, out: np.ndarray) -> None:
        nonlocal entries
        pairs = sum(x.inputs.bit_count() for x in out.flat if isinstance(x, Count))
        name, usual = node.op.name, 1.0 if node.op.definition is None else FUSED
        growing = name in GROWING and out.size
        factor = GROWING[name](pairs / out.size, out.shape) if growing else MEASURED.get(name, usual)
        estimate.weights.append(factor * pairs)
        entries += out.size
        out[...] = variables_in(out)

    _tally.operations = 0
    with swap_data(leaves, variables_in):
        try:
            with use_scalar_type(Count), enable_grad(), observe(on_node=note):
                results_of(fn, args)
        except _TooMany:
            estimate.weights = [math.inf]
        except Exception:
            return None
    estimate.seconds = SECONDS_A_PAIR * sum(estimate.weights) + SECONDS_AN_OPERATION * _tally.operations
    estimate.bytes = BYTES_A_PAIR * sum(estimate.weights) + BYTES_AN_ENTRY * entries
    return estimate


class _Launches:
    """Takes the place of a profile, and adds up the operations of the launches."""

    def __init__(self):
        self.operations = 0.0

    def launch(self, kernel: Kernel, launch: Launch) -> None:
        kernel.run(launch)
        flops = FLOPS.get(kernel.name)
        floats = sum(a.size for a in launch.args if isinstance(a, np.ndarray) and a.dtype.kind == "f")
        self.operations += flops(dict(zip(kernel.names, launch.args, strict=True))) if flops else 4 * floats


def estimate_cost_at_real_size(fn: Callable, args: list, tensors: Iterable[Tensor]) -> Estimate | None:
    """The cost of a proof at real size, from a run on floats; None if that run fails."""
    estimate, launches, entries = Estimate(), _Launches(), 0

    def floats_of(array: np.ndarray) -> np.ndarray:
        return np.array([x.witness for x in array.flat], get_default_dtype()).reshape(array.shape)

    def note(node: Node, args: tuple, out: np.ndarray) -> None:
        nonlocal entries
        estimate.weights.append(launches.operations - sum(estimate.weights))
        entries += out.size

    with swap_data(tensors, floats_of):
        before, state.profile = state.profile, launches
        try:
            with enable_grad(), observe(on_node=note):
                results = results_of(fn, args)
            forward = launches.operations
            for y in results:
                y.backward(ones_like(y), retain_graph=True)
        except Exception:
            return None
        finally:
            state.profile = before
            for x in tensors:
                x.grad = None
    estimate.seconds = SECONDS_A_FLOP * (2 * forward + launches.operations)
    estimate.bytes = BYTES_A_RESIDUE * entries
    return estimate


@contextmanager
def swap_data(tensors: Iterable[Tensor], other: Callable[[np.ndarray], np.ndarray]) -> Iterator[None]:
    """Inside, the tensors hold `other` of their arrays; hooks that a run adds are removed afterwards."""
    before = [(x, x._data) for x in tensors]
    try:
        with hooks_kept(tensors):
            for x, array in before:
                x._data = other(array)
            yield
    finally:
        for x, array in before:
            x._data = array
