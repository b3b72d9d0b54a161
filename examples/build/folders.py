"""The student's folder: which step is open in it, what may be written, and what is left as it is."""

import shlex
from pathlib import Path

from examples.build.steps import MARK, STEPS

COMMAND = "python -m examples.build"


def proposed(folder: Path, *options: str) -> str:
    """This command for a folder, with its words quoted as a shell needs it."""
    name = f"./{folder}" if str(folder).startswith("-") else str(folder)  # else it looks like an option
    return f"{COMMAND} {shlex.join([name, *options])}"


class Refused(Exception):
    """The command cannot do what it was asked; the message says why, and what to do."""


def present(folder: Path) -> int:
    """The step that is open in a folder: the last one whose own file is there, or 1."""
    return max((step.number for step in STEPS if (folder / step.files[-1]).exists()), default=1)


def is_ours(folder: Path) -> bool:
    package = folder / "__init__.py"
    return package.is_file() and package.read_text(encoding="utf-8", errors="replace").startswith(MARK)


def ours(folder: Path, must_exist: bool) -> None:
    """Refuse a folder that holds something else."""
    if folder.is_file():
        raise Refused(f"{folder} is a file. Give the name of a folder, such as my_engine.")
    if not folder.exists():
        if must_exist:
            raise Refused(f"There is no folder {folder}. `{proposed(folder)}` writes the first step into it.")
        return
    if not is_ours(folder) and (must_exist or any(folder.iterdir())):
        raise Refused(
            f"{folder} is a folder that this command did not write: its __init__.py does not begin with the line of "
            "this command. Nothing was changed. Give the name of a new folder."
        )


def write(folder: Path, texts: dict[str, str]) -> None:
    """Write files that are not there yet; name those that are."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        path = folder / name
        if path.exists():
            if path.read_text(encoding="utf-8", errors="replace") != text:
                print(f"{path} is there already and differs from what would be written. Yours stays.")
        else:
            path.write_text(text, encoding="utf-8")


def files_of(number: int) -> list[str]:
    """The files that exist once this step is open, in their order, without __init__.py."""
    return list(dict.fromkeys(file for step in STEPS[:number] for file in step.files + step.early))
