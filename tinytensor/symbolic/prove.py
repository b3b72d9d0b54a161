r"""`prove(fn, *inputs)`: the gradients that the tape gives are the derivatives of what the forward pass computed.

The function runs through the same operations, rules and kernels as ever, on exact scalars instead of floats, and so
does `backward()`. What it must give is worked out beside it, by the chain rule and SymPy's `diff` alone:

1. Each result that an operation puts on the tape becomes a symbol of its own, z, once its formula f in the symbols of
   its inputs is written down. So no expression is ever larger than one operation (the loss of one small layer, as one
   expression, keeps SymPy busy without end).
2. When `backward()` comes to a value x with the gradient g that it has added up for it, g is compared, entry by
   entry, with

       \partial_x = \sum_z \partial_z \, \frac{\partial f_z}{\partial x}   over all results z that x went into,

   where f_z is what the operation itself computed, run again on fresh symbols, and SymPy differentiates. If they are
   equal for all values of the symbols, g becomes a symbol too, and the walk goes on with it.
3. At the inputs the same is done with `.grad`.

By induction from the result down, every gradient is the derivative of the whole function: a proof, at the sizes
given and where comparisons (the sign at a ReLU, the place of a maximum) come out as at the sample point that the
witnesses are. What was taken off the tape (`detach`) is held constant, and named. Trusted are the chain rule, SymPy's
`diff` and arithmetic, and CPython; that the forward computes what it should is for its definition to say, with which
every fused operation is compared as well.
"""

import inspect
import math
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import sympy

from tinytensor.symbolic.normal import FLOATS, NAMES
from tinytensor.symbolic.scalars import Condition, Symbolic, path
from tinytensor.symbolic.tensors import symbols
from tinytensor.tensor import OBJECT, Node, Op, Tensor, enable_grad, no_grad

SEED = "g'"  # the gradient that arrives at the result: no input has such a name
SAME = 1e-9  # floats nearer than this (relatively) may be two roundings of one number


# ------------------------------------------------------------------------------------------------------ the result


@dataclass(frozen=True)
class Wrong:
    """A rule of an operation (or its definition) that does not give the derivative: where, what, and what is right."""

    op: str
    input: str
    at: tuple[int, ...]
    got: Symbolic
    right: Symbolic
    second_road: bool = False  # the gradient of a fused operation through its definition, as for second derivatives

    @property
    def rule(self) -> str:
        """Which rule it is, in few words."""
        if not self.input:
            return f"{self.op}, definition"
        return f"{self.op}, input {self.input}{', through its definition' if self.second_road else ''}"

    @property
    def differs(self) -> bool:
        """Are the two different numbers at the sample point (or is it just that no proof was found)?"""
        return _differ(self.got.witness, self.right.witness)

    def __str__(self):
        if not self.input:
            return f"{self.op}{list(self.at)} is {_short(self.got)}, but its definition gives {_short(self.right)}"
        what = "the definition" if self.second_road else "the rule"
        told = f"{what} of {self.op} for its input {self.input} gives {_short(self.got)} at {list(self.at)}"
        if self.differs:
            return f"{told}, but the derivative is {_short(self.right)}"
        return f"{told}: not proved equal to the derivative, {_short(self.right)}"


@dataclass(frozen=True)
class Counterexample:
    """An entry of a gradient at one point: what the tape gives, and the derivative."""

    input: str
    at: tuple[int, ...]
    tape: float
    derivative: float
    point: dict[str, np.ndarray]

    def __str__(self):
        values = "; ".join(f"{name} = {_numbers(value)}" for name, value in self.point.items())
        return (
            f"the gradient of {self.input} at {list(self.at)} is {self.tape:.6g} on the tape, but the derivative of "
            f"the forward is {self.derivative:.6g}\n  at {values}"
        )


