"""The page of an encoder-decoder, in a real browser: its numbers are the engine's, and its explanations add up."""

import time

import numpy as np
import pytest

import tinytensor
from models.data import pairs
from models.data.pairs import Pair
from models.data.tokenizers import BPETokenizer, CharTokenizer, WordTokenizer
from models.inference.translate import translate
from models.show import UnknownModule, show
from models.show.program import table
from models.training.trainer import Settings, build_optimizer, training_step
from models.transformer import STOP, Config, Transformer
from tests.models.show.pages import (
    NEAR,
    Scaled,
    assert_equal_to_the_engine,
    loss_shown,
    near,
    press,
    size_of,
    weights_of,
    wrong_explanations,
)
from tests.models.show.running import Text, run
from tinytensor import tensor

PAIRS = [
    Pair("je suis étudiant", "i am a student"),
    Pair("est-ce que tu chantes ?", "do you sing ?"),
    Pair("le chat dort", "the cat sleeps"),
]
SMALL = {"N": 1, "d_model": 8, "h": 2, "d_ff": 12, "n_max": 12}
LAYOUTS = {
    "document 004": {"N": 2},
    "document 002": {
        "norm": "before", "bias": True, "tied": True, "begin": "token", "reduction": "mean", "label_smoothing": 0.1,
    },
    "bare": {"d_k": 3, "d_v": 5, "affine": False, "positions": False, "label_smoothing": 0.3},
}  # fmt: skip


@pytest.fixture(scope="module")
def tokenizer():
    return pairs.train_tokenizer(WordTokenizer, PAIRS, None)


def built(tokenizer, **changes) -> Transformer:
    """A small model with weights that are not those of the beginning, but near them.

    With a large delta all rows of the encoder are alike. Then the terms of a gradient of Q or K cancel, and 32-bit
    numbers, the engine's too, keep fewer than five digits of it.
    """
    tinytensor.manual_seed(3)
    model = Transformer(Config(**(SMALL | {"n_vol": tokenizer.vocab_size} | changes)))
    with tinytensor.no_grad():
        for p in model.parameters():
            p += 0.1 * tinytensor.randn(*p.shape)
        model.b_S[: tokenizer.unknown + 1] = -9.0  # no special token is likely, but STOP
        model.b_S[STOP] = 0.0
    return model


def texts(tokenizer, pair) -> Text:
    return Text.pair(*pairs.example(tokenizer, pair))


@pytest.fixture(scope="module")
def opened(browser, tokenizer, tmp_path_factory):
    """opened(model, **options): the page of a model, in the browser."""
    folder = tmp_path_factory.mktemp("pages")

    def open_(model, pair=PAIRS[0], hash="", **options):
        named = {"text": pair and pair.source, "target": pair and pair.target} | options
        path = show(model, folder / "page.html", named.pop("tokenizer", tokenizer), **named)
        browser.get("about:blank")
        browser.get(f"file://{path}{hash}")
        return browser

    return open_


def take(driver, pair):
    driver.execute_script(
        "document.getElementById('source').value = arguments[0]; return take(arguments[1])", pair.source, pair.target
    )


def notice(driver) -> str:
    return driver.find_element("id", "notice").text


def tokens_of(driver) -> list[int]:
    return driver.execute_script("return page.tokens")


# --- The numbers


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_table_computes_what_the_translator_does(layout, tokenizer):
    model = built(tokenizer, **LAYOUTS[layout])
    source, target = pairs.example(tokenizer, PAIRS[1])
    made = table(model)
    values = run(made, model, texts(tokenizer, PAIRS[1]))
    assert {v.weight for v in made.variables} - {None} == {name for name, _ in model.named_parameters()}
    largest = {v.weight: size_of(v.key, values) for v in made.variables if v.weight is not None}
    gradients = {name: p.grad for name, p in model.named_parameters()}
    for p in model.parameters():
        p.grad = None
    logits, loss = model(tensor([source]), tensor([target]))
    loss.backward()
    near(values["L"].detach().numpy().reshape(-1), logits.detach().numpy(), "the logits")
    assert values["loss"].item() == pytest.approx(loss.item(), rel=NEAR)
    for name, p in model.named_parameters():
        near(gradients[name].numpy().reshape(-1), p.grad.numpy(), name, largest[name])


@pytest.mark.one_in(3)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_numbers_of_three_pairs_and_their_terms_agree(layout, opened, tokenizer):
    model = built(tokenizer, **LAYOUTS[layout])
    driver = opened(model)
    for pair in PAIRS:
        take(driver, pair)
        assert_equal_to_the_engine(driver, model, texts(tokenizer, pair))
    assert wrong_explanations(driver) == []


def test_a_wrong_number_of_a_translator_is_noticed(opened, tokenizer):
    model = built(tokenizer)
    driver = opened(model)
    driver.execute_script("page.state.values['D1.cross.k'].data[3] *= 1.0001")
    with pytest.raises(AssertionError, match=r"D1\.cross\.k"):
        assert_equal_to_the_engine(driver, model, texts(tokenizer, PAIRS[0]))


