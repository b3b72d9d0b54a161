"""The decoder-only transformer of document 003. Its equations (1) to (16) stand in order in equations.py.

equations.py  the page: a line for each equation
model.py      the modules that own the weights, their initial values, and the methods in which switches act
config.py     sizes and switches, and the named configurations
cache.py      keys and values of tokens that were read before
"""

from models.decoder.cache import Cache
from models.decoder.config import ACTIVATIONS, CONFIGS, NORMS, RESIDUALS, Config
from models.decoder.model import Block, Decoder

__all__ = ["ACTIVATIONS", "CONFIGS", "NORMS", "RESIDUALS", "Block", "Cache", "Config", "Decoder"]
