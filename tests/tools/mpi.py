"""Programs on several ranks: started by the mpiexec that lies beside this Python, and ended when they take too long."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PROGRAMS = ROOT / "tests" / "distributed" / "on_ranks.py"
LIMIT = 300  # seconds after which a program hangs


def mpiexec() -> str:
    """The path of mpiexec; RuntimeError if it is not installed."""
    executable = shutil.which("mpiexec", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
    if executable is None:
        raise RuntimeError("mpiexec is not installed: pip install -e '.[mpi]' brings it, with mpi4py")
    return executable


def start(ranks: int, *command: object, **environment: str) -> subprocess.Popen:
    """`python command` on so many ranks; what is printed on either stream goes to one.

    A rank that waits for another one sleeps now and then: MPICH would look without a pause, which takes a processor.
    """
    usual = {"PYTHONPATH": str(ROOT), "MPIR_CVAR_CH4_PROGRESS_THROTTLE": "1"}
    return subprocess.Popen(
        [mpiexec(), "-n", str(ranks), sys.executable, *map(str, command)],
        cwd=ROOT, env=os.environ | usual | environment,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip


def finish(process: subprocess.Popen, limit: float = LIMIT) -> tuple[int, str]:
    """(exit code, what was printed); a program that takes longer than `limit` seconds is ended, and is an error."""
    try:
        output, _ = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        process.terminate()
        raise AssertionError(f"it hangs, after this: {process.communicate()[0]}") from None
    return process.returncode, output


def run(ranks: int, *command: object, limit: float = LIMIT, **environment: str) -> tuple[int, str]:
    return finish(start(ranks, *command, **environment), limit)


def program(name: str, ranks: int, *arguments: object) -> str:
    """What rank 0 prints of a function of on_ranks.py that all ranks run, and that must succeed."""
    code, output = run(ranks, "-W", "error", PROGRAMS, name, *arguments)
    assert code == 0, output
    return output
