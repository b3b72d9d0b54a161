"""Fast paths of small eager calls: nothing depends on them but time.

`fast_calls.py` shortens the call of a formula or a view, `launch_cache.py` replays the launches of a call that comes again.
"""
