"""Laws that hold for arrays of all shapes, against NumPy and between operations."""

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import tinytensor as tt
from tinytensor.core.promotion import broadcast_shape

quick = settings(deadline=None, derandomize=True, max_examples=40, suppress_health_check=[HealthCheck.too_slow])
seeds = st.integers(0, 10_000)
shapes = arrays.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4)
full_shapes = arrays.array_shapes(min_dims=1, max_dims=4, min_side=1, max_side=4)


def values(seed: int, *shape: int, low=-2.0, high=2.0) -> np.ndarray:
    return np.asarray(np.random.RandomState(seed).uniform(low, high, shape))


def leaf(array: np.ndarray) -> tt.Tensor:
    return tt.tensor(array, requires_grad=True)


def same(x: tt.Tensor, expected: np.ndarray, rtol: float = 1e-12) -> None:
    """Shape, dtype and values; sums of a few products in another order differ in the last places."""
    expected = np.asarray(expected)
    assert x.shape == expected.shape and x.dtype == expected.dtype
    np.testing.assert_allclose(x.detach().numpy(), expected, rtol=rtol, atol=1e-12)


def pulled(y: tt.Tensor, *xs: tt.Tensor, seed: int = 0) -> tuple[np.ndarray, ...]:
    """A random cotangent of y, and what backward makes of it for each x."""
    g = values(seed, *y.shape)
    result = tt.autograd.grad(y, xs, tt.tensor(g), allow_unused=True)
    return g, *(np.zeros(x.shape) if r is None else r.numpy() for r, x in zip(result, xs, strict=True))


