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
from tests.symbolic.reading.tricks import TRICKS
from tests.tools.sampling_rate import some
from tinytensor.core.dispatch import state
from tinytensor.core.promotion import broadcast_shape
from tinytensor.core.registry import OPS
from tinytensor.core.tensor import Tensor
from tinytensor.native.runtime.compiler import compiling
from tinytensor.symbolic import Index, derive
from tinytensor.symbolic.derive.arguments import arguments
from tinytensor.symbolic.derive.conditions import conditions_in
from tinytensor.symbolic.derive.precision import double_precision
from tinytensor.symbolic.index_calculus.formulas import Size
from tinytensor.symbolic.reading import loops, program, sizes
from tinytensor.symbolic.reading.engine import Backend, functions_for_sizes
from tinytensor.symbolic.reading.errors import NotDerivable, Split
from tinytensor.symbolic.reading.loops import Loop
from tinytensor.symbolic.reading.program import read
from tinytensor.symbolic.reading.sizes import Reading, SymInt, condition_text
from tinytensor.symbolic.reading.solver import add, infeasible
from tinytensor.symbolic.reading.tensors import SymbolicTensor

N = ("N",)
SIZES = (1, 2, 3, 6, 20, 31, 149, 150, 151, 200, 201, 256, 301, 451, 513)  # those that the tricks single out among them
TIE, ROUNDED = "no two numbers that are compared are equal", "no number that is rounded is whole"
DTYPE = "floats are float64, those of the default dtype, too"
ANY, NOT_20 = "proved for any size", "proved only for N ≠ 20"
READ = {  # the beginning of the verdict; all other tricks are refused
    "1 + 2**(N - 200)": ANY,
    "N + 2.0**(N - 160)": ANY,
    "N in (20, 40)": "proved only for N ≠ 20 and N ≠ 40",
    **dict.fromkeys(
        ("x.shape == (20,)", "N == 20", "np.int64(20) == N", "x.__len__()", "np.shape(x)", "np.size(x)"), NOT_20
    ),
    "divmod(N, 20)": "proved only for N % 20 ≠ 0",
    "sorted([N, 200])": "proved only for N > 200",
    "min(N, 200)": "proved only for N > 200",
    "N // 7 % 2": "proved only for odd floor(N/7)",
    "polynomial, 0 at the sizes tried": ANY,
    "x.tril(150)": ANY,
    "ones.triu(-150)": ANY,
    "softplus(threshold=5)": f"{ANY}, where {TIE}",
    "sigmoid(arange - 500)": ANY,
    "1 + (arange / 1000)**10": ANY,
    "ones(N)[:150].sum()": "proved only for N > 149",
    "arange % 150": ANY,
    "arange[-2]": "proved for N > 1",
    "ones[-150]": "proved for N > 149",
    "arange >= 150": ANY,
    "arange >> 8": ANY,
    "chunk(200)[0]": "NOT proved",  # N is a multiple of 200, and no such size is tried
    "arange**8 in int64": f"{ANY}, where every whole number lies within its dtype",
    "x to int32": f"{ANY}, where {TIE}, {ROUNDED} and every whole number lies within its dtype",
    "x.long()": f"{ANY}, where {TIE}, {ROUNDED} and every whole number lies within its dtype",
    "dtype": f"{ANY}, where {DTYPE}",
    "eps of the dtype": f"{ANY}, where {DTYPE}",
    **dict.fromkeys(("full() of truth values", "tensor(N // 212) as a truth value"), ANY),
    "full() of whole numbers": f"{ANY}, where every whole number lies within its dtype",
    "masked_fill() of truth values": f"{ANY}, where {TIE}",
    "loop: 2.0**(t - 1000)": ANY,
    "math.ceil(N / 7)": ANY,
    "(-1)**N": ANY,
    "loop: t % 150": ANY,
    "loop: enumerate(reversed(x))": ANY,
    "loop: zip(x, x[1:])": ANY,
    **dict.fromkeys((f"loop: {n}" for n in ("counts", "w = w * 0.5", "another name of a state")), ANY),
    "loop: a branch that is not taken": ANY,
    "loop: 2.0**(t - 1000) * x[-1 - t]": ANY,
    "loop: else": "proved only for N > 149 and N > 150",
    "loop: x[-t]": ANY,
    "loop: x[-1 - t] of a reversed x": "proved only for N > 149",
    "loop: first step differs": ANY,
    "loop: a loop in the first step": ANY,
    "loop: collects a list": ANY,
    "loop: a new list in the first step": ANY,
    "loop: changes the last item": ANY,
    "loop: items[-1]": ANY,
    "loop: items[-2]": "proved for N > 1",
    "loop: len(items)": "proved only for N ≠ 149",
    "loop: items in two loops": ANY,
    "loop: a number after no step": "proved only for N > 149 and N > 150",
    "loop: another name after no step": "proved only for N > 149 and N > 150",
    "x.float()": f"{ANY}, where no cast to a shorter float rounds",
    **dict.fromkeys(("x[None].T.contiguous()", "changes a copy alone", "diag(arange + 5)[0] > 0"), ANY),
    "pad(arange + 5, (0, 3))[3:] > 0": f"{ANY}, where every whole number lies within its dtype",
    "arange / 10 > 0.3": f"{ANY}, where {DTYPE}",
    "N / 2 > N / 4": ANY,
    "N / 10 > 0.3": "proved only for N > 3",
    **dict.fromkeys(("stack() by another name", "sum() with a start", "match x.shape"), ANY),
    **dict.fromkeys(("loop: objects that stay", "loop: a list afterwards"), ANY),
    "arrays and modules of a module": ANY,
    "math.sqrt(300 - N)": "proved for N < 301",
    "math.log(300 - N)": "proved for N < 300",
    "(300 - N)**0.5": "proved for N < 301",
    "(301 - N)**-1": "proved only for N ≠ 301",
    "1 / (N - 150)": "proved only for N ≠ 150",
    "math.sqrt(1 - 0.9**N)": f"{ANY}, where every argument of a root is above 0",
    **dict.fromkeys(("element_size()", "itemsize", "tensor(0.1).item() == 0.1"), f"{ANY}, where {DTYPE}"),
    **dict.fromkeys(("16777217.0 == 16777216.0", "tensor(16777217.0).long()"), f"{ANY}, where {DTYPE}"),
}
SLOW = {"diff(n=140)"}  # a formula with 2^140 terms


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
        if all(c.holds({size: n}) for c in derivation.size_conditions):
            x, want = backward(fn, n)
            got = derivation.evaluate(x=x)["x"]
            if not np.allclose(got, want, 1e-7, 1e-9 * (1 + np.abs(want).max())):
                result.append(n)
    return result


