# %% [markdown]
# # Second derivatives: how far to step
#
# The gradient says which way is down. How far should we go? Equation (18) of document 003, X → X − ρ ∂L/∂X, leaves that
# to us. But how the slope changes on the way, the Hessian H = ∂²L/∂X∂X, says how far to trust it, and Newton's step
# divides by it: X → X − H⁻¹ ∂L/∂X. Can we afford it? For a million parameters H has 10¹² numbers.

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
# H v is the gradient of one number, the slope along v (Pearlmutter, 1994): H v = ∂⟨∂L/∂X, v⟩/∂X. That is a second walk
# along the tape, and never n² numbers. The first walk must itself be on the tape: `create_graph=True`. Without it the
# gradient is plain numbers, which cannot be differentiated.


# %%
def slope(x, f=valley):
    return tt.autograd.grad(f(x), x, create_graph=True)[0]


def product(x, v, f=valley):
    x = x.detach().requires_grad_()
    return tt.autograd.grad((slope(x, f) * v).sum(), x)[0]


print(prove(slope, (2,)))  # the tape's derivative of the slope is SymPy's

x = tt.tensor([-1.2, 1.0], dtype=tt.float64)
H = tt.stack([product(x, v) for v in tt.eye(2, dtype=tt.float64)])
print("H, a product for each row:", H.tolist())
big = tt.randn(1_000_000)
print("H v where H has 10^12 numbers:", product(big, big, lambda x: x.sin().square().sum()).shape)

# %% [markdown]
# ## Newton's step without a Hessian
#
# H⁻¹ g is the d with H d = g. Conjugate gradients find it from products alone: n of them for n unknowns, apart from
# rounding (Hestenes and Stiefel, 1952). Here n = 2, and the step equals Newton's own up to rounding.


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
    x = tt.tensor([-1.2, 1.0], dtype=tt.float64)
    path = [x]
    for _ in range(steps):
        path.append(x := (x - step(x, slope(x.requires_grad_()).detach())).detach())
    return tt.stack(path).detach()


paths = {"eq. (18), ρ = 0.001": descend(lambda x, g: 0.001 * g, 1000), "Newton": descend(newton, 7)}

figure, [[left, right]] = plots.panels(1, 2, size=(9, 3.8))
a, b = np.meshgrid(np.linspace(-1.6, 1.6, 200), np.linspace(-3.6, 2, 200))
left.contour(
    a, b, valley(tt.tensor(np.stack([a, b], -1))).numpy(), np.geomspace(0.1, 3000, 12), colors="#cccccc", linewidths=0.8
)
for name, path in paths.items():
    print(f"{name:<20} after {len(path) - 1:>4} steps at {path[-1].tolist()}")
    left.plot(*path.numpy().T, marker=".", label=name)
    right.semilogy(valley(path).numpy() + 1e-17, marker=".", label=name)
left.set(xlabel="a", ylabel="b", title="the ways down")
right.set(xlabel="step", xscale="symlog", title="height above the lowest point")
right.legend(frameon=False)
plots.show(figure, FIGURES / "16_second_derivatives.png")

# %% [markdown]
# Newton's second step ends high up: the method looks for a place where the slope is 0, which may be a hilltop as well.
#
# ## Exercise
#
# f(x) = x⁴ − 2x² has a hilltop at 0, and is lowest at −1 and 1. From 0.3 Newton's step −g/h climbs the hill, since h is
# negative there. Write a step that always goes down, and equals Newton's where h is positive.


# %%
def answer(g: float, h: float) -> float:
    """The step that is added to x, where the slope is g and the second derivative h."""
    ...


def check(answer) -> str:
    if answer(1.0, 2.0) is None:
        return "not solved yet. Hint: Newton's step has the length |g/h|; the sign of g says which way is down."
    for x in (0.3, -0.2, 0.5, 1.7):
        for _ in range(12):
            x += answer(4 * x**3 - 4 * x, 12 * x**2 - 4)
        if not abs(abs(x) - 1) < 1e-6:
            return f"wrong: after 12 steps x is {x:.6f}, not at -1 or 1."
    return "right" if answer(1.0, 4.0) == -0.25 else "wrong: where h is positive it is not Newton's step."


print("exercise:", check(answer))
