"""Tests that use threads, processes or time are found by what they use, and a run of many that fails is told."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import is_drawn
from tests.tools.repeat import OTHERS, THREADS, words

ROOT = Path(__file__).parents[2]

PLANTED = """
import subprocess
import sys
import threading

import pytest

calls = []


def in_a_thread(work):
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


@pytest.mark.parametrize("n", [1, 2])
def test_that_sometimes_falls(n):
    in_a_thread(lambda: calls.append(n))
    assert len(calls) != 3


def test_of_a_process():
    assert subprocess.run([sys.executable, "-c", ""]).returncode == 0


def test_of_neither():
    raise AssertionError("it is not chosen")
"""


CHOSEN = ("test_that_sometimes_falls", "test_of_a_process")


def repeat(folder: Path, *arguments: str) -> tuple[int, str]:
    (folder / "test_planted.py").write_text(PLANTED)
    command = [sys.executable, "-m", "tests.tools.repeat", *arguments, str(folder / "test_planted.py")]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    return done.returncode, done.stdout


@pytest.mark.slow
def test_flaky_test_is_reported(tmp_path):
    code, said = repeat(tmp_path, "3")
    assert code == 1 and said.endswith("9 runs, 1 failures\n"), said
    assert "FAILED 1 of 3 times: " in said and "test_planted.py::test_that_sometimes_falls[1]\n" in said


@pytest.mark.slow
def test_threads_option_selects_tests_of_threads(tmp_path):
    code, said = repeat(tmp_path, "1", "--threads")
    assert code == 0 and said.endswith("2 runs, 0 failures\n"), said


@pytest.mark.slow
def test_seed_draws_a_part_of_the_tests(tmp_path):
    """With all of its rounds: races show themselves in one of many."""
    seed = next(
        n for n in range(99) if [is_drawn(f"test_planted.py::{name}", 2, n) for name in CHOSEN] == [False, True]
    )
    code, said = repeat(tmp_path, "3", "--one-in", "2", "--seed", str(seed))
    assert code == 0 and said.endswith("3 runs, 0 failures\n"), said


def test_tests_of_threads_processes_and_time_are_found():
    results = {
        "fast/test_launch_cache.py": THREADS,
        "kernels/test_softmax.py": OTHERS,
        "models/training/test_checkpoint.py": OTHERS,
        "distributed/test_distributed.py": OTHERS,
    }
    for file, category in results.items():
        tests = {name: used for name, used in words(ROOT / "tests" / file).items() if name.startswith("test_")}
        assert any(used & category for used in tests.values()), file
    assert not all(
        used & (THREADS | OTHERS) for used in words(ROOT / "tests" / "fast" / "test_launch_cache.py").values()
    )
