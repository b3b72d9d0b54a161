# %% [markdown]
# # Exercises: norms and depth
#
# Write your answers in place of the dots, or mend the code, and run the file again. Each check says in one sentence
# whether an answer is right. The checks draw new numbers each time.

# %%
import math
import random

from judge import check

import tinytensor as tt
import tinytensor.nn.functional as F
from tinytensor import nn


def numbers(*shape: int) -> tt.Tensor:
    return tt.randn(*shape, dtype=tt.float64)


# %% [markdown]
# ## 1 ★ Predict: sizes in a deep network
#
# The root mean square of the input is `size`. It goes through `depth` layers max(0, X W), whose weights are random
# numbers of size g / √D. What is the root mean square of the result, about? And with which g does it stay as it is, if
# there is no max(0, .), but only the products X W?


# %%
def answer_1(size: float, g: float, depth: int) -> tuple[float, float]:
    """The size of the result with max(0, .), and the g that keeps the size without it."""
    ...


@check("by what does one layer multiply the mean square, and so its root? Which part of it does max(0, .) take away?")
def check_1(answer) -> None:
    for _ in range(3):
        size, g, depth = random.uniform(1, 3), random.uniform(0.7, 1.3), random.randint(4, 9)
        square = size**2
        for _ in range(depth):
            square *= g**2 / 2  # half of the entries of X W are set to 0
        right = math.sqrt(square), 1.0
        mistakes = {
            "max(0, .) sets half of the numbers to 0, which halves the mean square.": (size * g**depth, ...),
            "The mean square is halved, so its root is divided by √2.": (size * (g / 2) ** depth, ...),
            "That is the mean square: take its root.": (square, ...),
            "That is the result for an input of size 1.": (right[0] / size, ...),
            "Each layer multiplies the size.": (size * depth * g / math.sqrt(2), ...),
            "√2 makes up for what max(0, .) takes away; here nothing is taken away.": (..., math.sqrt(2)),
        }
        case = f"for size = {size:.3f}, g = {g:.3f}, depth = {depth}"
        answer.compare((size, g, depth), right, case, mistakes, names=("the size of the result", "the g"))


print("exercise 1:", check_1(answer_1))

# %% [markdown]
# ## 2 ★★ Find the bug: nearly a layer norm
#
# `answer_2` is a layer norm from an old repository. Its results are nearly those of `F.layer_norm`; only models
# that were trained with one are a little worse with the other, and once a loss was NaN. Mend it.


# %%
def answer_2(X: tt.Tensor, eps: float) -> tt.Tensor:
    """The layer norm of each row of X (n, D)."""
    return (X - X.mean(-1, keepdim=True)) / (X.std(-1, keepdim=True) + eps)


@check("by which number does `std` divide, D or D − 1? And where does ε stand?")
def check_2(answer) -> None:
    for n, D in ((3, 2), (4, 4), (random.randint(2, 5), random.randint(3, 9))):
        X, eps = numbers(n, D), random.uniform(0.05, 0.3)
        d = X - X.mean(-1, keepdim=True)
        biased, unbiased = (X.var(-1, unbiased=each, keepdim=True) for each in (False, True))
        columns = (X - X.mean(0)) / (X.var(0, unbiased=False) + eps).sqrt()
        whole = (X - X.mean()) / (X.var(unbiased=False) + eps).sqrt()
        mistakes = {
            "The variance is divided by D, not by D − 1, and ε is added to it, not to its root.": d
            / (unbiased.sqrt() + eps),
            "ε is added to the variance, before the root is taken.": d / (biased.sqrt() + eps),
            "The variance is biased: divide by D, not by D − 1.": d / (unbiased + eps).sqrt(),
            "ε is added once, to the variance.": d / (biased + eps**2).sqrt(),
            "ε is missing.": d / biased.sqrt(),
            "Each row has a mean and a variance of its own: yours are those of the columns.": columns,
            "Each row has a mean and a variance of its own: yours are those of all numbers.": whole,
            "The root is missing: divide by the deviation.": d / (biased + eps),
            "Subtract the mean, too.": X / (biased + eps).sqrt(),
        }
        answer.compare((X, eps), F.layer_norm(X, (D,), eps=eps), f"for {n} rows of {D} the norm", mistakes)


print("exercise 2:", check_2(answer_2))

