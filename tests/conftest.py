"""For all tests, and processes that they start: memory that nobody has written holds NaN (tinytensor/unwritten.py)."""

import os

os.environ["TINYTENSOR_UNWRITTEN"] = "nan"
