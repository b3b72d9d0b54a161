# %% [markdown]
# # A clinic of training runs
#
# A program that is wrong mostly stops with an error. A training run that is wrong mostly goes on, and its loss may even
# fall. How does one find the fault? Here are twelve small runs with one fault each. They train the decoder of document
# 003 (lesson 13; `documents.md` lists the documents) on a page of Python's language reference.

# %%
import math
import os
import random
import sys
from pathlib import Path

import numpy as np

from tinytensor.viz import plots

sys.path.append(str(Path(__file__).resolve().parents[1]) if "__file__" in globals() else "..")
from examples.exercises.clinic import FAULTS, REPAIRS, B, C, Readings, Run, V, sheet, train, with_fault

FIGURES = Path("runs/lessons")
few = {"steps": 1} if os.environ.get("NUMBA_DISABLE_JIT") else {}  # kernels that run as Python are slow

# %% [markdown]
# ## A healthy run
#
# `exercises/clinic.py` has the decoder, its training step, and a setting for each fault. A step takes B texts of C
# characters from random places: B is the **batch size**, and the loss is the mean over the batch. When as many
# characters were taken as the text has, an **epoch** is over. Two more habits of training practice:
#
# - **Xavier initial values**: a weight matrix from n to m numbers begins with random numbers of variance 2 / (n + m),
#   so numbers on their way forward, and gradients on their way back, keep about their size (Glorot and Bengio, 2010).
# - **Dropout**: in training each number that a sublayer adds is set to 0 with probability p, else divided by 1 - p, so
#   that no unit relies on a single other one. In evaluation mode, `model.eval()`, nothing is dropped.
#
# Predict the loss of the first step: a fresh model knows none of the V characters.

# %%
healthy = train(Run(**few))
print(f"log V = {math.log(V):.2f}, loss {healthy.loss[0]:.2f} -> {np.mean(healthy.loss[-20:]):.2f}")
print(f"{len(healthy.loss)} steps with a batch size of {B} are {len(healthy.loss) * B * C / Run.text:.1f} epochs")

# %% [markdown]
# ## Warm-up and clipping
#
# The step (18) goes ρ times the gradient. A gradient is the slope at one point: a long step leaves the region where it
# holds, most easily in a fresh model, whose slopes change fast. **Warm-up** lets the rate grow over the first w steps.
# **Clipping** shortens a gradient g that is longer than c, after `backward()` and before the step: none exceeds ρ c.
#
# $$ \rho_i = \rho \min(1, i / w), \qquad g \leftarrow g \min(1, c / |g|) $$
#
# Here ρ = 2 is too much without them. Which of the two helps more?

# %%
ways = {"neither": (0, math.inf), "warm-up": (60, math.inf), "clipping": (0, 1.0), "both": (60, 1.0)}
curves = {}
for name, (w, c) in ways.items():
    losses = [train(Run(seed, rate=2.0, warm_up=w, max_norm=c, **few)).loss for seed in range(3)]
    curves[name] = np.mean(losses, axis=0)
    print(f"{name}: highest loss {max(curves[name]):.1f}, last {np.mean(curves[name][-20:]):.2f}")
assert few or sorted(curves, key=lambda name: -curves[name][-20:].mean()) == list(ways)
figure, [[panel]] = plots.panels(size=(6.4, 3.6))
plots.lines(panel, np.arange(len(losses[0])), curves)
panel.set(xlabel="step", ylabel="nats a character", title="loss with a rate of 2, mean of three seeds")
plots.show(figure, FIGURES / "20_training_clinic_warm_up.png", alt="Without warm-up and clipping the loss jumps up.")

# %% [markdown]
# Warm-up alone delays the jump until the rate is full, at step 60, and makes it smaller. With both there is none.
#
# ## Twelve runs
#
# Dots are the loss on held-out text, the dotted line is log V. Which runs look healthy? Guess the fault of each letter.

# %%
letters = dict(zip("ABCDEFGHIJKL", random.Random(2).sample(sorted(FAULTS), len(FAULTS))))
runs = {letter: train(with_fault(name, **few)) for letter, name in letters.items()}
curves = sheet(runs, Readings.draw_losses)
plots.show(curves, FIGURES / "20_training_clinic.png", alt="Twelve runs: their losses stand still, jump, or fall to 0.")

# %% [markdown]
# The table adds the loss at the last *place* of the context; differences of the loss of one text, measured *twice*, or
# *alone* and beside others, and of the gradients of both *layers* at first; the longest *step*, divided by ρ; the share
# of the last 50 gradients that is *over 1*. The picture: sizes after the embedding E, each attention a and network f.

# %%
print(f"   {Readings.HEADER}", *(f"{letter}  {run.row()}" for letter, run in {"-": healthy, **runs}.items()), sep="\n")
sizes = sheet(runs, Readings.draw_sizes, healthy)
plots.show(sizes, FIGURES / "20_training_clinic_sizes.png", alt="Sizes by sublayer: some are far from healthy ones.")

# %% [markdown]
# ## The faults
#
# Ask first for what no healthy run can show. In brackets stands the setting that mends the run.
#
# - NaN from a1 on (`diagonal`): a token that may not even see itself has a row of −∞ in (5); softmax divides 0 by 0.
# - A first loss far above log V (`gain`): initial values ten times too large make a fresh model sure of nonsense.
# - A step longer than c = 1 (`clip`): clipping comes after the step. No other c changes a digit of this run.
# - Two layers with the same gradient (`tied`): `[layer] * 2` is one layer, twice, with half the weights.
# - One text, two losses (`evaluation`): dropout was left on.
# - A loss that depends on the neighbours in the batch (`axis`): the norm takes its mean over the batch, not over D.
# - It begins at log V and stays there, with tiny gradients (`softmax`): probabilities are taken for logits; exercise 3.
# - It jumps far above log V, and activations grow a hundredfold (`rate`): each step is too long.
# - It stands still, activations grow, gradients stay long (`zero_grad`): the gradients of all steps are added up.
# - It falls, and rises on held-out text (`text`): 60 characters are learnt by heart. The model **overfits**.
# - It is near 0, on held-out text, too (`shift`): the target of a token is the token itself; lesson 13, exercise 2.
# - It is near 0 but at the last place (`mask`): rows and columns are exchanged, so tokens see what they should guess.
#
# What does a repair do that treats the sign, not the cause? Which runs look healthy then, but for one number?

# %%
print(" " * 36, Readings.HEADER)
for letter, name in letters.items():
    change = REPAIRS[name][0] | few
    print(f"{letter}  {name:10}  {change!s:19}   {train(with_fault(name, **change)).row()}")

# %% [markdown]
# ## Exercises
#
# Four exercises on this lesson stand in `exercises/20_training_clinic.py`. Each has a check.
