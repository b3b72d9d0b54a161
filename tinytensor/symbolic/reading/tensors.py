"""Tensors that have no values: a shape of sizes, a dtype, and the term that says what was computed.

SymbolicData stands in the place of the array, as Meta and vmap's BatchedData do, so the engine's own Python code runs
unchanged up to each primitive operation. There `dispatch` makes the term. All ways to values end at SymbolicData,
which refuses every attribute that it does not know: a way that nobody thought of refuses, too.
"""

import weakref
from math import prod
from types import SimpleNamespace

import numpy as np

from tinytensor.core.dispatch import state
from tinytensor.core.dtypes import bool_, float32, get_default_dtype, int64
from tinytensor.core.kernel import is_ours
from tinytensor.core.meta import Meta
from tinytensor.core.promotion import broadcast_shape, common_dtype
from tinytensor.core.tensor import Tensor
from tinytensor.ops.arrays import reduced_shape
from tinytensor.ops.creation import as_dtype
from tinytensor.ops.shape import flatten, joined_shape, movedim, reshape_view
from tinytensor.symbolic.reading.rounding import ROUNDED, jumps, largest_whole
from tinytensor.symbolic.reading.sizes import (
    Reading,
    SymFloat,
    SymInt,
    asked_by_user,
    is_between_the_same,
    never_negative,
    refusing,
    where,
)

_tensor_of = Tensor.of
SHARED = (
    "a tensor that is changed in place, in a way that can't be followed; make a new tensor (y = y * 2, tt.where, "
    "tt.cat) in place of changing a part of one"
)

COMPARED = {"lt": (1, 0), "le": (0, 0), "gt": (1, 1), "ge": (0, 1)}  # a + k <= b, and whether a and b change places
OFF_TAPE = "the forward of a Function is never on the tape, where detach() and no_grad() say nothing: leave them out"
MOVED = {"take", "gather", "clone", "flip"}  # which views do, too
FILLED = {"undiagonal", "unslice"}  # moved, with zeros around
CHOOSING = {"where", "maximum", "minimum", "cat", "stack"}  # each result is a number of one of the arguments


class Term:
    """What an operation computes: its name and its arguments, which are terms, numbers, sizes, shapes and keys.

    op: the Op itself; None for what no operation has made: an argument, a constant of the engine, a loop. label: the
    user's name of the result. depends: does an argument of the function reach it? is_real: do floats among these make
    its numbers? on_tape: does a gradient reach it? inside: the loop in whose step it is made. is_sure: if it compares
    or rounds numbers, do floats decide as the formulas?
    """

    is_sure = True

    def __init__(self, name: str, *args, op=None, reading: Reading | None = None):
        self.name, self.args, self.op, self.label = name, args, op, ""
        self.inside = reading.open_loops[-1] if reading is not None and reading.open_loops else None
        self.depends = any(a.depends for a in terms_of(args))
        self.is_real = any(a.is_real for a in terms_of(args))
        self.on_tape = name != "detach" and any(a.on_tape for a in terms_of(args))
        self.where = where()
        if reading is not None:
            reading.terms.append(self)
        for a in terms_of(args):
            if a.inside is not None and a.inside not in a.inside.reading.open_loops and name != "rows":
                a.inside.reading.refuse("a value of one step of a loop is used outside of it")


def terms_of(args) -> list[Term]:
    """The terms among arguments, those in tuples and lists, too."""
    return [a for x in args for a in (x if isinstance(x, tuple | list) else (x,)) if isinstance(a, Term)]


def note_names(names: dict) -> None:
    """What the user calls tensors: a term has the first of its names."""
    for name, x in names.items():
        known = isinstance(x, Tensor) and type(x._data) is SymbolicData and not name.startswith((".", "_"))
        if known and x._data.term.name not in ("carried", "argument"):
            x._data.term.label = x._data.term.label or name


