"""The encoder-decoder transformer of documents 000 and 004.

    model.py   the page: embedding, stacks and loss, in the letters of 004; how the documents are read
    config.py  sizes and switches, the named configurations, and the first tokens of the vocabulary

Attention, which both models share, stands in models/attention.py.
"""

from models.transformer.config import BEGIN, CONFIGS, PAD, SPECIAL, STOP, Config
from models.transformer.model import (
    DecoderStack,
    EncoderStack,
    FeedForward,
    Sublayer,
    Transformer,
    positional_encoding,
    shift,
)

__all__ = [
    "BEGIN",
    "CONFIGS",
    "PAD",
    "SPECIAL",
    "STOP",
    "Config",
    "DecoderStack",
    "EncoderStack",
    "FeedForward",
    "Sublayer",
    "Transformer",
    "positional_encoding",
    "shift",
]