# %% [markdown]
# ## 3 ★★ Derive: what is left of the embedding
#
# A stream begins with mean square 1, and each of `depth` sublayers adds numbers of mean square s², which have nothing
# to do with what was there: mean squares add up. If a norm stands after each sum, it brings the mean square back to 1.
# If not, a single norm stands at the end. By which factor are the first numbers of the stream multiplied in the end?


# %%
def answer_3(s: float, depth: int) -> tuple[float, float]:
    """The factor with a norm after each sum, and with one norm at the end."""
    ...


@check("what is the mean square of a sum, and by what does a norm divide? Which of the two is a power?")
def check_3(answer) -> None:
    for depth in (random.randint(2, 5), random.randint(6, 12), 1):
        s, factor, square = random.uniform(0.5, 2), 1.0, 1.0
        for _ in range(depth):
            factor /= math.hypot(1, s)  # the size of the sum
            square += s**2
        names = ("the factor with a norm after each sum", "the factor with one norm at the end")
        mistakes = {
            "A norm divides by the root of the mean square.": (factor**2, ...),
            "Mean squares add up, not sizes.": ((1 + s) ** -depth, ...),
            "There are as many norms as sublayers.": (1 / math.hypot(1, s), ...),
            "After the norm the mean square is 1 once more: each norm divides by the same.": (square**-0.5, ...),
            "A norm divides by the root of the mean square, too.": (..., 1 / square),
            "Sizes do not add up: mean squares do.": (..., 1 / (1 + depth * s)),
            "All sublayers have written by then.": (..., 1 / math.hypot(1, s)),
            "There is only one norm: nothing is divided twice.": (..., factor),
        }
        answer.compare(
            (s, depth), (factor, square**-0.5), f"for s = {s:.3f} and {depth} sublayers", mistakes, names=names
        )


print("exercise 3:", check_3(answer_3))

# %% [markdown]
# ## 4 ★★★ Extend: batch norm in evaluation mode
#
# In training a batch norm keeps, for each component, a mean and a variance that follow those of the batches: they begin
# with 0 and 1, and each batch replaces the share `momentum` of them. (It keeps the unbiased variance, which guesses
# that of all data.) In evaluation mode it uses them, and ε. Write what it makes of X then.


# %%
def answer_4(batches: list[tt.Tensor], momentum: float, eps: float, X: tt.Tensor) -> tt.Tensor:
    """X (n, D) in evaluation mode, after training on the batches (B, D), one after the other."""
    ...


@check("kept = (1 − momentum) kept + momentum new, for the mean and for the variance. Over which axis is `new`?")
def check_4(answer) -> None:
    for count in (1, 3, random.randint(4, 6)):
        D, momentum, eps = random.randint(2, 4), random.uniform(0.1, 0.4), random.uniform(0.05, 0.3)
        batches, X = [1 + 2 * numbers(random.randint(3, 5), D) for _ in range(count)], numbers(3, D)
        norm = nn.BatchNorm1d(D, eps=eps, momentum=momentum, affine=False, dtype=tt.float64)
        for batch in batches:
            norm(batch)

        def kept(share, unbiased=True, start=1.0, used=batches, D=D, X=X, eps=eps):
            mean, var = tt.zeros(D, dtype=tt.float64), start * tt.ones(D, dtype=tt.float64)
            for batch in used:
                mean = (1 - share) * mean + share * batch.mean(0)
                var = (1 - share) * var + share * batch.var(0, unbiased=unbiased)
            return (X - mean) / (var + eps).sqrt()

        mistakes = {
            "The variance that is kept is the unbiased one.": kept(momentum, unbiased=False),
            "Each batch replaces the share momentum, and the rest stays.": kept(1 - momentum),
            "What is kept begins with the variance 1.": kept(momentum, start=0.0),
            "Only the last batch counts: all of them do.": kept(1.0),
            "Only the last batch counts: earlier ones do, too.": kept(momentum, used=batches[-1:]),
            "In evaluation mode X itself does not count: it is divided by what was kept.": kept(1.0, False, used=[X]),
        }
        case = f"after {count} batches with the momentum {momentum:.3f} the result"
        answer.compare((batches, momentum, eps, X), norm.eval()(X), case, mistakes)


print("exercise 4:", check_4(answer_4))
