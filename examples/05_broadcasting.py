# %% [markdown]
# # Shapes: a value that is used many times has a gradient from each use
#
# Eq. (10) of document 003 adds one bias b to every row, and calls it "a slight abuse of notation": the same vector for
# all positions i = 1..C. Programs do this all day, and call it broadcasting. What is the gradient of a tensor that was
# silently copied? And what if it was copied where you did not mean it?

# %%
from pathlib import Path

import tinytensor as tt
from tinytensor.symbolic import prove
from tinytensor.viz import plots

FIGURES = Path("runs/lessons")
tt.manual_seed(0)

# %% [markdown]
# ## Why a gradient is summed
#
# Y = X + b, with X of shape (4, 3) and b of shape (3,): b is added to each of the four rows. A small change of b
# changes all four, and by the chain rule all four changes count:
#
#     ∂L/∂b_l = Σ_i ∂L/∂Y_il        (10) of 003, read backwards
#
# So copying forward is summing backward. (And summing forward is copying backward: each term of a sum gets the same
# gradient.) It could not be otherwise: a gradient has the shape of the tensor that it belongs to.

# %%
X, b = tt.randn(4, 3), tt.zeros(3, requires_grad=True)
weights = tt.arange(12.0).reshape(4, 3)  # ∂L/∂Y for the loss below
((X + b) * weights).sum().backward()
print("what arrives at Y:", weights.tolist())
print("gradient of b:    ", b.grad.tolist(), "- the sums of the columns")
assert b.grad.tolist() == weights.sum(0).tolist()
print(prove(lambda X, b: X + b, (4, 3), (3,)))

# %% [markdown]
# ## The rule
#
# Write the two shapes below each other, flush right. Where they differ, one of the two numbers must be 1 or missing:
# that tensor is repeated. No error is raised if you did not mean this, which leads to the bug that everyone writes
# once. A layer with one output gives predictions of shape (3, 1), a column. The targets are a list, (3,), which
# broadcasting reads as a row. What is their difference?

# %%
prediction, target = tt.tensor([[1.0], [2.0], [3.0]]), tt.tensor([1.0, 2.0, 3.0])
print("right:", (prediction - target.unsqueeze(1)).tolist())
print("wrong:", (prediction - target).tolist(), "- shape", (prediction - target).shape)

# %% [markdown]
# The predictions are perfect, and the loss is not 0: each was compared with every target. Now the wicked part. Training
# still runs, and the loss still falls, down to the one prediction that is least wrong about all targets at once. Which
# one? Their mean, for every x.


# %%
def fit(targets, steps=200):
    w, c = tt.zeros(1, 1, requires_grad=True), tt.zeros(1, requires_grad=True)
    optimizer, losses = tt.optim.SGD([w, c], lr=0.3), []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = ((x @ w + c - targets) ** 2).mean()  # x @ w + c is (20, 1)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return (x @ w + c).detach().flatten(), losses


x = tt.rand(20, 1) * 2
y = 2 * x.flatten() - 1 + 0.1 * tt.randn(20)
wrong, wrong_losses = fit(y)  # (20, 1) - (20,) is (20, 20)
good, good_losses = fit(y.unsqueeze(1))  # (20, 1) - (20, 1)
print(f"with the bug all predictions lie within {(wrong.max() - wrong.min()).item():.4f} of each other")
assert (wrong - y.mean()).abs().max().item() < 1e-3 and good_losses[-1] < 0.1 * wrong_losses[-1]

# %%
figure, [[left, middle, right]] = plots.panels(1, 3, size=(10, 3.4))
shown = plots.heat(left, prediction - target, ["1", "2", "3"], ["1", "2", "3"], signed=True, numbers=True)
left.set(xlabel="target", ylabel="prediction", title="(3, 1) - (3,): all against all")
middle.plot(x.flatten().tolist(), y.tolist(), "k.", label="data")
plots.lines(middle, x.flatten(), {"fitted": good, "with the bug": wrong})
middle.set(xlabel="x", title="the fitted lines")
plots.lines(right, range(200), {"fitted": good_losses, "with the bug": wrong_losses})
right.set(xlabel="step", yscale="log", title="the loss falls either way")
plots.show(figure, FIGURES / "05_broadcasting.png")

# %% [markdown]
# A habit that saves days: note the shape in the line where shapes meet (`# (20, 1)`), and `assert` it while you write.
#
# ## Exercise
#
# The tape does this after every rule: it brings a gradient to the shape of the tensor that was repeated. Write it.


# %%
def answer(g: tt.Tensor, shape: tuple[int, ...]) -> tt.Tensor:
    """g, summed to `shape`, which was broadcast to the shape of g."""
    ...


# %%
def check(answer) -> str:
    if answer(tt.ones(4, 3), (3,)) is None:
        return "not solved yet. Hint: sum over dimensions in front that `shape` lacks, then over those where it has 1."
    for big, shape in (((4, 3), (3,)), ((4, 3), (4, 1)), ((4, 3), ()), ((2, 4, 3), (4, 1)), ((1, 3), (1, 3))):
        g, small = tt.randn(*big), tt.zeros(*shape, requires_grad=True)
        (small * g).sum().backward()  # the gradient of `small` is g, summed as it must be
        given = answer(g, shape)
        if given.shape != small.shape:
            return f"wrong: from {big} to {shape} you return a tensor of shape {tuple(given.shape)}."
        if (given - small.grad).abs().max().item() > 1e-5:
            return f"wrong: from {big} to {shape} the shape is right, the sums are not."
    return "right"


print("exercise:", check(answer))
