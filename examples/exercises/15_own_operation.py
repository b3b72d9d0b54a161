# %% [markdown]
# # Exercises: an operation of your own
#
# Write your answers in place of the dots, or mend the code, and run the file again. Each check says in one sentence
# whether an answer is right. The checks draw new numbers each time.

# %%
import math
import random

import numpy as np
from judge import Wrong, came, check, compare

import tinytensor as tt

# %% [markdown]
# ## 1 ★ Predict: a rule that forgets g
#
# Somebody declares y = x³ with the rule 3 x², and forgets the factor g. Then `y.sum().backward()` and
# `(c * y).sum().backward()` run, each from a fresh leaf x. Predict what `x.grad` is after each of them.


# %%
def answer_1(x: float, c: float) -> tuple[float, float]:
    """`x.grad` after y.sum().backward(), and after (c * y).sum().backward(), with the forgetful rule."""
    ...


@check("which of the two numbers does the rule read, x or what arrives?")
def check_1(answer) -> None:
    @tt.op
    class cube:
        def forward(x):  # a function on arrays, as NumPy runs it: a kernel would have to be compiled
            return x * x * x

        def grad_x(g, x):
            return 3 * x * x

    start, c, right = random.uniform(1, 3), random.choice([-1, 1]) * random.uniform(2, 5), []
    for factor in (1.0, c):
        x = tt.tensor(start, requires_grad=True, dtype=tt.float64)
        (factor * cube(x)).sum().backward()
        right.append(x.grad.item())
    mistakes = {
        "The rule would have to read g for that: c arrives with g.": (..., c * right[1]),
        "The rule sends its slope, whatever arrives.": (0.0, ...),
    }
    names = ("x.grad after y.sum().backward()", "x.grad after (c * y).sum().backward()")
    answer.compare((start, c), tuple(right), f"at x = {start:.4f}, c = {c:.4f}", mistakes, names=names)


print("exercise 1:", check_1(answer_1))

# %% [markdown]
# ## 2 ★★ Find the bug: a smooth maximum
#
# y = ln(e^a + e^b) is a smooth maximum. `answer_2` has the rules for a and b. A check at a = b passes. Mend the rules.


# %%
def answer_2(g, a, b):
    """The gradients that a and b get when g arrives at y = ln(e^a + e^b)."""
    share = (a - b).sigmoid()
    return g * share, g * share


@check("what should the two shares of g add up to?")
def check_2(answer) -> None:
    for _ in range(20):
        g, a, b = (random.choice([-1, 1]) * random.uniform(0.5, 2) for _ in range(3))
        right = g / (1 + math.exp(b - a)), g / (1 + math.exp(a - b))
        mistakes = {
            "Both shares are alike; they should add up to g.": (right[0], right[0]),
            "The larger one gets all of g, as with a maximum that is not smooth.": (g * (a > b), g * (b > a)),
        }
        inputs = [tt.tensor(x, dtype=tt.float64) for x in (g, a, b)]
        case = f"at g = {g:.4f}, a = {a:.4f}, b = {b:.4f}"
        names = ("the gradient of a", "the gradient of b")
        answer.compare(inputs, right, case, mistakes, tolerance=1e-9, names=names)


print("exercise 2:", check_2(answer_2))

# %% [markdown]
# ## 3 ★★ Derive: softplus
#
# Derive the rule of softplus, y = ln(1 + e^x), a smooth max(0, x). Write it so that it holds for large x, too: e^x is
# larger than any float64 from x = 710 on.


# %%
def answer_3(g, x):
    """The gradient that x gets when g arrives at y = ln(1 + e^x)."""
    ...


@check("e^x / (1 + e^x) is a function that you have seen in this lesson.")
def check_3(answer) -> None:
    for x in (*(random.uniform(-3, 3) for _ in range(20)), random.uniform(800, 900)):
        g, share = random.choice([-1, 1]) * random.uniform(1, 2), 1 / (1 + math.exp(-x))
        mistakes = {
            "That is the slope of the sigmoid, which is itself the slope of softplus.": g * share * (1 - share),
            "1 / (1 + e^x) is the slope of ln u at u = 1 + e^x; the slope of u, e^x, is missing.": g * (1 - share),
        }
        inputs = [tt.tensor(value, dtype=tt.float64) for value in (g, x)]
        answer.compare(inputs, g * share, f"for g = {g:.4f} at x = {x:.4f} the gradient", mistakes, tolerance=1e-9)


print("exercise 3:", check_3(answer_3))

# %% [markdown]
# ## 4 ★★★ Extend: the whole operation, with rules that read y
#
# Write the length y = √(a² + b²) as an operation: its kernel, and its two rules. A rule may also have a parameter y,
# the result, which the engine then keeps on the tape: it needs no second root. Return the three functions.


# %%
def answer_4():
    """kernel(a, b), a formula of two numbers; grad_a(g, a, y) and grad_b(g, b, y), formulas of tensors."""
    ...


@check("differentiate y² = a² + b² on both sides, and solve for ∂y/∂a.")
def check_4(answer) -> None:
    kernel, *rules = answer()
    if len(rules) != 2 or not all(map(callable, (kernel, *rules))):
        raise Wrong(f"three functions are asked for, kernel, grad_a and grad_b, and you return {came(answer.result)}.")
    for _ in range(20):
        g, a, b = (random.choice([-1, 1]) * random.uniform(1, 3) for _ in range(3))
        y, case = math.hypot(a, b), f"for a = {a:.4f}, b = {b:.4f}, g = {g:.4f}"
        compare(kernel(np.float64(a), np.float64(b)), y, f"{case} the kernel", tolerance=1e-9)
        for name, rule, x in zip("ab", rules, (a, b), strict=True):
            result = rule(*(tt.tensor(n, dtype=tt.float64) for n in (g, x, y)))
            inputs = {"g": np.array(g), "y": np.array(y)}
            compare(result, g * x / y, f"{case} the gradient of {name}", tolerance=1e-9, inputs=inputs)


print("exercise 4:", check_4(answer_4))
