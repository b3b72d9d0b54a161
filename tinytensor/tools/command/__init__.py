"""The command `tinytensor`, in an installed wheel and in a clone alike; `python -m tinytensor` is the same.

`main.py` lists the subcommands and starts one. Models and the report are programs beside the engine (`models/`,
`derivations/`). `readings.py` derives, proves and explains what a user's file defines, `checking.py` checks a gradient
by hand, `course.py` writes the lessons into a folder, `cache.py` shows the kept builds of kernels, and `completion.py`
makes a script for a shell. A file is imported when its subcommand is called.
"""
