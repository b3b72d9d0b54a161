"""A tensor that stands for one example of a batch, while its memory holds all examples: what vmap's functions get.

    one = batched(x, level)      # x has shape (B, 3), `one` has shape (3,)

The function computes with `one` as with any tensor of shape (3,). Each operation is done for all examples at once by a
rule (batching_rules.py), which names the operation on the tensors of all examples. Without a rule there are three other
ways, each with the right result, and each slower than the one before: the operation's definition in simpler operations;
the operation, called for each example in turn; and the public function that looked at values, called for each example.

Only the tensors of all examples are on the tape. So gradients need no rules here: the walk sees ordinary operations.
A walk itself may carry a batch of gradients, such as the rows of a Jacobian: then these are the examples.
A vmap inside another one makes a batch of a batch: the value of its tensors is a tensor of the outer batch.
"""

import itertools
import operator
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, NoReturn

from tinytensor.autograd.func import pytree
from tinytensor.core import late_bound
from tinytensor.core.batched_data import ADVICE, BatchedData
from tinytensor.core.op import OPS, Op
from tinytensor.core.tensor import Tensor
from tinytensor.ops.in_place import copy_
from tinytensor.ops.shape import expand, movedim, slice_op, stack


class VmapLevel(NamedTuple):
    """One vmap that is running: its number, which is larger than those of the vmaps around it, and its examples'."""

    number: int
    size: int


_numbers = itertools.count()


class ActiveLevels(threading.local):
    """The levels of this thread, the outermost first."""

    def __init__(self):
        self.levels: tuple[VmapLevel, ...] = ()


active = ActiveLevels()


@contextmanager
def level_of(size: int) -> Iterator[VmapLevel]:
    """A context in which a further vmap runs."""
    before = active.levels
    active.levels = (*before, VmapLevel(next(_numbers), size))
    try:
        yield active.levels[-1]
    finally:
        active.levels = before


class Batched(Tensor):
    """A tensor that stands for one example; `value` has all of them, along its first dimension."""

    __slots__ = ("level", "value")

    def _values(self, what: str) -> NoReturn:
        raise late_bound.NeedsValues(
            f"{what} inside vmap: the tensor stands for all {self.level.size} examples, whose values differ; {ADVICE}"
        )

    @property
    def requires_grad(self) -> bool:
        """Is the gradient of the examples wanted?"""
        return self.value.requires_grad

    def detach(self) -> Tensor:
        """The same examples outside the tape."""
        return batched(self.value.detach(), self.level)

    data = property(detach)

    def _refuse(self, *args, **kwargs) -> NoReturn:
        raise RuntimeError(
            "inside vmap a tensor has no place of its own on the tape; take derivatives with tinytensor.func.grad"
        )

    backward = requires_grad_ = register_hook = retain_grad = _refuse
    grad = property(_refuse, _refuse)

    def __repr__(self) -> str:
        return f"one of {self.level.size} examples, of shape {self.shape}, from\n{self.value!r}"

    _repr_html_ = None


def batched(value: Tensor, level: VmapLevel) -> Batched:
    """The tensor that stands for each of the examples along the first dimension of `value`."""
    one: Batched = object.__new__(Batched)
    Tensor.of(BatchedData(value.shape[1:], value._data.dtype), value._requires_grad, one)
    one.value, one.level, one._version = value, level, value._version
    return one


def repeated(x: Tensor, size: int) -> Tensor:
    """x as a batch of equal examples, without a copy."""
    return expand(x, (size, *x.shape))


def all_examples(x: Tensor, level: VmapLevel) -> Tensor:
    """The tensor of all examples, of x or of equal ones."""
    return x.value if isinstance(x, Batched) and x.level is level else repeated(x, level.size)


def unwrap_levels(x: Tensor, levels: tuple[VmapLevel, ...]) -> Tensor:
    """The tensor behind x, with a dimension in front for each of the levels, the outermost first.

    It is an ordinary one, unless x is a batch of a vmap inside of these levels: then so is the result.
    """
    if _is_inside(x, levels):
        return batched(movedim(unwrap_levels(x.value, levels), len(levels), 0), x.level)
    for level in reversed(levels):
        x = all_examples(x, level)
    if isinstance(x, Batched):
        raise RuntimeError("vmap: a tensor of a vmap that has ended was used; return it from the function instead")
    return x


def wrap_levels(x: Tensor, levels: tuple[VmapLevel, ...]) -> Tensor:
    """The inverse: a tensor with dimensions in front, as a tensor inside these levels."""
    if _is_inside(x, levels):
        return batched(wrap_levels(movedim(x.value, 0, len(levels)), levels), x.level)
    for level in levels:
        x = batched(x, level)
    return x


def _is_inside(x: Tensor, levels: tuple[VmapLevel, ...]) -> bool:
    """Is x a batch of a running vmap that is inside of these levels?"""
    return isinstance(x, Batched) and x.level in active.levels and x.level not in levels


# ------------------------------------------------------------------------------------- operations on such tensors

