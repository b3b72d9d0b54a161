# %% [markdown]
# # Exercises: downhill
#
# Write your answers in place of the dots, or mend the code, and run the file again. Each check says in one sentence
# whether an answer is right. The checks draw new numbers each time.

# %%
import random

from judge import check

import tinytensor as tt

# %% [markdown]
# ## 1 ★ Predict: what is on the tape?
#
# A program computes y from one leaf x, and then calls `y.backward()`. What is `x.grad`?
#
# ```
# u = x * x
# v = x * u.detach()
# with tt.no_grad():
#     w = x * x * x
# y = a * u + b * v + c * w
# ```


# %%
def answer_1(x: float, a: float, b: float, c: float) -> float:
    """`x.grad` after `y.backward()`."""
    ...


@check("which of the numbers are constants for the tape? Write y with them.")
def check_1(answer) -> None:
    start, a, b, c = random.uniform(1, 3), *(random.uniform(0.5, 2) for _ in "abc")
    x = tt.tensor(start, requires_grad=True, dtype=tt.float64)
    u = x * x
    v = x * u.detach()
    with tt.no_grad():
        w = x * x * x
    (a * u + b * v + c * w).backward()
    right, cube = x.grad.item(), 3 * start**2
    mistakes = {
        "That is the slope of the formula; not all of it is on the tape.": 2 * a * start + (b + c) * cube,
        "What is computed under no_grad is a constant: w has no share.": right + c * cube,
        "`u.detach()` is a constant, so v is x times a constant.": 2 * a * start + b * cube,
        "In v only u was detached: the factor x is on the tape.": 2 * a * start,
        "`u.detach()` takes a copy off the tape: u itself stays on it.": b * start**2,
    }
    case = f"for x = {start:.3f}, a = {a:.3f}, b = {b:.3f}, c = {c:.3f} x.grad"
    answer.compare((start, a, b, c), right, case, mistakes)


print("exercise 1:", check_1(answer_1))

# %% [markdown]
# ## 2 ★★ Find the bug: no error, and nothing is learned
#
# The loop below has all the parts of a training loop. It runs, and x stays where it was. Why? Mend it.


# %%
def answer_2(loss, start: float, rho: float, steps: int) -> float:
    """x after some steps downhill on loss(x), from start."""
    x = tt.tensor(start, requires_grad=True, dtype=tt.float64)
    optimizer = tt.optim.SGD([x], lr=rho)
    for _ in range(steps):
        y = loss(x)
        y.backward()
        optimizer.zero_grad()
        optimizer.step()
    return x.item()


@check("print x.grad before each call of the loop.")
def check_2(answer) -> None:
    start, lowest, k, rho = random.uniform(2, 3), random.uniform(-1, 1), random.uniform(1, 3), random.uniform(0.1, 0.2)
    for steps in (1, 2, 5):
        right = lowest + (start - lowest) * (1 - rho * k) ** steps
        x, gradients = start, 0.0
        for _ in range(steps):
            gradients += k * (x - lowest)
            x -= rho * gradients
        mistakes = {
            "That is where it was: what does step() find in x.grad?": start,
            "The gradients of the steps before are still in x.grad.": x,
        }
        inputs = (lambda x: k * (x - lowest) ** 2 / 2), start, rho, steps
        answer.compare(inputs, right, f"from {start:.4f} x after {steps} step(s)", mistakes)


print("exercise 2:", check_2(answer_2))

# %% [markdown]
# ## 3 ★★ Extend: momentum
#
# Write a step with momentum: the velocity v becomes β v + g, and then X moves along v, where eq. (18) moves it along g.


# %%
def answer_3(X: float, v: float, g: float, rho: float, beta: float) -> tuple[float, float]:
    """The new X and the new v; g is the gradient at X."""
    ...


@check("first the new velocity, then X with it; return both.")
def check_3(answer) -> None:
    X, rho, beta, v = random.uniform(1, 3), random.uniform(0.05, 0.2), random.uniform(0.5, 0.9), 0.0
    parameter = tt.tensor(X, requires_grad=True, dtype=tt.float64)
    optimizer = tt.optim.SGD([parameter], lr=rho, momentum=beta)
    for step in range(1, 5):
        g = random.choice((-1, 1)) * random.uniform(0.5, 1)
        parameter.grad = tt.tensor(g, dtype=tt.float64)
        optimizer.step()
        right = parameter.item(), (X - parameter.item()) / rho
        mistakes = {
            "X moves along the new velocity, not along the one before.": (X - rho * v, ...),
            "X moves against the velocity, which points uphill.": (X + rho * right[1], ...),
            "g counts in full; only the old velocity is multiplied.": (X - rho * (beta * v + (1 - beta) * g), ...),
        }
        case = f"step {step} with ρ = {rho:.3f}, β = {beta:.3f}"
        answer.compare((X, v, g, rho, beta), right, case, mistakes, names=("the new X", "the new v"))
        X, v = right


print("exercise 3:", check_3(answer_3))

# %% [markdown]
# ## 4 ★★★ Derive: the best rate in a ravine
#
# For f = (k u² + K v²) / 2 with 0 < k < K a step multiplies u by 1 - ρ k and v by 1 - ρ K. The slower of the two, the
# one with the larger absolute value, says how fast f falls in the end. For which ρ is it fastest?


# %%
def answer_4(k: float, K: float) -> float:
    """The best rate."""
    ...


@check("draw |1 - ρ k| and |1 - ρ K| over ρ. Where is the larger of them smallest?")
def check_4(answer) -> None:
    k = random.uniform(0.5, 2)
    K = k * random.uniform(3, 40)
    low, high = 1 / K, 1 / k  # |1 - ρ K| grows between them, and |1 - ρ k| falls
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if abs(1 - middle * K) > abs(1 - middle * k) else (middle, high)
    mistakes = {
        "With this one v turns its sign and keeps its size, so f does not fall.": 2 / K,
        "This one is best for v alone, and u is slow.": 1 / K,
        "This one is best for u alone; where does v go?": 1 / k,
    }
    answer.compare((k, K), low, f"with k = {k:.3f}, K = {K:.3f} the best ρ", mistakes)


print("exercise 4:", check_4(answer_4))
