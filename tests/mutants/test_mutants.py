"""The mistakes: that they are planted and taken out again, that survivors are named, and why a change is left out."""

import ast
import os
import re
import sys
import time
from contextlib import nullcontext
from functools import partial
from itertools import chain

import numpy as np
import pytest
from sympy import Rational

import tinytensor as tt
import tinytensor.nn.functional as F
from derivations.claims import Refuted
from derivations.proofs.engine import CALLS, prove_op
from derivations.proofs.index import a, b, i, j, n
from tests.mutants import __main__ as command
from tests.mutants import engine, formulas, loops, modules, options, planting
from tests.mutants.tally import Tally, by_label
from tests.tools.sampling_rate import THOROUGH
from tinytensor import nn
from tinytensor.core import tape
from tinytensor.core.op import OPS
from tinytensor.core.tensor import Tensor
from tinytensor.native.kernels import softmax as softmax_kernels
from tinytensor.native.runtime.kernel import Elementwise, Loop
from tinytensor.symbolic.index_calculus.formulas import Array, total
from tinytensor.symbolic.index_calculus.notation import text


def changed(source: str, values_only: bool = False) -> list[str]:
    function = ast.parse(source).body[0]
    return [ast.unparse(new.body[-1]) for _, _, new in planting.code_mistakes(function, values_only)]


# --- How they are made


def test_changes_of_code():
    assert changed("def f(g, y):\n    return g * y") == [
        "return g / y",
        "return g",
        "return y",
        "return y * y",
        "return g * g",
    ]
    assert "return g + y" in changed("def f(g, y):\n    return g - y")
    assert "return y - g" in changed("def f(g, y):\n    return g - y")
    assert "return g" in changed("def f(g, y):\n    return -g")
    assert "return f(y, g)" in changed("def f(g, y):\n    return f(g, y)")
    assert "return (None, y)" in changed("def f(g, y):\n    return (g, y)")
    assert {"x = 2", "x -= 2", "pass"} <= set(changed("def f():\n    x += 2"))


def test_values_only_leaves_indices_and_bounds():
    source = "def f(x, y):\n    y[i + 1] = x[2 * j] - x[0]"
    assert len(changed(source)) > len(changed(source, values_only=True))
    assert all(("i + 1" in c and "2 * j" in c) or c == "y[i + 1] = x[0]" for c in changed(source, values_only=True))


def lines(source: str) -> list[str]:
    return [what for what, _, _ in planting.changes_of_a_line(ast.parse(source).body[0])]


def test_changes_of_lines_of_loops():
    message = lines(
        "def f(x, y):\n    for j in range(0, y.size - 1, 2):\n        if j < n:\n            y[j] += x[j + 1]"
    )
    assert "range(0, y.size - 1, 2)  ->  range(0, y.size - 1 - 2, 2)" in message
    assert {"if j < n:  ->  if True:", "j < n  ->  j > n", "j < n  ->  j <= n", "j + 1  ->  j - 1"} <= set(message)
    assert {"y[j] += x[j + 1]  ->  y[j] = x[j + 1]", "y[j] += x[j + 1]  ->  pass"} <= set(message)
    assert {"x  ->  y  in  y[j] += x[j + 1]", "1  ->  2  in  for j in range(0, y.size - 1, 2):"} <= set(message)
    assert lines("def f(x, y):\n    return lanes(x), x.dtype") == []  # of these only the kind of numbers counts


B = Array("B", (n, n))


def test_changes_of_formulas():
    message = dict(formulas.mistakes(a[i] + Rational(1, 2) * total(B[i, j] * b[j], j)))
    assert "without a[i:n]" in message
    assert "the mean for the sum" in message
    assert any("indices swapped" in what for what in message)
    assert not dict(formulas.mistakes(a[i]))


def test_symmetric_swaps_are_no_mistakes():
    """What leaves the normal form as it was is not among the mistakes: here the order of the summed indices."""
    assert not any("swapped" in what for what, _ in formulas.mistakes(total(B[i, j], i, j)))


# --- How they are planted


def test_a_rule_is_planted_and_taken_out():
    op, wrong = planting.rule_with("exp", "grad_x", "g * y", "g")
    before = op.rules[0]
    with planting.planted_rule(op, wrong):
        assert op.rules[0] is not before
        assert not prove_op("exp", CALLS["exp"][0])
    assert op.rules[0] is before
    assert prove_op("exp", CALLS["exp"][0])


