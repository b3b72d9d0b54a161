# %% [markdown]
# # A derivative, four ways
#
# How much does tanh change when x = 0.5 changes a little? All training rests on such numbers: eq. (17) of document 003
# is a list of them, for one loss and each of thousands of parameters. (`examples/documents.md` lists the documents 000
# to 004.) Here is a single one, found by hand, by finite differences, on the tape, and by SymPy. Do the four agree, and
# to how many digits?

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
# tanh x = sinh x / cosh x. The quotient rule gives (cosh² x - sinh² x) / cosh² x, which is 1 - tanh² x. Once y = tanh x
# is computed, its slope needs no second exponential.

# %%
by_hand = 1 - math.tanh(x0) ** 2

# %% [markdown]
# ## Finite differences
#
# The definition of a derivative is a limit: (f(x + h) - f(x - h)) / 2h as h goes to 0. So is a smaller h always better?
# It is tempting to think so. But with a large h the curve bends between the two points: the error is proportional to
# h². With a small h we subtract two numbers that agree in almost all of their sixteen digits; the rest is rounding
# error, divided by h. Near h = 1e-5 the two balance, and about eleven digits are right.


# %%
def difference(h: float) -> float:
    return (math.tanh(x0 + h) - math.tanh(x0 - h)) / (2 * h)


# %% [markdown]
# ## The tape
#
# `requires_grad=True` says that we want derivatives with respect to x. Computing y writes a node: "tanh, of x".
# `backward()` starts there with dy/dy = 1, and multiplies by 1 - y². There is no h, and no formula that grows: only the
# derivative of each operation, at the numbers that were computed.

# %%
x = tt.tensor(x0, dtype=tt.float64, requires_grad=True)
y = x.tanh()
y.backward()
print("on the tape:", y.grad_fn)

# %% [markdown]
# ## SymPy
#
# Here the function is an expression, and so is its derivative: it holds at every x, to as many digits as we like.

# %%
t = sympy.Symbol("x")
formula = sympy.diff(sympy.tanh(t), t)
exact = float(formula.subs(t, sympy.Rational(1, 2)).evalf(30))

for name, slope in {"by hand": by_hand, "differences": difference(1e-5), "tape": x.grad.item(), "SymPy": exact}.items():
    print(f"{name:<12} {slope:.16f}   off by {abs(slope - exact):.0e}")
assert abs(x.grad.item() - exact) < 1e-15 and abs(difference(1e-5) - exact) < 1e-10

# %% [markdown]
# One point proves nothing about the others. `prove` runs the tape over symbols, and compares with SymPy's derivative:

# %%
print(prove(tt.tanh, (1,)))

# %% [markdown]
# ## The picture
#
# On the left the dashed line has the slope that we found. On the right is the error of finite differences: for an h ten
# times smaller it is a hundred times smaller, until rounding takes over. This is why `tt.gradcheck`, which tests
# gradients with differences, wants float64 and allows for an error, and why a proof is worth having.

# %%
figure, [[left, right]] = plots.panels(1, 2, size=(9, 3.6))
xs = np.linspace(-2, 3, 200)
plots.lines(left, xs, {"tanh x": np.tanh(xs), "slope at 0.5": math.tanh(x0) + exact * (xs - x0)})
left.set(xlabel="x", ylim=(-1.5, 2))
hs = np.logspace(-15, 0, 61)
errors = {"finite differences": [abs(difference(h) - exact) for h in hs], "spacing of float64": 0 * hs + 1.1e-16}
plots.lines(right, hs, errors)
right.set(xlabel="h", ylabel="error of the slope", xscale="log", yscale="log")
plots.show(figure, FIGURES / "01_derivative.png")

# %% [markdown]
# ## Exercise
#
# The sigmoid is s(x) = 1 / (1 + e^-x). Its slope, too, follows from its value alone. Find the formula.


# %%
def answer(x: float) -> float:
    """The slope of the sigmoid at x."""
    ...


# %%
def check(answer) -> str:
    if answer(0.0) is None:
        return "not solved yet. Hint: differentiate 1/u with u = 1 + e^-x, and look for s in the result."
    for x in (0.0, 2.0, -1.0):
        right = (math.tanh((x + 1e-5) / 2) - math.tanh((x - 1e-5) / 2)) / 4e-5  # s(x) = (1 + tanh(x/2)) / 2
        if abs(answer(x) - right) > 1e-8:
            return f"wrong: finite differences find the slope {right:.6f} at x = {x}, and you find {answer(x):.6f}."
    return "right"


print("exercise:", check(answer))
