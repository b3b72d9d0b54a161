"""The samples of the kernels' proofs take every path: conditions both ways, loops no, one and several times.

A proof says nothing about code that it does not run. If a block has an empty tail in every sample, or a condition is
always true, a mistake there would ship. So the kernels' sources are run on the samples with an observer at each
condition (and at each part of `and` and `or`) and at each loop; a list has the cases that they did not see, with the
reason why these can't occur.
"""

import ast
import inspect
import textwrap
import types
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import partial

import numpy as np

from tests.kernels.kernel_samples import tasks_tried
from tests.kernels.test_compiled import FOLDERS, calls
from tinytensor.native.kernels import KERNELS
from tinytensor.native.runtime.kernel import Elementwise, device_function, kernel
from tinytensor.symbolic.exact.lifting import rebind

MANY = 2  # times that a loop ran, or more
TIMES = {0: "left out", 1: "once", MANY: "several times"}
CHOICE = {True: "true", False: "false"}

# Why no sample shows it: (function, what is written there), and what is not seen. (A loop over the numbers of a
# register or the rows of a tile, zip(a, b) or range(len(c)), has no choice, and no place here.)
UNSEEN = {
    "it would read beyond the array, and is an error": {("load_first", "fits"): ["false"]},
    "a single column has a loop of its own": {
        (name, "for i in range(inner)"): ["once"]
        for name in (
            "add_rows",
            "add_squares",
            "reduce_prod",
            "reduce_max",
            "reduce_min",
        )
    },
    "it would divide by how many numbers a row has, and exact ones have no 1 / 0": {
        ("layer_norm_backward", "for d in range(0, size, width)"): ["left out"],
    },
    "it goes by twos, over a number that is even": {
        ("layer_norm", "for d in range(0, size - rest, width)"): ["once"],
        ("rms_norm", "for d in range(0, size - rest, width)"): ["once"],
        ("softmax_backward", "for j in range(0, n - rest, width)"): ["once"],
        ("attention_backward", "for i in range(round_up(C, WIDTH))"): ["once"],
        ("attention_of_one", "for m in range(ends.size)"): ["once"],
    },
    "there are as many tasks as blocks": {
        **{
            (name, "for block in range(start, stop)"): ["several times"]
            for name in ("layer_norm_backward", "rms_norm_backward")
        },
        ("sumsq", "for part in range(start, stop)"): ["several times"],
    },
    "who calls it has at least one": {
        ("argsort", "for j in range(0, n, 2 * width)"): ["left out"],
        ("argsort", "for j in range(n)"): ["left out", "once"],  # within `while width < n`
        ("column_logsumexp", "for j in range(begin, min(begin + ROWS, n))"): ["left out"],
        ("sums_of_blocks", "for begin in range(0, end, TERMS)"): ["left out", "once"],  # only if end > TERMS
        ("column_scan", "for j in range(x.size - x.size % 16, x.size)"): ["left out"],
        ("register_scan", "for j in range(k, end)"): ["left out"],
        ("cumsum", "for i in range(0, inner - rest, width)"): ["left out"],
        ("cumsum", "for i in range(inner - rest, inner)"): ["left out"],
        ("dense_row", "for k in range(begin, min(begin + BLOCK, K - rest), 4 * width)"): ["left out"],
        ("matvec", "for row in range(i, min(i + width, M))"): ["left out"],
        ("merge", "for k in range(start, stop)"): ["left out"],
        ("cross_entropy", "for r in range(begin, end)"): ["left out"],
        ("visible_range", "for m in range(count)"): ["left out"],
        ("clear", "for k in range(sums.shape[0])"): ["left out"],
        ("first_equal", "for j in range(row.size)"): ["left out"],
        ("first_nan", "for j in range(row.size)"): ["left out"],
        ("block_sum", "for j in range(block.size)"): ["left out"],
        ("block_squares", "for j in range(block.size)"): ["left out"],
        ("inner_rows", "for n in range(columns)"): ["left out"],
        ("outer_rows", "for n in range(columns)"): ["left out"],
        ("matmul", "for first in range(0, max(K, 1), KC)"): ["left out"],
        ("pack_a_columns", "for some in range(first, last, AT_ONCE)"): ["left out"],
        ("pack_a_columns", "for i in range(begin, end, A_ROWS)"): ["left out"],
        ("pack_a_columns", "for k in range(some, min(some + AT_ONCE, last))"): ["left out"],
        ("pack_a_rows", "for i in range(begin, end)"): ["left out"],
        ("pack_a_rows", "for k in range(first, last, n)"): ["left out"],
        ("pack_b", "for some in range(first, last, AT_ONCE)"): ["left out"],
        ("pack_b", "for k in range(some, min(some + AT_ONCE, last))"): ["left out"],
        ("pack_b", "for v in range(0, width, 2 * n)"): ["left out"],
        ("pack_b", "for v in range(0, width, n)"): ["left out"],
        ("pack_b", "for k in range(first, last, n)"): ["left out"],
        ("store_tile", "for r in range(min(height, len(c)))"): ["left out"],
        ("store_rows", "for lane in range(min(LANES, x.shape[1] - j))"): ["left out"],
        ("store_rows", "for t in range(min(WIDTH, x.shape[0] - i))"): ["left out"],
    },
    "it is as many as a score tile or a panel has": {
        ("load_mask", "for n in range(keys)"): ["left out", "once"],
        ("load_mask", "for t in range(queries)"): ["left out", "once"],
        ("pack_a_columns", "for r in range(0, A_ROWS, n)"): ["left out"],
        ("pack_b", "for v in range(-(-width // (2 * n)) * 2 * n)"): ["left out", "once"],
    },
    "the mean of no targets is 0 / 0": {("mean_of_counted", "for r in range(target.size)"): ["left out"]},
}