@dataclass(frozen=True)
class Proof:
    """What `prove` found; true if and only if everything was proved."""

    name: str
    verdict: str  # "proved", "refuted", or "undecided": equal numbers at the sample point, but no proof
    size: str
    entries: int  # compared at the inputs
    steps: int  # compared on the way, at the results of operations
    operations: tuple[str, ...]
    fused: tuple[str, ...]  # of these those with a definition, with which they were compared
    assumptions: tuple[str, ...]
    conditions: tuple[Condition, ...] = field(repr=False)
    wrong: tuple[Wrong, ...] = ()
    counterexample: Counterexample | None = None
    tape_is_wrong: bool = False  # all rules are right, but what backward() made of them is not
    seconds: float = 0.0

    def __bool__(self):
        return self.verdict == "proved"

    def __repr__(self):
        lines = [f"{self.verdict}: {self.name} at {self.size}"]
        if self:
            lines[0] += f": {self.entries} entries of gradients, for all values"
            lines[0] += " at which" if self.assumptions else ""
        lines += [str(wrong) for wrong in self.wrong]
        if self.tape_is_wrong:
            lines.append("every rule is right by itself: the walk over the tape puts them together wrongly")
        if self.counterexample is not None:
            lines.append(str(self.counterexample))
        lines += self.assumptions if self else ()
        return "\n  ".join(lines)


def _short(value: Symbolic) -> str:
    text = str(value).replace("'", "")
    return text if len(text) <= 120 else f"{value.witness:.6g} (a formula of {len(text)} letters)"


def _numbers(values: np.ndarray) -> str:
    rounded = np.array2string(values, precision=4, separator=", ", threshold=50)
    return " ".join(rounded.split())


def _differ(a: float, b: float) -> bool:
    return abs(a - b) > SAME * max(1.0, abs(a), abs(b))  # not so where one is NaN: then nothing is known


def _proof(name: str, passes: list["_Pass"], start: float) -> Proof:
    """What the passes for the results of a function found, together."""
    wrong = {key: w for p in passes for key, w in p.wrong.items()}
    example = next((p.counterexample for p in passes if p.counterexample is not None), None)
    astray = any(p.suspects for p in passes) and not wrong
    verdict = "proved" if not astray and not wrong else "undecided"
    if example is not None or any(w.differs for w in wrong.values()):
        verdict = "refuted"
    return Proof(
        name=name,
        verdict=verdict,
        size=", ".join(f"{n} {leaf.shape}" for n, leaf in passes[0].leaves.items()),
        entries=sum(p.entries for p in passes),
        steps=sum(p.compared for p in passes),
        operations=_once(step.op.name for p in passes for step in p.steps),
        fused=_once(op for p in passes for op in p.fused),
        assumptions=_once(line for p in passes for line in assumptions(p)),
        conditions=_once(c for p in passes for c in p.conditions),
        wrong=tuple(sorted(wrong.values(), key=lambda w: w.second_road)),  # which may come from the others
        counterexample=example,
        tape_is_wrong=astray,
        seconds=time.perf_counter() - start,
    )


def _once(values: Iterable) -> tuple:
    return tuple(dict.fromkeys(values))


# -------------------------------------------------------------------------------------------------------- the proof


def prove(fn: Callable, *inputs) -> Proof:
    r"""Prove that the tape's gradients of `fn` are its derivatives: g = \partial y / \partial x, entry by entry.

    `inputs` are what fn takes: a shape (tuple) stands for a tensor of symbols of that shape; a tensor of symbols, or
    of floats that requires grad (its values are then the sample point), has its gradient proved as well; other tensors
    (indices, masks, constants) and other values are handed on as they are. If `fn` is a Module, its parameters are
    inputs too. If it returns several tensors, each is a result to be differentiated.

    An operation of one's own is proved in three lines:

        proof = prove(softsign, (2, 3))
        print(proof)                    # proved ... at which size, under which assumptions
        assert proof                    # or a counterexample, and the rule that is wrong

    A tuple is always a shape: settings that are tuples belong into fn. ValueError if no result depends on an input;
    Undecided where two numbers that are compared are equal at the sample point (there may be no derivative): choose
    other witnesses. What the function itself raises is raised.
    """
    start = time.perf_counter()
    with _as_symbols(fn) as parameters:
        names = _names(fn, len(inputs))
        args = [_argument(name, value) for name, value in zip(names, inputs, strict=True)]
        leaves = {n: a for n, a in zip(names, args, strict=True) if isinstance(a, Tensor) and a.requires_grad}
        leaves |= parameters
        _check_symbols(leaves)
        passes = [_Pass(fn, args, leaves, 0)]
        while len(passes) < passes[0].results:
            passes.append(_Pass(fn, args, leaves, len(passes)))
        return _proof(_name(fn), passes, start)


def _name(fn: Callable) -> str:
    return getattr(fn, "name", None) or getattr(fn, "__name__", None) or type(fn).__name__


