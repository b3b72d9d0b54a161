"""What is done again, as one native call, has the bits of what is done step by step; what differs is looked at anew."""

import gc
import itertools
import os
import re
import subprocess
import sys
import threading
import types
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
from numba import config

import tinytensor as tt
from tests.samples.ops import SAMPLES, Call, is_tensor
from tests.tools.sampling_rate import THOROUGH
from tinytensor.core.dispatch import empty, host, launch, state
from tinytensor.core.op import OPS
from tinytensor.core.recorder_base import NotRecordable
from tinytensor.core.state import WATCHERS
from tinytensor.core.threads import get_num_threads, set_num_threads
from tinytensor.native import kernels
from tinytensor.native.fast import launch_cache as again_module
from tinytensor.native.fast.launch_cache import OTHER, DryRun, LaunchCache, LaunchPlan
from tinytensor.native.runtime import scheduler

pytestmark = pytest.mark.skipif(config.DISABLE_JIT, reason="nothing is noted where nothing is compiled")

FACTORS = (1.0, 0.75, 0.875, 0.5)  # the first call is kept, the second one noted, the others are done from notes


def step_by_step():
    return patch.object(LaunchCache, "run", lambda self, args, short: self.function(*args))


def bits(values) -> list:
    arrays = [v.detach().numpy() if is_tensor(tt, v) else np.asarray(v) for v in values if v is not None]
    return [(str(a.dtype), a.shape, a.tobytes()) for a in arrays]


def results(sample, factor: float) -> list:
    call = Call(tt, sample)
    with tt.no_grad():
        for x in call.inputs:
            x.mul_(factor)
    outputs = call()
    return bits([*outputs, *call.vjp(outputs)])


def test_cached_launches_have_the_same_bits():
    """Every third sample with a gradient, with other numbers each time; each result and gradient, bit for bit."""
    noted, unfit, init = set(), set(), LaunchPlan.__init__
    for known in [a for a in gc.get_objects() if type(a) is LaunchCache]:  # from tests that ran before in this process
        known.known.clear()
        known.latest.clear()

    def watched(self, function, args):
        try:
            init(self, function, args)
        except Exception:
            unfit.add(function.__qualname__)
            raise
        noted.add(function.__qualname__)

    with patch.object(LaunchPlan, "__init__", watched):
        for sample in [s for s in SAMPLES if not s.is_random and Call(tt, s).inputs][:: 3 if THOROUGH else 6]:
            for factor in FACTORS:
                with step_by_step():
                    expected = results(sample, factor)
                assert results(sample, factor) == expected, (sample.id, factor)
    assert len(noted) > 100, sorted(noted)
    expected = {"matmul_op.forward", "softmax_op.forward", "take.forward", "linear_op.backward", "tanh.grad_x"}
    assert expected <= noted, sorted(unfit)


def test_number_computed_beside_the_launch_is_noticed():
    """The negative control: a function that computes beside the door would be done again with its first numbers."""

    def forward(x):
        y = empty(x.shape, x.dtype)
        launch(kernels.KERNELS["mul"], x, np.asarray(x.sum()), y)
        return y

    ours = types.FunctionType(forward.__code__, forward.__globals__)
    ours.__module__ = "tinytensor.planted"
    quick, one, two = LaunchCache(ours), np.ones(3, np.float32), np.full(3, 2, np.float32)
    assert quick(one).tolist() == [3, 3, 3]  # the first call is not from notes, the others are
    assert quick(one).tolist() != [3, 3, 3] or quick(two).tolist() != [12, 12, 12]
    users = LaunchCache(forward)  # is called as ever
    assert [users(two).tolist() for _ in range(4)] == [[12, 12, 12]] * 4


