"""The report of a run: Markdown, and one HTML page whose mathematics is MathML, so that it opens without a network.

Both begin with equation (17), show the same for each claim (statement, kind, size, seconds, assumptions, trust, the
equations), and end with the documents: 003's equations by their numbers, and the statements of each document, with the
claims that cover them. Each claim links to the places that it is about, and each place to its claims.
"""

import platform
import re
from collections.abc import Sequence
from functools import cache
from html import escape
from importlib import resources
from pathlib import Path

import numba
import sympy

from derivations import equations
from derivations.claims import BOUND, CLAIMS, KINDS, PARTS, Claim, Result
from derivations.proofs.eq19 import EQ_19_LATEX
from derivations.report import documents
from derivations.report.documents import ROWS, TITLES, Row
from tinytensor.native.platform.distribution import install
from tinytensor.symbolic.index_calculus.adjoints import d
from tinytensor.symbolic.index_calculus.notation import tex

TRUST = (
    "Every claim trusts CPython and the source text of this package. Derivations also trust SymPy's diff and its "
    "arithmetic; claims for any size the index calculus (part index checks its rules at small sizes); runs of the "
    "engine's compiled kernels Numba. No proof kernel checks the proofs."
)


def summary(results: Sequence[Result]) -> str:
    """One line: the number of claims of each kind that hold, and the time."""
    seconds = f"({sum(r.seconds for r in results):.1f} s)"
    counts = {category: sum(r.claim.category == category and r.error is None for r in results) for category in KINDS}
    counts_text = ", ".join(_counted(n, category) for category, n in counts.items() if n)
    if failed := sum(r.error is not None for r in results):
        return f"{failed} of {len(results)} claims FAILED; held: {counts_text or 'none'} {seconds}"
    return f"{_counted(len(results), 'claim')} hold{'s' * (len(results) == 1)}: {counts_text} {seconds}"


def _counted(n: int, word: str) -> str:
    plural = {"erratum": "errata", "proof at sizes": "proofs at sizes", "sampled": "sampled"}.get(word, f"{word}s")
    return f"{n} {word if n == 1 else plural}"


ERROR = {  # the probability that a claim of a kind is wrong, given all that it trusts
    "proof": "none",
    "proof at sizes": "none",
    "sampled": f"below 2^{BOUND} each, over the random draws",
    "enclosure": "none",
    "erratum": "none where formulas differ; numbers at a sample otherwise",
    "choice": "as for errata",
    "check": "not bounded",
    "display": "nothing is compared",
}


def overview(claims: Sequence[Claim]) -> str:
    """The table of the parts: statement, claims, kind, sizes, probability of error, trust."""
    lines = [
        "| what | claims | evidence | size | error probability | trusted, beyond CPython |",
        "|---|---:|---|---|---|---|",
    ]
    for part, what in PARTS.items():
        heading = f"{part}: {what}"
        for category in KINDS:
            rows = [c for c in claims if (c.part, c.category) == (part, category)]
            if rows:
                sizes = list(dict.fromkeys(c.size for c in rows))
                others = f", and {len(sizes) - 1} more" if len(sizes) > 1 else ""
                trusted = "; ".join(dict.fromkeys(t for c in rows for t in c.trusted)) or "nothing"
                cells = (heading, len(rows), category, sizes[0] + others, ERROR[category], trusted)
                lines.append("| " + " | ".join(map(str, cells)) + " |")
                heading = f"{part}, besides"
    return "\n".join(lines)


def versions() -> str:
    return f"Python {platform.python_version()}, SymPy {sympy.__version__}, Numba {numba.__version__}"


def displayed(latex: str) -> list[str]:
    """The display equations of an Evidence: blank lines separate them."""
    return [part.strip() for part in re.split(r"\n\s*\n", latex) if part.strip()]


