"""Looks at the finished site: links lead somewhere, pictures have words, nothing is requested from another host."""

import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADED = {
    "img": "src",
    "script": "src",
    "iframe": "src",
    "link": "href",
    "source": "src",
    "embed": "src",
    "object": "data",
}
STYLE_URL = re.compile(r"url\(\s*[\"']?(?!data:|#)([^\"')]+)|@import\s+[\"']([^\"']+)")
TROUBLE = re.compile(r"Traceback \(most recent call last\)|^\w*Warning: ", re.MULTILINE)


class Page(HTMLParser):
    """What a page loads, where its links lead, and its anchors, pictures and texts."""

    def __init__(self, path: Path):
        super().__init__()
        self.loaded: list[str] = []
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.silent: list[str] = []  # pictures without words
        self.styles: list[str] = []
        self.texts: list[str] = []
        self._inside: list[str] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        has = dict(attributes)
        self._inside = [*self._inside[-1:], tag]
        for name in ("id", "name"):
            if has.get(name):
                self.anchors.add(has[name])
        if (
            tag in LOADED
            and has.get(LOADED[tag])
            and not (tag == "link" and has.get("rel") in ("search", "next", "prev", "index", "canonical"))
        ):
            self.loaded.append(has[LOADED[tag]])
        elif tag in ("a", "link") and has.get("href"):
            self.links.append(has["href"])
        if (tag == "img" and not (has.get("alt") or "").strip()) or (tag == "iframe" and not has.get("title")):
            self.silent.append(has.get("src") or tag)
        if has.get("role") == "img" and not has.get("aria-label"):
            self.silent.append(tag)
        if "style" in has:
            self.styles.append(has["style"] or "")

    def handle_endtag(self, tag: str) -> None:
        self._inside = []

    def handle_data(self, data: str) -> None:
        (self.styles if self._inside[-1:] == ["style"] else self.texts).append(data)


def check(site: Path) -> tuple[list[str], list[str]]:
    """The faults of a site, each as a sentence, and the addresses of other hosts to which its links lead."""
    pages = {path: Page(path) for path in sorted(site.rglob("*.html"))}
    faults, external = [], set()
    for path, page in pages.items():
        here = path.relative_to(site)
        faults += [f"{here}: a picture without words: {source}" for source in page.silent]
        if path.parts[-2] not in ("pictures",) and TROUBLE.search("".join(page.texts)):
            faults.append(f"{here}: it shows a traceback or a warning")
        styles = [found[1] or found[2] for text in page.styles for found in STYLE_URL.finditer(text)]
        for target in [*page.loaded, *styles]:
            if urlsplit(target).scheme == "data":
                continue
            if urlsplit(target).scheme or target.startswith("//"):
                faults.append(f"{here}: it loads {target} from another host")
            elif not _file(path, target).exists():
                faults.append(f"{here}: it loads {target}, which is not there")
        for target in page.links:
            if urlsplit(target).scheme in ("http", "https", "mailto"):
                external.add(target)
            elif urlsplit(target).scheme not in ("data", "javascript"):
                faults += [f"{here}: {fault}" for fault in _dead(path, target, page, pages)]
    for path in sorted(site.rglob("*.css")):
        for found in STYLE_URL.finditer(re.sub(r"/\*.*?\*/", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)):
            target = found[1] or found[2]
            if urlsplit(target).scheme or target.startswith("//"):
                faults.append(f"{path.relative_to(site)}: it loads {target} from another host")
            elif not _file(path, target).exists():
                faults.append(f"{path.relative_to(site)}: it loads {target}, which is not there")
    return faults, sorted(external)


def _file(page: Path, target: str) -> Path:
    return (page.parent / unquote(urlsplit(target).path)).resolve()


def _dead(path: Path, target: str, page: Page, pages: dict[Path, Page]) -> list[str]:
    """The fault of a link within the site, if it has one."""
    parts = urlsplit(target)
    file = _file(path, target) if parts.path else path
    if not file.is_file():
        return [f"a link leads to {target}, which is not there"]
    anchor = unquote(parts.fragment)
    if anchor and file.suffix == ".html":
        there = page if file == path else pages.get(file)
        if there is not None and anchor not in there.anchors and not anchor.startswith(("step=", "tour=")):
            return [f"a link leads to {target}, where nothing has this name"]
    return []
