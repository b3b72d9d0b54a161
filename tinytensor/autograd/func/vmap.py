"""vmap: a function of one example becomes a function of a batch."""

import functools
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from tinytensor.autograd.func import pytree
from tinytensor.autograd.func.batches import Batched, all_examples, batched, level_of, stack_results
from tinytensor.core.observers import observe
from tinytensor.core.tensor import Tensor
from tinytensor.ops.shape import cat, movedim, narrow, slice_op


def vmap(
    func: Callable, in_dims: Any = 0, out_dims: Any = 0, randomness: str = "error", *, chunk_size: int | None = None
) -> Callable:
    """The function that computes func for each example of a batch, and joins the results: y[i] = f(x[i]).

        vmap(grad(loss), in_dims=(None, 0, 0))(weights, xs, targets)    # a gradient for each example

    `in_dims` names the dimension of the examples in each argument (None: the argument is the same for all), as one
    number or in the structure of the arguments; keyword arguments have them in dimension 0. `out_dims` names the
    dimension of the examples in the results.

    func runs once. In it a tensor has the shape of one example, and each operation computes all examples at once:
    formulas, reductions, matrix products, softmax, norms, attention, losses, slices, rows of a table and changes of
    shape. An operation that has no such rule runs for each example in turn, and the results are stacked. Then the
    result is right, but no faster than that of a loop. These operations are: reads and writes at an index that differs
    by example, most decompositions, sort, topk and quantiles, binary_cross_entropy, and an autograd.Function. PyTorch
    has rules for more of them, and warns where it loops.

    Values can't decide what runs, since they differ by example: `if x > 0`, `x.item()`, and results of shapes that
    depend on values (`x[mask]`) raise RuntimeError.

    Random numbers raise RuntimeError, unless `randomness` is "same" (the same draws for all examples) or "different":
    then func itself is called for each example in turn. `chunk_size` limits the number of examples computed at once.
    """
    if randomness not in ("error", "same", "different"):
        raise RuntimeError(f'vmap: randomness is {randomness!r}; expected "error", "same" or "different"')
    if chunk_size is not None and chunk_size < 1:
        raise ValueError(f"vmap: chunk_size is {chunk_size}; expected 1 or more, or None")

    @functools.wraps(func)
    def mapped(*args, **kwargs):
        leaves = [*pytree.leaves(args), *pytree.leaves(kwargs)]
        dims = pytree.spread(in_dims, args, _is_dim, "vmap: in_dims")
        dims += [0 if isinstance(v, Tensor) else None for v in pytree.leaves(kwargs)]
        values = [_examples_in_front(v, dim) for v, dim in zip(leaves, dims, strict=True)]
        sizes = {v.shape[0] for v, dim in zip(values, dims, strict=True) if dim is not None}
        if len(sizes) != 1:
            raise ValueError(
                f"vmap: the arguments have {' and '.join(map(str, sorted(sizes)))} examples; expected one number"
                if sizes
                else "vmap: no argument has examples; at least one entry of in_dims must name a dimension"
            )
        (size,) = sizes
        which = [dim is not None for dim in dims]
        run = _each if randomness == "different" else _at_once
        step = size if chunk_size is None or size == 0 else chunk_size
        parts = []
        with _draws(randomness):
            for start in range(0, max(size, 1), max(step, 1)):
                n = min(step, size - start)
                part = [
                    narrow(v, 0, start, n) if here and n < size else v for v, here in zip(values, which, strict=True)
                ]
                parts.append(run(func, (args, kwargs), part, which, n, out_dims))
        results = [p[0] if len(parts) == 1 else cat(p) for p in zip(*(ys for _, ys, _ in parts), strict=True)]
        structure, _, out = parts[0]
        return pytree.refilled(structure, map(_moved, results, out))

    return mapped


def _is_dim(value: Any) -> bool:
    return value is None or (isinstance(value, int) and not isinstance(value, bool))


def _examples_in_front(value: Any, dim: int | None) -> Any:
    if dim is None:
        return value
    if not isinstance(value, Tensor):
        raise ValueError(f"vmap: in_dims names dimension {dim} of {value!r}, which is no tensor; use None for it")
    if not -value.ndim <= dim < value.ndim:
        raise ValueError(f"vmap: in_dims names dimension {dim}, which a tensor of shape {value.shape} does not have")
    return movedim(value, dim, 0) if dim % value.ndim else value


def _moved(y: Tensor, dim: int | None) -> Tensor:
    """A result with its examples at their place."""
    if dim is None:
        return slice_op(y, (0,))
    if not -y.ndim <= dim < y.ndim:
        raise IndexError(f"vmap: out_dims names dimension {dim}, which a result of shape {y.shape} does not have")
    return movedim(y, 0, dim) if dim % y.ndim else y


def _at_once(func: Callable, structure: tuple, values: list, which: list[bool], size: int, out_dims: Any) -> tuple:
    """The structure of the results, the results of all examples, and where their examples belong."""
    with level_of(size) as level:
        args, kwargs = pytree.refilled(
            structure, [batched(v, level) if here else v for v, here in zip(values, which, strict=True)]
        )
        result = func(*args, **kwargs)
        ys, dims = _results(result, out_dims)
        for y, dim in zip(ys, dims, strict=True):
            if dim is None and isinstance(y, Batched) and y.level is level:
                raise ValueError("vmap: out_dims is None for a result that differs by example; name a dimension")
        return result, [all_examples(y, level) for y in ys], dims


def _each(func: Callable, structure: tuple, values: list, which: list[bool], size: int, out_dims: Any) -> tuple:
    """The same, by a call for each example."""
    rows = []
    for i in range(size):
        example = [slice_op(v, (i,)) if here else v for v, here in zip(values, which, strict=True)]
        args, kwargs = pytree.refilled(structure, example)
        rows.append(func(*args, **kwargs))
        _results(rows[-1], out_dims)
    result = stack_results(rows, getattr(func, "__name__", "vmap"))
    return result, *_results(result, out_dims)


def _results(result: Any, out_dims: Any) -> tuple[list[Tensor], list]:
    ys = pytree.leaves(result)
    for y in ys:
        if not isinstance(y, Tensor):
            raise ValueError(f"vmap: the function must return tensors, or tuples, lists and dicts of them, got {y!r}")
    return ys, pytree.spread(out_dims, result, _is_dim, "vmap: out_dims")


def _draws(randomness: str) -> AbstractContextManager[None]:
    """A context in which drawing random numbers raises, if randomness is "error"."""

    def refuse(what: str, generator) -> None:
        raise RuntimeError(
            f'{what} inside vmap draws random numbers; say randomness="different" (for each example) or "same"'
        )

    return observe(on_random=refuse) if randomness == "error" else nullcontext()
