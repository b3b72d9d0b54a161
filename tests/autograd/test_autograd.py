"""The tape: order, sums, memory, changes in place, hooks, modes, checks of gradients, operations of one's own."""

import copy
import gc
import math
import operator
import os
import threading
import weakref
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import tinytensor as tt
from tinytensor import nn
from tinytensor.autograd import functional, grad
from tinytensor.core.dispatch import contiguous, empty, launch
from tinytensor.core.kernel import KERNELS
from tinytensor.core.tape import Observer, backward_pass
from tinytensor.nn import functional as F


def leaf(*values, dtype=tt.float32):
    return tt.tensor(values, dtype=dtype, requires_grad=True)


@pytest.fixture
def without_collector():
    """What dies here dies because nothing refers to it."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


# ------------------------------------------------------------------------------------------------ order and sums


def test_a_chain_of_100_000_operations():
    x = leaf(1.0, dtype=tt.float64)
    y = x
    for _ in range(100_000):
        y = y * 1.00001
    y.backward()
    assert x.grad.item() == pytest.approx(y.item(), rel=1e-9)


@pytest.mark.parametrize("step", [lambda y: y.tanh(), lambda y: y[:], lambda y: y.add_(1)])
def test_a_chain_is_dropped_without_recursion(step):
    y = leaf(1.0) * 1
    for _ in range(100_000):
        y = step(y)
    del y


def test_a_shared_node_is_visited_once():
    x = leaf(1.0, dtype=tt.float64)
    visits = []

    def visit(n, g):
        assert n not in visits  # fails at the second visit: 2^60 walks would outlive the sun
        visits.append(n)

    y = x
    for n in range(60):
        y = y + y
        y.register_hook(partial(visit, n))
    y.backward()
    assert x.grad.item() == 2.0**60
    assert visits == [*reversed(range(60))]


def test_diamond():
    a = leaf(2.0)
    b = a + a
    c = b * b
    d = b * 3
    (c * d + b).backward()  # 3 b^3 + b, with b = 2 a: (9 b^2 + 1) 2
    assert a.grad.tolist() == [290.0]


def test_walk_visits_nodes_by_age():
    """b = a + a; c = b + b: a walk that sends b's gradient on before both halves have arrived gives 2 or 3, not 4."""
    a = leaf(1.0)
    b = a + a
    c = b + b
    c.backward()
    assert a.grad.tolist() == [4.0]


def test_gradients_of_two_uses_and_two_backwards_add_up():
    x = leaf(2.0, 3.0)
    (x * x).sum().backward()
    assert x.grad.tolist() == [4.0, 6.0]
    (x * 5).sum().backward()
    assert x.grad.tolist() == [9.0, 11.0]
    x.sum().backward()
    (x * tt.tensor([1.0, 2.0])).sum().backward()
    assert x.grad.tolist() == [11.0, 14.0]


def test_accumulating_product_has_the_bits_of_a_sum():
    """With a listener the walk adds the shares up; without one the product does, and fewer sums are launched."""

    def note(gradients, target, g, owned):
        gradients[target] = g

    tt.manual_seed(0)
    x, w = tt.randn(2, 5, 8, requires_grad=True), [tt.randn(8, 8, requires_grad=True) for _ in range(4)]
    results, sums = [], []
    for listener in (None, lambda *_: None):
        for residual in (lambda z: z, lambda z: z.transpose(0, 2).exp().transpose(0, 2), lambda z: z.sum(0)[0] * 0.1):
            z = x.sin()
            y = residual(z) + tt.linear(z, w[0]) * tt.linear(z, w[1], w[0][0], relu=True) + tt.linear(z[:1], w[2])
            y = y + tt.linear(y, w[3]) * tt.linear(y, y[0])[..., :1]  # y itself as the weight: two shares of one node
            gradients = {}
            with tt.profile() as seen:
                backward_pass([y.sum()], [tt.ones(())], False, False, Observer(partial(note, gradients), listener))
            results.append([gradients[leaf].tolist() for leaf in (x, *w)])
            sums.append(seen.rows["add"].calls)
    assert results[:3] == results[3:]
    assert all(few < many for few, many in zip(sums[:3], sums[3:]))


def test_second_derivative_of_two_products_of_one_value():
    """f = |A z|^2 + |B z|^2 has the gradient 2 (A'A + B'B) z, whose sum has the gradient 2 (A'A + B'B) 1."""
    A, B = tt.tensor([[1.0, 2.0], [3.0, 4.0]]), tt.tensor([[5.0, 6.0], [7.0, 9.0]])
    matrix = 2 * (A.t() @ A + B.t() @ B)
    for start in (lambda x: x, lambda x: x * 1):  # a leaf, and what an operation made
        x = tt.tensor([[0.5, -2.0]], requires_grad=True)
        z = start(x)
        f = (tt.linear(z, A) ** 2).sum() + (tt.linear(z, B) ** 2).sum()
        (g,) = grad(f, x, create_graph=True)
        assert g[0].tolist() == (matrix @ x[0]).tolist()
        assert grad(g.sum(), x)[0].tolist() == [matrix.sum(0).tolist()]


@pytest.mark.parametrize(
    "rows", [partial(F.softmax, dim=-1), partial(F.log_softmax, dim=-1), partial(F.layer_norm, normalized_shape=(3,))]
)
def test_gradient_stays_where_the_rule_does_not_add_to_it(rows):
    w = tt.tensor([[1.0, 2.0, 3.0]])
    shares = {True: leaf([1.0, -1.0, 0.5]), False: leaf([1.0, -1.0, 0.5])}
    for residual, x in shares.items():
        z = x * 1
        y = rows(z) * w
        (y + z if residual else y).sum().backward()
    assert shares[True].grad.tolist() == (shares[False].grad + 1).tolist()


def test_products_accumulate_into_a_leafs_gradient():
    x, A = tt.ones(2, 2, requires_grad=True), tt.tensor([[1.0, 2.0], [3.0, 4.0]])
    y = tt.linear(x, A).sum() + tt.linear(x, A).sum() + tt.linear(x, x).sum()
    y.backward()
    assert x.grad.tolist() == [[12.0, 16.0], [12.0, 16.0]]


def test_anomaly_mode_finds_an_overflow_in_a_sum_of_gradients():
    z = tt.ones(1, 1, requires_grad=True).sin()
    y = tt.linear(z, tt.full((1, 1), 2e38)) + tt.linear(z, tt.full((1, 1), 2e38))
    with tt.autograd.detect_anomaly(), pytest.raises(FloatingPointError, match=r"^add: the first inf arose here"):
        y.sum().backward()


def test_gradient_of_an_expanded_view_accumulates():
    x = tt.ones(2, 3, requires_grad=True)
    x.sum().backward()
    (x * tt.arange(6).reshape(2, 3)).sum().backward()
    assert x.grad.tolist() == [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]
    x.grad[0, 0] = 9.0
    assert x.grad.tolist() == [[9.0, 2.0, 3.0], [4.0, 5.0, 6.0]]


def test_broadcast_inputs_get_gradients_of_their_shape():
    a, b, c = tt.ones(3, 1, requires_grad=True), tt.ones(4, requires_grad=True), tt.tensor(2.0, requires_grad=True)
    (a * b * c).sum().backward()
    assert a.grad.tolist() == [[8.0]] * 3
    assert b.grad.tolist() == [6.0] * 4
    assert c.grad.item() == 12.0
    factors = tt.arange(24.0).reshape(2, 3, 4)
    for shape, dims in (((3, 1), (0, 2)), ((1, 4), (0, 1)), ((1, 1), (0, 1, 2))):
        d = tt.ones(*shape, requires_grad=True)
        (d * factors).sum().backward()
        assert d.grad.tolist() == factors.sum(dims).reshape(shape).tolist()


@pytest.mark.parametrize("shape", [(0, 3), (1, 3), (2, 3), (1, 1, 3)])
def test_gradient_without_broadcast_has_its_own_memory(shape):
    """Where broadcasting repeated nothing, no sum is needed; but the leaf's gradient shares memory with no tensor."""
    x, g = tt.ones(1, 3, requires_grad=True), tt.ones(*shape)
    x.expand(shape).backward(g)
    assert x.grad.tolist() == [[float(math.prod(shape[:-1]))] * 3]
    x.grad.zero_()
    assert g.tolist() == tt.ones(*shape).tolist()


def test_gradient_of_a_full_slice():
    x, g = tt.ones(2, 3, requires_grad=True), tt.ones(2, 3)
    x[:2, 0:].backward(g)
    assert x.grad.tolist() == g.tolist()
    x.grad.zero_()
    assert g.tolist() == tt.ones(2, 3).tolist()
    x[:, :2].sum().backward()
    assert x.grad.tolist() == [[1, 1, 0], [1, 1, 0]]


def test_a_gradient_has_the_dtype_of_its_leaf():
    x = leaf(1.0, 2.0)
    (x * tt.ones(2, dtype=tt.float64)).sum().backward()
    assert x.grad.dtype is tt.float32


