"""Running sums along a dimension."""

from tinytensor.core.kernel import EXACT_ORDER, num_tasks
from tinytensor.native.kernels.sums import BLOCK, carried_lanes, carried_sum
from tinytensor.native.runtime.kernel import device_function, kernel, task_range
from tinytensor.native.simd.vector import add, lanes, load, store, sub, zero

SHORT = 32  # rows that are one chain
FEW = 8  # rows of a register that are added up before they are added to the total, whose rounding error is carried


@device_function
def four_sums(x, y, j, s, total, lost):
    """y_j = total + (s + x_j), y_j+1 = total + (s + x_j + x_j+1) and two more; the last of these sums."""
    a = s + x[j]
    b = a + x[j + 1]
    c = b + x[j + 2]
    d = c + x[j + 3]
    y[j] = total + (a - lost)
    y[j + 1] = total + (b - lost)
    y[j + 2] = total + (c - lost)
    y[j + 3] = total + (d - lost)
    return d


@device_function
def column_scan(x, y, total, lost):
    """y_j = total + (x_0 + ... + x_j), where `lost` is total's rounding error; returns that of the last y."""
    nothing = y.dtype.type(0)
    for k in range(x.size // 16):
        s = four_sums(x, y, 16 * k, nothing, total, lost)
        s = four_sums(x, y, 16 * k + 4, s, total, lost)
        s = four_sums(x, y, 16 * k + 8, s, total, lost)
        s = four_sums(x, y, 16 * k + 12, s, total, lost)
        total, lost = carried_sum(total, s, lost, nothing)
    if x.size % 16:
        s = nothing
        for j in range(x.size - x.size % 16, x.size):
            s += x[j]
            y[j] = total + (s - lost)
        total, lost = carried_sum(total, s, lost, nothing)
    return lost


@device_function
def register_scan(x, y, o, k, end, i, lost):
    """The same in a register of columns from i on, in the rows from k to end; the row before has the total."""
    total = error = s = zero(x)
    if k > 0:
        total, error = load(y, o, k - 1, i), load(lost, o, i)
    for j in range(k, end):
        s = add(s, load(x, o, j, i))
        store(add(total, sub(s, error)), y, o, j, i)
    total, error = carried_lanes(total, s, error, x)
    store(error, lost, o, i)


@kernel("lost[O, I]", tasks=lambda x, *_: num_tasks(x.size, x.shape[0]), fastmath=EXACT_ORDER)
def cumsum(x, reverse, y, lost, task, tasks):
    """y[o, j, i] = x[o, 0, i] + ... + x[o, j, i], or x[o, j, i] + ... + x[o, n - 1, i] if reverse (the backward).

    x and y are (outer, n, inner). A few rows are added up before they are added to the total, whose rounding error is
    carried, in the scratch `lost`: so the error does not grow with n.
    """
    outer, n, inner = x.shape
    nothing, width = y.dtype.type(0), lanes(x)
    rest, step = inner % width, -1 if reverse else 1
    start, stop = task_range(outer, task, tasks)
    x, y = x[:, ::step], y[:, ::step]
    for o in range(start, stop):
        if inner == 1 and n <= SHORT:
            total = nothing
            for j in range(n):
                total += x[o, j, 0]
                y[o, j, 0] = total
            continue
        if inner > rest:
            for k in range(0, n, FEW):
                for i in range(0, inner - rest, width):
                    register_scan(x, y, o, k, min(k + FEW, n), i, lost)
        for k in range(0, n if rest else 0, BLOCK):
            for i in range(inner - rest, inner):
                total, error = (y[o, k - 1, i], lost[o, i]) if k > 0 else (nothing, nothing)
                lost[o, i] = column_scan(x[o, k : k + BLOCK, i], y[o, k : k + BLOCK, i], total, error)
