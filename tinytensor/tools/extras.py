"""The error for a missing package of an extra; such packages are imported where they are used."""

from typing import NoReturn

from tinytensor.platform.distribution import install


def need(library: str, what: str) -> NoReturn:
    """Raise ModuleNotFoundError with the command that installs the library."""
    raise ModuleNotFoundError(f"{what} needs {library}, which is not installed: {install('viz')}")
