r"""`prove(fn, *inputs)`, `assert_gradient`: the gradients that the tape gives are the derivatives of the forward pass.

The function and `backward()` run through the engine's own operations, rules and kernels, on exact scalars instead of
floats, and each gradient is compared with its derivative, one operation at a time (`passes.py`). By induction from the
result down, every gradient is the derivative of the whole function: at the given sizes, and where comparisons (the sign
at a ReLU, the position of a maximum) come out as at the sample point. Trusted are the chain rule, the table of
functions, SymPy's arithmetic, and CPython. Numbers may refute a proof (`probing.py`).
"""

import inspect
import math
from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import replace
from functools import partial

import numpy as np
import sympy

from tinytensor.core import late_bound
from tinytensor.core.kernel import OBJECT
from tinytensor.core.op import Node, Op
from tinytensor.core.tensor import Tensor
from tinytensor.symbolic.exact.finite_field import BITS, Field, Residue
from tinytensor.symbolic.exact.scalars import ROUNDED, Symbolic, Undecided, reading
from tinytensor.symbolic.exact.tensors import exact, symbols, variables, witnesses
from tinytensor.symbolic.numbers import FAR, STYLES, WITHIN
from tinytensor.symbolic.prove.advice import describe, line_named
from tinytensor.symbolic.prove.assumptions import comparisons, in_words
from tinytensor.symbolic.prove.passes import RESERVED, Pass, RandomDraws, Subject, check_gradients, restored, swap_data
from tinytensor.symbolic.prove.probing import NOT_COMPARED, Outcome, Probe, Run, in_floats, quiet
from tinytensor.symbolic.prove.proof import Proof, format_numbers, join_words
from tinytensor.symbolic.prove.questions import questions_of
from tinytensor.symbolic.prove.sampling import BOUND, INEXACT, prove_by_sampling, residues
from tinytensor.symbolic.time_limit import TimeLimit, TooLong

ADVICE = (
    'give smaller shapes (a proof for all values at a small size says the most), size="real" (residues instead of '
    "formulas), or another limit (None: as long as it takes)"
)
LONG = 10.0  # seconds, after which the progress of a proof is shown
RIGHT_AT_FIRST = "at the first sample point, where comparisons come out otherwise, the gradients are right"


def prove(
    fn: Callable,
    *inputs,
    size: str = "small",
    seed: int | None = None,
    limit: float | None = 600.0,
    progress: bool | None = None,
    constant: Sequence[str] = (),
) -> Proof:
    r"""Prove that the tape's gradients of `fn` are its derivatives: g = \partial y / \partial x, entry by entry.

    `inputs` are the arguments of fn. A shape (tuple) stands for a tensor of symbols of that shape; the gradient of a
    tensor of symbols, or of floats with requires_grad (its values are then the sample point), is proved, too; other
    tensors (indices, masks, constants) and other values are passed on as they are, and settings that are tuples belong
    inside fn. If `fn` is a Module, its parameters are inputs too. If it returns several tensors, in tuples, lists or
    dicts, each of them is differentiated. Functions written for PyTorch or NumPy, PyTorch's modules and `apply` of its
    autograd.Functions are taken as they are.

        proof = prove(softsign, (2, 3))     # an operation of your own
        print(proof)                        # proved ... at which shapes, under which conditions
        assert proof                        # or a counterexample, and the rule that is wrong

    ValueError if no result depends on an input; Undecided if two compared numbers are equal at the sample point (there
    may be no derivative): choose other witnesses. Errors of the function itself are raised, with the line that raised
    them. The function runs several times; its random numbers are the same each time, and named in the assumptions.

    Formulas grow: a product of 16 x 16 matrices takes seconds, one of 40 x 40 a minute, attention over 8 rows of 4 half
    a minute. With size="real" no formula is written down: all gradients are compared at once at one random point modulo
    a random prime (`sampling.py`), and the proof states the probability that a wrong gradient passes. `seed` repeats a
    draw.

    A value that is taken off the tape (`detach()`, `no_grad()`) but has a derivative is held constant. This is no
    proof, unless `constant` names the value as the verdict does: constant=["b of mul"] (not at size="real").

    Code that asks exact numbers for more than their values (text, hash, bytes, a type, the dtype), catches errors, or
    changes what it holds is undecided, with its line (`questions.py`).

    A proof of more than ten seconds shows its progress: on a terminal, always with `progress=True`, never with False.
    TooLong if it has taken `limit` seconds of computing.
    """
    if size not in ("small", "real"):
        raise ValueError(f'prove: size = {size!r}; choose "small" (for all values) or "real" (at a random point)')
    fn = late_bound.with_our_parameters(fn)
    _check_inputs(fn, inputs)
    time = TimeLimit("prove", _name(fn), limit, progress, ADVICE, LONG)
    undecided: Undecided | None = None  # at the first sample point
    for sample in list(WITHIN)[: None if any(map(_is_shape, inputs)) else 1]:  # the next one where fn is undefined
        try:
            return _prove_near(sample, fn, inputs, size, seed, time, constant)
        except Undecided as error:
            undecided = undecided or error
    raise undecided


