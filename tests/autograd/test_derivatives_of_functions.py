"""tinytensor.func: derivatives against formulas, finite differences and, where it is installed, PyTorch."""

import numpy as np
import pytest

import tinytensor as tt
from tests.tools.packages import missing
from tinytensor import nn
from tinytensor.func import (
    functional_call,
    grad,
    grad_and_value,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    stack_module_state,
    vjp,
    vmap,
)


def number(value: float, **options):
    return tt.tensor(value, dtype=tt.float64, **options)


def vector(*values: float, **options):
    return tt.tensor(values, dtype=tt.float64, **options)


def same(got, expected, tolerance: float = 1e-12) -> bool:
    got, expected = (np.asarray(x.detach() if isinstance(x, tt.Tensor) else x) for x in (got, expected))
    return got.shape == expected.shape and np.allclose(got, expected, rtol=tolerance, atol=tolerance)


X = vector(0.3, -1.2, 2.0)
MATRIX = tt.tensor([[1.0, -2.0, 0.5], [0.25, 3.0, -1.0]], dtype=tt.float64)


def wave(x):
    """A function R^3 -> R^2."""
    return (MATRIX @ x.sin()) * x[:2].exp()


def cup(x):
    """A function R^3 -> R."""
    return (wave(x) ** 2).sum() + x.prod()


def slopes(function, x, h: float = 1e-5) -> np.ndarray:
    """The Jacobian by central differences."""
    columns = []
    for i in range(x.numel()):
        step = np.zeros(x.numel())
        step[i] = h
        step = tt.tensor(step.reshape(x.shape))
        columns.append((np.asarray(function(x + step)) - np.asarray(function(x - step))) / (2 * h))
    return np.stack(columns, -1)


def test_nested_grad_of_sine():
    x, f = number(0.7), tt.sin
    for expected in (np.cos(0.7), -np.sin(0.7), -np.cos(0.7), np.sin(0.7)):
        f = grad(f)
        assert same(f(x), expected)
    assert not f(x).requires_grad and x.grad is None


def test_inner_grad_does_not_see_the_outer_one():
    """d/dx (x d/dy (x + y)) at y = 1 is 1, and not 2, as it is if the two derivatives are confused."""
    assert same(grad(lambda x: x * grad(lambda y: x + y)(number(1.0)))(number(1.0)), 1.0)
    assert same(grad(lambda x: x * grad(lambda y: x * y)(number(1.0)))(number(3.0)), 6.0)


def test_grad_has_the_structure_of_the_argument():
    def f(weights, x, power):
        return (weights["a"] * x**power + weights["b"][0]).sum(), {"x": x}

    weights = {"a": number(2.0), "b": [number(5.0)]}
    gradient, aux = grad(f, has_aux=True)(weights, X, power=2)
    assert list(gradient) == ["a", "b"] and same(gradient["a"], (np.asarray(X) ** 2).sum())
    assert same(gradient["b"][0], 3.0) and same(aux["x"], X)
    both, (value, _) = grad_and_value(f, argnums=(1, 0), has_aux=True)(weights, X, 2)
    assert same(both[0], 4 * np.asarray(X)) and same(both[1]["b"][0], 3.0)
    assert same(value, 2 * (np.asarray(X) ** 2).sum() + 15) and not value.requires_grad
    assert same(grad(lambda x, y: (x * y).sum(), argnums=-1)(X, 2 * X), X)


def test_value_that_was_changed_in_place():
    w = vector(1.0, 2.0, 3.0, requires_grad=True)

    def f(x):
        y = x.clone()
        y[0] = (w * x).sum()
        return y[:2].sum()

    gradient, value = grad_and_value(f)(X)
    assert same(gradient, [1.0, 3.0, 3.0]) and value.requires_grad
    assert same(tt.autograd.grad(value, w)[0], X)


def test_unused_argument_has_zeros():
    assert same(grad(lambda x: number(3.0))(X), np.zeros(3))
    assert same(grad(lambda x: (x.detach() * x).sum())(X), X)


