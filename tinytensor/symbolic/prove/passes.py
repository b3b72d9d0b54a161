r"""One forward pass and one backward() over symbols: each gradient against the one that the chain rule gives.

`Forward` runs the function as usual and watches it: each operation on the tape is an `OpCall`. A symbol replaces each
formula in its result, so no expression is larger than one operation. `Backward` meets the gradient g of each value x,
once it is added up, and has its expected value: the sum over all operations that read x of

    \partial_z \, \frac{\partial f_z}{\partial x},

where f_z is the operation's result for fresh symbols. Then a symbol of its own replaces each entry of g, too, and
backward() goes on with these symbols: every rule is checked for every gradient that could arrive. (Where a value is a
plain number, as behind a ReLU that is off, the sum above is 0 for any gradient. If the rule got that 0, a wrong rule
could pass.) `compare` lists the values whose gradients are not proved.
"""

import dataclasses
import inspect
import itertools
import linecache
import math
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import numpy as np
import sympy

from tinytensor.autograd.backward import backward as run_backward
from tinytensor.core.kernel import OBJECT
from tinytensor.core.modes import enable_grad, no_grad
from tinytensor.core.observers import observe
from tinytensor.core.op import Node, Op
from tinytensor.core.tensor import Tensor
from tinytensor.ops.generator import Generator
from tinytensor.symbolic.exact.lifting import untraced
from tinytensor.symbolic.exact.scalars import Symbolic, Undecided, atoms_kept, differ, float_or_nan, path
from tinytensor.symbolic.exact.tensors import slopes_of, symbols, variables
from tinytensor.symbolic.index_calculus.formulas import value as value_of
from tinytensor.symbolic.index_calculus.quotients import UNDEFINED
from tinytensor.symbolic.prove.advice import describe_line, line, no_stranger, results_of
from tinytensor.symbolic.prove.proof import WrongRule
from tinytensor.symbolic.prove.questions import note_change, watched
from tinytensor.symbolic.time_limit import TimeLimit, limited, step

SEED = "g'"  # the gradient that arrives at a result
DIGITS = 40  # of numbers where floats differ
RESERVED = {"'", "[", "∂"}  # letters of the symbols of a pass: no input has them in its name

Target = Node | Tensor  # a value with a gradient: the node of a result, or an input


class RandomDraws:
    """The random numbers of a function: named, and the same each time it runs."""

    def __init__(self):
        self.assumptions: dict[str, None] = {}
        self.before: dict[Generator, dict] = {}  # the state of each generator
        self.torch = sys.modules.get("torch")  # if the program has imported it
        self.pytorchs = None if self.torch is None else self.torch.get_rng_state()

    def __call__(self, what: str, generator: Generator) -> None:
        self.before.setdefault(generator, generator.get_state())
        self.assumptions[f"the random numbers of {what} are those of this run{line(sys._getframe(1))}"] = None

    def rewind(self) -> None:
        for generator, position in self.before.items():
            generator.set_state(position)
        if self.torch is not None and not self.torch.equal(self.torch.get_rng_state(), self.pytorchs):
            self.assumptions["the random numbers of PyTorch are those of this run"] = None
            self.torch.set_rng_state(self.pytorchs)

    @contextmanager
    def watch(self) -> Iterator[None]:
        try:
            with observe(on_random=self):
                yield
        finally:
            self.rewind()


