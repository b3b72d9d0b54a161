# %% [markdown]
# # Inside the model that you have trained
#
# After "does she look at our engineers" a model writes a question mark; after "she looks at our engineers" it ends the
# line. The last word is the same. Where do the numbers that differ come from, and when did the model learn them? The
# letters and equations are those of document 003 (`documents.md` lists the documents).

# %%
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
from models.inference.report import attention_maps
from models.show import show

FIGURES = Path("runs/lessons")
STEPS, B = (1, 1) if os.environ.get("NUMBA_DISABLE_JIT") else (500, 16)  # kernels that run as Python are slow
english = [s.target for s in random.Random(0).sample(grammar.split(grammar.pairs())[0], 4000)]  # as in lesson 17
text = "\n".join([*english, ""])
words = WordTokenizer.train([text])
tokens = tt.tensor(words.encode(text))
question, statement = (words.encode(s) for s in ("does she look at our engineers", "she looks at our engineers"))
mark, end = words.encode("a ?\n")[1:]

# %% [markdown]
# One layer with two heads is enough. Every 50 steps we keep the weights, and how much "engineers" looks at "does".

# %%
tt.manual_seed(13)
D, H, C = 32, 2, 24
model = Decoder(Config(D=D, H=H, F=64, L=1, C=C, V=words.vocab_size))
optimizer = tt.optim.AdamW(model.parameters(), lr=2e-2)
schedule = tt.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, total_iters=STEPS)
losses, kept, looks, HEADS = [], {}, [], ("head 1", "head 2")


@tt.compile  # recorded once, then replayed (lesson 18)
def step(t):
    optimizer.zero_grad()
    loss = model(t[:, :-1], t[:, 1:])[1]
    loss.backward()
    optimizer.step()
    return loss


for i in range(STEPS):
    if i % 50 == 0:
        kept[i] = {name: p.detach().clone() for name, p in model.named_parameters()}
        looks.append(attention_maps(model, question)[0, :, -1, 0])
    starts = tt.randint(0, len(tokens) - C - 1, (B, 1))
    losses.append((i + 1, step(tokens[starts + tt.arange(C + 1)]).item()))
    schedule.step()
page, first = FIGURES / "19_inside_the_model.html", words.decode(question) + " ?\n"
print("picture:", show(model, page, words, first, step=STEPS, snapshots=kept, losses=losses, title="Inside the model"))

# %% [markdown]
# ## Where one logit comes from
#
# Open the page: every number explains itself when you point at it. Look there first, then at what the code says. With
# one layer Z' = N + A + X, by (9) and (10). A is a sum over the heads: (7) puts them side by side, and (8) is linear.
# So a logit of (11) is a sum of parts. Predict: which one knows the question? (What is left of "all" comes from X.)


# %%
def lead(sentence: list[int]) -> dict[str, float]:
    """The logit of "?" minus that of the end of the line, after the last word, and its parts."""
    block, direction = model.blocks[0], model.O[:, mark] - model.O[:, end]
    with tt.no_grad():
        _, N = block.normalized(model.embed(tt.tensor([sentence])))  # (1), and the norm after it
        Y = tt.tensor(attention_maps(model, sentence)[0]) @ (N @ block.V)  # (6): (H, n, K)
        A = Y @ block.W.view(H, D // H, D)  # (7), (8): (H, n, D), what each head adds
        L = model(tt.tensor([sentence]))[0][0, -1]
        parts = {name: (x @ direction).item() for name, x in zip(("N", *HEADS), (N[0, -1], *A[:, -1]))}
    return parts | {"all": (L[mark] - L[end]).item()}


for said in (question, statement):
    print(f"{words.decode(said):<32}", "  ".join(f"{name} {part:5.2f}" for name, part in lead(said).items()))
assert STEPS == 1 or lead(question)["all"] > lead(statement)["all"] + 1

# %% [markdown]
# ## Which head looks where, and since when
#
# A head that knows it must look at the first word. Predict: when did it begin to? In the page, move the slider.

# %%
figure, [[panel]] = plots.panels(size=(6.4, 3))
plots.lines(panel, list(kept), dict(zip(HEADS, zip(*looks))), marker="o")
panel.set(xlabel="step", ylabel="attention", ylim=(0, 1), title="how much engineers looks at does")
plots.show(figure, FIGURES / "19_inside_the_model.png", alt="After some hundred steps one head looks at does.")

# %% [markdown]
# ## How a gradient reaches an embedding, and what a step makes of it
#
# By (17) the row of E for a token gets the sum of ∂𝓛/∂Z over the places at which the token stands. Predict: how many of
# the rows get something from this text of 8 tokens? In the page choose "gradients", and count the columns of E. Then
# press "Learn this". (18) moves a weight by −ρ times its gradient. How far does the first step of AdamW move it?

# %%
t = tt.tensor([words.encode(first)])
(model.E.grad,) = tt.autograd.grad(model(t[:, :-1], t[:, 1:])[1], [model.E])
g, before = model.E.grad, model.E.detach().clone()
reached = g.abs().sum(1) > 0
print(f"{reached.sum().item()} of {len(reached)} rows of E get a gradient: the last token has nothing to predict")
tt.optim.AdamW([model.E], lr=1e-2, weight_decay=0.0).step()
for name, x in (("gradients", g[reached]), ("moves", (model.E.detach() - before)[reached])):
    print(f"{name} from {x.abs().min().item():.1e} to {x.abs().max().item():.1e}")

# %% [markdown]
# ## Exercises
#
# Four exercises on this lesson stand in `exercises/19_inside_the_model.py`. Each has a check.
