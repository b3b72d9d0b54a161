"""Inference of 004: word by word, by beam search, by chance, literally; and what can be looked at inside."""

import itertools
import math
import re

import numpy as np
import pytest

import tinytensor as tt
from models.data.grammar import KNOWN
from models.inference.generate import NonFiniteLogits
from models.inference.translate import beam_search, cross_attention, residual_stream, translate
from models.transformer import BEGIN, PAD, STOP, Config, Transformer
from tinytensor import Generator, log_softmax, nn, no_grad, tensor

SMALL = Config(N=2, d_model=8, h=2, d_ff=12, n_vol=9, n_max=8)
SOURCES = [[4, 5, 6], [7], [8, 3, 3, 5, 4, 6, 7]]
LAYOUTS = [
    SMALL.replace(norm=norm, begin=begin, bias=begin == "token")
    for norm, begin in itertools.product(("after", "before"), ("zero", "token"))
]


def exact(config=SMALL, seed=3, stop=0.0):
    """A model in float64 with lively parameters; the greater `stop`, the likelier STOP at every step."""
    tt.manual_seed(seed)
    model = Transformer(config).double().eval()
    for name, p in model.named_parameters():
        nn.init.normal_(p, mean=float(name.endswith("norm.weight")), std=0.45)
    model.b_S.data[STOP] = stop
    model.b_S.data[PAD] = model.b_S.data[BEGIN] = -30.0  # as in a trained model, that never saw them
    return model


def log_p(model, source, output, is_causal=True):
    """ln P of each word after y_0 and the words of `output`, by the full forward pass: (n + 1, n_vol)."""
    with no_grad():
        logits = model.decode(tensor([[BEGIN, *output]]), *model.encode(tensor([source])), is_causal=is_causal)
        return log_softmax(logits[0], -1).numpy()


def greedy(model, source, limit):
    """argmax of the last row of the full forward pass, until STOP."""
    words = []
    while len(words) < limit:
        word = int(log_p(model, source, words)[-1].argmax())
        if word == STOP:
            break
        words.append(word)
    return words


# --- Word by word


@pytest.mark.one_in(2)
@pytest.mark.parametrize("config", LAYOUTS)
def test_greedy_is_the_argmax_of_the_whole_forward_pass(config):
    """With the cache and without, and several sentences side by side as each alone."""
    lengths = set()
    for seed in range(2):
        model = exact(config, seed, stop=1.0)
        expected = [greedy(model, source, config.n_max - 1) for source in SOURCES]
        for cache in (True, False):
            assert translate(model, SOURCES, cache=cache) == expected
            assert [translate(model, [source], cache=cache)[0] for source in SOURCES] == expected
        lengths |= {len(words) for words in expected}
    assert min(lengths) < max(lengths) == config.n_max - 1  # some stop, some are stopped


def test_greedy_in_float32():
    for config in LAYOUTS:
        model = exact(config, stop=1.0).float()
        together = translate(model, SOURCES)
        assert together == translate(model, SOURCES, cache=False)
        assert together == [translate(model, [source])[0] for source in SOURCES]


def test_every_step_with_the_cache_computes_one_row(monkeypatch):
    model, rows = exact(stop=-30.0), {True: [], False: []}
    decode = model.decode
    for cache, seen in rows.items():

        def watching(shifted, *arguments, seen=seen):
            seen.append(shifted.shape)
            return decode(shifted, *arguments)

        monkeypatch.setattr(model, "decode", watching)
        translate(model, SOURCES, cache=cache, limit=5)
    assert rows[True] == [(3, 1)] * 5
    assert rows[False] == [(3, n) for n in range(1, 6)]


def test_limit_bounds_the_translation():
    model = exact(stop=-30.0)  # never stops
    assert [len(words) for words in translate(model, SOURCES)] == [7] * 3
    whole = translate(model, SOURCES[:1])[0]
    for how in ({}, {"cache": False}):
        assert translate(model, SOURCES[:1], limit=4, **how) == [whole[:4]]
        assert translate(model, SOURCES[:1], limit=99, **how) == [whole]
    for how in ({"beam": 3}, {"literal": True}, {"temperature": 1.0}):
        assert len(translate(model, SOURCES[:1], limit=4, **how)[0]) == 4
        assert len(translate(model, SOURCES[:1], **how)[0]) == 7


def test_longest_source_and_empty_list():
    model = exact()
    assert translate(model, [[4] * 8]) == [greedy(model, [4] * 8, 7)]
    assert translate(model, []) == []


