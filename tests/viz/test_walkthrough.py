"""The page of a walkthrough: what stands in it, and how it steps, in a real browser."""

import base64
import inspect
import re
import sys
import textwrap
from html import unescape

import numpy as np
import pytest

import tinytensor as tt
import tinytensor.nn.functional as F
from tests.tools.axe import serious
from tests.tools.browser import chromium
from tests.viz.pages import WORDS, Page, _browser, attention_layer, data_of, watched_chain  # noqa: F401
from tinytensor import nn
from tinytensor.core.op import OPS
from tinytensor.native.platform.distribution import install
from tinytensor.utils.display.latex import mathml, rule_as_latex, split
from tinytensor.viz import walkthrough, watch
from tinytensor.viz.arrays import as_json
from tinytensor.viz.steps import renamed

# --- What stands in the file


def test_page_has_a_step_for_each_node_and_an_end(tmp_path):
    t = watched_chain()
    data = data_of(walkthrough(t["y"], tmp_path / "page.html", t))
    titles = [frame["what"] for frame in data["frames"]]
    calls = ["c = mul(a, b)", "d = add(c, a)", "y = exp(d)"]
    assert titles == [*calls, *reversed(calls), "The gradients of 2 leaves are complete"]
    assert data["turn"] == 3 and data["values"]["n2"]["known"] == [2, 3]
    assert data["frames"][3]["said"] == "y = exp(d); g = 1"


def read(data: dict, number: int) -> str:
    """A frame without its marks: its words, with formulas as `renamed` gives them."""
    return " ".join(re.sub(r"<[^>]*>", " ", data["frames"][number]["html"]).split())


def test_formulas_of_a_page_have_the_names_of_the_user(tmp_path):
    t = watched_chain()
    data = data_of(walkthrough(t["y"], tmp_path / "page.html", t))
    formulas = [unescape(re.sub(r"<[^>]*>", "", each)) for each in data["math"]]
    assert formulas == ["c=a⊙b", "d=c+a", "y=ed", "∂y∂d=g⊙y", "∂y∂c=g", "∂y∂a=g", "∂y∂a=g⊙b", "∂y∂b=g⊙a"]
    assert "It reads c a It gives" in read(data, 1)
    assert "g = ∂y/∂d from y (exp) The rule" in read(data, 4) and read(data, 4).endswith("It sends to c to a")
    data = data_of(walkthrough(t["y"], tmp_path / "page.html", t | {"c": None, "product": t["c"]}))
    assert "It reads a: product b: a It gives" in read(data, 1)  # a name of several letters: the rule's own names
    assert "to product, for a to a, for b" in read(data, 4)
    assert "∂L∂a=g" in [unescape(re.sub(r"<[^>]*>", "", each)) for each in data["math"]]


def test_code_of_a_rule_keeps_its_names_and_says_whose_they_are(tmp_path):
    with watch():
        d = tt.tensor(2.0, requires_grad=True)
        y = d.log()
    data = data_of(walkthrough(y, tmp_path / "page.html", {"d": d, "y": y}))
    assert "return g / x In this code x is your d. tinytensor/ops/elementwise.py" in read(data, 1)


def test_word_in_an_equation_is_no_name():
    with_word = r"y = \max(0, a); the slope of a fold at 0 is 0"
    assert renamed(with_word, {"a": "c", "y": "d"}) == r"d = \max(0, c); the slope of a fold at 0 is 0"


@pytest.mark.parametrize("unfold", [False, True])
def test_page_loads_nothing_from_elsewhere(tmp_path, unfold):
    net, loss, _ = attention_layer()
    text = walkthrough(loss, tmp_path / "page.html", net, WORDS, unfold=unfold).read_text()
    addresses = set(re.findall(r"https?://[\w./-]+", text))
    assert addresses <= {"http://www.w3.org/2000/svg", "http://www.w3.org/1998/Math/MathML"}
    assert "default-src 'none'" in text and not re.search(r"<(link|img|iframe|script) [^>]*(src|href)=", text)


