"""What a call says that failed unforeseen: which argument is not what it should be; and what is left as it was."""

import inspect
import types
import warnings
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

import tinytensor as tt
from tests.fuzz.tally import is_sentence
from tinytensor.core.op import Op
from tinytensor.core.registry import REGISTRY
from tinytensor.nn import functional as F
from tinytensor.ops import argument_errors as refusals
from tinytensor.ops.argument_errors import public

X = tt.tensor([[1.0, 2.0], [3.0, 4.0]])

SAID = {
    "a list for a tensor": (lambda: tt.amax([1.0]), "amax: x is [1.0]; expected a tensor: tinytensor.tensor(...) mak"),
    "an array for a tensor": (lambda: F.relu(np.ones(2)), "relu: input is a NumPy array of shape (2,) (float64); expe"),
    "no list of tensors": (lambda: tt.cat(3), "cat: tensors is 3; expected a list or tuple (each element a tensor)"),
    "no tensor in a list": (lambda: tt.cat([X, 3]), "cat: expected a list or tuple of tensors, got int among them"),
    "text for a number": (lambda: X.topk("a"), "topk: k is 'a'; expected a whole number"),
    "nan for a whole number": (lambda: X.tril(float("nan")), "tril: diagonal is nan; expected a whole number"),
    "a tensor for yes or no": (lambda: X.sum(0, keepdim=X), "sum: keepdim is a tensor of shape (2, 2) (float32); expe"),
    "too large for 64 bits": (lambda: X.tril(10**30), f"tril: diagonal is {10**30}, which is too large"),
    "a keyword that is not there": (
        lambda: X.double(a=1),
        "double: got an unexpected keyword argument 'a'; expected (x)",
    ),
    "a number of no dtype": (lambda: tt.tensor([1]).fill_(float("nan")), "fill_: nan can't be stored as int64"),
    "a number too large": (lambda: tt.tensor([1]) + 10**30, f"add: {10**30} is too large for int64"),
    "a float too large": (lambda: X * 10**400, f"mul: {10**400} is too large for float32"),
    "a list before @": (lambda: [1.0] @ X, "matmul: expected two tensors, got list @ Tensor"),
    "lists of two lengths": (lambda: tt.tensor([[1], 2]), "tensor: expected numbers, or lists of them whose rows have"),
    "more than there is memory": (
        lambda: tt.zeros(2**40, 2**40),
        "zeros: sizes (1099511627776, 1099511627776) are mor",
    ),
    "a class": (lambda: tt.sort(X, descending=object), "sort: descending is the class object; expected True or False"),
    "a module's function": (lambda: tt.nn.ReLU6()([1]), "ReLU6: input is [1]; expected a tensor"),
}


@pytest.mark.parametrize("what", SAID)
def test_errors_say_what_was_expected(what):
    call, said = SAID[what]
    with pytest.raises(Exception) as refusal:  # noqa: PT011 (of whatever kind)
        call()
    assert str(refusal.value).startswith(said)
    assert refusal.value.__context__ is None or refusal.value.__suppress_context__  # Python's words are not shown too


def test_functions_name_an_argument_that_is_none():
    """All public functions except formulas, which check their arguments themselves."""
    tried = 0
    for position, function in REGISTRY.items():
        if position.startswith(("Tensor.", "nn.")) or isinstance(function, Op | property):
            continue
        first, *others = inspect.signature(function).parameters.values()
        if first.annotation is not tt.Tensor:
            continue
        needed = [1 for p in others if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD]
        room, _, name = position.rpartition(".")
        wrapper = getattr({"": tt, "F": F, "linalg": tt.linalg}[room], name)
        with pytest.raises((TypeError, RuntimeError), match=r"^\w+: "):
            wrapper({}, *needed)
        tried += 1
    assert tried > 80


def test_missing_memory_is_reported():
    for call, name in ((lambda: tt.zeros(10**15), "zeros"), (lambda: tt.bincount(tt.tensor([10**15])), "bincount")):
        with pytest.raises(MemoryError, match=f"^{name}: there is not enough memory"):
            call()


# --- What is left as it was


def test_error_names_the_called_function():
    """Not an operation that it is made of; every function and method gets whole numbers and truth values."""
    positions = {f"F.{n}": f for n, f in vars(F).items()} | vars(tt)
    positions |= {f"Tensor.{n}": f for n, f in vars(tt.Tensor).items()}
    refused = {}
    for index, function in positions.items():
        name = index.rpartition(".")[2]
        if not isinstance(function, types.FunctionType) or name.startswith("_"):
            continue
        for value in (tt.tensor([[1, 2], [3, 4]]), tt.tensor([[1, 2], [3, 4]]).bool()):
            try:
                function(value)
            except Exception as error:
                refused[index] = str(error).partition(": ")[0]
    assert len(refused) > 100
    message = {index: name for index, name in refused.items() if name in refusals._names()}
    assert {"F.gelu", "F.leaky_relu", "Tensor.std", "F.mish"} <= message.keys()
    for index, name in message.items():
        function = REGISTRY.get(index.rstrip("_"))
        aliases = set() if function is None else refusals._names(function)
        assert name in {index.rpartition(".")[2].rstrip("_"), *aliases}, index


