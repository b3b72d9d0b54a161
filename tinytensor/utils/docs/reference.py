"""The reference of the API as Markdown, a page for each package: `python -m examples.site` typesets and indexes it.

Every public name is on the page of its package, with its signature and the docstring that help() shows. Equations are
LaTeX between dollar signs. The directives (`py:function` ...) are those of Sphinx, which writes them as HTML.
"""

import ast
import importlib
import inspect
import re
from collections.abc import Callable, Iterable, Iterator
from types import ModuleType

from tinytensor.core.op import Op
from tinytensor.core.registry import REGISTRY, Docstring
from tinytensor.core.tensor import Tensor
from tinytensor.interop.torch_names.missing_names import Absent
from tinytensor.utils.display.latex import split
from tinytensor.utils.docs.documentation import errors

ROOMS = (  # the packages and files whose names are for users; PyTorch's paths
    "tinytensor",
    "tinytensor.nn",
    "tinytensor.nn.functional",
    "tinytensor.nn.init",
    "tinytensor.nn.utils",
    "tinytensor.nn.utils.rnn",
    "tinytensor.nn.utils.parametrize",
    "tinytensor.nn.utils.parametrizations",
    "tinytensor.optim",
    "tinytensor.optim.lr_scheduler",
    "tinytensor.autograd",
    "tinytensor.autograd.functional",
    "tinytensor.autograd.func",
    "tinytensor.nn.utils.stateless",
    "tinytensor.symbolic",
    "tinytensor.utils.data",
    "tinytensor.utils.tensorboard",
    "tinytensor.utils.benchmark",
    "tinytensor.distributions",
    "tinytensor.amp",
    "tinytensor.interop.torch_names.cuda",
    "tinytensor.interop.torch_names.jit",
    "tinytensor.interop.torch_names.testing",
    "tinytensor.linalg",
    "tinytensor.viz",
    "tinytensor.viz.plots",
)
# The beginnings of the names that operations have there (registry.py).
PLACES = {"tinytensor.nn.functional": "F.", "tinytensor.linalg": "linalg."}
EQUATION = re.compile(r"\w+(_(\{[^}]*\}|\S+))? = ")  # a docstring that begins so begins with an equation
INNER = re.compile(r"^((?:It launches the operation )?`\w+`: )(.+)$", re.MULTILINE)  # an operation that is named inside
FOLDED = re.compile(r"^((?:Rule|Formula|Definition)[^\n]*):\n\n(```python\n.*?\n```)$", re.MULTILINE | re.DOTALL)
FENCE = ":" * 8  # of a function; a class, which holds functions, has a longer one


def public_names(room: ModuleType) -> dict[str, Callable]:
    """The public names of a package or a file: the engine's own functions, operations and classes.

    A package exports the names that its files declare; the imports of a file belong to it if its `__all__` says so.
    """
    names = getattr(room, "__all__", None) or [name for name in vars(room) if not name.startswith("_")]
    members = {name: getattr(room, name) for name in sorted(names)}
    return {name: what for name, what in members.items() if callable(what) and _belongs(what, name, room)}


def _belongs(what: Callable, name: str, room: ModuleType) -> bool:
    home = str(getattr(what, "__module__", ""))
    if not home.startswith("tinytensor") or (what is Tensor and room.__name__ != "tinytensor"):
        return False
    attached = room.__name__ in PLACES and PLACES[room.__name__] + name in REGISTRY
    package = bool(list(getattr(room, "__path__", ())))  # a file's is empty (missing_names.py)
    return attached or home == room.__name__ or package or name in getattr(room, "__all__", ())


def path_of(room: str) -> str:
    """The path from which programs import a room: PyTorch's."""
    return room.replace(".interop.torch_names", "")


# --- One name


def with_latex(text: str) -> str:
    """A paragraph that begins with an equation, with words among it: LaTeX between dollars, up to where it ends."""
    equation, mark, rest = re.match(r"([^;:`]*)([;:`]?)(.*)", " ".join(text.split()), re.DOTALL).groups()
    if "=" not in equation:
        return text
    rest = equation[len(equation.rstrip()) :] + mark + rest
    return " ".join(piece if words else _typeset(piece) for piece, words in split(equation)) + rest


def _typeset(latex: str) -> str:
    """LaTeX between dollars, except for a comma or full stop behind it, which belongs to the sentence."""
    formula = latex.rstrip(",.")
    return (f"${formula}$" if formula else "") + latex[len(formula) :]