def test_names_cannot_end_the_script(tmp_path):
    t = watched_chain()
    bad = "</script><script>alert(1)</script>"
    text = walkthrough(t["y"], tmp_path / "page.html", {bad: t["a"]}, title=bad).read_text()
    assert text.count("</script>") == 2 and "<script>alert" not in text


def test_large_arrays_are_pictures_and_small_ones_numbers():
    assert as_json(np.array([[1.5, np.nan]]))["numbers"] == [["1.5", "nan"]]
    array = np.linspace(-2, 1, 200 * 100).reshape(200, 100)
    array[0, 0] = np.nan
    result = as_json(array)
    assert (result["rows"], result["columns"]) == (64, 64) and "64 of 200 rows and 64 of 100 columns" in result["text"]
    picture = np.frombuffer(base64.b64decode(result["heat"]), np.uint8)
    assert picture[0] == 0 and picture[1] == 1 and picture[-1] == 191  # NaN; the lowest; half of the largest


def test_a_wrong_rule_is_shown_with_its_wrong_number(tmp_path):
    @tt.op
    class careless:
        r"y = x^2"

        def kernel(x):
            return x * x

        def grad_x(g, x):
            return g * x * 3

    x = tt.tensor(5.0, requires_grad=True)
    data = data_of(walkthrough(careless(x), tmp_path / "page.html", {"x": x}))
    assert [["15"]] in [array["numbers"] for array in data["arrays"]]
    assert [["10"]] not in [array["numbers"] for array in data["arrays"]]


def test_wrong_tensors_raise(tmp_path):
    t = watched_chain()
    t["y"].backward()
    with pytest.raises(RuntimeError, match=r"walkthrough: this part of the tape \(exp\) was freed"):
        walkthrough(t["y"], tmp_path / "page.html")
    y = watched_chain()["y"]
    with pytest.raises(TypeError, match=r"tokens must be a list of words, or a tuple of two lists .* got int"):
        walkthrough(y, tmp_path / "page.html", tokens=4)
    with pytest.raises(TypeError, match="got str"):
        walkthrough(y, tmp_path / "page.html", tokens=(["a"], "bc"))
    with pytest.raises(TypeError, match="title must be a string, got int"):
        walkthrough(y, tmp_path / "page.html", title=3)
    with pytest.raises(TypeError, match="walkthrough: names must be a Module or a dict"):
        walkthrough(y, tmp_path / "page.html", ["a"])
    assert not (tmp_path / "page.html").exists()


def test_missing_library_is_named(tmp_path, monkeypatch):
    mathml.cache_clear()
    monkeypatch.setitem(sys.modules, "latex2mathml.converter", None)
    with pytest.raises(ModuleNotFoundError, match="typesetting needs latex2mathml.*" + re.escape(install("viz"))):
        walkthrough(watched_chain()["y"], tmp_path / "page.html")


# --- Typesetting


@pytest.mark.parametrize("name", OPS)
def test_every_equation_is_typeset(name):
    pieces = split(OPS[name].equation.partition("\n")[0])
    assert "".join("".join(text for text, _ in pieces).split()) == "".join(
        OPS[name].equation.partition("\n")[0].split()
    )
    assert all(mathml(text).startswith("<math") and "merror" not in mathml(text) for text, words in pieces if not words)


def test_words_are_told_from_symbols():
    assert split(r"y = \max(0, x); the gradient at 0 is 0") == [
        (r"y = \max(0, x);", False),
        ("the gradient at", True),
        ("0", False),
        ("is", True),
        ("0", False),
    ]
    assert split("y_i = x_i along a diagonal")[-1] == ("along a diagonal", True)


@pytest.mark.parametrize(
    ("code", "latex"),
    [
        ("return g * b", r"g \odot b"),
        ("return g / (1 + x.abs()) ** 2", r"\frac{g}{\left(1 + \left|x\right|\right)^{2}}"),
        ("return -g * (a - (b - x))", r"\left(-g\right) \odot \left(a - \left(b - x\right)\right)"),
        ("return matmul(g, transpose(b, -1, -2))", r"g\, b^\top"),
        ("return reshape(g, x_shape)", r"\mathrm{reshape}\left(g, \mathrm{shape}(x)\right)"),
        ("z = g\n    return z", None),
        ("return g if x else 0", None),
    ],
)
def test_rules_as_mathematics(code, latex):
    actual = rule_as_latex(f"def grad_x(g, x):\n    {code}")
    assert actual == (None if latex is None else rf"\frac{{\partial L}}{{\partial x}} = {latex}")
    assert latex is None or "merror" not in mathml(actual)


