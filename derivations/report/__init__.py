"""The report of a run: Markdown and an HTML page, with the statements of the documents and the claims about them.

page.py         writes the report; page.css is its style
documents.py    the statements of the five documents, place by place, and the claims that cover them
subcommands.py  `tinytensor report`
"""
