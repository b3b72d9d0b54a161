r"""`prove(fn, *inputs)`, `assert_gradient`: the gradients that the tape gives are the derivatives of the forward pass.

The function and `backward()` run through the engine's own operations, rules and kernels, on exact scalars instead of
floats, and each gradient is compared with its derivative, one operation at a time (`passes.py`). By induction from the
result down, every gradient is the derivative of the whole function: at the given sizes, and where comparisons (the sign
at a ReLU, the position of a maximum) come out as at the sample point. Trusted are the chain rule, the table of
functions, SymPy's arithmetic, and CPython. Numbers may refute a proof (`probing.py`).
"""

import inspect
import math
import sys
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import replace
from functools import partial
from itertools import chain

import numpy as np
import sympy

from tinytensor.core import late_bound
from tinytensor.core.kernel import OBJECT
from tinytensor.core.observers import observe
from tinytensor.core.op import Node, Op
from tinytensor.core.tensor import Tensor
from tinytensor.ops.generator import Generator
from tinytensor.symbolic.exact.finite_field import BITS, Field, Residue
from tinytensor.symbolic.exact.scalars import ROUNDED, Symbolic, Undecided, reading
from tinytensor.symbolic.exact.tensors import exact, symbols, variables, witnesses
from tinytensor.symbolic.numbers import FAR, STYLES, WITHIN
from tinytensor.symbolic.prove.advice import line, line_named
from tinytensor.symbolic.prove.assumptions import assumptions, comparisons, domain, path_in_words
from tinytensor.symbolic.prove.passes import RESERVED, Pass, Subject, check_result, restored, swap_data
from tinytensor.symbolic.prove.probing import NOT_COMPARED, Probe, ProbeResult, Run, distinct, in_floats, quiet
from tinytensor.symbolic.prove.progress import Progress, TooLong
from tinytensor.symbolic.prove.proof import Proof, join_words
from tinytensor.symbolic.prove.questions import questions_of, watched
from tinytensor.symbolic.prove.sampling import BOUND, Sampled, prove_by_sampling
from tinytensor.symbolic.prove.sampling import variables as variables_of


def prove(
    fn: Callable,
    *inputs,
    size: str = "small",
    seed: int | None = None,
    limit: float | None = 600.0,
    progress: bool | None = None,
    constant: Sequence[str] = (),
) -> Proof | Sampled:
    r"""Prove that the tape's gradients of `fn` are its derivatives: g = \partial y / \partial x, entry by entry.

    `inputs` are the arguments of fn. A shape (tuple) stands for a tensor of symbols of that shape; the gradient of a
    tensor of symbols, or of floats with requires_grad (its values are then the sample point), is proved, too; other
    tensors (indices, masks, constants) and other values are passed on as they are. If `fn` is a Module, its parameters
    are inputs too. If it returns several tensors, in tuples, lists or dicts, each of them is differentiated. Functions
    written for PyTorch or NumPy are taken as they are: prove(torch.softmax, (2, 3), -1); so are PyTorch's modules, and
    `apply` of its autograd.Functions, whose backward is then compared with forward.

        proof = prove(softsign, (2, 3))     # an operation of your own
        print(proof)                        # proved ... at which shapes, under which conditions
        assert proof                        # or a counterexample, and the rule that is wrong

    A tuple is always a shape: settings that are tuples belong inside fn. ValueError if no result depends on an input;
    Undecided if two compared numbers are equal at the sample point (there may be no derivative): choose other
    witnesses. Errors of the function itself are raised, with the line of the function that raised them. The function
    runs several times; its random numbers are the same each time, and named in the assumptions.

    Formulas grow: a product of 16 x 16 matrices takes seconds, one of 40 x 40 a minute, attention over 8 rows of 4 half
    a minute. With size="real" no formula is written down, and all gradients are compared at once at one random point
    modulo a random prime (`sampling.py`): the result is a `Sampled`, which has the probability that a wrong gradient
    passes. `seed` repeats a draw.

    A value that is taken off the tape (`detach()`, `no_grad()`) but has a derivative is held constant. This is no
    proof, unless `constant` names the value as the verdict does: constant=["b of mul"] (not at size="real").

    The verdict's line names what the proof is limited to (`bool` of a Proof has the list). Code that asks exact numbers
    for more than their values (text, hash, bytes, a type, the dtype), catches an error that they raise, or changes what
    it holds is undecided, with its line (`questions.py`).

    A proof of more than ten seconds shows its progress: on a terminal, always with `progress=True`, never with False.
    TooLong if it has taken `limit` seconds.
    """
    if size not in ("small", "real"):
        raise ValueError(f'prove: size = {size!r}; choose "small" (for all values) or "real" (at a random point)')
    fn = late_bound.with_our_parameters(fn)
    _check_inputs(fn, inputs)
    shapes = any(_is_shape(value) for value in inputs)
    outside = {_name(fn): fn} | dict(zip(_names(fn, len(inputs)), inputs, strict=True))
    undecided: Undecided | None = None  # at the first sample point
    for sample in list(WITHIN)[: None if shapes else 1]:  # the next one where the function is undefined
        draws = RandomDraws()
        try:
            with (
                line_named(),
                draws.watch(),
                late_bound.pytorch_follows_us(),
                reading(ROUNDED) as met,
                questions_of(outside) as asked,
            ):
                run = draws.with_fixed_rng(fn)
                _call_on_floats(fn, run, inputs, Floats(sample, seed))
                asked.after_first_call()
                if size == "small":
                    proof = _prove_at_small_size(fn, run, inputs, sample, limit, progress, frozenset(constant))
                else:
                    proof = _prove_at_real_size(fn, run, inputs, sample, limit, progress, seed)
                draws.rewind()
                against = asked.answers() if proof else asked.changes() if proof.on_floats else []
        except Undecided as error:
            undecided = undecided or error
            continue
        read = [f"{value!r} is read as {ROUNDED[value]}, which it rounds" for value in sorted(met)]
        where = [*proof.where, *(line for line in proof.assumptions if line.startswith(NOT_COMPARED))]
        where += [*_fixed_inputs(fn, inputs), *asked.conditions]
        where += ["there is no entry to compare"] * (proof.entries == 0)
        where += ["rounded constants count as exact"] * bool(read)
        where += ["random numbers are those of this run"] * bool(draws.assumptions)
        if against:
            proof = replace(proof, verdict="undecided", on_numbers=against[0])
        return replace(proof, assumptions=(*proof.assumptions, *read, *draws.assumptions), where=tuple(where))
    raise undecided


