# %% [markdown]
# # Softmax and cross-entropy: why the gradient is q - p
#
# A model gives each token of the vocabulary a number, a logit L. How do logits become probabilities, and how do we
# measure how good these are? Eqs. (12) to (16) of document 003:
#
#     q_j = exp L_j / Σ_k exp L_k        p_j = 1 for the right token t, else 0        loss = -log q_t
#
# (As it is printed, eq. (14) lacks the exp in its sum; (12) has it. Check a text that you read: with the printed
# formula q would not sum to 1, and `python -m derivations errata` shows it.)

# %%
import math
from pathlib import Path

import numpy as np

import tinytensor as tt
import tinytensor.nn.functional as F
from tinytensor.symbolic import prove
from tinytensor.viz import plots

FIGURES = Path("runs/lessons")

# %% [markdown]
# ## The gradient
#
# loss = -L_t + log Σ_k exp L_k. The first term has the slope -1 at t and 0 elsewhere: that is -p. And the second? The
# derivative of log u is 1/u, that of the sum with respect to L_j is exp L_j, and their product is q_j. So
#
#     ∂loss/∂L_j = q_j - p_j
#
# This is the prediction minus the right answer. It is tempting to multiply the derivative of the logarithm by the
# matrix of all derivatives of softmax. That gives the same after a page, and in a program 0/0 on the way: two functions
# that belong together should be differentiated together. This is why every library has `cross_entropy` of logits.

# %%
logits = tt.tensor([[2.0, 1.0, -1.0, 0.0]], dtype=tt.float64, requires_grad=True)
right_token = tt.tensor([1])
F.cross_entropy(logits, right_token).backward()
q = logits.detach().softmax(-1)
p = F.one_hot(right_token, 4)
for name, values in {"q": q, "q - p": q - p, "tape": logits.grad}.items():
    print(f"{name:<6}", values.numpy().round(4).tolist())
assert (logits.grad - (q - p)).abs().max().item() < 1e-15
print(prove(lambda L: F.cross_entropy(L, tt.tensor([1, 0])), (2, 3)))

# %% [markdown]
# Read it as a push, which goes against the gradient: the right logit is pushed up by 1 - q_t, every other one down by
# its q_j. The pushes sum to 0. A model that is sure and right is hardly pushed; one that is sure and wrong is pushed by
# almost 1, never more: no error makes this gradient explode.
#
# ## Without the shift
#
# Now type eq. (12) as it stands. What is exp(100) in float32? Larger than the largest float32, 3.4e38, so: infinity.
# And infinity divided by infinity is not a number. Adding a constant c to all logits changes no probability, since e^c
# cancels. So subtract the largest logit: then the largest exponential is exp(0) = 1, and the sum is at least 1.


# %%
def as_printed(L):
    return -(L.exp() / L.exp().sum()).log()


def shifted(L):
    d = L - L.max()
    return d.exp().sum().log() - d


for size in (10.0, 80.0, 100.0):
    L = tt.tensor([size, 0.0, -size])
    print(f"logits ±{size:.0f}: as printed {as_printed(L).tolist()}, shifted {shifted(L).tolist()}")
assert math.isnan(as_printed(tt.tensor([100.0, 0.0]))[0].item())
assert shifted(tt.tensor([100.0, 0.0])).tolist() == [0.0, 100.0]

# %% [markdown]
# There are two ways to fail. At 80 nothing overflows, but e^-160 is 0 in float32: the loss of the least likely token
# becomes infinite, and so does its gradient. The logarithm must not be taken of a rounded quotient.

# %%
figure, [[left, right]] = plots.panels(1, 2, size=(9, 3.6))
tokens = np.arange(4)
for i, (name, values) in enumerate({"q, predicted": q[0], "p, right": p[0], "gradient q - p": (q - p)[0]}.items()):
    hatch = ("", "//", "..")[i]
    left.bar(tokens + 0.27 * (i - 1), values.numpy(), 0.25, label=name, color=plots.COLOURS[i], hatch=hatch)
left.set(xlabel="token", xticks=tokens, title="the gradient; the push goes the other way")
left.legend(frameon=False, fontsize="small")
differences = range(-120, 121)  # by how much the right token's logit is above the other's
both = [tt.tensor([float(d), 0.0]) for d in differences]
losses = {"shifted": [shifted(L)[0].item() for L in both], "as printed": [as_printed(L)[0].item() for L in both]}
plots.lines(right, differences, losses, linewidth=2)
right.set(xlabel="right logit - wrong logit", ylabel="loss", title="eq. (12) in float32")
plots.show(figure, FIGURES / "06_softmax.png")

# %% [markdown]
# ## Exercise
#
# What is the gradient of the mean loss, eq. (16), with respect to the logits L (C, V), for C right tokens t?


# %%
def answer(L: tt.Tensor, t: tt.Tensor) -> tt.Tensor:
    """The gradient of cross_entropy(L, t) with respect to L, without the tape."""
    ...


# %%
def check(answer) -> str:
    for scale in (1.0, 200.0):
        L, t = (tt.randn(5, 3) * scale).requires_grad_(), tt.tensor([0, 2, 1, 1, 0])
        given = answer(L.detach(), t)
        if given is None:
            return "not solved yet. Hint: q - p for each row. And what does the mean do to the gradient of each row?"
        F.cross_entropy(L, t).backward()
        if not (given - L.grad).abs().max().item() < 1e-5:
            return f"wrong: with logits around {scale:.0f} the tape has {L.grad[0].tolist()}, you {given[0].tolist()}."
    return "right"


print("exercise:", check(answer))
