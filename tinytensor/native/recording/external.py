"""Tensors from outside a recording: their state before the run, and the gradients that a replay leaves at them.

A step reads and changes tensors that it did not make: parameters and their gradients. Their state before the run is a
condition of the replay (`TensorSnapshot`). Each replay must leave the gradients that the run left (`BorrowedGrad`,
core/tensor.py).
"""


class TensorSnapshot:
    """A tensor from outside a recording, as it was before its first use there.

    If it had a gradient, the gradient is an input of the run: the recording works on its own copy, the stand-in. But
    most training steps begin with zero_grad(). A gradient that is replaced before anything reads it has no effect, so
    the first step, which finds no gradient, also serves for all later ones.
    """

    def __init__(self, tensor):
        self.tensor = tensor
        self.data, self.version = tensor._data, tensor._version.count
        self.requires_grad, self.hooks = tensor._requires_grad, _hooks(tensor)
        self.gradient_matters: bool | None = None  # unknown until the run looks at it or replaces it
        self.stand_in = None
        self.dtype = None  # of its gradient: NumPy's dtype, which is one object for each kind
        self.grad = grad = tensor.held_grad()
        if grad is not None:
            self.dtype = grad._data.dtype
            self.stand_in = tensor._grad = type(grad).of(grad._data.copy())

    def is_unchanged(self) -> bool:
        """Does the tensor have the same memory, flags and hooks as before the run?

        Its values may have changed: a replay reads them from the same memory. But the program holds the address of that
        memory, and the launches depend on whether the tensor had a gradient.
        """
        tensor = self.tensor
        if tensor._data is not self.data or tensor._requires_grad is not self.requires_grad:
            return False
        if self.gradient_matters is not False:
            grad = tensor._grad  # a gradient that a replay left has an array too
            if (None if grad is None else grad._data.dtype) is not self.dtype:
                return False
        return _hooks(tensor) == self.hooks


def _hooks(tensor) -> list:
    """All hooks that run when the tensor's gradient is known."""
    return [*(tensor._hooks or ()), *tensor._post_accumulate_grad_hooks]


def are_unchanged(all_seen: list[TensorSnapshot]) -> bool:
    """Is each of these tensors as it was? Tensors without hooks and without a relevant gradient are checked inline."""
    for seen in all_seen:
        tensor = seen.tensor
        plain = seen.gradient_matters is False and tensor._hooks is None and not seen.hooks
        if plain and tensor._data is seen.data and tensor._requires_grad is seen.requires_grad:
            continue
        if not seen.is_unchanged():
            return False
    return True