class Seen:
    """The observations at each place: the values of conditions, the number of times that loops ran."""

    def __init__(self):
        self.conditions: dict[tuple, set[bool]] = defaultdict(set)
        self.loops: dict[tuple, set[int]] = defaultdict(set)
        self.made: dict[types.CodeType, types.FunctionType] = {}

    def condition(self, key: tuple, value):
        self.conditions[key].add(bool(value))
        return value

    def loop(self, key: tuple, values) -> Iterator:
        times = 0
        try:
            for value in values:
                times += 1
                yield value
        finally:  # after a `break`, too
            self.loops[key].add(min(times, MANY))

    def observed(self, function: types.FunctionType) -> types.FunctionType:
        """The function with an observer at each of its conditions and loops."""
        if (code := function.__code__) not in self.made:
            tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
            ast.increment_lineno(tree, code.co_firstlineno - 1)  # the line distinguishes code that is written twice
            definition = tree.body[0]
            definition.decorator_list = []
            Observers(self, definition).visit(definition)
            names = {}
            scope = function.__globals__ | {"_saw": self.condition, "_loops": self.loop}
            exec(compile(ast.fix_missing_locations(tree), code.co_filename, "exec"), scope, names)
            made = types.FunctionType(names[code.co_name].__code__, scope, code.co_name, function.__defaults__)
            self.made[code] = made
        return self.made[code]

    def missed(self) -> set[tuple[str, str, str]]:
        """(function, the code there, the case that was not seen)."""
        observed = [(self.conditions, CHOICE), (self.loops, TIMES)]
        return {
            (*key[:2], word[v]) for all_, word in observed for key, seen in all_.items() for v in word.keys() - seen
        }


