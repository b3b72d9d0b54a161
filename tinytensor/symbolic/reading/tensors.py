"""Tensors that have no values: a shape of sizes, a dtype, and the term that says what was computed.

SymbolicData stands in the place of the array, as Meta and vmap's BatchedData do, so the engine's own Python code runs
unchanged up to each primitive operation. There `dispatch` makes the term. All ways to values end at SymbolicData,
which refuses every attribute that it does not know: a way that nobody thought of refuses, too.
"""

import operator
import sys
import weakref
from math import prod
from types import SimpleNamespace

import numpy as np

from tinytensor.core.dispatch import state
from tinytensor.core.dtypes import bool_, get_default_dtype, int64
from tinytensor.core.kernel import is_ours
from tinytensor.core.meta import Meta
from tinytensor.core.promotion import broadcast_shape, common_dtype
from tinytensor.core.tensor import Tensor
from tinytensor.ops.shape import flatten, movedim
from tinytensor.symbolic.reading.sizes import Reading, SymFloat, SymInt, is_exact, is_users, where

_tensor_of = Tensor.of
SHARED = (
    "a tensor that is changed in place, in a way that can't be followed; make a new tensor (y = y * 2, tt.where, "
    "tt.cat) in place of changing a part of one"
)

COMPARED = {"lt": (1, 0), "le": (0, 0), "gt": (1, 1), "ge": (0, 1)}  # a + k <= b, and whether a and b change places
OFF_TAPE = "the forward of a Function is never on the tape, where detach() and no_grad() say nothing: leave them out"
KEPT = "full number cast same add sub mul neg square absolute maximum minimum where clone reduce_sum cumsum "
KEPT += "permute reshape_view expand slice cat stack take entries gather diagonal flip detach"
WHOLE = {"arange", "tri", "eye", "floor", "ceil", "floor_divide", "remainder", "eq", "ne", *COMPARED, "logical_not"}
EXACT = {*KEPT.split()}


def roundings_of(a) -> int:
    """How often the numbers of a constant are rounded, as SymFloat counts it."""
    if isinstance(a, tuple | list):
        return max(map(roundings_of, a), default=0)
    if isinstance(a, np.ndarray):
        return 0 if a.dtype.kind != "f" or all(map(is_exact, np.unique(a[np.isfinite(a)]).tolist())) else 2
    return 0 if type(a) is float and is_exact(a) else getattr(a, "roundings", 2 if type(a) is float else 0)


class Term:
    """What an operation computes: its name and its arguments, which are terms, numbers, sizes, shapes and keys.

    op: the Op itself; None for what no operation has made: an argument, a constant of the engine, a loop. label: the
    user's name of the result. depends: does an argument of the function reach it? on_tape: does a gradient?
    inside: the loop in whose step it is made. roundings: how often its numbers are rounded, if it is a constant.
    """

    def __init__(self, name: str, *args, op=None, reading: Reading | None = None):
        self.name, self.args, self.op, self.label = name, args, op, ""
        self.inside = reading.open_loops[-1] if reading is not None and reading.open_loops else None
        self.depends = any(a.depends for a in terms_of(args))
        self.roundings = 0 if name in WHOLE else max(map(roundings_of, args), default=0)
        if name not in EXACT and name not in WHOLE:
            self.roundings = 1 if name == "true_divide" and self.roundings == 0 else 2
        elif name in ("add", "sub", "mul", "square") and self.roundings:
            self.roundings = 2
        self.on_tape = name != "detach" and any(a.on_tape for a in terms_of(args))
        self.where = where()
        if reading is not None:
            reading.terms.append(self)

    def __repr__(self):
        return f"{self.name}({', '.join(map(str, self.args))})"


def terms_of(args) -> list[Term]:
    """The terms among arguments, those in tuples and lists, too."""
    return [a for x in args for a in (x if isinstance(x, tuple | list) else (x,)) if isinstance(a, Term)]


