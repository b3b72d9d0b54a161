"""For all tests and the processes that they start.

Uninitialized memory holds NaN (native/uninitialized.py), and no warning says that a version was not tried
(cpython/tried.py): a test run is how it is tried. Python keeps its bytecode, even where a container's settings say that
it should not: hundreds of processes would each compile all source files anew, for half a second.
"""

import os
import sys

from tests.systems import POSIX

os.environ["TINYTENSOR_UNWRITTEN"] = "nan"
os.environ["TINYTENSOR_UNTRIED"] = "off"
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# Timers end what takes too long there, or mpiexec starts ranks, which pip does not install on Windows.
collect_ignore = [] if POSIX else ["campaign", "distributed", "mutants", "models/training/test_ranks.py"]