@dataclass(frozen=True)
class Subject:
    """A function with its inputs as exact scalars; it draws the same random numbers each time."""

    fn: Callable
    draws: RandomDraws
    args: dict[str, object]
    leaves: dict[str, Tensor]
    state: dict[str, Tensor]  # the parameters and buffers of a Module

    def results(self) -> list[Tensor]:
        """The results of a call."""
        self.draws.rewind()
        with watched():
            return results_of(self.fn, [*self.args.values()])

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Inside is one run: the tensors that it changes are restored afterwards, of constants the values, too."""
        self.draws.rewind()
        tensors = {n: x for n, x in (self.args | self.state).items() if isinstance(x, Tensor)}
        leaves = set(map(id, self.leaves.values()))
        values = [(n, x._data, x._data.copy()) for n, x in tensors.items() if id(x) not in leaves]
        try:
            with restored(tensors.values()):
                yield
        finally:
            for name, array, before in values:
                if array.tobytes() != before.tobytes():  # an array that stays as it is may be read-only
                    array[...] = before
                    if name in self.args:
                        note_change(name)
            for name in self.args.keys() & self.leaves:
                if vars(self.leaves[name]):  # attributes that the function has given it
                    note_change(name)


@dataclass(frozen=True, eq=False)
class OpCall:
    """A call of an operation in the forward pass."""

    node: Node
    label: str  # the operation's name, with a number from its second call on
    args: tuple  # as they were
    result: np.ndarray  # with a symbol for each formula
    formulas: dict[sympy.Symbol, sympy.Expr]  # of these symbols
    n_conditions: int  # comparisons made until the operation ended
    called_at: str  # the line of the user's code that calls the operation
    off_tape: tuple[int, ...]  # arguments that depend on inputs, but are not on the tape

    op = property(lambda self: self.node.op)
    edges = property(lambda self: self.node.edges)


@dataclass(frozen=True)
class Arrival:
    """The gradient of one value, as backward() has added it up, and the expected one."""

    target: Target
    name: str
    values: np.ndarray  # of the tensor itself
    gradient: np.ndarray | None
    expected: np.ndarray


@dataclass(frozen=True)
class Pass:
    """The evidence about a function."""

    forward: "Forward"
    backward: "Backward"
    findings: dict[Target, str]  # values whose gradients are not proved to be the expected ones, with their names
    wrong: dict[str, WrongRule]  # by rule

    constant = property(lambda self: [*self.backward.constant])
    conditions = property(lambda self: self.forward.conditions + self.backward.conditions)
    needed = property(lambda self: self.forward.conditions.needed | self.backward.conditions.needed)


def check_gradients(subject: Subject, time: TimeLimit) -> Pass:
    """Run one forward pass and one backward pass over symbols."""
    with limited(time), subject.kept(), atoms_kept():
        forward = Forward(subject)
        # Each result is differentiated, and its gradient compared; that of a fused operation also by its definition.
        entries = sum(call.result.size * (2 if call.op.definition is None else 3) for call in forward.calls)
        time.begin(entries + sum(leaf.numel() for leaf in subject.leaves.values()))
        backward = Backward(forward)
        findings = compare(forward, backward)
        wrong = wrong_rules(forward, findings)
    return Pass(forward, backward, findings, wrong)


# ------------------------------------------------------------------------------------------------------- forward


class Forward:
    """A recorded forward pass: `calls` are those that the results depend on, oldest first.

    names: a symbol's tensor, its index there, and the tensor's shape. values: of every expression, at the sample point.
    changed: values that were changed without the tape, by .data or a detached view.
    """

    def __init__(self, subject: Subject):
        self.leaves = subject.leaves
        self.recorded: dict[Node, OpCall] = {}
        self.names: dict[sympy.Symbol, tuple[str, tuple, tuple]] = {}
        self.values: dict[sympy.Expr, float] = {}
        self.changed: list[str] = []
        for name, leaf in self.leaves.items():
            self.name(name, leaf._data)
        before = {name: leaf._data.copy() for name, leaf in self.leaves.items()}
        with path() as self.conditions, enable_grad(), observe(on_node=self.note):
            self.results = subject.results()
        for y in self.results:
            self.check_unchanged(y.node, y._data)
        self.changed += [name for name, leaf in self.leaves.items() if not _same(leaf._data, before[name])]
        used, todo = set(), [y.node for y in self.results]
        while todo:
            node = todo.pop()
            if isinstance(node, Node) and node not in used:
                used.add(node)
                todo.extend(node.edges)
        self.calls = [call for node, call in self.recorded.items() if node in used]

    def readers(self, target: Target) -> list[OpCall]:
        """The calls that read a value, the youngest first."""
        return [call for call in reversed(self.calls) if any(edge is target for edge in call.edges)]

    def name(self, tensor: str, array: np.ndarray) -> None:
        for index, value in variables(array).items():
            self.names.setdefault(value.expr, (tensor, index, array.shape))
            self.values[value.expr] = value.witness

    def check_unchanged(self, target: Target | None, array: np.ndarray) -> None:
        call = self.recorded.get(target)
        if call is not None and call.label not in self.changed and not _same(array, call.result):
            self.changed.append(call.label)  # it is no longer the result of its operation

    def note(self, node: Node, args: tuple, out: np.ndarray) -> None:
        alike = sum(call.op.name == node.op.name for call in self.recorded.values())
        label = f"{node.op.name}#{alike + 1}" if alike or node.op.name in self.leaves else node.op.name
        formulas = {}
        for index, value in variables(out).items():
            if not value.expr.is_Symbol:
                symbol = sympy.Symbol(f"{label}{list(index)}")
                formulas[symbol] = value.expr
                out[index] = Symbolic(symbol, value.witness)
        copies = tuple(Tensor.of(a._data.copy()) if isinstance(a, Tensor) else a for a in args)
        self.name(label, out)
        off_tape = tuple(i for i in range(len(args)) if self.is_off_tape(node, i, args[i], copies[i], out))
        called_at = line(sys._getframe(1)).removeprefix(" (").removesuffix(")")
        n_conditions = len(self.conditions)  # about this call or earlier ones
        self.recorded[node] = OpCall(node, label, copies, out.copy(), formulas, n_conditions, called_at, off_tape)

    def is_off_tape(self, node: Node, i: int, arg, copy, out: np.ndarray) -> bool:
        """Does argument i depend on inputs without being on the tape? If it is on the tape, it must be as it was."""
        depends_on, edge = _values(copy), node.edges[i]
        for value in depends_on:  # constants may be symbols, too
            self.values.setdefault(value.expr, value.witness)
        if edge is None:
            return any(not value.expr.free_symbols.isdisjoint(self.names) for value in depends_on)
        # (An operation in place has written its result over this argument.)
        if node.op.view is not None or not np.may_share_memory(arg._data, out):
            self.check_unchanged(edge, copy._data)
        no_stranger(node.op, edge, self.leaves)
        return False


# ---------------------------------------------------------------------------------------------- expected gradients


def fresh_args(
    call: OpCall, requires_grad: bool = False, off_tape: bool = False, by_definition: bool = False
) -> tuple[list, dict]:
    """The arguments of a call with new symbols for those with a gradient, and each symbol's formula.

    With `off_tape`, arguments that depend on inputs without being on the tape get new symbols, too. A definition
    computes exactly from its settings.
    """
    args, meant = list(call.args), {}
    for i, edge in enumerate(call.edges):
        if isinstance(args[i], Tensor) and (edge is not None or (off_tape and i in call.off_tape)):
            array = args[i]._data.copy()
            for index, value in variables(array).items():
                symbol = sympy.Symbol(f"{parameter(call.op, i)}'{list(index)}")
                meant[symbol] = value.expr
                array[index] = Symbolic(symbol, value.witness)
            args[i] = Tensor.of(array, requires_grad)
        elif off_tape and i in call.off_tape:  # a number by item(): it may be a formula, such as 1 + |x[0]|
            symbol = sympy.Symbol(f"{parameter(call.op, i)}'")
            meant[symbol], args[i] = args[i].expr, Symbolic(symbol, args[i].witness)
        elif by_definition and isinstance(args[i], float):
            args[i] = Symbolic(args[i])
    return args, meant


def settled(got: Symbolic, right: Symbolic, values: dict) -> tuple[Symbolic, Symbolic]:
    """Both with exact witnesses, if these differ: where numbers cancel, rounding may be all that is left of floats."""
    if differ(got.witness, right.witness):
        precise = [precise_value(x.expr, values) for x in (got, right)]
        if sympy.nan not in precise:
            return Symbolic(got.expr, precise[0]), Symbolic(right.expr, precise[1])
    return got, right


def precise_value(expr: sympy.Expr, values: dict) -> sympy.Expr:
    """An expression in numbers of many digits, from those of its symbols."""
    point = {symbol: sympy.Float(values.get(symbol, math.nan), DIGITS) for symbol in expr.free_symbols}
    number = Symbolic(expr, math.nan).formula().evalf(DIGITS, subs=point)
    return number if number.is_Number else sympy.nan


# -------------------------------------------------------------------------------------------------------- backward


class Backward:
    """One run of backward(): the gradients of the results of all calls, which go on as symbols, then of the inputs.

    seeds: those of the function's results. arbitrary: is a result a number, whose gradient counts as 1 in witnesses?
    constant: arguments with a derivative that depend on inputs without the tape. terms: of expected gradients.
    """

    def __init__(self, forward: Forward):
        self.forward, self.arbitrary = forward, False
        self.constant: dict[str, None] = {}
        self.terms: dict[tuple[Target, tuple], list[sympy.Expr]] = defaultdict(list)
        self.arrivals: list[Arrival] = []
        self.fresh: dict[Node, tuple] = {}  # by call: new arguments, their formulas, and the result
        self.passed: set[Node] = set()  # calls whose expected gradient is known
        names = [f"{SEED}{n or ''}" for n in range(len(forward.results))]  # the gradient of a number is 1, as usual
        seeds = [
            symbols(g, *y.shape, witness=None if y.ndim else 1) for g, y in zip(names, forward.results, strict=True)
        ]
        self.seeds = [g._data for g in seeds]
        for y, g in zip(forward.results, self.seeds, strict=True):
            for index, value in np.ndenumerate(g):
                forward.values[value.expr] = value.witness
                self.terms[y if y.node is None else y.node, index].append(value.expr)
        for call in forward.calls:  # after the function's own hooks
            args, meant = fresh_args(call, off_tape=True)
            with no_grad():
                self.fresh[call.node] = args, meant, _first(call.op(*args))._data
            call.node._hooks = [*(call.node._hooks or ()), partial(untraced, self.replace, call)]
        with path() as self.conditions, watched():
            run_backward(forward.results, seeds, retain_graph=True)
        for call in reversed(forward.calls):
            if call.node not in self.passed:  # no gradient arrived: then the expected one is 0
                self.replace(call, None)
        for name, leaf in forward.leaves.items():
            self.arrive(leaf, name, leaf._data, leaf.grad)

    def arrive(self, target: Target, name: str, array: np.ndarray, g: Tensor | None) -> np.ndarray:
        """Note the gradient of a value; return the expected one, the sum of its readers' adjoints times derivatives."""
        depends, expected = variables(array), np.empty(target.shape, object)
        for index in np.ndindex(expected.shape):
            expr = sympy.Add(*self.terms[target, index])
            expected[index] = Symbolic(expr, float_or_nan(value_of, expr, self.forward.values))
            if index in depends and not math.isfinite(expected[index].witness) and expr.has(*UNDEFINED):
                raise Undecided(f"the gradient of {name} at {list(index)} is {expr}: no number")
        self.arrivals.append(Arrival(target, name, array, None if g is None else g._data.copy(), expected))
        return expected

    def replace(self, call: OpCall, g: Tensor | None) -> Tensor:
        """Symbols in the place of a gradient that arrives at the result of a call."""
        expected = self.arrive(call.node, call.label, call.result, g)
        depends, onward = variables(call.result), np.empty(expected.shape, object)
        self.arbitrary |= len(depends) < call.result.size
        for index in np.ndindex(expected.shape):
            # Where the result is a number, its gradient does not enter the expected formulas, and may be any number.
            # A number that is left beside a value held constant does enter: no float can be compared then.
            witness = expected[index].witness if index in depends else 1.0
            onward[index] = Symbolic(sympy.Symbol(f"∂{call.label}{list(index)}"), witness)
            self.forward.values[onward[index].expr] = witness
        if call.node not in self.passed:
            self.passed.add(call.node)
            self.pass_on(call, onward)
        return Tensor.of(onward.copy())

    def pass_on(self, call: OpCall, adjoint: np.ndarray) -> None:
        """The terms that a call adds to the expected gradients of its arguments."""
        args, meant, y = self.fresh[call.node]
        slopes = slopes_of(y, adjoint)
        step(y.size)
        for i, edge in enumerate(call.edges):
            if edge is not None:
                for index, value in variables(args[i]._data).items():
                    if value.expr in slopes:
                        self.terms[edge, index].append(slopes[value.expr].xreplace(meant))
            elif i in call.off_tape and any(slopes.get(value.expr, 0) != 0 for value in _values(args[i])):
                # (An index, or a value that is only compared, has no derivative.)
                self.constant[f"{parameter(call.op, i)} of {call.label}"] = None


