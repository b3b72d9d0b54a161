"""The native backend: what makes the core fast, and what knows the machine, CPython and Numba.

`platform` is what lies below: operating systems, locks, CPython's objects, versions of packages. `simd` has vector
registers, `runtime` compiles kernels and runs them on threads, `kernels` has the loops, `fast` shortens small eager
calls, `recording` makes one program of a training step (`tinytensor.compile`). Numba is needed by all but `platform`.
"""
