"""Functions that fool a reading by examples: what they do at one size, value, dtype or call differs from the others.

Each is refused with its line, or read under a condition that is true, or read rightly (test_reading.py).
"""

import collections
import dataclasses
import functools
import itertools
import math
import operator
import types

import numpy as np

import tinytensor as tt
from tests.symbolic.programs import functions_of, with_backward
from tinytensor import nn
from tinytensor.core.op import op
from tinytensor.nn import functional as F

N = lambda x: x.shape[0]  # noqa: E731
s = lambda x: (x * x).sum()  # noqa: E731
if_ = lambda condition, x: s(x) * (2.0 if condition else 1.0)  # noqa: E731
counter, limit = [0], 20
buffer, ones = tt.zeros(3, dtype=tt.float64), iter([1.0] * 500)
read_at = eval("lambda x: (x * x).sum() * (1 + (type(x.shape[0]) is int))")
norm = nn.BatchNorm1d(3).double()


def changed(change):
    """A change of y = 2 x in place."""

    def f(x):
        y = x * 2
        change(y)
        return s(y)

    return f


def frozen(y):
    with tt.no_grad():
        y.clamp_(max=1000)


def looped(body, start=lambda x: tt.zeros((), dtype=tt.float64)):
    def f(x):
        h = start(x)
        for t in range(len(x)):
            h = body(h, x, t)
        return h

    return f


def stack(rows):
    return tt.stack(rows).sum() * len(rows)


zero = lambda: tt.zeros((), dtype=tt.float64)  # noqa: E731
weights = lambda x: 1.0 + (tt.arange(len(x)) >= 150)  # noqa: E731


def changed_part(part):
    """A change in place of a part of y, or of a copy of it."""

    def change(y):
        z = part(y)
        z.mul_(weights(z))

    return changed(change)


def stacked(row, change):
    """A loop that collects row(y, t) for y = 2 x, and a change afterwards."""

    def f(x):
        y, rows = x * 2, []
        for t in range(len(x)):
            rows.append(row(y, t))
        change(y, rows)
        return s(tt.stack(rows))

    return f


kept = zero()


def doubled(weights):
    weights.mul_(2.0)
    return weights


def items_read(read):
    """A function of the items that a loop has collected, of which the first is 1."""

    def f(x):
        rows = [tt.ones((), dtype=tt.float64)]
        for t in range(len(x)):
            rows.append(rows[-1] * 0.5 + x[t])
        return read(rows)

    return f


def counting(box, change, count):
    """A state that a step changes without a name of its own."""

    def f(x):
        h, own = zero(), box()
        for t in range(len(x)):
            change(own)
            h = h + x[t]
        return h * (2.0 if count(own) > 150 else 1.0)

    return f


add = operator.iadd


def applied(f):
    return lambda n: f(n)


by_abs, by_id = applied(abs), applied(id)


def numbers():
    n = 0.0
    while True:
        yield n
        n += 1.0


def written(key):
    def f(x):
        y = tt.zeros(1, dtype=tt.float64)
        y[0] = x[key]
        return s(x) + s(y)

    return f


def ignores(rows, y):
    return tt.stack([y])


def total(items):
    n = 0.0
    for item in items:
        n = n + item * 2
    return n


class Hidden(list):
    def __iter__(self):
        return iter(())


@dataclasses.dataclass
class Config:
    n: int = 0


class Half:
    def __init__(self, number):
        self.factor = number * 0.5


def function():
    pass


function.rows = []


@op
class square:
    r"y = x + 1, under the name of an operation of the engine"

    def kernel(x):
        return x + 1


class Counting(nn.Module):
    seen = 0

    def forward(self, x):
        self.seen = self.seen + 1
        return s(x)


class Growing(nn.Module):
    """A state that a copy of the module would hide."""

    def __init__(self, change):
        super().__init__()
        self.rows, self.change = [1.0], change
        self.count = nn.Buffer(tt.zeros(()))

    def forward(self, x):
        self.change(self)
        return s(x) * len(self.rows) * (1 + self.count)


IS_LARGE = "type(n) is int and int.bit_length(n) > 8"
created: list[object] = []


def compiled(body, module=__name__, file="<string>", header="def __eq__(self, n):"):
    """A function of x that asks an object whose __eq__ was compiled from a text, as those of dataclasses are."""
    made = {"__name__": module, "created": created}
    exec(compile(f"{header}\n  {body}", file, "exec"), made)
    of_text = type("OfText", (), {"__eq__": made["__eq__"], "number": 200})()
    return lambda x: if_(of_text == N(x), x)


@dataclasses.dataclass(frozen=True, order=True)
class Sized:
    n: int
    rows: list = dataclasses.field(default_factory=list)


sized = Sized(150)
square.rows = []


class Defaults:
    def __call__(self, calls=[]):  # noqa: B006
        return len(add(calls, [1.0]))


defaults = Defaults()
Clamped = with_backward(lambda ctx, x: x.clamp(max=6), lambda ctx, g: g)
library = types.ModuleType("library")
library.W, library.math, library.__getattr__ = np.array([1.0, 2.0]), math, lambda name: id


