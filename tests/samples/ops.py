"""The one table of op samples: good inputs and error inputs, for `torch` and `tinytensor` alike.

A sample names a callable by its path (several spellings of the same thing may follow one another) and gives
its arguments as small specs, from which `Call` builds tensors of the library that is passed in:

    S("Tensor.sum sum", T(2, 3, 4), dim=(0, 2))       # x.sum(dim=(0, 2)) and lib.sum(x, dim=(0, 2))
    S("operator.add", 2, T(3))                        # 2 + x
    E("matmul", T(3, 4), T(5, 6), raises=RuntimeError, match=("matmul", (3, 4), (5, 6)))

The values are drawn from a generator seeded by the sample's own text: they do not depend on the order of the
table. They are rounded to float32, so that a float32 run sees exactly the inputs of the float64 run.
"""

import importlib
import operator
import re
import zlib
from functools import cache
from math import inf, nan
from types import EllipsisType

import numpy as np

ORACLE = "float64"  # the dtype that PyTorch's stored values and gradients were computed in


# --- specs: how a tensor argument is made ---------------------------------------------------------------


class Spec:
    """A tensor to be: shape, range or values, dtype ("float" is the dtype of the run), and how it lies in memory."""

    def __init__(self, name, shape, options, *, values=None, layout="", low=-2.0, high=2.0, dtype="float", grad=None):
        self.shape, self.values, self.layout, self.dtype = shape, values, layout, dtype
        self.low, self.high = low, high
        self.grad = (dtype.startswith("float") and values is None) if grad is None else grad
        parts = [repr(values)] if values is not None else [str(n) for n in shape]
        self.text = f"{name}({', '.join(parts + [f'{k}={v}' for k, v in options.items()])})"

    def __repr__(self):
        return self.text

    @cache  # noqa: B019 (the table of samples lives as long as its tests)
    def array(self, seed: int, real: str) -> np.ndarray:
        """The array that `arrange` turns into the tensor of the wanted shape; a tensor copies it."""
        dtype = real if self.dtype == "float" else self.dtype
        if self.values is not None:
            return np.array(self.values, dtype=dtype)
        shape = list(self.shape)
        if self.layout == "transposed":
            shape[-2:] = shape[:-3:-1]
        elif self.layout == "strided":
            shape[-1] *= 2
        elif self.layout == "offset":
            shape[0] += 1
        elif self.layout == "expanded":
            shape[0] = 1
        # RandomState's stream is frozen by NumPy's policy; default_rng's is not.
        u = np.asarray(np.random.RandomState(seed).random_sample(tuple(shape)))
        if dtype == "bool":
            return u < 0.5
        x = self.low + (self.high - self.low) * u
        if self.layout in ("regular", "definite"):
            x = x + 3 * np.eye(*shape[-2:])
        return (np.floor(x) if dtype.startswith("int") else x.astype("float32")).astype(dtype)

    def arrange(self, x):
        """Views (or a copy) of the leaf, made by the library's own methods."""
        if self.layout == "transposed":
            return x.transpose(-1, -2)
        if self.layout == "strided":
            return x[..., ::2]
        if self.layout == "offset":
            return x[1:]
        if self.layout == "expanded":
            return x.expand(*self.shape)
        if self.layout == "clone":
            return x.clone()
        if self.layout == "definite":
            return x @ x.transpose(-1, -2)
        return x


def T(*shape, **options):
    """A float tensor with a gradient, uniform in [low, high) = [-2, 2)."""
    return Spec("T", shape, options, **options)


def TR(*shape, **options):
    """T, but the transpose of a contiguous tensor."""
    return Spec("TR", shape, options, layout="transposed", **options)


def STRIDED(*shape, **options):
    """T, but every second number of a tensor twice as long in its last dimension."""
    return Spec("STRIDED", shape, options, layout="strided", **options)


def OFFSET(*shape, **options):
    """T, but without the first row of a longer tensor."""
    return Spec("OFFSET", shape, options, layout="offset", **options)


def EXPANDED(*shape, **options):
    """T, but with stride 0 in the first dimension."""
    return Spec("EXPANDED", shape, options, layout="expanded", **options)


def CLONE(*shape, **options):
    """T, but not a leaf: what in-place operations may write to."""
    return Spec("CLONE", shape, options, layout="clone", **options)


def REGULAR(*shape, **options):
    """T, but matrices with 3 added to their diagonal: far from singular."""
    return Spec("REGULAR", shape, options, layout="regular", low=-1.0, high=1.0, **options)


def DEFINITE(*shape, **options):
    """T, but matrices A A^T of regular ones: symmetric and positive definite."""
    return Spec("DEFINITE", shape, options, layout="definite", low=-1.0, high=1.0, **options)


def I(*shape, high=5, low=0, dtype="int64", **options):  # noqa: E743
    """An integer tensor, uniform in low ... high - 1."""
    text = {"high": high} | ({"low": low} if low else {}) | ({"dtype": dtype} if dtype != "int64" else {}) | options
    return Spec("I", shape, text, high=high, low=low, dtype=dtype, grad=False, **options)


def B(*shape, **options):
    """A bool tensor."""
    return Spec("B", shape, options, dtype="bool", grad=False, **options)


def C(values, **options):
    """A tensor of the given values: float unless dtype says otherwise, without a gradient unless grad=True."""
    return Spec("C", None, options, values=values, **options)


def INT(values):
    """An int64 tensor of the given values."""
    return Spec("INT", None, {}, values=values, dtype="int64")


def BOOL(values):
    """A bool tensor of the given values."""
    return Spec("BOOL", None, {}, values=values, dtype="bool")


class DT:
    """A dtype of the library."""

    def __init__(self, name):
        self.name = name

    def __repr__(self):
        return self.name


# --- samples --------------------------------------------------------------------------------------------


class Sample:
    """One call: paths (spellings of the same call), arguments, and what the tests may do with it."""

    def __init__(self, group, paths, args, kwargs):
        self.group, self.paths, self.args, self.kwargs = group, paths.split(), args, kwargs
        shown = [_show(a) for a in args] + [f"{k}={_show(v)}" for k, v in kwargs.items()]
        self.id = f"{self.paths[0]}({', '.join(shown)})"
        self.differences = True  # may finite differences be taken? (not at a kink, not at NaN)
        self.second = True  # of the gradient, too?
        self.is_random = False  # only shape and dtype are comparable

    def __repr__(self):
        return self.id

    def kink(self):
        """The gradient is compared with PyTorch's, but finite differences have no meaning here."""
        self.differences = self.second = False
        return self

    def once(self):
        """No second derivative is taken: it does not exist, or it is too long to wait for."""
        self.second = False
        return self

    def large(self):
        """Too many numbers for finite differences."""
        self.differences = self.second = False
        return self

    def random(self):
        """The values are drawn: only shape and dtype are compared."""
        self.is_random = True
        return self.kink()


class Error:
    """One call that must raise one of `raises`, with a sentence in which all of `match` is found.

    `match` is a regular expression or several of them; a shape or an int stands for itself.
    """

    def __init__(self, path, args, kwargs, raises, match, torch_accepts):
        shown = [_show(a) for a in args] + [f"{k}={_show(v)}" for k, v in kwargs.items()]
        self.id = f"{path}({', '.join(shown)})"
        self.paths, self.args, self.kwargs = [path], args, kwargs
        self.raises, self.torch_accepts = raises, torch_accepts
        match = match if isinstance(match, tuple) else (match,)
        self.match = [_pattern(part) for part in match]

    def __repr__(self):
        return self.id


def _pattern(part) -> str:
    if isinstance(part, str):
        return part
    if isinstance(part, int):
        return rf"(?<![\w.-]){part}\b"
    return re.escape(str(part)).replace(",\\)", ",?\\)")  # (3,) may be written (3)


def _show(value):
    if isinstance(value, slice):
        return f"slice({value.start},{value.stop},{value.step})"
    if isinstance(value, EllipsisType):
        return "..."
    if isinstance(value, (list, tuple)):
        inside = ", ".join(_show(v) for v in value)
        return f"[{inside}]" if isinstance(value, list) else f"({inside})"
    return repr(value)


SAMPLES: list[Sample] = []
ERRORS: list[Error] = []
_group = ""


def group(name):
    """The samples that follow are stored in oracle/<name>.safetensors."""
    global _group
    _group = name


def S(paths, *args, **kwargs):
    """Add a sample to the table."""
    SAMPLES.append(Sample(_group, paths, args, kwargs))
    return SAMPLES[-1]


def E(path, *args, raises, match, torch_accepts=False, **kwargs):
    """Add an error input to the table; `torch_accepts` marks what PyTorch lets pass and tinytensor refuses."""
    ERRORS.append(Error(path, args, kwargs, raises, match, torch_accepts))


# --- running a sample ----------------------------------------------------------------------------------


def _walk(function, tree):
    """`function` on every spec and dtype of nested lists, tuples and dicts; the rest stays."""
    if isinstance(tree, (Spec, DT)):
        return function(tree)
    if isinstance(tree, dict):
        return {k: _walk(function, v) for k, v in tree.items()}
    if isinstance(tree, (list, tuple)):
        return type(tree)(_walk(function, v) for v in tree)
    return tree


def _seed(*parts) -> int:
    return zlib.crc32("/".join(map(str, parts)).encode())


def is_in_place(path: str) -> bool:
    head, _, name = path.partition(".")
    if head == "operator":
        return name == "setitem" or (name[0] == "i" and hasattr(operator, f"__{name[1:]}__"))  # iadd, iand ...
    return head == "Tensor" and (name == "__setitem__" or (name.endswith("_") and not name.endswith("__")))


def is_tensor(lib, value) -> bool:
    return isinstance(value, lib.Tensor)


def dtype_name(value) -> str:
    """float32 for a tensor of that dtype, "python int" for an int."""
    if not hasattr(value, "dtype"):
        return f"python {type(value).__name__}"
    return str(value.dtype).rpartition(".")[2]


def to_array(value) -> np.ndarray:
    return np.asarray(value.detach().numpy() if hasattr(value, "detach") else value)


def _flatten(lib, value) -> list:
    if isinstance(value, (list, tuple)):
        return [leaf for v in value for leaf in _flatten(lib, v)]
    return [value]


def _invoke(lib, path: str, args, kwargs):
    head, _, name = path.partition(".")
    if head == "operator":
        return getattr(operator, name)(*args, **kwargs)
    if head == "Tensor":
        attribute = getattr(args[0], name)
        return attribute(*args[1:], **kwargs) if callable(attribute) else attribute  # x.T has no brackets
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(f"{lib.__name__}.{module}") if module else lib, name)(*args, **kwargs)


class Call:
    """A sample made ready for a library and a float dtype: `call()` gives the list of its outputs."""

    def __init__(self, lib, sample, real=ORACLE):
        self.lib, self.sample = lib, sample
        self.leaves, self.specs = [], []
        _walk(lambda spec: self._add(spec, real), [sample.args, sample.kwargs])
        self.inputs = [x for x, spec in zip(self.leaves, self.specs, strict=True) if spec.grad]

    def _add(self, spec, real):
        if isinstance(spec, Spec):
            array = spec.array(_seed(self.sample.id, len(self.leaves)), real)
            dtype = getattr(self.lib, str(array.dtype))
            self.leaves.append(self.lib.tensor(array, dtype=dtype, requires_grad=spec.grad))
            self.specs.append(spec)

    def shared(self, outputs: list) -> list[list[int]]:
        """Of each output: the numbers of the tensors that were given whose memory it shares."""

        def memory(x):
            return x.untyped_storage().data_ptr() if hasattr(x, "untyped_storage") else x.data_ptr() and to_array(x)

        def same(x, y):
            if not (is_tensor(self.lib, y) and x.numel() and y.numel()):
                return False
            x, y = memory(x), memory(y)
            return x == y if isinstance(x, int) else np.may_share_memory(x, y)

        return [[i for i, x in enumerate(self.leaves) if same(x, y)] for y in outputs]

    def __call__(self, *inputs, path=None):
        """The outputs; `inputs` takes the place of the tensors that require a gradient."""
        arguments = iter(inputs or self.inputs)
        leaves = iter(
            [(next(arguments) if spec.grad else x, spec) for x, spec in zip(self.leaves, self.specs, strict=True)]
        )

        def build(spec):
            if isinstance(spec, DT):
                return getattr(self.lib, spec.name)
            x, spec = next(leaves)
            return spec.arrange(x)

        args, kwargs = _walk(build, [self.sample.args, self.sample.kwargs])
        path = path or self.sample.paths[0]
        result = _invoke(self.lib, path, args, kwargs)
        return _flatten(self.lib, args[0] if is_in_place(path) else result)

    def differentiable(self, *inputs) -> tuple:
        """The outputs that carry a gradient: what gradcheck looks at."""
        return tuple(y for y in self(*inputs) if is_tensor(self.lib, y) and y.requires_grad)

    def vjp(self, outputs, create_graph=False) -> list:
        """Gradients of all inputs for a fixed random cotangent; None where an output does not depend on one."""
        outputs = [y for y in outputs if is_tensor(self.lib, y) and y.requires_grad]
        if not outputs or not self.inputs:
            return [None] * len(self.inputs)
        cotangents = []
        for i, y in enumerate(outputs):
            u = np.random.RandomState(_seed(self.sample.id, "cotangent", i)).random_sample(tuple(y.shape))
            array = np.asarray(2 * u - 1).astype("float32")
            cotangents.append(self.lib.tensor(array, dtype=y.dtype))
        grads = self.lib.autograd.grad(outputs, self.inputs, cotangents, create_graph=create_graph, allow_unused=True)
        return list(grads)


# --- comparing -----------------------------------------------------------------------------------------

# The samples are sums of at most some hundred terms of size about 1, so that rounding reaches some 100 units in
# the last place (2.2e-16, 1.2e-7) where terms cancel. Functions like exp and erf differ by a few units between
# libraries. Both bounds leave a factor of ten or more, and are far below what a wrong formula gives.
TOLERANCE = {"float64": 1e-12, "float32": 2e-5}


def difference(got: np.ndarray, expected: np.ndarray, tolerance: float) -> str:
    """ "" if the arrays agree (shape, NaN, infinities, and numbers within the tolerance), else what differs."""
    got, expected = np.asarray(got), np.asarray(expected)
    if got.shape != expected.shape:
        return f"shape {got.shape}, expected {expected.shape}"
    if got.size == 0:
        return ""
    if not np.issubdtype(expected.dtype, np.floating):
        return "" if np.array_equal(got, expected) else f"got\n{got}\nexpected\n{expected}"
    got, expected = got.astype("float64"), expected.astype("float64")
    finite = np.isfinite(expected)
    # infinities with their sign, NaN where NaN is expected
    if not np.array_equal(np.where(finite, 0.0, expected), np.where(np.isfinite(got), 0.0, got), equal_nan=True):
        return f"got\n{got}\nexpected\n{expected}"
    got, expected = got[finite], expected[finite]
    scale = max(1.0, np.abs(expected).max(initial=0.0))
    worst = np.abs(got - expected).max(initial=0.0)
    return (
        ""
        if worst <= tolerance * scale
        else f"off by {worst:.2e} (scale {scale:.2e}): got\n{got}\nexpected\n{expected}"
    )


def gradient_difference(got: list, expected: list, tolerance: float) -> str:
    """The same for a list of gradients, in which None stands for zeros."""
    for i, (g, e) in enumerate(zip(got, expected, strict=True)):
        if g is None and e is None:
            continue
        g = np.zeros_like(e) if g is None else g
        e = np.zeros_like(g) if e is None else e
        message = difference(g, e, tolerance)
        if message:
            return f"gradient of input {i}: {message}"
    return ""


def message_matches(error: Error, raised: BaseException) -> bool:
    return all(re.search(pattern, str(raised)) for pattern in error.match)


# --- the table: elementwise ------------------------------------------------------------------------------

SPECIAL = [nan, inf, -inf, 0.0, -0.0, 1.0, -1.0, 0.5]
PAIRS = [((3, 4), (3, 4)), ((3, 4), (4,)), ((2, 1, 4), (3, 1)), ((), (3,)), ((), ()), ((0,), (1,)), ((2, 0, 3), (3,))]

group("arithmetic")
for name, low in (("add", -2.0), ("sub", -2.0), ("mul", -2.0), ("truediv", 0.5)):
    method = {"truediv": "div"}.get(name, name)
    spellings = f"operator.{name} Tensor.{method} {method}"
    for a, b in PAIRS:
        S(spellings, T(*a), T(*b, low=low))
    S(spellings, TR(3, 4), STRIDED(3, 4, low=low))
    S(spellings, OFFSET(3, 4), EXPANDED(3, 4, low=low))
    S(spellings, EXPANDED(2, 3, 4), T(3, 1, low=low))
    S(f"operator.{name} Tensor.{method}", T(2, 3), 2)
    S(f"operator.{name} Tensor.{method}", T(2, 3), 0.75)
    S(f"operator.{name} Tensor.{method}", T(), -3)
    S(f"operator.{name}", 2, T(2, 3, low=low))
    S(f"operator.{name}", -1.5, STRIDED(2, 3, low=low))
    if name != "sub":  # PyTorch refuses to subtract bools
        S(f"operator.{name}", True, T(3, low=low))
        S(spellings, B(3, 4), T(4, low=low))
        S(spellings, B(3), I(3, low=1))
    # the kinds and sizes of numbers meet: int, bool, float, Python's own
    S(spellings, I(3, 4), I(4, low=1))
    S(spellings, I(3, dtype="int32"), I(3, low=1, high=6))
    S(spellings, I(3, dtype="int32"), I(3, low=1, high=6, dtype="int32"))
    S(spellings, I(3, 4), T(3, 4, low=low))
    S(spellings, T(3, 4), I(4, low=1))
    S(spellings, I(3), C(2.5))
    S(spellings, I(3), C(2.5, dtype="float64"))
    S(spellings, T(3, dtype="float32"), T(3, dtype="float64", low=low))
    S(spellings, T(3, dtype="float32"), C(2.0, dtype="float64"))
    S(spellings, T(3, dtype="float64"), C(2.0, dtype="float32"))
    S(f"operator.{name}", I(3), 2)
    S(f"operator.{name}", I(3), 2.5)
    S(f"operator.{name}", 7, I(3, low=1))
    S(f"operator.{name}", 0.5, I(3, low=1))
    S(f"operator.{name}", I(3, dtype="int32"), 2)
    S(f"operator.{name}", I(), 2.5)
    S(f"operator.{name}", I(0), 2.5)
    S(f"operator.{name}", C(SPECIAL, grad=True), C([[inf], [-inf], [0.0], [2.0]], grad=True)).kink()
    S(f"operator.{name}", C([nan, inf, -inf, -0.0], grad=True), 0).kink()
    E(f"operator.{name}", T(3, 4), T(2, 5), raises=RuntimeError, match=(method, (3, 4), (2, 5)))
    E(f"operator.{name}", T(3, 4), T(3), raises=RuntimeError, match=(method, (3, 4), (3,)))
    E(f"operator.{name}", T(0), T(3), raises=RuntimeError, match=(method, (0,), (3,)))
    E(f"operator.{name}", T(3, 4), "two", raises=TypeError, match=r"two|str")
    E(f"operator.{name}", T(3, 4), None, raises=TypeError, match=r"None")
S("operator.add", B(3), B(3))
S("operator.mul", B(3), B(3))
S("operator.truediv", B(3), BOOL([True, True, True]))
S("operator.add", B(3), 1)
S("operator.add", B(3), 1.5)
S("operator.mul", B(3), True)
S("operator.truediv", C([-7, 7, -7, 7]), C([2, 2, -2, -2]))
S("operator.truediv", INT([1, -1, 0]), 0)
S("Tensor.add add", T(2, 3), T(3), alpha=-0.5)
S("Tensor.sub sub", T(2, 3), T(3), alpha=3)
S("Tensor.add", I(3), I(3), alpha=2)
E("operator.sub", B(3), I(3), raises=RuntimeError, match=("sub", "bool"))
E("operator.sub", B(3), B(3), raises=RuntimeError, match=("sub", "bool"))
E("Tensor.neg", B(3), raises=RuntimeError, match=("neg", "bool"))
E("Tensor.add", T(3), T(3), beta=2, raises=TypeError, match=("add", "beta"))

INTS = INT([-7, -6, -1, 0, 1, 6, 7])
for name in ("floordiv", "mod"):
    method = {"floordiv": "floor_divide", "mod": "remainder"}[name]
    spellings = f"operator.{name} Tensor.{method} {method}"
    for divisor in (3, -3, 1):
        S(spellings, INTS, divisor)
        S(spellings, INTS, C([divisor], dtype="int64"))
    S(spellings, INTS, 2.5)
    S(spellings, C([-7.0, -6.5, -1.0, -0.0, 0.5, 6.0, 7.5]), 2)
    S(spellings, C([-7.0, -6.5, -1.0, 0.0, 0.5, 6.0, 7.5]), -2.5)
    S(spellings, T(3, 4, grad=False), T(4, low=0.5, grad=False))
    S(spellings, STRIDED(3, 4, grad=False), T(3, 1, low=-1.5, high=-0.5, grad=False))
    S(spellings, T(0, grad=False), 2)
    S(spellings, T(grad=False), 0.75)
    S(f"operator.{name}", 7, INT([-3, -2, 2, 3]))
    S(f"operator.{name}", -7.5, C([-3.0, -2.0, 2.0, 3.0]))
    S(spellings, C([1.0, -1.0, 0.0, nan, inf, -inf]), 0.0)
    S(spellings, C([1.0, -1.0, 0.0, nan]), inf)
    E(f"operator.{name}", I(3), 0, raises=RuntimeError, match=(method, r"(zero|\b0\b)"))
    E(f"operator.{name}", T(3, 4), T(5), raises=RuntimeError, match=(method, (3, 4), (5,)))
S("operator.mod Tensor.remainder remainder", T(3, 4), 0.75)
S("operator.mod Tensor.remainder remainder", T(3, 4), T(4, low=0.5))

group("power")
POSITIVE = T(3, 4, low=0.2)
for exponent in (2, 3, -1, 0.5, -0.5, 1.7, 1, 0):
    S("operator.pow Tensor.pow pow", POSITIVE, exponent)
for exponent in (0, 1, 2, 3, -1, -2):
    S("operator.pow Tensor.pow", T(5), exponent)
    S("operator.pow Tensor.pow", C([-1.5, -1.0, 2.0], grad=True), C(float(exponent)))
S("operator.pow", T(), 2)
S("operator.pow", T(0, 3), 2)
S("operator.pow", STRIDED(2, 3), 2)
S("operator.pow", TR(2, 3), 3)
S("operator.pow", 2, T(2, 3))
S("operator.pow", 0.5, T(2, 1, 3))
S("operator.pow", 1, T(3))
for a, b in PAIRS:
    S("operator.pow Tensor.pow pow", T(*a, low=0.3), T(*b))
S("operator.pow", TR(2, 3, low=0.3), EXPANDED(2, 3))
S("operator.pow", C([-2.0, -3.0], grad=True), C([2.0, 3.0], grad=True)).kink()  # log of a negative base: NaN
S("operator.pow", C([0.0, 0.0, 0.0], grad=True), C([0.0, 1.0, 2.0], grad=True)).kink()
S("operator.pow", C([0.0, -0.0, 2.0], grad=True), -1).kink()
S("operator.pow", C(SPECIAL, grad=True), 0).kink()
S("operator.pow", C(SPECIAL, grad=True), 2).kink()
S("operator.pow", C(SPECIAL, grad=True), 0.5).kink()
S("operator.pow", C(SPECIAL), C([[0.0], [1.0], [inf], [-inf], [nan], [-1.0]]))
S("operator.pow", 0, C([0.0, 1.0, 2.0, -1.0], grad=True)).kink()
S("operator.pow", I(3, low=-3), 2)
S("operator.pow", I(3, low=-3), 3)
S("operator.pow", I(3, low=1), 0.5)
S("operator.pow", I(3, low=-3), INT([0, 1, 2]))
S("operator.pow", 2, I(3))
S("operator.pow", 2.5, I(3))
S("operator.pow", I(3, dtype="int32"), 2)
S("operator.pow", T(3, dtype="float32"), 2)
E("operator.pow", I(3), -1, raises=RuntimeError, match=("pow", "negative"))
E("operator.pow", T(2, 3), T(4), raises=RuntimeError, match=("pow", (2, 3), (4,)))

