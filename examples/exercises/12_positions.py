# %% [markdown]
# # Exercises: positions
#
# Write your answers in place of the dots, or mend the code, and run the file again. Each check says in one sentence
# whether an answer is right. The checks draw new numbers each time. r_n has d components (d even), which count from 0:
#
# $$ r_{n,2j} = \sin(n\,\omega_j), \qquad r_{n,2j+1} = \cos(n\,\omega_j), \qquad \omega_j = 10000^{-2j/d} $$

# %%
import cmath
import math
import random

from judge import check


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


@check("what do sin² and cos² of one clock's angle add up to?")
def check_1(answer) -> None:
    for d in (8, 2, 2 * random.randint(3, 40)):
        n = random.randint(0, 99)
        mistakes = {"sin² + cos² is 1 for a clock, and d components are d / 2 clocks.": math.sqrt(d)}
        right = math.hypot(*encoding(n, d))
        answer.compare((n, d), right, f"for n = {n} and {d} components the length", mistakes)


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


@check("how far is one component of a pair ahead of the other?")
def check_2(answer) -> None:
    for d in (2, 4, 2 * random.randint(3, 9)):
        n = random.randint(1, 60)

        def waves(power, n=n, d=d):
            return [(math.cos if i % 2 else math.sin)(n / 10000 ** (power(i) / d)) for i in range(d)]

        mistakes = {
            "Each component has an angle of its own; both of a pair need the same.": waves(lambda i: i),
            "A pair's cosine has the angle of the next pair.": waves(lambda i: i + i % 2),
            "These are sines only.": [wave for sine in encoding(n, d)[::2] for wave in (sine, sine)],
            "Sines stand at even places, cosines at odd ones.": [encoding(n, d)[i ^ 1] for i in range(d)],
        }
        answer.compare((n, d), encoding(n, d), f"r_{n} with {d} components", mistakes)


print("exercise 2:", check_2(answer_2))

# %% [markdown]
# ## 3 ★★ Derive: a distance without positions
#
# The distance k of two positions can be read from r_n · r_{n+k}, which does not depend on n. Which function of k is it?


# %%
def answer_3(k: int, d: int) -> float:
    """r_n · r_{n+k}, for d components."""
    ...


@check("sin a sin b + cos a cos b = cos(a − b), once for each clock.")
def check_3(answer) -> None:
    for d, k in ((2, 1), (2 * random.randint(2, 20), random.randint(1, 30)), (32, 0)):
        n = random.randint(0, 50)
        angles = [k * 10000 ** (-i / d) for i in range(d)]
        mistakes = {
            "Each clock counts once: there are d / 2 speeds, not d.": sum(map(math.cos, angles)),
            "At k = 0 this is 0, but a vector's product with itself is not.": sum(map(math.sin, angles[::2])),
        }
        right = dot(encoding(n, d), encoding(n + k, d))
        answer.compare((k, d), right, f"r_{n} · r_{n + k} with {d} components", mistakes)


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


@check("a loop over j, with its own angle; sin and cos of it appear twice each.")
def check_4(answer) -> None:
    for d in (2, 6, 2 * random.randint(2, 8)):
        x, n = [random.gauss(0, 1) for _ in range(d)], random.randint(1, 30)

        def turned(speed, x=x, d=d, n=n):
            pairs = [complex(*x[i : i + 2]) * cmath.exp(1j * n * speed(i / d)) for i in range(0, d, 2)]
            return [part for pair in pairs for part in (pair.real, pair.imag)]

        def speed(part):
            return 10000**-part

        right = turned(speed)
        mistakes = {
            "That is the encoding added to x: turn x instead.": [a + b for a, b in zip(x, encoding(n, d), strict=True)],
            "All pairs are turned by n; each has its own speed.": turned(lambda part: 1.0),
            "The pairs are turned the other way round.": turned(lambda part: -speed(part)),
        }
        hint = "A rotation keeps the length. Is the first component overwritten before the second one is computed?"
        answer.compare((x, n), right, f"for d = {d}, n = {n} the vector", mistakes, hint=hint)


print("exercise 4:", check_4(answer_4))
