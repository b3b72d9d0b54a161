"""Each function of the tables: its gradients beside backward() and differences, its program, its formulas in print.

That each is proved, and that each gradient by hand is proved or refuted by its term, is what collection.json says.
"""

import re
from collections.abc import Callable, Iterator

import numpy as np
import pytest

import tinytensor as tt
from tests.symbolic.collection import FILE, cases, derivation_of, read
from tests.tools.sampling_rate import some
from tinytensor.symbolic.derive.derivation import Derivation
from tinytensor.symbolic.derive.precision import double_precision
from tinytensor.symbolic.derive.results import Result
from tinytensor.symbolic.derive.samples import Sample
from tinytensor.symbolic.derive.source import MODULES, evaluate_at
from tinytensor.symbolic.index_calculus.formulas import name_of
from tinytensor.symbolic.index_calculus.functions import detach
from tinytensor.symbolic.index_calculus.linear_algebra import OfMatrix
from tinytensor.symbolic.index_calculus.matrices import Matrices
from tinytensor.symbolic.index_calculus.numpy_printer import helpers
from tinytensor.utils.display.notebook import formula

CASES, FROZEN = cases(), read(FILE)
TEXTS = {name for name, entry in FROZEN.items() if entry["text"] and not name.startswith(("tricks", "backward"))}
DERIVED = [name for name, case in CASES.items() if not case.by_hand and name in TEXTS]
STEP = 1e-6


def points(d: Derivation) -> list[Sample]:
    """Three points of different sizes at which the function has a derivative, and is no cliff, which a step cuts."""
    inside = [s for s in d.samples if d.inside(s) and not s.edges and not s.far]
    inside = [s for s in inside if all(np.abs(g).max(initial=0) < 1e3 for g in s.gradients.values())]
    return inside[:: max(1, len(inside) // 3)][:3]


def floats(sample: Sample) -> dict[str, np.ndarray]:
    """The arguments of a point that have a derivative."""
    tensors = {n: x for n, x in sample.inputs.items() if isinstance(x, tt.Tensor)}
    return {n: x.detach().numpy() for n, x in tensors.items() if x.requires_grad}


def values_at(d: Derivation, sample: Sample, moved: dict) -> tuple[tt.Tensor, dict[str, tt.Tensor]]:
    """The function's result at a point with other numbers, and these as leaves."""
    leaves = {n: tt.tensor(x, requires_grad=True) for n, x in moved.items()}
    with double_precision(), np.errstate(all="ignore"):
        return d.fn(**sample.inputs | leaves), leaves


def directions(d: Derivation, sample: Sample, rng) -> Iterator[tuple[str, np.ndarray]]:
    """A direction for each argument; a symmetric one where the argument is known to be symmetric."""
    for name, x in floats(sample).items():
        direction = rng.normal(size=x.shape)
        what = d.derived.trace.tensors[name].what
        yield name, (direction + direction.T) / 2 if what else direction


@pytest.mark.parametrize("name", list(some(DERIVED, 40)))
def test_gradients_are_those_of_backward_and_of_differences(name):
    d, _ = derivation_of(CASES[name].make)
    d = d.derivation
    held = any(line.right.has(detach) for line in d.derived.forward)
    for seed, sample in enumerate(points(d)):
        rng, x = np.random.default_rng(seed), floats(sample)
        result, leaves = values_at(d, sample, x)
        upstream = rng.normal(size=tuple(result.shape)) if result.ndim else np.ones(())
        if result.requires_grad:
            (result * tt.tensor(upstream)).sum().backward()
        computed = evaluate_at(d._program, sample, **({"upstream": upstream} if result.ndim else {}))
        np.testing.assert_allclose(computed["value"], result.detach().numpy(), rtol=1e-9, atol=1e-9)
        for n, direction in directions(d, sample, rng):
            backward = np.zeros(x[n].shape) if leaves[n].grad is None else leaves[n].grad.numpy()
            np.testing.assert_allclose(computed[n], backward, rtol=1e-7, atol=1e-8 * (1 + np.abs(backward).max()))
            if held:  # what detach() holds constant moves in a difference
                continue
            ends = [values_at(d, sample, x | {n: x[n] + h * direction})[0].detach().numpy() for h in (STEP, -STEP)]
            difference = ((ends[0] - ends[1]) * upstream).sum() / (2 * STEP)
            size = np.abs(computed[n] * direction).sum() + np.abs(result.detach().numpy() * upstream).sum()
            assert abs(difference - (computed[n] * direction).sum()) < 1e-5 * (1 + size), n


@pytest.mark.parametrize("name", list(some(DERIVED, 40)))
def test_program_imports_numpy_alone_and_the_page_is_typeset(name):
    result, _ = derivation_of(CASES[name].make)
    assert set(re.findall(r"^import (\w+)", result.source(), re.M)) <= {"numpy", *MODULES}
    assert "\\begin{aligned}" in result.latex()
    for line in (*result.lines, *(line for group in result.groups for line in group), *result.matrix()):
        assert formula(line.latex()), line.latex()
    assert "<table>" in result._repr_html_()


def differing_forms(result: Result, change: Callable[[str], str] = lambda code: code) -> set[str]:
    """The lines of whose values the code of their matrix form, changed, has others."""
    program, rng, lines, parts = result._program, np.random.default_rng(0), {}, ""
    for x in (form.line for form in result.matrix()):
        if name_of(x.left) in {line.name for line in program.lines} and not x.right.has(OfMatrix):
            code = Matrices(result.names, result.short_names, program.printer).form(x.left, x.right).code
            parts += f'"form of {x}": {change(code)}, "{x}": {program.identifier(name_of(x.left))}, '
            lines[str(x)] = f"form of {x}"
    space = {"np": np}
    exec("\n".join([*helpers(parts), program.text().replace("    return {", f"    return {{{parts}", 1)]), space)
    program.function, differing = space["value_and_gradients"], set()
    for sample in points(result.derivation):
        along = {n: rng.normal(size=sample.inputs[n].shape) for n in result.directions}
        along = {program.identifier(result.directions[n]): x for n, x in along.items()}
        if (values := evaluate_at(program, sample, **along)) is None:
            return {"the shapes do not fit"}
        for line, form in lines.items():
            ours, wanted = values[form].ravel(), values[line].ravel()
            if ours.size not in (1, wanted.size) or not np.allclose(ours, wanted, 1e-9, 1e-12):
                differing.add(line)
    return differing


@pytest.mark.parametrize("name", list(some(DERIVED, 40)))
def test_matrix_forms_have_the_values_of_the_lines(name):
    assert differing_forms(CASES[name].make()) == set()


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("right", "wrong"), [(".T", ""), ("-", "+"), ("np.ones", "2 * np.ones")])
def test_a_wrong_matrix_form_is_noticed(right, wrong):
    assert differing_forms(CASES["functions: layer norm"].make(), lambda code: code.replace(right, wrong))
