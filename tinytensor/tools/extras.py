"""Packages of extras, which are imported where they are used."""

from typing import NoReturn


def need(library: str, what: str) -> NoReturn:
    """Say how to get what is not installed."""
    raise ModuleNotFoundError(f"{what} needs {library}, which is not installed: pip install tinytensor[viz]")
