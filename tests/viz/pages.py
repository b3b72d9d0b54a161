"""Walkthroughs in a real browser, asked in the words of the tests."""

import json
import re

import numpy as np
import pytest

import tinytensor as tt
from tests.tools.browser import chromium
from tests.viz.graphs import chain
from tinytensor import nn
from tinytensor.viz import watch

WORDS = ["the", "food", "was", "bad"]


def watched_chain():
    with watch():
        return chain()


def attention_layer():
    """One layer of attention with two heads over four words; small, so that all numbers are written out."""
    tt.manual_seed(0)
    net = nn.MultiheadAttention(4, 2, batch_first=True)
    x = tt.randn(1, 4, 4)
    with watch():
        loss = net(x, x, x, need_weights=False)[0].square().sum()
    return net, loss, x


def data_of(path) -> dict:
    return json.loads(re.search(r'<script id="data"[^>]*>(.*?)</script>', path.read_text(), re.DOTALL)[1])


@pytest.fixture(scope="module", name="browser")
def _browser():
    with chromium() as driver:
        yield driver


class Page:
    """A page in the browser, asked in the words of the tests."""

    def __init__(self, browser, path):
        from selenium.webdriver.support.wait import WebDriverWait

        self.browser = browser
        browser.get(path.as_uri())
        # The driver may come back before the page's script has run.
        WebDriverWait(browser, 30).until(lambda _: self.run("return document.documentElement.dataset.ready") == "yes")

    def run(self, code: str, *args):
        return self.browser.execute_script(code, *args)

    def text(self, selector: str) -> str:
        return self.run("return document.querySelector(arguments[0]).innerText", selector)

    def press(self, *keys: str) -> None:
        from selenium.webdriver.common.action_chains import ActionChains
        from selenium.webdriver.common.keys import Keys

        for key in keys:
            ActionChains(self.browser).send_keys(getattr(Keys, key)).perform()

    def click(self, id_: str) -> None:
        self.browser.find_element("id", id_).click()

    def lit(self) -> list[str]:
        return self.run("return [...document.querySelectorAll('#graph .now .call')].map(e => e.textContent)")

    def gradients(self) -> dict[str, str]:
        """The gradients that the boxes show, by the name of the value."""
        rows = self.run(
            "return [...document.querySelectorAll('#graph .gradient:not(.unknown)')].map(e => "
            "[e.parentNode.querySelector('.call').textContent.split(' = ')[0], e.textContent])"
        )
        return dict(rows)

    def leaves(self) -> dict[str, np.ndarray]:
        """The gradients of the last step, as the page shows them: the last array of each leaf's sum."""
        rows = self.run(
            "return [...document.querySelectorAll('#panel [data-leaf]')].map(s => [s.dataset.leaf, "
            "[...[...s.querySelectorAll('.array')].pop().querySelectorAll('tr')]"
            ".map(r => [...r.cells].map(c => c.textContent))])"
        )
        return {name: np.array(numbers, float) for name, numbers in rows}


def wait(true) -> None:
    from selenium.webdriver.support.wait import WebDriverWait

    WebDriverWait(None, 10, 0.05).until(lambda _: true())
