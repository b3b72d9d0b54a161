"""Inference of document 004: the translation word by word, greedily, by chance, or by beam search.

The mask stays on. 004 takes it away at inference, so that the words already there may look ahead, and predicts the
whole prefix anew at each step. That is another function than the one that was trained: predictions of earlier words
change, and with two stacks or more that of the newest word too (a test shows both); "he" may turn into "i" when "am"
follows. `literal` shows that inference. With the mask no earlier row changes when a word is added, so that keys and
values can be kept: those of the output grow by a row a word, those of the input are computed once.
"""

from collections.abc import Callable

import numpy as np

from models.data.pairs import pad, width_for
from models.inference.generate import check_sampling, choose, choosing
from models.transformer import BEGIN, STOP, Transformer
from tinytensor import Generator, Tensor, log_softmax, nn, no_grad, tensor

MOST_BEAMS = 1000  # each keeps its own keys and values


def translate(
    model: Transformer,
    sources: list[list[int]],
    *,
    temperature: float = 0.0,
    top_k: int | None = None,
    top_p: float | None = None,
    generator: Generator | None = None,
    beam: int = 1,
    length_penalty: float = 0.6,
    limit: int | None = None,
    cache: bool = True,
    literal: bool = False,
) -> list[list[int]]:
    """The translations of sentences (lists of tokens), without STOP; at most `limit` words (default: n_max - 1).

    Greedy at temperature 0, by chance above it, by beam search with `beam` > 1 (see `beam_search`), which takes the
    likeliest whole sentences. `cache=False` computes every row for every word and gives the same; `literal` is 004's
    inference without the mask.
    """
    check_sampling(temperature, top_k, top_p)
    if not 1 <= beam <= MOST_BEAMS:
        raise ValueError(f"translate: beam = {beam}: 1 to {MOST_BEAMS:,} is needed")
    if (beam > 1) + (temperature > 0) + literal > 1:
        raise ValueError("translate: choose one of beam search, a temperature above 0, and the literal inference")
    if not 0 <= length_penalty <= 100:  # where beam_search ends, it takes a longer sentence to score no worse
        raise ValueError(f"translate: length penalty = {length_penalty}: 0 (compare probabilities) to 100 is needed")
    if not all(sources):
        raise ValueError("translate: a sentence without words; there is nothing to translate")
    most, longest = model.config.n_max, max(map(len, sources), default=1)
    if longest > most:
        raise ValueError(f"translate: a sentence of {longest} words; the model takes n_max = {most}")
    limit = most - 1 if limit is None else min(limit, most - 1)
    training = model.training
    model.eval()
    try:
        with no_grad():
            if beam > 1:
                return [beam_search(model, source, beam, length_penalty, limit)[0][0] for source in sources]
            inputs = tensor(pad(sources, width_for(most, longest)))
            if literal:
                return [_literal(model, inputs[i : i + 1], limit) for i in range(len(sources))]
            return _word_by_word(model, inputs, limit, cache, temperature, top_k, top_p, generator)
    finally:
        model.train(training)


def _word_by_word(model, inputs: Tensor, limit: int, cache: bool, *how) -> list[list[int]]:
    """Sentences side by side; one that has ended is computed further until all have ended, and that part is cut off."""
    encoded, mask = model.encode(inputs)
    B = inputs.shape[0]
    outputs = np.full((B, 1), BEGIN, dtype=np.int64)
    known, ended = model.new_cache() if cache else None, np.zeros(B, dtype=bool)
    while not ended.all() and outputs.shape[1] <= limit:
        new = outputs[:, -1:] if cache else outputs
        logits = model.decode(tensor(new), encoded, mask, known)[:, -1]  # (B, n_vol)
        if how[0] == 0:
            words = logits.argmax(-1).numpy()
        else:
            with choosing():
                words = np.array([choose(logits[i], *how).item() for i in range(B)])
        ended |= words == STOP
        outputs = np.concatenate([outputs, words[:, None]], axis=1)
    return [_until_stop(row[1:].tolist()) for row in outputs]


def _until_stop(words: list[int]) -> list[int]:
    return words[: words.index(STOP)] if STOP in words else words


