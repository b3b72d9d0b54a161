"""Tensors from values and from chance: values, dtypes, keywords, the generator's state, distributions."""

import json
import math
from fractions import Fraction

import numpy as np
import pytest

import tinytensor as tt


@pytest.mark.parametrize(
    ("data", "dtype", "shape"),
    [
        (1, tt.int64, ()),
        (1.5, tt.float32, ()),
        (True, tt.bool, ()),
        ([], tt.float32, (0,)),
        ([[], []], tt.float32, (2, 0)),
        ([1, 2], tt.int64, (2,)),
        ([1, 2.5], tt.float32, (2,)),
        (range(3), tt.int64, (3,)),
        ((True, False), tt.bool, (2,)),
        ([[1, 2], [3, 4]], tt.int64, (2, 2)),
        (np.float64(1.5), tt.float64, ()),
        (np.arange(3, dtype=np.int32), tt.int32, (3,)),
        (np.ones((2, 0)), tt.float64, (2, 0)),
    ],
)
def test_tensor_holds_the_data(data, dtype, shape):
    x = tt.tensor(data)
    assert x.dtype == dtype and x.shape == shape and np.array_equal(x.numpy(), np.array(data))


def test_tensor_copies_and_as_tensor_shares():
    a = np.zeros(2, np.float32)
    copy, shared = tt.tensor(a), tt.as_tensor(a)
    a[0] = 7
    assert copy.tolist() == [0, 0] and shared.tolist() == [7, 0] and tt.as_tensor(shared) is shared
    assert tt.as_tensor(a, dtype=tt.float64).dtype == tt.float64
    assert tt.as_tensor([1, 2]).dtype == tt.int64
    frozen = np.zeros(2)
    frozen.flags.writeable = False
    tt.from_numpy(frozen).add_(1)
    assert not frozen.any()
    assert tt.tensor([tt.tensor(1.0), 2.0]).tolist() == [1.0, 2.0]
    assert tt.from_dlpack(a).data_ptr() == a.ctypes.data


@pytest.mark.parametrize("dtype", [None, "float32", "float64", "uint8", "int32", "int64", "bool"])
def test_large_copies_begin_at_a_cache_line(dtype):
    """Of all arrays that NumPy makes, one in four does so by chance."""
    transposed = np.arange(128 * 96, dtype=np.int32).reshape(128, 96).T
    copies = [tt.tensor(transposed, dtype=dtype and getattr(tt, dtype)) for _ in range(8)]
    for x in copies:
        assert x.data_ptr() % 64 == 0 and x.is_contiguous()
        np.testing.assert_array_equal(x.numpy(), transposed.astype(dtype or np.int32))
    assert len({x.data_ptr() for x in copies}) == 8
    exact = tt.tensor(np.full((32, 32), Fraction(1, 3), object), dtype=object)
    assert exact[31, 31].item() == Fraction(1, 3)


def test_large_arrays_convert_as_small_ones():
    wide = np.full(2048, 1e300)
    assert np.isinf(tt.tensor(wide, dtype=tt.float32).numpy()).all()
    with pytest.raises(TypeError, match="values of complex128 are not stored"):
        tt.tensor(np.zeros(2048, complex))
    with pytest.raises(TypeError, match="an array of <U1"):
        tt.tensor(np.full(2048, "3"), dtype=tt.int32)


def test_memory_mapped_file_is_shared(tmp_path):
    mapped = np.memmap(tmp_path / "numbers", np.float32, "w+", shape=(3,))
    x = tt.from_numpy(mapped)
    x.add_(2).mul_(3)
    assert type(x._data) is np.ndarray and mapped.tolist() == [6, 6, 6]


def test_default_dtype():
    tt.set_default_dtype(tt.float64)
    try:
        makers = (lambda: tt.tensor(1.0), lambda: tt.zeros(1), lambda: tt.rand(1), lambda: tt.full((1,), 0.5))
        assert {m().dtype for m in makers} == {tt.float64}
    finally:
        tt.set_default_dtype(tt.float32)
    with pytest.raises(TypeError, match="expected float32 or float64"):
        tt.set_default_dtype(tt.int64)