def test_tensor_of_the_caller_stays_on_the_tape():
    w = vector(1.0, 2.0, 3.0, requires_grad=True)
    (gradient,) = grad(lambda x: (x * w * w).sum(), argnums=(0,))(X)
    gradient.sum().backward()
    assert same(w.grad, 2 * np.asarray(w.detach()))
    value = grad_and_value(lambda x: (x * w).sum())(X)[1]
    assert value.requires_grad
    with tt.no_grad():
        assert not grad(lambda x: (x * w * w).sum())(X).requires_grad
    x = X.clone().requires_grad_()
    (second,) = tt.autograd.grad(grad(lambda x: (x**3).sum())(x).sum(), x)
    assert same(second, 6 * np.asarray(X)) and x.grad is None


def test_chunk_size_of_jacrev_is_the_number_of_rows_at_once():
    sizes = []

    def square(x):
        y = x * x
        y.register_hook(lambda g: sizes.append(g.level.size))
        return y

    assert jacrev(square, chunk_size=2)(tt.ones(3)).tolist() == jacrev(square)(tt.ones(3)).tolist()
    assert sizes == [2, 1, 3]
    with pytest.raises(ValueError, match="jacrev: chunk_size is 0; expected 1 or more, or None"):
        jacrev(square, chunk_size=0)


@pytest.mark.parametrize("jacobian", [jacrev, jacfwd])
def test_jacobian_is_that_of_finite_differences(jacobian):
    assert same(jacobian(wave)(X), slopes(wave, X), 1e-8)
    assert same(jacobian(cup)(X), slopes(cup, X), 1e-8)
    assert not same(jacobian(lambda x: 1.001 * wave(x))(X), slopes(wave, X), 1e-8)  # the comparison can fail
    (by_w, by_x), aux = jacobian(lambda w, x: (w * wave(x), x), argnums=(0, 1), has_aux=True)(number(2.0), X)
    assert same(by_w, wave(X)) and same(by_x, 2 * slopes(wave, X), 1e-8) and same(aux, X)
    derivatives = jacobian(lambda x: {"y": wave(x), "c": vector(1.0)})(X)
    assert same(derivatives["y"], slopes(wave, X), 1e-8) and same(derivatives["c"], np.zeros((1, 3)))
    assert jacobian(lambda x: x[:0])(X).shape == (0, 3) and jacobian(lambda x: x.sum())(X[:0]).shape == (0,)


def test_jacobians_have_memory_of_their_own():
    """Also where two inputs have one gradient, and where a row of zeros is for all results."""
    for jacobian in (jacrev, jacfwd):
        for f in (lambda a, b: a + b, lambda a, b: a, lambda a, b: vector(1.0)):
            by_a, by_b = jacobian(f, argnums=(0, 1))(X, 2 * X)
            expected = to_lists(by_b)
            by_a += 1
            by_b[0] += 1
            assert to_lists(by_b)[0] != expected[0] and to_lists(by_b)[1:] == expected[1:]


def to_lists(x):
    return np.asarray(x).tolist()


def test_hessian_of_several_results():
    expected = slopes(jacrev(wave), X)
    assert same(hessian(wave)(X), expected, 1e-8) and same(jacrev(jacrev(wave))(X), expected, 1e-8)
    assert same(hessian(hessian(wave))(X), jacrev(jacrev(jacrev(jacrev(wave))))(X))
    rows = vmap(hessian(wave), in_dims=1, out_dims=1)(tt.stack([X, 2 * X], 1))
    assert same(rows, np.stack([expected, hessian(wave)(2 * X)], 1), 1e-8)
    assert hessian(lambda x: x[:0])(X).shape == (0, 3, 3) and hessian(lambda x: x)(X[:0]).shape == (0, 0, 0)
    assert same(hessian(lambda x: vector(1.0, 2.0))(X), np.zeros((2, 3, 3)))
    assert hessian(tt.sin)(number(0.5)).item() == pytest.approx(-np.sin(0.5))