class SymbolicData(Meta):
    """In the place of an array. memory: references to the data of all tensors that share these numbers.

    span: the least and the largest number, if all are surely whole ones that the dtype holds; else None.
    """

    flags = SimpleNamespace(c_contiguous=True)  # a copy would change nothing that the function can see

    def __init__(self, reading: Reading, term: Term, shape, dtype, span=None, memory=None):
        super().__init__(tuple(shape), np.dtype(dtype))
        if span is not None and not is_held(span, self.dtype):
            reading.values |= {"cast": None} if self.dtype == float32 else {}
            span = None
        self.reading, self.term, self.span = reading, term, span
        if term.inside is None and reading.open_loops:
            term.inside = reading.open_loops[-1]
        self.memory = [] if memory is None else memory
        self.memory.append(weakref.ref(self))

    def __getattr__(self, name: str):
        if name.startswith("__") and "array" not in name:
            raise AttributeError(name)
        self.reading.refuse(f"the values of a tensor are read (.{name})")

    _read = refusing("the values of a tensor are read: no sizes or values are known here")
    __array__ = __array_ufunc__ = __array_function__ = __bool__ = __float__ = __int__ = __index__ = __buffer__ = _read
    __len__ = __iter__ = __getitem__ = __setitem__ = __contains__ = __reduce_ex__ = __deepcopy__ = _read
    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __hash__ = _read

    # The arithmetic that constructors do on a constant: start + step * arange(n), ~tri(n, m).
    def _computed(self, name: str, n, neutral: int):
        if type(n) is int and n == neutral:
            return self
        span = computed_span(name, self, n)
        return SymbolicData(self.reading, Term(name, self.term, n), self.shape, self.dtype, span)

    def __radd__(self, n):
        return self._computed("add", n, 0)

    def __rmul__(self, n):
        return self._computed("mul", n, 1)

    def __invert__(self):
        return SymbolicData(self.reading, Term("logical_not", self.term), self.shape, bool_)

    def astype(self, dtype):
        span = fitting("a constant", self.reading, self.span, np.dtype(dtype))
        return SymbolicData(self.reading, Term("cast", self.term, np.dtype(dtype)), self.shape, dtype, span)


class Unusable(SymbolicData):
    """In the place of numbers that nothing may use: why, in words. tensor: what it stands for."""

    shape = ndim = term = property(lambda self: self.reading.refuse(self.why), lambda self, _: None)

    def __init__(self, why: str, tensor: Tensor):
        self.why, self.tensor = why, tensor
        super().__init__(tensor.reading, tensor._data.term, (), tensor._data.dtype)


class Rows(Unusable):
    """All items of a list that a loop has collected, for stack() and cat(). tensor: the items along its dimension 0."""

    def __init__(self, tensor: Tensor):
        super().__init__("a list that a loop has collected is joined in another way", tensor)


DECIDES = (
    ": Python reads a value that depends on an argument, and the formula can't follow what is done with it; choose by "
    "tt.where() or a mask, or prove() it at one size"
)


class SymbolicTensor(Tensor):
    """A tensor of the function that is read."""

    __slots__ = ()
    reading = property(lambda self: self._data.reading)
    _values, item, tolist, numpy = (refusing(name, DECIDES) for name in ("a value", "item", "tolist", "numpy"))
    __bool__, __float__, __int__ = (refusing(name, DECIDES) for name in ("bool", "float", "int"))
    __index__, __contains__ = refusing("an index", DECIDES), refusing("in", DECIDES)
    __array__ = __dlpack__ = refusing("NumPy reads the values of a tensor: use tinytensor's functions")
    __deepcopy__ = __getstate__ = __reduce_ex__ = __copy__ = refusing("a tensor is copied or stored: use clone()")
    backward = register_hook = retain_grad = detach_ = requires_grad_ = refusing(
        "the tape is used inside of the function"
    )
    stride = data_ptr = is_contiguous = element_size = type = refusing("the code looks at the memory of a tensor")
    data = property(*[refusing("x.data shares memory outside of the tape: use detach()")] * 2)
    grad = grad_fn = is_leaf = property(*[refusing("the code looks at the tape")] * 2)

    @property
    def requires_grad(self):
        if asked_by_user(()):
            self.reading.refuse("the code looks at the tape")
        return self._data.term.on_tape

    def detach(self):
        data = self._data
        if data.reading.off_tape and asked_by_user(()):
            data.reading.refuse(OFF_TAPE)
        term, memory = Term("detach", data.term, reading=data.reading), data.memory
        return tensor_of(SymbolicData(data.reading, term, data.shape, data.dtype, data.span, memory))

    def contiguous(self):
        return reshape_view(self, self.shape)  # in memory that may be its own

    def __hash__(self):
        if asked_by_user():
            self.reading.refuse("a tensor is a key of a dict or a set: which object it is may differ")
        return object.__hash__(self)

    def __repr__(self, spec: str = ""):
        self.reading.note_text()
        return f"a tensor of shape {self.shape}"

    __str__ = __format__ = __repr__


