# %% [markdown]
# # Exercises: embeddings
#
# Write your answers in place of the dots, or mend the code, and run the file again. Each check says in one sentence
# whether an answer is right. The checks draw new numbers each time.

# %%
import math
import random

from judge import check, compare

import tinytensor as tt
import tinytensor.nn.functional as F


def numbers(*shape: int) -> tt.Tensor:
    return tt.randn(*shape, dtype=tt.float64)


# %% [markdown]
# ## 1 ★ Predict: rows with a gradient
#
# A model with V tokens reads a text and guesses its next tokens, with one step of training. How many rows of its table
# E have a gradient that is not 0, if O is another table, and how many if O is Eᵀ? The model reads each token of `t`.


# %%
def answer_1(t: list[int], V: int) -> tuple[int, int]:
    """The number of rows of E with a gradient: with two tables, and with one table at both ends."""
    ...


@check("which rows does E[t] read? And which logits does a softmax move?")
def check_1(answer) -> None:
    for _ in range(3):
        V, n = random.randint(20, 40), random.randint(5, 9)
        t = [random.randrange(V) for _ in range(n)]
        t.append(t[0])  # one token occurs twice at least
        counts = []
        for tied in (False, True):
            E, O = numbers(V, 3).requires_grad_(), numbers(3, V)
            F.cross_entropy(E[t] @ (E.T if tied else O), tt.tensor(t[1:] + t[:1])).backward()
            counts.append((E.grad != 0).any(-1).sum().item())
        mistakes = {
            "A token that occurs twice reads the same row twice.": (len(t), ...),
            "Rows that no token reads have a gradient of 0.": (V, ...),
            "All logits stand in the softmax, and each of them has a row of E.": (..., counts[0]),
            "As the O of (11) all rows count, but there are no more than V.": (..., V + counts[0]),
        }
        names = ("the number of rows with two tables", "that with one table")
        answer.compare((t, V), tuple(counts), f"for the tokens {t} and V = {V}", mistakes, names=names)


print("exercise 1:", check_1(answer_1))

# %% [markdown]
# ## 2 ★★ Find the bug: a fresh model that is sure
#
# A model has one table at both ends, whose entries are about 1/√D. `answer_2` is all of it but its layers. The loss of
# a fresh model should be near log V, and is far above. And there is a second bug, which only the gradient of E shows.


# %%
def answer_2(E: tt.Tensor, t: tt.Tensor, P: tt.Tensor, layers) -> tt.Tensor:
    """The logits (n, V) for the tokens t (n,): layers(√D E[t] + P) times Eᵀ, for E (V, D) and P (n, D)."""
    E = E * math.sqrt(E.shape[1])
    Z = layers(E[t] + P)
    return Z @ E.detach().T


@check("where is the factor √D wanted, and where not? And what does detach() do to a gradient?")
def check_2(answer) -> None:
    for V, D, n in ((7, 4, 3), (random.randint(5, 9), random.randint(5, 9), 4)):
        table, P, W = numbers(V, D) / math.sqrt(D), numbers(n, D), numbers(D, D) / math.sqrt(D)
        t, root, g = tt.randint(0, V, (n,)), math.sqrt(D), numbers(n, V)

        def result(first, at_end, cut=False, table=table, P=P, W=W, t=t, g=g):
            """Logits, and the gradient of E when g arrives, with a factor at each end."""
            E = table.clone().requires_grad_()
            L = ((first * E[t] + P) @ W).tanh() @ (at_end * (E.detach() if cut else E)).T
            L.backward(g)
            return L.detach(), E.grad

        right, cut = result(root, 1), result(root, 1, cut=True)
        values = {
            "√D is wanted on the way in, and not at the end.": result(root, root),
            "The factor √D is missing on the way in.": result(1, 1),
            "√D is wanted on the way in, and you have it at the end.": result(1, root),
            "Divide by √D? The entries of E are 1/√D already.": result(1 / root, 1),
        }
        E = table.clone().requires_grad_()
        L = answer(E, t, P, lambda Z, W=W: (Z @ W).tanh())
        compare(L, right[0], "the tensor of logits", {said: value[0] for said, value in values.items()})
        if not L.requires_grad:
            L = L + 0 * E.sum()  # then there is no gradient, and all of it is 0
        L.backward(g)
        mistakes = {
            "What comes from the end is missing: E is off the tape there.": cut[1],
            "What comes from the beginning is missing: E[t] is off the tape.": right[1] - cut[1],
            "E is off the tape at both ends.": 0 * table,
        }
        compare(E.grad, right[1], "the gradient of E", mistakes)


