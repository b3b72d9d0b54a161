"""Native code: kernels are compiled and run here.

`kernel.py` defines kernels. `entry_points.py` and `compiler.py` compile them, `cache.py` keeps the builds,
`launch_args.py` packs the arguments of a launch, `shape_checks.py` checks their sizes, and `scheduler.py` runs launches
on threads. Only this room and `simd` use the internals of Numba and LLVM.
"""