def test_translate_leaves_the_model_unchanged():
    for training in (True, False):
        model = exact(SMALL.replace(dropout=0.5)).train(training)
        assert translate(model, SOURCES) == translate(model, SOURCES)  # without dropout
        cross_attention(model, SOURCES[0], [5])
        residual_stream(model, SOURCES[0], [5])
        with pytest.raises(ValueError, match="n_max"):
            translate(model, [[4] * 9])
        assert model.training == training
        assert all(p.grad is None for p in model.parameters())


# --- By chance


def test_a_seed_repeats_a_translation():
    model = exact()

    def sampled(seed, **how):
        return translate(model, SOURCES, temperature=2.0, limit=4, generator=Generator().manual_seed(seed), **how)

    assert sampled(1) == sampled(1)
    assert sampled(1) == sampled(1, cache=False)
    assert len({str(sampled(seed)) for seed in range(5)}) == 5


def test_top_k_1_is_greedy():
    model = exact(stop=1.0)
    expected = translate(model, SOURCES, limit=5)
    for how in ({"top_k": 1}, {"top_p": 1e-9}, {"temperature": 1e-6}):
        assert translate(model, SOURCES, limit=5, **{"temperature": 1.5, **how}) == expected


def test_words_are_drawn_from_the_softmax():
    model, temperature, count = exact(stop=-30.0), 1.3, 500
    p = np.exp(log_p(model, SOURCES[0], [])[0] / temperature)
    p /= p.sum()
    result = translate(
        model, [SOURCES[0]] * count, temperature=temperature, limit=1, generator=Generator().manual_seed(0)
    )
    seen = np.bincount([words[0] for words in result], minlength=9) / count
    np.testing.assert_allclose(seen, p, atol=4 * 0.5 / math.sqrt(count))  # four standard deviations


# --- Beam search

TINY = Config(N=2, d_model=6, h=2, d_ff=8, n_vol=6, n_max=8)


def scores(model, source, outputs, penalty, stops=True):
    """ln P(words, STOP) / ((5 + n) / 6)^penalty of each output, by the full forward pass (Wu et al. 2016, eq. 14)."""
    width, results = max(map(len, outputs)), []
    shifted = tensor([[BEGIN, *words] + [PAD] * (width - len(words)) for words in outputs])
    with no_grad():
        logits = model.decode(shifted, *model.encode(tensor([source] * len(outputs))))
        rows = log_softmax(logits, -1).numpy()
    for row, words in zip(rows, outputs, strict=True):
        tokens = [*words, STOP] if stops else words
        results.append(sum(row[i, word] for i, word in enumerate(tokens)) / ((5 + len(tokens)) / 6) ** penalty)
    return results


@pytest.mark.one_in(3)
@pytest.mark.parametrize("penalty", [0.0, 0.6, 2.0])
@pytest.mark.parametrize("norm", ["after", "before"])
def test_wide_beam_finds_the_best_output(norm, penalty):
    limit, source = 4, [3, 5, 4]
    others = [word for word in range(TINY.n_vol) if word != STOP]
    outputs = [list(o) for n in range(limit) for o in itertools.product(others, repeat=n)]
    assert len(outputs) == 1 + 5 + 25 + 125
    for seed in range(2):
        model = exact(TINY.replace(norm=norm), seed)
        best = sorted(((s, o) for s, o in zip(scores(model, source, outputs, penalty), outputs)), reverse=True)
        result = beam_search(model, source, 400, penalty, limit)
        assert [words for words, _ in result] == [words for _, words in best]
        np.testing.assert_allclose([s for _, s in result], [s for s, _ in best], rtol=1e-11)
        assert translate(model, [source], beam=400, length_penalty=penalty, limit=limit) == [best[0][1]]


def test_narrow_beam_misses_the_best_output():
    """So that the test above says something; and scores are those of the full forward pass, at every width."""
    missed = 0
    for seed in range(4):
        model, source = exact(TINY, seed, stop=-2.0), [3, 5, 4]
        best = {}
        for beam in (2, 40):
            actual = beam_search(model, source, beam, 2.0, 7)
            assert len(actual) <= beam and actual == sorted(actual, key=lambda f: -f[1])
            expected = scores(model, source, [words for words, _ in actual], 2.0)
            np.testing.assert_allclose([s for _, s in actual], expected, rtol=1e-11)
            best[beam] = actual[0][1]
        missed += best[2] < best[40] - 1e-9
    assert missed > 0


def test_the_length_penalty_favours_longer_sentences():
    lengths = {}
    for penalty in (0.0, 3.0):
        lengths[penalty] = [
            len(translate(exact(TINY, seed), [[3, 5, 4]], beam=30, length_penalty=penalty)[0]) for seed in range(4)
        ]
    assert all(a <= b for a, b in zip(lengths[0.0], lengths[3.0], strict=True))
    assert sum(lengths[0.0]) < sum(lengths[3.0])