def _names(fn: Callable, n: int) -> list[str]:
    """What fn calls its inputs."""
    if isinstance(fn, Op):
        names = list(fn.params)
    else:
        parameters = inspect.signature(fn.forward if hasattr(fn, "named_parameters") else fn).parameters.values()
        names = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return (names + [f"input{i}" for i in range(len(names), n)])[:n]


def _argument(name: str, value):
    if isinstance(value, tuple | list) and all(isinstance(n, int) for n in value):
        return symbols(name, *value).requires_grad_()
    if not isinstance(value, Tensor) or value.dtype.kind in "ib":
        return value
    if value.dtype is not OBJECT and value.requires_grad:
        return symbols(name, *value.shape, witness=value.detach().numpy().astype(object)).requires_grad_()
    if value.dtype is not OBJECT:
        return _exact(value)
    return Tensor(value._data.copy(), requires_grad=True)


def _exact(x: Tensor) -> Tensor:
    """Floats as the fractions that they are."""
    values = np.empty(x.shape, object)
    for at in np.ndindex(x.shape):
        values[at] = Symbolic(x._data[at])
    return Tensor(values)


def _check_symbols(leaves: dict[str, Tensor]) -> None:
    if not leaves:
        raise ValueError("prove: no input has a gradient; give shapes, tensors of symbols, or a Module with parameters")
    seen: dict[sympy.Symbol, str] = {}
    for name, leaf in leaves.items():
        for value in leaf._data.flat:
            if not _is_number(value) and not value.expr.is_Symbol:
                raise ValueError(f"prove: the input {name} holds the formula {value}; inputs are symbols or numbers")
            if not _is_number(value) and seen.setdefault(value.expr, name) != name:
                raise ValueError(f"prove: {value} stands in the inputs {seen[value.expr]} and {name}; rename one")


@contextmanager
def _as_symbols(fn: Callable) -> Iterator[dict[str, Tensor]]:
    """The parameters of a Module, holding symbols for the time being."""
    parameters = dict(fn.named_parameters()) if hasattr(fn, "named_parameters") else {}
    before = {name: (p.data, p.grad) for name, p in parameters.items()}
    try:
        for name, p in parameters.items():
            p.data = symbols(name, *p.shape) if p.requires_grad else _exact(p.detach())
            p.grad = None
        yield {name: p for name, p in parameters.items() if p.requires_grad}
    finally:
        for name, p in parameters.items():
            p.data, p.grad = before[name]


def _is_number(value) -> bool:
    return not isinstance(value, Symbolic) or not value.expr.free_symbols


def derivative(y: np.ndarray, g: np.ndarray, x: np.ndarray) -> np.ndarray:
    """d(sum of g y)/dx for each symbol of x, by SymPy; 0 where x has a number."""
    total = sympy.Add(*((Symbolic.of(a) * b).expr for a, b in zip(np.ravel(g), np.ravel(y), strict=True)))
    result = np.full(np.shape(x), sympy.S.Zero, object)
    for at in np.ndindex(result.shape):
        if not _is_number(x[at]):
            result[at] = sympy.diff(total, x[at].expr)
    return result


# --------------------------------------------------------------------------------------------------- one pass of it


class _Watching(threading.local):
    tape: "_Pass | None" = None


_watching = _Watching()


class _Step(Node):
    """A node of the tape that tells the proof, if one is going on in this thread, what it was computed from."""

    def __init__(self, op, args, out, saved, version):
        super().__init__(op, args, out, saved, version)
        if _watching.tape is not None:
            _watching.tape.note(self, args, out)


@contextmanager
def _watched(tape: "_Pass") -> Iterator[None]:
    """Operations put steps on the tape, in place of its own nodes, which keep no more than the rules read."""
    home = sys.modules[Node.__module__]  # tinytensor.tensor, a name that the function has as well
    before, home.Node, _watching.tape = home.Node, _Step, tape
    try:
        yield
    finally:
        home.Node, _watching.tape = before, None


