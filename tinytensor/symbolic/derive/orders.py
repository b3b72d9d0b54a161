"""`derive`, `jvp`, `hvp`, `gauss_newton`: derivatives of a function for any size, with their proof."""

import inspect
from collections.abc import Callable, Iterable, Sequence

from tinytensor.symbolic.derive.derivation import Derivation, first_derivatives
from tinytensor.symbolic.derive.facts import Fact
from tinytensor.symbolic.derive.second import GaussNewton, Hessian, Jacobian, Second
from tinytensor.symbolic.time_limit import SECONDS, SYMBOLS, limited, stage


def derive(
    fn: Callable,
    where: str | Fact | Sequence[str | Fact] = (),
    limit: float | None = SECONDS,
    progress: bool | None = None,
    *,
    order: int = 1,
    jacobian: bool = False,
    wrt: str | Iterable[str] = (),
    **arguments,
) -> Derivation | Hessian | Jacobian:
    """Derive the gradient of a function for any size, in index notation, and prove it.

    arguments: those of fn. A tuple of sizes, ("N", "D"), is a tensor of floats; `Index(("N",), "K")` one of integers
    from 0 to K - 1; everything else is given to fn as it is. A size is a name, a number, a product, "2*K", or a sum of
    such, "2*M + 1". A loop with as many steps as a size says is read as a recurrence, if its steps are alike.
    The parameters of a Module are arguments by their names, dots as underscores; X=("N", "D=16") calls its size 16 D.

    where: conditions on the sizes, "N > 3" or "N % 2 == 0": where the function asks about its sizes, one of its cases;
    and facts about arguments, `symmetric("S")` and `positive_definite("S")`.

    limit: the seconds of computing after which the work ends; None: as long as it takes. Then the result has the
    formulas that are known by then, compared with backward() in numbers, and is not proved. TooLong if the function
    itself could not be read, or a Hessian or Jacobian not be written. progress: True shows how much is done, False
    does not, None does on a terminal.

    order: 2 for the Hessian of a number, in blocks ∂²𝓛/∂w∂b, as `jax.hessian` and `torch.func.hessian` return it: a
    block has the shape of w followed by that of b. jacobian: True for the derivatives ∂Y/∂x of a result that is no
    number, of the shape of Y followed by that of x; without it a gradient arrives at the result, as in backward(), and
    what is derived is the vector-Jacobian product. wrt: the arguments by which these are taken, all unless named: data
    would make many blocks. JAX and PyTorch number them (`argnums`); here arguments have names.

    The result is true if every gradient is proved. Its `verdict` names the conditions: on values, those of a short list
    (denominators, arguments of roots and logarithms, ties); on sizes, those of `where` and those that the function
    demands. NotDerivable (a TypeError) names the line of a function that it cannot follow.
    """
    taken = inspect.signature(fn).parameters if callable(fn) else {}
    options = {"order": order != 1, "jacobian": jacobian, "wrt": wrt}
    if clash := [name for name, used in options.items() if used and name in taken]:
        raise ValueError(
            f"derive: {clash[0]} is an argument of the function, and an option of derive; give the function's own one "
            f"another name: lambda x: f(x, {clash[0]}=2)"
        )
    if order not in (1, 2):
        raise ValueError(f"derive: order={order!r}; expected 1 for the gradient, or 2 for the Hessian")
    if order == 2 and jacobian:
        raise ValueError("derive: order=2 and jacobian=True; a Hessian is of a number, a Jacobian of an array")
    if wrt and order == 1 and not jacobian:
        raise ValueError("derive: wrt is for order=2 and jacobian=True; a gradient is derived by every argument")
    call = fn, where, limit, progress, arguments
    if order == 1 and not jacobian:
        return first_derivatives("derive", *call, share=SYMBOLS)[0]
    return _second("derive", Hessian if order == 2 else Jacobian, call, wrt, in_blocks=True)


def _second(command: str, form: type[Second], call: tuple, wrt: str | Iterable[str], **options) -> Second:
    """The derivatives of a form; call: the function, where, limit, progress and arguments."""
    first, time = first_derivatives(command, *call)
    with limited(time, SYMBOLS):
        stage("formulas were written")
        return form(first, time, wrt, **options)


def jvp(
    fn: Callable | Derivation,
    where: str | Fact | Sequence[str | Fact] = (),
    limit: float | None = SECONDS,
    progress: bool | None = None,
    *,
    wrt: str | Iterable[str] = (),
    **arguments,
) -> Jacobian:
    """The derivative of a function in a direction, J v, for any size, with its proof: `torch.func.jvp`, `jax.jvp`.

    fn, where and arguments are those of `derive`; fn may also be its result. wrt: the arguments that move, all unless
    named. The direction of W is written Ẇ; `evaluate` takes it as W_dot.
    """
    return _second("jvp", Jacobian, (fn, where, limit, progress, arguments), wrt)


def hvp(
    fn: Callable | Derivation,
    where: str | Fact | Sequence[str | Fact] = (),
    limit: float | None = SECONDS,
    progress: bool | None = None,
    *,
    wrt: str | Iterable[str] = (),
    **arguments,
) -> Hessian:
    """The Hessian times a direction, H v, for any size, with its proof: `torch.autograd.functional.hvp`.

    The Hessian itself is never formed: this is the form for models with many parameters. The arguments are those of
    `jvp`; the function's result is a number.
    """
    return _second("hvp", Hessian, (fn, where, limit, progress, arguments), wrt)


def gauss_newton(
    fn: Callable | Derivation,
    of: str,
    where: str | Fact | Sequence[str | Fact] = (),
    limit: float | None = SECONDS,
    progress: bool | None = None,
    *,
    wrt: str | Iterable[str] = (),
    **arguments,
) -> GaussNewton:
    """The Gauss-Newton matrix times a direction, Jᵀ H_z J v, for any size, with its proof.

    of: the name of the array z that is the model's result, as `derive` prints it: the loss is a function of z, and J is
    the Jacobian of z. Where the loss is convex in z the matrix has no negative eigenvalue, which the Hessian may have.
    The other arguments are those of `hvp`.
    """
    return _second("gauss_newton", GaussNewton, (fn, where, limit, progress, arguments), wrt, of=of)