def test_products_inside_vmaps():
    """Vectors that differ by examples of a vmap inside of the one where the function was called, or of two."""
    xs, units, factors = tt.stack([X, 2 * X]), tt.eye(2, dtype=tt.float64), vector(1.0, -2.0, 0.5)

    def scaled_jacobians(x):
        _, pull = vjp(wave, x)
        return vmap(lambda factor: vmap(lambda v: pull(v * factor)[0] * x)(units))(factors)

    expected = [[slopes(wave, x) * factor * np.asarray(x) for factor in np.asarray(factors)] for x in xs]
    assert same(vmap(scaled_jacobians)(xs), expected, 1e-7)
    leaf = X.clone().requires_grad_()
    y = wave(leaf)
    rows = vmap(lambda v: tt.autograd.grad(y, leaf, v, retain_graph=True)[0])(units)
    assert same(rows, slopes(wave, X), 1e-8)


def test_anomaly_mode_looks_at_all_rows():
    with tt.autograd.detect_anomaly():
        assert same(jacrev(wave)(X), slopes(wave, X), 1e-8)
        with pytest.raises(FloatingPointError, match=r"backward of sqrt: .* the first (NaN|inf) arose"):
            jacrev(lambda x: (0 * x).sqrt())(X)


def test_hessian_is_that_of_finite_differences():
    assert same(hessian(cup)(X), slopes(jacrev(cup), X), 1e-8)
    assert same(hessian(cup)(X), jacfwd(jacrev(cup))(X)) and same(hessian(cup)(X), jacrev(jacfwd(cup))(X))
    (aa, ab), (ba, bb) = hessian(lambda a, b: (a * a * b).sum(), argnums=(0, 1))(X, 2 * X)
    x = np.diag(np.asarray(X))
    assert same(aa, 4 * x) and same(ab, 2 * x) and same(ba, 2 * x) and same(bb, 0 * x)


def test_products_with_jacobians():
    u, t = vector(0.5, -2.0), vector(1.0, 0.3, -0.7)
    y, pull = vjp(wave, X)
    expected = slopes(wave, X)
    assert same(y, wave(X)) and not y.requires_grad
    for _ in range(2):  # it may be called again
        assert same(pull(u)[0], np.asarray(u) @ expected, 1e-8)
    y, push = jvp(wave, (X,), (t,))
    assert same(y, wave(X)) and same(push, expected @ np.asarray(t), 1e-8)
    assert same(vmap(lambda v: pull(v)[0])(tt.eye(2, dtype=tt.float64)), expected, 1e-8)  # one call, many vectors
    assert same(vmap(lambda t: jvp(wave, (X,), (t,))[1], out_dims=1)(tt.eye(3, dtype=tt.float64)), expected, 1e-8)
    v = u.clone().requires_grad_()
    (through,) = tt.autograd.grad((pull(v)[0] * t).sum(), v)
    assert same(through, push)
    _, pull, aux = vjp(lambda a, b: ((a * b, [b]), a), X, 2 * X, has_aux=True)
    assert same(aux, X) and [same(g, e) for g, e in zip(pull((X, [X])), (2 * X * X, X * X + X))] == [True, True]
    y, push, aux = jvp(lambda a: ({"y": a * a}, a), (X,), (t,), has_aux=True)
    assert same(push["y"], 2 * X * t) and same(aux, X)
    assert same(jvp(lambda x: (x > 0).float(), (X,), (t,))[1], np.zeros(3, np.float32))


def test_functional_call_replaces_parameters_for_the_call():
    model = nn.Sequential(nn.Linear(3, 2), nn.Tanh(), nn.Linear(2, 1)).double()
    before, zeros = model(X), {name: tt.zeros_like(p) for name, p in model.named_parameters()}
    assert same(functional_call(model, zeros, (X,)), [0.0])
    assert same(functional_call(model, {"2.bias": vector(5.0)}, X), before + 5 - model[2].bias.item())
    assert same(functional_call(model, ({}, zeros), (X,)), [0.0])
    with pytest.raises(RuntimeError, match="linear: x"):
        functional_call(model, zeros, (tt.ones(7),))
    assert same(model(X), before) and isinstance(model[0].weight, nn.Parameter)
    parameters = {name: p.detach() for name, p in model.named_parameters()}
    gradients = grad(lambda p: functional_call(model, p, (X,)).sum())(parameters)
    model(X).sum().backward()
    assert all(same(gradients[name], p.grad) for name, p in model.named_parameters())


