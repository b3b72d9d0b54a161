"""The driver: programs give what their launches give one by one, on any number of threads, and mind the machine."""

import ctypes
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle

import llvmlite.binding as llvm
import numba
import numpy as np
import pytest
from llvmlite import ir
from numba import config, types

from tests.tools.platforms import posix
from tinytensor.core.kernel import GRAIN, MOST_TASKS, num_tasks
from tinytensor.core.recorder import STOPPED
from tinytensor.core.threads import get_num_threads, set_num_threads
from tinytensor.native.kernels import KERNELS
from tinytensor.native.runtime import scheduler
from tinytensor.native.runtime.cache import _Builds
from tinytensor.native.runtime.compiler import signals_wait
from tinytensor.native.runtime.kernel import kernel, task_range
from tinytensor.native.runtime.scheduler import Program, ThreadTuner, _groups


@kernel(tasks=lambda x, parts, y: parts)
def doubled_in_parts(x, parts, y, task, tasks):
    first, last = task_range(x.size, task, tasks)
    for i in range(first, last):
        y[i] = x[i] + x[i]


@kernel()
def added_up(x, y):
    total = x.dtype.type(0)
    for i in range(x.size):
        total += x[i]
    for i in range(y.size):
        y[i] = y[i] + total


def test_task_counts_are_powers_of_two():
    """As many tasks as are worth it, but a power of two, unless there are fewer parts than that."""
    for nanoseconds in (0, 1, GRAIN, 2 * GRAIN - 1, 2 * GRAIN, 5 * GRAIN, 12 * GRAIN, 10**9):
        tasks = num_tasks(nanoseconds, 10**6)
        assert tasks in (1, 2, 4, 8, 16, 32) and tasks <= MOST_TASKS
        assert nanoseconds >= GRAIN * tasks or tasks == 1
        assert nanoseconds < 2 * GRAIN * tasks or tasks == MOST_TASKS
    assert [num_tasks(10**9, units) for units in (0, 1, 3)] == [1, 1, 3]


@pytest.fixture
def threads():
    before = get_num_threads()
    yield set_num_threads
    set_num_threads(before)


def rows(launches):
    return [(launch.entry, launch.buffer.ctypes.data, launch.tasks) for launch in launches]


def chain(parts: int, links: int = 40):
    """Launches that each need all of the one before: x doubled in parts, its sum added, and so on."""
    x, y = np.ones(1000), np.empty(1000)
    launches = []
    for _ in range(links):
        launches += [doubled_in_parts.prepare((x, parts, y)), added_up.prepare((y[:3].copy(), y))]
        launches += [doubled_in_parts.prepare((y, parts, x)), KERNELS["mul"].prepare((x, np.array(0.25), x))]
    return x, y, launches


@pytest.mark.parametrize("parts", [1, 2, 7, 32])
@pytest.mark.parametrize("n", [1, 2, 3])
def test_program_equals_its_launches(threads, parts, n):
    x, y, launches = chain(parts)
    for launch in launches:
        added_up.run(launch)
    expected = x.tobytes(), y.tobytes()
    threads(min(n, os.cpu_count()))
    program = Program(rows(launches))
    for _ in range(20):
        x[:], y[:] = 1, 0
        assert program()
        assert (x.tobytes(), y.tobytes()) == expected


@pytest.mark.skipif(config.DISABLE_JIT, reason="needs two threads of native code")
def test_share_of_a_late_thread_is_done_by_others():
    """Three walk the program, and there are but two threads: the third comes when the first has done everything."""
    x, y, launches = chain(parts=7)
    for _ in range(2):
        program = Program(rows(launches))
        assert program()
        alone, (x[:], y[:]) = (x.tobytes(), y.tobytes()), (1, 0)
    program = Program(rows(launches))
    counters = scheduler._counters(len(program.groups), 3)
    numba.set_num_threads(min(2, config.NUMBA_NUM_THREADS))
    assert scheduler._run_together(program.program, program.groups, counters, 3, program.progress, 0)
    assert (x.tobytes(), y.tobytes()) == alone
    assert (counters[:, scheduler.DONE, 0] == program.groups[:, 2]).all()


