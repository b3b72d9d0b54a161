"""A vector language for kernels: registers and tiles of registers as values, and functions of one number.

`isa.py` knows the machine's registers. Loops compute with `vector.py` (registers), `tile.py` (rows of registers),
`score_tile.py` (the tile of attention) and `math.py` (exp, log and others of one number), which `compiled_math.py`
compiles in its own way.
"""
