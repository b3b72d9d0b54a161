# %% [markdown]
# # Exercises: from a model to text
#
# Write your answers in place of the dots, or mend the code, and run the file again. Each check says in one sentence
# whether an answer is right. The checks draw new numbers each time.

# %%
import math
import random

from judge import check

import tinytensor as tt

# %% [markdown]
# ## 1 ★ Predict: half sure, half lost
#
# A model gives the right word the probability a at every second place of a text, and b at the others. Which perplexity
# does it have on this text, and how many bits a word does it need?


# %%
def answer_1(a: float, b: float) -> tuple[float, float]:
    """The perplexity, and the loss in bits a word."""
    ...


@check("first write down the loss in nats, a mean over two places. Which of the two numbers is e to its power?")
def check_1(answer) -> None:
    for _ in range(3):
        a, b = random.uniform(0.5, 0.95), random.uniform(0.02, 0.4)
        nats = tt.tensor([a, b] * 4, dtype=tt.float64).log().mean().neg().item()
        perplexity, bits = math.exp(nats), nats / math.log(2)
        mistakes = {
            "The loss is the mean of the logarithms, not the logarithm of the mean probability.": (2 / (a + b), ...),
            "The mean is taken of −ln q, not of 1/q.": ((1 / a + 1 / b) / 2, ...),
            "It is a mean over the places: divide the sum of the two logarithms by 2.": (perplexity**2, ...),
            "That is the loss in nats: perplexity is e to its power.": (nats, ...),
            "Nats go with e, bits with 2: you have mixed them.": (2**nats, ...),
            "You have mixed them: bits go with 2, nats with e.": (math.exp(bits), ...),
            "These are nats: divide by ln 2.": (..., nats),
            "There are more bits than nats: divide by ln 2, do not multiply by it.": (..., nats * math.log(2)),
            "It is a mean over the places: divide the sum of the two by 2.": (..., 2 * bits),
            "Take the mean of the logarithms, not the logarithm of the mean.": (..., -math.log2((a + b) / 2)),
        }
        names = ("the perplexity", "the number of bits a word")
        answer.compare((a, b), (perplexity, bits), f"with a = {a:.3f} and b = {b:.3f}", mistakes, names=names)


print("exercise 1:", check_1(answer_1))

# %% [markdown]
# ## 2 ★★ Find the bug: top-p that draws from nothing
#
# Top-p keeps the fewest words that together have at least the probability p. This one stops a word too early. Where the
# model is sure of a word it keeps none at all, and the result is NaN. Mend it.


# %%
def answer_2(q: tt.Tensor, p: float) -> tt.Tensor:
    """The probabilities (V,) from which top-p draws, where the model says q (V,)."""
    falling, order = q.sort(descending=True)
    kept = falling * (falling.cumsum(0) < p)
    return (kept / kept.sum())[order.argsort()]


@check("how much do the likelier words have together, those before a word? Is that less than p?")
def check_2(answer) -> None:
    for case in ("unsure", "sure", "unsure", "exactly p", "all", "unsure"):
        V = random.randint(5, 8)
        q = tt.randn(V, dtype=tt.float64).softmax(0)
        if case == "sure":
            q = (q + 20 * tt.eye(V, dtype=tt.float64)[random.randrange(V)]) / 21
        if case == "exactly p":
            q = tt.tensor(random.sample([0.5, 0.25, 0.125, 0.0625, 0.0625], 5), dtype=tt.float64)
        if case == "all":  # with words that top-k has cut off
            q = tt.cat([tt.zeros(2, dtype=tt.float64), q])
        order = q.argsort(descending=True).tolist()
        sums = q[order].cumsum(0).tolist()
        n = {"sure": 1, "all": V}.get(case) or random.randint(2, 3)  # so many words are kept
        between = sums[n - 2] + random.uniform(0.2, 0.8) * (sums[n - 1] - sums[n - 2])
        p = {"sure": 0.9, "exactly p": sums[n - 1], "all": 1.0}.get(case, between)
        rising = 1 + sum(x < p for x in q[order[::-1]].cumsum(0).tolist())
        right = _first(q, order, n)
        back = "They stand in falling order: each must be back where its word stands in q."
        mistakes = {
            "The word that reaches p is kept, too: without it the others have less than p.": _first(q, order, n - 1),
            "One word too many: without the last one the others have at least p.": _first(q, order, n + 1),
            "The probabilities of the words that are kept must add up to 1.": right * sums[n - 1],
            back: right[order],
            back + " Which order undoes `order`?": right[order][order],
            "The likeliest words are kept, not the unlikeliest.": _first(q, order[::-1], rising),
        }
        said = f"for q = {[round(x, 3) for x in q.tolist()]} and p = {p:.3f} the result"
        answer.compare((q, p), right, said, mistakes)


