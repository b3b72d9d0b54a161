"""The gradients of the engine that ships are derivatives: every rule, every fused operation, the models.

Nothing here is a copy. `tinytensor.symbolic.prove` runs the engine's own operations, rules, kernels (their Python
source) and `backward()` on symbols, and compares every gradient with SymPy's derivative of the forward pass. A wrong
rule makes a claim fail, and the message names the operation and the input.

A proof holds for all values, at the sizes and options of its call (two or three along each dimension), where
comparisons come out as at a sample point: the report lists them. Trusted are SymPy, the chain rule, and Numba's
compiler.

The table CALLS has the symbolic calls of all operations, for the tests as well. The calls of formulas are derived from
their signatures.
"""

import inspect
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial

import numpy as np

import tinytensor as tt
from derivations.claims import NUMBA, SYMPY, Evidence, Refuted, claim
from models import attention, decoder, transformer
from tinytensor import nn
from tinytensor.autograd import grad
from tinytensor.core.kernel import OBJECT
from tinytensor.core.op import OPS, Op
from tinytensor.core.tensor import Tensor
from tinytensor.symbolic import Proof, Symbolic, Undecided, latex, prove, symbols

proof_of = partial(claim, "engine", category="proof at sizes", trusted=(SYMPY, "the chain rule", NUMBA))

# --- The calls to prove

x, y, z = symbols("x", 2, 3), symbols("y", 3), symbols("z", 2, 3)
SHAPES = (("x", (2, 3)), ("z", (2, 3)), ("y", (3,)))
positive = tuple(symbols(name, *shape, positive=True) for name, shape in SHAPES)
small = tuple(symbols(name, *shape, witness=Fraction(1, 2)) for name, shape in SHAPES)
EPS, SCALE, SMOOTHING = (symbols(n, witness=Fraction(w, 10)).item() for n, w in (("e", 1), ("s", 7), ("t", 2)))
CUBE = symbols("x", 2, 3, 2)
DIAGONAL, BESIDE = (symbols(n, 2, witness=w)._data for n, w in (("d", 2), ("o", Fraction(1, 2))))
POSITIVE_DEFINITE = Tensor.of(np.array([[DIAGONAL[0], BESIDE[0]], [BESIDE[1], DIAGONAL[1]]], object))
EXISTS = "no denominator is 0, arguments of logarithms and roots are above 0"
TOKENS = tt.tensor([2, 0, 2, 1])
MASK = tt.tensor([[True, False], [False, False], [True, True]])
OF_EACH_HEAD = tt.tensor([[[[True, True], [True, False]], [[True, False], [True, True]]]])
DEEP = symbols("x", 2, 1, 2)  # with a last dimension that is not the second


def is_formula(op: Op) -> bool:
    """Is the operation a formula of scalars? Its calls then follow from the number of its inputs."""
    return op.kernel is not None and op.forward is None


def formula_calls(op: Op) -> list[tuple]:
    """Calls of a formula over symbols: inputs of the same shape, and a second one that is broadcast.

    If the formula is not defined at numbers of both signs (a logarithm), all are positive; if it is not defined beyond
    1 (an arcsine), all are small.
    """
    inputs = len(op.params) - len(op.defaults)
    for first, alike, broadcast in ((x, z, y), positive, small):
        try:
            op(*(first, alike, broadcast)[:inputs])
        except Undecided:
            continue
        return [(first, alike, broadcast)[:inputs], *([(first, broadcast)] if inputs == 2 else [])]
    raise ValueError(f"{op.name}: no sample point for this formula; write a call into CALLS")


def qkv(C, M, K, Kv, H=1):
    return symbols("q", 1, H, C, K), symbols("k", 1, H, M, K), symbols("v", 1, H, M, Kv)


