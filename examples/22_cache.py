# %% [markdown]
# # The KV cache
#
# A model that writes reads its whole text before each word, and yet only one word of it is new. What can it keep? What
# does a word cost then? And what comes after the end of the **context**, the C words that the model can read? Letters
# and equations are those of document 003 (`documents.md`).

# %%
import math
import os
import sys
from pathlib import Path
from time import perf_counter

import tinytensor as tt
from tinytensor.viz import plots

sys.path.append(str(Path(__file__).resolve().parents[1]) if "__file__" in globals() else "..")
from models.decoder import Config, Decoder

FIGURES = Path("runs/lessons")
tt.manual_seed(22)
D, C, V = 32, 24, 100
LONG = 8 if os.environ.get("NUMBA_DISABLE_JIT") else 1024  # few words where kernels run as Python

# %% [markdown]
# ## Keys and values are kept, queries are not
#
# What comes next stands in the last row of (11). In (6) that row asks with its own q, and needs k and v of all words;
# an old q would only give an old row again. By the mask (5) no row sees later words, so k and v stay as they are when a
# word is added. A **KV cache** keeps them, and a word costs one row. Here is one head, of width D.

# %%
Z, weights = tt.randn(C, D), [tt.randn(D, D) / math.sqrt(D) for _ in range(3)]  # Q, K and V of (2)
q, k, v = (Z @ weight for weight in weights)
later = tt.ones(C, C).triu(1) > 0
Y = (q @ k.T / math.sqrt(D)).masked_fill(later, -math.inf).softmax(-1) @ v  # (3) to (6), all rows at once: (C, D)
keys, values, rows = tt.zeros(0, D), tt.zeros(0, D), []
for z in Z:  # one word after the other
    q, k, v = (z.unsqueeze(0) @ weight for weight in weights)  # (1, D)
    keys, values = tt.cat([keys, k]), tt.cat([values, v])
    rows.append((q @ keys.T / math.sqrt(D)).softmax(-1) @ values)  # no mask: later words are not there yet
print(f"one head: with the cache Y differs by {(tt.cat(rows) - Y).abs().max().item():.0e}")

# %% [markdown]
# ## Why the mask stays on
#
# A model has a cache in each layer. In the second layer k and v come from rows that attention has mixed. Without the
# mask each word would change the rows before it, and so all that is kept: one more reason why it stays on. (The models
# here are not trained: what is kept, and what it costs, does not depend on the numbers.)

# %%
model = Decoder(Config(D=D, H=2, F=64, L=2, C=C, V=V))
t, cache = tt.randint(0, V, (1, C)), model.new_cache()
cached = tt.cat([model(t[:, n : n + 1], cache=cache)[0] for n in range(C)], 1)  # one after the other: (1, C, V)
print(f"a model: with the cache the logits differ by {(cached - model(t)[0]).abs().max().item():.0e}")
for name, causal in (("with", True), ("without", False)):
    other = Decoder(model.config.replace(causal=causal))
    other.load_state_dict(model.state_dict())
    change = (other(t[:, :-1])[0] - other(t)[0][:, :-1]).abs().max().item()
    print(f"{name} the mask a further word changes the logits of those before it by up to {change:.0e}")
    assert (change < 1e-4) == causal

# %% [markdown]
# ## Time for a word
#
# Without a cache the word after n words costs n rows, with one it costs one row, which still looks at n keys. Predict:
# how long must a text be for a cache to save time?


# %%
@tt.no_grad()
def milliseconds(t, cache=None):
    start = perf_counter()
    large(t, cache=cache, last=True)
    return 1000 * (perf_counter() - start)


large = Decoder(Config(D=128, H=4, F=256, L=2, C=LONG, V=V))
t, cache, sizes = tt.randint(0, V, (1, LONG)), large.new_cache(), [2**i for i in range(LONG.bit_length())]
for _ in range(2):  # the first time some kernels are loaded
    cache.clear()
    each = [milliseconds(t[:, n : n + 1], cache) for n in range(LONG)]
with_cache = [min(each[n // 2 : n]) for n in sizes]
without = [min(milliseconds(t[:, :n]) for _ in range(3)) for n in sizes]
for n, slow, fast in list(zip(sizes, without, with_cache))[::2]:
    print(f"the word after {n} costs {slow:.2f} ms without a cache, {fast:.2f} ms with one")

# %% [markdown]
# ## The end of the context
#
# P has C rows: C words can be read, and one more written. For the next one the window **slides**: the oldest word goes,
# each other one moves to the position before its own. With its row of P its k and v change; and in the second layer
# they know of the word that is gone. So the cache is worth nothing, and each word costs C rows again. Programs let the
# window jump by C/2 instead: then only half of the context is left for a while. Predict: how many rows does a word cost
# on average?


# %%
def rows(n, jump):  # computed for the word after n, if a full window loses `jump` words
    before, now = (max(0, -((C - m) // jump) * jump) for m in (n - 1, n))  # where the window begins
    return 1 if before == now else n - now


n, jumps = range(1, 4 * C + 1), {"KV cache, the window slides": 1, "KV cache, it jumps by C/2": C // 2}
curves = {name: [rows(i, jump) for i in n] for name, jump in jumps.items()}
for name, curve in curves.items():
    print(f"{name}: {sum(curve[C:]) / (3 * C):.0f} rows a word, when the context is full")
figure, [[time, work]] = plots.panels(1, 2, size=(9, 3.6))
plots.lines(time, sizes, {"no cache": without, "KV cache": with_cache}, marker="o")
time.set(xscale="log", yscale="log", xlabel="words", ylabel="milliseconds", title="time for the next word")
plots.lines(work, n, {"no cache": [min(i, C) for i in n]} | curves)
work.set(xlabel="words", ylabel="rows", ylim=(0, 1.5 * C), title=f"work for the next word, with C = {C}")
alt = "Without a cache the time grows with the text, with one it does not, until the context is full."
plots.show(figure, FIGURES / "22_cache.png", alt=alt)

# %% [markdown]
# ## Exercises
#
# Four exercises on this lesson stand in `exercises/22_cache.py`. Each has a check.
