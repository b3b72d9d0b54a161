"""Tools around the engine: the command, the profiler, texts for `help()`, the API, type stubs, typeset formulas.

`on_demand.py` loads the rooms above this one when they are first used. `broken_pipe.py` ends a command whose output is
no longer read.
"""