group("comparison")
for name in ("eq", "ne", "lt", "le", "gt", "ge"):
    spellings = f"operator.{name} Tensor.{name} {name}"
    for a, b in PAIRS:
        S(spellings, T(*a), T(*b))
    S(spellings, TR(3, 4), STRIDED(3, 4))
    S(spellings, I(3, 4, high=3), I(4, high=3))
    S(spellings, I(5, high=3), 1)
    S(spellings, I(5, high=3), 1.5)
    S(spellings, I(5, high=3), C([0.0, 1.0, 2.0, 0.5, 1.5]))
    S(spellings, T(5), 0)
    S(spellings, T(), 0.5)
    S(spellings, B(5), B(5))
    S(spellings, B(5), True)
    S(spellings, C(SPECIAL), C([[nan], [inf], [-0.0], [1.0]]))
    S(f"operator.{name}", 1, I(5, high=3))
    E(f"operator.{name}", T(3, 4), T(5), raises=RuntimeError, match=(name, (3, 4), (5,)))
for name, method in (("and_", "logical_and"), ("or_", "logical_or"), ("xor", "logical_xor")):
    S(f"operator.{name} Tensor.{method} {method}", B(3, 4), B(4))
    S(f"operator.{name} Tensor.{method} {method}", B(0), B(1))
    S(f"operator.{name}", B(3), True)
    S(f"operator.{name}", I(6, high=8), I(6, high=8))
    S(f"Tensor.{method} {method}", T(3, grad=False), C([0.0, 1.0, nan]))
S("operator.invert Tensor.logical_not logical_not", B(3, 4))
S("operator.invert", I(4, low=-3))
S("Tensor.logical_not logical_not", C([0.0, 2.0, -0.0, nan]))
for name in ("isnan", "isinf", "isfinite"):
    S(f"Tensor.{name} {name}", C(SPECIAL))
    S(f"Tensor.{name} {name}", I(3))
    S(f"Tensor.{name} {name}", T(0, 2))
S("allclose", C([1.0, 2.0]), C([1.0, 2.0000001]))
S("allclose", C([1.0, nan]), C([1.0, nan]))
S("Tensor.allclose", C([1.0, nan]), C([1.0, nan]), equal_nan=True)
S("equal Tensor.equal", C([1.0, 2.0]), C([1.0, 2.0]))
S("equal Tensor.equal", C([1.0, 2.0]), C([1.0]))
E("operator.and_", T(3), T(3), raises=(RuntimeError, TypeError), match=("and", "float"))
E("operator.invert", T(3), raises=(RuntimeError, TypeError), match=("(not|invert)", "float"))

group("unary")
UNARY = {  # name: spellings, range
    "exp": ("Tensor.exp exp", -2.0, 2.0),
    "log": ("Tensor.log log", 0.2, 3.0),
    "sqrt": ("Tensor.sqrt sqrt", 0.2, 3.0),
    "rsqrt": ("Tensor.rsqrt rsqrt", 0.2, 3.0),
    "log1p": ("Tensor.log1p log1p", -0.8, 3.0),
    "expm1": ("Tensor.expm1 expm1", -2.0, 2.0),
    "tanh": ("Tensor.tanh tanh nn.functional.tanh", -3.0, 3.0),
    "sigmoid": ("Tensor.sigmoid sigmoid nn.functional.sigmoid", -4.0, 4.0),
    "sin": ("Tensor.sin sin", -4.0, 4.0),
    "cos": ("Tensor.cos cos", -4.0, 4.0),
    "erf": ("Tensor.erf erf", -3.0, 3.0),
    "relu": ("Tensor.relu relu nn.functional.relu", -2.0, 2.0),
    "silu": ("nn.functional.silu", -4.0, 4.0),
    "gelu": ("nn.functional.gelu", -4.0, 4.0),
    "abs": ("Tensor.abs abs operator.abs", -2.0, 2.0),
    "neg": ("operator.neg Tensor.neg neg", -2.0, 2.0),
    "sign": ("Tensor.sign sign", -2.0, 2.0),
}
for name, (spellings, low, high) in UNARY.items():
    S(spellings, T(3, 5, low=low, high=high))
    S(spellings, T(low=low, high=high))
    S(spellings, T(0, 3, low=low, high=high))
    S(spellings, TR(2, 3, 4, low=low, high=high))
    S(spellings, STRIDED(7, low=low, high=high))
    S(spellings, OFFSET(2, 3, low=low, high=high))
    S(spellings, EXPANDED(3, 4, low=low, high=high))
    S(spellings, T(33, low=low, high=high)).once()  # longer than a vector register, with a rest
    # PyTorch's gelu is NaN at inf in float32 and inf in float64
    S(spellings, C([x for x in SPECIAL if name != "gelu" or abs(x) != inf], grad=True)).kink()
    S(spellings, T(5, low=low, high=high, dtype="float32"))
    if not spellings.startswith("nn."):  # PyTorch refuses integers there
        S(spellings, I(4, low=0 if name in ("log", "log1p", "sqrt", "rsqrt") else -3))
        S(spellings, I(4, low=0 if name in ("log", "log1p", "sqrt", "rsqrt") else -3, dtype="int32"))
for name in ("exp", "log", "sqrt", "tanh", "sigmoid", "sin"):
    S(f"Tensor.{name}", B(3))
for x in ([-200.0, -104.0, -87.0, 88.0, 89.0, 200.0], [1e-30, 1e30, -1e30, 1e38]):  # the ends of float32
    for name in ("exp", "tanh", "sigmoid", "erf", "relu", "silu", "gelu"):
        S(UNARY[name][0], C(x, dtype="float32"))
S("nn.functional.gelu", T(3, 5, low=-4.0, high=4.0), approximate="tanh")
S("nn.functional.gelu", STRIDED(3, 5), approximate="tanh")
S("nn.functional.gelu", T(0), approximate="tanh")
S("nn.functional.gelu", T(33, low=-4.0, high=4.0), approximate="tanh").once()
S("nn.functional.gelu", C(SPECIAL, grad=True), approximate="tanh").kink()
S("nn.functional.gelu", T(3), approximate="none")
E(
    "nn.functional.gelu",
    T(3),
    approximate="erf",
    raises=(RuntimeError, ValueError),
    match=("gelu", "erf", "(none|tanh)"),
)
E("Tensor.exp", T(3), 2, raises=TypeError, match=r"exp")
E("Tensor.log", T(3), base=2, raises=TypeError, match=("log", "base"))

group("activations")
ACTIVATIONS = (
    *("leaky_relu", "softplus", "elu", "celu", "selu", "hardtanh", "relu6", "hardswish", "mish", "softsign"),
    "logsigmoid",
)
for name in ACTIVATIONS:
    name = f"nn.functional.{name}"
    S(name, T(3, 5, low=-4.0, high=4.0))
    S(name, T())
    S(name, T(0, 3))
    S(name, TR(2, 3))
    S(name, STRIDED(7))
    S(name, T(33, low=-4.0, high=4.0)).once()
    S(name, T(5, dtype="float32"))
    S(name, C([-100.0, -30.0, 30.0, 100.0], grad=True)).kink()
    if not name.endswith(("hardswish", "mish", "softsign", "relu6")):  # NaN at infinity, or 0 at NaN
        S(name, C([x for x in SPECIAL if abs(x) != inf or "hard" not in name], grad=True)).kink()
S("nn.functional.hardsigmoid", T(2, 3, low=3.5, high=4.5))
S("nn.functional.hardsigmoid", T(3, 5, low=-4.0, high=4.0, grad=False))
S(
    "nn.functional.hardsigmoid", T(3, 5, low=-4.0, high=4.0, dtype="float32")
)  # in PyTorch's float64 gradient 1/6 has 32 bits
S("nn.functional.hardsigmoid", C([nan, -3.0, 3.0]))
S("nn.functional.leaky_relu", T(3, 4), 0.2)
S("nn.functional.leaky_relu", T(3, 4), negative_slope=-0.5)
S("nn.functional.leaky_relu", CLONE(3, 4), inplace=True)
S("nn.functional.softplus", T(3, 4), 2.0, 1.0)
S("nn.functional.elu", T(3, 4), 0.5)
S("nn.functional.elu", CLONE(3, 4), inplace=True)
S("nn.functional.celu", T(3, 4), 0.5)
S("nn.functional.hardtanh", T(3, 4), -0.5, 1.0)
S("nn.functional.hardtanh", C([-1.0, 0.0, 1.0], grad=True)).kink()  # at the bound the gradient does not pass
S("nn.functional.relu6", T(3, 4, low=-2.0, high=9.0))
S("nn.functional.prelu", T(2, 3, 2), T(3))
S("nn.functional.prelu", T(2, 3), T(1))
S("nn.functional.prelu", T(4), T(1))
S("nn.functional.glu", T(3, 4))
S("nn.functional.glu", T(4, 3), dim=0)
S("nn.functional.softmin", T(3, 4), dim=1)
E("nn.functional.glu", T(3, 3), raises=RuntimeError, match=("glu", (3, 3)))
E("nn.functional.prelu", T(2, 3), T(2), raises=RuntimeError, match=("prelu", (2,), 3))
E("nn.functional.hardtanh", T(3), 1.0, -1.0, raises=ValueError, match=("hardtanh", r"-1\.0"))

group("clamp_where")
for name in ("maximum", "minimum"):
    for a, b in PAIRS:
        S(f"Tensor.{name} {name}", T(*a), T(*b))
    S(f"Tensor.{name} {name}", TR(3, 4), STRIDED(3, 4))
    S(f"Tensor.{name} {name}", C([1.0, 2.0, 2.0], grad=True), C([1.0, 2.0, 3.0], grad=True)).kink()  # halves
    S(f"Tensor.{name} {name}", C(SPECIAL, grad=True), C([[nan], [inf], [0.0]], grad=True)).kink()
    S(f"Tensor.{name} {name}", I(5), I(5))
    S(f"Tensor.{name} {name}", I(5), T(5))
    S(f"Tensor.{name} {name}", B(3), B(3))
    E(name, T(2, 3), T(4), raises=RuntimeError, match=(name, (2, 3), (4,)))
S("max Tensor.max", T(3, 4), T(4))
S("min Tensor.min", T(3, 4), T(4))

S("Tensor.clamp clamp", T(3, 5), -1.0, 0.5)
S("Tensor.clamp clamp", T(3, 5), min=-0.5)
S("Tensor.clamp clamp", T(3, 5), max=0.25)
S("Tensor.clamp clamp", T(3, 5), -1)
S("Tensor.clamp clamp", T(), -1.0, 1.0)
S("Tensor.clamp clamp", T(0, 2), -1.0, 1.0)
S("Tensor.clamp clamp", STRIDED(3, 4), -1.0, 1.0)
S("Tensor.clamp clamp", T(4), 1.0, -1.0)  # min > max: max everywhere
S("Tensor.clamp clamp", C([-1.0, 0.0, 1.0], grad=True), -1.0, 1.0).kink()  # at the bound the gradient passes
S("Tensor.clamp clamp", C(SPECIAL, grad=True), -0.75, 0.75).kink()
S("Tensor.clamp clamp", C(SPECIAL, grad=True), min=0.0).kink()
S("Tensor.clamp clamp", C([0.5, nan], grad=True), min=nan).kink()
S("Tensor.clamp clamp", I(6, low=-5), -2, 3)
S("Tensor.clamp clamp", I(6, low=-5), -1.5, 3)
S("Tensor.clamp clamp", I(6, low=-5), min=0)
S("Tensor.clamp clamp", T(3, 5), T(5, low=-1.5, high=-0.5), T(3, 1, low=0.5, high=1.5))
S("Tensor.clamp clamp", T(3, 5), min=T(5, low=-1.0, high=0.0))
S("Tensor.clamp clamp", T(3, 5), max=T(3, 1, low=-1.0, high=1.0))
E("clamp", T(3), raises=(RuntimeError, ValueError), match=("clamp", "min", "max"))
E("Tensor.clamp", T(3), minimum=1, raises=TypeError, match=("clamp", "minimum"))

S("where", B(3, 4), T(3, 4), T(3, 4))
S("where", B(3, 1), T(4), T(2, 1, 1))
S("where", B(), T(3), T())
S("where", B(0), T(0), T(1))
S("where", B(3), T(3), 0.0)
S("where", B(3), 1.5, T(3))
S("where", B(3), T(3), 0)
S("where", B(3), I(3), 7)
S("where", B(3), I(3), 0.5)
S("where", B(3), I(3), T(3))
S("where", B(3), T(3, dtype="float32"), C(0.0, dtype="float64"))
S("where", B(3), 1.0, 0.0)
S("where", B(3), 1, 0)
S("where", TR(3, 4, dtype="bool"), TR(3, 4), STRIDED(3, 4))
S("where", BOOL([True, False, True]), C([1.0, nan, inf], grad=True), C([nan, 2.0, nan], grad=True)).kink()
S("Tensor.where", T(3, 4), B(4), T(3, 1))
S("Tensor.where", T(3, 4), B(4), 0.0)
E("where", T(3), T(3), T(3), raises=RuntimeError, match=("where", "(condition|bool)"))
E("where", B(2), T(3), T(3), raises=RuntimeError, match=("where", (2,), (3,)))

S("Tensor.masked_fill masked_fill", T(3, 4), B(3, 4), -1.5)
S("Tensor.masked_fill masked_fill", T(2, 3, 4), B(3, 1), -inf).kink()
S("Tensor.masked_fill masked_fill", T(2, 3, 4), B(4), 0)
S("Tensor.masked_fill masked_fill", STRIDED(3, 4), TR(3, 4, dtype="bool"), 0.5)
S("Tensor.masked_fill masked_fill", T(3, 4), B(3, 4), T())
S("Tensor.masked_fill masked_fill", T(3), B(2, 3), 2.0)
S("Tensor.masked_fill masked_fill", T(), B(), 2.0)
S("Tensor.masked_fill masked_fill", T(0, 3), B(3), 2.0)
S("Tensor.masked_fill masked_fill", I(5), B(5), -100)
E(
    "Tensor.masked_fill",
    T(3),
    I(3),
    0.0,
    raises=RuntimeError,
    match=("masked_fill|where", "bool", "int64"),
)
E(
    "Tensor.masked_fill",
    T(3),
    B(4),
    0.0,
    raises=RuntimeError,
    match=("masked_fill|where", (4,), (3,)),
)
E("Tensor.masked_fill", T(3), B(3), T(3), raises=RuntimeError, match=("masked_fill", r"(0-d|one number|\(3,?\))"))

# --- the table: reductions -------------------------------------------------------------------------------

group("reduction")
DIMS = [{}, {"dim": 0}, {"dim": -1}, {"dim": 1, "keepdim": True}, {"dim": (0, 2)}, {"dim": (-1, 0), "keepdim": True}]
for name in ("sum", "mean", "var", "std", "amax", "amin", "logsumexp"):
    spellings = f"Tensor.{name} {name}"
    for dims in DIMS:
        if not (name == "logsumexp" and not dims):
            S(spellings, T(2, 3, 4), **dims)
    if name in ("var", "std"):
        S(spellings, T()).kink()  # NaN
    elif name != "logsumexp":
        S(spellings, T())
    if name != "logsumexp":
        S(spellings, T(3, 4), dim=None)
        S(spellings, TR(2, 3, 4))
    S(spellings, TR(2, 3, 4), dim=1)
    S(spellings, STRIDED(3, 4), dim=0)
    S(spellings, EXPANDED(3, 4), dim=0).kink()
    S(spellings, OFFSET(3, 4), dim=(0, 1))
    S(spellings, T(2, 0, 3), dim=0)
    S(spellings, T(5, 33), dim=-1).large()
    S(spellings, T(33, 5), dim=0).large()
    S(spellings, T(4), 0)
    S(spellings, T(2, 3), 1, True)
    S(spellings, T(3, dtype="float32"), dim=0)
    S(spellings, C([[nan, 1.0], [inf, 1.0], [-inf, 1.0], [inf, -inf], [1.0, 1.0]]), dim=1)
    S(spellings, C([[nan, 1.0], [1.0, 1.0]], grad=True), dim=1).kink()
    words = "std|var" if name == "std" else name
    E(f"Tensor.{name}", T(3, 4), dim=2, raises=IndexError, match=(words, 2))
    E(f"Tensor.{name}", T(3, 4), dim=-3, raises=IndexError, match=(words, -3))
    E(
        f"Tensor.{name}",
        T(3, 4),
        dim=(0, -2),
        raises=RuntimeError,
        match=(words, "twice|repeated|more than once|multiple"),
    )
for name in ("sum", "mean"):
    S(f"Tensor.{name} {name}", T(0))
    S(f"Tensor.{name} {name}", T(2, 0, 3), dim=1)
    S(f"Tensor.{name} {name}", T(2, 0), dim=(0, 1), keepdim=True)
    S(f"Tensor.{name} {name}", T(3, 4), 0, False)
    S(f"Tensor.{name} {name}", T(3, 4), dim=(1,))
    S(f"Tensor.{name} {name}", T(3, 4, dtype="float32"), dtype=DT("float64"))
    S(f"Tensor.{name} {name}", I(3, 4), dim=0, dtype=DT("float32"))
S("Tensor.sum sum", I(3, 4, low=-4))
S("Tensor.sum sum", I(3, 4, low=-4), dim=1)
S("Tensor.sum sum", I(3, dtype="int32"), dim=0)
S("Tensor.sum sum", B(3, 4))
S("Tensor.sum sum", B(3, 4), dim=-1)
S("Tensor.sum sum", T(4, 5, 6, 2), dim=(1, 3)).once()
E("Tensor.mean", I(3), raises=RuntimeError, match=("mean", "int64"))
E("Tensor.mean", B(3), raises=RuntimeError, match=("mean", "bool"))

S("Tensor.prod prod", T(5))
S("Tensor.prod prod", T(2, 3))
S("Tensor.prod prod", T(2, 3, 4), dim=1)
S("Tensor.prod prod", T(2, 3, 4), dim=-1, keepdim=True)
S("Tensor.prod prod", TR(3, 4), dim=0)
S("Tensor.prod prod", T(0))
S("Tensor.prod prod", T())
S("Tensor.prod prod", I(3, 2, low=-3))
S("Tensor.prod prod", B(3))
S("Tensor.prod prod", C([2.0, 0.0, 3.0], grad=True)).once()
S("Tensor.prod prod", C([[2.0, 0.0, 3.0], [0.0, 0.0, 5.0], [1.0, 2.0, 3.0]], grad=True), dim=1).once()
E("Tensor.prod", T(3, 4), dim=2, raises=IndexError, match=("prod", 2))

TIES = [[1.0, 3.0, 3.0, 2.0], [0.0, 0.0, 0.0, 0.0], [-1.0, -2.0, -1.0, -2.0]]
for name in ("max", "min"):
    spellings = f"Tensor.{name} {name}"
    for x in (T(3, 4), T(), T(2, 3, 4), TR(3, 4), STRIDED(5), T(41)):
        S(spellings, x)
    S(spellings, T(2, 3, 4), dim=0)
    S(spellings, T(2, 3, 4), dim=1, keepdim=True)
    S(spellings, T(2, 3, 4), -1)
    S(spellings, T(2, 3), 1, True)
    S(spellings, TR(3, 4), dim=-1)
    S(spellings, STRIDED(3, 4), dim=0)
    S(spellings, T(), dim=0)
    S(spellings, T(2, 0, 3), dim=0)
    S(spellings, T(5, 41), dim=1).large()
    S(spellings, I(3, 4, high=100))
    S(spellings, I(3, 4, high=100), dim=1)
    S(spellings, B(3, 4))
    S(spellings, B(3, 4), dim=1)
    S(spellings, C(TIES, grad=True)).kink()  # evenly among all that are largest
    S(spellings, C(TIES, grad=True), dim=1).kink()  # to the one whose index is returned
    S(spellings, C(TIES, grad=True), dim=0).kink()
    S(f"Tensor.a{name} a{name}", C(TIES, grad=True)).kink()
    S(f"Tensor.a{name} a{name}", C(TIES, grad=True), dim=1).kink()
    S(f"Tensor.a{name} a{name}", C(TIES, grad=True), dim=(0, 1)).kink()
    S(f"Tensor.a{name} a{name}", I(3, 4, high=100), dim=1)
    S(spellings, C([1.0, nan, 3.0], grad=True)).kink()
    S(spellings, C([[1.0, nan, 3.0, nan], [inf, -inf, 0.0, inf]], grad=True), dim=1).kink()
    S(spellings, C([[-inf, -inf], [inf, inf]], grad=True), dim=1).kink()
    for arg in (f"arg{name}",):
        S(f"Tensor.{arg} {arg}", T(3, 4))
        S(f"Tensor.{arg} {arg}", T())
        S(f"Tensor.{arg} {arg}", TR(3, 4))
        S(f"Tensor.{arg} {arg}", T(2, 3, 4), dim=1)
        S(f"Tensor.{arg} {arg}", T(2, 3, 4), dim=-1, keepdim=True)
        S(f"Tensor.{arg} {arg}", STRIDED(3, 4), 0)
        S(f"Tensor.{arg} {arg}", C(TIES))
        S(f"Tensor.{arg} {arg}", C(TIES), dim=1)
        S(f"Tensor.{arg} {arg}", C(TIES), dim=0)
        S(f"Tensor.{arg} {arg}", C([[1.0, nan, 3.0, nan], [inf, -inf, 0.0, inf]]), dim=1)
        S(f"Tensor.{arg} {arg}", C([[1.0, nan, 3.0, nan], [inf, -inf, 0.0, inf]]))
        S(f"Tensor.{arg} {arg}", I(3, 4, high=100), dim=0)
        S(f"Tensor.{arg} {arg}", T(2, 0, 3), dim=0)
        S(f"Tensor.{arg} {arg}", T(5, 41), dim=1)
        E(f"Tensor.{arg}", T(0), raises=(RuntimeError, IndexError), match=(arg, r"(empty|no elements|size 0|\(0,?\))"))
        E(f"Tensor.{arg}", T(3, 4), dim=2, raises=IndexError, match=(arg, 2))
    E(f"Tensor.{name}", T(0), raises=RuntimeError, match=(name, r"(empty|no elements|size 0|\(0,?\))"))
    E(
        f"Tensor.{name}",
        T(2, 0),
        dim=1,
        raises=(RuntimeError, IndexError),
        match=(name, r"(empty|no elements|size 0|\(2, 0\))"),
    )
    E(f"Tensor.{name}", T(3, 4), dim=5, raises=IndexError, match=(name, 5))
    E(
        f"Tensor.a{name}",
        T(0),
        raises=(RuntimeError, IndexError),
        match=(f"a{name}", r"(empty|no elements|size 0|\(0,?\))"),
    )

for name in ("var", "std"):
    S(f"Tensor.{name} {name}", T(3, 4), dim=1, correction=0)
    S(f"Tensor.{name} {name}", T(3, 4), dim=0, correction=2)
    S(f"Tensor.{name} {name}", T(3, 4), dim=0, unbiased=False)
    S(f"Tensor.{name} {name}", T(3, 4), unbiased=False)
    S(f"Tensor.{name} {name}", T(3, 4), False)
    S(f"Tensor.{name} {name}", T(3, 4), 1, False, True)
    S(f"Tensor.{name} {name}", T(3, 1), dim=1).kink()  # one number has no unbiased variance: NaN
    S(f"Tensor.{name} {name}", T(3, 1), dim=1, correction=0).kink()
    S(f"Tensor.{name} {name}", T(2, 0), dim=1)
    S(f"Tensor.{name} {name}", C([[2.0, 2.0, 2.0], [1.0, 2.0, 4.0]], grad=True), dim=1).kink()  # std at variance 0
    S(f"Tensor.{name} {name}", C([1e6, 1e6 + 1, 1e6 + 2, 1e6 + 4]))  # two passes, or nothing is left
    E(f"Tensor.{name}", I(3), raises=RuntimeError, match=("std|var", "int64"))

S("Tensor.logsumexp logsumexp", T(), 0)
S("Tensor.logsumexp logsumexp", T(3, 4), (0, 1))
S("Tensor.logsumexp logsumexp", C([[1000.0, 1001.0], [-1000.0, -1001.0]], grad=True), 1).kink()
S("Tensor.logsumexp logsumexp", C([[-inf, -inf], [-inf, 0.0], [inf, 1.0]], grad=True), 1).kink()
S("Tensor.logsumexp logsumexp", T(2, 0), 1)
E("Tensor.logsumexp", T(3), raises=TypeError, match=("logsumexp", "dim"))

for name in ("any", "all"):
    for dims in ({}, {"dim": 0}, {"dim": -1, "keepdim": True}, {"dim": (0, 2)}):
        S(f"Tensor.{name} {name}", B(2, 3, 4), **dims)
    S(f"Tensor.{name} {name}", C([[0.0, 0.0], [0.0, nan], [1.0, -0.0], [2.0, 1.0]]), dim=1)
    S(f"Tensor.{name} {name}", I(3, 2, high=2), dim=1)
    S(f"Tensor.{name} {name}", T(0))
    S(f"Tensor.{name} {name}", B(2, 0), dim=1)
    S(f"Tensor.{name} {name}", B())
    E(f"Tensor.{name}", B(3), dim=1, raises=IndexError, match=(name, 1))

