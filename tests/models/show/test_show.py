"""The page of a trained model, in a real browser: its numbers are the engine's, and its explanations add up."""

import json
import time

import numpy as np
import pytest

import tinytensor
from models.data.text import IGNORE_INDEX
from models.data.tokenizers import BPETokenizer, CharTokenizer, WordTokenizer
from models.decoder import Config, Decoder
from models.show import UnknownModule, show
from models.show.program import table
from models.training.trainer import Settings, build_optimizer, training_step
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

TEXT = "the cat sat on the mat; the dog lay by the door.\n"
TINY = {"D": 8, "H": 2, "F": 12, "L": 2, "C": 40}
LAYOUTS = {
    "document 003": {},
    "GPT-2": {
        "residual": "pre-norm", "norm": "affine", "final_norm": True, "activation": "gelu", "attention_bias": True,
        "tied": True,
    },
    "microgpt": {"residual": "once", "norm": "rms", "bias": False, "L": 1},
    "no mask": {"causal": False, "positions": False, "norm": "scale", "residual": "once"},
}  # fmt: skip


@pytest.fixture(scope="module")
def tokenizer():
    return CharTokenizer.train([TEXT])


def built(tokenizer, **changes) -> Decoder:
    """A small model with weights that are not those of the beginning."""
    tinytensor.manual_seed(3)
    model = Decoder(Config(**(TINY | {"V": tokenizer.vocab_size} | changes)))
    with tinytensor.no_grad():
        for p in model.parameters():
            p += 0.3 * tinytensor.randn(*p.shape)
    return model


@pytest.fixture(scope="module")
def opened(browser, tokenizer, tmp_path_factory):
    """opened(model, **options): the page of a model, in the browser."""
    folder = tmp_path_factory.mktemp("pages")

    def open_(model, text="the cat sat", hash="", **options):
        path = show(model, folder / "page.html", options.pop("tokenizer", tokenizer), text, **options)
        browser.get("about:blank")
        browser.get(f"file://{path}{hash}")
        return browser

    return open_


# --- The numbers


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_table_computes_what_the_model_does(layout, tokenizer):
    model = built(tokenizer, **LAYOUTS[layout])
    tokens = tokenizer.encode("the dog lay")
    made = table(model)
    values = run(made, model, Text.of(tokens))
    largest = {v.weight: size_of(v.key, values) for v in made.variables if v.weight is not None}
    gradients = {name: p.grad for name, p in model.named_parameters()}
    for p in model.parameters():
        p.grad = None
    logits, loss = model(tensor([tokens]), tensor([[*tokens[1:], IGNORE_INDEX]]))
    loss.backward()
    near(values["L"].detach().numpy().reshape(-1), logits.detach().numpy(), "the logits")
    assert values["loss"].item() == pytest.approx(loss.item(), rel=NEAR)
    for name, p in model.named_parameters():
        assert (p.grad is None) == (gradients[name] is None), name
        if p.grad is not None:
            near(gradients[name].numpy().reshape(-1), p.grad.numpy(), name, largest[name])


@pytest.mark.slow
def test_three_texts_give_the_numbers_of_the_engine(opened, tokenizer):
    model = built(tokenizer)
    driver = opened(model)
    for text in ("the cat sat", "dog; dog; dog.\n", "mat by door by the mat on the cat, sat"):
        driver.execute_script("return take(arguments[0])", text.replace(",", ";"))
        assert_equal_to_the_engine(driver, model, Text.of(tokenizer.encode(text.replace(",", ";"))))


@pytest.mark.slow
@pytest.mark.parametrize("layout", list(LAYOUTS)[1:])
def test_other_layouts_give_the_numbers_of_the_engine(layout, opened, tokenizer):
    model = built(tokenizer, **LAYOUTS[layout])
    text = "the dog lay by the"
    assert_equal_to_the_engine(opened(model, text), model, Text.of(tokenizer.encode(text)))


def test_a_wrong_number_is_noticed(opened, tokenizer):
    model = built(tokenizer)
    driver = opened(model)
    driver.execute_script("page.state.values['2.q'].data[3] *= 1.0001")
    with pytest.raises(AssertionError, match=r"2\.q"):
        assert_equal_to_the_engine(driver, model, Text.of(tokenizer.encode("the cat sat")))


# --- Explanations


