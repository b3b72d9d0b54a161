"""The text of a certificate: the printed formulas as terms of Coq, with the same values, and what is refused."""

import math
import re
import runpy
from pathlib import Path

import numpy as np
import pytest

import tinytensor as tt
import tinytensor.nn.functional as F
from derivations.proofs import coq
from tests.tools.coq import certified
from tests.tools.sampling_rate import some
from tinytensor.symbolic import Index, NotCertifiable, derive

XY = {"x": ("N",), "y": ("N",)}


def many(x, y):
    """A function with most rows of the table of functions."""
    corners = tt.maximum(x, y) + x.abs() + y.relu() + F.elu(y)
    exponentials = x.exp() + x.sigmoid() * y.tanh() + F.softplus(x)
    arcs = x.asin() + x.acos() + y.atan() + y.asinh() + x.sin() * y.cos()
    return (F.gelu(x) + x.erf() + (1 + x * x).log() + (1 + y * y).sqrt() + corners + exponentials + arcs).sum()


FUNCTIONS = {
    **{function.__name__: (function, arguments) for function, arguments in coq.FUNCTIONS.items()},
    "mask": (lambda x: (x.tril() ** 2).sum(), {"x": ("N", "N")}),
    "diagonal": (lambda x: x.diagonal().log().sum(), {"x": ("N", "N")}),
    "shifted": (lambda x: (x[1:] / x[:-1]).mean(), {"x": ("N",)}),
    "table": (lambda x, t: x[t].tanh(), {"x": ("V", "D"), "t": Index(("N",), "V")}),
    "norm": (lambda x: x / (x**2).sum(-1, keepdim=True).sqrt(), {"x": ("N", "D")}),
    "many functions": (many, XY),
    "corners": (lambda x, y: F.huber_loss(x, y), XY),
    "exponentials": (lambda x: (x.sinh() * x.cosh()).sum(), {"x": ("N",)}),
    "gate": (lambda x, m: F.silu(x) * m - x.abs() + F.softplus(-x), {"x": ("N",), "m": ()}),
}


def certificate(name: str) -> str:
    function, arguments = FUNCTIONS[name]
    return derive(function, **arguments).certificate()


def definitions(text: str) -> dict[str, tuple[list[str], str]]:
    """The indices and the formula of each definition."""
    matches = re.findall(r"^Definition (\S+)(?: \(([^:]*) : nat\))? : R := (.*)\.$", text, re.M)
    return {name: (indices.split(), formula) for name, indices, formula in matches}


# ---- a reader of the formulas in a certificate: Python's numbers for what Coq would say -----------------------------

TOKEN = re.compile(r"\s*([\w'][\w']*|[-+*/^(),<])")
CALLS = {
    "INR": float,
    "exp": math.exp,
    "ln": math.log,
    "sqrt": math.sqrt,
    "tanh": math.tanh,
    "sigmoid": lambda x: 1 / (1 + math.exp(-x)),
    "softplus": lambda x: math.log1p(math.exp(x)),
    "relu": lambda x: max(x, 0.0),
    "theta": lambda x: float(x > 0),
    "sign": lambda x: float(x > 0) - float(x < 0),
    "Rabs": abs,
    "delta": lambda i, j: float(i == j),
    "upto": lambda i, j: float(i <= j),
}


class Value:
    """Reads a formula of Coq and computes it: sums from 0 to n - 1, products before sums, application first."""

    def __init__(self, formula: str, names: dict):
        self.tokens, self.at, self.names = TOKEN.findall(formula), 0, dict(names)

    def next(self, *expected: str) -> str:
        token = self.tokens[self.at]
        assert not expected or token in expected, (token, expected)
        self.at += 1
        return token

    def looks(self, *tokens: str) -> bool:
        return self.at < len(self.tokens) and self.tokens[self.at] in tokens

    def sum(self):
        result = self.product()
        while self.looks("+", "-"):
            result = result + self.product() if self.next() == "+" else result - self.product()
        return result

    def product(self):
        result = self.negated()
        while self.looks("*", "/"):
            result = result * self.negated() if self.next() == "*" else result / self.negated()
        return result

    def negated(self):
        if self.looks("-"):
            self.next()
            return -self.negated()
        base = self.application()
        if self.looks("^"):
            self.next()
            return base ** int(self.next())
        return base

    def application(self):
        head = self.atom()
        if not callable(head) and not isinstance(head, np.ndarray):
            return head
        arguments = []
        while self.at < len(self.tokens) and not self.looks(*"+-*/^),<"):
            arguments.append(self.atom())
        if isinstance(head, np.ndarray):
            return head[tuple(arguments)] if arguments else head
        return head(*arguments)

    def atom(self):
        token = self.next()
        if token == "(" and self.looks("Σ"):
            return self.total()
        if token == "(":
            result = self.sum()
            self.next(")")
            return result
        return int(token) if token.isdigit() else self.names.get(token, CALLS.get(token))

    def total(self):
        self.next("Σ")
        index, _, size, _ = self.next(), self.next("<"), self.next(), self.next(",")
        start, outside, result = self.at, dict(self.names), 0.0
        for n in range(self.names[size]):
            self.at, self.names = start, {**outside, index: n}
            result += self.sum()
        self.names = outside
        self.next(")")
        return result


