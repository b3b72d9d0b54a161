"""PyTorch's way to ask for whatever computes fast: there is none but the CPU."""


def is_available() -> bool:
    """No."""
    return False


def device_count() -> int:
    """None of them."""
    return 0


def current_accelerator(check_available: bool = False) -> None:
    """None is here."""
    return None