# op: its calls, as (arguments); tensors of symbols get gradients. Formulas have no line, unless it adds a call
CALLS = {
    **{op.name: formula_calls(op) for op in OPS.values() if is_formula(op) and op.differentiable},
    **{name: [(x, y), (x, Fraction(1, 3))] for name in ("clamp_min", "clamp_max", "remainder")},
    "power": [(positive[0], y), *((x, n) for n in (3, 1, 0))],
    "logit": [(symbols("x", 2, 3, witness=Fraction(w, 8)),) for w in (1, 3, 7)],  # around 1/2, and on both sides
    "elu": [(x,), (x, EPS, SCALE, SMOOTHING)],  # other constants than 1
    "softplus": [(x,), (x, SCALE, 20)],
    "clone": [(x,)],
    "where": [(tt.tensor([[True, False, True], [False, False, True]]), x, z)],
    "cast": [(x, OBJECT)],
    "reshape_view": [(x, (3, 2))],
    "permute": [(CUBE, (2, 0, 1))],
    "expand": [(symbols("x", 2, 1), (3, 2, 2))],
    "slice": [(CUBE, (slice(None), 1, slice(0, 2)))],
    "unslice": [(y, (2, 3), (1,))],
    "diagonal": [(CUBE, 1, 1, 0), (x, 0, 0, 1)],
    "undiagonal": [(symbols("x", 2, 2), (3, 2, 2), -1, 0, 2)],
    "flip": [(x, (0, 1))],
    "cat": [(1, x, z)],
    "stack": [(1, x, z)],
    "spread": [(symbols("x", 2, 2), (2, 3, 2), (1,)), (symbols("x", 2, 1), (2, 3), (1,))],
    "reduce_sum": [(CUBE, (0, 2), False), (CUBE, (1,), True), (CUBE, (), False)],
    "centred": [(CUBE, (0, 2)), (CUBE, (1,))],
    "reduce_mean": [(CUBE, (0, 2), False), (CUBE, (1,), True), (x, (0, 1), False)],
    "reduce_norm": [(CUBE, (0, 2), False, 1), (CUBE, (1,), True, 2), (x, (0, 1), False, 3)],
    "reduce_prod": [(CUBE, (1,), False), (x, (0, 1), False)],
    "reduce_logsumexp": [(CUBE, (1,), False), (x, (1,), True)],
    **{f"reduce_{n}": [(CUBE, (1,), False), (x, (1,), True)] for n in ("max", "min")},
    **{f"reduce_{n}": [(CUBE, (1, 2), False, False), (x, (1,), True, True)] for n in ("amax", "amin")},
    "cumsum": [(CUBE, 1, False), (CUBE, 1, True)],
    "matmul": [(symbols("a", 2, 2, 3), symbols("b", 3, 2)), (symbols("a", 2, 1, 2), symbols("b", 2, 2, 1))],
    "softmax": [(x,), (DEEP,)],
    "log_softmax": [(x,), (DEEP,)],
    "linear": [(x, symbols("w", 2, 3), symbols("b", 2)), (x, z, None)],
    "linear_relu": [
        (x, symbols("w", 2, 3), symbols("b", 2)),
        (*(symbols(n, 1, 1, witness=Fraction(1, 2)) for n in "xw"), None),  # between 0 and 1 before the ReLU
    ],
    "layer_norm": [
        (x, symbols("w", 3), symbols("b", 3), EPS),
        (x, symbols("w", 3), None, EPS),
        (x, None, None, EPS),
        (DEEP, None, None, EPS),
    ],
    "rms_norm": [(x, symbols("w", 3), EPS), (x, None, EPS), (DEEP, None, EPS)],
    "attention": [
        (*qkv(1, 2, 1, 1, H=2), None, SCALE, False),
        (*qkv(2, 2, 2, 1), None, SCALE, True),
        (*qkv(3, 2, 1, 2), MASK, SCALE, False),
        (*qkv(2, 2, 1, 1, H=2), OF_EACH_HEAD, SCALE, False),
    ],
    **{
        f"cross_entropy_{n}": [(symbols("x", 3, 3), tt.tensor([2, -100, 0]), -100, s) for s in (0, SMOOTHING)]
        for n in ("rows", "mean")
    },
    "take": [(symbols("x", 3, 2), TOKENS)],
    "scatter_rows": [(symbols("x", 4, 2), TOKENS, (3, 2))],
    "gather": [(x, tt.tensor([[2, 0], [1, 1]]), 1)],
    "gather_backward": [(symbols("x", 2, 2), tt.tensor([[2, 0], [1, 1]]), (2, 3), 1)],
    "put": [(x, tt.tensor(at), symbols("v", len(at))) for at in ([4, 1], [4, 1, 4])],
    "scatter_extreme": [
        (x, tt.tensor([4, 1, 4]), symbols("v", 3), own, largest) for own in (True, False) for largest in (True, False)
    ],
    "overwrite": [(x, z)],
    "solve": [(symbols("a", 2, 2), symbols("b", 2, 1))],
    "det": [(symbols("a", 2, 2),), (symbols("a", 3, 3),)],
    "cofactors": [(symbols("a", 2, 2),)],
    "slogdet": [(symbols("a", 2, 2),)],
    "cholesky": [(POSITIVE_DEFINITE,)],
    "pinv": [(symbols("a", 2, 1), 0.0, 0.0), (symbols("a", 1, 2), 0.0, 0.0)],
    "dropped": [(CUBE, tt.tensor([7, 3, 2]), 1 << 31, SCALE)],
}


