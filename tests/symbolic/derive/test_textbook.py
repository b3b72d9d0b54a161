"""Gradients are as short as a textbook's, and each shortening is proved; planted wrong laws are not."""

import re

import pytest
from sympy import S

import tinytensor as tt
from tests.symbolic.derive.second_functions import believe
from tests.symbolic.derive.textbook import FORMS, LINEAR, logistic
from tests.tools.sampling_rate import some
from tinytensor.symbolic import derive
from tinytensor.symbolic.derive import adjoints, shorter
from tinytensor.symbolic.index_calculus.functions import absolute, sigmoid

TERM = r"∂𝓛/∂\w+(?:\[[^]]*\])?|Σ_\w+|√|δ\([^)]*\)|\w+(?:\[[^]]*\])?|𝓛"


def terms(text: str) -> int:
    """The names, numbers, functions and sums of a formula; the 1 above a line is none."""
    return len(re.findall(TERM, re.sub(r"(?<![\w.])1/", "", text)))


def name_of(left: str) -> str:
    """The name in ∂𝓛/∂A_ni or ∂𝓛/∂A[n, 1]."""
    return re.split(r"[_\[]", left.removeprefix("∂𝓛/∂"))[0]


def lines_of(derivation, name: str, whole: bool) -> list[str]:
    """The line of a gradient, and those of the gradients in it, which are put in where they stand."""
    lines = dict(str(one).split(" = ", 1) for one in derivation.adjoints)
    by_name = {name_of(left): right for left, right in lines.items()}
    used = [name]
    for one in used:
        inner = {name_of(m) for m in re.findall(r"∂𝓛/∂\w+(?:\[[^]]*\])?", by_name[one])} if whole else set()
        used += [m for m in inner if m in by_name and m not in used]
    return [by_name[one] for one in used]


def count(derivation, form) -> int:
    lines = lines_of(derivation, form.name, form.whole)
    return sum(map(terms, lines)) - (len(lines) - 1)


def test_terms_are_counted():
    assert terms("(σ(A_n) - y_n)/N") == 4
    assert terms("σ(A_n) (1 - y_n) - y_n σ(-A_n)") == 7
    assert terms("1/√d Σ_i Q_id ∂𝓛/∂S[i, t]") == 5
    assert terms("2 [x_n > 0] |δ(i, t_n)| 𝓛²") == 5


@pytest.mark.parametrize("name", list(some(FORMS, 4)))
def test_no_more_terms_than_in_a_textbook(name):
    form = FORMS[name]
    derivation = derive(form.function, **form.arguments)
    assert derivation, derivation.verdict
    assert count(derivation, form) <= terms(form.textbook), str(derivation)


def test_without_the_laws_there_are_more_terms(monkeypatch):
    """The control: the same table, with formulas that are not shortened."""
    monkeypatch.setattr(adjoints, "shorten", lambda expr: expr)
    for name in ("logistic regression", "logistic regression in steps", "log-cosh", "Huber", "softsign", "3-norm"):
        form = FORMS[name]
        assert count(derive(form.function, **form.arguments), form) > terms(form.textbook), name


@pytest.mark.parametrize(
    ("law", "name"),
    [
        (lambda y, x: -y, "logistic regression"),
        (lambda y, x: y, "logits"),
        (lambda y, x: S.Zero, "logistic regression of logarithms"),
    ],
)
def test_a_wrong_law_is_not_accepted(monkeypatch, law, name):
    monkeypatch.setitem(shorter.TURNED, sigmoid, law)
    assert_not_accepted(monkeypatch, FORMS[name])


def assert_not_accepted(monkeypatch, form):
    """Right formulas are shown in the place of wrong ones, which a planted prover that accepts all would show."""
    assert derive(form.function, **form.arguments)
    with monkeypatch.context() as patch:
        believe(patch)
        assert "does not match these formulas" in derive(form.function, **form.arguments).verdict


@pytest.mark.parametrize("name", ["3-norm", "Huber", "binary cross-entropy", "squared hinge"])
def test_a_wrong_form_is_not_accepted(monkeypatch, name):
    """Forms that are shorter, and wrong: a factor or a term is left out."""
    forms = shorter._forms

    def wrong(expr):
        yield from forms(expr)
        yield expr.func(*expr.args[1:]) if len(expr.args) > 2 else expr

    monkeypatch.setattr(shorter, "_forms", wrong)
    assert_not_accepted(monkeypatch, FORMS[name])
    monkeypatch.setattr(shorter, "_forms", lambda expr: [absolute(a) for a in expr.args])
    assert_not_accepted(monkeypatch, FORMS[name])


def test_tensors_have_the_names_of_the_users_code():
    def network(X, W, V):
        h = (X @ W).relu()
        A = h @ V
        s = A.sum(-1)
        return (s * s).mean()

    derivation = derive(network, X=("N", "D"), W=("D", "H"), V=("H", "K"))
    lines = [str(one).split(" = ") for one in derivation.lines]
    assert [left for left, _ in lines][1:4] == ["h_nh", "A_ni", "s_n"]
    assert lines[2][1] == "Σ_h h_nh V_hi"
    assert name_of(lines[0][0]) == "A2"  # X @ W, which the code does not name


def test_default_names_are_used_where_the_users_tensor_has_no_line():
    def attend(Q, K):
        S = Q @ K.T + 1
        S = S.masked_fill(tt.ones(S.shape[0], S.shape[0], dtype=tt.bool).triu(1), -tt.inf)
        return S.softmax(-1)

    assert str(derive(attend, Q=("T", "d"), K=("T", "d")).lines[0]) == "S_ti = 1 + Σ_d Q_td K_id"


def test_logistic_regression_is_that_of_a_textbook():
    derivation = derive(logistic, **LINEAR)
    assert "∂𝓛/∂A_n = (σ(A_n) - y_n)/N" in str(derivation)
    assert derivation.verdict == "proved for any size"
