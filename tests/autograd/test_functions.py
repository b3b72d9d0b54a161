"""autograd.Function; backward and grad with all that programs give them; functional derivatives on the tape."""

import warnings
from itertools import count

import numpy as np
import pytest

import tinytensor as tt
from tinytensor import nn
from tinytensor.autograd import Function, Variable, functional, grad
from tinytensor.autograd.backward import queue_callback
from tinytensor.autograd.function import once_differentiable
from tinytensor.core import graph, post_accumulate_hooks


def leaf(*values, dtype=tt.float64):
    return tt.tensor(values, dtype=dtype, requires_grad=True)


class Cube(Function):
    @staticmethod
    def forward(ctx, x, factor):
        ctx.save_for_backward(x)
        ctx.factor = factor
        return x * x * x * factor

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        assert ctx.needs_input_grad == (True, False)
        return 3 * x * x * ctx.factor * g, None


class Exp(Function):
    @staticmethod
    def forward(ctx, x):
        y = x.exp()
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, g):
        return g * ctx.saved_tensors[0]


class Both(Function):
    """(x y, e^x, how many), of which the second is saved and the third has no gradient."""

    @staticmethod
    def forward(ctx, x, y):
        product, power, count = x * y, x.exp(), tt.tensor(x.numel())
        ctx.save_for_backward(x, None, y, power)
        ctx.mark_non_differentiable(count)
        return product, power, count

    @staticmethod
    def backward(ctx, g, h, _):
        x, nothing, y, power = ctx.saved_tensors
        assert nothing is None
        return g * y + h * power, g * x


class Later(Function):
    @staticmethod
    def forward(x, y):
        return x * y

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, g):
        x, y = ctx.saved_tensors
        return g * y, g * x


def test_functions_pass_both_checks():
    x, y = leaf(0.3, -1.2), leaf(0.7, 2.0)
    for function, args in (
        (lambda x: Cube.apply(x, 2.0), (x,)),
        (Exp.apply, (x,)),
        (lambda x, y: Both.apply(x, y)[0], (x, y)),
        (lambda x, y: Both.apply(x, y)[1] + y, (x, y)),
        (lambda x, y: Both.apply(x, y)[0] * Both.apply(x * y, y)[1], (x, y)),
        (Later.apply, (x, y)),
    ):
        assert tt.gradcheck(function, args)
        assert tt.gradgradcheck(function, args)


def test_a_wrong_backward_fails_the_check():
    class Wrong(Exp):
        @staticmethod
        def backward(ctx, g):
            return g * 2

    with pytest.raises(Exception, match="gradcheck"):
        tt.gradcheck(Wrong.apply, leaf(0.3))


def test_what_apply_returns():
    x = leaf(2.0)
    y = Cube.apply(x, 1.0)
    assert y.requires_grad and y.grad_fn.name() == "CubeBackward" and "CubeBackward" in repr(y)
    product, power, count = Both.apply(x, leaf(3.0))
    assert (product.item(), count.item(), count.requires_grad) == (6.0, 1, False)
    assert power.item() == pytest.approx(np.exp(2.0))
    with tt.no_grad():
        assert not Cube.apply(x, 1.0).requires_grad
    assert not Cube.apply(x.detach(), 1.0).requires_grad
    with pytest.raises(RuntimeError, match=r"Cube has no instances: call Cube.apply"):
        Cube()


def test_a_compiled_step_follows_a_function():
    def trained(wrap):
        w = nn.Parameter(tt.tensor([0.5, -0.5]))

        @wrap
        def step(x):
            w.grad = None
            product, power, _ = Both.apply(w * x, w)
            (Exp.apply(product).sum() + power.sum()).backward()
            with tt.no_grad():
                w.sub_(w.grad, alpha=0.1)
            return w.detach() * 1

        return [step(tt.tensor([1.0, float(i)])).tolist() for i in range(4)]

    def compiled(step):
        return tt.compile(step, fullgraph=True)

    assert trained(compiled) == trained(lambda f: f)


def test_set_materialize_grads():
    seen = []

    class Two(Function):
        @staticmethod
        def forward(ctx, x, zeros):
            ctx.set_materialize_grads(zeros)
            return x * 1, x * 2

        @staticmethod
        def backward(ctx, g, h):
            seen.append((g, h))
            return (g if g is not None else 0) + (2 * h if h is not None else 0), None

    for zeros in (True, False):
        x = leaf(1.0, 1.0)
        Two.apply(x, zeros)[1].sum().backward()
        assert x.grad.tolist() == [2.0, 2.0]
    assert seen[0][0].tolist() == [0.0, 0.0] and seen[1][0] is None and seen[1][1].tolist() == [1.0, 1.0]


