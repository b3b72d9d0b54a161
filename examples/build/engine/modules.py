"""Step 9: modules, and the optimizer AdamW. Lessons 4 and 7 teach it.

A module holds parameters, and other modules, as attributes or in lists. `parameters()` finds all of them, so that an
optimizer can move them. AdamW keeps two averages for each parameter x with the gradient g, and counts its steps t from
1 on:

    m = β1 m + (1 - β1) g          v = β2 v + (1 - β2) g²
    x = x - rate · decay · x       x = x - rate · m̂ / (√v̂ + ε)       with m̂ = m / (1 - β1^t), v̂ = v / (1 - β2^t)

At first m and v are 0, and far too small for some steps: the two divisions mend this. The decay makes x itself smaller
and does not go through g: this is the W in the name.
"""

import numpy as np

from .matrices import matmul
from .norm import layer_norm
from .tape import Tensor


class Module:
    """Something with parameters."""

    def parameters(self):
        """A list of all tensors of this module: its attributes, those of modules in it, and those in lists, each once.

        vars(self).values() are the attributes. Each is a Tensor, a Module, a list of these, or something else.
        """
        # hole
        found, places = [], list(vars(self).values())
        while places:
            place = places.pop(0)
            if isinstance(place, Tensor):
                if not any(place is other for other in found):
                    found.append(place)
            elif isinstance(place, Module):
                places = list(vars(place).values()) + places
            elif isinstance(place, list):
                places = place + places
        return found


class Linear(Module):
    """y = x W + b, with W (inputs, outputs) and b (outputs,)."""

    def __init__(self, inputs, outputs, random):
        """W: random.standard_normal((inputs, outputs)) / √inputs, so that sums stay of size 1; b: zeros."""
        # hole
        self.W = Tensor(random.standard_normal((inputs, outputs)) / np.sqrt(inputs))
        self.b = Tensor(np.zeros(outputs))

    def __call__(self, x):
        # hole
        return matmul(x, self.W) + self.b


class LayerNorm(Module):
    """A layer norm of width D, with a gain of ones and a bias of zeros at first."""

    def __init__(self, D):
        # hole
        self.gain, self.bias = Tensor(np.ones(D)), Tensor(np.zeros(D))

    def __call__(self, x):
        # hole
        return layer_norm(x, self.gain, self.bias)


class AdamW:
    """Moves parameters against their gradients, as the equations at the top of this file say."""

    def __init__(self, parameters, rate=1e-3, decay=0.01, betas=(0.9, 0.999), eps=1e-8):
        """Store the settings; self.t = 0 steps so far; self.m and self.v: a list with zeros for each parameter."""
        self.parameters, self.rate, self.decay, self.betas, self.eps = list(parameters), rate, decay, betas, eps
        # hole
        self.t = 0
        self.m = [np.zeros(x.shape) for x in self.parameters]
        self.v = [np.zeros(x.shape) for x in self.parameters]

    def step(self):
        """Change x.data of each parameter x, by its gradient x.grad."""
        # hole
        self.t += 1
        b1, b2 = self.betas
        for i, x in enumerate(self.parameters):
            self.m[i] = b1 * self.m[i] + (1 - b1) * x.grad
            self.v[i] = b2 * self.v[i] + (1 - b2) * x.grad**2
            m, v = self.m[i] / (1 - b1**self.t), self.v[i] / (1 - b2**self.t)
            x.data = x.data - self.rate * self.decay * x.data
            x.data = x.data - self.rate * m / (np.sqrt(v) + self.eps)
