# %% [markdown]
# # Downhill
#
# A loss says how bad the parameters are; its gradient says in which direction they get worse fastest. So what do we do?
# Eq. (18) of document 003: go the other way, X -> X - ρ ∂L/∂X, a step at a time. This is all the learning there is. The
# question is how long a step should be.

# %%
from pathlib import Path

import numpy as np

import tinytensor as tt
from tinytensor.symbolic import prove
from tinytensor.viz import plots

FIGURES = Path("runs/lessons")

# %% [markdown]
# ## A line through points
#
# We have twenty points near y = 2x - 1, and two parameters, a and b. The loss is the mean of the squared errors.

# %%
tt.manual_seed(0)
x = tt.rand(20) * 2
y = 2 * x - 1 + 0.1 * tt.randn(20)


def loss(a, b, x, y):
    return ((a * x + b - y) ** 2).mean()


print(prove(loss, (), (), (3,), (3,)))  # for any three points
a, b = tt.tensor(-0.5, requires_grad=True), tt.tensor(2.5, requires_grad=True)
rho, path = 0.3, []
for _ in range(60):
    path.append((a.item(), b.item()))
    a.grad = b.grad = None  # else backward() ADDS to the old gradient: the mistake that everybody makes once
    loss(a, b, x, y).backward()
    with tt.no_grad():  # a step is not part of the function that we differentiate
        a -= rho * a.grad  # (18)
        b -= rho * b.grad
print(f"a = {a.item():.2f}, b = {b.item():.2f}, loss {loss(a, b, x, y).item():.4f}")
assert abs(a.item() - 2) < 0.2 and abs(b.item() + 1) < 0.2

# %% [markdown]
# ## The ravine
#
# In the picture on the left the path does not go straight to the lowest point: the gradient is perpendicular to the
# contours, and these are long. A simpler function shows this alone: f = (u² + 30 v²) / 2, gentle in u, steep in v. With
# rate ρ each step multiplies u by 1 - ρ and v by 1 - 30 ρ. What is the largest rate that works? |1 - 30 ρ| < 1 needs ρ
# < 2/30, and then u can only creep: the steepest direction sets the rate, and the flattest one waits. **Momentum**
# keeps a velocity: steps across the ravine cancel, steps along it add up. **Adam** divides each parameter's step by the
# typical size of its gradient: steep and flat directions are treated alike, and no step is much longer than the rate.


# %%
def f(u, v):
    return (u**2 + 30 * v**2) / 2


def descend(make, steps=60):
    point = tt.tensor([-4.0, 1.0], requires_grad=True)
    optimizer, path = make([point]), []
    for _ in range(steps):
        path.append(point.tolist())
        optimizer.zero_grad()
        f(*point).backward()
        optimizer.step()
    return np.array(path)


paths = {
    "eq. (18), ρ = 0.06": descend(lambda p: tt.optim.SGD(p, lr=0.06)),
    "momentum": descend(lambda p: tt.optim.SGD(p, lr=0.02, momentum=0.8)),
    "Adam": descend(lambda p: tt.optim.Adam(p, lr=0.4)),
}
print({name: f"f = {f(*way[20]):.4f} after 20 steps" for name, way in paths.items()})
assert f(*descend(lambda p: tt.optim.SGD(p, lr=0.067))[-1]) > f(-4.0, 1.0) / 2  # 2/30 is 0.0667: v no longer shrinks

# %%
figure, [[left, right]] = plots.panels(1, 2, size=(10, 4))
A, B = np.meshgrid(np.linspace(-1, 4, 80), np.linspace(-3, 3, 80))
errors = A[..., None] * x.numpy() + B[..., None] - y.numpy()
left.contour(A, B, np.log((errors**2).mean(-1)), levels=12, cmap=plots.SEQUENTIAL, linewidths=0.8)
left.plot(*zip(*path), ".-", color=plots.COLOURS[1])
left.set(xlabel="a", ylabel="b", title="a line is fitted: the path on the loss")
U, V = np.meshgrid(np.linspace(-4.5, 1.5, 80), np.linspace(-1.2, 1.2, 80))
right.contour(U, V, np.log(f(U, V) + 0.01), levels=10, cmap="Greys", linewidths=0.8)
for name, way in paths.items():
    plots.lines(right, way[:, 0], {name: way[:, 1]}, marker=".", markersize=4, linewidth=1)
right.set(xlabel="u", ylabel="v", title="a ravine, steep in v")
plots.show(figure, FIGURES / "04_gradient_descent.png")

# %% [markdown]
# ## Exercise
#
# Write a step with momentum: the velocity v becomes β v + g, and then X moves along v, where (18) moves it along g.


# %%
def answer(X, v, g, rho, beta):
    """The new X and the new v; g is the gradient at X."""
    ...


# %%
def check(answer) -> str:
    X, v, g = 1.0, 0.0, 1.0
    if answer(X, v, g, 0.1, 0.9) is None:
        return "not solved yet. Hint: first the new velocity, then X with it; return both."
    for expected in (0.9, 0.71, 0.439):  # the gradient stays 1: the steps get longer
        X, v = answer(X, v, g, 0.1, 0.9)
        if abs(X - expected) > 1e-9:
            return f"wrong: with g = 1 all the time, X should be {expected} now, and yours is {X:.4f}."
    return "right"


print("exercise:", check(answer))
