# %% [markdown]
# # From a model to text
#
# A model gives a probability to each next word. A text is one word after another, so something has to choose: lesson 13
# divided the logits by 0.5, and drew. Why 0.5? Why not simply the likeliest word? What does a word cost? And what comes
# after the end of the **context**, the C words that the model can read? Letters and equations are those of document 003
# (`documents.md`).

# %%
import math
import os
import random
import sys
from pathlib import Path
from time import perf_counter

import tinytensor as tt
import tinytensor.nn.functional as F
from tinytensor.viz import plots

sys.path.append(str(Path(__file__).resolve().parents[1]) if "__file__" in globals() else "..")
from models.data import grammar
from models.data.tokenizers import WordTokenizer
from models.decoder import Config, Decoder

FIGURES = Path("runs/lessons")
# few where kernels run as Python
STEPS, B, N, C, LONG = (1, 1, 2, 4, 8) if os.environ.get("NUMBA_DISABLE_JIT") else (2000, 16, 400, 24, 1024)
made = grammar.pairs()  # sentences made by rules; we take the English ones, as in lesson 19
text, unseen = ("\n".join(s.target for s in random.Random(0).sample(x, len(x))) for x in grammar.split(made)[:2])
words = WordTokenizer.train([text])
V, end = words.vocab_size, words.encode("\n")[0]
tokens, heldout = tt.tensor(words.encode(text)), tt.tensor(words.encode(unseen)[: N * C + N]).view(N, C + 1)

# %% [markdown]
# ## How unsure is it?
#
# The loss (16), the mean of −ln q over the right words, is in **nats** a word; divided by ln 2 it is in **bits**. The
# **perplexity** $e^{\mathrm{loss}}$ is easier to imagine: it is 7 for a model that has to guess between 7 equally
# likely words. The rules make some 17,000 English sentences of 7.4 words, each with its end. A model that knows them by
# heart, and no more, needs ln 17,000 nats for each. Predict its perplexity, and that of ours before and after training.

# %%
tt.manual_seed(21)
model = Decoder(Config(D=32, H=2, F=64, L=2, C=C, V=V))
optimizer = tt.optim.AdamW(model.parameters(), lr=1e-2)
schedule = tt.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, total_iters=STEPS)


@tt.compile  # recorded once, then replayed (lesson 18)
def step(t):
    optimizer.zero_grad()
    loss = model(t[:, :-1], t[:, 1:])[1]
    loss.backward()
    optimizer.step()


for i in range(STEPS + 1):
    if i in (0, STEPS):
        loss = model(heldout[:, :-1], heldout[:, 1:])[1].item()
        print(f"unseen text: {loss:.2f} nats, {loss / math.log(2):.2f} bits a word, perplexity {math.exp(loss):.1f}")
    step(tokens[tt.randint(0, len(tokens) - C - 1, (B, 1)) + tt.arange(C + 1)])
    schedule.step()
sentences = {s.target for s in made}
by_heart = len(sentences) ** (len(sentences) / sum(len(s.split()) + 1 for s in sentences))
print(f"known by heart: perplexity {by_heart:.1f}")

# %% [markdown]
# ## Temperature, top-k, top-p
#
# (14) with a **temperature** T is $q = \mathrm{softmax}(L / T)$: below 1 likely words become likelier. **Top-k** keeps
# the k likeliest words, **top-p** the fewest that have at least p together; all others get 0. Does it matter whether T
# comes before or after? (Programs differ.) L / T has the order of L, so top-k keeps the same words. Top-p adds up
# probabilities, which T has changed. At T = 0 the formula has no value: L / 0 is ±∞, and ∞ − ∞ is NaN. As T → 0 the
# likeliest word gets 1 (or 1/m, if m words are equally likely). So programs take that word, and the first of equal
# ones: argmax.


# %%
def probabilities(L, T=1.0, k=V, p=1.0):  # logits (B, V)
    if T == 0:
        return F.one_hot(L.argmax(-1), V).float()
    L = (L / T).masked_fill(L.topk(k)[0][:, -1:] > L, -math.inf)
    q, order = L.softmax(-1).sort(descending=True)
    q = q * (q.cumsum(-1) - q < p)  # likelier ones have less than p: the word that reaches p stays
    return (q / q.sum(-1, keepdim=True)).gather(-1, order.argsort(-1))


L = model(tt.tensor([[end]]))[0][:, -1].detach()  # (1, V): how a sentence begins
for T in (2, 1, 0.5, 0.1, 0):
    q, formula = probabilities(L, T).topk(4)[0].numpy()[0].round(3), (L / T).softmax(-1).max().item()
    print(f"T = {T}: the likeliest words have {q}, by (14) {formula:.3f}")
