# %% [markdown]
# # Exercises: a transformer, from equation (1) to equation (18)
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
# ## 1 ★ Predict: some characters never occur
#
# A fresh model gives all V characters the same logit, and its loss is log V. First it learns that some of them
# never occur in the text: their logits fall towards −∞, all others stay alike. What is its loss then?


# %%
def answer_1(V: int, never: int) -> float:
    """The loss on a text in which `never` of the V characters do not occur, and the model knows it, and no more."""
    ...


@check("how many characters share the probability 1 now?")
def check_1(answer) -> None:
    for _ in range(3):
        V = random.randint(30, 90)
        never = random.randint(2, V - 2)
        logits = tt.zeros(7, V, dtype=tt.float64)
        logits[:, :never] = -1000.0
        right = F.cross_entropy(logits, tt.randint(never, V, (7,))).item()
        mistakes = {
            "That is the loss of a fresh model.": math.log(V),
            "Is it the logarithm of the quotient V / never? How many characters are left?": math.log(V / never),
        }
        answer.compare((V, never), right, f"with V = {V}, of which {never} never occur, the loss", mistakes)


print("exercise 1:", check_1(answer_1))

# %% [markdown]
# ## 2 ★★ Find the bug: too good to be true
#
# A model learns from pairs that `answer_2` cuts from a text. Its loss falls to 0.00 within a minute, on held-out text,
# too. But what it writes is "The eeeeeeeeeeeee". What has it learned? Mend the pairs.


# %%
def answer_2(tokens: tt.Tensor, starts: tt.Tensor, C: int) -> tuple[tt.Tensor, tt.Tensor]:
    """Inputs and right tokens, (B, C) each: C tokens from each of the B starts, and what comes after each of them."""
    inputs = tokens[starts.unsqueeze(1) + tt.arange(C)]
    right = tokens[starts.unsqueeze(1) + tt.arange(C)]
    return inputs, right


@check("which token should the model say after the first input?")
def check_2(answer) -> None:
    for _ in range(3):
        C, B = random.randint(3, 6), random.randint(1, 3)
        tokens, starts = tt.randint(0, 50, (40,)), tt.randint(0, 20, (B,))
        positions = starts.unsqueeze(1) + tt.arange(C)
        inputs, right = tokens[positions].clone(), tokens[positions + 1].clone()
        mistakes = {
            "The right tokens are the inputs themselves: the model has learned to copy.": (inputs, inputs),
            "The right tokens come a whole context later; they should come one later.": (inputs, tokens[positions + C]),
            "There are C inputs, not C - 1.": (inputs[:, :-1], right[:, :-1]),
        }
        case = f"from {starts.tolist()} on, with C = {C}"
        names = ("the tensor of inputs", "the tensor of right tokens")
        answer.compare((tokens, starts, C), (inputs, right), case, mistakes, names=names)


print("exercise 2:", check_2(answer_2))

# %% [markdown]
# ## 3 ★★ Derive: the gradient of the embedding
#
# By (1), row i of Z is E[t_i] + P_i, for the tokens t_1, …, t_C. Given ∂𝓛/∂Z, what is ∂𝓛/∂E? A token may occur twice,
# or never.


# %%
def answer_3(t: list[int], dZ: tt.Tensor, V: int) -> tt.Tensor:
    """∂𝓛/∂E (V, D), for the C tokens t and ∂𝓛/∂Z (C, D), without `backward()`."""
    ...


@check("lesson 3: what happens to the gradients of a value that is used twice?")
def check_3(answer) -> None:
    for C in (3, 8):
        V, D = random.randint(4, 6), 2
        t = [random.randrange(V - 1) for _ in range(C)]
        t[-1] = t[0]  # one token occurs twice at least, and the last one of the alphabet never
        E, dZ = tt.zeros(V, D, requires_grad=True), tt.randn(C, D)
        E[tt.tensor(t)].backward(dZ)
        last = tt.stack([dZ[C - 1 - t[::-1].index(v)] if v in t else tt.zeros(D) for v in range(V)])
        counts = tt.tensor([[max(1.0, t.count(v))] for v in range(V)])
        mistakes = {
            "Where a token occurs twice only its last gradient counts: they add up.": last,
            "A gradient has the shape of its tensor, E: a row for each token of the alphabet, not for each place.": dZ,
            "Gradients of several uses are added; no mean is taken.": E.grad / counts,
        }
        answer.compare((t, dZ, V), E.grad, f"for the tokens {t} the gradient of E", mistakes)


print("exercise 3:", check_3(answer_3))

# %% [markdown]
# ## 4 ★★★ Extend: padding does not count
#
# Texts of unequal length are filled up with padding. The mean of (16) is over "counted positions": it is "best not to
# include padding". Write (12) to (16) with this mean, and the gradient with respect to the logits, without the tape.


# %%
def answer_4(L: tt.Tensor, t: tt.Tensor, counted: tt.Tensor) -> tuple[tt.Tensor, tt.Tensor]:
    """Loss and gradient (C, V), for logits L (C, V), right tokens t (C,), and counted (C,): 1 if it counts, else 0."""
    ...


@check("L.log_softmax(-1)[range(C), t] is minus (12). Which number divides the sum?")
def check_4(answer) -> None:
    for C in (4, 7, 9):
        V, N = random.randint(3, 8), random.randint(1, C // 2)
        L, t = tt.randn(C, V, requires_grad=True, dtype=tt.float64), tt.randint(0, V, (C,))
        positions = random.sample(range(C), N)
        counted = tt.tensor([1.0 if i in positions else 0.0 for i in range(C)], dtype=tt.float64)
        right = F.cross_entropy(L[positions], t[positions])
        right.backward()
        with tt.no_grad():
            everywhere, masked = (L.softmax(-1) - F.one_hot(t, V)) / N, L * counted.unsqueeze(1)
            mistakes = {
                "Divide by the number of the positions that count.": (right * N / C, ...),
                "Positions of padding have no gradient.": (..., everywhere),
                "`counted` says which positions count: not only the first.": (F.cross_entropy(L[:N], t[:N]), ...),
                "The number of counted positions is not always 3.": (right * N / 3, ...),
                "Logits of 0 have a loss, too: leave out its terms.": (F.cross_entropy(masked, t), ...),
            }
            case = f"with {N} of {C} positions counted"
            names = ("the loss", "the gradient")
            answer.compare((L.detach(), t, counted), (right.item(), L.grad), case, mistakes, names=names)


print("exercise 4:", check_4(answer_4))
