# %% [markdown]
# # Exercises: tokens
#
# Write your answers in place of the dots, or mend the code, and run the file again. Each check says in one sentence
# whether an answer is right. The checks draw new numbers each time.

# %%
import math
import random
from collections import Counter
from itertools import pairwise

from judge import check

# %% [markdown]
# ## 1 ★ Predict: two merges
#
# A text is n times the letter a. It is encoded after two merges of byte-pair encoding, which were learnt from it. How
# many tokens is it then, and how many tokens has the vocabulary?


# %%
def answer_1(n: int) -> tuple[int, int]:
    """The number of tokens of the text, and that of the vocabulary; n is 12 at least."""
    ...


@check("which tokens are the pairs of the second merge? What is left over, for n = 13, 14 and 15?")
def check_1(answer) -> None:
    for rest in random.sample(range(4), 4):
        n = 4 * random.randint(3, 20) + rest
        row = ("a" * n).replace("aa", "b")
        left, names = len(row.replace("bb", "c")), ("the number of tokens", "the size of the vocabulary")
        mistakes = {
            "What is left over at the end of the text is a token, too.": (n // 4, ...),
            "The letters that are left over are those of both merges: write n = 15 down.": (-(-n // 4), ...),
            "A merge replaces its pair in all of the text.": (n - 2, ...),
            "That is the text after the first merge.": (len(row), ...),
            "The second merge joins tokens of the first one: it makes four letters of two.": (n // 3 + n % 3, ...),
            "All 256 bytes are in the vocabulary, so that any text can be written.": (..., 3),
            "The tokens of the first merge stay in the vocabulary.": (..., 257),
        }
        answer.compare((n,), (left, 256 + 2), f"for n = {n}", mistakes, names=names)


print("exercise 1:", check_1(answer_1))


# %% [markdown]
# ## 2 ★★ Find the bug: letters that come twice
#
# `answer_2` encodes a text with the merges of a tokenizer. It runs, and yet the text that belongs to its tokens has
# letters too many: "loow" for "low". Mend it.


# %%
def answer_2(text: list[int], pairs: list[tuple[int, int]]) -> list[int]:
    """The tokens of a text, a list of bytes; pairs[0] becomes token 256, pairs[1] token 257, and so on."""
    ids = list(text)
    for new, pair in enumerate(pairs, 256):
        for i in range(len(ids) - 1):
            if (ids[i], ids[i + 1]) == pair:
                ids[i] = new
    return ids


@check("what stands behind the new token? Mind that a list which gets shorter has fewer places.")
def check_2(answer) -> None:
    for length in (3, 8, 12, 16, 16):
        text = random.choices((97, 98), k=length)
        pairs = _learn([random.choices((97, 98), k=40) + text], 4)
        right, untouched, once = list(text), list(text), list(text)
        for new, pair in enumerate(pairs, 256):
            right = _merge(right, pair, new)
            at = [i for i, each in enumerate(pairwise(once)) if each == pair][:1]
            once = [new if i in at else each for i, each in enumerate(once) if i - 1 not in at]
            for i in range(length - 1):
                if (untouched[i], untouched[i + 1]) == pair:
                    untouched[i] = new
        backwards = list(text)
        for new in range(259, 255, -1):
            backwards = _merge(backwards, pairs[new - 256], new)
        mistakes = {
            "The second token of a pair has to go: it is in the new one.": untouched,
            "A merge replaces its pair in all of the text, not once.": once,
            "Merges come in the order in which they were learnt: later ones need earlier tokens.": backwards,
            "Merges go on with the tokens that earlier ones have made.": _merge(text, pairs[0], 256),
        }
        answer.compare((text, list(pairs)), right, f"for the text {text} and the pairs {pairs} the list", mistakes)


def _merge(ids: list[int], pair: tuple[int, int], new: int) -> list[int]:
    result: list[int] = []
    for i in ids:
        result.append(i)
        if tuple(result[-2:]) == pair:
            result[-2:] = [new]
    return result


def _learn(words: list[list[int]], count: int, best=min) -> list[tuple[int, int]]:
    """The first merges, inside words; among the most frequent pairs `best` decides."""
    pairs: list[tuple[int, int]] = []
    while len(pairs) < count and max(map(len, words)) > 1:
        counts = Counter(pair for word in words for pair in pairwise(word))
        pairs.append(best(pair for pair in counts if counts[pair] == max(counts.values())))
        words = [_merge(word, pairs[-1], 255 + len(pairs)) for word in words]
    return pairs


print("exercise 2:", check_2(answer_2))

# %% [markdown]
# ## 3 ★★ Derive: which model is better?
#
# Two models read the same text, which has m bytes. The first one cuts it into n tokens, and has a loss in nats a token.
# What is its loss in bits a byte? The second one has a larger vocabulary, and needs only N tokens for the text. At
# which loss in nats a token is it as good as the first?


# %%
def answer_3(loss: float, n: int, N: int, m: int) -> tuple[float, float]:
    """The first model's loss in bits a byte, and the loss in nats a token at which the second is as good."""
    ...


@check("how many nats does the first model need for all of the text? And the second?")
def check_3(answer) -> None:
    for _ in range(3):
        m = random.randint(900, 2000)
        n, loss = round(m / random.uniform(1.2, 2)), random.uniform(1, 4)
        N = round(n / random.uniform(1.3, 3))
        nats = sum([loss] * n)  # for all of the text
        right = math.log2(math.exp(nats / m)), nats / N
        mistakes = {
            "That is in nats: a bit is ln 2 nats.": (nats / m, ...),
            "A nat is more than a bit, so there are more bits than nats.": (nats / m * math.log(2), ...),
            "That is a token, not a byte: the text has n tokens, and m bytes.": (loss / math.log(2), ...),
            "A byte is less than a token, so its loss is less, too.": (loss * m / n / math.log(2), ...),
            "Both need the same nats for the text, so fewer tokens have more each.": (..., loss * N / n),
            "The losses a token are not equal: the tokens of the second model are longer.": (..., loss),
        }
        names = ("the first model's loss in bits a byte", "the second model's loss in nats a token")
        answer.compare((loss, n, N, m), right, f"for {loss:.3f} nats, {n}, {N} and {m}", mistakes, names=names)


print("exercise 3:", check_3(answer_3))

# %% [markdown]
# ## 4 ★★★ Extend: merges that stay inside words
#
# The lesson merges across blanks, and gets tokens like "s the ". Most tokenizers cut a text into words first. Learn the
# first merges from a list of words, in which no pair reaches from a word into the next one. A word may come more than
# once. If pairs tie, take the smallest one, as Python compares tuples. The first merge makes token 256.


# %%
def answer_4(words: list[list[int]], count: int) -> list[tuple[int, int]]:
    """The first pairs, `count` of them, that are merged; a word is a list of bytes."""
    ...


@check("count the pairs of each word, and add up. Then merge in each word, and count afresh.")
def check_4(answer) -> None:
    for size in (3, 3, 4, 5, 3, 4):
        letters, count, words = random.sample(range(97, 123), size), 4, [[97]]
        while len({tuple(_learn(words, count, best)) for best in (min, max, next)}) < 3:  # until ties matter
            some = [random.choices(letters, k=random.randint(5, 9)) for _ in range(6)]
            words = random.choices(some, k=9) + some
        one, different = [i for word in words for i in word], [list(word) for word in dict.fromkeys(map(tuple, words))]
        counts = Counter(pair for word in words for pair in pairwise(word))
        mistakes = {
            "A pair must not reach from a word into the next one.": _learn([one], count),
            "A word that comes more than once counts more than once.": _learn(different, count),
            "If pairs tie, take the smallest one.": _learn(words, count, best=max),
            "If pairs tie, take the smallest one, not the first.": _learn(words, count, best=next),
            "Count afresh after each merge: new tokens make new pairs.": sorted(
                counts, key=lambda pair: (-counts[pair], pair)
            )[:count],
        }
        shown = " ".join("".join(map(chr, word)) for word in words)
        inputs = [list(word) for word in words], count
        answer.compare(inputs, _learn(words, count), f"for the words {shown} the list of pairs", mistakes)


print("exercise 4:", check_4(answer_4))
