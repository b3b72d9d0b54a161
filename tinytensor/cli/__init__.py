"""The command `tinytensor`, in an installed wheel and in a clone alike; `python -m tinytensor` is the same.

`main.py` lists the subcommands and starts one. `derive.py`, `check.py`, `prove.py` and `explain.py` read what a user's
file defines, with the arguments of `arguments.py`; `course.py` writes the lessons into a folder, `cache.py` shows the
kept builds of kernels, `environment.py` has what a bug report needs, and `completion.py` makes a script for a shell. A
file is imported when its subcommand is called. Models and the report are programs beside the engine (`models/`,
`derivations/`), which entry points of pyproject.toml name. `output.py` starts a command, whose standard streams may
lack a character, be closed, or be read no longer.
"""
