"""Resuming a run: the trainer of a run that was stopped, or of a finished one that takes more steps."""

from dataclasses import replace
from pathlib import Path

from models.options import UsageError
from models.tasks import TASKS
from models.tasks.task import Task
from models.training import checkpoint
from models.training.trainer import Settings, Trainer

PIPED = {"text": "text.txt", "pairs": "pairs.tsv", "sequences": "sequences.csv"}  # the names of files that hold pipes
# Options that may change when a run is resumed, and the entries that argparse adds.
FREE = {"resume", "threads", "eager", "live", "live_port", "profile", "tensorboard", "steps", "patience", "task"}
FREE |= {"command", "name", "task_class"}


def task_of(saved: checkpoint.Checkpoint) -> type[Task]:
    """The task whose run a checkpoint belongs to."""
    return TASKS[saved.state["task"]["name"]]


def with_kept_data(folder: Path, state: dict) -> dict:
    """The state of a task, with the file that holds its pipe in the run's folder, wherever that lies now."""
    file = state.get("file")
    kept = None if file is None else folder / Path(file).name
    if kept is None or kept.stem not in PIPED or not kept.is_file() or Path(file).exists():
        return state
    return state | {"file": str(kept.resolve())}


def resume(options) -> Trainer:
    """A run that was stopped, or a finished one that takes more steps."""
    flags = vars(options)
    folder = flags["resume"]
    saved = checkpoint.load(folder)
    if "imported" in saved.state:
        reason = "it has weights, but no training to go on with; --init-from begins a new run with them"
        raise UsageError(f"{folder} was imported: {reason}")
    with checkpoint.reading(folder):
        task_class, settings = task_of(saved), Settings(**saved.state["settings"])
        saved.state["task"] = with_kept_data(folder, saved.state["task"])
        begun = task_class.options(saved.state["task"]) | vars(settings) | {"out": folder}
    if flags.get("task", task_class.name) != task_class.name:
        raise UsageError(f"{folder} was trained with --task {task_class.name}, not {flags['task']}")
    for name in sorted(set(flags) - FREE):
        if not has_value_of_run(name, flags, begun, task_class):
            raise UsageError(
                f"--resume goes on with a run as it was begun: --{name.replace('_', '-')} cannot be changed "
                "(--threads, --eager and --live can: no result depends on them; --steps and --patience too)"
            )
    settings = replace(settings, **{name: flags[name] for name in ("steps", "patience") if name in flags})
    if settings.steps < saved.step:
        raise UsageError(
            f"--steps {settings.steps}: {folder} has taken {saved.step} steps already; give as many or more"
        )
    with checkpoint.reading(folder):
        task = task_class.restore(saved.state["task"])
        trainer = Trainer(task, settings, folder, eager=flags.get("eager", False)).restore(saved)
    print(f"going on after step {trainer.step} of {settings.steps}")
    if settings.steps != begun["steps"]:
        print(f"the learning rate is from here on that of a run of {settings.steps} steps ({settings.schedule})")
    return trainer


def has_value_of_run(name: str, flags: dict, begun: dict, task_class: type[Task]) -> bool:
    """Does an option have the value that the run has already?"""
    value = flags[name]
    if name == "config":  # its sizes and switches, except those that options or the data set
        other = set(flags) | set(task_class.sized_by_data)
        return all(x == begun[size] for size, x in task_class.CONFIGS[value].to_dict().items() if size not in other)
    if isinstance(value, Path):
        return begun.get(name) is not None and value.resolve() == Path(begun[name]).resolve()
    before = begun.get(name)
    return value == (tuple(before) if isinstance(before, list) else before)  # JSON makes lists of tuples
