"""A trained decoder on one page: every number of it, forward and backward, for a text of one's own.

program.py      the table: variables and operations, made from the modules
page.py         `show`, which writes the page; weights and snapshots become text in it
operations.js   the operations: forward, backward, and the terms that add up to a cell
program.js      runs the table on a text; a step of learning; the choice of a token
tokenizer.js    text to tokens, as models/data/tokenizers.py does it
draw.js         heat maps
page.js         what the reader sees and does; page.html and page.css are its frame and its style
"""

from models.show.page import show
from models.show.program import UnknownModule

__all__ = ["UnknownModule", "show"]
