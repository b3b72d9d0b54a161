"""Generator: the source of random numbers, and the one that is used where none is given."""

import numpy as np

from tinytensor.core.devices import check_device
from tinytensor.core.dispatch import host, state


class Generator:
    """A source of random numbers with a state that can be saved.

    NumPy's PCG64, and for dropout a stream of numbered draws that kernels make themselves (native/kernels/random.py).
    The numbers are not PyTorch's for the same seed; their distributions are. Where several processes have equal parts
    of a batch, `part` is the number of this one's: dropout then draws for it what one process would draw there.
    """

    def __init__(self, device: str = "cpu"):
        check_device(device, "Generator")
        self.numpy = np.random.Generator(np.random.PCG64())
        self.stream = np.array([self.numpy.integers(2**32), 0, 0])  # a key of 32 bits, number of the next draw, part

    @property
    def part(self) -> int:
        """Which part of a batch is here; no part of the state, for each process has its own."""
        return int(self.stream[2])

    @part.setter
    def part(self, number: int):
        self.stream[2] = number

    def manual_seed(self, seed: int) -> "Generator":
        """Start the sequence that belongs to `seed`; returns the generator."""
        try:
            seed = int(seed) % 2**64
        except (TypeError, ValueError, OverflowError):
            raise TypeError(f"manual_seed: expected a whole number, got {seed!r}") from None
        host(self._go_to, np.random.PCG64(seed).state | {"stream": [seed % 2**32 ^ seed >> 32, 0]})
        return self

    def _go_to(self, position: dict) -> None:
        self.numpy.bit_generator.state = {name: value for name, value in position.items() if name != "stream"}
        self.stream[:2] = position["stream"]

    def get_state(self) -> dict:
        """The position in the sequence, as plain numbers (JSON can hold them)."""
        return self.numpy.bit_generator.state | {"stream": self.stream[:2].tolist()}

    def set_state(self, new_state: dict) -> "Generator":
        """Go on from a position that `get_state` returned."""
        host(self._go_to, new_state)
        return self


default_generator = Generator()


def manual_seed(seed: int) -> Generator:
    """Seed the generator that is used where none is given."""
    return default_generator.manual_seed(seed)


def drawn_from(what: str, generator: Generator | None) -> Generator:
    """The generator that the operation `what` draws from now; recordings and proofs are notified."""
    generator = default_generator if generator is None else generator
    if state.on_random is not None:
        state.on_random(what, generator)
    return generator
