"""Mistakes made mechanically in every line of Python modules, one at a time; tests of the same part must notice each.

The changes are those of `loops.py`; PARTS says in which files they are made, and which tests must notice. Each is
planted in the function in which it stands, in a process that is forked for it: whatever it does there, the next one
knows nothing of it. Then those tests run that come there (which ones, a run without a mistake says), the quick ones
first, until one fails.

Left out of `nn` are parallel.py, which runs in several processes, and generated.py, which makes its classes when it is
imported. Left out in each file, beside what the changes leave as it is (longer names, texts, values by default, which
tests/torch_names/test_constructors compares with PyTorch's), are errors and what leads to nothing else, of which
tests/ops/test_argument_errors asks what they say, and methods that say how a thing is shown.

What nothing notices is either no mistake, and stands in the list of explanations of its part with the reason, or a test
is missing. The command fails for one that does not stand there, and for one that stands there and was noticed.
"""

import ast
import gc
import multiprocessing
import signal
import sys
import types
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

import pytest
from _pytest.runner import runtestprotocol
from tqdm import tqdm

import tinytensor
from tests.tools.timeout import limited

from . import unnoticed, unnoticed_in_engine
from .loops import Endless
from .planting import changes_of_a_line, with_node
from .tally import Tally, by_label, label

FOLDER = Path(tinytensor.__file__).parent
TESTS = Path(__file__).parents[1]


class Part(NamedTuple):
    """A part of the package: its name, its files, the tests that must notice changes to them, and what none can."""

    name: str
    files: tuple[str, ...]
    tests: tuple[str, ...]
    explained: dict[str, dict[str, list[str]]]


PARTS = {
    "modules": Part(
        "tinytensor/nn",
        (
            *("nn/attention.py", "nn/containers.py", "nn/functional.py", "nn/hooks.py", "nn/init.py", "nn/layers.py"),
            *("nn/losses.py", "nn/module.py", "nn/recurrent.py", "nn/transformer.py", "nn/utils/__init__.py"),
            "nn/utils/rnn.py",
        ),
        (
            *("nn/test_nn.py", "nn/test_pairwise.py", "test_samples.py::test_value", "test_samples.py::test_gradient"),
            *(
                "optim/test_optim.py::test_clipping_matches_pytorch",
                "optim/test_optim.py::test_clipping_of_nonfinite_gradients",
            ),
            "autograd/test_functions.py::test_full_backward_hooks",
        ),
        unnoticed.EXPLAINED,
    ),
    "engine": Part(
        "the engine's core",
        (
            "core/tape.py",
            "core/graph.py",
            "core/op.py",
            "core/tensor.py",
            "core/rule_arguments.py",
            "autograd/seed.py",
            "core/post_accumulate_hooks.py",
            "autograd/accumulate_grad.py",
            "autograd/backward.py",
        ),
        (
            "autograd/test_autograd.py",
            "autograd/test_functions.py",
            "autograd/test_hooks_and_views.py",
            "autograd/test_memory_of_functions.py",
            "recording/test_compile.py::test_replaced_data_is_followed",
            "recording/test_compile.py::test_tensors_kept_outside_the_step_raise",
            "recording/test_compile.py::test_data_assigned_inside_the_step",
            "recording/test_compile.py::test_data_of_a_result_assigned_inside_the_step",
            "recording/test_compile.py::test_gradient_replaced_but_unread_is_not_guarded",
            "recording/test_compile.py::test_schedule_inside_may_read_tensors",
            "viz/test_explain.py::test_value_changed_in_place_is_shown_as_it_was",
        ),
        unnoticed_in_engine.EXPLAINED,
    ),
    "recordings": Part(
        "recordings of steps",
        ("native/recording/recording.py",),
        ("recording/test_compile.py", "test_profiler.py"),
        unnoticed_in_engine.OF_RECORDINGS,
    ),
}
ASKS = ("only_floats", "check_layers", "_ignored")  # they refuse what is wrong, and give what is right as it is
SHOWN = ("extra_repr", "__repr__", "__dir__")
SECONDS = 20  # of processor time for a test, of which none takes five: this one never ends
COMPILING = 600  # at first, when kernels may have to be compiled
PATIENCE = 300  # seconds that pass until a process is given up that waits for something, or is lost in native code

