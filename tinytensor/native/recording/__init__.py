"""Recorded programs: `compile` records a training step once, and native code replays it.

`recording.py` is a recording, `pool.py` its memory, `compiled.py` the function that users call. `guards.py` and
`bytecode.py` find the values that a function reads beyond its arguments, `external.py` the tensors from
outside.
"""