FORMULA = "a formula"  # the place of the rule of all formulas
RULES: dict[str, Callable] = {}  # by the operation's name: rule(op, size, args, which), see batching_rules.py


def innermost(values: Iterable) -> VmapLevel:
    """The innermost level of the tensors among these values."""
    level = max((v.level for v in values if isinstance(v, Batched)), key=lambda level: level.number)
    if level not in active.levels:
        raise RuntimeError("vmap: a tensor of a vmap that has ended was used; return it from the function instead")
    return level


def run(op: Op, args: tuple, into: Tensor | None = None) -> Any:
    """An operation with a tensor that has no array: a batch, or a shape without values, which raises."""
    for a in args:
        if isinstance(a, Tensor) and a.is_meta:
            raise RuntimeError(f"{op.name}: a meta tensor has a shape {a.shape}, but no values")
    level = innermost(args)
    which = [isinstance(a, Batched) and a.level is level for a in args]
    values = [a.value if here else a for a, here in zip(args, which, strict=True)]
    y = _rule(op)(op, level.size, values, which)
    if y is NotImplemented:
        y = _fallback(op, level.size, values, which)
    return batched(y, level) if isinstance(y, Tensor) else tuple([batched(r, level) for r in y])


def _rule(op: Op) -> Callable:
    """The rule of an operation; one of the user's may have the name of another, and has a rule if it is a formula."""
    if OPS.get(op.name) is op:
        return RULES.get(op.name, _fallback)
    return RULES[FORMULA] if op.kernel is not None else _fallback


def _fallback(op: Op, size: int, args: list, which: list[bool]):
    """An operation without a rule: by its definition if it has one, else for each example in turn."""
    if op.definition is not None and size:
        with level_of(size) as level:
            y = op.definition(*[batched(a, level) if here else a for a, here in zip(args, which, strict=True)])
        return all_examples(y, level)
    rows = [op(*[slice_op(a, (i,)) if here else a for a, here in zip(args, which, strict=True)]) for i in range(size)]
    return stack_results(rows, op.name)


def stack_results(rows: list, what: str) -> Any:
    """The results for each example, stacked; RuntimeError if they differ in shape, or if there are no examples."""
    if not rows:
        raise RuntimeError(f"{what}: vmap has no example, and this operation shows its result's shape only by running")
    firsts = pytree.leaves(rows[0])
    if not all(leaf is None or isinstance(leaf, Tensor) for leaf in firsts):
        raise late_bound.NeedsValues(f"{what} inside vmap: its result is no tensor, and differs by example; {ADVICE}")
    columns = list(zip(*map(pytree.leaves, rows), strict=True))
    for column in columns:
        if len(shapes := {str(getattr(y, "shape", None)) for y in column}) > 1:
            shapes = " and ".join(sorted(shapes))
            raise RuntimeError(f"{what} inside vmap: the examples have results of shapes {shapes}, which make no batch")
    return pytree.refilled(rows[0], [None if column[0] is None else stack(column) for column in columns])


def for_each_example(function: Callable, args: tuple, kwargs: dict, name: str) -> Any:
    """function(*args, **kwargs), called for each example of the innermost level, with the results as a batch.

    `name` is the function's public one: add_ and iadd change their first argument, which must have the examples then.
    """
    leaves = pytree.leaves((args, kwargs))
    level = innermost(leaves)
    changes = name.endswith("_") or name == "setitem" or (name[0] == "i" and hasattr(operator, f"__{name[1:]}__"))
    if changes and not (isinstance(args[0], Batched) and args[0].level is level):
        raise late_bound.NeedsValues(_of_another_batch(level))
    rows, before = [], active.levels
    active.levels = tuple([one for one in before if one is not level])
    try:
        for i in range(level.size):
            example = [slice_op(v.value, (i,)) if isinstance(v, Batched) and v.level is level else v for v in leaves]
            my_args, my_kwargs = pytree.refilled((args, kwargs), example)
            rows.append(function(*my_args, **my_kwargs))
        y = stack_results(rows, name)
    finally:
        active.levels = before
    return pytree.mapped(lambda leaf: batched(leaf, level) if isinstance(leaf, Tensor) else leaf, y)


def change(x: Tensor, y: Tensor) -> Tensor:
    """A change in place where x or y is a batch: the examples of x take over the values of those of y."""
    level = innermost((x, y))
    if not (isinstance(x, Batched) and x.level is level):
        raise late_bound.NeedsValues(_of_another_batch(level))
    copy_(x.value, all_examples(y, level) if y.shape == x.shape else y)
    x._requires_grad = x.value._requires_grad
    return x


def _of_another_batch(level: VmapLevel) -> str:
    return (
        f"in place: inside vmap, a tensor that all {level.size} examples share can't take over values that differ by "
        "example; use an operation that makes a new tensor, or map over this tensor too"
    )


late_bound.on_shapes, late_bound.change_batch, late_bound.for_each_example = run, change, for_each_example
