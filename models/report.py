"""What a run leaves to look at: the parameter table of eq. (19), the curve of the loss, pictures of the attention."""

from pathlib import Path

import numpy as np

from tinytensor import Tensor, no_grad, tensor
from tinytensor.nn.functional import attention_weights

from . import decoder, transformer
from .decoder import Decoder
from .transformer import Transformer


def parameter_table(model: Decoder | Transformer) -> list[tuple[str, str, object, object]]:
    """The formula for the number of parameters, `config.count`, term by term, and what the module's own shapes give.

    For 003 that is eq. (19). Rows (letters, term, value of the term, counted),
    the last one "total". Layouts that differ from the documents' have other terms. Sizes may be SymPy symbols.
    """
    counted: dict[str, object] = {}
    for name, p in model.named_parameters():
        letter = "norms" if name.endswith(("weight", "bias")) else name.split(".")[-1]
        counted[letter] = counted.get(letter, 0) + p.numel()
    rows = (_terms_of_003 if isinstance(model, Decoder) else _terms_of_004)(model.config)
    table = [(letters, term, value, sum(counted.pop(x, 0) for x in letters.split())) for letters, term, value in rows]
    assert not counted, f"parameters that no term counts: {counted}"
    table = [row for row in table if row[2] != 0 or row[3] != 0]
    return [*table, ("total", "N", sum(row[2] for row in table), model.num_parameters())]


def _terms_of_003(c: decoder.Config) -> list[tuple[str, str, object]]:
    D, F, L, V, C = c.D, c.F, c.L, c.V, c.C
    per_norm = {"plain": 0, "rms": 0, "scale": 1, "affine": 2}[c.norm]
    return [
        ("P", "C D", C * D if c.positions else 0),
        ("E", "V D", V * D),
        ("Q K V W", "4 D^2 L", 4 * D * D * L),
        ("q k v w", "4 D L", 4 * D * L if c.attention_bias else 0),
        ("F G b", "(2 D + 1) F L" if c.bias else "2 D F L", (2 * D + int(c.bias)) * F * L),
        ("c", "D L", D * L if c.bias else 0),
        ("norms", f"{per_norm} D (2 L{' + 1' if c.final_norm else ''})", per_norm * D * (2 * L + int(c.final_norm))),
        ("O", "D V", 0 if c.tied else D * V),
    ]


def _terms_of_004(c: transformer.Config) -> list[tuple[str, str, object]]:
    N, d_model, h, d_ff, n_vol, (d_k, d_v) = c.N, c.d_model, c.h, c.d_ff, c.n_vol, c.head_widths()
    norms = 5 * N + (2 if c.norm == "before" else 0)  # 2 in a stack of the encoder, 3 in one of the decoder
    return [
        ("W_Embedding", "n_vol d_model", n_vol * d_model),
        ("W_Q W_K W_V W_O", "6 d_model h (d_k + d_v) N", 6 * d_model * h * (d_k + d_v) * N),
        (
            "beta_Q beta_K beta_V beta_O",
            "3 (h (2 d_k + d_v) + d_model) N",
            3 * (h * (2 * d_k + d_v) + d_model) * N if c.bias else 0,
        ),
        ("W_1 W_2", "4 d_model d_ff N", 4 * d_model * d_ff * N),
        ("b_1 b_2", "2 (d_ff + d_model) N", 2 * (d_ff + d_model) * N),
        ("norms", f"{2 * norms} d_model", 2 * norms * d_model if c.affine else 0),
        ("W_S", "d_model n_vol", 0 if c.tied else d_model * n_vol),
        ("b_S", "n_vol", n_vol),
    ]


def matches(table: list[tuple]) -> bool:
    """Is every term equal to what was counted, and the total to their sum?"""
    return all(_equal(value, counted) for _, _, value, counted in table) and _equal(
        table[-1][3], sum(row[3] for row in table[:-1])
    )


def _equal(a, b) -> bool:
    difference = a - b
    return (difference.simplify() if hasattr(difference, "simplify") else difference) == 0


def format_table(table: list[tuple]) -> str:
    """The table as text, with "match: True" at its end."""
    cells = [("parameters", "term", "value", "counted")]
    cells += [(a, b, *(f"{n:,}" if isinstance(n, int) else str(n) for n in (value, n))) for a, b, value, n in table]
    widths = [max(len(row[i]) for row in cells) for i in range(4)]
    lines = [f"{a:<{widths[0]}}  {b:<{widths[1]}}  {v:>{widths[2]}}  {n:>{widths[3]}}" for a, b, v, n in cells]
    lines.insert(-1, "-" * len(lines[0]))
    return "\n".join(lines) + f"  match: {matches(table)}"


