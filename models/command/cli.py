"""The command line: `tinytensor train | evaluate | sample | ...`, and in a clone `python -m models ...`.

An error in what the user gave is printed as one sentence, with the exit code 2. Ctrl-C and SIGTERM stop and save a run;
the exit code is 128 plus the signal's number.
"""

import argparse
import importlib.util
import math
import shlex
import signal
import sys
import textwrap
from collections.abc import Callable
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path

import tinytensor
from models.command import configuration, exchange, monitors
from models.command.resume import PIPED, has_value_of_run, resume, task_of, with_kept_data
from models.data import pairs
from models.data.decoding import contents, is_pipe, unpacked
from models.data.text import TextError
from models.data.tokenizers import Tokenizer
from models.decoder import Decoder
from models.inference import report
from models.inference.generate import TEMPERATURE, NonFiniteLogits, Sampler, check_sampling, stream, until
from models.options import UsageError, add_options, called, data_path, flags_for, path, proposed
from models.show import show
from models.tasks import TASKS
from models.tasks.task import Task
from models.tasks.translate import draw_attention, translate_sentences
from models.training import checkpoint, memory, ranks, snapshots
from models.training.trainer import Log, NonFiniteLoss, Settings, Trainer, sum_of_losses
from tinytensor import distributed
from tinytensor.cli import environment
from tinytensor.cli.output import run_command
from tinytensor.interop.io.files import writing
from tinytensor.interop.io.serialization import write_atomically
from tinytensor.native.platform.distribution import install
from tinytensor.native.platform.operating_system import HAS_TIMER, lock
from tinytensor.nn import Module

RUNS = Path("runs")  # the folder of runs without --out
SAMPLED = (0, 100, 1000)  # after these steps the log shows what the model writes
PAGE = "page.html"  # the name of the page of `show` in the folder of its run
COMMANDS = "train | evaluate | sample | translate | show | info | import | export"
SHOWN = ("text", "translate")  # the tasks whose models have a page
MOST_TOKENS = 1_000_000  # of a sample
MOST_SAMPLES = 10_000  # of one call
SEPARATOR = "-" * 15  # a line between two samples


@contextmanager
def _refusing():
    """Report errors of configurations and tokenizers as errors in the given options, not as faults of the program."""
    try:
        yield
    except BrokenPipeError:  # the output is no longer read
        raise
    except (ValueError, ImportError, OSError) as error:
        raise UsageError(str(error)) from error


class Parser(argparse.ArgumentParser):
    """argparse, but an error is one sentence and not a page."""

    def error(self, message):
        raise UsageError(f"{message} (see {self.prog} --help)")

    def parse_known_args(self, args=None, namespace=None):
        """Refuse unknown arguments here: argparse lets the parser above do it, which would name its own --help."""
        namespace, rest = super().parse_known_args(args, namespace)
        if rest:
            self.error(f"unrecognized arguments: {' '.join(rest)}")
        return namespace, rest


def main(arguments: list[str] | None = None, name: str = "models", command: str = "python -m models") -> int:
    """Run a command; returns the exit code. Messages begin with `name`, and advise to run `command`."""
    called.name, called.command = name, command
    code = run_command(lambda: _run(arguments))
    if distributed.is_initialized():  # the other ranks do not know that this one has ended, and would wait
        where = f"rank {ranks.rank()} of {ranks.count()} ended with this, and with it all of them"
        distributed.abort(code, where if ranks.count() > 1 else None)
    return code


