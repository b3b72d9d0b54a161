"""Run the tests that use threads, processes or time many times, while other processes keep every core busy.

    python -m tests.tools.repeat 50                            each of them fifty times
    python -m tests.tools.repeat 100 --threads                 only those that start threads in Python
    python -m tests.tools.repeat 20 tests/viz -k page          of a folder or a file, by name: arguments of pytest
    python -m tests.tools.repeat 100 --one-in 4 --seed 7       a random part of the tests, the same for the same seed

A test is chosen by the words (THREADS, OTHERS) that it uses, itself or by a fixture, function or class of its file. A
new one is so among them without being listed. Exits with 1 if any run fails, and says how many of how many.
"""

import argparse
import ast
import multiprocessing
import os
import re
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import pytest

from tests.conftest import is_drawn

# A test with one of these words starts threads; with one of the others it uses those of the engine, processes, or time.
THREADS = frozenset(("threading", "Thread", "ThreadPoolExecutor"))
OTHERS = frozenset(
    (
        *("set_num_threads", "one_and_two_threads", "subprocess", "Popen", "multiprocessing", "in_processes", "mpi"),
        *("signal", "time", "limited", "noticed_by", "wait_for_step", "browser", "NotebookClient", "tracemalloc"),
    )
)


def _words_of(node: ast.AST) -> set[str]:
    """The names in a piece of code: variables, attributes, arguments (of a test: its fixtures), what is imported."""
    results = set()
    for inner in ast.walk(node):
        match inner:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name):
                results.add(name)
            case ast.Import(names=names) | ast.ImportFrom(names=names):
                results.update(part for alias in names for part in alias.name.split("."))
    return results


@cache
def words(path: Path) -> dict[str, set[str]]:
    """Of each function and class of a test file: the words that it uses, also through others of that file."""
    own = {}
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            own[node.name] = _words_of(node)
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            own[node.targets[0].id] = _words_of(node.value)
    reached = {}
    for name in own:
        seen, ahead = set(), [name]
        while ahead:
            word = ahead.pop()
            if word not in seen:
                seen.add(word)
                ahead += own.get(word, ())
        reached[name] = seen
    return reached


class Repetition:
    """A plugin for pytest: only tests that use some of the words, each so many times; it counts runs and failures."""

    def __init__(self, times: int, chosen: frozenset[str], one_in: int, seed: int):
        self.times, self.chosen, self.drawn = times, chosen, (one_in, seed)
        self.runs, self.failures = 0, Counter()

    def pytest_ignore_collect(self, collection_path: Path) -> bool | None:
        """A file none of whose tests is chosen is not even imported."""
        if collection_path.suffix == ".py" and not any(used & self.chosen for used in words(collection_path).values()):
            return True
        return None

    def chooses(self, test: pytest.Function) -> bool:
        name = test.cls.__name__ if test.cls else test.originalname
        used = words(test.path).get(name, set())
        return bool(used & self.chosen) and is_drawn(f"{test.path.name}::{test.originalname}", *self.drawn)

    @pytest.hookimpl(trylast=True)
    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        if self.chooses(metafunc.definition):
            metafunc.fixturenames.append("round_of_many")
            metafunc.parametrize("round_of_many", range(self.times))

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Those that are chosen, round after round."""
        config.hook.pytest_deselected(items=[item for item in items if not self.chooses(item)])
        items[:] = filter(self.chooses, items)
        items.sort(key=lambda item: item.callspec.params["round_of_many"])

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.runs += report.when == "call"
        if report.failed:
            self.failures[re.sub(r"(\[|-)\d+\]$", lambda end: "]" if end[1] == "-" else "", report.nodeid)] += 1


@contextmanager
def busy_cores() -> Iterator[None]:
    """Inside, one process for each core does nothing but count."""
    context = multiprocessing.get_context("spawn")
    counting = [context.Process(target=count, daemon=True) for _ in range(os.cpu_count() or 1)]
    for process in counting:
        process.start()
    try:
        yield
    finally:
        for process in counting:
            process.kill()


def count() -> None:
    n = 0
    while True:
        n += 1


def repeat(plugin: Repetition, options: list[str]) -> Repetition:
    """Run what pytest finds with these options so many times under load."""
    with busy_cores():
        pytest.main(["-q", "--no-header", "-p", "no:cacheprovider", *options], plugins=[plugin])
    return plugin


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.tools.repeat", description=__doc__.splitlines()[0])
    parser.add_argument("times", type=int, help="how often each test runs")
    parser.add_argument("--threads", action="store_true", help="only those that start threads in Python")
    parser.add_argument("--one-in", type=int, default=1, metavar="N", help="a random part of the tests, one in N")
    parser.add_argument("--seed", type=int, default=0, help="which part --one-in takes")
    asked, options = parser.parse_known_args(arguments)
    chosen = THREADS if asked.threads else THREADS | OTHERS
    done = repeat(Repetition(asked.times, chosen, asked.one_in, asked.seed), options)
    for test, count in done.failures.most_common():
        print(f"FAILED {count} of {asked.times} times: {test}")
    print(f"{done.runs} runs, {done.failures.total()} failures")
    return 1 if done.failures or not done.runs else 0


if __name__ == "__main__":
    sys.exit(main())
