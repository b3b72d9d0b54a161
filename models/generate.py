"""Sampling: one token after the other, with keys and values kept, so that each step computes one row and not all.

Positions are learned, so a token's place in the window is part of its key and value, and they cannot move along with a
window that slides. When the C places are full, the window therefore jumps by half a context: the last tokens are
encoded anew at the places from 0 on, and C / 2 places are free again. `window` is that rule, with or without the cache.
"""

import math
from collections.abc import Iterator

from tinytensor import Generator, Tensor, compile, no_grad, softmax, tensor

from .decoder import Decoder
from .tokenizers import Tokenizer


def window(n: int, C: int) -> int:
    """Where the window begins when `n` tokens are there: it ends at the last one and holds at most C."""
    jump = max(1, C // 2)
    return 0 if n <= C else -(-(n - C) // jump) * jump


def generate(
    model: Decoder,
    tokens: list[int],
    count: int,
    *,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    generator: Generator | None = None,
    cache: bool = True,
    eager: bool = False,
) -> Iterator[int]:
    """Yield `count` tokens that continue `tokens` (at least one).

    With the cache a step that adds one token is recorded and replayed, unless `eager`. Neither changes a bit of the
    logits. A model without the causal mask is read without the cache: there each new token changes the keys and values
    of all earlier ones.
    """
    if not tokens:
        raise ValueError("generate: at least one token to begin with is needed")
    check_sampling(temperature, top_k, top_p)
    tokens, C, known, begin = list(tokens), model.config.C, model.new_cache(), 0
    cache = cache and model.config.causal
    training = model.training

    def following(new: Tensor) -> Tensor:
        """The token that follows the tokens `new` (1, n), which follow those in the cache."""
        logits, _ = model(new, cache=known if cache else None)  # (1, n, V)
        return choose(logits[0, -1], temperature, top_k, top_p, generator)

    step = following if eager else compile(following)
    model.eval()
    try:
        with no_grad():
            for _ in range(count):
                n = len(tokens)
                start = window(n, C)
                if cache and start == begin and known.count:
                    known.count = n - 1 - start  # a replay counts in `known.at` alone
                    token = step(tensor([tokens[-1:]]))
                else:
                    known.clear()
                    begin, token = start, following(tensor([tokens[start:]]))
                tokens.append(token.item())
                yield tokens[-1]
    finally:
        model.train(training)


def write(model: Decoder, tokenizer: Tokenizer, prompt: str, count: int, seed: int, **settings) -> str:
    """The prompt and what the model adds to it."""
    tokens = tokenizer.encode(prompt) or tokenizer.encode("\n")
    generator = Generator().manual_seed(seed)
    return prompt + tokenizer.decode(generate(model, tokens, count, generator=generator, **settings))


LEAST = 1e-30  # of a temperature and of top-p: float32 knows no much smaller number than this


def check_sampling(temperature: float, top_k: int | None, top_p: float | None) -> None:
    """Raise ValueError for settings that leave no token to choose."""
    if temperature != 0 and not LEAST <= temperature < float("inf"):
        raise ValueError(
            f"temperature = {temperature}: 0 (always the likeliest token), or {LEAST:g} or more, is needed"
        )
    if top_k is not None and top_k < 1:
        raise ValueError(f"top-k = {top_k}: at least 1 token must be left")
    if top_p is not None and not LEAST <= top_p <= 1:
        raise ValueError(f"top-p = {top_p}: a part from {LEAST:g} to 1 is needed")


def choose(logits: Tensor, temperature: float, top_k: int | None, top_p: float | None, generator=None) -> Tensor:
    """A token () from logits (V,), by softmax(logits / temperature); temperature 0 takes the largest.

    top_k leaves the k likeliest tokens, and those as likely as the last of them; top_p the smallest set of likeliest
    tokens that together have a probability of at least p.
    """
    if temperature == 0:
        return logits.argmax()
    logits = logits - logits.max()  # so that dividing by a small temperature gives -inf at worst, never inf - inf
    logits = logits / temperature
    if top_k is not None and top_k < logits.shape[0]:
        least = logits.topk(top_k)[0][-1]
        logits = logits.masked_fill(logits < least, -math.inf)
    if top_p is not None and top_p < 1:
        p, order = softmax(logits, 0).sort(descending=True)
        before = p.cumsum(0) - p  # the probability of the likelier tokens; 0 for the first
        rank = order.argsort()  # where each token stands in that order
        logits = logits.masked_fill(before.gather(0, rank) >= top_p, -math.inf)
    return softmax(logits, 0).multinomial(1, generator=generator)[0]