def reason(op: Op) -> str:
    """The reason why an operation has no derivative; empty for one that should have one."""
    if op.dtype == "bool":
        return "the result is a truth value"
    return "truth values and whole numbers only" if op.dtype_kinds and not set(op.dtype_kinds) & set("fO") else ""


NO_DERIVATIVE = {op.name: reason(op) for op in OPS.values() if not op.differentiable and reason(op)} | {
    **dict.fromkeys(("reduce_any", "reduce_all"), "truth values only"),
    "floor_divide": "the result is a whole number, and PyTorch gives it no gradient either",
}

# --- The proofs


def prove_op(name: str, args: tuple, around: Callable = Op.__call__) -> Proof:
    """Prove one call of an operation: the tensors of symbols among its arguments are the inputs.

    `around(op, *args)` calls it, and may do more, so that its rules are tested in the middle of a function.
    """
    op = OPS[name]
    exact = [isinstance(a, Symbolic) or (isinstance(a, Tensor) and a.dtype is OBJECT) for a in args]
    positions = [i for i, is_exact in enumerate(exact) if is_exact]

    rest = [None if n in positions else a for n, a in enumerate(args)]

    def call(*inputs):
        arguments = list(rest)
        for position, value in zip(positions, inputs, strict=True):
            arguments[position] = value
        return around(op, *arguments)

    names = [op.params[i] if i < len(op.params) else f"{op.params[-1]}{i}" for i in positions]
    call.__name__ = name
    call.__signature__ = inspect.Signature([inspect.Parameter(n, inspect.Parameter.POSITIONAL_ONLY) for n in names])
    return prove(call, *(args[i] for i in positions), limit=None)


def accept(proof: Proof) -> Proof:
    """The proof, or a refutation that names the rule."""
    if not proof:
        raise Refuted(repr(proof), rule="; ".join(wrong.rule for wrong in proof.wrong))
    return proof


def unproved() -> set[str]:
    """The operations without a proof and without a reason for that."""
    return set(OPS) - set(CALLS) - set(NO_DERIVATIVE)


FILE_OF = {name: OPS[name].__module__.rpartition(".")[2] for name in CALLS}  # the file of ops/ that declares it
FILES = {
    "elementwise": "arithmetic and functions, element by element",
    "shape": "views, copies, pieces, and joining them",
    "index": "rows and elements by their numbers, with repeated ones",
    "reduce": "sums, products, extremes, log-sum-exp, running sums",
    "products": "the matrix product",
    "softmax": "softmax and its logarithm",
    "fused": "linear, the norms, attention, cross-entropy",
    "order": "dropout, with the numbers that its kernel draws",
    "in_place": "what changes a tensor in place",
    "activations": "leaky ReLU, softplus, ELU",
    "matrices": "solving, determinants, factorizations",
    "pointwise": "the logarithm of a sum of exponentials, and other stable forms",
}


def declare(file: str, what: str) -> None:
    """The claim for one file of operations."""

    @proof_of(
        f"ops/{file}.py: every gradient rule gives the derivative of its own forward ({what})",
        size="the calls of the table CALLS: two or three along each dimension, and the options given there",
        assumptions=("comparisons come out as at the sample point; the text lists them", EXISTS),
    )
    def every_rule():
        lines = []
        for name in (name for name in CALLS if FILE_OF[name] == file):
            for args in CALLS[name]:
                proof = accept(prove_op(name, args))
                lines.append(f"{name}: {proof.size}: {proof.entries} entries")
                lines += [f"    {assumption}" for assumption in proof.assumptions]
        if not lines:
            raise Refuted(f"no operation of ops/{file}.py is in the table")
        return Evidence(text="\n".join(lines))


for file, what in FILES.items():
    declare(file, what)


