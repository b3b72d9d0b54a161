"""Writes through repeated indices: the last value stays, and it alone has a gradient. (PyTorch leaves both open.)"""

import pytest

import tinytensor as tt

INDEX = tt.tensor([1, 1, 2, 1])  # place 1 is written three times: the last value is that of row 3
STAYS = [0.0, 0.0, 1.0, 1.0]


def setitem(x, v):
    y = x.clone()
    y[INDEX] = v
    return y


def by_list(x, v):
    y = x.clone()
    y[[1, 1, 2, 1]] = v
    return y


def by_two_indices(x, v):
    y = x.reshape(2, 2).clone()
    y[INDEX // 2, INDEX % 2] = v
    return y.flatten()


WRITES = {
    "setitem": setitem,
    "a list": by_list,
    "two indices": by_two_indices,
    "index_copy": lambda x, v: x.index_copy(0, INDEX, v),
    "index_copy_": lambda x, v: x.clone().index_copy_(0, INDEX, v),
    "index_put": lambda x, v: x.index_put((INDEX,), v),
    "index_put_": lambda x, v: x.clone().index_put_((INDEX,), v),
    "scatter": lambda x, v: x.scatter(0, INDEX, v),
    "scatter_": lambda x, v: x.clone().scatter_(0, INDEX, v),
}


def parts():
    tt.manual_seed(0)
    return (tt.randn(4, dtype=tt.float64, requires_grad=True) for _ in range(2))


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_last_value_stays_and_gets_the_gradient(write):
    x, v = parts()
    y = write(x, v)
    assert y.tolist() == [x[0].item(), v[3].item(), v[2].item(), x[3].item()]
    y.sum().backward()
    assert v.grad.tolist() == STAYS
    assert x.grad.tolist() == [1, 0, 0, 1]
    assert tt.gradcheck(write, (x, v))
    assert tt.autograd.gradgradcheck(lambda x, v: write(x, v) ** 3, (x, v))


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_compiled_assignment_follows_the_indices(write):
    x, v = parts()

    @tt.compile
    def step(x, v):
        x.grad = v.grad = None
        (write(x, v) ** 2).sum().backward()
        return v.grad

    for _ in range(3):
        assert step(x, v).tolist() == (2 * v * tt.tensor(STAYS, dtype=tt.float64)).tolist()


def test_indices_that_change_between_replays():
    v = tt.ones(3, requires_grad=True)

    @tt.compile
    def step(index):
        v.grad = None
        tt.zeros(4).scatter(0, index, v).sum().backward()
        return v.grad

    for index, expected in (([0, 1, 2], [1, 1, 1]), ([3, 3, 3], [0, 0, 1]), ([2, 0, 2], [0, 1, 1])):
        assert step(tt.tensor(index)).tolist() == expected


@pytest.mark.parametrize("index", [[1, 1, 3], [0], [3, 3, 3], []], ids=str)
@pytest.mark.parametrize("position", [tt.Tensor.index_fill, lambda x, *args: x.clone().index_fill_(*args)])
def test_index_fill_counts_an_index_once(index, position):
    x, v = tt.zeros(2, 4, dtype=tt.float64), tt.tensor(2.0, dtype=tt.float64, requires_grad=True)
    write = lambda v: position(x, 1, tt.tensor(index, dtype=tt.int64), v)  # noqa: E731
    write(v).sum().backward()
    assert v.grad.item() == 2 * len(set(index))
    assert tt.gradcheck(write, (v,))


def test_overwritten_value_gets_no_infinite_gradient():
    v = tt.ones(2, requires_grad=True)
    y = tt.zeros(2)
    y[tt.tensor([0, 0])] = v
    y.backward(tt.tensor([tt.inf, 0.0]))
    assert v.grad.tolist() == [0, tt.inf]


def test_rows_are_overwritten_as_a_whole():
    v = tt.randn(3, 2, requires_grad=True)
    y = tt.zeros(2, 2)
    y[tt.tensor([1, 0, 1])] = v
    (y * tt.tensor([[1.0, 2.0], [3.0, 4.0]])).sum().backward()
    assert v.grad.tolist() == [[0, 0], [1, 2], [3, 4]]


@pytest.mark.parametrize("how", ["sum", "prod", "mean", "amax", "amin"])
@pytest.mark.parametrize("own", [True, False])
def test_scatter_reductions_of_repeated_indices(how, own):
    """INDEX sends three values to place 1, and one value to place 2."""
    x, v = parts()
    reduced = {
        "sum": sum,
        "prod": lambda values: tt.stack(values).prod(),
        "mean": lambda values: sum(values) / len(values),
        "amax": max,
        "amin": min,
    }[how]

    def by_hand(x, v):
        at_1, at_2 = [v[0], v[1], v[3], *[x[1]] * own], [v[2], *[x[2]] * own]
        return tt.stack([x[0], reduced(at_1), reduced(at_2), x[3]])

    def write(x, v):
        return x.scatter_reduce(0, INDEX, v, how, include_self=own)

    assert tt.allclose(write(x, v), by_hand(x, v), rtol=1e-14)
    ours, expected = (tt.autograd.grad((y(x, v) ** 2).sum(), (x, v)) for y in (write, by_hand))
    assert all(tt.allclose(a, b, rtol=1e-13) for a, b in zip(ours, expected, strict=True))
    assert tt.autograd.gradgradcheck(lambda x, v: write(x, v) ** 3, (x, v))
    step = tt.compile(lambda index: x.detach().scatter_reduce(0, index, v.detach(), how, include_self=own))
    for index in (INDEX, tt.tensor([0, 0, 0, 0]), tt.tensor([3, 2, 1, 0])):
        assert step(index).tolist() == x.scatter_reduce(0, index, v, how, include_self=own).tolist()


@pytest.mark.parametrize(("how", "expected"), [("amax", [0.5, 0, 0.5]), ("amin", [0, 1, 0])])
def test_scatter_extremes_share_the_gradient(how, expected):
    """x has the value 3 at the place too, but has no part in the result."""
    x, v = (tt.tensor(values, requires_grad=True) for values in ([3.0, 7.0], [3.0, 1.0, 3.0]))
    x.scatter_reduce(0, tt.tensor([0, 0, 0]), v, how, include_self=False).sum().backward()
    assert v.grad.tolist() == expected and x.grad.tolist() == [0, 1]


def test_scatter_products_and_sums_with_infinite_factors():
    x, v = (tt.tensor(values, requires_grad=True) for values in ([2.0, 1.0], [tt.inf, 3.0]))
    x.scatter(0, tt.tensor([0, 0]), v, reduce="multiply").sum().backward()
    assert v.grad.tolist() == [6, tt.inf] and x.grad.tolist() == [tt.inf, 1]
    v.grad = None
    x.detach().scatter(0, tt.tensor([1, 1]), v, reduce="add")[1].backward()
    assert v.grad.tolist() == [1, 1]


def test_put_keeps_the_last_value():
    x, v = parts()
    write = lambda x, v: x.put(INDEX, v)  # noqa: E731
    assert write(x, v).tolist() == setitem(x, v).tolist()
    write(x, v).sum().backward()
    assert v.grad.tolist() == STAYS and x.grad.tolist() == [1, 0, 0, 1]
