"""The command line, and the page of a run that `--live` shows.

cli.py   the commands train, sample, translate, show and info
live.py  a server on this machine for the page live.html
"""
