# %% [markdown]
# # Exercises: second derivatives
#
# Write your answers in place of the dots, or mend the code, and run the file again. Each check says in one sentence
# whether an answer is right. The checks draw new numbers each time.

# %%
import random

import tinytensor as tt

# %% [markdown]
# ## 1 ★ Predict: Newton on a flat floor
#
# Newton's step from x is −f′(x) / f″(x). From x on the curve f(x) = x^p with an even p, where is x after `steps` steps?
# For p = 2 one step is enough. Is it for p = 4?


# %%
def answer_1(x: float, p: int, steps: int) -> float:
    """Where x is after the steps."""
    ...


def check_1(answer) -> str:
    for p in (2, random.choice([4, 6]), 8):
        start, steps = random.uniform(1, 3), random.randint(2, 5)
        given = answer(start, p, steps)
        if given is None:
            return "not solved yet. Hint: write f′ and f″ of x^p, and divide; one step multiplies x by a number."
        x = start
        for _ in range(steps):
            x -= p * x ** (p - 1) / (p * (p - 1) * x ** (p - 2)) if x else 0.0
        if abs(given - x) > 1e-9:
            return f"wrong: with p = {p}, {steps} steps lead from {start:.4f} to {x:.6f}, not to {given:.6f}."
    return "right"


print("exercise 1:", check_1(answer_1))

# %% [markdown]
# ## 2 ★★ Find the bug: the Hessian times the gradient
#
# `answer_2` computes H g, the product of the Hessian with the gradient g itself. Its result is wrong in the same way
# for all functions. Mend it.


# %%
def answer_2(f, x):
    """H g at x, where g is the gradient of f at x."""
    x = x.detach().requires_grad_()
    g = tt.autograd.grad(f(x), x, create_graph=True)[0]
    return tt.autograd.grad((g * g).sum(), x)[0]


def check_2(answer) -> str:
    x, A = tt.randn(3, dtype=tt.float64), tt.randn(3, 3, dtype=tt.float64)
    for f in (lambda x: (x * (A @ x)).sum(), lambda x: (A @ x).exp().sum()):
        g = tt.autograd.functional.jacobian(f, x)
        right, given = tt.autograd.functional.hessian(f, x) @ g, answer(f, x)
        if given is None:
            return "not solved yet. Hint: the lesson's product has a v that does not depend on x. Does g?"
        if not tt.allclose(given, right, rtol=1e-6):
            ratio = (given / right).tolist()
            return f"wrong: divided by H g your entries are {', '.join(f'{r:.4f}' for r in ratio)}, and not 1."
    return "right"


print("exercise 2:", check_2(answer_2))

# %% [markdown]
# ## 3 ★★ Derive: the ρ that (18) leaves open
#
# Along the way −g a parabola is f(x − ρ g) = f(x) − ρ g·g + ρ²/2 g·H g. Derive the ρ at which it is lowest. One product
# H g is all that it needs. Take g·H g > 0: the parabola opens upwards.


# %%
def answer_3(g, Hg):
    """The best ρ for the gradient g (n,) and the product H g (n,)."""
    ...


def check_3(answer) -> str:
    A, x = tt.randn(4, 4, dtype=tt.float64), tt.randn(4, dtype=tt.float64)
    H = A @ A.T + tt.eye(4, dtype=tt.float64)
    g = H @ x  # of f(x) = x·H x / 2
    given = answer(g, H @ g)
    if given is None:
        return "not solved yet. Hint: where is the derivative with respect to ρ equal to 0?"
    best = float(g @ g) / float(g @ (H @ g))
    if abs(float(given) - best) > 1e-9 * best:
        heights = [float((x - rho * g) @ (H @ (x - rho * g)) / 2) for rho in (float(given), best)]
        return f"wrong: your ρ leads to the height {heights[0]:.6f}, and another one to {heights[1]:.6f}."
    return "right"


print("exercise 3:", check_3(answer_3))

# %% [markdown]
# ## 4 ★★★ Extend: a step that always goes down
#
# f(x) = x⁴ − 2 x² has a hilltop at 0, and f″ is negative near it: from 0.3 Newton's step climbs the hill. Extend the
# lesson's `newton`: the step −d must go down from every place, in any number of dimensions, and equal Newton's where H
# bends upwards along every way. Use nothing but products with H.


# %%
def answer_4(product, g):
    """d, so that x − d is lower than x for small d: `product(v)` is H v, and g (n,) the gradient."""
    ...


def check_4(answer) -> str:
    n = random.randint(2, 4)
    turn = tt.linalg.qr(tt.randn(n, n, dtype=tt.float64))[0]
    for least in (0.5, -2.0):
        bends = tt.rand(n, dtype=tt.float64) + 0.5
        bends[random.randrange(n)] = least
        H = turn @ tt.diag(bends) @ turn.T
        g = tt.randn(n, dtype=tt.float64)
        d = answer(lambda v, H=H: H @ v, g)
        if d is None:
            return "not solved yet. Hint: way · (H way) says how H bends along a way. What if it is negative?"
        along = ", ".join(f"{bend:.2f}" for bend in bends.tolist())
        if not float(g @ d) > 0:
            return f"wrong: g·d is {float(g @ d):.4f}, so −d does not go down; H bends by {along} along its axes."
        if least > 0 and not tt.allclose(H @ d, g, rtol=1e-6, atol=1e-8):
            return f"wrong: H bends upwards, by {along} along its axes, and H d is not g: this is not Newton's step."
    x = tt.tensor([0.3], dtype=tt.float64)
    d = answer(lambda v: (12 * x * x - 4) * v, 4 * x**3 - 4 * x)
    return "right" if d.item() < 0 else f"wrong: from 0.3 on x⁴ − 2 x² your d is {d.item():.4f}; x − d should go to 1."


print("exercise 4:", check_4(answer_4))
