"""Runs lessons cell by cell in a kernel of Jupyter, and keeps what each cell prints, shows and writes.

A lesson that has not changed is not run again: its results stay in the cache, under a name made from its text and from
the text of the packages that it uses.
"""

import hashlib
import json
import os
import re
import shutil
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PICTURES = Path("runs/lessons")  # where lessons write their pictures, in the folder in which they run
PREPARE = "from tinytensor.viz import plots; plots.DARK = True"  # before the first cell: pictures for dark pages, too
COMPILING = re.compile(r"tinytensor: compiling")  # said once on a new machine, and nothing about the lesson


class LessonFailed(Exception):
    """A cell raised an error, or wrote a warning; the text names the lesson, the cell and the error."""


@dataclass
class Picture:
    """A picture or a page that a cell wrote: its file's name, its description, its width in pixels of a screen."""

    name: str
    alt: str = ""
    width: int = 0


@dataclass
class Cell:
    """A cell: its kind ("markdown" or "code"), its text; what it printed, and what it wrote."""

    kind: str
    text: str
    printed: str = ""
    html: list[str] = field(default_factory=list)
    pictures: list[Picture] = field(default_factory=list)


@dataclass
class Lesson:
    """A lesson that was run: its name, its cells, the folder of its pictures, and the seconds that it took."""

    name: str
    cells: list[Cell]
    folder: Path
    seconds: float
    was_run: bool = True  # was it run now, or did it come from the cache?

    @property
    def title(self) -> str:
        return re.search(r"^# (.+)$", self.cells[0].text, re.MULTILINE)[1]


@cache
def version_of_packages() -> str:
    """A number that changes with any source on which results depend."""
    rooms, kinds = ("tinytensor", "models", "derivations"), (".py", ".js", ".css", ".html")
    sources = sorted(p for room in rooms for p in (ROOT / room).rglob("*") if p.suffix in kinds)
    sources = [p for p in sources if p.name != "reference.py"]  # it writes pages, and no lesson uses it
    digest = hashlib.sha256()
    for path in [*sources, Path(__file__)]:
        digest.update(path.read_bytes())
    return digest.hexdigest()


def modules_of(script: Path) -> list[Path]:
    """The modules beside the exercises that a lesson or a file of exercises imports, such as judge.py."""
    imported = re.findall(r"^from (?:examples\.exercises\.)?(\w+) import", script.read_text("utf-8"), re.MULTILINE)
    return [path for path in sorted((ROOT / "examples" / "exercises").glob("[a-z]*.py")) if path.stem in imported]


def run(script: Path, cache: Path, rerun: bool = False) -> Lesson:
    """Run the lesson `script`, or take what it gave before from `cache` if nothing that it depends on has changed.

    LessonFailed if a cell raises an error or writes a warning.
    """
    folder = cache / script.stem
    texts = [path.read_text(encoding="utf-8") for path in (script, *modules_of(script))]
    key = hashlib.sha256("".join([*texts, version_of_packages()]).encode()).hexdigest()
    kept = folder / "cells.json"
    if kept.exists() and not rerun:
        told = json.loads(kept.read_text(encoding="utf-8"))
        if told["key"] == key:
            cells = [Cell(**c | {"pictures": [Picture(**p) for p in c["pictures"]]}) for c in told["cells"]]
            return Lesson(script.stem, cells, folder / PICTURES, told["seconds"], was_run=False)
    shutil.rmtree(folder, ignore_errors=True)
    (folder / PICTURES).mkdir(parents=True)
    start = time.perf_counter()
    cells = execute(script, folder)
    seconds = time.perf_counter() - start
    told = {"key": key, "seconds": seconds, "cells": [asdict(cell) for cell in cells]}
    kept.write_text(json.dumps(told, ensure_ascii=False), encoding="utf-8")
    return Lesson(script.stem, cells, folder / PICTURES, seconds)


def execute(script: Path, folder: Path) -> list[Cell]:
    """Run all cells of a lesson in `folder`."""
    import jupytext
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError, DeadKernelError
    from nbformat.v4 import new_code_cell

    notebook = jupytext.read(script)
    notebook.cells.insert(0, new_code_cell(PREPARE))
    client = NotebookClient(
        notebook, timeout=None, kernel_name="python3", resources={"metadata": {"path": str(folder)}}
    )
    client.extra_arguments = ["--log-level=ERROR"]  # the kernel warns about its own connection
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), str(script.parent)])}
    cells, before = [], {}
    with client.setup_kernel(env=environment):
        for i, cell in enumerate(notebook.cells):
            try:
                client.execute_cell(cell, i)
            except CellExecutionError as error:
                raise LessonFailed(_told(script, i, cell.source, f"{error.ename}: {error.evalue}")) from error
            except DeadKernelError as error:
                raise LessonFailed(_told(script, i, cell.source, str(error).splitlines()[0])) from error
            found = _files(folder / PICTURES)
            new = [name for name, when in found.items() if before.get(name) != when]
            before = found
            if i:
                cells.append(_cell(cell, new, folder / PICTURES, lambda e, i=i, c=cell: _told(script, i, c.source, e)))
    return cells


def _told(script: Path, number: int, source: str, error: str) -> str:
    """The sentence about a cell that failed, with its first lines."""
    lines = source.splitlines()
    shown = "\n".join(f"    {line}" for line in lines[:12]) + ("\n    ..." if len(lines) > 12 else "")
    return f"{script.name}: cell {number} failed: {error}\n\n{shown}\n"


def _files(folder: Path) -> dict[str, int]:
    """The pictures and pages in a folder, each with the time at which it was written, in order of time."""
    found = {p.name: p.stat().st_mtime_ns for p in folder.iterdir() if ".dark." not in p.name}
    return dict(sorted(found.items(), key=lambda item: item[1]))


def _cell(cell, new: Iterable[str], folder: Path, told: Callable[[str], str]) -> Cell:
    """A cell with what it gave: what it shows is what it wrote, or HTML."""
    kept = Cell("markdown" if cell.cell_type == "markdown" else "code", cell.source)
    for output in cell.get("outputs", []):
        if output.output_type == "stream" and output.name == "stderr":
            lines = [line for line in output.text.splitlines() if line.strip() and not COMPILING.match(line)]
            if lines:
                raise LessonFailed(told(f"it wrote a warning: {lines[0]}"))
        elif output.output_type == "stream":
            kept.printed += output.text
        elif "image/png" in output.data or "srcdoc" in output.data.get("text/html", ""):
            if not new:  # plots.show and walkthrough write a file, which is shown below
                raise LessonFailed(told("it shows a picture that no file has: use plots.show(figure, path)"))
        elif "image/svg+xml" in output.data:
            words = output.data.get("text/plain", "a drawing")
            kept.html.append(f'<div role="img" aria-label="{words.strip("<>")}">{output.data["image/svg+xml"]}</div>')
        elif "text/html" in output.data:
            kept.html.append(output.data["text/html"])
        else:
            kept.printed += output.data["text/plain"] + "\n"
    kept.printed = re.sub(rf"^picture: {PICTURES}/.*\n?", "", kept.printed, flags=re.MULTILINE)
    kept.pictures = [_picture(folder / name) for name in new]
    return kept


def _picture(path: Path) -> Picture:
    if path.suffix != ".png":
        return Picture(path.name)
    from PIL import Image  # comes with matplotlib

    with Image.open(path) as image:
        per_inch = image.info.get("dpi", (96, 96))[0]
        return Picture(path.name, image.info.get("Description", ""), round(image.width * 96 / per_inch))
