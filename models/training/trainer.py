"""The training loop: one step recorded and replayed, a log, checkpoints, and the first tensor that became NaN.

A step is equations (1) to (16) forward, (17) backward, and (18), or AdamW in its place.
"""

import math
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path

import numpy as np

import tinytensor
from models.decoder import Decoder
from models.options import check, option, setting
from models.tasks.task import Task
from models.training import checkpoint, memory, ranks, snapshots
from tinytensor import Tensor, distributed, no_grad, tensor
from tinytensor.interop.io.files import writing
from tinytensor.interop.io.serialization import write_atomically
from tinytensor.nn import Module
from tinytensor.nn.parallel import DistributedDataParallel
from tinytensor.nn.utils import clip_grad_norm_
from tinytensor.optim import SGD, AdamW, Optimizer
from tinytensor.optim.lr_scheduler import LambdaLR


class NonFiniteLoss(RuntimeError):
    """The loss or a parameter became NaN or inf; the message names the first tensor that did."""


@dataclass(frozen=True)
class Settings:
    """How a model is trained. With the model's configuration and the data they determine every bit of the result."""

    steps: int = option(16000, "steps", least=1)
    batch_size: int = option(16, "examples in a step", least=1)
    accumulate: int = option(1, "parts of a step's batch, computed one after the other to save memory", least=1)
    optimizer: str = option("adamw", "sgd is eq. (18) of 003 as it stands", ("adamw", "sgd"))
    lr: float = option(1.5e-2, "largest learning rate, the rho of eq. (18)", least=0.0)
    weight_decay: float = option(0.1, "how fast weights shrink", least=0.0)
    betas: tuple[float, float] = setting((0.9, 0.99), below=1)
    clip: float = option(1.0, "largest norm of the gradients together; 0 for no limit", least=0.0)
    schedule: str = option("cosine", "how the learning rate falls", ("cosine", "linear", "constant"))
    warmup: int = option(100, "steps over which the learning rate rises", least=0)
    floor: float = option(0.0, "learning rate at the end, as a part of --lr", least=0.0)
    seed: int = option(0, "seed of all random numbers", least=0)
    log_every: int = option(50, "steps from one row of log.csv to the next", least=1)
    evaluate_every: int = option(1000, "steps from one look at the held-out data to the next", least=1)
    patience: int = option(0, "stop after so many looks without a better held-out loss; 0: never", least=0)
    checkpoint_every: int = option(1000, "steps from one checkpoint to the next", least=1)
    layer_lr: tuple[float, ...] = option((), "a factor on the rate for each layer")  # the remark after eq. (18)
    head_lr: tuple[float, ...] = option((), "a factor on the rate for each head")

    def __post_init__(self):
        check(self)
        if self.accumulate > self.batch_size:
            raise ValueError(f"accumulate = {self.accumulate}: there are only {self.batch_size} rows in a batch")
        for name in ("betas", "layer_lr", "head_lr"):
            object.__setattr__(self, name, tuple(getattr(self, name)))  # JSON makes lists of them

    def rate(self, step: int) -> float:
        """The learning-rate schedule: the part of `lr` at step `step` (from 0), a line up, then down to `floor`."""
        if step < self.warmup:
            return (step + 1) / self.warmup
        done = min(1.0, (step - self.warmup) / max(1, self.steps - self.warmup))
        shape = {"cosine": (1 + math.cos(math.pi * done)) / 2, "linear": 1 - done, "constant": 1.0}[self.schedule]
        return self.floor + (1 - self.floor) * shape


def parameter_groups(model: Decoder, layer_lr: tuple[float, ...] = (), head_lr: tuple[float, ...] = ()) -> list[dict]:
    """Parameters for an optimizer, with a factor on the rate for each layer and each head (after eq. 18).

    A head owns its Q, K and V (and their biases) and the rows of W that read its part of eq. (7).
    """
    config = model.config
    for name, factors, count in (("layer", layer_lr, config.L), ("head", head_lr, config.H)):
        if factors and len(factors) != count:
            raise ValueError(f"{len(factors)} learning rates for {count} {name}s: give one for each {name}")
    in_blocks = {id(p) for p in model.blocks.parameters()}
    groups = [{"params": [p for p in model.parameters() if id(p) not in in_blocks]}]
    heads = np.array(head_lr or [1.0] * config.H)
    for block, factor in zip(model.blocks, layer_lr or [1.0] * config.L, strict=True):
        for name, p in block.named_parameters():
            multiplier = factor
            if head_lr and name in "QKV":
                multiplier = tensor((factor * heads).reshape(-1, 1, 1), dtype=p.dtype)  # (H, 1, 1) on (H, D, K)
            elif head_lr and name in "qkvW":
                rows = np.repeat(factor * heads, config.K)  # (H K) on (H K), or (H K, 1) on (H K, D)
                multiplier = tensor(rows.reshape(-1, *[1] * (p.ndim - 1)), dtype=p.dtype)
            groups.append({"params": [p], "lr_multiplier": multiplier})
    return groups