def numbered(equation: str) -> tuple[str, str]:
    r"""An equation and its number, from its end: \tag{3}; the number is empty if there is no tag."""
    match = re.fullmatch(r"(.*?)\\tag\{([^{}]*)\}", equation, re.DOTALL)
    return (match[1].strip(), f"({match[2]})") if match else (equation, "")


def _by_part(results: Sequence[Result]) -> dict[str, list[Result]]:
    return {part: rows for part in PARTS if (rows := [r for r in results if r.claim.part == part])}


# --- the parts beside the claims ------------------------------------------------------------------------------------

OUTSIDE = {  # equations of 003 that are no definitions: number and LaTeX
    "13": r"H(p,q)=-\sum_j p^j\log q^j",
    "15": r"p^j=\delta_{j\,y_i}",
    "18": r"X_j^i\to X_j^i-\rho\,\frac{\partial\mathcal{L}}{\partial X_j^i}",
    "19": EQ_19_LATEX,
}
LISTED = (equations.logits, *(getattr(equations, name) for name in "OGcFbWVQKE"))  # in (17), in its order; it lacks P


@cache
def equation_17() -> list[tuple[str, str]]:
    """(number, LaTeX) of the gradients of (17), with P, and of their interim gradients, in backward order."""
    closed = equations.head_closed() | equations.block_closed() | equations.embedding_closed()
    return [
        (
            "17" if left.base.of in LISTED else "19" if left.base.of is equations.P else "",
            f"{tex(left)}={tex(one.form)}",
        )
        for left, one in closed.items()
    ]


@cache
def equations_of_003() -> dict[str, list[tuple[str, str]]]:
    """The equations by their place in the source, "(3)" or "after (1)": (LaTeX, the erratum if it is mended)."""
    formulas: dict[str, list[tuple[str, str]]] = {}
    for program in (equations.embedding(), equations.block(), equations.head()):
        for line in program.lines:
            formulas.setdefault(line.source, []).append((f"{tex(line.left)}={tex(line.right)}", line.erratum))
    for number, latex in OUTSIDE.items():
        formulas[f"({number})"] = [(latex, "")]
    adjoint = tex(d(equations.O)[equations.j, equations.u])
    formulas["(17)"] = [(rf"{adjoint},\ldots,\ \text{{as this report begins}}", "")]

    def order(passage: str) -> tuple[int, bool]:
        return int(re.search(r"\d+", passage)[0]), passage.startswith("after")

    return dict(sorted(formulas.items(), key=lambda item: order(item[0])))


def passage_of(row: Row) -> str:
    """The place in equations_of_003() that a row of 003 is about; empty if none."""
    if row.document != "003":
        return ""
    return next((passage for passage in equations_of_003() if row.passage in (passage, *passage.split(", "))), "")


def of_erratum(passage: str) -> Claim | None:
    """The claim about the correction of an equation: its source is the part of the note before the colon."""
    return next((c for c in CLAIMS if c.part == "errata" and passage and c.source == passage.split(": ")[0]), None)


def uncovered() -> list[Row]:
    """The statements of the documents that no claim covers."""
    return [row for row in ROWS if not row.claims]


# --- Markdown -------------------------------------------------------------------------------------------------------


def markdown(results: Sequence[Result]) -> str:
    """The report as Markdown."""
    lines = ["# What is proved about tinytensor, and how", "", f"{summary(results)}. {versions()}.", ""]
    lines += [f"- **{category}**: {meaning}" for category, meaning in KINDS.items()]
    lines += ["", f"**Trusted.** {TRUST}", ""]
    lines += ["## Equation (17)", "", OPENING, ""]
    for number, latex in equation_17():
        lines += ["$$", latex + (rf"\tag{{{number}}}" if number else ""), "$$", ""]
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
            f"| {_plain(r.claim.statement)} | {r.claim.category} | {_plain(r.claim.extent)} | {r.seconds:.2f} "
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
            for equation in displayed(r.evidence.latex):
                lines += ["$$", equation, "$$", ""]
            if r.evidence.text:
                lines += ["```text", r.evidence.text, "```", ""]
    lines += ["## The documents", "", DOCUMENTS, ""]
    names = _names(results)
    for document, title in TITLES.items():
        lines += [f"### {document}: {_plain(title)}", "", "| place | statement | covered by |", "|---|---|---|"]
        for row in (row for row in ROWS if row.document == document):
            by = ", ".join(f"{names[c.run]}" for c in _covering(row, results)) or row.why or "not run"
            lines.append(f"| {_plain(row.passage)} | {_plain(row.says)} | {_plain(by)} |")
        lines.append("")
    return "\n".join(lines)