Key = tuple[str, str, int]  # of a function: its file, its name with that of its class, the line in which it begins


def key_of(code: types.CodeType) -> Key:
    return code.co_filename, code.co_qualname, code.co_firstlineno


def files(part: str) -> list[str]:
    """The files of a part, as code names them."""
    return [str(FOLDER / file) for file in PARTS[part].files]


# --- The changes


@cache
def source(file: str) -> ast.Module:
    return ast.parse(Path(file).read_text(encoding="utf-8"))


def functions(tree: ast.AST, within: str = "") -> Iterator[tuple[str, ast.FunctionDef]]:
    """The functions of a file and of its classes, by their names."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef):
            yield within + node.name, node
        elif isinstance(node, ast.ClassDef):
            yield from functions(node, f"{within}{node.name}.")


def refusals(function: ast.FunctionDef) -> set[int]:
    """All that says that something is refused, and what leads to nothing else."""
    return {id(inner) for node in ast.walk(function) if _refuses(node) for inner in ast.walk(node)}


def _refuses(node: ast.AST) -> bool:
    match node:
        case ast.Raise() | ast.JoinedStr() | ast.ExceptHandler() | ast.Assign(value=ast.JoinedStr()):
            return True
        case ast.If(body=body, orelse=[]):
            return all(isinstance(statement, ast.Raise) for statement in body)
        case ast.Expr(ast.Call(func=ast.Attribute(attr="warn"))):
            return True
        case ast.Assign(value=ast.Call(func=ast.Name(name))) | ast.Expr(ast.Call(func=ast.Name(name))):
            return name in ASKS
    return False


@cache
def mutants(part: str) -> list[tuple[Key, str, ast.AST, ast.AST]]:
    """(function, what is changed, the place, what stands there instead) for every change to a part."""
    results = []
    for file in files(part):
        for name, function in functions(source(file)):
            if function.name in SHOWN:
                continue
            first = min([function.lineno, *(node.lineno for node in function.decorator_list)])
            left, seen = refusals(function), Counter()
            for what, position, new in changes_of_a_line(function):
                if id(position) not in left:
                    seen[what] += 1
                    message = what + f" ({seen[what]})" * (seen[what] > 1)
                    results.append(((file, name, first), message, position, new))
    return results


# --- Planted and tested


@cache
def functions_in_use() -> dict[Key, list[types.FunctionType]]:
    """The functions that were made of each definition: one, but where a decorator made copies."""
    result = defaultdict(list)
    for f in gc.get_objects():
        if type(f) is types.FunctionType and f.__code__.co_filename.startswith(str(FOLDER)):
            result[key_of(f.__code__)].append(f)
    return result


@contextmanager
def planted(key: Key, position: ast.AST, new: ast.AST) -> Iterator[None]:
    """The function with the change: every caller, whichever reference it holds, calls the changed one."""
    file, name, _ = key
    tree = with_node(source(file), position, new)
    function = dict(functions(tree))[name]
    there = functions_in_use()[key]
    before = [f.__code__ for f in there]
    if any("__class__" in code.co_freevars for code in before):  # which a change must not take out of it
        function.body.append(ast.parse("__class__").body[0])
    made = _code(compile(ast.fix_missing_locations(tree), file, "exec"), key)
    for f in there:
        f.__code__ = made
    try:
        yield
    finally:
        for f, code in zip(there, before, strict=True):
            f.__code__ = code


def _code(within: types.CodeType, key: Key) -> types.CodeType:
    inner = [constant for constant in within.co_consts if isinstance(constant, types.CodeType)]
    for code in inner:
        if key_of(code) == key:
            return code
        if key[1].startswith(f"{code.co_qualname}."):
            return _code(code, key)
    raise LookupError(f"{key[1]} is not in {key[0]}")


def failure(tests: list[pytest.Item], seconds: float = SECONDS) -> str:
    """The first of the tests that fails; "" if none does."""
    for test in tests:
        try:
            with limited(seconds, Endless, signal.ITIMER_PROF):
                failed = any(report.failed for report in runtestprotocol(test, log=False, nextitem=None))
        except Endless:
            failed = True
        if failed:
            return test.name
    return ""


def noticed_by(tests: list[pytest.Item], change: AbstractContextManager) -> str:
    """The first of the tests that fails with the change, or how the process ends that runs them; "" if none does."""
    forked = multiprocessing.get_context("fork")
    message, tell = forked.Pipe(duplex=False)
    process = forked.Process(target=lambda: tell.send(failure(tests)))
    with change:
        process.start()
    tell.close()
    try:
        return message.recv() if message.poll(PATIENCE) else "no end"
    except EOFError:
        process.join()
        return f"exit code {process.exitcode}"
    finally:
        process.kill()
        process.join()


def who_comes_where(part: str, tests: list[pytest.Item]) -> dict[Key, list[pytest.Item]]:
    """The tests that call each function of a part, quick ones first. None may fail."""
    callers, seconds, there = defaultdict(list), {}, set(files(part))
    for test in tqdm(tests, unit="test", disable=None):
        called = set()

        def note(frame, event, _, called=called):
            if event == "call" and frame.f_code.co_filename in there:
                called.add(key_of(frame.f_code))

        begin = perf_counter()
        sys.setprofile(note)
        failed = failure([test], COMPILING)
        sys.setprofile(None)
        assert not failed, f"{failed} fails without a mistake"
        seconds[test] = perf_counter() - begin
        for key in called:
            callers[key].append(test)
    tests.sort(key=seconds.__getitem__)
    failed = noticed_by(tests, nullcontext())  # and once more, in that order and in such a process
    assert not failed, f"{failed} when the tests run again, though there is no mistake"
    return {key: sorted(those, key=seconds.__getitem__) for key, those in callers.items()}


class Trial:
    """A plugin for pytest that does something else with the tests than to run them once."""

    def __init__(self, work: Callable[[list[pytest.Item]], None]):
        self.work = work

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Of the table of samples those of modules and of functions beside them are enough."""
        for item in list(items):
            cases = getattr(item, "callspec", None) and item.callspec.params.get("cases")
            if cases and not any(path.startswith(("F.", "nn.")) for sample in cases for path in sample.paths):
                items.remove(item)

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        self.work(session.items)
        return True


