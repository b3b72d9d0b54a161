# %% [markdown]
# # Exercises: attention by hand
#
# Write your answers in place of the dots, or mend the code, and run the file again. Each check says in one sentence
# whether an answer is right. The checks draw new numbers each time.

# %%
import math
import random

from judge import Wrong, check, compare

import tinytensor as tt

# %% [markdown]
# ## 1 ★ Predict: a word that looks for nothing
#
# A text has n words, the mask of the lesson hides later words, and the query of word i is 0. What are its weights?


# %%
def answer_1(i: int, n: int) -> list[float]:
    """The n weights in row i; the first word is i = 0."""
    ...


@check("what are all scores of this row? And how many of them does the mask leave?")
def check_1(answer) -> None:
    n = random.randint(4, 9)
    for i in (random.randint(2, n - 2), 0, n - 1):
        Q, K = tt.randn(n, 3), tt.randn(n, 3)
        Q[i] = 0
        right = (Q @ K.mT + tt.full((n, n), -math.inf).triu(1)).softmax(-1)[i].tolist()
        mistakes = {
            "Words behind this one are hidden by the mask.": [1 / n] * n,
            "A word sees itself, too.": [1 / max(i, 1) if j < i else 0.0 for j in range(n)],
            "Weights sum to 1, whatever the scores are.": [0.0] * n,
            "A query of 0 prefers no word, not even itself.": [float(j == i) for j in range(n)],
        }
        answer.compare((i, n), right, f"row {i} of {n}", mistakes)


print("exercise 1:", check_1(answer_1))

# %% [markdown]
# ## 2 ★★ Find the bug: padding
#
# Some sequences are shorter than others, and filled up with padding. No word may attend to padding, and `answer_2` sees
# to that. Still a model that is trained with it behaves differently with more or less padding. Why? Mend it.


# %%
def answer_2(S: tt.Tensor, real: tt.Tensor) -> tt.Tensor:
    """The weights (n, n) for scores S (n, n), where real (n) is True for words and False for padding."""
    return S.softmax(-1) * real.float()


@check("what does a row of the weights sum to?")
def check_2(answer) -> None:
    n, words = random.randint(4, 7), random.randint(2, 3)
    S, real = tt.randn(n, n) * 2, tt.arange(n) < words
    right = tt.cat([S[:words, :words].softmax(-1), tt.zeros(words, n - words)], 1)
    mistakes = {
        "Words attend to padding: hide its columns; these are all rows as they were.": S.softmax(-1)[:words],
        "A score of 0 is a score like others: e^0 is 1.": (S * real).softmax(-1)[:words],
        "What padding would have got is lost, so rows do not sum to 1.": S.softmax(-1)[:words] * real,
        "Words get no weights at all.": 0 * right,
    }
    result = answer(S, real)
    if tuple(result.shape) == (n, n):
        result = result[:words]  # whatever a row of padding attends to, no word sees it
    compare(result, right, f"for {words} words and {n - words} of padding the first rows", mistakes)


print("exercise 2:", check_2(answer_2))

# %% [markdown]
# ## 3 ★★ Derive: which scores does training raise?
#
# One word has the weights w = softmax(s), and its result is y = Σ_j w_j v_j. A gradient g arrives at y. What is the
# gradient with respect to the scores s? Lesson 6 has the gradient of softmax.


# %%
def answer_3(w: tt.Tensor, V: tt.Tensor, g: tt.Tensor) -> tt.Tensor:
    """The gradient with respect to s (n), for the weights w (n), the values V (n, d) and the gradient g (d) at y."""
    ...


@check("first the gradient that arrives at w_j: y is a sum, of which v_j is one part.")
def check_3(answer) -> None:
    n, d = random.randint(3, 6), random.randint(2, 5)
    s, V, g = tt.randn(n, requires_grad=True, dtype=tt.float64), tt.randn(n, d).double(), tt.randn(d).double()
    w = s.softmax(-1)
    (w @ V).backward(g)
    w, arrives = w.detach(), V @ g
    mistakes = {
        "That is the gradient of w; softmax lies between w and s.": arrives,
        "A score changes the other weights, too: from V @ g a mean has to be subtracted.": w * arrives,
        "That is its effect on its own weight; a score changes the other weights, too.": w * (1 - w) * arrives,
        "The mean that is subtracted is weighted by w.": w * (arrives - arrives.mean()),
    }
    answer.compare((w, V, g), s.grad, f"for {n} words the gradient of s", mistakes)


print("exercise 3:", check_3(answer_3))

# %% [markdown]
# ## 4 ★★★ Extend: a head that looks at the word before
#
# Let the words of a text be numbered, and let each vector say only its position: X is the unit matrix (n, n). Find W_q
# and W_k, so that each word gives the word before it a weight of at least 0.99. (The first word has none before it; it
# may do what it likes.) There is no mask: words that follow must be avoided, too. Trained models have such heads.


# %%
def answer_4(n: int) -> tuple[tt.Tensor, tt.Tensor]:
    """W_q and W_k, (n, d_k) each, with any d_k."""
    ...


@check("let the key of a word be its position. What then has its query to be?")
def check_4(answer) -> None:
    for n in (2, random.randint(3, 6), random.randint(20, 40)):
        W_q, W_k = (tt.tensor(W.tolist(), dtype=tt.float64) for W in answer(n))
        if W_q.shape != W_k.shape or len(W_q) != n or W_q.ndim != 2:
            raise Wrong(f"W_q and W_k should be ({n}, d_k) each, and are {tuple(W_q.shape)} and {tuple(W_k.shape)}.")
        w = (W_q @ W_k.mT / math.sqrt(W_q.shape[1])).softmax(-1)  # X is the unit matrix
        for i in range(1, n):
            most, weight = w[i].argmax().item(), w[i, i - 1].item()
            if most != i - 1 and not weight > 0.99:
                raise Wrong(
                    f"of {n} words, word {i} looks most at word {most}, {'itself' if most == i else 'another one'}, "
                    f"not at word {i - 1}."
                )
            if not weight >= 0.99:
                raise Wrong(
                    f"of {n} words, word {i} gives the word before it only {weight:.3f}. "
                    "Its score has to be larger, beside those of the others."
                )


print("exercise 4:", check_4(answer_4))
