"""derive: the lines of formulas from papers in plain loops, equation (17) from a user's code, and planted mistakes.

Each shown line is proved by derive itself. The plain loops give the index calculus its meaning: with them, the engine's
backward would notice a program that is not the user's function.
"""

import math

import numpy as np
import pytest
from sympy import Expr, Indexed, S, Sum, Symbol

import tinytensor as tt
from derivations import equations
from derivations.adjoints import Program
from examples.gradients import functions as examples
from examples.gradients.functions import focal
from tests.symbolic.derive import reviewed
from tests.symbolic.derive.derived_functions import FUNCTIONS, arrays
from tests.symbolic.programs import call
from tests.tools.sampling_rate import some
from tinytensor.nn import functional as F
from tinytensor.symbolic import time_limit
from tinytensor.symbolic.derive import adjoints
from tinytensor.symbolic.derive.arguments import Index, size
from tinytensor.symbolic.derive.derivation import Derivation
from tinytensor.symbolic.derive.orders import derive
from tinytensor.symbolic.derive.source import Source
from tinytensor.symbolic.index_calculus.adjoints import d, expanded, name_of
from tinytensor.symbolic.index_calculus.formulas import Array, Size, normal, total
from tinytensor.symbolic.index_calculus.formulas import Index as Bound
from tinytensor.symbolic.index_calculus.notation import text
from tinytensor.symbolic.reading.errors import NotDerivable
from tinytensor.symbolic.time_limit import step


def evaluated(derivation: Derivation, rng) -> tuple[dict, dict, np.ndarray]:
    """The arguments at small odd sizes, the gradients by the derivation's lines, and the gradient of the result."""
    derived, trace = derivation.derived, derivation.derived.trace
    numbers = (3, 1, 5, 1) if len(trace.sizes) > 3 else (3, 5, 3)
    at = dict(zip(trace.sizes, numbers, strict=False))
    inputs = {n: x % 1 + 0.5 if x.dtype.kind == "f" else x for n, x in arrays(derivation, numbers).items()}
    for name, a in trace.tensors.items():
        factors = [int(n.xreplace(at)) for n in a.sizes]
        values = inputs[name].reshape(factors) + (a.below is not None)  # an index counts from 1
        at[trace.arrays[name]] = values if factors else float(values)
    out = name_of(derived.output)
    arriving = np.ones(())
    if isinstance(out, Array):
        arriving = rng.uniform(0.5, 1.5, [int(n.xreplace(at)) for n in out.sizes])
        at[d(out)] = arriving
    known = [*[trace.arrays[n] for n in trace.tensors], d(out)]
    program = Program(constants=known)
    for line in [*derived.forward, *derived.adjoints.values()]:
        program.let(line.left, line.right)
    values = program.run(at)
    gradients = {n: values[d(trace.arrays[n])] for n, a in trace.tensors.items() if a.below is None}
    return inputs, gradients, arriving


PAPERS = ["layer_norm", "rms_norm", "swiglu", "rotary", "causal", "alibi", "focal", "infonce", "dpo", "cosine", "gru"]
PAPERS += ["smoothing", "log_determinant"]


@pytest.mark.one_in(12)
@pytest.mark.parametrize("name", list(some(PAPERS, one_in=2)))
def test_plain_loops_give_the_gradients_of_backward(name):
    fn, arguments = examples.TABLE[name].function, examples.TABLE[name].arguments
    inputs, gradients, arriving = evaluated(derive(fn, **arguments), np.random.default_rng(0))
    tensors = {n: tt.tensor(x, requires_grad=x.dtype.kind == "f") for n, x in inputs.items()}
    result = fn(**tensors)
    result.backward(tt.tensor(arriving.astype(float).reshape(result.shape)))
    for n, gradient in gradients.items():
        gradient = np.array(gradient, dtype=float).reshape(inputs[n].shape)
        np.testing.assert_allclose(gradient, tensors[n].grad.numpy(), 1e-9, 1e-12)


@pytest.mark.parametrize("simple", [0, 1, 2])
def test_a_limit_that_is_reached_while_lines_are_shortened_leaves_a_proof(monkeypatch, simple):
    """A planted simplifier never ends after its first few lines: those are shown, and the others in plain factors."""
    simplifier, seconds, lines = adjoints.simplifier_of, [0], []

    def slow(expr):
        if len(lines) == simple:
            while True:
                seconds[0] += 1
                step()
        lines.append(None)
        return simplifier(*made)(expr)

    made = []
    monkeypatch.setattr(adjoints, "simplifier_of", lambda *args: made.extend(args) or slow)
    monkeypatch.setattr(time_limit.TimeLimit, "clock", lambda self: seconds[0])
    fn, arguments = FUNCTIONS["layer norm"]
    derivation = derive(fn, limit=100, **arguments)
    assert seconds[0] in range(44, 47) and len(lines) == simple  # 0.6 of the time of formulas, which is 3/4 of all
    assert derivation.verdict == "proved for any size"


def test_a_limit_that_is_reached_before_any_proof_leaves_the_raw_adjoints(monkeypatch):
    def never(*args):
        while True:
            seconds[0] += 1
            step()

    seconds = [0]
    monkeypatch.setattr(adjoints, "_proofs", never)
    monkeypatch.setattr(time_limit.TimeLimit, "clock", lambda self: seconds[0])
    derivation = derive(focal, limit=100, z=("N", "K"), t=Index(("N",), "K"))
    raw = derivation.derived.raw
    assert all(x.right == raw[n].right for n, x in derivation.derived.adjoints.items())
    assert derivation.proved
    monkeypatch.setattr(adjoints, "adjoint_of", never)
    assert not derive(focal, limit=100, z=("N", "K"), t=Index(("N",), "K")).proved


