# %% [markdown]
# # From a model to text
#
# A model gives each next word a probability, and something has to choose one: lesson 13 divided the logits by 0.5, and
# drew. Why 0.5? Why not simply the likeliest word? Letters and equations are those of document 003 (`documents.md`).

# %%
import math
import os
import random
import sys
from pathlib import Path

import tinytensor as tt
from tinytensor.viz import plots

sys.path.append(str(Path(__file__).resolve().parents[1]) if "__file__" in globals() else "..")
from models.data import grammar
from models.data.tokenizers import WordTokenizer
from models.decoder import Config, Decoder

FIGURES = Path("runs/lessons")
STEPS, B, N, C = (1, 1, 2, 4) if os.environ.get("NUMBA_DISABLE_JIT") else (2000, 16, 400, 24)  # few in Python
made = grammar.pairs()  # sentences made by rules; we take the English ones, as in lesson 19
sentences = {s.target for s in made}
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
optimizer = tt.optim.AdamW(model.parameters())
for i in range(STEPS + 1):
    if i in (0, STEPS):
        loss = model(heldout[:, :-1], heldout[:, 1:])[1].item()
        print(f"unseen text: {loss:.2f} nats, {loss / math.log(2):.2f} bits a word, perplexity {math.exp(loss):.1f}")
    t = tokens[tt.randint(0, len(tokens) - C - 1, (B, 1)) + tt.arange(C + 1)]
    optimizer.param_groups[0]["lr"] = 0.01 * (1 - i / STEPS)
    optimizer.zero_grad()
    model(t[:, :-1], t[:, 1:])[1].backward()
    optimizer.step()
print(f"by heart: perplexity {len(sentences) ** (len(sentences) / sum(len(s.split()) + 1 for s in sentences)):.1f}")

# %% [markdown]
# ## Temperature, top-k, top-p
#
# (14) with a **temperature** T is $q = \mathrm{softmax}(L / T)$: below 1 likely words become likelier. **Top-k** keeps
# the k likeliest words, **top-p** the fewest that have at least p together; all others get 0. Does it matter whether T
# comes before or after? (Programs differ.) L / T has the order of L, so top-k keeps the same words. Top-p adds up
# probabilities, which T has changed. At T = 0 the formula has no value: L / 0 is ±∞, and ∞ − ∞ is NaN. As T → 0 the
# likeliest word gets 1 (or 1/m, if m words are equally likely). So programs take the first of the likeliest: argmax.


# %%
def probabilities(L, T=1.0, k=V, p=1.0):  # logits (B, V)
    if T == 0:
        return tt.eye(V)[L.argmax(-1)]
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
def write(name, value):  # perplexity and right part of N sentences
    t, nats = tt.full((N, 1), end), tt.zeros(N, 0)
    for _ in range(C - 1):
        q = probabilities(model(t, last=True)[0][:, -1], **{name: value})
        t = tt.cat([t, q.multinomial(1)], 1)
        nats = tt.cat([nats, -q.gather(1, t[:, -1:]).log()], 1)
    said = (t[:, :-1] == end).cumsum(1) == 1  # the first sentence of each row, and its end
    rows = [row[: 1 + n] for row, n in zip(t.tolist(), said.sum(1).tolist())]
    free, right = math.exp(nats[said].mean().item()), sum(rules.issuperset(zip(r, r[1:], r[2:])) for r in rows) / N
    print(f"{name} = {value}: perplexity {free:.1f}, {right:.0%} right: {words.decode(rows[0][1:-1])}")
    return free, right


rules = {x for s in sentences for w in [words.encode(f"\n{s}\n")] for x in zip(w, w[1:], w[2:])}
figure, [[panel]] = plots.panels(size=(6.4, 4.4))
for name, *values in (("T", 0, 0.3, 0.5, 0.7, 1, 2), ("k", 2, 5, 10, 20), ("p", 0.4, 0.6, 0.8, 0.9)):
    free, right = zip(*(write(name, value) for value in values))
    panel.plot(free, right, marker="o", label=f"{name} = {', '.join(map(str, values))}")
panel.legend(frameon=False)
panel.set(xlabel="perplexity of what is said", ylabel="part that is right", title="right, or free?")
plots.show(figure, FIGURES / "21_sampling.png", alt="The freer the choice, the less is right; top-k lies lowest.")

# %% [markdown]
# ## Exercises
#
# Four exercises on this lesson stand in `exercises/21_sampling.py`. Each has a check.
