"""The mathematics of the documents, derived and proved, and compared with the engine: `python -m derivations`.

equations.py   document 003's equations (1) to (17), to be read beside it
adjoints.py    programs written by hand, their adjoints, and the proof of closed forms
claims.py      the form of a claim: a statement, its evidence, its sizes, its assumptions
__main__.py    runs the claims
proofs/        the parts, which declare the claims: about the documents, and about the engine that ships
exact/         the numbers and definitions with which the engine is compared
report/        the report, and the statements of the documents with the claims that cover them
"""
