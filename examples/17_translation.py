# %% [markdown]
# # je suis étudiant
#
# Three words go in, four come out: "i am a student". This is the "Concrete Example" of document 004 (`documents.md`
# lists the documents). So a word's place in the output does not say which word of the input it translates. How does the
# model know where to look? And how does it write a sentence when it has no word of it yet?

# %%
import os
import sys
from pathlib import Path

import numpy as np

import tinytensor as tt
from tinytensor.viz import plots

sys.path.append(str(Path(__file__).resolve().parents[1]) if "__file__" in globals() else "..")
from models.data import grammar, pairs
from models.data.tokenizers import WordTokenizer
from models.inference.translate import cross_attention, translate
from models.transformer import BEGIN, STOP, Config, Transformer

FIGURES = Path("runs/lessons")
STEPS, SIZE = (1, 2) if os.environ.get("NUMBA_DISABLE_JIT") else (700, 64)  # kernels that run as Python are slow
tt.manual_seed(0)
training, unseen, _ = grammar.split(grammar.pairs())  # French sentences and their English, made by rules
words = pairs.train_tokenizer(WordTokenizer, training, None)  # each word has a number
batches = pairs.PairBatches([pairs.example(words, s) for s in training], 24, SIZE, np.random.default_rng(0))

# %% [markdown]
# ## Training: all words at once
#
# The encoder reads the French sentence. The decoder is given "∅ i am a student", where ∅ marks the beginning, and must
# say "i am a student <stop>": each word from those before it. The mask of lesson 9 hides the later ones (004, "Mask").
# Without it the decoder could copy the next word from its own input. So all words of a sentence are learnt in one run.

# %%
model = Transformer(Config(N=2, d_model=48, h=4, d_ff=96, n_vol=words.vocab_size, n_max=24, reduction="mean"))
optimizer = tt.optim.AdamW(model.parameters(), lr=3e-3)
schedule = tt.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, total_steps=STEPS)


@tt.compile  # the sentences come in a few lengths, and the step is recorded once for each (lesson 18)
def step(inputs, outputs):
    optimizer.zero_grad()
    loss = model(inputs, outputs)[1]
    loss.backward()
    optimizer.step()
    return loss


losses = []
for _ in range(STEPS):
    losses.append(step(*map(tt.tensor, batches.next())).item())
    schedule.step()
figure, [[panel]] = plots.panels(size=(6.4, 3))
panel.semilogy(losses, linewidth=1)
panel.set(xlabel="step", ylabel="nats a word", title="the loss of training")
plots.show(figure, FIGURES / "17_translation_loss.png", alt="The loss falls from about 5 nats a word to below 0.1.")

# %% [markdown]
# ## Where it looks
#
# In cross-attention the queries come from the words written so far, and keys and values from the French (000,
# "Cross-attention"; a prime marks what comes from there):
#
# $$ \mathrm{Attention}(Q, K', V') = \mathrm{softmax}\Big(\frac{Q K'^{\top}}{\sqrt{d_k}}\Big) V' $$
#
# A row of each field is a word about to be written. Predict: at which French word does "student" look in layer 2, and
# at which one "a", which has no French word of its own?

# %%
source = pairs.encode(words, grammar.KNOWN)  # je suis étudiant
output = translate(model, [source])[0]
columns, rows = pairs.labels(words, source), pairs.labels(words, [*output, STOP])
figure = plots.attention(cross_attention(model, source, output), rows, columns)
figure.supxlabel("word of the French sentence", fontsize="medium")
figure.supylabel("word about to be written", fontsize="medium")
plots.show(figure, FIGURES / "17_translation.png", alt="In layer 2 the row of student looks at étudiant.")

# %% [markdown]
# ## Word by word
#
# ∅ gives "i", and "∅ i" gives "am". Each row below is one run over all words so far, and predicts a word after each of
# them. With the mask no earlier word can see a new one. So its prediction stays, and rows only grow.
#
# 004 takes the mask away when it translates ("during inference, the mask function was removed"). Earlier words may then
# look at later ones, and change. In its example the model first says "he"; given "∅ he" it says "i am", and has
# corrected itself. That sounds like an advantage. But in training no place ever saw a later word, least of all the very
# word that it has to say. Predict: what part of the sentences does the model translate without the mask?


# %%
def decode(masked: bool) -> None:
    encoded, mask = model.encode(tt.tensor([source]))
    said: list[int] = []
    while STOP not in said[-1:] and len(said) < 7:
        said = model.decode(tt.tensor([[BEGIN, *said]]), encoded, mask, is_causal=masked).argmax(-1).tolist()[0]
        print("   ", " ".join(f"{word:<10}" for word in pairs.labels(words, said)))


tests = unseen[::8] if STEPS == 700 else unseen[:1]
for masked in (True, False):
    print("with the mask:" if masked else "without it, as in 004:")
    decode(masked)
    outputs = translate(model, [pairs.encode(words, s.source) for s in tests], literal=not masked)
    right = sum(pairs.decode(words, output) == s.target for output, s in zip(outputs, tests)) / len(tests)
    print(f"    {right:.0%} of {len(tests)} unseen sentences exactly right")
    assert STEPS < 700 or (right > 0.8 if masked else right < 0.4)

# %% [markdown]
# ## Exercises
#
# Four exercises on this lesson stand in `exercises/17_translation.py`. Each has a check.
