"""Datasets, samplers and loaders: PyTorch's batches where the order is given, permutations where it is not."""

import collections
import itertools
import warnings

import numpy as np
import pytest

import tinytensor as tt
from tests.tools.packages import missing
from tinytensor.utils import data
from tinytensor.utils.data import DataLoader, TensorDataset


class Squares(data.Dataset):
    def __init__(self, n=7):
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        if i >= self.n:
            raise IndexError(i)
        return i * i


class Stream(data.IterableDataset):
    def __init__(self, n=7):
        self.n = n

    def __iter__(self):
        return iter(range(self.n))

    def __len__(self):
        return self.n


Pair = collections.namedtuple("Pair", "x y")


def plain(value):
    """A batch of either library as Python's own values, with dtypes."""
    if hasattr(value, "tolist"):
        return str(value.dtype).rpartition(".")[2], value.tolist()
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    if isinstance(value, tuple | list):
        return type(value).__name__, [plain(v) for v in value]
    return value


def batches(lib, make):
    return [plain(batch) for batch in make(lib, lib.utils.data)]


def squares(lib, n=7):
    """The dataset as a subclass of the library's class."""
    return type("Squares", (lib.utils.data.Dataset,), dict(vars(Squares)))(n)


def stream(lib, n=7):
    return type("Stream", (lib.utils.data.IterableDataset,), dict(vars(Stream)))(n)


def rows(lib, n=5):
    x = lib.arange(2 * n).reshape(n, 2)
    return lib.utils.data.TensorDataset(x, x[:, 0] * 0.5)


# loaders whose order does not depend on chance: programs for both libraries
LOADERS = {
    "one by one": lambda t, d: d.DataLoader(squares(t)),
    "batches": lambda t, d: d.DataLoader(squares(t), batch_size=3),
    "drop last": lambda t, d: d.DataLoader(squares(t), batch_size=3, drop_last=True),
    "no batches": lambda t, d: d.DataLoader(squares(t), batch_size=None),
    "rows": lambda t, d: d.DataLoader(rows(t), 2),
    "a sampler": lambda t, d: d.DataLoader(squares(t), 2, sampler=[3, 1, 4, 1, 5]),
    "a batch sampler": lambda t, d: d.DataLoader(squares(t), batch_sampler=[[0, 1], [5], [2, 2, 2]]),
    "a batch sampler of rows": lambda t, d: d.DataLoader(rows(t), batch_sampler=[(0, 1), (4,)]),
    "collate": lambda t, d: d.DataLoader(squares(t), 3, collate_fn=sum),
    "a list": lambda t, d: d.DataLoader([1.5, 2.5, 3.5], 2),
    "truth values": lambda t, d: d.DataLoader([True, False], 2),
    "pairs": lambda t, d: d.DataLoader([(1, "a"), (2, "b"), (3, "c")], 2),
    "lists": lambda t, d: d.DataLoader([[1, 2.0], [3, 4.0]], 2),
    "named": lambda t, d: d.DataLoader([Pair(1, 2.0), Pair(3, 4.0)], 2),
    "dictionaries": lambda t, d: d.DataLoader([{"x": t.ones(2), "y": {"z": i}} for i in range(3)], 2),
    "arrays": lambda t, d: d.DataLoader([np.ones((2, 2)), np.zeros((2, 2))], 2),
    "numbers of NumPy": lambda t, d: d.DataLoader([np.float32(1), np.float32(2)], 2),
    "arrays, no batches": lambda t, d: d.DataLoader([np.ones(2), np.zeros(2)], batch_size=None),
    "a stream": lambda t, d: d.DataLoader(stream(t), 3),
    "a stream, drop last": lambda t, d: d.DataLoader(stream(t), 3, drop_last=True),
    "a stream, no batches": lambda t, d: d.DataLoader(stream(t), batch_size=None),
    "a subset": lambda t, d: d.DataLoader(d.Subset(squares(t), [6, 0, 3]), 2),
    "a subset of rows": lambda t, d: d.DataLoader(d.Subset(rows(t), [4, 0, 3]), 2),
    "added": lambda t, d: d.DataLoader(squares(t, 3) + squares(t, 4), 2),
    "chained": lambda t, d: d.DataLoader(d.ChainDataset([stream(t, 2), stream(t, 3)]), 2),
    "sequential": lambda t, d: d.BatchSampler(d.SequentialSampler(range(5)), 2, False),
    "workers": lambda t, d: d.DataLoader(squares(t), 4, pin_memory=False, timeout=0, persistent_workers=False),
}

