"""The derivatives of some values by others: `backward` adds them to `.grad` of the leaves, `grad` returns them.

Both walk the tape (core/tape.py); `grad`, and `backward` with `inputs`, walk only the part that leads to the inputs.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Literal, overload

from tinytensor.autograd.accumulate_grad import accumulate_grad
from tinytensor.autograd.seed import seed_of
from tinytensor.core.dispatch import state
from tinytensor.core.graph import between
from tinytensor.core.op import Node
from tinytensor.core.post_accumulate_hooks import completed_by
from tinytensor.core.registry import register
from tinytensor.core.tape import Observer, backward_pass
from tinytensor.core.tensor import Tensor
from tinytensor.core.views import regenerate_grad_fn
from tinytensor.ops.arguments import list_of_tensors
from tinytensor.ops.creation import zeros_like


class _Callbacks(threading.local):
    """The functions that this thread's walk will call."""

    def __init__(self):
        self.endings: list[Callable] = []  # called when the walk has ended


_callbacks = _Callbacks()


def queue_callback(function: Callable[[], None]) -> None:
    """Call `function()` at the end of the present walk; hooks call this."""
    _callbacks.endings.append(function)


@contextmanager
def callbacks_at_end() -> Iterator[None]:
    """A context around a walk; if the walk ends without an exception, the functions of `queue_callback` are called."""
    _callbacks.endings = []  # drops functions of an earlier walk that an exception has ended
    yield
    for function in _callbacks.endings:
        function()


def _wanted(inputs: Tensor | Sequence[Tensor], what: str) -> list[Tensor]:
    """The inputs as a list, after a check that each of them requires grad."""
    inputs = [inputs] if isinstance(inputs, Tensor) else list(list_of_tensors(inputs, f"{what}: inputs"))
    if not inputs:
        raise ValueError(f"{what}: the list of inputs is empty; give the tensors whose gradients are wanted")
    for x in inputs:
        regenerate_grad_fn(x)
    if any(not x.requires_grad for x in inputs):
        raise RuntimeError(f"{what}: an input does not require grad; call requires_grad_() before it is used")
    return inputs


def _on_the_way(outputs: Sequence[Tensor], inputs: Tensor | Sequence[Tensor]) -> set[Node | Tensor]:
    """The nodes that backward(inputs=...) walks; computed tensors among the inputs keep their gradient from now on."""
    inputs = _wanted(inputs, "backward")
    for x in inputs:
        x.retain_grad()
    return between(outputs, inputs)


@register("Tensor.backward")
def backward_of(
    self: Tensor,
    gradient: Tensor | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Tensor | Sequence[Tensor] | None = None,
) -> None:
    """Add the derivative of this number to `.grad` of every leaf it was computed from, or only of `inputs`.

    `gradient` is the gradient to start from if this is not one number. The tape is freed as it is walked unless
    `retain_graph`; with `create_graph` the gradients are on the tape themselves.
    """
    # With create_graph this part of the tape is walked again when the gradient is differentiated.
    retain = create_graph if retain_graph is None else retain_graph
    seed = seed_of(self, gradient, "backward")
    useful = None if inputs is None else _on_the_way([self], inputs)
    observer = Observer(accumulate_grad(create_graph), completed_by=completed_by([self]))
    with callbacks_at_end():  # calls the functions that hooks have queued for the end
        backward_pass([self], [seed], retain, create_graph, observer, useful)


def backward(
    tensors: Tensor | Sequence[Tensor],
    grad_tensors: Tensor | Sequence[Tensor | None] | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Tensor | Sequence[Tensor] | None = None,
) -> None:
    """Add the derivative of several numbers' sum to `.grad` of every leaf, or only of `inputs`.

    Each of the tensors is weighted by its grad_tensor, which may be None for a tensor of one number.
    """
    tensors = [tensors] if isinstance(tensors, Tensor) else list(list_of_tensors(tensors, "backward: tensors"))
    starts = [grad_tensors] if isinstance(grad_tensors, Tensor) else grad_tensors
    starts = [None] * len(tensors) if starts is None else list(starts)
    seeds = [seed_of(y, g, "backward") for y, g in zip(tensors, starts, strict=True)]
    retain = create_graph if retain_graph is None else retain_graph
    useful = None if inputs is None else _on_the_way(tensors, inputs)
    observer = Observer(accumulate_grad(create_graph), completed_by=completed_by(tensors))
    with callbacks_at_end():
        backward_pass(tensors, seeds, retain, create_graph, observer, useful)


