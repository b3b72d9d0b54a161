"""The private parts of NumPy, Numba and llvmlite that the engine uses, and the versions in which they were tried.

A private part may change in any release, so this file is their only list; a test compares it with the engine's source.
With an untested release, the first successful import on a machine warns once. `object_layout.py` and
`native/recording/bytecode.py` depend on CPython.
"""

import os
import re
import sys
import warnings
from contextlib import suppress
from pathlib import Path

from numpy import __version__ as numpy_version

from tinytensor.core.backend_choice import BACKEND

if BACKEND == "native":
    from numba import __version__ as numba_version
else:
    numba_version = ""  # it is not used

# The first and the last release of each with which the tests passed, by two numbers: 0.63 stands for all 0.63.x.
TESTED = {"Python": ("3.11", "3.14"), "NumPy": ("2.1", "2.5"), "Numba": ("0.63", "0.68")}

# The modules that the documentation of NumPy, Numba and llvmlite describes; names from others are private.
PUBLIC = {
    *("numba", "numba.extending", "numpy", "numpy.lib.array_utils", "numpy.lib.stride_tricks"),
    *("llvmlite", "llvmlite.ir", "llvmlite.binding"),
}

# Private modules, with the names that are imported from them.
IMPORTED = {
    "llvmlite.ir.instructions": "LoadInstr",
    "numba.core": "cgutils config errors",
    "numba.core.caching": "FunctionCache IndexDataCacheFile NullCache",
    "numba.core.ccallback": "CFunc",
    "numba.core.cgutils": "pack_array unpack_tuple",
    "numba.core.codegen": "JITCodeLibrary",
    "numba.core.compiler": "CompilerBase DefaultPassBuilder",
    "numba.core.compiler_lock": "global_compiler_lock",
    "numba.core.compiler_machinery": "PassManager register_pass",
    "numba.core.errors": "TypingError",
    "numba.core.lowering": "Lower",
    "numba.core.runtime": "rtsys",
    "numba.core.serialize": "dumps",
    "numba.core.typed_passes": "NativeLowering",
    "numba.core.typing.templates": "AbstractTemplate infer_global signature",
    "numba.np.arrayobj": "make_array populate_array",
    "numba.np.numpy_support": "from_dtype",
}

# Private attributes of objects of Numba and llvmlite, by the class that has them.
ATTRIBUTES = {
    "numba.core.caching.FunctionCache": "_cache_file _impl _load_overload",
    "numba.core.caching.IndexDataCacheFile": "_data_path _index_path _load_data _load_index _open_for_write "
    "_save_data _save_index _source_stamp _version",
    "numba.core.codegen.JITCodeLibrary": "_codegen _final_module _finalized _get_module_for_linking "
    "_linking_libraries _optimize_final_module _optimize_functions _reload_init",
    "numba.core.codegen.JITCPUCodegen": "_data_layout _tm",
    "numba.core.ccallback.CFunc": "_cache",
    "numba.core.cgutils._StructProxy": "_getvalue",
    "numba.core.errors": "_termcolor_inst",
    "llvmlite.ir.IRBuilder": "_insert",
}


def _release(version: str) -> tuple[int, ...]:
    """0.68.1 as (0, 68)."""
    return tuple(int(part) for part in version.split(".")[:2])


def untested(python: str = "", numpy: str = numpy_version, numba: str = numba_version) -> list[str]:
    """The versions in use (or those given) that lie outside of the tried ones, each with these."""
    used = {"Python": python or f"{sys.version_info[0]}.{sys.version_info[1]}", "NumPy": numpy, "Numba": numba}
    return [
        f"{name} {version} (tried: {first} to {last})"
        for (name, version), (first, last) in zip(used.items(), TESTED.values(), strict=True)
        if version and not _release(first) <= _release(version) <= _release(last)
    ]


def cache_folder() -> Path:
    """The folder of what tinytensor keeps between runs; it may not exist. RuntimeError if there is no home."""
    parent = os.environ.get("NUMBA_CACHE_DIR") or os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(parent) / "tinytensor"


UNTESTED = untested()


def _note() -> Path:
    """The file whose existence says that the warning was shown before."""
    name = "warned of " + ", ".join(UNTESTED)
    return cache_folder() / re.sub("[/:]", "_", name)  # Windows allows no colon in a name


def warn() -> None:
    """Warn of versions that were not tried, unless an import that worked has done so before on this machine.

    TINYTENSOR_UNTRIED=off leaves the warning out: the tests set it, since they are what tries a version.
    """
    if not UNTESTED or os.environ.get("TINYTENSOR_UNTRIED") == "off":
        return
    with suppress(OSError, RuntimeError):
        if _note().exists():
            return
    warnings.warn(f"tinytensor was not tried with {' and '.join(UNTESTED)}", stacklevel=2)


def remember() -> None:
    """Remember, when all is imported, that this was said; without a folder to write to, each process says it again."""
    if UNTESTED:
        with suppress(OSError, RuntimeError):
            _note().parent.mkdir(parents=True, exist_ok=True)
            _note().touch()


warn()  # before the rest of tinytensor is imported, which may miss a private part