def build_optimizer(model: Module, settings: Settings) -> Optimizer:
    factors = settings.layer_lr or settings.head_lr
    groups = parameter_groups(model, settings.layer_lr, settings.head_lr) if factors else list(model.parameters())
    if settings.optimizer == "sgd":
        return SGD(groups, lr=settings.lr, weight_decay=settings.weight_decay)
    return AdamW(groups, lr=settings.lr, betas=settings.betas, weight_decay=settings.weight_decay)


def training_step(
    model: Module, optimizer: Optimizer, clip: float, parts: int = 1
) -> Callable[..., tuple[Tensor, Tensor | None]]:
    """The function that takes one step on a batch; it reads nothing of the run but these four.

    It returns the loss, and the norm that all gradients together had before they were clipped (None without `clip`).
    If the batch is a part of a larger one, `total` is the number of targets in all; the loss is this part's share.
    With several parts, their arrays follow each other; gradients add up, and a part's memory serves the next one.
    """

    def step(*batch: Tensor, **total: Tensor) -> tuple[Tensor, Tensor | None]:
        optimizer.zero_grad()
        losses, size = [], len(batch) // parts
        for part in range(parts):
            alone = isinstance(model, DistributedDataParallel) and part < parts - 1  # other ranks wait for the last one
            with model.no_sync() if alone else nullcontext():
                _, loss = model(*batch[part * size : (part + 1) * size], **total)  # (1)-(16)
                loss.backward()  # (17)
            losses.append(loss.detach())
        norm = clip_grad_norm_(model.parameters(), clip) if clip else None
        optimizer.step()  # (18)
        return sum(losses[1:], losses[0]), norm

    return step


@dataclass
class Log:
    """The rows of log.csv."""

    rows: list[dict] = field(default_factory=list)

    COLUMNS = ("step", "loss", "lr", "tokens_per_second", "heldout_loss")

    @classmethod
    def of(cls, rows: list[dict]) -> "Log":
        """The log with these rows; ValueError if they are not numbers by the names of the columns."""
        for row in rows:
            known = {name: x for name, x in row.items() if name in cls.COLUMNS and isinstance(x, int | float)}
            if known != row or not {"step", "loss"} <= set(row):
                raise ValueError(f"{row!r} is no row of the log")
        return cls(list(rows))

    def text(self, rows: list[dict]) -> str:
        return "".join(",".join(_cell(row.get(name)) for name in self.COLUMNS) + "\n" for row in rows)

    def rewrite(self, path: Path) -> None:
        """Write the whole file anew: after a resume it holds the rows of the checkpoint, each once."""
        write_atomically(path, (",".join(self.COLUMNS) + "\n" + self.text(self.rows)).encode())

    def best(self) -> dict | None:
        """The row with the least held-out loss (the first of equals), or None before the first look."""
        return min(
            (row for row in self.rows if "heldout_loss" in row), key=lambda row: row["heldout_loss"], default=None
        )

    def looks_since_best(self) -> int:
        """How many looks at the held-out data came after the best one."""
        looks = [row for row in self.rows if "heldout_loss" in row]
        return len(looks) - 1 - looks.index(self.best()) if looks else 0

    def append(self, path: Path, row: dict) -> None:
        with path.open("a", encoding="utf-8") as file:
            file.write(self.text([row]))


def _cell(value) -> str:
    return "" if value is None else f"{value:.6g}" if isinstance(value, float) else str(value)


