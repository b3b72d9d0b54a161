# %% [markdown]
# # Exercises: an operation of your own
#
# Write your answers in place of the dots, or mend the code, and run the file again. Each check says in one sentence
# whether an answer is right. The checks draw new numbers each time.

# %%
import math
import random

import numpy as np

import tinytensor as tt
from tinytensor.symbolic import prove

# %% [markdown]
# ## 1 ★ Predict: a rule that forgets g
#
# Somebody declares y = x³ with the rule 3 x², and forgets the factor g. Then `y.sum().backward()` and
# `(c * y).sum().backward()` run, each from a fresh leaf x. Predict what `x.grad` is after each of them.


# %%
def answer_1(x: float, c: float) -> tuple[float, float]:
    """`x.grad` after y.sum().backward(), and after (c * y).sum().backward(), with the forgetful rule."""
    ...


def check_1(answer) -> str:
    @tt.op
    class cube:
        def forward(x):  # a function on arrays, as NumPy runs it: a kernel would have to be compiled
            return x * x * x

        def grad_x(g, x):
            return 3 * x * x

    start, c = random.uniform(1, 3), random.choice([-1, 1]) * random.uniform(2, 5)
    given = answer(start, c)
    if given is None:
        return "not solved yet. Hint: which of the two numbers does the rule read, x or what arrives?"
    for loss, factor, said in zip(("y.sum()", "(c * y).sum()"), (1.0, c), given, strict=True):
        x = tt.tensor(start, requires_grad=True, dtype=tt.float64)
        (factor * cube(x)).sum().backward()
        if abs(x.grad.item() - said) > 1e-9:
            where = f"at x = {start:.4f}, c = {c:.4f}"
            return f"wrong: {where} x.grad is {x.grad.item():.4f} after {loss}.backward(), not {said:.4f}."
    return "right"


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


def check_2(answer) -> str:
    given = answer(*tt.ones(3))
    if given is None:
        return "not solved yet. Hint: what should the two shares of g add up to?"

    @tt.op
    class smooth_maximum:
        def kernel(a, b):
            return np.log(np.exp(a) + np.exp(b))

        def grad_a(g, a, b):
            return answer(g, a, b)[0]

        def grad_b(g, a, b):
            return answer(g, a, b)[1]

    g, a, b = (tt.tensor(random.uniform(0.5, 2) * sign, dtype=tt.float64) for sign in (1, 1, -1))
    sizes = [g.item() / (1 + math.exp(b - a)), g.item() / (1 + math.exp(a - b))]
    for name, found, right in zip("ab", answer(g, a, b), sizes, strict=True):
        if abs(found.item() - right) > 1e-9:
            where = f"g = {g.item():.4f}, a = {a.item():.4f}, b = {b.item():.4f}"
            return f"wrong: at {where} the gradient of {name} is {right:.4f}, not {found.item():.4f}."
    return "right" if prove(smooth_maximum, (), ()) else "wrong: it holds at some points, and not at all."


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


def check_3(answer) -> str:
    if answer(*tt.ones(2)) is None:
        return "not solved yet. Hint: e^x / (1 + e^x) is a function that you have seen in this lesson."

    @tt.op
    class softplus:
        def kernel(x):
            return np.log(type(x)(1) + np.exp(x))

        grad_x = answer

    for start in (random.uniform(-2, 2), random.uniform(-2, 2), random.uniform(800, 900)):
        g, x = tt.tensor([random.uniform(1, 2), start], dtype=tt.float64)
        right, found = g.item() / (1 + math.exp(-start)), answer(g, x).item()
        if not abs(found - right) < 1e-9:
            return f"wrong: for g = {g.item():.4f} at x = {start:.4f} the gradient is {right:.4f}, not {found:.4f}."
    return "right" if prove(softplus, (2,)) else "wrong: it holds at some points, and not at all."


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


def check_4(answer) -> str:
    functions = answer()
    if functions is None:
        return "not solved yet. Hint: differentiate y² = a² + b² on both sides, and solve for ∂y/∂a."
    kernel, grad_a, grad_b = functions
    a, b, g = (random.uniform(1, 3) for _ in range(3))
    y = math.hypot(a, b)
    if abs(kernel(np.float64(a), np.float64(b)) - y) > 1e-9:
        return f"wrong: the kernel of {a:.4f} and {b:.4f} is {y:.4f}, not {kernel(np.float64(a), np.float64(b)):.4f}."
    for name, rule, x in (("a", grad_a, a), ("b", grad_b, b)):
        found = rule(*(tt.tensor(n, dtype=tt.float64) for n in (g, x, y))).item()
        if abs(found - g * x / y) > 1e-9:
            where = f"for a = {a:.4f}, b = {b:.4f}, g = {g:.4f}"
            return f"wrong: {where} the gradient of {name} is {g * x / y:.4f}, not {found:.4f}."
    form = type("length", (), {"kernel": kernel, "grad_a": grad_a, "grad_b": grad_b})
    return "right" if (proof := prove(tt.op(form), (), ())) else f"wrong: {str(proof).splitlines()[1].strip()}"


print("exercise 4:", check_4(answer_4))
