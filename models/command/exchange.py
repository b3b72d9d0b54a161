"""`python -m models import` and `export`: models of other programs as runs, and runs as their models."""

from collections.abc import Callable
from pathlib import Path

from models.options import path, proposed
from models.training import checkpoint
from models.training.exchange import export_run, import_folder
from tinytensor.interop.io.files import writing


def add_commands(command: Callable, new_folder: Callable[[Path | None, str], Path]) -> None:
    """Add both to a parser: `command(name, function, help)` makes one, `new_folder` names the folder of a new run."""
    made = command(
        "import",
        lambda options: _import(options, new_folder),
        "Make a run of GPT-2 in Hugging Face's layout, or of a checkpoint of nanoGPT.",
    )
    made.add_argument(
        "folder",
        metavar="FOLDER",
        type=path,
        help="config.json, *.safetensors and tokenizer.json (or vocab.json and merges.txt); or ckpt.pt and meta.pkl",
    )
    made.add_argument("--out", metavar="DIR", type=path, help="a new folder for the run (default: runs/ and its name)")
    written = command("export", _export, "Write the model of a run in Hugging Face's layout of GPT-2.")
    written.add_argument("run", metavar="RUN", type=path, help="folder of the run")
    written.add_argument("folder", metavar="FOLDER", type=path, help="a new folder to write to")


def _import(options, new_folder: Callable[[Path | None, str], Path]) -> int:
    out = new_folder(getattr(options, "out", None), options.folder.resolve().name or "imported")
    saved = import_folder(options.folder)
    with writing("the run", out):
        out.mkdir(parents=True, exist_ok=True)
    checkpoint.save(out, saved)
    count = sum(weight.numel() for weight in saved.weights.values())
    print(f"imported {count:,} parameters from {options.folder} to {out}")
    print(f'it writes with: {proposed("sample", out)} --prompt "..."')
    return 0


def _export(options) -> int:
    config = export_run(options.run, options.folder)
    print(f"written to {options.folder}: {config.sizes()}, as Hugging Face's GPT-2")
    return 0
