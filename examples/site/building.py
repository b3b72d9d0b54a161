"""Sphinx's part: from the sources of the pages to HTML, with formulas as MathML."""

import io
import re
import shutil
from html import escape
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.errors import SphinxError
from sphinx.util.docutils import docutils_namespace, patch_docutils

STATIC = Path(__file__).parent / "static"
FONT = 'system-ui, -apple-system, "Segoe UI", "Noto Sans", "DejaVu Sans", sans-serif'
MONO = 'ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace'
SETTINGS = {
    "project": "tinytensor",
    "html_title": "tinytensor",
    "html_theme": "furo",
    "extensions": ["myst_parser", "examples.site.building"],
    "myst_enable_extensions": ["colon_fence", "dollarmath", "amsmath", "deflist"],
    "myst_heading_anchors": 4,
    "myst_dmath_double_inline": True,
    "myst_links_external_new_tab": False,
    "html_static_path": [str(STATIC)],
    "html_css_files": ["site.css"],
    "html_search_scorer": str(Path(__file__).parent / "scorer.js"),
    "html_js_files": ["site.js"],
    "html_math_renderer": "mathml",
    "html_copy_source": False,
    "html_show_sourcelink": False,
    "html_show_copyright": False,
    "html_use_index": False,
    "html_domain_indices": False,
    "html_show_search_summary": False,  # it would be requested from the page, which a browser refuses on a disk
    "python_use_unqualified_type_names": True,
    "python_maximum_signature_line_length": 90,
    "toc_object_entries_show_parents": "hide",
    "suppress_warnings": ["ref.python"],  # a class with two paths: a signature names it without its path
    "smartquotes": False,  # texts show code and its output: a quotation mark stays as it was written
    "highlight_language": "none",
    "html_theme_options": {
        "navigation_with_keys": False,
        "light_css_variables": {
            "font-stack": FONT,
            "font-stack--monospace": MONO,
            "color-brand-primary": "#00568a",
            "color-brand-content": "#00629b",
        },
        "dark_css_variables": {"color-brand-primary": "#7cc4f0", "color-brand-content": "#7cc4f0"},
        "top_of_page_buttons": [],
    },
}


class BuildFailed(Exception):
    """Sphinx found a fault in a page: a link without its end, a formula that cannot be typeset."""


def build(sources: Path, extra: Path, work: Path, new: bool = False) -> list[str]:
    """Build the HTML of all pages in `sources` into `work`/html, and return the names of the pages.

    What did not change since the last time is not built again. BuildFailed with all warnings if there is one.
    """
    if new:
        shutil.rmtree(work, ignore_errors=True)
    out = work / "html"
    told, warned = io.StringIO(), io.StringIO()
    settings = SETTINGS | {"html_extra_path": [str(extra)]}
    try:
        with patch_docutils(), docutils_namespace():
            app = Sphinx(sources, None, out, work / "doctrees", "html", settings, told, warned)
            app.build()
            pages = sorted(app.env.found_docs)
    except SphinxError as error:
        raise BuildFailed(f"{error}\n{warned.getvalue()}") from error
    warnings = [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in warned.getvalue().splitlines() if line.strip()]
    if warnings:
        shutil.rmtree(
            work, ignore_errors=True
        )  # Sphinx would not repeat a warning of a page that it does not build anew
        raise BuildFailed("\n".join(warnings))
    old = [p for p in pages if (out / f"{p}.html").stat().st_mtime < (sources / f"{p}.md").stat().st_mtime]
    if old:
        shutil.rmtree(work, ignore_errors=True)
        raise BuildFailed(f"these pages were not built anew, start again: {', '.join(old)}")
    _remove_old(out, pages, extra)
    return pages


def _remove_old(out: Path, pages: list[str], extra: Path) -> None:
    """Remove what an earlier build wrote and this one did not."""
    kept = {out / f"{page}.html" for page in [*pages, "search"]}
    kept |= {out / "_static" / path.name for path in STATIC.iterdir()}
    kept |= {out / path.relative_to(extra) for path in extra.rglob("*")}
    own = {out / "_static", out / "_images"}
    for path in [
        p for p in out.rglob("*") if p.is_file() and p.name not in ("searchindex.js", "objects.inv", ".buildinfo")
    ]:
        if path not in kept and own.isdisjoint(path.parents):
            path.unlink()


# ------------------------------------------------------------------------------------------- an extension of Sphinx


NAMES = re.compile(r"\\(arg)(?![A-Za-z])")  # a name that latex2mathml lacks


def mathml(latex: str, display: str = "inline") -> str:
    """LaTeX as MathML, without the number of `\\tag`, which stands beside it; ValueError for an unknown command."""
    from latex2mathml.converter import convert

    latex = NAMES.sub(r"\\operatorname{\1}", latex)
    # a left superscript (the head of ^hQ) would stand against the right one of the letter before it
    typeset = convert(latex, display=display).replace("<msup><mrow />", '<mspace width="0.2em" /><msup><mrow />')
    if unknown := re.search(r">(\\[A-Za-z]+)<", typeset):  # it hands on what it does not know
        raise ValueError(f"{unknown[1]} is not known")
    return typeset


def _inline(translator, node: nodes.math) -> None:
    translator.body.append(f'<span class="math">{_typeset(node, "inline")}</span>')
    raise nodes.SkipNode


def _block(translator, node: nodes.math_block) -> None:
    latex = node.astext()
    tag = re.search(r"\\tag\{([^{}]*)\}", latex)
    shown = f'<span class="number">({escape(tag[1])})</span>' if tag else ""
    typeset = _typeset(node, "block", latex.replace(tag[0], "") if tag else latex)
    anchors = "".join(f'<span id="{name}"></span>' for name in node.get("ids", []))
    translator.body.append(f'{anchors}<div class="equation-line"><div class="math">{typeset}</div>{shown}</div>')
    raise nodes.SkipNode


def _typeset(node: nodes.Element, display: str, latex: str | None = None) -> str:
    latex = node.astext() if latex is None else latex
    try:
        return mathml(latex.strip(), display)
    except Exception as error:  # latex2mathml has many kinds
        place = f"{node.source}:{node.line}: this formula cannot be typeset"
        raise SphinxError(f"{place} ({error!r}): {latex}") from error


def setup(app: Sphinx) -> dict:
    """Make formulas MathML, and tables scroll by themselves."""
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
