"""copy: any layout and dtype into any other, as NumPy does it."""

import itertools

import numpy as np
import pytest

from tinytensor.native.kernels.copy import copy

DTYPES = ("float32", "float64", "int32", "int64", "bool")


@pytest.mark.parametrize(("source", "target"), [*itertools.product(DTYPES, DTYPES)])
def test_copy_converts_every_dtype(source, target):
    x = np.array([0, 1, 2.75, -3.5, 100]).astype(source)
    y = np.empty(5, target)
    copy(x, y)
    np.testing.assert_array_equal(y, x.astype(target))


SHAPES = [(), (0,), (1,), (5,), (3, 0, 2), (4, 5), (2, 3, 4), (2, 1, 3, 1, 4), (2, 2, 2, 2, 2, 2, 2)]


@pytest.mark.parametrize("shape", SHAPES)
def test_copy_between_all_layouts(shape):
    rng = np.random.default_rng(0)
    for _ in range(10):
        order, other = rng.permutation(len(shape)), rng.permutation(len(shape))
        wide = tuple(2 * n for n in shape)
        turned = [wide[d] for d in order]  # the shape of x while it is wide
        odd, even = (..., *[slice(1, None, 2)] * len(shape)), (..., *[slice(None, None, 2)] * len(shape))
        x = rng.normal(size=wide).transpose(order)[even]
        y = np.zeros([turned[d] for d in np.argsort(other)]).transpose(other)[odd]
        assert x.shape == y.shape
        copy(x, y)
        np.testing.assert_array_equal(y, x)


def test_copy_broadcasts_a_number_or_row():
    y = np.zeros((3, 4), np.float32)
    copy(np.array(2.5), y)
    assert (y == 2.5).all()
    copy(np.arange(4), y)
    assert (y == np.arange(4)).all()
    copy(np.arange(3).reshape(3, 1), y)
    assert (y == np.arange(3).reshape(3, 1)).all()


def test_incompatible_shapes_are_refused():
    with pytest.raises(ValueError, match=r"kernel copy: an array of shape \(3,\) does not broadcast to \(4,\)"):
        copy(np.zeros(3), np.zeros(4))
