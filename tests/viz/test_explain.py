"""`explain`: what it says is what the tape does, and it leaves everything as it was."""

import re
import sys

import numpy as np
import pytest

import tinytensor as tt
import tinytensor.nn.functional as F
from tests.viz.graphs import chain
from tinytensor import nn
from tinytensor.core.dispatch import state
from tinytensor.core.op import OPS
from tinytensor.symbolic import symbols
from tinytensor.viz import explain, look, watch
from tinytensor.viz.text import number, numbers, plain


@tt.op
class careless_square:
    r"y = x^2"

    def kernel(x):
        return x * x

    def grad_x(g, x):
        return g * x * 3  # wrong: the derivative is 2 x


@tt.op
class defined_cube:
    r"y = x^3"

    def kernel(x):
        return x * x * x

    def definition(x):
        return x * x * x


def model():
    tt.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4), nn.ReLU(), nn.Linear(4, 3))
    x, target = tt.randn(5, 3), tt.randint(0, 3, (5,))
    return net, lambda: F.cross_entropy(net(x), target)


# --- What the text says


def test_the_text_has_the_numbers_of_backward():
    t = chain()
    text = str(explain(t["y"], t))
    t["y"].backward()
    e = np.exp(-4.0)
    assert "1. y = exp(d)" in text and "2. d = add(c, a)" in text and "3. c = mul(a, b)" in text
    assert "equation  y = e^x" in text and "reads b = -3" in text
    for name, parts in (("a", (e, -3 * e)), ("b", (2 * e,))):
        (line,) = re.findall(rf"^   {name} \(\): (.*)$", text, re.MULTILINE)
        assert all(number(float(part)) in line for part in parts)
        assert number(t[name].grad.item()) in line
    (line,) = re.findall(r"^   a \(\): (.*)$", text, re.MULTILINE)
    assert line == "0.01832 (from 2. add, for its b) + -0.05495 (from 3. mul, for its a) = -0.03663"


def test_rules_are_shown_with_file_and_line():
    text = str(explain(chain()["y"]))
    file, line = re.search(r"def grad_x\(g, y\):    # (tinytensor/ops/elementwise.py):(\d+)", text).groups()
    source = (sys.modules["tinytensor.ops.elementwise"].__file__, file)
    assert source[0].endswith(source[1])
    with open(source[0]) as code:
        assert code.readlines()[int(line) - 1].strip() == "def grad_x(g, y):"


@pytest.mark.parametrize("watched", [False, True])
def test_shown_gradients_are_those_of_backward(watched):
    net, loss_of = model()
    with watch():
        loss = loss_of()
    if not watched:
        loss = loss_of()
    seen = look(loss, net)
    loss.backward()
    assert [leaf.name for leaf in seen.leaves] != [] and {leaf.name for leaf in seen.leaves} == set(net.state_dict())
    for name, p in net.named_parameters():
        (leaf,) = (leaf for leaf in seen.leaves if leaf.name == name)
        assert leaf.gradient.tobytes() == p.grad.numpy().tobytes()
        assert sum(share.sent.astype(float) for share in leaf.shares) == pytest.approx(p.grad.numpy())
    assert all((step.value is not None) >= watched for step in seen.steps)


def test_order_is_that_of_backward():
    """b = a + a; c = b + b: each node once, the youngest first, with a reason that says so."""
    a = tt.tensor(1.0, requires_grad=True)
    b = a + a
    c = b + b
    text = str(explain(c, {"a": a, "b": b, "c": c}))
    assert "arrives   1 (from 1. add, for its a) + 1 (from 1. add, for its b) = 2" in text
    assert "a (): 2 (from 2. add, for its a) + 2 (from 2. add, for its b) = 4" in text


def test_reason_for_the_order_is_given():
    x = tt.tensor([1.0, 2.0], requires_grad=True)
    older, younger = x.exp(), x.sin()
    loss = (older * younger).sum()
    seen = look(loss, {"older": older, "younger": younger})
    assert [step.op.name for step in seen.walked] == ["reduce_sum", "mul", "sin", "exp"]
    assert [step.name for step in seen.walked[2].waiting] == ["older"]
    text = str(explain(loss, {"older": older, "younger": younger}))
    assert "it is younger than all others that wait (older (exp)); what reads younger has been visited: 2. mul" in text


def test_broadcasting_is_explained():
    b = tt.zeros(3, requires_grad=True)
    text = str(explain((tt.ones(8, 3) + b).sum(), {"b": b}))
    assert "[8, 8, 8] to b, for b (the rule gave (8, 3); summed over what broadcasting had repeated)" in text


def test_large_arrays_are_summarised():
    x = tt.ones(100, 100, requires_grad=True)
    text = str(explain((x * 2).mean(), {"x": x}))
    assert "shape (100, 100), each 0.0002" in text and len(text) < 3000
    assert numbers(np.array([1.0, np.nan] * 20)) == "shape (40,), 20 of 40 are NaN or inf"
    assert numbers(np.array([[3.0, 4.0]]), few=1) == "shape (1, 2), from 3 to 4, norm 5"
    assert numbers(np.zeros((0, 3))) == "shape (0, 3), no numbers"


def test_explain_without_names():
    t = chain()
    text = str(explain(t["y"]))
    assert "1. #3 = exp(#2)" in text and "3. #1 = mul(leaf 1, leaf 2)" in text


def test_known_constants_and_settings_are_shown():
    x = tt.tensor([1.0, 2.0], requires_grad=True)
    table = tt.tensor([5.0, 6.0])
    assert "= mul(x, table)" in str(explain((x * table).sum(), {"x": x, "table": table}))
    assert "= add(x)" in str(explain((x + 3).sum(), {"x": x}))  # no rule reads the 3, so the tape has not kept it
    with watch():
        loss = (x + 3).sum()
    assert "= add(x, 3)" in str(explain(loss, {"x": x}))


