"""The report of a run: Markdown, and one HTML page whose mathematics is MathML, so that it opens without a network.

Both say the same of each claim: statement, proof or check, size, seconds, assumptions, whom it trusts, the equation.
"""

import platform
import re
from collections.abc import Sequence
from html import escape
from pathlib import Path

import numba
import sympy

from .claims import KINDS, PARTS, Result

TRUST = (
    "Every claim trusts CPython and the source text of this package. SymPy's diff and its arithmetic stand behind what "
    "is derived, the index calculus (part index, whose rules are expanded at small sizes) behind what holds for any "
    "size, Numba behind what is run on the engine's compiled kernels. No proof kernel checks the proofs."
)


def summary(results: Sequence[Result]) -> str:
    """One line: how many claims of which kind hold, and in what time."""
    seconds = f"({sum(r.seconds for r in results):.1f} s)"
    counts = {kind: sum(r.claim.kind == kind and r.error is None for r in results) for kind in KINDS}
    kinds = ", ".join(_counted(n, kind) for kind, n in counts.items() if n)
    if failed := sum(r.error is not None for r in results):
        return f"{failed} of {len(results)} claims FAILED; held: {kinds or 'none'} {seconds}"
    return f"{_counted(len(results), 'claim')} hold{'s' * (len(results) == 1)}: {kinds} {seconds}"


def _counted(n: int, word: str) -> str:
    plural = {"erratum": "errata", "proof at sizes": "proofs at sizes"}.get(word, f"{word}s")
    return f"{n} {word if n == 1 else plural}"


def versions() -> str:
    return f"Python {platform.python_version()}, SymPy {sympy.__version__}, Numba {numba.__version__}"


def equations(latex: str) -> list[str]:
    """The display equations of an Evidence: blank lines separate them."""
    return [part.strip() for part in re.split(r"\n\s*\n", latex) if part.strip()]


def _by_part(results: Sequence[Result]) -> dict[str, list[Result]]:
    return {part: rows for part in PARTS if (rows := [r for r in results if r.claim.part == part])}


# --- Markdown -------------------------------------------------------------------------------------------------------


def markdown(results: Sequence[Result]) -> str:
    """The report as Markdown."""
    lines = ["# What is proved about tinytensor, and how", "", f"{summary(results)}. {versions()}.", ""]
    lines += [f"- **{kind}**: {meaning}" for kind, meaning in KINDS.items()]
    lines += ["", f"**Trusted.** {TRUST}", ""]
    for part, rows in _by_part(results).items():
        lines += [
            f"## {part}",
            "",
            PARTS[part],
            "",
            "| claim | kind | size | seconds | result |",
            "|---|---|---|---:|---|",
        ]
        lines += [
            f"| {_plain(r.claim.statement)} | {r.claim.kind} | {_plain(r.claim.size)} | {r.seconds:.2f} "
            f"| {'**FAILED**' if r.error else 'holds'} |"
            for r in rows
        ]
        lines.append("")
        for r in rows:
            lines += [f"### {_plain(r.claim.statement)}", ""]
            lines += [f"- **{name}**: {_plain(value)}" for name, value in details(r)]
            lines.append("")
            for name, formula in compared(r):
                lines += [f"{name}:", "", "$$", formula, "$$", ""]
            for equation in equations(r.evidence.latex):
                lines += ["$$", equation, "$$", ""]
            if r.evidence.text:
                lines += ["```text", r.evidence.text, "```", ""]
    return "\n".join(lines)


def compared(r: Result) -> list[tuple[str, str]]:
    """(what it is, LaTeX) of the two formulas of an erratum or a choice."""
    right = "taken here" if r.claim.kind == "choice" else "right"
    return [(name, formula) for name, formula in (("printed", r.claim.printed), (right, r.claim.right)) if formula]


def details(r: Result) -> list[tuple[str, str]]:
    """(name, value) of what a report says of a claim beside its statement and its mathematics."""
    c = r.claim
    rows = [
        ("result", f"FAILED: {r.why}" if r.error else "holds"),
        ("evidence", c.kind),
        ("size", c.size),
        ("seconds", f"{r.seconds:.2f}"),
        ("assumptions", "; ".join(c.assumptions) or "none"),
        ("trusted", "; ".join(("CPython", *c.trusted))),
        ("source", c.source),
    ]
    return [(name, value) for name, value in rows if value]


