# %% [markdown]
# # Exercises: softmax and cross-entropy
#
# Write your answers in place of the dots, or mend the code, and run the file again. Each check says in one sentence
# whether an answer is right. The checks draw new numbers each time.

# %%
import math
import random

from judge import check

import tinytensor as tt
import tinytensor.nn.functional as F

# %% [markdown]
# ## 1 ★ Predict: a model that has learned to exclude
#
# After some training a model knows for each position which tokens are impossible: it gives `excluded` of the V tokens
# the logit -1000, and all others the same logit, 3. The right token is always one of the others. What is its loss?


# %%
def answer_1(V: int, excluded: int) -> float:
    """The mean loss of this model."""
    ...


@check("between how many tokens is the model undecided?")
def check_1(answer) -> None:
    V = random.randint(20, 90)
    excluded = random.randint(5, V - 6)
    L = tt.full((1, V), 3.0)
    L[0, :excluded] = -1000.0
    loss = F.cross_entropy(L, tt.tensor([V - 1])).item()
    mistakes = {
        "That is the loss of a fresh model: excluded tokens are no longer likely.": math.log(V),
        "That is the probability; the loss is minus its logarithm.": math.exp(-loss),
    }
    answer.compare((V, excluded), loss, f"with {excluded} of {V} tokens excluded the loss", mistakes)


print("exercise 1:", check_1(answer_1))

# %% [markdown]
# ## 2 ★★ Find the bug: a loss that is infinite now and then
#
# `answer_2` shifts the logits, as the lesson says, and gives the right loss for nearly every batch. But in a long
# training it is infinite some day. Find a batch of two rows for which it is, and mend the code. One place is wrong.


# %%
def answer_2(L: tt.Tensor, t: tt.Tensor) -> tt.Tensor:
    """The mean loss, eqs. (12) and (16) of document 003, for logits L (C, V) and right tokens t (C)."""
    d = L - L.max()
    losses = d.exp().sum(-1).log() - d[tt.arange(len(t)), t]  # (C,)
    return losses.mean()


@check("print d for a batch with the rows [0, 1] and [200, 201].")
def check_2(answer) -> None:
    ordinary = [(tt.randn(random.randint(2, 6), 5) * 3, "ordinary logits") for _ in range(3)]
    far = tt.randn(3, 5) + tt.tensor([[0.0], [random.uniform(150, 300)], [-random.uniform(150, 300)]])
    cases = [
        *ordinary,
        (tt.randn(2, 5) + 200, "logits around 200"),
        (far, "rows of logits that are far from each other"),
        (tt.tensor([[0.0, 0, 0, 0, 300]]), "one logit that is 300 above the others"),
    ]
    for L, name in cases:
        t = tt.randint(0, 4, (len(L),))  # never the last token, which is the most likely one in the last case
        hint = "Has a quotient become 0 before its logarithm was taken?" if "300" in name else ""
        right = F.cross_entropy(L, t).item()
        columns = F.cross_entropy(L - L.max(0).values, t).item()
        mistakes = {
            "That is the sum, not the mean.": right * len(L),
            "All logits of a row are shifted by the same number: each column has one of its own.": columns,
        }
        answer.compare((L, t), right, f"for {name} the loss", mistakes, hint=hint)


print("exercise 2:", check_2(answer_2))

# %% [markdown]
# ## 3 ★★ Derive: the gradient of the mean loss
#
# What is the gradient of the mean loss, eq. (16), with respect to the logits L (C, V), for C right tokens t?


# %%
def answer_3(L: tt.Tensor, t: tt.Tensor) -> tt.Tensor:
    """The gradient of cross_entropy(L, t) with respect to L, (C, V), without the tape."""
    ...


@check("the lesson has the gradient of one row's loss. What does the mean change?")
def check_3(answer) -> None:
    for scale in (1.0, 200.0):
        C, V = random.randint(2, 6), random.randint(2, 6)
        L, t = tt.randn(C, V) * scale, tt.randint(0, V, (C,))
        L[0, 0] = scale  # whose exponential, for 200, is infinite
        L.requires_grad_()
        F.cross_entropy(L, t).backward()
        answer.compare((L.detach(), t), L.grad, f"for {C} rows with logits around {scale:.0f} the gradient")


print("exercise 3:", check_3(answer_3))

# %% [markdown]
# ## 4 ★★★ Extend: the sum in one pass
#
# A row of logits may be too long for the fast memory: it comes in pieces, and each piece is gone when the next one
# comes. So the largest logit is unknown until the end. Compute log Σ exp L_k nevertheless, in one pass, without
# overflow. (Fast attention kernels do this.)


# %%
def answer_4(pieces) -> float:
    """The logarithm of the sum of exp(x), over all x of all pieces; `pieces` yields lists of float."""
    ...


@check("when a larger logit comes, what happens to the sum of exp(x - largest) so far?")
def check_4(answer) -> None:
    for case in ("falling", "rising", "shuffled", "shuffled"):
        logits = [random.uniform(*between) for between in [(-900, -700), (-700, 700), (700, 900)] for _ in range(4)]
        logits += [max(logits) - random.uniform(0, 1) for _ in range(4)]  # that matter beside the largest
        order = {"falling": lambda x: -x, "rising": lambda x: x, "shuffled": lambda x: random.random()}[case]
        logits = sorted(logits, key=order)
        largest = max(logits)
        right = largest + math.log(sum(math.exp(x - largest) for x in logits))
        mistakes = {
            "Each piece is emptied when the next one is asked for: use it at once.": 0.0,
            "That is the largest logit alone: the others count, too.": largest,
        }
        hint = "For falling logits it was right: the sum so far must shrink when a larger one comes."
        hint = "" if case == "falling" else hint
        pieces = piece_by_piece(logits)
        answer.compare(
            (pieces,), right, f"for pieces with {case} logits the result", mistakes, tolerance=1e-8, hint=hint
        )


def piece_by_piece(logits: list):
    """The logits in lists of some numbers, each of which is emptied when the next is asked for."""
    while logits:
        size = random.randint(1, 4)
        piece, logits = logits[:size], logits[size:]
        yield piece
        piece.clear()


print("exercise 4:", check_4(answer_4))
