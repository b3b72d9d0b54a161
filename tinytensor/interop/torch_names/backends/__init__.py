"""tinytensor.backends: PyTorch's backends, all absent: is_available() is False, and setting switches has no effect.

PyTorch's switches choose between the same bits at each run and more speed, or between more digits and fewer. Here every
run gives the same bits, for any number of threads.
"""

from types import SimpleNamespace

from tinytensor.interop.torch_names.backends import cudnn


def _absent() -> SimpleNamespace:
    return SimpleNamespace(is_available=lambda: False, is_built=lambda: False, enabled=False)


mps, mkldnn, mkl, openmp, cuda = (_absent() for _ in range(5))
cuda.matmul = SimpleNamespace(allow_tf32=False)
cuda.enable_flash_sdp = cuda.enable_mem_efficient_sdp = cuda.enable_math_sdp = lambda enabled: None