def _prove_near(
    sample: str, fn: Callable, inputs: tuple, size: str, seed: int | None, time: TimeLimit, constant: Sequence[str]
) -> Proof:
    """The proof with a sample point of this style (numbers.py)."""
    draws, outside = RandomDraws(), {_name(fn): fn} | dict(zip(_names(fn, len(inputs)), inputs, strict=True))
    with (
        line_named(),
        draws.watch(),
        late_bound.pytorch_follows_us(),
        reading(ROUNDED) as met,
        questions_of(outside) as asked,
    ):
        subject_of = partial(_subject, fn, draws, inputs, sample, seed)
        with subject_of(_floats, lambda x: x) as subject, subject.kept(), quiet(), suppress(Exception):
            fn(*in_floats(subject.args.values()))  # which may fill what the function keeps; its errors are met again
        asked.after_first_call()
        if size == "small":
            with subject_of(_symbols, exact) as subject:
                proof = _prove_by_formulas(_name(fn), subject, sample, time, constant)
        else:
            proof = _prove_by_residues(_name(fn), subject_of, sample, time, seed)
        draws.rewind()
        questions = asked.answers() if proof else [] if proof.wrong else asked.changes()
    read = [f"{value!r} is read as {ROUNDED[value]}, which it rounds" for value in sorted(met)]
    where = [*proof.where, *(line for line in proof.assumptions if line.startswith(NOT_COMPARED))]
    where += [*_fixed_inputs(fn, inputs), *asked.conditions]
    where += ["there is no entry to compare"] * (proof.entries == 0)
    where += ["rounded constants count as exact"] * bool(read)
    where += ["random numbers are those of this run"] * bool(draws.assumptions)
    if questions:
        proof = replace(proof, refuted=False, against=(questions[0], *proof.against))
    return replace(proof, assumptions=(*proof.assumptions, *read, *draws.assumptions), where=tuple(where))


def assert_gradient(fn: Callable, *inputs, **options) -> Proof:
    r"""Raise AssertionError unless \partial y / \partial x on the tape is proved to be the derivative of `fn`.

    The arguments are those of `prove`: shapes for tensors of symbols, and its options (size, constant, limit ...). It
    holds at these shapes alone, and under the conditions in the verdict of the proof, which is returned.

        def test_gradient_of_softsign():
            assert_gradient(softsign, (2, 3))

    The text of the error has the formula that the rule gives, the derivative, the line of the rule, and the line of
    your code that calls the operation. Inputs that can't be proved at all raise the errors of `prove`.
    """
    __tracebackhide__ = True  # pytest then shows the line of the test
    proof = prove(fn, *inputs, **options)
    if not proof:
        verdict = "wrong" if proof.refuted else "not proved"
        raise AssertionError(f"the gradient is {verdict}: {str(proof).removeprefix(f'{proof.verdict}: ')}")
    return proof


def _fixed_inputs(fn: Callable, inputs: tuple) -> list[str]:
    """What a proof holds fixed: the inputs that are no symbols, and the state of a Module."""
    sentences, fixed = [], []
    for name, value in zip(_names(fn, len(inputs)), inputs, strict=True):
        if isinstance(value, int | float | str | None):
            sentences.append(f"{name} is {value!r}")
        elif not _has_gradient(value):
            fixed.append(name)
    fixed += [name for name, x in _module_state(fn).items() if not x.requires_grad]
    if fixed:
        sentences.append(f"{join_words(fixed)} {'is' if len(fixed) == 1 else 'are'} as passed in")
    if hasattr(fn, "named_parameters") and hasattr(fn, "training"):
        sentences.append(f"{_name(fn)} is in {'training' if fn.training else 'eval'} mode")
    return sentences