def test_misuse_of_functions_is_refused():
    x = leaf(1.0, 2.0)

    def backward_gives(*gradients):
        class Given(Function):
            @staticmethod
            def forward(ctx, x, n):
                return x * 1

            @staticmethod
            def backward(ctx, g):
                return gradients

        Given.apply(x, 3).sum().backward()

    with pytest.raises(RuntimeError, match=r"Given.backward returned 1 gradients for 2 arguments"):
        backward_gives(x)
    with pytest.raises(RuntimeError, match=r"a gradient of shape \(\) for argument 0, which has shape \(2,\)"):
        backward_gives(tt.tensor(1.0), None)
    with pytest.raises(TypeError, match="expected a tensor or None for argument 0, got float"):
        backward_gives(1.0, None)
    kept = tt.ones(2, dtype=tt.float64)
    backward_gives(kept, None)
    x.grad.add_(1)
    assert kept.tolist() == [1.0, 1.0]  # the gradient is no other name of what backward returned

    held = x * 1
    y = Cube.apply(held, 1.0)
    held.mul_(2)
    with pytest.raises(RuntimeError, match="was changed in place after it was saved"):
        y.sum().backward()
    y = Exp.apply(x)
    y.sum().backward(retain_graph=True)
    y.sum().backward()
    with pytest.raises(RuntimeError, match="was freed by an earlier backward"):
        y.sum().backward()


def test_once_differentiable():
    class Once(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        @once_differentiable
        def backward(ctx, g):
            return 2 * ctx.saved_tensors[0] * g

    x = leaf(3.0)
    Once.apply(x).backward()
    assert x.grad.tolist() == [6.0]
    (first,) = grad(Once.apply(x), x, create_graph=True)
    with pytest.raises(RuntimeError, match="marked with @once_differentiable was to be differentiated twice"):
        first.backward()


def test_a_function_in_place():
    class Double(Function):
        @staticmethod
        def forward(ctx, x):
            x.mul_(2)
            ctx.mark_dirty(x)
            return x

        @staticmethod
        def backward(ctx, g):
            return g * 2

    x = leaf(1.0, 2.0)
    y = x * 1
    assert Double.apply(y) is y
    y.sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]


def test_variable_is_a_tensor():
    x = Variable(tt.ones(2), requires_grad=True)
    assert isinstance(x, Variable) and isinstance(x, tt.Tensor) and x.requires_grad
    assert not isinstance(3, Variable) and not Variable(x).requires_grad


# ------------------------------------------------------------------------------------------------- backward and grad


def test_backward_of_several_and_to_some():
    x, y = leaf(1.0), leaf(2.0)
    h = x * y
    tt.autograd.backward([h * 3, x * 2], [tt.ones(1, dtype=tt.float64), None])
    assert (x.grad.item(), y.grad.item()) == (8.0, 3.0)
    x.grad = y.grad = None
    h = x * y
    (h * h).backward(inputs=[x, h])
    assert (x.grad.item(), y.grad, h.grad.item()) == (8.0, None, 4.0)
    tt.autograd.backward(x * y, inputs=y)
    assert (x.grad.item(), y.grad.item()) == (8.0, 1.0)
    with pytest.raises(ValueError, match="backward: the list of inputs is empty"):
        (x * y).backward(inputs=[])
    z, weights = leaf(1.0, 2.0), tt.tensor([1.0, 10.0], dtype=tt.float64)
    tt.autograd.backward(z * z, weights)
    assert z.grad.tolist() == [2.0, 40.0]
    z.grad = None
    square = (z * z).sum()
    tt.autograd.backward(square, retain_graph=True)
    tt.autograd.backward(square, create_graph=True)
    tt.autograd.backward([square], [weights.sum()])
    assert z.grad.tolist() == [26.0, 52.0]


