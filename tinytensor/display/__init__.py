"""Formulas as MathML (`typeset.py`), and as a notebook shows them (`notebook.py`)."""
