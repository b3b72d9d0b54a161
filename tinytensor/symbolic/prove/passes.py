r"""One forward pass and one backward() over symbols, with the expected value of each gradient on the way.

The engine runs as usual, and this watches it (`watching`): every operation that goes on the tape is a `Step`. The
formulas in its result f are written down and a symbol is put in the place of each, so that no expression is ever
larger than one operation. When `backward()` comes to a value x with the gradient g that it has added up, g is compared
with the sum over all steps that read x of

    \partial_z \, \frac{\partial f_z}{\partial x},

where f_z is computed by the step's operation from fresh symbols, and SymPy differentiates it. Then a symbol of its own
replaces each entry of g, too, and the walk goes on with these symbols: so every rule is checked for every gradient that
could arrive. (Where a value is a plain number, as behind a ReLU that is off, the sum above is 0 for any gradient. If
the rule got that 0, a wrong rule could pass.)
"""

import inspect
import linecache
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import sympy

from tinytensor.core.dispatch import OBJECT
from tinytensor.core.modes import enable_grad, no_grad
from tinytensor.core.op import Node, Op
from tinytensor.core.switches import watching
from tinytensor.core.tensor import Tensor
from tinytensor.symbolic.exact.differentiate import Slopes
from tinytensor.symbolic.exact.scalars import Condition, Symbolic, domain, path
from tinytensor.symbolic.exact.tensors import derivative, symbols, variables
from tinytensor.symbolic.exact.zero_test import atoms_kept, float_value
from tinytensor.symbolic.prove.advice import line, no_stranger, place, results_of
from tinytensor.symbolic.prove.progress import Work
from tinytensor.symbolic.prove.proof import Counterexample, Wrong, differ

SEED = "g'"  # the gradient that arrives at the result: no input can have this name


@dataclass(eq=False)
class Step:
    """One operation of a pass: its arguments, its result, and its gradient."""

    node: Node
    label: str  # the operation's name, and its number from the second of the name on
    given: tuple  # its arguments as they were
    result: np.ndarray  # with a symbol for each formula
    formulas: dict[sympy.Symbol, sympy.Expr]  # the formulas of these symbols
    told: int  # how many comparisons had been made when the operation ended
    weight: float  # the work of checking it
    called_at: str  # the line of the user's code that calls the operation
    # partials[i][at]: the derivatives by entry `at` of argument i, as [(entry of the result, dy/dx)]
    partials: dict[int, dict[tuple, list]] = field(default_factory=dict)
    adjoint: np.ndarray | None = None  # the gradient of the result, once backward has been here
    held: list[int] = field(default_factory=list)  # arguments that depend on inputs, but are not on the tape

    op = property(lambda self: self.node.op)
    edges = property(lambda self: self.node.edges)


