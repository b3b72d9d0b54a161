"""Functions with loops over a size, as a user writes them; those of Refused have steps that are not alike."""

import math

import tinytensor as tt
from tests.symbolic.programs import programs
from tinytensor.symbolic import Index

T, D, M, N, K, MORE, NUMBER = ("T",), ("D",), ("M",), ("N",), ("K",), ("T + 1",), ()
TD, TM, DM, DD, MM, NM, NN = ("T", "D"), ("T", "M"), ("D", "M"), ("D", "D"), ("M", "M"), ("N", "M"), ("N", "N")
NTD, XH = ("N", "T", "D"), {"x": TD, "h": D}
VD, DV, TV, WORDS, GROUPS = ("V", "D"), ("D", "V"), ("T", "V"), Index(T, "V"), Index(T, "T")


def summed(step):
    """The sum of the last h of a loop over step(h, x, t)."""

    def loop(x: TD, h: D):
        for t in range(x.shape[0]):
            h = step(h, x, t)
        return h.sum()

    return loop


class Recurrent:
    """Functions that are read as recurrences, with the sizes of their arguments."""

    falling_weights = summed(lambda h, x, t: h * (1 - t / x.shape[0]) + x[t])
    truncated = summed(lambda h, x, t: h.detach() * x[t])
    odd_steps_twice = summed(lambda h, x, t: h * x[t] * (t % 2 + 1))
    square_of_the_step = summed(lambda h, x, t: h * x[t] + t**2)

    def last_state(x: TD, h0: M, W: DM, U: MM, b: M):
        h = h0
        for t in range(x.shape[0]):
            h = (x[t] @ W + h @ U + b).tanh()
        return h

    def all_states(x: TD, h0: M, W: DM, U: MM, b: M):
        h, states = h0, []
        for t in range(x.shape[0]):
            h = (x[t] @ W + h @ U + b).tanh()
            states.append(h)
        return tt.stack(states)

    def loss_of_states(x: TD, y: TM, h0: M, W: DM, U: MM):
        h, loss = h0, 0.0
        for t in range(x.shape[0]):
            h = (x[t] @ W + h @ U).tanh()
            loss = loss + ((h - y[t]) ** 2).sum()
        return loss / x.shape[0]

    def batch_of_sequences(x: NTD, h0: NM, W: DM, U: MM):
        h = h0
        for t in range(x.shape[1]):
            h = (x[:, t] @ W + h @ U).tanh()
        return h

    def moving_average(x: T, a: NUMBER):
        m, means = 0.0, []
        for t in range(x.shape[0]):
            m = a * m + (1 - a) * x[t]
            means.append(m)
        return tt.stack(means)

    def horner(c: N, x: NUMBER):
        y = 0
        for coefficient in c:
            y = y * x + coefficient
        return y

    def horner_from_the_end(c: N, x: M):
        y = tt.zeros_like(x)
        for k in reversed(range(c.shape[0])):
            y = y * x + c[k]
        return y.sum()

    def power_iteration(A: NN, v: N, steps: K):
        for _ in range(len(steps)):
            v = A @ v
            v = v / v.norm()
        return v @ A @ v

    def discounted(r: T):
        total = 0.0
        for t in reversed(range(r.shape[0])):
            total = r[t] + 0.9 * total
        return total

    def discounts_by_powers(r: T):
        total = 0.0
        for t in range(r.shape[0]):
            total = total + 0.9**t * r[t]
        return total

    def running_mean(x: T):
        s, means = 0.0, []
        for t, row in enumerate(x):
            s = s + row
            means.append(s / (t + 1))
        return tt.stack(means)

    def leapfrog(x: N, steps: T):
        v = 0.0 * x
        for t in range(steps.shape[0]):
            v = v - steps[t] * x.sin()
            x = x + steps[t] * v
        return (x**2).sum()

    def differences(x: TD):
        s = 0.0
        for t in range(x.shape[0] - 1):
            s = s + ((x[t + 1] - x[t]) ** 2).sum()
        return s

    def chain_of_neighbours(x: TD, h: D):
        for t in range(x.shape[0] - 1):
            h = (h * x[t]).sin() + x[t + 1]
        return h.sum()

    def map_of_rows(x: TD, w: D):
        return tt.stack([(x[t] * w).tanh() for t in range(x.shape[0])])

    def joined_rows(x: TD, w: D):
        return tt.cat([x[t : t + 1] * w for t in range(x.shape[0])])

    def without_first_sine(x: TD, h: D):
        for t in range(x.shape[0]):
            h = h * x[t]
            if t > 0:
                h = h.sin()
        return h.sum()

    def softmax_of_states(x: TD, h: D):
        for t in range(x.shape[0]):
            h = (h * x[t]).softmax(-1)
        return (h * x[0]).sum()

    def both_directions(x: TD, h: D, c: D):
        forward, backward = [], []
        for t in range(len(x)):
            h = (h * x[t]).tanh()
            forward.append(h)
        for t in reversed(range(len(x))):
            c = (c * x[t]).tanh()
            backward.append(c)
        return tt.stack(forward) + tt.stack(backward[::-1])

    def attention_to_states(x: TD, h: D, W: DD):
        states = []
        for t in range(len(x)):
            h = (h @ W + x[t]).tanh()
            states.append(h)
        H = tt.stack(states)
        return (H @ h).softmax(0) @ H

    def filtered(x: T, q: NUMBER, r: NUMBER, p: NUMBER):
        m = x[0]
        for t in range(1, len(x)):
            p = p + q
            k = p / (p + r)
            m = m + k * (x[t] - m)
            p = (1 - k) * p
        return m

    def two_inputs(x: TD, y: TD, h: D):
        for left, right in zip(x, y):
            h = h * left + right
        return h

    def scaled_steps(h: N, a: N, steps: K):
        for _ in range(len(steps)):
            u = a / h
            h = u.tanh()
        return (u * h).sum()

    def with_first_state(x: TD, h: D):
        states = [h]
        for t in range(x.shape[0]):
            states.append(states[-1] * x[t])
        return tt.stack(states)

    def advantages(r: T, v: MORE):
        A, rows = 0.0, []
        for t in reversed(range(r.shape[0])):
            A = r[t] + 0.9 * v[t + 1] - v[t] + 0.72 * A
            rows.append(A)
        return tt.stack(rows[::-1])

    def both_last_states(x: TD, h: D, c: D):
        for t in range(x.shape[0]):
            h, c = (h * x[t]).sin(), c + h
        return tt.stack([h, c])

    def largest_later(x: TD, h: D):
        for t in range(x.shape[0] - 1):
            if t:
                h = h * x[0]
            h = h.maximum(x[t])
        return h.sum()

    def language_model(E: VD, U: DD, O: DV, h: D, words: WORDS, y: WORDS):
        loss = 0.0
        for t in range(words.shape[0]):
            h = (h @ U + E[words[t]]).tanh()
            loss = loss - (h @ O).log_softmax(-1)[y[t]]
        return loss / words.shape[0]

    def rows_by_two_tables(x: TV, h: M, groups: GROUPS, words: WORDS):
        for t in reversed(range(words.shape[0])):
            h = (h * x[t, words[groups[t]]] + words[t] * h).sin()
        return h.sum()

    def largest_of_the_last_state(x: TD, h: D):
        for t in range(x.shape[0]):
            h = (h * x[t]).sin()
        return h.max()

    def inverse_of_the_last_state(A: DD, x: T):
        for t in range(x.shape[0]):
            A = A * x[t]
        return tt.linalg.inv(A).sum()

    def one_more_at_first(x: TD, h: D):
        for t in range(x.shape[0] - 1):
            if t < 1:
                h = h + 1
            h = h * x[t] + x[-1]
        return h.sum()

    def two_steps_back(x: TD, h: D):
        before = h
        for t in range(x.shape[0]):
            before, h = h, before * x[t] + h
        return h.sum()

    def added_in_place(x: TD, h: D):
        h = h * 1
        for t in range(x.shape[0]):
            h += x[t]
        return h

    def from_the_end(x: TD, h: D):
        for t in range(x.shape[0]):
            h = h * (t + 2) + x[-1 - t] ** 2
        return h


