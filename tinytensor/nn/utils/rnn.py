"""Sequences of different lengths: padded to one length, or packed without the padding, as in PyTorch.

A packed batch has the steps one below the other: first the first step of every sequence, then the second step of every
sequence that has one, and so on. So the sequences are sorted by length, the longest first, and step t has the first
batch_sizes[t] of them.
"""

from collections.abc import Iterable
from itertools import accumulate, pairwise
from typing import NamedTuple

from tinytensor.core.dtypes import int64
from tinytensor.core.tensor import Tensor
from tinytensor.ops.creation import as_tensor, full, tensor
from tinytensor.ops.shape import cat, stack


class _Packed(NamedTuple):
    """The four parts of a PackedSequence."""

    data: Tensor
    batch_sizes: Tensor
    sorted_indices: Tensor | None
    unsorted_indices: Tensor | None


class PackedSequence(_Packed):
    """A batch of sequences without padding; pack_padded_sequence() and pack_sequence() make it.

    `data` (sum of the lengths, ...) has the steps one below the other; `batch_sizes[t]` (int64) is the number of
    sequences with a step t. Row i of the batch was sequence sorted_indices[i], and sequence i is row
    unsorted_indices[i]; both are None if the sequences came sorted by length. The sizes are values of a tensor that
    decide which launches are made, so a compiled step that packs runs without a recording.
    """

    def __new__(
        cls,
        data: Tensor,
        batch_sizes: Tensor | None = None,
        sorted_indices: Tensor | None = None,
        unsorted_indices: Tensor | None = None,
    ):
        if batch_sizes is None:  # PyTorch takes PackedSequence((data, batch_sizes)) as well
            if not (isinstance(data, tuple | list) and len(data) == 2):
                raise TypeError("PackedSequence: expected data and batch_sizes; pack_padded_sequence() makes both")
            data, batch_sizes = data
        if unsorted_indices is None:
            unsorted_indices = invert_permutation(sorted_indices)
        return super().__new__(cls, data, batch_sizes, sorted_indices, unsorted_indices)

    def to(self, *args, **kwargs) -> "PackedSequence":
        """With `data` in another dtype; itself if `data` has it already."""
        data = self.data.to(*args, **kwargs)
        return self if data is self.data else type(self)(data, *self[1:])

    def cpu(self) -> "PackedSequence":
        """Itself: everything is on the CPU."""
        return self

    pin_memory = cpu

    def double(self) -> "PackedSequence":
        """With `data` as float64."""
        return type(self)(self.data.double(), *self[1:])

    def float(self) -> "PackedSequence":
        """With `data` as float32."""
        return type(self)(self.data.float(), *self[1:])

    def long(self) -> "PackedSequence":
        """With `data` as int64."""
        return type(self)(self.data.long(), *self[1:])

    def int(self) -> "PackedSequence":
        """With `data` as int32."""
        return type(self)(self.data.int(), *self[1:])

    @property
    def is_cuda(self) -> bool:
        """No."""
        return False


def invert_permutation(permutation: Tensor | None) -> Tensor | None:
    """The permutation that undoes this one; None for None."""
    return None if permutation is None else permutation.argsort()


def sizes_of(what: str, packed: PackedSequence) -> list[int]:
    """The number of sequences in each step, after a check that the numbers fit the data."""
    if not isinstance(packed, PackedSequence):
        raise TypeError(
            f"{what}: expected a PackedSequence, got {type(packed).__name__}; pack_padded_sequence() makes one"
        )
    sizes = packed.batch_sizes.tolist()
    falling = all(a >= b for a, b in pairwise(sizes))
    if not sizes or sizes[-1] < 1 or not falling or sum(sizes) != packed.data.shape[0]:
        raise RuntimeError(
            f"{what}: batch_sizes {sizes} for data of shape {packed.data.shape}: expected numbers that never increase, "
            "whose sum is the number of rows; pack_padded_sequence() makes them"
        )
    return sizes


def _lengths(what: str, lengths, rows: int, most: int) -> list[int]:
    """The lengths of `rows` sequences, after a check that each is from 1 to `most`."""
    numbers = as_tensor(lengths, dtype=int64).tolist()
    if not isinstance(numbers, list) or len(numbers) != rows:
        raise RuntimeError(f"{what}: expected one length for each of {rows} sequences, got lengths {numbers}")
    if not all(0 < n <= most for n in numbers):
        raise RuntimeError(f"{what}: each length must be from 1 to {most}, the steps that the input has, got {numbers}")
    return numbers


