# %% [markdown]
# # Exercises: one loop, six speeds
#
# Write your answers in place of the dots, or mend the code, and run the file again. Each check says in one sentence
# whether an answer is right. The checks draw new numbers each time.

# %%
import random

import numpy as np
from judge import Wrong, check, compare

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


@check("how many numbers of a row are in one line? And how many of a column?")
def check_1(answer) -> None:
    for size in (4, 8):
        n = random.randint(70, 99) * 16
        i, j = random.randrange(n), random.randrange(n)
        row = len({(i * n + k) * size // 64 for k in range(n)})
        column = len({(k * n + j) * size // 64 for k in range(n)})
        mistakes = {
            "A column's numbers are far from each other: two of them are never in one line.": (row, row),
            "A line of 64 bytes holds more than one number of a row.": (n, ...),
            "16 numbers fit in a line if they have 4 bytes; and of 8 bytes?": (n // 16, ...),
        }
        case = f"{n} numbers of {size} bytes"
        answer.compare(
            (n, size), (row, column), case, mistakes, names=("the number of lines of a row", "that of a column")
        )


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


@check("which rows and columns does no tile reach?")
def check_2(answer) -> None:
    tall, wide = random.randint(1, 3) * 6, random.randint(1, 3) * 16
    more, broader = random.randint(1, 5), random.randint(1, 15)
    for n, m in ((tall, wide), (tall + more, wide), (tall, wide + broader), (tall + more, wide + 1), (2, 3), (40, 3)):
        a, b, y = draw(n, 3), draw(3, m), np.full((n, m), np.nan)
        right = a @ b
        whole = (np.arange(n) < n // 6 * 6)[:, None] & (np.arange(m) < m // 16 * 16)
        answer.run(a, b, y)
        if np.isnan(y).any():
            raise Wrong(f"{np.isnan(y).sum()} numbers of y, {n} rows and {m} columns, were never written, or are NaN.")
        mistakes = {"Behind the last whole tile all numbers are 0: there are smaller tiles.": np.where(whole, right, 0)}
        compare(y, right, f"y with {n} rows and {m} columns", mistakes)


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


@check("write y_ij as a sum. Which y_ij does a_ik stand in, and with which factor?")
def check_3(answer) -> None:
    n, K, m = random.sample(range(2, 7), 3)
    g, a, b = draw(n, m), draw(n, K), draw(K, m)
    grads = [np.full((n, K), 7.0), np.full((K, m), 7.0)]

    def slopes(g):
        """By differences: the sum of g y is linear in each entry, so a step of 1 has no error."""
        results = np.zeros((n, K)), np.zeros((K, m))
        for x, result in zip((a, b), results, strict=True):
            for at in np.ndindex(x.shape):
                before = (g * (a @ b)).sum()
                x[at] += 1
                result[at] = (g * (a @ b)).sum() - before
                x[at] -= 1
        return results

    most = np.concatenate([g[:-1], 0 * g[-1:]])  # without its last row
    mistakes = {
        "Overwrite what stood there before; you add to it.": tuple(x + 7 for x in slopes(g)),
        "The last row of g does not count.": (..., slopes(most)[1]),
        "That is the gradient if g is 1 everywhere.": slopes(np.ones((n, m))),
    }
    right = slopes(g)
    answer.run(g, a, b, *grads)
    compare(tuple(grads), right, f"for n, K, m = {n}, {K}, {m}", mistakes, names=("grad_a", "grad_b"))


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


@check("which tiles lie on the diagonal? Only these have both kinds of numbers.")
def check_4(answer) -> None:
    for size in (2, 1, random.randint(3, 5)):
        count = random.randint(2, 5)
        n = size * count
        a, b, y = draw(n, 3), draw(3, n), np.full((n, n), 7.0)
        right, whole = np.tril(a @ b), a @ b
        row, column = np.indices((n, n)) // size
        tiles = answer(a, b, y, size)
        mistakes = {
            "The tiles on the diagonal are 0: they have numbers with j <= i, too.": np.where(row == column, 0, right),
            "Tiles on the diagonal have to be cut: where j > i there is 0.": np.where(row >= column, whole, 0),
            "Tiles above the diagonal were not written: they should be 0.": np.where(row < column, 7, right),
        }
        compare(y, right, f"with {count} x {count} tiles of {size} x {size} y", mistakes)
        mistakes = {"That is the number of all tiles: those above the diagonal are not needed.": count**2}
        needed = sum(j <= i for i in range(count) for j in range(count))
        compare(tiles, needed, f"with {count} x {count} tiles the number of those that are multiplied", mistakes)


print("exercise 4:", check_4(answer_4))
