"""Every kernel's own source, run over symbols, gives its definition: a proof for the sizes and paths of the table.

The proofs are only as good as the mistakes that they notice, so this file plants some.
"""

import importlib
import inspect
import types

import numpy as np
import pytest

from tests.kernels.kernel_samples import SAMPLES, Sample, blank, disagreements, sym
from tests.tools.sampling_rate import some
from tinytensor.native.kernels import KERNELS
from tinytensor.native.runtime.kernel import Elementwise, device_function, elementwise, kernel
from tinytensor.symbolic import NotLiftable, lift

CALLS = [
    pytest.param(name, sample, id=f"{name}-{i}")
    for name in SAMPLES
    for i, sample in some(enumerate(SAMPLES[name]), one_in=2)
]


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("name", "sample"), CALLS)
def test_kernel_equals_its_definition(name, sample):
    assert disagreements(KERNELS[name], sample) == []


def unproved() -> set[str]:
    """The kernels that ship without a sample; a formula needs one only if it is the gradient of another."""
    formulas = {name for name, kernel in KERNELS.items() if isinstance(kernel, Elementwise)}
    return set(KERNELS) - set(SAMPLES) - {name for name in formulas if not name.endswith("_backward")}


def test_every_kernel_has_a_proof():
    assert unproved() == set()
    assert set(SAMPLES) <= set(KERNELS), "the table proves kernels that are gone"


# ----------------------------------------------------------------------------------- what the proofs would notice


def test_a_kernel_without_a_sample_is_noticed(monkeypatch):
    monkeypatch.setitem(KERNELS, "unheard_of", KERNELS["softmax"])
    monkeypatch.setitem(KERNELS, "unheard_of_backward", KERNELS["add"])
    assert unproved() == {"unheard_of", "unheard_of_backward"}


