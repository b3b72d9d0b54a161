"""What a program reads is the function at every size: tricks that fool a reading by examples.

Each trick is refused with its line, or its derivation has the function's gradients at the sizes that tricks single out,
wherever its conditions hold.
"""

import sys
import threading

import numba
import numpy as np
import pytest
from sympy import Integer

import tinytensor as tt
from tests.symbolic.collection import FILE
from tests.symbolic.collection import read as frozen
from tests.symbolic.reading.tricks import SLOW, TRICKS
from tinytensor.core.dispatch import state
from tinytensor.core.promotion import broadcast_shape
from tinytensor.core.registry import OPS
from tinytensor.core.tensor import Tensor
from tinytensor.native.runtime.compiler import compiling
from tinytensor.symbolic import derive
from tinytensor.symbolic.derive.arguments import arguments
from tinytensor.symbolic.derive.precision import double_precision
from tinytensor.symbolic.index_calculus.formulas import Size
from tinytensor.symbolic.reading import language, loops, program, sizes
from tinytensor.symbolic.reading.engine import Backend, functions_for_sizes
from tinytensor.symbolic.reading.errors import NotDerivable, Split
from tinytensor.symbolic.reading.loops import Loop
from tinytensor.symbolic.reading.program import read
from tinytensor.symbolic.reading.sizes import Reading, SymInt, condition_text
from tinytensor.symbolic.reading.solver import add, infeasible
from tinytensor.symbolic.reading.tensors import SymbolicTensor

N = ("N",)
SIZES = (1, 2, 3, 6, 20, 31, 149, 150, 151, 200, 201, 256, 301, 451, 513)  # those that the tricks single out among them
ANY = "proved for any size"
FROZEN = frozen(FILE)
TRICKS_SAID = {name: FROZEN[f"tricks: {name}"] for name in TRICKS if name not in SLOW}
READ = [name for name, entry in TRICKS_SAID.items() if entry["text"]]