def test_engine_errors_pass_unchanged():
    with pytest.raises(IndexError, match="sum: dim 5 is out of range"):
        X.sum(5)


def test_unexplained_errors_pass_unchanged():
    engines = {"__name__": "tinytensor.of_this_test"}  # as if the function stood in the engine
    exec("def divide(x: int, n: int): return x // n", engines)
    divide = public(engines["divide"])
    assert divide(7, 2) == 3
    with pytest.raises(TypeError, match=r"^divide: n is .a.; expected a whole number$"):
        divide(1, "a")
    with pytest.raises(ZeroDivisionError, match="by zero"):  # a mistake of the engine's must not be talked away
        divide(1, 0)


def test_errors_of_user_functions_pass_unchanged():
    class Index:
        def __index__(self):
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        X.narrow(0, Index(), 1)

    x = X.clone().requires_grad_()
    x.register_hook(lambda g: [].missing)
    with pytest.raises(AttributeError, match="'list' object"):
        x.sum().backward()


def test_public_functions_keep_signature_and_docstring():
    assert list(inspect.signature(tt.topk).parameters)[:3] == ["x", "k", "dim"]
    assert tt.topk.__doc__ == tt.topk.__wrapped__.__doc__
    assert inspect.signature(tt.einsum).parameters["operands"].annotation == tt.Tensor | Sequence


# --- Constructors

# What a class must be given, by the names of the parameters.
GIVEN = {
    **dict.fromkeys(
        ["in_features", "in1_features", "in2_features", "in_channels", "input_size", "num_channels", "num_features"], 2
    ),
    **dict.fromkeys(
        ["out_features", "out_channels", "hidden_size", "num_embeddings", "embedding_dim", "normalized_shape"], 3
    ),
    **dict.fromkeys(("num_groups", "num_layers", "kernel_size"), 1),
    **dict.fromkeys(("embed_dim", "d_model", "nhead", "num_heads"), 4),
    "threshold": 0.1,
    "value": 1.0,
    "dim": 0,
    "unflattened_size": (1, 1),
    "gamma": 0.5,
    "max_lr": 1.0,
    "step_size": 2,
    "milestones": [1, 2],
    "T_max": 3,
    "T_0": 2,
    "warmup": 3,
    "steps": 10,
    "params": lambda: [tt.nn.Parameter(tt.ones(2))],
    "optimizer": lambda: tt.optim.SGD([tt.nn.Parameter(tt.ones(2))], lr=0.1),
    "lr_lambda": lambda: lambda t: 1.0,
    "encoder_layer": lambda: tt.nn.TransformerEncoderLayer(4, 2, 4),
    "decoder_layer": lambda: tt.nn.TransformerDecoderLayer(4, 2, 4),
    "schedulers": lambda: [tt.optim.lr_scheduler.StepLR(GIVEN["optimizer"](), 2)],
}
SMALL = {"d_model": 4, "nhead": 2, "num_encoder_layers": 1, "num_decoder_layers": 1, "dim_feedforward": 4}
WRONG = ["a", b"a", {}, None, object, [1, "a"], [[]], 1j, -1, 10**30, 2.5, float("nan"), np.ones((2, 2)), X, lambda: 0]
BASES = (tt.nn.Module, tt.optim.Optimizer, tt.optim.lr_scheduler.LRScheduler)
CLASSES = {
    f"{module.__name__}.{name}": cls
    for module in (tt.nn, tt.optim, tt.optim.lr_scheduler)
    for name, cls in vars(module).items()
    if isinstance(cls, type)
    and issubclass(cls, BASES)
    and cls not in BASES
    and name not in ("Shape", "SequentialLR", "ChainedScheduler", "_Several")
}


def parameters_of(cls: type) -> list[inspect.Parameter]:
    return [p for p in inspect.signature(cls).parameters.values() if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]


def given_to(cls: type) -> dict:
    options = {p.name: GIVEN.get(p.name) for p in parameters_of(cls) if p.default is p.empty}
    options |= {"OneCycleLR": {"total_steps": 10}, "Transformer": SMALL}.get(cls.__name__, {})
    return {name: value() if callable(value) else value for name, value in options.items()}


def wrong_calls(cls: type):
    """Every parameter made wrong in every way, an unknown one, and none at all."""
    yield from (given_to(cls) | {p.name: wrong} for p in parameters_of(cls) for wrong in WRONG)
    yield given_to(cls) | {"unknown_option": 1}
    yield {}