# ----------------------------------------------------------------------------------------------------- backward()


@pytest.mark.parametrize("function", [lambda x: (x * x).sum(), lambda x: x.exp().sum(), lambda x: F.softmax(x, 0)[0]])
def test_a_second_backward_needs_retain_graph(function):
    x = leaf(1.0, 2.0)
    y = function(x)
    y.backward(retain_graph=True)
    once = x.grad.clone()
    y.backward()
    assert x.grad.tolist() == (once * 2).tolist()
    with pytest.raises(RuntimeError, match=r"freed by an earlier backward\(\).*retain_graph=True"):
        y.backward()


def test_backward_errors():
    with pytest.raises(RuntimeError, match=r"starts from one number, but this tensor has shape \(2,\): call .sum"):
        (leaf(1.0, 2.0) * 2).backward()
    with pytest.raises(RuntimeError, match="does not require grad"):
        tt.ones(1).backward()
    with pytest.raises(RuntimeError, match=r"the gradient has shape \(3,\), but the tensor has shape \(2,\)"):
        (leaf(1.0, 2.0) * 2).backward(tt.ones(3))


def test_backward_from_a_given_gradient():
    x = leaf(1.0, 2.0)
    (x * x).backward(tt.tensor([1.0, 10.0]))
    assert x.grad.tolist() == [2.0, 40.0]
    y = leaf(3.0)
    y.backward()
    assert y.grad.tolist() == [1.0]


def test_create_graph_keeps_the_walked_nodes():
    """The rule of exp reads its result, so the second walk passes exp's node as the first one did."""
    x = tt.tensor([0.5], requires_grad=True)
    x.exp().sum().backward(create_graph=True)
    first, x.grad = x.grad, None
    first.sum().backward()
    assert x.grad.item() == first.item()


def test_create_graph():
    x = leaf(2.0, dtype=tt.float64)
    (x**3).sum().backward(create_graph=True)
    first = x.grad
    assert first.tolist() == [12.0] and first.requires_grad
    x.grad = None
    first.sum().backward()
    assert x.grad.tolist() == [12.0]
    assert not x.grad.requires_grad
    (x * x).sum().backward(create_graph=True)  # what is there stays, and is added to
    assert x.grad.tolist() == [16.0] and x.grad.requires_grad


def test_third_derivative():
    x = leaf(0.5, dtype=tt.float64)
    y = x.tanh()
    for _ in range(3):
        (y,) = grad(y, x, create_graph=True)
    t = np.tanh(0.5)
    assert y.item() == pytest.approx((1 - t * t) * (6 * t * t - 2), rel=1e-12)


def test_grad_by_leaves_and_by_computed_tensors():
    x = leaf(1.0, 2.0)
    y = x * x
    z = (y * y).sum()
    by_y, by_x, repeated = grad(z, [y, x, x])
    assert by_y.tolist() == [2.0, 8.0]
    assert by_x.tolist() == repeated.tolist() == [4.0, 32.0]
    assert x.grad is None
    (itself,) = grad(x, x, tt.tensor([1.0, 2.0]))
    assert itself.tolist() == [1.0, 2.0]
    z = y.exp().sum()
    (by_y,) = grad(z, y)
    np.testing.assert_allclose(by_y.numpy(), np.exp([1.0, 4.0]), rtol=1e-6)


def test_grad_of_several_outputs():
    x = leaf(1.0, 2.0)
    (g,) = grad([x * 2, (x * x).sum()], x, [tt.ones(2), None])
    assert g.tolist() == [4.0, 6.0]


def test_grad_of_unused_inputs():
    x, unused = leaf(1.0), leaf(1.0)
    with pytest.raises(RuntimeError, match=r"do not depend on the inputs number \[1\]; allow_unused=True gives None"):
        grad(x * 2, [x, unused])
    assert grad(x * 2, [x, unused], allow_unused=True)[1] is None
    with pytest.raises(RuntimeError, match="does not require grad"):
        grad(x * 2, tt.ones(1))


def test_grad_walks_no_further_than_its_inputs():
    x, w = leaf(1.0), leaf(2.0)
    h = x * w
    y = h * 3
    grad(y, h)
    h.backward()  # the part below h was not walked, so it was not freed
    assert (x.grad.item(), w.grad.item()) == (2.0, 1.0)


def test_a_gradient_shares_memory_with_no_other_tensor():
    a, b, start, kept = leaf(1.0, 1.0), leaf(1.0, 1.0), tt.ones(2), []
    a.register_hook(kept.append)
    c = (a + b) * 1
    c.retain_grad()
    c.register_hook(kept.append)
    c.backward(start)
    d = leaf(5.0, 5.0)
    d.backward(start)
    e = leaf(1.0, 1.0)
    e.register_hook(lambda g: kept.append(g.detach()))
    (e * 2).backward(start)
    assert not np.shares_memory(e.grad.numpy(), kept[-1].numpy())
    everything = [a.grad, b.grad, c.grad, d.grad, start]
    for i, x in enumerate(everything):
        for y in [*everything[:i], *(kept if i < 4 else [])]:
            assert not np.shares_memory(x.numpy(), y.numpy())
    a.grad.add_(100)
    assert b.grad.tolist() == c.grad.tolist() == d.grad.tolist() == [1.0, 1.0]


def test_create_graph_gradients_share_no_memory():
    a, b = leaf(1.0), leaf(1.0)
    (a + b).backward(create_graph=True)
    with tt.no_grad():
        a.grad.add_(5)
    assert b.grad.tolist() == [1.0]


def test_grad_attribute():
    x = leaf(1.0, 2.0)
    with pytest.raises(ValueError, match=r"a gradient of shape \(3,\) does not fit a tensor of shape \(2,\)"):
        x.grad = tt.ones(3)
    x.grad = tt.ones(2)
    (x * 2).sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]


def test_walk_reports_each_gradient():
    a, b = leaf(2.0), tt.tensor(3.0, requires_grad=True)
    y, shares = a * b, []
    backward_pass([y], [tt.ones(1)], False, False, Observer(lambda *_: None, lambda *share: shares.append(share)))
    assert [(node, i, r.tolist(), g.tolist()) for node, i, r, g in shares] == [
        (y.node, 0, [3.0], [3.0]),
        (y.node, 1, [2.0], 2.0),
    ]


# --------------------------------------------------------------------------------------------------------- hooks


def test_hooks_of_leaves_and_of_computed_tensors():
    x, seen = leaf(1.0, 2.0), []
    y = x * 3
    y.register_hook(lambda g: seen.append(g.tolist()))
    remove = y.register_hook(lambda g: g * 2)
    x.register_hook(lambda g: g + 1)
    (y * y).sum().backward(retain_graph=True)
    assert seen == [[6.0, 12.0]]
    assert x.grad.tolist() == [37.0, 73.0]
    remove()
    x.grad = None
    (y * 1).sum().backward()
    assert x.grad.tolist() == [4.0, 4.0]


def test_a_hook_sees_the_sum_of_a_shared_tensor():
    x, seen = leaf(1.0), []
    y = x * 2
    y.register_hook(lambda g: seen.append(g.item()))
    x.register_hook(lambda g: seen.append(g.item()))
    (y * 3 + y * 4).backward()
    assert seen == [7.0, 14.0]


def test_hooks_act_on_grad_too():
    x = leaf(1.0)
    y = x * 2
    y.register_hook(lambda g: g * 10)
    assert grad(y * 1, x)[0].item() == 20.0


def test_invalid_hooks_are_refused():
    with pytest.raises(RuntimeError, match="does not require grad"):
        tt.ones(1).register_hook(print)


def test_retain_grad_sees_all_hooks_and_follows_changes_in_place():
    x = leaf(1.0, 2.0)
    y, z, v = x * 3, x * 1, x * 1
    y.retain_grad()
    y.register_hook(lambda g: g * 10)
    z.retain_grad()
    z.mul_(5)
    v.retain_grad()
    v[0] = z[1]
    (y + 7 * z + v).sum().backward()
    assert y.grad.tolist() == [10.0, 10.0]
    assert z.grad.tolist() == [7.0, 8.0]
    assert v.grad.tolist() == [1.0, 1.0]
    assert x.grad.tolist() == [65.0, 71.0]


def test_retain_grad(without_collector):
    x = leaf(1.0, 2.0)
    y = x * 3
    y.retain_grad()
    x.retain_grad()  # no more than it had
    (y * y).sum().backward()
    assert y.grad.tolist() == [6.0, 12.0]
    assert x.grad.tolist() == [18.0, 36.0]
    dead = weakref.ref(y)
    del y
    assert dead() is None


# ----------------------------------------------------------------------------------------------- changes in place

