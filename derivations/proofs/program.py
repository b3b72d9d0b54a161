"""The derivation of eq. (17) runs: equations and derived adjoints are written as NumPy, executed, and compared.

`source()` is a Python module as a string, made from the programs of `derive`: each definition becomes one line, with
its equation and shape behind it. A block is written once, forward and backward; the function
`gradients` at the end of the module calls it for each layer, as the induction over the layers says. Only these calls
were written for NumPy by hand.

The claim: its loss and gradients are those of the engine (models.decoder.Decoder: its own forward, tape and kernels)
in float64. Both round, each in its own order, so the two are compared with a bound. A sum of n terms is off by n units
of 2^-53 of its largest terms at most; the longest here has V = 300 terms, and about thirty lines follow one another:
300 x 30 x 2^-53 = 1e-12, relative to the largest entry of each gradient. The measured differences are far smaller.

The exponentials are those of (6) and (12), without subtracting their row's maximum: scores above 700 overflow.

To see it refute something: `difference(sizes, text=...)` compares another program text, such as `source` of a
Derivation in which `Program.replaced` has planted a mistake.
"""

import itertools
import random
from functools import partial

import numpy as np

import tinytensor
from derivations import equations
from derivations.adjoints import Program, line
from derivations.claims import INDEX, NUMBA, SYMPY, Evidence, Refuted, claim
from derivations.proofs.eq17 import Derivation, derivation
from models.decoder import Config, Decoder
from tinytensor.symbolic.index_calculus.adjoints import Definition, d, names_in
from tinytensor.symbolic.index_calculus.formulas import Array
from tinytensor.symbolic.index_calculus.numpy_printer import HELPERS, label

TOLERANCE = 1e-12

# ---- the program ----------------------------------------------------------------------------------------------------

HEADER = (
    '''"""Loss and gradients of document 003's equations (1) to (16), derived. Heads stand in the first axis."""

import numpy as np


'''
    + HELPERS["theta"]
    + "\n"
)

FOOTER = '''

def gradients(*, E, P, layers, O, t, y, w, N, M, epsilon, size):
    """(loss, the logits, gradients of E, P, O and the logits L, list of those of each layer's weights)."""
    start = embedding(E=E, P=P, t=t, epsilon=epsilon, size=size)
    kept, X = [], start["X"]
    for weights in layers:
        kept.append(block(X=X, M=M, epsilon=epsilon, size=size, **weights))
        X = kept[-1]["Zp"]
    end = head(Zp=X, O=O, y=y, w=w, N=N, size=size)
    found = head_backward(**end)
    dX, blocks = found.pop("Zp"), []  # the adjoint of X in layer L + 1
    for cached in reversed(kept):
        blocks.insert(0, block_backward(dZp=dX, **cached))  # from layer l + 1 to layer l
        dX = blocks[0].pop("X")
    return end["loss"], end["L"], found | embedding_backward(dX=dX, **start), blocks
'''


def source(derived: Derivation | None = None) -> str:
    """The derived program as Python text; the default derivation is that of eq17."""
    derived = derived or derivation()
    parts = (
        functions("embedding", derived.embedding, [equations.E, equations.P]),
        functions("block", derived.block, [*derived.block.parameters]),
        functions("head", derived.head, [equations.logits, equations.O, equations.Zp]),
    )
    return HEADER + "".join(parts) + FOOTER


def functions(name: str, program: Program, wanted: list[Array]) -> str:
    """Two functions: the forward lines of a program, and its adjoints with the interim results that they need."""
    forward = [one for one in program.lines if not one.is_adjoint]
    backward = [one for one in program.lines if one.is_adjoint]
    constants = [x for x in program.constants if not (isinstance(x, Array) and x.of)]  # an adjoint comes from outside
    parameters = ", ".join([*map(label, program.parameters), *map(label, constants), "size"])
    made = {label(one.name) for one in backward}
    needed = ", ".join([*sorted({label(x) for one in backward for x in names_in(one.right)} - made), "size"])
    results = ", ".join(f"{label(x)}={label(d(x))}" for x in wanted)
    return (
        f"\n\ndef {name}(*, {parameters}):\n{_body(forward)}    return locals()  # the interim results are kept\n"
        f"\n\ndef {name}_backward(*, {needed}, **_):\n{_body(backward)}    return dict({results})\n"
    )


def _body(definitions: list[Definition]) -> str:
    """Lines with, behind them, the equation and the shape."""
    lines = []
    for one in definitions:
        shape = tuple(map(str, one.name.sizes)) if isinstance(one.name, Array) else ()
        note = (one.source and f"{one.source}: ") + str(shape).replace("'", "")
        lines.append(f"    {line(one)}  # {note}\n")
    return "".join(lines)


# ---- against the engine ---------------------------------------------------------------------------------------------


def example(sizes: dict[str, int], seed: int, residual: str = "literal") -> tuple[Decoder, np.ndarray, np.ndarray]:
    """A decoder in float64 with random weights, tokens that repeat, and targets with padding (-100)."""
    rng = np.random.default_rng(seed)
    tinytensor.manual_seed(seed)
    model = Decoder(Config(residual=residual, **sizes)).double()
    with tinytensor.no_grad():
        for weight in (weight for block in model.blocks for weight in (block.b, block.c)):
            weight.copy_(tinytensor.tensor(rng.normal(size=weight.shape)))  # they begin at 0
    tokens, targets = rng.integers(0, sizes["V"], (2, sizes["C"]))
    tokens[-1] = tokens[0]
    targets[rng.random(sizes["C"]) < 0.2] = -100
    targets[0], targets[1] = -100, 0
    return model, tokens, targets


