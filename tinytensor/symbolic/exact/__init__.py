"""Exact scalars, and kernels that run on them from their own Python source.

scalars.py        numbers that are formulas (`Symbolic`); comparisons by a witness
finite_field.py   scalars modulo a prime, for formulas too large to be written down
lifting.py        `lift`: a kernel's source, run over exact scalars
tensors.py        `symbols` and `latex`: tensors of formulas, and their derivatives
"""
