"""A gradient that was derived by hand, as a function of tensors and as formulas in the names of the function.

A text is compiled to a function. To read it as formulas, it is traced as the function itself was; lines that the
function has, too, get the function's names.
"""

import ast
import builtins
import inspect
import math
import sys
from collections.abc import Callable
from functools import partial
from inspect import Parameter
from typing import NamedTuple

import numpy as np
from sympy import Expr, Indexed, Mul, S

from tinytensor import linalg
from tinytensor.core.dtypes import float64
from tinytensor.core.modes import no_grad
from tinytensor.core.tensor import Tensor
from tinytensor.nn import Module, functional
from tinytensor.ops.creation import tensor
from tinytensor.ops.methods import FUNCTIONS
from tinytensor.symbolic.derive.adjoints import LONG, DerivedLines, line_key, refuse_no_number
from tinytensor.symbolic.derive.arguments import factors
from tinytensor.symbolic.derive.conditions import SizeCondition
from tinytensor.symbolic.derive.precision import double_precision
from tinytensor.symbolic.derive.recurrences_by_hand import states_as_known
from tinytensor.symbolic.derive.results import Formula, Key, Result
from tinytensor.symbolic.derive.samples import Comparison, Sample, compare, record_calls
from tinytensor.symbolic.derive.semantics import as_number
from tinytensor.symbolic.derive.trace import Trace, format_sizes, trace
from tinytensor.symbolic.derive.values import ExtremeMask, entry_like, formula_key, name_like, renamed
from tinytensor.symbolic.index_calculus.adjoints import Definition, Name, d, expanded, lengths, name_of, names_in
from tinytensor.symbolic.index_calculus.formulas import fresh
from tinytensor.symbolic.index_calculus.notation import text
from tinytensor.symbolic.index_calculus.numpy_printer import label
from tinytensor.symbolic.index_calculus.vanishing import together
from tinytensor.symbolic.prove.proof import format_numbers
from tinytensor.symbolic.reading.errors import NotDerivable
from tinytensor.symbolic.reading.language import STAND_INS
from tinytensor.symbolic.reading.tensors import reading_of

CREATED = ("eye", "full", "full_like", "linspace", "ones_like", "zeros_like", "pi", "e", "inf")  # besides FUNCTIONS
UPSTREAM = "g"  # the argument of a gradient by hand that takes the gradient of the function's result


class HandGradient(NamedTuple):
    """A gradient by hand as an entry in the names of the function, and its conditions."""

    entry: Expr
    sizes: tuple[SizeCondition, ...]
    values: tuple[str, ...]  # keys of VALUES


class WrongShape(NotDerivable):
    """A gradient by hand whose shape is not that of the derivative."""


def _of_numbers(function: Callable, built_in: Callable) -> Callable:
    """The function of tensors, or Python's own of that name where no tensor is given: min(N, 4)."""
    return lambda *args, **keywords: (function if any(isinstance(a, Tensor) for a in args) else built_in)(
        *args, **keywords
    )


OF_NUMBERS = {n: _of_numbers(FUNCTIONS[n], getattr(builtins, n)) for n in ("min", "max", "abs", "round")}
STAND_INS.update(OF_NUMBERS.values())


def function_by_hand(hand) -> Callable | Formula:
    """A gradient by hand as a function of tensors by name; a formula as it is."""
    if callable(hand) or isinstance(hand, Formula):
        return hand
    if not isinstance(hand, str):
        raise TypeError(
            f"check: a gradient by hand is a function of tensors, a text or a formula, not {type(hand).__name__}"
        )
    file = "<the gradient by hand>"
    tree = ast.parse(hand.strip(), file, "eval")  # a SyntaxError shows the text, with a caret
    code, whole = compile(tree, file, "eval"), sys.modules["tinytensor"]
    known = {n: getattr(whole, n) for n in CREATED} | {"tt": whole, "torch": whole, "F": functional, "math": math}
    known |= {n: getattr(linalg, n) for n in linalg.__all__} | {"linalg": linalg}
    known |= {n: getattr(functional, n) for n in dir(functional) if n[0] != "_"} | FUNCTIONS
    known |= OF_NUMBERS

    def function(**values):
        try:
            return eval(code, known | values)
        except NameError as error:
            known_by = ", ".join(sorted(values)) or "no argument"
            raise NameError(
                f"check: the gradient by hand {hand!r} has the name {error.name!r}, which is no argument, no size and "
                f"no function of tinytensor; it was given {known_by}"
                + (", and the result is a number, whose gradient g is 1" if error.name == UPSTREAM else ""),
                name=error.name,
            ) from None

    function.needs = frozenset(node.id for node in ast.walk(tree) if isinstance(node, ast.Name))
    function.__name__ = function.forward = hand  # a text, which no call changes
    return function


