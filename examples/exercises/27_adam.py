# %% [markdown]
# # Exercises: Adam and its rate
#
# Write your answers in place of the dots, or mend the code, and run the file again. Each check says in one sentence
# whether an answer is right. The checks draw new numbers each time.

# %%
import math
import random

from judge import check

import tinytensor as tt

# %% [markdown]
# ## 1 ★ Predict: a gradient that ends
#
# In the first s steps a parameter has the gradient g, and in n further ones the gradient 0. What is its m then, without
# and with the correction of its bias?


# %%
def answer_1(g: float, beta1: float, s: int, n: int) -> tuple[float, float]:
    """m after s + n steps, and m / (1 − β₁ᵗ) with t = s + n."""
    ...


@check("the first s steps bring m to (1 − β₁ˢ) g. By what does each further one multiply it?")
def check_1(answer) -> None:
    for n in (random.randint(2, 5), 0, random.randint(6, 9)):
        g, beta1, s, m = (
            random.choice([-1, 1]) * random.uniform(1, 9),
            random.uniform(0.6, 0.9),
            random.randint(2, 5),
            0.0,
        )
        for step in range(s + n):
            m = beta1 * m + (1 - beta1) * (g if step < s else 0)
        mistakes = {
            "A gradient of 0 makes m smaller: it is a mean.": ((1 - beta1**s) * g, ...),
            "m begins with 0, so it is not g after s steps.": (g * beta1**n, ...),
            "The n steps do not bring further gradients g.": ((1 - beta1 ** (s + n)) * g, ...),
            "m is a mean, with the factor 1 − β₁, not a sum.": (m / (1 - beta1), ...),
            "The correction knows all steps, also those with the gradient 0.": (..., m / (1 - beta1**s)),
            "That is m without its correction.": (..., m),
        }
        names, case = ("m", "the corrected m"), f"with g = {g:.3f}, β₁ = {beta1:.3f}, s = {s} and n = {n}"
        answer.compare((g, beta1, s, n), (m, m / (1 - beta1 ** (s + n))), case, mistakes, names=names)


print("exercise 1:", check_1(answer_1))

# %% [markdown]
# ## 2 ★★ Find the bug: right in the first step
#
# `answer_2` is Adam for one number X, which begins with 0. Its first step is right, later ones are not. Mend it.


# %%
def answer_2(gradients: list[float], rate: float, beta1: float, beta2: float, eps: float) -> float:
    """X after a step with each of the gradients."""
    X, m, v = 0.0, 0.0, 0.0
    for t, g in enumerate(gradients, 1):
        m = beta1 * m + (1 - beta1) * g
        v = beta2 * v + (1 - beta2) * g * g
        m = m / (1 - beta1**t)
        v = v / (1 - beta2**t)
        X -= rate * m / (math.sqrt(v) + eps)
    return X


WRONG_STEPS = {  # what to say -> the step divided by ρ, and the m and v that are kept
    "The corrected m and v go into the means of the next step: keep those without the correction.": (
        lambda m, v, m_hat, v_hat, eps: (m_hat / (math.sqrt(v_hat) + eps), m_hat, v_hat)
    ),
    "Both corrections are missing.": lambda m, v, m_hat, v_hat, eps: (m / (math.sqrt(v) + eps), m, v),
    "The correction of v is missing.": lambda m, v, m_hat, v_hat, eps: (m_hat / (math.sqrt(v) + eps), m, v),
    "The correction of m is missing.": lambda m, v, m_hat, v_hat, eps: (m / (math.sqrt(v_hat) + eps), m, v),
    "The correction of v stands under the root.": (
        lambda m, v, m_hat, v_hat, eps: (m_hat / (v_hat / math.sqrt(v) + eps), m, v)
    ),
    "ε is added to the root, not under it.": lambda m, v, m_hat, v_hat, eps: (m_hat / math.sqrt(v_hat + eps), m, v),
    "The root is missing.": lambda m, v, m_hat, v_hat, eps: (m_hat / (v_hat + eps), m, v),
}


@check("which m goes into the mean of the next step?")
def check_2(answer) -> None:
    for steps in (random.randint(3, 5), 1, random.randint(6, 9)):
        gradients = [random.choice([-1, 1]) * random.uniform(0.2, 2) for _ in range(steps)]
        rate, eps = random.uniform(0.1, 0.5), random.uniform(0.05, 0.2)
        beta1, beta2 = random.uniform(0.5, 0.8), random.uniform(0.85, 0.95)
        p = tt.zeros(1, dtype=tt.float64, requires_grad=True)
        optimizer = tt.optim.Adam([p], lr=rate, betas=(beta1, beta2), eps=eps)
        mistakes = {}
        for said, rule in WRONG_STEPS.items():
            X, m, v = 0.0, 0.0, 0.0
            for t, g in enumerate(gradients, 1):
                m, v = beta1 * m + (1 - beta1) * g, beta2 * v + (1 - beta2) * g * g
                step, m, v = rule(m, v, m / (1 - beta1**t), v / (1 - beta2**t), eps)
                X -= rate * step
            mistakes[said] = X
        for g in gradients:
            p.grad = tt.tensor([g], dtype=tt.float64)
            optimizer.step()
        inputs = list(gradients), rate, beta1, beta2, eps
        answer.compare(inputs, p.item(), f"after {steps} steps X", mistakes)


