# %% [markdown]
# # Exercises: second derivatives
#
# Write your answers in place of the dots, or mend the code, and run the file again. Each check says in one sentence
# whether an answer is right. The checks draw new numbers each time.

# %%
import random

from judge import Wrong, check

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


@check("write f′ and f″ of x^p, and divide; one step multiplies x by a number.")
def check_1(answer) -> None:
    for p in (random.choice([4, 6]), 8, 2):
        start, steps = random.uniform(1, 3), random.randint(2, 5)
        right = [start]
        for _ in range(steps):
            x = right[-1]
            right.append(x - p * x ** (p - 1) / (p * (p - 1) * x ** (p - 2)) if x else 0.0)
        mistakes = {
            "One step leads to the floor only if the curve is a parabola.": 0.0,
            "That is where the first step leads.": right[1],
            "f′ / f″ is x / (p − 1), not x / p.": start * (1 - 1 / p) ** steps,
        }
        answer.compare((start, p, steps), right[-1], f"with p = {p} x after {steps} steps from {start:.4f}", mistakes)


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


@check("the lesson's product has a v that does not depend on x. Does g?")
def check_2(answer) -> None:
    x, A = tt.randn(3, dtype=tt.float64), tt.randn(3, 3, dtype=tt.float64)
    for f in (lambda x: (x * (A @ x)).sum(), lambda x: (A @ x).exp().sum()):
        g = tt.autograd.functional.jacobian(f, x)
        H = tt.autograd.functional.hessian(f, x)
        mistakes = {
            "Both factors of g · g depend on x: hold one of them fixed.": 2 * (H @ g),
            "These are the sums of the rows of H: its product with ones, not with g.": H.sum(1),
        }
        answer.compare((f, x), H @ g, "H g", mistakes)


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


@check("where is the derivative with respect to ρ equal to 0?")
def check_3(answer) -> None:
    A, x = tt.randn(4, 4, dtype=tt.float64), tt.randn(4, dtype=tt.float64)
    H = A @ A.T + tt.eye(4, dtype=tt.float64)
    g = H @ x  # of f(x) = x·H x / 2
    best = float(g @ g) / float(g @ (H @ g))
    mistakes = {
        "The derivative of ρ²/2 is ρ, not 2 ρ.": best / 2,
        "That is the quotient of two lengths: g·H g is smaller than their product.": float(g.norm() / (H @ g).norm()),
    }
    answer.compare((g, H @ g), best, "the best ρ", mistakes, tolerance=1e-9)


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


@check("way · (H way) says how H bends along a way. What if it is negative?")
def check_4(answer) -> None:
    n = random.randint(3, 4)
    turn = tt.linalg.qr(tt.randn(n, n, dtype=tt.float64))[0]
    for least in (0.5, -2.0):
        bends = tt.rand(n, dtype=tt.float64) + 0.5
        bends[random.randrange(n)] = least
        H = turn @ tt.diag(bends) @ turn.T
        g = tt.randn(n, dtype=tt.float64)
        along = ", ".join(f"{bend:.2f}" for bend in bends.tolist())
        if least > 0:
            mistakes = {
                "That is g itself: Newton's step solves H d = g.": g,
                "H is not diagonal: each entry of d depends on all of g.": g / H.sum(1).abs(),
            }
            inputs = (lambda v, H=H: H @ v), g
            answer.compare(inputs, tt.linalg.solve(H, g), f"where H bends by {along} along its axes, d", mistakes)
        elif not float(g @ answer(lambda v, H=H: H @ v, g.clone())) > 0:
            raise Wrong(f"g·d is not above 0, so −d does not go down; H bends by {along} along its axes.")
    x = tt.tensor([0.3], dtype=tt.float64)
    d = answer(lambda v: (12 * x * x - 4) * v, 4 * x**3 - 4 * x)
    if not d.item() < 0:
        raise Wrong(
            f"from 0.3 on x⁴ − 2 x² your d is {d.item():.4f}; x − d should go to 1, and stays or climbs the hill."
        )


print("exercise 4:", check_4(answer_4))
