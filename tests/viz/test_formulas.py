"""The formulas that operations state for their gradients: each is right, and none of them is a call of a kernel."""

import numpy as np
import pytest

import tinytensor as tt
from tests.viz.formulas import evaluate
from tinytensor.core.op import OPS
from tinytensor.utils.display.latex import mathml, split
from tinytensor.viz import explain
from tinytensor.viz.record import BackwardTrace
from tinytensor.viz.steps import Writer
from tinytensor.viz.text import rule
from tinytensor.viz.trace import rule_of

N, K, D = 3, 4, 5


def random(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).uniform(-1, 1, shape)


# For each operation: its tensors, its settings, and the letters of the formulas for other values.
CALLS = {
    "softmax": ({"x": random(D)}, (), lambda x, y: {}),
    "log_softmax": ({"x": random(D)}, (), lambda x, y: {}),
    "linear": ({"x": random(N, K), "w": random(D, K), "b": random(D)}, (), lambda x, y: {}),
    "linear_relu": ({"x": random(N, K), "w": random(D, K), "b": random(D)}, (), lambda x, y: {}),
    "layer_norm": (
        {"x": random(N, D), r"\gamma": random(D), r"\delta": random(D)},
        (0.1,),
        lambda x, y: {"D": D, r"\mu": x.mean(-1), "r": 1 / np.sqrt(x.var(-1) + 0.1)},
    ),
    "rms_norm": (
        {"x": random(N, D), r"\gamma": random(D)},
        (0.1,),
        lambda x, y: {"D": D, "r": 1 / np.sqrt((x * x).mean(-1) + 0.1)},
    ),
    "attention": (
        {"q": random(1, 1, N, K), "k": random(1, 1, D, K), "v": random(1, 1, D, 2)},
        (None, 0.7, False),
        None,
    ),
    "cross_entropy_rows": ({"x": random(N, D)}, (np.array([1, 0, 4]), -100, 0.2), lambda x, y: {}),
    "cross_entropy_mean": ({"x": random(N, D)}, (np.array([1, 0, 4]), -100, 0.2), lambda x, y: {"n": N}),
}


def both(name: str, lines: tuple[str, ...]) -> list[tuple[np.ndarray, np.ndarray]]:
    """For each tensor: the gradient that the formulas state, and that of backward()."""
    tensors, settings, more = CALLS[name]
    inputs = [tt.tensor(x, requires_grad=True) for x in tensors.values()]
    y = OPS[name](*inputs, *(tt.tensor(s) if isinstance(s, np.ndarray) else s for s in settings))
    g = random(*y.shape)
    y.backward(tt.tensor(g))
    values = {k: v.squeeze() for k, v in tensors.items()} | {"y": y.detach().numpy().squeeze(), "g": g.squeeze()}
    if name == "attention":
        values["s"] = settings[1]
    elif name.startswith("cross"):
        values |= {"t": settings[0], "s": settings[2], "V": D}
    result = evaluate(lines, values | (more(values["x"], values["y"]) if more else {}))
    return [(result[f"d{n}"], x.grad.numpy().squeeze()) for n, x in zip(tensors, inputs, strict=True)]


@pytest.mark.parametrize("name", CALLS)
def test_the_stated_gradient_is_that_of_backward(name):
    for stated, real in both(name, OPS[name].gradient):
        assert stated == pytest.approx(real, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize(
    ("name", "right", "wrong"),
    [
        ("softmax", "g_i - ", "g_i + "),
        ("attention", r"s \sum_i u", r"\sum_i u"),
        ("layer_norm", "z_{ni} z_{nj}", "z_{nj}"),
        ("linear", "g_{ij} w_{jk}", "g_{ij} g_{ij} w_{jk}"),
        ("cross_entropy_rows", "(1 - s)", "(1 + s)"),
    ],
)
def test_a_wrong_formula_is_noticed(name, right, wrong):
    changed = tuple(line.replace(right, wrong) for line in OPS[name].gradient)
    assert changed != OPS[name].gradient
    assert not all(stated == pytest.approx(real, rel=1e-9, abs=1e-12) for stated, real in both(name, changed))


def calls_of_kernels(op) -> list[str]:
    """The rules of an operation that the page or the text shows as a call of a kernel."""
    writer, results = Writer(BackwardTrace(None, [], []), None), []
    for function in filter(None, (op.backward or op.definition, *(() if op.backward else op.rules.values()))):
        shown = rule_of(function, formulas=op.gradient if function is op.backward else ())
        words = "\n".join([writer.rule(shown, {}), *rule(shown)])
        results += [function.__name__] * any(sign in words for sign in ("launch", "kernels.", "kernel("))
    return results


def test_no_visit_shows_a_call_of_a_kernel():
    assert {name: result for name, op in OPS.items() if (result := calls_of_kernels(op))} == {}
    assert {name for name, op in OPS.items() if op.backward} == set(CALLS)  # and each has a formula that is evaluated


def test_a_call_of_a_kernel_is_noticed(monkeypatch):
    monkeypatch.setattr(OPS["softmax"], "gradient", ())
    assert calls_of_kernels(OPS["softmax"]) == ["backward"]


@pytest.mark.parametrize("name", CALLS)
def test_formulas_are_typeset(name):
    for line in OPS[name].gradient:
        assert all("merror" not in mathml(text) for text, words in split(line) if not words)


def test_explain_states_the_formula():
    x = tt.tensor([1.0, 2.0], requires_grad=True)
    text = str(explain(tt.softmax(x, 0)[0], {"x": x}))
    assert "∂L/∂x_i = y_i (g_i - Σ_j g_j y_j)    # tinytensor/ops/softmax.py:" in text and "kernels" not in text
