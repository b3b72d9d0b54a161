"""The core: tensors, operations and the tape, an evening's reading.

Read `tensor.py`, `op.py`, `tape.py` and `dispatch.py` in this order (each computed number passes `launch`). Beside them
are dtypes and their promotion (`promotion.py`), grad modes, and the table of names of all operations (`registry.py`).
`late_bound.py` has the functions that higher rooms set, `recorder.py` what is reported to a recording. `kernel.py`
has the forms of kernels, `reference.py` what they compute, and `backend.py` the object that runs them;
`backend_choice.py` says which one. It imports no other room.
"""