class Pass:
    """One forward pass and one backward() over symbols, for result number `number` of the function."""

    def __init__(self, fn: Callable, args: list, leaves: dict[str, Tensor], number: int, work: Work):
        self.fn, self.args, self.leaves, self.number, self.work = fn, args, leaves, number, work
        self.steps: list[Step] = []  # oldest first
        self.by_node: dict[Node | Tensor | None, Step] = {}
        self.consumers: dict[Node | Tensor, list[tuple[Step, int]]] = {}  # steps that read a value, and the argument
        self.names: dict[sympy.Symbol, tuple[str, tuple, tuple]] = {}  # a symbol's tensor, place and shape
        self.values: dict[sympy.Expr, float] = {}  # of every expression, at the sample point
        self.constant: dict[str, Step] = {}  # arguments with a derivative that depend on inputs without the tape
        self.conditions: list[Condition] = []
        self.suspects: list[Node | Tensor] = []  # values whose gradient is not proved
        self.hooked: list[str] = []  # values whose gradient was right until a hook of the function replaced it
        self.changed: list[str] = []  # values that were changed without the tape, by .data or a detached view
        self.needed: dict[tuple[str, sympy.Expr], None] = {}  # what numbers must be for the values to exist (`domain`)
        self.wrong: dict[str, Wrong] = {}
        self.fused: list[str] = []
        self.gradients: dict[str, np.ndarray] = {}  # the expected gradients of the inputs
        self.counterexample: Counterexample | None = None
        self.entries = self.compared = 0
        with hooks_kept(leaves.values()), atoms_kept(work.check):
            self.run()
        if self.suspects or self.hooked:
            with hooks_kept(leaves.values()):
                self.look_for_a_counterexample()

    def run(self) -> None:
        """Run all of it; the attributes have the results."""
        for name, leaf in self.leaves.items():
            self.name(name, leaf._data)
            leaf.grad = None
        before = {name: leaf._data.copy() for name, leaf in self.leaves.items()}
        with path() as self.conditions, domain() as self.needed, enable_grad(), watching(self.note):
            results = results_of(self.fn, self.args)
        for name, leaf in self.leaves.items():
            if not _same(leaf._data, before[name]):
                self.changed.append(name)
        self.results = len(results)
        y = results[self.number]
        self.check_unchanged(y.node, y._data)
        self.keep_what_leads_to(y)
        # Each step is differentiated, and compared at its arguments; a fused one also by its definition.
        with self.work.running(sum(step.weight * (2 if step.op.definition is None else 3) for step in self.steps)):
            self.go_back(y)

    def go_back(self, y: Tensor) -> None:
        """Run backward, and check each gradient when it arrives."""
        start = _seed(y)
        self.start = start._data
        self.values |= {g.expr: g.witness for g in self.start.flat}
        self.end = y if y.node is None else y.node
        arrived: dict[Node | Tensor, Tensor] = {}  # gradients before the function's own hooks, if it has any
        for step in self.steps:
            self.differentiate(step)
            own = step.node._hooks or ()
            step.node._hooks = [*_before(own, arrived, step.node), *own, partial(self.arrive, step, arrived)]
        for leaf in self.leaves.values():
            own = leaf._hooks or ()
            leaf._hooks = [*_before(own, arrived, leaf), *own]
        with path() as conditions, domain() as needed:
            y.backward(start, retain_graph=True)
        self.needed |= needed
        for step in reversed(self.steps):
            if step.adjoint is None:  # no gradient arrived: then the expected one is 0
                self.arrive(step, arrived, None)
        for name, leaf in self.leaves.items():
            self.gradients[name] = self.adjoint(leaf)
            self.compare(leaf, name, leaf.grad, self.gradients[name], leaf._data, arrived)
            self.entries += len(variables(leaf._data))
            leaf.grad = None
        self.conditions += conditions
        self.check_fused()
        for target in self.suspects:
            for step, _ in self.consumers.get(target, ()):
                self.check_rules(step)

    def name(self, what: str, values: np.ndarray) -> None:
        """Remember the tensor and the place of the symbols in an array."""
        for at, value in variables(values).items():
            self.names.setdefault(value.expr, (what, at, values.shape))
            self.values[value.expr] = value.witness

    # --------------------------------------------------------------------------------------------------- forward

    def note(self, node: Node, args: tuple, out: np.ndarray) -> None:
        """Remember the arguments of an operation, and replace the formulas in its result by symbols."""
        alike = sum(step.op.name == node.op.name for step in self.steps)
        label = node.op.name if not alike else f"{node.op.name}#{alike + 1}"
        formulas = {}
        for at, value in variables(out).items():
            if not value.expr.is_Symbol:
                symbol = sympy.Symbol(f"{label}{list(at)}")
                formulas[symbol] = value.expr
                out[at] = Symbolic(symbol, value.witness)
        given = tuple(Tensor.of(a._data.copy()) if isinstance(a, Tensor) else a for a in args)
        weight = self.work.weight(len(self.steps), default=float(out.size))
        # The conditions so far are about this step or earlier ones.
        called_at = line(sys._getframe(1)).removeprefix(" (").removesuffix(")")
        step = Step(node, label, given, out.copy(), formulas, len(self.conditions), weight, called_at)
        self.steps.append(step)
        self.by_node[node] = step
        self.name(label, out)
        for i, (edge, arg) in enumerate(zip(node.edges, given, strict=True)):
            values = _values(arg)
            for value in values:  # constants may be symbols, too
                self.values.setdefault(value.expr, value.witness)
            if edge is not None:
                # (An operation in place has written its result over this argument.)
                if node.op.view is not None or not np.may_share_memory(args[i]._data, out):
                    self.check_unchanged(edge, arg._data)
                self.consumers.setdefault(edge, []).append((step, i))
                no_stranger(node.op, edge, self.leaves)
            elif any(not value.expr.free_symbols.isdisjoint(self.names) for value in values):
                step.held.append(i)

    def check_unchanged(self, target: Node | Tensor | None, values: np.ndarray) -> None:
        """Note a value that is no longer the result of its operation: it was changed without the tape."""
        step = self.by_node.get(target)
        if step is not None and step.label not in self.changed and not _same(values, step.result):
            self.changed.append(step.label)

    def keep_what_leads_to(self, y: Tensor) -> None:
        """Forget the steps that y does not depend on."""
        found, todo = set(), [y.node]
        while todo:
            node = todo.pop()
            if isinstance(node, Node) and node not in found:
                found.add(node)
                todo.extend(node.edges)
        self.steps = [step for step in self.steps if step.node in found]
        for edge, consumers in self.consumers.items():
            self.consumers[edge] = [(step, i) for step, i in consumers if step.node in found]

    # ------------------------------------------------------------------------------------------- the expected gradients

    def fresh(self, step: Step, requires_grad: bool = False, held: bool = False) -> tuple[list, dict]:
        """The arguments of an operation with new symbols for those with a gradient, and each symbol's formula.

        With `held`, arguments that depend on inputs without being on the tape get new symbols, too.
        """
        args, meant = list(step.given), {}
        for i, edge in enumerate(step.edges):
            if isinstance(args[i], Tensor) and (edge is not None or (held and i in step.held)):
                array = args[i]._data.copy()
                for at, value in variables(array).items():
                    symbol = sympy.Symbol(f"{parameter(step.op, i)}'{list(at)}")
                    meant[symbol] = value.expr
                    array[at] = Symbolic(symbol, value.witness)
                args[i] = Tensor.of(array, requires_grad)
            elif held and i in step.held:  # a number by item(): it may be a formula, such as 1 + |x[0]|
                symbol = sympy.Symbol(f"{parameter(step.op, i)}'")
                meant[symbol], args[i] = args[i].expr, Symbolic(symbol, args[i].witness)
            elif isinstance(args[i], float):  # so that a definition computes exactly from a setting
                args[i] = Symbolic(args[i])
        return args, meant

    def differentiate(self, step: Step) -> None:
        """Find the partial derivatives of a step."""
        args, meant = self.fresh(step, held=True)
        where, held = {}, {}
        for i, edge in enumerate(step.edges):
            if edge is not None:
                step.partials[i] = {at: [] for at in variables(args[i]._data)}
                where |= {value.expr: step.partials[i][at] for at, value in variables(args[i]._data).items()}
            elif i in step.held:
                held |= {value.expr: i for value in _values(args[i])}
        with no_grad():
            y = _first(step.op(*args))._data
        slopes = Slopes()
        for to, value in variables(y).items():
            for symbol, slope in slopes.of(value.expr).items():
                if symbol in where:
                    where[symbol].append((to, slope.xreplace(meant)))
                elif symbol in held and slope != 0:  # an index, or a value that is only compared, has no derivative
                    self.constant.setdefault(f"{parameter(step.op, held[symbol])} of {step.label}", step)
            self.work.done(step.weight / y.size)

    def adjoint(self, target: Node | Tensor) -> np.ndarray:
        """The derivative of the result by each entry of a value, from the derivatives by the results of its readers."""
        expected = np.empty(target.shape, object)
        for at in np.ndindex(expected.shape):
            terms = [self.start[at].expr] if target is self.end else []
            for step, i in self.consumers.get(target, ()):
                if step.adjoint is not None:  # else backward has not been there; `go_back` sees if it never comes
                    terms += [step.adjoint[to].expr * dy for to, dy in step.partials[i].get(at, ())]
            expr = sympy.Add(*terms)
            expected[at] = Symbolic(expr, float_value(expr, self.values))
        return expected

    # -------------------------------------------------------------------------------------------------- backward

    def arrive(self, step: Step, arrived: dict, g: Tensor | None) -> Tensor:
        """Check the gradient that arrives at a result (None: none arrives); returns the one to go on with."""
        if g is not None:  # too late for this value or one before it, if backward has already left that
            nodes = {step.node, *(edge for edge in step.edges if isinstance(edge, Node))}
            self.suspects += [s.node for s in self.steps if s.node in nodes and s.adjoint is not None]
        expected = self.adjoint(step.node)
        self.compare(step.node, step.label, g, expected, step.result, arrived)
        self.compared += expected.size
        depends = variables(step.result)
        for at in np.ndindex(expected.shape):
            # Where the result is a number, its gradient does not enter the expected ones, and may be any number.
            witness = expected[at].witness if at in depends else 1.0
            expected[at] = Symbolic(sympy.Symbol(f"d{step.label}{list(at)}"), witness)
            self.values[expected[at].expr] = witness
        step.adjoint = expected
        return Tensor.of(expected.copy())

    def compare(
        self,
        target: Node | Tensor,
        name: str,
        g: Tensor | None,
        expected: np.ndarray,
        values: np.ndarray,
        arrived: dict,
    ) -> None:
        """Note a value as suspect, or its hook, if the tape's gradient is not proved to be the expected one."""
        if self.is_proved(target, g, expected, values):
            return
        if target in arrived and self.is_proved(target, arrived[target], expected, values):
            self.hooked.append(name)
        else:
            self.suspects.append(target)

    def is_proved(self, target: Node | Tensor, g: Tensor | None, expected: np.ndarray, values: np.ndarray) -> bool:
        """Is the tape's gradient of a value proved to be the expected one? (Entries that are numbers are skipped.)"""
        readers = {step for step, _ in self.consumers.get(target, ())}
        youngest_first = sorted(readers, key=lambda step: -step.node.time)
        weight = sum(step.weight / sum(e is not None for e in step.edges) for step, _ in self.consumers.get(target, ()))
        for at in variables(values):
            self.work.done(weight / values.size)
            got, right = Symbolic(0) if g is None else Symbolic.of(g._data[at]), expected[at]
            if got.expr == right.expr:
                continue
            for step in youngest_first:  # a rule that reads the result may use its formula
                if not step.formulas.keys().isdisjoint(got.expr.free_symbols | right.expr.free_symbols):
                    got = Symbolic(got.expr.xreplace(step.formulas), got.witness)
                    right = Symbolic(right.expr.xreplace(step.formulas), right.witness)
            if not got.equals(right):
                return False
        return True

    # --------------------------------------------------------------------------------------------- which rule is wrong?

    def check_fused(self) -> None:
        """Check that every fused operation equals its definition, and so do the gradients that the definition gives."""
        done = set()
        for step in self.steps:
            key = step.op, tuple(map(_but_for_symbols, step.given))
            if step.op.definition is None or key in done:
                continue
            done.add(key)
            self.fused.append(step.op.name)
            args, _ = self.fresh(step)
            with no_grad():
                y, defined = _first(step.op(*args))._data, _first(step.op.definition(*args))._data
            for at in np.ndindex(y.shape):
                got, right = Symbolic.of(y[at]), Symbolic.of(defined[at])
                self.judge(Wrong(step.op.name, "", at, got, right, called_at=step.called_at))
                self.work.done(step.weight / y.size)
            self.check_rules(step, create_graph=True)

    def check_rules(self, step: Step, create_graph: bool = False) -> None:
        """Check the rules of one operation alone, on new symbols: which of them is wrong?

        With create_graph the gradient of a fused operation goes through its definition, or by a second rule of it.
        """
        args, _ = self.fresh(step, requires_grad=True)
        with enable_grad():
            y = _first(step.op(*args))
            g = symbols(SEED, *y.shape)
            y.backward(g, retain_graph=True, create_graph=create_graph)
        inputs = {i: args[i] for i, edge in enumerate(step.edges) if edge is not None}
        known = dict(self.values)
        for a in (*inputs.values(), g):
            known |= {value.expr: value.witness for value in variables(a._data).values()}
        for i, x in inputs.items():
            right = derivative(y._data, g._data, x._data)
            for at in variables(x._data):
                got = Symbolic(0) if x.grad is None else Symbolic.of(x.grad._data[at])
                true = Symbolic(right[at], float_value(right[at], known))
                where = rule_of(step.op, i), step.called_at
                self.judge(Wrong(step.op.name, parameter(step.op, i), at, got, true, create_graph, *where))

    def judge(self, claim: Wrong) -> None:
        """Note a rule as wrong unless the two are proved equal; one entry for each rule suffices."""
        self.work.check()
        before = self.wrong.get(claim.rule)
        if (before is None or (claim.differs and not before.differs)) and not claim.got.equals(claim.right):
            self.wrong[claim.rule] = claim

    def look_for_a_counterexample(self) -> None:
        """Compare the tape's numbers at the sample point, without symbols on the way, with the derivative."""
        with enable_grad():
            y = results_of(self.fn, self.args)[self.number]
            y.backward(_seed(y), retain_graph=True)
        for name, leaf in self.leaves.items():
            for at in variables(leaf._data):
                tape = 0.0 if leaf.grad is None else Symbolic.of(leaf.grad._data[at]).witness
                right = self.gradients[name][at].witness
                if self.counterexample is None and differ(tape, right):
                    point = {n: _witnesses(x._data) for n, x in self.leaves.items()}
                    self.counterexample = Counterexample(name, at, tape, right, point)
            leaf.grad = None


