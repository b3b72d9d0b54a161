"""Mistakes planted in modules, most of them where two options meet. The cases of tests/nn/pairwise.py must notice each.

Each is a text in a module's file in the place of another. Its classes are made anew from that file, and stand in the
place of the engine's for a while.
"""

import importlib
import inspect
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import product
from unittest.mock import patch

from models import attention as heads
from models import decoder as decoders
from models import transformer as transformers
from models.decoder import cache, equations, model
from models.transformer import model as stacks
from tests.nn import pairwise
from tinytensor.nn import attention as attentions
from tinytensor.nn import transformer as layers

from .planting import _replaced
from .tally import Tally, notices

MULTIHEAD, LAYERS, DECODER, ENCODER_DECODER = pairwise.SUBJECTS
ATTENTION, EQUATIONS, SWITCHES = "tinytensor.nn.attention", "models.decoder.equations", "models.decoder.model"
WHO_HAS_THEM = (attentions, layers, heads, decoders, cache, equations, model, transformers, stacks)

_MISTAKES: dict[
    tuple[str, str], dict[str, tuple[str, str]]
] = {  # by subject and module: {what is wrong: (right, wrong)}
    (MULTIHEAD, ATTENTION): {
        "causality is forgotten where there is padding": (
            "is_causal and attn_mask is None",
            "is_causal and attn_mask is None and key_padding_mask is None",
        ),
        "a mask of each head is taken for one of each sentence": (
            "attn_mask.reshape((B, H, C, M))",
            "attn_mask.reshape((H, B, C, M)).transpose(0, 1)",
        ),
        "every head has the first one's mask": (
            "attn_mask.reshape((B, H, C, M))",
            "attn_mask.reshape((B, H, C, M))[:, :1]",
        ),
        "padding is forgotten where scores are added": ("for m in added[1:]:", "for m in added[2:]:"),
        "a bool mask counts 0 beside one that is added": (
            "where(m, -math.inf, zeros((), dtype=q.dtype))",
            "where(m, 0.0, zeros((), dtype=q.dtype))",
        ),
        "the sense of a bool mask is turned round": ("return forbidden.logical_not()", "return forbidden"),
        "of two bool masks both must forbid": ("logical_or(m)", "logical_and(m)"),
        "weights are dropped in evaluation too": ("p = self.dropout if self.training else 0.0", "p = self.dropout"),
        "nothing is dropped where the weights are asked for": (
            "weights = F.dropout(F.attention_weights(Q, K, mask), p)",
            "weights = F.attention_weights(Q, K, mask)",
        ),
        "the mask is forgotten where weights are asked for": (
            "F.attention_weights(Q, K, mask)",
            "F.attention_weights(Q, K, None)",
        ),
        "the weights are a sum over heads": ("weights = weights.mean(1)", "weights = weights.sum(1)"),
        "heads before positions in the result": (
            "heads.transpose(1, 2).flatten(2)",
            "heads.reshape((heads.shape[0], heads.shape[2], -1))",
        ),
        "positions and sentences exchanged in the result": (
            "return output if self.batch_first else output.transpose(0, 1), weights",
            "return output, weights",
        ),
        "one bias for all three": ("self.in_proj_bias.chunk(3)", "(self.in_proj_bias.chunk(3)[0],) * 3"),
        "no bias where keys have another width": (
            "if self.in_proj_bias is None else",
            "if self.in_proj_bias is None or not self.together else",
        ),
    },
    (LAYERS, "tinytensor.nn.transformer"): {
        "the norm comes first always": ("if self.norm_first:", "if True:"),
        "the norm is left out where it comes first": ("dropout(sublayer(norm(x)))", "dropout(sublayer(x))"),
        "what a sublayer gives is not dropped where the norm comes first": (
            "x + dropout(sublayer(norm(x)))",
            "x + sublayer(norm(x))",
        ),
        "one norm for two sublayers": (
            "self._around(2, self._around(1, tgt, attend), look)",
            "self._around(1, self._around(1, tgt, attend), look)",
        ),
        "the mask of the memory for that of the target": (
            "masks = _causal(tgt_mask, tgt_is_causal)",
            "masks = _causal(tgt_mask, memory_is_causal)",
        ),
        "padding of the memory is forgotten": ("key_padding_mask=memory_key_padding_mask, **masks", "**masks"),
        "padding of the target is forgotten": ("key_padding_mask=tgt_key_padding_mask, **masks", "**masks"),
        "the source is not causal": (
            "memory = self.encoder(src, src_mask, src_key_padding_mask, src_is_causal)",
            "memory = self.encoder(src, src_mask, src_key_padding_mask)",
        ),
        "the inner layer is not dropped": (
            "self.linear2(self.dropout(self.activation(self.linear1(x))))",
            "self.linear2(self.activation(self.linear1(x)))",
        ),
        "the end is not normalised": ("return x if self.norm is None else self.norm(x)", "return x"),
        "ReLU always": (
            "ACTIVATIONS[activation] if isinstance(activation, str)",
            'ACTIVATIONS["relu"] if isinstance(activation, str)',
        ),
    },
    (DECODER, EQUATIONS): {
        "the causal mask is forgotten where weights are dropped": (
            "known, w.dropout, causal)",
            "known, w.dropout, causal and not w.dropout)",
        ),
        "the mask is forgotten in evaluation": ("w.config.causal and q.shape[2] > 1", "w.config.causal and w.training"),
        "padding counts": ("t.flatten()", "t.flatten().clamp(0)"),
        "no activation but ReLU": ("w.config.activation)", '"relu")'),
        "attention's result has no bias": ("affine(Y_hat, w.W, w.w)", "affine(Y_hat, w.W, None)"),
    },
    (DECODER, "models.decoder.cache"): {
        "the cache shows places that are still empty": ("self.positions <= self.at", "self.positions <= self.at + 1")
    },
    (DECODER, SWITCHES): {
        "the cache counts its first tokens as one": ("cache.at += C", "cache.at += 1"),
        "the position of a token in a cache is 0": ("functional.embedding(at, self.P)", "self.P[:1]"),
        "every layer normalises what was normalised once": ('N = Z if self.config.residual == "once" else', "N ="),
        "the literal residual is added to what was not normalised": (
            '(N if self.config.residual == "literal" else Z)',
            "Z",
        ),
        "the embedding is not dropped where it is normalised": (
            "return functional.dropout(Z, self.config.dropout, self.training)",
            'return functional.dropout(Z, self.config.dropout, self.training and self.config.residual != "once")',
        ),
        "tied weights are not transposed": (
            "self.E.t() if self.O is None else self.O",
            "self.E.t() * (1 if self.P is None else 1.001) if self.O is None else self.O",
        ),
        "no final norm where weights are tied": (
            "Z if self.final is None else self.final(Z)",
            "Z if self.final is None or self.O is None else self.final(Z)",
        ),
    },
    (DECODER, "models.attention"): {
        "heads before positions in (7)": (
            "heads.transpose(1, 2).flatten(2)",
            "heads.reshape((heads.shape[0], heads.shape[2], -1))",
        )
    },
    (ENCODER_DECODER, "models.transformer.model"): {
        "the decoder sees what comes later": (
            "self.masked(X, is_causal=is_causal, cache=own)",
            "self.masked(X, is_causal=False, cache=own)",
        ),
        "padding is looked at": (
            "self.attention(X, encoded, mask, cache=other)",
            "self.attention(X, encoded, None, cache=other)",
        ),
        "a cached token has position 0": ("self.embed(shifted, first)", "self.embed(shifted)"),
        "y_0 is a token though it should be 0": ('if config.begin == "zero":', "if False:"),
        "smoothing in evaluation": (
            "self.config.label_smoothing if self.training else 0.0",
            "self.config.label_smoothing",
        ),
        "a mean always": ("reduction=reduction", 'reduction="mean"'),
        "the stream's end is not normalised": ("Z if self.decoder_norm is None else self.decoder_norm(Z)", "Z"),
        "dropout in evaluation": (
            "functional.dropout(f(self.norm(X)), p, self.training)",
            "functional.dropout(f(self.norm(X)), p)",
        ),
    },
    (ENCODER_DECODER, "models.attention"): {
        "a bias is forgotten in the cache of the input": (
            "V = project(source, self.W_V, self.beta_V)",
            "V = project(source, self.W_V, None if cache is not None else self.beta_V)",
        )
    },
}


