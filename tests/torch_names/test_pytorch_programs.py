"""A program written for PyTorch runs with its import lines changed, and learns the same."""

import json
import re
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from safetensors import safe_open

import tinytensor as tt
from tinytensor.interop.io.serialization import load_file, load_metadata

HERE = Path(__file__).parent
ORACLE = HERE.parent / "samples" / "oracle" / "nn"


def translated(source: str) -> str:
    """The program with torch's import lines, and nothing else, changed."""
    source = re.sub(r"^import torch$", "import tinytensor as torch", source, flags=re.MULTILINE)
    return re.sub(r"^(import|from) torch\b", r"\1 tinytensor", source, flags=re.MULTILINE)


def program(path: Path) -> ModuleType:
    """The program of a file, in tinytensor."""
    made = ModuleType(path.stem)
    made.__file__ = str(path)
    exec(compile(translated(path.read_text()), path.name, "exec"), made.__dict__)
    assert made.torch is tt
    return made


@pytest.fixture(scope="module")
def gpt():
    return program(HERE / "gpt.py")


@pytest.fixture(scope="module")
def facts():
    with safe_open(ORACLE / "values.safetensors", "np") as file:
        trained = {dtype: file.get_tensor(f"training|{dtype}") for dtype in ("float32", "float64")}
        return json.loads(file.metadata()["facts"])["training"] | trained


def model(gpt):
    """With the weights that PyTorch wrote; the file has the tied matrix under one of its names only."""
    made = gpt.GPT()
    weights = load_file(ORACLE / "gpt.safetensors")
    assert made.load_state_dict(weights, strict=False) == (["transformer.wte.weight"], [])
    assert made.transformer.wte.weight is made.lm_head.weight
    return made


def test_only_import_lines_change():
    before, after = (HERE / "gpt.py").read_text(), translated((HERE / "gpt.py").read_text())
    changed = [a for a, b in zip(before.splitlines(), after.splitlines(), strict=True) if a != b]
    assert changed == ["import torch", "import torch.nn as nn", "from torch.nn import functional as F"]


def test_stored_weights_were_written_by_pytorch(gpt):
    assert load_metadata(ORACLE / "gpt.safetensors") == {"written": "by PyTorch"}
    with safe_open(ORACLE / "gpt.safetensors", "np") as file:
        for name, p in model(gpt).state_dict().items():
            if name != "transformer.wte.weight":
                assert np.array_equal(file.get_tensor(name), p.numpy())


@pytest.fixture
def float64():
    tt.set_default_dtype(tt.float64)
    yield
    tt.set_default_dtype(tt.float32)


def test_training_in_float64(gpt, facts, float64):
    m = model(gpt)
    assert m.lm_head.weight.dtype == tt.float64 and m.get_num_params() == facts["parameters"]
    np.testing.assert_allclose(gpt.train(m), facts["float64"], rtol=1e-10)
    text = m.eval().generate(tt.tensor([[1, 2, 3], [4, 5, 6]]), 12, top_k=1)
    assert text.tolist() == facts["float64 text"]


def test_training_in_float32(gpt, facts):
    """PyTorch's own float32 run differs from its float64 run by 2e-7, relatively; the bound is ten times that."""
    m = model(gpt)
    np.testing.assert_allclose(gpt.train(m), facts["float32"], rtol=2e-6)
    assert m.eval().generate(tt.tensor([[1, 2, 3], [4, 5, 6]]), 12, top_k=1).tolist() == facts["float32 text"]


def test_wrong_learning_rate_is_noticed(gpt, facts, float64, monkeypatch):
    right = gpt.get_lr
    monkeypatch.setattr(gpt, "get_lr", lambda step: right(step) * (1 + 1e-6))
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        np.testing.assert_allclose(gpt.train(model(gpt)), facts["float64"], rtol=1e-10)


