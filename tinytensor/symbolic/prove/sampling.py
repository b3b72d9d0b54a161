r"""`prove(fn, ..., size="real")`: the gradients are the derivatives, at a size at which no formula can be written down.

Every input gets a random value modulo a random prime, and a random direction v (`finite_field.py`). The function runs
through the engine's own operations and the kernels' own source, and its tangent is D_v y. Then `backward()` runs, and

    \sum_x \langle \partial x, v_x \rangle = D_v y,    of several results D_v \sum_y \langle g_y, y \rangle

is checked, over all entries of all inputs at once. To test each rule with any gradient, and not only with those that
this loss sends (behind a sum all are 1), a random r_z is added to the gradient of each value z on the way, and
\sum_z \langle r_z, D_v z \rangle to the right side. The difference of the two sides is one formula in the inputs, v, g
and the values of functions. If a gradient is wrong in a single entry, this formula is not 0. Its value is still 0 with
a probability of at most `Proof.error`, the sum of the probabilities of three events:

- the random point is a zero of the formula: S / p, where S is the formula's size, which bounds its degree
  (`finite_field.py`; it is added up as the code runs);
- p divides all coefficients. A coefficient that is not 0 is at most 2^((b + 1) S), so fewer than (b + 1) S / 299 primes
  of 300 bits divide it; more than 2^288 primes can be drawn (those that are 7 modulo 8). If roots of whole numbers are
  among the constants, the same holds for a norm, which has twice as many bits for each of them;
- two different arguments of functions have the same value or opposite ones, so that the functions get one variable for
  both, or two other formulas that are compared on the way have the same value.

If this is more than 2^-100, as it is for a model of ten layers, all is done once more with a prime of more bits.
"""

import math
from dataclasses import dataclass
from functools import partial

import numpy as np

from tinytensor.autograd.backward import backward as run_backward
from tinytensor.core.kernel import OBJECT
from tinytensor.core.modes import enable_grad
from tinytensor.core.observers import observe
from tinytensor.core.op import Node
from tinytensor.core.tensor import Tensor
from tinytensor.symbolic import time_limit
from tinytensor.symbolic.derive.conditions import VALUES
from tinytensor.symbolic.exact.finite_field import MINUS_INFINITY, Field, Residue
from tinytensor.symbolic.exact.tensors import witnesses
from tinytensor.symbolic.prove.advice import no_stranger
from tinytensor.symbolic.prove.passes import Subject, parameter
from tinytensor.symbolic.prove.probing import Run, distinct
from tinytensor.symbolic.prove.proof import Proof
from tinytensor.symbolic.prove.questions import watched
from tinytensor.symbolic.time_limit import TimeLimit, limited

CONSTANT = "a value that is held constant has a derivative"
TOO_LARGE = "the formula is too large for one random point"
INEXACT = "the gradients are right as floats, but rely on rounding, or on identities of functions"
AT_SMALL_SIZE = "a proof at a small size, with its own shapes, shows the formula that is wrong, if one is"
SHORT = 20  # binary digits: a constant of more may be rounded
BOUND = -100  # log2 of the largest probability with which a wrong gradient may pass


@dataclass
class Step:
    """An operation on the tape, or a result of the function, whose `node` is None."""

    node: Node | None
    added: np.ndarray  # to its gradient: random values with witnesses 0; of a result the gradient itself
    slope: int  # D_v of <added, the values>
    size: float  # of its formula
    times: int = 0  # so often backward comes to it


