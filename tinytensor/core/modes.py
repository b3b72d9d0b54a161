"""Grad modes: the contexts and functions that switch the tape off and on, such as no_grad().

The switch itself is `state.grad` (dispatch.py), one for each thread: a thread that evaluates a model does not disturb
another that trains it. Each operation reads the switch once.
"""

from collections.abc import Callable
from typing import Any

from tinytensor.core.dispatch import state
from tinytensor.core.switches import Switch


class no_grad(Switch):
    """Compute without the tape (a context, or a decorator of a function or a generator).

    Results then have no node and do not require grad, even where their inputs do, and nothing is kept for a backward
    pass. This is for evaluation, and for changing parameters in place, which the tape would refuse.
    """

    field, value = "grad", False

    def __new__(cls, function: Callable | None = None) -> Any:
        return super().__new__(cls) if function is None else cls()(function)  # @no_grad is @no_grad()


class enable_grad(no_grad):
    """Compute with the tape, inside no_grad() too.

    backward() runs without the tape; where it needs the definition of a fused operation, it runs that under this mode.
    """

    value = True


class set_grad_enabled(no_grad):
    """Switch the tape on or off (a function, a context or a decorator).

    The call does not show whether it is meant as a function, which must act at once, or as a context. So it always acts
    at once; a context or decorator then restores the earlier mode, and switches when it is entered.
    """

    def __new__(cls, mode: bool):
        return super().__new__(cls)

    def __init__(self, mode: bool):
        super().__init__()
        self.value, self.outside = bool(mode), state.grad
        state.grad = self.value

    def __enter__(self):
        state.grad = self.outside  # so that the end of the context restores the mode from before the call
        return super().__enter__()

    def _recreate_cm(self):
        return self.__class__(self.value)

    def __call__(self, function: Callable) -> Callable:
        state.grad = self.outside
        return super().__call__(function)


inference_mode = no_grad  # PyTorch's has more rules, all for speed; the results are the same


def is_grad_enabled() -> bool:
    """Are operations put on the tape?

    Even then a result gets a node only if one of its inputs requires grad.
    """
    if state.reading is not None:
        state.reading.refuse("the code asks whether gradients are wanted")
    return state.grad
