"""The program of examples/to_pytorch.md runs on tinytensor, and on PyTorch with its import lines changed."""

import math
import re
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import tinytensor as tt
from tests.tools.packages import missing

PAGE = (Path(__file__).parents[2] / "examples" / "to_pytorch.md").read_text()
(PROGRAM,) = re.findall(r"```py\n(.*?)```", PAGE, re.DOTALL)


def translated(program: str) -> str:
    """The program for PyTorch: tinytensor's name is replaced in the import lines, and nothing else."""
    return re.sub(r"^(import|from) tinytensor\b", r"\1 torch", program, flags=re.MULTILINE)


def run(program: str) -> ModuleType:
    module = ModuleType("program")
    exec(compile(program, "to_pytorch.md", "exec"), module.__dict__)
    return module


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    """Tests run side by side, and threads that wait for each other take longer than one alone."""
    before = tt.get_num_threads()
    tt.set_num_threads(1)
    yield
    tt.set_num_threads(before)


@pytest.fixture(scope="module")
def ours():
    return run(PROGRAM)


def learnt(module: ModuleType) -> bool:
    uniform, said = math.log(len(module.letters)), module.write(module.model)
    return abs(module.losses[0] - uniform) < 0.6 and module.losses[-1] < 0.4 and "the cat sat" in said


def test_program_learns_on_tinytensor(ours):
    assert ours.torch is tt
    assert learnt(ours)


def test_program_that_does_not_step_has_learnt_nothing():
    assert not learnt(run(PROGRAM.replace("optimizer.step()", "pass")))


def test_only_import_lines_change():
    before, after = PROGRAM.splitlines(), translated(PROGRAM).splitlines()
    changed = [b for a, b in zip(before, after, strict=True) if a != b]
    assert changed == ["import torch as torch", "import torch.nn.functional as F", "from torch import nn"]


def test_pytorch_prints_the_same_losses(ours, tmp_path):
    pytest.importorskip("torch", reason=missing("torch")).set_num_threads(1)
    theirs = run(translated(PROGRAM))
    assert theirs.torch.__name__ == "torch" and learnt(theirs)
    from safetensors.torch import load_file

    tt.save(ours.Writer().state_dict(), tmp_path / "weights.safetensors")
    losses = []
    for module, load in ((ours, tt.load), (theirs, load_file)):
        model = module.Writer()
        model.load_state_dict(load(tmp_path / "weights.safetensors"))
        losses.append(module.train(model, steps=20))
    np.testing.assert_allclose(*losses, rtol=1e-4)
    assert losses[0][-1] < losses[0][0]
