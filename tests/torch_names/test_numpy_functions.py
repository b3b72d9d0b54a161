"""Functions written for NumPy take tensors that require grad: values are NumPy's, and gradients pass."""

import numpy as np
import pytest

import tinytensor as tt
from tinytensor.autograd import gradcheck
from tinytensor.interop.torch_names.numpy_functions import FORMULAS, SAME
from tinytensor.symbolic import prove

NUMBERS = np.random.default_rng(0).normal(size=(2, 3))
OTHERS = np.random.default_rng(1).normal(size=(2, 3))
V = np.array([1.0, 2.0, 3.0])

# Each with x, an array or a tensor that requires grad; a, of its shape, and v, of its rows, are arrays.
CALLS = """
np.exp(x)
np.add(x, a)
np.subtract(2, x)
np.multiply(a, x)
np.true_divide(x, 2)
np.power(x, 2)
np.power(2.0, x)
np.negative(x)
np.absolute(x)
np.fabs(x)
np.square(x)
np.sqrt(np.abs(x))
np.tanh(x)
np.log1p(np.exp(x))
np.logaddexp(x, a)
np.maximum(x, 0.0)
np.minimum(0.0, x)
np.hypot(x, a)
np.arctan2(x, a)
np.degrees(x)
np.rint(x)
np.sign(x)
np.isnan(x)
np.greater(x, a)
np.matmul(x, v)
np.float64(2) * x
a * x + a - x
a @ x.T
a / x
np.add.reduce(x)
np.add.reduce(x, axis=1, keepdims=True)
np.add.reduce(x, axis=None)
np.multiply.reduce(x)
np.maximum.reduce(x, axis=1)
np.minimum.reduce(x)
np.logaddexp.reduce(x, axis=1)
np.add.accumulate(x, axis=1)
np.multiply.accumulate(x)
np.maximum.accumulate(x)
np.subtract.outer(x[0], x[1])
np.multiply.outer(v, x)
np.sum(x)
np.sum(x, axis=1)
np.sum(x, axis=(0, 1), keepdims=True)
np.sum(x, dtype=np.float64)
np.mean(x, 0)
np.prod(x, axis=1)
np.max(x)
np.max(x, axis=1)
np.amax(x, axis=-1, keepdims=True)
np.min(x, 0)
np.amin(x, 0)
np.ptp(x, axis=0)
np.var(x, axis=-1, keepdims=True)
np.var(x, ddof=1)
np.std(x, axis=0)
np.argmax(x, axis=1)
np.argsort(x, axis=1)
np.sort(x, axis=1)
np.count_nonzero(x)
np.concatenate([x, x], axis=1)
np.concatenate((x, a))
np.stack([x, x], axis=-1)
np.vstack([x, a])
np.hstack([x, x])
np.where(a > 0, x, 0.0)
np.where(a > 0, x, a)
np.einsum("ij,kj->ik", x, a)
np.einsum("ij,kj->ik", x, x, optimize=True)
np.dot(x, v)
np.dot(x, 2.0)
np.inner(x, a)
np.outer(x[0], v)
np.vdot(x[0], v)
np.kron(x, a)
np.cross(x, a)
np.tensordot(x, a, axes=([1], [1]))
np.transpose(x)
np.transpose(x, (1, 0))
np.permute_dims(x, (1, 0))
np.matrix_transpose(x)
np.swapaxes(x, 0, 1)
np.moveaxis(x, 0, 1)
np.reshape(x, (3, 2))
np.ravel(x)
np.expand_dims(x, 0)
np.squeeze(x[None], axis=0)
np.broadcast_to(x, (2, 2, 3))
np.atleast_2d(x[0])
np.clip(x, -0.5, 0.5)
np.clip(x, min=0)
np.cumsum(x)
np.cumsum(x, axis=1)
np.cumprod(x, axis=1)
np.take(x, [0, 2], axis=1)
np.take(x, np.array([1, 5]))
np.take_along_axis(x, np.array([[0], [1]]), axis=1)
np.repeat(x, 2)
np.repeat(x, 2, axis=1)
np.tile(x, (2, 1))
np.roll(x, 1, axis=1)
np.roll(x, 1)
np.flip(x)
np.flip(x, axis=1)
np.fliplr(x)
np.rot90(x)
np.diagonal(x)
np.diag(x[0])
np.trace(x, offset=1)
np.tril(x)
np.triu(x, k=1)
np.split(x, 3, axis=1)
np.array_split(x, 2, axis=1)
np.round(x, 1)
np.nan_to_num(x)
np.diff(x, axis=1)
np.copy(x)
np.zeros_like(x)
np.full_like(x, 2.0)
np.linalg.norm(x)
np.linalg.norm(x, axis=1, keepdims=True)
np.linalg.norm(x, ord=1, axis=1)
np.linalg.det(x[:, :2])
np.linalg.inv(x[:, :2])
np.linalg.solve(x[:, :2], v[:2])
np.linalg.cholesky(x @ x.T)
""".strip().splitlines()


@pytest.mark.filterwarnings("ignore:repeat")
def test_values_are_those_of_numpy():
    for text in CALLS:
        program = eval(f"lambda np, x, a, v: {text}")
        result = program(np, tt.tensor(NUMBERS, requires_grad=True), OTHERS, V)
        expected = program(np, NUMBERS, OTHERS, V)
        several = isinstance(expected, tuple | list)
        for one, other in zip(result if several else [result], expected if several else [expected], strict=True):
            assert type(one) is tt.Tensor and one.shape == np.shape(other), text
            np.testing.assert_allclose(one.detach().numpy(), other, rtol=1e-12, err_msg=text)


