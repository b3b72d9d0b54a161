# %% [markdown]
# # A transformer, from equation (1) to equation (18)
#
# Document 003 (V. T. Toth, "Transformer mathematics", see `documents.md`) needs eighteen equations for a model that
# learns to write. How much code is that? Here they are in order, in plain tensors.

# %%
import math
import os
from pathlib import Path
from pydoc_data.topics import topics

import tinytensor as tt
import tinytensor.nn.functional as F
from tinytensor.viz import plots

FIGURES = Path("runs/lessons")
tt.manual_seed(0)
STEPS, B, WRITTEN, PARTS = (1, 1, 1, 1) if os.environ.get("NUMBA_DISABLE_JIT") else (2000, 16, 100, 15)  # few in Python
text = " ".join(" ".join(p.split()) for p in topics["execmodel"].split("\n\n") if p.endswith("."))  # only sentences
alphabet = sorted(set(text))
tokens, heldout = tt.tensor([alphabet.index(c) for c in text]).split([len(text) - 757, 757])  # about a tenth
D, H, K, L, C, V, W_ff = 32, 4, 8, 2, 48, len(alphabet), 64  # the document's letters; W_ff is its F

# %% [markdown]
# ## Inference, (1) to (11)
#
# E and P of (1), Q, K, V of (2), W of (8), F, b, G, c of (10), O of (11) begin with random numbers, so small that a sum
# over n of them is of size one. (From zeros all heads would stay alike for ever.) O is ten times smaller, so that a
# fresh model prefers no character. A row of E is the **embedding** of a character. Shapes are for B texts side by side.


# %%
def weight(*shape: int) -> tt.Tensor:
    return (tt.randn(*shape) / math.sqrt(shape[-2])).requires_grad_()


shapes = {"Q": (H, D, K), "K": (H, D, K), "V": (H, D, K), "W": (D, D), "F": (D, W_ff), "G": (W_ff, D)}
layers = [{name: weight(*shape) for name, shape in shapes.items()} for _ in range(L)]
for p in layers:
    p |= {"b": tt.zeros(W_ff, requires_grad=True), "c": tt.zeros(D, requires_grad=True)}
E, P = tt.randn(V, D).requires_grad_(), tt.randn(C, D).requires_grad_()
O = (tt.randn(D, V) / (10 * math.sqrt(D))).requires_grad_()
parameters = [E, P, O, *(p for layer in layers for p in layer.values())]
assert sum(p.numel() for p in parameters) == ((4 * D + 1) * D + (2 * D + 1) * W_ff) * L + (C + 2 * V) * D  # (19)


def logits(t, maps):
    n = t.shape[1]
    Z = E[t] + P[:n]  # (1): (B, n, D)
    for p in layers:
        Z = F.layer_norm(Z, (D,))  # after (1); lesson 11
        q, k, v = ((Z.unsqueeze(1) @ p[name]) for name in "QKV")  # (2): (B, H, n, K)
        S = q @ k.mT / math.sqrt(K)  # (3): (B, H, n, n); row i asks, so it has the query
        S = S.masked_fill(tt.ones(n, n).triu(1) > 0, -math.inf)  # (4), (5): m <= i
        maps.append(S.softmax(-1))  # σ of (6), kept for the picture
        Y = maps[-1] @ v  # (6): (B, H, n, K)
        Z = Z + Y.transpose(1, 2).flatten(2) @ p["W"]  # (7), (8), (9): (B, n, D)
        Z = Z + (F.layer_norm(Z, (D,)) @ p["F"] + p["b"]).relu() @ p["G"] + p["c"]  # (10)
    return Z @ O  # (11): (B, n, V)


# %% [markdown]
# ## Training, (12) to (18)
#
# (12) to (16) are the mean of −log q at the right token; its gradient with respect to the logits is (q − p)/C (lesson
# 6). `backward()` forms all of (17). (18), X − ρ ∂𝓛/∂X, needs patience: here AdamW takes the step. SGD(parameters,
# lr=0.5) is (18) itself. Predict the loss before the first step: to a fresh model all V characters are equally likely.

# %%
optimizer, rows = tt.optim.AdamW(parameters, lr=1e-2, weight_decay=0.01), []


@tt.compile  # recorded once, then replayed (lesson 18)
def step(t):
    optimizer.zero_grad()
    loss = F.cross_entropy(logits(t[:, :-1], []).flatten(0, 1), t[:, 1:].flatten())  # (12)-(16)
    loss.backward()  # (17)
    optimizer.step()  # (18)
    return loss


for i in range(STEPS + 1):
    if i in (0, 100, 500, STEPS):
        written = [alphabet.index(c) for c in "The "]
        for _ in range(WRITTEN):
            q = (logits(tt.tensor([written[-C:]]), [])[0, -1] / 0.5).softmax(0)  # (11), last row; (14), sharper
            written.append(tt.multinomial(q, 1).item())
        print(f"after {i:,} steps the model writes:", "".join(alphabet[c] for c in written))
    starts = tt.randint(0, len(tokens) - C - 1, (B, 1))
    rows.append({"step": i, "loss": step(tokens[starts + tt.arange(C + 1)]).item()})
    if i % 100 == 0:
        guessed = logits(heldout[: PARTS * C].view(PARTS, C), []).flatten(0, 1)
        rows[-1]["heldout_loss"] = F.cross_entropy(guessed, heldout[1 : PARTS * C + 1]).item()
print(f"log V = {math.log(V):.2f}, loss {rows[0]['loss']:.2f} -> {rows[-1]['loss']:.2f} nats a character")
assert abs(rows[0]["loss"] - math.log(V)) < 0.2 and (STEPS == 1 or rows[-1]["loss"] < 1.2)
figure = plots.loss(rows, {"guessing, log V": math.log(V)}, "nats a character")
plots.show(figure, FIGURES / "13_transformer.png", alt="The loss falls; on held-out text it rises again.")

# %% [markdown]
# Why does the loss rise again on the text that was held out? Two pages of text are few: after some hundred steps the
# model learns them by heart, and becomes sure of itself where it is wrong. Its words improve, since they are words of
# the page. More text is the best remedy: `python -m models train` has more, and measures this as it goes.
#
# **What do the heads look at?** Row i of a map is the character that asks; right of the diagonal all is 0, by (5). If a
# head looked at all that it may see alike, the character before would have a weight of 0.25 on average. Predict the
# largest weight that one of the eight heads gives it. Which map shows it?

# %%
phrase, maps = "the code", []
logits(tt.tensor([[alphabet.index(c) for c in phrase]]), maps)
maps = tt.cat(maps).detach()  # (L, H, n, n)
print("on the character before, by layer and head:", *maps.diagonal(-1, 2, 3).mean(-1).numpy().round(2))
figure = plots.attention(maps, *2 * [phrase.replace(" ", "␣")])
plots.show(figure, FIGURES / "13_transformer_heads.png", alt="Eight maps: some heads look one character back.")

# %% [markdown]
# ## Exercises
#
# Four exercises on this lesson stand in `exercises/13_transformer.py`. Each has a check.
