# %% [markdown]
# # Exercises: shapes
#
# Write your answers in place of the dots, or mend the code, and run the file again. Each check says in one sentence
# whether an answer is right. The checks draw new numbers each time.

# %%
import itertools
import random

from judge import Wrong, came, check

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


@check("write the shapes below each other, flush right, and read column by column.")
def check_1(answer) -> None:
    wide = random.randint(2, 5)
    cases = [((wide, 1), (wide,)), ((wide, wide + 1), (wide,)), ((), (wide,)), ((wide, 1, 3), (wide + 1, 1))]
    cases += [tuple(tuple(random.choices((1, 2, 3), k=random.randint(0, 3))) for _ in "ab") for _ in range(20)]
    for a, b in cases:
        try:
            right = tuple((tt.zeros(a) + tt.zeros(b)).shape)
        except RuntimeError:
            right = "error"
        result = answer(a, b)
        result = tuple(result) if isinstance(result, list) else result
        if not isinstance(result, tuple | str) or result != right:
            left = [max(m, n) for m, n in itertools.zip_longest(a, b, fillvalue=1)]
            reason = ""
            if right == "error":
                reason = "Two numbers that differ fit only if one of them is 1."
            elif result == "error":
                reason = "They fit: what is missing in front, or is 1, is repeated."
            elif result == tuple(left):
                reason = "The shapes stand flush right, not flush left."
            raise Wrong(f"{a} + {b} is {came(right)}, not {came(result)}. {reason}")


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


@check("which shape has X.sum(1), and is it read as a row or as a column?")
def check_2(answer) -> None:
    n = random.randint(2, 4)
    for shape in ((n, n), (n, n + 2), (n + 3, 1)):
        X = tt.rand(*shape) + 0.5
        right = tt.tensor([[x / sum(row) for x in row] for row in X.tolist()])
        mistakes = {
            "Each column is divided by its sum.": X / X.sum(0),
            "Each number is divided by the sum of all.": X / X.sum(),
            "That is softmax: divide the numbers, not their exponentials.": X.softmax(1),
        }
        if shape == (n, n):
            mistakes["The sums of rows are read as a row, so each column is divided by one of them."] = X / X.sum(1)
        answer.compare((X,), right, f"X of shape {shape}, divided row by row,", mistakes)


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


@check("what is the gradient of each factor of a product? Then look at the shapes.")
def check_3(answer) -> None:
    n = random.randint(2, 4)
    for shape in ((n, n + 1), (n, n)):
        X = tt.randn(*shape, requires_grad=True)
        s, g = tt.randn(shape[1], requires_grad=True), tt.randn(*shape)
        (X * s * g).sum().backward()
        x = X.detach()
        mistakes = {
            "That is the gradient of a bias, X + s; in a product the slope is the other factor.": (..., g.sum(0)),
            "s stands in each row: sum over the rows, not along them.": (..., (g * x).sum(1)),
        }
        names = ("the gradient of X", "the gradient of s")
        answer.compare((g, x, s.detach()), (X.grad, s.grad), f"for X of shape {shape}", mistakes, names=names)


print("exercise 3:", check_3(answer_3))

# %% [markdown]
# ## 4 ★★★ Extend: any shape
#
# The tape does this after every rule: it brings a gradient to the shape of the tensor that was repeated. Write it.


# %%
def answer_4(g: tt.Tensor, shape: tuple[int, ...]) -> tt.Tensor:
    """g, summed to `shape`, which was broadcast to the shape of g."""
    ...


@check("sum over the dimensions that `shape` lacks in front, then where it has 1.")
def check_4(answer) -> None:
    n, m = random.sample(range(2, 6), 2)
    cases = [((n, m), (m,)), ((n, m), (n, 1)), ((n, m), ()), ((2, n, m), (n, 1)), ((1, m), (1, m)), ((n, m), (1, 1))]
    cases += [((n, 1, m), (1, m)), ((n, n), (n, 1))]
    for big, shape in cases:
        g, small = tt.randn(*big), tt.zeros(*shape, requires_grad=True)
        (small * g).sum().backward()  # the gradient of `small` is g, summed as it must be
        mistakes = {
            "That is the sum over the first dimension, which is not the one that was repeated.": g.sum(0),
            "These are some entries of g: all copies count.": g.flatten()[: small.numel()].reshape(shape),
        }
        answer.compare((g, shape), small.grad, f"the gradient from {big} to {shape}", mistakes)


print("exercise 4:", check_4(answer_4))