CHANGED = {
    "an input": lambda x, w: (x * w, w),
    "an input through a view": lambda x, w: (x * w, w[0]),
    "an input through detach": lambda x, w: (x * w, w.detach()),
    "a matrix": lambda x, w: (x.reshape(1, 2) @ w.reshape(2, 1), w),
    "a weight": lambda x, w: (F.linear(x, w.reshape(1, 2)), w),
    "a view that was used": lambda x, w: (x[:1] * w[:1], w),
}
CHANGED_OUTPUT = {
    "exp": lambda x: x.exp(),
    "relu": lambda x: x.relu(),
    "softmax": lambda x: x.softmax(0),
    "sqrt": lambda x: x.sqrt(),
    "tanh": lambda x: x.tanh(),
    "reciprocal": lambda x: x.reciprocal(),
}


@pytest.mark.parametrize("what", CHANGED)
def test_a_changed_input_raises_at_backward(what):
    x, w = leaf(1.0, 2.0), tt.tensor([3.0, 4.0])
    y, changed = CHANGED[what](x, w)
    changed.add_(1)
    with pytest.raises(RuntimeError, match=r"the input .* was changed in place after it was used.*clone"):
        y.sum().backward()


@pytest.mark.parametrize("what", CHANGED_OUTPUT)
@pytest.mark.parametrize("how", [lambda y: y, lambda y: y[0], lambda y: y.detach()])
def test_a_changed_output_raises_at_backward(what, how):
    y = CHANGED_OUTPUT[what](leaf(1.0, 2.0))
    how(y).add_(1)
    with pytest.raises(RuntimeError, match="was changed in place after it was used"):
        y.sum().backward()


def test_a_changed_index_that_was_returned_raises():
    x = tt.ones(3, 2, requires_grad=True)
    values, indices = x.max(1)
    indices.add_(1)
    with pytest.raises(RuntimeError, match="the result index of reduce_max was changed in place"):
        values.sum().backward()


HARMLESS = {
    "sum of two": lambda x, w: (x + w, w, [1.0, 1.0]),
    "output of a product": lambda x, w: ((y := x * w), y, [3.0, 4.0]),
    "output of a quotient": lambda x, w: ((y := w / x), y, [-3.0, -1.0]),
    "output of a sum": lambda x, w: ((y := x + w), y, [1.0, 1.0]),
    "input of a product with a number": lambda x, w: ((y := x * 1) * 3, y, [3.0, 3.0]),
    "input of exp": lambda x, w: ((y := x * 1).exp() * 0 + y * 2, tt.ones(1), [2.0, 2.0]),
    "bias": lambda x, w: (F.linear(x.reshape(2, 1), tt.ones(2, 1), w), w, [2.0, 2.0]),
    "data": lambda x, w: (x * w, w.data, [4.0, 5.0]),  # without a version check, as the name says
}


@pytest.mark.parametrize("what", HARMLESS)
def test_a_harmless_change_does_not_raise(what):
    x, w = leaf(1.0, 2.0), tt.tensor([3.0, 4.0])
    y, changed, expected = HARMLESS[what](x, w)
    changed.add_(1)
    y.sum().backward()
    assert x.grad.tolist() == expected


def test_a_weight_changed_before_backward_raises():
    model = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))
    loss = model(tt.ones(4, 2)).sum()
    with tt.no_grad():
        model[2].weight.mul_(2)
    with pytest.raises(RuntimeError, match="the input weight of linear was changed in place"):
        loss.backward()


def test_changing_a_leaf_raises():
    x = leaf(1.0, 2.0)
    changes = lambda: x.add_(1), lambda: x.__setitem__(0, 1.0), lambda: x[0].mul_(2), lambda: x.view(2, 1).zero_()
    for change in changes:
        with pytest.raises(RuntimeError, match=r"made by the user.*no_grad\(\)"):
            change()
    assert x.tolist() == [1.0, 2.0]


def test_changing_a_leaf_off_the_tape():
    x = leaf(1.0, 2.0)
    with tt.no_grad():
        x.add_(1)
        x[0] = 7.0
    x.data.mul_(2)
    x.detach()[1] = 5.0
    assert x.tolist() == [14.0, 5.0]
    assert x.is_leaf and x.requires_grad


def test_in_place_on_the_tape():
    """Numbers checked against PyTorch 2.13."""
    x = leaf(1.0, 2.0, 3.0)
    y = x * 2
    y[0] = x[2] * 10
    y[1:] *= x[:2]
    y.add_(x, alpha=3)
    y -= 1
    (y * tt.tensor([1.0, 10.0, 100.0])).sum().backward()
    assert y.tolist() == [32.0, 9.0, 20.0]
    assert x.grad.tolist() == [43.0, 650.0, 710.0]


def test_views_changed_in_place():
    x = tt.arange(6, dtype=tt.float32).reshape(2, 3).requires_grad_()
    y = x * 1
    row, column = y[0], y.T[1]
    row.mul_(2)
    ((y * y).sum() + (column * tt.tensor([10.0, 100.0])).sum()).backward()  # the column leads to the new values
    assert x.grad.tolist() == [[0.0, 8.0 + 20.0, 16.0], [6.0, 8.0 + 100.0, 10.0]]


def test_a_view_of_a_view_changed_in_place():
    x = leaf(1.0, 2.0, 3.0, 4.0)
    y = x * 1
    y.reshape(2, 2)[1].mul_(tt.tensor([5.0, 6.0]))
    y.view(4)[::2] = 0.0
    y.sum().backward()
    assert x.grad.tolist() == [0.0, 1.0, 0.0, 6.0]


def test_a_view_of_a_view_whose_base_was_changed():
    x = leaf(1.0, 2.0)
    y = x * 1
    view = y[:]
    y.mul_(3)
    view[:].mul_(2)
    y.sum().backward()
    assert x.grad.tolist() == [6.0, 6.0]


def test_a_tensor_without_gradient_that_gets_one_in_place():
    x, total = leaf(1.0, 2.0), tt.zeros(3)
    total[:2] += x * x
    part = total[1:]
    part.mul_(4)
    total.sum().backward()
    assert total.tolist() == [1.0, 16.0, 0.0]
    assert x.grad.tolist() == [2.0, 16.0]


def test_a_view_follows_its_base():
    x = leaf(1.0, 2.0)
    y = x * 1
    view = y[:1]
    y.mul_(2)
    (view * 3).sum().backward()
    assert x.grad.tolist() == [6.0, 0.0]


def test_writing_through_a_view_and_going_back_from_it():
    x = leaf(1.0, 2.0)
    y = (x * 2).view(-1)
    y[0] = 0
    y.backward(tt.ones(2))
    assert x.grad.tolist() == [0.0, 2.0]
    x = leaf(1.0, 2.0)
    y = (x * 2).view(1, 2)
    turned = y.transpose(0, 1)
    turned[...] = x.reshape(2, 1) * 5
    (g,) = tt.autograd.grad(turned.sum() + y.sum(), x)
    assert g.tolist() == [10.0, 10.0]


def test_hooks_and_retained_gradients_of_a_following_view():
    x, seen = leaf(1.0, 2.0), []
    y = x * 1
    view = y[:1]
    y.mul_(2)
    view.register_hook(lambda g: seen.append(g.tolist()))
    view.retain_grad()
    (view * 3).sum().backward()
    assert seen == [[3.0]] and view.grad.tolist() == [3.0] and x.grad.tolist() == [6.0, 0.0]


def test_a_view_of_a_part_of_a_detached_memory_follows_too():
    x = leaf(1.0, 2.0, 3.0, 4.0)
    base = tt.zeros(2, 2).T.detach()
    view = base.T[0]
    base[:, 0] = x[:2] * 3
    (view * view).sum().backward()
    assert x.grad.tolist() == [18.0, 36.0, 0.0, 0.0]


def test_a_view_made_before_its_base_came_on_the_tape():
    """It did not require grad when it was made, but what is computed from it does."""
    for use in (lambda v: v * 2, lambda v: v.add_(1) * 2, lambda v: v[0] * 2):
        x, base = leaf(1.0, 2.0), tt.zeros(2)
        view = base[:1]
        base.add_(x)
        use(view).sum().backward()
        assert x.grad.tolist() == [2.0, 0.0]
    x, base = leaf(1.0, 2.0), tt.zeros(2)
    view = base[:1]
    base.add_(x)
    view.retain_grad()
    (view * 3).sum().backward()
    assert view.grad.tolist() == [3.0]


def test_overlapping_assignment_reads_the_old_values():
    """Where source and target overlap, nothing is read that has just been written."""
    x = tt.arange(6.0)
    x[1:] += x[:-1]
    assert x.tolist() == [0.0, 1.0, 3.0, 5.0, 7.0, 9.0]
    x[1:] = x[:-1]
    assert x.tolist() == [0.0, 0.0, 1.0, 3.0, 5.0, 7.0]
    x[1:].mul_(x[:-1])
    assert x.tolist() == [0.0, 0.0, 0.0, 3.0, 15.0, 35.0]
    square = tt.arange(9).reshape(3, 3)
    assert square.copy_(square.T).tolist() == [[0, 3, 6], [1, 4, 7], [2, 5, 8]]


