"""Tools around the engine: the command, profiler, texts for `help()`, API as HTML, stubs, environment, typeset formulas.

`on_demand.py` loads the rooms above this one when they are first used.
"""