class _Pass:
    """One forward pass and one backward() over symbols, for one of the results of the function."""

    def __init__(self, fn: Callable, args: list, leaves: dict[str, Tensor], number: int):
        self.fn, self.args, self.leaves, self.number = fn, args, leaves, number
        self.steps: list[_Step] = []
        self.consumers: dict[Node | Tensor, list[tuple[_Step, int]]] = {}  # who reads a value, as which argument
        self.names: dict[sympy.Symbol, tuple[str, tuple]] = {}  # what a symbol stands for: an entry of what
        self.shapes: dict[str, tuple] = {}
        self.values: dict[sympy.Expr, float] = {}  # of every expression, at the sample point
        self.constant: list[str] = []  # inputs that depend on symbols, but are not on the tape
        self.conditions: list[Condition] = []
        self.suspects: list[_Step | Tensor] = []  # values whose gradient is not proved
        self.wrong: dict[str, Wrong] = {}
        self.fused: list[str] = []
        self.gradients: dict[str, np.ndarray] = {}  # of the inputs, as they should be
        self.counterexample: Counterexample | None = None
        self.entries = self.compared = 0
        self.run()

    def run(self) -> None:
        for name, leaf in self.leaves.items():
            self.name(name, leaf._data)
            leaf.grad = None
        with path() as self.conditions, enable_grad(), _watched(self):
            results = _results(self.fn(*self.args))
        self.results = len(results)
        y = results[self.number]
        self.steps = self.reachable(y)
        for step in self.steps:
            self.differentiate(step)
            step._hooks = [partial(self.arrive, step)]
        start = symbols(SEED, *y.shape) if y.ndim else None  # backward() of one number starts from 1
        self.start = np.full((), Symbolic(1)) if start is None else start._data
        self.values |= {g.expr: g.witness for g in self.start.flat}
        self.result = y if y.node is None else y.node
        with path() as conditions:
            y.backward(start, retain_graph=True)
        for step in reversed(self.steps):
            if step.adjoint is None:  # nothing arrived: then nothing should have
                self.arrive(step, None)
        for name, leaf in self.leaves.items():
            self.gradients[name] = self.adjoint(leaf)
            self.compare(leaf, leaf.grad, self.gradients[name], leaf._data)
            self.entries += sum(not _is_number(value) for value in leaf._data.flat)
            leaf.grad = None
        self.conditions += conditions
        self.check_fused()
        for target in self.suspects:
            for step, _ in self.consumers.get(target, ()):
                self.check_rules(step)
        if self.suspects:
            self.look_for_a_counterexample()

    def name(self, what: str, values: np.ndarray) -> None:
        """Say what the symbols in an array are the entries of."""
        self.shapes[what] = values.shape
        for at in np.ndindex(values.shape):
            if not _is_number(values[at]):
                self.names.setdefault(values[at].expr, (what, at))
                self.values[values[at].expr] = values[at].witness

    # --------------------------------------------------------------------------------------------------- forward

    def note(self, step: _Step, args: tuple, out: np.ndarray) -> None:
        """Remember what an operation was given, and put symbols in the place of the formulas in its result."""
        same = sum(s.op.name == step.op.name for s in self.steps)
        step.label = step.op.name if not same else f"{step.op.name}#{same + 1}"
        step.given = tuple(Tensor(a._data.copy()) if isinstance(a, Tensor) else a for a in args)
        step.told = len(self.conditions)  # those before this one are about it or earlier ones
        step.formulas, step.adjoint = {}, None
        for at in np.ndindex(out.shape):
            if not _is_number(out[at]) and not out[at].expr.is_Symbol:
                atom = sympy.Symbol(f"{step.label}{list(at)}")
                step.formulas[atom] = out[at].expr
                out[at] = Symbolic(atom, out[at].witness)
        step.result = out.copy()
        self.name(step.label, out)
        for a in args:  # constants may be symbols, too
            for value in a._data.flat if isinstance(a, Tensor) and a.dtype is OBJECT else [a]:
                if isinstance(value, Symbolic):
                    self.values.setdefault(value.expr, value.witness)
        self.steps.append(step)
        for i, edge in enumerate(step.edges):
            if edge is not None:
                self.consumers.setdefault(edge, []).append((step, i))
                if isinstance(edge, Tensor) and not any(edge is leaf for leaf in self.leaves.values()):
                    raise ValueError(
                        f"prove: {step.op.name} reads a tensor of shape {edge.shape} that requires grad and is no "
                        "input; give it as an input, or prove the Module that it is a parameter of"
                    )
            elif isinstance(args[i], Tensor) and args[i].dtype is OBJECT and self.depends(args[i]._data):
                self.constant.append(f"{_parameter(step.op, i)} of {step.label}")

    def depends(self, values: np.ndarray) -> bool:
        """Is there a symbol of an input in it, or of what was computed from one?"""
        return any(not _is_number(v) and not v.expr.free_symbols.isdisjoint(self.names) for v in values.flat)

    def reachable(self, y: Tensor) -> list[_Step]:
        """The steps that y was computed in, oldest first; from now on the others read nothing."""
        found, todo = set(), [y.node]
        while todo:
            step = todo.pop()
            if isinstance(step, Node) and step not in found:
                found.add(step)
                todo.extend(step.edges)
        for edge, consumers in self.consumers.items():
            self.consumers[edge] = [(step, i) for step, i in consumers if step in found]
        return [step for step in self.steps if step in found]

    # ----------------------------------------------------------------------------- what the gradients should be

    def fresh(self, step: _Step, requires_grad: bool = False) -> tuple[list, dict]:
        """The arguments of an operation with new symbols for what has a gradient, and what each of these stands for."""
        args, meant = [], {}
        for i, given in enumerate(step.given):
            if step.edges[i] is not None:
                array = given._data.copy()
                for at in np.ndindex(array.shape):
                    if not _is_number(array[at]):
                        symbol = sympy.Symbol(f"{_parameter(step.op, i)}'{list(at)}")
                        meant[symbol] = array[at].expr
                        array[at] = Symbolic(symbol, array[at].witness)
                given = Tensor(array, requires_grad)
            args.append(given)
        return args, meant

    def differentiate(self, step: _Step) -> None:
        """partials[i][at]: what the entry `at` of argument i does to the result, as [(entry of the result, dy/dx)]."""
        args, meant = self.fresh(step)
        step.partials, where = {}, {}
        for i, edge in enumerate(step.edges):
            if edge is not None:
                step.partials[i] = {}
                for at in np.ndindex(args[i].shape):
                    if not _is_number(args[i]._data[at]):
                        where[args[i]._data[at].expr] = step.partials[i].setdefault(at, [])
        with no_grad():
            y = _first(step.op(*args))._data
        for to in np.ndindex(y.shape):
            if not _is_number(y[to]):
                for symbol in y[to].expr.free_symbols & where.keys():
                    where[symbol].append((to, sympy.diff(y[to].expr, symbol).xreplace(meant)))

    def adjoint(self, target: _Step | Tensor) -> np.ndarray:
        """The derivative of the result by each entry of a value, from those of all values that it went into."""
        terms = np.empty(target.shape, object)
        for at in np.ndindex(terms.shape):
            terms[at] = [self.start[at].expr] if target is self.result else []
        for step, i in self.consumers.get(target, ()):
            if step.adjoint is None:  # backward has not been there, and if it never comes, that is checked at the end
                continue
            for at, partials in step.partials[i].items():
                terms[at] += [step.adjoint[to].expr * dy for to, dy in partials]
        expected = np.empty(target.shape, object)
        for at in np.ndindex(terms.shape):
            expr = sympy.Add(*terms[at])
            expected[at] = Symbolic(expr, _value(expr, self.values))
        return expected

    # -------------------------------------------------------------------------------------------------- backward

    def arrive(self, step: _Step, g: Tensor | None) -> Tensor:
        """Backward comes to a result with its gradient (None: it never does); the gradient that it goes on with."""
        if g is not None:  # too late for a value that this one was computed from, if that has gone on already
            late = [step, *(edge for edge in step.edges if isinstance(edge, Node))]
            self.suspects += [target for target in late if target.adjoint is not None]
        expected = self.adjoint(step)
        self.compare(step, g, expected, step.result)
        self.compared += expected.size
        for at in np.ndindex(expected.shape):
            expr, witness = expected[at].expr, expected[at].witness
            if not (expr.is_Symbol or expr.is_Rational):
                expected[at] = Symbolic(sympy.Symbol(f"d{step.label}{list(at)}"), witness)
                self.values[expected[at].expr] = witness
        step.adjoint = expected
        return Tensor(expected.copy())

    def compare(self, target: _Step | Tensor, g: Tensor | None, expected: np.ndarray, values: np.ndarray) -> None:
        """Suspect a value if the tape's gradient is not proved to be the expected one (where it is a number: none)."""
        readers = {step for step, _ in self.consumers.get(target, ()) if step.out is not None}
        formulas = [step.formulas for step in sorted(readers, key=lambda step: -step.time)]
        for at in np.ndindex(expected.shape):
            got = Symbolic(0) if g is None else Symbolic.of(g._data[at])
            if _is_number(values[at]) or got.expr == expected[at].expr:
                continue
            one, other = got.expr, expected[at].expr
            for meant in formulas:  # a rule that reads the result y may lean on what y is
                one, other = one.xreplace(meant), other.xreplace(meant)
            if not Symbolic(one, got.witness).equals(Symbolic(other, expected[at].witness)):
                self.suspects.append(target)
                return

    # ---------------------------------------------------------------------------------------------- who is wrong?

    def check_fused(self) -> None:
        """Every fused operation equals its definition, and so do its gradients by that second road."""
        done = set()
        for step in self.steps:
            given = tuple(_kind(a) for a in step.given)
            if step.op.definition is None or (step.op, given) in done:
                continue
            done.add((step.op, given))
            self.fused.append(step.op.name)
            args, _ = self.fresh(step)
            with no_grad():
                y, defined = _first(step.op(*args))._data, _first(step.op.definition(*args))._data
            for at in np.ndindex(y.shape):
                got, right = Symbolic.of(y[at]), Symbolic.of(defined[at])
                if not got.equals(right):
                    self.blame(Wrong(step.op.name, "", at, got, right))
            self.check_rules(step, create_graph=True)

    def check_rules(self, step: _Step, create_graph: bool = False) -> None:
        """The rules of one operation by itself, on symbols of its own: which of them is wrong?

        With create_graph the gradient of a fused operation goes through its definition.
        """
        args, _ = self.fresh(step, requires_grad=True)
        with enable_grad():
            y = _first(step.op(*args))
            g = symbols(SEED, *y.shape)
            y.backward(g, retain_graph=True, create_graph=create_graph)
        known = dict(self.values)
        for a in (*(a for i, a in enumerate(args) if step.edges[i] is not None), g):
            known |= {s.expr: s.witness for s in a._data.flat if not _is_number(s)}
        for i, edge in enumerate(step.edges):
            if edge is None:
                continue
            x = args[i]
            right = derivative(y._data, g._data, x._data)
            for at in np.ndindex(x.shape):
                if not _is_number(x._data[at]):
                    got = Symbolic(0) if x.grad is None else Symbolic.of(x.grad._data[at])
                    true = Symbolic(right[at], _value(right[at], known))
                    if not got.equals(true):
                        self.blame(Wrong(step.op.name, _parameter(step.op, i), at, got, true, create_graph))

    def blame(self, wrong: Wrong) -> None:
        key = wrong.rule
        if key not in self.wrong or (wrong.differs and not self.wrong[key].differs):
            self.wrong[key] = wrong

    def look_for_a_counterexample(self) -> None:
        """The tape's own numbers at the sample point, without symbols on the way, beside the derivative."""
        with enable_grad():
            y = _results(self.fn(*self.args))[self.number]
            y.backward(symbols(SEED, *y.shape) if y.ndim else None, retain_graph=True)
        for name, leaf in self.leaves.items():
            for at in np.ndindex(leaf.shape):
                tape = 0.0 if leaf.grad is None else Symbolic.of(leaf.grad._data[at]).witness
                right = self.gradients[name][at].witness
                if self.counterexample is None and not _is_number(leaf._data[at]) and _differ(tape, right):
                    point = {n: _witnesses(x._data) for n, x in self.leaves.items()}
                    self.counterexample = Counterexample(name, at, tape, right, point)
            leaf.grad = None


