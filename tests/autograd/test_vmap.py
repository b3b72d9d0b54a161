"""vmap: each operation's samples against a loop over the examples, dimensions, randomness, changes in place, errors."""

from types import SimpleNamespace

import numpy as np
import pytest

import tinytensor as tt
from tests.samples.ops import SAMPLES, Call, difference, is_in_place, is_tensor, to_array
from tests.tools.sampling_rate import some
from tinytensor import nn
from tinytensor.autograd import Function
from tinytensor.autograd.func import batches
from tinytensor.core import late_bound
from tinytensor.core.op import OPS
from tinytensor.func import functional_call, grad, hessian, jacfwd, jacrev, vmap
from tinytensor.nn import functional as F

FACTORS = 1.0, 0.75  # the examples are a sample's inputs, times these


def examples_of(sample) -> SimpleNamespace | None:
    """A sample's call, its inputs for each example, and the results of a loop; None if these make no batch."""
    call = Call(tt, sample)
    inputs = [[(x.detach() * factor).to(x.dtype) for x in call.inputs] for factor in FACTORS]
    try:
        rows = [call(*[x.clone().requires_grad_() for x in xs]) for xs in inputs]
    except (RuntimeError, ValueError, IndexError):
        return None  # a matrix that is positive definite no more, say
    batch = all(is_tensor(tt, y) for row in rows for y in row) and len({len(row) for row in rows}) == 1
    if not batch or any(len({y.shape for y in column}) > 1 for column in zip(*rows, strict=True)):
        return None
    return SimpleNamespace(call=call, inputs=inputs, rows=rows)


CHOSEN = {}  # the first three samples of each path
for _sample in SAMPLES:
    if not _sample.is_random and "dropout" not in _sample.paths[0] and "float32" not in _sample.id:
        _found = CHOSEN.setdefault(_sample.paths[0], [])
        if len(_found) < 3 and Call(tt, _sample).inputs:
            _found.append(_sample)
CHOSEN = {path: results for path, results in CHOSEN.items() if results}


def compare(results: SimpleNamespace, batched: list[bool]) -> str:
    """How the values and gradients of vmap differ from those of a loop, if the inputs marked here differ by example."""
    xs = [tt.stack(column) if b else column[0].clone() for column, b in zip(zip(*results.inputs), batched, strict=True)]
    xs = [x.requires_grad_() for x in xs]
    ys = vmap(lambda *xs: tuple(results.call(*xs)), tuple([0 if b else None for b in batched]))(*xs)
    weights = [np.random.RandomState(i).random_sample(y.shape) for i, y in enumerate(ys)]
    rows, expected = [], [np.zeros(x.shape) for x in xs]
    for k in range(len(FACTORS)):
        leaves = [results.inputs[k if b else 0][i].clone().requires_grad_() for i, b in enumerate(batched)]
        rows.append(results.call(*leaves))
        outputs = [y for y in rows[-1] if y.requires_grad]
        starts = [tt.tensor(w[k], dtype=y.dtype) for w, y in zip(weights, rows[-1], strict=True) if y.requires_grad]
        if outputs:
            gradients = tt.autograd.grad(outputs, leaves, starts, materialize_grads=True, allow_unused=True)
            for e, g, b in zip(expected, gradients, batched, strict=True):
                e[k if b else ...] += to_array(g)
    for i, y in enumerate(ys):
        if str(y.dtype) != str(rows[0][i].dtype):
            return f"dtype {y.dtype}, expected {rows[0][i].dtype}"
        problem = difference(to_array(y), np.stack([to_array(row[i]) for row in rows]), 1e-12)
        if problem or y.requires_grad is not rows[0][i].requires_grad:
            return problem or f"requires_grad {y.requires_grad}"
    outputs = [y for y in ys if y.requires_grad]
    starts = [tt.tensor(w, dtype=y.dtype) for w, y in zip(weights, ys, strict=True) if y.requires_grad]
    if not outputs:
        return ""
    gradients = tt.autograd.grad(outputs, xs, starts, materialize_grads=True, allow_unused=True)
    problem = [difference(to_array(g), e, 1e-11) for g, e in zip(gradients, expected, strict=True)]
    return next((f"gradient {t}" for t in problem if t), "")