for x in (T(2, 3, 4), TR(2, 3, 4), I(2, 3, 4), B(2, 3, 4)):
    for dim in (0, 1, -1):
        S("Tensor.cumsum cumsum", x, dim)
S("Tensor.cumsum cumsum", T(41), dim=0).once()
S("Tensor.cumsum cumsum", T(), dim=0)
S("Tensor.cumsum cumsum", T(2, 0), dim=1)
S("Tensor.cumsum cumsum", STRIDED(5), 0)
S("Tensor.cumsum cumsum", I(3, dtype="int32"), 0)
S("Tensor.cumsum cumsum", C([1.0, nan, 2.0, inf]), 0)
E("Tensor.cumsum", T(3), 1, raises=IndexError, match=("cumsum", 1))
E("Tensor.cumsum", T(3), raises=TypeError, match=("cumsum", "dim"))

group("softmax")
for name in ("softmax", "log_softmax"):
    spellings = f"Tensor.{name} {name} nn.functional.{name}"
    for dim in (0, 1, 2, -1, -2):
        S(spellings, T(2, 3, 4), dim=dim)
    S(spellings, T(5), 0)
    S(spellings, T(2, 3), -1)
    S(spellings, T(2, 3), 0)
    S(spellings, T(3, 1), -1)
    S(spellings, T(), dim=0)
    S(spellings, T(0, 3), dim=1)
    S(spellings, T(3, 0), dim=1)
    S(spellings, TR(3, 4), dim=-1)
    S(spellings, STRIDED(3, 4), dim=-1)
    S(spellings, EXPANDED(3, 4), dim=-1)
    S(spellings, T(3, 37), dim=-1).large()
    S(spellings, T(37, 3), dim=0).large()
    S(
        spellings, C([[1000.0, 1001.0, 999.0], [-1000.0, -1001.0, -1003.0], [0.0, 1000.0, -1000.0]], grad=True), -1
    ).kink()
    S(spellings, C([[-inf, 0.0, 1.0], [-inf, -inf, -inf], [inf, 0.0, 1.0], [nan, 0.0, 1.0]], grad=True), -1).kink()
    S(spellings, T(3, dtype="float32"), dim=0)
    S(spellings, T(3, dtype="float32"), dim=0, dtype=DT("float64"))
    S(spellings, I(3), dim=0, dtype=DT("float32"))
    E(f"nn.functional.{name}", T(3, 4), dim=2, raises=IndexError, match=(name, 2))
    E(f"nn.functional.{name}", I(3), dim=0, raises=RuntimeError, match=(name, "int64"))

# --- the table: products ---------------------------------------------------------------------------------

group("matmul")
SHAPES = [
    ((3,), (3,)), ((3, 4), (4,)), ((3,), (3, 4)), ((3, 4), (4, 5)), ((1, 1), (1, 1)), ((1, 7), (7, 1)),
    ((5, 1), (1, 6)), ((2, 3, 4), (2, 4, 5)), ((2, 3, 4), (4, 2)), ((3, 4), (2, 4, 2)), ((2, 1, 3, 4), (3, 4, 2)),
    ((4, 1, 2, 3), (1, 2, 3, 2)), ((2, 3, 4), (4,)), ((4,), (2, 4, 3)), ((2, 2, 3), (2, 1, 3, 1)), ((0, 3), (3, 2)),
    ((2, 0), (0, 3)), ((2, 3), (3, 0)), ((0,), (0,)), ((0, 2, 3), (3, 4)), ((2, 3, 0), (0, 2)), ((0, 3), (3,)),
]  # fmt: skip
for a, b in SHAPES:
    S("operator.matmul Tensor.matmul matmul", T(*a), T(*b))
S("operator.matmul", T(7, 17), T(17, 9)).large()
S("operator.matmul", T(2, 19, 5), T(5, 33)).large()
S("operator.matmul", TR(3, 4), T(4, 5))
S("operator.matmul", T(3, 4), TR(4, 5))
S("operator.matmul", TR(3, 4), TR(4, 5))
S("operator.matmul", TR(2, 3, 4), TR(2, 4, 3))
S("operator.matmul", STRIDED(3, 4), OFFSET(4, 2))
S("operator.matmul", EXPANDED(2, 3, 4), T(2, 4, 2))
S("operator.matmul", STRIDED(4), TR(4, 3))
S("operator.matmul", I(3, 4), I(4, 2, low=-3))
S("operator.matmul", I(4), I(4))
S("operator.matmul", T(2, 3, dtype="float32"), T(3, 2, dtype="float32"))
S("operator.matmul", C([[nan, 0.0], [inf, 1.0]], grad=True), C([[0.0, 1.0], [1.0, -inf]], grad=True)).kink()
E("matmul", T(3, 4), T(5, 6), raises=RuntimeError, match=(r"matmul: \(3, 4\) @ \(5, 6\)", 4, 5))
E("operator.matmul", T(4), T(5), raises=RuntimeError, match=(r"matmul: \(4,?\) @ \(5,?\)", 4, 5))
E("operator.matmul", T(3, 4), T(3), raises=RuntimeError, match=(r"matmul: \(3, 4\) @ \(3,?\)", 4, 3))
E(
    "operator.matmul",
    T(2, 3, 4),
    T(3, 4, 5),
    raises=RuntimeError,
    match=(r"matmul: \(2, 3, 4\) @ \(3, 4, 5\)", "(batch|broadcast)"),
)
E("operator.matmul", T(), T(3), raises=RuntimeError, match=("matmul", (), (3,)))
E("operator.matmul", T(3, 4), 2.0, raises=TypeError, match=("matmul", "float"))
E(
    "matmul",
    T(2, 3, dtype="float32"),
    T(3, 2, dtype="float64"),
    raises=RuntimeError,
    match=("matmul", "float32", "float64"),
)
E("matmul", T(2, 3), I(3, 2), raises=RuntimeError, match=("matmul", "float", "int64"))

group("einsum")
PATTERNS = [
    ("ij,jk->ik", (3, 4), (4, 2)), ("ij,jk", (3, 4), (4, 2)), ("ij->ji", (3, 4)), ("ji", (3, 4)), ("ij->", (3, 4)),
    ("ij->i", (3, 4)), ("ij->j", (3, 4)), ("i,i->", (4,), (4,)), ("i,i", (4,), (4,)), ("i,j->ij", (3,), (4,)),
    ("i,j", (3,), (4,)), ("ij,ij->ij", (3, 4), (3, 4)), ("ij,ij->", (3, 4), (3, 4)), ("ij,ij->i", (3, 4), (3, 4)),
    ("ij,kj->ik", (3, 4), (2, 4)), ("bij,bjk->bik", (2, 3, 4), (2, 4, 2)), ("bij,jk->bik", (2, 3, 4), (4, 2)),
    ("bij,bkj->bik", (2, 3, 4), (2, 2, 4)), ("bhid,bhjd->bhij", (1, 2, 3, 2), (1, 2, 2, 2)),
    ("bchw,hw->cb", (2, 2, 2, 3), (2, 3)), ("bqhd,bkhd->bhqk", (1, 2, 2, 3), (1, 3, 2, 3)),
    ("ij,jk,kl->il", (2, 3), (3, 2), (2, 3)), ("i,j,k->ijk", (2,), (3,), (2,)), ("ij,j,i->", (2, 3), (3,), (2,)),
    ("ba,bc,bd->acd", (2, 2), (2, 3), (2, 2)), ("...ij,...jk->...ik", (2, 3, 4), (2, 4, 2)),
    ("...i->...", (2, 3, 4)), ("i...->...i", (2, 3, 4)), ("...ij,jk->...ik", (2, 1, 3, 2), (2, 2)),
    ("...i,...i->...", (2, 1, 3), (4, 3)), ("b...,b...->b...", (2, 3, 2), (2, 3, 2)), ("...i,...i", (2, 3), (2, 3)),
    ("ij...->...", (2, 3, 4)), (" i j , j k -> i k ", (3, 4), (4, 2)), ("Ab,bC->AC", (2, 3), (3, 2)),
    ("aB,Bc", (2, 3), (3, 2)), ("ba", (2, 3)), ("ij,j->ij", (3, 4), (4,)), (",ij->ij", (), (2, 3)),
    ("ij,->ij", (2, 3), ()), ("ij,jk->ik", (3, 0), (0, 2)), ("ij,jk->ik", (0, 4), (4, 2)), ("i->", (0,)),
    ("ij,k->jk", (2, 3), (2,)), ("ij,kl->jl", (2, 3), (2, 2)), ("ii->i", (3, 3)), ("ii", (3, 3)),
    ("iji->ji", (2, 3, 2)), ("iij,ki->kj", (2, 2, 3), (2, 2)), ("bi,bj,b->bij", (2, 3), (2, 2), (2,)),
    ("ij,kj->kji", (2, 1), (3, 4)),
]  # fmt: skip
for pattern, *shapes in PATTERNS:
    S("einsum", pattern, *[T(*shape) for shape in shapes])
S("einsum", "ij,jk->ik", TR(3, 4), STRIDED(4, 2))
S("einsum", "bij,bij->b", EXPANDED(2, 3, 2), TR(2, 3, 2))
S("einsum", "ij,jk->ik", I(2, 3), I(3, 2))
S("einsum", "ij,jk->ik", T(2, 3, dtype="float32"), T(3, 2, dtype="float32"))
E("einsum", "ij,jk->ik", T(3, 4), T(5, 6), raises=RuntimeError, match=("einsum", "j", 4, 5))
E(
    "einsum",
    "ij,jk->ik",
    T(3, 4),
    raises=(RuntimeError, ValueError),
    match=("einsum", r"(\b2\b.*\b1\b|\b1\b.*\b2\b|two.*one|one.*two)"),
)
E("einsum", "ii->i", T(3, 1), raises=RuntimeError, match=("einsum", "i", 3, 1))
E("einsum", "ij->ik", T(3, 4), raises=RuntimeError, match=("einsum", "k"))
E("einsum", "ijk->i", T(3, 4), raises=RuntimeError, match=("einsum", "ijk", r"(\(3, 4\)|\b3\b.*\b2\b)"))
E("einsum", "ij->ii", T(3, 4), raises=RuntimeError, match=("einsum", "i"))
E("einsum", "i1->i", T(3, 4), raises=(RuntimeError, ValueError), match=("einsum", "1"))

# --- the table: shapes -----------------------------------------------------------------------------------

group("shape")
X = T(2, 3, 4)
S("Tensor.reshape", X, 6, 4)
S("Tensor.reshape", X, (4, 6))
S("Tensor.reshape reshape", X, (-1,))
S("Tensor.reshape", X, 2, -1)
S("Tensor.reshape", X, [3, 1, 8])
S("Tensor.reshape", TR(2, 3, 4), 6, 4)
S("Tensor.reshape", STRIDED(3, 4), 12)
S("Tensor.reshape", EXPANDED(3, 4), 2, 6)
S("Tensor.reshape", T(), 1, 1)
S("Tensor.reshape", T(1), ())
S("Tensor.reshape", T(2, 0), 0, 5)
S("Tensor.reshape", T(2, 0), -1)
S("Tensor.reshape", I(6), 2, 3)
S("Tensor.view", X, 6, 4)
S("Tensor.view", X, (2, 12))
S("Tensor.view", X, -1)
S("Tensor.view", OFFSET(2, 3), 3, 2)
S("Tensor.view", T(), 1)
S("Tensor.view", T(0, 3), 3, 0)
S("Tensor.view", STRIDED(4, 2), 2, 2, 2)
S("Tensor.view_as", T(2, 6), T(3, 4))
E("Tensor.reshape", X, 5, 5, raises=RuntimeError, match=("reshape", (5, 5), r"\(2, 3, 4\)|24"))
E("Tensor.reshape", X, -1, -1, raises=RuntimeError, match=("reshape", -1))
E("Tensor.reshape", X, -1, 5, raises=RuntimeError, match=("reshape", r"\(-1, 5\)|\(2, 3, 4\)"))
E("Tensor.reshape", T(2, 0), -1, 0, raises=RuntimeError, match=("reshape", -1))
E("Tensor.view", TR(3, 4), 12, raises=RuntimeError, match=("view", "reshape"))
E("Tensor.view", X, 7, raises=RuntimeError, match=("view", (7,), r"\(2, 3, 4\)|24"))

S("Tensor.transpose transpose", X, 0, 1)
S("Tensor.transpose transpose", X, -1, 0)
S("Tensor.transpose transpose", X, 1, 1)
S("Tensor.transpose transpose", TR(2, 3), 0, 1)
S("Tensor.transpose transpose", T(0, 3), 0, 1)
S("Tensor.transpose", T(2, 3), dim0=0, dim1=1)
S("Tensor.permute", X, 2, 0, 1)
S("Tensor.permute permute", X, (1, 0, 2))
S("Tensor.permute permute", X, (-1, 0, -2))
S("Tensor.permute", STRIDED(2, 3), 1, 0)
S("Tensor.permute permute", T(), ())
S("Tensor.T", T(3, 4))
S("Tensor.mT", X)
S("Tensor.t t", T(3, 4))
S("Tensor.movedim movedim", X, 0, 2)
S("Tensor.movedim movedim", X, -1, 0)
S("Tensor.movedim movedim", X, (0, 1), (2, 0))
E("Tensor.transpose", X, 0, 3, raises=IndexError, match=("transpose", 3))
E("Tensor.permute", X, 0, 1, raises=(RuntimeError, ValueError), match=("permute", (0, 1)))
E("Tensor.permute", X, 0, 1, 1, raises=(RuntimeError, ValueError), match=("permute", (0, 1, 1)))
E("Tensor.mT", T(3), raises=(RuntimeError, IndexError), match=("mT|transpose", r"\(3,?\)|1-d"))

S("Tensor.expand", T(3, 1), 3, 4)
S("Tensor.expand", T(3, 1), (2, 3, 4))
S("Tensor.expand", T(3, 1), -1, 4)
S("Tensor.expand", T(1), 0)
S("Tensor.expand", T(), 2, 3)
S("Tensor.expand", STRIDED(1, 3), 2, 3)
S("Tensor.expand_as", T(3, 1), T(3, 4))
S("Tensor.broadcast_to broadcast_to", T(3, 1), (2, 3, 4))
S("Tensor.broadcast_to broadcast_to", I(3), (2, 3))
E("Tensor.expand", T(3, 2), 3, 4, raises=RuntimeError, match=("expand", (3, 2), (3, 4)))
E("Tensor.expand", T(3, 2), 2, raises=RuntimeError, match=("expand", (3, 2), (2,)))
E("Tensor.expand", T(3), -1, 3, raises=RuntimeError, match=("expand", -1))

S("Tensor.squeeze squeeze", T(1, 3, 1))
S("Tensor.squeeze squeeze", T(1, 3, 1), 0)
S("Tensor.squeeze squeeze", T(1, 3, 1), -1)
S("Tensor.squeeze squeeze", T(1, 3, 1), 1)
S("Tensor.squeeze squeeze", T(1, 3, 1), dim=(0, 2))
S("Tensor.squeeze squeeze", T(1, 1))
S("Tensor.squeeze squeeze", T())
S("Tensor.unsqueeze unsqueeze", T(2, 3), 0)
S("Tensor.unsqueeze unsqueeze", T(2, 3), 2)
S("Tensor.unsqueeze unsqueeze", T(2, 3), -1)
S("Tensor.unsqueeze unsqueeze", T(2, 3), dim=-2)
S("Tensor.unsqueeze unsqueeze", T(), 0)
S("Tensor.unsqueeze unsqueeze", TR(2, 3), 1)
S("Tensor.flatten flatten", X)
S("Tensor.flatten flatten", X, 1)
S("Tensor.flatten flatten", X, 0, 1)
S("Tensor.flatten flatten", X, start_dim=-2, end_dim=-1)
S("Tensor.flatten flatten", T())
S("Tensor.flatten flatten", TR(2, 3))
S("Tensor.flatten flatten", T(2, 0, 3), 1)
E("Tensor.squeeze", T(1, 3), 2, raises=IndexError, match=("squeeze", 2))
E("Tensor.unsqueeze", T(2, 3), 4, raises=IndexError, match=("unsqueeze", 4))
E("Tensor.flatten", X, 2, 1, raises=RuntimeError, match=("flatten", r"(start|\b2\b)"))

S("Tensor.split split", T(7, 2), 3)
S("Tensor.split split", T(2, 6), 2, 1)
S("Tensor.split split", T(2, 6), 3, dim=-1)
S("Tensor.split split", T(6, 2), [1, 2, 3])
S("Tensor.split split", T(6, 2), [0, 6])
S("Tensor.split split", T(2, 3), 10, dim=1)
S("Tensor.split split", T(0, 3), 2)
S("Tensor.split split", TR(4, 6), 2, dim=1)
S("Tensor.chunk chunk", T(7, 2), 3)
S("Tensor.chunk chunk", T(2, 6), 3, dim=-1)
S("Tensor.chunk chunk", T(2, 3), 5, 1)
S("Tensor.chunk chunk", T(5, 2), 4)
S("Tensor.unbind unbind", T(3, 2))
S("Tensor.unbind unbind", T(3, 2), 1)
S("Tensor.unbind unbind", STRIDED(2, 3), dim=-1)
E(
    "Tensor.split",
    T(6, 2),
    [1, 2],
    raises=(RuntimeError, ValueError),
    match=("split", 6, r"\b3\b|\[1, 2\]|\(1, 2\)"),
)
E("Tensor.split", T(6, 2), 0, raises=(RuntimeError, ValueError), match=("split", r"\b0\b|positive"))
E("Tensor.chunk", T(6, 2), 0, raises=(RuntimeError, ValueError), match=("chunk", r"\b0\b|positive"))
E("Tensor.split", T(6, 2), 2, dim=2, raises=IndexError, match=("split", 2))
E("Tensor.unbind", T(), raises=(IndexError, RuntimeError), match=("unbind", r"(0-d|\(\)|\b0\b)"))

S("cat", [T(2, 3), T(1, 3)])
S("cat", (T(2, 3), T(2, 2), T(2, 1)), dim=1)
S("cat", [T(2, 3), T(2, 3)], -1)
S("cat", [T(2, 3)])
S("cat", [T(0, 3), T(2, 3)])
S("cat", [TR(2, 3), STRIDED(2, 3)], dim=0)
S("cat", [T(0), T(2, 3)])  # an old exception of PyTorch: a tensor of shape (0,) goes with every shape
S("cat", [I(2), I(3)])
S("cat", [I(2), T(3)])
S("cat", [B(2), I(2)])
S("cat", [T(2, dtype="float32"), T(2, dtype="float64")])
S("stack", [T(2, 3), T(2, 3)])
S("stack", (T(2, 3), T(2, 3), T(2, 3)), dim=1)
S("stack", [T(2, 3), TR(2, 3)], -1)
S("stack", [T(), T()])
S("stack", [I(2), I(2)], dim=1)
S("stack", [T(0, 2), T(0, 2)])
E("cat", [T(2, 3), T(2, 4)], raises=RuntimeError, match=("cat", (2, 3), (2, 4)))
E("cat", [T(2, 3), T(2)], raises=RuntimeError, match=("cat", (2, 3), (2,)))
E("cat", [], raises=(RuntimeError, ValueError), match=("cat", "(empty|no tensors|at least one)"))
E("cat", [T(), T()], raises=RuntimeError, match=("cat", r"(0-d|\(\)|stack)"))
E("cat", [T(2, 3), T(2, 3)], dim=2, raises=IndexError, match=("cat", 2))
E("cat", T(2, 3), raises=TypeError, match=("cat", "(list|tuple|sequence)"))
E("stack", [T(2, 3), T(3, 2)], raises=RuntimeError, match=("stack", (2, 3), (3, 2)))
E("stack", [], raises=(RuntimeError, ValueError), match=("stack", "(empty|no tensors|at least one)"))

for name in ("tril", "triu"):
    for diagonal in (0, 1, -1, 5, -5):
        S(f"Tensor.{name} {name}", T(3, 4), diagonal)
    S(f"Tensor.{name} {name}", T(2, 3, 3), diagonal=1)
    S(f"Tensor.{name} {name}", TR(4, 3))
    S(f"Tensor.{name} {name}", T(0, 3))
    S(f"Tensor.{name} {name}", I(3, 3))
    S(f"Tensor.{name} {name}", BOOL([[True] * 4] * 3), 1)
    S(f"Tensor.{name} {name}", C([[nan, nan], [inf, inf]], grad=True)).kink()  # what is cut off is 0, not NaN
    E(name, T(3), raises=RuntimeError, match=(name, (3,)))
S("Tensor.flip flip", X, (0,))
S("Tensor.flip flip", X, (0, 2))
S("Tensor.flip flip", X, [-1])
S("Tensor.flip", X, 0, 1)
S("Tensor.flip flip", STRIDED(2, 3), (1,))
S("Tensor.flip flip", T(0, 2), (0, 1))
S("Tensor.flip flip", I(4), (0,))
E("Tensor.flip", X, 3, raises=IndexError, match=("flip", 3))
E("Tensor.flip", X, 0, 0, raises=RuntimeError, match=("flip", "(twice|repeated|more than once|multiple)"))
S("Tensor.repeat", T(2, 3), 2, 1)
S("Tensor.repeat", T(2, 3), (2, 1, 2))
S("Tensor.repeat", T(3), 2, 2)
S("Tensor.repeat", T(), 3)
S("Tensor.repeat", T(2), 0)
S("Tensor.repeat", TR(2, 3), 1, 2)
S("Tensor.repeat", I(2), 3)
E("Tensor.repeat", T(2, 3), 2, raises=RuntimeError, match=("repeat", r"(\(2, 3\)|\(2,?\)|dimensions)"))
E("Tensor.repeat", T(2), -1, raises=RuntimeError, match=("repeat", "(-1|negative)"))
S("Tensor.roll roll", X, 1, 0)
S("Tensor.roll roll", X, -1, 2)
S("Tensor.roll roll", T(5), 7, 0)
S("Tensor.roll roll", T(2, 3), 1)
S("Tensor.roll roll", I(4), shifts=1, dims=0)

group("indexing")
GET = [
    ((4, 5), 0), ((4, 5), -1), ((4, 5), (1, 2)), ((4, 5), (-1, -2)), ((4, 5), slice(1, 3)),
    ((4, 5), slice(None, None, 2)), ((4, 5), (slice(None), slice(1, None, 2))), ((4, 5), (slice(-3, -1), 0)),
    ((4, 5), slice(10, 20)), ((4, 5), slice(3, 1)), ((4, 5), slice(-100, 100)), ((4, 5), None),
    ((4, 5), (slice(None), None)), ((4, 5), (None, 0, None)), ((4, 5), ...), ((2, 3, 4), (..., 0)),
    ((2, 3, 4), (0, ...)), ((2, 3, 4), (0, ..., 1)), ((2, 3, 4), (..., None)), ((2, 3, 4), (..., slice(0, 2))),
    ((2, 3, 4), (0, 1, 2)), ((2, 3, 4), (0, 1, 2, ...)), ((), ()), ((), ...), ((), None), ((0, 3), slice(None)),
    ((0, 3), (slice(None), 1)), ((4, 5), ()),
]  # fmt: skip
for shape, index in GET:
    S("operator.getitem Tensor.__getitem__", T(*shape), index)
ROWS, MATRIX = INT([2, 0, 2, -1]), INT([[0, 1], [3, 3], [1, 0]])
COLUMNS = INT([1, 1, 4, -5])
for x in (T(4, 5), TR(4, 5), STRIDED(4, 5)):
    S("operator.getitem", x, slice(1, None, 2))
    S("operator.getitem", x, ROWS)
    S("operator.getitem", x, (slice(None), ROWS))
    S("operator.getitem", x, (ROWS, COLUMNS))
    S("operator.getitem", x, B(4, 5))
