"""How much memory a run needs at least, checked before it begins.

The system grants memory that it does not have, and kills the process that then uses it. So a run that certainly does
not fit is refused before anything is lost. The figures are lower bounds: a run that passes may still need too much.
"""

from pathlib import Path

from tinytensor.native.platform.operating_system import memory

NUMBER = 4  # bytes of a float32
OF_A_WEIGHT = 4  # the weight, its gradient, and AdamW's two averages


def limit() -> int:
    """The bytes that this process can have: the machine's, or fewer where a limit is set."""
    limits = [memory()]
    container = Path("/sys/fs/cgroup/memory.max")  # Linux's limit for a group of processes
    if container.is_file() and (text := container.read_text(encoding="utf-8").strip()).isdecimal():
        limits.append(int(text))
    return min(limits)


def check_fits(what: str, numbers: int) -> None:
    """Raise ValueError if so many float32 numbers cannot be held at once; `what` names the sizes to blame."""
    needed, there = numbers * NUMBER, limit()
    if needed > there:
        raise ValueError(f"{what} would need at least {_size(needed)} of memory; there are {_size(there)}")


def check_training(config, batch_size: int) -> None:
    """Raise ValueError if a model of this configuration cannot be trained here with this batch."""
    numbers = OF_A_WEIGHT * config.weights() + batch_size * config.activations()
    check_fits(f"training {config.sizes()} on batches of {batch_size:,}", numbers)


def _size(size: int) -> str:
    return f"{size / 1e9:,.1f} GB" if size < 1e15 else f"{size:.0e} bytes"
