# %% [markdown]
# # Overfitting, seen
#
# A model that learns for long knows its text by heart, and does worse on other text. What goes wrong? Which remedy
# helps, and how far? The model is the decoder of document 003 (`documents.md`), on a page of Python's reference.

# %%
import math
import os
import sys
from pathlib import Path

import tinytensor as tt
from tinytensor.viz import plots

sys.path.append(str(Path(__file__).resolve().parents[1]) if "__file__" in globals() else "..")
from examples.exercises.clinic import TOKENS, C, V
from models.decoder import Config, Decoder

FIGURES = Path("runs/lessons")
STEPS, EVERY, B, SHOWN = (1, 1, 1, 1) if os.environ.get("NUMBA_DISABLE_JIT") else (600, 20, 16, 58)  # few in Python


def pieces(tokens):  # the last texts of C characters, each with the next one
    return tokens[-SHOWN * (C + 1) :].view(SHOWN, C + 1)


@tt.no_grad()
def measure(model, texts):  # the loss, the mean probability of its guess, and how often this is the right character
    logits, loss = model(texts[:, :-1], texts[:, 1:])
    q, guess = logits.softmax(-1).max(-1)
    return loss.item(), q.mean().item(), (guess == texts[:, 1:]).double().mean().item()


def train(n=1000, D=32, dropout=0.0, decay=0.0, patience=STEPS):  # on n characters
    tt.manual_seed(24)
    model, rows = Decoder(Config(D=D, H=2, F=2 * D, L=2, C=C, V=V, dropout=dropout)), []
    optimizer = tt.optim.AdamW(model.parameters(), lr=0.01, weight_decay=decay)

    @tt.compile  # recorded once, then replayed (lesson 18)
    def step(t):
        optimizer.zero_grad()
        model(t[:, :-1], t[:, 1:])[1].backward()
        optimizer.step()

    for i in range(EVERY, STEPS + 1, EVERY):
        for _ in range(EVERY):
            step(TOKENS[tt.randint(0, n - C, (B, 1)) + tt.arange(C + 1)])
        model.eval()
        rows.append((i, measure(model, pieces(TOKENS[:n]))[0], *measure(model, heldout)))
        model.train()
        lowest = min(rows, key=lambda row: row[2])  # the lowest held-out loss so far
        if i - lowest[0] >= patience * EVERY:
            break
    return model, rows, lowest


# %% [markdown]
# ## Sure, and wrong
#
# No run learns from the end of the page. Predict: is a trained model wrong there more often than at its lowest loss?

# %%
heldout = pieces(TOKENS)
model, rows, lowest = train()
for name, (i, known, loss, sure, right) in (("lowest", lowest), ("at the end", rows[-1])):
    print(f"{name}, step {i}: loss {known:.2f}, on held-out text {loss:.2f}, perplexity {math.exp(loss):.0f};", end=" ")
    print(f"its guess has {sure:.0%}, and is right in {right:.0%}")
steps, known, losses, sure, right = zip(*rows)
assert STEPS == 1 or (losses[-1] > lowest[2] + 1 and right[-1] > lowest[4] and sure[-1] > lowest[3] + 0.2)
figure, [[left, panel]] = plots.panels(1, 2, size=(9, 3.6))
plots.lines(left, steps, {"learnt text": known, "held-out text": losses, "log V": [math.log(V)] * len(steps)})
left.set(xlabel="step", ylabel="nats a character", title="loss", ylim=(0, None))
plots.lines(panel, steps, {"probability of its guess": sure, "part that is right": right})
panel.set(xlabel="step", title="held-out text", ylim=(0, 1))
plots.show(figure, FIGURES / "24_overfitting.png", alt="Held-out loss turns up; guesses get surer, and a bit better.")

# %% [markdown]
# It is right more often. But −ln q is large where it was sure of something else, and it is surer than it is right. With
# a loss above log V, the perplexity (lesson 21) of guessing would be better. A model **overfits** from the turn on.
#
# ## Dropout, and evaluation mode
#
# Dropout (lesson 20) draws new zeros each time, so that no unit can rely on a single other one. `model.eval()` turns it
# off, `model.train()` on. Predict what it costs to forget the first one. Which of the losses here does training print?

# %%
model, _, _ = train(n=4000, dropout=0.2)
for mode in (False, True, True):
    model.train(mode)
    known, (loss, _, right) = measure(model, pieces(TOKENS[:4000]))[0], measure(model, heldout)
    said = f"loss {known:.2f}, on held-out text {loss:.2f}, perplexity {math.exp(loss):.1f}, {right:.0%} right"
    print("dropout", "on:" if mode else "off:", said)

# %% [markdown]
# Training prints the loss with dropout on: the learnt text looks harder than it is, and the gap smaller.
#
# ## Remedies
#
# **Early stopping** keeps the weights of the lowest held-out loss, and ends when none was lower for a while (exercise
# 4). **Weight decay** multiplies each weight by 1 − ρ λ in each step. Others are dropout, a smaller model, and more
# text. Predict for each: does it only flatten the rise, or is the lowest loss lower, too?

# %%
ways = {"nothing": {}, "early stopping": {"patience": 5}, "dropout 0.3": {"dropout": 0.3}, "decay 3": {"decay": 3.0}}
ways |= {"a fourth of the width": {"D": 8}, "twice the text": {"n": 2000}, "four times the text": {"n": 4000}}
figure, [[panel]] = plots.panels(size=(6.4, 4.4))
for name, settings in ways.items():
    _, rows, lowest = train(**settings)
    plots.lines(panel, [row[0] for row in rows], {name: [row[2] for row in rows]})
    print(f"{name}: lowest {lowest[2]:.2f}, at step {lowest[0]}; at the end, step {rows[-1][0]}, {rows[-1][2]:.2f}")
panel.set(xlabel="step", ylabel="nats a character", title="loss on held-out text")
plots.show(figure, FIGURES / "24_overfitting_remedies.png", alt="More text lowers the curve; the others flatten it.")

# %% [markdown]
# Only more text goes far below the lowest loss of all others: it is the best remedy, and early stopping the cheapest.
#
# ## Exercises
#
# Four exercises on this lesson stand in `exercises/24_overfitting.py`. Each has a check.
