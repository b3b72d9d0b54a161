"""The gradients of the models at the sizes of training: the shipped code, run over residues modulo a prime.

`prove(..., size="real")` runs the engine's own operations, rules, `backward()` and kernels (their Python source) over a
finite field, at one random point, and compares all gradients with the derivative of the loss in one random direction
(`tinytensor/symbolic/prove/sampling.py` says why this is enough), up to the probability that each claim states.

Sizes are beyond the smaller blocks of the kernels: registers, tiles of a product, squares of attention; `toth-tiny` is
also beyond the columns of a product's block. A model beyond the other blocks (the 192 rows of such a block and the 256
of a panel, 512 numbers of a sum, the blocks of rows in which a norm's gradients are added up) would be too large: the
part `kernels` exceeds them with the same source, launch by launch.
"""

from collections.abc import Callable
from functools import partial

import numpy as np

import tinytensor as tt
from derivations.claims import BOUND, NUMBA, Evidence, Refuted, claim
from derivations.exact.replay import Replay
from derivations.exact.residues import CHANCE, HASHED, Equations, tangents
from derivations.proofs.engine import Loss
from models import decoder, transformer
from models.training.trainer import Settings, build_optimizer, training_step
from tinytensor import Tensor, nn
from tinytensor.core.memory_order import memory_order, ordered
from tinytensor.symbolic import Proof, prove
from tinytensor.symbolic.exact.finite_field import Field, Residue

sampled = partial(
    claim,
    "real_size",
    category="sampled",
    assumptions=(
        "comparisons (the signs before a ReLU, the places of maxima) come out as those of the floats beside the "
        "residues, which are near the values with which training begins",
        HASHED,
    ),
    trusted=(CHANCE, NUMBA),
)


def evidence(make: Callable[[], nn.Module], *inputs: Tensor) -> Evidence:
    """Prove the gradients of a model's loss at a random point; Refuted if that fails or its error is too probable."""
    proof = prove(Loss(make()), *inputs, size="real", limit=None)
    accept(proof)
    compared = f"{proof.entries:,} entries of gradients, all at once: <gradient, v> = D_v loss"
    return Evidence(text="\n".join([compared, *proof.assumptions, f"operations: {', '.join(proof.operations)}"]))


def accept(proof: Proof) -> None:
    if not proof:
        raise Refuted(repr(proof))
    if proof.error > BOUND:
        raise Refuted(f"a wrong gradient could pass with a probability of 2^{proof.error:.0f}, above 2^{BOUND}")


def text(config: decoder.Config, B: int = 2) -> tuple[Tensor, Tensor]:
    """Tokens and targets: each sequence begins with a repeated token, the first one ends with padding."""
    draw = np.random.default_rng(0)
    tokens, targets = draw.integers(0, config.V, (B, config.C)), draw.integers(0, config.V, (B, config.C))
    tokens[:, 1], targets[0, -3:] = tokens[:, 0], -100
    return tt.tensor(tokens), tt.tensor(targets)


def declare(statement: str, source: str, config: decoder.Config, beyond: str = "") -> None:
    """The claim for a decoder."""

    @sampled(f"document 003: {statement}", size=f"{config.sizes()}, B = 2{beyond}", source=source)
    def of_003():
        return evidence(lambda: decoder.Decoder(config), *text(config))


declare(
    "backward() of toth-tiny gives the derivative of the loss by all of its 38,848 parameters, at the size at which it "
    "is trained",
    "003 eqs. (1)-(19)",
    decoder.CONFIGS["toth-tiny"],
)

# Beyond a square of attention (16 queries), a tile and a register of a product, a register of a norm; no two alike.
BEYOND = ": beyond registers, tiles and squares (beyond larger blocks: kernels)"
SMALLER = decoder.Config(D=20, H=4, F=24, L=1, V=35, C=18)
GPT = {"residual": "pre-norm", "final_norm": True, "activation": "gelu", "tied": True}
LAYOUTS = {
    'two layers, with only the embedding normalised ("once")': {"residual": "once", "L": 2},
    "nanoGPT's layout: pre-norm, norms with gamma, GELU, E and O tied, no biases": GPT
    | {"norm": "scale", "bias": False},
    "GPT-2's layout with dropout, for one drawn mask: affine norms, biases of attention, GELU by tanh": GPT
    | {"norm": "affine", "attention_bias": True, "activation": "gelu-tanh", "dropout": 0.1},
    "microgpt's layout: RMS norms, no biases": {"residual": "once", "norm": "rms", "bias": False},
    "the recommender's layout: pre-norm, one more norm at the end, dropout": {
        "residual": "pre-norm",
        "final_norm": True,
        "dropout": 0.2,
    },
    "without positions and without the causal mask": {"positions": False, "causal": False},
}
for layout, switches in LAYOUTS.items():
    declare(f"the same for {layout}", "003 eqs. (1)-(17)", SMALLER.replace(**switches), BEYOND)


WORDS, ANSWER = 17, 18  # each more than the queries of a square of attention
STACKS = transformer.Config(N=1, d_model=20, h=4, d_ff=24, n_vol=35, n_max=18)
SIZES = ("N", "d_model", "h", "d_k", "d_v", "d_ff", "n_vol", "n_max")


def switches(config: transformer.Config) -> dict:
    """The settings of a configuration beside its sizes."""
    return {name: value for name, value in config.to_dict().items() if name not in SIZES}


