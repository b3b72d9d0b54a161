"""The parts that depend on CPython itself: where objects lie in memory, and the bytecode of functions.

`object_layout.py` compares its tables with real objects when it is imported. Nothing else in the engine reads an object
by its address or an instruction by its name.
"""