@pytest.mark.one_in(4)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_terms_of_a_cell_add_up_to_it(layout, opened, tokenizer):
    driver = opened(built(tokenizer, **LAYOUTS[layout]), "the dog lay by the")
    assert wrong_explanations(driver) == []


def test_terms_that_do_not_add_up_are_noticed(opened, tokenizer):
    driver = opened(built(tokenizer), "the dog lay by the")
    driver.execute_script(
        "const old = OPERATIONS.mix.sent;"
        "OPERATIONS.mix.sent = (slot, ...rest) => old(slot, ...rest).map((t) => ({...t, factor: slot ? 1.01 : 1}))"
    )
    assert {line.split(":")[0] for line in wrong_explanations(driver)} == {"the gradient of 1.v", "the gradient of 2.v"}


# --- Learning


@pytest.mark.slow
@pytest.mark.parametrize("optimizer", ["adamw", "sgd"])
def test_steps_of_learning_are_those_of_the_engine(optimizer, opened, tokenizer):
    model, tokens = built(tokenizer), tokenizer.encode("the cat sat")
    decay = 0.1 if optimizer == "adamw" else 0.0
    settings = Settings(optimizer=optimizer, lr=0.02 if optimizer == "adamw" else 1.0, weight_decay=decay, clip=0.5)
    driver = opened(model, settings=vars(settings))
    rate = driver.execute_script("return how().lr")
    engine = build_optimizer(model, Settings(**vars(settings) | {"lr": rate}))
    step = training_step(model, engine, settings.clip)
    before = weights_of(driver)
    for _ in range(3):
        step(tensor([tokens[:-1]]), tensor([tokens[1:]]))
    press(driver, "learn", 3)
    for v in table(model).variables:
        if v.weight is not None:
            p = dict(model.named_parameters())[v.weight]
            near(weights_of(driver)[v.key], p.detach().numpy(), v.key)
            assert np.abs(weights_of(driver)[v.key] - before[v.key]).max() > 1e-3, v.key
    press(driver, "undo", 3)
    after = weights_of(driver)
    assert all(np.array_equal(after[key], before[key]) for key in before)


@pytest.mark.slow
def test_ten_presses_learn_a_sentence(opened, tokenizer):
    """At the rate that the page proposes, half of the training's largest."""
    tinytensor.manual_seed(0)
    model = Decoder(Config(D=32, H=4, F=64, L=2, C=60, V=tokenizer.vocab_size))
    driver = opened(model, TEXT)
    before = loss_shown(driver)
    press(driver, "learn", 10)
    assert before > 2 and loss_shown(driver) < 0.1
    deadline = time.monotonic() + 300
    while TEXT.strip()[-12:] not in driver.find_element("id", "writes").text:  # it writes the sentence by heart now
        assert time.monotonic() < deadline, driver.find_element("id", "writes").text
        time.sleep(0.1)


# --- The worker

SAME = """
const done = arguments[arguments.length - 1], same = (a, b) => Object.keys(a).length === Object.keys(b).length
  && Object.keys(a).every((key) => a[key].data.every((x, i) => Object.is(x, b[key].data[i])));
const jobs = [{kind: "run"}, {kind: "learn", moments: {}, how: how(), count: 2}, {kind: "forward"}];
const here = new Work(data.table, false, ""), expected = [], found = [];
for (const job of jobs) {
  Object.assign(job, {weights: page.weights, read: read(page.tokens)});
  here.ask(job, (result) => expected.push(result));
}
work.start(data.table, arguments[0]);
const kind = work.worker.constructor.name;
for (const job of jobs) work.ask(job, (result) => {
  if (found.push(result) < 3) return;
  const [run, learnt, row] = found, [run0, learnt0, row0] = expected;
  done([kind, Boolean(work.worker), same(run.state.values, run0.state.values),
    same(run.state.gradients, run0.state.gradients), same(learnt.weights, learnt0.weights),
    same(learnt.last.changes, learnt0.last.changes),
    learnt.losses.join() === learnt0.losses.join(),
    row.loss === row0.loss && row.logits.join() === row0.logits.join()]);
});
"""


@pytest.mark.slow
@pytest.mark.parametrize("works", [True, False])
def test_a_worker_gives_the_numbers_of_the_page(works, opened, tokenizer):
    """Without a worker the page does the jobs itself."""
    driver = opened(built(tokenizer))
    script = driver.execute_script("return byId('program').textContent") if works else "throw new Error('none')"
    category, still_there, *same = driver.execute_async_script(SAME, script)
    assert category == "Worker" and still_there == works and same == [True] * 6


