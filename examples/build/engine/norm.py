"""Step 7: layer norm. Lesson 11 teaches it.

A layer norm gives each row of numbers the mean 0 and the variance 1, so that no layer gets numbers that are far too
large or too small. Then it multiplies by a gain and adds a bias, which are learned.

    z = r (x - μ)        r = 1 / √(σ² + ε)        μ, σ²: mean and variance of the row (σ² with 1/D, not 1/(D - 1))
    y = gain · z + bias

It is tempting to take μ and r for constants in the gradient, but every x changes them. With dz = gain · dy:

    dx = r (dz - ⟨dz⟩ - z ⟨z dz⟩)        where ⟨...⟩ is the mean over the row

You may write `normalize` with this formula, or from your own operations of steps 2 and 4, which find it themselves.
"""

import numpy as np

from .tape import Tensor


def normalize(x, eps=1e-5):
    """z of the equation above, along the last axis of x."""
    # hole
    centred = x.data - x.data.mean(axis=-1, keepdims=True)
    r = 1 / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + eps)
    z = r * centred

    def pull(dz):
        return r * (dz - dz.mean(axis=-1, keepdims=True) - z * (z * dz).mean(axis=-1, keepdims=True))

    return Tensor(z, [(x, pull)])


def layer_norm(x, gain, bias, eps=1e-5):
    """y = gain · z + bias, for x (..., D), gain (D,) and bias (D,)."""
    # hole
    return normalize(x, eps) * gain + bias