def pack_padded_sequence(
    input: Tensor, lengths: Tensor | Iterable[int], batch_first: bool = False, enforce_sorted: bool = True
) -> PackedSequence:
    """The steps of padded sequences without the padding.

    input (L, N, ...), or (N, L, ...) if `batch_first`; `lengths` has N whole numbers from 1 to L. They must fall,
    unless `enforce_sorted` is False: then the sequences are sorted, and the result stores their original order.
    """
    what = "pack_padded_sequence"
    if not isinstance(input, Tensor) or input.ndim < 2:
        came = f"shape {input.shape}" if isinstance(input, Tensor) else type(input).__name__
        raise RuntimeError(f"{what}: expected a tensor (L, N, ...), or (N, L, ...) with batch_first, got {came}")
    x = input.transpose(0, 1) if batch_first else input
    L, N = x.shape[:2]
    lengths = _lengths(what, lengths, N, L)
    if not N:
        raise RuntimeError(f"{what}: input of shape {input.shape} has no sequences")
    order = sorted(range(N), key=lambda i: -lengths[i])  # a stable sort: equal lengths keep their order
    if enforce_sorted and [lengths[i] for i in order] != lengths:
        raise RuntimeError(f"{what}: the lengths must fall, got {lengths}; sort them, or pass enforce_sorted=False")
    index = [t * N + i for t in range(max(lengths)) for i in order if lengths[i] > t]
    sizes = [sum(n > t for n in lengths) for t in range(max(lengths))]
    data = x.flatten(0, 1)[tensor(index)]
    return PackedSequence(data, tensor(sizes), None if enforce_sorted else tensor(order))


def pad_packed_sequence(
    sequence: PackedSequence, batch_first: bool = False, padding_value: float = 0.0, total_length: int | None = None
) -> tuple[Tensor, Tensor]:
    """The padded sequences (L, N, ...), or (N, L, ...) if `batch_first`, in their original order, and their lengths.

    L is the longest length, or `total_length`; places after a sequence's end hold `padding_value`.
    """
    what = "pad_packed_sequence"
    sizes = sizes_of(what, sequence)
    L = len(sizes) if total_length is None else total_length
    if len(sizes) > L:
        raise ValueError(f"{what}: total_length {L} is less than the longest sequence, which has {len(sizes)} steps")
    data, N = sequence.data, sizes[0]
    rows = range(N) if sequence.unsorted_indices is None else sequence.unsorted_indices.tolist()
    if sorted(rows) != list(range(N)):
        raise RuntimeError(f"{what}: unsorted_indices {list(rows)} do not order {N} sequences")
    padding = len(data)  # the index of the padding row, which is appended to the data
    begins = [0, *accumulate(sizes)]
    index = [[begin + i if i < n else padding for i in rows] for begin, n in zip(begins, sizes, strict=False)]
    index += [[padding] * N] * (L - len(sizes))
    filled = full((1, *data.shape[1:]), padding_value, dtype=data.dtype)
    y = cat([data, filled])[tensor(index)]
    lengths = tensor([sum(n > i for n in sizes) for i in rows])
    return y.transpose(0, 1) if batch_first else y, lengths


def pad_sequence(
    sequences: Tensor | Iterable[Tensor],
    batch_first: bool = False,
    padding_value: float = 0.0,
    padding_side: str = "right",
) -> Tensor:
    """Sequences (L_i, ...) as one tensor (L, N, ...), or (N, L, ...) if `batch_first`, where L is the longest length.

    Shorter ones are filled with `padding_value` at the end, or at the beginning if `padding_side` is "left".
    """
    what, sequences = "pad_sequence", list(sequences)
    if padding_side not in ("right", "left"):
        raise ValueError(f"{what}: padding_side must be 'right' or 'left', got {padding_side!r}")
    if not sequences or not all(isinstance(s, Tensor) and s.ndim for s in sequences):
        raise RuntimeError(f"{what}: expected tensors of one dimension or more, got {sequences}")
    rest = sequences[0].shape[1:]
    if any(s.shape[1:] != rest for s in sequences):
        raise RuntimeError(
            f"{what}: sequences of shapes {[s.shape for s in sequences]} may differ in their first dimension only"
        )
    L, rows = max(len(s) for s in sequences), []
    for s in sequences:
        if len(s) < L:
            filled = full((L - len(s), *rest), padding_value, dtype=s.dtype)
            s = cat([s, filled] if padding_side == "right" else [filled, s])
        rows.append(s)
    return stack(rows, 0 if batch_first else 1)


def unpad_sequence(padded_sequences: Tensor, lengths: Tensor, batch_first: bool = False) -> list[Tensor]:
    """The sequences of a padded tensor (L, N, ...), or (N, L, ...) if `batch_first`, each with its own length."""
    x = padded_sequences if batch_first else padded_sequences.transpose(0, 1)
    lengths = _lengths("unpad_sequence", lengths, *x.shape[:2])
    return [row[:n] for row, n in zip(x, lengths, strict=True)]


def pack_sequence(sequences: Iterable[Tensor], enforce_sorted: bool = True) -> PackedSequence:
    """Sequences (L_i, ...) packed; their lengths must fall, unless `enforce_sorted` is False."""
    sequences = list(sequences)
    padded = pad_sequence(sequences)
    return pack_padded_sequence(padded, [len(s) for s in sequences], enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences: PackedSequence) -> list[Tensor]:
    """The packed sequences, in their original order."""
    return unpad_sequence(*pad_packed_sequence(packed_sequences, batch_first=True), batch_first=True)
