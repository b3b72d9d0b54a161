"""A look inside a model: the parameter table of eq. (19), and where each head attends (`viz.plots` draws it)."""

import numpy as np

from models import decoder, transformer
from models.attention import project
from models.decoder import Decoder
from models.transformer import Transformer
from tinytensor import no_grad, tensor
from tinytensor.nn.functional import attention_weights


def parameter_table(model: Decoder | Transformer) -> list[tuple[str, str, object, object]]:
    """The formula for the number of parameters (`config.count`), term by term, beside counts from the shapes.

    For 003 the formula is eq. (19). Rows are (letters, term, value of the term, count), the last one "total". Layouts
    that differ from the documents' have other terms. Sizes may be SymPy symbols.
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
    """Does every term equal its count, and the total their sum?"""
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
            _, N = block.normalized(Z)
            q, k = project(N, block.Q, block.q), project(N, block.K, block.k)
            maps.append(attention_weights(q, k, is_causal=model.config.causal).numpy()[0])
            Z = block(Z)
    model.train(training)
    return np.stack(maps)
