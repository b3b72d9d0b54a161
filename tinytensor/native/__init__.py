"""Native code: loops are compiled and run here; no other room uses the internals of Numba and LLVM.

`kernel.py` defines kernels. `entries.py` and `compiler.py` compile them, `cache.py` keeps the builds, `blocks.py` packs
the arguments of a launch, and `driver.py` runs launches on threads. Loops compute with `vectors.py`, `tiles.py`,
`squares.py` and `fastmath.py`: registers, blocks of registers, and functions of one number.
"""
