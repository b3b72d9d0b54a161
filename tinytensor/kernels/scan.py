"""Running sums along a dimension."""

from tinytensor.runtime.kernel import EXACT_ORDER, kernel, num_tasks, task_range


@kernel("x[O, N, I], y[O, N, I]", tasks=lambda x, *_: num_tasks(x.size, x.shape[0]), fastmath=EXACT_ORDER)
def cumsum(x, reverse, y, task, tasks):
    """y[o, j, i] = x[o, 0, i] + ... + x[o, j, i], or x[o, j, i] + ... + x[o, n - 1, i] if reverse (the backward).

    x and y are (outer, n, inner).
    """
    outer, n, inner = x.shape
    start, stop = task_range(outer if n > 0 else 0, task, tasks)
    for o in range(start, stop):
        first, step = (n - 1, -1) if reverse else (0, 1)
        if inner == 1:
            total = x[o, first, 0]  # in a register: in memory each addition would wait for the one before
            y[o, first, 0] = total
            for k in range(1, n):
                total += x[o, first + k * step, 0]
                y[o, first + k * step, 0] = total
            continue
        for i in range(inner):
            y[o, first, i] = x[o, first, i]
        for k in range(1, n):
            j = first + k * step
            for i in range(inner):
                y[o, j, i] = y[o, j - step, i] + x[o, j, i]