@claim(
    "engine",
    "no operation ships without one of these proofs, or a reason why it has no derivative",
    category="check",
    size="all operations",
    trusted=(),
)
def complete():
    if unproved():
        raise Refuted(f"these operations have no call in derivations/proofs/engine.py: {', '.join(sorted(unproved()))}")
    gone = (set(CALLS) | set(NO_DERIVATIVE)) - set(OPS)
    if gone:
        raise Refuted(f"the table proves operations that are gone: {', '.join(sorted(gone))}")
    for name in NO_DERIVATIVE:
        if OPS[name].differentiable:
            raise Refuted(f"{name} has a gradient rule: it needs a proof, not a reason")
    homeless = {name for name in CALLS if FILE_OF[name] not in FILES}
    if homeless:
        raise Refuted(f"no claim proves {', '.join(sorted(homeless))}: add the file to FILES")
    reasons = "\n".join(f"{name}: {reason}" for name, reason in NO_DERIVATIVE.items())
    return Evidence(text=f"{len(CALLS)} operations are proved; these have no derivative:\n{reasons}")


def closed_form(name: str, args: tuple) -> str:
    """The value of an operation and the gradient of its first input, from symbols g arriving, as LaTeX."""
    leaf = Tensor.of(args[0]._data.copy(), requires_grad=True)
    y = OPS[name](leaf, *args[1:])
    y.backward(symbols("g", *y.shape))
    return rf"y = {latex(y)}, \quad \partial_x = {latex(leaf.grad)}"


@proof_of(
    "every fused operation equals its definition in simpler ones, and so does its gradient through the definition",
    size="the calls of the table CALLS",
    assumptions=("comparisons come out as at the sample point", EXISTS),
)
def definitions():
    fused = [name for name in CALLS if OPS[name].definition is not None]
    for name in fused:
        for args in CALLS[name]:
            if name not in accept(prove_op(name, args)).fused:
                raise Refuted(f"{name} has a definition, but was not compared with it", rule=name)
    return Evidence(latex=closed_form("softmax", (symbols("x", 2),)), text=f"compared: {', '.join(fused)}")


def gradients_of(name: str, args: tuple) -> Proof:
    """Prove the derivatives of one call's gradients, computed with create_graph.

    The differentiated function takes the call's inputs and the gradient g that arrives.
    """
    op = OPS[name]
    positions = [i for i, a in enumerate(args) if isinstance(a, Tensor) and a.dtype is OBJECT]
    wanted = [n for n, i in enumerate(positions) if op.params[i] not in CONSTANTS]

    def call(*tensors):
        *inputs, g = tensors
        arguments = list(args)
        for position, tensor in zip(positions, inputs, strict=True):
            arguments[position] = tensor
        return grad(op(*arguments), [inputs[n] for n in wanted], g, create_graph=True)

    names = [*(op.params[i] for i in positions), "g"]
    call.__name__ = f"the gradients of {name}"
    call.__signature__ = inspect.Signature([inspect.Parameter(n, inspect.Parameter.POSITIONAL_ONLY) for n in names])
    held = PEAK if name in PEAKED else ()
    return prove(call, *(args[i] for i in positions), symbols("g", *op(*args).shape), constant=held, limit=None)


PEAKED = ("softmax", "log_softmax", "attention", "cross_entropy_rows", "cross_entropy_mean")
PEAK = ("b of sub",)  # the number that their definitions subtract from each row before exp: no value depends on it
CONSTANTS = ("eps", "scale", "label_smoothing")  # symbols in the table, numbers to the operations


@proof_of(
    "second derivatives: the gradients of a fused operation, computed by backward() with create_graph, are "
    "differentiated rightly, by each input and by the gradient that arrives",
    size="the calls of the table CALLS",
    assumptions=(
        "comparisons come out as at the sample point",
        EXISTS,
        "softmax and its relatives do not depend on the number that is subtracted from a whole row before exp",
    ),
)
def second_derivatives():
    lines = []
    for name in (name for name in CALLS if OPS[name].definition is not None):
        for args in CALLS[name]:
            proof = accept(gradients_of(name, args))
            lines.append(f"{name}: {proof.size}: {proof.entries} entries")
    return Evidence(text="\n".join(lines))


# --- The mask


def lower(i: int, m: int) -> bool:
    """Equation (5), corrected: position i may attend to m <= i."""
    return m <= i


def masked_attention(q: Tensor, k: Tensor, v: Tensor, allowed: Callable[[int, int], bool]) -> dict[tuple, Symbolic]:
    """Equations (3) to (6), entry by entry: Y_i over the positions that i may attend to, in exact scalars."""
    q, k, v = (x._data[0, 0] for x in (q, k, v))
    entries = {}
    for i in range(len(q)):
        e = {m: (sum(q[i] * k[m]) * SCALE).exp() for m in range(len(k)) if allowed(i, m)}
        for c in range(v.shape[1]):
            entries[0, 0, i, c] = sum(e[m] * v[m, c] for m in e) / sum(e.values()) if e else Symbolic(0)
    return entries