def unbroadcast(g: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """g summed to a shape that was broadcast to it, by looking every element up."""
    result, of = np.zeros(shape), np.broadcast_to(np.arange(int(np.prod(shape))).reshape(shape), g.shape)
    np.add.at(result.reshape(-1), of.reshape(-1), g.reshape(-1))
    return result


def test_comparison_notices_value_shape_and_dtype():
    x = values(0, 2, 3)
    for wrong in (x + 1e-9, x[:1], x.astype(np.float32)):
        with pytest.raises(AssertionError):
            same(tt.tensor(x), wrong)


def test_gradient_without_one_path_is_noticed():
    x = leaf(values(0, 2, 3))
    g, gx = pulled(x * 2 + x.detach(), x)
    with pytest.raises(AssertionError):
        np.testing.assert_allclose(gx, g * 3, rtol=1e-11)
    np.testing.assert_allclose(gx, g * 2, rtol=1e-11)


# --- Broadcasting

BINARY = {
    "add": (np.add, lambda a, b: (1, 1)),
    "sub": (np.subtract, lambda a, b: (1, -1)),
    "mul": (np.multiply, lambda a, b: (b, a)),
    "div": (np.divide, lambda a, b: (1 / b, -a / b**2)),
    "pow": (np.power, lambda a, b: (b * a ** (b - 1), a**b * np.log(a))),
}


@pytest.mark.parametrize("name", BINARY)
@quick
@given(st.data(), seeds)
def test_elementwise_broadcasts_like_numpy(name, data, seed):
    drawn = data.draw(arrays.mutually_broadcastable_shapes(num_shapes=2, max_dims=4, min_side=0, max_side=4))
    a, b = (values(seed + i, *s, low=0.5) for i, s in enumerate(drawn.input_shapes))
    function, rule = BINARY[name]
    x, y = leaf(a), leaf(b)
    z = getattr(tt, name)(x, y)
    same(z, function(a, b))
    g, gx, gy = pulled(z, x, y)
    da, db = rule(a, b)
    np.testing.assert_allclose(gx, unbroadcast(g * da, a.shape), rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(gy, unbroadcast(g * db, b.shape), rtol=1e-11, atol=1e-12)


@quick
@given(shapes, shapes, seeds)
def test_shapes_that_do_not_broadcast_are_refused(one, other, seed):
    a, b = tt.tensor(values(seed, *one)), tt.tensor(values(seed, *other))
    try:
        expected = np.broadcast_shapes(one, other)
    except ValueError:
        with pytest.raises(RuntimeError, match="do not broadcast"):
            a + b
    else:
        assert broadcast_shape("add", one, other) == expected
        assert (a + b).shape == expected == (a < b).shape == tt.where(a < b, a, b).shape


# --- Reductions

REDUCTIONS = {
    "sum": (np.sum, 0),
    "mean": (np.mean, 1),
    "amax": (np.max, 1),
    "amin": (np.min, 1),
    "var": (lambda a, axis, keepdims: np.var(a, axis, ddof=1, keepdims=keepdims), 2),
    "std": (lambda a, axis, keepdims: np.std(a, axis, ddof=1, keepdims=keepdims), 2),
    "logsumexp": (lambda a, axis, keepdims: np.log(np.sum(np.exp(a), axis, keepdims=keepdims)), 1),
}


@pytest.mark.parametrize("name", REDUCTIONS)
@quick
@given(st.data(), seeds, st.booleans())
def test_reductions_like_numpy(name, data, seed, keepdim):
    function, least = REDUCTIONS[name]
    shape = data.draw(arrays.array_shapes(min_dims=1, max_dims=4, min_side=0 if name == "sum" else 1, max_side=4))
    dims = data.draw(st.sets(st.integers(-len(shape), len(shape) - 1), min_size=1))
    dims = tuple({d % len(shape): d for d in dims}.values())
    assume(np.prod([shape[d] for d in dims]) >= least)
    a = values(seed, *shape)
    x = leaf(a)
    y = getattr(tt, name)(x, dim=dims, keepdim=keepdim)
    same(y, function(a, axis=dims, keepdims=keepdim))
    g, gx = pulled(y, x)
    # moving all elements by the same amount moves a sum by their number, the scale-free ones by 1, a spread not at all
    count = {"sum": np.prod([shape[d] for d in dims]), "var": 0, "std": 0}.get(name, 1)
    if not (name == "std" and (y.detach().numpy() < 1e-3).any()):
        np.testing.assert_allclose(gx.sum(), g.sum() * count, rtol=1e-10, atol=1e-10)


@quick
@given(st.data(), full_shapes, seeds, st.booleans())
def test_argmax_and_cumsum_like_numpy(data, shape, seed, keepdim):
    dim = data.draw(st.integers(-len(shape), len(shape) - 1))
    a = np.round(values(seed, *shape))  # with ties
    x = leaf(a)
    assert np.array_equal(x.argmax(dim, keepdim=keepdim).numpy(), np.argmax(a, dim, keepdims=keepdim))
    highest, where = x.max(dim, keepdim=keepdim)
    same(highest, np.max(a, dim, keepdims=keepdim))
    assert np.array_equal(where.numpy(), np.argmax(a, dim, keepdims=keepdim))
    sums = x.cumsum(dim)
    same(sums, np.cumsum(a, dim))
    g, gx = pulled(sums, x)
    np.testing.assert_allclose(gx, np.flip(np.cumsum(np.flip(g, dim), dim), dim), rtol=1e-12, atol=1e-12)


@quick
@given(st.data(), full_shapes, seeds)
def test_softmax_rows_sum_to_1(data, shape, seed):
    dim = data.draw(st.integers(-len(shape), len(shape) - 1))
    x = leaf(values(seed, *shape, low=-30, high=30))
    y = x.softmax(dim)
    same(y.sum(dim), np.ones(np.delete(shape, dim)))
    same(x.log_softmax(dim).exp(), y.detach().numpy(), rtol=1e-11)
    _, gx = pulled(y, x)
    np.testing.assert_allclose(gx.sum(dim), 0, atol=1e-12)  # adding a number to a row changes nothing


# --- Shapes


@quick
@given(st.data(), shapes, seeds)
def test_permute_and_reshape_can_be_undone(data, shape, seed):
    a = values(seed, *shape)
    x = leaf(a)
    order = data.draw(st.permutations(range(len(shape))))
    y = x.permute(order)
    same(y, a.transpose(order))
    same(y.permute(np.argsort(order).tolist() if order else ()), a)
    same(y.reshape(-1) if a.size else y.flatten(), a.transpose(order).reshape(-1))
    flat = y.flatten()
    g, gx = pulled(flat, x)
    np.testing.assert_array_equal(gx, g.reshape(y.shape).transpose(np.argsort(order).astype(int)))
    same(flat.reshape(y.shape), a.transpose(order))


@quick
@given(st.data(), shapes, seeds)
def test_expanding_sums_the_gradient(data, shape, seed):
    a = values(seed, *shape)
    sizes = st.integers(0, 4)
    target = tuple(data.draw(sizes) if n == 1 else n for n in shape)
    target = (*data.draw(st.lists(sizes, max_size=1)), *target)
    x = leaf(a)
    y = x.expand(target)
    same(y, np.broadcast_to(a, target))
    g, gx = pulled(y, x)
    np.testing.assert_allclose(gx, unbroadcast(g, shape), rtol=1e-12, atol=1e-12)


@quick
@given(st.data(), full_shapes, seeds)
def test_basic_indexing_like_numpy(data, shape, seed):
    a = values(seed, *shape)
    key = data.draw(
        arrays.basic_indices(shape, allow_newaxis=True).filter(
            lambda k: all(s.step is None or s.step > 0 for s in (k if isinstance(k, tuple) else (k,)) if is_slice(s))
        )
    )
    x = leaf(a)
    y = x[key]
    same(y, a[key])
    g, gx = pulled(y, x)
    expected = np.zeros(shape)
    expected[key] = g
    np.testing.assert_array_equal(gx, expected)
    z = tt.tensor(a)
    z[key] = 7
    assert (z == 7).sum().item() == a[key].size  # random values are not 7


def is_slice(part) -> bool:
    return isinstance(part, slice)


@quick
@given(st.data(), full_shapes, seeds)
def test_advanced_indexing_adds_up(data, shape, seed):
    a = values(seed, *shape)
    result_shape = arrays.array_shapes(min_dims=1, max_dims=2, min_side=1, max_side=3)
    key = data.draw(arrays.integer_array_indices(shape[:2], result_shape=result_shape))
    x = leaf(a)
    y = x[tuple(tt.tensor(k) for k in key)]
    same(y, a[key])
    g, gx = pulled(y, x)
    expected = np.zeros(shape)
    np.add.at(expected, key, g)
    np.testing.assert_allclose(gx, expected, rtol=1e-12, atol=1e-12)
    mask = a > 0
    same(x[tt.tensor(mask)], a[mask])


@quick
@given(st.data(), seeds)
def test_cat_undoes_split(data, seed):
    shape = data.draw(arrays.array_shapes(min_dims=1, max_dims=3, min_side=1, max_side=5))
    dim = data.draw(st.integers(-len(shape), len(shape) - 1))
    a = values(seed, *shape)
    x = leaf(a)
    size = data.draw(st.integers(1, 6))
    pieces = x.split(size, dim)
    assert [p.shape[dim] for p in pieces] == [min(size, shape[dim] - i) for i in range(0, shape[dim], size)]
    whole = tt.cat(pieces, dim)
    same(whole, a)
    g, gx = pulled(whole, x)
    np.testing.assert_array_equal(gx, g)
    assert sum(c.shape[dim] for c in x.chunk(size, dim)) == shape[dim]
    same(tt.stack(x.unbind(dim), dim), a)
    same(x.flip(dim).flip(dim), a)


# --- Products


@quick
@given(st.data(), seeds)
def test_matmul_broadcasts_like_numpy(data, seed):
    drawn = data.draw(
        arrays.mutually_broadcastable_shapes(signature=np.matmul.signature, max_dims=2, min_side=0, max_side=4)
    )
    a, b = (values(seed + i, *s) for i, s in enumerate(drawn.input_shapes))
    x, y = leaf(a), leaf(b)
    z = x @ y
    same(z, np.matmul(a, b))
    g, gx, gy = pulled(z, x, y)
    # <g, (x dx) y> is linear in each factor: <gx, x> = <g, z> = <gy, y>
    np.testing.assert_allclose([(gx * a).sum(), (gy * b).sum()], [(g * np.matmul(a, b)).sum()] * 2, atol=1e-10)
    dx = values(seed + 2, *a.shape)
    np.testing.assert_allclose((gx * dx).sum(), (g * np.matmul(dx, b)).sum(), atol=1e-10)


@quick
@given(st.data(), seeds)
def test_einsum_like_numpy(data, seed):
    sizes = {c: data.draw(st.integers(1, 4)) for c in "ijkl"}
    terms = data.draw(
        st.lists(
            st.lists(st.sampled_from("ijkl"), min_size=1, max_size=3, unique=True).map("".join), min_size=1, max_size=3
        )
    )
    letters = sorted(set("".join(terms)))
    output = "".join(data.draw(st.lists(st.sampled_from(letters), unique=True, max_size=3)))
    equation = f"{','.join(terms)}->{output}"
    operands = [values(seed + i, *(sizes[c] for c in t)) for i, t in enumerate(terms)]
    xs = [leaf(a) for a in operands]
    y = tt.einsum(equation, *xs)
    same(y, np.einsum(equation, *operands))
    g, *gs = pulled(y, *xs)
    inner = (g * np.einsum(equation, *operands)).sum()
    for gx, a in zip(gs, operands, strict=True):  # linear in each operand
        np.testing.assert_allclose((gx * a).sum(), inner, rtol=1e-10, atol=1e-10)
    for i, a in enumerate(operands):
        other = values(seed + 9, *a.shape)
        moved = np.einsum(equation, *operands[:i], other, *operands[i + 1 :])
        np.testing.assert_allclose((gs[i] * other).sum(), (g * moved).sum(), rtol=1e-10, atol=1e-10)