class Refused:
    """Functions of x and h, whose sizes are XH."""

    odd_steps = summed(lambda h, x, t: h * x[t] if t % 2 else h + x[t])
    hidden_step = summed(lambda h, x, t: h * x[t] * (2 if int(str(t)) == 25 else 1))
    cosine_of_the_step = summed(lambda h, x, t: h * math.cos(t) + x[t])
    divided_by_the_largest = summed(lambda h, x, t: (h * x[t]) / (h * x[t]).max())
    noise = summed(lambda h, x, t: h * x[t] + tt.randn(1))
    all_but_the_last = summed(lambda h, x, t: (h * x[t]).sin() if t < x.shape[0] - 1 else h * x[t])
    step_by_value = summed(lambda h, x, t: h * x[t] if x[t].sum().item() > 0 else h)
    from_both_ends = summed(lambda h, x, t: h * x[t] + x[-1 - t])

    def late_step_twice(x, h):
        for t, one in enumerate(x):
            h = h * one * (1 + (t >= 150))
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

    def written_rows(x, h):
        y = tt.zeros(x.shape[0], x.shape[1], dtype=tt.float64)
        for t in range(x.shape[0]):
            h = h * x[t]
            y[t] = h
        return y

    def every_entry(x, h):
        for t in range(x.shape[0]):
            for i in range(x.shape[1]):
                h = h * x[t, i]
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

    def late_count(x, h):
        n = 0
        for t in range(x.shape[0]):
            n = n + 1
            h = h + (3.0 if n == 300 else 1.0) * x[t] ** 2
        return h


