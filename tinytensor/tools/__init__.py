"""Tools around the engine: the profiler, what `help()` shows, the API as HTML, type stubs."""