def test_in_place_rounding_has_zero_gradient():
    x = leaf(1.0, 2.5)
    for change in (lambda y: y.div_(2, rounding_mode="floor"), lambda y: y.floor_divide_(2), lambda y: y.floor_()):
        y = x * 3
        change(y)
        x.grad = None
        y.sum().backward()
        assert x.grad.tolist() == [0.0, 0.0]


def test_a_result_of_another_dtype_is_stored_in_place():
    x = tt.tensor([1.0, 2.0])
    assert x.mul_(tt.tensor([2.0, 3.0], dtype=tt.float64)) is x
    assert x.dtype is tt.float32 and x.tolist() == [2.0, 6.0]


def test_every_augmented_assignment_is_made_in_place():
    for name in ("iadd", "isub", "imul", "ifloordiv", "imod", "ipow", "iand", "ior", "ixor"):
        x = tt.tensor([7, 12, 5])
        same = x
        expected = getattr(operator, f"__{name[1:]}__")(x, 3).tolist()
        x = getattr(operator, f"__{name}__")(x, 3)
        assert x is same and x.tolist() == expected


def test_an_expanded_tensor_cannot_be_changed():
    for change in (lambda x: x.add_(1), lambda x: x.fill_(1), lambda x: x.copy_(tt.ones(3))):
        with pytest.raises(RuntimeError, match=r"several elements of this expanded tensor share memory; clone\(\)"):
            change(tt.zeros(1).expand(3))


def test_the_result_of_a_linear_layer_may_be_changed():
    x, w = leaf(1.0, 2.0), leaf(3.0, 4.0).reshape(1, 2)
    y = F.linear(x, w)
    y *= 0.5
    y.sum().backward()
    assert x.grad.tolist() == [1.5, 2.0]
    y = F.linear(x, w, relu=True)
    y *= 0.5
    with pytest.raises(RuntimeError, match="the output y of linear_relu was changed in place"):
        y.sum().backward()


def test_comparison_with_other_types_is_false():
    x = tt.ones(2)
    assert None not in [x] and (x == None) is False and (x != None) is True  # noqa: E711
    assert (x == "a") is False and (x == 1).tolist() == [True, True]


def test_view_taken_under_no_grad_cannot_be_changed_on_the_tape():
    x = leaf(1.0, 2.0)
    y = x * 2
    with tt.no_grad():
        view = y[:1]
        view.add_(1)
    with pytest.raises(RuntimeError, match=r"this view was taken under no_grad\(\)"):
        view.mul_(3)
    y.sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]


def test_flip_is_a_copy_even_of_one_element():
    x = leaf(1.0)
    y = (x * 1).reshape(1, 1)
    z = y.flip(0)
    z.mul_(3)
    (y + z).sum().backward()
    assert y.item() == 1.0
    assert x.grad.tolist() == [4.0]


def test_masks_and_indices_assigned_on_the_tape():
    x, v = leaf(1.0, 2.0, 3.0, 4.0), leaf(10.0)
    y = x * 2
    y[tt.tensor([True, False, False, True])] = v
    y[tt.tensor([1])] = 3 * v
    (y * tt.tensor([1.0, 10.0, 100.0, 1000.0])).sum().backward()
    assert x.grad.tolist() == [0.0, 0.0, 200.0, 0.0]
    assert v.grad.tolist() == [1031.0]


def test_an_expanded_tensor_cannot_be_changed_on_the_tape():
    y = (leaf(1.0) * 1).expand(3)
    with pytest.raises(RuntimeError, match="share memory; clone"):
        y.add_(1)


def test_in_place_result_must_fit_shape_and_dtype():
    x = tt.ones(2)
    with pytest.raises(RuntimeError, match=r"a result of shape \(3, 2\) does not fit a tensor of shape \(2,\)"):
        x.add_(tt.ones(3, 2))
    with pytest.raises(RuntimeError, match="a result of dtype float32 can't be stored in a tensor of int64"):
        tt.tensor([1]).add_(0.5)


def test_detach_shares_memory_and_leaves_the_tape():
    x = leaf(1.0, 2.0)
    y = x * 2
    d = y.detach()
    assert not d.requires_grad and d.is_leaf
    d[0] = 9.0
    assert y.tolist() == [9.0, 4.0]
    (y.detach() * x).sum().backward()
    assert x.grad.tolist() == [9.0, 4.0]


def test_requires_grad_is_refused_for_integers_and_results():
    with pytest.raises(RuntimeError, match="only floating-point tensors have gradients, this one is int64"):
        tt.tensor([1]).requires_grad_()
    with pytest.raises(RuntimeError, match=r"computed from others; use detach\(\)"):
        (leaf(1.0) * 2).requires_grad_(False)
    assert not (leaf(1.0) > 0).requires_grad
    assert not leaf(1.0).long().requires_grad


# --------------------------------------------------------------------------------------------------------- modes


def test_no_grad_as_context_and_decorator():
    x = leaf(1.0)

    @tt.no_grad()
    def off(depth):
        return (x * 2).requires_grad or (depth > 0 and off(depth - 1))

    @tt.no_grad
    def bare():
        return tt.is_grad_enabled()

    assert not off(3)
    assert not bare()
    assert tt.is_grad_enabled()
    with tt.no_grad():
        assert not (x * 2).requires_grad
        with tt.enable_grad():
            assert (x * 2).requires_grad
        assert not tt.is_grad_enabled()
    with pytest.raises(ValueError, match="inside"), tt.no_grad():
        raise ValueError("inside")
    assert tt.is_grad_enabled()
    with tt.inference_mode():
        assert not tt.is_grad_enabled()


def test_no_grad_around_a_generator():
    seen = []

    @tt.no_grad()
    def steps(n):
        try:
            for i in range(n):
                seen.append(tt.is_grad_enabled())
                try:
                    seen.append((yield i))
                except KeyError:
                    seen.append("caught")
        finally:
            seen.append(("end", tt.is_grad_enabled()))
        return "done"

    assert [(i, tt.is_grad_enabled()) for i in steps(2)] == [(0, True), (1, True)]
    assert seen == [False, None, False, None, ("end", False)]
    seen.clear()
    generator = steps(5)
    assert next(generator) == 0
    assert generator.send("sent") == 1
    assert generator.throw(KeyError()) == 2
    assert tt.is_grad_enabled()
    generator.close()
    assert seen == [False, "sent", False, "caught", False, ("end", False)]

    def result():
        return (yield from steps(0))

    assert list(result()) == []
    assert tt.is_grad_enabled()


def test_set_grad_enabled():
    tt.set_grad_enabled(False)
    assert not tt.is_grad_enabled()
    tt.set_grad_enabled(True)
    with tt.set_grad_enabled(False):
        assert not tt.is_grad_enabled()
    assert tt.is_grad_enabled()

    @tt.set_grad_enabled(False)
    def off():
        return tt.is_grad_enabled()

    assert tt.is_grad_enabled()
    assert not off()
    with tt.no_grad():
        assert not off()
        assert not tt.is_grad_enabled()
    assert tt.is_grad_enabled()


def test_modes_belong_to_a_thread():
    seen = []
    with tt.no_grad():
        thread = threading.Thread(target=lambda: seen.append(tt.is_grad_enabled()))
        thread.start()
        thread.join()
        assert not tt.is_grad_enabled()
    assert seen == [True]


# -------------------------------------------------------------------------------------------------------- memory


@pytest.fixture
def built():
    """The kernels that the tests of memory use are compiled: the compiler leaves circles behind."""
    x = leaf(1.0, 2.0)
    (F.layer_norm(x * 2, (2,)).exp() * F.softmax(x, 0)).sum().backward()


def test_backward_frees_the_graph_at_once(built, without_collector):
    x = leaf(1.0, 2.0)
    h = x * 2
    z = F.layer_norm(h, (2,))
    loss = (z.exp() * F.softmax(h, 0)).sum()
    product = loss.node.edges[0]
    dead = [weakref.ref(obj) for obj in (h.node, z.node, h._data, *product.saved.values())]
    del h, z, product
    assert all(ref() is not None for ref in dead)
    loss.backward()
    assert all(ref() is None for ref in dead)


