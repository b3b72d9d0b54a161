"""An interrupt (Ctrl-C) at any position of a recorded step leaves the step done or not done, never a part of it."""

import ctypes
import signal
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

import tinytensor as tt
from tests.tools.sampling_rate import some
from tinytensor import optim
from tinytensor.native.recording import recording
from tinytensor.native.runtime.scheduler import Program
from tinytensor.optim import lr_scheduler

PACKAGE = str(Path(tt.__file__).parent)


class Model:
    """Three parameters in two groups, with a recorded step: gradients, an optimizer's step, a schedule's step."""

    def __init__(self, variant: str):
        generator = tt.Generator().manual_seed(0)
        self.parameters = [tt.randn(3, generator=generator).requires_grad_() for _ in range(3)]
        groups = [{"params": self.parameters[:2]}, {"params": self.parameters[2:], "lr": 0.05}]
        self.optimizer = optim.AdamW(groups, lr=0.1)
        self.schedule = lr_scheduler.ExponentialLR(self.optimizer, 0.99)
        self.x = tt.randn(3, generator=generator)
        self.variant = variant
        self.step = tt.compile(self._step)
        for _ in range(3):
            self.step(self.x)

    def _step(self, x):
        self.optimizer.zero_grad()
        loss = sum(((p - x) ** 2).sum() for p in self.parameters)
        if self.variant == "in parts":  # random numbers are drawn by Python, between two native programs
            loss = loss + 0 * tt.rand(3).sum()
        loss.backward()
        if self.variant == "in parts":
            self.parameters[0].grad.add_(0 * tt.rand(3))
        self.optimizer.step()
        self.schedule.step()
        return loss.detach()

    def state(self) -> list:
        """All that a step changes."""
        entries = [self.optimizer.state[p] for p in self.parameters]
        kept = [[e["step"], e["exp_avg"].tolist(), e["exp_avg_sq"].tolist()] for e in entries]
        rates = [group["lr"] for group in self.optimizer.param_groups]
        return [kept, [p.tolist() for p in self.parameters], rates, self.schedule.last_epoch, self.schedule._last_lr]


def is_ours(code) -> bool:
    """Is this code of tinytensor, and does an error go through it? Python prints and drops those of a finalizer."""
    return code.co_filename.startswith(PACKAGE) and code.co_name != "__del__"


def interrupted_at(position: int, function: Callable[[], object]) -> bool:
    """Call the function, with an interrupt before tinytensor's instruction of this number; has it so many?"""
    left = position

    def trace(frame, event, _):
        nonlocal left
        frame.f_trace_opcodes = True
        if event == "opcode" and is_ours(frame.f_code):
            left -= 1
            if left < 0:
                sys.settrace(None)
                raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        function()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
    return False


def half_done(variant: str, positions) -> list[int]:
    """The positions at which an interrupt left a step that was neither done nor not done, or spoiled the next one."""
    model, twin, half = Model(variant), Model(variant), []
    for position in positions:
        before = model.state()
        assert before == twin.state()
        if not interrupted_at(position, partial(model.step, model.x)):
            break
        now = model.state()
        if now != before:
            twin.step(twin.x)
        if now != twin.state():
            half.append(position)
            model, twin = Model(variant), Model(variant)
            continue
        model.step(model.x)
        twin.step(twin.x)
    else:
        pytest.fail("there are further positions")
    return half


def series():
    return some(range(100_000), 25)


@pytest.mark.parametrize("variant", ["in one program", "in parts"])
def test_step_is_done_or_not_done(variant):
    assert half_done(variant, series()) == []


def test_step_in_another_thread_is_done_or_not_done():
    results = []
    thread = threading.Thread(target=lambda: results.append(half_done("in one program", series())))
    thread.start()
    thread.join()
    assert results == [[]]


def counted_one_by_one(self, before, group, entries, table):
    for row, entry in enumerate(entries):
        entry["step"] += 1
        table[row] = self._row(group, entry, entry["step"])


def test_count_that_is_not_undone_is_noticed(monkeypatch):
    monkeypatch.setattr(optim.Optimizer, "_write_numbers", counted_one_by_one)
    assert half_done("in one program", range(0, 100_000, 40))


class Silent(Program):
    """A program that does not say that it has run."""

    def __init__(self, launches, progress, position):
        super().__init__(launches)


def test_program_that_does_not_say_that_it_has_run_is_noticed(monkeypatch):
    monkeypatch.setattr(recording, "Program", Silent)
    assert half_done("in one program", range(0, 100_000, 3))


def raised_in(thread: threading.Thread) -> None:
    """Raise KeyboardInterrupt in a thread, which Ctrl-C does in the main one alone."""
    number, error = ctypes.c_ulong(thread.ident), ctypes.py_object(KeyboardInterrupt)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(number, error)


@pytest.mark.parametrize("in_main_thread", [True, False])
def test_signals_at_any_time(in_main_thread):
    """Ctrl-C comes while steps run one after the other: all parameters have made the same number of them."""
    model, twin, interrupts = Model("in parts"), Model("in parts"), some(range(200), 10)
    model.x = twin.x = tt.randn(3)
    failures = []

    def interrupted(by: Callable[[], None]) -> None:
        try:
            timer = threading.Timer(0.002, by)
            timer.start()
            end = time.monotonic() + 60
            while time.monotonic() < end:
                model.step(model.x)
        except KeyboardInterrupt:
            pass
        timer.join()

    def run() -> None:
        me = threading.current_thread()
        by = (lambda: signal.raise_signal(signal.SIGINT)) if in_main_thread else (lambda: raised_in(me))
        for _ in interrupts:
            interrupted(by)
            while twin.schedule.last_epoch < model.schedule.last_epoch:
                twin.step(twin.x)
            if twin.state() != model.state():
                failures.append(model.state())

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a job of a shell ignores it
    try:
        if in_main_thread:
            run()
        else:
            thread = threading.Thread(target=run)
            thread.start()
            thread.join()
    finally:
        signal.signal(signal.SIGINT, before)
    assert not failures and model.schedule.last_epoch > 3