def test_a_kernel_is_planted_and_taken_out():
    before = softmax_kernels.softmax_backward
    kernel, *change = engine.HAND_KERNELS["softmax without the row's sum"]
    with planting.planted_kernel(kernel, planting.kernel_with(kernel, *change)):
        assert not prove_op("softmax", CALLS["softmax"][0])
    assert softmax_kernels.softmax_backward is before
    assert prove_op("softmax", CALLS["softmax"][0])


def test_planted_kernel_runs_as_plain_python():
    """This kernel writes at the target -100, which is padding: as machine code, outside its arrays."""
    kernel, *change = engine.HAND_KERNELS["padding ignored"]
    x = tt.zeros(2, 3, requires_grad=True)
    with (
        planting.planted_kernel(kernel, planting.kernel_with(kernel, *change)),
        pytest.raises(IndexError, match="-100"),
    ):
        F.cross_entropy(x, tt.tensor([1, -100])).backward()
    F.cross_entropy(x, tt.tensor([1, -100])).backward()
    assert not x.grad[1].any()


def test_a_walk_is_planted_and_taken_out():
    with planting.planted_walk(*engine.HAND_WALKS["overwritten where gradients meet"]):
        assert planting.BACKWARD.backward_pass is not tape.backward_pass
    assert planting.BACKWARD.backward_pass is tape.backward_pass


@pytest.mark.parametrize("name", ["maximum", "softmax"])
def test_interpreted_kernels_give_what_compiled_ones_give(name, monkeypatch):
    compiled = engine.float_results(name, ties=True)
    for category in (Elementwise, Loop):
        monkeypatch.setattr(category, "_specialize", lambda *args: pytest.fail("a build was asked for"))
    with planting.interpreted():
        assert engine.alike(engine.float_results(name, ties=True), compiled)
        assert not engine.alike(engine.float_results(name, ties=False), compiled)
    assert any(isinstance(entry, np.ndarray) for entry in compiled)


def test_mistake_without_a_place_is_refused():
    with pytest.raises(LookupError, match="plant this mistake in another way"):
        planting.rule_with("exp", "grad_x", "not there", "")


# --- What becomes of them


def attempted(name: str, function: str, change: str) -> Tally:
    tally, op = Tally(), OPS[name]
    rule = next(f for f in planting.rules_of(planting.declaration(op)) if f.name == function)
    position, new = next((position, new) for what, position, new in planting.code_mistakes(rule) if what == change)
    plants = (partial(planting.planted_rule, op, f) for f in (rule, new, planting.unreached(rule, position)))
    engine.attempt(tally, function, change, name, *plants)
    return tally


def test_noticed_mistake_is_counted():
    assert attempted("mul", "grad_a", "g * b  ->  g").noticed == [("grad_a: g * b  ->  g", "refuted")]


def test_changes_are_left_out_with_a_reason(monkeypatch):
    without_shift = "x - amax(x.detach(), -1, keepdim=True)  ->  x"
    tally = attempted("softmax", "definition", without_shift)
    assert tally.left_out == [(f"definition: {without_shift}", "same numbers")]
    assert attempted("maximum", "grad_a", "g / 2  ->  g").left_out == [("grad_a: g / 2  ->  g", "at ties only")]
    assert attempted("power", "grad_a", "b - 1  ->  b").noticed == [("grad_a: b - 1  ->  b", "refuted")]
    monkeypatch.setitem(CALLS, "power", CALLS["power"][:1])  # without the calls in which the exponent is a number
    of_number = "g * (b * power(a, b - 1))  ->  g"
    assert attempted("power", "grad_a", of_number).left_out == [(f"grad_a: {of_number}", "never reached")]


def test_survivor_is_named(monkeypatch):
    """A checker that passes everything notices nothing: then every mistake that changes a number is a survivor."""
    monkeypatch.setattr(engine, "notices", lambda check: "")
    monkeypatch.setattr(engine, "why_not", lambda *args: "")
    tally = attempted("mul", "grad_a", "g * b  ->  g")
    assert tally.survivors == ["grad_a: g * b  ->  g"]
    assert "NOT NOTICED: grad_a: g" in tally.report()


@pytest.mark.slow
def test_a_lenient_checker_leaves_survivors(monkeypatch):
    for checker in ("passes", "passes_in_the_middle", "passes_larger"):
        monkeypatch.setattr(engine, checker, lambda *args: True)
    tables = engine.HAND_RULES, engine.HAND_KERNELS, engine.HAND_RULES | engine.HAND_MIDDLES, engine.HAND_LARGER
    assert len(engine.by_hand().survivors) == sum(map(len, tables))


