# %% [markdown]
# # One derivative, three ways
#
# What is the slope of tanh at x = 0.5? We ask three times: by finite differences, which need only the function; by the
# tape, which tinytensor writes while it computes; and by SymPy, which knows the formula. The numbers agree, and where
# they do not agree to the last digit the reason is worth knowing.

# %%
import sympy

import tinytensor as tt

x0 = 0.5

# %% [markdown]
# ## Finite differences
#
# The slope is almost (f(x + h) - f(x - h)) / 2h. A large h bends the curve, a small one loses digits: near h = 1e-5 the
# two errors balance, and about eleven digits are right in float64.

# %%
x = tt.tensor(x0, dtype=tt.float64)


def difference(h: float) -> float:
    return ((x + h).tanh() - (x - h).tanh()).item() / (2 * h)


for h in (1e-1, 1e-3, 1e-5, 1e-9, 1e-13):
    print(f"h = {h:.0e}   slope = {difference(h):.12f}")

# %% [markdown]
# ## The tape
#
# `requires_grad_()` says that we want to know how the result depends on x. Computing y puts one entry on a tape: "tanh,
# of x". `backward()` walks the tape from its end and multiplies: the rule of tanh is g * (1 - y * y), where g is the
# gradient that arrives, here 1.

# %%
x = tt.tensor(x0, dtype=tt.float64).requires_grad_()
y = x.tanh()
print("on the tape:", y.grad_fn)
y.backward()
print(f"tape:    {x.grad.item():.15f}")

# %% [markdown]
# ## SymPy
#
# The same as a formula, evaluated to as many digits as we like.

# %%
t = sympy.Symbol("x")
formula = sympy.diff(sympy.tanh(t), t)
exact = formula.subs(t, sympy.Rational(1, 2)).evalf(30)
print("formula:", formula)
print("SymPy:  ", exact)

assert abs(x.grad.item() - float(exact)) < 1e-15
assert abs(difference(1e-5) - float(exact)) < 1e-10

# %% [markdown]
# ## The second derivative
#
# The gradient rules are written with tensors, so they can be put on the tape themselves: `create_graph=True`.

# %%
x = tt.tensor(x0, dtype=tt.float64).requires_grad_()
(slope,) = tt.autograd.grad(x.tanh(), x, create_graph=True)
(curvature,) = tt.autograd.grad(slope, x)
expected = float(sympy.diff(sympy.tanh(t), t, 2).subs(t, sympy.Rational(1, 2)))
print(f"second derivative: tape {curvature.item():.15f}, SymPy {expected:.15f}")
assert abs(curvature.item() - expected) < 1e-14

# %% [markdown]
# `gradcheck` does the first comparison for any function and every entry of its Jacobian, and says where it fails.

# %%
print("gradcheck:", tt.gradcheck(lambda x: x.tanh(), (x,)))