ADVANCED = [
    (T(4, 5), MATRIX), (T(4, 5), (ROWS, 1)), (T(4, 5), (2, ROWS)), (T(4, 5), (ROWS, slice(1, 4))),
    (T(4, 5), (slice(0, 3), COLUMNS)), (T(4, 5), (MATRIX, INT([[1], [2], [0]]))),
    (T(4, 5), (INT(1), ROWS)), (T(4, 5), INT(2)),
    (T(4, 5), (INT(-1), INT(0))), (T(4, 5), [0, 2, 0]), (T(4, 5), ([0, 2], [1, 1])),
    (T(4, 5), (..., ROWS)), (T(4, 5), (None, ROWS)), (T(4, 5), (ROWS, None)), (T(4, 5), (ROWS, ...)),
    (T(4, 5), INT([])), (T(0, 3), INT([])), (T(6), ROWS),
    (T(4, 5), I(3, high=4, dtype="int32")), (T(4, 3, 5), (ROWS, slice(None), COLUMNS)),
    (T(4, 3, 5), (slice(None), INT([0, 2]), INT([1, 4]))),
    (T(4, 3, 5), (slice(None), INT([[0], [2]]), INT([1, 4]))),
    (T(3, 4, 5), (0, slice(None), COLUMNS)), (T(3, 4, 5), (slice(None), 0, COLUMNS)),
    (T(3, 4, 5), (INT([0, 2]), slice(1, 3), 0)),
    (T(2, 4, 3, 2), (slice(None), INT([0, 3]), INT([[1], [2]]), slice(None, None, 2))),
    (T(2, 4, 3, 2), (INT([0, 1]), None, INT([0, 3]))), (T(4, 5), B(4)),
    (T(4, 5), (slice(None), B(5))), (T(4, 3, 5), (slice(None), B(3, 5))), (T(4, 3, 5), B(4, 3)),
    (T(4, 5), (BOOL([True, False, True, True]), INT([1, 0, 2]))),
    (T(4, 5), (BOOL([True, False, True, False]), slice(1, 3))), (T(3), BOOL([False] * 3)),
    (T(0), B(0)), (T(2, 3), (B(2), 0)), (T(4, 5), (1, B(5))), (I(4, 5), ROWS), (B(4, 5), (ROWS, COLUMNS)),
    (T(4, 5), (INT([[2]]), slice(None, None, 2))),
]  # fmt: skip
for x, index in ADVANCED:
    S("operator.getitem Tensor.__getitem__", x, index)
S("operator.getitem", T(7, 3), I(20, high=7)).once()  # many repeats: the gradient is a sum
for index, words in (
    (4, (4,)), (-5, (-5, r"\b4\b")), ((0, 5), (5,)), ((0, 0, 0), (r"\b3\b|\(4, 5\)|too many",)), (INT([0, 4]), (4,)),
    ((ROWS, INT([0, 1])), (r"\(2,?\)|broadcast",)), (B(3), (3, 4)), ((slice(None), B(3)), (3, 5)),
    (T(3, grad=False), ("float",)),
):  # fmt: skip
    E("operator.getitem", T(4, 5), index, raises=(IndexError, RuntimeError), match=("index", *words))
E("operator.getitem", T(4, 5), 1.5, raises=(IndexError, TypeError), match=("index", r"(1\.5|float)"))
E("operator.getitem", T(4, 5), "a", raises=(IndexError, TypeError, RuntimeError), match=("index", "(a|str)"))
E("operator.getitem", T(), 0, raises=IndexError, match=("index", r"(0-d|\(\)|too many)"))
E(
    "operator.getitem",
    T(4, 5),
    slice(None, None, -1),
    raises=ValueError,
    match=("index", "(step|-1)", "(flip|positive|greater)"),
)
E("operator.getitem", T(4, 5), slice(None, None, 0), raises=ValueError, match=("index", "step"))

for index, value in (
    (0, 1.5), ((1, 2), 0), (slice(1, 3), -1.0), ((slice(None), slice(0, 2)), 2.0), (..., 3.0), ((..., 0), 1.0),
    (BOOL([True, False, True, False]), 0.0), (B(4, 5), -inf), (ROWS, 0.5), ((ROWS, COLUMNS), 2.0), (0, T(5)),
    (slice(1, 3), T(2, 5)), (slice(1, 3), T(5)), ((slice(None), 1), T(4)), (slice(None, None, 2), T()),
    (B(4, 5), T()), (INT([0, 2]), T(2, 5)), (INT([0, 2]), T(5)), ((INT([0, 2]), INT([1, 3])), T(2)),
    ((slice(None), INT([0, 3])), T(4, 2)), (slice(2, 2), 1.0), (BOOL([True, False, True, False]), T(2, 5)),
    (slice(None), 0), (0, I(5)), (B(4), T(5)), ((None, 0), T(5)),
):  # fmt: skip
    sample = S("Tensor.__setitem__ operator.setitem", CLONE(4, 5), index, value)
    if value == -inf:
        sample.kink()
    if index is ... or (index.__class__ is slice and index == slice(None)):  # nothing of x is left: its gradient is 0
        sample.once()
S("Tensor.__setitem__", I(4), slice(1, 3), 7)
S("Tensor.__setitem__", I(4), 0, 2.75)
S("Tensor.__setitem__", I(4), INT([0, 2]), I(2))
S("Tensor.__setitem__", B(4), 1, True)
S(
    "Tensor.__setitem__",
    T(3, 4, grad=False),
    BOOL([[True, False, True, False]] * 3),
    C([9.0, 8.0, 7.0, 6.0, 5.0, 4.0]),
)
S("Tensor.__setitem__", STRIDED(3, 4, grad=False), (slice(None), 1), T(3, grad=False))
S("Tensor.__setitem__", TR(3, 4, grad=False), INT([1, 2]), T(2, 4, grad=False))
E(
    "Tensor.__setitem__",
    CLONE(4, 5),
    0,
    T(4),
    raises=(RuntimeError, ValueError),
    match=("(setitem|index)", (4,), (5,)),
)
E(
    "Tensor.__setitem__",
    CLONE(4, 5),
    B(3),
    0.0,
    raises=(IndexError, RuntimeError),
    match=("index", 3, 4),
)
E("Tensor.__setitem__", T(4, 5), 0, 1.0, raises=RuntimeError, match=("(leaf|requires grad)", "(no_grad|clone)"))

group("gather_sort")
S("Tensor.gather gather", T(3, 4), 1, I(3, 2, high=4))
S("Tensor.gather gather", T(3, 4), 0, I(2, 4, high=3))
S("Tensor.gather gather", T(3, 4), -1, I(2, 6, high=4))  # a smaller index, with repeats
S("Tensor.gather gather", T(2, 3, 4), 1, I(2, 5, 3, high=3))
S("Tensor.gather gather", T(2, 3, 4), dim=2, index=I(1, 2, 3, high=4))
S("Tensor.gather gather", T(5), 0, I(7, high=5))
S("Tensor.gather gather", TR(3, 4), 1, I(3, 2, high=4))
S("Tensor.gather gather", STRIDED(3, 4), 0, TR(2, 4, dtype="int64", low=0, high=3))
S("Tensor.gather gather", T(3, 4), 1, I(3, 0))
S("Tensor.gather gather", T(0, 4), 1, I(0, 2))
S("Tensor.gather gather", T(), 0, INT(0))
S("Tensor.gather gather", I(3, 4), 1, I(3, 2, high=4))
E(
    "Tensor.gather",
    T(3, 4),
    1,
    INT([[4], [0], [0]]),
    raises=(RuntimeError, IndexError),
    match=("gather", 4),
)
E(
    "Tensor.gather",
    T(3, 4),
    1,
    INT([[-1], [0], [0]]),
    raises=(RuntimeError, IndexError),
    match=("gather", -1),
)
E(
    "Tensor.gather",
    T(3, 4),
    1,
    I(4, 2),
    raises=RuntimeError,
    match=("gather", (4, 2), (3, 4)),
)
E("Tensor.gather", T(3, 4), 1, I(3), raises=RuntimeError, match=("gather", (3,), (3, 4)))
E("Tensor.gather", T(3, 4), 1, T(3, 2), raises=RuntimeError, match=("gather", "(int64|float)"))
E("Tensor.gather", T(3, 4), 2, I(3, 2), raises=IndexError, match=("gather", 2))

S("Tensor.topk topk", T(3, 6), 2)
S("Tensor.topk topk", T(3, 6), 6)
S("Tensor.topk topk", T(6, 3), 2, dim=0)
S("Tensor.topk topk", T(3, 6), 3, -1, False)
S("Tensor.topk topk", T(3, 6), 3, largest=False)
S("Tensor.topk topk", T(2, 5, 3), 2, 1)
S("Tensor.topk topk", TR(3, 6), 2)
S("Tensor.topk topk", STRIDED(3, 6), 2)
S("Tensor.topk topk", T(3, 6), 0)
S("Tensor.topk topk", T(0, 6), 2)
S("Tensor.topk topk", T(), 1)
S("Tensor.topk topk", INT([5, 3, 9, 1]), 2)
S("Tensor.topk topk", C([1.0, nan, 3.0, inf, -inf]), 3)
S("Tensor.topk topk", T(2, 41), 7).once()
E("Tensor.topk", T(3, 4), 5, raises=RuntimeError, match=("topk", 5, 4))
E("Tensor.topk", T(3, 4), -1, raises=RuntimeError, match=("topk", -1))
for descending in (False, True):
    S("Tensor.sort sort", T(3, 5), descending=descending)
    S("Tensor.sort sort", T(3, 5), 0, descending)
    S("Tensor.sort sort", T(2, 3, 4), dim=1, descending=descending)
    S("Tensor.sort sort", TR(3, 4), -1, descending=descending)
    S("Tensor.sort sort", C([3.0, 1.0, 3.0, 1.0, 2.0, 2.0], grad=True), descending=descending, stable=True).kink()
    S("Tensor.sort sort", C([1.0, nan, -inf, inf, nan, 0.0, -0.0]), descending=descending, stable=True)
    S("Tensor.argsort argsort", T(3, 5), descending=descending)
    S("Tensor.argsort argsort", T(3, 5), 0, descending)
    S("Tensor.argsort argsort", INT([3, 1, 3, 1, 2]), descending=descending, stable=True)
S("Tensor.sort sort", T(0, 3), 0)
S("Tensor.sort sort", T())
S("Tensor.sort sort", I(3, 6, high=100))
S("Tensor.sort sort", B(5), stable=True)
S("Tensor.sort sort", T(2, 41)).once()
E("Tensor.sort", T(3), 1, raises=IndexError, match=("sort", 1))
E("Tensor.argsort", T(3), 1, raises=IndexError, match=("sort", 1))

# --- the table: nn.functional ----------------------------------------------------------------------------

group("functional")
F = "nn.functional."
for shape in ((4,), (2, 4), (2, 3, 4), (0, 4), (2, 0, 4)):
    S(F + "linear", T(*shape), T(5, 4), T(5))
    S(F + "linear", T(*shape), T(5, 4))
S(F + "linear", T(3, 4), T(1, 4), T(1))
S(F + "linear", T(3, 1), T(2, 1), T(2))
S(F + "linear", TR(3, 4), TR(5, 4), STRIDED(5))
S(F + "linear", STRIDED(2, 3, 4), OFFSET(5, 4), bias=EXPANDED(5))
S(F + "linear", T(7, 19), T(33, 19), T(33)).large()
S(F + "linear", T(2, 4, dtype="float32"), T(3, 4, dtype="float32"), T(3, dtype="float32"))
E(F + "linear", T(3, 4), T(5, 6), raises=RuntimeError, match=("linear", (3, 4), (5, 6)))
E(F + "linear", T(3, 4), T(5, 4), T(6), raises=RuntimeError, match=("linear", (6,)))

S(F + "embedding", I(3, high=6), T(6, 4))
S(F + "embedding", I(2, 5, high=3), T(3, 2))  # repeats: the gradient is a sum
S(F + "embedding", I(high=6), T(6, 4))
S(F + "embedding", I(0), T(6, 4))
S(F + "embedding", I(3, high=6), TR(6, 4))
S(F + "embedding", I(3, high=6, dtype="int32"), T(6, 4))
S(F + "embedding", INT([0, 2, 2, 1, 0]), T(3, 4), padding_idx=0).kink()
S(F + "embedding", INT([0, 2, 2, 1, 0]), T(3, 4), padding_idx=-1).kink()
S(F + "embedding", STRIDED(2, 3, dtype="int64", low=0, high=6), T(6, 4))
E(F + "embedding", INT([0, 6]), T(6, 4), raises=IndexError, match=("embedding", 6))
E(F + "embedding", INT([0, -1]), T(6, 4), raises=IndexError, match=("embedding", -1))
E(F + "embedding", T(3), T(6, 4), raises=RuntimeError, match=("embedding", "(int64|float)"))
E(F + "embedding", I(3), T(6), raises=(RuntimeError, ValueError), match=("embedding", (6,)))

for x in (T(3, 4), T(2, 3, 4), T(4), TR(3, 4), STRIDED(3, 4), EXPANDED(3, 4), T(0, 4)):
    S(F + "layer_norm", x, (4,))
    S(F + "layer_norm", x, (4,), T(4), T(4))
    S(F + "rms_norm", x, (4,))
    S(F + "rms_norm", x, (4,), T(4))
S(F + "layer_norm", T(2, 3), (3,))
S(F + "layer_norm", T(2, 3), (3,), T(3), T(3))
S(F + "rms_norm", T(2, 3), (3,), T(3))
S(F + "layer_norm", T(3, 4), [4], weight=T(4))
S(F + "layer_norm", T(3, 4), [4], bias=T(4))
S(F + "layer_norm", T(3, 4), (4,), STRIDED(4), T(4), 0.1)
S(F + "layer_norm", T(2, 3, 4), (3, 4))
S(F + "layer_norm", T(2, 3, 4), (3, 4), T(3, 4), T(3, 4))
S(F + "layer_norm", T(3, 1), (1,))
S(F + "layer_norm", T(2, 35), (35,), T(35), T(35)).large()
S(F + "layer_norm", C([[1e4, 1e4 + 1, 1e4 + 2, 1e4 + 4], [2.0, 2.0, 2.0, 2.0]], grad=True), (4,)).kink()
S(F + "layer_norm", C([[nan, 1.0, 2.0], [inf, 1.0, 2.0], [1.0, 2.0, 4.0]]), (3,))
S(F + "rms_norm", T(3, 4), (4,), T(4), 0.1)
S(F + "rms_norm", T(3, 4), [4], eps=1e-5)
S(F + "rms_norm", T(2, 3, 4), (3, 4), T(3, 4))
S(F + "rms_norm", T(2, 35), (35,), T(35)).large()
S(F + "rms_norm", C([[0.0, 0.0, 0.0], [1.0, 2.0, 4.0]], grad=True), (3,), eps=1e-5).kink()
for name in ("layer_norm", "rms_norm"):
    E(F + name, T(3, 4), (3,), raises=RuntimeError, match=(name, (3,), (3, 4)))
    E(F + name, T(3, 4), (4,), T(3), raises=RuntimeError, match=(name, "weight", (3,)))

S(F + "conv1d", T(1, 2, 7), T(3, 2, 3), T(3), 2, 1, 2)
S(F + "conv1d", T(2, 5), T(3, 2, 2), stride=(2,), padding=[1])
S(F + "conv1d", T(2, 4, 5), T(6, 2, 2), T(6), groups=2)
S(F + "conv1d", T(3, 4), T(3, 1, 2), groups=3)

S(F + "dropout", T(3, 4), 0.0)
S(F + "dropout", T(3, 4), 0.5, False)
S(F + "dropout", T(3, 4), p=0.3, training=False)
S(F + "dropout", T(3, 4), 1.0)
S(F + "dropout", T(3, 4), 0.5).random()
S(F + "dropout", T(0, 4), 0.5)
E(F + "dropout", T(3), 1.5, raises=ValueError, match=("dropout", r"1\.5"))
E(F + "dropout", I(3), 0.5, raises=RuntimeError, match=("dropout", "(int64|Long)"))
E(F + "dropout", T(3), -0.1, raises=ValueError, match=("dropout", r"-0\.1"))

TARGET = INT([1, 0, 4, 2])
for reduction in ("mean", "sum", "none"):
    S(F + "cross_entropy", T(4, 5), TARGET, reduction=reduction)
    S(F + "cross_entropy", T(4, 5), INT([1, -100, 4, -100]), reduction=reduction)
    S(F + "cross_entropy", T(4, 5), INT([1, 2, 4, 2]), ignore_index=2, reduction=reduction)
    S(F + "cross_entropy", T(4, 5), INT([-100] * 4), reduction=reduction).kink()  # mean of nothing: NaN
    S(F + "cross_entropy", T(4, 5), TARGET, label_smoothing=0.1, reduction=reduction)
    S(F + "cross_entropy", T(4, 5), INT([1, -100, 4, 2]), label_smoothing=0.2, reduction=reduction)
    S(F + "cross_entropy", T(4, 5), TARGET, T(5, low=0.1, grad=False), reduction=reduction)
    S(
        F + "cross_entropy",
        T(4, 5),
        INT([1, -100, 4, 2]),
        weight=T(5, low=0.1, grad=False),
        label_smoothing=0.1,
        reduction=reduction,
    )
    S(F + "cross_entropy", T(4, 5), T(4, 5, low=0.0, high=0.5), reduction=reduction)
    S(F + "cross_entropy", T(4, 5), T(4, 5, low=0.0, high=0.5), label_smoothing=0.1, reduction=reduction)
    S(F + "cross_entropy", T(4, 5), T(4, 5, low=0.0, grad=False), T(5, low=0.1, grad=False), reduction=reduction)
    S(F + "cross_entropy", T(2, 5, 3), I(2, 3), reduction=reduction)
    S(F + "cross_entropy", T(2, 3, 2, 2), I(2, 2, 2, high=3), reduction=reduction)
    S(F + "cross_entropy", T(2, 5, 3), T(2, 5, 3, low=0.0, high=0.5), reduction=reduction)
    S(F + "cross_entropy", T(5), INT(3), reduction=reduction)
    S(F + "cross_entropy", T(5), T(5, low=0.0, high=0.5), reduction=reduction)
    S(F + "cross_entropy", T(0, 5), I(0), reduction=reduction)
    S(F + "cross_entropy", TR(4, 5), TARGET, reduction=reduction)
    S(F + "nll_loss", T(4, 5), TARGET, reduction=reduction)
    S(F + "nll_loss", T(4, 5), INT([1, -100, 4, 2]), T(5, low=0.1, grad=False), reduction=reduction)
    S(F + "mse_loss", T(3, 4), T(3, 4), reduction=reduction)
    S(F + "mse_loss", T(0), T(0), reduction=reduction)
    S(F + "mse_loss", TR(3, 4), STRIDED(3, 4), reduction=reduction)
    S(F + "binary_cross_entropy_with_logits", T(3, 4), T(3, 4, low=0.0, high=1.0), reduction=reduction)
    S(
        F + "binary_cross_entropy_with_logits",
        C([100.0, -100.0, 0.0], grad=True),
        C([0.0, 1.0, 1.0]),
        reduction=reduction,
    ).once()
    S(F + "cross_entropy", T(3, 4), INT([1, -100, 3]), reduction=reduction)
    S(F + "cross_entropy", T(3, 4), INT([1, -100, 3]), label_smoothing=0.1, reduction=reduction)
    S(F + "cross_entropy", T(2, 3), T(2, 3, low=0.0), label_smoothing=0.1, reduction=reduction)
    S(F + "mse_loss", T(2, 3), T(2, 3), reduction=reduction)
    S(F + "nll_loss", T(3, 4), INT([1, -100, 3]), reduction=reduction)
    S(F + "binary_cross_entropy_with_logits", T(2, 3), T(2, 3, low=0.0, high=1.0), reduction=reduction)
    for name in ("l1_loss", "smooth_l1_loss", "huber_loss"):
        S(F + name, T(3, 4), T(3, 4), reduction=reduction)
    S(F + "smooth_l1_loss", STRIDED(2, 3), T(2, 3), reduction=reduction, beta=0.25)
    S(F + "huber_loss", T(2, 3), TR(2, 3), reduction=reduction, delta=0.5)
    S(F + "binary_cross_entropy", T(3, 4, low=0.1, high=0.9), T(3, 4, low=0.1, high=1.0), reduction=reduction)
    S(F + "soft_margin_loss", T(2), C([1.0, -1.0]), reduction=reduction)
    S(F + "margin_ranking_loss", T(5), T(5), C([1.0, -1.0, 1.0, -1.0, 1.0]), 0.5, reduction=reduction)
    S(F + "hinge_embedding_loss", T(3, 2), C([[1.0, -1.0], [-1.0, 1.0], [1.0, -1.0]]), reduction=reduction)
    S(F + "cosine_embedding_loss", T(3, 4), T(3, 4), C([1.0, -1.0, -1.0]), -0.5, reduction=reduction)
    S(F + "triplet_margin_loss", T(3, 4), T(3, 4), T(3, 4), reduction=reduction)
    S(F + "nll_loss", T(2, 5, 3), I(2, 3), T(5, low=0.1, grad=False), ignore_index=2, reduction=reduction)
    S(F + "poisson_nll_loss", T(3, 4), T(3, 4, low=0.0, high=4.0), reduction=reduction)
    S(F + "poisson_nll_loss", T(3, 2, low=0.1), T(3, 2, low=0.1, high=4.0), False, True, reduction=reduction)
    S(F + "gaussian_nll_loss", T(3, 4), T(3, 4), T(3, 4, low=0.5), reduction=reduction)
    S(F + "gaussian_nll_loss", T(2, 2, 2), T(2, 2, 2), T(2, 2, low=0.5), True, reduction=reduction)
    S(F + "multi_margin_loss", T(3, 4), INT([1, 0, 3]), reduction=reduction)
    S(F + "multi_margin_loss", T(2, 3), INT([2, 2]), 2, 0.5, T(3, low=0.1, grad=False), reduction=reduction)
    S(F + "multilabel_soft_margin_loss", T(3, 4), T(3, 4, low=0.0, high=1.0), reduction=reduction)
for reduction in ("mean", "sum", "none", "batchmean"):
    S(F + "kl_div", T(3, 4), T(3, 4, low=0.1, high=0.9), reduction=reduction)
    S(F + "kl_div", T(3, 4), T(3, 4), reduction=reduction, log_target=True)
S(F + "hinge_embedding_loss", T(3), C([2.0, 0.0, -0.5]))  # neither 1 nor -1: both
for full in (True, False):  # Stirling's approximation begins above 1
    S(F + "poisson_nll_loss", T(5), C([0.0, 1.0, 1.5, -1.0, nan]), full=full, reduction="none").kink()
S(F + "poisson_nll_loss", T(3), INT([0, 1, 3]), full=True, eps=0.5)
S(F + "poisson_nll_loss", C([0.0, 2.0, -1.0], grad=True), T(3), False, reduction="none").kink()
S(F + "poisson_nll_loss", C([0.0, 1.0, 2.0], grad=True), T(3), False, eps=0.25)
S(F + "poisson_nll_loss", T(), T(2, 1, low=0.0), full=True)
S(F + "poisson_nll_loss", T(0), T(0))
S(F + "poisson_nll_loss", I(2), INT([0, 2]), full=True, reduction="none")
S(F + "poisson_nll_loss", I(2, low=1), T(2), log_input=False)
E(F + "poisson_nll_loss", T(2), T(3), raises=RuntimeError, match=("poisson_nll_loss", (2,), (3,)))
E(F + "poisson_nll_loss", T(2), T(2), reduction="all", raises=ValueError, match=("poisson_nll_loss", "'all'"))
for shape in ((3, 2), (3, 1), (1, 2), (3,)):
    S(F + "gaussian_nll_loss", T(3, 2), T(2), T(*shape, low=0.5), reduction="none")
S(F + "gaussian_nll_loss", T(3), T(3), C([0.0, 1e-7, 2.0], grad=True), eps=1e-3, reduction="none").kink()
S(F + "gaussian_nll_loss", T(2), T(2), C([nan, 1.0], grad=True), reduction="none").kink()
S(F + "gaussian_nll_loss", T(2), T(2), 0.5, full=True)
S(F + "gaussian_nll_loss", T(2), T(2), 0.0, eps=0.25)
S(F + "gaussian_nll_loss", T(), T(), T(low=0.5))
S(F + "gaussian_nll_loss", T(1), T(1), T(low=0.5))
S(F + "gaussian_nll_loss", T(0), T(0), T(0))
S(F + "gaussian_nll_loss", I(2), I(2), T(2, low=0.5))
for shape in ((1, 1), (3,), (2, 2, 1), (1, 2, 2)):
    E(
        F + "gaussian_nll_loss",
        T(2, 2),
        T(2, 2),
        T(*shape, low=0.5),
        raises=ValueError,
        match=("gaussian_nll_loss", shape),
    )
E(F + "gaussian_nll_loss", T(2), T(2), C([-1.0, 1.0]), raises=ValueError, match=("gaussian_nll_loss", "-1.0"))
E(F + "gaussian_nll_loss", T(2), T(2), -0.5, raises=ValueError, match=("gaussian_nll_loss", "-0.5"))
E(F + "gaussian_nll_loss", I(2), T(2), I(2), raises=RuntimeError, match=("gaussian_nll_loss", "int64"))
for p in (1, 2):
    S(
        F + "multi_margin_loss", C([[1.0, 0.0, 2.0], [0.0, -1.0, 0.0]], grad=True), INT([0, 0]), p, reduction="none"
    ).kink()
    S(F + "multi_margin_loss", T(4), INT(3), p, -0.5, reduction="none")
    S(F + "multi_margin_loss", T(4), INT([3]), p, 0.0, reduction="none")
    S(F + "multi_margin_loss", T(1, 1), INT([0]), p)
