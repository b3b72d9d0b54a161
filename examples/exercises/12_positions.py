# %% [markdown]
# # Exercises: positions
#
# Write your answers in place of the dots, or mend the code, and run the file again. Each check says in one sentence
# whether an answer is right. The checks draw new numbers each time. r_n has d components (d even), which count from 0:
#
# $$ r_{n,2j} = \sin(n\,\omega_j), \qquad r_{n,2j+1} = \cos(n\,\omega_j), \qquad \omega_j = 10000^{-2j/d} $$

# %%
import math
import random


def encoding(n: float, d: int) -> list[float]:
    """r_n, written out."""
    speeds = [10000 ** (-2 * j / d) for j in range(d // 2)]
    return [wave(n * speed) for speed in speeds for wave in (math.sin, math.cos)]


def dot(x: list[float], y: list[float]) -> float:
    return sum(a * b for a, b in zip(x, y, strict=True))


# %% [markdown]
# ## 1 ★ Predict: the length of r_n
#
# How long is the vector r_n? Predict it before you compute it.


# %%
def answer_1(n: int, d: int) -> float:
    """The length of r_n, √(r_n · r_n), for d components."""
    ...


def check_1(answer) -> str:
    for d in (2, 8, 2 * random.randint(3, 40)):
        n = random.randint(0, 99)
        given, right = answer(n, d), math.hypot(*encoding(n, d))
        if given is None:
            return "not solved yet. Hint: what do sin² and cos² of one clock's angle add up to?"
        if abs(given - right) > 1e-9:
            return f"wrong: for n = {n} and {d} components the length is {right:.4f}, not {given:.4f}."
    return "right"


print("exercise 1:", check_1(answer_1))

# %% [markdown]
# ## 2 ★★ Find the bug: clocks that do not keep step
#
# `answer_2` should write r_n down, and its first two components are right for every n. But with
# it a shift of positions is not a rotation, and nothing else in a program would show the mistake. Why is it not one?


# %%
def answer_2(n: int, d: int) -> list[float]:
    """The d components of r_n."""
    return [(math.cos if i % 2 else math.sin)(n / 10000 ** (i / d)) for i in range(d)]


def check_2(answer) -> str:
    for d in (2, 4, 2 * random.randint(3, 9)):
        n = random.randint(1, 60)
        given, right = answer(n, d), encoding(n, d)
        if given is None:
            return "not solved yet. Hint: how far is one component of a pair ahead of the other?"
        if len(given) != d:
            return f"wrong: r_n should have {d} components, and yours has {len(given)}."
        for i in range(d):
            if abs(given[i] - right[i]) > 1e-9:
                apart = given[i - i % 2] ** 2 + given[i - i % 2 + 1] ** 2
                return f"wrong: component {i} of r_{n} is off (d = {d}); the squares of its pair add up to {apart:.4f}."
    return "right"


print("exercise 2:", check_2(answer_2))

# %% [markdown]
# ## 3 ★★ Derive: a distance without positions
#
# The distance k of two positions can be read from r_n · r_{n+k}, which does not depend on n. Which function of k is it?


# %%
def answer_3(k: int, d: int) -> float:
    """r_n · r_{n+k}, for d components."""
    ...


def check_3(answer) -> str:
    for d, k in ((32, 0), (2, 1), (2 * random.randint(2, 20), random.randint(1, 30))):
        n = random.randint(0, 50)
        given, right = answer(k, d), dot(encoding(n, d), encoding(n + k, d))
        if given is None:
            return "not solved yet. Hint: sin a sin b + cos a cos b = cos(a − b), once for each clock."
        if abs(given - right) > 1e-9:
            return f"wrong: r_{n} · r_{n + k} with {d} components is {right:.4f}, not {given:.4f}."
    return "right"


print("exercise 3:", check_3(answer_3))

# %% [markdown]
# ## 4 ★★★ Extend: positions that turn the words (RoPE)
#
# Many models today add nothing. They take the query at position n and the key at position m, and turn each pair of
# their components by the angle of the position, nω_j or mω_j ("rotary position embedding"). Why? A score should depend
# on the words and on n − m, and on nothing else. Turn the pair (x, y) by the angle a to (x cos a − y sin a, x sin a + y
# cos a).


# %%
def answer_4(x: list[float], n: int) -> list[float]:
    """The vector x with its components 2j and 2j + 1 turned by the angle n / 10000^(2j / d), for all j."""
    ...


def check_4(answer) -> str:
    for d in (2, 6, 2 * random.randint(2, 8)):
        q, k = ([random.gauss(0, 1) for _ in range(d)] for _ in range(2))
        n, m, shift = (random.randint(1, 30) for _ in range(3))
        turned = answer(q, n)
        if turned is None:
            return "not solved yet. Hint: a loop over j, with its own angle; sin and cos of it appear twice each."
        if abs(math.hypot(*turned) - math.hypot(*q)) > 1e-9:
            return f"wrong: a rotation keeps the length {math.hypot(*q):.4f}; yours makes it {math.hypot(*turned):.4f}."
        here, there = (dot(answer(q, n + s), answer(k, m + s)) for s in (0, shift))
        if abs(here - there) > 1e-9:
            return f"wrong: the score of positions {n}, {m} is {here:.4f}; {shift} positions later it is {there:.4f}."
        for j in range(d // 2):
            a = n * 10000 ** (-2 * j / d)
            if abs(turned[2 * j] - q[2 * j] * math.cos(a) + q[2 * j + 1] * math.sin(a)) > 1e-9:
                return f"wrong: for d = {d}, n = {n} components {2 * j} and {2 * j + 1} are not turned by {a:.4f}."
    return "right"


print("exercise 4:", check_4(answer_4))