def test_sampling_and_dropout_follow_the_seed(gpt):
    m = gpt.GPT(dropout=0.2)
    start = tt.zeros(2, 1, dtype=tt.long)

    def run(seed):
        tt.manual_seed(seed)
        losses = [loss for loss, _ in gpt.train(m, steps=0)]
        return losses, m.generate(start, 10, temperature=0.8, top_k=5).tolist()

    assert run(1) == run(1) != run(2)
    assert run(1)[1][0][0] == 0 and all(0 <= i < 17 for row in run(3)[1] for i in row)


def test_weights_start_as_configured(gpt):
    """N weights with deviation s: their mean square is within 5 sqrt(2 / N) of s^2."""
    tt.manual_seed(0)
    m = gpt.GPT(width=48, layers=2)
    for name, deviation in (("mlp.c_fc.weight", 0.02), ("mlp.c_proj.weight", 0.01)):
        w = m.get_submodule(f"transformer.h.0.{name.rpartition('.')[0]}").weight
        assert (w * w).mean().item() / deviation**2 == pytest.approx(1, abs=5 * (2 / w.numel()) ** 0.5)


def test_hooks_are_removed_by_their_handles():
    x = tt.ones(2).requires_grad_()
    handle = x.register_hook(lambda g: g * 3)
    x.sum().backward()
    handle.remove()
    x.sum().backward()
    assert x.grad.tolist() == [4.0, 4.0]


# --- Waves


@pytest.fixture
def waves():
    return program(HERE / "waves.py")


@pytest.mark.filterwarnings("ignore:softmax. say along which dimension")
@pytest.mark.parametrize(("dtype", "rtol"), [("float32", 2e-5), ("float64", 1e-10)])
def test_waves_are_fitted_as_in_pytorch(waves, dtype, rtol):
    losses, length = json.loads((HERE / "waves.json").read_text())[dtype]
    actual, ends_at = waves.fit(getattr(tt, dtype))
    np.testing.assert_allclose(actual, losses, rtol=rtol)
    assert ends_at == pytest.approx(length, rel=rtol)


@pytest.mark.filterwarnings("ignore:softmax. say along which dimension")
def test_wrong_momentum_is_noticed(waves):
    losses, _ = json.loads((HERE / "waves.json").read_text())["float64"]
    waves.SignDescent.__init__.__defaults__ = (1e-3, 0.8)
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        np.testing.assert_allclose(waves.fit(tt.float64)[0], losses, rtol=1e-10)


# --- Names that other people's programs use; `python -m tests.torch_names.programs` runs these in PyTorch

RESULTS = json.loads((HERE / "programs" / "results.json").read_text())


def differences(ours, theirs, at: str = "") -> list[str]:
    """Where two nested results differ: numbers by more than rounding, everything else at all."""
    if isinstance(theirs, dict) and isinstance(ours, dict) and ours.keys() == theirs.keys():
        return [line for key in theirs for line in differences(ours[key], theirs[key], f"{at}/{key}")]
    if isinstance(theirs, list) and isinstance(ours, list | tuple) and len(ours) == len(theirs):
        return [line for i, pair in enumerate(zip(ours, theirs)) for line in differences(*pair, f"{at}/{i}")]
    if isinstance(theirs, float) and isinstance(ours, float):
        same = ours == pytest.approx(theirs, rel=1e-10, abs=1e-12, nan_ok=True)
    else:
        same = type(ours) is type(theirs) and ours == theirs
    return [] if same else [f"{at}: {ours}, expected {theirs}"]


@pytest.mark.filterwarnings("ignore:.*behind the tensors")
@pytest.mark.parametrize("name", RESULTS)
def test_program_gives_what_it_gives_in_pytorch(name):
    assert differences(program(HERE / "programs" / f"{name}.py").run(), RESULTS[name]) == []


def test_every_program_is_run_and_a_wrong_result_is_noticed():
    assert {path.stem for path in (HERE / "programs").glob("*.py")} == {"__main__", *RESULTS}
    right = RESULTS["versions"]
    for wrong in ({"before": True}, {"rates": right["rates"][1:]}, {"w": [1e-9, *right["w"][1:]]}, {"cuda": "12"}):
        assert len(differences(right | wrong, right)) == 1
    assert differences({}, right) and differences(1, 1.0) and differences(True, 1)
