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

    exact/           exact scalars, and kernels that run on them
    prove/           `prove`: gradients at given sizes
    index_calculus/  formulas with indices and sums, for sizes that stay symbols
    reading/         a function read once for all sizes, on tensors without values
    derive/          `derive` and `check`: gradients, Hessians and Jacobians for any size
    certificates/    derivations as files of Coq, whose kernel checks them
    numbers.py       the values, difference quotients and tolerances by which numbers refute
    time_limit.py    the time of all of these: limited, and shown while they work

The functions `prove` and `derive` hide the rooms of these names: import from their files,
`from tinytensor.symbolic.prove.passes import ...`.
"""

from tinytensor.symbolic.certificates.terms import NotCertifiable
from tinytensor.symbolic.derive.arguments import Index
from tinytensor.symbolic.derive.check import Check, check
from tinytensor.symbolic.derive.derivation import Derivation
from tinytensor.symbolic.derive.facts import Fact, positive_definite, symmetric
from tinytensor.symbolic.derive.orders import derive, gauss_newton, hvp, jvp
from tinytensor.symbolic.derive.second import Hessian, Jacobian
from tinytensor.symbolic.exact.lifting import NotLiftable, lift
from tinytensor.symbolic.exact.scalars import Condition, Symbolic, Undecided, path
from tinytensor.symbolic.exact.tensors import latex, symbols
from tinytensor.symbolic.prove.proof import Proof
from tinytensor.symbolic.prove.prover import assert_gradient, prove
from tinytensor.symbolic.reading.errors import NotDerivable
from tinytensor.symbolic.time_limit import TooLong

__all__ = [
    "Check",
    "Condition",
    "Derivation",
    "Fact",
    "Hessian",
    "Index",
    "Jacobian",
    "NotCertifiable",
    "NotDerivable",
    "NotLiftable",
    "Proof",
    "Symbolic",
    "TooLong",
    "Undecided",
    "assert_gradient",
    "check",
    "derive",
    "gauss_newton",
    "hvp",
    "jvp",
    "latex",
    "lift",
    "path",
    "positive_definite",
    "prove",
    "symbols",
    "symmetric",
]
