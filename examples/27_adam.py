# %% [markdown]
# # Adam and its rate
#
# Lesson 4 shows the path of Adam; here is its formula. Does it need its correction of a bias? Why does AdamW keep its
# decay apart? And why does one change the rate on the way? The model is the decoder of document 003 (`documents.md`).

# %%
import os
import sys
from pathlib import Path

import numpy as np

import tinytensor as tt
from tinytensor.viz import plots

sys.path.append(str(Path(__file__).resolve().parents[1]) if "__file__" in globals() else "..")
from examples.exercises.clinic import TOKENS, C, V
from models.decoder import Config, Decoder

FIGURES = Path("runs/lessons")
N, B, EPOCHS = (2, 1, 1) if os.environ.get("NUMBA_DISABLE_JIT") else (256, 8, 20)  # few in Python
texts, t = TOKENS[: N * (C + 1)].view(N, C + 1), np.arange(EPOCHS * N // B) + 1  # the steps


def train(rates, beta2=0.999):  # with a rate for each step; the mean loss of each epoch
    tt.manual_seed(27)
    model, losses = Decoder(Config(D=32, H=2, F=64, L=2, C=C, V=V)), []
    optimizer = tt.optim.Adam(model.parameters(), betas=(0.9, beta2))

    @tt.compile  # recorded once, then replayed (lesson 18)
    def step(texts):
        optimizer.zero_grad()
        loss = model(texts[:, :-1], texts[:, 1:])[1]
        loss.backward()
        optimizer.step()
        return loss

    for _ in range(EPOCHS):
        for rows in tt.randperm(N).split(B):
            optimizer.param_groups[0]["lr"] = rates[len(losses)]
            losses.append(step(texts[rows]).item())
    return np.reshape(losses, (EPOCHS, -1)).mean(1)


# %% [markdown]
# ## Two means, and their bias
#
# Of each parameter's gradients g, and of their squares, Adam keeps the means m and v, their **moments**, which begin
# with 0. With them it makes step t = 1, 2, ... (Kingma and Ba, 2015):
#
# $$ m \leftarrow \beta_1 m + (1 - \beta_1) g $$
# $$ v \leftarrow \beta_2 v + (1 - \beta_2) g^2 $$
# $$ X \leftarrow X - \rho \, \frac{m / (1 - \beta_1^t)}{\sqrt{v / (1 - \beta_2^t)} + \epsilon} $$
#
# A factor in all g cancels: ρ says how far a parameter goes, whatever its gradient's size. If all g are alike, m is
# (1 − β₁ᵗ) g, too small; the two powers correct this **bias** of m and v. Without them a step is (1 − β₁ᵗ) / √(1 − β₂ᵗ)
# times as long. Predict for β₁ = 0.9 and β₂ = 0.999: is that less than 1, or more? How much at most?


# %%
figure, [[left, right]] = plots.panels(1, 2, size=(9, 3.6))
for beta2 in (0.999, 0.95):
    factor = (1 - 0.9**t) / np.sqrt(1 - beta2**t)
    with_it, without = train(0.01 + 0 * t, beta2), train(0.01 * factor, beta2)
    print(f"β₂ = {beta2}: factor {factor[0]:.2f} in step 1, {factor.max():.2f} in step {t[factor.argmax()]};", end=" ")
    print(f"loss of the last epoch {with_it[-1]:.2f} with the correction, {without[-1]:.2f} without")
    plots.lines(left, t[:100], {f"β₂ = {beta2}": factor[:100]})
    plots.lines(right, range(1, EPOCHS + 1), {f"β₂ = {beta2}, corrected": with_it, f"β₂ = {beta2}, not": without})
left.set(xlabel="step", title="length of a step without the correction", ylim=(0, None))
right.set(xlabel="epoch", ylabel="nats a character", title="loss")
plots.show(figure, FIGURES / "27_adam.png", alt="Without the correction early steps are too long for 0.999 only.")

# %% [markdown]
# So the correction is needed where v is slow: with β₂ = 0.95 nothing is lost without it.
#
# ## Decay, apart from the gradient
#
# **Weight decay** pulls weights to 0, so that only those stay large that the loss needs. Its old form, L2, adds λ X to
# g, the gradient of λ X² / 2. Adam then divides this, too, by the size of g. AdamW subtracts ρ λ X beside the quotient
# (Loshchilov and Hutter, 2019). Here are weights of 1, and gradients that are noise of three sizes. What will be left?

# %%
for Optimizer in (tt.optim.Adam, tt.optim.AdamW):
    w = tt.ones(3, 200, requires_grad=True)
    optimizer = Optimizer([w], lr=0.001, weight_decay=1.0)
    for _ in range(1000):
        w.grad = tt.tensor([[0.01], [1.0], [100.0]]) * tt.randn(3, 200)
        optimizer.step()
    print(f"{Optimizer.__name__}, noise of 0.01, 1 and 100: what is left is", w.mean(1).detach().numpy().round(2))

# %% [markdown]
# L2 hardly moves the last ones, whose gradients are large. In AdamW all shrink alike, to (1 − ρ λ)¹⁰⁰⁰ on average.
#
# ## Schedules
#
# A **schedule** is the rate as a function of the step. Near the end the noise of minibatches (lesson 23) keeps the loss
# up, the more the larger the rate: it **decays** to 0. At first v knows few gradients, and Adam moves each parameter by
# ρ, also where g is all noise: a **warm-up** (lesson 20). Predict the order of these five.

# %%
warm_up, decay = np.minimum(1, 10 * t / len(t)), 1 - t / len(t)
rates = {"0.003": 0.003 + 0 * t, "0.02": 0.02 + 0 * t, "0.02, warm-up": 0.02 * warm_up, "0.02, decay": 0.02 * decay}
curves = {name: train(each) for name, each in (rates | {"0.02, both": 0.02 * warm_up * decay}).items()}
assert len(t) < 3 or curves["0.02, both"][-1] < min(curves["0.02"][-1], curves["0.003"][-1])
print("loss of the last epoch:", ", ".join(f"{each[-1]:.2f} ({name})" for name, each in curves.items()))
figure, [[panel]] = plots.panels(size=(6.4, 3.8))
plots.lines(panel, range(1, EPOCHS + 1), curves)
panel.set(xlabel="epoch", ylabel="nats a character", title="loss", ylim=(0, 3.5))
plots.show(figure, FIGURES / "27_adam_schedules.png", alt="A constant large rate ends high; with decay it ends lowest.")

# %% [markdown]
# The large rate goes far at first, the small one ends with little noise: decay has both.
#
# ## Exercises
#
# Four exercises on this lesson stand in `exercises/27_adam.py`. Each has a check.
