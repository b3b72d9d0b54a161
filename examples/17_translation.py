# %% [markdown]
# # je suis étudiant
#
# Three words go in, four come out: "i am a student" (document 004, "Concrete Example"). So a word's place in the output
# does not say which word of the input it translates. How does the model know where to look? And how does it write a
# sentence when it has no word of it yet?

# %%
import sys
from pathlib import Path

import numpy as np

import tinytensor as tt
from tinytensor.viz import plots

sys.path.append(str(Path(__file__).resolve().parents[1]) if "__file__" in globals() else "..")
from models.data import grammar, pairs
from models.data.tokenizers import WordTokenizer
from models.inference.translate import cross_attention, translate
from models.transformer import BEGIN, PAD, STOP, Config, Transformer

FIGURES = Path("runs/lessons")
tt.manual_seed(0)
training, unseen, _ = grammar.split(grammar.pairs())  # French and English made by rules
words = pairs.train_tokenizer(WordTokenizer, training, None)
batches = pairs.PairBatches([pairs.example(words, s) for s in training], 24, 64, np.random.default_rng(0))

# %% [markdown]
# ## Training: all words at once
#
# The decoder is given "∅ i am a student" and must say "i am a student <stop>", each word from those before it: the mask
# hides the later ones (004, Mask). The sentences come in a few lengths, and the step is recorded once for each.

# %%
model = Transformer(Config(N=2, d_model=48, h=4, d_ff=96, n_vol=words.vocab_size, n_max=24, reduction="mean"))
optimizer = tt.optim.AdamW(model.parameters(), lr=3e-3)
schedule = tt.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, total_steps=700)


@tt.compile
def step(inputs, outputs):
    optimizer.zero_grad()
    loss = model(inputs, outputs)[1]
    loss.backward()
    optimizer.step()
    return loss


for _ in range(700):
    loss = step(*map(tt.tensor, batches.next()))
    schedule.step()
tests = unseen[::8]  # sentences that it has not seen: how many of them does it translate exactly?
for way, least, most in (({}, 0.8, 1.0), ({"literal": True}, 0.0, 0.4)):
    outputs = translate(model, [pairs.encode(words, s.source) for s in tests], **way)
    right = sum(pairs.decode(words, output) == s.target for output, s in zip(outputs, tests)) / len(tests)
    print(f"{right:.0%} of unseen sentences exactly right{', without the mask (see below)' if way else ''}")
    assert least <= right <= most

# %% [markdown]
# ## Where it looks
# Attention(Q, K', V') = softmax(Q K'ᵀ / √d_k) V' (000, "Cross-attention"): queries come from the words written so far,
# keys and values from the French. A row is a word about to be written. In which head does "student" look at "étudiant"?

# %%
source = pairs.encode(words, grammar.KNOWN)
output = translate(model, [source])[0]
columns, rows = pairs.labels(words, source), pairs.labels(words, [*output, STOP])
plots.show(plots.attention(cross_attention(model, source, output), rows, columns), FIGURES / "17_translation.png")

# %% [markdown]
# ## Word by word
#
# ∅ gives "i", "∅ i" gives "am". Each row below is one run over all words so far, and predicts a word after each of
# them. With the mask no earlier word can see the new one, so earlier predictions stay, rows only grow, and a cache can
# keep them.
#
# 004 takes the mask away here ("during inference, the mask function was removed"), so that earlier words can still
# change: in its example "he" becomes "i". But a model cannot use information that training never gave it: no place has
# ever seen a later word, least of all the very word that it has to say.


# %%
def decode(masked: bool) -> None:
    encoded, mask = model.encode(tt.tensor([source]))
    said: list[int] = []
    while STOP not in said[-1:] and len(said) < 7:
        said = model.decode(tt.tensor([[BEGIN, *said]]), encoded, mask, is_causal=masked).argmax(-1).tolist()[0]
        print("   ", " ".join(f"{word:<10}" for word in pairs.labels(words, said)))


for masked in (True, False):
    print("masked:" if masked else "without the mask, as 004 has it:")
    decode(masked)

# %% [markdown]
# ## Exercise
#
# The decoder is given the output shifted to the right: ∅ in front, the last place dropped. Without the shift the model
# is shown each word that it has to say: the loss soon is 0, and it translates nothing. Write the shift.


# %%
def answer(outputs):
    """The decoder's input, for outputs (B, n) that end with STOP and are filled up with PAD; ∅ is BEGIN."""
    ...


def check(answer) -> str:
    outputs = tt.tensor([[7, 8, 9, STOP], [5, STOP, PAD, PAD]])
    if (found := answer(outputs)) is None:
        return "not solved yet. Hint: tt.full_like(outputs[:, :1], BEGIN) is a column of ∅, and tt.cat joins columns."
    expected = [[BEGIN, 7, 8, 9], [BEGIN, 5, STOP, PAD]]
    return "right" if found.tolist() == expected else f"wrong: {outputs.tolist()} became {found.tolist()}."


print("exercise:", check(answer))
