"""The command line, and the page of a run that `--live` shows.

cli.py   `python -m models train | sample | translate | info`
live.py  a server on this machine for the page live.html
"""
