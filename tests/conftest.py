"""For all tests and the processes that they start: uninitialized memory holds NaN (native/uninitialized.py)."""

import os

os.environ["TINYTENSOR_UNWRITTEN"] = "nan"
