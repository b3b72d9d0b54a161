"""Arrays and equations for the page of a walkthrough: numbers or heat maps, each stored once."""

from base64 import b64encode
from dataclasses import dataclass
from html import escape

import numpy as np

from tinytensor.utils.display.latex import with_words
from tinytensor.viz.text import number, summary

NUMBERS = 48  # up to so many numbers are written; more are a heat map
SIDE = 64  # the most rows and columns of a heat map; a larger array is sampled
SUMMED = 1 << 20  # with more numbers, only those shown are summarized: adding up all would take a while
APART = 16  # the most matrices of one array that are shown one by one


def tag(name: str, text: str, css_class: str = "") -> str:
    """An element with text in it."""
    attribute = f' class="{css_class}"' if css_class else ""
    return f"<{name}{attribute}>{escape(text)}</{name}>"


@dataclass(frozen=True)
class Axes:
    """The words at the rows and columns of an array's matrices, and at the matrices; empty where there are none."""

    rows: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    apart: tuple[str, ...] = ()


class Store:
    """The arrays and equations of a page: each is stored once, and shown by its number."""

    def __init__(self):
        self.arrays: list[dict] = []
        self.math: list[str] = []
        self._known: dict[object, int] = {}

    def array(self, array: np.ndarray | None, axes: Axes = Axes()) -> str:
        """HTML for the place of an array."""
        if array is None:
            return (
                '<p class="where">not kept on the tape: run the forward pass inside <code>watch()</code> to see it</p>'
            )
        key = (array.shape, array.dtype.str, array.tobytes() if array.dtype != object else id(array), axes)
        if key not in self._known:
            self._known[key] = len(self.arrays)
            self.arrays.append(as_json(array, axes))
        return f'<div class="array" data-array="{self._known[key]}"></div>'

    def formula(self, equation: str) -> str:
        """HTML for the place of an equation, which may have words in it."""
        if equation not in self._known:
            self._known[equation] = len(self.math)
            self.math.append(with_words(equation))
        return f'<div class="math" data-math="{self._known[equation]}"></div>'


def sample(array: np.ndarray) -> tuple[np.ndarray, str]:
    """An array as a matrix that fits a heat map, float64, and its range in words.

    The last dimension goes to the right, those before it go down. Of a large array only the shown numbers are read.
    """
    shape = array.shape if array.ndim > 1 else (1, array.size)
    rows, columns = int(np.prod(shape[:-1])), shape[-1]
    down, right = (np.unique(np.linspace(0, n - 1, min(n, SIDE)).round().astype(int)) for n in (rows, columns))
    indices = np.unravel_index(down, shape[:-1])
    shown = array.reshape(shape)[(*(index[:, None] for index in indices), right)].astype(np.float64)
    part = f"{len(down)} of {rows} rows and {len(right)} of {columns} columns are shown"
    if array.size > SUMMED:
        return shown, f"{part}: {summary(shown)}"
    return shown, summary(array) + (f"; {part}" if shown.size < array.size else "")


def as_json(array: np.ndarray, axes: Axes = Axes()) -> dict:
    """An array for the page: rows of numbers if they are few, else a byte for each (0 is NaN, 128 is 0).

    An array of more than two dimensions is several matrices, which are shown apart; `apart` has their names.
    """
    shape = "" if array.ndim == 0 else f"shape {array.shape}"
    words = {name: list(labels) for name in ("rows", "columns") if (labels := getattr(axes, name))}
    indices = list(np.ndindex(array.shape[:-2]))
    if 1 < len(indices) <= APART:
        words["apart"] = list(axes.apart) or [f"[{', '.join(map(str, index))}]" for index in indices]
    if array.size <= NUMBERS or array.dtype.kind not in "fiub":
        rows = array.reshape(-1, array.shape[-1]) if array.ndim else array.reshape(1, 1)
        return {"text": shape, "numbers": [[number(x) for x in row] for row in rows], "words": words}
    shown, text = sample(array)
    largest = float(np.nanmax(np.abs(np.where(np.isfinite(shown), shown, np.nan)), initial=0.0)) or 1.0
    with np.errstate(invalid="ignore"):
        bytes_ = np.where(np.isnan(shown), 0, 128 + np.clip(shown / largest, -1, 1) * 127).astype(np.uint8)
    whole = shown.shape == (array.size // array.shape[-1], array.shape[-1])  # else rows of several matrices are mixed
    return {
        "text": f"{shape}, {text}",
        "rows": shown.shape[0],
        "columns": shown.shape[1],
        "heat": b64encode(bytes_.tobytes()).decode(),
        "words": words if whole else {},
    }
