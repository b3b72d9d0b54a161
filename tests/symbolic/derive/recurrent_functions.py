"""Functions with loops over a size, as a user writes them, and what their derivations must say.

RECURRENT has a row for each: the function, its arguments, and lines that the derivation prints. REFUSED has functions
whose steps are not alike, with a part of the sentence that refuses them.
"""

import math

import tinytensor as tt

XH, LAYER = {"x": ("T", "D"), "h": ("D",)}, {"W": ("D", "M"), "U": ("M", "M"), "b": ("M",)}


def last_state(x, h0, W, U, b):
    h = h0
    for t in range(x.shape[0]):
        h = (x[t] @ W + h @ U + b).tanh()
    return h


def all_states(x, h0, W, U, b):
    h, states = h0, []
    for t in range(x.shape[0]):
        h = (x[t] @ W + h @ U + b).tanh()
        states.append(h)
    return tt.stack(states)


def loss_of_states(x, y, h0, W, U):
    h, loss = h0, 0.0
    for t in range(x.shape[0]):
        h = (x[t] @ W + h @ U).tanh()
        loss = loss + ((h - y[t]) ** 2).sum()
    return loss / x.shape[0]


def batch_of_sequences(x, h0, W, U):
    h = h0
    for t in range(x.shape[1]):
        h = (x[:, t] @ W + h @ U).tanh()
    return h


def lstm(x, h0, c0, Wi, Ui, Wf, Uf, Wo, Uo, Wg, Ug):
    h, c = h0, c0
    for t in range(len(x)):
        i = (x[t] @ Wi + h @ Ui).sigmoid()
        f = (x[t] @ Wf + h @ Uf).sigmoid()
        o = (x[t] @ Wo + h @ Uo).sigmoid()
        c = f * c + i * (x[t] @ Wg + h @ Ug).tanh()
        h = o * c.tanh()
    return h


def moving_average(x, a):
    m, means = 0.0, []
    for t in range(x.shape[0]):
        m = a * m + (1 - a) * x[t]
        means.append(m)
    return tt.stack(means)


def linear_attention(q, k, v):
    S, rows = tt.zeros(k.shape[1], v.shape[1], dtype=tt.float64), []
    for t in range(q.shape[0]):
        S = S + k[t][:, None] * v[t]
        rows.append(q[t] @ S)
    return tt.stack(rows)


def horner(c, x):
    y = 0
    for one in c:
        y = y * x + one
    return y


def horner_from_the_end(c, x):
    y = tt.zeros_like(x)
    for k in reversed(range(c.shape[0])):
        y = y * x + c[k]
    return y.sum()


def descent(w, X, y, rates):
    for k in range(rates.shape[0]):
        w = w - rates[k] * (X.T @ (X @ w - y)) / X.shape[0]
    return ((X @ w - y) ** 2).mean()


def power_iteration(A, v, steps):
    for _ in range(len(steps)):
        v = A @ v
        v = v / v.norm()
    return v @ A @ v


def discounted(r):
    total = 0.0
    for t in reversed(range(r.shape[0])):
        total = r[t] + 0.9 * total
    return total


def discounts_by_powers(r):
    total = 0.0
    for t in range(r.shape[0]):
        total = total + 0.9**t * r[t]
    return total


def running_mean(x):
    s, means = 0.0, []
    for t, one in enumerate(x):
        s = s + one
        means.append(s / (t + 1))
    return tt.stack(means)


def falling_weights(x, h):
    T = x.shape[0]
    for t in range(T):
        h = h * (1 - t / T) + x[t]
    return h.sum()


def leapfrog(x, steps):
    v = 0.0 * x
    for t in range(steps.shape[0]):
        v = v - steps[t] * x.sin()
        x = x + steps[t] * v
    return (x**2).sum()


def differences(x):
    s = 0.0
    for t in range(x.shape[0] - 1):
        s = s + ((x[t + 1] - x[t]) ** 2).sum()
    return s


def chain_of_neighbours(x, h):
    for t in range(x.shape[0] - 1):
        h = (h * x[t]).sin() + x[t + 1]
    return h.sum()


def map_of_rows(x, w):
    return tt.stack([(x[t] * w).tanh() for t in range(x.shape[0])])


def joined_rows(x, w):
    return tt.cat([x[t : t + 1] * w for t in range(x.shape[0])])


def truncated(x, h):
    for t in range(x.shape[0]):
        h = h.detach() * x[t]
    return h.sum()