def test_different_arrays_miss_the_cache():
    """In a dtype, a stride, the size, or in being an array at all."""
    forward = OPS["reduce_sum"].forward
    sums, x = LaunchCache(forward), np.arange(12, dtype=np.float32).reshape(3, 4)
    for _ in range(3):
        assert sums(x, (0,), False).tolist() == [12, 15, 18, 21]
    (way,) = sums.latest.values()
    assert way((x + 1, (0,), False)).tolist() == [15, 18, 21, 24]
    others = {
        "dtype": x.astype(np.float64),
        "whole numbers": x.astype(np.int32),
        "strides": np.asfortranarray(x),
        "every other": np.repeat(x, 2, 1)[:, ::2],
        "size": x[:2],
        "dimensions": x[None],
        "no array": [1.0, 2.0],
        "a number": 3,
    }
    for what, other in others.items():
        assert way((other, (0,), False)) is again_module.OTHER, what
    for _ in range(4):
        for what in ("dtype", "whole numbers", "strides", "every other", "size"):
            assert sums(others[what], (0,), False).tolist() == others[what].sum(0).tolist(), what


def test_same_tensor_as_both_operands():
    x, z = tt.randn(5, 5), tt.randn(5, 5)
    expected = [(x @ x).tolist(), (x @ z).tolist(), (x @ x.T).tolist()]
    for _ in range(4):
        assert [(x @ x).tolist(), (x @ z).tolist(), (x @ x.T).tolist()] == expected


def test_cache_tells_zero_from_negative_zero():
    x = tt.ones(2, requires_grad=True)
    factors = [0.0, 0.0, 0.0, -0.0, 0, -0.0, 0.0, -0.0, np.float32(-0.0), np.float64(0.0)]
    for factor in [*factors, 0, 0, 0, -0.0, 0, False, -0.0]:
        (g,) = tt.autograd.grad((x * factor).sum(), x)
        assert bits([g]) == bits([tt.full((2,), float(factor))]), factor


def test_wrong_index_is_refused_at_every_call():
    weight, right, wrong = tt.randn(4, 3), tt.tensor([1, 3]), tt.tensor([1, 4])
    embedding, cross_entropy = tt.nn.functional.embedding, tt.nn.functional.cross_entropy
    expected, loss = embedding(right, weight).tolist(), cross_entropy(weight[:2], right - 1).item()
    for _ in range(5):
        assert embedding(right, weight).tolist() == expected
        with pytest.raises(IndexError, match="index 4 is outside 0 to 3"):
            embedding(wrong, weight)
        assert cross_entropy(weight[:2], right - 1).item() == loss
        with pytest.raises(IndexError, match="target 4 is outside 0 to 2"):
            cross_entropy(weight[:2], wrong)


def test_host_calls_run_once_per_call():
    calls = []

    def forward(x):
        host(calls.append, 1)
        return x

    forward.__module__ = "tinytensor.planted"
    quick = LaunchCache(forward)
    for n in range(1, 6):
        quick(np.ones(3, np.float32))
        assert len(calls) == n


def test_rehearsal_answers_every_question_of_the_engine():
    """A rehearsal answers each call that the engine makes to a recorder, if only by NotRecordable."""
    sources = [path.read_text() for path in Path(tt.__file__).parent.rglob("*.py")]
    asked = {name for text in sources for name in re.findall(r"(?:state\.recording|now\[.recording.\])\.(\w+)", text)}
    assert {"launch", "refuse", "function_guards"} <= asked <= set(dir(DryRun()))
    x = tt.ones(2)
    asks = {
        "host": lambda: host(print, 1),
        "guard": lambda: state.recording.guard(tuple),
        "refuse": x.tolist,
        "gradient": lambda: x.grad,
        "owns": lambda: setattr(x, "data", x),
        "function_guards": lambda: tt.from_numpy(np.ones(2)),
    }
    state.recording = DryRun()
    try:
        for ask in asks.values():
            with pytest.raises(NotRecordable):
                ask()
    finally:
        state.recording = None


def test_error_while_noting_launches_is_raised(monkeypatch):
    sums, x = LaunchCache(OPS["reduce_sum"].forward), np.ones(3, np.float32)
    sums(x, (0,), False)
    monkeypatch.delattr(again_module, "_addresses")
    with pytest.raises(NameError, match="_addresses"):
        sums(x, (0,), False)


