"""`python -OO` drops docstrings and assert statements: nothing may depend on either."""

import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
PROGRAM = """
import importlib, inspect, sys
from pathlib import Path

assert False  # not executed: this program runs under -OO
for room in ("tinytensor", "models", "derivations"):
    for file in sorted(Path(room).rglob("*.py")):
        name = ".".join(file.with_suffix("").parts).removesuffix(".__init__")
        if not name.endswith("__main__"):
            importlib.import_module(name)

import tinytensor as tt
from tinytensor.symbolic import prove
from tinytensor.cli.main import main as run

tt.manual_seed(0)
model = tt.nn.Sequential(tt.nn.Linear(4, 8), tt.nn.GELU(), tt.nn.Linear(8, 3))
optimizer = tt.optim.AdamW(model.parameters(), lr=0.05)
x, y = tt.randn(16, 4), tt.randint(0, 3, (16,))

@tt.compile
def step():
    optimizer.zero_grad()
    loss = tt.nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    return loss

losses = [step().item() for _ in range(20)]
print("trains", losses[-1] < losses[0] / 2)
print(prove(lambda x: x.tanh().sum(), (2, 3)))
Path(sys.argv[1], "f.py").write_text("def f(x, w):\\n    return (x @ w).tanh().sum()\\n")
print("derives", run(["derive", f"{sys.argv[1]}/f.py:f", "x=n,m", "w=m,k"]))
options = "--D 8 --H 2 --F 12 --L 1 --C 10 --batch-size 2 --tokenizer char --steps 2"
run(["train", *options.split(), "--out", f"{sys.argv[1]}/run"])
"""


@pytest.mark.slow
def test_imports_trains_proves_and_derives_without_docstrings(tmp_path):
    command = [sys.executable, "-OO", "-W", "error", "-X", "utf8", "-c", PROGRAM, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", cwd=REPOSITORY)
    assert done.returncode == 0, done.stderr
    assert "trains True\nproved: <lambda> at x (2, 3): 6 entries" in done.stdout
    assert "∂𝓛/∂w_ij = Σ_n x_ni ∂𝓛/∂A_nj" in done.stdout and "\nproved for any size\nderives 0\n" in done.stdout
    assert (tmp_path / "run" / "log.csv").read_text().count("\n") > 1