# what PyTorch 2.13 gives, as `plain` says it
I = "int64"
PYTORCHS = {
    "one by one": [(I, [i * i]) for i in range(7)],
    "batches": [(I, [0, 1, 4]), (I, [9, 16, 25]), (I, [36])],
    "drop last": [(I, [0, 1, 4]), (I, [9, 16, 25])],
    "no batches": [0, 1, 4, 9, 16, 25, 36],
    "rows": [
        ("list", [(I, [[0, 1], [2, 3]]), ("float32", [0.0, 1.0])]),
        ("list", [(I, [[4, 5], [6, 7]]), ("float32", [2.0, 3.0])]),
        ("list", [(I, [[8, 9]]), ("float32", [4.0])]),
    ],
    "a sampler": [(I, [9, 1]), (I, [16, 1]), (I, [25])],
    "a batch sampler": [(I, [0, 1]), (I, [25]), (I, [4, 4, 4])],
    "a batch sampler of rows": [
        ("list", [(I, [[0, 1], [2, 3]]), ("float32", [0.0, 1.0])]),
        ("list", [(I, [[8, 9]]), ("float32", [4.0])]),
    ],
    "collate": [5, 50, 36],
    "a list": [("float64", [1.5, 2.5]), ("float64", [3.5])],
    "truth values": [("bool", [True, False])],
    "pairs": [("list", [(I, [1, 2]), ("tuple", ["a", "b"])]), ("list", [(I, [3]), ("tuple", ["c"])])],
    "lists": [("list", [(I, [1, 3]), ("float64", [2.0, 4.0])])],
    "named": [("Pair", [(I, [1, 3]), ("float64", [2.0, 4.0])])],
    "dictionaries": [
        {"x": ("float32", [[1.0, 1.0], [1.0, 1.0]]), "y": {"z": (I, [0, 1])}},
        {"x": ("float32", [[1.0, 1.0]]), "y": {"z": (I, [2])}},
    ],
    "arrays": [("float64", [[[1.0, 1.0], [1.0, 1.0]], [[0.0, 0.0], [0.0, 0.0]]])],
    "numbers of NumPy": [("float32", [1.0, 2.0])],
    "arrays, no batches": [("float64", [1.0, 1.0]), ("float64", [0.0, 0.0])],
    "a stream": [(I, [0, 1, 2]), (I, [3, 4, 5]), (I, [6])],
    "a stream, drop last": [(I, [0, 1, 2]), (I, [3, 4, 5])],
    "a stream, no batches": [0, 1, 2, 3, 4, 5, 6],
    "a subset": [(I, [36, 0]), (I, [9])],
    "a subset of rows": [
        ("list", [(I, [[8, 9], [0, 1]]), ("float32", [4.0, 0.0])]),
        ("list", [(I, [[6, 7]]), ("float32", [3.0])]),
    ],
    "added": [(I, [0, 1]), (I, [4, 0]), (I, [1, 4]), (I, [9])],
    "chained": [(I, [0, 1]), (I, [0, 1]), (I, [2])],
    "sequential": [("list", [0, 1]), ("list", [2, 3]), ("list", [4])],
    "workers": [(I, [0, 1, 4, 9]), (I, [16, 25, 36])],
}


@pytest.mark.parametrize("name", LOADERS)
def test_batches(name):
    assert batches(tt, LOADERS[name]) == PYTORCHS[name]
    loader = LOADERS[name](tt, data)
    assert len(loader) == len(PYTORCHS[name])
    assert [plain(b) for b in loader] == [plain(b) for b in loader]  # a second epoch is there too