def _names(results: Sequence[Result]) -> dict:
    """A short name for each claim that was run, "eq17-3": its number within its part."""
    return {r.claim.run: f"{part}-{n}" for part, rows in _by_part(results).items() for n, r in enumerate(rows, start=1)}


def _covering(row: Row, results: Sequence[Result]) -> list[Claim]:
    return [r.claim for r in results if row.covers(r.claim)]


def compared(r: Result) -> list[tuple[str, str]]:
    """(label, LaTeX) of the two formulas of an erratum or a choice."""
    right = "taken here" if r.claim.category == "choice" else "right"
    return [(name, formula) for name, formula in (("printed", r.claim.printed), (right, r.claim.right)) if formula]


def details(r: Result) -> list[tuple[str, str]]:
    """(name, value) of the facts about a claim beside its statement and its mathematics."""
    c = r.claim
    rows = [
        ("result", f"FAILED: {r.why}" if r.error else "holds"),
        ("evidence", c.category),
        ("size", c.size),
        ("seconds", f"{r.seconds:.2f}"),
        ("assumptions", "; ".join(c.assumptions) or "none"),
        ("trusted", "; ".join(("CPython", *c.trusted))),
        ("source", c.source),
        ("covers", "; ".join(f"{row.document} {row.passage}" for row in dict.fromkeys(documents.rows_of(c)))),
    ]
    return [(name, value) for name, value in rows if value]


def _plain(text: str) -> str:
    """Text that Markdown shows as it is, on one line."""
    return re.sub(r"([\\`*_\[\]<>|$])", r"\\\1", " ".join(text.split()))


# --- HTML -----------------------------------------------------------------------------------------------------------

OPENING = (
    "Document 003 lists the gradients in its equation (17) and leaves them to the reader. Here they are, derived by "
    "differentiation for sizes that stay symbols, in cached interim results of the forward pass, from the loss back to "
    "the embedding. Those without a number are interim results of the backward pass; P has none in (17), but is "
    "counted in (19)."
)
DOCUMENTS = (
    "The statements of the documents, paraphrased, place by place, with the claims that cover them or the reason why "
    "there is none; and document 003's equations as derivations/equations.py has them, with its errors corrected."
)
POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def style() -> str:
    """The style: the colours are those of the pages of tinytensor/viz."""
    viz = (resources.files("tinytensor.viz") / "walkthrough.css").read_text(encoding="utf-8")
    colours = viz[viz.index(":root") : viz.index("* {")]
    return colours + (resources.files("derivations.report") / "page.css").read_text(encoding="utf-8")


def mathml(latex: str) -> str:
    """The equation as MathML, which browsers typeset by themselves."""
    try:
        from latex2mathml.converter import convert
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"the HTML report is typeset by latex2mathml, which is not installed: {install('proofs')}"
        ) from error
    # a left superscript (the head of ^hQ) would stand against the right one of the letter before it
    return convert(latex, display="block").replace("<msup><mrow />", '<mspace width="0.2em" /><msup><mrow />')


def _formula(latex: str, number: str = "", anchor: str = "", note: str = "") -> str:
    """A display equation that scrolls if it is too wide, with its number and a note."""
    identity = f' id="{anchor}"' if anchor else ""
    beside = f'<span class="number">{escape(number)}</span>' if number else ""
    return f'<div class="equation"{identity}><div class="math" tabindex="0">{mathml(latex)}</div>{note}{beside}</div>'


