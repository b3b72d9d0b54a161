import math

import numpy as np

import tinytensor as tt


def right_1(g, beta1, s, n):
    """The first s steps leave (1 − β₁ˢ) g, and each further one multiplies it by β₁."""
    m = (1 - beta1**s) * g * beta1**n
    return m, m / (1 - beta1 ** (s + n))


def right_1_as_a_sum(g, beta1, s, n):
    """The gradient of k steps ago has the weight (1 − β₁) β₁ᵏ."""
    weights = [(1 - beta1) * beta1**k for k in range(s + n)]
    return g * sum(weights[n:]), g * sum(weights[n:]) / sum(weights)


def wrong_1_stays(g, beta1, s, n):
    return (1 - beta1**s) * g, (1 - beta1**s) * g / (1 - beta1 ** (s + n))


def wrong_1_begins_with_g(g, beta1, s, n):
    return g * beta1**n, right_1(g, beta1, s, n)[1]


def wrong_1_goes_on(g, beta1, s, n):
    return (1 - beta1 ** (s + n)) * g, g


def wrong_1_sum(g, beta1, s, n):
    return right_1(g, beta1, s, n)[0] / (1 - beta1), right_1(g, beta1, s, n)[1]


def wrong_1_corrected_by_s(g, beta1, s, n):
    return right_1(g, beta1, s, n)[0], g * beta1**n


def wrong_1_not_corrected(g, beta1, s, n):
    return (right_1(g, beta1, s, n)[0],) * 2


def right_2(gradients, rate, beta1, beta2, eps):
    """m and v are kept as they are; only the step uses what is corrected."""
    X, m, v = 0.0, 0.0, 0.0
    for t, g in enumerate(gradients, 1):
        m = beta1 * m + (1 - beta1) * g
        v = beta2 * v + (1 - beta2) * g * g
        X -= rate * m / (1 - beta1**t) / (math.sqrt(v / (1 - beta2**t)) + eps)
    return X


def right_2_corrected_rate(gradients, rate, beta1, beta2, eps):
    """Both corrections as a factor of the rate, and of ε."""
    X, m, v = 0.0, 0.0, 0.0
    for t, g in enumerate(gradients, 1):
        m += (1 - beta1) * (g - m)
        v += (1 - beta2) * (g**2 - v)
        root = (1 - beta2**t) ** 0.5
        X -= rate * root / (1 - beta1**t) * m / (v**0.5 + eps * root)
    return X


def wrong_2_as_it_was(gradients, rate, beta1, beta2, eps):
    X, m, v = 0.0, 0.0, 0.0
    for t, g in enumerate(gradients, 1):
        m = (beta1 * m + (1 - beta1) * g) / (1 - beta1**t)
        v = (beta2 * v + (1 - beta2) * g * g) / (1 - beta2**t)
        X -= rate * m / (math.sqrt(v) + eps)
    return X


def with_another_step(step):
    """Adam with another formula for the step."""

    def adam(gradients, rate, beta1, beta2, eps):
        X, m, v = 0.0, 0.0, 0.0
        for t, g in enumerate(gradients, 1):
            m, v = beta1 * m + (1 - beta1) * g, beta2 * v + (1 - beta2) * g * g
            X -= rate * step(m, v, 1 - beta1**t, 1 - beta2**t, eps)
        return X

    return adam


wrong_2_not_corrected = with_another_step(lambda m, v, a, b, eps: m / (v**0.5 + eps))
wrong_2_only_m_corrected = with_another_step(lambda m, v, a, b, eps: m / a / (v**0.5 + eps))
wrong_2_only_v_corrected = with_another_step(lambda m, v, a, b, eps: m / ((v / b) ** 0.5 + eps))
wrong_2_root_first = with_another_step(lambda m, v, a, b, eps: m / a / (v**0.5 / b + eps))
wrong_2_eps_in_the_root = with_another_step(lambda m, v, a, b, eps: m / a / (v / b + eps) ** 0.5)
wrong_2_no_root = with_another_step(lambda m, v, a, b, eps: m / a / (v / b + eps))


