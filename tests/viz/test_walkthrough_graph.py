"""The picture of a walkthrough in a browser: modules that open, views, names, links to a step, zoom, and play."""

import pytest

import tinytensor as tt
from tests.viz.pages import WORDS, Page, _browser, attention_layer, data_of, wait, watched_chain  # noqa: F401
from tinytensor import nn
from tinytensor.viz import walkthrough, watch


def encoder():
    tt.manual_seed(0)
    layer = nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True)
    net = nn.TransformerEncoder(layer, 2)
    with watch():
        loss = net(tt.randn(1, 4, 4)).square().sum()
    return net, loss


def titles(page: Page) -> list[str]:
    """The operations of all steps that the page shows now."""
    return page.run("return order.map(({ frame }) => data.frames[frame].what)")


def test_attention_reads_as_its_variables(browser, tmp_path):
    net, loss, x = attention_layer()
    with watch():
        loss = net(x, x, x)[0].square().sum()
    page = Page(browser, walkthrough(loss, tmp_path / "page.html", net, WORDS))
    names = [title.split(" = ")[0] for title in titles(page)]
    forward = names[: names.index("The gradients of 4 leaves are complete") // 2]
    assert [name for name in forward if "#" not in name] == ["Q", "K", "V", "scores", "weights", "heads", "out_proj"]
    assert "weights = softmax(scores)" in titles(page) and "heads = matmul(weights, V)" in titles(page)
    page.run("show(order.findIndex(({ frame }) => data.frames[frame].what.startsWith('scores')))")
    shown = (
        "return [...document.querySelectorAll('#panel h3:last-of-type ~ .array figcaption')].map(e => e.textContent)"
    )
    assert page.run(shown) == ["head 1", "head 2"]
    words = "return [...document.querySelectorAll('#panel h3:last-of-type ~ .array th')].map(e => e.textContent)"
    assert page.run(words) == (WORDS + WORDS) * 2


def test_words_stand_where_a_view_turns_rows_and_columns(tmp_path):
    net, loss, x = attention_layer()
    with watch():
        loss = net(x, x, x)[0].square().sum()
    arrays = data_of(walkthrough(loss, tmp_path / "page.html", net, WORDS[:4]))["arrays"]
    words = [(a["words"].get("rows"), a["words"].get("columns")) for a in arrays if "(1, 2, 2, 4)" in a["text"]]
    assert words and all(entry == (None, WORDS) for entry in words)  # the keys, turned for the product
    words = [(a["words"].get("rows"), a["words"].get("columns")) for a in arrays if "(1, 2, 4, 2)" in a["text"]]
    assert words and all(entry == (WORDS, None) for entry in words)


def test_a_group_opens_by_click_and_by_key(browser, tmp_path):
    net, loss = encoder()
    page = Page(browser, walkthrough(loss, tmp_path / "page.html", {"net": net}))
    page.run("change('', '')")
    folds = "return [...document.querySelectorAll('#graph .fold')].map(e => e.getAttribute('aria-label'))"
    assert page.run(folds) == ["net: open it"] and len(titles(page)) == 3 * 2 + 1
    page.run("document.querySelector('#graph .fold').dispatchEvent(new MouseEvent('click', {bubbles: true}))")
    assert page.run(folds) == ["net.layers.0: open it", "net.layers.1: open it"]
    page.run("document.querySelector('#graph .fold').focus()")
    page.press("ENTER")
    assert page.run(folds) == ["net.layers.0.self_attn: open it", "net.layers.1: open it"]
    frames = "return [...document.querySelectorAll('#graph .title')].map(e => e.getAttribute('aria-label'))"
    assert page.run(frames) == ["net: close it", "net.layers.0: close it"]
    assert page.run("return document.activeElement.dataset.group") is not None  # the key closes it again
    page.press("SPACE")
    assert page.run(folds) == ["net.layers.0: open it", "net.layers.1: open it"]


def test_a_closed_group_is_one_step(browser, tmp_path):
    net, loss = encoder()
    page = Page(browser, walkthrough(loss, tmp_path / "page.html", {"net": net}))
    page.run("change(Object.keys(data.groups)[0], '')")
    assert "net.layers.0 is closed" in page.text("#panel .closed")
    texts = "return [...document.querySelectorAll('#graph .fold')].map(e => [...e.querySelectorAll("
    texts += "'.value:not(.unknown), .gradient:not(.unknown)')].map(t => t.textContent.split(' norm')[0]))"
    assert page.run(texts) == [["(1, 4, 4)"], []]
    page.press("ARROW_RIGHT")
    assert "net.layers.1 is closed" in page.text("#panel .closed") and page.run(texts) == [["(1, 4, 4)"]] * 2
    page.press("END")
    assert all(len(shown) == 2 for shown in page.run(texts))


def test_views_are_shown_on_demand(browser, tmp_path):
    net, loss, _ = attention_layer()
    page = Page(browser, walkthrough(loss, tmp_path / "page.html", net))
    few = len(titles(page))
    marks = "return [...document.querySelectorAll('#graph .mark')].map(e => e.firstChild.data)"
    assert "slice" in page.run(marks) and not any("permute" in title for title in titles(page))
    page.browser.find_element("id", "views").click()
    assert page.run(marks) == [] and len(titles(page)) > few + 10
    assert any("= permute(" in title for title in titles(page))


@pytest.mark.slow
def test_a_link_leads_to_a_step(browser, tmp_path):
    net, loss = encoder()
    path = walkthrough(loss, tmp_path / "page.html", {"net": net})
    browser.get_log("browser")  # what earlier tests have left there
    page = Page(browser, path)
    page.run("change(Object.keys(data.groups)[0], ''); show(3)")
    wait(lambda: "step=4" in page.run("return location.hash"))
    address, title = page.run("return location.hash"), page.text("#panel h2")
    other = Page(browser, path)
    other.run("location.hash = arguments[0]", address)
    wait(lambda: other.text("#panel h2") == title)
    other.run("location.hash = '#2'")
    wait(lambda: other.text("#count").startswith("2 /"))
    other.run("location.hash = '#step=1&open=net.layers.1.self_attn&views'")
    wait(lambda: other.text("#panel .closed").startswith("net.layers.0 is closed"))
    assert other.run("return document.getElementById('views').checked")
    other.run("location.hash = '#step=0&open=nothing&views=x&step'")  # what cannot be followed does no harm
    wait(lambda: other.text("#count").startswith("1 /"))
    assert not other.browser.get_log("browser")


@pytest.mark.slow
def test_play_goes_on_and_stops_at_the_end(browser, tmp_path):
    t = watched_chain()
    page = Page(browser, walkthrough(t["y"], tmp_path / "page.html", t))
    page.run("show(5)")
    page.click("play")
    assert page.run("return document.getElementById('play').getAttribute('aria-pressed')") == "true"
    wait(lambda: page.text("#count") == "7 / 7")
    assert page.run("return document.getElementById('play').getAttribute('aria-pressed')") == "false"


def test_zoom_and_map(browser, tmp_path):
    net, loss = encoder()
    page = Page(browser, walkthrough(loss, tmp_path / "page.html", {"net": net}))
    page.run("change('all', '')")
    width = "return document.querySelector('#graph svg').clientWidth"
    before = page.run(width)
    page.press("HOME")
    page.run("document.body.focus()")
    for key, larger in (("+", True), ("-", False)):
        page.run("document.dispatchEvent(new KeyboardEvent('keydown', {key: arguments[0], bubbles: true}))", key)
        assert (page.run(width) > before * 1.1) == larger
    hidden = "return document.getElementById('map').hasAttribute('hidden')"
    assert not page.run(hidden)
    top = "return document.getElementById('graph').scrollTop"
    page.run("document.getElementById('graph').scrollTop = 0")
    page.run(
        "const m = document.getElementById('map').getBoundingClientRect(); lookAt({clientX: m.left + m.width / 2, "
        "clientY: m.bottom - 5})"
    )
    assert page.run(top) > 300
    page.run("document.dispatchEvent(new KeyboardEvent('keydown', {key: '0', bubbles: true}))")
    assert page.run(hidden) and page.run(width) < before  # all of it is in the window
    page.run(
        "document.getElementById('graph').dispatchEvent(new WheelEvent('wheel', {deltaY: -400, clientX: 200, "
        "clientY: 300, cancelable: true}))"
    )
    assert not page.run(hidden)


@pytest.mark.slow
def test_formulas_have_no_scrollbars(browser, tmp_path):
    net, loss, _ = attention_layer()
    page = Page(browser, walkthrough(loss, tmp_path / "page.html", net))
    cut = """let n = 0;
        const higher = (e) => e.scrollHeight > e.clientHeight || e.offsetHeight > e.clientHeight;
        order.forEach((_, i) => { show(i); n += [...document.querySelectorAll('.math')].filter(higher).length; });
        return n"""
    assert page.run(cut) == 0
    page.run(
        "document.head.append(Object.assign(document.createElement('style'), {textContent: '.math {height: 9px}'}))"
    )
    assert page.run(cut) > 0


@pytest.mark.slow
def test_motion_is_left_out_where_it_is_not_wanted(browser, tmp_path):
    t = watched_chain()
    page = Page(browser, walkthrough(t["y"], tmp_path / "page.html", t))
    page.run("show(4)")
    moves = "return getComputedStyle(document.querySelector('.flow.back path')).animationName"
    try:
        for wish, name in (("reduce", "none"), ("no-preference", "up")):
            feature = {"features": [{"name": "prefers-reduced-motion", "value": wish}]}
            browser.execute_cdp_cmd("Emulation.setEmulatedMedia", feature)
            assert page.run(moves) == name
    finally:
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