def without_first_sine(x, h):
    for t in range(x.shape[0]):
        h = h * x[t]
        if t > 0:
            h = h.sin()
    return h.sum()


def softmax_of_states(x, h):
    for t in range(x.shape[0]):
        h = (h * x[t]).softmax(-1)
    return (h * x[0]).sum()


def both_directions(x, h, c):
    forward, backward = [], []
    for t in range(len(x)):
        h = (h * x[t]).tanh()
        forward.append(h)
    for t in reversed(range(len(x))):
        c = (c * x[t]).tanh()
        backward.append(c)
    return tt.stack(forward) + tt.stack(backward[::-1])


def attention_to_states(x, h, W):
    states = []
    for t in range(len(x)):
        h = (h @ W + x[t]).tanh()
        states.append(h)
    H = tt.stack(states)
    return (H @ h).softmax(0) @ H


def filtered(x, q, r, p):
    m = x[0]
    for t in range(1, len(x)):
        p = p + q
        k = p / (p + r)
        m = m + k * (x[t] - m)
        p = (1 - k) * p
    return m


def two_inputs(x, y, h):
    for one, other in zip(x, y):
        h = h * one + other
    return h


def scaled_steps(h, a, steps):
    for _ in range(len(steps)):
        u = a / h
        h = u.tanh()
    return (u * h).sum()


def with_first_state(x, h):
    states = [h]
    for t in range(x.shape[0]):
        states.append(states[-1] * x[t])
    return tt.stack(states)


def decaying_mean(x):
    m, means = 0.0, []
    for t in range(x.shape[0]):
        m = 0.9 * m + 0.1 * x[t]
        means.append(m)
    return tt.stack(means)


def advantages(r, v):
    A, rows = 0.0, []
    for t in reversed(range(r.shape[0])):
        A = r[t] + 0.9 * v[t + 1] - v[t] + 0.72 * A
        rows.append(A)
    return tt.stack(rows[::-1])


def both_last_states(x, h, c):
    for t in range(x.shape[0]):
        h, c = (h * x[t]).sin(), c + h
    return tt.stack([h, c])


def largest_later(x, h):
    for t in range(x.shape[0] - 1):
        if t:
            h = h * x[0]
        h = h.maximum(x[t])
    return h.sum()


def one_more_at_first(x, h):
    for t in range(x.shape[0] - 1):
        if t < 1:
            h = h + 1
        h = h * x[t] + x[-1]
    return h.sum()