def test_every_rule_of_the_engine_is_typeset_or_left_as_code():
    typeset = [
        result
        for op in OPS.values()
        for rule in op.rules.values()
        if (result := rule_as_latex(textwrap.dedent(inspect.getsource(rule)))) is not None
    ]
    assert len(typeset) > 60 and all(mathml(latex) for latex in typeset)


# --- In a browser


def shown_are(shown: dict[str, np.ndarray], parameters: dict[str, np.ndarray]) -> bool:
    """Are these the gradients, to the four digits that are shown?"""
    return shown.keys() == parameters.keys() and all(
        np.allclose(shown[n].reshape(p.shape), p, rtol=6e-4, atol=1e-30) for n, p in parameters.items()
    )


def test_attention_layer_is_stepped_through(browser, tmp_path):
    net, loss, _ = attention_layer()
    page = Page(browser, walkthrough(loss, tmp_path / "page.html", net, WORDS))
    first = page.text("#panel h2")
    assert page.text("#panel .phase").startswith("Forward, 1 of")
    page.press("ARROW_RIGHT")
    second = page.text("#panel h2")
    assert page.text("#panel .phase").startswith("Forward, 2 of") and second != first
    assert page.text("#said").startswith("Forward, 2 of") and len(page.lit()) == 1
    page.press("ARROW_LEFT")
    assert page.text("#panel h2") == first
    page.press("END")
    assert page.text("#panel .phase") == "The end"
    shown = page.leaves()
    loss.backward()
    gradients = {name: p.grad.numpy() for name, p in net.named_parameters()}
    assert shown_are(shown, gradients)
    assert not shown_are(shown, gradients | {"in_proj_bias": gradients["in_proj_bias"] * 1.01})  # it can fail
    assert not page.browser.get_log("browser")  # nothing was refused, nothing went wrong


@pytest.mark.parametrize("how", ["fused", "unfolded", "by hand"])
def test_attention_is_a_picture_with_words_on_its_axes(browser, tmp_path, how):
    net, loss, x = attention_layer()
    if how == "by hand":
        with watch():
            loss = net(x, x, x, average_attn_weights=False)[0].square().sum()
    path = walkthrough(loss, tmp_path / "page.html", net, WORDS, unfold=how == "unfolded")
    page = Page(browser, path)
    number = next(i for i, f in enumerate(data_of(path)["frames"]) if "Its weights" in f["html"])
    operation = {"fused": "attention(", "unfolded": "true_divide(", "by hand": "softmax("}[how]
    assert f"= {operation}" in data_of(path)["frames"][number]["what"]
    page.run("show(stepOf(arguments[0]))", number)
    assert (
        page.run("return [...document.querySelectorAll('.attention th[scope=col]')].map(e => e.textContent)")
        == WORDS * 2
    )
    assert (
        page.run("return [...document.querySelectorAll('.attention th[scope=row]')].map(e => e.textContent)")
        == WORDS * 2
    )
    shown = page.run("return [...document.querySelectorAll('.attention td[style]')].map(e => Number(e.textContent))")
    _, weights = net(x, x, x, average_attn_weights=False)
    assert shown == pytest.approx(weights.detach().numpy().ravel(), abs=0.00501)