def test_gradients_pass():
    checked = 0
    for text in CALLS:
        program = eval(f"lambda x: {text}", {"np": np, "a": OTHERS, "v": V})
        x = tt.tensor(NUMBERS, requires_grad=True)
        result = program(x)
        result = result[0] if isinstance(result, tuple | list) else result
        if result.requires_grad and not text.startswith(("np.round", "np.rint", "np.sign")):
            assert gradcheck(program, (x,)), text
            checked += 1
    assert checked > 100


def test_tensors_of_formulas_are_proved():
    def softmax(x):
        e = np.exp(x - np.max(x, axis=-1, keepdims=True))
        return e / np.sum(e, axis=-1, keepdims=True)

    def attention(q, k):
        return np.einsum("ij,jk->ik", softmax(np.matmul(q, np.transpose(k)) / np.sqrt(2.0)), k)

    assert prove(softmax, (2, 3)) and prove(attention, (2, 2), (2, 2))
    held = prove(lambda x: np.exp(x) * np.exp(x.detach()), (2,))
    assert not held and "is not on the tape" in repr(held)


def test_listed_functions_have_ours():
    for name in SAME.split():
        assert callable(getattr(tt, name)) or name in FORMULAS, name
    assert not set(FORMULAS) & set(SAME.split())


REFUSED = {
    "no function means the same": (
        lambda x: np.median(x),
        NotImplementedError,
        "numpy.median .* means the same",
    ),
    "a ufunc that is not here": (lambda x: np.cbrt(x), NotImplementedError, r"numpy.cbrt .*\.detach\(\) the tensor"),
    "a reduction": (lambda x: np.subtract.reduce(x), NotImplementedError, "numpy.subtract.reduce was called"),
    "at": (lambda x: np.add.at(x, [0], 1.0), NotImplementedError, "numpy.add.at was called"),
    "out=": (lambda x: np.add(x, 1, out=np.zeros(2)), TypeError, "numpy.add: out= is an array.*a = a \\+ x"),
    "out= of a function": (
        lambda x: np.sum(x, out=np.zeros(())),
        TypeError,
        "numpy.sum on a tensor that requires grad: sum: out=",
    ),
    "a mask": (
        lambda x: np.sum(x, where=np.array([True, False])),
        TypeError,
        "numpy.sum on a tensor .* argument 'where'",
    ),
    "Fortran's order": (lambda x: np.reshape(x, (2, 1), order="F"), TypeError, "numpy.reshape .* argument 'order'"),
    "another division": (lambda x: np.var(x, correction=1), TypeError, "numpy.var .* argument 'correction'"),
    "an array in place": (lambda x: np.zeros(2).__iadd__(x), TypeError, "numpy.add: out= is an array"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_missing_is_named(name):
    call, error, sentence = REFUSED[name]
    with pytest.raises(error, match=sentence):
        call(tt.tensor([1.0, 2.0], requires_grad=True))


def test_without_a_gradient_numpy_computes():
    x = tt.tensor([1.0, 2.0])
    assert type(np.exp(x)) is np.ndarray and np.median(x) == 1.5 and type(np.add.reduce(x)) is np.float32


def test_numpy_by_force():
    x = tt.tensor([1.0, 2.0], requires_grad=True)
    y = x * 2
    for tracked in (x, y):
        array = tracked.numpy(force=True)
        array[0] = 7.0
        assert type(array) is np.ndarray and tracked[0].item() == 7.0  # it is the tensor's memory
        for call in (tracked.numpy, tracked.to_numpy, lambda tracked=tracked: tracked.numpy(force=False)):
            with pytest.raises(RuntimeError, match=r"numpy\(\): this tensor requires grad.*\.detach\(\)\.numpy\(\)"):
                call()
    with pytest.raises(RuntimeError, match="meta tensor"):
        tt.ones(2, device="meta").numpy(force=True)
    assert tt.tensor(1.0).numpy(force=True) == 1.0


PLOTS = {
    "plot": lambda axes, a: [line.get_xydata() for line in axes.plot(a)],
    "plot of two": lambda axes, a: [line.get_xydata() for line in axes.plot(a, a)],
    "hist": lambda axes, a: axes.hist(a)[0],
    "fill_between": lambda axes, a: [p.vertices for p in axes.fill_between(a[:, 0], a[:, 0], a[:, 1]).get_paths()],
    "scatter": lambda axes, a: axes.scatter(a[:, 0], a[:, 1], c=a[:, 0]).get_offsets(),
    "imshow": lambda axes, a: axes.imshow(a).get_array(),
    "bar": lambda axes, a: [bar.get_height() for bar in axes.bar(a[:, 0], a[:, 1])],
}


@pytest.mark.parametrize("name", PLOTS)
def test_matplotlib_draws_tensors_as_arrays(name, monkeypatch):
    from matplotlib.figure import Figure

    numbers = np.random.default_rng(0).normal(size=(5, 2))
    expected = PLOTS[name](Figure().subplots(), numbers)
    x = tt.tensor(numbers)
    if name in ("plot", "plot of two", "hist", "imshow"):  # element by element a curve of 100,000 points takes seconds
        monkeypatch.delattr(tt.Tensor, "__iter__")
        monkeypatch.delattr(tt.Tensor, "item")
    np.testing.assert_array_equal(PLOTS[name](Figure().subplots(), x), expected)
    with pytest.raises(RuntimeError, match=r"requires grad.*\.detach\(\)"):
        PLOTS[name](Figure().subplots(), x.requires_grad_())
