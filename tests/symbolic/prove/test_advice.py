"""The errors of `prove`: the operation, the value that came, the expected one, the user's line, what to do."""

import linecache
import math
import re
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest

import tinytensor as tt
import tinytensor.nn.functional as F
from tinytensor import nn
from tinytensor.symbolic import prove
from tinytensor.symbolic.prove.advice import HELP

STRANGER = tt.ones(3, requires_grad=True)


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 2)

    def forward(self, x):
        return self.layer(x).argmax(-1)


class Frozen(Classifier):
    def forward(self, x):
        with tt.no_grad():
            return self.layer(x)


class Detached(Classifier):
    def forward(self, x):
        y = self.layer(x).detach()
        return y.sum()


class Attribute(Classifier):
    def forward(self, x):
        return (self.layer(x).sum() * STRANGER).sum()


def forgets_to_return(x):
    x.exp()


def drawn(x):
    return tt.bernoulli(x.sigmoid())


def two_of_them(x):
    biggest = x.detach().max()  # this one is no matter
    return (x > biggest), biggest


GRADIENT = "prove: the function's result has no gradient: it is "
ENDS = {  # what is proved, on which shapes: what came, and by which line
    "argmax": (lambda x: x.argmax(), (3,), "a tensor of int64 and shape () (test_advice.py, line N: lambda"),
    "a Module": (Classifier(), (2, 3), "shape (2,) (test_advice.py, line N: return self.layer(x).argmax(-1))"),
    "no_grad": (Frozen(), (2, 3), "and shape (2, 2) (test_advice.py, line N: return self.layer(x)"),
    "detach": (Detached(), (2, 3), "a tensor of exact numbers and shape (); expected a tensor"),
    "a comparison, and another result": (
        two_of_them,
        (3,),
        "a tensor of bool and shape (3,) and a tensor of exact numbers and shape () "
        "(test_advice.py, line N: return (x > biggest), biggest)",
    ),
    "random numbers": (drawn, (3,), "shape (3,) (test_advice.py, line N: return tt.bernoulli(x.sigmoid()))"),
    "no return": (forgets_to_return, (3,), "None; expected a tensor"),
    "an object": (lambda x: {"loss": SimpleNamespace(of=x.exp())}, (3,), "of type SimpleNamespace; "),
    "an object beside a tensor": (lambda x: (x.exp(), {x}), (3,), "of type set; "),
    "a number": (lambda x: 3.0, (3,), "it is 3.0; "),
    "an operation of ours": (
        tt.argmax,
        (3,),
        "a tensor of int64 and shape () (test_advice.py, line N: prove(fn, *inputs, size=size))",
    ),
}


def error_of(fn, *inputs, size="small"):
    with pytest.raises((ValueError, TypeError, RuntimeError, AttributeError)) as caught:
        prove(fn, *inputs, size=size)
    return str(caught.value), "\n".join(getattr(caught.value, "__notes__", []))


@pytest.mark.parametrize("size", ["small", "real"])
@pytest.mark.parametrize("what", ENDS)
def test_error_names_where_the_gradient_ends(what, size):
    fn, shape, came = ENDS[what]
    message, _ = error_of(fn, shape, size=size)
    assert message.startswith(GRADIENT) and came in re.sub(r"line \d+", "line N", message)
    assert "What to do: leave detach()" in message
    if number := re.search(r"line (\d+): (.*)\); expected", message):
        assert linecache.getline(__file__, int(number[1])).strip() == number[2]


def test_functions_with_another_gradient_path_are_proved():
    """The control: these do the same as those refused above, and also return a differentiable tensor."""
    assert prove(lambda x: (x.argmax(), x.max()), (3,))
    assert prove(lambda x: x * (x > 0), (3,))
    assert prove(lambda x: x.sum() if x.sum().item() > 0 else -x.sum(), (3,))


