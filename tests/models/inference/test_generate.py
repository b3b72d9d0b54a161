"""Sampling: the cache changes no bit, the settings leave the tokens they should, a seed repeats a text."""

import re
from collections import Counter
from itertools import islice

import numpy as np
import pytest

import tinytensor
from models.decoder import CONFIGS, Config, Decoder
from models.inference import generate as module
from models.inference.generate import NonFiniteLogits, Sampler, choose, choosing, generate, window
from tests.tools.sampling_rate import THOROUGH
from tinytensor import Generator, compile, nn, no_grad, tensor

SMALL = Config(D=16, H=2, F=24, L=2, V=50, C=12)


def model_of(config, seed=0):
    tinytensor.manual_seed(seed)
    model = Decoder(config)
    for p in model.parameters():
        nn.init.normal_(p, std=0.4)
    return model


def traced(monkeypatch, model, prompt, count, **settings):
    """The tokens, and the logits from which each was chosen (which a recorded step would not show)."""
    seen = []

    def watching(logits, *args):
        seen.append(logits.numpy().copy())
        return choose(logits, *args)

    monkeypatch.setattr(module, "choose", watching)
    generator = Generator().manual_seed(7)
    return list(generate(model, prompt, count, generator=generator, eager=True, **settings)), np.array(seen)


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    "config",
    [
        SMALL,
        SMALL.replace(C=13),
        SMALL.replace(C=1),
        SMALL.replace(residual="pre-norm", norm="affine", activation="gelu", attention_bias=True, tied=True),
        SMALL.replace(residual="once", norm="rms", positions=False),
        CONFIGS["toth-tiny"],
    ],
)
def test_cache_changes_no_bit(monkeypatch, config):
    model = model_of(config)
    count = 3 * config.C + 5  # far beyond the context: the window has to jump
    with_cache, logits = traced(monkeypatch, model, [1, 2, 3], count)
    without, expected = traced(monkeypatch, model, [1, 2, 3], count, cache=False)
    assert with_cache == without
    assert logits.shape == (count, config.V)
    np.testing.assert_array_equal(logits, expected)


HOT = {"temperature": 30.0}  # the small model is very sure of itself


@pytest.mark.parametrize("settings", [HOT, {"temperature": 0}, HOT | {"top_k": 5}, HOT | {"top_p": 0.6}])
def test_recorded_step_changes_no_token(settings):
    model = model_of(SMALL)
    texts = [
        list(generate(model, [1, 2, 3], 41, generator=Generator().manual_seed(7), eager=eager, **settings))
        for eager in (True, False)
    ]
    assert texts[0] == texts[1]
    assert len(set(texts[0])) > 3 or not settings["temperature"]


@pytest.mark.parametrize("chunk", [1, 2, 5, 100])
def test_chunks_change_no_token(monkeypatch, chunk):
    model = model_of(SMALL)

    def texts():
        """Two texts one after the other: the first is left after so many tokens."""
        generator, sampler = Generator().manual_seed(3), Sampler(model, **HOT)
        return [[*islice(sampler([5], 30, generator), 7)], [*sampler([1, 2, 3], 30, generator)]]

    expected = texts()
    monkeypatch.setattr(module, "CHUNK", chunk)
    assert texts() == expected
    assert len(set(expected[1])) > 3


def test_sampler_writes_two_texts_at_once():
    sampler = Sampler(model_of(SMALL), **HOT)

    def text(seed):
        return sampler([seed], 30, Generator().manual_seed(seed))

    one_by_one = [(*pair,) for pair in zip(list(text(1)), list(text(2)), strict=True)]
    assert list(zip(text(1), text(2), strict=True)) == one_by_one
    assert len(sampler.idle) == 2


def test_changed_weights_reach_the_next_text():
    model = model_of(SMALL)
    sampler = Sampler(model, temperature=0)
    first = list(sampler([1], 20))
    with no_grad():
        model.O.mul_(-1)
    second = list(sampler([1], 20))
    assert second == list(generate(model, [1], 20, temperature=0, eager=True)) != first


def test_the_step_is_recorded_once(monkeypatch):
    steps = []
    monkeypatch.setattr(module, "compile", lambda function: steps.append(compile(function)) or steps[-1])
    list(generate(model_of(SMALL), [1, 2, 3], 41))
    (step,) = steps
    assert [len(recorded) for recorded in step.recordings.values()] == [1]


def test_the_cache_computes_one_row_a_token(monkeypatch):
    model = model_of(SMALL)
    rows = []
    model.blocks[0].register_forward_hook(lambda block, args, output: rows.append(args[0].shape[1]))
    list(generate(model, [1, 2, 3], 16, eager=True))
    assert rows == [3] + [1] * 9 + [7] + [1] * 5  # the window is full at 12 tokens and goes on with the last 7


def test_logits_are_those_of_a_plain_forward_pass(monkeypatch):
    model = model_of(SMALL)
    tokens, logits = traced(monkeypatch, model, [4, 5], 10)
    plain = model(tensor([[4, 5, *tokens]]))[0].detach().numpy()[0]
    np.testing.assert_array_equal(logits, plain[1:11])


