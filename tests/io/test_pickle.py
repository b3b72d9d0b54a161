"""pickle and copy: functions by their names, modules that hold them, tensors as values, memory that is shared."""

import copy
import importlib
import multiprocessing
import pickle
import types

import numpy as np
import pytest

import tinytensor as tt
import tinytensor.nn.functional as F
from tinytensor import nn
from tinytensor.interop.torch_names.typeinfo import UNSTORED

ROOMS = ["nn", "nn.functional", "nn.init", "nn.utils", "nn.utils.rnn", "nn.utils.stateless", "nn.parallel", "optim"]
ROOMS += ["optim.lr_scheduler", "autograd", "autograd.functional", "func", "linalg", "amp", "cuda", "distributions"]
ROOMS += ["distributed", "utils.data", "symbolic", "viz"]


def public_functions() -> dict:
    """Every public function, class and operation, by its path; modules and plain values are left out."""
    results = {f"Tensor.{name}": f for name, f in vars(tt.Tensor).items() if isinstance(f, types.FunctionType)}
    for room in ["tinytensor", *(f"tinytensor.{name}" for name in ROOMS)]:
        for name, value in vars(importlib.import_module(room)).items():
            named = isinstance(value, type | types.FunctionType | tt.core.op.Op | tt.core.kernel.Kernel)
            if named and not name.startswith("_") and type(value) is not types.GenericAlias:
                results[f"{room}.{name}"] = value
    return results


@pytest.mark.parametrize("protocol", [2, pickle.HIGHEST_PROTOCOL])
def test_functions_are_pickled_by_name(protocol):
    functions = public_functions()
    assert len(functions) > 900
    wrong = {}
    for path, function in functions.items():
        try:
            if (
                pickle.loads(pickle.dumps(function, protocol)) is not function
                or copy.deepcopy(function) is not function
            ):
                wrong[path] = "another object"
        except Exception as error:
            wrong[path] = str(error)
    assert not wrong


def test_methods_have_their_names():
    for name, function in vars(tt.Tensor).items():
        if isinstance(function, types.FunctionType):
            assert (function.__name__, function.__qualname__) == (name, f"Tensor.{name}")
    assert tt.Tensor.backward.__name__ == "backward"
    for name in ("arange", "empty", "eye", "full", "rand", "tensor", "zeros", "zeros_like", "add", "softmax"):
        assert getattr(tt, name).__module__ == "tinytensor" and getattr(tt, name).__wrapped__.__module__ != "tinytensor"
    assert F.gelu.__module__ == "tinytensor.nn.functional" and tt.linalg.norm.__module__ == "tinytensor.linalg"


@pytest.mark.parametrize("name", ["FloatTensor", "LongTensor", "BoolTensor", *UNSTORED])
def test_types_are_pickled_by_name(name):
    value = getattr(tt, name)
    assert pickle.loads(pickle.dumps(value)) is copy.deepcopy(value) is value


@tt.op
class doubled:
    "y = 2 x"

    def kernel(x):
        return x + x

    def grad_x(g, x):
        return g + g


@tt.kernel()
def set_to_one(y):
    y[0] = 1


@tt.compile
def halved(x):
    return x / 2


def test_declarations_of_a_program_are_pickled_by_name():
    for declared in (doubled, set_to_one, halved):
        assert pickle.loads(pickle.dumps(declared)) is copy.deepcopy(declared) is declared

    @tt.op
    class inner:
        "y = x"

        def kernel(x):
            return x

    with pytest.raises((AttributeError, pickle.PicklingError), match=r"<locals>\.inner"):
        pickle.dumps(inner)


def test_compiled_functions_and_modules_are_compiled_again():
    x = tt.tensor([1.0, -3.0])
    reloaded = pickle.loads(pickle.dumps(tt.compile(F.relu, fullgraph=True)))
    assert [reloaded(x).tolist() for _ in range(3)] == [[1.0, 0.0]] * 3
    assert (
        type(reloaded) is type(halved) and reloaded.fullgraph and reloaded.replays == 2 and reloaded.function is F.relu
    )
    module = tt.compile(nn.Linear(2, 1))
    twin = pickle.loads(pickle.dumps(module))
    assert twin._orig_mod is not module._orig_mod and type(twin._orig_mod) is nn.Linear
    with tt.no_grad():
        assert twin(x).tolist() == module(x).tolist()