def assert_gradient(fn: Callable, *inputs, **options) -> Proof | Sampled:
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
        verdict = "wrong" if proof.verdict == "refuted" else "not proved"
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
    """Raise an error unless the function can be called with these, and one of them has a gradient."""
    if not callable(fn) or isinstance(fn, type):
        what = f"the class {fn.__name__}" if isinstance(fn, type) else _describe(fn)
        raise TypeError(
            f"prove: fn is {what}; expected a function, an operation or a Module, and its inputs behind it: "
            "prove(tt.softmax, (2, 3), -1); of a Function give `apply`"
        )
    parameters = None if isinstance(fn, Op) else _parameters(fn)
    if parameters is not None:
        try:
            inspect.Signature(parameters).bind(*inputs)
        except TypeError as error:
            takes = ", ".join(map(str, parameters))
            raise TypeError(
                f"prove: {_name(fn)}({takes}) and {len(inputs)} input{'s' * (len(inputs) != 1)}: {error}; give one for "
                "each argument, a shape as one tuple, (2, 3), for a tensor of symbols; settings belong inside fn: "
                "prove(lambda x: f(x, dim=1), (2, 3))"
            ) from None
    names = _names(fn, len(inputs))
    for name, value in zip(names, inputs, strict=True):
        if _is_shape(value) and any(n < 0 for n in value):
            raise ValueError(f"prove: the shape {tuple(value)} of {name} has a negative size; expected sizes from 0 on")
    if not any(map(_has_gradient, (*inputs, *_module_state(fn).values()))):
        came = ", ".join(f"{name} is {_describe(value)}" for name, value in zip(names, inputs, strict=True))
        raise ValueError(
            f"prove: no input has a gradient: {came or 'there is none'}; expected a shape as one tuple, (2, 3), for a "
            "tensor of symbols, a tensor of floats with requires_grad=True, or a Module with parameters"
        )


def _describe(value) -> str:
    if isinstance(value, Tensor):
        return f"a tensor of {str(value.dtype).partition('.')[2]} without requires_grad"
    return repr(value) if isinstance(value, int | float | str | None) else f"of type {type(value).__name__}"


def _is_shape(value) -> bool:
    return isinstance(value, tuple | list) and all(isinstance(n, int) and not isinstance(n, bool) for n in value)


def _has_gradient(value) -> bool:
    return _is_shape(value) or (isinstance(value, Tensor) and (value.requires_grad or value.dtype is OBJECT))


def _passes(subject: Subject, progress: Progress) -> list[Pass]:
    """One pass for each result."""
    passes: list[Pass] = []
    while not passes or len(passes) < passes[0].forward.n_results:
        passes.append(check_result(subject, len(passes), progress))
    return passes


