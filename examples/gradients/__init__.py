"""The gradients people look up: functions from papers, their gradients derived for any size, and proved.

    python -m examples.gradients               # all of them
    python -m examples.gradients rms_norm      # one

`functions.py` has the functions as a user writes them, and `derive` of `tinytensor.symbolic` does the rest. The site of
the course has a page for each.
"""
