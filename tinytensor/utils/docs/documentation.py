"""Complete docstrings, as `help(tinytensor.softmax)` shows them: after the equation names, rule, definition, formula.

The operation's form holds all of this, so it is taken from there when a docstring is read: nothing is written twice,
and `import tinytensor` does not pay for it (the docstrings of registry.py call `complete`).
"""

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterable
from pathlib import Path

from tinytensor.core.op import OPS, Op
from tinytensor.core.registry import REGISTRY

ROOM = Path(__file__).parents[3]
PLACES = {"linalg": "tinytensor.linalg", "F": "tinytensor.nn.functional", "nn": "tinytensor.nn", "Tensor": "Tensor"}


def operation_of(function: Callable) -> Op | None:
    """The operation behind a name: the function itself, or the operation that a function of the same name calls."""
    return function if isinstance(function, Op) else OPS.get(getattr(function, "__name__", "").strip("_"))


def complete(function: Callable, said: str) -> str:
    """The docstring `said` of a function that `register` declares, followed by the contents of its declaration."""
    parts, op = [inspect.cleandoc(said)], operation_of(function)
    if op is not None:
        if op is not function and op.equation not in said:
            parts.append(f"It launches the operation `{op.name}`: {op.equation}.")
        parts.append(f"Shapes and dtypes: {_shapes(op)}")
    own = [] if op is None else [each for each in (op.view, op.forward) if each is not None]
    if refused := errors([*own, *([] if isinstance(function, Op) else [function])]):
        parts.append(refused)
    if names := [_full(appearance) for appearance, declared in REGISTRY.items() if declared is function]:
        parts.append(f"Names: {', '.join(names)}")
    if op is None:
        parts.append(_source("Definition, whose operations have the rules", function))
        parts += [f"`{inner.name}`: {inner.equation}" for inner in _named_in(function)]
        parts += [_source(f"Rule of `{inner.name}`", rule) for inner in _named_in(function) for rule in _rules(inner)]
        return "\n\n".join(parts)
    rules = _rules(op)
    if op.kernel is not None:
        parts.append(_source("Formula", op.kernel.py_func))
    if rules:
        parts += [_source("Rule", rule) for rule in rules]
    if op.definition is not None:
        title = (
            "Definition, from which the rule's own derivative comes" if rules else "Definition, also of its gradient"
        )
        parts.append(_source(title, op.definition))
    if not op.differentiable:
        parts.append("Rule: none; it has no derivative, or one that is 0 wherever there is one.")
    return "\n\n".join(parts)


def _rules(op: Op) -> list[Callable]:
    return [*op.rules.values(), *([op.backward] if op.backward else [])]


def _named_in(function: Callable) -> list[Op]:
    """The operations that a function's own code names."""
    function = inspect.unwrap(function)
    objects = [function.__globals__.get(name) for name in function.__code__.co_names]
    return [each for each in objects if isinstance(each, Op)]


def _shapes(op: Op) -> str:
    """Shapes and dtypes by the operation's form; a function that calls the operation has more in its docstring."""
    result = {"same": "the dtype stays", "float": "whole numbers become floats", "bool": "y is of bools"}[op.dtype]
    if op.kernel is not None:
        inputs = op.params[: len(op.params) - len(op.defaults)]
        together = f"{', '.join(inputs)} are broadcast, and y has the shape that they have together"
        shape = together if len(inputs) > 1 else f"y has the shape of {inputs[0]}"
        names_by_letters = {"f": "floats", "iu": "whole numbers", "b": "bools"}
        only = [word for letters, word in names_by_letters.items() if set(letters) & set(op.dtype_kinds)]
        return f"{shape}; {result}" + (f"; only {' and '.join(only)} are taken" if only else "") + "."
    if op.view is not None:
        return "y shares the memory of x: a change of one in place changes the other."
    return "as the equation's indices say; shapes that do not fit raise an error that says why."


def errors(functions: Iterable[Callable]) -> str:
    """The errors that these functions raise in their own code, with their texts ("…" for inserted values), or ""."""
    raised: dict[str, None] = {}
    for function in functions:
        try:
            source = ast.parse(textwrap.dedent(inspect.getsource(inspect.unwrap(function))))
        except (OSError, TypeError, SyntaxError):  # it has no file, or is a lambda in the middle of a line
            continue
        for node in ast.walk(source):
            if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and isinstance(node.exc.func, ast.Name):
                words = _words(node.exc.args[0]) if node.exc.args else ""
                raised[f"{node.exc.func.id}: {words}" if words else node.exc.func.id] = None
    lines = [textwrap.fill(each, 100, initial_indent="    ", subsequent_indent="        ") for each in raised]
    return "Errors:\n\n" + "\n".join(lines) if lines else ""


def _words(message: ast.expr) -> str:
    """An error's text without the inserted values; "" if it is made elsewhere."""
    if isinstance(message, ast.Constant):
        return str(message.value)
    if isinstance(message, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else "…" for part in message.values)
    return ""


def _full(appearance: str) -> str:
    room, dot, name = appearance.rpartition(".")
    return f"{PLACES[room] if dot else 'tinytensor'}.{name}"


def _source(title: str, function: Callable) -> str:
    """A function's source without its docstring, under a title with its file and line."""
    function = inspect.unwrap(function)
    lines, first = inspect.getsourcelines(function)
    body = textwrap.dedent("".join(lines)).rstrip()
    if function.__doc__ and isinstance(function.__doc__, str):
        body = _without_docstring(body)
    path = Path(inspect.getsourcefile(function))
    where = path.relative_to(ROOM).as_posix() if path.is_relative_to(ROOM) else path.name
    return f"{title} ({where}, line {first}):\n\n{textwrap.indent(body, '    ')}"


def _without_docstring(source: str) -> str:
    (declared,) = ast.parse(source).body
    said, lines = declared.body[0], source.splitlines()
    if isinstance(said, ast.Expr) and isinstance(said.value, ast.Constant) and len(declared.body) > 1:
        del lines[said.lineno - 1 : said.end_lineno]
    return "\n".join(lines)
