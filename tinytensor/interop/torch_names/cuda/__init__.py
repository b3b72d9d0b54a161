"""tinytensor.cuda: CUDA is absent; the functions that programs call to choose a device, or without checking for one."""

from contextlib import nullcontext
from types import SimpleNamespace

from tinytensor.interop.torch_names.cuda import amp
from tinytensor.ops.argument_errors import named


def is_available() -> bool:
    """No."""
    return False


is_initialized = is_bf16_supported = is_available


def device_count() -> int:
    """None of them."""
    return 0


def _nothing(*args, **kwargs) -> None:
    """Do nothing: there is no device (PyTorch without one does nothing as well)."""


manual_seed = manual_seed_all = empty_cache = synchronize = reset_peak_memory_stats = _nothing


def memory_allocated(device=None) -> int:
    """0 bytes."""
    return 0


max_memory_allocated = memory_reserved = max_memory_reserved = memory_allocated


def device(device) -> nullcontext:
    """A context without effect."""
    return nullcontext()


def _refused(what: str):
    def refuse(*args, **kwargs):
        raise RuntimeError(f"cuda.{what}: there is no CUDA device here; ask cuda.is_available() first, use the CPU")

    refuse.__doc__ = "There is no CUDA device here: RuntimeError."
    return named(f"{__name__}.{what}", refuse)


current_device = _refused("current_device")
get_device_name = _refused("get_device_name")
get_device_properties = _refused("get_device_properties")
get_device_capability = _refused("get_device_capability")
set_device = _refused("set_device")
Event = _refused("Event")
Stream = _refused("Stream")

_asked = {"is_available": is_available, "device_count": device_count, "synchronize": synchronize}
_asked |= {"manual_seed": manual_seed, "manual_seed_all": manual_seed_all, "empty_cache": empty_cache}
mps, xpu = SimpleNamespace(**_asked), SimpleNamespace(**_asked)  # Apple's devices and Intel's, with the same functions
