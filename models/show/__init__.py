"""A trained model on one page: every number of it, forward and backward, for a text of one's own.

program.py      the tables of both models, made from the modules: the decoder of 003, the encoder-decoder of 004
lines.py        what a table is made of: variables, operations, and the modules that both models have
letters.py      what each letter stands for
page.py         `show`, which writes the page; weights and snapshots become text in it
operations.js   the operations: forward, backward, and the terms that add up to a cell
program.js      runs the table on a text; a step of learning; the choice of a token
tokenizer.js    text to tokens, as models/data/tokenizers.py does it
worker.js       the page's work as jobs, and a worker that does those of large models
draw.js         heat maps
plan.js         the whole model on one picture, with arrows
pair.js         what a translator has beside it: a source sentence, and a target that ends
tour.js         twelve stops, from one token to one probability, and from its loss to one weight and a step
page.js         what the reader sees and does; page.html and page.css are its frame and its style
"""

from models.show.page import show
from models.show.program import UnknownModule

__all__ = ["UnknownModule", "show"]