class Sample:
    """One forward and one backward pass over residues."""

    def __init__(self, subject: Subject, scalars: Field, time: TimeLimit):
        self.leaves, self.field = subject.leaves, scalars
        self.steps: list[Step] = []
        self.constant: list[str] = []  # arguments that depend on the inputs, but are not on the tape
        self.in_backward = False  # the function may call backward(), too
        directions = {name: [x.tangent for x in leaf._data.flat] for name, leaf in self.leaves.items()}
        with enable_grad(), observe(on_node=self.note):
            results = subject.results()
        time.total = 2 * time.so_far
        self.operations = tuple(dict.fromkeys(step.node.op.name for step in self.steps))
        self.values = [witnesses(y._data) for y in results]
        seeds = [residues(scalars, "", distinct(y)).detach() for y in results]
        ends = [self.step(None, y._data, g._data) for y, g in zip(results, seeds, strict=True)]
        for step in self.steps:
            _hold_still(step.node.saved)
        self.in_backward = True
        with watched():
            run_backward(results, seeds)
        self.in_backward = False
        along = sum(step.slope for step in ends) + sum(step.times * step.slope for step in self.steps)
        self.size = 1 + sum(step.size for step in ends) + sum(step.times * step.size for step in self.steps)
        self.gradients = {}
        for name, leaf in self.leaves.items():
            zeros = np.zeros(leaf.shape, int)
            gradients = [Residue.of(g) for g in (zeros if leaf.grad is None else leaf.grad._data).flat]
            self.gradients[name] = np.array([g.witness for g in gradients], float).reshape(leaf.shape)
            self.size += sum(g.size + 1 for g in gradients)
            along -= sum(g.value * v for g, v in zip(gradients, directions[name], strict=True))
        self.holds = along % scalars.prime == 0

    def step(self, node: Node | None, values: np.ndarray, added: np.ndarray) -> Step:
        pairs = [(Residue.of(x), r) for x, r in zip(values.flat, added.flat, strict=True)]
        slope = sum(x.tangent * r.value for x, r in pairs) % self.field.prime
        return Step(node, added, slope, sum(x.slope_size + r.size for x, r in pairs))

    def note(self, node: Node, args: tuple, out: np.ndarray) -> None:
        """Remember a node, and its arguments that depend on the inputs without being on the tape."""
        time_limit.step(out.size)
        if self.in_backward:  # what backward itself computes is no result of the function
            return
        added = np.empty(out.shape, object)
        # (The score of a masked entry has no derivative; its exp is 0 whatever is added to it.)
        added.flat = [Residue(0) if Residue.of(x) is MINUS_INFINITY else self.field.draw(0.0) for x in out.flat]
        _hold_still(added)
        self.steps.append(self.step(node, out, added))
        node._hooks = [partial(self.arrive, self.steps[-1])]
        for i, (edge, arg) in enumerate(zip(node.edges, args, strict=True)):
            no_stranger(node.op, edge, self.leaves)
            unseen = edge is None and isinstance(arg, Tensor) and arg.dtype is OBJECT
            values = arg._data.flat if unseen else (arg,)
            if any(isinstance(x, Residue) and x.tangent for x in values):
                self.constant.append(f"{parameter(node.op, i)} of {node.op.name}")

    def arrive(self, step: Step, g: Tensor) -> Tensor:
        """The gradient that goes on from a node: the one that arrives plus random values."""
        time_limit.step(g.numel())
        if not self.in_backward:  # of a gradient that the function itself computes
            return g
        step.times += 1
        return Tensor.of(np.asarray(g._data + step.added, object))


def prove_by_sampling(name: str, subject: Subject, scalars: Field, time: TimeLimit) -> tuple[Proof, Run]:
    """Run the sample; return the proof, and the run as floats."""
    with limited(time), subject.kept():
        sample, leaves = Sample(subject, scalars, time), subject.leaves
    error, formula = scalars.error(sample.size), math.log2(sample.size)
    compared = "comparisons come out as those of the floats"
    assumptions = [
        f"modulo p = {scalars.prime}, drawn at random",
        f"the degree of <gradient, v> - D_v y is at most 2^{formula:.1f}: it would have so many variables and "
        "constants if it were written out, counted beside each residue as the tape and the kernels ran",
        f"probability that a wrong gradient passes: below 2^{math.ceil(min(error, 0))}",
        f"{scalars.comparisons:,} {compared} beside the residues"
        + (f", of which no two are closer than {scalars.closest:.2g}" if scalars.comparisons else ""),
        f"{scalars.applied:,} values of functions count as drawn at random (a keyed hash of 512 bits)",
        *(f"not on the tape, but dependent on the inputs: {what}" for what in sample.constant),
    ]
    # Residues do not know all identities of functions, nor that 0.3 and 3 * 0.1 are one number, rounded.
    exact = scalars.applied == 0 and scalars.constant_bits <= SHORT and not sample.constant
    refuted, proved = exact and not sample.holds, sample.holds and error <= BOUND
    against = [AT_SMALL_SIZE] if not proved and not sample.constant else []
    if not refuted and not proved:
        against.insert(0, CONSTANT if sample.constant else TOO_LARGE if error > BOUND else INEXACT)
    proof = Proof(
        name=name,
        refuted=refuted,
        size=", ".join(f"{n} {leaf.shape}" for n, leaf in leaves.items()),
        scope="at a random point modulo a random prime",
        entries=sum(leaf.numel() for leaf in leaves.values()),
        operations=sample.operations,
        assumptions=tuple(assumptions),
        where=(
            *(words for key, words in VALUES.items() if key in scalars.needed),
            *([compared] if scalars.comparisons else []),
        ),
        against=tuple(against),
        prime=int(scalars.prime),
        formula=formula,
        error=error,
        comparisons=scalars.comparisons,
    )
    seeds = [distinct(y) for y in sample.values]
    return proof, Run(sample.values, seeds, sample.gradients)


def residues(scalars: Field, name: str, values: np.ndarray) -> Tensor:
    """A tensor of variables with these floats as witnesses."""
    return Tensor.of(np.asarray(np.frompyfunc(scalars.draw, 1, 1)(values), object), requires_grad=True)


def _hold_still(kept) -> None:
    """Take the tangents off what is kept for backward, which then computes values alone, in half the time."""
    if isinstance(kept, dict | tuple):
        for part in kept.values() if isinstance(kept, dict) else kept:
            _hold_still(part)
    array = kept._data if isinstance(kept, Tensor) else kept
    for x in array.flat if isinstance(array, np.ndarray) and array.dtype is OBJECT else ():
        if isinstance(x, Residue):
            x.tangent, x.slope_size = 0, 1.0
