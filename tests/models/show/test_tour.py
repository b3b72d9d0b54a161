"""The tour, in a real browser by the keyboard: its numbers are those of the cells, its letters are explained."""

import json
import math
import re

import numpy as np
import pytest

import tinytensor
from models.data import pairs
from models.data.tokenizers import CharTokenizer, WordTokenizer
from models.decoder import Config, Decoder
from models.show import show
from models.show.program import table
from models.transformer import Config as TranslatorConfig
from models.transformer import Transformer
from tests.models.show.pages import assert_equal_to_the_engine, state, weights_of
from tests.models.show.running import Text
from tests.tools.axe import serious
from tests.tools.browser import chromium

TEXT, STOPS = "the cat sat on the mat", 12
LAYOUTS = {
    "document 003": {},
    "GPT-2": {"residual": "pre-norm", "norm": "affine", "final_norm": True, "activation": "gelu", "tied": True},
    "no mask": {"causal": False, "positions": False, "norm": "scale", "residual": "once"},
}
SENTENCES = [pairs.Pair("est-ce que tu chantes ?", "do you sing ?"), pairs.Pair("le chat dort", "the cat sleeps")]


def random(model):
    """The model with weights that are not those of the beginning."""
    with tinytensor.no_grad():
        for p in model.parameters():
            p += 0.3 * tinytensor.randn(*p.shape)
    return model


def decoder(layout="document 003"):
    """A small decoder and its tokenizer."""
    tinytensor.manual_seed(3)
    tokenizer = CharTokenizer.train([TEXT])
    sizes = {"D": 8, "H": 2, "F": 12, "L": 2, "C": 40, "V": tokenizer.vocab_size}
    return random(Decoder(Config(**sizes, **LAYOUTS[layout]))), tokenizer


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """The page of the decoder of document 003, at step 7."""
    model, tokenizer = decoder()
    options = {"step": 7, "snapshots": {0: model.state_dict()}, "losses": [(1, 3.0), (7, 2.0)]}
    return show(model, tmp_path_factory.mktemp("tour") / "page.html", tokenizer, TEXT, **options)


@pytest.fixture
def at_stop(browser, page):
    """at_stop(hash): the page in the browser at this address."""

    def open_(hash):
        browser.get("about:blank")
        browser.get(f"file://{page}#{hash}")
        return browser

    return open_


def press(driver, *keys):
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.keys import Keys

    for key in keys:
        ActionChains(driver).send_keys(getattr(Keys, key, key)).perform()


def arrive(driver, stop: int) -> None:
    """Wait until the tour is there: a change of the address is noticed a moment later."""
    from selenium.webdriver.support.wait import WebDriverWait

    WebDriverWait(driver, 60, 0.02).until(lambda _: driver.execute_script("return tour.at") == stop)


# --- What a stop says

SAID = """
const panel = document.getElementById('tour'), all = (selector, of) => [...panel.querySelectorAll(selector)].map(of);
const rest = panel.cloneNode(true), plain = (part) => part.textContent;
const numbers = 'b[data-cell], b[data-fact], .token, #framed';
rest.querySelectorAll(`h2, math, ul, button, ${numbers}`).forEach((part) => part.remove());
return JSON.stringify({
  chosen: page.chosen && where(page.chosen.key, page.chosen.at), what: plain(document.getElementById('framed')),
  heading: plain(panel.querySelector('h2')), focus: document.activeElement.id, rest: plain(rest),
  sentences: plain(document.getElementById('story')),
  cells: all('b[data-cell]', (b) => [b, ...b.dataset.cell.split('|')]).map(([b, key, of, ...at]) => [plain(b), key, of,
    place(page.state.values[key], ...at.map(Number)), 'was' in b.dataset, 'percent' in b.dataset]),
  facts: all('b[data-fact]', (b) => [b.dataset.fact, plain(b)]),
  named: all('p .tex', plain), explained: all('ul .tex', plain), guesses: all('.guess', plain).length,
  framed: [...document.querySelectorAll('.lit.chosen')].map((box) => box.getBoundingClientRect())
    .map((b) => [b.left, b.top, b.right, b.bottom]),
  panel: [panel.getBoundingClientRect()].map((b) => [b.left, b.top])[0], wide: document.documentElement.scrollWidth,
});
"""


def said(driver) -> dict:
    return json.loads(driver.execute_script(SAID))