def test_graph_without_saved_values_can_be_walked_again():
    """As in PyTorch: a transpose outside of a loop, sums, and the parts of a sum that were not walked."""
    W = leaf(1.0, 2.0)
    row = W.reshape(1, 2).t() * 3
    for _ in range(2):
        (tt.ones(1, 2) @ row).sum().backward()
    assert W.grad.tolist() == [6, 6]
    a, b = leaf(1.0), leaf(2.0)
    y = (a * 2 + b * b).sum()
    assert [g.item() for g in tt.autograd.grad(y, a) + tt.autograd.grad(y, b)] == [2, 4]
    with pytest.raises(RuntimeError, match=r"\(mul\) was freed by an earlier backward"):
        y.backward()

    class Twice(tt.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

    x = leaf(1.0)
    y = Twice.apply(x)
    for _ in range(2):
        y.backward()
    assert x.grad.item() == 4


def test_dropped_graph_is_freed_at_once(built, without_collector):
    x = leaf(1.0, 2.0)
    y = (x * 2).softmax(0)
    y[0] = x[1] * 2
    loss = y.sum()
    dead = [weakref.ref(obj) for obj in (y.node, y._data, loss.node)]
    del y, loss
    assert all(ref() is None for ref in dead)


def test_backward_frees_values_of_surviving_nodes(built, without_collector):
    x = leaf(1.0, 2.0)
    y, z = x.exp(), F.layer_norm(x * 1, (2,))
    nodes = [y.node, z.node]  # a program that keeps a loss in a list keeps its node
    kept = [value for edge in z.node.edges if edge for value in edge.saved.values()]
    dead = [weakref.ref(value) for value in (y._data, *kept) if isinstance(value, tt.Tensor | np.ndarray)]
    del kept
    loss = y.sum() + z.sum()
    del y, z
    loss.backward()
    assert all(ref() is None for ref in dead)
    assert len(nodes) == 2


def test_values_unread_by_rules_are_not_kept(without_collector):
    x = tt.ones(100, requires_grad=True)
    h = x * 2
    y = h + 1
    array = weakref.ref(h._data)
    del h
    assert array() is None
    y.sum().backward()
    assert x.grad[0].item() == 2


def resident() -> int:
    """Bytes of memory that the process holds (0 where the system does not say)."""
    statm = Path("/proc/self/statm")
    return int(statm.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") if statm.exists() else 0


@pytest.mark.parametrize("wrap", [lambda f: f, tt.compile])
def test_memory_is_flat_over_2_000_steps(wrap, without_collector):
    tt.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.LayerNorm(8), nn.Dropout(0.1), nn.Linear(8, 3))
    opt = tt.optim.AdamW(model.parameters(), lr=1e-3)
    scheduler = tt.optim.lr_scheduler.WarmupCosineLR(opt, 10, 2000)
    x, y = tt.randn(64, 4), tt.randint(0, 3, (64,))

    @wrap
    def step(x, y):
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        scheduler.step()
        opt.zero_grad()
        return loss

    for i in range(2000):
        loss = step(x, y)
        if i == 200:
            objects, size = len(gc.get_objects()), resident()
    assert np.isfinite(loss.item())
    assert len(gc.get_objects()) - objects < 100  # one tensor kept a step would be 1,800
    assert resident() - size < 10e6  # the activations of 1,800 steps would be 40 MB


# -------------------------------------------------------------------------------------------- checks of gradients


def cube(rule):
    """y = x^3 with a gradient rule of the test's choosing."""
    return tt.op(type("cube", (), {"__doc__": "y = x^3", "forward": lambda x: x * x * x, "grad_x": rule}))


def points():
    return tt.tensor([[0.3, -1.2], [0.7, 2.0]], dtype=tt.float64, requires_grad=True)


def test_a_right_gradient_passes_the_checks():
    right = cube(lambda g, y, x: g * 3 * x * x)
    assert tt.gradcheck(right, points())
    assert tt.gradgradcheck(right, points())
    assert tt.gradcheck(lambda a, b: (a @ b, a.sum() * b), (points(), points()))


WRONG = {
    "tripled": lambda g, y, x: g * 9 * x * x,
    "a forgotten term": lambda g, y, x: g * 3 * x,
    "a sign": lambda g, y, x: -g * 3 * x * x,
    "five per mille": lambda g, y, x: g * 3.015 * x * x,
    "zero": lambda g, y, x: g * 0,
    "NaN": lambda g, y, x: g * float("nan"),
    "transposed": lambda g, y, x: (g * 3 * x * x).T,
}


@pytest.mark.parametrize("how", WRONG)
def test_a_wrong_gradient_fails_the_check(how):
    wrong = cube(WRONG[how])
    with pytest.raises(RuntimeError, match=r"gradcheck: d output 0\[\d\] / d input 0\[\d\] is .* on the tape, but"):
        tt.gradcheck(wrong, points())
    assert not tt.gradcheck(wrong, points(), raise_exception=False)


def test_a_wrong_second_derivative_fails_the_second_check():
    wrong = cube(lambda g, y, x: g * 3 * x * x.detach())  # the first derivative is right
    assert tt.gradcheck(wrong, points())
    with pytest.raises(RuntimeError, match="gradcheck: d output"):
        tt.gradgradcheck(wrong, points())
    lost = cube(lambda g, y, x: g.detach() * 3 * x * x)  # does not depend on g: wrong by the incoming gradient
    assert tt.gradcheck(lost, points())
    assert not tt.gradgradcheck(lost, points(), raise_exception=False)


def test_missing_or_nan_gradient_fails_the_check():
    assert not tt.gradcheck(lambda x: x * x.detach(), points(), raise_exception=False)
    assert not tt.gradcheck(lambda x: x * float("nan"), points(), raise_exception=False)


def test_the_checks_refuse_float32():
    for check in (tt.gradcheck, tt.gradgradcheck):
        with pytest.raises(ValueError, match="dtype float32; finite differences need float64"):
            check(lambda x: x * 2, tt.ones(2, requires_grad=True))
    with pytest.raises(ValueError, match="no input requires grad"):
        tt.gradcheck(lambda x: x * 2, tt.ones(2, dtype=tt.float64))
    with pytest.raises(ValueError, match="no output of the function depends on the inputs"):
        tt.gradcheck(lambda x: x.detach(), points())


# --------------------------------------------------------------------------------------------------- anomaly mode


def test_anomaly_mode_names_the_operation():
    x = leaf(4.0, -1.0)
    (x.log() * 2).sum().backward()  # without the mode nothing happens
    with tt.detect_anomaly():
        with pytest.raises(FloatingPointError, match=r"^log: the first NaN arose here: the inputs \(2,\) are finite"):
            x.log().exp()
        with pytest.raises(FloatingPointError, match=r"^true_divide: the first inf arose here"):
            1 / (x - 4)
        root = (x - x).sqrt()
        with pytest.raises(FloatingPointError, match=r"^backward of sqrt: .*the first inf arose"):
            root.sum().backward()
    assert not np.isfinite((x.log() * 2).sum().item())


def test_infinity_passes_without_anomaly_mode():
    x = tt.tensor([[1e30]])
    assert np.isinf((x @ x).item())


def test_set_detect_anomaly_as_function_and_as_context():
    x = leaf(-1.0)
    tt.autograd.set_detect_anomaly(True)
    try:
        with pytest.raises(FloatingPointError, match=r"^log:"):
            x.log()
        with tt.autograd.set_detect_anomaly(False):
            assert np.isnan(x.log().item())
        with pytest.raises(FloatingPointError, match=r"^log:"):
            x.log()
    finally:
        tt.autograd.set_detect_anomaly(False)
    assert np.isnan(x.log().item())
    tt.autograd.detect_anomaly()  # a context that is never entered
    assert np.isnan(x.log().item())


def test_anomaly_mode_names_a_fused_operation():
    @tt.op
    class broken:
        r"y = x, with a gradient that is NaN"

        def forward(x):
            return x.copy()

        def backward(needs, g, y, x):
            return (g * np.nan,)

        def definition(x):
            return x * 1

    with (
        tt.autograd.set_detect_anomaly(True),
        pytest.raises(
            FloatingPointError, match=r"backward of broken: the first NaN arose in the gradient of x, of shape \(2,\)"
        ),
    ):
        broken(leaf(1.0, 2.0)).sum().backward()


# ---------------------------------------------------------------------------------- functional, by closed forms


def test_functional_derivatives():
    rng = np.random.default_rng(0)
    A, x = tt.tensor(rng.normal(size=(3, 3))), tt.tensor(rng.normal(size=3))
    v = tt.tensor(rng.normal(size=3))
    a, n, w = A.numpy(), x.numpy(), v.numpy()
    close = lambda got, expected: np.testing.assert_allclose(got.numpy(), expected, rtol=1e-12, atol=1e-12)  # noqa: E731

    close(functional.jacobian(lambda x: A @ x, x), a)
    close(functional.jacobian(lambda x: x.exp(), x), np.diag(np.exp(n)))
    by_a, by_x = functional.jacobian(lambda A, x: A @ x, (A, x))
    close(by_a, np.einsum("ij,k->ijk", np.eye(3), n))
    close(by_x, a)
    quadratic = lambda x: x @ A @ x  # noqa: E731
    close(functional.hessian(quadratic, x), a + a.T)
    (xx, xy), (yx, yy) = functional.hessian(lambda x, y: x @ A @ y, (x, v))
    for got, expected in ((xx, np.zeros((3, 3))), (xy, a), (yx, a.T), (yy, np.zeros((3, 3)))):
        close(got, expected)
    value, product = functional.vjp(lambda x: A @ x, x, v)
    close(value, a @ n)
    close(product, w @ a)
    value, product = functional.jvp(lambda x: (A @ x).sin(), x, v)
    close(value, np.sin(a @ n))
    close(product, np.cos(a @ n) * (a @ w))
    value, product = functional.hvp(quadratic, x, v)
    close(value, n @ a @ n)
    close(product, (a + a.T) @ w)
    assert functional.jacobian(lambda x: x.sum(), x).tolist() == [1.0, 1.0, 1.0]
    assert functional.hessian(lambda x: x.sum(), x).tolist() == [[0.0] * 3] * 3


def test_functional_is_a_module():
    from tinytensor.autograd.functional import hessian, hvp, jacobian, jvp, vjp

    assert (hessian, hvp, jacobian, jvp, vjp) == tuple(
        getattr(tt.autograd.functional, name) for name in ("hessian", "hvp", "jacobian", "jvp", "vjp")
    )


def test_functional_derivatives_can_be_differentiated():
    x = tt.tensor([1.0, 2.0], dtype=tt.float64, requires_grad=True)
    functional.jacobian(lambda x: x**3, x, create_graph=True).sum().backward()
    assert x.grad.tolist() == [6.0, 12.0]


# ------------------------------------------------------------------------------------- an operation of one's own


def in_every_mode(operation, plain, shape=(3, 4)):
    """Value, gradient, second derivative, and a compiled training step, against the same in simpler operations."""
    x = tt.tensor(np.random.default_rng(1).normal(size=shape), requires_grad=True)
    np.testing.assert_allclose(operation(x).detach().numpy(), plain(x).detach().numpy(), rtol=1e-12)
    assert tt.gradcheck(operation, x)
    assert tt.gradgradcheck(operation, x)
    trained = []
    for function, wrap in ((operation, lambda f: f), (operation, tt.compile), (plain, tt.compile)):
        w = nn.Parameter(tt.ones(*shape))
        opt = tt.optim.SGD([w], lr=0.1)

        def step(x, w=w, opt=opt, function=function):
            opt.zero_grad()
            loss = function(w * x).square().mean()
            loss.backward()
            opt.step()
            return loss

        step = wrap(step)
        for i in range(4):
            step(tt.tensor(np.random.default_rng(i).normal(size=shape).astype(np.float32)))
        trained.append(w.detach().numpy())
    assert trained[0].tobytes() == trained[1].tobytes()
    np.testing.assert_allclose(trained[0], trained[2], rtol=1e-5)


def test_custom_operation_with_elementwise_kernel_and_rule():
    @tt.elementwise
    def softsign_kernel(x):
        return x / (1 + abs(x))

    @tt.op
    class softsign:
        r"y = x / (1 + |x|)"

        kernel = softsign_kernel

        def grad_x(g, y, x):
            return g / ((1 + x.abs()) * (1 + x.abs()))

    in_every_mode(softsign, lambda x: x / (1 + x.abs()))
    assert repr(softsign) == "<op softsign(x): y = x / (1 + |x|)>"


def test_custom_operation_with_loop_backward_and_definition():
    @tt.kernel()
    def unit_rows(x, y, length):
        for i in range(x.shape[0]):
            total = x.dtype.type(0)
            for j in range(x.shape[1]):
                total += x[i, j] * x[i, j]
            length[i] = np.sqrt(total)
            for j in range(x.shape[1]):
                y[i, j] = x[i, j] / length[i]

    @tt.kernel()
    def unit_rows_backward(g, y, length, dx):
        for i in range(y.shape[0]):
            along = y.dtype.type(0)
            for j in range(y.shape[1]):
                along += g[i, j] * y[i, j]
            for j in range(y.shape[1]):
                dx[i, j] = (g[i, j] - along * y[i, j]) / length[i]

    @tt.op
    class unit:
        r"y_{ij} = x_{ij} / |x_i|"

        saved = ("length",)

        def forward(x):
            y, length = empty(x.shape, x.dtype), empty(x.shape[:1], x.dtype)
            launch(unit_rows, contiguous(x), y, length)
            return y, length

        def backward(g, y, length):
            dx = empty(y.shape, y.dtype)
            launch(unit_rows_backward, contiguous(g), y, length, dx)
            return (dx,)

        def definition(x):
            return x / (x * x).sum(-1, keepdim=True).sqrt()

    in_every_mode(unit, unit.definition)


def test_custom_operation_with_several_inputs_and_a_setting():
    @tt.op
    class blend:
        r"y = (1 - t) a + t b"

        def forward(a, b, t):
            y = empty(a.shape, a.dtype)
            launch(blend_kernel, a, b, a.dtype.type(t), y)
            return y

        def grad_a(g, t):
            return g * (1 - t)

        def grad_b(g, t):
            return g * t

    @tt.elementwise
    def blend_kernel(a, b, t):
        return a + t * (b - a)

    in_every_mode(lambda x: blend(x, x * x, 0.25), lambda x: x * 0.75 + x * x * 0.25)


def test_rule_of_an_unknown_input_is_refused():
    with pytest.raises(TypeError, match=r"op odd: \['grad_z'\] name no input; the inputs are \('x',\)"):

        @tt.op
        class odd:
            def forward(x):
                return x

            def grad_z(g, y, x):
                return g


def test_rule_asks_for_arguments_by_name():
    with pytest.raises(TypeError, match="asks for 'z'; it may ask for g, y, needs, accumulated, x, or a shape"):

        @tt.op
        class odd:
            def forward(x):
                return x

            def grad_x(g, z):
                return g

    with pytest.raises(TypeError, match="op odd: g, y, needs and accumulated are reserved parameters of rules; "):

        @tt.op
        class odd:
            def forward(g):
                return g


def test_rule_asks_for_settings_constants_and_shapes(without_collector):
    @tt.op
    class scaled:
        r"y = c s x"

        def kernel(x, s, c=2.0):
            return c * s * x

        def grad_x(g, s, c, x_shape):
            assert x_shape == (3,)
            return g * (s * c)

    @tt.op
    class total:
        r"y = x_1 + x_2 + ..."

        def forward(times, *xs):
            return sum((x * times for x in xs[1:]), xs[0] * times)

        def grad_xs(g, times, xs):
            return [g * times + x.detach() * 0 for x in xs]

    x, z = leaf(1.0, 2.0, 3.0), leaf(4.0, 5.0, 6.0)
    h = x * 1
    y = scaled(h, 3.0)
    assert y.tolist() == [6.0, 12.0, 18.0]
    array = weakref.ref(h._data)
    del h
    assert array() is None  # only its shape was asked for
    total(0.5, y, z, tt.ones(3), y).sum().backward()
    assert (x.grad.tolist(), z.grad.tolist()) == ([6.0] * 3, [0.5] * 3)


def test_operation_takes_positional_and_keyword_arguments():
    @tt.op
    class scaled:
        r"y = c s x"

        dtype_kinds = "f"

        def kernel(x, s, c=2.0):
            return c * s * x

    @tt.op
    class halves:
        r"y = x / 2"

        dtype = "float"

        def kernel(x):
            return x / 2

    x = tt.tensor([1.0, 2.0])
    for y in (scaled(x, 3.0), scaled(x, 3.0, 2.0), scaled(x, s=3.0), scaled(c=2.0, s=3.0, x=x)):
        assert y.tolist() == [6.0, 12.0]
    with pytest.raises(RuntimeError, match="scaled: expected floating-point tensors, got int64"):
        scaled(tt.tensor([1, 2]), 3, 2)
    assert halves(tt.tensor([1, 2])).tolist() == [0.5, 1.0]
    with pytest.raises(TypeError, match=r"halves: expected 1 arguments \(x\), got 2"):
        halves(x, x)
    assert x.tolist() == [1.0, 2.0]
    assert launched("halves", lambda: halves(x)) == 1


def test_custom_view_operation():
    @tt.op
    class every_other:
        r"y_i = x_{2 i}"

        def view(x):
            return x[::2]

        def definition(x):
            return x[::2]

    x = leaf(1.0, 2.0, 3.0)
    y = every_other(x)
    assert np.shares_memory(y.detach().numpy(), x.detach().numpy())
    y.backward(tt.tensor([5.0, 7.0]))  # there is nothing but the definition to go back
    assert x.grad.tolist() == [5.0, 0.0, 7.0]


def test_an_operation_without_a_derivative_leaves_the_tape():
    @tt.op
    class halves:
        r"y = x / 2"

        def forward(x):
            return x / 2

    y = halves(leaf(1.0))
    assert y.node is None and not y.requires_grad


def test_run_puts_only_wanted_gradients_on_the_tape():
    """The general way of a call, which most calls in these tests do not need to take."""
    x, exp, floor_divide = leaf(1.0, 2.0), tt.OPS["exp"], tt.OPS["floor_divide"]
    assert exp.run((x,)).node is not None
    assert exp.run((x.detach(),)).node is None
    with tt.no_grad():
        assert exp.run((x,)).node is None
    assert floor_divide.run((x, x)).node is None  # it has no derivative


def test_a_rule_runs_only_if_its_gradient_is_wanted():
    @tt.op
    class added:
        r"y = a + b"

        def forward(a, b):
            return a + b

        def grad_a(g):
            raise AssertionError("this gradient is not wanted")

        def grad_b(g):
            return g

    b = leaf(1.0)
    added(tt.ones(1), b).backward()
    assert b.grad.tolist() == [1.0]


def test_changed_input_of_a_variadic_operation_raises():
    @tt.op
    class product:
        r"y = x_1 x_2"

        saved, outputs = ("sum",), 2

        def forward(*xs):
            return xs[0] * xs[1], xs[0] + xs[1]

        def grad_xs(g, xs, xs_shape):
            assert xs_shape == ((2,), (2,))
            return g * xs[1], g * xs[0]

    y, more = product(tt.ones(2), tt.ones(2))
    assert y.node is more.node is None
    for changed in (0, 1, None):
        x, z = leaf(1.0, 2.0), leaf(3.0, 4.0)
        inputs = [x * 1, z * 1]
        y, _ = product(*inputs)
        if changed is None:
            y.sum().backward()
            assert (x.grad.tolist(), z.grad.tolist()) == ([3.0, 4.0], [1.0, 2.0])
        else:
            inputs[changed].mul_(2)
            with pytest.raises(RuntimeError, match="the input xs of product was changed in place"):
                y.sum().backward()


def test_engine_operation_declared_twice_is_refused():
    parts = {"__doc__": "y = x", "__module__": "tinytensor.ops.somewhere", "forward": lambda x: x}
    form = type("of_the_engine", (), parts)
    operation = tt.op(form)
    try:
        assert tt.OPS["of_the_engine"] is operation
        with pytest.raises(ValueError, match="op of_the_engine is declared twice"):
            tt.op(form)
    finally:
        del tt.OPS["of_the_engine"]


def test_a_rule_reads_what_was_saved_as_a_constant():
    @tt.op
    class hinge:
        r"y = \max(x, 0) x"

        saved = ("mask",)

        def forward(x):
            mask = (x > 0).astype(x.dtype)
            return x * x * mask, mask

        def grad_x(g, x, mask):
            assert isinstance(mask, tt.Tensor)
            return g * x * 2 * mask

    x = leaf(3.0, -1.0)
    (first,) = grad(hinge(x).sum(), x, create_graph=True)
    (second,) = grad(first.sum(), x)
    assert (first.tolist(), second.tolist()) == ([6.0, 0.0], [2.0, 0.0])


def test_rule_may_return_none_for_an_input():
    @tt.op
    class first:
        r"y = a + 0 b"

        def forward(a, b):
            return a + 0 * b

        def backward(g):
            return g, None

    a, b, calls = leaf(1.0), leaf(2.0), []
    b.register_post_accumulate_grad_hook(calls.append)
    (first(a, b) * 3).backward()
    assert a.grad.tolist() == [3.0]
    assert b.grad is None and not calls


def test_gradients_of_leaves_have_their_own_memory():
    """A gradient is kept without a copy only where its rule made it: what is shared must be copied."""

    @tt.op
    class careless:
        r"y = a + b, with a backward that returns what it was given"

        def forward(a, b):
            return a + b

        def backward(g):
            return g, g

        def definition(a, b):
            return a + b

    @tt.op
    class twin:
        r"y = a + b, with one new array for both gradients"

        def forward(a, b):
            return a + b

        def backward(g):
            dx = g * 1
            return dx, dx

        def definition(a, b):
            return a + b

    @tt.op
    class half_squares:
        r"y = \sum x_i^2 / 2, at a gradient of 1: a rule that returns what was kept"

        def forward(*xs):
            return sum(x * x for x in xs) / 2

        def grad_xs(g, xs):
            return [x.detach() for x in xs]

    functions = {
        "sum": lambda a, b: a + b,
        "careless": careless,
        "twin": twin,
        "half squares": half_squares,
        "views": lambda a, b: a.reshape(3, 2).T.reshape(6) + b,
        "product": lambda a, b: a * b,
        "used twice": lambda a, b: a + b + a * b,
        "broadcast": lambda a, b: a.sum() + b,
    }
    for name, function in functions.items():
        a, b = (tt.tensor(np.arange(1.0, 7.0), requires_grad=True) for _ in range(2))
        seed = tt.tensor(np.ones(6))
        function(a, b).backward(seed)
        arrays = {"a": a._data, "b": b._data, "seed": seed._data, "a.grad": a.grad._data, "b.grad": b.grad._data}
        before = {k: v.copy() for k, v in arrays.items()}
        a.grad.mul_(100)
        changed = [k for k, v in arrays.items() if not np.array_equal(v, before[k])]
        assert changed == ["a.grad"], name
        assert a.grad.is_contiguous() and b.grad.is_contiguous(), name
    a, b = leaf(1.0), leaf(1.0)
    careless(a, tt.ones(1)).backward()  # the other gradient is not wanted
    assert a.grad.item() == 1.0
    a.grad = None
    for x in (a, b):
        x.register_post_accumulate_grad_hook(lambda x: x.grad.mul_(100))
    twin(a, b).backward()
    assert (a.grad.tolist(), b.grad.tolist()) == ([100.0], [100.0])


def test_custom_kernels_stay_out_of_the_table():
    @tt.elementwise
    def exp(x):
        return x + 1

    assert KERNELS["exp"] is not exp
    exp.py_func.__module__ = "tinytensor.elsewhere"
    with pytest.raises(ValueError, match=r"kernel exp: the name is taken by tinytensor\.ops\.elementwise"):
        tt.elementwise(exp.py_func)


# ---------------------------------------------------------------------------------------------------------- NumPy


def test_arrays_and_tensors_share_memory():
    array = np.array([1.0, 2.0], np.float32)
    x = tt.from_numpy(array)
    x[0] = 5.0
    assert array[0] == 5.0
    x.numpy()[1] = 7.0
    assert array.tolist() == [5.0, 7.0]
    assert np.shares_memory(np.asarray(x), array)
    assert not np.shares_memory(np.array(x), array)
    assert not np.shares_memory(tt.tensor(array).numpy(), array)
    assert np.asarray(x, dtype=np.float64).dtype == np.float64
    array.flags.writeable = False
    copied = tt.from_numpy(array)
    copied[0] = 0.0
    assert array[0] == 5.0


def test_dlpack_both_ways():
    x = tt.tensor([1.0, 2.0])
    array = np.from_dlpack(x)
    assert np.shares_memory(array, x.numpy())
    back = tt.from_dlpack(array)
    back[0] = 9.0
    assert x.tolist() == [9.0, 2.0]
    assert tt.from_dlpack(x)[0].item() == 9.0
    with pytest.raises(RuntimeError, match="requires grad"):
        np.from_dlpack(leaf(1.0))


NUMPY = {
    "exp": lambda x: np.exp(x),
    "sum": lambda x: np.sum(x),
    "mean": lambda x: np.mean(x, axis=0),
    "concatenate": lambda x: np.concatenate([x, x]),
    "matmul": lambda x: np.eye(2, dtype=np.float32) @ x,
    "add": lambda x: np.ones(2, np.float32) + x,
    "where": lambda x: np.where(np.ones(2, bool), x, 0),
}


@pytest.mark.parametrize("name", NUMPY)
def test_numpy_functions(name):
    x = tt.tensor([1.0, 2.0])
    expected = NUMPY[name](np.array([1.0, 2.0], np.float32))
    result = NUMPY[name](x)
    assert isinstance(result, tt.Tensor if name in ("matmul", "add") else np.ndarray | np.generic)  # operators
    assert result.dtype == expected.dtype and (result == expected).all()
    result = NUMPY[name](leaf(1.0, 2.0))  # tests/torch_names/test_numpy_functions.py has their gradients
    assert isinstance(result, tt.Tensor) and result.requires_grad
    np.testing.assert_allclose(result.detach().numpy(), expected, rtol=1e-6)


def test_numpy_scalars_are_numbers():
    x = leaf(1.0, 2.0)
    y = np.sqrt(4.0) * x + x / np.float64(2) - np.float32(1) - (np.int64(1) - x) + np.float64(2) ** x
    assert y.dtype == tt.float32
    assert y.tolist() == [3.5, 9.0]
    y.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), [3.5 + 2 * np.log(2), 3.5 + 4 * np.log(2)], rtol=1e-6)


