# %% [markdown]
# # Softmax and cross-entropy: why the gradient is q - p
#
# A model gives each token of its vocabulary a number, a logit $L_j$. How do logits become probabilities, and how do we
# measure how good these are? Document 003 (see `documents.md`) answers with softmax and cross-entropy:
#
# $$ q_j = \frac{e^{L_j}}{\sum_k e^{L_k}} \quad (14) \qquad
#    \mathcal{L} = -\sum_j p_j \log q_j = -\log q_t \quad (13) $$
#
# Here q is what the model predicts, and p is right: 1 for the right token t and 0 for all others, eq. (15). (Many books
# call them p and y: the p - y that you read there is q - p here.) As it is printed, eq. (14) lacks the exp in its sum,
# so q would not sum to 1: check what you read. `python -m derivations errata` shows it.

# %%
import math
from pathlib import Path

import tinytensor as tt
import tinytensor.nn.functional as F
from tinytensor.symbolic import prove
from tinytensor.viz import plots

FIGURES = Path("runs/lessons")
tt.manual_seed(0)

# %% [markdown]
# ## What is the loss before training?
#
# The random weights of a fresh model are small, so its logits are close to 0 and no token is preferred. Predict: what
# is the loss of a fresh model with a vocabulary of 65 characters?

# %%
fresh, tokens = 0.1 * tt.randn(1000, 65), tt.randint(0, 65, (1000,))
print(f"loss {F.cross_entropy(fresh, tokens).item():.3f}, log 65 = {math.log(65):.3f}")

# %% [markdown]
# Equal logits give each token q = 1/V, so the loss is -log(1/V) = log V. Remember this number when you train. A first
# loss far above it says that the model begins sure of wrong answers: its initial weights are too large.
#
# ## The gradient of softmax
#
# All logits stand in the sum, so each $q_i$ depends on each $L_j$. Differentiate the logarithm of (14): it is simpler.
# Write $\delta_{ij}$ for 1 if i = j and 0 otherwise, and $g_i$ for the gradient that arrives at $q_i$ in backward.
#
# $$ \log q_i = L_i - \log \sum_k e^{L_k} \quad\text{so}\quad
#    \frac{\partial \log q_i}{\partial L_j} = \delta_{ij} - q_j $$
# $$ \frac{\partial q_i}{\partial L_j} = q_i \, (\delta_{ij} - q_j) \quad \text{since } d \log q = dq / q $$
# $$ \frac{\partial \mathcal{L}}{\partial L_j} = \sum_i g_i \, q_i \, (\delta_{ij} - q_j)
#    = q_j \Big( g_j - \sum_i g_i q_i \Big) $$
#
# In words: what counts is how far $g_j$ is from the mean of all $g_i$, weighted with q. Cross-entropy, eq. (13), sends
# back $g_i = -p_i / q_i$. Put this in, and nearly everything cancels:
#
# $$ \frac{\partial \mathcal{L}}{\partial L_j} = q_j \Big( -\frac{p_j}{q_j} + \sum_i p_i \Big) = q_j - p_j $$
#
# This is the prediction minus the right answer. Predict: token 1 is right and has q = 0.24. What is its gradient?

# %%
logits = tt.tensor([[2.0, 1.0, -1.0, 0.0]], dtype=tt.float64, requires_grad=True)
right_token = tt.tensor([1])
F.cross_entropy(logits, right_token).backward()
q, p = logits.detach().softmax(-1), F.one_hot(right_token, 4)
print("q - p", (q - p).tolist(), "tape", logits.grad.tolist(), sep="\n")
print(prove(F.cross_entropy, (2, 3), tt.tensor([1, 0])))
assert (logits.grad - (q - p)).abs().max().item() < 1e-15

figure, [[panel]] = plots.panels(size=(6.4, 3.4))
for i, (name, values) in enumerate({"q, predicted": q[0], "p, right": p[0], "p - q, the push": (p - q)[0]}.items()):
    look = {"color": plots.COLOURS[i], "hatch": ("", "//", "..")[i]}
    panel.bar(tt.arange(4) + 0.27 * (i - 1), values, 0.25, label=name, **look)
panel.set(xlabel="token", xticks=range(4), ylabel="probability; push", title="token 1 is pushed up, all others down")
panel.legend(frameon=False, fontsize="small")
plots.show(figure, FIGURES / "06_softmax_push.png", alt="Bars for 4 tokens: p - q is 0.76 at token 1, else -q.")

# %% [markdown]
# A step of training goes against the gradient, so it pushes by p - q: the right logit up by $1 - q_t$, each other one
# down by its $q_j$. The pushes sum to 0. A model that is sure and right is hardly pushed. One that is sure and wrong is
# pushed by almost 1, and never more: a large error does not make this gradient explode.
#
# Why does every library have `cross_entropy` of logits, in one piece? In two pieces $p_j / q_j$ is computed on the way,
# which is 1/0 where q is rounded to 0. The proof has conditions, because the code looks for the largest logit of each
# row (you will soon see why): the proof follows its comparisons for one order of the logits, as good as any other.
#
# ## Without the shift
#
# Now type eq. (12), which is (13) with (14), as it stands. What is exp(100) in float32? More than the largest number,
# 3.4e38, so infinity; and infinity / infinity is not a number. But a constant c that is added to all logits changes no
# probability, since $e^c$ cancels. So subtract the largest logit: then the largest exponential is exp(0) = 1. For the
# logits s, 0, -s the last token's loss is about 2 s. Predict: up to which s does eq. (12) say so without the shift?


# %%
def as_printed(L):
    return -(L.exp() / L.exp().sum(-1, keepdim=True)).log()


def shifted(L):
    d = L - L.max(-1, keepdim=True).values
    return d.exp().sum(-1, keepdim=True).log() - d


s = tt.arange(1.0, 121.0)
bad, good = (loss(tt.stack([s, 0 * s, -s], dim=1)) for loss in (as_printed, shifted))  # (120, 3): each token's loss
for size in (10, 60, 100):
    print(f"s = {size}: as printed {bad[size - 1].tolist()}, shifted {good[size - 1].tolist()}")
assert bad[59, 2].item() == math.inf and bad[99, 0].isnan().item() and good[99].tolist() == [0, 100, 200]

figure, [[panel]] = plots.panels(size=(6.4, 3.2))
plots.lines(panel, s, {"shifted": good[:, 2], "as printed, infinite on grey": bad[:, 2]}, linewidth=2.5)
panel.axvspan(s[bad[:, 2].isinf()].min().item(), 120, color="0.85", zorder=0)
panel.set(xlabel="s, where the logits are s, 0, -s", ylabel="loss of the last token", title="eq. (12) in float32")
plots.show(figure, FIGURES / "06_softmax_shift.png", alt="The loss is 2 s; as printed it becomes infinite near s = 50.")

# %% [markdown]
# There are two ways to fail. At 100 the exponential overflows. At 60 nothing does, but q is rounded to 0, and the
# logarithm of 0 is infinite. So compute $\log \sum_k e^{L_k}$, never $\log q$.
#
# ## Exercises
#
# Four exercises on this lesson stand in `exercises/06_softmax.py`. Each has a check.
