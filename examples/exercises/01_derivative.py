# %% [markdown]
# # Exercises: a derivative, four ways
#
# Write your answers in place of the dots, or mend the code, and run the file again. Each check says in one sentence
# whether an answer is right. The checks draw new numbers each time.

# %%
import cmath
import math
import random

from judge import check, compare

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


@check("read the right side of the V in the lesson, then draw it for one direction.")
def check_1(answer) -> None:
    def error(h, low):
        return abs((math.tanh(x + h) - math.tanh(x - low * h)) / (h + low * h) - (1 - math.tanh(x) ** 2))

    for times in (random.uniform(2, 3), random.uniform(3, 10)):
        x, h = random.uniform(0.2, 0.45), 1e-3
        right = tuple(error(h, low) / error(h / times, low) for low in (1, 0))
        mistakes = {
            "In both directions the first term of the error cancels, and the next one falls faster.": (times, ...),
            "In one direction the first term of the error stays: it falls as h does.": (..., times**2),
        }
        case = f"for h / {times:.2f}"
        names = ("the divisor of the error with both directions", "the divisor with one direction")
        answer.compare((times,), right, case, mistakes, tolerance=0.01, names=names)


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


@check("how far from x is the next number that a float can be?")
def check_2(answer) -> None:
    for digits in (0, 3, 6, 9, 12, 15):
        x, c = random.uniform(1, 9) * 10.0**digits / (10 if digits else 1), random.uniform(1, 2)
        hint = "For smaller x it was right: there h was large enough beside the distance of two floats."
        for name, f, slope in (
            (f"{c / x:.3g} u²", lambda u, c=c / x: c * u * u, 2 * c),
            (f"{c * x:.3g} log u", lambda u, c=c * x: c * math.log(u), c),
        ):
            mistakes = {"Is x + h still another number than x - h there?": 0.0}
            case = f"at u = {x:.3g} the slope of {name}"
            hint = hint if digits else "Near 1 the step was right as it was."
            answer.compare((f, x), slope, case, mistakes, tolerance=1e-4, hint=hint)


print("exercise 2:", check_2(answer_2))

# %% [markdown]
# ## 3 ★★ Derive: the sigmoid's slope
#
# The sigmoid is s = 1 / (1 + e^-x). Its slope follows from its value alone, as that of tanh does. Find the formula.


# %%
def answer_3(s: float) -> float:
    """The slope of the sigmoid where its value is s."""
    ...


@check("differentiate 1 / u with u = 1 + e^-x, and look for s in the result.")
def check_3(answer) -> None:
    for _ in range(3):
        x, h = random.choice((-1, 1)) * random.uniform(0.3, 3), 1e-5
        s, low, high = (1 / (1 + math.exp(-v)) for v in (x, x - h, x + h))
        mistakes = {
            "1 - s² is the slope of tanh, which goes from -1 to 1; the sigmoid goes from 0 to 1.": 1 - s * s,
            "-1 / u² is the slope of 1 / u with respect to u: the slope of u, -e^-x, is missing.": -s * s,
        }
        right = (high - low) / (2 * h)
        answer.compare((s,), right, f"at x = {x:.4f}, where s is {s:.4f}, the slope", mistakes, tolerance=1e-8)


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


@check("`(3 + 4j).imag` is 4.0. How small may h be, if nothing is subtracted?")
def check_4(answer) -> None:
    x = random.uniform(0.3, 1.5)
    for name, f, slope in (
        ("tanh x", cmath.tanh, 1 - math.tanh(x) ** 2),
        ("x³", lambda z: z * z * z, 3 * x * x),
        ("e^x / x", lambda z: cmath.exp(z) / z, math.exp(x) * (1 / x - 1 / x**2)),
    ):
        result = answer(f, x)
        nearly = isinstance(result, float) and abs(result - slope) < 1e-3
        hint = (
            "It is nearly right: take a smaller h, and subtract nothing."
            if nearly
            else ("The slope stands in the imaginary part, multiplied by h.")
        )
        compare(result, slope, f"at x = {x:.4f} the slope of {name}", {hint: 0.0}, tolerance=2e-14, hint=hint)


print("exercise 4:", check_4(answer_4))
