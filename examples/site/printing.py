"""The course as one PDF: the pages of lessons, exercises and solutions joined to one page, which Chromium prints."""

import re
import shutil
import subprocess
from pathlib import Path

from bs4 import BeautifulSoup

from examples.site.building import BuildFailed
from examples.site.pages import Site

STYLE = """
@page { size: A4; margin: 18mm 17mm; }
body { font: 10.5pt/1.5 "DejaVu Sans", system-ui, sans-serif; color: #1d1f23; background: #fff; margin: 0; }
h1 { break-before: page; } .cover h1 { break-before: auto; margin-top: 30vh; font-size: 34pt; }
h1, h2, h3 { break-after: avoid; } .picture, .equation-line, tr { break-inside: avoid; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; font-size: 8pt !important; margin: 0;
  padding: .5em .8em !important; }
.headerlink, .facts .links, .only-dark, .walkthrough, details > summary { display: none !important; }
img { max-width: 100%; } a { color: inherit; text-decoration: none; }
table { border-collapse: collapse; font-size: 8.5pt; }
td, th { border: 1px solid #d5dce3; padding: .2em .5em; text-align: left; }
ul.contents { line-height: 1.9; list-style: none; padding: 0; }
"""


def chromium() -> str:
    """The path of Chromium; BuildFailed if it is not installed."""
    path = shutil.which("chromium") or shutil.which("google-chrome")
    if path is None:
        raise BuildFailed("the PDF is printed by Chromium, which is not installed: apt-get install chromium")
    return path


def write(html: Path, site: Site, file: Path) -> None:
    """Print the pages of the course to `file`. BuildFailed if there is no Chromium, or it fails."""
    pages = [
        "course/index",
        *(p for room in ("lessons/", "exercises/", "solutions/") for p in site.pages if p.startswith(room)),
    ]
    pages += [p for p in site.pages if p.startswith("course/") and p != "course/index"]
    joined = html / "printed.html"
    joined.write_text(join(html, [p for p in pages if not p.endswith("s/index")]), encoding="utf-8")
    options = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--no-pdf-header-footer",
        "--generate-pdf-document-outline",
    ]
    quiet = ["--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-first-run"]
    command = [chromium(), *options, *quiet, "--virtual-time-budget=20000", f"--print-to-pdf={file}", joined.as_uri()]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=600)
    joined.unlink()
    if done.returncode or not file.exists():
        raise BuildFailed(f"Chromium did not print the PDF: {done.stderr[-500:]}")


def join(html: Path, pages: list[str]) -> str:
    """One page with all of `pages`; links among them lead to their places in it, other links become text."""
    places = {page: f"page-{page.replace('/', '-')}" for page in pages}
    titles, bodies = [], []
    for page in pages:
        article = BeautifulSoup((html / f"{page}.html").read_text(encoding="utf-8"), "html.parser").find("article")
        for each in article.find_all(id=True):
            each["id"] = f"{places[page]}-{each['id']}"
        for link in article.find_all("a", href=True):
            path, _, anchor = link["href"].partition("#")
            to = (
                page
                if not path
                else (html / page).parent.joinpath(path).resolve().relative_to(html.resolve()).as_posix()[:-5]
                if "://" not in path
                else ""
            )
            if to in places:
                link["href"] = f"#{places[to]}" + (f"-{anchor}" if anchor else "")
            elif "://" not in path:
                link.unwrap()
        for picture in article.find_all("img"):
            picture["src"] = re.sub(r"^(\.\./)+", "", picture["src"])
            del picture["loading"]
        titles.append(f'<li><a href="#{places[page]}">{article.find("h1").get_text().rstrip("¶#")}</a></li>')
        bodies.append(f'<div id="{places[page]}">{article.decode_contents()}</div>')
    links = "".join(f'<link rel="stylesheet" href="_static/{name}">' for name in ("pygments.css", "site.css"))
    contents = f'<h1>Contents</h1><ul class="contents">{"".join(titles)}</ul>'
    cover = f'<div class="cover"><h1>tinytensor: the course</h1></div>{contents}'
    head = f'<meta charset="utf-8"><title>tinytensor: the course</title>{links}<style>{STYLE}</style>'
    body = f'<body data-theme="light">{cover}{"".join(bodies)}</body>'
    return f'<!doctype html><html lang="en"><head>{head}</head>{body}</html>'
