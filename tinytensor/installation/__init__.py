"""How this copy is installed: its name and version, from where it runs, and the versions that were tried with it.

`distribution.py` has the name under which the package is installed, and the advice that names it. `tried.py` lists
the private parts of NumPy and Numba that the engine uses, with the versions in which they were tried.
"""
