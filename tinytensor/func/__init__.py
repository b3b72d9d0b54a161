"""Functions as values, under the names of torch.func: a function goes in, and its derivative or its batch comes out.

- `trees.py`: nested tuples, lists and dicts of tensors
- `batches.py`: a tensor that stands for one example of a batch; operations on such tensors, without a rule
- `rules.py`: the rules by which an operation computes all examples at once
- `derivatives.py`: grad, vjp, jvp, Jacobians and Hessians
- `mapping.py`: vmap
- `modules.py`: a module as a function of its parameters
"""

from tinytensor.func import rules
from tinytensor.func.derivatives import grad, grad_and_value, hessian, jacfwd, jacrev, jvp, vjp
from tinytensor.func.mapping import vmap
from tinytensor.func.modules import functional_call, stack_module_state

__all__ = [
    "functional_call",
    "grad",
    "grad_and_value",
    "hessian",
    "jacfwd",
    "jacrev",
    "jvp",
    "stack_module_state",
    "vjp",
    "vmap",
]