def _seed(y: Tensor) -> Tensor:
    """The gradient that backward starts from: symbols. That of one number is 1 at the sample point, as usual."""
    return symbols(SEED, *y.shape) if y.ndim else symbols(SEED, witness=1)


def _same(one: np.ndarray, other: np.ndarray) -> bool:
    """Are these the same formulas, entry by entry?"""
    pairs = zip(one.flat, other.flat, strict=True)
    return one.shape == other.shape and all(a is b or Symbolic.of(a).expr == Symbolic.of(b).expr for a, b in pairs)


def _before(hooks: Sequence[Callable], arrived: dict, target: Node | Tensor) -> list[Callable]:
    """A hook that runs before a value's own hooks, if it has any: it remembers the gradient that has arrived."""
    return [partial(arrived.__setitem__, target)] if hooks else []


@contextmanager
def hooks_kept(leaves: Iterable[Tensor]) -> Iterator[None]:
    """Restore the hooks of the inputs afterwards: the function may register its own at each call."""
    before = [(leaf, leaf._hooks, list(leaf._hooks or ())) for leaf in leaves]
    try:
        yield
    finally:
        for leaf, holder, hooks in before:
            leaf._hooks = holder
            if holder is not None:  # the same list: handles that remove hooks refer to it
                holder[:] = hooks