class Observers(ast.NodeTransformer):
    """Puts the observers into a function's source; each place is registered at once, without observations."""

    def __init__(self, seen: Seen, function: ast.FunctionDef):
        self.seen, self.name, self.listed = seen, function.name, function.args.vararg

    def _observe_test(self, test: ast.expr) -> ast.expr:
        if isinstance(test, ast.BoolOp):
            return ast.BoolOp(test.op, [self._observe_test(part) for part in test.values])
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            return ast.UnaryOp(test.op, self._observe_test(test.operand))
        key = self.name, ast.unparse(test), test.lineno
        self.seen.conditions[key]
        return _call("_saw", key, self.visit(test))

    def visit_If(self, node):
        test = self._observe_test(node.test)
        return ast.copy_location(
            ast.If(test, [self.visit(s) for s in node.body], [self.visit(s) for s in node.orelse]), node
        )

    def visit_IfExp(self, node):
        return ast.IfExp(self._observe_test(node.test), self.visit(node.body), self.visit(node.orelse))

    def visit_While(self, node):
        test = self._observe_test(node.test)
        return ast.copy_location(ast.While(test, [self.visit(s) for s in node.body], []), node)

    def visit_For(self, node):
        if not _is_fixed(node.iter, self.listed):
            key = self.name, f"for {ast.unparse(node.target)} in {ast.unparse(node.iter)}", node.lineno
            self.seen.loops[key]
            node.iter = _call("_loops", key, self.visit(node.iter))
        node.body = [self.visit(s) for s in node.body]
        return node


def _is_fixed(values: ast.Call | ast.Name, listed: ast.arg | None) -> bool:
    """Is it range(LANES), range(len(c)) or zip(a, b): as often as a register has numbers, or a tile rows?

    Or is it over the arguments of a call, the function's `*listed`?
    """
    if isinstance(values, ast.Name):
        return listed is not None and values.id == listed.arg
    if ast.unparse(values.func) == "zip":
        return True
    if len(values.args) == 1 and isinstance(values.args[0], ast.Call):
        return ast.unparse(values.args[0].func) in ("len", "lanes")
    return all(n.id == "range" or n.id.isupper() for n in ast.walk(values) if isinstance(n, ast.Name))


def _call(name: str, key: tuple, value: ast.expr) -> ast.expr:
    return ast.Call(ast.Name(name, ast.Load()), [ast.Constant(key), value], [])


def watch(seen: Seen, kernel, calls: Iterable, ours: tuple[str, ...] = FOLDERS) -> None:
    """Run a kernel's source on each call; functions of files in `ours` are observed."""

    def meaning(constants, code, name, value):
        value = constants.get(name, value)
        function = getattr(value, "py_func", value)
        known = isinstance(function, types.FunctionType) and function.__code__.co_filename.startswith(ours)
        return seen.observed(function) if known else value

    for make, constants in calls:
        source = rebind(seen.observed(kernel.py_func), partial(meaning, constants))
        for tasks in tasks_tried(kernel, make()):
            args = make()
            with np.errstate(all="ignore"):
                for share in [(task, tasks) for task in range(tasks)] if kernel.takes_tasks else [()]:
                    source(*args, *share)


def test_every_path_is_proved():
    seen = Seen()
    for name, each in KERNELS.items():
        if not isinstance(each, Elementwise):  # a formula has a sample for each of its branches
            watch(seen, each, calls(name, np.float64))
    assert len(seen.conditions) > 100 and len(seen.loops) > 100
    excused = {(*key, what) for observed in UNSEEN.values() for key, whats in observed.items() for what in whats}
    assert seen.missed() - excused == set(), "no sample shows this"
    assert excused - seen.missed() == set(), "this is excused, and was seen"


@device_function
def larger_of(a, b):
    return a if a > b else b


def test_unseen_path_is_named():
    @kernel()
    def climbs(x, y):
        best = x[0]
        for j in range(1, x.size):
            if x[j] > 0 and x[j] > best:
                best = larger_of(best, x[j])
        y[0] = best

    seen = Seen()
    watch(seen, climbs, [(lambda: [np.array([1.0, 2.0, 3.0]), np.zeros(1)], {})], __file__)
    loop = "climbs", "for j in range(1, x.size)"
    assert seen.missed() == {
        ("climbs", "x[j] > 0", "false"),
        ("climbs", "x[j] > best", "false"),
        ("larger_of", "a > b", "true"),
        (*loop, "left out"),
        (*loop, "once"),
    }
    others = ([1.0], [2.0, 1.0], [1.0, -1.0])
    watch(seen, climbs, [(lambda x=x: [np.array(x), np.zeros(1)], {}) for x in others], __file__)
    assert seen.missed() == {("larger_of", "a > b", "true")}