def compare(forward: Forward, backward: Backward) -> dict[Target, str]:
    """The values whose gradients are not proved to be the expected ones. (Entries that are numbers are skipped.)"""
    calls = forward.recorded

    def is_proved(arrival: Arrival) -> bool:
        readers = forward.readers(arrival.target)
        for index in variables(arrival.values):
            step(1)
            got = Symbolic(0) if arrival.gradient is None else Symbolic.of(arrival.gradient[index])
            right = arrival.expected[index]
            if got.expr == right.expr:
                continue
            for call in readers:  # a rule that reads the result may use its formula
                if not call.formulas.keys().isdisjoint(got.expr.free_symbols | right.expr.free_symbols):
                    got = Symbolic(got.expr.xreplace(call.formulas), got.witness)
                    right = Symbolic(right.expr.xreplace(call.formulas), right.witness)
            if not Symbolic.equals(*settled(got, right, forward.values)):
                return False
        return True

    findings, passed = {}, set()
    for a in backward.arrivals:
        if a.target in calls and a.gradient is not None:  # too late, if backward() has left this value or one before it
            findings |= {node: calls[node].label for node in passed.intersection((a.target, *calls[a.target].edges))}
        if not is_proved(a):
            findings[a.target] = a.name
        passed.add(a.target)
    return findings


