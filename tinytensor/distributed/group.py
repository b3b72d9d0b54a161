"""The processes of a run: how they find each other, wait for each other, and end together.

MPI starts them and carries their messages; `mpi4py` (the extra `mpi`) gives access to it. It is loaded only by
`init_process_group()`, so a program of one process needs no MPI.

    mpiexec -n 2 python program.py        # the same program twice: get_rank() is 0 in one of them, 1 in the other

A rank that fails must not leave the others waiting for messages that never come. So an uncaught exception ends all
ranks, and so does a rank that ends without `destroy_process_group()`. If a rank is killed, MPI's own launcher notices
and ends the rest.
"""

import atexit
import importlib.util
import os
import sys
import time
import warnings
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

import numpy as np

from tinytensor.core.threads import set_num_threads, threads_wanted
from tinytensor.native.platform.distribution import install
from tinytensor.ops.generator import default_generator

TIMEOUT = timedelta(minutes=30)  # PyTorch's
PATIENCE = 200  # tests of a request before a waiting rank offers its processor to others
AWAKE, NAP = 0.01, 0.0005  # seconds of waiting after which a rank sleeps (rank 0 has other work), and of a sleep
_offer_processor = getattr(os, "sched_yield", lambda: time.sleep(0))
SPOKEN = 0.2  # seconds for the last message to reach the terminal, since abort cuts off the output

# The environment variables in which launchers pass the number of processes and the number of this one.
LAUNCHERS = {"PMI_SIZE": "PMI_RANK", "OMPI_COMM_WORLD_SIZE": "OMPI_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE": "MV2_RANK"}

SAME = (
    "use the mpiexec of the same one (that of the extra mpi lies beside python), or build mpi4py against yours: "
    "pip install --no-binary mpi4py mpi4py"
)
MISSING = "mpi4py is not installed, which ranks need to send messages"


