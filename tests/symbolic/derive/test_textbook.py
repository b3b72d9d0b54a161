"""Gradients are as short as a textbook's, and each shortening is proved; planted wrong laws are not."""

from functools import partial

import pytest
from sympy import S

from examples.gradients.functions import focal
from tests.symbolic.derive.derived_functions import FORMS
from tests.symbolic.derive.second_functions import LAYERS, believe, mlp, plant_factor
from tests.symbolic.programs import call
from tinytensor.symbolic import Index, derive, gauss_newton, hvp, jvp
from tinytensor.symbolic.derive import adjoints, forward_mode, shorter
from tinytensor.symbolic.index_calculus.adjoints import Definition
from tinytensor.symbolic.index_calculus.functions import absolute, sigmoid


@pytest.mark.slow
def test_without_the_laws_formulas_are_longer(monkeypatch):
    names = ("logistic", "logistic_in_steps", "log-cosh", "Huber", "softsign", "3-norm")
    before = {name: len(str(call(*FORMS[name])())) for name in names}
    monkeypatch.setattr(adjoints, "shorten", lambda expr: expr)
    for name in names:
        assert len(str(call(*FORMS[name])())) > before[name], name


def law(wrong):
    return lambda patch: patch.setitem(shorter.TURNED, sigmoid, wrong)


def without_a_part(patch):
    """Forms that are shorter, and wrong: a factor or a term is left out."""
    forms = shorter._forms

    def wrong(expr):
        yield from forms(expr)
        yield expr.func(*expr.args[1:]) if len(expr.args) > 2 else expr

    patch.setattr(shorter, "_forms", wrong)


def absolute_parts(patch):
    patch.setattr(shorter, "_forms", lambda expr: [absolute(a) for a in expr.args])


def negated_adjoints(patch):
    rewrite = adjoints._rewrite
    negated = lambda lines: {n: Definition(x.left, -x.right) for n, x in lines.items()}  # noqa: E731
    patch.setattr(adjoints, "_rewrite", lambda *args: map(negated, rewrite(*args)))


def negated_deltas(patch):
    contracted = forward_mode.contracted
    patch.setattr(forward_mode, "contracted", lambda expr: -contracted(expr))


SIMPLE = ["3-norm", "Huber", "binary cross-entropy", "squared hinge"]
PLANTED = [  # a mistake, and a derivation that would show it
    (law(lambda y, x: -y), call(*FORMS["logistic"])),
    (law(lambda y, x: y), call(*FORMS["logits"])),
    (law(lambda y, x: S.Zero), call(*FORMS["logistic_of_logarithms"])),
    (negated_adjoints, partial(derive, focal, z=("N", "K"), t=Index(("N",), "K"))),
    (negated_deltas, partial(derive, lambda x: x.softmax(-1), jacobian=True, x=("N",))),
    (plant_factor, partial(derive, lambda x: (x**3).sum(), order=2, x=("N",))),
    (plant_factor, partial(hvp, lambda x: x.norm(), x=("N",))),
    (plant_factor, partial(jvp, lambda x: x.softmax(-1), x=("N", "D"))),
    (plant_factor, partial(gauss_newton, mlp, "A2", wrt=("W", "V"), **LAYERS)),
    *((mistake, call(*FORMS[name])) for name in SIMPLE for mistake in (without_a_part, absolute_parts)),
]


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("mistake", "make"), PLANTED)
def test_a_wrong_form_is_not_shown_and_noticed_by_numbers(mistake, make, monkeypatch):
    """Right lines are shown, perhaps longer ones; a planted prover that accepts each form is refuted."""
    right = str(make())
    mistake(monkeypatch)
    shown = make()
    assert shown.proved and len(str(shown)) >= len(right)
    believe(monkeypatch)
    assert "does not match" in make().verdict
