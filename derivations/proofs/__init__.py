"""The parts of `python -m derivations`: each file declares claims, and is the part of its name.

index, eq17, program, sublayers, eq19, forward, theorems, errata  the documents
engine, kinks, kernels, real_size, rounding                              the engine that ships
"""