@pytest.mark.one_in(30)
@pytest.mark.parametrize("path", CHOSEN)
def test_vmap_of_an_operation_is_a_loop(path):
    for sample in some(CHOSEN[path], one_in=3):
        results = examples_of(sample)
        if results is None:
            continue
        n = len(results.call.inputs)
        for batched in ([True] * n, [i == 0 for i in range(n)], [i == n - 1 for i in range(n)])[: 1 if n == 1 else 3]:
            if is_in_place(path) and not batched[0]:  # a tensor that all examples share is not changed
                continue
            problem = compare(results, batched)
            assert not problem, f"{sample.id}, {batched}: {problem}"


@pytest.mark.slow
def test_most_operations_are_among_these():
    compared = [s for results in CHOSEN.values() for s in results if examples_of(s) is not None]
    assert len(compared) > 0.9 * sum(map(len, CHOSEN.values())) > 300


@pytest.mark.parametrize("name", ["reduce_sum", "permute", "add", "cat", "matmul"])
def test_wrong_rule_is_noticed(name, monkeypatch):
    wrong = {
        "reduce_sum": lambda op, size, args, which: batches.RULES["reduce_mean"](OPS["reduce_mean"], size, args, which),
        "permute": lambda op, size, args, which: op(args[0], (0, *reversed([d + 1 for d in args[1]]))),
        "add": lambda op, size, args, which: OPS["sub"](*args),
        "cat": lambda op, size, args, which: op(args[0] + 1, *reversed(args[1:])),
        "matmul": lambda op, size, args, which: op(args[0], args[1].flip(0)),
    }
    paths = {"reduce_sum": "Tensor.sum", "permute": "Tensor.permute", "add": "operator.add", "cat": "cat"}
    monkeypatch.setitem(batches.RULES, name, wrong[name])
    noticed = False
    for sample in CHOSEN[paths.get(name, "operator.matmul")]:
        results = examples_of(sample)
        try:
            noticed = noticed or compare(results, [True] * len(results.call.inputs)) != ""
        except RuntimeError:  # shapes that do not fit
            noticed = True
    assert noticed


# ------------------------------------------------------------------------- rows and columns of Jacobians, as a batch


def jacobian_problem(sample, jacobian) -> str:
    """How the Jacobians of a sample's results differ from those of a loop over the rows; "" if it has none."""
    call = Call(tt, sample)
    floats = [i for i, x in enumerate(call.inputs) if x.dtype.kind == "f"]
    xs = [call.inputs[i].detach() for i in floats]

    def function(*xs):  # of copies, which the operation may change
        values = dict(zip(floats, xs, strict=True))
        return tuple(call(*[values.get(i, x.detach()).clone() for i, x in enumerate(call.inputs)]))

    try:
        leaves = [x.clone().requires_grad_() for x in xs]
        ys = function(*leaves)
    except (RuntimeError, ValueError, IndexError):
        return ""
    if not floats or any(not is_tensor(tt, y) or y.numel() > 100 for y in ys):
        return ""
    rows = {"retain_graph": True, "allow_unused": True, "materialize_grads": True}
    for y, results in zip(ys, jacobian(function, argnums=tuple(range(len(xs))))(*xs), strict=True):
        units = tt.eye(y.numel(), dtype=y.dtype).reshape(y.numel(), *y.shape) if y.requires_grad else []
        expected = [tt.autograd.grad(y, leaves, unit, **rows) for unit in units]
        for i, (x, result) in enumerate(zip(xs, results, strict=True)):
            column = np.array([to_array(row[i]) for row in expected] or np.zeros(y.shape + x.shape))
            problem = difference(to_array(result), column.reshape(y.shape + x.shape), 1e-11)
            if problem:
                return f"by input {i}: {problem}"
    return ""


