"""A function read once, without numbers: `read` runs it on tensors that have no values, with sizes that are no numbers.

solver.py    p >= 0 for polynomials of sizes, for all sizes at once
sizes.py     sizes as formulas, and the conditions and refusals of a reading
rounding.py  which constants are numbers of their formulas, and which operations jump where floats round
tensors.py   tensors without values; each operation makes a term
engine.py    what the engine does with both, and len(), range(), math.sqrt() that know sizes
language.py  the part of Python that can be read
loops.py     `for` over a size: one step on carried values
program.py   `read`: a function's terms in order, its result and its conditions
"""
