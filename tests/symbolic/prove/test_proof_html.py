"""What a notebook shows of formulas, proofs and explanations: they are typeset there, and text everywhere else."""

import copy
import pickle
import re
import xml.etree.ElementTree as ET

import pytest
from IPython.core.formatters import DisplayFormatter

import tinytensor as tt
import tinytensor.nn.functional as F
from tinytensor.symbolic import latex, prove, symbols
from tinytensor.utils.display import latex as latex_to_mathml
from tinytensor.utils.display import notebook as shown
from tinytensor.viz import explain


@tt.op
class wrong_double:
    r"y = 2 x"

    def kernel(x):
        return x + x

    def grad_x(g, x):
        return g * x


def formulas(html: str) -> list[str]:
    """The text of each formula; parsing fails if the MathML is not well formed."""
    return ["".join(ET.fromstring(m).itertext()) for m in re.findall(r"<math.*?</math>", html, re.DOTALL)]


def cell(value) -> dict[str, str]:
    """What a notebook gets for the value of a cell."""
    return DisplayFormatter().format(value)[0]


@pytest.fixture
def without_latex2mathml(monkeypatch):
    def missing(*args):
        raise ModuleNotFoundError("latex2mathml")

    for module in (latex_to_mathml, shown):
        monkeypatch.setattr(module, "mathml", missing)


def test_latex_is_a_string_that_a_notebook_typesets():
    text = latex(symbols("x", 2, 2) / 3)
    assert (
        isinstance(text, str) and text == str(text) == f"{text}" and text.startswith(r"\begin{bmatrix} \frac{x_{0 0}}")
    )
    shows = cell(text)
    assert shows["text/plain"] == text and shows["text/latex"] == rf"$\displaystyle {text}$"
    assert formulas(shows["text/html"]) == ["[x003x013x103x113]"]
    assert pickle.loads(pickle.dumps(text)) == copy.copy(text) == text and type(text + "") is str


def test_latex_without_its_library_is_left_to_the_notebook(without_latex2mathml):
    shows = cell(latex(symbols("x", 2) * 2))
    assert "text/html" not in shows and shows["text/latex"].startswith(r"$\displaystyle \begin{bmatrix}")


def test_a_formula_that_is_not_read_is_left_to_the_notebook():
    assert shown.formula(r"\frac{1}{") is None and shown.Latex(r"\frac{1}{")._repr_html_() is None


def test_a_proof_shows_its_verdict_and_a_list():
    proof = prove(F.relu, (2, 2))
    shows = cell(proof)
    assert shows["text/plain"] == repr(proof)
    assert "<b>proved</b>: relu at input (2, 2): 4 entries" in shows["text/html"]
    assert shows["text/html"].endswith(f"<ul><li>{proof.assumptions[0]}</li></ul></div>")


def test_a_refuted_rule_shows_both_formulas():
    html = cell(prove(wrong_double, (2,)))["text/html"]
    assert "<b>refuted</b>: wrong_double at x (2,)" in html and "test_proof_html.py, line" in html
    assert "for its input x gives g_0*<i>x</i><sub>0</sub> at [0], but the derivative is 2*g_0" in html
    assert "on the tape, but difference quotients of the forward give" in html


def test_a_sampled_proof_shows_powers():
    sampled = prove(F.softmax, (2, 3), -1, size="real")
    shows = cell(sampled)
    assert shows["text/plain"] == repr(sampled) and "below 2<sup>−2" in shows["text/html"]


def test_names_are_escaped():
    def many(x):
        return x * 2

    many.__name__ = "<script>"
    assert "<script>" not in prove(many, (2,))._repr_html_() and "&lt;script&gt;" in prove(many, (2,))._repr_html_()


def test_an_explanation_typesets_equations_and_rules():
    a = tt.tensor(2.0, requires_grad=True)
    explanation = explain(F.silu(a) / a, {"a": a})
    shows = cell(explanation)
    html = shows["text/html"]
    assert shows["text/plain"] == str(explanation)
    assert re.findall(r"<p><b>(\d)\. #(\d) = (\w+)", html) == [("1", "2", "true_divide"), ("2", "1", "silu")]
    typeset_formulas = formulas(html)
    assert typeset_formulas[:2] == ["y=a/b", "∂L∂a=gb"] and "y=x/(1+e−x)" in typeset_formulas
    for line in str(explanation).splitlines():
        if line.startswith(("   why now", "   arrives")):  # nothing is left out
            assert line[13:].strip() in html


def test_an_explanation_without_its_library_is_text(without_latex2mathml, monkeypatch):
    def missing(*args):
        raise ModuleNotFoundError("latex2mathml")

    monkeypatch.setattr("tinytensor.viz.text.with_words", missing)
    a = tt.tensor(2.0, requires_grad=True)
    assert list(cell(explain(a * a, {"a": a}))) == ["text/plain"]
