"""gradcheck and gradgradcheck: compare first and second derivatives with finite differences."""

import functools
from collections.abc import Callable, Sequence

import numpy as np

from tinytensor.autograd.backward import grad
from tinytensor.core import late_bound
from tinytensor.core.modes import enable_grad
from tinytensor.core.tensor import Tensor
from tinytensor.ops.creation import randn


def _differentiable(values) -> list[Tensor]:
    return [v for v in values if isinstance(v, Tensor) and v.requires_grad]


def _outputs(result) -> list[Tensor]:
    results = result if isinstance(result, tuple | list) else (result,)
    return [r for r in results if isinstance(r, Tensor) and r.dtype.kind == "f" and r.requires_grad]


def _with_pytorchs_functions(check: Callable) -> Callable:
    """The check, also for a Function of torch.autograd: its own backward is then what is checked."""

    @functools.wraps(check)
    def run(*args, **kwargs):
        with late_bound.pytorch_follows_us():
            return check(*args, **kwargs)

    return run


@_with_pytorchs_functions
def gradcheck(
    func: Callable,
    inputs: Tensor | Sequence,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
) -> bool:
    r"""Compare the tape's gradients with central differences, (f(x + \epsilon) - f(x - \epsilon)) / 2\epsilon.

    Every entry of every Jacobian is compared. Inputs that require grad must be float64: in float32 the differences
    carry no more than three digits, so a wrong gradient could pass.
    """
    inputs = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    checked = _differentiable(inputs)
    if not checked:
        raise ValueError("gradcheck: no input requires grad, so there is nothing to check")
    for x in checked:
        if x.dtype != np.float64:
            raise ValueError(
                f"gradcheck: an input has dtype {x.dtype}; finite differences need float64: use x.double() and "
                "requires_grad_()"
            )
        if x.numel() and any(n > 1 and step == 0 for n, step in zip(x.shape, x._data.strides, strict=True)):
            raise ValueError(
                f"gradcheck: an input of shape {x.shape} is expanded, so several of its elements are one number, which "
                "cannot be moved alone: give x.clone() instead"
            )
    outputs = _outputs(func(*inputs))
    if not outputs:
        raise ValueError("gradcheck: no output of the function depends on the inputs that require grad")
    for number, y in enumerate(outputs):
        analytic = [np.zeros((y.numel(), x.numel())) for x in checked]
        for i in range(y.numel()):
            pick = np.zeros(y.numel())
            pick[i] = 1
            gradients = grad(y, checked, Tensor.of(pick.reshape(y.shape)), retain_graph=True, allow_unused=True)
            for row, g in zip(analytic, gradients, strict=True):
                if g is not None:
                    row[i] = g._data.reshape(-1)
        for which, (x, jacobian) in enumerate(zip(checked, analytic, strict=True)):
            numeric = np.zeros_like(jacobian)
            for j in range(x.numel()):
                at = np.unravel_index(j, x.shape)
                before = x._data[at]
                values = []
                for shift in (eps, -eps):
                    x._data[at] = before + shift
                    with enable_grad():  # an operation may compute differently without the tape
                        values.append(_outputs(func(*inputs))[number]._data.reshape(-1).copy())
                x._data[at] = before
                numeric[:, j] = (values[0] - values[1]) / (2 * eps)
            close = np.isclose(jacobian, numeric, rtol=rtol, atol=atol, equal_nan=False)
            if not close.all():
                if not raise_exception:
                    return False
                i, j = (int(k[0]) for k in np.nonzero(~close))
                raise RuntimeError(
                    f"gradcheck: d output {number}[{i}] / d input {which}[{j}] is {jacobian[i, j]:.8g} on the tape, "
                    f"but {numeric[i, j]:.8g} by finite differences"
                )
    return True


@_with_pytorchs_functions
def gradgradcheck(
    func: Callable,
    inputs: Tensor | Sequence,
    grad_outputs: Sequence[Tensor] | None = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
) -> bool:
    """Compare the tape's second derivatives with finite differences of its first (see `gradcheck`)."""
    inputs = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    outputs = _outputs(func(*inputs))
    if grad_outputs is None:
        grad_outputs = [randn(y.shape, dtype=y.dtype).requires_grad_() for y in outputs]
    n = len(inputs)

    def first(*args):
        ys = _outputs(func(*args[:n]))
        gradients = grad(ys, _differentiable(args[:n]), list(args[n:]), create_graph=True, allow_unused=True)
        return tuple(g for g in gradients if g is not None and g.requires_grad)

    return gradcheck(first, (*inputs, *grad_outputs), eps=eps, atol=atol, rtol=rtol, raise_exception=raise_exception)