def arguments_by_hand(function: Callable, sizes: dict, values: dict) -> dict:
    """What a gradient by hand takes of the values by name, and of the sizes that it names itself."""
    known = sizes | values
    if (needs := getattr(function, "needs", None)) is not None:
        return {name: x for name, x in known.items() if name in needs}
    parameters = inspect.signature(function.forward if isinstance(function, Module) else function).parameters
    variadic = Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD
    needed = [n for n, p in parameters.items() if p.default is p.empty and p.kind not in variadic]
    if missing := [name for name in needed if name not in known]:
        raise TypeError(
            f"check: a gradient by hand takes {missing[0]}, which is neither an argument of the function nor a size: "
            f"there are {', '.join(map(str, [*values, *sizes]))}"
        )
    takes_all = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    return {name: x for name, x in known.items() if name in parameters or (takes_all and name in values)}


def read_by_hand(derivation: Result, name: Key, function: Callable) -> HandGradient:
    """The gradient by hand, or a block, as an entry in the names of the function, or NotDerivable."""
    derived, is_block = derivation.derived, isinstance(name, tuple)
    arguments = dict(derivation.derivation.arguments)
    takes_upstream = isinstance(derived.output, Indexed) and not is_block
    if takes_upstream:
        if UPSTREAM in arguments:
            raise ValueError(f"check: the function has an argument {UPSTREAM!r}, the name of the incoming gradient")
        arguments[UPSTREAM] = tuple(_as_written(dim) for dim in derived.trace.result.dims)

    split = derived.trace.split
    sizes = {str(s): Mul(*factors(str(s), split)) for s in derivation.derivation.symbols}

    def call(**values):
        numbers = {name: reading_of([*values.values()]).number(size) for name, size in sizes.items()}
        gradient = function(**arguments_by_hand(function, numbers, values))
        return tensor(gradient, dtype=float64) if isinstance(gradient, int | float) else gradient

    call.forward = getattr(function, "forward", function)
    names = [label(x.name) for x in derived.forward]
    taken = {*names, *(f"d{n}" for n in (*names, *derived.trace.tensors)), *derived.trace.lines.names}
    program = trace(
        call, arguments, needs_gradient=False, where=derivation.size_conditions, split=split, reserved=taken
    )
    if program.split != split:
        raise NotDerivable("check: the gradient by hand takes sizes apart in another way than the function")
    value = program.result
    want = tuple(Mul(*dim) for dim in derivation.dims(name))
    if tuple(value.shape) != want:
        came, wanted = (f"({', '.join(map(str, shape))})" for shape in (value.shape, want))
        what = f"{derivation.label(name)} needs" if is_block else f"{name} has"
        raise WrongShape(f"the gradient by hand has the shape {came}, but {what} {wanted}")
    if value.finite is not None:
        raise NotDerivable("check: the gradient by hand is -inf in places, which is no number")
    changed = _constants(derived.trace, program)
    if takes_upstream:
        changed[program.arrays[UPSTREAM]] = d(name_of(derived.output))
    left, _ = derivation.entry(name)
    rename = partial(renamed, change=changed)
    lines, hypotheses = _in_names_of_function(derived, program, rename)
    entry = expanded(rename(S(as_number(value).entry(*getattr(left, "indices", ())))), lines)
    refuse_no_number(entry)
    return HandGradient(entry, tuple(program.size_conditions), (*together(program.domains).hypotheses, *hypotheses))


def formula_by_hand(derivation: Result, name: Key, hand: Formula) -> HandGradient:
    """The entry of a formula, in the names of arguments alone; of another derivation, in those of this one."""
    derived, theirs = derivation.derived, hand.derived
    left, _ = derivation.entry(name)
    indices, theirs_indices = (getattr(x, "indices", ()) for x in (left, hand.left))
    if [i.size for i in theirs_indices] != [i.size for i in indices]:
        raise NotDerivable(f"the formula is one of {text(hand.left)}, and not of {text(left)}")
    right = expanded(fresh(hand.right).xreplace(dict(zip(theirs_indices, indices))), list(theirs.adjoints.values()))
    if theirs is not derived:
        changed = _constants(derived.trace, theirs.trace)
        outputs = [name_of(x.output) for x in (theirs, derived)]
        if getattr(outputs[0], "sizes", ()) == getattr(outputs[1], "sizes", ()):
            changed[d(outputs[0])] = d(outputs[1])
        right = renamed(expanded(right, theirs.forward), changed)
        if unknown := names_in(right) - {*derived.trace.arrays.values(), *changed.values()}:
            raise NotDerivable(f"the formula has a name of another function: {min(map(str, unknown))}")
    return HandGradient(right, (), ())


