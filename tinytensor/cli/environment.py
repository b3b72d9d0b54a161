"""What a bug report needs to know of this machine (`tinytensor info --environment`), and the cache of kernels."""

import os
import platform
import shutil
import sys
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as version_of
from pathlib import Path

from tinytensor.core.backend_choice import BACKEND
from tinytensor.core.threads import get_num_threads
from tinytensor.native.platform import tested_versions
from tinytensor.native.platform.distribution import NAME, clone, version

if BACKEND == "native":
    from tinytensor.native.runtime.cache import root
    from tinytensor.native.simd.isa import BYTES, SIMD, processor

NEEDED = ("numpy", "numba", "llvmlite", "sympy", "safetensors")
OPTIONAL = (
    "tqdm",
    "matplotlib",
    "tokenizers",
    "sacrebleu",
    "latex2mathml",
    "grandalf",
    "gmpy2",
    "python-flint",
    "mpi4py",
)
VARIABLES = ("TINYTENSOR_", "NUMBA_", "OMP_", "XDG_CACHE_HOME")  # beginnings of the names that change what is run


def describe() -> str:
    """Versions, processor, registers, threads and the cache of kernels, a line for each."""
    rows = {
        NAME: f"{version()}, {'in the clone' if clone() else 'installed in'} {clone() or Path(__file__).parents[1]}",
        "python": f"{platform.python_version()} ({platform.python_implementation()}), {sys.executable}",
        "system": platform.platform(),
        **{name: _version(name) for name in NEEDED},
        "not tried": "; ".join(tested_versions.untested()) or "nothing: these versions were tried",
        "extras": ", ".join(f"{name} {_version(name)}" for name in OPTIONAL if _version(name) != MISSING) or "none",
        "backend": BACKEND,
        **(_native() if BACKEND == "native" else {}),
        "threads": f"{get_num_threads()}",
        "variables": " ".join(f"{k}={v}" for k, v in sorted(os.environ.items()) if k.startswith(VARIABLES)) or "none",
    }
    wide = max(map(len, rows))
    return "\n".join(f"{name:<{wide}}  {value}" for name, value in rows.items())


def _native() -> dict[str, str]:
    """What the native backend knows of this machine."""
    return {
        "processor": f"{processor()} ({platform.machine()}), {os.cpu_count()} cores",
        "registers": f"{SIMD}, {8 * BYTES} bits",
        "cache": f"{root()}, {cache_size() / 1e6:.1f} MB",
    }


MISSING = "not installed"


def _version(name: str) -> str:
    try:
        return version_of(name)
    except PackageNotFoundError:
        return MISSING


def cache_size() -> int:
    """The bytes of all kept builds of kernels."""
    return sum(file.stat().st_size for file in root().rglob("*") if file.is_file())


def clear_cache() -> int:
    """Delete all kept builds of kernels; return their bytes. The next program compiles the kernels that it needs."""
    size = cache_size()
    for entry in root().iterdir():
        if entry.is_dir():
            shutil.rmtree(entry)
        else:
            entry.unlink()
    return size
