"""The lines of the evening's reading: `python -m tests.tools.reading` counts its files, and those that they import.

The list is that of examples/guide/engine.md. The files that it needs are its import closure: those that it imports,
that these import, and so on.
"""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "examples" / "guide" / "engine.md"


def reading() -> list[Path]:
    """The files that the page lists, in its order."""
    (shown,) = re.findall(r"<!-- evening -->\n((?:\d+\. .*\n)+)", PAGE.read_text())
    return [ROOT / name for name in re.findall(r"^\d+\. `([\w/]+\.py)`", shown, re.MULTILINE)]


def imported(text: str) -> set[str]:
    """The modules that a file imports, and `module.name` for each name that it imports from one."""
    names = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
    return names


def files_of(names: set[str]) -> set[Path]:
    """The files of the modules of tinytensor among these names; a folder's `__init__.py` computes nothing."""
    files = {ROOT / f"{name.replace('.', '/')}.py" for name in names if name.startswith("tinytensor.")}
    return {file for file in files if file.exists()}


def closure(files: set[Path]) -> set[Path]:
    """These files, those that they import, and so on."""
    reached, new = set(), files
    while new:
        reached |= new
        new = set().union(*(files_of(imported(file.read_text())) for file in new)) - reached
    return reached


def lines_of(files) -> int:
    return sum(len(file.read_text().splitlines()) for file in files)


def main() -> None:
    listed = reading()
    needed = sorted(closure(set(listed)) - set(listed))
    for what, files in (("the list", listed), ("what it imports besides", needed)):
        print(f"{lines_of(files):6,}  {what}")
        for file in files:
            print(f"{lines_of([file]):6,}    {file.relative_to(ROOT)}")
    print(f"{lines_of(listed) + lines_of(needed):6,}  in all")


if __name__ == "__main__":
    main()