def tensor_of(data, requires_grad: bool = False, tensor=None):
    """Tensor.of, which makes a SymbolicTensor of SymbolicData."""
    if isinstance(data, SymbolicData):
        if tensor is not None:
            data.reading.refuse(
                f"{type(tensor).__name__}() of a tensor of the function is a leaf, which no gradient passes",
                "; use the tensor itself, or make it outside of the function",
            )
        tensor = object.__new__(SymbolicTensor)
    return _tensor_of(data, requires_grad, tensor)


def reading_of(a) -> Reading | None:
    """The reading of a size or a tensor without values in an argument, if there is one."""
    a = a._data if isinstance(a, Tensor) else a
    if type(a) in (SymInt, SymFloat) or isinstance(a, SymbolicData):
        return a.reading
    parts = (a.start, a.stop, a.step) if isinstance(a, slice) else a if isinstance(a, tuple | list) else ()
    return next(filter(None, map(reading_of, parts)), None)


# --- The range of whole numbers


def span_of(a):
    """The least and the largest value of whole numbers, as sizes; None if not all are whole, or they are not known."""
    a = a._data if isinstance(a, Tensor) else a
    if isinstance(a, SymbolicData):
        return (0, 1) if a.dtype.kind == "b" else a.span
    if type(a) is float and a.is_integer() and abs(a) <= largest_whole(float32):
        return int(a), int(a)
    if isinstance(a, np.ndarray):
        whole = a.size and a.dtype.kind in "biuf" and np.isfinite(a).all() and (a == np.floor(a)).all()
        return (int(a.min()), int(a.max())) if whole else None
    return (a, a) if type(a) in (int, bool, SymInt) else None


def is_held(span, dtype) -> bool:
    """Do floats of this dtype hold all whole numbers of a range? An int is looked at by fitting()."""
    most = largest_whole(dtype) if dtype.kind == "f" else 0
    return not most or (span is not None and never_negative(most + span[0]) and never_negative(most - span[1]))


def fitting(what: str, reading: Reading, span, dtype):
    """The range of whole numbers, if it fits into the dtype of an int; what may wrap is a condition, or refused."""
    if dtype.kind not in "iu":
        return span
    if span is None:
        reading.values["range"] = None
        return None
    room = span[0] - np.iinfo(dtype).min, np.iinfo(dtype).max - span[1]
    if dtype == int64 and not all(type(n) is int or never_negative(n) for n in room):
        reading.values["range"] = None
    elif not all(n >= 0 for n in room):
        reading.refuse(f"{what}: whole numbers up to {span[1]} may wrap in {dtype}")
    return span


def inside(index, n) -> bool:
    """Are all numbers of a tensor of indices from 0 to n - 1 (or -n to -1)?"""
    span = span_of(index)
    return span is not None and never_negative(span[0]) and span[1] < n


def _products(a, b):
    corners = [x * y for x in a for y in b]
    if all(type(n) is int for n in corners):
        return min(corners), max(corners)
    return (0, a[1] * b[1]) if never_negative(a[0]) and never_negative(b[0]) else None


def _hull(a, b):
    """A range that holds both. That of no numbers, 0 to -1, may end below 0."""
    if all(map(never_negative, (*a, *b))):
        return 0, a[1] + b[1]
    return (min(a[0], b[0]), max(a[1], b[1])) if all(type(n) is int for n in (*a, *b)) else None