def parameter(op: Op, i: int) -> str:
    """The name of an operation's argument number i (of *xs: xs, xs[1], xs[2] ...)."""
    last = len(op.params) - 1
    return op.params[i] if i <= last else f"{op.params[last]}[{i - last}]"


def rule_of(op: Op, i: int) -> str:
    """The line of the rule for argument number i, in words."""
    function = getattr(op, "function", None)  # of an autograd.Function
    rule = op.rules.get(min(i, len(op.params) - 1)) or op.backward or op.definition
    code = getattr(inspect.unwrap(rule if function is None else function.backward), "__code__", None)
    if code is None:
        return ""
    number = code.co_firstlineno
    while linecache.getline(code.co_filename, number).strip().startswith("@"):  # the decorators come first
        number += 1
    return place(code.co_filename, number, code.co_name)


def _values(a) -> list[Symbolic]:
    """The values in an argument that depend on symbols."""
    if isinstance(a, Tensor):
        return list(variables(a._data).values())
    return [a] if isinstance(a, Symbolic) and a.expr.free_symbols else []


def _but_for_symbols(a):
    """A key of an argument for the comparison with a definition: all but the values of symbols."""
    if not isinstance(a, Tensor):
        return repr(a)
    return a.shape, a.dtype, None if a.dtype is OBJECT else a._data.tobytes()


def _first(result) -> Tensor:
    return result[0] if isinstance(result, tuple) else result


def _witnesses(values: np.ndarray) -> np.ndarray:
    return np.array([getattr(v, "witness", v) for v in values.flat], float).reshape(values.shape)
