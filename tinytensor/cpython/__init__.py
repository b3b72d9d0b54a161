"""What lies below the engine: CPython itself, the packages that it needs, and how this copy is installed.

`object_layout.py` and `bytecode.py` read where objects lie in memory, and the bytecode of functions. The first compares
its tables with real objects when it is imported. Nothing else in the engine reads an object by its address or an
instruction by its name.

`tried.py` lists the private parts of NumPy and Numba that the engine uses, with the versions in which they were tried.
`systems.py` has what differs between Linux, macOS and Windows: locks, the memory there is, what a pipe's bytes mean.
`locks.py` has the locks between threads, which a child process finds open.
`distribution.py` has the name under which the package is installed, and the advice that names it.
"""
