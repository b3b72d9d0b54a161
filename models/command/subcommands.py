"""The subcommands of `tinytensor` that models add; an entry point of pyproject.toml names this file.

It is read for `tinytensor --help`, so it imports the rest, and with it the engine, when a subcommand runs.
"""

import argparse

SUBCOMMANDS = {
    "train": "train a transformer of the documents on text, on pairs of sentences, or on items that users chose",
    "evaluate": "the loss of a trained model on its held-out data, or on a text",
    "sample": "let a trained model write",
    "translate": "translate sentences with a trained encoder-decoder",
    "show": "write a page that shows a trained model at work, forward and backward",
    "import": "make a run of GPT-2's weights in Hugging Face's layout, or of a checkpoint of nanoGPT",
    "export": "write a run in Hugging Face's layout",
    "info": "the parameters of a model; with --environment what a bug report needs",
}


def run(arguments: list[str], command: str) -> int:
    """Run a subcommand, the first argument; return the exit code. `command` is how `tinytensor` was called."""
    from models.command.cli import main

    return main(arguments, "tinytensor", command)


def parsers() -> dict[str, argparse.ArgumentParser]:
    """The parser of each subcommand by its name; those of training, whose options depend on the task, as train-TASK."""
    from models.command.cli import TASKS, parser

    of_others = {name: each for name, each in parser().commands.items() if name != "train"}
    return of_others | {f"train-{name}": parser(task).commands["train"] for name, task in TASKS.items()}
