"""Settings that say what they mean: fields of dataclasses which the command line offers as options, checked in one way."""

import argparse
import math
from dataclasses import MISSING, field, fields


def option(default, help: str, choices: tuple = (), least=None, default_text: str = ""):
    """A field of a dataclass with its explanation, the values it may have, and the least number it may be."""
    about = {"help": help, "choices": choices, "least": least, "default_text": default_text}
    return field(default=default, metadata=about)


def check(settings) -> None:
    """Raise ValueError for the first field that has none of its choices or is less than its least number.

    Where the least number is whole the field must be too; sizes that are SymPy symbols are not looked at.
    """
    for entry in fields(settings):
        value, about = getattr(settings, entry.name), entry.metadata
        if about.get("choices") and value not in about["choices"]:
            raise ValueError(f"{entry.name} = {value!r}: choose one of {', '.join(about['choices'])}")
        least = about.get("least")
        if least is None or not isinstance(value, int | float):
            continue
        if isinstance(least, int) and value != int(value) or value < least:
            what = "sizes must be whole numbers of" if isinstance(least, int) else "a number of"
            raise ValueError(f"{entry.name} = {value}: {what} {least:g} or more")
        if not math.isfinite(value):
            raise ValueError(f"{entry.name} = {value}: a finite number is needed")


def add_options(group, cls, leave_out: tuple[str, ...] = ()) -> None:
    """An option --like-this for each field like_this of a dataclass that has an explanation."""
    for entry in fields(cls):
        about = entry.metadata
        if "help" not in about or entry.name in leave_out:
            continue
        name, kind = "--" + entry.name.replace("_", "-"), entry.type
        text = about["help"] + (f" (default: {about['default_text']})" if about["default_text"] else "")
        if about["choices"]:
            group.add_argument(name, choices=about["choices"], help=text)
        elif kind is bool:
            group.add_argument(name, action=argparse.BooleanOptionalAction, help=text)
        elif kind in (int, float, int | None):
            whole = kind is not float
            group.add_argument(name, metavar="N" if whole else "X", type=int if whole else float, help=text)
        elif entry.default is not MISSING and isinstance(entry.default, tuple):
            group.add_argument(name, metavar="X,X", type=_numbers, help=text)


def given_for(cls, given: dict) -> dict:
    """Those of the options that are fields of the dataclass."""
    return {entry.name: given[entry.name] for entry in fields(cls) if entry.name in given}


def _numbers(value: str) -> tuple[float, ...]:
    try:
        return tuple(float(x) for x in value.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{value!r} is not a list of numbers with commas between them") from None