# ------------------------------------------------------------------------------------------------ which rule is wrong?


def wrong_rules(forward: Forward, findings: Iterable[Target]) -> dict[str, WrongRule]:
    """The rules, and definitions of fused operations, that are not proved; one entry for each rule suffices."""
    wrong: dict[str, WrongRule] = {}
    fused = {(c.op, *map(_but_for_symbols, c.args)): c for c in reversed(forward.calls) if c.op.definition is not None}
    claims = [definition_claims(call, forward.values) for call in reversed(fused.values())]
    claims += [rule_claims(call, forward.values) for t in findings for call in forward.readers(t)]
    for claim in itertools.chain.from_iterable(claims):
        step()
        before = wrong.get(claim.rule)
        if before is None or (claim.differs and not before.differs):
            got, right = settled(claim.got, claim.right, forward.values)
            claim = dataclasses.replace(claim, got=got, right=right)
            if (before is None or claim.differs) and not got.equals(right):
                wrong[claim.rule] = claim
    return wrong


def definition_claims(call: OpCall, values: dict[sympy.Expr, float]) -> Iterator[WrongRule]:
    """A fused operation equals its definition, and so do the gradients that the definition gives."""
    args, _ = fresh_args(call, by_definition=True)
    note_values(values, args)
    with no_grad():
        y, defined = _first(call.op(*args))._data, _first(call.op.definition(*args))._data
    if y.shape != defined.shape:
        raise ValueError(f"prove: {call.op.name} has the shape {y.shape}, and its definition {defined.shape}")
    for index in np.ndindex(y.shape):
        both = Symbolic.of(y[index]), Symbolic.of(defined[index])
        yield WrongRule(call.op.name, "", index, *both, called_at=call.called_at)
        step(1)
    yield from rule_claims(call, values, create_graph=True)


