"""The options of a run in a TOML file: `--config FILE.toml` reads them, and each run writes the file that repeats it.

The keys are the names of the options of `train`, with - or _ between their words. A file of four lines:

    task = "translate"
    pairs = "sentences.tsv"
    batch-size = 32
    causal = false        # the option --no-causal

An option on the command line replaces an entry. `--config NAME` there replaces all sizes and the layout of the file.
"""

import argparse
import difflib
import json
import tomllib
from pathlib import Path

from models.data.text import read_text

NAME = "config.toml"  # of the file in the folder of a run
# Options without influence on a result, and those that are about one folder: no file of a run holds them.
LEFT_OUT = {"help", "out", "resume", "threads", "eager", "live", "live_port", "profile", "tensorboard"}


def taken_out(arguments: list[str]) -> tuple[list[str], Path | None]:
    """The arguments without `--config FILE.toml`, and the file; ValueError if two files are named."""
    left, files, position = [], [], 0
    while position < len(arguments):
        name, equals, value = arguments[position].partition("=")
        following = arguments[position + 1] if position + 1 < len(arguments) else ""
        taken = 1 if equals else 2
        if name == "--config" and (value if equals else following).endswith(".toml"):
            files.append(value if equals else following)
            position += taken
        else:
            left.append(arguments[position])
            position += 1
    if len(files) > 1:
        raise ValueError(f"--config {files[1]}: {files[0]} is given already, and one file is read; put them together")
    return left, Path(files[0]) if files else None


def read(file: Path) -> dict:
    """The entries of a file by the names of options; ValueError if it is no TOML file, or has sections."""
    try:
        options = tomllib.loads(read_text(file, lambda note: None))
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{file} is not a TOML file: {error}") from None
    for name, value in options.items():
        if isinstance(value, dict):
            raise ValueError(f"{file}: [{name}] begins a section; write its entries without one, as batch-size = 16")
    return {name.replace("_", "-"): value for name, value in options.items()}


def arguments(file: Path, entries: dict, parser: argparse.ArgumentParser) -> list[str]:
    """The entries as arguments of the command line; ValueError for a name that the parser does not know."""
    switches = {name: action for action in parser._actions for name in action.option_strings}
    names = [name.removeprefix("--") for name, action in switches.items() if name.startswith("--")]
    names = [name for name in names if name != "help" and not name.startswith("no-")]
    words = []
    for name, value in entries.items():
        if name not in names:
            near = difflib.get_close_matches(name, names, 1)
            hint = f"did you mean {near[0]}?" if near else "`train --help` lists the options"
            raise ValueError(f"{file}: there is no option {name!r} here; {hint}")
        if name == "config" and str(value).endswith(".toml"):
            raise ValueError(f"{file}: config = {value!r}: a file cannot name another one; name a configuration")
        if switches[f"--{name}"].nargs == 0:  # a switch
            if not isinstance(value, bool):
                raise ValueError(f"{file}: {name} = {value!r}: true or false is needed")
            if value or f"--no-{name}" in switches:
                words.append(f"--{name}" if value else f"--no-{name}")
            continue
        text = ",".join(map(str, value)) if isinstance(value, list) else str(value)
        if text == "--":
            raise ValueError(f"{file}: {name} = '--': -- is no value; leave the entry out, or give another one")
        words.append(f"--{name}={text}")
    return words


def text(parser: argparse.ArgumentParser, values: dict, command: str) -> str:
    """The file with these values, in the order of the parser's options and under the titles of their groups."""
    lines = [
        f"# {command} train --config THIS_FILE repeats this run. An option on the command line replaces an entry,",
        "# and --config NAME all sizes and the layout.",
    ]
    for group in parser._action_groups:
        entries = [_entry(action, values.get(action.dest)) for action in group._group_actions]
        if kept := [entry for entry in entries if entry]:
            lines += ["", f"# {group.title}", *kept]
    return "\n".join(lines) + "\n"


def _entry(action: argparse.Action, value) -> str | None:
    """A line of the file, or None where there is nothing to write."""
    if action.dest in LEFT_OUT or value is None or value in ((), []):
        return None
    if value is False and f"--no-{action.option_strings[0][2:]}" not in action.option_strings:
        return None  # a switch that only turns something on
    return f"{action.option_strings[0][2:]} = {_toml(value)}"


def _toml(value) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple | list):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, int | float):
        return repr(value)
    return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")