MISTAKES = [
    ("elementwise", "logsigmoid", "size = -x if x > zero else x", "size = x"),  # right, but it overflows
    ("elementwise", "logsigmoid", "(zero if x > zero else x)", "(x if x > zero else zero)"),
    ("elementwise", "relu_backward", "if z <= type(z)(0) else h", "if z < type(z)(0) else h"),
    ("elementwise", "silu_backward", "(type(x)(1) + x * (type(x)(1) - s))", "(type(x)(1) - x * (type(x)(1) - s))"),
    ("elementwise", "gelu_erf_backward", "h * gelu_slope", "gelu_slope"),
    ("elementwise", "gelu_tanh_backward", "(one - t * t)", "(one - t)"),
    ("reduce", "reduce_sum", "range(n - n % 8, n)", "range(n - n % 8 + 1, n)"),
    ("reduce", "reduce_max", "better = not (value <= best)", "better = not (value < best)"),
    ("reduce", "reduce_logsumexp", "add(m, log(total))", "log(total)"),
    ("reduce", "partial_sum", "min(8 * end, n)", "min(8 * end, n - 1)"),
    ("reduce", "partial_squares", "y[r, i] += value * value", "y[r, i] += value"),
    ("scan", "cumsum", "add(total, sub(s, error))", "sub(total, sub(s, error))"),
    ("scan", "cumsum", "y[j + 2] = total + (c - lost)", "y[j + 2] = total + (d - lost)"),
    ("matvec", "matvec", "range(K - rest, K, width)", "range(K - rest, K - 1, width)"),
    ("matvec", "matvec", "if (end - begin) % 2:", "if (end - begin) % 3:"),
    ("softmax", "softmax", "x.dtype.type(1) / sum_lanes(s)", "x.dtype.type(1)"),
    ("softmax", "softmax", "m = larger(rest, x, r, n - rest, m)", "m = m"),  # still a softmax, but one that overflows
    (
        "softmax",
        "softmax",
        "e = exp(select_first(count, sub(",
        "e = exp(select_first(lanes(x), sub(",
    ),  # past the end: overflows too
    ("softmax", "softmax_backward", "sub(load_first(count, g, r, j), dot)", "load_first(count, g, r, j)"),
    ("softmax", "log_softmax_backward", "mul(exp(load_first(count, y, r, j)), sum_g)", "sum_g"),
    ("loss", "cross_entropy", "label_smoothing * (sum_lanes(s) / count)", "label_smoothing * sum_lanes(s)"),
    (
        "loss",
        "cross_entropy",
        "select_first(rest, log_share(",
        "select_first(width, log_share(",
    ),  # numbers past the end count
    ("loss", "cross_entropy", "not 0 <= t < size", "not 0 <= t <= size"),
    ("loss", "cross_entropy_backward", "dx[r, t] -= g[r]", "dx[r, t] = g[r]"),
    ("loss", "cross_entropy_backward", "if t != ignore_index and 0 <= t", "if t != ignore_index + 1 and 0 <= t"),
    (
        "norm",
        "layer_norm",
        "error_r * error_r + eps)",
        "error_r * error_r)",
    ),
    (
        "norm",
        "layer_norm",
        "select_first(count, sub(load_first(count, x, r, d), mu), zero(x))",
        "sub(load_first(count, x, r, d), mu)",
    ),
    (
        "norm",
        "layer_norm_backward",
        "fma(c, tilt, fma(scale, h, level))",
        "fma(c, tilt, mul(scale, h))",
    ),
    (
        "norm",
        "layer_norm_backward",
        "fma(c, tilt, fma(scale, h, level))",
        "fma(scale, h, level)",
    ),
    ("norm", "layer_norm_backward", "        clear(partial, block)\n", ""),  # read before it is written
    ("norm", "rms_norm_backward", "sum_lanes(sum_hn) / count", "sum_lanes(sum_hn)"),
    ("index", "scatter_add", "target[d] += row[d]", "target[d] = row[d]"),
    ("index", "take", "if 0 <= v < x.shape[0]", "if 0 <= v <= x.shape[0]"),
    ("index", "gather_backward", "dx[o, k, i] += g", "dx[o, k, i] -= g"),
    ("index", "argsort", "return a > b or", "return a >= b or"),
    ("update", "adam", "square = beta2 * vs[i] + new2 * d * d", "square = beta2 * vs[i] + new2 * d"),
    ("update", "adam", "* grow + eps)", "+ eps)"),
    ("update", "sgd", "d + momentum * b if nesterov", "momentum * b if nesterov"),
    ("attention", "attention", "p = min_zero(p)", "p = p"),
    (
        "attention",
        "attention",
        "                p = zero_where_not(p, registers_less_than(m, end))\n",
        "                pass\n",
    ),
    (
        "attention",
        "attention",
        "                p = zero_where_not(p, is_positive(load_score_tile(mask_tile, m * LANES)))\n",
        "                pass\n",
    ),
    ("attention", "attention", "norm = add(norm, sum_registers(p))", "norm = sum_registers(p)"),
    ("attention", "attention", "min(least, count), max(most, count)", "max(least, count), max(most, count)"),
    ("attention", "attention_of_one", "scores[m] = shift  # before", "pass  # before"),
    ("attention", "attention_of_one", "                scores[m] = zero\n", "                pass\n"),
    (
        "attention",
        "attention_of_one",
        "visible = m < count and (not has_holes or",
        "visible = m < count or (not has_holes or",
    ),
    ("attention", "attention_backward", "j * WIDTH), splat(scale))", "j * WIDTH), splat(one))"),
    (
        "attention",
        "attention_backward",
        "outer(c, x, n, LANES, load_register(",
        "outer(c, x, n * LANES, 1, load_register(",
    ),
    (
        "attention",
        "attention_backward",
        "outer(c, x, n, LANES, load_half_register(",
        "outer(c, x, n * LANES, 1, load_half_register(",
    ),
    ("attention", "attention_backward", "if columns <= HALF:", "if columns <= LANES:"),
    ("attention", "attention_backward", "clear(dqs)", "pass"),
    ("attention", "attention", "if is_causal else M", "if is_causal else M - 1"),
    ("attention", "attention_backward", "if is_causal else M", "if not is_causal else M"),
    ("matmul", "matmul", "        if first > 0:", "        if first < 0:"),
    ("matmul", "matmul", "(term[m], relu)", "(term[0], relu)"),
    ("matmul", "matmul", "            if relu:", "            if not relu:"),
    ("matmul", "matmul", "elif over <= MR_EDGE", "elif over < MR_EDGE"),
    ("matmul", "matmul", "panel, -first, 0", "panel, 0, 0"),
    ("matmul", "matmul", "p % group * deep - first", "p % group - first"),
    ("matmul", "matmul", "before - t * apart", "before - apart"),
    ("matmul", "matmul", "packed_a[task], begin, first", "packed_a[task], begin, 0"),
    ("matmul", "matmul", "load_first(end - i - r, columns, k, i + r)", "load_first(end - i, columns, k, i)"),
    ("matmul", "matmul", "store(v, packed_a, i - begin, k - first)", "store(v, packed_a, i - begin, k)"),
    ("matmul", "matmul", "group if scratch.shape[1] >= group * deep else 1", "group"),
    (
        "matmul",
        "matmul",
        "store_tile(c, height, width, partial, at + i, 0)",
        "store_tile(c, height, width, partial, i, 0)",
    ),
]


