"""What lies below the engine: the system, CPython's objects, the packages it needs, and how this copy is installed.

`object_layout.py` reads where objects lie in memory; it compares its tables with real objects when it is imported.
Nothing else in the engine reads an object by its address.

`tested_versions.py` lists the private parts of NumPy and Numba that the engine uses, and the versions that were tested.
`operating_system.py` has what differs between Linux, macOS and Windows: locks, the memory there is, a pipe's encoding.
`locks.py` has the locks between threads, which a child process finds open.
`distribution.py` has the name under which the package is installed, and the advice that names it.
"""
