"""Tensors from outside a recording: how the run found them, and what a replay leaves at them.

A step reads and changes what it did not make: parameters, their gradients. How these were found is a condition of the
replay (`Seen`), and what the run left there, each replay must leave there too (`Left`, of core/interchange.py).
"""


class Seen:
    """A tensor from outside a recording, as it was before its first use there.

    A gradient that it had is an input of the run: the recording works on a copy of its own, the stand-in. But most
    training steps begin with zero_grad(): a gradient that is replaced before anything has looked at it might as well
    not have been there, and the first step, which meets none, serves for all later ones.
    """

    def __init__(self, tensor):
        self.tensor = tensor
        self.data, self.version = tensor._data, tensor._version.count
        self.requires_grad, self.hooks = tensor._requires_grad, _hooks(tensor)
        self.gradient_matters: bool | None = None  # unknown until the run looks at it or replaces it
        self.stand_in = None
        self.dtype = None  # of its gradient: NumPy's, of which there is one object each
        self.grad = grad = tensor.held_grad()
        if grad is not None:
            self.dtype = grad._data.dtype
            self.stand_in = tensor._grad = type(grad).of(grad._data.copy())

    def is_as_it_was(self) -> bool:
        """Does the tensor stand where it stood, and will backward() find there what it found?

        Its values may be others: a replay reads them where they lie. But the program has the address of the memory, and
        whether a gradient was there decided which launches were made.
        """
        tensor = self.tensor
        if tensor._data is not self.data or tensor._requires_grad is not self.requires_grad:
            return False
        if self.gradient_matters is not False:
            grad = tensor._grad  # one that was left by a replay has an array too
            if (None if grad is None else grad._data.dtype) is not self.dtype:
                return False
        return _hooks(tensor) == self.hooks


def _hooks(tensor) -> list:
    """All that is called when the tensor's gradient is there."""
    return [*(tensor._hooks or ()), *tensor._awaited_by]


def are_as_they_were(all_seen: list[Seen]) -> bool:
    """Is each of these tensors as it was? Those that have neither hooks nor a gradient that matters need no call."""
    for seen in all_seen:
        tensor = seen.tensor
        plain = seen.gradient_matters is False and tensor._hooks is None and not seen.hooks
        if plain and tensor._data is seen.data and tensor._requires_grad is seen.requires_grad:
            continue
        if not seen.is_as_it_was():
            return False
    return True