def test_wrong_terms_of_a_translator_are_noticed(opened, tokenizer):
    driver = opened(built(tokenizer, label_smoothing=0.2), PAIRS[1])
    driver.execute_script(
        "const old = OPERATIONS.cross_entropy.sent;"
        "OPERATIONS.cross_entropy.sent = (...all) => old(...all).filter((t) => t.factor !== -0.2 / all[1][0].columns)"
    )
    assert {line.split(":")[0] for line in wrong_explanations(driver)} == {"the gradient of L"}


# --- Learning


def test_a_step_on_a_pair_is_that_of_the_engine(opened, tokenizer):
    model, (source, target) = built(tokenizer), pairs.example(tokenizer, PAIRS[0])
    settings = Settings(lr=0.02, weight_decay=0.1, clip=0.5)
    driver = opened(model, settings=vars(settings))
    engine = build_optimizer(model, Settings(**vars(settings) | {"lr": driver.execute_script("return how().lr")}))
    step, before = training_step(model, engine, settings.clip), weights_of(driver)
    for _ in range(2):
        step(tensor([source]), tensor([target]))
    press(driver, "learn", 2)
    parameters, result = dict(model.named_parameters()), weights_of(driver)
    for v in table(model).variables:
        if v.weight is not None:
            near(result[v.key], parameters[v.weight].detach().numpy(), v.key)
            assert np.abs(result[v.key] - before[v.key]).max() > 1e-3, v.key
    press(driver, "undo", 2)
    after = weights_of(driver)
    assert all(np.array_equal(after[key], before[key]) for key in before)


@pytest.mark.slow
def test_ten_presses_learn_a_translation(opened, tokenizer):
    tinytensor.manual_seed(0)
    model = Transformer(Config(d_model=32, h=4, d_ff=64, n_vol=tokenizer.vocab_size, n_max=12, reduction="mean"))
    driver = opened(model, settings={"lr": 0.02})
    before = loss_shown(driver)
    press(driver, "learn-ten")
    assert before > 2 and loss_shown(driver) < 0.1
    deadline = time.monotonic() + 300
    while "i am a student, which is the target" not in driver.find_element("id", "writes").text:
        assert time.monotonic() < deadline, driver.find_element("id", "writes").text
        time.sleep(0.05)


# --- Writing


def test_the_page_translates_as_the_model_does(opened, tokenizer):
    model = built(tokenizer)
    source = pairs.encode(tokenizer, PAIRS[2].source)
    expected = translate(model, [source])[0]
    driver = opened(model, PAIRS[2])
    driver.execute_script(
        "const s = document.getElementById('temperature'); s.value = 0; s.dispatchEvent(new Event('input'))"
    )
    press(driver, "anew")
    assert tokens_of(driver) == [1] and "has no word yet" in driver.find_element("id", "tokens-about").text
    press(driver, "learn")
    assert "no loss" in notice(driver) and driver.find_element("id", "loss-said").text == "–"
    press(driver, "append")
    assert tokens_of(driver) == [1, *[*expected, STOP][:1]]
    press(driver, "append-ten")
    ended = [STOP] if len(expected) < SMALL["n_max"] - 1 else []
    assert tokens_of(driver) == [1, *expected, *ended]


@pytest.mark.slow
def test_a_word_goes_before_the_end_of_the_target(opened, tokenizer):
    driver = opened(built(tokenizer))
    word = tokenizer.encode(" cat")[0]
    before = tokens_of(driver)
    assert before[-1] == STOP
    driver.execute_script("append([arguments[0]])", word)
    assert tokens_of(driver) == [*before[:-1], word]
    assert driver.find_element("id", "text").get_attribute("value") == "i am a student cat"


# --- The reader


def test_the_address_names_both_sentences(opened, tokenizer):
    link = "#source=le+chat+dort&text=the+cat&ended=no&cell=D1.cross.weights%3Avalue%3A2%3A3%3A2&view=both"
    driver = opened(built(tokenizer), hash=link)
    assert driver.find_element("id", "source").get_attribute("value") == "le chat dort"
    assert tokens_of(driver) == [1, *pairs.encode(tokenizer, "the cat")]
    shown = driver.find_element("id", "cell").text
    assert "“cat” (position 3) gives" in shown and "“chat” (position 2 of the source)" in shown and "✓" in shown
    deadline = time.monotonic() + 300
    while "ended=no" not in driver.current_url or "source=le+chat+dort" not in driver.current_url:
        assert time.monotonic() < deadline, driver.current_url
        time.sleep(0.05)