def test_results_have_their_own_memory():
    x = tt.randn(4, 4)
    many = [x @ x for _ in range(5)]
    many[-1].zero_()
    assert all(y.tolist() == many[0].tolist() for y in many[:-1]) and many[0].abs().sum().item() > 0


def test_cache_is_bounded(monkeypatch):
    monkeypatch.setattr(again_module, "MOST", 5)
    sums = LaunchCache(OPS["reduce_sum"].forward)
    for n in range(1, 20):
        for _ in range(3):
            assert sums(np.ones((n, 2), np.float32), (0,), False).tolist() == [n, n]
        assert len(sums.known) <= 5
    sums.known.clear()


def test_profiler_and_anomaly_mode_see_cached_calls():
    x, large = tt.randn(5, 5), tt.full((5, 5), 3e38)
    ways = [lambda a: a + a, lambda a: a.square(), lambda a: a @ a, lambda a: a.sum(0), lambda a: a.view(25) * 2]
    for _ in range(4):
        for way in ways:
            way(x)
    for way in ways:
        assert not state.watched
        with tt.profile() as profile:
            way(x)
        assert sum(row.calls for row in profile.rows.values()) == 1
        with tt.autograd.detect_anomaly(), pytest.raises(FloatingPointError, match="inf"):
            way(large)
    for switch in WATCHERS:
        before = getattr(state, switch)
        setattr(state, switch, object())
        assert state.watched
        setattr(state, switch, before)
        assert not state.watched


def test_threads_make_the_same_call():
    """Sizes up to 70: NumPy gives up the interpreter's lock while it fills 500 numbers and more."""
    rng, wrong = np.random.default_rng(0), []

    def work(x, expected):
        for _ in range(20):
            if (x @ x.t()).softmax(-1).tolist() != expected:
                wrong.append(x.shape)

    with ThreadPoolExecutor(4) as pool:
        for _ in range(100):
            shape = rng.integers(1, 70, 2).tolist()
            a = [tt.randn(*shape) for _ in range(4)]
            expected = [(x @ x.t()).softmax(-1).tolist() for x in a]
            list(pool.map(work, a, expected))
    assert not wrong


# -------------------------------------------------------------------------------- launches with several tasks


@pytest.fixture
def two_threads():
    """Kernels may use two threads, where the machine has them."""
    before = get_num_threads()
    set_num_threads(2)
    yield
    set_num_threads(before)


REPETITIONS = itertools.count()


@pytest.fixture
def programs(monkeypatch):
    """The programs that notes have made, each with the number of its runs."""
    made = []

    class Counted(scheduler.Program):
        def __init__(self, launches):
            super().__init__(launches)
            self.calls = 0
            made.append(self)

        def __call__(self):
            self.calls += 1
            return super().__call__()

    monkeypatch.setattr(again_module, "Program", Counted)
    return made


WAYS = {
    "a product": (lambda x, w: x @ w, (150, 130), (130, 140)),
    "a product in which the plan copies blocks": (lambda x, w: x.t() @ w, (70, 300), (70, 150)),
    "a linear map, forward and backward": (lambda x, w: tt.nn.functional.linear(x, w).relu(), (150, 130), (140, 130)),
    "a reduction and a formula": (lambda x, w: (x * 2 + w).sum(0), (500, 300), (500, 300)),
}


@pytest.mark.parametrize("way", WAYS)
def test_noted_launches_with_tasks_have_the_same_bits(way, two_threads, programs):
    function, *shapes = WAYS[way]

    def values(seed: int) -> list:
        tt.manual_seed(seed)
        inputs = [tt.randn(*shape).requires_grad_() for shape in shapes]
        y = function(*inputs)
        return bits([y, *tt.autograd.grad(y.square().sum(), inputs)])

    with step_by_step():
        expected = [values(seed) for seed in range(8)]
    assert programs == []
    assert [values(seed) for seed in range(8)] == expected
    assert len(programs) >= 1 and all(program.divisible for program in programs)
    # once on several threads at least
    assert max(program.calls for program in programs) > scheduler.ThreadTuner.MEASURED