def _check_inputs(fn: Callable, inputs: tuple) -> None:
    """Raise an error unless fn is a function, and one of these inputs has a gradient."""
    if not callable(fn) or isinstance(fn, type):
        what = f"the class {fn.__name__}" if isinstance(fn, type) else describe(fn)
        raise TypeError(
            f"prove: fn is {what}; expected a function, an operation or a Module, and its inputs behind it: "
            "prove(tt.softmax, (2, 3), -1); of a Function give `apply`"
        )
    if not any(map(_has_gradient, (*inputs, *_module_state(fn).values()))):
        names = _names(fn, len(inputs))
        came = ", ".join(f"{name} is {describe(value)}" for name, value in zip(names, inputs, strict=True))
        raise ValueError(
            f"prove: no input has a gradient: {came or 'there is none'}; expected a shape as one tuple, (2, 3), for a "
            "tensor of symbols, a tensor of floats with requires_grad=True, or a Module with parameters; settings that "
            "are tuples belong inside fn: prove(lambda x: f(x, dim=(0, 1)), (2, 3))"
        )


def _is_shape(value) -> bool:
    return isinstance(value, tuple | list) and all(isinstance(n, int) and not isinstance(n, bool) for n in value)


def _has_gradient(value) -> bool:
    return _is_shape(value) or (isinstance(value, Tensor) and (value.requires_grad or value.dtype is OBJECT))


@contextmanager
def _subject(
    fn: Callable,
    draws: RandomDraws,
    inputs: tuple,
    sample: str,
    seed: int | None,
    variable: Callable,
    constant: Callable,
) -> Iterator[Subject]:
    """A function with its inputs, and the parameters of its Module for the time being, as exact scalars.

    variable: makes a tensor with a gradient of its name and floats; constant: of a tensor without one.
    """
    random = np.random.default_rng(0 if seed is None else seed)

    def argument(name: str, value):
        if _is_shape(value):
            return variable(name, np.asarray(STYLES[sample](random, tuple(value), ())))
        if not isinstance(value, Tensor) or value.dtype.kind in "iub":
            return value
        if value.dtype is OBJECT and variable is _symbols:
            return Tensor.of(value._data.copy(), requires_grad=True)
        if value.requires_grad or value.dtype is OBJECT:
            return variable(name, witnesses(value._data))
        return constant(value)

    held = {name: x for name, x in _module_state(fn).items() if x.dtype.kind == "f"}
    with restored(held.values()):
        for name, x in held.items():
            near = x.detach().numpy() + 0.3 * random.normal(size=x.shape)  # parameters may be all 0 or all alike
            x.data, x.grad = variable(name, near) if x.requires_grad else constant(x.detach()), None
        args = {name: argument(name, x) for name, x in zip(_names(fn, len(inputs)), inputs, strict=True)}
        leaves = {n: a for n, a in args.items() if isinstance(a, Tensor) and a.requires_grad}
        leaves |= {name: x for name, x in held.items() if x.requires_grad}
        yield Subject(fn, draws, args, leaves, _module_state(fn))


def _floats(name: str, values: np.ndarray) -> Tensor:
    return Tensor.of(values, requires_grad=True)


def _symbols(name: str, values: np.ndarray) -> Tensor:
    return symbols(name, *values.shape, witness=values.astype(object)).requires_grad_()


