"""What the checks share: comparisons that say in words what is wrong, and random inputs."""

from collections.abc import Callable
from typing import Any

import numpy as np

import tinytensor as tt
from examples.build.judge import Engine, Wrong
from examples.exercises import judge


def show(x: Any) -> str:
    """A number or a small array, short."""
    if np.ndim(x) == 0:
        return f"{float(x):.5g}"
    return np.array2string(np.asarray(x), precision=4, suppress_small=True, separator=", ").replace("\n", "")


def close(a: np.ndarray, b: Any, tolerance: float = 1e-8) -> bool:
    b = np.asarray(b, dtype=float)
    return a.shape == b.shape and np.allclose(a, b, rtol=tolerance, atol=tolerance, equal_nan=True)


def array(x: Any, what: str) -> np.ndarray:
    """What the student's code returned, as an array of numbers."""
    if x is None:
        raise Wrong(f"{what} is None. Does a `return` miss?")
    try:
        return np.asarray(x, dtype=float)
    except (TypeError, ValueError):
        raise Wrong(f"{what} should be a number or an array of numbers, and is {type(x).__name__}.") from None


def compare(
    what: str, got: Any, want: Any, mistakes: dict[str, Any] | None = None, hint: str = "", tolerance: float = 1e-8
) -> None:
    """Raise `Wrong` if got is not want; a mistake whose result got equals is named.

    mistakes: what to say -> the array that this mistake gives.
    """
    judge.compare(array(got, what), np.asarray(want, dtype=float), what, mistakes, tolerance, hint=hint)


def tensor_of(engine: Engine, x: Any, what: str) -> Any:
    """x, if it is a tensor of the student's."""
    if not isinstance(x, engine.tape.Tensor):
        raise Wrong(f"{what} should return a Tensor, and returns {'nothing' if x is None else type(x).__name__}.")
    return x


def walk(last: Any) -> list:
    """All tensors that lead to last, each after those made from it; last first."""
    done, seen, stack = [], {id(last)}, [(last, iter(last.edges))]
    while stack:
        tensor, edges = stack[-1]
        for source, _ in edges:
            if id(source) not in seen:
                seen.add(id(source))
                stack.append((source, iter(source.edges)))
                break
        else:
            done.append(tensor)
            stack.pop()
    return done[::-1]


def walk_back(engine: Engine, last: Any, g: Any, what: str) -> None:
    """backward with the student's `send`, in the right order."""
    last.grad = g
    for tensor in walk(last):
        engine.call(tensor.send, what=what)


def pulls_have_shapes(engine: Engine, last: Any, what: str) -> None:
    """Does each pull on the tape give an array that can be summed to the shape of its source?"""
    for tensor in walk(last):
        for source, pull in tensor.edges:
            with engine.running(f"{what}: the pull to a source of shape {source.shape}"):
                g = pull(np.ones(tensor.shape))
            shape = array(g, f"{what}: what a pull returns").shape
            try:
                fits = np.broadcast_shapes(shape, source.shape) == shape
            except ValueError:
                fits = False
            if not fits:
                raise Wrong(
                    f"{what}: a pull returns an array of shape {shape} for a source of shape {source.shape}. "
                    "A gradient has the shape of the array that it belongs to."
                )


def differences(f: Callable[..., np.ndarray], arrays: list[np.ndarray], i: int, place: tuple, w: np.ndarray) -> float:
    """(Σ w f(x + h) - Σ w f(x - h)) / 2h for one entry of the i-th array."""
    h, sums = 1e-5, []
    for step in (h, -h):
        moved = [a.copy() for a in arrays]
        moved[i][place] += step
        sums.append(float((w * f(*moved)).sum()))
    return (sums[0] - sums[1]) / (2 * h)


def check_operation(
    engine: Engine,
    random: np.random.Generator,
    what: str,
    mine: Callable,
    reference: Callable,
    arrays: list[np.ndarray],
    names: tuple[str, ...] = ("x",),
    values: Callable[..., dict] | None = None,
    gradients: Callable[..., list[dict]] | None = None,
    hint: str = "",
) -> None:
    """Compare the student's operation with tinytensor's, forward and backward, and with finite differences.

    mine(*tensors of the student's), reference(*tensors of tinytensor's). values(*arrays) and
    gradients(w, *arrays) give the results of common mistakes: what to say -> the array; gradients for each input.
    """
    with np.errstate(all="ignore"):
        inputs = [engine.tape.Tensor(a) for a in arrays]
        out = tensor_of(engine, engine.call(mine, *inputs, what=what), what)
        twins = [tt.tensor(a, dtype=tt.float64, requires_grad=True) for a in arrays]
        right = reference(*twins)
        compare(f"{what}: the result", out.data, right.detach().numpy(), values(*arrays) if values else None, hint)
        w = random.standard_normal(out.shape)
        (right * tt.tensor(w, dtype=tt.float64)).sum().backward()
        pulls_have_shapes(engine, out, what)
        last = out * engine.tape.Tensor(w)
        engine.call(engine.order.backward, last, what=f"backward through {what}")

        def forward(*moved: np.ndarray) -> np.ndarray:
            return engine.call(mine, *(engine.tape.Tensor(a) for a in moved), what=what).data

        for i, (name, tensor, twin) in enumerate(zip(names, inputs, twins)):
            known = gradients(w, *arrays)[i] if gradients else None
            got = array(tensor.grad, f"{what}: the gradient of {name}")
            if not got.shape and tensor.shape and not tensor.edges and float(got) == 0.0:
                raise Wrong(f"{what}: no gradient arrives at {name}. Is there an edge (…, pull) to it?")
            compare(f"{what}: the gradient of {name}", got, twin.grad.numpy(), known, hint)
            if tensor.data.size:
                place = tuple(int(random.integers(n)) for n in tensor.shape)
                found = differences(forward, arrays, i, place, w)
                if abs(found - got[place]) > 1e-4 * (1 + abs(found)):
                    raise Wrong(
                        f"{what}: finite differences find {found:.5f} for {name}, your gradient is {got[place]:.5f}."
                    )