def number(text: str) -> float:
    """A number as the page writes it: −1.48·10⁻⁵."""
    digits, _, exponent = text.replace("−", "-").replace(",", "").partition("·10")
    return float(digits) * 10 ** int(exponent.translate(str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789-")) or 0)


def is_rounded(text: str, value: float) -> bool:
    """Is this the number in three digits?"""
    last = 10.0 ** (math.floor(math.log10(abs(value))) - 2) if value else 0.0
    return abs(number(text) - value) <= 0.501 * last


class Numbers:
    """The numbers of a page before its step of learning, and those that a tour counts, from the engine."""

    def __init__(self, driver, model, text: Text):
        values = assert_equal_to_the_engine(driver, model, text)
        self.before, self.weights = state(driver), weights_of(driver)
        made = table(model)
        first = {o.op: o for o in reversed(made.operations) if not re.match(r"source|E\d", o.output)}
        activation = first.get("relu") or first["gelu"]
        names = "losses", first["softmax"].output, activation.output
        losses, share, inner = (values[key].detach().numpy() for key in names)
        begin = min(3, len(losses) - 1)
        i = begin + int(np.argmax(losses[begin:]))
        share, inner = share[:, i, : max(1, i)], inner[i]
        t, row = text.tokens[i], values["E"].grad.numpy()[text.tokens[i]]
        arrived = values[first["rows"].output].grad.numpy().any(1)
        self.facts = {
            "n": len(text.tokens) + (text.source is not None),
            "V": values["q"].shape[-1],
            "D": row.size,
            "H": share.shape[0],
            "K": values[first["scores"].inputs[0]].shape[-1],
            "F": inner.size,
            "position": i + 1,
            "number": t,
            "component": int(np.argmax(np.abs(row))) + 1,
            "head": int(np.argmax(share.max(1))) + 1,
            "positive": int((inner > 0).sum()),
            "count": len(losses),
            "times": int(arrived[np.array(text.tokens) == t].sum()),
            "weights": sum(values[v.key].numel() for v in made.variables if v.weight is not None),
            "rate": driver.execute_script("return how().lr"),
            "trained": driver.execute_script("return data.models[page.at].step"),
            "one": 1,
            "all": 100,
        }

    def wrong(self, driver, stop: dict) -> list[str]:
        """What a stop says that is in no cell: numbers that differ from theirs, and digits that belong to none."""
        now, weights, heading = state(driver), weights_of(driver), stop["heading"]
        wrong = [f"{heading}: a digit in {stop['rest']}"] if re.search(r"\d", stop["rest"]) else []
        for text, key, of, at, was, percent in stop["cells"]:
            values, gradients = self.before if was else now
            if of == "change":
                value = weights[key][at] - self.weights[key][at]
            else:
                value = {"value": values, "gradient": gradients}[of][key][at]
            if not is_rounded(text, 100 * value if percent else value):
                wrong.append(f"{heading}: {text} is not the {of} of {key}, {value}")
        for name, text in stop["facts"]:
            if not is_rounded(text, self.facts[name]):
                wrong.append(f"{heading}: {text} is not {name}, {self.facts[name]}")
        return wrong


def unexplained(stops: list[dict]) -> list[str]:
    """The letters that stops name before they are explained."""
    known, faults = set(), []
    for stop in stops:
        known.update(stop["explained"])
        faults += [f"{stop['heading']}: {letter}" for letter in stop["named"] if letter not in known]
        alone = set(re.findall(r"(?<![^\W\d_])[^\W\d_](?![^\W\d_])", stop["rest"])) - {"a", "A"}  # the article
        faults += [f"{stop['heading']}: {letter}" for letter in alone - known]
    return faults


# --- The stops


@pytest.mark.one_in(4)
@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [1280, 390])
def test_the_keyboard_alone_leads_through_all_stops(width, dark, page):
    model, tokenizer = decoder()
    height = 900 if width > 390 else 844
    with chromium(width, height, dark) as driver:
        driver.get(f"file://{page}")
        press(driver, "TAB")  # what comes first
        assert driver.switch_to.active_element.text == "Start here"
        numbers = Numbers(driver, model, Text.of(tokenizer.encode(TEXT)))
        press(driver, "ENTER")
        stops = []
        for count in range(1, STOPS + 1):
            arrive(driver, count)
            stop = said(driver)
            stops.append(stop)
            assert stop["heading"].startswith(f"Stop {count} of {STOPS}: ") and stop["focus"] == "stop"
            assert numbers.wrong(driver, stop) == [] and len(stop["cells"]) + len(stop["facts"]) >= 2
            assert stop["sentences"].count(". ") == 1 and stop["wide"] <= width
            assert (count > 1) == bool(stop["framed"]) and stop["what"].endswith(stop["chosen"] or "of your text")
            right, bottom = stop["panel"] if width > 390 else (width, stop["panel"][1])
            bottom = height if width > 390 else bottom
            for left, top, end, low in stop["framed"]:  # the frame stands where the panel does not
                assert min(left, top) >= 0 and end <= right and low <= bottom, stop["heading"]
            if stop["guesses"]:
                press(driver, "2")
                verdict = driver.find_element("css selector", "#tour [role=status]").text
                assert (
                    re.match(r"Right\.|No: .+", verdict)
                    and driver.switch_to.active_element.get_property("id") == "next"
                )
            press(driver, "ARROW_RIGHT")
        assert unexplained(stops) == []
        assert [stop["guesses"] > 1 for stop in stops] == [True] * 11 + [False]
        press(driver, "ARROW_LEFT")
        assert said(driver)["heading"].startswith("Stop 11 of 12")
        press(driver, "ESCAPE")
        left = "return [tour.at, page.follow, page.chosen, page.trail ?? null, document.body.className]"
        assert driver.execute_script(left) == [0, None, None, None, ""]  # the step is taken back
        assert driver.switch_to.active_element.text == "Start here" and driver.get_log("browser") == []


@pytest.mark.one_in(4)
@pytest.mark.parametrize("layout", [*list(LAYOUTS)[1:], "a translator"])
def test_the_tour_of_other_layouts_says_what_is_in_their_cells(layout, browser, tmp_path):
    if layout in LAYOUTS:
        model, tokenizer = decoder(layout)
        text, path = Text.of(tokenizer.encode(TEXT)), show(model, tmp_path / "page.html", tokenizer, TEXT)
    else:
        tokenizer, pair = pairs.train_tokenizer(WordTokenizer, SENTENCES, None), SENTENCES[0]
        tinytensor.manual_seed(3)
        sizes = {"N": 1, "d_model": 8, "h": 2, "d_ff": 12, "n_max": 12, "n_vol": tokenizer.vocab_size}
        model = random(Transformer(TranslatorConfig(**sizes, label_smoothing=0.1)))
        text = Text.pair(*pairs.example(tokenizer, pair))
        path = show(model, tmp_path / "page.html", tokenizer, pair.source, target=pair.target)
    browser.get("about:blank")
    browser.get(f"file://{path}")
    numbers, stops = Numbers(browser, model, text), []
    browser.find_element("id", "begin").click()
    for _ in range(STOPS):
        arrive(browser, len(stops) + 1)
        stops.append(said(browser))
        assert numbers.wrong(browser, stops[-1]) == []
        browser.find_element("id", "next").click()
    assert [stop["heading"].split(":")[0] for stop in stops] == [f"Stop {i} of {STOPS}" for i in range(1, STOPS + 1)]
    assert unexplained(stops) == [] and browser.get_log("browser") == []


def test_wrong_numbers_and_unknown_letters_are_noticed(at_stop):
    model, tokenizer = decoder()
    driver = at_stop("")
    numbers = Numbers(driver, model, Text.of(tokenizer.encode(TEXT)))
    driver.execute_script("openStop(4)")
    assert numbers.wrong(driver, said(driver)) == []
    driver.execute_script("document.querySelector('#story b[data-cell]').textContent = '12.3'")
    assert "12.3 is not the value of 1.weights" in numbers.wrong(driver, said(driver))[0]
    driver.execute_script("document.getElementById('ask').append(' Is it 7, or x?')")
    assert "a digit in" in numbers.wrong(driver, said(driver))[0]
    stops = [said(driver)]
    assert {fault.split(": ")[-1] for fault in unexplained(stops)} == {"x"}
    stops[0]["explained"] = []
    assert {fault.split(": ")[-1] for fault in unexplained(stops)} == {"x", "α"}


def test_an_address_leads_to_a_stop_and_follows_the_tour(at_stop):
    driver = at_stop("step=0&tour=11")
    assert said(driver)["heading"].startswith("Stop 11 of 12")
    assert driver.execute_script("return [page.trail.length, data.models[page.at].step]") == [2, 0]
    before = driver.execute_script("return page.trail[0]")
    press(driver, "ARROW_LEFT")  # takes the step back
    assert driver.execute_script("return [page.trail ?? null, loss()]") == [None, before]
    press(driver, "ARROW_RIGHT", "ARROW_RIGHT")
    driver.execute_async_script("setTimeout(arguments[arguments.length - 1], 300)")
    assert "step=0" in driver.current_url and driver.current_url.endswith("tour=12")
    press(driver, "ARROW_LEFT", "ARROW_LEFT")
    driver.execute_script("work.start(data.table, byId('program').textContent)")
    press(driver, "ARROW_RIGHT")
    arrive(driver, 11)
    driver.execute_script("take('the dog')")  # another text: from the beginning
    arrive(driver, 1)
    assert said(driver)["heading"].startswith("Stop 1 of 12")
    for address, sentence in (("tour=13", "There is no stop 13"), ("tour=4&text=t", "needs a text of more tokens")):
        assert sentence in at_stop(address).find_element("id", "notice").text


# --- For all readers


def test_letters_of_all_formulas_are_in_the_list(at_stop):
    driver = at_stop("")
    script = """
    const letters = (part) => [...part.querySelectorAll("mi:not([mathvariant=normal])")]
      .map((mi) => mi.textContent).filter((text) => /^\\p{L}$/u.test(text));
    const list = new Set([...document.querySelectorAll("#letters .tex")].flatMap(letters)), all = made("div");
    all.innerHTML = data.table.math.join("");
    return [all.querySelectorAll("mi").length, letters(all).filter((letter) => !list.has(letter))];
    """
    count, missing = driver.execute_script(script)
    assert count > 100 and missing == []
    mask = "[...document.querySelectorAll('#letters p')].find((p) => p.textContent.includes('the mask: it')).remove()"
    driver.execute_script(mask)
    assert set(driver.execute_script(script)[1]) == {"M"}
    text = driver.execute_script("return document.getElementById('letters').textContent")
    assert "weights that make keys of the stream; as a size, 4: the width of a head" in text


def test_controls_have_names_and_nothing_moves(at_stop):
    driver = at_stop("tour=3")
    names = {
        e.get_attribute("id"): e.accessible_name
        for e in driver.find_elements("css selector", "input[id], select, textarea")
    }
    assert all(names.values()) and len(names) == 7, names
    for id_, name in (("temperature", "temperature"), ("top-k", "top-k"), ("rate", "rate"), ("step", "step")):
        assert names[id_].startswith(name)
    assert driver.execute_script("return document.getAnimations().length") == 0
    assert driver.execute_script("return getComputedStyle(document.documentElement).scrollBehavior") == "auto"


def test_a_phone_has_the_plan_and_cells_for_fingers(page):
    with chromium(390, 844) as driver:
        driver.get(f"file://{page}")
        cell = "return cellSize(variable(arguments[0]), page.state.values[arguments[0]])[0]"
        assert driver.execute_script(cell, "1.weights") >= 8 > driver.execute_script(cell, "1.Z'")
        plan = "const p = document.querySelector('.plan'); return p.scrollWidth - p.clientWidth"
        assert driver.execute_script(plan) == 0
        assert driver.find_element("id", "size").size["width"] > 50
        keys = driver.execute_script("return [...document.querySelectorAll('.plan button')].map((b) => b.dataset.key)")
        assert set(keys) == {v.key for v in table(decoder()[0]).variables}
        marks = driver.execute_script("return [...document.querySelectorAll('#curve text')].map((t) => t.textContent)")
        assert {"0", "1", "loss", "step"} <= set(marks)


@pytest.mark.slow
@pytest.mark.parametrize("width", [1280, 390])
def test_nothing_keeps_readers_out(width, page, tmp_path):
    for dark in (False, True):
        with chromium(width, 844, dark) as driver:
            for address in ("", "#tour=3", "#tour=11"):
                driver.get("about:blank")
                driver.get(f"file://{page}{address}")
                assert serious(driver) == [], address
    bad = tmp_path / "bad.html"
    bad.write_text('<html lang="en"><title>A page</title><p style="color: #aaa">pale</p><input><button></button>')
    with chromium(width, 844) as driver:
        driver.get(f"file://{bad}")
        assert {fault.split(":")[0] for fault in serious(driver)} == {"button-name", "color-contrast", "label"}