def refused_badly(cls: type) -> list[str]:
    """What is said of wrong arguments in Python's words or NumPy's; what a given function raises is its own."""
    results = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for call in wrong_calls(cls):
            try:
                cls(**call)
            except Exception as error:
                if not is_sentence(error) and "lr_lambda" not in call:
                    results.append(f"{call}: {type(error).__name__}: {error}")
    return results


@pytest.mark.parametrize("name", CLASSES)
def test_constructors_name_wrong_arguments(name):
    if not issubclass(CLASSES[name], tt.nn.ModuleList | tt.nn.Sequential):  # they hold whatever they are given
        CLASSES[name](**given_to(CLASSES[name]))  # what is given must do
    assert refused_badly(CLASSES[name]) == []


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: tt.nn.Linear("a", 2), "Linear: in_features is 'a'; expected a whole number"),
        (lambda: tt.nn.Linear(2), "Linear: missing a required argument: 'out_features'; expected (in_features, out_f"),
        (lambda: tt.nn.GRU("a", 2), "GRU: input_size is 'a'; expected a whole number"),
        (
            lambda: tt.nn.LayerNorm("a"),
            "LayerNorm: normalized_shape is 'a'; expected a whole number or a list or tuple",
        ),
        (lambda: tt.nn.Transformer(d_model="a"), "Transformer: d_model is 'a'; expected a whole number"),
        (lambda: tt.optim.SGD([X], lr="a"), "SGD: lr is 'a'; expected a number"),
        (lambda: tt.optim.Adam(3), "Adam: params is 3; expected a list of parameters or of groups"),
        (lambda: tt.optim.lr_scheduler.StepLR(GIVEN["optimizer"](), "a"), "StepLR: step_size is 'a'; expected a whol"),
        (lambda: tt.nn.CrossEntropyLoss(smooth=1), "CrossEntropyLoss: unknown arguments ['smooth']; expected ["),
    ],
)
def test_constructor_error_names_the_argument(call, said):
    with pytest.raises(TypeError) as refusal:
        call()
    assert str(refusal.value).startswith(said)


def test_unchecked_constructor_is_noticed():
    class Half(tt.nn.Module):  # a user's: nothing is told in its place
        def __init__(self, size: int):
            super().__init__()
            self.size = size / 2

    result = refused_badly(Half)
    assert any("unsupported operand" in message for message in result) and len(CLASSES) > 60


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: tt.nn.GRU(2, 3, num_layers=10**30), "GRU: num_layers is 10000.*expected 100,000 or less"),
        (lambda: tt.nn.TransformerEncoder(tt.nn.TransformerEncoderLayer(4, 2, 4), 10**30), "TransformerEncoder: num_l"),
        (lambda: tt.ones(2, 0).reshape(0, 10**30), "reshape: shape is 10000.*too large"),
        (lambda: tt.linspace(0, 1, 10**30), "linspace: steps is 10000.*too large"),
        (
            lambda: tt.linspace(-np.inf, 2, 4),
            "linspace: no even steps lead from -inf to 2; expected two finite numbers",
        ),
        (lambda: tt.logspace(0, np.nan, 4), "logspace: no even steps lead from 0 to nan"),
        (lambda: tt.logspace(1j, 2, 4), "logspace: start is 1j; expected a number"),
        (lambda: tt.logspace(0, 3, 4, dtype=np.ones((2, 3))), "dtype: tensors are float32"),
        (
            lambda: tt.randint(3, (1, "a"), (5,)),
            r"randint: expected whole numbers for low and high, got 3 and",
        ),
        (lambda: tt.randint(0, 10**30, (5,), dtype=tt.float32), "randint: 9999.*is no number of int64"),
        (lambda: () in tt.ones(2), r"in: expected a number or a tensor of one element, got \(\)"),
        (lambda: tt.tensordot(tt.tensor(2.0), tt.tensor(3.0), (0, 0)), r"tensordot: shapes \(\) and \(\) do not have"),
        (lambda: tt.where(tt.ones(0) > 0, tt.ones(0), 1j), "where: expected a tensor or a number, got 1j"),
        (lambda: tt.where(tt.ones(0) > 0, tt.ones(0), "a"), "where: expected a tensor or a number, got 'a'"),
        (lambda: tt.ones(2).logit(True), "logit: nothing lies between eps and 1 - eps if eps is True"),
        (
            lambda: F.scaled_dot_product_attention(*[tt.ones(1, 2)] * 3, scale=np.inf),
            "scale must be finite, got inf",
        ),
    ],
)
def test_wrong_numbers_are_refused_before_work_begins(call, said):
    with pytest.raises((TypeError, ValueError, RuntimeError, OverflowError), match=said) as refusal:
        call()
    assert is_sentence(refusal.value)


