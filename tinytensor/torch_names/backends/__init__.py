"""PyTorch's backends, none of which is here: they say so when asked, and their switches may be set, to no effect.

What the switches choose between (the same bits at each run or more speed, more digits or fewer) is decided here: every
run gives the same bits, for any number of threads.
"""

from types import SimpleNamespace

from tinytensor.torch_names.backends import cudnn


def _absent() -> SimpleNamespace:
    return SimpleNamespace(is_available=lambda: False, is_built=lambda: False, enabled=False)


mps, mkldnn, mkl, openmp, cuda = (_absent() for _ in range(5))
cuda.matmul = SimpleNamespace(allow_tf32=False)
cuda.enable_flash_sdp = cuda.enable_mem_efficient_sdp = cuda.enable_math_sdp = lambda enabled: None