def _prove_by_formulas(name: str, subject: Subject, sample: str, time: TimeLimit, constant: Sequence[str]) -> Proof:
    """The proof at a small size, if numbers do not refute it (probing.py)."""
    _check_symbols(subject.leaves)
    leaves, run, probe = subject.leaves, check_gradients(subject, time), Probe(subject)
    proof = _proof_of(name, run, constant)
    free = {value.expr for leaf in leaves.values() for value in variables(leaf._data).values()}
    differentiable = len(free) == sum(leaf.numel() for leaf in leaves.values()) and not run.constant
    if run.findings or run.wrong:
        example = probe.counterexample() if differentiable else ""
        return _refuted(proof, probe.sample, example) if example else proof
    if not proof:
        return proof
    outcome = probe.run(_exact_run(run), sample, _edges(run), differentiable, proved=True)
    for sentence, point in outcome.elsewhere:
        with _at_point(leaves, point):
            try:
                there = _proof_of(name, check_gradients(subject, time))
            except TooLong:
                raise
            except Exception:  # numbers are equal there, or a value does not exist
                there = None
        no_reason = there is None or there  # floats alone say so, which may overflow or be flat where numbers are large
        if no_reason and not _is_ordinary(point):
            continue
        refuted = _refuted(proof if no_reason else there, point, sentence, RIGHT_AT_FIRST)
        return replace(refuted, refuted=there is None or there.refuted)
    return _judged(proof, outcome)


def _refuted(proof: Proof, point: dict[str, np.ndarray], sentence: str, *more: str) -> Proof:
    """The proof, refuted by numbers at this point."""
    numbers = "; ".join(f"{name} = {format_numbers(values)}" for name, values in point.items())
    known = [line for line in proof.against if line != INEXACT]
    return replace(proof, refuted=True, against=(*known, sentence, f"at {numbers}", *more))


def _judged(proof: Proof, outcome: Outcome) -> Proof:
    """A proof and its verdict after numbers have tried to refute it."""
    assumptions = (*proof.assumptions, *[outcome.not_run] * bool(outcome.not_run))
    if outcome.sentence:
        proof = replace(proof, refuted=outcome.refuted, against=(outcome.sentence,))
    return replace(proof, assumptions=assumptions)


def _exact_run(run: Pass) -> Run:
    """The results and the gradients at the sample point, as floats; NaN for the gradient of a number in an input.

    A number that is held constant, or that a sum leaves, has no gradient here, so NaN stands for all of them then.
    """
    gradients = {}
    for arrival in (a for a in run.backward.arrivals if isinstance(a.target, Tensor)):
        gradients[arrival.name] = np.full(arrival.values.shape, np.nan)
        for index in variables(arrival.values) if not run.backward.arbitrary else ():
            g = 0 if arrival.gradient is None else arrival.gradient[index]
            gradients[arrival.name][index] = Symbolic.of(g).witness
    return Run([witnesses(y._data) for y in run.forward.results], [*map(witnesses, run.backward.seeds)], gradients)


def _is_ordinary(point: dict[str, np.ndarray]) -> bool:
    return all(np.abs(values).max(initial=0) <= FAR for values in point.values())


def _edges(run: Pass) -> set[float]:
    """The numbers that the code compares with."""
    edges = set()
    for condition in run.conditions:
        number, terms = condition.difference.expr.as_coeff_Add()
        factor, symbol = terms.as_coeff_Mul()
        if number and symbol.is_Symbol:
            edges.add(abs(float(number / factor)))
    return {edge for edge in edges if 1e-3 <= edge <= 1e4}


def _at_point(leaves: dict[str, Tensor], point: dict[str, np.ndarray]) -> AbstractContextManager[None]:
    """Inside, the symbols of the inputs have these numbers as witnesses."""
    moved = np.frompyfunc(lambda value, witness: Symbolic(value.expr, witness), 2, 1)
    return swap_data({x: np.asarray(moved(x._data, point[name]), object) for name, x in leaves.items()})


def _prove_by_residues(name: str, subject_of: Callable, sample: str, time: TimeLimit, seed: int | None) -> Proof:
    """The proof at a real size, if numbers do not refute it."""
    bits = BITS
    while True:
        with (
            Field(seed, bits) as field,
            subject_of(partial(residues, field), partial(exact, scalar_type=Residue)) as subject,
        ):
            time.begin(math.inf)
            proof, run = prove_by_sampling(name, subject, field, time)
            if proof or INEXACT in proof.against:
                outcome = Probe(subject).run(run, sample, (), differentiable=True, proved=bool(proof))
                for sentence, point in outcome.elsewhere:
                    if _is_ordinary(point):
                        return _refuted(proof, point, sentence)
                return _judged(proof, outcome)
        if proof.refuted or not BOUND < proof.error < math.inf:
            return proof
        bits += math.ceil(proof.error - BOUND) + 8  # the formula is too large for a prime of so many bits


