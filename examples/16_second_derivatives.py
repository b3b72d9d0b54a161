# %% [markdown]
# # Second derivatives: how far to step
#
# The gradient says which way is down. How far should we go? A training step is X → X − ρ ∂𝓛/∂X: eq. (18) of document
# 003 (`documents.md` lists the documents), and ρ is left to us. How fast the slope changes says how far it can be
# trusted. This is the Hessian, and Newton's step divides by it. Can we? For a million parameters it has 10¹² numbers.
#
# $$ H = \frac{\partial^2 \mathcal{L}}{\partial X \, \partial X}, \qquad
# X \to X - H^{-1} \frac{\partial \mathcal{L}}{\partial X} $$

# %%
from pathlib import Path

import numpy as np

import tinytensor as tt
from tinytensor.symbolic import prove
from tinytensor.viz import plots

FIGURES = Path("runs/lessons")


def valley(x):
    """Rosenbrock's valley, (1 - a)^2 + 100 (b - a^2)^2: its floor is bent, and its lowest point is (1, 1)."""
    return (1 - x[..., 0]) ** 2 + 100 * (x[..., 1] - x[..., 0] ** 2) ** 2


# %% [markdown]
# ## The product with a vector is enough
#
# The slope along a vector v is one number, and its gradient is H v (Pearlmutter, 1994):
#
# $$ H v = \frac{\partial}{\partial X} \left\langle \frac{\partial \mathcal{L}}{\partial X}, v \right\rangle $$
#
# That is a second walk along the tape. It costs about as much as the first one, and never makes n² numbers. For it the
# first walk must itself be on the tape: `create_graph=True`. Without it the gradient is plain numbers, without a tape.
# The slope of 2 x has none either: it is 2, whatever x is. Nothing leads from it to x: `grad` stops with an error, and
# H is 0. Predict: the first entry of H is ∂²/∂a² of the valley, 2 − 400 b + 1200 a². What is it at (−1.2, 1)?


# %%
def slope(x, f=valley):
    return tt.autograd.grad(f(x), x, create_graph=True)[0]


def product(x, v, f=valley):
    x = x.detach().requires_grad_()
    return tt.autograd.grad((slope(x, f) * v).sum(), x)[0]


print(prove(slope, (2,)))  # the gradient of the slope on the tape is SymPy's second derivative
x = tt.tensor([-1.2, 1.0], dtype=tt.float64)
for v in tt.eye(2, dtype=tt.float64):
    print("a row of H, from one product:", product(x, v).tolist())
big = tt.randn(1_000_000)
print("H v where H has 10^12 numbers:", product(big, big, lambda x: x.sin().square().sum()).shape)
try:
    product(x, x, lambda x: (2 * x).sum())
except RuntimeError as error:
    print(error)

# %% [markdown]
# ## Newton's step without a Hessian
#
# H⁻¹ g is the vector d with H d = g. The method of conjugate gradients finds it from products alone (Hestenes and
# Stiefel, 1952). Each round goes along one way, as far as the product says, and no later way spoils what was gained.
# Without rounding errors n rounds are enough for n unknowns; here n = 2. Predict: (18) with ρ = 0.001 needs more than
# ten thousand steps to come within 0.01 of (1, 1). How many does Newton?


# %%
def newton(x, g):
    """d with H d = g: each product says how far to go along one way, and the next way is independent of it."""
    d, rest, way = tt.zeros_like(g), g, g
    for _ in g:
        bent = product(x, way)
        far = (rest @ rest) / (way @ bent)
        d, new = d + far * way, rest - far * bent
        rest, way = new, new + (new @ new) / (rest @ rest) * way
    return d


def descend(step, steps):
    path = [tt.tensor([-1.2, 1.0], dtype=tt.float64)]
    for _ in range(steps):
        x = path[-1].requires_grad_()
        path.append((x - step(x, slope(x).detach())).detach())
    return tt.stack(path).detach()


paths = {"eq. (18), ρ = 0.001": descend(lambda x, g: 0.001 * g, 1000), "Newton": descend(newton, 6)}
for name, path in paths.items():
    print(f"{name:<20} after {len(path) - 1:>4} steps at {path[-1].tolist()}")

figure, [[panel]] = plots.panels()
for name, path in paths.items():
    panel.loglog(range(1, len(path)), valley(path[1:]).numpy(), marker=".", label=name)
panel.set(xlabel="step", ylabel="height above the lowest point", title="six steps of Newton, a thousand of (18)")
panel.legend(frameon=False)
plots.show(figure, FIGURES / "16_second_derivatives_height.png", alt="Newton rises once, and is down in six steps.")

# %% [markdown]
# Newton's second step ends high up. The method looks for a place where the slope is 0: it trusts the curvature where it
# stands, and the valley bends. And a place where the slope is 0 may be a hilltop as well: exercise 4 mends this.

# %%
figure, [[panel]] = plots.panels(size=(6.4, 5))
a, b = np.meshgrid(np.linspace(-1.6, 1.6, 200), np.linspace(-3.6, 2, 200))
heights = valley(tt.tensor(np.stack([a, b], -1))).numpy()
panel.contour(a, b, heights, np.geomspace(0.1, 3000, 12), colors="#cccccc", linewidths=0.8, linestyles="-")
for name, path in paths.items():
    panel.plot(*path.numpy().T, marker=".", label=name)
panel.set(xlabel="a", ylabel="b", title="two ways down the valley, from (−1.2, 1) to (1, 1)")
panel.legend(frameon=False, loc="lower left")
plots.show(figure, FIGURES / "16_second_derivatives.png", alt="Newton leaves the floor of the valley once, far below.")

# %% [markdown]
# ## Exercises
#
# Four exercises on this lesson stand in `exercises/16_second_derivatives.py`. Each has a check.