def _plain(text: str) -> str:
    """Text that Markdown shows as it is, on one line."""
    return re.sub(r"([\\`*_\[\]<>|$])", r"\\\1", " ".join(text.split()))


# --- HTML -----------------------------------------------------------------------------------------------------------

STYLE = """
:root { --ink: #1d1f23; --soft: #646a73; --line: #e3e5e8; --paper: #fff; --panel: #f7f8f9; --link: #2456a6;
  --proof: #17663a; --check: #205493; --erratum: #8a5200; --display: #646a73; --failed: #b3261e; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e6e9; --soft: #9aa1ab; --line: #33373d; --paper: #17191c;
  --panel: #1f2226; --link: #8ab4f8; --proof: #6dcf97; --check: #85b7f2; --erratum: #e6b35c; --display: #9aa1ab;
  --failed: #ff8a80; } }
* { box-sizing: border-box; }
html { scroll-behavior: smooth; }
body { margin: 0; color: var(--ink); background: var(--paper); line-height: 1.55;
  font: 16px/1.55 Charter, "Bitstream Charter", "Source Serif 4", Georgia, serif; }
.page { display: grid; grid-template-columns: 19rem minmax(0, 50rem); gap: 3.5rem; max-width: 78rem; margin: auto;
  padding: 0 2rem; }
nav { position: sticky; top: 0; height: 100vh; overflow-y: auto; padding: 2.5rem 0; font-size: .84rem; }
nav details { margin-bottom: .5rem; }
nav summary, nav summary a { color: var(--ink); font-weight: 600; font-size: .9rem; }
nav summary span { color: var(--soft); font-weight: 400; }
nav div a { display: block; color: var(--soft); padding: .12rem .7rem; line-height: 1.35; margin-left: .3rem;
  border-left: 2px solid var(--line); }
nav div a:hover { color: var(--ink); border-color: var(--link); }
nav a.failed { color: var(--failed); }
main { padding: 2.5rem 0 6rem; }
h1 { font-size: 2rem; line-height: 1.2; margin: 0 0 .6rem; }
h2 { font-size: 1.45rem; margin: 3.2rem 0 .3rem; padding-top: .6rem; border-top: 1px solid var(--line); }
h3 { font-size: 1.06rem; margin: 0 0 .4rem; line-height: 1.4; }
a { color: var(--link); text-decoration: none; }
code, pre { font: .8rem/1.5 ui-monospace, "Cascadia Mono", "DejaVu Sans Mono", Menlo, monospace; }
.lead { color: var(--soft); margin-top: 0; }
article { margin: 1.5rem 0; padding: 1.1rem 1.3rem; border: 1px solid var(--line); border-radius: .5rem; }
article.failed { border-color: var(--failed); }
.badge { display: inline-block; font: 600 .7rem/1.7 system-ui, sans-serif; letter-spacing: .03em; padding: 0 .55rem;
  border: 1px solid currentColor; border-radius: 1rem; margin-right: .6rem; }
.proof { color: var(--proof); } .check { color: var(--check); } .erratum { color: var(--erratum); }
.display { color: var(--display); }
.bad { color: var(--failed); }
.meta { color: var(--soft); font-size: .86rem; margin: 0; }
.math { overflow-x: auto; padding: .5rem 0 .3rem 1.4rem; }
.math + .math { padding-top: .2rem; }
math { font-family: "STIX Two Math", "Cambria Math", "Latin Modern Math", "Libertinus Math", math; font-size: 1.08rem; }
math[display="block"] { width: max-content; margin: 0; }
pre { background: var(--panel); padding: .8rem 1rem; border-radius: .4rem; overflow-x: auto; margin: .7rem 0; }
dl { display: grid; grid-template-columns: 7rem 1fr; gap: .1rem .8rem; margin: .7rem 0 0; font-size: .86rem; }
dt { color: var(--soft); } dd { margin: 0; }
summary { cursor: pointer; color: var(--link); font-size: .86rem; }
@media (max-width: 62rem) { .page { display: block; padding: 0 1.1rem; }
  nav { position: static; height: auto; padding-bottom: 0; } main { padding-top: 1rem; } }
@media print { nav { display: none; } .page { display: block; } article { break-inside: avoid; } }
"""