HAND = {  # what is wrong: (subject, module, right, wrong)
    what: (subject, module, *change)
    for (subject, module), changes in _MISTAKES.items()
    for what, change in changes.items()
}


@contextmanager
def planted(module: str, right: str, wrong: str) -> Iterator[None]:
    """The classes and functions of a module out of a source in which `wrong` stands for `right`, wherever they are."""
    there = importlib.import_module(module)
    copy = {name: value for name, value in vars(there).items() if name.startswith("__")}
    exec(compile(_replaced(inspect.getsource(there), right, wrong), there.__file__, "exec"), copy)
    made = {n: v for n, v in copy.items() if getattr(v, "__module__", None) == module and hasattr(v, "__name__")}
    before = dict(vars(there))
    with ExitStack() as stack:
        for index, name in product(WHO_HAS_THEM, made):
            if getattr(index, name, None) is before[name]:
                stack.enter_context(patch.object(index, name, made[name]))
        yield


def passes(subject: str) -> bool:
    """The checker: nothing is wrong with any case."""
    check = pairwise.SUBJECTS[subject][2]
    return not any(check(case) for case in pairwise.cases(subject))


def by_hand() -> Tally:
    tally = Tally()
    for what, (subject, *change) in HAND.items():
        with planted(change[0], "", ""):  # a copy without a mistake
            if subject not in tally.controls:
                assert passes(subject), f"{subject}: the copy without a mistake is refused"
                tally.controls.add(subject)
        with planted(*change):
            tally.enter(f"{subject}: {what}", notices(lambda subject=subject: passes(subject)))
    return tally