@pytest.mark.parametrize("name", list(some([n for n in TRICKS if n not in READ and n not in SLOW], one_in=4)))
def test_what_cannot_be_read_is_refused_with_its_line(name):
    with pytest.raises(NotDerivable) as refused:
        derive(TRICKS[name], x=N)
    assert any(
        words in str(refused.value) for words in ("tricks.py, line", "<string>, line", "another call would differ")
    )


def test_a_size_that_must_be_a_multiple_is_a_condition():
    assert derive(lambda x: x.view(-1, 3)[:, 0].sum(), x=N).verdict == "proved for N % 3 = 0"
    derivation = derive(lambda x: x.view(-1, 20)[:, 0].sum(), x=N)  # 20 is above the sizes that are tried
    assert not derivation and [*map(str, derivation.size_conditions)] == ["N % 20 = 0"]


@pytest.mark.parametrize("name", READ)
def test_what_is_read_is_the_function_at_every_size(name):
    derivation = derive(TRICKS[name], x=N)
    assert derivation.verdict.startswith(READ[name])
    assert derivation.verdict.startswith("NOT") or not differs(derivation, TRICKS[name])


def test_a_size_at_which_the_function_fails_is_no_proof(monkeypatch):
    """A planted mistake: an index brings no condition on the size."""

    monkeypatch.setattr(Backend, "right_part", Backend.part, raising=False)

    def without_conditions(self, x, key):
        before = [*self.reading.conditions]
        result = self.right_part(x, key)
        self.reading.conditions[:] = before
        return result

    monkeypatch.setattr(Backend, "part", without_conditions)
    assert derive(TRICKS["arange[-2]"], x=N).verdict == "NOT proved: the function fails at N = 1"


def test_numbers_notice_a_state_that_the_next_step_changes(monkeypatch):
    """A planted mistake: what a step shares with the next one is not looked at."""
    monkeypatch.setattr(Loop, "_check", lambda *_: None)
    assert derive(TRICKS["loop: collects what it changes"], x=N).verdict.startswith("NOT proved")