class SymbolicData(Meta):
    """In the place of an array. span: the least and largest of whole numbers, or None. in_order: surely C-contiguous?

    memory: references to the data of all tensors that share these numbers.
    """

    flags = SimpleNamespace(c_contiguous=True)  # a copy would change nothing that the function can see

    def __init__(self, reading: Reading, term: Term, shape, dtype, span=None, in_order: bool = True, memory=None):
        super().__init__(tuple(shape), np.dtype(dtype))
        self.reading, self.term, self.span, self.in_order = reading, term, span, in_order
        if term.inside is None and reading.open_loops:
            term.inside = reading.open_loops[-1]
        self.memory = [] if memory is None else memory
        self.memory.append(weakref.ref(self))

    def __getattr__(self, name: str):
        if name.startswith("__") and "array" not in name:
            raise AttributeError(name)
        if name == "strides":
            self.reading.refuse(SHARED)
        self.reading.refuse(f"the values of a tensor are read (.{name})")

    def _read(self, *args, **kwargs):
        self.reading.refuse("the values of a tensor are read: no sizes or values are known here")

    __array__ = __array_ufunc__ = __array_function__ = __bool__ = __float__ = __int__ = __index__ = __buffer__ = _read
    __len__ = __iter__ = __getitem__ = __setitem__ = __contains__ = __reduce_ex__ = __deepcopy__ = _read
    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __hash__ = _read

    # The arithmetic that constructors do on a constant: start + step * arange(n), ~tri(n, m).
    def __radd__(self, n):
        span = self.span and (span_of(n) and (self.span[0] + n, self.span[1] + n))
        same = type(n) is int and n == 0
        return self if same else SymbolicData(self.reading, Term("add", self.term, n), self.shape, self.dtype, span)

    def __rmul__(self, n):
        span = self.span and (span_of(n) and _products(self.span, (n, n)))
        same = type(n) is int and n == 1
        return self if same else SymbolicData(self.reading, Term("mul", self.term, n), self.shape, self.dtype, span)

    def __invert__(self):
        return SymbolicData(self.reading, Term("logical_not", self.term), self.shape, bool_)

    def astype(self, dtype):
        span = fitting("a constant", self.reading, self.span, np.dtype(dtype))
        return SymbolicData(self.reading, Term("cast", self.term, np.dtype(dtype)), self.shape, dtype, span)


class LastStep(SymbolicData):
    """A tensor of the last step of a loop, seen after it."""

    shape = property(
        lambda self: self.reading.refuse("a tensor of the last step is used after the loop"), lambda self, _: None
    )


class Rows(LastStep):
    """All items of a list that a loop has collected, for stack() and cat(). tensor: the items along its dimension 0."""

    def __init__(self, tensor: Tensor):
        super().__init__(tensor._data.reading, tensor._data.term, (), tensor._data.dtype)
        self.tensor = tensor


def _refusing(what: str):
    return lambda self, *args, **kwargs: self._data.reading.refuse(what)


def _reading_of_values(what: str):
    advice = (
        ": Python reads a value that depends on an argument, and the formula can't follow what is done with it; choose "
        "by tt.where() or a mask, or prove() it at one size"
    )
    return lambda self, *args, **kwargs: self._data.reading.refuse(what, advice)