class Trainer:
    """A run: a task, the model that learns it, its optimizer, its place in the data and its log.

    Dropout and initial values come from tinytensor's default generator, the order of the data from a generator of its
    own. `folder` is where log and checkpoints go.

    If this process is one of several ranks, they take each step together, unless `alone` is set: each has its rows of
    every batch, and the step is that of the whole batch. All ranks hold the same state, except the held-out losses:
    only rank 0 evaluates, and writes.
    """

    def __init__(self, task: Task, settings: Settings, folder: Path, eager: bool = False, alone: bool = False):
        self.task, self.config, self.settings, self.folder = task, task.config, settings, folder
        self.rank, self.ranks = (0, 1) if alone else (ranks.rank(), ranks.count())
        # The command line checks a new run before its data are read. The data give V, and a run may be resumed on
        # another machine: so check again.
        memory.check_training(self.config, ranks.share(settings.batch_size, self.ranks * settings.accumulate))
        tinytensor.manual_seed(settings.seed)
        self.model = task.build()
        self.optimizer = build_optimizer(self.model, settings)
        self.schedule = LambdaLR(self.optimizer, settings.rate)
        self.batches = task.batches(settings.batch_size, np.random.default_rng(settings.seed))
        self.log = Log()
        self.step = 0
        self.seen = 0  # targets since the last row of the log
        self.recent: list[float] = []  # the losses since the last row of the log
        self._log_is_torn = False  # does log.csv lack a row, or a part of one?
        self.norm: Tensor | None = None  # of the last step's gradients before they were clipped
        self.stop = False  # set from outside (Ctrl-C): finish this step, save, and return
        self.over = False  # the patience with the held-out loss has ended
        self._stop_together = False  # one of several ranks is to stop, and all know it
        self._wrap = (lambda step: step) if eager else tinytensor.compile
        self._step = self._wrap(training_step(self.model, self.optimizer, settings.clip, settings.accumulate))
        self._total_loss = self._wrap(partial(task.sum_of_losses, self.model))
        self.together: DistributedDataParallel | None = None  # the model on all ranks

    def _tensors(self, batch) -> list[Tensor]:
        return [tensor(array) for array in batch]

    # --- Steps

    def join(self) -> None:
        """Take the weights of rank 0, and each step together with the others from now on. All ranks call it."""
        if self.ranks > 1 and self.together is None:
            self.together = DistributedDataParallel(self.model, reduce_op=distributed.ReduceOp.SUM)
            parts = self.settings.accumulate
            self._step = self._wrap(training_step(self.together, self.optimizer, self.settings.clip, parts))

    def advance(self) -> float:
        """One step on the next batch; returns its loss for each counted target."""
        batch = self.batches.next()
        targets = self.task.counted(*batch)
        parts = self.ranks * self.settings.accumulate
        if parts == 1:
            loss, self.norm = self._step(*self._tensors(batch))
            loss = loss.item()
        else:
            # The joint mean is no mean of means, since parts may count different numbers of targets: each part's sum is
            # divided by the number of targets in all parts. Without targets the sum and its gradients are 0.
            first = self.rank * self.settings.accumulate
            rows = range(first, first + self.settings.accumulate)
            own = [array for i in rows for array in ranks.rows_of(batch, self.task.nothing, i, parts)]
            total = {"total": tensor(float(targets))} if self.task.averages else {}
            part, self.norm = self._step(*self._tensors(own), **total)
            loss = part.item()
            if self.ranks > 1:
                reports = ranks.numbers(loss, self.stop)
                loss, self._stop_together = sum(x for x, _ in reports), any(stop for _, stop in reports)
        self.schedule.step()
        self.step += 1
        self.seen += targets
        return loss if self.task.averages else loss / targets

    def train(self, progress: Callable[[dict], None] = lambda row: None) -> bool:
        """Go on to the last step (True) or until `stop` is set (False), saving on the way and at the end.

        With `patience` the last step may come early. The checkpoint with the best held-out loss so far is kept.
        `progress` is called after each step with {"step", "loss"}, and where a row of the log is due, with the row.
        """
        settings, began, self.seen = self.settings, time.perf_counter(), 0
        self.join()
        if self.step == 0:
            self.save()
            self.keep_snapshot()
        if self.rank == 0:
            with writing("the log", self.folder / "log.csv", lambda: checkpoint.still_there(self.folder)):
                self.log.rewrite(self.folder / "log.csv")
        self.model.train()
        while not self.finished() and not (self.stop if self.ranks == 1 else self._stop_together):
            lr = self.schedule.get_last_lr()[0]
            loss = self.advance()
            if not math.isfinite(loss):
                self.explain()
            self.recent.append(loss)
            row = {"step": self.step, "loss": loss}
            evaluate = self.step % settings.evaluate_every == 0 or self.step == settings.steps
            if evaluate or self.step % settings.log_every == 0:
                speed = self.seen / (time.perf_counter() - began)
                row |= {"loss": math.fsum(self.recent) / len(self.recent), "lr": lr, "tokens_per_second": speed}
                if evaluate and self.rank == 0:
                    row["heldout_loss"] = self.evaluate()
                self.log.rows.append(row)
                if self.rank == 0:
                    self._append_to_log(row)
                self.recent, self.seen = [], 0
            if evaluate:
                self.over = self._patience_ends()
            if self.step % settings.checkpoint_every == 0 or self.log.best() is row:
                self.save()
            self.keep_snapshot()
            paused = time.perf_counter()
            progress(row)
            now = time.perf_counter()  # tokens a second count the time of steps only
            began = now if "lr" in row else began + now - paused
        self.save()
        return self.finished()

    def _append_to_log(self, row: dict) -> None:
        """Write a row to log.csv. If that fails, the run goes on, and the next row brings all rows."""
        path, torn = self.folder / "log.csv", self._log_is_torn
        with self.task.attempt("writing log.csv"):
            self._log_is_torn = True
            with writing("a row of the log", path):
                if torn:
                    self.log.rewrite(path)
                else:
                    self.log.append(path, row)
            self._log_is_torn = False

    def finished(self) -> bool:
        """Has the run taken its last step?"""
        return self.step >= self.settings.steps or self.over

    def _patience_ends(self) -> bool:
        """Were there too many looks without a better held-out loss? Rank 0 knows it, and tells the others."""
        patience = self.settings.patience
        ends = 0 < patience <= self.log.looks_since_best()
        return any(x for (x,) in ranks.numbers(ends)) if patience and self.ranks > 1 else ends

    # --- Evaluation

    def evaluate(self) -> float:
        """Eq. (16) over the held-out data, every target counted once."""
        batches = self.task.heldout_batches(ranks.share(self.settings.batch_size, self.settings.accumulate))
        total, count = sum_of_losses(self.task, self.model, batches, self._total_loss)
        if not math.isfinite(total):
            raise NonFiniteLoss(
                f"the held-out loss is {total} after step {self.step}: the parameters are too large to compute with. "
                f"{checkpoint.latest(self.folder)} is the last good checkpoint: try a smaller --lr or --clip"
            )
        return total / count

    # --- Checkpoints

    def save(self) -> Path | None:
        """Write a checkpoint; if a parameter is not finite, raise NonFiniteLoss instead and keep the last checkpoint.

        Rank 0 writes for all ranks: all hold the same state, so that any number of ranks can go on from it.
        """
        if self.rank > 0:
            return None
        if self._first_nonfinite_parameter():
            self.explain()
        kept = self.optimizer.state_dict()["state"]
        optimizer = {f"{i}.{k}": v for i, entry in kept.items() for k, v in entry.items() if isinstance(v, Tensor)}
        state = {
            "task": self.described_task(),
            "settings": asdict(self.settings),
            "data": self.task.fingerprint(),
            "optimizer_steps": {str(i): entry["step"] for i, entry in kept.items()},
            "schedule": self.schedule.state_dict()["last_epoch"],
            "generator": tinytensor.default_generator.get_state(),
            "batches": self.batches.state_dict(),
            "log": self.log.rows,
            "recent": self.recent,
        }
        saved = checkpoint.Checkpoint(self.step, self.model.state_dict(), optimizer, state)
        best = self.log.best()
        return checkpoint.save(self.folder, saved, best=None if best is None else best["step"])

    def described_task(self) -> dict:
        """What a checkpoint holds about the task, from which `Task.restore` makes it again."""
        return {"name": self.task.name, "config": self.config.to_dict()} | self.task.state()

    def options(self) -> dict:
        """The values of all options that decide the run, by name."""
        return self.task.options(self.described_task()) | asdict(self.settings)

    def keep_snapshot(self) -> None:
        """Write the weights for a page that shows how they were learned, after the steps at which that is due."""
        if self.rank == 0 and snapshots.due(self.step) and not self._first_nonfinite_parameter():
            with self.task.attempt("a snapshot for the page"):
                snapshots.keep(self.folder, self.step, self.model)

    def restore(self, saved: checkpoint.Checkpoint) -> "Trainer":
        """Go to a checkpoint of this run; every later bit is as if the run had not stopped."""
        state = saved.state
        here = self.task.fingerprint()
        with checkpoint.reading(self.folder):
            if state["data"] != here:
                raise checkpoint.CheckpointError(
                    f"{self.folder} was trained on another text ({state['data']['tokens']} tokens) than the one given "
                    f"now ({here['tokens']} tokens): a run goes on with the text it was begun with"
                )
            checkpoint.load_weights(self.model, saved.weights)
            own = self.optimizer.state_dict()
            own["state"] = {int(i): {"step": n} for i, n in state["optimizer_steps"].items()}
            for name, value in saved.optimizer.items():
                number, slot = name.split(".", 1)
                checkpoint.check_finite(name, value)
                own["state"][int(number)][slot] = value
            self.optimizer.load_state_dict(own)
            self.schedule.load_state_dict({"last_epoch": state["schedule"], "base_lrs": self.schedule.base_lrs})
            tinytensor.default_generator.set_state(state["generator"])
            self.batches.load_state_dict(state["batches"])
            self.log, self.recent, self.step = Log.of(state["log"]), [float(x) for x in state["recent"]], saved.step
            self.over = 0 < self.settings.patience <= self.log.looks_since_best()
        return self

    # --- Numbers not finite

    def _first_nonfinite_parameter(self) -> str | None:
        return next(
            (name for name, p in self.model.named_parameters() if not np.isfinite(p.detach().numpy()).all()), None
        )

    def explain(self):
        """Raise NonFiniteLoss, naming the first tensor that is not finite.

        The parameters are not finite now. So the run is repeated from the last checkpoint, which is good, up to the
        step that fails; that step is taken again with every operation checked. Rank 0 does this, and ends the others.
        """
        if self.rank > 0:
            distributed.barrier()
        path = checkpoint.latest(self.folder)
        twin = Trainer(self.task, self.settings, self.folder, eager=True, alone=True)
        twin.restore(checkpoint.load(self.folder))
        while twin.step < self.settings.steps:
            weights = {name: p.clone() for name, p in twin.model.state_dict().items()}
            generator, batches = tinytensor.default_generator.get_state(), twin.batches.state_dict()
            loss = twin.advance()
            changed = twin._first_nonfinite_parameter()
            if not math.isfinite(loss) or changed:
                twin.model.load_state_dict(weights)
                twin.optimizer.zero_grad()
                tinytensor.default_generator.set_state(generator)
                twin.batches.load_state_dict(batches)
                batch = twin._tensors(twin.batches.next())
                culprit = first_nonfinite(twin.model, *batch) or f"the parameter {changed} after its update"
                raise NonFiniteLoss(
                    f"step {twin.step} gave a loss of {loss}; the first tensor that is not finite is {culprit}. "
                    f"{path} is the last good checkpoint: try a smaller --lr or --clip"
                )
        raise NonFiniteLoss(f"a parameter became NaN or inf, but not when the steps since {path} were repeated")


