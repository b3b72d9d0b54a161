# %% [markdown]
# # A derivative, four ways
#
# How much does tanh change when x = 0.5 changes a little? Lesson 0 would nudge x and look. Here we find this one number
# in four ways: by hand, by nudging, on the tape, and by SymPy. Do the four agree, and to how many digits?

# %%
import math
from pathlib import Path

import numpy as np
import sympy

import tinytensor as tt
from tinytensor.symbolic import prove
from tinytensor.viz import plots

FIGURES = Path("runs/lessons")
x0 = 0.5

# %% [markdown]
# ## By hand
#
# tanh x = sinh x / cosh x. The quotient rule gives the slope:
#
# $$ \frac{d}{dx} \tanh x = \frac{\cosh^2 x - \sinh^2 x}{\cosh^2 x} = 1 - \tanh^2 x $$
#
# It is made of the result alone: once y = tanh x is computed, the slope 1 - y² needs no second exponential. In the
# picture the dashed line has this slope.

# %%
by_hand = 1 - math.tanh(x0) ** 2
figure, [[panel]] = plots.panels(size=(6.4, 3.2))
xs = np.linspace(-2, 3, 200)
plots.lines(panel, xs, {"tanh x": np.tanh(xs), "slope at 0.5": math.tanh(x0) + by_hand * (xs - x0)})
panel.set(xlabel="x", ylim=(-1.5, 2))
plots.show(figure, FIGURES / "01_derivative_slope.png", alt="tanh, and a line that touches it at 0.5: slope 0.786.")

# %% [markdown]
# ## Why is the slope of e^x its result?
#
# The exponential is the extreme case. For any base, b^(x + h) - b^x is b^x (b^h - 1). So the slope is the result, times
# a number that does not depend on x: the limit of (b^h - 1) / h. Predict: for which of these bases is this number 1?

# %%
for base in (2, math.e, 3):
    print(f"base {base:.3f}: the slope is {(base**1e-6 - 1) / 1e-6:.4f} times the result")

# %% [markdown]
# e was chosen so that the number is 1. This is why the rule of the exponential reads its result.
#
# ## By nudging: finite differences
#
# The definition of a derivative is a limit: (f(x + h) - f(x - h)) / 2h as h goes to 0. So is a smaller h always better?
# It is tempting to think so. Predict the best h, and how many of the sixteen digits it gets right.


# %%
def difference(h: float) -> float:
    return (math.tanh(x0 + h) - math.tanh(x0 - h)) / (2 * h)


hs = np.logspace(-15, 0, 61)
errors = {"finite differences": [abs(difference(h) - by_hand) for h in hs], "spacing of float64": 0 * hs + 1.1e-16}
figure, [[panel]] = plots.panels(size=(6.4, 3.4))
plots.lines(panel, hs, errors)
panel.set(xlabel="h", ylabel="error of the slope", xscale="log", yscale="log")
plots.show(figure, FIGURES / "01_derivative.png", alt="The error over h, a V: smallest, about 1e-11, near h = 1e-5.")

# %% [markdown]
# Read the V from the right. With a large h the curve bends between the two points: an h ten times smaller makes the
# error a hundred times smaller. With a small h we subtract two numbers that agree in almost all of their digits; what
# remains is rounding error, and it is divided by h. Near h = 1e-5 the two balance, and about eleven digits are right.
# (The exercises show formulas that do better.) This is why `tt.gradcheck`, which tests gradients with differences,
# wants float64 and allows for an error.
#
# ## On the tape
#
# `requires_grad=True` says that we want derivatives with respect to x. Computing y leaves a note on the **tape**, a
# record of what was computed: "tanh, of x". `backward()` starts there with dy/dy = 1, and multiplies by 1 - y². No h is
# needed, and no formula that grows: only the derivative of each operation, at the numbers that were computed.

# %%
x = tt.tensor(x0, dtype=tt.float64, requires_grad=True)
y = x.tanh()
y.backward()
print("on the tape:", y.grad_fn)

# %% [markdown]
# ## By SymPy
#
# SymPy computes with symbols, letters that stand for any number. Its derivative is a formula: it holds at every x, and
# gives as many digits as we like. The four ways, side by side:

# %%
symbol = sympy.Symbol("x")
formula = sympy.diff(sympy.tanh(symbol), symbol)
exact = float(formula.subs(symbol, sympy.Rational(1, 2)).evalf(30))
for name, slope in {"by hand": by_hand, "nudging": difference(1e-5), "tape": x.grad.item(), "SymPy": exact}.items():
    print(f"{name:<8} {slope:.16f}   off by {abs(slope - exact):.0e}")
assert abs(x.grad.item() - exact) < 1e-15 and abs(difference(1e-5) - exact) < 1e-10

# %% [markdown]
# One point says nothing about the others. `prove` runs the code of the tape over symbols instead of numbers, and
# compares the result with SymPy's derivative. It is worth having: eq. (17) of document 003 lists such derivatives for a
# loss and thousands of parameters, and lesson 14 proves them. (`examples/documents.md` lists the documents 000 to 004.)

# %%
print(prove(tt.tanh, (1,)))

# %% [markdown]
# ## Exercises
#
# Four exercises on this lesson stand in `exercises/01_derivative.py`. Each has a check.
