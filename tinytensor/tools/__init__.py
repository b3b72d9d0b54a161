"""Tools around the engine: the profiler, complete docstrings for `help()`, the API as HTML, type stubs."""