@pytest.mark.one_in(16)
@pytest.mark.parametrize(
    ("module", "name", "right", "wrong"), MISTAKES, ids=lambda value: value if value in KERNELS else ""
)
def test_a_planted_mistake_is_noticed(module, name, right, wrong):
    assert noticed(planted(module, name, right, wrong), name)


def planted(module: str, name: str, right: str, wrong: str):
    """The kernel from a copy of its file in which the wrong text replaces the right one."""
    folder = "ops" if module == "elementwise" else "native.kernels"  # a formula stands in the form of its operation
    module = importlib.import_module(f"tinytensor.{folder}.{module}")
    source = inspect.getsource(module)
    assert right in source, f"{name} is written in another way now: plant another mistake"
    copy = {"__name__": "planted", "__file__": module.__file__}
    exec(compile(source.replace(right, wrong), module.__file__, "exec"), copy)
    return getattr(copy[name], "kernel", copy[name])


def noticed(mutant, name: str) -> bool:
    for sample in SAMPLES[name]:
        try:
            if disagreements(mutant, sample):
                return True
        except (RuntimeError, ArithmeticError, IndexError):
            return True
    return False


@pytest.mark.slow
@pytest.mark.parametrize(("module", "name"), sorted({mistake[:2] for mistake in MISTAKES}))
def test_a_copy_without_a_mistake_passes(module, name):
    assert not noticed(planted(module, name, "", ""), name)


def test_an_uninitialised_read_names_kernel_and_element():
    @kernel()
    def adds_up(x, y):
        for j in range(x.size):
            y[0] += x[j]

    with pytest.raises(RuntimeError, match=r"kernel adds_up: y\[0\] was read before"):
        lift(adds_up)(sym("x", 2), blank(1))


def test_indices_outside_are_noticed():
    @kernel()
    def looks_back(x, y):
        for j in range(x.size):
            y[j] = x[j - 1]

    @kernel()
    def looks_ahead(x, y):
        for j in range(x.size):
            y[j] = x[j + 1]

    for wrong in (looks_back, looks_ahead):
        with pytest.raises(IndexError, match=f"kernel {wrong.name}: x.* is outside the shape"):
            lift(wrong)(sym("x", 2), blank(2))


def scales(x, n, y):
    for j in range(x.size):
        y[j] = one_scale(x[n]) + other_scale(x[n])


def module_with(factor: int) -> types.ModuleType:
    made = types.ModuleType("made")
    made.FACTOR = factor
    exec(compile("def scale(x):\n    return x * FACTOR\n", "made.py", "exec"), made.__dict__)
    return made


one_scale, other_scale = module_with(2).scale, module_with(3).scale


def test_functions_of_one_code_have_their_own_globals():
    x, y = sym("x", 2), blank(2)
    lift(kernel()(scales))(x, np.int64(1), y)
    assert all(b.equals(5 * x[1]) for b in y)


def test_array_has_no_other_attributes():
    @kernel()
    def asks(x, y):
        y[0] = x.sum()

    with pytest.raises(AttributeError, match=r"kernel asks: x\.sum has no exact meaning"):
        lift(asks)(sym("x", 2), blank(1))


# ---------------------------------------------------------------------------------------------- tasks of a launch


def doubles(x, y, task, tasks):
    for j in range(task, x.size, tasks):
        y[j] = x[j] + x[j]


def overlaps(x, y, task, tasks):
    for j in range(task, x.size):
        y[j] = x[j] + x[j]


def adds_up(x, y, task, tasks):
    if task == 0:
        y[0] = x[0]
    for j in range(task + 1, x.size, tasks):
        y[0] += x[j]


def shifts_itself(x, y, task, tasks):
    first, last = x.size * task // tasks, x.size * (task + 1) // tasks
    for j in range(first, min(last, x.size - 1)):
        x[j] = x[j + 1]
        y[j] = x[j]


def test_every_task_of_a_launch_is_run():
    x, y = sym("x", 5), blank(5)
    lift(kernel()(doubles), tasks=3)(x, y)
    assert all(b.equals(2 * a) for a, b in zip(x, y, strict=True))


@pytest.mark.parametrize(("source", "where"), [(overlaps, r"y\[1\]"), (adds_up, r"y\[0\]"), (shifts_itself, r"x\[1\]")])
def test_conflicting_tasks_are_noticed(source, where):
    """Two tasks write one element, or one reads an element that another has written, or writes one that it has read."""
    wrong = kernel()(source)
    lift(wrong, tasks=1)(sym("x", 5), blank(5))
    with pytest.raises(RuntimeError, match=f"kernel {source.__name__}: {where} is touched by several of the 3 tasks"):
        lift(wrong, tasks=3)(sym("x", 5), blank(5))