@pytest.mark.parametrize("path", CHOSEN)
def test_jacobian_of_an_operation_is_a_loop_over_its_rows(path):
    for sample in some(CHOSEN[path], one_in=3):
        for jacobian in (jacrev, jacfwd):
            problem = jacobian_problem(sample, jacobian)
            assert not problem, f"{sample.id}, {jacobian.__name__}: {problem}"


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("unslice", "Tensor.narrow"),
        ("undiagonal", "Tensor.diagonal"),
        ("gather_backward", "Tensor.gather"),
        ("scatter_rows", "Tensor.index_select"),
        ("put", "Tensor.scatter"),
        ("solve", "linalg.solve"),
    ],
)
def test_wrong_rule_for_gradients_is_noticed(name, path, monkeypatch):
    right = batches.RULES[name]
    monkeypatch.setitem(batches.RULES, name, lambda *args: right(*args) * 2)
    assert any(jacobian_problem(sample, jacrev) for sample in CHOSEN[path])


# --------------------------------------------------------------------------------------------------- without a loop


class Block(nn.Module):
    """A layer of a transformer."""

    def __init__(self):
        super().__init__()
        self.norm, self.first, self.last = nn.LayerNorm(8), nn.Linear(8, 24), nn.Linear(8, 5)
        self.double()

    def forward(self, x):
        q, k, v = (t.unflatten(-1, (2, 4)).transpose(0, 1) for t in self.first(self.norm(x)).split(8, -1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(0, 1).flatten(1)
        return self.last(F.gelu(x + y))


def block_loss(parameters, model, x, target):
    return F.cross_entropy(functional_call(model, parameters, (x,)), target)


@pytest.fixture
def no_loop(monkeypatch):
    """An operation that is called for each example raises."""

    def refuse(function, args, kwargs, name):
        raise AssertionError(f"{name} was called for each example")

    monkeypatch.setattr(late_bound, "for_each_example", refuse)
    ways = batches._fallback

    def only_definitions(op, *rest):
        assert op.definition is not None, f"{op.name} was called for each example"
        return ways(op, *rest)

    monkeypatch.setattr(batches, "_fallback", only_definitions)


@pytest.mark.slow
@pytest.mark.usefixtures("no_loop")
def test_gradient_for_each_sequence_without_a_loop():
    rng, model = np.random.default_rng(0), Block()
    parameters = {name: p.detach() for name, p in model.named_parameters()}
    x, target = tt.tensor(rng.normal(size=(6, 7, 8))), tt.tensor(rng.integers(0, 5, (6, 7)))
    results = vmap(lambda p, x, t: grad(block_loss)(p, model, x, t), (None, 0, 0))(parameters, x, target)
    for i in range(6):
        expected = grad(block_loss)(parameters, model, x[i], target[i])
        for name, g in expected.items():
            assert not difference(to_array(results[name][i]), to_array(g), 1e-12), name


@pytest.mark.usefixtures("no_loop")
def test_jacobian_without_a_loop():
    model, x = Block(), tt.randn(3, 8, dtype=tt.float64)
    rows, columns = jacrev(model)(x), jacfwd(model)(x)
    assert rows.shape == (3, 5, 3, 8) and not difference(to_array(rows), to_array(columns), 1e-12)
    assert hessian(lambda x: model(x)[0, :2])(x).shape == (2, 3, 8, 3, 8)


def test_function_runs_once():
    runs = []
    vmap(lambda x: runs.append(x.shape) or x.exp())(tt.ones(100, 3))
    assert runs == [(3,)]


def test_recorded_vmap_replays():
    weights, batch = tt.randn(3, 3), [tt.randn(5, 3) for _ in range(3)]
    plain = vmap(lambda x: (weights @ x.sin()).softmax(0))
    step = tt.compile(plain, fullgraph=True)
    for x in batch:
        assert np.array_equal(np.asarray(step(x)), np.asarray(plain(x)))


# ------------------------------------------------------------------------------------------------------- dimensions


def test_dimensions_of_arguments_and_results():
    x, w = tt.arange(24.0).reshape(2, 3, 4), tt.tensor([1.0, 2.0, 3.0])
    xs = np.asarray(x)
    assert np.array_equal(np.asarray(vmap(lambda x: x.sum(), in_dims=1)(x)), xs.sum((0, 2)))
    assert np.array_equal(np.asarray(vmap(lambda x: x * 2, in_dims=-1, out_dims=-1)(x)), xs * 2)
    y, z = vmap(lambda d, s: ({"a": d["x"] * s}, s), ({"x": 1, "w": 0}, None), (0, None))(
        {"x": x, "w": w}, tt.tensor(3.0)
    )
    assert np.array_equal(np.asarray(y["a"]), xs.transpose(1, 0, 2) * 3) and z.item() == 3.0
    assert np.array_equal(np.asarray(vmap(lambda x, *, w: x * w)(x[:, 0], w=w[:2])), xs[:, 0] * [[1], [2]])
    chunks = vmap(lambda x: x.cumsum(0), in_dims=2, out_dims=1, chunk_size=3)(x)
    assert np.array_equal(np.asarray(chunks), xs.cumsum(0).transpose(0, 2, 1))
    assert vmap(lambda x: x.sin() @ x)(tt.ones(0, 3)).shape == (0,)


def test_vmap_in_vmap():
    rng = np.random.default_rng(1)
    a, b = rng.normal(size=(2, 4)), rng.normal(size=(3, 4))
    table = vmap(vmap(lambda x, y: (x * y).sum(), (None, 0)), (0, None))(tt.tensor(a), tt.tensor(b))
    assert not difference(to_array(table), a @ b.T, 1e-12)
    table = vmap(lambda x: vmap(lambda y: x.sort().values @ y.sort().values)(tt.tensor(b)))(tt.tensor(a))
    assert not difference(to_array(table), np.sort(a) @ np.sort(b).T, 1e-12)
    slopes = vmap(lambda x: vmap(grad(lambda y: (x * y * y).sum()))(tt.tensor(b)))(tt.tensor(a))
    assert not difference(to_array(slopes), 2 * a[:, None] * b, 1e-12)


# ---------------------------------------------------------------------------------- randomness, changes, functions


def test_random_numbers_are_the_same_or_different():
    ones = tt.ones(4, 50)
    with pytest.raises(RuntimeError, match='dropout inside vmap draws random numbers; say randomness="different"'):
        vmap(F.dropout)(ones)
    same = np.asarray(vmap(F.dropout, randomness="same")(ones))
    different = np.asarray(vmap(F.dropout, randomness="different")(ones))
    assert (same == same[0]).all() and 0 < same.mean() < 2
    assert len({row.tobytes() for row in different}) == 4
    noise = vmap(lambda x: x + tt.randn(50), randomness="different")(ones)
    assert len({row.tobytes() for row in np.asarray(noise)}) == 4


def changed(x):
    y = x.clone()
    y[0] += 2 * x[1]
    y.mul_(x)
    y[1] = x.sum()
    y[x > 100] = 7.0
    return y.relu_()


def test_changes_in_place_are_those_of_a_loop():
    x = tt.randn(3, 4, dtype=tt.float64)
    expected = [[to_array(changed(row)), to_array(grad(lambda x: changed(x).sum())(row))] for row in x]
    results = to_array(vmap(changed)(x)), to_array(vmap(grad(lambda x: changed(x).sum()))(x))
    for got, column in zip(results, zip(*expected, strict=True), strict=True):
        assert not difference(got, np.stack(column), 1e-12)


class Square(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, g):
        return 2 * ctx.saved_tensors[0] * g


def test_function_of_the_user_runs_for_each_example():
    x = tt.randn(3, 4, dtype=tt.float64)
    assert not difference(to_array(vmap(grad(lambda x: Square.apply(x).sum()))(x)), 2 * np.asarray(x), 1e-12)
    assert not difference(to_array(vmap(jacrev(Square.apply))(x)), 2 * np.asarray(x)[:, None] * np.eye(4), 1e-12)


@tt.op
class flip_op:
    r"y = (x, x): an operation of the user with the name of another one"

    def forward(x):
        return OPS["stack"].forward(0, x, x)

    def grad_x(g):
        return g.sum(0)


@tt.op
class square:
    r"y = x^2 + x"

    def kernel(x):
        return x * x + x

    def grad_x(g, x):
        return g * (2 * x + 1)


def test_operation_of_the_user_does_not_get_another_ones_rule():
    x = tt.randn(3, 4, dtype=tt.float64)
    assert not difference(to_array(vmap(grad(lambda x: square(x).sum()))(x)), 2 * np.asarray(x) + 1, 1e-12)
    assert not difference(to_array(vmap(flip_op)(x)), np.stack([np.asarray(x)] * 2, 1), 1e-12)


LEFT = []
ERRORS = {
    r"item\(\) inside vmap: .* use where\(\) instead of if": lambda x: x.item(),
    r"bool\(\) inside vmap": lambda x: x if x.sum() > 0 else -x,
    r"numpy\(\) inside vmap": lambda x: tt.tensor(x.numpy()),
    "inside vmap a tensor has no place of its own on the tape": lambda x: x.requires_grad_(),
    "backward: inside vmap a tensor has no tape of its own": lambda x: tt.autograd.backward(x.sum()),
    "backward: inside vmap a tensor has no tape": lambda x: (tt.ones(2, requires_grad=True) * 2).backward(x),
    "the examples have results of shapes": lambda x: x[x > 1],
    "a tensor that all 2 examples share can't take over values that differ": lambda x: tt.zeros(2).add_(x),
    "the function must return tensors, .* got 3": lambda x: 3,
    "allclose inside vmap: its result is no tensor": lambda x: tt.tensor(tt.allclose(x, x)),
}


@pytest.mark.parametrize("sentence", ERRORS)
def test_value_that_differs_by_example_is_refused(sentence):
    with pytest.raises((RuntimeError, ValueError), match=sentence):
        vmap(ERRORS[sentence])(tt.tensor([[1.0, 2.0], [3.0, 4.0]]))


WRONG = {
    "the arguments have 2 and 3 examples": lambda: vmap(tt.add)(tt.ones(2), tt.ones(3)),
    "no argument has examples": lambda: vmap(tt.sin, in_dims=None)(tt.ones(2)),
    "names dimension 0 of 3.0, which is no tensor": lambda: vmap(tt.add)(tt.ones(2), 3.0),
    r"names dimension 4, which a tensor of shape \(2,\) does not have": lambda: vmap(tt.sin, in_dims=4)(tt.ones(2)),
    "in_dims is .* which does not have the structure": lambda: vmap(tt.sin, in_dims=(0, 0))(tt.ones(2)),
    "out_dims names dimension 3": lambda: vmap(tt.sin, out_dims=3)(tt.ones(2)),
    "out_dims is None for a result that differs": lambda: vmap(tt.sin, out_dims=None)(tt.ones(2)),
    "randomness is 'no'": lambda: vmap(tt.sin, randomness="no"),
    "chunk_size is 0": lambda: vmap(tt.sin, chunk_size=0),
    "no example": lambda: vmap(tt.sort)(tt.ones(0, 2)),
    "of a vmap that has ended": lambda: (vmap(lambda x: LEFT.append(x) or x)(tt.ones(2)), LEFT.pop() + 1),
}


@pytest.mark.parametrize("sentence", WRONG)
def test_wrong_use_of_vmap_has_a_sentence(sentence):
    with pytest.raises((RuntimeError, ValueError, IndexError), match=sentence):
        WRONG[sentence]()


def test_indices_of_a_key_may_be_batched_and_are_never_taken_for_a_slice():
    x, index = tt.arange(12).reshape(4, 3), tt.tensor([[0, 2], [1, 1], [2, 0], [0, -1]])
    assert vmap(lambda row, k: row[k])(x, index).tolist() == [[0, 2], [4, 4], [8, 6], [9, 11]]
    with pytest.raises(IndexError, match="index 5 is out of range"):
        vmap(lambda row, k: row[k])(x, index + 3)
    with pytest.raises(RuntimeError, match="no values"):
        x[tt.zeros(2, dtype=tt.int64, device="meta")]
