"""Step 1: values and slopes. Lessons 0 and 1 teach it.

How much does y change when its input a changes a little, by h? By about h · dy/da. The number dy/da is the slope of y
with respect to a. All training rests on such numbers.

Write seven functions. Each returns two things: its value, and a tuple with one slope for each of its inputs. `add` is
done. The slopes that you need stand in every table of derivatives:

    y = a b      dy/da = b, dy/db = a        y = log a       dy/da = 1/a
    y = a^n      dy/da = n a^(n-1)           y = tanh a      dy/da = 1 - y²
    y = e^a      dy/da = y                   y = max(0, a)   dy/da = 1 where a > 0, else 0

Use NumPy's functions (np.exp, not math.exp): from step 4 on, a and b are arrays, and then nothing here has to change.
"""

import numpy as np


def add(a, b):
    """y = a + b, with its slopes with respect to a and to b."""
    return a + b, (1.0, 1.0)


def mul(a, b):
    """y = a b, with its slopes with respect to a and to b."""
    # hole
    return a * b, (b, a)


def power(a, n):
    """y = a^n for a number n that stays fixed, with the slope with respect to a. One slope is a tuple too: (slope,)."""
    # hole
    return a**n, (n * a ** (n - 1),)


def exp(a):
    """y = e^a, with its slope."""
    # hole
    y = np.exp(a)
    return y, (y,)


def log(a):
    """y = log a, the natural logarithm, with its slope."""
    # hole
    return np.log(a), (1 / a,)


def tanh(a):
    """y = tanh a, with its slope."""
    # hole
    y = np.tanh(a)
    return y, (1 - y * y,)


def relu(a):
    """y = max(0, a), with its slope; at a = 0 take the slope 0."""
    # hole
    return np.maximum(a, 0), (np.where(a > 0, 1.0, 0.0),)