S(F + "multi_margin_loss", T(), INT(0))
S(F + "multi_margin_loss", T(1, 3), INT(1), reduction="none")
S(F + "multi_margin_loss", T(0, 3), INT([]), reduction="none")
S(F + "multi_margin_loss", STRIDED(3, 2), INT([1, 0, 1]))
for target in ([3], [-1]):
    E(
        F + "multi_margin_loss",
        T(1, 3),
        INT(target),
        raises=(RuntimeError, IndexError),
        match=("multi_margin_loss", target[0]),
    )
E(F + "multi_margin_loss", T(2, 3), INT([0]), raises=RuntimeError, match=("multi_margin_loss", (2, 3), (1,)))
E(F + "multi_margin_loss", T(2, 3), T(2), raises=RuntimeError, match=("multi_margin_loss", "float64"))
E(F + "multi_margin_loss", T(1, 1, 3), INT([[0]]), raises=RuntimeError, match=("multi_margin_loss", (1, 1, 3)))
E(F + "multi_margin_loss", T(2, 0), INT([0, 0]), raises=RuntimeError, match=("multi_margin_loss", (2, 0)))
E(F + "multi_margin_loss", T(1, 3), INT([0]), 3, raises=ValueError, match=("multi_margin_loss", "got 3"))
E(
    F + "multi_margin_loss",
    T(1, 3),
    INT([0]),
    weight=T(2),
    raises=RuntimeError,
    match=("multi_margin_loss", (2,), "3 c"),
)
E(F + "multi_margin_loss", T(1, 3), INT([0]), weight=T(1, 3), raises=ValueError, match=("multi_margin_loss", (1, 3)))
S(F + "multilabel_soft_margin_loss", T(2, 3), T(2, 3), T(3, low=0.1, grad=False), reduction="none")
S(F + "multilabel_soft_margin_loss", T(2, 3, 2), I(2, 3, 2, high=2), reduction="none")
S(F + "multilabel_soft_margin_loss", C([0.0, 100.0, -100.0, inf, -inf], grad=True), C([1.0, 0.0, 1.0, 1.0, 0.0])).kink()
S(F + "multilabel_soft_margin_loss", T(1), T(1), reduction="none")
S(F + "multilabel_soft_margin_loss", T(3), T(2, 3), reduction="none")
S(F + "multilabel_soft_margin_loss", T(2, 0), T(2, 0), reduction="none")
S(F + "multilabel_soft_margin_loss", T(0, 2), T(0, 2))
E(F + "multilabel_soft_margin_loss", T(), T(), raises=IndexError, match=("multilabel_soft_margin_loss", "0-d"))
E(F + "multilabel_soft_margin_loss", I(2), T(2), raises=RuntimeError, match=("multilabel_soft_margin_loss", "int64"))
for p in (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, inf):
    S(f"pdist {F}pdist", T(4, 3), p)
    S("pdist", C([[1.0, 2.0], [1.0, 2.0], [3.0, 2.0]], grad=True), p).kink()
    S("pdist", T(2, 1), p)
    S("pdist", T(3, 0), p)
    S("cdist", C([[1.0, 2.0], [3.0, 2.0]], grad=True), C([[1.0, 2.0], [1.0, 5.0]], grad=True), p).kink()
S("pdist", T(1, 3))
S("pdist", T(0, 3, grad=False))  # PyTorch 2.13 crashes in its gradient
S("pdist", STRIDED(3, 2))
E("pdist", T(3), raises=RuntimeError, match=("pdist", (3,)))
E("pdist", I(3, 2), raises=RuntimeError, match=("pdist", "int64"))
for p in (-1.0, nan):
    E("pdist", T(3, 2), p, raises=RuntimeError, match=("pdist", p))
S(F + "kl_div", T(4), C([0.0, 0.25, 0.75, 0.0]))
S(F + "kl_div", T(), T(4, low=0.1, high=0.9), reduction="batchmean")
S(F + "smooth_l1_loss", C([0.0, 1.0, -1.0, 3.0, nan], grad=True), C([0.0] * 5), reduction="none").kink()
S(F + "smooth_l1_loss", T(3), T(3), beta=0.0)
S(F + "huber_loss", C([0.0, 1.0, -1.0, 3.0, nan], grad=True), C([0.0] * 5), reduction="none").kink()
S(F + "l1_loss", C([0.0, 1.0, -1.0, 3.0, nan], grad=True), C([0.0] * 5), reduction="none").kink()
S(F + "binary_cross_entropy", C([0.0, 1.0, 0.5]), C([1.0, 0.0, 1.0]))
S(F + "binary_cross_entropy", T(3, 4, low=0.1, high=0.9), T(3, 4, low=0.0, high=1.0), T(4, low=0.1, grad=False))
S(F + "cosine_similarity", T(3, 4), T(3, 4))
S(F + "cosine_similarity", T(2, 3, 4), T(3, 4), dim=-1)
S(F + "pairwise_distance", T(3, 4), T(3, 4))
S(F + "pairwise_distance", T(3, 4), T(3, 4), p=1.0, keepdim=True)
S(F + "triplet_margin_loss", T(3, 4), T(3, 4), T(3, 4), margin=0.5, p=1.0, swap=True)
E(F + "smooth_l1_loss", T(3), T(3), beta=-1.0, raises=RuntimeError, match=("smooth_l1_loss", r"-1\.0"))
E(F + "huber_loss", T(3), T(3), delta=0.0, raises=(RuntimeError, ValueError), match=("huber_loss", r"0\.0"))
E(F + "binary_cross_entropy", C([1.5]), C([1.0]), raises=RuntimeError, match=("binary_cross_entropy", r"1\.5"))
E(F + "binary_cross_entropy", T(3), T(4), raises=ValueError, match=("binary_cross_entropy", (4,), (3,)))
for name in ("l1_loss", "smooth_l1_loss", "huber_loss"):
    E(F + name, T(3, 4), T(5), raises=RuntimeError, match=(name, (3, 4), (5,)))
S(F + "nll_loss", T(4, 5), INT([1, 3, 4, 3]), ignore_index=3)
S(F + "nll_loss", T(2, 5, 3), I(2, 3))
S(F + "mse_loss", T(), T())
S(F + "binary_cross_entropy_with_logits", T(3, 4), T(3, 4, low=0.0, high=1.0), weight=T(4, low=0.1, grad=False))
S(F + "binary_cross_entropy_with_logits", T(3, 4), T(3, 4, low=0.0, high=1.0), pos_weight=T(4, low=0.1, grad=False))
S(F + "cross_entropy", STRIDED(4, 5), TARGET)
S(F + "cross_entropy", T(3, 37), I(3, high=37)).large()
S(F + "cross_entropy", T(4, 5, dtype="float32"), TARGET)
S(F + "cross_entropy", C([[1000.0, 0.0, -1000.0], [-1000.0, 1000.0, 0.0]], grad=True), INT([1, 1])).kink()
S(F + "cross_entropy", C([[-inf, 0.0, 1.0], [0.0, -inf, 1.0]], grad=True), INT([1, 1]), reduction="none").kink()
S(F + "cross_entropy", C([[nan, 0.0], [0.0, 1.0]], grad=True), INT([1, -100]), reduction="none").kink()
E(F + "cross_entropy", T(4, 5), INT([1, 5, 0, 0]), raises=IndexError, match=("cross_entropy", 5))
E(F + "cross_entropy", T(4, 5), INT([1, -1, 0, 0]), raises=IndexError, match=("cross_entropy", -1))
E(
    F + "cross_entropy",
    T(4, 5),
    I(3),
    raises=(RuntimeError, ValueError),
    match=("cross_entropy", r"(\(4, 5\).*\(3,?\)|\(3,?\).*\(4, 5\)|\b4\b.*\b3\b|\b3\b.*\b4\b)"),
)
E(
    F + "cross_entropy",
    T(4, 5),
    T(4, 6),
    raises=(RuntimeError, ValueError),
    match=("cross_entropy", (4, 5), (4, 6)),
)
E(
    F + "cross_entropy",
    T(4, 5),
    I(4),
    reduction="average",
    raises=ValueError,
    match=("cross_entropy|reduction", "average"),
)
E(
    F + "cross_entropy",
    T(4, 5),
    I(4),
    label_smoothing=1.5,
    raises=(RuntimeError, ValueError),
    match=("label_smoothing", r"1\.5"),
)
E(
    F + "cross_entropy",
    T(4, 5),
    I(4),
    weight=T(4, grad=False),
    raises=RuntimeError,
    match=("(weight|cross_entropy)", r"(\(4,?\)|\b5\b)"),
)
E(F + "nll_loss", T(4, 5), INT([1, 5, 0, 0]), raises=IndexError, match=("nll_loss|gather", 5))
E(F + "mse_loss", T(3, 4), T(5), raises=RuntimeError, match=("mse_loss|sub", (3, 4), (5,)))
E(
    F + "binary_cross_entropy_with_logits",
    T(3),
    T(4),
    raises=ValueError,
    match=("binary_cross_entropy_with_logits", (4,), (3,)),
)

group("attention")
SDPA = F + "scaled_dot_product_attention"
S(SDPA, T(2, 4, 3, 5), T(2, 2, 3, 5), T(2, 2, 3, 5), enable_gqa=True).once()
S(SDPA, T(4, 3, 2), T(2, 3, 2), T(2, 3, 2), enable_gqa=True).once()
S(SDPA, T(2, 3, 0, grad=False), T(2, 4, 0, grad=False), T(2, 4, 2))
E(
    SDPA,
    T(2, 4, 3, 5),
    T(2, 3, 3, 5),
    T(2, 3, 3, 5),
    enable_gqa=True,
    raises=RuntimeError,
    match=("scaled_dot_product_attention", "gqa", (2, 3, 3, 5)),
)
Q, K, V = T(1, 2, 3, 2), T(1, 2, 3, 2), T(1, 2, 3, 2)
S(SDPA, Q, K, V)
S(SDPA, T(1, 2, 2), T(1, 3, 2), T(1, 3, 2))
S(SDPA, T(1, 2, 2), T(1, 2, 2), T(1, 2, 2), is_causal=True)
S(SDPA, T(1, 2, 2), T(1, 3, 2), T(1, 3, 1), attn_mask=BOOL([[True, True, False], [False, True, False]]), scale=0.5)
S(SDPA, T(1, 2, 1), T(1, 3, 1), T(1, 3, 1), attn_mask=T(2, 3))
S(SDPA, T(1, 2, 2), T(1, 3, 2), T(1, 3, 1), attn_mask=T(2, 3), scale=0.3)
S(SDPA, Q, K, V, is_causal=True)
S(SDPA, Q, K, V, None, 0.0, True)
S(SDPA, Q, K, V, scale=0.3)
S(SDPA, Q, K, V, is_causal=True, scale=2.0)
S(SDPA, T(2, 3, 4), T(2, 5, 4), T(2, 5, 3))  # C != M, and values of another size
S(SDPA, T(2, 3, 2), T(2, 5, 2), T(2, 5, 2), is_causal=True)
S(SDPA, T(5, 2), T(3, 2), T(3, 2), is_causal=True)
S(SDPA, T(3, 2), T(4, 2), T(4, 2))
S(SDPA, T(2, 3, 2), T(2, 4, 2), T(2, 4, 2), attn_mask=B(3, 4))
S(SDPA, T(2, 2, 3, 2), T(2, 2, 4, 2), T(2, 2, 4, 2), attn_mask=B(2, 1, 3, 4)).once()
S(
    SDPA,
    T(2, 2, 2, 2),
    T(2, 2, 3, 2),
    T(2, 2, 3, 2),
    attn_mask=BOOL([[[[True, True, False]]], [[[True, False, False]]]]),
).once()
S(
    SDPA,
    T(1, 3, 2),
    T(1, 3, 2),
    T(1, 3, 2),
    attn_mask=BOOL([[True, False, False], [False, False, False], [True, True, True]]),
).kink()
S(SDPA, T(1, 2, 2), T(1, 3, 2), T(1, 3, 2), attn_mask=BOOL([[False] * 3] * 2)).kink()  # 0, and gradient 0
S(SDPA, T(2, 3, 2), T(2, 4, 2), T(2, 4, 2), attn_mask=T(3, 4, grad=False))
S(SDPA, T(2, 3, 2), T(2, 4, 2), T(2, 4, 2), attn_mask=T(2, 3, 4))
S(SDPA, T(1, 2, 2), T(1, 3, 2), T(1, 3, 2), attn_mask=C([[0.0, -inf, 0.0], [-inf, 0.5, -inf]])).once()
S(SDPA, TR(2, 3, 2), TR(2, 4, 2), STRIDED(2, 4, 2))
S(SDPA, TR(2, 3, 2), T(2, 3, 2), T(2, 3, 2), is_causal=True)
S(SDPA, T(2, 1, 2, 2), T(1, 2, 3, 2), T(2, 3, 2))
S(SDPA, T(2, 1, 2, 2, 2), T(2, 1, 2, 3, 2), T(2, 3, 2), attn_mask=BOOL([[[True, True, False]], [[False, True, True]]]))
S(SDPA, T(2, 2, 2), T(2, 3, 2), T(2, 3, 2), attn_mask=BOOL([True, True, False]))
S(SDPA, T(0, 3, 2), T(0, 4, 2), T(0, 4, 2))
S(SDPA, T(2, 0, 2), T(2, 4, 2), T(2, 4, 2))
S(SDPA, T(2, 1, 2), T(2, 1, 2), T(2, 1, 2), is_causal=True)
S(SDPA, T(1, 2, 9, 4), T(1, 2, 19, 4), T(1, 2, 19, 4)).large()
S(SDPA, T(1, 19, 4), T(1, 19, 4), T(1, 19, 4), is_causal=True).large()
S(SDPA, Q, K, V, dropout_p=0.5).random()
S(SDPA, C([[[100.0, 0.0], [0.0, 100.0]]], grad=True), C([[[100.0, 0.0], [0.0, 100.0]]], grad=True), T(1, 2, 2)).kink()
E(SDPA, T(2, 3, 4), T(2, 5, 6), T(2, 5, 4), raises=RuntimeError, match=("attention", (2, 3, 4), (2, 5, 6)))
E(SDPA, T(2, 3, 4), T(2, 5, 4), T(2, 6, 4), raises=RuntimeError, match=("attention", (2, 5, 4), (2, 6, 4)))
E(SDPA, T(2, 3, 4), T(2, 5, 4), T(2, 5, 4), attn_mask=B(4, 5), raises=RuntimeError, match=("attention", (4, 5)))
E(
    SDPA,
    T(2, 3, 4),
    T(2, 3, 4),
    T(2, 3, 4),
    attn_mask=B(3, 3),
    is_causal=True,
    raises=RuntimeError,
    match=("attention", "attn_mask", "is_causal"),
)
E(SDPA, T(2, 3, 4), T(2, 3, 4), T(2, 3, 4), attn_mask=I(3, 3), raises=RuntimeError, match=("attention", "int64"))

S(F + "one_hot", INT([0, 2, 1]))
S(F + "one_hot", INT([0, 2, 1]), 5)
S(F + "one_hot", I(2, 3, high=4), num_classes=4)
S(F + "one_hot", INT(1), 3)
S(F + "one_hot", I(0), 3)
E(F + "one_hot", INT([0, 3]), 3, raises=(RuntimeError, IndexError), match=("one_hot", 3))
E(F + "one_hot", INT([0, -1]), 3, raises=(RuntimeError, IndexError), match=("one_hot", "(-1|negative)"))
E(F + "one_hot", T(3), 3, raises=RuntimeError, match=("one_hot", "(int64|float)"))

# --- the table: creation, dtypes, in-place ---------------------------------------------------------------

group("creation")
S("arange", 5)
S("arange", 5.0)
S("arange", 2, 7)
S("arange", 1, 10, 3)
S("arange", 5, 0, -2)
S("arange", 0, 1, 0.25)
S("arange", 0.5, 3.0)
S("arange", 0)
S("arange", 3, 3)
S("arange", 4, dtype=DT("float32"))
S("arange", 4, dtype=DT("float64"))
S("arange", 0, 10, 3, dtype=DT("int32"))
S("arange", 0, 10, 3.5, dtype=DT("int32"))
S("arange", 0.75, 10, 2.5, dtype=DT("int64"))
S("arange", start=1, end=4)
S("arange", 1, 2, 0.1, dtype=DT("float64"))
S("linspace", 0, 1, 5)
S("linspace", -1.0, 2.0, 4, dtype=DT("float64"))
S("linspace", 3, 1, steps=3)
S("linspace", 0, 1, 1)
S("linspace", 0, 1, 0)
for name in ("zeros", "ones"):
    S(name, 2, 3)
    S(name, (2, 3))
    S(name, [2, 0])
    S(name, ())
    S(name, 3, dtype=DT("int64"))
    S(name, 2, 2, dtype=DT("bool"))
    S(name, 2, dtype=DT("float64"), requires_grad=True)
    S(f"{name}_like", T(2, 3))
    S(f"{name}_like", I(2, 3))
    S(f"{name}_like", T(2, 3), dtype=DT("int64"))
    S(f"{name}_like", TR(2, 3, dtype="float64"))
    S(f"{name}_like", T())
    S(f"Tensor.new_{name}", T(2, 3, dtype="float64"), 4)
    S(f"Tensor.new_{name}", I(2), (2, 2))
S("full", (2, 3), 1.5)
S("full", (2, 3), 7)
S("full", (2,), True)
S("full", (), 2.5)
S("full", (2, 0), -inf)
S("full", (2,), 3, dtype=DT("float32"))
S("full", (2,), 2.5, dtype=DT("float64"))
S("full_like", T(2, 3), 4)
S("full_like", I(2, 3), 4)
S("full_like", T(2, 3), -inf, dtype=DT("float32"))
S("Tensor.new_full", T(2, dtype="float64"), (2, 2), 3)
S("eye", 3)
S("eye", 2, 4)
S("eye", 3, dtype=DT("bool"))
S("eye", 0)
S("tril", INT([[1] * 4] * 4))
S("empty", 2, 3).random()
S("empty_like", I(2, 3)).random()
S("empty_permuted", (2, 3, 4), (1, 0, 2)).random()
S("rand", 2, 3).random()
S("rand", (2, 3), dtype=DT("float64")).random()
S("randn", 2, 3).random()
S("randn", ()).random()
S("randn_like", T(2, 3, dtype="float64")).random()
S("rand_like", T(2, 3)).random()
S("randint", 10, (2, 3)).random()
S("randint", 0, 10, (4,)).random()
S("randint", 3, 4, (5,))
S("randperm", 5).random()
S("Tensor.normal_", T(3, 2, grad=False)).random()
S("Tensor.uniform_", T(3, 2, grad=False), -1.0, 1.0).random()
S("bernoulli", C([0.0, 1.0, 1.0, 0.0]))
S("multinomial", C([0.0, 2.0, 0.0]), 1)
S("multinomial Tensor.multinomial", C([[0.0, 1.0, 0.0], [3.0, 0.0, 0.0]]), 2, replacement=True)
S("multinomial", T(3, 4, low=0.1, grad=False), 2).random()
S("tensor", 3)
S("tensor", 2.5)
S("tensor", True)
S("tensor", [1, 2, 3])
S("tensor", [1.0, 2])
S("tensor", [True, False])
S("tensor", [[1, 2], [3, 4.5]])
S("tensor", [])
S("tensor", [[], []])
S("tensor", [1, 2], dtype=DT("float32"))
S("tensor", [1.7, -1.7], dtype=DT("int64"))
S("tensor", [1.0, 2.0], dtype=DT("float64"), requires_grad=True)
S("tensor", [nan, inf, -inf])
S("tensor", [0.0, 0.5], dtype=DT("bool"))
S("tensor", [2**40])
S("as_tensor", [1.0, 2.0])
E("arange", 5, 0, raises=(RuntimeError, ValueError), match=("arange", 5, 0))
E("arange", 0, 5, 0, raises=(RuntimeError, ValueError), match=("arange", "step"))
E("arange", 0, inf, raises=(RuntimeError, ValueError), match=("arange", "inf"))
E("linspace", 0, 1, -1, raises=(RuntimeError, ValueError), match=("linspace", "(-1|steps)"))
E("zeros", -1, raises=(RuntimeError, ValueError), match=("zeros", -1))
E("zeros", 2.5, raises=TypeError, match=("zeros", r"(2\.5|float)"))
E("eye", -1, raises=(RuntimeError, ValueError), match=("eye", -1))
E("tensor", [[1, 2], [3]], raises=ValueError, match=("tensor", r"(ragged|length|\b2\b.*\b1\b|\b1\b.*\b2\b)"))
E("tensor", "text", raises=(TypeError, ValueError), match=("tensor", "numbers"))
E("tensor", [1, 2], requires_grad=True, raises=RuntimeError, match=r"float")
E("tensor", [1], dtyp=DT("float32"), raises=TypeError, match=r"dtyp")
E("multinomial", C([0.0, 0.0]), 1, raises=RuntimeError, match=("multinomial", r"(sum|zero|positive|\b0\b)"))
E("multinomial", C([-1.0, 2.0]), 1, raises=RuntimeError, match=("multinomial", "(negative|< 0|-1)"))
E("multinomial", C([nan, 2.0]), 1, raises=RuntimeError, match=("multinomial", "nan|finite"))
E(
    "multinomial",
    C([1.0, 2.0]),
    3,
    raises=RuntimeError,
    match=("multinomial", r"\b3\b|replacement"),
)

group("dtypes")
for name, x in (
    ("float", I(3)),
    ("float", T(3)),
    ("double", T(3)),
    ("double", I(3)),
    ("long", T(3)),
    ("long", B(3)),
    ("int", T(3)),
    ("bool", I(3, high=2)),
    ("bool", C(SPECIAL)),
    ("bool", T(0)),
):
    S(f"Tensor.{name}", x)
S("Tensor.long", C([1.7, -1.7, 0.2, -0.2]))
S("Tensor.to", T(3), DT("float64"))
S("Tensor.to", T(3), DT("float32"))
S("Tensor.to", T(3), dtype=DT("int64"))
S("Tensor.to", T(3), "cpu")
S("Tensor.to", T(3), "cpu", DT("float64"))
S("Tensor.to", T(3), T(1, dtype="float64", grad=False))
S("Tensor.to", T(3), DT("float64"), copy=True)
S("Tensor.type_as", I(3), T(1))
S("Tensor.cpu", T(3))
S("Tensor.clone clone", TR(2, 3))
S("Tensor.contiguous", TR(2, 3))
S("Tensor.contiguous", EXPANDED(2, 3))
S("Tensor.detach", T(3))
S("Tensor.item", C(2.5))
S("Tensor.item", INT([[3]]))
S("Tensor.item", BOOL(True))
S("Tensor.tolist", C([[1.0, 2.0], [3.0, nan]]))
S("Tensor.tolist", I(3))
S("Tensor.tolist", INT(4))
S("Tensor.shape", T(2, 3, 4))
S("Tensor.shape", T())
S("Tensor.size", T(2, 3, 4))
S("Tensor.size", T(2, 3, 4), -1)
S("Tensor.dim", T(2, 3))
S("Tensor.ndim", T(2, 3))
S("Tensor.numel numel", T(2, 3))
S("Tensor.numel", T(2, 0))
S("Tensor.__len__", T(2, 3))
S("Tensor.is_contiguous", TR(2, 3))
S("Tensor.is_contiguous", OFFSET(2, 3))
S("Tensor.stride", TR(2, 3))
S("Tensor.element_size", T(2, dtype="float64"))
S("Tensor.__bool__", C(0.0))
S("Tensor.__bool__", C([[2.0]]))
S("Tensor.__float__", C(2.5))
S("Tensor.__int__", C(-2.5))
S("Tensor.__contains__", C([1.0, 2.0]), 2.0)
S("Tensor.is_floating_point is_floating_point", I(2))
E("Tensor.item", T(2, 3), raises=(RuntimeError, ValueError), match=("item", r"\(2, 3\)|\b6\b"))
E("Tensor.item", T(0), raises=(RuntimeError, ValueError), match=("item", r"(\(0,?\)|\b0\b)"))
E("Tensor.__bool__", T(3), raises=(RuntimeError, ValueError), match=("bool", r"(\(3,?\)|\b3\b|any|all)"))
E("Tensor.__bool__", T(0), raises=(RuntimeError, ValueError), match=("bool", r"(\(0,?\)|\b0\b|empty)"))
E("Tensor.__len__", T(), raises=TypeError, match=("len", "0-d"))
E("Tensor.numpy", T(3), raises=RuntimeError, match=("numpy", "detach"))
E("Tensor.to", T(3), "cuda", raises=(RuntimeError, ValueError, AssertionError), match=("cuda", "(?i)cpu"))
E("Tensor.requires_grad_", I(3), raises=RuntimeError, match=r"float")