class SymbolicTensor(Tensor):
    """A tensor of the function that is read."""

    __slots__ = ()
    _values, item, tolist, numpy = map(_reading_of_values, ("a value", "item", "tolist", "numpy"))
    __array__ = __dlpack__ = _refusing("NumPy reads the values of a tensor: use tinytensor's functions")
    __bool__, __float__, __int__, __index__, __contains__ = map(
        _reading_of_values, ("bool", "float", "int", "an index", "in")
    )
    __deepcopy__ = __getstate__ = __reduce_ex__ = __copy__ = _refusing("a tensor is copied or stored: use clone()")
    backward = register_hook = retain_grad = detach_ = requires_grad_ = _refusing(
        "the tape is used inside of the function"
    )
    stride = data_ptr = is_contiguous = element_size = type = _refusing("the code looks at the memory of a tensor")
    data = property(*[_refusing("x.data shares memory outside of the tape: use detach()")] * 2)
    grad = grad_fn = is_leaf = property(*[_refusing("the code looks at the tape")] * 2)

    @property
    def requires_grad(self):
        if is_users(sys._getframe(1).f_code.co_filename):
            self._data.reading.refuse("the code looks at the tape")
        return self._data.term.on_tape

    def detach(self):
        data = self._data
        if data.reading.off_tape and is_users(sys._getframe(1).f_code.co_filename):
            data.reading.refuse(OFF_TAPE)
        term = Term("detach", data.term, reading=data.reading)
        return tensor_of(
            SymbolicData(data.reading, term, data.shape, data.dtype, data.span, data.in_order, data.memory)
        )

    def contiguous(self):
        return self if self._data.in_order else self.clone()

    def view(self, *shape):
        if not self._data.in_order:
            self._data.reading.refuse("view() of a tensor that may not lie in order: use reshape()")
        return super().view(*shape)

    def __hash__(self):
        if is_users(sys._getframe(1).f_code.co_filename):
            self._data.reading.refuse("a tensor is a key of a dict or a set: which object it is may differ")
        return object.__hash__(self)

    def __len__(self):
        return self.shape[0]  # Python's len() makes a number of it, which refuses; the len() of a reading does not

    def __repr__(self):
        self._data.reading.note_text()
        return repr(self._data.term)

    __str__ = __repr__

    def __format__(self, spec: str):
        return repr(self)


def tensor_of(data, requires_grad: bool = False, tensor=None):
    """Tensor.of, which makes a SymbolicTensor of SymbolicData."""
    symbolic = isinstance(data, SymbolicData) and tensor is None
    return _tensor_of(data, requires_grad, object.__new__(SymbolicTensor) if symbolic else tensor)


def reading_of(a) -> Reading | None:
    """The reading of a size or a tensor without values in an argument, if there is one."""
    a = a._data if isinstance(a, Tensor) else a
    if type(a) in (SymInt, SymFloat) or isinstance(a, SymbolicData):
        return a.reading
    parts = (a.start, a.stop, a.step) if isinstance(a, slice) else a if isinstance(a, tuple | list) else ()
    return next(filter(None, map(reading_of, parts)), None)


# --- The table of operations: rule(op, reading, args) is the result's shape, dtype, largest whole number, order


def span_of(a):
    """The least and the largest value of whole numbers, as sizes; None if they are not known."""
    a = a._data if isinstance(a, Tensor) else a
    if isinstance(a, SymbolicData):
        return (0, 1) if a.dtype.kind == "b" else a.span
    if isinstance(a, np.ndarray):
        return (int(a.min()), int(a.max())) if a.dtype.kind in "biu" and a.size else None
    return (a, a) if type(a) in (int, bool, SymInt) else None


def fitting(what: str, reading: Reading, span, dtype):
    """The range of whole numbers, if it fits into the dtype; what may wrap around is a condition, or refused."""
    if dtype.kind not in "iu":
        return None
    low, high = (
        (0, 2 ** (8 * dtype.itemsize)) if dtype.kind == "u" else [s * 2 ** (8 * dtype.itemsize - 1) for s in (-1, 1)]
    )
    if span is None:
        reading.values["range"] = None
        return None
    room = [n for n in (span[0] - low, high - 1 - span[1]) if type(n) is SymInt]
    if dtype == int64 and not all(reading.decides(">=", n.p) for n in room):
        reading.values["range"] = None
    elif not (span[0] >= low and span[1] < high):
        reading.refuse(f"{what}: whole numbers up to {span[1]} may wrap in {dtype}")
    return span


def inside(index, n) -> bool:
    """Are all numbers of a tensor of indices from 0 to n - 1 (or -n to -1)?"""
    span = span_of(index)
    return span is not None and _not_negative(span) and span[1] < n


def _products(a, b):
    corners = [x * y for x in a for y in b]
    if all(type(n) is int for n in corners):
        return min(corners), max(corners)
    return (0, a[1] * b[1]) if _not_negative(a) and _not_negative(b) else None


def _not_negative(span) -> bool:
    low = span[0]
    return low >= 0 if type(low) is int else low.reading.decides(">=", low.p)


