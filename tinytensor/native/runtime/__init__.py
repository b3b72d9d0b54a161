"""Native code: kernels are compiled and run here.

`kernel.py` defines kernels. `entry_points.py` and `compiler.py` compile them, `cache.py` keeps the builds,
`launch_args.py` packs the arguments of a launch, `scheduler.py` runs launches on threads, `native_backend.py` is the
backend that does all this. Only this room and `simd` use the internals of Numba and LLVM.
"""

from tinytensor.core.backend_choice import BACKEND

if BACKEND != "native":
    raise ImportError(
        "tinytensor: the reference backend computes here, without compiled kernels; proofs, derivations and the cache "
        "need the native one: install Numba (`pip install numba`), and unset TINYTENSOR_BACKEND"
    )