def test_model_without_the_mask_is_not_cached(monkeypatch):
    model = model_of(SMALL.replace(causal=False))
    with_cache, logits = traced(monkeypatch, model, [1, 2, 3], 8)
    plain = [model(tensor([[1, 2, 3, *with_cache[:i]]]))[0].detach().numpy()[0, -1] for i in range(8)]
    np.testing.assert_array_equal(logits, plain)


def test_windows_hold_half_to_all_of_the_context():
    for C in (1, 2, 7, 96):
        starts = [window(n, C) for n in range(1, 5 * C)]
        for n, start in enumerate(starts, 1):
            assert n - C <= start < n
            assert n <= C or n - start > C - max(1, C // 2)
        assert starts == sorted(starts)
        assert len(set(starts)) <= 1 + -(-4 * C // max(1, C // 2))  # it jumps, and not at each token


def test_temperature_0_takes_the_largest():
    logits = tensor([1.0, 3.0, 3.0, 2.0])
    assert {choose(logits, 0, None, None).item() for _ in range(5)} == {1}


def counts(logits, temperature=1.0, top_k=None, top_p=None, draws=4000 if THOROUGH else 2000):
    generator = Generator().manual_seed(3)
    result = Counter(choose(tensor(logits), temperature, top_k, top_p, generator).item() for _ in range(draws))
    return np.array([result[i] for i in range(len(logits))]) / draws


def softmax(x):
    e = np.exp(np.array(x) - max(x))
    return e / e.sum()


LOGITS = [0.0, 2.0, 1.0, -1.0, 1.5]


@pytest.mark.slow
@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_frequencies_are_those_of_the_softmax(temperature):
    expected = softmax(np.array(LOGITS) / temperature)
    np.testing.assert_allclose(counts(LOGITS, temperature), expected, atol=4 * np.sqrt(0.25 / 4000))


@pytest.mark.slow
def test_top_k_leaves_the_k_likeliest():
    actual = counts(LOGITS, top_k=2)
    assert set(np.nonzero(actual)[0]) == {1, 4}
    np.testing.assert_allclose(actual[[1, 4]], softmax([2.0, 1.5]), atol=0.04)
    assert (counts(LOGITS, top_k=99) > 0).all()


@pytest.mark.slow
def test_top_p_leaves_the_smallest_set_with_that_probability():
    p = softmax(LOGITS)  # 0.42, 0.26, 0.16, ...: tokens 1, 4, 2, 0, 3
    for top_p, left in [(0.01, {1}), (p[1] + 0.01, {1, 4}), (p[1] + p[4] + 0.01, {1, 4, 2}), (1.0, {0, 1, 2, 3, 4})]:
        assert set(np.nonzero(counts(LOGITS, top_p=top_p))[0]) == left


def test_tiny_temperature_stays_finite():
    assert counts(LOGITS, temperature=1e-30, draws=20)[1] == 1


def test_seed_repeats_a_text_without_the_global_generator():
    model = model_of(SMALL)

    def text(seed):
        return list(generate(model, [1], 30, generator=Generator().manual_seed(seed)))

    state = tinytensor.default_generator.get_state()
    assert text(5) == text(5)
    assert text(5) != text(6)
    assert tinytensor.default_generator.get_state() == state


def test_sampling_switches_dropout_off_and_on_again():
    model = model_of(SMALL.replace(dropout=0.5))
    assert model.training
    first, second = (list(generate(model, [1], 10, temperature=0)) for _ in range(2))
    assert first == second
    assert model.training


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"temperature": -1}, "temperature = -1"),
        ({"temperature": float("nan")}, "temperature = nan"),
        ({"top_k": 0}, "top-k = 0"),
        ({"top_p": 0.0}, "top-p = 0.0"),
        ({"top_p": 1.1}, "top-p = 1.1"),
    ],
)
def test_invalid_sampling_settings_are_refused(settings, sentence):
    with pytest.raises(ValueError, match="^" + re.escape(sentence)):
        next(generate(model_of(SMALL), [1], 1, **settings))


def test_empty_prompt_is_refused():
    with pytest.raises(ValueError, match="at least one token"):
        next(generate(model_of(SMALL), [], 1))


@pytest.mark.parametrize("settings", [{}, {"eager": True}, {"cache": False}])
def test_overflowing_weights_are_named(settings):
    model = model_of(SMALL)
    for p in model.parameters():
        p.data.mul_(1e30)
    with pytest.raises(NonFiniteLogits, match="the model's logits are NaN or inf, so no token can be chosen"):
        list(generate(model, [1, 2], 5, **settings))
    assert not list(generate(model, [1, 2], 0, **settings))


def test_other_errors_are_not_nonfinite_logits():
    with pytest.raises(RuntimeError, match="matmul: shapes") as other, choosing():
        raise RuntimeError("matmul: shapes")
    assert not isinstance(other.value, NonFiniteLogits)