class Group:
    """All processes of the run, as seen from this one."""

    def __init__(self, MPI, timeout: float):
        self.MPI, self.timeout = MPI, timeout
        self.comm = MPI.COMM_WORLD.Dup()  # so that the user's messages by mpi4py do not mix with ours
        self.rank, self.size = self.comm.Get_rank(), self.comm.Get_size()
        self.seconds, self.bytes = 0.0, 0  # seconds spent in MPI and bytes sent to others, so far
        self.cores, self.neighbours = self._machine()
        self.part_before = default_generator.part
        self.hook = sys.excepthook

    def _machine(self) -> tuple[int, int]:
        """The number of cores that the ranks on this machine may use together, and the number of these ranks."""
        here = self.comm.Split_type(self.MPI.COMM_TYPE_SHARED)
        own = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set(range(os.cpu_count() or 1))
        cores, neighbours = len(set().union(*here.allgather(own))), here.Get_size()
        here.Free()
        return cores, neighbours

    # --- Messages

    def start(self, call: Callable, *buffers: np.ndarray) -> Any:
        """Begin one of MPI's non-blocking calls on contiguous arrays; returns the request that `wait` completes.

        MPI only moves bytes. Kernels compute with them, in an order that does not depend on MPI.
        """
        began = time.perf_counter()
        request = call(*([buffer, self.MPI.BYTE] for buffer in buffers))
        self.seconds += time.perf_counter() - began
        return request

    def wait(self, request: Any, what: str) -> None:
        """Return when the request is complete; RuntimeError if the other ranks do not answer in time, or are gone."""
        began, looks = time.perf_counter(), 0
        try:
            while not request.Test():
                looks += 1
                if looks > PATIENCE:
                    waited = time.perf_counter() - began
                    if waited > self.timeout:
                        raise RuntimeError(
                            f"{what}: rank {self.rank} has waited {self.timeout:g} s for the others; all ranks must "
                            "make the same calls in the same order (or give init_process_group a longer timeout)"
                        )
                    _offer_processor() if waited < AWAKE else time.sleep(NAP)
        except self.MPI.Exception as error:
            raise RuntimeError(f"{what}: rank {self.rank} has lost another rank ({error})") from None
        self.seconds += time.perf_counter() - began

    def exchange(self, parts: np.ndarray, received: np.ndarray) -> Any:
        """Begin to send row r of `parts` to rank r; the message of rank r goes to row r of `received` (ranks, n)."""
        self.bytes += parts.nbytes - parts.nbytes // self.size
        return self.start(self.comm.Ialltoall, parts, received)

    def gather(self, own: np.ndarray, received: np.ndarray) -> Any:
        """Begin to send `own` to all; the message of rank r goes to row r of `received` (ranks, n)."""
        self.bytes += own.nbytes * (self.size - 1)
        return self.start(self.comm.Iallgather, own, received)

    def spread(self, array: np.ndarray, source: int) -> Any:
        """Begin to send the array of one rank to all others."""
        self.bytes += array.nbytes * (self.size - 1) if self.rank == source else 0
        return self.start(partial(self.comm.Ibcast, root=source), array)

    def numbers(self, *own: float) -> list[list[float]]:
        """Exchange a few numbers of each rank: row r has those of rank r. Each training step calls it."""
        received = np.empty((self.size, len(own)))
        self.wait(self.gather(np.array(own, np.float64), received), "numbers")
        return received.tolist()

    # --- The end

    def watch(self) -> None:
        """From now on an uncaught exception, or an end without `destroy_process_group()`, ends all ranks."""
        sys.excepthook = self._failed
        atexit.register(self._left)

    def unwatch(self) -> None:
        sys.excepthook = self.hook
        atexit.unregister(self._left)

    def _failed(self, error_type: type[BaseException], error: BaseException, trace) -> None:
        self.hook(error_type, error, trace)
        why = "was interrupted" if error_type is KeyboardInterrupt else f"failed ({error_type.__name__})"
        self.abort(130 if error_type is KeyboardInterrupt else 1, f"rank {self.rank} {why}: all ranks are ended")

    def _left(self) -> None:
        self.abort(
            1, f"rank {self.rank} ended without destroy_process_group(), which would wait for the others: all are ended"
        )

    def abort(self, code: int, why: str | None) -> None:
        """End all ranks with this exit code, after printing why."""
        if why is not None:
            print(f"tinytensor.distributed: {why}", file=sys.stderr)
        sys.stdout.flush()
        sys.stderr.flush()
        if self.size > 1:
            time.sleep(SPOKEN)
        self.MPI.COMM_WORLD.Abort(code)


_group: Group | None = None


def group(what: str) -> Group:
    """The group; ValueError, as in PyTorch, if there is none yet."""
    if _group is None:
        raise ValueError(f"{what}: this process belongs to no group yet; call init_process_group() first")
    return _group


# --- For the user


def is_available() -> bool:
    """Is mpi4py installed, which ranks need to send messages?"""
    return importlib.util.find_spec("mpi4py") is not None


def is_initialized() -> bool:
    """Has init_process_group() been called (and destroy_process_group() not yet)?"""
    return _group is not None


def is_mpi_launched() -> bool:
    """Has a launcher of MPI (mpiexec, mpirun, srun) started this process?"""
    return launcher_says() is not None or "PMIX_RANK" in os.environ


def launcher_says() -> tuple[int, int] | None:
    """(rank, number of ranks) from the launcher's environment variables; None if there are none."""
    for size, rank in LAUNCHERS.items():
        if os.environ.get(size, "").isdecimal():
            return int(os.environ.get(rank, 0)), int(os.environ[size])
    return None


