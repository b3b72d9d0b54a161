"""The view of a tensor in a notebook, as the last line of a cell: a table of few numbers, a picture of more.

HTML adds to the text form the indices, and a picture where the numbers are too many to read. The text form is included
below a line that unfolds it. Nothing is loaded, and nothing is computed from more numbers than are shown, so that a
tensor of gigabytes is shown as fast as a small one.

A notebook is light or dark as its reader set it, independently of the system. So nothing here has a colour of its own
except the cells of the picture, which fade into the page as their numbers go to 0. A cell below 0 has a bar, like a
minus sign, and a cell that is not finite is checkered, so that the picture reads without colours, too.
"""

import struct
import zlib
from base64 import b64encode
from html import escape

import numpy as np

from tinytensor.core.recorder import is_recording
from tinytensor.core.tensor import Tensor
from tinytensor.viz.arrays import NUMBERS, SIDE, sample, tag
from tinytensor.viz.text import number

CELL = 7  # pixels of a cell of the picture, each way
LOW, HIGH, ODD = (0x2F, 0x8F, 0xD0), (0xDD, 0x6B, 0x20), (0x88, 0x88, 0x88)  # seen on white and on black
STYLE = """<style>
.tt-tensor { font-size: 13px; line-height: 1.45; max-width: 100%; }
.tt-tensor p { margin: .2em 0; }
.tt-tensor .wide { overflow-x: auto; }
.tt-tensor table { border-collapse: collapse; margin: .2em 0; }
.tt-tensor td, .tt-tensor th { padding: .1em .5em; text-align: right; white-space: nowrap; background: none;
  font-family: ui-monospace, "DejaVu Sans Mono", monospace; }
.tt-tensor td { border: 1px solid #8886; }
.tt-tensor th { font-weight: normal; opacity: .75; }
.tt-tensor img { image-rendering: pixelated; border: 1px solid #8886; display: block; max-width: 100%; }
.tt-tensor summary { cursor: pointer; }
</style>"""


def html(tensor: Tensor) -> str | None:
    """The tensor as HTML; None where only text can be shown (or, in a compiled step, an error)."""
    if is_recording() or tensor.is_meta:
        return None
    said = [f"shape {tensor.shape}" if tensor.shape else "one number", tensor.dtype.name]
    if tensor.node is not None:
        said.append(f"computed by {tensor.node.op.name}, its gradient flows on")
    elif tensor.requires_grad:
        said.append("a leaf that requires grad")
    parts = [f"<p><b>tensor</b> {escape(' · '.join(said))}</p>", _values(tensor._data)]
    # The gradient of a computed tensor is there only if retain_grad() asked for it.
    grad = tensor.held_grad()
    if grad is not None:
        parts += ["<p><b>.grad</b></p>", _values(grad._data)]
    elif tensor.requires_grad and tensor.node is None:
        parts.append("<p><b>.grad</b> None: no backward() has come here</p>")
    text = f"<details><summary>as text</summary><pre>{escape(repr(tensor))}</pre></details>"
    return f'<div class="tt-tensor">{STYLE}{"".join(parts)}{text}</div>'


def _values(array: np.ndarray) -> str:
    """A table, a picture, or a sentence where neither fits."""
    if array.size == 0:
        return tag("p", "no numbers")
    if array.size <= NUMBERS:
        return _table(array)
    if array.dtype.kind not in "fiub":
        return tag("p", f"{array.size} exact numbers: the text has them")
    shown, words = sample(array)
    if (shown == shown[0, 0]).all():
        return tag("p", words)
    captions = [words, "the stronger a cell, the larger its number"]
    captions += ["a row for each place of the dimensions before the last"] if array.ndim > 2 else []
    captions += ["blue cells with a bar are below 0, orange ones above"] if (shown < 0).any() else []
    captions += ["checkered cells are not finite"] if not np.isfinite(shown).all() else []
    picture, columns = b64encode(_png(_cells(shown))).decode(), shown.shape[1]
    width = CELL * columns * max(1, min(3, SIDE // columns))  # few cells are drawn larger
    return (
        f'<div class="wide"><img width="{width}" alt="{escape(words)}" src="data:image/png;base64,{picture}"></div>'
        + tag("p", "; ".join(captions) + ".")
    )


def _table(array: np.ndarray) -> str:
    """Numbers with their indices: the last dimension goes to the right, those before it go down."""
    rows = array.reshape(-1, array.shape[-1] if array.ndim else 1)
    top = "".join(f'<th scope="col">{j}</th>' for j in range(rows.shape[1])) if array.ndim else ""
    body = []
    for index, row in zip(np.ndindex(array.shape[:-1]), rows, strict=True):
        name = f'<th scope="row">{", ".join(map(str, index))}</th>' if array.ndim > 1 else ""
        cells = (x if len(x := number(value)) <= 60 else x[:57] + "..." for value in row)
        body.append(f"<tr>{name}{''.join(f'<td>{escape(x)}</td>' for x in cells)}</tr>")
    head = f"<tr>{'<th></th>' if array.ndim > 1 else ''}{top}</tr>" if top else ""
    return f'<div class="wide"><table>{head}{"".join(body)}</table></div>'


def _cells(shown: np.ndarray) -> np.ndarray:
    """The picture of a matrix as bytes, CELL by CELL of them for a number: 0 is empty, 1 to 127 are the strengths of
    negative numbers, 128 to 254 those of positive ones, and 255 marks a number that is not finite."""
    finite = np.isfinite(shown)
    sizes = np.abs(np.where(finite, shown, 0.0))
    strengths = np.rint(sizes / (float(sizes.max()) or 1.0) * 126).astype(np.uint8)
    below = shown < 0
    bytes_ = np.where(finite, np.where(strengths > 0, strengths + np.where(below, 1, 128).astype(np.uint8), 0), 255)
    picture = bytes_.astype(np.uint8).repeat(CELL, 0).repeat(CELL, 1)
    down, right = (np.arange(n) % CELL for n in picture.shape)
    bar = (down[:, None] == CELL // 2) & (right > 0) & (right < CELL - 1)
    picture[bar & below.repeat(CELL, 0).repeat(CELL, 1) & (picture < 128)] = 0
    picture[((down[:, None] + right) % 2 == 1) & (picture == 255)] = 0
    return picture


def _png(picture: np.ndarray) -> bytes:
    """A PNG of these bytes: the larger a number, the more opaque its colour (W3C, PNG, sections 5 and 11)."""
    colours = np.array([LOW] * 128 + [HIGH] * 127 + [ODD], np.uint8)
    opacity = np.r_[0, np.linspace(8, 255, 127), np.linspace(8, 255, 127), 255].astype(np.uint8)
    rows, columns = picture.shape
    lines = np.concatenate([np.zeros((rows, 1), np.uint8), picture], axis=1)  # each begins with its filter: none
    chunks = {
        b"IHDR": struct.pack(">IIBBBBB", columns, rows, 8, 3, 0, 0, 0),  # eight bits, which count colours
        b"PLTE": colours.tobytes(),
        b"tRNS": opacity.tobytes(),
        b"IDAT": zlib.compress(lines.tobytes(), 9),
        b"IEND": b"",
    }
    written = b"\x89PNG\r\n\x1a\n"
    for name, data in chunks.items():
        written += struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
    return written