def _call_on_floats(fn: Callable, run: Callable, inputs: tuple, floats: "Floats") -> None:
    """A first call, which may fill what the function keeps from call to call; its errors are met again."""
    with _subject(fn, run, inputs, floats) as subject, subject.kept(), quiet(), suppress(Exception):
        fn(*in_floats(subject.args.values()))


@contextmanager
def _subject(fn: Callable, run: Callable, inputs: tuple, scalars: "Floats") -> Iterator[Subject]:
    """A function with its inputs, and the parameters of its Module for the time being, as exact scalars."""

    def argument(name: str, value):
        if _is_shape(value):
            return scalars.of_shape(name, tuple(value))
        if not isinstance(value, Tensor) or value.dtype.kind in "iub":
            return value
        if value.dtype is OBJECT:
            return scalars.of_symbols(value)
        return scalars.of_values(name, value.detach().numpy()) if value.requires_grad else scalars.constants(value)

    with _with_parameters(fn, scalars) as parameters:
        args = {name: argument(name, x) for name, x in zip(_names(fn, len(inputs)), inputs, strict=True)}
        leaves = {n: a for n, a in args.items() if isinstance(a, Tensor) and a.requires_grad}
        yield Subject(fn, run, args, leaves | parameters, _module_state(fn))


def _prove_at_small_size(fn, run, inputs: tuple, sample: str, limit, progress, constant: frozenset) -> Proof:
    with _subject(fn, run, inputs, Symbols(sample)) as subject:
        _check_symbols(subject.leaves)
        passes = _passes(subject, Progress(_name(fn), limit, progress))
        proof = _combine(_name(fn), passes, constant)
        if not any(p.findings or p.wrong for p in passes):
            proof = _proof_or_refutation(subject, passes, proof, sample, limit)
    return proof


def _proof_or_refutation(subject: Subject, passes: list[Pass], proof: Proof, sample: str, limit: float | None) -> Proof:
    """The proof, if numbers do not refute it (probing.py)."""
    leaves = subject.leaves
    free = {value.expr for leaf in leaves.values() for value in variables(leaf._data).values()}
    differentiable = len(free) == sum(leaf.numel() for leaf in leaves.values()) and not any(p.constant for p in passes)
    edges = _edges(passes) if proof else None
    probed = Probe(subject).run(_exact_run(passes), edges, sample, differentiable)
    for sentence, point in () if probed.refuted else probed.against:
        with _at_point(leaves, point):
            try:
                there = _combine(proof.name, _passes(subject, Progress(proof.name, limit, False)))
            except TooLong:
                raise
            except Exception:  # numbers are equal there, or a value does not exist
                there = None
        if there is not None and there.verdict == "refuted":
            return replace(there, elsewhere=True)
        if _is_ordinary(point) or (there is not None and there.verdict == "undecided"):
            verdict = "refuted" if there is None else "undecided"
            return replace(proof, verdict=verdict, on_numbers=sentence, point=point)
    return _judged(proof, probed)


def _judged(proof: Proof | Sampled, probed: ProbeResult) -> Proof | Sampled:
    """A proof and its verdict after numbers have tried to refute it."""
    verdict = "refuted" if probed.differs or probed.refuted else "undecided" if probed.unclear else proof.verdict
    said = {"on_floats": probed.differs, "on_numbers": probed.refuted or probed.unclear}
    assumptions = (*proof.assumptions, *[probed.not_run] * bool(probed.not_run))
    return replace(proof, verdict=verdict, assumptions=assumptions, **said)


def _exact_run(passes: list[Pass]) -> Run:
    """The results and the gradients at the sample point, as floats; NaN for the gradient of a number in an input.

    A number that is held constant, or that a sum leaves, has no gradient here, so NaN stands for all of them then.
    """
    gradients, known = {}, not any(p.backward.arbitrary for p in passes)
    for name, leaf in passes[0].forward.leaves.items():
        arrived = [next(a.gradient for a in p.backward.arrivals if a.target is leaf) for p in passes]
        gradients[name] = np.full(leaf.shape, np.nan)
        for index in variables(leaf._data) if known else ():
            gradients[name][index] = sum(Symbolic.of(g[index]).witness for g in arrived if g is not None)
    results = [witnesses(p.forward.result._data) for p in passes]
    return Run(results, [witnesses(p.backward.seed) for p in passes], gradients)


def _is_ordinary(point: dict[str, np.ndarray]) -> bool:
    return all(np.abs(values).max(initial=0) <= FAR for values in point.values())