for name, cut in (("top-k", {"k": 5}), ("top-p", {"p": 0.8})):
    q = probabilities(L, 2.0, **cut), probabilities(probabilities(L, **cut).log(), 2.0)
    kept, apart = [each.count_nonzero().item() for each in q], (q[0] - q[1]).abs().max().item()
    print(f"{name} keeps {kept[0]} words if T = 2 comes before, {kept[1]} if after; q differs by up to {apart:.2f}")
    assert (apart < 1e-6) == (name == "top-k")

# %% [markdown]
# ## Right, or free?
#
# Each setting writes 400 sentences. One counts as right if every three words in a row stand so in some sentence of the
# rules. The perplexity of what is said, by the q from which it is drawn, tells how free the choice was. Predict it for
# a T of 1, where the model says what it believes. Which of T, k and p lets most wrong words through, where they leave
# the same freedom? (After "she looks" only "at" and "for" are right; a dozen words can begin a sentence.)


# %%
@tt.no_grad()
def write(**settings):  # perplexity and right part of N sentences, and one of them
    t, nats = tt.full((N, 1), end), tt.zeros(N, 0)
    for _ in range(C - 1):
        q = probabilities(model(t, last=True)[0][:, -1], **settings)
        t = tt.cat([t, q.multinomial(1)], 1)
        nats = tt.cat([nats, -q.gather(1, t[:, -1:]).log()], 1)
    said = (t[:, :-1] == end).cumsum(1) == 1  # the first sentence of each row, and its end
    rows = [row[: 1 + n] for row, n in zip(t.tolist(), said.sum(1).tolist())]
    right = sum(rules.issuperset(zip(row, row[1:], row[2:])) for row in rows) / N
    return math.exp(nats[said].mean().item()), right, words.decode(rows[0][1:-1])


rules = {x for s in sentences for w in [words.encode(f"\n{s}\n")] for x in zip(w, w[1:], w[2:])}
figure, [[panel]] = plots.panels(size=(6.4, 4.4))
for name, *values in (("T", 0, 0.3, 0.5, 0.7, 1, 2), ("k", 2, 5, 10, 20), ("p", 0.4, 0.6, 0.8, 0.9)):
    free, right, said = zip(*(write(**{name: value}) for value in values))
    panel.semilogx(free, right, marker="o", base=2, label=f"{name} = {', '.join(map(str, values))}")
    for setting in zip(values, free, right, said):
        print(name, "= {}: perplexity {:.1f}, {:.0%} right: {}".format(*setting))
panel.legend(frameon=False)
panel.xaxis.set_major_formatter("{x:g}")
panel.set(xlabel="perplexity of what is said", ylabel="part that is right", title="right, or free?")
plots.show(figure, FIGURES / "21_sampling.png", alt="The freer the choice, the less is right; top-k lies lowest.")

# %% [markdown]
# ## Keys and values are kept, queries are not
#
# What comes next stands in the last row of (11). In (6) that row asks with its own q, and needs k and v of all words;
# an old q would only give an old row again. By the mask (5) no row sees later words, so k and v stay as they are when a
# word is added. A **KV cache** keeps them, in each layer, and a word costs one row. Without the mask each word would
# change the rows before it: one more reason why it stays on. Predict: how long must a text be for a cache to save time?

# %%
t, cache = heldout[:1, :C], model.new_cache()
cached = tt.cat([model(t[:, n : n + 1], cache=cache)[0] for n in range(C)], 1)  # one after the other: (1, C, V)
print(f"with the cache the logits differ by {(cached - model(t)[0]).abs().max().item():.0e}")
for name, causal in (("with", True), ("without", False)):
    other = Decoder(model.config.replace(causal=causal))
    other.load_state_dict(model.state_dict())
    change = (other(t[:, :-1])[0] - other(t)[0][:, :-1]).abs().max().item()
    print(f"{name} the mask a further word changes the logits of those before it by up to {change:.1f}")
    assert (change < 1e-4) == causal


@tt.no_grad()
def milliseconds(t, cache=None):
    start = perf_counter()
    large(t, cache=cache, last=True)
    return 1000 * (perf_counter() - start)


large = Decoder(Config(D=128, H=4, F=256, L=2, C=LONG, V=V))  # not trained: its time does not depend on the numbers
t, cache, sizes = tt.randint(0, V, (1, LONG)), large.new_cache(), [2**i for i in range(LONG.bit_length())]
for _ in range(2):  # the first time some kernels are loaded
    cache.clear()
    each = [milliseconds(t[:, n : n + 1], cache) for n in range(LONG)]
with_cache = [min(each[n // 2 : n]) for n in sizes]
without = [min(milliseconds(t[:, :n]) for _ in range(3)) for n in sizes]

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
plots.show(figure, FIGURES / "21_sampling_cost.png", alt=alt)

# %% [markdown]
# ## Exercises
#
# Four exercises on this lesson stand in `exercises/21_sampling.py`. Each has a check.
