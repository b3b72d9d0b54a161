"""How near two computations of a whole model must be: what `python -m derivations rounding` says of each of them."""

import numpy as np

from derivations.proofs.rounding import tolerance


def assert_near(actual, expected, name: str = "", document: str = "003", largest: float | None = None) -> None:
    """Logits, a loss or a gradient, computed twice: apart by `tolerance` of the largest entry, at most.

    Of two dtypes the coarser one counts. What is measured there is the decoder of 003 at its own size, and the
    encoder-decoder of 004, both as training begins. With other weights some gradients are differences of numbers that
    are far larger than they are: `largest` says how large.
    """
    actual, expected = np.asarray(actual), np.asarray(expected)
    assert actual.shape == expected.shape, (name, actual.shape, expected.shape)
    dtype = "float32" if np.float32 in (actual.dtype, expected.dtype) else "float64"
    apart = np.abs(actual.astype(np.float64) - expected).max()
    largest = np.abs(expected).max() if largest is None else largest
    assert apart <= tolerance(dtype, document) * largest, (name, apart / largest, tolerance(dtype, document))
