# %% [markdown]
# # The residual stream, and layer norm
#
# A transformer alternates two kinds of sublayers: attention, with which words read each other (lesson 9), and a small
# network that works on each word alone (as in lesson 7). In document 002 (`documents.md` lists it) each sublayer f
# normalises what it reads, and adds what it finds: $X' = X + f(\mathrm{LayerNorm}(X))$. So X is a stream of vectors,
# one for each word, that all sublayers read and write. Why add, and why normalise?
#
# We train 24 sublayers on 64 facts, "owl sleeps where": for each pair of an animal and a verb a place, drawn at random.
# The vector of "where" must collect the other two words. Predict: a model that cannot tell questions apart learns how
# often each place is the answer. What is then its loss? (Just below log 8 **nats**, the unit of −ln q.)

# %%
import os
from pathlib import Path

import tinytensor as tt
import tinytensor.nn.functional as F
from tinytensor.viz import plots

FIGURES = Path("runs/lessons")
DEPTH, STEPS, D = (2, 1, 32) if os.environ.get("NUMBA_DISABLE_JIT") else (24, 150, 32)  # small for kernels in Python
names = "cat dog fox hen owl pig cow bee", "eats sleeps plays hides waits sings works drinks"  # 0 to 7, 8 to 15
places = "garden kitchen barn forest river attic field cellar"
tt.manual_seed(0)
questions = tt.tensor([[a, 8 + v, 16] for a in range(8) for v in range(8)])  # (64, 3); 16 is "where"
answers, norm = tt.randint(0, 8, (64,)), tt.nn.LayerNorm(D, elementwise_affine=False)


def run(add: bool, normalise: bool, rate: float):
    """The stream after 0, 1, ... sublayers before training, the losses, the stream after training, and its reader."""
    tt.manual_seed(3)
    E, O = tt.randn(17, D).requires_grad_(), (tt.randn(D, 8) / D**0.5).requires_grad_()
    shapes = DEPTH // 2 * [dict.fromkeys("QKVW", (D, D)), {"F": (D, 2 * D), "G": (2 * D, D)}]
    layers = [{name: (tt.randn(m, n) / m**0.5).requires_grad_() for name, (m, n) in one.items()} for one in shapes]
    optimizer = tt.optim.AdamW([E, O, *(weight for p in layers for weight in p.values())], lr=rate)

    def stream():
        seen = [E[questions]]  # (64, 3, D)
        for p in layers:
            X = norm(seen[-1]) if normalise else seen[-1]
            if "Q" in p:
                found = F.scaled_dot_product_attention(X @ p["Q"], X @ p["K"], X @ p["V"]) @ p["W"]
            else:
                found = (X @ p["F"]).relu() @ p["G"]
            seen.append(seen[-1] + found if add else found)
        return seen

    @tt.compile  # the first call is recorded; later ones repeat it without Python, which is faster (lesson 18)
    def step():
        optimizer.zero_grad()
        loss = F.cross_entropy(norm(stream()[-1][:, -1]) @ O, answers)  # "where" is read at the end
        loss.backward()
        optimizer.step()  # AdamW is Adam (lesson 4) that also makes each weight a little smaller
        return loss

    return [X.detach() for X in stream()], [step().item() for _ in range(STEPS)], stream(), O


runs = {"both": run(1, 1, 0.01), "no sum": run(0, 1, 0.01), "no norm": run(1, 0, 0.01), "slow": run(1, 0, 0.001)}
losses = {name: one[1] for name, one in runs.items()}
both, no_sum, no_norm, slow = (loss[-1] for loss in losses.values())
p = F.one_hot(answers, 8).to(tt.float32).mean(0)
entropy = -(p * p.log()).sum().item()
print(f"both {both:.3f}, no norm {no_norm:.3f}, slow {slow:.3f}, no sum {no_sum:.3f}; Σ p log(1/p) = {entropy:.3f}")
assert STEPS == 1 or (both < 0.1 and slow < 1 and not no_norm < 1 and abs(no_sum - entropy) < 0.01)
figure, [[panel]] = plots.panels()
plots.lines(panel, range(STEPS), losses)
panel.set(xlabel="step", ylabel="nats a question", ylim=(0, 3), title="64 facts, 24 sublayers")
plots.show(figure, FIGURES / "11_residual_stream.png", alt="Only with both sum and norm the loss falls to 0 at once.")