def _hull(a, b):
    """A range that holds both."""
    if _not_negative(a) and _not_negative(b):
        return 0, a[1] + b[1]
    return (min(a[0], b[0]), max(a[1], b[1])) if all(type(n) is int for n in (*a, *b)) else None


SPANS = {
    "add": lambda a, b: (a[0] + b[0], a[1] + b[1]),
    "sub": lambda a, b: (a[0] - b[1], a[1] - b[0]),
    "neg": lambda a: (-a[1], -a[0]),
    "mul": _products,
    "square": lambda a: _products(a, a),
    "absolute": lambda a: a if _not_negative(a) else None,
    **dict.fromkeys(("maximum", "minimum"), _hull),
    "where": lambda c, a, b: _hull(a, b),
    "floor_divide": lambda a, b: (0, a[1]) if _not_negative(a) and _not_negative((b[0] - 1,)) else None,
    "remainder": lambda a, b: (0, b[1] - 1) if _not_negative((b[0] - 1,)) else None,
}


TRUTHS = {"mul", "where", "maximum", "minimum", "bitwise_and", "bitwise_or", "bitwise_xor"}


def elementwise(op, reading, args):
    dtype = common_dtype(op, args)
    dtype = get_default_dtype() if op.dtype == "float" and dtype.kind in "biu" else dtype
    shape = broadcast_shape(op.name, *[a.shape for a in args if isinstance(a, Tensor)], ())
    for a in args if dtype.kind in "iu" else ():
        fitting(op.name, reading, (0, 0) if isinstance(a, Tensor) else span_of(a), dtype)
    if op.dtype == "bool":
        return shape, bool_
    if dtype.kind == "b" and op.name not in TRUTHS:
        reading.refuse(f"{op.name} of truth values: make them numbers first, by .double() or .long()")
    spans = [span_of(a) for a in args] if dtype.kind in "iu" else [None]
    if op.name == "where" and dtype.kind in "iu":
        spans[0] = (0, 1)
    span = SPANS[op.name](*spans) if None not in spans and op.name in SPANS else None
    return shape, dtype, span


def cast(op, reading, args):
    x, dtype = args
    shorter = x._data.dtype.kind == dtype.kind == "f" and dtype.itemsize < x._data.dtype.itemsize
    if shorter and (x._data.term.depends or x._data.term.roundings):
        reading.values["cast"] = None
    return x.shape, dtype, None if x._data.dtype.kind in "fO" else span_of(x)


def reduction(op, reading, args):
    x, dims, keepdim = args[:3]
    shape = [1 if d in dims else n for d, n in enumerate(x.shape) if keepdim or d not in dims]
    n = prod(x.shape[d] for d in dims)
    if op.outputs == 2:
        return [(shape, x._data.dtype), (shape, int64, (0, n - 1))]
    if op.name not in ("reduce_sum", "reduce_any", "reduce_all", "reduce_prod"):
        at_least(n, 1)  # a mean of nothing is NaN
    if op.name in ("reduce_any", "reduce_all"):
        return shape, bool_
    span = span_of(x) if op.name in ("reduce_sum", "reduce_amax", "reduce_amin") else None
    span = tuple(m * n for m in span) if span is not None and op.name == "reduce_sum" else span
    return shape, x._data.dtype, span


def at_index(op, reading, args):
    x, index = args[:2]
    dim = {"take": 0, "gather": args[-1]}.get(op.name, 1)
    if not inside(index, x.shape[dim]):
        reading.refuse(f"{op.name}: an index of unknown range; declare Index('N', below=...)")
    if op.name == "take":
        shape = index.shape + x.shape[1:]
    else:
        shape = {"gather": index.shape, "cross_entropy_rows": x.shape[:1]}.get(op.name, ())
    return shape, x._data.dtype, span_of(x)


def at_least(a, b) -> bool:
    """Is a >= b? An open question is answered so that a slice is what it seems to be, and is then a condition."""
    difference = a - b
    return difference.reading.ask(">=", difference.p, True) if type(difference) is SymInt else difference >= 0