@pytest.mark.parametrize(
    ("make", "error", "sentence"),
    [
        (lambda: tt.tensor([[1], [1, 2]]), ValueError, "rows have equal lengths"),
        (lambda: tt.tensor("a"), TypeError, "expected numbers"),
        (lambda: tt.tensor(1, dtype="float16"), TypeError, "tensors are float32, float64, uint8, int32, int64 or bool"),
        (lambda: tt.tensor(np.zeros(1, np.complex64)), TypeError, "values of complex64 are not stored"),
        (lambda: tt.tensor(1, requires_grad=True), RuntimeError, "only floating-point tensors have gradients"),
        (lambda: tt.from_numpy([1]), TypeError, "expected a NumPy array, got list"),
        (lambda: tt.from_numpy(np.zeros(1, np.uint16)), TypeError, "dtype uint16 is not offered"),
        (lambda: tt.randint(0, 300, (3,), dtype=tt.uint8), RuntimeError, "randint: 299 is no number of uint8"),
        (lambda: tt.tensor([256], dtype=tt.uint8), RuntimeError, "tensor: 256 can't be stored as uint8"),
        (lambda: tt.zeros(-1), RuntimeError, "whole numbers of 0 or more"),
        (lambda: tt.ones(2, 1.5), TypeError, "whole numbers of 0 or more"),
        (lambda: tt.zeros(2, size=(2,)), TypeError, "were both given"),
        (lambda: tt.eye(-1), RuntimeError, "eye: sizes must be 0 or more"),
        (lambda: tt.logspace(0, 1, -1), RuntimeError, "logspace: steps must be 0 or more"),
        (lambda: tt.linspace(0, 1, -1), RuntimeError, "linspace: steps must be 0 or more"),
        (lambda: tt.arange(0, 1, 0), RuntimeError, "never arrives"),
        (lambda: tt.arange(1, 0), RuntimeError, "never arrives"),
        (lambda: tt.randint(3, 3, (1,)), RuntimeError, "nothing lies between 3 and 3 - 1"),
        (lambda: tt.randperm(-1), RuntimeError, "randperm: sizes must be whole numbers of 0 or more"),
        (lambda: tt.multinomial(tt.tensor([0.5, -0.5]), 1), RuntimeError, "finite and not negative"),
        (lambda: tt.multinomial(tt.tensor([1.0, 0.0]), 2), RuntimeError, "too few for 2 draws without replacement"),
        (lambda: tt.multinomial(tt.tensor([0.0, 0.0]), 1), RuntimeError, "too few"),
    ],
)
def test_wrong_arguments_raise(make, error, sentence):
    with pytest.raises(error, match=sentence):
        make()


X = tt.zeros(2, 3, dtype=tt.float64)
MAKERS = {  # name: (a call that takes the keywords, shape, default dtype, may it have a gradient)
    "tensor": (lambda **k: tt.tensor([[1.0, 2.0]], **k), (1, 2), tt.float32),
    "zeros": (lambda **k: tt.zeros(2, 3, **k), (2, 3), tt.float32),
    "zeros of a tuple": (lambda **k: tt.zeros((2, 0), **k), (2, 0), tt.float32),
    "zeros, 0-d": (lambda **k: tt.zeros((), **k), (), tt.float32),
    "ones": (lambda **k: tt.ones([4], **k), (4,), tt.float32),
    "ones of a shape": (lambda **k: tt.ones(X.shape, **k), (2, 3), tt.float32),
    "ones by name": (lambda **k: tt.ones(size=(4, 1), **k), (4, 1), tt.float32),
    "empty by name": (lambda **k: tt.empty(size=[2], **k), (2,), tt.float32),
    "zeros by name": (lambda **k: tt.zeros(size=(), **k), (), tt.float32),
    "rand by name": (lambda **k: tt.rand(size=(2, 3), **k), (2, 3), tt.float32),
    "randn by name": (lambda **k: tt.randn(size=(2, 3), **k), (2, 3), tt.float32),
    "empty": (lambda **k: tt.empty(2, 2, **k), (2, 2), tt.float32),
    "full": (lambda **k: tt.full((2,), 1.5, **k), (2,), tt.float32),
    "full of ints": (lambda **k: tt.full((2,), 3, **k), (2,), tt.int64),
    "full of bools": (lambda **k: tt.full((2,), True, **k), (2,), tt.bool),
    "eye": (lambda **k: tt.eye(3, **k), (3, 3), tt.float32),
    "eye, wide": (lambda **k: tt.eye(2, 3, **k), (2, 3), tt.float32),
    "arange": (lambda **k: tt.arange(3, **k), (3,), tt.int64),
    "arange of floats": (lambda **k: tt.arange(0, 1, 0.25, **k), (4,), tt.float32),
    "linspace": (lambda **k: tt.linspace(0, 1, 5, **k), (5,), tt.float32),
    "logspace": (lambda **k: tt.logspace(0, 2, 3, **k), (3,), tt.float32),
    "rand": (lambda **k: tt.rand(2, 3, **k), (2, 3), tt.float32),
    "randn": (lambda **k: tt.randn((2, 3), **k), (2, 3), tt.float32),
    "randint": (lambda **k: tt.randint(0, 5, (2,), **k), (2,), tt.int64),
    "randint below": (lambda **k: tt.randint(5, size=(2, 2), **k), (2, 2), tt.int64),
    "randint of two": (lambda **k: tt.randint(5, (2,), **k), (2,), tt.int64),
    "randint by names": (lambda **k: tt.randint(high=5, size=(2,), **k), (2,), tt.int64),
    "randint_like": (lambda **k: tt.randint_like(X, 5, **k), (2, 3), tt.float64),
    "randperm": (lambda **k: tt.randperm(4, **k), (4,), tt.int64),
    "zeros_like": (lambda **k: tt.zeros_like(X, **k), (2, 3), tt.float64),
    "ones_like": (lambda **k: tt.ones_like(X, **k), (2, 3), tt.float64),
    "empty_like": (lambda **k: tt.empty_like(X, **k), (2, 3), tt.float64),
    "empty_permuted": (lambda **k: tt.empty_permuted((2, 3), (1, 0), **k), (2, 3), tt.float32),
    "full_like": (lambda **k: tt.full_like(X, 2, **k), (2, 3), tt.float64),
    "rand_like": (lambda **k: tt.rand_like(X, **k), (2, 3), tt.float64),
    "randn_like": (lambda **k: tt.randn_like(X, **k), (2, 3), tt.float64),
}