def html(results: Sequence[Result]) -> str:
    """The report as one HTML page without scripts or links to elsewhere."""
    names = _names(results)
    contents = ['<a href="#equation-17">Equation (17)</a>']
    sections = [f'<h2 id="equation-17">Equation (17)</h2>\n<p class="lead">{escape(OPENING)}</p>']
    sections += [_formula(latex, f"({number})" if number else "") for number, latex in equation_17()]
    proofs = [r for r in results if any(row.passage == "(17)" for row in documents.rows_of(r.claim))]
    if proofs:
        sections.append(f'<p class="meta">Established by {_links([r.claim for r in proofs], names)}</p>')
    for part, rows in _by_part(results).items():
        opened = " open" if any(r.error for r in rows) else ""
        contents.append(
            f'<details{opened}><summary><a href="#{part}">{part}</a> <span>{len(rows)}</span></summary><div>'
        )
        sections.append(f'<h2 id="{part}">{part}</h2>\n<p class="lead">{escape(PARTS[part])}</p>')
        for r in rows:
            mark = ' class="failed"' if r.error else ""
            contents.append(f'<a{mark} href="#{names[r.claim.run]}">{escape(r.claim.statement)}</a>')
            sections.append(_article(names[r.claim.run], r))
        contents.append("</div></details>")
    contents.append('<details><summary><a href="#documents">The documents</a></summary><div>')
    contents += [
        f'<a href="#document-{document}">{document}: {escape(title)}</a>' for document, title in TITLES.items()
    ]
    contents += ["</div></details>", '<a href="#kinds">Kinds of claims</a>']
    sections += _documents(results, names)
    legend = "".join(f'<dt class="{_class(k)}">{k}</dt><dd>{escape(meaning)}</dd>' for k, meaning in KINDS.items())
    contents_html, sections_html = "\n".join(contents), "\n".join(sections)
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<title>What is proved about tinytensor</title>
<style>{style()}</style>
</head>
<body>
<header><h1>What is proved about tinytensor, and how</h1>
<p class="lead">{escape(summary(results))}. {escape(versions())}.</p></header>
<div class="page">
<nav aria-label="contents">
{contents_html}
</nav>
<main>
{sections_html}
<h2 id="kinds">The kinds of claims, and what they trust</h2>
<dl>{legend}<dt>trusted</dt><dd>{escape(TRUST)}</dd></dl>
</main>
</div>
</body>
</html>
"""


def _class(category: str) -> str:
    return category.replace(" ", "-")


def _links(claims: Sequence[Claim], names: dict) -> str:
    """Links to claims by their short names; the statement is the tooltip."""
    return ", ".join(
        f'<a href="#{names[c.run]}" title="{escape(c.statement)}">{names[c.run]}</a> ({c.category})' for c in claims
    )


def _documents(results: Sequence[Result], names: dict) -> list[str]:
    """The documents: 003's equations by number, and all statements, with the claims that cover them."""
    parts = [f'<h2 id="documents">The documents</h2>\n<p class="lead">{escape(DOCUMENTS)}</p>']
    left = len(uncovered())
    parts.append(f"<p>{len(ROWS)} statements: {len(ROWS) - left} are covered, {left} are not, with the reason.</p>")
    for document, title in TITLES.items():
        parts.append(f'<h3 id="document-{document}">{document}: {escape(title)}</h3>')
        if document == "003":
            parts += _equations_of_003(names)
        parts.append('<div class="rows" role="table">')
        for row in (row for row in ROWS if row.document == document):
            passage = passage_of(row)
            shown = f'<a href="#{_anchor(passage)}">{escape(row.passage)}</a>' if passage else escape(row.passage)
            covering = _links(_covering(row, results), names)
            by = covering or f"<em>{'not covered: ' if row.why else ''}{escape(row.why or 'not run this time')}</em>"
            parts.append(
                f'<div class="row" role="row" id="{row.anchor}"><span role="cell">{shown}</span>'
                f'<span role="cell">{escape(row.says)}</span><span role="cell">{by}</span></div>'
            )
        parts.append("</div>")
    return parts