def values(text: str, names: dict, shapes: dict) -> dict:
    """The value of each definition, one after the other."""
    known = dict(names)
    for name, (indices, formula) in definitions(text).items():
        if not indices:
            known[name] = Value(formula, known).sum()
            continue
        array = np.empty(shapes(name))
        for at in np.ndindex(array.shape):
            array[at] = Value(formula, {**known, **dict(zip(indices, at, strict=True))}).sum()
        known[name] = array
    return known


@pytest.mark.slow
@pytest.mark.parametrize("name", list(some(["layer_norm", "softmax_cross_entropy", "two_layers", "gate"], 2)))
def test_formulas_have_the_values_of_the_function(name):
    """The definitions of a certificate, read by a reader of their own, give the value and the gradients."""
    function, arguments = FUNCTIONS[name]
    numbers = dict(zip(sorted({s for a in arguments.values() for s in getattr(a, "shape", a)}), (3, 4, 2, 5)))
    rng, inputs = np.random.default_rng(0), {}
    for n, shape in arguments.items():
        if isinstance(shape, Index):
            inputs[n] = tt.tensor(rng.integers(0, numbers[shape.below], [numbers[s] for s in shape.shape]))
        else:
            inputs[n] = tt.tensor(rng.normal(size=[numbers[s] for s in shape]), requires_grad=True)
    result = function(**inputs)
    upstream = rng.normal(size=result.shape) if result.ndim else np.ones(())
    (result * tt.tensor(upstream)).sum().backward()
    text = certificate(name)
    derivation = derive(function, **arguments)
    sizes_of = {
        str(line.left.base.label): line.left.base.sizes for line in derivation.lines if hasattr(line.left, "base")
    }
    sizes_of |= {n: [*map(str, a)] for n, a in arguments.items() if not isinstance(a, Index)}
    sizes_of |= {f"{n}_": sizes for n, sizes in sizes_of.items()} | {f"d{n}": sizes for n, sizes in sizes_of.items()}
    shapes = lambda n: [numbers[str(s)] for s in sizes_of[n]]  # noqa: E731
    names = {n: x.detach().numpy() for n, x in inputs.items()} | numbers
    names |= {"dY": upstream} if result.ndim else {}
    known = values(text, {n: x if np.ndim(x) or isinstance(x, int) else float(x) for n, x in names.items()}, shapes)
    np.testing.assert_allclose(known["Y" if result.ndim else "loss"], result.detach().numpy(), rtol=1e-10)
    for n, x in inputs.items():
        if x.grad is not None:
            np.testing.assert_allclose(known[f"d{n}"], x.grad.numpy(), rtol=1e-9, atol=1e-12)


def test_a_wrong_reading_would_be_noticed():
    known = {"N": 3, "x": np.arange(3.0)}
    assert Value("(Σ k < N, x k) ^ 2 - 2 * x 2", known).sum() == 5
    assert Value("- x 1 ^ 2 / (1 + 1)", known).sum() == -0.5
    assert Value("1 - 1 - 1 + exp (x 0) * INR N", known).sum() == 2


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
    assert certificate(name) == certificate(name)


ACCEPTED = ["diagonal", "mask", "shifted", "table", "norm", "gate", "corners", "exponentials", "many functions"]


@pytest.mark.slow
@pytest.mark.parametrize("name", list(some(ACCEPTED, len(ACCEPTED))))
def test_certificate_is_accepted(name):
    result = certified(certificate(name))
    assert result, str(result)


@pytest.mark.parametrize(
    ("function", "arguments", "why"),
    [
        (lambda x: x.max(), {"x": ("N",)}, "the places of the largest entries are data"),
        (lambda x: (x * x.detach()).sum(), {"x": ("N",)}, "detach"),
        (lambda x: (x - x.floor()).sum(), {"x": ("N",)}, "floored"),
        (lambda x: x.flatten().sum() if x.shape[0] > 3 else x.mean(), {"x": ("N",)}, "is proved only for"),
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
    assert len(blocks) == 6 and [one for one in blocks if one not in text] == []


def test_names_of_coq_are_no_names_of_a_certificate():
    def function(R, exp, nat):
        return (R * exp + nat).sum()

    text = derive(function, R=("N",), exp=("N",), nat=("N",)).certificate()
    assert "Variable R_ : nat -> R." in text and "Variable exp_ :" in text and "Variable nat_ :" in text
