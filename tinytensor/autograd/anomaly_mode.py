"""Anomaly mode: find the operation in which the first NaN or inf arises, forward or backward.

It checks every result, which is slow: it is meant for finding a fault, not for training.
"""

from collections.abc import Callable, Sequence

import numpy as np

from tinytensor.core.dispatch import state
from tinytensor.core.meta import Meta
from tinytensor.core.switches import Switch
from tinytensor.core.tensor import Tensor


def _kind(array: np.ndarray) -> str:
    return "NaN" if np.isnan(array).any() else "inf"


def _numbers(x: Tensor) -> np.ndarray:
    """The array of a tensor; inside vmap that of all examples."""
    return _numbers(x.value) if isinstance(x._data, Meta) else x._data


class Search:
    """Checks each result and each gradient; `state.anomaly` holds it while anomaly mode is on."""

    @staticmethod
    def result(name: str, inputs: Sequence[np.ndarray], y: np.ndarray) -> None:
        """Raise if y is not finite although the inputs are: then the fault arose in this operation."""
        if y.dtype.kind != "f" or np.isfinite(y).all():
            return
        inputs = [a for a in inputs if a.dtype.kind == "f"]
        if all(np.isfinite(a).all() for a in inputs):
            shapes = ", ".join(str(a.shape) for a in inputs)
            raise FloatingPointError(
                f"{name}: the first {_kind(y)} arose here: the inputs {shapes} are finite, the result {y.shape} is not"
            )

    @staticmethod
    def gradients(compute: Callable, node, g, *how) -> list:
        """The gradients from `compute(node, g, *how)`; raises if one of them is not finite although g is."""
        try:
            results = compute(node, g, *how)
        except FloatingPointError as error:
            raise FloatingPointError(f"backward of {node.op.name}: {error}") from None
        for position, r in enumerate(results):
            wrong = r is not None and r.dtype.kind == "f" and not np.isfinite(_numbers(r)).all()
            if wrong and np.isfinite(_numbers(g)).all():
                name = node.op.params[min(position, len(node.op.params) - 1)]
                raise FloatingPointError(
                    f"backward of {node.op.name}: the first {_kind(_numbers(r))} arose in the gradient of {name}, of "
                    f"shape {r.shape}"
                )
        return results


class detect_anomaly(Switch):
    """Name the operation in which the first NaN or inf arises, forward or backward (slow: for finding a fault)."""

    field, value = "anomaly", Search


class set_detect_anomaly:
    """Switch the search for the first NaN or inf on or off at once (a function, or a context that ends it)."""

    def __init__(self, mode: bool):
        self.before = state.anomaly
        state.anomaly = Search if mode else None

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        state.anomaly = self.before
        return False