SPANS = {
    "add": lambda a, b: (a[0] + b[0], a[1] + b[1]),
    "sub": lambda a, b: (a[0] - b[1], a[1] - b[0]),
    "neg": lambda a: (-a[1], -a[0]),
    "mul": _products,
    "where": lambda c, a, b: _hull(a, b),
    "floor_divide": lambda a, b: (0, a[1]) if never_negative(a[0]) and never_negative(b[0] - 1) else None,
    "remainder": lambda a, b: (0, b[1] - 1) if never_negative(b[0] - 1) else None,
}


def computed_span(name: str, *args):
    """The range of the results of an operation on whole numbers; None if it is not known."""
    spans = [span_of(a) for a in args]
    return SPANS[name](*spans) if name in SPANS and None not in spans else None


# --- The tables of operations. RULES: a rule(op, reading, args) gives the shape, the dtype and the range of the result.
# SHAPES: of the others, which have the dtype of their first argument


TRUTHS = {"mul", "where", "maximum", "minimum", "bitwise_and", "bitwise_or", "bitwise_xor"}


def elementwise(op, reading, args):
    dtype = common_dtype(op, args)
    dtype = get_default_dtype() if op.dtype == "float" and dtype.kind in "biu" else dtype
    shape = broadcast_shape(op.name, *[a.shape for a in args if isinstance(a, Tensor)], ())
    for a in args:
        if dtype.kind in "iu" and not isinstance(a, Tensor):
            fitting(op.name, reading, span_of(a), dtype)
    if op.dtype == "bool":
        return shape, bool_
    if dtype.kind == "b" and op.name not in TRUTHS:
        reading.refuse(f"{op.name} of truth values: make them numbers first, by .double() or .long()")
    return shape, dtype, computed_span(op.name, *args)


def cast(op, reading, args):
    x, dtype = args
    if dtype == float32 != x._data.dtype and span_of(x) is None:
        reading.values["cast"] = None
    return x.shape, dtype, span_of(x)


def reduction(op, reading, args):
    x, dims, keepdim = args[:3]
    shape = reduced_shape(x.shape, dims, keepdim)
    n = prod(x.shape[d] for d in dims)
    if op.outputs == 2:
        return [(shape, x._data.dtype), (shape, int64, (0, n - 1))]
    if op.name not in ("reduce_sum", "reduce_prod"):
        at_least(n, 1)  # a mean of nothing is NaN
    span = span_of(x) if op.name in ("reduce_sum", "reduce_amax", "reduce_amin") else None
    span = tuple(m * n for m in span) if span is not None and op.name == "reduce_sum" else span
    return shape, x._data.dtype, span


def at_index(dim: int, shape):
    """The shape of what an index chooses, whose numbers lie within a dimension of x."""

    def result(x, index, *more):
        if not inside(index, x.shape[more[0] if dim is None else dim]):
            reading_of((x, index)).refuse("an index of unknown range; declare Index('N', below=...)")
        return shape(x, index)

    return result


def at_least(a, b) -> bool:
    """Is a >= b? An open question is answered so that a slice is what it seems to be, and is then a condition."""
    difference = a - b
    return difference.reading.ask(">=", difference.expr, True) if type(difference) is SymInt else difference >= 0


def cut(x: Tensor, key) -> tuple:
    """A key whose slices are cut to 0 ... n as Python cuts them, and whose numbers count from the beginning."""
    parts, sizes, reading = [], iter(x.shape), reading_of((x, key))
    for part in key:
        reading.check_rising(part)
        n = None if part is None else next(sizes)
        if isinstance(part, slice) and part != slice(None):
            ends = 0 if part.start is None else part.start, n if part.stop is None else part.stop
            ends = [e if at_least(e, 0) else e + n for e in ends]
            start, stop = (0 if not at_least(e, 0) else e if at_least(n, e) else n for e in ends)
            part = slice(start, stop if at_least(stop, start) else start, 1 if part.step is None else part.step)
        parts.append(part + n if isinstance(part, int) and not part >= 0 else part)
    return tuple(parts)


