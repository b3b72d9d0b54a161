# %% [markdown]
# # Exercises: one loop, six speeds
#
# Write your answers in place of the dots, or mend the code, and run the file again. Each check says in one sentence
# whether an answer is right. The checks draw new numbers each time.

# %%
import random

import numpy as np

rng = np.random.default_rng(random.randrange(2**32))


def draw(*shape: int) -> np.ndarray:
    return rng.standard_normal(shape)


# %% [markdown]
# ## 1 ★ Predict: a row and a column
#
# Memory is read in lines of 64 bytes. A matrix of n rows and n columns is stored row after row, and begins at the
# beginning of a line; a row fills whole lines. A number takes `size` bytes: 4 for float32, 8 for float64. How many
# lines does a program fetch to read one row? And to read one column?


# %%
def answer_1(n: int, size: int) -> tuple[int, int]:
    """The lines of one row, and of one column."""
    ...


def check_1(answer) -> str:
    for size in (4, 8):
        n = random.randint(2, 9) * 16
        i, j = random.randrange(n), random.randrange(n)
        row = len({(i * n + k) * size // 64 for k in range(n)})
        column = len({(k * n + j) * size // 64 for k in range(n)})
        given = answer(n, size)
        if given is None:
            return "not solved yet. Hint: how many numbers of a row are in one line? And how many of a column?"
        if tuple(given) != (row, column):
            return (
                f"wrong: {n} numbers of {size} bytes are in {row} lines for a row, {column} for a column, not {given}."
            )
    return "right"


print("exercise 1:", check_1(answer_1))

# %% [markdown]
# ## 2 ★★ Find the bug: tiles at the edge
#
# `answer_2` multiplies in tiles, and is right for the matrix of the lesson. A user reports that it is wrong for some
# other sizes. Find one, and mend the code.


# %%
def answer_2(a, b, y) -> None:
    """Overwrite y (n, m) with a b, for a (n, K) and b (K, m), in tiles of 6 rows and 16 columns."""
    for i in range(0, y.shape[0] // 6 * 6, 6):
        for j in range(0, y.shape[1] // 16 * 16, 16):
            tile = np.zeros((6, 16))
            for k in range(a.shape[1]):
                tile += a[i : i + 6, k, None] * b[k, j : j + 16]
            y[i : i + 6, j : j + 16] = tile


def check_2(answer) -> str:
    tall, wide = random.randint(1, 3) * 6, random.randint(1, 3) * 16
    more, broader = random.randint(1, 5), random.randint(1, 15)
    for n, m in ((tall, wide), (tall + more, wide), (tall, wide + broader), (tall + more, wide + broader), (2, 3)):
        a, b, y = draw(n, 3), draw(3, m), np.full((n, m), np.nan)
        try:
            answer(a, b, y)
        except ValueError as error:
            return f"wrong: for y with {n} rows and {m} columns, NumPy says: {error}."
        if not np.allclose(y, a @ b):
            far = ~np.isclose(y, a @ b)
            return f"wrong: of y with {n} rows and {m} columns, {far.sum()} numbers are wrong, or were never written."
    return "right"


print("exercise 2:", check_2(answer_2))

# %% [markdown]
# ## 3 ★★ Derive: the gradients of a product
#
# Let y = a b, and let g be the gradient of a loss with respect to y. What is the gradient with respect to a, and with
# respect to b? Both are matrix products. Write them with three loops each, so that the innermost loop runs along rows
# of two of the three arrays wherever this is possible. Do not transpose.


# %%
def answer_3(g, a, b, grad_a, grad_b) -> bool:
    """Overwrite grad_a (n, K) and grad_b (K, m) for g (n, m), a (n, K), b (K, m), and return True."""
    ...


def check_3(answer) -> str:
    n, K, m = random.sample(range(2, 7), 3)
    g, a, b = draw(n, m), draw(n, K), draw(K, m)
    grad_a, grad_b = np.full((n, K), 7.0), np.full((K, m), 7.0)
    if answer(g, a, b, grad_a, grad_b) is None:
        return "not solved yet. Hint: write y_ij as a sum. Which y_ij does a_ik stand in, and with which factor?"
    step = 1e-6
    for name, x, given in (("a", a, grad_a), ("b", b, grad_b)):
        for at in np.ndindex(x.shape):
            before = (g * (a @ b)).sum()
            x[at] += step
            slope = ((g * (a @ b)).sum() - before) / step
            x[at] -= step
            if not abs(given[at] - slope) < 1e-4:
                return f"wrong: with respect to {name}{list(at)} it is {slope:.4f} by differences, not {given[at]:.4f}."
    return "right"


print("exercise 3:", check_3(answer_3))

# %% [markdown]
# ## 4 ★★★ Extend: only the tiles that are needed
#
# A model that writes from left to right needs scores y_ij only for j <= i (lesson 9 says why). Compute a b there, and 0
# where j > i, in square tiles, and do not multiply for a tile that is 0 altogether: half of the work is saved.


# %%
def answer_4(a, b, y, size: int) -> int:
    """Overwrite y (n, n) with a b where j <= i, else with 0; return how many tiles (size, size) were multiplied."""
    ...


def check_4(answer) -> str:
    for size in (1, 2, random.randint(3, 5)):
        count = random.randint(2, 5)
        n = size * count
        a, b, y = draw(n, 3), draw(3, n), np.full((n, n), 7.0)
        tiles, right = answer(a, b, y, size), np.tril(a @ b)
        if tiles is None:
            return "not solved yet. Hint: which tiles lie on the diagonal? Only these have both kinds of numbers."
        if not np.allclose(y, right):
            i, j = np.argwhere(~np.isclose(y, right))[0]
            return (
                f"wrong: with tiles of {size} x {size}, y[{i}, {j}] is {y[i, j]:.4f}; it should be {right[i, j]:.4f}."
            )
        needed = sum(j <= i for i in range(count) for j in range(count))
        if tiles != needed:
            return f"wrong: of {count} x {count} tiles {needed} have to be multiplied, and you say {tiles}."
    return "right"


print("exercise 4:", check_4(answer_4))
