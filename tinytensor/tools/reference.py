"""`python -m tinytensor.tools.reference [FOLDER]`: the reference of the API as HTML, made by pdoc (`docs` extra).

Every public name is on the page of its package, with the docstring that help() shows. Equations are MathML, which
browsers typeset by themselves: the pages need no network.
"""

import importlib
import inspect
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

from tinytensor.core.op import Op
from tinytensor.core.registry import APPEARANCES, Docstring
from tinytensor.core.tensor import Tensor
from tinytensor.tools.documentation import errors
from tinytensor.tools.typeset import mathml, split
from tinytensor.torch_names.missing_names import Absent

try:
    import pdoc
except ImportError as error:
    raise ImportError(f"the reference needs {error.name}: pip install 'tinytensor[docs]'") from error

ROOMS = (  # the packages and files whose names are for users; PyTorch's paths
    "tinytensor",
    "tinytensor.nn",
    "tinytensor.nn.functional",
    "tinytensor.nn.init",
    "tinytensor.nn.utils",
    "tinytensor.nn.utils.rnn",
    "tinytensor.optim",
    "tinytensor.optim.lr_scheduler",
    "tinytensor.autograd",
    "tinytensor.autograd.functional",
    "tinytensor.symbolic",
    "tinytensor.utils.data",
    "tinytensor.torch_names.distributions",
    "tinytensor.torch_names.amp",
    "tinytensor.torch_names.cuda",
    "tinytensor.torch_names.linalg",
    "tinytensor.viz",
    "tinytensor.viz.plots",
)


INNER = re.compile(r"^((?:It launches the operation )?`\w+`: )(.+)$", re.MULTILINE)  # an operation that is named inside


def public_names(room: ModuleType) -> dict[str, Callable]:
    """The public names of a package or a file: the engine's own functions, operations and classes.

    A package exports the names that its files declare; the imports of a file do not belong to it.
    """
    names = getattr(room, "__all__", None) or [name for name in vars(room) if not name.startswith("_")]
    found = {name: getattr(room, name) for name in sorted(names)}
    return {name: what for name, what in found.items() if callable(what) and _belongs(what, name, room)}


def _belongs(what: Callable, name: str, room: ModuleType) -> bool:
    home = str(getattr(what, "__module__", ""))
    if not home.startswith("tinytensor") or (what is Tensor and room.__name__ != "tinytensor"):
        return False
    place = {"tinytensor.nn.functional": "F", "tinytensor.torch_names.linalg": "linalg"}.get(room.__name__)
    attached = f"{place}.{name}" in APPEARANCES
    package = bool(list(getattr(room, "__path__", ())))  # a file's is empty (missing_names.py)
    return attached or home == room.__name__ or package


def with_mathml(text: str) -> str:
    """A paragraph that begins with an equation, with words among it: typeset, up to where the equation ends."""
    equation, mark, rest = re.match(r"([^;:`]*)([;:`]?)(.*)", " ".join(text.split()), re.DOTALL).groups()
    if "=" not in equation:
        return text
    rest = equation[len(equation.rstrip()) :] + mark + rest
    return " ".join(piece if words else _typeset(piece) for piece, words in split(equation)) + rest


def _typeset(latex: str) -> str:
    """LaTeX as MathML, except for a comma or full stop behind it, which belongs to the sentence."""
    formula = latex.rstrip(",.")
    return (mathml(formula) if formula else "") + latex[len(formula) :]


def documented(what: Callable, declared: Callable | None = None) -> Callable:
    """A stand-in for pdoc: the same name, signature and docstring with the errors, the equation typeset.

    pdoc takes an operation, which is an object, for a variable, and would show neither. `declared` is the function from
    which a method was made; the method's own signature does not show its arguments.
    """
    if isinstance(what, type):
        for name, method in vars(what).items():
            if inspect.isfunction(method) and (name == "__init__" or not name.startswith("_")):
                said = _with_errors(method, inspect.getdoc(getattr(what, name)))  # perhaps the docstring of its base
                method.__doc__ = inspect.unwrap(method).__doc__ = said
        return what

    def stand_in(*args, **kwargs): ...

    said = _with_errors(what, inspect.getdoc(what))
    first, gap, rest = (said or "").partition("\n\n")
    is_equation = isinstance(what, Op) or re.match(r"\w+(_\S+)? = ", first)
    rest = INNER.sub(lambda found: found[1] + with_mathml(found[2]), rest)
    if is_equation:  # a paragraph of HTML, in which pdoc leaves the marks of Markdown as they are
        first = "<p>" + re.sub("`([^`]+)`", r"<code>\1</code>", with_mathml(first)) + "</p>"
    stand_in.__doc__ = first + gap + rest
    stand_in.__name__ = stand_in.__qualname__ = getattr(what, "__name__", "")
    stand_in.__module__ = what.__module__
    declared = declared or what
    if isinstance(declared, Op):
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        defaults = dict(zip(declared.params[len(declared.params) - len(declared.defaults) :], declared.defaults))
        empty = inspect.Parameter.empty
        named = [inspect.Parameter(name, kind, default=defaults.get(name, empty)) for name in declared.params]
        stand_in.__signature__ = inspect.Signature(named)
    else:
        stand_in.__signature__ = inspect.signature(declared)
    return stand_in


def _with_errors(what: Callable, said: str | None) -> str | None:
    """A docstring followed by the errors; the docstring of a function that `appears` declares has them already."""
    if isinstance(what.__doc__, Docstring):
        return said
    alone = (said or "").partition("\n\nErrors:\n")[0]  # the docstring of a base may have its errors already
    return f"{alone}\n\n{errors([what])}".strip() or None


def write(folder: Path) -> None:
    """Write the pages of all rooms, and an index; a name is listed under each path from which programs import it."""
    rooms = [importlib.import_module(name) for name in ROOMS]
    for room in rooms:
        names = public_names(room)
        room.__all__ = list(names)
        for name, what in names.items():
            setattr(room, name, documented(what))
    for name, what in list(vars(Tensor).items()):
        if inspect.isfunction(what) and not name.startswith("_"):
            setattr(Tensor, name, documented(what, APPEARANCES.get(f"Tensor.{name}")))
        elif isinstance(what, Absent):  # it only raises that it is missing
            delattr(Tensor, name)
    # The signatures are the functions' own; pdoc would run the stubs, which are written for type checkers alone.
    pdoc.doc_pyi.include_typeinfo_from_stub_files = lambda module: None
    pdoc.render.configure(docformat="markdown", show_source=False, search=False, footer_text="tinytensor")
    pdoc.pdoc(*ROOMS, output_directory=folder)


if __name__ == "__main__":
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "runs/docs")
    write(folder)
    print(f"written: {folder / 'index.html'}")