def test_a_result_of_several_numbers():
    x = tt.tensor([1.0, 2.0], requires_grad=True)
    with pytest.raises(RuntimeError, match=r"explain\(\) starts from one number"):
        explain(x * 2)
    assert "x (2,): [2, 20]" in str(explain(x * 2, {"x": x}, tt.tensor([1.0, 10.0])))


def test_explain_a_leaf():
    x = tt.tensor(2.0, requires_grad=True)
    text = str(explain(x, {"x": x}))
    assert "through 0 operations to 1 leaf." in text and "x (): 1 (where the walk starts)" in text


def test_explain_a_definition_and_a_function():
    class Twice(tt.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

    x = tt.tensor(3.0, requires_grad=True)
    text = str(explain(Twice.apply(x), {"x": x}))
    assert "what Twice.forward computes" in text and "def backward(ctx, g):" in text and "test_explain.py" in text
    text = str(explain(defined_cube(x), {"x": x}))
    assert "(through its definition in simpler operations)" in text and "return x * x * x" in text
    assert "x (): 27 (from 1. defined_cube, for its x)" in text


def test_a_wrong_rule_is_shown_with_its_wrong_number():
    x = tt.tensor(5.0, requires_grad=True)
    y = careless_square(x)
    text = str(explain(y, {"x": x}))
    assert "return g * x * 3" in text and "x (): 15 (from 1. careless_square, for its x)" in text
    right = str(explain(x * x, {"x": x}))
    assert "= 10" in right and "15" not in right


# --- Nothing is changed


def test_explain_changes_nothing():
    t = chain()
    t["d"].retain_grad()
    t["a"].grad = tt.tensor(7.0)
    calls = []
    t["c"].register_hook(calls.append)
    before = [(id(t[n].node), t[n].node.edges, dict(t[n].node.saved), list(t[n].node._hooks or ())) for n in "cdy"]
    grad, watching = t["a"]._grad, state.on_node
    text = str(explain(t["y"], t))
    assert "a.grad holds 7 already; backward() adds to that" in text
    after = [(id(t[n].node), t[n].node.edges, dict(t[n].node.saved), list(t[n].node._hooks or ())) for n in "cdy"]
    assert [b[:2] for b in before] == [a[:2] for a in after]
    assert [b[3] for b in before] == [a[3] for a in after]
    assert all(b[2].keys() == a[2].keys() and all(b[2][k] is a[2][k] for k in b[2]) for b, a in zip(before, after))
    assert t["a"]._grad is grad and t["b"].grad is None and t["d"].grad is None
    assert state.on_node is watching and len(calls) == 1
    e = np.exp(-4.0)
    t["y"].backward()  # and the tape is whole
    assert t["a"].grad.item() == pytest.approx(7 - 2 * e) and t["d"].grad.item() == pytest.approx(e)


def test_failed_explain_changes_nothing():
    x = tt.tensor(1.0, requires_grad=True)
    y = x.exp()
    y.retain_grad()
    y.node._hooks = [lambda g: 1 / 0]
    with pytest.raises(ZeroDivisionError):
        explain(y * 2)
    assert y.grad is None and x.grad is None and not y.node.freed


def test_hooks_are_explained():
    x = tt.tensor(1.0, requires_grad=True)
    y = x * 2
    y.register_hook(lambda g: g * 10)
    assert "1 (from 1. mul, for its a), after 1 hook = 10" in str(explain(y * 1, {"x": x}))


def test_watch_ends_with_its_block():
    def fail():
        with watch():
            assert state.on_node is not None
            1 / 0  # noqa: B018

    with pytest.raises(ZeroDivisionError):
        fail()
    assert state.on_node is None


def test_value_changed_in_place_is_shown_as_it_was():
    x = tt.tensor(2.0, requires_grad=True)
    with watch():
        y = x * 3
        z = y + 1
    with tt.no_grad():
        y.mul_(100)
    (step,) = (s for s in look(z).steps if s.op.name == "mul")
    assert step.value == 6


# --- Refusals


def test_exact_scalars():
    x = symbols("x", 2)
    x.requires_grad_()
    text = str(explain((x * x).sum(), {"x": x}))
    assert "x (2,): [x_0, x_1] (from 2. mul, for its a) + [x_0, x_1] (from 2. mul, for its b)" in text
    assert "= [2*x_0, 2*x_1]" in text


def test_wrong_tensors_raise():
    t = chain()
    t["y"].backward()
    with pytest.raises(RuntimeError, match=r"explain: this part of the tape \(exp\) was freed by an earlier backward"):
        explain(t["y"])
    with pytest.raises(RuntimeError, match="explain: this tensor does not require grad"):
        explain(tt.ones(()))
    with pytest.raises(TypeError, match="expected the tensor whose backward"):
        explain(3.0)
    with pytest.raises(TypeError, match="names must be a Module or a dict"):
        explain(chain()["y"], ["a"])


@pytest.mark.parametrize("name", OPS)
def test_equations_read_without_latex(name):
    text = plain(OPS[name].equation)
    assert not re.search(r"[\\{}]|frac|sqrt", text) and text.count("(") == text.count(")")


def test_equations_become_text():
    assert plain(r"y = \tfrac12 x \sqrt{2/\pi} \frac{a_i}{b + 1}") == "y = 1/2 x √(2/π) (a_i)/(b + 1)"
    assert plain(r"y_{ij} = e^{x_i}") == "y_ij = e^(x_i)"