def description(what: Callable, said: str, short: str = "") -> str:
    """A docstring as Markdown: the equation typeset; rules, formulas and definitions folded.

    With `short`, the name of a page's entry where the rest stands, it ends before the names, and refers to the entry.
    """
    if short:
        said = said.partition("\n\nNames: ")[0]
    first, gap, rest = said.partition("\n\n")
    is_equation = isinstance(what, Op) or EQUATION.match(first)
    rest = INNER.sub(lambda match: match[1] + with_latex(match[2]), rest)
    text = FOLDED.sub(_folded, (with_latex(first) if is_equation else _plain(first)) + gap + _plain(rest))
    return f"{text}\n\nIts rule and all of its names: {{py:obj}}`{short}`." if short else text


def _folded(match: re.Match) -> str:
    """A piece of code under a title that opens it."""
    title = re.sub(r"`([^`]*)`", r"<code>\1</code>", match[1].replace("\\", ""))
    opened = f"```{{raw}} html\n<details class='source'><summary>{title}</summary>\n```"
    return f"{opened}\n\n{match[2]}\n\n```{{raw}} html\n</details>\n```"


def _plain(text: str) -> str:
    """A docstring's text as Markdown: what would be a list, a number or a mark of emphasis stays a letter.

    Blocks that are indented are code, and so is what stands between backquotes.
    """
    blocks = []
    for block in re.split(r"(\n{2,})", text):
        if block.startswith("    ") and all(line.startswith("    ") or not line for line in block.splitlines()):
            body = "\n".join(line[4:] for line in block.splitlines())
            blocks.append(f"```\n{body}\n```")
        else:
            pieces = re.split(r"(`[^`]*`|\$[^$\n]+\$)", block)
            blocks.append("".join(p if p[:1] in ("`", "$") else re.sub(r"([*_\[\]<>|{}])", r"\\\1", p) for p in pieces))
    whole = re.sub(r"\n```\n\n+```\n", "\n\n", "".join(blocks))  # a blank line within a block of code
    return re.sub(r"^```\n(.*?)\n```$", lambda match: _code(match[1]), whole, flags=re.MULTILINE | re.DOTALL)


def _code(body: str) -> str:
    """A block of code: Python if it can be parsed, else text, such as a list of files."""
    try:
        ast.parse(body)
    except SyntaxError:
        return f"```text\n{body}\n```"
    return f"```python\n{body}\n```"


def _with_errors(what: Callable, said: str | None) -> str:
    """A docstring followed by the errors; the docstring of a function that `register` declares has them already."""
    if isinstance(what.__doc__, Docstring):
        return said or ""
    alone = (said or "").partition("\n\nErrors:\n")[0]  # the docstring of a base may have its errors already
    return f"{alone}\n\n{errors([what])}".strip()


def signature(what: Callable, name: str, method: bool = False) -> str:
    """`name(x, dim=None) -> Tensor`: an operation's is that of its form, and a method's has no self."""
    if isinstance(what, Op):
        first = len(what.params) - len(what.defaults)
        defaults = dict(zip(what.params[first:], what.defaults))
        arguments = [f"{p}={defaults[p]!r}" if p in defaults else p for p in what.params[1 if method else 0 :]]
        return f"{name}({', '.join(arguments)})"
    try:
        parameters = inspect.signature(what)
    except (ValueError, TypeError):
        return f"{name}()"
    arguments = list(parameters.parameters.values())
    own = arguments[:1] and arguments[0].kind is not inspect.Parameter.VAR_POSITIONAL
    arguments = arguments[1:] if method and own else arguments  # without self
    shown = str(parameters.replace(parameters=arguments))
    shown = re.sub(r"<(?:function|class|built-in function) '?([\w.<>]+)'?[^>]*>", r"\1", shown)
    shown = re.sub(r"<[^<>]*>", "...", shown)
    return name + re.sub(r"\b(?:[A-Za-z_]\w*\.)+(\w+)", r"\1", " ".join(shown.split()))  # names without paths


# --- Pages


def function(what: Callable, name: str, directive: str = "function", declared: Callable | None = None) -> str:
    """A directive with signature and docstring. `declared` is the function from which a method was made."""
    shown = signature(declared or what, name, method=directive == "method")
    short = f"tinytensor.{name}" if directive == "method" and declared and REGISTRY.get(name) is declared else ""
    said = description(what, _with_errors(what, inspect.getdoc(what)), short)
    return f"{FENCE}{{py:{directive}}} {shown}\n\n{said}\n{FENCE}\n"


