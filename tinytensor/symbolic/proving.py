r"""`prove(fn, *inputs)`: the gradients that the tape gives are the derivatives of what the forward pass computed.

The function runs through the same operations, rules and kernels as ever, on exact scalars instead of floats, and so
does `backward()`. What it must give is worked out beside it, by the chain rule and SymPy's `diff` alone, one operation
at a time (`passes.py` says how): the loss of one small layer, as one expression, would keep SymPy busy without end.

By induction from the result down, every gradient is the derivative of the whole function: a proof, at the sizes
given and where comparisons (the sign at a ReLU, the place of a maximum) come out as at the sample point that the
witnesses are. What was taken off the tape (`detach`) is held constant, and named. Trusted are the chain rule, SymPy's
`diff` and arithmetic, and CPython; that the forward computes what it should is for its definition to say, with which
every fused operation is compared as well.
"""

import inspect
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import sympy

from tinytensor.door import OBJECT
from tinytensor.form import Op
from tinytensor.symbolic.assumptions import assumptions, comparisons
from tinytensor.symbolic.field import Field, Residue
from tinytensor.symbolic.normal import ROUNDED
from tinytensor.symbolic.passes import Pass
from tinytensor.symbolic.proof import Proof
from tinytensor.symbolic.sampling import Sampled, sampled
from tinytensor.symbolic.sampling import variables as variables_of
from tinytensor.symbolic.scalars import reading
from tinytensor.symbolic.tensors import exact, symbols, variables
from tinytensor.tensors import Tensor

PACKAGE = Path(__file__).parents[1]


def prove(fn: Callable, *inputs, size: str = "small", seed: int | None = None) -> Proof | Sampled:
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

    Formulas grow: a product of 16 x 16 matrices takes half a minute. With size="real" no formula is written down, and
    all gradients are compared at once at one random point modulo a random prime (`sampling.py`): what comes is a
    `Sampled`, which says how improbable it is that a wrong gradient was found right. `seed` repeats a draw.
    """
    if size not in ("small", "real"):
        raise ValueError(f'prove: size = {size!r}; choose "small" (for all values) or "real" (at a random point)')
    if size == "real":
        return _prove_at_real_size(fn, inputs, seed)
    start = time.perf_counter()
    names = {id(p): name for name, p in fn.named_parameters()} if hasattr(fn, "named_parameters") else {}
    with _with_parameters(fn, lambda p: symbols(names[id(p)], *p.shape), exact) as parameters:
        names = _names(fn, len(inputs))
        args = [_argument(name, value) for name, value in zip(names, inputs, strict=True)]
        leaves = {n: a for n, a in zip(names, args, strict=True) if isinstance(a, Tensor) and a.requires_grad}
        leaves |= parameters
        _check_symbols(leaves)
        passes = [Pass(fn, args, leaves, 0)]
        while len(passes) < passes[0].results:
            passes.append(Pass(fn, args, leaves, len(passes)))
    return _together(_name(fn), passes, time.perf_counter() - start)


def _prove_at_real_size(fn: Callable, inputs: tuple, seed: int | None) -> Sampled:
    floats = np.random.default_rng(0 if seed is None else seed)  # which way the program goes is no secret

    def drawn(given: Tensor | tuple) -> Tensor:
        if isinstance(given, tuple | list):
            return variables_of(floats.normal(size=tuple(given)), scalars)
        return variables_of(given.detach().numpy().astype(float), scalars)

    def argument(value):
        if isinstance(value, tuple | list) and all(isinstance(n, int) for n in value):
            return drawn(value)
        if not isinstance(value, Tensor) or value.dtype.kind in "iub":
            return value
        if value.dtype is OBJECT:
            raise TypeError('prove: size="real" takes no tensors of symbols; give a shape, or floats that require grad')
        return drawn(value) if value.requires_grad else _constants(value)

    def parameter(p: Tensor) -> Tensor:
        """Near the parameter's own values, which may be all 0 or all alike."""
        values = p.detach().numpy().astype(float)
        return variables_of(values + 0.3 * floats.normal(size=p.shape), scalars)

    with (
        _line_named(),
        Field(seed) as scalars,
        reading(ROUNDED),
        _with_parameters(fn, parameter, _constants) as parameters,
    ):
        names = _names(fn, len(inputs))
        args = [argument(value) for value in inputs]
        leaves = {n: a for n, a in zip(names, args, strict=True) if isinstance(a, Tensor) and a.requires_grad}
        leaves |= parameters
        if not leaves:
            raise ValueError("prove: no input has a gradient; give shapes, floats that require grad, or a Module")
        return sampled(_name(fn), fn, args, leaves, scalars)