def _edges(passes: list[Pass]) -> set[float]:
    """The numbers that the code compares with."""
    edges = set()
    for condition in (c for p in passes for c in p.conditions):
        number, terms = condition.difference.expr.as_coeff_Add()
        factor, symbol = terms.as_coeff_Mul()
        if number and symbol.is_Symbol:
            edges.add(abs(float(number / factor)))
    return {edge for edge in edges if 1e-3 <= edge <= 1e4}


def _at_point(leaves: dict[str, Tensor], point: dict[str, np.ndarray]) -> AbstractContextManager[None]:
    """Inside, the symbols of the inputs have these numbers as witnesses."""
    moved = np.frompyfunc(lambda value, witness: Symbolic(value.expr, witness), 2, 1)
    return swap_data({x: np.asarray(moved(x._data, point[name]), object) for name, x in leaves.items()})


def _prove_at_real_size(fn, run, inputs: tuple, sample: str, limit, progress, seed: int | None) -> Sampled:
    bits, clock = BITS, Progress(_name(fn), limit, progress)
    while True:  # a formula may be too large for a prime of so many bits
        result = _prove_in_field(fn, run, inputs, sample, clock, seed, bits)
        if not result.is_too_large:
            return result
        bits += math.ceil(result.error - BOUND) + 8


def _prove_in_field(fn, run, inputs: tuple, sample: str, clock: Progress, seed: int | None, bits: int) -> Sampled:
    with Field(seed, bits) as field, _subject(fn, run, inputs, Residues(field, sample, seed)) as subject:
        clock.begin(0.0)
        result = prove_by_sampling(_name(fn), subject, field, clock)
        if result.verdict == "refuted" or (result.held_constant and not result) or result.is_too_large:
            return result
        gradients = {n: np.resize(result.gradients[n], x.shape) for n, x in subject.leaves.items()}
        exact_run = Run([*result.results], [*map(distinct, result.results)], gradients)
        probed = Probe(subject).run(exact_run, (), sample, differentiable=True, proved=bool(result))
    there = [f"{sentence}, at another point" for sentence, point in probed.against if _is_ordinary(point)]
    if there and not probed.refuted:
        return replace(result, verdict="refuted", on_numbers=there[0])
    return _judged(result, probed)


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

    def with_fixed_rng(self, fn: Callable) -> Callable:
        def run(*args):
            self.rewind()
            with watched():
                return fn(*args)

        run.__wrapped__, run.rewind = fn, self.rewind
        return run

    @contextmanager
    def watch(self) -> Iterator[None]:
        try:
            with observe(on_random=self):
                yield
        finally:
            self.rewind()


def _function_class(fn: Callable) -> type | None:
    """The class of which fn is the `apply`: an autograd.Function."""
    owner = getattr(fn, "__self__", None)
    return owner if isinstance(owner, type) and hasattr(owner, "forward") and fn.__name__ == "apply" else None