def _function_class(fn: Callable) -> type | None:
    """The class of which fn is the `apply`: an autograd.Function."""
    owner = getattr(fn, "__self__", None)
    return owner if isinstance(owner, type) and hasattr(owner, "forward") and fn.__name__ == "apply" else None


def _name(fn: Callable) -> str:
    function = _function_class(fn)
    if function is not None:
        return function.__name__
    names = getattr(fn, "name", None), getattr(fn, "__name__", None), type(fn).__name__
    return next(name for name in names if isinstance(name, str) and name)


def _names(fn: Callable, n: int) -> list[str]:
    """The names of fn's inputs."""
    if isinstance(fn, Op):
        names = list(fn.params)
    else:
        fn = _function_class(fn) or fn
        try:
            parameters = inspect.signature(getattr(fn, "forward", fn)).parameters.values()
        except (TypeError, ValueError):  # it is not written in Python
            parameters = ()
        names = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        names = names[isinstance(fn, type) and names[:1] == ["ctx"] :]  # of a Function
    names = (names + [f"input{i}" for i in range(len(names), n)])[:n]
    known = [*names, *_module_state(fn)]
    return [name if known.count(name) == 1 else f"input{i} {name}" for i, name in enumerate(names)]


def _check_symbols(leaves: dict[str, Tensor]) -> None:
    seen: dict[sympy.Symbol, str] = {}
    for name, leaf in leaves.items():
        for value in variables(leaf._data).values():
            plain = value.expr.is_Symbol and value.expr == sympy.Symbol(value.expr.name)
            if not plain or RESERVED & {*value.expr.name} or seen.setdefault(value.expr, name) != name:
                raise ValueError(
                    f"prove: the input {name} holds {value}; inputs hold numbers, and symbols() of a name of letters "
                    "that no other input has"
                )


def _module_state(fn: Callable) -> dict[str, Tensor]:
    """The parameters and buffers of a Module."""
    return dict([*fn.named_parameters(), *fn.named_buffers()]) if hasattr(fn, "named_parameters") else {}


def _proof_of(name: str, run: Pass, constant: Container[str] = ()) -> Proof:
    """The proof that a pass amounts to; constant: what the caller has named so."""
    wrong = sorted(run.wrong.values(), key=lambda w: w.through_definition)  # these may follow from the others
    calls, leaves, (signs, formulas) = run.forward.calls, run.forward.leaves, comparisons(run)
    assumptions, where = in_words(run, signs, formulas)
    against = [line for w in wrong for line in w.sentences]
    if off_tape := [what for what in run.constant if what not in constant]:
        names = ", ".join(f'"{what}"' for what in off_tape)
        against += [
            f"{off_tape[0]} depends on the inputs, has a derivative, and is not on the tape",
            f"leave detach(), .data and no_grad() out, or say that it is meant: prove(..., constant=[{names}])",
        ]
    if run.findings and not wrong:
        changes = f"changes the gradient of {join_words([*dict.fromkeys(run.findings.values())])}"
        against.append(f"every rule is right by itself: a hook, or the walk over the tape, {changes}")
    if run.forward.changed:
        changes = f"changes {join_words(run.forward.changed)}"
        against.append(f"the function {changes} without the tape (.data, a detached view)")
    size = ", ".join(f"{n} {leaf.shape}" for n, leaf in leaves.items())
    return Proof(
        name=name,
        refuted=any(w.differs for w in wrong),
        size=size,
        scope=f"at {'this shape' if size.count('(') == 1 else 'these shapes'}, for all values",
        entries=sum(len(variables(leaf._data)) for leaf in leaves.values()),
        operations=tuple(dict.fromkeys(call.op.name for call in calls)),
        assumptions=tuple(assumptions),
        where=tuple(where),
        against=tuple(against),
        steps=sum(a.expected.size for a in run.backward.arrivals if isinstance(a.target, Node)),
        fused=tuple(dict.fromkeys(call.op.name for call in calls if call.op.definition is not None)),
        signs=signs,
        conditions=tuple(run.conditions),
        wrong=tuple(wrong),
    )