def test_grad_skips_nodes_that_reach_no_input():
    x, other, calls = leaf(1.0), leaf(2.0), []
    h = x.exp().exp()
    h.register_hook(calls.append)
    assert grad(h * other, other)[0].item() == pytest.approx(np.exp(np.e))
    assert not calls
    h.backward()
    (h * other).backward(inputs=other)  # what was freed is no hindrance, nor is it that an input was
    gradients, none = grad(h * other, [h, leaf(1.0)], allow_unused=True)
    assert gradients.item() == 2.0 and none is None


WRITES = {
    "index_copy": lambda x, v, at: x.index_copy(0, at, v),
    "index_copy in place": lambda x, v, at: x.clone().index_copy_(0, at, v),
    "index_put": lambda x, v, at: x.index_put((at,), v),
    "scatter": lambda x, v, at: x.scatter(0, at, v),
    "index_add": lambda x, v, at: x.index_add(0, at, v),
    "scatter_add": lambda x, v, at: x.scatter_add(0, at, v),
}


@pytest.mark.parametrize("name", WRITES)
def test_unused_inputs_of_second_derivatives_of_written_elements(name):
    """As PyTorch's: None where no formula leads from the slope to the input, zeros where one does and moves nothing."""
    x, v, w = leaf(1.0, 2.0, 3.0), leaf(4.0, 5.0), leaf(6.0)
    write, at = WRITES[name], tt.tensor([2, 0])
    for slope in grad((write(x, v, at) * w).sum(), [x, v], create_graph=True):
        assert slope.requires_grad
        by_x, by_v, by_w = grad(slope.sum(), [x, v, w], retain_graph=True, allow_unused=True)
        assert by_x is None and by_v is None
        assert by_w.item() == (slope != 0).sum().item() > 0
    by_x, by_v = grad(write(x, v**3, at).sum(), [x, v], create_graph=True)
    assert not by_x.requires_grad
    none, curvature = grad(by_v.sum(), [x, v], allow_unused=True)
    assert none is None and curvature.tolist() == [24.0, 30.0]
    (slope,) = grad((write(x, v, at) ** 2).sum(), x, create_graph=True)
    crossed = grad(slope.sum(), v, allow_unused=True)[0]
    assert crossed.tolist() == ([2.0, 2.0] if "add" in name else [0.0, 0.0])


def test_grad_by_an_input_and_its_ancestor():
    x = leaf(2.0)
    y = x * 3 * 5
    by_y, by_x = grad(y * y, [y, x])
    assert (by_y.item(), by_x.item()) == (60.0, 900.0)


def test_grad_visits_a_shared_node_once():
    x = leaf(1.0)
    y = x
    for _ in range(60):
        y = y + y
    assert grad(y, x)[0].item() == 2.0**60


def test_grad_of_a_programs_first_operation(monkeypatch):
    monkeypatch.setattr(graph, "generations", count())
    x = leaf(3.0)
    assert grad(x * x * 1, x)[0].item() == 6.0


def test_a_view_among_the_inputs_follows_its_base():
    base, x = tt.zeros(2, dtype=tt.float64), leaf(1.0, 2.0)
    view = base[:1]
    base.add_(x)
    assert grad(base.sum(), view, allow_unused=True) == (None,)


def test_gradients_through_a_definition():
    @tt.op
    class scaled_product:
        r"y = s a x_1 x_2 ..."

        def forward(s, a, *xs):
            return s * a * np.prod(xs, axis=0)

        def definition(s, a, *xs):
            y = a * s
            for x in xs:
                y = y * x
            return y

    x, factor = leaf(3.0), tt.tensor([5.0], dtype=tt.float64)
    scaled_product(2.0, factor, x, x).backward()  # each of the two is an input of its own
    assert x.grad.tolist() == [60.0]
    (first,) = grad(scaled_product(2.0, factor, x, x), x, create_graph=True)
    assert [g.tolist() for g in (first, *grad(first, x))] == [[60.0], [20.0]]
    y = x * 1
    z = scaled_product(2.0, y, factor)
    y.add_(1)
    with pytest.raises(RuntimeError, match="the input a of scaled_product was changed in place"):
        z.backward()


def test_grad_options():
    x, y = leaf(1.0), leaf(2.0)
    a, b = grad(x * 2, [x, y], materialize_grads=True)
    assert (a.item(), b.item()) == (2.0, 0.0)
    assert grad(x * 2, [x, y], allow_unused=True)[1] is None
    with pytest.raises(RuntimeError, match="do not depend on the inputs number"):
        grad(x * 2, [x, y])
    with pytest.raises(ValueError, match="grad: the list of inputs is empty"):
        grad(x * 2, [])
    with pytest.raises(ValueError, match="materialize_grads=True gives zeros"):
        grad(x * 2, x, allow_unused=False, materialize_grads=True)
    with pytest.raises(ValueError, match="only_inputs=False is not offered"):
        grad(x * 2, x, only_inputs=False)


