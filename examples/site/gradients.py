"""The part "The gradients people look up": a page for each function of `examples/gradients/`, and an index.

A page is derived and proved when the site is built. What did not change is taken from the cache.
"""

import hashlib
import inspect
import json
import time
from collections.abc import Sequence
from pathlib import Path

from examples.gradients import functions
from examples.gradients.functions import LIMIT, TABLE, Entry, is_late
from examples.site.pages import fenced
from examples.site.running import LessonFailed, version_of_packages
from tinytensor.symbolic import Derivation, Hessian, Jacobian, TooLong
from tinytensor.symbolic.derive.results import Formula

STOPPED = "stopped at limit"  # in the verdict of what was ended by its limit
LATE = "The time was not enough to decide this on the machine that built the site. What is known:"
TITLE = "The gradients people look up"
OPENING = """Each page has a function from a paper or a textbook as a program, and its gradient with respect to each
argument for any size, derived from that program and proved, as formulas and as NumPy. The last pages have a Hessian or
a Jacobian. Then `check` refutes one by hand that has a mistake, and names the term. `python -m examples.gradients`
prints the derivations."""
TRUSTED = (
    "The proof differentiates each line and compares normal forms. It trusts SymPy's derivatives and arithmetic, the "
    "index calculus, and the table that says what each operation of the engine computes. That table is compared with "
    "the engine in numbers, at the sizes below."
)


def pages(cache: Path, rerun: bool = False, names: Sequence[str] = tuple(TABLE)) -> dict[str, str]:
    """The pages in Markdown by their names, those of the functions `names` and the index.

    LessonFailed if a gradient is not proved, or a wrong one not refuted. Where the time is not enough for that, the
    page says so, and is not kept.
    """
    cache.mkdir(parents=True, exist_ok=True)
    found = {"gradients/index": index(names)}
    for number, name in enumerate(names, 1):
        kept, key = cache / f"{name}.json", _key()
        told = json.loads(kept.read_text(encoding="utf-8")) if kept.exists() and not rerun else {}
        if told.get("key") != key:
            print(f"[{number:>2}/{len(names)}] gradient of {name} ... ", end="", flush=True)
            start = time.perf_counter()
            told = {"key": key, "text": page(TABLE[name])}
            late = LATE in told["text"]
            if not late:
                kept.write_text(json.dumps(told, ensure_ascii=False), encoding="utf-8")
            print(f"{time.perf_counter() - start:.1f} s{', not proved in this time' * late}", flush=True)
        found[f"gradients/{name}"] = told["text"]
    return found


def _key() -> str:
    """A number that changes with any source on which the pages depend."""
    sources = "".join(Path(file).read_text(encoding="utf-8") for file in (functions.__file__, __file__))
    return hashlib.sha256((sources + version_of_packages()).encode()).hexdigest()


def index(names: Sequence[str]) -> str:
    """The page that lists the others."""
    rows = [f"| [{TABLE[name].title}]({name}.md) | {TABLE[name].about} |" for name in names]
    tree = fenced("{toctree}", "\n".join([":hidden:", "", *(f"/gradients/{name}" for name in names)]))
    return "\n".join([f"# {TITLE}", "", OPENING, "", "| function | what it is |", "|---|---|", *rows, "", tree, ""])


def page(entry: Entry, limit: float | None = LIMIT) -> str:
    """The page of one function in Markdown; LessonFailed if its gradient is not proved or the wrong one not refuted."""
    asked = [f"**{entry.question}**"] if entry.question else []
    parts = [f"# {entry.title}", *asked, entry.about, f"Source: {entry.source}", "## The function"]
    parts.append(code(inspect.getsource(entry.function)))
    try:
        derivation = entry.derived(limit)
    except TooLong as error:  # before there are formulas
        return "\n\n".join([*parts, "## What is proved", LATE, verbatim(str(error))]) + "\n"
    if not derivation.proved and not is_late(derivation):
        raise LessonFailed(f"the {entry.what} of {entry.function.__name__} is not proved:\n\n{derivation}")
    checked = entry.checked(derivation, limit)
    wrong = checked[entry.argument]
    if wrong.verdict != "refuted" and not (wrong.verdict == "undecided" and STOPPED in wrong.why):
        raise LessonFailed(f"the wrong {entry.what} of {entry.function.__name__} is not refuted:\n\n{checked}")
    parts += ["As formulas, with a name for each interim result:", typeset(checked.derivation.lines)]
    if isinstance(derivation, Derivation):
        parts += ["## Its gradient", f"{entry.gradient} {derivation.title}."]
    else:
        parts += [f"## Its {entry.what}", f"{entry.gradient}."]
    lines = [line for group in derivation.groups for line in group]
    parts += [typeset(lines)] if lines else []  # there are none where it was ended early
    if not derivation.proved:
        return "\n\n".join([*parts, "## What is proved", LATE, verbatim(derivation.verdict)]) + "\n"
    if matrices := derivation.matrix():
        parts += ["In matrix notation, where a line has such a form:", typeset(matrices)]
    parts += ["## As NumPy", "The same lines as a program, which runs alone:", code(derivation.source())]
    parts += ["## What is proved", proved(derivation)]
    parts += ["## A mistake, refuted" if wrong.verdict == "refuted" else f"## A mistake\n\n{LATE}", entry.mistake]
    arguments = ", ".join(f"{name}={value!r}" for name, value in entry.arguments.items()).replace("'", '"')
    if entry.where:
        arguments = f"where=[{', '.join(map(repr, entry.where))}], {arguments}"
    ((keyword, by_hand),) = entry.by_hand.items()
    given = f"{{{entry.argument!r}: {by_hand[entry.argument].__name__}}}"
    given = given if keyword == "by_hand" else f"{keyword}={given}"
    call = f"check({entry.function.__name__}, {given}, {arguments})"
    parts.append(code(f"{inspect.getsource(entry.wrong)}\n\nprint({call})".replace("'", '"')))
    parts.append(verbatim(str(checked)))
    return "\n\n".join(parts) + "\n"


def verbatim(text: str) -> str:
    """A text as it is printed."""
    return fenced("{code-block} text", text, ":class: output")


def code(text: str) -> str:
    """Python as a cell of the page."""
    return fenced("{code-block} python", text.strip(), ":class: cell")


def typeset(lines: Sequence[Formula]) -> str:
    """Formulas below each other, with their signs of equality in a column."""
    aligned = " \\\\\n".join(line.latex().replace(" = ", " &= ", 1) for line in lines)
    return f"$$\n\\begin{{align*}}\n{aligned}\n\\end{{align*}}\n$$"


def proved(derivation: Derivation | Hessian | Jacobian) -> str:
    """What is proved, and under which assumptions."""
    assumed = "\n".join(f"- {one[0].upper()}{one[1:]}." for one in derivation.assumptions)
    verdict = derivation.verdict
    return f"{verdict[0].upper()}{verdict[1:]}. {TRUSTED} The assumptions are:\n\n{assumed}"
