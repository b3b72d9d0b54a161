"""`python -m models train | sample | info`: the command line.

What cannot be done as asked is said in one sentence, and the exit code is 2; Ctrl-C saves, and the exit code is 130.
"""

import argparse
import fcntl
import importlib.util
import math
import signal
import sys
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path

import tinytensor

from . import checkpoint, report, text
from .decoder import ACTIVATIONS, CONFIGS, NORMS, RESIDUALS, Config, Decoder
from .generate import check_sampling, generate
from .ngram import baselines
from .text import TextError
from .tokenizers import KINDS, Tokenizer, tokenizer_from_dict
from .training import OPTIMIZERS, SCHEDULES, NonFiniteLoss, Settings, Trainer

RUNS = Path("runs")  # where runs go that were given no --out
SIZES = "DHFLVC"
MADE_FOR_CHARACTERS = ("nano", "micro")


class UsageError(ValueError):
    """What was asked for does not fit together."""


@contextmanager
def _refusing():
    """What a configuration or a tokenizer refuses is the user's to change, and no fault of the program."""
    try:
        yield
    except (ValueError, ImportError, OSError) as error:
        raise UsageError(str(error)) from error


class Parser(argparse.ArgumentParser):
    """argparse, but an error is one sentence and not a page."""

    def error(self, message):
        raise UsageError(f"{message} (see python -m {self.prog} --help)")


def main(arguments: list[str] | None = None) -> int:
    """Run a command; returns the exit code."""
    try:
        options = parser().parse_args(arguments)
        return options.command(options)
    except (UsageError, TextError, checkpoint.CheckpointError) as error:
        print(f"models: {error}", file=sys.stderr)
        return 2
    except (NonFiniteLoss, OSError) as error:  # OSError: the disk is full, say
        print(f"models: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nmodels: interrupted before there was anything to save", file=sys.stderr)
        return 130


def parser() -> Parser:
    top = Parser(prog="models", description="Train the transformer of document 003, sample from it, count it.")
    commands = top.add_subparsers(dest="name", required=True, metavar="train | sample | info")

    def command(name, function, help):
        made = commands.add_parser(
            name, help=help, description=help, allow_abbrev=False, argument_default=argparse.SUPPRESS
        )
        made.set_defaults(command=function)
        return made

    train = command("train", _train, "Train a model on text; by default toth-tiny on Python's own language reference.")
    run = train.add_argument_group("the run")
    run.add_argument("--task", choices=["text"], help="what to learn (default: text)")
    run.add_argument("--text", metavar="FILE", type=Path, help="learn from a UTF-8 file of your own")
    run.add_argument("--out", metavar="DIR", type=Path, help="a new folder for the results (default: runs/NAME)")
    run.add_argument("--resume", metavar="DIR", type=Path, help="go on with a run that was stopped, bit for bit")
    run.add_argument("--threads", metavar="N", type=int, help="threads (default: up to 4; no result depends on it)")
    run.add_argument("--eager", action="store_true", help="run every step operation by operation, not from a recording")
    model = train.add_argument_group("the model")
    model.add_argument("--config", choices=list(CONFIGS), help="sizes and layout to begin with (default: toth-tiny)")
    for letter, what in zip(
        SIZES, ("width", "heads", "feed-forward width", "layers", "vocabulary", "context window"), strict=True
    ):
        model.add_argument(f"--{letter}", metavar="N", type=int, help=what)
    model.add_argument(
        "--tokenizer", choices=list(KINDS), help="what a token is (default: bpe; char for nano and micro)"
    )
    model.add_argument("--residual", choices=RESIDUALS, help="how eqs. (1), (9), (10) are read")
    model.add_argument("--norm", choices=NORMS, help="parameters of the norms (default: plain, none)")
    model.add_argument("--activation", choices=ACTIVATIONS)
    model.add_argument("--dropout", metavar="P", type=float)
    for name, what in (
        ("causal", "mask of eqs. (4), (5)"),
        ("positions", "P of eq. (1)"),
        ("bias", "b and c of eq. (10)"),
        ("attention-bias", "biases of Q, K, V and W"),
        ("tied", "the transpose of E as O"),
        ("final-norm", "one more norm before eq. (11)"),
    ):
        model.add_argument(f"--{name}", action=argparse.BooleanOptionalAction, help=what)
    training = train.add_argument_group("the training")
    for name, kind, what in (
        ("steps", int, "steps"),
        ("batch-size", int, "windows in a step"),
        ("lr", float, "largest learning rate, the rho of eq. (18) (default: 0.48 / D; 1.5 for sgd)"),
        ("weight-decay", float, "how fast weights shrink"),
        ("clip", float, "largest norm of the gradients together; 0 for no limit"),
        ("warmup", int, "steps over which the learning rate rises"),
        ("floor", float, "learning rate at the end, as a part of --lr"),
        ("seed", int, "seed of everything that is left to chance"),
        ("log-every", int, "steps from one row of log.csv to the next"),
        ("evaluate-every", int, "steps from one look at the held-out text to the next"),
        ("checkpoint-every", int, "steps from one checkpoint to the next"),
    ):
        training.add_argument(f"--{name}", metavar="N" if kind is int else "X", type=kind, help=what)
    training.add_argument("--optimizer", choices=OPTIMIZERS, help="sgd is eq. (18) as it stands")
    training.add_argument("--schedule", choices=SCHEDULES)
    training.add_argument("--layer-lr", metavar="X,X", type=_numbers, help="a factor on the rate for each layer")
    training.add_argument("--head-lr", metavar="X,X", type=_numbers, help="a factor on the rate for each head")

    sample = command("sample", _sample, "Let a trained model write.")
    newest = "folder of a run (default: the newest in runs/)"
    sample.add_argument("run", nargs="?", metavar="DIR", type=Path, default=None, help=newest)
    sample.add_argument("--prompt", help="text to go on from")
    sample.add_argument("--tokens", metavar="N", type=int, help="how many tokens (default: 200)")
    sample.add_argument("--temperature", metavar="X", type=float, help="0 for always the likeliest (default: 0.8)")
    sample.add_argument("--top-k", metavar="N", type=int, help="choose among the N likeliest tokens")
    sample.add_argument("--top-p", metavar="P", type=float, help="among the likeliest that make up the part P")
    sample.add_argument("--seed", metavar="N", type=int, help="seed (default: 0)")
    sample.add_argument("--threads", metavar="N", type=int)
    sample.add_argument("--no-cache", dest="cache", action="store_false", help="compute all rows for each token")

    info = command("info", _info, "The configuration and the parameter table of eq. (19).")
    info.add_argument("what", metavar="NAME_OR_DIR", help=f"{', '.join(CONFIGS)}, or the folder of a run")
    return top