def attention_maps(model: Decoder, tokens: list[int]) -> np.ndarray:
    """softmax(S') of eq. (6) for each layer and head: (L, H, C, C); row i is how position i spreads its attention."""
    training = model.training
    model.eval()
    maps = []
    with no_grad():
        Z = model.embed(tensor([tokens]))
        for block in model.blocks:
            q, k, _ = block.heads(Z if model.config.residual == "once" else block.enter(Z))
            maps.append(attention_weights(q, k, is_causal=model.config.causal).numpy()[0])
            Z = block(Z)
    model.train(training)
    return np.stack(maps)


def _pyplot():
    """matplotlib without a screen, loaded when the first picture is drawn (it takes a second or two)."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    return pyplot


def draw_loss(path: Path, rows: list[dict], baselines: dict[str, float]) -> None:
    """loss.png: training and held-out loss over the steps, n-gram models as lines."""
    plt = _pyplot()
    figure, axes = plt.subplots(figsize=(8, 5), layout="constrained")
    axes.plot([r["step"] for r in rows], [r["loss"] for r in rows], label="training", linewidth=1)
    held = [(r["step"], r["heldout_loss"]) for r in rows if r.get("heldout_loss") is not None]
    if held:
        axes.plot(*zip(*held, strict=True), "o-", label="held out", markersize=4)
    for i, (name, value) in enumerate(baselines.items()):
        axes.axhline(value, linestyle="--", linewidth=1, color=f"C{i + 2}", label=f"{name} ({value:.3f})")
    axes.set(xlabel="step", ylabel="nats per token", title="loss of eq. (16)")
    axes.legend(fontsize="small")
    figure.savefig(path, dpi=120)
    plt.close(figure)


def draw_attention(path: Path, maps: np.ndarray, rows: list[str], columns: list[str]) -> None:
    """attention.png: one field per layer and head, maps (L, H, rows, columns); rows attend to columns."""
    plt = _pyplot()
    L, H, n, m = maps.shape
    style = {"fontsize": 6, "family": "monospace", "parse_math": False}  # a token may be "$"
    figure, grid = plt.subplots(L, H, figsize=(4 * H, 4 * L), layout="constrained", squeeze=False)
    for layer in range(L):
        for head in range(H):
            axes = grid[layer, head]
            axes.imshow(maps[layer, head], cmap="viridis", vmin=0)
            axes.set_title(f"layer {layer + 1}, head {head + 1}", fontsize="small")
            axes.set_xticks(range(m), columns if layer == L - 1 else [""] * m, rotation=90, **style)
            axes.set_yticks(range(n), rows if head == 0 else [""] * n, **style)
    figure.savefig(path, dpi=120)
    plt.close(figure)


def draw_stream(path: Path, stream: list[tuple[str, Tensor, Tensor]], source: list[str], output: list[str]) -> None:
    """stream.png: what each sublayer writes into the residual stream of 002, for each word.

    `stream` holds (name, the stream before the sublayer, the stream after it), (words, d_model) each, from the first
    sublayer to the last. On the left the length of what is written beside the length of what the stream then holds; on
    the right the cosine between the stream and the embedding that it began with: how much of that is still there.
    """
    plt = _pyplot()
    figure, grid = plt.subplots(2, 2, figsize=(11, 2.5 + 0.45 * len(stream)), layout="constrained")
    titles = ("length of what the sublayer writes / length of the stream", "cosine of the stream with its embedding")
    for row, (part, words) in zip(grid, (("encoder", source), ("decoder", output))):
        entries = [(name, b.numpy(), a.numpy()) for name, b, a in stream if name.startswith(part)]
        first = entries[0][1]  # (words, d_model)
        names = [f"stack {int(stack) + 1}, {sublayer}" for _, stack, sublayer in (e[0].split(".") for e in entries)]
        written = [_length(after - before) / _length(after) for _, before, after in entries]
        kept = [(after * first).sum(-1) / (_length(after) * _length(first)) for _, _, after in entries]
        for axes, values, title, colours in zip(row, (written, kept), titles, ("magma", "RdBu")):
            low = {"magma": 0, "RdBu": -1}[colours]
            shown = axes.imshow(np.stack(values), cmap=colours, vmin=low, vmax=max(1, np.max(values)), origin="lower")
            for (i, j), value in np.ndenumerate(np.stack(values)):
                dark = np.mean(shown.to_rgba(value)[:3]) < 0.5
                axes.text(j, i, f"{value:.2f}", ha="center", va="center", size=6, color="white" if dark else "black")
            axes.set_title(f"{part}: {title}", fontsize="small")
            axes.set_yticks(range(len(names)), names, fontsize=7)
            axes.set_xticks(range(len(words)), words, fontsize=7, parse_math=False)
            figure.colorbar(shown, ax=axes)
    figure.suptitle("the residual stream, from the first sublayer (below) to the last (above)", fontsize="medium")
    figure.savefig(path, dpi=120)
    plt.close(figure)


def _length(x: np.ndarray) -> np.ndarray:
    return np.sqrt((x * x).sum(-1))
