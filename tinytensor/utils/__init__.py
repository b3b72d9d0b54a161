"""Utilities around tensors and the engine.

`data.py`, `benchmark.py`, `tensorboard.py` and `einops.py` are for programs, at PyTorch's paths; so is `profiler.py`,
as `tinytensor.profiler`. `printing.py` shows tensors as text, `display` formulas in notebooks, `docs` makes
documentation from the source, and `lazy_imports.py` loads what is rarely needed at its first use.
"""

from tinytensor.utils import data
