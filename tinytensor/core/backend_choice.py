"""The choice of the backend, what computes: `native`, Numba's machine code, or `reference`, definitions in NumPy.

TINYTENSOR_BACKEND names one of them. Without it the native one computes, or where Numba is not installed (on a new
Python, a small machine, in a browser) the reference backend, with a warning. To name it says that it is meant, and no
warning comes.
"""

import os
import warnings
from importlib.util import find_spec


def choose(asked: str, has_numba: bool) -> str:
    """The backend that TINYTENSOR_BACKEND asks for, or the one that this machine has.

    ValueError for another name; ImportError where the native backend is asked for, and Numba is not installed.
    """
    if asked not in ("", "native", "reference"):
        raise ValueError(f"TINYTENSOR_BACKEND={asked}: expected native or reference; name one of these, or unset it")
    if asked == "native" and not has_numba:
        raise ImportError("TINYTENSOR_BACKEND=native: Numba is not installed; `pip install numba`, or unset it")
    if not asked and not has_numba:
        warnings.warn(
            "Numba is not installed, so tinytensor computes by its definitions in NumPy, slowly: `pip install numba`, "
            "or set TINYTENSOR_BACKEND=reference to say that this is meant",
            stacklevel=2,
        )
    return asked or ("native" if has_numba else "reference")


BACKEND = choose(os.environ.get("TINYTENSOR_BACKEND", ""), find_spec("numba") is not None)
