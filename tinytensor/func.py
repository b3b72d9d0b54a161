"""torch.func: derivatives of functions (autograd/func/), and modules as functions (nn/utils/stateless.py)."""

from tinytensor.autograd.func import grad, grad_and_value, hessian, jacfwd, jacrev, jvp, vjp, vmap
from tinytensor.nn.utils.stateless import functional_call, stack_module_state

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
