"""Slides of each lesson, made from its finished page: a slide for each cell of code, with the text before it.

The text stands on the left, code and pictures on the right. Arrow keys and buttons turn the slides; `slides.js` makes
letters smaller where a slide would not fit. `lessons/../slides/03_chain_rule.html#4` opens the fourth slide.
"""

from pathlib import Path

from bs4 import BeautifulSoup, Tag

from examples.site.running import Lesson

PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}: slides</title>
<link rel="stylesheet" href="../_static/pygments.css">
<link rel="stylesheet" href="../_static/site.css">
<link rel="stylesheet" href="../_static/slides.css">
<script src="../_static/slides.js" defer></script>
</head>
<body data-theme="auto">
<main>
{slides}
</main>
<nav aria-label="slides"><a href="../lessons/{name}.html">the lesson</a>
<button id="back" aria-label="the slide before">◀</button><span id="place" aria-live="polite"></span>
<button id="next" aria-label="the next slide">▶</button></nav>
</body>
</html>
"""
SHOWN = {"cell", "output", "picture", "wide"}  # the classes of what stands on the right
LARGE = {"picture", "wide"}  # and of what has a slide for itself


def write(html: Path, lessons: list[Lesson]) -> None:
    """Write the slides of all lessons, from their pages in the folder `html`."""
    folder = html / "slides"
    folder.mkdir(exist_ok=True)
    for lesson in lessons:
        page = BeautifulSoup((html / "lessons" / f"{lesson.name}.html").read_text(encoding="utf-8"), "html.parser")
        slides = "\n".join(_slide(*each) for each in split(page.find("article")))
        (folder / f"{lesson.name}.html").write_text(
            PAGE.format(title=lesson.title, name=lesson.name, slides=slides), encoding="utf-8"
        )


def split(article: Tag) -> list[tuple[list[Tag], list[Tag]]]:
    """The slides of a page: what is said, and what is shown beside it. Headings and text after code begin one.

    A picture has one for itself.
    """
    slides: list[tuple[list[Tag], list[Tag]]] = [([], [])]
    for node in _flat(article):
        kinds = set(node.get("class", []))
        shown = bool(SHOWN & kinds)
        alone = LARGE & kinds or any(LARGE.intersection(each.get("class", [])) for each in slides[-1][1])
        if node.name in ("h1", "h2") or alone or (not shown and slides[-1][1]):
            slides.append(([], []))
        slides[-1][1 if shown else 0].append(node)
    return [slide for slide in slides if any(slide)]


def _flat(node: Tag) -> list[Tag]:
    """The blocks of a page, one after the other, without the sections around them."""
    found = []
    for child in node.find_all(recursive=False):
        if child.name in ("section", "article") or (child.name == "div" and child.get("role") == "main"):
            found += _flat(child)
        elif child.get_text(strip=True) or child.find(["img", "iframe"]):
            found.append(child)
    return found


def _slide(said: list[Tag], shown: list[Tag]) -> str:
    for block in [*said, *shown]:
        for link in block.select("a.headerlink, .facts .links"):
            link.decompose()
        for each in [block, *block.find_all(id=True)]:
            del each["id"]  # a slide's own address is its number
        for picture in block.find_all(["img", "iframe"]):
            del picture["loading"]
        for link in block.select('a[href^="#"]'):
            link.unwrap()
    sides = [
        f'<div class="{kind}">{"".join(map(str, blocks))}</div>'
        for kind, blocks in (("said", said), ("shown", shown))
        if blocks
    ]
    return f'<section class="slide sides-{len(sides)}"><div class="fit">{"".join(sides)}</div></section>'