@pytest.mark.slow
def test_a_page_with_a_worker_learns_and_goes_back(opened, tokenizer):
    driver = opened(built(tokenizer))
    driver.execute_script("work.start(data.table, byId('program').textContent)")
    before = weights_of(driver)
    press(driver, "learn", 2)  # the second press waits for the first
    wait(driver, "return page.trail?.length === 3 && !page.busy")
    assert loss_shown(driver) < driver.execute_script("return page.trail[0]")
    press(driver, "undo", 1)
    press(driver, "append", 1)
    wait(driver, "return page.tokens.length === 12 && !page.busy")
    assert driver.execute_script("return page.trail.length") == 2
    press(driver, "undo", 1)
    wait(driver, "return page.trail === undefined && !page.busy")
    after = weights_of(driver)
    assert all(np.array_equal(after[key], before[key]) for key in before) and driver.get_log("browser") == []


def wait(driver, condition):
    deadline = time.monotonic() + 300
    while not driver.execute_script(condition):
        assert time.monotonic() < deadline, condition
        time.sleep(0.02)


# --- The plan


@pytest.mark.slow
def test_the_plan_shows_every_array_and_goes_to_its_map(opened, tokenizer):
    driver = opened(built(tokenizer, **LAYOUTS["GPT-2"]), hash="#cell=1.A:value:1:2:3")
    keys = driver.execute_script("return [...document.querySelectorAll('.plan button')].map((b) => b.dataset.key)")
    assert set(keys) == {v.key for v in table(built(tokenizer, **LAYOUTS["GPT-2"])).variables}
    marked = "return [...document.querySelectorAll('.plan button.' + arguments[0])].map((b) => b.dataset.key)"
    assert driver.execute_script(marked, "here") == ["1.A"]
    assert set(driver.execute_script(marked, "met")) == {"1.Yhat", "1.W", "1.bias of W"}
    ends = "return [...document.querySelectorAll('.plan path.on')].map((p) => [p.dataset.from, p.dataset.to])"
    assert {(a, b) for a, b in driver.execute_script(ends)} == {
        ("1.Yhat", "1.A"),
        ("1.W", "1.A"),
        ("1.bias of W", "1.A"),
    }
    driver.execute_script("document.querySelector('.plan button[data-key=\"2.q\"]').click()")
    figure = "return document.activeElement.closest('figure').dataset.key"
    assert driver.execute_script(figure) == "2.q"
    for text in ("the dog lay by the", "t"):
        driver.execute_script("take(arguments[0])", text)
        boxes, (width, height), lines = driver.execute_script(PLAN)
        for left, top, wide, high in boxes:
            assert left >= 0 and top >= 0 and left + wide <= width and top + high <= height, text
        for left, top, wide, high in lines:
            assert left >= 0 and top >= 0 and left + wide <= width and top + high <= height, text


PLAN = """
const all = (selector, of) => [...document.querySelectorAll(selector)].map(of);
return [all('.plan button', (b) => [b.offsetLeft, b.offsetTop, b.offsetWidth, b.offsetHeight]),
  [plan.width, plan.height],
  all('.plan path[data-from]', (p) => p.getBBox()).map((b) => [b.x, b.y, b.width, b.height])];
"""


# --- Tokenizers

HARD = (
    "Grüße aus 東京, ½ Ⅷ x² naïve e\u0301a _under_score\u203ftie \u00a0\u2003 a\x1cb\x85c\ufeffd "
    "\U0001f469\u200d\U0001f680 ⓐⅨ½a the  cat\t\tsat...\n\n!?€ don't"
)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("category", ["char", "word", "bpe"])
def test_texts_become_the_tokens_of_the_tokenizer(category, opened):
    corpus = [TEXT, "Grüße aus 東京, the theme: this, that; don't... naïve e\u0301a x² ½ a\x85c " * 3]
    tokenizer = {
        "char": lambda: CharTokenizer.train(corpus),
        "word": lambda: WordTokenizer.train(corpus),
        "bpe": lambda: BPETokenizer.train(corpus, 70),
    }[category]()
    driver = opened(built(tokenizer), "the cat", tokenizer=tokenizer)
    texts = [TEXT, HARD, "", " ", "the\ufffdcat", *corpus, "a" * 250, "." * 150]
    for text in texts:
        actual = driver.execute_script("return tokenizer.encode(arguments[0])", text)
        assert actual == tokenizer.encode(text), text
        assert driver.execute_script("return tokenizer.decode(arguments[0])", actual) == tokenizer.decode(actual)