def _results(returned) -> list[Tensor]:
    """The tensors that a function returned and that its inputs have a gradient of."""
    returned = returned if isinstance(returned, tuple | list) else (returned,)
    results = [y for y in returned if isinstance(y, Tensor) and y.requires_grad]
    if not results:
        raise ValueError("prove: no tensor that the function returns depends on an input that has a gradient")
    return results


def _kind(a):
    """What makes a difference for a comparison with a definition: all but the values that are symbols."""
    if not isinstance(a, Tensor):
        return repr(a)
    return a.shape, a.dtype, None if a.dtype is OBJECT else a._data.tobytes()


def _first(result) -> Tensor:
    return result[0] if isinstance(result, tuple) else result


def _parameter(op: Op, i: int) -> str:
    """The name of an operation's argument number i (of *xs: xs, xs[1], xs[2] ...)."""
    last = len(op.params) - 1
    return op.params[i] if i <= last else f"{op.params[last]}[{i - last}]"


def _witnesses(values: np.ndarray) -> np.ndarray:
    return np.array([getattr(v, "witness", v) for v in values.flat], float).reshape(values.shape)


def _value(expr: sympy.Expr, values: dict[sympy.Expr, float]) -> float:
    """An expression in floats; `values` has those of its symbols, and remembers every subexpression."""
    if expr not in values:
        args = [_value(a, values) for a in expr.args]
        try:
            if expr.is_Add:
                result = sum(args)
            elif expr.is_Mul:
                result = math.prod(args)
            elif expr.is_Pow:
                result = args[0] ** args[1]
            elif args:
                result = FLOATS[NAMES[expr.func]](*args)
            else:
                result = math.nan if expr.is_Symbol else float(expr)
        except (ArithmeticError, ValueError):  # an overflow, a division by 0: the witness says nothing
            result = math.nan
        values[expr] = result
    return values[expr]