def test_flag_of_a_launch_with_tasks_is_looked_at_in_every_call(two_threads, programs):
    """Such a call is not noted: a program does not tell which flag was set."""
    weight, index = tt.randn(3000, 64), tt.arange(3000)
    take = OPS["take"].forward
    with pytest.raises(NotRecordable):
        LaunchPlan(take, (weight.numpy(), index.numpy()))
    LaunchPlan(take, (weight.numpy(), index.numpy()[:3]))  # of one task
    wrong = tt.where(index < 2999, index, 3000)
    for _ in range(5):
        assert bits([tt.nn.functional.embedding(index, weight)]) == bits([weight])
        with pytest.raises(IndexError, match="index 3000 is outside 0 to 2999"):
            tt.nn.functional.embedding(wrong, weight)
    assert programs == []


def test_second_thread_in_a_noted_call_takes_the_usual_way():
    """The blocks of the launches belong to the first thread until its program has ended, or has failed."""
    running, may_end, filled, results = threading.Event(), threading.Event(), [], []

    def program():
        running.set()
        assert may_end.wait(60)
        raise KeyboardInterrupt

    def replay(args):
        filled.append(args)
        return args

    call = LaunchPlan._on_threads(replay, program)

    def first():
        try:
            call(("first",))
        except KeyboardInterrupt:
            results.append("interrupted")

    thread = threading.Thread(target=first)
    thread.start()
    assert running.wait(60)
    assert call(("second",)) is OTHER and filled == [("first",)]
    may_end.set()
    thread.join()
    assert results == ["interrupted"]
    with pytest.raises(KeyboardInterrupt):
        call(("third",))
    assert filled == [("first",), ("third",)]


def test_arrays_that_do_not_fit_run_no_program():
    ran = []
    assert LaunchPlan._on_threads(lambda args: OTHER, lambda: ran.append(1))((1,)) is OTHER
    assert ran == []


def test_threads_make_the_same_call_with_several_tasks(two_threads, programs):
    """Each with other numbers. The launches of a program release the interpreter's lock."""
    rows = 120 + next(REPETITIONS)  # calls that were noted before have programs that are not counted
    many = [tt.randn(rows, 130) for _ in range(4)]
    with step_by_step():
        expected = [bits([x @ x.t()]) for x in many]
    wrong = []

    def work(i: int) -> None:
        for _ in range(60):
            if bits([many[i] @ many[i].t()]) != expected[i]:
                wrong.append(i)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    assert not wrong
    assert sum(program.calls for program in programs) > 20


def test_profiler_sees_a_call_with_several_tasks(two_threads, programs):
    x = tt.randn(150, 150)
    for _ in range(4):
        expected = bits([x @ x])
    assert len(programs) == 1 and programs[0].calls >= 2
    before = programs[0].calls
    with tt.profile() as profile:
        y = x @ x
    assert bits([y]) == expected
    assert profile.rows["matmul"].calls == 1 and programs[0].calls == before


FORK = """
import os
import tinytensor as tt
from tinytensor.native.fast import launch_cache
made = []
class Counted(launch_cache.Program):
    def __init__(self, launches):
        super().__init__(launches)
        made.append(self)
launch_cache.Program = Counted
x = tt.randn(150, 150)
first = [(x @ x).softmax(-1).numpy().tobytes() for _ in range(8)]
assert len(set(first)) == 1 and len(made) >= 1
child = os.fork()
if child == 0:
    same = all((x @ x).softmax(-1).numpy().tobytes() == first[0] for _ in range(8))
    os._exit(0 if same and tt.get_num_threads() == 1 else 1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert (x @ x).softmax(-1).numpy().tobytes() == first[0]
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.parametrize("unwritten", ["nan", ""])
def test_child_process_makes_a_noted_call_with_several_tasks(unwritten):
    """With uninitialized memory that holds NaN, as in all tests, and with memory as users have it."""
    environment = os.environ | {"NUMBA_NUM_THREADS": "2", "TINYTENSOR_POISON": unwritten}
    done = subprocess.run([sys.executable, "-c", FORK], capture_output=True, text=True, env=environment, timeout=120)
    assert done.returncode == 0, done.stderr
