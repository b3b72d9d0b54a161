# %% [markdown]
# # Exercises: record and replay
#
# Write your answers in place of the dots, or mend the code, and run the file again. Each check says in one sentence
# whether an answer is right. The checks draw new numbers each time.

# %%
import random

from judge import Wrong, came, check, compare

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


@check("a recording holds for one shape, and a number stands in it as it was.")
def check_1(answer) -> None:
    calls = [(2, 0.1), (3, 0.1), (2, 0.2), (3, 0.3)]
    calls += [(random.choice([2, 3, 4]), random.choice([0.1, 0.2, 0.3])) for _ in range(random.randint(1, 4))]
    calls.append(random.choice(calls))
    random.shuffle(calls)
    scale = tt.compile(lambda x, rate: x * rate)
    for n, rate in calls:
        scale(tt.ones(n), rate)
    right = sum(map(len, scale.recordings.values()))
    mistakes = {
        "A call with a shape and a number that came before finds their recording.": len(calls),
        "A number stands in a recording as it was: another one needs another recording.": len({n for n, _ in calls}),
        "A recording holds for one shape.": len({rate for _, rate in calls}),
    }
    answer.compare((list(calls),), right, f"after {calls} the number of recordings", mistakes)


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


@check("which random numbers does a replay draw anew?")
def check_2(answer) -> None:
    x = tt.linspace(-5, 9, 2000)
    answer(x)
    noisy = tt.compile(answer.function, fullgraph=True)
    first, second = noisy(x) - x, noisy(x) - x
    if tuple(second.shape) != (2000,):
        raise Wrong(f"x has the shape (2000,), and your result {tuple(second.shape)}.")
    if first.tolist() == second.tolist():
        raise Wrong("a second call adds the same noise.")
    if len(set(second.tolist())) < 1000:
        raise Wrong("entries share their noise; draw one number for each.")
    mean, deviation = second.mean().item(), second.std().item()
    if not (abs(mean) < 0.12 and abs(deviation - 1) < 0.12):
        known = (
            "That is the uniform distribution from 0 to 1." if abs(mean - 0.5) + abs(deviation - 0.289) < 0.1 else ""
        )
        raise Wrong(f"the noise has the mean {mean:.2f} and the deviation {deviation:.2f}, not 0 and 1. {known}")


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


@check("n steps take n e, or r + (n − 1) p. Where do the two lines cross?")
def check_3(answer) -> None:
    for times, rest in ((random.randint(2, 50), 0), (random.randint(2, 50), -1), (1, -1)):
        gain = random.randint(2, 10)
        p = gain + random.randint(1, 20)
        e, r = p + gain, p + gain * times + rest  # the two lines cross at a step, and just before one
        steps = 1
        while r + (steps - 1) * p >= steps * e:
            steps += 1
        mistakes = {
            "With one step less both take the same time, or compiling takes more.": steps - 1,
            "The recording is the first step: n − 1 replays follow.": r // gain + 1,
        }
        answer.compare((e, r, p), steps, f"for e, r, p = {e}, {r}, {p} the least number of steps", mistakes)
        for never in ((p, r, e), (p, r, p)):
            if (result := answer.run(*never)) is not None:
                raise Wrong(
                    f"if a replay takes no less time than an eager step, the answer is None, not {came(result)}."
                )


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


@check("the smaller of 1 and 1 / length can be computed with tensors: `clamp`.")
def check_4(answer) -> None:
    answer([tt.ones(3)])
    clip = tt.compile(answer.function, fullgraph=True)
    for length in (random.uniform(0.2, 0.9), random.uniform(2, 9), 0.0, random.uniform(1.0, 1.2)):
        gradients = [tt.randn(3), tt.randn(2, 2)]
        size = sum(g.square().sum() for g in gradients).sqrt()
        gradients = [g * (length / size) for g in gradients]
        mistakes = {
            "Those that are short enough stay as they are.": tuple(g / max(length, 1e-30) for g in gradients),
            "One length counts, that of all gradients together.": tuple(
                g / max(1.0, g.norm().item()) for g in gradients
            ),
            "The entries are cut off one by one: the direction has changed.": tuple(g.clamp(-1, 1) for g in gradients),
        }
        right = tuple(g / max(1.0, length) for g in gradients)
        compare(clip(gradients), right, f"for gradients of the common length {length:.4f}", mistakes)


print("exercise 4:", check_4(answer_4))
