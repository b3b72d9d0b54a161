# %% [markdown]
# # Exercises: the KV cache
#
# Write your answers in place of the dots, or mend the code, and run the file again. Each check says in one sentence
# whether an answer is right. The checks draw new numbers each time.

# %%
import math
import random

from judge import check

import tinytensor as tt

# %% [markdown]
# ## 1 ★ Predict: rows for an answer
#
# A question has m words, and a model writes n words after it. How many rows are computed in all, without a cache, and
# with one that reads the question at once? The last word that is written is not read. All words fit into the context.


# %%
def answer_1(m: int, n: int) -> tuple[int, int]:
    """The number of rows without a cache, and with one."""
    ...


@check("what does the first written word cost in both cases, and what the second one?")
def check_1(answer) -> None:
    for _ in range(3):
        m, n = random.randint(10, 20), random.randint(4, 9)
        without, known, with_cache = 0, 0, 0
        for length in range(m, m + n):  # of the text before each word that is written
            without += length
            with_cache += length - known
            known = length
        mistakes = {
            "The last word that is written is not read: nothing comes after it.": (without + m + n, ...),
            "A written word costs a row when it is read, and the last one is not read.": (..., with_cache + 1),
            "The first word that is written costs the m rows of the question.": (without + n, ...),
            "What was written is read, too: each word costs a row more than the one before it.": (m * n, ...),
            "The question is read for each word, too.": (without - m * n, ...),
            "The text is not that long from the beginning: the first word costs m rows.": (n * (m + n), ...),
            "The rows of the question have to be computed once, too.": (..., n),
            "The first word needs the rows of the question, and nothing else.": (..., n - 1),
        }
        names = ("the number of rows without a cache", "the number of rows with one")
        answer.compare((m, n), (without, with_cache), f"with m = {m} and n = {n}", mistakes, names=names)


print("exercise 1:", check_1(answer_1))

# %% [markdown]
# ## 2 ★★ Find the bug: a text that the model would not write
#
# `read(words)` computes the rows of a list of words, adds their keys and values to the cache, and returns the likeliest
# next word. `answer_2` shall write n words after a question. The first one is right, others are not. Mend it.


# %%
def answer_2(read, question: list[int], n: int) -> list[int]:
    """The n words that follow the question; the cache is empty at first."""
    text = list(question)
    for _ in range(n):
        text.append(read(text))
    return text[len(question) :]


@check("write down what the cache holds after the first word, and what it holds after the second.")
def check_2(answer) -> None:
    new = {  # the words that are read when `words` are written
        "The cache holds the earlier words: read only those that are new.": lambda question, words: question + words,
        "Written words are in the cache, too: only the last one is new.": lambda question, words: words or question,
        "The question has to be read, all of it.": lambda question, words: (question + words)[-1:],
        "The last word of the question is read twice.": lambda question, words: words[-1:] or question + question[-1:],
    }
    for _ in range(3):
        question, n, seed = random.sample(range(10, 99), random.randint(2, 4)), random.randint(3, 5), random.random()
        mistakes = {said: _written(_model(seed), question, n, each) for said, each in new.items()}
        right = _written(_model(seed), question, n, lambda question, words: words[-1:] or question)
        mistakes["Only the words after the question are asked for."] = question + right
        inputs = _model(seed), list(question), n
        answer.compare(inputs, right, f"with the question {question} and n = {n} the text", mistakes)


def _model(seed: float):
    """The function `read` of a model with an empty cache."""
    cache: list[int] = []

    def read(words):
        cache.extend(words)
        return random.Random(repr((seed, cache))).randint(10, 99)  # depends on all words and their order

    return read


def _written(read, question: list[int], n: int, new) -> list[int]:
    """The n words that are written where new(question, words) is read after `words`."""
    words: list[int] = []
    for _ in range(n):
        words.append(read(new(question, words)))
    return words


print("exercise 2:", check_2(answer_2))

# %% [markdown]
# ## 3 ★★ Derive: a window that jumps
#
# A full window of C words jumps by j: its oldest j words go, one word is new, and the rows of all words that are in it
# now are computed again. Then each word costs one row, until the window is full. Derive what a word costs on average,
# and how many words are in the window on average. (1 ≤ j ≤ C, and the text is long.)


# %%
def answer_3(C: int, j: int) -> tuple[float, float]:
    """The mean number of rows that are computed for a word, and of words in the window with it."""
    ...


@check("the window jumps once in j words. How many words are in it after the jump, and how many before the next one?")
def check_3(answer) -> None:
    C = random.randint(12, 30)
    for j in (random.randint(3, C // 2), random.randint(C // 2 + 1, C - 2), 1, C):
        words, rows, seen = C, 0, 0
        for _ in range(10 * j):  # ten jumps
            words = words + 1 if words < C else C - j + 1
            rows += words if words == C - j + 1 else 1
            seen += words
        mistakes = {
            "The new word has a row, too, when the window jumps.": ((C - 1) / j, ...),
            "The j − 1 words between two jumps cost a row each.": ((C - j + 1) / j, ...),
            "That is what the word costs with which the window jumps: the others cost 1.": (C - j + 1, ...),
            "That is the number of words after a jump: it grows up to C.": (..., C - j + 1),
            "The window is full only before a jump.": (..., C),
            "After a jump the new word is in the window, too: C − j + 1, ..., C words.": (..., C - (j + 1) / 2),
            "There are j numbers from C − j + 1 to C: what is in the middle of the first and the last?": (
                ...,
                C - j / 2,
            ),
        }
        names = ("the number of rows", "the number of words")
        answer.compare((C, j), (rows / (10 * j), seen / (10 * j)), f"with C = {C} and j = {j}", mistakes, names=names)


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