def on_arm64(write: Callable, words: int) -> str:
    """The instructions for an early ARM64 processor of a function of so many words, whose body `write` builds."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    try:
        target = llvm.Target.from_triple("aarch64-unknown-linux-gnu")
    except RuntimeError:
        pytest.skip("this llvmlite was built without ARM64")
    module = ir.Module()
    function = ir.Function(module, ir.FunctionType(scheduler.WORD, [scheduler.WORD] * words), "f")
    builder = ir.IRBuilder(function.append_basic_block())
    builder.ret(write(builder, function.args))
    return target.create_target_machine(cpu="cortex-a72", opt=2).emit_assembly(llvm.parse_assembly(str(module)))


def test_handovers_order_memory_on_arm64():
    """ARM orders nothing by itself: a counter is read with `acquire`, and added to with `acquire` and `release`."""

    def written(intrinsic, words):
        _, codegen = intrinsic._defn(None, *[types.intp] * words)
        return on_arm64(lambda builder, args: codegen(None, builder, None, args), words)

    def plain(builder, args):  # the control
        ptr = builder.inttoptr(args[0], scheduler.WORD.as_pointer())
        builder.store(builder.add(builder.load(ptr), args[1]), ptr)
        return builder.load(ptr)

    reads, adds = r"\tldar\t", r"(?s)\tldaxr\t.*\tstlxr\t"
    assert re.search(reads, written(scheduler._load_atomically, 1))
    assert re.search(adds, written(scheduler._add_atomically, 2))
    without = on_arm64(plain, 2)
    assert "\tldr\t" in without and not re.search(f"{reads}|ldaxr|stlxr", without)


def test_launches_of_one_task_are_joined():
    assert _groups(np.array([1, 1, 4, 1, 0, 1, 2])) == [
        (0, 2, 1),
        (2, 3, 4),
        (3, 4, 1),
        (4, 5, 0),
        (5, 6, 1),
        (6, 7, 2),
    ]


@pytest.mark.parametrize("n", [1, 2])
@pytest.mark.parametrize("parts", [1, 4])
def test_a_flag_ends_a_program_at_its_place(threads, n, parts):
    threads(min(n, os.cpu_count()))
    flag, x, y, z = np.zeros(1, np.int64), np.ones(8), np.zeros(8), np.zeros(8)
    launches = [doubled_in_parts.prepare((x, parts, y)), doubled_in_parts.prepare((x, parts, z))]
    first, second = rows(launches)
    program = Program([first, (0, flag.ctypes.data, 0), second])
    flag[0] = 1
    assert program() is STOPPED
    assert (y == 2).all() and (z == 0).all()
    flag[0] = 0
    assert program()
    assert (z == 2).all()


class Clock:
    """Time as a program sees it: a run on one thread takes `alone` seconds, one on several the next of `together`."""

    def __init__(self, monkeypatch, alone=1e-3, together=(0.6e-3,)):
        self.now, self.ran, self.together = 0.0, [], cycle(together)
        monkeypatch.setattr(scheduler.time, "perf_counter", lambda: self.now)
        monkeypatch.setattr(scheduler, "_run_alone", lambda *a: self.take("alone", alone))
        monkeypatch.setattr(scheduler, "run_together", lambda *a: self.take("together", next(self.together)))
        monkeypatch.setattr(scheduler.threads, "number", lambda: 2)
        monkeypatch.setattr(scheduler.threads, "started", True)

    def take(self, what, seconds):
        self.ran.append(what)
        self.now += seconds
        return True

    def run(self, program, times):
        """Milliseconds that a run took, in the mean."""
        start = self.now
        for _ in range(times):
            program()
        return 1e3 * (self.now - start) / times


BUSY = {
    "each run waits": (4e-3,),
    "each run waits long": (20e-3,),
    "every other run waits": (0.6e-3, 4e-3),
    "one of four waits": (0.6e-3, 0.6e-3, 0.6e-3, 6e-3),
}


@pytest.mark.parametrize("together", BUSY.values(), ids=BUSY)
@pytest.mark.parametrize("runs", [50, 3000])
def test_program_stays_on_one_thread_if_waiting_costs_more(monkeypatch, together, runs):
    clock = Clock(monkeypatch, together=together)
    taken = clock.run(Program([(0, 0, 4)]), runs)
    assert taken < 1.5
    assert runs < 1000 or taken < 1.2
    assert clock.ran.count("together") > 1 or runs == 50  # tried again now and then


def test_program_uses_all_threads_if_it_pays(monkeypatch):
    clock = Clock(monkeypatch)
    clock.run(Program([(0, 0, 4)]), 1000)
    assert clock.ran.count("alone") < 10


def test_rare_disturbance_keeps_all_threads(monkeypatch):
    clock = Clock(monkeypatch, together=(*[0.6e-3] * 99, 8e-3))
    clock.run(Program([(0, 0, 4)]), 1000)
    assert clock.ran.count("alone") < 10


def test_long_disturbance_costs_little_more_than_itself(monkeypatch):
    """Another program has the processor for 50 ms in each second, say, as a host's other guests do."""
    clock, disturbance = Clock(monkeypatch, together=(*[0.6e-3] * 1500, 50e-3)), 49.4e-3 / (1500 * 0.6e-3)
    assert clock.run(Program([(0, 0, 4)]), 15_000) < 0.6 * (1 + 2 * disturbance)


