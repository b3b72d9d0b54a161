"""`tinytensor report`, which runs the claims; an entry point of pyproject.toml names this file."""

import argparse

SUBCOMMANDS = {"report": "run the proofs and checks of the documents, and write a report"}


def run(arguments: list[str], command: str) -> int:
    """Run the claims with the arguments behind the subcommand's name; return the exit code."""
    from derivations.__main__ import main

    return main(arguments[1:])


def parsers() -> dict[str, argparse.ArgumentParser]:
    """No option is completed."""
    return {}