@pytest.mark.parametrize("name", MAKERS)
def test_creation_functions_take_keywords(name):
    make, shape, dtype = MAKERS[name]
    x = make()
    assert (x.shape, x.dtype, x.requires_grad, x.device) == (shape, dtype, False, "cpu")
    assert make(device="cpu").dtype == dtype
    y = make(dtype=tt.float64, requires_grad=True, device="cpu")
    assert (y.shape, y.dtype, y.requires_grad, y.is_leaf) == (shape, tt.float64, True, True)
    assert (make(device="meta").shape, make(device="meta").device) == (shape, "meta")
    with pytest.raises(RuntimeError, match="device 'cuda' is not available: tinytensor computes on the CPU only"):
        make(device="cuda")
    if dtype.kind != "f":
        with pytest.raises(RuntimeError, match="only floating-point tensors have gradients"):
            make(requires_grad=True)


def test_every_creation_function_is_tried():
    made = {name.split(",")[0].split()[0] for name in MAKERS}
    others = {"as_tensor", "from_numpy", "from_dlpack", "as_dtype"}
    functions = {
        name
        for name, f in vars(tt.ops.creation).items()
        if callable(f) and getattr(f, "__module__", "") == "tinytensor.ops.creation" and not name.startswith("_")
    }
    assert functions == made | others


def test_as_tensor_takes_a_device():
    assert tt.as_tensor([1.0], device="cpu").tolist() == [1.0]
    assert tt.as_tensor(X, device="meta").device == "meta"
    with pytest.raises(RuntimeError, match="as_tensor: device 'cuda' is not available"):
        tt.as_tensor(X, device="cuda")
    with pytest.raises(RuntimeError, match="Generator: device 'cuda' is not available"):
        tt.Generator("cuda")


def test_empty_permuted_has_the_given_layout():
    x = tt.empty_permuted((4, 32, 8), (1, 0, 2))
    assert (x.shape, x.stride(), x.is_leaf) == ((4, 32, 8), (8, 32, 1), True)
    assert tt.empty_permuted((2, 3, 5, 7), [0, 2, 3, 1]).stride() == (105, 1, 21, 3)
    assert tt.empty_permuted((), ()).shape == ()
    for layout in ((0, 1), (0, 1, 1), (0, 1, 3), (-1, 0, 1)):
        with pytest.raises(RuntimeError, match=r"must name each of the 3 dimensions of size .* once"):
            tt.empty_permuted((2, 3, 4), layout)


def test_created_values_are_right():
    assert tt.eye(2, 3).tolist() == [[1, 0, 0], [0, 1, 0]]
    assert tt.full((2,), 7).tolist() == [7, 7]
    assert tt.arange(5, 1, -2).tolist() == [5, 3]
    assert tt.arange(3, 3).tolist() == []
    assert tt.linspace(0, 1, 5).tolist() == [0, 0.25, 0.5, 0.75, 1]
    assert tt.linspace(2, 3, 1).tolist() == [2]
    assert tt.full_like(X, 2).tolist() == [[2.0] * 3] * 2
    assert tt.ones(0).shape == (0,)


# --- Chance