def prove_mask(shape: tuple[int, int], mask, is_causal: bool, allowed: Callable[[int, int], bool]) -> str:
    """Prove that the engine's attention is that of the positions `allowed`, or raise Refuted."""
    inputs = qkv(*shape, 2, 2)
    y = tt.ops.fused.attention(*inputs, mask, SCALE, is_causal)._data
    for at, expected in masked_attention(*inputs, allowed).items():
        if not Symbolic.of(y[at]).equals(expected):
            raise Refuted(f"attention of {shape}, mask {mask is not None}, causal {is_causal}: entry {at}", "attention")
    return f"{shape[0]} rows, {shape[1]} keys{', a mask' * (mask is not None)}{', causal' * is_causal}"


HOLES = tt.tensor([[True, False, True], [True, True, False], [False, True, True]])


@proof_of(
    "the mask of eqs. (4) and (5): row i of the engine's attention is eq. (6) over m <= i, and with a mask of one's "
    "own over what both allow",
    size="1 to 3 rows and keys, K = 2",
    source="003 eqs. (4), (5), (6); 004 Functions, Training",
)
def mask():
    def both(i, m):
        return bool(HOLES.numpy()[i, m]) and lower(i, m)

    lines = [prove_mask(shape, None, True, lower) for shape in ((1, 1), (2, 2), (3, 3), (2, 3), (3, 2))]
    lines += [prove_mask((3, 3), HOLES, False, lambda i, m: bool(HOLES.numpy()[i, m]))]
    lines += [prove_mask((3, 3), HOLES, True, both), prove_mask((2, 3), None, False, lambda i, m: True)]
    return Evidence(text="\n".join(lines))


def sees(outputs: Tensor, rows: Tensor, at: Sequence[int]) -> np.ndarray:
    """Does output i of (1, C, ...), for i in `at`, change with each of `rows`? By the gradients, which are 0 if not."""
    seen = []
    weights = tt.tensor(np.random.default_rng(1).normal(size=outputs.shape[2:]))
    for i in at:
        (slope,) = grad((outputs[0, i] * weights).sum(), rows, retain_graph=True)
        seen.append((slope.numpy().reshape(rows.shape[-2:]) != 0).any(-1))
    return np.array(seen)


PLACES = 70  # more than a block of attention's kernels has rows or keys
LOOKED_AT = (0, 1, 7, 8, 15, 16, 31, 32, 40, 41, 63, 64, 69)  # some rows at the ends of such blocks
OPTIONS = {
    "as document 003 has it": {},
    "pre-norm, affine norms": {"residual": "pre-norm", "norm": "affine", "final_norm": True},
    "dropout": {"dropout": 0.3},
    "biases, GELU, no positions of its own": {"attention_bias": True, "activation": "gelu"},
    "RMS, normalised once": {"residual": "once", "norm": "rms", "bias": False},
}


def rows_seen(**options) -> np.ndarray:
    """The positions on which these outputs of a decoder of one layer depend: P has a row for each."""
    tt.manual_seed(0)
    model = decoder.Decoder(decoder.Config(D=4, H=2, F=5, L=1, V=6, C=PLACES, **options)).double().train()
    tokens = tt.tensor(np.random.default_rng(0).integers(0, 6, (1, PLACES)))
    return sees(model(tokens)[0], model.P, LOOKED_AT)


