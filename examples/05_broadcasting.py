# %% [markdown]
# # Shapes: a value that is used many times has a gradient from each use
#
# Eq. (10) of document 003 (`examples/documents.md` lists it) adds one bias b to every row, and calls it "a slight abuse
# of notation": the same vector for all positions i = 1..C. Programs do this all day, and call it broadcasting. What is
# the gradient of a tensor that was silently copied? And what if it was copied where you did not mean it?

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
# changes all four, and by the chain rule all four changes count. Read backwards, eq. (10) says
#
# $$ \frac{\partial \mathcal{L}}{\partial b_l} = \sum_i \frac{\partial \mathcal{L}}{\partial Y_{il}} $$
#
# So copying forward is summing backward. (And summing forward is copying backward: each term of a sum gets the same
# gradient.) It could not be otherwise: a gradient has the shape of the tensor that it belongs to. Below, 0, 3, 6 and 9
# arrive in the first column of Y. Predict the first number of b.grad.


# %%
def shifted(X, b):
    return X + b


X, b = tt.randn(4, 3), tt.zeros(3, requires_grad=True)
weights = tt.arange(12.0).reshape(4, 3)  # ∂𝓛/∂Y for the loss below
(shifted(X, b) * weights).sum().backward()
print("what arrives at Y:", weights.tolist())
print("gradient of b:    ", b.grad.tolist(), "- the sums of the columns")
assert b.grad.tolist() == weights.sum(0).tolist()
print(prove(shifted, (4, 3), (3,)))

# %% [markdown]
# ## The rule
#
# Write the two shapes below each other, flush right. Where they differ, one of the two numbers must be 1 or missing:
# that tensor is repeated. No error is raised if you did not mean this, which leads to the bug that everyone writes
# once. A layer with one output gives predictions of shape (3, 1), a column. The targets are a list, (3,), which
# broadcasting reads as a row. Predict the shape of their difference.

# %%
prediction, target = tt.tensor([[1.0], [2.0], [3.0]]), tt.tensor([1.0, 2.0, 3.0])
print("right:", (prediction - target.unsqueeze(1)).tolist())
print("wrong:", (prediction - target).tolist())

# %% [markdown]
# The predictions are perfect, and the loss is not 0: each was compared with every target. Now the wicked part. Training
# still runs, and the loss still falls, down to the one prediction that is least wrong about all targets at once. Which
# one? Their mean, for every x. Predict what the losses look like. (`detach()` takes the predictions off the tape: the
# same numbers, as constants. A number that is kept for a picture should not keep the tape.)


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


x = tt.linspace(0, 2, 20).reshape(20, 1)
y = 2 * x.flatten() - 1 + 0.1 * tt.randn(20)
wrong, wrong_losses = fit(y)  # (20, 1) - (20,) is (20, 20)
good, good_losses = fit(y.unsqueeze(1))  # (20, 1) - (20, 1)
print(f"with the bug: {wrong.min().item():.3f} to {wrong.max().item():.3f}, mean of y {y.mean().item():.3f}")
assert (wrong - y.mean()).abs().max().item() < 1e-3 and good_losses[-1] < 0.1 * wrong_losses[-1]
figure, [[left, right]] = plots.panels(1, 2, size=(8, 3.4))
left.plot(x.flatten().tolist(), y.tolist(), "k.", label="data")
plots.lines(left, x.flatten(), {"fitted": good, "with the bug": wrong})
plots.lines(right, range(200), {"fitted": good_losses, "with the bug": wrong_losses})
left.set(xlabel="x", ylabel="y", title="the fitted lines")
right.set(xlabel="step", ylabel="loss", yscale="log", title="the loss falls either way")
plots.show(figure, FIGURES / "05_broadcasting.png", alt="The fit with the bug is flat, and its loss falls, too.")

# %% [markdown]
# A habit that saves days: note the shape in the line where shapes meet (`# (20, 1)`), and `assert` it while you write.
#
# ## Why does `backward()` of a tensor want an argument?
#
# The slopes of all m numbers of a result Y with respect to all n numbers of X are a matrix (m, n), the **Jacobian** J.
# No rule writes it down (lesson 2). A walk back multiplies it by a row g, from the left: g J, a **vector–Jacobian
# product**. A loss is one number, so g is 1; for a tensor say which g: `Y.backward(g)` leaves the gradient of
# `(Y * g).sum()`. All of J takes m walks back, one for each row. **Forward mode** walks along with the computation, and
# multiplies J by a column v: how far does Y move if X moves by v? All of J takes n such walks. So forward mode is
# cheaper for a tall J, m > n, and walking back for a wide one. Training has m = 1 and a million parameters: one walk
# back, or a million forward. (tinytensor walks back only: its `jvp` takes two walks.) Predict J for Y = A X.

# %%
A, X = tt.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]), tt.tensor([2.0, 3.0], requires_grad=True)
try:
    (A @ X).backward()
except RuntimeError as error:
    print(error)
rows = [tt.autograd.grad(A @ X, X, g)[0].tolist() for g in tt.eye(3)]
columns = [tt.func.jvp(A.matmul, (X.detach(),), (v,))[1].tolist() for v in tt.eye(2)]
print(f"J in {len(rows)} walks back: {rows}\nJ in {len(columns)} walks forward: {columns}")
assert rows == A.tolist() and columns == A.T.tolist()

# %% [markdown]
# ## Exercises
#
# Four exercises on this lesson stand in `exercises/05_broadcasting.py`. Each has a check.