def _literal(model: Transformer, inputs: Tensor, limit: int) -> list[int]:
    """004 as it stands: no mask, and each step predicts the whole prefix anew, until the new last word is STOP."""
    encoded, mask = model.encode(inputs)
    words: list[int] = []
    while len(words) < limit:
        logits = model.decode(tensor([[BEGIN, *words]]), encoded, mask, is_causal=False)  # (1, k, n_vol)
        words = logits.argmax(-1).tolist()[0]
        if words[-1] == STOP:
            return words[:-1]
    return words


@no_grad()
def beam_search(
    model: Transformer, source: list[int], beam: int, length_penalty: float, limit: int
) -> list[tuple[list[int], float]]:
    r"""The best sentences found and their scores, best first.

    At each step the `beam` likeliest unfinished sentences are kept. A finished one with n tokens, STOP included,
    scores \ln P / ((5 + n) / 6)^\alpha, \alpha being the length penalty: 0 compares probabilities, which prefer short
    sentences (Wu et al. 2016, eq. 14). The search ends when no unfinished sentence can overtake the `beam` best
    finished ones.
    """

    def normalised(log_p: float, n: int) -> float:
        return log_p / ((5 + n) / 6) ** length_penalty

    encoded, mask = model.encode(tensor([source]))
    rows: list[list[int]] = [[]]
    log_p = np.zeros(1)
    finished: list[tuple[list[int], float]] = []
    known = model.new_cache()
    for n in range(1, limit + 1):
        last = tensor([[row[-1] if row else BEGIN] for row in rows])  # (rows, 1)
        logits = model.decode(last, encoded.expand(len(rows), -1, -1), mask, known)[:, -1]
        scores = log_p[:, None] + log_softmax(logits, -1).numpy()  # (rows, n_vol)
        best = np.argsort(-scores, axis=None, kind="stable")[: 2 * beam]  # `beam` of them at least do not stop
        parents, words = np.unravel_index(best, scores.shape)
        kept = []
        for parent, word in zip(parents.tolist(), words.tolist()):
            if word == STOP:
                finished.append((rows[parent], normalised(scores[parent, word], n)))
            elif len(kept) < beam:
                kept.append((parent, word))
        finished = sorted(finished, key=lambda hypothesis: -hypothesis[1])[:beam]
        log_p = np.array([scores[parent, word] for parent, word in kept])
        if not kept or (len(finished) == beam and finished[-1][1] >= normalised(log_p.max(), limit)):
            break
        rows = [[*rows[parent], word] for parent, word in kept]
        order = tensor([parent for parent, _ in kept])
        known = [tuple([x[order] for x in pair] for pair in stack) for stack in known]
    if not finished:  # nothing stopped within the limit
        finished = [(row, normalised(p, limit)) for row, p in zip(rows, log_p.tolist())]
    return finished


# --- Looking inside


def cross_attention(model: Transformer, source: list[int], output: list[int]) -> np.ndarray:
    """How each word of an output, STOP included, attends to the source: (N, h, n_output + 1, n_input)."""
    seen = []

    def look(module, inputs, _):
        seen.append(module.weights(*inputs[:3]))

    _run(model, source, output, [(stack.attention, look) for stack in model.decoder])
    return np.concatenate([weights.numpy() for weights in seen])


def residual_stream(model: Transformer, source: list[int], output: list[int]) -> list[tuple[str, Tensor, Tensor]]:
    """(name of the sublayer, the stream before it, the stream after it), in order, (n, d_model) each (002)."""
    seen, looks = [], []
    for name, module in model.named_modules():
        if name.rpartition(".")[2].startswith("add_"):

            def look(module, inputs, after, name=name):
                seen.append((name.replace("add_", ""), inputs[0][0], after[0]))

            looks.append((module, look))
    _run(model, source, output, looks)
    return seen


def _run(model: Transformer, source: list[int], output: list[int], looks: list[tuple[nn.Module, Callable]]) -> None:
    """The model over one sentence and the beginnings of its translation; `looks` are hooks for modules meanwhile."""
    training = model.training
    model.eval()
    hooks = [module.register_forward_hook(look) for module, look in looks]
    try:
        with no_grad():
            model.decode(tensor([[BEGIN, *output]]), *model.encode(tensor([source])))
    finally:
        for hook in hooks:
            hook.remove()
        model.train(training)