def sum_of_losses(task: Task, model: Module, batches, total_loss: Callable[..., Tensor]) -> tuple[float, int]:
    """(the sum of the losses over the counted targets of some batches, their number), without dropout."""
    total, count, training = 0.0, 0, model.training
    model.eval()
    with no_grad():
        for batch in batches:
            total += total_loss(*map(tensor, batch)).item()
            count += task.counted(*batch)
    model.train(training)
    return total, count


def first_nonfinite(model: Module, *batch: Tensor) -> str | None:
    """The name and operation of the first tensor that becomes NaN or inf in a forward and backward pass."""
    generator = tinytensor.default_generator.get_state()  # both passes below draw the same dropout masks
    names: list[str] = []

    def look(name):
        def hook(module, args, output):
            values = output[0] if isinstance(output, tuple) else output
            if not np.isfinite(values.detach().numpy()).all():
                names.append(f"the output of {name}" if name else "the logits")

        return hook

    removers = [module.register_forward_hook(look(name)) for name, module in model.named_modules()]
    _, loss = model(*batch)
    for remove in removers:
        remove()
    if not math.isfinite(loss.item()):
        names.append("the loss")
    if not names:
        loss.backward()
        parameters = list(model.named_parameters())[::-1]  # backward() reaches the last ones first
        names = [f"the gradient of {name}" for name, p in parameters if not np.isfinite(p.grad.numpy()).all()]
    if not names:
        return None
    tinytensor.default_generator.set_state(generator)
    try:
        with tinytensor.detect_anomaly():
            model(*batch)[1].backward()
    except FloatingPointError as error:
        return f"{names[0]} ({error})"
    return names[0]