@pytest.mark.parametrize("inner", [True, False])
def test_backward_over_a_freed_tape_raises(inner):
    x, other = leaf(1.0), leaf(2.0)
    h = x.exp()
    y = h * h if inner else h
    y.backward()
    for unused in (False, True):
        with pytest.raises(RuntimeError, match=r"was freed by an earlier backward\(\) or grad\(\)"):
            grad(y * other, x, allow_unused=unused)
    assert grad(h.detach() * other, other)[0].item() == pytest.approx(np.e)
    (live,) = grad(h * other, other)  # what is asked for is not behind what was freed
    assert live.item() == pytest.approx(np.e)


def test_hooks_run_in_order_even_if_one_removes_itself():
    x, seen = leaf(1.0), []
    handles = {}

    def once(g):
        seen.append("once")
        handles["once"].remove()

    handles["once"] = x.register_hook(once)
    x.register_hook(lambda g: seen.append("second"))
    x.register_hook(lambda g: g * 2)
    x.register_hook(lambda g: seen.append(g.item()))
    for _ in range(2):
        (x * 3).backward()
    assert seen == ["once", "second", 6.0, "second", 6.0]


def test_retain_grad_accumulates():
    x = leaf(1.0)
    h = x * 2
    h.retain_grad()
    for _ in range(2):
        (h * 3).backward(retain_graph=True)
    assert (h.grad.item(), x.grad.item()) == (6.0, 12.0)


def test_integer_leaf_is_refused_in_backward():
    n = tt.tensor([1, 2])
    n = n.double().requires_grad_()
    n.data = n.data.long()  # past requires_grad_(), which refuses whole numbers at once
    with pytest.raises(RuntimeError, match="a tensor of int64 has no gradient"):
        (n * 0.5).sum().backward()


def test_detach_in_place():
    x = leaf(1.0, 2.0)
    y = x * 2
    assert y.detach_() is y and y.is_leaf and not y.requires_grad
    with pytest.raises(RuntimeError, match="a view can't leave the tape"):
        (x * 2)[:1].detach_()


def test_attributes_of_tensors():
    x = leaf(1.0)
    x.label = "query"
    assert x.label == "query" and not hasattr(x * 1, "label")
    with pytest.raises(AttributeError):
        x.shape = (2,)


def test_next_functions_lead_through_the_graph():
    x, y = leaf(1.0), tt.ones(1, dtype=tt.float64)
    z = (x * y).exp()
    assert z.grad_fn.name() == "exp"
    ((product, zero),) = z.grad_fn.next_functions
    assert (product.name(), zero) == ("mul", 0)
    (end, _), (nothing, _) = product.next_functions
    assert (end.name(), end.variable is x, end.next_functions, nothing) == ("AccumulateGrad", True, (), None)


class Sums(nn.Module):
    def forward(self, x, y, n, times=1):
        return x * y * n * times, x + y


def test_full_backward_hooks():
    seen, module, x, y = [], Sums(), leaf(2.0), leaf(3.0)
    handle = module.register_full_backward_hook(lambda m, grad_input, arrived: seen.append((m, grad_input, arrived)))
    product, total = module(x, y, 2, times=2)
    (product * 5 + total).sum().backward()
    ((m, (gx, gy, none), (gp, gs)),) = seen
    assert m is module and none is None
    assert (gx.item(), gy.item(), gp.item(), gs.item()) == (61.0, 41.0, 5.0, 1.0)
    assert (x.grad.item(), y.grad.item()) == (61.0, 41.0)
    handle.remove()

    def halves(module, grad_input, arrived):
        return tuple(g if g is None else g / 2 for g in grad_input)

    module.register_full_backward_hook(halves)
    module.register_full_backward_hook(halves)
    x.grad = None
    module(x, y, 2)[0].backward()
    assert x.grad.item() == 1.5  # 6, halved by each of two
    linear, x = nn.Linear(2, 1), tt.ones(1, 2)
    linear.register_full_backward_hook(lambda m, grad_input, arrived: seen.append((grad_input, arrived[0].item())))
    linear(x).sum().backward()
    assert seen[-1] == ((None,), 1.0) and linear.weight.grad.tolist() == [[1.0, 1.0]]
    with tt.no_grad():
        assert not linear(x).requires_grad
    linear = nn.Linear(2, 1)
    linear.register_full_backward_hook(
        lambda m, grad_input, arrived: grad_input[0] * 3
    )  # a tensor stands for a tuple of one
    x = tt.ones(2, 2, requires_grad=True)
    linear(x).sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), 3 * np.repeat(linear.weight.detach().numpy(), 2, 0))
    module(2.0, leaf(3.0), 2)[1].backward()  # the first argument is no tensor
    module.forward = lambda x: {"x": x}
    with pytest.raises(TypeError, match="forward of Sums must return a tensor or a tuple, got dict"):
        module(x)