print("exercise 2:", check_2(answer_2))

# %% [markdown]
# ## 3 ★★ Derive: where does a weight end?
#
# A weight has the gradient g ≠ 0 in each step, and a decay λ. After very many steps it does not move any more. Where is
# it with AdamW (ε is so small that it can be left out), and where with SGD and L2: X → X − ρ (g + λ X)?


# %%
def answer_3(g: float, decay: float, rate: float) -> tuple[float, float]:
    """The last X with AdamW, and with SGD and L2; decay is λ, rate is ρ."""
    ...


@check("what is m̂ / √v̂ if all gradients are g? Where is the whole step 0?")
def check_3(answer) -> None:
    for sign in random.sample([1, -1, 1], 3):
        g, decay, rate = sign * 10 ** random.uniform(-1, 1), random.uniform(0.4, 0.9), random.uniform(0.1, 0.3)
        ends = []
        for Optimizer in (tt.optim.AdamW, tt.optim.SGD):
            p = tt.zeros(1, dtype=tt.float64, requires_grad=True)
            p.grad = tt.tensor([g], dtype=tt.float64)
            optimizer = Optimizer([p], lr=rate, weight_decay=decay)
            for _ in range(600):
                optimizer.step()
            ends.append(p.item())
        mistakes = {
            "Adam divides g by its size: only its sign is left.": (-g / decay, ...),
            "It goes against the gradient.": (math.copysign(1 / decay, g), ...),
            "The decay stops it: where do both parts of the step cancel?": (-math.copysign(math.inf, g), ...),
            "The rate stands before both parts of the step, and cancels.": (-math.copysign(1 / (rate * decay), g), ...),
            "SGD does not divide g by its size.": (..., -math.copysign(1 / decay, g)),
            "With SGD, too, it goes against the gradient.": (..., g / decay),
            "The rate stands before g and before λ X, and cancels.": (..., -rate * g / decay),
        }
        names, case = ("X with AdamW", "X with SGD and L2"), f"with g = {g:.4f}, λ = {decay:.4f} and ρ = {rate:.4f}"
        answer.compare((g, decay, rate), tuple(ends), case, mistakes, names=names)


print("exercise 3:", check_3(answer_3))

# %% [markdown]
# ## 4 ★★★ Extend: decay and a schedule
#
# Extend Adam (exercise 2) by a schedule, `rates[0]` in the first step and so on, and by a decay λ: with `apart` as
# AdamW has it, else as L2. AdamW's decay ρ λ X takes the rate of its step.


# %%
def answer_4(
    X: float, gradients: list[float], rates: list[float], betas: tuple[float, float], decay: float, apart: bool
) -> float:
    """X after a step with each of the gradients; ε is 0.1."""
    ...


@check("with L2 the gradient is g + λ X, in m and in v. With AdamW m and v do not know of the decay.")
def check_4(answer) -> None:
    for apart in random.sample([True, False, True, False], 4):
        steps, X = random.randint(3, 6), random.choice([-1, 1]) * random.uniform(1, 2)
        gradients = [random.choice([-1, 1]) * random.uniform(0.2, 2) for _ in range(steps)]
        rates = [random.uniform(0.05, 0.3) for _ in range(steps)]
        betas, decay = (random.uniform(0.5, 0.8), random.uniform(0.85, 0.95)), random.uniform(0.3, 0.9)

        def decayed(apart, rates, X=X, gradients=gradients, betas=betas, decay=decay):
            with_rates = {"before": [1 - rate * decay for rate in rates]} if apart else {"L2": decay}
            return _adam(X, gradients, rates, betas, **with_rates)

        case, common = f"with apart = {apart} after {steps} steps X", (X, gradients, rates, betas)
        kept = [1 - rate * decay for rate in rates]
        mistakes = {
            "That is L2: with `apart` the decay is no part of the gradient.": decayed(False, rates),
            "That is AdamW: without `apart` λ X is a part of the gradient.": decayed(True, rates),
            "The decay is missing.": _adam(*common),
            "The gradient and λ X have the same sign.": _adam(*common, L2=-decay),
            "The decay takes a weight towards 0, not away from it.": _adam(*common, before=[2 - x for x in kept]),
            "The decay is multiplied by the rate of its step.": _adam(*common, before=[1 - decay] * steps),
            "The decay is that of X before the step.": _adam(*common, after=kept),
            "Each step has its own rate; that is the first one for all.": decayed(apart, rates[:1] * steps),
            "Each step has its own rate; that is the last one for all.": decayed(apart, rates[-1:] * steps),
        }
        answer.compare((X, list(gradients), list(rates), betas, decay, apart), decayed(apart, rates), case, mistakes)


def _adam(X, gradients, rates, betas, L2=0.0, before=None, after=None) -> float:
    """X after Adam's steps, with L2 as a part of the gradient, and factors of X before and after each step."""
    p = tt.tensor([X], dtype=tt.float64, requires_grad=True)
    optimizer = tt.optim.Adam([p], betas=betas, eps=0.1)
    with tt.no_grad():
        for i, (g, rate) in enumerate(zip(gradients, rates)):
            p *= before[i] if before else 1
            p.grad = g + L2 * p
            optimizer.param_groups[0]["lr"] = rate
            optimizer.step()
            p *= after[i] if after else 1
    return p.item()


print("exercise 4:", check_4(answer_4))
