"""The numbers and definitions with which the engine is compared.

balls.py        certified enclosures of real numbers, as scalars that the engine computes with
residues.py     claims over residues modulo a random prime: their assumptions, and their equations
reference.py    the definition of each kernel over exact scalars
replay.py       a recorded program, run over exact scalars
rules_in_coq.py rules of scalar operations as theorems of Coq
"""