def test_a_state_without_a_name_is_noticed(monkeypatch):
    """A planted mistake: no object is looked at before and after a step, or a call."""
    for module in (loops, program):
        monkeypatch.setattr(module, "changed_names", lambda *_: {})
    name = "loop: push = rows.append"
    assert differs(derive(TRICKS[name], x=N), TRICKS[name]) == [n for n in SIZES if n > 150]


def test_a_step_that_is_read_as_it_is_at_small_sizes_is_noticed(monkeypatch):
    """A planted mistake: every comparison is answered as at N = 20, and its condition is dropped."""

    monkeypatch.setattr(sizes, "HINTS", (Integer(20),))
    monkeypatch.setattr(Reading, "conditions", property(lambda self: [], lambda self, _: None), raising=False)
    assert differs(derive(TRICKS["N == 20"], x=N), TRICKS["N == 20"])


# ------------------------------------------------------------------------------------------------ sizes


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


def test_conditions_of_where_are_known_while_a_function_is_read():
    args = arguments({"x": N}, {})
    sizes = [s for a in args.values() for s in a.sizes]

    def by_size(x):
        return x.sum() if x.shape[0] > 3 else x.prod()

    assert read(by_size, args, conditions_in("N > 5", sizes)).conditions == []
    assert read(by_size, args, conditions_in("N < 3", sizes)).terms[-1].name == "reduce_prod"
    assert len(read(by_size, args).conditions) == 1


def test_a_fraction_in_a_condition_of_where_is_no_contradiction():
    def by_size(x, y):
        return (x * x).sum() * (2.0 if len(x) > 100 else 3.0) + y.sum()

    for where, words in {"N/2 > M": "N/2 > M", "N > 3*M/2": "N > 3*M/2", "(N + M) % 3 == 1": "(M + N) % 3 = 1"}.items():
        verdict = derive(by_size, x=N, y=("M",), where=where).verdict
        assert verdict.startswith(f"proved only for {words} and N > 100")


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
        other = threading.Thread(target=lambda: seen.append((state.reading, tt.zeros(2).add_(1).tolist())))
        other.start()
        other.join()
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


def test_a_power_that_depends_on_a_size_and_a_diagonal_of_two_sizes():
    """No question is asked: N - 1 == 2 is no condition of x**(N - 1)."""
    power = derive(lambda x: (x ** (x.shape[0] - 1)).sum(), x=N)
    assert power.verdict.startswith(ANY) and str(power.gradients["x"]) == "∂𝓛/∂x_n = (N - 1) x_n^(N - 2)"
    eye = derive(lambda x: ((x * tt.eye(*x.shape, dtype=tt.float64)).tril() ** 2).sum(), x=("N", "D"))
    assert eye.verdict == ANY


def test_comparisons_of_indices_of_two_ranges_end_no_proof():
    def below(x):
        return (tt.ones(len(x), len(x), dtype=tt.float64).tril(-2) @ x).sum()

    def band(x, t):
        return -((x.tril(2).triu(-2) - x).log_softmax(-1)[tt.arange(len(x)), t]).mean()

    assert derive(below, x=N).verdict == derive(band, x=("N", "D"), t=Index(N, "D")).verdict == ANY


def test_classes_along_a_product_of_sizes_are_refused():
    def f(x, t):
        return tt.nn.functional.cross_entropy(x.T.reshape(x.shape), t)

    with pytest.raises(NotDerivable, match="classes of a dimension of size D_N\\*N, which is a product"):
        derive(f, x=("N", "D"), t=Index(N, "D"))


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
    """Halves of N that must be N when they are joined: N is 2 N2."""

    def halves(x):
        h = x.shape[0] // 2
        return x[:h] * x[h:]

    args = arguments({"x": N}, {})
    with pytest.raises(Split, match=r"N = 2 \* N2 or N2 \* 2"):
        read(halves, args)


a = [id]  # which `derive` refuses where a function uses it


def test_local_name_is_not_taken_for_a_global_one():
    def f(x):
        a = x * 2
        return (a * a).sum()

    assert derive(f, x=N).verdict == ANY
    with pytest.raises(NotDerivable, match="uses a"):
        derive(lambda x: x.sum() * len(a), x=N)
