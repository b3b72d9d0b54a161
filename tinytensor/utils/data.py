"""Data in batches: datasets, samplers that order their samples, and the loader that makes batches of them.

Names and meaning are PyTorch's. All work is done in this process: the options for workers are accepted and have no
effect. The order comes from the generator, so that `manual_seed` repeats it.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, chain, islice
from math import floor
from typing import Any

import numpy as np

from tinytensor.core.dtypes import float64
from tinytensor.core.tensor import Tensor
from tinytensor.ops.creation import from_numpy, randint, randperm, tensor
from tinytensor.ops.generator import Generator
from tinytensor.ops.order import multinomial
from tinytensor.ops.shape import stack

# --- Datasets


class _ByType:
    """`Dataset[Tensor]` in annotations and base classes is the class itself."""

    def __class_getitem__(cls, parameters) -> type:
        return cls


class Dataset(_ByType):
    """Samples by number: a subclass has `__getitem__(index)`, and `__len__()` for most uses."""

    def __getitem__(self, index):
        raise NotImplementedError(f"{type(self).__name__}: a dataset needs __getitem__(index), which returns a sample")

    def __add__(self, other: "Dataset") -> "ConcatDataset":
        return ConcatDataset([self, other])


class IterableDataset(Dataset):
    """Samples one after the other: a subclass has `__iter__()`."""

    def __iter__(self):
        raise NotImplementedError(f"{type(self).__name__}: an IterableDataset needs __iter__(), which yields samples")

    def __add__(self, other: "Dataset") -> "ChainDataset":
        return ChainDataset([self, other])


class TensorDataset(Dataset):
    """Sample i is the tuple of row i of each tensor."""

    def __init__(self, *tensors: Tensor):
        if len({t.shape[:1] for t in tensors}) != 1 or not tensors[0].shape:
            raise ValueError(f"TensorDataset: tensors need the same number of rows, got {[t.shape for t in tensors]}")
        self.tensors = tensors

    def __getitem__(self, index):
        return tuple([t[index] for t in self.tensors])

    def __len__(self) -> int:
        return len(self.tensors[0])


class Subset(Dataset):
    """The samples of a dataset at these indices."""

    def __init__(self, dataset: Dataset, indices: Sequence[int]):
        self.dataset, self.indices = dataset, indices

    def __getitem__(self, index):
        if isinstance(index, list):
            return self.dataset[[self.indices[i] for i in index]]
        return self.dataset[self.indices[index]]

    def __len__(self) -> int:
        return len(self.indices)


class ConcatDataset(Dataset):
    """Datasets one after the other, as one dataset."""

    def __init__(self, datasets: Iterable[Dataset]):
        self.datasets = list(datasets)
        if not self.datasets or any(isinstance(d, IterableDataset) for d in self.datasets):
            raise ValueError("ConcatDataset: expected datasets with a length; an IterableDataset goes to ChainDataset")
        self.cumulative_sizes = list(accumulate(map(len, self.datasets)))

    def __getitem__(self, index: int):
        if not -len(self) <= index < len(self):
            raise IndexError(f"ConcatDataset: index {index} of {len(self)} samples")
        index %= len(self)
        which = bisect_right(self.cumulative_sizes, index)
        return self.datasets[which][index - (self.cumulative_sizes[which - 1] if which else 0)]

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]


class ChainDataset(IterableDataset):
    """Iterable datasets one after the other."""

    def __init__(self, datasets: Iterable[Dataset]):
        self.datasets = list(datasets)

    def __iter__(self):
        return chain.from_iterable(self.datasets)

    def __len__(self) -> int:
        return sum(map(len, self.datasets))


def random_split(dataset: Dataset, lengths: Sequence[int | float], generator: Generator | None = None) -> list[Subset]:
    """Disjoint random parts of a dataset, of these lengths, or of these fractions of the whole."""
    n = len(dataset)
    if abs(sum(lengths) - 1) < 1e-9 and all(0 <= part <= 1 for part in lengths):
        whole = [floor(n * part) for part in lengths]
        left = n - sum(whole)  # the samples left by rounding down go to the first parts, one by one
        lengths = [part + (left // len(whole)) + (i < left % len(whole)) for i, part in enumerate(whole)]
    if sum(lengths) != n or any(part < 0 for part in lengths):
        raise ValueError(f"random_split: lengths {list(lengths)} for {n} samples; expected lengths or fractions of all")
    order = randperm(n, generator=generator).tolist()
    return [Subset(dataset, order[end - size : end]) for size, end in zip(lengths, accumulate(lengths), strict=True)]


# --- Samplers


class Sampler(_ByType):
    """An order of samples: a subclass has `__iter__()`, and `__len__()` for most uses."""

    def __init__(self, data_source: Any = None):
        self.data_source = data_source

    def __iter__(self) -> Iterator:
        raise NotImplementedError(f"{type(self).__name__}: a sampler needs __iter__(), which yields indices")


class SequentialSampler(Sampler):
    """0, 1, 2, ..."""

    def __iter__(self):
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


DRAWN = 1024  # indices that a RandomSampler draws at once


class RandomSampler(Sampler):
    """All indices in random order, repeatedly up to num_samples; with `replacement` each is drawn from all."""

    def __init__(
        self,
        data_source: Any,
        replacement: bool = False,
        num_samples: int | None = None,
        generator: Generator | None = None,
    ):
        super().__init__(data_source)
        if num_samples is not None and not (isinstance(num_samples, int) and num_samples > 0):
            raise ValueError(f"RandomSampler: num_samples must be a whole number from 1 up, got {num_samples}")
        self.replacement, self._samples, self.generator = replacement, num_samples, generator

    @property
    def num_samples(self) -> int:
        """The number of indices in one pass: the given one, or the length of the data."""
        return len(self.data_source) if self._samples is None else self._samples

    def __iter__(self):
        n, left = len(self.data_source), self.num_samples
        while self.replacement and left > 0:  # in parts: programs ask for 10**10 indices, and use only some
            yield from randint(0, n, (min(left, DRAWN),), generator=self.generator).tolist()
            left -= DRAWN
        while left > 0:
            yield from randperm(n, generator=self.generator)[:left].tolist()
            left -= n

    def __len__(self) -> int:
        return self.num_samples


class SubsetRandomSampler(Sampler):
    """These indices, in random order."""

    def __init__(self, indices: Sequence[int], generator: Generator | None = None):
        super().__init__()
        self.indices, self.generator = indices, generator

    def __iter__(self):
        return (self.indices[i] for i in randperm(len(self.indices), generator=self.generator).tolist())

    def __len__(self) -> int:
        return len(self.indices)


class WeightedRandomSampler(Sampler):
    """num_samples indices, drawn with probabilities in proportion to their weights."""

    def __init__(
        self, weights: Sequence[float], num_samples: int, replacement: bool = True, generator: Generator | None = None
    ):
        super().__init__()
        self.weights, self.num_samples = tensor(weights, dtype=float64), num_samples
        self.replacement, self.generator = replacement, generator

    def __iter__(self):
        return iter(multinomial(self.weights, self.num_samples, self.replacement, generator=self.generator).tolist())

    def __len__(self) -> int:
        return self.num_samples


class BatchSampler(Sampler):
    """Lists of batch_size indices of a sampler; the last may be shorter, unless drop_last."""

    def __init__(self, sampler: Iterable, batch_size: int, drop_last: bool):
        super().__init__()
        if not isinstance(batch_size, int) or isinstance(batch_size, bool) or batch_size <= 0:
            raise ValueError(f"BatchSampler: batch_size must be a whole number from 1 up, got {batch_size!r}")
        self.sampler, self.batch_size, self.drop_last = sampler, batch_size, drop_last

    def __iter__(self):
        return _batches(self.sampler, self.batch_size, self.drop_last)

    def __len__(self) -> int:
        return _count(len(self.sampler), self.batch_size, self.drop_last)


def _batches(samples: Iterable, size: int, drop_last: bool) -> Iterator[list]:
    rest = iter(samples)
    while batch := list(islice(rest, size)):
        if len(batch) == size or not drop_last:
            yield batch


def _count(n: int, size: int, drop_last: bool) -> int:
    return n // size if drop_last else -(-n // size)


# --- Batches


def default_convert(data: Any) -> Any:
    """Arrays, also in tuples, lists and dictionaries, become tensors; other values stay as they are."""
    if isinstance(data, np.ndarray | np.generic) and data.dtype.kind in "fiub":
        return from_numpy(data) if isinstance(data, np.ndarray) else tensor(data.item())
    if isinstance(data, Mapping):
        return {key: default_convert(value) for key, value in data.items()}
    if isinstance(data, tuple) and hasattr(data, "_make"):
        return data._make(map(default_convert, data))
    if isinstance(data, tuple | list):
        return [default_convert(d) for d in data]
    return data


def default_collate(batch: Sequence) -> Any:
    """A batch of samples: tensors, arrays and numbers become tensors with one more dimension at the front.

    Tuples, lists and dictionaries keep their form and are collated element by element (a tuple gives a list, as in
    PyTorch); strings stay as they are. Raises TypeError for any other sample: give the loader a collate_fn then.
    """
    first = batch[0]
    if isinstance(first, Tensor):
        return stack(batch)
    if isinstance(first, np.ndarray):
        return stack([tensor(b) for b in batch])
    if isinstance(first, np.generic):
        return tensor(np.array(batch))
    if isinstance(first, float):
        return tensor(batch, dtype=float64)  # Python's floats have 64 bits
    if isinstance(first, int):
        return tensor(batch)
    if isinstance(first, str | bytes):
        return batch
    if isinstance(first, Mapping):
        return {key: default_collate([b[key] for b in batch]) for key in first}
    if isinstance(first, tuple | list):
        if any(len(b) != len(first) for b in batch):
            raise RuntimeError(
                f"default_collate: samples of {sorted({len(b) for b in batch})} elements do not make one batch; pad "
                "them, or give the DataLoader a collate_fn"
            )
        columns = [default_collate(column) for column in zip(*batch, strict=True)]
        return first._make(columns) if hasattr(first, "_make") else columns
    raise TypeError(
        f"default_collate: can't make a batch of {type(first).__name__}; samples are tensors, arrays, numbers, text, "
        "tuples, lists and dictionaries of them: give the DataLoader a collate_fn"
    )


class DataLoader(_ByType):
    """Batches of a dataset: `for batch in loader`; `len(loader)` is their number.

    The options from num_workers on are accepted if they only choose how the work is done; see the top of this file.
    """

    def __init__(
        self,
        dataset: Dataset,
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Iterable | None = None,
        batch_sampler: Iterable | None = None,
        num_workers: int = 0,
        collate_fn: Callable | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable | None = None,
        multiprocessing_context=None,
        generator: Generator | None = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
    ):
        streams = isinstance(dataset, IterableDataset)
        if num_workers < 0 or timeout < 0:
            raise ValueError(f"DataLoader: num_workers and timeout must be 0 or more, got {num_workers} and {timeout}")
        if (sampler is not None or batch_sampler is not None) and (shuffle or streams):
            raise ValueError("DataLoader: a sampler excludes shuffle and an IterableDataset; give one of them")
        if streams and shuffle:
            raise ValueError("DataLoader: an IterableDataset has an order of its own; shuffle in its __iter__")
        if batch_sampler is not None and (batch_size != 1 or shuffle or sampler is not None or drop_last):
            raise ValueError("DataLoader: batch_sampler replaces batch_size, shuffle, sampler and drop_last; omit them")
        if batch_size is None and drop_last:
            raise ValueError("DataLoader: drop_last=True needs batches, but batch_size is None")
        self.dataset, self.drop_last, self.generator = dataset, drop_last, generator
        self.num_workers, self.pin_memory, self.timeout = num_workers, pin_memory, timeout
        self.batch_size = None if batch_sampler is not None else batch_size
        if sampler is None and not streams:
            sampler = RandomSampler(dataset, generator=generator) if shuffle else SequentialSampler(dataset)
        if batch_sampler is None and batch_size is not None:
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)
        self.sampler, self.batch_sampler = sampler, batch_sampler
        self.collate_fn = collate_fn or (default_convert if batch_sampler is None else default_collate)

    def __iter__(self) -> Iterator:
        dataset, collate = self.dataset, self.collate_fn
        if isinstance(dataset, IterableDataset):
            samples = iter(dataset)
            return map(
                collate, samples if self.batch_sampler is None else _batches(samples, self.batch_size, self.drop_last)
            )
        if self.batch_sampler is None:
            return (collate(dataset[i]) for i in self.sampler)
        if type(dataset) is TensorDataset and collate is default_collate:  # the same batch by one look-up
            return (list(dataset[list(indices)]) for indices in self.batch_sampler)
        if hasattr(dataset, "__getitems__"):
            return (collate(dataset.__getitems__(indices)) for indices in self.batch_sampler)
        return (collate([dataset[i] for i in indices]) for indices in self.batch_sampler)

    def __len__(self) -> int:
        if isinstance(self.dataset, IterableDataset):
            n = len(self.dataset)
            return n if self.batch_sampler is None else _count(n, self.batch_size, self.drop_last)
        return len(self.sampler if self.batch_sampler is None else self.batch_sampler)


def get_worker_info() -> None:
    """None: there are no workers."""
    return None
