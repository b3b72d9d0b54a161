# %% [markdown]
# # One loop, six speeds
#
# Most of the time of a transformer goes into one equation, the matrix product $y_{ij} = \sum_k a_{ik} \, b_{kj}$: eqs.
# (3), (6), (8), (10) and (11) of document 003 (see `documents.md`). A program for it has three loops around one line.
# How much faster can they be on the same processor, with the same additions and multiplications? Predict a factor.

# %%
import os

os.environ["OPENBLAS_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = "1"  # NumPy reads it when it is loaded: one thread
import timeit
from pathlib import Path

import numpy as np
from numba import njit

import tinytensor as tt
from tinytensor.native.simd.tile import store_tile, sum_tile, zero_tile
from tinytensor.native.simd.vector import add, fma, lanes, load, sum_lanes, zero
from tinytensor.symbolic import prove
from tinytensor.viz import plots

FIGURES = Path("runs/lessons")

# %% [markdown]
# **Backward is two more products**, so it takes twice as long. Let $g_{ij}$ arrive at $y_{ij}$. The number $a_{ik}$
# stands in all of row i of y, each time with the factor $b_{kj}$, so its gradient is $\sum_j g_{ij} \, b_{kj}$. That
# runs along the second index of b, where a product runs along the first: this is all that ᵀ says in $g \, b^\top$. Why
# not the inverse of b? It would say which a makes a given y. A gradient says how far y moves with a; below, b has no
# inverse. (Exercise 3 asks for the other one.) Predict the shapes of g and $b^\top$ for a (2, 3) and b (3, 4).

# %%
a, b, g = tt.randn(2, 3, requires_grad=True), tt.randn(3, 4), tt.randn(2, 4)
(a @ b).backward(g)
print("the gradient of a has the shape", a.grad.shape, "from those of g and bᵀ:", g.shape, b.T.shape)
assert tt.allclose(a.grad, g @ b.T, atol=1e-5)
print(prove(tt.matmul, (2, 3), (3, 2)))

# %% [markdown]
# **The order of the loops.** Mathematically it does not matter. But memory is read in lines of 64 bytes, which are 16
# floats of a row. `plain` walks down a column of b: it uses one number of each line that it fetches. `by_rows` runs
# along rows of b and y: it uses all 16, several at once. Both do the same multiplications.


# %%
def plain(a, b, y):
    y[:] = 0
    for i in range(y.shape[0]):
        for j in range(y.shape[1]):
            for k in range(a.shape[1]):
                y[i, j] += a[i, k] * b[k, j]


def by_rows(a, b, y):
    y[:] = 0
    for i in range(y.shape[0]):
        for k in range(a.shape[1]):
            for j in range(y.shape[1]):
                y[i, j] += a[i, k] * b[k, j]


# %% [markdown]
# **Tiles.** `by_rows` reads and writes a number of y for each multiplication. A tile avoids that: a small block of y,
# here 6 rows of 16 numbers, whose sums are completed before the next tile begins. For one k it takes 6 numbers of a, a
# piece of a column, and 16 of b, a piece of a row, and multiplies each with each: 22 reads for 96 multiplications.
#
# **Registers.** A processor computes in registers: 16 or 32, each for a few neighbouring floats (`lanes`, often 8). A
# tile of 6 rows of 2 registers is 12 sums that stay there from the first k to the last. `sum_tile` adds the products
# for all k to it: 6 rows of a, from a[i, 0] on, times rows of `panel`, from panel[0, 0] on. The panel is a copy of the
# columns of b for this tile, close together in the cache. `peak`: 12 sums that never wait for memory.


# %%
def in_panels(a, b, y, panel):
    width = 2 * lanes(y)  # numbers in two registers
    for j in range(0, y.shape[1], width):
        panel[:, :width] = b[:, j : j + width]
        for i in range(0, y.shape[0], 6):
            tile = sum_tile(zero_tile(y, 6, 2), 6, a, i, 0, panel, 0, 0, a.shape[1], False)  # False: no prefetching
            store_tile(tile, 6, width, y, i, j)


def peak(x, rounds):
    v = load(x, 0)  # one register; fma(v, v, a) is v v + a, number by number
    a = b = c = d = e = f = g = h = i = j = k = m = zero(x)
    for _ in range(rounds):
        a, b, c, d, e, f = fma(v, v, a), fma(v, v, b), fma(v, v, c), fma(v, v, d), fma(v, v, e), fma(v, v, f)
        g, h, i, j, k, m = fma(v, v, g), fma(v, v, h), fma(v, v, i), fma(v, v, j), fma(v, v, k), fma(v, v, m)
    return sum_lanes(add(add(add(add(a, b), add(c, d)), add(add(e, f), add(g, h))), add(add(i, j), add(k, m))))


def speed(work, tries, f, *arguments):  # 10^9 additions and multiplications a second; the first try compiles
    return work / min(timeit.repeat(lambda: f(*arguments), number=1, repeat=tries)) / 1e9


n, few = 384, 48  # rows and columns: whole tiles, and few for pure Python
a, b = (np.random.default_rng(seed).standard_normal((n, n), dtype=np.float32) for seed in (0, 1))
y, panel = np.empty((n, n), np.float32), np.empty((n, 64), np.float32)
speeds = {"Python": speed(2 * few**3, 3, plain, a[:few, :few], b[:few, :few], y[:few, :few])}
for name, tries, f, *more in (("plain", 3, plain), ("by rows", 30, by_rows), ("panels", 200, in_panels, panel)):
    speeds[f"{name}, compiled"] = speed(2 * n**3, tries, njit(f), a, b, y, *more)
    assert np.allclose(y, a @ b, atol=1e-3)
tt.set_num_threads(1)
speeds["tinytensor"] = speed(2 * n**3, 200, tt.matmul, tt.tensor(a), tt.tensor(b))
speeds["NumPy"] = speed(2 * n**3, 200, np.matmul, a, b, y)
most = speed(24e5 * lanes(a), 2000, njit(peak), np.full(64, 1e-3, np.float32), 10**5)
for name, value in speeds.items():
    print(f"{name:<18} {value:10.4f} GFLOP/s {value / most:8.2%} of the peak")
figure, [[axes]] = plots.panels(size=(6.4, 3.2))
axes.barh(*zip(*speeds.items()), color=plots.COLOURS[0], log=True)
axes.axvline(most, color=plots.COLOURS[1], linestyle="--")
title = f"{speeds['NumPy'] / speeds['Python']:,.0f} times as fast; dashed: the peak of one core"
axes.set(xlabel="GFLOP/s, one thread, float32", title=title, ylim=(5.5, -0.5))
plots.show(figure, FIGURES / "08_matmul.png", alt="Speeds on a logarithmic scale, from plain Python up to the peak.")

# %% [markdown]
# ## Exercises
#
# Four exercises on this lesson stand in `exercises/08_matmul.py`. Each has a check.
