"""The processes of a run: how they find each other, wait for each other, and end together.

MPI starts them and carries what they say to each other; `mpi4py` is the way to it (the extra `mpi`). Nothing of it is
loaded before `init_process_group()`, so that whoever needs one process needs no MPI.

    mpiexec -n 2 python program.py        # the same program twice: get_rank() is 0 in one of them, 1 in the other

A rank that fails must not leave the others waiting for what will never come. So an exception that nobody catches ends
all ranks, and so does a rank that ends without `destroy_process_group()`; a rank that is killed is missed by MPI's own
launcher, which ends the rest.
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

from tinytensor.native.driver import set_num_threads, threads
from tinytensor.ops.creation import default_generator

TIMEOUT = timedelta(minutes=30)  # PyTorch's
PATIENCE = 200  # looks at a request before a waiting rank offers its processor to others
AWAKE, NAP = 0.01, 0.0005  # seconds after which a waiting rank sleeps, and how long: rank 0 is busy with something else
_offer_processor = getattr(os, "sched_yield", lambda: time.sleep(0))
SPOKEN = 0.2  # seconds that a last sentence takes to reach the terminal, which is cut off when a rank aborts

# Where launchers say how many processes they have started, and which of them this one is.
LAUNCHERS = {"PMI_SIZE": "PMI_RANK", "OMPI_COMM_WORLD_SIZE": "OMPI_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE": "MV2_RANK"}

SAME = (
    "use the mpiexec of the same one (that of the extra mpi lies beside python), or build mpi4py against yours: "
    "pip install --no-binary mpi4py mpi4py"
)
MISSING = "mpi4py is not installed, by which ranks speak to each other: pip install -e '.[mpi]' brings it, with MPICH"


class Group:
    """All processes of the run, as this one sees them."""

    def __init__(self, MPI, timeout: float):
        self.MPI, self.timeout = MPI, timeout
        self.comm = MPI.COMM_WORLD.Dup()  # what the user sends by mpi4py does not meet what is sent here
        self.rank, self.size = self.comm.Get_rank(), self.comm.Get_size()
        self.seconds, self.bytes = 0.0, 0  # spent in MPI, and handed to it for others, so far
        self.cores, self.neighbours = self._machine()
        self.part_before = default_generator.part
        self.hook = sys.excepthook

    def _machine(self) -> tuple[int, int]:
        """How many cores the ranks on this machine may use together, and how many ranks there are."""
        here = self.comm.Split_type(self.MPI.COMM_TYPE_SHARED)
        own = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set(range(os.cpu_count() or 1))
        cores, neighbours = len(set().union(*here.allgather(own))), here.Get_size()
        here.Free()
        return cores, neighbours

    # ------------------------------------------------------------------------------------------------------- messages

    def start(self, call: Callable, *buffers: np.ndarray) -> Any:
        """Begin one of MPI's non-blocking calls on arrays that lie in one piece; returns the request that `wait` ends.

        Only bytes are moved. What is computed of them kernels compute, in an order that does not depend on MPI.
        """
        began = time.perf_counter()
        request = call(*([buffer, self.MPI.BYTE] for buffer in buffers))
        self.seconds += time.perf_counter() - began
        return request

    def wait(self, request: Any, what: str) -> None:
        """Return when the request has been fulfilled; RuntimeError if the others do not come, or are gone."""
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
        """Begin to send row r of `parts` to rank r; what rank r sends here goes to row r of `received`: (ranks, n)."""
        self.bytes += parts.nbytes - parts.nbytes // self.size
        return self.start(self.comm.Ialltoall, parts, received)

    def gather(self, own: np.ndarray, received: np.ndarray) -> Any:
        """Begin to send `own` to all; what rank r sends goes to row r of `received` (ranks, n)."""
        self.bytes += own.nbytes * (self.size - 1)
        return self.start(self.comm.Iallgather, own, received)

    def spread(self, array: np.ndarray, source: int) -> Any:
        """Begin to send the array of one rank to all others."""
        self.bytes += array.nbytes * (self.size - 1) if self.rank == source else 0
        return self.start(partial(self.comm.Ibcast, root=source), array)

    def numbers(self, *own: float) -> list[list[float]]:
        """Some numbers of each rank: those of rank r in row r. It is short, for it is done at each step."""
        received = np.empty((self.size, len(own)))
        self.wait(self.gather(np.array(own, np.float64), received), "numbers")
        return received.tolist()

    # ------------------------------------------------------------------------------------------------------ the end

    def watch(self) -> None:
        """From now on an exception that nobody catches ends all ranks, and so does an end without goodbye."""
        sys.excepthook = self._failed
        atexit.register(self._left)

    def unwatch(self) -> None:
        sys.excepthook = self.hook
        atexit.unregister(self._left)

    def _failed(self, kind: type[BaseException], error: BaseException, trace) -> None:
        self.hook(kind, error, trace)
        why = "was interrupted" if kind is KeyboardInterrupt else f"failed ({kind.__name__})"
        self.abort(130 if kind is KeyboardInterrupt else 1, f"rank {self.rank} {why}: all ranks are ended")

    def _left(self) -> None:
        self.abort(
            1, f"rank {self.rank} ended without destroy_process_group(), which would wait for the others: all are ended"
        )

    def abort(self, code: int, why: str | None) -> None:
        """End all ranks, with this exit code, and say why."""
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


# ------------------------------------------------------------------------------------------------ for the user


def is_available() -> bool:
    """Is mpi4py installed, by which ranks speak to each other?"""
    return importlib.util.find_spec("mpi4py") is not None


def is_initialized() -> bool:
    """Has init_process_group() been called (and destroy_process_group() not yet)?"""
    return _group is not None


def is_mpi_launched() -> bool:
    """Has a launcher of MPI (mpiexec, mpirun, srun) started this process?"""
    return launcher_says() is not None or "PMIX_RANK" in os.environ


def launcher_says() -> tuple[int, int] | None:
    """(rank, how many ranks) as the launcher says in the environment, if it does."""
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

    The only `backend` is "mpi", which knows how many ranks there are: `world_size` and `rank` may be left out, and must
    be right. From here on each rank uses its share of the machine's cores (unless set_num_threads() was called), and
    dropout draws for its part of the batch. A rank that waits for the others longer than `timeout` (30 minutes) fails.

    RuntimeError if mpi4py is not installed, belongs to another MPI than mpiexec, or a group is there already.
    """
    global _group
    if _group is not None:
        raise RuntimeError("init_process_group: this process belongs to a group already; destroy_process_group() first")
    if backend not in (None, "mpi", "cpu:mpi"):
        raise ValueError(f"init_process_group: backend {backend!r} is not here; leave it out, or give 'mpi'")
    if init_method not in (None, "env://"):
        raise ValueError(
            f"init_process_group: init_method {init_method!r}: MPI's launcher says who is there; leave it out"
        )
    seconds = (TIMEOUT if timeout is None else timeout).total_seconds()
    MPI = _mpi()
    found = MPI.COMM_WORLD.Get_rank(), MPI.COMM_WORLD.Get_size()
    if (told := launcher_says()) is not None and told[1] != found[1]:
        raise RuntimeError(
            f"init_process_group: the launcher has started {told[1]} processes, but MPI finds {found[1]} here: mpiexec "
            f"and mpi4py belong to different MPIs ({_version(MPI)}); {SAME}"
        )
    for name, given, is_ in (("rank", rank, found[0]), ("world_size", world_size, found[1])):
        if given not in (-1, is_):
            ranks = f"mpiexec -n {world_size if world_size > 0 else 2} python program.py starts ranks"
            advice = "leave it out" if is_mpi_launched() else f"this process was started alone, and {ranks}"
            raise ValueError(f"init_process_group: {name}={given}, but MPI says {is_}; {advice}")
    _group = Group(MPI, seconds)
    _group.watch()
    default_generator.part = _group.rank
    if not threads.wanted:
        set_num_threads(max(1, _group.cores // _group.neighbours))


def _mpi():
    """mpi4py's MPI, loaded now; RuntimeError if it cannot be."""
    if not is_available():
        raise RuntimeError(f"init_process_group: {MISSING}")
    try:
        import mpi4py

        mpi4py.rc.initialize, mpi4py.rc.finalize = False, True  # it is begun below, and ended with the process
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:
        why = " ".join(str(error).split())
        raise RuntimeError(
            f"init_process_group: mpi4py finds no MPI ({why}): pip install mpich, or install your system's"
        ) from None
    if not MPI.Is_initialized():  # by a program that has imported mpi4py itself
        if "OMPI_COMM_WORLD_SIZE" in os.environ and "Open MPI" not in (version := _version(MPI)):
            raise RuntimeError(
                f"init_process_group: Open MPI's mpiexec has started this process, but mpi4py belongs to {version}, "
                f"which would end here; {SAME}"
            )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # of another MPI's launcher: ranks are counted above
            MPI.Init_thread(MPI.THREAD_SERIALIZED)  # one thread at a time speaks to MPI, which then need not lock
    return MPI


def _version(MPI) -> str:
    """Which MPI it is, in the first of the lines that it says of itself."""
    return " ".join(MPI.Get_library_version().splitlines()[0].split())


def destroy_process_group() -> None:
    """Wait for all ranks, and part; ValueError if there is no group."""
    global _group
    here = group("destroy_process_group")
    here.wait(here.comm.Ibarrier(), "destroy_process_group")
    here.unwatch()
    here.comm.Free()
    default_generator.part = here.part_before
    _group = None


def abort(code: int = 1, why: str | None = None) -> None:
    """End all ranks now, with this exit code; `why` is said first. Without a group only this process ends."""
    if _group is None:
        raise SystemExit(code if why is None else why)
    _group.abort(code, why)


def get_rank() -> int:
    """The number of this process, from 0; ValueError if there is no group."""
    return group("get_rank").rank


def get_world_size() -> int:
    """How many processes there are; ValueError if there is no group."""
    return group("get_world_size").size


def get_backend() -> str:
    """ "mpi"; ValueError if there is no group."""
    group("get_backend")
    return "mpi"
