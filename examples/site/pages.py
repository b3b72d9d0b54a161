"""The sources of the site's pages, in Markdown: lessons, exercises, solutions, guide, API, proofs, the front page.

A page's source is made from a file of the project, and the links in it lead to the page of the file that they name
(`Site.linked`). A file that has no page of its own, such as a module that a README names, gets one with its text.
"""

import ast
import html
import re
import shutil
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from examples.site import questions
from examples.site.running import ROOT, Cell, Lesson, Picture, modules_of

EXAMPLES = ROOT / "examples"
ANSWERS = ROOT / "tests" / "examples" / "answers"
SOLUTIONS = ANSWERS, EXAMPLES / "build" / "engine"  # what a site without solutions does not show
DOCUMENTS = {  # files of the project, and the pages made from them
    "README.md": "index",
    "examples/README.md": "course/index",
    "derivations/README.md": "proofs/index",
    "derivations/soundness.md": "library/soundness",
    "models/README.md": "library/models",
    "tests/benchmarks/README.md": "library/speed",
    ".github/CONTRIBUTING.md": "library/contributing",
}
MODEL = "19_inside_the_model.html"  # a page of models/show, which the lesson of its name writes
CODE = re.compile(r"(^```.*?^```[ ]*$|`[^`\n]+`)", re.MULTILINE | re.DOTALL)  # what is code in a text of Markdown
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\[\]]*\])*)\]\(([^)\s]+)\)")


