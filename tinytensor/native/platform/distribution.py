"""The name under which this package is installed, its version, the folder of its programs, and how to add an extra.

The import name is `tinytensor`. The name on the package index is another one: NAME is its only place in the code.
"""

import re
import shlex
import tomllib
from importlib.metadata import PackageNotFoundError
from importlib.metadata import entry_points as installed_entry_points
from importlib.metadata import version as version_of
from pathlib import Path
from typing import NoReturn

NAME = "tinytensor-autograd"
PACKAGE = Path(__file__).parents[2]


def clone() -> Path | None:
    """The folder of the clone from which this copy runs; None if it was installed from a wheel."""
    folder = PACKAGE.parent
    return folder if (folder / "pyproject.toml").is_file() and (folder / "models").is_dir() else None


def programs() -> Path:
    """The folder that holds `models`, `derivations` and `examples`: the clone, or a part of the wheel.

    In a wheel they lie in `tinytensor/programs`, since a package named `models` in `site-packages` would hide a user's
    own. They import each other as `models` and `derivations` in both places, so the command `tinytensor`
    puts this folder on `sys.path`.
    """
    return clone() or PACKAGE / "programs"


def entry_points(group: str) -> dict[str, str]:
    """The entry points of a group, by name: those of a clone's pyproject.toml, which need no installation, or all."""
    folder = clone()
    if folder is None:
        return {point.name: point.value for point in installed_entry_points(group=group)}
    return tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]["entry-points"][group]


def version() -> str:
    """The version: that of the installed distribution; in a clone that is not installed, that of pyproject.toml."""
    try:
        return version_of(NAME)
    except PackageNotFoundError:
        folder = clone()
        if folder is None:
            return "unknown"
        return re.search(r'^version = "(.+)"', (folder / "pyproject.toml").read_text(encoding="utf-8"), re.M)[1]


def install(extra: str) -> str:
    """The command that installs the packages of an extra: in a clone for the clone, else for the installed package."""
    folder = clone()
    if folder is None:
        return f"pip install '{NAME}[{extra}]'"
    path = "." if Path.cwd() == folder else folder
    return f"pip install -e {shlex.quote(f'{path}[{extra}]')}"


def missing_package(library: str, what: str) -> NoReturn:
    """Raise ModuleNotFoundError with the command that installs the library, a package of the extra viz."""
    raise ModuleNotFoundError(f"{what} needs {library}, which is not installed: {install('viz')}")