# --- Through training


def test_the_slider_goes_from_the_first_to_the_last_weights(opened, tokenizer):
    model, first = built(tokenizer), built(tokenizer)
    with tinytensor.no_grad():
        for p in first.parameters():
            p += 1.5
    names = {v.key: v.weight for v in table(model).variables if v.weight is not None}
    snapshots = {0: first.state_dict(), 10: model.state_dict(), 999: first.state_dict()}
    driver = opened(model, step=20, snapshots=snapshots, losses=[(5, 3.0), (10, 2.5)])
    for step, position, kept, within in ((20, 2, model, 0), (0, 0, first, 2**-11)):
        driver.execute_script(
            "const s = document.getElementById('step'); s.value = arguments[0]; s.dispatchEvent(new Event('input'))",
            position,
            position,
        )
        assert driver.find_element("id", "step-said").text == str(step)
        actual = weights_of(driver)
        for key, name in names.items():
            p = dict(kept.named_parameters())[name].detach().numpy().reshape(-1)
            np.testing.assert_allclose(actual[key], p, rtol=within, atol=within and 2**-24)
    assert driver.find_element("id", "step").get_attribute("max") == "2"  # 999 is after the last step


# --- The reader


def test_what_the_address_names_is_shown(opened, tokenizer):
    model = built(tokenizer)
    link = "#step=7&text=the+dog&view=both&cell=2.weights%3Agradient%3A2%3A5%3A3"
    driver = opened(model, hash=link, step=7)
    assert driver.find_element("id", "text").get_attribute("value") == "the dog"
    chosen = driver.execute_script("return page.chosen")
    assert chosen == {"key": "2.weights", "of": "gradient", "at": [1, 4, 2]}
    assert "✓" in driver.find_element("id", "cell").text
    for bad in (
        "cell=2.nothing%3Avalue%3A1%3A1%3A1",
        "cell=2.weights%3Avalue%3A9%3A1%3A1",
        "step=3",
        "text=",
        "cell=E",
    ):
        driver = opened(model, hash=f"#{bad}", step=7)
        assert driver.find_element("id", "notice").text
        assert driver.execute_script("return page.tokens.length") > 1  # the page is whole


def test_arrow_keys_choose_cells(opened, tokenizer):
    driver = opened(built(tokenizer))
    keys = driver.switch_to.active_element
    driver.execute_script("document.querySelector('figure[data-key=\"1.q\"] .maps').focus()")
    for key in ("\ue014", "\ue014", "\ue015"):  # right (chooses the first cell), right, down
        keys = driver.switch_to.active_element
        keys.send_keys(key)
    assert driver.execute_script("return page.chosen") == {"key": "1.q", "of": "value", "at": [0, 1, 1]}
    assert "head 1; row: position 2 “h”" in driver.find_element("id", "cell").text
    keys.send_keys("\ue00c")  # Escape
    assert driver.execute_script("return page.chosen") is None


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("text", "sentence"), [("", "is empty"), ("the " * 11, "44 tokens"), ("cat & dog", "“&”")])
def test_a_text_that_does_not_fit_gets_a_sentence(text, sentence, opened, tokenizer):
    driver = opened(built(tokenizer))
    before = driver.execute_script("return page.tokens")
    driver.execute_script("take(arguments[0])", text)
    assert sentence in driver.find_element("id", "notice").text
    if "&" not in text:  # it computes with the unknown token otherwise
        assert driver.execute_script("return page.tokens") == before


def test_one_token_has_no_loss(opened, tokenizer):
    driver = opened(built(tokenizer), "t")
    press(driver, "learn")
    assert "no loss" in driver.find_element("id", "notice").text
    assert driver.find_element("id", "loss-said").text == "–"


def test_tokens_are_appended_until_the_context_is_full(opened, tokenizer):
    driver = opened(built(tokenizer))
    press(driver, "append")
    assert driver.execute_script("return page.tokens.length") == 12
    press(driver, "append-ten", 3)
    assert driver.execute_script("return page.tokens.length") == TINY["C"]
    assert "context is full" in driver.find_element("id", "notice").text


