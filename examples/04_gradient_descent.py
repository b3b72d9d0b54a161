# %% [markdown]
# # Downhill
#
# A loss says how bad the parameters are; its gradient says in which direction they get worse fastest. So we go the
# other way, a step at a time: X → X - ρ ∂𝓛/∂X, eq. (18) of document 003 (`examples/documents.md` lists the documents).
# This is all the learning there is. The question is how long a step should be: ρ is called the learning rate.

# %%
from pathlib import Path

import numpy as np

import tinytensor as tt
from tinytensor.symbolic import prove
from tinytensor.viz import plots

FIGURES = Path("runs/lessons")
tt.manual_seed(0)
x = tt.rand(20) * 2
y = 2 * x - 1 + 0.1 * tt.randn(20)  # twenty points near a line


def loss(a, b, x, y):
    return ((a * x + b - y) ** 2).mean()


def fit(rho, forget=False):
    """a, b and the loss at each of 60 steps; with `forget` no gradient is ever set to None."""
    a, b, path = tt.tensor(-0.5, requires_grad=True), tt.tensor(2.5, requires_grad=True), []
    for _ in range(60):
        if not forget:
            a.grad = b.grad = None  # else backward() ADDS to the old gradient: lesson 3
        error = loss(a, b, x, y)
        error.backward()
        path.append((a.item(), b.item(), error.item()))
        with tt.no_grad():  # a step is not part of the function that we differentiate
            a -= rho * a.grad  # (18)
            b -= rho * b.grad
    return np.array(path)


# %% [markdown]
# We fit a line a x + b to the points. The loss is the mean of the squared errors. Why `no_grad`? With the tape on,
# `a -= ...` raises an error: the result of a formula is no leaf any more, and its gradient would be lost. `a = a - ...`
# makes a new tensor, which is no leaf either: in the next round its `.grad` is None. So `no_grad` keeps all that is
# computed in it off the tape. `a.detach()` is one tensor off the tape: the same number, as a constant, while a itself
# stays where it was. Predict: what is the slope of a · a.detach() at a = 3? And what does the loss do at ρ = 0.01, at
# 0.44, and at 0.3 if no gradient is ever set to None?

# %%
a = tt.tensor(3.0, requires_grad=True)
(a * a.detach()).backward()
print(f"the slope of a · a.detach() is {a.grad.item()}, and not 2 a: one of its factors is a constant")
print(prove(loss, (), (), (3,), (3,)))  # for any three points
paths = {"ρ = 0.01": fit(0.01), "ρ = 0.3": fit(0.3), "ρ = 0.44": fit(0.44), "0.3, no zero_grad": fit(0.3, forget=True)}
path = paths["ρ = 0.3"]
print("a = {:.2f}, b = {:.2f}, loss {:.4f}".format(*path[-1]))
assert abs(path[-1][0] - 2) < 0.2 and abs(path[-1][1] + 1) < 0.2
figure, [[left, right]] = plots.panels(1, 2, size=(9, 3.6))
A, B = np.meshgrid(np.linspace(-1, 4, 80), np.linspace(-3, 3, 80))
errors = A[..., None] * x.numpy() + B[..., None] - y.numpy()
left.contour(A, B, np.log((errors**2).mean(-1)), levels=12, cmap=plots.SEQUENTIAL, linewidths=0.8)
left.plot(path[:, 0], path[:, 1], ".-", color=plots.COLOURS[1])
left.set(xlabel="a", ylabel="b", title="ρ = 0.3: each line joins points of one loss")
plots.lines(right, range(60), {name: path[:, 2] for name, path in paths.items()})
right.set(xlabel="step", ylabel="loss", yscale="log", title="four ways to go")
alt = "Long ellipses; the path turns into their long axis. 0.01 falls slowly, 0.3 fast, 0.44 grows; one swings."
plots.show(figure, FIGURES / "04_gradient_descent_line.png", alt=alt)

# %% [markdown]
# Too large a rate steps over the lowest point, lands higher on the other side, and so on: a loss that grows, or becomes
# NaN, asks for a smaller rate. With forgotten gradients a step is the sum of all so far: the path swings for ever.
#
# ## The ravine
#
# On the left the path does not go straight to the lowest point: the gradient is perpendicular to the contours, and
# these are long. A simpler function shows this alone: f = (u² + 30 v²) / 2, gentle in u, steep in v. Each step
# multiplies u by 1 - ρ and v by 1 - 30 ρ. Predict the largest rate that works. |1 - 30 ρ| < 1 needs ρ < 2/30, and then
# u can only creep: the steepest direction sets the rate, and the flattest one waits. **Momentum** keeps a velocity:
# steps across the ravine cancel, steps along it add up. **Adam** keeps one too, and divides each parameter's step by
# the typical size of its gradient: steep and flat directions are treated alike.


# %%
def f(u, v):
    return (u**2 + 30 * v**2) / 2


def descend(optimizer, **options):
    point, path = tt.tensor([-4.0, 1.0], requires_grad=True), []
    optimizer = optimizer([point], **options)
    for _ in range(60):
        path.append(point.tolist())
        optimizer.zero_grad()
        f(*point).backward()
        optimizer.step()
    return np.array(path)


plain, momentum = descend(tt.optim.SGD, lr=0.06), descend(tt.optim.SGD, lr=0.02, momentum=0.8)
paths = {"eq. (18), ρ = 0.06": plain, "momentum": momentum, "Adam": descend(tt.optim.Adam, lr=0.4)}
print({name: f"f = {f(*path[20]):.4f} after 20 steps" for name, path in paths.items()})
assert f(*descend(tt.optim.SGD, lr=0.067)[-1]) > f(-4.0, 1.0) / 2  # 2/30 is 0.0667: v no longer shrinks
figure, [[panel]] = plots.panels(size=(6.4, 3.4))
U, V = np.meshgrid(np.linspace(-4.5, 1.5, 80), np.linspace(-1.2, 1.2, 80))
panel.contour(U, V, np.log(f(U, V) + 0.01), levels=10, cmap="Greys", linewidths=0.8)
for name, path in paths.items():
    plots.lines(panel, path[:, 0], {name: path[:, 1]}, marker=".", markersize=4, linewidth=1)
panel.set(xlabel="u", ylabel="v", title="a ravine, steep in v")
plots.show(figure, FIGURES / "04_gradient_descent.png", alt="Plain descent zigzags, momentum swings in, Adam circles.")

# %% [markdown]
# Why is Adam no better than plain descent after 20 steps? Its step is about as long as its rate, 0.4, even where the
# gradient is small: it has run past the lowest point, and circles. But put 3,000 in place of 30: its path is the same.
#
# ## Exercises
#
# Four exercises on this lesson stand in `exercises/04_gradient_descent.py`. Each has a check.