def bounds(part: slice, n):
    """start, stop and step of a slice of a dimension of size n, cut to 0 ... n as Python cuts them."""
    ends = 0 if part.start is None else part.start, n if part.stop is None else part.stop
    ends = [e if type(e) is SymInt else operator.index(e) for e in ends]
    ends = [e if at_least(e, 0) else e + n for e in ends]
    start, stop = (0 if not at_least(e, 0) else e if at_least(n, e) else n for e in ends)
    return start, (stop if at_least(stop, start) else start), 1 if part.step is None else part.step


def sliced(op, reading, args):
    x, key = args
    shape, dims = [], iter(x.shape)
    for part in key:
        if part is None:
            shape.append(1)
        elif isinstance(part, slice):
            start, stop, step = bounds(part, next(dims))
            shape.append(stop - start if type(step) is int and step == 1 else -(-(stop - start) // step))
        elif not 0 <= part < next(dims):
            raise IndexError("slice: an index is outside of its dimension")
    return (*shape, *dims), x._data.dtype, span_of(x), False


def joined(op, reading, args):
    dim, *xs = args
    shape, new = list(xs[0].shape), op.name == "stack"
    dim = dim % (len(shape) + new)
    for one in xs[1:]:
        if any(n != m for d, (n, m) in enumerate(zip(shape, one.shape, strict=True)) if new or d != dim):
            raise RuntimeError(f"{op.name}: the shapes differ")
    shape[dim : dim + 1 - new] = [len(xs) if new else sum(x.shape[dim] for x in xs)]
    spans, span = [span_of(x) for x in xs], None
    if None not in spans:
        span = spans[0]
        for one in spans[1:]:
            span = span and _hull(span, one)
    return shape, xs[0]._data.dtype, span


def joined_rows(name: str, dim: int, rows: Tensor) -> Tensor:
    """stack() or cat() of all items of a list, in memory of its own."""
    x = rows._data.tensor
    if name == "stack":
        y = movedim(x, 0, dim)
    else:
        dim = range(x.ndim - 1)[dim]
        y = flatten(movedim(x, 0, dim), dim, dim + 1)
    data = y._data
    return tensor_of(SymbolicData(data.reading, data.term, data.shape, data.dtype, data.span))


def diagonal(op, reading, args):
    x, offset, a, b = args
    n = min(x.shape[a] + min(offset, 0), x.shape[b] - max(offset, 0))
    return [*[k for d, k in enumerate(x.shape) if d not in (a, b)], max(n, 0)], x._data.dtype, span_of(x), False


def product(op, reading, args):
    a, b = args
    if a.shape[-1] != b.shape[-2]:
        raise RuntimeError(f"matmul: shapes {a.shape} and {b.shape} do not fit")
    return (*broadcast_shape("matmul", a.shape[:-2], b.shape[:-2], ()), a.shape[-2], b.shape[-1]), a._data.dtype


def rule(shape, whole=False, in_order=True):
    """A rule of a shape, a function of the arguments; whole: whole numbers keep their range."""
    return lambda op, reading, a: (shape(*a), a[0]._data.dtype, span_of(a[0]) if whole else None, in_order)


def reshaped(op, reading, args):
    x, shape = args
    return shape, x._data.dtype, span_of(x), x._data.in_order if reading_of(x) else x._data.flags.c_contiguous


def entries(names: str, function) -> dict:
    return dict.fromkeys(names.split(), function)


REDUCTIONS = [f"reduce_{n}" for n in ("sum", "mean", "norm", "prod", "amax", "amin", "max", "min", "logsumexp")]
REDUCTIONS += ["reduce_any", "reduce_all"]
RULES = {
    **entries("softmax log_softmax layer_norm rms_norm centred clone flip cholesky", rule(lambda x, *_: x.shape, True)),
    **entries("expand spread unslice undiagonal", rule(lambda x, shape, *_: shape, True, False)),
    **dict.fromkeys(REDUCTIONS, reduction),
    **entries("linear linear_relu", rule(lambda x, w, b: (*x.shape[:-1], w.shape[0]))),
    **entries("take gather cross_entropy_rows cross_entropy_mean", at_index),
    **entries("cat stack", joined),
    **entries("scatter_rows gather_backward", rule(lambda x, index, shape, *_: shape)),
    "matmul": product,
    "permute": rule(lambda x, dims: [x.shape[d] for d in dims], True, False),
    "reshape_view": reshaped,
    "attention": rule(lambda q, k, v, *_: (*q.shape[:-1], v.shape[-1]), False, False),
    "solve": rule(lambda a, b: b.shape),
    "pinv": rule(lambda a, *_: (*a.shape[:-2], a.shape[-1], a.shape[-2]), False, False),
    "cumsum": rule(lambda x, *_: x.shape),
    "det": rule(lambda a: a.shape[:-2]),
    "cast": cast,
    "slice": sliced,
    "slogdet": lambda op, r, a: [(a[0].shape[:-2], a[0]._data.dtype)] * 2,
    "diagonal": diagonal,
}


MOST_ROUNDINGS = dict.fromkeys([*COMPARED, "eq", "ne", "floor", "ceil", "sign"], 1) | {
    "floor_divide": 0,
    "remainder": 0,
}


def _decided(name: str, a, b) -> bool | None:
    """A comparison of whole numbers that has one answer for all of them, at all sizes."""
    if a is None or b is None:
        return None
    k, turned = COMPARED[name]
    a, b = (b, a) if turned else (a, b)
    return True if _not_negative((b[0] - a[1] - k,)) else False if _not_negative((a[0] - b[1] + k - 1,)) else None


def dispatch(op, args):
    """A primitive operation on tensors without values: its result's shape and dtype by the table, and the term."""
    reading, find = reading_of(args), RULES.get(op.name) or (elementwise if op.kernel is not None else None)
    if not is_ours(op):
        reading.refuse(
            f"{op.name}: an operation of your own has no index formula",
            "; write it with those of tinytensor, or prove() it at small sizes",
        )
    if find is None:
        reading.refuse(f"{op.name}: there is no formula for this operation")
    for a in args:
        reading.check_open(a.p if type(a) is SymInt else {})
    if op.name in ("cat", "stack"):
        if reading.comprehensions:
            args = (args[0], *reading.comprehensions.pop().all_rows(args[1:]))
        if isinstance(args[1]._data, Rows):
            return joined_rows(op.name, *args)
    results = find(op, reading, args)
    if op.name in COMPARED and (truth := _decided(op.name, *map(span_of, args))) is not None:
        return tensor_of(SymbolicData(reading, Term("full", results[0], truth, reading=reading), *results))
    term = Term(op.name, *map(as_term, args), op=op, reading=reading)
    compared = op.name not in ("floor_divide", "remainder")  # N/10 and 0.3 are equal in floats where they are
    numbers = [a for a in term.args if not (compared and type(a) is float)]
    dtype = results[1]
    most = 1 if op.name == "cast" and dtype.kind != "f" else MOST_ROUNDINGS.get(op.name, 2)
    if not term.depends and max(map(roundings_of, numbers), default=0) > most:
        reading.refuse(
            f"{op.name} of rounded numbers, which may be whole or equal in the formula alone: use whole ones"
        )
    if not state.grad:
        if reading.off_tape:
            reading.refuse(OFF_TAPE)
        term = Term("detach", term, reading=reading)

    def made(shape, dtype, span=None, in_order=True):
        return shape, dtype, fitting(op.name, reading, span, np.dtype(dtype)), in_order

    results = [made(*r) for r in results] if isinstance(results, list) else made(*results)
    if isinstance(results, list):
        return tuple(
            tensor_of(SymbolicData(reading, Term(f"result_{n}", term, reading=reading), *r))
            for n, r in enumerate(results)
        )
    memory = args[0]._data.memory if op.view is not None and isinstance(args[0]._data, SymbolicData) else None
    return tensor_of(SymbolicData(reading, term, *results, memory=memory))


def as_term(a):
    """An argument in a term; the numbers of an ordinary tensor are copied, since they may be changed later."""
    if isinstance(a, Tensor):
        return a._data.term if isinstance(a._data, SymbolicData) else a._data.copy()
    if isinstance(a, tuple | list):
        return tuple(map(as_term, a))
    return a.item() if isinstance(a, np.generic) else a