# %% [markdown]
# **Without the sum** a sublayer hands on only what it found. On the left: how alike the vectors of "where" are in all
# questions, before training. At first they are the same (1), and attention parts them. But what follows mixes further,
# and they become alike again. With the sum nothing is lost. And backward dX = dX' + (what comes through f): a part of
# the gradient reaches the first sublayer unchanged. **Without the norm** a sublayer that reads large numbers adds
# larger ones, and gradients grow with them: the rate is too large. "Slow" has a tenth of it, and learns.

# %%
first = {name: [X[:, -1] for X in runs[name][0]] for name in ("both", "no sum", "no norm")}
figure, [[left, right]] = plots.panels(1, 2, size=(8, 3.6))
plots.lines(left, range(DEPTH + 1), {n: [norm(x).mean(0).square().mean().item() for x in X] for n, X in first.items()})
plots.lines(right, range(DEPTH + 1), {n: [x.square().mean().sqrt().item() for x in X] for n, X in first.items()})
left.set(xlabel="sublayer", title="how alike the 64 questions are")
right.set(xlabel="sublayer", yscale="log", title="size: root mean square")
plots.show(figure, FIGURES / "11_residual_stream_depth.png", alt="No sum: all are alike. No norm: sizes grow to 500.")

# %% [markdown]
# **The gradient of the norm.** z = r (x − ⟨x⟩), with the mean ⟨x⟩ and r = 1/√(variance + ε) (document 003, after eq.
# (1)). It is tempting to treat ⟨x⟩ and r as constants, and to pass on r dz. But both depend on every x: dx = r (dz −
# ⟨dz⟩ − z ⟨z dz⟩). Predict the number dx · x: x and 2x have the same z, so what does a step along x change?

# %%
x, dz = tt.randn(8, dtype=tt.float64, requires_grad=True), tt.randn(8, dtype=tt.float64)
z, r = F.layer_norm(x, (8,)), 1 / (x.var(unbiased=False) + 1e-5).sqrt()
z.backward(dz)
assert tt.allclose(x.grad, r * (dz - dz.mean() - z * (z * dz).mean()), rtol=0, atol=1e-12)
print(f"along x: {(x.grad @ x).item():.4f} for dx, {(r * dz @ x).item():.4f} for r dz")

# %% [markdown]
# **What does each sublayer write?** The stream is a sum, so it can be read anywhere. Which place would the trained
# model name after only some sublayers, and how sure is it? No single one decides: many add a little, and mend mistakes.

# %%
shown, (_, _, after, O) = [4, 12, 33, 41, 50, 59], runs["both"]
q = tt.stack([(norm(X[:, -1]) @ O).softmax(-1)[shown] for X in after[::2]])  # (13, 6, 8)
figure, [[panel]] = plots.panels(size=(6.8, 4.8))
asked = [f"{names[0].split()[i // 8]}\n{names[1].split()[i % 8]}" for i in shown]
figure.colorbar(plots.heat(panel, q.amax(-1), range(0, DEPTH + 1, 2), asked, bounds=(0, 1)), label="its probability")
for i, row in enumerate(q.tolist()):
    for j, place in enumerate(row):
        name, colour = places.split()[place.index(max(place))], "wk"[max(place) > 0.6]
        panel.text(j, i, name, ha="center", va="center", size=9, color=colour)
panel.set(ylabel="sublayers", title="the place that the stream would name")
plots.show(figure, FIGURES / "11_residual_stream_read.png", alt="Early places are unsure, and often wrong.")

# %% [markdown]
# ## Exercises
#
# Four exercises on this lesson stand in `exercises/11_residual_stream.py`. Each has a check.
