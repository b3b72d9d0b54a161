# %% [markdown]
# # Exercises: softmax and cross-entropy
#
# Write your answers in place of the dots, or mend the code, and run the file again. Each check says in one sentence
# whether an answer is right. The checks draw new numbers each time.

# %%
import math
import random

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


def check_1(answer) -> str:
    V = random.randint(20, 90)
    excluded = random.randint(5, V - 6)
    L = tt.full((1, V), 3.0)
    L[0, :excluded] = -1000.0
    given, loss = answer(V, excluded), F.cross_entropy(L, tt.tensor([V - 1])).item()
    if given is None:
        return "not solved yet. Hint: between how many tokens is the model undecided?"
    if abs(given - loss) > 1e-4:
        return f"wrong: with {excluded} of {V} tokens excluded the loss is {loss:.4f}, not {given:.4f}."
    return "right"


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


def check_2(answer) -> str:
    ordinary = [(tt.randn(random.randint(2, 6), 5) * 3, "ordinary logits") for _ in range(3)]
    far = tt.randn(3, 5) + tt.tensor([[0.0], [random.uniform(150, 300)], [-random.uniform(150, 300)]])
    cases = [
        *ordinary,
        (tt.randn(2, 5) + 200, "logits around 200"),
        (far, "rows of logits that are far from each other"),
    ]
    cases.append((tt.tensor([[0.0, 0, 0, 0, 300]]), "one logit that is 300 above the others"))
    for L, name in cases:
        t = tt.randint(0, 5, (len(L),))
        given, right = answer(L, t), F.cross_entropy(L, t).item()
        if given is None:
            return "not solved yet. Hint: print d for a batch with the rows [0, 1] and [200, 201]."
        if not abs(given.item() - right) < 1e-3:
            return f"wrong: for {name} the loss is {right:.4f}, not {given.item():.4f}."
    return "right"


print("exercise 2:", check_2(answer_2))

# %% [markdown]
# ## 3 ★★ Derive: the gradient of the mean loss
#
# What is the gradient of the mean loss, eq. (16), with respect to the logits L (C, V), for C right tokens t?


# %%
def answer_3(L: tt.Tensor, t: tt.Tensor) -> tt.Tensor:
    """The gradient of cross_entropy(L, t) with respect to L, (C, V), without the tape."""
    ...


def check_3(answer) -> str:
    for scale in (1.0, 200.0):
        C, V = random.randint(2, 6), random.randint(2, 6)
        L, t = tt.randn(C, V) * scale, tt.randint(0, V, (C,))
        L[0, 0] = scale  # whose exponential, for 200, is infinite
        L.requires_grad_()
        given = answer(L.detach(), t)
        if given is None:
            return "not solved yet. Hint: the lesson has the gradient of one row's loss. What does the mean change?"
        F.cross_entropy(L, t).backward()
        if not (given - L.grad).abs().max().item() < 1e-5:
            row, yours = ([round(x, 4) for x in rows[0].tolist()] for rows in (L.grad, given))
            return f"wrong: for {C} rows with logits around {scale:.0f} the tape has {row} in the first, you {yours}."
    return "right"


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


def check_4(answer) -> str:
    for case in ("falling", "rising", "shuffled", "shuffled"):
        logits = [random.uniform(-900, 900) for _ in range(12)]
        logits += [max(logits) - random.uniform(0, 1) for _ in range(4)]  # that matter beside the largest
        order = {"falling": lambda x: -x, "rising": lambda x: x, "shuffled": lambda x: random.random()}[case]
        logits = sorted(logits, key=order)
        largest = max(logits)
        right = largest + math.log(sum(math.exp(x - largest) for x in logits))
        try:
            given = answer(piece_by_piece(logits))
        except (OverflowError, ValueError) as error:
            return f"wrong: for pieces with {case} logits between -900 and 900, Python says: {error}."
        if given is None:
            return (
                "not solved yet. Hint: when a larger logit comes, what happens to the sum of exp(x - largest) so far?"
            )
        if not abs(given - right) < 1e-6:
            return f"wrong: for pieces with {case} logits the result should be {right:.4f}, and you give {given:.4f}."
    return "right"


def piece_by_piece(logits: list):
    """The logits in lists of some numbers, each of which is emptied when the next is asked for."""
    while logits:
        size = random.randint(1, 4)
        piece, logits = logits[:size], logits[size:]
        yield piece
        piece.clear()


print("exercise 4:", check_4(answer_4))
