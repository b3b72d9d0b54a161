"""What a call says that failed unforeseen: which argument is not what it should be; and what is left as it was."""

import inspect
from collections.abc import Sequence

import numpy as np
import pytest

import tinytensor as tt
from tinytensor.appearances import APPEARANCES
from tinytensor.form import Op
from tinytensor.nn import functional as F
from tinytensor.refusals import public

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
def test_what_is_said(what):
    call, said = SAID[what]
    with pytest.raises(Exception) as refusal:  # noqa: PT011 (of whatever kind)
        call()
    assert str(refusal.value).startswith(said)
    assert refusal.value.__context__ is None or refusal.value.__suppress_context__  # Python's words are not shown too


def test_every_function_of_tensors_names_a_tensor_that_is_none():
    """All that is handed out, but operations, which are formulas: those look at their arguments themselves."""
    tried = 0
    for place, function in APPEARANCES.items():
        if place.startswith(("Tensor.", "nn.")) or isinstance(function, Op | property):
            continue
        first, *others = inspect.signature(function).parameters.values()
        if first.annotation is not tt.Tensor:
            continue
        needed = [1 for p in others if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD]
        handed_out = getattr(F if place.startswith("F.") else tt, place.removeprefix("F."))
        with pytest.raises((TypeError, RuntimeError), match=r"^\w+: "):
            handed_out({}, *needed)
        tried += 1
    assert tried > 80


# ------------------------------------------------------------------------------------- what is left as it was


def test_an_error_of_the_engine_stays_as_it_is():
    with pytest.raises(IndexError, match="sum: dim 5 is out of range"):
        X.sum(5)


def test_an_error_that_no_argument_explains_stays_as_it_is():
    engines = {"__name__": "tinytensor.of_this_test"}  # as if the function stood in the engine
    exec("def divide(x: int, n: int): return x // n", engines)
    divide = public(engines["divide"])
    assert divide(7, 2) == 3
    with pytest.raises(TypeError, match=r"^divide: n is .a.; expected a whole number$"):
        divide(1, "a")
    with pytest.raises(ZeroDivisionError, match="by zero"):  # a mistake of the engine's must not be talked away
        divide(1, 0)


def test_what_a_users_function_raises_is_the_users():
    class Index:
        def __index__(self):
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        X.narrow(0, Index(), 1)

    x = X.clone().requires_grad_()
    x.register_hook(lambda g: [].missing)
    with pytest.raises(AttributeError, match="'list' object"):
        x.sum().backward()


def test_what_is_handed_out_tells_its_own_signature_and_name():
    assert list(inspect.signature(tt.topk).parameters)[:3] == ["x", "k", "dim"]
    assert tt.topk.__doc__ == tt.topk.__wrapped__.__doc__
    assert inspect.signature(tt.einsum).parameters["operands"].annotation == tt.Tensor | Sequence