def backward(fn, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of this size, and the gradient of a function at them."""
    x = tt.tensor(np.random.default_rng(size).normal(size=size) * 3, requires_grad=True)
    with double_precision():
        fn(x).sum().backward()
    return x.detach().numpy(), x.grad.numpy()


def differs(derivation, fn) -> list[int]:
    """The sizes that meet the conditions, and at which the formulas have other gradients than backward()."""
    (size,) = derivation.derived.trace.sizes
    result = []
    for n in SIZES:
        wraps = "within its dtype" in derivation.verdict and n > 235  # 235**8 is the last one in int64
        if not wraps and all(c.holds({size: n}) for c in derivation.size_conditions):
            x, want = backward(fn, n)
            got = derivation.evaluate(x=x)["x"]
            if not np.allclose(got, want, 1e-7, 1e-9 * (1 + np.abs(want).max())):
                result.append(n)
    return result


def test_what_cannot_be_read_is_refused_with_its_line():
    lines = "(tricks.py", "(<string>", "another call would differ"
    refused = {name: entry["verdict"] for name, entry in TRICKS_SAID.items() if not entry["text"]}
    assert [name for name, verdict in refused.items() if not any(line in verdict for line in lines)] == []


@pytest.mark.parametrize("name", READ)
def test_what_is_read_is_the_function_at_every_size(name):
    derivation = derive(TRICKS[name], x=N)
    assert derivation.verdict.startswith("NOT") or not differs(derivation, TRICKS[name])


def test_a_size_at_which_the_function_fails_is_no_proof(monkeypatch):
    """A planted mistake: an index brings no condition on the size."""

    monkeypatch.setattr(Backend, "right_part", Backend.part, raising=False)

    def without_conditions(self, x, key):
        before = [*self.reading.conditions]
        result = self.right_part(x, key)
        self.reading.conditions[:] = before
        return result

    monkeypatch.setattr(language, "check_code", lambda *_: None)  # which would look at without_conditions()
    monkeypatch.setattr(Backend, "part", without_conditions)
    assert derive(TRICKS["arange[-2]"], x=N).verdict == "NOT proved: the function fails at N = 1"


def test_numbers_notice_a_state_that_the_next_step_changes(monkeypatch):
    """A planted mistake: what a step shares with the next one is not looked at."""
    monkeypatch.setattr(Loop, "_check", lambda *_: None)
    assert derive(TRICKS["collected_in_place"], x=N).verdict.startswith("NOT proved")


def test_a_state_without_a_name_is_noticed(monkeypatch):
    """A planted mistake: no object is looked at before and after a step, or a call."""
    for module in (loops, program):
        monkeypatch.setattr(module, "changed_names", lambda *_: {})
    name = "by_push"
    assert differs(derive(TRICKS[name], x=N), TRICKS[name]) == [n for n in SIZES if n > 150]


def test_a_step_that_is_read_as_it_is_at_small_sizes_is_noticed(monkeypatch):
    """A planted mistake: every comparison is answered as at N = 20, and its condition is dropped."""

    monkeypatch.setattr(sizes, "HINTS", (Integer(20),))
    monkeypatch.setattr(Reading, "conditions", property(lambda self: [], lambda self, _: None), raising=False)
    assert differs(derive(TRICKS["N == 20"], x=N), TRICKS["N == 20"])


def size_of(name: str, reading: Reading) -> SymInt:
    return reading.number(Size.made.get(name) or Size(name, "n m"))


def test_arithmetic_of_sizes_is_that_of_numbers():
    rng = np.random.default_rng(0)
    for _ in range(200):
        reading = Reading()
        a, b = size_of("A_", reading), size_of("B_", reading)
        at = {a.expr: int(rng.integers(1, 50)), b.expr: int(rng.integers(1, 50))}
        k, m = (int(n) for n in rng.integers(1, 9, 2))
        forms = [
            lambda a, b, k=k, m=m: (a * k - b) // m,
            lambda a, b, k=k: (a + b * k) % k,
            lambda a, b, k=k, m=m: a * b // (k * m) + a * k // k,
            lambda a, b, k=k: -(-(a + k) // 2) + (b * k) // k,
            lambda a, b: a * b // a,
        ]
        for form in forms:
            made = form(a, b)
            number = made.expr.xreplace({n: Integer(k) for n, k in at.items()}) if type(made) is SymInt else made
            assert number == form(*at.values())


def test_questions_are_decided_as_for_all_numbers():
    """Each answer that is decided without a condition holds at all small numbers; each condition is its own answer."""
    rng = np.random.default_rng(1)
    for _ in range(300):
        reading = Reading()
        a, b = size_of("A_", reading), size_of("B_", reading)
        c = [int(n) for n in rng.integers(-3, 4, 4)]
        p = c[0] * a.expr + c[1] * b.expr + c[2]
        answer = reading.ask(">=", p)
        truths = {c[0] * m + c[1] * n + c[2] >= 0 for m in range(1, 12) for n in range(1, 12)}
        if not reading.conditions:
            assert truths == {answer}
        else:
            ((operation, q, _),) = reading.conditions
            assert operation == ">=" and condition_text(operation, q)
            assert reading.ask(">=", p) == answer and len(reading.conditions) == 1


def test_a_proof_of_the_solver_is_no_accident():
    x, y = {("x",): 1}, {("y",): 1}
    assert infeasible([add(x, y, -1), add(y, x, -1), add(add(x, y, -1), {(): -1})])  # x >= y, y >= x, x > y
    assert not infeasible([add(x, y, -1), add(y, x, -1)])
    assert infeasible([add({("x",): 2}, {(): -1}), add({(): 1}, {("x",): -2})])  # 2 x = 1 in whole numbers


def test_what_a_reading_changes_before_it_begins_anew_is_noticed():
    calls = []

    def falling(x):
        h = x[0] * 0
        if not calls:
            calls.append(1.0)
        for t in range(len(x)):
            h = h * 0.5 + x[-1 - t]
        return h * len(calls)

    with pytest.raises(NotDerivable, match="another call would differ"):
        derive(falling, x=N)


def test_a_reading_leaves_the_engine_as_it_was():
    before = len, range, Tensor.of, tt.get_default_dtype()
    with pytest.raises(NotDerivable):
        derive(TRICKS["N & 64"], x=N)
    assert (len, range, Tensor.of, tt.get_default_dtype()) == before
    assert not isinstance(tt.ones(3), SymbolicTensor)
    assert isinstance(range(3), range)


def engine_names() -> dict[tuple[str, str], object]:
    """What stands in the modules of the engine and in its operations."""
    rooms = tuple(f"tinytensor.{room}." for room in ("core", "ops", "nn", "autograd", "native.fast"))
    modules = {n: m for n, m in sys.modules.items() if n.startswith(rooms)}
    names = {(n, name): value for n, m in modules.items() for name, value in vars(m).items()}
    return names | {(op.name, name): value for op in OPS.values() for name, value in vars(op).items()}


def test_a_reading_replaces_no_function_of_the_engine():
    before, seen = engine_names(), []
    with functions_for_sizes(Reading()):
        after = engine_names()
        thread = threading.Thread(target=lambda: seen.append((state.reading, tt.zeros(2).add_(1).tolist())))
        thread.start()
        thread.join()
        assert state.reading is not None
    assert [name for name, value in after.items() if before.get(name) is not value] == []
    assert seen == [(None, [1.0, 1.0])] and state.reading is None


def test_a_compilation_ends_before_a_reading_begins():
    before, reader = len, threading.Thread(target=lambda: derive(lambda x: (x * x).sum(), x=N))
    with compiling:
        reader.start()
        reader.join(0.3)
        assert reader.is_alive() and len is before
    reader.join()
    assert len is before


def test_what_is_compiled_in_a_reading_has_functions_of_python():
    @numba.njit
    def count(x):
        n = 0
        for i in range(len(x)):
            n += i
        return n

    before = len
    with functions_for_sizes(Reading()):
        assert count(np.ones(4)) == 6 and len is not before
    assert len is before


def test_equal_sizes_broadcast_without_a_question():
    reading = Reading()
    n, m = (size_of(name, reading) for name in "NM")
    assert broadcast_shape("f", (n, 1, 2), (m, 1), ()) == (n, m, 2)
    assert broadcast_shape("f", (n + m,), (m + n,)) == (n + m,)
    assert reading.conditions == []
    with pytest.raises(RuntimeError, match="do not broadcast"):
        broadcast_shape("f", (n,), (m,))
    assert [operation for operation, *_ in reading.conditions] == ["!="]


def test_sizes_that_do_not_fit_are_taken_apart():
    with pytest.raises(Split, match=r"N = 2 \* N2 or N2 \* 2"):
        read(lambda x: x.chunk(2)[0], arguments({"x": N}, {}))


a = [id]  # which `derive` refuses where a function uses it


def test_local_name_is_not_taken_for_a_global_one():
    def f(x):
        a = x * 2
        return (a * a).sum()

    assert derive(f, x=N).verdict == ANY
    with pytest.raises(NotDerivable, match="uses a"):
        derive(lambda x: x.sum() * len(a), x=N)
