"""Tools around the engine: the command, the profiler, texts for `help()`, the API as HTML, type stubs, the environment.

`on_demand.py` loads the rooms above this one when they are first used.
"""
