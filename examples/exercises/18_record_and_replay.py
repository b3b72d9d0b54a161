# %% [markdown]
# # Exercises: record and replay
#
# Write your answers in place of the dots, or mend the code, and run the file again. Each check says in one sentence
# whether an answer is right. The checks draw new numbers each time.

# %%
import random

import tinytensor as tt

# %% [markdown]
# ## 1 ★ Predict: how many recordings?
#
# A compiled function is called several times, with a tensor of n entries and a rate, which is a Python number. Each
# call is a pair (n, rate). How many recordings are there at the end?


# %%
def answer_1(calls: list[tuple[int, float]]) -> int:
    """The number of recordings after these calls."""
    ...


def check_1(answer) -> str:
    calls = [(2, 0.1), (3, 0.1), (2, 0.2), (3, 0.3)]
    calls += [(random.choice([2, 3, 4]), random.choice([0.1, 0.2, 0.3])) for _ in range(random.randint(1, 4))]
    calls.append(random.choice(calls))
    random.shuffle(calls)
    given = answer(calls)
    if given is None:
        return "not solved yet. Hint: a recording holds for one shape, and a number stands in it as it was."
    scale = tt.compile(lambda x, rate: x * rate)
    for n, rate in calls:
        scale(tt.ones(n), rate)
    right = sum(map(len, scale.recordings.values()))
    return "right" if given == right else f"wrong: {calls} lead to {right} recordings, not {given}."


print("exercise 1:", check_1(answer_1))

# %% [markdown]
# ## 2 ★★ Find the bug: noise that is always the same
#
# `answer_2` adds noise from the standard normal distribution to each entry of x. `compile` refuses it, and rightly so:
# a replay would add the noise of the first call again. Mend it, so that it can be recorded.


# %%
def answer_2(x):
    """x plus noise, which is another one for each entry and each call."""
    return x + tt.tensor([random.gauss(0, 1) for _ in range(len(x))])


def check_2(answer) -> str:
    x = tt.zeros(2000)
    try:
        noisy = tt.compile(answer, fullgraph=True)
        first, second = noisy(x), noisy(x)
    except RuntimeError as error:
        return f"wrong: {error}"
    if first is None:
        return "not solved yet. Hint: which random numbers does a replay draw anew?"
    if first.tolist() == second.tolist():
        return "wrong: a second call adds the same noise."
    mean, deviation = second.mean().item(), second.std().item()
    if abs(mean) > 0.2 or abs(deviation - 1) > 0.2:
        return f"wrong: the noise has the mean {mean:.2f} and the deviation {deviation:.2f}, not 0 and 1."
    if len(set(second.tolist())) < 1000:
        return "wrong: entries share their noise; draw one number for each."
    return "right"


print("exercise 2:", check_2(answer_2))

# %% [markdown]
# ## 3 ★★ Derive: when does a recording pay?
#
# An eager step takes e microseconds. The first call of a compiled one records, and takes r; each further one takes p.
# How many steps must you make, at least, until compiling has taken less time in all than eager steps?


# %%
def answer_3(e: int, r: int, p: int) -> int | None:
    """The least number of steps from which on compiling is quicker in all; None is for p >= e: it never is."""
    ...


def check_3(answer) -> str:
    for rest in (0, -1):  # the two lines cross at a step, and just before one
        p, gain = random.randint(1, 20), random.randint(2, 100)
        e, r = p + gain, p + gain * random.randint(2, 50) + rest
        steps = 1
        while r + (steps - 1) * p >= steps * e:
            steps += 1
        given = answer(e, r, p)
        if given is None:
            return "not solved yet. Hint: n steps take n e, or r + (n − 1) p. Where do the two lines cross?"
        if given != steps:
            times = f"{steps * e} eager and {r + (steps - 1) * p} compiled"
            return f"wrong: e, r, p = {e}, {r}, {p}: the least is {steps} steps ({times}), not {given}."
        if answer(p, r, e) is not None or answer(p, r, p) is not None:
            return "wrong: if a replay takes no less time than an eager step, the answer is None."
    return "right"


print("exercise 3:", check_3(answer_3))

# %% [markdown]
# ## 4 ★★★ Extend: clipping without an if
#
# All gradients of a model together are one long vector. Clipping divides it by its length if it is longer than 1.
# `compile` refuses `if length > 1`, a decision of Python. Write it without one. Gradients that are all 0 stay 0.


# %%
def answer_4(gradients: list) -> list:
    """The gradients, divided by their common length if that is larger than 1."""
    ...


def check_4(answer) -> str:
    def scaled(length: float) -> list:
        gradients = [tt.randn(3), tt.randn(2, 2)]
        size = sum(g.square().sum() for g in gradients).sqrt()
        return [g * (length / size) for g in gradients]

    if answer(scaled(1.0)) is None:
        return "not solved yet. Hint: the smaller of 1 and 1 / length can be computed with tensors: `clamp`."
    try:
        clip = tt.compile(answer, fullgraph=True)
        for length in (random.uniform(0.2, 0.9), random.uniform(2, 9), 0.0, random.uniform(1.0, 1.2)):
            gradients = scaled(length)
            for given, g in zip(clip(gradients), gradients, strict=True):
                if not tt.allclose(given, g / max(1.0, length), atol=1e-6):
                    ratio = (given.norm() / g.norm()).item() if length else given.norm().item()
                    wanted = f"should be multiplied by {1 / max(1.0, length):.4f}, not by {ratio:.4f}"
                    return (
                        f"wrong: gradients of the common length {length:.4f} {wanted if length else 'should stay 0'}."
                    )
    except RuntimeError as error:
        return f"wrong: {error}"
    return "right"


print("exercise 4:", check_4(answer_4))
