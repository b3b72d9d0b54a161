"""Checkpoints that were changed: by a disk, which the hashes notice, and by somebody who writes the hashes too.

After each change `info`, `sample` and `train --resume` may go on, if what was changed is none of their business, or
refuse with one sentence and exit code 2; in bounded time, and leaving the other files as they were.
"""

import hashlib
import json
import random
import shutil
from functools import partial
from itertools import islice
from pathlib import Path

import numpy as np
from safetensors import safe_open
from safetensors.numpy import save_file

from models.training import checkpoint

from . import hostile
from .commands import in_a_folder, judge, prepare, run
from .tally import Diary, Tally


def sign(path: Path) -> None:
    """Write the hashes of what the files are now."""
    hashes = {name: hashlib.sha256((path / name).read_bytes()).hexdigest() for name in checkpoint.FILES}
    (path / checkpoint.MANIFEST).write_text(json.dumps(hashes))


def damages(path: Path, chance: random.Random, count: int):
    """Yield (what was done, a function that does it): bits and lengths of files, without new hashes."""
    for name in (*checkpoint.FILES, checkpoint.MANIFEST):
        content = (path / name).read_bytes()
        for _ in range(count):
            at, category = chance.randrange(len(content)), chance.choice(["bit", "cut", "longer", "gone", "zeros"])
            changed = {
                "bit": content[:at] + bytes([content[at] ^ 1 << chance.randrange(8)]) + content[at + 1 :],
                "cut": content[:at],
                "longer": content + content[at:],
                "zeros": bytes(len(content)),
            }
            if category == "gone":
                yield f"{name} gone", (path / name).unlink
            elif changed[category] != content:
                yield f"{name}: {category} at {at}", lambda n=name, c=changed[category]: (path / n).write_bytes(c)


def states(path: Path, chance: random.Random, one_in: int):
    """Yield (what, a function): other values in state.json, with hashes that fit."""
    state = json.loads((path / "state.json").read_bytes())

    def write(text: str) -> None:
        (path / "state.json").write_text(text)
        sign(path)

    for text in ("", "{}", "[]", "null", "[" * 100_000, '{"a":' * 100_000, '{"step": NaN}', '{"step": 1}', "\ufeff{}"):
        yield f"state.json = {text[:20]!r}", lambda t=text: write(t)
    for position in hostile.paths(state):
        for value in [*hostile.VALUES, "gone"]:
            if chance.randrange(one_in) or (position[-1] == "batch_size" and value == 10**6):
                continue  # a step with a million examples can be taken, and takes its minutes
            changed = hostile.without(state, position) if value == "gone" else hostile.replaced(state, position, value)
            title = f"state.json: {'.'.join(map(str, position))} = {str(value)[:30]!r}"
            try:
                text = json.dumps(changed)
            except ValueError:  # more digits than Python writes
                continue
            yield title, lambda t=text: write(t)


def tensors(path: Path):
    """Yield (what, a function): other tensors in the two files, with hashes that fit."""
    for file in ("weights.safetensors", "optimizer.safetensors"):
        with safe_open(path / file, "np") as opened:
            held = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118
        name, value = next(iter(held.items()))
        rest = {k: v for k, v in held.items() if k != name}

        def write(tensors, metadata=None, file=file):
            save_file(tensors, path / file, metadata)
            sign(path)

        changes = {
            "renamed": rest | {"elsewhere": value},
            "missing": rest,
            "none": {},
            "extra": held | {"extra": np.zeros((1000, 1000), np.float32)},
            "NaN": held | {name: np.full_like(value, np.nan)},
            "bool": held | {name: value > 0},
            "float64": held | {name: value.astype(np.float64)},
            "int64": held | {name: value.astype(np.int64)},
            "flat": held | {name: value.ravel()[:1].copy()},
            "empty": held | {name: np.zeros((0,), value.dtype)},
            "one more dimension": held | {name: value[None].copy()},
            "complex": held | {name: value.astype(np.complex64)},
        }
        for what, changed in changes.items():
            yield f"{file}: {name} {what}", lambda c=changed, w=write: w(c)
        for tied in ("{", "[]", '{"a": "b"}', json.dumps({name: "nobody"}), json.dumps({"new": name}), "[" * 100_000):
            yield f"{file}: tied {tied[:20]}", lambda t=tied, w=write, h=held: w(h, {"tinytensor.tied": t})


DAMAGES = {"short": 1, "sample": 8, "long": 100}  # tried of each file, for each size of the run
STATES_ONE_IN = {"short": 300, "sample": 40, "long": 1}
TENSORS_ONE_IN = {"short": 4, "sample": 1, "long": 1}


def fuzz(size: str, diary: Diary) -> Tally:
    tally, chance = Tally(), random.Random(2)
    tasks = ("text", "translate", "recommend") if size == "long" else ("text",)
    with in_a_folder(partial(prepare, tasks=tasks)) as (folder, runs):
        for task in tasks:
            whole, broken = runs[task], folder / "broken"
            shutil.copytree(whole, broken)
            path = checkpoint.latest(broken)
            kept = checkpoint.latest(whole)
            changes = [
                *damages(path, chance, DAMAGES[size]),
                *states(path, chance, STATES_ONE_IN[size]),
                *islice(tensors(path), None, None, TENSORS_ONE_IN[size]),
            ]
            for title, change in diary.mine(changes):
                diary.enter(f"{task}, {title}")
                change()
                _look(tally, f"{task}, {title}", task, broken)
                shutil.rmtree(broken)
                shutil.copytree(whole, broken)
            shutil.rmtree(broken)
            assert kept.exists()
    return tally


def _look(tally: Tally, title: str, task: str, run_folder: Path) -> None:
    commands = [["info", str(run_folder)]]
    if task == "text":
        commands.append(["sample", str(run_folder), "--tokens", "2"])
    elif task == "translate":
        commands.append(["translate", "--checkpoint", str(run_folder), "je suis tu"])
    commands.append(["train", "--resume", str(run_folder)])
    for command in commands:
        judge(tally, f"{title}; {command[0]}", *run(command))
