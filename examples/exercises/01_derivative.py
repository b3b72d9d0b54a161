# %% [markdown]
# # Exercises: a derivative, four ways
#
# Write your answers in place of the dots, or mend the code, and run the file again. Each check says in one sentence
# whether an answer is right. The checks draw new numbers each time.

# %%
import cmath
import math
import random

# %% [markdown]
# ## 1 ★ Predict: a smaller step
#
# Finite differences with the step h have an error. h is divided by `times`, and both steps are so large that rounding
# does not matter. By what is the error divided, for (f(x + h) - f(x - h)) / 2h, and for (f(x + h) - f(x)) / h, which
# nudges in one direction only?


# %%
def answer_1(times: float) -> tuple[float, float]:
    """By what the error is divided: with nudges in both directions, and in one."""
    ...


def check_1(answer) -> str:
    x, times, h = random.uniform(0.4, 0.7), random.uniform(2, 10), 1e-3
    given = answer(times)
    if given is None:
        return "not solved yet. Hint: read the right side of the V in the lesson, then draw it for one direction."
    slope = 1 - math.tanh(x) ** 2

    def error(h, low):
        return abs((math.tanh(x + h) - math.tanh(x - low * h)) / (h + low * h) - slope)

    for low, direction, found in ((1, "both directions", given[0]), (0, "one direction", given[1])):
        right = error(h, low) / error(h / times, low)
        if abs(found / right - 1) > 0.05:
            return f"wrong: h / {times:.2f} divides the error by {right:.2f} with {direction}, and not by {found:.2f}."
    return "right"


print("exercise 1:", check_1(answer_1))

# %% [markdown]
# ## 2 ★★ Find the bug: far from zero
#
# `answer_2` finds slopes by finite differences, and is right near x = 1. Try it with x = 1e12. (Print x + h - x there.)
# Mend it, so that it is right to four digits at least for any x from 1 to 1e15.


# %%
def answer_2(f, x: float) -> float:
    """The slope of f at x."""
    h = 1e-5
    return (f(x + h) - f(x - h)) / (2 * h)


def check_2(answer) -> str:
    for digits in (0, 3, 6, 9, 12, 15):
        x = random.uniform(1, 9) * 10.0**digits / (10 if digits else 1)
        for name, f, slope in (("x²", lambda x: x * x, 2 * x), ("log x", math.log, 1 / x)):
            given = answer(f, x)
            if given is None:
                return "not solved yet. Hint: how far from x is the next number that a float can be?"
            if abs(given / slope - 1) > 1e-4:
                return f"wrong: at x = {x:.3g} the slope of {name} is {slope:.6g}, and you find {given:.6g}."
    return "right"


print("exercise 2:", check_2(answer_2))

# %% [markdown]
# ## 3 ★★ Derive: the sigmoid's slope
#
# The sigmoid is s = 1 / (1 + e^-x). Its slope follows from its value alone, as that of tanh does. Find the formula.


# %%
def answer_3(s: float) -> float:
    """The slope of the sigmoid where its value is s."""
    ...


def check_3(answer) -> str:
    for _ in range(3):
        x, h = random.choice((-1, 1)) * random.uniform(0.3, 3), 1e-5
        s, low, high = (1 / (1 + math.exp(-v)) for v in (x, x - h, x + h))
        given, right = answer(s), (high - low) / (2 * h)
        if given is None:
            return "not solved yet. Hint: differentiate 1 / u with u = 1 + e^-x, and look for s in the result."
        if abs(given - (1 - s * s)) < 1e-9:
            return "wrong: 1 - s² is the slope of tanh, which goes from -1 to 1; the sigmoid goes from 0 to 1."
        if abs(given - right) > 1e-8:
            return f"wrong: at x = {x:.4f}, where s is {s:.4f}, the slope is {right:.6f}, and not {given:.6f}."
    return "right"


print("exercise 3:", check_3(answer_3))

# %% [markdown]
# ## 4 ★★★ Extend: a nudge without subtraction
#
# Rounding spoils a small h because two numbers that nearly agree are subtracted. There is a way around it, if f can
# compute with complex numbers: nudge x by i h. Then f(x + i h) = f(x) + i h f'(x) - h² f''(x) / 2 - ... Where in this
# number does the slope stand? Return it with at least 14 right digits.


# %%
def answer_4(f, x: float) -> float:
    """The slope of f at x; f takes complex numbers and returns one."""
    ...


def check_4(answer) -> str:
    x = random.uniform(0.3, 1.5)
    for name, f, slope in (
        ("tanh x", cmath.tanh, 1 - math.tanh(x) ** 2),
        ("x³", lambda z: z * z * z, 3 * x * x),
        ("e^x / x", lambda z: cmath.exp(z) / z, math.exp(x) * (1 / x - 1 / x**2)),
    ):
        given = answer(f, x)
        if given is None:
            return "not solved yet. Hint: `(3 + 4j).imag` is 4.0. How small may h be, if nothing is subtracted?"
        if abs(given - slope) > 1e-14 * (1 + abs(slope)):
            return f"wrong: at x = {x:.4f} the slope of {name} is {slope:.16g}, and you find {given:.16g}."
    return "right"


print("exercise 4:", check_4(answer_4))