def test_a_full_backward_hook_in_a_second_derivative():
    """It is called in both walks, and what it returns counts in both. The numbers are PyTorch's."""
    for factor, first, second in ((1, 76.0, 9088.0), (10, 760.0, 9088000.0)):
        linear, seen = nn.Linear(2, 2, bias=False, dtype=tt.float64), []
        with tt.no_grad():
            linear.weight.copy_(tt.tensor([[1.0, 2.0], [3.0, 4.0]]))

        def hook(module, grad_input, arrived, seen=seen, factor=factor):
            seen.append((grad_input[0].tolist(), arrived[0].tolist()))
            return (grad_input[0] * factor,)

        linear.register_full_backward_hook(hook)
        x = tt.tensor([[1.0, 2.0]], dtype=tt.float64, requires_grad=True)
        y = linear(x)
        (g,) = tt.autograd.grad((y * y).sum(), x, create_graph=True)
        (g * g).sum().backward()
        assert seen[0] == ([[76.0, 108.0]], [[10.0, 22.0]]) and len(seen) == 2
        assert g[0, 0].item() == first and x.grad[0, 0].item() == second


# ------------------------------------------------------------------------------------------------------- functional


def cubes(x):
    return (x**3).sum()


def test_derivatives_lead_to_their_inputs():
    """Each is differentiated once more, by the input that was given."""
    x, v = leaf(1.0, 2.0), tt.tensor([1.0, 3.0], dtype=tt.float64)
    for what, result, expected in (
        ("vjp", lambda: functional.vjp(lambda x: x**3, x, v, create_graph=True)[1], [6.0, 36.0]),
        ("vjp's value", lambda: functional.vjp(lambda x: x**3, x, v, create_graph=True)[0], [3.0, 12.0]),
        ("jvp", lambda: functional.jvp(lambda x: x**3, x, v, create_graph=True)[1], [6.0, 36.0]),
        ("jacobian", lambda: functional.jacobian(lambda x: x**3, x, create_graph=True), [6.0, 12.0]),
        ("hessian", lambda: functional.hessian(cubes, x, create_graph=True), [6.0, 6.0]),
        ("vhp", lambda: functional.vhp(cubes, x, v, create_graph=True)[1], [6.0, 18.0]),
        ("hvp", lambda: functional.hvp(cubes, (x,), (v,), create_graph=True)[1][0], [6.0, 18.0]),
    ):
        (gradients,) = grad(result().sum(), x)
        assert gradients.tolist() == expected, what
    constant = tt.tensor([1.0, 2.0], dtype=tt.float64)
    assert functional.vjp(lambda x: x**3, constant, v, create_graph=True)[1].requires_grad
    assert not constant.requires_grad
    assert not functional.vjp(lambda x: x**3, x, v)[1].requires_grad


def test_derivatives_of_independent_outputs():
    x, one = leaf(1.0, 2.0), tt.ones(2, dtype=tt.float64)
    for constant in (lambda x: tt.ones(()), lambda x: (one * 2).sum()):
        assert functional.hessian(constant, x).tolist() == [[0.0, 0.0], [0.0, 0.0]]
        assert functional.hvp(constant, x, one)[1].tolist() == [0.0, 0.0]
        assert functional.jacobian(constant, x).tolist() == [0.0, 0.0]
        assert functional.vjp(constant, x)[1].tolist() == [0.0, 0.0]
        assert functional.jvp(constant, x, one)[1].item() == 0.0
        for name in ("hessian", "jacobian", "vjp"):
            with pytest.raises(RuntimeError, match=f"{name}: the value does not depend on the inputs number .0."):
                getattr(functional, name)(constant, x, strict=True)
    with pytest.raises(RuntimeError, match=r"hessian: the function must return one number.*\(2,\)"):
        functional.hessian(lambda x: x * 2, x)
    with pytest.raises(RuntimeError, match=r"vhp: v has the shapes \[\(3,\)\]"):
        functional.vhp(cubes, x, tt.ones(3))
    with pytest.raises(TypeError, match="must return one tensor, got float"):
        functional.jacobian(lambda x: 1.0, x)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert functional.vhp(cubes, x, one)[1].tolist() == [6.0, 12.0]