def init_process_group(
    backend: str | None = None,
    init_method: str | None = None,
    timeout: timedelta | None = None,
    world_size: int = -1,
    rank: int = -1,
) -> None:
    """Join the other processes that `mpiexec` has started with this one.

    The only `backend` is "mpi", which knows the ranks: `world_size` and `rank` may be left out; otherwise they must be
    right. From now on each rank uses its share of the machine's cores (unless set_num_threads() was called), and
    dropout draws for its part of the batch. A rank that waits longer than `timeout` (30 minutes) for others fails.

    RuntimeError if mpi4py is not installed, belongs to another MPI than mpiexec, or a group exists already.
    """
    global _group
    if _group is not None:
        raise RuntimeError("init_process_group: this process belongs to a group already; destroy_process_group() first")
    if backend not in (None, "mpi", "cpu:mpi"):
        raise ValueError(f"init_process_group: backend {backend!r} is not offered; leave it out, or give 'mpi'")
    if init_method not in (None, "env://"):
        raise ValueError(
            f"init_process_group: init_method {init_method!r}: MPI's launcher connects the ranks; leave it out"
        )
    seconds = (TIMEOUT if timeout is None else timeout).total_seconds()
    MPI = _mpi()
    actual = MPI.COMM_WORLD.Get_rank(), MPI.COMM_WORLD.Get_size()
    if (launched := launcher_says()) is not None and launched[1] != actual[1]:
        raise RuntimeError(
            f"init_process_group: the launcher has started {launched[1]} processes, but MPI finds {actual[1]} here: "
            "mpiexec "
            f"and mpi4py belong to different MPIs ({_version(MPI)}); {SAME}"
        )
    for name, expected, is_ in (("rank", rank, actual[0]), ("world_size", world_size, actual[1])):
        if expected not in (-1, is_):
            ranks = f"mpiexec -n {world_size if world_size > 0 else 2} python program.py starts ranks"
            advice = "leave it out" if is_mpi_launched() else f"this process was started alone, and {ranks}"
            raise ValueError(f"init_process_group: {name}={expected}, but MPI says {is_}; {advice}")
    _group = Group(MPI, seconds)
    _group.watch()
    default_generator.part = _group.rank
    if not threads_wanted():
        set_num_threads(max(1, _group.cores // _group.neighbours))


def _mpi():
    """Load mpi4py's MPI; RuntimeError if that fails."""
    if not is_available():
        raise RuntimeError(f"init_process_group: {MISSING}: {install('mpi')} installs it, with MPICH")
    try:
        import mpi4py

        mpi4py.rc.initialize, mpi4py.rc.finalize = False, True  # MPI starts below, and ends with the process
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:
        why = " ".join(str(error).split())
        raise RuntimeError(
            f"init_process_group: mpi4py finds no MPI ({why}): pip install mpich, or install your system's"
        ) from None
    if not MPI.Is_initialized():  # a program may have imported mpi4py itself
        if "OMPI_COMM_WORLD_SIZE" in os.environ and "Open MPI" not in (version := _version(MPI)):
            raise RuntimeError(
                f"init_process_group: Open MPI's mpiexec has started this process, but mpi4py belongs to {version}, "
                f"which would end here; {SAME}"
            )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # about another MPI's launcher: our caller counts the ranks
            MPI.Init_thread(MPI.THREAD_SERIALIZED)  # one thread at a time calls MPI, which then needs no locks
    return MPI


def _version(MPI) -> str:
    """The name and version of the MPI, in the first line of its own description."""
    return " ".join(MPI.Get_library_version().splitlines()[0].split())


def destroy_process_group() -> None:
    """Wait for all ranks, and leave the group; ValueError if there is no group."""
    global _group
    here = group("destroy_process_group")
    here.wait(here.comm.Ibarrier(), "destroy_process_group")
    here.unwatch()
    here.comm.Free()
    default_generator.part = here.part_before
    _group = None


def abort(code: int = 1, why: str | None = None) -> None:
    """Print `why`, and end all ranks with this exit code. Without a group only this process ends."""
    if _group is None:
        raise SystemExit(code if why is None else why)
    _group.abort(code, why)


def get_rank() -> int:
    """The number of this process, from 0; ValueError if there is no group."""
    return group("get_rank").rank


def get_world_size() -> int:
    """The number of processes; ValueError if there is no group."""
    return group("get_world_size").size


def get_backend() -> str:
    """ "mpi"; ValueError if there is no group."""
    group("get_backend")
    return "mpi"