RECURRENT = {
    last_state: (
        {"x": ("T", "D"), "h0": ("M",)} | LAYER,
        [
            "h_ti = tanh(a_ti), h[0, i] = h0_i",
            "Y_i = h[T, i]",
            "∂𝓛/∂a_ti = δ_ti (1 - h_ti²)",
            "δ[T, i] = ∂𝓛/∂Y_i",
            "δ[t - 1, i] = Σ_j U_ij ∂𝓛/∂a_tj",
            "∂𝓛/∂U_ij = Σ_t h[t - 1, i] ∂𝓛/∂a_tj",
            "∂𝓛/∂W_di = Σ_t x_td ∂𝓛/∂a_ti",
            "∂𝓛/∂h0_i = δ[0, i]",
            "proved for any size",
        ],
    ),
    all_states: (
        {"x": ("T", "D"), "h0": ("M",)} | LAYER,
        ["∂𝓛/∂a_ti = (1 - h_ti²) (δ_ti + ∂𝓛/∂Y_ti)", "δ[T, i] = 0", "proved for any size"],
    ),
    loss_of_states: (
        {"x": ("T", "D"), "y": ("T", "M"), "h0": ("M",), "W": ("D", "M"), "U": ("M", "M")},
        ["∂𝓛/∂y_ti = -2 (h_ti - y_ti)/T", "δ[T, i] = 0", "proved for any size"],
    ),
    batch_of_sequences: (
        {"x": ("N", "T", "D"), "h0": ("N", "M"), "W": ("D", "M"), "U": ("M", "M")},
        ["∂𝓛/∂U_ij = Σ_nt h[t - 1, n, i] ∂𝓛/∂a_tnj", "proved for any size"],
    ),
    lstm: (
        {"x": ("T", "D"), "h0": ("M",), "c0": ("M",)}
        | {f"{a}{gate}": s for gate in "ifog" for a, s in {"W": ("D", "M"), "U": ("M", "M")}.items()},
        ["δc[t - 1, i] = f_ti ∂𝓛/∂c_ti", "δh[T, i] = ∂𝓛/∂Y_i", "proved for any size"],
    ),
    moving_average: (
        {"x": ("T",), "a": ()},
        ["∂𝓛/∂m_t = δ_t + ∂𝓛/∂Y_t", "δ[t - 1] = a ∂𝓛/∂m_t", "∂𝓛/∂x_t = (1 - a) ∂𝓛/∂m_t", "proved for any size"],
    ),
    linear_attention: (
        {"q": ("T", "K"), "k": ("T", "K"), "v": ("T", "V")},
        ["∂𝓛/∂S_tij = δ_tij + q_ti ∂𝓛/∂Y_tj", "δ[t - 1, i, j] = ∂𝓛/∂S_tij", "∂𝓛/∂v_ti = Σ_j k_tj ∂𝓛/∂S_tji"],
    ),
    horner: (
        {"c": ("N",), "x": ()},
        ["y_t = c_t + x y[t - 1], y[0] = 0", "δ[N] = 1", "δ[t - 1] = x δ_t", "∂𝓛/∂x = Σ_n y[n - 1] δ_n"],
    ),
    horner_from_the_end: (
        {"c": ("N",), "x": ("M",)},
        ["y_ti = c_t + x_i y[t + 1, i], y[N + 1, i] = 0", "δ[1, i] = 1", "δ[t + 1, i] = x_i δ_ti"],
    ),
    descent: (
        {"w": ("D",), "X": ("N", "D"), "y": ("N",), "rates": ("K",)},
        ["δ[t - 1, d] = δ_td + Σ_n X_nd ∂𝓛/∂u_tn", "∂𝓛/∂w_d = δ[0, d]", "proved for any size"],
    ),
    power_iteration: (
        {"A": ("N", "N"), "v": ("N",), "steps": ("K",)},
        ["∂𝓛/∂steps_i = 0", "proved for any size, where no denominator is 0 and every argument of a root is above 0"],
    ),
    discounted: ({"r": ("T",)}, ["δ[t + 1] = 0.9 δ_t", "proved for any size"]),
    discounts_by_powers: ({"r": ("T",)}, ["∂𝓛/∂r_t = (0.9)^(t - 1)", "proved for any size"]),
    running_mean: ({"x": ("T",)}, ["∂𝓛/∂s_t = δ_t + 1/t ∂𝓛/∂Y_t", "proved for any size"]),
    falling_weights: (XH, ["δ[t - 1, d] = δ_td (1 + (1 - t)/T)", "proved for any size"]),
    leapfrog: ({"x": ("N",), "steps": ("T",)}, ["∂𝓛/∂x_n = δx2[0, n]", "proved for any size"]),
    differences: ({"x": ("T", "D")}, ["s = Σ_da (x[a + 1, d] - x_ad)²", "proved for T > 1"]),
    chain_of_neighbours: (XH, ["proved for any size"]),
    map_of_rows: ({"x": ("T", "D"), "w": ("D",)}, ["∂𝓛/∂w_d = Σ_t x_td ∂𝓛/∂a_td", "proved for any size"]),
    joined_rows: ({"x": ("T", "D"), "w": ("D",)}, ["∂𝓛/∂w_d = Σ_t x_td ∂𝓛/∂Y_td", "proved for any size"]),
    truncated: (XH, ["δ[t - 1, d] = 0", "∂𝓛/∂h_d = δ[0, d]", "proved for any size"]),
    without_first_sine: (XH, ["h2_td = sin(a_td), h2[0, d] = h_d x[1, d]", "proved for any size"]),
    softmax_of_states: (XH, ["proved for any size"]),
    both_directions: (XH | {"c": ("D",)}, ["δ[T, d] = 0", "δ2[1, d] = 0", "proved for any size"]),
    attention_to_states: (XH | {"W": ("D", "D")}, ["proved for any size"]),
    filtered: (
        {"x": ("T",), "q": (), "r": (), "p": ()},
        ["δm[t - 1] = δm_t (1 - k_t)", "proved for any size, where no denominator is 0"],
    ),
    two_inputs: ({"x": ("T", "D"), "y": ("T", "D"), "h": ("D",)}, ["∂𝓛/∂y_td = δ_td", "proved for any size"]),
    with_first_state: (XH, ["proved for any size"]),
    decaying_mean: ({"x": ("T",)}, ["δ[t - 1] = 0.9 ∂𝓛/∂m_t", "proved for any size"]),
    advantages: ({"r": ("T",), "v": ("T + 1",)}, ["proved for any size"]),
    both_last_states: (XH | {"c": ("D",)}, ["proved for any size"]),
    scaled_steps: (
        {"h": ("N",), "a": ("N",), "steps": ("K",)},
        ["proved for any size, where no denominator is 0"],
    ),
}


