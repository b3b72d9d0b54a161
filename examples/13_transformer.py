# %% [markdown]
# # A transformer, from equation (1) to equation (18)
#
# Document 003 (V. T. Toth, "Transformer mathematics") needs eighteen equations for a model that learns to write. How
# much code is that? Here they are in order, in plain tensors. (`python -m models train` has options, and patience.)

# %%
import math
from pathlib import Path
from pydoc_data.topics import topics

import tinytensor as tt
import tinytensor.nn.functional as F
from tinytensor.symbolic import prove
from tinytensor.viz import plots

FIGURES = Path("runs/lessons")
tt.manual_seed(0)
text = " ".join(" ".join(p.split()) for p in topics["execmodel"].split("\n\n") if p.endswith("."))  # only sentences
alphabet = sorted(set(text))
tokens = tt.tensor([alphabet.index(c) for c in text])
D, H, K, L, C, V, W_ff = 32, 4, 8, 2, 48, len(alphabet), 64  # the document's letters; W_ff is its F

# %% [markdown]
# ## Inference, (1) to (11)
#
# E and P of (1), Q, K, V of (2), W of (8), F, b, G, c of (10), O of (11) begin with random numbers, so small that a sum
# over n of them is of size one. From zeros all heads would stay alike for ever. (Shapes are for B texts side by side.)


# %%
def weight(*shape: int) -> tt.Tensor:
    return (tt.randn(*shape) / math.sqrt(shape[-2])).requires_grad_()


shapes = {"Q": (H, D, K), "K": (H, D, K), "V": (H, D, K), "W": (D, D), "F": (D, W_ff), "G": (W_ff, D)}
layers = [{name: weight(*shape) for name, shape in shapes.items()} for _ in range(L)]
for p in layers:
    p |= {"b": tt.zeros(W_ff, requires_grad=True), "c": tt.zeros(D, requires_grad=True)}
E, P, O = tt.randn(V, D).requires_grad_(), tt.randn(C, D).requires_grad_(), weight(D, V)
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
# (12) to (16) are the mean of −log q at the right token. Its gradient with respect to the logits is (q − p)/C;
# `backward()` forms all of (17). (18), X − ρ ∂𝓛/∂X, needs patience: here AdamW takes the step. SGD(parameters, lr=0.5)
# is (18) itself. The model writes four times. In the maps of what it reads each row is a character that asks; right of
# the diagonal all weights are 0, by (5). Which heads look at few characters, which at many?

# %%
print(prove(lambda L: F.cross_entropy(L, tt.tensor([1, 0])), (2, 3)))
optimizer, rows = tt.optim.AdamW(parameters, lr=1e-2, weight_decay=0.01), []


@tt.compile  # recorded once, then replayed (lesson 18)
def step(t):
    optimizer.zero_grad()
    loss = F.cross_entropy(logits(t[:, :-1], []).flatten(0, 1), t[:, 1:].flatten())  # (12)-(16)
    loss.backward()  # (17)
    optimizer.step()  # (18)
    return loss


for i in range(2001):
    if i in (0, 100, 500, 2000):
        written = [alphabet.index(c) for c in "The "]
        for _ in range(100):
            q = (logits(tt.tensor([written[-C:]]), [])[0, -1] / 0.5).softmax(0)  # (11), last row; (14), sharper
            written.append(tt.multinomial(q, 1).item())
        print(f"after {i:,} steps the model writes:", "".join(alphabet[c] for c in written))
    starts = tt.randint(0, len(tokens) - C - 1, (16,))
    rows.append({"step": i, "loss": step(tokens[starts.unsqueeze(1) + tt.arange(C + 1)]).item()})
print(f"loss {rows[0]['loss']:.2f} -> {rows[-1]['loss']:.2f} nats a character")
assert rows[-1]["loss"] < 0.6 * math.log(V)
plots.show(plots.loss(rows, {"guessing": math.log(V)}, "nats a character"), FIGURES / "13_transformer.png")

# %%
phrase, maps = "the code block", []
logits(tt.tensor([[alphabet.index(c) for c in phrase]]), maps)
plots.show(plots.attention(tt.cat(maps), *2 * [phrase.replace(" ", "␣")]), FIGURES / "12_attention.png")

# %% [markdown]
# ## Exercise
#
# The mean of (16) is over "counted positions": it is "best not to include padding". Write (12) to (16) with this mean.


# %%
def answer(L, t, counted):
    """The loss, for logits L (C, V), right tokens t (C,), and counted (C,): 1 where a position counts, else 0."""
    ...


def check(answer) -> str:
    L, t = tt.randn(5, 7), tt.tensor([3, 1, 6, 0, 2])
    if (loss := answer(L, t, tt.tensor([1.0, 1.0, 1.0, 0.0, 0.0]))) is None:
        return "not solved yet. Hint: -L.log_softmax(-1)[range(5), t] is (12). Which number divides their sum?"
    loss, right = loss.item(), F.cross_entropy(L[:3], t[:3]).item()
    return "right" if abs(loss - right) < 1e-6 else f"wrong: it is {loss:.4f}, but {right:.4f} over the first three."


print("exercise:", check(answer))