@pytest.mark.parametrize("name", LOADERS)
def test_stored_batches_match_installed_pytorch(name):
    torch = pytest.importorskip("torch", reason=missing("torch"))
    assert batches(torch, LOADERS[name]) == PYTORCHS[name]


def test_workers_are_accepted():
    loader = DataLoader(
        Squares(), 4, num_workers=4, pin_memory=True, worker_init_fn=print, prefetch_factor=2, persistent_workers=True
    )
    assert [b.tolist() for b in loader] == [[0, 1, 4, 9], [16, 25, 36]] and data.get_worker_info() is None


def epoch(loader):
    return [x for batch in loader for x in batch.tolist()]


def test_shuffling_follows_the_generator():
    loader = DataLoader(Squares(50), 8, shuffle=True, generator=tt.Generator().manual_seed(3))
    first, second = epoch(loader), epoch(loader)
    assert sorted(first) == sorted(second) == [i * i for i in range(50)] and first != second != sorted(second)
    repeated = DataLoader(Squares(50), 8, shuffle=True, generator=tt.Generator().manual_seed(3))
    assert epoch(repeated) == first
    tt.manual_seed(5)
    third = epoch(DataLoader(Squares(50), shuffle=True))
    tt.manual_seed(5)
    assert epoch(DataLoader(Squares(50), shuffle=True)) == third != first


def test_random_samplers():
    tt.manual_seed(0)
    assert sorted(data.RandomSampler(range(9))) == list(range(9))
    several = list(data.RandomSampler(range(4), num_samples=10))
    assert len(several) == 10 and sorted(several[:4]) == sorted(several[4:8]) == [0, 1, 2, 3]
    drawn = list(data.RandomSampler(range(4), replacement=True, num_samples=1000))
    assert all(180 < drawn.count(i) < 320 for i in range(4))
    assert sorted(data.SubsetRandomSampler([5, 2, 9])) == [2, 5, 9]
    weighted = list(data.WeightedRandomSampler([0.0, 1.0, 3.0], 1000))
    assert weighted.count(0) == 0 and 190 < weighted.count(1) < 310
    assert sorted(data.WeightedRandomSampler([1.0, 2.0, 3.0], 3, replacement=False)) == [0, 1, 2]
    assert [len(s) for s in (data.RandomSampler(range(4), num_samples=10), data.SubsetRandomSampler([1]))] == [10, 1]


@pytest.mark.parametrize(
    ("lengths", "sizes"), [([3, 4], [3, 4]), ([0.5, 0.5], [4, 3]), ([0.8, 0.1, 0.1], [6, 1, 0]), ([7, 0], [7, 0])]
)
def test_random_split(lengths, sizes):
    parts = data.random_split(Squares(), lengths, generator=tt.Generator().manual_seed(1))
    assert [len(p) for p in parts] == sizes
    assert sorted(itertools.chain(*parts)) == [i * i for i in range(7)]
    second = data.random_split(Squares(), lengths, generator=tt.Generator().manual_seed(1))
    assert [list(p) for p in second] == [list(p) for p in parts]


def test_random_split_sizes_are_pytorchs():
    torch = pytest.importorskip("torch", reason=missing("torch"))
    warnings.simplefilter("ignore")  # that a part is empty
    for n, fractions in itertools.product((1, 7, 10, 99), ([0.5, 0.5], [0.8, 0.1, 0.1], [0.3, 0.3, 0.4])):
        theirs = torch.utils.data.random_split(range(n), fractions)
        assert [len(p) for p in data.random_split(range(n), fractions)] == [len(p) for p in theirs]


