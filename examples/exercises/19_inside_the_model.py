# %% [markdown]
# # Exercises: inside the model
#
# Write your answers in place of the dots, or mend the code, and run the file again. Each check says in one sentence
# whether an answer is right. The checks draw new numbers each time.

# %%
import random

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


def check_1(answer) -> str:
    body = [random.randrange(6) for _ in range(random.randint(4, 8))]
    body.append(random.choice(body))
    for tokens in ([*body, 6], [*body, body[0]]):  # the last token is new, or has stood there before
        given = answer(tokens)
        if given is None:
            return "not solved yet. Hint: what has the last token of the text to predict?"
        E, O, n = tt.randn(8, 4, requires_grad=True), tt.randn(4, 8), len(tokens)
        scores = (E[tokens] @ E.detach()[tokens].T).masked_fill(tt.ones(n, n).triu(1) > 0, -1e30)
        L = (E[tokens] + scores.softmax(-1) @ E[tokens]) @ O
        F.cross_entropy(L[:-1], tt.tensor(tokens[1:])).backward()
        right = (E.grad.abs().sum(1) > 0).sum().item()
        if given != right:
            return f"wrong: the text {tokens} gives a gradient to {right} rows of E, not to {given}."
    return "right"


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


def check_2(answer) -> str:
    H, K, D = random.randint(2, 4), random.randint(2, 4), random.randint(3, 5)
    Y, W = tt.randn(H, K), tt.randn(H * K, D)
    given = answer(Y, W)
    if given is None:
        return "not solved yet. Hint: at which rows of W do the numbers of head h arrive?"
    if given.shape != (H, D):
        return f"wrong: for {H} heads and D = {D} the parts have the shape {tuple(given.shape)}, not {(H, D)}."
    for h in range(H):
        alone = tt.zeros(H, K)
        alone[h] = Y[h]
        right = alone.flatten() @ W  # the other heads say nothing
        if not tt.allclose(given[h], right, atol=1e-5):
            difference = (given[h] - right).abs().max().item()
            return f"wrong: if only head {h + 1} speaks, A differs from its part by up to {difference:.4f}."
    return "right"


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


def check_3(answer) -> str:
    for sign in (1, -1, 0):
        w, g = random.uniform(-2, 2), sign * 10 ** random.uniform(-3, 3)
        rate, decay = random.uniform(0.01, 0.5), random.uniform(0.1, 0.9)
        p = tt.tensor([w], dtype=tt.float64, requires_grad=True)
        p.grad = tt.tensor([g], dtype=tt.float64)
        betas = (random.uniform(0.5, 0.95), random.uniform(0.9, 0.999))
        tt.optim.AdamW([p], lr=rate, betas=betas, eps=1e-15, weight_decay=decay).step()
        given = answer(w, g, rate, decay)
        if given is None:
            return "not solved yet. Hint: put m = (1 − β₁) g and v = (1 − β₂) g² into the quotient."
        if abs(given - p.item()) > 1e-6:
            case = f"w = {w:.4f}, g = {g:.4f}, ρ = {rate:.4f} and λ = {decay:.4f}"
            return f"wrong: with {case} the weight becomes {p.item():.4f}, not {given:.4f}."
    return "right"


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


def check_4(answer) -> str:
    for _ in range(8):
        n, K = random.randint(4, 7), random.randint(2, 4)
        S, v, g = tt.randn(n, requires_grad=True), tt.randn(n, K), tt.randn(K)
        given = answer(S.detach(), v, g)
        if given is None:
            return "not solved yet. Hint: ∂𝓛/∂α_m = g · v_m. Softmax compares it with its mean, weighted by α."
        (S.softmax(-1) @ v @ g).backward()
        right = [m for m, slope in enumerate(S.grad.tolist()) if slope < 0]
        if list(given) != right:
            slopes = [round(x, 3) for x in S.grad.tolist()]
            return f"wrong: ∂𝓛/∂S is {slopes}, so the places are {right}, not {list(given)}."
    return "right"


print("exercise 4:", check_4(answer_4))
