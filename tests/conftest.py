"""For all tests and the processes that they start.

Uninitialized memory holds NaN (core/poison.py), and no warning says that a version was not tested
(native/platform/tested_versions.py): a test run is how it is tested. Python keeps its bytecode, even where a
container's settings forbid it: hundreds of processes would each compile all source files, for half a second.

Without --all, a part of the tests runs (short.py), and of long series of cases (tools/sampling_rate.py). With
--one-in N a random part of them runs, the same for the same --seed.

Where the home cannot be written, all tests have one that is removed at the end: hundreds of processes would each
compile all kernels.
"""

import atexit
import gc
import os
import random
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.short import PART
from tests.tools.platforms import POSIX

EVERYTHING = "python -m pytest -n 2 --dist worksteal --all"

os.environ["TINYTENSOR_POISON"] = "nan"
os.environ["TINYTENSOR_UNTRIED"] = "off"
if not os.access(Path.home(), os.W_OK):
    os.environ["HOME"] = tempfile.mkdtemp(prefix="home-")
    atexit.register(shutil.rmtree, os.environ["HOME"], ignore_errors=True)
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
# Proofs and the compiler make millions of objects that live long: the collector of garbage looks through them less
# often. It takes a twentieth of the time of a run.
gc.set_threshold(20_000, 20, 20)

# Timers end what takes too long there, or mpiexec starts ranks, which pip does not install on Windows.
collect_ignore = [] if POSIX else ["fuzz", "distributed", "mutants", "models/training/test_ranks.py"]

HERE = Path(__file__).parent


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--all", action="store_true", help="all tests, with all cases of long series")
    parser.addoption("--one-in", type=int, default=1, metavar="N", help="a random part of the tests, one in N")
    parser.addoption("--seed", type=int, default=0, help="which part --one-in takes")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--all"):
        os.environ["THOROUGH"] = "1"


def has_twin(item: pytest.Item) -> bool:
    """Is this a test of kernels in float32, with the same case in float64? Kernels are compiled for each dtype."""
    dtype = getattr(item, "callspec", None) and item.callspec.params.get("dtype")
    return item.path.parent == HERE / "kernels" and getattr(dtype, "__name__", "") == "float32"


def is_drawn(name: str, one_in: int, seed: int) -> bool:
    """Is the test of this name in the random part?"""
    return random.Random(f"{seed} {name}").random() * one_in < 1


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Without --all, keep a part of the cases of some tests: the table says of which. Then draw those of --one-in."""
    part = {} if os.environ.get("THOROUGH") else PART
    drawn = config.getoption("--one-in"), config.getoption("--seed")
    if not part and drawn[0] == 1:
        return
    seen: Counter[str] = Counter()
    kept, left = [], []
    for item in items:
        if part and has_twin(item):
            left.append(item)
            continue
        name = f"{item.path.relative_to(HERE).as_posix()}::{getattr(item, 'originalname', item.name)}"
        one_in = part.get(name, 1)
        is_kept = one_in and seen[name] % one_in == 0 and is_drawn(item.nodeid, *drawn)
        (kept if is_kept else left).append(item)
        seen[name] += 1
    config.hook.pytest_deselected(items=left)
    items[:] = kept


def is_whole_run(config: pytest.Config) -> bool:
    """Was pytest started without the names of tests, as one process or as the one that starts others?"""
    return config.args_source is config.ArgsSource.TESTPATHS and not hasattr(config, "workerinput")


def pytest_sessionstart(session: pytest.Session) -> None:
    """Say once that kernels are compiled; what processes write while they compile is a part of their tests."""
    terminal = session.config.pluginmanager.get_plugin("terminalreporter")
    if terminal is not None and is_whole_run(session.config):
        from tinytensor.native.runtime.cache import root  # only now, for what it imports reads the environment

        if not any(root().rglob("*.nbc")):
            terminal.write_line(f"This first run compiles the kernels, for a minute, and keeps them in {root()}.")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> Iterator[None]:
    """In a terminal, the last line says how to run all tests."""
    yield
    terminal = session.config.pluginmanager.get_plugin("terminalreporter")
    if (
        terminal is not None
        and terminal.isatty
        and is_whole_run(session.config)
        and not session.config.getoption("--all")
    ):
        terminal.write_line(f"This was the short suite. All tests: {EVERYTHING}")
