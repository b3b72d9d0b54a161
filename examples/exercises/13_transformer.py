# %% [markdown]
# # Exercises: a transformer, from equation (1) to equation (18)
#
# Write your answers in place of the dots, or mend the code, and run the file again. Each check says in one sentence
# whether an answer is right. The checks draw new numbers each time.

# %%
import random

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


def check_1(answer) -> str:
    for _ in range(3):
        V = random.randint(30, 90)
        never = random.randint(1, V - 2)
        logits = tt.zeros(7, V, dtype=tt.float64)
        logits[:, :never] = -1000.0
        right = F.cross_entropy(logits, tt.randint(never, V, (7,))).item()
        given = answer(V, never)
        if given is None:
            return "not solved yet. Hint: how many characters share the probability 1 now?"
        if abs(given - right) > 1e-9:
            return f"wrong: with V = {V}, of which {never} never occur, the loss is {right:.4f}, not {given:.4f}."
    return "right"


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


def check_2(answer) -> str:
    for _ in range(3):
        C, B = random.randint(3, 6), random.randint(1, 3)
        tokens, starts = tt.randint(0, 50, (40,)), tt.randint(0, 20, (B,))
        inputs, right = answer(tokens, starts, C)
        for given in (inputs, right):
            if given.shape != (B, C):
                return f"wrong: the shape of inputs and of right tokens is ({B}, {C}), and not {tuple(given.shape)}."
        text = tokens.tolist()
        for b, start in enumerate(starts.tolist()):
            if inputs[b].tolist() != text[start : start + C]:
                return f"wrong: the inputs from {start} on are {text[start : start + C]}, not {inputs[b].tolist()}."
            if right[b].tolist() != text[start + 1 : start + C + 1]:
                after = text[start + 1 : start + C + 1]
                return f"wrong: after the inputs {inputs[b].tolist()} should come {after}, not {right[b].tolist()}."
    return "right"


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


def check_3(answer) -> str:
    for C in (3, 8):
        V, D = random.randint(4, 6), 2
        t = [random.randrange(V - 1) for _ in range(C)]
        t[-1] = t[0]  # one token occurs twice at least, and the last one of the alphabet never
        E, dZ = tt.zeros(V, D, requires_grad=True), tt.randn(C, D)
        E[tt.tensor(t)].backward(dZ)
        given = answer(t, dZ, V)
        if given is None:
            return "not solved yet. Hint: lesson 3: what happens to the gradients of a value that is used twice?"
        if given.shape != (V, D):
            return f"wrong: a gradient has the shape of its tensor, ({V}, {D}), and not {tuple(given.shape)}."
        off = (given - E.grad).abs().amax(1).tolist()
        if max(off) > 1e-5:
            token = off.index(max(off))
            return f"wrong: row {token} is off by {max(off):.2g}; token {token} occurs {t.count(token)} times in {t}."
    return "right"


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


def check_4(answer) -> str:
    for C in (4, 7, 9):
        V, N = random.randint(3, 8), random.randint(1, C - 1)
        L, t = tt.randn(C, V, requires_grad=True, dtype=tt.float64), tt.randint(0, V, (C,))
        places = random.sample(range(C), N)
        counted = tt.tensor([1.0 if i in places else 0.0 for i in range(C)], dtype=tt.float64)
        right = F.cross_entropy(L[places], t[places])
        right.backward()
        with tt.no_grad():
            given = answer(L.detach(), t, counted)
        if given is None:
            return "not solved yet. Hint: L.log_softmax(-1)[range(C), t] is minus (12). Which number divides the sum?"
        loss, gradient = given
        if abs(loss.item() - right.item()) > 1e-9:
            return f"wrong: with {N} of {C} positions counted the loss is {right.item():.4f}, not {loss.item():.4f}."
        if (off := (gradient - L.grad).abs().max().item()) > 1e-9:
            return f"wrong: the loss is right, but an entry of the gradient is off by {off:.4f}."
    return "right"


print("exercise 4:", check_4(answer_4))
