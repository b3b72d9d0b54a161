# %% [markdown]
# # Exercises: the residual stream, and layer norm
#
# Write your answers in place of the dots, or mend the code, and run the file again. Each check says in one sentence
# whether an answer is right. The checks draw new numbers each time.

# %%
import random

from judge import check

import tinytensor as tt
import tinytensor.nn.functional as F


def vectors(*shape: int) -> tt.Tensor:
    return tt.randn(*shape, dtype=tt.float64)


# %% [markdown]
# ## 1 ★ Predict: the norm of a x + b
#
# z is the layer norm of x. What is the layer norm of a x + b, for numbers a (not 0) and b? (Leave ε out: it is tiny.)
# Predict it before you try it.


# %%
def answer_1(z: tt.Tensor, a: float, b: float) -> tt.Tensor:
    """The layer norm of a x + b, when z is that of x."""
    ...


@check("the norm subtracts the mean and divides by the deviation. Which are they now?")
def check_1(answer) -> None:
    for factor in (4, -4, 1, -1):
        x, a, b = vectors(6), factor * random.uniform(0.5, 0.9), random.uniform(1, 5)
        z, right = F.layer_norm(x, (6,), eps=0.0), F.layer_norm(a * x + b, (6,), eps=0.0)
        mistakes = {"That has the mean b and the deviation |a|: a norm has 0 and 1.": a * z + b}
        answer.compare((z, a, b), right, f"for a = {a:.2f}, b = {b:.2f} the norm", mistakes)


print("exercise 1:", check_1(answer_1))

# %% [markdown]
# ## 2 ★★ Find the bug: the stream is lost
#
# `answer_2` sends a stream through sublayers, with a norm before each: X + f(LayerNorm(X)). It runs, and a
# model with it even learns, though badly if it is deep. What does the second line of the loop add to?


# %%
def answer_2(X: tt.Tensor, sublayers: list) -> tt.Tensor:
    """The stream after all sublayers, which are functions from (n, D) to (n, D)."""
    for f in sublayers:
        X = F.layer_norm(X, X.shape[-1:])
        X = X + f(X)
    return X


@check("a sublayer that writes 0 should change nothing.")
def check_2(answer) -> None:
    for count in (1, 2, 5):
        X, weights = 3 * vectors(4, 6), vectors(count, 6, 6)

        def stream(step, X=X, weights=weights):
            for W in weights:
                X = step(X, W)
            return X

        def norm(Z):
            return F.layer_norm(Z, (6,))

        right = stream(lambda Z, W: Z + norm(Z) @ W)
        mistakes = {
            "f is added to the norm of the stream, which is lost.": stream(lambda Z, W: norm(Z) + norm(Z) @ W),
            "The norm stands before f, not behind the sum.": stream(lambda Z, W: norm(Z + Z @ W)),
            "The stream is replaced by what f writes: add it.": stream(lambda Z, W: norm(Z) @ W),
            "Each sublayer reads the stream as it is then, not as it was at first.": X + norm(X) @ weights.sum(0),
        }
        sublayers = [lambda Z, W=W: Z @ W for W in weights]
        answer.compare((X, sublayers), right, f"after {count} sublayers the stream", mistakes)


print("exercise 2:", check_2(answer_2))

# %% [markdown]
# ## 3 ★★ Derive: the gradient of the RMS norm
#
# Many models do not subtract the mean: z = r x with r = 1/√(⟨x²⟩ + ε), the RMS norm. What is its gradient? (Start with
# dr: r depends on every x.)


# %%
def answer_3(x: tt.Tensor, z: tt.Tensor, r: tt.Tensor, dz: tt.Tensor) -> tt.Tensor:
    """dx, when dz arrives at z = r x; x, z and dz have shape (D,)."""
    ...


@check("nothing is subtracted from x, so which term of layer norm's gradient goes?")
def check_3(answer) -> None:
    x = vectors(random.randint(3, 9)).requires_grad_()
    dz = vectors(len(x)) + vectors(1)
    r = 1 / ((x * x).mean() + 1e-5).sqrt()
    (dx,) = tt.autograd.grad(r * x, x, dz)
    with tt.no_grad():
        x, z, r = x.detach(), r * x, r.detach()
        mistakes = {
            "This is right if r is constant, but a change of any x changes r, and so all of z.": r * dz,
            "No mean is subtracted from x, so none is from dz.": dx - r * dz.mean(),
            "r is made with a mean, not with a sum.": r * dz - len(x) * (r * dz - dx),
        }
        answer.compare((x, z, r, dz), dx, "dx", mistakes)


print("exercise 3:", check_3(answer_3))

# %% [markdown]
# ## 4 ★★★ Extend: who wrote the logit?
#
# At its end the stream is a sum of parts: the embedding, and what each sublayer added. A logit is the dot product of
# its layer norm with a vector o. Split the logit into shares that add up to it, each proportional to its own part: then
# one sees which sublayer spoke for a word, and which against it.


# %%
def answer_4(parts: tt.Tensor, o: tt.Tensor) -> tt.Tensor:
    """The share (n,) of each part (n, D) in the logit layer_norm(Σ parts) · o; o has shape (D,). (Leave ε out.)"""
    ...


@check("the mean of a sum is the sum of the means; the deviation is common to all.")
def check_4(answer) -> None:
    for _ in range(3):
        n, D = random.randint(3, 5), random.randint(4, 8)
        parts, o = vectors(n, D) + 1, vectors(D) + 1
        parts[0] = 0  # a sublayer that wrote nothing
        parts[1] = 3  # and one that wrote a mean and no more
        logit, deviation = F.layer_norm(parts.sum(0), (D,), eps=0.0) @ o, parts.sum(0).std(unbiased=False)
        centred = parts - tt.tensor([[sum(row) / D] for row in parts.tolist()], dtype=tt.float64)
        alone = F.layer_norm(parts, (D,), eps=0.0)
        mistakes = {
            "Each part is divided by its own deviation; that of the sum is common to all.": alone @ o,
            "The norm is missing: the shares do not add up to the logit.": parts @ o,
            "Are the shares proportional to the parts? One that wrote only zeros has no share.": (logit / n).expand(n),
            "A part that is 3 everywhere, a mean and no more, has no share: subtract each part's own mean.": (
                (parts - parts.sum(0).mean() / n) @ o / deviation
            ),
        }
        answer.compare((parts, o), centred @ o / deviation, "the list of shares", mistakes)


print("exercise 4:", check_4(answer_4))
