# %% [markdown]
# # Exercises: a network learns a boundary
#
# Write your answers in place of the dots, or mend the code, and run the file again. Each check says in one sentence
# whether an answer is right. The checks draw new numbers each time.

# %%
import random

import tinytensor as tt

# %% [markdown]
# ## 1 ★ Predict: the gradient of a hidden unit's weight
#
# A network with one hidden unit: y = v · max(0, w x + b). What is ∂y/∂w? Mind the two sides of the fold.


# %%
def answer_1(x: float, w: float, b: float, v: float) -> float:
    """∂y/∂w."""
    ...


def check_1(answer) -> str:
    for side in random.sample(["flat", "sloping", "flat", "sloping"], 4):
        x, v, b = random.uniform(1, 3), random.uniform(1, 3), random.uniform(-1, 1)
        w = ((-1 if side == "flat" else 1) * random.uniform(0.5, 2) - b) / x
        leaf = tt.tensor(w, requires_grad=True, dtype=tt.float64)
        (v * (leaf * x + b).relu()).backward()
        given = answer(x, w, b, v)
        if given is None:
            return "not solved yet. Hint: on the flat side y does not change with w. And on the other side?"
        if abs(given - leaf.grad.item()) > 1e-9:
            case = f"x = {x:.3f}, w = {w:.3f}, b = {b:.3f}, v = {v:.3f}"
            return f"wrong: for {case}, on the {side} side, it is {leaf.grad.item():.4f}, not {given:.4f}."
    return "right"


print("exercise 1:", check_1(answer_1))

# %% [markdown]
# ## 2 ★★ Find the bug: the share of points on the right side
#
# Each point goes to the more likely moon. `answer_2` says which share of the points this is right for, or rather, it
# should: for most points it is, but its share is often a little too small or too large. Mend it.


# %%
def answer_2(logits: tt.Tensor, y: tt.Tensor) -> float:
    """The share of points, from 0 to 1, for which the more likely moon is the right one, y (n), 0 or 1."""
    predicted = (logits > 0.5).to(tt.float32)
    return (predicted == y).to(tt.float32).mean().item()


def check_2(answer) -> str:
    for count in (1, 8, 30):
        wanted = [random.random() < 0.6 for _ in range(count)]  # which points are on the right side
        moons = [random.randint(0, 1) for _ in range(count)]
        logits = [random.uniform(0.6, 4) * (1 if moon == right else -1) for moon, right in zip(moons, wanted)]
        near = [random.uniform(0.01, 0.49) for _ in range(3)]  # whose probability of moon 1 is 0.50 to 0.62
        far = [random.uniform(0.6, 4) for _ in range(2)]  # points of moon 0 on the wrong side
        right = (sum(wanted) + 3) / (count + 5)
        share = answer(tt.tensor([*logits, *near, *far]), tt.tensor([*moons, 1, 1, 1, 0, 0]).float())
        if share is None:
            return "not solved yet. Hint: which logit has the probability 1/2?"
        if abs(share - right + 3 / (count + 5)) < 1e-6:
            return f"wrong: which moon is more likely for a point with the logit {near[0]:.2f}? You take it for moon 0."
        if abs(share - right) > 1e-6:
            return f"wrong: of {count + 5} points the share {right:.3f} is on the right side, and you find {share:.3f}."
    return "right"


print("exercise 2:", check_2(answer_2))

# %% [markdown]
# ## 3 ★★ Derive: two layers with nothing in between
#
# Y = (X W_1 + b_1) W_2 + b_2 is a network without max(0, .). Show that one layer Y = X W + b does the same.


# %%
def answer_3(W_1: tt.Tensor, b_1: tt.Tensor, W_2: tt.Tensor, b_2: tt.Tensor) -> tuple[tt.Tensor, tt.Tensor]:
    """W (n, m) and b (m), for W_1 (n, h), b_1 (h), W_2 (h, m), b_2 (m)."""
    ...


def check_3(answer) -> str:
    n, h, m = random.sample(range(2, 6), 3)
    W_1, b_1, W_2, b_2 = (tt.randn(*shape, dtype=tt.float64) for shape in ((n, h), (h,), (h, m), (m,)))
    given = answer(W_1, b_1, W_2, b_2)
    if given is None:
        return "not solved yet. Hint: multiply out the product with W_2. Which terms have no X?"
    for name, X in (("X = 0", tt.zeros(1, n, dtype=tt.float64)), ("a random X", tt.randn(3, n, dtype=tt.float64))):
        two, one = (X @ W_1 + b_1) @ W_2 + b_2, X @ given[0] + given[1]
        if two.shape != one.shape or (two - one).abs().max().item() > 1e-9:
            return f"wrong: for {name} the two layers give {two[0].tolist()}, and your one {one[0].tolist()}."
    return "right"


print("exercise 3:", check_3(answer_3))

# %% [markdown]
# ## 4 ★★★ Extend: a network that is built, not trained
#
# Any function that is made of straight pieces is a sum of folds. It goes through the points (x_0, y_0), ..., (x_n, y_n)
# with straight lines between them. Find the height b and the weights c, so that f(x) = b + Σ_i c_i max(0, x - x_i) is
# this function from x_0 to x_n, with a fold at each x_i but the last.


# %%
def answer_4(xs: list[float], ys: list[float]) -> tuple[float, list[float]]:
    """b and c_0, ..., c_(n - 1); the xs rise."""
    ...


def check_4(answer) -> str:
    for n in (1, 2, 5):
        xs, ys = [random.uniform(-2, 0)], [random.uniform(-2, 2) for _ in range(n + 1)]
        for _ in range(n):
            xs.append(xs[-1] + random.uniform(0.5, 1.5))
        given = answer(xs, ys)
        if given is None:
            return "not solved yet. Hint: what is f at x_0? By how much does its slope change at each fold?"
        b, c = given
        if len(c) != n:
            return f"wrong: {n} folds for {n + 1} points are enough, and you give {len(c)}."
        for i in range(n):
            part = random.random()
            x, right = (values[i] + part * (values[i + 1] - values[i]) for values in (xs, ys))
            height = b + sum(weight * max(0.0, x - fold) for weight, fold in zip(c, xs))
            if abs(height - right) > 1e-9:
                return f"wrong: in piece {i} of {n}, at x = {x:.3f}, your f is {height:.4f}; it should be {right:.4f}."
    return "right"


print("exercise 4:", check_4(answer_4))
