"""Sampling, one token at a time; keys and values are kept, so that each step computes one row and not all.

Positions are learned, so a token's place in the window is part of its key and value, and they cannot move along with a
window that slides. When the C places are full, the window therefore jumps by half a context: the last tokens are
encoded anew at the places from 0 on, and C / 2 places are free again. `window` is that rule, with or without the cache.
"""

import math
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from models.data.tokenizers import UNKNOWN, Tokenizer
from models.decoder import Cache, Decoder
from tinytensor import Generator, Tensor, compile, int64, no_grad, randint, softmax, tensor, zeros

TEMPERATURE = 0.5  # of samples: at 1 a small model makes up words, at 0 it writes one phrase again and again
CHUNK = 32  # tokens in one native call: a return to Python costs as much as five of toth-tiny's tokens
SECONDS = 0.1  # a call that takes longer than this is followed by shorter ones, so that tokens appear as they come
BYTES = 4  # of the longest character in UTF-8


class NonFiniteLogits(RuntimeError):
    """The model gives NaN or inf, and no token can be chosen by them."""


@contextmanager
def choosing():
    """Turn multinomial's error about probabilities into one about the model that gave them."""
    try:
        yield
    except RuntimeError as error:
        if not str(error).startswith("multinomial: "):
            raise
        raise NonFiniteLogits(
            "the model's logits are NaN or inf, so no token can be chosen by them: its weights are too large to "
            "compute with; train it with a smaller --lr, or go back to an earlier run"
        ) from None


def window(n: int, C: int) -> int:
    """The beginning of the window over `n` tokens: it ends at the last one and holds at most C."""
    jump = max(1, C // 2)
    return 0 if n <= C else -(-(n - C) // jump) * jump


class Sampler:
    """A model with settings for sampling. Keep it to write several texts: a step recorded for one serves the next."""

    def __init__(
        self,
        model: Decoder,
        *,
        temperature: float = 1.0,
        top_k: int | None = None,
        top_p: float | None = None,
        cache: bool = True,
        eager: bool = False,
    ):
        check_sampling(temperature, top_k, top_p)
        self.model, self.settings = model, (temperature, top_k, top_p)
        self.cached, self.eager = cache and model.config.causal, eager
        self.idle: list[Page] = []  # those of texts that have ended

    def __call__(self, tokens: list[int], count: int, generator: Generator | None = None) -> Iterator[int]:
        """Yield `count` tokens that continue `tokens` (at least one); one number from the generator decides them all.

        With the cache a step that adds one token is recorded, and up to CHUNK replays of it are one run of native code,
        unless the sampler is eager. Neither changes a bit of the logits, nor a token: the draw for a token depends only
        on that one number and on its place in the text, so the last tokens of a chunk may be left unread. A model
        without the causal mask runs without the cache: each new token changes the keys and values of all earlier ones.
        """
        if not tokens:
            raise ValueError("generate: at least one token to begin with is needed")
        model, tokens, C, begin, end = self.model, list(tokens), self.model.config.C, None, len(tokens) + count
        page = self.idle.pop() if self.idle else Page(model, self.settings)
        page.draws.manual_seed(randint(2**62, (), generator=generator).item())
        known, training = 0, model.training  # known: tokens in the cache
        chunk = 1 if self.eager else CHUNK
        model.eval()
        try:
            while (n := len(tokens)) < end:
                start = window(n, C)
                at = n - start  # the place of the next token
                with no_grad(), choosing():
                    if start != begin:
                        page.cache.clear()
                        known, begin, page.text[:at] = 0, start, tensor(tokens[start:])
                    if self.cached and known == at - 1:
                        steps, began = min(end - n, C + 1 - at, chunk), time.perf_counter()
                        page.add(steps, self.eager)
                        took = time.perf_counter() - began
                        if not self.eager:
                            chunk = max(1, chunk // 2) if took > SECONDS else min(CHUNK, 2 * chunk)
                    else:
                        steps, new = 1, page.text[:at].unsqueeze(0)
                        page.text[at] = page.following(new, page.cache if self.cached else None)
                    known = at - 1 + steps
                made = page.text[at : at + steps].tolist()
                tokens += made
                yield from made
        finally:
            model.train(training)
            self.idle.append(page)


class Page:
    """Where a text is written: the tokens of its window, their keys and values, and the step that adds a token."""

    def __init__(self, model: Decoder, settings: tuple):
        self.model, self.settings, self.draws = model, settings, Generator()
        self.cache = model.new_cache()
        self.text = zeros(model.config.C + 1, dtype=int64)
        self.recorded = compile(self.step)

    def following(self, new: Tensor, cache: Cache | None) -> Tensor:
        """The token () that follows the tokens `new` (1, n), which follow those in the cache."""
        logits, _ = self.model(new, cache=cache, last=True)  # (1, 1, V)
        return choose(logits[0, -1], *self.settings, self.draws)

    def step(self) -> None:
        """Read the last token where the cache ends, and write the one that follows it to the next place."""
        new = self.text.gather(0, self.cache.at).unsqueeze(0)  # (1, 1)
        token = self.following(new, self.cache)
        self.text.index_copy_(0, self.cache.at, token.unsqueeze(0))

    def add(self, steps: int, eager: bool) -> None:
        """Write so many tokens."""
        if not eager:
            self.recorded.repeat(steps)
            return
        for _ in range(steps):
            self.step()


def generate(model: Decoder, tokens: list[int], count: int, *, generator=None, **settings) -> Iterator[int]:
    """Yield `count` tokens that continue `tokens`: one text of a `Sampler`, whose settings it takes."""
    yield from Sampler(model, **settings)(tokens, count, generator)


def write(model: Decoder, tokenizer: Tokenizer, prompt: str, count: int, seed: int, **settings) -> str:
    """The prompt and the model's continuation; the unknown token, which an untrained model writes, is left out."""
    generator = Generator().manual_seed(seed)
    return prompt + "".join(stream(Sampler(model, **settings), tokenizer, prompt, count, generator))


def stream(sampler: Sampler, tokenizer: Tokenizer, prompt: str, count: int, generator: Generator) -> Iterator[str]:
    """Yield the continuation of a prompt in pieces, as its tokens come; joined they are what `write` appends."""
    before: list[int] = []  # the tokens of the last piece: a tokenizer of another program may write by what is before
    waiting: list[int] = []  # tokens that end within a character, whose further bytes are those of the next token
    for token in sampler(tokenizer.encode(prompt) or tokenizer.encode(tokenizer.opening), count, generator):
        if token == tokenizer.unknown:
            continue
        waiting.append(token)
        piece = tokenizer.decode(before + waiting)[len(tokenizer.decode(before)) :]
        if not piece.endswith(UNKNOWN) or len(waiting) == BYTES:
            yield piece
            if piece:
                before = [] if piece.endswith(UNKNOWN) else waiting
            waiting = []
    if waiting:
        yield tokenizer.decode(before + waiting)[len(tokenizer.decode(before)) :]


def until(pieces: Iterable[str], stops: list[str]) -> Iterator[str]:
    """Yield the text of some pieces up to the first of the stops; what may be the beginning of a stop waits."""
    text = ""
    for piece in pieces:
        text += piece
        ends = [end for stop in stops if (end := text.find(stop)) >= 0]
        if ends:
            yield text[: min(ends)]
            return
        kept = max((n for stop in stops for n in range(len(stop)) if text.endswith(stop[:n])), default=0)
        yield text[: len(text) - kept]
        text = text[len(text) - kept :]
    yield text


LEAST = 1e-30  # of a temperature and of top-p: float32 has no numbers much smaller than this


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