def right_3(g, decay, rate):
    """The quotient is the sign of g: −ρ λ X − ρ sign g = 0. With L2 g + λ X = 0. The rate cancels in both."""
    return -math.copysign(1 / decay, g), -g / decay


def right_3_by_steps(g, decay, rate):
    """Steps until it stands still."""
    X = Y = 0.0
    for _ in range(2000):
        X -= rate * (np.sign(g) + decay * X)
        Y -= rate * (g + decay * Y)
    return X, Y


def wrong_3_with_g(g, decay, rate):
    return -g / decay, -g / decay


def wrong_3_uphill(g, decay, rate):
    return math.copysign(1 / decay, g), -g / decay


def wrong_3_no_end(g, decay, rate):
    return -math.copysign(math.inf, g), -g / decay


def wrong_3_with_the_rate(g, decay, rate):
    return -math.copysign(1 / (rate * decay), g), -g / decay


def wrong_3_sgd_like_adam(g, decay, rate):
    return (-math.copysign(1 / decay, g),) * 2


def wrong_3_rate_in_l2(g, decay, rate):
    return -math.copysign(1 / decay, g), -rate * g / decay


def right_4(X, gradients, rates, betas, decay, apart):
    """L2 is a part of the gradient; AdamW's decay is a factor 1 − ρ λ of X, which m and v do not see."""
    m, v = 0.0, 0.0
    for t, (g, rate) in enumerate(zip(gradients, rates), 1):
        if apart:
            X -= rate * decay * X
        else:
            g += decay * X
        m = betas[0] * m + (1 - betas[0]) * g
        v = betas[1] * v + (1 - betas[1]) * g * g
        X -= rate * m / (1 - betas[0] ** t) / (math.sqrt(v / (1 - betas[1] ** t)) + 0.1)
    return X


def right_4_by_the_engine(X, gradients, rates, betas, decay, apart):
    """tinytensor's own optimizers."""
    p = tt.tensor([X], dtype=tt.float64, requires_grad=True)
    optimizer = (tt.optim.AdamW if apart else tt.optim.Adam)([p], betas=betas, eps=0.1, weight_decay=decay)
    for g, rate in zip(gradients, rates):
        optimizer.param_groups[0]["lr"], p.grad = rate, tt.tensor([g], dtype=tt.float64)
        optimizer.step()
    return p.item()


def wrong_4_always_l2(X, gradients, rates, betas, decay, apart):
    return right_4(X, gradients, rates, betas, decay, False)


def wrong_4_always_apart(X, gradients, rates, betas, decay, apart):
    return right_4(X, gradients, rates, betas, decay, True)


def wrong_4_no_decay(X, gradients, rates, betas, decay, apart):
    return right_4(X, gradients, rates, betas, 0, apart)


def wrong_4_first_rate(X, gradients, rates, betas, decay, apart):
    return right_4(X, gradients, rates[:1] * len(rates), betas, decay, apart)


def wrong_4_last_rate(X, gradients, rates, betas, decay, apart):
    return right_4(X, gradients, rates[-1:] * len(rates), betas, decay, apart)


def wrong_4_away_from_0(X, gradients, rates, betas, decay, apart):
    return right_4(X, gradients, rates, betas, -decay, apart)


def wrong_4_decay_without_the_rate(X, gradients, rates, betas, decay, apart):
    if not apart:
        return right_4(X, gradients, rates, betas, decay, apart)
    for n in range(len(rates)):
        step = right_4(0, gradients[: n + 1], rates, betas, 0, True) - right_4(0, gradients[:n], rates, betas, 0, True)
        X = X - decay * X + step
    return X


def wrong_4_decay_after_the_step(X, gradients, rates, betas, decay, apart):
    if not apart:
        return right_4(X, gradients, rates, betas, decay, apart)
    for n, rate in enumerate(rates):
        step = right_4(0, gradients[: n + 1], rates, betas, 0, True) - right_4(0, gradients[:n], rates, betas, 0, True)
        X = (X + step) * (1 - rate * decay)
    return X
