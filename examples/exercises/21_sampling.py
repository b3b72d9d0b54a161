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
# ## 4 ★★★ Extend: read a question at once
#
# The lesson's cache takes one word at a time. A question of many words is known from the beginning, and its rows can be
# computed at once. The cache may hold earlier words already. Extend attention, for one head: each of n new words sees
# the m words in the cache, the new ones before it, and itself.


# %%
def answer_4(q, k, v, keys, values):
    """Y (n, K), and all keys and values (m + n, K): of new ones, q, k, v (n, K), and those in the cache (m, K)."""
    ...


@check("the scores are (n, m + n). In which column stands the last word that row i may see? See `triu(diagonal)`.")
def check_4(answer) -> None:
    K = 4
    for m, n in ((random.randint(2, 4), 3), (0, 4), (3, 1), (random.randint(4, 6), 2)):
        q, k, v, before, values = (tt.randn(rows, K, dtype=tt.float64) for rows in (n, n, n, m, m))
        keys, all_values = tt.cat([before, k]), tt.cat([values, v])
        each = {name: [] for name in ("right", "not shifted", "all", "unscaled", "only new", "weights")}
        for i in range(n):
            scores, seen = keys @ q[i] / math.sqrt(K), m + i + 1
            each["right"].append(scores[:seen].softmax(0) @ all_values[:seen])
            each["not shifted"].append(scores[: i + 1].softmax(0) @ all_values[: i + 1])
            each["all"].append(scores.softmax(0) @ all_values)
            each["unscaled"].append((scores[:seen] * math.sqrt(K)).softmax(0) @ all_values[:seen])
            each["only new"].append(scores[m:seen].softmax(0) @ all_values[m:seen])
            each["weights"].append(scores.softmax(0)[:seen] @ all_values[:seen])
        Y = {name: tt.stack(rows) for name, rows in each.items()}
        mistakes = {
            "Row 0 is the word behind the m in the cache: it sees these, too.": (
                Y["not shifted"],
                ...,
                ...,
            ),
            "A new word must not see the new words after it: where is the mask?": (Y["all"], ..., ...),
            "The weights of a row no longer add up to 1: mask the scores, before softmax.": (Y["weights"], ..., ...),
            "The scores have to be divided by the root of K.": (Y["unscaled"], ..., ...),
            "The new words see those in the cache, too.": (Y["only new"], ..., ...),
            "The new keys have to go to the cache, too.": (..., before.clone(), ...),
            "The new values have to go to the cache, too.": (..., ..., values.clone()),
            "New words stand behind the earlier ones in the cache.": (..., tt.cat([k, before]), ...),
        }
        names = ("Y", "the tensor of keys", "the tensor of values")
        said = f"with {m} words in the cache and {n} new ones"
        answer.compare((q, k, v, before, values), (Y["right"], keys, all_values), said, mistakes, names=names)


print("exercise 4:", check_4(answer_4))
