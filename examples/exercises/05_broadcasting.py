# %% [markdown]
# # Exercises: shapes
#
# Write your answers in place of the dots, or mend the code, and run the file again. Each check says in one sentence
# whether an answer is right. The checks draw new numbers each time.

# %%
import random

import tinytensor as tt

# %% [markdown]
# ## 1 ★ Predict: the shape of a sum
#
# Two tensors are added. Which shape has the result? Return "error" where the shapes do not fit. Use shapes only: no
# tensor is needed.


# %%
def answer_1(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...] | str:
    """The shape of a tensor of shape a, plus one of shape b, or "error"."""
    ...


def check_1(answer) -> str:
    wide = random.randint(2, 5)
    cases = [((wide, 1), (wide,)), ((wide, wide + 1), (wide,)), ((), (wide,)), ((wide, 1, 3), (wide + 1, 1))]
    cases += [tuple(tuple(random.choices((1, 2, 3), k=random.randint(0, 3))) for _ in "ab") for _ in range(20)]
    for a, b in cases:
        given = answer(a, b)
        if given is None:
            return "not solved yet. Hint: write the shapes below each other, flush right, and read column by column."
        try:
            right = tuple((tt.zeros(a) + tt.zeros(b)).shape)
        except RuntimeError:
            right = "error"
        if given != right:
            return f"wrong: {a} + {b} is {right}, not {given}."
    return "right"


print("exercise 1:", check_1(answer_1))

# %% [markdown]
# ## 2 ★★ Find the bug: each row by its sum
#
# `answer_2` should divide each row of a matrix by the row's sum, so that each row sums to 1. With a square matrix it
# raises no error. Try it with [[1, 3], [2, 2]], and mend it.


# %%
def answer_2(X: tt.Tensor) -> tt.Tensor:
    """X (n, m), each row divided by its sum."""
    return X / X.sum(1)


def check_2(answer) -> str:
    n = random.randint(2, 4)
    for shape in ((n, n), (n, n + 2), (n + 3, 1)):
        X = tt.rand(*shape) + 0.5
        try:
            given = answer(X)
        except RuntimeError as e:
            return f"wrong: with shape {shape} it raises {type(e).__name__}; which shapes meet at the division?"
        if given is None:
            return "not solved yet. Hint: which shape has X.sum(1), and is it read as a row or as a column?"
        if given.shape != X.shape:
            return f"wrong: X has shape {shape}, and what you return {tuple(given.shape)}."
        sums = given.sum(1)
        if (sums - 1).abs().max().item() > 1e-5:
            return (
                f"wrong: with shape {shape} the rows sum to {[round(number, 3) for number in sums.tolist()]}, not to 1."
            )
        if (given * X.sum(1, keepdim=True) - X).abs().max().item() > 1e-5:
            return f"wrong: with shape {shape} the rows sum to 1, but their numbers are not in the proportions of X."
    return "right"


print("exercise 2:", check_2(answer_2))

# %% [markdown]
# ## 3 ★★ Derive: a scale for each column
#
# Y = X * s, with X of shape (n, m) and s of shape (m,). The gradient g arrives at Y, with the shape of Y. Which
# gradients have X and s? (Layer norm has such a scale: lesson 11.)


# %%
def answer_3(g: tt.Tensor, X: tt.Tensor, s: tt.Tensor) -> tuple[tt.Tensor, tt.Tensor]:
    """The gradients of X and of s."""
    ...


def check_3(answer) -> str:
    n = random.randint(2, 4)
    for shape in ((n, n + 1), (n, n)):
        X = tt.randn(*shape, requires_grad=True)
        s, g = tt.randn(shape[1], requires_grad=True), tt.randn(*shape)
        (X * s * g).sum().backward()
        given = answer(g, X.detach(), s.detach())
        if given is None:
            return "not solved yet. Hint: what is the gradient of each factor of a product? Then look at the shapes."
        for name, leaf, found in (("X", X, given[0]), ("s", s, given[1])):
            if found.shape != leaf.shape:
                return f"wrong: {name} has shape {tuple(leaf.shape)}, and its gradient {tuple(found.shape)}."
            if name == "s" and (found - g.sum(0)).abs().max().item() < 1e-5:
                return "wrong: that is the gradient of a bias, X + s; in a product the slope is the other factor."
            if (found - leaf.grad).abs().max().item() > 1e-5:
                return f"wrong: for X of shape {shape} the gradient of {name} has the right shape, and wrong numbers."
    return "right"


print("exercise 3:", check_3(answer_3))

# %% [markdown]
# ## 4 ★★★ Extend: any shape
#
# The tape does this after every rule: it brings a gradient to the shape of the tensor that was repeated. Write it.


# %%
def answer_4(g: tt.Tensor, shape: tuple[int, ...]) -> tt.Tensor:
    """g, summed to `shape`, which was broadcast to the shape of g."""
    ...


def check_4(answer) -> str:
    n, m = random.sample(range(2, 6), 2)
    cases = [((n, m), (m,)), ((n, m), (n, 1)), ((n, m), ()), ((2, n, m), (n, 1)), ((1, m), (1, m)), ((n, m), (1, 1))]
    cases += [((n, 1, m), (1, m)), ((n, n), (n, 1))]
    for big, shape in cases:
        g, small = tt.randn(*big), tt.zeros(*shape, requires_grad=True)
        (small * g).sum().backward()  # the gradient of `small` is g, summed as it must be
        given = answer(g, shape)
        if given is None:
            return "not solved yet. Hint: sum over the dimensions that `shape` lacks in front, then where it has 1."
        if given.shape != small.shape:
            return f"wrong: from {big} to {shape} you return a tensor of shape {tuple(given.shape)}."
        if (given - small.grad).abs().max().item() > 1e-5:
            return f"wrong: from {big} to {shape} the shape is right, the sums are not."
    return "right"


print("exercise 4:", check_4(answer_4))