def test_a_word_of_the_source_is_followed_in_columns(opened, tokenizer):
    driver = opened(built(tokenizer))
    driver.execute_script("document.querySelectorAll('#source-tokens button')[1].click()")
    marks = driver.execute_script(
        "return ['E1.q', 'D1.cross.weights', 'D1.cross.q'].map((key) => "
        "[...document.querySelectorAll(`figure[data-key='${key}'] .follow`)].map((box) => "
        "['width', 'height'].map((side) => parseFloat(box.style[side])"
        " / cellSize(variable(key), page.state.values[key])[0])))"
    )
    assert marks == [[[4, 1]] * 2, [[1, 5]] * 2, []]


def test_a_pair_that_does_not_fit_gets_a_sentence(opened, tokenizer):
    driver = opened(built(tokenizer))
    before = tokens_of(driver)
    for pair, sentence in (
        (Pair("", "i am"), "source sentence is empty"),
        (Pair("le chat " * 7, "i am"), "source has 14 tokens, but the model takes n_max = 12"),
        (Pair("le chat", "the cat " * 6), "target has 12 tokens and <stop>"),
    ):
        take(driver, pair)
        assert sentence in notice(driver)
        assert tokens_of(driver) == before
    take(driver, Pair("le zèbre dort", "the zebra sleeps"))
    assert "“zèbre”, “zebra”" in notice(driver)
    assert tokens_of(driver) == [1, *pairs.encode(tokenizer, "the zebra sleeps"), STOP]
    assert tokenizer.unknown in tokens_of(driver)


@pytest.mark.slow
def test_sentences_become_the_tokens_of_the_translator(opened):
    corpus = [*PAIRS, Pair("l'été à Paris, c'est  beau !", "summer in Paris is beautiful !")]
    sentences = ["  le\tchat\u00a0dort ", "e\u0301tudiant", "", "zèbre étudiant?", *(p.source for p in corpus)]
    for category, size in ((WordTokenizer, None), (BPETokenizer, 60)):
        tokenizer = pairs.train_tokenizer(category, corpus, size)
        driver = opened(built(tokenizer, n_max=64), tokenizer=tokenizer)
        for text in filter(None, sentences):
            assert driver.execute_script("return sentence(arguments[0])", text) == pairs.encode(tokenizer, text), text
        assert driver.execute_script("return sentence('  ')") == []


def test_the_page_of_a_translator_is_silent(opened, tokenizer):
    driver = opened(built(tokenizer))
    press(driver, "learn", 2)
    driver.execute_script("setView('both')")
    for key in ("E", "source.PE", "E1.weights", "D1.masked.S'", "D1.cross.k", "E1.Z4", "D1.R4", "losses", "loss"):
        for of in ("value", "gradient"):
            driver.execute_script("choose({key: arguments[0], of: arguments[1], at: [0, 0, 0]}, {pin: true})", key, of)
            assert "✗" not in driver.find_element("id", "cell").text
    driver.execute_script("choose({key: 'D1.cross.K', of: 'change', at: [1, 3, 2]}, {pin: true})")
    assert "AdamW" in driver.find_element("id", "cell").text and "✓" in driver.find_element("id", "cell").text
    assert driver.execute_script("return performance.getEntriesByType('resource').length") == 0
    assert driver.get_log("browser") == []


# --- Refusals


def test_unknown_modules_of_a_translator_are_refused(tokenizer, tmp_path):
    model = built(tokenizer)
    model.decoder[0].add_ffn.norm = Scaled()
    with pytest.raises(UnknownModule, match=r"decoder\.0\.add_ffn\.norm is a Scaled, and there are no equations"):
        show(model, tmp_path / "page.html", tokenizer)
    assert not list(tmp_path.iterdir())


def test_pairs_that_do_not_fit_are_refused(tokenizer, tmp_path):
    model, path = built(tokenizer), tmp_path / "page.html"
    for source, target, sentence in (
        (" ", None, "source sentence is empty"),
        ("le chat " * 7, None, "source sentence has 14 tokens, but the model takes n_max = 12"),
        ("le chat", "the cat " * 6, "target with <stop> has 13 tokens"),
        ("le zèbre dort", None, "does not have 'zèbre'"),
        ("le chat", "the zebra", "does not have 'zebra'"),
    ):
        with pytest.raises(ValueError, match=sentence):
            show(model, path, tokenizer, source, target=target)
    with pytest.raises(ValueError, match=r"knows 3 tokens, but the model has n_vol = "):
        show(model, path, CharTokenizer(["a", "b"]))
    assert not path.exists()


def test_the_target_is_the_translation_of_the_model(opened, tokenizer):
    model = built(tokenizer)
    driver = opened(model, None)  # the source is the example of 004, which this vocabulary knows
    source = pairs.encode(tokenizer, driver.find_element("id", "source").get_attribute("value"))
    assert source == pairs.encode(tokenizer, PAIRS[0].source)
    expected = translate(model, [source], limit=2 * len(source) + 10)[0]
    assert tokens_of(driver) == ([1, *expected, STOP] if expected else [1])
