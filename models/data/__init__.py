"""The data that models read: text, tokens, pairs of sentences; and n-gram models to compare with.

text.py          text for training: which part is held out, its windows; Python's language reference
sources.py       the text of a user: a file, a folder, lines of JSON, files of tokens
tokenizers.py    text to integers and back: characters, words, byte pairs
vocabularies.py  vocabularies that come with a model or with files of tokens
pairs.py         pairs of sentences, read from a file and put into batches of one length
tables.py        rows of tables: columns between commas, tabs or ::, or JSON objects
grammar.py       a small French with its English, made by rules
ngram.py         interpolated n-gram models of the same tokens: the losses to beat
"""
