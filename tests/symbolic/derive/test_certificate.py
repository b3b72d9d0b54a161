"""The text of a certificate: the printed formulas as terms of Coq, with the same values, and what is refused."""

import re
import runpy
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from mpmath import iv

import tinytensor as tt
import tinytensor.nn.functional as F
from derivations.proofs import coq
from tests.symbolic.derive.derived_functions import arrays
from tests.symbolic.derive.reviewed import REVIEW
from tests.symbolic.programs import call
from tests.tools.coq import certified, printed
from tests.tools.sampling_rate import some
from tinytensor.symbolic import Index, NotCertifiable, derive, positive_definite, symmetric
from tinytensor.symbolic.certificates.certificate import OPENING
from tinytensor.symbolic.certificates.certify import refusals
from tinytensor.symbolic.certificates.statements import Definitions

XY = {"x": ("N",), "y": ("N",)}


def many(x, y):
    """A function with most rows of the table of functions."""
    corners = tt.maximum(x, y) + x.abs() + y.relu() + F.elu(y)
    exponentials = x.exp() + x.sigmoid() * y.tanh() + F.softplus(x)
    arcs = x.asin() + x.acos() + y.atan() + y.asinh() + x.sin() * y.cos() + tt.sinc(x)
    return (F.gelu(x) + x.erf() + (1 + x * x).log() + (1 + y * y).sqrt() + corners + exponentials + arcs).sum()


FUNCTIONS = {
    **{function.__name__: (function, arguments) for function, arguments in coq.FUNCTIONS.items()},
    "mask": (lambda x: (x.tril() ** 2).sum(), {"x": ("N", "N")}),
    "diagonal": (lambda x: x.diagonal().log().sum(), {"x": ("N", "N")}),
    "shifted": (lambda x: (x[1:] / x[:-1]).mean(), {"x": ("N",)}),
    "sums that may be empty": (lambda x: x[1:].logsumexp(0) + (x[1:] ** 2 + 1).sum().sqrt(), {"x": ("N",)}),
    "a sum that may be empty in a denominator": (lambda x: 1 / (x[1:] ** 2 + 1).sum(), {"x": ("N",)}),
    "pieces of four dimensions": (lambda x: x[1:, 0].exp().sum() + x[:, :, 0].sin().sum(), {"x": ("A", "B", "C", "D")}),
    "table": (lambda x, t: x[t].tanh(), {"x": ("V", "D"), "t": Index(("N",), "V")}),
    "norm": (lambda x: x / (x**2).sum(-1, keepdim=True).sqrt(), {"x": ("N", "D")}),
    "many functions": (many, XY),
    "corners": (lambda x, y: F.huber_loss(x, y), XY),
    "exponentials": (lambda x: (x.sinh() * x.cosh()).sum(), {"x": ("N",)}),
    "whole numbers": (lambda x, t: (x * (t + 1)).sum(), {"x": ("N",), "t": Index(("N",), "K")}),
    "an argument that is not used": (lambda x, y: (y * y).sum(), XY),
    "gate": (lambda x, m: F.silu(x) * m - x.abs() + F.softplus(-x), {"x": ("N",), "m": ()}),
    "shares whose sum is 1": (lambda x: (x.exp() / x.exp().sum()).sum(), {"x": ("N",)}),
    "a logarithm of a multiple": (lambda x: (x * (2 * x).log()).sum(), {"x": ("N",)}),
    "numbers before zeros": (
        lambda x: (x * F.pad(tt.ones(3), (0, len(x) - 3)) * x.exp()).sum(),
        {"x": ("N",), "where": "N > 3"},
    ),
}


