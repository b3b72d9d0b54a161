"""The training runs of lesson 20: a decoder, its training with one of twelve faults or none, and what is measured.

`train(Run())` is a healthy run, and `train(with_fault("rate"))` the same with a learning rate ten times too high.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pydoc_data.topics import topics
from statistics import mean
from typing import Any

import tinytensor as tt
import tinytensor.nn.functional as F
from tinytensor import nn
from tinytensor.viz import plots

D, L, C, B = 24, 2, 16, 8  # width, layers, context; B is the batch size
TEXT = " ".join(topics["execmodel"].split())[:5600]
ALPHABET = sorted(set(TEXT))
V = len(ALPHABET)
TOKENS = tt.tensor([ALPHABET.index(c) for c in TEXT])
HELD_OUT = TOKENS[-30 * (C + 1) :].view(30, C + 1)


@dataclass(frozen=True)
class Run:
    """The settings of a run; their defaults are those of a healthy one."""

    seed: int = 0
    steps: int = 150
    rate: float = 1.5  # ρ of (18)
    warm_up: int = 20  # steps in which the rate grows to its full size
    max_norm: float = 1.0  # to which the gradients are clipped ...
    clip: str = "before"  # ... the step, or "after" it
    zero_grad: bool = True  # are the gradients set to 0 before each step?
    gain: float = 1.0  # of the initial values, times Xavier's
    tied: bool = False  # is one layer used L times, in the place of L layers?
    axis: int = -1  # along which the norms take mean and variance; those of Z are (B, n, D)
    mask: str = "columns"  # hides later tokens in a row of scores; "rows": its rows and columns are exchanged
    diagonal: bool = True  # may a token see itself?
    softmax: bool = False  # is there one before the cross-entropy, which has its own?
    shift: int = 1  # the right token for each place is so many places later
    text: int = 5000  # characters of text to learn from
    dropout: float = 0.2
    evaluation: bool = True  # does the model go to evaluation mode when it is measured?


FAULTS = {
    "rate": 15.0,
    "diagonal": False,
    "zero_grad": False,
    "softmax": True,
    "shift": 0,
    "mask": "rows",
    "text": 60,
    "evaluation": False,
    "axis": 0,
    "tied": True,
    "gain": 10.0,
    "clip": "after",
}
REPAIRS = {  # for each fault two repairs that one would try, and that do not help
    "rate": ({"warm_up": 75}, {"dropout": 0.0}),
    "diagonal": ({"max_norm": 0.1}, {"rate": 0.15}),
    "zero_grad": ({"rate": 0.5}, {"warm_up": 75}),
    "softmax": ({"rate": 15.0}, {"steps": 300}),
    "shift": ({"dropout": 0.5}, {"rate": 0.5}),
    "mask": ({"dropout": 0.5}, {"rate": 0.5}),
    "text": ({"dropout": 0.5}, {"steps": 300}),
    "evaluation": ({"dropout": 0.05}, {"rate": 0.5}),
    "axis": ({"dropout": 0.0}, {"gain": 0.5}),
    "tied": ({"gain": 2.0}, {"dropout": 0.0}),
    "gain": ({"rate": 0.15}, {"max_norm": 0.1}),
    "clip": ({"max_norm": 0.1}, {"warm_up": 10}),
}


def with_fault(name: str, **settings: Any) -> Run:
    """A healthy run but for one fault, and for other settings."""
    return Run(**{name: FAULTS[name]} | settings)


@dataclass
class Readings:
    """What one can read from a run; the first five have an entry for each step."""

    loss: list[float] = field(default_factory=list)  # on the texts that it learns from
    gradient: list[float] = field(default_factory=list)  # length of all gradients, before they are clipped
    step_length: list[float] = field(default_factory=list)  # length of the step, divided by the rate
    activations: list[list[float]] = field(default_factory=list)  # root mean squares: embedding, then each sublayer
    gradients: list[list[float]] = field(default_factory=list)  # lengths, for the weights of each sublayer
    held_out: list[float] = field(default_factory=list)  # loss on held-out text, each ten steps
    repeats: list[float] = field(default_factory=list)  # at the end: the held-out loss, measured twice
    neighbours: list[float] = field(default_factory=list)  # the loss of its first line, alone and beside others
    positions: list[float] = field(default_factory=list)  # the held-out loss at each place of the context

    HEADER = "first highest   last held out  place  twice  alone  layers   step   over 1"

    def row(self) -> str:
        """The numbers of a run below HEADER."""
        losses = self.loss[0], max(self.loss), mean(self.loss[-20:]), self.repeats[0], self.positions[-1]
        differences = (abs(a - b) for a, b in (self.repeats, self.neighbours, self.gradients[0][::2]))
        over = mean(g > 1 for g in self.gradient[-50:])
        form = "{:5.2f}{:8.2f}{:7.2f}{:9.2f}{:7.2f}{:7.3f}{:7.3f}{:8.3f}{:7.2f}{:9.0%}"
        return form.format(*losses, *differences, max(self.step_length), over)

    def draw_losses(self, panel) -> None:
        """The losses over the steps, up to 10; the dotted line is that of a model that knows nothing."""
        panel.plot(self.loss, linewidth=1, label="training")
        panel.plot(range(10, 10 * len(self.held_out) + 1, 10), self.held_out, "o", markersize=3, label="held out")
        panel.axhline(math.log(V), color="black", linestyle=":")
        panel.set(xlim=(-5, len(self.loss) + 5), ylim=(0, 10))
        if math.isnan(self.loss[-1]):
            panel.text(0.5, 0.6, "NaN", transform=panel.transAxes, ha="center")

    def draw_sizes(self, panel, healthy: "Readings") -> None:
        """Activations after the embedding and each sublayer, beside those of a healthy run, and gradients."""
        names = ["E"] + [f"{sublayer}{i + 1}" for i in range(L) for sublayer in ("a", "f")]
        panel.plot(names, healthy.activations[-1], color="0.7", linestyle="-", linewidth=5, label="healthy at last")
        panel.plot(names, self.activations[0], ".-", label="activations at first")
        panel.plot(names, self.activations[-1], ".--", label="at last")
        panel.plot(names[1:], self.gradients[0], "x", label="gradients at first")
        panel.set(yscale="log", ylim=(1e-3, 1e3))


def sheet(runs: dict[str, Readings], draw: Callable, *others: Readings):
    """A figure with a panel for each run, under its letter."""
    figure, panels = plots.panels(4, 3, size=(6.4, 7))
    for panel, (letter, run) in zip(panels.flat, runs.items()):
        draw(run, panel, *others)
        panel.set_title(letter)
    figure.legend(*panel.get_legend_handles_labels(), loc="outside lower center", ncols=2, frameon=False)
    return figure


class Layer(nn.Module):
    """Attention with one head, then a feed-forward network: each reads the normalized stream and adds to it."""

    def __init__(self, run: Run):
        super().__init__()
        self.run = run
        self.QKV, self.W = nn.Linear(D, 3 * D), nn.Linear(D, D)
        self.F, self.G = nn.Linear(D, 2 * D), nn.Linear(2 * D, D)

    def forward(self, Z: tt.Tensor, stream: list[tt.Tensor]) -> tt.Tensor:
        later = tt.ones(Z.shape[1], Z.shape[1]).triu(1 if self.run.diagonal else 0)
        hidden = later if self.run.mask == "columns" else later.T
        q, k, v = self.QKV(norm(Z, self.run.axis)).split(D, -1)
        S = (q @ k.mT / math.sqrt(D)).masked_fill(hidden > 0, -math.inf)
        Z = Z + F.dropout(self.W(S.softmax(-1) @ v), self.run.dropout, self.training)
        stream.append(Z)
        Z = Z + F.dropout(self.G(self.F(norm(Z, self.run.axis)).relu()), self.run.dropout, self.training)
        stream.append(Z)
        return Z


def norm(Z: tt.Tensor, axis: int) -> tt.Tensor:
    return (Z - Z.mean(axis, keepdim=True)) / (Z.var(axis, unbiased=False, keepdim=True) + 1e-5).sqrt()


class Decoder(nn.Module):
    """The decoder of document 003 with learned positions, the norm before each sublayer, and one at the end."""

    def __init__(self, run: Run):
        super().__init__()
        self.run = run
        self.E, self.P, self.O = nn.Embedding(V, D), nn.Embedding(C, D), nn.Linear(D, V)
        self.layers = nn.ModuleList([Layer(run)] * L if run.tied else [Layer(run) for _ in range(L)])
        for p in self.parameters():
            nn.init.xavier_normal_(p, run.gain) if p.ndim == 2 else nn.init.zeros_(p)

    def losses(self, texts: tt.Tensor, stream: list[tt.Tensor]) -> tt.Tensor:
        """The loss at each place of texts (B, C + 1): (B, C)."""
        stream.append(self.E(texts[:, :C]) + self.P.weight)
        for layer in self.layers:
            layer(stream[-1], stream)
        logits = self.O(norm(stream[-1], self.run.axis))
        if self.run.softmax:
            logits = logits.softmax(-1)
        right = texts[:, self.run.shift : self.run.shift + C]
        return F.cross_entropy(logits.flatten(0, 1), right.flatten(), reduction="none").view(-1, C)


@cache
def train(run: Run) -> Readings:
    """Train a fresh decoder, and measure."""
    tt.manual_seed(run.seed)
    model, readings = Decoder(run), Readings()
    parameters = list(model.parameters())
    optimizer = tt.optim.SGD(parameters, lr=run.rate)

    def length(tensors) -> tt.Tensor:
        return nn.utils.get_total_norm([p.grad for p in tensors])

    def clip() -> tt.Tensor:
        return nn.utils.clip_grad_norm_(parameters, run.max_norm)

    @tt.compile  # recorded once, then replayed (lesson 18)
    def step(texts):
        if run.zero_grad:
            optimizer.zero_grad()
        stream: list[tt.Tensor] = []
        loss = model.losses(texts, stream).mean()
        loss.backward()
        weights = [pair for x in model.layers for pair in ((x.QKV.weight, x.W.weight), (x.F.weight, x.G.weight))]
        gradients = tt.stack([length(pair) for pair in weights])
        total = clip() if run.clip == "before" else length(parameters)
        used = length(parameters)
        optimizer.step()
        if run.clip == "after":
            clip()
        return loss, total, used, tt.stack([(Z * Z).mean().sqrt() for Z in stream]).detach(), gradients

    def held_out(texts: tt.Tensor) -> tt.Tensor:
        model.train(not run.evaluation)
        with tt.no_grad():
            losses = model.losses(texts, [])
        model.train()
        return losses

    for i in range(run.steps):
        optimizer.param_groups[0]["lr"] = run.rate * min(1.0, (i + 1) / max(run.warm_up, 1))
        texts = TOKENS[tt.randint(0, run.text - C, (B, 1)) + tt.arange(C + 1)]
        for name, value in zip(("loss", "gradient", "step_length", "activations", "gradients"), step(texts)):
            getattr(readings, name).append(value.tolist())
        if i % 10 == 9:
            readings.held_out.append(held_out(HELD_OUT).mean().item())
    readings.repeats = [held_out(HELD_OUT).mean().item() for _ in range(2)]
    readings.neighbours = [held_out(lines)[0].mean().item() for lines in (HELD_OUT[:1], HELD_OUT)]
    readings.positions = held_out(HELD_OUT).mean(0).tolist()
    return readings
