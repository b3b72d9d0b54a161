"""Weights and batches that all peers share: made once for each row, in a process of its own, and read by everybody.

The weights are the initial values that our modules draw, under our modules' names; peers that keep them in another
layout turn them round themselves. Ten batches, so that ten steps see ten different ones.
"""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

BATCHES = 10


@dataclass
class Case:
    """All that there is to know of one training step."""

    model: str  # "decoder" or "transformer"
    config: dict  # its sizes and switches, under the names of models/
    lr: float
    weight_decay: float
    flops: float  # additions and multiplications in the matrix products of one step
    tokens: int  # in one batch
    weights: dict[str, np.ndarray]
    x: np.ndarray  # (batches, B, C) int64
    y: np.ndarray


def make(settings: dict) -> Case:
    """The case of a row's settings (`rows.decoder`, `rows.TRANSLATOR`)."""
    import tinytensor as tt

    tt.manual_seed(0)
    if settings["model"] == "transformer":
        return _translator(settings)
    from models.decoder import CONFIGS, Decoder

    config = CONFIGS[settings["config"]].replace(**settings["changes"])
    rng = np.random.default_rng(1)
    x, y = rng.integers(0, config.V, (2, BATCHES, settings["batch"], config.C))
    D, F, L, V, C = config.D, config.F, config.L, config.V, config.C
    forward = L * (2 * (4 * D * D + 2 * D * F) + 2 * D * (C + 1)) + 2 * D * V  # a row; half of attention is masked
    model = Decoder(config)
    return _case("decoder", model, D, 3 * forward * settings["batch"] * C, x, y)


def _translator(settings: dict) -> Case:
    """The task's own sentences, of the commonest width of a batch; only full batches, so that each row has words."""
    from models.tasks.translate import TranslateTask
    from models.transformer import PAD, Transformer

    task = TranslateTask.begin(TranslateTask.CONFIGS[settings["config"]], {}, "benchmark")
    source, wanted = task.batches(settings["batch"], np.random.default_rng(1)), 12
    results: list[tuple[np.ndarray, np.ndarray]] = []
    while len(results) < BATCHES:
        x, y = source.next()
        if x.shape[1] == wanted and (x != PAD).any(1).all():
            results.append((x, y))
    config = task.config
    d, F, N, V, n = config.d_model, config.d_ff, config.N, config.n_vol, wanted
    encoder = 2 * (4 * d * d + 2 * d * F) + 4 * n * d
    decoder = 2 * (8 * d * d + 2 * d * F) + 2 * d * (n + 1) + 4 * n * d
    flops = 3 * (N * (encoder + decoder) + 2 * d * V) * settings["batch"] * n
    return _case("transformer", Transformer(config), d, flops, *map(np.stack, zip(*results)))


def _case(category: str, model, width: int, flops: float, x: np.ndarray, y: np.ndarray) -> Case:
    lr = 0.032 / width  # small: where one ReLU rounds to the other side, AdamW makes whole steps of what is nearly 0
    weights = {name: np.array(p.detach().numpy()) for name, p in model.state_dict().items()}
    return Case(category, model.config.to_dict(), lr, 0.01, float(flops), int(y[0].size), weights, x, y)


def write(path: Path, cases: Iterable[Case]) -> None:
    arrays = {}
    for number, case in enumerate(cases):
        facts = asdict(case)
        for name, weight in facts.pop("weights").items():
            arrays[f"{number}/weights/{name}"] = weight
        arrays |= {f"{number}/x": facts.pop("x"), f"{number}/y": facts.pop("y")}
        arrays[f"{number}/facts"] = np.array(json.dumps(facts))
    np.savez(path, **arrays)


def read(path: Path, number: int = 0) -> Case:
    with np.load(path) as file:
        start = f"{number}/weights/"
        weights = {name.removeprefix(start): file[name] for name in file.files if name.startswith(start)}
        facts = json.loads(str(file[f"{number}/facts"]))
        return Case(**facts, weights=weights, x=file[f"{number}/x"], y=file[f"{number}/y"])
