# %% [markdown]
# # Exercises: overfitting
#
# Write your answers in place of the dots, or mend the code, and run the file again. Each check says in one sentence
# whether an answer is right. The checks draw new numbers each time.

# %%
import math
import random
from collections.abc import Callable

from judge import Wrong, check, compare

import tinytensor as tt
from tinytensor import nn

# %% [markdown]
# ## 1 ★ Predict: sure, and wrong
#
# At each place a model gives its guess the probability q, and each of the other V − 1 tokens the same share of what is
# left. The guess is right in a part a of the places (a = 0.3: in 30 % of them). What are the loss and the perplexity?


# %%
def answer_1(q: float, a: float, V: int) -> tuple[float, float]:
    """The loss in nats a token, and the perplexity."""
    ...


@check("which probability has the right token where the guess is right, and which one where it is wrong?")
def check_1(answer) -> None:
    for _ in range(3):
        q, a, V = random.uniform(0.6, 0.95), random.uniform(0.2, 0.5), random.randint(5, 60)
        losses = nn.functional.cross_entropy(
            tt.tensor([q, *[(1 - q) / (V - 1)] * (V - 1)], dtype=tt.float64).log().expand(2, V),
            tt.tensor([0, 1]),  # the guess is right; it is wrong
            reduction="none",
        ).tolist()
        loss = a * losses[0] + (1 - a) * losses[1]
        mistakes = {
            "Where the guess is wrong, the right token has a probability, too.": (-a * math.log(q), ...),
            "That is the loss where the guess is right.": (losses[0], ...),
            "The others are V − 1 tokens.": (-a * math.log(q) - (1 - a) * math.log((1 - q) / V), ...),
            "Each of the others has only its share of 1 − q.": (-a * math.log(q) - (1 - a) * math.log(1 - q), ...),
            "The loss is a mean of logarithms, not the logarithm of a mean.": (
                -math.log(a * q + (1 - a) * (1 - q) / (V - 1)),
                ...,
            ),
            "That is the loss in bits.": (loss / math.log(2), ...),
            "A loss in nats has the base e.": (..., 2**loss),
            "The perplexity of a loss above 0 is larger than 1.": (..., math.exp(-loss)),
        }
        case = f"with q = {q:.3f}, a = {a:.3f} and V = {V}"
        answer.compare((q, a, V), (loss, math.exp(loss)), case, mistakes, names=("the loss", "the perplexity"))


print("exercise 1:", check_1(answer_1))

# %% [markdown]
# ## 2 ★★ Find the bug: a loss that is another one each time
#
# `answer_2` measures the loss on held-out texts, and is called now and then in training. Its result changes, though the
# model does not. Mend it. The training goes on afterwards, in the mode that it was in.


# %%
def answer_2(model: nn.Module, texts: tt.Tensor) -> float:
    """The loss model(texts) without dropout; the model's mode is afterwards what it was before."""
    return model(texts).item()


class _Model(nn.Module):
    """A loss of texts (n, 4) with dropout; it notes whether this was on."""

    def __init__(self):
        super().__init__()
        self.weight, self.dropout, self.was_on = nn.Parameter(tt.randn(4, 3)), nn.Dropout(0.4), []

    def forward(self, texts):
        self.was_on.append(self.dropout.training)
        return (self.dropout(texts @ self.weight) ** 2).mean()


@check("which two methods of a model switch dropout off and on? Which attribute says what it is?")
def check_2(answer) -> None:
    for mode in random.sample([True, False, True], 3):
        model, texts = _Model().train(mode), tt.randn(5, 4)
        right = ((texts @ model.weight) ** 2).mean().item()
        result = answer(model, texts)
        if any(model.was_on):
            raise Wrong("dropout is on while you measure: the model is in training mode.")
        if mode and not model.dropout.training:
            raise Wrong("afterwards dropout is still off: the rest of the training has none.")
        if not mode and model.dropout.training:
            raise Wrong("the model was in evaluation mode before, and is in training mode afterwards.")
        compare(result, right, "the loss", inputs=answer.inputs)


print("exercise 2:", check_2(answer_2))

# %% [markdown]
# ## 3 ★★ Derive: how sure should it be?
#
# The model of exercise 1 can choose q, and cannot change a: it is right in a part a of the places, however sure it is.
# Which q has the lowest loss? And how low is it? (1/V < a < 1.)


# %%
def answer_3(a: float, V: int) -> tuple[float, float]:
    """The best q, and the loss with it."""
    ...


