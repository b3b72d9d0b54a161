"""The ten steps, and the files with holes, which are cut from the solutions in `engine/`.

A comment `# hole` begins a hole: it ends where the block ends, and three dots stand there in the student's file. A
comment `# hole: return g` leaves `return g` there instead of the dots.
"""

import ast
import functools
import io
import re
import tokenize
from dataclasses import dataclass
from pathlib import Path

ENGINE = Path(__file__).parent / "engine"
MARK = "# Written by `python -m examples.build`, which knows its folders by this line."
HOLE = re.compile(r"( *)# hole(?:: (.+))?")


@dataclass(frozen=True)
class Step:
    """One step: its title, the files whose holes it closes, files written with it for later, and its lessons."""

    number: int
    title: str
    files: tuple[str, ...]
    lessons: str
    early: tuple[str, ...] = ()  # files that this step's files import, with holes that belong to a later step
    milestone: str = ""  # what runs on the student's engine when the step is right


STEPS = (
    Step(1, "values and slopes", ("slopes.py",), "lessons 0 and 1"),
    Step(2, "the tape", ("tape.py",), "lesson 2", early=("shapes.py",)),
    Step(3, "the order", ("order.py",), "lesson 3", milestone="a network of single numbers learns a curve"),
    Step(4, "arrays and sums", ("shapes.py", "sums.py"), "lesson 5"),
    Step(5, "matrices and indexing", ("matrices.py",), "lessons 5 and 8"),
    Step(6, "softmax and cross-entropy", ("softmax.py",), "lesson 6", milestone="a network tells two moons apart"),
    Step(7, "layer norm", ("norm.py",), "lesson 11"),
    Step(8, "attention", ("attention.py",), "lessons 9 and 10", milestone="attention learns to look three places back"),
    Step(9, "modules and AdamW", ("modules.py",), "lessons 4 and 7"),
    Step(10, "a transformer", ("transformer.py",), "lesson 13", milestone="the transformer learns to write"),
)


def parts(text: str) -> list[tuple[str, str | None, list[str]]]:
    """A solution in parts: (indent, None, lines) outside holes, (indent, what is left, lines) for a hole."""
    found: list[tuple[str, str | None, list[str]]] = [("", None, [])]
    for line in text.splitlines():
        indent, left, lines = found[-1]
        if left is not None and line.strip() and not line.startswith(indent):
            blank = len(lines)  # blank lines at the end of a hole stand between it and what follows
            while blank and not lines[blank - 1].strip():
                blank -= 1
            found.append(("", None, lines[blank:]))
            del lines[blank:]
        if match := HOLE.fullmatch(line):
            if found[-1][2] and not found[-1][2][-1]:
                found[-1][2].pop()
            found.append((match[1], match[2] or "...", []))
        else:
            found[-1][2].append(line)
    if found[-1][1] is not None:
        while not found[-1][2][-1].strip():
            found[-1][2].pop()
    return found


def with_holes(text: str) -> str:
    """A solution with its holes cut."""
    kept = [lines if left is None else [indent + left] for indent, left, lines in parts(text)]
    return "".join(line + "\n" for lines in kept for line in lines)


def with_regions(text: str) -> str:
    """A solution with the marks of nbgrader around its holes: `nbgrader generate_assignment` cuts them."""
    kept = [
        lines if left is None else [indent + "### BEGIN SOLUTION", *lines, indent + "### END SOLUTION"]
        for indent, left, lines in parts(text)
    ]
    return "".join(line + "\n" for lines in kept for line in lines)


def without_marks(text: str) -> str:
    """A solution as a student would write it, without the comments that begin holes."""
    return "".join(line + "\n" for line in text.splitlines() if not HOLE.fullmatch(line))


@functools.cache
def solution_text(file: str) -> str:
    return without_marks((ENGINE / file).read_text(encoding="utf-8"))


@functools.cache
def hole_text(file: str) -> str:
    return with_holes((ENGINE / file).read_text(encoding="utf-8"))


def package_text() -> str:
    return MARK + "\n" + '"""An engine that computes gradients, of my own."""\n'


def functions(text: str) -> dict[str, ast.FunctionDef]:
    """The functions of a file and the methods of its classes, as `name` and `Class.name`."""
    found = {}
    for node in ast.parse(text).body:
        for inner in node.body if isinstance(node, ast.ClassDef) else [node]:
            if isinstance(inner, ast.FunctionDef):
                prefix = f"{node.name}." if isinstance(node, ast.ClassDef) else ""
                found[prefix + inner.name] = inner
    return found


@functools.cache
def holes_of(file: str) -> dict[str, str]:
    """The functions with holes in a file, in its order, and what a hole looks like, without the docstring."""
    solved = functions(solution_text(file))
    cut = functions(hole_text(file))
    return {name: body(cut[name]) for name in cut if body(cut[name]) != body(solved[name])}


def body(function: ast.FunctionDef) -> str:
    """The statements of a function, without its docstring, as text without comments."""
    first = 1 if ast.get_docstring(function) is not None else 0
    return "\n".join(ast.unparse(statement) for statement in function.body[first:])


def is_open(function: ast.FunctionDef, hole: str) -> bool:
    """Is the function as it was handed out, or does it only raise NotImplementedError, as nbgrader's holes do?"""
    lefts = ("...", "pass", "raise NotImplementedError()", "raise NotImplementedError")
    given = hole.removesuffix("...")  # lines before the hole
    return body(function) in (hole, given.rstrip(), *lefts, *(given + left for left in lefts))


@functools.cache
def code_lines(text: str) -> int:
    """The number of lines with code: no blank lines, comments, docstrings or three dots."""
    tree = ast.parse(text)  # first, since it raises SyntaxError for whatever is no Python
    silent = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
    lines = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in silent:
            lines |= set(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            lines -= set(range(node.lineno, node.end_lineno + 1))
    return len(lines)


def own_lines(text: str, file: str) -> int:
    """How many lines of code a student's file has beyond those that were handed out."""
    if text == hole_text(file):
        return 0
    solved = (ENGINE / file).read_text(encoding="utf-8")
    given = re.sub(r"# hole: .+", "# hole", solved)  # a hole's own line (`return g`) is not given
    return max(0, code_lines(text) - code_lines(with_holes(given)))