def test_functional_call_and_tied_weights():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.one = nn.Linear(3, 3, bias=False).double()
            self.two = nn.Linear(3, 3, bias=False).double()
            self.two.weight = self.one.weight

        def forward(self, x):
            return self.two(self.one(x))

    twice = {"one.weight": 2 * tt.eye(3, dtype=tt.float64)}
    model = Tied()
    assert same(functional_call(model, twice, (X,)), 4 * X)
    assert same(functional_call(model, twice, (X,), tie_weights=False), 2 * model.two(X))


def test_functional_call_changes_the_given_buffers():
    model = nn.BatchNorm1d(2)
    buffers = {name: b.clone() for name, b in model.named_buffers()}
    functional_call(model, buffers, (tt.tensor([[1.0, 2.0], [3.0, 6.0]]),))
    assert same(buffers["running_mean"], [0.2, 0.4], 1e-6) and same(model.running_mean, [0.0, 0.0])


def test_ensemble_of_modules():
    models = [nn.Linear(3, 2).double() for _ in range(4)]
    parameters, buffers = stack_module_state(models)
    assert parameters["weight"].shape == (4, 2, 3) and parameters["weight"].requires_grad and buffers == {}
    derivatives = vmap(lambda p: functional_call(models[0], p, (X,)))(parameters)
    assert same(derivatives, np.stack([np.asarray(m(X).detach()) for m in models]))


def test_compiled_grad_replays():
    model = nn.Linear(3, 1).double()
    p = {name: q.detach() for name, q in model.named_parameters()}
    plain = grad(lambda p, x: functional_call(model, p, (x,)).sum() ** 2)
    step = tt.compile(plain, fullgraph=True)
    for x in (X, 2 * X, 3 * X):
        derivatives, expected = step(p, x), plain(p, x)
        assert all(np.array_equal(np.asarray(derivatives[name]), np.asarray(expected[name])) for name in p)
    assert sum(map(len, step.recordings.values())) == 1


ERRORS = {
    "grad: the function must return one number, .* it returned a tensor of shape \\(3,\\)": lambda: grad(tt.sin)(X),
    "grad: the function must return one number, .* it returned float": lambda: grad(lambda x: 1.0)(X),
    "grad: only floating-point tensors have derivatives; this argument is .*int64": lambda: grad(tt.sum)(tt.arange(3)),
    "grad: expected a tensor, got float": lambda: grad(lambda x: x)(2.0),
    "grad: argnums is 2, but the function was called with 1 arguments": lambda: grad(tt.sum, argnums=2)(X),
    "grad: argnums is 'x'; expected a whole number": lambda: grad(tt.sum, argnums="x")(X),
    "grad: argnums is \\(0, -1\\), which names an argument twice": lambda: grad(tt.sum, argnums=(0, -1))(X),
    "grad: with has_aux=True the function must return \\(result, aux\\)": lambda: grad(tt.sum, has_aux=True)(X),
    "vjp: the vectors have shapes \\[\\(3,\\)\\], expected \\[\\(2,\\)\\]": lambda: vjp(wave, X)[1](X),
    "jvp: the vectors have shapes \\[\\(2,\\)\\], expected \\[\\(3,\\)\\]": lambda: jvp(wave, (X,), (X[:2],)),
    "jvp: primals and tangents must be tuples of one length": lambda: jvp(wave, X, X),
    "jvp: a result does not depend on the primals": lambda: jvp(lambda x: MATRIX, (X,), (X,), strict=True),
    "functional_call of Linear: unknown: w; missing: bias": lambda: functional_call(
        nn.Linear(1, 1), {"w": X, "weight": X}, (X,), strict=True
    ),
    "functional_call: a: more than one of the dicts has this name": lambda: functional_call(
        nn.Linear(1, 1), ({"a": X}, {"a": X}), (X,)
    ),
    "stack_module_state: expected one module or more": lambda: stack_module_state([]),
    "stack_module_state: the modules must be of one class": lambda: stack_module_state([nn.Linear(1, 1), nn.ReLU()]),
}


