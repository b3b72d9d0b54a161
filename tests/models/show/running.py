"""A table of models/show, run by the engine: every variable of it as a tensor that keeps its gradient."""

import math

import numpy as np

import tinytensor as tt
from models.decoder import Decoder
from models.show.lines import Table
from tinytensor import Tensor
from tinytensor.nn import functional


def _norm(o, tokens, Z, gamma=None, delta=None):
    if o["rms"]:
        return functional.rms_norm(Z, Z.shape[-1:], gamma, o["eps"])
    return functional.layer_norm(Z, Z.shape[-1:], gamma, delta, o["eps"])


def _project(o, tokens, N, W, b=None):
    heads = N @ W  # (H, n, K)
    return heads if b is None else heads + b.reshape(W.shape[0], 1, -1)


def _affine(o, tokens, X, W, b=None):
    Y = X @ (W.t() if o.get("transposed") else W)
    return Y if b is None else Y + b


def _mask(o, tokens, S):
    return S + tt.tensor(np.triu(np.full(S.shape[-2:], -np.inf), 1), dtype=S.dtype)


def _cross_entropy(o, tokens, L):
    return functional.cross_entropy(L[:-1], tt.tensor(tokens[1:]), reduction="none")


OPERATIONS = {
    "rows": lambda o, tokens, E: functional.embedding(tt.tensor(tokens), E),
    "add": lambda o, tokens, a, b: a + b[: a.shape[0]],
    "norm": _norm,
    "project": _project,
    "scores": lambda o, tokens, q, k: q @ k.mT / math.sqrt(q.shape[-1]),
    "mask": _mask,
    "softmax": lambda o, tokens, S: tt.softmax(S, -1),
    "mix": lambda o, tokens, a, v: a @ v,
    "beside": lambda o, tokens, Y: Y.transpose(0, 1).flatten(1),
    "affine": _affine,
    "relu": lambda o, tokens, U: tt.relu(U),
    "gelu": lambda o, tokens, U: functional.gelu(U),
    "cross_entropy": _cross_entropy,
    "mean": lambda o, tokens, losses: losses.mean(),
}


def run(table: Table, model: Decoder, tokens: list[int]) -> dict[str, Tensor]:
    """All variables of the table for some tokens, after backward()."""
    parameters = dict(model.named_parameters())
    values = {v.key: parameters[v.weight] for v in table.variables if v.weight is not None}
    for p in parameters.values():
        p.grad = None
    for o in table.operations:
        values[o.output] = OPERATIONS[o.op](o.options, tokens, *(values[key] for key in o.inputs))
        values[o.output].retain_grad()
    values["loss"].backward()
    return values