def test_arrays_beside_tensors_are_tensors():
    x, array = leaf(1.0, 2.0), np.array([2.0, 3.0])
    y = x * array + array.astype(np.float32) - array
    assert y.dtype == tt.float64 and y.tolist() == [2.0, 6.0]
    y.sum().backward()
    assert x.grad.tolist() == [2.0, 3.0]
    assert (x @ array.astype(np.float32)).item() == 8.0 and (x > array).tolist() == (x == array).tolist() == [False] * 2
    assert (x**array).tolist() == [1.0, 8.0] and (x / array).tolist() == [0.5, pytest.approx(2 / 3)]
    x.detach().__iadd__(array[0])
    assert x.tolist() == [3.0, 4.0]


def test_numpy_conversion_of_a_tracked_tensor_is_refused():
    x = leaf(1.0, 2.0)
    with pytest.raises(RuntimeError, match=r"use .detach\(\).numpy\(\)"):
        x.numpy()
    with pytest.raises(RuntimeError, match=r"a NumPy function was called on a tensor that requires grad"):
        np.asarray(x)
    with pytest.raises(TypeError, match=r"expected tensors or numbers, got ndarray; use tinytensor.from_numpy"):
        x.mul(np.ones(2))
    assert x.detach().numpy().tolist() == [1.0, 2.0]
    out = np.zeros(2, np.float32)
    np.add(tt.ones(2), 1, out=out)
    assert out.tolist() == [2.0, 2.0]
    target = tt.zeros(2)
    np.add(np.ones(2, np.float32), 1, out=target)
    assert target.tolist() == [2.0, 2.0]


