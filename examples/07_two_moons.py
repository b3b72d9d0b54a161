# %% [markdown]
# # A network learns a boundary
#
# No straight line separates two moons of points. The feed-forward network of document 000 can:
#
#     FFNN(X) = max(0, X W_1 + b_1) W_2 + b_2
#
# With W_2 alone the boundary would be a straight line. It would be one, too, with W_1 and W_2 and nothing in between,
# since X W_1 W_2 is X times one matrix. What does max(0, .) change? Each of its outputs is a fold: flat on one side of
# a line, a slope on the other. Enough folds make any landscape, and the boundary is its shore.

# %%
import math
from pathlib import Path

import numpy as np

import tinytensor as tt
import tinytensor.nn.functional as F
from tinytensor import nn
from tinytensor.symbolic import prove
from tinytensor.viz import plots

FIGURES = Path("runs/lessons")
tt.manual_seed(3)

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
# The proof is of a smaller network, and it names its conditions: at a fold there is no derivative, and a program has to
# choose a number. (tinytensor takes 0 there, as PyTorch does.)
#
# ## Learning
#
# The output is one logit for each point. Its sigmoid is the probability of moon 1; the loss is the cross-entropy of
# lesson 6, for two classes. For the picture we keep, at a few steps, the predictions for a whole grid of points.

# %%
grid = np.stack(np.meshgrid(np.linspace(-1.5, 2.5, 80), np.linspace(-1.2, 1.7, 60)), axis=-1).astype(np.float32)
shown, landscapes, losses = (0, 30, 100, 400), [], []


@tt.compile  # recorded once, then replayed: see lesson 18
def step():
    optimizer.zero_grad()
    loss = F.binary_cross_entropy_with_logits(model(X).squeeze(1), y)
    loss.backward()
    optimizer.step()
    return loss


for i in range(401):
    if i in shown:
        with tt.no_grad():  # nothing is differentiated here
            landscapes.append(model(tt.tensor(grid).reshape(-1, 2)).reshape(60, 80).numpy())
    losses.append(step().item())
with tt.no_grad():
    right = ((model(X).squeeze(1) > 0) == (y == 1)).to(tt.float32).mean().item()
print(f"loss {losses[0]:.3f} at first, {losses[-1]:.3f} at the end; {right:.1%} of the points on the right side")
assert right > 0.97

# %% [markdown]
# ## A network that cannot learn
#
# What if all weights begin with 0? It is tempting to think that training will move them away from there. But all 32
# hidden units compute the same, so they get the same gradient; here it is even 0. Random initial values are no
# nuisance; they make the units different.

# %%
still = nn.Sequential(nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, 1))
with tt.no_grad():
    for parameter in still.parameters():
        parameter.zero_()
F.binary_cross_entropy_with_logits(still(X).squeeze(1), y).backward()
print("from zeros, the largest gradient of W_1:", still[0].weight.grad.abs().max().item())
assert still[0].weight.grad.abs().max().item() == 0 and still[2].weight.grad.abs().max().item() == 0

# %%
figure, panels = plots.panels(2, 2, size=(8, 6))
for panel, i, landscape in zip(panels.flat, shown, landscapes):
    panel.contourf(grid[..., 0], grid[..., 1], np.tanh(landscape / 2), levels=np.linspace(-1, 1, 9), cmap=plots.SIGNED)
    panel.contour(grid[..., 0], grid[..., 1], landscape, levels=[0], colors="black", linewidths=2)
    for part, marker in ((slice(0, 200), "o"), (slice(200, 400), "x")):
        panel.plot(*X[part].T.numpy(), marker, color="black", markersize=2.5, alpha=0.5)
    panel.set(title=f"step {i}, loss {losses[i]:.3f}", xticks=[], yticks=[])
plots.show(figure, FIGURES / "07_two_moons.png")

# %% [markdown]
# ## Exercise
#
# Which share of the points is on the right side? Compute it from the logits and the moons.


# %%
def answer(logits: tt.Tensor, y: tt.Tensor) -> float:
    """The share of points, from 0 to 1, for which the more likely moon is the right one."""
    ...


# %%
def check(answer) -> str:
    logits, moons = tt.tensor([-3, 0.2, 0.4, 4, -0.1, 2]), tt.tensor([0, 1, 1, 0, 1, 0])
    share = answer(logits, moons)
    if share is None:
        return "not solved yet. Hint: which logit has the probability 1/2?"
    if abs(share - 0.5) > 1e-6:
        return f"wrong: three of the six logits in the check are on the right side, 0.5, and you find {share:.3f}."
    return "right"


print("exercise:", check(answer))
