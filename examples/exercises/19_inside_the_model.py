# %% [markdown]
# # Exercises: inside the model
#
# Write your answers in place of the dots, or mend the code, and run the file again. Each check says in one sentence
# whether an answer is right. The checks draw new numbers each time.

# %%
import random

from judge import check

import tinytensor as tt
import tinytensor.nn.functional as F

# %% [markdown]
# ## 1 ★ Predict: which rows of E get a gradient?
#
# A decoder reads a text of tokens. Each place predicts the next token, and may attend to itself and to earlier places.
# The loss is the mean over the places that have a next token. How many rows of ∂𝓛/∂E are not 0?


# %%
def answer_1(tokens: list[int]) -> int:
    """The number of rows of E that get a gradient from this text."""
    ...


@check("what has the last token of the text to predict?")
def check_1(answer) -> None:
    body = [random.randrange(6) for _ in range(random.randint(4, 5))]
    body.append(random.choice(body))
    for tokens in ([*body, 6], [*body, body[0]], [*body, 6, body[0]]):  # the last one is new, or has stood there before
        E, O, n = tt.randn(8, 4, requires_grad=True), tt.randn(4, 8), len(tokens)
        scores = (E[tokens] @ E.detach()[tokens].T).masked_fill(tt.ones(n, n).triu(1) > 0, -1e30)
        L = (E[tokens] + scores.softmax(-1) @ E[tokens]) @ O
        F.cross_entropy(L[:-1], tt.tensor(tokens[1:])).backward()
        right = (E.grad.abs().sum(1) > 0).sum().item()
        mistakes = {
            "The last token predicts nothing, and no earlier place attends to it.": len(set(tokens)),
            "A token that comes twice has one row.": n - 1,
            "Tokens that are not in the text have no part in its loss.": 8,
        }
        answer.compare((list(tokens),), right, f"for the text {tokens} the number of rows", mistakes)


print("exercise 1:", check_1(answer_1))

# %% [markdown]
# ## 2 ★★ Find the bug: what each head adds
#
# By (7) the heads stand side by side: Ŷ is the K numbers of head 1, then those of head 2, and so on. By (8) A = Ŷ W.
# `answer_2` shall say what each head adds to A at one place. The sum is right, but the parts are not.


# %%
def answer_2(Y, W):
    """The parts of A, (H, D), of Y (H, K), the heads at one place, and W (H K, D)."""
    H, Y_hat = len(Y), Y.flatten()
    return tt.stack([Y_hat[h::H] @ W[h::H] for h in range(H)])


@check("at which rows of W do the numbers of head h arrive?")
def check_2(answer) -> None:
    H, K, D = random.randint(2, 4), random.randint(2, 4), random.randint(3, 5)
    Y, W = tt.randn(H, K), tt.randn(H * K, D)
    alone = tt.eye(H).unsqueeze(2) * Y  # for each head Y with 0 for all others
    right, each = alone.flatten(1) @ W, Y.flatten()
    mistakes = {
        "The K numbers of a head stand side by side; you take every H-th number.": tt.stack(
            [each[h::H] @ W[h::H] for h in range(H)]
        ),
        "All heads have the same part: the sum is right, and says nothing of each.": (each @ W / H).expand(H, D),
        "Each head meets the rows of W that belong to another one.": tt.stack(
            [Y[h] @ W[(H - 1 - h) * K : (H - h) * K] for h in range(H)]
        ),
    }
    answer.compare((Y, W), right, f"for {H} heads with K = {K}, D = {D} the tensor of parts", mistakes)


print("exercise 2:", check_2(answer_2))

# %% [markdown]
# ## 3 ★★ Derive: the first step of AdamW
#
# AdamW keeps the means m = β₁ m + (1 − β₁) g and v = β₂ v + (1 − β₂) g², which begin with 0. In its step number t
#
# $$ w \leftarrow w - \rho \lambda w - \rho \frac{m / (1 - \beta_1^t)}{\sqrt{v / (1 - \beta_2^t)} + \epsilon} $$
#
# What is w after the first step, if ε is so small that it can be left out? The answer needs neither β₁ nor β₂.


# %%
def answer_3(w: float, g: float, rate: float, decay: float) -> float:
    """The weight after one step, of the weight w, its gradient g, the rate ρ and the decay λ."""
    ...


@check("put m = (1 − β₁) g and v = (1 − β₂) g² into the quotient.")
def check_3(answer) -> None:
    for sign in (1, -1, 0):
        w, g = random.choice([-1, 1]) * random.uniform(1, 2), sign * 10 ** random.uniform(-3, 3)
        rate, decay = random.uniform(0.01, 0.5), random.uniform(0.1, 0.9)
        p = tt.tensor([w], dtype=tt.float64, requires_grad=True)
        p.grad = tt.tensor([g], dtype=tt.float64)
        betas = (random.uniform(0.5, 0.95), random.uniform(0.9, 0.999))
        tt.optim.AdamW([p], lr=rate, betas=betas, eps=1e-15, weight_decay=decay).step()
        right = p.item()
        mistakes = {
            "That is a step of (18) with decay: g is divided by its size, so only its sign is left.": w
            - rate * (decay * w + g),
            "The decay is missing.": right + rate * decay * w,
            "The decay is multiplied by the rate.": right + (rate - 1) * decay * w,
            "Where g is 0 nothing is left of the quotient.": right - rate,
        }
        case = f"with w = {w:.4f}, g = {g:.4f}, ρ = {rate:.4f} and λ = {decay:.4f} the weight"
        answer.compare((w, g, rate, decay), right, case, mistakes)


print("exercise 3:", check_3(answer_3))

# %% [markdown]
# ## 4 ★★★ Extend: where will a head look next?
#
# A row of scores S gives the weights α = softmax(S), and Y = Σ_m α_m v_m by (6). The loss sends g = ∂𝓛/∂Y. A step of
# descent raises the scores with a negative gradient: there the head will look more. Find these places without autograd.


# %%
def answer_4(S, v, g) -> list[int]:
    """The places m, in order, whose score a step of descent raises; S (n,), v (n, K), g (K,)."""
    ...


@check("∂𝓛/∂α_m = g · v_m. Softmax compares it with its mean, weighted by α.")
def check_4(answer) -> None:
    for _ in range(16):
        n, K = random.randint(4, 7), random.randint(2, 4)
        S, v, g = tt.randn(n, requires_grad=True), tt.randn(n, K), tt.randn(K)
        (S.softmax(-1) @ v @ g).backward()
        slopes, along = S.grad.tolist(), (v @ g).tolist()
        right = [m for m, slope in enumerate(slopes) if slope < 0]
        mistakes = {
            "That is the sign of ∂𝓛/∂α: softmax lies between α and S.": [m for m in range(n) if along[m] < 0],
            "A step of descent goes against the gradient: these scores it lowers.": [
                m for m in range(n) if slopes[m] > 0
            ],
            "The mean is weighted by α.": [m for m in range(n) if along[m] < sum(along) / n],
        }
        case = f"where ∂𝓛/∂S is {[round(x, 3) for x in slopes]} the list of places"
        answer.compare((S.detach(), v, g), right, case, mistakes)


print("exercise 4:", check_4(answer_4))