def _first(q: tt.Tensor, order: list[int], n: int) -> tt.Tensor:
    """q without all but the first n words of an order."""
    kept = q * tt.tensor([float(i in order[:n]) for i in range(len(q))], dtype=q.dtype)
    return kept / kept.sum()


print("exercise 2:", check_2(answer_2))

# %% [markdown]
# ## 3 ★★ Derive: a temperature without logits
#
# A program prints the probabilities q = softmax(L) of its next words, and keeps the logits L to itself. Derive from q
# what it would print at the temperature T, softmax(L / T). (Some words may have q = 0: top-k has cut them off.)


# %%
def answer_3(q: tt.Tensor, T: float) -> tt.Tensor:
    """The probabilities (V,) at the temperature T, from those at the temperature 1."""
    ...


@check("e^(L/T) is a power of e^L. And e^L is q, up to a factor that is the same for all words.")
def check_3(answer) -> None:
    for T in (random.uniform(0.3, 0.8), random.uniform(2.5, 4), 1.0, 2.0):
        L = tt.randn(random.randint(4, 7), dtype=tt.float64)
        L[0] = L[1]  # two are equally likely
        if T != 2:
            L[-1] = -math.inf
        q = L.softmax(0)
        mistakes = {
            "q / T, made to add up to 1 again, is q: dividing probabilities changes nothing.": q,
            "T divides logits, not probabilities.": q / T,
            "These are logits at the temperature T: softmax makes probabilities of them.": q.log() / T,
            "Softmax takes logits, and q are probabilities.": (q / T).softmax(0),
            "A low temperature makes likely words likelier: is the exponent T, or 1/T?": (L * T).softmax(0),
            "These do not add up to 1.": q ** (1 / T),
            "A word with q = 0 stays at 0.": (L.masked_fill(q == 0, 0.0) / T).softmax(0),
        }
        said = f"for q = {[round(x, 3) for x in q.tolist()]} and T = {T:.3f} the result"
        answer.compare((q, T), (L / T).softmax(0), said, mistakes)


print("exercise 3:", check_3(answer_3))

# %% [markdown]
# ## 4 ★★★ Extend: a small model proposes
#
# A large model is slow. So a small one draws each word, and the large one, which reads many words at once, accepts a
# word x with the probability min(1, large(x) / small(x)). Where it refuses, another word is drawn, from r. With which r
# do all words get the probabilities of the large model? (Speculative decoding: Leviathan, Kalman and Matias, 2023.)


# %%
def answer_4(large: tt.Tensor, small: tt.Tensor) -> tuple[float, tt.Tensor]:
    """The part of the proposals that is accepted, and r (V,), of the probabilities (V,) of both models."""
    ...


@check("with which probability is x proposed and accepted? How much of large(x) is missing then?")
def check_4(answer) -> None:
    for case in ("all words", "a word is cut off", "a word is never proposed", "all words"):
        large, small = tt.randn(2, random.randint(4, 6), dtype=tt.float64).softmax(-1)
        if case == "a word is cut off":
            large = large * (large > large.min()) / (1 - large.min())
        if case == "a word is never proposed":
            small = small * (small > small.min()) / (1 - small.min())
        x = [(q, p, min(1, q / p) if p else 1) for q, p in zip(large.tolist(), small.tolist())]
        part = sum(p * accepted for _, p, accepted in x)
        missing = tt.tensor([q - p * accepted for q, p, accepted in x], dtype=tt.float64)
        refused = tt.tensor([q * (1 - accepted) for q, _, accepted in x], dtype=tt.float64)
        difference = large - small
        mistakes = {
            "Words are not proposed equally often: weigh each with small(x).": (sum(a for *_, a in x) / len(x), ...),
            "It is the small model that proposes: weigh with small(x).": (sum(q * a for q, _, a in x), ...),
            "That is the part that is refused.": (1 - part, ...),
            "Some of large(x) has come from accepted words: r has to add only the rest.": (..., large),
            "The probabilities in r must add up to 1.": (..., missing),
            "No probability is negative: of words proposed too often r has to add nothing.": (..., difference),
            "r is for words that are proposed too seldom, not too often.": (..., (missing - difference) / (1 - part)),
            "Words that are proposed too often need nothing more.": (..., difference.abs() / difference.abs().sum()),
            "r is not for the words that are refused: they came too often.": (..., refused / refused.sum()),
        }
        said = f"for large = {[round(q, 3) for q, *_ in x]} and small = {[round(p, 3) for _, p, _ in x]}"
        answer.compare((large, small), (part, missing / (1 - part)), said, mistakes, names=("the part", "r"))


print("exercise 4:", check_4(answer_4))