CONVERSIONS = {
    "float": (lambda x: x.float().sum(), "an exact scalar is not rounded"),
    "long": (lambda x: x.long() * 2, "an exact scalar is no index or count"),
    "math": (lambda x: math.exp(x[0].item()) * x, "an exact scalar is not rounded"),
    "tolist": (lambda x: tt.tensor((x * 2).tolist()), "tensor: values of object are not stored; expected float32"),
    "numpy": (lambda x: tt.tensor(np.exp(x.detach().numpy())), "tensor: values of object are not stored"),
    "indices": (
        lambda x: F.embedding(x, tt.ones(4, 2)),
        "embedding: expected an integer tensor of indices, got object",
    ),
}


@pytest.mark.parametrize("size", ["small", "real"])
@pytest.mark.parametrize("what", CONVERSIONS)
def test_unsupported_scalar_operations_give_advice(what, size):
    fn, expected = CONVERSIONS[what]
    message, notes = error_of(fn, (3,), size=size)
    assert expected in message
    assert "prove: in test_advice.py, line " in notes and "lambda x: " in notes
    assert HELP in notes


@pytest.mark.parametrize(
    ("fn", "expected"),
    [
        (lambda x: x.lu(), "Tensor.lu: PyTorch has it, tinytensor does not"),
        (lambda x: x @ tt.ones(4), "matmul: (3,) @ (4,): the inner sizes 3 and 4 must be equal"),
        (lambda x: x.add_(1), "in place: this is (a view of) a tensor that requires grad"),
        (lambda x: None.sum(), "'NoneType' object has no attribute 'sum'"),
    ],
)
def test_error_of_the_function_names_its_line(fn, expected):
    message, notes = error_of(fn, (3,))
    assert expected in message
    assert "prove: in test_advice.py, line " in notes
    assert HELP not in notes


@pytest.mark.parametrize("size", ["small", "real"])
@pytest.mark.parametrize("fn", [Attribute(), lambda x: (x.sum() * STRANGER).sum()])
def test_a_tensor_from_elsewhere_is_named(fn, size):
    message, notes = error_of(fn, (3, 3), size=size)
    assert (
        "prove: mul reads a tensor of shape (3,) that requires grad and is no input; give it as an input, " in message
    )
    assert "STRANGER).sum()" in notes


def two(x, y):
    return x @ y


@pytest.mark.parametrize("size", ["small", "real"])
@pytest.mark.parametrize(
    ("fn", "inputs", "expected"),
    [
        (
            tt.tanh,
            [2],
            "prove: no input has a gradient: x is 2; expected a shape as one tuple, (2, 3), for a tensor of",
        ),
        (
            two,
            [3.0, None],
            "prove: no input has a gradient: x is 3.0, y is None; expected a shape as one tuple, (2, 3)",
        ),
        (two, [np.ones(3), [1.0]], "x is of type ndarray, y is of type list"),
        (two, [tt.ones(3), "y"], "x is a tensor of float32 and shape (3,), y is 'y'"),
        (3, [(2, 2)], "prove: fn is 3; expected a function, an operation or a Module, and its inputs behind it"),
    ],
)
def test_invalid_inputs_are_refused(fn, inputs, expected, size):
    assert expected in error_of(fn, *inputs, size=size)[0]


PROMPT = """
import tinytensor as tt
from tinytensor.symbolic import prove
def lost(x):
    y = x * 2
    return y.{}
prove(lost, (3,))
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("ending", "expected"),
    [("argmax()", "shape () (<typed>, line 6, in lost); "), ("float()", "prove: in <typed>, line 6, in lost")],
)
def test_function_without_source_is_named(ending, expected):
    """Code whose text Python does not keep, such as that of `exec`."""
    program = f"exec(compile({PROMPT.format(ending)!r}, '<typed>', 'exec'))"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert run.returncode == 1
    assert expected in run.stderr


def test_code_of_a_notebook_is_shown():
    """In a notebook linecache has the cells' code."""
    code = "def lost(x):\n    return x.argmax()\n"
    linecache.cache["<cell 3>"] = (len(code), None, code.splitlines(True), "<cell 3>")
    scope = {}
    exec(compile(code, "<cell 3>", "exec"), scope)
    assert "shape () (<cell 3>, line 2: return x.argmax())" in error_of(scope["lost"], (3,))[0]
