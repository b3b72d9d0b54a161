"""Hooks and kept gradients of tensors whose memory, or a view of it, is changed in place. The numbers are PyTorch's."""

import copy

import pytest

import tinytensor as tt


def parts(*values):
    """A leaf, a computed tensor, and a view of its first element."""
    x = tt.tensor(values or (1.0, 2.0), dtype=tt.float64, requires_grad=True)
    y = x * 1
    return x, y, y[:1]


def noting(seen: list, factor: float = 1):
    """A hook that notes the gradient, and returns a multiple of it."""

    def hook(g):
        seen.append(g.tolist())
        return g * factor

    return hook


def test_base_hook_sees_gradients_through_a_changed_view():
    x, y, v = parts()
    v.mul_(3)
    seen = []
    y.register_hook(noting(seen, 10))
    ((y * y).sum() + (v * 5).sum()).backward()
    assert seen == [[11, 4]] and x.grad.tolist() == [330, 40]


def test_early_base_hook_sees_gradient_of_old_values():
    x, y, v = parts()
    seen = []
    y.register_hook(noting(seen, 10))
    v.mul_(3)
    (y * y).sum().backward()
    assert seen == [[18, 4]] and x.grad.tolist() == [180, 40]


def test_base_hook_sees_backward_from_its_view():
    x, y, v = parts()
    v.mul_(3)
    seen = []
    y.register_hook(noting(seen, 10))
    (v * 5).sum().backward()
    assert seen == [[5, 0]] and x.grad.tolist() == [150, 0]


def test_changed_views_hook_sees_its_own_uses_only():
    for used in (True, False):
        x, y, v = parts()
        v.mul_(3)
        seen = []
        v.register_hook(noting(seen, 10))
        loss = (y * y).sum()
        (loss + (v * 5).sum() if used else loss).backward()
        assert seen == [[5]] * used and x.grad.tolist() == [168 if used else 18, 4]


@pytest.mark.parametrize("asked", ["before", "after"])
@pytest.mark.parametrize("change", ["view", "base"])
def test_retained_gradient_of_a_view_counts_its_uses_once(change, asked):
    for used in (True, False):
        x, y, v = parts()
        if asked == "before":
            v.retain_grad()
        (v if change == "view" else y).mul_(3)
        if asked == "after":
            v.retain_grad()
        loss = (y * y).sum()
        (loss + (v * 5).sum() if used else loss).backward()
        assert (v.grad is not None) == used and (not used or v.grad.tolist() == [5])
        assert x.grad.tolist() == [33 if used else 18, 36 if change == "base" else 4]


def test_retained_gradient_of_a_view_used_before_a_change():
    for change, kept in (("view", None), ("base", [2])):
        x, y, v = parts()
        v.retain_grad()
        z = v * 2
        (v if change == "view" else y).mul_(3)
        z.sum().backward()
        assert (v.grad if v.grad is None else v.grad.tolist()) == kept and x.grad.tolist() == [2, 0]


def test_retained_gradients_of_a_base_and_a_changed_view():
    x, y, v = parts()
    y.retain_grad()
    v.retain_grad()
    v.mul_(3)
    ((y * y).sum() + (v * 5).sum()).backward()
    assert y.grad.tolist() == [11, 4] and v.grad.tolist() == [5] and x.grad.tolist() == [33, 4]


def test_retained_gradients_of_a_base_and_a_full_view():
    x, y, _ = parts()
    v = y.view(2, 1)
    y.retain_grad()
    v.retain_grad()
    v.mul_(3)
    ((v * v).sum() + 5 * y.sum()).backward()
    assert v.grad.tolist() == [[6], [12]] and y.grad.tolist() == [11, 17] and x.grad.tolist() == [33, 51]


def test_grad_by_a_base_and_a_changed_view():
    _, y, v = parts()
    v.mul_(3)
    of_view, of_base = tt.autograd.grad((y * y).sum() + (v * 5).sum(), (v, y))
    assert of_view.tolist() == [5] and of_base.tolist() == [11, 4]


