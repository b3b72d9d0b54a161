"""What print() shows: programs for `torch` and `tinytensor` alike, under options of set_printoptions.

`generate_printing.py` runs them in PyTorch and stores the texts; tests/test_printing.py compares.
"""

import re

import numpy as np


def numbers(*shape, scale=1.0, seed=0):
    """Values of both signs, as a list."""
    return (scale * np.random.RandomState(seed).standard_normal(shape)).tolist()


def powers(first, last):
    """The powers of ten between two exponents, with signs that alternate."""
    return [(-1) ** n * 10.0**n for n in range(first, last + 1)]


SHAPES = [(5,), (3, 4), (2, 3, 2), (2, 1, 2, 3), (40,), (3, 17), (2001,), (7, 300), (4, 9, 30), (1, 1), (1200, 1)]

VALUES = {
    **{f"a float, {x!r}": f"lib.tensor({x!r})" for x in (7.5, 7.0, 0.0, -0.0, 1e8, 1e9, 1.5e8, 1e-4, 9e-5, 0.1, -3.25)},
    **{f"a float64, {x!r}": f"lib.tensor({x!r}, dtype=lib.float64)" for x in (1 / 3, 1e300, 5e-324, 123456.789)},
    **{f"an int, {x!r}": f"lib.tensor({x!r})" for x in (3, -12, 2**62)},
    **{f"a bool, {x!r}": f"lib.tensor({x!r})" for x in (True, False)},
    **{f"not finite, {x}": f"lib.tensor(float({x!r}))" for x in ("nan", "inf", "-inf")},
    "nan among whole numbers": "lib.tensor([1.0, float('nan'), -20.0])",
    "infinities among fractions": "lib.tensor([0.5, float('inf'), -float('inf'), 100.25])",
    "only zeros and nan": "lib.tensor([0.0, float('nan'), -0.0])",
    "infinities and large": "lib.tensor([1e10, float('inf'), 1.0])",
    "zeros": "lib.zeros(2, 3)",
    "negative zero among others": "lib.tensor([-0.0, 1.0, 10.0])",
    "negative zero among fractions": "lib.tensor([-0.0, 1.5, 10.0])",
    "large whole numbers": "lib.tensor([1e8, 123456789.0])",
    "whole numbers far apart": "lib.tensor([1.0, 1000.0, 1001.0])",
    "whole numbers at the limit": "lib.tensor([1.0, 1000.0])",
    "fractions at the limit": "lib.tensor([1e-4, 0.05])",
    "fractions far apart": "lib.tensor([0.5, 501.0])",
    "tiny": "lib.tensor([1e-4, 9.9e-5])",
    "rounded up": "lib.tensor([0.99999, 9.99999])",
    **{f"powers of ten, {a} to {b}": f"lib.tensor({powers(a, b)!r})" for a, b in ((-2, 2), (0, 8), (0, 3), (-6, -3))},
    "uint8": "lib.tensor([0, 255], dtype=lib.uint8)",
    "int32": "lib.tensor([[1, -200], [30, 4]], dtype=lib.int32)",
    "int64, both signs": "lib.tensor([[1, -200], [30, 4]])",
    "bools": "lib.tensor([[True, False], [False, False]])",
    "float64": "lib.tensor([1.0, 2.5], dtype=lib.float64)",
    "dtype without room": "lib.tensor(numbers(9), dtype=lib.float64)",
    "dtype in the last place": "lib.arange(25, dtype=lib.int32)",
    **{f"arange({n})": f"lib.arange({n})" for n in (1, 17, 1000, 1001)},
    **{f"normal {shape}": f"lib.tensor(numbers(*{shape}))" for shape in SHAPES},
    **{f"large {shape}": f"lib.tensor(numbers(*{shape}, scale=1e5))" for shape in SHAPES[:4]},
    **{f"whole {shape}": f"lib.tensor(numbers(*{shape}, scale=50)).round()" for shape in SHAPES},
    **{f"integers {shape}": f"lib.tensor(numbers(*{shape}, scale=1e3)).long()" for shape in SHAPES},
    **{f"signs {shape}": f"lib.tensor(numbers(*{shape})) > 0" for shape in SHAPES[:6]},
    "empty": "lib.tensor([])",
    "empty matrix": "lib.zeros(0, 3)",
    "empty inside": "lib.zeros(2, 0, 3)",
    "empty int64": "lib.tensor([]).long()",
    "empty bools": "lib.zeros(0, 2) > 0",
    "empty float64": "lib.zeros(0, dtype=lib.float64)",
    "empty that requires grad": "lib.zeros(0, 2, requires_grad=True)",
    "requires grad": "lib.tensor([1.0, 2.0], requires_grad=True)",
    "float64 that requires grad": "lib.tensor([[1.5]], dtype=lib.float64, requires_grad=True)",
    "requires grad without room": "lib.tensor(numbers(6), requires_grad=True)",
    "result": "lib.tensor([1.0, 2.0], requires_grad=True) * 2",
    "one number that is a result": "(lib.tensor([1.5, 2.0], requires_grad=True) * 2).sum()",
    "detached": "(lib.tensor([1.0, 2.0], requires_grad=True) * 2).detach()",
    "view": "lib.arange(12).reshape(3, 4).T[1:]",
    "parameter": "lib.nn.Parameter(lib.tensor([[1.0, 0.5]]))",
    "shape alone": "lib.zeros(2, 3, device='meta')",
    "shape alone, int64": "lib.zeros(2, dtype=lib.int64, device='meta')",
}

# "narrow" has no room for a suffix in any line, however long the names of the library and of grad_fn are
OPTIONS = {
    "default": {},
    "precision 2": {"precision": 2},
    "precision 0": {"precision": 0},
    "exponents": {"sci_mode": True},
    "no exponents": {"sci_mode": False},
    "narrow": {"linewidth": 24},
    "few": {"threshold": 5, "edgeitems": 1},
    "short": {"profile": "short"},
}


def shown(lib, option: str, value: str) -> str:
    """The text of a value, with `lib.` for the library's name, and grad_fn= without the name that it gives."""
    lib.set_printoptions(profile="default")
    lib.set_printoptions(**OPTIONS[option])
    try:
        text = repr(eval(VALUES[value], {"lib": lib, "numbers": numbers}))
    finally:
        lib.set_printoptions(profile="default")
    return re.sub(r"grad_fn=<\w+>", "grad_fn=<>", text.replace(f"{lib.__name__}.", "lib."))