def test_survivor_makes_the_command_fail(monkeypatch, capsys):
    for module in (engine, formulas, options):
        monkeypatch.setattr(module, "by_hand", lambda: Tally(noticed=[("it", "refuted")]))
    for module, name in ((engine, "rules"), (engine, "kernels"), (formulas, "mechanically")):
        monkeypatch.setattr(module, name, lambda one_in: Tally())
    monkeypatch.setattr("sys.argv", ["mutants"])
    assert command.main() == 0
    monkeypatch.setattr(engine, "kernels", lambda one_in: Tally(survivors=["a mistake"]))
    assert command.main() == 1
    assert "NOT NOTICED: a mistake" in capsys.readouterr().out


BY_HAND = [(partial(engine.by_hand, 1 if THOROUGH else 8), 10), (formulas.by_hand, 35)]  # how many at least


@pytest.mark.slow
@pytest.mark.parametrize(("make", "least"), BY_HAND, ids=["engine", "formulas"])
def test_mistakes_by_hand_are_noticed(make, least):
    tally = make()
    assert not tally.survivors
    assert len(tally.noticed) >= least


# How many at least are noticed; `python -m tests.mutants` tries one in five, and --all all.
BY_MACHINE = [(engine.rules, 10), (engine.kernels, 7), (formulas.mechanically, 4)]


@pytest.mark.one_in(3)
@pytest.mark.skipif(not THOROUGH, reason="takes long: .ci/whole tries them")
@pytest.mark.parametrize(("make", "least"), BY_MACHINE, ids=["rules", "kernels", "formulas"])
def test_sample_of_mechanical_mistakes_is_noticed(make, least):
    tally = make(one_in=93)
    assert not tally.survivors
    assert len(tally.noticed) >= least


@pytest.mark.one_in(8)
@pytest.mark.parametrize("mistake", formulas.WRONG_FORMS)
def test_a_wrong_closed_form_is_refuted_with_a_counterexample(mistake):
    entry, form = formulas.WRONG_FORMS[mistake]
    stage = next(stage for stage in formulas.stages() if entry in stage.closed)
    ill_typed = mistake == "target off by one"  # y_i + 1 may lie beyond the vocabulary
    said = "different ranges" if ill_typed else re.escape(text(entry)) + ": derived .* against "
    with pytest.raises(TypeError if ill_typed else Refuted, match=said):
        stage.passes_closed(entry, form)


# What drops eps, which stands in r alone; and a constant that no softmax sees: logits are compared as such.
ONLY_RUN = ("eps dropped", "(11) with a constant")


@pytest.mark.one_in(3)
@pytest.mark.parametrize("mistake", [w for w in formulas.WRONG_EQUATIONS if w not in ONLY_RUN])
def test_a_wrong_equation_is_refuted(mistake):
    """In its gradients, but for those that show when the program runs."""
    name, right = formulas.WRONG_EQUATIONS[mistake]
    stage = next(stage for stage in formulas.stages() if name in stage.forward.definitions)
    derived, changed = stage.derived_from(name, right)
    with pytest.raises(Refuted):
        stage.passes(derived, stage.closed, changed)


@pytest.mark.slow
def test_unchecked_derivation_leaves_survivors(monkeypatch):
    monkeypatch.setattr(formulas.eq17, "prove_forms", lambda program, closed: None)
    monkeypatch.setattr(formulas.program, "difference", lambda *args, **kwargs: 0.0)
    assert len(formulas.by_hand().survivors) == len(formulas.WRONG_FORMS) + len(formulas.WRONG_EQUATIONS)


# --- Lines of kernels


def about(name: str) -> list[int]:
    """The numbers of the changes to a function."""
    return [i for i, (function, *_) in enumerate(loops.mutants()) if function.__name__ == name]


@pytest.mark.slow
def test_changes_of_a_kernel_are_noticed():
    numbers = about("reduce_any")
    assert len(numbers) > 20
    assert all(how for _, how in map(loops.number_tried, numbers))


@pytest.mark.slow
def test_a_change_is_planted_and_taken_out():
    function, tree, *_ = loops.mutants()[about("reduce_any")[0]]
    before = function.__code__
    with loops.planted(function, ast.parse("def reduce_any(x, y, task, tasks):\n    pass").body[0]):
        assert function.__code__ is not before
        assert not loops.passes(function)
    assert function.__code__ is before
    with loops.planted(function, tree):
        assert loops.passes(function)