@check("differentiate −a ln q − (1 − a) ln((1 − q) / (V − 1)) with respect to q.")
def check_3(answer) -> None:
    for _ in range(3):
        V = random.randint(4, 60)
        a = random.uniform(1.2 / V, 0.9)

        def loss(q, a=a, V=V):
            return -a * math.log(q) - (1 - a) * math.log((1 - q) / (V - 1))

        low, high = 1e-9, 1 - 1e-9
        for _ in range(200):  # the loss falls up to the best q, and rises behind it
            left, right = low + (high - low) / 3, high - (high - low) / 3
            low, high = (left, high) if loss(left) > loss(right) else (low, right)
        mistakes = {
            "Sure of all its guesses, it has an infinite loss at the first wrong one.": (1, ...),
            "That is a model that knows nothing, not even a.": (1 / V, ...),
            "That is the part of the places where it is wrong.": (1 - a, ...),
            "Where the guess is wrong, there is a loss, too.": (..., -a * math.log(a)),
            "That is the loss where the guess is right.": (..., -math.log(a)),
            "The others share 1 − q: each has 1 / (V − 1) of it.": (..., loss(a) - (1 - a) * math.log(V - 1)),
            "That is the loss of a model that knows nothing.": (..., math.log(V)),
        }
        best = (low + high) / 2
        names, case = ("the best q", "the loss"), f"with a = {a:.4f} and V = {V}"
        answer.compare((a, V), (best, loss(best)), case, mistakes, names=names)


print("exercise 3:", check_3(answer_3))

# %% [markdown]
# ## 4 ★★★ Extend: early stopping
#
# `train()` makes some steps, which change the weights w in place, and returns the held-out loss after them. Call it
# until `patience` losses in a row were not lower than the lowest one before. (NaN is not lower.) What remains is the
# lowest loss, and the weights that it belongs to.


# %%
def answer_4(train: Callable[[], float], w: tt.Tensor, patience: int) -> tuple[int, float, tt.Tensor]:
    """The number of calls of `train`, the lowest loss, and the weights w that belong to it."""
    ...


@check("w changes in place: what does a name for it show after the next call? `clone()` makes a copy.")
def check_4(answer) -> None:
    for patience in (*random.sample([2, 3, 4], 2), 1):
        low = random.uniform(1, 2)
        falling = sorted((low + random.uniform(0.5, 2) for _ in range(random.randint(2, 4))), reverse=True)
        bump = [falling[-1] + 0.1 * n for n in range(1, patience)]  # of one loss too few to stop at
        tail = [low, low + 0.5, math.nan, low + 0.2, low + 0.1]  # the lowest one again, NaN, two that fall
        losses = [*falling, *bump, low, *tail, *[low + 0.3] * 3, low - 0.5]
        weights = [tt.randn(3, dtype=tt.float64) for _ in losses]
        w, calls = tt.zeros(3, dtype=tt.float64), []

        def train(losses=losses, weights=weights, w=w, calls=calls, patience=patience):
            if len(calls) == len(losses):
                raise Wrong(f"with patience = {patience} you call train() {len(calls)} times, and do not stop.")
            calls.append(0)
            w.copy_(weights[len(calls) - 1])
            return losses[len(calls) - 1]

        at = len(falling) + patience - 1  # of the lowest loss
        count = at + 1 + patience
        with_nan = _calls(losses, patience, lambda loss, lowest: not loss >= lowest)
        mistakes = {
            "That is one call more: the last loss of `patience` in a row is the last.": (count + 1, ...),
            "That is one call fewer.": (count - 1, ...),
            "It stops at the first loss that is not lower.": (len(falling) + 1, ...),
            "A new lowest loss begins the count anew.": (at + 2, ..., ...),
            "A loss as low as the lowest one is not lower.": (count + 1, ..., weights[at + 1]),
            "NaN is not lower: each comparison with it is False.": (with_nan, ..., ...),
            "That is the number of the lowest loss.": (at + 1, ..., ...),
            "That is the last loss.": (..., losses[count - 1], ...),
            "These are the weights of the last call: w changes in place, so keep a copy.": (
                ...,
                ...,
                weights[count - 1],
            ),
        }
        mistakes = {said: (*parts, ...)[:3] for said, parts in mistakes.items()}
        names = ("the number of calls", "the lowest loss", "the tensor of weights")
        shown = ", ".join(f"{loss:.1f}" for loss in losses)
        case = f"with patience = {patience} and the losses {shown}"
        answer.compare((train, w, patience), (count, low, weights[at]), case, mistakes, names=names)
        if len(calls) != count:
            raise Wrong(f"{case} you say {count} calls of train(), and make {len(calls)}.")


def _calls(losses: list[float], patience: int, is_lower: Callable[[float, float], bool]) -> int:
    """The number of losses until `patience` in a row are not lower than the lowest one before."""
    lowest, waited = math.inf, 0
    for i, loss in enumerate(losses):
        lowest, waited = (loss, 0) if is_lower(loss, lowest) else (lowest, waited + 1)
        if waited == patience:
            return i + 1
    return len(losses)


print("exercise 4:", check_4(answer_4))
