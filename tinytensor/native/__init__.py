"""What turns loops into machine code and runs them: the only room that knows the insides of Numba and LLVM.

`kernel.py` says what a kernel is. `entries.py` and `compiler.py` compile one, `cache.py` keeps the build, `blocks.py`
packs the arguments of a launch, and `driver.py` runs launches on threads. `vectors.py`, `tiles.py`, `squares.py` and
`fastmath.py` are what loops compute with: registers, blocks of registers, and functions of one number.
"""
