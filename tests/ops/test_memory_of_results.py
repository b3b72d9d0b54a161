"""Results that repeat their input have memory of their own, as in PyTorch, also where a view would show the same."""

import pytest

import tinytensor as tt

REPEATS = {
    "repeat": lambda x: x.repeat(2, 1),
    "repeat once": lambda x: x.repeat(1, 1),
    "tile": lambda x: x.tile(2),
    "tile once": lambda x: x.tile(1),
    "repeat_interleave": lambda x: x.repeat_interleave(3, 0),
    "repeat_interleave of one": lambda x: x.repeat_interleave(1, 0),
}


@pytest.mark.parametrize("name", REPEATS)
def test_changed_input_leaves_the_result(name):
    x = tt.tensor([1.0, 2.0])
    y = REPEATS[name](x)
    before = y.tolist()
    x.zero_()
    assert y.tolist() == before


@pytest.mark.parametrize("name", REPEATS)
def test_changed_element_leaves_the_others(name):
    x = tt.tensor([1.0, 2.0])
    y = REPEATS[name](x)
    expected = y.flatten().tolist()
    y.view(-1)[0] = 9
    assert y.flatten().tolist() == [9, *expected[1:]] and x.tolist() == [1, 2]


def test_gradient_uses_the_values_of_the_forward():
    x = tt.tensor([1.0, 2.0], requires_grad=True)
    y = x * 1
    z = y.repeat(2, 1)
    y.mul_(3)
    (z * z).sum().backward()
    assert x.grad.tolist() == [4, 8]


def test_copy_of_a_parameter_survives_an_optimizer_step():
    p = tt.nn.Parameter(tt.tensor([1.0, 2.0]))
    copy = p.repeat(1, 1)
    p.sum().backward()
    tt.optim.SGD([p], lr=1.0).step()
    assert copy.tolist() == [[1, 2]] and p.tolist() == [0, 1]