def test_indices():
    both = Squares(2) + Squares(3)
    assert (both[-1], both[1], both[2], len(both), both.cumulative_sizes) == (4, 1, 0, 5, [2, 5])
    with pytest.raises(IndexError, match="index 5 of 5 samples"):
        both[5]
    x = tt.ones(3, 2)
    (row,) = TensorDataset(x)[1]
    assert row.shape == (2,) and len(TensorDataset(x)) == 3
    assert issubclass(data.Dataset[tt.Tensor], data.Dataset)

    class Many(Squares):
        def __getitems__(self, indices):
            return [-i for i in indices]

    assert next(iter(DataLoader(Many(), 3))).tolist() == [0, -1, -2]


def test_training_on_batches():
    tt.manual_seed(0)
    x = tt.randn(64, 3)
    y = x @ tt.tensor([[1.0], [-2.0], [0.5]])
    model = tt.nn.Linear(3, 1)
    optimizer = tt.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(40):
        for a, b in DataLoader(TensorDataset(x, y), batch_size=16, shuffle=True):
            optimizer.zero_grad()
            tt.nn.functional.mse_loss(model(a), b).backward()
            optimizer.step()
    assert np.allclose(model.weight.tolist(), [[1.0, -2.0, 0.5]], atol=1e-3)


@pytest.mark.parametrize(
    ("make", "error", "sentence"),
    [
        (lambda: TensorDataset(tt.ones(2), tt.ones(3)), ValueError, r"the same number of rows, got \[\(2,\), \(3,\)\]"),
        (lambda: TensorDataset(tt.ones(())), ValueError, "the same number of rows"),
        (lambda: data.ConcatDataset([]), ValueError, "expected datasets with a length"),
        (lambda: data.ConcatDataset([Stream()]), ValueError, "goes to ChainDataset"),
        (lambda: data.random_split(Squares(), [3, 3]), ValueError, r"lengths \[3, 3\] for 7 samples"),
        (lambda: data.Dataset()[0], NotImplementedError, r"a dataset needs __getitem__"),
        (lambda: list(data.IterableDataset()), NotImplementedError, "needs __iter__"),
        (lambda: list(data.Sampler()), NotImplementedError, "a sampler needs __iter__"),
        (lambda: data.RandomSampler([1], num_samples=0), ValueError, "num_samples must be a whole number from 1 up"),
        (lambda: DataLoader(Squares(), 0), ValueError, "batch_size must be a whole number from 1 up, got 0"),
        (lambda: DataLoader(Squares(), 2.0), ValueError, "batch_size must be"),
        (lambda: DataLoader(Squares(), num_workers=-1), ValueError, "num_workers and timeout must be 0 or more"),
        (lambda: DataLoader(Squares(), shuffle=True, sampler=[1]), ValueError, "a sampler excludes"),
        (lambda: DataLoader(Stream(), shuffle=True), ValueError, "shuffle in its __iter__"),
        (lambda: DataLoader(Squares(), 2, batch_sampler=[[1]]), ValueError, "batch_sampler replaces"),
        (lambda: DataLoader(Squares(), None, drop_last=True), ValueError, "drop_last=True needs batches"),
        (lambda: next(iter(DataLoader([object()], 1))), TypeError, "can't make a batch of object"),
        (lambda: next(iter(DataLoader([(1,), (1, 2)], 2))), RuntimeError, r"samples of \[1, 2\] elements"),
        (lambda: next(iter(DataLoader([tt.ones(1), tt.ones(2)], 2))), RuntimeError, "stack"),
    ],
)
def test_wrong_arguments_raise(make, error, sentence):
    with pytest.raises(error, match=sentence):
        make()


def test_random_sampler_draws_lazily():
    """minGPT and makemore ask for 10**10 samples, and take some."""
    sampler = data.RandomSampler(range(7), replacement=True, num_samples=10**10)
    first = [i for i, _ in zip(sampler, range(3000), strict=False)]
    assert len(sampler) == 10**10 and len(first) == 3000 and set(first) == set(range(7))
    counts = [len(list(data.RandomSampler(range(7), replacement=True, num_samples=n))) for n in (1, 1024, 1025, 2048)]
    assert counts == [1, 1024, 1025, 2048]
    assert sorted(data.RandomSampler(range(3), num_samples=6)) == [0, 0, 1, 1, 2, 2]
