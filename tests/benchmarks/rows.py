"""What is measured: one entry for each row, with the peers that it is measured against and the goal for each.

A row names a kind of work (a function of `worker`) and its settings. Whoever does the work is a side: a peer, on so
many threads, perhaps beside a busy loop or with empty caches. The first side is ours; a ratio says how many times as
much the other one takes, so more is better for us.

Each side comes back with figures under labels. What stands before ": " in a label is a line of the report; several
figures of a line are told as the geometric mean of their ratios and the least of them.
"""

from collections.abc import Iterator
from dataclasses import dataclass

MANY = 0  # as many threads as --threads says


def on(threads: int) -> str:
    """So many threads, in words."""
    return "1 thread" if threads == 1 else f"{threads} threads"


@dataclass(frozen=True)
class Side:
    """Who does the work, and how; `goal` is the ratio to be reached against this side, for each line or for all."""

    peer: str
    goal: float | dict[str, float] | None = None
    threads: int | None = None  # where it differs from the row's
    busy: bool = False  # beside a busy loop
    empty: bool = False  # with empty caches of compiled code

    def goal_of(self, line: str) -> float | None:
        return self.goal.get(line, self.goal.get("")) if isinstance(self.goal, dict) else self.goal


@dataclass(frozen=True)
class Row:
    """One row: what is done, by whom, and in what it is counted."""

    group: str  # by which it is chosen
    name: str
    work: str
    settings: dict
    threads: int
    others: tuple[Side, ...]
    ours: Side = Side("tinytensor")
    unit: str = "ms"
    quick: bool = False  # measured with --quick too
    limit: float | None = None  # seconds; no more than this, whatever the others take
    least: float | None = None  # no single figure of a line may have a smaller ratio
    passes: int = 100  # no more passes than this, where each takes long
    axis: str | None = None  # of a plot: what the labels count
    many: bool = False  # has several lines, which have names of their own

    @property
    def sides(self) -> tuple[Side, ...]:
        return (self.ours, *self.others)

    @property
    def title(self) -> str:
        return f"{self.name}, {on(self.threads)}"


def decoder(config: str, batch: int, **changes) -> dict:
    """A training step of a decoder of models/decoder/, perhaps with other sizes."""
    return {"model": "decoder", "config": config, "batch": batch, "changes": changes}


def training(name: str, settings: dict, threads: int, goals: tuple, quick: bool = False) -> Row:
    """A training step; the goals are those against PyTorch eager, torch.compile and JAX, as far as there are any."""
    others = tuple(Side(peer, goal) for peer, goal in zip(("torch", "torch.compile", "jax"), goals))
    return Row("train", name, "train", {"cases": {"step": settings}}, threads, others, quick=quick)


# M x K x N of the products A (M, K) B (K, N) in a forward pass; a backward pass has dC B^T and A^T dC for each of them
MODELS = {
    "toth-tiny, batch 8": (768, ((32, 32), (32, 96), (32, 64), (64, 32), (32, 300))),
    "toth-tiny, batch 1": (96, ((32, 32), (32, 96), (32, 64), (64, 32), (32, 300))),
    "nano, batch 12": (768, ((128, 128), (128, 384), (128, 512), (512, 128), (128, 65))),
    "micro, batch 1": (16, ((16, 16), (16, 48), (16, 64), (64, 16), (16, 27))),
    "micro, batch 32": (512, ((16, 16), (16, 48), (16, 64), (64, 16), (16, 27))),
    "translator, batch 64": (768, ((64, 64), (64, 192), (64, 128), (128, 64), (64, 487))),
    "width 256, batch 8": (1024, ((256, 768), (256, 256), (256, 1024), (1024, 256), (256, 512))),
    "width 384, batch 4": (1024, ((384, 1152), (384, 384), (384, 1536), (1536, 384), (384, 65))),
    "width 768, batch 2": (512, ((768, 2304), (768, 768), (768, 3072), (3072, 768), (768, 8192))),
    "gpt2, 128 tokens": (128, ((768, 2304), (768, 50257))),
}
SQUARES = (32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048)


def products() -> Iterator[tuple[str, int, int, int]]:
    """(form, M, K, N) of every product: C (M, N) = A (M, K) B (K, N), one of both read transposed or none."""
    shapes = [(M, K, N) for M, pairs in MODELS.values() for K, N in pairs]
    for M, K, N in dict.fromkeys(shapes):
        yield "A·B", M, K, N
        yield "A·Bᵀ", M, N, K  # the gradient at A
        yield "Aᵀ·B", K, M, N  # the gradient at B: a long sum, a small result
    for n in SQUARES:
        yield from ((form, n, n, n) for form in ("A·B", "A·Bᵀ", "Aᵀ·B"))


# Shapes as the models have them: toth-tiny with batch 8, nano with batch 12.
OPERATIONS = {
    "softmax": ((768, 300), (3072, 64)),
    "layer_norm": ((768, 32), (768, 128)),
    "cross_entropy": ((768, 300), (768, 65)),
    "GELU": ((768, 512),),
    "attention": ((8, 4, 96, 8), (12, 4, 64, 32)),  # causal: (batch, heads, positions, width of a head)
}