def block(X, Q, K, V, W, Fw, b, G, c):
    C = X.shape[0]
    Z = F.layer_norm(X, X.shape[-1:], eps=1e-5)
    ZQ, ZK, ZV = (tt.einsum("ij,hjk->hik", Z, A) for A in (Q, K, V))
    S = ZQ @ ZK.mT / math.sqrt(Q.shape[-1])
    future = tt.ones(C, C, dtype=tt.bool).triu(1)
    σ = S.masked_fill(future, -math.inf).softmax(-1)
    Y = σ @ ZV
    Zhat = Z + tt.einsum("hik,hkj->ij", Y, W)
    Zbar = F.layer_norm(Zhat, Zhat.shape[-1:], eps=1e-5)
    f = Zbar @ Fw + b
    R = f.relu()
    Zp = Zhat + R @ G + c
    return Zp


def head(Zp, O, y):
    logits = Zp @ O
    return F.cross_entropy(logits, y)


BLOCK = {
    "X": ("C", "D"),
    **dict.fromkeys("QKV", ("H", "D", "K")),
    "W": ("H", "K", "D"),
    "Fw": ("D", "F"),
    "b": ("F",),
    "G": ("F", "D"),
    "c": ("D",),
}
HEAD = {"Zp": ("C", "D"), "O": ("D", "V"), "y": Index(("C",), "V")}
EQUATION_17 = {"block": (block, BLOCK), "head": (head, HEAD)}
SIZES = {x: size(str(x)) for x in (equations.C, equations.D, equations.H, equations.nK, equations.nF, equations.nV)}
LABELS = {"F": "Fw", "rhat": "r2", "L": "logits"}  # of equations.py, where the user has other names


def translated(expr: Expr, arrays: dict, indices: dict) -> Expr:
    """A form of equations.py in the names, sizes and indices of a derivation."""
    if isinstance(expr, Bound):
        return indices.setdefault(expr, Bound(expr.name, SIZES[expr.size]))
    if isinstance(expr, Size):
        return SIZES[expr]
    if expr == equations.N:  # all positions count
        return SIZES[equations.C]
    if isinstance(expr, Sum):
        bound = [translated(limit[0], arrays, indices) for limit in expr.limits]
        return total(translated(expr.function, arrays, indices), *bound)
    if isinstance(expr, Indexed):
        of = expr.base.of or expr.base
        if of == equations.w:
            return S.One
        array = arrays[LABELS.get(str(of.label), str(of.label))]
        left = [translated(i, arrays, indices) for i in expr.indices]
        order = []  # the user's arrays may have their dimensions in another order
        for n in array.sizes:
            at = next(k for k, i in enumerate(left) if (i.size if isinstance(i, Bound) else i.base.values) == n)
            order.append(left.pop(at))
        return (d(array) if expr.base.of else array)[tuple(order)]
    return expr.func(*[translated(a, arrays, indices) for a in expr.args]) if expr.args else expr


@pytest.mark.slow
@pytest.mark.parametrize("part", ["block", "head"])
def test_equation_17_follows_from_a_users_code(part):
    closed = equations.block_closed() if part == "block" else equations.head_closed()
    derivation = call(*EQUATION_17[part])()
    assert derivation.proved
    derived = derivation.derived
    names = [*derived.trace.arrays.values(), *[line.name for line in derived.forward]]
    arrays = {str(getattr(x, "label", x)): x for x in names}
    program = Program(constants=[*derived.trace.arrays.values()])
    for line in derived.forward:
        program.let(line.left, line.right)
    inner = {line.name for group in derived.groups if group.closed for line in group.lines}
    forms = []
    for entry, line in closed.items():
        indices = {}
        forms.append((translated(entry, arrays, indices), translated(line.form, arrays, indices)))
    stated = {left.base for left, _ in forms}
    lines = derived.raw | derived.adjoints  # those that are shown are proved equal to the others
    hidden = [line for name, line in lines.items() if name not in stated]
    for left, form in forms:
        difference = expanded(lines[left.base].at(left), hidden) - form
        assert any(normal(program.expand(difference, through)) == 0 for through in ((), inner)), text(left)
    assert normal(difference + form / 2) != 0  # half of the last form is not the gradient


@pytest.mark.slow
def test_parameters_of_a_module_are_arguments():
    derivation = derive(reviewed.Net(), x=("N", "D=16"))
    assert "each 16 of the module is D" in derivation.assumptions
    assert "the module's sizes 32 are these numbers" in derivation.assumptions
    assert all(name_of(x.left) != Symbol("D") for x in derivation.lines)


@pytest.mark.parametrize("fn", [lambda x: x.roll(2), lambda x: x.roll(-2), lambda x: x[-2:], lambda x: x[:2]])
def test_a_size_that_is_large_enough_is_named(fn):
    with pytest.raises(NotDerivable, match=r'an index of 1..N belongs.*write the size as "N \+ 1", or'):
        derive(fn, x=("N",))
    assert derive(fn, x=("N + 1",))


def test_program_is_compared_with_numbers(monkeypatch):
    right = derive(lambda x: x * x, x=("N",))
    assert right.proved
    written = Source.text
    monkeypatch.setattr(Source, "text", lambda source: written(source).replace("**2", "**3"))
    assert "the value does not match these formulas" in derive(lambda x: x * x, x=("N",)).verdict