group("in_place")
for name in ("iadd", "isub", "imul", "itruediv"):
    method = {"iadd": "add_", "isub": "sub_", "imul": "mul_", "itruediv": "div_"}[name]
    S(f"operator.{name} Tensor.{method}", CLONE(3, 4), T(3, 4, low=0.5))
    S(f"operator.{name} Tensor.{method}", CLONE(3, 4), T(4, low=0.5))
    S(f"operator.{name} Tensor.{method}", CLONE(3, 4), 2.5)
    S(f"operator.{name} Tensor.{method}", CLONE(), 2)
    S(f"operator.{name} Tensor.{method}", CLONE(0, 3), 2)
    S(f"operator.{name} Tensor.{method}", T(3, 4, grad=False), I(4, low=1))
    S(f"operator.{name} Tensor.{method}", STRIDED(3, 4, grad=False), T(3, 1, low=0.5, grad=False))
    S(f"operator.{name} Tensor.{method}", T(3, dtype="float32", grad=False), C([1.5, 2.5, 3.5], dtype="float64"))
    if name != "itruediv":
        S(f"operator.{name} Tensor.{method}", I(3), 2)
        E(
            f"operator.{name}",
            I(3),
            2.5,
            raises=RuntimeError,
            match=(f"({method}|in place)", "float", "int64"),
        )
    else:
        E(f"operator.{name}", I(3), 2, raises=RuntimeError, match=("(div_|in place)", "float", "int64"))
    E(
        f"operator.{name}",
        CLONE(4),
        T(3, 4),
        raises=RuntimeError,
        match=(f"({method}|in place)", (4,), (3, 4)),
    )
    E(f"operator.{name}", T(3), 1.0, raises=RuntimeError, match=("(leaf|requires grad)", "(no_grad|clone)"))
S("operator.ipow Tensor.pow_", CLONE(3, 4), 2)
S("Tensor.add_", CLONE(3, 4), T(4), alpha=-0.5)
S("Tensor.zero_", CLONE(3, 4)).once()
S("Tensor.zero_", I(3))
S("Tensor.fill_", CLONE(3, 4), 2.5).once()
S("Tensor.fill_", STRIDED(3, 4, grad=False), 2)
S("Tensor.fill_", I(3), 7)
S("Tensor.copy_", CLONE(3, 4), T(3, 4))
S("Tensor.copy_", CLONE(3, 4), T(4))
S("Tensor.index_copy_", CLONE(3, 4), 0, INT([2, 0]), T(2, 4))
S("Tensor.index_copy_", CLONE(3, 4), 1, INT([3, 1]), T(3, 2))
S("Tensor.index_copy_", T(2, 3, 2, grad=False), 1, INT([1]), T(2, 1, 2, grad=False))
S("Tensor.index_copy_", TR(3, 4, grad=False), -1, INT([0]), T(3, 1, grad=False))
E("Tensor.index_copy_", T(3, grad=False), 0, INT([3]), T(1, grad=False), raises=(IndexError, RuntimeError), match="3")
E("Tensor.index_copy_", CLONE(3, 4), 0, INT([2]), T(2, 4), raises=(IndexError, RuntimeError), match=("index_copy_", 2))
S("Tensor.copy_", CLONE(3), I(3)).once()
S("Tensor.copy_", TR(3, 4, grad=False), T(3, 4, grad=False))
S("Tensor.copy_", I(3), C([1.7, -1.7, 2.0]))
S("Tensor.clamp_", CLONE(3, 4), -1.0, 1.0)
S("Tensor.clamp_", CLONE(3, 4), min=0.0)
S("Tensor.exp_", CLONE(3, 4))
S("Tensor.sqrt_", CLONE(3, 4, low=0.2))
S("Tensor.tanh_", CLONE(3, 4))
S("Tensor.relu_", CLONE(3, 4))
S("Tensor.neg_", CLONE(3, 4))
S("Tensor.masked_fill_", CLONE(3, 4), B(3, 4), -1.0)
S("Tensor.masked_fill_", CLONE(3, 4), B(4), 0)
E("Tensor.copy_", CLONE(3), T(4), raises=RuntimeError, match=("copy_|in place|expand", (4,), (3,)))
E("Tensor.zero_", T(3), raises=RuntimeError, match=("(leaf|requires grad)", "(no_grad|clone)"))

# --- the table: compositions -----------------------------------------------------------------------------

group("compositions")
for name in ("hstack", "vstack row_stack", "dstack", "column_stack"):
    S(name, [T(3), T(3)])
    S(name, (T(2, 3), T(2, 3)))
    S(name, [T(), T()])
S("hstack", [T(2), I(3)])
S("vstack", [T(2, 3), T(3)])
S("column_stack", [T(3), T(3, 2)])
S("concat concatenate", [T(2, 3), T(1, 3)], dim=0)
S("block_diag", T(2, 3), T(1, 2))
S("block_diag", T(2), T(), I(2, 1))
S("block_diag", C([1.0], dtype="float32"), C(2.0, dtype="float64"))
S("Tensor.tile tile", T(2, 3), (2, 2))
S("Tensor.tile", T(2, 3), 2)
S("Tensor.tile", T(2), 2, 1, 3)
S("Tensor.ravel ravel", TR(2, 3))
S("Tensor.swapaxes swapaxes Tensor.swapdims swapdims", T(2, 3, 4), 0, -1)
S("Tensor.moveaxis moveaxis", T(2, 3, 4), 0, 2)
S("Tensor.fliplr fliplr", T(2, 3))
S("Tensor.flipud flipud", T(2, 3))
for k in (-1, 0, 1, 2, 3):
    S("Tensor.rot90 rot90", T(2, 3), k)
S("rot90", T(2, 3, 2), 1, [1, 2])
S("rot90", T(2, 3), k=1, dims=(1, 0))
S("Tensor.select select", T(2, 3), 1, -1)
S("Tensor.select", T(2, 3), dim=0, index=1)
for name in ("atleast_1d", "atleast_2d", "atleast_3d"):
    for shape in ((), (3,), (2, 3), (2, 1, 3)):
        S(name, T(*shape))
    S(name, T(2), T())
    S(name, [T(2), T()])
S("Tensor.tensor_split tensor_split", T(7, 2), 3)
S("Tensor.tensor_split", T(7, 2), [2, 5])
S("Tensor.tensor_split", T(2, 5), (1, 9), dim=1)
S("Tensor.tensor_split", T(2, 5), 2, -1)
S("Tensor.hsplit hsplit", T(2, 4), 2)
S("hsplit", T(4), [1, 3])
S("Tensor.vsplit vsplit", T(4, 2), [1])
S("vsplit", T(4, 2), 2)
S("meshgrid", T(2), T(3), indexing="ij")
S("meshgrid", [T(2), T(3), T()], indexing="xy")
S("cartesian_prod", T(2), T(3))
S("cartesian_prod", I(3))
S("Tensor.diag diag", T(3))
S("Tensor.diag diag", T(2, 3))
S("Tensor.diag", T(2), 1)
S("Tensor.diag", T(3, 3), diagonal=-1)
S("Tensor.diag_embed diag_embed", T(2, 3))
S("Tensor.diag_embed", T(2, 3), offset=1, dim1=0, dim2=2)
S("Tensor.diag_embed", T(2), -1)
S("Tensor.trace trace", T(3, 3))
S("trace", T(2, 3))
S("tril_indices", 3, 4)
S("tril_indices", 3, 3, -1)
S("triu_indices", 3, 4, 1)
S("triu_indices", 2, 2, offset=1, dtype=DT("int32"))
S("Tensor.addmm addmm", T(2, 4), T(2, 3), T(3, 4))
S("addmm", T(4), T(2, 3), T(3, 4), beta=0.5, alpha=-2)
S("addmm", C([nan, nan]), T(2, 3), T(3, 2), beta=0)
S("Tensor.addmm_", CLONE(2, 2), T(2, 3), T(3, 2))
S("Tensor.addmv addmv", T(2), T(2, 3), T(3), alpha=2)
S("Tensor.baddbmm baddbmm", T(2, 2, 2), T(2, 2, 3), T(2, 3, 2), beta=2)
S("tensordot", T(2, 3, 4), T(3, 4, 2))
S("tensordot", T(2, 3), T(4, 3), dims=([1], [1]))
S("tensordot", T(2, 3), T(3), dims=1)
S("tensordot", T(2), T(3), dims=0)
S("tensordot", T(2, 3, 2), T(2, 2, 3), dims=([0, 1], [1, 2]))
S("Tensor.inner inner", T(3), T(3))
S("inner", T(2, 3), T(4, 3))
S("inner", T(), T(2))
S("Tensor.kron kron", T(2, 2), T(1, 3))
S("kron", T(2), T(2, 2))
S("Tensor.cumprod cumprod", T(2, 5), 1)
S("cumprod", T(4), dim=0)
S("cumprod", C([2.0, 0.0, 3.0, 0.0, 5.0], grad=True), 0).kink()
S("cumprod", I(5), 0)
S("cumprod", T(), 0)
S("cumprod", T(0, 2), 0)
S("Tensor.cumprod_", CLONE(3), 0)
S("Tensor.scatter scatter", T(3, 4), 1, INT([[0, 2], [3, 1], [1, 0]]), T(3, 2))
S("Tensor.scatter", T(3, 4), 0, INT([[0, 2, 1, 0]]), T(2, 4, grad=False))
S("Tensor.scatter", T(3, 4), 1, INT([[0], [2], [1]]), 1.5)
S("Tensor.scatter", T(2, 3), -1, INT([[0], [2]]), value=-1)
S("Tensor.scatter", T(2, 3), 0, I(0, 3), T(2, 3, grad=False))
S("Tensor.scatter", T(), 0, INT(0), T())
S("Tensor.scatter_", CLONE(3, 4), 1, INT([[0, 2], [3, 1], [1, 0]]), T(3, 2))
S("Tensor.scatter_", CLONE(2, 3), 1, INT([[1], [2]]), 2.0)
S("Tensor.scatter_add scatter_add", T(3, 4), 0, INT([[0, 1, 2, 0], [0, 0, 2, 2]]), T(2, 4))
S("Tensor.scatter_add", T(4), 0, INT([1, 1, 3]), T(3))
S("Tensor.scatter_add", I(4), 0, INT([1, 1, 3]), I(3))
S("Tensor.scatter_add", T(), 0, INT(0), T())
S("Tensor.scatter_add_", CLONE(4), 0, INT([1, 1, 3]), T(3))
S("Tensor.index_add index_add", T(3, 2), 0, INT([2, 0, 2]), T(3, 2))
S("Tensor.index_add", T(2, 3), -1, INT([1]), T(2, 1), alpha=-2)
S("Tensor.index_add", T(), 0, INT(0), T())
S("Tensor.index_add", C([1.0, 2.0, 3.0]), 0, INT([1]), C([2.0]), alpha=inf)
S("Tensor.index_add_", CLONE(3), 0, INT([0, 0]), T(2))
S("Tensor.index_copy index_copy", T(3, 2), 0, INT([2, 0]), T(2, 2))
S("Tensor.index_fill index_fill", T(3, 2), 1, INT([1]), 2.5)
S("Tensor.index_fill", T(3, 2), 0, INT([-1, 0]), C(1.5))
S("Tensor.index_fill_", CLONE(3, 2), 0, INT([2]), -1)
S("Tensor.index_put index_put", T(3, 2), (INT([0, 2]), INT([1, 1])), T(2))
S("index_put", T(3), (INT([0, 0, 2]),), T(3), accumulate=True)
S("index_put", T(3, 2), (INT([1, 1]),), T(2), True)
S("Tensor.index_put_", CLONE(3), [INT([1])], C(1.0))
S("Tensor.masked_scatter masked_scatter", T(2, 3), BOOL([[True, False, True], [False, True, False]]), T(4))
S("Tensor.masked_scatter", T(2, 2), BOOL([True, False]), T(2, 2))
S("Tensor.masked_scatter_", CLONE(3), BOOL([True, False, True]), T(2))
S("Tensor.take take", T(2, 3), INT([[0, 5], [-1, 2]]))
S("Tensor.take_along_dim take_along_dim", T(2, 3), INT([[0], [2]]), 1)
S("take_along_dim", T(2, 3), INT([[2, 0, 1]]), dim=1)
S("take_along_dim", T(2, 3), INT([5, 0]))
S("Tensor.bincount bincount", INT([3, 0, 3, 1]))
S("bincount", INT([3, 0, 3, 1]), C([0.5, 1.0, 0.25, 2.0], dtype="float64"))
S("bincount", INT([1]), minlength=4)
S("bincount", I(0), minlength=2)
S("Tensor.unique unique", INT([[3, 1], [2, 3]]))
S("unique", C([2.0, -1.0, 2.0]), return_inverse=True)
S("unique", INT([[3, 1], [2, 3]]), return_counts=True)
S("unique", INT([[3, 1], [2, 3]]), sorted=True, return_inverse=True, return_counts=True)
S("unique", I(0), return_inverse=True, return_counts=True)
S("Tensor.unique_consecutive unique_consecutive", INT([1, 1, 2, 1, 1, 1]), return_inverse=True, return_counts=True)
S("unique_consecutive", INT([[1, 1], [1, 3]]))
for right in (False, True):
    S("searchsorted", C([1.0, 2.0, 2.0, 3.0]), C([[0.0, 1.0, 2.0], [2.5, 3.0, 9.0]]), right=right)
    S("bucketize", C([0.0, 1.0, 2.0, nan]), C([1.0, 2.0]), right=right)
S("searchsorted", INT([[1, 3, 5], [0, 2, 4]]), INT([[3, 0], [3, 5]]), side="right")
S("searchsorted", C([1.0, 2.0]), 1.5)
S("bucketize", 2, INT([1, 2]), out_int32=True)
S("isin", INT([[1, 2], [3, 4]]), INT([4, 2, 9]))
S("isin", C([1.0, nan]), C([nan, 2.0]), invert=True)
S("isin", INT([1, 2]), 2)
S("isin", INT([1, 2]), I(0))
S("Tensor.nan_to_num nan_to_num", C([1.0, nan, inf, -inf], grad=True), 0.5, 9.0, -9.0).kink()
S("Tensor.nan_to_num", C([1.0, nan, 2.0]))
S("Tensor.nan_to_num", T(3))
S("nan_to_num", I(3))
S("Tensor.log2 log2", T(3, low=0.1))
S("Tensor.log10 log10", T(3, low=0.1))
S("Tensor.log2_", CLONE(3, low=0.1))
S("log10", INT([1, 1000]))
S("Tensor.clip clip", T(5), -1, 1)
S("Tensor.round round", T(4), decimals=1)
S("round", T(4, low=-500.0, high=500.0), decimals=-2)
S("Tensor.round_", CLONE(3), decimals=3)
S("absolute Tensor.absolute", T(4))
S("negative Tensor.negative", T(4))
S("subtract Tensor.subtract", T(4), T(4), alpha=2)
S("multiply Tensor.multiply", T(4), T(4))
S("divide Tensor.divide", T(4), T(4, low=0.5))
for name in ("greater", "greater_equal", "less", "less_equal", "not_equal"):
    S(f"{name} Tensor.{name}", INT([1, 2, 3]), 2)

# PyTorch's names of arguments
S("add", input=T(3), other=T(3), alpha=2)
S("mul", input=T(2, 3), other=T(3))
S("pow", input=T(3, low=0.5), exponent=T(3))
S("matmul", input=T(2, 3), other=T(3, 2))
S("mm", input=T(2, 3), mat2=T(3, 2))
S("exp", input=T(3))
S("clamp", input=T(3), min=0.5)
S("where", BOOL([True, False]), input=T(2), other=T(2))
S("max", input=T(3), other=T(3))
S("max", input=T(2, 3), axis=1, keepdims=True)
S("lerp", input=T(3), end=T(3), weight=0.5)
S("addcmul", T(3), tensor1=T(3), tensor2=T(3))
S("Tensor.eq", I(3), other=I(3))
S("Tensor.sum sum", T(2, 3), axis=1, keepdims=True)
S("Tensor.mean", T(2, 3), axis=(0, 1))
S("Tensor.std", T(2, 3), axis=0, keepdims=True)
S("Tensor.cumsum", T(2, 3), axis=-1)
S("cat", [T(2, 1), T(2, 2)], axis=1)
S("stack", [T(2), T(2)], axis=1)
S("Tensor.squeeze", T(2, 1), axis=1)
S("softmax", T(2, 3), axis=0)
S("Tensor.argmax", T(2, 3), axis=1, keepdims=True)
S("Tensor.flip flip", T(2, 3), dims=(0, 1))
S("Tensor.permute permute", T(2, 3, 4), dims=(2, 0, 1))
S("Tensor.reshape reshape", T(2, 3), shape=(3, -1))
S("Tensor.repeat", T(2), repeats=(2, 2))
S("tile", T(2), dims=(2,))
S("swapaxes", T(2, 3), axis0=0, axis1=1)
S("hsplit", T(2, 4), sections=2)
S("Tensor.add_", CLONE(3), other=T(3), alpha=2)
S("Tensor.mul_", CLONE(3), other=T(3))
E(
    "add",
    T(2, grad=False),
    T(2, grad=False),
    out=T(2, grad=False),
    raises=TypeError,
    match=("add", "out="),
    torch_accepts=True,
)
E("exp", T(2, grad=False), out=T(2, grad=False), raises=TypeError, match=("exp", "out="), torch_accepts=True)
E("Tensor.sum", T(2), axes=1, raises=TypeError, match=("axes",))
E("mul", T(2), others=T(2), raises=TypeError, match=("mul", "others"))
E("Tensor.sum", T(2), 0, axis=0, raises=TypeError, match=("axis",))
E("hstack", T(3), raises=TypeError, match="hstack")
E("hstack", [T(2, 3), T(3, 3)], raises=RuntimeError, match=("hstack", (2, 3), (3, 3)))
E("block_diag", T(1, 2, 3), raises=RuntimeError, match=("block_diag", (1, 2, 3)))
E("fliplr", T(3), raises=RuntimeError, match=("fliplr", (3,)))
E("rot90", T(2, 3), 1, [0, 0], raises=RuntimeError, match=("rot90", (2, 3)))
E("select", T(2, 3), 0, 2, raises=IndexError, match=("select", 2, (2, 3)))
E("hsplit", T(2, 3), 2, raises=RuntimeError, match=("hsplit", 2, (2, 3)))
E("vsplit", T(3), 1, raises=RuntimeError, match=("vsplit", (3,)))
E("meshgrid", T(2, 2), indexing="ij", raises=RuntimeError, match=("meshgrid", (2, 2)))
E("diag", T(2, 2, 2), raises=RuntimeError, match=("diag", (2, 2, 2)))
E("trace", T(3), raises=RuntimeError, match=("trace", (3,)))
E("addmm", T(2, 2), T(2, 3), T(2, 3), raises=RuntimeError, match=("addmm", 3, 2))
E("addmm", T(3, 2), T(2, 3), T(3, 2), raises=RuntimeError, match=("addmm", (3, 2), (2, 2)))
E("tensordot", T(2, 3), T(2, 3), dims=1, raises=RuntimeError, match=("tensordot", (2, 3)))
E("scatter", T(2, 3), 1, INT([[3]]), T(1, 1), raises=(RuntimeError, IndexError), match=("scatter", 3))
E("scatter_add", T(2, 3), 1, INT([[0, 0]]), T(1, 1), raises=RuntimeError, match=("scatter_add", (1, 2), (1, 1)))
E("scatter", T(2, 3), 1, T(2, 3), T(2, 3), raises=RuntimeError, match=("scatter", "float64"))
E("index_add", T(2, 3), 0, INT([2]), T(1, 3), raises=(RuntimeError, IndexError), match=("index_add", 2))
E("index_add", T(2, 3), 0, INT([1]), T(1, 2), raises=(RuntimeError, IndexError), match=("index_add", (1, 2), (1, 3)))
E("index_fill", T(2, 3), 0, INT([5]), 1, raises=IndexError, match=("index", 5))
E("masked_scatter", T(3), BOOL([True, True, True]), T(2), raises=RuntimeError, match=("masked_scatter", 3, 2))
E("take", T(3), T(2), raises=RuntimeError, match=("take", "float64"))
E("bincount", INT([-1]), raises=RuntimeError, match="bincount")
E("bincount", T(3), raises=RuntimeError, match=("bincount", "float64"))
E("searchsorted", T(2, 3), T(3), raises=RuntimeError, match=("searchsorted", (2, 3), (3,)))
E("bucketize", T(3), T(2, 2), raises=(RuntimeError, ValueError), match=("bucketize", (2, 2)))

# --- the table: tensors without a dimension, which count as having one where a dimension is named ----------

group("scalars")
X, ONE = T(low=0.25), T(1, low=0.25)
_UNARY = (
    "abs ceil clone cos erf exp expm1 floor isfinite isnan log log1p log2 log10 neg reciprocal round "
    "rsqrt sigmoid sign sin sqrt square tanh relu t flatten ravel contiguous numel float long bool "
    "nan_to_num logical_not isinf nonzero"
)
_OVER_DIM = "all amax amin any argmax argmin logsumexp max mean min norm prod sum"
_ALONG_DIM = "argsort cumsum cumprod sort softmax log_softmax squeeze"
_TAKING_APART = "unbind split chunk narrow select"
for name in _UNARY.split():
    sample = S(f"Tensor.{name}", X)
    if name in ("ceil", "floor", "round", "sign"):
        sample.kink()
for name in _OVER_DIM.split():
    S(f"Tensor.{name}", X, dim=0)
    S(f"Tensor.{name}", X, dim=-1, keepdim=True)
    E(f"Tensor.{name}", X, dim=1, raises=IndexError, match=("dim", 1, r"\(\)"))
for name in _ALONG_DIM.split():
    S(f"Tensor.{name}", X, 0)
    S(f"Tensor.{name}", X, dim=-1)
    E(f"Tensor.{name}", X, 1, raises=IndexError, match=("dim", 1, r"\(\)"))
for name in ("sum", "mean", "amax", "amin"):
    S(f"Tensor.{name}", X, (0,))
    S(f"Tensor.{name}", X, ())
for name in _TAKING_APART.split():
    rest = {"split": (1,), "chunk": (1,), "narrow": (0, 0, 1), "select": (0, 0)}.get(name, ())
    E(f"Tensor.{name}", X, *rest, raises=(RuntimeError, IndexError), match=(name, "0-d"))
S("Tensor.nonzero", X, as_tuple=True)
S("Tensor.nonzero", C(0.0))
S("Tensor.nonzero", C(0.0), as_tuple=True)
S("where", BOOL(True))
S("where", BOOL(False), X, ONE)
S("Tensor.transpose", X, 0, -1)
E("Tensor.transpose", X, 0, 1, raises=IndexError, match=("transpose", 1))
S("Tensor.permute", X, ())
S("Tensor.movedim", X, 0, -1)
S("Tensor.reshape", X, 1, 1)
S("Tensor.view", X, -1)
S("Tensor.expand", X, 2, 3)
S("Tensor.repeat", X, 2)
S("Tensor.repeat_interleave", X, 2)
S("Tensor.tile", X, 2)
S("Tensor.flip", X, 0)
S("Tensor.roll", X, 1)
S("Tensor.unsqueeze", X, -1)
S("Tensor.topk", X, 1)
S("Tensor.std", X, unbiased=False).kink()
S("Tensor.gather", X, 0, INT(0))
S("Tensor.gather", X, 0, INT([0]))
S("Tensor.index_select", X, 0, INT(0))
S("Tensor.index_select", X, 0, INT([0]))
S("Tensor.index_add", X, 0, INT([0]), X)
S("Tensor.index_fill", X, 0, INT(0), 2.0)
S("Tensor.index_copy", X, 0, INT(0), X)
S("Tensor.index_copy", X, 0, INT([0]), ONE)
S("Tensor.scatter", X, 0, INT([0]), ONE)
S("Tensor.scatter_add", X, 0, INT([0]), ONE)
S("Tensor.take", X, INT([0]))
S("Tensor.masked_select", X, BOOL(True))
S("Tensor.masked_fill", X, BOOL(True), 2.0)
S("Tensor.masked_scatter", X, BOOL(True), X)
S("Tensor.__getitem__", X, None)
S("Tensor.__getitem__", X, ())
S("Tensor.__getitem__", X, BOOL(True))
E("Tensor.__getitem__", X, 0, raises=IndexError, match=("index", r"\(\)"))
S("stack", [X, X])
S("hstack", [X, X])
S("einsum", ",->", X, X)
S("tensordot", X, X, 0)
S("broadcast_tensors", X, ONE)
S("Tensor.add_", CLONE(low=0.25), X)
S(F + "mse_loss", X, X)
S(F + "l1_loss", X, X).kink()
S(F + "binary_cross_entropy_with_logits", X, X)
S(F + "embedding", INT(0), T(2, 3))
E("cat", [X, X], raises=RuntimeError, match=("cat", "0-d"))
E("matmul", X, X, raises=RuntimeError, match=("matmul", r"\(\)"))
E("outer", X, X, raises=RuntimeError, match=("outer", r"\(\)"))