@pytest.mark.parametrize("sentence", ERRORS)
def test_error_says_what_came_and_what_was_expected(sentence):
    with pytest.raises((RuntimeError, TypeError, ValueError), match=sentence):
        ERRORS[sentence]()


# ------------------------------------------------------------------------------------------------ beside PyTorch


def ring(lib, x):
    return (x.sin() * x.roll(1)).sum() + x.prod()


PROGRAMS = {  # the same code for both libraries
    "grad": lambda f, lib, x: f.grad(lambda x: ring(lib, x))(x),
    "grad of grad": lambda f, lib, x: f.grad(lambda x: f.grad(lambda x: ring(lib, x))(x).norm())(x),
    "grad with aux": lambda f, lib, x: f.grad(lambda x, y: (ring(lib, x * y), [x]), (1, 0), True)(x, x + 1),
    "grad and value": lambda f, lib, x: f.grad_and_value(lambda d: ring(lib, d["x"] * d["y"][0]))({"x": x, "y": [x]}),
    "vjp": lambda f, lib, x: f.vjp(lambda x, y: (x * y, {"a": y.exp()}), x, x + 1)[1]((x, {"a": x})),
    "jvp": lambda f, lib, x: f.jvp(lambda x, y: (x * y, {"a": y.exp()}), (x, x + 1), (x, x)),
    "jacrev": lambda f, lib, x: f.jacrev(lambda x, y: (x * y, {"a": y.sum()}), argnums=(0, 1))(x, x + 1),
    "jacfwd": lambda f, lib, x: f.jacfwd(lambda x, y: (x * y, {"a": y.sum()}), argnums=(0, 1))(x, x + 1),
    "hessian": lambda f, lib, x: f.hessian(lambda x, y: ring(lib, x * y), argnums=(0, 1))(x, x + 1),
    "vmap": lambda f, lib, x: f.vmap(lambda a, b: (a * b, {"s": (a + b).sum()}), (0, None), (1, 0))(lib.outer(x, x), x),
    "vmap of grad": lambda f, lib, x: f.vmap(f.grad(lambda x: ring(lib, x)))(lib.outer(x, x)),
    "vmap of hessian": lambda f, lib, x: f.vmap(f.hessian(lambda x: ring(lib, x)))(lib.outer(x, x)),
    "vmap in vmap": lambda f, lib, x: f.vmap(f.vmap(lambda a, b: a * b + x.sum(), (None, 0)), (0, None))(x, x),
    "grad of vmap": lambda f, lib, x: f.grad(lambda x: f.vmap(lambda a: (a * x).exp().sum())(x).sum())(x),
    "chunks": lambda f, lib, x: f.vmap(lambda a: a.cumsum(0), in_dims=-1, chunk_size=2)(lib.outer(x, x)),
}


def leaves_of(tree) -> list:
    if isinstance(tree, dict):
        return [("dict", tuple(tree)), *leaves_of(list(tree.values()))]
    if isinstance(tree, tuple | list):
        return [(type(tree).__name__, len(tree)), *(leaf for branch in tree for leaf in leaves_of(branch))]
    return [np.asarray(tree.detach())]


@pytest.mark.parametrize("name", PROGRAMS)
def test_program_gives_what_pytorch_gives(name):
    torch = pytest.importorskip("torch", reason=missing("torch"))
    values = [0.3, -1.2, 2.0]
    expected = leaves_of(PROGRAMS[name](torch.func, torch, torch.tensor(values, dtype=torch.float64)))
    derivatives = leaves_of(PROGRAMS[name](tt.func, tt, tt.tensor(values, dtype=tt.float64)))
    assert len(derivatives) == len(expected)
    for f, e in zip(derivatives, expected, strict=True):
        assert f == e if isinstance(e, tuple) else f.shape == e.shape and np.allclose(f, e, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", PROGRAMS)
def test_program_runs(name):
    assert len(leaves_of(PROGRAMS[name](tt.func, tt, X))) > 0
