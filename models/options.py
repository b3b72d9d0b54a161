"""Settings that say what they mean: fields of dataclasses which the command line offers."""

import argparse
import math
from dataclasses import field, fields


def option(default, help: str, choices: tuple = (), least=None, below=None, default_text: str = ""):
    """A field of a dataclass with its explanation, the values it may have, and between which numbers it must lie.

    A whole `least` asks for whole numbers.
    """
    about = {"help": help, "choices": choices, "least": least, "below": below, "default_text": default_text}
    return field(default=default, metadata=about)


def check(settings) -> None:
    """Raise ValueError for the first field with a value that it may not have; SymPy symbols are not looked at."""
    for entry in fields(settings):
        value, about = getattr(settings, entry.name), entry.metadata
        if about.get("choices") and value not in about["choices"]:
            raise ValueError(f"{entry.name} = {value!r}: choose one of {', '.join(about['choices'])}")
        least, below = about.get("least"), about.get("below")
        if isinstance(value, str) and least is not None:
            raise ValueError(f"{entry.name} = {value!r}: a number is needed, not text")
        if least is None or not isinstance(value, int | float):
            continue
        whole = isinstance(least, int)
        if not least <= value < (math.inf if below is None else below) or (whole and value != int(value)):
            wanted = f"{'a whole number of ' if whole else ''}{least:g} or more"
            raise ValueError(
                f"{entry.name} = {value}: {wanted}{'' if below is None else f', below {below:g},'} is needed"
            )


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


def _numbers(value: str) -> tuple[float, ...]:
    try:
        return tuple(float(x) for x in value.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{value!r} is not a list of numbers with commas between them") from None
