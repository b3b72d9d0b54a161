# %% [markdown]
# # A network learns a boundary
#
# No straight line separates two moons of points. The feed-forward network of document 000 (see `documents.md`) can:
#
# $$ \text{FFNN}(X) = \max(0, X W_1 + b_1) \, W_2 + b_2 $$
#
# Without max(0, .) the boundary would be a straight line, since $X W_1 W_2$ is X times one matrix. With it each unit is
# a fold: flat on one side, a slope on the other. $W_2$ adds folds, up or down. Here are three, and their sum.

# %%
import math
import os
from pathlib import Path

import numpy as np

import tinytensor as tt
import tinytensor.nn.functional as F
from tinytensor import nn
from tinytensor.symbolic import prove
from tinytensor.viz import plots

FIGURES = Path("runs/lessons")
tt.manual_seed(3)
x = tt.linspace(-1, 1, 201)
folds = {f"{a} max(0, x {b:+})": a * (x + b).relu() for a, b in ((1, 0.8), (-3, 0.1), (4, -0.4))}
figure, [[panel]] = plots.panels(size=(6.4, 3.2))
panel.plot(x, sum(folds.values()), color="black", linestyle="-", linewidth=3, label="their sum")
plots.lines(panel, x, folds)
panel.set(xlabel="x", ylabel="height", title="three folds make a hill and a valley")
plots.show(figure, FIGURES / "07_two_moons_folds.png", alt="Three lines with one bend each; their sum has three bends.")

# %% [markdown]
# In one dimension a fold bends at a point. In two dimensions it bends along a line, as paper does. Enough folds make
# any landscape, and the boundary is its shore: the points of height 0.

# %%
turn = tt.rand(200) * math.pi
upper = tt.stack([turn.cos(), turn.sin()], dim=1)
lower = tt.stack([1 - turn.cos(), 0.5 - turn.sin()], dim=1)
X = tt.cat([upper, lower]) + 0.1 * tt.randn(400, 2)  # (400, 2)
y = tt.cat([tt.zeros(200), tt.ones(200)])  # which moon, (400,)
model = nn.Sequential(nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, 1))
optimizer = tt.optim.Adam(model.parameters(), lr=0.02)
print(prove(nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 1)), (1, 2)))

# %% [markdown]
# The proof is of a smaller network. Its condition says on which side of each fold the input is, + or -: at the fold
# itself there is no derivative, and a program has to choose a number. (tinytensor takes 0 there, as PyTorch does.)
#
# ## Learning
#
# The output is one logit for each point. Its sigmoid is the probability of moon 1; the loss is the cross-entropy of
# lesson 6, for two classes. For the picture we keep, at a few steps, the predictions for a whole grid of points.
# Predict: which loss does the fresh network have, about?

# %%
last = 400 if not os.environ.get("NUMBA_DISABLE_JIT") else 2  # steps: few if the kernels run as slow, plain Python
grid = np.stack(np.meshgrid(np.linspace(-1.5, 2.5, 80), np.linspace(-1.2, 1.7, 60)), axis=-1).astype(np.float32)
shown, landscapes, losses = (0, 3 * last // 40, last // 4, last), [], []


def step(model, optimizer):
    optimizer.zero_grad()
    loss = F.binary_cross_entropy_with_logits(model(X).squeeze(1), y)
    loss.backward()
    optimizer.step()
    return loss.item()


for i in range(last + 1):
    if i in shown:
        landscapes.append(model(tt.tensor(grid).reshape(-1, 2)).reshape(60, 80).sigmoid().detach())
    losses.append(step(model, optimizer))
right = ((model(X).squeeze(1) > 0) == (y == 1)).to(tt.float32).mean().item()
print(f"loss {losses[0]:.3f} at first, {losses[-1]:.3f} at the end; {right:.1%} of the points on the right side")
assert right > 0.97 or last < 400
figure, panels = plots.panels(2, 2, size=(6.4, 5))
for panel, i, q in zip(panels.flat, shown, landscapes):
    colours = panel.contourf(grid[..., 0], grid[..., 1], q, np.linspace(0, 1, 11), cmap=plots.SIGNED, alpha=0.7)
    panel.contour(grid[..., 0], grid[..., 1], q, levels=[0.5], colors="black", linewidths=2)
    panel.plot(*X[:200].T.numpy(), "ok", *X[200:].T.numpy(), "xk", markersize=2.5, alpha=0.5)
    panel.set(title=f"step {i}, loss {losses[i]:.3f}", xticks=[], yticks=[])
figure.colorbar(colours, ax=panels, label="predicted probability of moon 1 (crosses)")
plots.show(figure, FIGURES / "07_two_moons.png", alt="The line of probability 1/2 bends, and runs between the moons.")

# %% [markdown]
# A fresh network prefers no class, so its loss is near log 2 = 0.693 (lesson 6). Then the shore bends.
#
# ## Networks that cannot learn
#
# If all weights begin with 0, the units of a layer stay alike: all get the same gradient, and here it is even 0. If all
# points lie on the flat side of a unit's fold, its output is 0, so is its slope, and no gradient reaches its weights:
# the unit is dead. So weights begin with random numbers. Of which size? A unit adds n products, and ReLU lets half
# through: with a variance of 2 / n numbers keep their size from layer to layer, and gradients on their way back (He et
# al., 2015). Predict for eleven layers: weights half as large, or twice; and sigmoids, whose slopes are at most 1/4.

# %%
ways = {"all 0": (nn.ReLU, 0.0, 0.0), "dead": (nn.ReLU, 1.0, -10.0), "half as large": (nn.ReLU, 0.5, 0.0)}
ways |= {"2 / n": (nn.ReLU, 1.0, 0.0), "twice as large": (nn.ReLU, 2.0, 0.0), "sigmoid": (nn.Sigmoid, 1.0, 0.0)}
for name, (activation, gain, bias) in ways.items():
    linear = [nn.Linear(n, m) for n, m in zip([2] + 10 * [32], 10 * [32] + [1])]
    for layer in linear:
        nn.init.normal_(layer.weight, std=gain * math.sqrt(2 / layer.in_features))
        nn.init.constant_(layer.bias, bias)
    deep = nn.Sequential(*[each for layer in linear for each in (layer, activation())][:-1])
    optimizer = tt.optim.SGD(deep.parameters(), lr=0.05)
    first, slopes = step(deep, optimizer), [layer.weight.grad.norm().item() for layer in linear[::5]]
    end = [step(deep, optimizer) for _ in range(last // 2)][-1]
    print(f"{name}: loss {first:.2f} -> {end:.2f}; gradients of W_1, W_6, W_11:", *(f"{each:.0e}" for each in slopes))
    assert (slopes[0] == 0) == (name in ("all 0", "dead"))

# %% [markdown]
# Too small, and nothing reaches the loss, which stays at log 2; too large, and the first steps leap, mostly to NaN. A
# small gradient of an early layer does not say that the layer is good: it learns nothing. Lesson 11 has more remedies.
#
# ## Exercises
#
# Four exercises on this lesson stand in `exercises/07_two_moons.py`. Each has a check.
