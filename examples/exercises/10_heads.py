# %% [markdown]
# # Exercises: heads
#
# Write your answers in place of the dots, or mend the code, and run the file again. Each check says in one sentence
# whether an answer is right. The checks draw new numbers each time.

# %%
import math
import random

from judge import check

import tinytensor as tt
from tinytensor import nn

# %% [markdown]
# ## 1 ★ Predict: the numbers in a layer of attention
#
# A layer of attention has a model width D, H heads of width K = D / H, and biases: one number for each output of W_q,
# W_k, W_v (of all heads) and W. How many numbers does it learn?


# %%
def answer_1(D: int, H: int) -> int:
    """The number of all weights and biases."""
    ...


@check("W_q of one head is (D, K). What is H times this? And which shape has W?")
def check_1(answer) -> None:
    for H in (random.choice((2, 3)), random.choice((4, 5)), 1):
        D = H * random.randint(3, 8)
        right, K = sum(p.numel() for p in nn.MultiheadAttention(D, H).parameters()), D // H
        mistakes = {
            "These are the weights alone: each output has a bias.": right - 4 * D,
            "The W_q of a head has the width K, not D.": 3 * H * (D * D + D) + D * D + D,
            "These are W_q, W_k, W_v of one head; there are H.": 3 * (D * K + K) + D * D + D,
            "W has D outputs, and so D biases.": right - D,
        }
        answer.compare((D, H), right, f"for D = {D} and H = {H} the number", mistakes)


print("exercise 1:", check_1(answer_1))

# %% [markdown]
# ## 2 ★★ Find the bug: the heads of a matrix
#
# One product X W_q with the matrices of all heads side by side gives Q (n, D): for each word K numbers of head 1, K
# numbers of head 2, and so on. `answer_2` makes (H, n, K) of it, one matrix for each head. The shape is right, no error
# is raised, and a model with it even trains, but badly. Mend it.


# %%
def answer_2(Q: tt.Tensor, H: int) -> tt.Tensor:
    """The queries of each head, (H, n, K), of Q (n, H K)."""
    return Q.reshape(H, Q.shape[0], -1)


@check("print Q, whose numbers say where they belong: word, head, component.")
def check_2(answer) -> None:
    H, n, K = random.sample(range(2, 6), 3)
    # The number 123 stands for word 1, head 2, component 3.
    right = tt.tensor([[[100.0 * i + 10 * h + k for k in range(K)] for i in range(n)] for h in range(H)])
    Q = right.transpose(0, 1).reshape(n, H * K)
    mistakes = {
        "The numbers are cut as they stand in memory, so a head gets those of whole words.": Q.reshape(H, n, K),
        "The K numbers of a head stand side by side in Q, not H apart.": Q.reshape(n, K, H).permute(2, 0, 1),
        "The dimension of heads comes first.": right.transpose(0, 1),
        "The transposed Q was cut: its rows are no words.": Q.mT.reshape(H, n, K),
    }
    answer.compare((Q, H), right, f"for H, n, K = {H}, {n}, {K} the result", mistakes)


print("exercise 2:", check_2(answer_2))

# %% [markdown]
# ## 3 ★★ Derive: n numbers from H heads
#
# The task of the lesson with n flags: return n numbers, which are independent and have variance 1, from the averages of
# H heads. W_o is the best there is. Which mean squared error is left for H different averages? (The lesson has n = 2
# with H = 1 and 2. It may help to show for one head that the errors of all n numbers sum to n - 1.)


# %%
def answer_3(n: int, H: int) -> float:
    """The mean, over the n numbers, of the squared error that is left."""
    ...


@check("H averages are H equations. For how many numbers are they enough?")
def check_3(answer) -> None:
    for n, H in (
        (random.randint(4, 7), random.randint(2, 3)),
        (random.randint(3, 7), 1),
        (2, random.randint(3, 5)),
        (4, 4),
    ):
        heads = (2 * tt.randn(H, n, dtype=tt.float64)).softmax(-1)  # some weights, in rows
        used = heads[: min(H, n)]  # more than n averages of n numbers are no news
        # Of the numbers x only used @ x is known. The best guess is P x, where P projects on the rows of `used`.
        P = used.mT @ tt.linalg.inv(used @ used.mT) @ used
        left = round(((tt.eye(n, dtype=tt.float64) - P) ** 2).sum().item() / n, 12)
        mistakes = {
            "That is the lesson's table for n = 2.": 0.5 if H == 1 else 0.0,
            "The more numbers there are, the more is lost: n matters.": 1 / (H + 1),
            "That is what is left with one head.": (n - 1) / n,
            "An error that is squared is never below 0.": (n - H) / n,
        }
        answer.compare((n, H), left, f"for n = {n} and H = {H} what is left", mistakes)


print("exercise 3:", check_3(answer_3))

# %% [markdown]
# ## 4 ★★★ Extend: heads that share their keys and values
#
# Keys and values of all words are kept while a model writes, and take much memory. So in many models some heads share
# them: H heads have queries of their own, but there are only G keys and values. The first H / G heads use those of
# group 0, the next H / G those of group 1, and so on. Compute the results of all heads.


# %%
def answer_4(Q: tt.Tensor, K: tt.Tensor, V: tt.Tensor) -> tt.Tensor:
    """Y (H, n, d) of the queries Q (H, n, d), keys K (G, n, d) and values V (G, n, d); no mask."""
    ...


@check("give the heads of a group a dimension of their own, or repeat the groups.")
def check_4(answer) -> None:
    for G, share in ((2, 3), (3, 2), (1, random.randint(2, 4)), (random.randint(2, 4), 1)):
        n, d = random.randint(3, 6), random.randint(2, 5)
        Q, K, V = (tt.randn(heads, n, d) for heads in (G * share, G, G))

        def heads(groups, divisor, Q=Q, K=K, V=V):
            return tt.stack([(q @ K[group].mT / divisor).softmax(-1) @ V[group] for q, group in zip(Q, groups)])

        groups, root = [head // share for head in range(G * share)], math.sqrt(d)
        in_turn = [head % G for head in range(G * share)]
        mistakes = {
            "The first heads share group 0; you give the groups to the heads in turn.": heads(in_turn, root),
            "All heads use the keys and values of group 0.": heads([0] * len(groups), root),
            "There is one result for each group: each head has its own.": heads(range(G), root),
            "The scores are not divided by √d.": heads(groups, 1),
            "The width of a head is d, not that of all heads.": heads(groups, root * math.sqrt(G * share)),
        }
        answer.compare((Q, K, V), heads(groups, root), f"for {G * share} heads in {G} groups the result", mistakes)


print("exercise 4:", check_4(answer_4))
