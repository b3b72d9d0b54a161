import math

import tinytensor as tt


def right_1(t, V):
    """E[t] reads the rows of the tokens that occur; Eᵀ is a product with all rows, and softmax moves all logits."""
    return len(set(t)), V


def wrong_1_tokens_that_occur_twice(t, V):
    return len(t), V


def wrong_1_all_rows(t, V):
    return V, V


def wrong_1_the_same_rows(t, V):
    return len(set(t)), len(set(t))


def wrong_1_more_than_there_are(t, V):
    return len(set(t)), V + len(set(t))


def right_2(E, t, P, layers):
    """At the end √D would make logits of size √D, so the factor belongs to E[t] alone; there E counts, too."""
    return layers(math.sqrt(E.shape[1]) * E[t] + P) @ E.T


def right_2_with_a_one_hot_row(E, t, P, layers):
    """E[t] as a product."""
    rows = (t.unsqueeze(1) == tt.arange(len(E))).to(E.dtype)
    return layers(rows @ (E * E.shape[1] ** 0.5) + P).mm(E.t())


def wrong_2_as_it_was(E, t, P, layers):
    E = E * math.sqrt(E.shape[1])
    return layers(E[t] + P) @ E.detach().T


def wrong_2_still_detached(E, t, P, layers):
    return layers(math.sqrt(E.shape[1]) * E[t] + P) @ E.detach().T


def wrong_2_detached_on_the_way_in(E, t, P, layers):
    return layers(math.sqrt(E.shape[1]) * E.detach()[t] + P) @ E.T


def wrong_2_detached_at_both_ends(E, t, P, layers):
    return right_2(E.detach(), t, P, layers)


def wrong_2_no_factor(E, t, P, layers):
    return layers(E[t] + P) @ E.T


def wrong_2_factor_at_the_end(E, t, P, layers):
    return math.sqrt(E.shape[1]) * layers(E[t] + P) @ E.T


def wrong_2_divided(E, t, P, layers):
    return layers(E[t] / math.sqrt(E.shape[1]) + P) @ E.T


def right_3(E, t, g):
    """At X = E[t] arrives g E, a row for each token, added to the row that was read; at Eᵀ arrives Xᵀ g."""
    dE = g.T @ E[t]
    for i, token in enumerate(t):
        dE[token] += g[i] @ E
    return dE


def right_3_as_products(E, t, g):
    """With the matrix that picks rows, X = R E."""
    R = (t.unsqueeze(1) == tt.arange(len(E))).to(E.dtype)
    return g.T @ R @ E + R.T @ g @ E


def wrong_3_end_alone(E, t, g):
    return g.T @ E[t]


def wrong_3_beginning_alone(E, t, g):
    return right_3(E, t, g) - g.T @ E[t]


def wrong_3_last_one_counts(E, t, g):
    dE, end = g.T @ E[t], g.T @ E[t]
    for i, token in enumerate(t.tolist()):
        dE[token] = end[token] + g[i] @ E
    return dE


def wrong_3_multiplied(E, t, g):
    return wrong_3_beginning_alone(E, t, g) * (g.T @ E[t])


def right_4(x, start):
    """The angles are a column of positions times a row of ω; sine and cosine multiply both components of each pair."""
    n, K = x.shape
    a = tt.arange(start, start + n).unsqueeze(1) * 10000.0 ** (-tt.arange(0, K, 2) / K)  # (n, K / 2)
    low, high = x[:, 0::2], x[:, 1::2]
    return tt.stack([low * a.cos() - high * a.sin(), low * a.sin() + high * a.cos()], 2).reshape(n, K)


def right_4_pair_by_pair(x, start):
    """The same with loops."""
    y, (n, K) = tt.zeros(x.shape, dtype=x.dtype), x.shape
    for i in range(n):
        for j in range(0, K, 2):
            s, c = math.sin((start + i) / 10000 ** (j / K)), math.cos((start + i) / 10000 ** (j / K))
            y[i, j] = c * x[i, j] - s * x[i, j + 1]
            y[i, j + 1] = s * x[i, j] + c * x[i, j + 1]
    return y


def turned(x, first, base=10000.0, sign=1):
    """`right_4` with another base or sense."""
    n, K = x.shape
    a = sign * tt.arange(first, first + n).double().unsqueeze(1) * base ** (-tt.arange(0, K, 2).double() / K)
    low, high = x[:, 0::2], x[:, 1::2]
    return tt.stack([low * a.cos() - high * a.sin(), low * a.sin() + high * a.cos()], 2).reshape(n, K)


def wrong_4_other_way(x, start):
    return turned(x, start, sign=-1)


def wrong_4_start_is_ignored(x, start):
    return turned(x, 0)


def wrong_4_counted_from_1(x, start):
    return turned(x, start + 1)


def wrong_4_one_angle(x, start):
    return turned(x, start, base=1.0)


def wrong_4_half_the_power(x, start):
    return turned(x, start, base=100.0)


def wrong_4_two_halves(x, start):
    """The pairs of many programs: j and j + K/2."""
    n, K = x.shape
    y = turned(tt.stack([x[:, : K // 2], x[:, K // 2 :]], 2).reshape(n, K), start)
    return tt.cat([y[:, 0::2], y[:, 1::2]], 1)


def wrong_4_nothing(x, start):
    return x
