"""The command line, and the page of a run that `--live` shows.

cli.py            the commands train, evaluate, sample, translate, show, info, import and export
subcommands.py    the same as subcommands of `tinytensor`
resume.py         the trainer of a run that goes on
configuration.py  the options of a run in a TOML file
exchange.py       `import` and `export` of them
monitors.py       a trace of some steps, and curves for TensorBoard
live.py           a server on this machine for the page live.html
"""