TOTH, NANO = decoder("toth-tiny", 8), decoder("nano", 12)
# Wider than a CPU is mostly asked for: nanoGPT's size for a GPU, and GPT-2's width.
WIDE = {
    "width 256, batch 8": decoder("nano", 8, D=256, F=1024, L=4, H=8, V=512, C=128),
    "width 384, batch 4": decoder("nano", 4, D=384, F=1536, L=6, H=6, V=65, C=256),
    "width 768, batch 2": decoder("nano", 2, D=768, F=3072, L=2, H=12, V=8192, C=256),
}
TRANSLATOR = {"model": "transformer", "config": "translate", "batch": 64, "changes": {}}


def curve(axis: str, cases: dict[int, dict]) -> Row:
    """Time per token of a training step, against one of the sizes."""
    settings = {"cases": {str(size): case for size, case in cases.items()}, "per_token": True}
    others = tuple(Side(peer) for peer in ("torch", "torch.compile", "jax"))
    return Row(
        "curves", f"time per token against {axis}", "train", settings, MANY, others, unit="µs", passes=2, axis=axis
    )


ROWS = [
    training("toth-tiny, batch 8", TOTH, MANY, (6, 5, 4), quick=True),
    training("toth-tiny, batch 1", decoder("toth-tiny", 1), 1, (5, 4, 2.5), quick=True),
    training("nano, batch 12", NANO, MANY, (1.8, 1.5, 3.5), quick=True),
    training("micro, batch 1", decoder("micro", 1), 1, (12, 8, 3)),
    training("micro, batch 32", decoder("micro", 32), MANY, (5, 5, 3.5)),
    training("translator, batch 64", TRANSLATOR, MANY, (3,)),
    *(
        Row("wide", name, "train", {"cases": {"step": WIDE[name]}}, MANY, (Side("torch", goal),))
        for name, goal in zip(WIDE, (1.3, 1.2, 1.15))
    ),
    Row(
        "threads", "nano, batch 12", "train", {"cases": {"step": NANO}}, MANY, (Side("tinytensor", 1.7, threads=1),)
    ),
    *(
        Row("sample", f"a token of {name}", "sample", decoder(name, 1), 1, (Side("torch", goal),))
        for name, goal in (("toth-tiny", 10), ("nano", 4))
    ),
    *(
        Row("gpt2", name, work, decoder("gpt2", 1, dropout=0.0), MANY, (Side("torch", 1.0),), passes=2)
        for name, work in (("gpt2, the first token after 128", "prefill"), ("gpt2, a token after them", "after"))
    ),
    *(
        Row(
            "matmul", "eager " * eager + "matmul", "matmul", {"products": list(products()), "eager": eager}, threads,
            (Side("numpy", 1.0),), unit="µs", quick=threads == 1 and not eager, least=0.8 if eager else 0.85, many=True,
        )
        for eager in (False, True)
        for threads in (1, MANY)
    ),
    *(
        Row(
            "ops", "op", "ops", {"operations": OPERATIONS}, threads,
            (Side("torch", {"attention forward": 5, "attention backward": 5, "": 1.5}), Side("moves"), Side("parts")),
            unit="µs", many=True,
        )
        for threads in (1, MANY)
    ),
    *(
        Row(
            "calls", name, "calls", {"calls": name, "times": times}, 1, (Side("torch", goal),), unit="µs",
            quick=name == "small calls", least=goal, many=True,
        )
        for name, times, goal in (
            ("small calls", 20, 0.5), ("derivatives", 2, 0.2), ("einsum", 20, 0.67), ("programs", 1, 0.67),
        )
    ),
    Row(
        "start", "process start to the end of the first step, warm caches", "start", TOTH, MANY,
        (Side("torch", 3), Side("torch.compile"), Side("jax")), unit="s", passes=3,
    ),
    Row(
        "start", "process start to the end of the first step, empty caches", "start", TOTH, MANY,
        (Side("torch.compile", empty=True),), ours=Side("tinytensor", empty=True), unit="s", limit=12.0, passes=2,
    ),
    *(
        Row(
            "memory", f"peak of a step above the imports, {name}", "memory", case, MANY, (Side("torch", 1.0),),
            unit="MB",
        )
        for name, case in (("toth-tiny, batch 8", TOTH), ("nano, batch 12", NANO), *list(WIDE.items())[1:])
    ),
    *(
        Row(
            "busy", f"{name}, beside a busy loop", "train", {"cases": {"step": case}, "mean": True}, MANY,
            (Side("tinytensor", 1 / 1.5, threads=1, busy=True),), ours=Side("tinytensor", busy=True),
        )
        for name, case in (("toth-tiny, batch 8", TOTH), ("nano, batch 12", NANO))
    ),
    curve("batch", {B: decoder("toth-tiny", B) for B in (1, 2, 4, 8, 16, 32, 64)}),
    curve("context", {C: decoder("toth-tiny", 8, C=C) for C in (16, 32, 64, 128, 256, 512)}),
    curve("width", {D: decoder("toth-tiny", 8, D=D, F=2 * D) for D in (16, 32, 64, 128, 256)}),
    curve(
        "width (as wide as GPT-2)",
        {D: decoder("nano", 4, D=D, F=4 * D, H=D // 32, L=2, C=128) for D in (64, 128, 256, 384, 512, 768)},
    ),
    curve("depth", {L: decoder("toth-tiny", 8, L=L) for L in (1, 2, 4, 8)}),
]  # fmt: skip
GROUPS = list(dict.fromkeys(row.group for row in ROWS))
