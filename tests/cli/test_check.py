"""`tinytensor check`: its verdicts, its exit codes, and what it refuses."""

import sys

import pytest

from tinytensor.cli import main as command

FILE = """
from tinytensor.nn import functional as F

def loss(X, w, y):
    return ((X @ w - y) ** 2).mean()

def right(X, w, y):
    return 2 / len(X) * (X.T @ (X @ w - y))

def classifier(X, t):
    return F.cross_entropy(X, t)

def softmax(x):
    return x.softmax(-1)

def branch(x):
    return (x**2).sum() if len(x) > 3 else (x**3).sum()

"""
SIZES = ("X=N,D", "w=D", "y=N")


@pytest.fixture
def run(tmp_path, capsys, monkeypatch):
    """Run the command on a file of these functions; what it printed, after its exit code was looked at."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "argv", ["tinytensor"])
    (tmp_path / "mine.py").write_text(FILE)

    def run(subcommand: str, name: str, *words: str, code: int = 0) -> str:
        assert command.main([subcommand, f"{tmp_path / 'mine.py'}:{name}", *words]) == code
        return "".join(capsys.readouterr())

    return run


def test_gradient_by_hand_is_proved_or_refuted(run):
    assert run("check", "loss", *SIZES, "--gradient", "w=right") == "∂𝓛/∂w: proved for any size\n"
    output = run("check", "loss", *SIZES, "--gradient", "w=X.T @ (X @ w - y) / N", code=1)
    assert "∂𝓛/∂w: refuted\n    the factor 2 is missing everywhere\n" in output


def test_restrictions_of_sizes_are_printed_and_need_where(run):
    words = ("x=N", "--gradient", "x=2 * x")
    shown = run("check", "branch", *words, code=1)
    assert shown.startswith('∂𝓛/∂x: proved only for N > 3; if that is what you mean, say where="N > 3"\n')
    assert "--where accepts that" in shown
    assert run("check", "branch", *words, "--where", "N > 3") == "∂𝓛/∂x: proved for N > 3\n"
    assert run("derive", "branch", "x=N", "--where", "N < 4").endswith("proved for N < 4\n")
    assert "proved only for N > 3" in run("derive", "branch", "x=N", code=1)
    assert "is no condition on the sizes N" in run("derive", "branch", "x=N", "--where", "M > 3", code=2)


def test_one_text_of_arguments_is_as_several(run):
    output = run("derive", "classifier", "--args", "X=N,K t=N<K")
    assert output.startswith("classifier:\n") and output == run("derive", "classifier", "X=N,K", "t=N:K")


def test_bad_use_gets_a_sentence(run):
    assert run("check", "gone", *SIZES, code=2).endswith("defines no 'gone'\n")
    assert "the argument 'X' is not understood" in run("check", "loss", "X", code=2)
    assert "by_hand is a dictionary" in run("check", "loss", *SIZES, code=2)
    assert "tinytensor: check: " in run("check", "loss", *SIZES, "--gradient", "w=X.T @@ w", code=2)
    assert "arguments that have one are X, w, y" in run("check", "loss", *SIZES, "--gradient", "v=X", code=2)
    assert "the gradient 'w' is not understood" in run("check", "loss", *SIZES, "--gradient", "w", code=2)
    assert "two gradients of w" in run("check", "loss", *SIZES, "--gradient", "w=w", "--gradient", "w=w", code=2)
    assert "two gradients of w" in run("check", "loss", *SIZES, "--jacobian", "w=w", "--jacobian", "w=X", code=2)
    assert "two blocks of w" in run("check", "loss", *SIZES, "--hessian", "w=X", "--hessian", "w=2*X", code=2)
    assert "two blocks of w,w" in run("check", "loss", *SIZES, "--hessian", "w=X", "--hessian", "w,w=2*X", code=2)
    assert "two blocks of w, y" in run("check", "loss", *SIZES, "--hessian", "w,y=X", "--hessian", "w, y=X", code=2)
    for verb in ("check", "derive"):
        assert "the argument w is given twice" in run(verb, "loss", *SIZES, "w=N", code=2)


@pytest.mark.slow
def test_hessians_jacobians_and_products_are_printed(run):
    output = run("derive", "loss", *SIZES, "--order", "2", "--wrt", "w")
    assert "∂²𝓛/∂w_d∂w_i = 2/N Σ_n X_nd X_ni    ∂²𝓛/∂w∂wᵀ = 2 Xᵀ X/N" in output and "∂X" not in output
    assert "∂Y/∂x = diag(Y) - Y Yᵀ" in run("derive", "softmax", "x=N,", "--jacobian")
    assert r"\frac{\partial Y_{n}}{\partial x_{i}}" in run("derive", "softmax", "x=N,", "--jacobian", "--latex")
    assert "Ẏ_n = Y_n (ẋ_n - Σ_i Y_i ẋ_i)" in run("derive", "softmax", "x=N,", "--jvp")
    assert "the Hessian-vector product; ẇ: the direction" in run("derive", "loss", *SIZES, "--hvp", "--wrt", "w")
    assert "the Gauss-Newton product" in run("derive", "loss", *SIZES, "--gauss-newton", "A", "--wrt", "w")
    assert "order=2 needs a function whose result is a number" in run(
        "derive", "softmax", "x=N,", "--order", "2", code=2
    )
    assert "wrt has 'v'" in run("derive", "loss", *SIZES, "--order", "2", "--wrt", "v", code=2)
    assert "wrt is for order=2" in run("derive", "loss", *SIZES, "--wrt", "w", code=2)


@pytest.mark.slow
def test_blocks_by_hand_are_proved_or_refuted(run):
    assert run("check", "loss", *SIZES, "--hessian", "w=2 * X.T @ X / N") == "∂²𝓛/∂w∂w: proved for any size\n"
    output = run("check", "loss", *SIZES, "--hessian", "w,y=2 * X.T / N", code=1)
    assert "∂²𝓛/∂w∂y: refuted\n    the sign is wrong in the term 2 X_nd/N\n" in output
    output = run("check", "softmax", "x=N,", "--jacobian", "x=diag(softmax(x, -1))", code=1)
    assert "∂Y/∂x: refuted\n    the term -Y_i Y_n is missing\n" in output
    assert "the block 'w y' is not understood" in run("check", "loss", *SIZES, "--hessian", "w y", code=2)