def klass(what: type, name: str) -> str:
    """A class with its constructor's errors, and its methods."""
    said = inspect.getdoc(what) or ""
    if (start := vars(what).get("__init__")) is not None and (raised := errors([start])):
        said = f"{said}\n\n{raised}"
    fence = FENCE + "::"
    body = "\n".join(_methods(what))
    return f"{fence}{{py:class}} {signature(what, name)}\n\n{description(what, said)}\n\n{body}\n{fence}\n"


def aliases(names: Iterable[str], prefix: str = "") -> dict[str, str]:
    """The names among these that are further names of an operation, each with the first name that it was declared with.

    `place` begins their names in the registry: "F.", "Tensor.". Methods are aliases where the functions are.
    """
    names, first, other_names = set(names), {}, {}
    for appearance, what in REGISTRY.items():
        name = appearance.removeprefix(prefix)
        if name in names and appearance == prefix + name and not isinstance(what, property):
            in_place = prefix == "Tensor." and name.endswith("_")
            if prefix != "Tensor." or name.removesuffix("_") in REGISTRY:
                main = first.setdefault((what, in_place), name)
                other_names |= {name: main} if name != main else {}
    return other_names


def _alias(what: Callable, name: str, main: str, directive: str = "function") -> str:
    """The entry of a further name, which refers to that of the first one."""
    entry = signature(what, name, method=directive == "method")
    return f"{FENCE}{{py:{directive}}} {entry}\n\nAnother name of {{py:obj}}`{main}`.\n{FENCE}\n"


def _with_aliases(names: Iterable[str], others: dict[str, str]) -> list[str]:
    """The names in their order, but each alias behind its first name."""
    return [n for name in names if name not in others for n in (name, *(a for a in others if others[a] == name))]


def _methods(what: type) -> Iterator[str]:
    methods = dict(sorted(vars(what).items()))
    others = aliases(methods, "Tensor.") if what is Tensor else {}
    for name in _with_aliases(methods, others):
        method = methods[name]
        if name in others:
            yield _alias(REGISTRY[f"Tensor.{name}"], name, f"tinytensor.Tensor.{others[name]}", "method")
            continue
        if name.startswith("_") or isinstance(method, Absent):
            continue
        if isinstance(method, property):
            yield f"{FENCE}{{py:property}} {name}\n\n{description(method, inspect.getdoc(method) or '')}\n{FENCE}\n"
        elif inspect.isfunction(method) or isinstance(method, Op):
            yield function(
                getattr(what, name), name, "method", REGISTRY.get(f"Tensor.{name}") if what is Tensor else None
            )
        elif isinstance(method, classmethod | staticmethod):
            yield function(getattr(what, name), name, "staticmethod")


def _one(what: Callable, name: str) -> str:
    return klass(what, name) if isinstance(what, type) else function(what, name)


def pages() -> dict[str, str]:
    """The pages of the reference: file name without ending, Markdown. "tensor" has the class Tensor alone.

    Names that exist for programs written for PyTorch, and do little or nothing here, stand at the end of their page.
    """
    texts = {}
    for path in ROOMS:
        room = importlib.import_module(path)
        names = public_names(room)
        shown = path_of(path)
        about = _plain(inspect.cleandoc(room.__doc__ or "")).replace("See README.md", "See [its page](../index.md)")
        lines = [f"# {shown}\n", f"{about}\n", f"```{{py:currentmodule}} {shown}\n```\n"]
        if path == "tinytensor":
            tensor = names.pop("Tensor")
            head = "# Tensor\n\n```{py:currentmodule} tinytensor\n```\n"
            texts["tensor"] = f"{head}\n{klass(tensor, 'Tensor')}"
        home = {name: str(getattr(what, "__module__", "")) for name, what in names.items()}
        compatible = [n for n in names if ".torch_names" in home[n] or re.fullmatch(r"[A-Z]\w*Tensor", n)]
        compatible = [] if ".torch_names" in path else compatible
        groups = (("Classes", [n for n in names if isinstance(names[n], type) and n not in compatible]),)
        groups += (("Functions", [n for n in names if not isinstance(names[n], type) and n not in compatible]),)
        groups += (("For programs written for PyTorch", compatible),)
        for title, members in groups:
            if members:
                others = aliases(members, PLACES.get(path, ""))
                lines += [f"## {title}\n"]
                for name in _with_aliases(members, others):
                    first = others.get(name)
                    lines.append(_alias(names[name], name, f"{shown}.{first}") if first else _one(names[name], name))
        texts[shown] = "\n".join(lines)
    return texts
