"""grad, vjp, jvp, Jacobians and Hessians of functions, by walks of the tape.

Each of them calls the function with new leaves that have the arguments' values, and walks from the result to these.
So derivatives nest: an inner `grad` has leaves of its own, and its gradient is on the tape if the inputs of the outer
one lead to it. Nothing is added to `.grad`, and no tensor of the caller is changed.

Inside vmap a tensor stands for one example (batches.py). There the leaves are tensors of all examples. The examples do
not depend on each other, so one walk from the sum of their results finds the gradients of each.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

from tinytensor.autograd.backward import grad as grad_of_tensors
from tinytensor.autograd.func import pytree
from tinytensor.autograd.func.batches import active, unwrap_levels, wrap_levels
from tinytensor.autograd.func.vmap import vmap
from tinytensor.core.modes import enable_grad, is_grad_enabled
from tinytensor.core.tensor import Tensor
from tinytensor.core.views import regenerate_grad_fn
from tinytensor.ops.creation import eye, ones_like, zeros, zeros_like

Argnums = int | tuple[int, ...]


class Traced:
    """A call of a function at new leaves, the results, and the way back from these."""

    def __init__(self, func: Callable, args: tuple, kwargs: dict, argnums: Argnums, has_aux: bool, what: str):
        self.what, self.levels, self.outside = what, active.levels, is_grad_enabled()
        self.inputs = _chosen(args, argnums, what)  # a tree
        self.leaves: list[Tensor] = []  # ordinary tensors, which the walks reach
        self.hidden: set[int] = set()  # ids of the leaves that only this call knows
        seen = iter([self._leaf(x) for x in pytree.tensors_of(self.inputs, what)])
        fresh = pytree.mapped(lambda _: next(seen), self.inputs)
        positions = (argnums,) if isinstance(argnums, int) else argnums
        full_args = list(args)
        for position, value in zip(positions, (fresh,) if isinstance(argnums, int) else fresh, strict=True):
            full_args[position] = value
        with enable_grad():
            result = func(*full_args, **kwargs)
        aux = None
        if has_aux:
            if not (isinstance(result, tuple) and len(result) == 2):
                raise RuntimeError(f"{what}: with has_aux=True the function must return (result, aux)")
            result, aux = result
        self.outputs, self.aux = result, aux

    def _leaf(self, x: Tensor) -> Tensor:
        if x.dtype.kind not in "fO":
            raise RuntimeError(f"{self.what}: only floating-point tensors have derivatives; this argument is {x.dtype}")
        bottom = unwrap_levels(x, self.levels)
        if bottom.requires_grad and self.outside:  # a view: what lies below it is on the tape, and stays so
            with enable_grad():
                leaf = bottom[...]
        else:
            leaf = bottom.detach().requires_grad_()
            self.hidden.add(id(leaf))
        self.leaves.append(leaf)
        return wrap_levels(leaf, self.levels)

    def leads_outside(self, tensors: Sequence[Tensor]) -> bool:
        """Was one of these ordinary tensors computed from tensors that require grad outside of this call?"""
        if not self.outside:
            return False
        for t in tensors:
            regenerate_grad_fn(t)
        todo = [t if t.node is None else t.node for t in tensors if t.requires_grad]
        seen = set()
        while todo:
            node = todo.pop()
            if node in seen or id(node) in self.hidden:
                continue
            if isinstance(node, Tensor):
                return True
            seen.add(node)
            todo += [edge for edge in node.edges if edge is not None]
        return False

    def handed_out(self, tree: Any) -> Any:
        """The results for the caller: without a tape, unless it leads to tensors of the caller that require grad."""

        def cut(y):
            if not isinstance(y, Tensor):
                return y
            return y if self.leads_outside([unwrap_levels(y, self.levels)]) else y.detach()

        return pytree.mapped(cut, tree)

    def gradients(
        self, outputs: list[Tensor], weights: list[Tensor | None], create_graph: bool, keep: bool = False
    ) -> list[Tensor]:
        """The derivatives of the weighted sum of the outputs with respect to the leaves, as ordinary tensors."""
        bottom = [unwrap_levels(y, self.levels) for y in outputs]
        starts = [None if w is None else unwrap_levels(w, self.levels) for w in weights]
        return walked(bottom, self.leaves, starts, create_graph, keep)

    def wrap_levels(self, gradients: list[Tensor]) -> list[Tensor]:
        """These tensors of all examples as the caller's tensors."""
        return [wrap_levels(g, self.levels) for g in gradients]


