"""For all tests and the processes that they start.

Uninitialized memory holds NaN (native/uninitialized.py), and no warning says that a version was not tried
(cpython/tried.py): a test run is how it is tried.
"""

import os

os.environ["TINYTENSOR_UNWRITTEN"] = "nan"
os.environ["TINYTENSOR_UNTRIED"] = "off"
