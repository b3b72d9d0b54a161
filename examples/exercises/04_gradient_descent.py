# %% [markdown]
# # Exercises: downhill
#
# Write your answers in place of the dots, or mend the code, and run the file again. Each check says in one sentence
# whether an answer is right. The checks draw new numbers each time.

# %%
import random

import tinytensor as tt

# %% [markdown]
# ## 1 ★ Predict: after n steps
#
# Gradient descent with the rate ρ goes down f = k x² / 2, from x = start. Where is x after n steps? No loop is needed.


# %%
def answer_1(start: float, k: float, rho: float, n: int) -> float:
    """x after n steps."""
    ...


def check_1(answer) -> str:
    start, k, rho, n = random.uniform(1, 3), random.uniform(1, 4), random.uniform(0.05, 0.6), random.randint(2, 9)
    given, x = answer(start, k, rho, n), start
    if given is None:
        return "not solved yet. Hint: what is the gradient of f? By what does a single step multiply x?"
    for _ in range(n):
        x -= rho * k * x
    if abs(given - x) > 1e-9 * (1 + abs(x)):
        return f"wrong: with k = {k:.3f}, ρ = {rho:.3f}, {n} steps lead from {start:.3f} to {x:.5f}, not {given:.5f}."
    return "right"


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


def check_2(answer) -> str:
    start, lowest, k, rho = random.uniform(2, 3), random.uniform(-1, 1), random.uniform(1, 3), random.uniform(0.1, 0.2)
    for steps in (1, 2, 5):
        given = answer(lambda x: k * (x - lowest) ** 2 / 2, start, rho, steps)
        if given is None:
            return "not solved yet. Hint: print x.grad before each call of the loop."
        right = lowest + (start - lowest) * (1 - rho * k) ** steps
        if given == start:
            return f"wrong: after {steps} step(s) x is still {start:.4f}; what does step() find in x.grad?"
        if abs(given - right) > 1e-9:
            adds = " (is the gradient of the step before still in x.grad?)" if steps > 1 else ""
            return f"wrong: after {steps} step(s) from {start:.4f} x is {right:.4f}, not {given:.4f}{adds}."
    return "right"


print("exercise 2:", check_2(answer_2))

# %% [markdown]
# ## 3 ★★ Extend: momentum
#
# Write a step with momentum: the velocity v becomes β v + g, and then X moves along v, where eq. (18) moves it along g.


# %%
def answer_3(X: float, v: float, g: float, rho: float, beta: float) -> tuple[float, float]:
    """The new X and the new v; g is the gradient at X."""
    ...


def check_3(answer) -> str:
    start, rho, beta = random.uniform(1, 3), random.uniform(0.05, 0.2), random.uniform(0.5, 0.95)
    if answer(start, 0.0, 1.0, rho, beta) is None:
        return "not solved yet. Hint: first the new velocity, then X with it; return both."
    parameter = tt.tensor(start, requires_grad=True, dtype=tt.float64)
    optimizer = tt.optim.SGD([parameter], lr=rho, momentum=beta)
    X, v = start, 0.0
    for step in range(1, 5):
        g = random.uniform(-1, 1)
        parameter.grad = tt.tensor(g, dtype=tt.float64)
        optimizer.step()
        X, v = answer(X, v, g, rho, beta)
        if abs(X - parameter.item()) > 1e-9:
            return f"wrong: at step {step} with ρ = {rho:.3f}, β = {beta:.3f} X is {parameter.item():.5f}, not {X:.5f}."
    return "right"


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


def check_4(answer) -> str:
    k = random.uniform(0.5, 2)
    K = k * random.uniform(3, 40)
    given = answer(k, K)
    if given is None:
        return "not solved yet. Hint: draw |1 - ρ k| and |1 - ρ K| over ρ. Where is the larger of them smallest?"

    def slower(rho):
        return max(abs(1 - rho * k), abs(1 - rho * K))

    found = f"with k = {k:.3f}, K = {K:.3f} and your ρ = {given:.4f}"
    if slower(given) >= 1:
        return f"wrong: {found} a step multiplies by {slower(given):.4f}, so f does not fall."
    for other in (given * 1.001, given * 0.999):
        if slower(other) < slower(given):
            way = "larger" if other > given else "smaller"
            return f"wrong: {found} a step multiplies by {slower(given):.4f}; a {way} ρ does better."
    return "right"


print("exercise 4:", check_4(answer_4))