DRAWS = {
    "rand": lambda g: tt.rand(50, generator=g),
    "rand in float64": lambda g: tt.rand(50, dtype=tt.float64, generator=g),
    "randn": lambda g: tt.randn(50, generator=g),
    "rand_like": lambda g: tt.rand_like(X, generator=g),
    "randn_like": lambda g: tt.randn_like(X, generator=g),
    "randint": lambda g: tt.randint(0, 1000, (50,), generator=g),
    "randperm": lambda g: tt.randperm(50, generator=g),
    "bernoulli": lambda g: tt.bernoulli(tt.full((50,), 0.5), generator=g),
    "multinomial": lambda g: tt.multinomial(tt.ones(50), 20, generator=g),
    "multinomial with replacement": lambda g: tt.multinomial(tt.ones(2, 50), 20, True, generator=g),
    "normal_": lambda g: tt.zeros(50).normal_(generator=g),
    "uniform_": lambda g: tt.zeros(50).uniform_(generator=g),
}


@pytest.mark.parametrize("name", DRAWS)
def test_draws_follow_the_seed_and_the_state(name):
    draw = DRAWS[name]
    g = tt.Generator().manual_seed(11)
    first, second = draw(g).tolist(), draw(g).tolist()
    assert first != second
    assert draw(tt.Generator().manual_seed(11)).tolist() == first
    assert draw(tt.Generator().manual_seed(12)).tolist() != first
    tt.manual_seed(11)
    assert draw(None).tolist() == first
    g.manual_seed(11)
    draw(g)
    state = json.loads(json.dumps(g.get_state()))
    assert draw(g).tolist() == second
    assert draw(tt.Generator().set_state(state)).tolist() == second


def test_the_seed_is_a_whole_number_of_any_sign():
    assert tt.manual_seed(-1) is tt.default_generator
    assert tt.rand(3).tolist() == (tt.manual_seed(2**64 - 1), tt.rand(3))[1].tolist()


N = 40_000
# the mean of N draws with deviation s is within 5 s / sqrt(N) of its expectation but for one seed in a million


def near(values, mean, variance):
    values = np.asarray(values, float)
    return abs(values.mean() - mean) < 5 * math.sqrt(variance / values.size)


@pytest.mark.parametrize("dtype", [tt.float32, tt.float64])
def test_distributions_of_numbers(dtype):
    tt.manual_seed(0)
    u, z = tt.rand(N, dtype=dtype).numpy(), tt.randn(N, dtype=dtype).numpy()
    assert u.min() >= 0 and u.max() < 1 and u.dtype == z.dtype == dtype
    assert near(u, 1 / 2, 1 / 12) and near(u**2, 1 / 3, 1 / 5 - 1 / 9)
    assert near(z, 0, 1) and near(z**2, 1, 2) and near(z**3, 0, 15) and near(z**4, 3, 105 - 9)
    assert near(u[1:] * u[:-1], 1 / 4, 1 / 9 - 1 / 16)  # neighbours have nothing to do with each other
    assert not near(u, 0.52, 1 / 12) and not near(z, 0.05, 1)


def test_distributions_of_whole_numbers():
    tt.manual_seed(0)
    draws = tt.randint(-2, 5, (N,)).numpy()
    p = 1 / 7
    assert set(draws) == set(range(-2, 5))
    assert all(near(draws == k, p, p * (1 - p)) for k in range(-2, 5))
    assert not near(draws == 0, 1 / 6, p * (1 - p))
    first = np.array([tt.randperm(4).tolist() for _ in range(4000)])
    assert (np.sort(first, 1) == np.arange(4)).all()
    assert all(near(first[:, i] == k, 1 / 4, 3 / 16) for i in range(4) for k in range(4))
    q = tt.tensor([0.0, 0.1, 0.9, 1.0]).repeat(N // 4, 1)
    hits = tt.bernoulli(q).numpy()
    assert not hits[:, 0].any() and hits[:, 3].all()
    assert near(hits[:, 1], 0.1, 0.09) and near(hits[:, 2], 0.9, 0.09)


def test_distributions_of_multinomial():
    tt.manual_seed(0)
    weights = tt.tensor([1.0, 0.0, 3.0, 4.0])
    p = np.array([1, 0, 3, 4]) / 8
    draws = tt.multinomial(weights, 4000, replacement=True).numpy()
    assert all(near(draws == k, p[k], p[k] * (1 - p[k])) for k in (0, 2, 3)) and not (draws == 1).any()
    pairs = tt.multinomial(weights.repeat(4000, 1), 2).numpy()
    assert (pairs[:, 0] != pairs[:, 1]).all() and not (pairs == 1).any()
    # 3 first (1/2), then 0 with 1 / (1 + 3)
    assert near((pairs[:, 0] == 3) & (pairs[:, 1] == 0), 1 / 8, 7 / 64)
    assert near(pairs[:, 0] == 2, 3 / 8, 15 / 64)
    assert tt.multinomial(weights, 1).shape == (1,) and tt.multinomial(tt.ones(2, 3), 2).shape == (2, 2)
