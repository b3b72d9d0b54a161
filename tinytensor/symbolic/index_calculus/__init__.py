"""Formulas with indices and sums, for sizes that stay symbols; their derivatives; how they are printed.

functions.py   the table of functions: all that is known of each stands in its row
formulas.py    the index calculus: arrays, sums, deltas, derivatives
order.py       the order of factors and terms, and numbers as they were written
notation.py    formulas as text and as LaTeX
matrices.py    formulas in matrix notation
linear_algebra.py entries of inverses and Cholesky factors, determinants, their derivatives
matrix_laws.py the laws of matrices in the normal form
signs.py       what is known of the sign of a formula
quotients.py   fractions of polynomials over entries, sums and functions
vanishing.py   the rules that make theorems, and the laws by which a formula is 0
adjoints.py    programs of formulas, and the adjoints of their names
numpy_printer.py formulas as NumPy code
"""