print("exercise 2:", check_2(answer_2))

# %% [markdown]
# ## 3 ★★ Derive: the gradient of a table with two jobs
#
# Take a model without layers and with one table: its logits for the tokens t_1, ..., t_n are L = E[t] Eᵀ. Given the
# gradient g of L, what is that of E? Lesson 8 has the gradients of a product.


# %%
def answer_3(E: tt.Tensor, t: tt.Tensor, g: tt.Tensor) -> tt.Tensor:
    """The gradient of E (V, D), for the tokens t (n,) and the gradient g (n, V) of the logits, without the tape."""
    ...


@check("call the two uses X = E[t] and O = Eᵀ. What arrives at each of them, and in which rows of E?")
def check_3(answer) -> None:
    for V, D, n in ((4, 3, 3), (random.randint(4, 6), 2, 6), (5, 5, 5)):
        E, t, g = numbers(V, D).requires_grad_(), tt.randint(0, V, (n,)), numbers(n, V)
        t[-1] = t[0]  # a token that occurs twice
        (E[t] @ E.T).backward(g)
        (end,) = tt.autograd.grad(E.detach()[t] @ E.T, E, g)
        (begin,) = tt.autograd.grad(E[t] @ E.detach().T, E, g)
        last = end.clone()
        for i in range(n):
            last[t[i]] = end[t[i]] + g[i] @ E.detach()
        mistakes = {
            "That is what comes from the end: E[t] is a use of E, too.": end,
            "That is what comes from the beginning: Eᵀ is a use of E, too.": begin,
            "A token that occurs twice reads its row twice: both gradients are added.": last,
            "The two are added, not multiplied.": begin * end,
        }
        answer.compare((E.detach(), t, g), E.grad, f"for the tokens {t.tolist()} the gradient of E", mistakes)


print("exercise 3:", check_3(answer_3))

# %% [markdown]
# ## 4 ★★★ Extend: rotary positions
#
# Queries and keys are turned before their product is taken: at position n the pair of the components 2j and 2j + 1
# becomes, with the angle a = n ω_j and ω_j = 10000^(−2j/K),
#
# $$ (x_{2j} \cos a - x_{2j+1} \sin a, \quad x_{2j} \sin a + x_{2j+1} \cos a) $$
#
# so a score depends on how far two words are apart. Write it. `start` is the position of the first row: with a cache
# (lesson 22) it is not 0.


# %%
def answer_4(x: tt.Tensor, start: int) -> tt.Tensor:
    """x (n, K), whose rows stand at the positions start, start + 1, ..., turned; K is even."""
    ...


@check("x[:, 0::2] and x[:, 1::2] are the components of the pairs. Which shape have the angles?")
def check_4(answer) -> None:
    for n, K, start in ((3, 4, 0), (random.randint(2, 4), 6, random.randint(1, 20)), (1, 2, 3)):
        x = numbers(n, K)

        def turned(first, sign=1, x=x, n=n, K=K, base=10000.0, apart=1):
            """Each pair as a complex number, times e^(i a); the components of a pair are `apart` from each other."""
            result = x.clone()
            for row in range(n):
                for j in range(K // 2):
                    low, high = (2 * j, 2 * j + 1) if apart == 1 else (j, j + apart)
                    a = sign * (first + row) * base ** (-2 * j / K)
                    pair = complex(x[row, low].item(), x[row, high].item()) * complex(math.cos(a), math.sin(a))
                    result[row, low], result[row, high] = pair.real, pair.imag
            return result

        mistakes = {
            "The pairs are turned the other way round: look at the signs.": turned(start, sign=-1),
            "The first row stands at the position start, not at 0.": turned(0),
            "The first row stands at the position start, not behind it.": turned(start + 1),
            "The components of a pair are neighbours, 2j and 2j + 1.": turned(start, apart=K // 2),
            "All pairs are turned by the same angle: ω_j depends on j.": turned(start, base=1.0),
            "ω_j is 10000 to the power −2j/K.": turned(start, base=100.0),
            "Nothing is turned.": x.clone(),
        }
        answer.compare((x, start), turned(start), f"for {n} rows of width {K} from position {start} on", mistakes)


print("exercise 4:", check_4(answer_4))
