r"""The distance of the shipped steps in float32 and float64 from the true loss and the true gradients.

"True" values are those of the same weights as real numbers, without rounding. They have no finite notation, but they
can be enclosed: the engine's own forward pass, tape and rules run over balls (`balls.py`), at the size of training, and
each number of the result is known to forty digits. The results of the compiled kernels from the same weights are
compared with that.

Errors are measured against the largest entry of each tensor: in its units in the last place (ulp: the distance of that
entry, as a float, to the next larger one), and relative to it. A sum's error grows with its terms, not with its value;
so a small entry beside large ones is right to as many places after the point, not to as many digits.

The claims establish LIMITS, from which tests that compare whole models take their tolerances: for the decoder of
document 003, and for the encoder-decoder of 000 and 004. Both limits follow from the sizes. Each addition rounds, by up
to half a unit, up or down; n independent roundings add up to some sqrt(n) of these, for any order of the sums, which
differs with the width of a processor's registers. So the limit is twice the root of the number of additions on the
longest way from a weight to the loss and back (`additions`). This is a model of rounding, not a theorem: a gradient
that is the difference of much larger numbers is further off, and the factor 2 has room for that.
Measured on three widths of two processors: at most 12 for the decoder and 35 for the encoder-decoder.
"""

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial

import numpy as np
import sympy

import tinytensor as tt
from derivations.claims import NUMBA, Evidence, Refuted, claim, holds
from derivations.proofs.program import REAL, example
from derivations.proofs.real_size import sentences
from models.decoder import Decoder
from models.transformer import Config as Stacks
from models.transformer import Transformer, positional_encoding
from tinytensor.core.tensor import Tensor
from tinytensor.symbolic.exact.scalars import reading

RADIUS = 1e-40  # of each enclosure, relative to the largest entry of its tensor
STEP = 2.0**-60  # of the difference quotient: its error is of the size of the square of this
AGREEMENT = 1e-25  # of the difference quotient and the gradient, relative
SEED = 0
LONGEST = 34  # the letters of a tensor's name


STACKS = Stacks(N=2, d_model=32, h=4, d_ff=64, n_vol=120, n_max=20, reduction="mean")


def attention(width: int, head: int, positions: int) -> int:
    """The additions of one attention: products to queries and scores, a softmax, the sum of values, the product W."""
    return width + head + positions + positions + width


def additions(layers: int, width: int, head: int, inner: int, positions: int, words: int, attentions: int = 1) -> int:
    """The additions on the longest way through a model, forward and back.

    Each layer has its attentions, two products of the feed-forward part, and after each of these parts a norm, which
    sums for the mean and for the variance. At the end are the product to the logits, their softmax, and the mean over
    positions. The way back goes through the transposed products, with as many additions again.
    """
    norms = 2 * width * (attentions + 1)
    layer = attentions * attention(width, head, positions) + width + inner + norms
    return 2 * (layers * layer + width + words + positions)


def limit(additions: int) -> int:
    """The units in the last place by which so many roundings may change a tensor's largest entry."""
    return math.ceil(2 * math.sqrt(additions))