# --- the table: neighbours of the above ------------------------------------------------------------------

group("neighbours")
for name in ("floor", "ceil", "round"):
    S(f"Tensor.{name} {name}", T(3, 4))
    S(f"Tensor.{name} {name}", C([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, nan, inf, -0.0]))  # halves go to the even one
    S(f"Tensor.{name} {name}", I(3))
    S(f"Tensor.{name} {name}", T(0))
for x in (T(3, 4, low=0.5), STRIDED(3, low=0.5), T(), T(0), I(3, low=1)):
    S("Tensor.square square", x)
    S("Tensor.reciprocal reciprocal", x)
S("Tensor.reciprocal reciprocal", C([0.0, -0.0, inf, nan], grad=True)).kink()
S("Tensor.div div", T(3, 4, grad=False), T(4, low=0.5, grad=False), rounding_mode="floor")
S("Tensor.div div", T(3, 4, grad=False), T(4, low=0.5, grad=False), rounding_mode="trunc")
S("div", INT([-7, -6, 6, 7]), 2, rounding_mode="trunc")
S("div", INT([-7, -6, 6, 7]), 2, rounding_mode="floor")
E("div", T(3), T(3), rounding_mode="up", raises=(RuntimeError, ValueError), match=("div", "up"))
S("Tensor.addcmul addcmul", T(3, 4), T(3, 4), T(4))
S("Tensor.addcmul addcmul", T(3, 4), T(3, 1), T(4), value=-0.5)
S("Tensor.addcdiv addcdiv", T(3, 4), T(3, 4), T(4, low=0.5), value=2.0)
S("Tensor.lerp lerp", T(3, 4), T(3, 4), 0.3)
S("Tensor.lerp lerp", T(3, 4), T(4), T(3, 1))
for name in ("clamp_min", "clamp_max"):
    S(f"Tensor.{name} {name}", T(3, 4), 0.25)
    S(f"Tensor.{name} {name}", T(3, 4), T(4))
S("mm Tensor.mm", T(3, 4), T(4, 2))
S("bmm Tensor.bmm", T(2, 3, 4), T(2, 4, 2))
S("mv Tensor.mv", T(3, 4), T(4))
S("dot Tensor.dot", T(4), T(4))
S("outer Tensor.outer", T(3), T(4))
E("mm", T(3, 4), T(2, 4, 5), raises=RuntimeError, match=("mm", (2, 4, 5)))
E("bmm", T(3, 4), T(4, 5), raises=RuntimeError, match=("bmm", (3, 4)))
E("dot", T(3), T(4), raises=RuntimeError, match=("dot|matmul", (3,), (4,)))
S("Tensor.norm norm", T(3, 4))
S("Tensor.norm norm", T(3, 4), dim=1)
S("Tensor.norm norm", T(3, 4), dim=0, keepdim=True)
S("Tensor.norm norm", C([0.0, 0.0], grad=True)).kink()
S("Tensor.narrow narrow", T(4, 5), 1, 2, 3)
S("Tensor.narrow narrow", T(4, 5), 0, 1, 0)
S("Tensor.unflatten unflatten", T(2, 6), 1, (2, 3))
S("Tensor.unflatten unflatten", T(6, 2), 0, (3, -1))
S("Tensor.diagonal diagonal", T(3, 4))
S("Tensor.repeat_interleave repeat_interleave", T(3), 2)
S("Tensor.repeat_interleave repeat_interleave", T(2, 3), 2, dim=0)
S("Tensor.repeat_interleave repeat_interleave", T(2, 3), 3, dim=-1)
S("Tensor.repeat_interleave repeat_interleave", T(2, 3), 2)
S("Tensor.index_select index_select", T(4, 5), 0, INT([2, 0, 2]))
S("Tensor.index_select index_select", T(4, 5), -1, INT([4, 4]))
S("Tensor.index_select index_select", T(4, 5), 1, INT(3))
S("Tensor.index_select index_select", T(4, 5), 1, I(2, high=5, dtype="int32"))
E("Tensor.index_select", T(4, 5), 0, INT([-1]), raises=IndexError, match=("index", -1))
E("Tensor.index_select", T(4, 5), 0, INT([[0, 1]]), raises=IndexError, match=("index_select", (1, 2)))
E("Tensor.index_select", T(4, 5), 0, BOOL([True, False]), raises=RuntimeError, match=("index_select", "bool"))
E("Tensor.index_select", T(4, 5), 0, INT([4]), raises=(IndexError, RuntimeError), match=("index", 4))
E("Tensor.narrow", T(4, 5), 0, 3, 2, raises=(RuntimeError, IndexError), match=("narrow", 3))
S("Tensor.masked_select masked_select", T(3, 4), B(3, 4))
S("Tensor.masked_select masked_select", T(3, 4), B(4))
S("Tensor.nonzero nonzero", C([[1.0, 0.0], [0.0, nan], [-0.0, 2.0]]))
S("Tensor.nonzero nonzero", B(2, 3, 2))
S("Tensor.nonzero", I(4, high=2), as_tuple=True)
S("nonzero", T(0, grad=False))
S("where", BOOL([[True, False], [True, True]]))

# --- the table: functions composed of others --------------------------------------------------------------

group("functions")
for names, low, high in (
    ("tan", -1.4, 1.4),
    ("sinh", -3.0, 3.0),
    ("cosh", -3.0, 3.0),
    ("asin arcsin", -0.9, 0.9),
    ("acos arccos", -0.9, 0.9),
    ("atan arctan", -3.0, 3.0),
    ("asinh arcsinh", -3.0, 3.0),
    ("acosh arccosh", 1.2, 4.0),
    ("erfinv", -0.9, 0.9),
    ("lgamma", 0.1, 5.0),
    ("atanh arctanh", -0.9, 0.9),
    ("exp2", -3.0, 3.0),
    ("logit", 0.1, 0.9),
    ("deg2rad", -200.0, 200.0),
    ("rad2deg", -4.0, 4.0),
):
    spellings = " ".join(f"Tensor.{name} {name}" for name in names.split())
    S(spellings, T(3, 4, low=low, high=high))
    S(spellings, C([0.25, 1.0, 1e-9] if names != "logit" else [0.25, 0.0, 1.0]))
    S(spellings, T(0, low=low, high=high))
    S(spellings, I(2, low=1, high=2))
    S(f"Tensor.{names.split()[0]}_", CLONE(3, low=low, high=high, grad=False))
S("Tensor.digamma digamma", T(3, 4, low=-0.9, high=5.0, grad=False))  # PyTorch's slope of it has nine digits
S("Tensor.digamma digamma", I(2, low=1, high=2))
S("Tensor.digamma_", CLONE(3, low=-0.9, high=5.0, grad=False))
S("polygamma", 0, T(3, 4, low=0.1, high=5.0, grad=False))
for n in (2, 3):
    S("polygamma", n, T(3, 4, low=0.1, high=5.0))
S("Tensor.polygamma", T(3, low=-2.9, high=-2.1), 2)
S("Tensor.polygamma_", CLONE(3, low=0.1, high=5.0, grad=False), 2)
E("polygamma", -1, T(3), raises=RuntimeError, match=("polygamma", "0 to 170", "-1"))
E("polygamma", 1.5, T(3), raises=TypeError, match=("polygamma", "whole number", "1.5"))
S("Tensor.logit", T(3, low=-0.5, high=1.5), 0.1)
for name in ("atan2 arctan2", "hypot", "logaddexp"):
    spellings = " ".join(f"Tensor.{n} {n}" for n in name.split())
    S(spellings, T(3, 4), T(4))
    S(spellings, T(2), T())
S(
    "Tensor.atan2 atan2", C([1.0, -1.0, 0.0, 0.0, 0.0, 2.0], grad=True), C([0.0, 0.0, 1.0, -1.0, 2.0, 2.0], grad=True)
).kink()
S("atan2", C([0.0, inf, nan, 1.0]), C([0.0, 1.0, 1.0, -inf]))
S("atan2", C([1.0, 2.0], dtype="float32"), C(2.0, dtype="float64"))
S("logaddexp", C([1000.0, -1000.0, inf]), C([1000.0, -999.0, 2.0]))
S("Tensor.xlogy xlogy", T(3, 4), T(4, low=0.5))
S("xlogy", C([0.0, 0.0, 2.0, 0.0]), C([0.0, nan, 3.0, -1.0]))
S("xlogy", 0.5, T(3, low=0.5))
S("Tensor.trunc trunc Tensor.fix fix", T(3, 4))
S("trunc", C([-2.5, -0.5, 0.5, 2.5, nan, inf]))
S("Tensor.trunc_", CLONE(3))
S("Tensor.frac frac", T(3, 4))
S("Tensor.fmod fmod", T(3, 4), 0.75)
S("Tensor.fmod fmod", T(3, 4), T(4, low=0.5))
S("fmod", INT([-7, -6, 6, 7]), INT([3, -4, 4, -3]))
S("fmod", INT([-7, 7]), -2)
S("Tensor.float_power float_power", T(3, low=0.3), 2)
S("float_power", 2.5, I(3))
for name, sign in (("left", "lshift"), ("right", "rshift")):
    paths = f"Tensor.bitwise_{name}_shift bitwise_{name}_shift operator.{sign}"
    S(paths, INT([[-7, 6, 255]]), INT([[0], [1], [31], [63], [64], [-1]]))
    S(f"{paths} Tensor.bitwise_{name}_shift_ operator.i{sign}", INT([-(2**63), 2**63 - 1]), 3)
    S(f"bitwise_{name}_shift operator.{sign}", 5, INT([0, 2, 70]))
    E(f"operator.{sign}", T(3), 1, raises=(RuntimeError, NotImplementedError), match=("shift", "float64|Double"))
S("Tensor.sgn sgn", T(3, grad=False))
S("round", C([12.345, -15.0, 25.0, 0.005]), decimals=2)
S("round", C([12.345, -16.0, 24.0]), decimals=-1)
S("Tensor.true_divide_", CLONE(3), 2)
for name in ("isposinf", "isneginf", "signbit"):
    S(f"Tensor.{name} {name}", C([x for x in SPECIAL if x == x]))
    S(name, I(3, low=-2))
S("Tensor.copysign copysign", T(3, 4), T(4))
S("copysign", T(3), -2)
S("copysign", C([1.0, -2.0, 3.0]), C([-0.0, 0.0, -1.0]))
S("Tensor.heaviside heaviside", C([-1.0, 0.0, 2.0]), C([0.5, 0.25, 7.0]))
E("heaviside", T(3, grad=False), I(3), raises=RuntimeError, match=("heaviside", "float64", "int64"))
for path in ("nansum", "nanmean"):
    S(f"Tensor.{path} {path}", T(3, 4))
    S(path, C([1.0, nan, 2.0], grad=True)).kink()
    S(path, C([[1.0, nan, 2.0], [nan, nan, nan]]), 1)
    S(path, T(3, 4), dim=0, keepdim=True)
S("Tensor.count_nonzero count_nonzero", C([[1.0, 0.0, nan], [0.0, -0.0, 2.0]]), 1)
S("count_nonzero", I(4, 2, high=2))
S("Tensor.argwhere argwhere", I(3, 4, high=2))
for name in ("var_mean", "std_mean"):
    S(name, T(3, 4))
    S(name, T(3, 4), 1, keepdim=True)
    S(name, T(3, 4), dim=(0, 1), correction=0)
    S(name, T(3, 4), False)
S("Tensor.aminmax aminmax", T(3, 4), dim=1)
S("aminmax", T(3, 4))
S("aminmax", T(3, 4), dim=0, keepdim=True)
S("Tensor.kthvalue kthvalue", T(3, 5), 2)
S("kthvalue", T(3, 5), 3, 0, True)
S("kthvalue", T(), 1)
E("kthvalue", T(3), 4, raises=RuntimeError, match=("kthvalue", 4, 3))
S("Tensor.median median", T(3, 4))
S("Tensor.median median", T(3, 4), 1)
S("median", T(3, 5), dim=0, keepdim=True)
S("median", C([[3.0, nan, 1.0], [3.0, 2.0, 1.0]], grad=True), 1).kink()
S("median", C([3.0, nan, 1.0]))
S("median", I(7, high=100))
S("median", T())
S("Tensor.quantile quantile", T(3, 5), 0.3)
S("quantile", T(3, 5), 0.6, dim=1, keepdim=True)
S("quantile", T(3, 4, dtype="float64"), C([0.0, 0.25, 1.0], dtype="float64"), dim=0)
for interpolation in ("linear", "lower", "higher", "nearest", "midpoint"):
    S("quantile", T(6), 0.3, interpolation=interpolation)
S("quantile", C([1.0, nan]), 0.5)
E("quantile", T(3), 1.5, raises=RuntimeError, match=("quantile", r"1\.5"))
S("Tensor.logcumsumexp logcumsumexp", T(3, 5), 1)
S("logcumsumexp", T(4), 0)
S("logcumsumexp", T(), 0)
S("Tensor.diff diff", T(3, 5))
S("diff", T(3, 5), 2, 0)
S("diff", B(4))
S("Tensor.diff diff", T(3, 5), prepend=T(3, 1), append=T(3, 2))
S("diff", T(4), 2, append=T(1))
S("diff", INT([1, 4, 9]), prepend=INT([0]))
S("Tensor.sinc sinc", T(3, 4))
S("sinc", T(2))
S("Tensor.sinc_", CLONE(3))
S("sinc", C([0.0, -0.0, 1.0, 0.5], grad=True)).once()
S("sinc", INT([0, 1]))
S("Tensor.positive positive", T(3))
S("vdot Tensor.vdot", T(4), T(4))
S("Tensor.dist dist", T(3), T(3))
S("dist", T(3), T(3), 1)
S("cdist", T(3, 4), T(2, 4))
S("cdist", T(2, 3, 4), T(2, 2, 4), p=1.0)
S("cdist", T(2, 3), T(2, 3), p=inf)
E("cdist", T(2, 3), T(2, 4), raises=RuntimeError, match=("cdist", (2, 3), (2, 4)))
S("Tensor.addr addr", T(2, 3), T(2), T(3), beta=0.5, alpha=2)
S("addr", C([[nan, 1.0]]), T(1), T(2), beta=0)
S("Tensor.addr_", CLONE(2, 3), T(2), T(3))
S("Tensor.addbmm addbmm", T(2, 2), T(3, 2, 4), T(3, 4, 2), beta=2)
S("Tensor.addbmm_", CLONE(2, 2), T(3, 2, 4), T(3, 4, 2), alpha=-1)
S("matrix_power", T(2, 3, 3, grad=False), 0)
for n in (1, 2, 3, 6):
    S("Tensor.matrix_power matrix_power", T(2, 3, 3, low=-1.0, high=1.0), n)
E("matrix_power", T(2, 3), 2, raises=RuntimeError, match=("matrix_power", (2, 3)))
S("einsum", T(2, 3), [0, 1], T(3, 4), [1, 2], [0, 2])
S("einsum", T(2, 3), [0, 1], T(3, 4), [1, 2])
S("einsum", T(5, 2, 3), [..., 0, 1], T(3, 4), [1, 2], [..., 0, 2])
E("einsum", T(2), [99], [99], raises=(RuntimeError, ValueError), match=("einsum", 99))
S("Tensor.bernoulli", C([0.0, 1.0, 1.0]))
S("Tensor.bernoulli_", CLONE(5, grad=False), 1.0)
S("Tensor.bernoulli_", CLONE(4, grad=False)).random()
S("Tensor.exponential_", CLONE(4, grad=False), 2.0).random()
for p in (1.5, -0.5, nan):
    E("Tensor.bernoulli_", CLONE(2), p, raises=RuntimeError, match=("bernoulli_", p))
    E("Tensor.bernoulli_", CLONE(2), C([0.5, p]), raises=RuntimeError, match=("bernoulli_", p))
    E("bernoulli", C([0.5, p]), raises=RuntimeError, match=("bernoulli", p))
for low, high in ((2.0, 1.0), (nan, 1.0), (0.0, inf), (-inf, 0.0), (-1e308, 1e308)):
    E("Tensor.uniform_", CLONE(2), low, high, raises=RuntimeError, match=("uniform_", low, high))
E("Tensor.uniform_", C([0.0], dtype="float32"), 0.0, 1e39, raises=RuntimeError, match=("uniform_", "1e.39", "float32"))
for std in (-1.0, nan):
    E("Tensor.normal_", CLONE(0), 0.0, std, raises=RuntimeError, match=("normal_", std))
for rate in (0.0, -1.0, nan):
    E("Tensor.exponential_", CLONE(2), rate, raises=RuntimeError, match=("exponential_", rate))
S("Tensor.uniform_", CLONE(3, grad=False), 1.5, 1.5)
S("Tensor.normal_", CLONE(3, grad=False), 1.5, 0.0)
S("randint_like", T(3, 4, grad=False), 5).random()
S("randint_like", I(3), 2, 3)
S("logspace", 0, 3, 4)
S("logspace", -1, 1, 5, base=2.0, dtype=DT("float64"))
S(F + "pad", T(2, 3), (1, 2))
S(F + "pad", T(2, 3), (1, 0, 2, 1), value=1.5)
S(F + "pad", T(2, 5), (-1, -2))
S(F + "pad", T(2, 5), [-2, 1, 0, 0])
S(F + "pad", I(3), (1, 1), "constant", 7)
S(F + "pad", B(3), (1, 1), value=True)
S(F + "pad", T(2, 3), (0, 0))
for mode in ("reflect", "replicate", "circular"):
    S(F + "pad", T(2, 2, 4), (2, 1), mode)
    S(F + "pad", T(2, 2, 3, 4), (1, 2, 2, 0), mode=mode)
    S(F + "pad", T(1, 2, 5), (-1, 2), mode=mode)
E(F + "pad", T(2, 3), (1,), raises=RuntimeError, match=("pad", (1,)))
E(F + "pad", T(2, 3), (1, 1), "mirror", raises=(NotImplementedError, RuntimeError), match=("pad", "mirror"))
E(F + "pad", T(1, 1, 3), (3, 0), "reflect", raises=RuntimeError, match=("pad", "reflect", (1, 1, 3)))
E(F + "pad", T(3), (-2, -2), raises=RuntimeError, match=("pad", (3,)))
S(F + "group_norm", T(2, 4, 3), 2)
S(F + "group_norm", T(2, 4), 2, T(4), T(4))
S(F + "group_norm", T(2, 6, 2, 2), 3, T(6), T(6), eps=0.1)
E(F + "group_norm", T(2, 4, 3), 3, raises=RuntimeError, match=("group_norm", 3, (2, 4, 3)))
S(F + "threshold threshold", T(3, 4), 0.1, -1.0)
S(F + "threshold", CLONE(3, 4), 0.1, -1.0, True)
for name in ("hardshrink", "softshrink"):
    S(F + name, T(3, 5))
    S(F + name, T(3, 5), 0.25)
    S(F + name, C([-0.5, 0.5, 0.0, inf, nan], grad=True)).kink()

# --- the table: running extremes, counting, writing with a reduction -------------------------------------------------

group("reduced")
for name in ("cummax", "cummin"):
    for dim in (0, 1, -1):
        S(f"Tensor.{name} {name}", T(3, 4), dim)
    S(name, C([1.0, 1.0, 3.0, 3.0, 2.0, 3.0], grad=True), 0).kink()  # of equal ones the last index
    S(name, C([2.0, nan, 3.0, nan, inf, -inf], grad=True), 0).kink()
    S(name, C([0.0, -0.0, 0.0], grad=True), 0).kink()
    S(name, I(5), 0)
    S(name, BOOL([True, False, True, False]), 0)
    S(name, T(1, 3), 0)
    S(name, T(0, 3), 0)
    S(name, T(2, 0), 1)
    S(name, T(), 0)
    S(name, TR(3, 4), 0)
    E(name, T(3), 1, raises=IndexError, match=(name, 1))
S("Tensor.renorm renorm", T(3, 4), 2, 0, 1.0)
S("renorm", T(3, 4), 2, 1, 1.5)
S("renorm", T(2, 3, 2), 1.0, -1, 0.5)
S("renorm", T(2, 3, 2), 3, 1, 0.5)
S("renorm", T(3, 4), inf, 0, 1.0)
S("renorm", T(3, 4), 2, 0, 99.0)
S("renorm", T(3, 4), 2, 0, 0.0)
S("renorm", C([[0.0, 0.0], [3.0, 4.0], [0.6, 0.8]], grad=True), 2, 0, 1.0).kink()
S("renorm", T(0, 3), 2, 0, 1.0)
S("Tensor.renorm_", CLONE(3, 2), 2, 0, 1.0)
E("renorm", T(3), 2, 0, 1.0, raises=RuntimeError, match=("renorm", (3,)))
E("renorm", T(2, 3), 0, 0, 1.0, raises=RuntimeError, match=("renorm", "p = 0"))
E("renorm", T(2, 3), 2, 0, -1.0, raises=RuntimeError, match=("renorm", r"maxnorm = -1"))
S("Tensor.histc histc", T(5, 4, grad=False), 6)
S("histc", T(20, grad=False), bins=4, min=-1, max=1)
S("histc", C([1.0, 2.0, 2.0, 3.0, 9.0]), 2, 1, 3)
S("histc", C([1.0, 1.0]), 4)
S("histc", C([2.0, nan, inf, -inf, 0.5]), 4, 0, 4)
S("histc", T(0), 3)
S("histc", C(2.0), 3)
E("histc", T(3), 0, raises=RuntimeError, match=("histc", "bins", 0))
E("histc", C([1.0, nan]), 3, raises=RuntimeError, match=("histc", "finite"))
E("histc", T(3), 2, 3, 1, raises=RuntimeError, match=("histc", "max"))
S("Tensor.histogram histogram", T(5, 4, grad=False), 6)
S("histogram", T(20, grad=False), bins=4, range=(-1.0, 1.0), density=True)
S("histogram", C([1.0, 2.0, 2.0, 5.0]), C([0.0, 2.0, 5.0]), weight=C([1.0, 2.0, 3.0, 4.0]))
S("histogram", C([1.0, 2.0, 2.0, 5.0]), C([0.0, 2.0, 2.0, 4.0]), density=True)
S("histogram", C([[2.0, nan], [inf, 0.5]]), 2, range=(0.0, 4.0), weight=C([[1.0, 2.0], [3.0, -4.0]]))
S("histogram", C([2.0, 2.0]), 2)
S("histogram", T(0, grad=False), 2)
S("histogram", C(2.0), 3)
E("histogram", T(3), 0, raises=RuntimeError, match=("histogram", "bins", 0))
E("histogram", T(3), C([[1.0, 2.0]]), raises=RuntimeError, match=("histogram", (1, 2)))
E("histogram", T(3), 2, range=(3.0, 1.0), raises=RuntimeError, match=("histogram", "max"))
E("histogram", T(3), 2, weight=T(2), raises=RuntimeError, match=("histogram", (2,), (3,)))
E("histogram", C([1.0, inf]), 2, raises=RuntimeError, match=("histogram", "finite"))
AT, ONTO = INT([[0, 2], [0, 1], [0, 2]]), T(3, 3)
for how in ("add", "multiply"):
    S("Tensor.scatter scatter", T(3, 3, grad=False), 0, AT, T(3, 2, grad=False), reduce=how)
    S("Tensor.scatter_", CLONE(3, 3, grad=False), 1, AT, T(3, 4, grad=False), reduce=how)
    S("scatter", T(2, 3, grad=False), 1, INT([[0, 0], [2, 2]]), 3, reduce=how)
    S("scatter", I(4), 0, INT([1, 1, 3]), I(3, low=-3), reduce=how)
    S("scatter", T(2, 3, grad=False), 0, I(0, 3), T(2, 3, grad=False), reduce=how)
    S("Tensor.scatter", T(grad=False), 0, INT(0), T(grad=False), reduce=how)