def _run(arguments: list[str] | None) -> int:
    try:
        with ranks.said_once():
            options = _parsed(arguments)
        return options.command(options)
    except ranks.SaidByAnother:
        return 2
    except (UsageError, TextError, checkpoint.CheckpointError) as error:
        print(f"{called.name}: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # the output is no longer read
        raise
    except (NonFiniteLoss, NonFiniteLogits, OSError) as error:  # OSError: the disk is full, say
        print(f"{called.name}: {error}", file=sys.stderr)
        return 1
    except MemoryError as error:
        print(f"{called.name}: there is not enough memory ({error}): choose smaller sizes or batches", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"\n{called.name}: interrupted before there was anything to save", file=sys.stderr)
        return 130


def _parsed(arguments: list[str] | None) -> argparse.Namespace:
    arguments = sys.argv[1:] if arguments is None else arguments
    for argument in arguments:
        if argument.startswith("--") and argument.endswith("=--"):  # argparse before Python 3.12 makes a list of it
            raise UsageError(f"{argument}: -- is no value; leave the option out, or give it another one")
    if arguments[:1] != ["train"]:
        return parser().parse_args(arguments)
    with _refusing():
        own, file = configuration.taken_out(arguments[1:])
        entries = {} if file is None else configuration.read(file)
        named = [f"--task={entries['task']}"] if "task" in entries else []
        task = _task([*named, *own])
        top = parser(task)
        read = configuration.arguments(file, entries, top.commands["train"])
    try:
        top.parse_args(["train", *read])
    except UsageError as error:
        raise UsageError(f"{file}: {error}") from None
    if any(word.partition("=")[0] == "--config" for word in own):
        decided = {entry.name.replace("_", "-") for entry in fields(task.Config)}
        kept = {name: value for name, value in entries.items() if name not in decided}
        read = configuration.arguments(file, kept, top.commands["train"])
    return top.parse_args(["train", *read, *own])


def _task(arguments: list[str]) -> type[Task]:
    """The task that the arguments name: the other options of `train` depend on it."""
    look = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    look.add_argument("--task", nargs="?")
    return TASKS.get(look.parse_known_args(arguments)[0].task, TASKS["text"])


def parser(task: type[Task] = TASKS["text"]) -> Parser:
    about = "Train the transformers of the documents, sample from them, translate, look inside, count their parameters."
    top = Parser(prog=called.command, description=about)
    commands = top.add_subparsers(dest="name", required=True, metavar=COMMANDS)
    top.commands = commands.choices

    def command(name, function, help):
        made = commands.add_parser(
            name, help=help, description=help, allow_abbrev=False, argument_default=argparse.SUPPRESS
        )
        made.set_defaults(command=function)
        return made

    train = command("train", _train, f"Train a model. --task {task.name}: {task.summary}")
    train.epilog = f"mpiexec -n 2 {called.command} train ... does it on two processes: examples/guide/processes.md"
    train.set_defaults(task_class=task)
    run = train.add_argument_group("the run")
    run.add_argument(
        "--task",
        choices=list(TASKS),
        help="the task to learn (default: text); the options below are those of the task",
    )
    run.add_argument("--out", metavar="DIR", type=path, help="a new folder for the results (default: runs/NAME)")
    resume_help = (
        "go on with a run that was stopped, bit for bit; with more --steps than it had, the rate follows its schedule"
    )
    run.add_argument("--resume", metavar="DIR", type=path, help=f"{resume_help} for that many steps from here on")
    begin = "begin with the weights of a run, to go on with another text; sizes and vocabulary are those of that run"
    run.add_argument("--init-from", metavar="RUN", type=data_path, help=begin)
    run.add_argument(
        "--threads",
        metavar="N",
        type=int,
        help="threads of each process (default: up to 4; ranks share the cores of a machine); no result depends on it",
    )
    run.add_argument("--eager", action="store_true", help="run every step operation by operation, not from a recording")
    run.add_argument("--live", action="store_true", help="show the run while it trains, on a page of this machine")
    port = "port of that page (default: 8765, or any that is free if it is taken; 0: any)"
    run.add_argument("--live-port", metavar="N", type=int, help=port)
    trace = f"write a trace of {monitors.TRACED} steps, which https://ui.perfetto.dev shows; no result depends on it"
    run.add_argument("--profile", metavar="FILE", type=path, help=trace)
    curves = f"write the curves for TensorBoard into {monitors.TENSORBOARD}/ of the run's folder"
    run.add_argument("--tensorboard", action="store_true", help=curves)
    task.add_options(train.add_argument_group("the data"))
    model = train.add_argument_group("the model")
    names = ", ".join(task.CONFIGS)
    begin_with = f"sizes and layout to begin with: {names} (default: {task.default}); or a file with options"
    model.add_argument("--config", choices=list(task.CONFIGS), metavar="NAME|FILE.toml", help=begin_with)
    usual = task.CONFIGS[task.default]
    add_options(model, task.Config, task.chosen_by_data, usual.to_dict())
    rates = () if task.Model is Decoder else ("layer_lr", "head_lr")  # they are about the weights of 003
    add_options(train.add_argument_group("the training"), Settings, rates, task.recipe(usual, {}))

    newest = "folder of a run (default: the newest in runs/)"
    least = "the weights with the least held-out loss, not the last ones"
    evaluated = command("evaluate", _evaluate, "The loss of a trained model on its held-out data, or on a text.")
    evaluated.add_argument("run", nargs="?", metavar="DIR", type=path, default=None, help=newest)
    evaluated.add_argument("--text", metavar="PATH", type=path, help="what `train` reads, all of which is evaluated")
    evaluated.add_argument("--field", metavar="NAME", help="field of a .jsonl file")
    evaluated.add_argument("--best", action="store_true", help=least)
    evaluated.add_argument("--threads", metavar="N", type=int)

    sample = command("sample", _sample, "Let a trained model write.")
    sample.add_argument("run", nargs="?", metavar="DIR", type=path, default=None, help=newest)
    sample.add_argument("--best", action="store_true", help=least)
    sample.add_argument("--prompt", help="text to go on from")
    sample.add_argument("--prompt-file", metavar="FILE", type=path, help="a UTF-8 file with that text")
    sample.add_argument("--tokens", metavar="N", type=int, help="how many tokens (default: 200)")
    sample.add_argument("--num-samples", metavar="N", type=int, help="how many texts, one after the other (default: 1)")
    sample.add_argument("--stop", metavar="TEXT", action="append", help="end before this text; may be given repeatedly")
    heat = f"0 for always the likeliest (default: {TEMPERATURE})"
    sample.add_argument("--temperature", metavar="X", type=float, help=heat)
    sample.add_argument("--top-k", metavar="N", type=int, help="choose among the N likeliest tokens")
    sample.add_argument("--top-p", metavar="P", type=float, help="among the likeliest that make up the part P")
    sample.add_argument("--seed", metavar="N", type=int, help="seed (default: 0)")
    sample.add_argument("--threads", metavar="N", type=int)
    sample.add_argument("--no-cache", dest="cache", action="store_false", help="compute all rows for each token")

    translated = command("translate", _translate, "Translate sentences with a trained encoder-decoder.")
    translated.add_argument("sentences", nargs="*", metavar="SENTENCE", help="default: the lines of the standard input")
    translated.add_argument("--checkpoint", metavar="DIR", type=path, help=newest)
    translated.add_argument("--best", action="store_true", help=least)
    translated.add_argument("--attention", metavar="FILE", type=path, help="draw how words attend to the source (.png)")
    translated.add_argument("--beam", metavar="N", type=int, help="beam search among N sentences (default: 1, greedy)")
    translated.add_argument(
        "--length-penalty", metavar="X", type=float, help="of beam search: 0 for probabilities alone (default: 0.6)"
    )
    translated.add_argument("--temperature", metavar="X", type=float, help="by chance; 0 for the likeliest (default)")
    translated.add_argument("--top-k", metavar="N", type=int, help="choose among the N likeliest words")
    translated.add_argument("--top-p", metavar="P", type=float, help="among the likeliest that make up the part P")
    translated.add_argument("--seed", metavar="N", type=int, help="seed (default: 0)")
    translated.add_argument("--literal", action="store_true", help="004's inference, with the mask taken away")
    translated.add_argument("--no-cache", dest="cache", action="store_false", help="compute all rows for each word")
    translated.add_argument("--threads", metavar="N", type=int)

    shown = command("show", _show, "Write a page that shows a trained model at work, forward and backward.")
    shown.add_argument("run", nargs="?", metavar="DIR", type=path, default=None, help=newest)
    shown.add_argument("--out", metavar="FILE", type=path, help=f"the page (default: {PAGE} in the run's folder)")
    shown.add_argument("--text", help="the page's first text; for a translator, the source sentence")
    shown.add_argument("--target", help="its translation (default: the model's own)")

    names = [name for each in TASKS.values() for name in each.CONFIGS]
    info = command("info", _info, "The configuration and the parameter table of eq. (19).")
    info.add_argument("what", nargs="?", metavar="NAME_OR_DIR", help=f"{', '.join(names)}, or the folder of a run")
    info.add_argument("--environment", action="store_true", help="versions, processor, threads, cache: for bug reports")
    exchange.add_commands(command, _new_folder)
    return top


# --- Train


def _train(options) -> int:
    with ranks.said_once():
        for package in ("tqdm", "matplotlib", "sacrebleu"):
            if importlib.util.find_spec(package) is None:
                raise UsageError(f"train needs {package}: {install('train')}")
        if hasattr(options, "tensorboard") and importlib.util.find_spec("tensorboard") is None:
            raise UsageError(f"--tensorboard needs the package tensorboard: {install('tensorboard')}")
        if hasattr(options, "profile"):
            _check_written("--profile", options.profile)
    with ExitStack() as stack:
        with _refusing():
            stack.enter_context(ranks.joined())
        page, trainer = ranks.agreed(partial(_prepared, options, stack))
        task, settings = trainer.task, trainer.settings
        for line in task.describe():
            print(line)
        print(f"model: {trainer.config.sizes()}: {trainer.model.num_parameters():,} parameters")
        length = f"{settings.steps:,} steps of {settings.batch_size} {task.examples}"
        print(f"run: {trainer.folder}, {length}{_on_ranks()}", flush=True)
        if page is not None:
            print(f"live: {page.address} shows this run, on this machine alone", flush=True)
            with task.attempt("the live page"):
                page.show(trainer)
        watchers = {} if page is None else {"the live page": page.look}
        with _watching(options, trainer, watchers):
            stopped_by = _with_progress_bar(trainer, watchers)
        if not stopped_by:
            _say_best(trainer)
        if page is not None:
            page.end(finished=not stopped_by)
        if stopped_by:
            print(f"stopped after step {trainer.step}; go on with: {_go_on(trainer.folder)}")
            return 128 + stopped_by
        if ranks.rank() == 0:
            with task.attempt("the results"):
                task.finish(trainer.model, trainer.folder, trainer.log.rows, settings.seed)
            if task.name in SHOWN:
                _offer_page(trainer.folder, task)
    return 0


def _go_on(folder: Path) -> str:
    """The command that goes on with a run."""
    launcher = f"mpiexec -n {ranks.count()} " if ranks.count() > 1 else ""
    return launcher + proposed("train", "--resume", folder)


def _check_written(option: str, file: Path) -> None:
    """UsageError if a file cannot be written there."""
    if file.is_dir():
        raise UsageError(f"{option} {file} is a folder; name a file")
    if not file.parent.is_dir():
        raise UsageError(f"{option} {file}: there is no folder {file.parent}; make it first")


@contextmanager
def _watching(options, trainer: Trainer, watchers: dict[str, Callable[[dict], None]]):
    """Add the trace of --profile and the curves of --tensorboard to those that see each row, on rank 0."""
    flags, ended, attempt = vars(options), {}, trainer.task.attempt
    try:
        if ranks.rank() == 0 and "tensorboard" in flags:
            with attempt("TensorBoard's curves"), writing("its files", trainer.folder / monitors.TENSORBOARD):
                ended["TensorBoard's curves"] = monitors.Curves(trainer.folder)
        if ranks.rank() == 0 and "profile" in flags:
            ended["the trace"] = monitors.Trace(flags["profile"], trainer.settings.steps - trainer.step)
        watchers |= {name: each.look for name, each in ended.items()}
        yield
    finally:
        for name, each in ended.items():
            with attempt(name):
                each.end()
    if "profile" in flags and "the trace" not in attempt.failed:
        print(f"to see the trace, open {flags['profile']} at https://ui.perfetto.dev")


def _say_best(trainer: Trainer) -> None:
    """Say which checkpoint has the least held-out loss, if it is not the last one."""
    best = trainer.log.best()
    if best is None or best["step"] == trainer.step:
        return
    if trainer.over and trainer.step < trainer.settings.steps:
        looks = trainer.log.looks_since_best()
        print(f"ended after step {trainer.step:,}: {looks} looks at the held-out data brought no better loss")
    about = f"the best held-out loss, {best['heldout_loss']:.3f}, was that of step {best['step']:,}"
    print(f"{about}; --best takes its weights, in sample and evaluate", flush=True)


def _offer_page(folder: Path, task: Task) -> None:
    """Write the page of a run that has ended, if the model is small enough for one."""
    with task.attempt(f"the page {folder / PAGE}"):
        try:
            written = _write_page(folder, folder / PAGE, task.example())
        except (ValueError, ImportError) as error:
            print(f"there is no page to look inside: {error}")
        else:
            print(f"to look inside, forward and backward, open {written} in a browser")


def _prepared(options, stack: ExitStack):
    """(the page or None, the trainer). Every check of the options happens here, before ranks wait for each other."""
    _set_threads(options)
    page = stack.enter_context(_page(vars(options)))
    with _refusing():
        trainer = resume(options) if hasattr(options, "resume") else _begun(options)
    if ranks.rank() == 0:
        stack.enter_context(_locked(trainer.folder))
        if not hasattr(options, "resume"):
            with _refusing():
                _write_configuration(options, trainer)
    return page, trainer


def _write_configuration(options, trainer: Trainer) -> None:
    """Write the file that repeats a new run."""
    flags, task = vars(options), trainer.task
    values = {"task": task.name, "config": task.configuration(flags)} | trainer.options()
    if "init_from" in flags:
        values["init_from"] = flags["init_from"].resolve()
    for name in set(task.sized_by_data) - set(flags):
        values.pop(name, None)
    text = configuration.text(parser(type(task)).commands["train"], values, called.command)
    with writing("the file that repeats this run", trainer.folder / configuration.NAME):
        write_atomically(trainer.folder / configuration.NAME, text.encode())


def _on_ranks() -> str:
    if ranks.count() == 1:
        return ""
    threads = tinytensor.get_num_threads()
    return f", on {ranks.count()} ranks with {threads} thread{'s' if threads > 1 else ''} each"


def _page(flags: dict):
    """The page of --live, or None without it; entered before the run begins, since the port may be taken."""
    if not flags.get("live"):
        if "live_port" in flags:
            raise UsageError("--live-port says where the page of --live is: give --live too")
        return nullcontext()
    if ranks.rank() > 0:  # rank 0 alone shows the run, and reports an error of the port
        return nullcontext()
    from models.command import live  # a run without --live loads no server

    port = flags.get("live_port")
    if port is not None and not 0 <= port < 65536:
        raise UsageError(f"--live-port {port}: 0 (any) to 65535 is needed")
    try:
        return live.Page(port)
    except OSError as error:
        reason = f"{error.strerror}; give another, or 0 for any that is free"
        raise UsageError(f"--live-port {port}: this port cannot be had: {reason}") from None


def _begun(options) -> Trainer:
    """A new run."""
    flags, task = vars(options), options.task_class
    source = _source(flags, task) if "init_from" in flags else None
    name = task.configuration(flags)
    begin_with = task.CONFIGS[name] if source is None else source.config
    config = begin_with.replace(**flags_for(task.Config, flags))
    settings = Settings(**task.recipe(config, flags) | flags_for(Settings, flags))
    # Before long data are read; Trainer checks again, with the V of the data.
    memory.check_training(config, ranks.share(settings.batch_size, ranks.count() * settings.accumulate))
    rank0 = ranks.rank() == 0  # it alone makes the folder and writes to it
    folder = _new_folder(flags.get("out"), name if source is None else source.name) if rank0 else RUNS / name
    with _pipe_kept(flags, task.source, folder):
        begun = task.begin(config, flags, name, None if source is None else source.tokenizer)
        trainer = Trainer(begun, settings, folder, eager=flags.get("eager", False))
        if source is not None:
            with checkpoint.reading(flags["init_from"]):
                checkpoint.load_weights(trainer.model, source.weights)
        if rank0:
            with writing("the run", folder):
                folder.mkdir(parents=True, exist_ok=True)
    return trainer


@contextmanager
def _pipe_kept(flags: dict, option: str, folder: Path):
    """Read a pipe that an option names into the run's folder, and name that file in its place.

    So a resumed run has its data. If the block fails, there is no run, and the file goes.
    """
    if option not in flags or not is_pipe(flags[option]):
        yield
        return
    if ranks.count() > 1:
        advice = f"it can be read once, but {ranks.count()} processes need the data; write them to a file"
        raise UsageError(f"--{option} {flags[option]} is a pipe: {advice}")
    name = PIPED[option] if "field" not in flags else Path(PIPED[option]).with_suffix(".jsonl").name
    pipe, new = flags[option], not folder.exists()
    try:
        kept = data_path(str(folder / name))
    except argparse.ArgumentTypeError as error:
        raise UsageError(str(error)) from None
    data = unpacked(pipe, contents(pipe))
    try:
        with writing(f"the contents of the pipe {pipe}", kept):
            folder.mkdir(parents=True, exist_ok=True)
            write_atomically(kept, data)
        flags[option] = kept
        yield
    except BaseException as error:
        kept.unlink(missing_ok=True)
        if new:
            with suppress(OSError):
                folder.rmdir()
        if isinstance(error, TextError):  # about a file that is gone now
            raise TextError(str(error).replace(str(kept.resolve()), str(pipe))) from None
        raise


@dataclass
class Source:
    """The run whose weights a new run begins with."""

    name: str
    config: object
    tokenizer: Tokenizer
    weights: dict[str, tinytensor.Tensor]


CHANGEABLE = {"dropout", "label_smoothing", "reduction"}  # entries of a configuration that no weight depends on


def _source(flags: dict, task_class: type[Task]) -> Source:
    """The run that --init-from names; UsageError where an option does not fit it."""
    folder = flags["init_from"]
    saved = checkpoint.load(folder, ("weights",))
    with checkpoint.reading(folder):
        own, state = task_of(saved), saved.state["task"]
    if own is not task_class:
        raise UsageError(f"--init-from {folder} was trained with --task {own.name}: give --task {own.name}")
    with checkpoint.reading(folder):
        config, tokenizer = task_class.described(state)
        begun = task_class.options(state)
    fixed = {entry.name for entry in fields(task_class.Config)} - CHANGEABLE | {"config", "tokenizer"}
    for name in sorted(fixed & set(flags)):
        if not has_value_of_run(name, flags, begun, task_class):
            raise UsageError(
                f"--init-from {folder} decides the sizes, the layout and the vocabulary: leave out "
                f"--{name.replace('_', '-')}"
            )
    return Source(folder.resolve().name, config, tokenizer, saved.weights)


def _new_folder(out: Path | None, name: str) -> Path:
    """A folder for a new run, not made yet; UsageError if it is not empty."""
    if out is None:
        number = 1
        while (folder := RUNS / (name if number == 1 else f"{name}-{number}")).exists():
            number += 1
        out = folder
    if out.exists() and not out.is_dir():
        raise UsageError(f"--out {out} is a file; name a new folder")
    if out.is_dir():
        if checkpoint.latest(out):
            quoted = shlex.quote(str(out))
            raise UsageError(f"{out} holds a run already: use --resume {quoted} to go on with it, or another --out")
        own = {LOCK, checkpoint.FOLDER, configuration.NAME}  # of a run that was ended before its first checkpoint
        if (out / configuration.NAME).exists():
            own |= {*PIPED.values(), "text.jsonl"}
        if any(entry.name not in own for entry in out.iterdir()):
            raise UsageError(f"--out {out} is not empty; name a new folder")
    return out


LOCK = ".lock"


@contextmanager
def _locked(folder: Path):
    """Refuse a second process in the same folder; the system releases the lock when the first one ends."""
    with ExitStack() as stack:
        with writing("the lock of the run", folder / LOCK):
            file = stack.enter_context((folder / LOCK).open("ab"))
        if not lock(file):
            raise UsageError(f"another process is training in {folder}: wait for it, or use another --out")
        yield


def _with_progress_bar(trainer: Trainer, watchers: dict[str, Callable[[dict], None]]) -> int:
    """Train to the end (0), or until Ctrl-C or SIGTERM (the signal's number); the watchers see each row.

    A watcher that fails sees no more. Once nothing reads the output, the run stops as if by a signal, and is
    saved; then BrokenPipeError is raised.
    """
    from tqdm import tqdm

    received, begun, attempt = [], trainer.step, trainer.task.attempt
    unread: list[BrokenPipeError] = []

    def interrupt(number, frame):
        signal.signal(number, before[number])  # a second one does not wait
        received.append(number)
        trainer.stop = True
        leave(number, frame)

    def leave(number, frame):
        if trainer.step != begun:
            return
        # Kernels are being compiled, which may take long, and no step is lost. A callback (a __del__) may swallow an
        # exception that is raised in it: then it is raised again.
        if HAS_TIMER:
            signal.signal(signal.SIGALRM, lambda _, later: leave(number, later))
            signal.setitimer(signal.ITIMER_REAL, 0.5)
        if before[number] is signal.SIG_IGN:  # as in processes that a shell starts in the background
            raise KeyboardInterrupt
        signal.raise_signal(number)

    def progress(row):
        try:
            show(row)
        except BrokenPipeError as error:
            unread.append(error)
            trainer.stop = True

    def show(row):
        if unread:
            return
        if "lr" in row:
            with attempt("a line of the progress"):
                bar.set_postfix_str(f"loss {row['loss']:.3f}, {row['tokens_per_second']:,.0f} tokens/s", refresh=False)
                if "heldout_loss" in row:
                    bar.write(f"step {row['step']:>6,}: loss {row['loss']:.3f}, held out {row['heldout_loss']:.3f}")
        if row["step"] in SAMPLED:
            show_sample()
        with attempt("the progress bar"):
            bar.update()
        for name, watch in [*watchers.items()]:
            with attempt(name):
                watch(row)
            if name in attempt.failed:
                del watchers[name]

    def show_sample():
        if ranks.rank() == 0:
            training = trainer.model.training
            try:
                with attempt("a sample"), suppress(NonFiniteLogits):  # the trainer says in its next step what is NaN
                    written = trainer.task.glimpse(trainer.model, trainer.settings.seed).text
                    tqdm.write(_beside(f"step {trainer.step:>6,}: ", written))
            finally:
                trainer.model.train(training)

    before = {number: signal.signal(number, interrupt) for number in (signal.SIGINT, signal.SIGTERM)}
    if HAS_TIMER:
        before[signal.SIGALRM] = signal.getsignal(signal.SIGALRM)
    try:
        if begun == 0:
            show_sample()
        hidden = ranks.rank() > 0 or not ranks.seen()  # no bar in a file or a pipe
        with tqdm(total=trainer.settings.steps, initial=trainer.step, unit="step", disable=hidden) as bar:
            ended = trainer.train(progress)
        if unread:
            raise unread[0]
        return 0 if ended else (received or [signal.SIGINT])[0]  # another rank's, perhaps
    finally:
        if HAS_TIMER:
            signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in before.items():
            signal.signal(number, handler)


def _beside(label: str, text: str, lines: int = 2) -> str:
    """The beginning of a text, in a few lines of a terminal, to the right of a label."""
    pieces = [piece for line in text.splitlines() for piece in textwrap.wrap(line, 79 - len(label))]
    return label + f"\n{' ' * len(label)}".join(pieces[:lines]) + ("…" if len(pieces) > lines else "")


# --- Sample and info


def _sample(options) -> int:
    flags = vars(options)
    settings = _sampling(flags, temperature=TEMPERATURE)
    count = flags.get("tokens", 200)
    if not 1 <= count <= MOST_TOKENS:
        raise UsageError(f"--tokens {count}: 1 to {MOST_TOKENS:,} is needed")
    _set_threads(options)
    samples, stops = flags.get("num_samples", 1), flags.get("stop", [])
    if not 1 <= samples <= MOST_SAMPLES:
        raise UsageError(f"--num-samples {samples}: 1 to {MOST_SAMPLES:,} is needed")
    if "" in stops:
        raise UsageError("--stop '': an empty text stands everywhere; name the text before which a sample ends")
    prompt = _prompt(flags)
    model, tokenizer, _ = _loaded(flags["run"], "text", best=flags.get("best", False))
    prompt = tokenizer.opening if prompt is None else prompt
    unknown = tokenizer.unknown_count(tokenizer.encode(prompt))
    if unknown:
        print(f"{called.name}: {unknown} tokens of the prompt are not in the vocabulary", file=sys.stderr)
    sampler = Sampler(model, cache=flags.get("cache", True), **settings)
    generator = tinytensor.Generator().manual_seed(flags.get("seed", 0))
    for number in range(samples):
        if number:
            print(SEPARATOR)
        print(prompt, end="", flush=True)
        for piece in until(stream(sampler, tokenizer, prompt, count, generator), stops):
            print(piece, end="", flush=True)
        print()
    return 0


def _prompt(flags: dict) -> str | None:
    """The text of --prompt or of --prompt-file, or None."""
    if "prompt_file" not in flags:
        return flags.get("prompt")
    if "prompt" in flags:
        raise UsageError("--prompt and --prompt-file both give the text to go on from: give one of them")
    try:
        return flags["prompt_file"].read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(
            f"--prompt-file {flags['prompt_file']} is not UTF-8 ({error.reason}): save it as UTF-8"
        ) from None
    except OSError as error:
        raise UsageError(f"--prompt-file {flags['prompt_file']} cannot be read: {error.strerror}") from None


def _evaluate(options) -> int:
    flags = vars(options)
    folder = flags["run"] or _newest_run("text")
    _set_threads(options)
    model, tokenizer, saved = _loaded(folder, *TASKS, best=flags.get("best", False))
    task_class, imported = task_of(saved), "imported" in saved.state
    if "text" in flags and task_class is not TASKS["text"]:
        raise UsageError(
            f"--text: {folder} was trained with --task {task_class.name}; only one of --task text reads a text"
        )
    if "field" in flags and "text" not in flags:
        raise UsageError(f"--field {flags['field']}: name a .jsonl file with --text")
    if imported and "text" not in flags:
        raise UsageError(f"{folder} was imported, and has no held-out data: name a text with --text")
    with checkpoint.reading(folder):
        settings = Settings(**saved.state["settings"])
        batch_size = 1 if imported else ranks.share(settings.batch_size, settings.accumulate)  # GPT-2's rows are long
        if "text" in flags:
            task = task_class.of_file(model.config, tokenizer, flags["text"], flags.get("field"))
        else:
            task = task_class.restore(with_kept_data(folder, saved.state["task"]))
        changed = "text" not in flags and task.fingerprint() != saved.state["data"]
    if changed:
        raise UsageError(f"{folder}: its data have changed since its training: name a text with --text")
    batches = task.heldout_batches(batch_size)
    total, count = sum_of_losses(task, model, batches, tinytensor.compile(partial(task.sum_of_losses, model)))
    loss = total / count
    if not math.isfinite(loss):
        raise NonFiniteLoss(f"the loss is {loss}: the weights of {folder} are too large to compute with")
    print(f"{flags.get('text', 'held-out data')}: {count:,} targets, {folder} after step {saved.step:,}")
    print(f"  loss        {loss:.4f} nats per {task_class.predicted}")
    print(f"  perplexity  {math.exp(min(loss, 700)):.4g}")
    if task_class is TASKS["text"] and task.corpus.heldout_characters:
        print(f"              {total / math.log(2) / task.corpus.heldout_characters:.4f} bits per character")
    return 0


def _translate(options) -> int:
    flags = vars(options)
    how = _sampling(flags, temperature=0.0)
    how |= {name: flags[name] for name in ("beam", "length_penalty", "literal", "cache") if name in flags}
    how["generator"] = tinytensor.Generator().manual_seed(flags.get("seed", 0))
    with _refusing():  # the standard input may not be text
        sentences = [pairs.tidy(s) for s in flags.get("sentences") or sys.stdin.read().splitlines()]
    if not sentences:
        raise UsageError("no sentence was given, and the standard input is empty: there is nothing to translate")
    if "attention" in flags and len(sentences) != 1:
        raise UsageError(f"--attention draws one sentence, but {len(sentences)} were given")
    if "attention" in flags and flags["attention"].is_dir():
        raise UsageError(f"--attention {flags['attention']} is a folder; name a file for the picture")
    _set_threads(options)
    model, tokenizer, _ = _loaded(flags.get("checkpoint"), "translate", best=flags.get("best", False))
    for sentence in sentences:
        if not sentence:
            raise UsageError("a sentence is empty: there is nothing to translate")
        unknown = pairs.unknown_words(tokenizer, sentence)
        if unknown:
            words = _cut(", ".join(map(repr, unknown)))
            raise UsageError(
                f"{_cut(repr(sentence))}: the model's vocabulary does not have {words}; nothing was translated"
            )
    with _refusing():
        if "attention" in flags:
            with writing("the picture", flags["attention"]):
                translated = draw_attention(model, tokenizer, sentences[0], flags["attention"], **how)
            print(translated)
        else:
            for translation in translate_sentences(model, tokenizer, sentences, **how):
                print(translation)
    return 0


def _cut(text: str) -> str:
    return text if len(text) <= 200 else f"{text[:197]}..."  # a sentence that fits on a screen


def _sampling(flags: dict, temperature: float) -> dict:
    """The options about sampling, checked."""
    settings = {"temperature": flags.get("temperature", temperature), "top_k": flags.get("top_k")}
    settings["top_p"] = flags.get("top_p")
    with _refusing():
        check_sampling(**settings)
    return settings


def _show(options) -> int:
    flags = vars(options)
    folder = flags["run"] or _newest_run(*SHOWN)
    out = flags.get("out", folder / PAGE)
    if out.is_dir():
        raise UsageError(f"--out {out} is a folder; name a file for the page")
    with _refusing():
        with writing("the page", out):
            written = _write_page(folder, out, flags.get("text"), flags.get("target"))
        print(f"written to {written}: open it in a browser")
    return 0


def _write_page(folder: Path, out: Path, text: str | None = None, target: str | None = None) -> Path:
    """Write the page of a run, with the snapshots of its training; ValueError if it cannot be shown."""
    model, tokenizer, saved = _loaded(folder, *SHOWN)
    with checkpoint.reading(folder):
        settings = vars(Settings(**saved.state["settings"]))
        losses = [(row["step"], row["loss"]) for row in Log.of(saved.state["log"]).rows]
    earlier = snapshots.read(folder, saved.step, model)
    name = folder.resolve().name.encode(errors="backslashreplace").decode()  # it may not be UTF-8, but the page is
    title = f"{name} after {saved.step:,} steps"
    details = {"step": saved.step, "settings": settings, "snapshots": earlier, "losses": losses, "title": title}
    return show(model, out, tokenizer, text, target=target, **details)


def _info(options) -> int:
    flags = vars(options)
    if flags.get("environment"):
        print(environment.describe())
        return 0
    if flags.get("what") is None:
        raise UsageError("info needs a configuration or the folder of a run, or --environment")
    what, named = options.what, {name: task for task in TASKS.values() for name in task.CONFIGS}
    if what in named:
        task, lines = named[what], []
        config = task.CONFIGS[what]
    else:
        folder = Path(what)
        if not folder.is_dir():
            raise UsageError(f"{folder} is neither a configuration ({', '.join(named)}) nor the folder of a run")
        saved = checkpoint.load(folder, ())
        with checkpoint.reading(folder):
            task, state = task_of(saved), saved.state["task"]
            config, tokenizer = task.described(state)
            memory.check_fits(f"a model of {config.sizes()}", config.weights())
            held = [row["heldout_loss"] for row in Log.of(saved.state["log"]).rows if "heldout_loss" in row]
            lines = [
                f"imported from {saved.state['imported']}"
                if "imported" in saved.state
                else f"after step {saved.step} of {Settings(**saved.state['settings']).steps}"
                + (f", held-out loss {held[-1]:.3f}" if held else ""),
                f"tokens: {tokenizer}",
            ]
    print("\n".join([f"{what}: {config.sizes()}", *lines]))
    print(", ".join(f"{k} = {v}" for k, v in config.to_dict().items() if k not in config.sizes_shown))
    table = report.parameter_table(task.Model(config, device="meta"))
    print(f"\n{config.count}\n\n{report.format_table(table)}")
    return 0


def _saved(folder: Path, best: bool) -> checkpoint.Checkpoint:
    """The last checkpoint of a run, or the one with the least held-out loss; without the state of the optimizer."""
    if not best:
        return checkpoint.load(folder, ("weights",))
    saved = checkpoint.load(folder, ())
    with checkpoint.reading(folder):
        row = Log.of(saved.state["log"]).best()
    if row is None:
        raise UsageError(f"--best: {folder} has not looked at its held-out data yet; leave --best out")
    if row["step"] not in checkpoint.steps(folder):
        raise UsageError(f"--best: {folder} does not hold the checkpoint of step {row['step']}; leave --best out")
    return checkpoint.load(folder, ("weights",), step=row["step"])


def _loaded(folder: Path | None, *names: str, best: bool = False) -> tuple[Module, Tokenizer, checkpoint.Checkpoint]:
    """(model, tokenizer, last checkpoint) of a run of one of these tasks, the newest if no folder is named.

    With `best` the checkpoint is the one with the least held-out loss.
    """
    if folder is None:
        folder = _newest_run(*names)
    saved = _saved(folder, best)
    with checkpoint.reading(folder):
        task, state = task_of(saved), saved.state["task"]
    if task.name not in names:
        needed = " or ".join(f"--task {name}" for name in names)
        raise UsageError(f"{folder} was trained with --task {task.name}, this command needs a run of {needed}")
    with checkpoint.reading(folder):
        config, tokenizer = task.described(state)
        memory.check_fits(f"a model of {config.sizes()}", config.weights())
        model = checkpoint.built(task.Model, config, saved.weights)
    return model, tokenizer, saved


def _newest_run(*names: str) -> Path:
    runs = [(latest.stat().st_mtime, run) for run in RUNS.glob("*") if (latest := checkpoint.latest(run))]
    of_task = [run for _, run in sorted(runs) if task_of(checkpoint.load(run, ())).name in names]
    if not of_task:
        train = "train" if "text" in names else f"train --task {names[0]}"
        raise UsageError(f"there is no run of {called.command} {train} in {RUNS}/: train first, or name a run's folder")
    return of_task[-1]


def _set_threads(options) -> None:
    """--threads, or all cores but no more than four: steps as short as these gain nothing from waiting for more.

    Where several ranks share a machine, each has its share of the cores already (init_process_group).
    """
    threads = getattr(options, "threads", min(tinytensor.get_num_threads(), 4))
    if threads < 1:
        raise UsageError(f"--threads {threads}: 1 or more is needed")
    tinytensor.set_num_threads(threads)