def test_endless_kernel_is_noticed(monkeypatch):
    monkeypatch.setattr(loops, "SECONDS", 0.5)
    function = next(function for function in loops.functions() if function.__name__ == "mean_of_counted")
    with loops.planted(function, ast.parse("def mean_of_counted(*args):\n    while True:\n        pass").body[0]):
        assert engine.notices(lambda: loops.passes(function)) == "Endless"


def test_dots_in_an_explanation_stand_for_any_text():
    first, second, other = "f: if rest:  ->  if True:", "f: if rest:  ->  if True: (2)", "g: 1  ->  2  in  y = x + 1"
    changes = [first, second, other]
    assert by_label({"why": {"f": ["if rest:  ->  if True:"]}}, changes) == {first: "why"}
    assert by_label({"why": {"f": ["if ...:  ->  if True:..."]}}, changes) == {first: "why", second: "why"}
    assert by_label({"why": {"...": ["1  ->  ...  in  ...x + 1"]}}, changes) == {other: "why"}
    assert by_label({"why": {"f": ["if ...most...:  ->  ..."]}}, changes).keys().isdisjoint(changes)
    with pytest.raises(ValueError, match="explained twice: 'why' and 'why not'"):
        by_label({"why": {"f": ["if rest..."]}, "why not": {"...": ["...  ->  if True:"]}}, changes)


@pytest.mark.slow
def test_an_explanation_is_about_every_change_that_it_fits(monkeypatch):
    numbers = about("first_nan")
    monkeypatch.setattr(loops, "mutants", lambda all=loops.mutants(): [all[i] for i in numbers])  # noqa: B008
    monkeypatch.setattr(loops, "EXPLAINED", {"it was": {"first_...": ["..."]}})
    monkeypatch.setattr(loops, "passes", lambda function: True)
    tally = loops.mechanically()
    assert len(tally.left_out) == len(numbers)
    assert not tally.survivors
    monkeypatch.setattr(loops, "passes", lambda function: False)
    assert len(loops.mechanically().survivors) == len(numbers)


@pytest.mark.slow
def test_every_explanation_of_a_kernel_mutant_fits_a_change():
    changes = {loops.label(function.__name__, what) for function, _, what, _, _ in loops.mutants()}
    assert sorted(by_label(loops.EXPLAINED, changes).keys() - changes) == []


@pytest.mark.slow
@pytest.mark.parametrize("part", modules.PARTS)
def test_every_explanation_of_a_module_mutant_fits_a_change(part):
    changes = {modules.label(key[1], what) for key, what, *_ in modules.mutants(part)}
    assert sorted(by_label(modules.PARTS[part].explained, changes).keys() - changes) == []


@pytest.mark.slow
def test_explanations_of_kernel_mutants_are_checked(monkeypatch):
    """What is not noticed survives unless it is explained; what is explained must not be noticed, and must be there."""
    numbers = about("first_nan")
    monkeypatch.setattr(loops, "mutants", lambda all=loops.mutants(): [all[i] for i in numbers])  # noqa: B008
    whats = [what for _, _, what, _, _ in loops.mutants()]
    monkeypatch.setattr(loops, "EXPLAINED", {"it was": {"first_nan": [whats[0], "gone"]}})
    message = "\n".join(loops.mechanically().survivors)
    assert f"{whats[0]}: it has an explanation, and was noticed" in message
    assert "gone: its explanation fits no change" in message
    monkeypatch.setattr(loops, "passes", lambda function: True)
    tally = loops.mechanically()
    assert tally.left_out == [(loops.label("first_nan", whats[0]), "it was")]
    assert set(tally.survivors) >= {loops.label("first_nan", what) for what in whats[1:]}


# --- Lines of modules


def change(function: str, what: str) -> tuple:
    """(key, place, what stands there instead) of a change to a function."""
    every = chain.from_iterable(map(modules.mutants, modules.PARTS))
    key, _, position, new = next(m for m in every if modules.label(m[0][1], m[1]) == f"{function}: {what}")
    return key, position, new


def test_a_change_to_a_module_is_planted_and_taken_out():
    x, z = Tensor.of(np.array([[1.0]])), Tensor.of(np.array([[3.0]]))
    step = nn.functional.pairwise_distance
    before = step(x, z).item()
    with modules.planted(*change("pairwise_distance", "x1 - x2 + eps  ->  x1 - x2 - eps")):
        assert step(x, z).item() > before
    assert step(x, z).item() == before