def compare_at_samples(derivation: Result, name: Key, function: Callable) -> Comparison:
    """The gradient by hand beside backward() at the samples that meet the function's conditions on sizes.

    So is a block of a Hessian or Jacobian by hand; `name` is its two names then. An exception that it raises at every
    one of them is the caller's mistake, and goes on.
    """
    failures: list[Exception] = []

    def difference(sample: Sample) -> tuple[str | None, set[str]]:
        edges = set(sample.edges)
        values = sample.inputs | ({} if sample.upstream is None else {UPSTREAM: tensor(sample.upstream)})
        try:
            with no_grad(), record_calls(values) as calls, double_precision():
                gradient = function(**arguments_by_hand(function, {str(s): n for s, n in sample.at.items()}, values))
            edges |= calls.edges
            gradient = gradient.detach().numpy() if isinstance(gradient, Tensor) else np.asarray(gradient)
            if sample.far and not np.isfinite(gradient).all():
                return None, edges
            differs = derivation.mismatch(sample, name, gradient)
        except Exception as error:
            failures.append(error)
            differs = f": the gradient by hand fails: {type(error).__name__}: {error}".splitlines()[0]
        inputs = ", ".join(f"{k} = {_format_tensor(sample.inputs[k])}" for k in derivation.derived.trace.tensors)
        return differs and f"at {format_sizes(sample.at) or 'one number'}{differs} ({inputs})", edges

    def runs(sample: Sample) -> bool:
        number = len(failures)
        difference(sample)
        return len(failures) == number

    inside = filter(derivation.inside, derivation.samples)
    inside = sorted(inside, key=lambda s: (sum(s.at.values()), max(s.at.values(), default=0)))
    compared = compare(inside, difference)
    if failures and not any(map(runs, inside)):
        raise failures[0]
    # it always compares equal numbers, as in x == x.max()
    if compared.equal and not compared.stopped and not compared.tried():
        compared.example = compared.example or compared.equal
    return compared


def _format_tensor(x: Tensor) -> str:
    """The numbers, as Python takes them; of more than 50 those at the edges."""
    return str(x.tolist()) if x.numel() <= 50 else format_numbers(x.detach().numpy())


def _as_written(dim: tuple[Expr, ...]) -> str | Expr:
    """A dimension with its factors in their order, "K*2", which tells x[..., ::2] from x[..., :K]."""
    return "*".join(map(str, dim)) if dim and all(n.is_Symbol or n.is_Integer for n in dim) else Mul(*dim)


def _constants(function: Trace, by_hand: Trace) -> dict[Name, Name]:
    """The constants of the program by hand: those that the function has, too, and new names for all others.

    Two programs may give one name to different constants, which must not be taken for each other.
    """
    known = {_key_of_constant(constant, function, {}): name for name, constant in function.lines.constants.items()}
    changed: dict[Name, Name] = {}
    masks_last = sorted(by_hand.lines.constants.items(), key=lambda item: isinstance(item[1], ExtremeMask))
    for name, constant in masks_last:
        key = _key_of_constant(constant, by_hand, changed)
        if key not in known:
            known[key] = name_like(name, function.lines.unused(f"{name.name}read_by_hand"))
        changed[name] = known[key]
    return changed


def _key_of_constant(constant: ExtremeMask | np.ndarray, program: Trace, changed: dict[Name, Name]) -> tuple:
    """The same for arrays of the same numbers, and for masks that mark the same entries of the same array."""
    if isinstance(constant, np.ndarray):
        return constant.shape, tuple(constant.ravel().tolist())
    lines = [line for group in program.lines.groups for line in group.lines]
    marked = renamed(expanded(constant.of, lines), changed)
    return constant.function, constant.axes, *formula_key(marked, constant.indices)


def _in_names_of_function(derived: DerivedLines, program: Trace, rename: Callable) -> tuple[list[Definition], set[str]]:
    """The definitions of the names by hand: a line that the function has, too, is defined as the function's name.

    A line is compared in the function's names first. One that is written in other steps is compared in the names of
    arguments alone, if it is short then: to expand a long one takes long.
    """
    known, known_whole = derived.line_keys
    lines = [Definition(x.left, rename(x.right)) for group in program.lines.groups for x in group.lines]
    result, hypotheses = states_as_known(derived, program.loops, lines, rename)
    states = list(result)
    for line, length in lengths(lines):
        right = expanded(line.right, result)
        whole = expanded(line.right, [*states, *lines]) if length <= LONG else None
        for power in (1, -1):  # √s by hand, and 1/√s in the function
            match = known.get(line_key(right**power, line))
            if match is None and whole is not None:
                match = known_whole.get(line_key(whole**power, line))
            if match is not None:
                result.append(Definition(line.left, entry_like(line.left, match.name) ** power))
                break
        else:
            result.append(line)
    return result, hypotheses
