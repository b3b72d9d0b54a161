"""The report: its contents, the targets of its links, its coverage of the documents; and in a browser."""

import re
from html.parser import HTMLParser

import pytest

from derivations import claims
from derivations.claims import Evidence, Refuted, Result, claim, claims_of, result_of
from derivations.report import documents
from derivations.report import page as report
from tests.tools.browser import chromium

ALL = claims_of(claims.PARTS)  # declared, not run


@pytest.fixture
def empty(monkeypatch):
    """No claims but those that a test declares, and no modules to load."""
    monkeypatch.setattr(claims, "CLAIMS", [])
    monkeypatch.setattr(claims, "import_module", lambda name: None)


def declare(statement, part="eq19", category="proof", size="any size", **more):
    claim(part, statement, category=category, size=size, **more)(lambda: Evidence(latex=r"1 + 1 = 2", text="1 + 1 = 2"))


def planted(error, statement="a planted mistake", part="eq19"):
    @claim(part, statement, category="check", size="1")
    def false():
        raise error


@pytest.fixture(scope="module")
def whole():
    """The page with every claim in it, as if all held and showed nothing."""
    return report.html([Result(c, 0.0, Evidence()) for c in ALL])


class Page(HTMLParser):
    """The tags of a page, which must be balanced, and the resources that it loads."""

    VOID = {"meta", "br", "link", "img"}

    def __init__(self, page: str):
        super().__init__()
        self.open, self.tags, self.ids, self.links, self.elsewhere = [], [], set(), set(), []
        self.feed(page)
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.tags.append(tag)
        if tag not in self.VOID:
            self.open.append(tag)
        if "id" in attributes:
            assert attributes["id"] not in self.ids
            self.ids.add(attributes["id"])
        if attributes.get("href", "").startswith("#"):
            self.links.add(attributes["href"][1:])
        self.elsewhere += [v for k, v in attributes.items() if k in ("href", "src") and not v.startswith("#")]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def results():
    declare("1 < 2 & 2 > 1", assumptions=("a | b",), source="003")
    declare("a *starred* claim", category="erratum", part="errata", printed="1 + 1 = 3", right="1 + 1 = 2")
    planted(Refuted("<b> is | not _c_"))
    return [result_of(c) for c in claims.claims_of(claims.PARTS)]


def test_page_holds_every_claim(empty):
    page = report.html(results())
    parsed = Page(page)
    assert parsed.elsewhere == [] and "script" not in parsed.tags and "@import" not in page and "url(" not in page
    assert {"eq19", "eq19-1", "eq19-2", "errata", "errata-1"} <= parsed.links <= parsed.ids
    assert parsed.tags.count("article") == 3 and page.count("1 &lt; 2") == 2  # in the contents, and by itself
    assert "1 &lt; 2 &amp; 2 &gt; 1" in page and "&lt;b&gt; is | not _c_" in page and claims.PARTS["eq19"] in page
    for word in ("proof", "check", "erratum", "a | b", "any size", "FAILED", "holds"):
        assert word in page


def test_markdown_holds_every_claim(empty):
    text = report.markdown(results())
    assert "| 1 \\< 2 & 2 \\> 1 | proof | any size, assuming a \\| b |" in text
    assert "a \\*starred\\* claim" in text
    assert "- **result**: FAILED: \\<b\\> is \\| not \\_c\\_" in text
    assert "printed:\n\n$$\n1 + 1 = 3\n$$\n\nright:\n\n$$\n1 + 1 = 2\n$$" in text
    assert "$$\n1 + 1 = 2\n$$" in text and "```text\n1 + 1 = 2\n```" in text
    assert "- **assumptions**: a \\| b" in text and "- **trusted**: CPython; " in text


def test_several_equations_are_typeset_one_by_one(empty):
    claim("eq17", "two", category="proof", size="any size")(lambda: Evidence(latex="a = b\n\nc = d"))
    none, two = (Page(report.html(one)).tags.count("math") for one in ([], [result_of(claims.CLAIMS[0])]))
    assert two == none + 2


def test_untypeset_latex_is_named(empty):
    claim("eq17", "a brace too few", category="proof", size="any size")(lambda: Evidence(latex=r"\frac{a}{"))
    with pytest.raises(ValueError, match="'a brace too few', cannot be typeset"):
        report.html([result_of(claims.CLAIMS[0])])


# --- Equations and documents


def test_the_page_opens_with_equation_17(whole):
    assert whole.index('id="equation-17"') < whole.index("<article")
    opening = whole[whole.index('id="equation-17"') : whole.index("<article")]
    assert opening.count('class="number">(17)') == 11  # as many as (17) lists; and P, which (19) counts
    assert opening.count('class="number">(19)') == 1 and "Established by" in opening
    assert report.markdown([]).index("## Equation (17)") < report.markdown([]).index("$$")


def test_every_link_resolves_and_every_row_is_reachable(whole):
    page = Page(whole)
    assert page.links <= page.ids
    assert {f"eq-{n}" for n in (1, 2, 3, 6, *range(9, 20))} <= page.ids
    assert {name for name in page.ids if name.startswith(tuple(claims.PARTS))} <= page.links
    assert {f"document-{document}" for document in documents.TITLES} <= page.links