class Holding(nn.Module):
    def __init__(self):
        super().__init__()
        self.activations = [F.gelu, tt.tanh, F.softmax, tt.Tensor.relu, tt.clip, tt.linalg.norm, F.relu]
        self.weight = nn.Parameter(tt.ones(2))

    def forward(self, x):
        return self.activations[0](x) * self.weight


MODULES = {
    "a named activation": lambda: nn.TransformerEncoderLayer(8, 2, 16, 0.0, activation="gelu", batch_first=True),
    "a function": lambda: nn.TransformerEncoderLayer(8, 2, 16, 0.0, activation=F.gelu, batch_first=True),
    "an operation": lambda: nn.TransformerEncoderLayer(8, 2, 16, 0.0, activation=tt.relu, batch_first=True),
    "decoder": lambda: nn.TransformerDecoderLayer(8, 2, 16, 0.0, activation="gelu", batch_first=True),
    "encoder": lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, activation=F.gelu), 2),
    "layers": lambda: nn.Sequential(nn.Linear(8, 8), nn.GELU(), nn.Tanh(), nn.Dropout(0.0), nn.LayerNorm(8)),
}


@pytest.mark.parametrize("name", MODULES)
def test_modules_that_hold_functions_are_pickled(name):
    tt.manual_seed(0)
    module, x = MODULES[name]().eval(), tt.randn(2, 3, 8)
    args = (x, x) if name == "decoder" else (x,)
    for twin in (pickle.loads(pickle.dumps(module)), copy.deepcopy(module)):
        assert twin(*args).tolist() == module(*args).tolist()
        assert all(p is not q for p, q in zip(twin.parameters(), module.parameters(), strict=True))
    held = Holding()
    assert pickle.loads(pickle.dumps(held)).activations == held.activations


def test_a_computed_tensor_is_pickled_as_its_value():
    """It comes back as a leaf that requires grad, as from PyTorch's pickle and copy.copy()."""
    w = tt.tensor([1.0, 2.0, 3.0], requires_grad=True)
    h = w * 2
    h.register_hook(lambda g: g)
    h.note = "kept"
    for twin in (pickle.loads(pickle.dumps(h)), copy.copy(h)):
        assert twin.tolist() == [2.0, 4.0, 6.0] and twin.requires_grad and twin.is_leaf and twin.note == "kept"
        twin.sum().backward()
        assert twin.grad.tolist() == [1.0, 1.0, 1.0] and w.grad is None
    for computed in (F.softmax(w, 0), w[1:], w.sum(), (w @ w).reshape(1, 1), w.max(0)[0], tt.stack([w, w])[0]):
        twin = pickle.loads(pickle.dumps(computed))
        assert twin.tolist() == computed.tolist() and twin.is_leaf and twin.requires_grad
    (h * h).sum().backward()  # the original is still on the tape
    assert w.grad.tolist() == [8.0, 16.0, 24.0]


def test_a_pickled_view_is_a_tensor_of_its_own():
    base = tt.zeros(4)
    view = base[1:3]
    one, other = pickle.loads(pickle.dumps([base, view]))
    with tt.no_grad():
        one.fill_(1.0)
    factor = tt.tensor(3.0, requires_grad=True)
    one.mul_(factor)  # on the tape: a view of it would follow
    assert other.tolist() == [0.0, 0.0] and not other.requires_grad and one.tolist() == [3.0] * 4
    assert len(pickle.dumps(tt.zeros(10**5)[:2])) < 2000


def test_hooks_of_a_leaf_are_left_out():
    w = tt.ones(2, requires_grad=True)
    w.register_hook(lambda g: g)
    twin = pickle.loads(pickle.dumps(w))
    twin.sum().backward()
    assert twin.grad.tolist() == [1.0, 1.0]


def compute(queue, module, x):
    y = module(x)
    queue.put((y, y.tolist(), module.activations[0] is F.gelu))


