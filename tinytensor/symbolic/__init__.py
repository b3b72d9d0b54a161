"""Proofs about the code that ships: the engine's operations, rules and kernels, run over exact scalars.

    x = symbols("x", 2, 3)
    x.requires_grad_()
    x.softmax(-1)[0, 0].backward()
    x.grad[0, 0].item().equals(...)     # every entry of every gradient is a formula
    latex(x.grad)                       # and can be read as one

    prove(tt.softmax, (2, 3), -1)       # the gradient is the derivative: proved, or a counterexample
    prove(model, tokens, size="real")   # at a size that trains: sampled, with the probability of error
    assert_gradient(tt.softmax, (2, 3), -1)     # in a test: an error that shows the formula that is wrong

A tensor of dtype object goes through the same operations, rules and kernels as any other; dispatch then runs a
kernel through `lift`.
"""

from tinytensor.symbolic.any_size.arguments import Index
from tinytensor.symbolic.any_size.checking import Check, check
from tinytensor.symbolic.any_size.derivation import Derivation, derive
from tinytensor.symbolic.any_size.recording import NotDerivable
from tinytensor.symbolic.asserting import assert_gradient
from tinytensor.symbolic.lifting import NotLiftable, lift
from tinytensor.symbolic.proof import Proof
from tinytensor.symbolic.proving import prove
from tinytensor.symbolic.sampling import Sampled
from tinytensor.symbolic.scalars import Condition, Symbolic, Undecided, path
from tinytensor.symbolic.tensors import latex, symbols
from tinytensor.symbolic.work import TooLong

__all__ = [
    "Check",
    "Condition",
    "Derivation",
    "Index",
    "NotDerivable",
    "NotLiftable",
    "Proof",
    "Sampled",
    "Symbolic",
    "TooLong",
    "Undecided",
    "assert_gradient",
    "check",
    "derive",
    "latex",
    "lift",
    "path",
    "prove",
    "symbols",
]
