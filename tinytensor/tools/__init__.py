"""Tools around the engine: anomaly mode, the profiler, what `help()` shows, the API as HTML, type stubs."""