# ---------------------------------------------------------------------------------------------------- assumptions


def assumptions(run: _Pass) -> list[str]:
    """What the path through the comparisons was, and what else a proof leans on, in sentences."""
    signs: dict[str, np.ndarray] = {}
    larger: dict[str, list[str]] = {}
    rest: dict[str, dict[str, None]] = {}
    for number, condition in enumerate(run.conditions):
        expr = condition.difference.expr
        label = next((step.label for step in run.steps if number < step.told), "backward")
        one, other = _difference(expr)
        if one is not None and other is not None and {one, other} <= run.names.keys():
            names = larger.setdefault(_entry(run.names[one]), [])
            if _entry(run.names[other]) not in names:
                names.append(_entry(run.names[other]))
        elif (one or other) in run.names:
            what, at = run.names[one or other]
            signs.setdefault(what, np.full(run.shapes[what], "."))[at] = "+" if one is not None else "-"
        else:
            rest.setdefault(label, {})[str(expr.xreplace(_readable(run, expr)))] = None
    lines = []
    for step in run.steps:
        cut = r"\max(0" in step.op.equation and len(rest.get(step.label, ())) == step.result.size
        if cut:  # what was compared with 0 is a formula inside the operation and has no name of its own
            del rest[step.label]
            pattern = np.array(["-" if _is_number(v) else "+" for v in step.result.flat])
            signs[f"{step.label} before max(0, .)"] = pattern.reshape(step.result.shape)
            signs.pop(step.label, None)
    lines += [f"signs of {what}: {_pattern(pattern)}" for what, pattern in signs.items()]
    lines += [f"{one} is larger than {', '.join(others)}" for one, others in larger.items()]
    for label, exprs in rest.items():
        if len(exprs) <= 4 and all(len(e) <= 60 for e in exprs):
            lines += [f"{e} > 0 (in {label})" for e in exprs]
        else:
            lines.append(f"{len(exprs)} comparisons of {label} come out as at the sample point (.conditions has them)")
    lines += [f"held constant, since it is not on the tape: {what}" for what in run.constant]
    parts = {e for step in run.steps for f in step.formulas.values() for e in sympy.preorder_traversal(f)}
    if any(NAMES.get(e.func) in ("log", "sqrt") for e in parts):
        lines.append("logarithms and square roots are of positive numbers")
    if any(e.is_Pow and e.exp.is_negative for e in parts):
        lines.append("no denominator is 0")
    return lines


def _difference(expr: sympy.Expr) -> tuple[sympy.Symbol | None, sympy.Symbol | None]:
    """(a, b) of a - b, where each may be missing; (None, None) if it is something else."""
    plus = [t for t in sympy.Add.make_args(expr) if t.is_Symbol]
    minus = [-t for t in sympy.Add.make_args(expr) if (-t).is_Symbol]
    if len(plus) > 1 or len(minus) > 1 or len(plus) + len(minus) != len(sympy.Add.make_args(expr)):
        return None, None
    return (plus or [None])[0], (minus or [None])[0]


def _entry(name: tuple[str, tuple]) -> str:
    what, at = name
    return f"{what}{list(at)}" if at else what


def _readable(run: _Pass, expr: sympy.Expr) -> dict:
    return {s: sympy.Symbol(_entry(run.names[s])) for s in expr.free_symbols & run.names.keys()}


def _pattern(signs: np.ndarray) -> str:
    if signs.ndim < 2:
        return "[" + " ".join(signs.flat) + "]"
    return "[" + ", ".join(map(_pattern, signs)) + "]"