def _states(x, h0, W, U, b):
    states = [h0]
    for t in range(x.shape[0]):
        states.append((x[t] @ W + states[-1] @ U + b).tanh())
    return states


def through_time(name, row, back=lambda U, dz: U @ dz):
    """A gradient of last_state by hand: the sum of this row of each step for each dz, from the last step back."""

    def by_hand(x, h0, W, U, b, g):
        h, total, dh = _states(x, h0, W, U, b), 0, g
        for t in reversed(range(x.shape[0])):
            dz = (1 - h[t + 1] ** 2) * dh
            total = total + row(x, h, t)[:, None] * dz
            dh = back(U, dz)
        return total

    by_hand.__name__ = name
    return by_hand


class ByHand:
    """Gradients of last_state and all_states."""

    dU_without_transpose = through_time("dU_without_transpose", lambda x, h, t: h[t], lambda U, dz: dz @ U)

    def dh0(x, h0, W, U, b, g):
        for h in reversed(_states(x, h0, W, U, b)[1:]):
            g = U @ ((1 - h * h) * g)
        return g

    def dU_by_falling_indices(x, h0, W, U, b, g):
        h, dU, dh = _states(x, h0, W, U, b), tt.zeros_like(U), g
        for t in range(x.shape[0]):
            dz = (1 - h[-1 - t] ** 2) * dh
            dU = dU + h[-2 - t][:, None] * dz
            dh = dz @ U.T
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


RECURRENT, REFUSED = programs(Recurrent), programs(Refused, XH)
BY_HAND = [  # name in RECURRENT, argument, wrong gradients of it, and right ones
    ("last_state", "W", [ByHand.dW_of_last_step], [through_time("dW", lambda x, h, t: x[t])]),
    ("last_state", "U", [through_time("dU_of_new_states", lambda x, h, t: h[t + 1]), ByHand.dU_without_transpose],
     [through_time("dU", lambda x, h, t: h[t]), ByHand.dU_by_falling_indices]),
    ("last_state", "h0", [ByHand.dh0_of_five_steps, ByHand.dh0_of_first_slope], [ByHand.dh0]),
    ("all_states", "x", [ByHand.dx_of_own_step], [ByHand.dx_of_all]),
    ("horner", "c", [lambda c, x: x ** tt.arange(len(c))], []),
    ("discounted", "r", ["0.9 ** arange(1, T + 1)"], []),
    ("moving_average", "x", ["(1 - a) * g"], []),
]  # fmt: skip
