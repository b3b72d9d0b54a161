"""What a notebook shows of a tensor: its numbers, or a picture that says their sizes and signs without colours."""

import io
import re
import tracemalloc
from base64 import b64decode

import numpy as np
import pytest
from IPython.core.formatters import DisplayFormatter
from PIL import Image

import tinytensor as tt
from tests.tools.browser import chromium
from tinytensor.symbolic import symbols
from tinytensor.viz.notebook import CELL


def picture(html: str) -> np.ndarray:
    """The opacities of the picture in it, a field (CELL, CELL) for each number: (rows, columns, CELL, CELL)."""
    (data,) = re.findall(r'src="data:image/png;base64,([^"]+)"', html)
    opacity = np.array(Image.open(io.BytesIO(b64decode(data))).convert("RGBA"))[..., 3]
    return opacity.reshape(opacity.shape[0] // CELL, CELL, -1, CELL).transpose(0, 2, 1, 3)


def cells(html: str, category: str = "td") -> list[str]:
    return re.findall(rf"<{category}[^>]*>([^<]*)</{category}>", html)


def test_notebook_shows_html_beside_the_text():
    x = tt.tensor([1.0, 2.0])
    shown, _ = DisplayFormatter().format(x)
    assert shown["text/html"] == x._repr_html_()
    assert shown["text/plain"] == repr(x) == "tensor([1., 2.])"
    assert "<pre>tensor([1., 2.])</pre>" in shown["text/html"]


def test_few_numbers_are_a_table_with_indices():
    x = tt.arange(12.0).reshape(2, 3, 2) / 3
    html = x._repr_html_()
    assert cells(html) == [f"{i / 3:.4g}" for i in range(12)]
    assert cells(html, "th") == ["", "0", "1", "0, 0", "0, 1", "0, 2", "1, 0", "1, 1", "1, 2"]
    assert cells(tt.tensor(7)._repr_html_()) == ["7"]
    assert cells(tt.tensor([True, False])._repr_html_()) == ["True", "False"]


def test_html_names_leaf_grad_and_operation():
    w = tt.tensor([3.0, 4.0], requires_grad=True)
    assert "shape (2,) · float32 · a leaf that requires grad" in w._repr_html_()
    assert "no backward() has come here" in w._repr_html_()
    y = (w * w).sum()
    assert "one number · float32 · computed by reduce_sum" in y._repr_html_()
    y.backward()
    before = w.grad
    assert cells(w._repr_html_()) == ["3", "4", "6", "8"]
    assert w.grad is before
    assert "grad" not in tt.ones(2)._repr_html_()


def test_large_tensors_are_pictures():
    x = tt.linspace(-1.0, 1.0, 121).reshape(11, 11)
    html = x._repr_html_()
    fields = picture(html)
    assert fields.shape == (11, 11, CELL, CELL)
    corner, middle = fields[..., 0, 0].ravel(), fields[..., CELL // 2, CELL // 2].ravel()
    assert corner[60] == 0  # 0 is nothing at all
    assert (np.diff(corner[61:].astype(int)) >= 0).all() and corner[-1] == corner[0] == 255  # the larger, the stronger
    assert (middle[:60] == 0).all() and (middle[61:] == corner[61:]).all()  # the bar of what is below 0
    assert "blue cells with a bar are below 0" in html
    assert f'alt="from -1 to 1, norm {np.linalg.norm(x.numpy()):.4g}"' in html
    assert "bar" not in x.abs()._repr_html_()


def test_nonfinite_values_are_checkered():
    x = tt.ones(10, 10).triu()
    x[2, 3], x[4, 5] = float("nan"), -float("inf")
    fields = picture(x._repr_html_())
    for row, column in ((2, 3), (4, 5)):
        rows, columns = np.indices((CELL, CELL))
        assert np.array_equal(fields[row, column], np.where((rows + columns) % 2 == 1, 0, 255))
    assert (fields[0, 0] == 255).all()
    assert "2 of 100 are NaN or inf" in x._repr_html_() and "checkered cells are not finite" in x._repr_html_()


def test_only_shown_values_of_a_huge_tensor_are_copied():
    x = tt.randn(1, 4000).expand(20_000, 4000)
    tracemalloc.start()
    try:
        html = x._repr_html_()
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 20_000_000  # a byte for each of its numbers would be 80 MB
    assert "64 of 20000 rows and 64 of 4000 columns are shown" in html and len(html) < 60_000


@pytest.mark.parametrize(
    "x",
    [
        *(tt.zeros(0, 3), tt.zeros(3, 0), tt.zeros(()), tt.zeros(20, 20), tt.full((9, 9), float("nan"))),
        *(tt.full((99,), 5e-324, dtype=tt.float64), tt.linspace(-1, 1, 99, dtype=tt.float64) * 1.7e308),
        *(tt.arange(99).to(tt.uint8), tt.full((9, 9), -(2**63)), tt.randn(9, 9) > 0, tt.randn(2, 3, 4, 5, 6)),
        *(tt.randn(99, 99).mT[::2], symbols("x", 2, 2), symbols("x", 9, 9), tt.nn.Parameter(tt.randn(9, 9))),
    ],
    ids=lambda x: f"{x.dtype}-{x.shape}",
)
def test_html_never_fails_and_loads_nothing(x):
    html = x._repr_html_()
    assert html.startswith('<div class="tt-tensor">') and html.endswith("</div>")
    assert "<script" not in html and "http" not in html and "url(" not in html


def test_html_is_escaped():
    html = symbols("<b>", 2)._repr_html_()
    assert "<b>_" not in html and "&lt;b&gt;_0" in html


def test_tensors_without_values_are_text():
    assert tt.zeros(3, device="meta")._repr_html_() is None
    seen = []
    tt.compile(lambda x: (seen.append(x._repr_html_()), x * 2)[1])(tt.ones(2))
    assert seen[0] is None


@pytest.mark.slow
@pytest.mark.parametrize("dark", [False, True])
def test_html_fits_a_phone_and_the_colours_of_the_page(dark, tmp_path):
    page = tmp_path / "cell.html"
    ink, paper = ("#eeeeee", "#111111") if dark else ("#111111", "#ffffff")
    tensors = [tt.randn(64, 64), tt.randn(2, 12) * 1e6, tt.arange(48)]
    page.write_text(
        '<!doctype html><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f'<body style="color: {ink}; background: {paper}">{"".join(x._repr_html_() for x in tensors)}'
    )
    with chromium(390, 800, dark) as driver:
        driver.get(page.as_uri())
        assert driver.execute_script("return document.documentElement.scrollWidth") <= 390
        colours = "return [...document.querySelectorAll('td, p, pre')].map(e => getComputedStyle(e).color)"
        assert len(set(driver.execute_script(colours))) == 1