def turns(x, y, task, tasks):
    for j in range(x.size * task // tasks, x.size * (task + 1) // tasks):
        y[j] = x[(j + 1) % x.size]


def test_conflict_in_one_array_that_is_two_arguments_is_noticed():
    x, turn = sym("x", 6), lift(kernel()(turns), tasks=3)
    turn(x, blank(6))
    with pytest.raises(RuntimeError, match=r"kernel turns: .* is touched by several of the 3 tasks"):
        turn(x, x)


def test_samples_are_cut_into_several_tasks():
    sample = Sample((sym("x", 5), blank(5)), lambda x, y: {"y": 2 * x})
    one = lambda x, y: 1  # noqa: E731
    assert disagreements(kernel(tasks=one)(doubles), sample) == []
    assert disagreements(kernel()(overlaps), sample) == []  # it says that it is one task always
    with pytest.raises(RuntimeError, match=r"y\[1\] is touched by several"):
        disagreements(kernel(tasks=one)(overlaps), sample)


def test_unknown_constants_of_a_kernel_are_refused():
    with pytest.raises(TypeError, match=r"kernel doubles: \['WIDTH'\] are not among its constants"):
        lift(kernel()(doubles), WIDTH=2)


COEFFICIENT = 0.044715


@device_function
def hidden(row):
    return np.dot(row, row)


def dots(x, y):
    y[0] = np.dot(x, x)


def dots_in_a_helper(x, y):
    y[0] = hidden(x)


def allocates(x, y):
    t = np.zeros(x.size)
    for j in range(x.size):
        y[j] = t[j]


def has_a_literal(x, y):
    for j in range(x.size):
        y[j] = 0.044715 * x[j]


def is_only_a_literal(x, y):
    y[0] = 0.5


def has_a_constant(x, y):
    for j in range(x.size):
        y[j] = COEFFICIENT * x[j]


def converts(x, y):
    for j in range(x.size):
        y[j] = float(x[j])


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        (dots, r"kernel dots: numpy.dot has no exact meaning"),
        (dots_in_a_helper, r"kernel dots_in_a_helper, in hidden: numpy.dot has no exact meaning"),
        (allocates, r"kernel allocates: numpy.zeros allocates; take the array as a parameter"),
        (has_a_literal, r"kernel has_a_literal: the literal 0.044715 is a float; make it a parameter"),
        (is_only_a_literal, r"kernel is_only_a_literal: the literal 0.5 is a float; make it a parameter"),
        (has_a_constant, r"kernel has_a_constant: the constant COEFFICIENT = 0.044715 is a float"),
        (converts, r"kernel converts: the name float .* has no exact meaning"),
    ],
)
def test_operations_without_exact_meaning_are_refused(source, sentence):
    with pytest.raises(NotLiftable, match=sentence):
        lift(kernel()(source))


def test_array_expressions_are_refused():
    @kernel()
    def adds_arrays(x, y):
        y[0] = x + x

    with pytest.raises(TypeError, match="kernel adds_arrays: an expression over the array x allocates"):
        lift(adds_arrays)(sym("x", 2), blank(1))

    @kernel()
    def copies_rows(x, y):
        y[0] = x[0]

    with pytest.raises(TypeError, match="kernel copies_rows: an expression over the array y"):
        lift(copies_rows)(sym("x", 2, 2), blank(2, 2))


def test_array_for_a_number_is_refused():
    """`x == 0` of an array: Python would say False, where compiled code says something else."""

    @kernel()
    def compares(x, y):
        if x == 0:
            y[0] = x[0]

    @kernel()
    def asks(x, y):
        if x:
            y[0] = x[0]

    for wrong in (compares, asks):
        with pytest.raises(TypeError, match=f"kernel {wrong.name}: an expression over the array x"):
            lift(wrong)(sym("x", 1), blank(1))


def test_a_formula_with_a_mistake_is_noticed():
    @elementwise
    def doubled(x):
        return x + x + type(x)(1)

    x = sym("x")
    assert disagreements(doubled, Sample((x, blank()), lambda x, y: {"y": 2 * x + 1})) == []
    differences = disagreements(doubled, Sample((x, blank()), lambda x, y: {"y": 2 * x}))
    assert differences == ["doubled: y[] is 2*x + 1, expected 2*x"]


def test_a_kernel_that_changes_its_input_is_noticed():
    @kernel()
    def doubles(x, y):
        for j in range(x.size):
            x[j] = x[j] + x[j]
            y[j] = x[j]

    differences = disagreements(doubles, Sample((sym("x", 1), blank(1)), lambda x, y: {"y": 2 * x}))
    assert differences == ["doubles: x was written to, and nothing is said about it"]
