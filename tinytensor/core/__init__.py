"""What a tensor, an operation and the tape are: an evening's reading.

In this order: `tensor.py`, `op.py`, `tape.py`, `dispatch.py` (each number that the engine computes passes `launch`).
Around them: dtypes and how several meet (`promotion.py`), grad modes, and the table of where each operation appears.
"""