@overload
def grad(
    outputs: Tensor | Sequence[Tensor],
    inputs: Tensor | Sequence[Tensor],
    grad_outputs: Tensor | Sequence[Tensor | None] | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: Literal[False] | None = None,
    materialize_grads: bool = False,
) -> tuple[Tensor, ...]: ...
@overload
def grad(
    outputs: Tensor | Sequence[Tensor],
    inputs: Tensor | Sequence[Tensor],
    grad_outputs: Tensor | Sequence[Tensor | None] | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    *,
    materialize_grads: Literal[True],
) -> tuple[Tensor, ...]: ...
@overload
def grad(
    outputs: Tensor | Sequence[Tensor],
    inputs: Tensor | Sequence[Tensor],
    grad_outputs: Tensor | Sequence[Tensor | None] | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    materialize_grads: bool = False,
) -> tuple[Tensor | None, ...]: ...
def grad(
    outputs: Tensor | Sequence[Tensor],
    inputs: Tensor | Sequence[Tensor],
    grad_outputs: Tensor | Sequence[Tensor | None] | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    materialize_grads: bool = False,
) -> tuple[Tensor | None, ...]:
    """The derivatives of outputs by inputs, returned instead of added to `.grad`.

    Several outputs count as their sum, each weighted by its grad_output. Only nodes between an output and an input are
    walked, so a few gradients of a large graph are cheap, and the `.grad` of parameters stays as it is. Inputs may be
    leaves or computed tensors. An input that the outputs do not depend on raises, unless `allow_unused`: then its
    gradient is None, or zeros with `materialize_grads`. (`only_inputs` is always so.)
    """
    if state.reading is not None:
        state.reading.refuse("the tape is used inside of the function")
    if not only_inputs:
        raise ValueError("grad: only_inputs=False is not offered; call backward() for the gradients of all leaves")
    if materialize_grads and allow_unused is False:
        raise ValueError("grad: materialize_grads=True gives zeros for unused inputs, which allow_unused=False forbids")
    outputs = [outputs] if isinstance(outputs, Tensor) else list(list_of_tensors(outputs, "grad: outputs"))
    inputs = _wanted(inputs, "grad")
    starts = [grad_outputs] if isinstance(grad_outputs, Tensor) else grad_outputs
    starts = [None] * len(outputs) if starts is None else list(starts)
    # An input is found where its gradient arrives: at itself if it is a leaf, else at the node that made it.
    seeds = [seed_of(y, g, "grad") for y, g in zip(outputs, starts, strict=True)]
    gradients: list[Tensor | None] = [None] * len(inputs)
    wanted: dict[Node | Tensor, list[int]] = {}  # an input may be given twice
    for i, x in enumerate(inputs):
        wanted.setdefault(x if x.node is None else x.node, []).append(i)

    def keep(target: Node | Tensor, g: Tensor, owned: bool) -> None:
        for i in wanted.get(target, ()):
            gradients[i] = g

    retain = create_graph if retain_graph is None else retain_graph
    freed: list[Node] = []
    useful = between(outputs, inputs, freed)
    backward_pass(outputs, seeds, retain, create_graph, Observer(keep), useful)
    if freed and any(g is None for g in gradients):  # the freed nodes may have led to the inputs
        raise RuntimeError(
            f"grad: a part of the tape ({freed[0].op.name}) was freed by an earlier backward() or grad(); call that "
            "one with retain_graph=True to walk it twice"
        )
    if materialize_grads:
        return tuple(zeros_like(x) if g is None else g for g, x in zip(gradients, inputs))
    if not allow_unused and any(g is None for g in gradients):
        unused = [i for i, g in enumerate(gradients) if g is None]
        raise RuntimeError(
            f"grad: the outputs do not depend on the inputs number {unused}; allow_unused=True gives None"
        )
    return tuple(gradients)
