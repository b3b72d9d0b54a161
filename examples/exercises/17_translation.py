# %% [markdown]
# # Exercises: je suis étudiant
#
# Write your answers in place of the dots, or mend the code, and run the file again. Each check says in one sentence
# whether an answer is right. The checks draw new numbers each time.

# %%
import itertools
import math
import random

from judge import check

import tinytensor as tt

PAD, BEGIN, STOP = 0, 1, 2  # numbers of the first words: filling, ∅ and <stop>

# %% [markdown]
# ## 1 ★ Predict: how many rows are computed?
#
# A sentence of n words, <stop> included, is written word by word. Without a cache the decoder computes in each round a
# row for ∅ and each word so far. With the mask earlier rows stay, so a cache can keep them. How many rows are computed
# in all, without the cache and with it?


# %%
def answer_1(n: int) -> tuple[int, int]:
    """The number of rows without the cache, and with it."""
    ...


@check("∅ alone gives the first word. What is given to the decoder for the last one?")
def check_1(answer) -> None:
    n = random.randint(3, 30)
    words, without, with_cache = [BEGIN], 0, 0
    while len(words) <= n:  # a round for each word that is written
        without += len(words)
        with_cache += 1
        words.append(STOP if len(words) == n else 7)
    mistakes = {
        "Round k gives the decoder k rows, not n.": (n * n, ...),
        "∅ is given to the decoder, too: each round has a row more.": (without - n, ...),
    }
    names = ("the number of rows without the cache", "the number with it")
    answer.compare((n,), (without, with_cache), f"for {n} words", mistakes, names=names)


print("exercise 1:", check_1(answer_1))

# %% [markdown]
# ## 2 ★ Find the bug: the shift
#
# In training the decoder is given the outputs shifted to the right: ∅ in front, the last place dropped. Without the
# shift it is shown each word that it has to say: the loss is soon 0, and the model translates nothing. This shift has a
# fault. Mend it.


# %%
def answer_2(outputs):
    """The decoder's input for outputs (B, n), which end with STOP and are filled up with PAD."""
    return outputs.roll(1, 1)


@check("print what becomes of the first place of a row.")
def check_2(answer) -> None:
    n = random.randint(3, 6)
    lengths = [n, random.randint(1, n - 1)]
    said = [[random.randint(3, 99) for _ in range(length - 1)] for length in lengths]
    outputs = tt.tensor([[*row, STOP, *[PAD] * (n - length)] for row, length in zip(said, lengths)])
    right = tt.tensor([[BEGIN, *row.tolist()[:-1]] for row in outputs])
    mistakes = {
        "Nothing is shifted, so the decoder sees at each place the very word that it has to say.": outputs.clone(),
        "The last place of a row has come to its front, where ∅ must stand.": outputs.roll(1, 1),
        "The last place has to be dropped.": tt.cat([right, outputs[:, -1:]], dim=1),
        "This is a shift to the left: the decoder sees words before it has to say them.": tt.cat(
            [outputs[:, 1:], 0 * outputs[:, :1]], dim=1
        ),
    }
    answer.compare((outputs,), right, f"for the outputs {outputs.tolist()} the input", mistakes)


print("exercise 2:", check_2(answer_2))

# %% [markdown]
# ## 3 ★★ Derive: the probability of a sentence
#
# The decoder says how likely each next word is, given the words before it. Derive from its logits the logarithm of the
# probability of a whole sentence, up to and including <stop>. The places behind <stop> hold PAD, and do not count.


# %%
def answer_3(logits, outputs):
    """ln P of each sentence (B,), for logits (B, n, V) and the right words (B, n)."""
    ...


@check("P is a product of conditional probabilities. What is its logarithm?")
def check_3(answer) -> None:
    V, n = 5, 4
    logits = tt.randn(2, n, V, dtype=tt.float64)
    outputs = tt.tensor([[random.randint(3, V - 1), random.randint(3, V - 1), 3, STOP], [4, STOP, PAD, PAD]])
    each = tt.zeros(2, n, dtype=tt.float64)
    for row, words in enumerate(outputs.tolist()):
        for position, word in enumerate(words):
            numbers = logits[row, position].tolist()
            each[row, position] = numbers[word] - math.log(sum(map(math.exp, numbers)))
    real = (outputs != PAD).double()
    right = (each * real).sum(1)
    mistakes = {
        "The places behind <stop> hold PAD, and do not count.": each.sum(1),
        "ln P is a sum over the words, not their mean.": right / real.sum(1),
        "<stop> counts, too: the sentence has to end.": (each * real * (outputs != STOP)).sum(1),
        "Probabilities are multiplied: the logarithm of a sum of them is no sum of logarithms.": (each.exp() * real)
        .sum(1)
        .log(),
        "Each sentence has its own probability: there are two.": right.sum(),
    }
    answer.compare((logits, outputs), right, f"ln P of {outputs.tolist()}", mistakes)


print("exercise 3:", check_3(answer_3))

# %% [markdown]
# ## 4 ★★★ Extend: look at more than one beginning
#
# The lesson's `decode` always takes the likeliest next word. But a likely first word can lead to unlikely ones. A beam
# search keeps the `beam` likeliest beginnings: it continues each of them with every word, and again keeps the `beam`
# likeliest of all results. Write it, for sentences of a given length.


# %%
def answer_4(log_p, beam: int, length: int) -> list[int]:
    """The likeliest sentence found; `log_p(words)` lists ln P of each next word, numbered from 0, after `words`."""
    ...


@check("keep pairs (ln P, words), and begin with (0.0, []).")
def check_4(answer) -> None:
    V, length = 4, 3
    while True:  # until a beam of 2 finds what greedy search misses, and misses what the whole search finds
        table = {
            words: tt.randn(V, dtype=tt.float64).mul(2).log_softmax(0).tolist()
            for n in range(length)
            for words in itertools.product(range(V), repeat=n)
        }
        two = {words: [x if x >= sorted(row)[-2] else -1e9 for x in row] for words, row in table.items()}
        greedy, right, whole = (_search(table, beam, length) for beam in (1, 2, V**length))
        last, least, each = _search(table, 2, length, memory=0), _search(table, 2, length, -1), _search(two, 99, length)
        if right not in (greedy, whole, last, each) and greedy != whole:  # and other searches mislead
            break
    mistakes = {
        "That is what a beam of 1 finds: is more than one beginning kept?": greedy,
        "That is the likeliest sentence of all: only `beam` beginnings should be kept in all.": whole,
        "The last word alone is likely: add up ln P of all words.": last,
        "Keep `beam` results in all, not `beam` of each beginning.": each,
        "That is the least likely one: sort the other way round.": least,
    }
    for beam, best in ((2, right), (1, greedy), (V**length, whole)):
        case = f"with a beam of {beam} the sentence"
        answer.compare((lambda words: list(table[tuple(words)]), beam, length), best, case, mistakes)


def _search(table: dict, beam: int, length: int, sign: int = 1, memory: int = 1) -> list[int]:
    """Beam search over a table; sign = -1 finds unlikely words, memory = 0 forgets how likely the first words were."""
    kept = {(): 0.0}
    for _ in range(length):
        longer = {(*words, i): memory * p + q for words, p in kept.items() for i, q in enumerate(table[words])}
        kept = dict(sorted(longer.items(), key=lambda item: -sign * item[1])[:beam])
    return list(next(iter(kept)))


print("exercise 4:", check_4(answer_4))