@claim(
    "engine",
    "in every layout of the models an output at i depends on position m if and only if m <= i, and on no padding",
    category="check",
    size=f"C={PLACES} ({len(LOOKED_AT)} of them) D=4 H=2 L=1 V=6, {len(OPTIONS)} layouts; 004: 7 words; float64",
    source="003 eqs. (4), (5); 004 Functions, Training",
    trusted=(NUMBA,),
)
def masked_models():
    for name, options in OPTIONS.items():
        seen, expected = rows_seen(**options), np.tri(PLACES, dtype=bool)[list(LOOKED_AT)]
        if "dropout" in options:  # a dropped weight is not seen: later positions must not be seen, and most others are
            if (seen & ~expected).any() or not (seen & expected).sum() > 0.5 * expected.sum():
                raise Refuted(f"{name}: outputs depend on later positions, or on too few")
        elif not np.array_equal(seen, expected):
            raise Refuted(f"{name}: position m is seen from i where it should not be, or is not where it should be")
    tt.manual_seed(0)
    heads = attention.MultiHead(6, 2, 3, 3).double()
    Y, words = (tt.tensor(np.random.default_rng(n).normal(size=(1, 7, 6)), requires_grad=True) for n in range(2))
    counted = np.arange(7) < 5  # the others are padding
    padded, oneself = tt.tensor(counted[None, None, None]), np.eye(7, dtype=bool)  # the position of the query
    for what, outputs, rows, expected in (
        ("the decoder's own words", heads(Y, is_causal=True), Y, np.tri(7, dtype=bool)),
        ("the same, padded", heads(Y, mask=padded, is_causal=True), Y, np.tri(7, dtype=bool) & counted | oneself),
        ("the encoder's words", heads(Y, words, padded), words, np.ones((7, 7), bool) & counted),
    ):
        if not np.array_equal(sees(outputs, rows, range(7)), expected):
            raise Refuted(f"{what}: the wrong positions are attended to")
    return Evidence(text="\n".join(OPTIONS))


# --- The models


class Loss(nn.Module):
    """The second result of a model, its loss, which training differentiates."""

    def __init__(self, model: nn.Module):
        super().__init__()
        self.model = model

    def forward(self, tokens, targets):
        return self.model(tokens, targets)[1]


def prove_model(model: nn.Module, tokens: Tensor, targets: Tensor) -> Proof:
    """Prove every entry of every gradient of the loss, with all parameters as symbols."""
    return accept(prove(Loss(model), tokens, targets, limit=None))


def declare_model(
    name: str, statement: str, source: str, size: str, make: Callable[[], nn.Module], *inputs: Tensor
) -> None:
    def gradients():
        proof = prove_model(make(), *inputs)
        if not proof.signs or not all({"+", "-"} <= set(signs.flat) for signs in proof.signs.values()):
            raise Refuted(f"the sample point has ReLUs of one sign only, so half a rule was not tested: {proof.signs}")
        lines = [f"{proof.entries} entries of {proof.size}", f"{proof.steps} entries of gradients on the way"]
        return Evidence(text="\n".join([*lines, "for all values at which", *(f"    {a}" for a in proof.assumptions)]))

    gradients.__name__ = name  # documents.py finds it by this name
    proof_of(
        statement,
        size=f"{size}, any eps; a token twice, one place padded",
        assumptions=(
            "the signs before the ReLU and the order of logits and scores are those of the sample point",
            "eps is such that no denominator is 0",
        ),
        source=source,
    )(gradients)


# No two sizes are equal, so that no transposition can hide; token 1 stands twice, and the last place is padding.
SIZES = decoder.Config(D=4, H=2, F=5, L=1, V=6, C=3, eps=EPS)
TEXT = tt.tensor([[1, 4, 1]]), tt.tensor([[4, 1, -100]])


def declare_decoder(name: str, statement: str, source: str, config: decoder.Config) -> None:
    size = ", ".join(f"{letter} = {getattr(config, letter)}" for letter in "CDFVHL")
    declare_model(name, statement, source, size, lambda: decoder.Decoder(config), *TEXT)


declare_decoder(
    "one_layer",
    "document 003, one layer: backward() gives the derivative of the loss by every entry of E, P, Q, K, V, W, F, b, G, "
    "c and O",
    "003 eqs. (1)-(17)",
    SIZES,
)
declare_decoder(
    "pre_norm",
    'the same if eq. (9) adds to Z before the norm ("pre-norm")',
    "003 eqs. (1), (9)",
    SIZES.replace(residual="pre-norm"),
)
declare_decoder("two_layers", "the same for two layers", "003 eqs. (1)-(17)", SIZES.replace(L=2, residual="once"))

STACKS = transformer.Config(N=1, d_model=4, h=2, d_k=1, d_v=3, d_ff=5, n_vol=6, n_max=3, bias=True, eps=EPS)
SENTENCES = tt.tensor([[4, 4, transformer.PAD]]), tt.tensor([[4, 3]])

declare_model(
    "translation",
    "documents 000 and 004, one stack of encoder and decoder: backward() gives the derivative of the loss by every "
    "entry of every weight, through both attentions of the decoder",
    "000, 004",
    "N = 1, d_model = 4, h = 2, d_k = 1, d_v = 3, d_ff = 5, n_vol = 6, 3 words to 2",
    lambda: transformer.Transformer(STACKS),
    *SENTENCES,
)
