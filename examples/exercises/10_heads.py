# %% [markdown]
# # Exercises: heads
#
# Write your answers in place of the dots, or mend the code, and run the file again. Each check says in one sentence
# whether an answer is right. The checks draw new numbers each time.

# %%
import math
import random

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


def check_1(answer) -> str:
    for H in (1, random.choice((2, 3)), random.choice((4, 5))):
        D = H * random.randint(3, 8)
        given = answer(D, H)
        right = sum(p.numel() for p in nn.MultiheadAttention(D, H).parameters())
        if given is None:
            return "not solved yet. Hint: W_q of one head is (D, K). What is H times this? And which shape has W?"
        if given != right:
            return f"wrong: for D = {D} and H = {H} it is {right}, not {given}."
    return "right"


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


def check_2(answer) -> str:
    H, n, K = random.sample(range(2, 6), 3)
    # The number 123 stands for word 1, head 2, component 3.
    Q = tt.tensor([[100.0 * i + 10 * h + k for h in range(H) for k in range(K)] for i in range(n)])
    given = answer(Q, H)
    if given is None:
        return "not solved yet. Hint: print Q, whose numbers say where they belong: word, head, component."
    if given.shape != (H, n, K):
        return f"wrong: the shape should be {(H, n, K)}, and is {tuple(given.shape)}."
    for h in range(H):
        for i in range(n):
            for k in range(K):
                found = int(given[h, i, k].item())
                if found != 100 * i + 10 * h + k:
                    where = f"component {found % 10} of head {found // 10 % 10} of word {found // 100}"
                    return f"wrong: at head {h}, word {i}, component {k} you have {where}."
    return "right"


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


def check_3(answer) -> str:
    for n, H in (
        (random.randint(3, 7), 1),
        (random.randint(4, 7), random.randint(2, 3)),
        (4, 4),
        (2, random.randint(3, 5)),
    ):
        heads = (2 * tt.randn(H, n, dtype=tt.float64)).softmax(-1)  # some weights, in rows
        used = heads[: min(H, n)]  # more than n averages of n numbers are no news
        # Of the numbers x only used @ x is known. The best guess is P x, where P projects on the rows of `used`.
        P = used.mT @ tt.linalg.inv(used @ used.mT) @ used
        left = ((tt.eye(n, dtype=tt.float64) - P) ** 2).sum().item() / n
        given = answer(n, H)
        if given is None:
            return "not solved yet. Hint: H averages are H equations. For how many numbers are they enough?"
        if abs(given - left) > 1e-6:
            return f"wrong: for n = {n} and H = {H}, {left:.4f} is left, not {given:.4f}."
    return "right"


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


def check_4(answer) -> str:
    for G, share in ((1, random.randint(2, 4)), (random.randint(2, 4), 1), (2, 3), (3, 2)):
        n, d = random.randint(3, 6), random.randint(2, 5)
        Q, K, V = (tt.randn(heads, n, d) for heads in (G * share, G, G))
        given = answer(Q, K, V)
        if given is None:
            return "not solved yet. Hint: give the heads of a group a dimension of their own, or repeat the groups."
        if tuple(given.shape) != tuple(Q.shape):
            return f"wrong: the shape should be {tuple(Q.shape)}, as that of Q, and is {tuple(given.shape)}."
        for head in range(G * share):
            group = head // share
            right = (Q[head] @ K[group].mT / math.sqrt(d)).softmax(-1) @ V[group]
            if (given[head] - right).abs().max().item() > 1e-5:
                return f"wrong: of {G * share} heads in {G} groups, head {head} (group {group}) has another result."
    return "right"


print("exercise 4:", check_4(answer_4))