def test_buttons_slider_and_boxes(browser, tmp_path):
    t = watched_chain()
    page = Page(browser, walkthrough(t["y"], tmp_path / "page.html", t))
    disabled = "return ['first', 'back', 'next', 'end'].map(i => document.getElementById(i).disabled)"
    assert page.run(disabled) == [True, True, False, False] and page.text("#count") == "1 / 7"
    page.click("next")
    assert page.text("#panel h2") == "d = add(c, a)" == page.lit()[0]
    page.click("turn")
    assert page.text("#panel .phase") == "Backward, 1 of 3"
    page.click("end")
    assert page.run(disabled) == [False, False, True, True]
    page.click("first")
    page.run("const s = document.getElementById('slider'); s.value = 5; s.dispatchEvent(new Event('input'))")
    assert page.text("#panel .phase") == "Backward, 3 of 3"
    assert "Backward, 3 of 3" in page.run("return document.getElementById('slider').getAttribute('aria-valuetext')")
    page.run("document.getElementById('slider').focus()")
    page.press("ARROW_LEFT")
    assert page.text("#panel .phase") == "Backward, 2 of 3"  # one step, though slider and page both know the key
    page.press("HOME")
    assert page.text("#panel .phase") == "Forward, 1 of 3"
    page.run("document.getElementById('n1').dispatchEvent(new MouseEvent('click', {bubbles: true}))")
    assert page.text("#panel h2") == "d = add(c, a)"


def test_graph_shows_the_values_known_so_far(browser, tmp_path):
    t = watched_chain()
    page = Page(browser, walkthrough(t["y"], tmp_path / "page.html", t))
    assert page.gradients() == {} and page.run("return document.querySelectorAll('#graph .op.todo').length") == 2
    page.press("ARROW_RIGHT", "ARROW_RIGHT", "ARROW_RIGHT")  # to the visit of y
    assert page.gradients() == {"y": "gradient 1", "d": "gradient so far 0.01832"}
    page.press("ARROW_RIGHT")  # of d, which sends to c and to a
    so_far = "gradient so far 0.01832"
    assert page.gradients() == {"y": "gradient 1", "d": "gradient 0.01832", "c": so_far, "a": so_far}
    page.press("ARROW_RIGHT")  # of c: a leaf is complete when nothing else can arrive, and that is at the end
    assert page.gradients()["a"] == "gradient so far -0.03663" and page.gradients()["c"] == "gradient 0.01832"
    page.press("END")
    assert page.gradients() == {"y": "gradient 1"} | dict.fromkeys("dc", "gradient 0.01832") | {
        "a": "gradient -0.03663",
        "b": "gradient 0.03663",
    }


def test_a_line_points_the_way_of_what_it_carries(browser, tmp_path):
    t = watched_chain()
    page = Page(browser, walkthrough(t["y"], tmp_path / "page.html", t))
    heads = (
        "return [...document.querySelectorAll('#graph .edge')].map(e => [...e.querySelectorAll('.tip')]"
        ".filter(t => getComputedStyle(t).display !== 'none').map(t => t.classList.contains('up') ? 'up' : 'down')"
        ".join() + (e.querySelector('.share:not(.unknown)')?.textContent ?? ''))"
    )
    assert page.run(heads) == ["down"] * 5
    page.run("show(4)")  # d has been visited, c has not
    assert sorted(page.run(heads)) == ["down", "down", "up0.01832", "up0.01832", "up0.01832"]
    assert page.run("return document.querySelectorAll('#graph .flow.back').length") == 2
    page.press("END")
    assert all(re.fullmatch(r"up-?0\.\d+", shown) for shown in page.run(heads))
    colours = "return ['.edge path', '.op rect'].map(s => getComputedStyle(document.querySelector(s)).stroke)"
    assert len(set(page.run(colours))) == 2


def test_gradients_add_up_step_by_step(browser, tmp_path):
    t = watched_chain()
    page = Page(browser, walkthrough(t["y"], tmp_path / "page.html", t))
    page.run("show(5)")
    assert "It is added to the gradient there: 0.01832 from d (add)." in page.text("#panel")
    page.press("END")
    words = " ".join(page.text("#panel [data-leaf=a]").split())
    assert words == "a.grad 0.01832 from d (add) + -0.05495 from c (mul) = -0.03663"