# ------------------------------------------------------------------------------- an index that changed behind the tape

READERS = {
    "embedding": lambda w, i: tt.nn.functional.embedding(i, w),
    "indexing": lambda w, i: w[i],
    "gather": lambda w, i: w.gather(0, i[:, None]),
    "cross_entropy": lambda w, i: tt.nn.functional.cross_entropy(w[:2], i),
}
CHANGES = {
    "data": lambda i, array, n: i.data.fill_(n),
    "numpy": lambda i, array, n: np.copyto(i.numpy(), n),
    "alias": lambda i, array, n: np.copyto(array, n),
}


@pytest.mark.parametrize("n", [10**10, -(10**10)])
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("read", READERS)
def test_index_changed_after_forward_stays_in_bounds(read, change, n):
    array = np.array([0, 1])
    w, i = tt.ones(5, 3, requires_grad=True), tt.from_numpy(array)
    y = READERS[read](w, i).sum()
    CHANGES[change](i, array, n)
    y.backward()
    assert read == "indexing" or not w.grad.numpy().any()  # what is read at a wrong number is passed over
    assert np.isin(w.grad.numpy(), (0, 1)).all()


@pytest.mark.parametrize("shape", [(2,), (4, 3), (3, 1)])
def test_a_gradient_that_does_not_fit_its_leaf_is_refused(shape):
    w = tt.ones(3, requires_grad=True)
    y = (w * tt.tensor([1.0, 2.0, 3.0])).sum()
    w.data = tt.ones(*shape)
    with pytest.raises(RuntimeError, match=r"a gradient of shape \(3,\) arrives at a tensor of shape .*another shape"):
        y.backward()