def test_program_returns_to_all_threads_after_a_disturbance(monkeypatch):
    clock, program = Clock(monkeypatch, together=(20e-3,)), Program([(0, 0, 4)])
    clock.run(program, 500)
    clock.together = cycle((0.6e-3,))
    clock.run(program, 1000)
    assert clock.run(program, 1000) < 0.61


def test_start_of_threads_is_not_counted(monkeypatch):
    clock = Clock(monkeypatch, together=(0.3, *[0.6e-3] * 999))
    monkeypatch.setattr(scheduler.threads, "started", False)
    program = Program([(0, 0, 4)])
    clock.run(program, 4)
    scheduler.threads.started = True
    assert clock.run(program, 100) == pytest.approx(0.6)


def test_indivisible_work_runs_on_one_thread(monkeypatch):
    clock = Clock(monkeypatch)
    Program([(0, 0, 1), (0, 0, 1)])()
    assert clock.ran == ["alone"]


@pytest.fixture
def tuner(monkeypatch):
    """A pace, and a function that makes one run of it, of so many milliseconds: "alone" or "together"."""
    clock, tuner = Clock(monkeypatch), ThreadTuner()

    def run(together: float, alone: float = 1.0, whole: bool = True) -> str:
        tuner.run(
            lambda: clock.take("alone", 1e-3 * alone) and whole,
            lambda: clock.take("together", 1e-3 * together) and whole,
        )
        return clock.ran[-1]

    return tuner, run


def test_pace_measures_one_thread_first_and_now_and_then(tuner):
    tuner, run = tuner
    ran = [run(together=0.6) for _ in range(3 * tuner.REMEASURE)]
    assert ran[: tuner.MEASURED] == ["alone"] * tuner.MEASURED
    assert [i + 1 for i, what in enumerate(ran) if what == "alone"][tuner.MEASURED :] == [
        tuner.REMEASURE * n for n in (1, 2, 3)
    ]


def test_pace_leaves_threads_after_a_loss_and_tries_again(tuner):
    tuner, run = tuner
    ran = [run(together=4.0) for _ in range(tuner.MEASURED + 1)]
    assert ran[-1] == "together"
    ran = [run(together=4.0) for _ in range(130)]
    first, second = [i for i, what in enumerate(ran) if what == "together"][:2]
    loss = 3  # runs on one thread take as long
    assert abs(first - loss * tuner.WORTH) <= 1 and abs(second - first - loss * tuner.WORTH) <= 2
    while run(together=0.5) == "alone":
        pass
    assert {run(together=0.5) for _ in range(20)} == {"together"}  # it pays again


def test_pace_forgives_a_rare_loss(tuner):
    """After many gains it tries again after a time as long as the loss, and no twenty times that."""
    tuner, run = tuner
    for _ in range(100):
        run(together=0.5)
    assert run(together=20.0) == "together"
    waited = 0
    while run(together=0.5) == "alone":
        waited += 1
    assert waited <= 20


def test_pace_does_not_count_a_run_that_was_stopped(tuner):
    tuner, run = tuner
    for _ in range(tuner.MEASURED):
        run(together=0.5, alone=0.01, whole=False)
    assert tuner.alone == float("inf")
    run(together=50.0, whole=False)
    assert tuner.lost == 0 and tuner.rest == 0