def test_large_page_holds_one_step_at_a_time(browser, tmp_path):
    """What makes it open at once, and step without a pause: it grows with the nodes, and not with nodes times steps."""
    net = nn.TransformerEncoder(nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True), 8)
    with watch():
        loss = net(tt.randn(2, 16, 32)).square().mean()
    path = walkthrough(loss, tmp_path / "page.html", net, [str(i) for i in range(16)])
    nodes = data_of(path)["turn"]
    assert nodes >= 200 and path.stat().st_size < 12_000 * nodes
    page = Page(browser, path)
    assert page.text("#count").endswith("/ 21")  # of the layers, one step each
    page.run("change('all', 'views')")
    assert page.text("#count").endswith(f"/ {2 * nodes + 1}")
    elements = {name: f"return document.querySelectorAll('{name}').length" for name in ("*", "#panel *", "#print *")}
    for step in (0, 100, 250):
        page.run("show(arguments[0])", step)
        assert 0 < page.run(elements["#panel *"]) < 200 and page.run(elements["#print *"]) == 0
        assert page.run(elements["*"]) < 30 * nodes
    page.press("END")
    assert page.text("#panel .phase") == "The end"


def test_page_fits_a_phone_and_dark_mode(browser, tmp_path):
    net, loss, _ = attention_layer()
    path = walkthrough(loss, tmp_path / "page.html", net, WORDS)
    try:
        browser.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride", {"width": 390, "height": 844, "deviceScaleFactor": 2, "mobile": True}
        )
        page = Page(browser, path)
        for step in (0, 8, 14, 22):
            page.run("show(arguments[0])", step)
            assert page.run("return document.documentElement.scrollWidth") <= 390
        sizes = page.run(
            "return [...document.querySelectorAll('nav button')].map(b => b.getBoundingClientRect().height)"
        )
        assert all(size == 0 or size >= 40 for size in sizes)  # a finger finds them
        paper = "return getComputedStyle(document.body).backgroundColor"
        assert page.run(paper) == "rgb(255, 255, 255)"
        dark = [{"name": "prefers-color-scheme", "value": "dark"}]
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": dark})
        assert page.run(paper) == "rgb(23, 25, 28)"
    finally:
        desk = {"width": 1280, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", desk)
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def test_print_shows_all_steps(browser, tmp_path):
    t = watched_chain()
    page = Page(browser, walkthrough(t["y"], tmp_path / "page.html", t))
    page.run("window.dispatchEvent(new Event('beforeprint')); window.dispatchEvent(new Event('beforeprint'))")
    titles = page.run("return [...document.querySelectorAll('#print > li h2')].map(e => e.textContent)")
    assert len(titles) == 7 and titles[:2] == ["c = mul(a, b)", "d = add(c, a)"]
    assert page.lit() == []  # the graph of a print stands at no step
    page.run("window.dispatchEvent(new Event('afterprint'))")
    assert page.lit() == ["c = mul(a, b)"]


def test_keyboard_and_screen_reader(browser, tmp_path):
    t = watched_chain()
    page = Page(browser, walkthrough(t["y"], tmp_path / "page.html", t))
    order = []
    for _ in range(11):
        page.press("TAB")
        order.append(page.run("return document.activeElement.id"))
    tools, steps = ["smaller", "larger", "fit"], ["slider", "next", "end", "play", "turn"]
    assert order == [*tools, "graph", "panel", *steps, ""]  # the first two steps are disabled at the start
    nameless = "return [...document.querySelectorAll('button, input, section[tabindex]')].filter(e => "
    nameless += "!(e.getAttribute('aria-label') || e.textContent.trim() || e.labels?.length)).length"
    assert page.run(nameless) == 0
    assert page.run("return document.getElementById('said').getAttribute('aria-live')") == "polite"
    page.press("ARROW_RIGHT")
    assert page.text("#said").startswith("Forward, 2 of 3")


def test_hostile_name_is_escaped(browser, tmp_path):
    a = tt.tensor(1.0, requires_grad=True)
    name = "<img src=x onerror=alert(1)></script>"
    page = Page(browser, walkthrough(a.exp(), tmp_path / "page.html", {name: a}))
    page.press("END")
    assert name in page.text("#panel") and page.run("return document.images.length") == 0


def test_heat_maps_are_drawn(browser, tmp_path):
    x = tt.tensor(np.linspace(-1, 1, 400).reshape(20, 20).astype(np.float32), requires_grad=True)
    with watch():
        loss = F.relu(x).sum()
    page = Page(browser, walkthrough(loss, tmp_path / "page.html", {"x": x}))
    size, *colours = page.run(
        "const c = document.querySelector('#panel canvas'), p = c.getContext('2d'); "
        "const at = (x, y) => [...p.getImageData(x, y, 1, 1).data].slice(0, 3); "
        "return [[c.width, c.height], at(0, 0), at(3, 3), at(139, 139), at(136, 136)]"
    )
    assert size == [140, 140]
    # What is below 0 has --low with a bar of --paper in its middle; what is above has --high, and none.
    assert colours == [[0, 114, 178], [255, 255, 255], [192, 74, 0], [192, 74, 0]]
    assert "from -1 to 1" in page.run("return document.querySelector('#panel canvas').getAttribute('aria-label')")


def test_page_shows_itself_in_a_notebook(tmp_path):
    a = tt.tensor(2.0, requires_grad=True)
    page = walkthrough(a.exp(), tmp_path / "page.html", {"a": a})
    shown = re.fullmatch(r'<iframe [^>]*title="[^"]+" srcdoc="([^"]*)"></iframe>', page._repr_html_(), re.DOTALL)
    assert unescape(shown[1]) == page.read_text()


# --- A phone

BOXES = """
const bounds = (e) => e.getBoundingClientRect(), frame = bounds(find("graph")), map = bounds(find("map"));
const boxes = [...document.querySelectorAll("#graph g[id]")].map(bounds);
const outside = (b) => b.left < frame.left || b.right > frame.right || b.top < frame.top || b.bottom > frame.bottom;
return [boxes.length, boxes.filter(outside).length, find("turn").offsetWidth > 0,
  document.documentElement.scrollWidth, map.width ? map.left >= frame.right : null];
"""


def test_a_small_graph_fits_a_phone(tmp_path):
    t = watched_chain()
    path = walkthrough(t["y"], tmp_path / "page.html", t)
    with chromium(390, 844) as driver:
        page = Page(driver, path)
        assert page.run(BOXES) == [5, 0, True, 390, None]  # without a map
        page.click("turn")
        assert page.text("#panel .phase") == "Backward, 1 of 3"
        page.run("zoom(2)")
        shown, outside, *_, is_beside = page.run(BOXES)
        assert shown == 5 and outside > 0 and is_beside


@pytest.mark.parametrize("width", [1280, 390])
def test_nothing_keeps_readers_out(width, tmp_path):
    t = watched_chain()
    path = walkthrough(t["y"], tmp_path / "page.html", t)
    for dark in (False, True):
        with chromium(width, 844, dark) as driver:
            page = Page(driver, path)
            for step in ("HOME", "ARROW_RIGHT", "END"):
                page.press(step)
                assert serious(driver) == [], step


def test_lines_stand_still_for_readers_who_want_that(browser, tmp_path):
    t = watched_chain()
    path = walkthrough(t["y"], tmp_path / "page.html", t)
    moving = []
    for wish in ("no-preference", "reduce"):
        media = {"features": [{"name": "prefers-reduced-motion", "value": wish}]}
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
        page = Page(browser, path)
        page.click("turn")
        moving.append(page.run("return document.getAnimations().length > 0"))
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
    assert moving == [True, False]


def test_only_arrays_with_dimensions_have_a_shape_and_a_dtype(tmp_path):
    t, x = watched_chain(), tt.ones(3, requires_grad=True)
    texts = []
    for result, names in ((t["y"], t), (x.exp().sum(), {"x": x})):
        data = data_of(walkthrough(result, tmp_path / "page.html", names))
        html = " ".join([*data["boxes"].values(), *(frame["html"] for frame in data["frames"])])
        texts.append(re.sub("<[^>]*>", " ", html))
    assert not re.search(r" \(\) |float32", texts[0])
    assert " (3,) " in texts[1] and "x (3,) → (3,) float32" in texts[1]