def _anchor(passage: str) -> str:
    return "eq-" + "-".join(re.findall(r"after|\d+", passage))


def _equations_of_003(names: dict) -> list[str]:
    """Each equation, numbered, with a link to its correction."""
    lines = []
    for passage, formulas in equations_of_003().items():
        for n, (latex, note) in enumerate(formulas):
            mended = of_erratum(note)
            text = f"mended: {note.split(': ', 1)[1]}" if note else ""
            if mended is not None and mended.category == "choice":
                text = text.replace("mended", "read so")
            if mended is not None and mended.run in names:
                text = f'<a href="#{names[mended.run]}">{escape(text)}</a>'
            mark = f'<p class="mended">{text}</p>' if note else ""
            lines.append(_formula(latex, passage, "" if n else _anchor(passage), mark))
    return lines


def _article(anchor: str, r: Result) -> str:
    c = r.claim
    meta = [escape(c.extent), f"{r.seconds:.2f} s"]
    lines = [
        f'<article id="{anchor}"{" class=failed" if r.error else ""}>',
        f"<h3>{escape(c.statement)}</h3>",
        f'<p class="meta"><span class="badge {_class(c.category)}">{c.category}</span>{" · ".join(filter(None, meta))}'
        f" · {'<strong class=bad>FAILED</strong>' if r.error else 'holds'}</p>",
    ]
    if r.error:
        lines.append(f'<pre class="bad">{escape(r.why)}</pre>')
    try:
        sides = [
            f"<div><p>{name}</p>{_formula(formula)}</div>" for name, formula in compared(r)
        ]  # the printed and the right form
        if sides:
            lines.append(f'<div class="sides">{"".join(sides)}</div>')
        lines += [_formula(*numbered(equation)) for equation in displayed(r.evidence.latex)]
    except ModuleNotFoundError:
        raise
    except Exception as error:
        raise ValueError(f"the LaTeX of {c.part}, {c.statement!r}, cannot be typeset: {error}") from error
    if r.evidence.text:
        text = f'<pre tabindex="0">{escape(r.evidence.text)}</pre>'
        long = r.evidence.text.count("\n") >= 15
        label = "as text" if r.evidence.latex else "in full"
        lines.append(f"<details><summary>{label}</summary>{text}</details>" if long else text)
    shown = [(name, escape(value)) for name, value in details(r) if name in ("assumptions", "trusted")]
    about = []
    for row in documents.rows_of(c):
        target = _anchor(passage) if (passage := passage_of(row)) else row.anchor
        about.append(f'<a href="#{target}">{row.document} {escape(row.passage)}</a>')
    if not about and c.source.startswith("003"):  # a claim about equations, not about a statement
        passage = next((passage for passage in equations_of_003() if passage in c.source), "")
        about = [f'<a href="#{_anchor(passage)}">{escape(c.source)}</a>'] if passage else []
    if about or c.source:
        shown.insert(0, ("about", ", ".join(dict.fromkeys(about)) or escape(c.source)))
    lines.append("<dl>" + "".join(f"<dt>{name}</dt><dd>{value}</dd>" for name, value in shown) + "</dl>")
    return "\n".join([*lines, "</article>"])


def write(directory: Path, results: Sequence[Result]) -> list[Path]:
    """Write report.md and report.html to `directory`; the Markdown is written even if the page cannot be made."""
    directory.mkdir(parents=True, exist_ok=True)
    paths = [directory / "report.md", directory / "report.html"]
    paths[0].write_text(markdown(results), encoding="utf-8")
    paths[1].write_text(html(results), encoding="utf-8")
    return paths
