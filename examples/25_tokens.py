# %% [markdown]
# # Tokens: characters, bytes, and pairs of them
#
# A model computes with numbers, and a text has none. Eq. (1) of document 003 (see `documents.md`) begins with E[t], the
# row of a table for the **token** t: a piece of text that has a number. Which pieces should it be, letters or words?
# And what does a larger **vocabulary**, which is all tokens together, cost?

# %%
import math
import os
import sys
from collections import Counter
from operator import add
from pathlib import Path
from pydoc_data.topics import topics

import tinytensor as tt
from tinytensor.viz import plots

sys.path.append(str(Path(__file__).resolve().parents[1]) if "__file__" in globals() else "..")
from models.decoder import Config, Decoder

FIGURES = Path("runs/lessons")
few = os.environ.get("NUMBA_DISABLE_JIT")  # few steps where kernels run as slow, plain Python
SIZES, STEPS, N, B, C, D = ((256, 258), 1, 400, 1, 8, 32) if few else ((256, 320, 512, 768), 400, 40000, 16, 32, 32)
text = " ".join(" ".join(p.split()) for page in topics.values() for p in page.split("\n\n") if p.endswith("."))
text, heldout = text[:N], text[N : N + N // 6]  # of Python's language reference, as in lesson 13

# %% [markdown]
# ## Characters, bytes, pairs
#
# If tokens are the characters of a training text, another text may have an "ï" without a number. In UTF-8 each text is
# a row of bytes, and a byte has 256 values: with these as tokens nothing is unknown, but rows are long. **Byte-pair
# encoding** (Sennrich et al., 2016) makes them shorter by **merges**: the pair of neighbours that is the most frequent
# one becomes a new token, in all of the text, and so on. Predict the first two merges of "low lower lowest". Pairs may
# tie, as they do here. Any rule will do, the largest numbers or the first in the text, but then the tokens are others.


# %%
def encode(text, pairs):  # a string in which the character with the number i stands for token i
    row = text.encode().decode("latin-1")  # a character for each byte
    for new, pair in enumerate(pairs, 256):  # in the order in which they were learnt
        row = row.replace(pair, chr(new))
    return row


def learn(text, V, tie=str):
    """The pairs that are the tokens 256, 257, ..., and what each token stands for."""
    row, pairs, pieces = encode(text, []), [], {chr(i): chr(i) for i in range(256)}
    while len(pieces) < V:
        counts, new = Counter(map(add, row, row[1:])), chr(len(pieces))
        pairs.append(max(counts, key=lambda pair: (counts[pair], tie(pair))))
        row, pieces[new] = row.replace(pairs[-1], new), "".join(pieces[each] for each in pairs[-1])
    return pairs, pieces


print(f"naïve: {len('naïve')} characters, {len(encode('naïve', []))} bytes")
for merges, tie in ((1, str), (1, len), (3, str), (3, len)):  # len: all pairs are alike, so the first in the text
    pairs, pieces = learn("low lower lowest", 256 + merges, tie)
    print(f"{merges} merges:", *(pieces[token] for token in encode("low lower lowest", pairs)), sep=" | ")

# %% [markdown]
# What becomes of a page of text? The first merges are parts of words, later ones are whole words. (Most tokenizers cut
# a text into words before, so that no token is "e t" or "dog."; the one in `models/data/tokenizers.py` does.) Predict:
# how many bytes has a token on average, after 512 merges?

# %%
pairs, pieces = learn(text, max(SIZES))
for first in (256, (256 + max(SIZES)) // 2, max(SIZES) - 7):
    print(f"tokens from {first} on:", *list(pieces.values())[first : first + 7], sep=" | ")
rows = {V: [encode(part, pairs[: V - 256]) for part in (text, heldout)] for V in SIZES}
print("bytes a token:", {V: round(len(rows[256][0]) / len(known), 2) for V, (known, _) in rows.items()})
print("held-out text:", *(pieces[token] for token in rows[max(SIZES)][1][:20]), sep=" | ")

# %% [markdown]
# ## What does a vocabulary cost?
#
# The tables E of (1) and O of (11) hold V D numbers each, and a rare token is seldom seen. On the other hand C tokens
# reach further back, and a step learns from more text. We train a model for each vocabulary, with the same number of
# steps. Predict: which one has the least loss on the held-out text in nats a token? And in bits a byte?


# %%
def train(V, known, unseen):  # the model, and its loss on unseen tokens
    tt.manual_seed(25)
    model = Decoder(Config(D=D, C=C, V=V))
    optimizer = tt.optim.AdamW(model.parameters(), lr=0.01)
    for _ in range(STEPS):
        t = known[tt.randint(0, len(known) - C - 1, (B, 1)) + tt.arange(C + 1)]
        optimizer.zero_grad()
        model(t[:, :-1], t[:, 1:])[1].backward()
        optimizer.step()
    t = unseen[: len(unseen) // C * C].view(-1, C)
    return model, model(t[:, :-1], t[:, 1:])[1].item()


nats, bits, tables = [], [], []
for V, parts in rows.items():
    model, loss = train(V, *(tt.tensor([ord(token) for token in part]) for part in parts))
    nats.append(loss)
    bits.append(loss / math.log(2) * len(parts[1]) / len(rows[256][1]))
    tables.append(2 * V * D / model.num_parameters())
    rare = sum(parts[0].count(chr(i)) < 20 for i in range(256, V))
    print(f"V = {V}: {nats[-1]:.2f} nats a token, {bits[-1]:.2f} bits a byte, {rare} tokens occur less than 20 times")
assert STEPS == 1 or (nats == sorted(nats) and bits[0] > bits[1] > bits[2])
figure, [[left, right]] = plots.panels(1, 2, size=(9, 3.4))
plots.lines(left, SIZES, {"nats a token": nats, "bits a byte": bits}, marker="o")
plots.lines(right, SIZES, {"share of E and O": tables}, marker="o")
left.set(xlabel="V", ylim=(0, None), title="loss on held-out text")
right.set(xlabel="V", ylim=(0, 1), title="tables in all numbers of the model")
plots.show(figure, FIGURES / "25_tokens.png", alt="With V the loss a token rises, that a byte falls, and tables grow.")

# %% [markdown]
# A longer token is harder to guess, and there are fewer of them: the loss a token rises although the model gets better.
# Only losses a byte, or a character, can be compared between vocabularies. Here V = 512 is enough: more tokens are too
# rare to be learnt from so short a text, and their rows are numbers that something has to store.
#
# ## Exercises
#
# Four exercises on this lesson stand in `exercises/25_tokens.py`. Each has a check.