def appending():
    rows = []
    return rows, tt.no_grad()(rows.append)


def whole_numbers(x, number):
    return (tt.arange(N(x)) + number).double()


is_of = isinstance


def later_part(x, first=300):
    """x from an entry on that no size has at which numbers are compared."""
    return x * (tt.arange(len(x)) >= first)


def later(x, condition, first=300):
    return s(x) + s(later_part(x, first)) * (2.0 if condition else 1.0)


def run_twice(items):
    """Two loops over the items of an iterator, of which the second has none."""

    def f(x):
        h, rows = s(x), items(later_part(x))
        for row in rows:
            h = h + row[1] ** 2
        for row in rows:
            h = h + row[1] ** 2
        return h

    return f


switching, grids, asked_tensor = np.zeros(6), np.zeros((2, 3)), tt.zeros(3)
points = tt.arange(3, dtype=tt.float64)
lists = [[0.0]], [[0.0]]
other_builtins = {"__name__": __name__, "__builtins__": {"abs": id}}
exec("def identity_of(n): return abs(n)", other_builtins)
identity_of = other_builtins["identity_of"]


async def waits(n):
    return int.bit_length(n)


class Sorted:
    """NumPy drops the TypeError of its argsort(), which a number would not raise."""

    def __init__(self, n):
        self.n = n

    def argsort(self, **options):
        return int.bit_length(self.n)


class Tagged:
    """Its __init__() gives an attribute to another object."""

    def __init__(self, y):
        y.rows = []


class Held:
    """Programs that call what a name's object holds, or a function returns."""

    def of_other_builtins(x):
        return if_(identity_of(N(x)) == identity_of(20), x)

    def of_a_generator(x):
        items = (n for n in (1, 2))
        return if_(items.gi_frame.f_builtins["id"](N(x)) == 20, x)

    def in_a_class(x, asks=type):
        class Answer:
            same = asks(N(x)) == asks(20)

        return if_(Answer.same, x)


class Kept:
    """Programs after which another call differs."""

    def flags(x):
        switching.setflags(write=not switching.flags.writeable)
        return if_(switching.flags.writeable, x)

    def form(x):
        grids.resize(grids.shape[::-1], refcheck=False)
        return if_(grids.shape == (2, 3), x)

    def wanted_gradient(x):
        asked_tensor.requires_grad_(not asked_tensor.requires_grad)
        return if_(asked_tensor.requires_grad, x)

    def two_names(x):
        a, b = lists
        a[0], b[0] = b[0], a[0]
        return s(x)

    def removed_name(x):
        global limit
        del limit
        return s(x)


class Questions:
    """Programs that ask what a size, a value or an object is."""

    def swallowed(x):
        try:
            return s(x) * int(N(x))
        except BaseException:
            return s(x)

    def global_count(x):
        counter[0] += 1
        return if_(counter[0] > 150, x)

    def iterated(x, *, items=ones):
        return s(x) * next(items)

    def of_a_default(x, equal=int.__eq__):
        return if_(equal(20, N(x)) is True, x)

    def changed_by_a_tensor(x):
        y = x * 1
        row = y[tt.tensor(0)]
        row *= 3
        return s(y)

    def seen_by_a_view(x):
        y = tt.zeros((), dtype=tt.float64)
        view = y.reshape(1)
        y += x.sum()
        return s(view) + s(x)

    def matched_by_name(x):
        match N(x):
            case int(expr=_):
                return s(x)
        return if_(N(x) > 150, x)

    def matched_shape(x):
        match x.shape:
            case (n,):
                return s(x) * n

    def imported(x):
        from tinytensor.symbolic.reading.sizes import SymInt as Inside

        return s(x) if isinstance(N(x), Inside) else if_(N(x) > 150, x)


