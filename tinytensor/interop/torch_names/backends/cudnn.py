"""tinytensor.backends.cudnn: cuDNN is absent, and setting its switches has no effect."""

enabled, deterministic, benchmark, allow_tf32 = False, True, False, False


def is_available() -> bool:
    """No."""
    return False


def version() -> None:
    """None is here."""
    return None
