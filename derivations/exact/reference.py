"""The definition of a kernel, which is its reference kernel (tinytensor/core/reference.py), over exact scalars.

That of a fused step is the update rule of its optimizer (tinytensor/optim/), on tensors of exact scalars.
The numbers are SymPy's expressions where the kernels are proved for all values, at small sizes (`tests/symbolic`), and
residues modulo a prime at medium sizes (`derivations/proofs/kernels.py`). A softmax does not change if a number is
subtracted from all scores, as the part `theorems` proves for any size. Residues do not know that, so for them it is the
largest score, as in the kernels: `shift` says which.
"""

from collections.abc import Callable
from functools import partial

import numpy as np

from tinytensor.core.kernel import KERNELS
from tinytensor.core.modes import no_grad
from tinytensor.core.reference import REFERENCE
from tinytensor.core.tensor import Tensor
from tinytensor.optim import SGD, Adam, AdamW
from tinytensor.symbolic.exact.scalars import get_scalar_type


def unshifted(x: np.ndarray) -> int:
    return 0


def largest(x: np.ndarray) -> np.ndarray:
    """The largest number of each row, by witness; -inf stands where none counts."""
    at = np.array([getattr(e, "witness", e) for e in x.flat], float).reshape(x.shape).argmax(-1)
    return np.take_along_axis(x, at[..., None], -1)


STEPS = {
    "sgd": (SGD, SGD),
    "adam": (Adam, AdamW),
}  # the optimizers of a kernel: with its switch `decoupled`, the second


def step(name: str, *args) -> dict:
    """A step by the rule, from the fused kernel's arguments."""
    arrays = dict(zip(KERNELS[name].names, args))
    g, scale, hyper = (arrays.pop(parameter) for parameter in ("g", "scale", "hyper"))
    tensors = {parameter: Tensor.of(array) for parameter, array in arrays.items()}
    p, *slots = tensors.values()
    p.grad = Tensor.of(g)
    numbers = dict(zip(STEPS[name][0].numbers, hyper))
    rule = STEPS[name][numbers.get("decoupled") == 1]
    group = {switch: bool(numbers.get(switch) == 1) for switch in ("maximize", "nesterov", "amsgrad")}
    group |= {"weight_decay": numbers["weight_decay"], "momentum": slots[0].numel()}
    optimizer = rule.__new__(rule)
    optimizer.state = {p: dict(zip(rule.slots, slots)) | {"scale": scale}}
    with no_grad():
        optimizer._by_rule(p, group, hyper)
    return {parameter: x._data for parameter, x in tensors.items()}


def definition(name: str, shift: Callable = unshifted) -> Callable[..., dict]:
    """The definition as a function of the native kernel's arguments, the last of which may be left out."""
    if name in STEPS:
        return partial(step, name)
    function, _, names = REFERENCE[name]
    options = {"shift": shift, "zero": get_scalar_type().of(0)}
    of_function = function.__kwdefaults__ or {}
    function = partial(function, **{option: value for option, value in options.items() if option in of_function})

    def of_arguments(*args) -> dict:
        values = dict(zip(KERNELS[name].names, args))
        return function(*(values.get(parameter) for parameter in names))

    return of_arguments


def matvec(a, b, y) -> dict:
    """The definition of a native kernel that computes the matrix products of one column."""
    return {"y": definition("matmul")(a, b[:, :, None], np.empty(0, object), 0)["y"][:, :, 0]}
