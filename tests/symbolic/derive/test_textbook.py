"""Gradients are as short as a textbook's, and each shortening is proved; planted wrong laws are not."""

import pytest
from sympy import S

from tests.symbolic.derive.derived_functions import FORMS
from tests.symbolic.derive.second_functions import believe
from tests.symbolic.programs import call
from tinytensor.symbolic.derive import adjoints, shorter
from tinytensor.symbolic.index_calculus.functions import absolute, sigmoid


@pytest.mark.slow
def test_without_the_laws_formulas_are_longer(monkeypatch):
    names = ("logistic", "logistic_in_steps", "log-cosh", "Huber", "softsign", "3-norm")
    before = {name: len(str(call(*FORMS[name])())) for name in names}
    monkeypatch.setattr(adjoints, "shorten", lambda expr: expr)
    for name in names:
        assert len(str(call(*FORMS[name])())) > before[name], name


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("law", "name"),
    [(lambda y, x: -y, "logistic"), (lambda y, x: y, "logits"), (lambda y, x: S.Zero, "logistic_of_logarithms")],
)
def test_a_wrong_law_is_not_accepted(monkeypatch, law, name):
    monkeypatch.setitem(shorter.TURNED, sigmoid, law)
    assert_not_accepted(monkeypatch, name)


def assert_not_accepted(monkeypatch, name):
    """Right formulas are shown in the place of wrong ones, which a planted prover that accepts all would show."""
    assert call(*FORMS[name])()
    with monkeypatch.context() as patch:
        believe(patch)
        assert "does not match these formulas" in call(*FORMS[name])().verdict


@pytest.mark.slow
@pytest.mark.parametrize("name", ["3-norm", "Huber", "binary cross-entropy", "squared hinge"])
def test_a_wrong_form_is_not_accepted(monkeypatch, name):
    """Forms that are shorter, and wrong: a factor or a term is left out."""
    forms = shorter._forms

    def wrong(expr):
        yield from forms(expr)
        yield expr.func(*expr.args[1:]) if len(expr.args) > 2 else expr

    monkeypatch.setattr(shorter, "_forms", wrong)
    assert_not_accepted(monkeypatch, name)
    monkeypatch.setattr(shorter, "_forms", lambda expr: [absolute(a) for a in expr.args])
    assert_not_accepted(monkeypatch, name)