def walked(ys: list[Tensor], xs: list[Tensor], weights: list, create_graph: bool, keep: bool) -> list[Tensor]:
    """The derivatives of a weighted sum of ys with respect to xs; zeros where it does not depend on one of them."""
    pairs = [(y, w) for y, w in zip(ys, weights, strict=True) if y.requires_grad]
    gradients: Sequence[Tensor | None] = [None] * len(xs)
    if pairs:
        starts = [ones_like(y.detach()) if w is None else w for y, w in pairs]
        with enable_grad():
            gradients = grad_of_tensors(
                [y for y, _ in pairs], xs, starts, retain_graph=keep or create_graph, create_graph=create_graph,
                allow_unused=True,
            )  # fmt: skip
    return [zeros_like(x.detach()) if g is None else g for g, x in zip(gradients, xs, strict=True)]


def _chosen(args: tuple, argnums: Argnums, what: str) -> Any:
    """The arguments that derivatives are taken with respect to: one, or a tuple of them."""
    positions = (argnums,) if isinstance(argnums, int) else argnums
    if not isinstance(positions, tuple) or not positions or not all(isinstance(i, int) for i in positions):
        raise TypeError(f"{what}: argnums is {argnums!r}; expected a whole number or a tuple of them")
    for i in positions:
        if not -len(args) <= i < len(args):
            raise RuntimeError(f"{what}: argnums is {argnums}, but the function was called with {len(args)} arguments")
    if len({i % len(args) for i in positions}) < len(positions):
        raise RuntimeError(f"{what}: argnums is {argnums}, which names an argument twice")
    return args[argnums] if isinstance(argnums, int) else tuple([args[i] for i in positions])


def grad_and_value(func: Callable, argnums: Argnums = 0, has_aux: bool = False) -> Callable:
    """The function that returns (gradient, value), where `func` returns value, one number.

    See `grad`. With `has_aux` it returns (gradient, (value, aux)).
    """

    @functools.wraps(func)
    def derivative(*args, **kwargs):
        call = Traced(func, args, kwargs, argnums, has_aux, "grad")
        y = call.outputs
        if not isinstance(y, Tensor) or y.shape != ():
            came = f"a tensor of shape {y.shape}" if isinstance(y, Tensor) else type(y).__name__
            raise RuntimeError(f"grad: the function must return one number, a tensor of shape (); it returned {came}")
        create_graph = call.leads_outside([unwrap_levels(y, call.levels)])
        gradients = call.wrap_levels(call.gradients([y], [None], create_graph))
        gradient, value = pytree.refilled(call.inputs, gradients), call.handed_out(y)
        return (gradient, (value, call.handed_out(call.aux))) if has_aux else (gradient, value)

    return derivative


def grad(func: Callable, argnums: Argnums = 0, has_aux: bool = False) -> Callable:
    r"""The function x -> df/dx, where f returns one number (a tensor of shape ()).

        grad(lambda x: x.sin())(x)           # x.cos()
        grad(grad(lambda x: x.sin()))(x)     # -x.sin()

    The gradient has the structure of the argument number `argnums`: a tensor, or a tuple, list or dict of tensors;
    several numbers give a tuple. With `has_aux`, f returns (value, aux), and grad(f) returns (gradient, aux).
    RuntimeError if f returns more than one number, or if the argument has whole numbers.
    """
    both = grad_and_value(func, argnums, has_aux)

    @functools.wraps(func)
    def derivative(*args, **kwargs):
        gradient, value = both(*args, **kwargs)
        return (gradient, value[1]) if has_aux else gradient

    return derivative