def guide_files() -> list[Path]:
    """The pages of the guide in the order of its list, which comes first."""
    folder = EXAMPLES / "guide"
    names = re.findall(
        r"^\| \[[^\]]*\]\((\w+\.md)\) \|", (folder / "README.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    return [folder / name for name in ("README.md", *names)]


def number(name: str) -> int:
    """The number of a lesson: 3 of 03_chain_rule."""
    return int(name[:2])


def up(page: str) -> str:
    """The way from a page to the top of the site: "../" for lessons/03_chain_rule."""
    return "../" * page.count("/")


@dataclass
class Site:
    """The pages that are to be built: their sources, and the files that lie beside them."""

    folder: Path  # of the sources
    extra: Path  # of the files that are copied as they are: pictures, downloads
    lessons: list[Lesson]
    exercises: list[Lesson] = field(default_factory=list)
    pages: dict[str, str] = field(default_factory=dict)  # name of a page without ending, and its source
    slides: bool = False
    solutions: bool = True

    def __post_init__(self):
        self.questions = questions.rows((ROOT / questions.PAGE).read_text(encoding="utf-8"))
        self.documents = dict(DOCUMENTS)
        for path in sorted(EXAMPLES.glob("*.md")):
            self.documents.setdefault(f"examples/{path.name}", f"course/{path.stem}")
        for path in guide_files():
            own = "index" if path.stem == "README" else path.stem
            self.documents[f"examples/guide/{path.name}"] = f"guide/{own}"
        for lesson in self.lessons:
            self.documents[f"examples/{lesson.name}.py"] = f"lessons/{lesson.name}"
        for lesson in self.exercises:
            self.documents[f"examples/exercises/{lesson.name}.py"] = f"exercises/{lesson.name}"

    # ---------------------------------------------------------------------------------------------------- links

    def linked(self, text: str, source: str, page: str) -> str:
        """The text of the file `source`, with links as they are on `page`; names of the course's files become links."""
        pieces = CODE.split(text)
        for i, piece in enumerate(pieces):
            if i % 2 == 0:
                continue
            if (found := re.fullmatch(r"`(?:examples/)?((?:exercises/)?\d\d_\w+\.py|documents\.md)`", piece)) and (
                doc := self.documents.get(f"examples/{found[1]}")
            ):
                pieces[i] = f"[{piece}]({up(page)}{doc}.md)"
        joined = "".join(pieces)
        # a link may hold code, so links are looked for in all of the text that is no block of code
        blocks = re.split(r"(^```.*?^```[ ]*$)", joined, flags=re.MULTILINE | re.DOTALL)
        for i in range(0, len(blocks), 2):
            blocks[i] = LINK.sub(lambda found: self._link(found, source, page), blocks[i])
        return "".join(blocks)

    def _link(self, found: re.Match, source: str, page: str) -> str:
        mark, text, target = found.groups()
        if re.match(r"\w+:", target):
            return found[0]
        path, _, anchor = target.partition("#")
        if not path:
            return f"[{text}](#{anchor})"
        file = (ROOT / source).parent.joinpath(path).resolve()
        if not file.is_relative_to(ROOT) or not file.exists():
            return found[0]  # made by `linked`, or a link that Sphinx will report
        name = file.relative_to(ROOT).as_posix()
        if mark:
            return self.figure(file, text, page)
        if not self.solutions and any(file.is_relative_to(folder) for folder in SOLUTIONS):
            return text
        if name in self.documents or f"{name}/README.md" in self.documents:
            doc = self.documents.get(name) or self.documents[f"{name}/README.md"]
            return f"[{text}]({up(page)}{doc}.md{'#' * bool(anchor)}{anchor})"
        return f"[{text}]({up(page)}{self.source_page(file)}.md)"

    def source_page(self, file: Path) -> str:
        """The page with the text of a file, or with the names of the files in a folder; made when needed."""
        name = file.relative_to(ROOT).as_posix()
        page = f"sources/{name.replace('.', '_')}" if name != "." else "sources/index"
        if page not in self.pages:
            if file.is_dir():
                files = sorted(p.name + "/" * p.is_dir() for p in file.iterdir() if not p.name.startswith(("__", ".")))
                text = "\n".join(f"- `{each}`" for each in files)
            else:
                kind = {".py": "python", ".md": "markdown", ".toml": "toml"}.get(file.suffix, "text")
                text = f"``````{{code-block}} {kind}\n:class: cell\n\n{file.read_text(encoding='utf-8')}\n``````"
            self.pages[page] = f"---\norphan: true\n---\n# `{name}`\n\n{text}\n"
        return page

    # -------------------------------------------------------------------------------------------------- pictures

    def figure(self, file: Path, alt: str, page: str) -> str:
        """A picture of the project: the one that the lesson of its name drew in this build, or the file itself."""
        for lesson in self.lessons:
            for cell in lesson.cells:
                for picture in cell.pictures:
                    if picture.name == file.name:
                        return self.picture(lesson, Picture(picture.name, alt, picture.width), page)
        kept = self.extra / "pictures" / "figures" / file.name
        kept.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, kept)
        source = f"{up(page)}pictures/figures/{file.name}"
        return f'<img class="on-paper" src="{source}" alt="{html.escape(alt)}" loading="lazy">'

    def picture(self, lesson: Lesson, picture: Picture, page: str) -> str:
        """The HTML of a picture, in both schemes, or of a page, in a frame."""
        folder = self.extra / "pictures"
        folder.mkdir(parents=True, exist_ok=True)
        files = [picture.name, picture.name.replace(".png", ".dark.png")]
        for name in dict.fromkeys(files):
            if (lesson.folder / name).exists():
                shutil.copyfile(lesson.folder / name, folder / name)
        source = f"{up(page)}pictures/{picture.name}"
        if not picture.name.endswith(".png"):
            label, use = described(folder / picture.name)
            return (
                f'<div class="walkthrough"><iframe src="{source}" title="{label}" loading="lazy"></iframe>'
                f'<p><a href="{source}">Open this page by itself</a>: {use}.</p></div>'
            )
        alt = html.escape(picture.alt, quote=True)
        dark = (folder / files[1]).exists()
        size = f'width="{picture.width}" ' if picture.width else ""
        if not dark:
            return f'<img class="on-paper" {size}src="{source}" alt="{alt}" loading="lazy">'
        return "".join(
            f'<img class="only-{scheme}" {size}src="{up(page)}pictures/{name}" alt="{alt}" loading="lazy">'
            for scheme, name in zip(("light", "dark"), files)
        )

    # ----------------------------------------------------------------------------------------------------- cells

    def cells(self, lesson: Lesson, cells: Iterable[Cell], source: str, page: str) -> str:
        """Cells as Markdown: texts, code, and below it what the code printed and drew."""
        parts = []
        for cell in cells:
            if cell.kind == "markdown":
                parts.append(self.linked(with_equations(cell.text), source, page))
                continue
            if cell.text.strip():
                parts.append(fenced("{code-block} python", cell.text, ":class: cell"))
            if cell.printed.strip():
                aligned = (
                    " aligned" if re.search(r"\S {2,}\S", cell.printed) else ""
                )  # columns: such lines are not broken
                parts.append(fenced("{code-block} text", cell.printed.rstrip(), f":class: output{aligned}"))
            parts += [fenced("{raw} html", each) for each in cell.html]
            for picture in cell.pictures:
                inside = self.picture(lesson, picture, page)
                kind = "picture" if picture.name.endswith(".png") else "wide"
                parts.append(fenced("{raw} html", f'<div class="{kind}">{inside}</div>'))
        return "\n\n".join(parts) + "\n"

    def lesson_page(self, lesson: Lesson, facts: dict[str, tuple[str, str, str]]) -> None:
        """The page of a lesson: what it needs and gives, its cells, and where to go from it."""
        page, script = f"lessons/{lesson.name}", f"{lesson.name}.py"
        self.download(EXAMPLES / script)
        links = [f'<a href="../downloads/{script}" download>script</a>']
        links.append(f'<a href="../downloads/{lesson.name}.ipynb" download>notebook</a>')
        if any(each.name == lesson.name for each in self.exercises):
            links.append(f'<a href="../exercises/{lesson.name}.html">exercises</a>')
        if self.solutions and (ANSWERS / script).exists():
            links.append(f'<a href="../solutions/{lesson.name}.html">solutions</a>')
        if self.slides:
            links.append(f'<a href="../slides/{lesson.name}.html">slides</a>')
        minutes, before, after = facts.get(lesson.name, ("", "", ""))
        told = [f"<b>{minutes} minutes</b>"] * bool(minutes)
        told += [f"read before: {html.escape(before)}"] * bool(before)
        told += [f"afterwards you can {html.escape(after)}"] * bool(after)
        head = f'<div class="facts"><p>{" · ".join(told)}</p><p class="links">{" ".join(links)}</p></div>'
        own = number(lesson.name)
        texts = [questions.with_entries(c.text, own, self.questions) * (c.kind == "markdown") for c in lesson.cells]
        cells = [replace(cell, text=text or cell.text) for cell, text in zip(lesson.cells, texts)]
        body = self.cells(lesson, cells, f"examples/{script}", page) + questions.listed(own, self.questions)
        title = f"# {own}. {lesson.title}"
        self.pages[page] = body.replace(f"# {lesson.title}", f"{title}\n\n{fenced('{raw} html', head)}\n", 1)

    def exercise_page(self, lesson: Lesson) -> None:
        """The page of a lesson's exercises."""
        page, source = f"exercises/{lesson.name}", f"examples/exercises/{lesson.name}.py"
        self.download(EXAMPLES / "exercises" / f"{lesson.name}.py", "exercises_")
        file = f"../downloads/exercises_{lesson.name}"
        links = f'<a href="{file}.py" download>script</a> <a href="{file}.ipynb" download>notebook</a> '
        for module in modules_of(EXAMPLES / "exercises" / f"{lesson.name}.py"):
            shutil.copy(module, self.extra / "downloads")
            links += f'<a href="../downloads/{module.name}" download>{module.name}, which stands beside both</a> '
        if any(each.name == lesson.name for each in self.lessons):
            links += f'<a href="../lessons/{lesson.name}.html">the lesson</a> '
        if self.solutions:
            links += f'<a href="../solutions/{lesson.name}.html">solutions</a>'
        head = fenced("{raw} html", f'<div class="facts"><p class="links">{links}</p></div>')
        body = self.cells(lesson, lesson.cells, source, page)
        title = f"# {number(lesson.name)}. {lesson.title}"
        self.pages[page] = body.replace(f"# {lesson.title}", f"{title}\n\n{head}\n", 1)

    def solution_page(self, lesson: Lesson) -> None:
        """The page of the solutions of a lesson's exercises, made from the answers that the tests try."""
        source = ANSWERS / f"{lesson.name}.py"
        text = source.read_text(encoding="utf-8")
        functions = {f.name: f for f in ast.parse(text).body if isinstance(f, ast.FunctionDef)}
        right = [name for name in functions if re.fullmatch(r"right(_\d+)?", name)]
        own = (
            f"exercises/{lesson.name}"
            if any(e.name == lesson.name for e in self.exercises)
            else f"lessons/{lesson.name}"
        )
        parts = [f"# {number(lesson.name)}. Solutions: {lesson.title}"]
        parts.append(
            f":::{{admonition}} Try the exercises first\n:class: note\n[They are here](../{own}.md), and their checks "
            "say what is wrong with an answer. The answers below, right and wrong, use the names of the exercises' "
            "file, as a cell would.\n:::"
        )
        for name in right:
            n = name.removeprefix("right").strip("_")
            parts.append(f"## Exercise {n}".rstrip())
            parts += self._solution(text, functions[name])
            wrong = [w for w in functions if w.startswith(f"wrong_{n}_" if n else "wrong_")]
            for each in wrong:
                called = each.removeprefix(f"wrong_{n}_" if n else "wrong_").replace("_", " ")
                opened = f"<details class='source'><summary>wrong: {html.escape(called)}</summary>"
                parts += [fenced("{raw} html", opened), *self._solution(text, functions[each])]
                parts.append(fenced("{raw} html", "</details>"))
        self.pages[f"solutions/{lesson.name}"] = "\n\n".join(parts) + "\n"

    @staticmethod
    def _solution(text: str, function: ast.FunctionDef) -> list[str]:
        said = ast.get_docstring(function)
        code = ast.get_source_segment(text, function)
        if said:
            lines = text.splitlines()
            first, last = function.body[0].lineno, function.body[0].end_lineno
            kept = lines[function.lineno - 1 : first - 1] + lines[last : function.end_lineno]
            code = "\n".join(kept) if len(function.body) > 1 else code
        return [*([said] if said else []), fenced("{code-block} python", code, ":class: cell")]

    def download(self, script: Path, prefix: str = "") -> None:
        """A script and its notebook, to be taken from the page."""
        import jupytext

        folder = self.extra / "downloads"
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(script, folder / f"{prefix}{script.name}")
        notebook = jupytext.read(script)
        for i, cell in enumerate(notebook.cells):  # the same notebook, the same file
            cell["id"] = f"cell-{i}"
        jupytext.write(notebook, folder / f"{prefix}{script.stem}.ipynb")

    # --------------------------------------------------------------------------------------------------- READMEs

    def text_page(self, source: str) -> None:
        """The page of a Markdown file of the project."""
        page = self.documents[source]
        text = (ROOT / source).read_text(encoding="utf-8")
        if source == questions.PAGE:
            text = questions.with_links(text, self.documents)
        self.pages[page] = self.linked(text, source, page)

    def front_page(self) -> None:
        """The README, with buttons, with a trained model, and with the page of a lesson in the place of its picture."""
        text = (ROOT / "README.md").read_text(encoding="utf-8")
        lead = re.search(r"^\*\*(.+?)\*\*$", text, re.MULTILINE | re.DOTALL)
        rest = text[lead.end() :]
        shown = re.search(r"^!\[([^\]]*)\]\(([^)]+)\)$", rest, re.MULTILINE)
        written = {
            each.name: (lesson, each) for lesson in self.lessons for cell in lesson.cells for each in cell.pictures
        }
        page = f"{Path(shown[2]).stem.removesuffix('_page')}.html"
        frames = [self.picture(*written[name], "index") for name in (MODEL, page) if name in written]
        frames += [] if page in written else [self.linked(shown[0], "README.md", "index")]
        rest = rest.replace(shown[0], "")
        first = next(iter(self.lessons), None)
        buttons = [(f"pictures/{MODEL}#tour=1", "Start here: inside a trained model")] if MODEL in written else []
        buttons += [("course/index.html", "The course")]
        buttons += [(f"lessons/{first.name}.html", "First lesson")] if first else []
        buttons += [("course/questions.html", "Questions")]
        parts = {page.partition("/")[0] for page in (*self.pages, *self.documents.values())}
        for part, name in {"guide": "Guide", "gradients": "Gradients", "api": "API", "proofs": "Proofs"}.items():
            buttons += [(f"{part}/index.html", name)] if part in parts else []  # contents() writes some of the indices
        links = "".join(f'<a class="button" href="{to}">{name}</a>' for to, name in buttons)
        hero = f'<p class="lead">{html.escape(" ".join(lead[1].split()))}</p><p class="actions">{links}</p>'
        parts = ["# tinytensor", fenced("{raw} html", f'<div class="hero">{hero}</div>')]
        parts += [fenced("{raw} html", f'<div class="wide">{"".join(frames)}</div>')]
        parts += [self.linked(rest, "README.md", "index")]
        self.pages["index"] = "\n\n".join(parts)

    def report_pages(self, report: str) -> list[str]:
        """The report of the proofs: a page for each of its parts; their names."""
        opening, *sections = re.split(r"^## (.+)\n", report, flags=re.MULTILINE)
        self.pages["proofs/index"] += "\n\n## The report\n\n" + opening.partition("\n")[2].strip() + "\n"
        names, parts = [], list(zip(sections[::2], sections[1::2], strict=True))
        for heading, section in parts:
            what = section.strip().split("\n")[0]
            said = re.match(r"[^.:;]{3,70}", what) if re.fullmatch(r"[a-z]\w*|[a-z ]+", heading) else None
            title = f"{heading}: {said[0]}" if said else heading
            page = f"proofs/report/{questions.slug(heading)}"
            names.append(page)
            if heading == "Equation (17)":
                letters = "[a page explains them](../../course/documents.md#the-letters)"
                section = f"The letters are those of document 003: {letters}.\n{section}"
            self.pages[page] = f"# {title}\n\n" + re.sub(r"^### ", "## ", section, flags=re.MULTILINE)
        return names

    def course_facts(self) -> dict[str, tuple[str, str, str]]:
        """For each lesson of the course's table: minutes, what to read before, what one can do afterwards."""
        table = (EXAMPLES / "README.md").read_text(encoding="utf-8")
        found = re.findall(r"^\| `(\d\d_\w+)\.py`[^|]*\| (\d+) \| ([^|]*) \| ([^|]*) \|$", table, re.MULTILINE)
        facts = {}
        for name, minutes, before, after in found:
            numbers = bool(re.fullmatch(r"[\d, ]+", before))
            plural = "lessons " if "," in before else "lesson "
            facts[name] = minutes, (plural if numbers else "") + before, after
        return facts

    def contents(self, proofs: list[str]) -> None:
        """The order of the pages in the menu, and the pages that only list others."""
        tree = lambda pages, *options: fenced("{toctree}", "\n".join([*options, "", *(f"/{p}" for p in pages)]))  # noqa: E731
        exercises = [p for p in self.pages if p.startswith("exercises/")]
        solutions = [p for p in self.pages if p.startswith("solutions/")]
        api = [p for p in self.pages if p.startswith("api/")]
        if exercises:
            self.pages["exercises/index"] = (
                f"# Exercises\n\nThe exercises of each lesson; each checks itself.\n\n{tree(exercises)}\n"
            )
        if solutions:
            self.pages["solutions/index"] = (
                "# Solutions\n\nThe answers that the tests of the course try, and common mistakes. "
                f"Try the exercises first.\n\n{tree(solutions)}\n"
            )
        if api:
            self.pages["api/index"] = (
                "# The API\n\nEvery public name, on the page of the path from which programs import it. Names, "
                "defaults and meaning are PyTorch's. The search finds names and words.\n\n" + tree(api) + "\n"
            )
        if "proofs/index" in self.pages and proofs:
            self.pages["proofs/index"] += f"\n\n{tree(proofs)}\n"
        course = [
            "course/index",
            *(p for p in self.pages if p.startswith("lessons/")),
            "exercises/index",
            "solutions/index",
        ]
        course += [p for p in self.pages if p.startswith("course/") and p != "course/index"]
        guide = [self.documents[f"examples/guide/{path.name}"] for path in guide_files()]
        library = ["gradients/index", "api/index", "proofs/index"]
        library += [p for p in self.pages if p.startswith("library/")]
        for caption, pages in (("The course", course), ("The guide", guide), ("The library", library)):
            self.pages["index"] += "\n\n" + tree(
                [p for p in pages if p in self.pages], ":hidden:", f":caption: {caption}"
            )

    def write(self) -> None:
        """Write the sources; a file that would not change is left, so that its page is not built again."""
        for page, text in self.pages.items():
            path = self.folder / f"{page}.md"
            path.parent.mkdir(parents=True, exist_ok=True)
            if not path.exists() or path.read_text(encoding="utf-8") != text:
                path.write_text(text, encoding="utf-8")
        for path in self.folder.rglob("*.md"):
            if path.relative_to(self.folder).with_suffix("").as_posix() not in self.pages:
                path.unlink()


def described(page: Path) -> tuple[str, str]:
    """A page that a lesson wrote, in words: what it shows, and how it is used."""
    if page.name == MODEL:
        label = "A trained model: all of its numbers, forward and backward, for a text of one's own"
        return label, "a tour begins at “Start here”; point at a number, and it says where it comes from"
    label = "A backward pass, step by step: the arrow keys and the buttons go from step to step"
    return label, "the arrow keys step through it"


def fenced(kind: str, text: str, option: str = "") -> str:
    """A block of Markdown, with a fence that is longer than each fence in it."""
    longest = max((len(run) for run in re.findall(r"`{3,}", text)), default=2)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{kind}\n{option}\n\n{text}\n{fence}" if option else f"{fence}{kind}\n{text}\n{fence}"


def with_equations(text: str) -> str:
    """A text in which indented blocks are equations in letters: they get a class of their own."""
    blocks = re.split(r"(\n{2,})", text)
    for i, block in enumerate(blocks):
        lines = block.splitlines()
        if lines and all(line.startswith("    ") for line in lines):
            blocks[i] = fenced("{code-block} text", "\n".join(line[4:] for line in lines), ":class: equation")
    return "".join(blocks)
