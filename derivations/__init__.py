"""The mathematics of the documents, derived and proved, and compared with the engine: `python -m derivations`.

    claims.py      what a claim is: a statement, how it is established, at which sizes, whom it trusts
    documents.py   what each document states, and which claims cover it, or why none does
    __main__.py    runs the claims;  report.py  writes what came of them (report.css: how the page looks)
    calculus.py    formulas with indices and sums for sizes that stay symbols;  notation.py  prints them
    adjoints.py    programs of such formulas, their adjoints, and the proof that a closed form is the derived one
    equations.py   document 003's equations (1) to (17), to be read beside it

The other files are the parts, which declare the claims: the calculus (index), equation (17) derived (eq17), run beside
the engine (program), what 000 and 004 have beyond it (sublayers), equation (19) and other counts (eq19), the formulas
against the models (forward), the engine's own gradients (engine), theorems, errata.
"""