def test_equations_of_the_source_have_their_numbers():
    numbers = {int(n) for position in report.equations_of_003() for n in re.findall(r"\d+", position)}
    assert numbers == set(range(1, 20))
    mended = [note for formulas in report.equations_of_003().values() for _, note in formulas if note]
    assert len(mended) >= 8 and all(report.of_erratum(note) is not None for note in mended)


def test_equation_number_stands_beside_its_formula():
    assert report.numbered(r"a = b \tag{3}") == ("a = b", "(3)")
    assert report.numbered(r"\frac{a}{b}") == (r"\frac{a}{b}", "")
    assert 'class="number">(3)' in report.html([Result(ALL[0], 0.0, Evidence(latex=r"a = b \tag{3}"))])


def test_every_claim_about_a_document_leads_to_its_place(whole):
    for part in ("eq17", "sublayers", "forward", "theorems", "errata"):
        declared = [c for c in ALL if c.part == part]
        assert declared, part
        for n, c in enumerate(declared, start=1):
            article = re.search(rf'<article id="{part}-{n}">.*?</article>', whole, re.DOTALL)[0]
            assert re.search(r"<dt>about</dt><dd><a href=", article), c.statement


def test_tables_name_existing_claims_and_every_erratum():
    known = {f"{c.part}.{c.run.__name__}" for c in ALL}
    named = {name for row in documents.ROWS for name in row.claims}
    assert named <= known
    assert {name for name in known if name.startswith(("errata.", "forward.", "sublayers."))} <= named


def test_uncovered_rows_say_why():
    left = report.uncovered()
    assert {row.document for row in documents.ROWS} == set(documents.TITLES)
    assert all(bool(row.why) != bool(row.claims) for row in documents.ROWS)
    assert 0 < len(left) < len(documents.ROWS) / 5
    page = report.html([])
    assert page.count("<em>not covered: ") == len(left) and page.count("<em>not run this time") > 100


def test_rows_have_addresses_of_their_own():
    anchors = [row.anchor for row in documents.ROWS]
    assert len(set(anchors)) == len(anchors)


# --- A browser


@pytest.mark.slow
@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [360, 1280])
def test_the_page_does_not_scroll_sideways(whole, tmp_path, width, dark):
    wide = Evidence(latex=" + ".join(f"a_{{{n}}}" for n in range(200)), text="x" * 500)
    broad = report.html([Result(ALL[0], 0.0, wide)])  # a formula and a line that are too wide for any page
    with chromium(width, 900, dark) as driver:
        for name, text in (("whole", whole), ("broad", broad)):
            path = tmp_path / f"{name}.html"
            path.write_text(text)
            driver.get(f"file://{path}")
            sizes = "return [document.documentElement.scrollWidth, document.documentElement.clientWidth]"
            assert driver.execute_script(sizes) == [width, width]
        scrolled = driver.execute_script(
            "return [...document.querySelectorAll('.math')].some(e => e.scrollWidth > e.clientWidth)"
        )
        assert scrolled  # the control: something is wider than its place, and scrolls there
        ground, ink = driver.execute_script(
            "let s = getComputedStyle(document.body); return [s.backgroundColor, s.color]"
        )
        lightness = [sum(map(int, re.findall(r"\d+", colour)[:3])) for colour in (ground, ink)]
        assert (lightness[0] < 150 and lightness[1] > 600) if dark else (lightness[0] > 700 and lightness[1] < 150)
        assert driver.get_log("browser") == []


@pytest.mark.slow
@pytest.mark.parametrize(("width", "height"), [(360, 740), (1280, 900)])
def test_the_first_screen_shows_equation_17_with_its_number(whole, tmp_path, width, height):
    path = tmp_path / "report.html"
    with chromium(width, height) as driver:
        for text, seen in ((whole, True), (whole.replace("</header>", "<p>" + "word " * 900 + "</p></header>"), False)):
            path.write_text(text)
            driver.get(f"file://{path}")
            first = """
                let [formula, number] = ['.math', '.number'].map(s => document.querySelector('.equation ' + s));
                let [a, b] = [formula, number].map(e => e.getBoundingClientRect());
                let beside = a.right <= b.left && b.top < a.bottom && b.bottom > a.top;
                return [number.textContent, beside, a.bottom, b.right]"""
            number, beside, bottom, right = driver.execute_script(first)
            assert (number, beside) == ("(17)", True) and right <= width
            assert (bottom < height) == seen  # the control: behind a long text it is not on the first screen


@pytest.mark.slow
def test_claim_links_to_its_equation_and_back(whole, tmp_path):
    path = tmp_path / "report.html"
    path.write_text(whole)
    with chromium(1280) as driver:
        driver.get(f"file://{path}")
        driver.execute_script("document.documentElement.style.scrollBehavior = 'auto'")
        driver.execute_script("document.querySelector('#errata-3 dd a').click()")
        assert driver.execute_script("return location.hash") == "#eq-3"
        top = driver.execute_script("return document.querySelector('#eq-3').getBoundingClientRect().top")
        assert 0 <= top < 900
        driver.execute_script("document.querySelector('#eq-3 .mended a').click()")
        assert driver.execute_script("return location.hash") == "#errata-3"
