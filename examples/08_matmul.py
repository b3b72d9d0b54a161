# %% [markdown]
# # One loop, six speeds
#
# Most of the time of a transformer goes into one equation, the matrix product: y_ij = Σ_k a_ik b_kj. (In document 003:
# eqs. (3), (6), (8), (10), (11).) A program for it has three loops around one line. How much faster can they be on the
# same processor, with the same additions and multiplications? Guess a factor before you look at the picture.

# %%
import os

os.environ["OPENBLAS_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = "1"  # NumPy reads it when it is loaded: one thread
import timeit
from pathlib import Path

import numpy as np
from numba import njit

import tinytensor as tt
from tinytensor.native.tiles import store_tile, sum_tile, zero_tile
from tinytensor.native.vectors import add, fma, lanes, load, total, zero
from tinytensor.symbolic import prove
from tinytensor.viz import plots

FIGURES = Path("runs/lessons")
print(prove(tt.matmul, (2, 3), (3, 2)))  # its gradients are two more products: backward takes twice as long as forward

# %% [markdown]
# Does it matter which loop is inside? Mathematically not. But memory is read in lines of 64 bytes, 16 floats of a row.
# `plain` walks down a column of b: it uses one number of each line that it fetches. `by_rows` runs along rows of b and
# y: it uses all 16, several at once. Both do the same multiplications; only the way through memory differs.


# %%
def plain(a, b, y):
    for i in range(y.shape[0]):
        for j in range(y.shape[1]):
            y[i, j] = 0
            for k in range(a.shape[1]):
                y[i, j] += a[i, k] * b[k, j]


def by_rows(a, b, y):
    for i in range(y.shape[0]):
        y[i, :] = 0
        for k in range(a.shape[1]):
            for j in range(y.shape[1]):
                y[i, j] += a[i, k] * b[k, j]


# %% [markdown]
# `by_rows` loads and stores y for each multiplication, though a sum could stay in a register until it is complete. A
# tile of y, 6 rows of two registers, is 12 sums. For each k they take two registers of b, six numbers of a, and 12
# multiply-adds of whole registers. `in_panels` first copies the columns of b that a tile needs close together: all rows
# of a read them from the cache. `peak`: 12 sums that never wait for memory. No product can be faster.


# %%
def in_panels(a, b, y, panel):  # (False below: do not prefetch the next tile's rows, which are near)
    width = 2 * lanes(y)  # numbers in two registers
    for j in range(0, y.shape[1], width):
        panel[:, :width] = b[:, j : j + width]
        for i in range(0, y.shape[0], 6):
            store_tile(sum_tile(zero_tile(y, 6, 2), 6, a, i, 0, panel, 0, 0, a.shape[1], False), 6, width, y, i, j)


def peak(x, rounds):
    v = load(x, 0)
    a = b = c = d = e = f = g = h = i = j = k = m = zero(x)
    for _ in range(rounds):
        a, b, c, d, e, f = fma(v, v, a), fma(v, v, b), fma(v, v, c), fma(v, v, d), fma(v, v, e), fma(v, v, f)
        g, h, i, j, k, m = fma(v, v, g), fma(v, v, h), fma(v, v, i), fma(v, v, j), fma(v, v, k), fma(v, v, m)
    return total(add(add(add(add(a, b), add(c, d)), add(add(e, f), add(g, h))), add(add(i, j), add(k, m))))


# %%
def speed(work, tries, f, *arguments):
    """10^9 additions and multiplications in a second: the best of the tries. The first try compiles."""
    return work / min(timeit.repeat(lambda: f(*arguments), number=1, repeat=tries)) / 1e9


n, few = 384, 48  # rows and columns: whole tiles for compiled loops, and few for pure Python
a, b = (np.random.default_rng(seed).standard_normal((n, n), dtype=np.float32) for seed in (0, 1))
y, panel = np.empty((n, n), np.float32), np.empty((n, 64), np.float32)
speeds = {"plain, in Python": speed(2 * few**3, 3, plain, a[:few, :few], b[:few, :few], y[:few, :few])}
for name, tries, f, *more in (("plain", 3, plain), ("by rows", 30, by_rows), ("panels", 200, in_panels, panel)):
    speeds[f"{name}, compiled"] = speed(2 * n**3, tries, njit(f), a, b, y, *more)
    assert np.allclose(y, a @ b, atol=1e-3)
tt.set_num_threads(1)
speeds["tinytensor"] = speed(2 * n**3, 200, tt.matmul, tt.tensor(a), tt.tensor(b))
speeds["NumPy"] = speed(2 * n**3, 200, np.matmul, a, b, y)
most = speed(24e5 * lanes(a), 2000, njit(peak), np.full(64, 1e-3, np.float32), 10**5)
for name, value in speeds.items():
    print(f"{name:<18} {value:10.4f} GFLOP/s {value / most:8.2%} of the peak")
figure, [[axes]] = plots.panels(size=(7, 3.2))
axes.barh(*zip(*speeds.items()), color=plots.COLOURS[0])
axes.axvline(most, color=plots.COLOURS[1], linestyle="--")
axes.set(xscale="log", xlabel="GFLOP/s, one thread, float32", title="dashed: the peak of one core", ylim=(5.5, -0.5))
plots.show(figure, FIGURES / "08_matmul.png")

# %% [markdown]
# ## Exercise
#
# A gradient needs aᵀ b. Write this product without transposing a.


# %%
def answer(a, b, y) -> bool:
    """Overwrite y with y_ij = Σ_k a_ki b_kj, and return True."""
    ...


# %%
def check(answer) -> str:
    a, b, y = np.arange(6.0).reshape(3, 2), np.arange(12.0).reshape(3, 4), np.full((2, 4), 7.0)
    if answer(a, b, y) is None:
        return "not solved yet. Hint: in `by_rows` a[i, k] becomes a[k, i]. What do the ranges become?"
    return "right" if np.array_equal(y, a.T @ b) else f"wrong: y should be {(a.T @ b).tolist()}, and is {y.tolist()}."


print("exercise:", check(answer))