@pytest.fixture
def tuners(monkeypatch):
    """The paces of single launches: none yet."""
    monkeypatch.setattr(scheduler, "_tuners", {})
    return scheduler._tuners


def test_single_launch_has_a_pace_of_its_own(monkeypatch, tuners):
    """The same kernel at another size, or in other tasks, begins anew, on one thread."""
    clock, block = Clock(monkeypatch), np.zeros(1, np.int64)
    monkeypatch.setattr(scheduler, "_run_one", lambda *a: clock.take("alone", 1e-3) and None)
    for tasks, size in ((4, 1000), (4, 2000), (8, 2000)):
        clock.ran.clear()
        for _ in range(10):
            scheduler.run(7, block, tasks, size)
        assert clock.ran == ["alone"] * ThreadTuner.MEASURED + ["together"] * (10 - ThreadTuner.MEASURED)
    assert list(tuners) == [(7, 4, 1000), (7, 4, 2000), (7, 8, 2000)]
    clock.together = cycle((9e-3,))
    clock.ran.clear()
    for _ in range(30):
        scheduler.run(7, block, 4, 1000)
    assert clock.ran.count("together") == 1


def test_one_task_or_one_thread_has_no_pace(monkeypatch, tuners):
    clock, block = Clock(monkeypatch), np.zeros(1, np.int64)
    monkeypatch.setattr(scheduler, "_run_one", lambda *a: clock.take("alone", 1e-3) and None)
    scheduler.run(7, block, 1, 1000)
    monkeypatch.setattr(scheduler.threads, "number", lambda: 1)
    scheduler.run(7, block, 4, 1000)
    assert clock.ran == ["alone"] * 2 and tuners == {}


def test_table_of_paces_is_bounded(monkeypatch, tuners):
    clock, block = Clock(monkeypatch), np.zeros(1, np.int64)
    monkeypatch.setattr(scheduler, "_run_one", lambda *a: clock.take("alone", 1e-3) and None)
    monkeypatch.setattr(scheduler, "MAX_TUNERS", 5)
    for size in range(23):
        scheduler.run(7, block, 4, size)
        assert 1 <= len(tuners) <= 5
    assert len(clock.ran) == 23


def test_single_launch_gives_the_same_at_any_pace(threads, tuners):
    threads(min(2, os.cpu_count()))
    x, y = np.arange(1000.0), np.empty(1000)
    launch = doubled_in_parts.prepare((x, 7, y))
    for _ in range(3 * ThreadTuner.MEASURED):
        y[:] = np.nan
        doubled_in_parts.run(launch)
        assert (y == x + x).all()
    if get_num_threads() > 1:
        ((key, tuner),) = tuners.items()
        assert key == (launch.entry, 7, 2000) and tuner.runs == 3 * ThreadTuner.MEASURED


FORK = """
import os, numpy as np, tinytensor as tt
x = tt.randn(400, 400)
step = tt.compile(lambda x: (x @ x).exp().sum(0))
first = [step(x).numpy().tobytes() for _ in range(9)]  # the first ones run on one thread, to measure their time
assert len(set(first)) == 1
child = os.fork()
if child == 0:
    same = step(x).numpy().tobytes() == first[0] and (x @ x).exp().sum(0).numpy().tobytes() == first[0]
    os._exit(0 if same and tt.get_num_threads() == 1 else 1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert step(x).numpy().tobytes() == first[0]
print(__import__("numba").threading_layer())
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.parametrize("layer", ["default", "workqueue"])
def test_a_child_process_computes_on_one_thread(layer):
    environment = os.environ | {"NUMBA_THREADING_LAYER": layer, "NUMBA_NUM_THREADS": "2"}
    done = subprocess.run([sys.executable, "-c", FORK], capture_output=True, text=True, env=environment, timeout=300)
    assert done.returncode == 0, done.stderr
    assert layer in ("default", done.stdout.strip())


POOL = """
import multiprocessing, tinytensor as tt
from tinytensor import nn, optim

