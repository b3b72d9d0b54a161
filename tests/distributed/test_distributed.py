"""tinytensor.distributed on 1, 2 and 3 ranks, on as many processors as there are: the same bits on all, and the end."""

import json
import os
import re
import subprocess
import sys

import numpy as np
import pytest

from tests.tools import mpi
from tests.tools.sampling_rate import THOROUGH
from tinytensor import distributed as dist
from tinytensor.native.platform.distribution import install

RANKS = (1, 2, 3) if THOROUGH else (1, 2)


@pytest.fixture(scope="module")
def outcome():
    """What on_ranks.py finds on each number of ranks; one rank goes first, so that kernels are compiled only once."""
    return {n: json.loads(mpi.program("everything", n).splitlines()[-1]) for n in RANKS}


@pytest.mark.parametrize("n", RANKS)
def test_ranks_agree_bit_for_bit_at_every_step(outcome, n):
    """on_ranks.py asserts it, in eager mode and recorded, beside what collectives give and refuse."""
    assert len(outcome[n]["data parallel"]) == 6
    assert outcome[n]["float32"]["bits"] == outcome[n]["eager"]["bits"]


@pytest.mark.parametrize("n", RANKS[1:])
def test_gradients_match_the_joint_batch(outcome, n):
    for joint in outcome[n]["joint"]:
        assert joint["worst"] < 1
        assert joint["different"] > joint["entries"] / 10  # otherwise nothing was compared
    assert outcome[n]["dropped"]["worst"] > 1000  # a rank whose gradient is lost is seen


CURVE = ("losses", "norms", "weights")


def apart(one: dict, other: dict) -> np.ndarray:
    """How far two runs are apart: in their losses, in the norms of their gradients, in their last weights."""
    return np.array([np.abs(np.subtract(one[what], other[what])).max() for what in CURVE])


@pytest.mark.parametrize("n", RANKS[1:])
def test_loss_curve_matches_one_process(outcome, n):
    """The bound is 4 times what rounding does to the run of one process; examples/guide/processes.md says why."""
    rounding = apart(outcome[1]["float32"], outcome[1]["float64"])  # float64 stands for exact numbers
    for dtype in ("float32", "float64"):
        bound = 4 * rounding * np.finfo(dtype).eps / np.finfo("float32").eps
        difference = apart(outcome[n][dtype], outcome[1][dtype])
        assert (difference > 0).any() and (difference < bound).all(), (dtype, difference / bound)
    # the negative control: rank 0 forgets its part of the gradient of one bias, of 8 numbers
    assert (apart(outcome[n]["lost"], outcome[1]["float32"]) > 100 * 4 * rounding).all()


@pytest.mark.parametrize("n", RANKS[1:])
def test_ranks_without_data_add_nothing(outcome, n):
    """With one row in a batch all but one rank have none, and every bit is that of one process."""
    assert outcome[n]["one row"] == outcome[1]["one row"]


def test_documented_program_runs(tmp_path):
    (code,) = re.findall(r"```py\n(.*?)```", (mpi.ROOT / "examples" / "guide" / "processes.md").read_text(), re.DOTALL)
    path = tmp_path / "program.py"
    path.write_text(code + "print(distributed.is_initialized())\n")
    code, output = mpi.run(2, "-W", "error", path)
    assert code == 0 and output.count("False") == 2, output


# --- The end


@pytest.mark.parametrize(
    ("how", "code", "sentence"),
    [
        ("raises", 1, "rank 1 failed (ArithmeticError): all ranks are ended"),
        ("is killed", 9, "Killed (signal 9)"),  # said by mpiexec, since the ranks that are left are ended too
        ("leaves", 1, "rank 1 ended without destroy_process_group(), which would wait for the others"),
        ("makes another call", 1, "rank 0 has waited 2 s for the others; all ranks must make the same calls"),
    ],
)
def test_failing_rank_ends_all_ranks(how, code, sentence):
    """It takes seconds. A rank that is not ended would wait, or sleep, beyond the limit."""
    arguments, output = mpi.run(2, mpi.PROGRAMS, "fails", how, 3, limit=120)
    assert arguments == code, output
    assert sentence in output


def test_slow_ranks_are_ended_with_an_error():
    with pytest.raises(AssertionError, match="it hangs"):
        mpi.run(2, "-c", "import time; time.sleep(600)", limit=3)


# --- Without MPI


def alone(code: str, **environment: str) -> str:
    """The last line of what a process says that no mpiexec has started."""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=mpi.ROOT, env=os.environ | environment
    )
    return (done.stdout + done.stderr).splitlines()[-1]


BEGIN = "import tinytensor as tt; tt.distributed.init_process_group()"


def test_missing_mpi4py_is_named(tmp_path):
    assert not dist.is_initialized() and dist.is_available()
    hidden = "import sys; sys.modules['mpi4py'] = None; import importlib.util as u; find = u.find_spec\n"
    hidden += "u.find_spec = lambda name, *a: None if name == 'mpi4py' else find(name, *a)\n"
    said = alone(f"{hidden}import tinytensor as tt; print(tt.distributed.is_available())")
    assert said == "False"
    said = alone(hidden + BEGIN)
    assert said.startswith("RuntimeError: init_process_group: mpi4py is not installed")
    assert install("mpi") in said
    (tmp_path / "mpi4py.py").write_text("class rc: pass\ndef __getattr__(name): raise RuntimeError('no library')")
    said = alone(BEGIN, PYTHONPATH=f"{tmp_path}:{mpi.ROOT}")
    assert said.startswith("RuntimeError: init_process_group: mpi4py finds no MPI (no library): pip install mpich")


def test_launcher_of_another_mpi_is_named():
    said = alone(BEGIN, OMPI_COMM_WORLD_SIZE="2", OMPI_COMM_WORLD_RANK="0")
    assert "Open MPI's mpiexec has started this process, but mpi4py belongs to MPICH" in said
    said = alone(BEGIN, PMI_SIZE="2", PMI_RANK="0")
    assert "the launcher has started 2 processes, but MPI finds 1 here: mpiexec and mpi4py belong to different" in said


def test_lone_process_error_names_mpiexec():
    said = alone(BEGIN.replace("()", "(world_size=3)"))
    assert said.endswith("this process was started alone, and mpiexec -n 3 python program.py starts ranks")


def test_missing_mpiexec_is_named(monkeypatch):
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.raises(RuntimeError, match=r"^mpiexec is not installed: pip install -e '\.\[mpi\]'"):
        mpi.mpiexec()
