"""Settings with explanations and limits: fields of dataclasses, which the command line offers as options."""

import argparse
import os
import shlex
import sys
from contextlib import suppress
from dataclasses import field, fields
from pathlib import Path
from types import SimpleNamespace
from typing import get_args

# How this program was started, for the messages that advise to run it: as `tinytensor train`, say.
called = SimpleNamespace(name="models", command="python -m models")


class UsageError(ValueError):
    """The given options do not fit together."""


def proposed(*words: str | Path) -> str:
    """A command for the user to run, with its words quoted as a shell needs it: `tinytensor train ...`."""
    # A folder whose name begins with - would be read as an option.
    names = [f"./{word}" if isinstance(word, Path) and str(word).startswith("-") else str(word) for word in words]
    return f"{called.command} {shlex.join(names)}"


def option(default, help: str, choices: tuple = (), least=None, below=None, most=None, default_text: str = ""):
    """A field of a dataclass with its explanation, the values it may have, and between which numbers it must lie.

    With a whole `least` the value is a whole number. It stays below `below`, and is at most `most`.
    """
    about = {"help": help, "choices": choices, "default_text": default_text}
    return field(default=default, metadata=about | _limits(least, below, most))


def setting(default, least=None, below=None, most=None):
    """A field with the same bounds that the command line does not offer; checkpoints hold it too."""
    return field(default=default, metadata=_limits(least, below, most))


def _limits(least, below, most) -> dict:
    return {"least": least, "below": below, "most": most}


NUMBERS = (int, float, int | None)  # the types of the fields that hold one number
LARGEST = sys.float_info.max  # larger whole numbers do not fit the machine's


def check(settings) -> None:
    """Raise ValueError for the first field whose value is not allowed; SymPy symbols pass.

    Settings come from a command line or from a file, which may hold anything: so types are checked first.
    """
    for entry in fields(settings):
        name, value, about = entry.name, getattr(settings, entry.name), entry.metadata
        if about.get("choices") and (not isinstance(value, str) or value not in about["choices"]):
            raise ValueError(f"{name} = {value!r}: choose one of {', '.join(about['choices'])}")
        if entry.type is bool and not isinstance(value, bool):
            raise ValueError(f"{name} = {value!r}: True or False is needed")
        if entry.type in NUMBERS:
            _check_number(name, value, entry.type, about)
        elif entry.type not in (bool, str):
            _check_list(name, value, entry.type, about.get("below"))


def _check_number(name: str, value, annotation, about) -> None:
    if value is None and annotation == int | None:
        return
    if value is None or isinstance(value, bool | str | list | tuple | dict):
        what = "text" if isinstance(value, str) else repr(value)
        raise ValueError(f"{name} = {value!r}: a number is needed, not {what}")
    least, below, most = (about.get(limit) for limit in ("least", "below", "most"))
    if not isinstance(value, int | float):
        return
    whole = annotation in (int, int | None)
    if least is None:
        least = -LARGEST
    high = value >= below if below is not None else value > (LARGEST if most is None else most)
    if not least <= value <= LARGEST or high or (whole and not isinstance(value, int)):
        wanted = f"{'a whole number of ' if whole else ''}{least:g} or more"
        limit = f", below {below:g}," if below is not None else f", at most {most:,}," if most is not None else ""
        raise ValueError(f"{name} = {value}: {wanted}{limit} is needed")


def _check_list(name: str, value, annotation, below) -> None:
    """The type says how many numbers there are: tuple[float, float] two, tuple[float, ...] any number."""
    if not isinstance(value, tuple | list):
        raise ValueError(f"{name} = {value!r}: a list of numbers is needed")
    count = get_args(annotation)
    if Ellipsis not in count and len(value) != len(count):
        raise ValueError(f"{name} = {value!r}: {len(count)} numbers are needed")
    for x in value:
        number = isinstance(x, int | float) and not isinstance(x, bool)
        if not number or not 0 <= x <= LARGEST or (below is not None and x >= below):
            limit = "" if below is None else f" and below {below:g}"
            raise ValueError(f"{name}: {x!r} among its values: numbers of 0 or more{limit} are needed")


def add_options(group, cls, leave_out: tuple[str, ...] = (), instead: dict | None = None) -> None:
    """An option --like-this for each field like_this of a dataclass that has an explanation.

    The help shows the fields' defaults, or those that stand in `instead`.
    """
    for entry in fields(cls):
        about = entry.metadata
        if "help" not in about or entry.name in leave_out:
            continue
        name, annotation = "--" + entry.name.replace("_", "-"), entry.type
        default = about["default_text"] or (instead or {}).get(entry.name, entry.default)
        text = about["help"] + ("" if default == () else f" (default: {default})")
        if about["choices"]:
            group.add_argument(name, choices=about["choices"], help=text)
        elif annotation is bool:
            group.add_argument(name, action=argparse.BooleanOptionalAction, help=text)
        elif annotation is float:
            group.add_argument(name, metavar="X", type=float, help=text)
        elif annotation in (int, int | None):
            group.add_argument(name, metavar="N", type=int, help=text)
        else:
            group.add_argument(name, metavar="X,X", type=_numbers, help=text)


def flags_for(cls, flags: dict) -> dict:
    """Those of the given options that are fields of the dataclass."""
    return {entry.name: flags[entry.name] for entry in fields(cls) if entry.name in flags}


def path(value: str) -> Path:
    """The path that an option names: one that the system could open, whether or not it exists."""
    try:
        with suppress(FileNotFoundError, NotADirectoryError):
            os.stat(value)
        return Path(value)
    except (ValueError, OSError) as error:  # a NUL in it, a loop of symbolic links
        reason = getattr(error, "strerror", None) or "it holds a NUL or an invalid character"
        raise argparse.ArgumentTypeError(f"{value[:100]!r} is no path that can be used: {reason}") from None


def data_path(value: str) -> Path:
    """The path of a run's data, which files of the run are to hold: they are UTF-8."""
    location = path(value)
    try:
        str(location.absolute()).encode()
    except UnicodeEncodeError:
        raise argparse.ArgumentTypeError(
            f"{value[:100]!r}: the name of this file, or of a folder above it, is not UTF-8, and the files of a run "
            "cannot hold it: rename it"
        ) from None
    return location


def columns(count: int):
    """Reads the value of --columns: so many numbers of columns, from 1, or so many names."""

    def read(value: str) -> tuple[int, ...] | tuple[str, ...]:
        names = [x.strip() for x in value.split(",")]
        if len(names) == count and all(x.isdecimal() and int(x) for x in names):
            return tuple(map(int, names))
        if len(names) == count and all(names) and not any(x.isdecimal() or x[0] == "-" for x in names):
            return tuple(names)
        raise argparse.ArgumentTypeError(
            f"{value!r} is not {count} columns with commas between them: numbers, counted from 1, or names"
        )

    return read


def _numbers(value: str) -> tuple[float, ...]:
    try:
        return tuple(float(x) for x in value.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{value!r} is not a list of numbers with commas between them") from None