# ---------------------------------------------------------------------------------- who waits for a leaf's gradient


def test_post_accumulate_hook_runs_once_the_gradient_is_complete(monkeypatch):
    monkeypatch.setattr(post_accumulate_hooks, "_ever", [])  # as in a program that has had no such hook
    first, middle, last = (tt.ones(2, requires_grad=True) for _ in range(3))
    unused, calls = tt.ones(2, requires_grad=True), []
    y = (first * middle) * middle
    z = y * last + unused.detach()
    y.register_hook(lambda g: calls.append("y"))
    (first * 1).register_hook(lambda g: calls.append("never"))
    for name, leaf in (("first", first), ("middle", middle), ("last", last), ("unused", unused)):
        leaf.register_post_accumulate_grad_hook(lambda p, name=name: calls.append((name, p.grad.tolist())))
    z.sum().backward()
    assert calls[:2] == [("last", [1.0, 1.0]), "y"]  # the last one is complete before the first is reached
    assert dict(calls[:1] + calls[2:]) == {"first": [1.0, 1.0], "middle": [2.0, 2.0], "last": [1.0, 1.0]}


def test_post_accumulate_hooks_change_no_gradient():
    def gradients(awaited):
        w, b = tt.linspace(-1, 1, 6, requires_grad=True), tt.ones(6, requires_grad=True)
        handles = [p.register_post_accumulate_grad_hook(lambda p: None) for p in (w, b) if awaited]
        for _ in range(2):
            (((w * b).tanh() + w) * w).sum().backward()
        for handle in handles:
            handle.remove()
        return w.grad.tolist(), b.grad.tolist()

    assert gradients(False) == gradients(True)


def test_every_post_accumulate_hook_of_a_leaf_is_called():
    x, calls = tt.ones(1, requires_grad=True), []
    x.register_hook(lambda g: g * 2)
    for name in ("first", "second"):
        x.register_post_accumulate_grad_hook(lambda x, name=name: calls.append((name, x.grad.item())))
    (x * 3).backward()
    assert calls == [("first", 6.0), ("second", 6.0)]
    x.grad, calls[:] = None, []
    y = x * 3
    y.register_hook(lambda g: calls.append("y"))
    (y * x).backward()  # the sum of two shares, after the last node that leads to it
    assert calls == ["y", ("first", 12.0), ("second", 12.0)]


def test_at_end_runs_after_the_whole_walk():
    x, y, calls = tt.ones(1, requires_grad=True), tt.ones(1, requires_grad=True), []
    x.register_post_accumulate_grad_hook(lambda x: queue_callback(lambda: calls.append((x.grad, y.grad))))
    first = y * 1
    failing = first.register_hook(lambda g: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        (first + x).backward()
    assert not calls  # a walk that fails has no end
    failing.remove()
    x.grad = None
    (y * 1 + x).backward()
    assert [(a.item(), b.item()) for a, b in calls] == [(1.0, 1.0)]


def test_post_accumulate_hook_needs_a_leaf():
    x = tt.ones(2, requires_grad=True)
    for wrong in (x * 2, tt.ones(2)):
        with pytest.raises(RuntimeError, match=r"only a leaf that requires grad"):
            wrong.register_post_accumulate_grad_hook(lambda p: None)


def test_new_post_accumulate_hook_records_anew():
    w, calls = tt.ones(3, requires_grad=True), []

    @tt.compile
    def step(x):
        w.grad = None
        (w * x).sum().backward()

    for _ in range(3):
        step(tt.ones(3))
    handle = w.register_post_accumulate_grad_hook(lambda p: calls.append(1))
    step(tt.ones(3))
    assert calls == [1]
    handle.remove()
    step(tt.ones(3))
    assert calls == [1]