def _parameters(fn: Callable) -> list[inspect.Parameter] | None:
    """The parameters of a function; None if it is not written in Python."""
    try:
        return list(inspect.signature(getattr(fn, "forward", fn)).parameters.values())
    except (TypeError, ValueError):
        return None


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
        names = [p.name for p in _parameters(fn) or () if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        names = names[isinstance(fn, type) and names[:1] == ["ctx"] :]  # of a Function
    names = (names + [f"input{i}" for i in range(len(names), n)])[:n]
    known = [*names, *_module_state(fn)]
    return [name if known.count(name) == 1 else f"input{i} {name}" for i, name in enumerate(names)]


class Floats:
    """The inputs as floats, near which comparisons are decided."""

    constants = staticmethod(lambda x: x)

    def __init__(self, sample: str, seed: int | None = None):
        self.sample, self.random = sample, np.random.default_rng(0 if seed is None else seed)

    def of_shape(self, name: str, shape: tuple) -> Tensor:
        return self.of_values(name, np.asarray(STYLES[self.sample](self.random, shape, ())))

    def of_values(self, name: str, values: np.ndarray) -> Tensor:
        return Tensor.of(values, requires_grad=True)

    def of_symbols(self, x: Tensor) -> Tensor:
        return self.of_values("", witnesses(x._data))

    def of_parameter(self, name: str, p: Tensor) -> Tensor:
        return p.detach().clone()


class Symbols(Floats):
    """The inputs at a small size: symbols beside floats, and other floats as the fractions that they are."""

    constants = staticmethod(exact)

    def of_values(self, name: str, values: np.ndarray) -> Tensor:
        return symbols(name, *values.shape, witness=values.astype(object)).requires_grad_()

    def of_symbols(self, x: Tensor) -> Tensor:
        return Tensor.of(x._data.copy(), requires_grad=True)

    def of_parameter(self, name: str, p: Tensor) -> Tensor:
        """Near the parameter's own values, which may be all 0 or all alike."""
        return self.of_values(name, p.detach().numpy() + 0.3 * self.random.normal(size=p.shape))


class Residues(Symbols):
    """The inputs at a real size: variables of a field, near floats; the path of comparisons is no secret."""

    constants = staticmethod(partial(exact, scalar_type=Residue))

    def __init__(self, field: Field, sample: str, seed: int | None):
        super().__init__(sample, seed)
        self.field = field

    def of_values(self, name: str, values: np.ndarray) -> Tensor:
        return variables_of(values.astype(float), self.field)

    def of_symbols(self, x: Tensor) -> Tensor:
        raise TypeError('prove: size="real" takes no tensors of symbols; give a shape, or floats that require grad')


def _check_symbols(leaves: dict[str, Tensor]) -> None:
    seen: dict[sympy.Symbol, str] = {}
    for name, leaf in leaves.items():
        for value in variables(leaf._data).values():
            if not value.expr.is_Symbol:
                raise ValueError(f"prove: the input {name} holds the formula {value}; inputs are symbols or numbers")
            if value.expr != sympy.Symbol(value.expr.name) or RESERVED & {*value.expr.name}:
                raise ValueError(f"prove: the input {name} holds {value}; take symbols() of another name")
            if seen.setdefault(value.expr, name) != name:
                raise ValueError(f"prove: {value} stands in the inputs {seen[value.expr]} and {name}; rename one")


def _module_state(fn: Callable) -> dict[str, Tensor]:
    """The parameters and buffers of a Module."""
    return dict([*fn.named_parameters(), *fn.named_buffers()]) if hasattr(fn, "named_parameters") else {}


@contextmanager
def _with_parameters(fn: Callable, scalars: Floats) -> Iterator[dict[str, Tensor]]:
    """The parameters of a Module, holding variables for the time being; its buffers of floats hold exact constants."""
    held = {name: x for name, x in _module_state(fn).items() if x.dtype.kind == "f"}
    with restored(held.values()):
        for name, x in held.items():
            x.data = scalars.of_parameter(name, x) if x.requires_grad else scalars.constants(x.detach())
            x.grad = None
        yield {name: x for name, x in held.items() if x.requires_grad}


def _combine(name: str, passes: list[Pass], constant: Container[str] = ()) -> Proof:
    """The proof that the passes for the results of a function amount to; constant: what the caller has named so."""

    def of_each(what: Callable[[Pass], Iterable]) -> tuple:
        return tuple(dict.fromkeys(chain.from_iterable(map(what, passes))))

    wrong = {rule: w for p in passes for rule, w in p.wrong.items()}
    examples = [p.counterexample for p in passes if p.counterexample is not None]
    calls, leaves = of_each(lambda p: p.forward.calls), passes[0].forward.leaves
    proof = Proof(
        name=name,
        verdict="",
        size=", ".join(f"{n} {leaf.shape}" for n, leaf in leaves.items()),
        entries=len(passes) * sum(len(variables(leaf._data)) for leaf in leaves.values()),
        steps=sum(a.expected.size for p in passes for a in p.backward.arrivals if isinstance(a.target, Node)),
        operations=tuple(dict.fromkeys(call.op.name for call in calls)),
        fused=tuple(dict.fromkeys(call.op.name for call in calls if call.op.definition is not None)),
        assumptions=of_each(assumptions),
        signs={what: signs for p in passes for what, signs in comparisons(p).signs.items()},
        conditions=of_each(lambda p: p.conditions),
        wrong=tuple(sorted(wrong.values(), key=lambda w: w.through_definition)),  # these may follow from the others
        counterexample=examples[0] if examples else None,
        unexplained=() if wrong else of_each(lambda p: p.findings.values()),
        off_tape=tuple(what for what in of_each(lambda p: p.constant) if what not in constant),
        changed=of_each(lambda p: p.forward.changed),
        where=of_each(lambda p: [*path_in_words(p), *domain(p)]),
    )
    return replace(proof, verdict=_verdict(proof))


def _verdict(proof: Proof) -> str:
    """The verdict of what the passes say."""
    if proof.counterexample is not None or any(w.differs for w in proof.wrong):
        return "refuted"
    unproved = proof.unexplained or proof.wrong or proof.off_tape or proof.changed
    return "undecided" if unproved else "proved"
