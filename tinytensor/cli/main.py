"""`tinytensor SUBCOMMAND ...`: the subcommands, and how one is started."""

import difflib
import importlib
import sys
from functools import cache
from pathlib import Path
from types import ModuleType

from tinytensor.cli.output import run_command
from tinytensor.native.platform.distribution import entry_points, programs, version

# The modules of the command's own subcommands, whose function `main` takes the arguments and returns the exit code, and
# what they do. Programs above the engine (models, derivations) add others: `added` finds them.
OWN = {
    "derive": ("tinytensor.cli.derive", "the gradients of FILE.py:NAME for any size, proved"),
    "check": ("tinytensor.cli.check", "is a gradient by hand of FILE.py:NAME right, for any size?"),
    "certify": ("tinytensor.cli.certify", "let Coq's kernel check a certificate that derive wrote"),
    "prove": ("tinytensor.cli.prove", "prove that the gradients of FILE.py:NAME are its derivatives"),
    "explain": ("tinytensor.cli.explain", "the backward pass of FILE.py:NAME in words, or as a page"),
    "course": ("tinytensor.cli.course", "write the lessons of the course into a folder"),
    "cache": ("tinytensor.cli.cache", "the kept builds of kernels: where they are, and --clear"),
    "completion": ("tinytensor.cli.completion", "a script that completes this command in bash or zsh"),
}
HELP = ("-h", "--help")


@cache
def added() -> dict[str, ModuleType]:
    """The subcommands that other programs add, each with its module, which has SUBCOMMANDS, `run` and `parsers`.

    The programs come before packages of the same name that lie in the working folder.
    """
    sys.path.insert(0, str(programs()))
    modules = [importlib.import_module(path) for path in entry_points("tinytensor.subcommands").values()]
    return {name: module for module in modules for name in module.SUBCOMMANDS}


def called() -> str:
    """How this command was called: `tinytensor`, or `python -m tinytensor`."""
    return "python -m tinytensor" if Path(sys.argv[0]).name in ("__main__.py", "-m") else "tinytensor"


def _is_this_program() -> bool:
    """Was this process started as `tinytensor ...` or `python -m tinytensor ...`?

    While Python looks for the module of `-m`, sys.argv begins with "-m" instead of the module's file.
    """
    if sys.argv[0] == "-m":
        return sys.orig_argv[-len(sys.argv)] == "tinytensor"
    return Path(sys.argv[0]).stem == "tinytensor" and Path(sys.argv[0]).suffix in ("", ".exe")


def answer_without_engine() -> None:
    """Answer the command --help, --version or an unknown subcommand, and end it; for all else do nothing.

    Python imports the package before `main`. So the package calls this first: its other imports, of Numba above all,
    take ten times as long as such an answer.
    """
    name = "".join(sys.argv[1:2])
    if _is_this_program() and name not in OWN and name not in added():
        raise SystemExit(main())


def overview() -> str:
    """The subcommands, a line for each."""
    rows = {name: module.SUBCOMMANDS[name] for name, module in added().items()}
    rows |= {name: about for name, (_, about) in OWN.items()}
    lines = [f"  {name:<10} {about}" for name, about in rows.items()]
    end = f"{called()} SUBCOMMAND --help says more; {called()} --version prints the version."
    return "\n".join([f"usage: {called()} SUBCOMMAND ...", "", *lines, "", end])


def main(arguments: list[str] | None = None) -> int:
    """Run a subcommand; return the exit code: 2 if it cannot be understood."""
    return run_command(lambda: _run(sys.argv[1:] if arguments is None else arguments))


def _run(arguments: list[str]) -> int:
    name, rest = (arguments[0], arguments[1:]) if arguments else ("", [])
    if name in HELP:
        print(overview())
        return 0
    if name == "--version":
        print(version())
        return 0
    if name in OWN:
        return importlib.import_module(OWN[name][0]).main(rest, f"{called()} {name}")
    if name in added():
        return added()[name].run(arguments, called())
    near = difflib.get_close_matches(name, [*added(), *OWN], 1)
    hint = f": did you mean {near[0]}?" if near else f"; {called()} --help lists them"
    message = f"there is no subcommand {name!r}{hint}" if name else f"name a subcommand; {called()} --help lists them"
    print(f"tinytensor: {message}", file=sys.stderr)
    return 2
