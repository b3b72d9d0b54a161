"""The same function on floats must compute the same as on exact numbers.

A proof is about the code that ran on exact numbers. Code that asks for the dtype, or for its callers, may compute
something else on floats. So the function also runs on float64 at the sample point, in a thread of its own, where no
function of this package is among its callers. Its results and gradients must be those of the proof, up to rounding.
"""

import math
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from tinytensor.core.modes import enable_grad
from tinytensor.core.tensor import Tensor
from tinytensor.symbolic.exact.scalars import NUMBERS, Exact, binary, fraction, use_scalar_type
from tinytensor.symbolic.exact.tensors import witnesses
from tinytensor.symbolic.prove.advice import results_of
from tinytensor.symbolic.prove.passes import SEED, swap_data

NOT_COMPARED = "not compared with a run on floats"
ROUNDING = 1e-6  # of the largest entry (or of 1): how far float64 may be from the witnesses


class Witness(Exact):
    """A scalar without its formula: its witness, and its number if no variable is in it."""

    __slots__ = ("varies",)

    def __init__(self, value, varies: bool | None = None):
        if not isinstance(value, (Exact, *NUMBERS)):
            raise TypeError(f"{type(value).__name__} is no number")
        self.varies = getattr(value, "varies", False) if varies is None else varies
        self.witness = value.witness if isinstance(value, Exact) else float(value)

    def number(self) -> Fraction | None:
        return None if self.varies or not math.isfinite(self.witness) else fraction(self.witness)

    @binary
    def __add__(self, other):
        return Witness(self.witness + other.witness, self.varies or other.varies)

    @binary
    def __mul__(self, other):
        return Witness(self.witness * other.witness, self.varies or other.varies)

    @binary
    def __truediv__(self, other):
        return Witness(self.witness / other.witness if other.witness else math.nan, self.varies or other.varies)

    def _power(self, n: int):
        return Witness(self.witness**n if self.witness or n >= 0 else math.nan, self.varies)

    def _sign(self, other) -> int:
        gap = self.witness - other.witness
        return (gap > 0) - (gap < 0)

    def _apply(self, name: str):
        return Witness(-math.inf if name == "log" and self.witness == 0 else self._float(name), self.varies)


Witness.scalar_type = Witness


@dataclass
class FloatRun:
    """The result of the run: a difference, or the reason why the run failed, in a sentence each."""

    difference: str = ""
    not_run: str = ""


def compare_on_floats(
    fn: Callable,
    args: list,
    leaves: dict[str, Tensor],
    exact_tensors: Iterable[Tensor],
    number: int | None,
    expected: dict,
) -> FloatRun:
    """Run fn with floats in place of the exact numbers in `exact_tensors`, and compare.

    `expected` has the results (by number) and the gradients (by the inputs' names) as floats, and under SEED the
    gradients that arrive at the results. The result `number` is differentiated, or all results if it is None.
    """
    run = FloatRun()
    with swap_data(list({id(x): x for x in exact_tensors}.values()), lambda array: witnesses(array)):
        kept = {name: leaf.grad for name, leaf in leaves.items()}
        try:
            for leaf in leaves.values():
                leaf.grad = None
            with ThreadPoolExecutor(1) as alone:
                returned = alone.submit(fn, *args).result()
                returned = returned if isinstance(returned, tuple | list) else (returned,)
                results = [y for y in returned if isinstance(y, Tensor) and y.requires_grad]
                for n in range(len(results)) if number is None else [number]:
                    g = Tensor.of(expected[SEED][n].astype(results[n]._data.dtype))
                    run.difference = run.difference or _difference(f"result {n}", results[n], expected[n])
                    alone.submit(results[n].backward, g, retain_graph=True).result()
            for name, leaf in leaves.items():
                run.difference = run.difference or _difference(f"the gradient of {name}", leaf.grad, expected[name])
        except Exception as error:
            run.not_run = f"{NOT_COMPARED}, which raised {type(error).__name__}"
        finally:
            for name, leaf in leaves.items():
                leaf.grad = kept[name]
    return run


def expected_on_floats(
    fn: Callable, args: list, leaves: dict[str, Tensor], exact_tensors: Iterable[Tensor], number: int, seed: np.ndarray
) -> dict | None:
    """The `expected` of on_floats, from a run on exact numbers that keep no formula; None if that run fails.

    (A pass can't give it: there a symbol replaces each gradient, and the gradient of a plain number is arbitrary.)
    """

    def witnessed(array: np.ndarray) -> np.ndarray:
        scalars = np.empty(array.shape, object)
        for at in np.ndindex(array.shape):
            varies = not isinstance(array[at], Exact) or array[at].number() is None
            scalars[at] = Witness(array[at], varies)
        return scalars

    with swap_data(list({id(x): x for x in exact_tensors}.values()), witnessed):
        kept = {name: leaf.grad for name, leaf in leaves.items()}
        try:
            for leaf in leaves.values():
                leaf.grad = None
            with use_scalar_type(Witness), enable_grad():
                y = results_of(fn, args)[number]
                expected = {number: witnesses(y._data), SEED: {number: witnesses(seed)}}
                y.backward(Tensor.of(witnessed(seed)))
            for name, leaf in leaves.items():
                expected[name] = np.zeros(leaf.shape) if leaf.grad is None else witnesses(leaf.grad._data)
            return expected
        except Exception:
            return None
        finally:
            for name, leaf in leaves.items():
                leaf.grad = kept[name]


def _difference(what: str, actual: Tensor | None, exact: np.ndarray) -> str:
    """A sentence about the first entry that differs by more than rounding."""
    floats = np.zeros(exact.shape) if actual is None else actual.detach().numpy()
    known = np.isfinite(exact)
    limit = ROUNDING * max(1.0, np.abs(exact[known]).max(initial=0.0))
    for at in np.argwhere(known & ~(np.abs(floats - exact) <= limit)).tolist():  # also where the float is NaN
        return f"{what} at {at} is {floats[tuple(at)]:.6g} on floats, and {exact[tuple(at)]:.6g} on exact numbers"
    return ""