def vjp(func: Callable, *primals: Any, has_aux: bool = False) -> tuple:
    """(f(*primals), g), or with `has_aux` (f(*primals), g, aux), where g(v) = v^T J, the product of backward.

    v has the structure of f's result, and g(v) is a tuple with an entry for each of the primals. g may be called many
    times.
    """
    call = Traced(func, primals, {}, tuple(range(len(primals))), has_aux, "vjp")
    outputs = pytree.tensors_of(call.outputs, "vjp: the function's result")

    def product(cotangents: Any, retain_graph: bool = True, create_graph: bool | None = None) -> tuple:
        """v^T J, with an entry for each of the primals."""
        vs = _like_outputs(cotangents, call.outputs, "vjp")
        create = is_grad_enabled() if create_graph is None else create_graph
        starts = [unwrap_levels(v, call.levels) for v in vs]
        create = create and (call.leads_outside([unwrap_levels(y, call.levels) for y in outputs]) or _on_tape(starts))
        gradients = call.gradients(outputs, vs, create, keep=retain_graph)
        return pytree.refilled(call.inputs, call.wrap_levels(gradients))

    value = call.handed_out(call.outputs)
    return (value, product, call.handed_out(call.aux)) if has_aux else (value, product)


def _on_tape(tensors: list[Tensor]) -> bool:
    return any(t.requires_grad for t in tensors)


def _like_outputs(values: Any, expected: Any, what: str) -> list[Tensor]:
    """The leaves of a tree that must have the structure and the shapes of another one."""
    vs, ys = pytree.tensors_of(values, what), pytree.tensors_of(expected, what)
    if [v.shape for v in vs] != [y.shape for y in ys]:
        raise RuntimeError(f"{what}: the vectors have shapes {[v.shape for v in vs]}, expected {[y.shape for y in ys]}")
    return vs


def jvp(func: Callable, primals: tuple, tangents: tuple, *, strict: bool = False, has_aux: bool = False) -> tuple:
    """(f(*primals), J t), or with `has_aux` (f(*primals), J t, aux), for tangents t of the structure of the primals.

    The engine walks backward only, so the product is the derivative of u -> u^T J, which is linear, with respect to u.
    With `strict`, a result that does not depend on the primals raises RuntimeError, instead of having zeros.
    """
    if (
        not isinstance(primals, tuple)
        or not isinstance(tangents, tuple)
        or len(primals) != len(tangents)
        or not primals
    ):
        raise RuntimeError("jvp: primals and tangents must be tuples of one length, with an entry for each argument")
    call = Traced(func, primals, {}, tuple(range(len(primals))), has_aux, "jvp")
    ts = _like_outputs(tangents, primals, "jvp")
    outputs = pytree.tensors_of(call.outputs, "jvp: the function's result")
    results = [_pushed(call, y, strict)(dict(enumerate(ts))) for y in outputs]
    value, product = call.handed_out(call.outputs), pytree.refilled(call.outputs, results)
    return (value, product, call.handed_out(call.aux)) if has_aux else (value, product)


def _pushed(call: Traced, y: Tensor, strict: bool = False) -> Callable[[dict[int, Tensor]], Tensor]:
    """The function t -> J t, where t has entries for some of the leaves: d(u^T J)/du, weighted by t."""
    bottom = unwrap_levels(y, call.levels)
    if strict and not bottom.requires_grad:
        raise RuntimeError(f"{call.what}: a result does not depend on the primals, and strict=True")
    if y.dtype.kind not in "fO":
        return lambda ts: zeros_like(y)
    u = zeros_like(bottom.detach()).requires_grad_()
    through = walked([bottom], call.leaves, [u], True, True)
    outside = call.leads_outside([bottom])

    def push(ts: dict[int, Tensor]) -> Tensor:
        starts = [unwrap_levels(t, call.levels).to(call.leaves[i].dtype) for i, t in ts.items()]
        create = outside or (call.outside and _on_tape(starts))
        return call.wrap_levels(walked([through[i] for i in ts], [u], starts, create, True))[0]

    return push


def jacrev(func: Callable, argnums: Argnums = 0, *, has_aux: bool = False, chunk_size: int | None = None) -> Callable:
    """The function that returns f's Jacobian, J[i][j] = df_i / dx_j of shape f.shape + x.shape, row by row.

    The result has the structure of f's result, and in it that of the argument (a tuple for several `argnums`). A row
    is a walk of the tape, and all rows are one walk under vmap; so this is for functions with fewer results than
    arguments, and `jacfwd` for the others. `chunk_size` limits the number of rows computed at once, and so the memory.
    ValueError if it is below 1.
    """
    if chunk_size is not None and chunk_size < 1:
        raise ValueError(f"jacrev: chunk_size is {chunk_size}; expected 1 or more, or None")
    return _jacobian("jacrev", functools.partial(_rows, chunk_size=chunk_size), func, argnums, has_aux)


