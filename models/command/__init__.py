"""The command line, and the page of a run that `--live` shows.

cli.py       the commands train, sample, translate, show, info, import and export
exchange.py  `import` and `export` of them
live.py      a server on this machine for the page live.html
"""