def values(text: str, names: dict) -> dict:
    """The value of each definition, a function of its indices if it has some: what `certify` computes."""
    known = {name: partial(entry, np.asarray(x)) if np.ndim(x) else entry(np.asarray(x)) for name, x in names.items()}
    defined = re.findall(r"^Definition (\w+)", text, re.M)
    every = Definitions(
        dict(zip(defined, printed(text, [f"Print certificate.{name}" for name in defined]), strict=True))
    )
    for name in defined:
        parameters, value = every[f"certificate.{name}"]
        held = [known[p] for p in parameters if p in names]
        known[name] = partial(value, *held) if len(held) < len(parameters) else value(*held)
    return known


def entry(x: np.ndarray, *at: int):
    return int(x[at]) if np.issubdtype(x.dtype, np.integer) else iv.mpf(x[at].item())


def numbers_of(value, shape) -> np.ndarray:
    """The entries of a definition."""
    entries = [float(value(*at).mid if shape else value.mid) for at in np.ndindex(*shape)]
    return np.reshape(entries, shape)


@pytest.mark.slow
@pytest.mark.parametrize("name", list(some(["layer_norm", "softmax_cross_entropy", "two_layers", "gate"], 2)))
def test_formulas_have_the_values_of_the_function(name):
    """The definitions of a certificate, read by a reader of their own, give the value and the gradients."""
    function, arguments = FUNCTIONS[name]
    derivation, numbers = derive(function, **arguments), (3, 4, 2, 5)
    inputs = {n: tt.tensor(x, requires_grad=x.dtype.kind == "f") for n, x in arrays(derivation, numbers).items()}
    result = function(**inputs)
    upstream = np.random.default_rng(0).normal(size=result.shape) if result.ndim else np.ones(())
    (result * tt.tensor(upstream)).sum().backward()
    text, sizes = derivation.certificate(), dict(zip(map(str, derivation.derived.trace.sizes), numbers))
    names = {n: x.detach().numpy() for n, x in inputs.items()} | {n + "_" * (n == "O"): k for n, k in sizes.items()}
    names |= {"dY": upstream} if result.ndim else {}
    known = values(text, names)
    values_of = numbers_of(known["Y" if result.ndim else "loss"], result.shape)
    np.testing.assert_allclose(values_of, result.detach().numpy(), rtol=1e-10)
    for n, x in inputs.items():
        if x.grad is not None:
            np.testing.assert_allclose(numbers_of(known[f"d{n}"], x.shape), x.grad.numpy(), rtol=1e-9, atol=1e-12)


READINGS = {
    "(Σ k < N, x k) ^ 2 - 2 * x 2%nat": 5,
    "- x 1%nat ^ 2 / (1 + 1)": -0.5,
    "1 - 1 - 1 + exp (x 0%nat) * INR N": 2,
    "INR (0 - N + 2) * PI - 2 * PI": 0,
    "larger (x 1%nat) (x 2%nat) - Rabs (- x 2%nat) + theta (x 0%nat - 1 / 2)": 0,
    "sigmoid (x 0%nat) * softplus (ln (x 1%nat)) / ln 2": 0.5,
    "same (x 0%nat) + same (x 1%nat) + sqrt (x 2%nat + 2)": 3,
    "Rpower (x 2%nat) (1 / 2) * sin (asin (/ 2)) * sqrt 2": 1,
    "density (x 0%nat) * sqrt (2 * PI) + upto 1 2 + delta 1 2": 2,
}


def test_formulas_are_read_as_coq_reads_them():
    opening = "\n".join(f"{sentence}." for sentence in OPENING)
    terms = printed(opening, [f"Check (fun (N : nat) (x : nat -> R) => {formula})" for formula in READINGS])
    known = Definitions(dict(zip(map("a{}".format, range(len(terms))), terms)))
    for (_, value), number in zip(known.values(), READINGS.values(), strict=True):
        assert number in value(3, iv.mpf) and value(3, iv.mpf).delta < 1e-11


