"""Operators with operands that are no tensors: NumPy's count as tensors and numbers, other classes have their turn."""

import operator
from collections import deque

import numpy as np
import pytest

import tinytensor as tt

ARITHMETIC = ["add", "sub", "mul", "matmul", "truediv", "floordiv", "mod", "pow", "lshift", "rshift"]
ARITHMETIC += ["and", "or", "xor"]
COMPARISONS = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "eq": "eq", "ne": "ne"}
OPERATORS = [*ARITHMETIC, *COMPARISONS]
WHOLE, FLOATS = tt.tensor([1, 2, 3]), tt.tensor([1.0, 2.0, 3.0])


def function(name: str):
    return getattr(operator, f"__{name}__")


class Other:
    """A class that takes a tensor at its left, and says which of its methods was called."""


for _name in OPERATORS:
    _reflected = f"__{COMPARISONS[_name]}__" if _name in COMPARISONS else f"__r{_name}__"
    setattr(Other, _reflected, lambda self, x, _called=_reflected: (_called, x))


@pytest.mark.parametrize("x", [WHOLE, FLOATS, tt.ones(3, requires_grad=True), tt.ones(3, device="meta")])
def test_a_class_with_the_operator_is_asked(x):
    other = Other()
    for name in OPERATORS:
        called, operand = function(name)(x, other)
        assert operand is x and called in (f"__r{name}__", f"__{COMPARISONS.get(name)}__"), name
    for name in ARITHMETIC if not x.requires_grad and not x.is_meta else ():
        called, operand = function(f"i{name}")(x, other)
        assert operand is x and called == f"__r{name}__", name


@pytest.mark.parametrize("other", [None, object(), {1}, [1.0], "a", type("Left", (), {"__add__": Other.__radd__})()])
def test_without_the_operator_the_sentence_is_ours(other):
    for name in ("add", "sub", "matmul", "lt"):
        for call in (function(name), getattr(operator, f"__i{name}__", function(name))):
            with pytest.raises(TypeError, match=r"expected t|unsupported|not supported"):
                call(FLOATS.clone(), other)
    with pytest.raises(TypeError, match="add: expected tensors or numbers, got "):
        FLOATS + other
    for x, y in ((FLOATS, other), (other, WHOLE)):
        assert (x == y) is False and (x != y) is True


class Refusing:
    def __radd__(self, x):
        return NotImplemented


@pytest.mark.parametrize(
    ("program", "result"),
    [
        ("[0] * n", [0, 0, 0]),
        ("n * [0]", [0, 0, 0]),
        ("(1, 2) * (n - 1)", (1, 2, 1, 2)),
        ("'ab' * n", "ababab"),
        ("[7] * (5 - n)", [7, 7]),
        ("[7] * (n - 5)", []),
        ("[7] * tt.tensor([2])", [7, 7]),
        ("[7] * tt.tensor(True)", [7]),
        ("[7] * tt.tensor(2, dtype=tt.uint8)", [7, 7]),
        ("deque([1]) * n", deque([1, 1, 1])),
        ("operator.iadd([0], v)", [0, 1, 2]),  # Python's list takes the elements
        ("operator.imul([0], n)", [0, 0, 0]),
        ("[0] * f", "mul: expected tensors or numbers, got list"),
        ("f * [0]", "mul: expected tensors or numbers, got list"),
        ("[0] * v", "mul: expected tensors or numbers, got list"),
        ("[0] + n", "can only concatenate list"),
        ("n + [0]", "add: expected tensors or numbers, got list"),
        ("n + Refusing()", "unsupported operand"),
        ("n @ 2", "matmul: expected two tensors, got Tensor @ int; use \\* for numbers"),
        ("n << 'a'", "bitwise_left_shift: expected whole numbers, got int64 and 'a'"),
        ("range(v)", "only integer tensors of one element .* int64 of shape \\(2,\\)"),
        ("[1, 2][f]", "only integer tensors of one element .* float32 of shape \\(\\)"),
    ],
)
def test_lists_are_repeated(program, result):
    names = {"n": tt.tensor(3), "v": tt.tensor([1, 2]), "f": tt.tensor(2.0), "operator": operator, "tt": tt}
    names |= {"deque": deque, "Refusing": Refusing}
    if isinstance(result, str) and " " in result:
        with pytest.raises(TypeError, match=result):
            eval(program, names)
    else:
        assert eval(program, names) == result


OPERANDS = [np.float64(2), np.float32(2), np.int64(2), np.array(2.0), np.array(2), np.array([2, 1, 2])]
OPERANDS += [np.array([2.0, 1.0, 2.0]), np.array([2.0, 1.0, 2.0], np.float32), np.array([[2], [1], [3]])]
OPERANDS += [np.array([True, False, True]), np.bool_(True)]


def outcome(name: str, a, b) -> tuple:
    """The result of an operator, or its error."""
    try:
        result = function(name)(a, b)
    except (RuntimeError, TypeError) as error:
        return type(error), str(error).partition(":")[0]
    assert type(result) is tt.Tensor
    return result.dtype, repr(result.tolist())  # NaN is NaN there


@pytest.mark.parametrize("operand", OPERANDS, ids=repr)
@pytest.mark.parametrize("x", [WHOLE, FLOATS, tt.tensor([True, False, True])], ids=["whole", "floats", "bools"])
def test_results_with_numpy_are_those_with_tensors(operand, x):
    ours = tt.tensor(operand) if isinstance(operand, np.ndarray) else operand.item()
    results = 0
    for name in OPERATORS:
        for one, other in (((x, operand), (x, ours)), ((operand, x), (ours, x))):
            result, expected = outcome(name, *one), outcome(name, *other)
            assert result == expected, (name, one)
            results += isinstance(expected[0], tt.dtype)
        if name in ARITHMETIC:
            assert outcome(f"i{name}", x.clone(), operand) == outcome(f"i{name}", x.clone(), ours), name
    assert results >= 12  # comparisons at least


def test_gradients_pass_through_operators_with_arrays():
    for name in ("add", "sub", "mul", "truediv", "pow", "matmul", "mod"):
        x, y = tt.tensor([1.5, 2.5], requires_grad=True), tt.tensor([1.5, 2.5], requires_grad=True)
        array = np.array([2.0, 3.0], np.float32)
        function(name)(array, x).sum().backward()
        function(name)(tt.tensor(array), y).sum().backward()
        assert x.grad.tolist() == y.grad.tolist(), name


def test_change_in_place_stays_in_place():
    x = tt.tensor([1.0, 2.0])
    view, before = x[:1], x
    x += np.array([1.0, 1.0])
    x *= np.float64(2)
    assert x is before and view.tolist() == [4.0] and x.dtype == tt.float32
    array = held = np.ones(2)
    array += x
    assert array is held and array.tolist() == [5.0, 7.0]