def test_change_may_remove_super_from_a_method():
    with modules.planted(*change("Linear.__init__", "super().__init__()  ->  pass")), pytest.raises(AttributeError):
        nn.Linear(2, 3)
    assert nn.Linear(2, 3).in_features == 2


@pytest.mark.slow
def test_a_change_is_tried_in_a_process_of_its_own(monkeypatch):
    monkeypatch.setattr(modules, "failure", lambda tests: tests[0]())
    key, position, new = change("pairwise_distance", "x1 - x2 + eps  ->  x1 - x2 - eps")
    x, z, left = Tensor.of(np.array([[1.0]])), Tensor.of(np.array([[3.0]])), []
    near = nn.functional.pairwise_distance(x, z).item()

    def test() -> str:
        return "wrong" if nn.functional.pairwise_distance(x, z).item() > near else ""

    assert modules.noticed_by([test], modules.planted(key, position, new)) == "wrong"
    assert modules.noticed_by([test], modules.planted(key, position, position)) == ""
    assert modules.noticed_by([lambda: left.append(1) or ""], nullcontext()) == "" and not left
    assert modules.noticed_by([lambda: os._exit(3)], nullcontext()) == "exit code 3"
    monkeypatch.setattr(modules, "PATIENCE", 0.1)
    assert modules.noticed_by([lambda: time.sleep(60)], nullcontext()) == "no end"
    assert test() == ""


def test_errors_are_no_place_for_changes():
    source = (
        "def f(n):\n    if n < 1:\n        raise ValueError(f'{n + 1}')\n    if n < 2:\n        n = 3\n    return n"
    )
    function = ast.parse(source).body[0]
    left = modules.refusals(function)
    messages = [what for what, position, _ in planting.changes_of_a_line(function) if id(position) not in left]
    assert "n < 2  ->  n > 2" in messages
    assert not any("n < 1" in what or "n + 1" in what for what in messages)


def test_tests_are_found_by_the_functions_they_call(monkeypatch):
    monkeypatch.setattr(modules, "failure", lambda tests, _=0: "" if tests[0]() else "wrong")
    makes, leaves = lambda: nn.Linear(1, 1), lambda: True
    results = {key[1]: tests for key, tests in modules.who_comes_where("modules", [makes, leaves]).items()}
    assert results["Linear.__init__"] == [makes]
    with pytest.raises(AssertionError, match="fails without a mistake"):
        modules.who_comes_where("modules", [lambda: False])
    with pytest.raises(AssertionError, match="wrong when the tests run again"):
        modules.who_comes_where("modules", [iter([True, False]).__next__])


def test_explanations_of_module_mutants_are_checked(monkeypatch):
    few = [m for m in modules.mutants("modules") if m[0][1] == "nll_loss"]
    one, other, *_ = (modules.label(key[1], what) for key, what, *_ in few)
    monkeypatch.setattr(modules, "mutants", lambda part: few)
    monkeypatch.setattr(modules, "with_tests", lambda part, work: work([]))
    monkeypatch.setattr(modules, "who_comes_where", lambda part, tests: {})
    explained = {"it was": {"nll_loss": [one.removeprefix("nll_loss: "), "gone"]}}
    monkeypatch.setitem(modules.PARTS, "modules", modules.PARTS["modules"]._replace(explained=explained))
    for noticed in (True, False):
        monkeypatch.setattr(modules, "failure", lambda tests: "")
        monkeypatch.setattr(modules, "noticed_by", lambda *_, n=noticed: "a test" if n else "")
        tally = modules.mechanically("modules")
        assert any("gone: its explanation fits no change" in message for message in tally.survivors)
        assert (
            any(f"{one}: it has an explanation, and was noticed" in message for message in tally.survivors) == noticed
        )
        assert (other in tally.survivors) != noticed
        assert ((one, "it was") in tally.left_out) != noticed


def test_nothing_is_left_planted():
    def planted() -> list:
        functions = (f for op in OPS.values() for f in (*op.rules.values(), op.backward, op.definition) if f)
        return [f for f in functions if f.__globals__ is not vars(sys.modules[f.__module__])]

    with planting.planted_rule(*planting.rule_with("exp", "grad_x", "g * y", "g")):
        assert len(planted()) == 1
    assert not planted()


def test_every_mistake_between_options_can_be_planted():
    """Only some of them are tried here; the line that another one changes may have been written anew."""
    for _, *change in options.HAND.values():
        with options.planted(*change):
            pass
    module, right, wrong = change
    with (
        pytest.raises(LookupError, match="plant this mistake in another way"),
        options.planted(module, "!" + right, wrong),
    ):
        pass
