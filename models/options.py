"""Settings that say what they mean: fields of dataclasses which the command line offers."""

import argparse
import math
from dataclasses import field, fields
from pathlib import Path


def option(default, help: str, choices: tuple = (), least=None, below=None, most=None, default_text: str = ""):
    """A field of a dataclass with its explanation, the values it may have, and between which numbers it must lie.

    A whole `least` asks for whole numbers. `below` is a bound that the value does not reach, `most` one that it may.
    """
    limits = {"least": least, "below": below, "most": most}
    return field(default=default, metadata={"help": help, "choices": choices, "default_text": default_text} | limits)


NUMBERS = (int, float, int | None)  # the types of the fields that hold one number


def check(settings) -> None:
    """Raise ValueError for the first field with a value that it may not have; SymPy symbols are not looked at.

    Settings come from a command line or from a file, which may hold anything: so the type is looked at first.
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
            _check_list(name, value)


def _check_number(name: str, value, kind, about) -> None:
    if value is None and kind == int | None:
        return
    if value is None or isinstance(value, bool | str | list | tuple | dict):
        what = "text" if isinstance(value, str) else repr(value)
        raise ValueError(f"{name} = {value!r}: a number is needed, not {what}")
    least, below, most = (about.get(limit) for limit in ("least", "below", "most"))
    if least is None or not isinstance(value, int | float):
        return
    whole = isinstance(least, int)
    high = value >= below if below is not None else value > (math.inf if most is None else most)
    if not least <= value < math.inf or high or (whole and value != int(value)):
        wanted = f"{'a whole number of ' if whole else ''}{least:g} or more"
        limit = f", below {below:g}," if below is not None else f", at most {most:,}," if most is not None else ""
        raise ValueError(f"{name} = {value}: {wanted}{limit} is needed")


def _check_list(name: str, value) -> None:
    if not isinstance(value, tuple | list):
        raise ValueError(f"{name} = {value!r}: a list of numbers is needed")
    for x in value:
        if isinstance(x, bool) or not isinstance(x, int | float) or not 0 <= x < math.inf:
            raise ValueError(f"{name}: {x!r} among its values: numbers of 0 or more are needed")


def add_options(group, cls, leave_out: tuple[str, ...] = (), instead: dict | None = None) -> None:
    """An option --like-this for each field like_this of a dataclass that has an explanation.

    The help shows the fields' defaults, or those that stand in `instead`.
    """
    for entry in fields(cls):
        about = entry.metadata
        if "help" not in about or entry.name in leave_out:
            continue
        name, kind = "--" + entry.name.replace("_", "-"), entry.type
        default = about["default_text"] or (instead or {}).get(entry.name, entry.default)
        text = about["help"] + ("" if default == () else f" (default: {default})")
        if about["choices"]:
            group.add_argument(name, choices=about["choices"], help=text)
        elif kind is bool:
            group.add_argument(name, action=argparse.BooleanOptionalAction, help=text)
        elif kind is float:
            group.add_argument(name, metavar="X", type=float, help=text)
        elif kind in (int, int | None):
            group.add_argument(name, metavar="N", type=int, help=text)
        else:
            group.add_argument(name, metavar="X,X", type=_numbers, help=text)


def given_for(cls, given: dict) -> dict:
    """Those of the given options that are fields of the dataclass."""
    return {entry.name: given[entry.name] for entry in fields(cls) if entry.name in given}


def path(value: str) -> Path:
    """A path as an option takes it: one that the system could open, whether or not something is there."""
    try:
        Path(value).resolve().exists()
        return Path(value)
    except (ValueError, OSError, RuntimeError) as error:  # a NUL in it, a loop of symbolic links
        reason = getattr(error, "strerror", None) or "it holds a NUL, or links lead round in a circle"
        raise argparse.ArgumentTypeError(f"{value[:100]!r} is no path that can be used: {reason}") from None


def _numbers(value: str) -> tuple[float, ...]:
    try:
        return tuple(float(x) for x in value.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{value!r} is not a list of numbers with commas between them") from None