# ---------------------------------------------------------------------------------------- steps that are not alike


def one_step_of_sines(x, h):
    for t in range(x.shape[0]):
        h = h * x[t]
        if t == 3:
            h = h.sin()
    return h.sum()


def one_step_twice(x, h):
    for t in range(x.shape[0]):
        h = h * x[t] * (2 if t == 3 else 1)
    return h.sum()


def late_step_of_sines(x, h):
    for t in range(x.shape[0]):
        h = h * x[t]
        if t == 200:
            h = h.sin()
    return h.sum()


def late_step_twice(x, h):
    for t, one in enumerate(x):
        h = h * one * (1 + (t >= 150))
    return h.sum()


def odd_steps(x, h):
    for t in range(x.shape[0]):
        h = h * x[t] if t % 2 else h + x[t]
    return h.sum()


def odd_steps_twice(x, h):
    for t in range(x.shape[0]):
        h = h * x[t] * (t % 2 + 1)
    return h.sum()


def all_but_the_last(x, h):
    T = x.shape[0]
    for t in range(T):
        h = h * x[t]
        if t < T - 1:
            h = h.sin()
    return h.sum()


def hidden_step(x, h):
    for t in range(x.shape[0]):
        h = h * x[t] * (2 if int(str(t)) == 25 else 1)
    return h.sum()


def square_of_the_step(x, h):
    for t in range(x.shape[0]):
        h = h * x[t] + t**2
    return h.sum()


def cosine_of_the_step(x, h):
    for t in range(x.shape[0]):
        h = h * math.cos(t) + x[t]
    return h.sum()


def two_steps_back(x, h):
    before = h
    for t in range(x.shape[0]):
        before, h = h, before * x[t] + h
    return h.sum()


def inverse_of_a_state(x, h):
    A = tt.eye(h.shape[0], dtype=tt.float64)
    for t in range(x.shape[0]):
        A = A + x[t][:, None] * x[t]
        h = tt.linalg.solve(A, h)
    return h


def every_other_row(x, h):
    for t in range(0, x.shape[0], 2):
        h = h * x[t]
    return h.sum()


def step_by_value(x, h):
    for t in range(x.shape[0]):
        if x[t].sum().item() > 0:
            h = h * x[t]
    return h.sum()


def written_rows(x, h):
    y = tt.zeros(x.shape[0], x.shape[1], dtype=tt.float64)
    for t in range(x.shape[0]):
        h = h * x[t]
        y[t] = h
    return y


def added_in_place(x, h):
    h = h * 1
    for t in range(x.shape[0]):
        h += x[t]
    return h


def divided_by_the_largest(x, h):
    for t in range(x.shape[0]):
        h = (h * x[t]) / (h * x[t]).max()
    return h.sum()


def every_entry(x, h):
    for t in range(x.shape[0]):
        for i in range(x.shape[1]):
            h = h * x[t, i]
    return h.sum()


def noise(x, h):
    for t in range(x.shape[0]):
        h = h * x[t] + tt.randn(1)
    return h.sum()


def reversed_rows(x, h):
    states = []
    for t in range(x.shape[0]):
        h = h * x[t]
        states.append(h)
    return tt.stack(states[::-1])


def every_other_state(x, h):
    states = []
    for t in range(x.shape[0]):
        h = h * x[t]
        states.append(h)
    return tt.stack(states[::2])


def from_the_end(x, h):
    for t in range(x.shape[0]):
        h = h * (t + 2) + x[-1 - t] ** 2
    return h


def from_both_ends(x, h):
    for t in range(x.shape[0]):
        h = h * x[t] + x[-1 - t]
    return h


READ = (odd_steps_twice, square_of_the_step, two_steps_back, added_in_place, from_the_end)
READ = dict.fromkeys(READ, "proved for any size")
ASKS = "the code asks about the step of a loop over a size"
REFUSED = {
    one_step_of_sines: ASKS,
    one_step_twice: ASKS,
    late_step_of_sines: ASKS,
    late_step_twice: ASKS,
    odd_steps: ASKS,
    all_but_the_last: ASKS,
    hidden_step: "a size has no text",
    cosine_of_the_step: "a size has no number here",
    every_other_row: "a product; give it a dimension",
    inverse_of_a_state: "a matrix that changes from step to step",
    step_by_value: "Python reads a value that depends on an argument",
    written_rows: "a step changes more than its local names",
    divided_by_the_largest: "the largest or smallest entry inside of a loop over a size",
    every_entry: "a loop over a size inside of another",
    noise: "random numbers",
    reversed_rows: "an index that runs backward",
    every_other_state: "a product; give it a dimension",
    from_both_ends: "check the order of the indices",
}