class Loops:
    """Programs with loops: their states, and the items that they collect."""

    def matched_range(x):
        match range(len(x)):
            case [*_]:
                return s(x)
        return s(x) + s(later_part(x))

    def collected(x):
        rows = []
        for t in range(len(x)):
            rows.append(x[t] * 2)
        return rows[0]

    def extended(x):
        rows = []
        for t in range(len(x)):
            rows += [x[t]]
        return tt.stack(rows).sum()

    def counted(x):
        n, h = 0, tt.zeros((), dtype=tt.float64)
        for t in range(len(x)):
            h = h + x[t]
            n = n + 1
        return h * n

    def last_step(x):
        for t in range(len(x)):
            y = x[t]
        return y * t

    def numbered_backward(x):
        h = tt.zeros((), dtype=tt.float64)
        for i, row in enumerate(reversed(x)):
            h = h + i * row
        return h

    def neighbours(x):
        h = 0 * x[0]
        for a, b in zip(x, x[1:]):  # noqa: RUF007
            h = h + a * b
        return h

    def looped_backward(x):
        h = x[0] * 0
        for t in range(len(x) - 1, 149, -1):
            h = h * 0.5 + x[-1 - t] * t
        return h

    def asks_for_its_type(x):
        h = 0.0
        for t in range(len(x)):
            h = h + x[t] * (2.0 if isinstance(h, float) else 1.0)
        return h

    def key_of_a_dict(x):
        h = zero()
        weights = {h: 2.0}
        for t in range(len(x)):
            h = h + x[t] * weights.get(h, 1.0)
        return h

    def collected_in_place(x):
        h, rows = 0.0, []
        for t in range(len(x)):
            h += x[t]
            rows.append(h)
        return s(tt.stack(rows))

    def number_with_another_name(x):
        h, y = 0.0, 0.0
        for t in range(len(x)):
            before = h
            h += x[t]
            y = y + before * x[t]
        return y + h

    def changed_a_step_later(x):
        h, before, rows = zero(), zero(), []
        for t in range(len(x)):
            before += 1.0
            rows.append(h)
            before, h = h, h + x[t]
        return s(tt.stack(rows)) + before

    def view_of_the_step_before(x):
        h, y = tt.zeros(1, dtype=tt.float64), zero()
        before = h * 1
        for t in range(len(x)):
            h += x[t]
            y = y + before.sum() * x[t]
            before = h.view(1)
        return y

    def default_in_place(x, h=kept):
        for t in range(len(x)):
            h += x[t]
        return h

    def changed_then_replaced(x):
        h = zero()
        for t in range(len(x)):
            h += x[t]
            h = h * 0.5
        return h

    def first_one_changed(x):
        first = zero()
        h = first
        for t in range(len(x)):
            h += x[t]
            h = h * 0.5
        return h + first

    def other_name(x):
        h = zero()
        kept = [h]
        for t in range(len(x)):
            h += x[t]
        return kept[0] * h

    def helper_in_place(x):
        h, weights = zero(), tt.ones((), dtype=tt.float64)
        for t in range(len(x)):
            h = h + x[t] * doubled(weights)
        return h

    def two_names_of_a_list(x):
        rows = [x[0]]
        others = rows
        for t in range(len(x)):
            rows.append(rows[-1] * x[t])
        return s(tt.stack(others))

    def first_item_changed(x):
        first = x[0] * 1
        rows = [first]
        for t in range(len(x)):
            rows.append(rows[-1] * x[t])
        first *= 2
        return s(tt.stack(rows))

    def number_as_first_item(x):
        first = tt.ones((), dtype=tt.float64)
        rows = [first]
        for t in range(len(x)):
            rows.append(rows[-1] * x[t])
        first *= 2
        return s(tt.stack(rows))

    def two_items_in_a_step(x):
        rows = []
        for t in range(len(x)):
            rows.append(x[t])
            rows.append(x[t] * 2)
        return s(tt.stack(rows))

    def new_list_in_a_step(x):
        rows = []
        for t in range(len(x)):
            if t == 0:
                rows = []
            rows.append(x[t])
        return s(tt.stack(rows))

    def last_item_twice(x):
        rows = [x[0]]
        for t in range(len(x)):
            rows.append(rows[-1] * 0.1 + x[t])
            rows[-1].mul_(2)
        return s(tt.stack(rows))

    def beside_a_list(x):
        rows = [x[0]]
        for t in range(len(x)):
            rows.append(rows[-1] + x[t])
        return if_(rows == [], x) + len([0] + rows) * x.sum()

    def with_sequence(x):
        rows = []
        for t in range(len(x)):
            rows.append(x[t] * 2)
        match rows:
            case [first]:
                return s(first)
        return s(tt.stack(rows))

    def items_in_two_loops(x):
        rows = [x[0]]
        for t in range(len(x)):
            rows.append(rows[-1] * 0.5 + x[t])
        for t in range(len(x)):
            rows.append(rows[-1] + x[t])
        return s(tt.stack(rows))

    def number_after_no_step(x):
        h = 0.0
        for t in range(len(x) - 150):
            h = h + x[t]
        return if_(isinstance(h, float), x) + h

    def name_after_no_step(x):
        first = x.sum()
        h = first
        for t in range(len(x) - 150):
            h = h + x[t]
        h += 1
        return h * first

    def broken_off(x):
        h = tt.zeros((), dtype=tt.float64)
        for t in range(len(x)):
            h = h + x[t]
            break
        return h

    def iterator_in_a_step(x):
        h, twice = zero(), reversed(range(0, 2 * len(x), len(x)))
        for t in range(len(x)):
            for _ in twice:
                h = h + x[t]
        return h

    def by_push(x):
        rows, h = [], zero()
        push = rows.append
        for t in range(len(x)):
            push(1.0)
            h = h + x[t]
        return h * (2.0 if len(rows) > 150 else 1.0)

    def by_closure(x):
        def pushes(rows):
            return lambda: add(rows, [1.0])

        rows, h = [], zero()
        pushes([])()
        push = pushes(rows)
        for t in range(len(x)):
            push()
            h = h + x[t]
        return h * (2.0 if len(rows) > 150 else 1.0)

    def objects_in_a_step(x):
        h, acts, config = zero(), {"tanh": tt.tanh}, Config(3)
        half, points = functools.partial(operator.mul, 0.5), np.array([1.0, 2.0])
        for t in range(len(x)):
            h = acts["tanh"](half(h)) + x[t] * points[0] * config.n * Config(3).n * Half(t).factor
        return h

    def a_list_afterwards(x):
        rows, h = [], zero()
        for t in range(len(x)):
            h = h * 0.5 + x[t]
        rows.append(h)
        return s(tt.stack(rows))

    def in_comprehension(x):
        own = (tt.zeros((), dtype=tt.float64),)
        return sum(x[t] * own[0].add_(1.0) for t in range(len(x)))

    def attribute_of_a_tensor(x):
        y, h = x * 2, zero()
        Tagged(y)
        for t in range(len(x)):
            add(y.rows, [1.0])
            h = h + y[t]
        return h * (2.0 if len(y.rows) > 150 else 1.0)

    def outer_names_in_a_step(x):
        h = zero()
        for t in range(len(x)):
            first, y = points, x
            h = h * 0.5 + y[t] * first[1]
        return h * points.sum() * x.sum()

    def functions_in_a_step(x):
        h = zero()
        for t in range(len(x)):
            if h.ndim:
                raise ValueError(h.shape)
            with tt.no_grad():
                weight = h.tanh()
            h = (lambda h: h * 0.5)(h) + x[t] * weight
            del weight
        return h

    def doubled_at_the_end(x):
        h = zero()
        for t in range(len(x) - 150):
            h = h * 0.5 + x[t]
        else:
            h = h * 2
        return h


