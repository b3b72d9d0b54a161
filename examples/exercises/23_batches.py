# %% [markdown]
# # Exercises: batches, epochs, memory
#
# Write your answers in place of the dots, or mend the code, and run the file again. Each check says in one sentence
# whether an answer is right. The checks draw new numbers each time.

# %%
import itertools
import random
from collections.abc import Callable

from judge import Wrong, check, compare

import tinytensor as tt

# %% [markdown]
# ## 1 ★ Predict: steps
#
# There are N texts, and a batch has B of them. In each epoch each text comes once; what is left over at the end of an
# epoch is a smaller batch. How many steps are made, and how many texts has the last batch of an epoch?


# %%
def answer_1(N: int, B: int, epochs: int) -> tuple[int, int]:
    """The number of steps in all epochs, and of texts in the last batch of each."""
    ...


@check("take 10 texts, in batches of 4: which batches are there in one epoch, and which in the next one?")
def check_1(answer) -> None:
    B = random.randint(5, 9)
    for left in (random.randint(1, 2), 0, B - 1):
        N, epochs = B * random.randint(3, 9) + left, random.randint(3, 6)
        sizes = [len(range(i, min(i + B, N))) for i in range(0, N, B)]
        mistakes = {
            "What is left over makes one more step in each epoch.": (epochs * (N // B), ...),
            "The next epoch begins with a new batch, also if the last one was small.": (-(-epochs * N // B), ...),
            "What is left over of all epochs together is no batch.": (epochs * N // B, ...),
            "That is for one epoch.": (len(sizes), ...),
            "B divides N, so the last batch is as large as all others.": (..., 0),
            "The last batch has only what is left over.": (..., B),
        }
        names = ("the number of steps", "the number of texts in the last batch")
        right, case = (epochs * len(sizes), sizes[-1]), f"with N = {N}, B = {B} and {epochs} epochs"
        answer.compare((N, B, epochs), right, case, mistakes, names=names)


print("exercise 1:", check_1(answer_1))

# %% [markdown]
# ## 2 ★★ Find the bug: parts that are not equal
#
# `answer_2` makes one step for a batch that comes in parts. It should be the step of the whole batch, and it is, as
# long as all parts have the same size. Mend it. `loss(part)` is the mean of the losses of the part's texts.


# %%
def answer_2(loss: Callable[[tt.Tensor], tt.Tensor], parts: list[tt.Tensor], optimizer: tt.optim.Optimizer) -> None:
    """One step with the gradient of the mean over the texts of all parts; a part is (texts, numbers)."""
    optimizer.zero_grad()
    for part in parts:
        (loss(part) / len(parts)).backward()
    optimizer.step()


@check("take a part of three texts and one of a single text: how much should each of the four count?")
def check_2(answer) -> None:
    for sizes in ((5, 2), (4, 4, 1), (3, 3), (1, 6, 2)):
        parts, rate = [tt.randn(size, 3, dtype=tt.float64) for size in sizes], random.uniform(0.1, 0.4)
        start, old = tt.randn(3, dtype=tt.float64), tt.randn(3, dtype=tt.float64)
        p = start.clone().requires_grad_()
        p.grad = old.clone()

        def after(*factors, g=0.0, start=start, rate=rate, parts=parts):
            return start - rate * (g + sum(f * (start - part.mean(0)) for f, part in zip(factors, parts)))

        shares = [size / sum(sizes) for size in sizes]
        mistakes = {
            "Each part counts alike: a text of a small part counts more than one of a large part.": after(
                *[1 / len(sizes)] * len(sizes)
            ),
            "The means of the parts are added up: which number do you divide the loss by?": after(*[1] * len(sizes)),
            "That is the sum over all texts, not their mean.": after(*sizes),
            "A part's loss is a mean already: it stands for as many texts as the part has.": after(
                *[1 / sum(sizes)] * len(sizes)
            ),
            "What an earlier step left in p.grad was added.": after(*shares, g=old),
            "Only the last part is left: set the gradients to 0 once, before all parts.": after(
                *[0] * (len(sizes) - 1), shares[-1]
            ),
        }
        answer.run(lambda part, p=p: ((p - part) ** 2).sum(1).mean() / 2, list(parts), tt.optim.SGD([p], lr=rate))
        compare(p.detach(), after(*shares), f"with parts of {sizes} texts p after the step", mistakes)


print("exercise 2:", check_2(answer_2))

# %% [markdown]
# ## 3 ★★ Derive: the noise of a minibatch
#
# g_1, ..., g_N are the gradients of one parameter, one for each text. A minibatch takes B different ones, each choice
# with the same probability, and their mean. What is the variance of this mean?


# %%
def answer_3(g: list[float], B: int) -> float:
    """The variance of the mean of B different ones of the N numbers g."""
    ...


@check("for B = 1 it is the variance σ² of the numbers, for B = N it is 0. Which factor stands beside σ² / B?")
def check_3(answer) -> None:
    N = random.randint(5, 7)
    for B in (random.randint(2, N - 2), 1, N - 1, N):
        g = [random.uniform(-3, 3) for _ in range(N)]
        mean = sum(g) / N
        sigma2 = sum((x - mean) ** 2 for x in g) / N
        means = [sum(chosen) / B for chosen in itertools.combinations(g, B)]
        right = sum((x - mean) ** 2 for x in means) / len(means)
        mistakes = {
            "So it is if a text may come twice. With all N texts there is no noise left.": sigma2 / B,
            "For B = 1 that is less than σ²: what does the numerator N − B begin with?": sigma2 / B * (N - B) / N,
            "σ² is the mean of N squares here: all N numbers are known.": sigma2 / B * (N - B) / (N - 1) ** 2 * N,
            "σ² / B is the variance; that is the variance of the sum.": sigma2 * B * (N - B) / (N - 1),
            "The variance of a mean falls as 1 / B.": sigma2 * (N - B) / (N - 1),
            "That is the standard deviation: its square is asked for.": right**0.5,
            "That is σ², the variance of a single one.": sigma2,
        }
        answer.compare((list(g), B), right, f"for B = {B} of N = {N} numbers the variance", mistakes)


print("exercise 3:", check_3(answer_3))

# %% [markdown]
# ## 4 ★★★ Extend: compute it twice, keep less
#
# A chain of many layers keeps the activations of all. They can be thrown away, and computed again when backward needs
# them: run the chain with `no_grad()`, keep every k-th input only, and then walk back k layers at a time, with a tape
# of these alone. Each layer runs twice at most.


# %%
def answer_4(layers: list[Callable[[tt.Tensor], tt.Tensor]], x: tt.Tensor, g: tt.Tensor, k: int) -> tt.Tensor:
    """The gradient of x, if g arrives at the last result; at most k layers are on the tape at a time."""
    ...


@check(
    "`y.backward(g)` begins with the gradient g of y. What it leaves at the first input is the g of the layers before."
)
def check_4(answer) -> None:
    for n, k in ((6, 2), (5, 3), (4, 1), (3, 3)):
        weights = [tt.randn(3, 3, dtype=tt.float64) for _ in range(n)]
        x, g = (tt.randn(3, dtype=tt.float64) for _ in range(2))
        runs, taped, most = [0] * n, set(), 0

        def layer(i, x, weights=weights, runs=runs, taped=taped):
            nonlocal most
            y = (x @ weights[i]).tanh()
            runs[i] += 1
            if y.requires_grad:
                taped.add(i)
                y.register_hook(lambda g: taped.discard(i))  # backward has come here
                most = max(most, len(taped))
            return y

        layers = [lambda x, i=i, layer=layer: layer(i, x) for i in range(n)]
        y, slopes = x, []
        for W in weights:
            y = (y @ W).tanh()
            slopes.append((1 - y * y) * W)  # d y_j / d x_i in row i

        def walked(slopes, g):
            for slope in reversed(slopes):
                g = slope @ g
            return g

        mistakes = {
            "That is the gradient of the input of the last layers: go on with those before.": walked(
                slopes[(n - 1) // k * k :], g
            ),
            "g arrives at the last result alone: the layers before get what the last ones leave.": walked(
                slopes[:k], g
            ),
            "g arrives at the last result: give it to backward().": walked(slopes, tt.ones(3, dtype=tt.float64)),
            "That is g itself.": g,
        }
        case = f"for {n} layers and k = {k} the gradient"
        answer.compare((layers, x.clone(), g.clone(), k), walked(slopes, g), case, mistakes)
        if most > k:
            raise Wrong(
                f"for {n} layers and k = {k} there are {most} layers on the tape at a time: run them without one."
            )
        if max(runs) > 2:
            raise Wrong(f"for {n} layers and k = {k} a layer runs {max(runs)} times: begin at an input that you kept.")


print("exercise 4:", check_4(answer_4))