def rule_claims(call: OpCall, values: dict[sympy.Expr, float], create_graph: bool = False) -> Iterator[WrongRule]:
    """The gradients that the rules of one operation give alone, on new symbols, are its derivatives.

    With create_graph the gradient of a fused operation goes through its definition, or by a second rule of it.
    """
    args, _ = fresh_args(call, requires_grad=True, by_definition=create_graph)
    with enable_grad():
        y = _first(call.op(*args))
        g = symbols(SEED, *y.shape)
        y.backward(g, retain_graph=True, create_graph=create_graph)
    slopes = slopes_of(y._data, g._data)
    note_values(values, (*args, g))
    for i, x in ((i, args[i]) for i, edge in enumerate(call.edges) if edge is not None):
        for index, value in variables(x._data).items():
            got = Symbolic(0) if x.grad is None else Symbolic.of(x.grad._data[index])
            right = slopes.get(value.expr, sympy.S.Zero)
            true = Symbolic(right, float_or_nan(value_of, right, values))
            where = rule_of(call.op, i), call.called_at
            yield WrongRule(call.op.name, parameter(call.op, i), index, got, true, create_graph, *where)


def note_values(values: dict[sympy.Expr, float], args: Iterable) -> None:
    """Enter the values of new symbols in arguments."""
    values |= {value.expr: value.witness for a in args for value in _values(a)}


def _same(x: np.ndarray, y: np.ndarray) -> bool:
    """Are these the same formulas, entry by entry?"""
    pairs = zip(x.flat, y.flat, strict=True)
    return x.shape == y.shape and all(a is b or Symbolic.of(a).expr == Symbolic.of(b).expr for a, b in pairs)


@contextmanager
def restored(tensors: Iterable[Tensor]) -> Iterator[None]:
    """Restore tensors afterwards: their arrays, gradients and hooks, which a function may register at each call."""
    before = [(x, x._data, x.grad, x.node, x._requires_grad, x._hooks, list(x._hooks or ())) for x in tensors]
    try:
        yield
    finally:
        for x, array, grad, node, requires_grad, holder, hooks in before:
            x._data, x.grad, x.node, x._requires_grad, x._hooks = array, grad, node, requires_grad, holder
            if holder is not None:  # the same list: handles that remove hooks refer to it
                holder[:] = hooks


@contextmanager
def swap_data(arrays: dict[Tensor, np.ndarray]) -> Iterator[None]:
    """Inside, the tensors hold these arrays."""
    with restored(arrays):
        for x, array in arrays.items():
            x._data = array
        yield


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
    return describe_line(code.co_filename, number, code.co_name)


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
