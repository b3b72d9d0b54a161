"""Fast paths of small eager calls: nothing depends on them but time.

`fast_calls.py` shortens the call of a formula or a view; `launch_cache.py` repeats the launches of an earlier call.
"""
