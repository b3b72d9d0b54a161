def right_1(a, b):
    """Flush right, a missing number counts as 1; where the two differ one must be 1, and the other is the result's."""
    size = max(len(a), len(b))
    a, b = (1,) * (size - len(a)) + a, (1,) * (size - len(b)) + b
    if any(m != n and 1 not in (m, n) for m, n in zip(a, b, strict=True)):
        return "error"
    return tuple(n if m == 1 else m for m, n in zip(a, b, strict=True))


def wrong_1_flush_left(a, b):
    size = max(len(a), len(b))
    a, b = a + (1,) * (size - len(a)), b + (1,) * (size - len(b))
    if any(m != n and 1 not in (m, n) for m, n in zip(a, b, strict=True)):
        return "error"
    return tuple(max(m, n) for m, n in zip(a, b, strict=True))


def wrong_1_never_an_error(a, b):
    size = max(len(a), len(b))
    a, b = (1,) * (size - len(a)) + a, (1,) * (size - len(b)) + b
    return tuple(max(m, n) for m, n in zip(a, b, strict=True))


def wrong_1_only_equal_shapes(a, b):
    return a if a == b else "error"


def right_2(X):
    """X.sum(1) has shape (n,), which is read as a row; with keepdim it is a column (n, 1), a number for each row."""
    return X / X.sum(1, keepdim=True)


def wrong_2_sums_of_columns(X):
    return X / X.sum(0)


def wrong_2_sum_of_all(X):
    return X / X.sum()


def wrong_2_turned(X):
    return X.t() / X.sum(1)


def wrong_2_softmax(X):
    return tt.softmax(X, 1)


def right_3(g, X, s):
    """Each factor's slope is the other one, times g; s was repeated in each row, so its gradient is summed."""
    return g * s, (g * X).sum(0)


def wrong_3_as_for_a_bias(g, X, s):
    return g * s, g.sum(0)


def wrong_3_not_summed(g, X, s):
    return g * s, g * X


def wrong_3_sums_of_rows(g, X, s):
    return g * s, (g * X).sum(1)


def wrong_3_mean(g, X, s):
    return g * s, (g * X).mean(0)


def right_4(g, shape):
    """Each place of the small tensor was copied; its gradient is the sum over all of its copies."""
    new = g.ndim - len(shape)
    g = g.sum(tuple(range(new))) if new else g
    for d, n in enumerate(shape):
        if n == 1 and g.shape[d] != 1:
            g = g.sum(d, keepdim=True)
    return g


def wrong_4_sums_rows_only(g, shape):
    return g.sum(0)


def wrong_4_without_the_ones(g, shape):
    while g.ndim > len(shape):
        g = g.sum(0)
    return g


def wrong_4_takes_the_first(g, shape):
    return g.flatten()[: tt.zeros(*shape).numel()].reshape(*shape)


def wrong_4_mean(g, shape):
    new = g.ndim - len(shape)
    g = g.sum(tuple(range(new))) if new else g
    for d, n in enumerate(shape):
        if n == 1 and g.shape[d] != 1:
            g = g.mean(d, keepdim=True)
    return g