def train(seed):
    tt.manual_seed(seed)
    model, x = nn.Linear(64, 64), tt.randn(256, 64)
    optimizer = optim.AdamW(model.parameters())
    for _ in range(3):
        optimizer.zero_grad()
        loss = (model(x) @ x.T).square().mean()
        loss.backward()
        optimizer.step()
    return loss.item()

here = [train(seed) for seed in range(3)]
with multiprocessing.get_context("fork").Pool(2) as pool:
    assert pool.map(train, range(3)) == here
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_pool_of_processes_trains_after_kernels_ran():
    environment = os.environ | {"NUMBA_NUM_THREADS": "2"}
    done = subprocess.run([sys.executable, "-c", POOL], capture_output=True, text=True, env=environment, timeout=120)
    assert done.returncode == 0, done.stderr


@posix
@pytest.mark.skipif(config.DISABLE_JIT, reason="nothing is compiled")
def test_interrupt_while_kernels_compile_ends_the_run(tmp_path):
    program = "import signal\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n"  # a job of a shell ignores it
    program += "import tinytensor as tt\nx = tt.randn(3, 3, requires_grad=True)\n"
    program += "(x @ x).softmax(-1).cumsum(0).sum().backward()\n"
    program += "import time; time.sleep(600)"  # it does not end by itself, however late the signal comes
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)},
    )
    assert "compiling" in process.stderr.readline()
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=300)
    assert process.returncode == -signal.SIGINT and said.rstrip().endswith("KeyboardInterrupt")


@pytest.fixture
def handler():
    """A handler of a test's own, which raises as Python's does; afterwards there is the one of before."""
    said = []

    def raises(number, frame):
        said.append(number)
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, raises)
    yield raises, said
    signal.signal(signal.SIGINT, before)


def called_back() -> None:
    """Ctrl-C in a function that C calls back, where what is raised is swallowed."""
    ctypes.CFUNCTYPE(None)(lambda: signal.raise_signal(signal.SIGINT))()


def test_an_interrupt_waits_for_the_end_of_a_build(handler, monkeypatch):
    raises, said = handler
    swallowed, done = [], []
    monkeypatch.setattr(sys, "unraisablehook", swallowed.append)

    def build(error: type[Exception] | None = None):
        with signals_wait():
            called_back()
            done.append("more")
            if error:
                raise error

    with pytest.raises(KeyboardInterrupt):
        build()
    assert done == ["more"] and not swallowed and said == [signal.SIGINT]
    assert signal.getsignal(signal.SIGINT) is raises
    with pytest.raises(KeyboardInterrupt):  # when the build fails, too
        build(ValueError)
    called_back()  # the control
    assert len(swallowed) == 1


@pytest.mark.skipif(config.DISABLE_JIT, reason="nothing is compiled")
def test_signals_wait_for_every_build(handler, monkeypatch):
    """Builds of kernels, and those of what the driver runs and packs arguments with."""
    heard, load = [], _Builds.load_overload

    def look(*args):
        heard.append(signal.getsignal(signal.SIGINT))
        return load(*args)

    monkeypatch.setattr(_Builds, "load_overload", look)

    @scheduler.native()
    def two():
        return 2

    @kernel("y[N]")
    def fill(y):
        y[0] = 2

    assert two() == 2 and len(heard) == 1
    fill(np.empty(1))
    assert len(heard) > 1
    assert handler[0] not in heard
    assert signal.getsignal(signal.SIGINT) is handler[0]


def test_other_signals_keep_their_handlers(handler):
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with signals_wait():
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    thread = threading.Thread(target=lambda: signals_wait().__enter__())  # where no handler can be set
    thread.start()
    thread.join()
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


def test_two_python_threads_run_programs(threads):
    threads(min(2, os.cpu_count()))
    chains = [chain(8) for _ in range(2)]
    programs = [Program(rows(launches)) for _, _, launches in chains]
    wanted = []
    for (x, y, _), program in zip(chains, programs, strict=True):
        program()
        wanted.append((x.tobytes(), y.tobytes()))
    wrong = []

    def work(i):
        x, y, _ = chains[i]
        for _ in range(50):
            x[:], y[:] = 1, 0
            programs[i]()
            if (x.tobytes(), y.tobytes()) != wanted[i]:
                wrong.append(i)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(work, range(2)))
    assert wrong == []