@contextmanager
def _line_named() -> Iterator[None]:
    """An exception says in which line of the user's own code it came up, and what may help."""
    try:
        yield
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        own = [f for f in frames if not Path(f.filename).is_relative_to(PACKAGE)]
        if own:
            error.add_note(f"prove: in {own[-1].filename}, line {own[-1].lineno}: {own[-1].line}")
        if "object" in str(error):
            error.add_note(
                "prove: inputs and parameters are exact scalars now (dtype object), which floats made inside of the "
                "function do not meet in every operation: give such tensors as inputs"
            )
        raise


def _constants(x: Tensor) -> Tensor:
    """A tensor of floats as the fractions that they are."""
    return Tensor.of(np.asarray(np.frompyfunc(Residue, 1, 1)(x._data), object))


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
    if not isinstance(value, Tensor) or value.dtype.kind in "iub":
        return value
    if value.dtype is OBJECT:
        return Tensor.of(value._data.copy(), requires_grad=True)
    if value.requires_grad:
        return symbols(name, *value.shape, witness=value.detach().numpy().astype(object)).requires_grad_()
    return exact(value)


def _check_symbols(leaves: dict[str, Tensor]) -> None:
    if not leaves:
        raise ValueError("prove: no input has a gradient; give shapes, tensors of symbols, or a Module with parameters")
    seen: dict[sympy.Symbol, str] = {}
    for name, leaf in leaves.items():
        for value in variables(leaf._data).values():
            if not value.expr.is_Symbol:
                raise ValueError(f"prove: the input {name} holds the formula {value}; inputs are symbols or numbers")
            if seen.setdefault(value.expr, name) != name:
                raise ValueError(f"prove: {value} stands in the inputs {seen[value.expr]} and {name}; rename one")


@contextmanager
def _with_parameters(fn: Callable, variables: Callable, constants: Callable) -> Iterator[dict[str, Tensor]]:
    """The parameters of a Module, holding variables for the time being."""
    parameters = dict(fn.named_parameters()) if hasattr(fn, "named_parameters") else {}
    before = {name: (p.data, p.grad) for name, p in parameters.items()}
    try:
        for p in parameters.values():
            p.data = variables(p) if p.requires_grad else constants(p.detach())
            p.grad = None
        yield {name: p for name, p in parameters.items() if p.requires_grad}
    finally:
        for name, p in parameters.items():
            p.data, p.grad = before[name]


def _together(name: str, passes: list[Pass], seconds: float) -> Proof:
    """What the passes for the results of a function found."""
    wrong = {rule: w for p in passes for rule, w in p.wrong.items()}
    example = next((p.counterexample for p in passes if p.counterexample is not None), None)
    astray = any(p.suspects for p in passes) and not wrong
    hooked = _once(value for p in passes for value in p.hooked)
    verdict = "undecided" if astray or wrong or hooked else "proved"
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
        signs={what: signs for p in passes for what, signs in comparisons(p).signs.items()},
        conditions=_once(c for p in passes for c in p.conditions),
        wrong=tuple(sorted(wrong.values(), key=lambda w: w.second_road)),  # which may come from the others
        counterexample=example,
        tape_is_wrong=astray,
        hooked=hooked,
        seconds=seconds,
    )


def _once(values: Iterable) -> tuple:
    return tuple(dict.fromkeys(values))