def jacfwd(func: Callable, argnums: Argnums = 0, has_aux: bool = False, *, randomness: str = "error") -> Callable:
    """The same as jacrev, column by column: for functions with more results than arguments.

    A column is a walk over the derivative of u -> u^T J (see `jvp`), and all columns are one walk under vmap.
    """
    return _jacobian("jacfwd", _columns, func, argnums, has_aux)


def hessian(func: Callable, argnums: Argnums = 0) -> Callable:
    """The function that returns H[i][j] = d^2 f / dx_i dx_j: the Jacobian of the gradient.

    It is jacfwd(jacrev(f)) if f has several results, as in PyTorch, and jacrev(jacrev(f)) if it has one: the engine
    walks backward only, and there is a row for each number of the gradient.
    """
    return _jacobian("hessian", _shorter, jacrev(func, argnums), argnums, False)


def _jacobian(name: str, parts: Callable, func: Callable, argnums: Argnums, has_aux: bool) -> Callable:
    """The function that returns the Jacobian of each result of func, as `parts(call, y, xs)` gives it."""

    @functools.wraps(func)
    def derivative(*args, **kwargs):
        call = Traced(func, args, kwargs, argnums, has_aux, name)
        xs = pytree.leaves(call.inputs)
        outputs = pytree.tensors_of(call.outputs, f"{name}: the function's result")
        jacobians = [pytree.refilled(call.inputs, parts(call, y, xs)) for y in outputs]
        jacobians = pytree.refilled(call.outputs, jacobians)
        return (jacobians, call.handed_out(call.aux)) if has_aux else jacobians

    return derivative


def _units(x: Tensor) -> Tensor:
    """The unit vectors of x's space, in x's shape, one after another."""
    return eye(x.numel(), dtype=x.dtype).reshape(x.numel(), *x.shape)


def jacobians_by_rows(
    y: Tensor, xs: Sequence[Tensor], pull: Callable[[Tensor], Sequence[Tensor]], chunk_size: int | None = None
) -> list[Tensor]:
    """dy/dx for each of xs, where pull(v) = v^T J, the product of backward: a row is that of a unit vector."""
    if not y.numel():
        return [zeros(y.shape + x.shape, dtype=x.dtype) for x in xs]
    with enable_grad():
        rows = vmap(pull, randomness="same", chunk_size=chunk_size)(_units(y))
        return [_jacobian_of(r, y, x) for r, x in zip(rows, xs, strict=True)]


def _jacobian_of(rows: Tensor, y: Tensor, x: Tensor) -> Tensor:
    """dy/dx from its rows or columns, in memory of its own: zeros may be repeated, and two inputs share a gradient."""
    return rows.reshape(y.shape + x.shape).clone()


def _rows(call: Traced, y: Tensor, xs: list[Tensor], chunk_size: int | None = None) -> list[Tensor]:
    """The Jacobians of one result."""
    create = call.leads_outside([unwrap_levels(y, call.levels)])

    def pull(unit: Tensor) -> list[Tensor]:
        return call.wrap_levels(call.gradients([y], [unit], create, keep=True))

    return jacobians_by_rows(y, xs, pull, chunk_size)


def _columns(call: Traced, y: Tensor, xs: list[Tensor]) -> list[Tensor]:
    """The same, where a column is the product with a unit vector of one of the inputs."""
    push, jacobians = _pushed(call, y), []
    with enable_grad():
        for i, x in enumerate(xs):
            columns = zeros_like(x)
            if x.numel():
                columns = vmap(lambda unit, i=i: push({i: unit}), out_dims=-1, randomness="same")(_units(x))
            jacobians.append(_jacobian_of(columns, y, x))
    return jacobians


def _shorter(call: Traced, y: Tensor, xs: list[Tensor]) -> list[Tensor]:
    """The same by rows or by columns, by which there are fewer of."""
    return (_rows if y.numel() <= sum(x.numel() for x in xs) else _columns)(call, y, xs)