E("scatter", T(3), 0, INT([0]), T(1), reduce="max", raises=RuntimeError, match=("scatter", "'max'"))
for how in ("sum", "prod", "mean", "amax", "amin"):
    for own in (True, False):
        S("Tensor.scatter_reduce scatter_reduce", ONTO, 0, AT, T(3, 2), how, include_self=own)
        S("scatter_reduce", T(2, 4), 1, INT([[3, 3, 3], [0, 1, 0]]), T(2, 3), how, include_self=own)
        S("scatter_reduce", I(4, low=-3), 0, INT([1, 1, 3]), I(3, low=-4), how, include_self=own)
        S("scatter_reduce", T(3), 0, INT([1]), T(1), how, include_self=own)
        S("scatter_reduce", T(), 0, INT(0), T(), how, include_self=own)
        S("scatter_reduce", T(2, 3, grad=False), 0, I(0, 3), T(2, 3, grad=False), how, include_self=own)
        # ties with another element and with x, infinities and NaN
        peak, end = (1.0, inf) if own and how != "prod" else (9.0, 4.0)
        tied = C([peak, 2.5, end], grad=True), 0, INT([0, 0, 1, 1, 2]), C([1.0, 1.0, 2.0, 3.0, -end], grad=True)
        S("scatter_reduce", *tied, how, include_self=own).kink()
        S("scatter_reduce", C([1.0, 2.0]), 0, INT([0, 1]), C([nan, 0.0]), how, include_self=own)
        S(
            "scatter_reduce",
            C([3.0, 2.0], grad=True),
            0,
            INT([0, 0, 0, 1]),
            C([0.0, 4.0, 0.0, 0.0]),
            how,
            include_self=own,
        )
    S("Tensor.scatter_reduce_", CLONE(3, 3), 0, AT, T(3, 2), reduce=how)
S("scatter_reduce", T(3), 0, INT([1, 1, 1, 0]), C([2.0, 0.0, 3.0, 0.5], grad=True), "prod")
S("scatter_reduce", T(3), 0, INT([1, 1, 1, 0]), C([0.0, 0.0, 3.0, 0.0], grad=True), "prod")
S("scatter_reduce", BOOL([True, False]), 0, INT([1, 1]), BOOL([False, True]), "amax")
E("scatter_reduce", T(3), 0, INT([0]), T(1), "median", raises=RuntimeError, match=("scatter_reduce", "'median'"))
E("scatter_reduce", T(3), 0, INT([3]), T(1), "sum", raises=(RuntimeError, IndexError), match=("scatter_reduce", 3))
E("scatter_reduce", T(2, 3), 1, INT([[0, 0]]), T(1, 1), "sum", raises=RuntimeError, match=("scatter_reduce", (1, 2)))
E("scatter_reduce", I(3), 0, INT([0]), T(1), "sum", raises=RuntimeError, match=("scatter_reduce", "int64"))
for adding in (False, True):
    S("Tensor.put put", T(2, 3), INT([4, 1]), T(2), adding)
    S("Tensor.put", T(2, 3), INT([[-1], [0]]), T(1, 2), accumulate=adding)
    S("Tensor.put_", CLONE(2, 3), INT([4, 1]), T(2), adding)
    S("put", I(4), INT([3, 0]), I(2), adding)
    S("put", T(3), I(0), T(0), adding)
    S("put", T(), INT(0), T(1), adding)
    S("put", TR(2, 3), INT([4, 1]), T(2), adding)
S("put", T(3), INT([1, 1, 0]), T(3), accumulate=True)
E("put", T(3), INT([-4]), T(1), raises=IndexError, match=("put", "index -4", "-3 to 2"))
E("histc", T(3), 2**62, raises=(RuntimeError, ValueError), match=("histc", 2**62))
E("histogram", T(3, grad=False), 2**62, raises=(RuntimeError, ValueError), match=("histogram", 2**62))
E("put", T(3), INT([3]), T(1), raises=IndexError, match=("put", 3))
E("put", T(3), INT([0, 1]), T(1), raises=(RuntimeError, IndexError), match=("put", 2, 1))
E("put", T(3), C([0.0]), T(1), raises=RuntimeError, match=("put", "float64"))
S("index_put", T(2, 3), (INT([-1, 0]),), T(1, 3))
S("index_put", T(2, 3), (BOOL([[True, False, True], [False, False, True]]),), C(2.0, grad=True))
S("index_put", T(2, 3), (BOOL([True, False]), INT([2])), T(1), True)
S("index_put", T(2, 3), (INT([1, 1]), INT([2, 2])), T(1), accumulate=True)
S("Tensor.index_put_", CLONE(2, 3), (INT([1, 1]), INT([2, 2])), T(2), accumulate=True)
S("index_put", T(2, 3), (I(0),), T(0, 3))
E("index_put", T(3), (INT([3]),), T(1), raises=IndexError, match=("index", 3))
S("searchsorted", C([3.0, 1.0, 2.0, 2.0]), C([[0.0, 2.0], [3.0, 9.0]]), sorter=INT([1, 2, 3, 0]))
S("searchsorted", INT([[5, 3, 1], [0, 4, 2]]), INT([[3, 0], [3, 5]]), right=True, sorter=INT([[2, 1, 0], [0, 2, 1]]))
S("searchsorted", C([1.0, 1.0]), C([1.0, nan, -inf, inf]), side="right", out_int32=True)
S("searchsorted", C([1.0, inf, nan]), C([nan, inf]), side="left", right=False)
S("searchsorted", T(0), C([1.0, 2.0]))
S("searchsorted", C([1.0]), T(0))
E("searchsorted", C([1.0, 2.0]), C([1.0]), sorter=INT([0]), raises=RuntimeError, match=("searchsorted", "sorter", (1,)))
E(
    "searchsorted",
    C([1.0, 2.0]),
    C([1.0]),
    sorter=INT([0, 2]),
    raises=(RuntimeError, IndexError),
    match=("searchsorted", 2),
)
E("searchsorted", C([1.0]), C([1.0]), right=True, side="left", raises=RuntimeError, match=("searchsorted", "left"))
ROWS_TWICE = INT([[3, 1], [3, 1], [1, 2], [3, 1]])
S("Tensor.unique_consecutive unique_consecutive", ROWS_TWICE, True, True, 0)
S("unique_consecutive", ROWS_TWICE, return_counts=True, dim=1)
S("unique_consecutive", INT([[1, 1, 2], [1, 1, 3]]), return_inverse=True, dim=-1)
S("unique_consecutive", C([[nan, 1.0], [nan, 1.0]]), dim=0)
S("unique_consecutive", C([0.0, -0.0, nan, nan]), return_counts=True)
S("unique_consecutive", I(2, 2, 2, high=1), return_inverse=True, return_counts=True, dim=2)
S("unique_consecutive", I(0, 3), return_inverse=True, return_counts=True, dim=0)
S("unique_consecutive", I(0), return_inverse=True, return_counts=True)
S("unique_consecutive", INT([[7, 7]]), dim=0)
E("unique_consecutive", I(2, 0), dim=0, raises=RuntimeError, match=("unique_consecutive", (2, 0)))
E("unique_consecutive", I(2), dim=1, raises=IndexError, match=("unique_consecutive", 1))
S("Tensor.unique unique", ROWS_TWICE, True, True, True, 0)
S("unique", INT([[2, 1, 2], [0, 5, 0]]), return_inverse=True, dim=1)
S("unique", C([[1.0, -inf], [1.0, -inf], [0.0, inf]]), dim=0)
S("unique", I(3, 2, 2, high=2), return_inverse=True, return_counts=True, dim=1)
S("unique", I(0, 3), return_inverse=True, return_counts=True, dim=0)
E("unique", I(2, 0), dim=0, raises=RuntimeError, match=("unique", (2, 0)))
for mode in ("use_mm_for_euclid_dist_if_necessary", "use_mm_for_euclid_dist", "donot_use_mm_for_euclid_dist"):
    S("cdist", T(3, 4), T(2, 4), compute_mode=mode).once()
S("cdist", T(3, 1), T(2, 1), 2.0)
S("cdist", T(0, 3), T(2, 3))
S("cdist", T(2, 0), T(3, 0))
S("cdist", T(2, 1, 2, 3), T(3, 2, 3), p=3.0)
E("cdist", T(2, 3), T(2, 3), compute_mode="fast", raises=ValueError, match=("cdist", "fast"))
E("cdist", T(2, 3), T(2, 3), p=-1.0, raises=RuntimeError, match=("cdist", -1))
E("scatter", T(3), 0, INT([0]), 1.0, reduce="mean", raises=RuntimeError, match=("scatter", "'mean'"))
E("put", T(3), INT([0]), I(1), raises=RuntimeError, match=("put", "int64"))
E("renorm", I(2, 2), 2, 0, 1, raises=RuntimeError, match=("renorm", "int64"))
E("histogram", I(3), 2, raises=(RuntimeError, NotImplementedError), match=("histogram", "int64"))

# --- the table: linear algebra ---------------------------------------------------------------------------------------

group("linalg")
L = "linalg."
for name in ("inverse Tensor.inverse linalg.inv linalg.inverse", "det linalg.det Tensor.det"):
    S(name, REGULAR(3, 3))
    S(name, REGULAR(2, 2, 2))
    S(name, C([[4.0]], grad=True))
    S(name, C([[0.0, 1.0], [1.0, 0.0]], grad=True))
    S(name, T(0, 2, 2))
    S(name, T(0, 0))
    E(name.split()[0], T(2, 3), raises=RuntimeError, match=("(inv|det)", (2, 3)))
    E(name.split()[0], T(3), raises=RuntimeError, match=("(inv|det)", (3,)))
    E(name.split()[0], I(2, 2), raises=RuntimeError, match=("(inv|det)", "int64"))
E("linalg.inv", C([[1.0, 2.0], [2.0, 4.0]]), raises=RuntimeError, match=("inv", "ingular"))
S("det", C([[1.0, 2.0, 3.0], [2.0, 4.0, 6.0], [1.0, 0.0, 1.0]]))  # singular, of rank 2
S("det", C([[1.0, nan], [0.0, 1.0]]))
S("logdet", DEFINITE(3, 3))
for name in ("slogdet linalg.slogdet Tensor.slogdet", "logdet Tensor.logdet"):
    has = name.startswith("log")  # the sign of slogdet has a gradient of zeros in PyTorch, and none here
    S(name, REGULAR(3, 3, grad=has))
    S(name, DEFINITE(2, 2, 2, grad=has))
    S(name, C([[1.0, 2.0], [2.0, 4.0]]))
    S(name, C([[0.0, 1.0], [1.0, 0.0]]))
    S(name, T(0, 0, grad=False))
    E(name.split()[0], T(2, 3), raises=RuntimeError, match=(name.split()[0], (2, 3)))
S("slogdet", C([[0.0, 1e30], [1e30, 0.0]]))
S("matrix_power", REGULAR(2, 2), -1)
S("linalg.matrix_power", REGULAR(2, 2, 2), -3)
S("linalg.matrix_power", T(2, 2), 2)
S(L + "solve", REGULAR(3, 3), T(3, 2))
S(L + "solve", REGULAR(3, 3), T(3))
S(L + "solve", REGULAR(2, 3, 3), T(2, 3))
S(L + "solve", REGULAR(3, 3), T(2, 3, 1))
S(L + "solve", REGULAR(2, 1, 2, 2), T(3, 2, 2))
S(L + "solve", REGULAR(3, 3), T(2, 3), left=False)
S(L + "solve", REGULAR(2, 2), T(2, 0))
S(L + "solve", REGULAR(2, 2, 2), T(2, 2))  # a batch of vectors
S(L + "solve", T(0, 0), T(0, 2))
S(L + "solve", C([[2.0]]), C([4.0]))
E(L + "solve", C([[0.0, 0.0], [0.0, 1.0]]), T(2), raises=RuntimeError, match=("solve", "ingular"))
E(L + "solve", T(3, 3), T(2, 2), raises=RuntimeError, match=("solve", (3, 3), (2, 2)))
E(L + "solve", T(2, 3), T(2), raises=RuntimeError, match=("solve", (2, 3)))
for upper in (False, True):
    S(L + "solve_triangular", REGULAR(3, 3), T(3, 2), upper=upper)
    S(L + "solve_triangular", REGULAR(2, 3, 3), T(2, 4, 3), upper=upper, left=False, unitriangular=True)
    S(L + "solve_triangular", REGULAR(2, 2, 2), T(2, 2), upper=upper)  # no batch of vectors
    S("cholesky_solve", T(2, 2), REGULAR(2, 2, 2, grad=False), upper)
    S("cholesky Tensor.cholesky", DEFINITE(3, 3), upper)
    S(L + "cholesky", DEFINITE(2, 2, 2), upper=upper)
    S("cholesky_solve Tensor.cholesky_solve", T(3, 2), REGULAR(3, 3, grad=False), upper)
    S("cholesky_inverse Tensor.cholesky_inverse", REGULAR(3, 3, grad=False), upper)
S(L + "cholesky", C([[4.0]], grad=True))
S(L + "cholesky", C([[4.0, 9.0], [2.0, 2.0]], grad=True)).kink()  # of which only the lower triangle is read
S(L + "cholesky", T(0, 0, grad=False))
E(L + "cholesky", C([[1.0, 2.0], [2.0, 1.0]]), raises=RuntimeError, match=("cholesky", "positive definite"))
E(L + "cholesky", T(2, 3), raises=RuntimeError, match=("cholesky", (2, 3)))
for shape in ((3, 3), (4, 2), (2, 3), (2, 3, 2), (1, 1)):
    S(L + "qr", REGULAR(*shape))
    S("qr Tensor.qr", REGULAR(*shape))
    S(L + "qr", REGULAR(*shape, grad=False), mode="complete")
    S(L + "qr", REGULAR(*shape, grad=False), "r")
    S(L + "svdvals", REGULAR(*shape, grad=False))
    S("pinverse linalg.pinv Tensor.pinverse", REGULAR(*shape))
    S(L + "lstsq", REGULAR(*shape), T(*shape[:-1], 2))
S(L + "qr", REGULAR(2, 3), "complete")
S(L + "qr", T(0, 2, grad=False))
E(L + "qr", T(2, 2), "half", raises=RuntimeError, match=("qr", "'half'"))
S("pinverse", C([[1.0, 2.0], [2.0, 4.0]], grad=True)).kink()  # of rank 1
S("pinverse", C([[0.0, 0.0]], grad=True)).kink()
S(L + "pinv", C([[1.0, 0.0], [0.0, 1e-3]]), rtol=0.01)
S(L + "pinv", C([[1.0, 0.0], [0.0, 1e-3]]), 0.01)
S(L + "pinv", C([[5.0, 0.0], [0.0, 1.0]]), atol=2.0)
S(L + "pinv", REGULAR(2, 1))
S(L + "pinv", T(0, 2))
S(L + "lstsq", REGULAR(3, 2), T(3, 1))
S(L + "lstsq", REGULAR(2, 3, 2), T(2, 3, 1))
for driver in ("gelsy", "gelsd", "gelss"):
    S(L + "lstsq", REGULAR(2, 3, 2, grad=False), T(2, 3, 1, grad=False), driver=driver)
    S(L + "lstsq", REGULAR(2, 3, grad=False), T(2, 1, grad=False), None, driver=driver)
S(L + "lstsq", REGULAR(3, 2, grad=False), T(3, 1, grad=False), driver="gels")
S(L + "lstsq", C([[1.0, 1.0], [1.0, 1.0], [1.0, 1.0]]), C([[1.0], [2.0], [6.0]]))
E(L + "lstsq", T(3, 2), T(2, 2), raises=RuntimeError, match=("lstsq", (3, 2), (2, 2)))
S(L + "eigvalsh", DEFINITE(3, 3, grad=False))
S(L + "eigvalsh", C([[1.0, 5.0], [2.0, 3.0]]))
S(L + "eigvalsh", C([[1.0, 5.0], [2.0, 3.0]]), "U")
S(L + "eigvalsh", C([[[2.0, 0.0], [0.0, 2.0]]]))
S(L + "svdvals", C([[0.0, 0.0], [0.0, 0.0]]))
for shape in ((3, 3), (2, 2, 3)):
    S(L + "matrix_rank", REGULAR(*shape, grad=False))
S(L + "matrix_rank", C([[1.0, 2.0], [2.0, 4.0]]))
S(L + "matrix_rank", C([[0.0, 0.0], [0.0, 0.0]]))
S(L + "matrix_rank", C([[1.0, 0.0], [0.0, 1e-3]]), rtol=0.01)
S(L + "matrix_rank", C([[5.0, 0.0], [0.0, 1.0]]), atol=2.0)
S(L + "matrix_rank", C([[5.0, 0.0], [0.0, 1.0]]), 2.0)
S(L + "matrix_rank", T(0, 2, grad=False))
S(L + "multi_dot", [T(2, 3), T(3, 4), T(4, 1), T(1, 2)])
S(L + "multi_dot", [T(3), T(3, 2), T(2)])
S(L + "multi_dot", [T(1, 5), T(5)])
S(L + "multi_dot", [T(0, 2), T(2, 3)])
S("chain_matmul", T(2, 3), T(3, 1), T(1, 2))
E(L + "multi_dot", [T(2, 3)], raises=RuntimeError, match=("multi_dot", 1))
E(L + "multi_dot", [T(2, 3), T(2, 3)], raises=RuntimeError, match=("multi_dot", (2, 3)))
S("cross linalg.cross Tensor.cross", T(2, 3), T(2, 3), dim=1)
S(L + "cross", T(2, 3), T(1, 3))
S(L + "cross", T(3), T(3))
S(L + "cross", T(3, 2), T(3, 2), dim=0)
S(L + "cross", T(0, 3), T(0, 3))
S("Tensor.cross", T(2, 3), T(2, 3), 1)
E(L + "cross", T(2), T(2), raises=RuntimeError, match=("cross", (2,)))
E(L + "cross", T(3), T(2, 3), raises=RuntimeError, match=("cross", (3,), (2, 3)))
S(L + "vecdot", T(2, 3), T(3))
S(L + "matmul", T(2, 3), T(3, 2))
S(L + "diagonal", T(2, 3, 3))
for p in (2, 1, 3, 0.5, 0, inf, -inf, -1):
    for dim in (None, 1, (0, 1)):
        S(L + "vector_norm", T(3, 4, low=0.1, grad=p != 0), p, dim)
S(L + "vector_norm", T(2, 3, 2), 2, (0, -1), True)
S(L + "vector_norm", T(2, 3), dtype=DT("float64"))
S(L + "vector_norm", C([0.0, 0.0], grad=True)).kink()
S(L + "vector_norm", C([3.0, -3.0, inf]), inf)
S(L + "vector_norm", T(0))
S(L + "vector_norm", T())
for p in ("fro", 1, -1, inf, -inf):
    S(L + "matrix_norm", T(3, 4), p)
    S(L + "matrix_norm", T(2, 3, 2), p, (0, 2), True)
    S(L + "norm", T(2, 3), p)
    S(L + "norm", T(2, 2, 3), p, (1, 2))
for p in ("nuc", 2, -2):
    S(L + "matrix_norm", T(3, 2, grad=False), p)
    S(L + "norm", T(2, 3, 2, grad=False), p, (0, 2), True)
for dim in (None, 0, (0, 1)):
    S(L + "norm", T(2, 3), dim=dim)
S(L + "norm", T(2, 3, 2), None, None, True)
S(L + "norm", T(4), 3)
S(L + "norm", T(2, 3), 1, 1)
S(L + "norm", C([[1.0, -1.0], [1.0, 1.0]], grad=True), 1).kink()  # of equal sums
S(L + "norm", C([0.0, 0.0], grad=True), 3).kink()
E(L + "norm", T(2, 2, 2), 1, raises=RuntimeError, match=("norm", (2, 2, 2)))
E(L + "norm", T(3), "fro", raises=RuntimeError, match=("norm", "'fro'"))
E(L + "matrix_norm", T(2, 2), 3, raises=RuntimeError, match=("matrix_norm", 3))
E(L + "matrix_norm", T(3), raises=RuntimeError, match=("matrix_norm", (3,)))

# --- memory: results that change nothing, or next to nothing, and whose memory they lie in ---------------------------

group("memory")
for _shape in ((3,), (2, 3), (1,), (1, 1), (1, 3), (0, 3)):
    S("Tensor.repeat", T(*_shape), *(1,) * len(_shape))
    S("tile Tensor.tile", T(*_shape), (1,))
    S("Tensor.repeat_interleave repeat_interleave", T(*_shape), 1, -1)
    S("cat", [T(*_shape)], dim=0)
    S("stack", [T(*_shape)])
    S("Tensor.flip flip", T(*_shape), (0,))
    S("Tensor.roll roll", T(*_shape), 0, 0)
    S("Tensor.clone clone", T(*_shape))
    S("Tensor.softmax", T(*_shape), dim=0)
    S("Tensor.log_softmax", T(*_shape), dim=0)
    S("Tensor.cumsum cumsum", T(*_shape), 0)
    S("Tensor.sum sum", T(*_shape), 0)
    S("Tensor.mul mul", T(*_shape), 1)
    S("Tensor.pow pow", T(*_shape), 1)
    S("Tensor.clamp clamp", T(*_shape), -9, 9)
    S("Tensor.relu relu", T(*_shape))
    S("Tensor.abs abs", T(*_shape))
    S("Tensor.expand", T(*_shape), *_shape)
    S("Tensor.reshape reshape", T(*_shape), _shape)
    S("Tensor.view", T(*_shape), *_shape)
    S("Tensor.flatten flatten", T(*_shape))
    S("Tensor.ravel ravel", T(*_shape))
    S("Tensor.contiguous", T(*_shape))
    S("Tensor.to", T(*_shape), dtype=DT("float64"))
    S("Tensor.squeeze squeeze", T(*_shape), 0)
    S("Tensor.movedim movedim", T(*_shape), 0, 0)
    S("Tensor.narrow narrow", T(*_shape), 0, 0, _shape[0])
    S("Tensor.chunk chunk", T(*_shape), 1)
    S("Tensor.index_select index_select", T(*_shape), 0, INT(list(range(_shape[0]))))
    S("operator.getitem", T(*_shape), ...)
    S("operator.getitem", T(*_shape), (slice(None), None))
    S("broadcast_tensors", T(*_shape), T(*_shape))
    S("hstack", [T(*_shape)])
    S("vstack", [T(*_shape)])
    S("where", BOOL(True), T(*_shape), T(*_shape))
    S("Tensor.masked_fill masked_fill", T(*_shape), BOOL(False), 7.0)
    S("nn.functional.pad", T(*_shape), [0, 0])
    S("nn.functional.dropout", T(*_shape), 0.5, False)
    if _shape[0]:
        S("Tensor.cumprod cumprod", T(*_shape), 0)
        S("Tensor.logcumsumexp logcumsumexp", T(*_shape), 0)
        S("Tensor.sort sort", T(*_shape), 0, False)
        S("Tensor.argsort argsort", T(*_shape), 0, False)
        S("Tensor.topk topk", T(*_shape), 1, 0)
        S("Tensor.amax amax", T(*_shape), 0)
        S("Tensor.kthvalue kthvalue", T(*_shape), 1, 0)
    if len(_shape) == 2:
        S("Tensor.transpose transpose", T(*_shape), 0, 0)
        S("Tensor.tril tril", T(*_shape), 9)
        S("Tensor.rot90 rot90", T(*_shape), 0, (0, 1))
        S("einsum", "ij->ij", T(*_shape))
        S("einsum", "ij,j->ij", T(*_shape), T(_shape[1]))
        S("meshgrid", T(_shape[1]), T(_shape[0]), indexing="ij")
S("Tensor.repeat_interleave repeat_interleave", T(3, 2), INT([2, 0, 1]), 0)
S("Tensor.repeat_interleave repeat_interleave", T(3, 2), INT([2, 1]), dim=1)
S("Tensor.repeat_interleave repeat_interleave", T(4), INT([2, 0, 1, 3]), output_size=6)
S("Tensor.repeat_interleave repeat_interleave", T(2, 2), INT([2]))
S("Tensor.repeat_interleave repeat_interleave", T(3), INT(2))
S("Tensor.repeat_interleave repeat_interleave", T(3), INT([0, 0, 0]))
S("repeat_interleave", INT([2, 0, 1]))
S("Tensor.repeat_interleave", T(2, 2), 2, 1, output_size=4)
E("repeat_interleave", T(3), INT([1, 2]), 0, raises=RuntimeError, match=("repeat_interleave", 3, "(2,)"))
E("repeat_interleave", T(2), INT([1, -2]), 0, raises=RuntimeError, match=("repeat_interleave", -2))
E("repeat_interleave", T(2), C([1.0, 2.0]), 0, raises=RuntimeError, match=("repeat_interleave", "float"))