def _numbers(value: str) -> tuple[float, ...]:
    try:
        return tuple(float(x) for x in value.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{value!r} is not a list of numbers with commas between them") from None


# ------------------------------------------------------------------------------------------------------- train


def _train(options) -> int:
    for package in ("tqdm", "matplotlib"):
        if importlib.util.find_spec(package) is None:
            raise UsageError(f"train needs {package}: pip install -e '.[train]'")
    _set_threads(options)
    with _refusing():
        trainer, title = _resumed(options) if hasattr(options, "resume") else _begun(options)
    corpus, settings = trainer.corpus, trainer.settings
    with _locked(trainer.folder):
        print(f"text: {title}, {corpus.train_characters:,} characters and {corpus.heldout_characters:,} held out")
        print(f"tokens: {corpus.tokenizer}, {len(corpus.train):,} and {len(corpus.heldout):,}")
        print(f"model: {_sizes(trainer.config)}: {trainer.model.num_parameters():,} parameters")
        print(f"run: {trainer.folder}, {settings.steps:,} steps of {settings.batch_size} windows", flush=True)
        marks = {"uniform": math.log(trainer.config.V)} | baselines(corpus.train, corpus.heldout, trainer.config.V)
        if not _with_progress_bar(trainer):
            print(f"stopped after step {trainer.step}; go on with: python -m models train --resume {trainer.folder}")
            return 130
        _finish(trainer, marks)
    return 0


def _begun(options) -> tuple[Trainer, str]:
    """A new run."""
    given = vars(options)
    name = given.get("config", "toth-tiny")
    changes = {field.name: given[field.name] for field in fields(Config) if field.name in given}
    config = CONFIGS[name].replace(**changes)
    kind = given.get("tokenizer", "char" if name in MADE_FOR_CHARACTERS else "bpe")
    vocabulary = config.V if kind == "bpe" else given.get("V")  # characters and words: all there are, unless told
    told = {field.name: given[field.name] for field in fields(Settings) if field.name in given}
    settings = Settings(**_recipe(given.get("optimizer", "adamw"), config) | told)
    folder = _new_folder(given.get("out"), name)
    documents, title = _documents(given.get("text"))
    corpus = text.prepare(documents, KINDS[kind], vocabulary)
    V = corpus.tokenizer.vocab_size
    if "V" in given and given["V"] != V:
        raise UsageError(f"--V {given['V']}: this text has only {V} different tokens ({kind}); leave --V out")
    config = config.replace(V=V)
    text.check_context(corpus.train, corpus.heldout, config.C)
    file = str(given["text"].resolve()) if "text" in given else None
    trainer = Trainer(config, settings, corpus, folder, file, eager=given.get("eager", False))
    folder.mkdir(parents=True, exist_ok=True)
    return trainer, title


def _recipe(optimizer: str, config: Config) -> dict:
    """What an optimizer needs, unless told: AdamW smaller steps for a wider model, eq. (18) large ones and no decay."""
    return {"lr": 0.48 / config.D} if optimizer == "adamw" else {"lr": 1.5, "weight_decay": 0.0}


def _resumed(options) -> tuple[Trainer, str]:
    """A run that was stopped."""
    given = vars(options)
    other = sorted(set(given) - {"resume", "threads", "eager", "command", "name"})
    if other:
        raise UsageError(
            f"--resume goes on with a run as it was begun: --{other[0].replace('_', '-')} cannot be changed "
            "(--threads and --eager can: no result depends on them)"
        )
    folder = given["resume"]
    saved = checkpoint.load(folder)
    documents, title = _documents(saved.state["file"])
    corpus = text.prepare(documents, tokenizer_from_dict(saved.state["tokenizer"]))
    config, settings = Config(**saved.state["config"]), Settings(**saved.state["settings"])
    trainer = Trainer(config, settings, corpus, folder, saved.state["file"], eager=given.get("eager", False))
    trainer.restore(saved)
    print(f"going on after step {trainer.step} of {settings.steps}")
    return trainer, title


def _documents(file) -> tuple[list[str], str]:
    """The texts to learn from, and what they are."""
    if file is None:
        return text.default_corpus(), "Python's language reference"
    return [text.read_text(file, lambda note: print(note, file=sys.stderr))], str(file)


def _new_folder(out: Path | None, name: str) -> Path:
    """A folder for a new run, not made yet; refused if something is in it."""
    if out is None:
        number = 1
        while (folder := RUNS / (name if number == 1 else f"{name}-{number}")).exists():
            number += 1
        out = folder
    if out.exists() and not out.is_dir():
        raise UsageError(f"--out {out} is a file; name a new folder")
    if out.is_dir() and any(entry.name != LOCK for entry in out.iterdir()):
        if checkpoint.latest(out):
            raise UsageError(f"{out} holds a run already: use --resume {out} to go on with it, or another --out")
        if any(entry.name not in (LOCK, checkpoint.FOLDER) for entry in out.iterdir()):
            raise UsageError(f"--out {out} is not empty; name a new folder")
    return out


LOCK = ".lock"


@contextmanager
def _locked(folder: Path):
    """Refuse a second process in the same folder; the lock ends with the first one, however it ends."""
    with (folder / LOCK).open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UsageError(f"another process is training in {folder}: wait for it, or use another --out") from None
        yield


def _with_progress_bar(trainer: Trainer) -> bool:
    """Train to the end (True), or until Ctrl-C (False)."""
    from tqdm import tqdm

    def interrupt(number, frame):
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a second Ctrl-C does not wait
        trainer.stop = True

    def progress(row):
        if "lr" in row:
            bar.set_postfix_str(f"loss {row['loss']:.3f}, {row['tokens_per_second']:,.0f} tokens/s", refresh=False)
        if "heldout_loss" in row:
            bar.write(f"step {row['step']:>6,}: loss {row['loss']:.3f}, held out {row['heldout_loss']:.3f}")
        bar.update()

    before = signal.signal(signal.SIGINT, interrupt)
    try:  # disable=None: no bar where nobody looks, in a file or a pipe
        with tqdm(total=trainer.settings.steps, initial=trainer.step, unit="step", disable=None) as bar:
            return trainer.train(progress)
    finally:
        signal.signal(signal.SIGINT, before)


def _finish(trainer: Trainer, marks: dict[str, float]) -> None:
    """Print the result beside the n-gram models; write the pictures and a sample."""
    corpus, folder, C = trainer.corpus, trainer.folder, trainer.config.C
    heldout = trainer.log.rows[-1]["heldout_loss"]
    print("\nheld-out loss in nats per token")
    for name, value in [*marks.items(), ("this model", heldout)]:
        print(f"  {name:<22}{value:.3f}{'' if name == 'this model' else f'   ({value - heldout:+.3f})'}")
    print(f"  this model, per character: {heldout * len(corpus.heldout) / corpus.heldout_characters:.3f}\n")
    report.draw_loss(folder / "loss.png", trainer.log.rows, marks)
    shown = [int(i) for i in corpus.heldout[: min(C, 32)]]
    labels = [corpus.tokenizer.decode([i]).replace("\n", "\\n").replace(" ", "␣") for i in shown]
    report.draw_attention(folder / "attention.png", report.attention_maps(trainer.model, shown), labels)
    written = _write(trainer.model, corpus.tokenizer, "\n", count=200, temperature=0.8, seed=trainer.settings.seed)
    (folder / "sample.txt").write_text(written + "\n", encoding="utf-8")
    print(f"a sample:\n{written}\n")
    print(f"written to {folder}: log.csv, loss.png, attention.png, sample.txt and checkpoints")
    print(f"more samples: python -m models sample {folder} --prompt 'The'")


# ---------------------------------------------------------------------------------------------- sample and info


def _sample(options) -> int:
    given = vars(options)
    settings = {
        "temperature": given.get("temperature", 0.8),
        "top_k": given.get("top_k"),
        "top_p": given.get("top_p"),
    }
    with _refusing():
        check_sampling(**settings)
    count = given.get("tokens", 200)
    if count < 1:
        raise UsageError(f"--tokens {count}: 1 or more is needed")
    _set_threads(options)
    model, tokenizer = _loaded(given["run"] or _newest_run())
    prompt = given.get("prompt", "\n")
    unknown = tokenizer.unknown_count(tokenizer.encode(prompt))
    if unknown:
        print(f"models: {unknown} tokens of the prompt are not in the vocabulary", file=sys.stderr)
    print(
        _write(model, tokenizer, prompt, count, seed=given.get("seed", 0), cache=given.get("cache", True), **settings)
    )
    return 0


def _write(model: Decoder, tokenizer: Tokenizer, prompt: str, count: int, seed: int, **settings) -> str:
    """The prompt and what the model adds to it."""
    tokens = tokenizer.encode(prompt) or tokenizer.encode("\n")
    generator = tinytensor.Generator().manual_seed(seed)
    return prompt + tokenizer.decode(generate(model, tokens, count, generator=generator, **settings))


def _info(options) -> int:
    what = options.what
    if what in CONFIGS:
        config = CONFIGS[what]
        print(f"{what}: {_sizes(config)}")
    else:
        saved = checkpoint.load(_run_folder(Path(what)))
        config = Config(**saved.state["config"])
        print(f"{what}: {_sizes(config)}")
        print(f"after step {saved.step} of {saved.state['settings']['steps']}", end="")
        held = [row["heldout_loss"] for row in saved.state["log"] if row.get("heldout_loss") is not None]
        print(f", held-out loss {held[-1]:.3f}" if held else "")
        print(f"tokens: {tokenizer_from_dict(saved.state['tokenizer'])}")
    switches = {k: v for k, v in config.to_dict().items() if k not in SIZES}
    print(", ".join(f"{k} = {v}" for k, v in switches.items()))
    print("\neq. (19): N = [(4D + 1) D + (2D + 1) F] L + (C + 2V) D\n")
    print(report.format_table(report.parameter_table(Decoder(config, device="meta"))))
    return 0


def _run_folder(folder: Path) -> Path:
    if not folder.is_dir():
        raise UsageError(f"{folder} is neither a configuration ({', '.join(CONFIGS)}) nor the folder of a run")
    return folder


def _newest_run() -> Path:
    found = [(latest.stat().st_mtime, run) for run in RUNS.glob("*") if (latest := checkpoint.latest(run))]
    if not found:
        raise UsageError(f"there is no run in {RUNS}/: train a model first, or name the folder of a run")
    return max(found)[1]


def _loaded(folder: Path) -> tuple[Decoder, Tokenizer]:
    """The model of a run after its last checkpoint, and its tokenizer."""
    saved = checkpoint.load(folder)
    model = Decoder(Config(**saved.state["config"]))
    model.load_state_dict(saved.weights)
    return model, tokenizer_from_dict(saved.state["tokenizer"])


def _set_threads(options) -> None:
    """--threads, or all cores but no more than four: steps as short as these gain nothing from waiting for more."""
    threads = getattr(options, "threads", min(tinytensor.get_num_threads(), 4))
    if threads < 1:
        raise UsageError(f"--threads {threads}: 1 or more is needed")
    tinytensor.set_num_threads(threads)


def _sizes(config: Config) -> str:
    sizes = ", ".join(f"{letter} = {getattr(config, letter):,}" for letter in SIZES)
    return sizes.replace(", F =", f" (K = {config.K}), F =")
