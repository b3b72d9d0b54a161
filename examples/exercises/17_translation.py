# %% [markdown]
# # Exercises: je suis étudiant
#
# Write your answers in place of the dots, or mend the code, and run the file again. Each check says in one sentence
# whether an answer is right. The checks draw new numbers each time.

# %%
import itertools
import math
import random

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


def check_1(answer) -> str:
    n = random.randint(3, 30)
    given = answer(n)
    if given is None:
        return "not solved yet. Hint: ∅ alone gives the first word. What is given to the decoder for the last one?"
    words, without, with_cache = [BEGIN], 0, 0
    while len(words) <= n:  # a round for each word that is written
        without += len(words)
        with_cache += 1
        words.append(STOP if len(words) == n else 7)
    if tuple(given) != (without, with_cache):
        return f"wrong: {n} words take {without} rows without the cache and {with_cache} with it, not {given}."
    return "right"


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


def check_2(answer) -> str:
    n = random.randint(3, 6)
    lengths = [n, random.randint(1, n - 1)]
    said = [[random.randint(3, 99) for _ in range(length - 1)] for length in lengths]
    outputs = tt.tensor([[*row, STOP, *[PAD] * (n - length)] for row, length in zip(said, lengths)])
    right = [[BEGIN, *row.tolist()[:-1]] for row in outputs]
    if (given := answer(outputs)) is None:
        return "not solved yet. Hint: print what becomes of the first place of a row."
    if given.tolist() == outputs.tolist():
        return "wrong: nothing is shifted, so the decoder sees at each place the very word that it has to say."
    if given.tolist() != right:
        return f"wrong: {outputs.tolist()} became {given.tolist()}, not {right}."
    return "right"


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


def check_3(answer) -> str:
    V, n = 5, 4
    logits = tt.randn(2, n, V, dtype=tt.float64)
    outputs = tt.tensor([[random.randint(3, V - 1), random.randint(3, V - 1), 3, STOP], [4, STOP, PAD, PAD]])
    given = answer(logits, outputs)
    if given is None:
        return "not solved yet. Hint: P is a product of conditional probabilities. What is its logarithm?"
    if tuple(given.shape) != (2,):
        return f"wrong: two sentences have two probabilities; the shape is (2,), not {tuple(given.shape)}."
    for row in range(2):
        right = 0.0
        for place, word in enumerate(outputs[row].tolist()):
            if word != PAD:
                numbers = logits[row, place].tolist()
                right += numbers[word] - math.log(sum(map(math.exp, numbers)))
        if abs(given[row].item() - right) > 1e-9:
            return f"wrong: ln P of {outputs[row].tolist()} is {right:.4f}, not {given[row].item():.4f}."
    return "right"


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


def check_4(answer) -> str:
    V, length = 4, 3
    while True:  # until a beam of 2 finds what greedy search misses, and misses what the whole search finds
        table = {
            words: tt.randn(V, dtype=tt.float64).mul(2).log_softmax(0).tolist()
            for n in range(length)
            for words in itertools.product(range(V), repeat=n)
        }
        found = {beam: _search(table, beam, length) for beam in (1, 2, V**length)}
        last = max(itertools.product(range(V), repeat=length), key=lambda words: table[words[:-1]][words[-1]])
        if len({tuple(words) for words in found.values()} | {last}) == 4:  # and the likeliest last word misleads
            break
    for beam, right in found.items():
        given = answer(lambda words: table[tuple(words)], beam, length)
        if given is None:
            return "not solved yet. Hint: keep pairs (ln P, words), and begin with (0.0, [])."
        if list(given) != right:
            return f"wrong: with a beam of {beam} the search should find {right}, not {list(given)}."
    return "right"


def _search(table: dict, beam: int, length: int) -> list[int]:
    """Beam search over a table: all sequences of n words whose beginnings were kept, sorted, and cut off."""
    kept = {(): 0.0}
    for _ in range(length):
        longer = {(*words, i): p + q for words, p in kept.items() for i, q in enumerate(table[words])}
        kept = dict(sorted(longer.items(), key=lambda item: -item[1])[:beam])
    return list(next(iter(kept)))


print("exercise 4:", check_4(answer_4))