def sliced(x, key):
    """The shape of a part whose key is cut."""
    shape, dims = [], iter(x.shape)
    for part in key:
        n = 1 if part is None else next(dims)
        if isinstance(part, slice) and part != slice(None):
            n = -((part.start - part.stop) // part.step)
        shape += [] if isinstance(part, int) else [n]
    return *shape, *dims


def joined(op, reading, args):
    dim, *xs = args
    shapes = [x.shape for x in xs]
    if op.name == "stack":
        dim = dim % (len(shapes[0]) + 1)
        shapes = [(*shape[:dim], 1, *shape[dim:]) for shape in shapes]
    return joined_shape(shapes, dim)[1], xs[0]._data.dtype


def joined_rows(name: str, dim: int, rows: Tensor) -> Tensor:
    """stack() or cat() of all items of a list, in memory of its own."""
    x = rows._data.tensor
    if name == "stack":
        return movedim(x, 0, dim).clone()
    dim = range(x.ndim - 1)[dim]
    return flatten(movedim(x, 0, dim), dim, dim + 1).clone()


def diagonal(x, offset, a, b):
    n = min(x.shape[a] + min(offset, 0), x.shape[b] - max(offset, 0))
    return *[k for d, k in enumerate(x.shape) if d not in (a, b)], max(n, 0)


def product(a, b):
    if a.shape[-1] != b.shape[-2]:
        raise RuntimeError(f"matmul: shapes {a.shape} and {b.shape} do not fit")
    return *broadcast_shape("matmul", a.shape[:-2], b.shape[:-2], ()), a.shape[-2], b.shape[-1]


def entries(names: str, function) -> dict:
    return dict.fromkeys(names.split(), function)


RULES = {
    **entries("reduce_sum reduce_mean reduce_norm reduce_prod reduce_logsumexp", reduction),
    **entries("reduce_amax reduce_amin reduce_max reduce_min", reduction),
    **entries("cat stack", joined),
    "cast": cast,
    "slogdet": lambda op, reading, args: [(args[0].shape[:-2], args[0]._data.dtype)] * 2,
}
SHAPES = {
    **entries("softmax log_softmax layer_norm rms_norm centred clone flip cholesky cumsum", lambda x, *_: x.shape),
    **entries("expand reshape_view spread unslice undiagonal", lambda x, shape, *_: shape),
    **entries("scatter_rows gather_backward", lambda x, index, shape, *_: shape),
    **entries("linear linear_relu", lambda x, w, b: (*x.shape[:-1], w.shape[0])),
    "take": at_index(0, lambda x, index: index.shape + x.shape[1:]),
    "gather": at_index(None, lambda x, index: index.shape),
    "cross_entropy_rows": at_index(1, lambda x, index: x.shape[:1]),
    "cross_entropy_mean": at_index(1, lambda x, index: ()),
    "matmul": product,
    "permute": lambda x, dims: [x.shape[d] for d in dims],
    "slice": sliced,
    "diagonal": diagonal,
    "attention": lambda q, k, v, *_: (*q.shape[:-1], v.shape[-1]),
    "solve": lambda a, b: b.shape,
    "pinv": lambda a, *_: (*a.shape[:-2], a.shape[-1], a.shape[-2]),
    "det": lambda a: a.shape[:-2],
}


def results_of(op, reading, args) -> list[tuple]:
    """The shape, the dtype and the range of whole numbers of each result."""
    rule = RULES.get(op.name) or (elementwise if op.kernel is not None else None)
    if rule is None and op.name not in SHAPES:
        reading.refuse(f"{op.name}: there is no formula for this operation")
    if rule is None:
        span = span_of(args[0]) if op.view is not None or op.name in (*MOVED, *FILLED) else None
        span = _hull(span, (0, 0)) if op.name in FILLED and span is not None else span
        return [(SHAPES[op.name](*args), args[0]._data.dtype, span)]
    results = rule(op, reading, args)
    return results if isinstance(results, list) else [results]


def _decided(name: str, a, b) -> bool | None:
    """A comparison of whole numbers that has one answer for all of them, at all sizes."""
    if a is None or b is None:
        return None
    k, turned = COMPARED[name]
    a, b = (b, a) if turned else (a, b)
    return True if never_negative(b[0] - a[1] - k) else False if never_negative(a[0] - b[1] + k - 1) else None


def term_of(op, reading: Reading, args) -> Term:
    """The term of an operation; what it compares or rounds are real numbers, or whole ones that floats hold."""
    term = Term(op.name, *map(as_term, args), op=op, reading=reading)
    term.is_sure = not jumps(op.name, args) or decides(op, args)
    if not term.is_sure and not term.is_real:
        reading.refuse(f"{op.name} {ROUNDED}")
    term.is_real = is_real(op, args)
    return taped(reading, term)


def is_real(op, args) -> bool:
    """Are its numbers those of float arguments, or computed from them, beside whole ones and ones of the code?

    0.3 [x > 0] is none: where floats round it, no condition on x leaves that out.
    """
    if op.dtype == "bool" or op.name == "sign":
        return False
    tensors = [a for a in args if isinstance(a, SymbolicTensor)]
    chosen = tensors if op.name in CHOOSING else []
    constants = [a for a in chosen if not a._data.term.is_real and span_of(a) is None]
    return any(a._data.term.is_real for a in tensors) and all(a._data.term.name == "full" for a in constants)


def decides(op, args) -> bool:
    """Do floats decide as formulas do? Of whole numbers that they hold, also beside one other number of the code."""
    numbers = args[:1] if op.name == "cast" else args
    dtype = args[0]._data.dtype if op.name == "cast" else common_dtype(op, args)
    others = [a for a in numbers if dtype.kind == "f" and not is_held(span_of(a), dtype)]
    return not others or (op.name in COMPARED and len(others) == 1 and is_between_the_same(others[0]))


def taped(reading: Reading, term: Term) -> Term:
    """The term, which is off the tape where the tape is switched off."""
    if state.grad:
        return term
    if reading.off_tape:
        reading.refuse(OFF_TAPE)
    return Term("detach", term, reading=reading)


def dispatch(op, args):
    """A primitive operation on tensors without values: its result's shape and dtype by the table, and the term."""
    reading = reading_of(args)
    if not is_ours(op):
        reading.refuse(
            f"{op.name}: an operation of your own has no index formula",
            "; write it with those of tinytensor, or prove() it at small sizes",
        )
    for a in args:
        if type(a) is SymInt:
            reading.check_open(a.expr)
    if op.name in ("cat", "stack"):
        if reading.comprehensions:
            args = (args[0], *reading.comprehensions.pop().all_rows(args[1:]))
        if isinstance(args[1]._data, Rows):
            return joined_rows(op.name, *args)
    if op.name == "cast":
        args = args[0], as_dtype(args[1])
    results = results_of(op, reading, args)
    if op.name in COMPARED and (truth := _decided(op.name, *map(span_of, args))) is not None:
        return tensor_of(SymbolicData(reading, Term("full", results[0][0], truth, reading=reading), *results[0]))
    term = term_of(op, reading, args)
    terms = [term]
    if len(results) > 1:
        terms = [Term(f"result_{n}", term, reading=reading) for n in range(len(results))]
    memory = args[0]._data.memory if op.view is not None and isinstance(args[0]._data, SymbolicData) else None
    made = []
    for term, (shape, dtype, *span) in zip(terms, results, strict=True):
        span = fitting(op.name, reading, span[0] if span else None, np.dtype(dtype))
        made.append(tensor_of(SymbolicData(reading, term, shape, dtype, span, memory)))
    return made[0] if len(made) == 1 else tuple(made)


def as_term(a):
    """An argument in a term; the numbers of an ordinary tensor are copied, since they may be changed later."""
    if isinstance(a, Tensor):
        return a._data.term if isinstance(a._data, SymbolicData) else a._data.copy()
    if isinstance(a, tuple | list):
        return tuple(map(as_term, a))
    return a.item() if isinstance(a, np.generic) else a
