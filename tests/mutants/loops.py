"""Mistakes made mechanically in every line of kernels' sources: of loops, of their helpers, of what registers mean.

An operator, a number, a bound that is off by one (or by one step), a condition that is turned round or always true, a
statement that is left out, `=` for `+=`, a name for its neighbour. Each is planted in the Python function, and
the kernels that call it are run on the samples of tests/symbolic: exact numbers against their definitions, memory that
is read before it is written, indices outside, tasks that are in each other's way; NaN and infinity in floats.

A change that nothing notices is either no mistake, and stands in `explained.py` with the reason, or the samples are too
weak. The command fails for one that does not stand there, and for one that stands there and was noticed.
"""

import ast
import inspect
import signal
import textwrap
import types
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import cache
from multiprocessing import Pool
from pathlib import Path

import numpy as np
from tqdm import tqdm

import tinytensor
from tests.kernels.kernel_samples import SAMPLES, SPECIAL, disagreements, float_disagreements
from tests.tools.timeout import limited
from tinytensor.native.kernels import KERNELS
from tinytensor.symbolic.exact.lifting import lift, rebind

from .explained import EXPLAINED
from .planting import changes_of_a_line, with_node
from .tally import Tally, by_label, label, notices

FOLDER = str(Path(tinytensor.__file__).parent)
SECONDS = 6  # of processor time for a sample, of which none takes two: this one never ends


class Endless(Exception):
    """A kernel did not come to an end."""


@cache
def functions() -> dict[types.FunctionType, list[str]]:
    """Each function of the kernels' sources, with the kernels that call it."""
    results: dict[types.FunctionType, list[str]] = {}
    for name in SAMPLES:
        mine = [KERNELS[name].py_func]

        def meaning(code, short, value, mine=mine):
            function = getattr(value, "py_func", value)
            ours = isinstance(function, types.FunctionType) and function.__code__.co_filename.startswith(FOLDER)
            if ours and function not in mine:
                mine.append(function)
            return value

        rebind(KERNELS[name].py_func, meaning)
        for function in mine:
            results.setdefault(function, []).append(name)
    return results


def definition(function: types.FunctionType) -> ast.FunctionDef:
    """The syntax tree of a function, without its decorators."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
    tree.decorator_list = []
    return tree


@cache
def mutants() -> list[tuple]:
    """(function, its tree, what is changed, the place, what stands there instead) for every change there is."""
    results = []
    for function in functions():
        tree, seen = definition(function), Counter()
        for what, position, new in changes_of_a_line(tree):
            seen[what] += 1
            results.append((function, tree, what + f" ({seen[what]})" * (seen[what] > 1), position, new))
    return results


@contextmanager
def planted(function: types.FunctionType, changed: ast.FunctionDef) -> Iterator[None]:
    """The function with another body: every caller, whichever reference it holds, calls the changed one."""
    names: dict[str, types.FunctionType] = {}
    source = compile(ast.Module([changed], []), function.__code__.co_filename, "exec")
    exec(source, dict(function.__globals__), names)
    before = function.__code__
    function.__code__ = names[changed.name].__code__
    lift.cache_clear()
    try:
        yield
    finally:
        function.__code__ = before
        lift.cache_clear()


def passes(function: types.FunctionType) -> bool:
    """The checker: all kernels that call the function give on all samples what they should."""
    for name in functions()[function]:
        exact = sorted(SAMPLES[name], key=lambda sample: sum(np.size(a) for a in sample.args))  # short ones first
        for check, samples in ((disagreements, exact), (float_disagreements, SPECIAL.get(name, ()))):
            for sample in samples:
                with limited(SECONDS, Endless, signal.ITIMER_PROF):  # a busy machine changes nothing
                    if check(KERNELS[name], sample):
                        return False
    return True


def attempt(mutant: tuple) -> tuple[str, str]:
    """(label, how it was noticed) of one change; "" if it was not."""
    function, tree, what, position, new = mutant
    for name in functions()[function]:  # before it is changed, for some of these answers use kernels themselves
        for sample in SAMPLES[name]:
            sample.answer  # noqa: B018
    try:
        changed = with_node(tree, position, new)
        with planted(function, changed):
            return label(function.__name__, what), notices(lambda: passes(function))
    except SyntaxError:  # what can't even be read is noticed
        return label(function.__name__, what), "SyntaxError"


def number_tried(number: int) -> tuple[str, str]:
    return attempt(mutants()[number])


def mechanically(piece: int = 0, of: int = 1, processes: int = 1) -> Tally:
    """One of so many shares of all changes, each tried; what stands in explained.py wrongly has survived, too."""
    tally, numbers = Tally(), range(piece, len(mutants()), of)
    changes = [label(function.__name__, what) for function, _, what, _, _ in mutants()]
    explained = by_label(EXPLAINED, changes)
    with Pool(processes) if processes > 1 else nullcontext() as pool:
        results = pool.imap(number_tried, numbers, chunksize=8) if pool else map(number_tried, numbers)
        for what, how in tqdm(results, total=len(numbers), unit="change", disable=None):
            tally.enter_unless_explained(what, how, explained)
    tally.enter_gone(explained, changes)
    return tally
