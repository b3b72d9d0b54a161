# %% [markdown]
# # Exercises: the residual stream, and layer norm
#
# Write your answers in place of the dots, or mend the code, and run the file again. Each check says in one sentence
# whether an answer is right. The checks draw new numbers each time.

# %%
import random

import tinytensor as tt
import tinytensor.nn.functional as F


def vectors(*shape: int) -> tt.Tensor:
    return tt.randn(*shape, dtype=tt.float64)


def distance(given: tt.Tensor, right: tt.Tensor) -> float:
    """The largest difference between the entries of two tensors of one shape."""
    return (given - right).abs().max().item()


# %% [markdown]
# ## 1 ★ Predict: the norm of a x + b
#
# z is the layer norm of x. What is the layer norm of a x + b, for numbers a (not 0) and b? (Leave ε out: it is tiny.)
# Predict it before you try it.


# %%
def answer_1(z: tt.Tensor, a: float, b: float) -> tt.Tensor:
    """The layer norm of a x + b, when z is that of x."""
    ...


def check_1(answer) -> str:
    for sign in (1, -1):
        x, a, b = vectors(6), sign * random.uniform(2, 5), random.uniform(1, 5)
        given, right = answer(F.layer_norm(x, (6,), eps=0.0), a, b), F.layer_norm(a * x + b, (6,), eps=0.0)
        if given is None:
            return "not solved yet. Hint: the norm subtracts the mean and divides by the deviation. Which are they now?"
        if distance(given, right) > 1e-9:
            return f"wrong: for a = {a:.2f}, b = {b:.2f} the first entry is {right[0]:.4f}, not {given[0]:.4f}."
    return "right"


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


def check_2(answer) -> str:
    for count in (1, 2, 5):
        X, weights = 3 * vectors(4, 6), vectors(count, 6, 6)
        right = X
        for W in weights:
            right = right + F.layer_norm(right, (6,)) @ W
        given = answer(X, [lambda Z, W=W: Z @ W for W in weights])
        if given is None:
            return "not solved yet. Hint: a sublayer that writes 0 should change nothing."
        if distance(given, right) > 1e-9:
            idle = distance(answer(X, [lambda Z: 0 * Z]), X)
            return (
                f"wrong: after {count} of them an entry is off by {distance(given, right):.2g}; "
                f"and a sublayer that writes 0 changes the stream by {idle:.2g}."
            )
    return "right"


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


def check_3(answer) -> str:
    x, dz = vectors(random.randint(3, 9)).requires_grad_(), vectors(1)
    dz = vectors(len(x)) + dz
    r = 1 / ((x * x).mean() + 1e-5).sqrt()
    (dx,) = tt.autograd.grad(r * x, x, dz)
    with tt.no_grad():
        given = answer(x, r * x, r, dz)
        if given is None:
            return "not solved yet. Hint: nothing is subtracted from x, so which term of layer norm's gradient goes?"
        if distance(given, dx) < 1e-9:
            return "right"
        if distance(given, r * dz) < 1e-9:
            return "wrong: this is right if r is constant, but a change of any x changes r, and so all of z."
        return f"wrong: an entry is off by {distance(given, dx):.2g}; along x you have {(given @ x).item():.2g}."


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


def check_4(answer) -> str:
    for _ in range(3):
        n, D = random.randint(2, 5), random.randint(4, 8)
        parts, o = vectors(n, D) + 1, vectors(D) + 1
        given = answer(parts, o)
        if given is None:
            return "not solved yet. Hint: the mean of a sum is the sum of the means; the deviation is common to all."
        logit = (F.layer_norm(parts.sum(0), (D,), eps=0.0) @ o).item()
        if abs(given.sum().item() - logit) > 1e-9:
            return f"wrong: your shares add up to {given.sum().item():.4f}, and the logit is {logit:.4f}."
        silent = answer(tt.cat([parts, 0 * parts[:1]]), o)[-1].item()  # a further sublayer, which wrote nothing
        if abs(silent) > 1e-9:
            return f"wrong: a sublayer that wrote only zeros has a share of {silent:.4f}."
        same = answer(tt.cat([parts, 3 + 0 * parts[:1]]), o)[-1].item()
        if abs(same) > 1e-9:
            return f"wrong: a sublayer that wrote 3 everywhere, a mean and no more, has a share of {same:.4f}."
    return "right"


print("exercise 4:", check_4(answer_4))
