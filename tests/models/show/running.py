"""A table of models/show, run by the engine: every variable of it as a tensor that keeps its gradient."""

import math
from dataclasses import dataclass

import numpy as np

import tinytensor as tt
from models.show.lines import Table
from models.transformer import BEGIN, positional_encoding
from tinytensor import Tensor
from tinytensor.nn import Module, functional


@dataclass
class Text:
    """What a model reads, and what the first of its tokens are to predict."""

    tokens: list[int]
    targets: list[int]
    source: list[int] | None = None

    @classmethod
    def of(cls, tokens: list[int]) -> "Text":
        """The text of a decoder: each token is to predict the next one."""
        return cls(tokens, tokens[1:])

    @classmethod
    def pair(cls, source: list[int], target: list[int]) -> "Text":
        """A pair of sentences, the target with STOP at its end: it is read one place later."""
        return cls([BEGIN, *target[:-1]], target, source)


def _rows(o, text, E):
    tokens = tt.tensor(getattr(text, o.get("read", "tokens")))
    rows = functional.embedding(tokens, E) * o.get("scaled", 1.0)
    return tt.where((tokens == o["blank"]).unsqueeze(-1), 0.0, rows) if "blank" in o else rows


def _sinusoids(o, text):
    n = len(getattr(text, o["read"]))
    return tt.tensor(positional_encoding(n, o["columns"]), dtype=tt.float32, requires_grad=True)


def _norm(o, text, Z, gamma=None, delta=None):
    if o["rms"]:
        return functional.rms_norm(Z, Z.shape[-1:], gamma, o["eps"])
    return functional.layer_norm(Z, Z.shape[-1:], gamma, delta, o["eps"])


def _project(o, text, N, W, b=None):
    heads = N @ W  # (H, n, K)
    return heads if b is None else heads + b.reshape(W.shape[0], 1, -1)


def _affine(o, text, X, W, b=None):
    Y = X @ (W.t() if o.get("transposed") else W)
    return Y if b is None else Y + b


def _mask(o, text, S):
    return S + tt.tensor(np.triu(np.full(S.shape[-2:], -np.inf), 1), dtype=S.dtype)


def _cross_entropy(o, text, L):
    count, smoothing = len(text.targets), o.get("smoothing", 0.0)
    targets = tt.tensor(text.targets)
    return functional.cross_entropy(L[:count], targets, reduction="none", label_smoothing=smoothing)


OPERATIONS = {
    "rows": _rows,
    "sinusoids": _sinusoids,
    "add": lambda o, text, a, b: a + b[: a.shape[0]],
    "norm": _norm,
    "project": _project,
    "scores": lambda o, text, q, k: q @ k.mT / math.sqrt(q.shape[-1]),
    "mask": _mask,
    "softmax": lambda o, text, S: tt.softmax(S, -1),
    "mix": lambda o, text, a, v: a @ v,
    "beside": lambda o, text, Y: Y.transpose(0, 1).flatten(1),
    "affine": _affine,
    "relu": lambda o, text, U: tt.relu(U),
    "gelu": lambda o, text, U: functional.gelu(U),
    "cross_entropy": _cross_entropy,
    "mean": lambda o, text, losses: losses.mean(),
    "sum": lambda o, text, losses: losses.sum(),
}


def run(table: Table, model: Module, text: Text) -> dict[str, Tensor]:
    """All variables of the table for a text, after backward()."""
    parameters = dict(model.named_parameters())
    values = {v.key: parameters[v.weight] for v in table.variables if v.weight is not None}
    for p in parameters.values():
        p.grad = None
    for o in table.operations:
        values[o.output] = OPERATIONS[o.op](o.options, text, *(values[key] for key in o.inputs))
        values[o.output].retain_grad()
    values["loss"].backward()
    return values
