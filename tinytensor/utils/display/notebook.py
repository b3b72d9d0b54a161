"""Formulas as a notebook shows them: typeset. Everywhere else they print as text.

A notebook asks the value of a cell for HTML and for LaTeX. The HTML has MathML, which browsers typeset without scripts,
so that it reads offline and in an exported page, too. The LaTeX is for fronts that show no HTML. Nothing here has a
colour of its own: a notebook is light or dark as its reader set it.
"""

import re
from html import escape

from tinytensor.utils.display.latex import mathml

STYLE = """<style>
.tt-shown { line-height: 1.5; max-width: 100%; overflow-wrap: anywhere; }
.tt-shown p { margin: .25em 0; }
.tt-shown ul { margin: .25em 0; padding-left: 1.6em; }
.tt-shown .wide { overflow-x: auto; overflow-y: hidden; padding: .3em 0 .3em 1.6em; }
.tt-shown .wide math { display: block; width: max-content; font-size: 1.1em; }
.tt-shown math { font-family: "STIX Two Math", "Cambria Math", "Latin Modern Math", "DejaVu Math TeX Gyre", math; }
.tt-shown pre { margin: .25em 0; white-space: pre-wrap; background: none; }
.tt-shown table { border-collapse: collapse; margin: .25em 0 .8em; }
.tt-shown th, .tt-shown td { padding: .1em .8em .1em 0; text-align: left; vertical-align: top; background: none;
  font-size: inherit; }
.tt-shown th { font-weight: normal; opacity: .75; white-space: nowrap; }
.tt-shown summary { cursor: pointer; }
</style>"""


class Latex(str):
    """LaTeX: a string, which prints as it is, and which a notebook typesets."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str.__str__(self)

    def _repr_latex_(self) -> str:
        return rf"$\displaystyle {self}$"

    def _repr_html_(self) -> str | None:
        return shown(formula(self))


def shown(*parts: str | None) -> str | None:
    """The HTML of a notebook's cell; None, for which a notebook takes the text, if a part could not be typeset."""
    return None if None in parts else f'<div class="tt-shown">{STYLE}{"".join(parts)}</div>'


def formula(latex: str) -> str | None:
    """LaTeX in a line of its own, which scrolls if it is wide; None if latex2mathml is missing, or can't read it."""
    try:
        return f'<div class="wide">{mathml(str(latex), "block")}</div>'
    except Exception:  # latex2mathml has many kinds
        return None


_ENTRY = re.compile(r"\b([A-Za-z]\w*)\[(\d+(?:, \d+)*)\]")
_POWER = re.compile(r"\b(\d+)\^(-?[\d.]*\d)")


def sentence(text: str) -> str:
    """A sentence with its entries x[0, 1] and powers 2^-100 as formulas."""
    text = _ENTRY.sub(lambda m: f"<i>{m[1]}</i><sub>{m[2].replace(',', '')}</sub>", escape(text))
    return _POWER.sub(lambda m: f"{m[1]}<sup>{m[2].replace('-', '−')}</sup>", text)