def test_early_end_of_the_search_loses_nothing():
    """The result of a search that stops as soon as nothing can overtake equals the best of all steps."""
    model, source, steps = exact(TINY, stop=6.0), [3, 5, 4], []
    decode = model.decode

    def watching(*arguments):
        steps.append(arguments[0].shape)
        return decode(*arguments)

    object.__setattr__(model, "decode", watching)
    result = beam_search(model, source, 2, 0.0, 7)
    assert len(steps) < 7
    object.__setattr__(model, "decode", decode)
    assert result[0][0] == beam_search(model, source, 40, 0.0, 7)[0][0]


def test_unfinished_sentences_are_returned():
    model, source = exact(TINY, stop=-500.0), [3, 5, 4]
    result = beam_search(model, source, 2, 0.6, 4)
    assert [len(words) for words, _ in result] == [4, 4] and result[0][1] > result[1][1]
    expected = scores(model, source, [words for words, _ in result], 0.6, stops=False)
    np.testing.assert_allclose([s for _, s in result], expected, rtol=1e-11)


def test_batched_beams_equal_single_beams():
    model = exact(stop=1.0)
    together = translate(model, SOURCES, beam=3)
    assert together == [beam_search(model, source, 3, 0.6, 7)[0][0] for source in SOURCES]


# --- 004 as it stands


def literally(model, source, limit):
    """004: feed the k - 1 words predicted so far, all of them seen by all; take the new predictions of the first k."""
    prefix, history = [], []
    for _ in range(limit):
        prefix = [int(row.argmax()) for row in log_p(model, source, prefix, is_causal=False)]
        history.append(list(prefix))
        if prefix[-1] == STOP:
            return prefix[:-1], history
    return prefix, history


def rewritten(history):
    """Does a step change a word that was predicted before it? 004: "he" becomes "i"."""
    return any(after[: len(before)] != before for before, after in itertools.pairwise(history))


@pytest.mark.slow
def test_literal_inference_predicts_the_whole_prefix_anew():
    changed = other = 0
    for seed in range(6):
        model = exact(SMALL.replace(norm="before"), seed)
        for source in SOURCES:
            words, history = literally(model, source, 7)
            assert translate(model, [source], literal=True) == [words]
            changed += rewritten(history)
            other += words != translate(model, [source])[0]
    assert changed > 3 and other > 3


@pytest.mark.parametrize("N", [1, 2])
def test_without_the_mask_earlier_predictions_change(N):
    """Already with one stack; the newest word's prediction, which sees the same words either way, from two on."""
    model, source, output = exact(SMALL.replace(N=N)), SOURCES[0], [5, 4, 7]
    masked, free = log_p(model, source, output), log_p(model, source, output, is_causal=False)
    longer = log_p(model, source, [*output, 3], is_causal=False)
    assert (np.abs(free - longer[:4]).max(1) > 1e-3).all()  # a word is added, and all predictions are other ones
    np.testing.assert_allclose(masked, log_p(model, source, [*output, 3])[:4], rtol=1e-12)  # with the mask none
    assert (np.abs(masked - free).max(1) > 1e-3).tolist() == [True] * 3 + [N > 1]


# --- Inside


@pytest.mark.parametrize("config", LAYOUTS)
def test_cross_attention_weights_are_convex(config):
    model, source, output = exact(config), SOURCES[2], [5, 4, 7]
    maps = cross_attention(model, source, output)
    assert maps.shape == (2, 2, 4, 7)
    assert (maps > 0).all()
    np.testing.assert_allclose(maps.sum(-1), 1, rtol=1e-12)
    # and they are what the second stack really uses: its values, weighted by them, are what its attention gives
    stack, seen = model.decoder[1], []
    hook = stack.attention.register_forward_hook(lambda module, arguments, out: seen.append((arguments[1], out)))
    log_p(model, source, output)
    hook.remove()
    (encoded, out), a = seen[0], stack.attention
    W_V, W_O = a.W_V.detach().numpy(), a.W_O.detach().numpy()
    beta_V, beta_O = (a.beta_V.detach().numpy(), a.beta_O.detach().numpy()) if config.bias else (np.zeros(8), 0)
    heads = [maps[1, j] @ (encoded.numpy()[0] @ W_V[j] + beta_V[4 * j : 4 * j + 4]) for j in range(2)]
    np.testing.assert_allclose(out.numpy()[0], np.concatenate(heads, 1) @ W_O + beta_O, rtol=1e-11, atol=1e-12)