# units in the last place of the largest entry of each tensor, by document
_DECODER = limit(additions(REAL["L"], REAL["D"], REAL["D"] // REAL["H"], REAL["F"], REAL["C"], REAL["V"]))
_STACKS = limit(
    additions(STACKS.N, STACKS.d_model, STACKS.d_model // STACKS.h, STACKS.d_ff, STACKS.n_max, STACKS.n_vol)
    + additions(STACKS.N, STACKS.d_model, STACKS.d_model // STACKS.h, STACKS.d_ff, STACKS.n_max, STACKS.n_vol, 2)
)
LIMITS = {"003": dict.fromkeys(("float32", "float64"), _DECODER), "004": dict.fromkeys(("float32", "float64"), _STACKS)}


def tolerance(dtype: str, document: str = "003") -> float:
    """How far two computations of one loss or gradient may be from one another, relative to the largest entry.

    Each is within the limit, in units in the last place, of the truth, and such a unit is at most eps times that entry.
    """
    return 2 * LIMITS[document][dtype] * float(np.finfo(dtype).eps)


# --- The steps


@dataclass(frozen=True, eq=False)
class Case:
    """A model whose weights are float32 numbers, and its inputs: tokens and targets, words and an answer."""

    model: Decoder | Transformer
    tokens: Tensor
    targets: Tensor

    def step(self, model: Decoder | Transformer, replayed: bool = False) -> dict[str, np.ndarray]:
        """The loss, the logits and all gradients of one step, in the dtype of the model's weights."""

        def backward():
            model.zero_grad()
            logits, loss = model(self.tokens, self.targets)
            loss.backward()
            return logits.detach(), loss.detach()

        if replayed:
            backward = tt.compile(backward, fullgraph=True)
            backward()  # records; the next call is a replay
        logits, loss = backward()
        values = {"loss": loss.numpy(), "logits": logits.numpy()}
        return values | {name: p.grad.numpy() for name, p in model.named_parameters()}


@cache
def case(seed: int = SEED, **sizes: int) -> Case:
    """The model of the part `program`, with repeated tokens and padding, its weights rounded to float32."""
    model, tokens, targets = example(sizes or REAL, seed)
    return Case(model.float(), tt.tensor(tokens[None]), tt.tensor(targets[None]))


@cache
def case_of_stacks(config: Stacks = STACKS, seed: int = SEED) -> Case:
    """An encoder-decoder as training begins, with biases near 0 and gammas near 1; repeated words and padding."""
    tt.manual_seed(seed)
    model = Transformer(config)
    with tt.no_grad():
        for name, p in model.named_parameters():
            if p.ndim == 1:
                p.copy_(tt.randn(*p.shape) * 0.1 + float(name.endswith("norm.weight")))
    return Case(model, *sentences(config))


# --- The true values


def over_balls(case: Case, shift: dict[str, np.ndarray] | None = None, factor: float = 0.0) -> Decoder | Transformer:
    """The same model with balls of radius 0 for weights, each moved by `factor` times its entry of `shift`."""
    from derivations.exact.balls import balls

    model = copy.deepcopy(case.model)
    if isinstance(model, Transformer):
        model._positions = balls(positional_encoding(model.config.n_max, model.config.d_model))
    for name, p in model.named_parameters():
        values = balls(p.detach().numpy())
        p.data = Tensor.of(values if shift is None else values + balls(factor * shift[name]))
    return model


def meanings(model: Decoder | Transformer) -> dict[float, sympy.Expr]:
    """The exact numbers that the floats among the constants of the model round."""
    config = model.config
    width, constants = config.head_widths()[0] if isinstance(model, Transformer) else config.K, {}
    if isinstance(model, Transformer):
        constants[math.sqrt(config.d_model)] = sympy.sqrt(config.d_model)
    return constants | {config.eps: sympy.Rational(str(config.eps)), 1 / math.sqrt(width): 1 / sympy.sqrt(width)}


@cache
def enclosed(case: Case) -> dict[str, np.ndarray]:
    """The loss, the logits and all gradients as balls, computed by the engine."""
    from derivations.exact.balls import enclosing

    model = over_balls(case)
    with reading(meanings(model)), enclosing() as constants:
        gradients = case.step(model)
    if constants:
        raise Refuted(f"rounded constants came into an exact computation: {sorted(constants)}; give their exact values")
    return gradients


def slopes(case: Case) -> tuple:
    """(L(w + h v) - L(w - h v)) / 2h and <gradient, v> for a random direction v, as balls."""
    from derivations.exact.balls import Ball, balls, enclosing

    rng, gradients = np.random.default_rng(SEED), enclosed(case)
    direction = {name: rng.uniform(-1, 1, p.shape) for name, p in case.model.named_parameters()}
    with reading(meanings(case.model)), enclosing(), tt.no_grad():
        ends = [over_balls(case, direction, h)(case.tokens, case.targets)[1].numpy()[()] for h in (STEP, -STEP)]
        slope = Ball(0)
        for name, v in direction.items():
            slope = sum((g * w for g, w in zip(gradients[name].flat, balls(v).flat, strict=True)), slope)
        return (ends[0] - ends[1]) / (2 * STEP), slope


@dataclass(frozen=True)
class Truth:
    """The balls of one tensor: bounds of its largest entry, and of their radii."""

    balls: np.ndarray

    @property
    def largest(self) -> float:
        """A float below the largest absolute value, by one rounding at most."""
        return max(float(b.arb.abs_lower()) for b in self.balls.flat) * (1 - 2**-50)

    @property
    def radius(self) -> float:
        return max(b.radius for b in self.balls.flat)

    def distance(self, values: np.ndarray) -> float:
        """A bound of the values' distance from the true ones: the largest distance from any point of a ball."""
        from derivations.exact.balls import balls

        apart = (abs(float((b - v).arb.abs_upper())) for b, v in zip(self.balls.flat, balls(values).flat, strict=True))
        return max(apart) * (1 + 2**-50)  # the conversion to a float may have rounded down


@dataclass(frozen=True)
class Error:
    """A bound of a tensor's distance from the truth, in a shipped step."""

    name: str
    largest: float  # entry of the true tensor
    distance: float
    ulp: float  # the distance in units in the last place of the largest entry

    @property
    def relative(self) -> float:
        return self.distance / self.largest


def errors(case: Case, gradients: dict[str, np.ndarray]) -> list[Error]:
    """The error of each tensor of a step."""
    rows = []
    for name, balls in enclosed(case).items():
        truth, values = Truth(balls), gradients[name]
        distance, unit = truth.distance(values), float(np.spacing(values.dtype.type(truth.largest)))
        rows.append(Error(name, truth.largest, distance, distance / unit))
    return rows


def table(rows: list[Error]) -> str:
    lines = [f"{'':<{LONGEST}} {'largest entry':>14} {'error at most':>14} {'relative':>10} {'ulp':>7}"]
    lines += [
        f"{r.name:<{LONGEST}} {r.largest:>14.6e} {r.distance:>14.1e} {r.relative:>10.1e} {r.ulp:>7.2f}" for r in rows
    ]
    return "\n".join(lines)


# --- The claims

RULES = "the rules of the engine are derivatives: the part engine proves it, and the difference quotient here checks it"
READ = (
    "matrix products and attention are computed by their definitions, attention's gradient as eq17 derives it, and all "
    "other kernels from their Python source; eps is 1/100000, and roots of widths are roots"
)
ARB = "Arb's balls (python-flint)"


def declare(what: str, document: str, make: Callable[[], Case], size: str, source: str) -> None:
    """The claims about a step of one model."""
    enclosure = partial(claim, "rounding", category="enclosure", size=size, source=source)

    @enclosure(
        f"{what}: the true loss of this step and its true gradients by all weights lie in balls that the engine's own "
        f"forward pass, tape and rules compute; no radius is above {RADIUS:.0e} of the largest entry of its tensor",
        assumptions=(RULES, READ),
        trusted=(ARB,),
    )
    def radii():
        lines = []
        for name, balls in enclosed(make()).items():
            truth = Truth(balls)
            holds(truth.radius <= RADIUS * truth.largest, f"{name} is enclosed to {RADIUS}: {truth.radius}")
            lines.append(f"{name:<{LONGEST}} {balls.size:>6} numbers, largest {truth.largest:.6e}, {truth.radius:.1e}")
        (loss,) = enclosed(make())["loss"].flat
        return Evidence(text="\n".join([f"loss = {loss.arb.str(45)}", *lines]))

    @claim(
        "rounding",
        f"{what}: these gradients are the derivative of this loss: along a random direction, in which every weight "
        "changes, a difference quotient is <gradient, direction>, to 25 digits",
        category="check",
        size=size,
        assumptions=("the error of the difference quotient, some 1e-33 of it, is not bounded by a proof",),
        trusted=(ARB,),
    )
    def difference_quotient():
        quotient, slope = slopes(make())
        holds(bool(abs(quotient - slope) <= AGREEMENT * abs(slope)), f"{quotient} is {slope}")
        return Evidence(text=f"difference quotient {quotient.arb.str(35)}\n<gradient, v>       {slope.arb.str(35)}")

    for dtype, limit in LIMITS[document].items():
        enclosure(
            f"{what}: in {dtype}, the shipped step is within {limit} units in the last place (of the largest "
            "entry of each tensor) of the true loss and gradients; run from a recording it gives the same bits",
            assumptions=(RULES, READ, "the weights are the same float32 numbers in all of them"),
            trusted=(ARB, NUMBA),
        )(_named(partial(distance, make, document, dtype)))


def _named(evidence: partial) -> partial:
    """A claim is known by the name of its function."""
    evidence.__name__ = evidence.func.__name__
    return evidence


def distance(make: Callable[[], Case], document: str, dtype: str) -> Evidence:
    """The distance of the shipped step in this dtype from the truth; Refuted beyond the limit."""
    here, limit = make(), LIMITS[document][dtype]
    model = copy.deepcopy(here.model).to(dtype=getattr(tt, dtype))
    gradients, replayed_gradients = here.step(model), here.step(copy.deepcopy(model), replayed=True)
    for name, values in gradients.items():
        holds(values.dtype == dtype, f"{name} is computed in {dtype}")
        holds(np.array_equal(values, replayed_gradients[name]), f"{name} has the same bits when replayed")
    rows = errors(here, gradients)
    for r in rows:
        if not r.ulp <= limit:
            raise Refuted(f"{r.name} is {r.ulp:.1f} units in the last place from the truth, not {limit}")
    return Evidence(text=table(rows))


declare(
    "document 003",
    "003",
    case,
    f"38,848 parameters ({', '.join(f'{name}={size}' for name, size in REAL.items())}), B=1, one seed",
    "003 eqs. (1)-(17)",
)
declare(
    "documents 000 and 004, encoder and decoder",
    "004",
    case_of_stacks,
    f"{STACKS.sizes()}, 17 words to 15, B=2, one seed",
    "000, 004",
)
