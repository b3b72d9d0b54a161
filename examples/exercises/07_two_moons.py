# %% [markdown]
# # Exercises: a network learns a boundary
#
# Write your answers in place of the dots, or mend the code, and run the file again. Each check says in one sentence
# whether an answer is right. The checks draw new numbers each time.

# %%
import itertools
import random

from judge import Wrong, check, compare

import tinytensor as tt

# %% [markdown]
# ## 1 ★ Predict: the gradient of a hidden unit's weight
#
# A network with one hidden unit: y = v · max(0, w x + b). What is ∂y/∂w? Mind the two sides of the fold.


# %%
def answer_1(x: float, w: float, b: float, v: float) -> float:
    """∂y/∂w."""
    ...


@check("on the flat side y does not change with w. And on the other side?")
def check_1(answer) -> None:
    for side in random.sample(["flat", "sloping"] * 4, 8):
        x, v, before = (
            random.uniform(1, 3),
            random.uniform(1, 3),
            random.uniform(0.5, 2) * (-1 if side == "flat" else 1),
        )
        b = before * random.choice((-1, 2))  # beyond it w x has another sign than w x + b
        w = (before - b) / x
        leaf = tt.tensor(w, requires_grad=True, dtype=tt.float64)
        (v * (leaf * x + b).relu()).backward()
        mistakes = {
            "That is the slope without the fold: where w x + b < 0, y stays 0.": v * x,
            "That is ∂y/∂x.": v * w,
            "Where w x + b > 0, y changes with w.": 0.0,
        }
        case = f"for x = {x:.3f}, w = {w:.3f}, b = {b:.3f}, v = {v:.3f}, on the {side} side, ∂y/∂w"
        answer.compare((x, w, b, v), leaf.grad.item(), case, mistakes)


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


@check("which logit has the probability 1/2?")
def check_2(answer) -> None:
    for count in (30, 8, 1):
        wanted = [random.random() < 0.6 for _ in range(count)]  # which points are on the right side
        moons = [random.randint(0, 1) for _ in range(count)]
        logits = [random.uniform(0.6, 4) * (1 if moon == right else -1) for moon, right in zip(moons, wanted)]
        logits += [random.uniform(0.01, 0.49) for _ in range(3)]  # whose probability of moon 1 is 0.50 to 0.62
        logits += [random.uniform(0.6, 4) for _ in range(2)]  # points of moon 0 on the wrong side
        moons += [1, 1, 1, 0, 0]
        n, right = count + 5, (sum(wanted) + 3) / (count + 5)
        ones = sum(logit > 0 for logit in logits) / n
        mistakes = {
            f"Which moon is more likely for the logit {logits[count]:.2f}? You take it for moon 0.": right - 3 / n,
            "That is the share of points that are taken for moon 1, right or wrong.": ones,
            "Points of moon 0 count, too.": sum(x > 0 and moon == 1 for x, moon in zip(logits, moons)) / n,
            "One half is what guessing gives.": 0.5,
        }
        points = tt.tensor(logits), tt.tensor(moons).float()
        answer.compare(points, right, f"of {n} points the share on the right side", mistakes)


print("exercise 2:", check_2(answer_2))

# %% [markdown]
# ## 3 ★★ Derive: two layers with nothing in between
#
# Y = (X W_1 + b_1) W_2 + b_2 is a network without max(0, .). Show that one layer Y = X W + b does the same.


# %%
def answer_3(W_1: tt.Tensor, b_1: tt.Tensor, W_2: tt.Tensor, b_2: tt.Tensor) -> tuple[tt.Tensor, tt.Tensor]:
    """W (n, m) and b (m), for W_1 (n, h), b_1 (h), W_2 (h, m), b_2 (m)."""
    ...


@check("multiply out the product with W_2. Which terms have no X?")
def check_3(answer) -> None:
    n, h, m = random.sample(range(2, 6), 3)
    W_1, b_1, W_2, b_2 = (tt.randn(*shape, dtype=tt.float64) for shape in ((n, h), (h,), (h, m), (m,)))
    units = tt.eye(n, dtype=tt.float64)
    at_zero, at_units = ((X @ W_1 + b_1) @ W_2 + b_2 for X in (0 * units[0], units))
    mistakes = {
        "For X = 0 the first layer gives b_1, which goes through W_2.": (..., b_2),
        "For X = 0 the two layers do not give 0.": (..., 0 * b_2),
    }
    right = at_units - at_zero, at_zero
    answer.compare((W_1, b_1, W_2, b_2), right, f"for n, h, m = {n}, {h}, {m}", mistakes, names=("W", "b"))


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


@check("what is f at x_0? By how much does its slope change at each fold?")
def check_4(answer) -> None:
    for n in (2, 1, 5):
        xs, ys = [random.uniform(-2, 0)], [random.uniform(1, 2) for _ in range(n + 1)]
        for _ in range(n):
            xs.append(xs[-1] + random.uniform(0.5, 0.9))
        rises = [high - low for low, high in itertools.pairwise(ys)]
        slopes = [rise / (right - left) for rise, (left, right) in zip(rises, itertools.pairwise(xs), strict=True)]
        b, c = answer(list(xs), list(ys))
        if len(c) != n:
            raise Wrong(f"{n} folds for {n + 1} points are enough, and you give {len(c)}.")
        for i, (left, right) in enumerate(itertools.pairwise(xs)):
            x = random.uniform(left, right)
            height = ys[i] + slopes[i] * (x - left)

            def f(b, c, xs=xs, x=x):
                return b + sum(weight * max(0.0, x - fold) for weight, fold in zip(c, xs))

            mistakes = {
                "c_i is the change of the slope at a fold, not the slope itself.": f(ys[0], slopes),
                "A slope is a difference of heights, divided by the width of its piece.": f(ys[0], rises),
                "The height b is missing.": height - ys[0],
            }
            compare(f(b, c), height, f"in piece {i} of {n}, at x = {x:.3f}, your f", mistakes)


print("exercise 4:", check_4(answer_4))
