"""autograd.Function and memory: a result that is a view of an argument, and arguments that are changed."""

import pytest

import tinytensor as tt


class Flat(tt.autograd.Function):
    """A view of its argument, with twice its gradient, so that it shows who computes it."""

    @staticmethod
    def forward(ctx, x):
        return x.view(-1)

    @staticmethod
    def backward(ctx, g):
        return 2 * g.view(2, 1)


def parts():
    a = tt.tensor([[1.0], [2.0]], requires_grad=True)
    return a, a * 1


@pytest.mark.parametrize("use", [lambda y: y.sum(), lambda y: y * 2, lambda y: y.register_hook(print)])
@pytest.mark.parametrize("change", [lambda x: x.mul_(3), lambda x: x.__setitem__(0, 9.0), lambda x: x[:1].add_(x[1:])])
def test_function_view_of_a_changed_argument_is_refused(change, use):
    """PyTorch refuses it too (pytorch#31258, #26546): backward knows nothing of the new values."""
    _, x = parts()
    y = Flat.apply(x)
    change(x)
    with pytest.raises(RuntimeError, match=r"in place: this is what Flat returned, a view of its argument"):
        use(y)


def test_changed_function_view_changes_its_argument():
    """PyTorch refuses this change; here it acts as on any view."""
    a, x = parts()
    y = Flat.apply(x)
    y.mul_(3)
    assert x.tolist() == [[3], [6]]
    (y.sum() + 10 * x.sum()).backward()
    assert a.grad.tolist() == [[66], [66]]  # 11 times 3, through Flat


def test_function_of_a_copy_survives_a_changed_argument():
    a, x = parts()
    y = Flat.apply(x.clone())
    x.mul_(3)
    y.sum().backward()
    assert a.grad.tolist() == [[2], [2]]


def test_a_dirty_argument_must_be_returned():
    class Doubled(tt.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            x.mul_(2)
            ctx.mark_dirty(x)
            return x * 1

        @staticmethod
        def backward(ctx, g):
            return g * 2

    with pytest.raises(RuntimeError, match="Doubled: forward must return each tensor that it has marked dirty"):
        Doubled.apply(parts()[1])


def test_leaf_frozen_after_forward_gets_no_gradient():
    a = tt.tensor([1.0], requires_grad=True)
    y = (a * a).sum()
    a.requires_grad_(False)
    y.backward()
    assert a.grad is None


def test_flatten_of_one_dimension_is_the_tensor_itself():
    c = tt.tensor([1.0, 2.0], requires_grad=True)
    assert c.flatten() is c and c.contiguous() is c and c.float() is c and c.to(c) is c
    assert c.ravel() is not c and c.reshape(2) is not c and c.view(2) is not c and c.squeeze() is not c
    x = tt.zeros(2, 3)
    assert x.flatten(1, 1) is x and x.flatten() is not x


def test_early_view_of_a_changed_base_requires_grad():
    base = tt.tensor([1.0, 2.0])
    view, other = base[1:], base.clone()[:1]
    assert not view.requires_grad
    base[1:] = tt.tensor([3.0], requires_grad=True)
    assert view.requires_grad and not other.requires_grad
    assert view.detach().requires_grad is False


def test_gradcheck_names_an_expanded_input():
    x = tt.ones(1, dtype=tt.float64).expand(3).requires_grad_()
    with pytest.raises(ValueError, match=r"gradcheck: an input of shape \(3,\) is expanded"):
        tt.gradcheck(lambda x: x * x, (x,))
    assert tt.gradcheck(lambda x: x * x, (tt.ones(3, dtype=tt.float64, requires_grad=True),))
    empty = tt.ones(1, dtype=tt.float64).expand(0, 1).expand(0, 3).requires_grad_()  # no element that others share
    assert tt.gradcheck(lambda x: x * x, (empty,))


@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize("leaf", [False, True])
def test_hook_result_replaces_the_gradient(leaf, create_graph):
    """For a leaf and for a computed tensor, also in a first derivative that is differentiated again."""
    x = tt.tensor([1.0, 2.0], dtype=tt.float64, requires_grad=True)
    y = x * x
    (x if leaf else y).register_hook(lambda g: 10 * g)
    y.sum().backward(create_graph=create_graph)
    assert x.grad.tolist() == [20, 40]
    if create_graph:
        first, x.grad = x.grad, None
        factor = 10 if leaf else 1  # the leaf's hook sees the second derivative, too
        assert tt.autograd.grad(first.sum(), x)[0].tolist() == [20 * factor, 20 * factor]
