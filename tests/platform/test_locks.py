"""A child process finds no lock of the engine closed, whatever another thread of its parent held."""

import os
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tinytensor.native.platform import locks
from tinytensor.native.platform.locks import ThreadLock

REPOSITORY = Path(__file__).parents[2]
forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")


def is_open(lock) -> bool:
    """Can another thread take the lock?"""
    results = []

    def attempt():
        results.append(lock.acquire(blocking=False))
        if results[0]:
            lock.release()

    thread = threading.Thread(target=attempt)
    thread.start()
    thread.join()
    return results[0]


@pytest.mark.parametrize("second", [True, False])
def test_a_new_lock_is_open_and_the_old_one_is_left(second):
    held = ThreadLock(second)
    with held.lock:
        assert not is_open(held.lock)
        locks.renew_all()  # as in the child of a fork inside the lock
        assert is_open(held.lock)
        with held.lock:
            assert not is_open(held.lock)
    assert is_open(held.lock)


def test_every_lock_of_the_engine_is_known():
    """threading.Lock, RLock and Condition stand in two files: locks.py, and compiler.py, whose lock forks wait for."""
    files = (REPOSITORY / "tinytensor").rglob("*.py")
    made = {file.name for file in files if re.search(r"threading\.(R?Lock|Condition|Semaphore)\(", file.read_text())}
    assert made == {"compiler.py", "locks.py"}


FORK = """
import os, signal, sys, threading, time, warnings
warnings.simplefilter("ignore", DeprecationWarning)  # of Python 3.12 on: this process has threads
import tinytensor as tt
from tinytensor.native.platform import locks
from tinytensor.native.runtime.compiler import compiling

x = tt.randn(150, 150)
step = tt.compile(lambda x: (x @ x).softmax(-1))

def calls():
    return [(x @ x).softmax(-1).numpy().tobytes(), step(x).numpy().tobytes(), (x + x).sum().item()]

for _ in range(6):  # until the calls are noted
    expected = calls()
taken, finish, compiled = threading.Event(), threading.Event(), []

def hold():
    held = [each.lock for each in locks._LOCKS]
    for lock in held:
        lock.acquire()
    with compiling:
        taken.set()
        time.sleep(0.3)
        compiled.append(True)
    finish.wait()

thread = threading.Thread(target=hold)
thread.start()
taken.wait()
count = len(locks._LOCKS)
child = os.fork()
if child == 0:
    signal.alarm(100)
    new = x.log1p()  # compiles a kernel
    os._exit(0 if compiled and calls() == expected and new.shape == x.shape else 1)
code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
finish.set()
print(count, code)
os._exit(0)
"""


@forks
@pytest.mark.parametrize("unwritten", ["nan", ""])
def test_a_child_computes_while_another_thread_held_all_locks(unwritten):
    environment = os.environ | {"NUMBA_NUM_THREADS": "2", "TINYTENSOR_POISON": unwritten}
    done = subprocess.run([sys.executable, "-c", FORK], capture_output=True, text=True, env=environment, timeout=600)
    count, code = done.stdout.split()
    assert int(code) == 0, done.stderr
    assert int(count) >= (4 if unwritten else 3)  # of regions, of the recording, and of noted calls
