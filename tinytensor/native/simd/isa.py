"""The width of this machine's vector registers, or of those that TINYTENSOR_SIMD names.

`TINYTENSOR_SIMD=avx512|avx2|neon|none` forces registers that are no wider than the machine's own, so that each path can
be tested and measured on one machine. This file is imported before any kernel is compiled.
"""

import os

import llvmlite.binding as llvm
from numba import config

from tinytensor.native.platform.operating_system import second_cache

_REGISTER = {"avx512": 64, "avx2": 32, "neon": 16, "none": 16}  # bytes ("none": LLVM makes them of smaller ones)


def widths_of(features: dict[str, bool], triple: str) -> list[str]:
    """The names of a machine's registers, the widest first, by LLVM's names for its features and for the machine.

    All machines called aarch64 or arm64 have NEON, and LLVM lists no features of Apple's.
    """
    has = [name for name, needs in (("avx512", "avx512f"), ("avx2", "fma")) if features.get(needs)]
    return [*has, *["neon"] * triple.startswith(("aarch64", "arm64")), "none"]


def _choose() -> str:
    """Return the widest vectors of this machine, or the narrower ones that TINYTENSOR_SIMD asks for.

    With narrower ones, the compiler must not use the wider ones either, so that tests and measurements run the same
    code as another machine.
    """
    features = dict.fromkeys((config.CPU_FEATURES or "").replace("+", "").split(","), True)
    if config.CPU_FEATURES is None:
        features = dict(llvm.get_host_cpu_features())
    has = widths_of(features, llvm.get_process_triple())
    asked = os.environ.get("TINYTENSOR_SIMD") or has[0]
    if asked not in has:
        raise ValueError(f"TINYTENSOR_SIMD={asked}: this machine has {', '.join(has)}; name one of these, or unset it")
    if asked != "avx512" and "avx512" in has and config.CPU_FEATURES is None:
        narrower = {name: on and not name.startswith(("avx512", "evex512")) for name, on in features.items()}
        config.CPU_FEATURES = ",".join(("+" if on else "-") + name for name, on in narrower.items())
    return asked


SIMD = _choose()  # part of the name of the folder where builds are kept
BYTES = _REGISTER[SIMD]  # in a register
NEAR = 1 << 17  # bytes: a larger array is prefetched, since it may be in no near cache
SECOND = second_cache()  # bytes; blocks are as large as suits it, which no bit of a result depends on


def processor() -> str:
    """LLVM's name for this machine's processor, such as "skylake-avx512" or "apple-m1"."""
    return llvm.get_host_cpu_name()
