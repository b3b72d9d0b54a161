# %% [markdown]
# # Norms and depth
#
# Document 004 takes the norm of X + f(X), as Vaswani et al. (2017); document 002 adds f(norm(X)) to X (see
# `documents.md`). Does it matter? Lesson 11 showed that a deep model needs a sum and a norm. It left open why depth is
# hard at all, where the norm should stand, over which axis it goes, and what ε is for.

# %%
import math
import os
from pathlib import Path

import tinytensor as tt
import tinytensor.nn.functional as F
from tinytensor import nn
from tinytensor.viz import plots

FIGURES = Path("runs/lessons")
L, STEPS, N, D = (4, 1, 32, 8) if os.environ.get("NUMBA_DISABLE_JIT") else (24, 150, 256, 32)  # few in Python
tt.manual_seed(26)
turn, moon = tt.rand(N, 1) * math.pi, (tt.arange(N) % 2).float().unsqueeze(1)  # the two moons of lesson 7
points = tt.cat([moon + (1 - 2 * moon) * turn.cos(), moon / 2 + (1 - 2 * moon) * turn.sin()], 1) + 0.1 * tt.randn(N, 2)


def norm(X):
    return F.layer_norm(X, (D,))


def run(layer, g=2**0.5, last=lambda X: X):
    """Train L layers: the sizes of X, and of the gradients of W, by layer before training, and all losses."""
    tt.manual_seed(26)
    enter, leave = tt.randn(2, D).requires_grad_(), (tt.randn(D, 1) / math.sqrt(D)).requires_grad_()
    weights = [(g * tt.randn(D, D) / math.sqrt(D)).requires_grad_() for _ in range(L)]
    optimizer, losses = tt.optim.AdamW([enter, leave, *weights], lr=0.01), []
    for i in range(STEPS):
        X = [points @ enter]
        for W in weights:
            X.append(layer(X[-1], W))
        loss = F.binary_cross_entropy_with_logits(last(X[-1]) @ leave, moon)
        optimizer.zero_grad()
        loss.backward()
        if i == 0:
            sizes, gradients = ([x.square().mean().sqrt().item() for x in xs] for xs in (X, [W.grad for W in weights]))
        optimizer.step()
        losses.append(loss.item())
    return sizes, gradients, losses


# %% [markdown]
# ## How large must initial weights be?
#
# A layer max(0, X W) sums D products, so if the entries of W have the size g / √D, the mean square of X W is g² times
# that of X; max(0, .) takes away half of it. So each layer multiplies sizes by g / √2. Predict the size after 24 layers
# for g = 1, √2 and 2. What goes back is multiplied by the same weights, and by slopes: a sigmoid's is 1/4 at most.
# Predict the gradient of the first layer's weights then, beside that of the last one's.

# %%
relu, sigmoid, left_over = (lambda X, W: (X @ W).relu()), (lambda X, W: (X @ W).sigmoid()), []
runs = {"g = 1": run(relu, 1), "g = √2": run(relu), "g = 2": run(relu, 2), "sigmoid": run(sigmoid, 1)}
for name, (sizes, gradients, losses) in runs.items():
    shown = f"size {sizes[1]:.1f} -> {sizes[-1]:.1g}, gradients {gradients[0]:.0e} to {gradients[-1]:.0e}"
    print(f"{name:<8} {shown}, loss {losses[0]:.3g} -> {losses[-1]:.3f}")
figure, [[left, right]] = plots.panels(1, 2, size=(9, 3.6))
plots.lines(left, range(L + 1), {name: sizes for name, (sizes, _, _) in runs.items()})
plots.lines(right, range(1, L + 1), {name: gradients for name, (_, gradients, _) in runs.items()})
left.set(xlabel="layer", yscale="log", title="size of X before training")
right.set(xlabel="layer", yscale="log", title="size of the gradient of W")
plots.show(figure, FIGURES / "26_norms_depth.png", alt="Only with the root of 2 sizes stay. Sigmoid: gradients vanish.")

# %% [markdown]
# Is a small gradient not good, since the weight is nearly right? No: it says how the loss changes with the weight, not
# how wrong the weight is. The sigmoid's first layers cannot be heard at the end: they stay as they were drawn.
#
# ## Norm before or after the sum?
#
# After the sum, norm(X + f(X)) divides all that earlier layers have written, too: each layer multiplies it by a number
# below one. Before it, X + f(norm(X)) leaves the stream alone; it grows, so it needs a norm at its end. Predict: which
# of the two learns faster with 24 layers? And what is the product of these numbers?


# %%
def after(X, W):
    Y = X + (X @ W).relu()
    left_over.append((1 / Y.detach().std(-1, unbiased=False)).mean().item())
    return norm(Y)


ways = {"norm after": run(after), "norm before": run(lambda X, W: X + (norm(X) @ W).relu(), last=norm)}
print(f"norm after the sum: {math.prod(left_over[:L]):.0e} of the first X are left at the end of a fresh model")
curves = {name: losses for name, (_, _, losses) in ways.items()} | {"sigmoid": runs["sigmoid"][2]}
assert STEPS == 1 or curves["norm before"][-1] < 0.05 < curves["norm after"][-1]
figure, [[panel]] = plots.panels(size=(6.4, 3.2))
plots.lines(panel, range(STEPS), curves)
panel.set(xlabel="step", ylabel="loss", title="24 layers learn two moons, or not")
plots.show(figure, FIGURES / "26_norms.png", alt="Norm before: the loss falls to 0. After: slowly. Sigmoid: never.")

# %% [markdown]
# ## Over which axis? Which variance? And where is ε?
#
# **Layer norm** takes mean and variance over the D numbers of a row. **Batch norm** (Ioffe and Szegedy, 2015) takes
# them over the rows of a batch, for each component; and in evaluation mode those which it kept from training. So a row
# depends on its neighbours, or on the mode; a text that is written token by token has no neighbours. Variances are
# biased, divided by D and not by D - 1: then the mean square is 1. ε stands inside the root, since √v has an infinite
# slope at v = 0, as for a row of padding. Predict what the gradient is there if ε is added to the root.

# %%
X, batch = 3 + 2 * tt.randn(8, D), nn.BatchNorm1d(D)
for name, f in (("layer norm", norm), ("batch norm", batch), ("batch norm in evaluation mode", batch)):
    batch.train(f is norm or "mode" not in name)
    apart = (f(X)[:4] - f(X[:4])).abs().max().item()
    print(f"{name}: a row changes with its neighbours by {apart:.2f}; mean of all {f(X).mean().item():.2f}")
for name, root in (("inside", lambda v: (v + 1e-5).sqrt()), ("outside", lambda v: v.sqrt() + 1e-5)):
    x = tt.ones(3, requires_grad=True)
    ((x - x.mean())[0] / root(x.var(unbiased=False))).backward()
    print(f"ε {name} the root, a row of ones: gradient {x.grad.tolist()}")

# %% [markdown]
# ## Exercises
#
# Four exercises on this lesson stand in `exercises/26_norms.py`. Each has a check.