def test_tokens_are_drawn_with_their_probabilities(opened, tokenizer):
    driver = opened(built(tokenizer))
    counts = driver.execute_script(
        "const L = [1, 2, 3, 0], n = 20000, out = {};"
        "for (const [heat, k] of [[1, 0], [0.5, 0], [1, 2], [0, 0]]) { const c = [0, 0, 0, 0];"
        "for (let i = 0; i < n; i++) c[sampled(L, heat, k, (i + 0.5) / n)] += 1 / n; out[[heat, k]] = c; } return out;"
    )
    logits = np.array([1.0, 2, 3, 0])
    for name, expected in {
        "1,0": np.exp(logits),
        "0.5,0": np.exp(2 * logits),
        "1,2": np.where(logits >= 2, np.exp(logits), 0),
        "0,0": np.where(logits == 3, 1.0, 0),
    }.items():
        np.testing.assert_allclose(counts[name], expected / expected.sum(), atol=1e-3)


def test_nothing_in_the_data_is_executed(opened):
    nasty = ["</script><script>window.hurt = 1</script>", "<img src=x onerror=hurt=1>", "a", "b", "\u2028", "<!--"]
    tokenizer = WordTokenizer(nasty)
    driver = opened(built(tokenizer), "a", tokenizer=tokenizer, title="</title><script>window.hurt = 1</script>")
    driver.execute_script("append([1, 2, 5, 6, 3]); choose({key: 'E', of: 'value', at: [0, 1, 0]}, {pin: true})")
    assert driver.execute_script("return window.hurt") is None
    assert nasty[0].replace(" ", "␣") in driver.find_element("id", "cell").text


def test_the_page_asks_for_nothing_and_says_nothing(opened, tokenizer):
    driver = opened(built(tokenizer))
    press(driver, "learn", 2)
    driver.execute_script("setView('both'); page.size = 7; drawMaps()")
    for v in ("E", "1.N", "1.weights", "2.U", "losses", "loss"):
        driver.execute_script("choose({key: arguments[0], of: 'gradient', at: [0, 0, 0]}, {pin: true})", v)
        assert "✗" not in driver.find_element("id", "cell").text
    driver.execute_script("choose({key: 'O', of: 'change', at: [0, 3, 4]}, {pin: true})")
    assert "AdamW" in driver.find_element("id", "cell").text and "✓" in driver.find_element("id", "cell").text
    assert driver.execute_script("return performance.getEntriesByType('resource').length") == 0
    assert driver.get_log("browser") == []


# --- Refusals


def test_unknown_modules_are_refused(tokenizer, tmp_path):
    model = built(tokenizer)
    model.blocks[1].middle = Scaled()
    with pytest.raises(UnknownModule, match=r"blocks\.1\.middle is a Scaled, and there are no equations for it"):
        show(model, tmp_path / "page.html", tokenizer)
    with pytest.raises(UnknownModule, match=r"a Scaled was given; expected a Decoder"):
        show(Scaled(), tmp_path / "page.html", tokenizer)
    assert not list(tmp_path.iterdir())


def test_texts_and_models_that_do_not_fit_are_refused(tokenizer, tmp_path):
    model, path = built(tokenizer), tmp_path / "page.html"
    for text, sentence in (
        ("", "is empty"),
        ("the " * 11, "44 tokens, but the context holds C = 40"),
        ("€", "have '€'"),
    ):
        with pytest.raises(ValueError, match=sentence):
            show(model, path, tokenizer, text)
    with pytest.raises(ValueError, match=r"knows 3 tokens, but the model has V = 20"):
        show(model, path, CharTokenizer(["a", "b"]))
    cut = BPETokenizer.train([TEXT], 20, pattern=r"\S+|\s", exact=False)
    with pytest.raises(ValueError, match="cuts texts at"):
        show(built(cut), path, cut)
    with pytest.raises(ValueError, match=r"page of more than 8 MB"):
        show(built(tokenizer, D=512, F=1024), path, tokenizer)
    assert not path.exists()


def test_earlier_weights_are_thinned_out_to_fit(tokenizer, tmp_path):
    model = built(tokenizer, D=160, F=256)
    path = show(
        model, tmp_path / "page.html", tokenizer, step=50, snapshots={s: model.state_dict() for s in range(0, 50, 5)}
    )
    text = path.read_text()
    steps = json.loads(text[text.index('id="data"') :].split(">", 1)[1].split("</script>")[0])["models"]
    assert 2 < len(steps) < 10 and steps[0]["step"] == 0 and steps[-1]["step"] == 50
    assert path.stat().st_size <= 8_000_000