TRICKS = {
    **functions_of(Questions),
    **{f"held: {name}": program for name, program in functions_of(Held).items()},
    **{f"kept: {name}": program for name, program in functions_of(Kept).items()},
    **functions_of(Loops),
    "1 + 2**(N - 200)": lambda x: s(x) * (1 + 2 ** (N(x) - 200)),
    "N + 2.0**(N - 160)": lambda x: s(x) * (N(x) + 2.0 ** (N(x) - 160)),
    "dict.get(N)": lambda x: s(x) * {20: 2.0}.get(N(x), 1.0),
    "N in (20, 40)": lambda x: if_(N(x) in (20, 40), x),
    "list[N]": lambda x: s(x) * [1.0, 2.0][N(x)],
    "x.shape == (20,)": lambda x: if_(x.shape == (20,), x),
    "N == 20": lambda x: if_(N(x) == 20, x),
    "np.int64(20) == N": lambda x: if_(np.int64(20) == N(x), x),
    "(20).__eq__(N)": lambda x: if_((20).__eq__(N(x)) is True, x),
    "len('a' * N)": lambda x: if_(len("a" * N(x)) == 20, x),
    "len([0] * N)": lambda x: if_(len([0] * N(x)) == 20, x),
    "an error that NumPy drops": lambda x: if_(np.argsort(Sorted(N(x))) == 0, x),
    "N.expr": lambda x: if_(N(x).expr == 20, x),
    "a coroutine": lambda x: if_(waits(N(x)).send(None) == 20, x),
    "N.bit_length()": lambda x: if_(N(x).bit_length() > 8, x),
    "x.stride(0)": lambda x: if_(x.unsqueeze(0).stride(0) == 20, x),
    "x.__len__()": lambda x: if_(x.__len__() == 20, x),
    "np.shape(x)": lambda x: if_(np.shape(x)[0] == 20, x),
    "f'{N}'": lambda x: if_(f"{N(x)}" == "20", x),
    "'%d' % N": lambda x: if_("%d" % N(x) == "20", x),  # noqa: UP031
    "math.isqrt(N)": lambda x: if_(math.isqrt(N(x)) == 6, x),
    "math.log2(N)": lambda x: if_(math.log2(N(x)) > 8, x),
    "divmod(N, 20)": lambda x: if_(divmod(N(x), 20)[1] == 0, x),
    "N & 64": lambda x: if_(N(x) & 64, x),
    "N**N < 10**400": lambda x: if_(N(x) ** N(x) < 10**400, x),
    "sorted([N, 200])": lambda x: s(x) * sorted([N(x), 200])[0],
    "min(N, 200)": lambda x: s(x) * min(N(x), 200),
    "round(N / 2)": lambda x: s(x) * round(N(x) / 2),
    "N // 7 % 2": lambda x: if_(N(x) // 7 % 2 == 0, x),
    "np.minimum(N, 150)": lambda x: s(x) * np.minimum(N(x), 150),
    "np.arange(N)": lambda x: if_((np.arange(N(x)) >= 150).any(), x),
    "list(range(N))[:150]": lambda x: s(x) * len(list(range(N(x)))[:150]),
    "islice(range(N), 150)": lambda x: s(x) * len(list(itertools.islice(range(N(x)), 150))),
    "any(i == 150 ...)": lambda x: if_(any(i == 150 for i in range(N(x))), x),
    "[... for i in range(N)]": lambda x: s(x) * len([i for i in range(N(x)) if i < 200]),
    "zip(x, range(600))": lambda x: sum(a for a, _ in zip(x, range(600))),
    "polynomial, 0 at the sizes tried": lambda x: s(x) * (1 + math.prod(N(x) - k for k in (20, 29, 31))),
    "x[:150]": lambda x: s(x[:150]),
    "x[-150:]": lambda x: s(x[-150:]),
    "x[149]": lambda x: s(x) * x[149],
    "split(200)[0]": lambda x: s(x.split(200)[0]),
    "chunk(200)[0]": lambda x: s(x.chunk(200)[0]),
    "x.tril(150)": lambda x: (x.unsqueeze(0) * x.unsqueeze(1)).tril(150).sum(),
    "ones.triu(-150)": lambda x: (tt.ones(N(x), N(x)).triu(-150) * x).sum(),
    "softplus(threshold=5)": lambda x: F.softplus(x, threshold=5).sum(),
    "sigmoid(arange - 500)": lambda x: (tt.sigmoid(tt.arange(N(x)) - 500.0) * x).sum(),
    "1 + (arange / 1000)**10": lambda x: ((1 + (tt.arange(N(x)) / 1000) ** 10) * x).sum(),
    "eye(N)[:150]": lambda x: (tt.eye(N(x))[:150].sum(0) * x).sum(),
    "ones(N)[:150].sum()": lambda x: s(x) * tt.ones(N(x))[:150].sum(),
    "pad(ones(150), N - 150)": lambda x: (F.pad(tt.ones(150), (0, N(x) - 150)) * x).sum(),
    "searchsorted": lambda x: s(x) * tt.searchsorted(tt.arange(N(x)), tt.tensor(150)),
    "arange % 150": lambda x: (tt.arange(N(x)) % 150 * x).sum(),
    "arange[-2]": lambda x: s(x) * tt.arange(N(x))[-2],
    "ones[-150]": lambda x: s(x) * tt.ones(N(x))[-150],
    "arange >= 150": lambda x: ((tt.arange(N(x)) >= 150) * x).sum(),
    "isin(arange, [150])": lambda x: (tt.isin(tt.arange(N(x)), tt.tensor([150])) * x).sum(),
    "list of weights": lambda x: (tt.tensor([2.0 if i >= 150 else 1.0 for i in range(N(x))]) * x).sum(),
    "diff(n=140)": lambda x: s(x.diff(n=140)),
    "roll(150)": lambda x: (x.roll(150) * x).sum(),
    "ones.sum().item()": lambda x: if_(tt.ones(N(x)).sum().item() > 150, x),
    "arange & 255": lambda x: ((tt.arange(N(x)) & 255) * x).sum(),
    "arange >> 8": lambda x: ((tt.arange(N(x)) >> 8) * x).sum(),
    "arange to uint8": lambda x: (tt.arange(N(x)).to(tt.uint8) * x).sum(),
    "arange**8 in int64": lambda x: (tt.arange(N(x)) ** 8 * x).sum(),
    "arange to int32, times": lambda x: (tt.arange(N(x)).to(tt.int32) * 16_000_000 * x).sum(),
    "x to int32": lambda x: (x.to(tt.int32) * x).sum(),
    "x.long()": lambda x: (x.long() * x).sum(),
    "y.data.clamp_": changed(lambda y: y.data.clamp_(max=1000)),
    "y.clamp_ under no_grad": changed(frozen),
    "y.detach().clamp_": changed(lambda y: y.detach().clamp_(max=1000)),
    "y[0] = 1": changed(lambda y: y.__setitem__(0, 1.0)),
    "zeros += x": lambda x: tt.zeros(3).add_(x[:3]),
    "y.numpy()": changed(lambda y: y.detach().numpy().clip(max=1000, out=y.detach().numpy())),
    "x.max().item()": lambda x: if_(x.max().item() > 1000, x),
    "repr": lambda x: if_(len(repr(x)) > 1000, x),
    "bool(x.any())": lambda x: if_((x > 1000).any(), x),
    "x[x > 0].shape": lambda x: if_(x[x > 0].shape[0] > 3, x),
    "nonzero": lambda x: s(x) * len((x > 0).nonzero()),
    "allclose": lambda x: if_(tt.allclose(x, x * 2), x),
    "dlpack": lambda x: if_(np.from_dlpack(x).max() > 3, x),
    "dtype": lambda x: if_(x.dtype == tt.float32, x),
    "eps of the dtype": lambda x: F.rms_norm(x, x.shape),
    "requires_grad": lambda x: if_(x.requires_grad, x),
    "grad mode": lambda x: if_(tt.is_grad_enabled(), x),
    "own op named square": lambda x: square(x).sum(),
    "own Function": lambda x: Clamped.apply(x).sum(),
    "a module's counter": Counting(),
    "a text as __eq__": compiled("try: return int.bit_length(n) > 8\n  except TypeError: return False"),
    "a text that asks for types": compiled(f"return {IS_LARGE}"),
    "a text with the name of a library": compiled(f"return {IS_LARGE}", "collections"),
    "a text with the name of a namedtuple": compiled(f"return {IS_LARGE}", "namedtuple_Row"),
    "a text with a library's file": compiled(f"return {IS_LARGE}", file=collections.__file__),
    "a text with tinytensor's file": compiled(f"return {IS_LARGE}", tt.ops.shape.__name__, tt.ops.shape.__file__),
    "a text that counts": compiled("created.append(n); return len(created) > 900"),
    "a text with `is`": compiled("return n is self.number"),
    "dataclasses of sizes": lambda x: if_(Sized(N(x)) > sized, x),
    "an attribute of an operation": lambda x: if_(add(square.rows, [1.0]) and len(square.rows) > 150, x),
    "a module's list": Growing(lambda m: add(m.rows, [1.0])),
    "a module's buffer": Growing(lambda m: m.count.add_(1.0)),
    "full() of truth values": lambda x: s(x) * (1 + tt.full((3,), N(x) // 212, dtype=tt.bool).sum()),
    "full() of whole numbers": lambda x: s(x) * (1 + tt.full((3,), (N(x) // 212) / 2, dtype=tt.int64).sum()),
    "tensor(N // 212) as a truth value": lambda x: s(x) * (1 + tt.tensor(N(x) // 212, dtype=tt.bool).double()),
    "masked_fill() of truth values": lambda x: ((x > 1).masked_fill(x > 0, N(x) // 212) * x).sum(),
    "float32 % 2": lambda x: s(x) * (tt.full((3,), N(x) + 2**24 - 220, dtype=tt.float32) % 2).double().sum(),
    "arange of float32 % 2": lambda x: (tt.arange(2**24 - 220, N(x) + 2**24 - 220, dtype=tt.float32) % 2 * x).sum(),
    "(N + 2**53).double() % 2": lambda x: s(x) * (tt.tensor(N(x) + 2**53 - 220).double() % 2),
    "N is limit": lambda x: if_(N(x) is limit, x),
    "a text that was compiled": read_at,
    "np.int64(2**55) * N > 0": lambda x: if_(np.int64(2**55) * N(x) > 0, x),
    "(N >= np.float64(1)) + (N >= np.float64(1))": lambda x: (
        s(x) * ((N(x) >= np.float64(1)) + (N(x) >= np.float64(1)))),
    "np.float64(1) * N": lambda x: later(
        x, ((np.float64(1) * N(x) >= 1) + (np.float64(1) * N(x) >= 1)) == 2, first=2100),
    "isinstance(np.int64(2) * N, int)": lambda x: later(x, isinstance(np.int64(2) * N(x), int), first=2100),
    "np.int8(100) + N": lambda x: s(x) * (N(x) + np.int8(100)),
    "N // 2.5": lambda x: s(x) * (N(x) // 2.5),
    "isinstance(2**N, float)": lambda x: if_(isinstance(2 ** N(x), float), x),
    "math.floor(0.29 * N)": lambda x: s(x) * math.floor(N(x) * 0.29),
    "1 + 0.5**N > 1": lambda x: if_(1 + 0.5 ** N(x) > 1, x),
    "isfinite(1e300 * N**4)": lambda x: if_(math.isfinite(1e300 * N(x) ** 4), x),
    "(-1)**N": lambda x: s(x) * (-1) ** N(x),
    "(-1.0)**N": lambda x: s(x) * (-1.0) ** N(x),
    "floor(0.29 * arange)": lambda x: ((tt.arange(N(x)) * 0.29).floor() * x).sum(),
    "arange > 0.29 * N": lambda x: ((tt.arange(N(x)) > N(x) * 0.29) * x).sum(),
    "arange of uint8": lambda x: (tt.arange(N(x), dtype=tt.uint8) * x).sum(),
    "uint8 > -1": lambda x: (((tt.arange(N(x)) % 20).to(tt.uint8) > -1) * x).sum(),
    "sum of truth values": lambda x: (((tt.arange(N(x)) >= 300) + (tt.arange(N(x)) >= 250)) * x).sum(),
    "arange(1, N + 2, 3)": lambda x: tt.arange(1, N(x) + 2, 3).sum() * s(x),
    "index_fill": lambda x: s((x * 2).index_fill(0, tt.tensor([250]), 5.0)),
    "zeros[0] = x[250]": written(250),
    "stack() of the user's": lambda x: stack([x[t] ** 2 for t in range(len(x))]),
    "detach_()": lambda x: ((x * 2).detach_() * x).sum(),
    "_requires_grad": lambda x: if_(x._requires_grad, x),
    "a buffer of the user's": lambda x: (buffer.add_(x[:1].detach()), s(x) * buffer.sum())[1],
    "a buffer of a module": lambda x: s(norm(x[:, None].expand(N(x), 3))),
    "grad() inside": lambda x: s(tt.autograd.grad(s(x), x)[0]),
    "loop: an array": counting(lambda: np.zeros(1), lambda w: np.add(w, 1, out=w), lambda w: w[0]),
    "loop: a tensor in a tuple": counting(lambda: (tt.zeros(()),), lambda w: w[0].add_(1.0), lambda w: w[0]),
    "loop: t % 150": looped(lambda h, x, t: h + x[t] * (t % 150)),
    "loop: t == 450": looped(lambda h, x, t: h + x[t] * (2.0 if t == 450 else 1.0)),
    "loop: t in {450}": looped(lambda h, x, t: h + x[t] * (2.0 if t in {450} else 1.0)),
    "loop: list[t]": looped(lambda h, x, t: h + x[t] * [1.0, 2.0][t]),
    "loop: 2.0**(t - 1000)": looped(lambda h, x, t: h + x[t] * (1 + 2.0 ** (t - 1000))),
    "loop: 2.0**(t - 1000) * x[-1 - t]": looped(lambda h, x, t: h * 0.5 + x[-1 - t] * (1 + 2.0 ** (t - 1000))),
    "loop: x[-t]": looped(lambda h, x, t: h * 0.5 + x[-t]),
    "loop: x[-151 - t]": looped(lambda h, x, t: h * 0.5 + x[-151 - t]),
    "loop: first step differs": looped(lambda h, x, t: h + x[t] if t else x[t]),
    "loop: shape grows": looped(lambda h, x, t: tt.cat([h, x[t].reshape(1)]), lambda x: tt.zeros(1, dtype=tt.float64)),
    "number_that_grows": looped(lambda h, x, t: (h * x[t]).unsqueeze(0), lambda x: 0.0),
    "with_next": counting(itertools.count, next, next),
    "by_gradient": counting(
        lambda: tt.zeros(1, requires_grad=True), lambda w: w.sum().backward(), lambda w: w.grad.sum()),
    "loop: changes an outer tensor that was collected": stacked(lambda y, t: y, lambda y, rows: y.mul_(2)),
    "loop: changes the base of collected views": stacked(lambda y, t: y[t], lambda y, rows: y.mul_(2)),
    "loop: changes an item": stacked(lambda y, t: y[t] * 2, lambda y, rows: rows[0].mul_(2)),
    "loop: adds to what was collected": stacked(lambda y, t: y[t], lambda y, rows: rows.extend([y[0]])),
    "loop: looks for an item": stacked(lambda y, t: y[t], lambda y, rows: y[0] in rows),
    "loop: items[-1]": items_read(lambda rows: rows[-1]),
    "loop: items[-2]": items_read(lambda rows: rows[1:][-2]),
    "loop: items[3]": items_read(lambda rows: rows[3]),
    "loop: items[:150]": items_read(lambda rows: s(tt.stack(rows[:150]))),
    "loop: len(items)": items_read(lambda rows: if_(len(rows) == 150, tt.stack(rows))),
    "loop: sum(items)": items_read(sum),
    "x.float()": lambda x: (x.float() * x).sum(),
    "changes y[1:].contiguous()": changed_part(lambda y: y[1:].contiguous()),
    "changes y[0:].contiguous()": changed_part(lambda y: y[0:].contiguous()),
    "changes y[None].T.contiguous()": changed_part(lambda y: y[None].T.contiguous()[:, 0]),
    "changes y.expand(N).contiguous()": changed_part(lambda y: y.expand(len(y)).contiguous()),
    "changes y[1:].detach().ravel()": changed_part(lambda y: y[1:].detach().ravel()),
    "x[None].T.contiguous()": lambda x: s(x[None].T.contiguous().view(-1)),
    "changes a copy alone": lambda x: s((x * 2)[None].T.contiguous().mul_(3.0)),
    "diag(arange + 5)[0] > 0": lambda x: ((tt.diag(tt.arange(N(x)) + 5)[0] > 0) * x).sum(),
    "pad(arange + 5, (0, 3))[3:] > 0": lambda x: ((F.pad(tt.arange(N(x)) + 5, (0, 3))[3:] > 0) * x).sum(),
    "arange / 1001 > tensor(249 / 1001)": lambda x: ((tt.arange(N(x)) / 1001 > tt.tensor(249 / 1001)) * x).sum(),
    "sum of quotients > 0.3": lambda x: (((tt.arange(N(x)) / 10).cumsum(0) > 0.3) * x).sum(),
    "arange / 10 > 0.3": lambda x: ((tt.arange(N(x)) / 10 > 0.3) * x).sum(),
    "N / 10 > 0.3": lambda x: if_(N(x) / 10 > 0.3, x),
    "Parameter(x)": lambda x: s(nn.Parameter(x * (weights(x) - 1))) + s(x),
    "Buffer(x)": lambda x: s(nn.Buffer(x * (weights(x) - 1))) + s(x),
    "Tensor(x)": lambda x: s(tt.Tensor(x * (weights(x) - 1))) + s(x),
    "math.sqrt(300 - N)": lambda x: s(x) * math.sqrt(300 - N(x)),
    "math.log(300 - N)": lambda x: s(x) * math.log(300 - N(x)),
    "(300 - N)**0.5": lambda x: s(x) * (300 - N(x)) ** 0.5,
    "(301 - N)**-1": lambda x: s(x) * (301 - N(x)) ** -1,
    "1 / (N - 150)": lambda x: s(x) * (1 / (N(x) - 150)),
    "math.sqrt(1 - 0.9**N)": lambda x: s(x) * math.sqrt(1 - 0.9 ** N(x)),
    "element_size()": lambda x: s(x) * tt.zeros(1).element_size(),
    "itemsize": lambda x: s(x) * tt.zeros(1).numpy().itemsize,
    "tensor(0.1).item() == 0.1": lambda x: if_(tt.tensor(0.1).item() == 0.1, x),
    "16777217.0 == 16777216.0": lambda x: if_(tt.tensor([16777217.0]) == 16777216.0, x),
    "tensor(16777217.0).long()": lambda x: s(x) * (tt.tensor(16777217.0).long() % 2),
    "cat() that ignores its list": lambda x: (lambda cat: s(cat([x[0] for t in range(N(x))], x.sum())))(ignores),
    "stack() beside stack()": lambda x: s(tt.stack([x[0] for t in range(N(x))], dim=0 * tt.stack([x[0]]).ndim)),
    "own sum()": lambda x: (lambda sum: sum(x[t] for t in range(N(x))))(total),
    "len() named stack": lambda x: (lambda stack: s(x) * stack([x[t] for t in range(N(x))]))(len),
    "stack() by another name": lambda x: (lambda join: s(join([x[t] * 2 for t in range(N(x))])))(tt.stack),
    "sum() with a start": lambda x: sum((x[t] ** 2 for t in range(N(x))), 1.0),
    "loop: partial(iadd, rows)": counting(
        lambda: functools.partial(add, []), lambda f: f([1.0]), lambda f: len(f.args[0])),
    "loop: an attribute of a function": counting(lambda: function, lambda f: add(f.rows, [1.0]), lambda f: len(f.rows)),
    "loop: a list that hides": counting(Hidden, lambda rows: add(rows, [1.0]), len),
    "loop: an array of objects": counting(
        lambda: np.array([[], None], dtype="O"), lambda box: add(box[0], [1.0]), lambda box: len(box[0])),
    "loop: a scheduler": counting(
        lambda: tt.optim.lr_scheduler.StepLR(tt.optim.SGD([nn.Parameter(tt.zeros(1))], lr=1.0), step_size=150),
        lambda scheduler: scheduler.step(), lambda scheduler: 1000 * scheduler.get_last_lr()[0]),
    "loop: a ModuleList": counting(
        lambda: nn.ModuleList([]), lambda layers: add(layers, [nn.ReLU()]), lambda layers: len(list(layers))),
    "loop: __init__() of a dataclass": counting(Config, lambda config: config.__init__(config.n + 1), lambda c: c.n),
    "an attribute between calls": lambda x: if_(add(function.rows, [1.0]) and len(function.rows) > 150, x),
    "defaults of __call__": lambda x: if_(defaults() > 150, x),
    "what a module makes up": lambda x: if_(library.f(N(x)) == library.f(20), x),
    "the numbers of objects": lambda x: if_(
        np.array([N(x)], dtype="O").tobytes() == np.array([20], dtype="O").tobytes(), x),
    "arrays and modules of a module": lambda x: s(x) * float(library.W[1]) * library.math.pi,
    "loop: no_grad()(rows.append)": counting(appending, lambda both: both[1](1.0), lambda both: len(both[0])),
    "arange + 2**53": lambda x: ((whole_numbers(x, 2**53 - 280) == whole_numbers(x, 2**53 - 281)) * x).sum(),
    "two functions of one code": lambda x: if_(by_abs(N(x)) and by_id(N(x)) == by_id(20), x),
    "__doc__": lambda x: if_(len(N(x).__doc__) > 300, x),
    "__name__": lambda x: if_(len.__name__ == "len", x),
    "an attribute in a text": lambda x: if_(len(str.format("{.__doc__}", N(x))) > 300, x),
    "isinstance(range(N), range)": lambda x: later(x, isinstance(range(N(x)), range)),
    "isinstance(range(0, 2 * N, N), list)": lambda x: later(x, isinstance(range(0, 2 * N(x), N(x)), list)),
    "range(0, 2 * N, N) == [0, N]": lambda x: later(x, range(0, 2 * N(x), N(x)) == [0, N(x)]),
    "isinstance by another name": lambda x: if_(is_of(N(x), int), x),
    "enumerate() twice": run_twice(lambda y: enumerate(y)),
    "zip() twice": run_twice(lambda y: zip(y, y)),
    "reversed() twice": run_twice(lambda y: reversed(tt.stack((y, y), 1))),
    "loop: collects numbers": stacked(lambda y, t: 1.0, lambda y, rows: None),
    "sum() of nothing": lambda x: later(
        x, isinstance(sum(s(x) for t in range((N(x) + 400) // N(x) - 1)), tt.Tensor), 401),
    "result_type()": lambda x: if_(tt.result_type(tt.zeros(1), tt.zeros(1)) == tt.float64, x),
}  # fmt: skip
SLOW = {"diff(n=140)"}  # a formula with 2^140 terms