def engine(model: Decoder, tokens: np.ndarray, targets: np.ndarray) -> dict[str, np.ndarray]:
    """The logits, the loss and all gradients as the engine computes them.

    The logits are compared, too: the loss and the gradients do not change if a constant is added to them.
    """
    logits, loss = model(tinytensor.tensor(tokens[None]), tinytensor.tensor(targets[None]))
    logits.retain_grad()
    loss.backward()
    gradients = {name: weight.grad.numpy() for name, weight in model.named_parameters()}
    values = {"loss": loss.detach().numpy(), "logits": logits.detach().numpy()[0]}
    return gradients | values | {"L": logits.grad.numpy()[0]}


def derived(model: Decoder, tokens: np.ndarray, targets: np.ndarray, text: str) -> dict[str, np.ndarray]:
    """The same, as the derived program computes them."""
    space: dict = {}
    exec(compile(text, "<the derived program>", "exec"), space)
    sizes = Config(**model.config.to_dict())
    H, K, C, D = sizes.H, sizes.K, sizes.C, sizes.D
    layers = [{name: weight.detach().numpy() for name, weight in block.named_parameters()} for block in model.blocks]
    for weights in layers:
        weights["W"] = weights["W"].reshape(H, K, D)  # row (h - 1) K + k: head h, component k
    counted = targets != -100
    loss, values, results, blocks = space["gradients"](
        **{name: getattr(model, name).detach().numpy() for name in "EPO"},
        layers=layers,
        t=tokens,
        y=np.where(counted, targets, 0),  # the value at padding does not matter
        w=1.0 * counted,
        N=counted.sum(),
        M=np.tril(np.ones((C, C))),
        epsilon=sizes.eps,
        size=sizes,
    )
    for index, gradients in enumerate(blocks):
        gradients["W"] = gradients["W"].reshape(H * K, D)
        results |= {f"blocks.{index}.{name}": gradient for name, gradient in gradients.items()}
    return results | {"loss": np.asarray(loss), "logits": values}


def difference(sizes: dict[str, int], seed: int = 0, residual: str = "literal", text: str | None = None) -> float:
    """The largest difference of logits, loss or a gradient from the engine's, relative to the tensor's largest entry.

    Refuted if it is above TOLERANCE, or if a gradient is missing, or 0 everywhere in both (the comparison would say
    nothing).
    """
    case = example(sizes, seed, residual)
    theirs, ours = engine(*case), derived(*case, text or source(derivation(residual)))
    if theirs.keys() != ours.keys():
        raise Refuted(f"the engine and the derivation give different names: {sorted(theirs.keys() ^ ours.keys())}")
    worst = 0.0
    for name, one in theirs.items():
        scale, other = np.abs(one).max(), ours[name]
        if one.shape != other.shape or scale == 0:
            raise Refuted(f"{name}: shape {one.shape} against {other.shape}, largest entry {scale}")
        relative = np.abs(one - other).max() / scale
        if not relative <= TOLERANCE:
            raise Refuted(f"{name}: the derived program and the engine differ by {relative:.1e} of the largest entry")
        worst = max(worst, float(relative))
    return worst


# ---- the claims -----------------------------------------------------------------------------------------------------

REAL = {"C": 96, "D": 32, "F": 64, "V": 300, "H": 4, "L": 2}  # document 003's example


def random_sizes(seed: int) -> dict[str, int]:
    """Sizes at which a transposition or a swapped axis is noticed: K, H, C, F and V differ from one another."""
    rng = random.Random(seed)
    H, K, C, F, V = rng.sample(range(2, 12), 5)
    return {"C": C + 2, "D": H * K, "F": F + 12, "V": V + 24, "H": H, "L": 1 + seed % 4}


check = partial(
    claim,
    "program",
    category="check",
    assumptions=("float64; largest difference below 1e-12 of the largest entry of each gradient",),
    source="003 eqs. (1)-(17)",
    trusted=(SYMPY, INDEX, NUMBA, "NumPy"),
)


@check(
    "the derivation runs: written out as NumPy, it has the engine's logits, loss and gradients at the size of document "
    "003",
    size=", ".join(f"{name}={size}" for name, size in REAL.items()),
)
def real_size():
    worst = difference(REAL)
    return Evidence(text=f"largest relative difference: {worst:.1e}\n\n{source()}")


@check(
    "and at five random sizes, in each of the three readings of the residual",
    size="; ".join(", ".join(f"{name}={size}" for name, size in random_sizes(seed).items()) for seed in range(5)),
)
def random_tuples():
    lines = []
    for seed, residual in itertools.product(range(5), equations.RESIDUALS):
        sizes = random_sizes(seed)
        lines.append(f"{sizes}, {residual}: {difference(sizes, seed, residual):.1e}")
    return Evidence(text="\n".join(lines))
