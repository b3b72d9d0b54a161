"""Which objects a function may take from outside: those whose parts are known, and nothing else."""

import abc
import collections
import copy
import ctypes
import enum
import functools
import inspect
import itertools
import math
import operator
import pickle
import statistics
import sys
import threading
import time
import types
import typing
import weakref
from fractions import Fraction

import einops
import numpy as np
import pytest

import tinytensor as tt
from tests.symbolic.derive.reviewed import X
from tests.symbolic.reading.tricks import Sized
from tinytensor import nn
from tinytensor.core.dispatch import state
from tinytensor.nn import functional as F
from tinytensor.symbolic import derive
from tinytensor.symbolic.reading.errors import NotDerivable
from tinytensor.symbolic.reading.language import STATE, UNSEEN, snapshot, unknown_in
from tinytensor.symbolic.reading.sizes import SymInt

Row = collections.namedtuple("Row", "size rows")


class Typed(typing.NamedTuple):
    size: int = 3


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.scale = nn.Linear(2, 3), 0.5

    @property
    def half(self):
        return self.scale / 2

    def forward(self, x):
        return self.linear(x) * self.half


KNOWN = [
    *(collections.OrderedDict(a=1), 3, 0.5, Fraction(1, 2), "text", None, ..., range(3), [1, (2.0, {"a": {3}})]),
    *(slice(1, 2), np.float64(2), np.zeros(3), math.pi, np.dtype("f8"), tt.float64, tt.tensor([1.0])),
    *(nn.Parameter(tt.zeros(2)), tt.Generator(), np.random.default_rng(0), Row, Row(1, []), Typed, Typed(), Sized),
    *(Sized(2), Layer, Layer(), Layer().forward, nn.LSTM(2, 2), nn.ReLU(), len, sorted, range, ValueError, math.sqrt),
    *(operator.add, itertools.chain, functools.partial(max, 1), np.sum, np.add, einops.rearrange, tt.exp, tt.stack),
    *(F.relu, tt.no_grad, tt.Tensor, np.float64, [].append, types.SimpleNamespace(a=1), lambda x, k=3: x * k),
    tt.no_grad()(lambda x: x),
]


class Every(type):
    """A metaclass that answers for its classes: they are equal to those of a library."""

    def __eq__(cls, value):
        return True

    def __hash__(cls):
        return hash(range)

    def __instancecheck__(cls, value):
        return True


class Forged:
    __module__ = "tinytensor.core.tensor"


class Slotted:
    __slots__ = ("count",)


class OfProperty:
    __dict__ = property(lambda self: {})


@typing.runtime_checkable
class Answering(typing.Protocol):
    expr: int


def with_attribute(value, held=id):
    value.f = held
    return value


def numbers():
    yield 1.0


generic = functools.singledispatch(lambda n: 1.0)
UNKNOWN = [
    *(id, type, getattr, isinstance, bytes, sys, sys.modules, time.time, copy.deepcopy, pickle.dumps, statistics.mean),
    *(ctypes.c_double, inspect.stack, typing.overload, typing.SupportsComplex, operator.is_, operator.attrgetter),
    *(str.format, "{0.__doc__}".format, int.__eq__, (20).__eq__, dict.__len__, np.load, np.seterr, np.random.rand),
    *(SymInt, state, generic, functools.lru_cache(abs), weakref.proxy(set()), threading.Lock(), collections.deque()),
    *(collections.ChainMap(), collections.Counter, iter([]), numbers(), itertools.count(), Every("Every", (), {})),
    *(abc.ABCMeta("Abstract", (), {}), Forged, Forged(), Slotted, Slotted(), OfProperty(), Answering),
    *(enum.Enum("Level", {"A": 2}).A, enum.IntEnum("Level", {"A": 2}).A, np.dtype("f8", metadata={"rows": []})),
    *(np.array(id, dtype="O"), np.frompyfunc(abs, 1, 1), np.vectorize(abs), type("OwnList", (list,), {})()),
    *(type("OwnFloat", (np.float64,), {})(2.0), type("Failure", (Exception,), {})(), [[id]], {"f": id}),
    *(types.SimpleNamespace(lock=threading.Lock()), lambda n, f=id: f(n), functools.partial(map, type)),
    *(types.SimpleNamespace(module=math), types.ModuleType("own"), property(id)),
    *(type("Asking", (), {"f": staticmethod(id)}), with_attribute(nn.Module()), with_attribute(tt.zeros(3))),
    *(with_attribute(lambda: None), with_attribute(type("Held", (), {}))(), tt.set_default_dtype, tt.get_default_dtype),
    *(tt.manual_seed, tt.load, tt.profile, tt.num_tasks, with_attribute(functools.partial(max, 1))),
    *(type("C", (), {"__self__": math, "f": id}), type("Text", (), {"__repr__": functools.partialmethod(max)})()),
    *(type("Unseen", (), {name: lambda *_: None})() for name in sorted(UNSEEN)),
]


def test_objects_of_the_list_are_known():
    assert {repr(value): of for value in KNOWN if (of := unknown_in(snapshot(value)))} == {}


def test_all_that_a_user_may_import_of_tinytensor_is_known():
    spaces = tt, F, nn, tt.linalg, tt.optim
    held = {name: value for m in spaces for name, value in vars(m).items() if not name.startswith("_")}
    functions = {n: v for n, v in held.items() if isinstance(v, types.FunctionType | type) and not STATE.match(n)}
    assert {n for n, v in functions.items() if unknown_in(snapshot(v))} <= {"Sequence", "compile"}


@pytest.mark.parametrize("n", range(len(UNKNOWN)))
def test_other_objects_are_refused_with_the_line(n):
    value = UNKNOWN[n]
    assert unknown_in(snapshot(value))
    with pytest.raises(NotDerivable, match=r"uses value, which holds a .*\(test_language.py"):
        derive(lambda x: (value, (x * x).sum())[1], **X)
