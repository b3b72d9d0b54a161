# %% [markdown]
# # Exercises: attention by hand
#
# Write your answers in place of the dots, or mend the code, and run the file again. Each check says in one sentence
# whether an answer is right. The checks draw new numbers each time.

# %%
import math
import random

import tinytensor as tt

# %% [markdown]
# ## 1 ★ Predict: a word that looks for nothing
#
# A text has n words, the mask of the lesson hides later words, and the query of word i is 0. What are its weights?


# %%
def answer_1(i: int, n: int) -> list[float]:
    """The n weights in row i; the first word is i = 0."""
    ...


def check_1(answer) -> str:
    n = random.randint(4, 9)
    for i in (0, random.randint(1, n - 2), n - 1):
        given = answer(i, n)
        Q, K = tt.randn(n, 3), tt.randn(n, 3)
        Q[i] = 0
        right = (Q @ K.mT + tt.full((n, n), -math.inf).triu(1)).softmax(-1)[i].tolist()
        if given is None:
            return "not solved yet. Hint: what are all scores of this row? And how many of them does the mask leave?"
        if len(given) != n or max(abs(a - b) for a, b in zip(given, right)) > 1e-6:
            rounded = [[round(w, 3) for w in weights] for weights in (right, given)]
            return f"wrong: row {i} of {n} is {rounded[0]}, not {rounded[1]}."
    return "right"


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


def check_2(answer) -> str:
    n, words = random.randint(4, 7), random.randint(2, 3)
    S, real = tt.randn(n, n) * 2, tt.arange(n) < words
    given, right = answer(S, real), S[:, :words].softmax(-1)
    if given is None:
        return "not solved yet. Hint: what does a row of the weights sum to?"
    for i in range(words):  # whatever a row of padding attends to, no word sees it
        row = given[i].tolist()
        if any(math.isnan(w) for w in row):
            return f"wrong: row {i}, which is a word, has weights that are not numbers: {row}."
        if max(row[words:]) > 0:
            return (
                f"wrong: row {i} attends to padding: the last {n - words} of {[round(w, 3) for w in row]} should be 0."
            )
        if abs(sum(row) - 1) > 1e-5:
            return f"wrong: row {i} is {[round(w, 3) for w in row]}, which sums to {sum(row):.3f}, not to 1."
        if max(abs(a - b) for a, b in zip(row, right[i].tolist())) > 1e-5:
            return f"wrong: row {i} should begin with {right[i].tolist()}, as without padding, and is {row}."
    return "right"


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


def check_3(answer) -> str:
    n, d = random.randint(3, 6), random.randint(2, 5)
    s, V, g = tt.randn(n, requires_grad=True, dtype=tt.float64), tt.randn(n, d).double(), tt.randn(d).double()
    w = s.softmax(-1)
    (w @ V).backward(g)
    given = answer(w.detach(), V, g)
    if given is None:
        return "not solved yet. Hint: first the gradient that arrives at w_j: y is a sum, of which v_j is one part."
    if given.shape != s.shape or (given - s.grad).abs().max().item() > 1e-9:
        rounded = [[round(x, 3) for x in values.tolist()] for values in (s.grad, given)]
        return f"wrong: the tape has {rounded[0]}, and you have {rounded[1]}."
    return "right"


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


def check_4(answer) -> str:
    for n in (2, random.randint(3, 6), random.randint(20, 40)):
        given = answer(n)
        if given is None:
            return "not solved yet. Hint: let the key of a word be its position. What then has its query to be?"
        Q, K = (tt.eye(n) @ W for W in given)
        w = (Q @ K.mT / math.sqrt(Q.shape[-1])).softmax(-1)
        for i in range(1, n):
            most = w[i].argmax().item()
            if most != i - 1:
                return f"wrong: of {n} words, word {i} looks most at word {most}, not at word {i - 1}."
            if w[i, i - 1].item() < 0.99:
                return f"wrong: of {n} words, word {i} gives the word before it only {w[i, i - 1].item():.3f}."
    return "right"


print("exercise 4:", check_4(answer_4))
