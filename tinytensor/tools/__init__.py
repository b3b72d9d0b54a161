"""Tools around the engine: the command, the profiler, texts for `help()`, the API, type stubs, typeset formulas.

`on_demand.py` loads the rooms above this one when they are first used. `output.py` starts a command, whose standard
streams may lack a character, be closed, or be read no longer.
"""
