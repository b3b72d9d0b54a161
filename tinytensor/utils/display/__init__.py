"""Formulas as MathML (`latex.py`), and as a notebook shows them (`notebook.py`)."""
