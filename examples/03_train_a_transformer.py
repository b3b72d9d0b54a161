# %% [markdown]
# # A transformer from equation 1 to equation 18
#
# Document 003 (V. T. Toth, "Transformer mathematics") writes the decoder-only transformer in eighteen equations. Here
# they are, one after the other, in plain tensors; then the model learns a text, and writes. The same model with all its
# switches is in `models/decoder.py`; `python -m models train` trains it properly.

# %%
import math
from pydoc_data.topics import topics

import tinytensor as tt
import tinytensor.nn.functional as F

tt.manual_seed(0)
text = topics["assignment"] + topics["numbers"]  # from the language reference that Python carries
alphabet = sorted(set(text))
tokens = tt.tensor([alphabet.index(c) for c in text])
D, H, L, C, V = 32, 4, 2, 48, len(alphabet)  # width, heads, layers, context, vocabulary
K, W_ff = D // H, 64  # width of a head, width of the feed-forward (F in the document)
print(f"{len(text)} characters, {V} different ones")

# %% [markdown]
# ## The parameters
#
# E and P of eq. (1), the heads' Q, K, V of eq. (2), W of (8), F, b, G, c of (10), and O of (11). The document does not
# say how they begin: small random numbers.


# %%
def weight(*shape: int) -> tt.Tensor:
    return (tt.randn(*shape) / math.sqrt(shape[-2])).requires_grad_()


E, P, O = tt.randn(V, D).requires_grad_(), tt.randn(C, D).requires_grad_(), weight(D, V)
layers = [
    {"Q": weight(H, D, K), "K": weight(H, D, K), "V": weight(H, D, K), "W": weight(D, D), "F": weight(D, W_ff)}
    | {"b": tt.zeros(W_ff, requires_grad=True), "G": weight(W_ff, D), "c": tt.zeros(D, requires_grad=True)}
    for _ in range(L)
]
parameters = [E, P, O, *(p for layer in layers for p in layer.values())]
print(
    sum(p.numel() for p in parameters),
    "parameters; eq. 19:",
    ((4 * D + 1) * D + (2 * D + 1) * W_ff) * L + (C + 2 * V) * D,
)


# %% [markdown]
# ## Inference, equations (1) to (11)
#
# Each line says its equation and its shape; B texts are read side by side.


# %%
def norm(Z):
    return (Z - Z.mean(-1, keepdim=True)) / (Z.var(-1, unbiased=False, keepdim=True) + 1e-5).sqrt()


def logits(t):
    n = t.shape[1]
    Z = E[t] + P[:n]  # (1): (B, n, D)
    for p in layers:
        Z = norm(Z)  # after (1)
        q, k, v = ((Z.unsqueeze(1) @ p[name]) for name in "QKV")  # (2): (B, H, n, K)
        S = q @ k.mT / math.sqrt(K)  # (3): (B, H, n, n); row i asks, so it has the query
        S = S.masked_fill(tt.ones(n, n).triu(1) > 0, -math.inf)  # (4), (5): m <= i
        Y = S.softmax(-1) @ v  # (6): (B, H, n, K)
        A = Y.transpose(1, 2).flatten(2) @ p["W"]  # (7), (8): (B, n, D)
        Z = Z + A  # (9)
        Z = Z + (norm(Z) @ p["F"] + p["b"]).relu() @ p["G"] + p["c"]  # (10)
    return Z @ O  # (11): (B, n, V)


# %% [markdown]
# ## Training, equations (12) to (18)
#
# The loss is the mean of -log q at the right token (12)-(16); `backward()` forms all of (17); and the step of (18) is
# X - rho dL/dX. Plain (18) needs patience at this size, so AdamW takes the step here: set `plain = True` to compare.

# %%
plain, rho = False, 0.5
optimizer = tt.optim.SGD(parameters, lr=rho) if plain else tt.optim.AdamW(parameters, lr=4e-3, weight_decay=0.01)


@tt.compile  # record the step once, then replay it
def step(t):
    optimizer.zero_grad()
    loss = F.cross_entropy(logits(t[:, :-1]).flatten(0, 1), t[:, 1:].flatten())  # (12)-(16)
    loss.backward()  # (17)
    optimizer.step()  # (18)
    return loss


for i in range(301):
    starts = tt.randint(0, len(tokens) - C - 1, (16,))
    loss = step(tokens[starts.unsqueeze(1) + tt.arange(C + 1)])
    if i % 100 == 0:
        print(f"step {i:3}   loss {loss.item():.3f} nats a character (guessing: {math.log(V):.3f})")
assert loss.item() < 0.6 * math.log(V)

# %% [markdown]
# ## What it writes
#
# One character at a time, drawn from the softmax of the last row of (11).

# %%
written = [alphabet.index("A")]
with tt.no_grad():
    for _ in range(200):
        p = (logits(tt.tensor([written[-C:]]))[0, -1] / 0.7).softmax(0)
        written.append(tt.multinomial(p, 1).item())
print("".join(alphabet[i] for i in written))
