"""For all tests and the processes that they start.

Uninitialized memory holds NaN (native/uninitialized.py), and no warning says that a version was not tried
(cpython/tried.py): a test run is how it is tried.
"""

import os

from tests.systems import POSIX

os.environ["TINYTENSOR_UNWRITTEN"] = "nan"
os.environ["TINYTENSOR_UNTRIED"] = "off"

# Timers end what takes too long there, or mpiexec starts ranks, which pip does not install on Windows.
collect_ignore = [] if POSIX else ["campaign", "distributed", "mutants", "models/training/test_ranks.py"]