def test_deleting_elements_is_refused():
    x = tt.ones(2)
    with pytest.raises(TypeError, match="del: elements of a tensor can't be deleted"):
        del x[0]


def assign(x, name, value):
    setattr(x, name, value)


TRACKED = tt.ones(2, requires_grad=True)
NO_VALUES = {  # what NumPy or Python would take, or refuse in words of their own: (call, error, sentence)
    "text as a number": (lambda x: tt.tensor("3", dtype=tt.float32), TypeError, "tensor: expected numbers"),
    "texts as numbers": (lambda x: tt.tensor(["3", 4], dtype=tt.int64), TypeError, "tensor: expected numbers"),
    "None as NaN": (lambda x: tt.tensor([1.0, None], dtype=tt.float64), TypeError, "tensor: expected numbers"),
    "None as False": (lambda x: tt.as_tensor(None, dtype=tt.bool), TypeError, "tensor: expected numbers"),
    "a dict as False": (lambda x: tt.tensor({}, dtype=tt.bool), TypeError, "tensor: expected numbers"),
    "an object as True": (lambda x: tt.tensor([object()], dtype=tt.bool), TypeError, "tensor: expected numbers"),
    "an array of text": (lambda x: tt.tensor(np.array(["3"]), dtype=tt.float32), TypeError, "an array of <U1"),
    "an array of None": (lambda x: tt.tensor(np.array([None]), dtype=tt.float32), TypeError, "got None"),
    "a date": (lambda x: tt.tensor(np.datetime64("2020-01-01"), dtype=tt.int64), TypeError, "an array of datetime64"),
    "a constructor of text": (lambda x: tt.FloatTensor(["3"]), TypeError, "expected numbers"),
    "None as elements": (lambda x: x.__setitem__(0, None), TypeError, "expected numbers"),
    "text as elements": (lambda x: x.__setitem__(0, "3"), TypeError, "expected numbers"),
    "text as a truth": (lambda x: x.logical_and("a"), TypeError, "logical_and: expected a tensor or a number, got 'a'"),
    "None as a truth": (lambda x: tt.logical_xor(None, x), TypeError, "logical_xor: expected a tensor or a number"),
    "half a decimal": (lambda x: x.round(decimals=1.5), TypeError, "round: decimals must be a whole number, got 1.5"),
    "where without a": (
        lambda x: tt.where(x > 0, None, x),
        TypeError,
        "where: expected a tensor or a number, got None",
    ),
    "grad": (lambda x: assign(x, "grad", np.ones(2)), TypeError, "grad: expected a tensor or None, got ndarray"),
    "data": (lambda x: assign(x, "data", 5), TypeError, "data: expected a tensor, got int"),
    "requires_grad": (lambda x: assign(x, "requires_grad", "no"), TypeError, "expected True or False, got 'no'"),
    "retain_grad": (lambda x: x.retain_grad(), RuntimeError, "retain_grad: this tensor does not require grad"),
    "stride": (lambda x: x.stride(9), IndexError, "stride: 9 is no dimension of shape"),
    "set_num_threads": (lambda x: tt.set_num_threads("a"), TypeError, "set_num_threads: expected a whole number"),
    "inputs of grad": (lambda x: tt.autograd.grad(TRACKED.sum(), "a"), TypeError, "grad: inputs: .*got str among them"),
    "outputs of grad": (lambda x: tt.autograd.grad([1], TRACKED), TypeError, "grad: outputs: .*got int among them"),
    "inputs of backward": (lambda x: TRACKED.sum().backward(inputs=["a"]), TypeError, "backward: inputs: .*got str"),
    "backward of text": (lambda x: tt.autograd.backward(["a"]), TypeError, "backward: tensors: .*got str"),
    "a gradient": (lambda x: (TRACKED * 2).backward(np.ones(2)), TypeError, "to start from must be a tensor, got nd"),
}


@pytest.mark.parametrize("name", NO_VALUES)
def test_what_is_no_value_is_refused(name):
    call, error, sentence = NO_VALUES[name]
    x = tt.tensor([1.0, 2.0])
    with pytest.raises(error, match=sentence):
        call(x)
    assert x.tolist() == [1.0, 2.0] and x.grad is None and not x.requires_grad


def test_numbers_of_other_classes_are_values():
    assert tt.tensor([Fraction(1, 2), Decimal(2), np.float32(3)], dtype=tt.float64).tolist() == [0.5, 2.0, 3.0]
    assert tt.tensor(range(3)).tolist() == [0, 1, 2] and tt.tensor(np.array([Fraction(1, 2)]), dtype=tt.float32) == 0.5
    x = tt.tensor([1.0, 0.0])
    assert x.logical_and(np.float64(2)).tolist() == [True, False] and x.round(decimals=np.int64(0)).tolist() == [1, 0]