def with_tests(part: str, work: Callable[[list[pytest.Item]], None]) -> None:
    """Collect the tests of a part, and do something with them."""
    options = ["-q", "-n", "0", "-p", "no:cacheprovider", "--no-header", "--no-summary", f"--rootdir={TESTS.parent}"]
    options.append("--tb=native")  # changed code has lines without a number, which others cannot show
    status = pytest.main([*options, *(str(TESTS / file) for file in PARTS[part].tests)], plugins=[Trial(work)])
    assert status == pytest.ExitCode.OK, status


def mechanically(part: str, piece: int = 0, of: int = 1) -> Tally:
    """One of so many shares of all changes, each tried; what is explained wrongly has survived, too."""
    tally, changes = Tally(), [label(key[1], what) for key, what, *_ in mutants(part)]
    explained = by_label(PARTS[part].explained, changes)

    def work(tests: list[pytest.Item]) -> None:
        callers = who_comes_where(part, tests)
        for key, what, position, new in tqdm(mutants(part)[piece::of], unit="change", disable=None):
            test = noticed_by(callers.get(key, []), planted(key, position, new))
            tally.enter_unless_explained(label(key[1], what), "refuted" if test else "", explained, by=test)

    with_tests(part, work)
    tally.enter_gone(explained, changes)
    return tally