def test_a_spawned_process_gets_a_model():
    context, module, x = multiprocessing.get_context("spawn"), Holding(), tt.tensor([1.0, -1.0])
    queue = context.Queue()
    process = context.Process(target=compute, args=(queue, module, x))
    process.start()
    y, values, is_same = queue.get(timeout=300)
    process.join()
    assert process.exitcode == 0 and is_same
    assert y.tolist() == values == module(x).tolist() and y.requires_grad and y.is_leaf


# --- Deepcopy

VIEWS = {
    "itself": lambda b: b,
    "a part": lambda b: b[2:5],
    "every other": lambda b: b[::2],
    "transposed": lambda b: b.reshape(2, 3).t(),
    "expanded": lambda b: b.expand(2, 6),
    "one number": lambda b: b[3],
    "nothing": lambda b: b[3:3],
    "a view of a view": lambda b: b[1:][1:4],
    "detached": lambda b: b[2:5].detach(),
    "its data": lambda b: b[2:5].data,
    "backwards": lambda b: tt.from_numpy(b.numpy()[::-1]),
    "a parameter": lambda b: nn.Parameter(b[2:5]),
    "a buffer": lambda b: nn.Buffer(b[2:5]),
}


def in_gaps() -> tt.Tensor:
    return tt.from_numpy(np.arange(12, dtype=np.float32)[::2] / 2)


def mapped(tmp_path) -> tt.Tensor:
    np.save(tmp_path / "a.npy", np.arange(6, dtype=np.float32))
    return tt.from_numpy(np.load(tmp_path / "a.npy", mmap_mode="c"))


@pytest.mark.parametrize("base_first", [True, False])
@pytest.mark.parametrize("dtype", [tt.float32, tt.float64, tt.int64], ids=str)
@pytest.mark.parametrize("name", VIEWS)
def test_deepcopy_keeps_shared_memory(name, dtype, base_first):
    if name == "a parameter" and dtype is tt.int64:
        dtype = tt.float64
    base = tt.arange(6).to(dtype)
    pair = [base, VIEWS[name](base)]
    twins = copy.deepcopy(pair if base_first else pair[::-1])
    one, other = twins if base_first else twins[::-1]
    assert type(other) is type(pair[1]) and other.requires_grad == pair[1].requires_grad
    assert other.tolist() == pair[1].tolist() and other._data.strides == pair[1]._data.strides
    with tt.no_grad():
        one.add_(10)
    assert (
        other.tolist() == (pair[1].numpy() if name != "a parameter" else pair[1].detach().numpy()).__add__(10).tolist()
    )
    assert base.tolist() == list(range(6))
    first, second = copy.deepcopy([one, other])  # a copy is copied as an original is
    first.zero_()
    assert not second.any() and one.tolist() == list(range(10, 16))


@pytest.mark.parametrize("make", ["with gaps", "mapped"])
def test_deepcopy_of_foreign_memory(make, tmp_path):
    base = in_gaps() if make == "with gaps" else mapped(tmp_path)
    view = base[2:5]
    one, other = copy.deepcopy([base, view])
    assert (one.tolist(), other.tolist()) == (base.tolist(), view.tolist()) == (list(range(6)), [2, 3, 4])
    one.zero_()
    assert other.tolist() == [0, 0, 0] and base.tolist() == list(range(6))


def test_a_change_through_a_copied_view_is_noticed():
    base = tt.ones(4)
    one, other = copy.deepcopy([base, base[1:3]])
    w = tt.ones(4, requires_grad=True)
    y = (w * one).sum()
    other.add_(1)
    with pytest.raises(RuntimeError, match="changed in place"):
        y.backward()


def test_separate_tensors_have_separate_copies():
    a, b = tt.ones(2), tt.ones(2)
    one, other = copy.deepcopy([a, b])
    one.zero_()
    assert other.tolist() == [1.0, 1.0] and a.tolist() == [1.0, 1.0]
    first, second = copy.deepcopy(a), copy.deepcopy(a)
    first.zero_()
    assert second.tolist() == [1.0, 1.0]