def test_backward_after_replaced_data_raises():
    x = leaf(1.0, 2.0)
    for before in (0, 1):
        for after in (0, 1):
            with tt.no_grad():
                for _ in range(before):
                    x.mul_(2)
            y = (x * x).sum()
            x.data = tt.ones(2)
            with tt.no_grad():
                for _ in range(after):
                    x.mul_(2)
            with pytest.raises(RuntimeError, match=r"the input [ab] of mul was changed in place"):
                y.backward()
    y = (x * 3).sum()  # whose rule does not read x
    x.data = tt.zeros(2)
    y.backward()
    assert x.grad.tolist() == [3.0, 3.0]


def test_copies_of_tensors_have_memory_of_their_own():
    x = leaf(1.0, 2.0)
    (x * x).sum().backward()
    one, other, meta = copy.deepcopy([x, x, tt.empty(2, device="meta")])
    assert one is other and one.requires_grad
    for mine, its in ((x, one), (x.grad, one.grad)):
        assert not np.shares_memory(mine.detach().numpy(), its.detach().numpy())
        assert mine.tolist() == its.tolist()
    assert meta.is_meta and meta.shape == (2,)


def test_integer_tensor_refuses_requires_grad():
    for ask in (lambda x: setattr(x, "requires_grad", True), lambda x: x.requires_grad_()):
        with pytest.raises(RuntimeError, match="only floating-point tensors have gradients, this one is int64"):
            ask(tt.tensor([1, 2]))
    y = tt.ones(2, requires_grad=True) * 2
    with pytest.raises(RuntimeError, match="this tensor was computed from others; use detach"):
        y.requires_grad = False


@pytest.mark.parametrize("shape", [(3,), (1, 3), (1, 1), (4, 2, 3), (6,), (5, 3)])
def test_reshaped_leaf_refuses_the_old_gradient(shape):
    w = tt.ones(2, 3, requires_grad=True)
    y = (w * tt.ones(4, 2, 3)).sum()
    w.data = tt.ones(*shape)
    with pytest.raises(RuntimeError, match=r"was \.data given another shape.*Compute forward anew"):
        y.backward()
    assert w.grad is None
    (w * 2).sum().backward()  # what is computed afterwards is right
    assert w.grad.shape == shape and (w.grad == 2).all()


def launched(kernel: str, fn) -> int:
    """How often a kernel runs in fn()."""
    with tt.profile() as seen:
        fn()
    return seen.rows[kernel].calls


def of_a_transposed_weight(look):
    """W, whose gradient came back through W.t(), and what `look` at that view gave."""
    x, W = tt.ones(2, 3), tt.arange(12.0).reshape(3, 4).requires_grad_()
    view = W.t()
    seen = look(view)
    F.linear(x, view).sum().backward()
    return W, seen


def test_exclusive_gradient_passes_views_without_a_copy():
    x, W, g = tt.ones(2, 3), tt.ones(3, 4).requires_grad_(), tt.ones(2, 4)
    y = F.linear(x, W.t())
    assert launched("copy", lambda: y.backward(g)) == 0
    assert W.grad.is_contiguous() and W.grad.tolist() == [[2.0] * 4] * 3
    W.grad = None
    (W.t() * tt.arange(12.0).reshape(4, 3)).backward(tt.ones(4, 3))
    assert W.grad.is_contiguous() and W.grad.tolist() == tt.arange(12.0).reshape(4, 3).t().tolist()
    b = tt.ones(3, requires_grad=True)
    y, g = x + b, tt.ones(2, 3)
    assert launched("copy", lambda: y.backward(g)) == 0  # the sum over rows is new
    assert b.grad.tolist() == [2.0] * 3


def test_gradient_seen_by_a_hook_is_not_shared():
    kept = []
    W, _ = of_a_transposed_weight(lambda view: view.register_hook(kept.append))
    W.grad.zero_()
    assert kept[0].tolist() == [[2.0] * 3] * 4
    W, view = of_a_transposed_weight(lambda view: view.retain_grad() or view)
    W.grad.zero_()
    assert view.grad.tolist() == [[2.0] * 3] * 4


def test_leaves_with_equal_gradients_share_no_memory():
    a, b = (tt.ones(3, requires_grad=True) for _ in range(2))
    (a.view(3) * 2 + b.view(3) * 2).sum().backward()
    c, d = (tt.ones(1, 3, requires_grad=True) for _ in range(2))
    (c.view(3) + d.view(3)).exp().sum().backward()
    for one, other in ((a, b), (c, d)):
        before = other.grad.tolist()
        one.grad.zero_()
        assert other.grad.tolist() == before != [0.0] * 3


# ------------------------------------------------------------------------------------------------ gradients of parts


def cut_up(x):
    """A tensor that is used whole and in parts: rows, overlapping slices, a diagonal, and all of it as a slice."""
    y = x.exp()
    parts = [i * y[i].sin().sum() for i in range(5)] + [y[1:4, ::2].square().sum(), y.diagonal(1).prod()]
    value = sum(parts) + (y * y).sum() + y[:0].sum() + y[..., None].sum() + x[0].sum()
    whole = y[:]  # the youngest: its gradient is the first to arrive at y
    return value + (3 * whole).sum(), y, whole


def test_gradients_of_parts_are_those_of_a_definition():
    x = tt.tensor(np.random.default_rng(0).normal(size=(5, 4)), requires_grad=True)
    value, y, whole = cut_up(x)
    kept = []
    whole.register_hook(kept.append)
    y.retain_grad()
    by_x, by_y, by_whole = grad(value, [x, y, whole], retain_graph=True)
    with_tape = grad(value, [x, y, whole], create_graph=True)  # here each part's gradient has zeros around it
    for gradient, expected in zip((by_x, by_y, by_whole), with_tape, strict=True):
        assert np.allclose(gradient, expected.detach(), rtol=1e-14)
    assert (kept[0] == 3).all() and (by_whole == 3).all()  # nothing was added to it
    value.backward()
    assert np.array_equal(x.grad, by_x) and np.allclose(y.grad, 3 * by_y, rtol=1e-14)
    assert tt.gradcheck(lambda x: cut_up(x)[0], x)


def test_a_loop_over_parts_makes_zeros_once():
    x = tt.ones(300, 300, requires_grad=True)
    y = x * 2
    value = sum((i * y[i]).sum() for i in range(300))
    assert launched("copy", lambda: grad(value, x, create_graph=True)) > 600  # zeros around each of the rows
    assert launched("copy", value.backward) < 310
    assert x.grad[:, 0].tolist() == [2.0 * i for i in range(300)]
