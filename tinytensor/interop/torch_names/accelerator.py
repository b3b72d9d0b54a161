"""tinytensor.accelerator: PyTorch's questions about accelerators; there is none, only the CPU."""


def is_available() -> bool:
    """False."""
    return False


def device_count() -> int:
    """0."""
    return 0


def current_accelerator(check_available: bool = False) -> None:
    """None, since there is no accelerator."""
    return None
