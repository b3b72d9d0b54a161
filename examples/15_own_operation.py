# %% [markdown]
# # An operation of your own
#
# The feed-forward network of the documents is max(0, x W_1 + b_1) W_2 + b_2: eq. (10) of document 003 (`documents.md`
# lists all five). Newer models multiply two products of x instead, and bend one of them: SwiGLU, which 000 names at its
# end (Shazeer 2020, eqs. 5 and 6). How do we add it to the engine, and how do we know that its gradient is right?
#
# $$ y = a \, \sigma(a) \, b, \qquad \sigma(a) = \frac{1}{1 + e^{-a}}, \qquad a = x W, \quad b = x V $$

# %%
import os
import sys
from pathlib import Path

import numpy as np

import tinytensor as tt
from tinytensor.symbolic import prove
from tinytensor.viz import plots

sys.path.append(str(Path(__file__).resolve().parents[1]) if "__file__" in globals() else "..")
from models.data import grammar, pairs
from models.data.tokenizers import WordTokenizer
from models.training.trainer import training_step
from models.transformer import Config, Transformer

FIGURES = Path("runs/lessons")

# %% [markdown]
# ## Equation, kernel, rules
# An operation is a class with three parts. Its docstring is the equation. Its **kernel** computes y from two numbers;
# Numba compiles it, with a loop around it for tensors of any shape. Its **rules** take g, the gradient that arrives at
# y, and compute with tensors the gradients of the inputs: g ∂y/∂a and g ∂y/∂b. Two factors of y depend on a, so ∂y/∂a
# needs the product rule. The slope of σ is σ(a) (1 − σ(a)).


# %%
@tt.op
class swiglu:
    r"y = a \sigma(a) b, \sigma(a) = 1 / (1 + e^{-a})"

    def kernel(a, b):
        return a / (type(a)(1) + np.exp(-a)) * b  # a plain 1.0 would turn float32 into float64

    def grad_a(g, a, b):
        s = a.sigmoid()
        return g * b * (s + a * s * (1 - s))

    def grad_b(g, a):
        return g * a * a.sigmoid()


a = tt.linspace(-6, 6, 121, requires_grad=True)
(y := swiglu(a, tt.ones(121))).sum().backward()
figure, [[panel]] = plots.panels()
plots.lines(panel, a, {"y for b = 1": y, "its slope, from the rule for a": a.grad, "max(0, a)": a.relu()})
panel.set(xlabel="a", title="SwiGLU bends without a corner, and dips below 0")
plots.show(figure, FIGURES / "15_own_operation_bend.png", alt="y = a times sigma of a runs close to max(0, a).")

# %% [markdown]
# ## Is the rule right?
# Nothing forces a rule to agree with its kernel. It is tempting to forget the product rule: g b σ(a). `gradcheck`
# compares a rule with differences of the kernel at one point (lesson 1). `prove` runs the source of both over symbols,
# for all values. Predict: which of the two will find the mistake at a = 0, and which at a = 1?


# %%
@tt.op
class forgetful:
    kernel, grad_b = swiglu.kernel, swiglu.rules[1]

    def grad_a(g, a, b):
        return g * b * a.sigmoid()


for start in (0.0, 1.0):
    point = [tt.full((), start, dtype=tt.float64, requires_grad=True) for _ in "ab"]
    print(f"a = b = {start}: gradcheck passes it:", tt.gradcheck(forgetful, point, raise_exception=False))
print(prove(forgetful, (), ()), prove(swiglu, (2, 2), (2, 2)), sep="\n\n")

# %% [markdown]
# At a = 0 the forgotten part a σ(a) (1 − σ(a)) is 0, so a check there sees nothing. A proof has no such blind spot.
#
# ## In a model
# A network with your operation is a module, and takes the old one's place by an assignment. In the model of 004 (lesson
# 17) an **encoder** reads a sentence, and a **decoder** writes its translation. (`grammar` makes them.) SwiGLU has
# three matrices, not two: the inner width is 64, not 96. Predict: which network has more parameters for the width 32?


# %%
class Gated(tt.nn.Module):
    def __init__(self, width: int, inner: int):
        super().__init__()
        self.W, self.V = (tt.nn.Parameter(tt.randn(width, inner) / width**0.5) for _ in "WV")
        self.W_2 = tt.nn.Parameter(tt.randn(inner, width) / inner**0.5)

    def forward(self, x):
        return swiglu(x @ self.W, x @ self.V) @ self.W_2


STEPS, EVERY = (1, 15_000) if os.environ.get("NUMBA_DISABLE_JIT") else (100, 180)  # kernels in Python are slow
words = pairs.train_tokenizer(WordTokenizer, sentences := grammar.pairs()[::EVERY], None)
x, y = (tt.tensor(n) for n in pairs.batch([pairs.example(words, s) for s in sentences], 16, len(sentences)))
losses = {"ReLU": [], "SwiGLU": []}
for name, seed in [(name, seed) for name in losses for seed in range(3)]:
    tt.manual_seed(seed)
    model = Transformer(Config(N=2, d_model=32, h=4, d_ff=96, n_vol=words.vocab_size, n_max=16, reduction="mean"))
    for stack in [*model.encoder, *model.decoder]:
        stack.ffn = Gated(32, 64) if name == "SwiGLU" else stack.ffn
    step = tt.compile(training_step(model, tt.optim.AdamW(model.parameters(), lr=3e-3), clip=1.0))
    losses[name].append([step(x, y)[0].item() for _ in range(STEPS)])
    print(f"{name}, run {seed}: {sum(p.numel() for p in stack.ffn.parameters()):,} parameters in a network")
figure, [[panel]] = plots.panels()
plots.lines(panel, range(STEPS), {name: np.mean(runs, 0) for name, runs in losses.items()})
panel.set(xlabel="step", ylabel="nats a word", yscale="log", title="means of three runs each: one run says little")
plots.show(figure, FIGURES / "15_own_operation.png", alt="Loss over 100 steps: SwiGLU's curve lies below ReLU's.")

# %% [markdown]
# ## Exercises
# Four exercises on this lesson stand in `exercises/15_own_operation.py`. Each has a check.