def mathml(latex: str) -> str:
    """The equation as MathML, which browsers typeset by themselves."""
    try:
        from latex2mathml.converter import convert
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "the HTML report is typeset by latex2mathml, which is not installed: pip install latex2mathml"
        ) from error
    # a left superscript (the head of ^hQ) would stand against the right one of the letter before it
    return convert(latex, display="block").replace("<msup><mrow />", '<mspace width="0.2em" /><msup><mrow />')


def html(results: Sequence[Result]) -> str:
    """The report as one HTML page without scripts or links to elsewhere."""
    contents, sections = [], []
    for part, rows in _by_part(results).items():
        opened = " open" if any(r.error for r in rows) else ""
        contents.append(
            f'<details{opened}><summary><a href="#{part}">{part}</a> <span>{len(rows)}</span></summary><div>'
        )
        sections.append(f'<h2 id="{part}">{part}</h2>\n<p class="lead">{escape(PARTS[part])}</p>')
        for n, r in enumerate(rows, start=1):
            mark = ' class="failed"' if r.error else ""
            contents.append(f'<a{mark} href="#{part}-{n}">{escape(r.claim.statement)}</a>')
            sections.append(_article(f"{part}-{n}", r))
        contents.append("</div></details>")
    kinds = "".join(f'<dt class="{k}">{k}</dt><dd>{escape(meaning)}</dd>' for k, meaning in KINDS.items())
    contents_html, sections_html = "\n".join(contents), "\n".join(sections)
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>What is proved about tinytensor</title>
<style>{STYLE}</style>
</head>
<body>
<div class="page">
<nav aria-label="contents">
{contents_html}
</nav>
<main>
<h1>What is proved about tinytensor, and how</h1>
<p class="lead">{escape(summary(results))}. {escape(versions())}.</p>
<dl>{kinds}<dt>trusted</dt><dd>{escape(TRUST)}</dd></dl>
{sections_html}
</main>
</div>
</body>
</html>
"""


def _article(anchor: str, r: Result) -> str:
    c = r.claim
    meta = [escape(c.size), f"{r.seconds:.2f} s", escape(c.source)]
    lines = [
        f'<article id="{anchor}"{" class=failed" if r.error else ""}>',
        f"<h3>{escape(c.statement)}</h3>",
        f'<p class="meta"><span class="badge {c.kind}">{c.kind}</span>{" · ".join(m for m in meta if m)}'
        f" · {'<strong class=bad>FAILED</strong>' if r.error else 'holds'}</p>",
    ]
    if r.error:
        lines.append(f'<pre class="bad">{escape(r.why)}</pre>')
    for equation in equations(r.evidence.latex):
        try:
            lines.append(f'<div class="math">{mathml(equation)}</div>')
        except ModuleNotFoundError:
            raise
        except Exception as error:
            raise ValueError(f"the LaTeX of {c.part}, {c.statement!r}, cannot be typeset: {equation}") from error
    if r.evidence.text:
        text = f"<pre>{escape(r.evidence.text)}</pre>"
        long = r.evidence.text.count("\n") >= 15
        label = "as text" if r.evidence.latex else "in full"
        lines.append(f"<details><summary>{label}</summary>{text}</details>" if long else text)
    shown = [(name, value) for name, value in details(r) if name in ("assumptions", "trusted")]
    lines.append("<dl>" + "".join(f"<dt>{name}</dt><dd>{escape(value)}</dd>" for name, value in shown) + "</dl>")
    return "\n".join([*lines, "</article>"])


def write(directory: Path, results: Sequence[Result]) -> list[Path]:
    """report.md and report.html in `directory`; the Markdown is there even if the page cannot be made."""
    directory.mkdir(parents=True, exist_ok=True)
    paths = [directory / "report.md", directory / "report.html"]
    paths[0].write_text(markdown(results), encoding="utf-8")
    paths[1].write_text(html(results), encoding="utf-8")
    return paths