# ---------------------------------------------------------------------------------------- gradients by hand


def _states(x, h0, W, U, b):
    states = [h0]
    for t in range(x.shape[0]):
        states.append((x[t] @ W + states[-1] @ U + b).tanh())
    return states


def dW(x, h0, W, U, b, g):
    h, dW, dh = _states(x, h0, W, U, b), tt.zeros_like(W), g
    for t in reversed(range(x.shape[0])):
        dz = (1 - h[t + 1] ** 2) * dh
        dW = dW + x[t][:, None] * dz
        dh = U @ dz
    return dW


def dU(x, h0, W, U, b, g):
    h, dU, dh = _states(x, h0, W, U, b), tt.zeros_like(U), g
    for t in reversed(range(x.shape[0])):
        dz = (1 - h[t + 1] ** 2) * dh
        dU = dU + h[t][:, None] * dz
        dh = dz @ U.T
    return dU


def dh0(x, h0, W, U, b, g):
    for h in reversed(_states(x, h0, W, U, b)[1:]):
        g = U @ ((1 - h * h) * g)
    return g


def dU_of_new_states(x, h0, W, U, b, g):
    h, dU, dh = _states(x, h0, W, U, b), tt.zeros_like(U), g
    for t in reversed(range(x.shape[0])):
        dz = (1 - h[t + 1] ** 2) * dh
        dU = dU + h[t + 1][:, None] * dz
        dh = dz @ U.T
    return dU


def dU_by_falling_indices(x, h0, W, U, b, g):
    h, dU, dh = _states(x, h0, W, U, b), tt.zeros_like(U), g
    for t in range(x.shape[0]):
        dz = (1 - h[-1 - t] ** 2) * dh
        dU = dU + h[-2 - t][:, None] * dz
        dh = dz @ U.T
    return dU


def dU_without_transpose(x, h0, W, U, b, g):
    h, dU, dh = _states(x, h0, W, U, b), tt.zeros_like(U), g
    for t in reversed(range(x.shape[0])):
        dz = (1 - h[t + 1] ** 2) * dh
        dU = dU + h[t][:, None] * dz
        dh = dz @ U
    return dU


def dh0_of_five_steps(x, h0, W, U, b, g):
    for h in reversed(_states(x, h0, W, U, b)[1:][-5:]):
        g = U @ ((1 - h * h) * g)
    return g


def dh0_of_first_slope(x, h0, W, U, b, g):
    h = _states(x, h0, W, U, b)
    for t in reversed(range(x.shape[0])):
        g = U @ ((1 - h[t] ** 2) * g)
    return g


def dW_of_last_step(x, h0, W, U, b, g):
    h = _states(x, h0, W, U, b)[-1]
    return x[-1][:, None] * ((1 - h**2) * g)


def dx_of_all(x, h0, W, U, b, g):
    h, dx, dh = _states(x, h0, W, U, b), [], tt.zeros_like(h0)
    for t in reversed(range(x.shape[0])):
        dz = (1 - h[t + 1] ** 2) * (dh + g[t])
        dx.append(W @ dz)
        dh = U @ dz
    return tt.stack(dx[::-1])


def dx_of_own_step(x, h0, W, U, b, g):
    return ((1 - tt.stack(_states(x, h0, W, U, b)[1:]) ** 2) * g) @ W.T


RIGHT = [  # function, argument, its gradient by hand
    (last_state, "W", dW),
    (last_state, "U", dU),
    (last_state, "U", dU_by_falling_indices),
    (last_state, "h0", dh0),
    (all_states, "x", dx_of_all),
]
WRONG = [
    (last_state, "U", dU_of_new_states),
    (last_state, "U", dU_without_transpose),
    (last_state, "h0", dh0_of_five_steps),
    (last_state, "h0", dh0_of_first_slope),
    (last_state, "W", dW_of_last_step),
    (all_states, "x", dx_of_own_step),
    (horner, "c", lambda c, x: x ** tt.arange(len(c))),
    (discounted, "r", "0.9 ** arange(1, T + 1)"),
    (moving_average, "x", "(1 - a) * g"),
    (linear_attention, "v", "k @ (q.T @ g)"),
]