STACKS_LAYOUTS = {
    f"in the layout of the configuration {name}": switches(config) for name, config in transformer.CONFIGS.items()
} | {
    "as in 004: LayerNorm after the sum, the sum of the losses": {},
    "LayerNorm before, biases, tied, a token to begin with, smoothed targets, their mean": {
        "norm": "before",
        "bias": True,
        "tied": True,
        "label_smoothing": 0.1,
        "reduction": "mean",
        "begin": "token",
    },
    "heads of other widths, LayerNorm without parameters, no positions, dropout": {
        "affine": False,
        "d_k": 3,
        "d_v": 7,
        "dropout": 0.1,
        "positions": False,
    },
}


def sentences(config: transformer.Config, words: int = 17, answer: int = 15) -> tuple[Tensor, Tensor]:
    """Two pairs of sentences, each with a repeated word; the first has fewer words, the second a shorter answer."""
    draw = np.random.default_rng(0)
    inputs, outputs = draw.integers(4, config.n_vol, (2, words)), draw.integers(4, config.n_vol, (2, answer))
    inputs[:, 1] = inputs[:, 0]
    inputs[0, -3:] = outputs[1, -4:] = transformer.PAD
    return tt.tensor(inputs), tt.tensor(outputs)


def declare_stacks(layout: str, switches: dict) -> None:
    """The claim for an encoder-decoder."""
    config = STACKS.replace(**switches)

    @sampled(
        f"documents 000 and 004, encoder and decoder: backward() gives the derivative of the loss, {layout}",
        size=f"{config.sizes()}, {WORDS} words to {ANSWER}, B = 2{BEYOND}",
        source="000, 004",
    )
    def of_004():
        return evidence(lambda: transformer.Transformer(config), *sentences(config, WORDS, ANSWER))


for layout, switches in STACKS_LAYOUTS.items():
    declare_stacks(layout, switches)


# --- The recorded step

RECORDED = SMALLER
SETTINGS = Settings(clip=1.0)


def recorded_step(settings: Settings):
    """(the recording that `compile` made of a training step, the model, its optimizer)."""
    tt.manual_seed(0)
    model = decoder.Decoder(RECORDED)
    optimizer = build_optimizer(model, settings)
    step = tt.compile(training_step(model, optimizer, settings.clip), fullgraph=True)
    for _ in range(2):  # the first call makes the optimizer's state
        step(*text(RECORDED))
    return next(recorded for steps in step.recordings.values() for recorded in steps), model, optimizer


def adamw(p, g, m, v, t: int, settings: Settings):
    """(p, m, v) after step t of AdamW, as Loshchilov and Hutter (2019) write it."""
    lr, decay, eps, one, two = map(Residue, (settings.lr, settings.weight_decay, 1e-8, *settings.betas))
    m, v = m * one + g * (1 - one), v * two + g * g * (1 - two)
    corrected = v.sqrt() / (1 - two**t).sqrt()
    return p * (1 - lr * decay) - lr / (1 - one**t) * m / (corrected + eps), m, v


@sampled(
    "the replayed step: in the launches that `compile` recorded, the gradient is the derivative of the loss by all "
    "parameters; norm, clipping, and the parameters and moments after AdamW are those of the formula",
    size=f"{RECORDED.sizes()}, B = 2, recorded from float32",
    source="003 eqs. (1)-(18)",
)
def replayed():
    recorded, model, optimizer = recorded_step(SETTINGS)
    names = [name for name, _ in model.named_parameters()]
    with Field() as scalars:
        replay = Replay(recorded.recording)
        state = []  # each parameter and its moments
        for p in model.parameters():
            entry, order = optimizer.state[p], memory_order(p._data)  # the order of the kernels
            state.append([ordered(replay.scalars(x._data), order) for x in (p, entry["exp_avg"], entry["exp_avg_sq"])])
            for array, extra in zip(state[-1], (0.0, 0.0, 1e-3), strict=True):
                for at in np.ndindex(array.shape):
                    array[at] = scalars.draw(array[at].witness + extra)
        directions = [tangents(p) for p, *_ in state]
        gradients, before = [], []
        for what, args in replay.launches():
            if getattr(what, "name", "") == "sumsq":  # each gradient, before clipping
                gradients.append(np.array([Residue.of(g) for g in args[0].flat], object))
            elif getattr(what, "name", "") == "adam":  # parameter, gradient and moments before the step
                before.append([[Residue.of(x) for x in a.flat] for a in args[:4]])
        loss, norm = (replay.scalars(y._data)[()] for y in recorded.result)

        equations = Equations(scalars)
        equations.adjoint("gradient", (loss.tangent, loss.slope_size), list(zip(gradients, directions, strict=True)))
        squares = sum((g * g for gs in gradients for g in gs.flat), Residue(0))
        equations.equal("the norm of all gradients", norm, squares.sqrt())
        factor = SETTINGS.clip / (norm + float(np.float32(1e-6)))
        if factor > 1:
            raise Refuted("the gradients of this step are too small to be clipped, so clipping was not tested")
        for name, (p, m, v), (p0, g0, m0, v0), gs in zip(names, state, before, gradients, strict=True):
            t = optimizer.state[dict(model.named_parameters())[name]]["step"]
            for i, g in enumerate(gs):
                equations.equal(f"the clipped gradient of {name}", g0[i], g * factor)
                new, mean, square = adamw(p0[i], g0[i], m0[i], v0[i], t, SETTINGS)
                equations.equal(f"the mean of {name} after the step", m.flat[i], mean)
                equations.equal(f"the square of {name} after the step", v.flat[i], square)
                equations.equal(f"{name} after the step", p.flat[i], new)
        launches = f"{len(recorded.recording.noted)} launches and host calls; {sum(map(len, gradients)):,} gradients"
        return Evidence(text="\n".join([launches, *equations.figures("step")]))
