"""The mathematics of the documents, derived and proved, and compared with the engine: `python -m derivations`."""
