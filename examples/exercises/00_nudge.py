# %% [markdown]
# # Exercises: nudge it by hand
#
# Write your answers in place of the dots, or mend the code, and run the file again. Each check says in one sentence
# whether an answer is right. The checks draw new numbers each time.

# %%
import math
import random

import numpy as np
from judge import Wrong, check, compare

# %% [markdown]
# ## 1 ★ Predict: three nudges together
#
# You know the slope of the output with respect to each of three inputs. Now all three are nudged together, each by a
# small amount of its own. By how much does the output change?


# %%
def answer_1(slopes: list[float], nudges: list[float]) -> float:
    """The change of the output (for nudges so small that their squares do not count)."""
    ...


@check("what would the first nudge do alone?")
def check_1(answer) -> None:
    for _ in range(3):
        a, b, c = (random.choice((-1, 1)) * random.uniform(1, 3) for _ in range(3))
        nudges = [random.choice((-1, 1)) * random.uniform(1e-6, 2e-6) for _ in range(3)]
        e = a * b + c
        slopes = [2 * e * b, 2 * e * a, 2 * e]
        change = ((a + nudges[0]) * (b + nudges[1]) + c + nudges[2]) ** 2 - e**2
        case = f"for f of the lesson at {a:.3f}, {b:.3f}, {c:.3f} the change"
        mistakes = {
            "Each slope belongs to its own nudge: multiply these first, then add.": sum(slopes) * sum(nudges),
            "A nudge up along a positive slope raises the output.": -change,
        }
        answer.compare((slopes, nudges), change, case, mistakes, tolerance=1e-9)


print("exercise 1:", check_1(answer_1))

# %% [markdown]
# ## 2 ★★ Find the bug: a walk back by hand
#
# The function is y = (a · b - c) · c. The code walks back through its boxes d = a · b, e = d - c and y = e · c. One of
# the three slopes that it finds is wrong. Nudge the inputs to see which one, and mend the walk.


# %%
def answer_2(a: float, b: float, c: float) -> tuple[float, float, float]:
    """The slopes of y = (a b - c) c with respect to a, b and c."""
    d = a * b
    e = d - c
    gradient_e = 1.0 * c
    gradient_c = 1.0 * e
    gradient_d = gradient_e
    gradient_c = gradient_e
    gradient_a = gradient_d * b
    gradient_b = gradient_d * a
    return gradient_a, gradient_b, gradient_c


@check("c goes into two boxes. What does a nudge of c do to each of them?")
def check_2(answer) -> None:
    at, h = [random.choice((-1, 1)) * random.uniform(1, 3) for _ in range(3)], 1e-5

    def y(a, b, c):
        return (a * b - c) * c

    nudged = [[[number + s * h * (i == k) for k, number in enumerate(at)] for s in (1, -1)] for i in range(3)]
    slopes = tuple((y(*up) - y(*down)) / (2 * h) for up, down in nudged)
    mistakes = {
        "For c you return what comes through d - c alone; c goes into a second box.": (..., ..., -at[2]),
        "c goes into two boxes: what comes through each of them is added.": (..., ..., at[2]),
        "Through d - c a nudge of c arrives with the local slope -1.": (..., ..., at[0] * at[1]),
    }
    where, names = ", ".join(f"{number:.3f}" for number in at), [f"the slope for {name}" for name in "abc"]
    answer.compare(tuple(at), slopes, f"at {where}", mistakes, names=names)


print("exercise 2:", check_2(answer_2))

# %% [markdown]
# ## 3 ★★ Derive: a box that divides
#
# The box y = a / b stands somewhere in a larger function, and the gradient g has arrived at it: the output of the whole
# function moves g times as much as y. What does the box send to a, and what to b?


# %%
def answer_3(g: float, a: float, b: float) -> tuple[float, float]:
    """The gradients that y = a / b sends to a and to b, if g arrives at y."""
    ...


@check("find the two local slopes first; a / b is a · b⁻¹.")
def check_3(answer) -> None:
    g, a, b = (random.choice((-1, 1)) * random.uniform(1, 3) for _ in range(3))
    h = 1e-5
    right = g * ((a + h) / b - (a - h) / b) / (2 * h), g * (a / (b + h) - a / (b - h)) / (2 * h)
    names = ("the gradient of a", "the gradient of b")
    answer.compare((g, a, b), right, f"for g, a, b = {g:.3f}, {a:.3f}, {b:.3f}", names=names)


print("exercise 3:", check_3(answer_3))

# %% [markdown]
# ## 4 ★★★ Extend: nudge any function
#
# Write a function that nudges each input of any function of a list of numbers. Leave the list as it was. You may call
# `f` once more than there are inputs, and not more often.


# %%
def answer_4(f, inputs: list[float], h: float) -> list[float]:
    """The slope of f(inputs) with respect to each input, found with a nudge of h."""
    ...


@check("which of the calls can all slopes share?")
def check_4(answer) -> None:
    for count in (3, 1, 6):
        inputs = [random.uniform(-1, 1) for _ in range(count)]
        weights = [random.choice((-1, 1)) * random.uniform(1, 2) for _ in range(count)]
        f = Sine(weights)
        before, slopes = list(inputs), f.slopes(inputs)
        result = answer(f, inputs, 1e-6)
        if inputs != before:
            raise Wrong(f"the inputs were {before}, and {inputs} when you had done; the nudges are still in them.")
        if f.calls > count + 1:
            raise Wrong(f"{count} inputs need {count + 1} calls of f, and you made {f.calls}.")
        sums = [sum(slopes[: i + 1]) for i in range(count)]
        mistakes = {"Nudge one input at a time: the nudges of those before it are still in.": sums}
        compare(result, slopes, "the list of slopes", mistakes, tolerance=1e-4, inputs={"h": np.array(1e-6)})


class Sine:
    """The sine of a weighted sum, which counts its calls."""

    def __init__(self, weights):
        self.weights, self.calls = weights, 0

    def total(self, inputs) -> float:
        return sum(weight * number for weight, number in zip(self.weights, inputs, strict=True))

    def __call__(self, inputs) -> float:
        self.calls += 1
        return math.sin(self.total(inputs))

    def slopes(self, inputs) -> list[float]:
        return [math.cos(self.total(inputs)) * weight for weight in self.weights]


print("exercise 4:", check_4(answer_4))