def test_residual_stream_is_the_sum_of_its_writes():
    model, source, output = exact(SMALL.replace(norm="before")), SOURCES[2], [5, 4, 7]
    stream = residual_stream(model, source, output)
    names = [f"encoder.{i}.{category}" for i in range(2) for category in ("attention", "ffn")]
    names += [f"decoder.{i}.{category}" for i in range(2) for category in ("masked", "attention", "ffn")]
    assert [name for name, _, _ in stream] == names
    for half, n in (("encoder", 7), ("decoder", 4)):
        entries = [(b.numpy(), a.numpy()) for name, b, a in stream if name.startswith(half)]
        assert {x.shape for entry in entries for x in entry} == {(n, 8)}
        for (_, after), (before, _) in itertools.pairwise(entries):
            np.testing.assert_array_equal(after, before)
        written = sum(after - before for before, after in entries)
        np.testing.assert_allclose(entries[0][0] + written, entries[-1][1], rtol=1e-12, atol=1e-12)
    # what is read at its end gives the predictions
    Z = model.decoder_norm(stream[-1][2])
    logits = (Z @ model.W_S + model.b_S).detach()
    np.testing.assert_allclose(log_softmax(logits, -1).numpy(), log_p(model, source, output), rtol=1e-11, atol=1e-11)


def test_hooks_are_removed_afterwards():
    model = exact()
    cross_attention(model, SOURCES[0], [5])
    residual_stream(model, SOURCES[0], [5])
    assert not any(module._hooks for module in model.modules())


# --- Errors


@pytest.mark.parametrize(
    ("sources", "how", "sentence"),
    [
        ([[4] * 9], {}, "translate: a sentence of 9 words; the model takes n_max = 8"),
        ([[4], []], {}, "translate: a sentence without words"),
        ([[4]], {"beam": 0}, "translate: beam = 0: 1 to 1,000 is needed"),
        ([[4]], {"beam": 100_000}, "translate: beam = 100000: 1 to 1,000 is needed"),
        ([[4]], {"beam": 2, "temperature": 1.0}, "translate: choose one of beam search"),
        ([[4]], {"beam": 2, "literal": True}, "translate: choose one of beam search"),
        ([[4]], {"temperature": 1.0, "literal": True}, "translate: choose one of beam search"),
        ([[4]], {"beam": 2, "length_penalty": -0.5}, "translate: length penalty = -0.5: 0"),
        ([[4]], {"beam": 2, "length_penalty": math.nan}, "translate: length penalty = nan: 0"),
        ([[4]], {"temperature": -1.0}, "temperature = -1.0: 0"),
        ([[4]], {"temperature": 1.0, "top_k": 0}, "top-k = 0"),
        ([[4]], {"temperature": 1.0, "top_p": 0.0}, "top-p = 0.0"),
    ],
)
def test_invalid_sources_and_options_are_refused(sources, how, sentence):
    with pytest.raises(ValueError, match="^" + re.escape(sentence)) as error:
        translate(exact(), sources, **how)
    assert "\n" not in str(error.value)


def test_weights_of_another_vocabulary_are_refused():
    sentence = "load_state_dict of Transformer: shapes differ (W_Embedding: (10, 8) in the state, (9, 8) in the module"
    with pytest.raises(RuntimeError, match=re.escape(sentence)):
        exact().load_state_dict(exact(SMALL.replace(n_vol=10)).state_dict())


# --- It learns


@pytest.mark.one_in(2)
@pytest.mark.parametrize("norm", ["after", "before"])
def test_example_of_004_is_learnt(norm):
    """je suis étudiant -> i am a student, STOP, in a few steps; all ways to translate but 004's say the same."""
    pairs = [(KNOWN, "i am a student"), ("tu es étudiant", "you are a student"), ("je suis", "i am")]
    words = sorted({word for pair in pairs for sentence in pair for word in sentence.split()})
    number = {word: 3 + i for i, word in enumerate(words)}
    source, target = ([[number[w] for w in pair[i].split()] for pair in pairs] for i in (0, 1))
    tt.manual_seed(0)
    model = Transformer(Config(N=1, d_model=16, h=2, d_ff=32, n_vol=3 + len(words), n_max=8, norm=norm))
    optimizer = tt.optim.AdamW(model.parameters(), lr=0.02)
    x = tensor([row + [PAD] * (5 - len(row)) for row in source])
    y = tensor([row + [STOP] + [PAD] * (4 - len(row)) for row in target])
    for _ in range(60):
        optimizer.zero_grad()
        model(x, y)[1].backward()
        optimizer.step()
    for how in ({}, {"cache": False}, {"beam": 4}, {"temperature": 0.05}):
        assert translate(model, source, **how) == target, how
    assert translate(model, source, literal=True) != target  # it was not trained for this


def test_overflowing_weights_are_named():
    model = exact()
    for p in model.parameters():
        p.data.mul_(1e200)
    with pytest.raises(NonFiniteLogits, match="the model's logits are NaN or inf, so no token can be chosen"):
        translate(model, SOURCES, temperature=1.0, limit=4, generator=Generator())
