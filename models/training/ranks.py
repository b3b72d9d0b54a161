"""One run on several processes, its ranks: `mpiexec -n 2 python -m models train ...`.

All ranks read the same data in the same order, and each takes its rows of every batch. Only rank 0 prints, shows the
progress bar, evaluates, samples, and writes log and checkpoints; the others wait for it at the next step. Without
`mpiexec` there is one process, and MPI is not loaded.
"""

import os
import sys
from collections.abc import Callable
from contextlib import ExitStack, contextmanager, redirect_stdout
from pathlib import Path
from typing import TypeVar

import numpy as np

from tinytensor import distributed
from tinytensor.distributed.group import group, launcher_says

T = TypeVar("T")


class SaidByAnother(Exception):
    """Another rank reports this error; this rank ends with the same exit code and prints nothing."""


def count() -> int:
    """How many ranks there are."""
    return distributed.get_world_size() if distributed.is_initialized() else 1


def rank() -> int:
    """The number of this rank, from 0."""
    return distributed.get_rank() if distributed.is_initialized() else 0


@contextmanager
def said_once():
    """Before the ranks have joined, let only the launcher's rank 0 report an error that all of them find."""
    try:
        yield
    except ValueError:
        if (launcher_says() or (0, 1))[0] > 0:
            raise SaidByAnother from None
        raise


@contextmanager
def joined():
    """Join the other ranks if a launcher of MPI has started this process; only rank 0 prints.

    If that fails: ValueError in one of the ranks, SaidByAnother in the others.
    """
    if not distributed.is_mpi_launched():
        yield
        return
    try:
        distributed.init_process_group()
    except RuntimeError as error:
        with said_once():
            raise ValueError(str(error)) from None
    with ExitStack() as stack:
        if rank() > 0:
            stack.enter_context(redirect_stdout(stack.enter_context(open(os.devnull, "w", encoding="utf-8"))))
        yield
        distributed.destroy_process_group()


def seen() -> bool:
    """Is the standard error a terminal? A launcher passes it on, so the launcher's own is examined."""
    if sys.stderr.isatty() or not distributed.is_mpi_launched():
        return sys.stderr.isatty()
    process = os.getppid()
    while process > 1:
        try:
            stat = Path(f"/proc/{process}/stat").read_text(encoding="utf-8")
            if any(name in stat[: stat.rindex(")")] for name in ("mpiexec", "mpirun", "prterun", "orterun")):
                return Path(f"/proc/{process}/fd/2").readlink().parts[1:3] == ("dev", "pts")
            process = int(stat[stat.rindex(")") :].split()[2])
        except (OSError, ValueError):  # another system, or a process of another user
            return False
    return False


def agreed(prepare: Callable[[], T]) -> T:
    """prepare() on all ranks; if it raises on any of them, all end.

    The first such rank ends with its exception, the others with SaidByAnother, so that an error is reported once.
    """
    if count() == 1:
        return prepare()
    made, error = None, None
    try:
        made = prepare()
    except Exception as raised:
        error = raised
    failed, me = [row[0] > 0 for row in numbers(error is not None)], rank()
    if not any(failed):
        return made
    distributed.destroy_process_group()
    raise error if failed.index(True) == me else SaidByAnother


def numbers(*own: float) -> list[list[float]]:
    """The numbers of all ranks: those of rank r in row r."""
    return group("numbers").numbers(*own)


def share(rows: int, parts: int) -> int:
    """How many rows each part has."""
    return -(-rows // parts)


def rows_of(batch: tuple[np.ndarray, ...], nothing: tuple[int, ...], part: int, parts: int) -> list[np.ndarray]:
    """The rows of part number `part` of a batch; all parts have equally many rows.

    If rows are missing, rows of `nothing` (a number for each array) stand in their place, which no loss counts.
    """
    rows = share(len(batch[0]), parts)
    gathered = []
    for array, number in zip(batch, nothing, strict=True):
        own = array[part * rows : (part + 1) * rows]
        missing = np.full((rows - len(own), *array.shape[1:]), number, array.dtype)
        gathered.append(np.concatenate([own, missing]))
    return gathered
