"""The tape over symbols: every gradient rule gives SymPy's derivative of the operation's result.

The table of calls and the proofs stand in derivations/proofs/engine.py; here each is a test.
"""

import pytest

from derivations.proofs.engine import CALLS, prove_op
from tinytensor.core.kernel import OBJECT
from tinytensor.core.op import OPS
from tinytensor.core.tensor import Tensor

SAMPLES = [pytest.param(name, args, id=f"{name}-{i}") for name in CALLS for i, args in enumerate(CALLS[name])]


@pytest.mark.one_in(9)
@pytest.mark.parametrize(("name", "args"), SAMPLES)
def test_gradients_are_the_derivatives(name, args):
    proof = prove_op(name, args)
    assert proof, proof
    assert proof.entries == sum(a.numel() for a in args if isinstance(a, Tensor) and a.dtype is OBJECT)
    assert (name in proof.fused) == (OPS[name].definition is not None)