def test_views_of_a_base_put_on_the_tape_are_no_leaves():
    x, _, _ = parts()
    y = tt.zeros(1, 2, dtype=tt.float64)
    first, second = y.view(-1), y[0]
    first.mul_(x)
    assert not first.is_leaf and not y.is_leaf and not second.is_leaf and second.requires_grad


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("name", "second", "replaced"),
    [
        ("softmax", [-0.13059645477377935, 0.13059645477377926], [-51.35364289511297, 51.35364289511297]),
        ("log_softmax", [-13.309390866429544, 12.10012597391063], [-12984.169447422673, 12984.169447422673]),
        ("sigmoid", [-0.162389068759321, -0.4186046901163638], None),
    ],
)
def test_output_hook_runs_in_second_derivatives(name, second, replaced):
    x = tt.tensor([1.0, 2.0], dtype=tt.float64, requires_grad=True)
    call = (lambda: x.sigmoid()) if name == "sigmoid" else lambda: getattr(x, name)(0)
    y, seen = call(), []
    y.register_hook(noting(seen))
    (g,) = tt.autograd.grad((y * y).sum(), x, create_graph=True)
    (g * g).sum().backward()
    assert len(seen) == 2 and seen[1] == pytest.approx(second)
    if replaced:
        x.grad, y = None, call()
        y.register_hook(noting([], 10))
        (g,) = tt.autograd.grad((y * y).sum(), x, create_graph=True)
        (g * g).sum().backward()
        assert x.grad.tolist() == pytest.approx(replaced)


def test_second_derivative_of_relu_is_zero():
    x = tt.tensor([1.0, -2.0], requires_grad=True)
    (g,) = tt.autograd.grad((3 * x.relu()).sum(), x, create_graph=True)
    assert tt.autograd.grad(g.sum(), x)[0].tolist() == [0, 0]


def test_view_hook_sees_the_whole_gradient_of_old_values():
    """Where PyTorch shows it only what the use before the change sends, or loses it: the table of differences."""
    x, _, v = parts()
    seen = []
    v.register_hook(noting(seen))
    z = v * 2
    v.mul_(3)
    (z.sum() + 5 * v.sum()).backward()
    assert seen == [[17]] and x.grad.tolist() == [17, 0]
    x, y, v = parts()
    v.register_hook(noting(seen))
    y.detach().mul_(3)
    v.sum().backward()
    assert seen == [[17], [1]]


def test_grad_of_a_hooked_tensor_is_the_hooks_result():
    x, y, _ = parts()
    y.register_hook(lambda g: g * 2)
    assert [g.tolist() for g in tt.autograd.grad((y * 3).sum(), [x, y])] == [[6, 6], [6, 6]]


@pytest.mark.parametrize("order", [("base", "row", "part"), ("part", "base", "row"), ("row", "part", "base")])
def test_deepcopy_keeps_what_views_share(order):
    base = tt.arange(12.0).reshape(3, 4).clone()
    views = {"base": base, "row": base[1], "part": base.t()[1:3]}
    copied = copy.deepcopy({name: views[name] for name in order})
    copied["base"][1, 2] = -1.0
    assert copied["row"].tolist() == [4, 5, -1, 7]
    assert copied["part"].tolist() == [[1, 5, 9], [2, -1, 10]]
    copied["row"].add_(1)
    assert copied["base"][1].tolist() == [5, 6, 0, 8]
    assert base.flatten().tolist() == list(range(12))  # nothing is shared with the original
    alone = copy.deepcopy(base[1])
    alone.zero_()
    assert base[1].tolist() == [4, 5, 6, 7]


def test_deepcopy_of_a_view_that_requires_grad():
    view = tt.arange(4.0)[1:3].requires_grad_()
    copied = copy.deepcopy(view)
    (copied * copied).sum().backward()
    assert copied.is_leaf and copied.grad.tolist() == [2, 4] and view.grad is None


def test_index_of_an_empty_tensor_is_refused_in_writing_too():
    """PyTorch takes it, since nothing is written; here it is out of range, as in reading."""
    x = tt.zeros(0)
    for key in (3, tt.tensor([3]), -1):
        with pytest.raises(IndexError, match=r"out of range"):
            x[key] = 1.0
    x[tt.zeros(0, dtype=tt.int64)] = 1.0
    assert x.shape == (0,)
