"""Fast paths of small eager calls: they save time, and change no result.

`fast_calls.py` shortens the calls of operations; `launch_cache.py` repeats the launches of an earlier call. Both are
set in core/late_bound.py when this room is imported, unless `TINYTENSOR_FAST=off` is set.
"""

import os

from numba import config

from tinytensor.core import late_bound
from tinytensor.native.fast.fast_calls import shortcut
from tinytensor.native.fast.launch_cache import on_tensors, with_launch_cache

_switch = os.environ.get("TINYTENSOR_FAST", "on")
if _switch not in ("on", "off"):
    raise ValueError(f"TINYTENSOR_FAST={_switch}: expected on or off")
if _switch == "on" and not config.DISABLE_JIT:  # these paths call machine code, which a debugger has switched off
    late_bound.shortcut, late_bound.on_arrays, late_bound.on_tensors = shortcut, with_launch_cache, on_tensors
