"""The values for which a formula holds: the conditions that `latex` writes by itself, and those it leaves out."""

import gc

import pytest

import tinytensor as tt
import tinytensor.nn.functional as F
from tinytensor import nn
from tinytensor.symbolic import latex, path, symbols
from tinytensor.symbolic.exact import path_conditions
from tinytensor.symbolic.exact.path_conditions import SAME_EITHER_WAY, conditions_of

SIGNS = {"x_{0} > 0", "x_{1} < 0", "x_{2} > 0"}


def three(**more):
    return symbols("x", 3, witness=[1, -2, 3], **more)


def signs(y, conditions=None) -> list[str]:
    return latex(y, conditions).split(r",\quad ")[1:]


PIECES = {
    "relu": lambda x: F.relu(x).sum(),
    "abs": lambda x: x.abs().sum(),
    "in place": lambda x: x.clone().relu_().sum(),
    "a mask by which is multiplied": lambda x: (x * (x > 0)).sum(),
    "a mask by which is chosen": lambda x: tt.where(x > 0, x, -2 * x).sum(),
    "a mask, broadcast": lambda x: (x * (x > 0).expand(2, 3)).sum(),
    "an index, and a view": lambda x: F.relu(x)[None][:, [2, 1, 0]].T.sum(),
    "put together": lambda x: tt.stack([F.relu(x), x]).sum(),
    "a layer": lambda x: F.linear(x, tt.eye(3), relu=True).sum(),
    "in the middle": lambda x: (F.relu(x) * symbols("w", 3)).exp().softmax(-1)[0],
    "a leaky one": lambda x: F.leaky_relu(x, 0.5).sum(),
}


@pytest.mark.parametrize("what", PIECES)
def test_signs_follow_the_formula(what):
    y = PIECES[what](three())
    assert set(signs(y)) - set(signs(y, ())) == SIGNS
    assert latex(y).startswith(latex(y, ()))


@pytest.mark.parametrize("what", PIECES)
def test_signs_follow_the_gradient(what):
    x = three().requires_grad_()
    PIECES[what](x).backward()
    assert set(signs(x.grad)) - set(signs(x.grad, ())) == SIGNS


def test_each_entry_has_its_own_signs():
    y = F.relu(three())
    assert latex(y[0]) == r"x_{0},\quad x_{0} > 0"
    assert latex(y[1] + y[2]) == r"x_{2},\quad x_{2} > 0,\quad x_{1} < 0"


def test_signs_of_a_loss():
    """Those before the ReLU; the place of the largest logit does not matter for a cross-entropy."""
    model = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 2))
    for name, p in model.named_parameters():
        p.data = symbols(name.replace(".", ""), *p.shape)
    with path() as all_of_them:
        loss = F.cross_entropy(model(symbols("x", 1, 2)), tt.tensor([1]))
    assert len(signs(loss)) == 3
    assert all("0weight" in sign and "0bias" in sign and "2weight" not in sign for sign in signs(loss))
    assert len(latex(loss, all_of_them).split(r",\quad ")) > len(latex(loss).split(r",\quad "))


def test_kernel_of_a_known_name_has_its_own_signs():
    @tt.op
    class softmax:
        r"y = \max(0, x)"

        def kernel(x):
            return max(x, type(x)(0))

    assert set(signs(softmax(three()))) == SIGNS


def test_maximum_names_the_largest_entry():
    assert signs(three().max()) == ["x_{0} - x_{1} > 0", "x_{0} - x_{2} < 0", "x_{1} - x_{2} < 0"]


def test_formulas_without_comparison_have_no_signs():
    """The control, also for tensors that share scalars with one that compares, and for later results."""
    x = three()
    F.relu(x), x.max(), x > 0, x.abs()
    for y in (x, x * 2, x.exp(), x.tanh(), F.gelu(x), x.softmax(-1), F.layer_norm(x, (3,)), x[0]):
        assert signs(y) == [] or not any(s.endswith(" 0") for s in signs(y))
    assert conditions_of([x._data]) == []


SMOOTH = {
    "softmax": lambda x: x.softmax(-1),
    "log_softmax": lambda x: x.log_softmax(-1),
    "reduce_logsumexp": lambda x: x.logsumexp(-1),
    "cross_entropy": lambda x: F.cross_entropy(x, tt.tensor([1, 0])),
    "logsigmoid": lambda x: F.logsigmoid(x),
    "attention": lambda x: F.scaled_dot_product_attention(x, x.flip(1), symbols("v", 2, 3)),
    "attention_of_one": lambda x: F.scaled_dot_product_attention(x[:1], x.flip(1), symbols("v", 2, 3)),
}
ROUGH = {"relu": lambda x: F.relu(x), "reduce_max": lambda x: x.max(-1).values, "softplus": lambda x: F.softplus(x, 30)}


def same_on_other_ways(fn, monkeypatch) -> bool:
    """The formula of fn at several sample points: is it the same where comparisons come out otherwise?"""
    monkeypatch.setattr(path_conditions, "SAME_EITHER_WAY", frozenset())
    points = [[[1, -2, 3], [-1, 2, 1.5]], [[-2, 1.2, -3], [1.1, -2, -1.4]], [[2, 1, -1.3], [3, 1.7, 1]]]
    ways, formulas = [], []
    for point in points:
        with path() as conditions:
            formulas.append(fn(symbols("x", 2, 3, witness=point))._data.ravel())
        ways.append({str(c) for c in conditions})
    assert len({frozenset(way) for way in ways}) > 1  # else nothing is tried
    for y in formulas[1:]:
        for one, other in zip(formulas[0], y, strict=True):
            moved = type(one)(other.expr, one.witness)
            if not one.equals(moved):
                return False
    return True


@pytest.mark.parametrize("kernel", sorted(SAME_EITHER_WAY))
def test_omitted_signs_change_nothing(kernel, monkeypatch):
    assert same_on_other_ways(SMOOTH[kernel], monkeypatch)


@pytest.mark.parametrize("kernel", ROUGH)
def test_shown_signs_matter(kernel, monkeypatch):
    """The control: these conditions matter."""
    assert kernel not in SAME_EITHER_WAY
    assert not same_on_other_ways(ROUGH[kernel], monkeypatch)


@pytest.mark.slow
def test_deleted_masks_are_forgotten():
    before = len(path_conditions._mask_conditions)
    mask = three() > 0
    assert len(path_conditions._mask_conditions) == before + 1
    del mask
    gc.collect()
    assert len(path_conditions._mask_conditions) == before