@pytest.mark.slow
def test_each_line_is_a_definition_under_its_printed_formula():
    derivation = derive(*[FUNCTIONS["layer_norm"][0]], **FUNCTIONS["layer_norm"][1])
    text = derivation.certificate()
    for line in (*derivation.lines, *derivation.adjoints):
        assert f"(* {line} *)\nDefinition " in text
    assert re.findall(r"^Theorem (\w+)", text, re.M) == [f"gradient_of_{n}" for n in "xwb"]


@pytest.mark.slow
@pytest.mark.parametrize("name", list(some(FUNCTIONS, 6)))
def test_text_is_the_same_again(name):
    make = call(*FUNCTIONS[name])
    assert make().certificate() == make().certificate()


REVIEWED = [
    *("rotary_from_positions", "mean of every other entry", "exponent that is a size", "bytes that go up and down"),
    *("zero-inflated Poisson", "index of dispersion", "jump of wing's loss", "mask with a scale", "power mean"),
]
ACCEPTED = {name: row for name, row in FUNCTIONS.items() if name not in [f.__name__ for f in coq.FUNCTIONS]}
ACCEPTED |= {name: REVIEW[name] for name in REVIEWED}


@pytest.mark.slow
@pytest.mark.parametrize("name", ACCEPTED)
def test_certificate_is_accepted(name):
    result = certified(call(*ACCEPTED[name])().certificate())
    assert result, str(result)


@pytest.mark.parametrize(
    ("function", "arguments", "why"),
    [
        (lambda x: x.max(), {"x": ("N",)}, "the places of the largest entries are data"),
        (lambda x: (x * x.detach()).sum(), {"x": ("N",)}, "detach"),
        (lambda x: (x - x.floor()).sum(), {"x": ("N",)}, "floored"),
        (lambda x: (x * x).sum(), {"x": ("A", "B", "C", "D", "E")}, "x has more than the 4 indices"),
        (lambda A, x: x @ A @ x, {"where": symmetric("A"), "A": ("N", "N"), "x": ("N",)}, "that A is symmetric"),
        (lambda x: x.flatten().sum() if x.shape[0] > 3 else x.mean(), {"x": ("N",)}, "is proved only for"),
        (
            lambda S: tt.linalg.cholesky(S),
            {"where": positive_definite("S"), "S": ("D", "D")},
            "MatrixEntry is not among",
        ),
    ],
)
def test_what_no_certificate_can_hold_is_refused(function, arguments, why):
    with pytest.raises(NotCertifiable, match=why):
        derive(function, **arguments).certificate()


def test_page_shows_what_is_written(tmp_path, monkeypatch, capsys):
    """Each line of Coq on the guide's page stands in the certificate that its program prints, in this order."""
    page = (Path(__file__).parents[3] / "examples" / "guide" / "certificates.md").read_text()
    monkeypatch.chdir(tmp_path)
    (program,) = re.findall(r"```py\n(.*?)```", page, re.DOTALL)
    Path("program.py").write_text(program)
    runpy.run_path("program.py")
    text = capsys.readouterr().out
    assert (tmp_path / "log_sum_exp.v").read_text() + "\n" == text
    blocks = re.findall(r"```coq\n(.*?)```", page, re.DOTALL)
    assert len(blocks) == 6 and [block for block in blocks if block not in text] == []


def test_names_of_coq_are_no_names_of_a_certificate():
    def function(R, exp, nat):
        return (R * exp + nat).sum()

    text = derive(function, R=("N",), exp=("N",), nat=("N",)).certificate()
    assert "Variable R_ : nat -> R." in text and "Variable exp_ :" in text and "Variable nat_ :" in text


def test_letters_that_look_like_others_are_no_letters_of_a_certificate():
    def function(α, λ, ж):
        return (α * λ * ж).sum()

    text = derive(function, α=("Ν",), λ=("Ν",), ж=("Ν",)).certificate()
    assert "\nVariable alpha : nat -> R.\nVariable λ : nat -> R.\nVariable zhe : nat -> R.\n" in text
    assert refusals(text) == []
