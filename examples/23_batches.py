# %% [markdown]
# # Batches, epochs, memory
#
# The loss is a mean over many texts. Should a step use one, some, or all of them? What does that change? The model is
# the decoder of document 003 (lesson 13; `documents.md` lists the documents), on a page of Python's reference.

# %%
import os
import sys
import tracemalloc
from pathlib import Path

import tinytensor as tt
from tinytensor.viz import plots

sys.path.append(str(Path(__file__).resolve().parents[1]) if "__file__" in globals() else "..")
from examples.exercises.clinic import TOKENS, C, V
from models.decoder import Config, Decoder

FIGURES = Path("runs/lessons")
N, SIZES, EPOCHS = (2, (1, 2), 1) if os.environ.get("NUMBA_DISABLE_JIT") else (256, (4, 16, 64, 256), 20)
texts, config = TOKENS[: N * (C + 1)].view(N, C + 1), Config(D=32, H=2, F=64, L=2, C=C, V=V)


def loss(model, t):  # a mean over the texts t
    return model(t[:, :-1], t[:, 1:])[1]


def gradient(model, *parts, divide=1):  # of all parameters, in one row
    model.zero_grad()
    for part in parts:
        (loss(model, part) / divide).backward()
    return tt.cat([p.grad.flatten() for p in model.parameters()])


# %% [markdown]
# ## Noise against steps
#
# A **full batch** takes the gradient of all N texts, a **minibatch** that of B random ones: it is right on average, and
# has noise. An **epoch** (lesson 20) is N / B steps here: each text comes once, in a new order, and all B cost the same
# arithmetic. Predict: what does a B four times as large do to the noise? Which B learns most in 20 epochs?


# %%
def train(B, rate):  # the loss of all texts after the last epoch
    tt.manual_seed(23)
    model = Decoder(config)
    optimizer = tt.optim.AdamW(model.parameters(), lr=rate)

    @tt.compile  # recorded once, then replayed (lesson 18)
    def step(t):
        optimizer.zero_grad()
        loss(model, t).backward()
        optimizer.step()

    for _ in range(EPOCHS):
        for rows in tt.randperm(N).split(B):
            step(texts[rows])
    return loss(model, texts).item()


tt.manual_seed(0)
model, rates, last = Decoder(config), (0.003, 0.01, 0.03), {}
whole = gradient(model, texts)
for B in SIZES:
    errors = [gradient(model, texts[tt.randperm(N)[:B]]) - whole for _ in range(20)]
    noise = (tt.stack(errors).norm(dim=1).mean() / whole.norm()).item()
    last[B] = {rate: round(train(B, rate), 2) for rate in rates}
    print(f"B = {B}: noise {noise:.0%} of the gradient; {EPOCHS * N // B} steps, loss by rate ρ: {last[B]}")
assert SIZES[0] == 1 or min(last[16].values()) < min(last[64].values()) < min(last[256].values())

# %% [markdown]
# The noise about halves: it falls as 1 / √B, until all texts are in the batch. A large rate lets it through, so a small
# batch needs a small rate. The full batch has no noise, and few steps.
#
# ## Accumulation: a batch in parts
#
# `backward()` adds up the gradients of parts (lesson 3), and one step follows the last part. That is the step of the
# whole batch (dropout draws other numbers), if each loss is divided by the number of equal parts. And if it is not?

# %%
parts, whole = texts[: SIZES[-2]].split(SIZES[0]), gradient(model, texts[: SIZES[-2]])
for divide in (len(parts), 1):
    ratio = (gradient(model, *parts, divide=divide).norm() / whole.norm()).item()
    print(f"{len(parts)} parts, each loss / {divide}: the gradient is {ratio:.4f} times that of the batch")

# %% [markdown]
# ## Memory
#
# A parameter costs four numbers: itself, its gradient, and two that Adam keeps. The tape keeps what the rules of
# `backward()` read: the **activations** of each layer, for each text. Predict from which B on these need more. NumPy
# reports its arrays to `tracemalloc`. `no_grad()` makes no tape: what is left of a loss?


# %%
def kept(B, tape):  # bytes that are there when the loss is known, and were not before
    with tt.set_grad_enabled(tape):
        before, _loss = tracemalloc.get_traced_memory()[0], loss(model, texts[:B])
    return tracemalloc.get_traced_memory()[0] - before


tracemalloc.start()
_, activations, untaped = ([kept(B, tape) for B in SIZES] for tape in (True, True, False))  # first calls make more
tracemalloc.stop()
held = 16 * len(whole)  # four numbers of four bytes for each parameter
for row in zip(SIZES, activations, untaped):
    print("B = {}: {:,} bytes on the tape, {:,} with no_grad();".format(*row), f"{held:,} for parameters")
figure, [[left, right]] = plots.panels(1, 2, size=(9, 3.6))
plots.lines(left, SIZES, {f"ρ = {rate}": [last[B][rate] for B in SIZES] for rate in rates}, marker="o")
left.set(xscale="log", xlabel="B", ylabel="nats a character", title=f"loss after {EPOCHS} epochs")
plots.lines(right, SIZES, {"activations": activations, "for parameters": [held] * len(SIZES)}, marker="o")
right.set(xscale="log", yscale="log", xlabel="B", ylabel="bytes", title="memory of a step")
plots.show(figure, FIGURES / "23_batches.png", alt="Each rate has a best B; activations grow with B.")

# %% [markdown]
# In parts the memory is that of one part. A gradient 16 times as long makes step (18) 16 times as long; Adam hides it.
#
# ## Exercises
#
# Four exercises on this lesson stand in `exercises/23_batches.py`. Each has a check.
