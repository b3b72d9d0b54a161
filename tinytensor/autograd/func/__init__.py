"""Functions as values: a function goes in, and its derivative or its batch comes out (tinytensor.func has the names).

- `pytree.py`: nested tuples, lists and dicts of tensors
- `batches.py`: a tensor that stands for one example of a batch; operations on such tensors, without a rule
- `batching_rules.py`: the rules by which an operation computes all examples at once
- `transforms.py`: grad, vjp, jvp, Jacobians and Hessians
- `vmap.py`: vmap
"""

from tinytensor.autograd.func import batching_rules
from tinytensor.autograd.func.transforms import grad, grad_and_value, hessian, jacfwd, jacrev, jvp, vjp
from tinytensor.autograd.func.vmap import vmap

__all__ = ["grad", "grad_and_value", "hessian", "jacfwd", "jacrev", "jvp", "vjp", "vmap"]
