r"""The letters of a page: what each stands for. They are those of the documents, which use some for several things."""

import re

from models.show.lines import Table

SIZES = {  # those of 003, and those of 004
    "n": "the number of tokens of the text",
    "D": "the width of the residual stream: so many numbers for each token",
    "d_model": "the width of the residual stream: so many numbers for each token",
    "H": "the number of heads in a layer",
    "h": "the number of heads in a layer",
    "K": "the width of a head: so many numbers in a query, a key or a value",
    "d_k": "the width of a query and of a key",
    "d_v": "the width of a value",
    "F": "the inner width of the feed-forward network",
    "d_ff": "the inner width of the feed-forward network",
    "L": "the number of layers",
    "N": "the number of stacks of the encoder, and of the decoder",
    "V": "the size of the vocabulary: so many tokens are known",
    "n_vol": "the size of the vocabulary: so many tokens are known",
    "C": "the context: so many tokens are read at most",
    "n_max": "the context: so many tokens are read at most",
    "n_input": "the number of tokens of the source",
    "n_output": "the number of tokens that the decoder reads",
}
ARRAYS = {  # by the last part of a variable's key; a dot goes before it if it has other parts
    "E": "the embedding: a row of weights for each token",
    "P": "a row of weights for each position",
    "PE": "what says the position of a token",
    "E_t": "the rows of E for the tokens of the text",
    "source.X": "the rows of the embedding for the source, scaled",
    "target.Y": "the rows of the embedding for the target, scaled",
    "source.X'": "the stream of the encoder: X with the positions",
    "target.Y'": "the stream of the decoder: Y with the positions",
    "Z": "the residual stream: a row for each token of the text",
    "N": "the stream, each row brought to the same size",
    ".N": "the stream, each row brought to the same size",
    ".Zbar": "the stream, each row brought to the same size",
    ".Q": "weights that make queries of the stream",
    ".K": "weights that make keys of the stream",
    ".V": "weights that make values of the stream",
    ".q": "queries: what a token looks for",
    ".k": "keys: what a token can be recognized by",
    ".v": "values: what a token hands on",
    ".S": "scores: how well a query fits a key",
    ".S'": "scores with the mask",
    ".weights": "attention: the share that one token gives to another",
    ".Y": "the values, added up in these shares, for each head",
    ".Yhat": "the heads side by side",
    ".W": "weights that bring the heads back into the stream",
    ".A": "what attention adds to the stream",
    ".Zhat": "the stream after attention",
    ".F": "the first weights of the feed-forward network",
    ".U": "the inner numbers of the feed-forward network",
    ".inner": "the inner numbers after the activation",
    ".G": "the second weights of the feed-forward network",
    ".X": "what the feed-forward network adds to the stream",
    ".Z'": "the stream after the layer",
    "Zlast": "the stream, its rows brought to the same size for the last time",
    "last": "the stream, its rows brought to the same size for the last time",
    "O": "weights that make logits of the stream",
    "L": "logits: for each position a number for each token that may come next",
    "q": "probabilities: the logits, made positive and divided by their sum",
    "losses": "the loss at a position",
    "loss": "the loss of the text",
}
OTHERS = {  # indices and signs, as LaTeX
    "i": "an index: the position of a token",
    "j": "an index: a component of the stream",
    "k": "an index: a component of a head",
    "l": "an index: an inner component",
    "m": "an index: the position that is looked at; in a sum over the vocabulary, a token",
    "h": "an index: a head; in the gradient of a norm, what arrives times γ",
    "t": "the number of the token at a position",
    "p": "the right probabilities: the token that comes next has all",
    "y": "the token that comes next",
    "M": "the mask: it hides the tokens that come later",
    "N": "in a mean, the number of its terms",
    "d": "the width of the residual stream",
    r"\beta": "a bias, added to each row",
    r"\gamma": "a factor of a norm",
    r"\delta": "a summand of a norm",
    r"\sigma": "the variance of a row",
    r"\epsilon": "a small number, so that nothing is divided by zero",
    r"\langle": "a mean",
    "r": "in the gradient of a norm, one over the root",
    "z": "in the gradient of a norm, the normalized row",
    r"\Phi": "the normal distribution",
    r"\varphi": "the density of the normal distribution",
    r"\partial": "a gradient: how much the loss changes for a small change of what stands below",
    r"\rho": "the rate: how far a step moves the weights",
}


def letters(made: Table) -> list[dict]:
    """A row for each letter: {"tex", "means"}; a meaning is [its key, the sentence, the size or None].

    The key is the last part of a variable's key, # and the name of a size, or the sign.
    """
    rows: dict[str, list] = {}

    def add(tex: str, key: str, meaning: str, size: int | None = None) -> None:
        means = rows.setdefault(tex, [])
        if meaning not in [other for _, other, _ in means]:
            means.append([key, meaning, size])

    for v in made.variables:
        add(re.sub(r"\{\d,\d\}", "{i,k}", v.tex), *_meaning(v.key))
    lengths = [name for name in ("n", "n_input", "n_output") if any(name in v.letters for v in made.variables)]
    for name in [*made.sizes, *lengths]:
        add(re.sub(r"_(\w\w+)", r"_{\\mathrm{\1}}", name), f"#{name}", SIZES[name], made.sizes.get(name))
    written = " ".join([*(v.formula for v in made.variables), *(line for o in made.operations for line in o.backward)])
    for tex, meaning in OTHERS.items():
        if tex == r"\rho" or re.search(rf"(?<![A-Za-z\\]){re.escape(tex)}(?![A-Za-z])", written):
            add(tex, tex, meaning)
    return [{"tex": tex, "means": means} for tex, means in rows.items()]


def _meaning(key: str) -> tuple[str, str]:
    """The last part of a variable's key, and what it stands for."""
    *before, last = key.split(".")
    if last.startswith(("gamma of", "delta of")):
        return last[:5], OTHERS[rf"\{last[:5]}"]
    if last.startswith("bias of") or last in ("b", "c"):
        return "bias", OTHERS[r"\beta"]
    if sublayer := re.fullmatch(r"([RZN])\d", last):  # of 004
        return f".{sublayer[1]}", "the sum of the stream and a sublayer" if sublayer[1] == "R" else ARRAYS["N"]
    part = key if before[:1] in (["source"], ["target"]) else "." * bool(before) + last
    part = part if part in ARRAYS else last
    return part, ARRAYS[part]
